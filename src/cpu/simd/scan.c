/* Ops along one axis: where the largest and the smallest element is, and running sums. */
#include <math.h>

#include "cpu/scratch.h"
#include "cpu/simd/kernels.h"
#include "cpu/simd/vec.h"

/* Columns of a block: their sums in double are 4 KiB, in the first-level cache while rows pass by.
 * Elements of a task, and of a part of a row that is cut: microseconds. */
enum { BLOCK = 512, GRAIN = 32768, PART = 65536 };
_Static_assert(PART % BLOCK == 0 && BLOCK % (4 * VF) == 0,
               "parts are whole blocks, and these whole rounds of the loops");

/* A tensor without gaps as [before, axis, behind]. */
typedef struct scan {
    const tl_tensor *x, *y;
    size_t size;
    int64_t before, axis, behind, blocks; /* blocks of columns */
    bool largest, exclusive, reverse;
    int64_t parts; /* argmax, argmin of few long rows */
    void *partial;
} scan;

static scan scan_of(const tl_node *n, int64_t axis)
{
    const tl_shape *s = &n->in[0]->shape;
    scan c = {.x = n->in[0],
              .y = n->out[0],
              .size = tl_dtype_size(n->in[0]->dtype),
              .before = 1,
              .axis = s->dims[axis],
              .behind = 1};
    for (int i = 0; i < s->rank; i++) {
        if (i < axis) c.before *= s->dims[i];
        if (i > axis) c.behind *= s->dims[i];
    }
    c.blocks = (c.behind + BLOCK - 1) / BLOCK;
    TL_ASSERT(axis >= 0 && axis < s->rank && c.before * c.axis * c.behind == tl_tensor_count(c.x));
    return c;
}

static const char *element(const scan *c, int64_t b, int64_t place, int64_t column)
{
    const int64_t at = (b * c->axis + place) * c->behind + column;
    TL_ASSERT(b < c->before && place < c->axis && column < c->behind);
    return (const char *)tli_data(c->x) + at * (int64_t)c->size;
}

// n elements as float32; `room` is used when they are of another type.
static const float *floats(tl_dtype dtype, const void *from, float *room, int64_t n)
{
    const uint16_t *h = from;
    int64_t i = 0;
    switch (dtype) {
    case TL_F32: return from;
    case TL_BF16:
        for (; i + VF <= n; i += VF) vf_store(room + i, vf_load_bf16(h + i));
        for (; i < n; i++) room[i] = tli_from_bf16(h[i]);
        break;
    default:
        for (; i + VF <= n; i += VF) vf_store(room + i, vf_load_f16(h + i));
        for (; i < n; i++) room[i] = tli_from_f16(h[i]);
        break;
    }
    TL_ASSERT(i == n && n <= BLOCK); // all of them
    return room;
}

/* --- argmax, argmin --------------------------------------------------------------------------- */

typedef struct best {
    float value;
    int64_t where;
} best;

// NaN stands before all else; of those that tie, the one that came first stays.
TLI_INLINE bool beats(float a, float b, bool largest)
{
    if (a != a || b != b) return a != a && b == b;
    return largest ? a > b : a < b;
}

static float extreme(const float *x, int64_t n, bool largest)
{
    TL_ASSERT(n > 0);
    vf s[4];
    for (int k = 0; k < 4; k++) s[k] = vf_set1(x[0]);
    int64_t i = 0;
    if (largest) {
        for (; i + 4 * VF <= n; i += 4 * VF)
            for (int k = 0; k < 4; k++) s[k] = vf_max(s[k], vf_load(x + i + k * VF));
        s[0] = vf_max(vf_max(s[0], s[1]), vf_max(s[2], s[3]));
        float most = vf_hmax(s[0]);
        for (; i < n; i++) most = beats(x[i], most, true) ? x[i] : most;
        return most;
    }
    for (; i + 4 * VF <= n; i += 4 * VF)
        for (int k = 0; k < 4; k++) s[k] = vf_min(s[k], vf_load(x + i + k * VF));
    s[0] = vf_min(vf_min(s[0], s[1]), vf_min(s[2], s[3]));
    float least = vf_hmin(s[0]);
    for (; i < n; i++) least = beats(x[i], least, false) ? x[i] : least;
    return least;
}

