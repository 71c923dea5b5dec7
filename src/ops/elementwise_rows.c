/* Classes of the elementwise ops and their functions, from the rows of core/elementwise.def. */
#include <tilth/ops/activation.h>
#include <tilth/sys/ops/apply.h>

#include "core/inner/attr_numbers.h"
#include "ops/elementwise.h"

/* --- gradients that a row says ---------------------------------------------------------------- */

// The numbers p and q that rows speak of.
#define NUMBERS_OF(n)                                                                              \
    double numbers[TLI_ATTR_NUMBERS];                                                              \
    tli_attr_numbers(numbers, (n)->op->attr, (n)->attr);                                           \
    const double p = numbers[0], q = numbers[1];                                                   \
    (void)p, (void)q

#define GRADIENT(name, expression)                                                                 \
    static void name##_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx, \
                                const bool *wanted)                                                \
    {                                                                                              \
        tl_tensor *g = gy[0], *x = n->in[0], *y = n->out[0];                                       \
        NUMBERS_OF(n);                                                                             \
        (void)c, (void)g, (void)x, (void)y, (void)wanted;                                          \
        gx[0] = (expression);                                                                      \
    }

// The op is linear in the gradient that it is given: by that it is the op itself.
#define SLOPE_GRADIENT(name, by_x)                                                                 \
    static void name##_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *in, tl_tensor **gx, \
                                const bool *wanted)                                                \
    {                                                                                              \
        tl_tensor *gg = in[0], *gy = n->in[0], *x = n->in[1];                                      \
        NUMBERS_OF(n);                                                                             \
        (void)gy;                                                                                  \
        if (wanted[0]) gx[0] = TL_APPLY(c, name, n->attr, gg, x);                                  \
        if (wanted[1]) gx[1] = (by_x);                                                             \
    }

/* --- classes ---------------------------------------------------------------------------------- */

#define CLASS(name_, help_, flags_, inputs, ...)                                                   \
    const tl_op_class tl_op_##name_ = {.op = TL_OP_##name_,                                        \
                                       .name = #name_,                                             \
                                       .help = (help_),                                            \
                                       .inputs_min = (inputs),                                     \
                                       .inputs_max = (inputs),                                     \
                                       .outputs = 1,                                               \
                                       .flags = TL_OP_ELEMENTWISE | (flags_),                      \
                                       __VA_ARGS__}

/* What it takes, by the kinds that its formulas have. */
#define INFER_F tli_infer_float
#define INFER_FD tli_infer_float
#define INFER_FDIL tli_infer_number
#define INFER_BINARY_FD tli_infer_quotient
#define INFER_BINARY_FIL tli_infer_arithmetic
#define INFER_BINARY_FDIL tli_infer_arithmetic
#define INFER_BINARY_IL tli_infer_arithmetic

