/* Policies: which operations an image goes through, and how strongly. */
#include <math.h>
#include <string.h>

#include "data/augment_impl.h"

/* --- operations with a level ------------------------------------------------------------------ */

static const char *const op_names[] = {
    "AutoContrast",
    "Equalize",
    "Invert",
    "Rotate",
    "Posterize",
    "Solarize",
    "Color",
    "Contrast",
    "Brightness",
    "Sharpness",
    "ShearX",
    "ShearY",
    "TranslateX",
    "TranslateY",
    "Cutout",
    "SolarizeAdd",
    "Grayscale",
    "Gaussian_Noise",
    "TranslateY_Only_BBoxes",
};
_Static_assert(TL_COUNT(op_names) == TL_AUGMENT_COUNT, "every operation has a name");

const char *tl_augment_op_name(tl_augment_op op)
{
    return op_names[op];
}

bool tl_augment_op_find(tl_augment_op *out, const char *name)
{
    for (int i = 0; i < TL_AUGMENT_COUNT; i++) {
        if (strcmp(op_names[i], name) != 0) continue;
        *out = (tl_augment_op)i;
        return true;
    }
    return false;
}

static double between(tl_rng *rng, double low, double high)
{
    return low + (high - low) * tl_rng_uniform_f32(rng);
}

static double either_sign(tl_rng *rng, double x)
{
    return tl_rng_uniform_f32(rng) < 0.5f ? -x : x;
}

static void cut_out(const tl_pixels *p, int64_t half, tl_rng *rng)
{
    int64_t y = tl_rng_below(rng, p->height), x = tl_rng_below(rng, p->width);
    tl_pixels_fill(p, tli_window_around(x, y, half, half, p->width, p->height), 128);
}

/* An image on its way through the operations, with boxes or without. */
typedef struct work {
    tl_pixels *image, *spare;
    tl_image_boxes boxes;
    tl_augment_reach reach;
    tl_rng *rng;
} work;

static void swap(work *w)
{
    tl_pixels changed = *w->spare;
    *w->spare = *w->image;
    *w->image = changed;
}

static void shear(work *w, bool horizontal, double level)
{
    const tl_pixels *in = w->image;
    float m[6] = {1, 0, 0, 0, 1, 0};
    m[horizontal ? 1 : 3] = (float)level;
    tl_pixels_transform(w->spare, in, m);
    tl_image_boxes_shear(w->boxes, in->height, in->width, level, horizontal);
    swap(w);
}

static void translate(const tl_pixels *out, const tl_pixels *in, bool horizontal, double pixels)
{
    float m[6] = {1, 0, 0, 0, 1, 0};
    m[horizontal ? 2 : 5] = (float)pixels;
    tl_pixels_transform(out, in, m);
}

static void translate_all(work *w, bool horizontal, double pixels)
{
    const tl_pixels *in = w->image;
    translate(w->spare, in, horizontal, pixels);
    tl_image_boxes_translate(w->boxes, in->height, in->width, pixels, horizontal);
    swap(w);
}

static void rotate(work *w, double degrees)
{
    tl_pixels_rotate(w->spare, w->image, degrees);
    tl_image_boxes_rotate(w->boxes, w->image->height, w->image->width, degrees);
    swap(w);
}

static int64_t pixel_of(float share, int64_t size)
{
    float at = share * (float)size;
    return at > 0 ? (int64_t)fminf(at, (float)(size - 1)) : 0;
}

/* What is in each box moves within it, behind the edge what is before it. Later boxes see what
 * earlier ones have become. */
static void translate_boxes(work *w, double pixels, double prob)
{
    tl_rng draws;
    tl_rng_fold(&draws, w->rng, tl_rng_u64(w->rng));
    for (int64_t i = 0; i < w->boxes.count; i++) {
        const float *box = w->boxes.items[i];
        const tl_pixels *in = w->image;
        if (tl_rng_uniform_f32(&draws) >= prob) continue;
        int64_t top = pixel_of(box[0], in->height), left = pixel_of(box[1], in->width);
        int64_t bottom = pixel_of(box[2], in->height), right = pixel_of(box[3], in->width);
        if (bottom < top || right < left) continue;
        tl_window window = {left, top, right - left + 1, bottom - top + 1};
        tl_pixels from = tl_pixels_crop(in, window), to = tl_pixels_crop(w->spare, window);
        translate(&to, &from, false, pixels);
        tl_pixels_copy(&from, &to, false);
    }
}