// The best of n elements that lie together: first the block that holds it, then the place in it.
static best best_of(tl_dtype dtype, size_t size, const char *x, int64_t n, bool largest)
{
    float room[BLOCK];
    best b = {0, -1};
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t m = n - i < BLOCK ? n - i : BLOCK;
        const float found = extreme(floats(dtype, x + i * (int64_t)size, room, m), m, largest);
        if (b.where < 0 || beats(found, b.value, largest)) b = (best){found, i};
        if (found != found) break;
    }
    const int64_t m = n - b.where < BLOCK ? n - b.where : BLOCK;
    TL_ASSERT(b.where >= 0 && b.where % BLOCK == 0 && m > 0);
    const float *block = floats(dtype, x + b.where * (int64_t)size, room, m);
    int64_t k = 0;
    while (b.value == b.value ? block[k] != b.value : block[k] == block[k]) k++;
    TL_ASSERT(k < m); // the block holds what was found in it
    b.where += k;
    return b;
}

static tl_status arg_rows(int64_t begin, int64_t end, void *payload)
{
    const scan *c = payload;
    int64_t *y = tli_data(c->y);
    for (int64_t i = begin; i < end; i++)
        y[i] = best_of(c->x->dtype, c->size, element(c, i, 0, 0), c->axis, c->largest).where;
    return TL_OK;
}

static tl_status arg_parts(int64_t begin, int64_t end, void *payload)
{
    const scan *c = payload;
    best *found = c->partial;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = i / c->parts, from = i % c->parts * PART;
        const int64_t n = c->axis - from < PART ? c->axis - from : PART;
        TL_ASSERT(n > 0 && row < c->before);
        found[i] = best_of(c->x->dtype, c->size, element(c, row, from, 0), n, c->largest);
        found[i].where += from;
    }
    return TL_OK;
}

static tl_status arg_in_parts(const tl_run *run, scan *c)
{
    int64_t *y = tli_data(c->y);
    c->parts = (c->axis + PART - 1) / PART;
    const int64_t all = c->before * c->parts;
    TL_TRY(tli_scratch(&c->partial, TLI_SCRATCH_KERNEL, (size_t)all * sizeof(best)));
    TL_TRY(tl_parallel_for(run->threads, all, 1, arg_parts, c));
    const best *found = c->partial;
    for (int64_t row = 0; row < c->before; row++, found += c->parts) {
        best b = found[0];
        for (int64_t i = 1; i < c->parts; i++)
            if (beats(found[i].value, b.value, c->largest)) b = found[i];
        y[row] = b.where;
    }
    return TL_OK;
}

// A block of columns at a time: the best values so far, and the rows they stand in.
static void arg_columns(const scan *c, int64_t b, int64_t column, int64_t columns)
{
    float room[BLOCK], values[BLOCK];
    TL_ASSERT(columns > 0 && columns <= BLOCK && c->axis <= INT32_MAX);
    int32_t where[BLOCK];
    int64_t *y = (int64_t *)tli_data(c->y) + b * c->behind + column;
    const float *x = floats(c->x->dtype, element(c, b, 0, column), room, columns);
    for (int64_t i = 0; i < columns; i++) values[i] = x[i], where[i] = 0;
    for (int64_t row = 1; row < c->axis; row++) {
        x = floats(c->x->dtype, element(c, b, row, column), room, columns);
        int64_t i = 0;
        for (; i + VF <= columns; i += VF) {
            const vf now = vf_load(x + i), so_far = vf_load(values + i);
            // "Not above or equal" is true of NaN as well.
            const vm lost = c->largest ? vf_le(now, so_far) : vf_ge(now, so_far);
            const vm wins = vm_andnot(vf_eq(so_far, so_far), lost);
            vf_store(values + i, vf_select(wins, now, so_far));
            vi_store(where + i, vi_select(wins, vi_set1((int32_t)row), vi_load(where + i)));
        }
        for (; i < columns; i++) {
            if (!beats(x[i], values[i], c->largest)) continue;
            values[i] = x[i];
            where[i] = (int32_t)row;
        }
    }
    for (int64_t i = 0; i < columns; i++) y[i] = where[i];
}

static tl_status arg_blocks(int64_t begin, int64_t end, void *payload)
{
    const scan *c = payload;
    for (int64_t i = begin; i < end; i++) {
        const int64_t column = i % c->blocks * BLOCK, left = c->behind - column;
        arg_columns(c, i / c->blocks, column, left < BLOCK ? left : BLOCK);
    }
    return TL_OK;
}

static tl_status find_best(const tl_run *run, const tl_node *n, bool largest)
{
    const tl_arg_attr *a = n->attr;
    scan c = scan_of(n, a->axis);
    c.largest = largest;
    if (c.before * c.behind == 0) return TL_OK;
    if (c.axis > INT32_MAX) return tli_run_reference(run, n);
    if (c.behind == 1) {
        if (c.axis >= 2 * PART && c.before < 16) return arg_in_parts(run, &c);
        return tl_parallel_for(run->threads, c.before, GRAIN / c.axis, arg_rows, &c);
    }
    const int64_t columns = c.behind < BLOCK ? c.behind : BLOCK;
    return tl_parallel_for(run->threads, c.before * c.blocks, GRAIN / (c.axis * columns),
                           arg_blocks, &c);
}

