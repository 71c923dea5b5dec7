#include <tilth/ops/attention.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/reduce.h>

#include "engine.h"
#include "op_cases.h"

/* p[0]: causal, p[1]: training; q[0]: scale, q[1]: dropout. Behind q, k, v: a mask, a bias, or
 * both. */
static tl_attend_args args_of(const op_case *k, tl_tensor *const *in)
{
    tl_attend_args args = {.v = in[2], .causal = k->p[0], .scale = k->q[0], .dropout = k->q[1]};
    bool masked = k->in[3] && in[3]->dtype == TL_BOOL;
    if (masked) args.mask = in[3];
    if (k->in[3 + masked]) args.bias = in[3 + masked];
    return args;
}

static void fused(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_attend_args args = args_of(k, in);
    tl_ctx_set_training(c, k->p[1]);
    out[0] = tl_attend_with(c, in[0], in[1], &args);
}

static void plain(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_attend_args args = args_of(k, in);
    tl_ctx_set_training(c, k->p[1]);
    out[0] = tl_attend_plain_with(c, in[0], in[1], &args);
}

static void dropout(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_ctx_set_training(c, !k->p[0]);
    out[0] = tl_dropout(c, in[0], k->q[0]);
}

static void depth(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_ctx_set_training(c, !k->p[0]);
    out[0] = tl_stochastic_depth(c, in[0], k->q[0]);
}

#define SDPA(more)                                                                                 \
    "F.scaled_dot_product_attention(a.transpose(1, 2), b.transpose(1, 2), c.transpose(1, 2)" more  \
    ").transpose(1, 2)"
#define MASK ", attn_mask=d[:, None, None, :]"
#define BIAS ", attn_mask=d.expand(a.shape[0], a.shape[2], a.shape[1], b.shape[1])"
#define BOTH ", attn_mask=torch.where(d[:, None, None, :], e, -math.inf)"
#define GQA ", enable_gqa=True"
#define FIRST .flags = CASE_NO_SECOND

