/* Whole training steps (forward, loss, gradients, AdamW) against the best of PyTorch and JAX. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <tilth/base/clock.h>
#include <tilth/cpu/cpu.h>
#include <tilth/graph/function.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/loss.h>
#include <tilth/ops/random.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/update.h>

#include "models.h"

enum { MOST_BLOCKS = 8 };

typedef struct work {
    tl_engine *engine;
    tl_ctx *c;
    tl_model *model;
    tl_function *f;
    tl_tensor *x, *y, *m[MOST_BLOCKS], *v[MOST_BLOCKS], *hyper;
} work;

static tl_status step(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    work *w = self;
    tl_tensor *grads[MOST_BLOCKS];
    tl_ctx_set_taping(c, true);
    tl_tensor *scores = tl_cast(c, tl_call(c, w->model, tl_tensors_get(c, in, "x")), TL_F32);
    tl_tensor *loss = tl_mean(c, tl_sparse_cross_entropy(c, tl_tensors_get(c, in, "y"), scores), TL_ALL, false);
    tl_tensors_put(c, out, "loss", loss);
    TL_TRY(tl_model_gradients(c, w->model, loss, grads));
    tl_ctx_set_taping(c, false);
    for (int64_t b = 0; b < tl_model_block_count(w->model); b++)
        if (grads[b])
            tl_update_adam(c, tl_model_block(w->model, b)->values, grads[b], w->hyper, w->m[b], w->v[b], NULL,
                           &(tl_adam_attr){.beta_1 = 0.9, .beta_2 = 0.999, .epsilon = 1e-8,
                                           .weight_decay = 0.01});
    return tl_ctx_status(c);
}

static void run_step(void *payload)
{
    work *w = payload;
    tl_mark mark = tl_ctx_begin(w->c);
    tl_tensors in = {0}, out = {0};
    tl_tensors_put(w->c, &in, "x", w->x);
    tl_tensors_put(w->c, &in, "y", w->y);
    tl_status st = w->f ? tl_function_call(w->f, w->c, &in, &out) : step(w, w->c, &in, &out);
    double loss;
    if (st == TL_OK && getenv("LOSS") && tl_tensor_item(tl_tensors_peek(&out, "loss"), &loss) == TL_OK)
        printf("loss %.9g\n", loss);
    if (st != TL_OK) {
        fprintf(stderr, "%s\n", tl_error_message());
        abort();
    }
    tl_ctx_end(w->c, mark);
}

static tl_status keep(tl_tensor **out, tl_ctx *c, tl_tensor *t)
{
    TL_TRY(tl_ctx_status(c));
    return tl_tensor_keep(out, t);
}

static tl_status make(work *w, const step_model *s, tl_dtype dtype)
{
    tl_input input = {"x", s->ids ? TL_I64 : TL_F32, s->input};
    TL_TRY(tl_model_new(&w->model, &(tl_model_args){.engine = w->engine, .cls = s->cls, .config = s->config,
                                                    .inputs = &input, .input_count = 1, .seed = 1,
                                                    .dtype = dtype}));
    tl_ctx *c = w->c;
    TL_TRY(keep(&w->x, c, s->ids ? tl_random_integers(c, TL_I64, s->input, 0, s->classes)
                                 : tl_random_normal(c, TL_F32, s->input, 0, 1)));
    TL_TRY(keep(&w->y, c, tl_random_integers(c, TL_I64, s->labels, 0, s->classes)));
    TL_TRY(keep(&w->hyper, c, tl_from_doubles(c, TL_F32, TL_SHAPE(TL_HYPER_COUNT), (double[]){1e-3, 10, 1, 1})));
    for (int64_t b = 0; b < tl_model_block_count(w->model); b++) {
        const tl_block *k = tl_model_block(w->model, b);
        TL_TRY(keep(&w->m[b], c, tl_full(c, k->values->dtype, k->values->shape, 0)));
        TL_TRY(keep(&w->v[b], c, tl_full(c, k->values->dtype, k->values->shape, 0)));
    }
    tl_ctx_set_training(c, true);
    return TL_OK;
}

int main(int argc, char **argv)
{
    const char *filter = argc > 1 ? argv[1] : "";
    int n = argc > 2 ? atoi(argv[2]) : 3;
    bool bf16 = argc > 3;
    for (int64_t i = 0; i < step_model_count; i++) {
        if (!strstr(step_models[i].name, filter)) continue;
        work w = {0};
        if (tl_cpu_engine_new(&w.engine, 0) != TL_OK || tl_ctx_new(&w.c, w.engine) != TL_OK ||
            make(&w, &step_models[i], bf16 ? TL_BF16 : TL_F32) != TL_OK) {
            fprintf(stderr, "%s\n", tl_error_message());
            return 1;
        }
        if (!getenv("EAGER") && tl_function_new(&w.f, &(tl_function_args){.engine = w.engine, .body = step, .self = &w}) != TL_OK) return 1;
        for (int k = 0; k < 3; k++) run_step(&w);
        if (w.f && getenv("REPORT")) tl_program_set_timing(tl_function_program(w.f), true);
        int64_t t = tl_clock_ns();
        for (int k = 0; k < n; k++) run_step(&w);
        double ms = (double)(tl_clock_ns() - t) / 1e6 / n;
        printf("%-34s %10.3f ms  %5.1f GFLOP/s\n", step_models[i].name, ms, step_models[i].flops / ms / 1e6);
        fflush(stdout);
        if (w.f && getenv("REPORT")) {
            tl_str text = TL_STR_INIT;
            tl_program_report(tl_function_program(w.f), &text);
            if (strcmp(getenv("REPORT"), "graph") == 0) tl_graph_text(tl_program_graph(tl_function_program(w.f)), &text);
            puts(tl_str_text(&text));
            tl_str_deinit(&text);
        }
    }
    return 0;
}
