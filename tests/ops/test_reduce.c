#include "ops/lab.h"

#include <tilth/ops/elementwise.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

#include "op_cases.h"

/* --- calls: p[0] axes follow it (-1: all), p[8] keeps dimensions, p[9] is the correction ------ */

static tl_axes axes_of(const op_case *k)
{
    return k->p[0] < 0 ? TL_ALL : (tl_axes){k->p + 1, k->p[0]};
}

#define REDUCTION(name) OP_CALL(name, tl_##name(c, in[0], axes_of(k), k->p[8] != 0))
REDUCTION(sum)
REDUCTION(prod)
REDUCTION(max)
REDUCTION(min)
REDUCTION(mean)
REDUCTION(logsumexp)
REDUCTION(any)
REDUCTION(all)
OP_CALL(variance, tl_variance(c, in[0], axes_of(k), k->p[9], k->p[8] != 0))
OP_CALL(std_, tl_std(c, in[0], axes_of(k), k->p[9], k->p[8] != 0))
OP_CALL(argmax, tl_argmax(c, in[0], k->p[0], k->p[8] != 0))
OP_CALL(argmin, tl_argmin(c, in[0], k->p[0], k->p[8] != 0))
OP_CALL(cumsum, tl_cumsum(c, in[0], k->p[0], k->p[1] != 0, k->p[2] != 0))
OP_CALL(square_of_sum, tl_square(c, tl_sum(c, in[0], axes_of(k), k->p[8] != 0)))
OP_CALL(square_of_max, tl_square(c, tl_max(c, in[0], axes_of(k), k->p[8] != 0)))
OP_CALL(square_of_cumsum, tl_square(c, tl_cumsum(c, in[0], k->p[0], k->p[1] != 0, k->p[2] != 0)))
OP_CALL(normalized, tl_div(c, tl_sub(c, in[0], tl_mean(c, in[0], TL_AXES(-1), true)),
                           tl_std(c, in[0], TL_AXES(-1), 0, true)))

#define EXACT .flags = CASE_EXACT
#define CONSTANT .flags = CASE_EXACT | CASE_NO_GRADIENT
#define KINK .flags = CASE_NO_DIFFERENCES

/* What every reduction of floats must do. `v` are words that the values need; torch: of all, and of
 * the axes in p. */