/* What is more changes nothing more, and would not fit the integers that it becomes. */
static double within(double x, double most)
{
    return x > 0 ? fmin(x, most) : 0;
}

/* Those that look at other places. */
static void apply_spatial(work *w, tl_augment_op op, double share, double prob)
{
    tl_rng *rng = w->rng;
    double reach = w->reach.translate;
    switch (op) {
    case TL_AUGMENT_ROTATE: rotate(w, either_sign(rng, share * 30)); return;
    case TL_AUGMENT_SHEAR_X: shear(w, true, either_sign(rng, share * 0.3)); return;
    case TL_AUGMENT_SHEAR_Y: shear(w, false, either_sign(rng, share * 0.3)); return;
    case TL_AUGMENT_TRANSLATE_X: translate_all(w, true, either_sign(rng, share * reach)); return;
    case TL_AUGMENT_TRANSLATE_Y: translate_all(w, false, either_sign(rng, share * reach)); return;
    case TL_AUGMENT_TRANSLATE_Y_ONLY_BOXES:
        translate_boxes(w, either_sign(rng, share * 120), prob / 3);
        return;
    case TL_AUGMENT_SHARPNESS: tl_pixels_sharpness(w->spare, w->image, share * 1.8 + 0.1); break;
    default: tl_pixels_blur(w->spare, w->image, between(rng, share, reach * share)); break;
    }
    swap(w);
}

/* `prob` is that with which it is done, for operations that draw for each box. */
static void apply(work *w, tl_augment_op op, double level, double prob)
{
    const tl_pixels *image = w->image;
    double share = within(level / 10, 100);
    switch (op) {
    case TL_AUGMENT_AUTOCONTRAST: tl_pixels_autocontrast(image, image); return;
    case TL_AUGMENT_EQUALIZE: tl_pixels_equalize(image, image); return;
    case TL_AUGMENT_INVERT: tl_pixels_invert(image, image); return;
    case TL_AUGMENT_POSTERIZE:
        tl_pixels_posterize(image, image, share < 2 ? (int)(share * 4) : 8);
        return;
    case TL_AUGMENT_SOLARIZE: tl_pixels_solarize(image, image, (int)(share * 256)); return;
    case TL_AUGMENT_SOLARIZE_ADD:
        tl_pixels_solarize_add(image, image, (int)(share * 110), 128);
        return;
    case TL_AUGMENT_COLOR: tl_pixels_color(image, image, share * 1.8 + 0.1); return;
    case TL_AUGMENT_CONTRAST: tl_pixels_contrast(image, image, share * 1.8 + 0.1); return;
    case TL_AUGMENT_BRIGHTNESS: tl_pixels_brightness(image, image, share * 1.8 + 0.1); return;
    case TL_AUGMENT_GRAYSCALE: tl_pixels_grayscale(image, image); return;
    case TL_AUGMENT_CUTOUT: cut_out(image, (int64_t)(share * w->reach.cutout), w->rng); return;
    default: apply_spatial(w, op, share, prob); return;
    }
}

static work begin(tl_pixels *image, tl_pixels *spare, tl_image_boxes boxes, double cutout,
                  double translation, tl_rng *rng)
{
    return (work){image, spare, boxes, {within(cutout, 1e6), within(translation, 1e6)}, rng};
}

void tl_augment_apply_boxes(tl_augment_op op, double level, tl_augment_reach reach,
                            tl_pixels *image, tl_pixels *spare, tl_image_boxes boxes, tl_rng *rng)
{
    work w = begin(image, spare, boxes, reach.cutout, reach.translate, rng);
    apply(&w, op, level, 1);
}

void tl_augment_apply(tl_augment_op op, double level, tl_augment_reach reach, tl_pixels *image,
                      tl_pixels *spare, tl_rng *rng)
{
    tl_augment_apply_boxes(op, level, reach, image, spare, (tl_image_boxes){0}, rng);
}

/* --- the tables ------------------------------------------------------------------------------- */

/* The operation, with which probability, how strongly. */
#define DO(op, prob, level) TL_INIT(TL_AUGMENT_##op, prob, level)

