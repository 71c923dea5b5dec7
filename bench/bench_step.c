/* Whole training steps (forward, loss, gradients, AdamW) as compiled programs, against the best of
 * PyTorch and JAX in the same run on as many threads (bench/peers/step.py), and against the time that
 * their multiply-adds alone would take on this machine.
 *
 * TILTH_STEP says what else is shown of each case: "report" a table of its kernels, "graph" its calls as
 * well, "eager" runs it without a program. */
#include "bench.h"

#include <inttypes.h>
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

#include "limits.h"
#include "models.h"

enum { MOST_BLOCKS = 8, NAME_ROOM = 64 };

typedef struct work {
    tl_engine *engine;
    tl_ctx *c;
    tl_model *model;
    tl_function *step; /* NULL: eager */
    tl_tensor *x, *y, *hyper, *m[MOST_BLOCKS], *v[MOST_BLOCKS];
} work;

/* --- a step ------------------------------------------------------------------------------------- */

static tl_status step(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    work *w = self;
    tl_tensor *grads[MOST_BLOCKS];
    bool taping = tl_ctx_set_taping(c, true);
    tl_tensor *scores = tl_cast(c, tl_call(c, w->model, tl_tensors_get(c, in, "x")), TL_F32);
    tl_tensor *losses = tl_sparse_cross_entropy(c, tl_tensors_get(c, in, "y"), scores);
    tl_tensor *loss = tl_mean(c, losses, TL_ALL, false);
    TL_TRY(tl_model_gradients(c, w->model, loss, grads));
    tl_ctx_set_taping(c, taping);
    for (int64_t b = 0; b < tl_model_block_count(w->model); b++)
        if (grads[b])
            tl_update_adam(c, tl_model_block(w->model, b)->values, grads[b], w->hyper, w->m[b],
                           w->v[b], NULL,
                           &(tl_adam_attr){.beta_1 = 0.9, .beta_2 = 0.999, .epsilon = 1e-8,
                                           .weight_decay = 0.01, .form = TL_FORM_PYTORCH});
    tl_tensors_put(c, out, "loss", loss);
    return tl_ctx_status(c);
}

static void run_step(void *payload)
{
    work *w = payload;
    tl_mark mark = tl_ctx_begin(w->c);
    tl_tensors in = {0}, out = {0};
    tl_tensors_put(w->c, &in, "x", w->x);
    tl_tensors_put(w->c, &in, "y", w->y);
    tl_status st = w->step ? tl_function_call(w->step, w->c, &in, &out) : step(w, w->c, &in, &out);
    if (st != TL_OK) {
        fprintf(stderr, "%s\n", tl_error_message());
        abort();
    }
    tl_ctx_end(w->c, mark);
}

/* --- a case ------------------------------------------------------------------------------------- */

static tl_status keep(tl_tensor **out, tl_ctx *c, tl_tensor *t)
{
    TL_TRY(tl_ctx_status(c));
    return tl_tensor_keep(out, t);
}

static tl_status make_slots(work *w, tl_ctx *c)
{
    for (int64_t b = 0; b < tl_model_block_count(w->model); b++) {
        const tl_tensor *values = tl_model_block(w->model, b)->values;
        TL_TRY(keep(&w->m[b], c, tl_zeros(c, values->dtype, values->shape)));
        TL_TRY(keep(&w->v[b], c, tl_zeros(c, values->dtype, values->shape)));
    }
    return TL_OK;
}

static tl_status make_data(work *w, tl_ctx *c, const step_model *s)
{
    static const double hyper[TL_HYPER_COUNT] = {1e-3, 10, 1, 1};
    TL_TRY(keep(&w->x, c, s->ids ? tl_random_integers(c, TL_I64, s->input, 0, s->classes)
                                 : tl_random_normal(c, TL_F32, s->input, 0, 1)));
    TL_TRY(keep(&w->y, c, tl_random_integers(c, TL_I64, s->labels, 0, s->classes)));
    return keep(&w->hyper, c, tl_from_doubles(c, TL_F32, TL_SHAPE(TL_HYPER_COUNT), hyper));
}

static tl_status make(work *w, const step_model *s, tl_dtype dtype, bool eager)
{
    tl_input input = {"x", s->ids ? TL_I64 : TL_F32, s->input};
    TL_TRY(tl_cpu_engine_new(&w->engine, 0));
    TL_TRY(tl_ctx_new(&w->c, w->engine));
    TL_TRY(tl_model_new(&w->model, &(tl_model_args){.engine = w->engine, .cls = s->cls,
                                                    .config = s->config, .inputs = &input,
                                                    .input_count = 1, .seed = 1, .dtype = dtype}));
    tl_mark mark = tl_ctx_begin(w->c);
    tl_status st = make_data(w, w->c, s);
    if (st == TL_OK) st = make_slots(w, w->c);
    tl_ctx_end(w->c, mark);
    TL_TRY(st);
    tl_ctx_set_training(w->c, true);
    if (eager) return TL_OK;
    return tl_function_new(&w->step, &(tl_function_args){.engine = w->engine, .name = s->name,
                                                         .body = step, .self = w});
}

