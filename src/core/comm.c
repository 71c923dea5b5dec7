#include "core/comm.h"

#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>

static const tl_method comm_methods[] = {
    TL_METHOD(tl_comm_class, open, true),   TL_METHOD(tl_comm_class, close, true),
    TL_METHOD(tl_comm_class, split, false), TL_METHOD(tl_comm_class, begin, true),
    TL_METHOD(tl_comm_class, wait, true),   TL_METHOD(tl_comm_class, meet, false),
    TL_METHOD(tl_comm_class, face, false),  TL_METHOD(tl_comm_class, part, false),
    TL_METHOD(tl_comm_class, alloc, true),  TL_METHOD(tl_comm_class, release, false),
    TL_METHOD(tl_comm_class, share, false), TL_METHOD(tl_comm_class, unshare, false),
    TL_METHOD(tl_comm_class, abort, true),  TL_METHOD(tl_comm_class, ready, false),
    TL_METHOD(tl_comm_class, leave, false), {NULL, 0, false},
};
const tl_kind tl_kind_comm = {
    .name = "comm",
    .plural = "comms",
    .help = "transports between the processes of a run",
    .class_size = sizeof(tl_comm_class),
    .methods = comm_methods,
};

const char *tl_comm_kind_name(tl_comm_kind kind)
{
    static const char *const names[] = {
        [TL_COMM_BARRIER] = "barrier",
        [TL_COMM_ALL_TO_ALL] = "all_to_all",
        [TL_COMM_ALL_GATHER] = "all_gather",
        [TL_COMM_BROADCAST] = "broadcast",
        [TL_COMM_SEND] = "send",
        [TL_COMM_RECV] = "recv",
        [TL_COMM_ALL_REDUCE] = "all_reduce",
        [TL_COMM_REDUCE_SCATTER] = "reduce_scatter",
    };
    return (unsigned)kind < TL_COMM_KINDS ? names[kind] : "nothing";
}

/* --- the world and its groups ----------------------------------------------------------------- */

static tl_status new_group(tl_comm_group **out, tl_comm *c, const int32_t *ranks, int32_t count)
{
    tl_comm_group *g = tl_alloc_zero(sizeof *g);
    int32_t *copy = tl_alloc((size_t)count * sizeof *copy);
    *out = NULL;
    if (!g || !copy) {
        tl_free(g);
        tl_free(copy);
        return TL_FAIL_NOMEM(sizeof *g + (size_t)count * sizeof *copy);
    }
    *g = (tl_comm_group){.comm = c, .rank = -1, .size = count, .ranks = copy, .number = c->groups};
    for (int32_t i = 0; i < count; i++) {
        copy[i] = ranks ? ranks[i] : i;
        if (copy[i] == c->rank) g->rank = i;
    }
    tl_status st = c->cls->split ? c->cls->split(g) : TL_OK;
    if (st != TL_OK) {
        tl_free(g);
        tl_free(copy);
        return st;
    }
    c->groups++;
    tl_comm_group **last = &c->world;
    while (*last) last = &(*last)->next;
    *last = g;
    *out = g;
    return TL_OK;
}

tl_status tl_comm_open(tl_comm **out, const tl_comm_class *cls, const tl_comm_args *args)
{
    static const tl_comm_args alone = {.size = 1};
    tl_comm_group *world;
    *out = NULL;
    if (!args) args = &alone;
    if (args->size < 1 || args->size > TL_COMM_RANKS || args->rank < 0 || args->rank >= args->size)
        return TL_FAIL(TL_EINVAL,
                       "rank %" PRId32 " of %" PRId32
                       " processes: expected 1 to %d of them, counted from 0",
                       args->rank, args->size, TL_COMM_RANKS);
    tl_comm *c = tl_alloc_zero(sizeof *c);
    if (!c) return TL_FAIL_NOMEM(sizeof *c);
    *c = (tl_comm){.cls = cls,
                   .rank = args->rank,
                   .size = args->size,
                   .threads = args->threads,
                   .in = TL_COMM_KINDS};
    tl_status st = cls->open(c, args);
    if (st != TL_OK) {
        tl_free(c);
        return st;
    }
    st = new_group(&world, c, NULL, c->size);
    if (st != TL_OK) tl_comm_close(&c);
    *out = c;
    return st;
}

void tl_comm_close(tl_comm **comm)
{
    tl_comm *c = *comm;
    if (!c) return;
    c->cls->close(c);
    if (c->world) tl_free(c->world->levels); // others of all ranks have the same
    for (tl_comm_group *g = c->world, *next; g; g = next) {
        next = g->next;
        tl_free((void *)(uintptr_t)g->ranks);
        tl_free(g);
    }
    for (int i = 0; i < TL_COMM_UNDER_WAY; i++) tl_free(c->rooms[i].data);
    tl_free(c);
    *comm = NULL;
}