// clang-format off
static const tl_augment_step v0_rows[][TL_AUGMENT_STEPS] = {
    {DO(EQUALIZE, 0.8, 1), DO(SHEAR_Y, 0.8, 4)}, {DO(COLOR, 0.4, 9), DO(EQUALIZE, 0.6, 3)},
    {DO(COLOR, 0.4, 1), DO(ROTATE, 0.6, 8)}, {DO(SOLARIZE, 0.8, 3), DO(EQUALIZE, 0.4, 7)},
    {DO(SOLARIZE, 0.4, 2), DO(SOLARIZE, 0.6, 2)}, {DO(COLOR, 0.2, 0), DO(EQUALIZE, 0.8, 8)},
    {DO(EQUALIZE, 0.4, 8), DO(SOLARIZE_ADD, 0.8, 3)}, {DO(SHEAR_X, 0.2, 9), DO(ROTATE, 0.6, 8)},
    {DO(COLOR, 0.6, 1), DO(EQUALIZE, 1, 2)}, {DO(INVERT, 0.4, 9), DO(ROTATE, 0.6, 0)},
    {DO(EQUALIZE, 1, 9), DO(SHEAR_Y, 0.6, 3)}, {DO(COLOR, 0.4, 7), DO(EQUALIZE, 0.6, 0)},
    {DO(POSTERIZE, 0.4, 6), DO(AUTOCONTRAST, 0.4, 7)}, {DO(SOLARIZE, 0.6, 8), DO(COLOR, 0.6, 9)},
    {DO(SOLARIZE, 0.2, 4), DO(ROTATE, 0.8, 9)}, {DO(ROTATE, 1, 7), DO(TRANSLATE_Y, 0.8, 9)},
    {DO(SHEAR_X, 0, 0), DO(SOLARIZE, 0.8, 4)}, {DO(SHEAR_Y, 0.8, 0), DO(COLOR, 0.6, 4)},
    {DO(COLOR, 1, 0), DO(ROTATE, 0.6, 2)}, {DO(EQUALIZE, 0.8, 4), DO(EQUALIZE, 0, 8)},
    {DO(EQUALIZE, 1, 4), DO(AUTOCONTRAST, 0.6, 2)}, {DO(SHEAR_Y, 0.4, 7), DO(SOLARIZE_ADD, 0.6, 7)},
    {DO(POSTERIZE, 0.8, 2), DO(SOLARIZE, 0.6, 10)}, {DO(SOLARIZE, 0.6, 8), DO(EQUALIZE, 0.6, 1)},
    {DO(COLOR, 0.8, 6), DO(ROTATE, 0.4, 5)},
};
static const tl_augment_step test_rows[][TL_AUGMENT_STEPS] = {
    {DO(TRANSLATE_X, 1, 4), DO(EQUALIZE, 1, 10)},
};
static const tl_augment_step simple_rows[][TL_AUGMENT_STEPS] = {
    {DO(COLOR, 0.4, 9), DO(EQUALIZE, 0.6, 3)}, {DO(SOLARIZE, 0.8, 3), DO(EQUALIZE, 0.4, 7)},
    {DO(SOLARIZE, 0.4, 2), DO(SOLARIZE, 0.6, 2)}, {DO(COLOR, 0.2, 0), DO(EQUALIZE, 0.8, 8)},
    {DO(EQUALIZE, 0.4, 8), DO(SOLARIZE_ADD, 0.8, 3)}, {DO(COLOR, 0.6, 1), DO(EQUALIZE, 1, 2)},
    {DO(COLOR, 0.4, 7), DO(EQUALIZE, 0.6, 0)}, {DO(POSTERIZE, 0.4, 6), DO(AUTOCONTRAST, 0.4, 7)},
    {DO(SOLARIZE, 0.6, 8), DO(COLOR, 0.6, 9)}, {DO(EQUALIZE, 0.8, 4), DO(EQUALIZE, 0, 8)},
    {DO(EQUALIZE, 1, 4), DO(AUTOCONTRAST, 0.6, 2)}, {DO(POSTERIZE, 0.8, 2), DO(SOLARIZE, 0.6, 10)},
    {DO(SOLARIZE, 0.6, 8), DO(EQUALIZE, 0.6, 1)},
};
static const tl_augment_step reduced_cifar10_rows[][TL_AUGMENT_STEPS] = {
    {DO(INVERT, 0.1, 7), DO(CONTRAST, 0.2, 6)}, {DO(ROTATE, 0.7, 2), DO(TRANSLATE_X, 0.3, 9)},
    {DO(SHARPNESS, 0.8, 1), DO(SHARPNESS, 0.9, 3)}, {DO(SHEAR_Y, 0.5, 8), DO(TRANSLATE_Y, 0.7, 9)},
    {DO(AUTOCONTRAST, 0.5, 8), DO(EQUALIZE, 0.9, 2)}, {DO(SHEAR_Y, 0.2, 7), DO(POSTERIZE, 0.3, 7)},
    {DO(COLOR, 0.4, 3), DO(BRIGHTNESS, 0.6, 7)}, {DO(SHARPNESS, 0.3, 9), DO(BRIGHTNESS, 0.7, 9)},
    {DO(EQUALIZE, 0.6, 5), DO(EQUALIZE, 0.5, 1)}, {DO(CONTRAST, 0.6, 7), DO(SHARPNESS, 0.6, 5)},
    {DO(COLOR, 0.7, 7), DO(TRANSLATE_X, 0.5, 8)}, {DO(EQUALIZE, 0.3, 7), DO(AUTOCONTRAST, 0.4, 8)},
    {DO(TRANSLATE_Y, 0.4, 3), DO(SHARPNESS, 0.2, 6)}, {DO(BRIGHTNESS, 0.9, 6), DO(COLOR, 0.2, 8)},
    {DO(SOLARIZE, 0.5, 2), DO(INVERT, 0, 3)}, {DO(EQUALIZE, 0.2, 0), DO(AUTOCONTRAST, 0.6, 0)},
    {DO(EQUALIZE, 0.2, 8), DO(EQUALIZE, 0.6, 4)}, {DO(COLOR, 0.9, 9), DO(EQUALIZE, 0.6, 6)},
    {DO(AUTOCONTRAST, 0.8, 4), DO(SOLARIZE, 0.2, 8)}, {DO(BRIGHTNESS, 0.1, 3), DO(COLOR, 0.7, 0)},
    {DO(SOLARIZE, 0.4, 5), DO(AUTOCONTRAST, 0.9, 3)},
    {DO(TRANSLATE_Y, 0.9, 9), DO(TRANSLATE_Y, 0.7, 9)},
    {DO(AUTOCONTRAST, 0.9, 2), DO(SOLARIZE, 0.8, 3)}, {DO(EQUALIZE, 0.8, 8), DO(INVERT, 0.1, 3)},
    {DO(TRANSLATE_Y, 0.7, 9), DO(AUTOCONTRAST, 0.9, 1)},
};
static const tl_augment_step svhn_rows[][TL_AUGMENT_STEPS] = {
    {DO(SHEAR_X, 0.9, 4), DO(INVERT, 0.2, 3)}, {DO(SHEAR_Y, 0.9, 8), DO(INVERT, 0.7, 5)},
    {DO(EQUALIZE, 0.6, 5), DO(SOLARIZE, 0.6, 6)}, {DO(INVERT, 0.9, 3), DO(EQUALIZE, 0.6, 3)},
    {DO(EQUALIZE, 0.6, 1), DO(ROTATE, 0.9, 3)}, {DO(SHEAR_X, 0.9, 4), DO(AUTOCONTRAST, 0.8, 3)},
    {DO(SHEAR_Y, 0.9, 8), DO(INVERT, 0.4, 5)}, {DO(SHEAR_Y, 0.9, 5), DO(SOLARIZE, 0.2, 6)},
    {DO(INVERT, 0.9, 6), DO(AUTOCONTRAST, 0.8, 1)}, {DO(EQUALIZE, 0.6, 3), DO(ROTATE, 0.9, 3)},
    {DO(SHEAR_X, 0.9, 4), DO(SOLARIZE, 0.3, 3)}, {DO(SHEAR_Y, 0.8, 8), DO(INVERT, 0.7, 4)},
    {DO(EQUALIZE, 0.9, 5), DO(TRANSLATE_Y, 0.6, 6)}, {DO(INVERT, 0.9, 4), DO(EQUALIZE, 0.6, 7)},
    {DO(CONTRAST, 0.3, 3), DO(ROTATE, 0.8, 4)}, {DO(INVERT, 0.8, 5), DO(TRANSLATE_Y, 0, 2)},
    {DO(SHEAR_Y, 0.7, 6), DO(SOLARIZE, 0.4, 8)}, {DO(INVERT, 0.6, 4), DO(ROTATE, 0.8, 4)},
    {DO(SHEAR_Y, 0.3, 7), DO(TRANSLATE_X, 0.9, 3)}, {DO(SHEAR_X, 0.1, 6), DO(INVERT, 0.6, 5)},
    {DO(SOLARIZE, 0.7, 2), DO(TRANSLATE_Y, 0.6, 7)}, {DO(SHEAR_Y, 0.8, 4), DO(INVERT, 0.8, 8)},
    {DO(SHEAR_X, 0.7, 9), DO(TRANSLATE_Y, 0.8, 3)}, {DO(SHEAR_Y, 0.8, 5), DO(AUTOCONTRAST, 0.7, 3)},
    {DO(SHEAR_X, 0.7, 2), DO(INVERT, 0.1, 5)},
};
static const tl_augment_step reduced_imagenet_rows[][TL_AUGMENT_STEPS] = {
    {DO(POSTERIZE, 0.4, 8), DO(ROTATE, 0.6, 9)}, {DO(SOLARIZE, 0.6, 5), DO(AUTOCONTRAST, 0.6, 5)},
    {DO(EQUALIZE, 0.8, 8), DO(EQUALIZE, 0.6, 3)}, {DO(POSTERIZE, 0.6, 7), DO(POSTERIZE, 0.6, 6)},
    {DO(EQUALIZE, 0.4, 7), DO(SOLARIZE, 0.2, 4)}, {DO(EQUALIZE, 0.4, 4), DO(ROTATE, 0.8, 8)},
    {DO(SOLARIZE, 0.6, 3), DO(EQUALIZE, 0.6, 7)}, {DO(POSTERIZE, 0.8, 5), DO(EQUALIZE, 1, 2)},
    {DO(ROTATE, 0.2, 3), DO(SOLARIZE, 0.6, 8)}, {DO(EQUALIZE, 0.6, 8), DO(POSTERIZE, 0.4, 6)},
    {DO(ROTATE, 0.8, 8), DO(COLOR, 0.4, 0)}, {DO(ROTATE, 0.4, 9), DO(EQUALIZE, 0.6, 2)},
    {DO(EQUALIZE, 0, 7), DO(EQUALIZE, 0.8, 8)}, {DO(INVERT, 0.6, 4), DO(EQUALIZE, 1, 8)},
    {DO(COLOR, 0.6, 4), DO(CONTRAST, 1, 8)}, {DO(ROTATE, 0.8, 8), DO(COLOR, 1, 2)},
    {DO(COLOR, 0.8, 8), DO(SOLARIZE, 0.8, 7)}, {DO(SHARPNESS, 0.4, 7), DO(INVERT, 0.6, 8)},
    {DO(SHEAR_X, 0.6, 5), DO(EQUALIZE, 1, 9)}, {DO(COLOR, 0.4, 0), DO(EQUALIZE, 0.6, 3)},
    {DO(EQUALIZE, 0.4, 7), DO(SOLARIZE, 0.2, 4)}, {DO(SOLARIZE, 0.6, 5), DO(AUTOCONTRAST, 0.6, 5)},
    {DO(INVERT, 0.6, 4), DO(EQUALIZE, 1, 8)}, {DO(COLOR, 0.6, 4), DO(CONTRAST, 1, 8)},
    {DO(EQUALIZE, 0.8, 8), DO(EQUALIZE, 0.6, 3)},
};
static const tl_augment_step panoptic_deeplab_policy_rows[][TL_AUGMENT_STEPS] = {
    {DO(SHARPNESS, 0.4, 1.4), DO(BRIGHTNESS, 0.2, 2)}, {DO(EQUALIZE, 0, 1.8), DO(CONTRAST, 0.2, 2)},
    {DO(SHARPNESS, 0.2, 1.8), DO(COLOR, 0.2, 1.8)},
    {DO(SOLARIZE, 0.2, 1.4), DO(EQUALIZE, 0.6, 1.8)},
    {DO(SHARPNESS, 0.2, 0.2), DO(EQUALIZE, 0.2, 1.4)},
};
static const tl_augment_step vit_rows[][TL_AUGMENT_STEPS] = {
    {DO(SHARPNESS, 0.4, 1.4), DO(BRIGHTNESS, 0.2, 2), DO(CUTOUT, 0.8, 8)},
    {DO(EQUALIZE, 0, 1.8), DO(CONTRAST, 0.2, 2), DO(CUTOUT, 0.8, 8)},
    {DO(SHARPNESS, 0.2, 1.8), DO(COLOR, 0.2, 1.8), DO(CUTOUT, 0.8, 8)},
    {DO(SOLARIZE, 0.2, 1.4), DO(EQUALIZE, 0.6, 1.8), DO(CUTOUT, 0.8, 8)},
    {DO(SHARPNESS, 0.2, 0.2), DO(EQUALIZE, 0.2, 1.4), DO(CUTOUT, 0.8, 8)},
    {DO(SHARPNESS, 0.4, 7), DO(INVERT, 0.6, 8), DO(CUTOUT, 0.8, 8)},
    {DO(INVERT, 0.6, 4), DO(EQUALIZE, 1, 8), DO(CUTOUT, 0.8, 8)},
    {DO(POSTERIZE, 0.6, 7), DO(POSTERIZE, 0.6, 6), DO(CUTOUT, 0.8, 8)},
    {DO(SOLARIZE, 0.6, 5), DO(AUTOCONTRAST, 0.6, 5), DO(CUTOUT, 0.8, 8)},
};
static const tl_augment_step deit3_three_augment_rows[][TL_AUGMENT_STEPS] = {
    {DO(GRAYSCALE, 1, 0)}, {DO(SOLARIZE, 1, 5)}, {DO(GAUSSIAN_NOISE, 1, 1)},
};
static const tl_augment_step detection_v0_rows[][TL_AUGMENT_STEPS] = {
    {DO(TRANSLATE_X, 0.6, 4), DO(EQUALIZE, 0.8, 10)},
    {DO(TRANSLATE_Y_ONLY_BOXES, 0.2, 2), DO(CUTOUT, 0.8, 8)},
    {DO(SHARPNESS, 0, 8), DO(SHEAR_X, 0.4, 0)},
    {DO(SHEAR_Y, 1, 2), DO(TRANSLATE_Y_ONLY_BOXES, 0.6, 6)}, {DO(ROTATE, 0.6, 10), DO(COLOR, 1, 6)},
};
// clang-format on

