/* Normalisation of channels, which lie next to each other: of a batch, and of groups of them. Rows
 * are places, columns are channels. Statistics come from blocks of rows, in one sweep over memory:
 * sums about each block's own mean, brought together in double in the order of the blocks. */
#include <math.h>
#include <string.h>
#include <tilth/base/integer.h>

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
    NEAR = 4096, /* elements of rows for all strips: of three arrays in the first-level cache */
    GUESS = 8    /* rows whose mean is near enough to a block's */
};
_Static_assert(GUESS <= LEAST && 3 * STRIP + 1 <= 32,
               "a guess is made of rows that are there; strips stay in registers");

/* A matrix of rows, and numbers for each channel. */
typedef struct channels {
    tl_dtype type;
    const void *x, *gy, *added; /* added: to the result; or NULL */
    void *out;
    int64_t rows, width, block; /* width: channels; block: rows of one */
    float *partials;            /* two for each block and channel */
    float *mean;                /* a number for each channel, in what follows */
    float *by, *along, *plus;   /* out = (x - mean) * by + plus; or
                                   gy * by + (x - mean) * along + plus */
    /* What followed or follows: NONE, RELU or RELU6. Of a gradient those elements are 0 for which
     * x - mean does not lie between the bounds. */
    tl_activation activation;
    float *low, *high;
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

/* The vectors of a strip, whose number is known: one, or pairs of them. */
#define EACH_VECTOR(k) _Pragma("GCC unroll 8") for (int k = 0; k < strip; k++)

/* A strip's elements of a row; `m` are there of a single vector. */
TLI_INLINE void load_strip(tl_dtype t, const void *row, const int strip, int64_t m, vf *x)
{
    if (strip == 1) x[0] = any_load(t, row, 0, m);
    else EACH_VECTOR(k) if (k % 2 == 0) any_load_pair(t, row, k * VF, x + k);
}

/* Sums of a block's channels, and of the squares of their distances from its means. One sweep takes
 * both about a guess, the mean of the first rows, which keeps what is subtracted at the end small.
 */
TLI_INLINE void moments_of_strip(tl_dtype t, const channels *c, int64_t block, int64_t first,
                                 const int strip, const int64_t m)
{
    const int64_t begin = block * c->block, rows = rows_of_block(c, block);
    const int64_t few = rows < GUESS ? rows : GUESS;
    TL_ASSERT(begin + rows <= c->rows && few > 0 && first + (strip - 1) * VF + m <= c->width);
    float *sums = c->partials + block * 2 * c->width + first, *squares = sums + c->width;
    vf s[STRIP], q[STRIP], guess[STRIP], x[STRIP];
    EACH_VECTOR(k) s[k] = q[k] = guess[k] = vf_zero();
    for (int64_t i = begin; i < begin + few; i++) {
        load_strip(t, any_at(t, c->x, i * c->width + first), strip, m, x);
        EACH_VECTOR(k) guess[k] = vf_add(guess[k], x[k]);
    }
    EACH_VECTOR(k) guess[k] = vf_div(guess[k], vf_set1((float)few));
    for (int64_t i = begin; i < begin + rows; i++) {
        load_strip(t, any_at(t, c->x, i * c->width + first), strip, m, x);
        EACH_VECTOR(k)
        {
            const vf d = vf_sub(x[k], guess[k]);
            s[k] = vf_add(s[k], d);
            q[k] = vf_fma(d, d, q[k]);
        }
    }
    const vf count = vf_set1((float)rows);
    EACH_VECTOR(k)
    {
        const vf rest = vf_fnma(s[k], vf_div(s[k], count), q[k]);
        any_store(TL_F32, sums, k * VF, vf_fma(count, guess[k], s[k]), m);
        any_store(TL_F32, squares, k * VF, vf_max(rest, vf_zero()), m);
    }
}

/* Adds rows begin .. end - 1 to the sums of gy, and of gy * (x - mean). Behind an activation gy is
 * 0 where x - mean was not between its bounds; it is kept so in `out`, for the second sweep. */
TLI_INLINE void slopes_of_strip(tl_dtype t, bool activated, const channels *c, float *sums,
                                int64_t begin, int64_t end, int64_t first, const int strip,
                                const int64_t m)
{
    TL_ASSERT(end <= c->rows && first + (strip - 1) * VF + m <= c->width);
    float *alongs = sums + c->width;
    vf s[STRIP], a[STRIP], mean[STRIP], low[STRIP], high[STRIP], x[STRIP], g[STRIP];
    EACH_VECTOR(k)
    {
        s[k] = any_load(TL_F32, sums, first + k * VF, m);
        a[k] = any_load(TL_F32, alongs, first + k * VF, m);
        mean[k] = any_load(TL_F32, c->mean, first + k * VF, m);
        low[k] = activated ? any_load(TL_F32, c->low, first + k * VF, m) : vf_zero();
        high[k] = activated ? any_load(TL_F32, c->high, first + k * VF, m) : vf_zero();
    }
    for (int64_t i = begin; i < end; i++) {
        const int64_t at = i * c->width + first;
        load_strip(t, any_at(t, c->x, at), strip, m, x);
        load_strip(t, any_at(t, c->gy, at), strip, m, g);
        EACH_VECTOR(k)
        {
            const vf d = vf_sub(x[k], mean[k]);
            if (activated) g[k] = vf_keep(vm_and(vf_ge(d, low[k]), vf_le(d, high[k])), g[k]);
            s[k] = vf_add(s[k], g[k]);
            a[k] = vf_fma(g[k], d, a[k]);
        }
        if (activated && strip == 1) any_store(t, c->out, at, g[0], m);
        else if (activated)
            EACH_VECTOR(k) if (k % 2 == 0) any_return_pair(t, c->out, at + k * VF, g + k);
    }
    EACH_VECTOR(k)
    {
        any_store(TL_F32, sums, first + k * VF, s[k], m);
        any_store(TL_F32, alongs, first + k * VF, a[k], m);
    }
}

/* All channels of a block: strips as wide as there are whole vectors for. */
#define EACH_STRIP(width, STRIP_OF)                                                                \
    int64_t first = 0;                                                                             \
    for (; first + 8 * VF <= (width); first += 8 * VF) STRIP_OF(8, VF);                            \
    for (; first + 4 * VF <= (width); first += 4 * VF) STRIP_OF(4, VF);                            \
    for (; first + 2 * VF <= (width); first += 2 * VF) STRIP_OF(2, VF);                            \
    for (; first < (width); first += VF) STRIP_OF(1, tl_min_i64(VF, (width)-first))

TLI_INLINE void moments_of_block(tl_dtype t, const channels *c, int64_t block)
{
#define MOMENTS(strip, m) moments_of_strip(t, c, block, first, strip, m)
    EACH_STRIP(c->width, MOMENTS)
        ;
#undef MOMENTS
}

static tl_status moments_of_blocks(int64_t begin, int64_t end, void *payload)
{
    const channels copy = *(const channels *)payload, *c = &copy;
    TLI_FLOAT_SWITCH(c->type, for (int64_t b = begin; b < end; b++) moments_of_block(T, c, b));
    return TL_OK;
}

TLI_INLINE void slopes_of_block(tl_dtype t, bool activated, const channels *c, int64_t block)
{
    const int64_t begin = block * c->block, end = begin + rows_of_block(c, block);
    const int64_t some = grain_of(NEAR, c->width);
    float *sums = c->partials + block * 2 * c->width;
    memset(sums, 0, (size_t)(2 * c->width) * sizeof *sums);
    for (int64_t i = begin; i < end; i += some) {
#define SLOPES(strip, m)                                                                           \
    slopes_of_strip(t, activated, c, sums, i, tl_min_i64(i + some, end), first, strip, m)
        EACH_STRIP(c->width, SLOPES)
            ;
#undef SLOPES
    }
}

static tl_status slopes_of_blocks(int64_t begin, int64_t end, void *payload)
{
    const channels copy = *(const channels *)payload, *c = &copy;
    TLI_FLOAT_SWITCH(
        c->type, for (int64_t b = begin; b < end; b++) {
            if (c->activation) slopes_of_block(T, true, c, b);
            else slopes_of_block(T, false, c, b);
        });
    return TL_OK;
}

TLI_INLINE vf activated(tl_activation activation, vf x)
{
    return activation == TL_ACT_RELU ? vf_relu(x) : activation == TL_ACT_RELU6 ? vf_relu6(x) : x;
}

/* What a vector of elements becomes, channels from i on. */
TLI_INLINE vf scaled(const channels *c, vf x, int64_t i, int64_t m)
{
    const vf d = vf_sub(x, any_load(TL_F32, c->mean, i, m));
    return vf_fma(d, any_load(TL_F32, c->by, i, m), any_load(TL_F32, c->plus, i, m));
}

TLI_INLINE vf sloped(const channels *c, vf g, vf x, int64_t i, int64_t m)
{
    const vf d = vf_sub(x, any_load(TL_F32, c->mean, i, m));
    const vf rest = vf_fma(d, any_load(TL_F32, c->along, i, m), any_load(TL_F32, c->plus, i, m));
    return vf_fma(g, any_load(TL_F32, c->by, i, m), rest);
}

/* The row that begins at element `at`. Rows are swept one after the other: several side by side
 * would share what is loaded for their channels, but memory is written at half the speed then. */
TLI_INLINE void scale_row(tl_dtype t, tl_activation a, const channels *c, int64_t at)
{
    int64_t i = 0;
    _Pragma("GCC unroll 2") for (; i + 2 * VF <= c->width; i += 2 * VF)
    {
        vf x[2];
        any_load_pair(t, c->x, at + i, x);
        for (int k = 0; k < 2; k++) x[k] = activated(a, scaled(c, x[k], i + k * VF, VF));
        any_store_pair(t, c->out, at + i, x);
    }
    for (; i < c->width; i += VF) {
        const int64_t m = tl_min_i64(VF, c->width - i);
        const vf z = scaled(c, any_load(t, c->x, at + i, m), i, m);
        any_store(t, c->out, at + i, activated(a, z), m);
    }
}

/* The same with something that is added. */
static void add_row(tl_dtype type, tl_activation a, const channels *c, int64_t at)
{
    TLI_FLOAT_SWITCH(
        type, for (int64_t i = 0; i < c->width; i += VF) {
            const int64_t m = tl_min_i64(VF, c->width - i);
            const vf z = scaled(c, any_load(T, c->x, at + i, m), i, m);
            any_store(T, c->out, at + i, activated(a, vf_add(z, any_load(T, c->added, at + i, m))),
                      m);
        });
}

TLI_INLINE void slope_row(tl_dtype t, const channels *c, int64_t at)
{
    int64_t i = 0;
    _Pragma("GCC unroll 2") for (; i + 2 * VF <= c->width; i += 2 * VF)
    {
        vf x[2], g[2];
        any_load_pair(t, c->x, at + i, x);
        any_load_pair(t, c->gy, at + i, g);
        for (int k = 0; k < 2; k++) g[k] = sloped(c, g[k], x[k], i + k * VF, VF);
        any_store_pair(t, c->out, at + i, g);
    }
    for (; i < c->width; i += VF) {
        const int64_t m = tl_min_i64(VF, c->width - i);
        const vf x = any_load(t, c->x, at + i, m), g = any_load(t, c->gy, at + i, m);
        any_store(t, c->out, at + i, sloped(c, g, x, i, m), m);
    }
}

TLI_INLINE void scale_some(tl_dtype t, tl_activation a, const channels *c, int64_t begin,
                           int64_t end)
{
    for (int64_t i = begin; i < end; i++) scale_row(t, a, c, i * c->width);
}

static tl_status scale_rows(int64_t begin, int64_t end, void *payload)
{
    const channels copy = *(const channels *)payload, *c = &copy;
    if (c->added) {
        for (int64_t i = begin; i < end; i++) add_row(c->type, c->activation, c, i * c->width);
    } else if (c->activation == TL_ACT_RELU) {
        TLI_FLOAT_SWITCH(c->type, scale_some(T, TL_ACT_RELU, c, begin, end));
    } else if (c->activation == TL_ACT_RELU6) {
        TLI_FLOAT_SWITCH(c->type, scale_some(T, TL_ACT_RELU6, c, begin, end));
    } else {
        TLI_FLOAT_SWITCH(c->type, scale_some(T, TL_ACT_NONE, c, begin, end));
    }
    return TL_OK;
}

static tl_status slope_rows(int64_t begin, int64_t end, void *payload)
{
    const channels copy = *(const channels *)payload, *c = &copy;
    TLI_FLOAT_SWITCH(c->type, for (int64_t i = begin; i < end; i++) slope_row(T, c, i * c->width));
    return TL_OK;
}

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
    TL_TRY(tli_scratch(&room, slot, (size_t)(partials + 6 * c->width + 1) * sizeof(float)));
    c->partials = room;
    c->mean = c->partials + partials;
    c->by = c->mean + c->width;
    c->along = c->by + c->width;
    c->plus = c->along + c->width;
    c->low = c->plus + c->width;
    c->high = c->low + c->width;
    TL_ASSERT(tli_scratch_holds(c->high, (size_t)c->width * sizeof(float)));
    return TL_OK;
}

