/* Large sums on their way between processes, part by part: each begins as soon as a process has it,
 * while it goes on computing the others, and is waited for when all are needed.
 *
 * All processes begin parts in the same order, in a group of their own, so nobody asks others what
 * is ready: the last parameters come first, as backward passes have them. Where a part ends changes
 * no bit, for each element is added by itself. */
#include "train/trainer/lanes.h"

#include <inttypes.h>
#include <stdlib.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/integer.h>
#include <tilth/base/vec.h>

#include "core/inner/storage.h"

enum {
    LINE = 64,
    /* Parts of a sum where nobody wants more of them: the last one, which nothing hides, is small
     * then */
    USUAL_PARTS = 8,
    /* bytes of a part that each process adds at least, where nobody wants less: what it takes to
     * meet does not count then */
    PIECE = 131072,
};

/* --- parts ------------------------------------------------------------------------------------ */

void tli_exchange_drop(tli_lanes *l)
{
    tli_exchange *x = &l->exchange;
    for (int64_t i = 0; i < x->buckets.count; i++) tl_free(x->buckets.items[i].cuts);
    TL_VEC_FREE(&x->buckets);
    tl_free(x->parts);
    x->parts = NULL;
    x->early = x->made = 0;
}

/* How many elements travel at a time, in whole cache lines. */
static int64_t elements_of(const tli_peers *p, const tl_tensor *t)
{
    const int64_t size = (int64_t)tl_dtype_size(t->dtype), line = LINE / size;
    const double all = (double)tl_tensor_bytes(t), least = (double)PIECE * p->size;
    double bytes = all / USUAL_PARTS > least ? all / USUAL_PARTS : least;
    if (bytes > all / (double)p->packs) bytes = all / (double)p->packs;
    if (bytes > p->bucket_bytes) bytes = p->bucket_bytes;
    return tl_max_i64(tl_div_up((int64_t)bytes / size, line), 1) * line;
}

/* The last parameter that begins before `end`. */
static int64_t param_before(tl_ints offsets, int64_t end)
{
    int64_t i = offsets.count - 1;
    while (i > 0 && offsets.items[i] >= end) i--;
    return i;
}

/* The beginning of a part that ends at `end`: that of a parameter, where that leaves enough of it.
 * `*param` is its number. */
static int64_t begin_of(tl_ints offsets, int64_t end, int64_t most, int64_t *param)
{
    const int64_t least = end > most ? end - most : 0;
    int64_t first = 0; // parameter that begins in it
    while (first < offsets.count && offsets.items[first] < least) first++;
    if (first < offsets.count && least && end - offsets.items[first] >= most / 2) {
        *param = first;
        return offsets.items[first];
    }
    *param = least ? tl_max_i64(first - 1, 0) : 0;
    return least;
}

/* The same with so many parameters at most. */
static int64_t begin_with(tl_ints offsets, int64_t end, int64_t most, int64_t params,
                          int64_t *param)
{
    const int64_t from = begin_of(offsets, end, most, param), last = param_before(offsets, end);
    if (!params || last - *param < params) return from;
    *param = last + 1 - params;
    return offsets.items[*param];
}

static tl_status cut(tli_lanes *l, int64_t index)
{
    const tli_lane_sum *s = &l->sums.items[index];
    const int64_t *numbers = NULL;
    tl_ints offsets = {0};
    if (s->begins) offsets = tl_optimizer_sum_params(l->optimizer, s->live, &numbers);
    const int64_t most = elements_of(l->peers, s->live);
    for (int64_t end = tl_tensor_count(s->live), param; end > 0;) {
        const int64_t from = begin_with(offsets, end, most, l->peers->bucket_params, &param);
        const size_t bytes = (size_t)(l->of.ranks + 1) * sizeof(int64_t);
        tli_bucket b = {.sum = index,
                        .from = from,
                        .end = end,
                        .number = numbers ? numbers[param] : -1,
                        .cuts = tl_alloc(bytes)};
        if (!b.cuts) return TL_FAIL_NOMEM(bytes);
        if (!TL_VEC_PUSH(&l->exchange.buckets, b)) {
            tl_free(b.cuts);
            return TL_ENOMEM;
        }
        end = from;
    }
    return TL_OK;
}

