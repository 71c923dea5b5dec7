/* Ops as a model calls them, eagerly, against PyTorch (bench/peers/ops.py) and the limits of the
 * machine: multiply-adds in registers, or the copying of memory, measured in the same run on as
 * many threads.
 *
 * A row is one call of an op on tensors that are there; "and gradient" adds the whole way back to
 * the inputs. Names are those of the peer's cases. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/attention.h>
#include <tilth/ops/conv.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/index.h>
#include <tilth/ops/loss.h>
#include <tilth/ops/matmul.h>
#include <tilth/ops/norm.h>
#include <tilth/ops/pool.h>
#include <tilth/ops/random.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/softmax.h>
#include <tilth/ops/update.h>
#include <tilth/ops/view.h>
#include <tilth/sys/ops/apply.h>

#include "limits.h"

enum { MOST_INPUTS = 6 };

typedef struct op_row op_row;
typedef tl_tensor *op_fn(tl_ctx *c, tl_tensor *const *in, const int64_t *p);

/* What a row does, how much work that is, and on what. */
struct op_row {
    const char *name;
    op_fn *fn;
    bool gradient; /* and the way back to the float inputs */
    double flops;  /* of a call; 0: it is the bytes that count */
    double bytes;
    tl_shape in[MOST_INPUTS];
    int inputs, labels; /* the last `labels` inputs are int64, below p[0] */
    int64_t p[8];
    tl_dtype dtype;
};

typedef struct work {
    tl_engine *engine;
    tl_ctx *c;
    const op_row *row;
    tl_tensor *in[MOST_INPUTS];
} work;

static void run_row(void *payload)
{
    work *w = payload;
    const op_row *r = w->row;
    tl_mark mark = tl_ctx_begin(w->c);
    tl_ctx_set_taping(w->c, r->gradient);
    tl_tensor *y = r->fn(w->c, w->in, r->p), *g[MOST_INPUTS];
    if (r->gradient) {
        tl_gradient_args args = {.of = y, .by = w->in, .count = r->inputs - r->labels};
        if (tl_gradient_of(w->c, &args, g) != TL_OK) abort();
    }
    if (tl_ctx_status(w->c) != TL_OK) {
        fprintf(stderr, "%s: %s\n", r->name, tl_error_message());
        abort();
    }
    tl_ctx_end(w->c, mark);
}

/* --- rows ------------------------------------------------------------------------------------- */

#define FN(id, expression)                                                                         \
    static tl_tensor *id(tl_ctx *c, tl_tensor *const *in, const int64_t *p)                        \
    {                                                                                              \
        (void)p;                                                                                   \
        return expression;                                                                         \
    }
FN(add, tl_add(c, in[0], in[1]))
FN(exp_, tl_exp(c, in[0]))
FN(gelu, tl_gelu(c, in[0], false))
FN(gelu_tanh, tl_gelu(c, in[0], true))
FN(layer_norm, tl_layer_normalize(c, in[0], in[1], in[2], 1, 1e-5))
FN(softmax, tl_softmax(c, in[0], -1))
FN(batch_norm, tl_batch_normalize(c, in[0], in[1], in[2], 1e-5, NULL, NULL))
FN(cross_entropy, tl_sparse_cross_entropy(c, in[1], in[0]))
FN(lookup, tl_lookup(c, in[0], in[1]))
FN(sum_all, tl_sum(c, in[0], TL_ALL, false))
FN(sum_rows, tl_sum(c, in[0], TL_AXES(0), false))
FN(transposed, tl_contiguous(c, tl_transpose(c, in[0], (const int64_t[]){1, 0}, 2)))
FN(max_pool, tl_max_pool2d(c, in[0], .size = {2}))
FN(linear, tl_linear(c, in[0], in[1], in[2], TL_ACT_GELU))
FN(attention, tl_attend(c, in[0], in[1], in[2], .causal = p[0]))
FN(convolution, tl_convolve2d(c, in[0], in[1], .stride = {p[0]}, .padding = TL_EXPLICIT,
                              .pads = {p[1], p[1], p[1], p[1]}, .dilation = {p[2]}, .groups = p[3]))

