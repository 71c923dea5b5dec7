#include <tilth/core/strands.h>

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/map.h>
#include <tilth/desc/gin.h>

struct tl_strand {
    tl_strands *all;
    int64_t index; /* among those of this rank */
    tl_strand_call call;
    bool waits; /* its call is not done yet */
    bool ended;
    pthread_t thread;
    bool started;
    pthread_cond_t woken;
};

struct tl_strands {
    tl_strands_args args;
    tl_lane_run run;
    tl_strand *items; /* [run.count] */
    bool alternate;   /* inside of tl_strands_run, with several */
    tl_strand_fn *body;
    void *self;
    tl_gin *gin;          /* that is in force where they began */
    pthread_mutex_t lock; /* of whose turn it is */
    int64_t turn;
    tl_error why; /* the first failure */
    char *room;
    size_t room_bytes;
};

/* --- making ----------------------------------------------------------------------------------- */

tl_status tl_strands_new(tl_strands **out, const tl_strands_args *args)
{
    *out = NULL;
    TL_TRY(tl_lanes_check(&args->of));
    TL_ASSERT(args->of.ranks == 1 || (args->group && args->group->size == args->of.ranks));
    tl_strands *s = tl_alloc_zero(sizeof *s);
    if (!s) return TL_FAIL_NOMEM(sizeof *s);
    s->args = *args;
    s->run = tl_lanes_of(&args->of, args->rank);
    s->items = tl_alloc_zero((size_t)s->run.count * sizeof *s->items);
    if (!s->items) {
        tl_free(s);
        return TL_FAIL_NOMEM((size_t)args->of.lanes * sizeof *s->items);
    }
    pthread_mutex_init(&s->lock, NULL);
    for (int64_t i = 0; i < s->run.count; i++) {
        s->items[i] = (tl_strand){.all = s, .index = i};
        pthread_cond_init(&s->items[i].woken, NULL);
    }
    *out = s;
    return TL_OK;
}

void tl_strands_free(tl_strands **strands)
{
    tl_strands *s = *strands;
    if (!s) return;
    TL_ASSERT(!s->alternate);
    for (int64_t i = 0; i < s->run.count; i++) pthread_cond_destroy(&s->items[i].woken);
    pthread_mutex_destroy(&s->lock);
    tl_free(s->items);
    tl_free(s->room);
    tl_free(s);
    *strands = NULL;
}

tl_lane_run tl_strands_lanes(const tl_strands *s)
{
    return s->run;
}

tl_strand *tl_strands_at(tl_strands *s, int64_t lane)
{
    TL_ASSERT(lane >= s->run.first && lane < s->run.first + s->run.count);
    return &s->items[lane - s->run.first];
}

int64_t tl_strand_lane(const tl_strand *s)
{
    return s->all->run.first + s->index;
}

int64_t tl_strand_lanes(const tl_strand *s)
{
    return s->all->args.of.lanes;
}

bool tl_strand_alternates(const tl_strand *s)
{
    return s->all->alternate;
}

tl_strands *tl_strand_all(const tl_strand *s)
{
    return s->all;
}

/* --- taking turns ----------------------------------------------------------------------------- */

// The failure that was just made is that of all, unless there is one.
static tl_status fail_all(tl_strands *all, tl_status st)
{
    if (st != TL_OK && all->why.code == TL_OK) tl_error_save(&all->why);
    return st;
}

// To the next one that has not ended; to itself when there is no other.
static void pass_on(tl_strand *s)
{
    tl_strands *all = s->all;
    int64_t next = s->index;
    do next = (next + 1) % all->run.count;
    while (next != s->index && all->items[next].ended);
    pthread_mutex_lock(&all->lock);
    all->turn = next;
    pthread_cond_signal(&all->items[next].woken);
    pthread_mutex_unlock(&all->lock);
}

// Gives the failure of another one, too.
static tl_status take_turn(tl_strand *s)
{
    tl_strands *all = s->all;
    pthread_mutex_lock(&all->lock);
    while (all->turn != s->index) pthread_cond_wait(&s->woken, &all->lock);
    pthread_mutex_unlock(&all->lock);
    if (all->why.code == TL_OK && all->args.turn)
        (void)!fail_all(all, all->args.turn(all->args.self, tl_strand_lane(s)));
    if (all->why.code == TL_OK) return TL_OK;
    tl_error_restore(&all->why);
    return all->why.code;
}

