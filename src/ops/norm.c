#include <tilth/ops/norm.h>

#include <inttypes.h>
#include <math.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/matmul.h>
#include <tilth/ops/view.h>
#include <tilth/sys/ops/apply.h>

#include "ops/elementwise.h"
#include "ops/norm.h"
#include "ops/ops.h"
#include "ops/wide.h"

static const tl_field norm_fields[] = {
    TL_F(tl_norm_attr, epsilon, .help = "added to the variance"),
    TL_F(tl_norm_attr, axes, .help = "how many of the last axes are normalised together"),
    TL_F(tl_norm_attr, groups, .help = "groups of channels"),
    TL_F(tl_norm_attr, scaled, .help = "there is a gamma"),
    TL_F(tl_norm_attr, shifted, .help = "there is a beta"),
    TL_F(tl_norm_attr, activation, .names = tl_activation_names,
         .help = "of a batch: relu or relu6 that follows"),
    TL_F(tl_norm_attr, added, .help = "of a batch: the last input is added to what comes out"),
    TL_F(tl_norm_attr, summed, .help = "the gradient's: output 3 is the sum of all rows of x's"),
    TL_F_END,
};
const tl_desc tli_norm_desc = {
    .name = "norm",
    .help = "attributes of normalisations",
    .size = sizeof(tl_norm_attr),
    .fields = norm_fields,
};

/* --- layout ---------------------------------------------------------------------------------- */

/* Every normalisation here sees its input as [outer, inner, groups, width] and brings the axes
 * `inner` and `width` together: statistics are [outer, 1, groups, 1], gamma and beta [1, 1, groups,
 * width]. */
typedef struct layout {
    tl_shape x4, stats4, params4; /* seen so */
    tl_shape stats, params;       /* as they are */
    int64_t items;                /* brought together */
    bool centered;
    int mean, variance, rstd; /* which outputs they are; 0: none */
} layout;

static tl_status layer_layout(layout *l, const tl_norm_attr *a, const tl_tensor *x)
{
    int rank = x->shape.rank;
    if (a->axes < 1 || a->axes > rank) {
        char spec[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL,
                       "%" PRId64 " axes are to be normalised; x is %s, so 1 to %d are possible",
                       a->axes, tl_tensor_spec(spec, x), rank);
    }
    int outer = rank - (int)a->axes;
    l->stats = tl_shape_of(outer, x->shape.dims);
    l->params = tl_shape_of((int)a->axes, x->shape.dims + outer);
    l->items = tl_shape_count(&l->params);
    l->x4 = TL_SHAPE(tl_shape_count(&l->stats), 1, 1, l->items);
    return TL_OK;
}

static tl_status channel_layout(layout *l, const tl_tensor *x)
{
    int rank = x->shape.rank;
    if (rank < 2) {
        char spec[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL,
                       "x is %s and must have at least 2 dimensions: examples and channels",
                       tl_tensor_spec(spec, x));
    }
    l->params = TL_SHAPE(x->shape.dims[rank - 1]);
    return TL_OK;
}

static tl_status group_layout(layout *l, const tl_norm_attr *a, const tl_tensor *x)
{
    TL_TRY(channel_layout(l, x));
    int64_t channels = l->params.dims[0], inner = 1;
    if (a->groups < 1 || channels % a->groups)
        return TL_FAIL(TL_EINVAL,
                       "%" PRId64 " channels cannot be cut into %" PRId64 " equal groups", channels,
                       a->groups);
    for (int i = 1; i < x->shape.rank - 1; i++) inner *= x->shape.dims[i];
    l->stats = TL_SHAPE(x->shape.dims[0], a->groups);
    l->x4 = TL_SHAPE(x->shape.dims[0], inner, a->groups, channels / a->groups);
    l->items = inner * (channels / a->groups);
    return TL_OK;
}

static tl_status batch_layout(layout *l, const tl_tensor *x)
{
    TL_TRY(channel_layout(l, x));
    l->items = 1;
    for (int i = 0; i < x->shape.rank - 1; i++) l->items *= x->shape.dims[i];
    l->stats = l->params;
    l->x4 = TL_SHAPE(1, l->items, l->params.dims[0], 1);
    return TL_OK;
}

