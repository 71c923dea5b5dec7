/* Attention: tiles of scores, of which the largest and the sum are carried along. */
#include "cpu/simd/attention_parts.h"

#include <math.h>
#include <tilth/core/ctx.h>

#include "core/inner/element.h"

#define THIS_ISA TLI_JOIN(TLI, TLI_ISA) /* TLI_neon, TLI_avx2 ... */

/* --- what the gradient uses as well ----------------------------------------------------------- */

operand attention_operand(const tl_tensor *t)
{
    TL_ASSERT(t->shape.rank == 4);
    return (operand){tli_data(t), t->strides[0], t->strides[1], t->strides[2], t->strides[3]};
}

// The bias as it stretches over [batch, heads, queries, keys].
static operand bias_operand(const tl_tensor *bias)
{
    TL_ASSERT(bias->shape.rank <= 4);
    int64_t strides[4] = {0};
    for (int d = 3, own = bias->shape.rank - 1; own >= 0; d--, own--)
        strides[d] = bias->shape.dims[own] == 1 ? 0 : bias->strides[own];
    return (operand){tli_data(bias), strides[0], strides[2], strides[1], strides[3]};
}

void attention_init(attention *t, const tl_run *run, const tl_node *n, int first, int extra)
{
    const tl_attend_attr *a = n->attr;
    const tl_tensor *q = n->in[first], *k = n->in[first + 1], *v = n->in[first + 2];
    *t = (attention){
        .a = a,
        .gemm = tli_gemm_kernels_of(THIS_ISA, TLI_GEMM_F32),
        .type = q->dtype,
        .q = attention_operand(q),
        .k = attention_operand(k),
        .v = attention_operand(v),
        .mask = a->masked ? n->in[extra] : NULL,
        .batches = q->shape.dims[0],
        .queries = q->shape.dims[1],
        .keys = k->shape.dims[1],
        .heads = q->shape.dims[2],
        .groups = k->shape.dims[2],
        .width = q->shape.dims[3],
        .value_width = v->shape.dims[3],
    };
    if (a->biased) t->bias = bias_operand(n->in[extra + a->masked]);
    if (a->dropped) t->dropped = tli_data(n->in[extra + a->masked + a->biased]);
    t->serves = t->heads / t->groups;
    TL_ASSERT(k->shape.dims[0] == t->batches && v->shape.dims[1] == t->keys
              && v->shape.dims[2] == t->groups);
    TL_ASSERT(k->shape.dims[3] == t->width && t->serves * t->groups == t->heads
              && q->dtype == k->dtype);
    t->panels = t->gemm;
#if defined(ATTENTION_HALF)
    t->panels = tli_gemm_kernels_of(THIS_ISA, tli_gemm_kind_of(THIS_ISA, t->type, t->type));
#endif
    t->half = t->panels->kind == TLI_GEMM_BF16;
    t->width_room = round_up(t->width, t->half ? NR : ROOM);
    t->value_room = round_up(t->value_width, t->half ? NR : ROOM);
    t->shift = t->keys - t->queries;
    if (a->rate == 0) return;
    tl_draw_stream(&t->stream, &run->draws, a->key);
    t->least = (float)a->rate;
    if ((double)t->least < a->rate) t->least = nextafterf(t->least, INFINITY);
    t->boost = (float)(1 / (1 - a->rate));
}

allowance attention_allow(const attention *t, int64_t batch, uint8_t *room)
{
    allowance all = {.keys = t->keys};
    if (!t->mask) return all;
    const uint8_t *from = (const uint8_t *)tli_data(t->mask) + batch * t->mask->strides[0];
    bool gaps = false;
    all.keys = 0;
    for (int64_t s = 0; s < t->keys; s++) {
        room[s] = from[s * t->mask->strides[1]] != 0;
        if (!room[s]) continue;
        gaps |= s != all.keys;
        all.keys = s + 1;
    }
    if (gaps) all.each = room;
    TL_ASSERT(all.keys >= 0 && all.keys <= t->keys);
    return all;
}

void attention_fetch(const attention *t, const operand *o, int64_t batch, int64_t head,
                     int64_t first, int64_t count, int64_t width)
{
    if (o->item != 1) return;
    const int64_t bytes = width * (int64_t)tl_dtype_size(t->type);
    for (int64_t i = first; i < first + count; i++) {
        const char *row = operand_at(t, o, batch, i, head);
        for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at, 0, 2);
    }
}

