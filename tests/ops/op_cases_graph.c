/* The same row as a function: captured, optimised and replayed, against the row run call by call on
 * the same backend. */
#include <inttypes.h>
#include <string.h>
#include <tilth/graph/function.h>
#include <tilth/sys/graph/program.h>

#include "op_cases_impl.h"

static const char *const input_names[OP_CASE_MAX] = {"a", "b", "c", "d", "e", "f", "g", "h"};

/* A row in a program. Inputs with a layout are tensors from outside, since what goes into a
 * function has no gaps; the others are its inputs. */
typedef struct job {
    oc_plan *plan;
    const oc_place *place;
    tl_dtype dtype;
    int64_t number; /* names its tensors where many rows are one program */
    tl_tensor *outside[OP_CASE_MAX];
} job;

static const char *name_of(tl_ctx *c, int64_t number, const char *what, int i)
{
    char name[64];
    snprintf(name, sizeof name, "%s %d of row %" PRId64, what, i, number);
    return tl_arena_strdup(tl_ctx_arena(c), name);
}

/* --- the body --------------------------------------------------------------------------------- */

static tl_status put(tl_ctx *c, tl_tensors *out, const char *name, tl_tensor *t)
{
    if (!name) return TL_ENOMEM;
    tl_tensors_put(c, out, name, t);
    return tl_ctx_status(c);
}

static tl_status capture_row(const job *j, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    const oc_plan *p = j->plan;
    oc_place place = *j->place;
    place.c = c;
    oc_run r = {.plan = p, .place = &place, .dtype = j->dtype, .in_loss = OC_ALL_OUTPUTS};
    for (int i = 0; i < p->inputs; i++) {
        const char *name = name_of(c, j->number, input_names[i], i);
        if (!name) return TL_ENOMEM;
        r.in[i] = j->outside[i] ? j->outside[i] : tl_tensors_get(c, in, name);
    }
    TL_TRY(tl_ctx_status(c));
    TL_TRY(oc_watch_inputs(&r));
    tl_ctx_set_taping(c, p->gradients);
    TL_TRY(oc_call(&r));
    if (p->gradients) TL_TRY(oc_differentiate(&r));
    tl_ctx_set_taping(c, false);
    for (int i = 0; i < p->outputs; i++)
        TL_TRY(put(c, out, name_of(c, j->number, "output", i), r.out[i]));
    for (int i = 0; p->gradients && i < r.by_count; i++)
        TL_TRY(put(c, out, name_of(c, j->number, "gradient", r.by_input[i]), r.gradient[i]));
    return TL_OK;
}

static tl_status one_row(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    return capture_row(self, c, in, out);
}

/* --- inputs and results ----------------------------------------------------------------------- */

// Once: memory that moves would be captured again.
static tl_status make_outside(job *j)
{
    const oc_plan *p = j->plan;
    for (int i = 0; i < p->inputs; i++) {
        if (!p->in[i].layout) continue;
        j->outside[i] = oc_input_tensor(j->place->c, &p->in[i], j->dtype, NULL, false);
        if (!j->outside[i]) return tl_ctx_status(j->place->c);
    }
    return TL_OK;
}

// What the row writes in place has its old elements again. One element shown many times is not
// written.
static tl_status give_inputs(const job *j, tl_tensors *in)
{
    const oc_plan *p = j->plan;
    tl_ctx *c = j->place->c;
    for (int i = 0; i < p->inputs; i++) {
        if (!j->outside[i]) {
            tl_tensor *t = oc_input_tensor(c, &p->in[i], j->dtype, NULL, true);
            TL_TRY(put(c, in, name_of(c, j->number, input_names[i], i), t));
        } else if (p->in[i].layout != 'B') {
            TL_TRY(tl_tensor_set_doubles(j->outside[i], p->in[i].v, p->in[i].count));
        }
    }
    return tl_ctx_status(c);
}

static tl_status take_results(const job *j, const tl_tensors *out, oc_memory *memory,
                              oc_results *to)
{
    const oc_plan *p = j->plan;
    tl_ctx *c = j->place->c;
    for (int i = 0; i < p->outputs; i++) {
        const char *name = name_of(c, j->number, "output", i);
        TL_TRY(oc_read(&to->out[i], tl_tensors_get(c, out, name), memory));
    }
    for (int i = 0; i < OP_CASE_MAX; i++) {
        const tl_tensor *t = tl_tensors_peek(out, name_of(c, j->number, "gradient", i));
        to->gradient[i] = (oc_value){.count = -1};
        if (t) TL_TRY(oc_read(&to->gradient[i], t, memory));
    }
    return TL_OK;
}

