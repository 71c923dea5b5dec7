/* Ops on each element: arithmetic, functions, comparison, casts. Activations with numbers are in
 * activation.h.
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

#include <tilth/core/ctx.h>

TL_BEGIN

/* --- one for each row of core/elementwise.def ------------------------------------------------- */

/* tl_exp(c, x), tl_isnan(c, x), tl_add(c, a, b), tl_less(c, a, b), tl_tanh_grad(c, g, x) and so on:
 * the rows say what there is, what it means, what it takes, and what happens at its edges. */
#define TL_DECLARE_UNARY(op) TL_API tl_tensor *tl_##op(tl_ctx *c, tl_tensor *x);
#define TL_DECLARE_BINARY(op) TL_API tl_tensor *tl_##op(tl_ctx *c, tl_tensor *a, tl_tensor *b);
#define TL_DECLARE_TEST(op) TL_DECLARE_UNARY(op)
#define TL_DECLARE_NOT(op) TL_DECLARE_UNARY(op)
#define TL_DECLARE_COMPARE(op) TL_DECLARE_BINARY(op)
#define TL_DECLARE_LOGIC(op) TL_DECLARE_BINARY(op)
#define TL_DECLARE_SLOPE(op) TL_API tl_tensor *tl_##op(tl_ctx *c, tl_tensor *gy, tl_tensor *x);
/* With attributes: below, and in activation.h. */
#define TL_DECLARE_NUMBER(op)
#define TL_DECLARE_NUMBERS(op)
#define TL_DECLARE_EITHER(op)
#define TL_DECLARE_SLOPE_EITHER(op)
#define TL_DECLARE_WHERE(op)
#define TL_DECLARE_CAST(op)
#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient)                \
    TL_DECLARE_##form(op)
#include <tilth/core/elementwise.def>
#undef TL_DECLARE_UNARY
#undef TL_DECLARE_BINARY
#undef TL_DECLARE_TEST
#undef TL_DECLARE_NOT
#undef TL_DECLARE_COMPARE
#undef TL_DECLARE_LOGIC
#undef TL_DECLARE_SLOPE
#undef TL_DECLARE_NUMBER
#undef TL_DECLARE_NUMBERS
#undef TL_DECLARE_EITHER
#undef TL_DECLARE_SLOPE_EITHER
#undef TL_DECLARE_WHERE
#undef TL_DECLARE_CAST

/* --- with numbers, and others ----------------------------------------------------------------- */

/* x * scale + shift. Integers want whole numbers. */
TL_API tl_tensor *tl_affine(tl_ctx *c, tl_tensor *x, double scale, double shift);
TL_API tl_tensor *tl_scale(tl_ctx *c, tl_tensor *x, double scale);
TL_API tl_tensor *tl_shift(tl_ctx *c, tl_tensor *x, double shift);
/* x, but at least `low` and at most `high`; an infinity leaves a side open. NaN stays. The gradient
 * passes between the bounds and on them. Integers want whole numbers. */
TL_API tl_tensor *tl_clip(tl_ctx *c, tl_tensor *x, double low, double high);

/* b < a, b <= a */
TL_API tl_tensor *tl_greater(tl_ctx *c, tl_tensor *a, tl_tensor *b);
TL_API tl_tensor *tl_greater_equal(tl_ctx *c, tl_tensor *a, tl_tensor *b);

/* a where the condition (bool) is true, b elsewhere. All three broadcast; a and b meet. What is not
 * chosen gets a gradient of exactly 0, even if it is infinite or NaN. */
TL_API tl_tensor *tl_where(tl_ctx *c, tl_tensor *condition, tl_tensor *a, tl_tensor *b);

/* --- types ------------------------------------------------------------------------------------ */

/* Floats to integers are cut towards zero and stop at the ends of the type, NaN gives 0. Integers
 * to narrower ones wrap around. Anything to bool is "not 0". Everything else is rounded once. The
 * tensor itself when it has the type already. */
TL_API tl_tensor *tl_cast(tl_ctx *c, tl_tensor *x, tl_dtype dtype);

TL_END

#endif
