/* The gradient of attention: the weights come again from the logarithms of their sums.
 *
 * A task is one head of the keys of one example, so that nobody else adds to its sums. The gradient
 * of the bias, whose places may be shared by all of them, is a pass of its own. */
#include "cpu/simd/attention_parts.h"

#include <math.h>

#include "cpu/scratch.h"
#include "cpu/simd/any_float.h"

enum {
    /* Queries at a time, at most: with 48 keys two tiles of scores are 54 KiB, near the
     * first-level cache; keys and values are packed for fewer blocks than in attention.c */
    BLOCK = 144,
    GRAD_KEYS = NR > 24 ? 96 : 48 /* keys of a tile: whole panels of either side on every machine */
};
_Static_assert(BLOCK % ROW_UNIT == 0 && GRAD_KEYS % MR == 0 && GRAD_KEYS % NR == 0
                   && (int)GRAD_KEYS <= (int)TILE_KEYS,
               "tiles are whole");

typedef struct backward {
    attention t;
    operand gy, y;
    const float *lse;
    int64_t lse_batch, lse_head, lse_place;
    float *means;  /* of gradients by the weights, [batch, heads, queries]; NULL: they are y gy */
    int64_t block; /* queries at a time: about equal pieces */
    char *gq, *gk, *gv, *gbias;
    int64_t bias_dims[4];  /* of the bias: [batch, heads, queries, keys], 1 where it is stretched */
    int64_t bias_tiles[2]; /* tiles of queries and of keys of its gradient */
} backward;

/* Some keys of one head, ready for products. Sums of floats are transposed, [item][key]: as the
 * width of heads is a multiple of the rows of a tile more often than of its columns. Those of
 * products of bfloat16 are rows, [key][item]. */
typedef struct key_side {
    char *keys, *values; /* panels of a, lanes are keys */
    float *key_items;    /* panels of a for each tile, lanes are items */
    float *gk, *gv;      /* sums */
    float *turned;       /* room for sums that are turned round */
    int64_t row;         /* of transposed sums */
    uint8_t *allowed;
#if defined(ATTENTION_HALF)
    uint16_t *key_columns, *straight; /* in place of items: panels of b for each tile */
#endif
} key_side;

/* A block of queries of one head, and a tile of scores. */
typedef struct query_side {
    char *queries, *gys;           /* panels of b */
    float *query_items, *gy_items; /* panels of a, lanes are items */
    float *gy_row, *y_row;         /* one row */
    float *gq;                     /* sums, as those of keys */
    float *panels;                 /* of b, from a tile: lanes are keys */
    float *lse, *mean;             /* of each query; the mean of gradients by the weights */
    float *weights, *grads;
    float *bias, *draws, *drawn;
#if defined(ATTENTION_HALF)
    uint16_t *query_columns, *gy_columns; /* in place of items: panels of b */
    uint16_t *panel;                      /* of a, from a tile */
#endif
} query_side;

static void keys_lay_out(layout *l, key_side *k, const attention *t, int64_t keys, bool sums)
{
    *k = (key_side){0};
    const int64_t whole = round_up(keys, MR);
    k->keys = layout_take_bytes(l, panel_bytes(t, whole, t->width));
    k->values = layout_take_bytes(l, panel_bytes(t, whole, t->value_width));
    if (t->mask) k->allowed = layout_take_bytes(l, t->keys);
    if (!sums) return;
    k->row = round_up(larger(keys, BLOCK), GRAD_KEYS);
    TL_ASSERT(k->row >= keys && k->row % NR == 0);
    k->gk = layout_take(l, k->row * t->width_room);
    k->gv = layout_take(l, k->row * t->value_room);
    k->turned = layout_take(l, k->row * larger(t->width_room, t->value_room));
    if (!t->half) k->key_items = layout_take(l, k->row * t->width_room);
#if defined(ATTENTION_HALF)
    if (!t->half) return;
    k->key_columns = layout_take_bytes(l, whole * t->width_room * 2);
    if (t->mask) k->straight = layout_take_bytes(l, keys * t->width * 2);
#endif
}

