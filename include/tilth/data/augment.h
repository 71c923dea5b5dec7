/* Random changes of images for training: single operations, policies of them, mixtures of images.
 *
 *     tl_pixels image = tl_pixels_new(TL_U8, 224, 224, 3, bytes);
 *     tl_pixels spare = tl_pixels_new(TL_U8, 224, 224, 3, others);
 *     tl_autoaug policy = {.augmentation_name = "v0", .cutout_const = 100, .translate_const = 250};
 *     tl_autoaug_apply(&policy, &image, &spare, &rng);           // the two may have changed places
 *     tl_pixels_solarize(&image, &image, 128);
 *
 * Every operation computes what Model Garden's official/vision/ops/augment.py does, byte by byte:
 * where it leaves a fraction behind it is cut off and not rounded, what lies outside of a moved
 * image is its reflection.
 *
 * Images are bytes of 1 or 3 channels; of a single channel, colour and grey are the image itself.
 * All draws come from the stream that is given: equal streams give equal images.
 *
 * Ownership: pixels point to somebody's memory; configurations to that of their arena. Thread word:
 * free-threaded. */
#ifndef TILTH_DATA_AUGMENT_H
#define TILTH_DATA_AUGMENT_H

#include <tilth/data/image.h>
#include <tilth/data/pipeline.h>
#include <tilth/desc/desc.h>

TL_BEGIN

/* --- one operation ---------------------------------------------------------------------------- */

/* Floats become bytes of the same size: within 0 and 255, fractions cut off. tl_pixels_copy
 * rounds. */
TL_API void tl_pixels_cut(const tl_pixels *out, const tl_pixels *in);

/* `out` and `in` have the same size and channels, and may be the same. */

/* Each channel by itself: its least value becomes 0 and its greatest 255; values become about
 * equally frequent. */
TL_API void tl_pixels_autocontrast(const tl_pixels *out, const tl_pixels *in);
TL_API void tl_pixels_equalize(const tl_pixels *out, const tl_pixels *in);
TL_API void tl_pixels_invert(const tl_pixels *out, const tl_pixels *in);
/* Keeps the upper `bits` of each value, 0 to 8. Zero bits keep one, as TensorFlow's shifts do. */
TL_API void tl_pixels_posterize(const tl_pixels *out, const tl_pixels *in, int bits);
/* Inverts values from `threshold` on. The threshold is a byte: 256 is 0, and inverts all. */
TL_API void tl_pixels_solarize(const tl_pixels *out, const tl_pixels *in, int threshold);
/* Adds to values below `threshold`. */
TL_API void tl_pixels_solarize_add(const tl_pixels *out, const tl_pixels *in, int addition,
                                   int threshold);
TL_API void tl_pixels_grayscale(const tl_pixels *out, const tl_pixels *in);
/* `factor` 1 is the image itself; 0 is grey, the mean of the channel, or black. More than 1
 * exaggerates. */
TL_API void tl_pixels_color(const tl_pixels *out, const tl_pixels *in, double factor);
TL_API void tl_pixels_contrast(const tl_pixels *out, const tl_pixels *in, double factor);
TL_API void tl_pixels_brightness(const tl_pixels *out, const tl_pixels *in, double factor);
/* `value` in a window, which is cut to the image. In place. */
TL_API void tl_pixels_fill(const tl_pixels *p, tl_window window, uint8_t value);

/* What follows needs two images that do not overlap. */

/* `factor` 0 is smooth, 1 the image itself. */
TL_API void tl_pixels_sharpness(const tl_pixels *out, const tl_pixels *in, double factor);
/* 3 x 3 weights of a normal distribution. */
TL_API void tl_pixels_blur(const tl_pixels *out, const tl_pixels *in, double sigma);
/* out(x, y) = in(m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]), the nearest pixel. */
TL_API void tl_pixels_transform(const tl_pixels *out, const tl_pixels *in, const float m[6]);
/* Clockwise around the middle. */
TL_API void tl_pixels_rotate(const tl_pixels *out, const tl_pixels *in, double degrees);

/* --- operations with a level ------------------------------------------------------------------ */

