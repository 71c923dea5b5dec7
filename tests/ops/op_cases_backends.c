/* The same row on every backend, in every type, with any number of threads, captured, checked, and
 * with failing allocations. */
#include <inttypes.h>
#include <string.h>
#include <tilth/base/alloc.h>

#include "op_cases_impl.h"
#include "sanitized.h"

static const tl_dtype types[] = {TL_F32, TL_BF16, TL_F16, TL_F64};

bool oc_has_type(const oc_plan *p, tl_dtype dtype)
{
    unsigned flags = p->k->flags;
    if (dtype == TL_F64) return !(flags & CASE_NO_F64);
    return dtype == TL_F32 || !(flags & CASE_F32_UP);
}

bool oc_is_generic(const oc_plan *p)
{
    for (int i = 0; i < p->inputs; i++)
        if (p->in[i].dtype == TL_DTYPE_COUNT) return true;
    return false;
}

static oc_run run_of(const oc_plan *p, const oc_place *place, tl_dtype dtype)
{
    return (oc_run){.plan = p, .place = place, .dtype = dtype, .in_loss = OC_ALL_OUTPUTS};
}

/* --- types and backends ----------------------------------------------------------------------- */

// Where a result is of a narrower type than the run, its own type says how precise it can be.
static oc_limits narrower(oc_limits limits, oc_limits own)
{
    return own.relative > limits.relative ? own : limits;
}

static void compare_with_reference(oc_plan *p, const char *where, tl_dtype dtype,
                                   const oc_results *got, const oc_results *want)
{
    char what[48];
    for (int i = 0; i < p->outputs; i++) {
        oc_limits limits =
            narrower(oc_output_limits(p, dtype), oc_output_limits(p, got->out[i].dtype));
        snprintf(what, sizeof what, "output %d", i);
        oc_compare(p, where, what, &got->out[i], &want->out[i], limits);
    }
    for (int i = 0; i < p->inputs; i++) {
        if (want->gradient[i].count < 0) continue;
        oc_limits limits =
            narrower(oc_gradient_limits(p, dtype), oc_gradient_limits(p, got->gradient[i].dtype));
        for (int o = 0; o < p->outputs; o++) // a gradient that came through a narrow output
            if (p->weights[o]) limits = narrower(limits, oc_gradient_limits(p, got->out[o].dtype));
        snprintf(what, sizeof what, "gradient of input %d", i);
        oc_compare(p, where, what, &got->gradient[i], &want->gradient[i], limits);
    }
}

static void compare_exactly(oc_plan *p, const char *where, const oc_results *got,
                            const oc_results *want)
{
    char what[48];
    for (int i = 0; i < p->outputs; i++) {
        snprintf(what, sizeof what, "output %d, bit for bit", i);
        oc_compare(p, where, what, &got->out[i], &want->out[i], (oc_limits){0, 0});
    }
}

static void check_type(oc_plan *p, const oc_places *places, tl_dtype dtype)
{
    oc_memory memory = {0};
    oc_results own = {0}; // the reference's in this type
    char where[OC_WHERE];
    for (int b = 0; b < places->backends; b++) {
        static int64_t number;
        if (b && !test_takes(number++, 2)) continue;
        const oc_place *place = &places->at[b][0];
        oc_run r = run_of(p, place, dtype);
        oc_results got = {0};
        tl_status st = oc_run_all(&r, &memory, &got);
        if (!oc_expect_ok(p, st, oc_where(where, place, dtype, ""))) {
            if (b == 0) break;
            continue;
        }
        if (b == 0) own = got;
        bool draws = p->k->flags & CASE_RANDOM;
        compare_with_reference(p, where, dtype, &got, draws && b ? &own : draws ? &got : &p->want);
        if (b && (p->k->flags & CASE_EXACT)) compare_exactly(p, where, &got, &own);
    }
    oc_give_back(&memory);
}

void oc_check_backends(oc_plan *p, const oc_places *places)
{
    static int64_t number;
    bool generic = oc_is_generic(p); // else all types are the same run
    number++;
    for (size_t i = 0; i < TL_COUNT(types); i++)
        if (generic ? oc_has_type(p, types[i]) && test_takes(number + (int64_t)i, 2)
                    : types[i] == p->base)
            check_type(p, places, types[i]);
}

/* --- bits ------------------------------------------------------------------------------------- */

static const oc_limits equal_bits = {0, 0};

void oc_check_capture(oc_plan *p, const oc_place *place)
{
    oc_memory memory = {0};
    oc_results eager = {0}, replayed = {0};
    oc_run r = run_of(p, place, TL_F32), captured = r;
    captured.capturing = true;
    char where[OC_WHERE];
    if (oc_run_all(&r, &memory, &eager) == TL_OK && // told by oc_check_backends otherwise
        oc_expect_ok(p, oc_run_all(&captured, &memory, &replayed),
                     oc_where(where, place, TL_F32, "captured and replayed")))
        oc_compare_results(p, where, &replayed, &eager, equal_bits, equal_bits);
    oc_give_back(&memory);
}

