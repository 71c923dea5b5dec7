/* The task masked_lm: words that were hidden are guessed, and whether the second sentence follows
 * the first. */
#include <string.h>
#include <tilth/nn/metrics.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/loss.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

#include "zoo/language/data.h"
#include "zoo/language/encoder.h"
#include "zoo/language/foreign.h"
#include "zoo/language/lacks.h"
#include "zoo/language/names.h"

typedef struct masked_lm_task {
    tl_task base;
    tl_tensor *lm_loss, *next_loss; /* of the losses that were built last */
} masked_lm_task;

#define NEXT "next_sentence"
#define LABELS_NEXT "next_sentence_labels"

/* --- what there is to read -------------------------------------------------------------------- */

static bool is_dynamic(const tl_task *t)
{
    return tl_class_is(&t->cls->cls, &tl_masked_lm_dynamic_task.cls);
}

static bool reads_texts(const tl_task *t)
{
    return tl_class_is(&t->cls->cls, &tl_masked_lm_text_task.cls);
}

/* Sizes of the largest batch, for the rehearsal. */
static void sizes_of(const tl_task *t, int64_t *length, int64_t *predictions)
{
    const tl_data_config *data = t->config->train_data;
    *length = *predictions = 1;
    if (data && is_dynamic(t)) {
        const tl_ints all = ((const tl_pretrain_dynamic_data_config *)data)->seq_bucket_lengths;
        if (all.count) *length = all.items[all.count - 1];
    } else if (data && reads_texts(t)) {
        *length = ((const tl_pretrain_text_data_config *)data)->seq_length;
        *predictions = ((const tl_pretrain_text_data_config *)data)->max_predictions_per_seq;
    } else if (data) {
        *length = ((const tl_pretrain_data_config *)data)->seq_length;
        *predictions = ((const tl_pretrain_data_config *)data)->max_predictions_per_seq;
    }
}

static bool has_labels(const tl_task *t, const tl_data_config *data)
{
    if (reads_texts(t))
        return ((const tl_pretrain_text_data_config *)data)->use_next_sentence_label;
    return is_dynamic(t) && data == t->config->train_data
               ? ((const tl_pretrain_dynamic_data_config *)data)->use_next_sentence_label
               : ((const tl_pretrain_data_config *)data)->use_next_sentence_label;
}

static bool has_next_sentence(const tl_task *t)
{
    const tl_data_config *data = t->config->train_data;
    if (!data) data = t->config->validation_data;
    return data && has_labels(t, data);
}

/* --- model and data --------------------------------------------------------------------------- */

static tl_status build_model(tl_task *t, tl_model **out)
{
    const tl_pretrainer_config *k = t->config->model.value;
    int64_t length, predictions;
    *out = NULL;
    if (!k) return TL_FAIL(TL_EINVAL, "task.model is null: there is no model to build");
    sizes_of(t, &length, &predictions);
    TL_TRY(tl_pretrainer_new(out, &(tl_pretrainer_args){.engine = t->engine,
                                                        .config = k,
                                                        .seq_length = length,
                                                        .predictions = predictions,
                                                        .seed = t->seed,
                                                        .dtype = t->dtype,
                                                        .registry = t->registry,
                                                        .arena = t->arena}));
    // No loss looks at what the encoder pools: as in Model Garden it stays as it is.
    tl_status st = tli_freeze_pooler(*out);
    if (st != TL_OK) tl_model_free(out);
    return st;
}

static const tl_cls_head_config *find_head(const tl_pretrainer_config *k, int64_t *place)
{
    const tl_cls_head_config *heads = k->cls_heads.items;
    for (*place = 0; *place < k->cls_heads.count; ++*place)
        if (heads[*place].name && strcmp(heads[*place].name, NEXT) == 0) return &heads[*place];
    return NULL;
}

