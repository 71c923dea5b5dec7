#include <string.h>
#include <tilth/base/integer.h>

#include "cpu/conv.h"
#include "cpu/scratch.h"

/* Convolutions much of whose windows lies beside the image, as in DeepLab, where a filter of 3 x 3
 * with a dilation of 18 lies on images of 33 x 33: six of ten products would be with zeros. Places
 * whose windows have the same elements inside make parts, each of which is a smaller convolution
 * with fewer elements of the filter. The filter's gradient has a part for each of its elements. */

/* Some places of an axis, begin .. end - 1, and the elements of the filter that they need. */
typedef struct part {
    int64_t begin, end, tap, taps;
} part;

/* An axis: pixel place + tap * step - before of the source. */
typedef struct axis {
    int64_t places, source, taps, step, before;
} axis;

/* 3 elements make at most 5 kinds of places, 5 make 9. */
enum { PARTS_MOST = 16 };

static bool is_inside(const axis *a, int64_t place, int64_t tap)
{
    const int64_t at = place + tap * a->step - a->before;
    return at >= 0 && at < a->source;
}

/* Returns how many parts there are, or PARTS_MOST + 1 for too many. */
static int cut_axis(part *parts, const axis *a)
{
    int count = 0;
    for (int64_t place = 0; place < a->places; place++) {
        part p = {place, place + 1, 0, 0};
        while (p.tap < a->taps && !is_inside(a, place, p.tap)) p.tap++;
        while (p.tap + p.taps < a->taps && is_inside(a, place, p.tap + p.taps)) p.taps++;
        part *last = count > 0 ? &parts[count - 1] : NULL;
        if (last && last->tap == p.tap && last->taps == p.taps) {
            last->end++;
            continue;
        }
        if (count == PARTS_MOST) return PARTS_MOST + 1;
        parts[count++] = p;
    }
    return count;
}

static axis result_axis(const tli_conv *c, bool down)
{
    return down ? (axis){c->oh, c->h, c->kh, c->dilation_y, c->top}
                : (axis){c->ow, c->w, c->kw, c->dilation_x, c->left};
}

/* The pixels of the image, which see the elements of the filter the other way around. */
static axis image_axis(const tli_conv *c, bool down)
{
    return down ? (axis){c->h, c->oh, c->kh, -c->dilation_y, -c->top}
                : (axis){c->w, c->ow, c->kw, -c->dilation_x, -c->left};
}

/* The share of an axis' products that are not with zeros. */
static double share_of(const tli_conv *c, bool down)
{
    const axis a = result_axis(c, down);
    double inside = 0;
    for (int64_t t = 0; t < a.taps; t++) {
        int64_t begin, end;
        tli_conv_inside(&begin, &end, a.places, t * a.step - a.before, 1, a.source);
        inside += (double)(end - begin);
    }
    return inside / (double)(a.taps * a.places);
}

static bool cut_suits(const tli_conv *c, tli_conv_want what)
{
    (void)what;
    // Below SHARE, smaller products and the copies around them cost less than they save. Parts are
    // some ninths of ROWS places, so that they are many tiles; CHANNELS are some steps of depth.
    const double share = 0.85;
    enum { ROWS = 512, CHANNELS = 32 };
    if (c->stride_y != 1 || c->stride_x != 1 || c->group_in < CHANNELS || c->group_out < CHANNELS
        || c->images * c->oh * c->ow < ROWS || share_of(c, true) * share_of(c, false) > share)
        return false;
    part parts[PARTS_MOST];
    for (int i = 0; i < 4; i++) {
        const axis a = i < 2 ? result_axis(c, i == 0) : image_axis(c, i == 2);
        if (cut_axis(parts, &a) > PARTS_MOST) return false;
    }
    return true;
}

/* --- copies ----------------------------------------------------------------------------------- */

/* Rows of bytes, in some images, from one place to another; NULL is zeros. */
typedef struct box {
    char *to;
    const char *from;
    size_t to_image, to_row, from_image, from_row, bytes;
    int64_t images, rows;
} box;

static tl_status copy_rows(int64_t begin, int64_t end, void *payload)
{
    const box *b = payload;
    for (int64_t i = begin; i < end; i++) {
        const size_t image = (size_t)(i / b->rows), row = (size_t)(i % b->rows);
        char *to = b->to + image * b->to_image + row * b->to_row;
        if (b->from) memcpy(to, b->from + image * b->from_image + row * b->from_row, b->bytes);
        else memset(to, 0, b->bytes);
    }
    return TL_OK;
}

static tl_status copy_box(tl_pool *pool, const box *b)
{
    enum { CHUNK = 1 << 17 }; // bytes of a task: some microseconds of copying
    return tl_parallel_for(pool, b->images * b->rows, CHUNK / (int64_t)(b->bytes + 1) + 1,
                           copy_rows, (void *)(uintptr_t)b);
}

/* The places y, x of images of h x w pixels with `channels`, and a packed copy of them. */
static box box_of(char *images, int64_t h, int64_t w, int64_t channels, const part *y,
                  const part *x, const tli_conv *c)
{
    const size_t pixel = (size_t)channels * tl_dtype_size(c->type);
    const int64_t rows = y->end - y->begin, columns = x->end - x->begin;
    TL_ASSERT(y->end <= h && x->end <= w && rows > 0 && columns > 0);
    return (box){.to = images + (size_t)(y->begin * w + x->begin) * pixel,
                 .to_image = (size_t)(h * w) * pixel,
                 .to_row = (size_t)w * pixel,
                 .from_image = (size_t)(rows * columns) * pixel,
                 .from_row = (size_t)columns * pixel,
                 .bytes = (size_t)columns * pixel,
                 .images = c->images,
                 .rows = rows};
}

