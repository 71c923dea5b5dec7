/* Normalisation of channels, which lie next to each other: of a batch, and of groups of them. Rows
 * are places, columns are channels. Statistics come from blocks of rows, in one sweep over memory:
 * sums about each block's own mean, brought together in double in the order of the blocks. */
#include <math.h>

#include "core/inner/element.h"
#include "cpu/scratch.h"
#include "cpu/simd/any_float.h"
#include "cpu/simd/kernels.h"
#include "cpu/simd/math.h"

enum {
    /* Elements of a block of rows, 128 KiB, in the second-level cache for both sweeps; unless that
     * makes it */
    BLOCK = 32768,
    LEAST = 32,    /* fewer rows than this, of which the mean of GUESS would be all, or */
    MOST = 256,    /* more than this: a lane adds up no more numbers in float32 */
    GRAIN = 32768, /* elements a task: microseconds */
    /* Vectors of channels at once: 8 sums, 8 squares and 8 guesses are 24 of 32 registers, and a
     * row's piece is 2 to 8 lines */
    STRIP = 8,
    /* The same where what the activation was given is computed again: two numbers more a channel */
    GIVEN_STRIP = 4,
    GUESS = 8 /* rows whose mean is near enough to a block's */
};
_Static_assert(GUESS <= LEAST && 3 * STRIP + 1 <= 32 && 5 * GIVEN_STRIP + 6 <= 32,
               "a guess is made of rows that are there; strips stay in registers");

/* A matrix of rows, and numbers for each channel. */
typedef struct channels {
    tl_dtype type;
    const void *x, *gy;
    void *out;
    int64_t rows, width, block; /* width: channels; block: rows of one */
    float *partials;            /* two for each block and channel */
    float *mean;                /* a number for each channel, in what follows */
    float *by, *along, *plus;   /* out = (x - mean) * by + plus; or
                                   gy * by + (x - mean) * along + plus */
    /* What followed or follows: NONE, RELU or RELU6. Of a gradient those elements are 0 for which
     * (x - mean) * by + shift does not lie between the bounds. */
    tl_activation activation;
    float *shift;
    float low, high;
} channels;

static int64_t grain_of(int64_t goal, int64_t each)
{
    return each >= goal ? 1 : goal / (each > 0 ? each : 1);
}

static channels channels_of(const tl_node *n, const tl_tensor *x, int64_t rows)
{
    channels c = {.type = x->dtype,
                  .x = tli_data(x),
                  .rows = rows,
                  .out = tli_data(n->out[0]),
                  .width = x->shape.dims[x->shape.rank - 1]};
    c.block = grain_of(BLOCK, c.width);
    if (c.block < LEAST) c.block = LEAST;
    if (c.block > MOST) c.block = MOST;
    return c;
}

static int64_t blocks_of(const channels *c)
{
    const int64_t blocks = (c->rows + c->block - 1) / c->block;
    // No row is left out.
    TL_ASSERT(blocks * c->block >= c->rows && (blocks - 1) * c->block < c->rows);
    return blocks;
}

static int64_t rows_of_block(const channels *c, int64_t block)
{
    const int64_t left = c->rows - block * c->block;
    TL_ASSERT(left > 0); // no block is empty
    return left < c->block ? left : c->block;
}

/* --- sweeps ----------------------------------------------------------------------------------- */

/* Vectors k of a strip of channels from `first` on: m channels are left at each. */
#define EACH_VECTOR(k, m, first)                                                                   \
    for (int64_t k = 0, m; k < STRIP && (m = c->width - (first)-k * VF) > 0; k++)

/* Sums of a block's channels, and of the squares of their distances from its means. One sweep takes
 * both about a guess, the mean of the first rows, which keeps what is subtracted at the end small.
 */
