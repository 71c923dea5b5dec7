#include "comm/control.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/log.h>
#include <tilth/base/str.h>

#include "base/inner/thread.h"

#define SECOND INT64_C(1000000000)
enum { PEER_LOST = 4 }; /* the code of a process that a lost peer ends (tool/main.h) */

/* What is known of a rank. */
typedef struct peer {
    int fd;                   /* -1: none, or no more */
    bool done;                /* it said goodbye */
    tli_control_message last; /* its last beat */
    int64_t heard, moved;     /* when it spoke, when it did something else than before */
    int32_t process;
    char host[TLI_CONTROL_HOST];
    uint8_t in[2 * (TLI_CONTROL_TEXT + 64)];
    size_t in_bytes;
} peer;

struct tli_control {
    tl_comm *comm;
    int32_t rank, size, count; /* `count` connections */
    int64_t peer_timeout, beat, lost, grace;
    peer *peers; /* the chief: [size] of all ranks; the others: [1], the chief */
    pthread_t thread;
    int wake[2];
    pthread_mutex_t lock;
    /* under the lock: */
    tli_control_message own;
    bool stopping, ended;
    int64_t ended_at;
    char why[TLI_CONTROL_TEXT]; /* it has ended */
};

/* --- sending ---------------------------------------------------------------------------------- */