static tl_status layout_of(layout *l, tl_op op, const tl_norm_attr *a, const tl_tensor *x)
{
    *l = (layout){.centered = true, .mean = 1, .rstd = 2};
    switch (op) {
    case TL_OP_rms_normalize:
    case TL_OP_rms_normalize_grad:
        l->centered = false;
        l->mean = 0;
        l->rstd = 1;
        TL_TRY(layer_layout(l, a, x));
        break;
    case TL_OP_group_normalize:
    case TL_OP_group_normalize_grad: TL_TRY(group_layout(l, a, x)); break;
    case TL_OP_batch_normalize:
    case TL_OP_batch_normalize_grad:
        l->variance = 2;
        l->rstd = 3;
        TL_TRY(batch_layout(l, x));
        break;
    default: TL_TRY(layer_layout(l, a, x)); break;
    }
    const int64_t *d = l->x4.dims;
    l->stats4 = TL_SHAPE(d[0], 1, d[2], 1);
    l->params4 = TL_SHAPE(1, 1, d[2], d[3]);
    return TL_OK;
}

/* --- shape rules ----------------------------------------------------------------------------- */

tl_status tli_norm_param(const tl_tensor *p, const tl_tensor *x, const tl_shape *shape,
                         const char *what)
{
    if (tl_shape_equal(&p->shape, shape)
        && (p->dtype == x->dtype || p->dtype == tli_wide(x->dtype)))
        return TL_OK;
    char given[TL_TENSOR_TEXT], spec[TL_TENSOR_TEXT], wanted[TL_SHAPE_TEXT];
    return TL_FAIL(TL_EINVAL, "%s is %s; for x, %s, it must be %s%s%s%s", what,
                   tl_tensor_spec(given, p), tl_tensor_spec(spec, x), tl_dtype_name(x->dtype),
                   x->dtype == tli_wide(x->dtype) ? "" : " or ",
                   x->dtype == tli_wide(x->dtype) ? "" : tl_dtype_name(tli_wide(x->dtype)),
                   tl_shape_text(wanted, shape));
}

tl_status tli_norm_params(const tl_node *call, int first, const tl_tensor *x, const tl_shape *shape)
{
    const tl_norm_attr *a = call->attr;
    int at = first;
    if (!(a->epsilon >= 0))
        return TL_FAIL(TL_EINVAL, "epsilon is %g and must be at least 0", a->epsilon);
    if (call->inputs != first + a->scaled + a->shifted + a->added)
        return TL_FAIL(TL_EINVAL, "%d inputs; the attributes name %d", call->inputs,
                       first + a->scaled + a->shifted + a->added);
    if (a->scaled) TL_TRY(tli_norm_param(call->in[at++], x, shape, "gamma"));
    if (a->shifted) TL_TRY(tli_norm_param(call->in[at], x, shape, "beta"));
    return TL_OK;
}

// What gradients can see from x alone.
static tl_status check_activation(const tl_node *call)
{
    const tl_activation activation = ((const tl_norm_attr *)call->attr)->activation;
    const bool of_batch =
        call->op->op == TL_OP_batch_normalize || call->op->op == TL_OP_batch_normalize_grad;
    if (activation == TL_ACT_NONE
        || (of_batch && (activation == TL_ACT_RELU || activation == TL_ACT_RELU6)))
        return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "activation %d: relu and relu6 may follow the normalisation of a batch; call "
                   "others by themselves",
                   (int)activation);
}

// What is added to the result of a batch's.
static tl_status check_added(const tl_node *call)
{
    const tl_tensor *x = call->in[0], *added = call->in[call->inputs - 1];
    char spec[TL_TENSOR_TEXT], wanted[TL_TENSOR_TEXT];
    if (!((const tl_norm_attr *)call->attr)->added) return TL_OK;
    if (call->op->op != TL_OP_batch_normalize)
        return TL_FAIL(TL_EINVAL, "something can be added to the normalisation of a batch alone");
    if (added->dtype == x->dtype && tl_shape_equal(&added->shape, &x->shape)) return TL_OK;
    return TL_FAIL(TL_EINVAL, "what is added is %s; it must be as x is, %s",
                   tl_tensor_spec(spec, added), tl_tensor_spec(wanted, x));
}

static tl_status norm_infer(const tl_node *call)
{
    const tl_tensor *x = call->in[0];
    layout l;
    TL_TRY(tli_want_float(x, "x"));
    TL_TRY(check_activation(call));
    TL_TRY(check_added(call));
    TL_TRY(layout_of(&l, call->op->op, call->attr, x));
    TL_TRY(tli_norm_params(call, 1, x, &l.params));
    TL_TRY(tli_infer_same(call));
    for (int i = 1; i < call->outputs; i++) {
        call->out[i]->dtype = tli_wide(x->dtype);
        call->out[i]->shape = l.stats;
    }
    return TL_OK;
}