TLI_INLINE void moments_of_strip(tl_dtype t, const channels *c, int64_t block, int64_t first,
                                 bool whole)
{
    const int64_t begin = block * c->block, rows = rows_of_block(c, block);
    const int64_t few = rows < GUESS ? rows : GUESS;
    TL_ASSERT(begin + rows <= c->rows && few > 0 && (!whole || first + STRIP * VF <= c->width));
    float *sums = c->partials + block * 2 * c->width + first, *squares = sums + c->width;
    vf s[STRIP], q[STRIP], guess[STRIP];
    for (int k = 0; k < STRIP; k++) s[k] = q[k] = guess[k] = vf_zero();
    for (int64_t i = begin; i < begin + few; i++) EACH_VECTOR(k, m, first)
    guess[k] = vf_add(guess[k], any_load(t, c->x, i * c->width + first + k * VF, m));
    for (int k = 0; k < STRIP; k++) guess[k] = vf_div(guess[k], vf_set1((float)few));
    for (int64_t i = begin; i < begin + rows; i++) {
        const void *x = any_at(t, c->x, i * c->width + first);
        if (whole) {
            for (int k = 0; k < STRIP; k++) {
                const vf d = vf_sub(any_load(t, x, k * VF, VF), guess[k]);
                s[k] = vf_add(s[k], d);
                q[k] = vf_fma(d, d, q[k]);
            }
        } else {
            EACH_VECTOR(k, m, first)
            {
                const vf d = vf_sub(any_load(t, x, k * VF, m), guess[k]);
                s[k] = vf_add(s[k], d);
                q[k] = vf_fma(d, d, q[k]);
            }
        }
    }
    const vf count = vf_set1((float)rows);
    EACH_VECTOR(k, m, first)
    {
        const vf rest = vf_fnma(s[k], vf_div(s[k], count), q[k]);
        any_store(TL_F32, sums, k * VF, vf_fma(count, guess[k], s[k]), m);
        any_store(TL_F32, squares, k * VF, vf_max(rest, vf_zero()), m);
    }
}

/* The gradient `g` behind an activation that was given d * by + shift. */
TLI_INLINE vf behind(tl_activation activation, const channels *c, vf g, vf d, vf by, vf shift)
{
    if (activation == TL_ACT_NONE) return g;
    const vf z = vf_fma(d, by, shift);
    const vm above = vf_gt(z, vf_set1(c->low));
    return vf_keep(activation == TL_ACT_RELU ? above : vm_and(above, vf_lt(z, vf_set1(c->high))),
                   g);
}

/* Sums of gy, and of gy * (x - mean), for `strip` vectors of channels, the last of which may not be
 * whole. */
TLI_INLINE void slopes_of_strip(tl_dtype t, tl_activation activation, const channels *c,
                                int64_t block, int64_t first, const int strip, const bool whole)
{
    const int64_t begin = block * c->block, rows = rows_of_block(c, block);
    TL_ASSERT(begin + rows <= c->rows && (!whole || first + strip * VF <= c->width));
    float *sums = c->partials + block * 2 * c->width + first, *alongs = sums + c->width;
    vf s[STRIP], a[STRIP], mean[STRIP], by[STRIP], shift[STRIP];
    int64_t left[STRIP];
    for (int k = 0; k < strip; k++) {
        left[k] = whole ? VF : c->width - first - k * VF;
        if (left[k] < 0) left[k] = 0;
        s[k] = a[k] = vf_zero();
        mean[k] = any_load(TL_F32, c->mean + first, k * VF, left[k]);
        by[k] = any_load(TL_F32, c->by + first, k * VF, left[k]);
        shift[k] = any_load(TL_F32, c->shift + first, k * VF, left[k]);
    }
    for (int64_t i = begin; i < begin + rows; i++) {
        const void *x = any_at(t, c->x, i * c->width + first);
        const void *gy = any_at(t, c->gy, i * c->width + first);
        for (int k = 0; k < strip; k++) {
            const vf d = vf_sub(any_load(t, x, k * VF, whole ? VF : left[k]), mean[k]);
            const vf g = behind(activation, c, any_load(t, gy, k * VF, whole ? VF : left[k]), d,
                                by[k], shift[k]);
            s[k] = vf_add(s[k], g);
            a[k] = vf_fma(g, d, a[k]);
        }
    }
    for (int k = 0; k < strip; k++) {
        any_store(TL_F32, sums, k * VF, s[k], left[k]);
        any_store(TL_F32, alongs, k * VF, a[k], left[k]);
    }
}