/* A peer that does not read is not waited for: it is found out by its silence. */
static void send_to(int fd, const tli_control_message *m)
{
    uint8_t bytes[TLI_CONTROL_TEXT + 64];
    size_t size = tli_control_write(bytes, m);
    if (fd >= 0 && send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
}

static void send_all(tli_control *c, const tli_control_message *m)
{
    for (int32_t i = 0; i < c->count; i++) send_to(c->peers[i].fd, m);
}

static tli_control_message say(tli_control_type type, const char *text)
{
    tli_control_message m = {.type = type};
    snprintf(m.text, sizeof m.text, "%s", text);
    return m;
}

/* What this rank does at the moment. */
static tli_control_message own_beat(tli_control *c)
{
    pthread_mutex_lock(&c->lock);
    tli_control_message m = c->own;
    pthread_mutex_unlock(&c->lock);
    int32_t in = __atomic_load_n(&c->comm->in, __ATOMIC_RELAXED);
    m.type = TLI_CONTROL_BEAT;
    m.calls = __atomic_load_n(&c->comm->calls, __ATOMIC_RELAXED);
    m.kind = in;
    if (in < TL_COMM_KINDS) m.doing = TL_WORLD_WAITS;
    return m;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void end_run(tli_control *c, const char *why)
{
    tli_control_message m = say(TLI_CONTROL_END, why);
    pthread_mutex_lock(&c->lock);
    bool first = !c->ended;
    c->ended = true;
    if (first) {
        c->ended_at = tl_clock_ns();
        memcpy(c->why, m.text, sizeof c->why);
    }
    pthread_mutex_unlock(&c->lock);
    if (!first) return;
    if (c->rank == 0) send_all(c, &m);
    tl_comm_abort(c->comm, why);
}

/* Who is stuck in its work does not see that its calls fail, and cannot say why it leaves. Of all
 * ranks the chief speaks, or the one next to it where it was lost. */
static void leave_if_stuck(tli_control *c, int64_t now)
{
    pthread_mutex_lock(&c->lock);
    bool stuck = c->ended && !c->stopping && now - c->ended_at > c->grace;
    pthread_mutex_unlock(&c->lock);
    if (!stuck) return;
    if (c->rank == 0 || (c->rank == 1 && c->peers[0].fd < 0)) TL_LOG_ERROR("%s", c->why);
    _exit(PEER_LOST);
}

/* --- words ------------------------------------------------------------------------------------ */

static void add_doing(tl_str *s, const tli_control_message *m)
{
    static const char *const words[TL_WORLD_DOINGS] = {
        [TL_WORLD_COMPUTES] = "computing", [TL_WORLD_COMPILES] = "compiling",
        [TL_WORLD_READS] = "reading",      [TL_WORLD_WRITES] = "writing",
        [TL_WORLD_WAITS] = "waiting in",
    };
    tl_str_add(s, words[m->doing]);
    if (m->doing == TL_WORLD_WAITS)
        tl_str_addf(s, " %s %" PRId64, tl_comm_kind_name((tl_comm_kind)m->kind), m->calls);
    else if (*m->text) tl_str_addf(s, " %s", m->text);
    if (m->step > 0) tl_str_addf(s, " of step %" PRId64, m->step);
}

static void add_rank(tl_str *s, const tli_control *c, int32_t rank)
{
    const peer *p = &c->peers[c->rank == 0 ? rank : 0];
    tl_str_addf(s, "rank %" PRId32, rank);
    if (*p->host) tl_str_addf(s, " (host %s, process %" PRId32 ")", p->host, p->process);
    else tl_str_add(s, " (host not known: it has said nothing yet)");
}

static void add_silence(tl_str *s, int64_t ns)
{
    tl_str_addf(s, " has not been heard of for %" PRId64 " s, last", ns / SECOND);
}

/* "ranks 0-2, 4 wait in all_reduce 5" */
static void add_waiting(tl_str *s, const tli_control *c, int32_t but)
{
    const tli_control_message *one = NULL;
    int32_t count = 0;
    tl_str ranks = TL_STR_INIT;
    for (int32_t r = 0; r < c->size; r++) {
        const peer *p = &c->peers[r];
        if (r == but || p->done || p->last.doing != TL_WORLD_WAITS) continue;
        int32_t end = r;
        while (end + 1 < c->size && end + 1 != but && !c->peers[end + 1].done
               && c->peers[end + 1].last.doing == TL_WORLD_WAITS)
            end++;
        tl_str_addf(&ranks, end > r ? "%s%" PRId32 "-%" PRId32 : "%s%" PRId32, count ? ", " : "", r,
                    end);
        count += end - r + 1;
        one = &p->last;
        r = end;
    }
    if (one)
        tl_str_addf(s, "; rank%s %s wait%s in %s %" PRId64, count > 1 ? "s" : "",
                    tl_str_text(&ranks), count > 1 ? "" : "s",
                    tl_comm_kind_name((tl_comm_kind)one->kind), one->calls);
    tl_str_deinit(&ranks);
}

static void end_with(tli_control *c, tl_str *why)
{
    end_run(c, why->failed ? "a process of the run was lost" : tl_str_text(why));
    tl_str_deinit(why);
}

/* --- watching --------------------------------------------------------------------------------- */

static void hear_beat(peer *p, const tli_control_message *m, int64_t now)
{
    bool same = m->step == p->last.step && m->calls == p->last.calls && m->doing == p->last.doing
                && strcmp(m->text, p->last.text) == 0;
    if (!same) p->moved = now;
    p->last = *m;
}

static void hear(tli_control *c, int32_t from, const tli_control_message *m, int64_t now)
{
    peer *p = &c->peers[c->rank == 0 ? from : 0];
    tl_str why = TL_STR_INIT;
    p->heard = now;
    switch (m->type) {
    case TLI_CONTROL_HELLO:
        snprintf(p->host, sizeof p->host, "%.*s", TLI_CONTROL_HOST - 1, m->text);
        p->process = m->process;
        break;
    case TLI_CONTROL_BEAT: hear_beat(p, m, now); break;
    case TLI_CONTROL_BYE: p->done = true; break;
    case TLI_CONTROL_FAIL:
        p->done = true;
        add_rank(&why, c, from);
        tl_str_addf(&why, " failed: %s", m->text);
        end_with(c, &why);
        break;
    case TLI_CONTROL_END: end_run(c, m->text); break;
    }
}

static void lose(tli_control *c, int32_t from, const char *how)
{
    peer *p = &c->peers[c->rank == 0 ? from : 0];
    tl_str why = TL_STR_INIT;
    bool expected = p->done;
    if (p->fd >= 0) close(p->fd);
    p->fd = -1;
    p->done = true;
    if (expected) return;
    add_rank(&why, c, from);
    tl_str_addf(&why, "%s while ", how);
    add_doing(&why, &p->last);
    end_with(c, &why);
}

/* False: it is gone. */
static bool read_peer(tli_control *c, int32_t from, int64_t now)
{
    peer *p = &c->peers[c->rank == 0 ? from : 0];
    ssize_t got = recv(p->fd, p->in + p->in_bytes, sizeof p->in - p->in_bytes, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    p->in_bytes += (size_t)got;
    for (;;) {
        tli_control_message m;
        size_t used;
        if (tli_control_read(&m, &used, p->in, p->in_bytes) != TL_OK) return false;
        if (!used) return p->in_bytes < sizeof p->in; // a message that cannot fit is none
        hear(c, from, &m, now);
        memmove(p->in, p->in + used, p->in_bytes - used);
        p->in_bytes -= used;
    }
}

/* Its beats have ceased: it was stopped, or cannot be reached. A busy machine delays a few. */
static bool is_silent(const tli_control *c, int32_t rank, int64_t now)
{
    const int64_t since = now - c->peers[rank].heard;
    return rank != 0 && since > 2 * c->beat && since > c->peer_timeout / 2;
}

/* Of ranks that have made as many calls, others wait rather for one that is in none of them, and
 * then for one that says nothing any more. */
static int blame(const tli_control *c, int32_t rank, int64_t now)
{
    return 2 * (c->peers[rank].last.doing != TL_WORLD_WAITS) + is_silent(c, rank, now);
}

/* The rank that others wait for: the one that has made the fewest calls. */
static void look_for_stuck(tli_control *c, int64_t now)
{
    int32_t last = -1, waiting = 0;
    for (int32_t r = 0; r < c->size; r++) {
        const peer *p = &c->peers[r];
        if (p->done) continue;
        waiting += p->last.doing == TL_WORLD_WAITS;
        if (last < 0 || p->last.calls < c->peers[last].last.calls
            || (p->last.calls == c->peers[last].last.calls
                && blame(c, r, now) >= blame(c, last, now)))
            last = r;
    }
    if (last < 0) return;
    const peer *p = &c->peers[last];
    bool slow = p->last.doing != TL_WORLD_COMPUTES && p->last.doing != TL_WORLD_WAITS;
    int64_t since = now - p->moved;
    if (waiting - (p->last.doing == TL_WORLD_WAITS) < 1 || since < c->peer_timeout * (slow ? 5 : 1))
        return;
    tl_str why = TL_STR_INIT;
    add_rank(&why, c, last);
    const bool silent = is_silent(c, last, now);
    if (silent) add_silence(&why, now - p->heard);
    tl_str_add(&why, silent ? " while " : " has been ");
    add_doing(&why, &p->last);
    if (!silent) tl_str_addf(&why, " for %" PRId64 " s", since / SECOND);
    add_waiting(&why, c, last);
    end_with(c, &why);
}

static void look_around(tli_control *c, int64_t now)
{
    for (int32_t i = 0; i < c->count; i++) {
        peer *p = &c->peers[i];
        if (p->fd < 0 || p->done || now - p->heard < c->lost) continue;
        tl_str how = TL_STR_INIT;
        add_silence(&how, now - p->heard);
        lose(c, c->rank == 0 ? i : 0, tl_str_text(&how));
        tl_str_deinit(&how);
    }
    if (c->rank != 0) return;
    tli_control_message own = own_beat(c);
    hear_beat(&c->peers[0], &own, now);
    look_for_stuck(c, now);
}

static void tick(tli_control *c, int64_t now)
{
    tli_control_message beat = own_beat(c);
    send_all(c, &beat);
    pthread_mutex_lock(&c->lock);
    bool ended = c->ended;
    pthread_mutex_unlock(&c->lock);
    if (!ended) look_around(c, now);
}

static bool is_stopping(tli_control *c)
{
    pthread_mutex_lock(&c->lock);
    bool stopping = c->stopping;
    pthread_mutex_unlock(&c->lock);
    return stopping;
}

static void *watch(void *payload)
{
    tli_control *c = payload;
    struct pollfd *fds = tl_alloc_zero((size_t)(c->count + 1) * sizeof *fds);
    int64_t next = tl_clock_ns();
    while (fds && !is_stopping(c)) {
        int64_t now = tl_clock_ns();
        if (now >= next) {
            tick(c, now);
            next = now + c->beat;
        }
        leave_if_stuck(c, now);
        fds[0] = (struct pollfd){.fd = c->wake[0], .events = POLLIN};
        for (int32_t i = 0; i < c->count; i++)
            fds[1 + i] = (struct pollfd){.fd = c->peers[i].fd, .events = POLLIN};
        if (poll(fds, (nfds_t)c->count + 1, (int)((next - now) / 1000000) + 1) < 0) continue;
        now = tl_clock_ns();
        for (int32_t i = 0; i < c->count; i++)
            if (c->peers[i].fd >= 0 && fds[1 + i].revents && !read_peer(c, i, now))
                lose(c, i, " was lost");
    }
    tl_free(fds);
    return NULL;
}

/* --- a channel -------------------------------------------------------------------------------- */

static tl_status start_thread(tli_control *c)
{
    sigset_t mask, before;
    tli_thread_mask(&mask);
    pthread_sigmask(SIG_SETMASK, &mask, &before);
    int why = pthread_create(&c->thread, NULL, watch, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return why ? TL_FAIL(TL_EIO, "the thread that watches the peers: %s", strerror(why)) : TL_OK;
}

static void free_channel(tli_control *c)
{
    for (int i = 0; i < 2; i++)
        if (c->wake[i] >= 0) close(c->wake[i]);
    pthread_mutex_destroy(&c->lock);
    tl_free(c->peers);
    tl_free(c);
}

static void say_hello(tli_control *c)
{
    tli_control_message m = {.type = TLI_CONTROL_HELLO,
                             .version = TLI_CONTROL_VERSION,
                             .rank = c->rank,
                             .size = c->size,
                             .process = (int32_t)getpid()};
    gethostname(m.text, TLI_CONTROL_HOST - 1);
    peer *own = &c->peers[0];
    if (c->rank == 0) {
        snprintf(own->host, sizeof own->host, "%.*s", TLI_CONTROL_HOST - 1, m.text);
        own->process = m.process;
    }
    send_all(c, &m);
}

tl_status tli_control_new(tli_control **out, const tli_control_args *args)
{
    *out = NULL;
    tli_control *c = tl_alloc_zero(sizeof *c);
    if (!c) return TL_FAIL_NOMEM(sizeof *c);
    *c = (tli_control){.comm = args->comm,
                       .rank = args->comm->rank,
                       .size = args->comm->size,
                       .count = args->comm->rank == 0 ? args->comm->size : 1,
                       .peer_timeout = args->peer_timeout_ns,
                       .beat = args->beat_ns ? args->beat_ns : SECOND,
                       .lost = args->lost_ns ? args->lost_ns : 15 * SECOND,
                       .grace = args->grace_ns ? args->grace_ns : 5 * SECOND,
                       .own.kind = TL_COMM_KINDS,
                       .wake = {-1, -1}};
    pthread_mutex_init(&c->lock, NULL);
    c->peers = tl_alloc_zero((size_t)c->count * sizeof *c->peers);
    tl_status st = c->peers ? TL_OK : TL_FAIL_NOMEM((size_t)c->count * sizeof *c->peers);
    if (st == TL_OK && pipe2(c->wake, O_CLOEXEC) < 0)
        st = TL_FAIL(TL_EIO, "the thread that watches the peers: %s", strerror(errno));
    for (int32_t i = 0; st == TL_OK && i < c->count; i++)
        c->peers[i] = (peer){.fd = args->fds[i],
                             .heard = tl_clock_ns(),
                             .moved = tl_clock_ns(),
                             .last = {.kind = TL_COMM_KINDS}};
    if (st == TL_OK) {
        say_hello(c);
        st = start_thread(c);
    }
    if (st != TL_OK) {
        free_channel(c);
        return st;
    }
    *out = c;
    return TL_OK;
}

void tli_control_free(tli_control **control, tl_status how)
{
    tli_control *c = *control;
    if (!c) return;
    pthread_mutex_lock(&c->lock);
    c->stopping = true;
    pthread_mutex_unlock(&c->lock);
    if (write(c->wake[1], "", 1) < 0) {} // the thread looks up once a second anyway
    pthread_join(c->thread, NULL);
    tli_control_message m = say(TLI_CONTROL_BYE, "");
    if (how != TL_OK && how != TL_EPEER) {
        m = say(TLI_CONTROL_FAIL, tl_error_message());
        if (c->rank == 0) {
            tl_str why = TL_STR_INIT;
            add_rank(&why, c, 0);
            tl_str_addf(&why, " failed: %s", tl_error_message());
            m = say(TLI_CONTROL_END, tl_str_text(&why));
            tl_str_deinit(&why);
        }
    }
    send_all(c, &m);
    for (int32_t i = 0; i < c->count; i++)
        if (c->peers[i].fd >= 0) close(c->peers[i].fd);
    free_channel(c);
    *control = NULL;
}

void tli_control_tell(tli_control *c, tl_world_doing doing, int64_t step, const char *text)
{
    pthread_mutex_lock(&c->lock);
    c->own.doing = (int32_t)doing;
    c->own.step = step;
    snprintf(c->own.text, sizeof c->own.text, "%.200s", text ? text : "");
    pthread_mutex_unlock(&c->lock);
}