static const op_case cases[] = {
    {"attend", {"2x3x2x4", "2x5x2x4", "2x5x2x4"}, fused, FIRST, .torch = SDPA("")},
    {"attend scaled",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4"},
     fused,
     FIRST,
     .q = {0.25},
     .torch = SDPA(", scale=q[0]")},
    {"attend one", {"1x1x1x1", "1x1x1x1", "1x1x1x1"}, fused, FIRST},
    {"attend one query", {"2x1x2x4", "2x5x2x4", "2x5x2x4"}, fused, FIRST, .torch = SDPA("")},
    {"attend one key", {"2x3x2x4", "2x1x2x4", "2x1x2x4"}, fused, FIRST, .torch = SDPA("")},
    {"attend wider values", {"2x3x2x4", "2x5x2x4", "2x5x2x7"}, fused, FIRST, .torch = SDPA("")},
    {"attend long", {"1x17x1x8", "1x33x1x8", "1x33x1x8"}, fused, FIRST, .torch = SDPA("")},
    {"attend wide heads", {"1x3x2x65", "1x5x2x65", "1x5x2x65"}, fused, FIRST, .torch = SDPA("")},
    {"attend causal",
     {"2x5x2x4", "2x5x2x4", "2x5x2x4"},
     fused,
     FIRST,
     .p = {1},
     .torch = SDPA(", is_causal=True")},
    {"attend causal longer",
     {"1x19x2x4", "1x19x2x4", "1x19x2x4"},
     fused,
     FIRST,
     .p = {1},
     .torch = SDPA(", is_causal=True")},
    {"attend causal, more keys",
     {"2x2x2x4", "2x5x2x4", "2x5x2x4"},
     fused,
     FIRST,
     .p = {1},
     .torch = SDPA(", attn_mask=torch.ones(2, 5, dtype=torch.bool).tril(3)")},
    {"attend causal, more queries", {"2x5x2x4", "2x3x2x4", "2x3x2x4"}, fused, FIRST, .p = {1}},
    {"attend grouped", {"2x3x4x4", "2x5x2x4", "2x5x2x4"}, fused, FIRST, .torch = SDPA(GQA)},
    {"attend one for all", {"2x3x6x4", "2x5x1x4", "2x5x1x4"}, fused, FIRST, .torch = SDPA(GQA)},
    {"attend grouped causal",
     {"1x5x6x4", "1x5x3x4", "1x5x3x3"},
     fused,
     FIRST,
     .p = {1},
     .torch = SDPA(", is_causal=True" GQA)},
    {"attend masked",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4", "2x5:bool:=1 1 1 0 0 1 0 1 1 0"},
     fused,
     FIRST,
     .torch = SDPA(MASK)},
    {"attend masked whole",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4", "2x5:bool:=1 1 1 0 0 0 0 0 0 0"},
     fused,
     FIRST},
    {"attend masked causal",
     {"2x5x2x4", "2x5x2x4", "2x5x2x4", "2x5:bool:=1 1 1 0 0 1 1 1 1 0"},
     fused,
     FIRST,
     .p = {1},
     .torch = SDPA(", attn_mask=d[:, None, None, :] & torch.ones(5, 5, dtype=torch.bool).tril()")},
    {"attend masked causal, rows without keys",
     {"2x5x2x4", "2x5x2x4", "2x5x2x4", "2x5:bool:=0 0 1 1 0 1 1 1 1 0"},
     fused,
     FIRST,
     .p = {1}},
    {"attend biased",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4", "2x2x3x5"},
     fused,
     FIRST,
     .torch = SDPA(BIAS)},
    {"attend bias of heads",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4", "2x3x5"},
     fused,
     FIRST,
     .torch = SDPA(BIAS)},
    {"attend bias of places",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4", "3x5"},
     fused,
     FIRST,
     .torch = SDPA(BIAS)},
    {"attend bias of keys",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4", "2x1x1x5"},
     fused,
     FIRST,
     .torch = SDPA(BIAS)},
    {"attend bias scalar", {"2x3x2x4", "2x5x2x4", "2x5x2x4", "-"}, fused, FIRST},
    {"attend constant bias",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4", "3x5:const"},
     fused,
     FIRST,
     .torch = SDPA(BIAS)},
    {"attend bias of a view",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4", "2x3x5:T"},
     fused,
     FIRST,
     .torch = SDPA(BIAS)},
    {"attend masked and biased",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4", "2x5:bool:=1 1 1 0 0 1 0 1 1 0", "2x3x5"},
     fused,
     FIRST,
     .torch = SDPA(BOTH)},
    {"attend grouped and biased",
     {"2x3x4x4", "2x5x2x4", "2x5x2x4", "4x3x5"},
     fused,
     FIRST,
     .torch = SDPA(BIAS GQA)},
    {"attend views", {"2x3x2x4:T", "2x5x2x4:S", "2x5x2x4:T"}, fused, FIRST, .torch = SDPA("")},
    {"attend repeated", {"2x3x2x4:B", "2x5x2x4:B", "2x5x2x4"}, fused, FIRST},
    {"attend mask of a view", {"2x3x2x4", "2x5x2x4", "2x5x2x4", "2x5:bool:=1 1 0:T"}, fused, FIRST},
    {"attend constant keys",
     {"2x3x2x4", "2x5x2x4:const", "2x5x2x4"},
     fused,
     FIRST,
     .torch = SDPA("")},
    {"attend large scores",
     {"1x3x2x4:in(-30,30)", "1x5x2x4:in(-30,30)", "1x5x2x4"},
     fused,
     FIRST,
     .scale = 10,
     .torch = SDPA("")},
    {"attend no examples", {"0x3x2x4", "0x5x2x4", "0x5x2x4"}, fused, FIRST},
    {"attend no queries", {"2x0x2x4", "2x5x2x4", "2x5x2x4"}, fused, FIRST},
    {"attend no keys", {"2x3x2x4", "2x0x2x4", "2x0x2x4"}, fused, FIRST},
    // Several tiles of keys, blocks of queries and strips of them, whole ones and what is left.
    {"attend tiles", {"1x50x2x12", "1x131x2x12", "1x131x2x12"}, fused, FIRST | CASE_NO_DIFFERENCES},
    {"attend tiles of wide heads",
     {"1x26x1x64", "1x135x1x64", "1x135x1x64"},
     fused,
     FIRST | CASE_NO_DIFFERENCES},
    {"attend tiles, odd widths",
     {"2x61x2x7", "2x137x1x7", "2x137x1x13"},
     fused,
     FIRST | CASE_NO_DIFFERENCES},
    {"attend many queries",
     {"1x301x1x5", "1x9x1x5", "1x9x1x17"},
     fused,
     FIRST | CASE_NO_DIFFERENCES},
    {"attend tiles, causal",
     {"1x157x2x8", "1x157x2x8", "1x157x2x8"},
     fused,
     FIRST | CASE_NO_DIFFERENCES,
     .p = {1}},
    {"attend tiles, causal, more keys",
     {"1x29x4x6", "1x203x2x6", "1x203x2x9"},
     fused,
     FIRST | CASE_NO_DIFFERENCES,
     .p = {1}},
    {"attend tiles, causal, more queries",
     {"1x211x2x6", "1x74x2x6", "1x74x2x9"},
     fused,
     FIRST | CASE_NO_DIFFERENCES,
     .p = {1}},
    {"attend tiles, masked",
     {"2x53x2x6", "2x141x2x6", "2x141x2x9", "2x141:bool"},
     fused,
     FIRST | CASE_NO_DIFFERENCES},
    {"attend tiles, masked causal",
     {"2x99x2x6", "2x99x2x6", "2x99x2x9", "2x99:bool:=1 1 0 1 1 1 0"},
     fused,
     FIRST | CASE_NO_DIFFERENCES,
     .p = {1}},
    {"attend tiles, biased",
     {"2x53x2x6", "2x141x2x6", "2x141x2x9", "2x53x141"},
     fused,
     FIRST | CASE_NO_DIFFERENCES},
    {"attend tiles, bias of keys",
     {"1x151x2x6", "1x70x2x6", "1x70x2x9", "1x2x1x70"},
     fused,
     FIRST | CASE_NO_DIFFERENCES},
    {"attend tiles, bias of queries",
     {"1x53x2x6", "1x141x2x6", "1x141x2x9", "53x1"},
     fused,
     FIRST | CASE_NO_DIFFERENCES,
     .p = {1}},
    {"attend tiles, views",
     {"2x53x2x6:T", "2x141x2x6:S", "2x141x2x9:T"},
     fused,
     FIRST | CASE_NO_DIFFERENCES},
    {"attend tiles, masked views",
     {"1x53x2x6:T", "1x141x2x6:T", "1x141x2x9:S", "1x141:bool:=1 0 1 1"},
     fused,
     FIRST | CASE_NO_DIFFERENCES},
    {"attend tiles, dropping",
     {"2x53x2x6", "2x141x2x6", "2x141x2x9"},
     fused,
     .flags = CASE_NO_SECOND | CASE_RANDOM | CASE_NO_DIFFERENCES,
     .p = {0, 1},
     .q = {0, 0.3}},
    {"attend tiles, dropping, causal",
     {"1x150x2x6", "1x150x1x6", "1x150x1x9", "1x1x150"},
     fused,
     .flags = CASE_NO_SECOND | CASE_RANDOM | CASE_NO_DIFFERENCES,
     .p = {1, 1},
     .q = {0, 0.3}},
    {"attend dropping",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4"},
     fused,
     .flags = CASE_NO_SECOND | CASE_RANDOM,
     .p = {0, 1},
     .q = {0, 0.5}},
    {"attend dropping, causal",
     {"2x5x2x4", "2x5x2x4", "2x5x2x4", "2x5x5"},
     fused,
     .flags = CASE_NO_SECOND | CASE_RANDOM,
     .p = {1, 1},
     .q = {0, 0.25}},
    {"attend dropping all",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4"},
     fused,
     .flags = CASE_NO_SECOND | CASE_RANDOM,
     .p = {0, 1},
     .q = {0, 1}},
    {"attend not dropping",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4"},
     fused,
     FIRST,
     .q = {0, 0.5},
     .torch = SDPA("")},
    {"attend of three axes",
     {"3x2x4", "2x5x2x4", "2x5x2x4"},
     fused,
     .fails = "attend: q is float32[3, 2, 4] and must have 4 dimensions"},
    {"attend other width",
     {"2x3x2x4", "2x5x2x3", "2x5x2x4"},
     fused,
     .fails =
         "q is float32[2, 3, 2, 4], k float32[2, 5, 2, 3] and v float32[2, 5, 2, 4]; they must"},
    {"attend other lengths", {"2x3x2x4", "2x5x2x4", "2x4x2x4"}, fused, .fails = "they must be"},
    {"attend other types", {"2x3x2x4", "2x5x2x4:bf16", "2x5x2x4"}, fused, .fails = "of one type"},
    {"attend uneven groups",
     {"2x3x3x4", "2x5x2x4", "2x5x2x4"},
     fused,
     .fails = "has 3 heads, which is not a multiple of the 2 of k"},
    {"attend without width",
     {"2x3x2x0", "2x5x2x0", "2x5x2x4"},
     fused,
     .fails = "its heads have no width"},
    {"attend mask of queries",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4", "2x3:bool"},
     fused,
     .fails = "the mask is bool[2, 3] and must be bool[2, 5]"},
    {"attend bias of another shape",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4", "3x4"},
     fused,
     .fails =
         "the bias is float32[3, 4] and must be float32 and broadcast to [B, H, T, S] = [2, 2"},
    {"attend bias too deep",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4", "3x2x2x3x5"},
     fused,
     .fails = "the bias is"},
    {"attend rate above 1",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4"},
     fused,
     .q = {0, 1.5},
     .fails = "the rate of dropout is 1.5"},
    {"attend of integers", {"2x3x2x4:int<3", "2x5x2x4", "2x5x2x4"}, fused, .fails = "q is int32"},

    {"plain", {"2x3x2x4", "2x5x2x4", "2x5x2x4"}, plain, .torch = SDPA("")},
    {"plain scaled",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4"},
     plain,
     .q = {0.25},
     .torch = SDPA(", scale=q[0]")},
    {"plain causal",
     {"2x5x2x4", "2x5x2x4", "2x5x2x4"},
     plain,
     .p = {1},
     .torch = SDPA(", is_causal=True")},
    {"plain causal, more keys",
     {"2x2x2x4", "2x5x2x4", "2x5x2x4"},
     plain,
     .p = {1},
     .torch = SDPA(", attn_mask=torch.ones(2, 5, dtype=torch.bool).tril(3)")},
    {"plain causal, more queries", {"2x5x2x4", "2x3x2x4", "2x3x2x4"}, plain, .p = {1}},
    {"plain grouped", {"2x3x4x4", "2x5x2x4", "2x5x2x3"}, plain, .torch = SDPA(GQA)},
    {"plain masked whole",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4", "2x5:bool:=1 1 1 0 0 0 0 0 0 0"},
     plain},
    {"plain masked and biased",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4", "2x5:bool:=1 1 1 0 0 1 0 1 1 0", "2x3x5"},
     plain,
     .torch = SDPA(BOTH)},
    {"plain views", {"2x3x2x4:T", "2x5x2x4:S", "2x5x2x4:T"}, plain, .torch = SDPA("")},
    {"plain dropping",
     {"2x3x2x4", "2x5x2x4", "2x5x2x4"},
     plain,
     .flags = CASE_RANDOM,
     .p = {0, 1},
     .q = {0, 0.5}},
    {"plain uneven groups",
     {"2x3x3x4", "2x5x2x4", "2x5x2x4"},
     plain,
     .fails = "attend_plain: q has 3 heads"},
    {"plain of three axes", {"2x3x2x4", "5x2x4", "2x5x2x4"}, plain, .fails = "k is float32[5, 2"},

    {"dropout", {"7x11"}, dropout, .flags = CASE_RANDOM, .q = {0.3}},
    {"dropout scalar", {"-"}, dropout, .flags = CASE_RANDOM, .q = {0.3}},
    {"dropout of views", {"7x11:T"}, dropout, .flags = CASE_RANDOM, .q = {0.5}},
    {"dropout every second", {"7x11:S"}, dropout, .flags = CASE_RANDOM, .q = {0.5}},
    {"dropout repeated", {"7x11:B"}, dropout, .flags = CASE_RANDOM, .q = {0.75}},
    {"dropout long", {"4099"}, dropout, .flags = CASE_RANDOM, .q = {0.1}},
    {"dropout several tasks", {"40009"}, dropout, .flags = CASE_RANDOM, .q = {0.1}},
    {"dropout nothing", {"3x5"}, dropout, .flags = CASE_RANDOM, .q = {0}, .torch = "a * 1"},
    {"dropout everything", {"3x5"}, dropout, .flags = CASE_RANDOM, .q = {1}, .torch = "a * 0"},
    {"dropout in evaluation", {"3x5"}, dropout, .p = {1}, .q = {0.5}, .torch = "a * 1"},
    {"dropout none", {"0x5"}, dropout, .flags = CASE_RANDOM, .q = {0.5}},
    {"dropout rate above 1",
     {"3x5"},
     dropout,
     .q = {1.5},
     .fails = "dropout: the rate is 1.5 and must be from 0 to 1"},
    {"dropout rate below 0 in evaluation",
     {"3x5"},
     dropout,
     .p = {1},
     .q = {-0.5},
     .fails = "the rate is -0.5"},
    {"dropout of integers", {"3x5:int<4"}, dropout, .q = {0.5}, .fails = "floating-point"},
    {"depth", {"7x3x2"}, depth, .flags = CASE_RANDOM, .q = {0.4}},
    {"depth of views", {"7x3x2:T"}, depth, .flags = CASE_RANDOM, .q = {0.4}},
    {"depth of a vector", {"13"}, depth, .flags = CASE_RANDOM, .q = {0.4}},
    {"depth in evaluation", {"7x3"}, depth, .p = {1}, .q = {0.4}, .torch = "a * 1"},
    {"depth scalar", {"-"}, depth, .q = {0.4}, .fails = "has no axis of examples"},
};

