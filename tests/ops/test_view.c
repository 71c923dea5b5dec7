#include "ops/lab.h"

#include <tilth/ops/elementwise.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/index.h>
#include <tilth/ops/pack.h>
#include <tilth/ops/view.h>

#include "op_cases.h"

/* --- calls: p holds what the functions take, lists with their length before them -------------- */

static tl_axes axes_at(const op_case *k, int at)
{
    return k->p[at] < 0 ? TL_ALL : (tl_axes){k->p + at + 1, k->p[at]};
}

static int inputs(const op_case *k)
{
    int count = 0;
    while (count < OP_CASE_MAX && k->in[count]) count++;
    return count;
}

OP_CALL(reshape, tl_reshape(c, in[0], tl_shape_of((int)k->p[0], k->p + 1)))
OP_CALL(transpose, tl_transpose(c, in[0], k->p + 1, (int)k->p[0]))
OP_CALL(swap_axes, tl_swap_axes(c, in[0], k->p[0], k->p[1]))
OP_CALL(broadcast, tl_broadcast_to(c, in[0], tl_shape_of((int)k->p[0], k->p + 1)))
OP_CALL(expand_dims, tl_expand_dims(c, in[0], k->p[0]))
OP_CALL(squeeze, tl_squeeze(c, in[0], axes_at(k, 0)))
OP_CALL(contiguous, tl_contiguous(c, in[0]))
OP_CALL(slice, tl_slice(c, in[0], k->p[0], k->p[1], k->p[2], k->p[3]))
OP_CALL(slice_with, tl_slice_with(c, in[0], (const tl_range *)(k->p + 1), (int)k->p[0]))
OP_CALL(take, tl_take(c, in[0], k->p[0], k->p[1]))
OP_CALL(flip, tl_flip(c, in[0], axes_at(k, 0)))
OP_CALL(concat, tl_concat(c, in, inputs(k), k->p[0]))
OP_CALL(stack, tl_stack(c, in, inputs(k), k->p[0]))
/* Offsets, and behind them in p[11] the elements of the result. */
OP_CALL(pack, tl_pack(c, inputs(k), in, k->p, k->p[11]))
OP_CALL(tile, tl_tile(c, in[0], k->p + 1, (int)k->p[0]))
OP_CALL(unslice, tl_unslice(c, in[0], tl_shape_of((int)k->p[0], k->p + 1), k->p + 4, k->p + 7,
                            (int)k->p[10]))
OP_CALL(pad, tl_pad(c, in[0], .before = {k->p[0], k->p[1], k->p[2]},
                    .after = {k->p[3], k->p[4], k->p[5]}, .value = k->q[0],
                    .mode = (tl_pad_mode)k->p[6]))
OP_CALL(pad_8, tl_pad(c, in[0], .before = {0, 1, 0, 0, 0, 0, 1, 0},
                      .after = {0, 0, 0, 0, 0, 2, 0, 1}, .value = 3))

static void split(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_split(c, in[0], k->p[0], k->p + 1, k->outputs, out);
}

static void split_even(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_split_even(c, in[0], k->p[0], k->p[1], out);
}

/* Views of views, some of them computed with. */
OP_CALL(slice_of_slice, tl_slice(c, tl_slice(c, in[0], 0, 1, TL_OPEN, 2), 0, TL_OPEN, TL_OPEN, -1))
OP_CALL(slice_of_flip, tl_slice(c, tl_flip(c, in[0], TL_AXES(0, 1)), 1, 1, -1, 2))
OP_CALL(flip_of_flip, tl_flip(c, tl_flip(c, in[0], TL_AXES(0)), TL_AXES(0)))
OP_CALL(reshape_of_slice, tl_reshape(c, tl_slice(c, in[0], 1, 1, 3, 1), TL_SHAPE(-1)))
OP_CALL(reshape_of_flip, tl_reshape(c, tl_flip(c, in[0], TL_ALL), TL_SHAPE(2, 6)))
OP_CALL(split_last_of_transpose,
        tl_reshape(c, tl_swap_axes(c, in[0], 0, 1), TL_SHAPE(in[0]->shape.dims[1], 2, 2)))
OP_CALL(square_of_flip, tl_square(c, tl_flip(c, in[0], TL_AXES(-1))))
OP_CALL(sum_of_flip, tl_sum(c, tl_square(c, tl_flip(c, in[0], TL_ALL)), TL_AXES(0), false))
OP_CALL(gather_of_flip, tl_gather(c, tl_flip(c, in[0], TL_AXES(0)), in[1], 0))
OP_CALL(concat_of_views,
        tl_concat(c,
                  (tl_tensor *[]){
                      tl_flip(c, in[0], TL_AXES(0)), tl_slice(c, in[0], 0, 0, 2, 1),
                      tl_broadcast_to(c, tl_slice(c, in[0], 0, 0, 1, 1), TL_SHAPE(3, 4))},
                  3, 0))
OP_CALL(take_of_broadcast,
        tl_take(c, tl_broadcast_to(c, tl_square(c, in[0]), TL_SHAPE(5, 3, 4)), 0, -1))
OP_CALL(overlapping,
        tl_mul(c, tl_slice(c, in[0], 0, 0, -1, 1), tl_slice(c, in[0], 0, 1, TL_OPEN, 1)))
OP_CALL(mixed_concat, tl_concat(c, in, 2, 0))

#define EXACT .flags = CASE_EXACT
#define CONSTANT .flags = CASE_EXACT | CASE_NO_GRADIENT
#define OPEN TL_OPEN

