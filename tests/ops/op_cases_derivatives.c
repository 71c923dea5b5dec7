/* Gradients and second derivatives against differences, in float64 on the reference backend; and
 * the second derivatives of the best backend against those of the reference. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>

#include "op_cases_impl.h"

/* How differences are taken, and how well they must agree. A step of 0: not at all. */
typedef struct precision {
    double step, relative;
} precision;

/* What is differentiated: a number computed from the inputs' elements. */
typedef tl_status number_fn(double *out, const oc_plan *p, const oc_place *place,
                            const double *const *elements);

typedef struct probe {
    oc_plan *p;
    const oc_place *place;
    number_fn *fn;
    precision precision;
    const char *what; /* begins messages */
    oc_memory *memory;
} probe;

/* --- the two functions ------------------------------------------------------------------------ */

// Infinities that stand in a result whatever the inputs are (a mask, a padding) do not change.
static tl_status dot(double *sum, const tl_tensor *t, const double *weights)
{
    oc_memory memory = {0};
    oc_value value;
    tl_status st = oc_read(&value, t, &memory);
    for (int64_t i = 0; st == TL_OK && i < value.count; i++)
        if (isfinite(value.v[i])) *sum += value.v[i] * weights[i];
    oc_give_back(&memory);
    return st;
}

// Nothing is watched: a number is all that is wanted.
static tl_status weighted_outputs(double *out, const oc_plan *p, const oc_place *place,
                                  const double *const *elements)
{
    oc_plan quiet = *p;
    quiet.gradients = false;
    oc_run r = {
        .plan = &quiet, .place = place, .dtype = p->base, .plain = true, .elements = elements};
    tl_status st;
    *out = 0;
    TL_TRY_DONE(st, oc_begin(&r));
    TL_TRY_DONE(st, oc_call(&r));
    for (int i = 0; i < p->outputs; i++)
        if (p->weights[i]) TL_TRY_DONE(st, dot(out, r.out[i], p->weights[i]));
done:
    oc_end(&r);
    return st;
}

static const double *direction(const oc_plan *p, int input, oc_memory *memory)
{
    double *d = oc_doubles(memory, p->in[input].count);
    oc_weights(d, p->in[input].count, p->k->name, "direction", input);
    return d;
}

// The gradient along a fixed direction.
static tl_status slope(double *out, const oc_plan *p, const oc_place *place,
                       const double *const *elements)
{
    oc_run r = {.plan = p,
                .place = place,
                .dtype = p->base,
                .plain = true,
                .elements = elements,
                .in_loss = OC_ALL_OUTPUTS};
    oc_memory memory = {0};
    tl_status st;
    *out = 0;
    TL_TRY_DONE(st, oc_begin(&r));
    TL_TRY_DONE(st, oc_call(&r));
    TL_TRY_DONE(st, oc_differentiate(&r));
    for (int i = 0; i < r.by_count; i++)
        TL_TRY_DONE(st, dot(out, r.gradient[i], direction(p, r.by_input[i], &memory)));
done:
    oc_end(&r);
    oc_give_back(&memory);
    return st;
}

/* --- differences ------------------------------------------------------------------------------ */

static tl_status at_distance(double *out, const probe *q, int input, const double *along,
                             double distance)
{
    const oc_plan *p = q->p;
    const double *elements[OP_CASE_MAX];
    double *moved = oc_doubles(q->memory, p->in[input].count);
    for (int i = 0; i < p->inputs; i++) elements[i] = p->in[i].v;
    for (int64_t i = 0; i < p->in[input].count; i++)
        moved[i] = p->in[input].v[i] + distance * along[i];
    elements[input] = moved;
    return q->fn(out, p, q->place, elements);
}

static tl_status central(double *out, const probe *q, int input, const double *along, double step)
{
    double above, below;
    TL_TRY(at_distance(&above, q, input, along, step));
    TL_TRY(at_distance(&below, q, input, along, -step));
    *out = (above - below) / (2 * step);
    return TL_OK;
}