#define POLICY(label, steps) TL_INIT(#label, label##_rows, TL_COUNT(label##_rows), steps)
static const tl_augment_policy policies[] = {
    POLICY(v0, 2),
    POLICY(test, 2),
    POLICY(simple, 2),
    POLICY(reduced_cifar10, 2),
    POLICY(svhn, 2),
    POLICY(reduced_imagenet, 2),
    POLICY(panoptic_deeplab_policy, 2),
    POLICY(vit, 3),
    POLICY(deit3_three_augment, 1),
};

static const tl_augment_policy detection_v0 = POLICY(detection_v0, 2);

const tl_augment_policy *tl_augment_policy_at(int64_t i)
{
    return i >= 0 && i < TL_COUNT(policies) ? &policies[i] : NULL;
}

const tl_augment_policy *tl_augment_policy_find(const char *name)
{
    for (int64_t i = 0; i < TL_COUNT(policies); i++)
        if (strcmp(policies[i].name, name) == 0) return &policies[i];
    return NULL;
}

/* --- AutoAugment, RandAugment ----------------------------------------------------------------- */

static void follow(work *w, const tl_augment_policy *p)
{
    const tl_augment_step *row = p->rows[tl_rng_below(w->rng, p->row_count)];
    for (int64_t i = 0; i < p->step_count; i++)
        if (tl_rng_uniform_f32(w->rng) < row[i].prob)
            apply(w, row[i].op, row[i].level, row[i].prob);
}