static void run_strand(tl_strand *s)
{
    tl_strands *all = s->all;
    if (take_turn(s) == TL_OK) (void)!fail_all(all, all->body(all->self, s));
    s->ended = true;
    pass_on(s);
}

static void *run_thread(void *strand)
{
    tl_strand *s = strand;
    tl_gin_set_current(s->all->gin);
    run_strand(s);
    return NULL;
}

static tl_status start(tl_strand *s)
{
    s->ended = s->waits = false;
    s->started = false;
    if (s->index == 0) return TL_OK;
    const int error = pthread_create(&s->thread, NULL, run_thread, s);
    if (error)
        return TL_FAIL(TL_ENOMEM, "no thread for lane %" PRId64 ": %s", tl_strand_lane(s),
                       strerror(error));
    s->started = true;
    return TL_OK;
}

tl_status tl_strands_run(tl_strands *s, tl_strand_fn *body, void *self)
{
    TL_ASSERT(!s->alternate);
    if (s->run.count == 1) return body(self, &s->items[0]);
    s->alternate = true;
    s->body = body;
    s->self = self;
    s->gin = tl_gin_current();
    s->why.code = TL_OK;
    s->turn = 0; // nobody else moves until the first one passes it on
    for (int64_t i = 0; i < s->run.count; i++)
        if (fail_all(s, start(&s->items[i])) != TL_OK) s->items[i].ended = true;
    run_strand(&s->items[0]);
    for (int64_t i = 1; i < s->run.count; i++)
        if (s->items[i].started) pthread_join(s->items[i].thread, NULL);
    s->alternate = false;
    if (s->why.code != TL_OK) tl_error_restore(&s->why);
    return s->why.code;
}

/* --- what they do together -------------------------------------------------------------------- */

static tl_status make_room(tl_strands *s, size_t bytes)
{
    if (bytes <= s->room_bytes) return TL_OK;
    tl_free(s->room);
    s->room = tl_alloc_aligned(64, bytes);
    s->room_bytes = s->room ? bytes : 0;
    return s->room ? TL_OK : TL_FAIL_NOMEM(bytes);
}

static size_t bytes_of(const tl_strand_call *call)
{
    return (size_t)call->count * tl_dtype_size(call->dtype);
}

static void copy(void *to, const void *from, size_t bytes)
{
    if (bytes) memcpy(to, from, bytes);
}

static tl_status gather(tl_strands *s)
{
    const tl_lanes *l = &s->args.of;
    const size_t each = bytes_of(&s->items[0].call);
    char *out = s->items[0].call.out;
    for (int64_t i = 0; i < s->run.count; i++)
        copy(out + (size_t)(s->run.first + i) * each, s->items[i].call.in, each);
    if (l->ranks > 1) {
        TL_TRY(make_room(s, (size_t)l->ranks * sizeof(tl_part)));
        tl_part *parts = (tl_part *)(void *)s->room;
        for (int64_t r = 0; r < l->ranks; r++) {
            const tl_lane_run run = tl_lanes_of(l, r);
            parts[r] = (tl_part){out + (size_t)run.first * each, (size_t)run.count * each};
        }
        TL_TRY(tl_comm_all_gather(s->args.group, &parts[s->args.rank], parts));
    }
    for (int64_t i = 1; i < s->run.count; i++)
        copy(s->items[i].call.out, out, (size_t)l->lanes * each);
    return TL_OK;
}

// What tl_lanes_blocks lists for this rank, from what its lanes bring; `room` has a place for each
// height of the stack.
static tl_status add_blocks(const tl_strands *s, char *room, const void **stack)
{
    const tl_strand_call *call = &s->items[0].call;
    int64_t height = 0;
    for (int64_t i = 0; i < s->run.count; i++) {
        stack[height++] = s->items[i].call.in;
        int64_t merges = tl_lanes_merges(&s->args.of, s->args.rank, s->run.first + i);
        for (; merges > 0; merges--, height--) {
            char *to = room + (size_t)(height - 2) * bytes_of(call);
            TL_TRY(
                tl_lanes_add(call->dtype, to, stack[height - 2], stack[height - 1], call->count));
            stack[height - 2] = to;
        }
    }
    return TL_OK;
}

