/* What attention and its gradient share.
 *
 * Scores are held transposed, a tile of keys by queries: a vector is several queries, so that the
 * softmax needs nothing across lanes, and 8 queries of a key lie side by side as the tile kernel
 * wants them for the next product. No more than one tile of them exists at a time.
 *
 * Operands come as they lie, with any strides, and are packed once for each task: to floats, or to
 * bfloat16 where both they and the machine are made for it. Then weights are rounded to bfloat16 on
 * their way into the next product; sums are floats all the same. */
#ifndef TLI_CPU_SIMD_ATTENTION_PARTS_H
#define TLI_CPU_SIMD_ATTENTION_PARTS_H

#include "cpu/scratch.h"
#include "cpu/simd/gemm_parts.h"
#include "cpu/simd/kernels.h"
#include "cpu/simd/math.h"

#include <tilth/base/rng.h>

#if defined(TLI_ISA_neon_bf16)
#define ATTENTION_HALF 1 /* there are products of bfloat16 */
#include "cpu/simd/attention_half.h"
enum { ROW_UNIT = 24 }; /* whole panels on both sides: of 8 lanes and of 12 */
#else
enum { ROW_UNIT = GEMM_NR };
#endif

enum {
    MR = GEMM_MR,
    NR = GEMM_NR,
    NV = GEMM_NR / VF,
    ROOM = MR > VF ? MR : VF, /* a multiple of both */
    TILE_KEYS = 128, /* a multiple of every MR, and of every VF; by 48 queries, 24 KiB of scores */
};
_Static_assert(TILE_KEYS % VF == 0 && ROOM % MR == 0 && ROOM % VF == 0,
               "as the comments above say");
_Static_assert(ROW_UNIT % NR == 0 && (ROW_UNIT % MR == 0 || (int)ROW_UNIT == (int)GEMM_NR),
               "rows of scores are whole strips");
_Static_assert(TILE_KEYS % MR == 0 && NR % VF == 0 && NV <= 3, "tiles are whole");

/* A tensor of 4 axes in memory; strides count elements. */
typedef struct operand {
    const char *data;
    int64_t batch, place, head, item;
} operand;

typedef struct attention {
    const tl_attend_attr *a;
    const tli_gemm_kernels *gemm;   /* of floats */
    const tli_gemm_kernels *panels; /* that make scores, of the type's kind */
    bool half;                      /* these are of bfloat16 */
    tl_dtype type;
    operand q, k, v;
    operand bias; /* batch, head, place: of queries, item: of keys; 0 where it is stretched */
    const tl_tensor *mask;
    const uint8_t *dropped; /* [batch, head, query, key], in a row; NULL: it is drawn */
    int64_t batches, queries, keys, heads, groups, serves;
    int64_t width, value_width;     /* D, E */
    int64_t width_room, value_room; /* the same in whole vectors and panels */
    int64_t shift;                  /* causal: query t sees keys up to t + shift */
    tl_rng stream;
    float least, boost; /* draws from `least` on stay, and are multiplied by `boost` */
} attention;

/* e^x for scores below their largest one (x up to 88): exact to one unit, and 0 below 2^-126. */
TLI_INLINE vf exp_weight(vf x)
{
    vf power; // at -88 that of -127, which as bits is 0
    const vf p = tli_exp_parts(vf_max_c(x, vf_set1(-88)), TLI_ROUNDER_127, &power);
    return vf_fma(p, power, power);
}

static inline int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Pieces of one block of memory, each on a line of its own; NULL: only counts. */
typedef struct layout {
    char *memory;
    size_t bytes;
} layout;

static inline void *layout_take_bytes(layout *l, int64_t bytes)
{
    void *p = l->memory ? l->memory + l->bytes : NULL;
    TL_ASSERT(bytes >= 0 && l->bytes % 64 == 0);
    l->bytes += (size_t)round_up(bytes, 64);
    return p;
}

static inline float *layout_take(layout *l, int64_t floats)
{
    return layout_take_bytes(l, floats * (int64_t)sizeof(float));
}

/* What a task works in. It is asked to lie in huge pages: the panels are read in turn, and small
 * pages would collide in the cache. Where keys are few they do not, and models are small. */
static inline tl_status attention_memory(void **out, const attention *t, size_t bytes)
{
    enum { FEW = 64 };
    const size_t least = t->keys < FEW ? 0 : 1 << 20; // from which scratch.c asks for a huge page
    return tli_scratch(out, TLI_SCRATCH_TASK, bytes > least ? bytes : least);
}