static void queries_lay_out(layout *l, query_side *q, const attention *t)
{
    const int64_t scores = (int64_t)BLOCK * GRAD_KEYS;
    *q = (query_side){0};
    q->queries = layout_take_bytes(l, panel_bytes(t, BLOCK, t->width));
    q->gys = layout_take_bytes(l, panel_bytes(t, BLOCK, t->value_width));
    if (!t->half) {
        q->query_items = layout_take(l, BLOCK * t->width_room);
        q->gy_items = layout_take(l, BLOCK * t->value_room);
        q->panels = layout_take(l, scores);
    }
#if defined(ATTENTION_HALF)
    if (t->half) {
        q->query_columns = layout_take_bytes(l, BLOCK * t->width_room * 2);
        q->gy_columns = layout_take_bytes(l, BLOCK * t->value_room * 2);
        q->panel = layout_take_bytes(l, MR * BLOCK * 2);
    }
#endif
    q->gy_row = layout_take(l, t->value_room);
    q->y_row = layout_take(l, larger(t->width_room, t->value_room));
    q->gq = layout_take(l, BLOCK * t->width_room);
    q->lse = layout_take(l, BLOCK);
    q->mean = layout_take(l, BLOCK);
    q->weights = layout_take(l, scores);
    q->grads = layout_take(l, scores);
    if (t->a->biased) q->bias = layout_take(l, scores);
    if (t->a->rate == 0) return;
    q->draws = layout_take(l, scores);
    q->drawn = layout_take(l, (int64_t)BLOCK * TILE_KEYS);
}

/* --- packing ---------------------------------------------------------------------------------- */

static void pack_keys(const key_side *k, const attention *t, int64_t batch, int64_t group,
                      int64_t first, int64_t count)
{
    t->panels->pack_a(k->keys, operand_at(t, &t->k, batch, first, group), t->type, t->k.place,
                      t->k.item, count, t->width);
    t->panels->pack_a(k->values, operand_at(t, &t->v, batch, first, group), t->type, t->v.place,
                      t->v.item, count, t->value_width);
}

/* Keys that are left out become zeros: nothing times whatever lies there is still nothing. */
static void pack_key_items(const key_side *k, const attention *t, int64_t batch, int64_t group,
                           const allowance *allow)
{
    for (int64_t first = 0; first < allow->keys; first += GRAD_KEYS) {
        const int64_t count = smaller(GRAD_KEYS, allow->keys - first);
        float *to = k->key_items + first * t->width_room;
        TL_ASSERT(count > 0 && first + count <= k->row);
        t->gemm->pack_a(to, operand_at(t, &t->k, batch, first, group), t->type, t->k.item,
                        t->k.place, t->width, count);
        for (int64_t i = 0; i < count && allow->each; i++)
            for (int64_t j = 0; j < t->width_room && !allow->each[first + i]; j += MR)
                memset(to + j * count + i * MR, 0, MR * sizeof *to);
    }
}

/* Of rows that lie side by side, as they are. */
TLI_INLINE float dot(tl_dtype dtype, const void *x, const void *y, int64_t n)
{
    vf sum = vf_zero();
    TLI_VECTORS(i, m, n) sum = vf_fma(any_load(dtype, x, i, m), any_load(dtype, y, i, m), sum);
    return vf_sum(sum);
}

static float mean_of(const query_side *q, const backward *g, int64_t batch, int64_t head,
                     int64_t query)
{
    const attention *t = &g->t;
    float mean;
    if (g->gy.item == 1 && g->y.item == 1) {
        const void *gy = operand_at(t, &g->gy, batch, query, head);
        const void *y = operand_at(t, &g->y, batch, query, head);
        TLI_FLOAT_SWITCH(t->type, mean = dot(T, gy, y, t->value_width));
        return mean;
    }
    attention_rows(q->gy_row, t->value_room, t, &g->gy, batch, head, query, 1, t->value_width,
                   NULL);
    attention_rows(q->y_row, t->value_room, t, &g->y, batch, head, query, 1, t->value_width, NULL);
    return dot(TL_F32, q->gy_row, q->y_row, t->value_width);
}