/* The statement with T and A as each type and activation, of which those of `c` run. */
#define ACTIVATION_SWITCH(c, ...)                                                                  \
    switch ((c)->activation) {                                                                     \
    case TL_ACT_RELU: {                                                                            \
        const tl_activation A = TL_ACT_RELU;                                                       \
        TLI_FLOAT_SWITCH((c)->type, __VA_ARGS__);                                                  \
        break;                                                                                     \
    }                                                                                              \
    case TL_ACT_RELU6: {                                                                           \
        const tl_activation A = TL_ACT_RELU6;                                                      \
        TLI_FLOAT_SWITCH((c)->type, __VA_ARGS__);                                                  \
        break;                                                                                     \
    }                                                                                              \
    default: {                                                                                     \
        const tl_activation A = TL_ACT_NONE;                                                       \
        TLI_FLOAT_SWITCH((c)->type, __VA_ARGS__);                                                  \
        break;                                                                                     \
    }                                                                                              \
    }

TLI_INLINE void moments_of_block(tl_dtype t, const channels *c, int64_t block)
{
    for (int64_t first = 0; first < c->width; first += STRIP * VF)
        if (first + STRIP * VF <= c->width) moments_of_strip(t, c, block, first, true);
        else moments_of_strip(t, c, block, first, false);
}

static tl_status moments_of_blocks(int64_t begin, int64_t end, void *payload)
{
    const channels copy = *(const channels *)payload, *c = &copy;
    TLI_FLOAT_SWITCH(c->type, for (int64_t b = begin; b < end; b++) moments_of_block(T, c, b));
    return TL_OK;
}

TLI_INLINE void slopes_of_block(tl_dtype t, tl_activation a, const channels *c, int64_t block)
{
    const int strip = a == TL_ACT_NONE ? STRIP : GIVEN_STRIP;
    for (int64_t first = 0; first < c->width; first += strip * VF)
        if (first + strip * VF <= c->width) slopes_of_strip(t, a, c, block, first, strip, true);
        else slopes_of_strip(t, a, c, block, first, strip, false);
}

static tl_status slopes_of_blocks(int64_t begin, int64_t end, void *payload)
{
    const channels copy = *(const channels *)payload, *c = &copy;
    ACTIVATION_SWITCH(c, for (int64_t b = begin; b < end; b++) slopes_of_block(T, A, c, b));
    return TL_OK;
}

TLI_INLINE vf activated(tl_activation activation, vf x)
{
    return activation == TL_ACT_RELU ? vf_relu(x) : activation == TL_ACT_RELU6 ? vf_relu6(x) : x;
}

/* One vector of a row that begins at element `at`, channels from i on. Rows are swept one after the
 * other: several side by side would share what is loaded for their channels, but memory is written
 * at half the speed then. */
TLI_INLINE void scale_vector(tl_dtype t, tl_activation activation, const channels *c, int64_t at,
                             int64_t i, int64_t m)
{
    const vf d = vf_sub(any_load(t, c->x, at + i, m), any_load(TL_F32, c->mean, i, m));
    const vf z = vf_fma(d, any_load(TL_F32, c->by, i, m), any_load(TL_F32, c->plus, i, m));
    any_store(t, c->out, at + i, activated(activation, z), m);
}

TLI_INLINE void slope_vector(tl_dtype t, tl_activation activation, const channels *c, int64_t at,
                             int64_t i, int64_t m)
{
    const vf d = vf_sub(any_load(t, c->x, at + i, m), any_load(TL_F32, c->mean, i, m));
    const vf by = any_load(TL_F32, c->by, i, m), shift = any_load(TL_F32, c->shift, i, m);
    const vf g = behind(activation, c, any_load(t, c->gy, at + i, m), d, by, shift);
    const vf rest = vf_fma(d, any_load(TL_F32, c->along, i, m), any_load(TL_F32, c->plus, i, m));
    any_store(t, c->out, at + i, vf_fma(g, by, rest), m);
}

