#include <tilth/ops/norm.h>

#include <tilth/core/attrs.h>
#include <tilth/ops/activation.h>
#include <tilth/sys/ops/apply.h>

#include "op_cases.h"

/* p[0]: axes or groups; q[0]: epsilon. Inputs that are not there are NULL. */
OP_CALL(layer, tl_layer_normalize(c, in[0], in[1], in[2], k->p[0], k->q[0]))
OP_CALL(layer_shift, tl_layer_normalize(c, in[0], NULL, in[1], k->p[0], k->q[0]))
OP_CALL(rms, tl_rms_normalize(c, in[0], in[1], k->p[0], k->q[0]))
OP_CALL(group, tl_group_normalize(c, in[0], in[1], in[2], k->p[0], k->q[0]))
OP_CALL(group_shift, tl_group_normalize(c, in[0], NULL, in[1], k->p[0], k->q[0]))
OP_CALL(l2, tl_l2_normalize(c, in[0], (tl_axes){k->p, 1}, k->q[0]))
OP_CALL(l2_two, tl_l2_normalize(c, in[0], (tl_axes){k->p, 2}, k->q[0]))
OP_CALL(l2_all, tl_l2_normalize(c, in[0], TL_ALL, k->q[0]))

static void batch(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_tensor *mean, *variance;
    out[0] = tl_batch_normalize(c, in[0], in[1], in[2], k->q[0], &mean, &variance);
    if (k->outputs < 2) return;
    out[1] = mean;
    out[2] = variance;
}
OP_CALL(batch_shift, tl_batch_normalize(c, in[0], NULL, in[1], k->q[0], NULL, NULL))
/* An activation behind it, which graphs put into it; and the op that has it inside (p[0]). */
OP_CALL(batch_relu, tl_relu(c, tl_batch_normalize(c, in[0], in[1], in[2], k->q[0], NULL, NULL)))
OP_CALL(batch_relu6, tl_relu6(c, tl_batch_normalize(c, in[0], in[1], in[2], k->q[0], NULL, NULL)))

static void batch_activated(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_norm_attr a = {.epsilon = k->q[0],
                      .scaled = in[1] != NULL,
                      .shifted = in[2] != NULL,
                      .activation = (tl_activation)k->p[0]};
    tl_apply_all(c, TL_OP_batch_normalize, &a, 1 + a.scaled + a.shifted, in, out);
}

/* With something that is added before the activation. */
static void batch_added(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_norm_attr a = {.epsilon = k->q[0],
                      .scaled = true,
                      .shifted = true,
                      .activation = (tl_activation)k->p[0],
                      .added = true};
    tl_apply_all(c, TL_OP_batch_normalize, &a, 4, in, out);
}

static void stats(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    (void)k;
    tl_batch_norm_stats(c, in[0], &out[0], &out[1]);
}
OP_CALL(apply, tl_batch_norm_apply(c, in[0], in[1], in[2], in[3], in[4], k->q[0]))
OP_CALL(apply_shift, tl_batch_norm_apply(c, in[0], in[1], in[2], NULL, in[3], k->q[0]))

/* Both halves one after the other. */
static void halves(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_tensor *mean, *variance;
    tl_batch_norm_stats(c, in[0], &mean, &variance);
    out[0] = tl_batch_norm_apply(c, in[0], mean, variance, in[1], in[2], k->q[0]);
}

/* All outputs of the op, the statistics too. */
static void layer_outputs(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_norm_attr a = {.epsilon = k->q[0], .axes = k->p[0], .scaled = in[1] != NULL};
    tl_apply_all(c, TL_OP_layer_normalize, &a, 1 + a.scaled, in, out);
}

static void rms_outputs(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_norm_attr a = {.epsilon = k->q[0], .axes = k->p[0]};
    tl_apply_all(c, TL_OP_rms_normalize, &a, 1, in, out);
}

