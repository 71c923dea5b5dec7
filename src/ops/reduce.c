#include <tilth/ops/reduce.h>

#include <inttypes.h>
#include <math.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/view.h>
#include <tilth/sys/core/op.h>
#include <tilth/sys/ops/apply.h>

#include "ops/axes.h"
#include "ops/ops.h"

/* --- what they share -------------------------------------------------------------------------- */

static const tl_field reduce_fields[] = {
    TL_F(tl_reduce_attr, axes, .help = "that are brought together"),
    TL_F(tl_reduce_attr, keep_dims, .help = "leaves a 1 where an axis was"),
    TL_F_END,
};
static const tl_desc reduce_desc = {
    .name = "reduce",
    .help = "attributes of reductions",
    .size = sizeof(tl_reduce_attr),
    .fields = reduce_fields,
};

// What remains of a shape, and the shape with a 1 for each axis that went. Gives how many elements
// come together in one.
static int64_t reduced_shape(const tl_shape *x, tl_ints axes, bool keep_dims, tl_shape *out,
                             tl_shape *kept)
{
    int64_t together = 1;
    *kept = *x;
    *out = (tl_shape){0};
    for (int64_t i = 0; i < axes.count; i++) {
        together *= x->dims[axes.items[i]];
        kept->dims[axes.items[i]] = 1;
    }
    for (int i = 0, next = 0; i < x->rank; i++) {
        bool goes = next < axes.count && axes.items[next] == i;
        next += goes;
        if (!goes || keep_dims) out->dims[out->rank++] = kept->dims[i];
    }
    return together;
}

static tl_status infer_reduced(const tl_node *call, tl_dtype dtype)
{
    const tl_reduce_attr *a = call->attr;
    tl_shape kept;
    reduced_shape(&call->in[0]->shape, a->axes, a->keep_dims, &call->out[0]->shape, &kept);
    call->out[0]->dtype = dtype;
    return TL_OK;
}

static tl_status number_infer(const tl_node *call)
{
    TL_TRY(tli_want_number(call->in[0], "the input"));
    return infer_reduced(call, call->in[0]->dtype);
}

static tl_status float_infer(const tl_node *call)
{
    TL_TRY(tli_want_float(call->in[0], "the input"));
    return infer_reduced(call, call->in[0]->dtype);
}

static tl_status truth_infer(const tl_node *call)
{
    return infer_reduced(call, TL_BOOL);
}

static double input_count(const tl_node *call)
{
    return (double)tl_tensor_count(call->in[0]);
}

static tl_tensor *reduce(tl_ctx *c, tl_op op, tl_tensor *x, tl_axes axes, bool keep_dims)
{
    int64_t straight[TL_MAX_RANK], count = 0;
    const char *name = tl_op_class_of(op)->name;
    if (!tli_there(c, x, name)) return NULL;
    if (tli_axes_straighten(straight, &count, &x->shape, axes) != TL_OK) return tli_fail(c, name);
    tl_reduce_attr attr = {.axes = {straight, count}, .keep_dims = keep_dims};
    return tl_apply(c, op, &attr, 1, &x);
}

#define REDUCTION(name_, help_, ...)                                                               \
    const tl_op_class tl_op_##name_ = {.op = TL_OP_##name_,                                        \
                                       .name = #name_,                                             \
                                       .help = help_,                                              \
                                       .attr = &reduce_desc,                                       \
                                       .inputs_min = 1,                                            \
                                       .inputs_max = 1,                                            \
                                       .outputs = 1,                                               \
                                       .flops = input_count,                                       \
                                       __VA_ARGS__};                                               \
    tl_tensor *tl_##name_(tl_ctx *c, tl_tensor *x, tl_axes axes, bool keep_dims)                   \
    {                                                                                              \
        return reduce(c, TL_OP_##name_, x, axes, keep_dims);                                       \
    }

// What came together, for gradients: the gradient with a 1 for each axis that went.
static int64_t unreduced(tl_ctx *c, const tl_node *n, tl_tensor *gy, tl_tensor **out)
{
    const tl_reduce_attr *a = n->attr;
    tl_shape shape, kept;
    int64_t together = reduced_shape(&n->in[0]->shape, a->axes, a->keep_dims, &shape, &kept);
    *out = tl_reshape(c, gy, kept);
    return together;
}

/* --- sum, mean -------------------------------------------------------------------------------- */

static void sum_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                         const bool *wanted)
{
    tl_tensor *g;
    (void)wanted;
    unreduced(c, n, gy[0], &g);
    gx[0] = tl_broadcast_to(c, g, n->in[0]->shape);
}