typedef enum tl_augment_op {
    TL_AUGMENT_AUTOCONTRAST,
    TL_AUGMENT_EQUALIZE,
    TL_AUGMENT_INVERT,
    TL_AUGMENT_ROTATE,
    TL_AUGMENT_POSTERIZE,
    TL_AUGMENT_SOLARIZE,
    TL_AUGMENT_COLOR,
    TL_AUGMENT_CONTRAST,
    TL_AUGMENT_BRIGHTNESS,
    TL_AUGMENT_SHARPNESS,
    TL_AUGMENT_SHEAR_X,
    TL_AUGMENT_SHEAR_Y,
    TL_AUGMENT_TRANSLATE_X,
    TL_AUGMENT_TRANSLATE_Y,
    TL_AUGMENT_CUTOUT,
    TL_AUGMENT_SOLARIZE_ADD, /* RandAugment draws among those up to here */
    TL_AUGMENT_GRAYSCALE,
    TL_AUGMENT_GAUSSIAN_NOISE, /* which is a blur */
    /* each box by itself is moved within its bounds, with a third of the probability; without boxes
     * nothing happens */
    TL_AUGMENT_TRANSLATE_Y_ONLY_BOXES,
    TL_AUGMENT_COUNT
} tl_augment_op;

/* "AutoContrast" and so on. */
TL_API const char *tl_augment_op_name(tl_augment_op op);
TL_API bool tl_augment_op_find(tl_augment_op *out, const char *name);

/* What level 10 of cutouts and of translations is, in pixels. */
typedef struct tl_augment_reach {
    double cutout, translate;
} tl_augment_reach;
/* `level` from 0 to 10 becomes the operation's own argument; its sign, where it has one, is drawn,
 * and so is the place of a cutout. What comes out lies in `image`, which may have changed places
 * with `spare`: another one of the same size. */
TL_API void tl_augment_apply(tl_augment_op op, double level, tl_augment_reach reach,
                             tl_pixels *image, tl_pixels *spare, tl_rng *rng);

/* --- boxes that move with their image --------------------------------------------------------- */

/* Around objects in an image: ymin, xmin, ymax, xmax as shares of its height and width. What moves
 * them computes as Model Garden does, in whole pixels, and cuts them to the image; a box that has
 * left it has no height or no width then, where Model Garden leaves a strip at the edge. */
typedef struct tl_image_boxes {
    float (*items)[4];
    int64_t count;
} tl_image_boxes;
/* As tl_pixels_rotate turns, and tl_pixels_transform moves, an image of this size. */
TL_API void tl_image_boxes_rotate(tl_image_boxes boxes, int64_t height, int64_t width,
                                  double degrees);
TL_API void tl_image_boxes_shear(tl_image_boxes boxes, int64_t height, int64_t width, double level,
                                 bool horizontal);
TL_API void tl_image_boxes_translate(tl_image_boxes boxes, int64_t height, int64_t width,
                                     double pixels, bool horizontal);
/* To shares of a part of the image. Those of which less than `least` lies in it become zeros. */
TL_API void tl_image_boxes_crop(tl_image_boxes boxes, int64_t height, int64_t width,
                                tl_window window, double least);

/* tl_augment_apply, and what follows below, for an image with such boxes. */
TL_API void tl_augment_apply_boxes(tl_augment_op op, double level, tl_augment_reach reach,
                                   tl_pixels *image, tl_pixels *spare, tl_image_boxes boxes,
                                   tl_rng *rng);

/* --- policies --------------------------------------------------------------------------------- */

enum { TL_AUGMENT_STEPS = 3 };
typedef struct tl_augment_step {
    tl_augment_op op;
    double prob, level;
} tl_augment_step;
/* One of several rows of steps is drawn, and each of its steps is taken with its probability. */
typedef struct tl_augment_policy {
    const char *name;
    const tl_augment_step (*rows)[TL_AUGMENT_STEPS];
    int64_t row_count;
    int64_t step_count; /* of each row */
} tl_augment_policy;
/* NULL: there is none of that name, or it is for images with boxes alone. */
TL_API const tl_augment_policy *tl_augment_policy_find(const char *name);
/* All of them, in the order of their table; NULL behind the last one. */
TL_API const tl_augment_policy *tl_augment_policy_at(int64_t i);

/* Configurations with Model Garden's names and defaults: aug_type's branches autoaug and
 * randaug. */
typedef struct tl_autoaug {
    const char *augmentation_name;        /* v0: of a policy */
    double cutout_const, translate_const; /* 100, 250 */
} tl_autoaug;
typedef struct tl_randaug {
    /* 2: so many operations, one after the other; each, and none, is equally likely */
    int64_t num_layers;
    double magnitude;                     /* 10: their level */
    double cutout_const, translate_const; /* 40, 10 */
    double magnitude_std;        /* 0: deviation of the level, which stays within 0 and 10 */
    tl_opt_double prob_to_apply; /* null, always: of each layer */
    tl_strings exclude_ops;
} tl_randaug;
extern TL_API const tl_desc tl_autoaug_desc, tl_randaug_desc;
/* tl_autoaug_desc for images with boxes, which know the policy detection_v0 too. */
extern TL_API const tl_desc tl_autoaug_boxes_desc;