void attention_rows(float *to, int64_t row, const attention *t, const operand *o, int64_t batch,
                    int64_t head, int64_t first, int64_t count, int64_t width,
                    const allowance *allow)
{
    TL_ASSERT(width <= row && count >= 0);
    for (int64_t i = 0; i < count; i++, to += row) {
        const void *from = operand_at(t, o, batch, first + i, head);
        int64_t have = allow && allow->each && !allow->each[first + i] ? 0 : width;
        if (o->item == 1) t->gemm->convert(to, TL_F32, from, t->type, have);
        else
            for (int64_t j = 0; j < have; j++)
                to[j] = (float)tli_element_get(t->type, from, j * o->item);
        if (have < row) memset(to + have, 0, (size_t)(row - have) * sizeof *to);
    }
}

#if defined(ATTENTION_HALF)
void attention_columns(uint16_t *to, const attention *t, const operand *o, int64_t batch,
                       int64_t head, int64_t first, int64_t count, int64_t width,
                       int64_t tile_places, const allowance *allow, uint16_t *room)
{
    const uint16_t *from = operand_at(t, o, batch, first, head);
    TL_ASSERT(t->half && tile_places > 0 && (!allow || !allow->each || room));
    int64_t place = o->place, item = o->item;
    if (allow && allow->each) { // zeros for keys that are left out, as in rows
        for (int64_t i = 0; i < count; i++)
            for (int64_t j = 0; j < width; j++)
                room[i * width + j] = allow->each[first + i] ? from[i * place + j * item] : 0;
        from = room;
        place = width;
        item = 1;
    }
    const int64_t lanes = round_up(width, NR);
    for (int64_t i = 0; i < count; i += tile_places, from += tile_places * place)
        t->panels->pack_b(to + i * lanes, from, t->type, item, place, width,
                          smaller(tile_places, count - i));
}
#endif

static int64_t first_draw(const tile *x, int64_t i)
{
    const attention *t = x->t;
    return ((x->batch * t->heads + x->head) * t->queries + x->first_query + i) * t->keys;
}

static void draw(float *restrict to, const attention *t, int64_t first, int64_t count)
{
    if (!t->dropped) {
        tl_rng_fill_uniform_f32(&t->stream, first, to, count);
        return;
    }
    const uint8_t *restrict from = t->dropped + first;
    for (int64_t i = 0; i < count; i++) to[i] = from[i] ? 0.0f : 1.0f;
}

void attention_draw(tile *x, int64_t end)
{
    const attention *t = x->t;
    TL_ASSERT(end <= t->keys);
    x->drawn_row = 0;
    if (!x->drawn || t->keys > TILE_KEYS || 4 * end < 3 * t->keys) return;
    x->drawn_row = t->keys;
    draw(x->drawn, t, first_draw(x, 0), x->queries * t->keys);
}

static void bring_bias(tile *x)
{
    const attention *t = x->t;
    operand bias = t->bias;
    bias.data += x->first_key * bias.item * (int64_t)tl_dtype_size(t->type);
    x->by_key = bias.place == 0;
    if (x->by_key)
        attention_rows(x->bias, x->keys, t, &bias, x->batch, x->head, 0, 1, x->keys, NULL);
    else
        t->gemm->pack_b(x->bias, operand_at(t, &bias, x->batch, x->first_query, x->head), t->type,
                        bias.place, bias.item, x->queries, x->keys);
}

void attention_tile(tile *x)
{
    const attention *t = x->t;
    TL_ASSERT(x->keys > 0 && x->keys <= TILE_KEYS && x->first_key + x->keys <= t->keys);
    TL_ASSERT(x->queries > 0 && x->first_query + x->queries <= t->queries && x->queries <= x->row);
    if (x->bias) bring_bias(x);
    for (int64_t i = 0; i < x->queries && x->drawn && !x->drawn_row; i++)
        draw(x->drawn + i * TILE_KEYS, t, first_draw(x, i) + x->first_key, x->keys);
    if (x->draws)
        t->gemm->pack_b(x->draws, drawn_at(x, 0), TL_F32, drawn_at(x, 1) - drawn_at(x, 0), 1,
                        x->queries, x->keys);
}

/* --- softmax ---------------------------------------------------------------------------------- */

enum {
    BLOCK = 48
}; /* queries at a time: the tile of their scores, 48 x 128 floats or 24 KiB, stays in the
      first-level cache */
_Static_assert(BLOCK *TILE_KEYS * sizeof(float) <= 32768, "a tile of scores stays there");
_Static_assert(BLOCK % NR == 0 && BLOCK % MR == 0, "blocks are whole strips and panels");

