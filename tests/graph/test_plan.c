/* The memory plan: a graph is walked call by call over a workspace that knows, for each byte, whose
 * element lies there. What a call reads must still be there. */
#include "graph/graph_test.h"

#include <stdlib.h>
#include <tilth/base/integer.h>
#include <tilth/base/rng.h>
#include <tilth/sys/graph/program.h>

#include "graph/plan.h"

/* Of rooms: that of the memory of the device. */
static int64_t alignment_of(const tl_graph *g)
{
    return (int64_t)tl_engine_device(g->ctx->engine)->cls->alignment;
}

/* --- the walk --------------------------------------------------------------------------------- */

/* Who a byte belongs to: two after a pack whose part was computed in its place. */
typedef struct owners {
    const tl_tensor *a, *b;
} owners;

typedef struct memory {
    const tl_graph *g;
    const tli_plan *plan;
    owners *bytes;
    const char *complaint;
    const tl_node *at;
} memory;

// What was computed: views show it; a nest that writes over an input gives something new.
static const tl_tensor *value_of(const tl_tensor *t)
{
    while (t->node && tli_is_view(t->node)) t = t->view_of;
    return t;
}

static bool find_range(const memory *m, const tl_tensor *value, int64_t *begin, int64_t *end)
{
    const tli_room *room = tli_plan_room(m->plan, tli_root(value));
    if (!room) return false;
    *begin = room->offset;
    *end = room->offset + (int64_t)tl_tensor_bytes(value);
    return true;
}

static void complain(memory *m, const char *what)
{
    if (!m->complaint) m->complaint = what;
}

static bool is_there(const memory *m, const tl_tensor *value)
{
    int64_t begin, end;
    if (!find_range(m, value, &begin, &end)) return true; // not in the workspace
    for (int64_t i = begin; i < end; i++)
        if (m->bytes[i].a != value && m->bytes[i].b != value) return false;
    return true;
}

static void put(memory *m, const tl_tensor *value, int64_t begin, int64_t end)
{
    if (begin < 0 || end > m->plan->bytes) complain(m, "memory beyond the workspace");
    for (int64_t i = begin; !m->complaint && i < end; i++) m->bytes[i] = (owners){value, NULL};
}

static void put_value(memory *m, const tl_tensor *value)
{
    int64_t begin, end;
    if (find_range(m, value, &begin, &end)) put(m, value, begin, end);
}

// Parts in their places stay whose they are, and become the pack's as well.
static void put_pack(memory *m, const tl_node *n)
{
    int64_t begin, end;
    if (!find_range(m, n->out[0], &begin, &end)) return;
    put(m, n->out[0], begin, end);
    for (int i = 0; i < n->inputs && !m->complaint; i++) {
        int64_t from, to;
        if (!tli_plan_is_packed(m->plan, n, i)) continue;
        if (!find_range(m, value_of(n->in[i]), &from, &to) || from < begin || to > end) {
            complain(m, "a part is not inside its pack");
            break;
        }
        for (int64_t k = from; k < to; k++) m->bytes[k] = (owners){value_of(n->in[i]), n->out[0]};
    }
}

static bool is_written_over(const tl_node *n, const tl_tensor *value)
{
    for (int i = 0; i < n->outputs; i++)
        if (n->out[i]->view_of && tli_root(n->out[i]) == tli_root(value)) return true;
    return false;
}

static void walk_call(memory *m, const tl_node *n, const int64_t *scratch)
{
    m->at = n;
    for (int i = 0; i < n->inputs; i++)
        if (!is_there(m, value_of(n->in[i]))) complain(m, "an input is there no more");
    if (scratch && scratch[n->index]) {
        int64_t at = tli_plan_scratch(m->plan, n);
        if (at % alignment_of(m->g)) complain(m, "scratch memory is not aligned");
        put(m, NULL, at, at + scratch[n->index]);
    }
    for (int i = 0; i < n->inputs; i++)
        if (tli_call_writes(n, i)) put_value(m, value_of(n->in[i]));
    if (n->op->op == TL_OP_pack && n->op != &tli_op_nest) put_pack(m, n);
    else
        for (int i = 0; i < n->outputs; i++) put_value(m, n->out[i]);
    // Kernels read inputs while they write outputs.
    for (int i = 0; i < n->inputs; i++)
        if (!is_there(m, value_of(n->in[i])) && !is_written_over(n, value_of(n->in[i])))
            complain(m, "an input is written over while it is read");
    for (int i = 0; i < n->outputs; i++)
        if (!is_there(m, n->out[i])) complain(m, "two outputs overlap");
}

