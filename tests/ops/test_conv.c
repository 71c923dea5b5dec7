#include "op_cases.h"

#include <tilth/ops/conv.h>
#include <tilth/ops/view.h>
#include <tilth/sys/core/op.h>
#include <tilth/sys/ops/apply.h>

/* Numbers of a row, down before across: strides, dilations, padding, pads, groups. */
static void convolve(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    const int64_t *p = k->p;
    out[0] = tl_convolve2d(c, in[0], in[1], .stride = {p[0], p[1]}, .dilation = {p[2], p[3]},
                           .padding = (tl_padding)p[4], .pads = {p[5], p[6], p[7], p[8]},
                           .groups = p[9]);
}

static void depthwise(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    const int64_t *p = k->p;
    out[0] = tl_convolve2d_depthwise(c, in[0], in[1], .stride = {p[0], p[1]},
                                     .dilation = {p[2], p[3]}, .padding = (tl_padding)p[4],
                                     .pads = {p[5], p[6], p[7], p[8]}, .groups = p[9]);
}

/* The last two numbers are the size of the result. */
static void transpose(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    const int64_t *p = k->p;
    out[0] =
        tl_convolve2d_transpose(c, in[0], in[1], .stride = {p[0], p[1]}, .dilation = {p[2], p[3]},
                                .padding = (tl_padding)p[4], .pads = {p[5], p[6], p[7], p[8]},
                                .groups = p[9], .size = {p[10], p[11]});
}

/* Stride, dilation, padding, before, after, groups. */
static void convolve1d(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    const int64_t *p = k->p;
    out[0] = tl_convolve1d(c, in[0], in[1], .stride = p[0], .dilation = p[1],
                           .padding = (tl_padding)p[2], .pads = {p[3], p[4]}, .groups = p[5]);
}

OP_CALL(plain, tl_convolve2d(c, in[0], in[1]))
OP_CALL(plain1d, tl_convolve1d(c, in[0], in[1]))
OP_CALL(plain_depthwise, tl_convolve2d_depthwise(c, in[0], in[1]))
OP_CALL(plain_transpose, tl_convolve2d_transpose(c, in[0], in[1]))
OP_CALL(one_number, tl_convolve2d(c, in[0], in[1], .stride = {2}, .dilation = {2}))
OP_CALL(of_null, tl_convolve2d(c, in[0], NULL))
OP_CALL(of_null_1d, tl_convolve1d(c, NULL, in[0]))
OP_CALL(twice, tl_convolve2d(c, tl_convolve2d(c, in[0], in[1], .padding = TL_SAME), in[2],
                             .stride = {2}, .padding = TL_SAME))
OP_CALL(there_and_back, tl_convolve2d_transpose(c, tl_convolve2d(c, in[0], in[1], .stride = {2}),
                                                in[1], .stride = {2}))
OP_CALL(channels_first,
        tl_convolve2d(c, tl_transpose(c, in[0], (const int64_t[]){0, 2, 3, 1}, 4), in[1]))

// The gradients are ops of their own; what they refuse is seen only from here.
static tl_tensor *apply(tl_ctx *c, tl_op op, tl_tensor *const *in, int64_t height, int64_t width)
{
    tl_conv_attr attr = {.stride_y = 1,
                         .stride_x = 1,
                         .dilation_y = 1,
                         .dilation_x = 1,
                         .groups = 1,
                         .height = height,
                         .width = width};
    return tl_apply(c, op, &attr, 2, in);
}
OP_CALL(input_grad, apply(c, TL_OP_convolve2d_input_grad, in, k->p[0], k->p[1]))
OP_CALL(filter_grad, apply(c, TL_OP_convolve2d_filter_grad, in, k->p[0], k->p[1]))

/* --- PyTorch's: channels first, padding before the convolution -------------------------------- */
#define IMAGE "a.permute(0,3,1,2)"
#define FILTER "b.permute(3,2,0,1).contiguous()"
#define OPTIONS "stride=(p[0],p[1]), dilation=(p[2],p[3]), groups=max(p[9],1)"
#define BACK ".permute(0,2,3,1)"
// Size, window, stride, dilation: what TensorFlow puts before and after.
#define SAME_RULE                                                                                  \
    "(lambda n, k, s, d: (lambda t: (t // 2, t - t // 2))"                                         \
    "(max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)))"