/* What the backward pass has first; other sums last. */
static int by_number(const void *a, const void *b)
{
    const tli_bucket *x = a, *y = b;
    if (x->number != y->number) return x->number > y->number ? -1 : 1;
    if (x->sum != y->sum) return x->sum < y->sum ? -1 : 1;
    return x->from > y->from ? -1 : 1;
}

static tl_status list_parts(tli_lanes *l)
{
    tli_exchange *x = &l->exchange;
    const size_t bytes = (size_t)(x->buckets.count + 1) * sizeof *x->parts;
    if (!(x->parts = tl_alloc_zero(bytes))) return TL_FAIL_NOMEM(bytes);
    for (int64_t i = 0; i < x->buckets.count && x->buckets.items[i].number >= 0; i++) {
        const tli_bucket *b = &x->buckets.items[i];
        x->parts[x->early++] = (tl_early_part){l->sums.items[b->sum].live, b->from, b->end};
    }
    return TL_OK;
}

static tl_status make(tli_lanes *l)
{
    tli_exchange *x = &l->exchange;
    if (x->made) return TL_OK;
    tli_exchange_drop(l);
    for (int64_t i = 0; i < l->sums.count; i++)
        if (!tli_lane_sum_is_small(&l->sums.items[i])) TL_TRY(cut(l, i));
    if (x->buckets.count)
        qsort(x->buckets.items, (size_t)x->buckets.count, sizeof *x->buckets.items, by_number);
    TL_TRY(list_parts(l));
    if (x->buckets.count) TL_TRY(tli_peers_make_sums(l->peers));
    x->made = true;
    return TL_OK;
}

/* --- where numbers lie ------------------------------------------------------------------------ */

/* To where peers reach it without a copy. Programs that were captured with it find it there. */
static tl_status show(tl_tensor *t, const tli_peers *p)
{
    if (!t || !tli_storage_can_move(t->storage)) return TL_OK;
    void *memory = tl_comm_alloc(p->all->comm, t->storage->bytes);
    return memory ? tli_storage_move(t->storage, memory, true) : tl_error_code();
}

static tl_status show_all(const tli_lanes *l)
{
    for (int64_t i = 0; i < l->sums.count; i++) {
        const tli_lane_sum *s = &l->sums.items[i];
        if (tli_lane_sum_is_small(s)) continue;
        TL_TRY(show(s->live, l->peers));
        for (int k = 0; k < TL_LANE_BLOCKS; k++) TL_TRY(show(s->stack[k], l->peers));
    }
    return TL_OK;
}

/* The sums of a device, brought to the host: blocks on the stack, then `live`. */
static int64_t lease_at(const tli_lanes *l, int64_t sum, int64_t block)
{
    return sum * (l->height + 1) + block;
}

static tl_status take_leases(tli_lanes *l)
{
    const int64_t count = lease_at(l, l->sums.count, 0);
    tli_exchange *x = &l->exchange;
    if (tli_lanes_on_host(l)) return TL_OK;
    x->leases = tl_alloc_zero((size_t)(count + 1) * sizeof *x->leases);
    if (!x->leases) return TL_FAIL_NOMEM((size_t)(count + 1) * sizeof *x->leases);
    for (int64_t i = 0; i < l->sums.count; i++) {
        const tli_lane_sum *s = &l->sums.items[i];
        if (tli_lane_sum_is_small(s)) continue;
        for (int64_t k = 0; k < l->height; k++)
            TL_TRY(tl_lease_read(&x->leases[lease_at(l, i, k)], s->stack[k]));
        TL_TRY(tl_lease_write(&x->leases[lease_at(l, i, l->height)], s->live));
    }
    return TL_OK;
}

static tl_status end_leases(tli_lanes *l, tl_status st)
{
    tli_exchange *x = &l->exchange;
    for (int64_t i = 0; x->leases && i < lease_at(l, l->sums.count, 0); i++) {
        tl_lease *one = &x->leases[i];
        if (!one->data) continue;
        if (st == TL_OK && i % (l->height + 1) == l->height) st = tl_lease_end(one);
        else tl_lease_drop(one);
    }
    tl_free(x->leases);
    x->leases = NULL;
    return st;
}

