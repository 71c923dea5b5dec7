#include <tilth/data/image.h>

#include <math.h>
#include <string.h>
#include <tilth/base/integer.h>

#include "data/image_impl.h"

/* --- views ------------------------------------------------------------------------------------ */

tl_pixels tl_pixels_new(tl_dtype dtype, int64_t height, int64_t width, int64_t channels, void *data)
{
    return (tl_pixels){dtype, height, width, channels, width * channels, data};
}

tl_pixels tl_pixels_of(const tl_image *image)
{
    return tl_pixels_new(TL_U8, image->height, image->width, image->channels, image->pixels);
}

tl_pixels tl_pixels_crop(const tl_pixels *from, tl_window w)
{
    TL_ASSERT(w.x >= 0 && w.y >= 0 && w.x + w.width <= from->width
              && w.y + w.height <= from->height);
    tl_pixels part = *from;
    part.data = (char *)from->data
                + (size_t)(w.y * from->stride + w.x * from->channels) * tl_dtype_size(from->dtype);
    part.height = w.height;
    part.width = w.width;
    return part;
}

static void *row_of(const tl_pixels *p, int64_t y)
{
    return (char *)p->data + (size_t)(y * p->stride) * tl_dtype_size(p->dtype);
}

#define IS_PLAIN(p)                                                                                \
    (((p)->dtype == TL_U8 || (p)->dtype == TL_F32) && (p)->channels >= 1                           \
     && (p)->channels <= TL_PIXELS_CHANNELS)
#define FIT(a, b)                                                                                  \
    (IS_PLAIN(a) && IS_PLAIN(b) && (a)->height == (b)->height && (a)->width == (b)->width          \
     && (a)->channels == (b)->channels)

/* --- rows ------------------------------------------------------------------------------------- */

// Adding and taking away 1.5 * 2^23 leaves no bits behind the point: rounds as the machine does,
// ties to even.
static inline uint8_t byte_of(float x)
{
    const float whole = 12582912.0f;
    x = x > 0 ? x : 0; // NaN too
    x = x < 255 ? x : 255;
    return (uint8_t)(int)(x + whole - whole);
}

void tli_floats_of_bytes(float *restrict out, const uint8_t *restrict in, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = in[i];
}

void tli_bytes_of_floats(uint8_t *restrict out, const float *restrict in, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = byte_of(in[i]);
}

static void convert_row(const tl_pixels *out, void *to, const tl_pixels *in, const void *from)
{
    int64_t n = out->width * out->channels;
    if (out->dtype == in->dtype) memmove(to, from, (size_t)n * tl_dtype_size(out->dtype));
    else if (out->dtype == TL_F32) tli_floats_of_bytes(to, from, n);
    else tli_bytes_of_floats(to, from, n);
}

static void mirror_bytes(uint8_t *row, int64_t width, int64_t c)
{
    for (int64_t a = 0, b = width - 1; a < b; a++, b--)
        for (int64_t k = 0; k < c; k++) {
            uint8_t kept = row[a * c + k];
            row[a * c + k] = row[b * c + k];
            row[b * c + k] = kept;
        }
}

static void mirror_floats(float *row, int64_t width, int64_t c)
{
    for (int64_t a = 0, b = width - 1; a < b; a++, b--)
        for (int64_t k = 0; k < c; k++) {
            float kept = row[a * c + k];
            row[a * c + k] = row[b * c + k];
            row[b * c + k] = kept;
        }
}

void tl_pixels_mirror(const tl_pixels *p)
{
    TL_ASSERT(IS_PLAIN(p));
    for (int64_t y = 0; y < p->height; y++) {
        if (p->dtype == TL_U8) mirror_bytes(row_of(p, y), p->width, p->channels);
        else mirror_floats(row_of(p, y), p->width, p->channels);
    }
}

void tl_pixels_copy(const tl_pixels *out, const tl_pixels *in, bool mirror)
{
    TL_ASSERT(FIT(out, in));
    for (int64_t y = 0; y < out->height; y++) convert_row(out, row_of(out, y), in, row_of(in, y));
    if (mirror) tl_pixels_mirror(out);
}

/* --- shifting --------------------------------------------------------------------------------- */

static void fill_row(const tl_pixels *p, void *row, int64_t from, int64_t to, double fill)
{
    uint8_t *bytes = row;
    float *floats = row;
    for (int64_t i = from * p->channels; i < to * p->channels; i++) {
        if (p->dtype == TL_U8) bytes[i] = byte_of((float)fill);
        else floats[i] = (float)fill;
    }
}

void tl_pixels_shift(const tl_pixels *out, const tl_pixels *in, int64_t top, int64_t left,
                     double fill)
{
    TL_ASSERT(IS_PLAIN(out) && out->dtype == in->dtype && out->channels == in->channels);
    size_t pixel = (size_t)out->channels * tl_dtype_size(out->dtype);
    // Columns of `out` that have one of `in` behind them.
    int64_t from = tl_clamp_i64(-left, 0, out->width),
            to = tl_clamp_i64(in->width - left, from, out->width);
    for (int64_t y = 0; y < out->height; y++) {
        char *row = row_of(out, y);
        int64_t source = y + top;
        bool inside = source >= 0 && source < in->height && from < to;
        if (inside)
            memcpy(row + (size_t)from * pixel,
                   (const char *)row_of(in, source) + (size_t)(from + left) * pixel,
                   (size_t)(to - from) * pixel);
        fill_row(out, row, 0, inside ? from : out->width, fill);
        if (inside) fill_row(out, row, to, out->width, fill);
    }
}

