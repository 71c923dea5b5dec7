/* Private to data: a search for what the columns of a table are.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_DATA_TABLE_FIND_H
#define TLI_DATA_TABLE_FIND_H

#include <tilth/base/map.h>
#include <tilth/data/table.h>

/* Numbers that came by: moments, by Welford's way. */
typedef struct tli_table_moments {
    int64_t count;
    double mean, m2, m3, least, most;
} tli_table_moments;

typedef enum tli_column_kind {
    TLI_COLUMN_LEFT_OUT,
    TLI_COLUMN_NUMBER,
    TLI_COLUMN_DATE,
    TLI_COLUMN_CATEGORY
} tli_column_kind;
typedef struct tli_table_column {
    const char *name;
    tli_column_kind kind;
    const char *why;        /* it is left out */
    int64_t missing, texts; /* cells, and those that are neither a number nor a date */
    tli_table_moments numbers, logarithms, dates;
    int64_t odd_line; /* of the first such text */
    bool forced;      /* to be of categories */
    bool counts_rows; /* each number is one more than that of the row before */
    bool too_many;    /* more values than are counted */
    double last;      /* number, of all rows */
    bool logarithm;   /* it is taken as one */
    tl_map values;    /* to how often they occur */
} tli_table_column;

typedef struct tli_table_search {
    const tl_table_find_args *args;
    tl_arena *arena;
    tli_table_column *columns;
    int64_t count, target;
    const char *const *names;
    /* of a column, in the first line that was taken for a row; NULL: none */
    const char *likely_name;
    int64_t rows, training; /* with a target; of them, those that are not held out */
    int64_t without;        /* a target */
    tl_map missing_texts;   /* that stand there instead, to how often they occur */
    int64_t seen;           /* all rows */
    int64_t not_utf8;       /* cells that are not */
    double least, most;     /* number of the target, in all rows */
    tl_map classes;         /* to how often they occur */
    bool too_many_classes, fractions;
    tl_str text;
    char delimiter;
    bool has_header, decimal_comma;
} tli_table_search;

/* What was found, in words for people. */
TL_NODISCARD tl_status tli_table_tell(tl_table_findings *found, const tli_table_search *s,
                                      const tl_table_schema *schema);

#endif