static void pack_queries(const query_side *q, const backward *g, int64_t batch, int64_t head,
                         int64_t first, int64_t count)
{
    const attention *t = &g->t;
    TL_ASSERT(count > 0 && count <= g->block && g->block <= BLOCK && first + count <= t->queries);
    t->panels->pack_b(q->queries, operand_at(t, &t->q, batch, first, head), t->type, t->q.place,
                      t->q.item, count, t->width);
    t->panels->pack_b(q->gys, operand_at(t, &g->gy, batch, first, head), t->type, g->gy.place,
                      g->gy.item, count, t->value_width);
    for (int64_t i = 0; i < round_up(count, NR); i++) {
        q->lse[i] = q->mean[i] = 0;
        if (i >= count) continue;
        q->mean[i] = g->means ? g->means[(batch * t->heads + head) * t->queries + first + i]
                              : mean_of(q, g, batch, head, first + i);
        const float lse =
            g->lse[batch * g->lse_batch + head * g->lse_head + (first + i) * g->lse_place];
        q->lse[i] = lse == -INFINITY ? INFINITY : lse; // it saw nothing: all its weights are 0
    }
}

/* --- one tile --------------------------------------------------------------------------------- */

/* weights: scores -> weights after dropout; grads: by these weights -> by the scores. */
TLI_INLINE void strip_body(const int nv, const bool drops, const tile *x, const strip *s,
                           const query_side *q)
{
    const vf least = vf_set1(x->t->least), boost = vf_set1(x->t->boost);
    const float *draws = drops ? x->draws + s->first * x->keys : NULL;
    vf lse[NV], mean[NV];
    for (int j = 0; j < nv; j++) {
        lse[j] = vf_load(q->lse + s->first + j * VF);
        mean[j] = vf_load(q->mean + s->first + j * VF);
    }
    for (int64_t key = 0; key < s->keys; key++) {
        float *const weights = q->weights + key * x->row + s->first;
        float *const grads = q->grads + key * x->row + s->first;
        const bool out = x->allowed && !x->allowed[key];
        for (int j = 0; j < nv; j++) {
            vf w = exp_weight(vf_sub(vf_load(weights + j * VF), lse[j]));
            vf g = vf_load(grads + j * VF), kept = w;
            if (drops) {
                const vm stays = vf_ge(vf_load(draws + key * NR + j * VF), least);
                const vf factor = vf_keep(stays, boost);
                g = vf_keep(stays, vf_mul(g, factor));
                kept = vf_mul(w, factor);
            }
            g = vf_mul(w, vf_sub(g, mean[j]));
            if (out) kept = g = vf_zero();
            vf_store(weights + j * VF, kept);
            vf_store(grads + j * VF, g);
        }
    }
}

static void strip_grads(const tile *x, const strip *s, const query_side *q)
{
    if (x->draws && s->vectors == NV) strip_body(NV, true, x, s, q);
    else if (x->draws && s->vectors == 2) strip_body(2, true, x, s, q);
    else if (x->draws) strip_body(1, true, x, s, q);
    else if (s->vectors == NV) strip_body(NV, false, x, s, q);
    else if (s->vectors == 2) strip_body(2, false, x, s, q);
    else strip_body(1, false, x, s, q);
}

/* The tile's weights, and the gradient by its scores. `keys` and `values` are its panels. */
static void tile_grads(tile *x, const query_side *q, const char *keys, const char *values)
{
    const attention *t = x->t;
    TL_ASSERT(x->keys <= GRAD_KEYS && x->row <= BLOCK && x->queries <= BLOCK);
    attention_tile(x);
    for (int64_t first = 0; first < x->queries; first += NR) {
        const strip s = strip_of(x, first);
        strip_product(x, &s, q->weights, keys, q->queries, t->width, t->a->scale);
        strip_product(x, &s, q->grads, values, q->gys, t->value_width, 1);
        strip_finish_scores(x, &s, q->weights);
        strip_grads(x, &s, q);
        strip_clear_below(x, &s, q->weights);
        strip_clear_below(x, &s, q->grads);
    }
}

// The first query of a tile that sees key p of it.
static int64_t first_seeing(const tile *x, int64_t p)
{
    if (!x->t->a->causal) return 0;
    return larger(0, x->first_key + p - x->t->shift - x->first_query);
}