#define VALID "F.conv2d(" IMAGE ", " FILTER ", " OPTIONS ")" BACK
#define PADDED "F.conv2d(F.pad(" IMAGE ", (p[7],p[8],p[5],p[6])), " FILTER ", " OPTIONS ")" BACK
#define SAME                                                                                       \
    "(lambda same: F.conv2d(F.pad(" IMAGE ", same(a.shape[2], b.shape[1], p[1], p[3])"             \
    " + same(a.shape[1], b.shape[0], p[0], p[2])), " FILTER ", " OPTIONS ")" BACK ")(" SAME_RULE   \
    ")"
#define PLAIN "F.conv2d(" IMAGE ", " FILTER ")" BACK
#define DEPTHWISE_FILTER "b.permute(2,3,0,1).reshape(-1, 1, b.shape[0], b.shape[1])"
#define DEPTHWISE                                                                                  \
    "F.conv2d(F.pad(" IMAGE ", (p[7],p[8],p[5],p[6])), " DEPTHWISE_FILTER                          \
    ", stride=(p[0],p[1]), dilation=(p[2],p[3]), groups=a.shape[3])" BACK
#define DEPTHWISE_SAME                                                                             \
    "(lambda same: F.conv2d(F.pad(" IMAGE ", same(a.shape[2], b.shape[1], p[1], p[3])"             \
    " + same(a.shape[1], b.shape[0], p[0], p[2])), " DEPTHWISE_FILTER                              \
    ", stride=(p[0],p[1]), dilation=(p[2],p[3]), groups=a.shape[3])" BACK ")(" SAME_RULE ")"
// Without padding, then cut (or filled up with zeros) to what the rule gives.
#define TRANSPOSED                                                                                 \
    "F.conv_transpose2d(" IMAGE ", " FILTER ", stride=(p[0],p[1]), dilation=(p[2],p[3])"           \
    ", groups=max(p[9],1))"
#define TRANSPOSED_SAME                                                                            \
    "(lambda y, same: (lambda h, w: F.pad(y, (-w[0], a.shape[2]*p[1] + w[0] - y.shape[3],"         \
    " -h[0], a.shape[1]*p[0] + h[0] - y.shape[2])))"                                               \
    "(same(a.shape[1]*p[0], b.shape[0], p[0], p[2]),"                                              \
    " same(a.shape[2]*p[1], b.shape[1], p[1], p[3])))"                                             \
    "(" TRANSPOSED ", " SAME_RULE ")" BACK
#define TRANSPOSED_VALID                                                                           \
    "(lambda y: F.pad(y, (0, max(p[1] - (b.shape[1]-1)*p[3] - 1, 0),"                              \
    " 0, max(p[0] - (b.shape[0]-1)*p[2] - 1, 0))))(" TRANSPOSED ")" BACK
#define TRANSPOSED_PADDED "F.pad(" TRANSPOSED ", (-p[7],-p[8],-p[5],-p[6]))" BACK
#define OF_1D                                                                                      \
    "F.conv1d(F.pad(a.permute(0,2,1), (p[3],p[4])), b.permute(2,1,0), stride=p[0], dilation=p[1]," \
    " groups=max(p[5],1)).permute(0,2,1)"
#define SAME_1D                                                                                    \
    "(lambda same: F.conv1d(F.pad(a.permute(0,2,1), same(a.shape[1], b.shape[0], p[0], p[1])),"    \
    " b.permute(2,1,0), stride=p[0], dilation=p[1], groups=max(p[5],1)).permute(0,2,1))"           \
    "(" SAME_RULE ")"

enum { V = TL_VALID, S = TL_SAME, E = TL_EXPLICIT };