static void check_rooms(memory *m)
{
    for (int64_t i = 0; i < m->plan->rooms.count; i++) {
        const tli_room *r = &m->plan->rooms.items[i];
        if (r->inside < 0 && r->offset % alignment_of(m->g)) complain(m, "a room is not aligned");
        if (r->offset < 0 || r->offset + r->bytes > m->plan->bytes)
            complain(m, "a room lies outside");
    }
    if (m->plan->bytes > m->plan->unplanned) complain(m, "planning made it larger");
}

/* Makes a plan and walks along it; what is wrong, or NULL. */
static const char *walk(tl_graph *g, const int64_t *scratch, int64_t *bytes, int64_t *unplanned)
{
    tli_plan plan = {0};
    assert_ok(tli_plan_make(&plan, g, scratch));
    memory m = {.g = g, .plan = &plan, .bytes = calloc((size_t)plan.bytes + 1, sizeof *m.bytes)};
    assert_non_null(m.bytes);
    check_rooms(&m);
    TLI_EACH_NODE(g, n)
        if (!m.complaint && !tli_is_view(n)) walk_call(&m, n, scratch);
    if (bytes) *bytes = plan.bytes;
    if (unplanned) *unplanned = plan.unplanned;
    if (m.complaint && m.at)
        print_message("at call %lld, %s\n", (long long)m.at->index, m.at->op->name);
    free(m.bytes);
    tli_plan_free(&plan);
    return m.complaint;
}

static void expect_sound(tl_graph *g, const int64_t *scratch)
{
    const char *complaint = walk(g, scratch, NULL, NULL);
    if (!complaint) return;
    tl_str text = TL_STR_INIT;
    tl_graph_text(g, &text);
    fail_msg("%s\n%s", complaint, tl_str_text(&text));
}

/* --- chains and branches ---------------------------------------------------------------------- */

BODY(deep)
{
    UNUSED_BODY_ARGS;
    for (int i = 0; i < 20; i++) x = tl_softmax(c, tl_cumsum(c, x, 1, false, false), 1);
    tl_tensors_put(c, out, "z", x);
}

BODY(branches)
{
    UNUSED_BODY_ARGS;
    tl_tensor *kept[6], *sum = NULL;
    for (int i = 0; i < 6; i++) kept[i] = tl_cumsum(c, i ? kept[i - 1] : x, i % 2, false, false);
    for (int i = 5; i >= 0; i--) {
        tl_tensor *s = tl_softmax(c, tl_swap_axes(c, kept[i], 0, 1), 0);
        sum = sum ? tl_matmul(c, tl_swap_axes(c, s, 0, 1), tl_matmul(c, s, sum)) : kept[i];
    }
    tl_tensors_put(c, out, "z", sum);
}

static void a_chain_needs_room_for_two(void **state)
{
    int64_t bytes, unplanned;
    tl_graph *g = captured(*state, deep, NULL);
    assert_ok(tl_graph_optimize(g, NULL));
    assert_null(walk(g, NULL, &bytes, &unplanned));
    int64_t room = tl_round_up(96, alignment_of(g)); // 96 bytes each
    assert_int_equal(bytes, room + 96);
    assert_int_equal(unplanned, 39 * room);
    tl_graph_free(&g);
}

/* --- calls that run beside others ------------------------------------------------------------- */

BODY(large)
{
    UNUSED_BODY_ARGS;
    tl_tensor *t = tl_mul(c, tl_full(c, TL_F32, TL_SHAPE(6000, 4, 6), 2), x);
    for (int i = 0; i < 20; i++) t = tl_softmax(c, tl_cumsum(c, t, 1, false, false), 1);
    tl_tensors_put(c, out, "z", t);
}

BODY(small_part_of_a_large_pack)
{
    UNUSED_BODY_ARGS;
    enum { WIDE = 30000 };
    tl_tensor *wide = tl_cumsum(c, tl_full(c, TL_F32, TL_SHAPE(WIDE), 2), 0, false, false);
    tl_tensor *parts[] = {tl_softmax(c, x, 1), wide};
    tl_tensor *w = tl_pack(c, 2, parts, (int64_t[]){0, 24}, 24 + WIDE), *t = x;
    tl_tensors_put(c, out, "w", tl_sum(c, tl_cumsum(c, w, 0, false, false), TL_ALL, false));
    for (int i = 0; i < 8; i++) t = tl_softmax(c, tl_cumsum(c, t, 1, false, false), 1);
    tl_tensors_put(c, out, "z", t);
}

