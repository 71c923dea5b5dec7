#include <tilth/ops/loss.h>

#include <inttypes.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>
#include <tilth/sys/ops/apply.h>

#include "ops/ops.h"
#include "ops/wide.h"

static const tl_field entropy_fields[] = {
    TL_F(tl_entropy_attr, smoothing, .help = "share of the target spread over all classes"),
    TL_F(tl_entropy_attr, ignored, .help = "label whose loss is 0"),
    TL_F(tl_entropy_attr, classes, .help = "those behind them are left out; 0: all count"),
    TL_F_END,
};
static const tl_desc entropy_desc = {
    .name = "cross_entropy",
    .help = "attributes of cross-entropies",
    .size = sizeof(tl_entropy_attr),
    .fields = entropy_fields,
};

/* --- what both kinds of targets share -------------------------------------------------------- */

// Classes along the last axis of the logits; the outputs have the others.
static tl_status entropy_infer(const tl_node *call, tl_shape *examples)
{
    const tl_entropy_attr *a = call->attr;
    const tl_tensor *logits = call->in[1];
    TL_TRY(tli_want_float(logits, "logits"));
    if (!(a->smoothing >= 0 && a->smoothing <= 1))
        return TL_FAIL(TL_EINVAL, "smoothing is %g and must be from 0 to 1", a->smoothing);
    if (logits->shape.rank < 1)
        return TL_FAIL(TL_EINVAL, "logits is a scalar and has no axis of classes");
    *examples = logits->shape;
    if (logits->shape.dims[--examples->rank] < 1) {
        char spec[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL, "logits is %s: there are no classes",
                       tl_tensor_spec(spec, logits));
    }
    examples->dims[examples->rank] = 0;
    for (int i = 0; i < 2; i++) {
        call->out[i]->dtype = tli_wide(logits->dtype);
        call->out[i]->shape = *examples;
    }
    return TL_OK;
}

// One value an example, to stand beside the classes.
static tl_tensor *column(tl_ctx *c, tl_tensor *t)
{
    if (!t) return NULL;
    tl_shape shape = t->shape;
    shape.dims[shape.rank++] = 1;
    return tl_reshape(c, t, shape);
}

static tl_tensor *wide_logits(tl_ctx *c, const tl_node *n)
{
    return tl_cast(c, n->in[1], n->out[0]->dtype);
}

// exp(logits - logsumexp), through which the second derivative flows too.
static tl_tensor *shares(tl_ctx *c, const tl_node *n)
{
    return tl_exp(c, tl_sub(c, wide_logits(c, n), column(c, n->out[1])));
}

// Fused gradients: inputs gradient of the loss, targets, logits, logsumexp.
static tl_status entropy_grad_infer(const tl_node *call)
{
    call->out[0]->dtype = call->in[2]->dtype;
    call->out[0]->shape = call->in[2]->shape;
    return TL_OK;
}

/* --- labels ---------------------------------------------------------------------------------- */

/* Compiled programs give the gradient of the loss as well, where it is known beforehand and a
 * kernel says TL_KERNEL_JOINED: output 2 is that of the logits then, which may have more columns
 * than there are classes. */
static tl_status sparse_infer(const tl_node *call)
{
    tl_shape examples;
    TL_TRY(tli_want_integer(call->in[0], "labels"));
    TL_TRY(entropy_infer(call, &examples));
    call->out[2]->dtype = call->in[1]->dtype;
    call->out[2]->shape = call->inputs > 2 ? call->in[1]->shape : TL_SHAPE(0);
    if (call->inputs > 2)
        TL_ASSERT(call->in[2]->dtype == call->out[0]->dtype
                  && tl_shape_equal(&call->in[2]->shape, &examples));
    else TL_ASSERT(!((const tl_entropy_attr *)call->attr)->classes);
    if (tl_shape_equal(&call->in[0]->shape, &examples)) return TL_OK;
    char labels[TL_TENSOR_TEXT], logits[TL_TENSOR_TEXT], wanted[TL_SHAPE_TEXT];
    return TL_FAIL(TL_EINVAL, "labels is %s; for logits, %s, its shape must be %s",
                   tl_tensor_spec(labels, call->in[0]), tl_tensor_spec(logits, call->in[1]),
                   tl_shape_text(wanted, &examples));
}

