/* needs: threads */
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/pool.h>

#include "base/pool_impl.h"

#if defined(__SANITIZE_THREAD__)
#define SLOW 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SLOW 1
#endif
#endif
#ifndef SLOW
#define SLOW 0
#endif

static const int sizes[] = {1, 2, 3, 7, 16};

static tl_pool *new_pool(int threads)
{
    tl_pool *pool = NULL;
    assert_ok(tl_pool_new(&pool, threads));
    assert_int_equal(tl_pool_threads(pool), threads);
    return pool;
}

static int thread_count(void)
{
    int count = 0;
    char text[64];
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    while (fgets(text, sizeof text, f))
        if (sscanf(text, "Threads: %d", &count) == 1) break;
    fclose(f);
    return count;
}

/* Threads that have ended take a moment to disappear. */
static void assert_threads_gone(int before)
{
    for (int tries = 0; thread_count() > before; tries++) {
        if (tries == 1000) fail_msg("%d threads are left where %d were", thread_count(), before);
        tl_sleep_ns(1000000);
    }
}

/* --- what a loop does ------------------------------------------------------------------------- */

enum { LONGEST = 5000 };

typedef struct record {
    int64_t grain;
    _Atomic int calls;
    int64_t begins[LONGEST], ends[LONGEST]; /* by chunk */
    _Atomic int times[LONGEST];
    int64_t
        values[LONGEST]; /* by element, written without atomics: the loop's end publishes them */
} record;

static tl_status record_chunk(int64_t begin, int64_t end, void *payload)
{
    record *r = payload;
    int64_t chunk = begin / r->grain;
    r->begins[chunk] = begin;
    r->ends[chunk] = end;
    r->calls++;
    r->times[chunk]++;
    for (int64_t i = begin; i < end; i++) r->values[i] += i + 1;
    return TL_OK;
}

/* The calls are the same set for every number of threads, and cover each element once. */
static void test_same_cut_for_any_threads(void **state)
{
    (void)state;
    static const int64_t cases[][2] = {{1, 1},   {2, 1},    {7, 3},     {8, 4},         {9, 4},
                                       {100, 7}, {1000, 1}, {1000, 64}, {LONGEST, 999}, {50, 1000}};
    record *r = malloc(sizeof *r);
    for (int64_t s = -1; s < TL_COUNT(sizes); s++) {
        tl_pool *pool = s < 0 ? NULL : new_pool(sizes[s]);
        for (int64_t c = 0; c < TL_COUNT(cases); c++) {
            int64_t n = cases[c][0], grain = cases[c][1], chunks = (n + grain - 1) / grain;
            memset(r, 0, sizeof *r);
            r->grain = grain;
            assert_ok(tl_parallel_for(pool, n, grain, record_chunk, r));
            assert_int_equal(r->calls, chunks);
            for (int64_t i = 0; i < chunks; i++) {
                assert_int_equal(r->times[i], 1);
                assert_int_equal(r->begins[i], i * grain);
                assert_int_equal(r->ends[i], i == chunks - 1 ? n : (i + 1) * grain);
            }
            for (int64_t i = 0; i < n; i++) assert_int_equal(r->values[i], i + 1);
        }
        tl_pool_free(&pool);
        assert_null(pool);
    }
    free(r);
}

static void test_edges_of_ranges(void **state)
{
    (void)state;
    record *r = calloc(1, sizeof *r);
    r->grain = 1;
    tl_pool *pool = new_pool(3);
    assert_ok(tl_parallel_for(pool, 0, 10, record_chunk, r));
    assert_ok(tl_parallel_for(pool, -5, 10, record_chunk, r));
    assert_int_equal(r->calls, 0);
    assert_ok(tl_parallel_for(pool, 20, 0, record_chunk, r));
    assert_ok(tl_parallel_for(pool, 20, -3, record_chunk, r));
    assert_int_equal(r->calls, 40);
    tl_pool_free(&pool);
    tl_pool_free(&pool);
    assert_int_equal(tl_pool_threads(NULL), 1);
    free(r);
}

