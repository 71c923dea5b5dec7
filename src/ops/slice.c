#include <inttypes.h>
#include <tilth/ops/view.h>
#include <tilth/sys/ops/apply.h>

#include "ops/axes.h"
#include "ops/ops.h"

/* --- slice ------------------------------------------------------------------------------------ */

static const tl_field slice_fields[] = {
    TL_F(tl_slice_attr, starts, .help = "first place of each axis"),
    TL_F(tl_slice_attr, sizes, .help = "places taken of each axis"),
    TL_F(tl_slice_attr, steps, .help = "from one place to the next"),
    TL_F_END,
};
static const tl_desc slice_desc = {
    .name = "slice",
    .help = "attributes of slice",
    .size = sizeof(tl_slice_attr),
    .fields = slice_fields,
};

// Whether start, start + step, ... (`size` places) all lie within an axis.
static bool within(int64_t start, int64_t size, int64_t step, int64_t dim)
{
    int64_t last;
    if (size == 0) return true;
    if (size < 0 || start < 0 || start >= dim) return false;
    if (__builtin_mul_overflow(size - 1, step, &last) || __builtin_add_overflow(start, last, &last))
        return false;
    return last >= 0 && last < dim;
}

static tl_status check_places(const tl_shape *whole, const tl_shape *part, tl_ints starts,
                              tl_ints steps)
{
    for (int i = 0; i < whole->rank; i++) {
        int64_t start = starts.items[i], step = steps.items[i];
        if (within(start, part->dims[i], step, whole->dims[i])) continue;
        return TL_FAIL(TL_EINVAL,
                       "%" PRId64 " places from %" PRId64 " on in steps of %" PRId64
                       " lie outside of axis %d, which has %" PRId64,
                       part->dims[i], start, step, i, whole->dims[i]);
    }
    return TL_OK;
}

static tl_status check_lengths(int rank, tl_ints starts, tl_ints steps, int64_t sizes)
{
    if (starts.count == rank && steps.count == rank && sizes == rank) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "%" PRId64 " starts, %" PRId64 " steps and %" PRId64 " sizes for %d dimensions",
                   starts.count, steps.count, sizes, rank);
}

static tl_status slice_infer(const tl_node *call)
{
    const tl_slice_attr *a = call->attr;
    const tl_tensor *x = call->in[0];
    tl_tensor *y = call->out[0];
    TL_TRY(check_lengths(x->shape.rank, a->starts, a->steps, a->sizes.count));
    TL_TRY(tli_shape_from(&y->shape, a->sizes));
    TL_TRY(check_places(&x->shape, &y->shape, a->starts, a->steps));
    y->dtype = x->dtype;
    y->offset = x->offset;
    bool empty = tl_shape_count(&y->shape) == 0; // then no place need lie in the storage
    for (int i = 0; i < x->shape.rank; i++) {
        y->strides[i] = y->shape.dims[i] > 1 ? x->strides[i] * a->steps.items[i] : x->strides[i];
        if (!empty) y->offset += x->strides[i] * a->starts.items[i];
    }
    return TL_OK;
}

static void slice_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                           const bool *wanted)
{
    const tl_slice_attr *a = n->attr;
    (void)wanted;
    gx[0] = tl_unslice(c, gy[0], n->in[0]->shape, a->starts.items, a->steps.items,
                       n->in[0]->shape.rank);
}

const tl_op_class tl_op_slice = {
    .op = TL_OP_slice,
    .name = "slice",
    .help = "evenly spaced places of each axis",
    .attr = &slice_desc,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .flags = TL_OP_VIEW,
    .infer = slice_infer,
    .gradient = slice_gradient,
};

static tl_tensor *slice(tl_ctx *c, tl_tensor *x, const int64_t *starts, const tl_shape *sizes,
                        const int64_t *steps)
{
    bool whole = tl_shape_equal(&x->shape, sizes);
    for (int i = 0; whole && i < sizes->rank; i++) whole = sizes->dims[i] <= 1 || steps[i] == 1;
    if (whole) return x;
    tl_slice_attr attr = {
        .starts = {starts, sizes->rank}, .sizes = tli_dims(sizes), .steps = {steps, sizes->rank}};
    return TL_APPLY(c, slice, &attr, x);
}