static void prepare(tl_ctx *c)
{
    tl_ctx_set_draws(c, oc_draws);
    tl_ctx_set_training(c, false);
    tl_ctx_set_taping(c, false);
}

/* --- comparison ------------------------------------------------------------------------------- */

// Nests add up in another order than kernels; apart from that they compute what kernels do.
static double of_type(tl_dtype dtype)
{
    switch (dtype) {
    case TL_F64: return 1e-13;
    case TL_BF16: return 0x1p-8;
    case TL_F16: return 0x1p-11;
    default: return 1e-6;
    }
}

static oc_limits limits_of(const oc_plan *p, tl_dtype run, tl_dtype result)
{
    double scale = p->k->scale > 1 ? p->k->scale : 1;
    double relative = of_type(run);
    if (tl_dtype_is_float(result) && of_type(result) > relative) relative = of_type(result);
    return (oc_limits){scale * relative, 0.02};
}

static bool compare(const job *j, const char *where, const oc_results *got, const oc_results *eager,
                    bool nests)
{
    static const oc_limits bits = {0, 0};
    oc_plan *p = j->plan;
    bool good = true;
    char what[48];
    for (int i = 0; i < p->outputs; i++) {
        snprintf(what, sizeof what, "output %d", i);
        good &= oc_compare(p, where, what, &got->out[i], &eager->out[i],
                           nests ? limits_of(p, j->dtype, eager->out[i].dtype) : bits);
    }
    for (int i = 0; i < p->inputs; i++) {
        if (eager->gradient[i].count < 0) continue;
        oc_limits limits = limits_of(p, j->dtype, eager->gradient[i].dtype);
        for (int o = 0; o < p->outputs; o++) // a gradient that came through a narrow output
            if (p->weights[o] && of_type(eager->out[o].dtype) > limits.relative)
                limits.relative = of_type(eager->out[o].dtype);
        limits.floor = 0.1;
        snprintf(what, sizeof what, "gradient of input %d", i);
        good &= oc_compare(p, where, what, &got->gradient[i], &eager->gradient[i],
                           nests ? limits : bits);
    }
    return good;
}

/* --- one row ---------------------------------------------------------------------------------- */

// Slopes that wait for the gradient in half precision are rounded (graph/slopes.c).
static bool has_slopes(tl_program *program)
{
    tl_str text = TL_STR_INIT;
    tl_graph_text(tl_program_graph(program), &text);
    const bool has = strstr(tl_str_text(&text), "keep_slope: true");
    tl_str_deinit(&text);
    return has;
}

static tl_status call_twice(job *j, oc_memory *memory, oc_results *first, oc_results *second,
                            bool *nests)
{
    tl_function *f;
    tl_program_stats stats;
    tl_ctx *c = j->place->c;
    TL_TRY(tl_function_new(&f, &(tl_function_args){.engine = j->place->engine,
                                                   .name = "row",
                                                   .body = one_row,
                                                   .self = j,
                                                   .interpret = true}));
    tl_status st = make_outside(j);
    for (int i = 0; i < 2 && st == TL_OK; i++) {
        tl_tensors in = {0}, out = {0};
        prepare(c);
        TL_TRY_DONE(st, give_inputs(j, &in));
        TL_TRY_DONE(st, tl_function_call(f, c, &in, &out));
        TL_TRY_DONE(st, take_results(j, &out, memory, i ? second : first));
    }
    if (st == TL_OK) {
        tl_program_measure(tl_function_program(f), &stats);
        *nests = stats.nests > 0 || has_slopes(tl_function_program(f));
    }
done:
    tl_function_free(&f);
    return st;
}

static void check_type(oc_plan *p, const oc_place *place, tl_dtype dtype)
{
    oc_memory memory = {0};
    oc_results eager = {0}, first = {0}, second = {0};
    oc_run r = {.plan = p, .place = place, .dtype = dtype, .in_loss = OC_ALL_OUTPUTS};
    job j = {.plan = p, .place = place, .dtype = dtype};
    bool nests = false;
    char where[OC_WHERE];
    if (oc_run_all(&r, &memory, &eager) == TL_OK) { // told by oc_check_backends otherwise
        tl_mark mark = tl_ctx_begin(place->c);
        tl_status st = call_twice(&j, &memory, &first, &second, &nests);
        tl_ctx_end(place->c, mark);
        if (oc_expect_ok(p, st, oc_where(where, place, dtype, "as a function"))
            && compare(&j, where, &first, &eager, nests)) {
            oc_where(where, place, dtype, "as a function, called again");
            compare(&j, where, &second, &first, false);
        }
    }
    oc_give_back(&memory);
}

