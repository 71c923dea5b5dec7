/* The task sentence_prediction: a class, or a number, for one sentence or two. */
#include <math.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/base/vec.h>
#include <tilth/nn/metrics.h>
#include <tilth/ops/attention.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/loss.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/softmax.h>
#include <tilth/ops/view.h>
#include <tilth/train/run/initialize.h>

#include "zoo/language/data.h"
#include "zoo/language/encoder.h"
#include "zoo/language/foreign.h"
#include "zoo/language/lacks.h"
#include "zoo/language/names.h"
#include "zoo/language/scores.h"
#include "zoo/language/sentence.h"

/* --- the model -------------------------------------------------------------------------------- */

static const double head_dropout = 0.1; // Model Garden has no field for it

typedef struct classifier {
    tl_model base;
    tl_layer *encoder, *dropout, *head;
} classifier;

/* Sizes and first values of what stands on an encoder are the encoder's. */
static tl_status ask_encoder(tl_scope *s, const tl_oneof *encoder, int64_t *size, double *spread)
{
    const tl_class *cls;
    void *config = encoder->value;
    TL_TRY(tl_registry_find(&cls, tl_scope_registry(s), &tl_kind_encoder, encoder->type));
    if (!config) TL_TRY(tl_desc_new(&config, tl_scope_arena(s), cls->config));
    const tl_encoder_class *with = TL_CLASS_METHOD(tl_encoder_class, cls, hidden_size);
    const tl_field *f = tl_desc_field(cls->config, "initializer_range");
    *size = with ? with->hidden_size(config) : 0;
    *spread = f && f->type == TL_TYPE_DOUBLE ? *(double *)tl_field_at(f, config) : 0.02;
    return TL_OK;
}

static tl_status build(tl_model *m, tl_scope *s, const void *config)
{
    classifier *n = (classifier *)m;
    const tl_sentence_model_config *k = config;
    int64_t size;
    double spread;
    n->encoder = tl_build_encoder(s, "encoder", &k->encoder);
    TL_TRY(tl_scope_status(s));
    TL_TRY(ask_encoder(s, &k->encoder, &size, &spread));
    tl_oneof first = tli_truncated_normal(tl_scope_arena(s), spread);
    if (!first.type) return TL_ENOMEM;
    if (!size && !k->use_encoder_pooler)
        return TL_FAIL(TL_EINVAL,
                       "the encoder '%s' does not say how large its vectors are: set "
                       "use_encoder_pooler",
                       k->encoder.type);
    tl_scope_item(s, "encoder", n->encoder);
    if (k->use_encoder_pooler) n->dropout = tl_dropout_layer(s, "dropout", .rate = head_dropout);
    n->head = tl_classification_head(
        s, "sentence_prediction", .inner_dim = k->use_encoder_pooler ? 0 : size,
        .num_classes = k->num_classes, .dropout_rate = TL_SET(head_dropout), .initializer = first);
    return tl_scope_status(s);
}

static void forward(tl_model *m, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    classifier *n = (classifier *)m;
    tl_tensors from = {0};
    tl_call_all(c, n->encoder, in, &from);
    tl_tensor *x = tl_tensors_get(c, &from, n->dropout ? "pooled_output" : "sequence_output");
    if (n->dropout) x = tl_call(c, n->dropout, x);
    tl_tensors_put(c, out, "sentence_prediction", tl_call(c, n->head, x));
}

static const tl_layer_class classifier_class = {
    .cls = TL_CLASS(tl_layer_class, "bert_classifier", NULL, classifier, NULL),
    .build = build,
    .forward_all = forward,
};

