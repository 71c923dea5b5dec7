/* Operations that look at other places of the image: around a pixel, or somewhere else. */
#include <math.h>
#include <string.h>

#include "data/augment_impl.h"

/* As by an fma, also on machines without: with values of few bits both the product and the sum are
 * exact in double. */
static inline float add_product(float sum, float weight, float value)
{
#ifdef __FP_FAST_FMAF
    return fmaf(weight, value, sum);
#else
    return (float)((double)weight * value + sum);
#endif
}

/* --- 3 x 3 ------------------------------------------------------------------------------------ */

/* Nine weights over three rows, row by row: the order in which TensorFlow adds, so that sums that
 * are nearly whole are cut to the same bytes. `left` and `right` are where the neighbours of a
 * value lie. */
static inline float weigh(const uint8_t *const rows[3], int64_t left, int64_t here, int64_t right,
                          const float w[9])
{
    float sum = 0;
    for (int k = 0; k < 3; k++) {
        sum = add_product(sum, w[3 * k], rows[k][left]);
        sum = add_product(sum, w[3 * k + 1], rows[k][here]);
        sum = add_product(sum, w[3 * k + 2], rows[k][right]);
    }
    return sum;
}

static void sharpen_row(uint8_t *restrict to, const uint8_t *const rows[3], int64_t n, int64_t c,
                        float factor)
{
    const float around = 1.0f / 13.0f, middle = 5.0f / 13.0f;
    const float weights[9] = {around, around, around, around, middle,
                              around, around, around, around};
    for (int64_t i = c; i < n - c; i++) to[i] = tli_byte_cut(weigh(rows, i - c, i, i + c, weights));
    for (int64_t i = c; i < n - c; i++)
        to[i] = tli_byte_cut((float)to[i] + factor * ((float)rows[1][i] - (float)to[i]));
}

void tl_pixels_sharpness(const tl_pixels *out, const tl_pixels *in, double factor)
{
    TL_ASSERT(tli_augment_fit(out, in));
    int64_t c = in->channels, n = in->width * c;
    tl_pixels_copy(out, in, false); // the border stays as it is
    if (factor == 1) return;
    for (int64_t y = 1; y < in->height - 1; y++) {
        const uint8_t *const rows[] = {tli_bytes_row(in, y - 1), tli_bytes_row(in, y),
                                       tli_bytes_row(in, y + 1)};
        sharpen_row(tli_bytes_row(out, y), rows, n, c, (float)factor);
    }
}

static void blur_row(uint8_t *restrict to, const uint8_t *const rows[3], int64_t width, int64_t c,
                     const float w[9])
{
    int64_t last = (width - 1) * c;
    for (int64_t i = c; i < last; i++) to[i] = tli_byte_cut(weigh(rows, i - c, i, i + c, w));
    for (int64_t k = 0; k < c; k++) { // behind an edge lies what is before it
        int64_t inner = width > 1 ? c : 0;
        to[k] = tli_byte_cut(weigh(rows, inner + k, k, inner + k, w));
        to[last + k] = tli_byte_cut(weigh(rows, last - inner + k, last + k, last - inner + k, w));
    }
}

void tl_pixels_blur(const tl_pixels *out, const tl_pixels *in, double sigma)
{
    TL_ASSERT(tli_augment_fit(out, in));
    if (in->width < 1) return;
    float away = expf(-1.0f / (2.0f * ((float)sigma * (float)sigma))),
          share = 1.0f / (away + 1.0f + away);
    const float line[3] = {away * share, share, away * share};
    float weights[9];
    for (int k = 0; k < 9; k++) weights[k] = line[k / 3] * line[k % 3];
    for (int64_t y = 0; y < in->height; y++) {
        int64_t inner = in->height > 1 ? 1 : 0;
        int64_t above = y > 0 ? y - 1 : inner,
                below = y < in->height - 1 ? y + 1 : in->height - 1 - inner;
        const uint8_t *const rows[] = {tli_bytes_row(in, above), tli_bytes_row(in, y),
                                       tli_bytes_row(in, below)};
        blur_row(tli_bytes_row(out, y), rows, in->width, in->channels, weights);
    }
}

/* --- somewhere else --------------------------------------------------------------------------- */

/* [abcd] goes on as [dcba|abcd|dcba]. */
static float reflect(float at, int64_t length)
{
    if (length <= 1) return 0;
    const int64_t twice = 2 * length;
    if (at < 0) {
        at += (float)(twice * (int64_t)(-at / (float)twice));
        at = at < (float)-length ? at + (float)twice : -at - 1;
    } else {
        at -= (float)(twice * (int64_t)(at / (float)twice));
        if (at >= (float)length) at = (float)twice - at - 1;
    }
    at = at > 0 ? at : 0;
    return at < (float)(length - 1) ? at : (float)(length - 1);
}

static inline int64_t nearest(float at, int64_t length)
{
    if (!(at >= 0 && at <= (float)(length - 1))) at = reflect(at, length);
    int32_t whole = (int32_t)at;
    return whole + (at - (float)whole >= 0.5f);
}

void tl_pixels_transform(const tl_pixels *out, const tl_pixels *in, const float m[6])
{
    TL_ASSERT(tli_augment_fit(out, in) && out->data != in->data);
    int64_t c = in->channels;
    for (int64_t y = 0; y < out->height; y++) {
        uint8_t *to = tli_bytes_row(out, y);
        for (int64_t x = 0; x < out->width; x++, to += c) {
            float from_x = add_product(m[1] * (float)y, m[0], (float)x) + m[2];
            float from_y = add_product(m[4] * (float)y, m[3], (float)x) + m[5];
            const uint8_t *from =
                tli_bytes_row(in, nearest(from_y, in->height)) + nearest(from_x, in->width) * c;
            to[0] = from[0];
            if (c == 1) continue;
            to[1] = from[1];
            to[2] = from[2];
        }
    }
}

void tl_pixels_rotate(const tl_pixels *out, const tl_pixels *in, double degrees)
{
    const double pi = 3.141592653589793;
    float angle = (float)(degrees * (pi / 180)), cosine = cosf(angle), sine = sinf(angle);
    float right = (float)(in->width - 1), bottom = (float)(in->height - 1);
    float dx = (right - (cosine * right - sine * bottom)) / 2,
          dy = (bottom - (sine * right + cosine * bottom)) / 2;
    const float m[6] = {cosine, -sine, dx, sine, cosine, dy};
    tl_pixels_transform(out, in, m);
}
