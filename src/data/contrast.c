/* Views for contrastive learning. */
#include <tilth/data/contrast.h>

#include <math.h>
#include <string.h>

#include <tilth/base/alloc.h>

static float *row_of(const tl_pixels *p, int64_t y)
{
    return (float *)p->data + y * p->stride;
}

static bool has_colours(const tl_pixels *p)
{
    return p->channels == 3;
}

#define TONES(p) TL_ASSERT((p)->dtype == TL_F32 && ((p)->channels == 1 || (p)->channels == 3))

/* --- each value by itself --------------------------------------------------------------------- */

void tl_tone_affine(const tl_pixels *p, double scale, double shift)
{
    TONES(p);
    const float times = (float)scale, plus = (float)shift;
    for (int64_t y = 0; y < p->height; y++) {
        float *row = row_of(p, y);
        for (int64_t i = 0; i < p->width * p->channels; i++) row[i] = row[i] * times + plus;
    }
}

void tl_tone_clip(const tl_pixels *p, double low, double high)
{
    TONES(p);
    const float least = (float)low, most = (float)high;
    for (int64_t y = 0; y < p->height; y++) {
        float *row = row_of(p, y);
        for (int64_t i = 0; i < p->width * p->channels; i++) {
            float x = row[i] < least ? least : row[i];
            row[i] = x > most ? most : x;
        }
    }
}

void tl_tone_contrast(const tl_pixels *p, double factor)
{
    TONES(p);
    double sums[3] = {0};
    float means[3];
    const int64_t c = p->channels;
    for (int64_t y = 0; y < p->height; y++)
        for (int64_t i = 0; i < p->width * c; i++) sums[i % c] += (double)row_of(p, y)[i];
    for (int64_t k = 0; k < c; k++) means[k] = (float)(sums[k] / (double)(p->height * p->width));
    for (int64_t y = 0; y < p->height; y++) {
        float *row = row_of(p, y);
        for (int64_t i = 0; i < p->width * c; i++)
            row[i] = (row[i] - means[i % c]) * (float)factor + means[i % c];
    }
}

/* --- colours ---------------------------------------------------------------------------------- */

/* A colour as its hue, from 0 to 6, and its least and greatest channel: the hue says how the three
 * lie between these. */
typedef struct colour {
    float hue, least, most;
} colour;

static colour colour_of(const float *rgb)
{
    const float r = rgb[0], g = rgb[1], b = rgb[2];
    colour c = {0, fminf(r, fminf(g, b)), fmaxf(r, fmaxf(g, b))};
    const float range = c.most - c.least;
    if (!(range > 0)) return c;
    if (r == c.most) c.hue = (g - b) / range;
    else if (g == c.most) c.hue = (b - r) / range + 2;
    else c.hue = (r - g) / range + 4;
    if (c.hue < 0) c.hue += 6;
    return c;
}

static void put_colour(float *rgb, colour c)
{
    /* which channel is the greatest, between, and the least, in each sixth of the circle */
    static const int8_t places[6][3] = {{0, 1, 2}, {1, 0, 2}, {1, 2, 0},
                                        {2, 1, 0}, {2, 0, 1}, {0, 2, 1}};
    int sixth = (int)c.hue;
    if (sixth > 5) sixth = 5;
    const float into = c.hue - (float)sixth, share = sixth % 2 ? 1 - into : into;
    rgb[places[sixth][0]] = c.most;
    rgb[places[sixth][1]] = c.least + share * (c.most - c.least);
    rgb[places[sixth][2]] = c.least;
}

void tl_tone_saturation(const tl_pixels *p, double factor)
{
    TONES(p);
    for (int64_t y = 0; has_colours(p) && y < p->height; y++)
        for (float *rgb = row_of(p, y), *end = rgb + p->width * 3; rgb < end; rgb += 3) {
            colour c = colour_of(rgb);
            float saturation = c.most > 0 ? (c.most - c.least) / c.most : 0;
            saturation = fminf(1, fmaxf(0, saturation * (float)factor));
            c.least = c.most - saturation * c.most;
            put_colour(rgb, c);
        }
}

