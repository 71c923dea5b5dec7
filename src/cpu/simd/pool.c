/* Pooling of images [n, h, w, channels]: vectors of channels. A pixel's gradient is
 * added up in the order of the windows over it, by one task. */
#include <math.h>

#include "cpu/scratch.h"
#include "cpu/simd/any_float.h"
#include "cpu/simd/kernels.h"

enum {
    GRAIN = 16384, /* elements a task: 64 KiB, microseconds */
    /* Vectors of channels at once: for gradients 8 largest and 8 of gradients, and what is loaded,
     * are 18 of 32 registers */
    STRIP = 8
};
_Static_assert(2 * STRIP + 2 <= 32, "strips stay in registers");

typedef struct pooling {
    tl_dtype type;
    const tl_pool_attr *a;
    const void *image, *g;
    void *out;
    int64_t height, width, channels; /* of the image */
    int64_t down, across;            /* windows */
    int64_t rows, blocks; /* gradient of max: of the image in a block; blocks of an image */
} pooling;

/* Loops over the vectors of a strip, which then stay in registers. */
#define EACH_STRIP(k, count) _Pragma("GCC unroll 8") for (int k = 0; k < (count); k++)

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
    const range r = {at > 0 ? at : 0, least(at + size, length)};
    // No window lies beside the image.
    TL_ASSERT(r.begin >= 0 && r.begin < r.end && r.end <= length);
    return r;
}

