/* An arena around each test: cmocka_unit_test_setup_teardown(test_x, begin, end). */
#ifndef TILTH_TESTS_DESC_ARENA_H
#define TILTH_TESTS_DESC_ARENA_H

#include "test.h"

#include <tilth/base/arena.h>

static tl_arena *arena;

static int begin(void **state)
{
    (void)state;
    return tl_arena_new(&arena) != TL_OK;
}

static int end(void **state)
{
    (void)state;
    tl_arena_free(&arena);
    return 0;
}

#endif