static char *data_of(const tli_lanes *l, const tli_bucket *b, int64_t block)
{
    const tli_exchange *x = &l->exchange;
    const tli_lane_sum *s = &l->sums.items[b->sum];
    const size_t at = (size_t)b->from * tl_dtype_size(s->live->dtype);
    if (x->leases)
        return (char *)x->leases[lease_at(l, b->sum, block < 0 ? l->height : block)].data + at;
    return (char *)tli_data(block < 0 ? s->live : s->stack[block]) + at;
}

/* --- beginning -------------------------------------------------------------------------------- */

typedef struct adding {
    tl_dtype dtype;
    char *to;
    const char *more;
} adding;

static tl_status add_some(int64_t begin, int64_t end, void *payload)
{
    const adding *a = payload;
    const size_t at = (size_t)begin * tl_dtype_size(a->dtype);
    return tl_lanes_add(a->dtype, a->to + at, a->to + at, a->more + at, end - begin);
}

/* What end_lane leaves to be done behind the last lane. */
static tl_status merge(const tli_lanes *l, const tli_bucket *b, int64_t *blocks)
{
    enum { GRAIN = 16384 };
    const tli_lane_sum *s = &l->sums.items[b->sum];
    int64_t top = l->exchange.top, merges = l->exchange.merges;
    if (!tli_lane_sum_is_apart(l, s)) top = l->height, merges = 0;
    for (; merges > 0; merges--) {
        adding a = {s->live->dtype, data_of(l, b, -1), data_of(l, b, --top)};
        TL_TRY(
            tl_parallel_for(tl_engine_threads(l->engine), b->end - b->from, GRAIN, add_some, &a));
    }
    *blocks = top;
    return TL_OK;
}

/* Of a sum of which each process needs its part, pieces go to their owners. */
static bool has_parts(const tli_lanes *l, tli_bucket *b)
{
    const tl_tensor *live = l->sums.items[b->sum].live;
    if (!l->optimizer || tl_optimizer_sum_cut(l->optimizer, live, 0) < 0) return false;
    for (int32_t r = 0; r <= l->peers->size; r++) {
        const int64_t at = tl_optimizer_sum_cut(l->optimizer, live, r) - b->from;
        b->cuts[r] = at < 0 ? 0 : tl_min_i64(at, b->end - b->from);
    }
    return true;
}

static tl_status begin(tli_lanes *l, tli_bucket *b)
{
    const tl_tensor *live = l->sums.items[b->sum].live;
    int64_t blocks;
    TL_TRY(merge(l, b, &blocks));
    for (int64_t i = 0; i < blocks; i++) b->partials[i] = data_of(l, b, i);
    b->partials[blocks] = data_of(l, b, -1);
    tl_comm_call call = {.kind = TL_COMM_ALL_REDUCE,
                         .sum = {.dtype = live->dtype,
                                 .count = b->end - b->from,
                                 .lanes = l->of.lanes,
                                 .partials = b->partials,
                                 .out = data_of(l, b, -1)}};
    if (has_parts(l, b)) {
        call.kind = TL_COMM_REDUCE_SCATTER;
        call.sum.cuts = b->cuts;
        call.sum.out =
            data_of(l, b, -1) + (size_t)b->cuts[l->peers->rank] * tl_dtype_size(live->dtype);
    }
    b->begun_ns = tl_clock_ns();
    b->done = false;
    return tl_comm_begin(&b->work, l->peers->sums, &call);
}

/* --- on their way ----------------------------------------------------------------------------- */

static double bytes_of(const tli_lanes *l, const tli_bucket *b)
{
    return (double)tl_dtype_size(l->sums.items[b->sum].live->dtype) * (double)(b->end - b->from);
}

/* Whether another one may be under way. Where what comes in has to be put somewhere, they are as
 * large as two of the largest. */
static bool has_room(const tli_lanes *l)
{
    const tli_exchange *x = &l->exchange;
    double bytes = 0;
    if (x->begun == x->done) return true;
    if (x->begun - x->done == TL_COMM_UNDER_WAY) return false;
    for (int64_t i = x->done; i <= x->begun; i++) bytes += bytes_of(l, &x->buckets.items[i]);
    return tl_comm_shares(l->peers->all->comm) || bytes <= 2 * l->peers->bucket_bytes;
}

/* Where each process needs its part alone, the rest of what has travelled goes: nobody looks at it
 * any more, while the backward pass adds to other parts. */