/* Of each query of a block: the largest score so far, the sum of exponentials below it, and what
 * the tile before has to be multiplied by. */
typedef struct carry {
    float most[BLOCK], sum[BLOCK], factor[BLOCK];
} carry;

TLI_INLINE void weigh_body(const int nv, const tile *x, const strip *s, float *scores, carry *c)
{
    const uint8_t *allowed = x->allowed;
    float *const at = scores + s->first;
    vf most[NV], safe[NV], sum[NV];
    for (int j = 0; j < nv; j++) most[j] = vf_load(c->most + s->first + j * VF);
    for (int64_t key = 0; key < s->keys; key++) {
        if (allowed && !allowed[key]) continue;
        for (int j = 0; j < nv; j++) most[j] = vf_max(most[j], vf_load(at + key * x->row + j * VF));
    }
    for (int j = 0; j < nv; j++) {
        // A query that has seen nothing: any finite number makes its exponentials 0.
        safe[j] = vf_drop(vf_eq(most[j], vf_set1(-INFINITY)), most[j]);
        const vf factor = exp_weight(vf_sub(vf_load(c->most + s->first + j * VF), safe[j]));
        sum[j] = vf_mul(vf_load(c->sum + s->first + j * VF), factor);
        vf_store(c->factor + s->first + j * VF, factor);
        vf_store(c->most + s->first + j * VF, most[j]);
    }
    for (int64_t key = 0; key < s->keys; key++) {
        float *const to = at + key * x->row;
        if (allowed && !allowed[key]) {
            for (int j = 0; j < nv; j++) vf_store(to + j * VF, vf_zero());
            continue;
        }
        for (int j = 0; j < nv; j++) {
            const vf w = exp_weight(vf_sub(vf_load(to + j * VF), safe[j]));
            sum[j] = vf_add(sum[j], w);
            vf_store(to + j * VF, w);
        }
    }
    for (int j = 0; j < nv; j++) vf_store(c->sum + s->first + j * VF, sum[j]);
}

static void weigh(const tile *x, const strip *s, float *scores, carry *c)
{
    if (s->vectors == NV) weigh_body(NV, x, s, scores, c);
    else if (s->vectors == 2) weigh_body(2, x, s, scores, c);
    else weigh_body(1, x, s, scores, c);
}

static void drop_out(const tile *x, const strip *s, float *weights)
{
    const vf least = vf_set1(x->t->least), boost = vf_set1(x->t->boost);
    const float *draws = x->draws + s->first * x->keys;
    for (int64_t key = 0; key < s->keys; key++)
        for (int j = 0; j < s->vectors * VF; j += VF) {
            float *to = weights + key * x->row + s->first + j;
            const vm stays = vf_ge(vf_load(draws + key * NR + j), least);
            vf_store(to, vf_keep(stays, vf_mul(vf_load(to), vf_keep(stays, boost))));
        }
}

/* --- forward ---------------------------------------------------------------------------------- */

/* What one task holds. */
typedef struct room {
    char *keys;    /* panels of a */
    char *queries; /* panels of b: one block */
    float *scores; /* one tile */
    float *values; /* rows */
#if defined(ATTENTION_HALF)
    uint16_t *value_columns; /* in place of rows: panels of b for each tile */
    uint16_t *weights;       /* a panel of a */
    uint16_t *straight;
#endif
    float *sums; /* rows of a block: weights times values */
    float *bias, *draws, *drawn;
    uint8_t *allowed;
} room;

typedef struct forward {
    attention t;
    int64_t chunk, chunks; /* queries of a task, tasks of a head */
    char *y;
    float *lse;
} forward;

// With no memory yet it counts the bytes.
static size_t room_lay_out(room *r, const attention *t, char *memory)
{
    layout l = {.memory = memory};
    const int64_t score_room = (int64_t)BLOCK * TILE_KEYS;
    *r = (room){0};
    r->keys = layout_take_bytes(&l, panel_bytes(t, round_up(t->keys, MR), t->width));
    r->queries = layout_take_bytes(&l, panel_bytes(t, BLOCK, t->width));
    if (!t->half) r->values = layout_take(&l, t->keys * t->value_room);
#if defined(ATTENTION_HALF)
    if (t->half) {
        r->value_columns = layout_take_bytes(&l, round_up(t->keys, 4) * t->value_room * 2);
        r->weights = layout_take_bytes(&l, MR * TILE_KEYS * 2);
        if (t->mask) r->straight = layout_take_bytes(&l, t->keys * t->value_width * 2);
    }
#endif
    r->scores = layout_take(&l, score_room);
    r->sums = layout_take(&l, BLOCK * t->value_room);
    if (t->a->biased) r->bias = layout_take(&l, score_room);
    if (t->a->rate > 0) {
        if (!t->half) r->draws = layout_take(&l, score_room);
        r->drawn = layout_take(&l, score_room);
    }
    if (t->mask) r->allowed = layout_take_bytes(&l, t->keys);
    return l.bytes;
}

