#include "op_cases.h"

#include <tilth/ops/elementwise.h>
#include <tilth/ops/pool.h>
#include <tilth/ops/view.h>
#include <tilth/sys/core/op.h>
#include <tilth/sys/ops/apply.h>

/* Numbers of a row, down before across: sizes, strides, padding, pads. */
#define ARGS                                                                                       \
    .size = {k->p[0], k->p[1]}, .stride = {k->p[2], k->p[3]}, .padding = (tl_padding)k->p[4],      \
    .pads = {k->p[5], k->p[6], k->p[7], k->p[8]}
OP_CALL(max2d, tl_max_pool2d(c, in[0], ARGS))
OP_CALL(avg2d, tl_avg_pool2d(c, in[0], ARGS))
/* Size, stride, padding, before, after. */
#define ARGS_1D                                                                                    \
    .size = k->p[0], .stride = k->p[1], .padding = (tl_padding)k->p[2], .pads = {k->p[3], k->p[4]}
OP_CALL(max1d, tl_max_pool1d(c, in[0], ARGS_1D))
OP_CALL(avg1d, tl_avg_pool1d(c, in[0], ARGS_1D))
OP_CALL(global_avg, tl_global_avg_pool(c, in[0], k->p[0]))
OP_CALL(global_max, tl_global_max_pool(c, in[0], k->p[0]))
OP_CALL(global_of_null, tl_global_avg_pool(c, NULL, false))
OP_CALL(max_of_null, tl_max_pool2d(c, NULL, .size = {2}))
OP_CALL(avg_of_null, tl_avg_pool1d(c, NULL, .size = 2))
OP_CALL(max_twice,
        tl_max_pool2d(c, tl_max_pool2d(c, in[0], .size = {2}, .stride = {1}), .size = {2}))
OP_CALL(channels_first,
        tl_max_pool2d(c, tl_transpose(c, in[0], (const int64_t[]){0, 2, 3, 1}, 4), ARGS))

static tl_tensor *apply(tl_ctx *c, const op_case *k, tl_op op, int inputs, tl_tensor *const *in)
{
    const int64_t *p = k->p;
    tl_pool_attr attr = {.size_y = p[0],
                         .size_x = p[1],
                         .stride_y = p[2],
                         .stride_x = p[3],
                         .top = p[5],
                         .bottom = p[6],
                         .left = p[7],
                         .right = p[8],
                         .height = p[9],
                         .width = p[10]};
    return tl_apply(c, op, &attr, inputs, in);
}
OP_CALL(max_grad, apply(c, k, TL_OP_max_pool2d_grad, 2, in))
OP_CALL(max_pick, apply(c, k, TL_OP_max_pool2d_pick, 2, in))
OP_CALL(places, apply(c, k, TL_OP_max_pool2d_places, 1, in))
OP_CALL(grad_by_places,
        apply(c, k, TL_OP_max_pool2d_grad, 2,
              ((tl_tensor *[]){in[0], apply(c, k, TL_OP_max_pool2d_places, 1, &in[1])})))
/* What the image and the places give, which is the same: zeros. */
OP_CALL(both_grads,
        tl_sub(c, apply(c, k, TL_OP_max_pool2d_grad, 2, in),
               apply(c, k, TL_OP_max_pool2d_grad, 2,
                     ((tl_tensor *[]){in[0], apply(c, k, TL_OP_max_pool2d_places, 1, &in[1])}))))
OP_CALL(avg_grad, apply(c, k, TL_OP_avg_pool2d_grad, 1, in))

/* --- PyTorch's -------------------------------------------------------------------------------- */
#define IMAGE "a.permute(0,3,1,2)"
#define BACK ".permute(0,2,3,1)"
#define WINDOW "(p[0], p[1] or p[0]), (p[2] or p[0], p[3] or p[2] or p[1] or p[0])"
#define SAME_RULE                                                                                  \
    "(lambda n, k, s: (lambda t: (t // 2, t - t // 2))(max((-(-n // s) - 1) * s + k - n, 0)))"
// Sums with and without padding: their quotient leaves the padding out.
#define MAX_PADDED                                                                                 \
    "F.max_pool2d(F.pad(" IMAGE ", (p[7],p[8],p[5],p[6]), value=-math.inf), " WINDOW ")" BACK
#define AVG_OVER(x) "F.avg_pool2d(" x ", " WINDOW ", divisor_override=1)"
#define AVG_PADDED                                                                                 \
    "(lambda pad: " AVG_OVER("F.pad(" IMAGE ", pad)") " / " AVG_OVER(                              \
        "F.pad(torch.ones_like(" IMAGE "), pad)") ")((p[7],p[8],p[5],p[6]))" BACK