void oc_check_function(oc_plan *p, int64_t number, const oc_place *place)
{
    static const tl_dtype others[] = {TL_BF16, TL_F64, TL_F16};
    tl_dtype other = others[number % (int64_t)TL_COUNT(others)];
    check_type(p, place, TL_F32);
    if (oc_is_generic(p) && oc_has_type(p, other)) check_type(p, place, other);
}

/* --- many rows in one program, compiled ------------------------------------------------------- */

/* Compilers take long to start, so that rows share a program: the first call interprets it, the
 * second compiles it. */
typedef struct sample {
    job *jobs;
    int64_t count;
} sample;

static tl_status all_rows(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    const sample *s = self;
    for (int64_t i = 0; i < s->count; i++)
        TL_TRY_NOTE(capture_row(&s->jobs[i], c, in, out), "row '%s'", s->jobs[i].plan->k->name);
    return TL_OK;
}

typedef struct outcome {
    tl_program_stats stats;
    oc_results *by_row;
} outcome;

// Eagerly where there is no function.
static tl_status run_rows(sample *s, tl_function *f, oc_memory *memory, outcome *to)
{
    tl_tensors in = {0}, out = {0};
    tl_ctx *c = s->jobs[0].place->c;
    prepare(c);
    to->by_row = oc_take(memory, (size_t)s->count * sizeof *to->by_row);
    for (int64_t i = 0; i < s->count; i++) TL_TRY(give_inputs(&s->jobs[i], &in));
    TL_TRY(f ? tl_function_call(f, c, &in, &out) : all_rows(s, c, &in, &out));
    for (int64_t i = 0; i < s->count; i++)
        TL_TRY(take_results(&s->jobs[i], &out, memory, &to->by_row[i]));
    if (f) tl_program_measure(tl_function_program(f), &to->stats);
    return TL_OK;
}

static tl_status run_ways(sample *s, const oc_place *place, oc_memory *memory, outcome *eager,
                          outcome *interpreted, outcome *compiled)
{
    tl_function *f;
    TL_TRY(tl_function_new(
        &f,
        &(tl_function_args){.engine = place->engine, .name = "rows", .body = all_rows, .self = s}));
    tl_status st = TL_OK;
    for (int64_t i = 0; i < s->count; i++) TL_TRY_DONE(st, make_outside(&s->jobs[i]));
    TL_TRY_DONE(st, run_rows(s, NULL, memory, eager));
    TL_TRY_DONE(st, run_rows(s, f, memory, interpreted));
    TL_TRY_DONE(st, run_rows(s, f, memory, compiled));
done:
    tl_function_free(&f);
    return st;
}

static void compare_rows(sample *s, const outcome *eager, const outcome *interpreted,
                         const outcome *compiled)
{
    for (int64_t i = 0; i < s->count; i++)
        if (compare(&s->jobs[i], "interpreted", &interpreted->by_row[i], &eager->by_row[i], true))
            compare(&s->jobs[i], "compiled, against interpreted", &compiled->by_row[i],
                    &interpreted->by_row[i], false);
    oc_checks++;
    if (compiled->stats.compiled != compiled->stats.nests)
        oc_complain(s->jobs[0].plan, "%" PRId64 " of %" PRId64 " nests of all rows were compiled",
                    compiled->stats.compiled, compiled->stats.nests);
}

void oc_check_compiled(oc_plan *plans, int64_t count, const oc_place *place)
{
    oc_memory memory = {0};
    outcome eager = {{0}}, interpreted = {{0}}, compiled = {{0}};
    sample s = {.jobs = oc_take(&memory, (size_t)(count + 1) * sizeof *s.jobs), .count = count};
    for (int64_t i = 0; i < count; i++)
        s.jobs[i] = (job){.plan = &plans[i], .place = place, .dtype = TL_F32, .number = i};
    if (count) {
        tl_mark mark = tl_ctx_begin(place->c);
        tl_status st = run_ways(&s, place, &memory, &eager, &interpreted, &compiled);
        tl_ctx_end(place->c, mark);
        if (oc_expect_ok(&plans[0], st, "all rows in one function"))
            compare_rows(&s, &eager, &interpreted, &compiled);
        printf("%" PRId64 " rows, %" PRId64 " kernels, %" PRId64 " nests, %" PRId64 " compiled\n",
               count, compiled.stats.kernels, compiled.stats.nests, compiled.stats.compiled);
    }
    oc_give_back(&memory);
}
