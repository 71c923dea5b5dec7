/* table: activations and their gradients. runs: fake device */
#include "op_cases.h"

#include <tilth/ops/activation.h>
#include <tilth/ops/elementwise.h>

OP_CALL(hyperbolic_tangent, tl_tanh(c, in[0]))
OP_CALL(sigmoid, tl_sigmoid(c, in[0]))
OP_CALL(softplus, tl_softplus(c, in[0]))
OP_CALL(relu, tl_relu(c, in[0]))
OP_CALL(relu6, tl_relu6(c, in[0]))
OP_CALL(leaky_relu, tl_leaky_relu(c, in[0], k->q[0]))
OP_CALL(elu, tl_elu(c, in[0], k->q[0]))
OP_CALL(gelu, tl_gelu(c, in[0], false))
OP_CALL(gelu_tanh, tl_gelu(c, in[0], true))
OP_CALL(silu, tl_silu(c, in[0]))
OP_CALL(mish, tl_mish(c, in[0]))
OP_CALL(hard_sigmoid, tl_hard_sigmoid(c, in[0]))
OP_CALL(hard_swish, tl_hard_swish(c, in[0]))
OP_CALL(tanh_grad, tl_tanh_grad(c, in[0], in[1]))
OP_CALL(sigmoid_grad, tl_sigmoid_grad(c, in[0], in[1]))
OP_CALL(relu_grad, tl_relu_grad(c, in[0], in[1]))
OP_CALL(gelu_grad, tl_gelu_grad(c, in[0], in[1], false))
OP_CALL(gelu_tanh_grad, tl_gelu_grad(c, in[0], in[1], true))
OP_CALL(silu_grad, tl_silu_grad(c, in[0], in[1]))
/* One after the other, so that gradients of gradients meet. */
OP_CALL(chain, tl_gelu(c, tl_silu(c, tl_tanh(c, tl_mul(c, in[0], in[1]))), k->p[0]))
OP_CALL(null_input, tl_relu(c, NULL))
OP_CALL(null_gelu, tl_gelu(c, NULL, false))
OP_CALL(null_grad, tl_silu_grad(c, in[0], NULL))

enum { CONST = CASE_NO_GRADIENT, KINK = CASE_NO_DIFFERENCES };

#define SPECIAL "8:=0 -0 inf -inf nan 1 -1 2"
#define FINITE "6:=0 -0 nan 1 -1 20"
/* PyTorch's gradient of a function of b, times a. */
#define SLOPE(f) "torch.autograd.grad(" f ", b, a, create_graph=True)[0]"
#define WIDE "10:=-30 -12 -6 -2.5 -0.25 0.25 2.5 6 12 30"