#if defined(ATTENTION_HALF)
static void tile_add_half(const tile *x, const key_side *k, const query_side *q)
{
    const attention *t = x->t;
    const int64_t panel = round_up(x->queries, 4) * NR;
    for (int64_t p = 0; p < x->keys; p += MR) {
        const int rows = (int)smaller(MR, x->keys - p);
        const int64_t from = first_seeing(x, p) / 4 * 4, at = x->first_key + p;
        if (from >= x->queries) break;
        half_pack_across(q->panel, q->weights + p * x->row + from, x->row, rows, x->queries - from);
        half_product(t, t->value_room, x->queries - from, q->panel, q->gy_columns + from * NR,
                     panel, k->gv + at * t->value_room, 1, true);
        half_pack_across(q->panel, q->grads + p * x->row + from, x->row, rows, x->queries - from);
        half_product(t, t->width_room, x->queries - from, q->panel, q->query_columns + from * NR,
                     panel, k->gk + at * t->width_room, t->a->scale, true);
    }
    for (int64_t i = 0; i < x->queries; i += MR) {
        const int64_t seen = keys_seen(x, smaller(i + MR, x->queries) - 1);
        half_pack_down(q->panel, q->grads + i, x->row, seen);
        half_product(
            t, t->width_room, seen, q->panel, k->key_columns + x->first_key * t->width_room,
            round_up(x->packed_keys, 4) * NR, q->gq + i * t->width_room, t->a->scale, true);
    }
}
#endif

// sums[item][key] += alpha * (items of queries) (tile of keys by queries)
static void add_to_keys(const tile *x, const key_side *k, const query_side *q, const float *values,
                        const float *items, int64_t width, float *sums, double alpha)
{
    const attention *t = x->t;
    TL_ASSERT(x->first_key + round_up(x->keys, VF) <= k->row && width % MR == 0);
    t->gemm->pack_b(q->panels, values, TL_F32, x->row, 1, x->keys, x->queries);
    for (int64_t p = 0; p < x->keys; p += NR) {
        const int cols = (int)round_up(smaller(NR, x->keys - p), VF);
        const int64_t from = first_seeing(x, p), depth = x->queries - from;
        if (depth <= 0) break;
        for (int64_t i = 0; i < width; i += MR)
            t->gemm->tile(MR, cols, depth, items + i * x->queries + from * MR,
                          q->panels + p * x->queries + from * NR,
                          sums + i * k->row + x->first_key + p, k->row, alpha, true);
    }
}

// Adds what a tile gives to the sums of keys, values and queries.
static void tile_add(const tile *x, const key_side *k, const query_side *q)
{
    const attention *t = x->t;
    add_to_keys(x, k, q, q->weights, q->gy_items, t->value_room, k->gv, 1);
    add_to_keys(x, k, q, q->grads, q->query_items, t->width_room, k->gk, t->a->scale);
    for (int64_t first = 0; first < x->queries; first += NR) {
        const strip s = strip_of(x, first);
        if (!s.seen) continue;
        for (int64_t i = 0; i < t->width_room; i += MR)
            t->gemm->strided(MR, s.vectors * VF, s.seen,
                             k->key_items + x->first_key * t->width_room + i * x->packed_keys, 1,
                             MR, q->grads + first, x->row, q->gq + i * x->row + first, x->row,
                             t->a->scale, true);
    }
}

/* --- queries, keys and values ----------------------------------------------------------------- */

/* Where a gradient goes: some places of one head. */
typedef struct target {
    char *to;
    int64_t batch, head, heads, first, count, places, width, width_room;
} target;

static char *target_at(const attention *t, const target *to, int64_t i)
{
    const int64_t place = (to->batch * to->places + to->first + i) * to->heads + to->head;
    TL_ASSERT(to->head < to->heads && to->first + i < to->places);
    return to->to + place * to->width * (int64_t)tl_dtype_size(t->type);
}

