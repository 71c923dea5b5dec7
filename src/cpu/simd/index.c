/* Ops that find elements by indices. Sums of several updates are made in the order in which these
 * stand, each result by one task. */
#include <string.h>

#include "cpu/scratch.h"
#include "cpu/simd/index_read.h"
#include "cpu/simd/kernels.h"
#include "cpu/simd/vec.h"

/* Bytes that a task moves, and elements of one: microseconds. BLOCK indices are 4 KiB. */
enum { TASK = 65536, GRAIN = 16384, BLOCK = 512 };

/* A tensor as [before, axis, behind]; all are without gaps. */
typedef struct job {
    const tl_tensor *x, *indices, *y;
    int64_t before, axis, behind; /* of x, or of the result of a scatter */
    int64_t count, length;        /* indices; of them along the axis */
    size_t size;
    int64_t *order, *first; /* gather_grad: see sort_positions */
    int64_t blocks;         /* of columns */
} job;

static job job_of(const tl_node *n, const tl_shape *shape, int64_t axis)
{
    job j = {.x = n->in[0],
             .indices = n->in[1],
             .y = n->out[0],
             .before = 1,
             .axis = shape->dims[axis],
             .behind = 1,
             .count = tl_tensor_count(n->in[1]),
             .size = tl_dtype_size(n->in[0]->dtype)};
    for (int i = 0; i < shape->rank; i++) {
        if (i < axis) j.before *= shape->dims[i];
        if (i > axis) j.behind *= shape->dims[i];
    }
    TL_ASSERT(axis >= 0 && axis < shape->rank && !tl_dtype_is_float(j.indices->dtype));
    return j;
}

TLI_INLINE int64_t index_at(const job *j, int64_t i)
{
    return tli_index_read(j->indices->dtype, tli_data(j->indices), i);
}

#define ALL_INSIDE(type)                                                                           \
    for (int64_t i = begin; i < end; i++) {                                                        \
        const int64_t index = (int64_t)((const type *)indices)[i];                                 \
        outside |= (uint64_t)index >= (uint64_t)j->axis;                                           \
    }

static tl_status check_part(int64_t begin, int64_t end, void *payload)
{
    const job *j = payload;
    const void *indices = tli_data(j->indices);
    int outside = 0;
    if (j->indices->dtype == TL_I64) ALL_INSIDE(int64_t)
    else if (j->indices->dtype == TL_I32) ALL_INSIDE(int32_t)
    else
        for (int64_t i = begin; i < end; i++) {
            const int64_t index = index_at(j, i);
            outside |= (uint64_t)index >= (uint64_t)j->axis;
        }
    return outside ? TL_EINVAL : TL_OK;
}

// False when an index is outside; the reference kernel, which is run then, says which.
static bool all_inside(const tl_run *run, job *j)
{
    return tl_parallel_for(run->threads, j->count, TASK, check_part, j) == TL_OK;
}

/* --- whole places ----------------------------------------------------------------------------- */

// Indices at .. at + n - 1 as int64; `room` is used when they are of another type.
static const int64_t *indices_at(const job *j, int64_t at, int64_t n, int64_t *room)
{
    const void *indices = tli_data(j->indices);
    TL_ASSERT(at >= 0 && at + n <= j->count && n <= BLOCK);
    if (j->indices->dtype == TL_I64) return (const int64_t *)indices + at;
    if (j->indices->dtype == TL_I32)
        for (int64_t i = 0; i < n; i++) room[i] = ((const int32_t *)indices)[at + i];
    else
        for (int64_t i = 0; i < n; i++) room[i] = index_at(j, at + i);
    return room;
}

// The same for indices that nobody has checked yet; NULL when one is outside.
static const int64_t *checked_at(const job *j, int64_t at, int64_t n, int64_t *room)
{
    const int64_t *index = indices_at(j, at, n, room);
    int outside = 0;
    for (int64_t i = 0; i < n; i++) outside |= (uint64_t)index[i] >= (uint64_t)j->axis;
    return outside ? NULL : index;
}

#define GATHER_LOOP(type)                                                                          \
    for (int64_t i = 0; i < n; i++) ((type *)to)[i] = ((const type *)from)[index[i]];