// The two halves of a convolution's gradient: [2] is that of the result.
static tl_tensor *conv_grad(tl_ctx *c, tl_tensor *const *in, const int64_t *p, bool of_filter)
{
    const tl_shape *x = &in[0]->shape, *w = &in[1]->shape;
    tl_conv_attr a = {.stride_y = p[0],
                      .stride_x = p[0],
                      .dilation_y = p[2],
                      .dilation_x = p[2],
                      .top = p[1],
                      .bottom = p[1],
                      .left = p[1],
                      .right = p[1],
                      .groups = p[3],
                      .height = of_filter ? w->dims[0] : x->dims[1],
                      .width = of_filter ? w->dims[1] : x->dims[2]};
    return of_filter ? TL_APPLY(c, convolve2d_filter_grad, &a, in[0], in[2])
                     : TL_APPLY(c, convolve2d_input_grad, &a, in[2], in[1]);
}
FN(convolution_input, conv_grad(c, in, p, false))
FN(convolution_filter, conv_grad(c, in, p, true))

static tl_tensor *adamw(tl_ctx *c, tl_tensor *const *in, const int64_t *p)
{
    (void)p;
    tl_tensor *hyper =
        tl_from_doubles(c, TL_F32, TL_SHAPE(TL_HYPER_COUNT), (double[]){1e-3, 10, 1, 1});
    tl_update_adam(c, in[0], in[1], hyper, in[2], in[3], NULL,
                   &(tl_adam_attr){.beta_1 = 0.9,
                                   .beta_2 = 0.999,
                                   .epsilon = 1e-8,
                                   .weight_decay = 0.01,
                                   .form = TL_FORM_PYTORCH});
    return in[0];
}

/* --- cases ------------------------------------------------------------------------------------ */

static double bytes_of(const op_row *r)
{
    double elements = 0;
    for (int i = 0; i < r->inputs; i++) elements += (double)tl_shape_count(&r->in[i]);
    return elements * (double)tl_dtype_size(r->dtype);
}

static tl_status make_inputs(work *w)
{
    const op_row *r = w->row;
    for (int i = 0; i < r->inputs; i++) {
        bool label = i >= r->inputs - r->labels;
        tl_mark mark = tl_ctx_begin(w->c);
        tl_tensor *t = label ? tl_random_integers(w->c, TL_I64, r->in[i], 0, r->p[0])
                             : tl_random_uniform(w->c, r->dtype, r->in[i], label ? 0 : -1, 1);
        TL_TRY(tl_ctx_status(w->c));
        TL_TRY(tl_tensor_keep(&w->in[i], t));
        if (!label) TL_TRY(tl_watch(w->in[i]));
        tl_ctx_end(w->c, mark);
    }
    return TL_OK;
}

static tl_status run_case(bench *b, work *w, bench_peer *torch, const bench_limits *most)
{
    const op_row *r = w->row;
    if (!bench_wants(b, r->name)) return TL_OK;
    tl_status st = make_inputs(w);
    double limit = r->flops ? most->flops : most->bytes;
    if (st == TL_OK)
        st = bench_run(b, &(bench_case){.name = r->name,
                                        .unit = r->flops ? "GFLOP/s" : "GB/s",
                                        .amount = r->flops   ? r->flops
                                                  : r->bytes ? r->bytes
                                                             : bytes_of(r),
                                        .payload = w,
                                        .ours = run_row,
                                        .program = torch,
                                        .peer_name = "PyTorch",
                                        .limit = limit,
                                        .rest_s = 0.01,
                                        .sample_s = 0.02,
                                        .rounds = 9});
    for (int i = 0; i < r->inputs; i++) tl_tensor_free(&w->in[i]);
    return st;
}

/* Rows whose names and numbers follow from a shape. */
static tl_status attention_rows(bench *b, work *w, bench_peer *torch, const bench_limits *most)
{
    for (int k = 0; k < 12; k++) {
        int64_t t = k & 1 ? 512 : 128, causal = k >> 1 & 1;
        bool back = k >= 4, half = k >= 8;
        char name[64];
        if (half && causal) continue;
        snprintf(name, sizeof name, "%s attention B8 H12 T%lld D64%s%s", half ? "bf16" : "f32",
                 (long long)t, causal ? " causal" : "", back ? " and gradient" : "");
        double flops = 4.0 * 96 * (double)(t * t) * 64 * (causal ? 0.5 : 1) * (back ? 3.5 : 1);
        tl_shape s = TL_SHAPE(8, t, 12, 64);
        op_row row = {.name = name,
                      .fn = attention,
                      .gradient = back,
                      .flops = flops,
                      .in = {s, s, s},
                      .inputs = 3,
                      .p = {causal},
                      .dtype = half ? TL_BF16 : TL_F32};
        w->row = &row;
        TL_TRY(run_case(b, w, torch, most));
    }
    return TL_OK;
}

