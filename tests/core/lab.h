/* What tests of the core share: a reference engine that has all its memory back at the end. */
#ifndef TILTH_TESTS_CORE_LAB_H
#define TILTH_TESTS_CORE_LAB_H

#include "test.h"

#include <tilth/base/alloc.h>
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

/* `everything` with each of its allocations failing in turn: it fails for want of memory or does
 * without, and keeps nothing. More than `least` of them must be such that it fails. */
static inline void fail_each_allocation(tl_status (*everything)(void *), void *fixture,
                                        const tl_engine *e, int64_t least)
{
    int64_t failures = 0;
    for (int64_t nth = 1;; nth++) {
        int64_t calls = tl_alloc_calls();
        tl_alloc_fail_at(nth, 1);
        tl_status st = everything(fixture);
        tl_alloc_fail_at(0, 0);
        assert_int_equal(memory_used(e), 0);
        if (st == TL_OK && tl_alloc_calls() - calls < nth) break;
        if (st == TL_OK) continue; // what is only nice to have, or was had by giving memory back
        assert_int_equal(st, TL_ENOMEM);
        failures++;
    }
    assert_true(failures > least);
}

#define LAB_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
