/* table: functions of one input. */
#include "op_cases.h"

#include <tilth/ops/elementwise.h>

OP_CALL(neg, tl_neg(c, in[0]))
OP_CALL(absolute, tl_abs(c, in[0]))
OP_CALL(sign, tl_sign(c, in[0]))
OP_CALL(stopped, tl_stop_gradient(c, in[0]))
OP_CALL(square, tl_square(c, in[0]))
OP_CALL(root, tl_sqrt(c, in[0]))
OP_CALL(rsqrt, tl_rsqrt(c, in[0]))
OP_CALL(reciprocal, tl_reciprocal(c, in[0]))
OP_CALL(exponential, tl_exp(c, in[0]))
OP_CALL(exponential_m1, tl_expm1(c, in[0]))
OP_CALL(logarithm, tl_log(c, in[0]))
OP_CALL(logarithm_1p, tl_log1p(c, in[0]))
OP_CALL(error_function, tl_erf(c, in[0]))
OP_CALL(sine, tl_sin(c, in[0]))
OP_CALL(cosine, tl_cos(c, in[0]))
OP_CALL(round_down, tl_floor(c, in[0]))
OP_CALL(round_up, tl_ceil(c, in[0]))
OP_CALL(round_even, tl_round(c, in[0]))
OP_CALL(is_finite, tl_isfinite(c, in[0]))
OP_CALL(is_nan, tl_isnan(c, in[0]))
OP_CALL(null_input, tl_exp(c, NULL))

enum { CONST = CASE_NO_GRADIENT, EXACT = CASE_NO_GRADIENT | CASE_EXACT };

#define SPECIAL "8:=0 -0 inf -inf nan 1 -1 2"

