#include "comm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tilth/base/alloc.h>

/* --- opening and closing ---------------------------------------------------------------------- */

tl_status tl_comm_place_new(tl_comm_place **out, int32_t size)
{
    *out = NULL;
    if (size < 1 || size > TL_COMM_SHM_RANKS)
        return TL_FAIL(TL_EINVAL, "shared memory joins 1 to %d threads, not %" PRId32,
                       TL_COMM_SHM_RANKS, size);
    tl_comm_place *p = tl_alloc_zero(sizeof *p);
    if (!p) return TL_FAIL_NOMEM(sizeof *p);
    p->size = size;
    p->bytes = tli_shm_page_bytes(size);
    p->head = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p->head == MAP_FAILED) {
        tl_free(p);
        return TL_FAIL_NOMEM(tli_shm_page_bytes(size));
    }
    tli_shm_page_init(p->head, size);
    pthread_mutex_init(&p->lock, NULL);
    *out = p;
    return TL_OK;
}

void tl_comm_place_free(tl_comm_place **place)
{
    tl_comm_place *p = *place;
    if (!p) return;
    for (int64_t i = 0; i < p->count; i++) tl_free(p->memory[i]);
    tl_free(p->memory);
    munmap(p->head, p->bytes);
    pthread_mutex_destroy(&p->lock);
    tl_free(p);
    *place = NULL;
}

