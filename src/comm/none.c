#include <tilth/core/comm.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <tilth/base/alloc.h>

/* One rank: what is sent is received. */
typedef struct alone {
    atomic_int ended; /* 1: the reason is being written, 2: it stands */
    char why[1024];
    void **memory;
    int64_t count;
} alone;

static tl_status open_alone(tl_comm *c, const tl_comm_args *args)
{
    if (args->size != 1)
        return TL_FAIL(TL_EINVAL, "the transport 'none' is for one process, and there are %d",
                       (int)args->size);
    c->inner = tl_alloc_zero(sizeof(alone));
    return c->inner ? TL_OK : TL_FAIL_NOMEM(sizeof(alone));
}

static void close_alone(tl_comm *c)
{
    alone *a = c->inner;
    for (int64_t i = 0; i < a->count; i++) tl_free(a->memory[i]);
    tl_free(a->memory);
    tl_free(a);
}

static tl_status check_alone(tl_comm *c)
{
    const alone *a = c->inner;
    return atomic_load(&a->ended) == 2 ? TL_FAIL(TL_EPEER, "%s", a->why) : TL_OK;
}

static tl_status begin_alone(tl_comm_work *w)
{
    return check_alone(w->group->comm);
}

static tl_status wait_alone(tl_comm_work *w)
{
    const tl_comm_call *call = &w->call;
    bool moves = call->kind == TL_COMM_ALL_TO_ALL || call->kind == TL_COMM_ALL_GATHER;
    TL_TRY(check_alone(w->group->comm));
    if (!moves || call->send->data == call->recv->data || !call->send->bytes) return TL_OK;
    if (call->send->bytes != call->recv->bytes)
        return TL_FAIL(TL_EINVAL, "%s: %zu bytes are sent, %zu received",
                       tl_comm_kind_name(call->kind), call->send->bytes, call->recv->bytes);
    memmove(call->recv->data, call->send->data, call->send->bytes);
    return TL_OK;
}

static tl_status meet_alone(tl_comm_work *w, bool *small)
{
    *small = true;
    return check_alone(w->group->comm);
}

static void face_alone(tl_comm_work *w, int32_t rank, tl_comm_face *out)
{
    (void)rank;
    out->partials[0] = w->call.sum.partials[0];
    out->out = w->call.sum.out;
}

static tl_status part_alone(tl_comm_work *w)
{
    (void)w;
    return TL_OK;
}

static void *alloc_alone(tl_comm *c, size_t bytes)
{
    enum { PAGE = 4096 };
    alone *a = c->inner;
    void **memory = tl_realloc(a->memory, (size_t)(a->count + 1) * sizeof *memory);
    if (memory) a->memory = memory;
    void *made = memory ? tl_alloc_aligned(PAGE, bytes ? bytes : 1) : NULL;
    if (!made) {
        (void)TL_FAIL_NOMEM(bytes);
        return NULL;
    }
    memset(made, 0, bytes);
    return a->memory[a->count++] = made;
}

static void abort_alone(tl_comm *c, const char *why)
{
    alone *a = c->inner;
    int running = 0;
    if (!atomic_compare_exchange_strong(&a->ended, &running, 1)) return;
    snprintf(a->why, sizeof a->why, "%s", why);
    atomic_store(&a->ended, 2);
}

const tl_comm_class tl_comm_none = {
    .cls = {.class_size = sizeof(tl_comm_class), .name = "none", .help = "one process alone"},
    .open = open_alone,
    .close = close_alone,
    .begin = begin_alone,
    .wait = wait_alone,
    .meet = meet_alone,
    .face = face_alone,
    .part = part_alone,
    .alloc = alloc_alone,
    .abort = abort_alone,
};