tl_status tl_sentence_model_new(tl_model **out, const tl_sentence_model_args *args)
{
    *out = NULL;
    const int64_t batch = args->batch_size > 0 ? args->batch_size : 1;
    const int64_t length = args->seq_length > 0 ? args->seq_length : 1;
    const tl_spec inputs[] = {{"input_word_ids", TL_I32, TL_SHAPE(batch, length)},
                              {"input_mask", TL_I32, TL_SHAPE(batch, length)},
                              {"input_type_ids", TL_I32, TL_SHAPE(batch, length)}};
    if (args->config->num_classes < 1)
        return TL_FAIL(TL_EINVAL,
                       "task.model.num_classes is %lld: set it to the number of classes, or to 1 "
                       "for a number",
                       (long long)args->config->num_classes);
    return tl_model_new(out, &(tl_model_args){.engine = args->engine,
                                              .cls = &classifier_class,
                                              .config = args->config,
                                              .inputs = inputs,
                                              .input_count = TL_COUNT(inputs),
                                              .seed = args->seed,
                                              .dtype = args->dtype,
                                              .registry = args->registry});
}

/* --- the task --------------------------------------------------------------------------------- */

static const tl_sentence_task_config *config_of(const tl_task *t)
{
    return (const tl_sentence_task_config *)t->config;
}

static const tl_sentence_model_config *model_of(const tl_task *t)
{
    return t->config->model.value;
}

typedef tli_sentence_task sentence_task;

static void dispose(tl_task *t)
{
    sentence_task *s = (sentence_task *)t;
    for (int i = 0; i < 2; i++) tl_tokenizer_free(&s->tokenizers[i]);
    tli_pieces_deinit(&s->pieces);
}

bool tli_sentence_reads_texts(const tl_task *t)
{
    return tl_class_is(&t->cls->cls, &tl_sentence_prediction_text_task.cls);
}

bool tli_sentence_reads_own(const tl_task *t)
{
    return tl_class_is(&t->cls->cls, &tl_text_classification_task.cls);
}

static const tl_text_task_config *own_config(const tl_task *t)
{
    return (const tl_text_task_config *)t->config;
}

static tl_status build_text_inputs(tl_task *t, const tl_sentence_text_data_config *data,
                                   const tli_language_inputs *args, tl_dataset **out)
{
    sentence_task *s = (sentence_task *)t;
    tl_tokenizer **tokenizer = &s->tokenizers[args->trains];
    *out = NULL;
    if (s->pieces.tokenizer) return tli_sentence_text_inputs(out, data, s->pieces.tokenizer, args);
    if (!*tokenizer) TL_TRY(tli_sentence_tokenizer(tokenizer, data, args->section));
    return tli_sentence_text_inputs(out, data, *tokenizer, args);
}

static tl_status build_inputs(tl_task *t, const tl_data_config *data, const tl_input_context *input,
                              tl_dataset **out)
{
    const bool trains = data == t->config->train_data;
    tli_language_inputs args = {.input = input,
                                .section = trains ? "task.train_data" : "task.validation_data",
                                .trains = trains,
                                .arena = t->arena,
                                .classes = model_of(t) ? model_of(t)->num_classes : 0,
                                .classes_key = "task.model.num_classes"};
    if (model_of(t))
        TL_TRY(tli_ask_words(&args.words, &model_of(t)->encoder, t->registry, t->arena));
    if (tli_sentence_reads_own(t)) {
        TL_TRY(tli_sentence_need_pieces(t));
        return tli_texts_inputs(out, own_config(t), (const tl_text_data_config *)data,
                                &((sentence_task *)t)->pieces, &args);
    }
    if (tli_sentence_reads_texts(t))
        return build_text_inputs(t, (const tl_sentence_text_data_config *)data, &args, out);
    return tli_sentence_inputs(out, (const tl_sentence_data_config *)data, &args);
}

int64_t tli_sentence_length(const tl_task *t)
{
    const tl_data_config *data = t->config->train_data;
    if (tli_sentence_reads_own(t)) return own_config(t)->seq_length;
    if (!data) return 1;
    return tli_sentence_reads_texts(t) ? ((const tl_sentence_text_data_config *)data)->seq_length
                                       : ((const tl_sentence_data_config *)data)->seq_length;
}

