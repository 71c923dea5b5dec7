/* From records to batches: ids of words, masks, types, and what is to be guessed. */
#include "zoo/language/data.h"

#include <string.h>
#include <tilth/data/pipeline.h>

enum { MOST_FEATURES = 8 };

typedef struct plan {
    tl_feature_spec items[MOST_FEATURES];
    tl_example_features features;
} plan;

static void want(plan *p, const char *name, const char *as, tl_dtype dtype, tl_shape shape)
{
    TL_ASSERT(p->features.count < MOST_FEATURES);
    p->items[p->features.count++] = (tl_feature_spec){.spec = {name, dtype, shape}, .as = as};
}

static bool is_dummy(const tl_data_config *d)
{
    const tl_value *path = d->input_path;
    return path && path->kind == TL_VALUE_SCALAR && strcmp(path->text, "dummy") == 0;
}

/* One example of zeros, again and again; an evaluation sees it once. */
static tl_status dummy_inputs(tl_dataset **out, const plan *p, const tli_language_inputs *args)
{
    tl_array arrays[MOST_FEATURES];
    for (int64_t i = 0; i < p->features.count; i++) {
        const tl_feature_spec *f = &p->items[i];
        tl_shape shape = TL_SHAPE(1);
        for (int k = 0; k < f->spec.shape.rank; k++)
            shape.dims[shape.rank++] = f->spec.shape.dims[k] > 0 ? f->spec.shape.dims[k] : 1;
        size_t bytes = (size_t)tl_shape_count(&shape) * tl_dtype_size(f->spec.dtype);
        void *zeros = tl_arena_alloc(args->arena, bytes);
        if (!zeros) return TL_ENOMEM;
        arrays[i] = (tl_array){f->as ? f->as : f->spec.name, f->spec.dtype, shape, zeros};
    }
    return tl_dataset_from_arrays(out, &(tl_arrays_args){.arrays = arrays,
                                                         .count = p->features.count,
                                                         .copy = true,
                                                         .repeat = args->trains,
                                                         .batch_size = 1});
}

static tl_status check_batch(const tl_data_config *d, const tli_language_inputs *args)
{
    if (d->global_batch_size < 1)
        return TL_FAIL(TL_EINVAL, "global_batch_size is 0: set it in %s", args->section);
    return TL_OK;
}

static tl_status new_plan(plan **out, const tli_language_inputs *args)
{
    plan *p = *out = tl_arena_alloc(args->arena, sizeof *p);
    if (!p) return TL_ENOMEM;
    p->features = (tl_example_features){p->items, 0};
    return TL_OK;
}

tl_status tli_read_records(tl_dataset **out, tl_pipeline_args *a, const tl_data_config *d,
                           const tli_language_inputs *args)
{
    *out = NULL;
    TL_TRY(check_batch(d, args));
    TL_TRY(tl_pipeline_args_read(a, args->arena, d,
                                 &(tl_pipeline_reader){.pipelines = args->input->pipelines,
                                                       .pipeline = args->input->pipeline,
                                                       .replicas = args->input->replicas,
                                                       .seed = args->input->seed,
                                                       .section = args->section}));
    return tl_pipeline_new(out, a);
}

static tl_status read_records(tl_dataset **out, plan *p, tl_pipeline_args *a,
                              const tl_data_config *d, const tli_language_inputs *args)
{
    a->decode = (tl_sample_map){tl_example_decode, &p->features};
    return tli_read_records(out, a, d, args);
}

/* --- hidden words ----------------------------------------------------------------------------- */

static void want_words(plan *p, bool v2, tl_shape length)
{
    want(p, v2 ? "input_word_ids" : "input_ids", "input_word_ids", TL_I32, length);
    want(p, "input_mask", NULL, TL_I32, length);
    want(p, v2 ? "input_type_ids" : "segment_ids", "input_type_ids", TL_I32, length);
}

static void want_guesses(plan *p, tl_shape count)
{
    want(p, "masked_lm_positions", NULL, TL_I32, count);
    want(p, "masked_lm_ids", NULL, TL_I32, count);
    want(p, "masked_lm_weights", NULL, TL_F32, count);
}

tl_status tli_pretrain_inputs(tl_dataset **out, const tl_pretrain_data_config *data,
                              const tli_language_inputs *args)
{
    plan *p;
    *out = NULL;
    TL_TRY(new_plan(&p, args));
    want_words(p, data->use_v2_feature_names, TL_SHAPE(data->seq_length));
    want_guesses(p, TL_SHAPE(data->max_predictions_per_seq));
    if (data->use_next_sentence_label) want(p, "next_sentence_labels", NULL, TL_I32, TL_SHAPE(1));
    if (data->use_position_id) want(p, "position_ids", NULL, TL_I32, TL_SHAPE(data->seq_length));
    if (is_dummy(&data->base)) return dummy_inputs(out, p, args);
    return read_records(out, p, &(tl_pipeline_args){0}, &data->base, args);
}