// clang-format off
static const op_case cases[] = {
    /* neg, abs, sign, square: ints too */
    {"neg", {"3x4"}, neg, .torch = "-a"},
    {"neg view", {"3x4:T"}, neg, .torch = "-a"},
    {"neg special", {SPECIAL}, neg, .flags = EXACT, .torch = "-a"},
    {"neg int8 wraps", {"3:i8:=-128 127 0"}, neg, .flags = EXACT, .torch = "(-a).to(torch.int8)"},
    {"neg uint8 wraps", {"3:u8:=1 255 0"}, neg, .flags = EXACT, .torch = "(-a).to(torch.uint8)"},
    {"neg int64", {"2:i64:=-9223372036854775808 5"}, neg, .flags = EXACT, .torch = "-a"},
    {"neg nothing", {"0x3"}, neg},
    {"neg bool", {"3:bool"}, neg,
     .fails = "neg: the input is bool[3] and must be of a number type"},
    {"abs", {"3x4"}, absolute, .torch = "a.abs()"},
    {"abs view", {"3x4:S"}, absolute, .torch = "a.abs()"},
    {"abs at zero", {"3:=0 -1 2"}, absolute, .flags = CASE_NO_DIFFERENCES, .torch = "a.abs()"},
    {"abs special", {SPECIAL}, absolute, .flags = EXACT, .torch = "a.abs()"},
    {"abs int32", {"3x3:i32:T"}, absolute, .flags = EXACT, .torch = "a.abs()"},
    {"abs int64 least", {"2:i64:=-9223372036854775808 -7"}, absolute, .flags = EXACT,
     .torch = "a.abs()"},
    {"abs nothing", {"0"}, absolute},
    {"sign", {"3x4"}, sign, .flags = EXACT, .torch = "a.sign()"},
    {"sign view", {"3x4:B"}, sign, .flags = EXACT, .torch = "a.sign()"},
    {"sign special", {"5:=0 -0 inf -inf nan"}, sign, .flags = EXACT,
     .torch = "torch.tensor([0, -0.0, 1, -1, math.nan])"},
    {"sign ints", {"5:i32:=-7 0 9 1 -1"}, sign, .flags = EXACT, .torch = "a.sign()"},
    {"sign uint8", {"3:u8:=0 255 1"}, sign, .flags = EXACT, .torch = "a.sign()"},
    {"square", {"3x4"}, square, .torch = "a.square()"},
    {"square view", {"5x7:T"}, square, .torch = "a.square()"},
    {"square scalar", {"-"}, square},
    {"square zeros", {"3:=0 -0 2"}, square, .torch = "a.square()"},
    {"square ints", {"2x3:i32"}, square, .flags = EXACT, .torch = "a.square()"},
    {"square int16 wraps", {"2:i16:=200 -300"}, square, .flags = EXACT,
     .torch = "(a * a).to(torch.int16)"},
    {"square long", {"1019"}, square, .torch = "a.square()"},
    {"stop_gradient", {"3x4"}, stopped, .flags = EXACT, .torch = "a.detach()"},
    {"stop_gradient view", {"3x4:T"}, stopped, .flags = EXACT},
    {"stop_gradient special", {SPECIAL}, stopped, .flags = EXACT},
    {"stop_gradient long", {"1019"}, stopped, .flags = EXACT},
    {"stop_gradient ints", {"3:i32"}, stopped, .fails = "stop_gradient: the input is int32[3]"},
    {"square bool", {"2:bool"}, square, .fails = "square: the input is bool[2]"},

    /* roots */
    {"sqrt", {"3x4:positive"}, root, .torch = "a.sqrt()"},
    {"sqrt view", {"3x4:positive:S"}, root, .torch = "a.sqrt()"},
    {"sqrt special", {SPECIAL}, root, .flags = CONST, .torch = "a.sqrt()"},
    {"sqrt small", {"3:=1e-6 1e-4 1e4"}, root, .flags = CASE_NO_DIFFERENCES | CASE_F32_UP,
     .torch = "a.sqrt()"},
    {"sqrt gradient at zero", {"2:=0 4"}, root, .flags = CASE_NO_DIFFERENCES, .torch = "a.sqrt()"},
    {"sqrt ints", {"3:i32"}, root,
     .fails = "sqrt: the input is int32[3] and must be of a floating-point type"},
    {"sqrt nothing", {"2x0"}, root},
    {"rsqrt", {"3x4:positive"}, rsqrt, .torch = "a.rsqrt()"},
    {"rsqrt view", {"3x4:positive:T"}, rsqrt, .torch = "a.rsqrt()"},
    {"rsqrt special", {SPECIAL}, rsqrt, .flags = CONST, .torch = "a.rsqrt()"},
    {"rsqrt scalar", {"-:positive"}, rsqrt, .torch = "a.rsqrt()"},
    {"rsqrt ints", {"3:i64"}, rsqrt, .fails = "floating-point"},
    {"reciprocal", {"3x4:positive"}, reciprocal, .torch = "a.reciprocal()"},
    {"reciprocal negative", {"4:=-1 -2 0.5 -4"}, reciprocal, .torch = "a.reciprocal()"},
    {"reciprocal view", {"3x4:positive:B"}, reciprocal},
    {"reciprocal special", {SPECIAL}, reciprocal, .flags = CONST, .torch = "a.reciprocal()"},
    {"reciprocal nothing", {"0x0"}, reciprocal},

    /* exponentials and logarithms */
    {"exp", {"3x4"}, exponential, .torch = "a.exp()"},
    {"exp view", {"3x4:T"}, exponential, .torch = "a.exp()"},
    {"exp special", {SPECIAL}, exponential, .flags = CONST, .torch = "a.exp()"},
    {"exp ends", {"4:=88 89 -87 -104"}, exponential, .flags = CONST | CASE_F32_UP | CASE_NO_F64},
    {"exp many", {"17x31"}, exponential, .torch = "a.exp()"},
    {"exp scalar", {"-"}, exponential},
    {"exp nothing", {"0x5"}, exponential},
    {"exp ints", {"3:i32"}, exponential, .fails = "exp: the input is int32[3]"},
    {"exp null", {"3"}, null_input, .fails = "exp: input 0 is NULL"},
    {"expm1", {"3x4"}, exponential_m1, .torch = "a.expm1()"},
    {"expm1 view", {"3x4:S"}, exponential_m1, .torch = "a.expm1()"},
    {"expm1 near zero", {"4:=1e-6 -1e-6 1e-3 0"}, exponential_m1, .torch = "a.expm1()"},
    {"expm1 special", {SPECIAL}, exponential_m1, .flags = CONST, .torch = "a.expm1()"},
    {"expm1 nothing", {"0"}, exponential_m1},
    {"log", {"3x4:positive"}, logarithm, .torch = "a.log()"},
    {"log view", {"3x4:positive:T"}, logarithm, .torch = "a.log()"},
    {"log special", {SPECIAL}, logarithm, .flags = CONST, .torch = "a.log()"},
    {"log wide", {"4:=1e-3 1e3 0.999 3e4"}, logarithm, .flags = CASE_NO_DIFFERENCES | CASE_F32_UP,
     .torch = "a.log()"},
    {"log many", {"19x29:positive:S"}, logarithm, .torch = "a.log()"},
    {"log nothing", {"0"}, logarithm},
    {"log bool", {"2:bool"}, logarithm, .fails = "floating-point"},
    {"log1p", {"3x4:positive"}, logarithm_1p, .torch = "a.log1p()"},
    {"log1p view", {"3x4:in(-0.5,2):B"}, logarithm_1p, .torch = "a.log1p()"},
    {"log1p near zero", {"4:=1e-6 -1e-6 1e-3 0"}, logarithm_1p, .torch = "a.log1p()"},
    {"log1p special", {"7:=0 -0 -1 inf -2 nan 1"}, logarithm_1p, .flags = CONST,
     .torch = "a.log1p()"},
    {"log1p nothing", {"1x0"}, logarithm_1p},

    /* erf, sin, cos */
    {"erf", {"3x4"}, error_function, .torch = "a.erf()"},
    {"erf view", {"3x4:S"}, error_function, .torch = "a.erf()"},
    {"erf special", {SPECIAL}, error_function, .flags = CONST, .torch = "a.erf()"},
    {"erf wide", {"6:=-4 -3 -0.01 0.01 3 4"}, error_function, .torch = "a.erf()"},
    {"erf nothing", {"0"}, error_function},
    {"sin", {"3x4"}, sine, .torch = "a.sin()"},
    {"sin view", {"3x4:T"}, sine, .torch = "a.sin()"},
    {"sin special", {SPECIAL}, sine, .flags = CONST, .torch = "a.sin()"},
    {"sin large", {"4:=100 -1000 12345 60000"}, sine, .flags = CONST | CASE_F32_UP,
     .torch = "a.sin()"},
    {"sin many", {"23x11:in(-7,7)"}, sine, .torch = "a.sin()"},
    {"sin nothing", {"0"}, sine},
    {"cos", {"3x4"}, cosine, .torch = "a.cos()"},
    {"cos view", {"3x4:B"}, cosine, .torch = "a.cos()"},
    {"cos special", {SPECIAL}, cosine, .flags = CONST, .torch = "a.cos()"},
    {"cos large", {"4:=100 -1000 12345 60000"}, cosine, .flags = CONST | CASE_F32_UP,
     .torch = "a.cos()"},
    {"cos ints", {"3:u8"}, cosine, .fails = "cos: the input is uint8[3]"},

    /* whole numbers */
    {"floor", {"3x4"}, round_down, .flags = EXACT, .torch = "a.floor()"},
    {"floor special", {"9:=0 -0 inf -inf nan 1.5 -1.5 2 -2"}, round_down, .flags = EXACT,
     .torch = "a.floor()"},
    {"floor view", {"3x4:T"}, round_down, .flags = EXACT, .torch = "a.floor()"},
    {"floor ints", {"3:i32"}, round_down, .fails = "floor: the input is int32[3]"},
    {"ceil", {"3x4"}, round_up, .flags = EXACT, .torch = "a.ceil()"},
    {"ceil special", {"9:=0 -0 inf -inf nan 1.5 -1.5 2 -2"}, round_up, .flags = EXACT,
     .torch = "a.ceil()"},
    {"ceil view", {"3x4:S"}, round_up, .flags = EXACT, .torch = "a.ceil()"},
    {"round", {"3x4"}, round_even, .flags = EXACT, .torch = "a.round()"},
    {"round ties", {"8:=0.5 1.5 2.5 -0.5 -1.5 -2.5 3.5 0.25"}, round_even, .flags = EXACT,
     .torch = "a.round()"},
    {"round special", {SPECIAL}, round_even, .flags = EXACT, .torch = "a.round()"},
    {"round large", {"2:=8388609 -16777216"}, round_even, .flags = EXACT | CASE_F32_UP,
     .torch = "a.round()"},
    {"round nothing", {"0x2"}, round_even, .flags = EXACT},

    /* tests of floats */
    {"isfinite", {SPECIAL}, is_finite, .flags = EXACT, .torch = "a.isfinite()"},
    {"isfinite view", {"3x4:T"}, is_finite, .flags = EXACT, .torch = "a.isfinite()"},
    {"isfinite ints", {"3:i32"}, is_finite, .fails = "isfinite: the input is int32[3]"},
    {"isnan", {SPECIAL}, is_nan, .flags = EXACT, .torch = "a.isnan()"},
    {"isnan view", {"3x4:S"}, is_nan, .flags = EXACT, .torch = "a.isnan()"},
    {"isnan nothing", {"0"}, is_nan, .flags = EXACT},
};
// clang-format on

int main(int argc, char **argv)
{
    return op_cases_main(argc, argv, "unary", cases, TL_COUNT(cases));
}