void tl_tone_hue(const tl_pixels *p, double share)
{
    TONES(p);
    const float turn = (float)(share - floor(share)) * 6;
    for (int64_t y = 0; has_colours(p) && y < p->height; y++)
        for (float *rgb = row_of(p, y), *end = rgb + p->width * 3; rgb < end; rgb += 3) {
            colour c = colour_of(rgb);
            c.hue += turn;
            if (c.hue >= 6) c.hue -= 6;
            put_colour(rgb, c);
        }
}

void tl_tone_grey(const tl_pixels *p)
{
    TONES(p);
    for (int64_t y = 0; has_colours(p) && y < p->height; y++)
        for (float *rgb = row_of(p, y), *end = rgb + p->width * 3; rgb < end; rgb += 3)
            rgb[0] = rgb[1] = rgb[2] = rgb[0] * 0.2989f + rgb[1] * 0.587f + rgb[2] * 0.114f;
}

/* --- blur ------------------------------------------------------------------------------------- */

enum { MOST_RADIUS = 256 };

static void gauss(float *weights, int64_t radius, double sigma)
{
    float sum = 0;
    for (int64_t i = -radius; i <= radius; i++)
        sum += weights[i + radius] = (float)exp(-(double)(i * i) / (2 * sigma * sigma));
    for (int64_t i = 0; i <= 2 * radius; i++) weights[i] /= sum;
}

/* to[i] += weight * from[i + by], of those that are there. */
static void add_moved(float *to, const float *from, int64_t count, int64_t by, float weight)
{
    int64_t first = by < 0 ? -by : 0, last = by > 0 ? count - by : count;
    for (int64_t i = first; i < last; i++) to[i] += weight * from[i + by];
}

tl_status tl_tone_blur(const tl_pixels *p, int64_t radius, double sigma)
{
    TONES(p);
    float weights[2 * MOST_RADIUS + 1];
    const int64_t n = p->width * p->channels;
    const size_t bytes = (size_t)(p->height * n) * sizeof(float);
    if (radius > MOST_RADIUS) radius = MOST_RADIUS; // far beyond any sigma that is drawn
    if (radius < 1) return TL_OK;
    float *across = tl_alloc_zero(bytes);
    if (!across) return TL_FAIL_NOMEM(bytes);
    gauss(weights, radius, sigma);
    for (int64_t y = 0; y < p->height; y++)
        for (int64_t k = -radius; k <= radius; k++)
            add_moved(across + y * n, row_of(p, y), n, k * p->channels, weights[k + radius]);
    for (int64_t y = 0; y < p->height; y++) {
        memset(row_of(p, y), 0, (size_t)n * sizeof(float));
        for (int64_t k = -radius; k <= radius; k++)
            if (y + k >= 0 && y + k < p->height)
                add_moved(row_of(p, y), across + (y + k) * n, n, 0, weights[k + radius]);
    }
    tl_free(across);
    return TL_OK;
}

/* --- a view ----------------------------------------------------------------------------------- */

enum { BRIGHTNESS, CONTRAST, SATURATION, HUE, CHANGES };

/* All that is drawn for a view, whether it is used or not. */
typedef struct draws {
    tl_window window;
    bool mirror, change, grey, blur;
    int64_t order[CHANGES];
    double amounts[CHANGES]; /* of each change, from 0 to 1 */
    double sigma;
} draws;