// Two central differences, of which Richardson's rule takes the error of second order away. `doubt`
// is how far the two are apart.
static tl_status derivative(double *out, double *doubt, const probe *q, int input,
                            const double *along)
{
    double wide, narrow, h = q->precision.step;
    TL_TRY(central(&wide, q, input, along, h));
    TL_TRY(central(&narrow, q, input, along, h / 2));
    *out = narrow + (narrow - wide) / 3;
    *doubt = fabs(narrow - wide);
    return TL_OK;
}

static const char *hint(double doubt, double most)
{
    return doubt > 1e3 * most ? " | a kink is near: move the inputs, or say CASE_NO_DIFFERENCES"
                              : "";
}

static bool expect_derivative(const probe *q, int input, const char *along_what, double got,
                              const double *along, double scale)
{
    double want = 0, doubt = 0, size = 0;
    char where[64];
    snprintf(where, sizeof where, "%s of input %d", q->what, input);
    if (!oc_expect_ok(q->p, derivative(&want, &doubt, q, input, along), where)) return false;
    for (int64_t i = 0; i < q->p->in[input].count; i++) size += along[i] * along[i];
    double most = q->precision.relative * (fabs(want) + scale * sqrt(size));
    if (fabs(got - want) <= most) return true;
    oc_complain(
        q->p,
        "%s %s | %s | %s | expected %.17g (differences), got %.17g | off by %.3g, at most %.3g%s",
        q->place->backend, tl_dtype_name(q->p->base), where, along_what, want, got,
        fabs(got - want), most, hint(doubt, most));
    return false;
}

/* Elements that are checked one by one: all of so few, or some; and random directions. A probe
 * computes the row four times, so that large rows get fewer of them. */
enum { ALL_BELOW = 16, SAMPLE = 8, DENSE = 2, ELEMENTS_OF_ALL_PROBES = 20000 };

static int64_t affordable(const oc_plan *p)
{
    int64_t elements = 1;
    for (int i = 0; i < p->inputs; i++) elements += p->in[i].count;
    for (int i = 0; i < p->outputs; i++) elements += p->want.out[i].count;
    return ELEMENTS_OF_ALL_PROBES / elements;
}

static bool expect_element(const probe *q, const oc_value *got, int input, int64_t at, double scale)
{
    double *along = oc_doubles(q->memory, got->count);
    char text[48];
    along[at] = 1;
    snprintf(text, sizeof text, "element %" PRId64 " of %" PRId64, at, got->count);
    return expect_derivative(q, input, text, got->v[at], along, scale);
}

// Few elements are checked one by one; of many, some, and all at once along random directions.
static void expect_gradient(const probe *q, const oc_value *got, int input)
{
    double sum = 0;
    for (int64_t i = 0; i < got->count; i++) sum += got->v[i] * got->v[i];
    double rms = got->count ? sqrt(sum / (double)got->count) : 0, scale = fmax(rms, 0.1);
    if (!isfinite(scale)) scale = 1;
    if (got->count <= ALL_BELOW) {
        for (int64_t i = 0; i < got->count; i++)
            if (!expect_element(q, got, input, i, scale)) return;
        return;
    }
    int64_t probes = affordable(q->p);
    for (int i = 0; i < SAMPLE && i < probes - DENSE; i++)
        if (!expect_element(q, got, input, i * (got->count - 1) / (SAMPLE - 1), scale)) return;
    for (int i = 0; i < DENSE && i <= probes; i++) { // at least one
        double *along = oc_doubles(q->memory, got->count), product = 0;
        oc_weights(along, got->count, q->p->k->name, "probe", i);
        for (int64_t e = 0; e < got->count; e++) product += got->v[e] * along[e];
        if (!expect_derivative(q, input, "along a random direction", product, along, scale)) return;
    }
}

/* --- second derivatives ----------------------------------------------------------------------- */