// The smoothed targets as a dense tensor.
static tl_tensor *dense_labels(tl_ctx *c, const tl_node *n)
{
    const tl_entropy_attr *a = n->attr;
    int64_t classes = n->in[1]->shape.dims[n->in[1]->shape.rank - 1];
    tl_tensor *one = tl_one_hot(c, n->in[0], classes, n->out[0]->dtype);
    return tl_affine(c, one, 1 - a->smoothing, a->smoothing / (double)classes);
}

static tl_tensor *without_ignored(tl_ctx *c, const tl_node *n, tl_tensor *g)
{
    const tl_entropy_attr *a = n->attr;
    if (!a->ignored.set || !g) return g;
    tl_tensor *label = tl_full(c, TL_I64, TL_SCALAR, (double)a->ignored.value);
    return tl_where(c, tl_equal(c, n->in[0], label), tl_full(c, g->dtype, TL_SCALAR, 0), g);
}

static void sparse_cross_entropy_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy,
                                          tl_tensor **gx, const bool *wanted)
{
    (void)wanted;
    if (!gy[1] && !tl_gradient_differentiable(c)) {
        gx[1] =
            TL_APPLY(c, sparse_cross_entropy_grad, n->attr, gy[0], n->in[0], n->in[1], n->out[1]);
        return;
    }
    tl_tensor *p = shares(c, n), *g = NULL;
    if (gy[0]) {
        tl_tensor *each = column(c, without_ignored(c, n, gy[0]));
        g = tl_mul(c, each, tl_sub(c, p, dense_labels(c, n)));
    }
    if (gy[1]) {
        tl_tensor *through = tl_mul(c, column(c, gy[1]), p);
        g = g ? tl_add(c, g, through) : through;
    }
    gx[1] = tl_cast(c, g, n->in[1]->dtype);
}

/* --- shares of all classes ------------------------------------------------------------------- */

static tl_status dense_infer(const tl_node *call)
{
    tl_shape examples;
    const tl_tensor *targets = call->in[0], *logits = call->in[1];
    TL_TRY(tli_want_float(targets, "targets"));
    TL_TRY(entropy_infer(call, &examples));
    if (targets->dtype == logits->dtype && tl_shape_equal(&targets->shape, &logits->shape))
        return TL_OK;
    char left[TL_TENSOR_TEXT], right[TL_TENSOR_TEXT];
    return TL_FAIL(TL_EINVAL, "targets is %s and logits %s; they must be alike",
                   tl_tensor_spec(left, targets), tl_tensor_spec(right, logits));
}

static void cross_entropy_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy,
                                   tl_tensor **gx, const bool *wanted)
{
    const tl_entropy_attr *a = n->attr;
    bool fused = !gy[1] && !tl_gradient_differentiable(c);
    if (wanted[0] && gy[0]) {
        tl_tensor *surprise = tl_sub(c, column(c, n->out[1]), wide_logits(c, n));
        tl_tensor *g = tl_mul(c, column(c, tl_scale(c, gy[0], 1 - a->smoothing)), surprise);
        gx[0] = tl_cast(c, g, n->in[0]->dtype);
    }
    if (!wanted[1]) return;
    if (fused) {
        gx[1] = TL_APPLY(c, cross_entropy_grad, a, gy[0], n->in[0], n->in[1], n->out[1]);
        return;
    }
    tl_tensor *p = shares(c, n), *g = NULL;
    if (gy[0]) {
        double classes = (double)n->in[1]->shape.dims[n->in[1]->shape.rank - 1];
        tl_tensor *t = tl_cast(c, n->in[0], n->out[0]->dtype);
        t = tl_affine(c, t, 1 - a->smoothing, a->smoothing / classes);
        tl_tensor *total = tl_sum(c, t, TL_AXES(-1), true);
        g = tl_mul(c, column(c, gy[0]), tl_sub(c, tl_mul(c, p, total), t));
    }
    if (gy[1]) {
        tl_tensor *through = tl_mul(c, column(c, gy[1]), p);
        g = g ? tl_add(c, g, through) : through;
    }
    gx[1] = tl_cast(c, g, n->in[1]->dtype);
}