// clang-format off
static const op_case cases[] = {
    /* --- reshape ------------------------------------------------------------------------------ */
    {"reshape", {"2x6"}, reshape, .p = {3, 2, 3, 2}, EXACT, .torch = "a.reshape(2, 3, 2)"},
    {"reshape rest", {"2x6"}, reshape, .p = {2, -1, 4}, EXACT, .torch = "a.reshape(-1, 4)"},
    {"reshape rest of one", {"2x6"}, reshape, .p = {1, -1}, EXACT},
    {"reshape same", {"2x6"}, reshape, .p = {2, 2, 6}, EXACT},
    {"reshape scalar", {"-"}, reshape, .p = {2, 1, 1}, EXACT},
    {"reshape to scalar", {"1x1x1"}, reshape, .p = {0}, EXACT},
    {"reshape T", {"4x6:T"}, reshape, .p = {1, 24}, EXACT, .torch = "a.reshape(24)"},
    {"reshape T apart", {"4x6:T"}, reshape, .p = {4, 2, 2, 3, 2}, EXACT},
    {"reshape S", {"3x4:S"}, reshape, .p = {2, 6, 2}, EXACT},
    {"reshape S ones", {"3x4:S"}, reshape, .p = {5, 1, 3, 1, 4, 1}, EXACT},
    {"reshape B", {"3x4:B"}, reshape, .p = {1, 12}, EXACT},
    {"reshape B apart", {"4x6:B"}, reshape, .p = {4, 2, 2, 2, 3}, EXACT},
    {"reshape empty", {"0x4"}, reshape, .p = {3, 2, 0, 7}, EXACT},
    {"reshape empty T", {"3x0x4:T"}, reshape, .p = {1, 0}, EXACT},
    {"reshape 8", {"2x3x1x2x1x2x1x1"}, reshape, .p = {8, 1, 3, 2, 1, 2, 1, 2, 1}, EXACT},
    {"reshape 8 T", {"2x3x1x2x1x2x1x1:T"}, reshape, .p = {2, 6, 4}, EXACT},
    {"reshape ints", {"2x6:i16"}, reshape, .p = {1, 12}, CONSTANT},
    {"reshape bools T", {"2x6:bool:T"}, reshape, .p = {1, 12}, CONSTANT},
    {"reshape count", {"2x6"}, reshape, .p = {1, 13},
     .fails = "12 elements and cannot become [13]"},
    {"reshape rest count", {"2x6"}, reshape, .p = {2, -1, 5}, .fails = "negative dimension"},
    {"reshape two rests", {"2x6"}, reshape, .p = {2, -1, -1}, .fails = "negative dimension"},
    {"reshape negative", {"2x3"}, reshape, .p = {2, -2, -3}, .fails = "negative dimension"},
    {"reshape rest of empty", {"0x6"}, reshape, .p = {2, -1, 0}, .fails = "negative dimension"},

    /* --- transpose, swap_axes ----------------------------------------------------------------- */
    {"transpose", {"2x3"}, transpose, .p = {2, 1, 0}, EXACT, .torch = "a.T"},
    {"transpose 3", {"2x3x4"}, transpose, .p = {3, 2, 0, 1}, EXACT, .torch = "a.permute(2, 0, 1)"},
    {"transpose negative", {"2x3x4"}, transpose, .p = {3, -1, 0, -2}, EXACT},
    {"transpose same", {"2x3"}, transpose, .p = {2, 0, 1}, EXACT},
    {"transpose scalar", {"-"}, transpose, .p = {0}, EXACT},
    {"transpose T", {"2x3x4:T"}, transpose, .p = {3, 1, 2, 0}, EXACT},
    {"transpose S", {"2x3:S"}, transpose, .p = {2, 1, 0}, EXACT},
    {"transpose B", {"2x3:B"}, transpose, .p = {2, 1, 0}, EXACT},
    {"transpose empty", {"0x3x2"}, transpose, .p = {3, 2, 1, 0}, EXACT},
    {"transpose 8", {"2x1x3x1x2x1x1x2"}, transpose, .p = {8, 7, 2, 0, 1, 4, 6, 5, 3}, EXACT},
    {"transpose ints", {"2x3:i8"}, transpose, .p = {2, 1, 0}, CONSTANT},
    {"transpose twice", {"2x3"}, transpose, .p = {2, 1, 1}, .fails = "names axis 1 twice"},
    {"transpose few", {"2x3"}, transpose, .p = {1, 0}, .fails = "1 axes for an input with 2"},
    {"transpose outside", {"2x3"}, transpose, .p = {2, 0, 2}, .fails = "axis 2"},
    {"swap_axes", {"2x3x4"}, swap_axes, .p = {0, -1}, EXACT, .torch = "a.swapaxes(0, -1)"},
    {"swap_axes same", {"2x3x4"}, swap_axes, .p = {1, -2}, EXACT, .torch = "a.swapaxes(1, 1)"},
    {"swap_axes T", {"2x3x4:T"}, swap_axes, .p = {1, 2}, EXACT},
    {"swap_axes outside", {"2x3"}, swap_axes, .p = {0, 2}, .fails = "swap_axes: axis 2"},

    /* --- broadcast ---------------------------------------------------------------------------- */
    {"broadcast", {"3x1"}, broadcast, .p = {2, 3, 4}, EXACT, .torch = "a.expand(3, 4)"},
    {"broadcast front", {"3"}, broadcast, .p = {3, 2, 4, 3}, EXACT, .torch = "a.expand(2, 4, 3)"},
    {"broadcast scalar", {"-"}, broadcast, .p = {2, 2, 3}, EXACT},
    {"broadcast same", {"2x3"}, broadcast, .p = {2, 2, 3}, EXACT},
    {"broadcast to empty", {"1x3"}, broadcast, .p = {2, 0, 3}, EXACT},
    {"broadcast T", {"1x3:T"}, broadcast, .p = {3, 2, 2, 3}, EXACT},
    {"broadcast S", {"1x3:S"}, broadcast, .p = {2, 4, 3}, EXACT},
    {"broadcast 8", {"2x1"}, broadcast, .p = {8, 1, 2, 1, 2, 1, 2, 2, 2}, EXACT},
    {"broadcast bools", {"1x2:bool"}, broadcast, .p = {2, 3, 2}, CONSTANT},
    {"broadcast wrong", {"2x3"}, broadcast, .p = {2, 2, 4}, .fails = "3 meets 4"},
    {"broadcast back", {"2x3"}, broadcast, .p = {1, 3}, .fails = "cannot be stretched to [3]"},

    /* --- expand_dims, squeeze, contiguous ----------------------------------------------------- */
    {"expand_dims 0", {"2x3"}, expand_dims, .p = {0}, EXACT, .torch = "a.unsqueeze(0)"},
    {"expand_dims 1", {"2x3"}, expand_dims, .p = {1}, EXACT, .torch = "a.unsqueeze(1)"},
    {"expand_dims last", {"2x3"}, expand_dims, .p = {-1}, EXACT, .torch = "a.unsqueeze(-1)"},
    {"expand_dims -3", {"2x3"}, expand_dims, .p = {-3}, EXACT},
    {"expand_dims scalar", {"-"}, expand_dims, .p = {0}, EXACT},
    {"expand_dims T", {"2x3:T"}, expand_dims, .p = {1}, EXACT},
    {"expand_dims outside", {"2x3"}, expand_dims, .p = {3}, .fails = "axis 3"},
    {"expand_dims 8", {"1x1x1x1x1x1x1x1"}, expand_dims, .p = {0}, .fails = "8 dimensions already"},
    {"squeeze all", {"1x3x1x2"}, squeeze, .p = {-1}, EXACT, .torch = "a.squeeze()"},
    {"squeeze one", {"1x3x1x2"}, squeeze, .p = {1, 2}, EXACT, .torch = "a.squeeze(2)"},
    {"squeeze negative", {"1x3x1x1"}, squeeze, .p = {2, -1, -2}, EXACT},
    {"squeeze none", {"1x3"}, squeeze, .p = {0}, EXACT},
    {"squeeze to scalar", {"1x1"}, squeeze, .p = {-1}, EXACT},
    {"squeeze S", {"1x3x1:S"}, squeeze, .p = {1, 0}, EXACT},
    {"squeeze 8", {"1x2x1x1x2x1x1x1"}, squeeze, .p = {3, 0, 5, 7}, EXACT},
    {"squeeze not 1", {"1x3"}, squeeze, .p = {1, 1}, .fails = "axis 1 of"},
    {"squeeze twice", {"1x3"}, squeeze, .p = {2, 0, -2}, .fails = "axis 0 is named twice"},
    {"contiguous", {"2x3"}, contiguous, EXACT},
    {"contiguous T", {"2x3x2:T"}, contiguous, EXACT},
    {"contiguous B", {"2x3:B"}, contiguous, EXACT},
    {"contiguous S ints", {"2x3:S:i64"}, contiguous, CONSTANT},

    /* --- slices ------------------------------------------------------------------------------- */
    {"slice", {"5x3"}, slice, .p = {0, 1, 4, 1}, EXACT, .torch = "a[1:4]"},
    {"slice columns", {"3x7"}, slice, .p = {1, 1, 6, 2}, EXACT, .torch = "a[:, 1:6:2]"},
    {"slice negative", {"3x7"}, slice, .p = {-1, -5, -1, 1}, EXACT, .torch = "a[:, -5:-1]"},
    {"slice open", {"5x3"}, slice, .p = {0, OPEN, OPEN, 2}, EXACT, .torch = "a[::2]"},
    {"slice open start", {"5x3"}, slice, .p = {0, OPEN, 2, 1}, EXACT, .torch = "a[:2]"},
    {"slice open stop", {"5x3"}, slice, .p = {0, 3, OPEN, 1}, EXACT, .torch = "a[3:]"},
    {"slice whole", {"5x3"}, slice, .p = {0, 0, 5, 1}, EXACT},
    {"slice beyond", {"5x3"}, slice, .p = {0, 3, 100, 1}, EXACT, .torch = "a[3:100]"},
    {"slice before", {"5x3"}, slice, .p = {0, -100, 2, 1}, EXACT, .torch = "a[-100:2]"},
    {"slice nothing", {"5x3"}, slice, .p = {0, 3, 3, 1}, EXACT},
    {"slice backwards nothing", {"5x3"}, slice, .p = {0, 4, 1, 1}, EXACT},
    {"slice of empty", {"0x3"}, slice, .p = {0, OPEN, OPEN, 1}, EXACT},
    {"slice of empty back", {"0x3"}, slice, .p = {0, OPEN, OPEN, -1}, EXACT},
    {"slice back", {"5x3"}, slice, .p = {0, OPEN, OPEN, -1}, EXACT, .torch = "torch.flip(a, [0])"},
    {"slice back by 2", {"6x2"}, slice, .p = {0, 4, 0, -2}, EXACT,
     .torch = "torch.flip(a, [0])[1:5:2]"},
    {"slice back to start", {"6x2"}, slice, .p = {0, 2, OPEN, -1}, EXACT},
    {"slice back negative", {"6x2"}, slice, .p = {0, -2, -5, -1}, EXACT},
    {"slice back from beyond", {"6x2"}, slice, .p = {0, 99, -99, -4}, EXACT},
    {"slice long step", {"5x3"}, slice, .p = {0, 2, OPEN, INT64_MAX}, EXACT},
    {"slice long step back", {"5x3"}, slice, .p = {0, 2, OPEN, INT64_MIN}, EXACT},
    {"slice T", {"5x4:T"}, slice, .p = {0, 1, OPEN, 3}, EXACT},
    {"slice S", {"3x5:S"}, slice, .p = {1, OPEN, OPEN, -2}, EXACT},
    {"slice B", {"4x3:B"}, slice, .p = {0, 1, 3, 1}, EXACT},
    {"slice 8", {"1x2x1x3x1x2x1x2"}, slice, .p = {3, OPEN, OPEN, -2}, EXACT},
    {"slice ints", {"7:i64"}, slice, .p = {0, 5, 1, -2}, CONSTANT},
    {"slice step 0", {"5x3"}, slice, .p = {0, 0, 1, 0}, .fails = "slice: a step of 0"},
    {"slice outside", {"5x3"}, slice, .p = {2, 0, 1, 1}, .fails = "slice: axis 2"},
    {"slice scalar", {"-"}, slice, .p = {0, 0, 1, 1}, .fails = "slice: axis 0"},
    {"slice_with", {"4x5x3"}, slice_with, .p = {3, 1, 3, 1, OPEN, OPEN, 2, 0, 2, 1}, EXACT,
     .torch = "a[1:3, ::2, 0:2]"},
    {"slice_with few", {"4x5x3"}, slice_with, .p = {1, 1, OPEN, 2}, EXACT, .torch = "a[1::2]"},
    {"slice_with none", {"4x5"}, slice_with, .p = {0}, EXACT},
    {"slice_with back", {"4x5"}, slice_with, .p = {2, OPEN, OPEN, -1, 3, 0, -1}, EXACT},
    {"slice_with nothing", {"4x5"}, slice_with, .p = {2, 2, 2, 1, 9, 12, 1}, EXACT},
    {"slice_with many", {"4"}, slice_with, .p = {2, 0, 1, 1, 0, 1, 1},
     .fails = "2 ranges for float"},
    {"take", {"3x4"}, take, .p = {0, 1}, EXACT, .torch = "a[1]"},
    {"take last", {"3x4"}, take, .p = {-1, -1}, EXACT, .torch = "a[:, -1]"},
    {"take to scalar", {"3"}, take, .p = {0, 2}, EXACT},
    {"take T", {"3x4x2:T"}, take, .p = {1, 2}, EXACT},
    {"take S", {"3x4:S"}, take, .p = {1, 3}, EXACT},
    {"take B", {"3x4:B"}, take, .p = {0, 2}, EXACT},
    {"take 8", {"1x2x1x3x1x2x1x2"}, take, .p = {3, 1}, EXACT},
    {"take outside", {"3x4"}, take, .p = {0, 3}, .fails = "take: index 3 of axis 0"},
    {"take before", {"3x4"}, take, .p = {0, -4}, .fails = "take: index -4 of axis 0"},
    {"take of empty", {"0x4"}, take, .p = {0, 0}, .fails = "take: index 0"},
    {"flip", {"3x4"}, flip, .p = {1, 0}, EXACT, .torch = "torch.flip(a, [0])"},
    {"flip two", {"3x4x2"}, flip, .p = {2, 0, -1}, EXACT, .torch = "torch.flip(a, [0, 2])"},
    {"flip all", {"3x4"}, flip, .p = {-1}, EXACT, .torch = "torch.flip(a, [0, 1])"},
    {"flip none", {"3x4"}, flip, .p = {0}, EXACT},
    {"flip scalar", {"-"}, flip, .p = {-1}, EXACT},
    {"flip one", {"1x4"}, flip, .p = {1, 0}, EXACT},
    {"flip T", {"3x4:T"}, flip, .p = {-1}, EXACT},
    {"flip B", {"3x4:B"}, flip, .p = {-1}, EXACT},
    {"flip twice", {"3x4"}, flip, .p = {2, 1, -1}, .fails = "flip: axes: axis 1 is named twice"},

    /* --- split -------------------------------------------------------------------------------- */
    {"split", {"6x2"}, split, 3, {0, 1, 2, 3}, EXACT, .torch = "torch.split(a, [1, 2, 3])"},
    {"split columns", {"2x6"}, split, 2, {-1, 4, 2}, EXACT, .torch = "torch.split(a, [4, 2], 1)"},
    {"split with nothing", {"2x3"}, split, 3, {1, 0, 3, 0}, EXACT},
    {"split T", {"4x3:T"}, split, 2, {0, 3, 1}, EXACT},
    {"split ints", {"4:i32"}, split, 2, {0, 3, 1}, CONSTANT},
    {"split rest", {"6x2"}, split, 2, {0, 1, 2}, .fails = "the parts leave 3 of axis 0"},
    {"split long", {"6x2"}, split, 2, {0, 5, 2}, .fails = "longer together than axis 0"},
    {"split negative", {"6x2"}, split, 2, {0, 7, -1}, .fails = "longer together"},
    {"split negative first", {"6x2"}, split, 2, {0, -1, 7}, .fails = "size -1 of part 0"},
    {"split_even", {"6x2"}, split_even, 3, {0, 3}, EXACT, .torch = "torch.split(a, 2)"},
    {"split_even S", {"2x6:S"}, split_even, 2, {1, 2}, EXACT, .torch = "torch.split(a, 3, 1)"},
    {"split_even empty", {"0x2"}, split_even, 3, {0, 3}, EXACT},
    {"split_even uneven", {"5x2"}, split_even, 2, {0, 2},
     .fails = "does not fall into 2 equal parts"},
    {"split_even outside", {"5x2"}, split_even, 2, {2, 2}, .fails = "split: axis 2"},

    /* --- concat, stack ------------------------------------------------------------------------ */
    {"pack", {"2x3", "4"}, pack, .p = {0, 6, [11] = 10}, EXACT,
     .torch = "torch.cat([a.reshape(-1), b])"},
    {"pack with gaps", {"2x3", "4", "-"}, pack, .p = {2, 16, 20, [11] = 32}, EXACT,
     .torch = "torch.cat([a.new_zeros(2), a.reshape(-1), a.new_zeros(8), b, c.reshape(1), "
              "a.new_zeros(11)])"},
    {"pack one", {"5"}, pack, .p = {0, [11] = 5}, EXACT, .torch = "a * 1"},
    {"pack nothing", {"0x3", "2", "0"}, pack, .p = {0, 1, 3, [11] = 4}, EXACT,
     .torch = "torch.cat([a.new_zeros(1), b, a.new_zeros(1)])"},
    {"pack views", {"3x4:T", "2x5:S", "3x3:B"}, pack, .p = {0, 16, 32, [11] = 48}, EXACT,
     .torch = "torch.cat([a.reshape(-1), a.new_zeros(4), b.reshape(-1), a.new_zeros(6), "
              "c.reshape(-1), a.new_zeros(7)])"},
    {"pack long", {"67x31", "1029", "3"}, pack, .p = {16, 2112, 3152, [11] = 3168}, EXACT},
    {"pack longer than a task", {"300x301", "7"}, pack, .p = {0, 90304, [11] = 90320}, EXACT},
    {"pack eight", {"1", "2", "1", "3", "1", "2", "1", "1"}, pack,
     .p = {0, 1, 3, 4, 7, 8, 10, 11, [11] = 12}, EXACT},
    {"pack const", {"2x3:const", "4"}, pack, .p = {0, 6, [11] = 10}, EXACT},
    {"pack integers", {"3:i64", "2x2:i64"}, pack, .p = {0, 4, [11] = 9},
     .flags = CASE_EXACT | CASE_NO_GRADIENT,
     .torch = "torch.cat([a, a.new_zeros(1), b.reshape(-1), a.new_zeros(1)])"},
    {"pack types", {"3:i64", "2:i32"}, pack, .p = {0, 3, [11] = 5},
     .fails = "tensor 1 is int32[2] and must be of the type of the first, int64"},
    {"pack overlapping", {"3", "2"}, pack, .p = {0, 2, [11] = 5},
     .fails = "tensor 1, float32[2], does not fit at 2: it must begin at 3 or later and end "
              "within 5"},
    {"pack past the end", {"3", "2"}, pack, .p = {0, 4, [11] = 5},
     .fails = "tensor 1, float32[2], does not fit at 4"},
    {"concat", {"2x3", "1x3"}, concat, .p = {0}, EXACT, .torch = "torch.cat([a, b])"},
    {"concat last", {"2x3", "2x1", "2x4"}, concat, .p = {-1}, EXACT,
     .torch = "torch.cat([a, b, c], -1)"},
    {"concat middle", {"2x3x2", "2x1x2"}, concat, .p = {1}, EXACT, .torch = "torch.cat([a, b], 1)"},
    {"concat one", {"2x3"}, concat, .p = {0}, EXACT},
    {"concat with empty", {"0x3", "2x3", "0x3"}, concat, .p = {0}, EXACT},
    {"concat empty", {"0x3", "0x3"}, concat, .p = {0}, EXACT},
    {"concat empty other", {"2x0", "3x0"}, concat, .p = {0}, EXACT},
    {"concat views", {"2x3:T", "2x3:S", "2x3:B"}, concat, .p = {1}, EXACT},
    {"concat views rows", {"2x3:T", "2x3:S", "2x3:B"}, concat, .p = {0}, EXACT},
    {"concat const", {"2x3:const", "2x3"}, concat, .p = {0}, EXACT},
    {"concat eight", {"1", "2", "1", "3", "1", "2", "1", "1"}, concat, .p = {0}, EXACT},
    {"concat 8 dims", {"1x2x1x1x2x1x2x1", "1x2x1x3x2x1x2x1"}, concat, .p = {3}, EXACT},
    {"concat ints", {"2:i32", "3:i64"}, concat, .p = {0}, CONSTANT},
    {"concat bools", {"2:bool", "3:bool"}, concat, .p = {0}, CONSTANT},
    {"concat rank", {"2x3", "3"}, concat, .p = {0}, .fails = "may differ along axis 0 alone"},
    {"concat shape", {"2x3", "2x4"}, concat, .p = {0},
     .fails = "(input 1) may differ along axis 0"},
    {"concat outside", {"2x3", "2x3"}, concat, .p = {2}, .fails = "concat: axis 2"},
    {"concat scalars", {"-", "-"}, concat, .p = {0}, .fails = "concat: axis 0"},
    {"stack", {"2x3", "2x3"}, stack, .p = {0}, EXACT, .torch = "torch.stack([a, b])"},
    {"stack last", {"2x3", "2x3", "2x3"}, stack, .p = {-1}, EXACT,
     .torch = "torch.stack([a, b, c], -1)"},
    {"stack middle", {"2x3:T", "2x3:S"}, stack, .p = {1}, EXACT},
    {"stack scalars", {"-", "-", "-"}, stack, .p = {0}, EXACT},
    {"stack one", {"2"}, stack, .p = {1}, EXACT},
    {"stack shapes", {"2x3", "2x1"}, stack, .p = {0}, .fails = "must have the same shape"},
    {"stack outside", {"2x3", "2x3"}, stack, .p = {3}, .fails = "axis 3"},

    /* --- tile --------------------------------------------------------------------------------- */
    {"tile", {"2x3"}, tile, .p = {2, 2, 3}, EXACT, .torch = "a.tile(2, 3)"},
    {"tile rows", {"2x3"}, tile, .p = {2, 3, 1}, EXACT, .torch = "a.tile(3, 1)"},
    {"tile columns T", {"2x3:T"}, tile, .p = {2, 1, 2}, EXACT},
    {"tile nothing", {"2x3"}, tile, .p = {2, 1, 1}, EXACT},
    {"tile away", {"2x3"}, tile, .p = {2, 0, 2}, EXACT},
    {"tile scalar", {"-"}, tile, .p = {0}, EXACT},
    {"tile empty", {"0x3"}, tile, .p = {2, 4, 2}, EXACT},
    {"tile 8", {"1x2x1x1x2x1x1x2"}, tile, .p = {8, 2, 1, 2, 1, 2, 1, 2, 1}, EXACT,
     .torch = "a.tile(2, 1, 2, 1, 2, 1, 2, 1)"},
    {"tile few", {"2x3"}, tile, .p = {1, 2}, .fails = "1 repeats for"},
    {"tile negative", {"2x3"}, tile, .p = {2, 1, -1}, .fails = "-1 repeats of axis 1"},
    {"tile too much", {"2x3"}, tile, .p = {2, 1, INT64_MAX / 4}, .fails = "too many elements"},

    /* --- unslice ------------------------------------------------------------------------------ */
    {"unslice", {"2x3"}, unslice, .p = {2, 4, 5, 0, 1, 2, 0, 1, 1, 0, 2}, EXACT,
     .torch = "F.pad(a, (2, 0, 1, 1))"},
    {"unslice steps", {"2x3"}, unslice, .p = {2, 5, 6, 0, 1, 0, 0, 3, 2, 0, 2}, EXACT},
    {"unslice back", {"2x3"}, unslice, .p = {2, 4, 3, 0, 3, 2, 0, -2, -1, 0, 2}, EXACT},
    {"unslice T", {"2x3:T"}, unslice, .p = {2, 3, 3, 0, 1, 0, 0, 1, 1, 0, 2}, EXACT},
    {"unslice B", {"2x3:B"}, unslice, .p = {2, 3, 3, 0, 1, 0, 0, 1, 1, 0, 2}, EXACT},
    {"unslice nothing", {"0x3"}, unslice, .p = {2, 2, 3, 0, 0, 0, 0, 1, 1, 0, 2}, EXACT},
    {"unslice ints", {"2x3:u8"}, unslice, .p = {2, 3, 3, 0, 1, 0, 0, 1, 1, 0, 2}, CONSTANT},
    {"unslice outside", {"2x3"}, unslice, .p = {2, 4, 5, 0, 3, 0, 0, 1, 1, 0, 2},
     .fails = "2 places from 3 on in steps of 1 lie outside of axis 0, which has 4"},
    {"unslice before", {"2x3"}, unslice, .p = {2, 4, 5, 0, 0, 1, 0, 1, -1, 0, 2},
     .fails = "outside of axis 1"},
    {"unslice step 0", {"2x3"}, unslice, .p = {2, 4, 5, 0, 0, 0, 0, 0, 1, 0, 2},
     .fails = "a step of 0"},
    {"unslice lists", {"2x3"}, unslice, .p = {2, 4, 5, 0, 0, 0, 0, 1, 1, 0, 1},
     .fails = "1 starts"},

    /* --- pad ---------------------------------------------------------------------------------- */
    {"pad", {"2x3"}, pad, .p = {1, 2, 0, 0, 1}, EXACT, .torch = "F.pad(a, (2, 1, 1, 0))"},
    {"pad value", {"2x3"}, pad, .p = {1, 2, 0, 0, 1}, .q = {-1.5}, EXACT,
     .torch = "F.pad(a, (2, 1, 1, 0), value=-1.5)"},
    {"pad nothing", {"2x3"}, pad, EXACT},
    {"pad infinite", {"2x3"}, pad, .p = {1}, .q = {INFINITY},
     .flags = CASE_EXACT | CASE_NO_DIFFERENCES},
    {"pad three", {"2x3x2"}, pad, .p = {0, 1, 2, 1, 0, 1}, .q = {2}, EXACT},
    {"pad views", {"2x3x2:T"}, pad, .p = {0, 1, 2, 1, 0, 1}, .q = {2}, EXACT},
    {"pad S", {"2x3:S"}, pad, .p = {0, 1}, EXACT},
    {"pad B", {"2x3:B"}, pad, .p = {0, 1}, EXACT},
    {"pad empty", {"0x3"}, pad, .p = {1, 0, 0, 1}, .q = {7}, EXACT},
    {"pad 8", {"1x2x1x1x2x1x2x1"}, pad_8, EXACT},
    {"pad ints", {"2x3:i8"}, pad, .p = {1, 0, 0, 0, 1}, .q = {-3}, CONSTANT},
    {"pad bools", {"2x3:bool"}, pad, .p = {1, 0, 0, 0, 1}, .q = {1}, CONSTANT},
    {"pad negative", {"2x3"}, pad, .p = {0, -1}, .fails = "axis 1 is padded by -1 and 0"},
    {"pad outside", {"2x3"}, pad, .p = {0, 0, 1}, .fails = "axis 2 is padded"},
    {"reflect", {"2x5"}, pad, .p = {0, 2, 0, 0, 3, 0, 1},
     .torch = "F.pad(a, (2, 3), mode='reflect')"},
    {"reflect most", {"2x3"}, pad, .p = {0, 2, 0, 0, 2, 0, 1},
     .torch = "F.pad(a, (2, 2), mode='reflect')"},
    {"reflect front", {"4"}, pad, .p = {3, 0, 0, 0, 0, 0, 1}},
    {"reflect behind", {"4"}, pad, .p = {0, 0, 0, 3, 0, 0, 1}},
    {"reflect two axes", {"1x3x4"}, pad, .p = {0, 1, 3, 0, 2, 2, 1},
     .torch = "F.pad(a, (3, 2, 1, 2), mode='reflect')"},
    {"reflect T", {"3x4:T"}, pad, .p = {1, 2, 0, 2, 0, 0, 1}},
    {"reflect B", {"3x4:B"}, pad, .p = {1, 2, 0, 2, 0, 0, 1}},
    {"reflect ints", {"5:i32"}, pad, .p = {2, 0, 0, 1, 0, 0, 1}, CONSTANT},
    {"reflect of nothing else", {"0x3"}, pad, .p = {0, 1, 0, 0, 1, 0, 1}},
    {"reflect long", {"2x3"}, pad, .p = {0, 3, 0, 0, 0, 0, 1}, .fails = "axis 1 has 3 places"},
    {"reflect one", {"1"}, pad, .p = {0, 0, 0, 1, 0, 0, 1}, .fails = "must be shorter"},

    /* --- views of views ----------------------------------------------------------------------- */
    {"slice of slice", {"7x2"}, slice_of_slice, EXACT, .torch = "torch.flip(a[1::2], [0])"},
    {"slice of slice T", {"7x2:T"}, slice_of_slice, EXACT},
    {"slice of flip", {"3x6"}, slice_of_flip, EXACT, .torch = "torch.flip(a, [0, 1])[:, 1:-1:2]"},
    {"flip of flip", {"3x2"}, flip_of_flip, EXACT},
    {"reshape of slice", {"3x4"}, reshape_of_slice, EXACT, .torch = "a[:, 1:3].reshape(-1)"},
    {"reshape of flip", {"3x4"}, reshape_of_flip, EXACT,
     .torch = "torch.flip(a, [0, 1]).reshape(2, 6)"},
    {"reshape of transpose", {"4x3"}, split_last_of_transpose, EXACT,
     .torch = "a.T.reshape(3, 2, 2)"},
    {"square of flip", {"3x5"}, square_of_flip, .torch = "torch.flip(a, [-1]) ** 2"},
    {"sum of flip", {"3x5"}, sum_of_flip, .torch = "(a ** 2).flip([0, 1]).sum(0)"},
    {"gather of flip", {"4x2", "3:int64<4"}, gather_of_flip, EXACT,
     .torch = "torch.flip(a, [0])[b]"},
    {"concat of views", {"3x4"}, concat_of_views, EXACT,
     .torch = "torch.cat([torch.flip(a, [0]), a[:2], a[:1].expand(3, 4)])"},
    {"take of broadcast", {"3x4"}, take_of_broadcast, .torch = "a ** 2"},
    {"overlapping slices", {"5x2"}, overlapping, .torch = "a[:-1] * a[1:]"},
    {"concat of types", {"2:f32", "3:f64"}, mixed_concat, EXACT, .torch = "torch.cat([a, b])"},

    /* --- large enough for several tasks, blocks and tails ------------------------------------- */
    {"transpose many", {"131x303"}, transpose, .p = {2, 1, 0}, CONSTANT},
    {"copy transposed", {"303x301:T"}, contiguous, CONSTANT},
    {"copy transposed i8", {"303x301:i8:T"}, contiguous, CONSTANT},
    {"copy transposed i64", {"131x303:i64:T"}, contiguous, CONSTANT},
    {"copy transposed 3", {"17x35x70:T"}, contiguous, CONSTANT},
    {"copy thin", {"5000x3:T"}, contiguous, CONSTANT},
    {"copy thin i8", {"3x20000:i8:T"}, contiguous, CONSTANT},
    {"copy gaps", {"301x303:S"}, contiguous, CONSTANT},
    {"copy repeated", {"401x203:B"}, contiguous, CONSTANT},
    {"concat many", {"301x203", "301x7", "301x90"}, concat, .p = {1}, CONSTANT},
    {"concat many views", {"301x203:T", "301x7:S"}, concat, .p = {1}, CONSTANT},
    {"pad many", {"60x70x30"}, pad, .p = {1, 2, 0, 0, 1}, .q = {3}, CONSTANT},
    {"pad many last", {"60x70x30"}, pad, .p = {0, 0, 2, 0, 0, 5}, CONSTANT},
};
// clang-format on

