#include "zoo/vision/image_view.h"

#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>

/* How an image is seen this time: which part of it, mirrored or not, moved or not. */
typedef struct look {
    tl_window window;
    bool mirror;
    int64_t down, right;
} look;

static bool is_whole(tl_window w, int64_t height, int64_t width)
{
    return w.width == width && w.height == height;
}

static look choose(const tli_view *p, tl_rng *rng, int64_t height, int64_t width)
{
    look v = {.window = {0, 0, width, height}};
    if (!p->training) {
        if (p->center > 0) v.window = tl_window_center(height, width, p->center);
        return v;
    }
    if (p->crop) {
        tl_random_window_args area = {.area_from = p->area_from, .area_to = p->area_to};
        v.window = tl_window_random(rng, height, width, &area);
        // No attempt fitted: as in evaluation, and not distorted.
        if (is_whole(v.window, height, width) && p->center > 0)
            v.window = tl_window_center(height, width, p->center);
    }
    if (p->flip) v.mirror = tl_rng_below(rng, 2) == 1;
    if (p->pad > 0) {
        v.down = tl_rng_below(rng, 2 * p->pad + 1) - p->pad;
        v.right = tl_rng_below(rng, 2 * p->pad + 1) - p->pad;
    }
    return v;
}

/* out[y][x] = in[y + down][x + right], black where that lies outside. */
static void move(const tl_pixels *out, const tl_pixels *in, int64_t down, int64_t right)
{
    tl_window from = {right > 0 ? right : 0, down > 0 ? down : 0, in->width - llabs(right),
                      in->height - llabs(down)};
    tl_window to = {right < 0 ? -right : 0, down < 0 ? -down : 0, from.width, from.height};
    memset(out->data, 0,
           (size_t)(out->height * out->width * out->channels) * tl_dtype_size(out->dtype));
    if (from.width <= 0 || from.height <= 0) return;
    tl_pixels source = tl_pixels_crop(in, from), target = tl_pixels_crop(out, to);
    tl_pixels_copy(&target, &source, false);
}

static bool fits(const tli_view *p, const tl_pixels *part)
{
    return part->height == p->height && part->width == p->width;
}

/* A part of the model's size, moved and mirrored. */
static void take(const tl_pixels *out, const tl_pixels *part, const look *v)
{
    if (!v->down && !v->right) {
        tl_pixels_copy(out, part, v->mirror);
        return;
    }
    move(out, part, v->down, v->right);
    if (v->mirror) tl_pixels_mirror(out);
}

static tl_status resize(const tli_view *p, const tl_pixels *out, const tl_pixels *part,
                        const look *v, const float *mean, const float *stddev)
{
    static const tl_pixels_method methods[] = {TL_PIXELS_BILINEAR, TL_PIXELS_NEAREST,
                                               TL_PIXELS_AREA, TL_PIXELS_BICUBIC};
    const tl_pixels_resize_args how = {
        .method = methods[p->resize],
        .mirror = v->mirror,
        .mean = mean,
        .deviation = stddev,
    };
    return tl_pixels_resize(out, part, &how, NULL);
}

/* --- changes of the pixels -------------------------------------------------------------------- */

static bool has_policy(const tli_view *p)
{
    return p->training && (p->autoaug || p->randaug || p->three_augment);
}

