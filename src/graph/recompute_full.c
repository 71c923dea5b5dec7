/* Keeps only what passes from one stretch of the forward pass to the next, and computes the rest of
 * a stretch again right before the backward pass needs it. The last stretch is kept: its backward
 * pass comes at once.
 *
 * Where the backward pass begins is where most bytes wait for a use that is far away. Stretches are
 * cut where the fewest bytes cross, for several sizes of a stretch; the size counts for which the
 * most that is there at a time, what crosses and one whole stretch, is least. For layers that are
 * all alike these are stretches of about the square root of their number, cut between layers.
 *
 * Calls are made again with their attributes, so draws have the same keys and all results their
 * bits. What cannot be made again (memory that it reads has been written since) is simply kept. */
#include <string.h>
#include <tilth/sys/ops/apply.h>

#include "graph/graph.h"

enum {
    LEAST_BYTES = 4096,  /* smaller ones are kept, as in recompute.c */
    LEAST_DISTANCE = 16, /* calls between two uses that are far from each other */
    /* Tried one after the other; the best is near the square root of the layers, so 64 are for
     * 4096 */
    MOST_STRETCHES = 64
};

/* What a call makes that is no view. */
typedef struct result {
    tl_tensor *tensor;
    int64_t bytes, made;
    int64_t last;       /* use before the turn; `made` when there is none */
    int64_t again, end; /* the first use after it, and the last use of all */
    bool wanted;        /* after the turn */
    bool stays;
} result;

typedef struct stretcher {
    tl_graph *g;
    struct {
        result *items;
        int64_t count, capacity;
    } results;
    int64_t values;               /* that there were before the pass; by their ids: */
    int32_t *result_of;           /* numbers of results, plus one */
    tl_tensor **again;            /* their second selves */
    int64_t count, turn;          /* calls; the last one before the backward pass */
    int64_t *sums;                /* of bytes, by call */
    int64_t *widths;              /* bytes that cross from call i to the next */
    int64_t cuts[MOST_STRETCHES]; /* the last call of each stretch but the last one */
    int64_t cut_count;
} stretcher;

static result *result_of(const stretcher *s, const tl_tensor *t)
{
    int64_t id = tli_value_id(s->g, tli_root(t));
    return id < s->values && s->result_of[id] ? &s->results.items[s->result_of[id] - 1] : NULL;
}

/* --- what there is ---------------------------------------------------------------------------- */

static tl_status note_results(stretcher *s)
{
    TLI_EACH_NODE(s->g, n) {
        for (int i = 0; i < n->outputs; i++) {
            tl_tensor *t = n->out[i];
            if (t->view_of) continue;
            result r = {
                .tensor = t, .bytes = (int64_t)tl_tensor_bytes(t), .made = n->index, .last = -1};
            if (!TL_VEC_PUSH(&s->results, r)) return TL_ENOMEM;
            s->result_of[tli_value_id(s->g, t)] = (int32_t)s->results.count;
        }
    }
    return TL_OK;
}

/* --- the turn --------------------------------------------------------------------------------- */

// Bytes that wait between two uses of a tensor that are more than `far` apart, by call. Results
// know their latest use in `last`.
static void add_waiting(stretcher *s, int64_t far, int64_t *waiting)
{
    memset(waiting, 0, (size_t)(s->count + 1) * sizeof *waiting);
    for (int64_t i = 0; i < s->results.count; i++) s->results.items[i].last = -1;
    TLI_EACH_NODE(s->g, n) {
        for (int i = 0; !tli_is_view(n) && i < n->inputs; i++) {
            result *r = result_of(s, n->in[i]);
            if (!r) continue;
            if (r->last >= 0 && n->index - r->last > far) {
                waiting[r->last] += r->bytes;
                waiting[n->index] -= r->bytes;
            }
            r->last = n->index;
        }
    }
    for (int64_t i = 1; i < s->count; i++) waiting[i] += waiting[i - 1];
}

