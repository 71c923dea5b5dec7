/* Resizing in two passes: what rows an output row is made of is added up over all columns first,
 * where neighbours in memory are neighbours in the loop; then the columns of that one row. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>

#include "data/image_impl.h"

/* Floats that may be read and written behind a row: a pixel of three channels is handled as one of
 * four. */
enum { SLACK = 4, ALIGNMENT = 64 };

/* Which pixels along one axis an output pixel is made of. */
typedef struct span {
    int64_t start;
    int64_t count;
    const float *weights;
} span;

/* One call. */
typedef struct resizing {
    const tl_pixels *out, *in;
    const tl_pixels_resize_args *args;
    int64_t height, width; /* that `in` is resized to; `out` is all of it, or a part */
    span *rows, *columns;
    float *sum;  /* one row of `in`, summed up */
    float *made; /* one row of `out` */
    bool normal;
    tli_normal by;
} resizing;

void tl_pixels_scratch_deinit(tl_pixels_scratch *s)
{
    tl_free(s->memory);
    *s = (tl_pixels_scratch){0};
}

/* --- weights ---------------------------------------------------------------------------------- */

static float triangle(float x)
{
    return x < 1 ? 1 - x : 0;
}

// Keys' cubic with a = -1/2.
static float cubic(float x)
{
    if (x >= 2) return 0;
    if (x >= 1) return ((-0.5f * x + 2.5f) * x - 4) * x + 2;
    return (1.5f * x - 2.5f) * x * x + 1;
}

static float radius_of(const tl_pixels_resize_args *a)
{
    return a->method == TL_PIXELS_BICUBIC ? 2 : 1;
}

// How far apart the pixels of the kernel are.
static float stretch_of(const tl_pixels_resize_args *a, float scale)
{
    return a->antialias && scale > 1 ? scale : 1;
}

// The most pixels that any output pixel is made of.
static int64_t most_taps(const tl_pixels_resize_args *a, int64_t in, int64_t out)
{
    float scale = (float)in / (float)out;
    int64_t most;
    if (a->method == TL_PIXELS_NEAREST) most = 1;
    else if (a->method == TL_PIXELS_AREA) most = (int64_t)ceilf(scale) + 2;
    else most = 2 * (int64_t)ceilf(radius_of(a) * stretch_of(a, scale)) + 1;
    return most < in ? most : in;
}

static span nearest_span(int64_t i, float scale, int64_t in, float *weights)
{
    weights[0] = 1;
    return (span){tl_clamp_i64((int64_t)floorf(((float)i + 0.5f) * scale), 0, in - 1), 1, weights};
}

// Beyond the border the border's pixel goes on.
static span linear_span(int64_t i, float scale, int64_t in, float *weights)
{
    float at = ((float)i + 0.5f) * scale - 0.5f, low = floorf(at), part = at - low;
    int64_t a = tl_clamp_i64((int64_t)low, 0, in - 1),
            b = tl_clamp_i64((int64_t)low + 1, 0, in - 1);
    if (a == b) return weights[0] = 1, (span){a, 1, weights};
    weights[0] = 1 - part;
    weights[1] = part;
    return (span){a, 2, weights};
}

static span area_span(int64_t i, float scale, int64_t in, int64_t most, float *weights)
{
    float from = (float)i * scale, to = (float)(i + 1) * scale;
    int64_t start = tl_clamp_i64((int64_t)floorf(from), 0, in - 1),
            end = tl_clamp_i64((int64_t)ceilf(to), start + 1, in);
    if (end - start > most) end = start + most;
    for (int64_t k = start; k < end; k++) {
        float left = (float)k > from ? (float)k : from,
              right = (float)(k + 1) < to ? (float)(k + 1) : to;
        weights[k - start] = right > left ? right - left : 0;
    }
    return (span){start, end - start, weights};
}

