#include "test.h"

#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include <tilth/base/clock.h>

static void test_monotonic(void **state)
{
    (void)state;
    int64_t last = tl_clock_ns(), first = last;
    for (int i = 0; i < 100000; i++) {
        int64_t now = tl_clock_ns();
        assert_true(now >= last);
        last = now;
    }
    assert_true(last > first);
}

static void test_wall(void **state)
{
    (void)state;
    // time() reads a coarser clock, which may lag behind by a tick.
    double before = (double)time(NULL), now = tl_clock_wall(), after = (double)time(NULL) + 2;
    assert_true(now >= before - 1 && now <= after); // time() may lag by a tick
    assert_true(now > 1.7e9);
}

static void test_sleep(void **state)
{
    (void)state;
    static const int64_t waits[] = {1, 1000, 2000000, 30000000};
    for (int64_t i = 0; i < TL_COUNT(waits); i++) {
        int64_t start = tl_clock_ns();
        tl_sleep_ns(waits[i]);
        assert_true(tl_clock_ns() - start >= waits[i]);
    }
    int64_t start = tl_clock_ns();
    for (int i = 0; i < 100; i++) {
        tl_sleep_ns(0);
        tl_sleep_ns(-1000000000);
        tl_sleep_ns(INT64_MIN);
    }
    assert_true(tl_clock_ns() - start < INT64_C(50000000000)); // 100 s, were they waited for
}

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

static void test_sleep_through_signals(void **state)
{
    (void)state;
    struct sigaction old, action = {.sa_handler = count_signal};
    sigaction(SIGALRM, &action, &old);
    const struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    int64_t start = tl_clock_ns();
    tl_sleep_ns(40000000);
    int64_t slept = tl_clock_ns() - start;
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &old, NULL);
    assert_true(signals > 0);
    assert_true(slept >= 40000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_monotonic),
        cmocka_unit_test(test_wall),
        cmocka_unit_test(test_sleep),
        cmocka_unit_test(test_sleep_through_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
