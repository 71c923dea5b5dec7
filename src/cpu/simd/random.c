/* Random numbers: the bits of the reference, drawn by several threads. */
#include <math.h>
#include <string.h>
#include <tilth/core/ctx.h>

#include "core/inner/element.h"
#include "cpu/ref/ref.h"
#include "cpu/simd/kernels.h"
#include "cpu/simd/vec.h"

/* Draws at a time: with what becomes of them 8 KiB, in the first-level cache; elements a task: tens
 * of microseconds. */
enum { PIECE = 512, GRAIN = 8192 };
_Static_assert(GRAIN % PIECE == 0, "only the last task has a rest");

typedef struct job {
    const tl_random_attr *a;
    tl_dtype dtype;
    char *to;
    tl_rng stream;
    double top;    /* uniform: the largest number */
    float limit;   /* normal: how far draws may lie from 0 */
    uint64_t ones; /* bernoulli: of the 2^32 words */
} job;

static job job_of(const tl_run *run, const tl_node *n)
{
    job j = {.a = n->attr, .dtype = n->out[0]->dtype, .to = tli_data(n->out[0])};
    tl_draw_stream(&j.stream, &run->draws, j.a->key);
    return j;
}

static void store(const job *j, int64_t start, const double *values, int64_t n)
{
    TL_ASSERT(start >= 0 && n > 0 && n <= PIECE);
    if (j->dtype == TL_F32) {
        for (int64_t i = 0; i < n; i++) ((float *)j->to)[start + i] = (float)values[i];
    } else if (j->dtype == TL_F64) {
        for (int64_t i = 0; i < n; i++) ((double *)j->to)[start + i] = values[i];
    } else {
        for (int64_t i = 0; i < n; i++) tli_element_set(j->dtype, j->to, start + i, values[i]);
    }
}

/* --- floats ----------------------------------------------------------------------------------- */

static tl_status uniform_part(int64_t begin, int64_t end, void *payload)
{
    const job *j = payload;
    const double low = j->a->a, width = j->a->b - j->a->a, top = j->top;
    float u[PIECE];
    double values[PIECE];
    for (int64_t start = begin; start < end; start += PIECE) {
        const int64_t n = end - start < PIECE ? end - start : PIECE;
        tl_rng_fill_uniform_f32(&j->stream, start, u, n);
        for (int64_t i = 0; i < n; i++) {
            const double value = low + u[i] * width;
            values[i] = value < top ? value : top;
        }
        store(j, start, values, n);
    }
    return TL_OK;
}

static tl_status uniform_kernel(const tl_run *run, const tl_node *n)
{
    job j = job_of(run, n);
    j.top = j.a->a < j.a->b ? tli_ref_largest_below(j.dtype, j.a->b) : j.a->b;
    return tl_parallel_for(run->threads, tl_tensor_count(n->out[0]), GRAIN, uniform_part, &j);
}

// Draws beyond the limit are thrown back: the next one comes from the same place of the next child
// stream.
static void draw_again(const job *j, int64_t start, float *z, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        for (uint64_t again = 0; !(fabsf(z[i]) <= j->limit); again++) {
            tl_rng child;
            tl_rng_fold(&child, &j->stream, again);
            tl_rng_fill_normal_f32(&child, start + i, &z[i], 1);
        }
    }
}

static tl_status normal_part(int64_t begin, int64_t end, void *payload)
{
    const job *j = payload;
    const double mean = j->a->a, deviation = j->a->b;
    float z[PIECE];
    double values[PIECE];
    for (int64_t start = begin; start < end; start += PIECE) {
        const int64_t n = end - start < PIECE ? end - start : PIECE;
        tl_rng_fill_normal_f32(&j->stream, start, z, n);
        if (j->limit < INFINITY) draw_again(j, start, z, n);
        for (int64_t i = 0; i < n; i++) values[i] = mean + deviation * z[i];
        store(j, start, values, n);
    }
    return TL_OK;
}

static tl_status normal(const tl_run *run, const tl_node *n, float limit)
{
    job j = job_of(run, n);
    j.limit = limit;
    return tl_parallel_for(run->threads, tl_tensor_count(n->out[0]), GRAIN / 4, normal_part, &j);
}

static tl_status normal_kernel(const tl_run *run, const tl_node *n)
{
    return normal(run, n, INFINITY);
}

static tl_status truncated_normal_kernel(const tl_run *run, const tl_node *n)
{
    return normal(run, n, 2);
}

/* --- bernoulli -------------------------------------------------------------------------------- */

