/* Ops that bring many elements together. A tensor without gaps falls into groups of axes that stay
 * and groups that go, one behind the other. When the last group goes, rows are brought together
 * from several sums side by side; when it stays, rows are added to a row of sums, a block of
 * columns at a time. Sums of float32 are made of short ones in float32, which come together in
 * float64.
 *
 * Few results of many elements are cut into parts, by sizes alone, whose results come together in
 * order. */
#include <math.h>

#include "cpu/scratch.h"
#include "cpu/simd/kernels.h"
#include "cpu/simd/math.h"

enum {
    /* Columns of a task; elements of a piece that is widened: 2 KiB of sums and of bases, and
     * 4 KiB of slots, in the first-level cache while rows pass by */
    BLOCK = 512,
    /* Elements of a sum in float32: 8 sums of VF lanes add up 8 to 32 each, so that rounding stays
     * below what the result is rounded by */
    RUN = 1024,
    DEEP = 32,      /* rows of a sum in float32: as many additions as a lane of RUN has at most */
    GRAIN = 32768,  /* elements of a task: microseconds */
    PART = 65536,   /* elements of a part, at least: two tasks, since parts are added once more */
    FEW = 16,       /* results, or blocks of columns, that are not work enough to be tasks */
    MOST_PARTS = 32 /* tasks of one result: for 32 threads */
};
_Static_assert(BLOCK % 16 == 0 && RUN % (8 * VF) == 0,
               "blocks and runs are whole rounds of the loops");
_Static_assert(DEEP % 4 == 0, "rows go by fours");

typedef union slot {
    double f;
    int64_t i;
} slot;

/* How elements come together. `base` is a number for each result that they are compared with. */
typedef void inner_fn(slot *to, const void *x, int64_t n, slot base);
typedef void outer_fn(slot *to, const void *x, int64_t step, int64_t rows, int64_t columns,
                      const slot *base);
typedef void combine_fn(slot *to, const slot *part, int64_t n);
typedef struct reducer {
    slot start;
    inner_fn *inner; /* n elements that lie together */
    outer_fn *outer; /* for each column; rows are `step` elements apart */
    combine_fn *combine;
} reducer;

/* --- float32 ---------------------------------------------------------------------------------- */

TLI_INLINE double larger(double a, double b)
{
    return a != a || a > b ? a : b;
}

TLI_INLINE double smaller(double a, double b)
{
    return a != a || a < b ? a : b;
}

TLI_INLINE double plus(double a, double b)
{
    return a + b;
}

// What each element x becomes; b is the base.
#define UNROLLED_4(...) _Pragma("GCC unroll 4") for (__VA_ARGS__)
#define UNROLLED_8(...) _Pragma("GCC unroll 8") for (__VA_ARGS__)

#define AS_IS(x, b) (x)
#define SQUARE_FROM(x, b) vf_mul(vf_sub(x, b), vf_sub(x, b))
#define EXP_FROM(x, b) vf_exp(vf_sub(x, b))

