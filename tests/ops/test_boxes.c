#include "op_cases.h"

#include <math.h>
#include <tilth/ops/boxes.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/view.h>
#include <tilth/sys/ops/apply.h>

/* --- boxes whose corners are in order --------------------------------------------------------- */

// Corners and sizes [.., 4] as boxes: sizes are made at least a half.
static tl_tensor *boxed(tl_ctx *c, tl_tensor *x)
{
    tl_tensor *p[2];
    tl_split_even(c, x, -1, 2, p);
    tl_tensor *size = tl_shift(c, tl_square(c, p[1]), 0.5);
    return tl_concat(c, (tl_tensor *[]){p[0], tl_add(c, p[0], size)}, 2, -1);
}
#define BOXED(a)                                                                                   \
    "(lambda x: torch.cat([x[..., :2], x[..., :2] + x[..., 2:] ** 2 + 0.5], -1))(" a ")"

/* --- made of other ops ------------------------------------------------------------------------ */

// Numbers of a row: p[0] whether there are weights, q the weights.
OP_CALL(encode, tl_box_encode(c, boxed(c, in[0]), boxed(c, in[1]), k->p[0] ? k->q : NULL))
OP_CALL(decode, tl_box_decode(c, in[0], boxed(c, in[1]), k->p[0] ? k->q : NULL))
OP_CALL(decode_far, tl_box_decode(c, tl_scale(c, in[0], 100), boxed(c, in[1]), NULL))
OP_CALL(clip, tl_box_clip(c, in[0], in[1]))
OP_CALL(plain_overlap, tl_box_overlap(c, in[0], in[1], (tl_overlap)k->p[0]))
OP_CALL(enlarge, tl_box_enlarge(c, boxed(c, in[0]), in[1], k->q[0]))
OP_CALL(centers, tl_box_to_centers(c, in[0]))
OP_CALL(corners, tl_box_from_centers(c, in[0]))
OP_CALL(of_null, tl_box_encode(c, NULL, NULL, NULL))

static void small(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    out[0] = in[0];
    out[1] = in[1];
    tl_box_filter_small(c, &out[0], &out[1], in[2], k->q[0]);
}

static void poor(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    out[0] = in[0];
    out[1] = in[1];
    tl_box_filter_scores(c, &out[0], &out[1], k->q[0]);
}

#define ENCODE                                                                                     \
    "(lambda b, a: torch.cat([((b[..., :2] + b[..., 2:]) - (a[..., :2] + a[..., 2:])) / 2 / "      \
    "(a[..., 2:] - a[..., :2] + 1e-8), torch.log((b[..., 2:] - b[..., :2] + 1e-8) / (a[..., 2:] "  \
    "- a[..., :2] + 1e-8))], -1))(" BOXED("a") ", " BOXED("b") ")"
#define DECODE(scale)                                                                              \
    "(lambda t, a: (lambda m, s: torch.cat([m - s / 2, m + s / 2], -1))(t[..., :2] * (a[..., 2:] " \
    "- a[..., :2]) + (a[..., :2] + a[..., 2:]) / 2, torch.exp(t[..., 2:].clamp(max="               \
    "math.log(62.5))) * (a[..., 2:] - a[..., :2])))(" scale ", " BOXED("b") ")"
#define AREA(x) "(" x "[..., 2:] - " x "[..., :2]).prod(-1)"
#define WITH_SHARED(what)                                                                          \
    "(lambda a, b: (lambda i, p, q, h: " what ")((torch.minimum(a[..., :, None, 2:], b[..., None," \
    " :, 2:]) - torch.maximum(a[..., :, None, :2], b[..., None, :, "                               \
    ":2])).clamp(min=0).prod(-1), " AREA("a") "[..., :, None], " AREA(                             \
        "b") "[..., None, :], (torch.maximum(a[..., :, None, 2:], "                                \
             "b[..., None, :, 2:]) - torch.minimum(a[..., :, None, :2], b[..., None, :, "          \
             ":2])).prod(-1)))(" BOXED("a.abs()") ", " BOXED("b.abs()") ")"
