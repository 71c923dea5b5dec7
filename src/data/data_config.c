#include <tilth/data/config.h>

#include <tilth/base/str.h>

/* Features of Model Garden that have no counterpart here yet. */
#define TFDS_ROW(member, text, ...)                                                                \
    TL_F(tl_data_config, member, .flags = TL_FIELD_LATER,                                          \
         .help = text " of TensorFlow Datasets; instead, write TFRecords and set input_path",      \
         __VA_ARGS__)
#define SERVICE_ROW(member, text, ...)                                                             \
    TL_F(tl_data_config, member,                                                                   \
         .help = text " (tf.data service); instead, examples are prepared where they are used",    \
         __VA_ARGS__)

static const tl_field data_fields[] = {
    TL_F(tl_data_config, input_path, .s = "", .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .accept = TL_ACCEPT_STRING | TL_ACCEPT_LIST | TL_ACCEPT_MAP,
         .help = "files to read: a path or a pattern with * and ?, several separated by commas, a "
                 "list of them, or a map of names to such for mixtures"),
    TFDS_ROW(tfds_name, "a dataset", .s = "", .accept = TL_ACCEPT_STRING | TL_ACCEPT_MAP),
    TFDS_ROW(tfds_split, "a part of a dataset", .s = ""),
    TFDS_ROW(tfds_data_dir, "the folder", .s = ""),
    TFDS_ROW(tfds_as_supervised, "examples as pairs of input and label,", .b = false),
    TFDS_ROW(tfds_skip_decoding_feature, "features that are not decoded, with commas,", .s = ""),
    TL_F(tl_data_config, global_batch_size, TL_AT_LEAST(0),
         .help = "examples of one step, over all replicas"),
    TL_F(tl_data_config, is_training, .help = "repeat and shuffle the examples; null is as false"),
    TL_F(tl_data_config, drop_remainder, .b = true,
         .help = "leave out the last batch when it is short"),
    TL_F(tl_data_config, shuffle_buffer_size, .i = 100, TL_AT_LEAST(0),
         .help = "examples among which the next one is drawn in training"),
    TL_F(tl_data_config, cache,
         .help = "keep examples in memory after the first pass: parsed, and images decoded to "
                 "pixels; random changes are made anew in each pass"),
    TL_F(tl_data_config, cycle_length, TL_AT_LEAST(-1),
         .help = "files read at a time, in turn; null or -1 lets the library choose"),
    TL_F(tl_data_config, block_length, .i = 1, TL_AT_LEAST(1),
         .help = "examples taken from a file before the next one's turn"),
    TL_F(tl_data_config, deterministic,
         .help = "false allows examples to come in another order each time; here the order is "
                 "always the same"),
    TL_F(tl_data_config, sharding, .b = true,
         .help = "give each reader a part of the files, or of the examples when files are few; "
                 "otherwise each reads everything, in an order of its own, also with a seed"),
    TL_F(tl_data_config, seed, .help = "seed of the order of files and examples; null draws one"),
    TL_F(tl_data_config, prefetch_buffer_size, TL_AT_LEAST(-1),
         .help = "batches prepared ahead; null, 0 or -1 lets the library choose"),
    TL_F(tl_data_config, ram_budget, .flags = TL_FIELD_LATER,
         .help = "GB for buffers that tune themselves; instead, set prefetch_buffer_size and "
                 "shuffle_buffer_size"),
    TL_F(tl_data_config, autotune_algorithm, .flags = TL_FIELD_LATER | TL_FIELD_NULLABLE,
         .help = "how buffers tune themselves; instead, set cycle_length and "
                 "prefetch_buffer_size"),
    SERVICE_ROW(enable_tf_data_service, "prepare examples elsewhere", .flags = TL_FIELD_LATER),
    SERVICE_ROW(tf_data_service_address, "where the service is",
                .flags = TL_FIELD_LATER | TL_FIELD_NULLABLE),
    SERVICE_ROW(tf_data_service_job_name, "name by which several readers share a job",
                .flags = TL_FIELD_LATER | TL_FIELD_NULLABLE),
    SERVICE_ROW(enable_shared_tf_data_service_between_parallel_trainers,
                "one service for several runs", .flags = TL_FIELD_LATER),
    SERVICE_ROW(apply_tf_data_service_before_batching, "the service gives examples, not batches",
                .flags = TL_FIELD_LATER),
    SERVICE_ROW(trainer_id, "which of the runs that share a service this is",
                .flags = TL_FIELD_LATER | TL_FIELD_NULLABLE),
    TL_F_OPTIONAL(tl_data_config, sampler, &tl_sampler_config_desc, .flags = TL_FIELD_QUIET,
                  .help = "LiBai's order of examples, in place of shuffle_buffer_size, "
                          "cycle_length, block_length and drop_remainder; null for theirs"),
    TL_F_END,
};

static tl_status wrong_path(const char *key, const tl_value *v, const char *expected)
{
    tl_str found = TL_STR_INIT;
    tl_value_name(&found, v);
    tl_status st =
        TL_FAIL(TL_EINVAL, "%s: expected %s, found %s", key, expected, tl_str_text(&found));
    tl_str_deinit(&found);
    return st;
}

/* A path, or a list of them. */
static tl_status check_paths(const char *key, const tl_value *v)
{
    if (v->kind == TL_VALUE_SCALAR && !tl_value_is_null(v)) return TL_OK;
    if (v->kind != TL_VALUE_LIST) return wrong_path(key, v, "a path or a list of paths");
    for (int64_t i = 0; i < v->count; i++) {
        const tl_value *item = v->items[i];
        if (item->kind != TL_VALUE_SCALAR || tl_value_is_null(item))
            return wrong_path(key, item, "a path in the list");
    }
    return TL_OK;
}

bool tl_paths_given(const tl_value *paths)
{
    if (!paths || tl_value_is_null(paths)) return false;
    return paths->kind == TL_VALUE_SCALAR ? *paths->text != '\0' : paths->count > 0;
}

static tl_status check_data(const void *value)
{
    const tl_data_config *c = value;
    const tl_value *path = c->input_path;
    if (tl_paths_given(path) && tl_paths_given(c->tfds_name))
        return TL_FAIL(TL_EINVAL,
                       "input_path: it and tfds_name exclude each other: clear one of them");
    if (!tl_paths_given(path)) return TL_OK;
    if (path->kind != TL_VALUE_MAP) return check_paths("input_path", path);
    for (int64_t i = 0; i < path->count; i++)
        TL_TRY_NOTE(check_paths(path->pairs[i].key, path->pairs[i].value), "input_path");
    return TL_OK;
}

const tl_desc tl_data_config_desc = {
    .name = "data",
    .help = "a set of examples: where it lies, how it is read, shuffled and batched",
    .size = sizeof(tl_data_config),
    .fields = data_fields,
    .check = check_data,
};