/* Labels of next sentences are for the head of that name. */
static tl_status ask_next_sentence(tli_language_inputs *args, const tl_task *t,
                                   const tl_data_config *data)
{
    const tl_pretrainer_config *k = t->config->model.value;
    int64_t place;
    if (!k || !has_labels(t, data)) return TL_OK;
    const tl_cls_head_config *head = find_head(k, &place);
    if (!head)
        return TL_FAIL(TL_EINVAL,
                       "task.model.cls_heads: no head is called '" NEXT "', and "
                       "%s.use_next_sentence_label is true: add {name: " NEXT ", inner_dim: SIZE, "
                       "num_classes: 2}, SIZE as the encoder's hidden_size, or set "
                       "use_next_sentence_label=false for training and validation",
                       args->section);
    args->classes = head->num_classes;
    args->classes_key =
        tl_arena_printf(args->arena, "task.model.cls_heads[%lld].num_classes", (long long)place);
    return args->classes_key ? TL_OK : TL_ENOMEM;
}

static tl_status build_inputs(tl_task *t, const tl_data_config *data, const tl_input_context *input,
                              tl_dataset **out)
{
    const bool trains = data == t->config->train_data;
    tli_language_inputs args = {.input = input,
                                .section = trains ? "task.train_data" : "task.validation_data",
                                .trains = trains,
                                .arena = t->arena};
    const tl_pretrainer_config *k = t->config->model.value;
    if (k) TL_TRY(tli_ask_words(&args.words, &k->encoder, t->registry, t->arena));
    TL_TRY(ask_next_sentence(&args, t, data));
    if (reads_texts(t))
        return tli_pretrain_text_inputs(out, (const tl_pretrain_text_data_config *)data, &args);
    if (trains && is_dynamic(t))
        return tli_pretrain_dynamic_inputs(out, (const tl_pretrain_dynamic_data_config *)data,
                                           &args);
    return tli_pretrain_inputs(out, (const tl_pretrain_data_config *)data, &args);
}

/* Examples that only fill up a batch have no hidden words. */
static void split_batch(const tl_task *t, const tl_batch *b, tl_batch_parts *out)
{
    static const char *const features[] = {"input_word_ids", "input_mask", "input_type_ids",
                                           "masked_lm_positions"};
    tl_ctx *c = b->ctx;
    tl_tensor *weight = tl_batch_weight(b), *words = tl_batch_get(b, "masked_lm_weights");
    (void)t;
    for (int64_t i = 0; i < TL_COUNT(features); i++)
        tl_tensors_put(c, &out->features, features[i], tl_batch_get(b, features[i]));
    tl_tensors_put(c, &out->labels, "masked_lm_ids", tl_batch_get(b, "masked_lm_ids"));
    if (weight && words) words = tl_mul(c, words, tl_expand_dims(c, tl_cast(c, weight, TL_F32), 1));
    tl_tensors_put(c, &out->labels, "masked_lm_weights", words);
    tl_tensor *next = tl_batch_peek(b, LABELS_NEXT);
    if (next) tl_tensors_put(c, &out->labels, LABELS_NEXT, next);
    if (weight) tl_tensors_put(c, &out->labels, TL_BATCH_WEIGHT, weight);
    out->weight = weight;
}

/* --- losses ----------------------------------------------------------------------------------- */

static tl_tensor *in_full(tl_ctx *c, tl_tensor *t)
{
    return t && t->dtype != TL_F64 ? tl_cast(c, t, TL_F32) : t;
}

static tl_tensor *weighted_mean(tl_ctx *c, tl_tensor *losses, tl_tensor *weights)
{
    if (!losses || !weights) return NULL;
    weights = tl_cast(c, weights, losses->dtype);
    return tl_div_no_nan(c, tl_sum(c, tl_mul(c, losses, weights), TL_ALL, false),
                         tl_sum(c, weights, TL_ALL, false));
}

static tl_tensor *next_sentence_loss(tl_ctx *c, tl_tensor *labels, tl_tensor *logits,
                                     tl_tensor *weight)
{
    labels = tl_reshape(c, labels, TL_SHAPE(-1));
    tl_tensor *losses = tl_sparse_cross_entropy(c, labels, in_full(c, logits));
    return weight ? weighted_mean(c, losses, weight) : tl_mean(c, losses, TL_ALL, false);
}

