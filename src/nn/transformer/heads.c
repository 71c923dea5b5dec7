/* What stands on top of an encoder. */
#include <tilth/ops/attention.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/matmul.h>
#include <tilth/ops/softmax.h>
#include <tilth/ops/view.h>

#include "nn/transformer/parts.h"

/* --- masked_lm -------------------------------------------------------------------------------- */

typedef struct masked_lm {
    tl_layer base;
    tl_layer *dense, *norm;
    tl_tensor *bias; /* [words] */
} masked_lm;

static tl_status masked_lm_parameters(tl_layer *l, tl_scope *s, const tl_tensors *in)
{
    masked_lm *m = (masked_lm *)l;
    const tl_masked_lm_config *k = l->config;
    const tl_tensor *rows = tl_tensors_peek(in, "embedding_table");
    tl_activation activation;
    if (!rows || rows->shape.rank != 2)
        return TL_FAIL(TL_EINVAL, "'embedding_table' [words, width] is not among the inputs");
    TL_TRY(tl_transformer_activation(&activation, k->activation));
    m->dense = tl_dense(s, "dense", .units = rows->shape.dims[1], .activation = activation,
                        .kernel_initializer = k->initializer);
    m->norm = tl_layer_norm(s, "layer_norm", .epsilon = TL_SET(1e-12));
    m->bias = tli_param(s, "bias", TL_SHAPE(rows->shape.dims[0]), NULL, "zeros", NULL);
    return tl_scope_status(s);
}

// Rows of x [batch, time, size] at positions [batch, count]: [batch * count, size]. A position that
// its own sequence does not have would be one of the next sequence: it is made one of none, which
// gather refuses.
static tl_tensor *rows_at(tl_ctx *c, tl_tensor *x, tl_tensor *positions)
{
    const int64_t batch = x->shape.dims[0], time = x->shape.dims[1], size = x->shape.dims[2];
    tl_tensor *begin = tl_arange(c, TL_I32, 0, (double)(batch * time), (double)time);
    positions = tl_cast(c, positions, TL_I32);
    tl_tensor *flat = tl_add(c, positions, tl_expand_dims(c, begin, 1));
    tl_tensor *inside = tl_equal(c, positions, tl_clip(c, positions, 0, (double)time - 1));
    flat = tl_where(c, inside, flat, tl_number(c, TL_I32, (double)(batch * time)));
    flat = tl_reshape(c, flat, TL_SHAPE(batch * positions->shape.dims[1]));
    return tl_gather(c, tl_reshape(c, x, TL_SHAPE(batch * time, size)), flat, 0);
}

static tl_tensor *scores_of(masked_lm *m, tl_ctx *c, tl_tensor *x, tl_tensor *rows)
{
    const tl_masked_lm_config *k = m->base.config;
    x = tl_call(c, m->norm, tl_call(c, m->dense, x));
    x = tl_matmul_with(c, x, rows, false, true);
    x = tl_add(c, x, tl_layer_value(c, &m->base, m->bias));
    return k->output == TL_MASKED_LM_PREDICTIONS ? tl_log_softmax(c, x, -1) : x;
}

static void masked_lm_forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_tensor *x = tl_tensors_get(c, in, "sequence_data");
    tl_tensor *positions = tl_tensors_get(c, in, "masked_positions");
    tl_tensor *rows = tl_tensors_get(c, in, "embedding_table");
    if (!x || !positions || !rows) return;
    tl_tensor *y = scores_of((masked_lm *)l, c, rows_at(c, x, positions), rows);
    if (!y) return;
    const int64_t *dims = positions->shape.dims;
    y = tl_reshape(c, y, TL_SHAPE(dims[0], dims[1], rows->shape.dims[0]));
    tl_tensors_put(c, out, "y", y);
}

static const char *const output_names[] = {"logits", "predictions", NULL};
static const tl_field masked_lm_fields[] = {
    TL_F(tl_masked_lm_config, activation, .s = "linear", .help = "of the dense layer"),
    TLI_INITIALIZER_ROW(tl_masked_lm_config, initializer, "glorot_uniform when null"),
    TL_F(tl_masked_lm_config, output, .names = output_names,
         .help = "scores, or the logarithm of their softmax"),
    TL_F_END,
};
TLI_LAYER_CLASS(masked_lm, masked_lm, "scores of all words for hidden places",
                .parameters_all = masked_lm_parameters, .forward_all = masked_lm_forward)

/* --- classification_head ---------------------------------------------------------------------- */

typedef struct head {
    tl_layer base;
    tl_layer *pooler, *logits; /* pooler: NULL with inner_dim 0 */
} head;

static tl_status head_build(tl_layer *l, tl_scope *s, const void *config)
{
    head *h = (head *)l;
    const tl_classification_head_config *k = config;
    tl_activation activation;
    TL_TRY(tl_transformer_activation(&activation, k->activation));
    if (k->inner_dim > 0)
        h->pooler = tl_dense(s, "pooler_dense", .units = k->inner_dim, .activation = activation,
                             .kernel_initializer = k->initializer);
    h->logits =
        tl_dense(s, "logits", .units = k->num_classes, .kernel_initializer = k->initializer);
    return tl_scope_status(s);
}

static tl_tensor *head_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    head *h = (head *)l;
    const tl_classification_head_config *k = l->config;
    if (h->pooler) {
        if (x->shape.rank == 3) x = tl_take(c, x, 1, k->cls_token_idx);
        x = tl_call(c, h->pooler, x);
    }
    return tl_call(c, h->logits, tl_dropout(c, x, k->dropout_rate.value));
}

static const tl_field classification_head_fields[] = {
    TL_F(tl_classification_head_config, inner_dim, TL_AT_LEAST(0),
         .help = "units of the dense layer before the scores; 0: there is none"),
    TLI_REQUIRED_ROW(tl_classification_head_config, num_classes, "number of classes"),
    TL_F(tl_classification_head_config, cls_token_idx, TL_AT_LEAST(0),
         .help = "place of the sequence that is looked at"),
    TL_F(tl_classification_head_config, activation, .s = "tanh", .help = "of the dense layer"),
    TLI_RATE_ROW(tl_classification_head_config, dropout_rate, "share dropped before the scores"),
    TLI_INITIALIZER_ROW(tl_classification_head_config, initializer, "glorot_uniform when null"),
    TL_F_END,
};
TLI_LAYER_CLASS(classification_head, head, "scores of classes from one place of a sequence",
                .build = head_build, .forward = head_forward)