static span kernel_span(const tl_pixels_resize_args *a, int64_t i, float scale, int64_t in,
                        int64_t most, float *weights)
{
    float stretch = stretch_of(a, scale), reach = radius_of(a) * stretch,
          at = ((float)i + 0.5f) * scale;
    int64_t start = tl_clamp_i64((int64_t)ceilf(at - reach - 0.5f), 0, in - 1);
    int64_t end = tl_clamp_i64((int64_t)floorf(at + reach - 0.5f), start, in - 1) + 1;
    if (end - start > most) end = start + most;
    for (int64_t k = start; k < end; k++) {
        float x = fabsf((float)k + 0.5f - at) / stretch;
        weights[k - start] = a->method == TL_PIXELS_BICUBIC ? cubic(x) : triangle(x);
    }
    return (span){start, end - start, weights};
}

// What a kernel lost at a border, or by rounding, the others get.
static void make_one(float *weights, int64_t count)
{
    float sum = 0;
    for (int64_t k = 0; k < count; k++) sum += weights[k];
    if (fabsf(sum) < 1e-6f) return;
    for (int64_t k = 0; k < count; k++) weights[k] /= sum;
}

// Which of the output's pixels along an axis are made: `count` of the `whole`, from `first` on,
// counted from the other end where they are mirrored.
typedef struct line {
    int64_t whole, first, count;
    bool mirror;
} line;

static void make_spans(span *out, float *weights, const tl_pixels_resize_args *a, int64_t in,
                       const line *s)
{
    float scale = (float)in / (float)s->whole;
    int64_t most = most_taps(a, in, s->whole);
    bool linear = a->method == TL_PIXELS_BILINEAR && !(a->antialias && scale > 1);
    for (int64_t k = 0; k < s->count; k++, weights += most) {
        int64_t i = s->mirror ? s->whole - 1 - s->first - k : s->first + k;
        if (a->method == TL_PIXELS_NEAREST) out[k] = nearest_span(i, scale, in, weights);
        else if (linear) out[k] = linear_span(i, scale, in, weights);
        else if (a->method == TL_PIXELS_AREA) out[k] = area_span(i, scale, in, most, weights);
        else out[k] = kernel_span(a, i, scale, in, most, weights);
        if (a->method == TL_PIXELS_AREA || (a->method != TL_PIXELS_NEAREST && !linear))
            make_one(weights, out[k].count);
    }
}

/* --- rows ------------------------------------------------------------------------------------- */

// Two rows are what bilinear resizing takes: one pass over both.
static void mix_bytes(float *restrict out, const uint8_t *restrict a, const uint8_t *restrict b,
                      float part, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float x = a[i], y = b[i];
        out[i] = x + (y - x) * part;
    }
}

static void mix_floats(float *restrict out, const float *restrict a, const float *restrict b,
                       float part, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = a[i] + (b[i] - a[i]) * part;
}

static void add_bytes(float *restrict out, const uint8_t *restrict in, float weight, bool first,
                      int64_t n)
{
    if (first)
        for (int64_t i = 0; i < n; i++) out[i] = (float)in[i] * weight;
    else
        for (int64_t i = 0; i < n; i++) out[i] += (float)in[i] * weight;
}

static void add_floats(float *restrict out, const float *restrict in, float weight, bool first,
                       int64_t n)
{
    if (first)
        for (int64_t i = 0; i < n; i++) out[i] = in[i] * weight;
    else
        for (int64_t i = 0; i < n; i++) out[i] += in[i] * weight;
}

