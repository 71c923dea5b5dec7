#include <tilth/ops/boxes.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/view.h>
#include <tilth/sys/ops/apply.h>

#include <inttypes.h>
#include <math.h>

#include "ops/axes.h"
#include "ops/ops.h"

/* windows, levels, maps; the gradient has what crops would be in place of the maps, and gives what
 * flows to one of them. Both are linear, and each other's transpose. */

static const tl_field crop_fields[] = {
    TL_F(tl_crop_attr, size, .help = "rows and columns of a crop"),
    TL_F(tl_crop_attr, offset, .help = "of a sample in its cell"),
    TL_F(tl_crop_attr, first, .help = "number of the first level that is given"),
    TL_F(tl_crop_attr, height, .help = "rows of level 0"),
    TL_F(tl_crop_attr, width, .help = "columns of level 0"),
    TL_F(tl_crop_attr, rows, .help = "of the level that a gradient is of"),
    TL_F(tl_crop_attr, columns, .help = "of the level that a gradient is of"),
    TL_F_END,
};
static const tl_desc crop_desc = {
    .name = "crop_windows",
    .help = "attributes of crop_windows",
    .size = sizeof(tl_crop_attr),
    .fields = crop_fields,
};

enum { MOST_LEVELS = 30 };

static tl_status check_windows(const tl_node *call)
{
    const tl_crop_attr *a = call->attr;
    const tl_tensor *windows = call->in[0], *levels = call->in[1];
    const int64_t *w = windows->shape.dims, *l = levels->shape.dims;
    char spec[2][TL_TENSOR_TEXT];
    TL_TRY(tli_want_rank(windows, 3, "the tensor of windows"));
    TL_TRY(tli_want_rank(levels, 2, "the tensor of levels"));
    if (windows->dtype != TL_F32 || levels->dtype != TL_I32 || w[2] != 4 || l[0] != w[0]
        || l[1] != w[1])
        return TL_FAIL(
            TL_EINVAL,
            "windows %s and levels %s must be float32 [batch, n, 4] and int32 [batch, n]",
            tl_tensor_spec(spec[0], windows), tl_tensor_spec(spec[1], levels));
    if (a->size < 1 || a->size > INT16_MAX || a->first < 0 || a->first > MOST_LEVELS)
        return TL_FAIL(TL_EINVAL, "crops of %" PRId64 " rows from level %" PRId64 " on", a->size,
                       a->first);
    if (a->height < 1 || a->width < 1 || a->height > INT32_MAX || a->width > INT32_MAX)
        return TL_FAIL(TL_EINVAL, "level 0 has %" PRId64 "x%" PRId64 " pixels; there must be some",
                       a->height, a->width);
    return TL_OK;
}

// A level must have the rows and columns that places are computed for.
static tl_status check_level(const tl_crop_attr *a, int64_t level, int64_t rows, int64_t columns)
{
    const int64_t high = level > MOST_LEVELS ? 0 : a->height >> level;
    const int64_t wide = level > MOST_LEVELS ? 0 : a->width >> level;
    if (rows < 1 || columns < 1 || rows < high || columns < wide)
        return TL_FAIL(TL_EINVAL,
                       "level %" PRId64 " has %" PRId64 "x%" PRId64 " pixels; below one of %" PRId64
                       "x%" PRId64 " it needs %" PRId64 "x%" PRId64,
                       level, rows, columns, a->height, a->width, high > 1 ? high : 1,
                       wide > 1 ? wide : 1);
    return TL_OK;
}

static tl_status crop_infer(const tl_node *call)
{
    const tl_crop_attr *a = call->attr;
    const int64_t *w = call->in[0]->shape.dims, *m = call->in[2]->shape.dims;
    char spec[2][TL_TENSOR_TEXT];
    TL_TRY(check_windows(call));
    for (int i = 2; i < call->inputs; i++) {
        const tl_tensor *map = call->in[i];
        const int64_t *d = map->shape.dims;
        TL_TRY(tli_want_float(map, "a map"));
        TL_TRY(tli_want_rank(map, 4, "a map"));
        if (map->dtype != call->in[2]->dtype || d[0] != w[0] || d[3] != m[3])
            return TL_FAIL(TL_EINVAL, "maps %s and %s are of different types, batches or channels",
                           tl_tensor_spec(spec[0], call->in[2]), tl_tensor_spec(spec[1], map));
        TL_TRY(check_level(a, a->first + i - 2, d[1], d[2]));
    }
    call->out[0]->dtype = call->in[2]->dtype;
    call->out[0]->shape = TL_SHAPE(w[0], w[1], a->size, a->size, m[3]);
    return TL_OK;
}