/* --- yes or no ------------------------------------------------------------------------------- */

static tl_status sigmoid_infer(const tl_node *call)
{
    const tl_tensor *targets = call->in[0], *logits = call->in[1];
    TL_TRY(tli_want_float(logits, "logits"));
    if (targets->dtype != logits->dtype || !tl_shape_equal(&targets->shape, &logits->shape)) {
        char left[TL_TENSOR_TEXT], right[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL, "targets is %s and logits %s; they must be alike",
                       tl_tensor_spec(left, targets), tl_tensor_spec(right, logits));
    }
    call->out[0]->dtype = tli_wide(logits->dtype);
    call->out[0]->shape = logits->shape;
    return TL_OK;
}

static void sigmoid_cross_entropy_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy,
                                           tl_tensor **gx, const bool *wanted)
{
    tl_tensor *z = tl_cast(c, n->in[1], gy[0]->dtype);
    if (wanted[0]) gx[0] = tl_cast(c, tl_neg(c, tl_mul(c, gy[0], z)), n->in[0]->dtype);
    if (wanted[1]) {
        tl_tensor *g = tl_mul(c, gy[0], tl_sub(c, tl_sigmoid(c, z), n->in[0]));
        gx[1] = tl_cast(c, g, n->in[1]->dtype);
    }
}

/* --- the ops --------------------------------------------------------------------------------- */

#define ENTROPY(name_, help_, infer_, inputs_, outputs_)                                           \
    const tl_op_class tl_op_##name_ = {                                                            \
        TLI_OP_HEAD(name_, help_, &entropy_desc, 2, inputs_, outputs_),                            \
        .by = 1,                                                                                   \
        .infer = infer_,                                                                           \
        .gradient = name_##_gradient,                                                              \
    };                                                                                             \
    const tl_op_class tl_op_##name_##_grad = {                                                     \
        TLI_GRAD_HEAD(name_, &entropy_desc, 4, 4, 1),                                              \
        .by = 2,                                                                                   \
        .infer = entropy_grad_infer,                                                               \
    };
ENTROPY(sparse_cross_entropy, "-log of the share that the label gets", sparse_infer, 3, 3)
ENTROPY(cross_entropy, "cross-entropy of shares of all classes", dense_infer, 2, 2)

const tl_op_class tl_op_sigmoid_cross_entropy = {
    TLI_OP_HEAD(sigmoid_cross_entropy, "cross-entropy of yes and no, for each element", NULL, 2, 2,
                1),
    .by = 1,
    .infer = sigmoid_infer,
    .gradient = sigmoid_cross_entropy_gradient,
};

tl_tensor *tl_sparse_cross_entropy_with(tl_ctx *c, tl_tensor *labels,
                                        const tl_sparse_cross_entropy_args *args)
{
    tl_entropy_attr a = {.smoothing = args->smoothing, .ignored = args->ignored};
    return TL_APPLY(c, sparse_cross_entropy, &a, labels, args->logits);
}

tl_tensor *tl_cross_entropy(tl_ctx *c, tl_tensor *targets, tl_tensor *logits, double smoothing)
{
    tl_entropy_attr a = {.smoothing = smoothing};
    (void)tli_meet(c, &targets, &logits); // what failed is NULL, which the funnel knows
    return TL_APPLY(c, cross_entropy, &a, targets, logits);
}

tl_tensor *tl_sigmoid_cross_entropy(tl_ctx *c, tl_tensor *targets, tl_tensor *logits)
{
    (void)tli_meet(c, &targets, &logits); // what failed is NULL, which the funnel knows
    return TL_APPLY(c, sigmoid_cross_entropy, NULL, targets, logits);
}