// clang-format off
static const op_case cases[] = {
    {"tanh", {"3x4"}, hyperbolic_tangent, .torch = "a.tanh()"},
    {"tanh view", {"3x4:T"}, hyperbolic_tangent, .torch = "a.tanh()"},
    {"tanh wide", {WIDE}, hyperbolic_tangent, .torch = "a.tanh()", .scale = 2},
    {"tanh special", {SPECIAL}, hyperbolic_tangent, .flags = KINK, .torch = "a.tanh()"},
    {"tanh many", {"13x37:S"}, hyperbolic_tangent, .torch = "a.tanh()"},
    {"tanh nothing", {"0x3"}, hyperbolic_tangent},
    {"tanh ints", {"3:i32"}, hyperbolic_tangent,
     .fails = "tanh: the input is int32[3] and must be of a floating"},
    {"sigmoid", {"3x4"}, sigmoid, .torch = "a.sigmoid()"},
    {"sigmoid view", {"3x4:S"}, sigmoid, .torch = "a.sigmoid()"},
    {"sigmoid wide", {WIDE}, sigmoid, .torch = "a.sigmoid()"},
    {"sigmoid special", {SPECIAL}, sigmoid, .flags = KINK, .torch = "a.sigmoid()"},
    {"sigmoid far", {"4:=-88 -100 100 -1000"}, sigmoid, .flags = CONST | CASE_F32_UP | CASE_NO_F64},
    {"sigmoid scalar", {"-"}, sigmoid},
    {"sigmoid nothing", {"0"}, sigmoid},
    {"softplus", {"3x4"}, softplus, .torch = "F.softplus(a)"},
    {"softplus view", {"3x4:B"}, softplus, .torch = "F.softplus(a)"},
    {"softplus wide", {WIDE}, softplus, .torch = "F.softplus(a, threshold=100)"},
    {"softplus special", {SPECIAL}, softplus, .flags = KINK, .torch = "F.softplus(a)"},
    {"softplus nothing", {"0"}, softplus},

    {"relu", {"3x4"}, relu, .torch = "a.relu()"},
    {"relu view", {"3x4:T"}, relu, .torch = "a.relu()"},
    {"relu at zero", {"4:=0 -0 1 -1"}, relu, .flags = KINK, .torch = "a.relu()"},
    {"relu special", {SPECIAL}, relu, .flags = CONST, .torch = "a.relu()"},
    {"relu many", {"1021"}, relu},
    {"relu nothing", {"0x2"}, relu},
    {"relu ints", {"3:i32"}, relu, .fails = "relu: the input is int32[3]"},
    {"relu null", {"3"}, null_input, .fails = "relu: input 0 is NULL"},
    {"relu6", {"3x4"}, relu6, .torch = "F.relu6(a)"},
    {"relu6 wide", {"8:=-7 -1 0.5 3 5.5 6.5 7 100"}, relu6, .torch = "F.relu6(a)"},
    {"relu6 at bounds", {"4:=0 6 1 7"}, relu6, .flags = KINK, .torch = "F.relu6(a)"},
    {"relu6 special", {SPECIAL}, relu6, .flags = CONST, .torch = "F.relu6(a)"},
    {"relu6 view", {"3x4:S"}, relu6, .torch = "F.relu6(a)"},
    {"leaky_relu", {"3x4"}, leaky_relu, .q = {0.2}, .torch = "F.leaky_relu(a, q[0])"},
    {"leaky_relu view", {"3x4:T"}, leaky_relu, .q = {0.3}, .torch = "F.leaky_relu(a, q[0])"},
    {"leaky_relu at zero", {"3:=0 1 -1"}, leaky_relu, .q = {0.1}, .flags = KINK,
     .torch = "F.leaky_relu(a, q[0])"},
    {"leaky_relu steep", {"5"}, leaky_relu, .q = {2}},
    {"leaky_relu special", {SPECIAL}, leaky_relu, .q = {0.2}, .flags = CONST,
     .torch = "F.leaky_relu(a, q[0])"},
    {"leaky_relu nothing", {"0"}, leaky_relu, .q = {0.2}},
    {"leaky_relu bool", {"3:bool"}, leaky_relu, .q = {0.2},
     .fails = "leaky_relu: the input is bool[3]"},
    {"elu", {"3x4"}, elu, .q = {1}, .torch = "F.elu(a, q[0])"},
    {"elu view", {"3x4:S"}, elu, .q = {0.5}, .torch = "F.elu(a, q[0])"},
    {"elu wide", {WIDE}, elu, .q = {1.5}, .torch = "F.elu(a, q[0])"},
    {"elu at zero", {"3:=0 1 -1"}, elu, .q = {2}, .flags = KINK, .torch = "F.elu(a, q[0])"},
    {"elu special", {SPECIAL}, elu, .q = {1}, .flags = CONST, .torch = "F.elu(a, q[0])"},
    {"elu nothing", {"0"}, elu, .q = {1}},

    {"gelu", {"3x4"}, gelu, .torch = "F.gelu(a)"},
    {"gelu view", {"3x4:T"}, gelu, .torch = "F.gelu(a)"},
    {"gelu wide", {WIDE}, gelu, .torch = "F.gelu(a)"},
    {"gelu special", {FINITE}, gelu, .flags = KINK, .torch = "F.gelu(a)"},
    {"gelu far", {"6:=inf -inf 1e4 -1e4 50 -50"}, gelu, .flags = KINK, .torch = "a.relu()"},
    {"gelu many", {"11x43:S"}, gelu, .torch = "F.gelu(a)"},
    {"gelu nothing", {"0x3"}, gelu},
    {"gelu ints", {"3:i64"}, gelu, .fails = "gelu: the input is int64[3]"},
    {"gelu null", {"3"}, null_gelu, .fails = "gelu: input 0 is NULL"},
    {"gelu_tanh", {"3x4"}, gelu_tanh, .torch = "F.gelu(a, approximate='tanh')"},
    {"gelu_tanh view", {"3x4:B"}, gelu_tanh, .torch = "F.gelu(a, approximate='tanh')"},
    {"gelu_tanh wide", {WIDE}, gelu_tanh, .torch = "F.gelu(a, approximate='tanh')"},
    {"gelu_tanh special", {FINITE}, gelu_tanh, .flags = KINK,
     .torch = "F.gelu(a, approximate='tanh')"},
    {"gelu_tanh far", {"6:=inf -inf 1e4 -1e4 50 -50"}, gelu_tanh, .flags = KINK,
     .torch = "a.relu()"},
    {"gelu_tanh nothing", {"0"}, gelu_tanh},

    {"silu", {"3x4"}, silu, .torch = "F.silu(a)"},
    {"silu view", {"3x4:S"}, silu, .torch = "F.silu(a)"},
    {"silu wide", {WIDE}, silu, .torch = "F.silu(a)"},
    {"silu special", {FINITE}, silu, .flags = KINK, .torch = "F.silu(a)"},
    {"silu far", {"6:=inf -inf 1e4 -1e4 100 -100"}, silu, .flags = KINK, .torch = "a.relu()"},
    {"silu nothing", {"0"}, silu},
    {"mish", {"3x4"}, mish, .torch = "F.mish(a)"},
    {"mish view", {"3x4:T"}, mish, .torch = "F.mish(a)"},
    {"mish wide", {WIDE}, mish, .torch = "F.mish(a)"},
    {"mish special", {FINITE}, mish, .flags = KINK, .torch = "F.mish(a)"},
    {"mish far", {"6:=inf -inf 1e4 -1e4 100 -100"}, mish, .flags = KINK, .torch = "a.relu()"},
    {"mish nothing", {"0"}, mish},
    {"hard_sigmoid", {"3x4"}, hard_sigmoid, .torch = "F.relu6(a + 3) / 6"},
    {"hard_sigmoid wide", {"8:=-9 -3.5 -2.5 -1 1 2.5 3.5 9"}, hard_sigmoid,
     .torch = "F.relu6(a + 3) / 6"},
    {"hard_sigmoid view", {"3x4:S"}, hard_sigmoid},
    {"hard_sigmoid at bounds", {"3:=-3 3 0"}, hard_sigmoid, .flags = KINK,
     .torch = "F.relu6(a + 3) / 6"},
    {"hard_sigmoid special", {SPECIAL}, hard_sigmoid, .flags = CONST,
     .torch = "F.relu6(a + 3) / 6"},
    {"hard_sigmoid nothing", {"0"}, hard_sigmoid},
    {"hard_swish", {"3x4"}, hard_swish, .torch = "F.hardswish(a)"},
    {"hard_swish wide", {"8:=-9 -3.5 -2.5 -1 1 2.5 3.5 9"}, hard_swish, .torch = "F.hardswish(a)"},
    {"hard_swish view", {"3x4:T"}, hard_swish},
    {"hard_swish special", {FINITE}, hard_swish, .flags = KINK, .torch = "F.hardswish(a)"},
    {"hard_swish at bounds", {"3:=-3 3 0"}, hard_swish, .flags = KINK, .torch = "F.hardswish(a)"},
    {"hard_swish far", {"4:=inf -inf 1e4 -1e4"}, hard_swish, .flags = CONST, .torch = "a.relu()"},
    {"hard_swish nothing", {"0"}, hard_swish},

    {"tanh_grad", {"3x4", "3x4:unit"}, tanh_grad, .torch = "a * (1 - b * b)"},
    {"tanh_grad views", {"3x4:T", "3x4:S"}, tanh_grad, .torch = "a * (1 - b * b)"},
    {"tanh_grad shapes", {"3x4", "4"}, tanh_grad,
     .fails = "tanh_grad: the gradient is float32[3, 4] and the other input is float32[4]"},
    {"sigmoid_grad", {"3x4", "3x4:unit"}, sigmoid_grad, .torch = "a * b * (1 - b)"},
    {"sigmoid_grad views", {"3x4:B", "3x4:T"}, sigmoid_grad, .torch = "a * b * (1 - b)"},
    {"sigmoid_grad types", {"3:f32", "3:bf16"}, sigmoid_grad, .fails = "they must be alike"},
    {"relu_grad", {"3x4", "3x4:positive"}, relu_grad, .torch = "a * (b > 0)"},
    {"relu_grad views", {"3x4:S", "3x4:T"}, relu_grad, .torch = "a * (b > 0)"},
    {"relu_grad at zero", {"4", "4:=0 -0 1 -1"}, relu_grad, .flags = KINK, .torch = "a * (b > 0)"},
    {"relu_grad ints", {"3:i32", "3:i32"}, relu_grad,
     .fails = "relu_grad: the gradient is int32[3]"},
    {"gelu_grad", {"3x4", "3x4"}, gelu_grad,
     .torch = SLOPE("F.gelu(b)")},
    {"gelu_grad views", {"3x4:T", "3x4:B"}, gelu_grad},
    {"gelu_grad wide", {"10", WIDE}, gelu_grad,
     .torch = SLOPE("F.gelu(b)")},
    {"gelu_tanh_grad", {"3x4", "3x4"}, gelu_tanh_grad,
     .torch = SLOPE("F.gelu(b, approximate='tanh')")},
    {"gelu_tanh_grad views", {"3x4:S", "3x4:T"}, gelu_tanh_grad},
    {"gelu_tanh_grad wide", {"10", WIDE}, gelu_tanh_grad,
     .torch = SLOPE("F.gelu(b, approximate='tanh')")},
    {"silu_grad", {"3x4", "3x4"}, silu_grad,
     .torch = "a * b.sigmoid() * (1 + b * (1 - b.sigmoid()))"},
    {"silu_grad views", {"3x4:T", "3x4:S"}, silu_grad,
     .torch = "a * b.sigmoid() * (1 + b * (1 - b.sigmoid()))"},
    {"silu_grad wide", {"10", WIDE}, silu_grad,
     .torch = "a * b.sigmoid() * (1 + b * (1 - b.sigmoid()))"},
    {"gelu_grad far", {"6", "6:=inf -inf 1e4 -1e4 300 -300"}, gelu_grad, .flags = KINK,
     .torch = "a * (b > 0)"},
    {"gelu_tanh_grad far", {"6", "6:=inf -inf 1e4 -1e4 300 -300"}, gelu_tanh_grad, .flags = KINK,
     .torch = "a * (b > 0)"},
    {"silu_grad far", {"6", "6:=inf -inf 1e4 -1e4 300 -300"}, silu_grad, .flags = KINK,
     .torch = "a * (b > 0)"},
    {"silu_grad nothing", {"0x2", "0x2"}, silu_grad},
    {"silu_grad null", {"3"}, null_grad, .fails = "silu_grad: input 1 is NULL"},
    {"chain", {"2x3", "2x3"}, chain, .torch = "F.gelu(F.silu((a * b).tanh()))"},
    {"chain approximate", {"4x1", "3"}, chain, .p = {1},
     .torch = "F.gelu(F.silu((a * b).tanh()), approximate='tanh')"},
};
// clang-format on

int main(int argc, char **argv)
{
    return op_cases_main(argc, argv, "activation", cases, TL_COUNT(cases));
}
