#include "ops/elementwise.h"

#include <math.h>
#include <tilth/ops/create.h>
#include <tilth/sys/ops/apply.h>

tl_status tli_infer_float(const tl_node *call)
{
    TL_TRY(tli_want_float(call->in[0], "the input"));
    return tli_infer_same(call);
}

tl_status tli_infer_number(const tl_node *call)
{
    TL_TRY(tli_want_number(call->in[0], "the input"));
    return tli_infer_same(call);
}

tl_tensor *tli_masked(tl_ctx *c, tl_tensor *mask, tl_tensor *g)
{
    return g ? tl_where(c, mask, g, tl_zeros(c, g->dtype, TL_SCALAR)) : NULL;
}

tl_tensor *tli_below(tl_ctx *c, tl_tensor *x, double number)
{
    return tl_less(c, x, tl_full(c, x->dtype, TL_SCALAR, number));
}

tl_tensor *tli_above(tl_ctx *c, tl_tensor *x, double number)
{
    return tl_greater(c, x, tl_full(c, x->dtype, TL_SCALAR, number));
}

tl_tensor *tli_between(tl_ctx *c, tl_tensor *x, double low, double high)
{
    return tl_logical_and(c, tli_above(c, x, low), tli_below(c, x, high));
}

/* --- arithmetic of two inputs ----------------------------------------------------------------- */

tl_status tli_infer_arithmetic(const tl_node *call)
{
    TL_TRY(tli_want_number(call->in[0], "the first input"));
    TL_TRY(tli_want_number(call->in[1], "the second input"));
    return tli_infer_broadcast(call);
}

tl_status tli_infer_quotient(const tl_node *call)
{
    TL_TRY(tli_infer_arithmetic(call));
    if (tl_dtype_is_float(call->out[0]->dtype)) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "the inputs are of the type %s; cast one to a floating-point type, or "
                   "use tl_floor_divide",
                   tl_dtype_name(call->out[0]->dtype));
}

TLI_GRADIENT(tli_add_gradient)
{
    for (int i = 0; i < 2; i++)
        if (wanted[i]) gx[i] = tl_sum_to(c, gy[0], &n->in[i]->shape);
}

TLI_GRADIENT(tli_sub_gradient)
{
    if (wanted[0]) gx[0] = tl_sum_to(c, gy[0], &n->in[0]->shape);
    if (wanted[1]) gx[1] = tl_neg(c, tl_sum_to(c, gy[0], &n->in[1]->shape));
}

TLI_GRADIENT(tli_mul_gradient)
{
    for (int i = 0; i < 2; i++)
        if (wanted[i]) gx[i] = tl_sum_to(c, tl_mul(c, gy[0], n->in[1 - i]), &n->in[i]->shape);
}

TLI_GRADIENT(tli_div_gradient)
{
    tl_tensor *by_a = tl_div(c, gy[0], n->in[1]);
    if (wanted[0]) gx[0] = tl_sum_to(c, by_a, &n->in[0]->shape);
    if (wanted[1]) gx[1] = tl_neg(c, tl_sum_to(c, tl_mul(c, by_a, n->out[0]), &n->in[1]->shape));
}

// b * a^(b - 1). For 0^0 that would be 0 * infinity: there the exponent is taken to be 1, which
// gives the 0 that is right, for this derivative and the next ones.
static tl_tensor *pow_by_base(tl_ctx *c, tl_tensor *a, tl_tensor *b)
{
    tl_tensor *zero = tl_zeros(c, a->dtype, TL_SCALAR), *one = tl_ones(c, a->dtype, TL_SCALAR);
    tl_tensor *both = tl_logical_and(c, tl_equal(c, a, zero), tl_equal(c, b, zero));
    return tl_mul(c, b, tl_pow(c, a, tl_shift(c, tl_where(c, both, one, b), -1)));
}

