/* Images [n, h, w, channels] with another number of rows and columns. Rows are mixed first, as
 * vectors over all their pixels, then columns of the one row that is left. A pixel's gradient is
 * added up in the order of the pixels that were made of it, by one task. */
#include <string.h>

#include "cpu/resize.h"
#include "cpu/scratch.h"
#include "cpu/simd/any_float.h"
#include "cpu/simd/kernels.h"

enum { GRAIN = 16384 }; /* elements a task: 64 KiB, microseconds */

typedef struct job {
    const tl_resize_attr *a;
    tl_dtype type;
    const void *from;
    void *to;
    int64_t rows, columns, channels; /* of the image that is resized */
    int64_t down, across;            /* rows and columns of the result */
} job;

/* What a task needs: a row in full precision, and of which columns each one is made. */
typedef struct room {
    float *line;
    tli_blend *across;
} room;

static tl_status make_room(room *r, const job *j, int64_t line)
{
    const size_t blends = ((size_t)j->across * sizeof(tli_blend) + 63) / 64 * 64;
    void *memory;
    TL_TRY(tli_scratch(&memory, TLI_SCRATCH_TASK, blends + (size_t)line * sizeof(float)));
    r->across = memory;
    r->line = (float *)((char *)memory + blends);
    for (int64_t i = 0; i < j->across; i++)
        r->across[i] = tli_blend_of(j->a, i, j->columns, j->across);
    return TL_OK;
}

/* y = (1 - part) a + part b. What has no weight has no say, even when it is infinite. */
TLI_INLINE void mix(tl_dtype out, void *y, tl_dtype in, const void *a, const void *b, float part,
                    int64_t n)
{
    const vf first = vf_set1(1 - part), second = vf_set1(part);
    if (part == 0) {
        TLI_VECTORS(i, m, n) any_store(out, y, i, any_load(in, a, i, m), m);
        return;
    }
    TLI_VECTORS(i, m, n)
    any_store(out, y, i,
              vf_fma(second, any_load(in, b, i, m), vf_mul(first, any_load(in, a, i, m))), m);
}

static const void *place(const job *j, tl_dtype t, const void *x, int64_t row, int64_t columns)
{
    return any_at(t, x, row * columns * j->channels);
}

TLI_INLINE void resize_row(tl_dtype t, const job *j, const room *r, int64_t row)
{
    const int64_t image = row / j->down, n = j->channels;
    const tli_blend down = tli_blend_of(j->a, row % j->down, j->rows, j->down);
    const void *first = place(j, t, j->from, image * j->rows + down.first, j->columns);
    const void *second = place(j, t, j->from, image * j->rows + down.second, j->columns);
    char *to = (char *)(uintptr_t)place(j, t, j->to, row, j->across);
    mix(TL_F32, r->line, t, first, second, (float)down.part, j->columns * n);
    for (int64_t i = 0; i < j->across; i++) {
        const tli_blend *b = &r->across[i];
        mix(t, (void *)(uintptr_t)any_at(t, to, i * n), TL_F32, r->line + b->first * n,
            r->line + b->second * n, (float)b->part, n);
    }
}

static tl_status resize_rows(int64_t begin, int64_t end, void *payload)
{
    const job copy = *(const job *)payload, *j = &copy;
    room r;
    TL_TRY(make_room(&r, j, j->columns * j->channels));
    TLI_FLOAT_SWITCH(j->type, for (int64_t i = begin; i < end; i++) resize_row(T, j, &r, i));
    return TL_OK;
}

static job job_of(const tl_node *n, const tl_shape *image, const tl_shape *result)
{
    TL_ASSERT(image->rank == 4 && result->rank == 4 && image->dims[0] == result->dims[0]
              && image->dims[3] == result->dims[3]);
    return (job){.a = n->attr,
                 .type = n->in[0]->dtype,
                 .from = tli_data(n->in[0]),
                 .to = tli_data(n->out[0]),
                 .rows = image->dims[1],
                 .columns = image->dims[2],
                 .channels = image->dims[3],
                 .down = result->dims[1],
                 .across = result->dims[2]};
}

