#include "cpu/move.h"

#include <string.h>
#include <tilth/base/integer.h>

enum {
    /* Bytes that a task moves: some microseconds, and half of a second-level cache of 256 KiB */
    TASK = 131072,
    /* Bytes of a cache line: the width of a tile at its source, so that lines are read whole */
    LINE = 64,
    /* Elements along the target's row: with LINE they are 16 KiB on either side, half of a
     * first-level cache of 32 KiB */
    TILE = 256
};
_Static_assert(LINE % 16 == 0 && TILE % 16 == 0, "tiles are whole squares of 16 bytes a side");
_Static_assert(TILE *LINE * 2 <= 32768,
               "a tile stays in the first-level cache, at source and target");

/* --- axes ------------------------------------------------------------------------------------- */

// Short runs become elements of their own.
static void join_run(tli_move *m)
{
    const int last = m->rank - 1;
    if (last < 0) return;
    const int64_t size = (int64_t)m->size, bytes = m->dims[last] * size;
    const bool run = m->to_step[last] == size && m->from_step[last] == size;
    if (!run || (bytes != 2 && bytes != 4 && bytes != 8 && bytes != 16)) return;
    TL_ASSERT(m->dims[last] > 0 && bytes % size == 0);
    m->size = (size_t)bytes;
    m->rank--;
}

// Joined axes reach as far as those they were made of, on both sides.
static bool keeps_reach(const tli_move *m, const tl_shape *shape, const int64_t *to_strides,
                        const int64_t *from_strides)
{
    int64_t there = 0, here = 0, size = (int64_t)m->size;
    for (int d = 0; d < m->rank; d++) {
        there += (m->dims[d] - 1) * m->to_step[d];
        here += (m->dims[d] - 1) * m->from_step[d];
    }
    for (int d = 0; d < shape->rank; d++) {
        there -= (shape->dims[d] - 1) * to_strides[d] * size;
        here -= (shape->dims[d] - 1) * from_strides[d] * size;
    }
    return m->empty || (there == 0 && here == 0);
}

void tli_move_init(tli_move *m, const tl_shape *shape, size_t size, void *to,
                   const int64_t *to_strides, const void *from, const int64_t *from_strides)
{
    TL_ASSERT(size == 1 || size == 2 || size == 4 || size == 8);
    *m = (tli_move){.size = size, .to = to, .from = from};
    for (int d = 0; d < shape->rank; d++) {
        const int64_t dim = shape->dims[d];
        const int64_t there = to_strides[d] * (int64_t)size, here = from_strides[d] * (int64_t)size;
        m->empty |= dim == 0;
        if (dim == 1) continue;
        const int r = m->rank - 1;
        const bool joins = r >= 0 && m->to_step[r] == there * dim && m->from_step[r] == here * dim;
        if (!joins) m->dims[m->rank++] = 1;
        m->dims[m->rank - 1] *= dim;
        m->to_step[m->rank - 1] = there;
        m->from_step[m->rank - 1] = here;
    }
    TL_ASSERT(m->rank >= 0 && m->rank <= shape->rank
              && keeps_reach(m, shape, to_strides, from_strides));
    if (!m->empty) join_run(m);
}

// Steps through the first `rank` axes in row-major order.
typedef struct walk {
    const tli_move *m;
    int rank;
    int64_t index[TL_MAX_RANK];
    char *to;
    const char *from;
} walk;

static walk walk_from(const tli_move *m, int rank, int64_t at)
{
    walk w = {.m = m, .rank = rank, .to = m->to, .from = m->from};
    for (int d = rank - 1; d >= 0; d--) {
        w.index[d] = at % m->dims[d];
        at /= m->dims[d];
        w.to += w.index[d] * m->to_step[d];
        w.from += w.index[d] * m->from_step[d];
    }
    TL_ASSERT(at == 0 && rank <= m->rank);
    return w;
}

static void walk_on(walk *w)
{
    for (int d = w->rank - 1; d >= 0; d--) {
        w->to += w->m->to_step[d];
        w->from += w->m->from_step[d];
        if (++w->index[d] < w->m->dims[d]) return;
        w->to -= w->m->to_step[d] * w->index[d];
        w->from -= w->m->from_step[d] * w->index[d];
        w->index[d] = 0;
    }
}

/* --- one row ---------------------------------------------------------------------------------- */

#define ROW_LOOP(type)                                                                             \
    for (int64_t i = 0; i < n; i++, to += to_step, from += from_step) {                            \
        type one;                                                                                  \
        memcpy(&one, from, sizeof one);                                                            \
        memcpy(to, &one, sizeof one);                                                              \
    }

typedef struct sixteen {
    uint64_t halves[2];
} sixteen;

static void fill_row(char *to, const char *element, size_t size, int64_t n);

