/* What tables are configured with. */
#include <string.h>

#include <tilth/zoo/table.h>

static const tl_field model_fields[] = {
    TL_F(tl_table_model_config, units, TL_DEFAULT_LIST(int64_t, 64, 64), TL_AT_LEAST(1),
         .help = "of each dense layer; none: linear regression, or logistic"),
    TL_F(tl_table_model_config, activation, .i = TL_ACT_RELU, .names = tl_activation_names,
         .help = "function behind each of them"),
    TL_F(tl_table_model_config, dropout_rate, TL_RANGE(0, 1),
         .help = "share of units dropped behind each"),
    TL_F(tl_table_model_config, batch_norm, .help = "normalise behind each, before the activation"),
    TL_F(tl_table_model_config, linear, .b = true,
         .help = "the inputs reach the result directly as well"),
    TL_F(tl_table_model_config, embedding_size, TL_RANGE(0, 4096),
         .help = "numbers that stand for a category; 0: by how many values there are"),
    TL_F_END,
};
const tl_desc tl_table_model_config_desc = {
    .name = "table_model",
    .help = "dense layers over the columns of a table",
    .size = sizeof(tl_table_model_config),
    .fields = model_fields,
};

static const char *const header_names[] = {
    [TL_HEADER_AUTO] = "auto",
    [TL_HEADER_YES] = "first_line",
    [TL_HEADER_NO] = "none",
    NULL,
};

static tl_status check_data(const void *value)
{
    const char *d = ((const tl_table_data_config *)value)->delimiter;
    if (!*d || strcmp(d, "tab") == 0
        || (strlen(d) == 1 && !strchr("\"\r\n ", *d) && (unsigned char)*d < 0x80))
        return TL_OK;
    return TL_FAIL(TL_EINVAL, "delimiter: expected one character, or tab; found '%s'", d);
}

static const tl_field data_fields[] = {
    TL_F_AS(tl_table_data_config, base.is_training, "is_training", .set = true, .b = true,
            .help = "repeat and shuffle the rows; null is as false"),
    TL_F_AS(tl_table_data_config, base.shuffle_buffer_size, "shuffle_buffer_size", .i = 10000000,
            TL_AT_LEAST(0), .help = "rows among which the next one is drawn in training"),
    TL_F(tl_table_data_config, header, .names = header_names,
         .help = "where columns are named: in the first line, nowhere (they are col_0, col_1, "
                 "...), or as it looks"),
    TL_F(tl_table_data_config, delimiter, .s = "",
         .help = "what separates cells, or tab; empty: it is found out"),
    TL_F_END,
};
const tl_desc tl_table_data_config_desc = {
    .name = "table_data",
    .help = "rows of CSV, TSV or npy files",
    .size = sizeof(tl_table_data_config),
    .base = &tl_data_config_desc,
    .fields = data_fields,
    .check = check_data,
};

/* A schema is that of a run: what else is wanted is another one. */
static tl_status check_task(const void *value)
{
    const tl_table_task_config *t = value;
    const tl_table_schema *s = t->schema;
    if (!s) return TL_OK;
    if (t->kind != TL_TABLE_AUTO && s->kind != t->kind)
        return TL_FAIL(
            TL_EINVAL,
            "kind: the schema is one of %s; another kind is another run, in a folder of its own",
            tl_table_kind_names[s->kind]);
    bool number = t->target[strspn(t->target, "-0123456789")] == '\0';
    if (number || strcmp(t->target, s->target) == 0) return TL_OK;
    return TL_FAIL(
        TL_EINVAL,
        "target: the schema is for '%s'; another target is another run, in a folder of its own",
        s->target);
}

static const tl_field task_fields[] = {
    TL_F_AS(tl_table_task_config, base.model, "model", .desc = &tl_table_model_config_desc,
            .set = true, .kind = &tl_kind_model,
            .help = "dense layers over the columns of a table"),
    TL_F_OPTIONAL_AS(tl_table_task_config, base.train_data, "train_data",
                     &tl_table_data_config_desc, .set = true, .help = "table to learn from"),
    TL_F_OPTIONAL_AS(tl_table_task_config, base.validation_data, "validation_data",
                     &tl_table_data_config_desc, .set = true,
                     .help =
                         "table to evaluate with; without input_path it is a part of train_data"),
    TL_F(tl_table_task_config, target, .s = "",
         .help = "column that is learned: its name, or its number from 0 on; empty: the last one"),
    TL_F(tl_table_task_config, kind, .names = tl_table_kind_names,
         .help = "classification, regression, or chosen by the values of the target"),
    TL_F(tl_table_task_config, ignore, .help = "columns to leave out"),
    TL_F(tl_table_task_config, categories,
         .help = "columns that are categories though they hold numbers"),
    TL_F(tl_table_task_config, max_categories, .i = 100, TL_RANGE(1, 50000),
         .help = "values of a category that are told apart, the most frequent ones"),
    TL_F(tl_table_task_config, validation_split, .d = 0.2, TL_RANGE(0, 0.9),
         .help = "share of the rows that is held out where validation_data has no input_path"),
    TL_F_OPTIONAL(tl_table_task_config, schema, &tl_table_schema_desc,
                  .help = "what the columns are; null: it is found from train_data"),
    TL_F_END,
};
const tl_desc tl_table_task_config_desc = {
    .name = "table_task",
    .help = "learns a column of a table from the others",
    .size = sizeof(tl_table_task_config),
    .base = &tl_task_config_desc,
    .fields = task_fields,
    .check = check_task,
};
