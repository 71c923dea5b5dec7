#include "ops/axes.h"

#include <tilth/ops/elementwise.h>

static const tl_field axis_fields[] = {
    TL_F(tl_axis_attr, axis, .help = "along which it happens"),
    TL_F_END,
};
const tl_desc tli_axis_desc = {
    .name = "axis",
    .help = "an axis",
    .size = sizeof(tl_axis_attr),
    .fields = axis_fields,
};

tl_tensor *tli_fail(tl_ctx *c, const char *name)
{
    (void)tl_error_note(tl_error_code(), "%s", name);
    return tl_ctx_fail(c);
}

bool tli_there(tl_ctx *c, const tl_tensor *x, const char *name)
{
    if (tl_ctx_failed(c)) return false;
    if (x) return true;
    (void)TL_FAIL(TL_EINVAL, "%s: an input is NULL", name);
    tl_ctx_fail(c);
    return false;
}

bool tli_axis(tl_ctx *c, int *out, const tl_tensor *x, int64_t axis, const char *name)
{
    if (!tli_there(c, x, name)) return false;
    if (tl_axis_check(out, axis, x->shape.rank, name) == TL_OK) return true;
    tl_ctx_fail(c);
    return false;
}

tl_status tli_axes_straighten(int64_t out[TL_MAX_RANK], int64_t *count, const tl_shape *shape,
                              tl_ints axes)
{
    bool named[TL_MAX_RANK] = {false};
    for (int i = 0; i < shape->rank && !axes.items; i++) named[i] = true;
    for (int64_t i = 0; i < axes.count; i++) {
        int axis;
        TL_TRY(tl_axis_check(&axis, axes.items[i], shape->rank, "axes"));
        if (named[axis]) return TL_FAIL(TL_EINVAL, "axes: axis %d is named twice", axis);
        named[axis] = true;
    }
    *count = 0;
    for (int i = 0; i < shape->rank; i++)
        if (named[i]) out[(*count)++] = i;
    return TL_OK;
}

tl_tensor *tli_widen(tl_ctx *c, tl_tensor *x)
{
    bool narrow = x && (x->dtype == TL_BF16 || x->dtype == TL_F16);
    return narrow ? tl_cast(c, x, TL_F32) : x;
}