// False when nothing waits long. Of the calls among which equally much waits for long, the turn is
// where most waits at all.
static bool find_turn(stretcher *s, int64_t *long_waits, int64_t *waits)
{
    int64_t most = 0, best = -1,
            far = s->count / 8 > LEAST_DISTANCE ? s->count / 8 : LEAST_DISTANCE;
    add_waiting(s, far, long_waits);
    add_waiting(s, 0, waits);
    for (int64_t i = 0; i < s->count; i++)
        if (long_waits[i] > most) most = long_waits[i];
    for (int64_t i = 0; most && i < s->count; i++) {
        if (long_waits[i] != most || waits[i] <= best) continue;
        best = waits[i];
        s->turn = i;
    }
    return most > 0;
}

/* --- what may go ------------------------------------------------------------------------------ */

static bool can_be_repeated(const stretcher *s, const tl_node *n)
{
    if (n->op == &tli_op_nest || tli_has_effects(n) || tli_is_collective(n)) return false;
    for (int i = 0; i < n->inputs; i++)
        if (result_of(s, n->in[i]) && tli_is_written(s->g, n->in[i])) return false;
    for (int i = 0; i < n->outputs; i++)
        if (tli_is_output(s->g, n->out[i]) || tli_is_written(s->g, n->out[i])) return false;
    return true;
}

static void note_uses(stretcher *s)
{
    for (int64_t i = 0; i < s->results.count; i++) {
        result *r = &s->results.items[i];
        r->last = r->end = r->made;
        r->stays =
            r->made > s->turn || r->bytes < LEAST_BYTES || !can_be_repeated(s, r->tensor->node);
    }
    TLI_EACH_NODE(s->g, n) {
        for (int i = 0; !tli_is_view(n) && i < n->inputs; i++) {
            result *r = result_of(s, n->in[i]);
            if (r && n->index <= s->turn) r->last = n->index;
            if (r && n->index > s->turn && !r->wanted) r->again = n->index;
            if (r && n->index > s->turn) r->wanted = true;
            if (r) r->end = n->index;
        }
    }
}

// Bytes that wait for the backward pass, and that cross from each call to the next.
static void add_bytes(stretcher *s)
{
    memset(s->sums, 0, (size_t)(s->count + 1) * sizeof *s->sums);
    memset(s->widths, 0, (size_t)(s->count + 1) * sizeof *s->widths);
    for (int64_t i = 0; i < s->results.count; i++) {
        const result *r = &s->results.items[i];
        if (r->stays) continue;
        if (r->wanted) s->sums[r->made] += r->bytes;
        s->widths[r->made] += r->bytes;
        s->widths[r->last] -= r->bytes;
    }
    for (int64_t i = 1; i <= s->turn; i++) {
        s->sums[i] += s->sums[i - 1];
        s->widths[i] += s->widths[i - 1];
        // Nothing ends that did not begin.
        TL_ASSERT(s->widths[i] >= 0 && s->sums[i] >= s->sums[i - 1]);
    }
}

/* --- stretches -------------------------------------------------------------------------------- */

static int64_t bytes_between(const stretcher *s, int64_t after, int64_t last)
{
    return s->sums[last] - (after < 0 ? 0 : s->sums[after]);
}

// The narrowest place in the second half of a stretch that begins behind call `after`; -1: none.
static int64_t narrowest(const stretcher *s, int64_t after, int64_t end, int64_t most)
{
    int64_t best = -1;
    for (int64_t i = after + 1; i < end; i++)
        if (bytes_between(s, after, i) >= most / 2 && (best < 0 || s->widths[i] <= s->widths[best]))
            best = i;
    return best;
}

// Stretches of at most so many bytes, where that is possible.
static int64_t cut(const stretcher *s, int64_t most, int64_t cuts[MOST_STRETCHES])
{
    int64_t count = 0, after = -1;
    for (int64_t i = 0; i <= s->turn && count < MOST_STRETCHES - 1; i++) {
        if (bytes_between(s, after, i) <= most) continue;
        int64_t at = narrowest(s, after, i, most);
        TL_ASSERT(at < 0 || (at > after && at < i));
        if (at >= 0) after = cuts[count++] = at;
    }
    return count;
}