// Elements of the sum that begin at a rank's lanes.
static void fill_cuts(int64_t *cuts, const tl_lanes *l, int64_t count)
{
    for (int64_t r = 0; r < l->ranks; r++) cuts[r] = tl_lanes_of(l, r).first * (count / l->lanes);
    cuts[l->ranks] = count;
}

static tl_status reduce(tl_strands *s)
{
    enum { LINE = 64 };
    const tl_lanes *l = &s->args.of;
    const tl_strand_call *first = &s->items[0].call;
    const bool scatter = first->kind == TL_COMM_REDUCE_SCATTER;
    const size_t all = bytes_of(first), part = all / (size_t)l->lanes;
    const void *blocks[2 * TL_LANE_BLOCKS];
    // the sums on the way, this rank's parts of the whole, and where those of all ranks begin
    const size_t sums = ((size_t)s->run.count * all + LINE - 1) / LINE * LINE;
    const size_t own = ((size_t)s->run.count * part + LINE - 1) / LINE * LINE;
    TL_TRY(make_room(s, sums + own + (size_t)(l->ranks + 1) * sizeof(int64_t) + LINE));
    TL_TRY(add_blocks(s, s->room, blocks));
    tl_comm_sum sum = {.dtype = first->dtype,
                       .count = first->count,
                       .lanes = l->lanes,
                       .partials = blocks,
                       .out = scatter ? s->room + sums : first->out};
    if (scatter) {
        int64_t *cuts = (int64_t *)(void *)(s->room + sums + own);
        fill_cuts(cuts, l, first->count);
        sum.cuts = cuts;
    }
    const char *from = blocks[0];
    if (l->ranks > 1) {
        TL_TRY(scatter ? tl_comm_reduce_scatter(s->args.group, &sum)
                       : tl_comm_all_reduce(s->args.group, &sum));
        from = sum.out;
    }
    for (int64_t i = 0; i < s->run.count; i++) {
        void *to = s->items[i].call.out;
        if (to != from) copy(to, from + (scatter ? (size_t)i * part : 0), scatter ? part : all);
    }
    return TL_OK;
}

static tl_status fail_differs(const tl_strand *a, const tl_strand *b)
{
    const tl_strand_call *x = &a->call, *y = &b->call;
    if (!b->waits)
        return TL_FAIL(TL_EINVAL, "lane %" PRId64 " calls %s, and lane %" PRId64 " has ended",
                       tl_strand_lane(a), tl_comm_kind_name(x->kind), tl_strand_lane(b));
    return TL_FAIL(TL_EINVAL,
                   "lane %" PRId64 " calls %s of %" PRId64 " %s, and lane %" PRId64
                   " %s of %" PRId64 " %s: all lanes must have batches of one size",
                   tl_strand_lane(a), tl_comm_kind_name(x->kind), x->count, tl_dtype_name(x->dtype),
                   tl_strand_lane(b), tl_comm_kind_name(y->kind), y->count,
                   tl_dtype_name(y->dtype));
}

static tl_status do_calls(tl_strands *s)
{
    const tl_strand *first = &s->items[0];
    for (int64_t i = 1; i < s->run.count; i++) {
        const tl_strand *other = &s->items[i];
        if (!other->waits || other->call.kind != first->call.kind
            || other->call.dtype != first->call.dtype || other->call.count != first->call.count)
            return fail_differs(first, other);
    }
    TL_TRY(first->call.kind == TL_COMM_ALL_GATHER ? gather(s) : reduce(s));
    for (int64_t i = 0; i < s->run.count; i++) s->items[i].waits = false;
    return TL_OK;
}

