#include "ops/matmul.h"

#include <inttypes.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/view.h>
#include <tilth/sys/ops/apply.h>

#include "ops/elementwise.h"
#include "ops/ops.h"

const char *const tl_activation_names[] = {
    "none",
#define TL_ACTIVATION(id, name, keras, call) name,
#include <tilth/core/elementwise.def>
    NULL,
};

static const tl_field linear_fields[] = {
    TL_F(tl_linear_attr, activation, .names = tl_activation_names, .help = "what follows the sum"),
    TL_F(tl_linear_attr, keep_sum, .help = "output 1 is what the activation was given"),
    TL_F(tl_linear_attr, keep_slope, .help = "output 1 is the slope of the activation there"),
    TL_F_END,
};
static const tl_desc linear_desc = {
    .name = "linear",
    .help = "attributes of linear",
    .size = sizeof(tl_linear_attr),
    .fields = linear_fields,
};

/* --- shapes ----------------------------------------------------------------------------------- */

static tl_status want_bias(const tl_tensor *bias, const tl_tensor *w)
{
    char left[TL_TENSOR_TEXT], right[TL_TENSOR_TEXT];
    if (bias->dtype == w->dtype && bias->shape.rank == 1 && bias->shape.dims[0] == w->shape.dims[1])
        return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "the bias is %s and must be %s[%" PRId64 "], one number for each column "
                   "of the weights, %s",
                   tl_tensor_spec(left, bias), tl_dtype_name(w->dtype), w->shape.dims[1],
                   tl_tensor_spec(right, w));
}

static tl_status linear_infer(const tl_node *call)
{
    const tl_linear_attr *attr = call->attr;
    const tl_tensor *x = call->in[0], *w = call->in[1];
    tl_tensor *y = call->out[0], *sum = call->out[1];
    char left[TL_TENSOR_TEXT], right[TL_TENSOR_TEXT];
    int last = x->shape.rank - 1;
    TL_TRY(tli_want_float(x, "the input"));
    TL_TRY(tli_want_rank(w, 2, "the weight matrix"));
    if (last < 0 || x->shape.dims[last] != w->shape.dims[0] || x->dtype != w->dtype)
        return TL_FAIL(TL_EINVAL,
                       "the input is %s and the weights are %s; its last dim and their first "
                       "must agree, and so must the types",
                       tl_tensor_spec(left, x), tl_tensor_spec(right, w));
    if (call->inputs > 2) TL_TRY(want_bias(call->in[2], w));
    if (attr->activation < 0 || attr->activation >= TL_ACT_FUSED_COUNT)
        return TL_FAIL(TL_EINVAL, "%d is no activation", (int)attr->activation);
    if (attr->keep_slope && (attr->keep_sum || attr->activation != TL_ACT_GELU_TANH))
        return TL_FAIL(TL_EINVAL, "only gelu_tanh keeps its slope, and then not its sum as well");
    y->dtype = sum->dtype = x->dtype;
    y->shape = x->shape;
    y->shape.dims[last] = w->shape.dims[1];
    sum->shape = attr->keep_sum || attr->keep_slope ? y->shape : TL_SHAPE(0);
    if (call->inputs <= 3) return TL_OK;
    if (call->in[3]->dtype == y->dtype && tl_shape_equal(&call->in[3]->shape, &y->shape)
        && attr->activation == TL_ACT_NONE)
        return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "what is added is %s and must be like the result, %s, without an "
                   "activation",
                   tl_tensor_spec(left, call->in[3]), tl_tensor_spec(right, y));
}

static double linear_flops(const tl_node *call)
{
    return 2 * (double)call->in[1]->shape.dims[0] * (double)tl_tensor_count(call->out[0]);
}

/* --- gradient --------------------------------------------------------------------------------- */

// The others' slopes follow from their results.
static bool needs_sum(tl_activation activation)
{
    return activation == TL_ACT_GELU || activation == TL_ACT_GELU_TANH || activation == TL_ACT_SILU;
}

