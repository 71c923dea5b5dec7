/* Attention of many heads: scores that are never stored (ops/attention.h), or, where somebody looks
 * at them or mixes them, from plain ops. */
#include <math.h>
#include <tilth/ops/attention.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/softmax.h>
#include <tilth/ops/view.h>

#include "nn/transformer/parts.h"

typedef struct attention {
    tl_layer base;
    tl_layer *query, *key, *value, *output; /* made when the size of the input is known */
    int64_t heads, kv_heads, key_dim, value_dim;
    tl_tensor *before, *behind; /* talking heads: [heads, heads]; NULL: heads do not talk */
} attention;

/* --- projections ------------------------------------------------------------------------------ */

/* A dense layer whose kernel knows of heads: [size, heads, dim], or [heads, dim, size] on the way
 * out. So its shape, and the deviation of its first values, are Keras's. */
typedef struct projection_config {
    tl_shape kernel, bias;
    const tl_multi_head_attention_config *of;
} projection_config;

typedef struct projection {
    tl_layer base;
    tl_tensor *kernel, *bias; /* bias: or NULL */
} projection;

static tl_status projection_build(tl_layer *l, tl_scope *s, const void *config)
{
    projection *p = (projection *)l;
    const projection_config *k = config;
    p->kernel = tli_param(s, "kernel", k->kernel, &k->of->kernel_initializer, "glorot_uniform",
                          &k->of->kernel_regularizer);
    if (k->of->use_bias.value)
        p->bias = tli_param(s, "bias", k->bias, &k->of->bias_initializer, "zeros",
                            &k->of->bias_regularizer);
    return tl_scope_status(s);
}

static tl_tensor *projection_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    projection *p = (projection *)l;
    const int64_t in = x->shape.dims[x->shape.rank - 1];
    tl_tensor *kernel = tl_reshape(c, tl_layer_value(c, l, p->kernel), TL_SHAPE(in, -1));
    tl_tensor *bias = p->bias ? tl_reshape(c, tl_layer_value(c, l, p->bias), TL_SHAPE(-1)) : NULL;
    return tl_linear(c, x, kernel, bias, TL_ACT_NONE);
}

static const tl_layer_class projection_class = {
    .cls = TL_CLASS(tl_layer_class, "projection", NULL, projection, NULL),
    .build = projection_build,
    .forward = projection_forward,
};

static tl_layer *project(tl_scope *s, const char *name, const tl_multi_head_attention_config *k,
                         tl_shape kernel, tl_shape bias)
{
    const projection_config all = {kernel, bias, k};
    const void *config = tl_arena_copy(tl_scope_arena(s), &all, sizeof all);
    return config ? tl_scope_layer(s, name, &projection_class, config) : tl_scope_fail(s, name);
}

static tl_layer *project_in(tl_scope *s, const char *name, const tl_multi_head_attention_config *k,
                            int64_t size, int64_t heads, int64_t dim)
{
    return project(s, name, k, TL_SHAPE(size, heads, dim), TL_SHAPE(heads, dim));
}

/* --- heads ------------------------------------------------------------------------------------ */

static int64_t size_of(const tl_tensors *in, const char *name, int64_t otherwise)
{
    const tl_tensor *t = tl_tensors_peek(in, name);
    return t && t->shape.rank ? t->shape.dims[t->shape.rank - 1] : otherwise;
}

static const tl_tensor *query_of(const tl_tensors *in)
{
    const tl_tensor *query = tl_tensors_peek(in, "query");
    return query ? query : in->items[0].tensor;
}