static bool is_softmax(const tl_node *call)
{
    return call->op->op == TL_OP_softmax;
}

/* Bytes of a plan where softmax runs beside what follows it. */
static int64_t plan_beside(const fixture *f, tl_graph *g, int64_t *unplanned)
{
    int64_t bytes;
    tl_device *device = tl_engine_device(f->engine);
    const tl_device_class *own = device->cls;
    tl_device_class other = *own;
    other.beside = is_softmax;
    device->cls = &other;
    assert_null(walk(g, NULL, &bytes, unplanned));
    device->cls = own;
    return bytes;
}

static void memory_beside_others_stays_for_a_while(void **state)
{
    int64_t unplanned;
    tl_graph *g = captured(*state, deep, NULL);
    assert_ok(tl_graph_optimize(g, NULL));
    assert_true(plan_beside(*state, g, &unplanned) > unplanned - alignment_of(g)); // small ones
    tl_graph_free(&g);
    g = captured(*state, large, NULL);
    assert_ok(tl_graph_optimize(g, NULL));
    const int64_t bytes = plan_beside(*state, g, &unplanned);
    assert_true(bytes > unplanned / 8 && bytes < unplanned / 2);
    tl_graph_free(&g);
    g = captured(*state, small_part_of_a_large_pack, NULL); // as long as its part, or asserted
    assert_ok(tl_graph_optimize(g, NULL));
    (void)plan_beside(*state, g, &unplanned);
    tl_graph_free(&g);
}

static void what_lives_together_lies_apart(void **state)
{
    int64_t scratch[128], bytes, unplanned;
    for (int64_t i = 0; i < 128; i++) scratch[i] = i % 3 ? 40 * i : 0;
    tl_graph *g = captured(*state, branches, NULL);
    expect_sound(g, NULL);
    expect_sound(g, scratch);
    assert_ok(tl_graph_optimize(g, NULL));
    expect_sound(g, scratch);
    assert_null(walk(g, NULL, &bytes, &unplanned));
    assert_true(bytes < unplanned / 2);
    tl_graph_free(&g);
}

/* The walk itself must find what is wrong. */
static void overlaps_are_found(void **state)
{
    tl_graph *g = captured(*state, branches, NULL);
    tli_plan plan = {0};
    assert_ok(tli_plan_make(&plan, g, NULL));
    for (int64_t i = 0; i < plan.rooms.count; i++) plan.rooms.items[i].offset = 0;
    memory m = {.g = g, .plan = &plan, .bytes = calloc((size_t)plan.bytes, sizeof *m.bytes)};
    TLI_EACH_NODE(g, n)
        if (!m.complaint && !tli_is_view(n)) walk_call(&m, n, NULL);
    assert_non_null(m.complaint);
    free(m.bytes);
    tli_plan_free(&plan);
    tl_graph_free(&g);
}

/* --- packs ------------------------------------------------------------------------------------ */

static const tl_node *pack_of(const tl_graph *g)
{
    TLI_EACH_NODE(g, n)
        if (n->op->op == TL_OP_pack && n->op != &tli_op_nest) return n;
    fail_msg("there is no pack");
    return NULL;
}

// Which parts of the only pack are computed in their places, one bit each.
static unsigned packed(fixture *f, tl_graph_fn *body, void *self)
{
    tl_graph *g = captured(f, body, self);
    tli_plan plan = {0};
    unsigned bits = 0;
    assert_ok(tl_graph_optimize(g, NULL));
    expect_sound(g, NULL);
    assert_ok(tli_plan_make(&plan, g, NULL));
    const tl_node *n = pack_of(g);
    for (int i = 0; i < n->inputs; i++) bits |= (unsigned)tli_plan_is_packed(&plan, n, i) << i;
    tli_plan_free(&plan);
    tl_graph_free(&g);
    return bits;
}

// Nobody else may touch it: 24 elements each, from 0, 24 and 60 on.
static tl_tensor *three_in_one(tl_ctx *c, tl_tensor *a, tl_tensor *b, tl_tensor *d)
{
    return tl_pack(c, 3, (tl_tensor *[]){a, b, d}, (int64_t[]){0, 24, 60}, 90);
}

