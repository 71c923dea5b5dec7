#include "board/series.h"

#include <math.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>

/* --- keeping ---------------------------------------------------------------------------------- */

static bool fits(const tli_block *b, int64_t step, double time)
{
    double ms = (time - b->time) * 1e3;
    return b->count < TLI_BLOCK && step >= b->step
           && (uint64_t)step - (uint64_t)b->step <= UINT32_MAX && ms >= 0 && ms < UINT32_MAX;
}

/* Times that are no times are 0. */
static double sound_time(double time)
{
    return time > 0 && time < 1e11 ? time : 0;
}

static void note_extremes(tli_series *s, const tli_point *p)
{
    if (!isfinite(p->value)) return;
    if (!(s->low.value <= p->value)) s->low = *p;
    if (!(s->high.value >= p->value)) s->high = *p;
}

bool tli_series_add(tli_series *s, int64_t step, double time, double value)
{
    tli_block *b = s->count ? s->items[s->count - 1] : NULL;
    time = sound_time(time);
    if (!b || !fits(b, step, time)) {
        b = tl_alloc(sizeof *b);
        if (!b) return (void)TL_FAIL_NOMEM(sizeof *b), false;
        b->step = step;
        b->time = time;
        b->count = 0;
        if (!TL_VEC_PUSH(s, b)) {
            tl_free(b);
            return false;
        }
    }
    tli_point p = {step, time, (double)(float)value};
    if (!s->told) s->low.value = s->high.value = NAN;
    note_extremes(s, &p);
    b->steps[b->count] = (uint32_t)((uint64_t)step - (uint64_t)b->step);
    b->times[b->count] = (uint32_t)((time - b->time) * 1e3 + 0.5);
    b->values[b->count++] = (float)value;
    s->points++;
    s->told++;
    return true;
}

void tli_series_free(tli_series *s)
{
    for (int64_t i = 0; i < s->count; i++) tl_free(s->items[i]);
    TL_VEC_FREE(s);
    *s = (tli_series){0};
}

size_t tli_series_bytes(const tli_series *s)
{
    return (size_t)s->count * sizeof(tli_block) + (size_t)s->capacity * sizeof *s->items;
}

static tli_point point_at(const tli_block *b, int i)
{
    return (tli_point){b->step + b->steps[i], b->time + b->times[i] * 1e-3, (double)b->values[i]};
}

bool tli_series_next(tli_point *out, const tli_series *s, int64_t *block, int *at)
{
    while (*block < s->count && *at >= s->items[*block]->count) ++*block, *at = 0;
    if (*block >= s->count) return false;
    *out = point_at(s->items[*block], (*at)++);
    return true;
}

bool tli_series_first(tli_point *out, const tli_series *s)
{
    int64_t block = 0;
    int at = 0;
    return tli_series_next(out, s, &block, &at);
}

bool tli_series_last(tli_point *out, const tli_series *s)
{
    if (!s->count) return false;
    const tli_block *b = s->items[s->count - 1];
    *out = point_at(b, b->count - 1);
    return true;
}

void tli_series_cut(tli_series *s, int64_t step)
{
    int64_t blocks = 0;
    s->points = 0;
    s->low.value = s->high.value = NAN;
    for (int64_t i = 0; i < s->count; i++) {
        tli_block *b = s->items[i];
        int kept = 0;
        for (int k = 0; k < b->count; k++) {
            tli_point p = point_at(b, k);
            if (p.step >= step) continue;
            note_extremes(s, &p);
            b->steps[kept] = b->steps[k];
            b->times[kept] = b->times[k];
            b->values[kept++] = b->values[k];
        }
        b->count = kept;
        s->points += kept;
        if (kept) s->items[blocks++] = b;
        else tl_free(b);
    }
    s->count = blocks;
    if (!s->thinned) s->told = s->points;
}

/* NaN counts as an extreme: that there is one is what people look for. */
static bool is_lower(double a, double b)
{
    return isnan(a) ? !isnan(b) : a < b;
}

/* The lowest and the highest of a few points, in their order. */
static int extremes(tli_point out[2], const tli_point *p, int count)
{
    int low = 0, high = 0;
    for (int i = 1; i < count; i++) {
        if (is_lower(p[i].value, p[low].value)) low = i;
        if (is_lower(p[high].value, p[i].value)) high = i;
    }
    out[0] = p[low < high ? low : high];
    out[1] = p[low < high ? high : low];
    return low == high ? 1 : 2;
}