#define LAYER "F.layer_norm(a, a.shape[a.dim() - p[0]:], b, c, q[0])"
#define RMS "F.rms_norm(a, a.shape[a.dim() - p[0]:], b, q[0])"
#define GROUP "F.group_norm(a.movedim(-1, 1), p[0], b, c, q[0]).movedim(1, -1)"
#define BATCH "F.batch_norm(a.movedim(-1, 1), None, None, b, c, True, 0.1, q[0]).movedim(1, -1)"
#define BATCH_ALL                                                                                  \
    "(" BATCH ", a.reshape(-1, a.shape[-1]).mean(0), "                                             \
    "a.reshape(-1, a.shape[-1]).var(0, correction=0))"
#define APPLY "(a - b) / torch.sqrt(c + q[0]) * d + e"

static const op_case cases[] = {
    /* layer */
    {"layer", {"3x5", "5", "5"}, layer, .p = {1}, .q = {1e-5}, .torch = LAYER},
    {"layer large epsilon", {"3x5", "5", "5"}, layer, .p = {1}, .q = {0.5}, .torch = LAYER},
    {"layer two axes", {"2x3x5", "3x5", "3x5"}, layer, .p = {2}, .q = {1e-5}, .torch = LAYER},
    {"layer all axes", {"3x5", "3x5", "3x5"}, layer, .p = {2}, .q = {1e-5}, .torch = LAYER},
    {"layer vector", {"7", "7", "7"}, layer, .p = {1}, .q = {1e-5}, .torch = LAYER},
    {"layer deep", {"2x2x3x5", "5", "5"}, layer, .p = {1}, .q = {1e-6}, .torch = LAYER},
    {"layer plain",
     {"3x5"},
     layer,
     .p = {1},
     .q = {1e-5},
     .torch = "F.layer_norm(a, (5,), eps=q[0])"},
    {"layer gamma",
     {"3x5", "5"},
     layer,
     .p = {1},
     .q = {1e-5},
     .torch = "F.layer_norm(a, (5,), b, eps=q[0])"},
    {"layer beta",
     {"3x5", "5"},
     layer_shift,
     .p = {1},
     .q = {1e-5},
     .torch = "F.layer_norm(a, (5,), None, b, q[0])"},
    {"layer float32 gamma",
     {"3x5", "5:f32", "5:f32"},
     layer,
     .p = {1},
     .q = {1e-5},
     .flags = CASE_NO_F64},
    {"layer constant x", {"3x5:const", "5", "5"}, layer, .p = {1}, .q = {1e-5}, .torch = LAYER},
    {"layer constant gamma", {"3x5", "5:const", "5:const"}, layer, .p = {1}, .q = {1e-5}},
    {"layer long", {"3x131", "131", "131"}, layer, .p = {1}, .q = {1e-5}, .torch = LAYER},
    {"layer longer", {"2x769", "769", "769"}, layer, .p = {1}, .q = {1e-5}},
    {"layer many rows", {"67x8", "8", "8"}, layer, .p = {1}, .q = {1e-5}, .torch = LAYER},
    {"layer several tasks", {"331x129", "129", "129"}, layer, .p = {1}, .q = {1e-5}},
    {"layer longer than a block", {"3x5003", "5003", "5003"}, layer, .p = {1}, .q = {1e-5}},
    {"layer transposed", {"3x5:T", "5", "5"}, layer, .p = {1}, .q = {1e-5}, .torch = LAYER},
    {"layer every second", {"3x5:S", "5:S", "5:S"}, layer, .p = {1}, .q = {1e-5}, .torch = LAYER},
    {"layer repeated", {"3x5:B", "5", "5"}, layer, .p = {1}, .q = {1e-5}},
    {"layer of one number", {"4x1", "1", "1"}, layer, .p = {1}, .q = {1e-3}},
    {"layer away from 0",
     {"3x8:in(100,101)", "8", "8"},
     layer,
     .p = {1},
     .q = {1e-3},
     .scale = 40,
     .torch = LAYER},
    {"layer of equals", {"2x4:=3", "4", "4"}, layer, .p = {1}, .q = {1e-3}, .torch = LAYER},
    {"layer no rows", {"0x5", "5", "5"}, layer, .p = {1}, .q = {1e-5}},
    {"layer no items", {"3x0", "0", "0"}, layer, .p = {1}, .q = {1e-5}},
    {"layer statistics",
     {"3x5", "5"},
     layer_outputs,
     .outputs = 3,
     .p = {1},
     .q = {1e-2},
     .torch = "(F.layer_norm(a, (5,), b, eps=q[0]), a.mean(1), "
              "torch.rsqrt(a.var(1, correction=0) + q[0]))"},
    {"layer statistics of two axes", {"2x3x4"}, layer_outputs, .outputs = 3, .p = {2}, .q = {1e-2}},
    {"layer no axes",
     {"3x5"},
     layer,
     .p = {0},
     .q = {1e-5},
     .fails = "0 axes are to be normalised; x is float32[3, 5], so 1 to 2 are possible"},
    {"layer too many axes", {"3x5"}, layer, .p = {3}, .q = {1e-5}, .fails = "3 axes"},
    {"layer scalar", {"-"}, layer, .p = {1}, .q = {1e-5}, .fails = "layer_normalize: 1 axes"},
    {"layer gamma of another shape",
     {"3x5", "3"},
     layer,
     .p = {1},
     .q = {1e-5},
     .fails = "gamma is float32[3]; for x, float32[3, 5], it must be float32[5]"},
    {"layer beta of another shape",
     {"3x5", "5", "1x5"},
     layer,
     .p = {1},
     .q = {1e-5},
     .fails = "beta is float32[1, 5]"},
    {"layer gamma of another type",
     {"3x5:bf16", "5:f16"},
     layer,
     .p = {1},
     .q = {1e-5},
     .fails = "it must be bfloat16 or float32[5]"},
    {"layer negative epsilon",
     {"3x5"},
     layer,
     .p = {1},
     .q = {-1},
     .fails = "epsilon is -1 and must be at least 0"},
    {"layer of integers",
     {"3x5:int<3"},
     layer,
     .p = {1},
     .q = {1e-5},
     .fails = "x is int32[3, 5] and must be of a floating-point type"},

    /* rms */
    {"rms", {"3x5", "5"}, rms, .p = {1}, .q = {1e-5}, .torch = RMS},
    {"rms plain", {"3x5"}, rms, .p = {1}, .q = {1e-5}, .torch = "F.rms_norm(a, (5,), eps=q[0])"},
    {"rms several tasks", {"211x157", "157"}, rms, .p = {1}, .q = {1e-5}},
    {"rms longer than a block", {"2x4102", "4102"}, rms, .p = {1}, .q = {1e-5}},
    {"rms two axes", {"2x3x5", "3x5"}, rms, .p = {2}, .q = {1e-5}, .torch = RMS},
    {"rms vector", {"7", "7"}, rms, .p = {1}, .q = {1e-3}, .torch = RMS},
    {"rms long", {"3x131", "131"}, rms, .p = {1}, .q = {1e-5}, .torch = RMS},
    {"rms many rows", {"67x8", "8"}, rms, .p = {1}, .q = {1e-5}},
    {"rms transposed", {"3x5:T", "5:S"}, rms, .p = {1}, .q = {1e-5}, .torch = RMS},
    {"rms every second", {"3x5:S", "5"}, rms, .p = {1}, .q = {1e-5}},
    {"rms repeated", {"3x5:B", "5"}, rms, .p = {1}, .q = {1e-5}},
    {"rms of one number", {"4x1", "1"}, rms, .p = {1}, .q = {1e-2}, .torch = RMS},
    {"rms constant gamma", {"3x5", "5:const"}, rms, .p = {1}, .q = {1e-5}},
    {"rms no rows", {"0x5", "5"}, rms, .p = {1}, .q = {1e-5}},
    {"rms statistics",
     {"3x5"},
     rms_outputs,
     .outputs = 2,
     .p = {1},
     .q = {1e-2},
     .torch = "(F.rms_norm(a, (5,), eps=q[0]), torch.rsqrt((a * a).mean(1) + q[0]))"},
    {"rms too many axes", {"5", "5"}, rms, .p = {2}, .q = {1e-5}, .fails = "rms_normalize: 2 axes"},
    {"rms gamma of another shape", {"3x5", "4"}, rms, .p = {1}, .q = {1e-5}, .fails = "gamma is"},

    /* group */
    {"group", {"2x3x3x6", "6", "6"}, group, .p = {2}, .q = {1e-5}, .torch = GROUP},
    {"group three", {"2x3x3x6", "6", "6"}, group, .p = {3}, .q = {1e-5}, .torch = GROUP},
    {"group one", {"2x3x3x6", "6", "6"}, group, .p = {1}, .q = {1e-5}, .torch = GROUP},
    {"group of each channel", {"2x3x2x4", "4", "4"}, group, .p = {4}, .q = {1e-3}, .torch = GROUP},
    {"group plain",
     {"2x3x6"},
     group,
     .p = {2},
     .q = {1e-5},
     .torch = "F.group_norm(a.movedim(-1, 1), p[0], eps=q[0]).movedim(1, -1)"},
    {"group gamma",
     {"2x3x6", "6"},
     group,
     .p = {2},
     .q = {1e-5},
     .torch = "F.group_norm(a.movedim(-1, 1), p[0], b, eps=q[0]).movedim(1, -1)"},
    {"group beta",
     {"2x3x6", "6"},
     group_shift,
     .p = {2},
     .q = {1e-5},
     .torch = "F.group_norm(a.movedim(-1, 1), p[0], torch.ones_like(b), b, q[0]).movedim(1, -1)"},
    {"group without places", {"4x6", "6", "6"}, group, .p = {2}, .q = {1e-5}, .torch = GROUP},
    {"group video", {"2x2x2x2x4", "4", "4"}, group, .p = {2}, .q = {1e-5}, .torch = GROUP},
    {"group wide", {"2x3x64", "64", "64"}, group, .p = {4}, .q = {1e-5}, .torch = GROUP},
    {"group several blocks", {"3x300x24", "24", "24"}, group, .p = {4}, .q = {1e-5}},
    {"group several tasks", {"5x61x150", "150", "150"}, group, .p = {6}, .q = {1e-5}},
    {"group transposed", {"2x3x6:T", "6", "6"}, group, .p = {2}, .q = {1e-5}, .torch = GROUP},
    {"group every second", {"2x3x6:S", "6:S", "6"}, group, .p = {3}, .q = {1e-5}},
    {"group repeated", {"2x3x6:B", "6", "6"}, group, .p = {2}, .q = {1e-5}},
    {"group no examples", {"0x3x6", "6", "6"}, group, .p = {2}, .q = {1e-5}},
    {"group no places", {"2x0x6", "6", "6"}, group, .p = {2}, .q = {1e-5}},
    {"group uneven",
     {"2x3x6", "6", "6"},
     group,
     .p = {4},
     .q = {1e-5},
     .fails = "6 channels cannot be cut into 4 equal groups"},
    {"group zero",
     {"2x3x6", "6", "6"},
     group,
     .p = {0},
     .q = {1e-5},
     .fails = "into 0 equal groups"},
    {"group vector",
     {"6", "6", "6"},
     group,
     .p = {2},
     .q = {1e-5},
     .fails = "x is float32[6] and must have at least 2 dimensions"},
    {"group gamma of groups", {"2x3x6", "2"}, group, .p = {2}, .q = {1e-5}, .fails = "gamma is"},

    /* batch */
    {"batch", {"2x3x3x4", "4", "4"}, batch, .q = {1e-3}, .torch = BATCH},
    {"batch with statistics",
     {"2x3x3x4", "4", "4"},
     batch,
     .outputs = 3,
     .q = {1e-3},
     .torch = BATCH_ALL},
    {"batch of vectors", {"5x3", "3", "3"}, batch, .q = {1e-3}, .torch = BATCH},
    {"batch plain",
     {"5x3"},
     batch,
     .q = {1e-3},
     .torch = "F.batch_norm(a, None, None, training=True, eps=q[0])"},
    {"batch gamma",
     {"5x3", "3"},
     batch,
     .q = {1e-3},
     .torch = "F.batch_norm(a, None, None, b, training=True, eps=q[0])"},
    {"batch beta",
     {"5x3", "3"},
     batch_shift,
     .q = {1e-3},
     .torch = "F.batch_norm(a, None, None, None, b, True, 0.1, q[0])"},
    {"batch relu", {"2x3x3x4", "4", "4"}, batch_relu, .q = {1e-3}, .torch = "F.relu(" BATCH ")"},
    {"batch relu many channels",
     {"40x131", "131", "131"},
     batch_relu,
     .q = {1e-3},
     .flags = CASE_NO_DIFFERENCES},
    {"batch relu6",
     {"9x5", "5:=8 2 4 9 1", "5:=3 1 5 0 -1"},
     batch_relu6,
     .q = {1e-3},
     .torch = "F.relu6(" BATCH ")"},
    {"batch relu inside",
     {"2x3x3x4", "4", "4"},
     batch_activated,
     .outputs = 4,
     .p = {TL_ACT_RELU},
     .q = {1e-3}},
    {"batch relu6 inside",
     {"9x5", "5:=8 2 4 9 1", "5:=3 1 5 0 -1"},
     batch_activated,
     .outputs = 4,
     .p = {TL_ACT_RELU6},
     .q = {1e-3}},
    {"batch relu6 inside plain",
     {"300x67"},
     batch_activated,
     .outputs = 4,
     .p = {TL_ACT_RELU6},
     .q = {1e-3},
     .flags = CASE_NO_DIFFERENCES},
    {"batch sum inside", {"2x3x3x4", "4", "4", "2x3x3x4"}, batch_added, .outputs = 4, .q = {1e-3}},
    {"batch sum and relu inside",
     {"300x67", "67", "67", "300x67"},
     batch_added,
     .outputs = 4,
     .p = {TL_ACT_RELU},
     .q = {1e-3},
     .flags = CASE_NO_DIFFERENCES},
    {"batch sum and relu6 inside",
     {"2x3x3x8", "8", "8", "2x3x3x8"},
     batch_added,
     .outputs = 4,
     .p = {TL_ACT_RELU6},
     .q = {1e-3},
     .flags = CASE_NO_DIFFERENCES},
    {"batch sum of other shapes",
     {"6x5", "5", "5", "5"},
     batch_added,
     .outputs = 4,
     .q = {1e-3},
     .fails = "it must be as x is"},
    {"batch tanh inside",
     {"6x5", "5", "5"},
     batch_activated,
     .outputs = 4,
     .p = {TL_ACT_TANH},
     .q = {1e-3},
     .fails = "relu and relu6 may follow"},
    {"batch one channel", {"7x1", "1", "1"}, batch, .q = {1e-3}, .torch = BATCH},
    {"batch many channels", {"5x131", "131", "131"}, batch, .q = {1e-3}, .torch = BATCH},
    {"batch many examples", {"67x2x3", "3", "3"}, batch, .outputs = 3, .q = {1e-3}},
    {"batch several blocks", {"1100x67", "67", "67"}, batch, .outputs = 3, .q = {1e-3}},
    {"batch no examples", {"0x3", "3", "3"}, batch, .q = {1e-3}},
    {"batch float32 gamma", {"5x3", "3:f32", "3:f32"}, batch, .q = {1e-3}, .flags = CASE_NO_F64},
    {"batch transposed", {"5x3:T", "3", "3"}, batch, .outputs = 3, .q = {1e-3}, .torch = BATCH_ALL},
    {"batch every second", {"2x3x4:S", "4:S", "4"}, batch, .q = {1e-3}, .torch = BATCH},
    {"batch repeated", {"5x2x3:B", "3", "3"}, batch, .q = {1e-3}},
    {"batch constant x", {"5x3:const", "3", "3"}, batch, .q = {1e-3}},
    {"batch one example", {"1x3", "3", "3"}, batch, .q = {1e-3}},
    {"batch vector",
     {"3", "3", "3"},
     batch,
     .q = {1e-3},
     .fails = "batch_normalize: x is float32[3] and must have at least 2 dimensions"},
    {"batch gamma of another shape",
     {"5x3", "5"},
     batch,
     .q = {1e-3},
     .fails = "gamma is float32[5]; for x, float32[5, 3], it must be float32[3]"},

    /* its halves */
    {"stats", {"5x3"}, stats, .outputs = 2, .torch = "(a.mean(0), a.var(0, correction=0))"},
    {"stats of images",
     {"2x3x3x4"},
     stats,
     .outputs = 2,
     .torch = "(a.mean((0, 1, 2)), a.var((0, 1, 2), correction=0))"},
    {"stats transposed", {"5x3:T"}, stats, .outputs = 2},
    {"stats repeated", {"5x3:B"}, stats, .outputs = 2},
    {"stats of several blocks", {"600x37"}, stats, .outputs = 2},
    {"stats of one", {"1x3"}, stats, .outputs = 2},
    {"stats of integers", {"5x3:int<3"}, stats, .outputs = 2, .fails = "floating-point"},
    {"stats of a vector", {"5"}, stats, .outputs = 2, .fails = "at least 2 dimensions"},
    {"apply", {"5x3", "3", "3:positive", "3", "3"}, apply, .q = {1e-3}, .torch = APPLY},
    {"apply to images",
     {"2x3x3x4", "4", "4:positive", "4", "4"},
     apply,
     .q = {1e-3},
     .torch = APPLY},
    {"apply plain",
     {"5x3", "3", "3:positive"},
     apply,
     .q = {1e-3},
     .torch = "(a - b) / torch.sqrt(c + q[0])"},
    {"apply gamma",
     {"5x3", "3", "3:positive", "3"},
     apply,
     .q = {1e-3},
     .torch = "(a - b) / torch.sqrt(c + q[0]) * d"},
    {"apply beta",
     {"5x3", "3", "3:positive", "3"},
     apply_shift,
     .q = {1e-3},
     .torch = "(a - b) / torch.sqrt(c + q[0]) + d"},
    {"apply running statistics",
     {"5x3", "3:const", "3:positive:const", "3", "3"},
     apply,
     .q = {1e-3},
     .torch = APPLY},
    {"apply float32 statistics",
     {"5x3", "3:f32:const", "3:positive:f32:const", "3", "3"},
     apply,
     .q = {1e-3},
     .flags = CASE_NO_F64},
    {"apply transposed", {"5x3:T", "3", "3:positive", "3", "3"}, apply, .q = {1e-3}},
    {"apply several blocks", {"600x67", "67", "67:positive", "67", "67"}, apply, .q = {1e-3}},
    {"apply no examples", {"0x3", "3", "3:positive", "3", "3"}, apply, .q = {1e-3}},
    {"apply mean of another shape",
     {"5x3", "5", "3:positive"},
     apply,
     .q = {1e-3},
     .fails = "the mean is float32[5]"},
    {"apply variance of another shape",
     {"5x3", "3", "5:positive"},
     apply,
     .q = {1e-3},
     .fails = "the variance is float32[5]"},
    {"halves", {"5x3", "3", "3"}, halves, .q = {1e-3}, .torch = BATCH},
    {"halves of images", {"2x3x3x4", "4", "4"}, halves, .q = {1e-3}, .torch = BATCH},
    {"halves plain", {"2x3x4:T"}, halves, .q = {1e-3}},

    /* length */
    {"l2", {"3x5"}, l2, .p = {1}, .q = {1e-12}, .torch = "F.normalize(a, dim=1)"},
    {"l2 first axis", {"3x5"}, l2, .p = {0}, .q = {1e-12}, .torch = "F.normalize(a, dim=0)"},
    {"l2 two axes",
     {"2x3x5"},
     l2_two,
     .p = {1, 2},
     .q = {1e-12},
     .torch = "a / torch.sqrt((a * a).sum((1, 2), keepdim=True))"},
    {"l2 all axes", {"2x3"}, l2_all, .q = {1e-12}, .torch = "a / torch.sqrt((a * a).sum())"},
    {"l2 transposed", {"3x5:T"}, l2, .p = {-1}, .q = {1e-12}},
    {"l2 short", {"2x3:in(-0.5,0.5)"}, l2, .p = {1}, .q = {4.0}, .torch = "a / 2"},
    {"l2 of zeros", {"2x3:=0"}, l2, .p = {1}, .q = {0.25}, .torch = "a / 0.5"},
    {"l2 no rows", {"0x3"}, l2, .p = {1}, .q = {1e-12}},
    {"l2 axis too far", {"2x3"}, l2, .p = {2}, .q = {1e-12}, .fails = "axis 2"},
};

int main(int argc, char **argv)
{
    return op_cases_main(argc, argv, "norm", cases, TL_COUNT(cases));
}