static tl_tensor *computed(tl_ctx *c, tl_tensor *x)
{
    return tl_cumsum(c, x, 1, false, false);
}

BODY(plain_pack)
{
    UNUSED_BODY_ARGS;
    tl_tensor *turned = tl_reshape(c, computed(c, y), TL_SHAPE(24));
    tl_tensor *w = three_in_one(c, computed(c, x), turned, tl_softmax(c, x, 1));
    tl_tensors_put(c, out, "z", tl_cumsum(c, w, 0, false, false));
}

BODY(pack_of_all_kinds)
{
    UNUSED_BODY_ARGS;
    tl_tensor *twice = computed(c, y);
    tl_tensor *w =
        three_in_one(c, x, twice, twice); // an input; in its first place; copied to the second
    tl_tensors_put(c, out, "z", tl_cumsum(c, w, 0, false, false));
}

BODY(pack_of_written)
{
    UNUSED_BODY_ARGS;
    tl_tensor *a = computed(c, x),
              *turned = tl_contiguous(c, tl_swap_axes(c, computed(c, y), 0, 1));
    tl_tensor *w = three_in_one(c, a, turned, tl_softmax(c, x, 0));
    tl_update_ema(c, a, y, 0.5); // the pack has the elements from before
    tl_tensors_put(c, out, "a", tl_softmax(c, a, 1));
    tl_tensors_put(c, out, "z", tl_cumsum(c, w, 0, false, false));
}

BODY(written_pack)
{
    UNUSED_BODY_ARGS;
    tl_tensor *a = computed(c, x), *w = three_in_one(c, a, computed(c, y), tl_softmax(c, x, 1));
    tl_update_ema(c, w, tl_full(c, TL_F32, TL_SHAPE(90), 1), 0.5);
    tl_tensors_put(c, out, "a", tl_softmax(c, a, 1));
    tl_tensors_put(c, out, "z", tl_cumsum(c, w, 0, false, false));
}

/* A nest behind the pack would write over its part. */
BODY(part_used_up_later)
{
    UNUSED_BODY_ARGS;
    tl_tensor *a = computed(c, x), *w = three_in_one(c, a, computed(c, y), tl_softmax(c, x, 1));
    tl_tensors_put(c, out, "a", tl_cumsum(c, tl_neg(c, tl_exp(c, a)), 1, false, false));
    tl_tensors_put(c, out, "z", tl_cumsum(c, w, 0, false, false));
}

/* A nest writes over the pack while a part is still needed. */
BODY(pack_used_up_early)
{
    UNUSED_BODY_ARGS;
    tl_tensor *a = computed(c, x), *w = three_in_one(c, a, computed(c, y), tl_softmax(c, x, 1));
    tl_tensors_put(c, out, "z", tl_cumsum(c, tl_neg(c, tl_exp(c, w)), 0, false, false));
    tl_tensors_put(c, out, "a", tl_cumsum(c, a, 0, false, false));
}

static void parts_are_computed_in_their_places(void **state)
{
    assert_int_equal(packed(*state, plain_pack, NULL), 7);
    assert_int_equal(packed(*state, pack_of_all_kinds, NULL), 2);
    assert_int_equal(packed(*state, pack_of_written, NULL), 6);
    assert_int_equal(packed(*state, written_pack, NULL), 0);
    assert_int_equal(packed(*state, part_used_up_later, NULL) & 6, 6);
    assert_int_equal(packed(*state, pack_used_up_early, NULL) & 6, 6);
}

/* --- random graphs ---------------------------------------------------------------------------- */

enum { MOST = 40, ROWS = 4, COLUMNS = 6 };

