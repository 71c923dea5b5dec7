/* Normalisation of rows: layer and rms. A row is read from the first cache after its first sweep.
 */
#include <math.h>

#include "cpu/scratch.h"
#include "cpu/simd/any_float.h"
#include "cpu/simd/kernels.h"

enum {
    GRAIN = 16384, /* elements a task: 64 KiB, microseconds */
    /* Elements that are added up in float32: 4 sums of VF lanes add up 64 to 256 each */
    BLOCK = 4096,
    /* Of rows whose parameter gradients are added up apart, one for each of 64 threads, and */
    BLOCKS = 64,
    /* The most rows of one of them, unless they are few elements: as many additions as a lane of
     * BLOCK */
    DEPTH = 256,
    /* Rows that go through the parameters at once: each has 4 vectors of its own, which with two of
     * gamma, four sums and what is loaded are 28 of 32 registers, and loads and stores of sums are
     * shared by four */
    TOGETHER = 4
};
_Static_assert(BLOCK % (4 * VF) == 0, "blocks are whole rounds of the loops");

typedef struct layer {
    tl_dtype type;
    const void *x, *gy;
    void *out; /* y, or the gradient of x */
    const float *gamma, *beta;
    float *mean, *rstd; /* the mean is NULL where it is left as it is */
    float *partials;    /* of gamma and beta, for each block of rows */
    int64_t rows, width, block;
    double epsilon;
} layer;

static layer layer_of(const tl_node *n, const tl_tensor *x)
{
    const tl_norm_attr *a = n->attr;
    layer l = {.type = x->dtype,
               .x = tli_data(x),
               .rows = 1,
               .width = 1,
               .out = tli_data(n->out[0]),
               .epsilon = a->epsilon};
    const int rank = x->shape.rank, outer = rank - (int)a->axes;
    for (int i = 0; i < rank; i++) *(i < outer ? &l.rows : &l.width) *= x->shape.dims[i];
    TL_ASSERT(outer >= 0 && a->axes > 0 && l.rows * l.width == tl_tensor_count(x));
    return l;
}

static int64_t rows_a_task(const layer *l)
{
    return l->width < GRAIN ? GRAIN / (l->width > 0 ? l->width : 1) : 1;
}

/* A parameter in float32: where it lies, or in `room`, which moves on. */
static const float *floats_of(const tl_tensor *t, float **room)
{
    if (t->dtype == TL_F32) return tli_data(t);
    const int64_t n = tl_tensor_count(t);
    float *to = *room;
    TL_ASSERT(tli_scratch_holds(to, (size_t)n * sizeof *to));
    TLI_FLOAT_SWITCH(t->dtype, TLI_VECTORS(i, m, n)
                                   any_store(TL_F32, to, i, any_load(T, tli_data(t), i, m), m));
    *room += n;
    return to;
}

/* --- forward ---------------------------------------------------------------------------------- */

/* Sum of the elements, or of the squares of their distances from `middle`. */
TLI_INLINE double sum_block(tl_dtype t, const void *x, int64_t at, int64_t n, bool squares,
                            vf middle)
{
    vf s[4] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
    int64_t i = 0;
    for (; i + 4 * VF <= n; i += 4 * VF) {
        vf v[4];
        any_load_pair(t, x, at + i, v);
        any_load_pair(t, x, at + i + 2 * VF, v + 2);
        for (int k = 0; k < 4; k++) {
            v[k] = vf_sub(v[k], middle);
            s[k] = squares ? vf_fma(v[k], v[k], s[k]) : vf_add(s[k], v[k]);
        }
    }
    for (; i < n; i += VF) {
        const vf v = vf_keep(vm_first(n - i), vf_sub(any_load(t, x, at + i, n - i), middle));
        s[0] = squares ? vf_fma(v, v, s[0]) : vf_add(s[0], v);
    }
    return vf_sum(vf_add(vf_add(s[0], s[1]), vf_add(s[2], s[3])));
}

TLI_INLINE double sum_row(tl_dtype t, const void *x, int64_t at, int64_t n, bool squares,
                          float middle)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i += BLOCK)
        sum += sum_block(t, x, at + i, n - i < BLOCK ? n - i : BLOCK, squares, vf_set1(middle));
    return sum;
}