bool tli_series_thin(tli_series *s)
{
    enum { GROUP = 4 };
    tli_series thin = {.thinned = true};
    tli_point group[GROUP], kept[2], last;
    int64_t block = 0, told = s->told;
    int at = 0, count = 0;
    bool good = true, more = true;
    if (s->points < 4 * GROUP || !tli_series_last(&last, s)) return true;
    while (good && more) {
        more = tli_series_next(&group[count], s, &block, &at);
        count += more;
        // The first one is alone in its group: curves begin where they began.
        if (count < (thin.points ? GROUP : 1) && more) continue;
        if (!count) break;
        int n = extremes(kept, group, count);
        for (int i = 0; i < n && good; i++)
            good = tli_series_add(&thin, kept[i].step, kept[i].time, kept[i].value);
        count = 0;
    }
    if (good && kept[1].step != last.step && kept[0].step != last.step)
        good = tli_series_add(&thin, last.step, last.time, last.value);
    if (!good) {
        tli_series_free(&thin);
        return false;
    }
    thin.told = told;
    tli_series_free(s);
    *s = thin;
    return true;
}

/* --- choosing --------------------------------------------------------------------------------- */

/* An average that forgets, without the pull towards its beginning. */
typedef struct smoother {
    double weight, sum, scale;
} smoother;

static double smooth_next(smoother *m, double value)
{
    if (m->weight <= 0 || !isfinite(value)) return value;
    m->sum = m->sum * m->weight + (1 - m->weight) * value;
    m->scale = m->scale * m->weight + (1 - m->weight);
    return m->sum / m->scale;
}

typedef struct sampling {
    const tli_sample_args *args;
    tli_points *out;
    double from, to, scale; /* buckets for each unit of the axis */
    double start;           /* time of the first point */
    int64_t bucket;         /* -1: none yet */
    tli_point first, low, high, last;
    int64_t order[4]; /* their places: points are told in order, and once */
    int64_t place;
    bool failed;
} sampling;

static double on_axis(const sampling *g, const tli_point *p)
{
    double x = g->args->axis == TLI_AXIS_STEP   ? (double)p->step
               : g->args->axis == TLI_AXIS_TIME ? p->time
                                                : p->time - g->start;
    return g->args->logarithmic ? log10(x > 1e-3 ? x : 1e-3) : x;
}

static void tell(sampling *g, const tli_point *p)
{
    if (!g->failed && !TL_VEC_PUSH(g->out, *p)) g->failed = true;
}

/* Tells the points of the bucket that is over. */
static void close_bucket(sampling *g)
{
    const tli_point *points[] = {&g->first, &g->low, &g->high, &g->last};
    int64_t told = -1;
    if (g->bucket < 0) return;
    for (int round = 0; round < 4; round++) {
        int next = -1;
        for (int i = 0; i < 4; i++)
            if (g->order[i] > told && (next < 0 || g->order[i] < g->order[next])) next = i;
        if (next < 0) break;
        told = g->order[next];
        tell(g, points[next]);
    }
    g->bucket = -1;
}

static void take(sampling *g, const tli_point *p, int64_t bucket)
{
    if (bucket != g->bucket) {
        close_bucket(g);
        g->bucket = bucket;
        g->first = g->low = g->high = *p;
        for (int i = 0; i < 4; i++) g->order[i] = g->place;
    }
    if (is_lower(p->value, g->low.value)) g->low = *p, g->order[1] = g->place;
    if (is_lower(g->high.value, p->value)) g->high = *p, g->order[2] = g->place;
    g->last = *p;
    g->order[3] = g->place;
}

/* The range of the axis: what is asked for, or what there is. */
static void find_range(sampling *g, const tli_series *s)
{
    const tli_sample_args *a = g->args;
    tli_point p;
    int64_t block = 0;
    int at = 0;
    bool all = a->from == 0 && a->to == 0;
    g->from = INFINITY;
    g->to = -INFINITY;
    if (tli_series_first(&p, s)) g->start = p.time;
    if (!all) {
        g->from = a->logarithmic ? log10(fmax(a->from, 1e-3)) : a->from;
        g->to = a->logarithmic ? log10(fmax(a->to, 1e-3)) : a->to;
    } else {
        while (tli_series_next(&p, s, &block, &at)) {
            double x = on_axis(g, &p);
            g->from = fmin(g->from, x);
            g->to = fmax(g->to, x);
        }
    }
    g->scale = g->to > g->from ? (double)a->buckets / (g->to - g->from) : 0;
}

tl_status tli_series_sample(tli_points *out, const tli_series *s, const tli_sample_args *args)
{
    sampling g = {.args = args, .out = out, .bucket = -1};
    smoother m = {.weight = args->smooth};
    tli_point p, before = {0};
    int64_t block = 0;
    int at = 0;
    bool waiting = false, ended = false;
    find_range(&g, s);
    for (; tli_series_next(&p, s, &block, &at); g.place++) {
        double x = on_axis(&g, &p);
        p.value = smooth_next(&m, p.value);
        if (x < g.from) {
            before = p;
            waiting = true;
        } else if (x <= g.to) {
            if (waiting) tell(&g, &before);
            waiting = false;
            double bucket = (x - g.from) * g.scale;
            take(&g, &p, bucket < 1e9 ? (int64_t)bucket : 0);
        } else if (!ended) {
            close_bucket(&g);
            tell(&g, &p);
            ended = true;
        }
    }
    close_bucket(&g);
    return g.failed ? TL_ENOMEM : TL_OK;
}
