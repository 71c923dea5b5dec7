/* From records to batches: ids of words, masks, types, and what is to be guessed. */
#include "zoo/language/data.h"

#include <string.h>
#include <tilth/data/pipeline.h>

#include "zoo/language/encoder.h"

enum { MOST_FEATURES = 8, MOST_LIMITS = 4 };

typedef struct plan {
    const char *section;
    tl_arena *arena;
    tl_feature_spec items[MOST_FEATURES];
    tl_example_features features;
    tli_limit limits[MOST_LIMITS];
    int64_t limit_count;
    // What is behind the last word is cut, and so many words are left at most; 0: nothing is cut.
    int64_t longest;
} plan;

/* The setting that says it, or NULL. */
static const char *key_of(const plan *p, const char *name)
{
    return name ? tl_arena_printf(p->arena, "%s.%s", p->section, name) : NULL;
}

static void want(plan *p, const char *name, const char *as, tl_dtype dtype, tl_shape shape,
                 const char *name_key, const char *shape_key)
{
    TL_ASSERT(p->features.count < MOST_FEATURES);
    p->items[p->features.count++] = (tl_feature_spec){.spec = {name, dtype, shape},
                                                      .as = as,
                                                      .name_key = key_of(p, name_key),
                                                      .shape_key = key_of(p, shape_key)};
}

static void limit_to(plan *p, tli_limit limit)
{
    TL_ASSERT(p->limit_count < MOST_LIMITS);
    p->limits[p->limit_count++] = limit;
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
    *p = (plan){.section = args->section, .arena = args->arena};
    p->features.items = p->items;
    return TL_OK;
}

/* --- what fits the model ---------------------------------------------------------------------- */

tl_status tli_ask_words(tli_words *out, const tl_oneof *encoder, const tl_registry *registry,
                        tl_arena *arena)
{
    *out = (tli_words){0};
    TL_TRY(tli_encoder_words(&out->count, encoder, registry, arena));
    if (!out->count) return TL_OK;
    out->key = tl_arena_printf(arena, "task.model.encoder.%s.vocab_size", encoder->type);
    return out->key ? TL_OK : TL_ENOMEM;
}

#define OR_ANOTHER "set it to %lld, or name the vocabulary that task.init_checkpoint was made with"

tl_status tli_check_pieces(const tl_tokenizer *t, const char *key, const tli_language_inputs *args)
{
    const long long pieces = tl_tokenizer_count(t), words = args->words.count;
    if (!words || pieces <= words) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "%s is %lld, and the vocabulary of %s.%s has %lld pieces: " OR_ANOTHER,
                   args->words.key, words, args->section, key, pieces, pieces);
}

tl_status tli_check_words(const tl_tokenizer *t, const int32_t *ids, int64_t count,
                          const tli_words *room)
{
    int64_t at = 0;
    while (at < count && (!room->count || ids[at] < room->count)) at++;
    if (at == count) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "the piece '%.80s' has the number %d in '%s', and %s is %lld: " OR_ANOTHER,
                   tl_tokenizer_piece(t, ids[at]), (int)ids[at], tl_tokenizer_file(t), room->key,
                   (long long)room->count, (long long)tl_tokenizer_count(t));
}

tl_status tli_check_label_type(const char *type, const tli_language_inputs *args)
{
    if (args->classes < 2 || strcmp(type, "float") != 0) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "%s.label_type: float is of numbers, and %s is %lld: set label_type=int for "
                   "classes, or %s=1 for a number",
                   args->section, args->classes_key, (long long)args->classes, args->classes_key);
}

tl_status tli_class_limit(tli_limit *out, const char *feature, const char *field,
                          const tli_language_inputs *args)
{
    *out = (tli_limit){feature, field, 0, NULL};
    if (args->classes < 2) return TL_OK;
    out->below = args->classes;
    out->what = tl_arena_printf(args->arena, "set %s to the number of classes, which count from 0",
                                args->classes_key);
    return out->what ? TL_OK : TL_ENOMEM;
}

