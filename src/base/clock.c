#include <tilth/base/clock.h>

#include <errno.h>
#include <time.h>

enum { NS_PER_S = 1000000000 };

int64_t tl_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

double tl_clock_wall(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void tl_sleep_ns(int64_t ns)
{
    if (ns <= 0) return;
    int64_t now = tl_clock_ns();
    // Until a point in time, so that the interruptions of many signals do not add up.
    int64_t until = ns > INT64_MAX - now ? INT64_MAX : now + ns;
    struct timespec t = {.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) continue;
}
