#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/matmul.h>

#include "nn/fields.h"
#include "nn/net.h"

/* --- dense ------------------------------------------------------------------------------------ */

typedef struct dense {
    tl_layer base;
    tl_tensor *kernel; /* [inputs, units] */
    tl_tensor *bias;   /* [units], or NULL */
} dense;

static tl_status dense_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    dense *d = (dense *)l;
    const tl_dense_config *k = l->config;
    int64_t inputs;
    TL_TRY(tli_channels(&inputs, x, -1));
    d->kernel = tli_param(s, "kernel", TL_SHAPE(inputs, k->units), &k->kernel_initializer,
                          "glorot_uniform", &k->kernel_regularizer);
    if (!k->without_bias)
        d->bias = tli_param(s, "bias", TL_SHAPE(k->units), &k->bias_initializer, "zeros",
                            &k->bias_regularizer);
    return tl_scope_status(s);
}

static tl_tensor *dense_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    dense *d = (dense *)l;
    const tl_dense_config *k = l->config;
    tl_tensor *bias = d->bias ? tl_layer_value(c, l, d->bias) : NULL;
    return tl_linear(c, x, tl_layer_value(c, l, d->kernel), bias, k->activation);
}

static const tl_field dense_fields[] = {
    TLI_REQUIRED_ROW(tl_dense_config, units, "size of the result's last axis"),
    TLI_ACTIVATION_ROW(tl_dense_config, activation),
    TL_F(tl_dense_config, without_bias, .help = "adds nothing"),
    TLI_INITIALIZER_ROW(tl_dense_config, kernel_initializer, "glorot_uniform when null"),
    TLI_INITIALIZER_ROW(tl_dense_config, bias_initializer, "zeros when null"),
    TLI_REGULARIZER_ROW(tl_dense_config, kernel_regularizer, "none when null"),
    TLI_REGULARIZER_ROW(tl_dense_config, bias_regularizer, "none when null"),
    TL_F_END,
};
TLI_LAYER_CLASS(dense, dense, "activation(x w + b) over the last axis",
                .parameters = dense_parameters, .forward = dense_forward)

/* --- embedding -------------------------------------------------------------------------------- */

typedef struct embedding {
    tl_layer base;
    tl_tensor *table; /* [entries, size] */
} embedding;

// The table does not depend on the input, so it is there before the first call: scores may come
// first.
static tl_status embedding_build(tl_layer *l, tl_scope *s, const void *config)
{
    embedding *e = (embedding *)l;
    const tl_embedding_config *k = config;
    e->table = tli_param(s, "table", TL_SHAPE(k->entries, k->size), &k->initializer,
                         "random_uniform", &k->regularizer);
    return tl_scope_status(s);
}

static tl_tensor *embedding_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    embedding *e = (embedding *)l;
    const tl_embedding_config *k = l->config;
    tl_tensor *rows = tl_lookup(c, tl_layer_value(c, l, e->table), x);
    return k->scale.value == 1 ? rows : tl_scale(c, rows, k->scale.value);
}

tl_tensor *tl_embedding_scores(tl_ctx *c, tl_layer *l, tl_tensor *x)
{
    if (tl_ctx_failed(c)) return NULL;
    if (!l || !tl_class_is(&l->cls->cls, &tl_layer_embedding.cls)) {
        (void)TL_FAIL(TL_EINVAL, "scores are those of an embedding, not of %s",
                      l ? l->cls->cls.name : "NULL");
        return tl_ctx_fail(c);
    }
    tl_layer *outer = tli_layer_enter(c, l);
    tl_tensor *table = tl_layer_value(c, l, ((embedding *)l)->table);
    tl_tensor *scores =
        tl_matmul_with(c, table ? tl_cast(c, x, table->dtype) : NULL, table, false, true);
    tli_layer_leave(c, l, outer);
    return scores;
}

static const tl_field embedding_fields[] = {
    TLI_REQUIRED_ROW(tl_embedding_config, entries, "rows of the table"),
    TLI_REQUIRED_ROW(tl_embedding_config, size, "of a row"),
    TL_F(tl_embedding_config, scale, TL_FILLED, .d = 1, .help = "what rows are multiplied by"),
    TLI_INITIALIZER_ROW(tl_embedding_config, initializer, "random_uniform when null"),
    TLI_REGULARIZER_ROW(tl_embedding_config, regularizer, "none when null"),
    TL_F_END,
};
TLI_LAYER_CLASS(embedding, embedding, "rows of a table by integer", .build = embedding_build,
                .forward = embedding_forward)