/* The first strand, whose thread is that of who called, speaks with other ranks. */
tl_status tl_strand_meet(tl_strand *s, const tl_strand_call *call)
{
    tl_strands *all = s->all;
    TL_ASSERT(call->in != call->out || !call->count);
    if (all->run.count > 1 && !all->alternate)
        return TL_FAIL(TL_ESTATE,
                       "%" PRId64 " lanes of this process meet here, and go one after the other; "
                       "run them with tl_strands_run",
                       all->run.count);
    s->call = *call;
    s->waits = true;
    if (!all->alternate) return do_calls(all);
    pass_on(s);
    TL_TRY(take_turn(s));
    if (s->index == 0) return fail_all(all, do_calls(all));
    return s->waits ? fail_all(all, fail_differs(s, &all->items[0])) : TL_OK;
}

/* --- texts of all ranks ----------------------------------------------------------------------- */

// Lines `a` and `b` are the first that differ.
static void find_difference(const char **a, const char **b)
{
    for (;;) {
        size_t x = strcspn(*a, "\n"), y = strcspn(*b, "\n");
        if (x != y || memcmp(*a, *b, x) != 0 || !(*a)[x] || !(*b)[y]) return;
        *a += x + 1;
        *b += y + 1;
    }
}

static tl_status fail_texts(const tl_strands *s, const char *what, char *const *texts)
{
    const char *a = texts[0], *b = a;
    int64_t rank = 1;
    while (rank < s->args.of.ranks && strcmp(texts[rank], texts[0]) == 0) rank++;
    TL_ASSERT(rank < s->args.of.ranks);
    b = texts[rank];
    find_difference(&a, &b);
    const int x = (int)strcspn(a, "\n"), y = (int)strcspn(b, "\n");
    return TL_FAIL(TL_EINVAL, "%s differ: on rank 0 '%.*s', on rank %" PRId64 " '%.*s'", what,
                   x < 300 && x ? x : 300, x ? a : "nothing more", rank, y < 300 && y ? y : 300,
                   y ? b : "nothing more");
}

static tl_status exchange_texts(tl_strands *s, const char *what, const char *text,
                                const uint64_t *own, uint64_t *all, tl_part *parts, char **texts)
{
    const int64_t ranks = s->args.of.ranks;
    bool same = true;
    size_t bytes = 0;
    for (int64_t r = 0; r < ranks; r++) parts[r] = (tl_part){&all[2 * r], 2 * sizeof *all};
    memcpy(&all[2 * s->args.rank], own, 2 * sizeof *own);
    TL_TRY(tl_comm_all_gather(s->args.group, &parts[s->args.rank], parts));
    for (int64_t r = 0; r < ranks; r++) {
        same &= all[2 * r] == own[0] && all[2 * r + 1] == own[1];
        bytes += all[2 * r] + 1;
    }
    if (same) return TL_OK;
    TL_TRY(make_room(s, bytes));
    memset(s->room, 0, bytes);
    char *at = s->room;
    for (int64_t r = 0; r < ranks; at += all[2 * r] + 1, r++) {
        texts[r] = at;
        parts[r] = (tl_part){at, all[2 * r] + 1};
    }
    memcpy(texts[s->args.rank], text, own[0]);
    TL_TRY(tl_comm_all_gather(s->args.group, &parts[s->args.rank], parts));
    return fail_texts(s, what, texts);
}

tl_status tl_strand_compare(tl_strand *strand, const char *what, const char *text)
{
    tl_strands *s = strand->all;
    const size_t ranks = (size_t)s->args.of.ranks, length = strlen(text);
    const uint64_t own[2] = {length, tl_hash_bytes(TL_HASH_SEED, text, length)};
    if (ranks == 1) return TL_OK;
    uint64_t *all = tl_alloc_zero(ranks * 2 * sizeof *all);
    tl_part *parts = tl_alloc_zero(ranks * sizeof *parts);
    char **texts = tl_alloc_zero(ranks * sizeof *texts);
    tl_status st = all && parts && texts
                       ? exchange_texts(s, what, text, own, all, parts, texts)
                       : TL_FAIL_NOMEM(ranks * (2 * sizeof *all + sizeof *parts + sizeof *texts));
    tl_free(all);
    tl_free(parts);
    tl_free(texts);
    return st;
}
