#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "engine.h"
#include "op_cases_impl.h"

int64_t oc_checks, oc_failures;

enum { COMPLAINTS_OF_A_ROW = 5 };

void oc_complain(oc_plan *p, const char *format, ...)
{
    oc_failures++;
    if (++p->complaints > COMPLAINTS_OF_A_ROW) return;
    va_list args;
    va_start(args, format);
    printf("FAIL %s | ", p->k->name);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    if (p->complaints == COMPLAINTS_OF_A_ROW)
        printf("     %s: further failures are only counted\n", p->k->name);
    fflush(stdout);
}

bool oc_expect_ok(oc_plan *p, tl_status st, const char *where)
{
    oc_checks++;
    if (st == TL_OK) return true;
    oc_complain(p, "%s | failed (%s): %s", where, tl_status_name(st), tl_error_message());
    return false;
}

const char *oc_where(char out[OC_WHERE], const oc_place *place, tl_dtype dtype, const char *more)
{
    snprintf(out, OC_WHERE, "%s %s%s%s", place->backend, tl_dtype_name(dtype), *more ? ", " : "",
             more);
    return out;
}

/* --- tolerances ------------------------------------------------------------------------------- */

static double relative_of(const oc_plan *p, tl_dtype dtype)
{
    double scale = p->k->scale > 0 ? p->k->scale : 1;
    switch (dtype) {
    case TL_F64: return scale * 1e-12;
    case TL_BF16: return scale * 1e-2;
    case TL_F16: return scale * 2e-3;
    default: return scale * 1e-5;
    }
}

// Values and weights are about 1, so what comes out far below that comes from cancellation, and is
// measured by what was cancelled. Gradients add up more of it.
oc_limits oc_output_limits(const oc_plan *p, tl_dtype dtype)
{
    return (oc_limits){relative_of(p, dtype), 0.02};
}

oc_limits oc_gradient_limits(const oc_plan *p, tl_dtype dtype)
{
    return (oc_limits){relative_of(p, dtype), 0.1};
}

/* --- comparison ------------------------------------------------------------------------------- */

static const char *index_text(char out[TL_SHAPE_TEXT], const tl_shape *shape, int64_t flat)
{
    tl_shape at = {.rank = shape->rank};
    for (int d = shape->rank - 1; d >= 0; d--) {
        at.dims[d] = flat % shape->dims[d];
        flat /= shape->dims[d];
    }
    return tl_shape_text(out, &at);
}

static bool same_element(const oc_value *a, const oc_value *b, int64_t i)
{
    size_t size = tl_dtype_size(a->dtype);
    if (a->dtype != b->dtype) return a->v[i] == b->v[i];
    // a GPU has one NaN, and gives that for all
    if (test_wants_gpu() && isnan(a->v[i]) && isnan(b->v[i])) return true;
    return memcmp((const char *)a->bits + (size_t)i * size,
                  (const char *)b->bits + (size_t)i * size, size)
           == 0;
}

// NaN where and only where it is expected; infinities likewise.
static bool same_kind(double got, double want)
{
    if (isfinite(want)) return isfinite(got);
    return isnan(want) ? isnan(got) : got == want;
}

typedef struct difference {
    double of, wanted;  /* norms */
    int64_t first, off; /* first bad element, how many are bad */
    bool beyond;        /* too large, or of another kind */
} difference;

static difference exact_difference(const oc_value *got, const oc_value *want)
{
    difference d = {.first = -1};
    for (int64_t i = 0; i < got->count; i++) {
        if (same_element(got, want, i)) continue;
        if (d.off++ == 0) d.first = i;
        double x = got->v[i] - want->v[i];
        d.of += x * x;
    }
    for (int64_t i = 0; i < want->count; i++) d.wanted += want->v[i] * want->v[i];
    d.of = sqrt(d.of), d.wanted = sqrt(d.wanted);
    d.beyond = d.off > 0;
    return d;
}

static double mean_square(const oc_value *v)
{
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < v->count; i++) {
        if (!isfinite(v->v[i])) continue;
        sum += v->v[i] * v->v[i];
        n++;
    }
    return n ? sum / (double)n : 0;
}

static difference norm_difference(const oc_value *got, const oc_value *want, oc_limits limits)
{
    difference d = {.first = -1};
    double rms = fmax(sqrt(mean_square(want)), limits.floor), worst = 0;
    int64_t worst_at = 0;
    for (int64_t i = 0; i < got->count; i++) {
        double w = want->v[i], x = fabs(got->v[i] - w);
        bool other = !same_kind(got->v[i], w);
        d.beyond |= other;
        if (other || (isfinite(w) && x > limits.relative * fmax(fabs(w), rms)))
            if (d.off++ == 0) d.first = i;
        if (other || !isfinite(w)) continue;
        d.of += x * x;
        if (x > worst) worst = x, worst_at = i;
    }
    d.of = sqrt(d.of);
    d.wanted = rms * sqrt((double)(want->count ? want->count : 1));
    d.beyond |= d.of > limits.relative * d.wanted;
    if (d.first < 0) d.first = worst_at;
    return d;
}

bool oc_compare(oc_plan *p, const char *where, const char *what, const oc_value *got,
                const oc_value *want, oc_limits limits)
{
    char a[TL_SHAPE_TEXT], b[TL_SHAPE_TEXT];
    oc_checks++;
    bool exact = limits.relative == 0 || !tl_dtype_is_float(want->dtype);
    if (!tl_shape_equal(&got->shape, &want->shape)
        || (exact ? got->dtype != want->dtype : !tl_dtype_is_float(got->dtype))) {
        oc_complain(p, "%s | %s | is %s%s, expected %s%s", where, what, tl_dtype_name(got->dtype),
                    tl_shape_text(a, &got->shape), tl_dtype_name(want->dtype),
                    tl_shape_text(b, &want->shape));
        return false;
    }
    difference d = exact ? exact_difference(got, want) : norm_difference(got, want, limits);
    if (!d.beyond) return true;
    char most[48] = "must be equal";
    if (!exact) snprintf(most, sizeof most, "at most %.3g", limits.relative);
    oc_complain(p,
                "%s | %s | element %s: expected %.17g, got %.17g | %" PRId64 " of %" PRId64
                " are off | |difference|/|expected| = %.3g, %s",
                where, what, index_text(a, &want->shape, d.first), want->v[d.first],
                got->v[d.first], d.off, want->count, d.wanted > 0 ? d.of / d.wanted : d.of, most);
    return false;
}

bool oc_compare_results(oc_plan *p, const char *where, const oc_results *got,
                        const oc_results *want, oc_limits outputs, oc_limits gradients)
{
    bool good = true;
    char what[48];
    for (int i = 0; i < p->outputs; i++) {
        snprintf(what, sizeof what, "output %d", i);
        good &= oc_compare(p, where, what, &got->out[i], &want->out[i], outputs);
    }
    for (int i = 0; i < p->inputs; i++) {
        if (want->gradient[i].count < 0) continue;
        snprintf(what, sizeof what, "gradient of input %d", i);
        good &= oc_compare(p, where, what, &got->gradient[i], &want->gradient[i], gradients);
    }
    return good;
}
