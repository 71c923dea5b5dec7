#include "zoo/vision/detection_augment.h"

#include <math.h>
#include <string.h>

#include <tilth/io/image/jpeg.h>

#include "zoo/vision/image_inputs.h"

/* --- policies --------------------------------------------------------------------------------- */

/* One of the two is not NULL. */
static tl_status follow(const tl_autoaug *autoaug, const tl_randaug *randaug, tli_picture *image,
                        tl_image_boxes boxes, tl_rng *rng)
{
    tl_image room = TL_IMAGE_INIT;
    TL_TRY(tli_picture_own(image));
    TL_TRY(tl_image_resize_memory(&room, image->own.height, image->own.width, image->own.channels));
    tl_pixels spare = tl_pixels_of(&room);
    if (autoaug) tl_autoaug_apply_boxes(autoaug, &image->pixels, &spare, boxes, rng);
    else tl_randaug_apply_boxes(randaug, &image->pixels, &spare, boxes, rng);
    if (image->pixels.data == room.pixels) { // they have changed places
        tl_image own = image->own;
        image->own = room;
        room = own;
    }
    tl_image_deinit(&room);
    return TL_OK;
}

/* --- parts ------------------------------------------------------------------------------------ */

/* What a part must hold. */
typedef struct covering {
    tl_image_boxes boxes;
    int64_t height, width;
    double least; /* share of some box */
} covering;

/* As TensorFlow's sample_distorted_bounding_box: boxes of less than a pixel do not count. */
static bool covers_some(void *self, const tl_window *w)
{
    const covering *c = self;
    if (!c->boxes.count) // the picture is the only box
        return (double)(w->height * w->width) >= c->least * (double)(c->height * c->width);
    for (int64_t i = 0; i < c->boxes.count; i++) {
        const float *box = c->boxes.items[i];
        double low_y = trunc(box[0] * (double)c->height), low_x = trunc(box[1] * (double)c->width);
        double high_y = trunc(box[2] * (double)c->height),
               high_x = trunc(box[3] * (double)c->width);
        double area = (high_y - low_y) * (high_x - low_x);
        double height = fmin(high_y, (double)(w->y + w->height)) - fmax(low_y, (double)w->y);
        double width = fmin(high_x, (double)(w->x + w->width)) - fmax(low_x, (double)w->x);
        if (high_y <= low_y || high_x <= low_x || area < 1) continue;
        if (fmax(height, 0) * fmax(width, 0) / area >= c->least) return true;
    }
    return false;
}

static void cut_boxes(tl_image_boxes boxes)
{
    for (int64_t i = 0; i < boxes.count; i++)
        for (int k = 0; k < 4; k++) boxes.items[i][k] = fminf(fmaxf(boxes.items[i][k], 0), 1);
}

static void take_part(const tl_ssd_random_crop *crop, tli_picture *image, tl_image_boxes boxes,
                      tl_rng *rng)
{
    enum { ATTEMPTS = 100 };
    const tl_ssd_crop_limits *limits = crop->ssd_random_crop_params.items;
    limits += tl_rng_below(rng, crop->ssd_random_crop_params.count);
    bool wanted = tl_rng_uniform_f32(rng) < limits->prob_to_apply;
    if (!wanted) return;
    int64_t height = image->pixels.height, width = image->pixels.width;
    cut_boxes(boxes);
    covering c = {boxes, height, width, limits->min_object_covered};
    tl_window window =
        tl_window_random(rng, height, width,
                         &(tl_random_window_args){.area_from = crop->area_range.items[0],
                                                  .area_to = crop->area_range.items[1],
                                                  .aspect_from = crop->aspect_ratio_range.items[0],
                                                  .aspect_to = crop->aspect_ratio_range.items[1],
                                                  .attempts = ATTEMPTS,
                                                  .accept = covers_some,
                                                  .self = &c});
    tl_image_boxes_crop(boxes, height, width, window, limits->min_box_overlap);
    image->pixels = tl_pixels_crop(&image->pixels, window);
}

/* --- the whole -------------------------------------------------------------------------------- */

tl_status tli_detection_augment(const tl_oneof *type, tli_picture *image, tl_image_boxes boxes,
                                const tl_rng *rng)
{
    tl_rng own;
    if (!type->type) return TL_OK;
    tl_rng_split(&own, rng, "augmentation");
    if (strcmp(type->type, "autoaug") == 0)
        return follow(type->value ? type->value : &tli_usual_autoaug, NULL, image, boxes, &own);
    if (strcmp(type->type, "randaug") == 0)
        return follow(NULL, type->value ? type->value : &tli_usual_randaug, image, boxes, &own);
    if (strcmp(type->type, "ssd_random_crop") != 0)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "parser.aug_type: there is no augmentation '%s' here; "
                       "there are autoaug, randaug and ssd_random_crop",
                       type->type);
    if (!type->value)
        return TL_FAIL(TL_EINVAL, "parser.aug_type: ssd_random_crop has no value: take the "
                                  "defaults of its description");
    take_part(type->value, image, boxes, &own);
    return TL_OK;
}

/* Written as JPEG, and read again. */
static tl_status compress(tli_picture *p, int quality)
{
    tl_str file = TL_STR_INIT;
    tl_status st;
    TL_TRY_DONE(st, tli_picture_own(p));
    TL_TRY_DONE(st, tl_jpeg_encode(&file, &p->own, &(tl_jpeg_encode_args){.quality = quality}));
    TL_TRY_DONE(
        st, tl_jpeg_decode(&p->own, file.data, file.length,
                           &(tl_image_args){.channels = p->pixels.channels, .dct = TL_JPEG_FAST}));
    p->pixels = tl_pixels_of(&p->own);
done:
    tl_str_deinit(&file);
    return st;
}

tl_status tli_detection_lose_quality(const tl_rand_jpeg *how, tli_picture *image, const tl_rng *rng)
{
    tl_rng own;
    tl_rng_split(&own, rng, "jpeg");
    bool wanted = tl_rng_uniform_f32(&own) < how->prob_to_apply;
    int64_t quality = how->min_quality + tl_rng_below(&own, how->max_quality - how->min_quality);
    return wanted ? compress(image, (int)quality) : TL_OK;
}