typedef struct conv_shape {
    int64_t size, in, out, kernel, stride, dilation;
} conv_shape;

/* The convolutions of ResNet-50. */
static const conv_shape resnet[] = {
    {224, 3, 64, 7, 2, 1},   {56, 64, 64, 1, 1, 1},    {56, 64, 64, 3, 1, 1},
    {56, 64, 256, 1, 1, 1},  {56, 256, 64, 1, 1, 1},   {56, 256, 128, 1, 1, 1},
    {56, 128, 128, 3, 2, 1}, {56, 256, 512, 1, 2, 1},  {28, 128, 128, 3, 1, 1},
    {28, 128, 512, 1, 1, 1}, {28, 512, 128, 1, 1, 1},  {28, 256, 256, 3, 2, 1},
    {14, 256, 256, 3, 1, 1}, {14, 256, 1024, 1, 1, 1}, {14, 1024, 256, 1, 1, 1},
    {14, 512, 512, 3, 2, 1}, {7, 512, 512, 3, 1, 1},   {7, 512, 2048, 1, 1, 1},
    {7, 2048, 512, 1, 1, 1},
};
/* Those of MobileNetV2 with a channel each, and some with the wider filters of its successors. */
static const conv_shape mobilenet[] = {
    {112, 32, 32, 3, 1, 1},  {112, 96, 96, 3, 2, 1},  {56, 144, 144, 3, 1, 1},
    {56, 144, 144, 3, 2, 1}, {28, 192, 192, 3, 1, 1}, {28, 192, 192, 3, 2, 1},
    {14, 384, 384, 3, 1, 1}, {14, 576, 576, 3, 1, 1}, {14, 576, 576, 3, 2, 1},
    {7, 960, 960, 3, 1, 1},  {56, 144, 144, 5, 2, 1}, {28, 240, 240, 5, 1, 1},
    {14, 672, 672, 5, 1, 1}, {7, 960, 960, 5, 1, 1},
};
/* Dilated ones: DeepLab's pyramid, on MobileNetV2 and on ResNet, and a stage of its backbone. */
static const conv_shape deeplab[] = {
    {33, 320, 256, 3, 1, 6},  {33, 320, 256, 3, 1, 12},  {33, 320, 256, 3, 1, 18},
    {33, 2048, 256, 3, 1, 6}, {33, 2048, 256, 3, 1, 12}, {33, 2048, 256, 3, 1, 18},
    {32, 512, 512, 3, 1, 2},
};

/* RetinaNet's head and backbone on images of 256 pixels. */
static const conv_shape retinanet[] = {
    {64, 64, 64, 3, 1, 1},  {32, 256, 256, 3, 1, 1}, {16, 256, 256, 3, 1, 1},
    {8, 256, 256, 3, 1, 1}, {4, 256, 256, 3, 1, 1},  {32, 256, 819, 3, 1, 1},
    {32, 256, 36, 3, 1, 1}, {32, 128, 128, 3, 1, 1}, {8, 512, 512, 3, 1, 1},
};

typedef struct conv_list {
    const char *word; /* that names begin with */
    const conv_shape *shapes;
    int64_t count, images;
    bool each; /* channels on their own */
    tl_dtype dtype;
} conv_list;

