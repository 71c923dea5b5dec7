/* Dropout: the words of a piece are drawn into the first cache and compared as whole numbers. */
#include <math.h>

#include <tilth/base/rng.h>
#include <tilth/core/ctx.h>

#include "cpu/simd/any_float.h"
#include "cpu/simd/kernels.h"

enum {
    PIECE = 1024, /* words at once: 4 KiB, in the first-level cache until they are compared */
    GRAIN = 16384 /* elements a task: tens of microseconds of drawing */
};
_Static_assert(GRAIN % PIECE == 0 && PIECE % VF == 0, "only the last task has a rest");

typedef struct drops {
    tl_dtype type;
    const void *x;
    void *y;
    tl_rng stream;
    int64_t each;  /* elements that share a draw */
    int32_t least; /* the smallest 24 upper bits of a word that are kept */
    float scale;
} drops;

TLI_INLINE vf kept(vi words, vi below, vf x, vf scale)
{
    return vf_keep(vi_gt(vi_shru(words, 8), below), vf_mul(x, scale));
}

/* A draw for each element. */
TLI_INLINE void drop_elements(tl_dtype t, const drops *d, int64_t begin, int64_t end)
{
    int32_t words[PIECE];
    const vi below = vi_set1(d->least - 1);
    const vf scale = vf_set1(d->scale);
    for (int64_t at = begin; at < end; at += PIECE) {
        const int64_t n = end - at < PIECE ? end - at : PIECE;
        tl_rng_fill_u32(&d->stream, at, (uint32_t *)words, n);
        int64_t i = 0;
        for (; i + 2 * VF <= n; i += 2 * VF) {
            vf x[2];
            any_load_pair(t, d->x, at + i, x);
            for (int k = 0; k < 2; k++)
                x[k] = kept(vi_load(words + i + k * VF), below, x[k], scale);
            any_store_pair(t, d->y, at + i, x);
        }
        for (; i < n; i += VF) {
            const vf x = any_load(t, d->x, at + i, n - i);
            any_store(t, d->y, at + i, kept(vi_load_n(words + i, n - i), below, x, scale), n - i);
        }
    }
}

/* A draw for each example. */
TLI_INLINE void drop_example(tl_dtype t, const drops *d, int64_t example)
{
    uint32_t word;
    const vf scale = vf_set1(d->scale);
    const int64_t at = example * d->each;
    tl_rng_fill_u32(&d->stream, example, &word, 1);
    const bool keep = (int32_t)(word >> 8) >= d->least;
    TLI_VECTORS(i, m, d->each)
    any_store(t, d->y, at + i, keep ? vf_mul(any_load(t, d->x, at + i, m), scale) : vf_zero(), m);
}

static tl_status drop_elements_piece(int64_t begin, int64_t end, void *payload)
{
    const drops copy = *(const drops *)payload, *d = &copy;
    TLI_FLOAT_SWITCH(d->type, drop_elements(T, d, begin, end));
    return TL_OK;
}

static tl_status drop_examples_piece(int64_t begin, int64_t end, void *payload)
{
    const drops copy = *(const drops *)payload, *d = &copy;
    TLI_FLOAT_SWITCH(d->type, for (int64_t i = begin; i < end; i++) drop_example(T, d, i));
    return TL_OK;
}

static tl_status dropout_kernel(const tl_run *run, const tl_node *n)
{
    const tl_dropout_attr *a = n->attr;
    const tl_tensor *x = n->in[0];
    const int64_t count = tl_tensor_count(x);
    drops d = {.type = x->dtype,
               .x = tli_data(x),
               .y = tli_data(n->out[0]),
               .each = 1,
               .least = (int32_t)ceil(a->rate * 0x1p24),
               .scale = (float)(1 / (1 - a->rate))};
    tl_draw_stream(&d.stream, &run->draws, a->key);
    for (int i = 1; i < x->shape.rank && a->per_example; i++) d.each *= x->shape.dims[i];
    TL_ASSERT(d.least >= 0 && d.least <= 1 << 24 && tl_shape_equal(&x->shape, &n->out[0]->shape));
    if (count == 0) return TL_OK;
    if (d.each == 1) return tl_parallel_for(run->threads, count, GRAIN, drop_elements_piece, &d);
    const int64_t grain = d.each < GRAIN ? GRAIN / d.each : 1;
    return tl_parallel_for(run->threads, count / d.each, grain, drop_examples_piece, &d);
}

static const tl_kernel rows[] = {
    {TL_OP_dropout, TL_F32, dropout_kernel, TL_KERNEL_DRAWS},
    {TL_OP_dropout, TL_BF16, dropout_kernel, TL_KERNEL_DRAWS},
    {TL_OP_dropout, TL_F16, dropout_kernel, TL_KERNEL_DRAWS},
};
TLI_SIMD_KERNELS(dropout, rows);
