#include "zoo/vision/frame.h"

#include <math.h>
#include <string.h>

#include <tilth/base/integer.h>

/* As Python's isclose. */
static bool is_one(double x)
{
    return fabs(x - 1) <= 1e-9 * fmax(fabs(x), 1);
}

static float drawn(const tl_rng *rng, const char *name, float low, float high)
{
    tl_rng own;
    tl_rng_split(&own, rng, name);
    return low + (high - low) * tl_rng_uniform_f32(&own);
}

/* One pixel at least: a line that is a thousand times as long as it is wide does not vanish. */
static int64_t whole(float size)
{
    return tl_max_i64((int64_t)rintf(size), 1);
}

tl_status tli_frame_choose(tli_frame *f, const tli_framing *how, int64_t height, int64_t width,
                           const tl_rng *rng)
{
    bool jitter = rng && !(is_one(how->scale_from) && is_one(how->scale_to));
    float size_y = (float)height, size_x = (float)width;
    float want_y = (float)how->height, want_x = (float)how->width;
    if (height < 1 || width < 1)
        return TL_FAIL(TL_EINVAL, "a picture of %lld x %lld pixels has none", (long long)height,
                       (long long)width);
    *f = (tli_frame){.how = *how, .height = height, .width = width};
    if (jitter) {
        float scale = drawn(rng, "scale", (float)how->scale_from, (float)how->scale_to);
        want_y = rintf(scale * want_y);
        want_x = rintf(scale * want_x);
    }
    if (!how->stretch) {
        float scale = fminf(want_y / size_y, want_x / size_x);
        want_y = size_y * scale;
        want_x = size_x * scale;
    }
    f->scaled_height = whole(want_y);
    f->scaled_width = whole(want_x);
    f->scale_y = (float)f->scaled_height / size_y;
    f->scale_x = (float)f->scaled_width / size_x;
    if (jitter) {
        int64_t spare_y = tl_max_i64(f->scaled_height - how->height, 0),
                spare_x = tl_max_i64(f->scaled_width - how->width, 0);
        f->top = (int64_t)((float)spare_y * drawn(rng, "top", 0, 1));
        f->left = (int64_t)((float)spare_x * drawn(rng, "left", 0, 1));
    }
    f->rows = tl_min_i64(f->scaled_height - f->top, how->height);
    f->columns = tl_min_i64(f->scaled_width - f->left, how->width);
    if (how->centered) {
        f->down = (how->padded_height - f->rows) / 2;
        f->right = (how->padded_width - f->columns) / 2;
    }
    return TL_OK;
}

void tli_frame_info(const tli_frame *f, float out[TLI_FRAME_INFO])
{
    const float info[] = {(float)f->height,    (float)f->width, (float)f->how.height,
                          (float)f->how.width, f->scale_y,      f->scale_x,
                          (float)f->top,       (float)f->left};
    memcpy(out, info, sizeof info);
}

/* The part of what comes out that the picture covers. */
static tl_pixels seen_part(const tli_frame *f, float *out, int64_t channels)
{
    tl_pixels all = tl_pixels_new(TL_F32, f->how.padded_height, f->how.padded_width, channels, out);
    return tl_pixels_crop(&all, (tl_window){f->right, f->down, f->columns, f->rows});
}

static tl_pixels_resize_args part_of(const tli_frame *f, tl_pixels_method method)
{
    return (tl_pixels_resize_args){.method = method,
                                   .whole_height = f->scaled_height,
                                   .whole_width = f->scaled_width,
                                   .top = f->top,
                                   .left = f->left};
}

tl_status tli_frame_image(const tli_frame *f, float *out, const tl_pixels *picture, bool mirror,
                          const float *mean, const float *stddev)
{
    tl_pixels part = seen_part(f, out, picture->channels);
    tl_pixels_resize_args args = part_of(f, TL_PIXELS_BILINEAR);
    args.mirror = mirror;
    args.mean = mean;
    args.deviation = stddev;
    memset(out, 0,
           (size_t)(f->how.padded_height * f->how.padded_width * picture->channels) * sizeof *out);
    return tl_pixels_resize(&part, picture, &args, NULL);
}

tl_status tli_frame_labels(const tli_frame *f, float *out, const tl_pixels *labels, float beyond)
{
    tl_pixels part = seen_part(f, out, 1);
    tl_pixels_resize_args args = part_of(f, TL_PIXELS_NEAREST);
    for (int64_t i = 0; i < f->how.padded_height * f->how.padded_width; i++) out[i] = beyond;
    return tl_pixels_resize(&part, labels, &args, NULL);
}

void tli_frame_box(const tli_frame *f, float box[4])
{
    const float scale[] = {f->scale_y, f->scale_x},
                size[] = {(float)f->how.height, (float)f->how.width};
    const float offset[] = {(float)f->top, (float)f->left};
    for (int i = 0; i < 4; i++) {
        float at = box[i] * scale[i % 2] - offset[i % 2];
        box[i] = fminf(fmaxf(at, 0), size[i % 2]);
    }
}
