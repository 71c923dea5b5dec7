#include <tilth/base/pool.h>

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/integer.h>

#include "base/pool_impl.h"
#include "base/inner/thread.h"

/* How a loop passes. The caller writes down the job and opens the gate. Workers that see the gate
 * open enter through it, claim chunks until there are none, and leave. The caller claims chunks as
 * well, then closes the gate, so that nobody enters any more, and waits until those inside have
 * left. So a loop never waits for a worker that is still asleep, and the job may be overwritten
 * when it is over.
 *
 * Gate, job and claims share one cache line: all that must travel between two CPUs for a short
 * loop.
 *
 * The gate's bits: */
#define INSIDE UINT32_C(0x3ff)  /* how many workers are inside */
#define OPEN UINT32_C(0x400)    /* workers may enter */
#define AWAITED UINT32_C(0x800) /* the caller sleeps until nobody is inside */
#define QUIT UINT32_C(0x1000)   /* workers are to end */
#define LOOP UINT32_C(0x2000)   /* the loop's number starts here; it may wrap, see has_news */
_Static_assert(TL_POOL_MAX_THREADS - 1 <= INSIDE, "a gate must be able to count all workers");

enum { CACHE_LINE = 64 };

/* What the kernel is asked to tell sleepers at the gate apart by. */
enum { SLEEPER_WORKER = 1, SLEEPER_CALLER = 2 };

/* Nobody watches for longer than this before sleeping: long enough for the gaps between the loops
 * of a training step, short enough not to be seen in the power bill. Where threads outnumber CPUs,
 * a watcher is in the way of the one it waits for. */
enum { WATCH_NS = 50000, WATCH_CROWDED_NS = 1000 };

typedef struct job {
    tl_parallel_fn *fn;
    void *payload;
    int64_t n, grain, chunks;
} job;

struct tl_pool {
    _Alignas(CACHE_LINE) _Atomic uint32_t gate;
    job job;
    _Atomic int64_t next; /* the lowest chunk that nobody has claimed */

    _Alignas(CACHE_LINE) _Atomic int64_t failed; /* the lowest chunk that failed, or NONE_FAILED */
    _Atomic uint32_t sleepers;                   /* workers that sleep or are about to */
    int64_t watch_ns;
    int workers;
    pid_t owner; /* the process that has the threads */

    _Alignas(CACHE_LINE) atomic_bool busy; /* a caller owns the gate */
    pthread_mutex_t error_lock;
    tl_error error; /* of the chunk `failed` */
    pthread_t threads[];
};
_Static_assert(offsetof(tl_pool, next) + sizeof(int64_t) <= CACHE_LINE, "one line a loop");
#define NONE_FAILED INT64_MAX

/* Set while this thread works on a chunk that it shares with others. */
static _Thread_local bool inside_loop;

/* --- waiting ---------------------------------------------------------------------------------- */

