#include "cpu/ref/ref.h"

#include <math.h>
#include <tilth/base/integer.h>

// What a window covers of an image: [y0, y1) x [x0, x1), never empty.
typedef struct area {
    int64_t y0, y1, x0, x1;
} area;

static area area_of(const tl_pool_attr *a, const tl_shape *image, int64_t oy, int64_t ox)
{
    int64_t y = oy * a->stride_y - a->top, x = ox * a->stride_x - a->left;
    const area w = {tl_max_i64(y, 0), tl_min_i64(y + a->size_y, image->dims[1]), tl_max_i64(x, 0),
                    tl_min_i64(x + a->size_x, image->dims[2])};
    TL_ASSERT(w.y0 < w.y1 && w.x0 < w.x1);
    return w;
}

static int64_t offset(const tl_tensor *t, int64_t n, int64_t y, int64_t x, int64_t channel)
{
    return n * t->strides[0] + y * t->strides[1] + x * t->strides[2] + channel * t->strides[3];
}

// Element `index` of a row-major image: its four coordinates.
typedef struct place {
    int64_t n, y, x, channel;
} place;

static place place_of(const tl_shape *s, int64_t index)
{
    const int64_t *d = s->dims;
    return (place){index / d[3] / d[2] / d[1], index / d[3] / d[2] % d[1], index / d[3] % d[2],
                   index % d[3]};
}

/* --- the largest ------------------------------------------------------------------------------ */

// Where the image is largest in the window at `p`: the first of equals, a NaN before everything.
static place largest(const tl_pool_attr *a, const tl_tensor *image, place p)
{
    area w = area_of(a, &image->shape, p.y, p.x);
    place at = {p.n, w.y0, w.x0, p.channel};
    double best = -INFINITY;
    for (int64_t y = w.y0; y < w.y1; y++)
        for (int64_t x = w.x0; x < w.x1; x++) {
            double v = tli_ref_get(image, offset(image, p.n, y, x, p.channel));
            if (!(v > best || isnan(v))) continue;
            best = v;
            at.y = y;
            at.x = x;
            if (isnan(v)) return at;
        }
    return at;
}

// Elements of `from` where `image` is largest.
static tl_status pick(const tl_node *n, const tl_tensor *from, const tl_tensor *image)
{
    const tl_tensor *y = n->out[0];
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++) {
        place p = largest(n->attr, image, place_of(&y->shape, i));
        tli_ref_set(y, i, tli_ref_get(from, offset(from, p.n, p.y, p.x, p.channel)));
    }
    return TL_OK;
}

static tl_status max_pool2d_kernel(const tl_run *run, const tl_node *n)
{
    (void)run;
    return pick(n, n->in[0], n->in[0]);
}

static tl_status max_pool2d_pick_kernel(const tl_run *run, const tl_node *n)
{
    (void)run;
    return pick(n, n->in[0], n->in[1]);
}

// Which element of the window at `p` lies at `at`, counted along its rows.
static int64_t place_in(const tl_pool_attr *a, place p, place at)
{
    return (at.y - (p.y * a->stride_y - a->top)) * a->size_x
           + (at.x - (p.x * a->stride_x - a->left));
}

static tl_status max_pool2d_places_kernel(const tl_run *run, const tl_node *n)
{
    const tl_tensor *out = n->out[0];
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(out); i < count; i++) {
        const place p = place_of(&out->shape, i);
        tli_ref_set_int(out, i, place_in(n->attr, p, largest(n->attr, n->in[0], p)));
    }
    return TL_OK;
}

// The places [*from, *to) whose windows cover `at`.
static void places_on(int64_t *from, int64_t *to, int64_t at, int64_t before, int64_t size,
                      int64_t stride, int64_t places)
{
    int64_t behind = at + before - size; // the last start that is too early
    *from = behind < 0 ? 0 : behind / stride + 1;
    *to = tl_min_i64((at + before) / stride + 1, places);
}

static area places_of(const tl_pool_attr *a, const tl_shape *pooled, place p)
{
    area w;
    places_on(&w.y0, &w.y1, p.y, a->top, a->size_y, a->stride_y, pooled->dims[1]);
    places_on(&w.x0, &w.x1, p.x, a->left, a->size_x, a->stride_x, pooled->dims[2]);
    return w;
}

// Whether the window at `w` is largest at `p`, as the image says or a list of places.
static bool is_largest(const tl_node *n, place w, place p)
{
    const tl_tensor *by = n->in[1];
    if (by->dtype == TL_U8)
        return tli_ref_get_int(by, offset(by, w.n, w.y, w.x, w.channel)) == place_in(n->attr, w, p);
    const place at = largest(n->attr, by, w);
    return at.y == p.y && at.x == p.x;
}

static tl_status max_pool2d_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_tensor *g = n->in[0], *out = n->out[0];
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(out); i < count; i++) {
        place p = place_of(&out->shape, i);
        area w = places_of(n->attr, &g->shape, p);
        double sum = 0;
        for (int64_t oy = w.y0; oy < w.y1; oy++)
            for (int64_t ox = w.x0; ox < w.x1; ox++)
                if (is_largest(n, (place){p.n, oy, ox, p.channel}, p))
                    sum += tli_ref_get(g, offset(g, p.n, oy, ox, p.channel));
        tli_ref_set(out, i, sum);
    }
    return TL_OK;
}

/* --- the mean --------------------------------------------------------------------------------- */

static tl_status avg_pool2d_kernel(const tl_run *run, const tl_node *n)
{
    const tl_tensor *image = n->in[0], *out = n->out[0];
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(out); i < count; i++) {
        place p = place_of(&out->shape, i);
        area w = area_of(n->attr, &image->shape, p.y, p.x);
        double sum = 0;
        for (int64_t y = w.y0; y < w.y1; y++)
            for (int64_t x = w.x0; x < w.x1; x++)
                sum += tli_ref_get(image, offset(image, p.n, y, x, p.channel));
        tli_ref_set(out, i, sum / (double)((w.y1 - w.y0) * (w.x1 - w.x0)));
    }
    return TL_OK;
}

static tl_status avg_pool2d_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_tensor *g = n->in[0], *out = n->out[0];
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(out); i < count; i++) {
        place p = place_of(&out->shape, i);
        area w = places_of(n->attr, &g->shape, p);
        double sum = 0;
        for (int64_t oy = w.y0; oy < w.y1; oy++)
            for (int64_t ox = w.x0; ox < w.x1; ox++) {
                area covered = area_of(n->attr, &out->shape, oy, ox);
                sum += tli_ref_get(g, offset(g, p.n, oy, ox, p.channel))
                       / (double)((covered.y1 - covered.y0) * (covered.x1 - covered.x0));
            }
        tli_ref_set(out, i, sum);
    }
    return TL_OK;
}

#define ROW(name) TL_INIT(TL_OP_##name, TL_DTYPE_COUNT, name##_kernel, TL_KERNEL_STRIDED)
static const tl_kernel rows[] = {
    ROW(max_pool2d),        ROW(max_pool2d_grad), ROW(max_pool2d_pick),
    ROW(max_pool2d_places), ROW(avg_pool2d),      ROW(avg_pool2d_grad),
};
const tl_kernels tli_ref_pool = {rows, TL_COUNT(rows)};
