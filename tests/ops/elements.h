/* Copies of a tensor's elements, which tl_free frees. */
#ifndef TILTH_TESTS_OPS_ELEMENTS_H
#define TILTH_TESTS_OPS_ELEMENTS_H

#include "test.h"

#include <tilth/base/alloc.h>
#include <tilth/core/tensor.h>

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

#endif
