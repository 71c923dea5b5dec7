#include <tilth/train/run/explain.h>

#include <inttypes.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/sys/core/backend.h>
#include <tilth/sys/graph/program.h>
#include <tilth/train/trainer/memory.h>

#include "train/trainer/trainer.h"

enum { USUAL_STEPS = 10, WARM_UP = 3 };

/* What the passes did, as they went by. */
typedef struct passes {
    tl_str lines, graphs;
    int64_t before, after;
    bool write;
} passes;

static void note_pass(const tl_graph *g, const tl_pass *pass, int64_t changes, void *payload)
{
    passes *p = payload;
    p->after = tl_graph_count(g);
    if (!pass) p->before = p->after;
    else
        tl_str_addf(&p->lines, "  %-12s %6" PRId64 " changes, %6" PRId64 " calls left\n",
                    pass->name, changes, p->after);
    if (!p->write) return;
    tl_str_addf(&p->graphs, "# %s\n", pass ? pass->name : "as it was captured");
    tl_graph_text(g, &p->graphs);
}

static tl_status write_text(const char *path, const tl_str *text)
{
    TL_TRY(tl_str_status(text));
    return tl_file_write_atomic(path, tl_str_text(text), text->length);
}

static tl_status train(tl_trainer *t, int64_t steps)
{
    for (int64_t i = 0; i < steps; i++) TL_TRY(TLI_TRAINER_CALL(t, train_step)(t));
    return TL_OK;
}

static tl_status write_files(const tl_program *p, const passes *seen, const tl_explain_args *args)
{
    tl_str text = TL_STR_INIT;
    tl_status st = TL_OK;
    if (args->trace_path) {
        st = tl_program_trace(p, &text);
        if (st == TL_OK) st = write_text(args->trace_path, &text);
    }
    if (st == TL_OK && args->graph_path) {
        const char *end = strrchr(args->graph_path, '.');
        tl_str_deinit(&text);
        text = (tl_str)TL_STR_INIT;
        if (end && strcmp(end, ".dot") == 0) tl_graph_dot(tl_program_graph(p), &text);
        else tl_graph_text(tl_program_graph(p), &text);
        st = write_text(args->graph_path, &text);
    }
    if (st == TL_OK && args->passes_path) st = write_text(args->passes_path, &seen->graphs);
    tl_str_deinit(&text);
    return st;
}

/* --- memory ----------------------------------------------------------------------------------- */

static void add_plan(tl_str *out, const tl_trainer *t, int64_t ranks, int64_t level, bool common)
{
    tl_training_memory most = {0};
    for (int32_t r = 0; r < ranks; r++) {
        tl_training_memory m;
        tl_trainer_plan_memory(
            t,
            &(tl_optimizer_sharing){
                .rank = r, .ranks = (int32_t)ranks, .level = level, .common = common},
            &m);
        if (m.total > most.total) most = m;
    }
    tl_str_addf(out, "  %-8" PRId64 " %5" PRId64 " %10.1f %10.1f %10.1f %10.1f %10.1f %10.1f\n",
                ranks, level, most.weights * 1e-6, most.slots * 1e-6, most.sums * 1e-6,
                most.rest * 1e-6, most.total * 1e-6, most.in_step * 1e-6);
}

/* Of this process, and of as many as there are lanes. */
static void add_memory(tl_str *out, const tl_trainer *t)
{
    const int64_t lanes = tl_strategy_replicas(t->strategy);
    tl_str_add(out,
               "\nmemory of a process for tensors, in MB, by number of processes on one machine "
               "and tilth.zero:\n  processes zero    weights  optimizer       sums       rest  "
               "    total  in a step\n");
    add_plan(out, t, 1, 0, true);
    if (lanes == 1 || lanes > TL_COMM_RANKS) return;
    for (int64_t level = 0; level <= 3; level++) add_plan(out, t, lanes, level, true);
    tl_str_add(out, "  each on a machine of its own:\n");
    for (int64_t level = 1; level <= 3; level++) add_plan(out, t, lanes, level, false);
}

static void add_limits(tl_str *out, const tl_limits *most)
{
    tl_str_add(out, "this machine at most: ");
    if (most->flops > 0)
        tl_str_addf(out, "%.0f GFLOP/s in float32, %.0f in bfloat16, ", most->flops,
                    most->half_flops);
    else tl_str_add(out, "(nobody can say how many GFLOP/s: it has no products of its own) ");
    tl_str_addf(out,
                "%.0f GB/s from memory; what fits its cache (%.0f MB) need not come from there\n\n",
                most->bytes, most->cache * 1e-6);
}

static tl_status explain(tl_str *out, tl_trainer *t, const tl_explain_args *args, passes *seen)
{
    tl_function *f = t->parts->train;
    tl_function_stats stats;
    tl_limits most;
    TL_TRY(tl_engine_limits(t->engine, &most));
    TL_TRY(train(t, WARM_UP)); // captured, compiled, warm
    tl_program *p = tl_function_program(f);
    tl_program_set_timing(p, true);
    tli_exchange_measure(&t->parts->lanes);
    TL_TRY(train(t, args->steps > 0 ? args->steps : USUAL_STEPS));
    p = tl_function_program(f); // another one, when the batches changed their shape
    tl_function_measure(f, &stats);
    tl_str_addf(out,
                "captured in %.1f ms, compiled in %.1f ms\n%" PRId64 " calls captured, %" PRId64
                " after the passes:\n%s\n",
                stats.capture_s * 1e3, stats.compile_s * 1e3, seen->before, seen->after,
                tl_str_text(&seen->lines));
    add_limits(out, &most);
    tl_program_report(p, &most, out);
    tli_exchange_report(&t->parts->lanes, out);
    add_memory(out, t);
    tl_program_set_timing(p, false);
    TL_TRY(write_files(p, seen, args));
    return tl_str_status(out);
}

tl_status tl_explain(tl_str *out, tl_trainer *t, const tl_explain_args *args)
{
    if (!t->parts->train)
        return TL_FAIL(TL_ESTATE, "the step runs operation by operation (run_eagerly, or "
                                  "train_tf_function is false): there is no program to explain");
    passes seen = {.lines = TL_STR_INIT, .graphs = TL_STR_INIT, .write = args->passes_path != NULL};
    tl_function_reset(t->parts->train);
    t->parts->optimize.watch = note_pass;
    t->parts->optimize.payload = &seen;
    tl_status st = explain(out, t, args, &seen);
    t->parts->optimize.watch = NULL;
    tli_trainer_close_step(t);
    tl_str_deinit(&seen.lines);
    tl_str_deinit(&seen.graphs);
    return st;
}