static tl_status build_model(tl_task *t, tl_model **out)
{
    const tl_sentence_model_config *k = model_of(t);
    *out = NULL;
    if (!k) return TL_FAIL(TL_EINVAL, "task.model is null: there is no model to build");
    TL_TRY(tli_ask_words(&((sentence_task *)t)->words, &k->encoder, t->registry, t->arena));
    TL_TRY(
        tl_sentence_model_new(out, &(tl_sentence_model_args){.engine = t->engine,
                                                             .config = k,
                                                             .seq_length = tli_sentence_length(t),
                                                             .seed = t->seed,
                                                             .dtype = t->dtype,
                                                             .registry = t->registry}));
    tl_status st = k->use_encoder_pooler ? TL_OK : tli_freeze_pooler(*out);
    if (st != TL_OK) tl_model_free(out);
    return st;
}

static void split_batch(const tl_task *t, const tl_batch *b, tl_batch_parts *out)
{
    static const char *const features[] = {"input_word_ids", "input_mask", "input_type_ids"};
    (void)t;
    for (int64_t i = 0; i < TL_COUNT(features); i++)
        tl_tensors_put(b->ctx, &out->features, features[i], tl_batch_get(b, features[i]));
    tl_tensors_put(b->ctx, &out->labels, "label_ids", tl_batch_get(b, "label_ids"));
    out->weight = tl_batch_weight(b);
}

static tl_tensor *in_full(tl_ctx *c, tl_tensor *t)
{
    return t && t->dtype != TL_F64 ? tl_cast(c, t, TL_F32) : t;
}

static tl_tensor *flat(tl_ctx *c, tl_tensor *t)
{
    return tl_reshape(c, t, TL_SHAPE(-1));
}

static tl_tensor *build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                               const tl_tensors *outputs, tl_tensor *aux)
{
    tl_tensor *label = flat(c, tl_tensors_get(c, labels, "label_ids"));
    tl_tensor *answer = in_full(c, tl_tensors_get(c, outputs, "sentence_prediction"));
    if (!label || !answer) return NULL;
    tl_tensor *losses;
    if (model_of(t)->num_classes == 1)
        losses = tl_square(c, tl_sub(c, flat(c, answer), tl_cast(c, label, answer->dtype)));
    else losses = tl_sparse_cross_entropy(c, label, answer);
    return aux && losses ? tl_add(c, losses, tl_cast(c, aux, losses->dtype)) : losses;
}

static tl_status build_metrics(tl_task *t, bool training, tl_metrics *into)
{
    const int64_t classes = model_of(t)->num_classes;
    (void)training;
    if (classes == 1)
        return tl_metrics_add(NULL, into, &tl_metric_mean_squared_error, NULL,
                              "mean_squared_error");
    TL_TRY(
        tl_metrics_add(NULL, into, &tl_metric_sparse_categorical_accuracy, NULL, "cls_accuracy"));
    if (classes != 2) return TL_OK;
    return tl_metrics_add(NULL, into, &tl_metric_auc, &(tl_auc_config){.curve = TL_CURVE_PR},
                          "auc");
}

static void process_metrics(tl_task *t, tl_step *s, const tl_tensors *labels,
                            const tl_tensors *outputs)
{
    tl_tensor *label = tl_tensors_peek(labels, "label_ids");
    tl_tensor *answer = tl_tensors_peek(outputs, "sentence_prediction");
    tl_tensor *weight = tl_step_parts(s)->weight;
    (void)t;
    if (!s->metrics || !label || !answer) return;
    bool taping = tl_ctx_set_taping(s->ctx, false);
    label = flat(s->ctx, label);
    answer = in_full(s->ctx, answer);
    for (int64_t i = 0; i < tl_metrics_count(s->metrics); i++) {
        tl_metric *m = tl_metrics_at(s->metrics, i);
        tl_tensor *y = label, *o = answer;
        if (TL_CLASS_METHOD(tl_metric_class, m->cls, of_values)) continue; // somebody else's
        if (strcmp(m->name, "auc") == 0) o = tl_take(s->ctx, tl_softmax(s->ctx, answer, -1), 1, 1);
        if (strcmp(m->name, "mean_squared_error") == 0)
            y = tl_cast(s->ctx, label, TL_F32), o = flat(s->ctx, answer);
        tl_metric_update(m, s->ctx, y, o, weight);
    }
    tl_ctx_set_taping(s->ctx, taping);
}

