/* Whole training steps (forward, loss, gradients, AdamW) as compiled programs, against the best of
 * PyTorch and JAX in the same run on as many threads (bench/peers/step.py), and against the time
 * that their multiply-adds alone would take on this machine.
 *
 * TILTH_STEP says what else is shown of each case: "report" a table of its kernels, "graph" its
 * calls as well, "eager" runs it without a program. */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <tilth/base/clock.h>
#include <tilth/sys/graph/program.h>

#include "limits.h"
#include "step_work.h"

// Captured, then compiled: the first two calls.
static void warm_up(step_work *w)
{
    int64_t begin = tl_clock_ns();
    step_work_run(w);
    step_work_run(w);
    double first = (double)(tl_clock_ns() - begin) * 1e-9;
    step_work_run(w);
    if (!w->step) return;
    tl_function_stats s;
    tl_program_stats p;
    tl_function_measure(w->step, &s);
    tl_program_measure(tl_function_program(w->step), &p);
    printf("  captured in %.0f ms, compiled in %.0f ms, first two steps %.2f s; %" PRId64
           " kernels, %" PRId64 " of them nests; workspace %.0f MB\n",
           s.capture_s * 1e3, s.compile_s * 1e3, first, p.kernels, p.nests,
           (double)p.workspace * 1e-6);
}

static void show(step_work *w, const char *what)
{
    tl_program *p = w->step ? tl_function_program(w->step) : NULL;
    tl_memory_stats memory;
    tl_engine_memory(w->engine, &memory);
    printf("  peak memory of tensors %.0f MB\n", (double)memory.peak * 1e-6);
    if (!p || (strcmp(what, "report") != 0 && strcmp(what, "graph") != 0)) return;
    tl_program_set_timing(p, true);
    for (int64_t begin = tl_clock_ns(); tl_clock_ns() - begin < 300000000;) step_work_run(w);
    tl_str text = TL_STR_INIT;
    tl_program_report(p, NULL, &text);
    if (strcmp(what, "graph") == 0) tl_graph_text(tl_program_graph(p), &text);
    puts(tl_str_text(&text));
    tl_str_deinit(&text);
}

static tl_status run_case(bench *b, const step_model *s, tl_dtype dtype, bench_peer *peer,
                          const bench_limits *most)
{
    char name[STEP_NAME];
    const char *what = getenv("TILTH_STEP") ? getenv("TILTH_STEP") : "";
    step_work_name(name, s, dtype);
    if (!bench_wants(b, name)) return TL_OK;
    step_work w = {0};
    tl_status st = step_work_make(&w, s, dtype, strcmp(what, "eager") == 0);
    if (st == TL_OK) {
        double flops = dtype == TL_F32 ? most->flops : most->half_flops;
        warm_up(&w);
        st = bench_run(b, &(bench_case){.name = name,
                                        .unit = "ms",
                                        .ours = step_work_run,
                                        .payload = &w,
                                        .program = peer,
                                        .peer_name = "best of PyTorch, JAX",
                                        .limit = s->flops / flops * 1e-6,
                                        .rest_s = 0.01,
                                        .sample_s = 0.1,
                                        .rounds = 5});
        show(&w, what);
    }
    step_work_unmake(&w);
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
        if (step_models[i].half)
            TL_TRY_DONE(st, run_case(&b, &step_models[i], TL_BF16, &peer, &most));
    }
done:
    bench_peer_stop(&peer);
    tl_pool_free(&pool);
    return bench_end(&b, st);
}