typedef struct span {
    _Atomic int64_t length, calls;
} span;

static tl_status add_span(int64_t begin, int64_t end, void *payload)
{
    span *s = payload;
    s->length += end - begin;
    s->calls += begin < end;
    return TL_OK;
}

static void test_huge_ranges(void **state)
{
    (void)state;
    tl_pool *pool = new_pool(4);
    static const int64_t grains[] = {INT64_MAX, INT64_MAX - 1, INT64_MAX / 2, INT64_MAX / 4 + 1,
                                     INT64_MAX / 1000};
    static const int64_t calls[] = {1, 2, 3, 4, 1001};
    for (int64_t i = 0; i < TL_COUNT(grains); i++) {
        span s = {0};
        assert_ok(tl_parallel_for(pool, INT64_MAX, grains[i], add_span, &s));
        assert_true(s.length == INT64_MAX);
        assert_int_equal(s.calls, calls[i]);
    }
    tl_pool_free(&pool);
}

/* Chunks that wait for each other prove that all threads take part, watching or woken from sleep.
 */
typedef struct meeting {
    _Atomic int present;
    int expected;
    _Atomic bool timed_out;
} meeting;

static tl_status meet(int64_t begin, int64_t end, void *payload)
{
    (void)begin;
    (void)end;
    meeting *m = payload;
    m->present++;
    for (int64_t until = tl_clock_ns() + INT64_C(20000000000); m->present < m->expected;) {
        if (tl_clock_ns() > until) m->timed_out = true;
        if (m->timed_out) break;
        sched_yield();
    }
    return TL_OK;
}

static void test_all_threads_take_part(void **state)
{
    (void)state;
    for (int64_t s = 0; s < TL_COUNT(sizes); s++) {
        tl_pool *pool = new_pool(sizes[s]);
        for (int round = 0; round < 20; round++) {
            if (round % 4 == 0) tl_sleep_ns(2000000);
            meeting m = {.expected = sizes[s]};
            assert_ok(tl_parallel_for(pool, sizes[s], 1, meet, &m));
            assert_false(m.timed_out);
            assert_int_equal(m.present, sizes[s]);
        }
        tl_pool_free(&pool);
    }
}

/* The caller has long finished its chunk when the other one ends, and sleeps until then. */
typedef struct uneven {
    pthread_t caller;
    _Atomic bool worker_came;
    bool worker_done;
} uneven;

static tl_status one_is_slow(int64_t begin, int64_t end, void *payload)
{
    (void)begin;
    (void)end;
    uneven *u = payload;
    if (pthread_equal(pthread_self(), u->caller)) {
        int64_t until = tl_clock_ns() + INT64_C(20000000000);
        while (!u->worker_came && tl_clock_ns() < until) sched_yield();
    } else {
        u->worker_came = true;
        tl_sleep_ns(30000000);
        u->worker_done = true;
    }
    return TL_OK;
}

static void test_caller_waits(void **state)
{
    (void)state;
    tl_pool *pool = new_pool(2);
    for (int i = 0; i < 3; i++) {
        uneven u = {.caller = pthread_self()};
        assert_ok(tl_parallel_for(pool, 2, 1, one_is_slow, &u));
        assert_true(u.worker_came && u.worker_done);
    }
    tl_pool_free(&pool);
}