static tl_status crop_grad_infer(const tl_node *call)
{
    const tl_crop_attr *a = call->attr;
    const tl_tensor *crops = call->in[2];
    const int64_t *w = call->in[0]->shape.dims, *d = crops->shape.dims;
    char spec[TL_TENSOR_TEXT];
    TL_TRY(check_windows(call));
    TL_TRY(tli_want_float(crops, "the tensor of crops"));
    TL_TRY(tli_want_rank(crops, 5, "the tensor of crops"));
    if (d[0] != w[0] || d[1] != w[1] || d[2] != a->size || d[3] != a->size)
        return TL_FAIL(TL_EINVAL,
                       "crops %s do not fit %" PRId64 " windows in each of %" PRId64 " images",
                       tl_tensor_spec(spec, crops), w[1], w[0]);
    TL_TRY(check_level(a, a->first, a->rows, a->columns));
    call->out[0]->dtype = crops->dtype;
    call->out[0]->shape = TL_SHAPE(d[0], a->rows, a->columns, d[4]);
    return TL_OK;
}

static void crop_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                          const bool *wanted)
{
    for (int i = 2; i < n->inputs; i++) {
        tl_crop_attr attr = *(const tl_crop_attr *)n->attr;
        attr.first += i - 2;
        attr.rows = n->in[i]->shape.dims[1];
        attr.columns = n->in[i]->shape.dims[2];
        if (wanted[i]) gx[i] = TL_APPLY(c, crop_windows_grad, &attr, n->in[0], n->in[1], gy[0]);
    }
}

static void crop_grad_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                               const bool *wanted)
{
    tl_crop_attr attr = *(const tl_crop_attr *)n->attr;
    attr.rows = attr.columns = 0;
    if (wanted[2]) gx[2] = TL_APPLY(c, crop_windows, &attr, n->in[0], n->in[1], gy[0]);
}

const tl_op_class tl_op_crop_windows = {
    .op = TL_OP_crop_windows,
    .name = "crop_windows",
    .help = "what maps show in windows",
    .attr = &crop_desc,
    .inputs_min = 3,
    .inputs_max = -1,
    .outputs = 1,
    .by = 2,
    .infer = crop_infer,
    .gradient = crop_gradient,
};

const tl_op_class tl_op_crop_windows_grad = {
    .op = TL_OP_crop_windows_grad,
    .name = "crop_windows_grad",
    .help = "crops shared out where they came from",
    .attr = &crop_desc,
    .inputs_min = 3,
    .inputs_max = 3,
    .outputs = 1,
    .by = 2,
    .infer = crop_grad_infer,
    .gradient = crop_grad_gradient,
};

tl_tensor *tl_crop_with(tl_ctx *c, tl_tensor *windows, tl_tensor *const *maps, int count,
                        const tl_crop_args *args)
{
    tl_tensor *in[MOST_LEVELS + 3];
    if (count < 1 || count > MOST_LEVELS) {
        (void)TL_FAIL(TL_EINVAL, "%d maps; there must be 1 to %d", count, MOST_LEVELS);
        return tli_fail(c, "crop");
    }
    if (!tli_there(c, windows, "crop")) return NULL;
    for (int i = 0; i < count; i++)
        if (!tli_there(c, in[2 + i] = maps[i], "crop")) return NULL;
    const tl_shape *s = &windows->shape;
    in[0] = tl_cast(c, windows, TL_F32);
    in[1] = args->levels;
    if (!in[1] && s->rank == 3) in[1] = tl_zeros(c, TL_I32, TL_SHAPE(s->dims[0], s->dims[1]));
    if (!in[1]) return tli_there(c, in[1], "crop") ? in[1] : NULL;
    in[1] = tl_cast(c, in[1], TL_I32);
    tl_crop_attr attr = {.size = args->size, .offset = args->offset.set ? args->offset.value : 0.5};
    if (maps[0]->shape.rank == 4) { // what else it may be is told by the rule
        attr.height = maps[0]->shape.dims[1];
        attr.width = maps[0]->shape.dims[2];
    }
    return tl_apply(c, TL_OP_crop_windows, &attr, count + 2, in);
}

/* --- boxes ------------------------------------------------------------------------------------ */