/* --- scores of the whole evaluation ----------------------------------------------------------- */

typedef struct numbers {
    double *items;
    int64_t count, capacity;
} numbers;
typedef struct gathered {
    numbers labels, answers;
} gathered;

static bool is_metric(const tl_task *t, const char *name)
{
    return strcmp(config_of(t)->metric_type, name) == 0;
}

static tl_status validation_step(tl_task *t, tl_step *s)
{
    tl_tensors outputs = {0};
    tl_ctx *c = s->ctx;
    const tl_batch_parts *in = tl_step_parts(s);
    TL_TRY(tl_task_inference_step(t, s, &outputs));
    tl_step_report(s, tl_task_build_losses(t, c, &in->labels, &outputs, tl_step_aux_losses(s)),
                   in->weight);
    tl_task_process_metrics(t, s, &in->labels, &outputs);
    if (is_metric(t, "accuracy")) return tl_ctx_status(c);
    tl_tensor *answer = tl_tensors_get(c, &outputs, "sentence_prediction");
    if (model_of(t)->num_classes > 1 && !is_metric(t, "pearson_spearman_corr"))
        answer = tl_argmax(c, answer, -1, false);
    tl_step_log(s, "sentence_prediction", flat(c, answer));
    tl_step_log(s, "labels", flat(c, tl_tensors_get(c, &in->labels, "label_ids")));
    if (in->weight) tl_step_log(s, "weights", flat(c, in->weight));
    return tl_ctx_status(c);
}

static tl_status read_numbers(double **out, int64_t *count, const tl_logs *step, const char *name)
{
    tl_logs_entry entry;
    *out = NULL;
    *count = 0;
    if (!tl_logs_find(&entry, step, name) || !entry.tensor) return TL_OK;
    *count = tl_tensor_count(entry.tensor);
    *out = tl_alloc((size_t)*count * sizeof **out + 1);
    if (!*out) return TL_FAIL_NOMEM((size_t)*count * sizeof **out);
    return tl_tensor_get_doubles(entry.tensor, *out, *count);
}

static tl_status aggregate_logs(tl_task *t, void **state, const tl_logs *step)
{
    double *labels = NULL, *answers = NULL, *weights = NULL;
    int64_t count, answered, weighted;
    tl_status st = TL_OK;
    if (is_metric(t, "accuracy")) return TL_OK;
    if (!*state && !(*state = tl_alloc_zero(sizeof(gathered))))
        return TL_FAIL_NOMEM(sizeof(gathered));
    gathered *g = *state;
    TL_TRY_DONE(st, read_numbers(&labels, &count, step, "labels"));
    TL_TRY_DONE(st, read_numbers(&answers, &answered, step, "sentence_prediction"));
    TL_TRY_DONE(st, read_numbers(&weights, &weighted, step, "weights"));
    if (answered != count)
        st = TL_FAIL(TL_EINVAL,
                     "there are %lld labels and %lld answers in a step; %s needs one answer for "
                     "each label: set task.model.num_classes=1",
                     (long long)count, (long long)answered, config_of(t)->metric_type);
    for (int64_t i = 0; st == TL_OK && i < count; i++) {
        if (weights && weights[i] == 0) continue; // fills up a batch
        if (!TL_VEC_PUSH(&g->labels, labels[i]) || !TL_VEC_PUSH(&g->answers, answers[i]))
            st = TL_ENOMEM;
    }
done:
    tl_free(labels);
    tl_free(answers);
    tl_free(weights);
    return st;
}