/* --- what rows cannot say --------------------------------------------------------------------- */

static void views_share_their_storage(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    tl_tensor *x = counting(c, TL_I32, TL_SHAPE(4, 6)), *parts[2];
    tl_tensor *column = tl_slice(c, x, 1, 1, TL_OPEN, 2);
    tl_split_even(c, x, 0, 2, parts);
    tl_tensor *views[] = {
        column,
        parts[0],
        parts[1],
        tl_flip(c, x, TL_ALL),
        tl_take(c, x, 0, 1),
        tl_expand_dims(c, column, 0),
        tl_swap_axes(c, x, 0, 1),
        tl_reshape(c, x, TL_SHAPE(2, 12)),
        tl_take(c, column, 1, 0),
        tl_reshape(c, column, TL_SHAPE(2, 2, 3)), // evenly spaced runs need no copy
        tl_squeeze(c, tl_slice(c, column, 0, 2, 3, 1), TL_ALL),
    };
    for (size_t i = 0; i < TL_COUNT(views); i++) {
        assert_non_null(views[i]);
        assert_ptr_equal(views[i]->storage, x->storage);
    }
    assert_ptr_equal(tl_reshape(c, column, TL_SHAPE(12))->storage, x->storage); // 1, 3, 5, ...
    // 1, 2, 3, 7, 8, ... do not lie evenly.
    tl_tensor *copied = tl_reshape(c, tl_slice(c, x, 1, 1, 4, 1), TL_SHAPE(12));
    assert_ptr_not_equal(copied->storage, x->storage);
    double v[12];
    assert_ok(tl_tensor_get_doubles(copied, v, 12));
    for (int i = 0; i < 12; i++) assert_near(v[i], 6 * (i / 3) + 1 + i % 3, 0);
}