static tl_tensor *build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                               const tl_tensors *outputs, tl_tensor *aux)
{
    masked_lm_task *m = (masked_lm_task *)t;
    tl_tensor *ids = tl_tensors_get(c, labels, "masked_lm_ids");
    tl_tensor *logits = in_full(c, tl_tensors_get(c, outputs, "mlm_logits"));
    tl_tensor *next = tl_tensors_peek(labels, LABELS_NEXT);
    m->lm_loss = weighted_mean(c, tl_sparse_cross_entropy(c, ids, logits),
                               tl_tensors_get(c, labels, "masked_lm_weights"));
    m->next_loss = NULL;
    tl_tensor *total = m->lm_loss;
    if (next) {
        tl_tensor *scores = tl_tensors_get(c, outputs, NEXT);
        if (scores)
            m->next_loss =
                next_sentence_loss(c, next, scores, tl_tensors_peek(labels, TL_BATCH_WEIGHT));
        total = m->next_loss ? tl_add(c, total, m->next_loss) : NULL;
    }
    return aux && total ? tl_add(c, total, tl_cast(c, aux, total->dtype)) : total;
}

/* --- metrics ---------------------------------------------------------------------------------- */

static tl_status build_metrics(tl_task *t, bool training, tl_metrics *into)
{
    (void)training;
    TL_TRY(tl_metrics_add(NULL, into, &tl_metric_sparse_categorical_accuracy, NULL,
                          "masked_lm_accuracy"));
    TL_TRY(tl_metrics_add(NULL, into, &tl_metric_mean, NULL, "lm_example_loss"));
    if (!has_next_sentence(t)) return TL_OK;
    TL_TRY(tl_metrics_add(NULL, into, &tl_metric_sparse_categorical_accuracy, NULL,
                          "next_sentence_accuracy"));
    return tl_metrics_add(NULL, into, &tl_metric_mean, NULL, "next_sentence_loss");
}

static void note_value(tl_step *s, const char *name, tl_tensor *value)
{
    tl_metric *m = tl_metrics_find(s->metrics, name);
    if (m && value) tl_metric_update_value(m, s->ctx, value, NULL);
}

static void process_metrics(tl_task *t, tl_step *s, const tl_tensors *labels,
                            const tl_tensors *outputs)
{
    masked_lm_task *task = (masked_lm_task *)t;
    tl_tensor *next = tl_tensors_peek(labels, LABELS_NEXT),
              *scores = tl_tensors_peek(outputs, NEXT);
    if (!s->metrics) return;
    bool taping = tl_ctx_set_taping(s->ctx, false);
    tl_metric *words = tl_metrics_find(s->metrics, "masked_lm_accuracy");
    tl_metric *pairs = tl_metrics_find(s->metrics, "next_sentence_accuracy");
    if (words)
        tl_metric_update(words, s->ctx, tl_tensors_peek(labels, "masked_lm_ids"),
                         tl_tensors_peek(outputs, "mlm_logits"),
                         tl_tensors_peek(labels, "masked_lm_weights"));
    if (pairs && next && scores)
        tl_metric_update(pairs, s->ctx, tl_reshape(s->ctx, next, TL_SHAPE(-1)), scores,
                         tl_tensors_peek(labels, TL_BATCH_WEIGHT));
    note_value(s, "lm_example_loss", task->lm_loss);
    note_value(s, "next_sentence_loss", task->next_loss);
    tl_ctx_set_taping(s->ctx, taping);
}

/* --- weights of others ------------------------------------------------------------------------ */

static tl_status original_names(tl_task *t, tl_original_names *into)
{
    const tl_pretrainer_config *k = t->config->model.value;
    if (!k) return TL_FAIL(TL_EINVAL, "task.model is null");
    return tli_pretrainer_names(t, k, into);
}

/* Of a file of others, everything that it has for the model. */
static tl_status initialize(tl_task *t, tl_model *m)
{
    const char *from = t->config->init_checkpoint;
    tli_foreign_model what;
    if (from && *from && tli_foreign_is(from)) {
        TL_TRY_NOTE(tli_foreign_pretrainer(&what, t), "task.init_checkpoint: '%s'", from);
        TL_TRY_NOTE(tli_foreign_initialize(m, from, &what), "task.init_checkpoint");
        return TL_OK;
    }
    return tl_base_task.initialize(t, m);
}