static void mean_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                          const bool *wanted)
{
    tl_tensor *g;
    (void)wanted;
    int64_t together = unreduced(c, n, gy[0], &g);
    gx[0] = tl_broadcast_to(c, tl_scale(c, g, 1.0 / (double)together), n->in[0]->shape);
}

REDUCTION(sum, "sum over axes", .infer = number_infer, .gradient = sum_gradient)
REDUCTION(mean, "mean over axes", .infer = float_infer, .gradient = mean_gradient)

/* --- max, min --------------------------------------------------------------------------------- */

static tl_status extreme_infer(const tl_node *call)
{
    const tl_reduce_attr *a = call->attr;
    tl_shape out, kept;
    if (reduced_shape(&call->in[0]->shape, a->axes, a->keep_dims, &out, &kept) == 0) {
        char spec[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL, "the axes of %s hold no elements, of which there is none",
                       tl_tensor_spec(spec, call->in[0]));
    }
    return number_infer(call);
}

static void extreme_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                             const bool *wanted)
{
    const tl_reduce_attr *a = n->attr;
    tl_tensor *x = n->in[0], *g, *y;
    (void)wanted;
    unreduced(c, n, gy[0], &g);
    unreduced(c, n, n->out[0], &y);
    // Counts need more digits than 16-bit floats have.
    tl_tensor *ties = tl_cast(c, tl_equal(c, x, y), x->dtype == TL_F64 ? TL_F64 : TL_F32);
    tl_tensor *share = tl_div(c, ties, tl_sum(c, ties, a->axes, true));
    gx[0] = tl_cast(c, tl_mul(c, tli_widen(c, g), share), x->dtype);
}

REDUCTION(max, "largest over axes", .infer = extreme_infer, .gradient = extreme_gradient)
REDUCTION(min, "smallest over axes", .infer = extreme_infer, .gradient = extreme_gradient)

/* --- prod ------------------------------------------------------------------------------------- */

// Rows moved by some places towards their end, or their start; ones come after them.
static tl_tensor *shifted(tl_ctx *c, tl_tensor *x, int64_t by, bool to_start)
{
    int64_t n = x ? x->shape.dims[1] : 0;
    tl_pad_args ones = {.value = 1};
    if (to_start) {
        ones.after[1] = by;
        return tl_pad_with(c, tl_slice(c, x, 1, by, n, 1), ones);
    }
    ones.before[1] = by;
    return tl_pad_with(c, tl_slice(c, x, 1, 0, n - by, 1), ones);
}

// The product of all elements of a row on one side of each. Doubling the reach needs no division,
// so zeros do no harm, and all of it can be differentiated again.
static tl_tensor *products_beside(tl_ctx *c, tl_tensor *x, bool behind)
{
    int64_t n = x ? x->shape.dims[1] : 0;
    tl_tensor *p = shifted(c, x, 1, behind);
    for (int64_t reach = 1; reach < n - 1; reach *= 2)
        p = tl_mul(c, p, shifted(c, p, reach, behind));
    return p;
}

// The axes that stay in front of those that go, which come together as the columns of a matrix.
static tl_tensor *as_rows(tl_ctx *c, tl_tensor *x, tl_ints axes, int64_t columns, int64_t *perm,
                          tl_shape *moved)
{
    if (!x) return NULL;
    int rank = x->shape.rank, stay = 0, go = rank - (int)axes.count;
    for (int i = 0, next = 0; i < rank; i++) {
        bool goes = next < axes.count && axes.items[next] == i;
        next += goes;
        perm[goes ? go++ : stay++] = i;
    }
    tl_tensor *t = tl_transpose(c, x, perm, rank);
    if (!t) return NULL;
    *moved = t->shape;
    return tl_reshape(c, t, TL_SHAPE(tl_tensor_count(x) / columns, columns));
}

static void prod_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                          const bool *wanted)
{
    const tl_reduce_attr *a = n->attr;
    tl_tensor *x = n->in[0], *g;
    int64_t perm[TL_MAX_RANK], back[TL_MAX_RANK];
    tl_shape moved;
    (void)wanted;
    int64_t together = unreduced(c, n, gy[0], &g);
    if (tl_tensor_count(x) == 0) {
        gx[0] = tl_zeros(c, x->dtype, x->shape);
        return;
    }
    tl_tensor *rows = as_rows(c, tli_widen(c, x), a->axes, together, perm, &moved);
    if (!rows) return;
    tl_tensor *others = tl_mul(c, products_beside(c, rows, false), products_beside(c, rows, true));
    for (int i = 0; i < x->shape.rank; i++) back[perm[i]] = i;
    others = tl_transpose(c, tl_reshape(c, others, moved), back, x->shape.rank);
    gx[0] = tl_cast(c, tl_mul(c, tli_widen(c, g), others), x->dtype);
}