static void draw(draws *d, const tl_contrast_look *look, double aspect, const tl_pixels *image,
                 tl_rng *rng)
{
    const tl_random_window_args area = {.area_from = look->area_from,
                                        .area_to = look->area_to,
                                        .aspect_from = 0.75 * aspect,
                                        .aspect_to = 4 / 3.0 * aspect,
                                        .attempts = 100};
    d->window = (tl_window){0, 0, image->width, image->height};
    if (look->crop) d->window = tl_window_random(rng, image->height, image->width, &area);
    d->mirror = tl_rng_below(rng, 2) == 1 && look->flip;
    d->change = tl_rng_uniform_f32(rng) < 0.8f && look->distort;
    for (int i = 0; i < CHANGES; i++) d->order[i] = i;
    tl_rng_shuffle(rng, d->order, CHANGES);
    for (int i = 0; i < CHANGES; i++) d->amounts[i] = (double)tl_rng_uniform_f32(rng);
    d->grey = tl_rng_uniform_f32(rng) < 0.2f && look->distort;
    d->blur = tl_rng_uniform_f32(rng) < 0.5f && look->blur;
    d->sigma = 0.1 + 1.9 * (double)tl_rng_uniform_f32(rng);
}

static double between(double low, double high, double share)
{
    return low + (high - low) * share;
}

static void change(const tl_pixels *p, const tl_contrast_look *look, const draws *d)
{
    const double reach = 0.8 * look->strength, turn = 0.2 * look->strength;
    for (int i = 0; i < CHANGES; i++) {
        const double share = d->amounts[d->order[i]];
        const double factor = between(1 - reach, 1 + reach, share);
        switch (d->order[i]) {
        case BRIGHTNESS:
            if (look->additive) tl_tone_affine(p, 1, between(-reach, reach, share));
            else tl_tone_affine(p, between(fmax(1 - reach, 0), 1 + reach, share), 0);
            break;
        case CONTRAST: tl_tone_contrast(p, factor); break;
        case SATURATION: tl_tone_saturation(p, factor); break;
        default: tl_tone_hue(p, between(-turn, turn, share)); break;
        }
        tl_tone_clip(p, 0, 1);
    }
}

/* The part that is seen, as floats: at the size of the view where parts are cut out, else as it
 * is. */
static tl_status begin(const tl_pixels *work, const tl_pixels *part, bool mirror)
{
    static const float zeros[TL_PIXELS_CHANNELS] = {0},
                       whites[TL_PIXELS_CHANNELS] = {255, 255, 255, 255};
    const tl_pixels_resize_args how = {
        .method = TL_PIXELS_BICUBIC, .mirror = mirror, .mean = zeros, .deviation = whites};
    if (part->height != work->height || part->width != work->width)
        return tl_pixels_resize(work, part, &how, NULL);
    tl_pixels_copy(work, part, mirror);
    tl_pixels_normalize(work, work, zeros, whites);
    return TL_OK;
}

static tl_status see(const tl_pixels *work, const tl_pixels *part, const tl_contrast_look *look,
                     const draws *d, int64_t height)
{
    TL_TRY(begin(work, part, d->mirror));
    if (d->change) change(work, look, d);
    if (d->grey) tl_tone_grey(work);
    return d->blur ? tl_tone_blur(work, height / 10 / 2, d->sigma) : TL_OK;
}

tl_status tl_contrast_view(float *memory, int64_t height, int64_t width,
                           const tl_contrast_look *look, const tl_pixels *image, tl_rng *rng)
{
    TL_ASSERT(image->dtype == TL_U8 && (image->channels == 1 || image->channels == 3));
    draws d;
    draw(&d, look, (double)width / (double)height, image, rng);
    const tl_pixels out = tl_pixels_new(TL_F32, height, width, image->channels, memory);
    const tl_pixels part = tl_pixels_crop(image, d.window);
    tl_status st;
    if (look->crop || (part.height == height && part.width == width)) {
        st = see(&out, &part, look, &d, height);
    } else {
        const size_t bytes = (size_t)(part.height * part.width * part.channels) * sizeof(float);
        float *room = tl_alloc(bytes);
        if (!room) return TL_FAIL_NOMEM(bytes);
        const tl_pixels work = tl_pixels_new(TL_F32, part.height, part.width, part.channels, room);
        st = see(&work, &part, look, &d, height);
        if (st == TL_OK) st = tl_pixels_resize(&out, &work, &(tl_pixels_resize_args){0}, NULL);
        tl_free(room);
    }
    if (st == TL_OK) tl_tone_clip(&out, 0, 1);
    return st;
}
