/* What a schema is made of, as a described struct: it is part of configurations, and stored with
 * runs. */
#include <inttypes.h>
#include <string.h>

#include <tilth/data/table.h>

const char *const tl_table_kind_names[] = {
    [TL_TABLE_AUTO] = "auto",
    [TL_TABLE_CLASSIFICATION] = "classification",
    [TL_TABLE_REGRESSION] = "regression",
    NULL,
};

static const tl_field category_fields[] = {
    TL_F(tl_table_category, name, .s = "", .help = "of the column"),
    TL_F(tl_table_category, values, .help = "that are told apart; all others are one"),
    TL_F_END,
};
static const tl_desc category_desc = {
    .name = "table_category",
    .help = "a column of categories",
    .size = sizeof(tl_table_category),
    .fields = category_fields,
};

static const tl_field schema_fields[] = {
    TL_F(tl_table_schema, target, .s = "", .help = "column that is learned"),
    TL_F(tl_table_schema, kind, .names = tl_table_kind_names,
         .help = "classification or regression"),
    TL_F(tl_table_schema, class_names, .help = "values of the target, of classification"),
    TL_F(tl_table_schema, target_mean, .help = "of the target, of regression"),
    TL_F(tl_table_schema, target_stddev, .d = 1, .help = "its standard deviation"),
    TL_F(tl_table_schema, numbers, .help = "columns of numbers and dates"),
    TL_F(tl_table_schema, mean, .help = "of each of them, as it is taken"),
    TL_F(tl_table_schema, stddev, .help = "standard deviation of each of them"),
    TL_F(tl_table_schema, dates, .help = "those of them that are dates: days since 1970"),
    TL_F(tl_table_schema, logarithms, .help = "those of them that are taken as log(1 + x)"),
    TL_F(tl_table_schema, gaps,
         .help = "those of them that may be missing: a further input says so"),
    TL_F(tl_table_schema, categories, .desc = &category_desc,
         .help = "columns of categories, and their values"),
    TL_F(tl_table_schema, ignored, .help = "columns that are left out"),
    TL_F_END,
};

static tl_status check_part(const char *what, const tl_strings *part, const tl_strings *all)
{
    for (int64_t i = 0; i < part->count; i++) {
        int64_t k = 0;
        while (k < all->count && strcmp(all->items[k], part->items[i]) != 0) k++;
        if (k == all->count)
            return TL_FAIL(TL_EINVAL, "%s: '%s' is not among numbers", what, part->items[i]);
    }
    return TL_OK;
}

static tl_status check_target(const tl_table_schema *s)
{
    if (!*s->target) return TL_FAIL(TL_EINVAL, "target: the schema names none");
    if (s->kind == TL_TABLE_AUTO)
        return TL_FAIL(TL_EINVAL, "kind: expected classification or regression");
    if (s->kind == TL_TABLE_CLASSIFICATION && s->class_names.count < 2)
        return TL_FAIL(TL_EINVAL, "class_names: there must be two or more");
    if (s->kind == TL_TABLE_REGRESSION && !(s->target_stddev > 0))
        return TL_FAIL(TL_EINVAL, "target_stddev: must be above 0");
    return TL_OK;
}

static tl_status check_schema(const void *value)
{
    const tl_table_schema *s = value;
    TL_TRY(check_target(s));
    if (s->mean.count != s->numbers.count || s->stddev.count != s->numbers.count)
        return TL_FAIL(TL_EINVAL,
                       "mean: there must be one, and one stddev, for each of %" PRId64 " numbers",
                       s->numbers.count);
    for (int64_t i = 0; i < s->stddev.count; i++)
        if (!(s->stddev.items[i] > 0))
            return TL_FAIL(TL_EINVAL, "stddev: that of '%s' must be above 0", s->numbers.items[i]);
    if (!s->numbers.count && !s->categories.count)
        return TL_FAIL(TL_EINVAL, "numbers: there is no column to learn from");
    TL_TRY(check_part("dates", &s->dates, &s->numbers));
    TL_TRY(check_part("logarithms", &s->logarithms, &s->numbers));
    return check_part("gaps", &s->gaps, &s->numbers);
}

const tl_desc tl_table_schema_desc = {
    .name = "table_schema",
    .help = "what the columns of a table are, as it was found in the training data",
    .size = sizeof(tl_table_schema),
    .fields = schema_fields,
    .check = check_schema,
};