static void unmake(work *w)
{
    tl_function_free(&w->step);
    tl_tensor_free(&w->x);
    tl_tensor_free(&w->y);
    tl_tensor_free(&w->hyper);
    for (int b = 0; b < MOST_BLOCKS; b++) {
        tl_tensor_free(&w->m[b]);
        tl_tensor_free(&w->v[b]);
    }
    tl_model_free(&w->model);
    tl_ctx_free(&w->c);
    tl_engine_free(&w->engine);
}

// Captured, then compiled: the first two calls.
static void warm_up(work *w)
{
    int64_t begin = tl_clock_ns();
    run_step(w);
    run_step(w);
    double first = (double)(tl_clock_ns() - begin) * 1e-9;
    run_step(w);
    if (!w->step) return;
    tl_function_stats s;
    tl_program_stats p;
    tl_function_measure(w->step, &s);
    tl_program_measure(tl_function_program(w->step), &p);
    printf("  captured in %.0f ms, compiled in %.0f ms, first two steps %.2f s; %" PRId64 " kernels, %" PRId64
           " of them nests; workspace %.0f MB\n", s.capture_s * 1e3, s.compile_s * 1e3, first, p.kernels,
           p.nests, (double)p.workspace * 1e-6);
}

static void show(work *w, const char *what)
{
    tl_program *p = w->step ? tl_function_program(w->step) : NULL;
    tl_memory_stats memory;
    tl_engine_memory(w->engine, &memory);
    printf("  peak memory of tensors %.0f MB\n", (double)memory.peak * 1e-6);
    if (!p || (strcmp(what, "report") != 0 && strcmp(what, "graph") != 0)) return;
    tl_program_set_timing(p, true);
    for (int64_t begin = tl_clock_ns(); tl_clock_ns() - begin < 300000000;) run_step(w);
    tl_str text = TL_STR_INIT;
    tl_program_report(p, NULL, &text);
    if (strcmp(what, "graph") == 0) tl_graph_text(tl_program_graph(p), &text);
    puts(tl_str_text(&text));
    tl_str_deinit(&text);
}

static tl_status run_case(bench *b, const step_model *s, tl_dtype dtype, bench_peer *peer,
                          const bench_limits *most)
{
    char name[NAME_ROOM];
    const char *what = getenv("TILTH_STEP") ? getenv("TILTH_STEP") : "";
    snprintf(name, sizeof name, "%s %s", s->name, dtype == TL_F32 ? "f32" : "bf16");
    if (!bench_wants(b, name)) return TL_OK;
    work w = {0};
    tl_status st = make(&w, s, dtype, strcmp(what, "eager") == 0);
    if (st == TL_OK) {
        double flops = dtype == TL_F32 ? most->flops : most->half_flops;
        warm_up(&w);
        st = bench_run(b, &(bench_case){.name = name, .unit = "ms", .ours = run_step, .payload = &w,
                                        .program = peer, .peer_name = "best of PyTorch, JAX",
                                        .limit = s->flops / flops * 1e-6, .rest_s = 0.01,
                                        .sample_s = 0.1, .rounds = 5});
        show(&w, what);
    }
    unmake(&w);
    return st;
}

int main(int argc, char **argv)
{
    bench b;
    bench_limits most;
    bench_peer peer = BENCH_PEER_INIT;
    tl_pool *pool = NULL;
    char threads[16];
    tl_status st;
    TL_TRY_DONE(st, bench_begin(&b, argc, argv));
    TL_TRY_DONE(st, tl_pool_new(&pool, 0));
    TL_TRY_DONE(st, bench_limits_measure(&most, pool));
    snprintf(threads, sizeof threads, "%d", tl_pool_threads(pool));
    const char *const command[] = {".venv-torch/bin/python", "bench/peers/step.py", threads, NULL};
    TL_TRY_DONE(st, bench_peer_start(&peer, command));
    for (int64_t i = 0; i < step_model_count; i++) {
        TL_TRY_DONE(st, run_case(&b, &step_models[i], TL_F32, &peer, &most));
        if (step_models[i].half) TL_TRY_DONE(st, run_case(&b, &step_models[i], TL_BF16, &peer, &most));
    }
done:
    bench_peer_stop(&peer);
    tl_pool_free(&pool);
    return bench_end(&b, st);
}
