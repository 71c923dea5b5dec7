/* The smaller, the larger, and divisions that round up. */
#include "test.h"

#include <tilth/base/integer.h>

static void test_least_and_most(void **state)
{
    (void)state;
    assert_true(tl_min_i64(INT64_MIN, 3) == INT64_MIN && tl_max_i64(INT64_MIN, 3) == 3);
    assert_true(tl_min_size(0, SIZE_MAX) == 0);
    assert_true(tl_clamp_i64(-4, 0, 9) == 0 && tl_clamp_i64(14, 0, 9) == 9);
    assert_true(tl_clamp_i64(4, 0, 9) == 4 && tl_clamp_i64(4, 7, 5) == 7);
}

static void test_divisions_round_up(void **state)
{
    (void)state;
    for (int64_t unit = 1; unit < 9; unit++)
        for (int64_t x = -20; x < 20; x++) {
            int64_t up = tl_div_up(x, unit);
            assert_true(up * unit >= x && (up - 1) * unit < x);
            assert_int_equal(tl_round_up(x, unit), up * unit);
            if (x >= 0) assert_int_equal(tl_round_up_size((size_t)x, (size_t)unit), up * unit);
        }
    assert_true(tl_div_up(INT64_MAX, 2) == INT64_MAX / 2 + 1); // nothing overflows on the way
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least_and_most),
        cmocka_unit_test(test_divisions_round_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