static int64_t stretch_of(const int64_t *cuts, int64_t count, int64_t call)
{
    int64_t i = 0;
    while (i < count && cuts[i] < call) i++;
    return i;
}

static bool crosses(const result *r, const int64_t *cuts, int64_t count, int64_t stretch)
{
    return stretch < count && r->last > cuts[stretch];
}

// The most that is there at a time: what crosses into the stretches so far, and all of one of them.
static int64_t peak_of(const stretcher *s, const int64_t *cuts, int64_t count)
{
    int64_t crossing[MOST_STRETCHES] = {0}, inside[MOST_STRETCHES] = {0}, kept = 0, peak = 0;
    for (int64_t i = 0; i < s->results.count; i++) {
        const result *r = &s->results.items[i];
        if (r->stays) continue;
        int64_t at = stretch_of(cuts, count, r->made);
        if (crosses(r, cuts, count, at)) crossing[at] += r->bytes;
        else if (r->wanted) inside[at] += r->bytes;
    }
    for (int64_t i = 0; i <= count; i++) {
        kept += crossing[i];
        if (kept + inside[i] > peak) peak = kept + inside[i];
    }
    return peak;
}

static void choose_cuts(stretcher *s)
{
    int64_t all = bytes_between(s, -1, s->turn), least = peak_of(s, NULL, 0);
    s->cut_count = 0;
    for (int64_t parts = 2; parts < MOST_STRETCHES && all > 0; parts++) {
        int64_t cuts[MOST_STRETCHES] = {0}, count = cut(s, all / parts, cuts),
                peak = peak_of(s, cuts, count);
        if (peak >= least) continue;
        least = peak;
        s->cut_count = count;
        TL_ASSERT(count > 0 && count < MOST_STRETCHES && cuts[count - 1] <= s->turn);
        memcpy(s->cuts, cuts, sizeof cuts);
    }
    for (int64_t i = 0; i < s->results.count; i++) {
        result *r = &s->results.items[i];
        int64_t at = stretch_of(s->cuts, s->cut_count, r->made);
        r->stays |= at == s->cut_count || crosses(r, s->cuts, s->cut_count, at);
    }
}

/* --- is it worth it? -------------------------------------------------------------------------- */

static int64_t peak_along(const stretcher *s, int64_t *changes)
{
    int64_t now = 0, peak = 0;
    for (int64_t i = 0; i < s->count; i++) {
        now += changes[i];
        if (now > peak) peak = now;
        TL_ASSERT(now >= 0);
    }
    return peak;
}

// What a pack puts together lies in its place from the start (plan.c).
static int64_t begin_of(const stretcher *s, const result *r)
{
    const tl_node *n = r->tensor->node;
    int64_t begin = r->made;
    for (int i = 0; n->op->op == TL_OP_pack && i < n->inputs; i++) {
        result *part = result_of(s, n->in[i]);
        if (part && part->made < begin) begin = part->made;
        if (part) part->bytes = 0;
    }
    return begin;
}

/* Whether less is there at the worst time, even if nothing had to be made again: with few examples
 * it may be the gradients of weights that take the most. Nests that will write over what they read
 * are not known yet, so what goes may also be a good part of all. */
static bool saves_memory(const stretcher *s, int64_t *keeping, int64_t *repeating)
{
    int64_t gone = 0;
    memset(keeping, 0, (size_t)(s->count + 1) * sizeof *keeping);
    memset(repeating, 0, (size_t)(s->count + 1) * sizeof *repeating);
    for (int64_t i = s->results.count - 1; i >= 0; i--) { // packs before their parts
        const result *r = &s->results.items[i];
        int64_t begin = begin_of(s, r);
        if (tli_is_output(s->g, r->tensor)) continue;
        keeping[begin] += r->bytes;
        keeping[r->end + 1] -= r->bytes;
        repeating[begin] += r->bytes;
        repeating[r->end + 1] -= r->bytes;
        if (r->stays || !r->wanted) continue;
        gone += r->bytes;
        repeating[r->last + 1] -= r->bytes;
        repeating[r->again] += r->bytes;
    }
    int64_t most = peak_along(s, keeping);
    return peak_along(s, repeating) < most - most / 32 || gone > most / 4;
}