static void compare_thread_counts(oc_plan *p, const oc_place at[OC_THREAD_COUNTS], tl_dtype dtype)
{
    oc_memory memory = {0};
    oc_results one = {0};
    oc_run r = run_of(p, &at[0], dtype);
    if (oc_run_all(&r, &memory, &one) == TL_OK) {
        for (int i = 1; i < OC_THREAD_COUNTS && at[i].engine; i++) {
            static int64_t number;
            if (!test_takes(number++, 3)) continue;
            char where[OC_WHERE], threads[32];
            oc_results got = {0};
            r = run_of(p, &at[i], dtype);
            snprintf(threads, sizeof threads, "%d threads against one", at[i].threads);
            if (oc_expect_ok(p, oc_run_all(&r, &memory, &got),
                             oc_where(where, &at[i], dtype, threads)))
                oc_compare_results(p, where, &got, &one, equal_bits, equal_bits);
        }
    }
    oc_give_back(&memory);
}

void oc_check_threads(oc_plan *p, const oc_places *places)
{
    for (int b = 1; b < places->backends; b++) {
        compare_thread_counts(p, places->at[b], TL_F32);
        if (b == places->backends - 1 && oc_is_generic(p) && oc_has_type(p, TL_BF16))
            compare_thread_counts(p, places->at[b], TL_BF16);
    }
}

/* --- the checking backend --------------------------------------------------------------------- */

void oc_check_checked(oc_plan *p, const oc_places *places)
{
    oc_memory memory = {0};
    oc_results got = {0};
    oc_run r = run_of(p, &places->check, TL_F32);
    char where[OC_WHERE];
    oc_expect_ok(p, oc_run_all(&r, &memory, &got), oc_where(where, r.place, TL_F32, ""));
    oc_give_back(&memory);
}

/* --- failing allocations ---------------------------------------------------------------------- */

enum { MOST_FAILURES = 40 };

/* Once: the pool gives back what it keeps and asks again, so that most runs get by. From there on:
 * what nobody can do without ends the run. */
typedef struct fault {
    int64_t nth, count; /* as in tl_alloc_fail_at */
} fault;
enum { FROM_THERE_ON = 1 << 30 };

// A run in a context of its own and with an empty pool, so that everything is allocated.
static tl_status run_afresh(const oc_plan *p, const oc_place *place, fault f, int64_t *calls,
                            oc_memory *memory, oc_results *out)
{
    oc_place fresh = *place;
    fresh.c = NULL;
    tl_engine_trim(place->engine);
    int64_t before = tl_alloc_calls();
    tl_alloc_fail_at(f.nth, f.count);
    tl_status st = tl_ctx_new(&fresh.c, place->engine);
    if (st == TL_OK) {
        oc_run r = run_of(p, &fresh, TL_F32);
        st = oc_run_all(&r, memory, out);
    }
    tl_alloc_fail_at(0, 0);
    tl_status late = tl_engine_wait(place->engine); // kernels of a device fail later
    if (st == TL_OK) st = late;
    *calls = tl_alloc_calls() - before;
    tl_ctx_free(&fresh.c);
    return st;
}

static bool check_failure(oc_plan *p, const oc_place *place, fault f, const oc_results *want)
{
    oc_memory memory = {0};
    oc_results got = {0};
    int64_t calls;
    char where[OC_WHERE], which[64];
    snprintf(which, sizeof which, "allocation %" PRId64 " fails%s", f.nth,
             f.count == 1 ? "" : " and all after it");
    oc_where(where, place, TL_F32, which);
    tl_status st = run_afresh(p, place, f, &calls, &memory, &got);
    bool good = true;
    oc_checks++;
    if (st == TL_OK) {
        good = oc_compare_results(p, where, &got, want, equal_bits, equal_bits);
    } else if (st != TL_ENOMEM) {
        oc_complain(p, "%s | must give 'no memory', gave '%s': %s", where, tl_status_name(st),
                    tl_error_message());
        good = false;
    }
    tl_memory_stats stats;
    tl_engine_memory(place->engine, &stats);
    if (stats.used) oc_complain(p, "%s | %" PRId64 " bytes are still used", where, stats.used);
    oc_give_back(&memory);
    return good && !stats.used;
}

void oc_check_allocations(oc_plan *p, const oc_place *place)
{
    oc_memory memory = {0};
    oc_results want = {0};
    int64_t calls = 0;
    tl_status st = run_afresh(p, place, (fault){0, 0}, &calls, &memory, &want);
    int64_t stride = calls / MOST_FAILURES + 1;
    for (int64_t nth = 1; st == TL_OK && nth <= calls; nth += stride)
        if (!check_failure(p, place, (fault){nth, 1}, &want)
            || !check_failure(p, place, (fault){nth, FROM_THERE_ON}, &want))
            break;
    oc_give_back(&memory);
}