// n rows of the result that lie in one of `before`.
static void gather_piece(char *to, const char *from, size_t bytes, const int64_t *index, int64_t n)
{
    switch (bytes) {
    case 1: GATHER_LOOP(uint8_t) return;
    case 2: GATHER_LOOP(uint16_t) return;
    case 4: GATHER_LOOP(uint32_t) return;
    case 8: GATHER_LOOP(uint64_t) return;
    default: break;
    }
    // Rows that are called for: more would be dropped where a core has ten misses at a time.
    enum { AHEAD = 4 };
    for (int64_t i = 0; i < n; i++, to += bytes) {
        if (i + AHEAD < n) {
            const char *next = from + (size_t)index[i + AHEAD] * bytes;
            __builtin_prefetch(next);
            if (bytes > 64) __builtin_prefetch(next + 64);
        }
        memcpy(to, from + (size_t)index[i] * bytes, bytes);
    }
}

// Rows begin .. end - 1 of the result.
static tl_status gather_rows(int64_t begin, int64_t end, void *payload)
{
    const job *j = payload;
    const size_t bytes = (size_t)j->behind * j->size;
    int64_t room[BLOCK];
    for (int64_t n; begin < end; begin += n) {
        const int64_t b = begin / j->count, at = begin % j->count, left = j->count - at;
        n = end - begin < left ? end - begin : left;
        if (n > BLOCK) n = BLOCK;
        TL_ASSERT(n > 0 && b < j->before);
        gather_piece((char *)tli_data(j->y) + (size_t)begin * bytes,
                     (const char *)tli_data(j->x) + (size_t)(b * j->axis) * bytes, bytes,
                     indices_at(j, at, n, room), n);
    }
    return TL_OK;
}

static tl_status gather_kernel(const tl_run *run, const tl_node *n)
{
    const tl_axis_attr *a = n->attr;
    job j = job_of(n, &n->in[0]->shape, a->axis);
    const int64_t bytes = j.behind * (int64_t)j.size;
    if (!all_inside(run, &j)) return tli_run_reference(run, n);
    if (!tl_tensor_count(j.y)) return TL_OK;
    return tl_parallel_for(run->threads, j.before * j.count, TASK / (bytes + 16), gather_rows, &j);
}

// Positions of the indices sorted by what they name, in order among equals; those of place p are
// order[first[p]] .. order[first[p + 1] - 1].
static tl_status sort_positions(job *j)
{
    void *room;
    const size_t bytes = (size_t)(j->axis + 2 + j->count) * sizeof(int64_t);
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL, bytes));
    int64_t *first = room;
    memset(first, 0, (size_t)(j->axis + 2) * sizeof *first);
    j->first = first;
    j->order = first + j->axis + 2;
    for (int64_t i = 0; i < j->count; i++) first[index_at(j, i) + 2]++;
    for (int64_t p = 2; p < j->axis + 2; p++) first[p] += first[p - 1];
    // first[p + 1] is where place p begins; filling moves it to where it ends.
    for (int64_t i = 0; i < j->count; i++) j->order[first[index_at(j, i) + 1]++] = i;
    TL_ASSERT(first[0] == 0 && first[j->axis] == j->count); // each has its place
    TL_ASSERT(tli_scratch_holds(j->order, (size_t)j->count * sizeof *j->order));
    return TL_OK;
}

#define ADD_ROWS(type, sum_type)                                                                   \
    for (int64_t k = from; k < to; k++) {                                                          \
        const type *restrict u = (const type *)updates + (j->order[k] * j->behind + at);           \
        type *restrict s = (type *)sums;                                                           \
        if (k == from) memcpy(s, u, (size_t)n * sizeof *s);                                        \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++) s[i] = (type)((sum_type)s[i] + (sum_type)u[i]);        \
    }