// One tile of scores becomes weights, and is added to the sums.
static void attend_tile(tile *x, const room *r, carry *c)
{
    const attention *t = x->t;
    const bool begun = x->first_key > 0;
    TL_ASSERT(x->row == BLOCK && x->packed_keys >= x->keys && x->first_key % TILE_KEYS == 0);
    attention_tile(x);
    for (int64_t first = 0; first < x->queries; first += NR) {
        const strip s = strip_of(x, first);
        strip_product(x, &s, r->scores, r->keys + panel_bytes(t, x->first_key, t->width),
                      r->queries, t->width, t->a->scale);
        strip_finish_scores(x, &s, r->scores);
        weigh(x, &s, r->scores, c);
        if (x->draws) drop_out(x, &s, r->scores);
        strip_clear_below(x, &s, r->scores);
    }
    for (int64_t i = 0; i < x->queries && begun; i++) {
        if (c->factor[i] == 1) continue;
        const vf factor = vf_set1(c->factor[i]);
        float *row = r->sums + i * t->value_room;
        for (int64_t e = 0; e < t->value_room; e += VF)
            vf_store(row + e, vf_mul(vf_load(row + e), factor));
    }
    for (int64_t i = 0; i < x->queries; i += MR) {
        const int rows = (int)smaller(MR, x->queries - i);
        const int64_t seen = keys_seen(x, i + rows - 1);
        float *sums = r->sums + i * t->value_room;
#if defined(ATTENTION_HALF)
        if (t->half) {
            if (x->drawn)
                half_pack_drawn(r->weights, r->scores + i, x->row, seen, drawn_at(x, i),
                                drawn_at(x, i + 1) - drawn_at(x, i), t->least);
            else half_pack_down(r->weights, r->scores + i, x->row, seen);
            half_product(t, t->value_room, seen, r->weights,
                         r->value_columns + x->first_key * t->value_room,
                         round_up(x->packed_keys, 4) * NR, sums, 1, begun);
            continue;
        }
#endif
        rows_product(t, rows, t->value_room, seen, r->scores + i, 1, x->row,
                     r->values + x->first_key * t->value_room, sums, 1, begun);
    }
}

static void store_block(const forward *f, const room *r, const carry *c, int64_t batch,
                        int64_t head, int64_t first, int64_t count)
{
    const attention *t = &f->t;
    // Weights that lost others on their way into panels were not multiplied there.
    const float whole = t->half && t->a->rate > 0 && t->a->rate < 1 ? t->boost : 1;
    const bool floats = t->type == TL_F32 && t->value_width == t->value_room;
    for (int64_t i = 0; i < count; i++) {
        const vf part = vf_set1(c->most[i] == -INFINITY ? 0 : whole / c->sum[i]);
        float *row = r->sums + i * t->value_room;
        const int64_t at = ((batch * t->queries + first + i) * t->heads + head) * t->value_width;
        char *y = f->y + at * (int64_t)tl_dtype_size(t->type);
        float *to = floats ? (float *)(void *)y : row;
        for (int64_t e = 0; e < t->value_room; e += VF)
            vf_store(to + e, vf_mul(vf_load(row + e), part));
        if (!floats) t->gemm->convert(y, t->type, row, TL_F32, t->value_width);
        f->lse[(batch * t->heads + head) * t->queries + first + i] =
            c->most[i] == -INFINITY ? -INFINITY : c->most[i] + logf(c->sum[i]);
    }
}