/* --- fused against plain, and what is drawn -------------------------------------------------- */

static int failures;

static void expect(bool holds, const char *name, const char *what)
{
    if (holds) return;
    printf("FAIL %s | %s\n", name, what);
    failures++;
}

// Counting, but not evenly: queries, keys and values that differ everywhere.
static tl_tensor *numbers(tl_ctx *c, tl_shape shape, int seed)
{
    double v[4096];
    for (int i = 0; i < 4096; i++) v[i] = sin(0.7 * i + seed) + 0.3 * cos(1.9 * i * seed);
    return tl_from_doubles(c, TL_F64, shape, v);
}

enum { MOST = 1024, INPUTS = 4 };
typedef struct answer {
    int64_t counts[1 + INPUTS];
    double v[1 + INPUTS][MOST]; /* the result, then gradients by q, k, v and bias */
} answer;

static void ask(answer *out, tl_ctx *c, bool fuse, bool causal, double rate)
{
    tl_mark m = tl_ctx_begin(c);
    tl_ctx_set_draws(c, (tl_draws){.seed = 5, .step = 7});
    tl_ctx_set_training(c, true);
    tl_tensor *in[INPUTS] = {numbers(c, TL_SHAPE(2, 7, 4, 3), 1),
                             numbers(c, TL_SHAPE(2, 9, 2, 3), 2),
                             numbers(c, TL_SHAPE(2, 9, 2, 5), 3), numbers(c, TL_SHAPE(4, 1, 9), 4)};
    bool keep[18];
    for (int i = 0; i < 18; i++) keep[i] = i % 5 != 2 && i != 0;
    tl_attend_args args = {.v = in[2],
                           .bias = in[3],
                           .causal = causal,
                           .dropout = rate,
                           .mask = tl_from(c, TL_BOOL, TL_SHAPE(2, 9), keep)};
    for (int i = 0; i < INPUTS; i++) expect(tl_watch(in[i]) == TL_OK, "fused", "watch");
    tl_ctx_set_taping(c, true);
    tl_tensor *g[1 + INPUTS], *y = fuse ? tl_attend_with(c, in[0], in[1], &args)
                                        : tl_attend_plain_with(c, in[0], in[1], &args);
    tl_tensor *loss = tl_sum(c, tl_mul(c, y, numbers(c, TL_SHAPE(2, 7, 4, 5), 6)), TL_ALL, false);
    g[0] = y;
    expect(tl_gradient(c, loss, in, INPUTS, g + 1) == TL_OK, "fused", tl_error_message());
    for (int i = 0; i <= INPUTS && !tl_ctx_failed(c); i++) {
        out->counts[i] = tl_tensor_count(g[i]);
        expect(tl_tensor_get_doubles(g[i], out->v[i], out->counts[i]) == TL_OK, "fused", "get");
    }
    tl_ctx_set_taping(c, false);
    tl_ctx_end(c, m);
}

