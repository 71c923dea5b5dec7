/* Functions of one input. */
#include "ops/elementwise.h"

#define NUMBER(name, help)                                                                         \
    TLI_UNARY(name, help, .infer = tli_infer_number, .gradient = name##_gradient)
#define FLOAT(name, help)                                                                          \
    TLI_UNARY(name, help, .infer = tli_infer_float, .gradient = name##_gradient)

static const double two_by_sqrt_pi = 1.12837916709551257390;

TLI_GRADIENT(neg, tl_neg(c, g))
TLI_GRADIENT(abs, tl_mul(c, g, tl_sign(c, x)))
TLI_GRADIENT(square, tl_mul(c, g, tl_scale(c, x, 2)))
NUMBER(neg, "-x")
NUMBER(abs, "x without its sign")
NUMBER(square, "x * x")
TLI_UNARY(sign, "-1, 0 or 1", .flags = TL_OP_CONSTANT, .infer = tli_infer_number)

TLI_GRADIENT(sqrt, tl_div(c, tl_scale(c, g, 0.5), y))
TLI_GRADIENT(rsqrt, tl_mul(c, tl_scale(c, g, -0.5), tl_mul(c, y, tl_square(c, y))))
TLI_GRADIENT(reciprocal, tl_mul(c, tl_neg(c, g), tl_square(c, y)))
FLOAT(sqrt, "the square root of x")
FLOAT(rsqrt, "1 / sqrt(x)")
FLOAT(reciprocal, "1 / x")

TLI_GRADIENT(exp, tl_mul(c, g, y))
TLI_GRADIENT(expm1, tl_mul(c, g, tl_shift(c, y, 1)))
TLI_GRADIENT(log, tl_div(c, g, x))
TLI_GRADIENT(log1p, tl_div(c, g, tl_shift(c, x, 1)))
FLOAT(exp, "e to the power x")
FLOAT(expm1, "exp(x) - 1")
FLOAT(log, "the natural logarithm of x")
FLOAT(log1p, "log(1 + x)")

TLI_GRADIENT(erf, tl_mul(c, g, tl_scale(c, tl_exp(c, tl_neg(c, tl_square(c, x))), two_by_sqrt_pi)))
TLI_GRADIENT(sin, tl_mul(c, g, tl_cos(c, x)))
TLI_GRADIENT(cos, tl_mul(c, tl_neg(c, g), tl_sin(c, x)))
FLOAT(erf, "the error function")
FLOAT(sin, "the sine of x")
FLOAT(cos, "the cosine of x")

#define ROUNDING(name, help)                                                                       \
    TLI_UNARY(name, help, .flags = TL_OP_CONSTANT, .infer = tli_infer_float)
ROUNDING(floor, "rounded down")
ROUNDING(ceil, "rounded up")
ROUNDING(round, "the nearest whole number, the even one at ties")