/* --- batch ------------------------------------------------------------------------------------ */

static int64_t rows_before(const tl_tensor *x)
{
    int64_t rows = 1;
    for (int i = 0; i < x->shape.rank - 1; i++) rows *= x->shape.dims[i];
    return rows;
}

/* Floats in their order, as integers. */
static int32_t order_of(float x)
{
    const int32_t bits = (int32_t)tli_float_to_bits(x);
    return bits < 0 ? bits ^ INT32_MAX : bits;
}

static float ordered(int32_t order)
{
    return tli_bits_to_float((uint32_t)(order < 0 ? order ^ INT32_MAX : order));
}

/* The least d for which d * by + shift, which grows with d, is above `bound` (or at it). */
static int32_t least_above(float by, float shift, float bound, bool at)
{
    int32_t below = order_of(-INFINITY), above = order_of(INFINITY);
    while (above - (int64_t)below > 1) {
        const int32_t middle = (below & above) + ((below ^ above) >> 1); // rounded down
        const float z = fmaf(ordered(middle), by, shift);
        if (z > bound || (at && z == bound)) above = middle;
        else below = middle;
    }
    return above;
}

/* The distances from a channel's mean that its activation let pass: those whose d * by + shift, as
 * an element of the type, lies above 0 and below 6. Found by halving, since the sum is rounded. */
