/* Pooling of images [n, h, w, channels]: vectors of channels. A pixel's gradient is
 * added up in the order of the windows over it, by one task. */
#include <math.h>

#include "cpu/scratch.h"
#include "cpu/simd/any_float.h"
#include "cpu/simd/kernels.h"

enum {
    GRAIN = 16384, /* elements a task */
    STRIP = 8      /* vectors of channels at once */
};

typedef struct pooling {
    tl_dtype type;
    const tl_pool_attr *a;
    const void *image, *g;
    void *out;
    int64_t height, width, channels; /* of the image */
    int64_t down, across;            /* windows */
    int64_t rows, blocks; /* gradient of max: of the image in a block; blocks of an image */
} pooling;

/* Places [begin, end) of an axis. */
typedef struct range {
    int64_t begin, end;
} range;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// What window i covers of an axis.
static range covered(int64_t i, int64_t stride, int64_t before, int64_t size, int64_t length)
{
    const int64_t at = i * stride - before;
    return (range){at > 0 ? at : 0, least(at + size, length)};
}

// The windows that cover a place.
static range windows_on(int64_t at, int64_t stride, int64_t before, int64_t size, int64_t windows)
{
    const int64_t behind = at + before - size;
    return (range){behind < 0 ? 0 : behind / stride + 1,
                   least((at + before) / stride + 1, windows)};
}

static range rows_of(const pooling *p, int64_t oy)
{
    return covered(oy, p->a->stride_y, p->a->top, p->a->size_y, p->height);
}

static range columns_of(const pooling *p, int64_t ox)
{
    return covered(ox, p->a->stride_x, p->a->left, p->a->size_x, p->width);
}

static range windows_on_row(const pooling *p, int64_t y)
{
    return windows_on(y, p->a->stride_y, p->a->top, p->a->size_y, p->down);
}

static range windows_on_column(const pooling *p, int64_t x)
{
    return windows_on(x, p->a->stride_x, p->a->left, p->a->size_x, p->across);
}

static pooling pooling_of(const tl_node *n, const tl_shape *image, const tl_shape *windows)
{
    return (pooling){.type = n->in[0]->dtype,
                     .a = n->attr,
                     .out = tl_kernel_data(n->out[0]),
                     .height = image->dims[1],
                     .width = image->dims[2],
                     .channels = image->dims[3],
                     .down = windows->dims[1],
                     .across = windows->dims[2]};
}

static int64_t grain_of(int64_t each)
{
    return each >= GRAIN ? 1 : GRAIN / (each > 0 ? each : 1);
}

/* --- forward ------------------------------------------------------------------------------------
 */

/* One window, `count` vectors of channels from `c` on; the last one has `m` channels. */
TLI_INLINE void pool_strip(tl_dtype t, const pooling *p, bool largest, int64_t image, range ys,
                           range xs, int64_t c, int count, int64_t m, int64_t out)
{
    vf v[STRIP];
    for (int k = 0; k < count; k++) v[k] = largest ? vf_set1(-INFINITY) : vf_zero();
    for (int64_t y = ys.begin; y < ys.end; y++)
        for (int64_t x = xs.begin; x < xs.end; x++) {
            const int64_t at = ((image * p->height + y) * p->width + x) * p->channels + c;
            for (int k = 0; k < count; k++) {
                const vf e = any_load(t, p->image, at + k * VF, m);
                v[k] = largest ? vf_max(v[k], e) : vf_add(v[k], e);
            }
        }
    const vf area = vf_set1((float)((ys.end - ys.begin) * (xs.end - xs.begin)));
    for (int k = 0; k < count; k++)
        any_store(t, p->out, out + c + k * VF, largest ? v[k] : vf_div(v[k], area), m);
}

TLI_INLINE void pool_row(tl_dtype t, const pooling *p, bool largest, int64_t row)
{
    const int64_t image = row / p->down, n = p->channels;
    const range ys = rows_of(p, row % p->down);
    for (int64_t ox = 0; ox < p->across; ox++) {
        const range xs = columns_of(p, ox);
        const int64_t out = (row * p->across + ox) * n;
        int64_t c = 0;
        for (; c + STRIP * VF <= n; c += STRIP * VF)
            pool_strip(t, p, largest, image, ys, xs, c, STRIP, VF, out);
        for (; c + VF <= n; c += VF) pool_strip(t, p, largest, image, ys, xs, c, 1, VF, out);
        if (c < n) pool_strip(t, p, largest, image, ys, xs, c, 1, n - c, out);
    }
}