static void drop_travelled(const tli_lanes *l, const tli_bucket *b)
{
    tl_comm *comm = l->peers->all->comm;
    const tli_lane_sum *s = &l->sums.items[b->sum];
    const size_t size = tl_dtype_size(s->live->dtype);
    if (!tli_lanes_on_host(l) || tl_optimizer_sum_cut(l->optimizer, s->live, 0) < 0) return;
    const int64_t own = b->cuts[l->peers->rank], behind = b->cuts[l->peers->rank + 1];
    for (int64_t k = 0; k < l->height; k++)
        if (s->stack[k]) tl_comm_release(comm, data_of(l, b, k), (size_t)(b->end - b->from) * size);
    tl_comm_release(comm, data_of(l, b, -1), (size_t)own * size);
    tl_comm_release(comm, data_of(l, b, -1) + (size_t)behind * size,
                    (size_t)(b->end - b->from - behind) * size);
}

/* As far as it goes without waiting. */
static tl_status push(tli_lanes *l)
{
    tli_exchange *x = &l->exchange;
    tli_bucket *all = x->buckets.items;
    for (int64_t i = x->done; i < x->begun; i++) {
        if (all[i].done) continue;
        const int64_t begin_ns = tl_clock_ns();
        TL_TRY(tl_comm_advance(&all[i].work, &all[i].done));
        all[i].added_ns += tl_clock_ns() - begin_ns;
    }
    for (; x->done < x->begun && all[x->done].done; x->done++)
        if (l->optimizer) drop_travelled(l, &all[x->done]);
    while (x->begun < x->there && has_room(l)) {
        TL_TRY(begin(l, &all[x->begun]));
        x->begun++;
    }
    return TL_OK;
}

static tl_status take_part(void *self, int64_t count)
{
    tli_lanes *l = self;
    if (count == l->exchange.there && l->exchange.begun == l->exchange.done) return TL_OK;
    l->exchange.there = count;
    return push(l);
}

static tl_status wait_for_all(tli_lanes *l)
{
    tli_exchange *x = &l->exchange;
    x->there = x->buckets.count;
    TL_TRY(push(l));
    while (x->done < x->buckets.count) {
        tli_bucket *b = &x->buckets.items[x->done];
        const int64_t begin_ns = tl_clock_ns();
        TL_TRY(tl_comm_wait(&b->work));
        b->waited_ns += tl_clock_ns() - begin_ns;
        b->done = true;
        TL_TRY(push(l));
    }
    return TL_OK;
}

/* Where each process needs its part alone, the rest goes until the next step adds to it. */
static void drop_others(tli_lanes *l, const tli_lane_sum *s)
{
    tl_comm *comm = l->peers->all->comm;
    const size_t size = tl_dtype_size(s->live->dtype), bytes = tl_tensor_bytes(s->live);
    if (!l->optimizer || tl_optimizer_sum_cut(l->optimizer, s->live, 0) < 0) return;
    const int64_t from = tl_optimizer_sum_cut(l->optimizer, s->live, l->peers->rank);
    const int64_t end = tl_optimizer_sum_cut(l->optimizer, s->live, l->peers->rank + 1);
    char *live = tli_data(s->live);
    for (int64_t k = 0; k < l->height; k++)
        if (s->stack[k]) l->dropped += tl_comm_release(comm, tli_data(s->stack[k]), bytes);
    l->dropped += tl_comm_release(comm, live, (size_t)from * size);
    l->dropped += tl_comm_release(comm, live + (size_t)end * size, bytes - (size_t)end * size);
}

/* --- from outside ----------------------------------------------------------------------------- */

bool tli_lane_sum_is_apart(const tli_lanes *l, const tli_lane_sum *s)
{
    return l->peers && s->begins && !tli_lane_sum_is_small(s) && tli_lanes_on_host(l);
}

void tli_exchange_note_last(tli_lanes *l, int64_t lane)
{
    tli_exchange *x = &l->exchange;
    x->top = l->height - l->stayed;
    x->merges = tl_lanes_merges(&l->of, l->rank, lane) - l->stayed;
}