static int64_t grain_of(int64_t each)
{
    return each >= GRAIN ? 1 : GRAIN / (each > 0 ? each : 1);
}

static tl_status resize_kernel(const tl_run *run, const tl_node *n)
{
    job j = job_of(n, &n->in[0]->shape, &n->out[0]->shape);
    if (tl_tensor_count(n->out[0]) == 0) return TL_OK;
    return tl_parallel_for(run->threads, n->out[0]->shape.dims[0] * j.down,
                           grain_of(j.across * j.channels), resize_rows, &j);
}

/* --- gradients -------------------------------------------------------------------------------- */

/* y += part x */
TLI_INLINE void add_share(float *y, tl_dtype t, const void *x, float part, int64_t n)
{
    const vf share = vf_set1(part);
    TLI_VECTORS(i, m, n)
    any_store(TL_F32, y, i, vf_fma(share, any_load(t, x, i, m), any_load(TL_F32, y, i, m)), m);
}

/* A row of the image: what flows to it from the rows that were made of it, then along it. */
TLI_INLINE void grad_row(tl_dtype t, const job *j, const room *r, float *sums, int64_t row)
{
    const int64_t image = row / j->rows, y = row % j->rows, n = j->channels;
    int64_t top, bottom;
    tli_resize_made_of(&top, &bottom, j->a, y, j->rows, j->down);
    memset(r->line, 0, (size_t)(j->across * n) * sizeof *r->line);
    for (int64_t i = top; i <= bottom; i++) {
        const tli_blend down = tli_blend_of(j->a, i, j->rows, j->down);
        const float share = (float)tli_blend_share(&down, y);
        if (share != 0)
            add_share(r->line, t, place(j, t, j->from, image * j->down + i, j->across), share,
                      j->across * n);
    }
    memset(sums, 0, (size_t)(j->columns * n) * sizeof *sums);
    for (int64_t i = 0; i < j->across; i++) {
        const tli_blend *b = &r->across[i];
        const float part = (float)b->part;
        if (part != 1) add_share(sums + b->first * n, TL_F32, r->line + i * n, 1 - part, n);
        if (part != 0) add_share(sums + b->second * n, TL_F32, r->line + i * n, part, n);
    }
    void *to = (void *)(uintptr_t)place(j, t, j->to, row, j->columns);
    TLI_VECTORS(i, m, j->columns * n) any_store(t, to, i, any_load(TL_F32, sums, i, m), m);
}

static tl_status grad_rows(int64_t begin, int64_t end, void *payload)
{
    const job copy = *(const job *)payload, *j = &copy;
    room r;
    TL_TRY(make_room(&r, j, (j->across + j->columns) * j->channels));
    float *sums = r.line + j->across * j->channels;
    TLI_FLOAT_SWITCH(j->type, for (int64_t i = begin; i < end; i++) grad_row(T, j, &r, sums, i));
    return TL_OK;
}

static tl_status resize_grad_kernel(const tl_run *run, const tl_node *n)
{
    job j = job_of(n, &n->out[0]->shape, &n->in[0]->shape);
    if (tl_tensor_count(n->out[0]) == 0) return TL_OK;
    // A row of the image takes as many rows of the result as there are for each.
    const int64_t each = j.across * j.channels * (j.down / (j.rows > 0 ? j.rows : 1) + 1);
    return tl_parallel_for(run->threads, n->out[0]->shape.dims[0] * j.rows, grain_of(each),
                           grad_rows, &j);
}

#define ROWS(name)                                                                                 \
    {TL_OP_##name, TL_F32, name##_kernel, 0}, {TL_OP_##name, TL_BF16, name##_kernel, 0},           \
    {                                                                                              \
        TL_OP_##name, TL_F16, name##_kernel, 0                                                     \
    }
static const tl_kernel rows[] = {ROWS(resize), ROWS(resize_grad)};
TLI_SIMD_KERNELS(resize, rows);