// Inputs gy, x, statistics, gamma, and with an activation beta; outputs gx, what gamma and beta
// get, of layer_normalize_grad the sum of gx, of batch_normalize_grad what gy became; empty without
// them.
static tl_status norm_grad_infer(const tl_node *call)
{
    const tl_norm_attr *a = call->attr;
    const tl_tensor *x = call->in[1];
    layout l;
    TL_TRY(check_activation(call));
    TL_TRY(layout_of(&l, call->op->op, a, x));
    if (a->activation && call->inputs != 4 + a->scaled + a->shifted)
        return TL_FAIL(TL_EINVAL, "%d inputs; the attributes name %d", call->inputs,
                       4 + a->scaled + a->shifted);
    TL_TRY(tli_infer_same(call));
    const int added = 4 + a->scaled;
    const bool behind = a->added && call->op->op == TL_OP_batch_normalize_grad;
    if (behind && (a->activation || call->inputs != added + 2))
        return TL_FAIL(TL_EINVAL, "%d inputs; with what is added to gy there are %d", call->inputs,
                       added + 2);
    if (behind || call->op->op == TL_OP_layer_normalize_grad)
        for (int i = added; i < call->inputs; i++)
            if (call->in[i]->dtype != x->dtype || !tl_shape_equal(&call->in[i]->shape, &x->shape))
                return TL_FAIL(TL_EINVAL, "what is added must be like the gradient of x");
    for (int i = 1; i < call->outputs; i++) {
        call->out[i]->dtype = tli_wide(x->dtype);
        call->out[i]->shape = (i == 1   ? a->scaled
                               : i == 2 ? a->shifted
                                        : a->summed)
                                  ? l.params
                                  : TL_SHAPE(0);
    }
    if (behind) {
        call->out[3]->dtype = x->dtype;
        call->out[3]->shape = x->shape;
    }
    return TL_OK;
}

/* --- gradients ------------------------------------------------------------------------------- */

/* The parts of a gradient that is written with plain ops, seen in four dimensions. */
typedef struct parts {
    tl_tensor *deviation; /* x - mean */
    tl_tensor *unit;      /* that times rstd */
    tl_tensor *rstd;
} parts;

static tl_tensor *seen_as(tl_ctx *c, tl_tensor *t, const tl_shape *shape)
{
    return t ? tl_reshape(c, tl_cast(c, t, tli_wide(t->dtype)), *shape) : NULL;
}

static parts parts_of(tl_ctx *c, const tl_node *n, const layout *l)
{
    parts p = {.deviation = seen_as(c, n->in[0], &l->x4),
               .rstd = seen_as(c, n->out[l->rstd], &l->stats4)};
    if (l->centered) p.deviation = tl_sub(c, p.deviation, seen_as(c, n->out[l->mean], &l->stats4));
    p.unit = tl_mul(c, p.deviation, p.rstd);
    return p;
}

static tl_tensor *mean_together(tl_ctx *c, tl_tensor *t, const layout *l)
{
    return tl_scale(c, tl_sum(c, t, TL_AXES(1, 3), true), 1.0 / (double)l->items);
}

static tl_tensor *add_to(tl_ctx *c, tl_tensor *sum, tl_tensor *t)
{
    return sum ? tl_add(c, sum, t) : t;
}

// Through y: rstd * (g - mean(g) - unit * mean(g * unit)), where g has gone through gamma.
static tl_tensor *through_y(tl_ctx *c, const tl_node *n, const layout *l, const parts *p,
                            tl_tensor *g)
{
    const tl_norm_attr *a = n->attr;
    if (a->scaled) g = tl_mul(c, g, seen_as(c, n->in[1], &l->params4));
    tl_tensor *along = tl_mul(c, p->unit, mean_together(c, tl_mul(c, g, p->unit), l));
    if (l->centered) along = tl_add(c, along, mean_together(c, g, l));
    return tl_mul(c, p->rstd, tl_sub(c, g, along));
}