// Elements that are to_step and from_step bytes apart.
static void row(char *to, int64_t to_step, const char *from, int64_t from_step, size_t size,
                int64_t n)
{
    const int64_t own = (int64_t)size;
    // Targets are apart.
    TL_ASSERT(n >= 0 && size <= 16 && (to_step >= own || to_step <= -own || n <= 1));
    if (to_step == own && from_step == own) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
    if (to_step == own && from_step == 0 && size <= 8) {
        fill_row(to, from, size, n);
        return;
    }
    switch (size) {
    case 1: ROW_LOOP(uint8_t) break;
    case 2: ROW_LOOP(uint16_t) break;
    case 4: ROW_LOOP(uint32_t) break;
    case 8: ROW_LOOP(uint64_t) break;
    default: ROW_LOOP(sixteen) break;
    }
}

static tl_status move_rows(int64_t begin, int64_t end, void *payload)
{
    const tli_move *m = payload;
    const int last = m->rank - 1;
    walk w = walk_from(m, last, begin);
    for (int64_t i = begin; i < end; i++, walk_on(&w))
        row(w.to, m->to_step[last], w.from, m->from_step[last], m->size, m->dims[last]);
    return TL_OK;
}

static tl_status move_part(int64_t begin, int64_t end, void *payload)
{
    const tli_move *m = payload;
    const int64_t there = m->to_step[0], here = m->from_step[0];
    row(m->to + begin * there, there, m->from + begin * here, here, m->size, end - begin);
    return TL_OK;
}

/* --- transposed tiles ------------------------------------------------------------------------- */

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint16_t halves8 __attribute__((vector_size(16)));
typedef uint32_t words4 __attribute__((vector_size(16)));
typedef uint64_t longs2 __attribute__((vector_size(16)));

// clang-format off
#define LOW_1(a, b)                                                                                \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_1(a, b)                                                                               \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LOW_2(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_2(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LOW_4(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH_4(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define LOW_8(a, b) __builtin_shufflevector(a, b, 0, 2)
#define HIGH_8(a, b) __builtin_shufflevector(a, b, 1, 3)
// clang-format on

#define UNROLLED_4(...) _Pragma("GCC unroll 4") for (__VA_ARGS__)
#define UNROLLED_8(...) _Pragma("GCC unroll 8") for (__VA_ARGS__)
#define UNROLLED_16(...) _Pragma("GCC unroll 16") for (__VA_ARGS__)

// A square of 16 / size rows and columns: each round interleaves the upper rows with the lower
// ones; after as many as halve the side to 1, rows are columns.
#define SQUARE(size, vector, side, rounds)                                                         \
    static inline __attribute__((always_inline)) void square_##size(                               \
        char *to, int64_t to_step, const char *from, int64_t from_step)                            \
    {                                                                                              \
        vector a[side], b[side];                                                                   \
        UNROLLED_16(int i = 0; i < side; i++) memcpy(&a[i], from + i * from_step, sizeof a[i]);    \
        UNROLLED_4(int r = 0; r < rounds; r++) {                                                   \
            UNROLLED_8(int i = 0; i < side / 2; i++) {                                             \
                b[2 * i] = LOW_##size(a[i], a[i + side / 2]);                                      \
                b[2 * i + 1] = HIGH_##size(a[i], a[i + side / 2]);                                 \
            }                                                                                      \
            UNROLLED_16(int i = 0; i < side; i++) a[i] = b[i];                                     \
        }                                                                                          \
        UNROLLED_16(int i = 0; i < side; i++) memcpy(to + i * to_step, &a[i], sizeof a[i]);        \
    }                                                                                              \
    /* `across` elements that lie together at the source, `along` that do at the target. */        \
    static void tile_##size(char *to, int64_t to_step, const char *from, int64_t from_step,        \
                            int64_t across, int64_t along)                                         \
    {                                                                                              \
        enum { SIDE = side, STEP = LINE / size };                                                  \
        const int64_t whole = across / SIDE * SIDE, full = along / SIDE * SIDE;                    \
        for (int64_t l = 0; l < full; l += STEP) {                                                 \
            const int64_t stop = l + STEP < full ? l + STEP : full;                                \
            for (int64_t a = 0; a < whole; a += SIDE)                                              \
                for (int64_t k = l; k < stop; k += SIDE)                                           \
                    square_##size(to + a * to_step + k * size, to_step,                            \
                                  from + k * from_step + a * size, from_step);                     \
        }                                                                                          \
        for (int64_t a = 0; a < whole; a++)                                                        \
            row(to + a * to_step + full * size, size, from + full * from_step + a * size,          \
                from_step, size, along - full);                                                    \
        for (int64_t a = whole; a < across; a++)                                                   \
            row(to + a * to_step, size, from + a * size, from_step, size, along);                  \
    }
SQUARE(1, bytes16, 16, 4)
SQUARE(2, halves8, 8, 3)
SQUARE(4, words4, 4, 2)
SQUARE(8, longs2, 2, 1)

typedef struct transposition {
    tli_move outer; /* the other axes */
    size_t size;
    int64_t across, along;        /* elements that lie together at the source, and at the target */
    int64_t to_step, from_step;   /* of `across` at the target, of `along` at the source */
    int64_t width, columns, rows; /* of a tile; tiles */
} transposition;