/* What the two files export to each other. */
#define attention_operand TLI_ISA_NAME(tli_attention_operand)
#define attention_init TLI_ISA_NAME(tli_attention_init)
#define attention_allow TLI_ISA_NAME(tli_attention_allow)
#define attention_fetch TLI_ISA_NAME(tli_attention_fetch)
#define attention_rows TLI_ISA_NAME(tli_attention_rows)
#define attention_columns TLI_ISA_NAME(tli_attention_columns)
#define attention_draw TLI_ISA_NAME(tli_attention_draw)
#define attention_tile TLI_ISA_NAME(tli_attention_tile)
#define attend_grad_kernel TLI_ISA_NAME(tli_attend_grad)

operand attention_operand(const tl_tensor *t);
/* Inputs `first` .. are q, k and v; mask, bias and what is dropped begin at input `extra`. */
void attention_init(attention *t, const tl_run *run, const tl_node *n, int first, int extra);
tl_status attend_grad_kernel(const tl_run *run, const tl_node *n);

static inline const void *operand_at(const attention *t, const operand *o, int64_t batch,
                                     int64_t place, int64_t head)
{
    TL_ASSERT(batch >= 0 && batch < t->batches && place >= 0 && head >= 0 && head < t->heads);
    return o->data
           + (batch * o->batch + place * o->place + head * o->head)
                 * (int64_t)tl_dtype_size(t->type);
}

/* Which keys of one example may be looked at. */
typedef struct allowance {
    int64_t keys;        /* none from here on */
    const uint8_t *each; /* NULL: all below */
} allowance;

/* `room` has t->keys bytes. */
allowance attention_allow(const attention *t, int64_t batch, uint8_t *room);
/* Calls for rows of one head: they are far apart in memory, where no hardware looks ahead. */
void attention_fetch(const attention *t, const operand *o, int64_t batch, int64_t head,
                     int64_t first, int64_t count, int64_t width);
/* Rows of one head as floats, `row` apart and filled up with zeros. Keys that are left out
 * (`allow`, may be NULL) are zeros: nothing times whatever lies there is still nothing. */
void attention_rows(float *to, int64_t row, const attention *t, const operand *o, int64_t batch,
                    int64_t head, int64_t first, int64_t count, int64_t width,
                    const allowance *allow);
#if defined(ATTENTION_HALF)
/* Panels of b whose lanes are the items of a row and whose depth are places, in tiles of
 * `tile_places` places that lie behind each other. `room` has count * width elements (only with
 * `allow->each`). */
void attention_columns(uint16_t *to, const attention *t, const operand *o, int64_t batch,
                       int64_t head, int64_t first, int64_t count, int64_t width,
                       int64_t tile_places, const allowance *allow, uint16_t *room);
#endif

/* --- one tile of keys by queries -------------------------------------------------------------- */

typedef struct tile {
    const attention *t;
    int64_t batch, head; /* head of q */
    int64_t first_query, queries;
    int64_t first_key, keys;
    int64_t packed_keys;    /* of which the panels of columns, or items, are */
    int64_t row;            /* floats from key to key: a multiple of ROW_UNIT */
    const uint8_t *allowed; /* of this tile's keys; NULL: all */
    float *bias, *draws;    /* panels of NR queries, `keys` deep; NULL: none, or as they lie */
    bool by_key;            /* bias: one number for each key, which all queries share */
    float *drawn;           /* room for the draws of `queries` rows of TILE_KEYS; NULL: none */
    int64_t drawn_row;      /* all their draws are there, rows this far apart; 0: they are not */
} tile;

/* The draws of query i of a tile, from its first key on. */
static inline const float *drawn_at(const tile *x, int64_t i)
{
    return x->drawn + (x->drawn_row ? i * x->drawn_row + x->first_key : i * TILE_KEYS);
}

/* Before the tiles of some queries that see keys up to `end`: their draws at once, where they fit
 * and most of them are used. One row of a tile after the other would take half as long again. What
 * was drawn before stands for draws of 0 and of 1. */
void attention_draw(tile *x, int64_t end);

/* Brings bias and draws, where there are any. */
void attention_tile(tile *x);

/* The first keys of the tile that any of the queries up to `last` (of the tile) sees. */
static inline int64_t keys_seen(const tile *x, int64_t last)
{
    if (!x->t->a->causal) return x->keys;
    const int64_t end = x->first_query + last + x->t->shift + 1 - x->first_key;
    return end < 0 ? 0 : smaller(end, x->keys);
}

/* A strip: NR queries of a tile, or what is left of them. */
typedef struct strip {
    int64_t first, queries;
    int vectors;
    int64_t keys; /* that are computed: whole panels of a, as far as the tile goes */
    int64_t seen; /* that some query sees */
} strip;

