/* Texts with labels, read row by row: tables (CSV, TSV) and files with a JSON object on each line.
 *
 *     tl_text_rows *rows;
 *     TL_TRY(tl_text_rows_open(&rows, "reviews.jsonl",
 *                              &(tl_text_rows_args){.first = "review", .label = "stars"}));
 *     for (;;) {
 *         tl_text_row row;
 *         bool more = true;
 *         TL_TRY_DONE(st, tl_text_rows_next(rows, &row, &more));
 *         if (!more) break;
 *         printf("%s: %.*s\n", row.label, (int)row.first.size, row.first.data);
 *     }
 * done:
 *     tl_text_rows_free(&rows);
 *
 * A file whose name ends in .jsonl, .ndjson or .json has an object on each line, everything else is
 * a table (io/table.h). Columns of a table are called by name or number, members of an object by
 * name. A label that is a number or a bool in JSON is taken as it is written: 1, 0.5, true.
 *
 * Texts and labels are UTF-8: a cell of another encoding is an error, in columns that are read.
 *
 * What is damaged, and a label or text that is missing, is TL_EDATA with file, line and column.
 *
 * Ownership: the caller's; a row belongs to the rows until the next one. Thread word: one thread at
 * a time. */
#ifndef TILTH_TEXT_ROWS_H
#define TILTH_TEXT_ROWS_H

#include <tilth/desc/desc.h>
#include <tilth/io/table.h>
#include <tilth/io/tensorflow/example.h>

TL_BEGIN

typedef struct tl_text_rows_args {
    const char *first;  /* column of the first text */
    const char *second; /* (optional: none) of the second one */
    const char *label;  /* (optional: none) */
    tl_table_header header;
    char delimiter;      /* (optional: found out) */
    tl_opt_bool quoting; /* (optional: not where tabs separate cells) quotes enclose cells */
    bool skip_short;     /* rows of a table with too few cells are passed over, and counted */
} tl_text_rows_args;

typedef struct tl_text_row {
    tl_bytes first, second; /* UTF-8; the second one has no data when there is no such column */
    const char *label;      /* NULL when there is no such column */
    int64_t line;           /* of the file, from 1 on */
} tl_text_row;

typedef struct tl_text_rows tl_text_rows;

/* A column that is not there is TL_ENOTFOUND, with those that are. */
TL_API TL_NODISCARD tl_status tl_text_rows_open(tl_text_rows **out, const char *path,
                                                const tl_text_rows_args *args);
/* The same from memory, which must outlive them; `name` stands in messages, and its ending says
 * what it is. */
TL_API TL_NODISCARD tl_status tl_text_rows_from_memory(tl_text_rows **out, const char *name,
                                                       const void *data, size_t size,
                                                       const tl_text_rows_args *args);
/* NULL is fine. */
TL_API void tl_text_rows_free(tl_text_rows **rows);
/* *more is true when called; false says that there is no row left. */
TL_API TL_NODISCARD tl_status tl_text_rows_next(tl_text_rows *rows, tl_text_row *out, bool *more);
/* After a failure: whether it is of a row alone, so that the next one can be read. */
TL_API bool tl_text_rows_go_on(const tl_text_rows *rows);
/* Rows so far that were passed over. */
TL_API int64_t tl_text_rows_skipped(const tl_text_rows *rows);
/* TL_EDATA that names the file, the line of the row that was read last and the column of labels. */
TL_API tl_status tl_text_rows_refuse_label(const tl_text_rows *rows, const char *why);

TL_END

#endif