// clang-format off
#define TRUTH(type, one)                                                                           \
    {                                                                                              \
        type *restrict to = (type *)(void *)j->to + start;                                         \
        const type value = (one);                                                                  \
        for (int64_t i = 0; i < n; i++) to[i] = words[i] <= last ? value : 0;                      \
    }
// clang-format on

static tl_status bernoulli_part(int64_t begin, int64_t end, void *payload)
{
    const job *j = payload;
    uint32_t words[PIECE];
    union {
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
    } one = {.u64 = 0};
    tli_element_set(j->dtype, &one, 0, 1);
    // Compared as words, of which twice as many fit into a vector as of 64 bits.
    const uint32_t last = (uint32_t)(j->ones - 1);
    for (int64_t start = begin; start < end; start += PIECE) {
        const int64_t n = end - start < PIECE ? end - start : PIECE;
        tl_rng_fill_u32(&j->stream, start, words, n);
        switch (tl_dtype_size(j->dtype)) {
        case 1: TRUTH(uint8_t, 1) break;
        case 2: TRUTH(uint16_t, one.u16) break;
        case 4: TRUTH(uint32_t, one.u32) break;
        default: TRUTH(uint64_t, one.u64) break;
        }
    }
    return TL_OK;
}

static tl_status bernoulli_kernel(const tl_run *run, const tl_node *n)
{
    job j = job_of(run, n);
    j.ones = (uint64_t)rint(j.a->a * 0x1p32);
    TL_ASSERT(j.ones <= UINT64_C(1) << 32);
    if (j.ones == 0) {
        memset(j.to, 0, (size_t)tl_tensor_count(n->out[0]) * tl_dtype_size(j.dtype));
        return TL_OK;
    }
    return tl_parallel_for(run->threads, tl_tensor_count(n->out[0]), GRAIN, bernoulli_part, &j);
}

/* --- integers --------------------------------------------------------------------------------- */

__extension__ typedef unsigned __int128 u128;

typedef struct integers_job {
    const tl_random_integers_attr *a;
    const tl_tensor *y;
    tl_rng stream;
    uint64_t range, uneven; /* lower halves of products below `uneven` would favour some numbers */
} integers_job;

// Of a place whose first word was thrown back: the next ones come from the same place of children.
static uint64_t draw_integer_again(const integers_job *j, int64_t i)
{
    for (uint64_t again = 0;; again++) {
        uint32_t halves[2];
        tl_rng child;
        tl_rng_fold(&child, &j->stream, again);
        tl_rng_fill_u32(&child, 2 * i, halves, 2);
        const u128 product = (u128)((uint64_t)halves[1] << 32 | halves[0]) * j->range;
        if ((uint64_t)product >= j->uneven) return (uint64_t)(product >> 64);
    }
}

static tl_status integers_part(int64_t begin, int64_t end, void *payload)
{
    const integers_job *j = payload;
    uint32_t words[2 * PIECE];
    int64_t numbers[PIECE];
    for (int64_t start = begin; start < end; start += PIECE) {
        const int64_t n = end - start < PIECE ? end - start : PIECE;
        tl_rng_fill_u32(&j->stream, 2 * start, words, 2 * n);
        for (int64_t i = 0; i < n; i++) {
            const uint64_t word = (uint64_t)words[2 * i + 1] << 32 | words[2 * i];
            const u128 product = (u128)word * j->range;
            uint64_t number = (uint64_t)(product >> 64);
            if ((uint64_t)product < j->uneven) number = draw_integer_again(j, start + i);
            numbers[i] = (int64_t)((uint64_t)j->a->low + number);
        }
        if (j->y->dtype == TL_I64)
            memcpy((int64_t *)tli_data(j->y) + start, numbers, (size_t)n * sizeof *numbers);
        else
            for (int64_t i = 0; i < n; i++) tli_ref_set_int(j->y, start + i, numbers[i]);
    }
    return TL_OK;
}

static tl_status integers_kernel(const tl_run *run, const tl_node *n)
{
    integers_job j = {.a = n->attr, .y = n->out[0]};
    tl_draw_stream(&j.stream, &run->draws, j.a->key);
    j.range = (uint64_t)j.a->high - (uint64_t)j.a->low;
    j.uneven = j.range ? -j.range % j.range : 0;
    TL_ASSERT(!j.range || j.uneven < j.range);
    return tl_parallel_for(run->threads, tl_tensor_count(j.y), GRAIN, integers_part, &j);
}

#define ROW(name) TL_INIT(TL_OP_random_##name, TL_DTYPE_COUNT, name##_kernel, 0)
static const tl_kernel rows[] = {ROW(uniform), ROW(normal), ROW(truncated_normal), ROW(bernoulli),
                                 ROW(integers)};
TLI_SIMD_KERNELS(random, rows);
