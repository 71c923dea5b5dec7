/* An encoder with a head that guesses hidden words, and heads that judge the whole. */
#include <string.h>

#include "zoo/language/encoder.h"

typedef struct pretrainer {
    tl_model base;
    tl_layer *encoder, *masked_lm;
    tl_layer **heads; /* one for each of cls_heads */
} pretrainer;

static const char *name_of(const tl_cls_head_config *h)
{
    return h->name && *h->name ? h->name : "cls";
}

/* --- building --------------------------------------------------------------------------------- */

static tl_status make_heads(pretrainer *p, tl_scope *s, const tl_pretrainer_config *k)
{
    const tl_cls_head_config *heads = k->cls_heads.items;
    p->heads = tl_arena_array(tl_scope_arena(s), k->cls_heads.count, sizeof *p->heads);
    if (!p->heads) return TL_ENOMEM;
    for (int64_t i = 0; i < k->cls_heads.count; i++) {
        const tl_cls_head_config *h = &heads[i];
        for (int64_t j = 0; j < i; j++)
            if (strcmp(name_of(h), name_of(&heads[j])) == 0)
                return TL_FAIL(TL_EINVAL, "model.cls_heads[%lld].name: another head is called '%s'",
                               (long long)i, name_of(h));
        p->heads[i] = tl_classification_head(
            s, name_of(h), .inner_dim = h->inner_dim, .num_classes = h->num_classes,
            .activation = h->activation, .dropout_rate = TL_SET(h->dropout_rate),
            .cls_token_idx = h->cls_token_idx);
    }
    return tl_scope_status(s);
}

static tl_status build(tl_model *m, tl_scope *s, const void *config)
{
    pretrainer *p = (pretrainer *)m;
    const tl_pretrainer_config *k = config;
    tl_oneof first = tli_truncated_normal(tl_scope_arena(s), k->mlm_initializer_range);
    if (!first.type) return TL_ENOMEM;
    p->encoder = tl_build_encoder(s, "encoder", &k->encoder);
    TL_TRY(tl_scope_status(s));
    tl_scope_item(s, "encoder", p->encoder);
    p->masked_lm =
        tl_masked_lm(s, "masked_lm", .activation = k->mlm_activation, .initializer = first);
    tl_scope_item(s, "masked_lm", p->masked_lm);
    return make_heads(p, s, k);
}

/* --- computing -------------------------------------------------------------------------------- */

static void guess_words(pretrainer *p, tl_ctx *c, tl_tensor *x, tl_tensor *positions,
                        tl_tensors *out)
{
    tl_tensors in = {0}, scores = {0};
    tl_tensor *table = tl_encoder_table(p->encoder);
    if (!table) {
        (void)TL_FAIL(TL_EINVAL, "the encoder has no table of words ('word_embeddings') for the "
                                 "head that guesses them");
        tl_ctx_fail(c);
        return;
    }
    tl_tensors_put(c, &in, "sequence_data", x);
    tl_tensors_put(c, &in, "masked_positions", positions);
    tl_tensors_put(c, &in, "embedding_table", table);
    tl_call_all(c, p->masked_lm, &in, &scores);
    if (!tl_ctx_failed(c)) tl_tensors_put(c, out, "mlm_logits", scores.items[0].tensor);
}

static void forward(tl_model *m, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    pretrainer *p = (pretrainer *)m;
    const tl_pretrainer_config *k = m->config;
    tl_call_all(c, p->encoder, in, out);
    tl_tensor *x = tl_tensors_get(c, out, "sequence_output");
    tl_tensor *positions = tl_tensors_peek(in, "masked_lm_positions");
    if (!x) return;
    if (positions) guess_words(p, c, x, positions, out);
    const tl_cls_head_config *heads = k->cls_heads.items;
    for (int64_t i = 0; i < k->cls_heads.count && !tl_ctx_failed(c); i++)
        tl_tensors_put(c, out, name_of(&heads[i]), tl_call(c, p->heads[i], x));
}

static const tl_layer_class pretrainer_class = {
    .cls = TL_CLASS(tl_layer_class, "bert", NULL, pretrainer, NULL),
    .build = build,
    .forward_all = forward,
};

tl_status tl_pretrainer_new(tl_model **out, const tl_pretrainer_args *args)
{
    *out = NULL;
    const int64_t batch = args->batch_size > 0 ? args->batch_size : 1;
    const int64_t length = args->seq_length > 0 ? args->seq_length : 1;
    const int64_t predictions = args->predictions > 0 ? args->predictions : 1;
    const tl_spec inputs[] = {
        {"input_word_ids", TL_I32, TL_SHAPE(batch, length)},
        {"input_mask", TL_I32, TL_SHAPE(batch, length)},
        {"input_type_ids", TL_I32, TL_SHAPE(batch, length)},
        {"masked_lm_positions", TL_I32, TL_SHAPE(batch, predictions)},
    };
    return tl_model_new(out, &(tl_model_args){.engine = args->engine,
                                              .cls = &pretrainer_class,
                                              .config = args->config,
                                              .inputs = inputs,
                                              .input_count = TL_COUNT(inputs),
                                              .seed = args->seed,
                                              .dtype = args->dtype,
                                              .registry = args->registry});
}

/* --- what is configured ----------------------------------------------------------------------- */

#define HEAD_F(member, ...) TL_F(tl_cls_head_config, member, __VA_ARGS__)
static const tl_field head_fields[] = {
    HEAD_F(inner_dim, TL_AT_LEAST(0),
           .help = "units of the dense layer before the scores; 0: none"),
    HEAD_F(num_classes, .i = 2, TL_AT_LEAST(1), .help = "number of classes"),
    HEAD_F(activation, .s = "tanh", .flags = TL_FIELD_NULLABLE, .help = "of the dense layer"),
    HEAD_F(dropout_rate, TL_RANGE(0, 1), .help = "share dropped before the scores"),
    HEAD_F(cls_token_idx, TL_AT_LEAST(0), .help = "place of the sequence that is looked at"),
    HEAD_F(name, .flags = TL_FIELD_NULLABLE, .help = "of the head and its scores"),
    TL_F_END,
};
const tl_desc tl_cls_head_config_desc = {
    .name = "cls_head",
    .help = "a head that judges the whole sequence",
    .size = sizeof(tl_cls_head_config),
    .fields = head_fields,
};

#define MODEL_F(member, ...) TL_F(tl_pretrainer_config, member, __VA_ARGS__)
static const tl_field model_fields[] = {
    MODEL_F(encoder, .kind = &tl_kind_encoder, .help = "what turns words into vectors"),
    MODEL_F(cls_heads, .desc = &tl_cls_head_config_desc, .help = "heads that judge the sequence"),
    MODEL_F(mlm_activation, .s = "gelu", .help = "of the head that guesses hidden words"),
    MODEL_F(mlm_initializer_range, .d = 0.02, TL_AT_LEAST(0),
            .help = "deviation of that head's first values"),
    MODEL_F(mlm_output_weights_use_proj, .flags = TL_FIELD_LATER, .help = "of MobileBERT"),
    TL_F_END,
};
const tl_desc tl_pretrainer_config_desc = {
    .name = "pretrainer",
    .help = "an encoder and what it is trained to guess",
    .size = sizeof(tl_pretrainer_config),
    .fields = model_fields,
};