/* Scaled and shifted, where there is something to do it with. */
TLI_INLINE vf affine(const layer *l, vf unit, int64_t i, int64_t m)
{
    if (l->gamma && l->beta)
        return vf_fma(unit, any_load(TL_F32, l->gamma, i, m), any_load(TL_F32, l->beta, i, m));
    if (l->gamma) return vf_mul(unit, any_load(TL_F32, l->gamma, i, m));
    return l->beta ? vf_add(unit, any_load(TL_F32, l->beta, i, m)) : unit;
}

TLI_INLINE void forward_row(tl_dtype t, const layer *l, int64_t row)
{
    const int64_t at = row * l->width, n = l->width;
    const float middle = l->mean ? (float)(sum_row(t, l->x, at, n, false, 0) / (double)n) : 0;
    const double variance = sum_row(t, l->x, at, n, true, middle) / (double)n;
    const float scale = (float)(1 / sqrt(variance + l->epsilon));
    const vf mean = vf_set1(middle), rstd = vf_set1(scale);
    int64_t i = 0;
    if (l->mean) l->mean[row] = middle;
    l->rstd[row] = scale;
    for (; i + 2 * VF <= n; i += 2 * VF) {
        vf x[2];
        any_load_pair(t, l->x, at + i, x);
        for (int k = 0; k < 2; k++)
            x[k] = affine(l, vf_mul(vf_sub(x[k], mean), rstd), i + k * VF, VF);
        any_store_pair(t, l->out, at + i, x);
    }
    for (; i < n; i += VF) {
        const vf unit = vf_mul(vf_sub(any_load(t, l->x, at + i, n - i), mean), rstd);
        any_store(t, l->out, at + i, affine(l, unit, i, n - i), n - i);
    }
}

static tl_status forward_rows(int64_t begin, int64_t end, void *payload)
{
    const layer copy = *(const layer *)payload, *l = &copy;
    TLI_FLOAT_SWITCH(l->type, for (int64_t row = begin; row < end; row++) forward_row(T, l, row));
    return TL_OK;
}

static tl_status normalize(const tl_run *run, const tl_node *n, bool centered)
{
    const tl_norm_attr *a = n->attr;
    layer l = layer_of(n, n->in[0]);
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL, (size_t)(2 * l.width + 1) * sizeof(float)));
    float *free_room = room;
    if (a->scaled) l.gamma = floats_of(n->in[1], &free_room);
    if (a->shifted) l.beta = floats_of(n->in[1 + a->scaled], &free_room);
    if (centered) l.mean = tli_data(n->out[1]);
    l.rstd = tli_data(n->out[n->outputs - 1]);
    TL_ASSERT(tl_tensor_count(n->out[n->outputs - 1]) == l.rows && n->outputs == 2 + centered);
    return tl_parallel_for(run->threads, l.rows, rows_a_task(&l), forward_rows, &l);
}

/* --- gradient --------------------------------------------------------------------------------- */

/* The gradient of a row's items is gy * gamma * rstd - (x - mean) * slope - shift. */
typedef struct line {
    vf mean, rstd, slope, shift;
} line;

/* Lanes beyond the end are 0 in both sums. */
TLI_INLINE void add_slopes(const layer *l, int64_t i, int64_t m, vf g, vf x, vf mean, vf *sum,
                           vf *along)
{
    if (l->gamma) g = vf_mul(g, any_load(TL_F32, l->gamma, i, m));
    *sum = vf_add(*sum, g);
    *along = vf_fma(g, vf_sub(x, mean), *along);
}