// a^b * log(a), and 0 where a is not positive: with 1 in its place nothing there is infinite.
static tl_tensor *pow_by_exponent(tl_ctx *c, tl_tensor *a, tl_tensor *b)
{
    tl_tensor *positive = tl_where(c, tli_above(c, a, 0), a, tl_ones(c, a->dtype, TL_SCALAR));
    return tl_mul(c, tl_pow(c, positive, b), tl_log(c, positive));
}

TLI_GRADIENT(tli_pow_gradient)
{
    tl_tensor *a = n->in[0], *b = n->in[1];
    if (wanted[0]) gx[0] = tl_sum_to(c, tl_mul(c, gy[0], pow_by_base(c, a, b)), &a->shape);
    if (wanted[1]) gx[1] = tl_sum_to(c, tl_mul(c, gy[0], pow_by_exponent(c, a, b)), &b->shape);
}

// The one that is chosen gets all, at a tie each gets half: 1 - (loses + does not win) / 2.
static tl_tensor *chosen(tl_ctx *c, tl_tensor *g, tl_tensor *smaller, tl_tensor *larger)
{
    tl_tensor *less = tl_cast(c, tl_less(c, smaller, larger), g->dtype);
    tl_tensor *not_more = tl_cast(c, tl_less_equal(c, smaller, larger), g->dtype);
    return tl_mul(c, g, tl_affine(c, tl_add(c, less, not_more), -0.5, 1));
}

TLI_GRADIENT(tli_maximum_gradient)
{
    for (int i = 0; i < 2; i++)
        if (wanted[i])
            gx[i] = tl_sum_to(c, chosen(c, gy[0], n->in[i], n->in[1 - i]), &n->in[i]->shape);
}

TLI_GRADIENT(tli_minimum_gradient)
{
    for (int i = 0; i < 2; i++)
        if (wanted[i])
            gx[i] = tl_sum_to(c, chosen(c, gy[0], n->in[1 - i], n->in[i]), &n->in[i]->shape);
}

TLI_GRADIENT(tli_mod_gradient)
{
    tl_tensor *a = n->in[0], *b = n->in[1], *g = gy[0];
    if (wanted[0]) gx[0] = tl_sum_to(c, g, &a->shape);
    if (wanted[1])
        gx[1] = tl_neg(c, tl_sum_to(c, tl_mul(c, g, tl_floor_divide(c, a, b)), &b->shape));
}

/* --- arithmetic with numbers ------------------------------------------------------------------ */

static tl_status want_whole(const tl_tensor *x, double number, const char *what)
{
    if (tl_dtype_is_float(x->dtype) || (number == trunc(number) && fabs(number) < 0x1p63))
        return TL_OK;
    char spec[TL_TENSOR_TEXT];
    return TL_FAIL(
        TL_EINVAL,
        "%s is %g and must be a whole number for %s; or cast the input to a floating-point type",
        what, number, tl_tensor_spec(spec, x));
}

static const tl_field affine_fields[] = {
    TL_F(tl_affine_attr, scale, .help = "multiplies the input"),
    TL_F(tl_affine_attr, shift, .help = "is added then"),
    TL_F_END,
};
const tl_desc tli_affine_desc = {
    .name = "affine",
    .help = "attributes of affine",
    .size = sizeof(tl_affine_attr),
    .fields = affine_fields,
};

tl_status tli_infer_affine(const tl_node *call)
{
    const tl_affine_attr *a = call->attr;
    TL_TRY(tli_infer_number(call));
    TL_TRY(want_whole(call->in[0], a->scale, "the scale"));
    return want_whole(call->in[0], a->shift, "the shift");
}

tl_tensor *tl_affine(tl_ctx *c, tl_tensor *x, double scale, double shift)
{
    tl_affine_attr attr = {.scale = scale, .shift = shift};
    return TL_APPLY(c, affine, &attr, x);
}

tl_tensor *tl_scale(tl_ctx *c, tl_tensor *x, double scale)
{
    return tl_affine(c, x, scale, 0);
}