/* <name>_rows: all channels of rows begin .. end - 1. */
#define ROWS_OF(name)                                                                              \
    TLI_INLINE void name##_row(tl_dtype t, tl_activation a, const channels *c, int64_t at)         \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        _Pragma("GCC unroll 4") for (; i + VF <= c->width; i += VF)                                \
            name##_vector(t, a, c, at, i, VF);                                                     \
        if (i < c->width) name##_vector(t, a, c, at, i, c->width - i);                             \
    }                                                                                              \
    static tl_status name##_rows(int64_t begin, int64_t end, void *payload)                        \
    {                                                                                              \
        const channels copy = *(const channels *)payload, *c = &copy;                              \
        ACTIVATION_SWITCH(c, for (int64_t i = begin; i < end; i++)                                 \
                                 name##_row(T, A, c, i * c->width));                               \
        return TL_OK;                                                                              \
    }
ROWS_OF(scale)
ROWS_OF(slope)

/* Sweeps that all threads share. */
static tl_status sweep_blocks(const tl_run *run, channels *c, tl_parallel_fn *fn)
{
    return tl_parallel_for(run->threads, blocks_of(c), grain_of(GRAIN, c->block * c->width), fn, c);
}

static tl_status sweep_rows(const tl_run *run, channels *c, tl_parallel_fn *fn)
{
    return tl_parallel_for(run->threads, c->rows, grain_of(GRAIN, c->width), fn, c);
}

/* --- bringing partial sums together ----------------------------------------------------------- */

static double partial_sum(const channels *c, int64_t channel, bool second)
{
    const float *p = c->partials + (second ? c->width : 0) + channel;
    double sum = 0;
    for (int64_t b = 0, blocks = blocks_of(c); b < blocks; b++) sum += p[b * 2 * c->width];
    return sum;
}

/* Mean of a channel, and the sum of the squares of distances from it. */
static double channel_mean(const channels *c, int64_t channel, double *squares)
{
    const double mean = partial_sum(c, channel, false) / (double)c->rows;
    TL_ASSERT(channel >= 0 && channel < c->width);
    const float *p = c->partials + channel;
    *squares = 0;
    for (int64_t b = 0, blocks = blocks_of(c); b < blocks; b++, p += 2 * c->width) {
        const double count = (double)rows_of_block(c, b), apart = p[0] / count - mean;
        *squares += p[c->width] + count * apart * apart;
    }
    return mean;
}

static double get(const tl_tensor *t, int64_t i)
{
    return tli_element_get(t->dtype, tli_data(t), i);
}

static void put(const tl_tensor *t, int64_t i, double value)
{
    tli_element_set(t->dtype, tli_data(t), i, value);
}

/* Gradients of other types than their inputs, and of nothing at all. */
static bool is_rare(const tl_node *n)
{
    return n->in[0]->dtype != n->in[1]->dtype || tl_tensor_count(n->in[1]) == 0;
}

/* Room for the partial sums and the numbers of channels. */
static tl_status make_room(channels *c, tli_scratch_slot slot)
{
    void *room;
    const int64_t partials = 2 * blocks_of(c) * c->width;
    TL_TRY(tli_scratch(&room, slot, (size_t)(partials + 5 * c->width + 1) * sizeof(float)));
    c->partials = room;
    c->mean = c->partials + partials;
    c->by = c->mean + c->width;
    c->along = c->by + c->width;
    c->plus = c->along + c->width;
    c->shift = c->plus + c->width;
    TL_ASSERT(tli_scratch_holds(c->shift, (size_t)c->width * sizeof(float)));
    return TL_OK;
}

/* --- batch ------------------------------------------------------------------------------------ */

static int64_t rows_before(const tl_tensor *x)
{
    int64_t rows = 1;
    for (int i = 0; i < x->shape.rank - 1; i++) rows *= x->shape.dims[i];
    return rows;
}

/* Numbers that round to what lies above 0, and below 6: halfway to the next ones is not there. */
static void set_bounds(channels *c, tl_activation activation)
{
    c->activation = activation;
    c->low = c->type == TL_F32 ? 0 : c->type == TL_BF16 ? 0x1p-134f : 0x1p-25f;
    c->high = c->type == TL_F32 ? 6 : c->type == TL_BF16 ? 6 - 0x1p-6f : 6 - 0x1p-9f;
}

static tl_status batch_normalize_kernel(const tl_run *run, const tl_node *n)
{
    const tl_norm_attr *a = n->attr;
    channels c = channels_of(n, n->in[0], rows_before(n->in[0]));
    c.activation = a->activation;
    TL_TRY(make_room(&c, TLI_SCRATCH_KERNEL));
    TL_TRY(sweep_blocks(run, &c, moments_of_blocks));
    for (int64_t k = 0; k < c.width; k++) {
        double squares;
        const double mean = channel_mean(&c, k, &squares), variance = squares / (double)c.rows;
        put(n->out[1], k, mean);
        put(n->out[2], k, variance);
        put(n->out[3], k, 1 / sqrt(variance + a->epsilon));
        const double rstd = get(n->out[3], k); // as the gradient sees it
        c.mean[k] = (float)mean;
        c.by[k] = (float)(a->scaled ? rstd * get(n->in[1], k) : rstd);
        c.plus[k] = (float)(a->shifted ? get(n->in[1 + a->scaled], k) : 0);
    }
    return sweep_rows(run, &c, scale_rows);
}

static tl_status batch_norm_stats_kernel(const tl_run *run, const tl_node *n)
{
    channels c = channels_of(n, n->in[0], rows_before(n->in[0]));
    TL_TRY(make_room(&c, TLI_SCRATCH_KERNEL));
    TL_TRY(sweep_blocks(run, &c, moments_of_blocks));
    for (int64_t k = 0; k < c.width; k++) {
        double squares;
        put(n->out[0], k, channel_mean(&c, k, &squares));
        put(n->out[1], k, squares / (double)c.rows);
    }
    return TL_OK;
}

static tl_status batch_normalize_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_norm_attr *a = n->attr;
    if (is_rare(n)) return tli_run_reference(run, n);
    channels c = channels_of(n, n->in[1], rows_before(n->in[1]));
    const double share = 1 / (double)c.rows;
    TL_TRY(make_room(&c, TLI_SCRATCH_KERNEL));
    set_bounds(&c, a->activation);
    c.gy = tli_data(n->in[0]);
    const tl_tensor *beta = a->activation && a->shifted ? n->in[4 + a->scaled] : NULL;
    for (int64_t k = 0; k < c.width; k++) {
        const double rstd = get(n->in[3], k);
        c.mean[k] = (float)get(n->in[2], k);
        c.by[k] = (float)(a->scaled ? rstd * get(n->in[4], k) : rstd);
        c.shift[k] = (float)(beta ? get(beta, k) : 0);
    }
    TL_TRY(sweep_blocks(run, &c, slopes_of_blocks));
    for (int64_t k = 0; k < c.width; k++) {
        const double rstd = get(n->in[3], k), by = a->scaled ? rstd * get(n->in[4], k) : rstd;
        const double sum = partial_sum(&c, k, false), along = partial_sum(&c, k, true);
        c.along[k] = (float)(-by * rstd * rstd * along * share);
        c.plus[k] = (float)(-by * sum * share);
        if (a->scaled) put(n->out[1], k, along * rstd);
        if (a->shifted) put(n->out[2], k, sum);
    }
    return sweep_rows(run, &c, slope_rows);
}