// Through the statistics, when they are used themselves: second derivatives are.
static tl_tensor *through_stats(tl_ctx *c, const layout *l, const parts *p, tl_tensor *const *gy,
                                tl_tensor *sum)
{
    double share = 1.0 / (double)l->items;
    if (l->mean && gy[l->mean])
        sum = add_to(
            c, sum,
            tl_broadcast_to(c, tl_scale(c, seen_as(c, gy[l->mean], &l->stats4), share), l->x4));
    if (l->variance && gy[l->variance])
        sum = add_to(c, sum,
                     tl_mul(c, p->deviation,
                            tl_scale(c, seen_as(c, gy[l->variance], &l->stats4), 2.0 * share)));
    if (gy[l->rstd]) {
        tl_tensor *g = tl_mul(c, seen_as(c, gy[l->rstd], &l->stats4), tl_mul(c, p->rstd, p->rstd));
        sum = add_to(c, sum, tl_mul(c, p->unit, tl_scale(c, g, -share)));
    }
    return sum;
}

static tl_tensor *like(tl_ctx *c, tl_tensor *g, const tl_tensor *t)
{
    return g ? tl_cast(c, tl_reshape(c, g, t->shape), t->dtype) : NULL;
}

static void plain_gradient(tl_ctx *c, const tl_node *n, const layout *l, tl_tensor *const *gy,
                           tl_tensor **gx, const bool *wanted)
{
    const tl_norm_attr *a = n->attr;
    parts p = parts_of(c, n, l);
    tl_tensor *g = seen_as(c, gy[0], &l->x4), *sum = NULL;
    if (wanted[0]) {
        if (g) sum = through_y(c, n, l, &p, g);
        gx[0] = like(c, through_stats(c, l, &p, gy, sum), n->in[0]);
    }
    int at = 1;
    if (a->scaled && wanted[at++] && g)
        gx[1] = like(c, tl_sum(c, tl_mul(c, g, p.unit), TL_AXES(0, 1), true), n->in[1]);
    if (a->shifted && wanted[at] && g)
        gx[at] = like(c, tl_sum(c, g, TL_AXES(0, 1), true), n->in[at]);
}

static void fused_gradient(tl_ctx *c, tl_op op, const tl_node *n, const layout *l, tl_tensor *gy,
                           tl_tensor **gx)
{
    const tl_norm_attr *a = n->attr;
    tl_norm_attr own = *a; // what was added went by: its gradient is behind the activation
    tl_tensor *in[6] = {gy, n->in[0]}, *out[4];
    int inputs = 2, at = 1;
    if (a->added) own.activation = TL_ACT_NONE, own.added = false;
    if (l->mean) in[inputs++] = n->out[l->mean];
    in[inputs++] = n->out[l->rstd];
    if (a->scaled) in[inputs++] = n->in[1];
    if (own.activation && a->shifted) in[inputs++] = n->in[1 + a->scaled];
    if (!tl_apply_all(c, op, &own, inputs, in, out)) return;
    gx[0] = out[0];
    if (a->scaled) gx[at] = tl_cast(c, out[1], n->in[at]->dtype), at++;
    if (a->shifted) gx[at] = tl_cast(c, out[2], n->in[at]->dtype);
}

static tl_tensor *behind_activation(tl_ctx *c, const tl_node *n, tl_tensor *g)
{
    switch (((const tl_norm_attr *)n->attr)->activation) {
    case TL_ACT_RELU: return tl_relu_grad(c, g, n->out[0]);
    case TL_ACT_RELU6: return tli_relu6_slope(c, g, n->out[0]);
    default: return g;
    }
}

static void norm_gradient(tl_ctx *c, tl_op fused, const tl_node *n, tl_tensor *const *gy,
                          tl_tensor **gx, const bool *wanted)
{
    layout l;
    if (layout_of(&l, n->op->op, n->attr, n->in[0]) != TL_OK) {
        tl_ctx_fail(c);
        return;
    }
    const bool added = ((const tl_norm_attr *)n->attr)->added;
    bool stats = false;
    for (int i = 1; i < n->outputs; i++) stats |= gy[i] != NULL;
    if (added && gy[0] && wanted[n->inputs - 1]) gx[n->inputs - 1] = behind_activation(c, n, gy[0]);
    if (stats || tl_gradient_differentiable(c)) {
        tl_tensor *behind[4] = {NULL}; // the activation
        for (int i = 0; i < n->outputs; i++) behind[i] = gy[i];
        if (gy[0]) behind[0] = behind_activation(c, n, gy[0]);
        plain_gradient(c, n, &l, behind, gx, wanted);
    } else {
        fused_gradient(c, fused, n, &l, added ? behind_activation(c, n, gy[0]) : gy[0], gx);
    }
}

/* --- the ops --------------------------------------------------------------------------------- */

/* A normalisation and its fused gradient: how many inputs the one has at most, how many outputs
 * each has, and the fused one's inputs, at least and at most. */
