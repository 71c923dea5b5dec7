/* What tests that call ops by hand share: an engine of this machine, and a context, for each test.
 */
#ifndef TILTH_TESTS_OPS_LAB_H
#define TILTH_TESTS_OPS_LAB_H

#include "test.h"
#include "engine.h"

#include <tilth/sys/cpu/cpu.h>
#include <tilth/ops/create.h>

typedef struct fixture {
    tl_engine *engine;
    tl_ctx *c;
} fixture;

static inline int setup(void **state)
{
    static fixture f;
    assert_ok(test_engine_new(&f.engine, NULL, 2));
    assert_ok(tl_ctx_new(&f.c, f.engine));
    *state = &f;
    return 0;
}

static inline int teardown(void **state)
{
    fixture *f = *state;
    tl_ctx_free(&f->c);
    tl_engine_free(&f->engine);
    return 0;
}

#define LAB_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* 0, 1, 2, ...; 64 of them at most. */
static inline tl_tensor *counting(tl_ctx *c, tl_dtype dtype, tl_shape shape)
{
    double values[64];
    assert_true(tl_shape_count(&shape) <= 64);
    for (int i = 0; i < 64; i++) values[i] = i;
    return tl_from_doubles(c, dtype, shape, values);
}

#endif