/* The result, the image's gradient or the filter's. */
static tl_status conv_row(bench *b, work *w, bench_peer *torch, const bench_limits *most,
                          const conv_list *l, const conv_shape *s, int what)
{
    static op_fn *const fns[] = {convolution, convolution_input, convolution_filter};
    static const char *const words[] = {"", " input gradient", " filter gradient"};
    const int64_t pad = s->kernel / 2 * s->dilation;
    const int64_t out = (s->size + 2 * pad - (s->kernel - 1) * s->dilation - 1) / s->stride + 1;
    const int64_t group_in = l->each ? 1 : s->in;
    char name[64], channels[32], dilated[24] = "";
    if (l->each) snprintf(channels, sizeof channels, "%lld", (long long)s->in);
    else snprintf(channels, sizeof channels, "%lld>%lld", (long long)s->in, (long long)s->out);
    if (s->dilation > 1) snprintf(dilated, sizeof dilated, " d%lld", (long long)s->dilation);
    snprintf(name, sizeof name, "%s %lld %s k%lld s%lld%s%s", l->word, (long long)s->size, channels,
             (long long)s->kernel, (long long)s->stride, dilated, words[what]);
    const double taps = (double)(s->kernel * s->kernel * group_in);
    const double results = (double)(l->images * out * out * s->out);
    const double pixels = (double)(l->images * s->size * s->size * s->in);
    op_row row = {.name = name,
                  .fn = fns[what],
                  .inputs = what ? 3 : 2,
                  .dtype = l->dtype,
                  .p = {s->stride, pad, s->dilation, l->each ? s->in : 1},
                  .flops = l->each ? 0 : 2.0 * results * taps,
                  .bytes = (results + pixels) * (double)tl_dtype_size(l->dtype),
                  .in = {TL_SHAPE(l->images, s->size, s->size, s->in),
                         TL_SHAPE(s->kernel, s->kernel, group_in, s->out),
                         TL_SHAPE(l->images, out, out, s->out)}};
    w->row = &row;
    return run_case(b, w, torch, most);
}

static tl_status conv_rows(bench *b, work *w, bench_peer *torch, const bench_limits *most)
{
    static const conv_list lists[] = {
        {"conv", resnet, TL_COUNT(resnet), 8, .dtype = TL_F32},
        {"retinanet", retinanet, TL_COUNT(retinanet), 4, .dtype = TL_F32},
        {"depthwise", mobilenet, TL_COUNT(mobilenet), 16, true, TL_F32},
        {"bf16 depthwise", mobilenet, TL_COUNT(mobilenet), 16, true, TL_BF16},
        {"dilated", deeplab, TL_COUNT(deeplab), 2, .dtype = TL_F32},
        {"bf16 dilated", deeplab, TL_COUNT(deeplab), 2, .dtype = TL_BF16},
    };
    for (int64_t k = 0; k < TL_COUNT(lists); k++)
        for (int64_t i = 0; i < lists[k].count; i++)
            for (int what = 0; what < 3; what++) {
                const conv_shape *s = &lists[k].shapes[i];
                if (s->in == 3 && what == 1) continue; // images need no gradient
                TL_TRY(conv_row(b, w, torch, most, &lists[k], s, what));
            }
    return TL_OK;
}

