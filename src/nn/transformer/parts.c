#include "nn/transformer/parts.h"

#include <strings.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/view.h>

/* --- activations ------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    tl_activation function;
} activations[] = {
    {"linear", TL_ACT_NONE},
    {"identity", TL_ACT_NONE},
    {"gelu", TL_ACT_GELU_TANH}, // Model Garden's is the approximation
    {"gelu_tanh", TL_ACT_GELU_TANH},
    {"gelu_erf", TL_ACT_GELU},
    {"relu", TL_ACT_RELU},
    {"relu6", TL_ACT_RELU6},
    {"swish", TL_ACT_SILU},
    {"silu", TL_ACT_SILU},
    {"simple_swish", TL_ACT_SILU},
    {"hard_swish", TL_ACT_HARD_SWISH},
    {"hard_sigmoid", TL_ACT_HARD_SIGMOID},
    {"mish", TL_ACT_MISH},
    {"tanh", TL_ACT_TANH},
    {"sigmoid", TL_ACT_SIGMOID},
    {"elu", TL_ACT_ELU},
    {"softplus", TL_ACT_SOFTPLUS},
};

tl_status tl_transformer_activation(tl_activation *out, const char *name)
{
    tl_str known = TL_STR_INIT;
    *out = TL_ACT_NONE;
    if (!name || !*name) return TL_OK;
    for (int64_t i = 0; i < TL_COUNT(activations); i++) {
        *out = activations[i].function;
        if (strcasecmp(activations[i].name, name) == 0) return TL_OK;
    }
    *out = TL_ACT_NONE;
    for (int64_t i = 0; i < TL_COUNT(activations); i++)
        tl_str_addf(&known, "%s%s", i ? ", " : "", activations[i].name);
    tl_status st =
        TL_FAIL(TL_EINVAL, "there is no activation '%s'; there are %s", name, tl_str_text(&known));
    tl_str_deinit(&known);
    return st;
}

/* --- masks ------------------------------------------------------------------------------------ */

tl_tensor *tli_mask_bias(tl_ctx *c, tl_tensor *mask, tl_dtype dtype)
{
    const double hidden = 1e9;
    if (!mask) return NULL;
    tl_tensor *m = tl_cast(c, mask, dtype);
    m = tl_expand_dims(c, m, 1);
    if (mask->shape.rank == 2) m = tl_expand_dims(c, m, 1);
    return tl_scale(c, tl_shift(c, m, -1), hidden);
}

/* --- the module ------------------------------------------------------------------------------- */

#define ENTRY(id) TL_INIT(&tl_kind_layer, &tl_layer_##id.cls)
static const tl_entry entries[] = {
    ENTRY(multi_head_attention),      ENTRY(talking_heads_attention),
    ENTRY(gated_feedforward),         ENTRY(transformer_encoder_block),
    ENTRY(transformer_scaffold),      ENTRY(on_device_embedding),
    ENTRY(position_embedding),        ENTRY(self_attention_mask),
    ENTRY(packed_sequence_embedding), ENTRY(masked_lm),
    ENTRY(classification_head),
};
const tl_module tl_transformer_module = {TL_MODULE_HEAD("nn_transformer"), entries,
                                         TL_COUNT(entries)};
