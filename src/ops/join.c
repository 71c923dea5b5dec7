#include <inttypes.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/view.h>
#include <tilth/sys/ops/apply.h>

#include "ops/axes.h"
#include "ops/ops.h"

/* --- concat ----------------------------------------------------------------------------------- */

static tl_status check_alike(const tl_tensor *a, const tl_tensor *b, int axis, int which)
{
    bool alike = a->dtype == b->dtype && a->shape.rank == b->shape.rank;
    for (int i = 0; alike && i < a->shape.rank; i++)
        alike = i == axis || a->shape.dims[i] == b->shape.dims[i];
    if (alike) return TL_OK;
    char first[TL_TENSOR_TEXT], other[TL_TENSOR_TEXT];
    return TL_FAIL(TL_EINVAL, "%s and %s (input %d) may differ along axis %d alone",
                   tl_tensor_spec(first, a), tl_tensor_spec(other, b), which, axis);
}

static tl_status concat_infer(const tl_node *call)
{
    const tl_axis_attr *a = call->attr;
    tl_tensor *y = call->out[0];
    int axis;
    TL_TRY(tli_infer_same(call));
    TL_TRY(tl_axis_check(&axis, a->axis, y->shape.rank, "axis"));
    for (int i = 1; i < call->inputs; i++) {
        TL_TRY(check_alike(call->in[0], call->in[i], axis, i));
        if (__builtin_add_overflow(y->shape.dims[axis], call->in[i]->shape.dims[axis],
                                   &y->shape.dims[axis]))
            return TL_FAIL(TL_ELIMIT, "axis %d of the result is too long", axis);
    }
    return TL_OK;
}

static void concat_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                            const bool *wanted)
{
    const tl_axis_attr *a = n->attr;
    for (int i = 0, axis = (int)a->axis; i < n->inputs; i++) {
        int64_t start = 0;
        if (!wanted[i]) continue;
        for (int k = 0; k < i; k++) start += n->in[k]->shape.dims[axis];
        gx[i] = tl_slice(c, gy[0], axis, start, start + n->in[i]->shape.dims[axis], 1);
    }
}

const tl_op_class tl_op_concat = {
    .op = TL_OP_concat,
    .name = "concat",
    .help = "one behind the other along an axis",
    .attr = &tli_axis_desc,
    .inputs_min = 1,
    .inputs_max = -1,
    .outputs = 1,
    .infer = concat_infer,
    .gradient = concat_gradient,
};

// The inputs cast to the type in which all of them meet; NULL when the context failed.
static tl_tensor **meet_all(tl_ctx *c, tl_tensor *const *x, int count, const char *name)
{
    if (tl_ctx_failed(c)) return NULL;
    if (count < 1) {
        (void)TL_FAIL(TL_EINVAL, "%d inputs; it takes 1 or more", count);
        tli_fail(c, name);
        return NULL;
    }
    tl_tensor **met = tl_arena_array(tl_ctx_arena(c), count, sizeof *met);
    if (!met) {
        tl_ctx_fail(c);
        return NULL;
    }
    for (int i = 0; i < count; i++)
        if (!tli_there(c, x[i], name)) return NULL;
    tl_dtype dtype = x[0]->dtype;
    for (int i = 1; i < count; i++) dtype = tl_dtype_meet(dtype, x[i]->dtype);
    for (int i = 0; i < count; i++)
        if (!(met[i] = tl_cast(c, x[i], dtype))) return NULL;
    return met;
}

tl_tensor *tl_concat(tl_ctx *c, tl_tensor *const *x, int count, int64_t axis)
{
    int at;
    tl_tensor **met = meet_all(c, x, count, "concat");
    if (!met || !tli_axis(c, &at, met[0], axis, "concat")) return NULL;
    if (count == 1) return met[0];
    tl_axis_attr attr = {.axis = at};
    return tl_apply(c, TL_OP_concat, &attr, count, met);
}

