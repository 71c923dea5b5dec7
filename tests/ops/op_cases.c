#include "op_cases.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <tilth/base/clock.h>
#include <tilth/check/check.h>
#include <tilth/sys/cpu/cpu.h>

#include "cuda/shim.h"
#include "engine.h"
#include "op_cases_impl.h"
#include "sanitized.h"

typedef struct options {
    const char *only, *golden_inputs, *part;
    int64_t first, step; /* of --part */
    bool no_golden, verbose, coverage, compiled;
} options;

static void usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [--only TEXT] [--part NUMBER/COUNT] [--no-golden] [--verbose] "
            "[--golden-inputs FILE] [--coverage] [--compiled]\n",
            program);
    exit(2);
}

static options parse_options(int argc, char **argv)
{
    options o = {.step = 1};
    for (int i = 1; i < argc; i++) {
        const char **text = strcmp(argv[i], "--only") == 0            ? &o.only
                            : strcmp(argv[i], "--part") == 0          ? &o.part
                            : strcmp(argv[i], "--golden-inputs") == 0 ? &o.golden_inputs
                                                                      : NULL;
        if (text && i + 1 < argc) *text = argv[++i];
        else if (strcmp(argv[i], "--no-golden") == 0) o.no_golden = true;
        else if (strcmp(argv[i], "--verbose") == 0) o.verbose = true;
        else if (strcmp(argv[i], "--coverage") == 0) o.coverage = true;
        else if (strcmp(argv[i], "--compiled") == 0) o.compiled = true;
        else usage(argv[0]);
    }
    if (o.part
        && (sscanf(o.part, "%" SCNd64 "/%" SCNd64, &o.first, &o.step) != 2 || o.first < 1
            || o.first > o.step))
        usage(argv[0]);
    if (o.part) o.first--;
    return o;
}

/* --- engines, made once ----------------------------------------------------------------------- */

static void must(tl_status st, const char *what)
{
    if (st == TL_OK) return;
    fprintf(stderr, "op cases: %s: %s\n", what, tl_error_message());
    exit(2);
}

static void open_place(oc_place *place, const tl_backend_class *backend, const char *name,
                       int threads)
{
    *place = (oc_place){.backend = name, .threads = threads};
    must(tl_engine_new(&place->engine, &(tl_engine_args){.backend = backend, .threads = threads}),
         "engine");
    must(tl_ctx_new(&place->c, place->engine), "context");
}

// An engine whose memory is still used, which was told, cannot be freed.
static void close_place(oc_place *place)
{
    tl_memory_stats stats = {0};
    tl_ctx_free(&place->c);
    if (place->engine) tl_engine_memory(place->engine, &stats);
    if (!stats.used) tl_engine_free(&place->engine);
}

static void open_places(oc_places *places)
{
    static const int threads[OC_THREAD_COUNTS] = {1, 2, 3, 7, 16};
    int64_t count;
    const tl_backend_class *const *backends = tl_cpu_backends(&count);
    *places = (oc_places){0};
    if (test_wants_gpu()) count = 1; // the CPU's have their own run
    for (int64_t b = 0; b < count && places->backends < OC_MAX_BACKENDS - 1; b++) {
        if (backends[b]->supported && backends[b]->supported() != TL_OK) continue;
        oc_place *at = places->at[places->backends++];
        const tl_backend_class *backend;
        must(test_backend(&backend, backends[b]), "backend");
        for (int i = 0; i < (b ? OC_THREAD_COUNTS : 1); i++)
            open_place(&at[i], backend, backends[b]->cls.name, threads[i]);
    }
    // With a GPU, or its kernels as C, those are the best.
    const tl_backend_class *gpu = shim_wanted()      ? shim_backend()
                                  : test_wants_gpu() ? &tl_backend_cuda
                                                     : NULL;
    if (gpu) open_place(places->at[places->backends++], gpu, gpu->cls.name, 1);
}

// Over the best backend. NaN and infinity are some rows' subject, and compared elsewhere.
static void open_checked(oc_places *places)
{
    static const tl_check_options all = {
        .finite = TL_CHECK_OFF,
        .outputs = true,
        .inputs = true,
        .unwritten = true,
        .memory = true,
        .input_bytes = 1 << 20,
    };
    must(tl_check_new(&places->watch, tl_engine_backend(oc_best(places)->engine), &all), "check");
    const tl_backend_class *backend = tl_check_backend(places->watch);
    open_place(&places->check, backend, backend->cls.name, 2);
}