tl_status tl_comm_split(tl_comm_group **out, tl_comm *comm, const int32_t *ranks, int32_t count)
{
    *out = NULL;
    if (comm->groups == TL_COMM_GROUPS)
        return TL_FAIL(TL_ELIMIT, "a run has at most %d groups of processes", TL_COMM_GROUPS);
    for (int32_t i = 0; i < count; i++)
        if (ranks[i] < 0 || ranks[i] >= comm->size || (i && ranks[i] <= ranks[i - 1]))
            return TL_FAIL(TL_EINVAL,
                           "a group of processes: expected ascending ranks below %" PRId32
                           ", found %" PRId32,
                           comm->size, ranks[i]);
    if (count < 1) return TL_FAIL(TL_EINVAL, "a group of processes needs at least one rank");
    tl_comm_group *g;
    TL_TRY(new_group(&g, comm, ranks, count));
    if (count == comm->size) g->levels = comm->world->levels;
    if (g->rank >= 0) *out = g;
    return TL_OK;
}

void *tl_comm_alloc(tl_comm *comm, size_t bytes)
{
    void *memory = comm->cls->alloc(comm, bytes);
    if (memory) comm->own_bytes += (int64_t)bytes;
    return memory;
}

size_t tl_comm_release(tl_comm *comm, void *data, size_t bytes)
{
    return comm->cls->release && bytes ? comm->cls->release(comm, data, bytes) : 0;
}

void tl_comm_memory(const tl_comm *comm, int64_t *own, int64_t *common)
{
    *own = comm->own_bytes;
    *common = comm->common_bytes;
}

tl_status tl_comm_unshare(tl_comm *comm)
{
    if (!comm->cls->unshare) return TL_OK;
    TL_TRY(tl_comm_barrier(comm->world));
    comm->cls->unshare(comm);
    comm->common_bytes = 0;
    return TL_OK;
}

bool tl_comm_shares(const tl_comm *comm)
{
    return comm->cls->share != NULL;
}

tl_status tl_comm_share(tl_comm *comm, void **out, size_t bytes)
{
    *out = NULL;
    if (comm->cls->share) {
        TL_TRY(comm->cls->share(comm, out, bytes ? bytes : 1));
        comm->common_bytes += (int64_t)bytes;
        return TL_OK;
    }
    return TL_FAIL(TL_EUNSUPPORTED,
                   "processes that exchange over %s have no memory in common; those of one machine "
                   "have, over shm",
                   comm->cls->cls.name);
}

void tl_comm_abort(tl_comm *comm, const char *why)
{
    comm->cls->abort(comm, why);
}

/* --- calls ------------------------------------------------------------------------------------ */

static bool is_sum(tl_comm_kind kind)
{
    return kind == TL_COMM_ALL_REDUCE || kind == TL_COMM_REDUCE_SCATTER;
}

static tl_status check_call(const tl_comm_group *g, const tl_comm_call *call)
{
    bool peer = call->kind >= TL_COMM_BROADCAST && call->kind <= TL_COMM_RECV;
    bool self = call->peer == g->rank && call->kind != TL_COMM_BROADCAST;
    if (peer && (call->peer < 0 || call->peer >= g->size || self))
        return TL_FAIL(TL_EINVAL, "%s: rank %" PRId32 " is %s", tl_comm_kind_name(call->kind),
                       call->peer, self ? "this process" : "none of the group");
    return is_sum(call->kind) ? tli_comm_sum_check(g, call) : TL_OK;
}

tl_status tl_comm_begin(tl_comm_work *w, tl_comm_group *g, const tl_comm_call *call)
{
    const tl_comm_class *cls = g->comm->cls;
    *w = (tl_comm_work){.group = g, .call = *call, .number = g->calls};
    TL_TRY(check_call(g, call));
    if (g->under_way == TL_COMM_UNDER_WAY)
        return TL_FAIL(TL_ESTATE, "%s: %d calls of the group are under way, and none more may be",
                       tl_comm_kind_name(call->kind), TL_COMM_UNDER_WAY);
    w->in_levels = tli_comm_in_levels(g, call);
    if (w->in_levels) TL_TRY(tli_comm_levels_begin(w));
    else TL_TRY(is_sum(call->kind) && !cls->meet ? tli_comm_sum_begin(w) : cls->begin(w));
    // In levels it is calls of other groups.
    if (call->kind != TL_COMM_SEND && call->kind != TL_COMM_RECV && !w->in_levels) g->calls++;
    g->under_way++;
    w->begun = true;
    return TL_OK;
}

