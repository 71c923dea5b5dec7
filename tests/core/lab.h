/* What tests of the core share: a reference engine that has all its memory back at the end. */
#ifndef TILTH_TESTS_CORE_LAB_H
#define TILTH_TESTS_CORE_LAB_H

#include "test.h"

#include <tilth/sys/cpu/cpu.h>

#include "engine.h"

static inline tl_engine *open_engine(void)
{
    tl_engine *e;
    assert_ok(test_engine_new(&e, &tl_backend_reference, 1));
    return e;
}

static inline int64_t memory_used(const tl_engine *e)
{
    tl_memory_stats stats;
    tl_engine_memory(e, &stats);
    return stats.used;
}

static inline void close_engine(tl_engine **e)
{
    assert_int_equal(memory_used(*e), 0);
    tl_engine_free(e);
}

/* A tensor with these elements, or with whatever it has when `values` is NULL. */
static inline tl_tensor *tensor_of(tl_engine *e, tl_dtype dtype, tl_shape shape,
                                   const double *values)
{
    tl_tensor *t;
    assert_ok(tl_tensor_new(&t, e, dtype, shape));
    if (values) assert_ok(tl_tensor_set_doubles(t, values, tl_tensor_count(t)));
    return t;
}

#define LAB_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
