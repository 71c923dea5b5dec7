#include "base/mapping_guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tilth/base/alloc.h>

/* Guards are never given back to the system, only used again: the handler may look at any of them
 * at any time, and takes no lock. */
struct tli_mapping_guard {
    _Atomic(uintptr_t) start, end; /* equal: free */
    atomic_bool cut;
    tli_mapping_guard *next;      /* of all; never changes */
    tli_mapping_guard *next_free; /* under the lock */
};

static _Atomic(tli_mapping_guard *) all;
static tli_mapping_guard *unused;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before[2]; /* the handler that ours replaced, and room for the next one */
static atomic_int current;         /* which of them it is */
static uintptr_t page;

static tli_mapping_guard *find(uintptr_t place)
{
    for (tli_mapping_guard *g = atomic_load(&all); g; g = g->next) {
        uintptr_t start = atomic_load(&g->start), end = atomic_load(&g->end);
        // Used again meanwhile, it has another start: that is set before the end.
        if (place >= start && place < end && atomic_load(&g->start) == start) return g;
    }
    return NULL;
}

/* Puts zeros from the page that is missing to the end of the mapping. */
static bool fill(tli_mapping_guard *g, uintptr_t place)
{
    uintptr_t from = place & ~(page - 1), end = (atomic_load(&g->end) + page - 1) & ~(page - 1);
    void *zeros =
        mmap((void *)from, end - from, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (zeros == MAP_FAILED) return false;
    atomic_store(&g->cut, true);
    return true;
}

static void end_as_usual(const siginfo_t *info)
{
    // the instruction comes again, and ends the process
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigaction(SIGBUS, &usual, NULL);
    if (info->si_code <= 0) raise(SIGBUS); // somebody sent it: nothing comes again
}

static void hand_on(int number, siginfo_t *info, void *context)
{
    static _Thread_local volatile sig_atomic_t handing; // to one that hands it back to us
    const struct sigaction *to = &before[atomic_load(&current)];
    bool usual =
        !(to->sa_flags & SA_SIGINFO) && (to->sa_handler == SIG_DFL || to->sa_handler == SIG_IGN);
    if (usual || handing) {
        end_as_usual(info);
        return;
    }
    handing = 1;
    if (to->sa_flags & SA_SIGINFO) to->sa_sigaction(number, info, context);
    else to->sa_handler(number);
    handing = 0;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    uintptr_t place = (uintptr_t)info->si_addr;
    tli_mapping_guard *g = info->si_code == BUS_ADRERR ? find(place) : NULL;
    if (!g || !fill(g, place)) hand_on(number, info, context);
    errno = saved;
}

/* Sets the handler, again where somebody has set another one since then: programs do so without
 * asking who was there. */
static void watch(void)
{
    struct sigaction ours = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK},
                     now;
    if (sigaction(SIGBUS, NULL, &now) != 0
        || (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_bus_error))
        return;
    sigemptyset(&ours.sa_mask);
    page = (uintptr_t)sysconf(_SC_PAGESIZE);
    int next = !atomic_load(&current);
    before[next] = now;
    atomic_store(&current, next);
    sigaction(SIGBUS, &ours, NULL);
}

static tli_mapping_guard *take_unused(void)
{
    pthread_mutex_lock(&lock);
    watch();
    tli_mapping_guard *g = unused;
    if (g) unused = g->next_free;
    pthread_mutex_unlock(&lock);
    return g;
}

static tli_mapping_guard *make(void)
{
    tli_mapping_guard *g = tl_alloc_zero(sizeof *g);
    if (!g) return NULL;
    g->next = atomic_load(&all);
    while (!atomic_compare_exchange_weak(&all, &g->next, g)) {}
    return g;
}

tl_status tli_mapping_guard_begin(tli_mapping_guard **out, const void *data, size_t size)
{
    tli_mapping_guard *g = take_unused();
    if (!g) g = make();
    *out = g;
    if (!g) return TL_FAIL_NOMEM(sizeof *g);
    atomic_store(&g->cut, false);
    atomic_store(&g->start, (uintptr_t)data);
    atomic_store(&g->end, (uintptr_t)data + size);
    return TL_OK;
}

void tli_mapping_guard_end(tli_mapping_guard *g)
{
    if (!g) return;
    atomic_store(&g->end, 0);
    pthread_mutex_lock(&lock);
    g->next_free = unused;
    unused = g;
    pthread_mutex_unlock(&lock);
}

bool tli_mapping_guard_cut(const tli_mapping_guard *g)
{
    return g && atomic_load(&g->cut);
}