/* From rows, or from transposed sums of rows `row` apart, which are turned round in panels. */
static void store_sums(const attention *t, const target *to, const float *sums, int64_t row,
                       float *turned, float *one)
{
    if (t->half) {
        for (int64_t i = 0; i < to->count; i++)
            t->gemm->convert(target_at(t, to, i), t->type, sums + i * to->width_room, TL_F32,
                             to->width);
        return;
    }
    t->gemm->pack_a(turned, sums, TL_F32, row, 1, to->width_room, to->count);
    const bool floats = t->type == TL_F32 && to->width == to->width_room;
    for (int64_t i = 0; i < to->count; i++) {
        float *into = floats ? (float *)(void *)target_at(t, to, i) : one;
        for (int64_t j = 0; j < to->width_room; j += MR)
            memcpy(into + j, turned + j * to->count + i * MR, MR * sizeof *into);
        if (!floats) t->gemm->convert(target_at(t, to, i), t->type, one, TL_F32, to->width);
    }
}

static tile tile_of(const backward *g, const query_side *q, int64_t batch, int64_t head,
                    int64_t first_query, int64_t queries, int64_t keys)
{
    return (tile){.t = &g->t,
                  .batch = batch,
                  .head = head,
                  .first_query = first_query,
                  .queries = queries,
                  .keys = keys,
                  .row = round_up(queries, ROW_UNIT),
                  .bias = q->bias,
                  .draws = q->draws,
                  .drawn = q->drawn};
}

static void grad_block(const backward *g, const key_side *k, const query_side *q,
                       const allowance *allow, int64_t batch, int64_t head, int64_t first)
{
    const attention *t = &g->t;
    const int64_t count = smaller(g->block, t->queries - first);
    tile x = tile_of(g, q, batch, head, first, count, allow->keys);
    const int64_t end = keys_seen(&x, count - 1);
    TL_ASSERT(x.row <= BLOCK && x.row >= count && end <= allow->keys);
    memset(q->gq, 0, (size_t)(x.row * t->width_room) * sizeof *q->gq);
    if (end) {
        attention_fetch(t, &t->q, batch, head, first, count, t->width);
        attention_fetch(t, &g->gy, batch, head, first, count, t->value_width);
        attention_fetch(t, &g->y, batch, head, first, count, t->value_width);
        pack_queries(q, g, batch, head, first, count);
        if (!t->half) {
            t->gemm->pack_a(q->query_items, operand_at(t, &t->q, batch, first, head), t->type,
                            t->q.item, t->q.place, t->width, count);
            t->gemm->pack_a(q->gy_items, operand_at(t, &g->gy, batch, first, head), t->type,
                            g->gy.item, g->gy.place, t->value_width, count);
        }
#if defined(ATTENTION_HALF)
        if (t->half) {
            attention_columns(q->query_columns, t, &t->q, batch, head, first, count, t->width,
                              count, NULL, NULL);
            attention_columns(q->gy_columns, t, &g->gy, batch, head, first, count, t->value_width,
                              count, NULL, NULL);
        }
#endif
    }
    attention_draw(&x, end);
    for (; x.first_key < end; x.first_key += GRAD_KEYS) {
        x.keys = smaller(GRAD_KEYS, end - x.first_key);
        x.allowed = allow->each ? allow->each + x.first_key : NULL;
        tile_grads(&x, q, k->keys + panel_bytes(t, x.first_key, t->width),
                   k->values + panel_bytes(t, x.first_key, t->value_width));
        x.packed_keys = smaller(GRAD_KEYS, allow->keys - x.first_key);
#if defined(ATTENTION_HALF)
        if (t->half) {
            tile_add_half(&x, k, q);
            continue;
        }
#endif
        tile_add(&x, k, q);
    }
    const target to = {g->gq, batch,      head,     t->heads,     first,
                       count, t->queries, t->width, t->width_room};
    store_sums(t, &to, q->gq, x.row, k->turned, q->y_row);
}

// Both sides of a task: measured first, then laid out in the thread's memory.
static tl_status take_memory(key_side *k, query_side *q, const attention *t, bool grads)
{
    void *memory = NULL;
    layout l = {0};
    keys_lay_out(&l, k, t, t->keys, grads);
    queries_lay_out(&l, q, t);
    TL_TRY(attention_memory(&memory, t, l.bytes));
    l = (layout){.memory = memory};
    keys_lay_out(&l, k, t, t->keys, grads);
    queries_lay_out(&l, q, t);
    return TL_OK;
}