#define SAME_PADS                                                                                  \
    "(lambda same: same(a.shape[2], p[1], p[3]) + same(a.shape[1], p[0], p[2]))(" SAME_RULE ")"
#define MAX_SAME "F.max_pool2d(F.pad(" IMAGE ", " SAME_PADS ", value=-math.inf), " WINDOW ")" BACK
#define AVG_SAME                                                                                   \
    "(lambda pad: " AVG_OVER("F.pad(" IMAGE ", pad)") " / " AVG_OVER(                              \
        "F.pad(torch.ones_like(" IMAGE "), pad)") ")(" SAME_PADS ")" BACK
#define MAX_VALID "F.max_pool2d(" IMAGE ", " WINDOW ")" BACK
#define AVG_VALID "F.avg_pool2d(" IMAGE ", " WINDOW ")" BACK

#define NOT_WATCHED .flags = CASE_NO_GRADIENT

enum { V = TL_VALID, S = TL_SAME, E = TL_EXPLICIT };

// clang-format off
static const op_case cases[] = {
    /* --- the largest --- */
    {"max 2x2", {"1x4x4x2:distinct"}, max2d, .p = {2, 2}, .torch = MAX_VALID},
    {"max, size given once", {"1x4x6x2:distinct"}, max2d, .p = {2}, .torch = MAX_VALID},
    {"max, stride given once", {"1x5x7x2:distinct"}, max2d, .p = {3, 3, 2}, .torch = MAX_VALID},
    {"max 3x3", {"2x5x4x2:distinct"}, max2d, .p = {3, 3, 1, 1}, .torch = MAX_VALID},
    {"max 3x2, stride 2 by 1", {"1x7x5x2:distinct"}, max2d, .p = {3, 2, 2, 1}, .torch = MAX_VALID},
    {"max of many channels", {"2x21x19x67"}, max2d, .flags = CASE_NO_DIFFERENCES,
     .p = {3, 3, 2, 2, S}},
    {"max of many rows", {"2x67x23x8"}, max2d, .flags = CASE_NO_DIFFERENCES,
     .p = {3, 2, 2, 1}},
    {"max 1x1", {"1x3x4x2:distinct"}, max2d, .p = {1, 1}, .torch = MAX_VALID},
    {"max 1x1, stride 2", {"1x3x4x2:distinct"}, max2d, .p = {1, 1, 2, 2}, .torch = MAX_VALID},
    {"max, stride larger than the window", {"1x8x7x2:distinct"}, max2d, .p = {2, 2, 3, 4},
     .torch = MAX_VALID},
    {"max of the whole image", {"2x3x4x3:distinct"}, max2d, .p = {3, 4}, .torch = MAX_VALID},
    {"max of one pixel", {"2x1x1x3:distinct"}, max2d, .p = {1, 1}, .torch = MAX_VALID},
    {"max, a rest is left", {"1x5x5x2:distinct"}, max2d, .p = {2, 2}, .torch = MAX_VALID},
    {"max, same", {"1x5x4x2:distinct"}, max2d, .p = {3, 3, 1, 1, S}, .torch = MAX_SAME},
    {"max, same, stride 2", {"1x5x6x2:distinct"}, max2d, .p = {3, 3, 2, 2, S}, .torch = MAX_SAME},
    {"max, same, even window", {"1x5x6x2:distinct"}, max2d, .p = {2, 2, 2, 2, S},
     .torch = MAX_SAME},
    {"max, same, window larger than the image", {"1x2x3x2:distinct"}, max2d, .p = {5, 5, 1, 1, S},
     .torch = MAX_SAME},
    {"max, explicit", {"1x4x4x2:distinct"}, max2d, .p = {3, 3, 2, 2, E, 1, 1, 1, 1},
     .torch = MAX_PADDED},
    {"max, explicit, uneven", {"1x4x5x2:distinct"}, max2d, .p = {3, 4, 2, 1, E, 2, 0, 1, 3},
     .torch = MAX_PADDED},
    {"max, window larger than the image", {"1x2x2x2:distinct"}, max2d,
     .p = {4, 3, 1, 1, E, 1, 1, 1, 0},
     .torch = MAX_PADDED},
    {"max of negative numbers with padding", {"1x3x3x2:in(-9,-1)"}, max2d,
     .p = {3, 3, 1, 1, E, 1, 1, 1, 1}, .torch = MAX_PADDED, .flags = CASE_NO_DIFFERENCES},
    {"max of equals goes to the first", {"1x4x4x1:=1"}, max2d, .p = {3, 3, 1, 1},
     .torch = MAX_VALID,
     .flags = CASE_NO_DIFFERENCES},
    {"max of pairs", {"1x4x4x1:=1 2 2 1 1"}, max2d, .p = {2, 2, 2, 2}, .torch = MAX_VALID,
     .flags = CASE_NO_DIFFERENCES},
    {"max of minus infinity", {"1x2x4x1:=-inf"}, max2d, .p = {2, 2}, .torch = MAX_VALID,
     .flags = CASE_NO_DIFFERENCES | CASE_NO_GRADIENT},
    {"max of NaN", {"1x2x4x1:=1 nan 2 3 4 5 6 7"}, max2d, .p = {2, 2}, .torch = MAX_VALID,
     .flags = CASE_NO_DIFFERENCES | CASE_NO_GRADIENT},
    {"max in another order", {"2x4x5x3:distinct:T"}, max2d, .p = {2, 2, 1, 1}, .torch = MAX_VALID},
    {"max with gaps", {"1x4x4x3:distinct:S"}, max2d, .p = {2, 2}, .torch = MAX_VALID},
    {"max of one image many times", {"3x4x4x2:distinct:B"}, max2d, .p = {2, 2}, .torch = MAX_VALID},
    {"max, channels first", {"2x3x4x4:distinct"}, channels_first, .p = {2, 2},
     .torch = "F.max_pool2d(a, 2)" BACK},
    {"max twice", {"1x6x6x2:distinct"}, max_twice,
     .torch = "F.max_pool2d(F.max_pool2d(" IMAGE ", 2, 1), 2)" BACK},
    {"max, many channels", {"1x4x4x37:distinct"}, max2d, .p = {2, 2}, .flags = CASE_NO_DIFFERENCES},
    {"max, no images", {"0x4x4x2"}, max2d, .p = {2, 2}, .torch = MAX_VALID},
    {"max, no channels", {"1x4x4x0"}, max2d, .p = {2, 2}},

    /* --- the mean --- */
    {"avg of many channels", {"2x21x19x67"}, avg2d, .p = {3, 3, 2, 2, S}},
    {"avg of many rows", {"2x67x23x8"}, avg2d, .p = {3, 2, 2, 1}},
    {"avg 2x2", {"1x4x4x2"}, avg2d, .p = {2, 2}, .torch = AVG_VALID},
    {"avg, size given once", {"1x4x6x2"}, avg2d, .p = {2}, .torch = AVG_VALID},
    {"avg 3x3", {"2x7x6x3"}, avg2d, .p = {3, 3, 1, 1}, .torch = AVG_VALID},
    {"avg 3x2, stride 2 by 1", {"1x7x5x2"}, avg2d, .p = {3, 2, 2, 1}, .torch = AVG_VALID},
    {"avg 1x1", {"1x3x4x2"}, avg2d, .p = {1, 1}, .torch = AVG_VALID},
    {"avg, stride larger than the window", {"1x8x7x2"}, avg2d, .p = {2, 2, 3, 4},
     .torch = AVG_VALID},
    {"avg of the whole image", {"2x3x4x3"}, avg2d, .p = {3, 4}, .torch = AVG_VALID},
    {"avg, a rest is left", {"1x5x5x2"}, avg2d, .p = {2, 2}, .torch = AVG_VALID},
    {"avg, same", {"1x5x4x2"}, avg2d, .p = {3, 3, 1, 1, S}, .torch = AVG_SAME},
    {"avg, same, stride 2", {"1x5x6x2"}, avg2d, .p = {3, 3, 2, 2, S}, .torch = AVG_SAME},
    {"avg, same, even window", {"1x5x6x2"}, avg2d, .p = {2, 2, 2, 2, S}, .torch = AVG_SAME},
    {"avg, same, window larger than the image", {"1x2x3x2"}, avg2d, .p = {5, 5, 1, 1, S},
     .torch = AVG_SAME},
    {"avg, explicit", {"1x4x4x2"}, avg2d, .p = {3, 3, 2, 2, E, 1, 1, 1, 1},
     .torch = "F.avg_pool2d(" IMAGE ", 3, 2, 1, count_include_pad=False)" BACK},
    {"avg, explicit, uneven", {"1x4x5x2"}, avg2d, .p = {3, 4, 2, 1, E, 2, 0, 1, 3},
     .torch = AVG_PADDED},
    {"avg in another order", {"2x4x5x3:T"}, avg2d, .p = {2, 2, 1, 1}, .torch = AVG_VALID},
    {"avg with gaps", {"1x4x4x3:S"}, avg2d, .p = {2, 2}, .torch = AVG_VALID},
    {"avg of one image many times", {"3x4x4x2:B"}, avg2d, .p = {2, 2}, .torch = AVG_VALID},
    {"avg, many channels", {"1x4x4x37"}, avg2d, .p = {2, 2}},
    {"avg, no images", {"0x4x4x2"}, avg2d, .p = {2, 2}, .torch = AVG_VALID},

    /* --- one axis --- */
    {"max 1d", {"2x6x3:distinct"}, max1d, .p = {2},
     .torch = "F.max_pool1d(a.permute(0,2,1), 2).permute(0,2,1)"},
    {"max 1d, stride 1", {"2x6x3:distinct"}, max1d, .p = {3, 1},
     .torch = "F.max_pool1d(a.permute(0,2,1), 3, 1).permute(0,2,1)"},
    {"max 1d, same", {"1x7x2:distinct"}, max1d, .p = {3, 2, S},
     .torch = "F.max_pool1d(a.permute(0,2,1), 3, 2, 1).permute(0,2,1)"},
    {"max 1d of a view", {"2x6x3:distinct:T"}, max1d, .p = {2, 2},
     .torch = "F.max_pool1d(a.permute(0,2,1), 2).permute(0,2,1)"},
    {"avg 1d", {"2x6x3"}, avg1d, .p = {2},
     .torch = "F.avg_pool1d(a.permute(0,2,1), 2).permute(0,2,1)"},
    {"avg 1d, stride 1", {"2x6x3"}, avg1d, .p = {3, 1},
     .torch = "F.avg_pool1d(a.permute(0,2,1), 3, 1).permute(0,2,1)"},
    {"avg 1d, explicit", {"1x7x2"}, avg1d, .p = {3, 2, E, 1, 1},
     .torch = "F.avg_pool1d(a.permute(0,2,1), 3, 2, 1, count_include_pad=False).permute(0,2,1)"},
    {"avg 1d, no rows", {"0x7x2"}, avg1d, .p = {3, 2}},

    /* --- the whole image --- */
    {"global avg", {"2x3x4x3"}, global_avg, .torch = "a.mean((1, 2))"},
    {"global avg, dims kept", {"2x3x4x3"}, global_avg, .p = {1}, .torch = "a.mean((1, 2), True)"},
    {"global avg of one axis", {"2x5x3"}, global_avg, .torch = "a.mean(1)"},
    {"global avg of a view", {"2x3x4x3:T"}, global_avg, .torch = "a.mean((1, 2))"},
    {"global avg, no images", {"0x3x4x3"}, global_avg},
    {"global max", {"2x3x4x3:distinct"}, global_max, .torch = "a.amax((1, 2))"},
    {"global max, dims kept", {"2x3x4x3:distinct"}, global_max, .p = {1},
     .torch = "a.amax((1, 2), True)"},
    {"global max of one axis", {"2x5x3:distinct"}, global_max, .torch = "a.amax(1)"},

    /* --- the gradients as ops --- */
    {"numbers go where the image is largest", {"1x2x2x2", "1x4x4x2:distinct:const"}, max_grad,
     .p = {2, 2, 2, 2}},
    {"overlapping windows add up", {"1x3x3x1", "1x5x5x1:distinct:const"}, max_grad,
     .p = {3, 3, 1, 1}},
    {"elements where the image is largest", {"1x4x4x2", "1x4x4x2:distinct:const"}, max_pick,
     .p = {2, 2, 2, 2}},
    {"the same of views", {"1x4x4x2:T", "1x4x4x2:distinct:S:const"}, max_pick, .p = {2, 2, 1, 1}},
    {"places of the largest", {"1x4x4x2:distinct"}, places, .p = {2, 2, 2, 2}, NOT_WATCHED},
    {"places in overlapping windows", {"2x5x7x3:distinct"}, places,
     .p = {3, 3, 2, 2, 0, 1, 1, 0, 1}, NOT_WATCHED},
    {"places of many channels", {"1x4x3x17:distinct"}, places, .p = {3, 2, 1, 1}, NOT_WATCHED},
    {"places of equals", {"1x4x4x1:=1"}, places, .p = {3, 3, 1, 1, 0, 1, 0, 1, 0}, NOT_WATCHED},
    {"places of NaN", {"1x2x4x1:=1 nan 2 3 4 5 6 7"}, places, .p = {2, 2, 2, 2}, NOT_WATCHED},
    {"places of a view", {"1x4x4x2:distinct:T"}, places, .p = {2, 2, 1, 1}, NOT_WATCHED},
    {"places of no images", {"0x4x4x2"}, places, .p = {2, 2, 2, 2}, NOT_WATCHED},
    {"numbers go to places", {"1x2x2x2", "1x4x4x2:distinct"}, grad_by_places,
     .p = {2, 2, 2, 2, 0, 0, 0, 0, 0, 4, 4}, NOT_WATCHED},
    {"numbers go to places, padded", {"2x3x3x3", "2x5x7x3:distinct"}, grad_by_places,
     .p = {3, 3, 2, 2, 0, 1, 1, 0, 1, 5, 7}, NOT_WATCHED},
    {"as by the image", {"2x2x3x16", "2x5x7x16"}, both_grads,
     .p = {2, 2, 2, 2, 0, 0, 0, 0, 0, 5, 7}, .flags = CASE_NO_GRADIENT | CASE_EXACT},
    {"numbers shared out", {"1x3x3x2"}, avg_grad, .p = {3, 3, 2, 2, 0, 1, 1, 1, 1, 5, 5}},
    {"numbers shared out, of a view", {"2x2x3x2:T"}, avg_grad,
     .p = {2, 2, 2, 2, 0, 0, 0, 0, 0, 5, 6}},

    /* --- refused --- */
    {"three dims", {"4x4x2"}, max2d, .p = {2, 2}, .fails = "max_pool2d: the image is"},
    {"no size", {"1x4x4x2"}, max2d, .fails = "the vertical window size is 0"},
    {"negative size", {"1x4x4x2"}, avg2d, .p = {2, -2},
     .fails = "the horizontal window size is -2"},
    {"negative stride", {"1x4x4x2"}, avg2d, .p = {2, 2, -1, 1},
     .fails = "the vertical stride is -1"},
    {"window too large", {"1x4x2x2"}, max2d, .p = {3, 3},
     .fails = "covers 3 elements on the horizontal"},
    {"padding as wide as the window", {"1x4x4x2"}, max2d, .p = {2, 2, 2, 2, E, 2},
     .fails = "it must be less than the window"},
    {"negative padding", {"1x4x4x2"}, max2d, .p = {2, 2, 2, 2, E, 0, 0, -1},
     .fails = "the horizontal padding before is -1"},
    {"pads without their rule", {"1x4x4x2"}, max2d, .p = {2, 2, 2, 2, V, 1},
     .fails = "they need .padding = TL_EXPLICIT"},
    {"an empty image", {"1x0x4x2"}, avg2d, .p = {2, 2, 1, 1, E, 1, 1, 0, 0},
     .fails = "image has 0"},
    {"integers", {"1x4x4x2:int<9"}, max2d, .p = {2, 2}, .fails = "floating-point"},
    {"max: NULL", {"1"}, max_of_null, .fails = "input 0 is NULL"},
    {"avg: NULL", {"1"}, avg_of_null, .fails = "input 0 is NULL"},
    {"1d: four dims", {"1x4x4x2"}, max1d, .p = {2}, .fails = "max_pool1d: the input is"},
    {"global: a matrix", {"3x4"}, global_max, .fails = "global_max_pool: the input is"},
    {"global: NULL", {"1"}, global_of_null, .fails = "is NULL"},
    {"gradient: shapes", {"1x3x3x2", "1x4x4x2"}, max_grad, .p = {2, 2, 2, 2},
     .fails = "must be [1, 2, 2, 2]"},
    {"pick: shapes", {"1x3x3x2", "1x4x4x2"}, max_pick, .p = {2, 2, 2, 2},
     .fails = "they must have one shape"},
    {"places: more than a byte counts", {"1x20x20x1"}, places, .p = {17, 16, 1, 1},
     .fails = "a window of 17 by 16 has more elements than a byte can count"},
    {"gradient by places: shapes", {"1x3x3x2", "1x4x4x2"}, grad_by_places,
     .p = {2, 2, 2, 2, 0, 0, 0, 0, 0, 4, 4}, .fails = "the places are uint8[1, 2, 2, 2] and must"},
    {"gradient by places: of another image", {"1x2x2x2", "1x4x4x2"}, grad_by_places,
     .p = {2, 2, 2, 2, 0, 0, 0, 0, 0, 6, 6}, .fails = "must be [1, 3, 3, 2]"},
    {"share: shapes", {"1x3x3x2"}, avg_grad, .p = {2, 2, 2, 2, 0, 0, 0, 0, 0, 5, 5},
     .fails = "must be [1, 2, 2, 2]"},
};
// clang-format on

int main(int argc, char **argv)
{
    return op_cases_main(argc, argv, "pool", cases, TL_COUNT(cases));
}