tl_tensor *tl_stack(tl_ctx *c, tl_tensor *const *x, int count, int64_t axis)
{
    int at;
    tl_tensor **met = meet_all(c, x, count, "stack");
    if (!met) return NULL;
    for (int i = 1; i < count; i++) {
        if (tl_shape_equal(&x[0]->shape, &x[i]->shape)) continue;
        char first[TL_TENSOR_TEXT], other[TL_TENSOR_TEXT];
        (void)TL_FAIL(TL_EINVAL, "%s and %s (input %d) must have the same shape",
                      tl_tensor_spec(first, x[0]), tl_tensor_spec(other, x[i]), i);
        return tli_fail(c, "stack");
    }
    if (tl_axis_check(&at, axis, x[0]->shape.rank + 1, "result") != TL_OK)
        return tli_fail(c, "stack");
    for (int i = 0; i < count; i++) met[i] = tl_expand_dims(c, met[i], at);
    return tl_concat(c, met, count, at);
}

/* --- tile ------------------------------------------------------------------------------------- */

// One axis as the middle one of three: what stands before it, a new one that is stretched, it and
// all behind it.
static tl_tensor *tile_axis(tl_ctx *c, tl_tensor *x, int axis, int64_t repeats)
{
    int64_t before = 1, rest = 1;
    tl_shape shape = x->shape;
    if (__builtin_mul_overflow(shape.dims[axis], repeats, &shape.dims[axis])
        || tl_shape_check(&shape, "result") != TL_OK) {
        (void)TL_FAIL(TL_ELIMIT, "%" PRId64 " copies of axis %d are too many elements", repeats,
                      axis);
        return tli_fail(c, "tile");
    }
    for (int i = 0; i < axis; i++) before *= x->shape.dims[i];
    for (int i = axis; i < x->shape.rank; i++) rest *= x->shape.dims[i];
    x = tl_reshape(c, x, TL_SHAPE(before, 1, rest));
    x = tl_broadcast_to(c, x, TL_SHAPE(before, repeats, rest));
    return tl_reshape(c, x, shape);
}

tl_tensor *tl_tile(tl_ctx *c, tl_tensor *x, const int64_t *repeats, int count)
{
    if (!tli_there(c, x, "tile")) return NULL;
    if (count != x->shape.rank) {
        char spec[TL_TENSOR_TEXT];
        (void)TL_FAIL(TL_EINVAL, "%d repeats for %s; one is wanted for each axis", count,
                      tl_tensor_spec(spec, x));
        return tli_fail(c, "tile");
    }
    for (int i = count - 1; i >= 0 && x; i--) {
        if (repeats[i] < 0) {
            (void)TL_FAIL(TL_EINVAL, "%" PRId64 " repeats of axis %d", repeats[i], i);
            return tli_fail(c, "tile");
        }
        if (repeats[i] != 1) x = tile_axis(c, x, i, repeats[i]);
    }
    return x;
}

/* --- pad -------------------------------------------------------------------------------------- */

static const char *const pad_modes[] = {
    [TL_PAD_CONSTANT] = "constant",
    [TL_PAD_REFLECT] = "reflect",
    [TL_PAD_REFLECT + 1] = NULL,
};
static const tl_field pad_fields[] = {
    TL_F(tl_pad_attr, before, .help = "new places in front of each axis"),
    TL_F(tl_pad_attr, after, .help = "new places behind each axis"),
    TL_F(tl_pad_attr, value, .help = "of the new places"),
    TL_F(tl_pad_attr, mode, .names = pad_modes, .help = "what the new places hold"),
    TL_F_END,
};
static const tl_desc pad_desc = {
    .name = "pad",
    .help = "attributes of pad",
    .size = sizeof(tl_pad_attr),
    .fields = pad_fields,
};

