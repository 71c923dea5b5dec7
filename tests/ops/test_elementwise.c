/* table: arithmetic of two inputs, with numbers, comparison, logic, choice, casts. */
#include "op_cases.h"

#include <math.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/view.h>

OP_CALL(add, tl_add(c, in[0], in[1]))
OP_CALL(sub, tl_sub(c, in[0], in[1]))
OP_CALL(mul, tl_mul(c, in[0], in[1]))
OP_CALL(div_, tl_div(c, in[0], in[1]))
OP_CALL(power, tl_pow(c, in[0], in[1]))
OP_CALL(minimum, tl_minimum(c, in[0], in[1]))
OP_CALL(maximum, tl_maximum(c, in[0], in[1]))
OP_CALL(floor_divide, tl_floor_divide(c, in[0], in[1]))
OP_CALL(mod, tl_mod(c, in[0], in[1]))
OP_CALL(affine, tl_affine(c, in[0], k->q[0], k->q[1]))
OP_CALL(scale, tl_scale(c, in[0], k->q[0]))
OP_CALL(shift, tl_shift(c, in[0], k->q[0]))
OP_CALL(clip, tl_clip(c, in[0], k->q[0], k->q[1]))
OP_CALL(equal, tl_equal(c, in[0], in[1]))
OP_CALL(not_equal, tl_not_equal(c, in[0], in[1]))
OP_CALL(less, tl_less(c, in[0], in[1]))
OP_CALL(less_equal, tl_less_equal(c, in[0], in[1]))
OP_CALL(greater, tl_greater(c, in[0], in[1]))
OP_CALL(greater_equal, tl_greater_equal(c, in[0], in[1]))
OP_CALL(logical_and, tl_logical_and(c, in[0], in[1]))
OP_CALL(logical_or, tl_logical_or(c, in[0], in[1]))
OP_CALL(logical_xor, tl_logical_xor(c, in[0], in[1]))
OP_CALL(logical_not, tl_logical_not(c, in[0]))
OP_CALL(where, tl_where(c, in[0], in[1], in[2]))
OP_CALL(cast, tl_cast(c, in[0], (tl_dtype)k->p[0]))
/* An int64 that no double holds: input + 1. */
OP_CALL(cast_one_more, tl_cast(c, tl_shift(c, in[0], 1), (tl_dtype)k->p[0]))
/* A tensor that meets itself, in two places of one gradient. */
OP_CALL(add_self, tl_add(c, in[0], in[0]))
OP_CALL(mul_self, tl_mul(c, in[0], in[0]))
OP_CALL(div_self, tl_div(c, in[0], in[0]))
OP_CALL(pow_self, tl_pow(c, in[0], in[0]))
OP_CALL(maximum_self, tl_maximum(c, in[0], in[0]))
/* x^3 through an exponent that is not differentiated. */
OP_CALL(pow_number, tl_pow(c, in[0], tl_number(c, in[0]->dtype, k->q[0])))
OP_CALL(where_self, tl_where(c, tl_greater(c, in[0], in[1]), in[0], in[1]))
/* Derivatives pass through floats alone: to a narrower type and back. */
OP_CALL(through, tl_mul(c, tl_cast(c, tl_cast(c, in[0], (tl_dtype)k->p[0]), in[0]->dtype), in[0]))
OP_CALL(null_input, tl_add(c, in[0], NULL))
OP_CALL(null_where, tl_where(c, NULL, in[0], in[0]))
OP_CALL(null_cast, tl_cast(c, NULL, TL_F32))
OP_CALL(null_logic, tl_logical_and(c, in[0], NULL))
OP_CALL(null_affine, tl_scale(c, NULL, 2))

enum { CONST = CASE_NO_GRADIENT, EXACT = CASE_NO_GRADIENT | CASE_EXACT };