static void test_many_small_loops(void **state)
{
    (void)state;
    static const int threads[] = {2, 5};
    for (int64_t s = 0; s < TL_COUNT(threads); s++) {
        tl_pool *pool = new_pool(threads[s]);
        record *r = calloc(1, sizeof *r);
        r->grain = 1;
        enum { LOOPS = SLOW ? 2000 : 20000 };
        int64_t allocations = tl_alloc_calls();
        for (int i = 0; i < LOOPS; i++)
            assert_ok(tl_parallel_for(pool, threads[s], 1, record_chunk, r));
        assert_int_equal(tl_alloc_calls(), allocations);
        // Pauses around the time that workers watch, so that some are just falling asleep.
        for (int i = 0; i < 1000; i++) {
            for (int64_t until = tl_clock_ns() + i % 100 * 1000; tl_clock_ns() < until;) continue;
            assert_ok(tl_parallel_for(pool, threads[s], 1, record_chunk, r));
        }
        for (int i = 0; i < threads[s]; i++)
            assert_int_equal(r->values[i], (LOOPS + 1000) * (i + 1));
        free(r);
        tl_pool_free(&pool);
    }
}

/* --- errors ----------------------------------------------------------------------------------- */

typedef struct failing {
    int64_t lowest, step; /* chunks lowest, lowest + step, ... fail */
    _Atomic int ran[1000];
} failing;

static tl_status fail_some(int64_t begin, int64_t end, void *payload)
{
    (void)end;
    failing *f = payload;
    f->ran[begin]++;
    if (begin < f->lowest || (begin - f->lowest) % f->step) return TL_OK;
    if (begin % 3 == 0) sched_yield(); // a lower one often comes later than a higher one
    return TL_FAIL(begin % 2 ? TL_ENOTFOUND : TL_EINVAL, "element %d is bad", (int)begin);
}

static void test_lowest_error_wins(void **state)
{
    (void)state;
    static const int64_t cases[][2] = {{0, 1},    {1, 1},   {500, 1}, {999, 1},
                                       {37, 100}, {3, 996}, {990, 3}};
    for (int64_t s = -1; s < TL_COUNT(sizes); s++) {
        tl_pool *pool = s < 0 ? NULL : new_pool(sizes[s]);
        for (int round = 0; round < (SLOW ? 5 : 50); round++)
            for (int64_t c = 0; c < TL_COUNT(cases); c++) {
                failing f = {.lowest = cases[c][0], .step = cases[c][1]};
                char expected[64];
                snprintf(expected, sizeof expected, "element %d is bad", (int)f.lowest);
                assert_fails(tl_parallel_for(pool, 1000, 1, fail_some, &f),
                             f.lowest % 2 ? TL_ENOTFOUND : TL_EINVAL, expected);
                assert_string_equal(tl_error_message(), expected);
                assert_true(strncmp(tl_error_where(), "test_pool.c:", 12) == 0);
                for (int64_t i = 0; i <= f.lowest; i++) assert_int_equal(f.ran[i], 1);
                for (int64_t i = f.lowest; i < 1000; i++) assert_true(f.ran[i] <= 1);
            }
        // And the pool is as good as before.
        record *r = calloc(1, sizeof *r);
        r->grain = 1;
        assert_ok(tl_parallel_for(pool, 100, 1, record_chunk, r));
        assert_int_equal(r->calls, 100);
        free(r);
        tl_pool_free(&pool);
    }
}

static tl_status fail_silently(int64_t begin, int64_t end, void *payload)
{
    (void)end;
    (void)payload;
    return begin >= 10 ? TL_EIO : TL_OK;
}

static void test_error_without_message(void **state)
{
    (void)state;
    for (int64_t s = -1; s < TL_COUNT(sizes); s++) {
        tl_pool *pool = s < 0 ? NULL : new_pool(sizes[s]);
        (void)TL_FAIL(TL_EINVAL, "an old failure");
        assert_int_equal(tl_parallel_for(pool, 100, 5, fail_silently, NULL), TL_EIO);
        assert_string_equal(tl_error_message(),
                            "elements 10 to 14 of a parallel loop failed without a message");
        assert_int_equal(tl_error_code(), TL_EIO);
        tl_pool_free(&pool);
    }
}

/* --- loops inside and beside loops ------------------------------------------------------------ */

typedef struct nest {
    tl_pool *pool, *other;
    _Atomic int64_t sum, strays, disorder;
} nest;