static tl_status grad_task(int64_t begin, int64_t end, void *payload)
{
    const backward *g = payload;
    const attention *t = &g->t;
    key_side k;
    query_side q;
    TL_TRY(take_memory(&k, &q, t, true));
    TL_ASSERT(tli_scratch_holds(k.gk, (size_t)(k.row * t->width_room) * sizeof *k.gk));
    for (int64_t i = begin; i < end; i++) {
        const int64_t batch = i / t->groups, group = i % t->groups;
        const allowance allow = attention_allow(t, batch, k.allowed);
        attention_fetch(t, &t->k, batch, group, 0, allow.keys, t->width);
        attention_fetch(t, &t->v, batch, group, 0, allow.keys, t->value_width);
        pack_keys(&k, t, batch, group, 0, allow.keys);
        if (!t->half) pack_key_items(&k, t, batch, group, &allow);
#if defined(ATTENTION_HALF)
        if (t->half)
            attention_columns(k.key_columns, t, &t->k, batch, group, 0, allow.keys, t->width,
                              GRAD_KEYS, &allow, k.straight);
#endif
        memset(k.gk, 0, (size_t)(k.row * t->width_room) * sizeof *k.gk);
        memset(k.gv, 0, (size_t)(k.row * t->value_room) * sizeof *k.gv);
        for (int64_t head = group * t->serves; head < (group + 1) * t->serves; head++)
            for (int64_t first = 0; first < t->queries; first += g->block)
                grad_block(g, &k, &q, &allow, batch, head, first);
        target to = {g->gk, batch, group, t->groups, 0, t->keys, t->keys, t->width, t->width_room};
        store_sums(t, &to, k.gk, k.row, k.turned, q.y_row);
        to.to = g->gv;
        to.width = t->value_width;
        to.width_room = t->value_room;
        store_sums(t, &to, k.gv, k.row, k.turned, q.y_row);
    }
    return TL_OK;
}

/* --- the bias --------------------------------------------------------------------------------- */

/* A task is a tile of the bias's gradient; along axes where the bias is stretched it adds up
 * everything. */
typedef struct bias_span {
    int64_t batch[2], head[2], query[2], key[2]; /* begin, end */
} bias_span;

static bias_span bias_span_of(const backward *g, int64_t task)
{
    const attention *t = &g->t;
    const int64_t *d = g->bias_dims;
    const int64_t key = task % g->bias_tiles[1] * GRAD_KEYS;
    const int64_t query = task / g->bias_tiles[1] % g->bias_tiles[0] * g->block;
    const int64_t outer = task / g->bias_tiles[1] / g->bias_tiles[0];
    const int64_t head = outer % d[1], batch = outer / d[1];
    TL_ASSERT(batch < d[0] && query < larger(d[2], 1) && key < larger(d[3], 1));
    bias_span s = {{batch, batch + 1},
                   {head, head + 1},
                   {query, smaller(query + g->block, t->queries)},
                   {key, smaller(key + GRAD_KEYS, t->keys)}};
    if (d[0] == 1) s.batch[1] = t->batches;
    if (d[1] == 1) s.head[1] = t->heads;
    if (d[2] == 1) s.query[1] = t->queries;
    if (d[3] == 1) s.key[1] = t->keys;
    return s;
}

// Adds one tile of gradients to the sums, [GRAD_KEYS][BLOCK].
static void bias_add(const backward *g, const key_side *k, const query_side *q, tile x, float *sums)
{
    const attention *t = &g->t;
    const allowance allow = attention_allow(t, x.batch, k->allowed);
    const int64_t seen = smaller(keys_seen(&x, x.queries - 1), allow.keys - x.first_key);
    TL_ASSERT(x.first_key + x.keys <= t->keys && x.keys <= GRAD_KEYS);
    if (seen <= 0) return;
    x.keys = seen;
    x.allowed = allow.each ? allow.each + x.first_key : NULL;
    pack_keys(k, t, x.batch, x.head / t->serves, x.first_key, x.keys);
    pack_queries(q, g, x.batch, x.head, x.first_query, x.queries);
    tile_grads(&x, q, k->keys, k->values);
    for (int64_t first = 0; first < x.queries; first += NR) {
        const strip s = strip_of(&x, first);
        for (int64_t key = 0; key < s.keys; key++)
            for (int64_t i = 0; i < s.queries; i++)
                sums[key * BLOCK + first + i] += q->grads[key * x.row + first + i];
    }
}