// clang-format off
static const op_case cases[] = {
    /* add */
    {"add", {"2x3", "2x3"}, add, .torch = "a + b"},
    {"add broadcasts a row", {"4x3", "3"}, add, .torch = "a + b"},
    {"add broadcasts a column", {"4x3", "4x1"}, add, .torch = "a + b"},
    {"add broadcasts both", {"4x1", "1x5"}, add, .torch = "a + b"},
    {"add scalar", {"-", "3x2"}, add},
    {"add scalars", {"-", "-"}, add, .torch = "a + b"},
    {"add ones and ranks", {"1x1x3", "2x1x1x1"}, add},
    {"add nothing", {"0x4", "4"}, add},
    {"add broadcasts to nothing", {"1x4", "0x1"}, add},
    {"add eight dimensions", {"2x1x2x1x3x1x2x1", "1x2x1x2x1x2x1x3"}, add},
    {"add prime", {"7x13", "7x13"}, add},
    {"add long", {"1031", "1031"}, add},
    {"add transposed", {"5x7:T", "5x7"}, add},
    {"add every second", {"5x7", "5x7:S"}, add},
    {"add repeated", {"5x7:B", "5x7:T"}, add},
    {"add self", {"3x4:T"}, add_self, .torch = "a + a"},
    {"add not finite", {"6:=inf -inf nan 1 inf -0", "6:=1 inf 1 nan -inf -0"}, add,
     .flags = CASE_NO_DIFFERENCES},
    {"add int32", {"3x4:i32", "4:i32"}, add, .flags = EXACT, .torch = "a + b"},
    {"add int64", {"3x4:i64:T", "4:i64"}, add, .flags = EXACT, .torch = "a + b"},
    {"add int8 wraps", {"3:i8:=127 -128 100", "3:i8:=1 -1 100"}, add, .flags = EXACT,
     .torch = "(a + b).to(torch.int8)"},
    {"add uint8 wraps", {"3:u8:=255 0 200", "3:u8:=1 0 100"}, add, .flags = EXACT,
     .torch = "(a + b).to(torch.uint8)"},
    {"add int32 to float", {"2x3", "3:i32"}, add, .torch = "a + b"},
    {"add bool to float", {"2x3", "3:bool"}, add, .torch = "a + b"},
    {"add bool to int", {"2x3:i32", "3:bool"}, add, .flags = EXACT, .torch = "a + b"},
    {"add bfloat16 to float32", {"2x3:f32", "3:bf16"}, add},
    {"add bfloat16 to float16", {"2x3:f16", "3:bf16"}, add},
    {"add int8 to uint8", {"2x3:i8", "3:u8"}, add, .flags = EXACT, .torch = "a + b"},
    {"add shapes", {"2x3", "2x4"}, add, .fails = "add: shapes [2, 3] and [2, 4] do not broadcast"},
    {"add bool", {"3:bool", "3:bool"}, add,
     .fails = "add: the first input is bool[3] and must be of a number type"},
    {"add null", {"3"}, null_input, .fails = "add: input 1 is NULL"},

    /* sub */
    {"sub", {"2x3", "2x3"}, sub, .torch = "a - b"},
    {"sub broadcasts", {"4x1x3", "5x1"}, sub, .torch = "a - b"},
    {"sub from scalar", {"-", "3x2"}, sub},
    {"sub transposed", {"5x7:T", "5x7:S"}, sub},
    {"sub nothing", {"3x0", "3x0"}, sub},
    {"sub uint8 wraps", {"3:u8:=0 3 255", "3:u8:=1 5 255"}, sub, .flags = EXACT,
     .torch = "(a - b).to(torch.uint8)"},
    {"sub int64", {"4:i64", "4:i64"}, sub, .flags = EXACT, .torch = "a - b"},
    {"sub bool", {"3:bool", "3:bool"}, sub, .fails = "number type"},

    /* mul */
    {"mul", {"2x3", "2x3"}, mul, .torch = "a * b"},
    {"mul broadcasts", {"2x1x4", "3x1"}, mul, .torch = "a * b"},
    {"mul scalar", {"5x3", "-"}, mul},
    {"mul self", {"3x5:S"}, mul_self, .torch = "a * a"},
    {"mul views", {"3x5:T", "3x5:B"}, mul},
    {"mul nothing", {"0", "1"}, mul},
    {"mul zeros", {"4:=0 1 0 -2", "4:=3 0 0 5"}, mul, .torch = "a * b"},
    {"mul not finite", {"4:=inf 0 nan -inf", "4:=0 2 1 -inf"}, mul, .flags = CASE_NO_DIFFERENCES},
    {"mul int16 wraps", {"3:i16:=300 -300 7", "3:i16:=300 300 -7"}, mul, .flags = EXACT,
     .torch = "(a * b).to(torch.int16)"},
    {"mul int64 wraps", {"2:i64:=4294967296 3", "2:i64:=4294967296 -5"}, mul, .flags = EXACT,
     .torch = "a * b"},
    {"mul bool mask", {"3x4", "3x4:bool"}, mul, .torch = "a * b"},
    {"mul large", {"61x67", "67"}, mul},

    /* div */
    {"div", {"2x3", "2x3"}, div_, .torch = "a / b"},
    {"div broadcasts", {"2x1x4", "3x1:positive"}, div_, .torch = "a / b"},
    {"div by scalar", {"3x5:T", "-"}, div_, .scale = 2},
    {"div scalar by", {"-", "3x5:S:positive"}, div_},
    {"div self", {"2x3:positive"}, div_self},
    {"div by zero", {"4:=1 -1 0 inf", "4:=0 0 0 inf"}, div_, .flags = CONST, .torch = "a / b"},
    {"div nothing", {"2x0", "-"}, div_},
    {"div float by int", {"2x3", "3:i32:=1 2 4"}, div_, .torch = "a / b"},
    {"div ints", {"3:i32", "3:i32"}, div_,
     .fails = "div: the inputs are of the type int32; cast one"},
    {"div bool", {"3:bool", "3:bool"}, div_, .fails = "number type"},

    /* pow */
    {"pow", {"2x3:positive", "2x3"}, power, .torch = "a ** b"},
    {"pow broadcasts", {"4x1:positive", "3:in(-2,3)"}, power, .torch = "a ** b", .scale = 2},
    {"pow views", {"4x3:positive:T", "4x3:S"}, power},
    {"pow self", {"2x3:positive"}, pow_self, .torch = "a ** a"},
    {"pow 2 of negative", {"2x3"}, pow_number, .q = {2}, .torch = "a ** 2"},
    {"pow 3 of negative", {"2x3"}, pow_number, .q = {3}, .torch = "a ** 3"},
    {"pow -2 of negative", {"4:=-2 -1 1.5 3"}, pow_number, .q = {-2}, .torch = "a ** -2"},
    {"pow 1", {"5:=-2 0 1 3 -0.5"}, pow_number, .q = {1}, .torch = "a ** torch.tensor(1.0)"},
    {"pow 0", {"5:=-2 0 1 3 -0.5"}, pow_number, .q = {0}, .torch = "a ** torch.tensor(0.0)"},
    {"pow 2 at zero", {"3:=0 -1 2"}, pow_number, .q = {2}, .torch = "a ** 2"},
    {"pow 3 at zero", {"3:=0 -1 2"}, pow_number, .q = {3}, .torch = "a ** 3"},
    {"pow 4 at zero", {"3:=0 -1 2"}, pow_number, .q = {4}},
    {"pow half", {"5:positive"}, pow_number, .q = {0.5}, .torch = "a ** 0.5"},
    {"pow half of negative", {"2:=-1 4"}, pow_number, .q = {0.5}, .flags = CONST,
     .torch = "a ** 0.5"},
    {"pow exponents at zero base", {"4:=0 0 2 0", "4:=2 1 0 3:const"}, power, .torch = "a ** b"},
    {"pow exponent 0", {"3:positive", "3:=0 0 0"}, power, .torch = "a ** b"},
    {"pow negative base, whole exponents", {"4:=-2 -1 -3 2", "4:=2 3 -1 0:const"}, power,
     .torch = "a ** b"},
    {"pow gradient by exponent at zero base", {"3:=0 0 2", "3:=2 1 3"}, power,
     .flags = CASE_NO_DIFFERENCES, .torch = "a ** b"},
    {"pow gradient by exponent of negative base", {"3:=-2 -1 2:const", "3:=2 1 3"}, power,
     .flags = CASE_NO_DIFFERENCES, .torch = "torch.where(a > 0, a.abs() ** b, a ** b.detach())"},
    {"pow not finite", {"6:=inf 0 -inf nan 1 2", "6:=2 -1 3 0 nan -inf"}, power, .flags = CONST,
     .torch = "a ** b"},
    {"pow ints", {"5:i32:=2 -3 0 5 -1", "5:i32:=10 3 0 0 7"}, power, .flags = EXACT,
     .torch = "a ** b"},
    {"pow ints to negative powers", {"5:i64:=2 1 -1 -1 0", "5:i64:=-1 -5 -3 -4 -2"}, power,
     .flags = EXACT, .torch = "torch.tensor([0, 1, -1, 1, 0])"},
    {"pow int64 wraps", {"2:i64:=3 -3", "2:i64:=41 41"}, power, .flags = EXACT, .torch = "a ** b"},
    {"pow uint8 wraps", {"3:u8:=2 3 7", "3:u8:=9 5 0"}, power, .flags = EXACT,
     .torch = "(a ** b).to(torch.uint8)"},
    {"pow nothing", {"0x2", "2"}, power},

    /* minimum, maximum */
    {"minimum", {"2x3", "2x3"}, minimum, .torch = "torch.minimum(a, b)"},
    {"minimum broadcasts", {"4x1:distinct", "3:in(0.3,0.7)"}, minimum,
     .torch = "torch.minimum(a, b)"},
    {"minimum views", {"4x3:T", "4x3:B"}, minimum},
    {"minimum at ties", {"4:=1 2 0 -3", "4:=1 1 0 -3"}, minimum, .flags = CASE_NO_DIFFERENCES,
     .torch = "torch.minimum(a, b)"},
    {"minimum not finite", {"6:=nan 1 inf -inf nan 0", "6:=1 nan 2 -1 nan inf"}, minimum,
     .flags = CONST,
     .torch = "torch.minimum(a, b)"},
    {"minimum ints", {"3x3:i32", "3:i32"}, minimum, .flags = EXACT, .torch = "torch.minimum(a, b)"},
    {"minimum of large int64", {"1:i64:=9007199254740994", "1:i64:=9007199254740992"}, minimum,
     .flags = EXACT,
     .torch = "torch.minimum(a, b)"},
    {"minimum nothing", {"0", "-"}, minimum},
    {"minimum bool", {"2:bool", "2:bool"}, minimum, .fails = "minimum: the first input is bool[2]"},
    {"maximum", {"2x3", "2x3"}, maximum, .torch = "torch.maximum(a, b)"},
    {"maximum broadcasts", {"4x1:distinct", "3:in(0.3,0.7)"}, maximum,
     .torch = "torch.maximum(a, b)"},
    {"maximum views", {"4x3:T", "4x3:S"}, maximum},
    {"maximum at ties", {"4:=1 2 0 -3", "4:=1 1 0 -3"}, maximum, .flags = CASE_NO_DIFFERENCES,
     .torch = "torch.maximum(a, b)"},
    {"maximum self", {"2x3"}, maximum_self, .torch = "torch.maximum(a, a)"},
    {"maximum not finite", {"6:=nan 1 inf -inf nan 0", "6:=1 nan 2 -1 nan inf"}, maximum,
     .flags = CONST,
     .torch = "torch.maximum(a, b)"},
    {"maximum uint8", {"3x3:u8", "3:u8:=255 0 9"}, maximum, .flags = EXACT,
     .torch = "torch.maximum(a, b)"},
    {"maximum scalar", {"-", "2x2"}, maximum},

    /* floor_divide, mod */
    {"floor_divide", {"4x5", "5"}, floor_divide, .flags = CONST,
     .torch = "torch.floor_divide(a, b)"},
    {"floor_divide signs", {"6:=7 -7 7 -7 6 -6", "6:=2 2 -2 -2 3 3"}, floor_divide, .flags = CONST,
     .torch = "torch.floor_divide(a, b)"},
    {"floor_divide far", {"6:=5 -5 5 inf nan 2", "6:=inf inf -inf 2 1 nan"}, floor_divide,
     .flags = CONST, .torch = "torch.floor_divide(a, b)"},
    {"floor_divide almost whole", {"2:=1 -1", "2:=0.1 0.1"}, floor_divide,
     .flags = CONST | CASE_F32_UP | CASE_NO_F64, .torch = "torch.tensor([9.0, -10])"},
    {"floor_divide by zero", {"4:=1 -1 0 5", "4:=0 0 0 inf"}, floor_divide, .flags = CONST,
     .torch = "torch.floor_divide(a, b)"},
    {"floor_divide views", {"4x5:T", "4x5:S"}, floor_divide, .flags = CONST,
     .torch = "torch.floor_divide(a, b)"},
    {"floor_divide ints", {"8:i32:=7 -7 7 -7 6 -6 0 5", "8:i32:=2 2 -2 -2 3 -3 4 -7"}, floor_divide,
     .flags = EXACT, .torch = "torch.floor_divide(a, b)"},
    {"floor_divide int by zero", {"3:i32:=7 -7 0", "-:i32:=0"}, floor_divide, .flags = EXACT,
     .torch = "torch.tensor([0, 0, 0])"},
    {"floor_divide int least by -1", {"2:i64:=-9223372036854775808 -128", "-:i64:=-1"},
     floor_divide, .flags = EXACT, .torch = "-a"},
    {"floor_divide int8 least by -1", {"2:i8:=-128 127", "-:i8:=-1"}, floor_divide, .flags = EXACT,
     .torch = "(-a).to(torch.int8)"},
    {"floor_divide uint8", {"3:u8:=255 7 200", "3:u8:=2 9 3"}, floor_divide, .flags = EXACT,
     .torch = "a // b"},
    {"floor_divide nothing", {"0x3", "3"}, floor_divide, .flags = CONST},
    {"mod", {"6:=7 -7 7 -7 5.5 -5.5", "6:=2.5 2.5 -2.5 -2.5 4 4"}, mod,
     .torch = "torch.remainder(a, b)"},
    {"mod broadcasts", {"3x1:=1 -2.5 8.5", "2:=2 -3.5"}, mod, .torch = "torch.remainder(a, b)"},
    {"mod views", {"2x3:T:in(0.2,0.8)", "2x3:S:in(1,2)"}, mod},
    {"mod zero", {"3:=1 -1 0", "-:=0"}, mod, .flags = CONST, .torch = "torch.remainder(a, b)"},
    {"mod whole", {"4:=6 -6 0 9", "4:=3 3 2 -3"}, mod, .flags = CASE_NO_DIFFERENCES,
     .torch = "torch.remainder(a, b)"},
    {"mod ints", {"8:i32:=7 -7 7 -7 6 -6 0 5", "8:i32:=2 2 -2 -2 3 -3 4 -7"}, mod, .flags = EXACT,
     .torch = "torch.remainder(a, b)"},
    {"mod int by zero", {"3:i64:=7 -7 0", "-:i64:=0"}, mod, .flags = EXACT,
     .torch = "torch.tensor([0, 0, 0])"},
    {"mod int least by -1", {"1:i64:=-9223372036854775808", "-:i64:=-1"}, mod, .flags = EXACT,
     .torch = "torch.tensor([0])"},
    {"mod nothing", {"0", "0"}, mod},

    /* affine */
    {"affine", {"3x4"}, affine, .q = {2.5, -1}, .torch = "a * q[0] + q[1]"},
    {"affine of a view", {"3x4:T"}, affine, .q = {-0.5, 3}, .torch = "a * q[0] + q[1]"},
    {"affine zero scale", {"3"}, affine, .q = {0, 4}, .torch = "a * 0 + 4"},
    {"affine ints", {"3x2:i32"}, affine, .q = {3, -4}, .flags = EXACT, .torch = "a * 3 - 4"},
    {"affine int8 wraps", {"2:i8:=100 -100"}, affine, .q = {2, 5}, .flags = EXACT,
     .torch = "(a * 2 + 5).to(torch.int8)"},
    {"affine ints by fractions", {"3:i32"}, affine, .q = {0.5, 0},
     .fails = "affine: the scale is 0.5 and must be a whole number for int32[3]"},
    {"affine ints shifted by fractions", {"3:i32"}, affine, .q = {1, 1.5},
     .fails = "the shift is 1.5"},
    {"affine bool", {"3:bool"}, affine, .q = {1, 1}, .fails = "number type"},
    {"scale", {"2x5:S"}, scale, .q = {-3}, .torch = "a * -3"},
    {"scale scalar", {"-"}, scale, .q = {1e-3}, .torch = "a * 1e-3"},
    {"scale nothing", {"0x7"}, scale, .q = {2}},
    {"scale null", {"2"}, null_affine, .fails = "affine: input 0 is NULL"},
    {"shift", {"2x5:B"}, shift, .q = {7}, .torch = "a + 7"},
    {"shift int64", {"3:i64"}, shift, .q = {-9}, .flags = EXACT, .torch = "a - 9"},

    /* clip */
    {"clip", {"3x4:distinct"}, clip, .q = {-0.5, 1}, .torch = "a.clamp(-0.5, 1)"},
    {"clip on the bounds", {"5:=-1 -2 0 2 3"}, clip, .q = {-1, 2}, .flags = CASE_NO_DIFFERENCES,
     .torch = "a.clamp(-1, 2)"},
    {"clip open below", {"3x4:T"}, clip, .q = {-INFINITY, 0}, .torch = "a.clamp(max=0)"},
    {"clip open above", {"3x4:S"}, clip, .q = {0, INFINITY}, .torch = "a.clamp(min=0)"},
    {"clip to one number", {"4:=-2 -1 1 3"}, clip, .q = {0.5, 0.5}, .torch = "a.clamp(0.5, 0.5)"},
    {"clip not finite", {"4:=nan inf -inf 0"}, clip, .q = {-1, 1}, .flags = CONST,
     .torch = "a.clamp(-1, 1)"},
    {"clip ints", {"3x5:i32"}, clip, .q = {-2, 4}, .flags = EXACT, .torch = "a.clamp(-2, 4)"},
    {"clip large int64", {"2:i64:=9007199254740994 -5"}, clip, .q = {0, INFINITY}, .flags = EXACT,
     .torch = "a.clamp(min=0)"},
    {"clip nothing", {"0"}, clip, .q = {0, 1}},
    {"clip backwards", {"3"}, clip, .q = {1, -1}, .fails = "clip: low is 1 and high is -1"},
    {"clip nan", {"3"}, clip, .q = {NAN, 1}, .fails = "low must not be above high"},
    {"clip ints by fractions", {"3:i32"}, clip, .q = {0, 1.5},
     .fails = "high is 1.5 and must be a whole number"},

    /* comparison */
    {"equal", {"6:=1 2 nan 0 inf -1", "6:=1 3 nan -0 inf 1"}, equal, .flags = EXACT,
     .torch = "a == b"},
    {"equal broadcasts", {"3x1:i32", "9:i32"}, equal, .flags = EXACT, .torch = "a == b"},
    {"equal large int64", {"2:i64:=9007199254740994 7", "2:i64:=9007199254740992 7"}, equal,
     .flags = EXACT,
     .torch = "a == b"},
    {"equal bool", {"4:bool", "4:bool"}, equal, .flags = EXACT, .torch = "a == b"},
    {"equal views", {"3x4:T", "3x4:S"}, equal, .flags = EXACT},
    {"equal nothing", {"0x3", "3"}, equal, .flags = EXACT},
    {"equal int and float", {"3:i32:=1 2 3", "3:=1 2.5 3"}, equal, .flags = EXACT,
     .torch = "a == b"},
    {"equal shapes", {"2", "3"}, equal, .fails = "equal: shapes [2] and [3]"},
    {"not_equal", {"6:=1 2 nan 0 inf -1", "6:=1 3 nan -0 inf 1"}, not_equal, .flags = EXACT,
     .torch = "a != b"},
    {"not_equal ints", {"3x4:i8", "4:i8"}, not_equal, .flags = EXACT, .torch = "a != b"},
    {"less", {"3x4", "4"}, less, .flags = EXACT, .torch = "a < b"},
    {"less specials", {"6:=1 2 nan 0 inf -inf", "6:=1 3 1 -0 1 inf"}, less, .flags = EXACT,
     .torch = "a < b"},
    {"less int64", {"2:i64:=9007199254740992 -3", "2:i64:=9007199254740993 -4"}, less,
     .flags = EXACT,
     .torch = "a < b"},
    {"less bool", {"4:bool:=0 0 1 1", "4:bool:=0 1 0 1"}, less, .flags = EXACT, .torch = "~a & b"},
    {"less views", {"3x4:B", "3x4:T"}, less, .flags = EXACT},
    {"less_equal", {"6:=1 2 nan 0 inf 3", "6:=1 3 1 -0 1 2"}, less_equal, .flags = EXACT,
     .torch = "a <= b"},
    {"less_equal uint8", {"5:u8:=200 1 2 3 0", "-:u8:=2"}, less_equal, .flags = EXACT,
     .torch = "a <= b"},
    {"greater", {"6:=1 2 nan 0 inf 3", "6:=1 3 1 -0 1 2"}, greater, .flags = EXACT,
     .torch = "a > b"},
    {"greater broadcasts", {"3x1", "4"}, greater, .flags = EXACT, .torch = "a > b"},
    {"greater_equal", {"6:=1 2 nan 0 inf 3", "6:=1 3 1 -0 1 2"}, greater_equal, .flags = EXACT,
     .torch = "a >= b"},
    {"greater_equal scalar", {"3x5", "-"}, greater_equal, .flags = EXACT, .torch = "a >= b"},

    /* logic */
    {"logical_and", {"4:bool:=0 0 1 1", "4:bool:=0 1 0 1"}, logical_and, .flags = EXACT,
     .torch = "a & b"},
    {"logical_and of numbers", {"5:=0 1 nan -0 2", "5:i32:=1 1 1 1 0"}, logical_and, .flags = EXACT,
     .torch = "torch.logical_and(a, b)"},
    {"logical_and broadcasts", {"3x1:bool", "5:bool"}, logical_and, .flags = EXACT,
     .torch = "a & b"},
    {"logical_and null", {"2:bool"}, null_logic, .fails = "cast: input 0 is NULL"},
    {"logical_or", {"4:bool:=0 0 1 1", "4:bool:=0 1 0 1"}, logical_or, .flags = EXACT,
     .torch = "a | b"},
    {"logical_or views", {"3x4:bool:T", "3x4:bool:S"}, logical_or, .flags = EXACT,
     .torch = "a | b"},
    {"logical_xor", {"4:bool:=0 0 1 1", "4:bool:=0 1 0 1"}, logical_xor, .flags = EXACT,
     .torch = "a ^ b"},
    {"logical_xor of numbers", {"4:=0 0 2 -1", "4:=0 1 0 0.5"}, logical_xor, .flags = EXACT,
     .torch = "torch.logical_xor(a, b)"},
    {"logical_not", {"4:bool:=0 1 1 0"}, logical_not, .flags = EXACT, .torch = "~a"},
    {"logical_not of numbers", {"5:=0 1 nan -0 0.5"}, logical_not, .flags = EXACT,
     .torch = "torch.logical_not(a)"},
    {"logical_not nothing", {"0:bool"}, logical_not, .flags = EXACT},

    /* where */
    {"where", {"3x4:bool", "3x4", "3x4"}, where, .torch = "torch.where(a, b, c)"},
    {"where broadcasts the condition", {"4:bool", "3x4", "3x1"}, where,
     .torch = "torch.where(a, b, c)"},
    {"where broadcasts all", {"2x1x1:bool", "3x1", "4"}, where, .torch = "torch.where(a, b, c)"},
    {"where scalars", {"3x4:bool:T", "-", "-"}, where, .torch = "torch.where(a, b, c)"},
    {"where views", {"3x4:bool:S", "3x4:T", "3x4:B"}, where},
    {"where of the larger", {"3x4", "3x4"}, where_self, .torch = "torch.where(a > b, a, b)"},
    {"where hides", {"3:bool:=1 0 1", "3:=1 nan 2", "3:=inf 3 nan"}, where,
     .flags = CASE_NO_DIFFERENCES, .torch = "torch.where(a, b, c)"},
    {"where ints", {"5:bool", "5:i64:=9007199254740993 1 2 3 4", "-:i64:=7"}, where, .flags = EXACT,
     .torch = "torch.where(a, b, c)"},
    {"where bools", {"4:bool", "4:bool", "4:bool"}, where, .flags = EXACT,
     .torch = "torch.where(a, b, c)"},
    {"where int and float", {"3:bool", "3:i32:=1 2 3", "3"}, where,
     .torch = "torch.where(a, b, c)"},
    {"where nothing", {"0:bool", "0", "-"}, where},
    {"where of a number", {"3", "3", "3"}, where,
     .fails = "[3] and must be bool; compare it with something"},
    {"where shapes", {"3:bool", "4", "-"}, where, .fails = "where: shapes [3] and [4]"},
    {"where null", {"3"}, null_where, .fails = "where: input 0 is NULL"},

    /* cast */
    {"cast to float32 and back", {"2x3"}, through, .p = {TL_F32}, .flags = CASE_NO_DIFFERENCES},
    {"cast to bfloat16 and back", {"2x3:T"}, through, .p = {TL_BF16}, .flags = CASE_NO_DIFFERENCES},
    {"cast to float64 and back", {"2x3:S"}, through, .p = {TL_F64}},
    {"cast to float16", {"5:f32:=1.0009765625 65504 65520 1e-8 -0.1"}, cast, .p = {TL_F16},
     .flags = EXACT, .torch = "a.to(torch.float16)"},
    {"cast to bfloat16", {"4:f32:=1.00390625 1.01171875 3e38 -0.1"}, cast, .p = {TL_BF16},
     .flags = EXACT, .torch = "a.to(torch.bfloat16)"},
    {"cast float64 to bfloat16 rounds once", {"1:f64:=1.00390625000001"}, cast, .p = {TL_BF16},
     .flags = EXACT, .torch = "torch.tensor([1.0078125])"},
    {"cast to itself", {"3:f32"}, cast, .p = {TL_F32}},
    {"cast to int32", {"8:=1.5 -1.5 0.9 -0.9 3e9 -3e9 nan 7"}, cast, .p = {TL_I32},
     .flags = EXACT | CASE_F32_UP, .torch = "torch.tensor([1, -1, 0, 0, 2**31 - 1, -2**31, 0, 7])"},
    {"cast to int8", {"6:=1.5 -200 200 127 -128 inf"}, cast, .p = {TL_I8}, .flags = EXACT,
     .torch = "torch.tensor([1, -128, 127, 127, -128, 127])"},
    {"cast to uint8", {"6:=1.5 -1 300 255 0 -inf"}, cast, .p = {TL_U8}, .flags = EXACT,
     .torch = "torch.tensor([1, 0, 255, 255, 0, 0])"},
    {"cast to int64", {"5:f64:=1e19 -1e19 4611686018427387904 -2.5 nan"}, cast, .p = {TL_I64},
     .flags = EXACT, .torch = "torch.tensor([2**63 - 1, -2**63, 2**62, -2, 0])"},
    {"cast to bool", {"6:=0 -0 1e-3 nan inf 1"}, cast, .p = {TL_BOOL}, .flags = EXACT,
     .torch = "a.bool()"},
    {"cast int to narrower", {"4:i32:=300 -129 128 65537"}, cast, .p = {TL_I8}, .flags = EXACT,
     .torch = "a.to(torch.int8)"},
    {"cast int to uint8", {"3:i64:=-1 256 255"}, cast, .p = {TL_U8}, .flags = EXACT,
     .torch = "a.to(torch.uint8)"},
    {"cast int to wider", {"3:i8:=-128 5 127"}, cast, .p = {TL_I64}, .flags = EXACT,
     .torch = "a.to(torch.int64)"},
    {"cast int to bool", {"4:i32:=0 256 -1 1"}, cast, .p = {TL_BOOL}, .flags = EXACT,
     .torch = "a.bool()"},
    {"cast bool to float", {"2x3:bool:T"}, cast, .p = {TL_F32}, .flags = EXACT,
     .torch = "a.float()"},
    {"cast bool to int", {"2x3:bool"}, cast, .p = {TL_I16}, .flags = EXACT,
     .torch = "a.to(torch.int16)"},
    {"cast int64 to float32", {"3:i64:=16777217 -5 3"}, cast, .p = {TL_F32}, .flags = EXACT,
     .torch = "a.float()"},
    {"cast int64 to float32 rounds once", {"1:i64:=1152921573326323712"}, cast_one_more,
     .p = {TL_F32}, .flags = EXACT, .torch = "torch.tensor([2.0**60 + 2.0**37])"},
    {"cast int64 to bfloat16 rounds once", {"1:i64:=1157425104234217472"}, cast_one_more,
     .p = {TL_BF16}, .flags = EXACT, .torch = "torch.tensor([2.0**60 + 2.0**53])"},
    {"cast negative int64 to float16", {"1:i64:=-2050"}, cast_one_more, .p = {TL_F16},
     .flags = EXACT, .torch = "torch.tensor([-2048.0])"},
    {"cast int views", {"4x5:i32:T"}, cast, .p = {TL_F32}, .flags = EXACT, .torch = "a.float()"},
    {"cast nothing", {"0x3"}, cast, .p = {TL_I32}, .flags = EXACT},
    {"cast null", {"3"}, null_cast, .fails = "cast: input 0 is NULL"},

    /* --- large enough for several tasks, blocks and tails ------------------------------------- */
    {"cast many to int8", {"3x2001:=1.5 -200 200 50 -50 inf nan 7"}, cast, .p = {TL_I8},
     .flags = EXACT},
    {"cast many to uint8", {"3x2001:=1.5 -200 300 50 -50 inf nan 7"}, cast, .p = {TL_U8},
     .flags = EXACT},
    {"cast many to int16", {"3x2001:in(-300,300)"}, cast, .p = {TL_I16}, .flags = EXACT},
    {"cast many to int32", {"3x2001:=1.5 -2.5 3e9 -3e9 nan inf 7"}, cast, .p = {TL_I32},
     .flags = EXACT},
    {"cast many to int64", {"3x2001:f32:=1.5 -2.5 3e9 -1e19 nan inf 1e19"}, cast, .p = {TL_I64},
     .flags = EXACT},
    {"cast many to bool", {"3x2001:=0 -0 1 nan 0"}, cast, .p = {TL_BOOL}, .flags = EXACT},
    {"cast many to float16", {"3x2001:f32:in(-3,3)"}, cast, .p = {TL_F16}, .flags = EXACT},
    {"cast many to bfloat16", {"3x2001:f32:in(-3,3)"}, cast, .p = {TL_BF16}, .flags = EXACT},
    {"cast many ints to bfloat16", {"3x2001:i32:=16843009 -5 3 16777217 -2139095041 257 9 1"}, cast,
     .p = {TL_BF16}, .flags = EXACT},
    {"cast many ints to float16", {"3x2001:i32:=2049 -5 3 65519 65521 -2051 100000 1"}, cast,
     .p = {TL_F16}, .flags = EXACT},
    {"cast many bools to float", {"3x2001:bool"}, cast, .p = {TL_F32}, .flags = EXACT},
    {"add many i32", {"3x2001:i32", "3x2001:i32"}, add, .flags = EXACT},
    {"mul many i8", {"3x2001:i8:in(-8,8)", "2001:i8:in(-8,8)"}, mul, .flags = EXACT},
    {"sub many i16", {"3x2001:i16:T", "3x1:i16"}, sub, .flags = EXACT},
    {"minimum many u8", {"3x2001:u8", "3x2001:u8"}, minimum, .flags = EXACT},
    {"less many i64", {"3x2001:i64", "1:i64"}, less, .flags = EXACT},
    {"where many i64", {"3x2001:bool", "3x2001:i64", "3x1:i64"}, where, .flags = EXACT},
};
// clang-format on

int main(int argc, char **argv)
{
    return op_cases_main(argc, argv, "elementwise", cases, TL_COUNT(cases));
}