static void sum_rows(float *out, const tl_pixels *in, const span *s)
{
    int64_t n = in->width * in->channels;
    const uint8_t *bytes = (const uint8_t *)in->data + s->start * in->stride;
    const float *floats = (const float *)in->data + s->start * in->stride;
    bool is_bytes = in->dtype == TL_U8;
    if (s->count == 1 && is_bytes) {
        tli_floats_of_bytes(out, bytes, n);
    } else if (s->count == 1) {
        memcpy(out, floats, (size_t)n * sizeof *out);
    } else if (s->count == 2) {
        if (is_bytes) mix_bytes(out, bytes, bytes + in->stride, s->weights[1], n);
        else mix_floats(out, floats, floats + in->stride, s->weights[1], n);
    } else {
        for (int64_t k = 0; k < s->count; k++) {
            if (is_bytes) add_bytes(out, bytes + k * in->stride, s->weights[k], k == 0, n);
            else add_floats(out, floats + k * in->stride, s->weights[k], k == 0, n);
        }
    }
}

/* --- columns ---------------------------------------------------------------------------------- */

// `lanes` is a constant where this is called: 4 for pixels of three and four channels, of which the
// last value may belong to the next pixel, and is then written over by it.
static inline void take_columns(float *restrict out, const float *restrict row, const span *columns,
                                int64_t width, int64_t channels, int lanes)
{
    for (int64_t x = 0; x < width; x++) {
        const span *s = &columns[x];
        const float *in = row + s->start * channels;
        float *to = out + x * channels;
        float sum[4] = {0};
        if (s->count == 1) {
            for (int k = 0; k < lanes; k++) sum[k] = in[k];
        } else if (s->count == 2) {
            float part = s->weights[1];
            for (int k = 0; k < lanes; k++) sum[k] = in[k] + (in[channels + k] - in[k]) * part;
        } else {
            for (int64_t i = 0; i < s->count; i++, in += channels)
                for (int k = 0; k < lanes; k++) sum[k] += in[k] * s->weights[i];
        }
        for (int k = 0; k < lanes; k++) to[k] = sum[k];
    }
}

static void make_row(const resizing *r, int64_t y)
{
    int64_t width = r->out->width, channels = r->out->channels, n = width * channels;
    sum_rows(r->sum, r->in, &r->rows[y]);
    switch (channels) {
    case 1: take_columns(r->made, r->sum, r->columns, width, 1, 1); break;
    case 2: take_columns(r->made, r->sum, r->columns, width, 2, 2); break;
    case 3: take_columns(r->made, r->sum, r->columns, width, 3, 4); break;
    default: take_columns(r->made, r->sum, r->columns, width, 4, 4); break;
    }
    if (r->normal) tli_normalize(r->made, n, &r->by);
    if (r->out->dtype == TL_F32)
        memcpy((float *)r->out->data + y * r->out->stride, r->made, (size_t)n * sizeof *r->made);
    else tli_bytes_of_floats((uint8_t *)r->out->data + y * r->out->stride, r->made, n);
}

/* --- the whole -------------------------------------------------------------------------------- */

static tl_status check(const resizing *r)
{
    const tl_pixels *out = r->out, *in = r->in;
    const tl_pixels_resize_args *a = r->args;
    bool types = (out->dtype == TL_U8 || out->dtype == TL_F32)
                 && (in->dtype == TL_U8 || in->dtype == TL_F32);
    if (!types)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "images of %s cannot be resized to %s: both must be uint8 or float32",
                       tl_dtype_name(in->dtype), tl_dtype_name(out->dtype));
    if (in->channels != out->channels || in->channels < 1 || in->channels > TL_PIXELS_CHANNELS)
        return TL_FAIL(TL_EINVAL,
                       "an image of %" PRId64 " channels cannot be resized to one of %" PRId64
                       ": both must have the same, 1 to 4",
                       in->channels, out->channels);
    if (in->height < 1 || in->width < 1 || out->height < 1 || out->width < 1)
        return TL_FAIL(TL_EINVAL,
                       "an image of %" PRId64 " x %" PRId64 " cannot be resized to %" PRId64
                       " x %" PRId64 ": both must have pixels",
                       in->height, in->width, out->height, out->width);
    if (a->method < TL_PIXELS_BILINEAR || a->method > TL_PIXELS_BICUBIC)
        return TL_FAIL(TL_EINVAL, "there is no way of resizing %d", (int)a->method);
    if (!a->mean != !a->deviation || (a->mean && out->dtype != TL_F32))
        return TL_FAIL(TL_EINVAL, "normalising takes means and deviations, and gives float32");
    if (a->top < 0 || a->left < 0 || a->top > r->height - out->height
        || a->left > r->width - out->width)
        return TL_FAIL(TL_EINVAL,
                       "an image resized to %" PRId64 " x %" PRId64 " has no part of %" PRId64
                       " x %" PRId64 " at row %" PRId64 ", column %" PRId64,
                       r->height, r->width, out->height, out->width, a->top, a->left);
    return TL_OK;
}

