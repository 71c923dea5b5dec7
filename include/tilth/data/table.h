/* Tables as examples: what the columns of a table are, found once from the training data, and rows
 * as numbers by it.
 *
 *     tl_table_schema schema;
 *     tl_table_findings found;
 *     TL_TRY(tl_table_schema_find(&schema, &found, &(tl_table_find_args){
 *         .paths = paths, .path_count = 1, .target = "price", .arena = arena}));
 *     puts(found.report);                      // what was found, for people
 *     tl_table_rows rows;
 *     const tl_table_load_args load = {.paths = paths, .path_count = 1};
 *     TL_TRY(tl_table_rows_load(&rows, &schema, &load));
 *     ...                                      // rows.numbers [rows.count, rows.number_width], ...
 *     tl_table_rows_deinit(&rows);
 *
 * A column is a number, a date, a category, or left out. Numbers are standardised; those that are
 * never negative and lean far to one side are taken as logarithms; where some are missing they have
 * the mean, and a further input says so. Dates are days since 1970. Of categories the values are
 * kept that occur more than once, the most frequent first; all others are one value, and what is
 * missing is another. Left out are columns that are empty, that always say the same, that count the
 * rows and are called so (id, PassengerId, index, ...), and texts that are different in most rows.
 *
 * The target is a number (regression) or one of some classes (classification); of classes that are
 * numbers those that are equal, as 1 and 1.0, are one. Rows without a target are left out.
 *
 * Part of the rows can be held out for validation. Which ones is decided by what stands in them, so
 * that equal rows stay together, and a row stays where it is when others come or go.
 *
 * Ownership: a schema belongs to its arena, rows to who loads them. Thread word: immutable
 * (schemas); one thread at a time. */
#ifndef TILTH_DATA_TABLE_H
#define TILTH_DATA_TABLE_H

#include <tilth/desc/desc.h>
#include <tilth/io/table.h>

TL_BEGIN

/* --- what the columns are --------------------------------------------------------------------- */

typedef enum tl_table_kind {
    /* a number with many values, or with fractions: regression; else classification */
    TL_TABLE_AUTO,
    TL_TABLE_CLASSIFICATION,
    TL_TABLE_REGRESSION
} tl_table_kind;

typedef struct tl_table_category {
    const char *name;
    tl_strings values;
} tl_table_category;

typedef struct tl_table_schema {
    const char *target;
    tl_table_kind kind;
    tl_strings class_names;            /* of classification */
    double target_mean, target_stddev; /* of regression */
    tl_strings numbers;                /* columns, dates among them */
    tl_doubles mean, stddev;           /* of each, as it is taken */
    tl_strings dates;                  /* which of them are dates */
    tl_strings logarithms;             /* which are taken as log(1 + x) */
    tl_strings gaps;                   /* which may be missing */
    tl_structs categories;             /* of tl_table_category */
    tl_strings ignored;
} tl_table_schema;
extern TL_API const tl_desc tl_table_schema_desc;
/* "auto", "classification", "regression", NULL: of rows whose member is a tl_table_kind. */
extern TL_API const char *const tl_table_kind_names[];

/* Codes of a category, before those of its values. */
enum { TL_CATEGORY_MISSING, TL_CATEGORY_OTHER, TL_CATEGORY_VALUES };

/* What rows become. */
typedef struct tl_table_widths {
    int64_t numbers; /* columns, and one more for each that may be missing */
    int64_t categories;
    int64_t entries; /* codes of all categories together */
    int64_t largest; /* codes of the category that has the most */
} tl_table_widths;
TL_API tl_table_widths tl_table_schema_widths(const tl_table_schema *s);

/* --- finding out ------------------------------------------------------------------------------ */

typedef struct tl_table_find_args {
    const char *const *paths; /* of tables with the same columns */
    int64_t path_count;
    tl_table_args table;
    const char *target; /* (optional: the last column) a name or a number */
    tl_table_kind kind;
    tl_strings ignore;      /* columns to leave out */
    tl_strings categories;  /* columns to take as categories, whatever stands in them */
    int64_t max_categories; /* (optional: 100) values of a category that are kept */
    double held_out;        /* (optional: 0) share of the rows that is for validation */
    tl_arena *arena;
} tl_table_find_args;
typedef struct tl_table_findings {
    int64_t rows, held_out; /* with a target; of them, those for validation */
    bool has_header;
    char *report;   /* for people, lines */
    char *warnings; /* (or NULL) what may be meant otherwise than it was taken, lines */
} tl_table_findings;
/* Numbers and categories are those of rows that are not held out; classes are those of all. */
TL_API TL_NODISCARD tl_status tl_table_schema_find(tl_table_schema *out, tl_table_findings *found,
                                                   const tl_table_find_args *args);

/* --- rows as numbers -------------------------------------------------------------------------- */

typedef struct tl_table_coder tl_table_coder;
/* The schema must outlive it. */
TL_API TL_NODISCARD tl_status tl_table_coder_new(tl_table_coder **out,
                                                 const tl_table_schema *schema);
/* NULL is fine. */
TL_API void tl_table_coder_free(tl_table_coder **c);
/* Where the columns of the schema are in this table; one that lacks is TL_ENOTFOUND, by its name.
 * The target may lack where it is not needed. */
TL_API TL_NODISCARD tl_status tl_table_coder_bind(tl_table_coder *c, const tl_table *t,
                                                  bool needs_target);
/* The inputs of a row of the table that was bound: numbers, and places in a table of all codes. */
TL_API void tl_table_coder_row(const tl_table_coder *c, const tl_table *t, const tl_cell *cells,
                               float *numbers, int32_t *categories);
/* Its target: a class, or a standardised number. *missing: there is none. What cannot be one is
 * TL_EINVAL, with file, line and column. */
TL_API TL_NODISCARD tl_status tl_table_coder_target(const tl_table_coder *c, const tl_table *t,
                                                    const tl_cell *cells, double *out,
                                                    bool *missing);

/* Whether a row is among a share of all of them. */
TL_API bool tl_table_is_held_out(const tl_table *t, const tl_cell *cells, double share);

typedef enum tl_table_part { TL_PART_ALL, TL_PART_TRAINING, TL_PART_HELD_OUT } tl_table_part;
typedef struct tl_table_load_args {
    const char *const *paths;
    int64_t path_count;
    tl_table_args table;
    tl_table_part part;
    double held_out;
} tl_table_load_args;
typedef struct tl_table_rows {
    int64_t count, capacity;
    tl_table_widths widths;
    float *numbers;      /* [count, widths.numbers]; NULL when there are none */
    int32_t *categories; /* [count, widths.categories] */
    int32_t *classes;    /* [count], of classification */
    float *targets;      /* [count], of regression */
    int64_t *places;     /* [count]: number of the file << 40 | line */
    int64_t missing;     /* rows without a target, which are left out */
} tl_table_rows;
TL_API TL_NODISCARD tl_status tl_table_rows_load(tl_table_rows *out, const tl_table_schema *schema,
                                                 const tl_table_load_args *args);
TL_API void tl_table_rows_deinit(tl_table_rows *r);
enum { TL_TABLE_LINE_BITS = 40 };

TL_END

#endif