TLI_INLINE line line_of(tl_dtype t, const layer *l, int64_t row)
{
    const int64_t at = row * l->width, n = l->width;
    const float middle = l->mean ? l->mean[row] : 0, rstd = l->rstd[row];
    const vf mean = vf_set1(middle);
    double sum = 0, along = 0;
    for (int64_t b = 0; b < n; b += BLOCK) {
        const int64_t end = n - b < BLOCK ? n : b + BLOCK;
        vf s[4], d[4];
        int64_t i = b;
        for (int k = 0; k < 4; k++) s[k] = d[k] = vf_zero();
        for (; i + 4 * VF <= end; i += 4 * VF) {
            vf g[4], x[4];
            for (int k = 0; k < 4; k += 2) {
                any_load_pair(t, l->gy, at + i + k * VF, g + k);
                any_load_pair(t, l->x, at + i + k * VF, x + k);
            }
            for (int k = 0; k < 4; k++)
                add_slopes(l, i + k * VF, VF, g[k], x[k], mean, &s[k], &d[k]);
        }
        for (; i < end; i += VF)
            add_slopes(l, i, end - i, any_load(t, l->gy, at + i, end - i),
                       any_load(t, l->x, at + i, end - i), mean, &s[0], &d[0]);
        sum += vf_sum(vf_add(vf_add(s[0], s[1]), vf_add(s[2], s[3])));
        along += vf_sum(vf_add(vf_add(d[0], d[1]), vf_add(d[2], d[3])));
    }
    const double r = rstd, share = 1 / (double)n;
    return (line){mean, vf_set1(rstd), vf_set1((float)(r * r * r * along * share)),
                  vf_set1(l->mean ? (float)(r * sum * share) : 0)};
}

/* The gradient of x for g, that of y; their parts of the sums of parameter gradients are added. */
TLI_INLINE vf backward_vector(const line *c, vf g, vf x, vf gamma, vf *of_gamma, vf *of_beta)
{
    const vf d = vf_sub(x, c->mean), gu = vf_mul(g, c->rstd);
    *of_gamma = vf_fma(gu, d, *of_gamma);
    *of_beta = vf_add(*of_beta, g);
    return vf_sub(vf_fnma(d, c->slope, vf_mul(gu, gamma)), c->shift);
}

TLI_INLINE void add_to(float *sums, int64_t i, vf x, int64_t m)
{
    any_store(TL_F32, sums, i, vf_add(any_load(TL_F32, sums, i, m), x), m);
}

/* `count` rows at once, with the sums of their parameter gradients. */
TLI_INLINE void backward_rows(tl_dtype t, const layer *l, int64_t row, int count, float *sums)
{
    const int64_t n = l->width;
    int64_t i = 0;
    line lines[TOGETHER];
    for (int k = 0; k < count; k++) lines[k] = line_of(t, l, row + k);
    for (; i + 2 * VF <= n; i += 2 * VF) {
        vf gamma[2], of_gamma[2], of_beta[2];
        for (int j = 0; j < 2; j++) {
            gamma[j] = l->gamma ? any_load(TL_F32, l->gamma, i + j * VF, VF) : vf_set1(1);
            of_gamma[j] = of_beta[j] = vf_zero();
        }
        for (int k = 0; k < count; k++) {
            const int64_t at = (row + k) * n + i;
            vf g[2], x[2];
            any_load_pair(t, l->gy, at, g);
            any_load_pair(t, l->x, at, x);
            for (int j = 0; j < 2; j++)
                g[j] = backward_vector(&lines[k], g[j], x[j], gamma[j], &of_gamma[j], &of_beta[j]);
            any_store_pair(t, l->out, at, g);
        }
        for (int j = 0; j < 2; j++) {
            add_to(sums, i + j * VF, of_gamma[j], VF);
            add_to(sums + n, i + j * VF, of_beta[j], VF);
        }
    }
    for (; i < n; i += VF) {
        const int64_t m = n - i;
        const vf gamma = l->gamma ? any_load(TL_F32, l->gamma, i, m) : vf_set1(1);
        vf of_gamma = vf_zero(), of_beta = vf_zero();
        for (int k = 0; k < count; k++) {
            const int64_t at = (row + k) * n + i;
            const vf g = any_load(t, l->gy, at, m), x = any_load(t, l->x, at, m);
            any_store(t, l->out, at, backward_vector(&lines[k], g, x, gamma, &of_gamma, &of_beta),
                      m);
        }
        add_to(sums, i, of_gamma, m);
        add_to(sums + n, i, of_beta, m);
    }
}

