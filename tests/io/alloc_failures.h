/* Out of memory at every place where a function allocates. */
#ifndef TILTH_TESTS_IO_ALLOC_FAILURES_H
#define TILTH_TESTS_IO_ALLOC_FAILURES_H

#include "test.h"

#include <tilth/base/alloc.h>

/* The function succeeds, or says that memory lacks; there are more places than `least`. */
static inline void assert_survives_failures(tl_status (*run)(void), int64_t least)
{
    int64_t failures = 0;
    for (int64_t nth = 1;; nth += test_failure_step(nth)) {
        int64_t calls = tl_alloc_calls();
        tl_alloc_fail_at(nth, 1);
        tl_status st = run();
        tl_alloc_fail_at(0, 0);
        if (st != TL_OK) {
            assert_int_equal(st, TL_ENOMEM);
            failures++;
        }
        if (tl_alloc_calls() - calls < nth) break;
    }
    assert_true(failures > least);
}

#endif