static tl_status reduce_aggregated_logs(tl_task *t, void *state, int64_t global_step, tl_logs *into)
{
    const gathered *g = state;
    const double *a = g->labels.items, *b = g->answers.items;
    const int64_t n = g->labels.count;
    double score = 0;
    (void)global_step;
    if (is_metric(t, "f1")) {
        score = tli_f1_score(a, b, n);
    } else if (is_metric(t, "matthews_corrcoef")) {
        TL_TRY(tli_matthews_corrcoef(&score, a, b, n));
    } else {
        TL_TRY(tli_spearman(&score, a, b, n));
        score = (score + tli_pearson(a, b, n)) / 2;
    }
    return tl_logs_put(into, config_of(t)->metric_type, score);
}

static void release_aggregated(tl_task *t, void *state)
{
    gathered *g = state;
    (void)t;
    if (!g) return;
    TL_VEC_FREE(&g->labels);
    TL_VEC_FREE(&g->answers);
    tl_free(g);
}

/* --- weights of others ------------------------------------------------------------------------ */

/* An encoder that was saved as a SavedModel: its weights are a checkpoint in a folder of their own.
 */
static tl_status initialize_from_saved_model(tl_task *t, tl_model *m, const char *prefix)
{
    static const tl_initial_part encoder = {.name = "encoder", .is_root = true};
    TL_TRY_NOTE(tl_task_initialize_parts(t, m, prefix, &encoder, 1), "task.hub_module_url");
    return TL_OK;
}

/* A folder that somebody has fetched: the encoder, and a classifier where it has one. */
static tl_status initialize_from_hub(tl_task *t, tl_model *m, const char *url)
{
    tli_foreign_model what;
    const char *prefix = tl_arena_printf(t->arena, "%s/variables/variables", url);
    const char *index = tl_arena_printf(t->arena, "%s.index", prefix ? prefix : "");
    if (!prefix || !index) return TL_ENOMEM;
    if (strstr(url, "://"))
        return TL_FAIL(TL_EUNSUPPORTED,
                       "task.hub_module_url: '%s': nothing is fetched from elsewhere; get the "
                       "model's folder of Hugging Face (config.json and model.safetensors), or its "
                       "SavedModel, and name that",
                       url);
    if (tl_file_exists(index)) return initialize_from_saved_model(t, m, prefix);
    if (!tl_dir_exists(url) || !tli_foreign_is(url))
        return TL_FAIL(TL_ENOTFOUND,
                       "task.hub_module_url: '%s' is no folder of Hugging Face, with config.json "
                       "and model.safetensors, nor a SavedModel, with variables%s",
                       url, tl_dir_exists(url) ? "; checkpoints go by task.init_checkpoint" : "");
    TL_TRY_NOTE(tli_foreign_sentences(&what, t), "task.hub_module_url");
    TL_TRY_NOTE(tli_foreign_initialize(m, url, &what), "task.hub_module_url");
    return TL_OK;
}

static tl_status initialize(tl_task *t, tl_model *m)
{
    static const tl_initial_part parts[] = {{.name = "encoder"},
                                            {.name = "sentence_prediction/pooler_dense",
                                             .from = "next_sentence/pooler_dense",
                                             .object = "next_sentence..pooler_dense"}};
    const tl_sentence_task_config *k = config_of(t);
    const char *from = t->config->init_checkpoint;
    tli_foreign_model what;
    if (*k->hub_module_url && from && *from)
        return TL_FAIL(TL_EINVAL, "task.hub_module_url: it and init_checkpoint exclude each other: "
                                  "clear one of them");
    if (*k->hub_module_url) return initialize_from_hub(t, m, k->hub_module_url);
    if (k->init_cls_pooler && (!from || !*from))
        TL_LOG_WARNING("task.init_cls_pooler has no effect: the head would begin with a part of "
                       "task.init_checkpoint, which is empty; name a run of pre-training there");
    if (!from || !*from) return TL_OK;
    if (k->init_cls_pooler && model_of(t)->use_encoder_pooler)
        return TL_FAIL(TL_EINVAL,
                       "task.init_cls_pooler: with task.model.use_encoder_pooler the head has no "
                       "dense layer that could begin as that of next_sentence: clear one of them");
    if (!tli_foreign_is(from))
        return tl_task_initialize_parts(t, m, from, parts, k->init_cls_pooler ? 2 : 1);
    TL_TRY_NOTE(tli_foreign_sentences(&what, t), "task.init_checkpoint: '%s'", from);
    what.encoder_only = true;
    what.pooler_of_head = k->init_cls_pooler;
    TL_TRY_NOTE(tli_foreign_initialize(m, from, &what), "task.init_checkpoint");
    return TL_OK;
}

