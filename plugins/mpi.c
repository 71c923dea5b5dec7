/* MPI: the transport between processes on several machines, as a plug-in, for Open MPI's and
 * MPICH's binaries differ. It carries bytes; sums are made above it (core/comm.h).
 *
 * One thread calls MPI, from its first call to its last. Others hand calls to it and sleep until
 * they are done; it looks, and sleeps in between, longer and longer, for MPI's own waiting would
 * burn a processor that computes. */
#include <inttypes.h>
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/core/comm.h>
#include <tilth/desc/registry.h>

enum {
    TAG_MESSAGE = 1,
    TAG_END,
    /* of a call and its answer, which may be under way beside others: so many are not */
    TAG_CALL,
    CALLS = 1024,
    WHY = 1024,
    CHUNK = 1 << 30, /* MPI counts bytes in an int */
    LOOKS = 200,     /* before it sleeps */
    PAGE = 4096,
};

/* What the thread is asked to do. */
typedef struct task {
    tl_comm_work *work;   /* a call */
    tl_comm_group *group; /* or a group to be made */
    MPI_Request *requests;
    int count, room;
    bool done;
    struct task *next;
} task;

typedef struct mpi {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t asked, answered;
    task *first; /* not begun yet, in order */
    bool opened, stopping, ended, told;
    tl_error failure; /* of opening */
    char why[WHY];
    int32_t rank, size;
    void **memory;
    int64_t pieces;
    /* the thread's own: */
    task *under_way;
    MPI_Comm world; /* for the end of all */
    MPI_Request end;
    char heard[WHY];
} mpi;

/* --- what the thread does --------------------------------------------------------------------- */

static bool post(task *t, bool send, const tl_part *part, int32_t peer, int tag, MPI_Comm comm)
{
    char *at = part->data;
    for (size_t left = part->bytes; left;) {
        int some = left < CHUNK ? (int)left : CHUNK;
        if (t->count == t->room) {
            int room = t->room ? 2 * t->room : 16;
            MPI_Request *more = tl_realloc(t->requests, (size_t)room * sizeof *more);
            if (!more) return false;
            t->requests = more;
            t->room = room;
        }
        MPI_Request *r = &t->requests[t->count++];
        if (send) MPI_Isend(at, some, MPI_BYTE, peer, tag, comm, r);
        else MPI_Irecv(at, some, MPI_BYTE, peer, tag, comm, r);
        at += some;
        left -= (size_t)some;
    }
    return true;
}

/* Every call is messages of two: what each rank sends each other one. */
static bool begin_task(task *t)
{
    const tl_comm_group *g = t->work->group;
    const tl_comm_call *call = &t->work->call;
    MPI_Comm comm = *(MPI_Comm *)g->inner;
    // The exchange of a sum has the number of the sum, and so has the gathering behind it.
    const int tag =
        TAG_CALL + 2 * (int)(t->work->number % CALLS) + (call->kind == TL_COMM_ALL_GATHER);
    bool ok = true;
    if (call->kind == TL_COMM_BARRIER) {
        t->requests = tl_alloc(sizeof *t->requests);
        if (!t->requests) return false;
        t->count = t->room = 1;
        return MPI_Ibarrier(comm, t->requests) == MPI_SUCCESS;
    }
    if (call->kind == TL_COMM_SEND || call->kind == TL_COMM_RECV)
        return post(t, call->kind == TL_COMM_SEND,
                    call->kind == TL_COMM_SEND ? call->send : call->recv, call->peer, TAG_MESSAGE,
                    comm);
    for (int32_t i = 1; i < g->size && ok; i++) {
        int32_t to = (g->rank + i) % g->size, from = (g->rank + g->size - i) % g->size;
        switch (call->kind) {
        case TL_COMM_ALL_TO_ALL:
        case TL_COMM_ALL_GATHER:
            ok = post(t, false, &call->recv[from], from, tag, comm)
                 && post(t, true, &call->send[call->kind == TL_COMM_ALL_TO_ALL ? to : 0], to, tag,
                         comm);
            break;
        default: // a broadcast
            if (call->peer == g->rank) ok = post(t, true, call->recv, to, tag, comm);
            else if (from == call->peer) ok = post(t, false, call->recv, from, tag, comm);
        }
    }
    return ok;
}

