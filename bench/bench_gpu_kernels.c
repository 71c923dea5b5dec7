/* Kernels of a GPU that are not products, one by one at GPT-2's shapes: the bytes that a call has
 * to read and write, by its time. */
#include <stdlib.h>

#include <tilth/core/attrs.h>
#include <tilth/sys/cuda/cuda.h>
#include <tilth/sys/ops/apply.h>
#include <tilth/tilth.h>

#include "bench.h"

enum { CALLS = 20, ROWS = 65536, WIDTH = 768, WORDS = 50304, PARAMETERS = 124000000, MOST = 8 };

typedef struct work {
    tl_engine *engine;
    tl_ctx *c;
    tl_op op;
    const void *attr;
    tl_tensor *in[MOST], *out[MOST];
    int inputs;
} work;

static void run_calls(void *payload)
{
    work *w = payload;
    for (int i = 0; i < CALLS; i++) {
        const tl_mark mark = tl_ctx_begin(w->c);
        (void)tl_apply_all(w->c, w->op, w->attr, w->inputs, w->in, w->out);
        tl_ctx_end(w->c, mark);
    }
    if (tl_ctx_status(w->c) == TL_OK && tl_engine_wait(w->engine) == TL_OK) return;
    fprintf(stderr, "%s\n", tl_error_message());
    abort();
}

static tl_status measure(bench *b, work *w, const char *name, double bytes)
{
    TL_TRY(tl_ctx_status(w->c));
    return bench_run(b, &(bench_case){.name = name,
                                      .unit = "GB/s",
                                      .amount = bytes * CALLS,
                                      .ours = run_calls,
                                      .payload = w});
}

/* The inputs follow. */
#define CALL(op_, attr_, ...)                                                                      \
    (work)                                                                                         \
    {                                                                                              \
        .engine = engine, .c = c, .op = TL_OP_##op_, .attr = attr_, .in = {__VA_ARGS__},           \
        .inputs = (int)(sizeof((tl_tensor *[]){__VA_ARGS__}) / sizeof(tl_tensor *))                \
    }

static tl_status norms(bench *b, tl_engine *engine, tl_ctx *c)
{
    static const tl_norm_attr attr = {.epsilon = 1e-5, .axes = 1, .scaled = true, .shifted = true};
    static const tl_dropout_attr dropout = {.rate = 0.1, .key = 1};
    const double bytes = 2.0 * ROWS * WIDTH;
    tl_tensor *x = tl_random_normal(c, TL_BF16, TL_SHAPE(ROWS, WIDTH), 0, 1);
    tl_tensor *g = tl_random_normal(c, TL_BF16, TL_SHAPE(ROWS, WIDTH), 0, 1);
    tl_tensor *gamma = tl_random_normal(c, TL_F32, TL_SHAPE(WIDTH), 0, 1);
    tl_tensor *beta = tl_random_normal(c, TL_F32, TL_SHAPE(WIDTH), 0, 1);
    tl_tensor *mean = tl_zeros(c, TL_F32, TL_SHAPE(ROWS)),
              *rstd = tl_ones(c, TL_F32, TL_SHAPE(ROWS));
    work forward = CALL(layer_normalize, &attr, x, gamma, beta);
    work sum = CALL(add, NULL, x, g);
    TL_TRY(measure(b, &sum, "gpu add 65536x768 bf16", 3 * bytes));
    TL_TRY(measure(b, &forward, "gpu layer_normalize 65536x768 bf16", 2 * bytes));
    work backward = CALL(layer_normalize_grad, &attr, g, x, mean, rstd, gamma);
    TL_TRY(measure(b, &backward, "gpu layer_normalize_grad 65536x768 bf16", 3 * bytes));
    work drop = CALL(dropout, &dropout, x);
    return measure(b, &drop, "gpu dropout 65536x768 bf16", 2 * bytes);
}