/* --- once more -------------------------------------------------------------------------------- */

static tl_tensor *once_more(stretcher *s, tl_tensor *t, const tl_node *place, int64_t *changes);

// The same call on second selves of its inputs; its outputs are noted.
static tl_status repeat(stretcher *s, const tl_node *n, const tl_node *place, int64_t *changes)
{
    tl_ctx *c = s->g->ctx;
    tl_tensor **in = tl_arena_array(c->arena, n->inputs, sizeof *in);
    tl_tensor **out = tl_arena_array(c->arena, n->outputs, sizeof *out);
    if (!in || !out) return TL_ENOMEM;
    for (int i = 0; i < n->inputs; i++)
        if (!(in[i] = once_more(s, n->in[i], place, changes))) return TL_ENOMEM;
    if (!tl_apply_all(c, n->op->op, n->attr, n->inputs, in, out)) return tl_ctx_status(c);
    out[0]->node->path = n->path;
    for (int i = 0; i < n->outputs; i++) s->again[tli_value_id(s->g, n->out[i])] = out[i];
    TL_ASSERT(tl_shape_equal(&out[0]->shape, &n->out[0]->shape)
              && out[0]->dtype == n->out[0]->dtype);
    ++*changes;
    return TL_OK;
}

// What takes the place of `t` before call `place`: itself, or its second self. NULL: there is no
// memory.
static tl_tensor *once_more(stretcher *s, tl_tensor *t, const tl_node *place, int64_t *changes)
{
    const result *r = result_of(s, t);
    if (!r || r->stays) return t;
    tl_tensor **again = &s->again[tli_value_id(s->g, t)];
    if (!*again && tli_reads_the_same(s->g, t->node, place)
        && repeat(s, t->node, place, changes) != TL_OK)
        return NULL;
    return *again ? *again : t;
}

static tl_status use_second_selves(stretcher *s, int64_t *changes)
{
    tl_graph *g = s->g;
    TLI_EACH_NODE(g, n) {
        if (n->index <= s->turn) continue;
        for (int i = 0; i < n->inputs; i++) {
            tl_node *last = g->ctx->last;
            tl_tensor *t = once_more(s, n->in[i], n, changes);
            if (!t) return tl_ctx_status(g->ctx) == TL_OK ? TL_ENOMEM : tl_ctx_status(g->ctx);
            for (tl_node *made = last->after; made; made = made->after)
                made->index = -1; // is not looked at
            TL_TRY(tli_move_new(g, last, n));
            TL_TRY(tli_set_input(g, n, i, t));
        }
    }
    return TL_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

static tl_status recompute(stretcher *s, int64_t *changes)
{
    tl_arena *arena = s->g->scratch;
    s->sums = tl_arena_array(arena, s->count + 1, sizeof *s->sums);
    s->widths = tl_arena_array(arena, s->count + 1, sizeof *s->widths);
    s->result_of = tl_arena_array(arena, s->values, sizeof *s->result_of);
    s->again = tl_arena_array(arena, s->values, sizeof(tl_tensor *));
    if (!s->sums || !s->widths || !s->result_of || !s->again) return TL_ENOMEM;
    TL_TRY(note_results(s));
    if (!find_turn(s, s->sums, s->widths)) return TL_OK;
    TL_ASSERT(s->turn >= 0 && s->turn < s->count);
    note_uses(s);
    add_bytes(s);
    choose_cuts(s);
    if (!s->cut_count || !saves_memory(s, s->sums, s->widths)) return TL_OK;
    TL_TRY(use_second_selves(s, changes));
    int64_t dead = 0; // what only the backward pass used
    return tli_pass_dead(s->g, &dead);
}

tl_status tli_recompute_full(tl_graph *g, int64_t *changes)
{
    stretcher s = {.g = g, .count = tli_number_nodes(g), .values = tli_value_count(g)};
    tl_status st = recompute(&s, changes);
    TL_VEC_FREE(&s.results);
    return st;
}