static void close_places(oc_places *places)
{
    for (int b = 0; b < places->backends; b++)
        for (int i = 0; i < OC_THREAD_COUNTS; i++) close_place(&places->at[b][i]);
    close_place(&places->check);
    tl_check_free(&places->watch);
}

static void expect_no_leak_at(oc_plan *p, const oc_place *place)
{
    tl_memory_stats stats;
    if (!place->engine) return;
    tl_engine_memory(place->engine, &stats);
    oc_checks++;
    if (stats.used)
        oc_complain(p, "%s, %d threads | leak: %" PRId64 " bytes are still used", place->backend,
                    place->threads, stats.used);
}

static void expect_no_leak(oc_plan *p, const oc_places *places)
{
    for (int b = 0; b < places->backends; b++)
        for (int i = 0; i < OC_THREAD_COUNTS; i++) expect_no_leak_at(p, &places->at[b][i]);
    expect_no_leak_at(p, &places->check);
}

/* --- rows ------------------------------------------------------------------------------------- */

static bool read_inputs(oc_plan *p)
{
    const op_case *k = p->k;
    char error[256];
    for (int i = 0; i < OP_CASE_MAX && k->in[i]; i++) {
        if (!oc_input_parse(&p->in[i], k->in[i], error)) {
            oc_complain(p, "input %d, \"%s\": %s", i, k->in[i], error);
            return false;
        }
        oc_input_fill(&p->in[i], &p->memory, k->name, i);
        p->inputs++;
    }
    if (k->flags & CASE_NO_GRADIENT) return true;
    for (int i = 0; i < p->inputs; i++) p->gradients |= p->in[i].is_float && !p->in[i].is_const;
    if (!p->gradients && !k->fails)
        oc_complain(p, "there is no float input to differentiate by; say CASE_NO_GRADIENT");
    return p->gradients || k->fails;
}

static tl_status weigh_outputs(oc_plan *p, const oc_place *place)
{
    oc_run r = {.plan = p, .place = place, .dtype = p->base, .plain = true};
    tl_status st;
    TL_TRY_DONE(st, oc_begin(&r));
    TL_TRY_DONE(st, oc_call(&r));
    for (int i = 0; i < p->outputs; i++) {
        if (!r.out[i]->tracked) continue;
        int64_t count = tl_tensor_count(r.out[i]);
        p->weights[i] = oc_doubles(&p->memory, count);
        oc_weights(p->weights[i], count, p->k->name, "weights", i);
    }
done:
    oc_end(&r);
    return st;
}

// Inputs, weights and the reference's results.
static bool make_plan(oc_plan *p, const op_case *k, const oc_place *reference)
{
    *p = (oc_plan){.k = k,
                   .outputs = k->outputs ? k->outputs : 1,
                   .base = k->flags & CASE_NO_F64 ? TL_F32 : TL_F64};
    if (!read_inputs(p)) return false;
    if (k->fails) return true;
    oc_run r = {
        .plan = p, .place = reference, .dtype = p->base, .plain = true, .in_loss = OC_ALL_OUTPUTS};
    char where[OC_WHERE];
    oc_where(where, reference, p->base, "");
    return oc_expect_ok(p, weigh_outputs(p, reference), where)
           && oc_expect_ok(p, oc_run_all(&r, &p->memory, &p->want), where);
}

// Ops that write in place have no result of their own; such a call hands an input back.
static bool is_harmless(const oc_run *r)
{
    bool harmless = !r->out[0];
    for (int i = 0; i < r->plan->inputs; i++) harmless |= r->out[0] == r->in[i];
    return harmless;
}

static void check_fails(oc_plan *p, const oc_place *place)
{
    oc_run r = {.plan = p, .place = place, .dtype = TL_F32};
    tl_status st = oc_begin(&r);
    tl_error_clear();
    if (oc_expect_ok(p, st, "inputs")) {
        p->k->call(place->c, p->k, r.in, r.out);
        st = tl_ctx_status(place->c);
        tl_status late = tl_engine_wait(
            place->engine); // what elements are wrong shows on a device when it has run
        const bool at_once = st != TL_OK;
        if (!at_once) st = late;
        oc_checks++;
        if (st == TL_OK) oc_complain(p, "must fail with \"%s\", and succeeded", p->k->fails);
        else if (!strstr(tl_error_message(), p->k->fails))
            oc_complain(p, "must fail with \"%s\", and failed (%s) with: %s", p->k->fails,
                        tl_status_name(st), tl_error_message());
        else if (at_once && !is_harmless(&r))
            oc_complain(p, "failed as it must, but output 0 is not NULL");
    }
    oc_end(&r);
}

enum { ROWS_A_FAULT = 10 }; /* one row in so many is run with failing allocations */

