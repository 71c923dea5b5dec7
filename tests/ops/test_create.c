/* table: tensors from numbers. */
#include "op_cases.h"

#include <math.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>

OP_CALL(full, tl_full(c, (tl_dtype)k->p[0], tl_shape_of((int)k->p[1], k->p + 2), k->q[0]))
OP_CALL(full_like, tl_full(c, in[0]->dtype, in[0]->shape, k->q[0]))
OP_CALL(zeros, tl_zeros(c, (tl_dtype)k->p[0], TL_SHAPE(k->p[1], k->p[2])))
OP_CALL(ones, tl_ones(c, (tl_dtype)k->p[0], TL_SHAPE(k->p[1], k->p[2])))
OP_CALL(times_full, tl_mul(c, in[0], tl_full(c, in[0]->dtype, TL_SHAPE(3), k->q[0])))
OP_CALL(arange, tl_arange(c, (tl_dtype)k->p[0], k->q[0], k->q[1], k->q[2]))
OP_CALL(times_arange, tl_mul(c, in[0], tl_arange(c, in[0]->dtype, k->q[0], k->q[1], k->q[2])))
OP_CALL(one_hot, tl_one_hot(c, in[0], k->p[0], (tl_dtype)k->p[1]))
OP_CALL(times_one_hot, tl_mul(c, in[1], tl_one_hot(c, in[0], k->p[0], in[1]->dtype)))
OP_CALL(one_hot_null, tl_one_hot(c, NULL, 3, TL_F32))
OP_CALL(eye, tl_eye(c, (tl_dtype)k->p[0], k->p[1], k->p[2]))
OP_CALL(from, tl_from(c, TL_I16, TL_SHAPE(2, 2), (const int16_t[]){1, -2, 3, 32767}))
OP_CALL(from_doubles,
        tl_from_doubles(c, (tl_dtype)k->p[0], TL_SHAPE(4), (const double[]){1.5, -2, 0, 255}))
OP_CALL(number, tl_add(c, in[0], tl_number(c, in[0]->dtype, k->q[0])))
OP_CALL(from_negative, tl_from(c, TL_F32, TL_SHAPE(2, -1), ""))

enum { EXACT = CASE_NO_GRADIENT | CASE_EXACT };

