/* Parts of tensors that a run has brought to it (need.h). */
#include <tilth/sys/graph/need.h>

#include <string.h>

#include <tilth/base/vec.h>

#include "core/inner/tensor.h"
#include "graph/program.h"

enum { OTHERS = 2 }; /* that are read before a part is read again: it is dropped meanwhile */

/* What is done around a call. */
typedef struct event {
    int64_t call; /* refreshes of copies first, then steps */
    int64_t part;
} event;
typedef struct events {
    event *items;
    int64_t count, capacity;
    int64_t next; /* of the run */
} events;

struct tli_need {
    tl_early_part *parts;
    int64_t count;
    int64_t calls;
    bool *reads; /* by call and part */
    events brings, drops;
    const tl_need *asked;
};

/* --- who reads what --------------------------------------------------------------------------- */

static bool reads_part(const tl_node *n, const tl_early_part *part)
{
    const int64_t size = (int64_t)tl_dtype_size(part->tensor->dtype);
    const int64_t from = (part->tensor->offset + part->from) * size;
    const int64_t end = (part->tensor->offset + part->end) * size;
    for (int i = 0; i < n->inputs; i++) {
        if (tli_memory_of(n->in[i]) != part->tensor->storage) continue;
        const tli_extent e = tli_extent_of(n->in[i]);
        if (e.from < end && e.to > from) return true;
    }
    return false;
}

static const tl_node *call_at(const tl_program *p, int64_t call)
{
    const int64_t copies = p->graph->copies.count;
    return call < copies ? p->refreshes[call].node : p->steps[call - copies].node;
}

static bool reads(const tli_need *n, int64_t call, int64_t part)
{
    return n->reads[call * n->count + part];
}

static void find_reads(tli_need *n, const tl_program *p)
{
    for (int64_t i = 0; i < n->calls; i++)
        for (int64_t k = 0; k < n->count; k++)
            n->reads[i * n->count + k] = reads_part(call_at(p, i), &n->parts[k]);
}

/* --- when it is there ------------------------------------------------------------------------- */

/* Whether a part that a call reads stays until it is read again. Copies are refreshed in some runs
 * only, so nothing stays from there. */
static bool stays(const tli_need *n, int64_t copies, int64_t call, int64_t part)
{
    int64_t others = 0, next = call;
    if (call < copies) return false;
    while (++next < n->calls && !reads(n, next, part)) continue;
    if (next == n->calls) return false;
    for (int64_t k = 0; k < n->count && others < OTHERS; k++) {
        bool between = false;
        for (int64_t i = call + 1; k != part && i < next && !between; i++) between = reads(n, i, k);
        others += between;
    }
    return others < OTHERS;
}

static tl_status find_events(tli_need *n, int64_t copies)
{
    for (int64_t k = 0; k < n->count; k++) {
        bool there = false;
        for (int64_t i = 0; i < n->calls; i++) {
            if (!reads(n, i, k)) continue;
            if (!there && !TL_VEC_PUSH(&n->brings, ((event){i, k}))) return TL_ENOMEM;
            there = stays(n, copies, i, k);
            if (!there && !TL_VEC_PUSH(&n->drops, ((event){i, k}))) return TL_ENOMEM;
        }
    }
    return TL_OK;
}

/* By call; those of a call by part, as they were. */
static void sort(events *e)
{
    for (int64_t i = 1; i < e->count; i++) {
        const event one = e->items[i];
        int64_t at = i;
        for (; at > 0 && e->items[at - 1].call > one.call; at--) e->items[at] = e->items[at - 1];
        e->items[at] = one;
    }
}

/* --- making ----------------------------------------------------------------------------------- */

void tli_need_free(tl_program *p)
{
    if (!p->need) return;
    TL_VEC_FREE(&p->need->brings);
    TL_VEC_FREE(&p->need->drops);
    p->need = NULL;
}

static tl_status make(tl_program *p, const tl_need *asked)
{
    tl_arena *arena = p->graph->ctx->arena;
    const int64_t copies = p->graph->copies.count, calls = copies + p->step_count;
    tli_need_free(p);
    tli_need *n = tl_arena_array(arena, 1, sizeof *n);
    if (!n) return TL_ENOMEM;
    *n = (tli_need){
        .parts = tl_arena_copy(arena, asked->parts, (size_t)asked->count * sizeof *asked->parts),
        .count = asked->count,
        .calls = calls,
        .reads = tl_arena_array(arena, calls * asked->count, sizeof *n->reads)};
    if (!n->parts || !n->reads) return TL_ENOMEM;
    p->need = n;
    find_reads(n, p);
    TL_TRY(find_events(n, copies));
    sort(&n->brings);
    sort(&n->drops);
    return TL_OK;
}

tl_status tl_program_set_need(tl_program *p, const tl_need *need)
{
    if (p->need) p->need->asked = NULL;
    if (!need || !need->count) return TL_OK;
    TL_ASSERT(p->graph->ctx->engine->queue->device->cls->host);
    const bool same =
        p->need && p->need->count == need->count
        && memcmp(p->need->parts, need->parts, (size_t)need->count * sizeof *need->parts) == 0;
    if (!same) TL_TRY(make(p, need));
    p->need->asked = need;
    return TL_OK;
}

uint64_t tl_program_need_order(const tl_program *p)
{
    const tli_need *n = p->need;
    uint64_t order = 14695981039346656037u;
    if (!n || !n->asked) return 0;
    for (int64_t i = 0; i < n->brings.count; i++) {
        const event *e = &n->brings.items[i];
        if (e->call < p->graph->copies.count && tli_copy_shows_weights(p, e->call)) continue;
        order = (order ^ (uint64_t)(e->part + 1)) * 1099511628211u;
    }
    return order ? order : 1;
}

/* --- running ---------------------------------------------------------------------------------- */

bool tli_need_is_set(const tl_program *p)
{
    return p->need && p->need->asked;
}

bool tli_need_begin(tl_program *p)
{
    if (!tli_need_is_set(p)) return false;
    p->need->brings.next = p->need->drops.next = 0;
    return true;
}

tl_status tli_need_before(tl_program *p, int64_t call)
{
    const tl_need *asked = p->need->asked;
    events *e = &p->need->brings;
    // of calls that were passed over, nothing
    while (e->next < e->count && e->items[e->next].call < call) e->next++;
    for (; e->next < e->count && e->items[e->next].call == call; e->next++)
        TL_TRY(asked->bring(asked->self, e->items[e->next].part));
    return TL_OK;
}

void tli_need_behind(tl_program *p, int64_t call)
{
    const tl_need *asked = p->need->asked;
    events *e = &p->need->drops;
    while (e->next < e->count && e->items[e->next].call < call) e->next++;
    for (; e->next < e->count && e->items[e->next].call == call; e->next++)
        asked->drop(asked->self, e->items[e->next].part);
}