REDUCTION(prod, "product over axes", .infer = number_infer, .gradient = prod_gradient)

/* --- logsumexp -------------------------------------------------------------------------------- */

static void logsumexp_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                               const bool *wanted)
{
    const tl_reduce_attr *a = n->attr;
    tl_tensor *x = tli_widen(c, n->in[0]), *g, *y;
    (void)wanted;
    unreduced(c, n, gy[0], &g);
    // A result rounded to 16 bits would be off by more than the small exponentials bear.
    if (x == n->in[0]) unreduced(c, n, n->out[0], &y);
    else y = tl_logsumexp(c, x, a->axes, true);
    if (!y) return;
    tl_tensor *none = tl_equal(c, y, tl_full(c, y->dtype, TL_SCALAR, -INFINITY));
    y = tl_where(c, none, tl_zeros(c, y->dtype, TL_SCALAR), y);
    tl_tensor *share = tl_exp(c, tl_sub(c, x, y));
    gx[0] = tl_cast(c, tl_mul(c, tli_widen(c, g), share), n->in[0]->dtype);
}

REDUCTION(logsumexp, "log of the sum of exponentials over axes", .infer = float_infer,
          .gradient = logsumexp_gradient)

/* --- any, all --------------------------------------------------------------------------------- */

REDUCTION(any, "whether any is true, over axes", .flags = TL_OP_CONSTANT, .infer = truth_infer)
REDUCTION(all, "whether all are true, over axes", .flags = TL_OP_CONSTANT, .infer = truth_infer)

/* --- variance --------------------------------------------------------------------------------- */

static const tl_field variance_fields[] = {
    TL_F(tl_variance_attr, axes, .help = "that are brought together"),
    TL_F(tl_variance_attr, keep_dims, .help = "leaves a 1 where an axis was"),
    TL_F(tl_variance_attr, correction, .help = "the divisor is the number of elements less this"),
    TL_F_END,
};
static const tl_desc variance_desc = {
    .name = "variance",
    .help = "attributes of variance",
    .size = sizeof(tl_variance_attr),
    .fields = variance_fields,
};

static tl_status variance_infer(const tl_node *call)
{
    const tl_variance_attr *a = call->attr;
    tl_shape kept;
    TL_TRY(tli_want_float(call->in[0], "the input"));
    if (a->correction < 0 || a->correction > 1)
        return TL_FAIL(TL_EINVAL, "a correction of %" PRId64 "; it is 0 or 1", a->correction);
    reduced_shape(&call->in[0]->shape, a->axes, a->keep_dims, &call->out[0]->shape, &kept);
    call->out[0]->dtype = call->in[0]->dtype;
    return TL_OK;
}

static void variance_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                              const bool *wanted)
{
    const tl_variance_attr *a = n->attr;
    tl_tensor *x = tli_widen(c, n->in[0]);
    tl_shape out, kept;
    (void)wanted;
    int64_t together = reduced_shape(&n->in[0]->shape, a->axes, a->keep_dims, &out, &kept);
    double divisor = (double)(together > a->correction ? together - a->correction : 0);
    tl_tensor *g = tl_scale(c, tli_widen(c, tl_reshape(c, gy[0], kept)), 2.0 / divisor);
    tl_tensor *distance = tl_sub(c, x, tl_mean(c, x, a->axes, true));
    gx[0] = tl_cast(c, tl_mul(c, g, distance), n->in[0]->dtype);
}

static double variance_flops(const tl_node *call)
{
    return 3.0 * input_count(call);
}

const tl_op_class tl_op_variance = {
    .op = TL_OP_variance,
    .name = "variance",
    .help = "mean square distance from the mean over axes",
    .attr = &variance_desc,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .infer = variance_infer,
    .gradient = variance_gradient,
    .flops = variance_flops,
};

tl_tensor *tl_variance(tl_ctx *c, tl_tensor *x, tl_axes axes, int64_t correction, bool keep_dims)
{
    int64_t straight[TL_MAX_RANK], count = 0;
    if (!tli_there(c, x, "variance")) return NULL;
    if (tli_axes_straighten(straight, &count, &x->shape, axes) != TL_OK)
        return tli_fail(c, "variance");
    tl_variance_attr attr = {
        .axes = {straight, count}, .keep_dims = keep_dims, .correction = correction};
    return TL_APPLY(c, variance, &attr, x);
}