static tl_status argmax_kernel(const tl_run *run, const tl_node *n)
{
    return find_best(run, n, true);
}

static tl_status argmin_kernel(const tl_run *run, const tl_node *n)
{
    return find_best(run, n, false);
}

/* --- cumsum ----------------------------------------------------------------------------------- */

static void put(tl_dtype dtype, void *to, int64_t i, double value)
{
    if (dtype == TL_F32) ((float *)to)[i] = (float)value;
    else if (dtype == TL_BF16) ((uint16_t *)to)[i] = tli_to_bf16((float)value);
    else ((uint16_t *)to)[i] = tli_to_f16((float)value);
}

// Several rows at once, as each sum waits for the one before it: an addition of doubles takes 2 to
// 4 cycles.
enum { SIDE = 4 };

static void sum_side_by_side(const scan *c, int64_t b)
{
    const float *x = (const float *)element(c, b, 0, 0);
    float *y = (float *)tli_data(c->y) + b * c->axis;
    const int64_t step = c->reverse ? -1 : 1;
    double sums[SIDE] = {0};
    int64_t at = c->reverse ? c->axis - 1 : 0;
    for (int64_t i = 0; i < c->axis; i++, at += step)
        for (int k = 0; k < SIDE; k++) {
            const double before = sums[k];
            sums[k] += x[k * c->axis + at];
            y[k * c->axis + at] = (float)(c->exclusive ? before : sums[k]);
        }
}

static tl_status sum_rows(int64_t begin, int64_t end, void *payload)
{
    const scan *c = payload;
    const tl_dtype dtype = c->x->dtype;
    const int64_t step = c->reverse ? -1 : 1;
    for (; dtype == TL_F32 && begin + SIDE <= end; begin += SIDE) sum_side_by_side(c, begin);
    for (int64_t b = begin; b < end; b++) {
        const char *x = element(c, b, 0, 0);
        char *y = (char *)tli_data(c->y) + b * c->axis * (int64_t)c->size;
        double sum = 0;
        int64_t at = c->reverse ? c->axis - 1 : 0;
        for (int64_t i = 0; i < c->axis; i++, at += step) {
            float value;
            const double before = sum;
            if (dtype == TL_F32) value = ((const float *)x)[at];
            else value = *floats(dtype, x + 2 * at, &(float){0}, 1);
            sum += value;
            put(dtype, y, at, c->exclusive ? before : sum);
        }
    }
    return TL_OK;
}

static tl_status sum_blocks(int64_t begin, int64_t end, void *payload)
{
    const scan *c = payload;
    float room[BLOCK];
    for (int64_t k = begin; k < end; k++) {
        double sums[BLOCK] = {0};
        const int64_t b = k / c->blocks, column = k % c->blocks * BLOCK;
        const int64_t left = c->behind - column, columns = left < BLOCK ? left : BLOCK;
        for (int64_t r = 0; r < c->axis; r++) {
            const int64_t row = c->reverse ? c->axis - 1 - r : r;
            const float *x = floats(c->x->dtype, element(c, b, row, column), room, columns);
            char *y = (char *)tli_data(c->y)
                      + ((b * c->axis + row) * c->behind + column) * (int64_t)c->size;
            for (int64_t i = 0; i < columns; i++) {
                const double before = sums[i];
                sums[i] += x[i];
                put(c->x->dtype, y, i, c->exclusive ? before : sums[i]);
            }
        }
    }
    return TL_OK;
}

static tl_status cumsum_kernel(const tl_run *run, const tl_node *n)
{
    const tl_cumsum_attr *a = n->attr;
    scan c = scan_of(n, a->axis);
    c.exclusive = a->exclusive;
    c.reverse = a->reverse;
    if (c.before * c.axis * c.behind == 0) return TL_OK;
    if (c.behind == 1) return tl_parallel_for(run->threads, c.before, GRAIN / c.axis, sum_rows, &c);
    const int64_t columns = c.behind < BLOCK ? c.behind : BLOCK;
    return tl_parallel_for(run->threads, c.before * c.blocks, GRAIN / (c.axis * columns),
                           sum_blocks, &c);
}

#define FLOATS(name)                                                                               \
    TL_INIT(TL_OP_##name, TL_F32, name##_kernel, 0),                                               \
        TL_INIT(TL_OP_##name, TL_BF16, name##_kernel, 0),                                          \
        TL_INIT(TL_OP_##name, TL_F16, name##_kernel, 0)
static const tl_kernel rows[] = {FLOATS(argmax), FLOATS(argmin), FLOATS(cumsum)};
TLI_SIMD_KERNELS(scan, rows);