static tl_status need(tl_pixels_scratch *s, size_t size)
{
    if (size <= s->size) return TL_OK;
    tl_pixels_scratch_deinit(s);
    s->memory = tl_alloc_aligned(ALIGNMENT, size);
    if (!s->memory) return TL_FAIL_NOMEM(size);
    s->size = size;
    return TL_OK;
}

// Cuts the scratch into its parts, and computes all weights.
static tl_status prepare(resizing *r, tl_pixels_scratch *scratch)
{
    const tl_pixels *in = r->in, *out = r->out;
    const line rows = {r->height, r->args->top, out->height, false};
    const line columns = {r->width, r->args->left, out->width, r->args->mirror};
    int64_t row_taps = most_taps(r->args, in->height, r->height);
    int64_t column_taps = most_taps(r->args, in->width, r->width);
    size_t sizes[] = {
        tl_round_up_size((size_t)out->height * sizeof(span), ALIGNMENT),
        tl_round_up_size((size_t)out->width * sizeof(span), ALIGNMENT),
        tl_round_up_size((size_t)(out->height * row_taps) * sizeof(float), ALIGNMENT),
        tl_round_up_size((size_t)(out->width * column_taps) * sizeof(float), ALIGNMENT),
        tl_round_up_size((size_t)(in->width * in->channels + SLACK) * sizeof(float), ALIGNMENT),
        tl_round_up_size((size_t)(out->width * out->channels + SLACK) * sizeof(float), ALIGNMENT),
    };
    char *parts[TL_COUNT(sizes)];
    size_t total = 0;
    for (int64_t i = 0; i < TL_COUNT(sizes); i++) total += sizes[i];
    TL_TRY(need(scratch, total));
    parts[0] = scratch->memory;
    for (int64_t i = 1; i < TL_COUNT(sizes); i++) parts[i] = parts[i - 1] + sizes[i - 1];
    r->rows = (span *)parts[0];
    r->columns = (span *)parts[1];
    r->sum = (float *)parts[4];
    r->made = (float *)parts[5];
    for (int k = 0; k < SLACK; k++) r->sum[in->width * in->channels + k] = 0;
    make_spans(r->rows, (float *)parts[2], r->args, in->height, &rows);
    make_spans(r->columns, (float *)parts[3], r->args, in->width, &columns);
    r->normal = r->args->mean != NULL;
    if (r->normal) tli_normal_init(&r->by, out->channels, r->args->mean, r->args->deviation);
    return TL_OK;
}

tl_status tl_pixels_resize(const tl_pixels *out, const tl_pixels *in,
                           const tl_pixels_resize_args *args, tl_pixels_scratch *scratch)
{
    static const tl_pixels_resize_args defaults = {0};
    tl_pixels_scratch own = {0};
    resizing r = {.out = out, .in = in, .args = args ? args : &defaults};
    r.height = r.args->whole_height > 0 ? r.args->whole_height : out->height;
    r.width = r.args->whole_width > 0 ? r.args->whole_width : out->width;
    TL_TRY(check(&r));
    tl_status st = prepare(&r, scratch ? scratch : &own);
    if (st == TL_OK)
        for (int64_t y = 0; y < out->height; y++) make_row(&r, y);
    tl_pixels_scratch_deinit(&own);
    return st;
}