#define POOL(name, largest)                                                                        \
    static tl_status name##_rows(int64_t begin, int64_t end, void *payload)                        \
    {                                                                                              \
        const pooling copy = *(const pooling *)payload, *p = &copy;                                \
        TLI_FLOAT_SWITCH(p->type,                                                                  \
                         for (int64_t i = begin; i < end; i++) pool_row(T, p, largest, i));        \
        return TL_OK;                                                                              \
    }                                                                                              \
    static tl_status name##_kernel(const tl_run *run, const tl_node *n)                            \
    {                                                                                              \
        const tl_tensor *x = n->in[0], *y = n->out[0];                                             \
        pooling p = pooling_of(n, &x->shape, &y->shape);                                           \
        p.image = tl_kernel_data(x);                                                               \
        return tl_parallel_for(run->threads, y->shape.dims[0] * p.down,                            \
                               grain_of(p.width * p.channels * p.a->stride_y), name##_rows, &p);   \
    }
POOL(max_pool2d, true)
POOL(avg_pool2d, false)

/* --- gradients ----------------------------------------------------------------------------------
 */

static int64_t window_at(const pooling *p, int64_t image, int64_t oy, int64_t ox)
{
    return ((image * p->down + oy) * p->across + ox) * p->channels;
}

static int64_t pixel_at(const pooling *p, int64_t image, int64_t y, int64_t x)
{
    return ((image * p->height + y) * p->width + x) * p->channels;
}

/* fn(..., c, count, m): `count` vectors of channels from `c` on, of which the last has `m`. */
#define CHANNELS(fn, ...)                                                                          \
    do {                                                                                           \
        int64_t c = 0;                                                                             \
        for (; c + STRIP * VF <= p->channels; c += STRIP * VF) fn(__VA_ARGS__, c, STRIP, VF);      \
        for (; c + VF <= p->channels; c += VF) fn(__VA_ARGS__, c, 1, VF);                          \
        if (c < p->channels) fn(__VA_ARGS__, c, 1, p->channels - c);                               \
    } while (0)

/* A pixel on which the windows `ys` and `xs` lie. */
TLI_INLINE void avg_pixel(tl_dtype t, const pooling *p, int64_t image, range ys, range xs,
                          int64_t at, int64_t c, int count, int64_t m)
{
    vf sum[STRIP];
    for (int k = 0; k < count; k++) sum[k] = vf_zero();
    for (int64_t oy = ys.begin; oy < ys.end; oy++) {
        const range down = rows_of(p, oy);
        for (int64_t ox = xs.begin; ox < xs.end; ox++) {
            const range across = columns_of(p, ox);
            const float area = (float)((down.end - down.begin) * (across.end - across.begin));
            const vf share = vf_set1(1 / area);
            const int64_t from = window_at(p, image, oy, ox) + c;
            for (int k = 0; k < count; k++)
                sum[k] = vf_fma(any_load(t, p->g, from + k * VF, m), share, sum[k]);
        }
    }
    for (int k = 0; k < count; k++) any_store(t, p->out, at + c + k * VF, sum[k], m);
}

TLI_INLINE void avg_grad_row(tl_dtype t, const pooling *p, int64_t row)
{
    const int64_t image = row / p->height, y = row % p->height;
    const range ys = windows_on_row(p, y);
    for (int64_t x = 0; x < p->width; x++) {
        const range xs = windows_on_column(p, x);
        CHANNELS(avg_pixel, t, p, image, ys, xs, pixel_at(p, image, y, x));
    }
}

static tl_status avg_grad_rows(int64_t begin, int64_t end, void *payload)
{
    const pooling copy = *(const pooling *)payload, *p = &copy;
    TLI_FLOAT_SWITCH(p->type, for (int64_t i = begin; i < end; i++) avg_grad_row(T, p, i));
    return TL_OK;
}

static tl_status avg_pool2d_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_tensor *g = n->in[0], *out = n->out[0];
    pooling p = pooling_of(n, &out->shape, &g->shape);
    p.g = tl_kernel_data(g);
    return tl_parallel_for(run->threads, out->shape.dims[0] * p.height,
                           grain_of(p.width * p.channels), avg_grad_rows, &p);
}

/* One window: finds its largest pixels, and adds its gradient there; only rows in `rows` count.
 * `sums` begins with the first of them. */