void tl_autoaug_apply_boxes(const tl_autoaug *a, tl_pixels *image, tl_pixels *spare,
                            tl_image_boxes boxes, tl_rng *rng)
{
    work w = begin(image, spare, boxes, a->cutout_const, a->translate_const, rng);
    const tl_augment_policy *p = strcmp(a->augmentation_name, detection_v0.name) == 0
                                     ? &detection_v0
                                     : tl_augment_policy_find(a->augmentation_name);
    TL_ASSERT(p);
    follow(&w, p);
}

void tl_autoaug_apply(const tl_autoaug *a, tl_pixels *image, tl_pixels *spare, tl_rng *rng)
{
    tl_autoaug_apply_boxes(a, image, spare, (tl_image_boxes){0}, rng);
}

void tl_three_augment_apply(tl_pixels *image, tl_pixels *spare, tl_rng *rng)
{
    work w = begin(image, spare, (tl_image_boxes){0}, 100, 20, rng);
    follow(&w, tl_augment_policy_find("deit3_three_augment"));
}

static int64_t choices(tl_augment_op *out, const tl_randaug *a)
{
    int64_t count = 0;
    for (int op = 0; op <= TL_AUGMENT_SOLARIZE_ADD; op++) {
        bool excluded = false;
        for (int64_t i = 0; i < a->exclude_ops.count; i++)
            excluded |= strcmp(a->exclude_ops.items[i], op_names[op]) == 0;
        if (!excluded) out[count++] = (tl_augment_op)op;
    }
    return count;
}