static void attend_block(const forward *f, const room *r, const allowance *allow, int64_t batch,
                         int64_t head, int64_t first, int64_t count)
{
    const attention *t = &f->t;
    carry c;
    TL_ASSERT(count > 0 && count <= BLOCK && first + count <= t->queries && allow->keys <= t->keys);
    tile x = {.t = t,
              .batch = batch,
              .head = head,
              .first_query = first,
              .queries = count,
              .keys = allow->keys,
              .row = BLOCK,
              .bias = r->bias,
              .draws = r->draws,
              .drawn = r->drawn};
    for (int i = 0; i < BLOCK; i++) {
        c.most[i] = -INFINITY;
        c.sum[i] = c.factor[i] = 0;
    }
    memset(r->sums, 0, (size_t)(count * t->value_room) * sizeof *r->sums);
    t->panels->pack_b(r->queries, operand_at(t, &t->q, batch, first, head), t->type, t->q.place,
                      t->q.item, count, t->width);
    const int64_t end = keys_seen(&x, count - 1);
    attention_draw(&x, end);
    for (; x.first_key < end; x.first_key += TILE_KEYS) {
        x.keys = smaller(TILE_KEYS, end - x.first_key);
        x.packed_keys = smaller(TILE_KEYS, allow->keys - x.first_key);
        x.allowed = allow->each ? allow->each + x.first_key : NULL;
        attend_tile(&x, r, &c);
    }
    store_block(f, r, &c, batch, head, first, count);
}

static tl_status attend_task(int64_t begin, int64_t end, void *payload)
{
    const forward *f = payload;
    const attention *t = &f->t;
    room r;
    void *memory;
    TL_TRY(attention_memory(&memory, t, room_lay_out(&r, t, NULL)));
    room_lay_out(&r, t, memory);
    TL_ASSERT(tli_scratch_holds(memory, room_lay_out(&(room){0}, t, NULL)));
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i % f->chunks * f->chunk, head = i / f->chunks % t->heads;
        const int64_t batch = i / f->chunks / t->heads,
                      last = smaller(first + f->chunk, t->queries);
        TL_ASSERT(first < last && batch < t->batches && head / t->serves < t->groups);
        allowance allow = attention_allow(t, batch, r.allowed);
        if (t->a->causal) allow.keys = larger(0, smaller(allow.keys, last + t->shift));
        const int64_t group = head / t->serves;
        attention_fetch(t, &t->k, batch, group, 0, allow.keys, t->width);
        attention_fetch(t, &t->v, batch, group, 0, allow.keys, t->value_width);
        attention_fetch(t, &t->q, batch, head, first, last - first, t->width);
        t->panels->pack_a(r.keys, operand_at(t, &t->k, batch, 0, group), t->type, t->k.place,
                          t->k.item, allow.keys, t->width);
        if (!t->half)
            attention_rows(r.values, t->value_room, t, &t->v, batch, group, 0, allow.keys,
                           t->value_width, &allow);
#if defined(ATTENTION_HALF)
        if (t->half)
            attention_columns(r.value_columns, t, &t->v, batch, group, 0, allow.keys,
                              t->value_width, TILE_KEYS, &allow, r.straight);
#endif
        for (int64_t q = first; q < last; q += BLOCK)
            attend_block(f, &r, &allow, batch, head, q, smaller(BLOCK, last - q));
    }
    return TL_OK;
}

static tl_status attend_kernel(const tl_run *run, const tl_node *n)
{
    forward f = {.y = tli_data(n->out[0]), .lse = tli_data(n->out[1])};
    attention_init(&f.t, run, n, 0, 3);
    // Few heads: shorter pieces of them, each of which packs the keys for itself. Pairs of 64 are a
    // task for any thread of a large machine; below, pieces of 8 or 3 blocks trade packing again
    // against threads that would be idle.
    const int64_t pairs = f.t.batches * f.t.heads;
    f.chunk = pairs >= 64 ? 20 * BLOCK : pairs >= 16 ? 8 * BLOCK : 3 * BLOCK;
    f.chunks = (f.t.queries + f.chunk - 1) / f.chunk;
    TL_ASSERT(f.chunk % BLOCK == 0 && f.chunks * f.chunk >= f.t.queries);
    const int64_t work = smaller(f.chunk, f.t.queries) * (f.t.keys + 1) * f.t.width;
    // Tasks that are worth a thread: some microseconds of multiply-adds
    const int64_t grain = 1 + (1 << 18) / (work + 1);
    return tl_parallel_for(run->threads, pairs * f.chunks, grain, attend_task, &f);
}

#define ROWS(dtype)                                                                                \
    {TL_OP_attend, dtype, attend_kernel, TL_KERNEL_STRIDED | TL_KERNEL_DRAWS},                     \
    {                                                                                              \
        TL_OP_attend_grad, dtype, attend_grad_kernel, TL_KERNEL_STRIDED | TL_KERNEL_DRAWS          \
    }
static const tl_kernel rows[] = {ROWS(TL_F32), ROWS(TL_BF16), ROWS(TL_F16)};
TLI_SIMD_KERNELS(attention, rows);
