#include "core/comm.h"

#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>

enum {
    LINE = 64,
    /* of a piece that goes through the whole tree at once: with the sums on the way it stays in the
     * cache that is nearest */
    TILE = 4096,
    GRAIN = 65536, /* bytes that a thread adds at least */
    /* bytes up to which all add all: one exchange instead of two, for more work */
    SMALL = 4096,
};

/* --- the tree as a list ----------------------------------------------------------------------- */

/* Registers are what ranks bring, one after the other, then sums on the way. */
typedef struct node {
    int32_t to, a, b;
} node;
typedef struct tree {
    int32_t inputs, nodes, sums;
    node node[];
} tree;

/* How many partials all ranks in front of `rank` bring. */
static int32_t partials_before(const tl_lanes *l, int32_t rank)
{
    tl_lane_block blocks[TL_LANE_BLOCKS];
    int64_t count = 0;
    if (l->lanes == l->ranks) return rank;
    for (int32_t r = 0; r < rank; r++) count += tl_lanes_blocks(l, r, blocks);
    return (int32_t)count;
}

static int32_t partials_of(const tl_lanes *l, int32_t rank)
{
    tl_lane_block blocks[TL_LANE_BLOCKS];
    return (int32_t)tl_lanes_blocks(l, rank, blocks);
}

static tl_status tree_new(tree **out, const tl_lanes *l)
{
    int32_t inputs = partials_before(l, (int32_t)l->ranks), height = 0;
    int32_t stack[2 * TL_LANE_BLOCKS];
    tl_lane_block blocks[TL_LANE_BLOCKS];
    tree *t = tl_alloc_zero(sizeof *t + (size_t)inputs * sizeof t->node[0]);
    *out = t;
    if (!t) return TL_FAIL_NOMEM(sizeof *t + (size_t)inputs * sizeof t->node[0]);
    t->inputs = inputs;
    for (int32_t r = 0, input = 0; r < l->ranks; r++) {
        int64_t count = tl_lanes_blocks(l, r, blocks);
        for (int64_t i = 0; i < count; i++) {
            stack[height++] = input++;
            for (int64_t joins = tl_lanes_joins(l, blocks[i]); joins > 0; joins--) {
                height--;
                int32_t to = inputs + height - 1; // a sum's place is that of its lower half
                t->node[t->nodes++] = (node){to, stack[height - 1], stack[height]};
                stack[height - 1] = to;
                if (t->sums < height) t->sums = height;
            }
        }
    }
    TL_ASSERT(height == 1 && t->nodes == inputs - 1);
    return TL_OK;
}

/* --- adding ----------------------------------------------------------------------------------- */

typedef struct adding {
    const tree *tree;
    tl_dtype dtype;
    int64_t count;
    const char *const *in; /* [inputs] where the piece begins */
    char *const *out;      /* [outs] the same for the sum */
    int32_t outs;
} adding;

/* Bytes from .. to - 1 of the piece. */
static tl_status add_tile(const adding *a, size_t from, size_t bytes, char *room)
{
    const tree *t = a->tree;
    int64_t count = (int64_t)(bytes / tl_dtype_size(a->dtype));
    const char *sum = a->in[0] + from;
    for (int32_t i = 0; i < t->nodes; i++) {
        const node *n = &t->node[i];
        const char *left = n->a < t->inputs ? a->in[n->a] + from : room + (n->a - t->inputs) * TILE;
        const char *right =
            n->b < t->inputs ? a->in[n->b] + from : room + (n->b - t->inputs) * TILE;
        char *to = i + 1 == t->nodes ? a->out[0] + from : room + (n->to - t->inputs) * TILE;
        TL_TRY(tl_lanes_add(a->dtype, to, left, right, count));
        sum = to;
    }
    for (int32_t i = 0; i < a->outs; i++)
        if (a->out[i] + from != sum) memcpy(a->out[i] + from, sum, bytes);
    return TL_OK;
}

static tl_status add_some(int64_t begin, int64_t end, void *payload)
{
    const adding *a = payload;
    _Alignas(LINE) char room[TL_LANE_BLOCKS * TILE];
    size_t size = tl_dtype_size(a->dtype), last = (size_t)end * size;
    TL_ASSERT(a->tree->sums <= TL_LANE_BLOCKS);
    for (size_t at = (size_t)begin * size; at < last; at += TILE)
        TL_TRY(add_tile(a, at, last - at < TILE ? last - at : TILE, room));
    return TL_OK;
}