#define ROW_UNARY(name, kinds, attr_, flags, help, gradient_)                                      \
    GRADIENT(name, gradient_)                                                                      \
    CLASS(name, help, flags, 1, .infer = INFER_##kinds,                                            \
          .gradient = (flags)&TL_OP_CONSTANT ? NULL : name##_gradient);                            \
    tl_tensor *tl_##name(tl_ctx *c, tl_tensor *x)                                                  \
    {                                                                                              \
        return TL_APPLY(c, name, NULL, x);                                                         \
    }
#define ROW_TEST(name, kinds, attr_, flags, help, gradient_)                                       \
    CLASS(name, help, TL_OP_TRUTH | (flags), 1, .infer = tli_infer_float_test);                    \
    tl_tensor *tl_##name(tl_ctx *c, tl_tensor *x)                                                  \
    {                                                                                              \
        return TL_APPLY(c, name, NULL, x);                                                         \
    }
#define ROW_BINARY(name, kinds, attr_, flags, help, gradient_)                                     \
    CLASS(name, help, flags, 2, .infer = INFER_BINARY_##kinds, .gradient = (gradient_));           \
    tl_tensor *tl_##name(tl_ctx *c, tl_tensor *a, tl_tensor *b)                                    \
    {                                                                                              \
        (void)tli_meet(c, &a, &b);                                                                 \
        return TL_APPLY(c, name, NULL, a, b);                                                      \
    }
#define ROW_COMPARE(name, kinds, attr_, flags, help, gradient_)                                    \
    CLASS(name, help, TL_OP_TRUTH | (flags), 2, .infer = tli_infer_mask);                          \
    tl_tensor *tl_##name(tl_ctx *c, tl_tensor *a, tl_tensor *b)                                    \
    {                                                                                              \
        (void)tli_meet(c, &a, &b);                                                                 \
        return TL_APPLY(c, name, NULL, a, b);                                                      \
    }
// Numbers are made bool first.
#define ROW_LOGIC(name, kinds, attr_, flags, help, gradient_)                                      \
    CLASS(name, help, TL_OP_TRUTH | (flags), 2, .infer = tli_infer_logical);                       \
    tl_tensor *tl_##name(tl_ctx *c, tl_tensor *a, tl_tensor *b)                                    \
    {                                                                                              \
        return TL_APPLY(c, name, NULL, tl_cast(c, a, TL_BOOL), tl_cast(c, b, TL_BOOL));            \
    }
#define ROW_NOT(name, kinds, attr_, flags, help, gradient_)                                        \
    CLASS(name, help, TL_OP_TRUTH | (flags), 1, .infer = tli_infer_logical);                       \
    tl_tensor *tl_##name(tl_ctx *c, tl_tensor *x)                                                  \
    {                                                                                              \
        return TL_APPLY(c, name, NULL, tl_cast(c, x, TL_BOOL));                                    \
    }
#define ROW_SLOPE(name, kinds, attr_, flags, help, gradient_)                                      \
    SLOPE_GRADIENT(name, gradient_)                                                                \
    CLASS(name, help, flags, 2, .infer = tli_infer_slope, .gradient = name##_gradient);            \
    tl_tensor *tl_##name(tl_ctx *c, tl_tensor *g, tl_tensor *x)                                    \
    {                                                                                              \
        return TL_APPLY(c, name, NULL, g, x);                                                      \
    }

/* Those with attributes: the functions are in the files of their families, and the descriptions. */
#define ROW_NUMBER(name, kinds, attr_, flags, help, gradient_)                                     \
    GRADIENT(name, gradient_)                                                                      \
    CLASS(name, help, flags, 1, .attr = &tli_##attr_##_desc, .infer = INFER_##kinds,               \
          .gradient = name##_gradient);
#define ROW_EITHER(name, kinds, attr_, flags, help, gradient_)                                     \
    ROW_NUMBER(name, kinds, attr_, flags, help, gradient_)
#define ROW_NUMBERS(name, kinds, attr_, flags, help, gradient_)                                    \
    GRADIENT(name, gradient_)                                                                      \
    CLASS(name, help, flags, 1, .attr = &tli_##attr_##_desc, .infer = tli_infer_##name,            \
          .gradient = name##_gradient);
#define ROW_CAST(name, kinds, attr_, flags, help, gradient_)                                       \
    ROW_NUMBERS(name, kinds, attr_, flags, help, gradient_)
#define ROW_SLOPE_EITHER(name, kinds, attr_, flags, help, gradient_)                               \
    SLOPE_GRADIENT(name, gradient_)                                                                \
    CLASS(name, help, flags, 2, .attr = &tli_##attr_##_desc, .infer = tli_infer_slope,             \
          .gradient = name##_gradient);
#define ROW_WHERE(name, kinds, attr_, flags, help, gradient_)                                      \
    CLASS(name, help, flags, 3, .by = 1, .infer = tli_infer_where, .gradient = (gradient_));

#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient)                \
    ROW_##form(op, kinds, attr, flags, help, gradient)
#include <tilth/core/elementwise.def>