tl_tensor *tl_shift(tl_ctx *c, tl_tensor *x, double shift)
{
    return tl_affine(c, x, 1, shift);
}

static const tl_field clip_fields[] = {
    TL_F(tl_clip_attr, low, .help = "the least that comes out"),
    TL_F(tl_clip_attr, high, .help = "the most that comes out"),
    TL_F_END,
};
const tl_desc tli_clip_desc = {
    .name = "clip",
    .help = "attributes of clip",
    .size = sizeof(tl_clip_attr),
    .fields = clip_fields,
};

tl_status tli_infer_clip(const tl_node *call)
{
    const tl_clip_attr *a = call->attr;
    TL_TRY(tli_infer_number(call));
    if (!(a->low <= a->high))
        return TL_FAIL(TL_EINVAL, "low is %g and high is %g; low must not be above high", a->low,
                       a->high);
    if (!isinf(a->low)) TL_TRY(want_whole(call->in[0], a->low, "low"));
    return isinf(a->high) ? TL_OK : want_whole(call->in[0], a->high, "high");
}

tl_tensor *tl_clip(tl_ctx *c, tl_tensor *x, double low, double high)
{
    tl_clip_attr attr = {.low = low, .high = high};
    return TL_APPLY(c, clip, &attr, x);
}

/* --- choice ----------------------------------------------------------------------------------- */

tl_status tli_infer_where(const tl_node *call)
{
    const tl_tensor *condition = call->in[0], *a = call->in[1], *b = call->in[2];
    char spec[TL_TENSOR_TEXT];
    tl_shape both;
    if (condition->dtype != TL_BOOL)
        return TL_FAIL(TL_EINVAL, "the condition is %s and must be bool; compare it with something",
                       tl_tensor_spec(spec, condition));
    if (a->dtype != b->dtype)
        return TL_FAIL(TL_EINVAL, "%s and %s are of different types; cast one",
                       tl_dtype_name(a->dtype), tl_dtype_name(b->dtype));
    TL_TRY(tl_shape_broadcast(&both, &a->shape, &b->shape));
    call->out[0]->dtype = a->dtype;
    return tl_shape_broadcast(&call->out[0]->shape, &condition->shape, &both);
}

TLI_GRADIENT(tli_where_gradient)
{
    tl_tensor *condition = n->in[0], *g = gy[0];
    if (wanted[1]) gx[1] = tl_sum_to(c, tli_masked(c, condition, g), &n->in[1]->shape);
    if (wanted[2])
        gx[2] = tl_sum_to(c, tl_where(c, condition, tl_zeros(c, g->dtype, TL_SCALAR), g),
                          &n->in[2]->shape);
}

tl_tensor *tl_where(tl_ctx *c, tl_tensor *condition, tl_tensor *a, tl_tensor *b)
{
    (void)tli_meet(c, &a, &b);
    return TL_APPLY(c, where, NULL, condition, a, b);
}

/* --- casts ------------------------------------------------------------------------------------ */

static const tl_field cast_fields[] = {
    TL_F(tl_cast_attr, dtype, .names = tl_dtype_names, .help = "of the result"),
    TL_F_END,
};
const tl_desc tli_cast_desc = {
    .name = "cast",
    .help = "attributes of cast",
    .size = sizeof(tl_cast_attr),
    .fields = cast_fields,
};

tl_status tli_infer_cast(const tl_node *call)
{
    const tl_cast_attr *a = call->attr;
    TL_TRY(tli_infer_same(call));
    call->out[0]->dtype = a->dtype;
    return TL_OK;
}

tl_tensor *tl_cast(tl_ctx *c, tl_tensor *x, tl_dtype dtype)
{
    if (x && x->dtype == dtype) return x;
    tl_cast_attr attr = {.dtype = dtype};
    return TL_APPLY(c, cast, &attr, x);
}