#define ADD_HALVES(t)                                                                              \
    for (int64_t k = from; k < to; k++) {                                                          \
        const tli_##t *u = (const tli_##t *)updates + (j->order[k] * j->behind + at);              \
        for (int64_t i = 0; i < n; i += VF) {                                                      \
            const int64_t m = n - i < VF ? n - i : VF;                                             \
            const vf one = vf_load_##t##_n(u + i, m);                                              \
            vf_store(wide + i, k == from ? one : vf_add(vf_load(wide + i), one));                  \
        }                                                                                          \
    }                                                                                              \
    for (int64_t i = 0; i < n; i++) ((tli_##t *)sums)[i] = tli_put_##t(wide[i]);

// Elements at .. at + n - 1 of one place: the sum of its updates.
static void add_updates(const job *j, const char *updates, char *sums, int64_t from, int64_t to,
                        int64_t at, int64_t n)
{
    float wide[BLOCK + 16];
    TL_ASSERT(n > 0 && n <= BLOCK && from < to && at + n <= j->behind);
    switch (j->y->dtype) {
    case TL_F32: ADD_ROWS(float, float) break;
    case TL_F64: ADD_ROWS(double, double) break;
    case TL_BF16: ADD_HALVES(bf16) break;
    case TL_F16: ADD_HALVES(f16) break;
    case TL_I32: ADD_ROWS(int32_t, uint32_t) break;
    default: ADD_ROWS(int64_t, uint64_t) break;
    }
}

static tl_status scatter_places(int64_t begin, int64_t end, void *payload)
{
    const job *j = payload;
    const int64_t size = (int64_t)j->size, row = j->behind * size;
    for (int64_t i = begin; i < end; i++) {
        const int64_t b = i / j->axis, p = i % j->axis, from = j->first[p], to = j->first[p + 1];
        TL_ASSERT(from <= to && to <= j->count && b < j->before);
        char *sums = (char *)tli_data(j->y) + i * row;
        const char *updates = (const char *)tli_data(j->x) + b * j->count * row;
        if (from == to) memset(sums, 0, (size_t)row);
        for (int64_t at = 0; from < to && at < j->behind; at += BLOCK) {
            const int64_t left = j->behind - at;
            add_updates(j, updates, sums + at * size, from, to, at, left < BLOCK ? left : BLOCK);
        }
    }
    return TL_OK;
}

static tl_status gather_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_scatter_attr *a = n->attr;
    job j = job_of(n, &n->out[0]->shape, a->axis);
    if (!all_inside(run, &j)) return tli_run_reference(run, n);
    if (!tl_tensor_count(j.y)) return TL_OK;
    TL_TRY(sort_positions(&j));
    const int64_t bytes = j.behind * (int64_t)j.size * (1 + j.count / j.axis);
    return tl_parallel_for(run->threads, j.before * j.axis, TASK / (bytes + 16), scatter_places,
                           &j);
}

/* --- a place for each element ----------------------------------------------------------------- */

#define TAKE_LOOP(type)                                                                            \
    if (j->behind == 1)                                                                            \
        for (int64_t i = 0; i < n; i++) ((type *)y)[i] = ((const type *)x)[index[i]];              \
    else                                                                                           \
        for (int64_t i = 0; i < n; i++)                                                            \
            ((type *)y)[i] = ((const type *)x)[index[i] * j->behind + i];

// n elements of the result from y on, whose columns begin at x.
static void take_piece(const job *j, void *y, const void *x, const int64_t *index, int64_t n)
{
    switch (j->size) {
    case 1: TAKE_LOOP(uint8_t) break;
    case 2: TAKE_LOOP(uint16_t) break;
    case 4: TAKE_LOOP(uint32_t) break;
    default: TAKE_LOOP(uint64_t) break;
    }
}

// Elements begin .. end - 1 of the result, in pieces that end with a row, or with a line where
// nothing is behind the axis.
static tl_status take_part(int64_t begin, int64_t end, void *payload)
{
    const job *j = payload;
    const int64_t size = (int64_t)j->size, row = j->behind == 1 ? j->length : j->behind;
    int64_t room[BLOCK];
    for (int64_t n; begin < end; begin += n) {
        const int64_t column = begin % row, b = begin / (j->length * j->behind);
        const int64_t left = row - column, most = end - begin < BLOCK ? end - begin : BLOCK;
        n = left < most ? left : most;
        TL_ASSERT(n > 0 && b < j->before);
        const int64_t from = b * j->axis * j->behind + (j->behind == 1 ? 0 : column);
        const int64_t *index = checked_at(j, begin, n, room);
        if (!index) return TL_EINVAL;
        take_piece(j, (char *)tli_data(j->y) + begin * size,
                   (const char *)tli_data(j->x) + from * size, index, n);
    }
    return TL_OK;
}

static tl_status take_along_axis_kernel(const tl_run *run, const tl_node *n)
{
    const tl_axis_attr *a = n->attr;
    job j = job_of(n, &n->in[0]->shape, a->axis);
    j.length = j.indices->shape.dims[a->axis];
    const tl_status st = tl_parallel_for(run->threads, tl_tensor_count(j.y), GRAIN, take_part, &j);
    return st == TL_OK ? TL_OK : tli_run_reference(run, n);
}

#define PUT_LOOP(type, sum_type)                                                                   \
    for (int64_t b = begin; b < end; b++) {                                                        \
        type *to = (type *)y + b * j->axis * j->behind;                                            \
        memset(to, 0, (size_t)(j->axis * j->behind) * sizeof *to);                                 \
        const int64_t all = j->length * j->behind, first = b * all;                                \
        for (int64_t i = 0, n; i < all; i += n) {                                                  \
            const int64_t column = j->behind == 1 ? 0 : i % j->behind;                             \
            const int64_t left = j->behind == 1 ? all - i : j->behind - column;                    \
            n = left < BLOCK ? left : BLOCK;                                                       \
            const int64_t *index = checked_at(j, first + i, n, room);                              \
            if (!index) return TL_EINVAL;                                                          \
            const type *u = (const type *)x + first + i;                                           \
            const int64_t step = j->behind == 1 ? 0 : 1;                                           \
            for (int64_t k = 0; k < n; k++) {                                                      \
                type *sum = to + index[k] * j->behind + column + k * step;                         \
                *sum = (type)((sum_type)*sum + (sum_type)u[k]);                                    \
            }                                                                                      \
        }                                                                                          \
    }

static tl_status put_rows(int64_t begin, int64_t end, void *payload)
{
    const job *j = payload;
    const void *x = tli_data(j->x);
    void *y = tli_data(j->y);
    int64_t room[BLOCK];
    switch (j->y->dtype) {
    case TL_F32: PUT_LOOP(float, float) break;
    case TL_F64: PUT_LOOP(double, double) break;
    case TL_I32: PUT_LOOP(int32_t, uint32_t) break;
    default: PUT_LOOP(int64_t, uint64_t) break;
    }
    return TL_OK;
}

static tl_status take_along_axis_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_scatter_attr *a = n->attr;
    job j = job_of(n, &n->out[0]->shape, a->axis);
    j.length = j.indices->shape.dims[a->axis];
    const int64_t work = (j.length + j.axis) * j.behind;
    if (work == 0) return TL_OK;
    const tl_status st = tl_parallel_for(run->threads, j.before, GRAIN / work, put_rows, &j);
    return st == TL_OK ? TL_OK : tli_run_reference(run, n);
}

#define SUMMED(name)                                                                               \
    TL_INIT(TL_OP_##name, TL_F32, name##_kernel, 0),                                               \
        TL_INIT(TL_OP_##name, TL_F64, name##_kernel, 0),                                           \
        TL_INIT(TL_OP_##name, TL_I32, name##_kernel, 0),                                           \
        TL_INIT(TL_OP_##name, TL_I64, name##_kernel, 0)
static const tl_kernel rows[] = {
    {TL_OP_gather, TL_DTYPE_COUNT, gather_kernel, 0},
    {TL_OP_take_along_axis, TL_DTYPE_COUNT, take_along_axis_kernel, 0},
    SUMMED(gather_grad),
    {TL_OP_gather_grad, TL_BF16, gather_grad_kernel, 0},
    {TL_OP_gather_grad, TL_F16, gather_grad_kernel, 0},
    SUMMED(take_along_axis_grad),
};
TLI_SIMD_KERNELS(index, rows);
