/* A number as reference kernels compute with it: floats in double, integers in int64 that wraps.
 *
 * Thread word: free-threaded. */
#ifndef TLI_CPU_REF_NUMBER_H
#define TLI_CPU_REF_NUMBER_H

#include <math.h>

#include "cpu/ref/ref.h"

/* Which member is meant follows from the type of the tensor. */
typedef union tli_number {
    double f;
    int64_t i;
} tli_number;

static inline tli_number tli_number_of(const tl_tensor *t, int64_t value)
{
    return tl_dtype_is_float(t->dtype) ? (tli_number){.f = (double)value}
                                       : (tli_number){.i = value};
}

static inline tli_number tli_number_get(const tl_tensor *t, int64_t at)
{
    return tl_dtype_is_float(t->dtype) ? (tli_number){.f = tli_ref_get(t, at)}
                                       : (tli_number){.i = tli_ref_get_int(t, at)};
}

static inline void tli_number_set(const tl_tensor *t, int64_t at, tli_number value)
{
    if (tl_dtype_is_float(t->dtype)) tli_ref_set(t, at, value.f);
    else tli_ref_set_int(t, at, value.i);
}

static inline tli_number tli_number_add(const tl_tensor *t, tli_number a, tli_number b)
{
    return tl_dtype_is_float(t->dtype)
               ? (tli_number){.f = a.f + b.f}
               : (tli_number){.i = (int64_t)((uint64_t)a.i + (uint64_t)b.i)};
}

static inline tli_number tli_number_mul(const tl_tensor *t, tli_number a, tli_number b)
{
    return tl_dtype_is_float(t->dtype)
               ? (tli_number){.f = a.f * b.f}
               : (tli_number){.i = (int64_t)((uint64_t)a.i * (uint64_t)b.i)};
}

/* Whether a stands before b when the largest (or smallest) is looked for; NaN stands before all
 * else. */
static inline bool tli_number_beats(const tl_tensor *t, tli_number a, tli_number b, bool largest)
{
    if (!tl_dtype_is_float(t->dtype)) return largest ? a.i > b.i : a.i < b.i;
    if (isnan(a.f) || isnan(b.f)) return isnan(a.f) && !isnan(b.f);
    return largest ? a.f > b.f : a.f < b.f;
}

/* Steps through a shape in row-major order; `at` is where that is in elements with these strides.
 * */
typedef struct tli_cursor {
    tl_shape shape;
    int64_t strides[TL_MAX_RANK], index[TL_MAX_RANK], at;
} tli_cursor;

static inline void tli_cursor_next(tli_cursor *c)
{
    for (int d = c->shape.rank - 1; d >= 0; d--) {
        c->at += c->strides[d];
        if (++c->index[d] < c->shape.dims[d]) return;
        c->at -= c->strides[d] * c->index[d];
        c->index[d] = 0;
    }
}

/* The axes of a tensor that are, or are not, among `axes`. */
static inline tli_cursor tli_cursor_over(const tl_tensor *t, tl_ints axes, bool among)
{
    tli_cursor c = {0};
    bool named[TL_MAX_RANK] = {false};
    TL_ASSERT(axes.count <= t->shape.rank);
    for (int64_t i = 0; i < axes.count; i++) named[axes.items[i]] = true;
    for (int i = 0; i < t->shape.rank; i++) {
        if (named[i] != among) continue;
        c.strides[c.shape.rank] = t->strides[i];
        c.shape.dims[c.shape.rank++] = t->shape.dims[i];
    }
    return c;
}

#endif