static void nothing_to_do_gives_the_tensor_itself(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    tl_tensor *x = counting(c, TL_I32, TL_SHAPE(4, 1));
    assert_ptr_equal(tl_reshape(c, x, TL_SHAPE(4, -1)), x);
    assert_ptr_equal(tl_slice(c, x, 0, 0, 4, 1), x);
    assert_ptr_equal(tl_flip(c, x, TL_AXES(1)), x);
    assert_ptr_equal(tl_pad(c, x, .value = 3), x);
    assert_ptr_equal(tl_concat(c, &x, 1, 0), x);
    assert_ptr_equal(tl_swap_axes(c, x, 1, -1), x);
    assert_ptr_equal(tl_squeeze(c, x, TL_AXES(1))->storage, x->storage);
}

static void missing_inputs_are_told(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    tl_tensor *x = counting(c, TL_I32, TL_SHAPE(4, 1)), *out[2] = {x, x};
    assert_null(tl_concat(c, (tl_tensor *[]){x, NULL}, 2, 0));
    assert_fails(tl_ctx_status(c), TL_EINVAL, "concat: an input is NULL");
    // The first message stays, and nothing runs.
    assert_null(tl_slice(c, x, 0, 0, 1, 1));
    assert_null(tl_pad(c, NULL, .value = 1));
    tl_split_even(c, x, 0, 2, out);
    assert_null(out[0]);
    assert_null(out[1]);
    assert_fails(tl_ctx_status(c), TL_EINVAL, "concat: an input is NULL");
    tl_ctx_clear(c);
    assert_null(tl_concat(c, NULL, 0, 0));
    assert_fails(tl_ctx_status(c), TL_EINVAL, "concat: 0 inputs; it takes 1 or more");
    tl_ctx_clear(c);
    assert_null(tl_reshape(c, NULL, TL_SHAPE(1)));
    assert_fails(tl_ctx_status(c), TL_EINVAL, "reshape: an input is NULL");
    tl_ctx_clear(c);
}

