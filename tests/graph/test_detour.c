/* Clusters of calls that may become one, against a search through all calls. */
#include "graph/graph_test.h"

#include <stdlib.h>
#include <tilth/base/rng.h>

#include "graph/detour.h"
#include "graph/fuse.h"

enum { MOST_CALLS = 160 };

// Chains that part and meet, views, and calls that no cluster takes.
BODY(tangle)
{
    (void)out;
    tl_rng rng;
    tl_tensor *pool[MOST_CALLS] = {x, y};
    int64_t count = 2, calls = 10 + *(int64_t *)self % 50;
    tl_rng_init(&rng, *(uint64_t *)self);
    for (int64_t i = 0; i < calls; i++) {
        tl_tensor *a = pool[tl_rng_below(&rng, count)],
                  *b = pool[count - 1 - tl_rng_below(&rng, count < 6 ? count : 6)];
        switch (tl_rng_below(&rng, 6)) {
        case 0: pool[count++] = tl_softmax(c, b, 1); break;
        case 1:
            pool[count++] =
                tl_reshape(c, tl_exp(c, tl_reshape(c, a, TL_SHAPE(24))), TL_SHAPE(4, 6));
            break;
        case 2: pool[count++] = tl_neg(c, b); break;
        default: pool[count++] = tl_add(c, a, b);
        }
    }
    tl_tensors_put(c, out, "z", pool[count - 1]);
}

typedef struct clusters {
    const tli_order *order;
    int64_t of[MOST_CALLS];
    bool seen[MOST_CALLS];
} clusters;

// Whether the cluster of `call` needs that of `target`; what is on the way is outside of both.
static bool needs(clusters *s, int64_t call, int64_t target)
{
    for (int64_t i = 0; i < s->order->count; i++) {
        if (s->of[i] != s->of[call]) continue;
        for (int64_t k = s->order->first[i]; k < s->order->first[i + 1]; k++) {
            int64_t dep = s->order->deps.items[k];
            if (s->of[dep] == target) return true;
            if (s->seen[s->of[dep]]) continue;
            s->seen[s->of[dep]] = true;
            if (needs(s, dep, target)) return true;
        }
    }
    return false;
}

static bool is_seen_through(const clusters *s, int64_t call, int64_t a, int64_t b)
{
    const tl_node *n = s->order->nodes[call],
                  *maker = tli_is_view(n) ? tli_root(n->out[0])->node : NULL;
    return maker && (s->of[maker->index] == a || s->of[maker->index] == b);
}

// From `b` over calls outside to `a`, or the other way round.
static bool has_way(clusters *s, int64_t a, int64_t b)
{
    for (int64_t i = 0; i < s->order->count; i++) {
        if (s->of[i] != a && s->of[i] != b) continue;
        for (int64_t k = s->order->first[i]; k < s->order->first[i + 1]; k++) {
            int64_t dep = s->order->deps.items[k];
            if (s->of[dep] == a || s->of[dep] == b || is_seen_through(s, dep, a, b)) continue;
            for (int side = 0; side < 2; side++) {
                memset(s->seen, 0, sizeof s->seen);
                if (needs(s, dep, side ? a : b)) return true;
            }
        }
    }
    return false;
}

static void join_at_random(tl_graph *g, uint64_t seed, int64_t *joined, int64_t *refused)
{
    tli_order order;
    tli_detours detours;
    clusters s = {.order = &order};
    tl_rng rng;
    tl_shape space;
    tl_rng_init(&rng, seed + 1);
    assert_ok(tli_order_make(&order, g));
    assert_true(order.count < MOST_CALLS);
    assert_ok(tli_detours_make(&detours, g, &order));
    for (int64_t i = 0; i < order.count; i++) s.of[i] = i;
    for (int tries = 0; tries < 60; tries++) {
        int64_t a = tl_rng_below(&rng, order.count), b = tl_rng_below(&rng, order.count);
        if (!tli_is_nestable(order.nodes[a], &space) || !tli_is_nestable(order.nodes[b], &space))
            continue;
        if ((a = s.of[a]) == (b = s.of[b])) continue;
        bool way = has_way(&s, a, b);
        if (tli_has_detour(&detours, a, b) != way)
            fail_msg("seed %llu: %s detour between clusters %d and %d", (unsigned long long)seed,
                     way ? "a" : "no", (int)a, (int)b);
        ++*(way ? refused : joined);
        if (way) continue;
        tli_detours_join(&detours, a, b);
        for (int64_t i = 0; i < order.count; i++)
            if (s.of[i] == a) s.of[i] = b;
    }
    tli_order_free(&order);
}

static void detours_are_found(void **state)
{
    int64_t joined = 0, refused = 0;
    for (uint64_t seed = 0; seed < 150; seed++) {
        tl_graph *g = captured(*state, tangle, &seed);
        assert_ok(tl_arena_new(&g->scratch));
        join_at_random(g, seed, &joined, &refused);
        tl_arena_free(&g->scratch);
        tl_graph_free(&g);
    }
    assert_true(joined > 500 && refused > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(detours_are_found, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