static double level_of(const tl_randaug *a, tl_rng *rng)
{
    if (a->magnitude_std <= 0) return a->magnitude;
    double level = a->magnitude + a->magnitude_std * tl_rng_normal_f32(rng);
    return level < 0 ? 0 : level > 10 ? 10 : level;
}

void tl_randaug_apply_boxes(const tl_randaug *a, tl_pixels *image, tl_pixels *spare,
                            tl_image_boxes boxes, tl_rng *rng)
{
    work w = begin(image, spare, boxes, a->cutout_const, a->translate_const, rng);
    tl_augment_op ops[TL_AUGMENT_COUNT];
    int64_t count = choices(ops, a);
    for (int64_t i = 0; i < a->num_layers; i++) {
        int64_t which = tl_rng_below(rng, count + 1); // the last one leaves the image as it is
        bool wanted = !a->prob_to_apply.set || tl_rng_uniform_f32(rng) < a->prob_to_apply.value;
        double level = level_of(a, rng);
        if (which < count && wanted) apply(&w, ops[which], level, 1);
    }
}

void tl_randaug_apply(const tl_randaug *a, tl_pixels *image, tl_pixels *spare, tl_rng *rng)
{
    tl_randaug_apply_boxes(a, image, spare, (tl_image_boxes){0}, rng);
}