/* `image` and `spare` as for tl_augment_apply. */
TL_API void tl_autoaug_apply(const tl_autoaug *a, tl_pixels *image, tl_pixels *spare, tl_rng *rng);
TL_API void tl_randaug_apply(const tl_randaug *a, tl_pixels *image, tl_pixels *spare, tl_rng *rng);
TL_API void tl_autoaug_apply_boxes(const tl_autoaug *a, tl_pixels *image, tl_pixels *spare,
                                   tl_image_boxes boxes, tl_rng *rng);
TL_API void tl_randaug_apply_boxes(const tl_randaug *a, tl_pixels *image, tl_pixels *spare,
                                   tl_image_boxes boxes, tl_rng *rng);
/* Grey, solarized or blurred: one of the three. */
TL_API void tl_three_augment_apply(tl_pixels *image, tl_pixels *spare, tl_rng *rng);

/* Brightness, contrast and colour by factors between 1 - amount (but not below 0) and 1 + amount.
 * In place. */
TL_API void tl_color_jitter_apply(double amount, const tl_pixels *image, tl_rng *rng);

/* With `probability` a rectangle of random area and aspect is covered with noise of mean 0 and
 * deviation 1. For images of floats that have been normalised. */
typedef struct tl_random_erasing {
    double probability;        /* 0.25 */
    double min_area, max_area; /* 0.02, 1/3 of the image */
    double min_aspect;         /* 0.3; the greatest is 1 / min_aspect */
} tl_random_erasing;
extern TL_API const tl_desc tl_random_erasing_desc;
TL_API void tl_random_erasing_apply(const tl_random_erasing *e, const tl_pixels *image,
                                    tl_rng *rng);

/* --- mixtures --------------------------------------------------------------------------------- */

/* Image i of a batch of n is mixed with image n - 1 - i, and so are their labels: mixup adds the
 * two, cutmix puts a part of one into the other. */
typedef struct tl_mixup_and_cutmix {
    /* 0.8, 1: shares are of beta(alpha, alpha); 0: that one is not done */
    double mixup_alpha, cutmix_alpha;
    double prob;            /* 1: that the batch is mixed */
    double switch_prob;     /* 0.5: that cutmix is done, and not mixup */
    double label_smoothing; /* 0.1: also of labels that are not mixed */
} tl_mixup_and_cutmix;
extern TL_API const tl_desc tl_mixup_and_cutmix_desc;

typedef enum tl_mixture_kind {
    TL_MIXTURE_NONE,
    TL_MIXTURE_MIXUP,
    TL_MIXTURE_CUTMIX
} tl_mixture_kind;
typedef struct tl_mixture {
    float share;      /* of the image itself, in the label */
    tl_window window; /* cutmix: what comes from the other one */
} tl_mixture;
/* What happens to a batch of `count` images: one mixture for each. */
TL_API tl_mixture_kind tl_mixtures_draw(tl_mixture *out, int64_t count,
                                        const tl_mixup_and_cutmix *m, int64_t height, int64_t width,
                                        tl_rng *rng);
/* Images i and count - 1 - i, of `height * width * channels` floats each; `out` and `in` do not
 * overlap. */
TL_API void tl_mixtures_images(float *out, const float *in, int64_t i, int64_t count,
                               tl_mixture_kind kind, const tl_mixture *mixtures, int64_t height,
                               int64_t width, int64_t channels);
/* [count, num_classes] of class numbers. */
TL_API void tl_mixtures_labels(float *out, const int32_t *labels, int64_t count,
                               tl_mixture_kind kind, const tl_mixture *mixtures,
                               double label_smoothing, int64_t num_classes);

/* Both for a batch of a pipeline: tl_mixing_batch is a tl_batch_fn whose `self` is a tl_mixing.
 * Images are float32 [batch, height, width, channels]; labels, int32 [batch], become float32
 * [batch, num_classes]. */
typedef struct tl_mixing {
    const tl_mixup_and_cutmix *config;
    const char *image, *label;
    int64_t num_classes;
} tl_mixing;
TL_API TL_NODISCARD tl_status tl_mixing_batch(void *self, tl_ctx *c, const tl_rng *draws,
                                              tl_tensors *batch);

TL_END

#endif
