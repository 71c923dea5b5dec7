/* Operations on the values of pixels: tables of 256 bytes wherever a value depends on itself
 * alone. */
#include <math.h>
#include <string.h>

#include <tilth/data/augment.h>

#include "data/augment_impl.h"

void tl_pixels_cut(const tl_pixels *out, const tl_pixels *in)
{
    TL_ASSERT(out->dtype == TL_U8 && in->dtype == TL_F32 && out->height == in->height
              && out->width == in->width && out->channels == in->channels);
    int64_t n = in->width * in->channels;
    for (int64_t y = 0; y < in->height; y++) {
        const float *from = (const float *)in->data + y * in->stride;
        uint8_t *to = tli_bytes_row(out, y);
        for (int64_t i = 0; i < n; i++) to[i] = tli_byte_cut(from[i]);
    }
}

/* --- tables ----------------------------------------------------------------------------------- */

static void look_up(const tl_pixels *out, const tl_pixels *in, const uint8_t table[256])
{
    TL_ASSERT(tli_augment_fit(out, in));
    int64_t n = in->width * in->channels;
    for (int64_t y = 0; y < in->height; y++) {
        const uint8_t *from = tli_bytes_row(in, y);
        uint8_t *to = tli_bytes_row(out, y);
        for (int64_t i = 0; i < n; i++) to[i] = table[from[i]];
    }
}

/* A table for each channel. */
static void look_up_channels(const tl_pixels *out, const tl_pixels *in, uint8_t (*tables)[256])
{
    TL_ASSERT(tli_augment_fit(out, in));
    int64_t c = in->channels;
    if (c == 1) {
        look_up(out, in, tables[0]);
        return;
    }
    for (int64_t y = 0; y < in->height; y++) {
        const uint8_t *from = tli_bytes_row(in, y);
        uint8_t *to = tli_bytes_row(out, y);
        for (int64_t i = 0; i < in->width * 3; i += 3) {
            to[i] = tables[0][from[i]];
            to[i + 1] = tables[1][from[i + 1]];
            to[i + 2] = tables[2][from[i + 2]];
        }
    }
}

static void count_values(int64_t (*counts)[256], const tl_pixels *in)
{
    int64_t c = in->channels;
    memset(counts, 0, (size_t)c * sizeof *counts);
    for (int64_t y = 0; y < in->height; y++) {
        const uint8_t *from = tli_bytes_row(in, y);
        for (int64_t x = 0; x < in->width; x++)
            for (int64_t k = 0; k < c; k++) counts[k][from[x * c + k]]++;
    }
}

/* --- each channel by its histogram ------------------------------------------------------------ */

static void autocontrast_table(uint8_t table[256], const int64_t counts[256])
{
    int low = 0, high = 255;
    while (low < 255 && !counts[low]) low++;
    while (high > 0 && !counts[high]) high--;
    if (high <= low) {
        for (int v = 0; v < 256; v++) table[v] = (uint8_t)v;
        return;
    }
    float scale = 255.0f / (float)(high - low), offset = -(float)low * scale;
    for (int v = 0; v < 256; v++) table[v] = tli_byte_cut((float)v * scale + offset);
}

static void equalize_table(uint8_t table[256], const int64_t counts[256])
{
    int64_t total = 0, last = 0, sum = 0;
    for (int v = 0; v < 256; v++) {
        total += counts[v];
        if (counts[v]) last = counts[v];
    }
    int64_t step = (total - last) / 255;
    for (int v = 0; v < 256; v++) {
        int64_t to = step ? (sum + step / 2) / step : v;
        table[v] = (uint8_t)(v == 0 && step ? 0 : to > 255 ? 255 : to);
        sum += counts[v];
    }
}

static void by_histogram(const tl_pixels *out, const tl_pixels *in,
                         void (*make)(uint8_t table[256], const int64_t counts[256]))
{
    int64_t counts[3][256];
    uint8_t tables[3][256];
    TL_ASSERT(tli_augment_fit(out, in));
    count_values(counts, in);
    for (int64_t k = 0; k < in->channels; k++) make(tables[k], counts[k]);
    look_up_channels(out, in, tables);
}

void tl_pixels_autocontrast(const tl_pixels *out, const tl_pixels *in)
{
    by_histogram(out, in, autocontrast_table);
}

void tl_pixels_equalize(const tl_pixels *out, const tl_pixels *in)
{
    by_histogram(out, in, equalize_table);
}

/* --- each value by itself --------------------------------------------------------------------- */

void tl_pixels_invert(const tl_pixels *out, const tl_pixels *in)
{
    tl_pixels_solarize(out, in, 0);
}

void tl_pixels_posterize(const tl_pixels *out, const tl_pixels *in, int bits)
{
    TL_ASSERT(tli_augment_fit(out, in) && bits >= 0 && bits <= 8);
    int mask = 0xff << (bits > 0 ? 8 - bits : 7);
    int64_t n = in->width * in->channels;
    for (int64_t y = 0; y < in->height; y++) {
        const uint8_t *from = tli_bytes_row(in, y);
        uint8_t *to = tli_bytes_row(out, y);
        for (int64_t i = 0; i < n; i++) to[i] = (uint8_t)(from[i] & mask);
    }
}