#define FLOAT_INNER(name, t, map, join, across, fold, first)                                       \
    static void name##_inner_##t(slot *to, const void *elements, int64_t n, slot base)             \
    {                                                                                              \
        const vf none = vf_set1(first), b = vf_set1((float)base.f);                                \
        (void)b;                                                                                   \
        for (const tli_##t *x = elements; n > 0; x += RUN, n -= RUN) {                             \
            const int64_t m = n < RUN ? n : RUN;                                                   \
            vf s[8] = {none, none, none, none, none, none, none, none};                            \
            int64_t i = 0;                                                                         \
            for (; i + 8 * VF <= m; i += 8 * VF)                                                   \
                UNROLLED_8(int k = 0; k < 8; k++)                                                  \
                    s[k] = join(s[k], map(vf_load_##t(x + i + k * VF), b));                        \
            for (; i + VF <= m; i += VF) s[0] = join(s[0], map(vf_load_##t(x + i), b));            \
            if (i < m) {                                                                           \
                const vf last = map(vf_load_##t##_n(x + i, m - i), b);                             \
                s[1] = join(s[1], vf_select(vm_first(m - i), last, none));                         \
            }                                                                                      \
            const vf all = join(join(join(s[0], s[1]), join(s[2], s[3])),                          \
                                join(join(s[4], s[5]), join(s[6], s[7])));                         \
            to->f = fold(to->f, (double)across(all));                                              \
        }                                                                                          \
    }

// The columns i .. of four rows, to be joined with those of `sums`.
#define FOUR_ROWS(map, join, load)                                                                 \
    {                                                                                              \
        const vf pq = join(map(load(p), b), map(load(q), b));                                      \
        const vf uv = join(map(load(u), b), map(load(v), b));                                      \
        vf_store(sums + i, join(vf_load(sums + i), join(pq, uv)));                                 \
    }

// One vector of columns at a time would cross a cache line for each row; whole rows follow the
// memory.
#define FLOAT_OUTER(name, t, map, join, fold, first)                                               \
    static void name##_outer_##t(slot *to, const void *elements, int64_t step, int64_t rows,       \
                                 int64_t columns, const slot *base)                                \
    {                                                                                              \
        float sums[BLOCK + 16], bases[BLOCK + 16];                                                 \
        const tli_##t *x = elements;                                                               \
        const int64_t whole = columns / VF * VF, rest = columns - whole;                           \
        for (int64_t i = 0; i < columns; i++) bases[i] = (float)base[i].f;                         \
        for (int64_t r = 0; r < rows; r += DEEP, x += DEEP * step) {                               \
            const int64_t deep = rows - r < DEEP ? rows - r : DEEP;                                \
            for (int64_t i = 0; i < columns; i += VF) vf_store(sums + i, vf_set1(first));          \
            int64_t d = 0;                                                                         \
            for (; d + 4 <= deep; d += 4) {                                                        \
                const tli_##t *p = x + d * step, *q = p + step, *u = q + step, *v = u + step;      \
                int64_t i = 0;                                                                     \
                for (; i < whole; i += VF, p += VF, q += VF, u += VF, v += VF) {                   \
                    const vf b = vf_load(bases + i);                                               \
                    (void)b;                                                                       \
                    FOUR_ROWS(map, join, vf_load_##t)                                              \
                }                                                                                  \
                if (rest) {                                                                        \
                    const vf b = vf_load_n(bases + i, rest);                                       \
                    (void)b;                                                                       \
                    FOUR_ROWS(map, join, REST_##t)                                                 \
                }                                                                                  \
            }                                                                                      \
            for (; d < deep; d++)                                                                  \
                for (int64_t i = 0; i < columns; i += VF) {                                        \
                    const int64_t m = columns - i < VF ? columns - i : VF;                         \
                    const vf b = vf_load_n(bases + i, m);                                          \
                    (void)b;                                                                       \
                    const vf one = map(vf_load_##t##_n(x + d * step + i, m), b);                   \
                    vf_store(sums + i, join(vf_load(sums + i), one));                              \
                }                                                                                  \
            for (int64_t i = 0; i < columns; i++) to[i].f = fold(to[i].f, (double)sums[i]);        \
        }                                                                                          \
    }
#define REST_f32(p) vf_load_n(p, rest)
#define REST_bf16(p) vf_load_bf16_n(p, rest)
#define REST_f16(p) vf_load_f16_n(p, rest)

#define COMBINE(name, member, fold)                                                                \
    static void name##_combine(slot *to, const slot *part, int64_t n)                              \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) to[i].member = fold(to[i].member, part[i].member);         \
    }
COMBINE(sum, f, plus)
COMBINE(max, f, larger)
COMBINE(min, f, smaller)

#define FLOAT_PAIR(name, t, map, join, across, fold, first)                                        \
    FLOAT_INNER(name, t, map, join, across, fold, first)                                           \
    FLOAT_OUTER(name, t, map, join, fold, first)
#define FLOAT_REDUCER(name, map, join, across, fold, first, combine)                               \
    FLOAT_PAIR(name, f32, map, join, across, fold, first)                                          \
    FLOAT_PAIR(name, bf16, map, join, across, fold, first)                                         \
    FLOAT_PAIR(name, f16, map, join, across, fold, first)                                          \
    static const reducer name##_floats[] = {                                                       \
        [TL_F32] = {{.f = first}, name##_inner_f32, name##_outer_f32, combine},                    \
        [TL_BF16] = {{.f = first}, name##_inner_bf16, name##_outer_bf16, combine},                 \
        [TL_F16] = {{.f = first}, name##_inner_f16, name##_outer_f16, combine},                    \
    };
FLOAT_REDUCER(sum, AS_IS, vf_add, vf_sum, plus, 0, sum_combine)
FLOAT_REDUCER(squares, SQUARE_FROM, vf_add, vf_sum, plus, 0, sum_combine)
FLOAT_REDUCER(exps, EXP_FROM, vf_add, vf_sum, plus, 0, sum_combine)
FLOAT_REDUCER(max, AS_IS, vf_max, vf_hmax, larger, -INFINITY, max_combine)
FLOAT_REDUCER(min, AS_IS, vf_min, vf_hmin, smaller, INFINITY, min_combine)

/* --- float64, and products of floats, which leave the range of float32 sooner ----------------- */

TLI_INLINE double times(double a, double b)
{
    return a * b;
}
COMBINE(prod, f, times)

#define DOUBLE_PAIR(name, expression, fold, first)                                                 \
    static void name##_inner_f64(slot *to, const void *elements, int64_t n, slot base)             \
    {                                                                                              \
        const double *x = elements;                                                                \
        const double b = base.f;                                                                   \
        double s[8] = {first, first, first, first, first, first, first, first};                    \
        int64_t i = 0;                                                                             \
        (void)b;                                                                                   \
        for (; i + 8 <= n; i += 8)                                                                 \
            for (int k = 0; k < 8; k++) {                                                          \
                const double v = x[i + k];                                                         \
                s[k] = fold(s[k], expression);                                                     \
            }                                                                                      \
        for (int k = 0; i < n; i++, k++) {                                                         \
            const double v = x[i];                                                                 \
            s[k] = fold(s[k], expression);                                                         \
        }                                                                                          \
        to->f = fold(to->f, fold(fold(fold(s[0], s[1]), fold(s[2], s[3])),                         \
                                 fold(fold(s[4], s[5]), fold(s[6], s[7]))));                       \
    }                                                                                              \
    static void name##_outer_f64(slot *to, const void *elements, int64_t step, int64_t rows,       \
                                 int64_t columns, const slot *base)                                \
    {                                                                                              \
        (void)base;                                                                                \
        for (const double *x = elements; rows > 0; rows--, x += step)                              \
            for (int64_t i = 0; i < columns; i++) {                                                \
                const double b = base[i].f, v = x[i];                                              \
                (void)b;                                                                           \
                to[i].f = fold(to[i].f, expression);                                               \
            }                                                                                      \
    }
#define DOUBLE_REDUCER(name, expression, fold, first, combine)                                     \
    DOUBLE_PAIR(name, expression, fold, first)                                                     \
    static const reducer name##_f64 = {{.f = first}, name##_inner_f64, name##_outer_f64, combine};
#define ITSELF(x) (x)
DOUBLE_REDUCER(sum, v, plus, 0, sum_combine)
DOUBLE_REDUCER(squares, (v - b) * (v - b), plus, 0, sum_combine)
DOUBLE_REDUCER(max, v, larger, -INFINITY, max_combine)
DOUBLE_REDUCER(min, v, smaller, INFINITY, min_combine)
DOUBLE_REDUCER(prod, v, times, 1, prod_combine)

typedef struct doubles {
    vd low, high;
} doubles;

TLI_INLINE doubles doubles_times(doubles p, vf x)
{
    return (doubles){vd_mul(p.low, vf_low_to_vd(x)), vd_mul(p.high, vf_high_to_vd(x))};
}

TLI_INLINE void slots_times(slot *to, doubles p)
{
    double *f = &to->f; // slots are as large as doubles
    vd_store(f, vd_mul(vd_load(f), p.low));
    vd_store(f + VD, vd_mul(vd_load(f + VD), p.high));
}
_Static_assert(sizeof(slot) == sizeof(double), "slots are loaded as doubles");

#define FLOAT_PRODUCTS(t)                                                                          \
    static void prod_inner_##t(slot *to, const void *elements, int64_t n, slot base)               \
    {                                                                                              \
        const tli_##t *x = elements;                                                               \
        const doubles one = {vd_set1(1), vd_set1(1)};                                              \
        doubles p[4] = {one, one, one, one};                                                       \
        (void)base;                                                                                \
        for (; n >= 4 * VF; n -= 4 * VF, x += 4 * VF)                                              \
            UNROLLED_4(int k = 0; k < 4; k++) p[k] = doubles_times(p[k], vf_load_##t(x + k * VF)); \
        for (; n > 0; n -= VF, x += VF) {                                                          \
            const int64_t m = n < VF ? n : VF;                                                     \
            const vf last = vf_select(vm_first(m), vf_load_##t##_n(x, m), vf_set1(1));             \
            p[0] = doubles_times(p[0], last);                                                      \
        }                                                                                          \
        double lanes[VD], all = 1;                                                                 \
        const vd low = vd_mul(vd_mul(p[0].low, p[1].low), vd_mul(p[2].low, p[3].low));             \
        const vd high = vd_mul(vd_mul(p[0].high, p[1].high), vd_mul(p[2].high, p[3].high));        \
        vd_store(lanes, vd_mul(low, high));                                                        \
        for (int k = 0; k < VD; k++) all *= lanes[k];                                              \
        to->f *= all;                                                                              \
    }                                                                                              \
    static void prod_outer_##t(slot *to, const void *elements, int64_t step, int64_t rows,         \
                               int64_t columns, const slot *base)                                  \
    {                                                                                              \
        (void)base;                                                                                \
        const tli_##t *x = elements;                                                               \
        const int64_t whole = columns / VF * VF;                                                   \
        for (int64_t deep; rows > 0; rows -= deep, x += deep * step) {                             \
            deep = rows < 4 ? 1 : 4;                                                               \
            for (int64_t i = 0; i < whole; i += VF) {                                              \
                const vf first = vf_load_##t(x + i);                                               \
                doubles p = {vf_low_to_vd(first), vf_high_to_vd(first)};                           \
                for (int64_t d = 1; d < deep; d++)                                                 \
                    p = doubles_times(p, vf_load_##t(x + d * step + i));                           \
                slots_times(to + i, p);                                                            \
            }                                                                                      \
            for (int64_t i = whole; i < columns; i++)                                              \
                for (int64_t d = 0; d < deep; d++)                                                 \
                    to[i].f *= (double)tli_get_##t(x[d * step + i]);                               \
        }                                                                                          \
    }
TLI_FLOAT_LIST(FLOAT_PRODUCTS)

static const reducer prod_floats[] = {
    [TL_F32] = {{.f = 1}, prod_inner_f32, prod_outer_f32, prod_combine},
    [TL_BF16] = {{.f = 1}, prod_inner_bf16, prod_outer_bf16, prod_combine},
    [TL_F16] = {{.f = 1}, prod_inner_f16, prod_outer_f16, prod_combine},
};

/* --- integers and truth ----------------------------------------------------------------------- */

/* In their own width: what wraps there wraps in the same way where it is stored. */
#define PLUS(t, u, a, b) (t)((u)(a) + (u)(b))
#define TIMES(t, u, a, b) (t)((u)(a) * (u)(b))
#define LARGER(t, u, a, b) ((a) > (b) ? (a) : (b))
#define SMALLER(t, u, a, b) ((a) < (b) ? (a) : (b))
#define EITHER(t, u, a, b) (t)((a) | (b))
#define BOTH(t, u, a, b) (t)((a) & (b))

#define INT_REDUCER(name, t, type, wide, load, fold, first)                                        \
    static void name##_inner_##t(slot *to, const void *elements, int64_t n, slot base)             \
    {                                                                                              \
        enum { SIDE = 16 };                                                                        \
        const type *x = elements;                                                                  \
        type s[SIDE];                                                                              \
        int64_t i = 0;                                                                             \
        (void)base;                                                                                \
        for (int k = 0; k < SIDE; k++) s[k] = first;                                               \
        for (; i + SIDE <= n; i += SIDE)                                                           \
            for (int k = 0; k < SIDE; k++) s[k] = fold(type, wide, s[k], load(x[i + k]));          \
        for (int k = 0; i < n; i++, k++) s[k] = fold(type, wide, s[k], load(x[i]));                \
        for (int k = 1; k < SIDE; k++) s[0] = fold(type, wide, s[0], s[k]);                        \
        to->i = fold(int64_t, uint64_t, to->i, (int64_t)s[0]);                                     \
    }                                                                                              \
    static void name##_outer_##t(slot *to, const void *elements, int64_t step, int64_t rows,       \
                                 int64_t columns, const slot *base)                                \
    {                                                                                              \
        type s[BLOCK];                                                                             \
        (void)base;                                                                                \
        for (int64_t i = 0; i < columns; i++) s[i] = first;                                        \
        const type *x = elements;                                                                  \
        for (; rows >= 2; rows -= 2, x += 2 * step)                                                \
            for (int64_t i = 0; i < columns; i++) {                                                \
                const type two = fold(type, wide, load(x[i]), load(x[i + step]));                  \
                s[i] = fold(type, wide, s[i], two);                                                \
            }                                                                                      \
        for (int64_t i = 0; rows > 0 && i < columns; i++)                                          \
            s[i] = fold(type, wide, s[i], load(x[i]));                                             \
        for (int64_t i = 0; i < columns; i++)                                                      \
            to[i].i = fold(int64_t, uint64_t, to[i].i, (int64_t)s[i]);                             \
    }                                                                                              \
    static void name##_combine_##t(slot *to, const slot *part, int64_t n)                          \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) to[i].i = fold(int64_t, uint64_t, to[i].i, part[i].i);     \
    }                                                                                              \
    static const reducer name##_##t = {                                                            \
        {.i = first}, name##_inner_##t, name##_outer_##t, name##_combine_##t};
#define NOT_0(x) ((x) != 0)
#define INT_REDUCERS(t, type, wide, least, most)                                                   \
    INT_REDUCER(sum, t, type, wide, ITSELF, PLUS, 0)                                               \
    INT_REDUCER(prod, t, type, wide, ITSELF, TIMES, 1)                                             \
    INT_REDUCER(max, t, type, wide, ITSELF, LARGER, least)                                         \
    INT_REDUCER(min, t, type, wide, ITSELF, SMALLER, most)
INT_REDUCERS(i32, int32_t, uint32_t, INT32_MIN, INT32_MAX)
INT_REDUCERS(i64, int64_t, uint64_t, INT64_MIN, INT64_MAX)
INT_REDUCER(any, bool, uint8_t, uint8_t, NOT_0, EITHER, 0)
INT_REDUCER(all, bool, uint8_t, uint8_t, NOT_0, BOTH, 1)

/* --- groups of axes --------------------------------------------------------------------------- */

typedef struct group {
    int64_t count, step; /* step in elements */
} group;

typedef enum last_step { AS_THEY_ARE, DIVIDED, LOGARITHM } last_step;

typedef struct plan {
    const tl_tensor *x, *y;
    size_t size;
    const reducer *first, *second; /* the second one may be NULL */
    last_step last;
    double divisor, mean_of;                    /* of the result; of what the first one found */
    group kept[TL_MAX_RANK], gone[TL_MAX_RANK]; /* outermost first; without `line` and `width` */
    int kept_rank, gone_rank;
    group line;                                  /* the innermost group that goes */
    int64_t width;                               /* columns; 1 when the last group goes */
    int64_t together, results, blocks, of_block; /* blocks of columns: in all, and for each row */
    int64_t parts, part; /* how many, and elements along what goes in each */
    slot *partial;
} plan;

static void find_groups(plan *p, tl_ints axes)
{
    bool goes[TL_MAX_RANK] = {false}, last = false;
    group all[TL_MAX_RANK];
    bool gone[TL_MAX_RANK];
    int count = 0;
    int64_t step = 1;
    for (int64_t i = 0; i < axes.count; i++) goes[axes.items[i]] = true;
    for (int d = p->x->shape.rank - 1; d >= 0; d--) { // innermost first
        const int64_t dim = p->x->shape.dims[d];
        if (dim == 1) continue;
        if (count == 0 || goes[d] != last) {
            all[count] = (group){1, step};
            gone[count++] = last = goes[d];
        }
        all[count - 1].count *= dim;
        step *= dim;
    }
    p->width = 1;
    p->line = (group){1, 1};
    int from = 0;
    if (count > 0 && !gone[0]) p->width = all[from++].count;
    if (from < count) p->line = all[from++]; // groups alternate: this one goes
    for (int i = count - 1; i >= from; i--) {
        if (gone[i]) p->gone[p->gone_rank++] = all[i];
        else p->kept[p->kept_rank++] = all[i];
    }
    p->together = p->line.count;
    p->results = p->width;
    for (int i = 0; i < p->gone_rank; i++) p->together *= p->gone[i].count;
    for (int i = 0; i < p->kept_rank; i++) p->results *= p->kept[i].count;
    // Every element belongs to one result.
    TL_ASSERT(p->results * p->together == tl_tensor_count(p->x));
    TL_ASSERT(p->results == tl_tensor_count(p->y));
}

static int64_t place(const group *groups, int rank, int64_t index)
{
    int64_t at = 0;
    for (int i = rank - 1; i >= 0; i--) {
        at += index % groups[i].count * groups[i].step;
        index /= groups[i].count;
    }
    TL_ASSERT(index == 0);
    return at;
}

/* --- a block of results ----------------------------------------------------------------------- */

// Few columns are brought together several rows at a time, as one wide row.
static void few_columns(const reducer *r, slot *to, const char *x, size_t size, int64_t rows,
                        int64_t columns, const slot *base)
{
    slot wide[BLOCK], bases[BLOCK];
    const int64_t fold = BLOCK / 2 / columns, whole = rows / fold, m = fold * columns;
    TL_ASSERT(fold > 0 && m <= BLOCK && whole * fold <= rows);
    for (int64_t i = 0; i < m; i++) wide[i] = r->start, bases[i] = base[i % columns];
    r->outer(wide, x, m, whole, m, bases);
    for (int64_t i = 0; i < fold; i++) r->combine(to, wide + i * columns, columns);
    r->outer(to, x + whole * m * (int64_t)size, columns, rows - whole * fold, columns, base);
}

// Elements begin .. end - 1 of what goes, for `columns` results (one where the last group goes) of
// which the first has its elements from x on.
static void bring_together(const plan *p, const reducer *r, slot *to, const char *x, int64_t begin,
                           int64_t end, int64_t columns, const slot *base)
{
    for (int64_t i = 0; i < columns; i++) to[i] = r->start;
    while (begin < end) {
        const int64_t line = begin / p->line.count, at = begin % p->line.count;
        const int64_t left = p->line.count - at, n = left < end - begin ? left : end - begin;
        TL_ASSERT(n > 0 && columns > 0 && columns <= BLOCK);
        const int64_t offset = place(p->gone, p->gone_rank, line) + at * p->line.step;
        const char *from = x + offset * (int64_t)p->size;
        if (p->width == 1) r->inner(to, from, n, base[0]);
        else if (columns == p->width && columns <= BLOCK / 4 && n >= 8 * (BLOCK / 2 / columns))
            few_columns(r, to, from, p->size, n, columns, base);
        else r->outer(to, from, p->line.step, n, columns, base);
        begin += n;
    }
}

// Block b: where its elements begin, and how many results it has.
static const char *block_at(const plan *p, int64_t b, int64_t *result, int64_t *columns)
{
    const int64_t row = b / p->of_block, column = b % p->of_block * BLOCK;
    const int64_t at = place(p->kept, p->kept_rank, row) + column;
    *result = row * p->width + column;
    *columns = p->width - column < BLOCK ? p->width - column : BLOCK;
    TL_ASSERT(*columns > 0 && *columns <= BLOCK && *result + *columns <= p->results);
    return (const char *)tli_data(p->x) + at * (int64_t)p->size;
}

static void find_base(const plan *p, slot *base, const slot *found, int64_t n)
{
    for (int64_t i = 0; i < n; i++) base[i].f = found[i].f / p->mean_of;
}

// clang-format off
#define STORE(value)                                                                               \
    switch (p->y->dtype) {                                                                         \
    case TL_F32: for (int64_t i = 0; i < n; i++) ((float *)y)[result + i] = (float)(value); break; \
    case TL_F64: for (int64_t i = 0; i < n; i++) ((double *)y)[result + i] = (value); break;       \
    case TL_BF16:                                                                                  \
        for (int64_t i = 0; i < n; i++) ((uint16_t *)y)[result + i] = tli_to_bf16((float)(value)); \
        break;                                                                                     \
    default:                                                                                       \
        for (int64_t i = 0; i < n; i++) ((uint16_t *)y)[result + i] = tli_to_f16((float)(value));  \
        break;                                                                                     \
    }
// clang-format on

static void store_ints(const plan *p, int64_t result, const slot *found, int64_t n)
{
    void *y = tli_data(p->y);
    for (int64_t i = 0; i < n; i++) {
        switch (p->y->dtype) {
        case TL_I64: ((int64_t *)y)[result + i] = found[i].i; break;
        case TL_I32: ((int32_t *)y)[result + i] = (int32_t)found[i].i; break;
        default: ((uint8_t *)y)[result + i] = found[i].i != 0; break;
        }
    }
}

TLI_INLINE double log_of(slot sum, slot most)
{
    return isfinite(most.f) ? most.f + log(sum.f) : most.f;
}

static void store(const plan *p, int64_t result, const slot *found, const slot *base, int64_t n)
{
    void *y = tli_data(p->y);
    TL_ASSERT(result >= 0 && n >= 0 && result + n <= p->results);
    if (!tl_dtype_is_float(p->y->dtype)) {
        store_ints(p, result, found, n);
    } else if (p->last == LOGARITHM) {
        STORE(log_of(found[i], base[i]))
    } else if (p->last == DIVIDED) {
        STORE(found[i].f / p->divisor)
    } else {
        STORE(found[i].f)
    }
}

static tl_status run_blocks(int64_t begin, int64_t end, void *payload)
{
    const plan *p = payload;
    for (int64_t b = begin; b < end; b++) {
        slot found[BLOCK], base[BLOCK];
        int64_t result, n;
        const char *x = block_at(p, b, &result, &n);
        for (int64_t i = 0; i < n; i++) base[i].i = 0;
        bring_together(p, p->first, found, x, 0, p->together, n, base);
        if (p->second) {
            find_base(p, base, found, n);
            bring_together(p, p->second, found, x, 0, p->together, n, base);
        }
        store(p, result, found, base, n);
    }
    return TL_OK;
}

/* Rows too short for vectors are turned into columns, a block of rows at a time: SHORT * BLOCK
 * elements of up to 8 bytes, 32 KiB on the stack. */
enum { SHORT = 8 };

#define TURN(type)                                                                                 \
    for (int64_t k = 0; k < width; k++)                                                            \
        for (int64_t i = 0; i < n; i++)                                                            \
            ((type *)turned)[k * n + i] = ((const type *)x)[i * width + k];

static void turn(void *turned, const void *x, size_t size, int64_t n, int64_t width)
{
    switch (size) {
    case 1: TURN(uint8_t) break;
    case 2: TURN(uint16_t) break;
    case 4: TURN(uint32_t) break;
    default: TURN(uint64_t) break;
    }
}

static tl_status run_short(int64_t begin, int64_t end, void *payload)
{
    const plan *p = payload;
    const int64_t width = p->line.count;
    TL_ASSERT(width <= SHORT && p->width == 1 && end <= p->results);
    uint64_t turned[SHORT * BLOCK];
    for (int64_t n; begin < end; begin += n) {
        slot found[BLOCK], base[BLOCK];
        n = end - begin < BLOCK ? end - begin : BLOCK;
        for (int64_t i = 0; i < n; i++) base[i].i = 0, found[i] = p->first->start;
        turn(turned, (const char *)tli_data(p->x) + begin * width * (int64_t)p->size, p->size, n,
             width);
        p->first->outer(found, turned, n, width, n, base);
        if (p->second) {
            find_base(p, base, found, n);
            for (int64_t i = 0; i < n; i++) found[i] = p->second->start;
            p->second->outer(found, turned, n, width, n, base);
        }
        store(p, begin, found, base, n);
    }
    return TL_OK;
}

// Results of one element each come in blocks as well, so that they are stored together.
static tl_status run_results(int64_t begin, int64_t end, void *payload)
{
    const plan *p = payload;
    while (begin < end) {
        slot found[BLOCK], base[BLOCK];
        const int64_t n = end - begin < BLOCK ? end - begin : BLOCK;
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = place(p->kept, p->kept_rank, begin + i);
            const char *x = (const char *)tli_data(p->x) + at * (int64_t)p->size;
            base[i].i = 0;
            bring_together(p, p->first, found + i, x, 0, p->together, 1, base + i);
            if (!p->second) continue;
            find_base(p, base + i, found + i, 1);
            bring_together(p, p->second, found + i, x, 0, p->together, 1, base + i);
        }
        store(p, begin, found, base, n);
        begin += n;
    }
    return TL_OK;
}

/* --- parts ------------------------------------------------------------------------------------ */

// The scratch memory: bases and results, then one row of results for each part.
typedef struct parts_job {
    const plan *p;
    const reducer *r;
} parts_job;

static tl_status run_parts(int64_t begin, int64_t end, void *payload)
{
    const parts_job *j = payload;
    const plan *p = j->p;
    for (int64_t i = begin; i < end; i++) {
        const int64_t part = i / p->blocks, from = part * p->part;
        const int64_t to = from + p->part < p->together ? from + p->part : p->together;
        TL_ASSERT(part < p->parts && from < to); // no part is empty
        int64_t result, n;
        const char *x = block_at(p, i % p->blocks, &result, &n);
        slot *row = p->partial + (2 + part) * p->results;
        bring_together(p, j->r, row + result, x, from, to, n, p->partial + result);
    }
    return TL_OK;
}

static tl_status run_pass(const tl_run *run, const plan *p, const reducer *r)
{
    slot *found = p->partial + p->results;
    parts_job j = {p, r};
    TL_TRY(tl_parallel_for(run->threads, p->parts * p->blocks, 1, run_parts, &j));
    for (int64_t i = 0; i < p->results; i++) found[i] = r->start;
    for (int64_t i = 0; i < p->parts; i++)
        r->combine(found, p->partial + (2 + i) * p->results, p->results);
    return TL_OK;
}

static tl_status run_in_parts(const tl_run *run, plan *p)
{
    void *room;
    const int64_t rows = p->parts + 2;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL, (size_t)(rows * p->results) * sizeof(slot)));
    p->partial = room;
    TL_ASSERT(tli_scratch_holds(p->partial + (p->parts + 1) * p->results,
                                (size_t)p->results * sizeof(slot)));
    for (int64_t i = 0; i < p->results; i++) p->partial[i].i = 0;
    TL_TRY(run_pass(run, p, p->first));
    if (p->second) {
        find_base(p, p->partial, p->partial + p->results, p->results);
        TL_TRY(run_pass(run, p, p->second));
    }
    store(p, 0, p->partial + p->results, p->partial, p->results);
    return TL_OK;
}

/* --- kernels ---------------------------------------------------------------------------------- */

static tl_status reduce(const tl_run *run, plan *p, tl_ints axes)
{
    p->size = tl_dtype_size(p->x->dtype);
    if (p->mean_of == 0) p->mean_of = 1;
    find_groups(p, axes);
    if (p->results == 0) return TL_OK;
    p->of_block = (p->width + BLOCK - 1) / BLOCK;
    p->blocks = p->results / p->width * p->of_block;
    const int64_t columns = p->width < BLOCK ? p->width : BLOCK, work = p->together * columns;
    int64_t parts = p->blocks < FEW ? p->results * p->together / PART : 0;
    if (parts > MOST_PARTS) parts = MOST_PARTS;
    if (parts > p->together / DEEP) parts = p->together / DEEP;
    if (parts > 1) {
        p->part = (p->together + parts - 1) / parts;
        p->part = (p->part + DEEP - 1) / DEEP * DEEP;
        p->parts = (p->together + p->part - 1) / p->part;
        TL_ASSERT(p->parts * p->part >= p->together && p->parts <= MOST_PARTS
                  && p->part % DEEP == 0);
        return run_in_parts(run, p);
    }
    const int64_t grain = work > 0 ? GRAIN / work : GRAIN;
    if (p->width == 1 && p->gone_rank == 0 && p->together <= SHORT && p->together > 0)
        return tl_parallel_for(run->threads, p->results, grain, run_short, p);
    if (p->width == 1) return tl_parallel_for(run->threads, p->results, grain, run_results, p);
    return tl_parallel_for(run->threads, p->blocks, grain, run_blocks, p);
}

static plan plan_of(const tl_node *n, const reducer *first)
{
    return (plan){.x = n->in[0], .y = n->out[0], .first = first};
}

static int64_t elements_of(const tl_node *n, tl_ints axes)
{
    int64_t count = 1;
    for (int64_t i = 0; i < axes.count; i++) count *= n->in[0]->shape.dims[axes.items[i]];
    return count;
}

static tl_ints axes_of(const tl_node *n)
{
    return ((const tl_reduce_attr *)n->attr)->axes;
}

#define CHOICE(name)                                                                               \
    static const reducer *name##_of(tl_dtype dtype)                                                \
    {                                                                                              \
        switch (dtype) {                                                                           \
        case TL_F64: return &name##_f64;                                                           \
        case TL_I32: return &name##_i32;                                                           \
        case TL_I64: return &name##_i64;                                                           \
        default: return &name##_floats[dtype];                                                     \
        }                                                                                          \
    }                                                                                              \
    static tl_status name##_kernel(const tl_run *run, const tl_node *n)                            \
    {                                                                                              \
        plan p = plan_of(n, name##_of(n->in[0]->dtype));                                           \
        return reduce(run, &p, axes_of(n));                                                        \
    }
CHOICE(sum)
CHOICE(prod)
CHOICE(max)
CHOICE(min)

static tl_status mean_kernel(const tl_run *run, const tl_node *n)
{
    plan p = plan_of(n, sum_of(n->in[0]->dtype));
    p.last = DIVIDED;
    p.divisor = (double)elements_of(n, axes_of(n));
    return reduce(run, &p, axes_of(n));
}

static tl_status variance_kernel(const tl_run *run, const tl_node *n)
{
    const tl_variance_attr *a = n->attr;
    const tl_dtype dtype = n->in[0]->dtype;
    const int64_t count = elements_of(n, a->axes);
    plan p = plan_of(n, sum_of(dtype));
    p.second = dtype == TL_F64 ? &squares_f64 : &squares_floats[dtype];
    p.last = DIVIDED;
    p.mean_of = (double)count;
    p.divisor = (double)(count > a->correction ? count - a->correction : 0);
    return reduce(run, &p, a->axes);
}

static tl_status logsumexp_kernel(const tl_run *run, const tl_node *n)
{
    const tl_dtype dtype = n->in[0]->dtype;
    plan p = plan_of(n, &max_floats[dtype]);
    p.second = &exps_floats[dtype];
    p.last = LOGARITHM;
    return reduce(run, &p, axes_of(n));
}

static tl_status any_kernel(const tl_run *run, const tl_node *n)
{
    plan p = plan_of(n, &any_bool);
    return reduce(run, &p, axes_of(n));
}

static tl_status all_kernel(const tl_run *run, const tl_node *n)
{
    plan p = plan_of(n, &all_bool);
    return reduce(run, &p, axes_of(n));
}

#define FLOATS(name)                                                                               \
    {TL_OP_##name, TL_F32, name##_kernel, 0}, {TL_OP_##name, TL_BF16, name##_kernel, 0},           \
    {                                                                                              \
        TL_OP_##name, TL_F16, name##_kernel, 0                                                     \
    }
#define NUMBERS(name)                                                                              \
    FLOATS(name), {TL_OP_##name, TL_F64, name##_kernel, 0},                                        \
        {TL_OP_##name, TL_I32, name##_kernel, 0},                                                  \
    {                                                                                              \
        TL_OP_##name, TL_I64, name##_kernel, 0                                                     \
    }
static const tl_kernel rows[] = {
    NUMBERS(sum),
    NUMBERS(prod),
    NUMBERS(max),
    NUMBERS(min),
    FLOATS(mean),
    {TL_OP_mean, TL_F64, mean_kernel, 0},
    FLOATS(variance),
    {TL_OP_variance, TL_F64, variance_kernel, 0},
    FLOATS(logsumexp),
    {TL_OP_any, TL_BOOL, any_kernel, 0},
    {TL_OP_all, TL_BOOL, all_kernel, 0},
};
TLI_SIMD_KERNELS(reduce, rows);