/* --- without policies ------------------------------------------------------------------------- */

void tl_color_jitter_apply(double amount, const tl_pixels *image, tl_rng *rng)
{
    amount = within(amount, 1000);
    double least = amount < 1 ? 1 - amount : 0;
    tl_pixels_brightness(image, image, between(rng, least, 1 + amount));
    tl_pixels_contrast(image, image, between(rng, least, 1 + amount));
    tl_pixels_color(image, image, between(rng, least, 1 + amount));
}

static void add_noise(const tl_pixels *p, tl_window w, const tl_rng *rng)
{
    tl_rng noise;
    tl_rng_split(&noise, rng, "noise");
    for (int64_t y = 0; y < w.height; y++) {
        float *row = (float *)p->data + (w.y + y) * p->stride + w.x * p->channels;
        tl_rng_fill_normal_f32(&noise, y * w.width * p->channels, row, w.width * p->channels);
    }
}

void tl_random_erasing_apply(const tl_random_erasing *e, const tl_pixels *p, tl_rng *rng)
{
    enum { TRIALS = 10 };
    TL_ASSERT(p->dtype == TL_F32);
    if (tl_rng_uniform_f32(rng) >= e->probability) return;
    double area = (double)(p->height * p->width);
    for (int i = 0; i < TRIALS; i++) {
        double part = between(rng, area * e->min_area, area * e->max_area);
        double aspect = exp(between(rng, log(e->min_aspect), -log(e->min_aspect)));
        int64_t half_height = (int64_t)rint(sqrt(part * aspect) / 2);
        int64_t half_width = (int64_t)rint(sqrt(part / aspect) / 2);
        if (2 * half_height >= p->height || 2 * half_width >= p->width) continue;
        // As the original draws it: as if for a corner, but the rectangle lies around it.
        int64_t y = tl_rng_below(rng, p->height - 2 * half_height),
                x = tl_rng_below(rng, p->width - 2 * half_width);
        add_noise(p, tli_window_around(x, y, half_width, half_height, p->width, p->height), rng);
        return;
    }
}