static tl_status plain_rows(bench *b, work *w, bench_peer *torch, const bench_limits *most)
{
    const double mib = 1 << 20;
    const op_row rows[] = {
        {"add, one element", add, .in = {TL_SHAPE(1), TL_SHAPE(1)}, .inputs = 2, .bytes = 12},
        {"add 4096x4096", add, .in = {TL_SHAPE(4096, 4096), TL_SHAPE(4096, 4096)}, .inputs = 2,
         .bytes = 192 * mib},
        {"add 4096x4096 and a row", add, .in = {TL_SHAPE(4096, 4096), TL_SHAPE(4096)}, .inputs = 2,
         .bytes = 128 * mib},
        {"exp 2048x3072", exp_, .in = {TL_SHAPE(2048, 3072)}, .inputs = 1, .bytes = 48 * mib},
        {"gelu 2048x3072", gelu, .in = {TL_SHAPE(2048, 3072)}, .inputs = 1, .bytes = 48 * mib},
        {"gelu 2048x3072 and gradient", gelu, true, .in = {TL_SHAPE(2048, 3072)}, .inputs = 1,
         .bytes = 144 * mib},
        {"gelu tanh 2048x3072", gelu_tanh, .in = {TL_SHAPE(2048, 3072)}, .inputs = 1,
         .bytes = 48 * mib},
        {"layer_norm 8192x768", layer_norm,
         .in = {TL_SHAPE(8192, 768), TL_SHAPE(768), TL_SHAPE(768)}, .inputs = 3, .bytes = 48 * mib},
        {"layer_norm 8192x768 and gradient", layer_norm, true,
         .in = {TL_SHAPE(8192, 768), TL_SHAPE(768), TL_SHAPE(768)}, .inputs = 3,
         .bytes = 144 * mib},
        {"softmax 8192x768", softmax, .in = {TL_SHAPE(8192, 768)}, .inputs = 1, .bytes = 48 * mib},
        {"softmax 8192x768 and gradient", softmax, true, .in = {TL_SHAPE(8192, 768)}, .inputs = 1,
         .bytes = 144 * mib},
        {"batch_norm 64x32x32x64 and gradient", batch_norm, true,
         .in = {TL_SHAPE(64, 32, 32, 64), TL_SHAPE(64), TL_SHAPE(64)}, .inputs = 3,
         .bytes = 112 * mib},
        {"cross_entropy 2048x8192 and gradient", cross_entropy, true,
         .in = {TL_SHAPE(2048, 8192), TL_SHAPE(2048)}, .inputs = 2, .labels = 1, .p = {8192},
         .bytes = 192 * mib},
        {"lookup 8192x256 of 2048 and gradient", lookup, true,
         .in = {TL_SHAPE(8192, 256), TL_SHAPE(2048)}, .inputs = 2, .labels = 1, .p = {8192},
         .bytes = 14 * mib},
        {"sum 4096x4096", sum_all, .in = {TL_SHAPE(4096, 4096)}, .inputs = 1, .bytes = 64 * mib},
        {"sum of rows 4096x4096", sum_rows, .in = {TL_SHAPE(4096, 4096)}, .inputs = 1,
         .bytes = 64 * mib},
        {"transpose 2048x2048", transposed, .in = {TL_SHAPE(2048, 2048)}, .inputs = 1,
         .bytes = 32 * mib},
        {"max_pool 128x28x28x32 and gradient", max_pool, true, .in = {TL_SHAPE(128, 28, 28, 32)},
         .inputs = 1, .bytes = 30 * mib},
        {"linear 128x768x3072 gelu", linear,
         .in = {TL_SHAPE(128, 768), TL_SHAPE(768, 3072), TL_SHAPE(3072)}, .inputs = 3,
         .flops = 2.0 * 128 * 768 * 3072},
        {"linear 8x768x768 gelu", linear,
         .in = {TL_SHAPE(8, 768), TL_SHAPE(768, 768), TL_SHAPE(768)}, .inputs = 3,
         .flops = 2.0 * 8 * 768 * 768},
        {"adamw 10000000", adamw,
         .in = {TL_SHAPE(10000000), TL_SHAPE(10000000), TL_SHAPE(10000000), TL_SHAPE(10000000)},
         .inputs = 4, .bytes = 28e7},
    };
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        w->row = &rows[i];
        TL_TRY(run_case(b, w, torch, most));
    }
    return TL_OK;
}

int main(int argc, char **argv)
{
    bench b;
    work w = {0};
    bench_limits most;
    bench_peer torch = BENCH_PEER_INIT;
    char threads[16];
    tl_status st;
    TL_TRY_DONE(st, bench_begin(&b, argc, argv));
    TL_TRY_DONE(st, tl_engine_new(&w.engine, &(tl_engine_args){.backend = &tl_backend_cpu}));
    TL_TRY_DONE(st, tl_ctx_new(&w.c, w.engine));
    snprintf(threads, sizeof threads, "%d", tl_pool_threads(tl_engine_threads(w.engine)));
    TL_TRY_DONE(st, bench_limits_measure(&most, tl_engine_threads(w.engine)));
    const char *const command[] = {".venv-torch/bin/python", "bench/peers/ops.py", threads, NULL};
    TL_TRY_DONE(st, bench_peer_start(&torch, command));
    TL_TRY_DONE(st, plain_rows(&b, &w, &torch, &most));
    TL_TRY_DONE(st, attention_rows(&b, &w, &torch, &most));
    TL_TRY_DONE(st, conv_rows(&b, &w, &torch, &most));
done:
    bench_peer_stop(&torch);
    tl_ctx_free(&w.c);
    tl_engine_free(&w.engine);
    return bench_end(&b, st);
}
