/* Convolutions in which each channel has a filter of its own: vectors lie across channels. */
#include <string.h>

#include "cpu/scratch.h"
#include "cpu/simd/conv_parts.h"
#include "cpu/simd/vec.h"

#if defined(__clang__)
#define UNROLLED(...) _Pragma("clang loop unroll(full)") for (__VA_ARGS__)
#else
#define UNROLLED(...) _Pragma("GCC unroll 16") for (__VA_ARGS__)
#endif
#if defined(TLI_ISA_generic)
// Not fused: where the instruction is not certain to be there, it would be a call.
#define MULTIPLY_ADD(x, y, sum) vf_add(sum, vf_mul(x, y))
#else
#define MULTIPLY_ADD(x, y, sum) vf_fma(x, y, sum)
#endif

/* Sums that are held in registers: places by vectors, or vectors alone. 4 x 4 sums and 4 factors
 * are 20 of the 32 registers of NEON and AVX-512; where there are 16, some pass through memory,
 * which the loads leave time for. A factor is loaded for 4 places. Filters have at most 11 x 11
 * taps. */
enum { PLACES = 4, VECTORS = 4, DOT_VECTORS = 8, TAPS_MOST = 128 };
/* The same where each row of the filter has 3 or 5 taps on neighbouring pixels: 12 sums, 6 or 10
 * factors and a pixel, which is loaded once for as many places. */
enum { RUN_PLACES = 6, RUN_FEW = 3, RUN_VECTORS = 2, RUN_MOST = 5 };
/* And of the filter's gradient: sums and pixels of three taps, and a gradient. */
enum { THREES_VECTORS = 4 };
_Static_assert(PLACES *VECTORS + VECTORS + 1 <= 32
                   && RUN_PLACES * RUN_VECTORS + RUN_MOST * RUN_VECTORS + 1 <= 32
                   && 6 * THREES_VECTORS + THREES_VECTORS <= 32,
               "sums, factors and a pixel");

/* What one element of the filter is multiplied with. */
typedef struct tap {
    const void *from;
    const float *filter;
} tap;

#define BODY "cpu/simd/conv_each.inc"
#include "cpu/simd/each_float.h"

typedef void sum_fn(void *to, int64_t to_step, tap *taps, int count, int64_t from_step,
                    int64_t channels, int64_t places);
typedef void dot_fn(float *sums, const void *x, int64_t x_step, const void *y, int64_t y_step,
                    int64_t channels, int64_t places);

typedef void threes_fn(float *sums, int64_t sums_step, const void *x, const void *y, int64_t step,
                       int64_t channels, int64_t places);

typedef struct job {
    const tli_conv *c;
    size_t size;
    sum_fn *sum, *sum_threes, *sum_fives;
    dot_fn *dot;
    threes_fn *dot_threes;
    float *filter;       /* [kh, kw, channels], or sums of it for each part */
    int64_t chunk;       /* channels at a time */
    int64_t part, parts; /* rows of the result in a part of the filter's gradient */
} job;

/* Channels for which the rows under a window stay in the first-level cache until the next row of
 * windows, which needs most of them again; or all. */
static int64_t channels_at_once(const tli_conv *c)
{
    // Of 48 or 64 KiB, with what is written. Fewer than LEAST are pieces so short that finding them
    // costs more than the second-level cache does.
    enum { BYTES = 40 << 10, LEAST = 96, UNIT = 32 };
    const int64_t row = (c->w > c->ow ? c->w : c->ow) * (int64_t)tl_dtype_size(c->type);
    const int64_t many = BYTES / (row * (c->kh + 1)) / UNIT * UNIT;
    return many < LEAST || c->stride_x != 1 ? c->in : many;
}