static tl_status make_projections(tl_layer *l, tl_scope *s, const tl_tensors *in)
{
    attention *a = (attention *)l;
    const tl_multi_head_attention_config *k = l->config;
    int64_t size;
    TL_TRY(tli_channels(&size, query_of(in), 3));
    const int64_t value_size = size_of(in, "value", size),
                  key_size = size_of(in, "key", value_size);
    a->heads = k->num_heads;
    a->kv_heads = k->num_kv_heads.set ? k->num_kv_heads.value : k->num_heads;
    a->key_dim = k->key_dim;
    a->value_dim = k->value_dim.set ? k->value_dim.value : k->key_dim;
    if (a->heads % a->kv_heads)
        return TL_FAIL(TL_EINVAL, "num_heads is %lld, no multiple of num_kv_heads, %lld",
                       (long long)a->heads, (long long)a->kv_heads);
    a->query = project_in(s, "query", k, size, a->heads, a->key_dim);
    a->key = project_in(s, "key", k, key_size, a->kv_heads, a->key_dim);
    a->value = project_in(s, "value", k, value_size, a->kv_heads, a->value_dim);
    const int64_t out = k->output_shape.set ? k->output_shape.value : size;
    a->output =
        project(s, "attention_output", k, TL_SHAPE(a->heads, a->value_dim, out), TL_SHAPE(out));
    return tl_scope_status(s);
}

static tl_status attention_parameters(tl_layer *l, tl_scope *s, const tl_tensors *in)
{
    return make_projections(l, s, in);
}

static tl_status talking_parameters(tl_layer *l, tl_scope *s, const tl_tensors *in)
{
    attention *a = (attention *)l;
    const tl_multi_head_attention_config *k = l->config;
    if (k->num_kv_heads.set && k->num_kv_heads.value != k->num_heads)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "heads that talk have keys of their own: leave num_kv_heads "
                       "out");
    TL_TRY(make_projections(l, s, in));
    const tl_shape shape = TL_SHAPE(a->heads, a->heads);
    a->before = tli_param(s, "pre_softmax_weight", shape, &k->kernel_initializer, "glorot_uniform",
                          &k->kernel_regularizer);
    a->behind = tli_param(s, "post_softmax_weight", shape, &k->kernel_initializer, "glorot_uniform",
                          &k->kernel_regularizer);
    return tl_scope_status(s);
}

// [batch, time, heads * size] as [batch, time, heads, size]
static tl_tensor *split(tl_ctx *c, tl_tensor *x, int64_t heads, int64_t size)
{
    if (!x) return NULL;
    return tl_reshape(c, x, TL_SHAPE(x->shape.dims[0], x->shape.dims[1], heads, size));
}

// Each head's numbers as sums over those of all: [batch, heads, T, S] times [heads, heads].
static tl_tensor *mix_heads(tl_layer *l, tl_ctx *c, tl_tensor *x, tl_tensor *weight)
{
    if (!weight) return x;
    return tl_einsum(c, "bnts,nm->bmts", 2, (tl_tensor *[]){x, tl_layer_value(c, l, weight)});
}

/* With all scores in memory. */
static tl_tensor *attend_openly(tl_layer *l, tl_ctx *c, tl_tensor *q, tl_tensor *k, tl_tensor *v,
                                tl_tensor *bias, tl_tensor **scores)
{
    attention *a = (attention *)l;
    const tl_multi_head_attention_config *config = l->config;
    q = tl_scale(c, q, 1 / sqrt((double)a->key_dim));
    tl_tensor *s = tl_einsum(c, "bthd,bshd->bhts", 2, (tl_tensor *[]){q, k});
    s = mix_heads(l, c, s, a->before);
    if (bias) s = tl_add(c, s, bias);
    s = mix_heads(l, c, tl_softmax(c, s, -1), a->behind);
    *scores = s;
    s = tl_dropout(c, s, config->dropout.value);
    return tl_einsum(c, "bhts,bshd->bthd", 2, (tl_tensor *[]){s, v});
}

