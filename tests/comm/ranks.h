/* Ranks for tests: some processes, or threads, that run one function, with a deadline.
 *
 *     static int exchange(const tl_comm_args *args, void *payload) { ... return 0; }
 *     assert_int_equal(ranks_fork(4, exchange, NULL), 0);
 *     assert_int_equal(ranks_threads(4, exchange, NULL), 0);
 *
 * A function that fails prints why and returns a number other than 0: RANK_CHECK does both. */
#ifndef TILTH_TESTS_COMM_RANKS_H
#define TILTH_TESTS_COMM_RANKS_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tilth/base/clock.h>
#include <tilth/comm/shm.h>

/* What hangs is ended, far beyond what a test takes. */
enum { RANKS_DEADLINE_S = 60 };

typedef int ranks_fn(const tl_comm_args *args, void *payload);

#define RANK_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: rank %d of %d: %s (last error: %s)\n", __FILE__, __LINE__,     \
                    (int)args->rank, (int)args->size, #condition, tl_error_message());             \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

/* Waits for the children; how many of them failed. Their statuses where they are wanted. */
static inline int ranks_reap(const pid_t *pids, int count, int *statuses)
{
    int failed = 0;
    int64_t end = tl_clock_ns() + RANKS_DEADLINE_S * INT64_C(1000000000);
    for (int r = 0; r < count; r++) {
        int status = 0;
        pid_t got;
        while ((got = waitpid(pids[r], &status, WNOHANG)) == 0 || (got < 0 && errno == EINTR)) {
            if (tl_clock_ns() > end) {
                fprintf(stderr, "rank %d of %d hangs\n", r, count);
                kill(pids[r], SIGKILL);
            }
            tl_sleep_ns(1000000);
        }
        if (statuses) statuses[r] = status;
        if (!WIFEXITED(status) || WEXITSTATUS(status)) failed++;
    }
    return failed;
}

/* Starts the ranks as processes. */
static inline int ranks_start(pid_t *pids, int count, int *files, ranks_fn *fn, void *payload)
{
    if (tl_comm_files_new(files, count) != TL_OK) return -1;
    fflush(NULL);
    for (int r = 0; r < count; r++) {
        pids[r] = fork();
        if (pids[r] < 0) return -1;
        if (pids[r] > 0) continue;
        int result = fn(&(tl_comm_args){.rank = r, .size = count, .files = files}, payload);
        fflush(NULL);
        _exit(result);
    }
    return 0;
}

/* How many failed. */
static inline int ranks_fork(int count, ranks_fn *fn, void *payload)
{
    int files[1 + TL_COMM_SHM_RANKS];
    pid_t pids[TL_COMM_SHM_RANKS];
    if (ranks_start(pids, count, files, fn, payload) != 0) return -1;
    tl_comm_files_close(files, count);
    return ranks_reap(pids, count, NULL);
}

typedef struct ranks_thread {
    pthread_t thread;
    tl_comm_args args;
    ranks_fn *fn;
    void *payload;
    int result;
} ranks_thread;

static inline void *ranks_thread_run(void *payload)
{
    ranks_thread *t = payload;
    t->result = t->fn(&t->args, t->payload);
    return NULL;
}

static inline int ranks_threads(int count, ranks_fn *fn, void *payload)
{
    ranks_thread t[TL_COMM_SHM_RANKS];
    tl_comm_place *place;
    int failed = 0;
    if (tl_comm_place_new(&place, count) != TL_OK) return -1;
    for (int r = 0; r < count; r++) {
        t[r] = (ranks_thread){
            .args = {.rank = r, .size = count, .place = place}, .fn = fn, .payload = payload};
        if (pthread_create(&t[r].thread, NULL, ranks_thread_run, &t[r])) return -1;
    }
    for (int r = 0; r < count; r++) {
        pthread_join(t[r].thread, NULL);
        failed += t[r].result != 0;
    }
    tl_comm_place_free(&place);
    return failed;
}

#endif