TLI_INLINE void max_window(tl_dtype t, const pooling *p, int64_t image, int64_t oy, int64_t ox,
                           range rows, float *sums, int64_t c, int count, int64_t m)
{
    const range ys = rows_of(p, oy), xs = columns_of(p, ox);
    vf best[STRIP], g[STRIP];
    vi place[STRIP];
    for (int k = 0; k < count; k++) best[k] = vf_set1(-INFINITY), place[k] = vi_set1(0);
    int32_t number = 0; // of a pixel in its window
    for (int64_t y = ys.begin; y < ys.end; y++) {
        const void *from = any_at(t, p->image, pixel_at(p, image, y, xs.begin) + c);
        for (int64_t x = xs.begin; x < xs.end; x++, number++) {
            for (int k = 0; k < count; k++) {
                // Greater or the first NaN, which stays.
                const vf v = any_load(t, from, k * VF, m);
                const vm better = vm_andnot(vf_eq(best[k], best[k]), vf_le(v, best[k]));
                best[k] = vf_select(better, v, best[k]);
                place[k] = vi_select(better, vi_set1(number), place[k]);
            }
            from = any_at(t, from, p->channels);
        }
    }
    for (int k = 0; k < count; k++)
        g[k] = any_load(t, p->g, window_at(p, image, oy, ox) + c + k * VF, m);
    const int64_t begin = ys.begin > rows.begin ? ys.begin : rows.begin,
                  end = least(ys.end, rows.end);
    number = (int32_t)((begin - ys.begin) * (xs.end - xs.begin));
    for (int64_t y = begin; y < end; y++) {
        float *to = sums + ((y - rows.begin) * p->width + xs.begin) * p->channels + c;
        for (int64_t x = xs.begin; x < xs.end; x++, number++, to += p->channels)
            for (int k = 0; k < count; k++) {
                const vf add = vf_keep(vi_eq(place[k], vi_set1(number)), g[k]);
                any_store(TL_F32, to, k * VF, vf_add(any_load(TL_F32, to, k * VF, m), add), m);
            }
    }
}

TLI_INLINE void max_grad_block(tl_dtype t, const pooling *p, int64_t image, range rows, float *room)
{
    const int64_t first = windows_on_row(p, rows.begin).begin,
                  last = windows_on_row(p, rows.end - 1).end;
    const int64_t at = pixel_at(p, image, rows.begin, 0);
    const int64_t count = (rows.end - rows.begin) * p->width * p->channels;
    float *sums = t == TL_F32 ? (float *)p->out + at : room;
    memset(sums, 0, (size_t)count * sizeof *sums);
    for (int64_t oy = first; oy < last; oy++)
        for (int64_t ox = 0; ox < p->across; ox++)
            CHANNELS(max_window, t, p, image, oy, ox, rows, sums);
    if (t == TL_F32) return;
    TLI_VECTORS(i, m, count) any_store(t, p->out, at + i, any_load(TL_F32, sums, i, m), m);
}

static tl_status max_grad_blocks(int64_t begin, int64_t end, void *payload)
{
    const pooling copy = *(const pooling *)payload, *p = &copy;
    void *room = NULL;
    if (p->type != TL_F32)
        TL_TRY(tli_scratch(&room, TLI_SCRATCH_TASK,
                           (size_t)(p->rows * p->width * p->channels) * sizeof(float)));
    for (int64_t i = begin; i < end; i++) {
        const int64_t y = i % p->blocks * p->rows;
        const range rows = {y, least(y + p->rows, p->height)};
        TLI_FLOAT_SWITCH(p->type, max_grad_block(T, p, i / p->blocks, rows, room));
    }
    return TL_OK;
}

static tl_status max_pool2d_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_tensor *g = n->in[0], *x = n->in[1];
    pooling p = pooling_of(n, &x->shape, &g->shape);
    if (g->dtype != x->dtype) return tli_run_reference(run, n);
    if (tl_tensor_count(x) == 0) return TL_OK;
    p.g = tl_kernel_data(g);
    p.image = tl_kernel_data(x);
    // Blocks look at the windows across their edges twice, so they have several windows.
    p.rows = grain_of(p.width * p.channels);
    if (p.rows < 4 * p.a->stride_y) p.rows = 4 * p.a->stride_y;
    if (p.rows > p.height) p.rows = p.height;
    p.blocks = (p.height + p.rows - 1) / p.rows;
    return tl_parallel_for(run->threads, x->shape.dims[0] * p.blocks,
                           grain_of(p.rows * p.width * p.channels), max_grad_blocks, &p);
}

#define ROWS(name)                                                                                 \
    {TL_OP_##name, TL_F32, name##_kernel, 0}, {TL_OP_##name, TL_BF16, name##_kernel, 0},           \
    {                                                                                              \
        TL_OP_##name, TL_F16, name##_kernel, 0                                                     \
    }
static const tl_kernel rows[] = {ROWS(max_pool2d), ROWS(max_pool2d_grad), ROWS(avg_pool2d),
                                 ROWS(avg_pool2d_grad)};
TLI_SIMD_KERNELS(pool, rows);