static tl_status export_weights(tl_task *t, const tl_export_args *args, tl_state *weights,
                                tl_notes *files)
{
    tli_foreign_model what;
    TL_TRY(tli_foreign_pretrainer(&what, t));
    return tli_foreign_export(t, args, &what, weights, files);
}

/* --- what is configured ----------------------------------------------------------------------- */

static void init_validation(void *value)
{
    ((tl_data_config *)value)->is_training.value = false; // all kinds of data begin alike
}

#define MASKED_LM_ROWS(data_desc, validation_desc)                                                 \
    TL_F_AS(tl_masked_lm_task_config, base.model, "model", .set = true,                            \
            .desc = &tl_pretrainer_config_desc,                                                    \
            .help = "an encoder and what it is trained to guess"),                                 \
        TL_F_OPTIONAL_AS(tl_masked_lm_task_config, base.train_data, "train_data", &data_desc,      \
                         .set = true, .help = "examples to train with"),                           \
        TL_F_OPTIONAL_AS(tl_masked_lm_task_config, base.validation_data, "validation_data",        \
                         &validation_desc, .set = true, .init = init_validation,                   \
                         .help = "examples to evaluate with"),                                     \
        TL_F(tl_masked_lm_task_config, scale_loss, .help = "divide the loss by the replicas"),     \
        TL_F_END

static const tl_field masked_lm_fields[] = {
    MASKED_LM_ROWS(tl_pretrain_data_config_desc, tl_pretrain_data_config_desc)};
const tl_desc tl_masked_lm_task_config_desc = {
    .name = "masked_lm",
    .help = "hidden words are guessed",
    .size = sizeof(tl_masked_lm_task_config),
    .fields = masked_lm_fields,
    .base = &tl_task_config_desc,
};
static const tl_field dynamic_fields[] = {
    MASKED_LM_ROWS(tl_pretrain_dynamic_data_config_desc, tl_pretrain_data_config_desc)};
const tl_desc tl_masked_lm_dynamic_task_config_desc = {
    .name = "masked_lm_dynamic",
    .help = "hidden words are guessed, in batches of about one length",
    .size = sizeof(tl_masked_lm_task_config),
    .fields = dynamic_fields,
    .base = &tl_task_config_desc,
};

static const tl_field text_fields[] = {
    MASKED_LM_ROWS(tl_pretrain_text_data_config_desc, tl_pretrain_text_data_config_desc)};
const tl_desc tl_masked_lm_text_task_config_desc = {
    .name = "masked_lm_text",
    .help = "words of texts are hidden and guessed",
    .size = sizeof(tl_masked_lm_task_config),
    .fields = text_fields,
    .base = &tl_task_config_desc,
};

/* Tasks are found by their configuration, and kinds of data have one each. */
#define MASKED_LM_TASK(id, desc_, lacks_, help_)                                                   \
    const tl_task_class tl_##id##_task = {.cls = {.class_size = sizeof(tl_task_class),             \
                                                  .name = #id,                                     \
                                                  .base = &tl_base_task.cls,                       \
                                                  .size = sizeof(masked_lm_task),                  \
                                                  .config = &desc_,                                \
                                                  .help = help_},                                  \
                                          .build_model = build_model,                              \
                                          .build_inputs = build_inputs,                            \
                                          .build_losses = build_losses,                            \
                                          .build_metrics = build_metrics,                          \
                                          .process_metrics = process_metrics,                      \
                                          .split_batch = split_batch,                              \
                                          .initialize = initialize,                                \
                                          .lacks = lacks_,                                         \
                                          .export_weights = export_weights,                        \
                                          .original_names = original_names}
MASKED_LM_TASK(masked_lm, tl_masked_lm_task_config_desc, tli_pretrain_lacks,
               "words that were hidden are guessed, and which sentences follow each other");
MASKED_LM_TASK(masked_lm_dynamic, tl_masked_lm_dynamic_task_config_desc, tli_pretrain_dynamic_lacks,
               "masked_lm in batches of about one length");
MASKED_LM_TASK(masked_lm_text, tl_masked_lm_text_task_config_desc, tli_pretrain_text_lacks,
               "masked_lm of texts, whose words are hidden as they are read");