/* By way of bytes of the model's size, which policies work on. */
static tl_status fill_by_policy(const tli_view *p, const tl_pixels *out, const tl_pixels *part,
                                const look *v, tl_rng *rng)
{
    int64_t n = p->height * p->width * p->channels;
    uint8_t *room = tl_alloc((size_t)n * 2);
    if (!room) return TL_FAIL_NOMEM((size_t)n * 2);
    tl_pixels image = tl_pixels_new(TL_U8, p->height, p->width, p->channels, room);
    tl_pixels spare = tl_pixels_new(TL_U8, p->height, p->width, p->channels, room + n);
    tl_status st = TL_OK;
    if (fits(p, part)) {
        take(&image, part, v);
    } else {
        st = resize(p, out, part, v, NULL, NULL);
        if (st == TL_OK) tl_pixels_cut(&image, out);
    }
    if (st == TL_OK) {
        if (p->autoaug) tl_autoaug_apply(p->autoaug, &image, &spare, rng);
        else if (p->randaug) tl_randaug_apply(p->randaug, &image, &spare, rng);
        if (p->three_augment) tl_three_augment_apply(&image, &spare, rng);
        tl_pixels_normalize(out, &image, p->mean, p->stddev);
    }
    tl_free(room);
    return st;
}

/* Bytes that have been cut to the view's window, to floats of the model's size. */
static tl_status fill(const tli_view *p, float *memory, const tl_pixels *part, const look *v,
                      tl_rng *rng)
{
    tl_pixels out = tl_pixels_new(TL_F32, p->height, p->width, p->channels, memory);
    if ((v->down || v->right) && !fits(p, part))
        return TL_FAIL(TL_EINVAL,
                       "aug_pad moves images that have the model's size, %lld x %lld; this one has "
                       "%lld x %lld",
                       (long long)p->height, (long long)p->width, (long long)part->height,
                       (long long)part->width);
    if (has_policy(p)) {
        TL_TRY(fill_by_policy(p, &out, part, v, rng));
    } else if (fits(p, part)) {
        take(&out, part, v);
        tl_pixels_normalize(&out, &out, p->mean, p->stddev);
    } else {
        TL_TRY(resize(p, &out, part, v, p->mean, p->stddev));
    }
    if (p->training && p->erasing) tl_random_erasing_apply(p->erasing, &out, rng);
    return TL_OK;
}

/* The same of pixels that are somebody else's, after colours have changed. */
static tl_status fill_jittered(const tli_view *p, float *memory, const tl_pixels *part,
                               const look *v, tl_rng *rng)
{
    size_t bytes = (size_t)(part->height * part->width * part->channels);
    uint8_t *room = tl_alloc(bytes);
    if (!room) return TL_FAIL_NOMEM(bytes);
    tl_pixels copy = tl_pixels_new(TL_U8, part->height, part->width, part->channels, room);
    tl_pixels_copy(&copy, part, false);
    tl_color_jitter_apply(p->jitter, &copy, rng);
    tl_status st = fill(p, memory, &copy, v, rng);
    tl_free(room);
    return st;
}

/* --- views ------------------------------------------------------------------------------------ */

/* In training a part that is at least twice as large as it needs to be is read at half the size,
 * and so on. */
static int shrink_of(const tli_view *p, const look *v)
{
    int shrink = 1;
    if (!p->training) return 1;
    while (shrink < 8 && v->window.height / (2 * shrink) >= p->height
           && v->window.width / (2 * shrink) >= p->width)
        shrink *= 2;
    return shrink;
}

/* The part of the image that is seen this time, as bytes. */
static tl_status decode(const tli_view *p, tl_image *out, look *v, const void *file, size_t bytes,
                        tl_rng *rng)
{
    tl_image_head head;
    TL_TRY(tl_image_look(&head, file, bytes));
    if (p->orient) tl_image_upright(&head);
    *v = choose(p, rng, head.height, head.width);
    return tl_image_decode(out, file, bytes,
                           &(tl_image_args){.channels = p->channels,
                                            .window = v->window,
                                            .dct = TL_JPEG_FAST,
                                            .plain_edges = true, // as TensorFlow
                                            .shrink = shrink_of(p, v),
                                            .orient = p->orient});
}