/* --- normalising ------------------------------------------------------------------------------ */

void tli_normal_init(tli_normal *n, int64_t channels, const float *mean, const float *deviation)
{
    for (int i = 0; i < TLI_NORMAL_BLOCK; i++) {
        n->mean[i] = mean[i % channels];
        n->deviation[i] = deviation[i % channels];
    }
}

void tli_normalize(float *row, int64_t n, const tli_normal *by)
{
    int64_t i = 0;
    for (; i + TLI_NORMAL_BLOCK <= n; i += TLI_NORMAL_BLOCK)
        for (int k = 0; k < TLI_NORMAL_BLOCK; k++)
            row[i + k] = (row[i + k] - by->mean[k]) / by->deviation[k];
    for (int k = 0; i < n; i++, k++) row[i] = (row[i] - by->mean[k]) / by->deviation[k];
}

void tl_pixels_normalize(const tl_pixels *out, const tl_pixels *in, const float *mean,
                         const float *deviation)
{
    TL_ASSERT(FIT(out, in) && out->dtype == TL_F32);
    tli_normal by;
    tli_normal_init(&by, out->channels, mean, deviation);
    for (int64_t y = 0; y < out->height; y++) {
        float *row = row_of(out, y);
        convert_row(out, row, in, row_of(in, y));
        tli_normalize(row, out->width * out->channels, &by);
    }
}

/* --- windows ---------------------------------------------------------------------------------- */

tl_window tl_window_center(int64_t height, int64_t width, double fraction)
{
    // In float32 as the original computes it, so that it is the same pixel that is cut off.
    float side = (float)fraction * (float)(height < width ? height : width);
    int64_t size = tl_clamp_i64((int64_t)side, 1, height < width ? height : width);
    int64_t y = (int64_t)(((float)height - side) / 2), x = (int64_t)(((float)width - side) / 2);
    return (tl_window){tl_clamp_i64(x, 0, width - size), tl_clamp_i64(y, 0, height - size), size,
                       size};
}

tl_window tl_window_middle(int64_t height, int64_t width, int64_t want_height, int64_t want_width)
{
    int64_t h = tl_clamp_i64(want_height, 1, height), w = tl_clamp_i64(want_width, 1, width);
    return (tl_window){(width - w) / 2, (height - h) / 2, w, h};
}

/* What a window must be, in pixels. */
typedef struct window_rule {
    int64_t height, width; /* of the image */
    float least_area, most_area;
} window_rule;

static int64_t width_for(int64_t height, float aspect)
{
    return lrintf((float)height * aspect);
}

// The tallest window of this aspect that is neither too large nor wider than the image.
static int64_t tallest(const window_rule *r, float aspect)
{
    int64_t h = lrintf(sqrtf(r->most_area / aspect));
    if (width_for(h, aspect) > r->width) {
        h = (int64_t)(((double)r->width + 0.5 - 1e-7) / aspect);
        if (width_for(h, aspect) > r->width) h--;
    }
    return h < r->height ? h : r->height;
}

// As TensorFlow draws it: of several places the last one is never taken.
static int64_t draw_place(tl_rng *rng, int64_t room)
{
    return room > 0 ? tl_rng_below(rng, room) : 0;
}

// A height between the smallest and the tallest, all equally likely; rounding is made up for by one
// pixel.
static bool try_window(tl_window *out, tl_rng *rng, const window_rule *r, float aspect)
{
    int64_t most = tallest(r, aspect), h = lrintf(sqrtf(r->least_area / aspect));
    if (h > most) h = most;
    if (h < most) h += tl_rng_below(rng, most - h + 1);
    int64_t w = width_for(h, aspect);
    if ((float)(h * w) < r->least_area) w = width_for(++h, aspect);
    if ((float)(h * w) > r->most_area) w = width_for(--h, aspect);
    float area = (float)(h * w);
    if (area < r->least_area || area > r->most_area || h < 1 || w < 1 || h > r->height
        || w > r->width)
        return false;
    int64_t y = draw_place(rng, r->height - h);
    *out = (tl_window){draw_place(rng, r->width - w), y, w, h};
    return true;
}

tl_window tl_window_random(tl_rng *rng, int64_t height, int64_t width,
                           const tl_random_window_args *args)
{
    tl_random_window_args a = args ? *args : (tl_random_window_args){0};
    if (a.area_from <= 0) a.area_from = 0.08;
    if (a.area_to <= 0) a.area_to = 1;
    if (a.aspect_from <= 0) a.aspect_from = 3.0 / 4;
    if (a.aspect_to <= 0) a.aspect_to = 4.0 / 3;
    if (a.attempts <= 0) a.attempts = 10;
    float pixels = (float)height * (float)width;
    window_rule rule = {height, width, (float)a.area_from * pixels, (float)a.area_to * pixels};
    // Attempts draw from a stream of their own: the caller's moves by one draw, whatever happens.
    tl_rng own;
    tl_rng_fold(&own, rng, tl_rng_u64(rng));
    tl_window out;
    for (int i = 0; i < a.attempts; i++) {
        float span = (float)a.aspect_to - (float)a.aspect_from;
        float aspect = tl_rng_uniform_f32(&own) * span + (float)a.aspect_from;
        if (!try_window(&out, &own, &rule, aspect)) continue;
        if (!a.accept || a.accept(a.self, &out)) return out;
    }
    return (tl_window){0, 0, width, height};
}