/* --- hidden words, by length ------------------------------------------------------------------ */

/* Cuts what is behind the last word. */
static tl_status trim(void *self, tl_sample *s)
{
    static const char *const cut[] = {"input_word_ids", "input_mask", "input_type_ids",
                                      "position_ids"};
    const tl_sample_field *words;
    (void)self;
    TL_TRY(tl_sample_get(s, "input_word_ids", &words));
    const int32_t *ids = words->data;
    const int64_t stored = words->shape.dims[0];
    int64_t length = stored;
    while (length > 0 && ids[length - 1] == 0) length--;
    for (int64_t i = 0; i < TL_COUNT(cut); i++) {
        const tl_sample_field *f = tl_sample_peek(s, cut[i]);
        if (!f) continue;
        if (f->shape.dims[0] != stored)
            return TL_FAIL(TL_EINVAL, "'%s' has %lld values, and there are %lld words", cut[i],
                           (long long)f->shape.dims[0], (long long)stored);
        TL_TRY(tl_sample_show(s, cut[i], TL_I32, TL_SHAPE(length), f->data));
    }
    return TL_OK;
}

static tl_status set_buckets(tl_pipeline_args *a, const tl_pretrain_dynamic_data_config *data,
                             const tli_language_inputs *args)
{
    const tl_ints bounds = data->seq_bucket_lengths;
    int64_t *ends = tl_arena_array(args->arena, bounds.count, sizeof *ends);
    int64_t *sizes = tl_arena_array(args->arena, bounds.count + 1, sizeof *sizes);
    if (!ends || !sizes) return TL_ENOMEM;
    TL_TRY(tl_pipeline_args_batch(a, &data->base, args->input->replicas));
    for (int64_t i = 0; i < bounds.count; i++) {
        if (i && bounds.items[i] <= bounds.items[i - 1])
            return TL_FAIL(TL_EINVAL,
                           "%s.seq_bucket_lengths: %lld stands behind %lld; each length "
                           "is greater than the one before it",
                           args->section, (long long)bounds.items[i],
                           (long long)bounds.items[i - 1]);
        ends[i] = bounds.items[i] + 1; // those below it
    }
    for (int64_t i = 0; i <= bounds.count; i++) sizes[i] = a->batch_size;
    a->bucket_by = "input_word_ids";
    a->bucket_ends = ends;
    a->bucket_sizes = sizes;
    a->bucket_count = bounds.count;
    a->pad_to_end = true;
    return TL_OK;
}

tl_status tli_pretrain_dynamic_inputs(tl_dataset **out, const tl_pretrain_dynamic_data_config *data,
                                      const tli_language_inputs *args)
{
    plan *p;
    *out = NULL;
    TL_TRY(new_plan(&p, args));
    want_words(p, data->use_v2_feature_names, TL_SHAPE(-1));
    want_guesses(p, TL_SHAPE(-1));
    if (data->use_next_sentence_label) want(p, "next_sentence_labels", NULL, TL_I32, TL_SHAPE(1));
    if (data->use_position_id) want(p, "position_ids", NULL, TL_I32, TL_SHAPE(-1));
    if (is_dummy(&data->base)) return dummy_inputs(out, p, args);
    if (!data->seq_bucket_lengths.count)
        return TL_FAIL(TL_EINVAL, "%s.seq_bucket_lengths is empty: give the lengths of batches",
                       args->section);
    const tl_sample_map map = {trim, NULL};
    tl_pipeline_args a = {.maps = &map, .map_count = 1};
    TL_TRY(set_buckets(&a, data, args));
    return read_records(out, p, &a, &data->base, args);
}

/* --- sentences with labels -------------------------------------------------------------------- */

tl_status tli_sentence_inputs(tl_dataset **out, const tl_sentence_data_config *data,
                              const tli_language_inputs *args)
{
    plan *p;
    *out = NULL;
    TL_TRY(new_plan(&p, args));
    const tl_dtype label = strcmp(data->label_type, "float") == 0 ? TL_F32 : TL_I32;
    want_words(p, false, TL_SHAPE(data->seq_length));
    want(p, data->label_field, "label_ids", label, TL_SCALAR);
    if (data->include_example_id) want(p, "example_id", NULL, TL_I64, TL_SCALAR);
    if (is_dummy(&data->base)) return dummy_inputs(out, p, args);
    return read_records(out, p, &(tl_pipeline_args){0}, &data->base, args);
}

/* --- what is configured ----------------------------------------------------------------------- */

#define SIZE_ROW(T, member, number, help_)                                                         \
    TL_F(T, member, .i = number, TL_AT_LEAST(1), .help = help_)
