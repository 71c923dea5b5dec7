/* Tables in files, read row by row: CSV and its kin, and npy arrays, plain or compressed by gzip.
 *
 *     tl_table *t;
 *     TL_TRY(tl_table_open(&t, "houses.csv", NULL));
 *     for (int64_t i = 0; i < t->columns; i++) puts(t->names[i]);
 *     for (;;) {
 *         const tl_cell *cells;
 *         bool more = true;
 *         double area;
 *         TL_TRY_DONE(st, tl_table_next(t, &cells, &more));
 *         if (!more) break;
 *         if (!tl_cell_number(&area, t, &cells[2])) ...      // tl_table_line(t) says where
 *     }
 * done:
 *     tl_table_free(&t);
 *
 * CSV is that of RFC 4180: cells in quotes may hold delimiters, line ends and doubled quotes; lines
 * end in LF, CRLF or CR. Blanks around cells without quotes are left out, and so are empty lines
 * and a byte order mark. What separates cells is found out among , ; tab and |, whether the first
 * line names the columns by what stands in it, and whether numbers have a decimal comma where
 * commas do not separate. A row with more or fewer cells than the first is an error, with its line.
 * Bytes that are no UTF-8 are read as Latin-1, so that texts are UTF-8 always.
 *
 * npy files (versions 1 to 3) hold two dimensions of bool, integers of 1 to 8 bytes or floats of 4
 * or 8, in either byte order and in C's or Fortran's order; their columns are called col_0, col_1
 * and so on.
 *
 * What is damaged is TL_EDATA, with file and line, and column where there is one.
 *
 * A plain file is mapped, and must not become shorter while it is read.
 *
 * Ownership: the caller's; names belong to the table, cells to it until the next row. Thread word:
 * one thread at a time. */
#ifndef TILTH_IO_TABLE_H
#define TILTH_IO_TABLE_H

#include <tilth/base/arena.h>
#include <tilth/base/str.h>

TL_BEGIN

enum {
    TL_TABLE_COLUMNS = 1 << 16,   /* at most */
    TL_TABLE_CELL_BYTES = 1 << 20 /* of one cell, at most */
};

typedef enum tl_table_header {
    /* The first line names the columns, unless a number or a date stands in it, or a text twice.
     * Nothing but texts above numbers, one of them twice, are names that will not do: TL_EDATA. */
    TL_HEADER_AUTO,
    TL_HEADER_YES,
    TL_HEADER_NO /* columns are col_0, col_1, ... */
} tl_table_header;

typedef struct tl_table_args {
    tl_table_header header;
    char delimiter;  /* (optional: found out) */
    bool no_quotes;  /* quotes are characters like others; a cell ends at the next delimiter */
    bool skip_short; /* rows with fewer cells than the first are passed over, and counted */
} tl_table_args;

/* Members are for reading. */
typedef struct tl_table {
    const char *name; /* for messages: the path */
    const char *const *names;
    int64_t columns;
    bool is_npy;
    bool has_header;
    /* (or NULL) a text in a first line that was taken for a row, which stands above numbers */
    const char *likely_name;
    char delimiter;     /* of CSV */
    bool decimal_comma; /* numbers are written 1,5 */
    int64_t not_utf8;   /* cells so far that were no UTF-8 */
    int64_t skipped;    /* rows so far that were passed over */
} tl_table;

/* A cell of an npy file is a number and has no text. */
typedef struct tl_cell {
    const char *text; /* not NUL-terminated */
    size_t length;
    double number;
    bool is_number;
    bool was_not_utf8; /* its bytes were read as Latin-1 */
} tl_cell;

/* `args` may be NULL. *out is NULL after a failure. */
TL_API TL_NODISCARD tl_status tl_table_open(tl_table **out, const char *path,
                                            const tl_table_args *args);
/* The same from memory, which must outlive it; `name` stands in messages. */
TL_API TL_NODISCARD tl_status tl_table_from_memory(tl_table **out, const char *name,
                                                   const void *data, size_t size,
                                                   const tl_table_args *args);
/* NULL is fine. */
TL_API void tl_table_free(tl_table **t);

/* The cells of the next row, t->columns of them. *more is true when called; false says that there
 * is none. */
TL_API TL_NODISCARD tl_status tl_table_next(tl_table *t, const tl_cell **cells, bool *more);
/* Where the last row begins: its line, of an npy file its number, from 1 on. */
TL_API int64_t tl_table_line(const tl_table *t);
/* To the first row. */
TL_API void tl_table_rewind(tl_table *t);

/* The place of a column by its name, or, where none is called so, by its number: 0 is the first
 * one, -1 the last. A name that is not there is TL_ENOTFOUND, with the nearest one and a list. */
TL_API TL_NODISCARD tl_status tl_table_find(int64_t *out, const tl_table *t, const char *name);

/* Is there nothing: no text, NA, N/A, NaN, null, none, ?, - and the like, or a number that is
 * none? */
TL_API bool tl_cell_is_missing(const tl_cell *c);
/* A finite decimal number; false when it is none. */
TL_API bool tl_cell_number(double *out, const tl_table *t, const tl_cell *c);
/* Days since 1970 of 2024-05-31, 2024/5/31, and either with a time behind it: T10:30, 10:30:15.5;
 * false when it is none. */
TL_API bool tl_cell_days(double *out, const tl_cell *c);
/* Adds the text, or the number as it would be written. */
TL_API void tl_cell_write(tl_str *out, const tl_cell *c);

TL_END

#endif
