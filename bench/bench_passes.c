/* How long it takes to make a program of a training step, for encoders of 4 to 96 layers: capture,
 * each pass, the plan of memory and what else a program is made of. Deep models have many calls, so
 * what counts is the time for each of them: it should be the same for all depths.
 *
 * The rows are microseconds for each captured call, the least of several rounds; each stands beside
 * that of the least deep encoder as its peer, so that the ratio shows what depth costs.
 * TILTH_PASSES=graph prints the graphs as they are after each pass instead. */
#include "bench.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tilth/base/clock.h>
#include <tilth/base/vec.h>
#include <tilth/sys/graph/program.h>

#include "step_work.h"

enum { MOST_STAGES = 24, LEAST_ROUNDS = 5, MOST_ROUNDS = 25 };
static const double enough_s = 1; // after which there are no more rounds than needed

typedef struct stage {
    const char *name;
    double us; /* for each call */
} stage;

typedef struct stages {
    stage items[MOST_STAGES];
    int count;
    int64_t since; /* when the stage that runs began */
    bool print;
} stages;

// Of this thread, which does all the work: what else runs on the machine is left out.
static int64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void end_stage(stages *s, const char *name)
{
    if (s->count < MOST_STAGES)
        s->items[s->count++] = (stage){name, (double)(cpu_ns() - s->since) * 1e-3};
    s->since = cpu_ns();
}

static void note_pass(const tl_graph *g, const tl_pass *pass, int64_t changes, void *payload)
{
    stages *s = payload;
    (void)changes;
    if (pass) end_stage(s, pass->name);
    if (!s->print) return;
    tl_str text = TL_STR_INIT;
    tl_graph_text(g, &text);
    printf("--- %s\n%s", pass ? pass->name : "capture", tl_str_text(&text));
    tl_str_deinit(&text);
    s->since = cpu_ns();
}

static int64_t count_calls(const tl_graph *g)
{
    int64_t calls = 0;
    for (const tl_node *n = tl_graph_first(g); n; n = n->after) calls++;
    return calls;
}

/* --- one program ------------------------------------------------------------------------------ */

static tl_status make_program(stages *out, step_work *w, tl_recompute recompute, int64_t *calls)
{
    const tl_spec inputs[] = {{"x", w->x->dtype, w->x->shape}, {"y", w->y->dtype, w->y->shape}};
    tl_graph *g;
    tl_program *p;
    out->since = cpu_ns();
    TL_TRY(tl_graph_capture(&g, &(tl_capture){.engine = w->engine,
                                              .body = step_work_body,
                                              .self = w,
                                              .inputs = inputs,
                                              .input_count = TL_COUNT(inputs),
                                              .training = true}));
    end_stage(out, "capture");
    *calls = count_calls(g);
    out->since = cpu_ns();
    tl_status st = tl_graph_optimize(
        g, &(tl_optimize){.recompute = recompute, .watch = note_pass, .payload = out});
    if (st != TL_OK) {
        tl_graph_free(&g);
        return st;
    }
    end_stage(out, "verify");
    TL_TRY(tl_program_new(&p, &g, &(tl_program_args){0}));
    end_stage(out, "plan and build");
    tl_program_stats stats;
    tl_program_measure(p, &stats);
    if (out->print)
        printf("workspace %lld, unplanned %lld, %lld kernels\n", (long long)stats.workspace,
               (long long)stats.unplanned, (long long)stats.kernels);
    tl_program_free(&p);
    return TL_OK;
}

static void take_least(stages *best, const stages *s, int64_t calls)
{
    double whole = 0;
    bool first = !best->count;
    best->count = s->count + 1;
    for (int i = 0; i <= s->count; i++) {
        double us = i < s->count ? s->items[i].us / (double)calls : whole;
        const char *name = i < s->count ? s->items[i].name : "all";
        if (first || us < best->items[i].us) best->items[i] = (stage){name, us};
        whole += us;
    }
}

static tl_status measure(stages *best, const step_model *m, tl_dtype dtype, tl_recompute recompute,
                         bool print)
{
    step_work w = {0};
    tl_status st = step_work_make(&w, m, dtype, true);
    int64_t calls = 0, begin = tl_clock_ns();
    *best = (stages){0};
    for (int i = 0; st == TL_OK && i < (print ? 1 : MOST_ROUNDS); i++) {
        stages s = {.print = print};
        st = make_program(&s, &w, recompute, &calls);
        if (st == TL_OK) take_least(best, &s, calls);
        if (i + 1 >= LEAST_ROUNDS && (double)(tl_clock_ns() - begin) * 1e-9 > enough_s) break;
    }
    step_work_unmake(&w);
    if (st == TL_OK) printf("  %-14s %6lld calls\n", m->name, (long long)calls);
    return st;
}

/* --- rows ------------------------------------------------------------------------------------- */

typedef struct kind {
    const char *name;
    tl_dtype dtype;
    tl_recompute recompute;
} kind;

static tl_status add_row(bench *b, const kind *k, const stage *s, const stage *least)
{
    bench_row row = {.unit = "us", .ours = s->us, .peer = least->us};
    snprintf(row.name, sizeof row.name, "%s, %s", s->name, k->name);
    snprintf(row.peer_name, sizeof row.peer_name, "%s", deep_models[0].name);
    return TL_VEC_PUSH(&b->rows, row) ? TL_OK : TL_ENOMEM;
}

// A line a stage, a column a depth, and what the deepest takes of the time of the least deep.
static tl_status show(bench *b, const kind *k, const stages *all)
{
    const stages *least = &all[0], *deepest = &all[deep_model_count - 1];
    printf("%-16s", "us for a call");
    for (int64_t i = 0; i < deep_model_count; i++) printf(" %12s", deep_models[i].name);
    printf("   ratio\n");
    for (int i = 0; i < least->count; i++) {
        printf("%-16s", least->items[i].name);
        for (int64_t m = 0; m < deep_model_count; m++) printf(" %12.3f", all[m].items[i].us);
        printf(" %7.2f\n", deepest->items[i].us / least->items[i].us);
        TL_TRY(add_row(b, k, &deepest->items[i], &least->items[i]));
    }
    return TL_OK;
}

static tl_status run_kind(bench *b, const kind *k)
{
    const char *what = getenv("TILTH_PASSES") ? getenv("TILTH_PASSES") : "";
    bool print = strcmp(what, "graph") == 0;
    stages all[8] = {{.count = 0}};
    TL_ASSERT(deep_model_count <= (int64_t)TL_COUNT(all));
    if (!bench_wants(b, k->name)) return TL_OK;
    printf("%s\n", k->name);
    for (int64_t i = 0; i < deep_model_count; i++) {
        TL_TRY(measure(&all[i], &deep_models[i], k->dtype, k->recompute, print));
        fflush(stdout);
    }
    return print ? TL_OK : show(b, k, all);
}

int main(int argc, char **argv)
{
    static const kind kinds[] = {
        {"float32", TL_F32, TL_RECOMPUTE_NONE},
        {"bfloat16", TL_BF16, TL_RECOMPUTE_NONE},
        {"float32 selective", TL_F32, TL_RECOMPUTE_SELECTIVE},
        {"float32 full", TL_F32, TL_RECOMPUTE_FULL},
    };
    bench b;
#ifdef M_TRIM_THRESHOLD
    // What malloc gives back to the system after each round, of large programs only, is not what is
    // measured.
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
#endif
    tl_status st = bench_begin(&b, argc, argv);
    for (size_t i = 0; i < TL_COUNT(kinds) && st == TL_OK; i++) st = run_kind(&b, &kinds[i]);
    return bench_end(&b, st);
}
