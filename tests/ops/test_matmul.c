#include "op_cases.h"

#include <tilth/ops/create.h>
#include <tilth/ops/matmul.h>
#include <tilth/ops/view.h>

OP_CALL(product, tl_matmul_with(c, in[0], in[1], k->p[0], k->p[1]))
OP_CALL(plain, tl_matmul(c, in[0], in[1]))
OP_CALL(square_of, tl_matmul(c, in[0], in[0]))
OP_CALL(linear, tl_linear(c, in[0], in[1], in[2], (tl_activation)k->p[0]))
OP_CALL(linear_bare, tl_linear(c, in[0], in[1], NULL, (tl_activation)k->p[0]))
OP_CALL(of_null, tl_matmul(c, NULL, in[0]))
OP_CALL(linear_of_null, tl_linear(c, in[0], NULL, NULL, TL_ACT_NONE))

// Through a broadcast batch, and through axes in another order.
OP_CALL(stretched, tl_matmul(c, tl_broadcast_to(c, in[0], TL_SHAPE(3, 2, 4)), in[1]))
OP_CALL(heads,
        tl_matmul_with(c, tl_transpose(c, in[0], (const int64_t[]){0, 2, 1, 3}, 4),
                       tl_transpose(c, in[1], (const int64_t[]){0, 2, 1, 3}, 4), false, true))
// Two layers: a gradient that passes through another product.
OP_CALL(layers, tl_linear(c, tl_linear(c, in[0], in[1], in[2], (tl_activation)k->p[0]), in[3], NULL,
                          (tl_activation)k->p[1]))

#define AB "a @ b"
#define TA "a.mT @ b"
#define TB "a @ b.mT"
#define TAB "a.mT @ b.mT"
#define XWB "a @ b + c"