// The gradient of what the activation was given.
static tl_tensor *behind_activation(tl_ctx *c, const tl_node *n, tl_tensor *g)
{
    tl_tensor *y = n->out[0], *sum = n->out[1];
    switch (((const tl_linear_attr *)n->attr)->activation) {
    case TL_ACT_RELU: return tl_relu_grad(c, g, y);
    case TL_ACT_RELU6: return tli_relu6_slope(c, g, y);
    case TL_ACT_GELU: return tl_gelu_grad(c, g, sum, false);
    case TL_ACT_GELU_TANH: return tl_gelu_grad(c, g, sum, true);
    case TL_ACT_SILU: return tl_silu_grad(c, g, sum);
    case TL_ACT_TANH: return tl_tanh_grad(c, g, y);
    case TL_ACT_SIGMOID: return tl_sigmoid_grad(c, g, y);
    default: return g;
    }
}

static void linear_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                            const bool *wanted)
{
    const tl_linear_attr *attr = n->attr;
    tl_tensor *x = n->in[0], *w = n->in[1];
    if (attr->keep_slope) {
        (void)TL_FAIL(TL_EUNSUPPORTED, "a linear that keeps its slope is part of a gradient, and "
                                       "has none of its own; keep the sum");
        (void)tl_ctx_fail(c);
        return;
    }
    tl_tensor *g = gy[0] ? behind_activation(c, n, gy[0]) : NULL;
    // A second derivative also comes through the sum that was kept.
    if (gy[1] && attr->keep_sum) g = g ? tl_add(c, g, gy[1]) : gy[1];
    if (!g) return;
    if (wanted[0]) gx[0] = tl_matmul_with(c, g, w, false, true);
    if (wanted[1]) gx[1] = tl_matmul_with(c, tli_flat_rows(c, x), tli_flat_rows(c, g), true, false);
    if (n->inputs > 2 && wanted[2]) gx[2] = tl_sum_to(c, g, &n->in[2]->shape);
}

const tl_op_class tl_op_linear = {
    .op = TL_OP_linear,
    .name = "linear",
    // Compiled programs give another one, which is added, where a kernel says TL_KERNEL_JOINED.
    .help = "activation(x w + bias)",
    .attr = &linear_desc,
    .inputs_min = 2,
    .inputs_max = 4,
    .outputs = 2,
    .infer = linear_infer,
    .gradient = linear_gradient,
    .flops = linear_flops,
};

/* --- from outside ----------------------------------------------------------------------------- */

// While capturing, whether a gradient will be asked for is not known yet.
static bool may_be_differentiated(const tl_ctx *c, tl_tensor *const *in, int inputs)
{
    if (tl_ctx_capturing(c) || !tl_ctx_taping(c)) return tl_ctx_capturing(c);
    for (int i = 0; i < inputs; i++)
        if (in[i]->tracked) return true;
    return false;
}

tl_tensor *tl_linear(tl_ctx *c, tl_tensor *x, tl_tensor *w, tl_tensor *bias,
                     tl_activation activation)
{
    if (!x || !w || tl_ctx_failed(c)) return TL_APPLY(c, linear, NULL, x, w);
    if (!tli_meet(c, &x, &w) || (bias && !(bias = tl_cast(c, bias, w->dtype)))) return NULL;
    tl_tensor *in[] = {x, w, bias};
    int inputs = bias ? 3 : 2;
    bool apart = activation >= TL_ACT_FUSED_COUNT && activation < TL_ACT_COUNT;
    tl_linear_attr attr = {.activation = apart ? TL_ACT_NONE : activation};
    attr.keep_sum = needs_sum(activation) && may_be_differentiated(c, in, inputs);
    tl_tensor *y = tl_apply(c, TL_OP_linear, &attr, inputs, in);
    return apart ? tl_activate(c, y, activation) : y;
}

tl_tensor *tl_activate(tl_ctx *c, tl_tensor *x, tl_activation activation)
{
    switch (activation) {
    case TL_ACT_NONE:
        return x;
// clang-format off
#define TL_ACTIVATION(id, name, keras, call)                                                       \
    case TL_ACT_##id: return call;
// clang-format on
#include <tilth/core/elementwise.def>
    case TL_ACT_COUNT: break;
    }
    if (tl_ctx_failed(c)) return NULL;
    (void)TL_FAIL(TL_EINVAL, "%d is no activation", (int)activation);
    return tl_ctx_fail(c);
}
