/* The scale of the loss, which keeps the gradients of float16 away from 0: doubled after many
 * finite gradients in a row, halved when they are not finite. */
#include <float.h>
#include <math.h>

#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/update.h>

#include "nn/optimizer.h"

enum { INITIAL_SCALE = 32768, GROWTH_INTERVAL = 2000 };

static tl_status check(const tl_optimizer_args *args)
{
    if (!(args->loss_scale >= 0 && args->loss_scale <= FLT_MAX))
        return TL_FAIL(TL_EINVAL,
                       "loss_scale is %g; it must be a number above 0, or 0 for a dynamic one",
                       args->loss_scale);
    if (!(args->initial_scale >= 0 && args->initial_scale <= FLT_MAX))
        return TL_FAIL(TL_EINVAL, "initial_scale is %g; it must be a number above 0, or 0 for %d",
                       args->initial_scale, INITIAL_SCALE);
    if (args->growth_interval < 0)
        return TL_FAIL(TL_EINVAL, "growth_interval is %lld; it must be above 0, or 0 for %d",
                       (long long)args->growth_interval, GROWTH_INTERVAL);
    if (!args->scaled && args->loss_scale != 0)
        return TL_FAIL(TL_EINVAL, "loss_scale is %g, but `scaled` is not set", args->loss_scale);
    return TL_OK;
}

tl_status tli_loss_scale_new(tl_optimizer *o, const tl_optimizer_args *args)
{
    TL_TRY(check(args));
    if (!args->scaled) return TL_OK;
    double initial = args->initial_scale > 0 ? args->initial_scale : INITIAL_SCALE;
    o->dynamic = args->loss_scale == 0;
    o->growth_interval = args->growth_interval ? args->growth_interval : GROWTH_INTERVAL;
    TL_TRY(tli_optimizer_tensor(&o->scale, o, TL_F32, TL_SCALAR,
                                o->dynamic ? initial : args->loss_scale));
    return o->dynamic ? tli_optimizer_tensor(&o->good, o, TL_I64, TL_SCALAR, 0) : TL_OK;
}

tl_status tli_loss_scale_state(const tl_optimizer *o, tl_state *into)
{
    if (o->scale) TL_TRY(tl_state_put(into, "loss_scale/scale", o->scale));
    if (o->good) TL_TRY(tl_state_put(into, "loss_scale/good_steps", o->good));
    return TL_OK;
}

void tli_loss_scale_update(tl_optimizer *o, tl_ctx *c, tl_tensor *finite)
{
    if (!o->dynamic) return;
    tl_tensor *none = tl_zeros(c, TL_I64, TL_SCALAR);
    tl_tensor *good = tl_where(c, finite, tl_shift(c, o->good, 1), none);
    tl_tensor *limit = tl_full(c, TL_I64, TL_SCALAR, (double)o->growth_interval);
    tl_tensor *grows = tl_greater_equal(c, good, limit);
    tl_tensor *more = tl_clip(c, tl_scale(c, o->scale, 2), 1, FLT_MAX);
    tl_tensor *less = tl_clip(c, tl_scale(c, o->scale, 0.5), 1, FLT_MAX);
    tl_tensor *scale = tl_where(c, finite, tl_where(c, grows, more, o->scale), less);
    good = tl_where(c, grows, none, good);
    tl_assign(c, o->scale, scale);
    tl_assign(c, o->good, good);
}

tl_tensor *tl_optimizer_scaled_loss(tl_optimizer *o, tl_ctx *c, tl_tensor *loss)
{
    if (!o->scale || !loss) return loss;
    return tl_mul(c, loss, tl_cast(c, o->scale, loss->dtype));
}

double tl_optimizer_loss_scale(const tl_optimizer *o)
{
    double value = 1;
    return !o->scale || tl_tensor_item(o->scale, &value) == TL_OK ? value : NAN;
}

tl_tensor *tl_optimizer_lowers_scale(tl_optimizer *o, tl_ctx *c)
{
    return o->dynamic ? tl_greater(c, o->scale, tl_number(c, TL_F32, 1)) : NULL;
}

bool tl_optimizer_can_lower_scale(const tl_optimizer *o)
{
    return o->dynamic && tl_optimizer_loss_scale(o) > 1;
}
