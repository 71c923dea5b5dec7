/* What elementwise ops mean, in doubles: the expressions of their rows (core/elementwise.def) as
 * functions ref_exp(x), ref_add(a, b), ref_elu(x, p, q), ref_tanh_grad(g, x, p, q).
 *
 * The reference backend computes these, and tests compare all other formulas with them.
 * Thread word: free-threaded. */
#ifndef TLI_CPU_REF_MEANING_H
#define TLI_CPU_REF_MEANING_H

#include <math.h>
#include <stdbool.h>

#include <tilth/core/attrs.h>

#define TLI_MEANING static inline __attribute__((unused)) double

/* --- what is longer than a row ---------------------------------------------------------------- */

TLI_MEANING rest_of(double a, double b)
{
    const double rest = fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* The quotient that fits the rest: a / b alone may round up to a whole number that is too large. */
TLI_MEANING whole_quotient(double a, double b)
{
    if (b == 0) return a / b;
    const double rest = fmod(a, b), whole = rint((a - rest) / b);
    return rest != 0 && (rest < 0) != (b < 0) ? whole - 1 : whole;
}

static inline bool far_out(double x)
{
    return fabs(x) > 1000;
}

/* (1 + tanh(u)) / 2 is sigmoid(2 u), which loses nothing on the left. */
TLI_MEANING gelu_tanh_share(double x)
{
    return 1 / (1 + exp(-2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

TLI_MEANING gelu_in_double(double x, bool approximate)
{
    if (x == -INFINITY) return 0;
    return approximate ? x * gelu_tanh_share(x) : 0.5 * x * erfc(-x * 0.70710678118654752440);
}

TLI_MEANING gelu_slope_in_double(double x, bool approximate)
{
    if (!approximate)
        return 0.5 * erfc(-x * 0.70710678118654752440)
               + x * 0.39894228040143267794 * exp(-0.5 * x * x);
    const double s = gelu_tanh_share(x);
    return s + x * s * (1 - s) * 2 * 0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);
}

/* --- rows ------------------------------------------------------------------------------------- */

#define TLI_MEANING_UNARY(op, meaning)                                                             \
    TLI_MEANING ref_##op(double x)                                                                 \
    {                                                                                              \
        return meaning;                                                                            \
    }
#define TLI_MEANING_BINARY(op, meaning)                                                            \
    TLI_MEANING ref_##op(double a, double b)                                                       \
    {                                                                                              \
        return meaning;                                                                            \
    }
#define TLI_MEANING_NUMBERS(op, meaning)                                                           \
    TLI_MEANING ref_##op(double x, double p, double q)                                             \
    {                                                                                              \
        (void)p, (void)q;                                                                          \
        return meaning;                                                                            \
    }
#define TLI_MEANING_SLOPE(op, meaning)                                                             \
    TLI_MEANING ref_##op(double g, double x, double p, double q)                                   \
    {                                                                                              \
        (void)p, (void)q;                                                                          \
        return meaning;                                                                            \
    }
#define TLI_MEANING_TEST(op, meaning) TLI_MEANING_UNARY(op, meaning)
#define TLI_MEANING_NOT(op, meaning) TLI_MEANING_UNARY(op, meaning)
#define TLI_MEANING_COMPARE(op, meaning) TLI_MEANING_BINARY(op, meaning)
#define TLI_MEANING_LOGIC(op, meaning) TLI_MEANING_BINARY(op, meaning)
#define TLI_MEANING_NUMBER(op, meaning) TLI_MEANING_NUMBERS(op, meaning)
#define TLI_MEANING_EITHER(op, meaning) TLI_MEANING_NUMBERS(op, meaning)
#define TLI_MEANING_SLOPE_EITHER(op, meaning) TLI_MEANING_SLOPE(op, meaning)
/* Loops of their own. */
#define TLI_MEANING_WHERE(op, meaning)
#define TLI_MEANING_CAST(op, meaning)
#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient)                \
    TLI_MEANING_##form(op, meaning)
#include <tilth/core/elementwise.def>

/* Called alike: two inputs and two numbers, of which it takes what it has. */
typedef double tli_meaning(double a, double b, double p, double q);

#define TLI_CALL_UNARY(op) ref_##op(a)
#define TLI_CALL_BINARY(op) ref_##op(a, b)
#define TLI_CALL_NUMBERS(op) ref_##op(a, p, q)
#define TLI_CALL_SLOPE(op) ref_##op(a, b, p, q)
#define TLI_CALL_TEST(op) TLI_CALL_UNARY(op)
#define TLI_CALL_NOT(op) TLI_CALL_UNARY(op)
#define TLI_CALL_COMPARE(op) TLI_CALL_BINARY(op)
#define TLI_CALL_LOGIC(op) TLI_CALL_BINARY(op)
#define TLI_CALL_NUMBER(op) TLI_CALL_NUMBERS(op)
#define TLI_CALL_EITHER(op) TLI_CALL_NUMBERS(op)
#define TLI_CALL_SLOPE_EITHER(op) TLI_CALL_SLOPE(op)
#define TLI_CALL_WHERE(op) a
#define TLI_CALL_CAST(op) a
#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient)                \
    TLI_MEANING meaning_of_##op(double a, double b, double p, double q)                            \
    {                                                                                              \
        (void)a, (void)b, (void)p, (void)q;                                                        \
        return TLI_CALL_##form(op);                                                                \
    }
#include <tilth/core/elementwise.def>

/* What follows a product in the same op means what it means in an op of its own. */
TLI_MEANING meaning_of_activation(tl_activation activation, double x)
{
    switch (activation) {
    case TL_ACT_RELU: return ref_relu(x);
    case TL_ACT_RELU6: return ref_relu6(x);
    case TL_ACT_GELU: return ref_gelu(x, false, 0);
    case TL_ACT_GELU_TANH: return ref_gelu(x, true, 0);
    case TL_ACT_SILU: return ref_silu(x);
    case TL_ACT_TANH: return ref_tanh(x);
    case TL_ACT_SIGMOID: return ref_sigmoid(x);
    default: return x;
    }
}

#endif