static bool make_group(tl_comm_group *g)
{
    MPI_Comm *comm = tl_alloc(sizeof *comm);
    if (!comm) return false;
    g->inner = comm;
    return MPI_Comm_split(MPI_COMM_WORLD, g->rank >= 0 ? 1 : MPI_UNDEFINED, 0, comm) == MPI_SUCCESS;
}

static void set_end(mpi *m, const char *why)
{
    pthread_mutex_lock(&m->lock);
    if (!m->ended) snprintf(m->why, sizeof m->why, "%s", why);
    m->ended = true;
    pthread_cond_broadcast(&m->answered);
    pthread_cond_signal(&m->asked);
    pthread_mutex_unlock(&m->lock);
}

/* Once, to all: those that wait in calls of ours learn it so. */
static void tell_end(mpi *m)
{
    char why[WHY];
    MPI_Request *sent = tl_alloc((size_t)m->size * sizeof *sent);
    memcpy(why, m->why, sizeof why);
    for (int32_t r = 0; sent && r < m->size; r++) {
        sent[r] = MPI_REQUEST_NULL;
        if (r != m->rank) MPI_Isend(why, WHY, MPI_CHAR, r, TAG_END, m->world, &sent[r]);
    }
    int all = 0;
    for (int i = 0; sent && !all && i < 200; i++, usleep(5000))
        MPI_Testall(m->size, sent, &all, MPI_STATUSES_IGNORE);
    tl_free(sent);
}

/* Whether something was done. */
static bool look(mpi *m)
{
    bool moved = false;
    for (task **at = &m->under_way; *at;) {
        task *t = *at;
        int all = 0;
        MPI_Testall(t->count, t->requests, &all, MPI_STATUSES_IGNORE);
        if (!all) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        pthread_mutex_lock(&m->lock);
        t->done = true;
        pthread_cond_broadcast(&m->answered);
        pthread_mutex_unlock(&m->lock);
        moved = true;
    }
    int heard = 0;
    if (m->end != MPI_REQUEST_NULL) MPI_Test(&m->end, &heard, MPI_STATUS_IGNORE);
    if (heard) {
        m->heard[WHY - 1] = '\0';
        m->told = true; // who tells us has told all
        set_end(m, m->heard);
    }
    return moved;
}

static void begin_all(mpi *m, task *first)
{
    while (first) {
        task *t = first;
        first = t->next;
        t->next = NULL;
        bool ok = t->group ? make_group(t->group) : begin_task(t);
        if (!ok) set_end(m, "MPI could not begin a call");
        task **last = &m->under_way;
        while (*last) last = &(*last)->next;
        *last = t;
    }
}

static void serve(mpi *m)
{
    int idle = 0;
    for (;;) {
        pthread_mutex_lock(&m->lock);
        // With nothing under way only the end of all can come: that is looked for now and then.
        if (!m->first && !m->under_way && !m->stopping && !m->ended) {
            struct timespec soon;
            clock_gettime(CLOCK_REALTIME, &soon);
            soon.tv_nsec += 50000000;
            soon.tv_sec += soon.tv_nsec / 1000000000;
            soon.tv_nsec %= 1000000000;
            pthread_cond_timedwait(&m->asked, &m->lock, &soon);
        }
        task *first = m->first;
        m->first = NULL;
        bool stop = m->stopping && !first && !m->under_way, ended = m->ended;
        bool tell = ended && !m->told;
        m->told |= tell;
        pthread_mutex_unlock(&m->lock);
        if (tell) tell_end(m);
        if (stop || (ended && m->stopping)) return;
        begin_all(m, first);
        if (look(m) || first) idle = 0;
        else if (++idle > LOOKS) usleep(idle > 5 * LOOKS ? 200 : 20);
        else sched_yield();
        if (ended) usleep(1000);
    }
}