/* --- given statistics ------------------------------------------------------------------------- */

static tl_status batch_norm_apply_kernel(const tl_run *run, const tl_node *n)
{
    const tl_norm_attr *a = n->attr;
    channels c = channels_of(n, n->in[0], rows_before(n->in[0]));
    TL_TRY(make_room(&c, TLI_SCRATCH_KERNEL));
    for (int64_t k = 0; k < c.width; k++) {
        const double rstd = 1 / sqrt(get(n->in[2], k) + a->epsilon);
        c.mean[k] = (float)get(n->in[1], k);
        c.by[k] = (float)(a->scaled ? rstd * get(n->in[3], k) : rstd);
        c.plus[k] = (float)(a->shifted ? get(n->in[3 + a->scaled], k) : 0);
    }
    return sweep_rows(run, &c, scale_rows);
}

static tl_status batch_norm_apply_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_norm_attr *a = n->attr;
    if (is_rare(n)) return tli_run_reference(run, n);
    channels c = channels_of(n, n->in[1], rows_before(n->in[1]));
    TL_TRY(make_room(&c, TLI_SCRATCH_KERNEL));
    c.gy = tli_data(n->in[0]);
    for (int64_t k = 0; k < c.width; k++) c.mean[k] = (float)get(n->in[2], k);
    TL_TRY(sweep_blocks(run, &c, slopes_of_blocks));
    for (int64_t k = 0; k < c.width; k++) {
        const double inside = get(n->in[3], k) + a->epsilon, rstd = 1 / sqrt(inside);
        const double by = a->scaled ? rstd * get(n->in[4], k) : rstd;
        const double sum = partial_sum(&c, k, false), along = partial_sum(&c, k, true);
        c.by[k] = (float)by;
        c.along[k] = c.plus[k] = 0;
        put(n->out[1], k, -sum * by);
        put(n->out[2], k, -0.5 * along * by / inside);
        if (a->scaled) put(n->out[3], k, along * rstd);
        if (a->shifted) put(n->out[4], k, sum);
    }
    return sweep_rows(run, &c, slope_rows);
}

