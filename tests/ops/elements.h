/* Copies of a tensor's elements, which tl_free frees; tensors of numbers that every type holds. */
#ifndef TILTH_TESTS_OPS_ELEMENTS_H
#define TILTH_TESTS_OPS_ELEMENTS_H

#include "test.h"

#include <math.h>

#include <tilth/base/alloc.h>
#include <tilth/base/rng.h>
#include <tilth/core/tensor.h>
#include <tilth/ops/create.h>

static inline void *elements_of(const tl_tensor *t)
{
    void *bytes = tl_alloc(tl_tensor_bytes(t));
    assert_non_null(bytes);
    assert_ok(tl_tensor_get(t, bytes, tl_tensor_bytes(t)));
    return bytes;
}

static inline double *doubles_of(const tl_tensor *t)
{
    double *values = tl_alloc((size_t)tl_tensor_count(t) * sizeof *values);
    assert_non_null(values);
    assert_ok(tl_tensor_get_doubles(t, values, tl_tensor_count(t)));
    return values;
}

/* Multiples of 1/256 between -0.5 and 0.5, which every type holds. */
static inline tl_tensor *fine_numbers(tl_ctx *c, tl_dtype dtype, tl_shape shape, uint64_t seed)
{
    int64_t count = tl_shape_count(&shape);
    double *values = tl_alloc((size_t)count * sizeof *values);
    tl_rng rng;
    assert_non_null(values);
    tl_rng_init(&rng, seed);
    for (int64_t i = 0; i < count; i++)
        values[i] = floor(tl_rng_uniform_f64(&rng) * 257) / 256 - 0.5;
    tl_tensor *t = tl_from_doubles(c, dtype, shape, values);
    tl_free(values);
    return t;
}

#endif