/* Every pixel counts. */
static tl_status reduce(tl_image *out, const tl_image *in, int64_t side)
{
    int64_t shorter = in->height < in->width ? in->height : in->width;
    int64_t height = (in->height * side + shorter / 2) / shorter,
            width = (in->width * side + shorter / 2) / shorter;
    TL_TRY(tl_image_resize_memory(out, height, width, in->channels));
    tl_pixels to = tl_pixels_of(out), from = tl_pixels_of(in);
    return tl_pixels_resize(&to, &from, &(tl_pixels_resize_args){.method = TL_PIXELS_AREA}, NULL);
}

tl_status tli_view_decode(tl_image *out, const tli_view *p, const void *file, size_t bytes)
{
    tl_image_head head;
    tl_image whole = TL_IMAGE_INIT;
    tl_image_args args = {
        .channels = p->channels, .dct = TL_JPEG_FAST, .shrink = 1, .orient = p->orient};
    if (p->side <= 0) return tl_image_decode(out, file, bytes, &args);
    TL_TRY(tl_image_look(&head, file, bytes));
    int64_t shorter = head.height < head.width ? head.height : head.width;
    if (shorter <= p->side) return tl_image_decode(out, file, bytes, &args);
    while (args.shrink < 8 && shorter / (2 * args.shrink) >= p->side) args.shrink *= 2;
    tl_status st = tl_image_decode(&whole, file, bytes, &args);
    if (st == TL_OK) st = reduce(out, &whole, p->side);
    tl_image_deinit(&whole);
    return st;
}

/* By way of the whole image. */
static tl_status view_reduced(float *memory, const tli_view *p, const void *file, size_t bytes,
                              tl_rng *rng, bool *undecodable)
{
    tl_image image = TL_IMAGE_INIT;
    tl_status st = tli_view_decode(&image, p, file, bytes);
    *undecodable = st != TL_OK && st != TL_ENOMEM;
    if (st == TL_OK) {
        tl_shape shape = TL_SHAPE(image.height, image.width, image.channels);
        st = tli_view_pixels(memory, p, &shape, image.pixels, rng);
    }
    tl_image_deinit(&image);
    return st;
}

tl_status tli_view_encoded(float *memory, const tli_view *p, const void *file, size_t bytes,
                           tl_rng *rng, bool *undecodable)
{
    tl_image image = TL_IMAGE_INIT;
    look v;
    if (p->side > 0) return view_reduced(memory, p, file, bytes, rng, undecodable);
    tl_status st = decode(p, &image, &v, file, bytes, rng);
    *undecodable = st != TL_OK && st != TL_ENOMEM;
    if (st == TL_OK) {
        tl_pixels part = tl_pixels_of(&image);
        if (p->training && p->jitter > 0) tl_color_jitter_apply(p->jitter, &part, rng);
        st = fill(p, memory, &part, &v, rng);
    }
    tl_image_deinit(&image);
    return st;
}

tl_status tli_view_whole(tl_pixels *out, const tli_view *p, const tl_shape *s, const void *pixels)
{
    int64_t channels = s->rank == 3 ? s->dims[2] : 1;
    if (s->rank < 2 || s->rank > 3 || channels != p->channels) {
        char text[TL_SHAPE_TEXT];
        return TL_FAIL(
            TL_EINVAL,
            "images have the shape %s; expected [height, width, %lld], as model.input_size has it",
            tl_shape_text(text, s), (long long)p->channels);
    }
    *out = tl_pixels_new(TL_U8, s->dims[0], s->dims[1], channels, (void *)(uintptr_t)pixels);
    return TL_OK;
}

tl_status tli_view_pixels(float *memory, const tli_view *p, const tl_shape *s, const void *pixels,
                          tl_rng *rng)
{
    tl_pixels whole;
    TL_TRY(tli_view_whole(&whole, p, s, pixels));
    look v = choose(p, rng, s->dims[0], s->dims[1]);
    tl_pixels part = tl_pixels_crop(&whole, v.window);
    if (p->training && p->jitter > 0) return fill_jittered(p, memory, &part, &v, rng);
    return fill(p, memory, &part, &v, rng);
}