static void check_row(oc_plan *p, int64_t number, const oc_places *places, const oc_golden *golden)
{
    if (p->k->fails) {
        check_fails(p, oc_best(places));
        return;
    }
    if (test_takes(number, 5)) oc_check_derivatives(p, &places->at[0][0]);
    oc_check_backends(p, places);
    if (p->complaints) return; // the rest would say the same again
    oc_check_second(p, number, oc_best(places), &places->at[0][0]);
    oc_check_capture(p, oc_best(places));
    oc_check_function(p, number, oc_best(places));
    oc_check_threads(p, places);
    oc_check_checked(p, places);
    if (number % ROWS_A_FAULT == 0) oc_check_allocations(p, oc_best(places));
    if (golden && p->k->torch) oc_check_golden(p, golden, places);
}

static int write_golden_inputs(const char *path, const char *family, const op_case *cases,
                               int64_t count, const oc_places *places)
{
    FILE *to = fopen(path, "w");
    if (!to) {
        perror(path);
        return 2;
    }
    fprintf(to, "{\"family\": \"%s\"}\n", family);
    for (int64_t i = 0; i < count; i++) {
        oc_plan p;
        if (!cases[i].torch) continue;
        if (make_plan(&p, &cases[i], &places->at[0][0])) oc_golden_write(to, &p);
        oc_give_back(&p.memory);
    }
    if (fclose(to) == 0) return oc_failures != 0;
    perror(path);
    return 2;
}

static int tell_coverage(const op_case *cases, int64_t count, const oc_places *places)
{
    unsigned seen[TL_OP_COUNT] = {0};
    for (int64_t i = 0; i < count; i++) {
        oc_plan p;
        if (cases[i].fails) continue;
        if (make_plan(&p, &cases[i], &places->at[0][0]))
            oc_note_coverage(&p, &places->at[0][0], seen);
        oc_give_back(&p.memory);
    }
    oc_print_coverage(seen);
    return oc_failures != 0;
}

// One row of each call: what is compiled takes long.
static int check_compiled(const op_case *cases, int64_t count, const oc_places *places)
{
    oc_memory memory = {0};
    oc_plan *plans = oc_take(&memory, (size_t)count * sizeof *plans);
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        bool known = cases[i].fails;
        for (int64_t k = 0; k < kept; k++) known |= plans[k].k->call == cases[i].call;
        if (known) continue;
        if (make_plan(&plans[kept], &cases[i], &places->at[0][0]) && plans[kept].want.out[0].count)
            kept++;
        else oc_give_back(&plans[kept].memory);
    }
    oc_check_compiled(plans, kept, oc_best(places));
    for (int64_t i = 0; i < kept; i++) oc_give_back(&plans[i].memory);
    oc_give_back(&memory);
    return oc_failures != 0;
}

static void check_names(const op_case *cases, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < i; k++)
            if (strcmp(cases[i].name, cases[k].name) == 0) {
                oc_plan p = {.k = &cases[i]};
                oc_complain(&p, "two rows have this name");
            }
}

int op_cases_main(int argc, char **argv, const char *family, const op_case *cases, int64_t count)
{
    options o = parse_options(argc, argv);
    oc_places places;
    int64_t rows = 0;
    oc_checks = oc_failures = 0;
    open_places(&places);
    open_checked(&places);
    if (o.golden_inputs || o.coverage || o.compiled) {
        int code = o.coverage ? tell_coverage(cases, count, &places)
                   : o.compiled
                       ? check_compiled(cases, count, &places)
                       : write_golden_inputs(o.golden_inputs, family, cases, count, &places);
        close_places(&places);
        exit(code);
    }
    check_names(cases, count);
    oc_golden *golden = o.no_golden ? NULL : oc_golden_read(family);
    for (int64_t i = 0; i < count; i++) {
        oc_plan p;
        if (o.only && !strstr(cases[i].name, o.only)) continue;
        if (i % o.step != o.first) continue;
        int64_t begin = tl_clock_ns();
        if (make_plan(&p, &cases[i], &places.at[0][0])) check_row(&p, i, &places, golden);
        expect_no_leak(&p, &places);
        oc_give_back(&p.memory);
        rows++;
        if (o.verbose)
            printf("%8.3f ms  %s\n", (double)(tl_clock_ns() - begin) * 1e-6, cases[i].name);
    }
    oc_golden_free(golden);
    close_places(&places);
    printf("%s: %" PRId64 " rows, %" PRId64 " checks, %" PRId64 " failures\n", family, rows,
           oc_checks, oc_failures);
    fflush(stdout);
    return oc_failures != 0;
}