typedef struct inner {
    nest *outer;
    pthread_t thread;
    int64_t last;
} inner;

static tl_status inner_chunk(int64_t begin, int64_t end, void *payload)
{
    inner *in = payload;
    if (begin == 0) tl_sleep_ns(300000); // time for another thread to come, if one could
    in->outer->strays += !pthread_equal(in->thread, pthread_self());
    in->outer->disorder += begin != in->last;
    in->last = end;
    in->outer->sum += end - begin;
    return TL_OK;
}

static tl_status outer_chunk(int64_t begin, int64_t end, void *payload)
{
    nest *o = payload;
    for (int64_t i = begin; i < end; i++) {
        inner in = {o, pthread_self(), 0};
        TL_TRY(tl_parallel_for(i % 2 ? o->pool : o->other, 100, 7, inner_chunk, &in));
    }
    return begin == 13 ? TL_FAIL(TL_ESTATE, "thirteen") : TL_OK;
}

static void test_nested_loops_run_inline(void **state)
{
    (void)state;
    for (int64_t s = 1; s < TL_COUNT(sizes); s++) { // from two threads on
        nest o = {.pool = new_pool(sizes[s]), .other = new_pool(2)};
        assert_ok(tl_parallel_for(o.pool, 10, 1, outer_chunk, &o));
        assert_int_equal(o.sum, 1000);
        assert_int_equal(o.strays + o.disorder, 0);
        assert_fails(tl_parallel_for(o.pool, 14, 1, outer_chunk, &o), TL_ESTATE, "thirteen");
        tl_pool_free(&o.pool);
        tl_pool_free(&o.other);
    }
}

typedef struct rival {
    tl_pool *pool;
    int64_t wrong;
    int number;
} rival;

static void *rival_main(void *payload)
{
    rival *r = payload;
    for (int i = 0; i < (SLOW ? 200 : 2000); i++) {
        span s = {0};
        if (tl_parallel_for(r->pool, 64, 4, add_span, &s) != TL_OK || s.length != 64
            || s.calls != 16)
            r->wrong++;
        failing f = {.lowest = r->number, .step = 1};
        char expected[64];
        snprintf(expected, sizeof expected, "element %d is bad", r->number);
        if (tl_parallel_for(r->pool, 20, 1, fail_some, &f) == TL_OK
            || strcmp(tl_error_message(), expected) != 0)
            r->wrong++;
    }
    return NULL;
}

static void test_callers_share_a_pool(void **state)
{
    (void)state;
    enum { RIVALS = 4 };
    tl_pool *pool = new_pool(3);
    pthread_t threads[RIVALS];
    rival rivals[RIVALS];
    for (int i = 0; i < RIVALS; i++) {
        rivals[i] = (rival){.pool = pool, .number = i + 3};
        assert_int_equal(pthread_create(&threads[i], NULL, rival_main, &rivals[i]), 0);
    }
    for (int i = 0; i < RIVALS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(rivals[i].wrong, 0);
    }
    tl_pool_free(&pool);
}

/* --- beginning and end ------------------------------------------------------------------------ */

static void test_many_pools(void **state)
{
    (void)state;
    int before = thread_count();
    enum { POOLS = 12 };
    tl_pool *pools[POOLS];
    for (int i = 0; i < POOLS; i++) pools[i] = new_pool(1 + i % 4);
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < POOLS; i++) {
            span s = {0};
            assert_ok(tl_parallel_for(pools[i], 100, 3, add_span, &s));
            assert_int_equal(s.length, 100);
        }
    for (int i = 0; i < POOLS; i++) tl_pool_free(&pools[i]);
    assert_threads_gone(before);
}