// All of them are float32[4, 6].
static tl_tensor *random_op(tl_ctx *c, tl_rng *rng, tl_tensor **made, int64_t count)
{
    tl_tensor *a = made[tl_rng_below(rng, count)],
              *b = made[count - 1 - tl_rng_below(rng, count < 3 ? count : 3)];
    tl_tensor *d = made[tl_rng_below(rng, count)];
    switch (tl_rng_below(rng, 14)) {
    case 0: return tl_tanh(c, b);
    case 1: return tl_scale(c, tl_add(c, a, b), 0.5);
    case 2: return tl_mul(c, tl_sigmoid(c, a), b);
    case 3: return tl_softmax(c, b, 1);
    case 4: return tl_scale(c, computed(c, b), 0.25);
    case 5: return tl_sub(c, b, tl_mean(c, a, TL_AXES(1), true));
    case 6:
        return tl_sub(c, b,
                      tl_tanh(c, tl_sum(c, tl_exp(c, tl_clip(c, b, -2, 1)), TL_AXES(1), true)));
    case 7:
        return tl_contiguous(c, tl_swap_axes(c, tl_reshape(c, b, TL_SHAPE(COLUMNS, ROWS)), 0, 1));
    case 8:
        return tl_reshape(c, tl_tanh(c, tl_reshape(c, b, TL_SHAPE(2, 12))),
                          TL_SHAPE(ROWS, COLUMNS));
    case 9: return tl_scale(c, tl_matmul(c, tl_matmul(c, a, tl_swap_axes(c, b, 0, 1)), d), 0.02);
    case 10: {
        tl_tensor *w = three_in_one(c, a, b, d);
        return tl_reshape(c, tl_slice(c, tl_tanh(c, w), 0, 24, 48, 1), TL_SHAPE(ROWS, COLUMNS));
    }
    case 11: {
        tl_tensor *w = three_in_one(c, b, a, d);
        return tl_reshape(
            c, tl_slice(c, tl_cumsum(c, tl_scale(c, w, 0.1), 0, false, false), 0, 60, 84, 1),
            TL_SHAPE(ROWS, COLUMNS));
    }
    case 12: {
        // A slot of its own, or one that others have seen.
        tl_tensor *slot = tl_rng_below(rng, 2) && a->contiguous
                              ? a
                              : tl_full(c, TL_F32, TL_SHAPE(ROWS, COLUMNS), 1);
        tl_update_ema(c, slot, tl_tanh(c, b), 0.5);
        return slot;
    }
    default: return tl_slice(c, tl_concat(c, (tl_tensor *[]){a, b}, 2, 0), 0, 0, 8, 2);
    }
}

static tl_status random_body(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    static const char *const names[] = {"a", "b", "c"};
    tl_tensor *made[MOST];
    tl_rng rng;
    int64_t count = 0;
    tl_rng_init(&rng, *(const uint64_t *)self);
    // Copies, so that whatever is written in place begins with the same elements in each call.
    made[count++] = TL_APPLY(c, copy, NULL, tl_tensors_get(c, in, "x"));
    made[count++] = TL_APPLY(c, copy, NULL, tl_tensors_get(c, in, "y"));
    for (int64_t ops = 3 + tl_rng_below(&rng, MOST - 6); ops > 0; ops--) {
        made[count] = random_op(c, &rng, made, count);
        TL_TRY(tl_ctx_status(c));
        count++;
    }
    for (int i = 0; i < 3; i++)
        tl_tensors_put(c, out, names[i], made[i ? tl_rng_below(&rng, count) : count - 1]);
    return tl_ctx_status(c);
}

static void expect_same_results(fixture *f, uint64_t seed)
{
    double x[24], y[24], is[24], should[24];
    tl_function *fn;
    tl_tensors in = {0}, eager = {0};
    tl_mark mark = tl_ctx_begin(f->c);
    for (int i = 0; i < 24; i++) x[i] = (i * 7 % 24) / 12.0 - 1, y[i] = (i * 5 % 24) / 16.0 - 0.5;
    tl_tensors_put(f->c, &in, "x", tl_from_doubles(f->c, TL_F32, TL_SHAPE(4, 6), x));
    tl_tensors_put(f->c, &in, "y", tl_from_doubles(f->c, TL_F32, TL_SHAPE(4, 6), y));
    assert_ok(random_body(&seed, f->c, &in, &eager));
    assert_ok(tl_function_new(
        &fn, &(tl_function_args){
                 .engine = f->engine, .body = random_body, .self = &seed, .interpret = true}));
    for (int call = 0; call < 2; call++) {
        tl_tensors out = {0};
        assert_ok(tl_function_call(fn, f->c, &in, &out));
        for (int64_t i = 0; i < out.count; i++) {
            assert_ok(tl_tensor_get_doubles(out.items[i].tensor, is, 24));
            assert_ok(tl_tensor_get_doubles(eager.items[i].tensor, should, 24));
            for (int k = 0; k < 24; k++)
                if (!(fabs(is[k] - should[k]) <= 1e-4 * (1 + fabs(should[k]))))
                    fail_msg("seed %llu: element %d of '%s' is %.9g and should be %.9g",
                             (unsigned long long)seed, k, out.items[i].name, is[k], should[k]);
        }
    }
    tl_function_free(&fn);
    tl_ctx_end(f->c, mark);
}