tl_tensor *tl_std(tl_ctx *c, tl_tensor *x, tl_axes axes, int64_t correction, bool keep_dims)
{
    if (!tli_there(c, x, "std")) return NULL;
    return tl_cast(c, tl_sqrt(c, tl_variance(c, tli_widen(c, x), axes, correction, keep_dims)),
                   x->dtype);
}

/* --- argmax, argmin --------------------------------------------------------------------------- */

static const tl_field arg_fields[] = {
    TL_F(tl_arg_attr, axis, .help = "along which it is looked for"),
    TL_F(tl_arg_attr, keep_dims, .help = "leaves a 1 where the axis was"),
    TL_F_END,
};
static const tl_desc arg_desc = {
    .name = "arg",
    .help = "attributes of argmax",
    .size = sizeof(tl_arg_attr),
    .fields = arg_fields,
};

static tl_status arg_infer(const tl_node *call)
{
    const tl_arg_attr *a = call->attr;
    const tl_tensor *x = call->in[0];
    tl_shape kept;
    int axis;
    TL_TRY(tl_axis_check(&axis, a->axis, x->shape.rank, "axis"));
    if (x->shape.dims[axis] == 0) {
        char spec[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL, "axis %d of %s holds no elements", axis, tl_tensor_spec(spec, x));
    }
    reduced_shape(&x->shape, (tl_ints){&a->axis, 1}, a->keep_dims, &call->out[0]->shape, &kept);
    call->out[0]->dtype = TL_I64;
    return TL_OK;
}

#define ARG_REDUCTION(name_, help_)                                                                \
    const tl_op_class tl_op_##name_ = {                                                            \
        .op = TL_OP_##name_,                                                                       \
        .name = #name_,                                                                            \
        .help = help_,                                                                             \
        .attr = &arg_desc,                                                                         \
        .inputs_min = 1,                                                                           \
        .inputs_max = 1,                                                                           \
        .outputs = 1,                                                                              \
        .flags = TL_OP_CONSTANT,                                                                   \
        .infer = arg_infer,                                                                        \
        .flops = input_count,                                                                      \
    };                                                                                             \
    tl_tensor *tl_##name_(tl_ctx *c, tl_tensor *x, int64_t axis, bool keep_dims)                   \
    {                                                                                              \
        int at;                                                                                    \
        if (!tli_axis(c, &at, x, axis, #name_)) return NULL;                                       \
        tl_arg_attr attr = {.axis = at, .keep_dims = keep_dims};                                   \
        return tl_apply(c, TL_OP_##name_, &attr, 1, &x);                                           \
    }
ARG_REDUCTION(argmax, "where the largest is along an axis")
ARG_REDUCTION(argmin, "where the smallest is along an axis")

/* --- cumsum ----------------------------------------------------------------------------------- */

static const tl_field cumsum_fields[] = {
    TL_F(tl_cumsum_attr, axis, .help = "along which it adds up"),
    TL_F(tl_cumsum_attr, exclusive, .help = "leaves the element itself out"),
    TL_F(tl_cumsum_attr, reverse, .help = "starts at the end"),
    TL_F_END,
};
static const tl_desc cumsum_desc = {
    .name = "cumsum",
    .help = "attributes of cumsum",
    .size = sizeof(tl_cumsum_attr),
    .fields = cumsum_fields,
};

static tl_status cumsum_infer(const tl_node *call)
{
    const tl_cumsum_attr *a = call->attr;
    int axis;
    TL_TRY(tli_want_number(call->in[0], "the input"));
    TL_TRY(tl_axis_check(&axis, a->axis, call->in[0]->shape.rank, "axis"));
    return tli_infer_same(call);
}

static void cumsum_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                            const bool *wanted)
{
    const tl_cumsum_attr *a = n->attr;
    (void)wanted;
    gx[0] = tl_cumsum(c, gy[0], a->axis, a->exclusive, !a->reverse);
}

const tl_op_class tl_op_cumsum = {
    .op = TL_OP_cumsum,
    .name = "cumsum",
    .help = "sums of all elements up to each",
    .attr = &cumsum_desc,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .infer = cumsum_infer,
    .gradient = cumsum_gradient,
};

tl_tensor *tl_cumsum(tl_ctx *c, tl_tensor *x, int64_t axis, bool exclusive, bool reverse)
{
    int at;
    if (!tli_axis(c, &at, x, axis, "cumsum")) return NULL;
    tl_cumsum_attr attr = {.axis = at, .exclusive = exclusive, .reverse = reverse};
    return TL_APPLY(c, cumsum, &attr, x);
}