static tl_status original_names(tl_task *t, tl_original_names *into)
{
    const tl_sentence_model_config *k = model_of(t);
    if (!k) return TL_FAIL(TL_EINVAL, "task.model is null");
    return tli_sentence_names(t, k, into);
}

static tl_status export_weights(tl_task *t, const tl_export_args *args, tl_state *weights,
                                tl_notes *files)
{
    tli_foreign_model what;
    TL_TRY(tli_foreign_sentences(&what, t));
    return tli_foreign_export(t, args, &what, weights, files);
}

/* --- what is configured ----------------------------------------------------------------------- */

static const tl_field model_fields[] = {
    TL_F(tl_sentence_model_config, num_classes, TL_AT_LEAST(0),
         .help = "number of classes; 1 for a number"),
    TL_F(tl_sentence_model_config, use_encoder_pooler,
         .help = "judge by what the encoder pools, not by the first place"),
    TL_F(tl_sentence_model_config, encoder, .kind = &tl_kind_encoder,
         .help = "what turns words into vectors"),
    TL_F_END,
};
const tl_desc tl_sentence_model_config_desc = {
    .name = "sentence_model",
    .help = "an encoder and a head that judges",
    .size = sizeof(tl_sentence_model_config),
    .fields = model_fields,
};

/* Of both kinds of data, which begin alike. */
static void init_validation(void *value)
{
    ((tl_data_config *)value)->is_training.value = false;
}

#define SENTENCE_ROWS(data_desc, init_)                                                            \
    TL_F_AS(tl_sentence_task_config, base.model, "model", .set = true,                             \
            .desc = &tl_sentence_model_config_desc, .help = "an encoder and a head that judges"),  \
        TL_F_OPTIONAL_AS(tl_sentence_task_config, base.train_data, "train_data", &data_desc,       \
                         .set = true, .help = "examples to train with"),                           \
        TL_F_OPTIONAL_AS(tl_sentence_task_config, base.validation_data, "validation_data",         \
                         &data_desc, .set = true, .init = init_,                                   \
                         .help = "examples to evaluate with"),                                     \
        TL_F(tl_sentence_task_config, init_cls_pooler,                                             \
             .help = "the head begins with what judged next sentences in init_checkpoint"),        \
        TL_F(tl_sentence_task_config, hub_module_url, .s = "",                                     \
             .help = "a folder of Hugging Face, or a SavedModel of an encoder, to begin with"),    \
        TL_F(tl_sentence_task_config, metric_type, .s = "accuracy",                                \
             .pattern = "^(accuracy|f1|matthews_corrcoef|pearson_spearman_corr)$",                 \
             .help = "accuracy, f1, matthews_corrcoef or pearson_spearman_corr")

static const tl_field task_fields[] = {SENTENCE_ROWS(tl_sentence_data_config_desc, init_validation),
                                       TL_F_END};
static const tl_field text_task_fields[] = {
    SENTENCE_ROWS(tl_sentence_text_data_config_desc, init_validation), TL_F_END};

/* Which answers a score is of. */
static tl_status check_task(const void *value)
{
    const tl_sentence_task_config *k = value;
    const tl_sentence_model_config *m = k->base.model.value;
    const bool of_numbers = strcmp(k->metric_type, "pearson_spearman_corr") == 0;
    if (!m || m->num_classes < 1 || strcmp(k->metric_type, "accuracy") == 0) return TL_OK;
    if (of_numbers == (m->num_classes == 1)) return TL_OK;
    return TL_FAIL(TL_EINVAL, "metric_type: %s is of %s, and model.num_classes is %lld",
                   k->metric_type, of_numbers ? "numbers (num_classes: 1)" : "classes (2 or more)",
                   (long long)m->num_classes);
}