/* Freed at once, while workers watch, while they fall asleep, and while they sleep. */
static void test_free_at_any_moment(void **state)
{
    (void)state;
    int before = thread_count();
    for (int i = 0; i < (SLOW ? 40 : 400); i++) {
        tl_pool *pool = new_pool(2 + i % 3);
        span s = {0};
        if (i % 4) assert_ok(tl_parallel_for(pool, 8, 1, add_span, &s));
        if (i % 4 == 2)
            for (int64_t until = tl_clock_ns() + i * 300; tl_clock_ns() < until;) continue;
        if (i % 4 == 3) tl_sleep_ns(500000);
        tl_pool_free(&pool);
        assert_null(pool);
    }
    assert_threads_gone(before);
}

static void test_creation_fails(void **state)
{
    (void)state;
    int before = thread_count();
    tl_pool *pool = (tl_pool *)&before;
    assert_fails(tl_pool_new(&pool, -1), TL_EINVAL, "-1 threads");
    assert_null(pool);
    assert_fails(tl_pool_new(&pool, TL_POOL_MAX_THREADS + 1), TL_EINVAL, "1 to 1024");
    tl_alloc_fail_at(1, 1);
    assert_fails(tl_pool_new(&pool, 4), TL_ENOMEM, "out of memory");
    assert_null(pool);
    tl_alloc_fail_at(0, 0);
    for (int nth = 1; nth <= 7; nth++) {
        tli_pool_fail_thread(nth);
        char expected[64];
        snprintf(expected, sizeof expected, "thread %d of a pool of 8 could not be started",
                 nth + 1);
        assert_fails(tl_pool_new(&pool, 8), TL_ELIMIT, expected);
        assert_null(pool);
    }
    assert_threads_gone(before);
    tli_pool_fail_thread(8); // there are seven to start
    pool = new_pool(8);
    tli_pool_fail_thread(0);
    tl_pool_free(&pool);
}

static tl_status check_signals(int64_t begin, int64_t end, void *payload)
{
    meeting *m = ((void **)payload)[0];
    pthread_t *caller = ((void **)payload)[1];
    TL_TRY(meet(begin, end, m));
    if (pthread_equal(*caller, pthread_self())) return TL_OK;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    if (!sigismember(&mask, SIGTERM) || !sigismember(&mask, SIGUSR1))
        return TL_FAIL(TL_ESTATE, "a worker takes signals");
    return TL_OK;
}

static void test_workers_block_signals(void **state)
{
    (void)state;
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    tl_pool *pool = new_pool(3);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
    meeting m = {.expected = 3};
    pthread_t caller = pthread_self();
    void *payload[] = {&m, &caller};
    assert_ok(tl_parallel_for(pool, 3, 1, check_signals, payload));
    tl_pool_free(&pool);
}

static void test_fork(void **state)
{
    (void)state;
    tl_pool *pool = new_pool(4);
    span s = {0};
    assert_ok(tl_parallel_for(pool, 100, 1, add_span, &s));
    for (int round = 0; round < 2; round++) { // with workers that watch, and with sleeping ones
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            span t = {0};
            int wrong = tl_parallel_for(pool, 100, 1, add_span, &t) != TL_OK || t.length != 100;
            tl_pool_free(&pool);
            _exit(wrong);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        tl_sleep_ns(2000000);
    }
    assert_ok(tl_parallel_for(pool, 100, 1, add_span, &s));
    assert_int_equal(s.length, 200);
    tl_pool_free(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_cut_for_any_threads),
        cmocka_unit_test(test_edges_of_ranges),
        cmocka_unit_test(test_huge_ranges),
        cmocka_unit_test(test_all_threads_take_part),
        cmocka_unit_test(test_caller_waits),
        cmocka_unit_test(test_many_small_loops),
        cmocka_unit_test(test_lowest_error_wins),
        cmocka_unit_test(test_error_without_message),
        cmocka_unit_test(test_nested_loops_run_inline),
        cmocka_unit_test(test_callers_share_a_pool),
        cmocka_unit_test(test_many_pools),
        cmocka_unit_test(test_free_at_any_moment),
        cmocka_unit_test(test_creation_fails),
        cmocka_unit_test(test_workers_block_signals),
        cmocka_unit_test(test_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