const tl_early *tli_exchange_early(tli_lanes *l)
{
    tli_exchange *x = &l->exchange;
    if (!l->peers || !x->made || !x->early || !tli_lanes_on_host(l)) return NULL;
    if (l->clips) return NULL; // needs all of a lane
    tli_exchange_note_last(l, l->run.first + l->run.count - 1);
    x->asked = (tl_early){.parts = x->parts, .count = x->early, .there = take_part, .self = l};
    return &x->asked;
}

void tli_exchange_ran(tli_lanes *l)
{
    tli_exchange *x = &l->exchange;
    const int64_t now = tl_clock_ns();
    for (int64_t i = 0; i < x->begun; i++)
        x->buckets.items[i].before_ns += now - x->buckets.items[i].begun_ns;
}

void tli_exchange_forget(tli_lanes *l)
{
    tli_exchange *x = &l->exchange;
    // Others count on what this process has begun.
    if (x->begun > x->done) tl_comm_abort(l->peers->all->comm, tl_error_message());
    x->there = x->begun = x->done = 0;
}

tl_status tli_exchange_end(tli_lanes *l)
{
    tli_exchange *x = &l->exchange;
    TL_TRY(make(l));
    if (!x->buckets.count) return TL_OK;
    TL_TRY(show_all(l));
    tl_status st = take_leases(l);
    if (st == TL_OK) st = wait_for_all(l);
    TL_TRY(end_leases(l, st));
    for (int64_t i = 0; i < l->sums.count && tli_lanes_on_host(l); i++) {
        const tli_lane_sum *s = &l->sums.items[i];
        if (tli_lane_sum_is_small(s)) continue;
        drop_others(l, s);
        tli_storage_touch(s->live->storage);
    }
    x->there = x->begun = x->done = 0;
    return TL_OK;
}

/* --- for who wants to know -------------------------------------------------------------------- */

void tli_exchange_measure(tli_lanes *l)
{
    tli_exchange *x = &l->exchange;
    for (int64_t i = 0; i < x->buckets.count; i++) {
        tli_bucket *b = &x->buckets.items[i];
        b->before_ns = b->added_ns = b->waited_ns = 0;
    }
    x->steps = x->small_ns = 0;
}

static const char *name_of(const tli_lanes *l, const tli_bucket *b)
{
    return b->number < 0 ? "no gradients" : tl_optimizer_param_path(l->optimizer, b->number);
}

/* Where nothing travels in parts. */
static void report_small(const tli_lanes *l, double step, tl_str *out)
{
    double bytes = 0;
    for (int64_t i = 0; i < l->sums.count; i++)
        bytes += (double)tl_tensor_bytes(l->sums.items[i].live) * 1e-6;
    tl_str_addf(out,
                "\nsums over %" PRId32 " processes: %.3f MB, all of them small; exposed %.3f ms of "
                "a step\n",
                l->peers->size, bytes, (double)l->exchange.small_ns / step);
}

void tli_exchange_report(const tli_lanes *l, tl_str *out)
{
    const tli_exchange *x = &l->exchange;
    if (!l->peers || !x->steps) return;
    const double step = 1e6 * (double)x->steps;
    double bytes = 0, waited = 0, early = 0;
    if (!x->buckets.count) {
        report_small(l, step, out);
        return;
    }
    for (int64_t i = 0; i < x->buckets.count; i++) {
        const tli_bucket *b = &x->buckets.items[i];
        bytes += bytes_of(l, b) * 1e-6;
        if (b->before_ns) early += bytes_of(l, b) * 1e-6;
        waited += (double)b->waited_ns / step;
    }
    tl_str_addf(out,
                "\nsums over %" PRId32 " processes: %.1f MB in %" PRId64
                " parts, %.1f MB of them begun before the backward pass ends; exposed %.3f ms of a "
                "step, and %.3f ms for small sums\n"
                "        MB  ms before end  ms adding  ms exposed  from parameter\n",
                l->peers->size, bytes, x->buckets.count, early, waited, (double)x->small_ns / step);
    for (int64_t i = 0; i < x->buckets.count; i++) {
        const tli_bucket *b = &x->buckets.items[i];
        tl_str_addf(out, "%10.2f %14.3f %10.3f %11.3f  %s\n", bytes_of(l, b) * 1e-6,
                    (double)b->before_ns / step, (double)b->added_ns / step,
                    (double)b->waited_ns / step, name_of(l, b));
    }
}