// The sums go where they belong; those of a stretched axis are one.
static void bias_store(const backward *g, const bias_span *s, float *sums)
{
    const int64_t *d = g->bias_dims;
    int64_t queries = smaller(g->block, s->query[1] - s->query[0]);
    int64_t keys = smaller(GRAD_KEYS, s->key[1] - s->key[0]);
    for (int64_t key = 0; key < keys && d[2] == 1; key++)
        for (int64_t i = 1; i < queries; i++) sums[key * BLOCK] += sums[key * BLOCK + i];
    if (d[2] == 1) queries = 1;
    for (int64_t key = 1; key < keys && d[3] == 1; key++)
        for (int64_t i = 0; i < queries; i++) sums[i] += sums[key * BLOCK + i];
    if (d[3] == 1) keys = 1;
    TL_ASSERT(queries <= BLOCK && keys <= GRAD_KEYS);
    const int64_t batch = d[0] == 1 ? 0 : s->batch[0], head = d[1] == 1 ? 0 : s->head[0];
    const int64_t query = d[2] == 1 ? 0 : s->query[0], first = d[3] == 1 ? 0 : s->key[0];
    const size_t size = tl_dtype_size(g->t.type);
    for (int64_t i = 0; i < queries; i++) {
        float row[GRAD_KEYS];
        for (int64_t key = 0; key < keys; key++) row[key] = sums[key * BLOCK + i];
        const int64_t at = ((batch * d[1] + head) * d[2] + query + i) * d[3] + first;
        g->t.gemm->convert(g->gbias + at * (int64_t)size, g->t.type, row, TL_F32, keys);
    }
}

static tl_status bias_task(int64_t begin, int64_t end, void *payload)
{
    const backward *g = payload;
    key_side k;
    query_side q;
    void *memory = NULL;
    layout l = {0};
    float *sums = layout_take(&l, (int64_t)BLOCK * GRAD_KEYS);
    keys_lay_out(&l, &k, &g->t, GRAD_KEYS, false);
    queries_lay_out(&l, &q, &g->t);
    TL_TRY(attention_memory(&memory, &g->t, l.bytes));
    l = (layout){.memory = memory};
    sums = layout_take(&l, (int64_t)BLOCK * GRAD_KEYS);
    keys_lay_out(&l, &k, &g->t, GRAD_KEYS, false);
    queries_lay_out(&l, &q, &g->t);
    for (int64_t i = begin; i < end; i++) {
        const bias_span s = bias_span_of(g, i);
        memset(sums, 0, (size_t)BLOCK * GRAD_KEYS * sizeof *sums);
        for (int64_t batch = s.batch[0]; batch < s.batch[1]; batch++)
            for (int64_t head = s.head[0]; head < s.head[1]; head++)
                for (int64_t query = s.query[0]; query < s.query[1]; query += g->block)
                    for (int64_t key = s.key[0]; key < s.key[1]; key += GRAD_KEYS) {
                        tile x = tile_of(g, &q, batch, head, query,
                                         smaller(g->block, s.query[1] - query),
                                         smaller(GRAD_KEYS, s.key[1] - key));
                        x.first_key = key;
                        bias_add(g, &k, &q, x, sums);
                    }
        bias_store(g, &s, sums);
    }
    return TL_OK;
}