// clang-format off
static const op_case cases[] = {
    /* --- sizes --- */
    {"3x3", {"1x5x5x2", "3x3x2x3"}, plain, .torch = PLAIN},
    {"1x1", {"2x3x4x3", "1x1x3x2"}, plain, .torch = PLAIN},
    {"1x1 on one pixel", {"1x1x1x1", "1x1x1x1"}, plain, .torch = PLAIN},
    {"1x1 with stride 2", {"1x5x4x2", "1x1x2x3"}, convolve, .p = {2, 2, 1, 1, V}, .torch = VALID},
    {"as large as the image", {"2x3x4x2", "3x4x2x3"}, plain, .torch = PLAIN},
    {"2x2", {"1x4x4x1", "2x2x1x1"}, plain, .torch = PLAIN},
    {"1x3", {"1x3x5x2", "1x3x2x2"}, plain, .torch = PLAIN},
    {"3x1", {"1x5x3x2", "3x1x2x2"}, plain, .torch = PLAIN},
    {"2x3 on odd sizes", {"3x5x7x2", "2x3x2x3"}, plain, .torch = PLAIN},
    {"5x5", {"1x7x6x1", "5x5x1x2"}, plain, .torch = PLAIN},
    {"7x7 with stride 2", {"1x9x9x1", "7x7x1x2"}, convolve, .p = {2, 2, 1, 1, S}, .torch = SAME},
    {"one channel to many", {"1x4x4x1", "3x3x1x17"}, plain, .torch = PLAIN},
    {"many channels to one", {"1x4x4x17", "3x3x17x1"}, plain, .torch = PLAIN},
    {"prime channels", {"1x3x3x7", "2x2x7x5"}, plain, .torch = PLAIN},
    {"pictures", {"2x6x5x3", "3x3x3x8"}, convolve, .p = {1, 1, 1, 1, S}},
    {"pictures, apart", {"2x9x8x1", "3x2x1x16"}, convolve, .p = {1, 2, 2, 1, E, 1, 0, 2, 1}},
    {"more than a tile", {"2x6x5x9", "3x3x9x19"}, plain},

    /* --- nothing --- */
    {"no images", {"0x5x5x2", "3x3x2x3"}, plain, .torch = PLAIN},
    {"no images, same", {"0x5x5x2", "3x3x2x3"}, convolve, .p = {2, 2, 1, 1, S}},
    {"no input channels", {"1x4x4x0", "3x3x0x2"}, plain},
    {"no output channels", {"1x4x4x2", "3x3x2x0"}, plain},
    {"no rows but padding", {"1x0x4x2", "2x2x2x3"}, convolve, .p = {1, 1, 1, 1, E, 1, 1, 0, 0}},

    /* --- strides --- */
    {"stride 2", {"1x7x7x2", "3x3x2x2"}, convolve, .p = {2, 2, 1, 1, V}, .torch = VALID},
    {"stride 2, a rest", {"1x6x8x2", "3x3x2x2"}, convolve, .p = {2, 2, 1, 1, V}, .torch = VALID},
    {"stride 2 by 1", {"1x7x5x2", "3x3x2x2"}, convolve, .p = {2, 1, 1, 1, V}, .torch = VALID},
    {"stride 1 by 3", {"1x5x9x2", "3x3x2x2"}, convolve, .p = {1, 3, 1, 1, V}, .torch = VALID},
    {"stride larger than the filter", {"1x7x8x2", "2x2x2x2"}, convolve, .p = {3, 4, 1, 1, V},
     .torch = VALID},
    {"stride larger than the image", {"2x3x3x2", "2x2x2x2"}, convolve, .p = {9, 9, 1, 1, V},
     .torch = VALID},
    {"strides given once", {"1x9x9x1", "3x3x1x2"}, one_number,
     .torch = "F.conv2d(" IMAGE ", " FILTER ", stride=2, dilation=2)" BACK},

    /* --- padding --- */
    {"same", {"1x5x5x2", "3x3x2x2"}, convolve, .p = {1, 1, 1, 1, S}, .torch = SAME},
    {"same, even filter", {"1x5x5x2", "2x4x2x2"}, convolve, .p = {1, 1, 1, 1, S}, .torch = SAME},
    {"same, stride 2", {"1x5x5x2", "3x3x2x2"}, convolve, .p = {2, 2, 1, 1, S}, .torch = SAME},
    {"same, stride 2, even image", {"1x6x4x2", "3x3x2x2"}, convolve, .p = {2, 2, 1, 1, S},
     .torch = SAME},
    {"same, stride 2, even filter", {"1x6x5x2", "2x2x2x2"}, convolve, .p = {2, 2, 1, 1, S},
     .torch = SAME},
    {"same, stride 3 by 2", {"1x7x5x2", "3x4x2x2"}, convolve, .p = {3, 2, 1, 1, S}, .torch = SAME},
    {"same, stride larger than the filter", {"1x7x8x1", "2x2x1x2"}, convolve, .p = {3, 4, 1, 1, S},
     .torch = SAME},
    {"same, 1x1", {"1x3x4x2", "1x1x2x3"}, convolve, .p = {1, 1, 1, 1, S}, .torch = SAME},
    {"same, 1x1, stride 2", {"1x3x4x2", "1x1x2x3"}, convolve, .p = {2, 2, 1, 1, S}, .torch = SAME},
    {"same, filter larger than the image", {"1x2x3x2", "5x5x2x2"}, convolve, .p = {1, 1, 1, 1, S},
     .torch = SAME},
    {"same, one pixel", {"2x1x1x3", "3x3x3x2"}, convolve, .p = {1, 1, 1, 1, S}, .torch = SAME},
    {"same, dilated", {"1x6x6x2", "3x3x2x2"}, convolve, .p = {1, 1, 2, 2, S}, .torch = SAME},
    {"same, dilated, stride 2", {"1x7x6x2", "3x3x2x2"}, convolve, .p = {2, 2, 2, 2, S},
     .torch = SAME},
    {"explicit", {"1x4x4x2", "3x3x2x2"}, convolve, .p = {1, 1, 1, 1, E, 1, 1, 1, 1},
     .torch = PADDED},
    {"explicit, four numbers", {"1x4x5x2", "3x3x2x2"}, convolve, .p = {1, 1, 1, 1, E, 1, 2, 0, 3},
     .torch = PADDED},
    {"explicit, none", {"1x4x5x2", "3x3x2x2"}, convolve, .p = {1, 1, 1, 1, E}, .torch = PADDED},
    {"explicit, filter larger than the image", {"1x2x2x2", "4x5x2x2"}, convolve,
     .p = {1, 1, 1, 1, E, 1, 1, 2, 2}, .torch = PADDED},
    {"explicit, more than the filter", {"1x3x3x1", "2x2x1x2"}, convolve,
     .p = {1, 1, 1, 1, E, 3, 0, 0, 3}, .torch = PADDED},
    {"explicit, stride 2", {"1x5x5x2", "3x3x2x2"}, convolve, .p = {2, 2, 1, 1, E, 1, 1, 1, 1},
     .torch = PADDED},
    {"explicit, stride 2 by 3, uneven", {"1x6x7x2", "3x2x2x2"}, convolve,
     .p = {2, 3, 1, 1, E, 0, 1, 2, 1}, .torch = PADDED},

    /* --- dilation --- */
    {"dilation 2", {"1x7x7x2", "3x3x2x2"}, convolve, .p = {1, 1, 2, 2, V}, .torch = VALID},
    {"dilation 3 by 1", {"1x7x5x2", "3x2x2x2"}, convolve, .p = {1, 1, 3, 1, V}, .torch = VALID},
    {"dilation 1 by 2", {"1x4x7x2", "2x3x2x2"}, convolve, .p = {1, 1, 1, 2, V}, .torch = VALID},
    {"dilation 2, stride 2", {"1x8x9x2", "3x3x2x2"}, convolve, .p = {2, 2, 2, 2, V},
     .torch = VALID},
    {"dilation 2, stride 3, padding", {"1x7x8x2", "3x2x2x2"}, convolve,
     .p = {3, 3, 2, 2, E, 2, 1, 1, 2}, .torch = PADDED},
    {"dilation of 1x1 does nothing", {"1x3x3x2", "1x1x2x2"}, convolve, .p = {1, 1, 5, 5, V},
     .torch = VALID},
    {"dilation into the padding", {"1x3x3x1", "2x2x1x2"}, convolve,
     .p = {1, 1, 4, 4, E, 2, 2, 2, 2},
     .torch = PADDED},

    /* --- groups --- */
    {"2 groups", {"1x4x4x4", "3x3x2x4"}, convolve, .p = {1, 1, 1, 1, V, 0, 0, 0, 0, 2},
     .torch = VALID},
    {"3 groups", {"1x4x4x6", "2x2x2x3"}, convolve, .p = {1, 1, 1, 1, V, 0, 0, 0, 0, 3},
     .torch = VALID},
    {"3 groups, same, stride 2", {"1x5x4x3", "3x3x1x6"}, convolve,
     .p = {2, 2, 1, 1, S, 0, 0, 0, 0, 3},
     .torch = SAME},
    {"2 groups of odd size", {"2x3x3x6", "2x2x3x10"}, convolve, .p = {1, 1, 1, 1, V, 0, 0, 0, 0, 2},
     .torch = VALID},
    {"2 groups, 1x1", {"1x3x3x4", "1x1x2x6"}, convolve, .p = {1, 1, 1, 1, V, 0, 0, 0, 0, 2},
     .torch = VALID},
    {"2 groups, dilation 2", {"1x6x6x4", "3x3x2x2"}, convolve, .p = {1, 1, 2, 2, S, 0, 0, 0, 0, 2},
     .torch = SAME},
    {"a group for each channel", {"1x4x4x3", "3x3x1x3"}, convolve,
     .p = {1, 1, 1, 1, V, 0, 0, 0, 0, 3},
     .torch = VALID},
    {"two from each channel", {"1x4x4x3", "3x3x1x6"}, convolve, .p = {1, 1, 1, 1, S, 0, 0, 0, 0, 3},
     .torch = SAME},

    /* --- depthwise --- */
    {"depthwise", {"1x5x5x3", "3x3x3x1"}, depthwise, .p = {1, 1, 1, 1, V}, .torch = DEPTHWISE},
    {"depthwise, plain call", {"1x4x4x3", "3x3x3x1"}, plain_depthwise,
     .torch = "F.conv2d(" IMAGE ", " DEPTHWISE_FILTER ", groups=3)" BACK},
    {"depthwise, twice", {"1x5x4x3", "3x3x3x2"}, depthwise, .p = {1, 1, 1, 1, V},
     .torch = DEPTHWISE},
    {"depthwise, same", {"1x5x4x3", "3x3x3x1"}, depthwise, .p = {1, 1, 1, 1, S},
     .torch = DEPTHWISE_SAME},
    {"depthwise, stride 2, same", {"1x6x5x5", "3x3x5x1"}, depthwise, .p = {2, 2, 1, 1, S},
     .torch = DEPTHWISE_SAME},
    {"depthwise, 5x5", {"1x7x7x2", "5x5x2x1"}, depthwise, .p = {1, 1, 1, 1, S},
     .torch = DEPTHWISE_SAME},
    {"depthwise, dilated", {"1x7x7x2", "3x3x2x2"}, depthwise, .p = {1, 1, 2, 2, V},
     .torch = DEPTHWISE},
    {"depthwise, explicit", {"1x4x4x2", "3x3x2x1"}, depthwise, .p = {1, 1, 1, 1, E, 1, 0, 2, 1},
     .torch = DEPTHWISE},
    {"depthwise, one channel", {"2x4x4x1", "2x2x1x3"}, depthwise, .p = {1, 1, 1, 1, V},
     .torch = DEPTHWISE},
    {"depthwise, many channels", {"1x3x3x19", "3x3x19x1"}, depthwise, .p = {1, 1, 1, 1, S},
     .torch = DEPTHWISE_SAME},
    {"depthwise, no images", {"0x4x4x2", "3x3x2x1"}, depthwise, .p = {1, 1, 1, 1, V}},

    /* --- wider than vectors and tiles --- */
    {"13 to 17 channels", {"1x6x7x13", "3x3x13x17"}, convolve, .p = {1, 1, 1, 1, S}},
    {"13 to 17 channels, stride 2", {"2x5x6x13", "3x2x13x17"}, convolve, .p = {2, 2, 1, 1, S}},
    {"40 to 14 channels, 1x1", {"2x5x4x40", "1x1x40x14"}, convolve, .p = {1, 1, 1, 1, V}},
    {"20 to 26 channels, 1x1, stride 2", {"2x5x4x20", "1x1x20x26"}, convolve,
     .p = {2, 2, 1, 1, V}},
    {"2 groups of 9 channels", {"1x5x5x18", "3x3x9x22"}, convolve,
     .p = {1, 1, 1, 1, S, 0, 0, 0, 0, 2}},
    {"3 to 15 channels, wide", {"1x5x21x3", "3x5x3x15"}, convolve, .p = {2, 2, 1, 1, S}},
    {"depthwise, wide", {"1x5x17x12", "3x3x12x1"}, depthwise, .p = {1, 1, 1, 1, S}},
    {"depthwise, wide, odd", {"1x5x17x21", "3x3x21x1"}, depthwise, .p = {1, 1, 1, 1, S}},
    {"depthwise, wide, stride 2", {"1x5x17x40", "3x3x40x1"}, depthwise, .p = {2, 2, 1, 1, S}},

    /* --- views and constants --- */
    {"image in another order", {"2x4x5x3:T", "3x3x3x2"}, plain, .torch = PLAIN},
    {"filter in another order", {"1x4x5x3", "3x3x3x2:T"}, plain, .torch = PLAIN},
    {"image with gaps", {"1x4x5x3:S", "3x3x3x2"}, plain, .torch = PLAIN},
    {"filter with gaps", {"1x4x5x3", "3x3x3x2:S"}, plain, .torch = PLAIN},
    {"one image many times", {"3x4x4x2:B", "3x3x2x2"}, plain, .torch = PLAIN},
    {"channels first", {"2x3x4x5", "2x2x3x2"}, channels_first,
     .torch = "F.conv2d(a, " FILTER ")" BACK},
    {"constant image", {"1x4x4x2:const", "3x3x2x2"}, plain, .torch = PLAIN},
    {"constant filter", {"1x4x4x2", "3x3x2x2:const"}, plain, .torch = PLAIN},
    {"two layers", {"1x4x4x2", "3x3x2x3", "3x3x3x2"}, twice},
    {"there and back", {"1x5x5x2", "3x3x2x3"}, there_and_back, .scale = 4,
    
     .torch = "F.conv_transpose2d(F.conv2d(" IMAGE ", " FILTER ", stride=2), " FILTER
              ", stride=2)" BACK},
    {"types meet", {"1x4x4x2:f32", "3x3x2x2:f64"}, plain, .flags = CASE_F32_UP},

    /* --- one axis --- */
    {"1d", {"2x7x3", "3x3x4"}, plain1d,
     .torch = "F.conv1d(a.permute(0,2,1), b.permute(2,1,0)).permute(0,2,1)"},
    {"1d, length 1", {"2x5x3", "1x3x4"}, convolve1d, .p = {1, 1, V}, .torch = OF_1D},
    {"1d, stride 2", {"2x8x3", "3x3x2"}, convolve1d, .p = {2, 1, V}, .torch = OF_1D},
    {"1d, same", {"1x7x2", "4x2x3"}, convolve1d, .p = {1, 1, S}, .torch = SAME_1D},
    {"1d, same, stride 3", {"1x8x2", "5x2x3"}, convolve1d, .p = {3, 1, S}, .torch = SAME_1D},
    {"1d, causal", {"1x7x2", "3x2x3"}, convolve1d, .p = {1, 2, E, 4, 0}, .torch = OF_1D},
    {"1d, dilation 2", {"1x9x2", "3x2x2"}, convolve1d, .p = {1, 2, V}, .torch = OF_1D},
    {"1d, groups", {"1x7x4", "3x2x6"}, convolve1d, .p = {1, 1, V, 0, 0, 2}, .torch = OF_1D},
    {"1d, of a view", {"2x7x3:T", "3x3x2"}, plain1d,
     .torch = "F.conv1d(a.permute(0,2,1), b.permute(2,1,0)).permute(0,2,1)"},
    {"1d, no rows", {"0x7x3", "3x3x2"}, plain1d},

    /* --- transposed --- */
    {"transposed", {"1x3x3x2", "3x3x4x2"}, plain_transpose,
     .torch = "F.conv_transpose2d(" IMAGE ", " FILTER ")" BACK},
    {"transposed, 1x1", {"1x3x2x2", "1x1x3x2"}, transpose, .p = {1, 1, 1, 1, V},
     .torch = TRANSPOSED_VALID},
    {"transposed, stride 2", {"1x3x4x2", "3x3x3x2"}, transpose, .p = {2, 2, 1, 1, V},
     .torch = TRANSPOSED_VALID},
    {"transposed, 2x2, stride 2", {"1x3x4x2", "2x2x3x2"}, transpose, .p = {2, 2, 1, 1, V},
     .torch = TRANSPOSED_VALID},
    {"transposed, stride larger than the filter", {"1x3x2x2", "2x2x3x2"}, transpose,
     .p = {3, 4, 1, 1, V}, .torch = TRANSPOSED_VALID},
    {"transposed, same", {"1x4x3x2", "3x3x3x2"}, transpose, .p = {1, 1, 1, 1, S},
     .torch = TRANSPOSED_SAME},
    {"transposed, same, stride 2", {"1x3x4x2", "3x3x3x2"}, transpose, .p = {2, 2, 1, 1, S},
     .torch = TRANSPOSED_SAME},
    {"transposed, same, even filter", {"1x3x4x2", "4x4x3x2"}, transpose, .p = {2, 2, 1, 1, S},
     .torch = TRANSPOSED_SAME},
    {"transposed, same, stride 3 by 2", {"1x3x2x2", "5x2x3x2"}, transpose, .p = {3, 2, 1, 1, S},
     .torch = TRANSPOSED_SAME},
    {"transposed, same, stride larger than the filter", {"1x2x3x2", "2x1x2x2"}, transpose,
     .p = {3, 2, 1, 1, S}, .torch = TRANSPOSED_SAME},
    {"transposed, dilated", {"1x3x3x2", "3x3x2x2"}, transpose, .p = {1, 1, 2, 2, V},
     .torch = TRANSPOSED_VALID},
    {"transposed, dilated, same, stride 2", {"1x3x3x2", "3x3x2x2"}, transpose, .p = {2, 2, 2, 2, S},
     .torch = TRANSPOSED_SAME},
    {"transposed, explicit", {"1x4x4x2", "3x3x2x2"}, transpose, .p = {2, 2, 1, 1, E, 1, 1, 1, 1},
     .torch = TRANSPOSED_PADDED},
    {"transposed, explicit, uneven", {"1x4x3x2", "3x4x2x2"}, transpose,
     .p = {2, 1, 1, 1, E, 1, 0, 2, 1}, .torch = TRANSPOSED_PADDED},
    {"transposed, chosen size", {"1x3x3x2", "3x3x2x2"}, transpose,
     .p = {2, 2, 1, 1, E, 1, 1, 1, 1, 0, 6, 6},
    
     .torch = "F.conv_transpose2d(" IMAGE ", " FILTER
              ", stride=2, padding=1, output_padding=1)" BACK},
    {"transposed, chosen size, valid", {"1x3x3x2", "3x3x2x2"}, transpose,
     .p = {2, 2, 1, 1, V, 0, 0, 0, 0, 0, 8, 7},
     .torch = "F.conv_transpose2d(" IMAGE ", " FILTER ", stride=2, output_padding=(1, 0))" BACK},
    {"transposed, 2 groups", {"1x3x3x4", "3x3x3x4"}, transpose, .p = {2, 2, 1, 1, V, 0, 0, 0, 0, 2},
     .torch = TRANSPOSED_VALID},
    {"transposed, of a view", {"2x3x4x2:T", "3x3x3x2:S"}, transpose, .p = {2, 2, 1, 1, S},
     .torch = TRANSPOSED_SAME},
    {"transposed, no images", {"0x3x3x2", "3x3x4x2"}, plain_transpose},

    /* --- the gradients as ops --- */
    {"input gradient", {"1x3x3x3", "3x3x2x3"}, input_grad, .p = {5, 5},
     .torch = "F.conv_transpose2d(" IMAGE ", " FILTER ")" BACK},
    {"filter gradient", {"2x5x5x2", "2x3x3x3"}, filter_grad, .p = {3, 3},
     .torch = "F.conv2d(a.permute(3,0,1,2), b.permute(3,0,1,2)).permute(2,3,0,1)"},
    {"filter gradient of views", {"2x5x5x2:T", "2x3x3x3:S"}, filter_grad, .p = {3, 3},
     .torch = "F.conv2d(a.permute(3,0,1,2), b.permute(3,0,1,2)).permute(2,3,0,1)"},
    {"filter gradient of nothing", {"0x5x5x2", "0x3x3x3"}, filter_grad, .p = {3, 3}},

    /* --- refused --- */
    {"three dims", {"5x5x2", "3x3x2x3"}, plain, .fails = "the image is"},
    {"filter of three dims", {"1x5x5x2", "3x3x2"}, plain, .fails = "must have 4 dimensions"},
    {"channels differ", {"1x5x5x2", "3x3x3x3"}, plain, .fails = "in 1 group of 2 channels"},
    {"channels of groups differ", {"1x5x5x4", "3x3x4x4"}, convolve,
     .p = {1, 1, 1, 1, V, 0, 0, 0, 0, 2},
     .fails = "in 2 groups of 2 channels"},
    {"input channels are not shared evenly", {"1x5x5x3", "3x3x1x4"}, convolve,
     .p = {1, 1, 1, 1, V, 0, 0, 0, 0, 2}, .fails = "3 input channels cannot be shared by 2 groups"},
    {"output channels are not shared evenly", {"1x5x5x4", "3x3x2x3"}, convolve,
     .p = {1, 1, 1, 1, V, 0, 0, 0, 0, 2}, .fails = "3 output channels"},
    {"negative groups", {"1x5x5x4", "3x3x2x3"}, convolve, .p = {1, 1, 1, 1, V, 0, 0, 0, 0, -2},
     .fails = "-2 groups"},
    {"filter too large", {"1x2x5x2", "3x3x2x3"}, plain,
     .fails = "covers 3 elements on the vertical axis"},
    {"dilated filter too large", {"1x5x4x2", "3x3x2x3"}, convolve, .p = {1, 1, 2, 2, V},
     .fails = "covers 5 elements on the horizontal axis"},
    {"negative stride", {"1x5x5x2", "3x3x2x3"}, convolve, .p = {-1, 1, 1, 1, V},
     .fails = "the vertical stride is -1"},
    {"negative stride, same", {"1x5x5x2", "3x3x2x3"}, convolve, .p = {1, -1, 1, 1, S},
     .fails = "stride is -1"},
    {"negative dilation", {"1x5x5x2", "3x3x2x3"}, convolve, .p = {1, 1, 1, -3, V},
     .fails = "the horizontal dilation is -3"},
    {"negative padding", {"1x5x5x2", "3x3x2x3"}, convolve, .p = {1, 1, 1, 1, E, -1},
     .fails = "the vertical padding before is -1"},
    {"padding beyond reason", {"1x5x5x2", "3x3x2x3"}, convolve,
     .p = {1, 1, 1, 1, E, 0, INT64_MAX}, .fails = "the vertical padding after is"},
    {"pads without their rule", {"1x5x5x2", "3x3x2x3"}, convolve, .p = {1, 1, 1, 1, S, 1},
     .fails = "they need .padding = TL_EXPLICIT"},
    {"no such padding", {"1x5x5x2", "3x3x2x3"}, convolve, .p = {1, 1, 1, 1, 7},
     .fails = "7 is no padding"},
    {"no filter rows", {"1x5x5x2", "0x3x2x3"}, plain, .fails = "the vertical window size is 0"},
    {"integers", {"1x5x5x2:int<4", "3x3x2x3:int<4"}, plain, .fails = "floating-point"},
    {"NULL", {"1x5x5x2"}, of_null, .fails = "input 1 is NULL"},
    {"1d: NULL", {"3x3x2"}, of_null_1d, .fails = "input 0 is NULL"},
    {"1d: four dims", {"1x5x5x2", "3x2x3"}, plain1d, .fails = "convolve1d: the image is"},
    {"depthwise: channels differ", {"1x5x5x2", "3x3x3x1"}, plain_depthwise,
     .fails = "its third dim must be the image's channels, 2"},
    {"depthwise: groups", {"1x5x5x2", "3x3x2x1"}, depthwise, .p = {1, 1, 1, 1, V, 0, 0, 0, 0, 2},
     .fails = "groups is set"},
    {"transposed: channels differ", {"1x3x3x2", "3x3x2x4"}, plain_transpose,
     .fails = "convolve2d_transpose: the image is"},
    {"transposed: a size that does not come about", {"1x3x3x2", "3x3x2x2"}, transpose,
     .p = {2, 2, 1, 1, V, 0, 0, 0, 0, 0, 9, 9}, .fails = "has 4x4 places"},
    {"transposed: negative stride", {"1x3x3x2", "3x3x2x2"}, transpose, .p = {-2, 2, 1, 1, V},
     .fails = "the vertical stride is -2"},
    {"transposed: padding eats all", {"1x1x1x2", "3x3x2x2"}, transpose,
     .p = {1, 1, 1, 1, E, 5, 5, 5, 5}, .fails = "image size is -7"},
    {"filter gradient: batches differ", {"2x5x5x2", "1x3x3x3"}, filter_grad, .p = {3, 3},
     .fails = "2 images and 1 results"},
    {"input gradient: channels differ", {"1x3x3x3", "3x3x2x4"}, input_grad, .p = {5, 5},
     .fails = "last dims must agree"},
};
// clang-format on

int main(int argc, char **argv)
{
    return op_cases_main(argc, argv, "conv", cases, TL_COUNT(cases));
}