static job job_of(const tli_conv *c)
{
    const size_t size = tl_dtype_size(c->type);
#define JOB(t)                                                                                     \
    ((job){.c = c,                                                                                 \
           .size = size,                                                                           \
           .chunk = channels_at_once(c),                                                           \
           .sum = sum_places_##t,                                                                  \
           .sum_threes = sum_runs_3_##t,                                                           \
           .sum_fives = sum_runs_5_##t,                                                            \
           .dot = dot_places_##t,                                                                  \
           .dot_threes = dot_threes_##t})
    return c->type == TL_BF16 ? JOB(bf16) : c->type == TL_F16 ? JOB(f16) : JOB(f32);
#undef JOB
}

static int64_t min_of(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static int64_t max_of(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

static bool each_suits(const tli_conv *c, tli_conv_want what)
{
    (void)what;
    return c->group_in == 1 && c->group_out == 1 && c->kh * c->kw <= TAPS_MOST;
}

/* Rows with `width` places that are work enough for a task. */
static int64_t rows_of_task(const tli_conv *c, int64_t width)
{
    // Multiply-adds: some tens of microseconds, and rows enough to read most of the source once.
    const double work = 1.0e6, row = (double)(width * c->in) * (double)(c->kh * c->kw);
    return row >= work ? 1 : (int64_t)(work / row) + 1;
}

/* The filter in float. */
static tl_status take_filter(job *j, tli_isa isa)
{
    const tli_conv *c = j->c;
    const int64_t count = c->kh * c->kw * c->in;
    if (c->type == TL_F32) {
        j->filter = c->k;
        return TL_OK;
    }
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL, (size_t)count * sizeof(float)));
    tli_gemm_kernels_of(isa, TLI_GEMM_F32)->convert(room, TL_F32, c->k, c->type, count);
    j->filter = room;
    return TL_OK;
}

/* --- result and image's gradient -------------------------------------------------------------- */

static int64_t source_of(const tli_conv_axis *a, int64_t place, int64_t t)
{
    return place * a->step + a->first + t * a->delta;
}

/* The taps [*begin, *end) of a place that lie inside the source. */
static void taps_inside(int64_t *begin, int64_t *end, const tli_conv_axis *a, int64_t place)
{
    int64_t t = 0;
    while (t < a->taps && (source_of(a, place, t) < 0 || source_of(a, place, t) >= a->source)) t++;
    *begin = t;
    while (t < a->taps && source_of(a, place, t) >= 0 && source_of(a, place, t) < a->source) t++;
    TL_ASSERT(*begin <= t && t <= a->taps);
    *end = t;
}

/* The places [*begin, *end) of which all taps lie inside. */
static void whole_places(int64_t *begin, int64_t *end, const tli_conv_axis *a)
{
    const int64_t reach = (a->taps - 1) * (a->delta < 0 ? -a->delta : a->delta);
    const int64_t first = a->delta < 0 ? a->first - reach : a->first;
    tli_conv_inside(begin, end, a->places, first, a->step, max_of(a->source - reach, 0));
    TL_ASSERT(*begin == *end
              || (source_of(a, *begin, 0) >= 0 && source_of(a, *end - 1, a->taps - 1) >= 0));
}

/* One row of a grid, some channels from `channel` on: `from` is the source's image, place p goes to
 * to + p * to_step. */
static void sum_row(const job *j, const tli_conv_axis *y, const tli_conv_axis *x, int64_t row,
                    int64_t channel, const char *from, char *to, int64_t to_step)
{
    const tli_conv *c = j->c;
    const int64_t channels = min_of(j->chunk, c->in - channel);
    int64_t ty, ty_end, whole, whole_end;
    taps_inside(&ty, &ty_end, y, row);
    TL_ASSERT(row >= 0 && row < y->places && y->taps * x->taps <= TAPS_MOST);
    whole_places(&whole, &whole_end, x);
    for (int64_t p = 0; p < x->places;) {
        const bool inner = p >= whole && p < whole_end;
        const int64_t places = inner ? whole_end - p : 1;
        int64_t tx, tx_end;
        taps_inside(&tx, &tx_end, x, p);
        // Neighbours in the order in which they lie in the source.
        const bool run = inner && (x->taps == 3 || x->taps == 5) && x->step == 1
                         && (x->delta == 1 || x->delta == -1);
        tap taps[TAPS_MOST];
        int count = 0;
        for (int64_t i = ty; i < ty_end; i++)
            for (int64_t n = tx; n < tx_end; n++) {
                const int64_t k = run && x->delta < 0 ? tx_end - 1 - n : n;
                const int64_t pixel = source_of(y, row, i) * x->source + source_of(x, p, k);
                const int64_t element =
                    (y->k_first + i * y->k_step) * c->kw + x->k_first + k * x->k_step;
                taps[count++] = (tap){from + (size_t)(pixel * c->in + channel) * j->size,
                                      j->filter + element * c->in + channel};
            }
        sum_fn *sum = !run ? j->sum : x->taps == 3 ? j->sum_threes : j->sum_fives;
        TL_ASSERT(count <= TAPS_MOST && places > 0 && p + places <= x->places
                  && (!run || count % x->taps == 0));
        sum(to + (size_t)(p * to_step + channel) * j->size, to_step, taps, count, x->step * c->in,
            channels, places);
        p += places;
    }
}

static tl_status result_rows(int64_t begin, int64_t end, void *payload)
{
    const job *j = payload;
    const tli_conv *c = j->c;
    tli_conv_axis y, x;
    tli_conv_result_axes(&y, &x, c);
    for (int64_t channel = 0; channel < c->in; channel += j->chunk)
        for (int64_t row = begin; row < end; row++)
            sum_row(j, &y, &x, row % c->oh, channel,
                    (const char *)c->x + (size_t)(row / c->oh * c->h * c->w * c->in) * j->size,
                    (char *)c->y + (size_t)(row * c->ow * c->in) * j->size, c->in);
    return TL_OK;
}

static tl_status each_result(tl_pool *pool, tli_isa isa, const tli_conv *c)
{
    job j = job_of(c);
    TL_TRY(take_filter(&j, isa));
    return tl_parallel_for(pool, c->images * c->oh, rows_of_task(c, c->ow), result_rows, &j);
}

static void image_row(const job *j, int64_t row, int64_t channel)
{
    const tli_conv *c = j->c;
    const int64_t image = row / c->h, at = row % c->h;
    for (int64_t first = 0; first < min_of(c->stride_x, c->w); first++) {
        tli_conv_axis y, x;
        tli_conv_image_axes(&y, &x, c, at % c->stride_y, first);
        sum_row(j, &y, &x, at / c->stride_y, channel,
                (const char *)c->y + (size_t)(image * c->oh * c->ow * c->in) * j->size,
                (char *)c->x + (size_t)((row * c->w + first) * c->in) * j->size,
                c->stride_x * c->in);
    }
}

static tl_status image_rows(int64_t begin, int64_t end, void *payload)
{
    const job *j = payload;
    for (int64_t channel = 0; channel < j->c->in; channel += j->chunk)
        for (int64_t row = begin; row < end; row++) image_row(j, row, channel);
    return TL_OK;
}

static tl_status each_image(tl_pool *pool, tli_isa isa, const tli_conv *c)
{
    job j = job_of(c);
    TL_TRY(take_filter(&j, isa));
    return tl_parallel_for(pool, c->images * c->h, rows_of_task(c, c->w), image_rows, &j);
}

/* --- filter's gradient ------------------------------------------------------------------------ */

/* The places [begin, end) of a row of the result that a tap of the filter meets in the image. */
typedef struct reach {
    int64_t begin, end;
} reach;

static reach reach_of(const tli_conv *c, int64_t kx)
{
    reach r;
    tli_conv_inside(&r.begin, &r.end, c->ow, kx * c->dilation_x - c->left, c->stride_x, c->w);
    return r;
}

/* Where a row of the image, and one of the result, meet in the filter's gradient. */
typedef struct meeting {
    const job *j;
    float *sums;  /* of the filter's row */
    int64_t x, y; /* the rows' first pixels and places */
    int64_t channel, channels;
} meeting;

static const char *pixel_at(const meeting *m, int64_t place, int64_t kx)
{
    const tli_conv *c = m->j->c;
    const int64_t pixel = place * c->stride_x + kx * c->dilation_x - c->left;
    TL_ASSERT(pixel >= 0 && pixel < c->w);
    return (const char *)c->x + (size_t)((m->x + pixel) * c->in + m->channel) * m->j->size;
}

static const char *place_at(const meeting *m, int64_t place)
{
    const tli_conv *c = m->j->c;
    return (const char *)c->y + (size_t)((m->y + place) * c->in + m->channel) * m->j->size;
}

static void dot_tap(const meeting *m, int64_t kx, int64_t begin, int64_t end)
{
    const tli_conv *c = m->j->c;
    if (begin >= end) return;
    m->j->dot(m->sums + kx * c->in, pixel_at(m, begin, kx), c->stride_x * c->in, place_at(m, begin),
              c->in, m->channels, end - begin);
}

/* All three taps of a row at once, where all of them are inside. Each tap meets its places in the
 * same order as by itself. */
static void dot_three_taps(const meeting *m)
{
    const tli_conv *c = m->j->c;
    reach all = {0, c->ow}, each[3];
    for (int k = 0; k < 3; k++) {
        each[k] = reach_of(c, k);
        all = (reach){max_of(all.begin, each[k].begin), min_of(all.end, each[k].end)};
    }
    if (all.begin >= all.end) {
        for (int k = 0; k < 3; k++) dot_tap(m, k, each[k].begin, each[k].end);
        return;
    }
    for (int k = 0; k < 3; k++) dot_tap(m, k, each[k].begin, all.begin);
    m->j->dot_threes(m->sums, c->in, pixel_at(m, all.begin, 0), place_at(m, all.begin), c->in,
                     m->channels, all.end - all.begin);
    for (int k = 0; k < 3; k++) dot_tap(m, k, all.end, each[k].end);
}

/* Some channels, from `channel` on. */
static void dot_row(const job *j, float *sums, int64_t row, int64_t channel)
{
    const tli_conv *c = j->c;
    const int64_t channels = min_of(j->chunk, c->in - channel);
    const int64_t image = row / c->oh, top = row % c->oh * c->stride_y - c->top;
    const bool threes = c->kw == 3 && c->stride_x == 1 && c->dilation_x == 1 && channels % VF == 0;
    for (int64_t ky = 0; ky < c->kh; ky++) {
        const int64_t y = top + ky * c->dilation_y;
        if (y < 0 || y >= c->h) continue;
        const meeting m = {.j = j,
                           .sums = sums + ky * c->kw * c->in + channel,
                           .x = (image * c->h + y) * c->w,
                           .y = row * c->ow,
                           .channel = channel,
                           .channels = channels};
        if (threes) {
            dot_three_taps(&m);
            continue;
        }
        for (int64_t kx = 0; kx < c->kw; kx++) {
            const reach r = reach_of(c, kx);
            dot_tap(&m, kx, r.begin, r.end);
        }
    }
}

static tl_status filter_parts(int64_t begin, int64_t end, void *payload)
{
    const job *j = payload;
    const tli_conv *c = j->c;
    const int64_t all = c->kh * c->kw * c->in;
    for (int64_t part = begin; part < end; part++) {
        float *sums = j->filter + part * all;
        memset(sums, 0, (size_t)all * sizeof *sums);
        const int64_t last = min_of((part + 1) * j->part, c->images * c->oh);
        TL_ASSERT(part < j->parts && part * j->part < last);
        for (int64_t channel = 0; channel < c->in; channel += j->chunk)
            for (int64_t row = part * j->part; row < last; row++) dot_row(j, sums, row, channel);
    }
    return TL_OK;
}

static tl_status each_filter(tl_pool *pool, tli_isa isa, const tli_conv *c)
{
    enum { PARTS = 32, FLOATS = 2 << 20 }; // for 32 threads; their sums together are 8 MiB
    job j = job_of(c);
    const int64_t rows = c->images * c->oh, all = c->kh * c->kw * c->in;
    const int64_t parts =
        max_of(1, min_of(min_of(PARTS, FLOATS / all), rows / rows_of_task(c, c->ow)));
    j.part = (rows + parts - 1) / parts;
    j.parts = (rows + j.part - 1) / j.part;
    TL_ASSERT(j.parts >= 1 && j.parts <= parts && j.parts * j.part >= rows);
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL, (size_t)(j.parts * all) * sizeof(float)));
    j.filter = room;
    TL_TRY(tl_parallel_for(pool, j.parts, 1, filter_parts, &j));
    for (int64_t part = 1; part < j.parts; part++)
        for (int64_t i = 0; i < all; i++) j.filter[i] += j.filter[part * all + i];
    tli_gemm_kernels_of(isa, TLI_GEMM_F32)->convert(c->k, c->type, j.filter, TL_F32, all);
    return TL_OK;
}

const tli_conv_method TLI_ISA_NAME(tli_conv_each) = {each_suits, each_result, each_image,
                                                     each_filter};