static tl_status open_page(tli_shm *s, int file, int32_t size)
{
    tli_shm_head right = {0};
    struct stat st;
    s->head_bytes = tli_shm_page_bytes(size);
    if (fstat(file, &st) < 0 || (uint64_t)st.st_size != s->head_bytes
        || !(fcntl(file, F_GET_SEALS) & F_SEAL_SHRINK))
        return TL_FAIL(TL_EINVAL,
                       "descriptor %d is no memory that was prepared for %" PRId32 " processes",
                       file, size);
    s->head = mmap(NULL, s->head_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (s->head == MAP_FAILED) {
        s->head = NULL;
        return TL_FAIL(TL_ENOMEM, "memory that processes share: mmap: %s", strerror(errno));
    }
    tli_shm_page_init(&right, size);
    if (s->head->magic != right.magic || s->head->version != right.version || s->head->size != size)
        return TL_FAIL(TL_EINVAL, "the processes of this run are of different versions of Tilth");
    return TL_OK;
}

/* The peers' descriptors are ours too; the caller closes its own. */
static tl_status open_files(tl_comm *c, const int *files)
{
    tli_shm *s = c->inner;
    s->files = tl_alloc((size_t)c->size * sizeof *s->files);
    s->peers = tl_alloc_zero((size_t)c->size * sizeof *s->peers);
    if (!s->files || !s->peers) {
        tl_free(s->files);
        s->files = NULL;
        return TL_FAIL_NOMEM((size_t)c->size * sizeof *s->peers);
    }
    for (int32_t r = 0; r < c->size; r++) s->files[r] = -1;
    for (int32_t r = 0; r < c->size; r++) {
        s->files[r] = fcntl(files[1 + r], F_DUPFD_CLOEXEC, 3);
        if (s->files[r] < 0)
            return TL_FAIL(TL_EIO, "the memory of rank %" PRId32 " (descriptor %d): %s", r,
                           files[1 + r], strerror(errno));
        if (!(fcntl(s->files[r], F_GET_SEALS) & F_SEAL_SHRINK))
            return TL_FAIL(TL_EINVAL, "descriptor %d is no memory of rank %" PRId32, files[1 + r],
                           r);
    }
    return open_page(s, files[0], c->size);
}

/* Looking pays where the one that is waited for runs at the same time. */
static int looks_before_sleep(int32_t size)
{
    cpu_set_t set;
    int cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return size <= cpus ? 200 : 0;
}

static void free_end(tl_comm *c)
{
    tli_shm *s = c->inner;
    tli_shm_memory_close(c);
    if (s->head && !s->place) munmap(s->head, s->head_bytes);
    tl_free(s->next);
    tl_free(s);
    c->inner = NULL;
}

static tl_status open_shm(tl_comm *c, const tl_comm_args *args)
{
    if (args->size > TL_COMM_SHM_RANKS)
        return TL_FAIL(TL_EINVAL, "shared memory joins 1 to %d processes, not %" PRId32,
                       TL_COMM_SHM_RANKS, args->size);
    if (!args->place == !args->files)
        return TL_FAIL(TL_EINVAL, "shared memory needs what `tilth launch` prepares");
    if (args->place && args->place->size != args->size)
        return TL_FAIL(TL_EINVAL, "the place is one for %" PRId32 " threads", args->place->size);
    tli_shm *s = c->inner = tl_alloc_zero(sizeof *s);
    if (!s) return TL_FAIL_NOMEM(sizeof *s);
    s->looks = looks_before_sleep(args->size);
    s->place = args->place;
    if (s->place) s->head = s->place->head;
    s->next = tl_alloc_zero(2 * (size_t)args->size * sizeof *s->next);
    tl_status st = s->next ? TL_OK : TL_FAIL_NOMEM(2 * (size_t)args->size * sizeof *s->next);
    if (st == TL_OK && !s->place) st = open_files(c, args->files);
    if (st != TL_OK) free_end(c);
    return st;
}

static void close_shm(tl_comm *c)
{
    char why[64];
    snprintf(why, sizeof why, "rank %" PRId32 " has left the run", c->rank);
    tli_shm_end(c->inner, why);
    free_end(c);
}

static void abort_shm(tl_comm *c, const char *why)
{
    tli_shm_end(c->inner, why);
}

/* --- a call of a group ------------------------------------------------------------------------ */

/* Bits of inner[1]. */
enum { SMALL = 1, SHOWN = 2, LEFT = 4 };
/* Pieces that copies are in; the last is that of what comes back, or -1. */
typedef struct held {
    int64_t count;
    int64_t piece[];
} held;

static uint32_t whole(const tl_comm_work *w)
{
    return (uint32_t)(w->number / TLI_SHM_SLOTS + 1) * (uint32_t)w->group->size;
}

static tli_shm_slot *slot_of(const tl_comm_work *w)
{
    return tli_shm_slot_of(w->group->comm->inner, w->group->number, w->number);
}

static tli_shm_face *face_of(const tl_comm_work *w, int32_t rank)
{
    return tli_shm_face_of(w->group->comm->inner, w->group->number, w->number, rank);
}

static char *mail_of(const tl_comm_work *w, int32_t rank)
{
    return tli_shm_mail_of(w->group->comm->inner, w->group->number, w->number, rank);
}

static void let_go(tl_comm_work *w)
{
    tli_shm *s = w->group->comm->inner;
    held *h = w->inner[0];
    for (int64_t i = 0; h && i < h->count; i++)
        if (h->piece[i] >= 0) s->pieces[h->piece[i]].busy = false;
    tl_free(h);
    w->inner[0] = NULL;
}

/* A failure here is one of all: they would wait for us for ever. */
static tl_status end_with(tl_comm_work *w, tl_status st)
{
    if (st == TL_OK) return st;
    let_go(w);
    tli_shm_end(w->group->comm->inner, tl_error_message());
    return st;
}

/* Largest number of partials that a rank brings. */
static int64_t most_partials(const tl_comm_work *w)
{
    tl_lanes l = {w->call.sum.lanes, w->group->size};
    tl_lane_block blocks[TL_LANE_BLOCKS];
    int64_t most = 1;
    if (l.lanes == l.ranks) return 1;
    for (int32_t r = 0; r < w->group->size; r++) {
        int64_t count = tl_lanes_blocks(&l, r, blocks);
        if (count > most) most = count;
    }
    return most;
}

/* What we show, copied into the mail or where it lies. */
static tl_status show(tl_comm_work *w, const tl_part *parts, int64_t count, const tl_part *back)
{
    tli_shm_face *face = face_of(w, w->group->rank);
    if ((uintptr_t)w->inner[1] & SMALL) {
        char *mail = mail_of(w, w->group->rank);
        size_t at = 0;
        for (int64_t i = 0; i < count; i++) {
            face->where[i] = (tli_shm_where){at | TLI_SHM_IN_MAIL, parts[i].bytes};
            if (parts[i].bytes) memcpy(mail + at, parts[i].data, parts[i].bytes);
            at += parts[i].bytes;
        }
        return TL_OK;
    }
    held *h = tl_alloc_zero(sizeof *h + (size_t)(count + 1) * sizeof h->piece[0]);
    if (!h) return TL_FAIL_NOMEM(sizeof *h);
    w->inner[0] = h;
    w->inner[1] = (void *)((uintptr_t)w->inner[1] | SHOWN);
    for (int64_t i = 0; i < count; i++) {
        h->piece[h->count++] = -1;
        TL_TRY(tli_shm_show(w->group->comm, &face->where[i], &h->piece[i], parts[i].data,
                            parts[i].bytes, true));
    }
    h->piece[h->count++] = -1;
    if (!back) return TL_OK;
    return tli_shm_show(w->group->comm, &face->where[count], &h->piece[count], back->data,
                        back->bytes, false);
}

static tl_status show_sum(tl_comm_work *w)
{
    const tl_comm_sum *s = &w->call.sum;
    tl_lanes l = {s->lanes, w->group->size};
    tl_lane_block blocks[TL_LANE_BLOCKS];
    tl_part parts[TL_LANE_BLOCKS];
    int64_t count = tl_lanes_blocks(&l, w->group->rank, blocks);
    size_t bytes = (size_t)s->count * tl_dtype_size(s->dtype);
    for (int64_t i = 0; i < count; i++)
        parts[i] = (tl_part){(void *)(uintptr_t)s->partials[i], bytes};
    if (bytes <= TLI_SHM_MAIL / (size_t)most_partials(w)) w->inner[1] = (void *)SMALL;
    const tl_part out = {s->out, bytes};
    return show(w, parts, count, w->call.kind == TL_COMM_ALL_REDUCE ? &out : NULL);
}

static tl_status show_parts(tl_comm_work *w)
{
    const tl_comm_call *call = &w->call;
    int64_t count = 0;
    const tl_part *parts = call->send;
    if (call->kind == TL_COMM_ALL_TO_ALL) count = w->group->size;
    if (call->kind == TL_COMM_ALL_GATHER) count = 1;
    if (call->kind == TL_COMM_BROADCAST && call->peer == w->group->rank) {
        parts = call->recv;
        count = 1;
    }
    size_t bytes = 0;
    for (int64_t i = 0; i < count; i++) bytes += parts[i].bytes;
    if (bytes <= TLI_SHM_MAIL) w->inner[1] = (void *)SMALL;
    return show(w, parts, count, NULL);
}

static tl_status begin_call(tl_comm_work *w)
{
    tli_shm *s = w->group->comm->inner;
    tli_shm_face *face = face_of(w, w->group->rank);
    const bool sum = w->call.kind >= TL_COMM_ALL_REDUCE;
    TL_TRY(tli_shm_check(s));
    // All have left the last call of this slot: what we showed there can go.
    TL_TRY(tli_shm_wait(s, &slot_of(w)->parted, whole(w) - (uint32_t)w->group->size));
    *face = (tli_shm_face){.kind = (int32_t)w->call.kind, .peer = w->call.peer};
    if (sum) {
        face->dtype = (int32_t)w->call.sum.dtype;
        face->count = w->call.sum.count;
        face->lanes = w->call.sum.lanes;
    }
    TL_TRY(sum ? show_sum(w) : show_parts(w));
    tli_shm_add(&slot_of(w)->arrived, whole(w));
    return TL_OK;
}

static void describe(char out[128], const tli_shm_face *f)
{
    const char *name = tl_comm_kind_name((tl_comm_kind)f->kind);
    if (f->kind < TL_COMM_ALL_REDUCE)
        snprintf(out, 128, f->kind == TL_COMM_BROADCAST ? "%s of rank %" PRId32 : "%s", name,
                 f->peer);
    else
        snprintf(out, 128, "%s of %" PRId64 " %s of %" PRId64 " lanes", name, f->count,
                 tl_dtype_name((tl_dtype)f->dtype), f->lanes);
}

/* All make the same call. */
static tl_status compare(const tl_comm_work *w)
{
    const tli_shm_face *first = face_of(w, 0);
    for (int32_t r = 1; r < w->group->size; r++) {
        const tli_shm_face *f = face_of(w, r);
        if (f->kind == first->kind && f->dtype == first->dtype && f->peer == first->peer
            && f->count == first->count && f->lanes == first->lanes)
            continue;
        char a[128], b[128];
        describe(a, first);
        describe(b, f);
        return TL_FAIL(TL_EPEER,
                       "processes make different calls: rank %" PRId32 " %s, rank %" PRId32
                       " %s (call %" PRId64 " of their group)",
                       w->group->ranks[0], a, w->group->ranks[r], b, w->number);
    }
    return TL_OK;
}

static tl_status see(tl_comm_work *w, void **out, int32_t rank, tli_shm_where where)
{
    if (!(where.at & TLI_SHM_IN_MAIL))
        return tli_shm_see(w->group->comm, out, w->group->ranks[rank], where);
    where.at &= ~TLI_SHM_IN_MAIL;
    if (where.at > TLI_SHM_MAIL || where.bytes > TLI_SHM_MAIL - where.at)
        return TL_FAIL(TL_EPEER, "rank %" PRId32 " shows a mail that is too long",
                       w->group->ranks[rank]);
    *out = mail_of(w, rank) + where.at;
    return TL_OK;
}

static tl_status meet_all(tl_comm_work *w)
{
    TL_TRY(tli_shm_wait(w->group->comm->inner, &slot_of(w)->arrived, whole(w)));
    return compare(w);
}

static void leave_all(tl_comm_work *w)
{
    tli_shm_add(&slot_of(w)->parted, whole(w));
    w->inner[1] = (void *)((uintptr_t)w->inner[1] | LEFT);
}

/* We are done; and where others look at what is ours, so are they. */
static tl_status part_all(tl_comm_work *w)
{
    if (!((uintptr_t)w->inner[1] & LEFT)) leave_all(w);
    if (!((uintptr_t)w->inner[1] & SHOWN)) return TL_OK;
    return tli_shm_wait(w->group->comm->inner, &slot_of(w)->parted, whole(w));
}

/* --- calls that move bytes -------------------------------------------------------------------- */

static tl_status take(tl_comm_work *w, int32_t rank, int64_t part, const tl_part *to)
{
    tli_shm_where where = face_of(w, rank)->where[part];
    void *from;
    if (where.bytes != to->bytes)
        return TL_FAIL(TL_EPEER,
                       "%s: rank %" PRId32 " sends %" PRIu64 " bytes, rank %" PRId32 " expects %zu",
                       tl_comm_kind_name(w->call.kind), w->group->ranks[rank], where.bytes,
                       w->group->comm->rank, to->bytes);
    TL_TRY(see(w, &from, rank, where));
    if (to->bytes && to->data != from) memcpy(to->data, from, to->bytes);
    return TL_OK;
}

static tl_status take_parts(tl_comm_work *w)
{
    const tl_comm_call *call = &w->call;
    const int32_t me = w->group->rank;
    if (call->kind == TL_COMM_BROADCAST && call->peer != me)
        return take(w, call->peer, 0, call->recv);
    if (call->kind != TL_COMM_ALL_TO_ALL && call->kind != TL_COMM_ALL_GATHER) return TL_OK;
    for (int32_t i = 1; i <= w->group->size; i++) {
        // Each begins with another peer, and ends with itself.
        int32_t r = (me + i) % w->group->size;
        const tl_part *own = &call->send[call->kind == TL_COMM_ALL_TO_ALL ? r : 0];
        if (r == me && own->data == call->recv[r].data) continue;
        TL_TRY(take(w, r, call->kind == TL_COMM_ALL_TO_ALL ? me : 0, &call->recv[r]));
    }
    return TL_OK;
}

static tl_status wait_call(tl_comm_work *w)
{
    TL_TRY(meet_all(w));
    TL_TRY(take_parts(w));
    TL_TRY(part_all(w));
    let_go(w);
    return TL_OK;
}

/* --- messages of two -------------------------------------------------------------------------- */

static tli_shm_pair *pair_of(const tl_comm_work *w)
{
    const tl_comm_group *g = w->group;
    int32_t me = g->ranks[g->rank], peer = g->ranks[w->call.peer];
    bool sends = w->call.kind == TL_COMM_SEND;
    return tli_shm_pair_of(g->comm->inner, sends ? me : peer, sends ? peer : me);
}

static tl_status begin_message(tl_comm_work *w)
{
    tli_shm *s = w->group->comm->inner;
    tli_shm_pair *p = pair_of(w);
    TL_TRY(tli_shm_check(s));
    // Only we send to this peer, and only we receive of it: the numbers are ours.
    uint32_t *next = &s->next[2 * w->group->ranks[w->call.peer] + (w->call.kind == TL_COMM_SEND)];
    uint32_t number = (*next)++;
    w->inner[2] = (void *)(uintptr_t)number;
    if (w->call.kind == TL_COMM_RECV) return TL_OK;
    held *h = tl_alloc_zero(sizeof *h + sizeof h->piece[0]);
    if (!h) return TL_FAIL_NOMEM(sizeof *h);
    h->count = 1;
    h->piece[0] = -1;
    w->inner[0] = h;
    TL_TRY(tli_shm_wait(s, &p->taken, number + 1 - TLI_SHM_SLOTS));
    TL_TRY(tli_shm_show(w->group->comm, &p->where[number % TLI_SHM_SLOTS], &h->piece[0],
                        w->call.send->data, w->call.send->bytes, true));
    tli_shm_add(&p->sent, number + 1);
    return TL_OK;
}

static tl_status wait_message(tl_comm_work *w)
{
    tli_shm *s = w->group->comm->inner;
    tli_shm_pair *p = pair_of(w);
    uint32_t number = (uint32_t)(uintptr_t)w->inner[2];
    if (w->call.kind == TL_COMM_SEND) {
        TL_TRY(tli_shm_wait(s, &p->taken, number + 1));
        let_go(w);
        return TL_OK;
    }
    TL_TRY(tli_shm_wait(s, &p->sent, number + 1));
    int32_t from = w->group->ranks[w->call.peer];
    tli_shm_where where = p->where[number % TLI_SHM_SLOTS];
    void *data;
    if (where.bytes != w->call.recv->bytes)
        return TL_FAIL(TL_EPEER,
                       "rank %" PRId32 " sends %" PRIu64 " bytes, rank %" PRId32 " expects %zu",
                       from, where.bytes, w->group->comm->rank, w->call.recv->bytes);
    TL_TRY(tli_shm_see(w->group->comm, &data, from, where));
    if (where.bytes) memcpy(w->call.recv->data, data, where.bytes);
    tli_shm_add(&p->taken, number + 1);
    return TL_OK;
}

static bool is_message(const tl_comm_work *w)
{
    return w->call.kind == TL_COMM_SEND || w->call.kind == TL_COMM_RECV;
}

static tl_status begin_shm(tl_comm_work *w)
{
    return end_with(w, is_message(w) ? begin_message(w) : begin_call(w));
}

static tl_status wait_shm(tl_comm_work *w)
{
    return end_with(w, is_message(w) ? wait_message(w) : wait_call(w));
}

/* --- sums ------------------------------------------------------------------------------------- */

static tl_status see_all(tl_comm_work *w)
{
    tl_lanes l = {w->call.sum.lanes, w->group->size};
    tl_lane_block blocks[TL_LANE_BLOCKS];
    const size_t bytes = (size_t)w->call.sum.count * tl_dtype_size(w->call.sum.dtype);
    const bool back = w->call.kind == TL_COMM_ALL_REDUCE && !((uintptr_t)w->inner[1] & SMALL);
    for (int32_t r = 0; r < w->group->size; r++) {
        int64_t count = tl_lanes_blocks(&l, r, blocks);
        for (int64_t i = 0; i < count + back; i++) {
            void *data;
            if (face_of(w, r)->where[i].bytes != bytes)
                return TL_FAIL(TL_EPEER, "rank %" PRId32 " shows too little", w->group->ranks[r]);
            TL_TRY(see(w, &data, r, face_of(w, r)->where[i]));
        }
    }
    return TL_OK;
}

static tl_status meet_shm(tl_comm_work *w, bool *small)
{
    *small = (uintptr_t)w->inner[1] & SMALL;
    tl_status st = meet_all(w);
    return end_with(w, st == TL_OK ? see_all(w) : st);
}

/* meet_shm has seen all of it. */
static void face_shm(tl_comm_work *w, int32_t rank, tl_comm_face *out)
{
    tl_lanes l = {w->call.sum.lanes, w->group->size};
    tl_lane_block blocks[TL_LANE_BLOCKS];
    int64_t count = tl_lanes_blocks(&l, rank, blocks);
    const tli_shm_face *face = face_of(w, rank);
    void *data = NULL;
    for (int64_t i = 0; i < count; i++) {
        tl_status st = see(w, &data, rank, face->where[i]);
        TL_ASSERT(st == TL_OK);
        (void)st;
        out->partials[i] = data;
    }
    out->out = NULL;
    if ((uintptr_t)w->inner[1] & SMALL || w->call.kind != TL_COMM_ALL_REDUCE) return;
    tl_status st = see(w, &out->out, rank, face->where[count]);
    TL_ASSERT(st == TL_OK);
    (void)st;
}

static tl_status part_sum(tl_comm_work *w)
{
    tli_shm *s = w->group->comm->inner;
    const held *h = w->inner[0];
    const tl_comm_sum *sum = &w->call.sum;
    TL_TRY(part_all(w));
    if (h && h->piece[h->count - 1] >= 0)
        memcpy(sum->out, s->pieces[h->piece[h->count - 1]].base,
               (size_t)sum->count * tl_dtype_size(sum->dtype));
    let_go(w);
    return TL_OK;
}

static tl_status part_shm(tl_comm_work *w)
{
    return end_with(w, part_sum(w));
}

static tl_status leave_shm(tl_comm_work *w)
{
    leave_all(w);
    return TL_OK;
}

static bool ready_shm(tl_comm_work *w)
{
    const uintptr_t bits = (uintptr_t)w->inner[1];
    tli_shm_slot *slot = slot_of(w);
    if (bits & LEFT && !(bits & SHOWN)) return true;
    return tli_shm_is_over(w->group->comm->inner, bits & LEFT ? &slot->parted : &slot->arrived,
                           whole(w));
}

const tl_comm_class tl_comm_shm = {
    .cls = {.class_size = sizeof(tl_comm_class),
            .name = "shm",
            .help = "processes of one machine, by memory that they share"},
    .open = open_shm,
    .close = close_shm,
    .begin = begin_shm,
    .wait = wait_shm,
    .meet = meet_shm,
    .face = face_shm,
    .part = part_shm,
    .alloc = tli_shm_alloc,
    .release = tli_shm_release,
    .share = tli_shm_share,
    .unshare = tli_shm_unshare,
    .abort = abort_shm,
    .ready = ready_shm,
    .leave = leave_shm,
};

static const tl_entry entries[] = {{&tl_kind_comm, &tl_comm_none.cls},
                                   {&tl_kind_comm, &tl_comm_shm.cls}};
const tl_module tl_comm_module = {TL_MODULE_HEAD("comm"), entries, TL_COUNT(entries)};