static tl_status add_all(tl_pool *threads, const adding *a)
{
    if (a->count == 0) return TL_OK;
    int64_t grain = GRAIN / (int64_t)tl_dtype_size(a->dtype);
    return tl_parallel_for(threads, a->count, grain, add_some, (void *)(uintptr_t)a);
}

/* --- what all sums have in common ------------------------------------------------------------- */

static tl_lanes lanes_of(const tl_comm_work *w)
{
    return (tl_lanes){w->call.sum.lanes, w->group->size};
}

int64_t tl_comm_cut(int64_t count, tl_dtype dtype, int32_t rank, int32_t size)
{
    int64_t line = LINE / (int64_t)tl_dtype_size(dtype);
    int64_t lines = (count + line - 1) / line;
    int64_t at = (lines / size * rank + lines % size * rank / size) * line;
    return tl_min_i64(at, count);
}

static int64_t cut(const tl_comm_work *w, int32_t rank)
{
    const tl_comm_sum *s = &w->call.sum;
    if (w->call.kind == TL_COMM_REDUCE_SCATTER && s->cuts) return s->cuts[rank];
    return rank == w->group->size ? s->count
                                  : tl_comm_cut(s->count, s->dtype, rank, w->group->size);
}

tl_status tli_comm_sum_check(const tl_comm_group *g, const tl_comm_call *call)
{
    const tl_comm_sum *s = &call->sum;
    const char *name = tl_comm_kind_name(call->kind);
    int64_t most = INT64_MAX / (int64_t)tl_dtype_size(s->dtype);
    TL_TRY_NOTE(tl_lanes_check(&(tl_lanes){s->lanes, g->size}), "%s", name);
    if (s->dtype == TL_BOOL) return TL_FAIL(TL_EINVAL, "%s: bool cannot be added up", name);
    if (s->count < 0 || s->count > most)
        return TL_FAIL(TL_EINVAL, "%s of %" PRId64 " elements", name, s->count);
    if (call->kind != TL_COMM_REDUCE_SCATTER || !s->cuts) return TL_OK;
    for (int32_t r = 0; r < g->size; r++)
        if (s->cuts[r] > s->cuts[r + 1])
            return TL_FAIL(TL_EINVAL, "%s: the piece of rank %" PRId32 " ends before it begins",
                           name, r);
    if (s->cuts[0] != 0 || s->cuts[g->size] != s->count)
        return TL_FAIL(TL_EINVAL, "%s: pieces do not cover the sum", name);
    return TL_OK;
}

/* --- looking into peers' memory --------------------------------------------------------------- */

/* What `in` and `out` need for all ranks. */
typedef struct pointers {
    tree *tree;
    const char **in;
    char **out;
} pointers;

static tl_status pointers_new(pointers *p, const tl_comm_work *w)
{
    tl_lanes l = lanes_of(w);
    TL_TRY(tree_new(&p->tree, &l));
    p->in = tl_alloc((size_t)p->tree->inputs * sizeof *p->in);
    p->out = tl_alloc((size_t)w->group->size * sizeof *p->out);
    if (p->in && p->out) return TL_OK;
    return TL_FAIL_NOMEM((size_t)p->tree->inputs * sizeof *p->in);
}

static void pointers_free(pointers *p)
{
    tl_free(p->tree);
    tl_free(p->in);
    tl_free(p->out);
}