const tl_desc tl_sentence_task_config_desc = {
    .name = "sentence_prediction",
    .help = "a class, or a number, for one sentence or two",
    .size = sizeof(tl_sentence_task_config),
    .fields = task_fields,
    .base = &tl_task_config_desc,
    .check = check_task,
};

#define OWN_F(member, ...) TL_F(tl_text_task_config, member, __VA_ARGS__)
static const tl_field own_fields[] = {
    SENTENCE_ROWS(tl_text_data_config_desc, init_validation),
    OWN_F(class_names, .help = "names of the classes, in the order of their numbers"),
    OWN_F(vocab_file, .s = "", .flags = TL_FIELD_PATH,
          .help = "vocab.txt, tokenizer.json, or a folder with one; empty: that of "
                  "init_checkpoint, else it is learned from the texts"),
    OWN_F(vocab_size, .i = 8000, TL_RANGE(7, 1 << 20),
          .help = "pieces that are learned where no vocabulary is named, at most"),
    OWN_F(lower_case,
          .help = "texts are lowered; null: as the vocabulary says, true where it does not"),
    OWN_F(seq_length, .i = 128, TL_RANGE(5, 65536),
          .help = "pieces of a text; longer ones are cut"),
    TL_F_END,
};

const tl_desc tl_text_task_config_desc = {
    .name = "text_classification",
    .help = "a class for a text, or for a pair",
    .size = sizeof(tl_text_task_config),
    .fields = own_fields,
    .base = &tl_task_config_desc,
    .check = check_task,
};

const tl_desc tl_sentence_text_task_config_desc = {
    .name = "sentence_prediction_text",
    .help = "a class, or a number, for one text or two",
    .size = sizeof(tl_sentence_task_config),
    .fields = text_task_fields,
    .base = &tl_task_config_desc,
    .check = check_task,
};

/* Tasks are found by their configuration, and kinds of data have one each. */
#define SENTENCE_TASK(id, desc_, help_, ...)                                                       \
    const tl_task_class tl_##id##_task = {.cls = {.class_size = sizeof(tl_task_class),             \
                                                  .name = #id,                                     \
                                                  .base = &tl_base_task.cls,                       \
                                                  .size = sizeof(sentence_task),                   \
                                                  .config = &desc_,                                \
                                                  .help = help_},                                  \
                                          .start = tli_sentence_start,                             \
                                          .dispose = dispose,                                      \
                                          .build_model = build_model,                              \
                                          .build_inputs = build_inputs,                            \
                                          .split_batch = split_batch,                              \
                                          .build_losses = build_losses,                            \
                                          .build_metrics = build_metrics,                          \
                                          .process_metrics = process_metrics,                      \
                                          .validation_step = validation_step,                      \
                                          .aggregate_logs = aggregate_logs,                        \
                                          .reduce_aggregated_logs = reduce_aggregated_logs,        \
                                          .release_aggregated = release_aggregated,                \
                                          .initialize = initialize,                                \
                                          .export_weights = export_weights,                        \
                                          .original_names = original_names,                        \
                                          .notes = tli_sentence_notes,                             \
                                          .prepare_query = tli_sentence_prepare_query,             \
                                          .build_answers = tli_sentence_build_answers,             \
                                          .answer_form = tli_sentence_answer_form,                 \
                                          .show_example = tli_sentence_show_example,               \
                                          .set_classes = tli_sentence_set_classes,                 \
                                          .export_files = tli_sentence_export_files,               \
                                          __VA_ARGS__}
SENTENCE_TASK(sentence_prediction, tl_sentence_task_config_desc,
              "a class, or a number, for one sentence or two", .lacks = tli_sentence_lacks);
SENTENCE_TASK(sentence_prediction_text, tl_sentence_text_task_config_desc,
              "sentence_prediction from texts", .lacks = tli_sentence_text_lacks);
SENTENCE_TASK(text_classification, tl_text_task_config_desc, "a class for a text, or for a pair",
              .lacks = tli_texts_lacks);