// clang-format off
static const op_case cases[] = {
    /* --- matrices --- */
    {"square", {"3x3", "3x3"}, plain, .torch = AB},
    {"2x3 by 3x4", {"2x3", "3x4"}, plain, .torch = AB},
    {"one by one", {"1x1", "1x1"}, plain, .torch = AB},
    {"one row", {"1x7", "7x5"}, plain, .torch = AB},
    {"one column", {"7x5", "5x1"}, plain, .torch = AB},
    {"inner one", {"7x1", "1x5"}, plain, .torch = AB},
    {"row by column", {"1x13", "13x1"}, plain, .torch = AB},
    {"primes", {"7x11", "11x13"}, plain, .torch = AB},
    {"odd", {"17x19", "19x23"}, plain},
    {"tall", {"37x3", "3x2"}, plain, .torch = AB},
    {"wide", {"2x3", "3x41"}, plain, .torch = AB},
    {"deep", {"2x127", "127x3"}, plain, .torch = AB},
    {"larger than a tile", {"33x35", "35x34"}, plain},
    {"a multiple of tiles", {"32x16", "16x32"}, plain},
    {"deeper than a block", {"3x515", "515x2"}, plain},
    {"a matrix by itself", {"4x4"}, square_of, .torch = "a @ a"},
    {"transposed a", {"3x2", "3x4"}, product, .p = {1, 0}, .torch = TA},
    {"transposed b", {"2x3", "4x3"}, product, .p = {0, 1}, .torch = TB},
    {"both transposed", {"3x2", "4x3"}, product, .p = {1, 1}, .torch = TAB},
    {"transposed a, odd", {"11x7", "11x13"}, product, .p = {1, 0}, .torch = TA},
    {"transposed b, odd", {"7x11", "13x11"}, product, .p = {0, 1}, .torch = TB},
    {"both transposed, odd", {"11x7", "13x11"}, product, .p = {1, 1}, .torch = TAB},
    {"transposed a, one row", {"5x1", "5x9"}, product, .p = {1, 0}, .torch = TA},
    {"transposed b, one column", {"9x5", "1x5"}, product, .p = {0, 1}, .torch = TB},
    {"transposed a, large", {"35x33", "35x34"}, product, .p = {1, 0}},
    {"transposed b, large", {"33x35", "34x35"}, product, .p = {0, 1}},
    {"both transposed, large", {"35x33", "34x35"}, product, .p = {1, 1}},

    /* --- nothing --- */
    {"no rows", {"0x3", "3x4"}, plain, .torch = AB},
    {"no columns", {"2x3", "3x0"}, plain, .torch = AB},
    {"no depth", {"2x0", "0x4"}, plain, .torch = AB},
    {"nothing at all", {"0x0", "0x0"}, plain, .torch = AB},
    {"no batch", {"0x2x3", "3x4"}, plain, .torch = AB},
    {"no batch on both", {"0x2x3", "0x3x4"}, plain, .torch = AB},
    {"no depth in a batch", {"2x3x0", "0x4"}, plain, .torch = AB},
    {"no columns in a batch", {"2x2x3", "3x0"}, plain, .torch = AB},
    {"no rows, transposed", {"3x0", "4x3"}, product, .p = {1, 1}, .torch = TAB},

    /* --- vectors --- */
    {"dot", {"5", "5"}, plain, .torch = AB},
    {"dot of one", {"1", "1"}, plain, .torch = AB},
    {"dot of none", {"0", "0"}, plain, .torch = AB},
    {"long dot", {"131", "131"}, plain, .torch = AB},
    {"vector by matrix", {"3", "3x4"}, plain, .torch = AB},
    {"matrix by vector", {"2x3", "3"}, plain, .torch = AB},
    {"vector by batch", {"3", "2x3x4"}, plain, .torch = AB},
    {"batch by vector", {"5x2x3", "3"}, plain, .torch = AB},
    {"vector by transposed", {"3", "4x3"}, product, .p = {0, 1}, .torch = TB},
    {"transposed by vector", {"3x2", "3"}, product, .p = {1, 0}, .torch = TA},
    {"a vector has nothing to transpose", {"3", "3x4"}, product, .p = {1, 0}, .torch = AB},
    {"nor has the second one", {"2x3", "3"}, product, .p = {0, 1}, .torch = AB},
    {"strided vector", {"5:S", "5x3"}, plain, .torch = AB},
    {"by a strided vector", {"3x5", "5:S"}, plain, .torch = AB},
    {"repeated vector", {"5:B", "5x3"}, plain, .torch = AB},

    /* --- batches --- */
    {"batch", {"2x3x4", "2x4x5"}, plain, .torch = AB},
    {"batch by matrix", {"3x2x4", "4x5"}, plain, .torch = AB},
    {"matrix by batch", {"2x4", "3x4x5"}, plain, .torch = AB},
    {"batch of one by batch", {"1x2x4", "3x4x5"}, plain, .torch = AB},
    {"batch by batch of one", {"3x2x4", "1x4x5"}, plain, .torch = AB},
    {"batches cross", {"3x1x2x4", "5x4x2"}, plain, .torch = AB},
    {"batches cross twice", {"2x1x3x2x2", "1x2x1x2x3"}, plain, .torch = AB},
    {"leading ones", {"2x3", "1x1x3x2"}, plain, .torch = AB},
    {"four dims", {"2x3x2x4", "2x3x4x2"}, plain, .torch = AB},
    {"eight dims", {"1x2x1x2x1x2x2x3", "2x1x2x1x2x1x3x2"}, plain, .torch = AB},
    {"eight dims by a matrix", {"1x2x1x2x1x2x2x3", "3x2"}, plain, .torch = AB},
    {"batch, transposed a", {"2x4x3", "2x4x5"}, product, .p = {1, 0}, .torch = TA},
    {"batch, transposed b", {"2x3x4", "2x5x4"}, product, .p = {0, 1}, .torch = TB},
    {"batch, both transposed", {"2x4x3", "2x5x4"}, product, .p = {1, 1}, .torch = TAB},
    {"transposed batch by matrix", {"3x4x2", "4x5"}, product, .p = {1, 0}, .torch = TA},
    {"batch by transposed matrix", {"3x2x4", "5x4"}, product, .p = {0, 1}, .torch = TB},
    {"transposed batch by transposed matrix", {"3x4x2", "5x4"}, product, .p = {1, 1}, .torch = TAB},
    {"matrix by transposed batch", {"2x4", "3x5x4"}, product, .p = {0, 1}, .torch = TB},
    {"transposed matrix by batch", {"4x2", "3x4x5"}, product, .p = {1, 0}, .torch = TA},
    {"crossing, transposed", {"3x1x4x2", "5x2x4"}, product, .p = {1, 1}, .torch = TAB},
    {"many small ones", {"11x2x2", "11x2x2"}, plain, .torch = AB},
    {"batch of rows", {"5x1x7", "5x7x3"}, plain, .torch = AB},

    /* --- views --- */
    {"a in another order", {"5x7:T", "7x3"}, plain, .torch = AB},
    {"b in another order", {"5x7", "7x3:T"}, plain, .torch = AB},
    {"both in another order", {"5x7:T", "7x3:T"}, plain, .torch = AB},
    {"a with gaps", {"5x7:S", "7x3"}, plain, .torch = AB},
    {"b with gaps", {"5x7", "7x3:S"}, plain, .torch = AB},
    {"both with gaps", {"5x7:S", "7x3:S"}, plain, .torch = AB},
    {"a with one row many times", {"5x7:B", "7x3"}, plain, .torch = AB},
    {"b with one row many times", {"5x7", "7x3:B"}, plain, .torch = AB},
    {"view, transposed a", {"7x5:T", "7x3"}, product, .p = {1, 0}, .torch = TA},
    {"view, transposed b", {"5x7", "3x7:T"}, product, .p = {0, 1}, .torch = TB},
    {"gaps, both transposed", {"7x5:S", "3x7:S"}, product, .p = {1, 1}, .torch = TAB},
    {"batch in another order", {"2x3x4:T", "2x4x5"}, plain, .torch = AB},
    {"batch by one in another order", {"2x3x4", "2x4x5:T"}, plain, .torch = AB},
    {"batch with gaps by a matrix", {"3x2x4:S", "4x5"}, plain, .torch = AB},
    {"batch in another order by a matrix", {"3x2x4:T", "4x5"}, plain, .torch = AB},
    {"a batch of one matrix", {"3x2x4:B", "4x5"}, plain, .torch = AB},
    {"a batch of one weight", {"3x2x4", "3x4x5:B"}, plain, .torch = AB},
    {"stretched", {"1x2x4", "4x3"}, stretched, .torch = "a.expand(3, 2, 4) @ b"},
    {"heads", {"2x3x2x4", "2x5x2x4"}, heads,
     .torch = "a.permute(0, 2, 1, 3) @ b.permute(0, 2, 3, 1)"},
    {"large view", {"33x35:T", "35x34:S"}, plain},
    {"a from an odd element on", {"5x7:O", "7x3"}, plain},
    {"b from an odd element on", {"8x16", "16x24:O"}, plain},
    {"both from an odd element on", {"16x24:O", "24x8:O"}, plain},
    {"from an odd element on, both transposed", {"24x16:O", "8x24:O"}, product, .p = {1, 1}},
    {"batch from an odd element on", {"3x8x16:O", "3x16x8:O"}, plain},
    {"from an odd element on, larger than a tile", {"64x40:O", "40x48:O"}, plain},
    {"from an odd element on, deep", {"8x2056:O", "2056x8:O"}, plain},

    /* --- one side without a gradient, types, values --- */
    {"constant a", {"3x4:const", "4x5"}, plain, .torch = AB},
    {"constant b", {"3x4", "4x5:const"}, plain, .torch = AB},
    {"types meet", {"3x4:f32", "4x5:f64"}, plain, .flags = CASE_F32_UP},
    {"bfloat16 meets float32", {"3x4:bf16", "4x5:f32"}, plain, .flags = CASE_NO_F64},
    {"bfloat16 meets float16", {"3x4:bf16", "4x5:f16"}, plain, .flags = CASE_NO_F64},
    {"positive", {"5x31:positive", "31x5:positive"}, plain, .torch = AB},

    /* --- linear --- */
    {"linear", {"5x3", "3x4", "4"}, linear, .p = {TL_ACT_NONE}, .torch = XWB},
    {"linear without bias", {"5x3", "3x4"}, linear_bare, .torch = AB},
    {"linear relu", {"5x3", "3x4", "4"}, linear, .p = {TL_ACT_RELU}, .torch = "F.relu(a @ b + c)"},
    {"linear relu6", {"5x7:in(-4,4)", "7x4:in(-4,4)", "4"}, linear, .p = {TL_ACT_RELU6},
     .torch = "F.relu6(a @ b + c)"},
    {"linear gelu", {"5x3", "3x4", "4"}, linear, .p = {TL_ACT_GELU}, .torch = "F.gelu(a @ b + c)"},
    {"linear gelu_tanh", {"5x3", "3x4", "4"}, linear, .p = {TL_ACT_GELU_TANH},
     .torch = "F.gelu(a @ b + c, approximate='tanh')"},
    {"linear silu", {"5x3", "3x4", "4"}, linear, .p = {TL_ACT_SILU}, .torch = "F.silu(a @ b + c)"},
    {"linear tanh", {"5x3", "3x4", "4"}, linear, .p = {TL_ACT_TANH},
     .torch = "torch.tanh(a @ b + c)"},
    {"linear sigmoid", {"5x3", "3x4", "4"}, linear, .p = {TL_ACT_SIGMOID}, .scale = 4,
     .torch = "torch.sigmoid(a @ b + c)"},
    {"bare relu", {"5x3", "3x4"}, linear_bare, .p = {TL_ACT_RELU}, .torch = "F.relu(a @ b)"},
    {"bare gelu", {"5x3", "3x4"}, linear_bare, .p = {TL_ACT_GELU}, .torch = "F.gelu(a @ b)"},
    // Compiled, its slope is rounded as well (graph/slopes.c).
    {"bare gelu_tanh", {"5x3", "3x4"}, linear_bare, .p = {TL_ACT_GELU_TANH}, .scale = 2},
    {"bare silu", {"5x3", "3x4"}, linear_bare, .p = {TL_ACT_SILU}, .torch = "F.silu(a @ b)"},
    {"bare tanh", {"5x3", "3x4"}, linear_bare, .p = {TL_ACT_TANH}, .torch = "torch.tanh(a @ b)"},
    {"bare sigmoid", {"5x3", "3x4"}, linear_bare, .p = {TL_ACT_SIGMOID}},
    {"linear of a vector", {"3", "3x4", "4"}, linear, .p = {TL_ACT_GELU},
     .torch = "F.gelu(a @ b + c)"},
    {"linear of a batch", {"2x5x3", "3x4", "4"}, linear, .p = {TL_ACT_GELU},
     .torch = "F.gelu(a @ b + c)"},
    {"linear of a deep batch", {"2x1x3x2x3", "3x2", "2"}, linear, .p = {TL_ACT_SILU},
     .torch = "F.silu(a @ b + c)"},
    {"linear of eight dims", {"1x2x1x2x1x2x2x3", "3x2", "2"}, linear, .p = {TL_ACT_TANH},
     .scale = 4,
     .torch = "torch.tanh(a @ b + c)"},
    {"linear odd", {"13x17", "17x19", "19"}, linear, .p = {TL_ACT_RELU},
     .torch = "F.relu(a @ b + c)"},
    {"linear larger than a tile", {"33x35", "35x37", "37"}, linear, .p = {TL_ACT_GELU}},
    {"linear to one", {"7x5", "5x1", "1"}, linear, .p = {TL_ACT_SIGMOID}, .scale = 4,
     .torch = "torch.sigmoid(a @ b + c)"},
    {"linear from one", {"7x1", "1x5", "5"}, linear, .p = {TL_ACT_RELU},
     .torch = "F.relu(a @ b + c)"},
    {"linear, no rows", {"0x3", "3x4", "4"}, linear, .p = {TL_ACT_GELU},
     .torch = "F.gelu(a @ b + c)"},
    {"linear, no features", {"2x0", "0x4", "4"}, linear, .p = {TL_ACT_GELU},
     .torch = "F.gelu(a @ b + c)"},
    {"linear, no units", {"2x3", "3x0", "0"}, linear, .p = {TL_ACT_SILU},
     .torch = "F.silu(a @ b + c)"},
    {"linear from an odd element on", {"8x16:O", "16x24:O", "24:O"}, linear, .p = {TL_ACT_RELU}},
    {"linear gelu_tanh from an odd element on", {"8x16:O", "16x24:O", "24:O"}, linear,
     .p = {TL_ACT_GELU_TANH}},
    {"linear of a view", {"5x3:T", "3x4", "4"}, linear, .p = {TL_ACT_GELU},
     .torch = "F.gelu(a @ b + c)"},
    {"linear with weights in another order", {"5x3", "3x4:T", "4"}, linear, .p = {TL_ACT_SILU},
     .torch = "F.silu(a @ b + c)"},
    {"linear with gaps", {"5x3:S", "3x4:S", "4:S"}, linear, .p = {TL_ACT_TANH},
     .torch = "torch.tanh(a @ b + c)"},
    {"linear of one row", {"5x3:B", "3x4", "4"}, linear, .p = {TL_ACT_RELU},
     .torch = "F.relu(a @ b + c)"},
    {"linear, one bias", {"5x3", "3x4", "4:B"}, linear, .p = {TL_ACT_GELU},
     .torch = "F.gelu(a @ b + c)"},
    {"linear of a batch in another order", {"2x5x3:T", "3x4", "4"}, linear, .p = {TL_ACT_NONE},
     .torch = XWB},
    {"linear, constant input", {"5x3:const", "3x4", "4"}, linear, .p = {TL_ACT_GELU},
     .torch = "F.gelu(a @ b + c)"},
    {"linear, constant weights", {"5x3", "3x4:const", "4"}, linear, .p = {TL_ACT_SILU},
     .torch = "F.silu(a @ b + c)"},
    {"linear, only the bias learns", {"5x3:const", "3x4:const", "4"}, linear, .p = {TL_ACT_TANH},
     .torch = "torch.tanh(a @ b + c)"},
    {"linear, a float32 bias", {"5x3", "3x4", "4:f32"}, linear, .p = {TL_ACT_RELU}},
    {"linear with large sums", {"3x5:in(-30,30)", "5x4:in(-3,3)", "4"}, linear, .p = {TL_ACT_SILU},
     .torch = "F.silu(a @ b + c)"},
    {"gelu with large sums", {"3x5:in(-9,9)", "5x4:in(-2,2)", "4"}, linear, .p = {TL_ACT_GELU},
     .torch = "F.gelu(a @ b + c)"},
    {"two layers", {"4x3", "3x5", "5", "5x2"}, layers, .p = {TL_ACT_GELU, TL_ACT_TANH}, .scale = 4,
     .torch = "torch.tanh(F.gelu(a @ b + c) @ d)"},
    {"two layers, kinks", {"4x3", "3x5", "5", "5x2"}, layers, .p = {TL_ACT_RELU, TL_ACT_SIGMOID},
     .torch = "torch.sigmoid(F.relu(a @ b + c) @ d)"},

    /* --- refused --- */
    {"inner dims differ", {"2x3", "4x5"}, plain,
     .fails = "the first has 3 columns and the second 4 rows"},
    {"inner dims differ, transposed", {"2x3", "3x5"}, product, .p = {1, 0},
     .fails = "[2, 3] (transposed) times"},
    {"batches differ", {"2x3x4", "3x4x5"}, plain, .fails = "do not broadcast"},
    {"a scalar", {"-", "3x4"}, plain, .fails = "must be a matrix"},
    {"by a scalar", {"2x3", "-"}, plain, .fails = "the second input is"},
    {"integers", {"2x3:int<5", "3x4:int<5"}, plain, .fails = "floating-point"},
    {"lengths differ", {"3", "4"}, plain, .fails = "3 columns and the second 4 rows"},
    {"NULL", {"3"}, of_null, .fails = "input 0 is NULL"},
    {"linear: weights do not fit", {"5x3", "4x3", "3"}, linear,
     .fails = "its last dim and their first"},
    {"linear: weights of three dims", {"5x3", "1x3x4", "4"}, linear,
     .fails = "the weight matrix is"},
    {"linear: bias does not fit", {"5x3", "3x4", "3"}, linear, .fails = "the bias is"},
    {"linear: bias is a matrix", {"5x3", "3x4", "1x4"}, linear,
     .fails = "one number for each column"},
    {"linear: a scalar", {"-", "3x4", "4"}, linear, .fails = "its last dim and their first"},
    {"linear: integers", {"5x3:int<4", "3x4:int<4"}, linear_bare, .fails = "floating-point"},
    {"linear: no such activation", {"5x3", "3x4", "4"}, linear, .p = {99},
     .fails = "99 is no activation"},
    {"linear: NULL", {"5x3"}, linear_of_null, .fails = "input 1 is NULL"},
};
// clang-format on

int main(int argc, char **argv)
{
    return op_cases_main(argc, argv, "matmul", cases, TL_COUNT(cases));
}