static void fused_is_plain(tl_ctx *c)
{
    static answer a, b;
    for (int i = 0; i < 4; i++) {
        ask(&a, c, true, i % 2, i / 2 * 0.4);
        ask(&b, c, false, i % 2, i / 2 * 0.4);
        for (int k = 0; k <= INPUTS; k++) {
            double off = 0;
            for (int64_t e = 0; e < a.counts[k]; e++) off = fmax(off, fabs(a.v[k][e] - b.v[k][e]));
            expect(a.counts[k] > 0 && off < 1e-13, "fused is plain", "they differ");
        }
    }
}

static void read_out(double *out, tl_tensor *t)
{
    expect(t && tl_tensor_get_doubles(t, out, tl_tensor_count(t)) == TL_OK, "dropout", "read");
}

static void dropout_drops_its_share(tl_ctx *c)
{
    enum { N = 20000 };
    static double y[N], again[N], other[N];
    tl_mark m = tl_ctx_begin(c);
    tl_ctx_set_training(c, true);
    tl_ctx_set_draws(c, (tl_draws){.seed = 1});
    tl_tensor *x = tl_full(c, TL_F32, TL_SHAPE(N), 1.0);
    read_out(y, tl_dropout(c, x, 0.25));
    read_out(other, tl_dropout(c, x, 0.25));
    tl_ctx_set_draws(c, (tl_draws){.seed = 1});
    read_out(again, tl_dropout(c, x, 0.25));
    int64_t dropped = 0, same = 0, both = 0;
    for (int i = 0; i < N; i++) {
        dropped += y[i] == 0;
        same += y[i] == again[i];
        both += y[i] == 0 && other[i] == 0;
        expect(y[i] == 0 || fabs(y[i] - 4.0 / 3) < 1e-6, "dropout", "an element is not scaled");
    }
    // Five deviations of a binomial: 61 for each call, 34 for both together.
    expect(llabs(dropped - N / 4) < 306, "dropout", "it does not drop a quarter");
    expect(llabs(both - N / 16) < 172, "dropout", "two calls depend on each other");
    expect(same == N, "dropout", "the same key drops other elements");
    tl_ctx_set_training(c, false);
    expect(tl_dropout(c, x, 0.25) == x, "dropout", "evaluation does not give the tensor itself");
    tl_ctx_set_training(c, true);
    expect(tl_dropout(c, x, 0) == x, "dropout", "rate 0 does not give the tensor itself");
    tl_ctx_end(c, m);
}