static void attention_forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    attention *a = (attention *)l;
    const tl_multi_head_attention_config *config = l->config;
    tl_tensor *query = (tl_tensor *)(uintptr_t)query_of(in), *scores = NULL, *y;
    tl_tensor *value = tl_tensors_peek(in, "value"), *key = tl_tensors_peek(in, "key");
    if (!value) value = query;
    tl_tensor *q = split(c, tl_call(c, a->query, query), a->heads, a->key_dim);
    tl_tensor *k = split(c, tl_call(c, a->key, key ? key : value), a->kv_heads, a->key_dim);
    tl_tensor *v = split(c, tl_call(c, a->value, value), a->kv_heads, a->value_dim);
    if (!q || !k || !v) return;
    tl_tensor *bias = tli_mask_bias(c, tl_tensors_peek(in, "mask"), q->dtype);
    const bool open = a->before || (config->return_attention_scores && a->heads == a->kv_heads);
    if (open) y = attend_openly(l, c, q, k, v, bias, &scores);
    else y = tl_attend(c, q, k, v, .bias = bias, .dropout = config->dropout.value);
    if (!y) return;
    y = tl_reshape(c, y, TL_SHAPE(y->shape.dims[0], y->shape.dims[1], a->heads * a->value_dim));
    tl_tensors_put(c, out, "y", tl_call(c, a->output, y));
    if (config->return_attention_scores) tl_tensors_put(c, out, "scores", scores);
}

static tl_status check_scores(const void *value)
{
    const tl_multi_head_attention_config *k = value;
    if (!k->return_attention_scores || !k->num_kv_heads.set
        || k->num_kv_heads.value == k->num_heads)
        return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "return_attention_scores: scores are given where each head has keys of its own; "
                   "leave num_kv_heads out");
}

#define ATTENTION_FIELDS                                                                           \
    TLI_REQUIRED_ROW(tl_multi_head_attention_config, num_heads, "that look on their own"),         \
        TLI_REQUIRED_ROW(tl_multi_head_attention_config, key_dim, "size of a head's keys"),        \
        TL_F(tl_multi_head_attention_config, value_dim, TL_AT_LEAST(1),                            \
             .help = "size of a head's values; null: key_dim"),                                    \
        TLI_RATE_ROW(tl_multi_head_attention_config, dropout,                                      \
                     "share of weights dropped in training"),                                      \
        TL_F(tl_multi_head_attention_config, use_bias, TL_FILLED, .b = true,                       \
             .help = "projections add a number each"),                                             \
        TL_F(tl_multi_head_attention_config, output_shape, TL_AT_LEAST(1),                         \
             .help = "size of the result; null: that of the query"),                               \
        TL_F(tl_multi_head_attention_config, attention_axes,                                       \
             .flags = TL_FIELD_LATER | TL_FIELD_NULLABLE,                                          \
             .help = "axes that are looked along; the second"),                                    \
        TL_F(tl_multi_head_attention_config, num_kv_heads, TL_AT_LEAST(1),                         \
             .flags = TL_FIELD_QUIET, .help = "heads of keys and values; null: num_heads"),        \
        TL_F(tl_multi_head_attention_config, return_attention_scores, .flags = TL_FIELD_QUIET,     \
             .help = "gives what each query looks at, too"),                                       \
        TLI_KERNEL_ROWS(tl_multi_head_attention_config),                                           \
        TLI_REGULARIZER_ROWS(tl_multi_head_attention_config), TL_F_END

static const tl_field multi_head_attention_fields[] = {ATTENTION_FIELDS};
TLI_CHECKED_LAYER_CLASS(multi_head_attention, attention, check_scores,
                        "each of several heads looks at all places of a sequence",
                        .parameters_all = attention_parameters, .forward_all = attention_forward)

static const tl_field talking_heads_attention_fields[] = {ATTENTION_FIELDS};
TLI_CHECKED_LAYER_CLASS(talking_heads_attention, attention, check_scores,
                        "attention whose heads exchange scores and weights",
                        .parameters_all = talking_parameters, .forward_all = attention_forward)