tl_status tli_comm_sum_look(tl_comm_work *w)
{
    const tl_comm_sum *s = &w->call.sum;
    const tl_comm_class *cls = w->group->comm->cls;
    const bool scatter = w->call.kind == TL_COMM_REDUCE_SCATTER;
    const size_t size = tl_dtype_size(s->dtype);
    pointers p = {0};
    bool small;
    tl_lanes l = lanes_of(w);
    tl_status st = pointers_new(&p, w);
    if (st == TL_OK) st = cls->meet(w, &small);
    if (st != TL_OK) goto done;
    int64_t from = small && !scatter ? 0 : cut(w, w->group->rank);
    int64_t to = small && !scatter ? s->count : cut(w, w->group->rank + 1);
    int32_t outs = 0, input = 0;
    // Our own sum is written first, and read from the cache for the peers'.
    p.out[outs++] = (char *)s->out;
    for (int32_t r = 0; r < w->group->size; r++) {
        tl_comm_face face;
        cls->face(w, r, &face);
        for (int32_t i = 0, count = partials_of(&l, r); i < count; i++)
            p.in[input++] = (const char *)face.partials[i] + (size_t)from * size;
        if (scatter || small) continue;
        p.out[r == w->group->rank ? 0 : outs++] = (char *)face.out + (size_t)from * size;
    }
    st = add_all(w->group->comm->threads, &(adding){.tree = p.tree,
                                                    .dtype = s->dtype,
                                                    .count = to - from,
                                                    .in = p.in,
                                                    .out = p.out,
                                                    .outs = outs});
    if (st == TL_OK && cls->leave) st = cls->leave(w);
done:
    pointers_free(&p);
    return st;
}

tl_status tli_comm_sum_part(tl_comm_work *w)
{
    return w->group->comm->cls->part(w);
}

/* --- carrying bytes --------------------------------------------------------------------------- */

/* A sum on its way over a transport that only carries bytes. */
typedef struct carried {
    tl_comm_work work; /* the exchange under way */
    pointers p;
    tl_part *send, *recv;
    char *room; /* what is received, then what is sent where it had to be put together */
    size_t room_bytes;
    bool small;
    bool gathers; /* the results, at last */
} carried;

static void carried_free(carried *c, tl_comm *comm)
{
    if (!c) return;
    for (int i = 0; i < TL_COMM_UNDER_WAY && c->room; i++) {
        if (comm->rooms[i].data) continue;
        comm->rooms[i].data = c->room;
        comm->rooms[i].bytes = c->room_bytes;
        c->room = NULL;
    }
    tl_free(c->room);
    pointers_free(&c->p);
    tl_free(c->send);
    tl_free(c->recv);
    tl_free(c);
}

static tl_status take_room(carried *c, tl_comm *comm, size_t bytes)
{
    int other = 0; // that is too small, and goes
    for (int i = 0; i < TL_COMM_UNDER_WAY; i++) {
        if (!comm->rooms[i].data) continue;
        other = i;
        if (comm->rooms[i].bytes < bytes) continue;
        c->room = comm->rooms[i].data;
        c->room_bytes = comm->rooms[i].bytes;
        comm->rooms[i].data = NULL;
        return TL_OK;
    }
    tl_free(comm->rooms[other].data);
    comm->rooms[other].data = NULL;
    c->room = tl_alloc_aligned(LINE, bytes ? bytes : 1);
    c->room_bytes = bytes;
    return c->room ? TL_OK : TL_FAIL_NOMEM(bytes);
}

/* The pieces of all our partials for a rank, behind each other. */
static char *put_together(char *to, const tl_comm_work *w, int32_t mine, size_t from, size_t bytes)
{
    for (int32_t i = 0; i < mine && bytes; i++, to += bytes)
        memcpy(to, (const char *)w->call.sum.partials[i] + from, bytes);
    return to;
}