static void relax(void)
{
#if defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); // holds the core for some cycles, which `yield` does not
#elif defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Sleeps while the gate has this value, or less long; whether gate_wake ended it. */
static bool gate_sleep(tl_pool *p, uint32_t value, int sleeper)
{
    return syscall(SYS_futex, &p->gate, FUTEX_WAIT_BITSET_PRIVATE, value, NULL, NULL, sleeper) == 0;
}

/* How many were woken. */
static uint32_t gate_wake(tl_pool *p, int count, int sleeper)
{
    long woken =
        syscall(SYS_futex, &p->gate, FUTEX_WAKE_BITSET_PRIVATE, count, NULL, NULL, sleeper);
    return woken > 0 ? (uint32_t)woken : 0;
}

typedef bool gate_test(uint32_t gate, uint32_t seen);

/* Watches the gate for a bounded time; the value that passed the test, or the last one seen. */
static inline uint32_t gate_watch(tl_pool *p, gate_test *passes, uint32_t seen)
{
    enum { LOOKS = 32 }; // between two looks at the clock, which costs more
    int64_t until = 0;
    for (;;) {
        uint32_t gate;
        for (int i = 0; i < LOOKS; i++) {
            gate = atomic_load_explicit(&p->gate, memory_order_acquire);
            if (passes(gate, seen)) return gate;
            relax();
        }
        int64_t now = tl_clock_ns();
        if (!until) until = now + p->watch_ns;
        if (now >= until) return gate;
    }
}

/* --- workers ---------------------------------------------------------------------------------- */

/* A loop that this worker has not seen yet, or the end. A worker that sleeps through exactly as
 * many loops as the number counts misses one more, which the others do without it. */
static bool has_news(uint32_t gate, uint32_t seen)
{
    return gate & QUIT || (gate & OPEN && gate / LOOP != seen);
}

static uint32_t await_loop(tl_pool *p, uint32_t seen)
{
    for (;;) {
        uint32_t gate = gate_watch(p, has_news, seen);
        if (has_news(gate, seen)) return gate;
        // Sequentially consistent on both sides: either this thread sees the gate that the caller
        // has opened, or the caller sees a sleeper and wakes it. The waker takes those it woke off
        // the count, so that loops before they are really there do not wake them again.
        atomic_fetch_add(&p->sleepers, 1);
        gate = atomic_load(&p->gate);
        if (has_news(gate, seen) || !gate_sleep(p, gate, SLEEPER_WORKER))
            atomic_fetch_sub_explicit(&p->sleepers, 1, memory_order_relaxed);
        // Back to watching: whoever comes too late for a loop is likely in time for the next one.
    }
}

/* Keeps the error of the lowest chunk that failed. */
static void keep_error(tl_pool *p, int64_t chunk)
{
    pthread_mutex_lock(&p->error_lock);
    if (chunk < atomic_load_explicit(&p->failed, memory_order_relaxed)) {
        tl_error_save(&p->error);
        atomic_store_explicit(&p->failed, chunk, memory_order_relaxed);
    }
    pthread_mutex_unlock(&p->error_lock);
}

static tl_status run_chunk(const job *j, int64_t chunk)
{
    int64_t begin = chunk * j->grain;
    int64_t end = j->n - begin > j->grain ? begin + j->grain : j->n;
    int64_t failures = tl_error_count();
    tl_status status = j->fn(begin, end, j->payload);
    // A code without its text would be shown with the text of some older failure.
    if (status != TL_OK && (tl_error_code() != status || tl_error_count() == failures))
        return TL_FAIL(status, "elements %lld to %lld of a parallel loop failed without a message",
                       (long long)begin, (long long)end - 1);
    return status;
}

static void run_chunks(tl_pool *p, const job *j)
{
    inside_loop = true;
    for (;;) {
        int64_t chunk = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
        if (chunk >= j->chunks) break;
        // Claims rise, so those below a failed chunk are all taken, and none of them is left out.
        if (chunk > atomic_load_explicit(&p->failed, memory_order_relaxed)) break;
        if (run_chunk(j, chunk) != TL_OK) keep_error(p, chunk);
    }
    inside_loop = false;
}

/* False when the gate closed before this worker was through it. */
static bool enter(tl_pool *p, uint32_t gate)
{
    while (gate & OPEN)
        if (atomic_compare_exchange_weak_explicit(&p->gate, &gate, gate + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    return false;
}

static void leave(tl_pool *p)
{
    uint32_t before = atomic_fetch_sub_explicit(&p->gate, 1, memory_order_release);
    if (before & AWAITED && (before & INSIDE) == 1) (void)gate_wake(p, 1, SLEEPER_CALLER);
}

static void *worker_main(void *payload)
{
    tl_pool *p = payload;
    uint32_t seen = 0;
    for (;;) {
        uint32_t gate = await_loop(p, seen);
        if (gate & QUIT) return NULL;
        seen = gate / LOOP;
        if (!enter(p, gate)) continue;
        job j = p->job;
        run_chunks(p, &j);
        leave(p);
    }
}

/* --- the caller ------------------------------------------------------------------------------- */

static void open_gate(tl_pool *p, const job *j)
{
    p->job = *j;
    atomic_store_explicit(&p->next, 0, memory_order_relaxed);
    // Closed and empty, the gate is the caller's alone.
    uint32_t number = atomic_load_explicit(&p->gate, memory_order_relaxed) / LOOP + 1;
    atomic_store(&p->gate, number * LOOP | OPEN);
    int sleepers = (int)atomic_load(&p->sleepers);
    if (!sleepers) return;
    int64_t wanted = j->chunks - 1 - (p->workers - sleepers); // those awake come by themselves
    if (wanted > sleepers) wanted = sleepers;
    if (wanted <= 0) return;
    uint32_t woken = gate_wake(p, (int)wanted, SLEEPER_WORKER);
    atomic_fetch_sub_explicit(&p->sleepers, woken, memory_order_relaxed);
}

static bool is_empty(uint32_t gate, uint32_t unused)
{
    (void)unused;
    return (gate & INSIDE) == 0;
}

static void close_gate(tl_pool *p)
{
    uint32_t gate = atomic_fetch_and_explicit(&p->gate, ~OPEN, memory_order_acquire);
    if (is_empty(gate, 0)) return;
    gate = gate_watch(p, is_empty, 0);
    while (!is_empty(gate, 0)) {
        // On failure the exchange reads the gate anew, and somebody may have left.
        if (!(gate & AWAITED)
            && !atomic_compare_exchange_strong_explicit(&p->gate, &gate, gate | AWAITED,
                                                        memory_order_acquire, memory_order_acquire))
            continue;
        (void)gate_sleep(p, gate | AWAITED, SLEEPER_CALLER);
        gate = atomic_load_explicit(&p->gate, memory_order_acquire);
    }
}

static tl_status run_serially(const job *j)
{
    for (int64_t chunk = 0; chunk < j->chunks; chunk++) TL_TRY(run_chunk(j, chunk));
    return TL_OK;
}

tl_status tl_parallel_for(tl_pool *pool, int64_t n, int64_t grain, tl_parallel_fn *fn,
                          void *payload)
{
    if (n <= 0) return TL_OK;
    if (grain < 1) grain = 1;
    const job j = {fn, payload, n, grain, (n - 1) / grain + 1};
    if (!pool || !pool->workers || j.chunks == 1 || inside_loop
        || atomic_exchange_explicit(&pool->busy, true, memory_order_acquire))
        return run_serially(&j);

    open_gate(pool, &j);
    run_chunks(pool, &j);
    close_gate(pool);
    tl_status status = TL_OK;
    if (atomic_load_explicit(&pool->failed, memory_order_relaxed) != NONE_FAILED) {
        status = pool->error.code;
        tl_error_restore(&pool->error);
        atomic_store_explicit(&pool->failed, NONE_FAILED, memory_order_relaxed);
    }
    atomic_store_explicit(&pool->busy, false, memory_order_release);
    return status;
}

/* --- beginning and end ------------------------------------------------------------------------ */

static _Thread_local int failing_thread; /* counts down; the thread at which it reaches 0 fails */

void tli_pool_fail_thread(int nth)
{
    failing_thread = nth;
}

static int start_thread(pthread_t *out, tl_pool *p)
{
    if (failing_thread > 0 && --failing_thread == 0) return EAGAIN;
    return pthread_create(out, NULL, worker_main, p);
}

/* Ends the first `count` workers. */
static void stop_workers(tl_pool *p, int count)
{
    atomic_fetch_or(&p->gate, QUIT);
    (void)gate_wake(p, INT32_MAX, SLEEPER_WORKER);
    for (int i = 0; i < count; i++) pthread_join(p->threads[i], NULL);
}

static tl_status start_workers(tl_pool *p)
{
    sigset_t mask, before;
    tli_thread_mask(&mask);
    pthread_sigmask(SIG_SETMASK, &mask, &before);
    tl_status status = TL_OK;
    for (int i = 0; i < p->workers && status == TL_OK; i++) {
        int code = start_thread(&p->threads[i], p);
        if (code) {
            stop_workers(p, i);
            status =
                TL_FAIL(TL_ELIMIT,
                        "thread %d of a pool of %d could not be started: %s; use fewer threads "
                        "(TILTH_NUM_THREADS) or raise the limit on processes",
                        i + 2, p->workers + 1, strerror(code));
            continue;
        }
        char name[16];
        snprintf(name, sizeof name, "tilth-%hu", (unsigned short)(i + 2));
        pthread_setname_np(p->threads[i], name);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

tl_status tl_pool_new(tl_pool **out, int threads)
{
    *out = NULL;
    if (threads < 0 || threads > TL_POOL_MAX_THREADS)
        return TL_FAIL(TL_EINVAL,
                       "a pool of %d threads was asked for; it has 1 to %d, or 0 for as many as "
                       "there are CPUs to use",
                       threads, TL_POOL_MAX_THREADS);
    if (threads == 0) threads = tl_pool_default_threads();
    // A multiple of the line, so that nothing else shares the last one.
    size_t bytes = sizeof(tl_pool) + (size_t)(threads - 1) * sizeof(pthread_t);
    bytes = tl_round_up_size(bytes, CACHE_LINE);
    tl_pool *p = tl_alloc_aligned(CACHE_LINE, bytes);
    if (!p) return TL_FAIL_NOMEM(bytes);
    memset(p, 0, bytes);
    atomic_init(&p->gate, 0);
    atomic_init(&p->next, 0);
    atomic_init(&p->failed, NONE_FAILED);
    atomic_init(&p->sleepers, 0);
    atomic_init(&p->busy, false);
    p->workers = threads - 1;
    p->owner = getpid();
    p->watch_ns = threads > tli_cpus_available() ? WATCH_CROWDED_NS : WATCH_NS;
    pthread_mutex_init(&p->error_lock, NULL);
    tl_status status = start_workers(p);
    if (status == TL_OK) {
        *out = p;
    } else {
        pthread_mutex_destroy(&p->error_lock);
        tl_free(p);
    }
    return status;
}

void tl_pool_free(tl_pool **pool)
{
    tl_pool *p = *pool;
    if (!p) return;
    TL_ASSERT(!atomic_load(&p->busy) && "a pool may not be freed while a loop runs on it");
    if (p->owner == getpid()) stop_workers(p, p->workers);
    pthread_mutex_destroy(&p->error_lock);
    tl_free(p);
    *pool = NULL;
}

int tl_pool_threads(const tl_pool *pool)
{
    return pool ? pool->workers + 1 : 1;
}