/* --- ranges as Python has them ---------------------------------------------------------------- */

// A place between `low` and `high`; below 0 it counts from the end.
static int64_t place(int64_t at, int64_t dim, int64_t low, int64_t high)
{
    if (at < 0) at += dim;
    return at < low ? low : at > high ? high : at;
}

static tl_status resolve(const tl_range *r, int64_t dim, int64_t *start, int64_t *size,
                         int64_t *step)
{
    if (r->step == 0) return TL_FAIL(TL_EINVAL, "a step of 0");
    bool forward = r->step > 0;
    int64_t low = forward ? 0 : -1, high = forward ? dim : dim - 1;
    int64_t first = r->start == TL_OPEN ? (forward ? low : high) : place(r->start, dim, low, high);
    int64_t stop = r->stop == TL_OPEN ? (forward ? high : low) : place(r->stop, dim, low, high);
    int64_t length = forward ? stop - first : first - stop;
    int64_t stride = forward ? r->step : r->step == INT64_MIN ? INT64_MAX : -r->step;
    *size = length > 0 ? 1 + (length - 1) / stride : 0;
    *start = *size ? first : 0;
    *step = *size > 1 ? r->step : 1;
    return TL_OK;
}

tl_tensor *tl_slice_with(tl_ctx *c, tl_tensor *x, const tl_range *ranges, int count)
{
    static const tl_range whole = TL_WHOLE;
    int64_t starts[TL_MAX_RANK], steps[TL_MAX_RANK];
    if (!tli_there(c, x, "slice")) return NULL;
    tl_shape sizes = x->shape;
    if (count > sizes.rank) {
        char spec[TL_TENSOR_TEXT];
        (void)TL_FAIL(TL_EINVAL, "%d ranges for %s", count, tl_tensor_spec(spec, x));
        return tli_fail(c, "slice");
    }
    for (int i = 0; i < sizes.rank; i++) {
        const tl_range *r = i < count ? &ranges[i] : &whole;
        if (resolve(r, x->shape.dims[i], &starts[i], &sizes.dims[i], &steps[i]) != TL_OK)
            return tli_fail(c, "slice");
    }
    return slice(c, x, starts, &sizes, steps);
}

tl_tensor *tl_slice(tl_ctx *c, tl_tensor *x, int64_t axis, int64_t start, int64_t stop,
                    int64_t step)
{
    int at;
    tl_range ranges[TL_MAX_RANK];
    if (!tli_axis(c, &at, x, axis, "slice")) return NULL;
    for (int i = 0; i < at; i++) ranges[i] = (tl_range)TL_WHOLE;
    ranges[at] = (tl_range){start, stop, step};
    return tl_slice_with(c, x, ranges, at + 1);
}

tl_tensor *tl_take(tl_ctx *c, tl_tensor *x, int64_t axis, int64_t index)
{
    int at;
    if (!tli_axis(c, &at, x, axis, "take")) return NULL;
    int64_t dim = x->shape.dims[at], from = index < 0 ? index + dim : index;
    if (from < 0 || from >= dim) {
        char spec[TL_TENSOR_TEXT];
        (void)TL_FAIL(TL_EINVAL, "index %" PRId64 " of axis %d of %s", index, at,
                      tl_tensor_spec(spec, x));
        return tli_fail(c, "take");
    }
    return tl_squeeze(c, tl_slice(c, x, at, from, from + 1, 1), TL_AXES(at));
}

tl_tensor *tl_flip(tl_ctx *c, tl_tensor *x, tl_axes axes)
{
    int64_t named[TL_MAX_RANK], count = 0;
    tl_range ranges[TL_MAX_RANK];
    if (!tli_there(c, x, "flip")) return NULL;
    if (tli_axes_straighten(named, &count, &x->shape, axes) != TL_OK) return tli_fail(c, "flip");
    for (int i = 0; i < x->shape.rank; i++) ranges[i] = (tl_range)TL_WHOLE;
    for (int64_t i = 0; i < count; i++) ranges[named[i]].step = -1;
    return tl_slice_with(c, x, ranges, x->shape.rank);
}

/* --- split ------------------------------------------------------------------------------------ */