static size_t round_line(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static tl_status exchange(tl_comm_work *w, carried *c)
{
    tl_comm_group *g = w->group;
    const size_t size = tl_dtype_size(w->call.sum.dtype);
    const size_t all = (size_t)w->call.sum.count * size;
    tl_lanes l = lanes_of(w);
    int32_t mine = partials_of(&l, g->rank);
    size_t own_from = c->small ? 0 : (size_t)cut(w, g->rank) * size;
    size_t own = c->small ? all : (size_t)cut(w, g->rank + 1) * size - own_from;
    // Room for what comes in, line by line, and for what goes out, where it is more than one.
    size_t need = (size_t)mine * all + LINE;
    for (int32_t r = 0; r < g->size; r++) need += round_line(own * (size_t)partials_of(&l, r));
    TL_TRY(take_room(c, g->comm, need));
    char *at = c->room;
    for (int32_t r = 0, input = 0; r < g->size; r++) {
        int32_t count = partials_of(&l, r);
        c->recv[r] = (tl_part){at, own * (size_t)count};
        for (int32_t i = 0; i < count; i++) c->p.in[input++] = at + (size_t)i * own;
        at += round_line(own * (size_t)count);
    }
    for (int32_t r = 0; r < (c->small ? 1 : g->size); r++) {
        size_t from = c->small ? 0 : (size_t)cut(w, r) * size;
        size_t bytes = c->small ? all : (size_t)cut(w, r + 1) * size - from;
        c->send[r] = (tl_part){at, bytes * (size_t)mine};
        if (mine == 1) c->send[r].data = (char *)(uintptr_t)w->call.sum.partials[0] + from;
        else at = put_together(at, w, mine, from, bytes);
    }
    const tl_comm_call call = {.kind = c->small ? TL_COMM_ALL_GATHER : TL_COMM_ALL_TO_ALL,
                               .send = c->send,
                               .recv = c->recv};
    c->work = (tl_comm_work){.group = g, .call = call, .number = w->number};
    return g->comm->cls->begin(&c->work);
}

tl_status tli_comm_sum_begin(tl_comm_work *w)
{
    carried *c = tl_alloc_zero(sizeof *c);
    if (!c) return TL_FAIL_NOMEM(sizeof *c);
    const tl_comm_sum *s = &w->call.sum;
    const size_t ranks = (size_t)w->group->size;
    c->small =
        w->call.kind == TL_COMM_ALL_REDUCE && (size_t)s->count * tl_dtype_size(s->dtype) <= SMALL;
    c->send = tl_alloc_zero(ranks * sizeof *c->send);
    c->recv = tl_alloc_zero(ranks * sizeof *c->recv);
    tl_status st =
        c->send && c->recv ? pointers_new(&c->p, w) : TL_FAIL_NOMEM(2 * ranks * sizeof *c->send);
    if (st == TL_OK) st = exchange(w, c);
    if (st != TL_OK) {
        carried_free(c, w->group->comm);
        return st;
    }
    w->sum = c;
    return TL_OK;
}

static void clear_up(tl_comm_work *w)
{
    carried_free(w->sum, w->group->comm);
    w->sum = NULL;
}

/* Every owner's piece to all, begun. */
static tl_status gather(tl_comm_work *w, carried *c)
{
    tl_comm_group *g = w->group;
    const size_t size = tl_dtype_size(w->call.sum.dtype);
    for (int32_t r = 0; r < g->size; r++)
        c->recv[r] = (tl_part){(char *)w->call.sum.out + (size_t)cut(w, r) * size,
                               (size_t)(cut(w, r + 1) - cut(w, r)) * size};
    c->send[0] = c->recv[g->rank];
    const tl_comm_call call = {.kind = TL_COMM_ALL_GATHER, .send = c->send, .recv = c->recv};
    c->work = (tl_comm_work){.group = g, .call = call, .number = w->number};
    c->gathers = true;
    return g->comm->cls->begin(&c->work);
}

tl_status tli_comm_sum_add(tl_comm_work *w)
{
    carried *c = w->sum;
    const tl_comm_sum *s = &w->call.sum;
    const bool scatter = w->call.kind == TL_COMM_REDUCE_SCATTER;
    int64_t from = c->small ? 0 : cut(w, w->group->rank);
    int64_t to = c->small ? s->count : cut(w, w->group->rank + 1);
    c->p.out[0] = (char *)s->out + (scatter ? 0 : (size_t)from * tl_dtype_size(s->dtype));
    tl_status st = w->group->comm->cls->wait(&c->work);
    if (st == TL_OK)
        st = add_all(w->group->comm->threads, &(adding){.tree = c->p.tree,
                                                        .dtype = s->dtype,
                                                        .count = to - from,
                                                        .in = c->p.in,
                                                        .out = c->p.out,
                                                        .outs = 1});
    if (st == TL_OK && !scatter && !c->small) st = gather(w, c);
    if (st != TL_OK) clear_up(w);
    return st;
}

tl_status tli_comm_sum_end(tl_comm_work *w)
{
    carried *c = w->sum;
    tl_status st = c->gathers ? w->group->comm->cls->wait(&c->work) : TL_OK;
    clear_up(w);
    return st;
}

bool tli_comm_sum_ready(tl_comm_work *w)
{
    carried *c = w->sum;
    return (w->added && !c->gathers) || w->group->comm->cls->ready(&c->work);
}