#define PRETRAIN_ROWS(T)                                                                           \
    TL_F_AS(T, base.global_batch_size, "global_batch_size", .i = 512, TL_AT_LEAST(0),              \
            .help = "examples of one step, over all replicas"),                                    \
        TL_F_AS(T, base.is_training, "is_training", .set = true, .b = true,                        \
                .help = "repeat and shuffle the examples; null is as false"),                      \
        TL_F(T, use_next_sentence_label, .b = true,                                                \
             .help = "examples say whether the second sentence follows the first"),                \
        TL_F(T, use_position_id, .help = "examples have places, which no encoder looks at"),       \
        TL_F(T, use_v2_feature_names,                                                              \
             .help = "features are input_word_ids and input_type_ids, not input_ids and "          \
                     "segment_ids")

static const char *const file_types[] = {"tfrecord", "sstable", "recordio", NULL};
static const tl_field pretrain_fields[] = {
    PRETRAIN_ROWS(tl_pretrain_data_config),
    SIZE_ROW(tl_pretrain_data_config, seq_length, 512, "words of an example"),
    SIZE_ROW(tl_pretrain_data_config, max_predictions_per_seq, 76,
             "places of an example that may be hidden"),
    TL_F(tl_pretrain_data_config, file_type, .names = file_types, .help = "tfrecord"),
    TL_F_END,
};

static tl_status check_files(tl_language_files type)
{
    if (type == TL_LANGUAGE_TFRECORD) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED, "file_type: %s is not supported; write TFRecords",
                   file_types[type]);
}

static tl_status check_pretrain(const void *value)
{
    return check_files(((const tl_pretrain_data_config *)value)->file_type);
}

static tl_status check_sentence(const void *value)
{
    return check_files(((const tl_sentence_data_config *)value)->file_type);
}

const tl_desc tl_pretrain_data_config_desc = {
    .name = "pretrain_data",
    .help = "examples with hidden words",
    .size = sizeof(tl_pretrain_data_config),
    .fields = pretrain_fields,
    .base = &tl_data_config_desc,
    .check = check_pretrain,
};

#define DYNAMIC_F(member, ...) TL_F(tl_pretrain_dynamic_data_config, member, __VA_ARGS__)
static const tl_field dynamic_fields[] = {
    PRETRAIN_ROWS(tl_pretrain_dynamic_data_config),
    DYNAMIC_F(seq_bucket_lengths, TL_DEFAULT_LIST(int64_t, 128, 256, 384, 512), TL_AT_LEAST(1),
              .help = "lengths that examples are filled up to, the shortest that will do"),
    DYNAMIC_F(seq_bucket_window_scale, .i = 8, TL_AT_LEAST(1), .flags = TL_FIELD_UNREAD,
              .help = "here batches come when they are full"),
    DYNAMIC_F(enable_round_robin_tf_data_service, .flags = TL_FIELD_LATER,
              .help = "(tf.data service)"),
    TL_F_AS(tl_pretrain_dynamic_data_config, base.deterministic, "deterministic", .set = true,
            .help = "here the order is always the same"),
    TL_F_AS(tl_pretrain_dynamic_data_config, base.tf_data_service_job_name,
            "tf_data_service_job_name", .s = "bert_pretrain",
            .flags = TL_FIELD_LATER | TL_FIELD_NULLABLE, .help = "(tf.data service)"),
    TL_F_END,
};
const tl_desc tl_pretrain_dynamic_data_config_desc = {
    .name = "pretrain_dynamic_data",
    .help = "examples with hidden words, in batches of about one length",
    .size = sizeof(tl_pretrain_dynamic_data_config),
    .fields = dynamic_fields,
    .base = &tl_data_config_desc,
};

#define SENTENCE_F(member, ...) TL_F(tl_sentence_data_config, member, __VA_ARGS__)
static const tl_field sentence_fields[] = {
    TL_F_AS(tl_sentence_data_config, base.global_batch_size, "global_batch_size", .i = 32,
            TL_AT_LEAST(0), .help = "examples of one step, over all replicas"),
    TL_F_AS(tl_sentence_data_config, base.is_training, "is_training", .set = true, .b = true,
            .help = "repeat and shuffle the examples; null is as false"),
    SIZE_ROW(tl_sentence_data_config, seq_length, 128, "words of an example"),
    SENTENCE_F(label_type, .s = "int", .pattern = "^(int|float)$",
               .help = "int for classes, float for numbers"),
    SENTENCE_F(include_example_id, .help = "examples have a number, example_id"),
    SENTENCE_F(label_field, .s = "label_ids", .help = "feature of the label"),
    SENTENCE_F(label_name, .flags = TL_FIELD_NULLABLE, .help = "another name of the label"),
    SENTENCE_F(file_type, .names = file_types, .help = "tfrecord"),
    TL_F_END,
};
const tl_desc tl_sentence_data_config_desc = {
    .name = "sentence_data",
    .help = "sequences with a label",
    .size = sizeof(tl_sentence_data_config),
    .fields = sentence_fields,
    .base = &tl_data_config_desc,
    .check = check_sentence,
};