static void depth_drops_whole_examples(tl_ctx *c)
{
    enum { N = 4000, EACH = 3 };
    static double y[N * EACH];
    tl_mark m = tl_ctx_begin(c);
    tl_ctx_set_training(c, true);
    read_out(y, tl_stochastic_depth(c, tl_full(c, TL_F64, TL_SHAPE(N, EACH), 1.0), 0.2));
    int64_t dropped = 0;
    for (int i = 0; i < N; i++) {
        dropped += y[i * EACH] == 0;
        for (int k = 1; k < EACH; k++)
            expect(y[i * EACH] == y[i * EACH + k], "depth", "an example is torn apart");
    }
    expect(llabs(dropped - N / 5) < 127, "depth", "it does not drop a fifth");
    tl_ctx_end(c, m);
}

int main(int argc, char **argv)
{
    int status = op_cases_main(argc, argv, "attention", cases, TL_COUNT(cases));
    tl_engine *e;
    tl_ctx *c;
    if (status || test_engine_new(&e, NULL, 2) != TL_OK) return 1;
    if (tl_ctx_new(&c, e) != TL_OK) return 1;
    fused_is_plain(c);
    dropout_drops_its_share(c);
    depth_drops_whole_examples(c);
    tl_ctx_free(&c);
    tl_engine_free(&e);
    return failures != 0;
}