static tl_status move_tiles(int64_t begin, int64_t end, void *payload)
{
    const transposition *t = payload;
    for (int64_t i = begin; i < end; i++) {
        const int64_t each = t->columns * t->rows, here = i % each;
        const int64_t a = here % t->columns * t->width, l = here / t->columns * TILE;
        const walk w = walk_from(&t->outer, t->outer.rank, i / each);
        char *to = w.to + a * t->to_step + l * (int64_t)t->size;
        const char *from = w.from + l * t->from_step + a * (int64_t)t->size;
        const int64_t across = t->across - a < t->width ? t->across - a : t->width;
        const int64_t along = t->along - l < TILE ? t->along - l : TILE;
        TL_ASSERT(across > 0 && along > 0 && t->size <= 8 && t->width * (int64_t)t->size == LINE);
        switch (t->size) {
        case 1: tile_1(to, t->to_step, from, t->from_step, across, along); break;
        case 2: tile_2(to, t->to_step, from, t->from_step, across, along); break;
        case 4: tile_4(to, t->to_step, from, t->from_step, across, along); break;
        default: tile_8(to, t->to_step, from, t->from_step, across, along); break;
        }
    }
    return TL_OK;
}

// The axis along which the source has no gaps, when the target has none along the last one; -1:
// none.
static int crossing_axis(const tli_move *m)
{
    const int last = m->rank - 1;
    if (m->size > 8 || m->to_step[last] != (int64_t)m->size) return -1;
    for (int d = 0; d < last; d++)
        if (m->from_step[d] == (int64_t)m->size) return d;
    return -1;
}

static tl_status transpose(tl_pool *threads, const tli_move *m, int axis)
{
    const int last = m->rank - 1;
    transposition t = {.outer = *m,
                       .size = m->size,
                       .across = m->dims[axis],
                       .along = m->dims[last],
                       .to_step = m->to_step[axis],
                       .from_step = m->from_step[last],
                       .width = LINE / (int64_t)m->size};
    int64_t others = 1;
    t.outer.rank = 0;
    for (int d = 0; d < last; d++) {
        if (d == axis) continue;
        const int r = t.outer.rank++;
        t.outer.dims[r] = m->dims[d];
        t.outer.to_step[r] = m->to_step[d];
        t.outer.from_step[r] = m->from_step[d];
        others *= m->dims[d];
    }
    t.columns = tl_div_up(t.across, t.width);
    t.rows = tl_div_up(t.along, TILE);
    TL_ASSERT(t.columns * t.width >= t.across && t.rows * TILE >= t.along && axis != last);
    TL_ASSERT(m->from_step[axis] == (int64_t)m->size && m->to_step[last] == (int64_t)m->size);
    const int64_t across = tl_min_i64(t.across, t.width);
    const int64_t along = tl_min_i64(t.along, TILE);
    const int64_t bytes = across * along * (int64_t)m->size;
    return tl_parallel_for(threads, others * t.columns * t.rows, TASK / 2 / bytes, move_tiles, &t);
}

tl_status tli_move_run(tl_pool *threads, const tli_move *m)
{
    if (m->empty) return TL_OK;
    if (m->rank == 0) {
        memcpy(m->to, m->from, m->size);
        return TL_OK;
    }
    const int last = m->rank - 1;
    const bool run = m->from_step[last] == (int64_t)m->size;
    // Elements one by one take longer than their bytes do.
    const int64_t cost = run ? (int64_t)m->size : 16;
    if (m->rank == 1)
        return tl_parallel_for(threads, m->dims[0], TASK / cost, move_part, (void *)m);
    const int axis = run ? -1 : crossing_axis(m);
    if (axis >= 0) return transpose(threads, m, axis);
    int64_t rows = 1;
    for (int d = 0; d < last; d++) rows *= m->dims[d];
    return tl_parallel_for(threads, rows, TASK / (m->dims[last] * cost), move_rows, (void *)m);
}

/* --- fill ------------------------------------------------------------------------------------- */

static void fill_row(char *to, const char *element, size_t size, int64_t n)
{
    if (n <= 0) return;
    TL_ASSERT(size <= LINE && LINE % size == 0); // a line of it repeats
    if (size == 1) {
        memset(to, *element, (size_t)n);
        return;
    }
    char block[LINE];
    for (size_t i = 0; i < LINE; i += size) memcpy(block + i, element, size);
    size_t bytes = (size_t)n * size, i = 0;
    for (; i + LINE <= bytes; i += LINE) memcpy(to + i, block, LINE);
    memcpy(to + i, block, bytes - i);
}

typedef struct filling {
    char *to;
    const char *element;
    size_t size;
} filling;

static tl_status fill_part(int64_t begin, int64_t end, void *payload)
{
    const filling *f = payload;
    fill_row(f->to + begin * (int64_t)f->size, f->element, f->size, end - begin);
    return TL_OK;
}

tl_status tli_fill(tl_pool *threads, void *to, const void *element, size_t size, int64_t count)
{
    filling f = {to, element, size};
    return tl_parallel_for(threads, count, 2 * TASK / (int64_t)size, fill_part, &f);
}