static tl_status pad_infer(const tl_node *call)
{
    const tl_pad_attr *a = call->attr;
    const tl_tensor *x = call->in[0];
    tl_tensor *y = call->out[0];
    TL_TRY(tli_infer_same(call));
    if (a->before.count != x->shape.rank || a->after.count != x->shape.rank)
        return TL_FAIL(TL_EINVAL, "%" PRId64 " and %" PRId64 " numbers for %d dimensions",
                       a->before.count, a->after.count, x->shape.rank);
    for (int i = 0; i < x->shape.rank; i++) {
        int64_t before = a->before.items[i], after = a->after.items[i], dim = x->shape.dims[i];
        if (before < 0 || after < 0)
            return TL_FAIL(TL_EINVAL,
                           "axis %d is padded by %" PRId64 " and %" PRId64 "; tl_slice cuts", i,
                           before, after);
        bool any = before || after;
        if (a->mode == TL_PAD_REFLECT && any && (before >= dim || after >= dim))
            return TL_FAIL(TL_EINVAL,
                           "axis %d has %" PRId64
                           " places; reflected padding must be shorter, not %" PRId64
                           " and %" PRId64,
                           i, dim, before, after);
        if (__builtin_add_overflow(dim, before, &dim)
            || __builtin_add_overflow(dim, after, &y->shape.dims[i]))
            return TL_FAIL(TL_ELIMIT, "axis %d of the result is too long", i);
    }
    return TL_OK;
}

// The reflected places of one axis fold back onto those that they show.
static tl_tensor *fold(tl_ctx *c, tl_tensor *g, int axis, int64_t before, int64_t after)
{
    if (!g || (!before && !after)) return g;
    int64_t n = g->shape.dims[axis] - before - after;
    tl_tensor *sum = tl_slice(c, g, axis, before, before + n, 1);
    tl_pad_args args = {.mode = TL_PAD_CONSTANT};
    if (before) {
        tl_tensor *front = tl_flip(c, tl_slice(c, g, axis, 0, before, 1), TL_AXES(axis));
        args.before[axis] = 1;
        args.after[axis] = n - 1 - before;
        sum = tl_add(c, sum, tl_pad_with(c, front, args));
    }
    if (after) {
        tl_tensor *back = tl_flip(c, tl_slice(c, g, axis, before + n, TL_OPEN, 1), TL_AXES(axis));
        args.before[axis] = n - 1 - after;
        args.after[axis] = 1;
        sum = tl_add(c, sum, tl_pad_with(c, back, args));
    }
    return sum;
}

static void pad_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                         const bool *wanted)
{
    const tl_pad_attr *a = n->attr;
    const tl_shape *x = &n->in[0]->shape;
    (void)wanted;
    if (a->mode == TL_PAD_CONSTANT) {
        tl_range ranges[TL_MAX_RANK];
        for (int i = 0; i < x->rank; i++)
            ranges[i] = (tl_range){a->before.items[i], a->before.items[i] + x->dims[i], 1};
        gx[0] = tl_slice_with(c, gy[0], ranges, x->rank);
        return;
    }
    tl_tensor *g = tli_widen(c, gy[0]);
    for (int i = 0; i < x->rank; i++) g = fold(c, g, i, a->before.items[i], a->after.items[i]);
    gx[0] = tl_cast(c, g, n->in[0]->dtype);
}

const tl_op_class tl_op_pad = {
    .op = TL_OP_pad,
    .name = "pad",
    .help = "places added around",
    .attr = &pad_desc,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .infer = pad_infer,
    .gradient = pad_gradient,
};

tl_tensor *tl_pad_with(tl_ctx *c, tl_tensor *x, tl_pad_args args)
{
    bool any = false;
    if (!tli_there(c, x, "pad")) return NULL;
    for (int i = 0; i < TL_MAX_RANK; i++) {
        bool here = args.before[i] || args.after[i];
        if (here && i >= x->shape.rank) {
            char spec[TL_TENSOR_TEXT];
            (void)TL_FAIL(TL_EINVAL, "axis %d is padded; the input is %s", i,
                          tl_tensor_spec(spec, x));
            return tli_fail(c, "pad");
        }
        any |= here;
    }
    if (!any) return x;
    tl_pad_attr attr = {.before = {args.before, x->shape.rank},
                        .after = {args.after, x->shape.rank},
                        .value = args.mode == TL_PAD_CONSTANT ? args.value : 0,
                        .mode = args.mode};
    return TL_APPLY(c, pad, &attr, x);
}
