#include <tilth/nn/layers.h>

#include "nn/fields.h"

const char *const tli_padding_names[] = {"valid", "same", "explicit", NULL};

tl_tensor *tli_param(tl_scope *s, const char *name, tl_shape shape, const tl_oneof *initializer,
                     const char *otherwise, const tl_oneof *regularizer)
{
    tl_oneof chosen = tli_initializer_or(initializer ? initializer : &(tl_oneof){0}, otherwise);
    return tl_scope_param(
        s, name,
        &(tl_param_args){.shape = shape, .initializer = &chosen, .regularizer = regularizer});
}

tl_status tli_channels(int64_t *out, const tl_tensor *x, int rank)
{
    char spec[TL_TENSOR_TEXT];
    if (rank >= 0 ? x->shape.rank != rank : x->shape.rank < 1)
        return TL_FAIL(TL_EINVAL, "the input is %s and must have %s%d dimensions",
                       tl_tensor_spec(spec, x), rank < 0 ? "at least " : "", rank < 0 ? 1 : rank);
    *out = x->shape.dims[x->shape.rank - 1];
    return TL_OK;
}

#define ENTRY(id) TL_INIT(&tl_kind_layer, &tl_layer_##id.cls)
static const tl_entry entries[] = {
    ENTRY(dense),      ENTRY(embedding),        ENTRY(conv1d),
    ENTRY(conv2d),     ENTRY(conv2d_transpose), ENTRY(depthwise_conv2d),
    ENTRY(layer_norm), ENTRY(rms_norm),         ENTRY(batch_norm),
    ENTRY(group_norm), ENTRY(attention),        ENTRY(activation),
    ENTRY(dropout),    ENTRY(stochastic_depth), ENTRY(max_pool),
    ENTRY(avg_pool),   ENTRY(global_avg_pool),  ENTRY(global_max_pool),
    ENTRY(flatten),    ENTRY(sequential),       ENTRY(residual),
};
const tl_module tl_layers_module = {TL_MODULE_HEAD("nn_layers"), entries, TL_COUNT(entries)};