/* --- groups: each example is a matrix of its own ---------------------------------------------- */

typedef struct grouped {
    channels c;           /* of the first example */
    int64_t groups, each; /* each: channels of a group */
    const float *gamma, *beta;
    float *means, *rstds; /* of examples and groups */
    float *params;        /* gradients of gamma and beta, for each example */
    double epsilon;
} grouped;

static grouped grouped_of(const tl_node *n, const tl_tensor *x)
{
    const tl_norm_attr *a = n->attr;
    int64_t rows = 1;
    for (int i = 1; i < x->shape.rank - 1; i++) rows *= x->shape.dims[i];
    const channels c = channels_of(n, x, rows);
    TL_ASSERT(a->groups > 0 && c.width % a->groups == 0);
    return (grouped){
        .c = c, .groups = a->groups, .each = c.width / a->groups, .epsilon = a->epsilon};
}

static channels example_of(const grouped *g, int64_t example)
{
    channels c = g->c;
    const int64_t at = example * c.rows * c.width;
    c.x = any_at(c.type, c.x, at);
    if (c.gy) c.gy = any_at(c.type, c.gy, at);
    c.out = (char *)c.out + at * (int64_t)tl_dtype_size(c.type);
    return c;
}

/* Mean and 1 / deviation of group k, from the moments of its channels. */
static void group_moments(const grouped *g, const channels *c, int64_t k, double *mean,
                          double *rstd)
{
    const double items = (double)(c->rows * g->each);
    TL_ASSERT(k < g->groups && g->groups * g->each == c->width);
    const float *p = c->partials + k * g->each;
    double sum = 0, squares = 0;
    for (int64_t b = 0, blocks = blocks_of(c); b < blocks; b++)
        for (int64_t i = 0; i < g->each; i++) sum += p[b * 2 * c->width + i];
    *mean = sum / items;
    for (int64_t b = 0, blocks = blocks_of(c); b < blocks; b++, p += 2 * c->width) {
        const double count = (double)rows_of_block(c, b), share = 1 / count;
        for (int64_t i = 0; i < g->each; i++) {
            const double apart = p[i] * share - *mean;
            squares += p[c->width + i] + count * apart * apart;
        }
    }
    *rstd = 1 / sqrt(squares / items + g->epsilon);
}

static tl_status group_forward(int64_t begin, int64_t end, void *payload)
{
    const grouped *g = payload;
    for (int64_t example = begin; example < end; example++) {
        channels c = example_of(g, example);
        TL_TRY(make_room(&c, TLI_SCRATCH_TASK));
        TL_TRY(moments_of_blocks(0, blocks_of(&c), &c));
        for (int64_t k = 0; k < g->groups; k++) {
            double mean, rstd;
            group_moments(g, &c, k, &mean, &rstd);
            g->means[example * g->groups + k] = (float)mean;
            g->rstds[example * g->groups + k] = (float)rstd;
            for (int64_t i = k * g->each; i < (k + 1) * g->each; i++) {
                c.mean[i] = (float)mean;
                c.by[i] = (float)(g->gamma ? rstd * g->gamma[i] : rstd);
                c.plus[i] = g->beta ? g->beta[i] : 0;
            }
        }
        TL_TRY(scale_rows(0, c.rows, &c));
    }
    return TL_OK;
}