static void random_graphs_are_planned_soundly(void **state)
{
    fixture *f = *state;
    int64_t scratch[8 * MOST];
    for (uint64_t seed = 1; seed <= 400; seed++) {
        tl_graph *g = captured(f, random_body, &seed);
        for (int64_t i = 0; i < (int64_t)TL_COUNT(scratch); i++)
            scratch[i] = (int64_t)(seed + (uint64_t)i) % 4 * 50;
        assert_true(tli_number_nodes(g) < (int64_t)TL_COUNT(scratch));
        expect_sound(g, scratch);
        assert_ok(tl_graph_optimize(g, NULL));
        expect_sound(g, scratch);
        expect_sound(g, NULL);
        tl_graph_free(&g);
        expect_same_results(f, seed);
    }
}

static void programs_need_less_than_their_tensors(void **state)
{
    fixture *f = *state;
    tl_graph *g = captured(f, deep, NULL);
    tl_program *p;
    tl_program_stats stats;
    assert_ok(tl_graph_optimize(g, NULL));
    assert_ok(tl_program_new(&p, &g, &(tl_program_args){0}));
    tl_program_measure(p, &stats);
    assert_true(stats.workspace > 0 && stats.workspace < stats.unplanned / 10);
    tl_program_free(&p);
}

/* --- gaps ------------------------------------------------------------------------------------- */

static bool collide(const tli_room *a, const tli_room *b)
{
    return a->first <= b->last && b->first <= a->last && a->offset < b->offset + b->bytes
           && b->offset < a->offset + a->bytes;
}

// Whether a room could lie there when those that were placed before it are there.
static bool fits_at(const tli_room *rooms, int64_t count, tli_room r, int64_t offset)
{
    r.offset = offset;
    for (int64_t i = 0; i < count; i++) {
        bool earlier =
            rooms[i].bytes > r.bytes || (rooms[i].bytes == r.bytes && rooms[i].at < r.at);
        if (earlier && collide(&rooms[i], &r)) return false;
    }
    return true;
}

// The largest first, and of equal ones the first: each lies where it fits, and would fit nowhere
// below.
static void rooms_lie_in_the_lowest_gaps(void **state)
{
    enum { ROOMS = 60, STEP = 64 };
    tl_rng rng;
    (void)state;
    tl_rng_init(&rng, 5);
    for (int round = 0; round < 200; round++) {
        tli_plan plan = {.alignment = STEP};
        int64_t calls = 1 + tl_rng_below(&rng, 100);
        for (int64_t i = 0; i < ROOMS; i++) {
            int64_t first = tl_rng_below(&rng, calls),
                    last = first + tl_rng_below(&rng, calls - first);
            tli_room r = {.first = first,
                          .last = tl_rng_below(&rng, 2) ? first : last,
                          .inside = -1,
                          .at = i,
                          .bytes = tl_rng_below(&rng, 4) ? 1 + tl_rng_below(&rng, 500)
                                                         : tl_rng_below(&rng, 3) * 64};
            assert_true(TL_VEC_PUSH(&plan.rooms, r));
        }
        assert_ok(tli_plan_place(&plan, calls));
        for (int64_t i = 0; i < ROOMS; i++) {
            const tli_room *r = &plan.rooms.items[i];
            assert_true(fits_at(plan.rooms.items, ROOMS, *r, r->offset));
            for (int64_t at = 0; at < r->offset; at += STEP)
                assert_false(fits_at(plan.rooms.items, ROOMS, *r, at));
            assert_true(r->offset % STEP == 0 && r->offset + r->bytes <= plan.bytes);
        }
        tli_plan_free(&plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rooms_lie_in_the_lowest_gaps),
        cmocka_unit_test_setup_teardown(a_chain_needs_room_for_two, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_beside_others_stays_for_a_while, setup, teardown),
        cmocka_unit_test_setup_teardown(what_lives_together_lies_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(overlaps_are_found, setup, teardown),
        cmocka_unit_test_setup_teardown(parts_are_computed_in_their_places, setup, teardown),
        cmocka_unit_test_setup_teardown(random_graphs_are_planned_soundly, setup, teardown),
        cmocka_unit_test_setup_teardown(programs_need_less_than_their_tensors, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