TLI_INLINE void backward_block(tl_dtype t, const layer *l, int64_t begin, int64_t end)
{
    float *sums = l->partials + begin / l->block * 2 * l->width;
    TL_ASSERT(begin % l->block == 0 && end - begin <= l->block); // a block of its own
    memset(sums, 0, (size_t)(2 * l->width) * sizeof *sums);
    int64_t row = begin;
    for (; row + TOGETHER <= end; row += TOGETHER) backward_rows(t, l, row, TOGETHER, sums);
    for (; row < end; row++) backward_rows(t, l, row, 1, sums);
}

static tl_status backward_piece(int64_t begin, int64_t end, void *payload)
{
    const layer copy = *(const layer *)payload, *l = &copy;
    TLI_FLOAT_SWITCH(l->type, backward_block(T, l, begin, end));
    return TL_OK;
}

typedef struct totals {
    const float *partials;
    float *out;
    int64_t blocks, stride;
} totals;

static tl_status add_partials(int64_t begin, int64_t end, void *payload)
{
    const totals *s = payload;
    for (int64_t i = begin; i < end; i += VF) {
        vf sum = vf_zero();
        for (int64_t b = 0; b < s->blocks; b++)
            sum = vf_add(sum, any_load(TL_F32, s->partials + b * s->stride, i, end - i));
        any_store(TL_F32, s->out, i, sum, end - i);
    }
    return TL_OK;
}

static tl_status param_grad(const tl_run *run, const layer *l, const tl_tensor *out, bool of_beta)
{
    totals s = {.partials = l->partials + (of_beta ? l->width : 0),
                .out = tli_data(out),
                .blocks = (l->rows + l->block - 1) / l->block,
                .stride = 2 * l->width};
    const int64_t grain = 2 * GRAIN / (s.blocks + 1) / VF * VF;
    return tl_parallel_for(run->threads, l->width, grain > 4 * VF ? grain : 4 * VF, add_partials,
                           &s);
}

static tl_status normalize_grad(const tl_run *run, const tl_node *n, bool centered)
{
    const tl_norm_attr *a = n->attr;
    if (n->in[0]->dtype != n->in[1]->dtype) return tli_run_reference(run, n);
    layer l = layer_of(n, n->in[1]);
    const int64_t least = rows_a_task(&l), even = (l.rows + BLOCKS - 1) / BLOCKS;
    l.block = even > DEPTH ? DEPTH : even;
    if (l.block < least) l.block = least;
    const int64_t blocks = (l.rows + l.block - 1) / l.block;
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL,
                       (size_t)((2 * blocks + 1) * l.width + 1) * sizeof(float)));
    l.partials = room;
    TL_ASSERT(l.block > 0 && blocks * l.block >= l.rows
              && tl_shape_equal(&n->in[0]->shape, &n->in[1]->shape));
    float *free_room = l.partials + 2 * blocks * l.width;
    int at = 2;
    l.gy = tli_data(n->in[0]);
    if (centered) l.mean = tli_data(n->in[at++]);
    l.rstd = tli_data(n->in[at++]);
    if (a->scaled) l.gamma = floats_of(n->in[at], &free_room);
    TL_TRY(tl_parallel_for(run->threads, l.rows, l.block, backward_piece, &l));
    if (a->scaled) TL_TRY(param_grad(run, &l, n->out[1], false));
    if (a->shifted) TL_TRY(param_grad(run, &l, n->out[2], true));
    return TL_OK;
}

#define KERNEL(name, call, centered)                                                               \
    static tl_status name##_kernel(const tl_run *run, const tl_node *n)                            \
    {                                                                                              \
        return call(run, n, centered);                                                             \
    }
KERNEL(layer_normalize, normalize, true)
KERNEL(layer_normalize_grad, normalize_grad, true)
KERNEL(rms_normalize, normalize, false)
KERNEL(rms_normalize_grad, normalize_grad, false)

#define ROWS(name)                                                                                 \
    {TL_OP_##name, TL_F32, name##_kernel, 0}, {TL_OP_##name, TL_BF16, name##_kernel, 0},           \
    {                                                                                              \
        TL_OP_##name, TL_F16, name##_kernel, 0                                                     \
    }
static const tl_kernel rows[] = {
    ROWS(layer_normalize),
    ROWS(layer_normalize_grad),
    ROWS(rms_normalize),
    ROWS(rms_normalize_grad),
};
TLI_SIMD_KERNELS(norm, rows);
