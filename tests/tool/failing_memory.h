/* A command while one of its allocations fails, each in its turn. */
#ifndef TILTH_TESTS_TOOL_FAILING_MEMORY_H
#define TILTH_TESTS_TOOL_FAILING_MEMORY_H

#include "tool/tool_run.h"

#include <tilth/base/alloc.h>

/* It says so and ends with 1, or does without; nothing is half written. */
static inline void every_allocation_may_fail(const char *const *words)
{
    int64_t before = tl_alloc_calls();
    run_list(words);
    went_well();
    int64_t calls = tl_alloc_calls() - before, lost = 0;
    char *whole = strdup(out);
    // In steps, for there are thousands; the last ones always.
    const int64_t most = test_takes_unseen() ? 400 : 100;
    for (int64_t i = 1; i <= calls; i += calls < most ? 1 : calls / most) {
        tl_alloc_fail_at(i, 1);
        run_list(words);
        tl_alloc_fail_at(0, 0);
        // Some memory serves messages alone; without it the output must still be whole.
        if (code == 0) assert_string_equal(out, whole);
        else failed(1, "memory");
        lost += code == 1;
    }
    assert_true(lost > 0);
    free(whole);
    tool_forget();
}
#define every_allocation_of(...) every_allocation_may_fail((const char *const[]){__VA_ARGS__, NULL})

#endif