// clang-format off
static const op_case cases[] = {
    {"full", {0}, full, .p = {TL_F32, 2, 3, 4}, .q = {2.5}, .flags = EXACT,
     .torch = "torch.full((3, 4), 2.5)"},
    {"full scalar", {0}, full, .p = {TL_F64, 0}, .q = {-1e300}, .flags = EXACT,
     .torch = "torch.tensor(-1e300, dtype=torch.float64)"},
    {"full nothing", {0}, full, .p = {TL_F32, 2, 0, 4}, .q = {1}, .flags = EXACT,
     .torch = "torch.zeros(0, 4)"},
    {"full eight dimensions", {0}, full, .p = {TL_BF16, 8, 1, 2, 1, 2, 1, 2, 1, 2}, .q = {3},
     .flags = EXACT, .torch = "torch.full((1, 2) * 4, 3.0)"},
    {"full bfloat16 rounds", {0}, full, .p = {TL_BF16, 1, 2}, .q = {1.0039}, .flags = EXACT,
     .torch = "torch.full((2,), 1.0039).bfloat16()"},
    {"full int32", {0}, full, .p = {TL_I32, 1, 3}, .q = {-7}, .flags = EXACT,
     .torch = "torch.full((3,), -7)"},
    {"full int64", {0}, full, .p = {TL_I64, 1, 3}, .q = {0x1p62}, .flags = EXACT,
     .torch = "torch.full((3,), 2**62)"},
    {"full bool", {0}, full, .p = {TL_BOOL, 1, 3}, .q = {5}, .flags = EXACT,
     .torch = "torch.full((3,), True)"},
    {"full nan", {0}, full, .p = {TL_F16, 1, 3}, .q = {NAN}, .flags = EXACT,
     .torch = "torch.full((3,), math.nan)"},
    {"full like its input", {"2x3:const"}, full_like, .q = {0.5}, .flags = EXACT,
     .torch = "torch.full_like(a, 0.5)"},
    {"full in an expression", {"2x3"}, times_full, .q = {0.5}, .torch = "a * 0.5"},
    {"full uint8 below", {0}, full, .p = {TL_U8, 1, 3}, .q = {-1},
     .fails = "full: the value is -1 and must be a whole number from 0 to 255 for uint8"},
    {"full int8 above", {0}, full, .p = {TL_I8, 1, 3}, .q = {128},
     .fails = "from -128 to 127 for int8"},
    {"full int32 fraction", {0}, full, .p = {TL_I32, 1, 3}, .q = {0.5},
     .fails = "the value is 0.5"},
    {"full int64 above", {0}, full, .p = {TL_I64, 1, 3}, .q = {0x1p63},
     .fails = "to 9223372036854775807"},
    {"full int nan", {0}, full, .p = {TL_I32, 1, 3}, .q = {NAN}, .fails = "the value is nan"},
    {"full negative", {0}, full, .p = {TL_F32, 2, 3, -1}, .fails = "full: "},
    {"full too large", {0}, full, .p = {TL_F32, 3, INT64_C(1) << 40, INT64_C(1) << 40, 2},
     .fails = "full: "},
    {"zeros", {0}, zeros, .p = {TL_F32, 2, 3}, .flags = EXACT, .torch = "torch.zeros(2, 3)"},
    {"zeros uint8", {0}, zeros, .p = {TL_U8, 2, 3}, .flags = EXACT},
    {"ones", {0}, ones, .p = {TL_F32, 5, 1}, .flags = EXACT, .torch = "torch.ones(5, 1)"},
    {"ones bool", {0}, ones, .p = {TL_BOOL, 1, 7}, .flags = EXACT,
     .torch = "torch.ones(1, 7, dtype=torch.bool)"},

    {"arange", {0}, arange, .p = {TL_F32}, .q = {0, 5, 1}, .flags = EXACT,
     .torch = "torch.arange(5.0)"},
    {"arange ints", {0}, arange, .p = {TL_I32}, .q = {-3, 9, 4}, .flags = EXACT,
     .torch = "torch.arange(-3, 9, 4)"},
    {"arange not reached", {0}, arange, .p = {TL_I64}, .q = {0, 10, 3}, .flags = EXACT,
     .torch = "torch.arange(0, 10, 3)"},
    {"arange down", {0}, arange, .p = {TL_I16}, .q = {5, -5, -2}, .flags = EXACT,
     .torch = "torch.arange(5, -5, -2)"},
    {"arange fractions", {0}, arange, .p = {TL_F64}, .q = {0, 1, 0.1}, .flags = EXACT,
     .torch = "torch.arange(0, 1, 0.1, dtype=torch.float64)"},
    {"arange empty", {0}, arange, .p = {TL_F32}, .q = {3, 3, 1}, .flags = EXACT,
     .torch = "torch.zeros(0)"},
    {"arange backwards is empty", {0}, arange, .p = {TL_U8}, .q = {3, -300, 1}, .flags = EXACT,
     .torch = "torch.zeros(0, dtype=torch.int64)"},
    {"arange bfloat16", {0}, arange, .p = {TL_BF16}, .q = {250, 262, 1}, .flags = EXACT,
     .torch = "torch.arange(250, 262.0).bfloat16()"},
    {"arange uint8", {0}, arange, .p = {TL_U8}, .q = {0, 256, 51}, .flags = EXACT,
     .torch = "torch.arange(0, 256, 51)"},
    {"arange long", {0}, arange, .p = {TL_I32}, .q = {0, 1009, 1}, .flags = EXACT,
     .torch = "torch.arange(1009)"},
    {"arange large int64", {0}, arange, .p = {TL_I64}, .q = {0x1p60, 0x1p60 + 1024, 256},
     .flags = EXACT, .torch = "torch.arange(2**60, 2**60 + 1024, 256)"},
    {"arange in an expression", {"4"}, times_arange, .q = {1, 5, 1},
     .torch = "a * torch.arange(1, 5)"},
    {"arange step 0", {0}, arange, .p = {TL_F32}, .q = {0, 5, 0},
     .fails = "arange: from 0 to 5 in steps of 0"},
    {"arange infinite", {0}, arange, .p = {TL_F32}, .q = {0, INFINITY, 1},
     .fails = "must be finite"},
    {"arange infinite step", {0}, arange, .p = {TL_F32}, .q = {0, 1, INFINITY},
     .fails = "must be finite"},
    {"arange nan", {0}, arange, .p = {TL_F32}, .q = {NAN, 5, 1}, .fails = "must be finite"},
    {"arange int fraction", {0}, arange, .p = {TL_I32}, .q = {0, 5, 0.5},
     .fails = "arange: the last element is 4.5 and must be a whole number"},
    {"arange int fractions that end whole", {0}, arange, .p = {TL_I32}, .q = {0, 5.5, 2.5},
     .fails = "start + step is 2.5"},
    {"arange int8 too far", {0}, arange, .p = {TL_I8}, .q = {0, 200, 1},
     .fails = "the last element is 199"},
    {"arange too many", {0}, arange, .p = {TL_F32}, .q = {0, 1e18, 1}, .fails = "too many"},
    {"arange bool", {0}, arange, .p = {TL_BOOL}, .q = {0, 2, 1},
     .fails = "arange: the type must be of numbers"},

    {"one_hot", {"5:int<4"}, one_hot, .p = {4, TL_F32}, .flags = EXACT, .torch = "F.one_hot(a, 4)"},
    {"one_hot int64", {"2x3:int64<5"}, one_hot, .p = {5, TL_I64}, .flags = EXACT,
     .torch = "F.one_hot(a, 5)"},
    {"one_hot view", {"4x3:int<6:T"}, one_hot, .p = {6, TL_F16}, .flags = EXACT,
     .torch = "F.one_hot(a, 6)"},
    {"one_hot bool", {"3:u8:=2 0 1"}, one_hot, .p = {3, TL_BOOL}, .flags = EXACT,
     .torch = "F.one_hot(a, 3)"},
    {"one_hot scalar", {"-:int<3"}, one_hot, .p = {3, TL_BF16}, .flags = EXACT,
     .torch = "F.one_hot(a, 3)"},
    {"one_hot outside", {"4:i32:=-1 3 0 100"}, one_hot, .p = {3, TL_F32}, .flags = EXACT,
     .torch = "torch.tensor([[0., 0, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0]])"},
    {"one_hot depth 0", {"4:int<3"}, one_hot, .p = {0, TL_F32}, .flags = EXACT,
     .torch = "torch.zeros(4, 0)"},
    {"one_hot nothing", {"0:int<3"}, one_hot, .p = {3, TL_F32}, .flags = EXACT},
    {"one_hot in an expression", {"3:int<4", "3x4"}, times_one_hot, .p = {4},
     .torch = "b * F.one_hot(a, 4)"},
    {"one_hot of floats", {"3"}, one_hot, .p = {3, TL_F32},
     .fails = "one_hot: the tensor of indices is float"},
    {"one_hot of bools", {"3:bool"}, one_hot, .p = {3, TL_F32},
     .fails = "must be of an integer type"},
    {"one_hot negative depth", {"3:int<3"}, one_hot, .p = {-1, TL_F32}, .fails = "the depth is -1"},
    {"one_hot rank", {"1x1x1x1x1x1x1x2:int<3"}, one_hot, .p = {3, TL_F32},
     .fails = "8 dimensions already"},
    {"one_hot null", {"3"}, one_hot_null, .fails = "one_hot: input 0 is NULL"},
    {"eye", {0}, eye, .p = {TL_F32, 3, 3}, .flags = EXACT, .torch = "torch.eye(3)"},
    {"eye wide", {0}, eye, .p = {TL_I32, 2, 5}, .flags = EXACT,
     .torch = "torch.eye(2, 5, dtype=torch.int32)"},
    {"eye tall", {0}, eye, .p = {TL_F64, 5, 2}, .flags = EXACT,
     .torch = "torch.eye(5, 2, dtype=torch.float64)"},
    {"eye nothing", {0}, eye, .p = {TL_F32, 0, 3}, .flags = EXACT, .torch = "torch.zeros(0, 3)"},
    {"from", {0}, from, .flags = EXACT, .torch = "torch.tensor([[1, -2], [3, 32767]])"},
    {"from doubles", {0}, from_doubles, .p = {TL_F32}, .flags = EXACT,
     .torch = "torch.tensor([1.5, -2, 0, 255])"},
    {"from doubles to uint8", {0}, from_doubles, .p = {TL_U8}, .flags = EXACT,
     .torch = "torch.tensor([1, 254, 0, 255])"},
    {"from negative", {0}, from_negative, .fails = "tensor: "},
    {"number", {"2x3"}, number, .q = {1.25}, .torch = "a + 1.25"},
};
// clang-format on

int main(int argc, char **argv)
{
    return op_cases_main(argc, argv, "create", cases, TL_COUNT(cases));
}