static void mean_block(const backward *g, const key_side *k, const query_side *q,
                       const allowance *allow, int64_t batch, int64_t head, int64_t first)
{
    const attention *t = &g->t;
    const int64_t count = smaller(g->block, t->queries - first);
    float *means = g->means + (batch * t->heads + head) * t->queries + first;
    tile x = tile_of(g, q, batch, head, first, count, allow->keys);
    const int64_t end = keys_seen(&x, count - 1);
    memset(means, 0, (size_t)count * sizeof *means); // so that gradients are those times weights
    if (end) pack_queries(q, g, batch, head, first, count);
    float sums[BLOCK] = {0};
    attention_draw(&x, end);
    for (; x.first_key < end; x.first_key += GRAD_KEYS) {
        x.keys = smaller(GRAD_KEYS, end - x.first_key);
        x.allowed = allow->each ? allow->each + x.first_key : NULL;
        tile_grads(&x, q, k->keys + panel_bytes(t, x.first_key, t->width),
                   k->values + panel_bytes(t, x.first_key, t->value_width));
        for (int64_t at = 0; at < count; at += NR) {
            const strip s = strip_of(&x, at);
            for (int64_t key = 0; key < s.keys; key++)
                for (int64_t i = at; i < at + s.queries; i++) sums[i] += q->grads[key * x.row + i];
        }
    }
    memcpy(means, sums, (size_t)count * sizeof *means);
}

/* Where the result was rounded, the mean that it gives is a little off, for all keys of a query
 * alike; sums over many keys would show it. Then the means come from the weights themselves. */
static tl_status mean_task(int64_t begin, int64_t end, void *payload)
{
    const backward *g = payload;
    const attention *t = &g->t;
    key_side k;
    query_side q;
    TL_TRY(take_memory(&k, &q, t, false));
    for (int64_t i = begin; i < end; i++) {
        const int64_t batch = i / t->heads, head = i % t->heads;
        const allowance allow = attention_allow(t, batch, k.allowed);
        pack_keys(&k, t, batch, head / t->serves, 0, allow.keys);
        for (int64_t first = 0; first < t->queries; first += g->block)
            mean_block(g, &k, &q, &allow, batch, head, first);
    }
    return TL_OK;
}

static tl_status bias_grad(const tl_run *run, const tl_node *n, backward *g)
{
    const tl_tensor *bias = n->out[3];
    int64_t tasks = 1;
    g->gbias = tli_data(bias);
    for (int d = 3, own = bias->shape.rank - 1; d >= 0; d--, own--)
        g->bias_dims[d] = own >= 0 ? bias->shape.dims[own] : 1;
    g->bias_tiles[0] = (g->bias_dims[2] + g->block - 1) / g->block;
    g->bias_tiles[1] = (g->bias_dims[3] + GRAD_KEYS - 1) / GRAD_KEYS;
    tasks = g->bias_dims[0] * g->bias_dims[1] * g->bias_tiles[0] * g->bias_tiles[1];
    return tl_parallel_for(run->threads, tasks, 1, bias_task, g);
}

/* --- the kernel ------------------------------------------------------------------------------- */

tl_status attend_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_tensor *lse = n->in[5];
    backward g = {
        .gy = attention_operand(n->in[0]),
        .y = attention_operand(n->in[4]),
        .lse = tli_data(lse),
        .lse_batch = lse->strides[0],
        .lse_head = lse->strides[1],
        .lse_place = lse->strides[2],
        .gq = tli_data(n->out[0]),
        .gk = tli_data(n->out[1]),
        .gv = tli_data(n->out[2]),
    };
    const attention *t = &g.t;
    attention_init(&g.t, run, n, 1, 6);
    const int64_t blocks = larger(1, (t->queries + BLOCK - 1) / BLOCK);
    g.block = larger(NR, round_up((t->queries + blocks - 1) / blocks, NR));
    TL_ASSERT(g.block <= BLOCK && g.block % NR == 0 && g.block * blocks >= t->queries);
    if (t->a->bias_grad && t->type != TL_F32) {
        void *room;
        const int64_t heads = t->batches * t->heads;
        TL_TRY(
            tli_scratch(&room, TLI_SCRATCH_KERNEL, (size_t)(heads * t->queries) * sizeof *g.means));
        g.means = room;
        TL_TRY(tl_parallel_for(run->threads, heads, 1, mean_task, &g));
    }
    const int64_t work = t->serves * t->queries * (t->keys + 1) * t->width;
    const int64_t grain = 1 + (1 << 17) / (work + 1);
    TL_TRY(tl_parallel_for(run->threads, t->batches * t->groups, grain, grad_task, &g));
    return t->a->bias_grad ? bias_grad(run, n, &g) : TL_OK;
}