static void set_bounds(channels *c, int64_t channel, float shift)
{
    // What rounds to numbers above 0, and below 6: halfway to the next ones is not there.
    const float zero = c->type == TL_F32 ? 0 : c->type == TL_BF16 ? 0x1p-134f : 0x1p-25f;
    const float six = c->activation == TL_ACT_RELU ? INFINITY
                      : c->type == TL_F32          ? 6
                      : c->type == TL_BF16         ? 6 - 0x1p-6f
                                                   : 6 - 0x1p-9f;
    const float by = fabsf(c->by[channel]);
    float low = -INFINITY, high = INFINITY;
    if (!isfinite(by) || !isfinite(shift) || by == 0) {
        if (!(shift > zero && shift < six) || isnan(by)) low = INFINITY, high = -INFINITY;
    } else {
        low = ordered(least_above(by, shift, zero, false));
        if (six < INFINITY) high = ordered(least_above(by, shift, six, true) - 1);
    }
    c->low[channel] = c->by[channel] < 0 ? -high : low;
    c->high[channel] = c->by[channel] < 0 ? -low : high;
}

static tl_status batch_normalize_kernel(const tl_run *run, const tl_node *n)
{
    const tl_norm_attr *a = n->attr;
    channels c = channels_of(n, n->in[0], rows_before(n->in[0]));
    c.activation = a->activation;
    c.added = a->added ? tli_data(n->in[n->inputs - 1]) : NULL;
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
    c.activation = a->activation;
    c.gy = tli_data(n->in[0]);
    const tl_tensor *beta = a->activation && a->shifted ? n->in[4 + a->scaled] : NULL;
    for (int64_t k = 0; k < c.width; k++) {
        const double rstd = get(n->in[3], k);
        c.mean[k] = (float)get(n->in[2], k);
        c.by[k] = (float)(a->scaled ? rstd * get(n->in[4], k) : rstd);
        if (c.activation) set_bounds(&c, k, (float)(beta ? get(beta, k) : 0));
    }
    TL_TRY(sweep_blocks(run, &c, slopes_of_blocks));
    if (c.activation) c.gy = c.out;
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
