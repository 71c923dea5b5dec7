/* What a tensor holds: VALUES(t, 0, 2, 4). */
#ifndef TILTH_TESTS_CORE_VALUES_H
#define TILTH_TESTS_CORE_VALUES_H

#include "test.h"

#include <tilth/core/tensor.h>

static inline void assert_values(const tl_tensor *t, const double *wanted, int64_t count)
{
    double values[64];
    assert_non_null(t);
    assert_ok(tl_tensor_get_doubles(t, values, count));
    for (int64_t i = 0; i < count; i++) assert_near(values[i], wanted[i], 0);
}
#define VALUES(t, ...)                                                                             \
    assert_values((t), (const double[]){__VA_ARGS__}, TL_COUNT(((const double[]){__VA_ARGS__})))

#endif
