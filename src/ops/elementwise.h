/* What the files of elementwise ops share. Thread word: immutable. */
#ifndef TLI_OPS_ELEMENTWISE_H
#define TLI_OPS_ELEMENTWISE_H

#include <tilth/ops/elementwise.h>

#include "ops/ops.h"

/* Shape rules. The result is like the only input, which must be of a floating-point type, or a
 * number type. */
tl_status tli_infer_float(const tl_node *call);
tl_status tli_infer_number(const tl_node *call);
/* Two inputs that broadcast, of number types; of floating-point types. */
tl_status tli_infer_arithmetic(const tl_node *call);
tl_status tli_infer_quotient(const tl_node *call);
/* Like one input or several that broadcast, but bool: of any type, of floats, of bool. */
tl_status tli_infer_mask(const tl_node *call);
tl_status tli_infer_float_test(const tl_node *call);
tl_status tli_infer_logical(const tl_node *call);
/* A gradient and what it is taken at. */
tl_status tli_infer_slope(const tl_node *call);
tl_status tli_infer_affine(const tl_node *call);
tl_status tli_infer_clip(const tl_node *call);
tl_status tli_infer_where(const tl_node *call);
tl_status tli_infer_cast(const tl_node *call);

/* Attributes. */
extern const tl_desc tli_affine_desc, tli_clip_desc, tli_cast_desc, tli_alpha_desc, tli_gelu_desc;

/* Gradients of ops with several inputs. */
#define TLI_GRADIENT(name)                                                                         \
    void name(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx, const bool *wanted)
TLI_GRADIENT(tli_add_gradient);
TLI_GRADIENT(tli_sub_gradient);
TLI_GRADIENT(tli_mul_gradient);
TLI_GRADIENT(tli_div_gradient);
TLI_GRADIENT(tli_pow_gradient);
TLI_GRADIENT(tli_minimum_gradient);
TLI_GRADIENT(tli_maximum_gradient);
TLI_GRADIENT(tli_mod_gradient);
TLI_GRADIENT(tli_where_gradient);

/* What gradients of rows are made of. `g` where the mask is true, 0 elsewhere. */
tl_tensor *tli_masked(tl_ctx *c, tl_tensor *mask, tl_tensor *g);
/* x compared with one number, or two: x < number and so on. */
tl_tensor *tli_below(tl_ctx *c, tl_tensor *x, double number);
tl_tensor *tli_above(tl_ctx *c, tl_tensor *x, double number);
tl_tensor *tli_between(tl_ctx *c, tl_tensor *x, double low, double high);
/* First and second derivatives at x. */
tl_tensor *tli_mish_slope(tl_ctx *c, tl_tensor *x);
tl_tensor *tli_gelu_second(tl_ctx *c, tl_tensor *x, bool approximate);
tl_tensor *tli_silu_second(tl_ctx *c, tl_tensor *x);
/* g times the slope. */
tl_tensor *tli_hard_swish_slope(tl_ctx *c, tl_tensor *g, tl_tensor *x);
/* From the result. */
tl_tensor *tli_relu6_slope(tl_ctx *c, tl_tensor *g, tl_tensor *y);

#endif