/* The elements y, x of the filter side by side. */
static tl_status copy_filter(tl_pool *pool, char *to, const tli_conv *c, const part *y,
                             const part *x)
{
    const size_t element = (size_t)(c->group_in * c->out) * tl_dtype_size(c->type);
    const box b = {.to = to,
                   .from = (const char *)c->k + (size_t)(y->tap * c->kw + x->tap) * element,
                   .to_image = (size_t)x->taps * element,
                   .to_row = element,
                   .from_image = (size_t)c->kw * element,
                   .from_row = element,
                   .bytes = element,
                   .images = y->taps,
                   .rows = x->taps};
    return copy_box(pool, &b);
}

/* --- parts ------------------------------------------------------------------------------------ */

/* Makes one part of the result, or (of_image) of the image's gradient. */
static tl_status make_part(tl_pool *pool, tli_isa isa, const tli_conv *c, const part *y,
                           const part *x, bool of_image)
{
    const int64_t channels = of_image ? c->in : c->out;
    box b = of_image ? box_of(c->x, c->h, c->w, channels, y, x, c)
                     : box_of(c->y, c->oh, c->ow, channels, y, x, c);
    if (y->taps == 0 || x->taps == 0) return copy_box(pool, &b);
    const size_t filter =
        (size_t)(y->taps * x->taps * c->group_in * c->out) * tl_dtype_size(c->type);
    const size_t aligned = (filter + 63) / 64 * 64;
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_PARTS,
                       aligned + (size_t)b.images * (size_t)b.rows * b.bytes));
    TL_TRY(copy_filter(pool, room, c, y, x));
    tli_conv own = *c;
    own.k = room;
    own.kh = y->taps;
    own.kw = x->taps;
    // The image begins, or its first window lies, elsewhere.
    own.top += (of_image ? y->begin : -y->begin) - y->tap * c->dilation_y;
    own.left += (of_image ? x->begin : -x->begin) - x->tap * c->dilation_x;
    void *made = (char *)room + aligned;
    if (of_image) {
        own.x = made;
        own.h = y->end - y->begin;
        own.w = x->end - x->begin;
        TL_TRY(tli_conv_gemm_image(pool, isa, &own));
    } else {
        own.y = made;
        own.oh = y->end - y->begin;
        own.ow = x->end - x->begin;
        TL_TRY(tli_conv_gemm_result(pool, isa, &own));
    }
    b.from = made;
    return copy_box(pool, &b);
}

static tl_status make_parts(tl_pool *pool, tli_isa isa, const tli_conv *c, bool of_image)
{
    part down[PARTS_MOST], across[PARTS_MOST];
    const axis y = of_image ? image_axis(c, true) : result_axis(c, true);
    const axis x = of_image ? image_axis(c, false) : result_axis(c, false);
    const int rows = cut_axis(down, &y), columns = cut_axis(across, &x);
    TL_ASSERT(rows <= PARTS_MOST && columns <= PARTS_MOST);
    for (int i = 0; i < rows; i++)
        for (int n = 0; n < columns; n++)
            TL_TRY(make_part(pool, isa, c, &down[i], &across[n], of_image));
    return TL_OK;
}

static tl_status cut_result(tl_pool *pool, tli_isa isa, const tli_conv *c)
{
    return make_parts(pool, isa, c, false);
}

static tl_status cut_image(tl_pool *pool, tli_isa isa, const tli_conv *c)
{
    return make_parts(pool, isa, c, true);
}

/* One element of the filter: what the result has where it lies on the image. */
static tl_status make_element(tl_pool *pool, tli_isa isa, const tli_conv *c, int64_t ky, int64_t kx)
{
    const size_t element = (size_t)(c->group_in * c->out) * tl_dtype_size(c->type);
    char *to = (char *)c->k + (size_t)(ky * c->kw + kx) * element;
    const int64_t down = ky * c->dilation_y - c->top, across = kx * c->dilation_x - c->left;
    part y = {0}, x = {0};
    tli_conv_inside(&y.begin, &y.end, c->oh, down, 1, c->h);
    tli_conv_inside(&x.begin, &x.end, c->ow, across, 1, c->w);
    if (y.begin == y.end || x.begin == x.end) {
        memset(to, 0, element);
        return TL_OK;
    }
    box b = box_of(c->y, c->oh, c->ow, c->out, &y, &x, c);
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_PARTS, (size_t)b.images * (size_t)b.rows * b.bytes));
    const box gathered = {.to = room,
                          .from = b.to,
                          .to_image = b.from_image,
                          .to_row = b.from_row,
                          .from_image = b.to_image,
                          .from_row = b.to_row,
                          .bytes = b.bytes,
                          .images = b.images,
                          .rows = b.rows};
    TL_TRY(copy_box(pool, &gathered));
    tli_conv own = *c;
    own.y = room;
    own.k = to;
    own.kh = own.kw = 1;
    own.oh = y.end - y.begin;
    own.ow = x.end - x.begin;
    own.top = -(down + y.begin);
    own.left = -(across + x.begin);
    return tli_conv_gemm_filter(pool, isa, &own);
}

static tl_status cut_filter(tl_pool *pool, tli_isa isa, const tli_conv *c)
{
    for (int64_t ky = 0; ky < c->kh; ky++)
        for (int64_t kx = 0; kx < c->kw; kx++) TL_TRY(make_element(pool, isa, c, ky, kx));
    return TL_OK;
}

const tli_conv_method tli_conv_cut = {cut_suits, cut_result, cut_image, cut_filter};