void tl_pixels_solarize(const tl_pixels *out, const tl_pixels *in, int threshold)
{
    TL_ASSERT(tli_augment_fit(out, in));
    int64_t n = in->width * in->channels;
    const uint8_t least = (uint8_t)threshold;
    for (int64_t y = 0; y < in->height; y++) {
        const uint8_t *from = tli_bytes_row(in, y);
        uint8_t *to = tli_bytes_row(out, y);
        for (int64_t i = 0; i < n; i++)
            to[i] = (uint8_t)(from[i] < least ? from[i] : 255 - from[i]);
    }
}

void tl_pixels_solarize_add(const tl_pixels *out, const tl_pixels *in, int addition, int threshold)
{
    uint8_t table[256];
    for (int v = 0; v < 256; v++) {
        int sum = v + addition;
        table[v] = (uint8_t)(v >= threshold ? v : sum < 0 ? 0 : sum > 255 ? 255 : sum);
    }
    look_up(out, in, table);
}

void tl_pixels_brightness(const tl_pixels *out, const tl_pixels *in, double factor)
{
    uint8_t table[256];
    for (int v = 0; v < 256; v++) table[v] = tli_byte_cut((float)factor * (float)v);
    look_up(out, in, table);
}

/* As tf.image does it: shares of 1, which become bytes again by 255.5 and a cut. */
void tl_pixels_contrast(const tl_pixels *out, const tl_pixels *in, double factor)
{
    TL_ASSERT(tli_augment_fit(out, in));
    int64_t counts[3][256];
    uint8_t tables[3][256];
    count_values(counts, in);
    for (int64_t k = 0; k < in->channels; k++) {
        int64_t sum = 0;
        for (int v = 0; v < 256; v++) sum += v * counts[k][v];
        float mean = (float)((double)sum / 255 / (double)(in->height * in->width));
        for (int v = 0; v < 256; v++) {
            float share = (float)v * (float)(1 / 255.0);
            tables[k][v] = tli_byte_cut(((share - mean) * (float)factor + mean) * 255.5f);
        }
    }
    look_up_channels(out, in, tables);
}

/* --- colour ----------------------------------------------------------------------------------- */

static inline uint8_t grey_of(uint8_t red, uint8_t green, uint8_t blue)
{
    const float share = (float)(1 / 255.0);
    float sum = ((float)red * share * 0.2989f + (float)green * share * 0.587f)
                + (float)blue * share * 0.114f;
    return (uint8_t)(int)(sum * 255.5f);
}

void tl_pixels_grayscale(const tl_pixels *out, const tl_pixels *in)
{
    tl_pixels_color(out, in, 0);
}

static void blend_row(uint8_t *to, const uint8_t *from, int64_t width, float factor)
{
    for (int64_t x = 0; x < width; x++, from += 3, to += 3) {
        uint8_t v[3] = {from[0], from[1], from[2]};
        float grey = grey_of(v[0], v[1], v[2]);
        for (int k = 0; k < 3; k++) to[k] = tli_byte_cut(grey + factor * ((float)v[k] - grey));
    }
}

void tl_pixels_color(const tl_pixels *out, const tl_pixels *in, double factor)
{
    TL_ASSERT(tli_augment_fit(out, in));
    if (in->channels == 1 || factor == 1) {
        if (out->data != in->data) tl_pixels_copy(out, in, false);
        return;
    }
    for (int64_t y = 0; y < in->height; y++)
        blend_row(tli_bytes_row(out, y), tli_bytes_row(in, y), in->width, (float)factor);
}

/* --- windows ---------------------------------------------------------------------------------- */

tl_window tli_window_around(int64_t x, int64_t y, int64_t half_width, int64_t half_height,
                            int64_t width, int64_t height)
{
    int64_t left = x > half_width ? x - half_width : 0, top = y > half_height ? y - half_height : 0;
    int64_t right = x + half_width < width ? x + half_width : width;
    int64_t bottom = y + half_height < height ? y + half_height : height;
    return (tl_window){left, top, right - left, bottom - top};
}

void tl_pixels_fill(const tl_pixels *p, tl_window w, uint8_t value)
{
    TL_ASSERT(p->dtype == TL_U8);
    int64_t left = w.x > 0 ? w.x : 0, top = w.y > 0 ? w.y : 0;
    int64_t right = w.x + w.width < p->width ? w.x + w.width : p->width;
    int64_t bottom = w.y + w.height < p->height ? w.y + w.height : p->height;
    for (int64_t y = top; y < bottom && left < right; y++)
        memset(tli_bytes_row(p, y) + left * p->channels, value,
               (size_t)((right - left) * p->channels));
}