OP_CALL(overlap_abs, tl_box_overlap(c, boxed(c, tl_abs(c, in[0])), boxed(c, tl_abs(c, in[1])),
                                    (tl_overlap)k->p[0]))

/* --- match_boxes, suppress_boxes -------------------------------------------------------------- */

// p: force, tell_padding; q: unmatched, matched
static void match(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_matches m = tl_box_match(c, in[0], in[1], .unmatched = k->q[0], .matched = k->q[1],
                                .force = k->p[0], .tell_padding = k->p[1]);
    out[0] = m.index;
    out[1] = m.kind;
    out[2] = m.overlap;
}

static void match_boxed(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_tensor *boxes[] = {boxed(c, in[0]), boxed(c, in[1])};
    match(c, k, boxes, out);
}

static void take(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_matches m =
        tl_box_match(c, in[0], in[1], .unmatched = k->q[0], .matched = k->q[1], .force = k->p[0]);
    out[0] = tl_match_take(c, &m, in[2], k->q[2]);
}

// p: rule, keep, candidates, rounds; q: overlap, score, sigma
static void suppress(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_kept kept = tl_box_suppress(c, in[0], in[1], .rule = (tl_suppression)k->p[0],
                                   .keep = k->p[1], .candidates = k->p[2], .rounds = k->p[3],
                                   .overlap = k->q[0], .score = k->q[1], .sigma = k->q[2]);
    out[0] = kept.index;
    out[1] = kept.score;
    out[2] = kept.count;
}

static void suppress_boxed(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_tensor *boxes[] = {boxed(c, in[0]), in[1]};
    suppress(c, k, boxes, out);
}

/* --- crop_windows ----------------------------------------------------------------------------- */

// in: windows, levels, maps; p: how many maps, size; q: offset
OP_CALL(crop, tl_crop(c, in[0], in + 2, (int)k->p[0], .levels = in[1], .size = k->p[1],
                      .offset = TL_SET(k->q[0])))
OP_CALL(crop_one, tl_crop(c, in[0], in + 1, 1, .size = k->p[1]))
// in: boxes, maps; p: how many maps, size, first level
OP_CALL(crop_levels,
        tl_crop_levels(c, in[0], in + 1, (int)k->p[0], .first_level = k->p[2], .size = k->p[1]))
OP_CALL(crop_masks, tl_crop_masks(c, in[0], in[1], in[2], k->p[0], k->q[0]))

// in: windows, levels, crops; p: first, rows, columns, height, width
static tl_tensor *back(tl_ctx *c, const op_case *k, tl_tensor *const *in)
{
    tl_crop_attr attr = {.size = in[2]->shape.dims[2],
                         .offset = 0.5,
                         .first = k->p[0],
                         .rows = k->p[1],
                         .columns = k->p[2],
                         .height = k->p[3],
                         .width = k->p[4]};
    return tl_apply(c, TL_OP_crop_windows_grad, &attr, 3, in);
}
OP_CALL(crop_grad, back(c, k, in))

enum { IOU = TL_OVERLAP_IOU, IOA = TL_OVERLAP_IOA, GIOU = TL_OVERLAP_GIOU };
enum {
    TILED = TL_SUPPRESS_TILED,
    GREEDY = TL_SUPPRESS_GREEDY,
    ABOVE = TL_SUPPRESS_ABOVE,
    SOFT = TL_SUPPRESS_SOFT,
    REFINED = TL_SUPPRESS_REFINED,
    CHOICE = CASE_NO_GRADIENT | CASE_EXACT,
};
// Six boxes of one class: the second half covers the first, the fifth is apart, the last is empty.
#define SIX "1x6x1x4:f32:=0 0 10 10  0 0 10 5  0 4 10 14  0 0 10 9.5  20 20 30 30  0 0 0 0"
#define SIX_SCORES "1x6x1:f32:=0.9 0.8 0.7 0.6 0.04 0.5"

