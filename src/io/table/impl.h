/* Private to io: what the readers of tables share.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_IO_TABLE_IMPL_H
#define TLI_IO_TABLE_IMPL_H

#include <tilth/base/file.h>
#include <tilth/io/table.h>

typedef struct tli_table tli_table;

/* How the rows of a format are read. */
typedef struct tli_table_format {
    tl_status (*next)(tli_table *t, bool *more);
    void (*rewind)(tli_table *t);
} tli_table_format;

typedef struct tli_csv {
    const char *first, *at; /* the first row behind the header; the next one */
    int64_t first_line, at_line;
    char special[256]; /* bytes at which a cell without quotes ends */
    bool no_quotes, skip_short;
} tli_csv;

typedef struct tli_npy {
    const char *values;
    int64_t rows, at;
    char kind; /* b, i, u or f */
    int size;
    bool swapped, fortran;
} tli_npy;

struct tli_table {
    tl_table base;
    const tli_table_format *format;
    tl_file_mapping mapped; /* whoever holds the bytes */
    char *owned;
    const char *data, *end;
    int64_t line;   /* of the last row */
    tl_cell *cells; /* of the last row */
    int64_t room;   /* cells that fit there */
    int64_t found;  /* cells of the row, also those that did not fit */
    tli_csv csv;
    tli_npy npy;
    tl_arena *arena;
    tl_arena *texts; /* of the last row, where they are not those of the file */
    tl_arena_mark row;
    bool marked; /* there are some */
};

extern const tli_table_format tli_csv_format, tli_npy_format;

/* Reads what stands before the rows, and the names of the columns. */
TL_NODISCARD tl_status tli_csv_begin(tli_table *t, const tl_table_args *args);
TL_NODISCARD tl_status tli_npy_begin(tli_table *t);
/* Cells of the row at t->csv.at, whatever their number is; *more is false behind the last one. */
TL_NODISCARD tl_status tli_csv_row(tli_table *t, bool *more);
/* Forgets texts of the last row. */
void tli_table_forget(tli_table *t);
/* col_0, col_1, ... */
TL_NODISCARD tl_status tli_table_number_columns(tli_table *t, int64_t columns);
TL_NODISCARD tl_status tli_table_make_room(tli_table *t, int64_t cells);

#endif