static tl_status add_piece(tl_comm_work *w)
{
    tl_status st = w->group->comm->cls->meet ? tli_comm_sum_look(w) : tli_comm_sum_add(w);
    w->added = true;
    return st;
}

static tl_status end_sum(tl_comm_work *w)
{
    if (!w->added) TL_TRY(add_piece(w));
    return w->group->comm->cls->meet ? tli_comm_sum_part(w) : tli_comm_sum_end(w);
}

// It is over, well or not.
static void count_call(tl_comm_work *w)
{
    w->begun = false;
    w->group->under_way--;
    __atomic_fetch_add(&w->group->comm->calls, 1, __ATOMIC_RELAXED);
}

tl_status tl_comm_wait(tl_comm_work *w)
{
    tl_comm *c = w->group->comm;
    if (!w->begun) return TL_FAIL(TL_ESTATE, "a call that has not begun cannot be waited for");
    __atomic_store_n(&c->in, (int32_t)w->call.kind, __ATOMIC_RELAXED);
    tl_status st;
    if (!is_sum(w->call.kind)) st = c->cls->wait(w);
    else st = w->in_levels ? tli_comm_levels_end(w) : end_sum(w);
    __atomic_store_n(&c->in, (int32_t)TL_COMM_KINDS, __ATOMIC_RELAXED);
    count_call(w);
    return st;
}

static bool is_ready(tl_comm_work *w)
{
    const tl_comm_class *cls = w->group->comm->cls;
    if (!is_sum(w->call.kind) || w->in_levels) return false;
    if (!cls->ready || (cls->meet && !cls->leave)) return false;
    return cls->meet ? cls->ready(w) : tli_comm_sum_ready(w);
}

tl_status tl_comm_advance(tl_comm_work *w, bool *done)
{
    tl_status st = TL_OK;
    *done = false;
    if (!w->begun) return TL_FAIL(TL_ESTATE, "a call that has not begun cannot go on");
    if (!w->added && is_ready(w)) st = add_piece(w);
    if (st == TL_OK && w->added && is_ready(w)) {
        *done = true;
        st = end_sum(w);
    }
    if (*done || st != TL_OK) count_call(w);
    return st;
}

tl_status tl_comm_call_now(tl_comm_group *g, const tl_comm_call *call)
{
    tl_comm_work w;
    TL_TRY(tl_comm_begin(&w, g, call));
    return tl_comm_wait(&w);
}

tl_status tl_comm_barrier(tl_comm_group *g)
{
    return tl_comm_call_now(g, &(tl_comm_call){.kind = TL_COMM_BARRIER});
}

tl_status tl_comm_all_to_all(tl_comm_group *g, const tl_part *send, const tl_part *recv)
{
    return tl_comm_call_now(
        g, &(tl_comm_call){.kind = TL_COMM_ALL_TO_ALL, .send = send, .recv = recv});
}

tl_status tl_comm_all_gather(tl_comm_group *g, const tl_part *send, const tl_part *recv)
{
    return tl_comm_call_now(
        g, &(tl_comm_call){.kind = TL_COMM_ALL_GATHER, .send = send, .recv = recv});
}

tl_status tl_comm_broadcast(tl_comm_group *g, void *data, size_t bytes, int32_t from)
{
    return tl_comm_call_now(
        g,
        &(tl_comm_call){.kind = TL_COMM_BROADCAST, .recv = &(tl_part){data, bytes}, .peer = from});
}

tl_status tl_comm_send(tl_comm_group *g, const void *data, size_t bytes, int32_t to)
{
    return tl_comm_call_now(g, &(tl_comm_call){.kind = TL_COMM_SEND,
                                               .send = &(tl_part){(void *)(uintptr_t)data, bytes},
                                               .peer = to});
}

tl_status tl_comm_recv(tl_comm_group *g, void *data, size_t bytes, int32_t from)
{
    return tl_comm_call_now(
        g, &(tl_comm_call){.kind = TL_COMM_RECV, .recv = &(tl_part){data, bytes}, .peer = from});
}

tl_status tl_comm_all_reduce(tl_comm_group *g, const tl_comm_sum *sum)
{
    return tl_comm_call_now(g, &(tl_comm_call){.kind = TL_COMM_ALL_REDUCE, .sum = *sum});
}

tl_status tl_comm_reduce_scatter(tl_comm_group *g, const tl_comm_sum *sum)
{
    return tl_comm_call_now(g, &(tl_comm_call){.kind = TL_COMM_REDUCE_SCATTER, .sum = *sum});
}