static const op_case cases[] = {
    {"encode", {"5x4", "5x4"}, encode, .torch = ENCODE, .scale = 4},
    {"encode, weights",
     {"2x3x4", "3x4"},
     encode,
     .p = {1},
     .q = {10, 10, 5, 5},
     .torch = ENCODE " * torch.tensor(q[:4])",
     .scale = 16},
    {"encode, no boxes", {"0x4", "1x4"}, encode},
    {"encode of views", {"4x4:T", "4x4:S"}, encode, .torch = ENCODE, .scale = 4},
    {"decode", {"5x4:in(-2,2)", "5x4"}, decode, .torch = DECODE("a"), .scale = 4},
    {"decode, weights",
     {"2x3x4:in(-2,2)", "3x4"},
     decode,
     .p = {1},
     .q = {10, 10, 5, 5},
     .torch = DECODE("a / torch.tensor(q[:4])"),
     .scale = 4},
    {"decode, too large",
     {"5x4:distinct", "5x4"},
     decode_far,
     .torch = DECODE("a * 100"),
     .scale = 64,
     .flags = CASE_F32_UP},
    {"clip",
     {"2x3x4:in(-9,9)", "2x1x2:positive:const"},
     clip,
     .torch = "torch.minimum(a, torch.cat([b, b], -1)).clamp(min=0)"},
    {"to centers",
     {"3x4"},
     centers,
     .torch = "torch.cat([(a[:, :2] + a[:, 2:]) / 2, a[:, 2:] - a[:, :2]], -1)"},
    {"from centers",
     {"3x4"},
     corners,
     .torch = "torch.cat([a[:, :2] - a[:, 2:] / 2, a[:, :2] + a[:, 2:] / 2], -1)"},
    {"enlarge", {"3x4:positive", "2:=3 2:const"}, enlarge, .q = {1.25}, .scale = 4},
    {"enlarge by 1", {"3x4", "2:=3 2:const"}, enlarge, .q = {1}},
    {"iou",
     {"2x3x4", "2x5x4"},
     overlap_abs,
     .p = {IOU},
     .scale = 8,
     .torch = WITH_SHARED("i / (p + q - i + 1e-8)")},
    {"ioa", {"2x3x4", "2x5x4"}, overlap_abs, .p = {IOA}, .scale = 8, .torch = WITH_SHARED("i / p")},
    {"giou",
     {"2x3x4", "2x5x4"},
     overlap_abs,
     .p = {GIOU},
     .scale = 8,
     .torch = WITH_SHARED("i / (p + q - i + 1e-8) - (h - (p + q - i)) / (h + 1e-8)")},
    {"iou of padding",
     {"3x4:=1 1 4 4  -1 -1 -1 -1  0 0 2 2", "2x4:=1 0 4 4  -1 -1 -1 -1"},
     plain_overlap,
     .p = {IOU},
     .flags = CASE_NO_GRADIENT,
     .scale = 2,
     .torch = "torch.tensor([[9 / (12 + 1e-8), -1], [-1, -1], [2 / (14 + 1e-8), -1]], "
              "dtype=torch.float64)"},
    {"ioa of nothing",
     {"2x4:=1 1 1 4  0 0 2 2", "1x4:=1 0 4 4"},
     plain_overlap,
     .p = {IOA},
     .flags = CASE_NO_GRADIENT,
     .torch = "torch.tensor([[0.], [.5]])"},
    {"giou of padding",
     {"2x4:=0 0 10 10  -1 -1 -1 -1", "2x4:=20 20 30 30  -1 -1 -1 -1"},
     plain_overlap,
     .p = {GIOU},
     .flags = CASE_NO_GRADIENT,
     .scale = 4},
    {"small",
     {"4x4:=0 0 4 4  1 1 2 2  8 8 30 30  3 3 9 9", "4:unit", "2:=16 16:const"},
     small,
     .q = {1},
     .outputs = 2,
     .flags = CASE_NO_DIFFERENCES,
     .torch = "(a * torch.tensor([1., 0, 0, 1])[:, None], b * torch.tensor([1., 0, 0, 1]))"},
    {"poor",
     {"3x4", "3:=0.25 0.5 0.75"},
     poor,
     .q = {0.5},
     .outputs = 2,
     .flags = CASE_NO_DIFFERENCES,
     .torch = "(a * (b > .5)[:, None], torch.where(b > .5, b, -torch.ones_like(b)))"},

    {"match",
     {"7x4:f32", "2x3x4:f32"},
     match_boxed,
     .q = {0.2, 0.4},
     .outputs = 3,
     .flags = CHOICE},
    {"match, forced",
     {"300x4:f32", "3x9x4:f32"},
     match_boxed,
     .p = {1},
     .q = {0.3, 0.6},
     .outputs = 3,
     .flags = CHOICE},
    {"match, images of their own",
     {"2x131x4:f32", "2x5x4:f32"},
     match_boxed,
     .p = {1},
     .q = {0.5, 0.5},
     .outputs = 3,
     .flags = CHOICE},
    {"match, many",
     {"9001x4:f32", "2x4x4:f32"},
     match_boxed,
     .p = {1},
     .q = {0.3, 0.7},
     .outputs = 3,
     .flags = CHOICE},
    {"match with padding",
     {"1x4x4:f32:=0 0 10 10  -1 -1 -1 -1  0 0 10 4  50 50 60 60",
      "1x3x4:f32:=-1 -1 -1 -1  0 0 10 10  -1 -1 -1 -1"},
     match,
     .p = {0, 1},
     .q = {0.5, 0.5},
     .outputs = 3,
     .flags = CHOICE,
     .torch = "(torch.tensor([[1, 0, 1, 1]]), torch.tensor([[1, -3, -1, -1]]))"},
    {"match with nothing but padding",
     {"1x2x4:f32:=0 0 10 10  1 1 2 2", "1x1x4:f32:=-1"},
     match,
     .p = {1},
     .q = {0.5, 0.5},
     .outputs = 3,
     .flags = CHOICE,
     .torch = "(torch.tensor([[0, 0]]), torch.tensor([[-1, -1]]), torch.tensor([[-1., -1]]))"},
    {"match, nobody there",
     {"1x2x4:f32", "1x0x4:f32"},
     match,
     .p = {1},
     .q = {0.5, 0.5},
     .outputs = 3,
     .flags = CHOICE},
    {"match, one that overlaps nothing",
     {"3x4:f32:=0 0 4 4  4 4 8 8  2 2 6 6", "1x2x4:f32:=4 4 8 8  90 90 99 99"},
     match,
     .p = {1},
     .q = {0.5, 0.5},
     .outputs = 3,
     .flags = CHOICE,
     .torch = "(torch.tensor([[1, 0, 0]]), torch.tensor([[1, 1, -1]]))"},
    {"match, no boxes",
     {"0x4:f32", "2x3x4:f32"},
     match,
     .p = {1},
     .q = {0.5, 0.5},
     .outputs = 3,
     .flags = CHOICE},
    {"match, take",
     {"3x4:f32:=0 0 4 4  4 4 8 8  1 1 4 4", "1x2x4:f32:=4 4 8 8  0 0 4 4", "1x2x3"},
     take,
     .q = {0.5, 0.6, -7},
     .torch = "torch.stack([c[0, 1], c[0, 0], torch.full((3,), -7.)])[None]"},
    {"match, take of one number",
     {"3x4:f32:=0 0 4 4  4 4 8 8  1 1 4 4", "1x2x4:f32:=4 4 8 8  0 0 4 4", "1x2:int<9"},
     take,
     .q = {0.5, 0.6, -1},
     .flags = CASE_NO_GRADIENT},
    {"match, take of none",
     {"3x4:f32", "1x0x4:f32", "1x0x2"},
     take,
     .q = {0.5, 0.6, -1},
     .flags = CASE_NO_GRADIENT},

    {"tiled",
     {SIX, SIX_SCORES},
     suppress,
     .p = {TILED, 4, 5000},
     .q = {0.5, 0.05},
     .outputs = 3,
     .flags = CHOICE,
     .torch = "(torch.tensor([[[0, 2, 0, 0]]]), torch.tensor([[[.9, .7, 0, 0]]]).float(), "
              "torch.tensor([[2]]))"},
    {"greedy",
     {SIX, SIX_SCORES},
     suppress,
     .p = {GREEDY, 4, 5000},
     .q = {0.5, 0.05},
     .outputs = 3,
     .flags = CHOICE,
     .torch = "(torch.tensor([[[0, 2, 0, 0]]]), None, torch.tensor([[2]]))"},
    {"above",
     {SIX, SIX_SCORES},
     suppress,
     .p = {ABOVE, 4, 0},
     .q = {0.5, 0.05},
     .outputs = 3,
     .flags = CHOICE,
     .torch = "(torch.tensor([[[0, 1, 2, 5]]]), None, torch.tensor([[4]]))"},
    {"soft",
     {SIX, SIX_SCORES},
     suppress,
     .p = {SOFT, 4, 5000},
     .q = {0.5, 0.05, 0.5},
     .outputs = 3,
     .flags = CHOICE,
     .torch = "(torch.tensor([[[0, 1, 2, 5]]]), None, torch.tensor([[4]]))"},
    {"refined",
     {SIX, SIX_SCORES},
     suppress,
     .p = {REFINED, 4, 5000, 2},
     .q = {0.5, 0.05},
     .outputs = 3,
     .flags = CHOICE,
     .torch = "(torch.tensor([[[0, 1, 2, 5]]]), None, torch.tensor([[4]]))"},
    // Overlaps of 0.43, 0.43 and 0.08: greedily the third stays.
    {"tiled, a chain",
     {"1x3x1x4:f32:=0 0 10 10  0 4 10 14  0 8 10 18", "1x3x1:f32:=0.9 0.8 0.7"},
     suppress,
     .p = {TILED, 3},
     .q = {0.3},
     .outputs = 3,
     .flags = CHOICE,
     .torch = "(torch.tensor([[[0, 0, 0]]]), None, torch.tensor([[1]]))"},
    {"greedy, a chain",
     {"1x3x1x4:f32:=0 0 10 10  0 4 10 14  0 8 10 18", "1x3x1:f32:=0.9 0.8 0.7"},
     suppress,
     .p = {GREEDY, 3},
     .q = {0.3},
     .outputs = 3,
     .flags = CHOICE,
     .torch = "(torch.tensor([[[0, 2, 0]]]), None, torch.tensor([[2]]))"},
    {"tiled, several tiles",
     {"1x1300x1x4:f32:in(0,9)", "1x1300x2:f32:unit"},
     suppress_boxed,
     .p = {TILED, 1300},
     .q = {0.4, 0.1},
     .outputs = 3,
     .flags = CHOICE},
    {"tiled, boxes of classes",
     {"2x90x3x4:f32:positive", "2x90x3:f32:unit"},
     suppress_boxed,
     .p = {TILED, 7, 40},
     .q = {0.3, 0.2},
     .outputs = 3,
     .flags = CHOICE},
    {"greedy, many classes",
     {"2x60x1x4:f32:positive", "2x60x37:f32:unit"},
     suppress_boxed,
     .p = {GREEDY, 9, 50},
     .q = {0.25, 0.5},
     .outputs = 3,
     .flags = CHOICE},
    {"above, many classes",
     {"2x60x1x4:f32:positive", "2x60x37:f32:unit"},
     suppress_boxed,
     .p = {ABOVE, 60},
     .q = {0.25, 0},
     .outputs = 3,
     .flags = CHOICE},
    {"above, corners in any order",
     {"1x40x1x4:f32", "1x40x5:f32:unit"},
     suppress,
     .p = {ABOVE, 40},
     .q = {0.1, 0},
     .outputs = 3,
     .flags = CHOICE},
    {"greedy, equal scores",
     {"1x30x1x4:f32:positive", "1x30x1:f32:=0.5 0.25 0.5"},
     suppress_boxed,
     .p = {GREEDY, 30},
     .q = {0.2, 0},
     .outputs = 3,
     .flags = CHOICE},
    {"greedy, threshold 0",
     {SIX, SIX_SCORES},
     suppress,
     .p = {GREEDY, 4},
     .q = {0, 0.05},
     .outputs = 3,
     .flags = CHOICE},
    {"soft, several classes",
     {"2x40x1x4:f32:positive", "2x40x3:f32:unit"},
     suppress_boxed,
     .p = {SOFT, 20},
     .q = {0.5, 0.1, 0.5},
     .outputs = 3,
     .flags = CHOICE},
    {"refined, several classes",
     {"2x40x1x4:f32:positive", "2x40x3:f32:unit"},
     suppress_boxed,
     .p = {REFINED, 20, 0, 2},
     .q = {0.1, 0.1},
     .outputs = 3,
     .flags = CHOICE},
    {"suppress nothing",
     {"1x0x1x4:f32", "1x0x2:f32"},
     suppress,
     .p = {TILED, 3},
     .q = {0.5},
     .outputs = 3,
     .flags = CHOICE},
    {"suppress, keep none",
     {SIX, SIX_SCORES},
     suppress,
     .p = {TILED, 0},
     .q = {0.5},
     .outputs = 3,
     .flags = CHOICE},
    {"suppress, no classes",
     {"1x3x1x4:f32", "1x3x0:f32"},
     suppress,
     .p = {TILED, 3},
     .q = {0.5},
     .outputs = 3,
     .flags = CHOICE},

    {"crop",
     {"2x3x4:f32:in(-1,6):const", "2x3:int<2", "2x6x5x3", "2x3x3x3"},
     crop,
     .p = {2, 2},
     .q = {0.5},
     .scale = 4},
    {"crop, a place between levels",
     {"1x4x4:f32:in(0,9):const", "1x4:int<3", "1x7x5x2", "1x4x3x2", "1x2x2x2"},
     crop,
     .p = {3, 3},
     .q = {0.5},
     .scale = 4},
    {"crop without offset",
     {"1x3x4:f32:in(-2,5):const", "1x3:int<1", "1x5x5x70"},
     crop,
     .p = {1, 3},
     .q = {0},
     .scale = 4},
    {"crop of the only map",
     {"1x2x4:f32:=0 0 4 4  1 1 2 2:const", "1x4x4x1"},
     crop_one,
     .p = {0, 2},
     .torch = "torch.stack([b[0, 1:4:2, 1:4:2], (lambda s: torch.stack([s(1.5, 1.5), "
              "s(1.5, 2.5), s(2.5, 1.5), s(2.5, 2.5)]).reshape(2, 2, 1))(lambda y, x: "
              "b[0, int(y):int(y) + 2, int(x):int(x) + 2].mean((0, 1)))])[None]"},
    {"crop of maps in another order",
     {"2x3x4:f32:in(-1,6):const", "2x3:int<1", "2x6x5x3:T"},
     crop,
     .p = {1, 2},
     .q = {0.5},
     .scale = 4},
    {"crop, levels that are not there",
     {"1x3x4:f32:in(0,3):const", "1x3:i32:=-1 0 5", "1x4x4x2"},
     crop,
     .p = {1, 2},
     .q = {0.5},
     .scale = 4},
    {"crop, no windows",
     {"1x0x4:f32:const", "1x0:int<2", "1x4x4x2"},
     crop,
     .p = {1, 2},
     .q = {0.5}},
    {"crop levels",
     {"1x4x4:f32:=0 0 16 16  4 6 20 30  0 0 0 0  24 24 32 32:const", "1x8x8x1", "1x4x4x1"},
     crop_levels,
     .p = {2, 2, 2},
     .scale = 4},
    {"crop levels, all sizes",
     {"1x6x4:f32:=0 0 55.9 55.9  0 0 56 56  0 0 111.9 111.9  0 0 112 112  0 0 224 224  0 0 448 448:"
      "const",
      "1x8x8x2", "1x4x4x2", "1x2x2x2", "1x1x1x2"},
     crop_levels,
     .p = {4, 1, 1},
     .scale = 4},
    {"crop masks",
     {"1x2x4x4:unit:const", "1x2x4:f32:=0 0 8 8:const", "1x2x4:f32:=2 2 10 6:const"},
     crop_masks,
     .p = {4},
     .q = {0.5},
     .flags = CASE_NO_GRADIENT,
     .scale = 8},
    {"crop back",
     {"2x3x4:f32:in(-1,6):const", "2x3:int<2", "2x3x2x2x3"},
     crop_grad,
     .p = {0, 6, 5, 6, 5},
     .scale = 4},
    {"crop back to a level",
     {"2x5x4:f32:in(-1,3):const", "2x5:int<2", "2x5x2x2x67"},
     crop_grad,
     .p = {1, 3, 3, 6, 5},
     .scale = 4},

    {"five numbers", {"2x5", "2x4"}, plain_overlap, .fails = "4 numbers along the last axis"},
    {"one box", {"4", "2x4"}, plain_overlap, .fails = "with an axis of boxes"},
    {"NULL", {"1"}, of_null, .fails = "an input is NULL"},
    {"enlarge by less", {"3x4", "2"}, enlarge, .q = {0.5}, .fails = "enlarged by at least 1"},
    {"match, thresholds",
     {"3x4", "1x2x4"},
     match,
     .q = {0.5, 0.4},
     .outputs = 3,
     .fails = "matches begin at 0.4"},
    {"match, batches",
     {"3x3x4", "2x2x4"},
     match,
     .q = {0.5, 0.5},
     .outputs = 3,
     .fails = "not of one batch"},
    {"match, no batch",
     {"3x4", "2x4"},
     match,
     .q = {0.5, 0.5},
     .outputs = 3,
     .fails = "the other boxes are float32[2, 4]"},
    {"suppress, classes",
     {"1x3x2x4", "1x3x3"},
     suppress,
     .p = {TILED, 3},
     .q = {0.5},
     .outputs = 3,
     .fails = "do not fit"},
    {"suppress, a rule",
     {"1x3x1x4", "1x3x3"},
     suppress,
     .p = {9, 3},
     .outputs = 3,
     .fails = "9 is no rule"},
    {"suppress, soft",
     {"1x3x1x4", "1x3x3"},
     suppress,
     .p = {SOFT, 3},
     .outputs = 3,
     .fails = "a sigma of 0"},
    {"suppress, below 0",
     {"1x3x1x4", "1x3x3"},
     suppress,
     .p = {TILED, -3},
     .outputs = 3,
     .fails = "must not be below 0"},
    {"suppress, a threshold",
     {"1x3x1x4", "1x3x3"},
     suppress,
     .p = {TILED, 3},
     .q = {-1},
     .outputs = 3,
     .fails = "no overlap is below 0"},
    {"crop, a small level",
     {"1x3x4", "1x3:int<2", "1x8x8x2", "1x3x4x2"},
     crop,
     .p = {2, 2},
     .fails = "level 1 has 3x4 pixels"},
    {"crop, channels",
     {"1x3x4", "1x3:int<2", "1x8x8x2", "1x4x4x3"},
     crop,
     .p = {2, 2},
     .fails = "types, batches or channels"},
    {"crop, no size",
     {"1x3x4", "1x3:int<2", "1x8x8x2"},
     crop,
     .p = {1, 0},
     .fails = "crops of 0 rows"},
    {"crop, windows",
     {"1x3x5", "1x3:int<2", "1x8x8x2"},
     crop,
     .p = {1, 2},
     .fails = "must be float32 [batch, n, 4]"},
    {"crop, no maps", {"1x3x4", "1x3:int<2"}, crop, .p = {0, 2}, .fails = "0 maps"},
};

int main(int argc, char **argv)
{
    return op_cases_main(argc, argv, "boxes", cases, TL_COUNT(cases));
}