static tl_status check_sizes(const tl_tensor *x, int axis, const int64_t *sizes, int64_t count)
{
    char spec[TL_TENSOR_TEXT];
    int64_t rest = x->shape.dims[axis];
    for (int64_t i = 0; i < count; i++) {
        if (sizes[i] < 0)
            return TL_FAIL(TL_EINVAL, "size %" PRId64 " of part %" PRId64, sizes[i], i);
        if (sizes[i] > rest)
            return TL_FAIL(TL_EINVAL, "the parts are longer together than axis %d of %s", axis,
                           tl_tensor_spec(spec, x));
        rest -= sizes[i];
    }
    if (rest)
        return TL_FAIL(TL_EINVAL, "the parts leave %" PRId64 " of axis %d of %s", rest, axis,
                       tl_tensor_spec(spec, x));
    return TL_OK;
}

void tl_split(tl_ctx *c, tl_tensor *x, int64_t axis, const int64_t *sizes, int64_t count,
              tl_tensor **out)
{
    int at;
    for (int64_t i = 0; i < count; i++) out[i] = NULL;
    if (!tli_axis(c, &at, x, axis, "split")) return;
    if (check_sizes(x, at, sizes, count) != TL_OK) {
        tli_fail(c, "split");
        return;
    }
    for (int64_t i = 0, start = 0; i < count; start += sizes[i++])
        out[i] = tl_slice(c, x, at, start, start + sizes[i], 1);
}

void tl_split_even(tl_ctx *c, tl_tensor *x, int64_t axis, int64_t count, tl_tensor **out)
{
    int at;
    for (int64_t i = 0; i < count; i++) out[i] = NULL;
    if (!tli_axis(c, &at, x, axis, "split")) return;
    if (count < 1 || x->shape.dims[at] % count != 0) {
        char spec[TL_TENSOR_TEXT];
        (void)TL_FAIL(TL_EINVAL, "axis %d of %s does not fall into %" PRId64 " equal parts", at,
                      tl_tensor_spec(spec, x), count);
        tli_fail(c, "split");
        return;
    }
    int64_t size = x->shape.dims[at] / count;
    for (int64_t i = 0; i < count; i++) out[i] = tl_slice(c, x, at, i * size, (i + 1) * size, 1);
}

/* --- unslice ---------------------------------------------------------------------------------- */

static const tl_field unslice_fields[] = {
    TL_F(tl_unslice_attr, shape, .help = "of the result"),
    TL_F(tl_unslice_attr, starts, .help = "first place of each axis"),
    TL_F(tl_unslice_attr, steps, .help = "from one place to the next"),
    TL_F_END,
};
static const tl_desc unslice_desc = {
    .name = "unslice",
    .help = "attributes of unslice",
    .size = sizeof(tl_unslice_attr),
    .fields = unslice_fields,
};

static tl_status unslice_infer(const tl_node *call)
{
    const tl_unslice_attr *a = call->attr;
    const tl_tensor *x = call->in[0];
    tl_tensor *y = call->out[0];
    TL_TRY(check_lengths(x->shape.rank, a->starts, a->steps, a->shape.count));
    TL_TRY(tli_shape_from(&y->shape, a->shape));
    TL_TRY(check_places(&y->shape, &x->shape, a->starts, a->steps));
    for (int i = 0; i < x->shape.rank; i++)
        if (a->steps.items[i] == 0 && x->shape.dims[i] > 1)
            return TL_FAIL(TL_EINVAL, "a step of 0");
    y->dtype = x->dtype;
    return TL_OK;
}

static void unslice_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                             const bool *wanted)
{
    const tl_unslice_attr *a = n->attr;
    (void)wanted;
    if (gy[0]) gx[0] = slice(c, gy[0], a->starts.items, &n->in[0]->shape, a->steps.items);
}

const tl_op_class tl_op_unslice = {
    .op = TL_OP_unslice,
    .name = "unslice",
    .help = "put at evenly spaced places into zeros",
    .attr = &unslice_desc,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .infer = unslice_infer,
    .gradient = unslice_gradient,
};

tl_tensor *tl_unslice(tl_ctx *c, tl_tensor *x, tl_shape shape, const int64_t *starts,
                      const int64_t *steps, int count)
{
    tl_unslice_attr attr = {
        .shape = tli_dims(&shape), .starts = {starts, count}, .steps = {steps, count}};
    return TL_APPLY(c, unslice, &attr, x);
}
