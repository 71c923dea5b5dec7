#include <math.h>
#include <tilth/core/ctx.h>

#include "cpu/ref/ref.h"

__extension__ typedef unsigned __int128 u128;

/* Draws are taken a piece at a time: 1 KiB on the stack. */
enum { PIECE = 256 };

static int64_t piece_at(const tl_tensor *y, int64_t start)
{
    int64_t left = tl_tensor_count(y) - start;
    TL_ASSERT(start >= 0 && left >= 0);
    return left < PIECE ? left : PIECE;
}

/* --- floats ----------------------------------------------------------------------------------- */

double tli_ref_largest_below(tl_dtype dtype, double high)
{
    if (dtype == TL_F64) return nextafter(high, -INFINITY);
    if (dtype == TL_F32)
        return (double)(float)high < high ? (float)high : nextafterf((float)high, -INFINITY);
    uint16_t bits;
    tli_element_set(dtype, &bits, 0, high);
    double nearest = tli_element_get(dtype, &bits, 0);
    if (nearest < high) return nearest;
    // Sign and magnitude: negative numbers go down by counting up.
    if (nearest == 0) bits = 0x8001;
    else bits = (uint16_t)(nearest < 0 ? bits + 1 : bits - 1);
    return tli_element_get(dtype, &bits, 0);
}

static tl_status uniform_kernel(const tl_run *run, const tl_node *n)
{
    const tl_random_attr *a = n->attr;
    const tl_tensor *y = n->out[0];
    double top = a->a < a->b ? tli_ref_largest_below(y->dtype, a->b) : a->b;
    float u[PIECE];
    tl_rng stream;
    tl_draw_stream(&stream, &run->draws, a->key);
    for (int64_t start = 0, count; (count = piece_at(y, start)) > 0; start += count) {
        tl_rng_fill_uniform_f32(&stream, start, u, count);
        for (int64_t i = 0; i < count; i++) {
            double value = a->a + u[i] * (a->b - a->a);
            tli_ref_set(y, start + i, value < top ? value : top);
        }
    }
    return TL_OK;
}

// Draws beyond `limit` are thrown back: the next one comes from the same place of the next child
// stream, so that it depends on the place alone.
static void fill_normal(const tl_rng *stream, int64_t start, float *out, int64_t count, float limit)
{
    tl_rng_fill_normal_f32(stream, start, out, count);
    for (int64_t i = 0; i < count; i++) {
        for (uint64_t again = 0; !(fabsf(out[i]) <= limit); again++) {
            tl_rng child;
            tl_rng_fold(&child, stream, again);
            tl_rng_fill_normal_f32(&child, start + i, &out[i], 1);
        }
    }
}

static tl_status normal(const tl_run *run, const tl_node *n, float limit)
{
    const tl_random_attr *a = n->attr;
    const tl_tensor *y = n->out[0];
    float z[PIECE];
    tl_rng stream;
    tl_draw_stream(&stream, &run->draws, a->key);
    for (int64_t start = 0, count; (count = piece_at(y, start)) > 0; start += count) {
        fill_normal(&stream, start, z, count, limit);
        for (int64_t i = 0; i < count; i++) tli_ref_set(y, start + i, a->a + a->b * z[i]);
    }
    return TL_OK;
}

static tl_status normal_kernel(const tl_run *run, const tl_node *n)
{
    return normal(run, n, INFINITY);
}

static tl_status truncated_normal_kernel(const tl_run *run, const tl_node *n)
{
    return normal(run, n, 2);
}

/* --- bernoulli, integers ---------------------------------------------------------------------- */

static tl_status bernoulli_kernel(const tl_run *run, const tl_node *n)
{
    const tl_random_attr *a = n->attr;
    const tl_tensor *y = n->out[0];
    uint64_t ones = (uint64_t)rint(a->a * 0x1p32); // of the 2^32 words
    uint32_t words[PIECE];
    tl_rng stream;
    tl_draw_stream(&stream, &run->draws, a->key);
    for (int64_t start = 0, count; (count = piece_at(y, start)) > 0; start += count) {
        tl_rng_fill_u32(&stream, start, words, count);
        for (int64_t i = 0; i < count; i++) tli_ref_set(y, start + i, words[i] < ones);
    }
    return TL_OK;
}

static uint64_t word_at(const tl_rng *stream, int64_t i)
{
    uint32_t halves[2];
    tl_rng_fill_u32(stream, 2 * i, halves, 2);
    return (uint64_t)halves[1] << 32 | halves[0];
}

// In [0, range), every value equally likely: the upper half of the product is the answer, and the
// few lower halves that would favour some answers are thrown back (Lemire).
static uint64_t below_at(const tl_rng *stream, int64_t i, uint64_t range)
{
    u128 product = (u128)word_at(stream, i) * range;
    uint64_t uneven = -range % range;
    for (uint64_t again = 0; (uint64_t)product < uneven; again++) {
        tl_rng child;
        tl_rng_fold(&child, stream, again);
        product = (u128)word_at(&child, i) * range;
    }
    return (uint64_t)(product >> 64);
}

static tl_status integers_kernel(const tl_run *run, const tl_node *n)
{
    const tl_random_integers_attr *a = n->attr;
    const tl_tensor *y = n->out[0];
    uint64_t range = (uint64_t)a->high - (uint64_t)a->low;
    tl_rng stream;
    tl_draw_stream(&stream, &run->draws, a->key);
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++)
        tli_ref_set_int(y, i, (int64_t)((uint64_t)a->low + below_at(&stream, i, range)));
    return TL_OK;
}

static tl_status permutation_kernel(const tl_run *run, const tl_node *n)
{
    const tl_permutation_attr *a = n->attr;
    tl_rng stream;
    tl_draw_stream(&stream, &run->draws, a->key);
    tl_rng_permutation(&stream, tli_data(n->out[0]), a->count);
    return TL_OK;
}

#define ROW(name) TL_INIT(TL_OP_random_##name, TL_DTYPE_COUNT, name##_kernel, TL_KERNEL_STRIDED)
static const tl_kernel rows[] = {
    ROW(uniform),   ROW(normal),   ROW(truncated_normal),
    ROW(bernoulli), ROW(integers), ROW(permutation),
};
const tl_kernels tli_ref_random = {rows, TL_COUNT(rows)};