static tl_status losses(bench *b, tl_engine *engine, tl_ctx *c)
{
    static const tl_entropy_attr attr = {0};
    const double bytes = 2.0 * ROWS * WORDS;
    tl_tensor *z = tl_random_normal(c, TL_BF16, TL_SHAPE(ROWS, WORDS), 0, 1);
    tl_tensor *labels = tl_random_integers(c, TL_I32, TL_SHAPE(ROWS), 0, WORDS);
    tl_tensor *g = tl_ones(c, TL_F32, TL_SHAPE(ROWS)),
              *lse = tl_full(c, TL_F32, TL_SHAPE(ROWS), 11);
    work forward = CALL(sparse_cross_entropy, &attr, labels, z);
    TL_TRY(measure(b, &forward, "gpu sparse_cross_entropy 65536x50304 bf16", bytes));
    work backward = CALL(sparse_cross_entropy_grad, &attr, g, labels, z, lse);
    return measure(b, &backward, "gpu sparse_cross_entropy_grad 65536x50304 bf16", 2 * bytes);
}

static tl_status lookups(bench *b, tl_engine *engine, tl_ctx *c)
{
    static const tl_axis_attr axis = {0};
    static const tl_scatter_attr scatter = {0, WORDS};
    tl_tensor *table = tl_random_normal(c, TL_BF16, TL_SHAPE(WORDS, WIDTH), 0, 1);
    tl_tensor *ids = tl_random_integers(c, TL_I32, TL_SHAPE(ROWS), 0, WORDS);
    tl_tensor *g = tl_random_normal(c, TL_BF16, TL_SHAPE(ROWS, WIDTH), 0, 1);
    work forward = CALL(gather, &axis, table, ids);
    TL_TRY(measure(b, &forward, "gpu gather 65536 of 50304x768 bf16", 4.0 * ROWS * WIDTH));
    work backward = CALL(gather_grad, &scatter, g, ids);
    return measure(b, &backward, "gpu gather_grad 65536 of 50304x768 bf16",
                   2.0 * (ROWS + WORDS) * WIDTH);
}

static tl_status updates(bench *b, tl_engine *engine, tl_ctx *c)
{
    static const tl_adam_attr attr = {.beta_1 = 0.9,
                                      .beta_2 = 0.95,
                                      .epsilon = 1e-8,
                                      .weight_decay = 0.1,
                                      .form = TL_FORM_PYTORCH};
    static const float numbers[] = {1e-4f, 10, 1, 1};
    const tl_shape shape = TL_SHAPE(PARAMETERS);
    tl_tensor *w = tl_random_normal(c, TL_F32, shape, 0, 1);
    tl_tensor *g = tl_random_normal(c, TL_F32, shape, 0, 1);
    tl_tensor *m = tl_zeros(c, TL_F32, shape), *v = tl_zeros(c, TL_F32, shape);
    tl_tensor *hyper = tl_from(c, TL_F32, TL_SHAPE(4), numbers);
    work adam = CALL(update_adam, &attr, w, g, hyper, m, v);
    TL_TRY(measure(b, &adam, "gpu update_adam 124M float32", 28.0 * PARAMETERS));
    work norm = CALL(finite_and_norm, NULL, g);
    return measure(b, &norm, "gpu finite_and_norm 124M float32", 4.0 * PARAMETERS);
}

static tl_status run_all(bench *b)
{
    static tl_status (*const families[])(bench *, tl_engine *, tl_ctx *) = {norms, losses, lookups,
                                                                            updates};
    tl_engine *engine = NULL;
    tl_status st = tl_engine_new(&engine, &(tl_engine_args){.backend = &tl_backend_cuda});
    for (int i = 0; st == TL_OK && i < (int)TL_COUNT(families); i++) {
        tl_ctx *c = NULL;
        st = tl_ctx_new(&c, engine);
        if (st == TL_OK) st = families[i](b, engine, c);
        tl_ctx_free(&c);
    }
    tl_engine_free(&engine);
    return st;
}

int main(int argc, char **argv)
{
    bench b;
    tl_status st = bench_begin(&b, argc, argv);
    if (st == TL_OK) st = run_all(&b);
    return bench_end(&b, st);
}