#define NORM(name_, help_, most_, outputs_, grad_outputs_, grad_inputs_, grad_most_)               \
    static void name_##_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy,                \
                                 tl_tensor **gx, const bool *wanted)                               \
    {                                                                                              \
        norm_gradient(c, TL_OP_##name_##_grad, n, gy, gx, wanted);                                 \
    }                                                                                              \
    const tl_op_class tl_op_##name_ = {                                                            \
        TLI_OP_HEAD(name_, help_, &tli_norm_desc, 1, most_, outputs_),                             \
        .infer = norm_infer,                                                                       \
        .gradient = name_##_gradient,                                                              \
    };                                                                                             \
    const tl_op_class tl_op_##name_##_grad = {                                                     \
        TLI_GRAD_HEAD(name_, &tli_norm_desc, grad_inputs_, grad_most_, grad_outputs_),             \
        .by = 1,                                                                                   \
        .infer = norm_grad_infer,                                                                  \
    };
// Compiled programs give its gradient one more, which is added to that of x, where a kernel says
// TL_KERNEL_JOINED.
NORM(layer_normalize, "mean 0 and deviation 1 over the last axes", 3, 3, 4, 4, 6)
NORM(rms_normalize, "mean square 1 over the last axes", 3, 2, 2, 3, 4)
NORM(group_normalize, "mean 0 and deviation 1 over groups of channels", 3, 3, 3, 4, 5)
// And this one's gradient two: what is added to gy, and the result of a relu whose gradient it then
// goes through. What comes of that is a result too.
NORM(batch_normalize, "mean 0 and deviation 1 of each channel over the batch", 4, 4, 4, 4, 7)

// All outputs of a normalisation; the inputs that are there, one behind the other.
static bool normalize(tl_ctx *c, tl_op op, tl_norm_attr a, tl_tensor *x, tl_tensor *gamma,
                      tl_tensor *beta, tl_tensor **out)
{
    tl_tensor *in[3] = {x};
    int inputs = 1;
    if ((a.scaled = gamma != NULL)) in[inputs++] = gamma;
    if ((a.shifted = beta != NULL)) in[inputs++] = beta;
    return tl_apply_all(c, op, &a, inputs, in, out);
}

tl_tensor *tl_layer_normalize(tl_ctx *c, tl_tensor *x, tl_tensor *gamma, tl_tensor *beta,
                              int64_t axes, double epsilon)
{
    tl_tensor *out[3];
    tl_norm_attr a = {.epsilon = epsilon, .axes = axes};
    return normalize(c, TL_OP_layer_normalize, a, x, gamma, beta, out) ? out[0] : NULL;
}

tl_tensor *tl_rms_normalize(tl_ctx *c, tl_tensor *x, tl_tensor *gamma, int64_t axes, double epsilon)
{
    tl_tensor *out[2];
    tl_norm_attr a = {.epsilon = epsilon, .axes = axes};
    return normalize(c, TL_OP_rms_normalize, a, x, gamma, NULL, out) ? out[0] : NULL;
}

tl_tensor *tl_group_normalize(tl_ctx *c, tl_tensor *x, tl_tensor *gamma, tl_tensor *beta,
                              int64_t groups, double epsilon)
{
    tl_tensor *out[3];
    tl_norm_attr a = {.epsilon = epsilon, .groups = groups};
    return normalize(c, TL_OP_group_normalize, a, x, gamma, beta, out) ? out[0] : NULL;
}

tl_tensor *tl_batch_normalize(tl_ctx *c, tl_tensor *x, tl_tensor *gamma, tl_tensor *beta,
                              double epsilon, tl_tensor **mean, tl_tensor **variance)
{
    tl_tensor *out[4];
    tl_norm_attr a = {.epsilon = epsilon};
    normalize(c, TL_OP_batch_normalize, a, x, gamma, beta, out);
    if (mean) *mean = out[1];
    if (variance) *variance = out[2];
    return out[0];
}

tl_tensor *tl_l2_normalize(tl_ctx *c, tl_tensor *x, tl_axes axes, double epsilon)
{
    if (!x) return tl_cast(c, x, TL_F32); // which says so
    tl_tensor *wide = tl_cast(c, x, tli_wide(x->dtype));
    tl_tensor *squares = tl_sum(c, tl_mul(c, wide, wide), axes, true);
    tl_tensor *rlength = tl_rsqrt(c, tl_clip(c, squares, epsilon, HUGE_VAL));
    return tl_cast(c, tl_mul(c, wide, rlength), x->dtype);
}