static inline strip strip_of(const tile *x, int64_t first)
{
    strip s = {.first = first, .queries = smaller(NR, x->queries - first)};
    s.vectors = (int)((s.queries + VF - 1) / VF);
    s.seen = keys_seen(x, first + s.queries - 1);
    s.keys = smaller(round_up(s.seen, MR), x->keys);
    // Within a row of scores.
    TL_ASSERT(s.queries > 0 && s.vectors <= NV && s.first + s.vectors * VF <= x->row);
    TL_ASSERT(s.seen <= s.keys && s.keys <= x->keys);
    return s;
}

/* Bytes of `count` lanes of panels of this depth; `count` is a multiple of the panel's width. */
static inline int64_t panel_bytes(const attention *t, int64_t count, int64_t depth)
{
    TL_ASSERT(count >= 0 && depth >= 0
              && (count % t->panels->mr == 0 || count % t->panels->nr == 0));
    return count * round_up(depth, t->panels->kr) * (int64_t)t->panels->element;
}

/* scores[key][query] = alpha * (keys' panels) (queries' panels) for a strip; writes whole panels.
 */
static inline void strip_product(const tile *x, const strip *s, float *scores, const char *keys,
                                 const char *queries, int64_t depth, double alpha)
{
    const attention *t = x->t;
    const int cols = t->half ? NR : s->vectors * VF;
    TL_ASSERT(s->first % NR == 0 && s->first + cols <= x->row && s->keys <= TILE_KEYS);
    for (int64_t p = 0; p < s->keys; p += MR)
        t->panels->tile(MR, cols, depth, keys + panel_bytes(t, p, depth),
                        queries + panel_bytes(t, s->first, depth), scores + p * x->row + s->first,
                        x->row, alpha, false);
}

/* Bias, and -infinity where a query may not look yet. */
static inline void strip_finish_scores(const tile *x, const strip *s, float *scores)
{
    float *const at = scores + s->first;
    for (int64_t key = 0; key < s->keys && x->bias; key++) {
        const vf shared = vf_set1(x->by_key ? x->bias[key] : 0);
        const float *bias = x->by_key ? NULL : x->bias + s->first * x->keys + key * NR;
        for (int j = 0; j < s->vectors * VF; j += VF) {
            float *to = at + key * x->row + j;
            vf_store(to, vf_add(vf_load(to), bias ? vf_load(bias + j) : shared));
        }
    }
    if (!x->t->a->causal) return;
    const int64_t first = x->first_query + s->first + x->t->shift - x->first_key; // its last key
    for (int64_t key = larger(first + 1, 0); key < s->keys; key++) {
        const int64_t blind = smaller(key - first, s->vectors * VF);
        for (int64_t i = 0; i < blind; i++) at[key * x->row + i] = -INFINITY;
    }
}

/* Zeros below a strip, as far as the next product may read: its panels may reach into the next
 * strip, which sees more keys, or hold keys that the strip does not see. */
static inline void strip_clear_below(const tile *x, const strip *s, float *values)
{
    const int64_t end = smaller(s->keys + MR + NR, x->keys);
    for (int64_t key = s->keys; key < end; key++)
        memset(values + key * x->row + s->first, 0, (size_t)s->vectors * VF * sizeof *values);
}

/* c += alpha * a * b for some rows of c: columns in tiles of three vectors, or twice two where one
 * would be left. */
static inline void rows_product(const attention *t, int rows, int64_t cols, int64_t depth,
                                const float *a, int64_t a_row, int64_t a_col, const float *b,
                                float *c, double alpha, bool accumulate)
{
    for (int64_t j = 0; j < cols;) {
        const int64_t left = cols - j;
        const int now = left >= NR && left != NR + VF ? NR : left > 2 * VF ? 2 * VF : (int)left;
        TL_ASSERT(now > 0 && now <= left && now % VF == 0);
        t->gemm->strided(rows, now, depth, a, a_row, a_col, b + j, cols, c + j, cols, alpha,
                         accumulate);
        j += now;
    }
}

#if defined(ATTENTION_HALF)
/* c = alpha * a * b (+ c) for one panel of a; the panels of b are `b_panel` elements apart. Writes
 * whole tiles. */
static inline void half_product(const attention *t, int64_t cols, int64_t depth, const uint16_t *a,
                                const uint16_t *b, int64_t b_panel, float *c, double alpha,
                                bool accumulate)
{
    for (int64_t j = 0; j < cols; j += NR, b += b_panel)
        t->panels->tile(MR, NR, depth, a, b, c + j, cols, alpha, accumulate);
}
#endif

#endif