static tl_status group_backward(int64_t begin, int64_t end, void *payload)
{
    const grouped *g = payload;
    for (int64_t example = begin; example < end; example++) {
        channels c = example_of(g, example);
        float *params = g->params + example * 2 * c.width;
        const float *means = g->means + example * g->groups,
                    *rstds = g->rstds + example * g->groups;
        TL_TRY(make_room(&c, TLI_SCRATCH_TASK));
        for (int64_t i = 0; i < c.width; i++) c.mean[i] = means[i / g->each];
        TL_TRY(slopes_of_blocks(0, blocks_of(&c), &c));
        for (int64_t k = 0; k < g->groups; k++) {
            const double rstd = rstds[k], share = 1 / (double)(c.rows * g->each);
            double sum = 0, along = 0;
            for (int64_t i = k * g->each; i < (k + 1) * g->each; i++) {
                const double s = partial_sum(&c, i, false), d = partial_sum(&c, i, true);
                const double gamma = g->gamma ? g->gamma[i] : 1;
                params[i] = (float)(d * rstd);
                params[c.width + i] = (float)s;
                c.by[i] = (float)(rstd * gamma);
                sum += gamma * s;
                along += gamma * d;
            }
            for (int64_t i = k * g->each; i < (k + 1) * g->each; i++) {
                c.along[i] = (float)(-rstd * rstd * rstd * along * share);
                c.plus[i] = (float)(-rstd * sum * share);
            }
        }
        TL_TRY(slope_rows(0, c.rows, &c));
    }
    return TL_OK;
}

/* gamma or beta in float32, at the place where `room` points; it moves on. */
static const float *param_floats(const tl_tensor *t, float **room)
{
    float *to = *room;
    const int64_t n = tl_tensor_count(t);
    TL_ASSERT(tli_scratch_holds(to, (size_t)n * sizeof *to));
    for (int64_t i = 0; i < n; i++) to[i] = (float)get(t, i);
    *room += n;
    return to;
}

static tl_status run_examples(const tl_run *run, grouped *g, int64_t examples, tl_parallel_fn *fn)
{
    return tl_parallel_for(run->threads, examples, grain_of(GRAIN / 2, g->c.rows * g->c.width), fn,
                           g);
}

static tl_status group_normalize_kernel(const tl_run *run, const tl_node *n)
{
    const tl_norm_attr *a = n->attr;
    grouped g = grouped_of(n, n->in[0]);
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL, (size_t)(2 * g.c.width + 1) * sizeof(float)));
    float *free_room = room;
    if (a->scaled) g.gamma = param_floats(n->in[1], &free_room);
    if (a->shifted) g.beta = param_floats(n->in[1 + a->scaled], &free_room);
    g.means = tli_data(n->out[1]);
    TL_ASSERT(tl_tensor_count(n->out[1]) == n->in[0]->shape.dims[0] * g.groups);
    g.rstds = tli_data(n->out[2]);
    return run_examples(run, &g, n->in[0]->shape.dims[0], group_forward);
}

static tl_status group_normalize_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_norm_attr *a = n->attr;
    const int64_t examples = n->in[1]->shape.dims[0];
    if (is_rare(n)) return tli_run_reference(run, n);
    grouped g = grouped_of(n, n->in[1]);
    void *room;
    const int64_t width = g.c.width;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL,
                       (size_t)((2 * examples + 1) * width + 1) * sizeof(float)));
    g.params = room;
    float *free_room = g.params + 2 * examples * width;
    g.c.gy = tli_data(n->in[0]);
    g.means = tli_data(n->in[2]);
    g.rstds = tli_data(n->in[3]);
    if (a->scaled) g.gamma = param_floats(n->in[4], &free_room);
    TL_TRY(run_examples(run, &g, examples, group_backward));
    for (int64_t i = 0; i < width; i++) {
        double gamma = 0, beta = 0;
        for (int64_t k = 0; k < examples; k++) {
            gamma += g.params[2 * k * width + i];
            beta += g.params[(2 * k + 1) * width + i];
        }
        if (a->scaled) put(n->out[1], i, gamma);
        if (a->shifted) put(n->out[2], i, beta);
    }
    return TL_OK;
}

#define ROWS(name)                                                                                 \
    {TL_OP_##name, TL_F32, name##_kernel, 0}, {TL_OP_##name, TL_BF16, name##_kernel, 0},           \
    {                                                                                              \
        TL_OP_##name, TL_F16, name##_kernel, 0                                                     \
    }
static const tl_kernel table[] = {
    ROWS(batch_normalize),      ROWS(batch_normalize_grad),  ROWS(batch_norm_stats),
    ROWS(batch_norm_apply),     ROWS(batch_norm_apply_grad), ROWS(group_normalize),
    ROWS(group_normalize_grad),
};
TLI_SIMD_KERNELS(batch_norm, table);