// The windows that cover a place.
static range windows_on(int64_t at, int64_t stride, int64_t before, int64_t size, int64_t windows)
{
    const int64_t behind = at + before - size;
    const range r = {behind < 0 ? 0 : behind / stride + 1,
                     least((at + before) / stride + 1, windows)};
    TL_ASSERT(r.begin >= r.end
              || (r.begin * stride - before + size > at && (r.end - 1) * stride - before <= at));
    return r;
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
    TL_ASSERT(image->rank == 4 && windows->rank == 4 && image->dims[0] == windows->dims[0]
              && image->dims[3] == windows->dims[3]);
    return (pooling){.type = n->in[0]->dtype,
                     .a = n->attr,
                     .out = tli_data(n->out[0]),
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

/* --- forward ---------------------------------------------------------------------------------- */

/* One window, `count` vectors of channels from `c` on; the last one has `m` channels. */
TLI_INLINE void pool_strip(tl_dtype t, const pooling *p, bool largest, int64_t image, range ys,
                           range xs, int64_t c, int count, int64_t m, int64_t out)
{
    vf v[STRIP];
    EACH_STRIP(k, count) v[k] = largest ? vf_set1(-INFINITY) : vf_zero();
    for (int64_t y = ys.begin; y < ys.end; y++)
        for (int64_t x = xs.begin; x < xs.end; x++) {
            const int64_t at = ((image * p->height + y) * p->width + x) * p->channels + c;
            EACH_STRIP(k, count) {
                const vf e = any_load(t, p->image, at + k * VF, m);
                v[k] = largest ? vf_max(v[k], e) : vf_add(v[k], e);
            }
        }
    const vf area = vf_set1((float)((ys.end - ys.begin) * (xs.end - xs.begin)));
    EACH_STRIP(k, count)
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
        p.image = tli_data(x);                                                                     \
        return tl_parallel_for(run->threads, y->shape.dims[0] * p.down,                            \
                               grain_of(p.width * p.channels * p.a->stride_y), name##_rows, &p);   \
    }
POOL(max_pool2d, true)
POOL(avg_pool2d, false)

/* --- gradients -------------------------------------------------------------------------------- */

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
    EACH_STRIP(k, count) sum[k] = vf_zero();
    for (int64_t oy = ys.begin; oy < ys.end; oy++) {
        const range down = rows_of(p, oy);
        for (int64_t ox = xs.begin; ox < xs.end; ox++) {
            const range across = columns_of(p, ox);
            const float area = (float)((down.end - down.begin) * (across.end - across.begin));
            const vf share = vf_set1(1 / area);
            const int64_t from = window_at(p, image, oy, ox) + c;
            EACH_STRIP(k, count)
                sum[k] = vf_fma(any_load(t, p->g, from + k * VF, m), share, sum[k]);
        }
    }
    EACH_STRIP(k, count) any_store(t, p->out, at + c + k * VF, sum[k], m);
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
    p.g = tli_data(g);
    return tl_parallel_for(run->threads, out->shape.dims[0] * p.height,
                           grain_of(p.width * p.channels), avg_grad_rows, &p);
}

/* Where the largest pixels of a window get its gradient. */
typedef struct spread {
    int64_t image;
    range rows; /* only these count; `sums` begins with the first of them */
    float *sums;
    bool alone; /* no other window covers the pixels: they are set, not added to */
} spread;

/* The largest of each channel; false when one of them is a NaN. */
TLI_INLINE bool max_of_window(tl_dtype t, const pooling *p, int64_t image, range ys, range xs,
                              int64_t c, int count, int64_t m, vf *most)
{
    EACH_STRIP(k, count) most[k] = vf_set1(-INFINITY);
    for (int64_t y = ys.begin; y < ys.end; y++) {
        const void *from = any_at(t, p->image, pixel_at(p, image, y, xs.begin) + c);
        for (int64_t x = xs.begin; x < xs.end; x++, from = any_at(t, from, p->channels))
            EACH_STRIP(k, count) most[k] = vf_max(most[k], any_load(t, from, k * VF, m));
    }
    vm same = vf_eq(most[0], most[0]);
    for (int k = 1; k < count; k++) same = vm_and(same, vf_eq(most[k], most[k]));
    return vm_all(same);
}

/* One row of a window; `g` is what no pixel before it has got. `to` is not written where `counts`
 * is false. */
TLI_INLINE void spread_row(tl_dtype t, const void *from, float *to, const pooling *p, bool counts,
                           bool alone, bool nans, int64_t width, int count, int64_t m,
                           const vf *most, vf *g)
{
    for (int64_t x = 0; x < width; x++, from = any_at(t, from, p->channels), to += p->channels)
        EACH_STRIP(k, count) {
            const vf v = any_load(t, from, k * VF, m);
            vm hit = vf_eq(v, most[k]);
            if (nans) hit = vm_or(hit, vf_is_nan(v)); // only where the largest is one
            vf part = vf_keep(hit, g[k]);
            g[k] = vf_drop(hit, g[k]);
            if (!counts) continue;
            if (!alone) part = vf_add(any_load(TL_F32, to, k * VF, m), part);
            any_store(TL_F32, to, k * VF, part, m);
        }
}

TLI_INLINE void spread_window(tl_dtype t, const pooling *p, const spread *s, bool alone, bool nans,
                              range ys, range xs, int64_t c, int count, int64_t m, const vf *most,
                              vf *g)
{
    const int64_t end = least(ys.end, s->rows.end), width = xs.end - xs.begin;
    TL_ASSERT(width > 0 && xs.end <= p->width);
    for (int64_t y = ys.begin; y < end; y++) {
        const void *from = any_at(t, p->image, pixel_at(p, s->image, y, xs.begin) + c);
        const int64_t row = y - s->rows.begin;
        float *to =
            s->sums + (row > 0 ? row : 0) * p->width * p->channels + xs.begin * p->channels + c;
        if (row < 0) spread_row(t, from, to, p, false, alone, nans, width, count, m, most, g);
        else spread_row(t, from, to, p, true, alone, nans, width, count, m, most, g);
    }
}

/* One window: its gradient goes to the first of its largest pixels, or to the first NaN. */
TLI_INLINE void max_window(tl_dtype t, const pooling *p, const spread *s, int64_t oy, int64_t ox,
                           int64_t c, int count, int64_t m)
{
    const range ys = rows_of(p, oy), xs = columns_of(p, ox);
    vf most[STRIP], g[STRIP];
    const bool numbers = max_of_window(t, p, s->image, ys, xs, c, count, m, most);
    EACH_STRIP(k, count) g[k] = any_load(t, p->g, window_at(p, s->image, oy, ox) + c + k * VF, m);
    if (numbers && s->alone) spread_window(t, p, s, true, false, ys, xs, c, count, m, most, g);
    else if (numbers) spread_window(t, p, s, false, false, ys, xs, c, count, m, most, g);
    else spread_window(t, p, s, s->alone, true, ys, xs, c, count, m, most, g);
}

// Whether each place of an axis is covered by one window.
static bool is_tiled(int64_t stride, int64_t before, int64_t size, int64_t length, int64_t windows)
{
    return stride == size && windows * size - before >= length;
}

TLI_INLINE void max_grad_block(tl_dtype t, const pooling *p, int64_t image, range rows, float *room)
{
    const tl_pool_attr *a = p->a;
    const int64_t first = windows_on_row(p, rows.begin).begin,
                  last = windows_on_row(p, rows.end - 1).end;
    const int64_t at = pixel_at(p, image, rows.begin, 0);
    const int64_t count = (rows.end - rows.begin) * p->width * p->channels;
    const spread whole = {
        .image = image,
        .rows = rows,
        .sums = t == TL_F32 ? (float *)p->out + at : room,
        .alone = a->stride_y >= a->size_y && a->stride_x >= a->size_x,
    };
    if (!is_tiled(a->stride_y, a->top, a->size_y, p->height, p->down)
        || !is_tiled(a->stride_x, a->left, a->size_x, p->width, p->across))
        memset(whole.sums, 0, (size_t)count * sizeof *whole.sums);
    for (int64_t oy = first; oy < last; oy++)
        for (int64_t ox = 0; ox < p->across; ox++) CHANNELS(max_window, t, p, &whole, oy, ox);
    if (t == TL_F32) return;
    TLI_VECTORS(i, m, count) any_store(t, p->out, at + i, any_load(TL_F32, whole.sums, i, m), m);
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
        TL_ASSERT(rows.begin < rows.end && rows.end - rows.begin <= p->rows);
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
    p.g = tli_data(g);
    p.image = tli_data(x);
    // Blocks look at the windows across their edges twice, so they have several windows.
    p.rows = grain_of(p.width * p.channels);
    if (p.rows < 4 * p.a->stride_y) p.rows = 4 * p.a->stride_y;
    if (p.rows > p.height) p.rows = p.height;
    p.blocks = (p.height + p.rows - 1) / p.rows;
    TL_ASSERT(p.rows > 0 && p.blocks * p.rows >= p.height && (p.blocks - 1) * p.rows < p.height);
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