static tl_tensor *directed_sum(const oc_run *r, oc_memory *memory)
{
    tl_ctx *c = r->place->c;
    tl_tensor *sum = NULL;
    for (int i = 0; i < r->by_count; i++) {
        tl_tensor *g = r->gradient[i];
        if (!g->tracked) continue; // it does not depend on the inputs
        tl_tensor *d =
            tl_from_doubles(c, g->dtype, g->shape, direction(r->plan, r->by_input[i], memory));
        tl_tensor *part = tl_cast(c, tl_sum(c, tl_mul(c, g, d), TL_ALL, false), TL_F64);
        sum = sum ? tl_add(c, sum, part) : part;
    }
    return sum;
}

static tl_status second_gradient(oc_run *r, oc_memory *memory, oc_results *out)
{
    tl_tensor *second[OP_CASE_MAX] = {NULL};
    TL_TRY(oc_begin(r));
    TL_TRY(oc_call(r));
    TL_TRY(oc_differentiate(r));
    for (int i = 0; i < r->by_count; i++) // `out` carries the first ones there
        TL_TRY(oc_read(&out->out[i], r->gradient[i], memory));
    tl_tensor *sum = directed_sum(r, memory);
    TL_TRY(tl_ctx_status(r->place->c));
    if (sum)
        TL_TRY_NOTE(tl_gradient(r->place->c, sum, r->by, r->by_count, second), "second derivative");
    for (int i = 0; i < r->by_count; i++) {
        oc_value *v = &out->gradient[r->by_input[i]];
        TL_TRY(oc_read(v, second[i] ? second[i] : r->by[i], memory));
        if (!second[i]) memset(v->v, 0, (size_t)v->count * sizeof *v->v);
    }
    return TL_OK;
}

static void expect_refusal(oc_plan *p, tl_status st)
{
    oc_checks++;
    if (st == TL_EUNSUPPORTED && strstr(tl_error_message(), "second derivative")) return;
    oc_complain(
        p,
        "second derivative | must be refused (unsupported, \"second derivative\"), gave '%s': %s",
        tl_status_name(st), st == TL_OK ? "" : tl_error_message());
}

static void check_second(oc_plan *p, const oc_place *place, probe *q)
{
    oc_run r = {.plan = p,
                .place = place,
                .dtype = p->base,
                .plain = true,
                .differentiable = true,
                .in_loss = OC_ALL_OUTPUTS};
    oc_results got;
    char what[48];
    tl_status st = second_gradient(&r, &p->memory, &got);
    oc_end(&r);
    if (p->k->flags & CASE_NO_SECOND) {
        expect_refusal(p, st);
        return;
    }
    if (!oc_expect_ok(p, st, "second derivative")) return;
    p->second = got;
    p->has_second = true;
    for (int i = 0; i < r.by_count; i++) {
        snprintf(what, sizeof what, "differentiable gradient of input %d", r.by_input[i]);
        oc_compare(p, "second derivative", what, &got.out[i], &p->want.gradient[r.by_input[i]],
                   oc_gradient_limits(p, p->base));
    }
    if (q->precision.step > 0)
        for (int i = 0; i < r.by_count; i++)
            expect_gradient(q, &got.gradient[r.by_input[i]], r.by_input[i]);
}

/* --- all -------------------------------------------------------------------------------------- */

static precision precision_of(const oc_plan *p)
{
    double scale = p->k->scale > 0 ? p->k->scale : 1;
    bool narrow = p->base != TL_F64;
    if (p->k->flags & CASE_NO_DIFFERENCES) return (precision){0, 0};
    for (int i = 0; i < p->inputs; i++)
        if (oc_differentiates(p, i) && p->in[i].dtype != TL_DTYPE_COUNT && p->in[i].dtype != TL_F64)
            narrow = true;
    for (int i = 0; i < p->outputs; i++)
        if (p->weights[i] && p->want.out[i].dtype != TL_F64) narrow = true;
    return narrow ? (precision){0, 0} : (precision){1e-3, 1e-6 * scale};
}