// Whether all are from 0 to below a bound, two at a time: what is not has the highest bit, or
// leaves it when it is taken from the last number that is.
static bool all_below(const int32_t *values, int64_t count, uint32_t below)
{
    const uint32_t last = below - 1;
    const uint64_t lasts = (uint64_t)last << 32 | last;
    uint64_t bad = 0;
    int64_t i = 0;
    for (; i + 2 <= count; i += 2) {
        uint64_t two;
        memcpy(&two, values + i, sizeof two);
        bad |= two | (lasts - two); // an upper one lends to a lower one that is bad
    }
    if (i < count) bad |= (uint32_t)values[i] | (last - (uint32_t)values[i]);
    return !(bad & UINT64_C(0x8000000080000000));
}

tl_status tli_check_limit(const tl_sample *s, const tli_limit *l)
{
    const tl_sample_field *f = tl_sample_peek(s, l->field), *words;
    int64_t below = l->below, at = 0;
    if (!below || !f || f->dtype != TL_I32) return TL_OK;
    if (below < 0) {
        TL_TRY(tl_sample_get(s, "input_word_ids", &words));
        // Examples that only fill up have no words, and the first place all the same.
        below = words->shape.dims[0] ? words->shape.dims[0] : 1;
    }
    const int32_t *values = f->data;
    const int64_t count = tl_shape_count(&f->shape);
    if (below <= INT32_MAX && all_below(values, count, (uint32_t)below)) return TL_OK;
    while (at < count && (int64_t)(uint32_t)values[at] < below) at++;
    if (at == count) return TL_OK;
    return TL_FAIL(TL_EINVAL, "feature '%s' has %d at [%lld]; 0 to %lld are expected: %s",
                   l->feature, (int)values[at], (long long)at, (long long)below - 1,
                   values[at] < 0 ? "make the records anew, with numbers from 0" : l->what);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Cuts what is behind the last word. */
static tl_status trim(const plan *p, tl_sample *s)
{
    static const char *const cut[] = {"input_word_ids", "input_mask", "input_type_ids",
                                      "position_ids"};
    const tl_sample_field *words;
    TL_TRY(tl_sample_get(s, "input_word_ids", &words));
    const int32_t *ids = words->data;
    const int64_t stored = words->shape.dims[0];
    int64_t length = stored;
    while (length > 0 && ids[length - 1] == 0) length--;
    if (length > p->longest)
        return TL_FAIL(TL_EINVAL,
                       "the example has %lld words, and %s.seq_bucket_lengths ends with %lld: add "
                       "a length, or make records of shorter sequences",
                       (long long)length, p->section, (long long)p->longest);
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

static tl_status decode(void *self, tl_sample *s)
{
    plan *p = self;
    TL_TRY(tl_example_decode(&p->features, s));
    if (p->longest) TL_TRY(trim(p, s));
    for (int64_t i = 0; i < p->limit_count; i++) TL_TRY(tli_check_limit(s, &p->limits[i]));
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
    a->decode = (tl_sample_map){decode, p};
    return tli_read_records(out, a, d, args);
}

/* --- hidden words ----------------------------------------------------------------------------- */

static void want_words(plan *p, bool v2, tl_shape length, const char *name_key,
                       const char *shape_key)
{
    want(p, v2 ? "input_word_ids" : "input_ids", "input_word_ids", TL_I32, length, name_key,
         shape_key);
    want(p, "input_mask", NULL, TL_I32, length, NULL, shape_key);
    want(p, v2 ? "input_type_ids" : "segment_ids", "input_type_ids", TL_I32, length, name_key,
         shape_key);
}

static void want_guesses(plan *p, tl_shape count, const char *shape_key)
{
    want(p, "masked_lm_positions", NULL, TL_I32, count, NULL, shape_key);
    want(p, "masked_lm_ids", NULL, TL_I32, count, NULL, shape_key);
    want(p, "masked_lm_weights", NULL, TL_F32, count, NULL, shape_key);
}

static tl_status limit_words(plan *p, const char *feature, const char *field,
                             const tli_language_inputs *args)
{
    if (!args->words.count) return TL_OK;
    const char *what = tl_arena_printf(p->arena,
                                       "set %s to the size of the vocabulary that the records were "
                                       "made with",
                                       args->words.key);
    limit_to(p, (tli_limit){feature, field, args->words.count, what});
    return what ? TL_OK : TL_ENOMEM;
}

static tl_status limit_classes(plan *p, const char *feature, const char *field,
                               const tli_language_inputs *args)
{
    tli_limit limit;
    TL_TRY(tli_class_limit(&limit, feature, field, args));
    limit_to(p, limit);
    return TL_OK;
}

static tl_status limit_guesses(plan *p, bool v2, bool next, const tli_language_inputs *args)
{
    TL_TRY(limit_words(p, v2 ? "input_word_ids" : "input_ids", "input_word_ids", args));
    TL_TRY(limit_words(p, "masked_lm_ids", "masked_lm_ids", args));
    limit_to(p, (tli_limit){"masked_lm_positions", "masked_lm_positions", -1,
                            "they are places of the sequence; make the records anew"});
    return next ? limit_classes(p, "next_sentence_labels", "next_sentence_labels", args) : TL_OK;
}

#define V2_KEY "use_v2_feature_names"
#define NEXT_KEY "use_next_sentence_label"

tl_status tli_pretrain_inputs(tl_dataset **out, const tl_pretrain_data_config *data,
                              const tli_language_inputs *args)
{
    plan *p;
    *out = NULL;
    TL_TRY(new_plan(&p, args));
    want_words(p, data->use_v2_feature_names, TL_SHAPE(data->seq_length), V2_KEY, "seq_length");
    want_guesses(p, TL_SHAPE(data->max_predictions_per_seq), "max_predictions_per_seq");
    if (data->use_next_sentence_label)
        want(p, "next_sentence_labels", NULL, TL_I32, TL_SHAPE(1), NEXT_KEY, NULL);
    if (data->use_position_id)
        want(p, "position_ids", NULL, TL_I32, TL_SHAPE(data->seq_length), "use_position_id",
             "seq_length");
    if (is_dummy(&data->base)) return dummy_inputs(out, p, args);
    TL_TRY(limit_guesses(p, data->use_v2_feature_names, data->use_next_sentence_label, args));
    return read_records(out, p, &(tl_pipeline_args){0}, &data->base, args);
}

/* --- hidden words, by length ------------------------------------------------------------------ */

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
    want_words(p, data->use_v2_feature_names, TL_SHAPE(-1), V2_KEY, NULL);
    want_guesses(p, TL_SHAPE(-1), NULL);
    if (data->use_next_sentence_label)
        want(p, "next_sentence_labels", NULL, TL_I32, TL_SHAPE(1), NEXT_KEY, NULL);
    if (data->use_position_id)
        want(p, "position_ids", NULL, TL_I32, TL_SHAPE(-1), "use_position_id", NULL);
    if (is_dummy(&data->base)) return dummy_inputs(out, p, args);
    if (!data->seq_bucket_lengths.count)
        return TL_FAIL(TL_EINVAL, "%s.seq_bucket_lengths is empty: give the lengths of batches",
                       args->section);
    tl_pipeline_args a = {0};
    TL_TRY(set_buckets(&a, data, args));
    p->longest = data->seq_bucket_lengths.items[data->seq_bucket_lengths.count - 1];
    TL_TRY(limit_guesses(p, data->use_v2_feature_names, data->use_next_sentence_label, args));
    return read_records(out, p, &a, &data->base, args);
}

/* --- sentences with labels -------------------------------------------------------------------- */

tl_status tli_sentence_inputs(tl_dataset **out, const tl_sentence_data_config *data,
                              const tli_language_inputs *args)
{
    plan *p;
    *out = NULL;
    TL_TRY(tli_check_label_type(data->label_type, args));
    TL_TRY(new_plan(&p, args));
    const tl_dtype label = strcmp(data->label_type, "float") == 0 ? TL_F32 : TL_I32;
    want_words(p, false, TL_SHAPE(data->seq_length), NULL, "seq_length");
    want(p, data->label_field, "label_ids", label, TL_SCALAR, "label_field", NULL);
    if (data->include_example_id)
        want(p, "example_id", NULL, TL_I64, TL_SCALAR, "include_example_id", NULL);
    if (is_dummy(&data->base)) return dummy_inputs(out, p, args);
    TL_TRY(limit_words(p, "input_ids", "input_word_ids", args));
    TL_TRY(limit_classes(p, data->label_field, "label_ids", args));
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
