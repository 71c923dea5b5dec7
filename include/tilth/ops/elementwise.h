/* Ops on each element: arithmetic, functions, comparison, casts. Activations are in activation.h.
 *
 *     tl_tensor *d = tl_sub(c, x, mean);                            // shapes broadcast
 *     tl_tensor *y = tl_where(c, tl_greater(c, d, limit), limit, tl_scale(c, d, 0.5));
 *
 * Two inputs meet as in NumPy: shapes broadcast, and the narrower type is cast to the wider one
 * (tl_dtype_meet). Numbers that are part of the op (tl_scale, tl_clip) leave the type alone.
 *
 * Precision: bfloat16 and float16 are computed in float32 and rounded once. Integers wrap around at
 * the ends of their type. bool is no number: arithmetic on it alone is refused, but it meets
 * numbers as 0 and 1.
 * Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_ELEMENTWISE_H
#define TILTH_OPS_ELEMENTWISE_H

#include <tilth/sys/ops/apply.h>

TL_BEGIN

/* --- arithmetic --------------------------------------------------------------------------------- */

TL_API tl_tensor *tl_add(tl_ctx *c, tl_tensor *a, tl_tensor *b);
TL_API tl_tensor *tl_sub(tl_ctx *c, tl_tensor *a, tl_tensor *b);
TL_API tl_tensor *tl_mul(tl_ctx *c, tl_tensor *a, tl_tensor *b);
/* Floats only; for integers there is tl_floor_divide. */
TL_API tl_tensor *tl_div(tl_ctx *c, tl_tensor *a, tl_tensor *b);
/* a to the power b. The gradient by b is 0 where a is not positive. Integers to a negative power
 * are cut towards zero: 0, unless a is 1 or -1. */
TL_API tl_tensor *tl_pow(tl_ctx *c, tl_tensor *a, tl_tensor *b);
/* NaN when either is; at ties each gets half of the gradient. */
TL_API tl_tensor *tl_minimum(tl_ctx *c, tl_tensor *a, tl_tensor *b);
TL_API tl_tensor *tl_maximum(tl_ctx *c, tl_tensor *a, tl_tensor *b);
/* The quotient rounded down, and what it leaves: as Python's // and %, so that the rest has the
 * sign of the divisor. An integer divided by 0 gives 0, and leaves 0; floats give what IEEE 754
 * says. The quotient has no gradient, the rest has. */
TL_API tl_tensor *tl_floor_divide(tl_ctx *c, tl_tensor *a, tl_tensor *b);
TL_API tl_tensor *tl_mod(tl_ctx *c, tl_tensor *a, tl_tensor *b);

/* x * scale + shift. Integers want whole numbers. */
TL_API tl_tensor *tl_affine(tl_ctx *c, tl_tensor *x, double scale, double shift);
TL_API tl_tensor *tl_scale(tl_ctx *c, tl_tensor *x, double scale);
TL_API tl_tensor *tl_shift(tl_ctx *c, tl_tensor *x, double shift);
/* x, but at least `low` and at most `high`; an infinity leaves a side open. NaN stays. The gradient
 * passes between the bounds and on them. Integers want whole numbers. */
TL_API tl_tensor *tl_clip(tl_ctx *c, tl_tensor *x, double low, double high);

/* --- functions ---------------------------------------------------------------------------------- */

TL_API tl_tensor *tl_neg(tl_ctx *c, tl_tensor *x);
/* Its gradient at 0 is 0. */
TL_API tl_tensor *tl_abs(tl_ctx *c, tl_tensor *x);
/* -1, 0 or 1; NaN stays. No gradient. */
TL_API tl_tensor *tl_sign(tl_ctx *c, tl_tensor *x);
TL_API tl_tensor *tl_square(tl_ctx *c, tl_tensor *x);

/* Floats only from here on. */
TL_API tl_tensor *tl_sqrt(tl_ctx *c, tl_tensor *x);
TL_API tl_tensor *tl_rsqrt(tl_ctx *c, tl_tensor *x);      /* 1 / sqrt(x) */
TL_API tl_tensor *tl_reciprocal(tl_ctx *c, tl_tensor *x); /* 1 / x */
TL_API tl_tensor *tl_exp(tl_ctx *c, tl_tensor *x);
TL_API tl_tensor *tl_expm1(tl_ctx *c, tl_tensor *x); /* exp(x) - 1, exact near 0 */
TL_API tl_tensor *tl_log(tl_ctx *c, tl_tensor *x);
TL_API tl_tensor *tl_log1p(tl_ctx *c, tl_tensor *x); /* log(1 + x), exact near 0 */
TL_API tl_tensor *tl_erf(tl_ctx *c, tl_tensor *x);
TL_API tl_tensor *tl_sin(tl_ctx *c, tl_tensor *x);
TL_API tl_tensor *tl_cos(tl_ctx *c, tl_tensor *x);
/* Whole numbers; tl_round goes to the even one at ties. No gradient. */
TL_API tl_tensor *tl_floor(tl_ctx *c, tl_tensor *x);
TL_API tl_tensor *tl_ceil(tl_ctx *c, tl_tensor *x);
TL_API tl_tensor *tl_round(tl_ctx *c, tl_tensor *x);

/* --- comparison: the result is bool ------------------------------------------------------------- */

/* A NaN is not equal to anything, and neither less nor greater. */
TL_API tl_tensor *tl_equal(tl_ctx *c, tl_tensor *a, tl_tensor *b);
TL_API tl_tensor *tl_not_equal(tl_ctx *c, tl_tensor *a, tl_tensor *b);
TL_API tl_tensor *tl_less(tl_ctx *c, tl_tensor *a, tl_tensor *b);
TL_API tl_tensor *tl_less_equal(tl_ctx *c, tl_tensor *a, tl_tensor *b);
TL_API tl_tensor *tl_greater(tl_ctx *c, tl_tensor *a, tl_tensor *b);
TL_API tl_tensor *tl_greater_equal(tl_ctx *c, tl_tensor *a, tl_tensor *b);
/* Floats only. */
TL_API tl_tensor *tl_isfinite(tl_ctx *c, tl_tensor *x);
TL_API tl_tensor *tl_isnan(tl_ctx *c, tl_tensor *x);

/* Numbers count as "not 0". */
TL_API tl_tensor *tl_logical_and(tl_ctx *c, tl_tensor *a, tl_tensor *b);
TL_API tl_tensor *tl_logical_or(tl_ctx *c, tl_tensor *a, tl_tensor *b);
TL_API tl_tensor *tl_logical_xor(tl_ctx *c, tl_tensor *a, tl_tensor *b);
TL_API tl_tensor *tl_logical_not(tl_ctx *c, tl_tensor *x);

/* a where the condition (bool) is true, b elsewhere. All three broadcast; a and b meet. What is not
 * chosen gets a gradient of exactly 0, even if it is infinite or NaN. */
TL_API tl_tensor *tl_where(tl_ctx *c, tl_tensor *condition, tl_tensor *a, tl_tensor *b);

/* --- types -------------------------------------------------------------------------------------- */

/* Floats to integers are cut towards zero and stop at the ends of the type, NaN gives 0. Integers
 * to narrower ones wrap around. Anything to bool is "not 0". Everything else is rounded once. The
 * tensor itself when it has the type already. */
TL_API tl_tensor *tl_cast(tl_ctx *c, tl_tensor *x, tl_dtype dtype);

TL_END

#endif
