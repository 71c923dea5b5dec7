#include <tilth/ops/attention.h>
#include <tilth/ops/view.h>

#include "nn/fields.h"

typedef struct attention {
    tl_layer base;
    tl_layer *query, *key, *value, *output; /* made when the size of the input is known */
    int64_t heads, kv_heads, head_size;
} attention;

static tl_layer *projection(tl_scope *s, const char *name, const tl_attention_config *k,
                            int64_t units)
{
    return tl_dense(s, name, .units = units, .without_bias = k->without_bias,
                    .kernel_initializer = k->kernel_initializer);
}

static tl_status attention_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    attention *a = (attention *)l;
    const tl_attention_config *k = l->config;
    int64_t size;
    TL_TRY(tli_channels(&size, x, 3));
    a->heads = k->heads;
    a->kv_heads = k->kv_heads ? k->kv_heads : k->heads;
    a->head_size = k->head_size ? k->head_size : size / k->heads;
    if (!k->head_size && size % k->heads)
        return TL_FAIL(TL_EINVAL, "%lld heads do not divide the size %lld; set head_size",
                       (long long)k->heads, (long long)size);
    if (a->heads % a->kv_heads)
        return TL_FAIL(TL_EINVAL, "%lld heads are no multiple of %lld kv_heads",
                       (long long)a->heads, (long long)a->kv_heads);
    a->query = projection(s, "query", k, a->heads * a->head_size);
    a->key = projection(s, "key", k, a->kv_heads * a->head_size);
    a->value = projection(s, "value", k, a->kv_heads * a->head_size);
    a->output = projection(s, "output", k, size);
    return tl_scope_status(s);
}

static tl_status attention_parameters_all(tl_layer *l, tl_scope *s, const tl_tensors *in)
{
    const tl_tensor *query = tl_tensors_peek(in, "query");
    if (!query) return TL_FAIL(TL_ENOTFOUND, "there is no tensor 'query'");
    return attention_parameters(l, s, query);
}

// [batch, time, heads * size] as [batch, time, heads, size]
static tl_tensor *split(tl_ctx *c, tl_tensor *x, int64_t heads, int64_t size)
{
    if (!x) return NULL;
    return tl_reshape(c, x, TL_SHAPE(x->shape.dims[0], x->shape.dims[1], heads, size));
}

static tl_tensor *attend(tl_layer *l, tl_ctx *c, tl_tensor *query, tl_tensor *key, tl_tensor *value,
                         tl_tensor *mask)
{
    attention *a = (attention *)l;
    const tl_attention_config *k = l->config;
    tl_tensor *q = split(c, tl_call(c, a->query, query), a->heads, a->head_size);
    tl_tensor *keys = split(c, tl_call(c, a->key, key), a->kv_heads, a->head_size);
    tl_tensor *v = split(c, tl_call(c, a->value, value), a->kv_heads, a->head_size);
    tl_tensor *y =
        tl_attend(c, q, keys, v, .mask = mask, .causal = k->causal, .dropout = k->dropout);
    if (!y) return NULL;
    y = tl_reshape(c, y, TL_SHAPE(y->shape.dims[0], y->shape.dims[1], a->heads * a->head_size));
    return tl_call(c, a->output, y);
}

static tl_tensor *attention_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    return attend(l, c, x, x, x, NULL);
}

static void attention_forward_all(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_tensor *query = tl_tensors_get(c, in, "query");
    tl_tensor *value = tl_tensors_peek(in, "value");
    tl_tensor *key = tl_tensors_peek(in, "key");
    if (!value) value = query;
    if (!query) return;
    tl_tensors_put(c, out, "y",
                   attend(l, c, query, key ? key : value, value, tl_tensors_peek(in, "mask")));
}

static const tl_field attention_fields[] = {
    TLI_REQUIRED_ROW(tl_attention_config, heads, "that look on their own"),
    TL_F(tl_attention_config, kv_heads, TL_AT_LEAST(0), .help = "of keys and values; 0: as many"),
    TL_F(tl_attention_config, head_size, TL_AT_LEAST(0),
         .help = "0: the input's size by the heads"),
    TL_F(tl_attention_config, causal, .help = "nothing looks at what comes later"),
    TL_F(tl_attention_config, without_bias, .help = "projections add nothing"),
    TL_F(tl_attention_config, dropout, TL_RANGE(0, 1),
         .help = "share of weights dropped in training"),
    TLI_INITIALIZER_ROW(tl_attention_config, kernel_initializer, "glorot_uniform when null"),
    TL_F_END,
};
TLI_LAYER_CLASS(attention, attention, "multi-head attention", .parameters = attention_parameters,
                .parameters_all = attention_parameters_all, .forward = attention_forward,
                .forward_all = attention_forward_all)