static void types_meet_when_put_together(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    tl_tensor *a = tl_ones(c, TL_BF16, TL_SHAPE(2)), *b = counting(c, TL_I32, TL_SHAPE(2));
    assert_int_equal(tl_concat(c, (tl_tensor *[]){a, b}, 2, 0)->dtype, TL_BF16);
    assert_int_equal(
        tl_stack(c, (tl_tensor *[]){b, a, tl_ones(c, TL_F16, TL_SHAPE(2))}, 3, 0)->dtype, TL_F32);
}

static void many_tensors_are_put_together(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    tl_tensor *x[40];
    for (int i = 0; i < 40; i++) x[i] = tl_full(c, TL_F64, TL_SHAPE(1, 2), i);
    for (int i = 0; i < 40; i++) assert_ok(tl_watch(x[i]));
    tl_ctx_set_taping(c, true);
    tl_tensor *all = tl_concat(c, x, 40, 0), *g[40];
    assert_ok(tl_gradient(c, tl_sum(c, tl_square(c, all), TL_ALL, false), x, 40, g));
    for (int i = 0; i < 40; i++) {
        double v[2];
        assert_ok(tl_tensor_get_doubles(g[i], v, 2));
        assert_near(v[1], 2 * i, 0);
    }
}

int main(int argc, char **argv)
{
    int failed = op_cases_main(argc, argv, "view", cases, TL_COUNT(cases));
    if (argc > 2) return failed; // some rows only, or their inputs
    const struct CMUnitTest tests[] = {
        LAB_TEST(views_share_their_storage),     LAB_TEST(nothing_to_do_gives_the_tensor_itself),
        LAB_TEST(missing_inputs_are_told),       LAB_TEST(types_meet_when_put_together),
        LAB_TEST(many_tensors_are_put_together),
    };
    int broken = cmocka_run_group_tests(tests, NULL, NULL);
    return failed ? failed : broken;
}