// Which of `count` levels boxes of these sides belong to: one more for each side that is reached.
static tl_tensor *level_of(tl_ctx *c, tl_tensor *side, int64_t first, int count)
{
    enum { SIDE = 224, LEVEL = 4 }; /* a box of this side belongs to this level */
    tl_tensor *level = NULL;
    for (int i = 1; i < count && !tl_ctx_failed(c); i++) {
        tl_tensor *least = tl_number(c, TL_F32, ldexp(SIDE, (int)first + i - LEVEL));
        tl_tensor *reached = tl_cast(c, tl_greater_equal(c, side, least), TL_I32);
        level = level ? tl_add(c, level, reached) : reached;
    }
    return level || tl_ctx_failed(c) ? level : tl_zeros(c, TL_I32, side->shape);
}

tl_tensor *tl_crop_levels_with(tl_ctx *c, tl_tensor *boxes, tl_tensor *const *maps, int count,
                               const tl_crop_levels_args *args)
{
    char spec[TL_TENSOR_TEXT];
    double strides[MOST_LEVELS];
    if (!tli_there(c, boxes, "crop_levels")) return NULL;
    if (boxes->shape.rank != 3 || boxes->shape.dims[2] != 4 || count < 1 || count > MOST_LEVELS
        || args->first_level < 0 || args->first_level > MOST_LEVELS) {
        (void)TL_FAIL(TL_EINVAL,
                      "boxes %s on %d maps from level %" PRId64
                      " on; boxes must be [batch, n, 4], maps and levels at most %d",
                      tl_tensor_spec(spec, boxes), count, args->first_level, MOST_LEVELS);
        return tli_fail(c, "crop_levels");
    }
    tl_tensor *parts[2];
    boxes = tl_cast(c, boxes, TL_F32);
    tl_split_even(c, boxes, -1, 2, parts);
    tl_tensor *sizes = tl_sub(c, parts[1], parts[0]);
    tl_tensor *side = tl_sqrt(c, tl_mul(c, tl_take(c, sizes, -1, 0), tl_take(c, sizes, -1, 1)));
    tl_tensor *level = tl_ctx_failed(c) ? NULL : level_of(c, side, args->first_level, count);
    for (int i = 0; i < count; i++) strides[i] = ldexp(1, (int)args->first_level + i);
    tl_tensor *table = tl_from_doubles(c, TL_F32, TL_SHAPE(count), strides);
    tl_tensor *stride = tl_expand_dims(c, tl_gather(c, table, level, 0), -1);
    tl_tensor *windows = tl_concat(c, (tl_tensor *[]){parts[0], sizes}, 2, -1);
    return tl_crop(c, tl_div(c, windows, stride), maps, count, .levels = level, .size = args->size,
                   .offset = args->offset);
}

tl_tensor *tl_crop_masks(tl_ctx *c, tl_tensor *masks, tl_tensor *boxes, tl_tensor *others,
                         int64_t size, double offset)
{
    enum { RING = 2 }; /* of nothing around a mask */
    char spec[TL_TENSOR_TEXT];
    tl_tensor *b[2], *o[2];
    if (!tli_there(c, masks, "crop_masks") || !tli_there(c, boxes, "crop_masks")
        || !tli_there(c, others, "crop_masks"))
        return NULL;
    const int64_t *d = masks->shape.dims, side = d[3];
    if (masks->shape.rank != 4 || d[2] != side) {
        (void)TL_FAIL(TL_EINVAL, "masks are %s and must be [batch, n, side, side]",
                      tl_tensor_spec(spec, masks));
        return tli_fail(c, "crop_masks");
    }
    tl_split_even(c, tl_cast(c, boxes, TL_F32), -1, 2, b);
    tl_split_even(c, tl_cast(c, others, TL_F32), -1, 2, o);
    tl_tensor *own = tl_shift(c, tl_sub(c, b[1], b[0]), 1e-8);
    tl_tensor *from = tl_div(c, tl_scale(c, tl_sub(c, o[0], b[0]), (double)side), own);
    tl_tensor *extent = tl_div(c, tl_scale(c, tl_sub(c, o[1], o[0]), (double)side), own);
    tl_tensor *windows = tl_concat(c, (tl_tensor *[]){tl_shift(c, from, RING), extent}, 2, -1);
    // Each mask is a map of its own, with one window.
    tl_tensor *maps = tl_pad(c, tl_cast(c, masks, TL_F32), .before = {0, 0, RING, RING},
                             .after = {0, 0, RING, RING});
    maps = tl_reshape(c, maps, TL_SHAPE(d[0] * d[1], side + 2 * RING, side + 2 * RING, 1));
    windows = tl_reshape(c, windows, TL_SHAPE(d[0] * d[1], 1, 4));
    tl_tensor *crops = tl_crop(c, windows, &maps, 1, .size = size, .offset = TL_SET(offset));
    return tl_reshape(c, crops, TL_SHAPE(d[0], d[1], size, size));
}