static tl_status begin_mpi(mpi *m)
{
    int given, rank, size;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS)
        return TL_FAIL(TL_EPEER, "MPI_Init_thread failed");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (given < MPI_THREAD_FUNNELED)
        return TL_FAIL(TL_EUNSUPPORTED, "this MPI cannot be called by one thread of several");
    if (rank != m->rank || size != m->size)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "MPI says rank %d of %d, and the environment rank %" PRId32 " of %" PRId32
                       ": mpirun is of another MPI than the plug-in was built with (install the "
                       "development package of its MPI, of Debian libopenmpi-dev or libmpich-dev, "
                       "and build Tilth again), or srun was not told of it (srun --mpi=pmix)",
                       rank, size, m->rank, m->size);
    MPI_Comm_dup(MPI_COMM_WORLD, &m->world);
    MPI_Irecv(m->heard, WHY, MPI_CHAR, MPI_ANY_SOURCE, TAG_END, m->world, &m->end);
    return TL_OK;
}

static void *run(void *payload)
{
    mpi *m = payload;
    m->end = MPI_REQUEST_NULL;
    tl_status st = begin_mpi(m);
    pthread_mutex_lock(&m->lock);
    m->opened = true;
    if (st != TL_OK) tl_error_save(&m->failure);
    pthread_cond_broadcast(&m->answered);
    pthread_mutex_unlock(&m->lock);
    if (st == TL_OK) serve(m);
    // After an end requests are left, and the launcher clears up behind us.
    if (m->ended) return NULL;
    if (m->end != MPI_REQUEST_NULL) {
        MPI_Cancel(&m->end);
        MPI_Wait(&m->end, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return NULL;
}

/* --- what the others do ----------------------------------------------------------------------- */

static void ask(mpi *m, task *t)
{
    pthread_mutex_lock(&m->lock);
    task **last = &m->first;
    while (*last) last = &(*last)->next;
    *last = t;
    pthread_cond_signal(&m->asked);
    pthread_mutex_unlock(&m->lock);
}

/* Frees the task, unless MPI still holds what it names. */
static tl_status answer(mpi *m, task *t)
{
    tl_status st = TL_OK;
    pthread_mutex_lock(&m->lock);
    while (!t->done && !m->ended) pthread_cond_wait(&m->answered, &m->lock);
    bool done = t->done;
    if (!done) st = TL_FAIL(TL_EPEER, "%s", m->why);
    pthread_mutex_unlock(&m->lock);
    if (!done) return st;
    tl_free(t->requests);
    tl_free(t);
    return st;
}

static tl_status open_mpi(tl_comm *c, const tl_comm_args *args)
{
    mpi *m = tl_alloc_zero(sizeof *m);
    if (!m) return TL_FAIL_NOMEM(sizeof *m);
    c->inner = m;
    m->rank = args->rank;
    m->size = args->size;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->asked, NULL);
    pthread_cond_init(&m->answered, NULL);
    int why = pthread_create(&m->thread, NULL, run, m);
    if (why) {
        tl_free(m);
        return TL_FAIL(TL_EIO, "the thread that calls MPI: %s", strerror(why));
    }
    pthread_mutex_lock(&m->lock);
    while (!m->opened) pthread_cond_wait(&m->answered, &m->lock);
    tl_status st = m->failure.code;
    if (st != TL_OK) tl_error_restore(&m->failure);
    pthread_mutex_unlock(&m->lock);
    if (st == TL_OK) return st;
    pthread_join(m->thread, NULL);
    tl_free(m);
    return st;
}

static void close_mpi(tl_comm *c)
{
    mpi *m = c->inner;
    pthread_mutex_lock(&m->lock);
    m->stopping = true;
    pthread_cond_signal(&m->asked);
    bool ended = m->ended;
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    // MPI still writes to what it was given: it stays.
    for (tl_comm_group *g = c->world; !ended && g; g = g->next) tl_free(g->inner);
    if (ended) return;
    for (int64_t i = 0; i < m->pieces; i++) tl_free(m->memory[i]);
    tl_free(m->memory);
    pthread_cond_destroy(&m->asked);
    pthread_cond_destroy(&m->answered);
    pthread_mutex_destroy(&m->lock);
    tl_free(m);
}

static tl_status split_mpi(tl_comm_group *g)
{
    task *t = tl_alloc_zero(sizeof *t);
    if (!t) return TL_FAIL_NOMEM(sizeof *t);
    t->group = g;
    ask(g->comm->inner, t);
    return answer(g->comm->inner, t);
}

static tl_status begin_call(tl_comm_work *w)
{
    mpi *m = w->group->comm->inner;
    task *t = tl_alloc_zero(sizeof *t);
    if (!t) return TL_FAIL_NOMEM(sizeof *t);
    t->work = w;
    w->inner[0] = t;
    ask(m, t);
    return TL_OK;
}

static tl_status wait_call(tl_comm_work *w)
{
    const tl_comm_call *call = &w->call;
    const int32_t me = w->group->rank;
    TL_TRY(answer(w->group->comm->inner, w->inner[0]));
    // What is for oneself does not travel.
    if (call->kind != TL_COMM_ALL_TO_ALL && call->kind != TL_COMM_ALL_GATHER) return TL_OK;
    const tl_part *from = &call->send[call->kind == TL_COMM_ALL_TO_ALL ? me : 0];
    const tl_part *to = &call->recv[me];
    if (from->bytes != to->bytes)
        return TL_FAIL(TL_EINVAL, "%s: %zu bytes are sent, %zu received",
                       tl_comm_kind_name(call->kind), from->bytes, to->bytes);
    if (from->data != to->data && from->bytes) memmove(to->data, from->data, from->bytes);
    return TL_OK;
}

static bool ready(tl_comm_work *w)
{
    mpi *m = w->group->comm->inner;
    const task *t = w->inner[0];
    pthread_mutex_lock(&m->lock);
    const bool over = t->done || m->ended;
    pthread_mutex_unlock(&m->lock);
    return over;
}

static void *alloc_mpi(tl_comm *c, size_t bytes)
{
    mpi *m = c->inner;
    void **memory = tl_realloc(m->memory, (size_t)(m->pieces + 1) * sizeof *memory);
    if (memory) m->memory = memory;
    void *made = memory ? tl_alloc_aligned(PAGE, bytes ? bytes : 1) : NULL;
    if (!made) {
        (void)TL_FAIL_NOMEM(bytes);
        return NULL;
    }
    memset(made, 0, bytes);
    return m->memory[m->pieces++] = made;
}

static size_t release_mpi(tl_comm *c, void *data, size_t bytes)
{
    (void)c;
    const uintptr_t at = (uintptr_t)data;
    const uintptr_t first = (at + PAGE - 1) / PAGE * PAGE, end = (at + bytes) / PAGE * PAGE;
    if (first >= end) return 0;
    return madvise((char *)data + (first - at), end - first, MADV_DONTNEED) == 0 ? end - first : 0;
}

static void abort_mpi(tl_comm *c, const char *why)
{
    set_end(c->inner, why);
}

const tl_comm_class tl_comm_mpi;
const tl_comm_class tl_comm_mpi = {
    .cls = {.class_size = sizeof(tl_comm_class),
            .name = "mpi",
            .help = "processes that mpirun or srun has started, on one machine or several"},
    .open = open_mpi,
    .close = close_mpi,
    .split = split_mpi,
    .begin = begin_call,
    .wait = wait_call,
    .alloc = alloc_mpi,
    .release = release_mpi,
    .abort = abort_mpi,
    .ready = ready,
};

static const tl_entry entries[] = {{&tl_kind_comm, &tl_comm_mpi.cls}};
const tl_module tl_module_main = {TL_MODULE_HEAD("mpi"), entries, TL_COUNT(entries)};