#define COMMON(op, v, torch_all, torch_axes)                                                       \
    {#op " all", {"3x5" v}, op, .p = {-1}, .torch = torch_all},                                    \
        {#op " all kept", {"3x5" v}, op, .p = {-1, [8] = 1}},                                      \
        {#op " scalar", {"-" v}, op, .p = {-1}},                                                   \
        {#op " rows", {"4x3" v}, op, .p = {1, 0}, .torch = torch_axes},                            \
        {#op " columns", {"3x7" v}, op, .p = {1, -1}, .torch = torch_axes},                        \
        {#op " columns kept", {"3x7" v}, op, .p = {1, 1, [8] = 1}, .torch = torch_axes},           \
        {#op " middle", {"2x3x4" v}, op, .p = {1, 1}, .torch = torch_axes},                        \
        {#op " outer two", {"2x3x4" v}, op, .p = {2, 2, 0}},                                       \
        {#op " inner two kept", {"2x3x4" v}, op, .p = {2, -1, -2, [8] = 1}},                       \
        {#op " no axes", {"2x3" v}, op, .p = {0}}, {#op " of 1", {"2x1x3" v}, op, .p = {1, 1}},    \
        {#op " T", {"4x3" v ":T"}, op, .p = {1, 0}, .torch = torch_axes},                          \
        {#op " T columns", {"2x4x3" v ":T"}, op, .p = {2, 0, 2}},                                  \
        {#op " S", {"3x5" v ":S"}, op, .p = {1, 1}, .torch = torch_axes},                          \
        {#op " B", {"3x5" v ":B"}, op, .p = {1, 1}},                                               \
        {#op " 8", {"2x1x2x1x3x1x2x2" v}, op, .p = {4, 0, 4, 5, 7}},                               \
        {#op " 8 T", {"2x1x2x1x3x1x2x2" v ":T"}, op, .p = {3, 2, 6, 7, [8] = 1}},                  \
        {#op " to nothing", {"0x3" v}, op, .p = {1, 1}},                                           \
        {#op " axis", {"3x5" v}, op, .p = {1, 2}, .fails = "axes: axis 2 of a tensor with 2"},     \
        {#op " axis before", {"3x5" v}, op, .p = {1, -3}, .fails = "axes: axis -3"},               \
    {                                                                                              \
#op " axis twice", {"3x5" v }, op, .p = {2, 1, -1 }, .fails = "axis 1 is named twice"      \
    }

#define DIM "(dim=p[1:1+p[0]], keepdim=bool(p[8]))"

static const op_case cases[] = {
    COMMON(sum, "", "a.sum()", "a.sum" DIM),
    {"sum long", {"3x1001"}, sum, .p = {1, 1}, .torch = "a.sum(1)"},
    {"sum long rows", {"1001x3"}, sum, .p = {1, 0}, .torch = "a.sum(0)"},
    {"sum nothing", {"3x0"}, sum, .p = {1, 1}},
    {"sum none at all", {"0"}, sum, .p = {-1}},
    {"sum B axis", {"3x5:B"}, sum, .p = {1, 0}},
    {"sum squared", {"3x5"}, square_of_sum, .p = {1, 0}, .torch = "a.sum(0) ** 2"},
    {"sum i8", {"3x50:i8:in(-100,100)"}, sum, .p = {1, 1}, CONSTANT},
    {"sum u8", {"3x50:u8"}, sum, .p = {1, 0}, CONSTANT},
    {"sum i16", {"3x5:i16"}, sum, .p = {-1}, CONSTANT},
    {"sum i32", {"3x5:i32"}, sum, .p = {1, 0}, CONSTANT, .torch = "a.sum(0)"},
    {"sum i64",
     {"3x5:i64"},
     sum,
     .p = {1, -1, [8] = 1},
     CONSTANT,
     .torch = "a.sum(-1, keepdim=True)"},
    {"sum bools", {"3x5:bool"}, sum, .p = {-1}, .fails = "must be of a number type"},

    COMMON(mean, "", "a.mean()", "a.mean" DIM),
    {"mean long", {"2x1001"}, mean, .p = {1, 1}, .torch = "a.mean(1)"},
    {"mean ints", {"3x5:i32"}, mean, .p = {-1}, .fails = "must be of a floating-point type"},
    {"mean nothing", {"3x0"}, mean, .p = {1, 1}, .flags = CASE_NO_GRADIENT},

    COMMON(max, ":distinct", "a.amax()", "a.amax" DIM),
    {"max ties", {"3x4:=1 2 2 0 2 2 2 2 1 1 3 1"}, max, .p = {1, 1}, KINK, .torch = "a.amax(1)"},
    {"max ties all", {"3x3:=2 1 2"}, max, .p = {-1}, KINK, .torch = "a.amax()"},
    {"max B axis", {"3x5:B"}, max, .p = {1, 0}, KINK},
    {"max squared", {"3x5:distinct"}, square_of_max, .p = {1, 1}, .torch = "a.amax(1) ** 2"},
    {"max nan", {"2x3:=1 nan 2 3 4 inf"}, max, .p = {1, 1}, CONSTANT, .torch = "a.amax(1)"},
    {"max infinite", {"2x2:=-inf -inf inf -inf"}, max, .p = {1, 1}, CONSTANT},
    {"max negative", {"2x3:=-3 -1 -2"}, max, .p = {1, 1}, EXACT},
    {"max i8", {"3x5:i8"}, max, .p = {1, 0}, CONSTANT},
    {"max u8", {"3x5:u8"}, max, .p = {1, 1}, CONSTANT},
    {"max i64", {"3x5:i64"}, max, .p = {-1}, CONSTANT, .torch = "a.amax()"},
    {"max nothing", {"3x0"}, max, .p = {1, 1}, .fails = "hold no elements"},
    {"max none at all", {"0"}, max, .p = {-1}, .fails = "hold no elements"},
    {"max bools", {"3:bool"}, max, .p = {-1}, .fails = "must be of a number type"},

    COMMON(min, ":distinct", "a.amin()", "a.amin" DIM),
    {"min ties", {"3x4:=1 2 2 0 2 2 2 2 1 1 3 1"}, min, .p = {1, 1}, KINK, .torch = "a.amin(1)"},
    {"min nan", {"2x3:=1 nan 2 3 4 inf"}, min, .p = {1, 1}, CONSTANT, .torch = "a.amin(1)"},
    {"min i16", {"3x5:i16"}, min, .p = {1, 0}, CONSTANT},
    {"min i64", {"3x5:i64"}, min, .p = {-1}, CONSTANT, .torch = "a.amin()"},
    {"min nothing", {"0x3"}, min, .p = {1, 0}, .fails = "hold no elements"},

    COMMON(prod, "", "a.prod()", "a.prod(dim=p[1], keepdim=bool(p[8]))"),
    {"prod one zero", {"5:=2 0 3 -1 0.5"}, prod, .p = {-1}, .torch = "a.prod()"},
    {"prod two zeros", {"5:=2 0 3 0 0.5"}, prod, .p = {-1}, .torch = "a.prod()"},
    {"prod zeros", {"3:=0"}, prod, .p = {-1}, .torch = "a.prod()"},
    {"prod zeros in rows",
     {"3x4:=1 0 2 3 4 5 6 7 0 0 2 1"},
     prod,
     .p = {1, 1},
     .torch = "a.prod(1)"},
    {"prod zeros in columns", {"4x3:=1 0 2 3 0 5 0 7"}, prod, .p = {1, 0}, .torch = "a.prod(0)"},
    {"prod of two", {"3x2"}, prod, .p = {1, 1}, .torch = "a.prod(1)"},
    {"prod of three", {"3x3"}, prod, .p = {1, 1}, .torch = "a.prod(1)"},
    {"prod of 17", {"2x17:in(0.5,1.5)"}, prod, .p = {1, 1}, .torch = "a.prod(1)"},
    {"prod nothing", {"3x0"}, prod, .p = {1, 1}},
    {"prod i32", {"3x4:i32"}, prod, .p = {1, 1}, CONSTANT, .torch = "a.prod(1)"},
    {"prod u8", {"3x4:u8"}, prod, .p = {1, 1}, CONSTANT},
    {"prod bools", {"3:bool"}, prod, .p = {-1}, .fails = "must be of a number type"},

    COMMON(logsumexp, "", "a.logsumexp((0, 1))", "a.logsumexp" DIM),
    {"logsumexp large",
     {"2x3:=1000 1001 999 -1000 -999 -1001"},
     logsumexp,
     .p = {1, 1},
     .flags = CASE_NO_DIFFERENCES | CASE_F32_UP,
     .scale = 10,
     .torch = "a.logsumexp(1)"},
    {"logsumexp some infinite",
     {"2x3:=1 -inf 2 -inf 3 -inf"},
     logsumexp,
     .p = {1, 1},
     KINK,
     .torch = "a.logsumexp(1)"},
    {"logsumexp all infinite", {"2x2:=-inf -inf 1 2"}, logsumexp, .p = {1, 1}, KINK},
    {"logsumexp infinite", {"2:=inf 1"}, logsumexp, .p = {-1}, CONSTANT},
    {"logsumexp nan", {"3:=nan 1 inf"}, logsumexp, .p = {-1}, CONSTANT},
    {"logsumexp nothing", {"3x0"}, logsumexp, .p = {1, 1}, CONSTANT},
    {"logsumexp long", {"2x1001:in(-8,8)"}, logsumexp, .p = {1, 1}, .torch = "a.logsumexp(1)"},
    {"logsumexp ints",
     {"3:i32"},
     logsumexp,
     .p = {-1},
     .fails = "must be of a floating-point type"},

    COMMON(variance, "", "a.var(correction=0)",
           "a.var(dim=p[1:1+p[0]], correction=0, keepdim=bool(p[8]))"),
    {"variance corrected",
     {"3x5"},
     variance,
     .p = {1, 1, [9] = 1},
     .torch = "a.var(1, correction=1)"},
    {"variance corrected all",
     {"3x5:T"},
     variance,
     .p = {-1, [9] = 1},
     .torch = "a.var(correction=1)"},
    {"variance far from 0",
     {"3x8:in(100,101)"},
     variance,
     .p = {1, 1},
     .flags = CASE_F32_UP,
     .scale = 10,
     .torch = "a.var(1, correction=0)"},
    {"variance of one corrected",
     {"2x1"},
     variance,
     .p = {1, 1, [9] = 1},
     .flags = CASE_NO_GRADIENT,
     .torch = "a.var(1, correction=1)"},
    {"variance nothing", {"2x0"}, variance, .p = {1, 1}, .flags = CASE_NO_GRADIENT},
    {"variance long", {"2x1001"}, variance, .p = {1, 1}, .torch = "a.var(1, correction=0)"},
    {"variance correction",
     {"3"},
     variance,
     .p = {-1, [9] = 2},
     .fails = "a correction of 2; it is 0 or 1"},
    {"variance ints", {"3:i32"}, variance, .p = {-1}, .fails = "must be of a floating-point type"},
    {"std", {"3x5"}, std_, .p = {1, 1}, .torch = "a.std(1, correction=0)"},
    {"std corrected",
     {"3x5:T"},
     std_,
     .p = {1, 0, [9] = 1, [8] = 1},
     .torch = "a.std(0, correction=1, keepdim=True)"},
    {"std all", {"2x3x4:S"}, std_, .p = {-1}, .torch = "a.std(correction=0)"},
    {"std axis", {"3x5"}, std_, .p = {1, 2}, .fails = "variance: axes: axis 2"},
    {"normalized rows",
     {"3x6"},
     normalized,
     .torch = "(a - a.mean(-1, keepdim=True)) / a.std(-1, correction=0, keepdim=True)"},

    /* --- truth ----------------------------------------------------------------------------------
     */
    {"any rows", {"3x4:bool"}, any, .p = {1, 1}, CONSTANT, .torch = "a.any(1)"},
    {"any all", {"3x4:bool:=0"}, any, .p = {-1}, CONSTANT, .torch = "a.any()"},
    {"any kept",
     {"3x4:bool:T"},
     any,
     .p = {1, 0, [8] = 1},
     CONSTANT,
     .torch = "a.any(0, keepdim=True)"},
    {"any nothing", {"3x0:bool"}, any, .p = {1, 1}, CONSTANT},
    {"any floats", {"2x2:=0 0 nan 0"}, any, .p = {1, 1}, CONSTANT},
    {"any ints", {"2x3:i32:=0 0 0 0 -1 0"}, any, .p = {1, 1}, CONSTANT},
    {"any 8", {"1x2x1x2x1x2x1x2:bool"}, any, .p = {2, 1, 7}, CONSTANT},
    {"all rows", {"3x2:bool"}, all, .p = {1, 1}, CONSTANT, .torch = "a.all(1)"},
    {"all all", {"3x4:bool:=1"}, all, .p = {-1}, CONSTANT, .torch = "a.all()"},
    {"all S", {"3x2:bool:S"}, all, .p = {1, 0}, CONSTANT},
    {"all nothing", {"3x0:bool"}, all, .p = {1, 1}, CONSTANT},
    {"all floats", {"2x2:=1 -0 nan 1"}, all, .p = {1, 1}, CONSTANT},
    {"all ints", {"2x3:i64:=1 2 3 0 -1 4"}, all, .p = {1, 1}, CONSTANT},
    {"all axis", {"3:bool"}, all, .p = {1, 1}, .fails = "all: axes: axis 1"},

    /* --- argmax, argmin
       --------------------------------------------------------------------------- */
    {"argmax", {"3x5:distinct"}, argmax, .p = {1}, CONSTANT, .torch = "a.argmax(1)"},
    {"argmax rows", {"3x5:distinct"}, argmax, .p = {0}, CONSTANT, .torch = "a.argmax(0)"},
    {"argmax kept",
     {"3x5:distinct"},
     argmax,
     .p = {-1, [8] = 1},
     CONSTANT,
     .torch = "a.argmax(-1, keepdim=True)"},
    {"argmax middle", {"2x3x4:distinct:T"}, argmax, .p = {1}, CONSTANT, .torch = "a.argmax(1)"},
    {"argmax vector", {"9:distinct"}, argmax, .p = {0}, CONSTANT},
    {"argmax S", {"3x5:distinct:S"}, argmax, .p = {1}, CONSTANT},
    {"argmax B", {"3x5:distinct:B"}, argmax, .p = {0}, CONSTANT},
    {"argmax ties", {"2x4:=1 3 3 2 5 5 5 5"}, argmax, .p = {1}, CONSTANT, .torch = "a.argmax(1)"},
    {"argmax nan",
     {"2x4:=1 nan inf nan 1 2 inf 3"},
     argmax,
     .p = {1},
     CONSTANT,
     .torch = "a.argmax(1)"},
    {"argmax infinite", {"3:=-inf"}, argmax, .p = {0}, CONSTANT},
    {"argmax 8", {"1x2x1x2x3x1x2x1:distinct"}, argmax, .p = {4}, CONSTANT},
    {"argmax to nothing", {"0x3"}, argmax, .p = {1}, CONSTANT},
    {"argmax ints", {"3x5:i32"}, argmax, .p = {1}, CONSTANT},
    {"argmax bools", {"3x5:bool"}, argmax, .p = {1}, CONSTANT},
    {"argmax nothing",
     {"3x0"},
     argmax,
     .p = {1},
     .fails = "argmax: axis 1 of float32[3, 0] holds no elements"},
    {"argmax axis", {"3x5"}, argmax, .p = {2}, .fails = "argmax: axis 2"},
    {"argmax scalar", {"-"}, argmax, .p = {0}, .fails = "argmax: axis 0"},
    {"argmin", {"3x5:distinct"}, argmin, .p = {1}, CONSTANT, .torch = "a.argmin(1)"},
    {"argmin kept T",
     {"3x5:distinct:T"},
     argmin,
     .p = {0, [8] = 1},
     CONSTANT,
     .torch = "a.argmin(0, keepdim=True)"},
    {"argmin ties", {"2x4:=3 1 1 2 5 5 5 5"}, argmin, .p = {1}, CONSTANT, .torch = "a.argmin(1)"},
    {"argmin nan",
     {"2x4:=1 nan -inf nan 1 2 -inf 3"},
     argmin,
     .p = {1},
     CONSTANT,
     .torch = "a.argmin(1)"},
    {"argmin u8", {"3x5:u8"}, argmin, .p = {-1}, CONSTANT},
    {"argmin nothing", {"0x3"}, argmin, .p = {0}, .fails = "axis 0 of"},

    /* --- cumsum ---------------------------------------------------------------------------------
     */
    {"cumsum", {"3x5"}, cumsum, .p = {1}, .torch = "a.cumsum(1)"},
    {"cumsum rows", {"4x3"}, cumsum, .p = {0}, .torch = "a.cumsum(0)"},
    {"cumsum exclusive", {"3x5"}, cumsum, .p = {-1, 1}, .torch = "a.cumsum(1) - a"},
    {"cumsum reverse", {"3x5"}, cumsum, .p = {1, 0, 1}, .torch = "a.flip([1]).cumsum(1).flip([1])"},
    {"cumsum exclusive reverse",
     {"3x5"},
     cumsum,
     .p = {1, 1, 1},
     .torch = "a.flip([1]).cumsum(1).flip([1]) - a"},
    {"cumsum middle", {"2x4x3"}, cumsum, .p = {1}, .torch = "a.cumsum(1)"},
    {"cumsum vector", {"11"}, cumsum, .p = {0}},
    {"cumsum one", {"3x1"}, cumsum, .p = {1, 1}},
    {"cumsum T", {"3x5:T"}, cumsum, .p = {1}, .torch = "a.cumsum(1)"},
    {"cumsum S", {"3x5:S"}, cumsum, .p = {1, 0, 1}},
    {"cumsum B", {"3x5:B"}, cumsum, .p = {0}},
    {"cumsum nothing", {"3x0"}, cumsum, .p = {1}},
    {"cumsum of none", {"0x3"}, cumsum, .p = {1}},
    {"cumsum 8", {"1x2x1x2x3x1x2x1"}, cumsum, .p = {4}},
    {"cumsum long", {"2x501"}, cumsum, .p = {1}, .scale = 3, .torch = "a.cumsum(1)"},
    {"cumsum squared", {"3x5"}, square_of_cumsum, .p = {1, 1}, .torch = "(a.cumsum(1) - a) ** 2"},
    {"cumsum i32", {"3x5:i32"}, cumsum, .p = {1}, CONSTANT, .torch = "a.cumsum(1)"},
    {"cumsum i8", {"2x60:i8:in(-100,100)"}, cumsum, .p = {1}, CONSTANT},
    {"cumsum bools", {"3:bool"}, cumsum, .p = {0}, .fails = "must be of a number type"},
    {"cumsum axis", {"3x5"}, cumsum, .p = {2}, .fails = "cumsum: axis 2"},
    {"cumsum scalar", {"-"}, cumsum, .p = {0}, .fails = "cumsum: axis 0"},

    /* --- large enough for several tasks, blocks and tails ------------------------------------- */
    {"sum parts", {"3x50001:in(0,1)"}, sum, .p = {1, 1}, .flags = CASE_NO_GRADIENT},
    {"sum parts of columns", {"701x301:in(0,1)"}, sum, .p = {1, 0}, .flags = CASE_NO_GRADIENT},
    {"sum blocks", {"3x41x700:in(0,1)"}, sum, .p = {1, 1}, .flags = CASE_NO_GRADIENT},
    {"sum outside and middle",
     {"6x5x40x9:in(0,1)"},
     sum,
     .p = {2, 0, 2},
     .flags = CASE_NO_GRADIENT},
    {"sum ends", {"20x30x50:in(0,1)"}, sum, .p = {2, 0, 2}, .flags = CASE_NO_GRADIENT},
    {"sum few columns", {"5003x7:in(0,1)"}, sum, .p = {1, 0}, .flags = CASE_NO_GRADIENT},
    {"sum short rows", {"5003x3:in(0,1)"}, sum, .p = {1, 1}, .flags = CASE_NO_GRADIENT},
    {"max parts", {"2x70001"}, max, .p = {1, 1}, CONSTANT},
    {"max blocks", {"203x701"}, max, .p = {1, 0}, CONSTANT},
    {"min few columns", {"5003x5"}, min, .p = {1, 0}, CONSTANT},
    {"min short rows", {"5003x8"}, min, .p = {1, 1}, CONSTANT},
    {"max nan among many", {"3x3001:=1 2 3 nan 5 6 7"}, max, .p = {1, 1}, CONSTANT},
    {"prod blocks", {"9x1201:in(0.5,1.5)"}, prod, .p = {1, 0}, .flags = CASE_NO_GRADIENT},
    {"mean parts", {"140001:in(0,1)"}, mean, .p = {-1}, .flags = CASE_NO_GRADIENT},
    {"variance parts", {"2x70001"}, variance, .p = {1, 1}, .flags = CASE_NO_GRADIENT},
    {"variance blocks", {"141x1100"}, variance, .p = {1, 0}, .flags = CASE_NO_GRADIENT},
    {"variance short rows",
     {"3001x4"},
     variance,
     .p = {1, 1},
     .flags = CASE_NO_GRADIENT,
     .scale = 4},
    {"logsumexp parts", {"140001:in(-8,8)"}, logsumexp, .p = {-1}, .flags = CASE_NO_GRADIENT},
    {"logsumexp blocks", {"60x700:in(-8,8)"}, logsumexp, .p = {1, 0}, .flags = CASE_NO_GRADIENT},
    {"logsumexp short rows",
     {"3001x3:in(-8,8)"},
     logsumexp,
     .p = {1, 1},
     .flags = CASE_NO_GRADIENT},
    {"sum i32 parts", {"140001:i32:in(-30000,30000)"}, sum, .p = {-1}, CONSTANT},
    {"sum i64 columns", {"203x701:i64"}, sum, .p = {1, 0}, CONSTANT},
    {"max i32 rows", {"7x3001:i32:in(-30000,30000)"}, max, .p = {1, 1}, CONSTANT},
    {"min i64 columns", {"203x701:i64:in(-30000,30000)"}, min, .p = {1, 0}, CONSTANT},
    {"prod i32 rows", {"7x301:i32"}, prod, .p = {1, 1}, CONSTANT},
    {"any many", {"301x701:bool:=0 0 0 0 1 0 0"}, any, .p = {1, 0}, CONSTANT},
    {"any none", {"3x50001:bool:=0"}, any, .p = {1, 1}, CONSTANT},
    {"all many", {"301x701:bool:=1 1 1 1 0 1 1"}, all, .p = {1, 0}, CONSTANT},
    {"all but one", {"7x1001:bool:=1 1 1 1 1 1 1 1 1 1 1 0"}, all, .p = {1, 1}, CONSTANT},
    {"argmax parts", {"2x140001"}, argmax, .p = {1}, CONSTANT},
    {"argmin rows", {"40x1203"}, argmin, .p = {1}, CONSTANT},
    {"argmax blocks", {"60x701"}, argmax, .p = {0}, CONSTANT},
    {"argmin blocks nan", {"60x701:=3 1 nan 2 5"}, argmin, .p = {0}, CONSTANT},
    {"cumsum rows of many", {"9x3001:in(0,1)"}, cumsum, .p = {1}, .flags = CASE_NO_GRADIENT},
    {"cumsum rows back", {"9x3001:in(0,1)"}, cumsum, .p = {1, 1, 1}, .flags = CASE_NO_GRADIENT},
    {"cumsum blocks", {"60x701:in(0,1)"}, cumsum, .p = {0}, .flags = CASE_NO_GRADIENT},
};

/* --- what rows cannot say --------------------------------------------------------------------- */

static double item(tl_tensor *t)
{
    double v = -77;
    assert_non_null(t);
    assert_ok(tl_tensor_item(t, &v));
    return v;
}

static void nothing_comes_together_as_documented(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    tl_tensor *x = tl_zeros(c, TL_F32, TL_SHAPE(0, 3)), *b = tl_zeros(c, TL_BOOL, TL_SHAPE(0));
    tl_tensor *i = tl_zeros(c, TL_I32, TL_SHAPE(0));
    assert_near(item(tl_sum(c, x, TL_ALL, false)), 0, 0);
    assert_near(item(tl_prod(c, x, TL_ALL, false)), 1, 0);
    assert_near(item(tl_sum(c, i, TL_ALL, false)), 0, 0);
    assert_near(item(tl_prod(c, i, TL_ALL, false)), 1, 0);
    assert_near(item(tl_any(c, b, TL_ALL, false)), 0, 0);
    assert_near(item(tl_all(c, b, TL_ALL, false)), 1, 0);
    assert_true(isnan(item(tl_mean(c, x, TL_ALL, false))));
    assert_true(isnan(item(tl_variance(c, x, TL_ALL, 1, false))));
    assert_true(item(tl_logsumexp(c, x, TL_ALL, false)) == -INFINITY);
    assert_null(tl_max(c, x, TL_AXES(0), false));
    assert_fails(tl_ctx_status(c), TL_EINVAL, "max: the axes of float32[0, 3] hold no elements");
    tl_ctx_clear(c);
}

static void integers_are_exact_and_wrap(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    const int64_t wide[] = {INT64_MAX - 1, 1, INT64_MAX},
                  odd[] = {INT64_C(3037000501), INT64_C(3037000501)};
    int64_t got[3];
    tl_tensor *x = tl_from(c, TL_I64, TL_SHAPE(3), wide);
    assert_ok(tl_tensor_get(tl_sum(c, tl_slice(c, x, 0, 0, 2, 1), TL_ALL, false), got, 8));
    assert_true(got[0] == INT64_MAX);
    assert_ok(tl_tensor_get(tl_sum(c, x, TL_ALL, false), got, 8));
    assert_true(got[0] == -2);
    assert_ok(tl_tensor_get(tl_max(c, x, TL_ALL, false), got, 8));
    assert_true(got[0] == INT64_MAX);
    assert_near(item(tl_argmax(c, x, 0, false)), 2, 0);
    assert_ok(tl_tensor_get(tl_cumsum(c, x, 0, false, false), got, 24));
    assert_true(got[1] == INT64_MAX && got[2] == -2);
    assert_ok(
        tl_tensor_get(tl_prod(c, tl_from(c, TL_I64, TL_SHAPE(2), odd), TL_ALL, false), got, 8));
    assert_true(got[0] == (int64_t)(UINT64_C(3037000501) * UINT64_C(3037000501)));
    assert_near(item(tl_sum(c, tl_full(c, TL_I8, TL_SHAPE(3), 100), TL_ALL, false)), 44, 0);
    assert_near(item(tl_sum(c, tl_full(c, TL_U8, TL_SHAPE(3), 100), TL_ALL, false)), 44, 0);
}

static void sums_of_16_bits_are_rounded_once(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    tl_tensor *x = tl_ones(c, TL_BF16, TL_SHAPE(1024)),
              *h = tl_full(c, TL_F16, TL_SHAPE(4096), 0.5);
    assert_near(item(tl_sum(c, x, TL_ALL, false)), 1024, 0);
    assert_near(item(tl_sum(c, h, TL_ALL, false)), 2048, 0);
    assert_near(item(tl_mean(c, tl_full(c, TL_F16, TL_SHAPE(4096), 32), TL_ALL, false)), 32, 0);
    assert_near(item(tl_take(c, tl_cumsum(c, x, 0, false, false), 0, -1)), 1024, 0);
}

static void ties_share_the_gradient(void **state)
{
    // More ties than bfloat16 could count.
    tl_ctx *c = ((fixture *)*state)->c;
    tl_tensor *x = tl_ones(c, TL_BF16, TL_SHAPE(512)), *g;
    assert_ok(tl_watch(x));
    tl_ctx_set_taping(c, true);
    assert_ok(tl_gradient(c, tl_max(c, x, TL_ALL, false), &x, 1, &g));
    assert_near(item(tl_take(c, g, 0, 300)), 1.0 / 512, 0);
}

static void minus_infinity_has_no_gradient(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    tl_tensor *x = tl_full(c, TL_F32, TL_SHAPE(4), -INFINITY), *g;
    assert_ok(tl_watch(x));
    tl_ctx_set_taping(c, true);
    assert_ok(tl_gradient(c, tl_logsumexp(c, x, TL_ALL, false), &x, 1, &g));
    assert_near(item(tl_sum(c, g, TL_ALL, false)), 0, 0);
}

int main(int argc, char **argv)
{
    int failed = op_cases_main(argc, argv, "reduce", cases, TL_COUNT(cases));
    if (argc > 2) return failed; // some rows only, or their inputs
    const struct CMUnitTest tests[] = {
        LAB_TEST(nothing_comes_together_as_documented), LAB_TEST(integers_are_exact_and_wrap),
        LAB_TEST(sums_of_16_bits_are_rounded_once),     LAB_TEST(ties_share_the_gradient),
        LAB_TEST(minus_infinity_has_no_gradient),
    };
    int broken = cmocka_run_group_tests(tests, NULL, NULL);
    return failed ? failed : broken;
}