void oc_check_derivatives(oc_plan *p, const oc_place *place)
{
    if (!p->gradients) return;
    oc_memory memory = {0};
    probe q = {p, place, weighted_outputs, precision_of(p), "gradient", &memory};
    if (q.precision.step > 0)
        for (int i = 0; i < p->inputs; i++)
            if (oc_differentiates(p, i)) expect_gradient(&q, &p->want.gradient[i], i);
    oc_give_back(&memory);
    q.fn = slope;
    q.what = "second derivative";
    check_second(p, place, &q);
    oc_give_back(&memory);
}

/* --- elsewhere -------------------------------------------------------------------------------- */

static tl_status second_at(const oc_plan *p, const oc_place *place, tl_dtype dtype,
                           oc_memory *memory, oc_results *out)
{
    oc_run r = {.plan = p,
                .place = place,
                .dtype = dtype,
                .differentiable = true,
                .in_loss = OC_ALL_OUTPUTS};
    tl_status st = second_gradient(&r, memory, out);
    oc_end(&r);
    return st;
}

// What was rounded the most says how precise the rest can be. Second derivatives are those of what
// was rounded already: halves are off by several times as much then, and a wrong formula by more.
enum { ROUNDED_AGAIN = 2, HALVES_AGAIN = 8 };
static oc_limits second_limits(const oc_plan *p, tl_dtype dtype)
{
    oc_limits widest = oc_gradient_limits(p, dtype);
    for (int i = 0; i < p->inputs + p->outputs; i++) {
        const bool is_in = i < p->inputs;
        if (is_in ? !oc_differentiates(p, i) || p->in[i].dtype == TL_DTYPE_COUNT
                  : !p->weights[i - p->inputs])
            continue;
        const tl_dtype own = is_in ? p->in[i].dtype : p->want.out[i - p->inputs].dtype;
        const oc_limits limits = oc_gradient_limits(p, own);
        if (limits.relative > widest.relative) widest = limits;
    }
    const bool is_half = widest.relative > oc_gradient_limits(p, TL_F32).relative;
    widest.relative *= is_half ? HALVES_AGAIN : ROUNDED_AGAIN;
    return widest;
}

static void compare_second(oc_plan *p, const oc_place *place, tl_dtype dtype,
                           const oc_place *reference)
{
    oc_memory memory = {0};
    oc_results got = {0}, own = {0};
    const oc_results *want = &p->second;
    const oc_limits limits = second_limits(p, dtype);
    char where[OC_WHERE], what[48];
    oc_where(where, place, dtype, "second derivative");
    tl_status st = second_at(p, place, dtype, &memory, &got);
    if (st == TL_OK && p->k->flags & CASE_RANDOM) { // what is drawn depends on the type
        st = second_at(p, reference, dtype, &memory, &own);
        want = &own;
    }
    if (oc_expect_ok(p, st, where))
        for (int i = 0, k = 0; i < p->inputs; i++) {
            if (!oc_differentiates(p, i)) continue;
            snprintf(what, sizeof what, "differentiable gradient of input %d", i);
            oc_compare(p, where, what, &got.out[k], &want->out[k], limits);
            k++;
            snprintf(what, sizeof what, "of input %d", i);
            oc_compare(p, where, what, &got.gradient[i], &want->gradient[i], limits);
        }
    oc_give_back(&memory);
}

void oc_check_second(oc_plan *p, int64_t number, const oc_place *place, const oc_place *reference)
{
    static const tl_dtype others[] = {TL_BF16, TL_F64, TL_F16};
    const tl_dtype other = others[number % TL_COUNT(others)];
    if (!p->has_second) return;
    if (!oc_is_generic(p)) {
        compare_second(p, place, p->base, reference);
        return;
    }
    compare_second(p, place, TL_F32, reference);
    if (oc_has_type(p, other)) compare_second(p, place, other, reference);
}
