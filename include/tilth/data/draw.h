/* Pictures of what is in images: boxes with labels, masks, and classes of pixels.
 *
 *     tl_pixels picture = tl_pixels_of(&decoded);                      // RGB, changed in place
 *     tl_draw_mask(&picture, mask, tl_draw_color(17), TL_DRAW_ALPHA);
 *     tl_draw_box(&picture, (double[]){20, 10, 90, 110}, tl_draw_color(17), "dog: 87%");
 *
 * Of a batch, as a step of evaluation has it, for TensorBoard:
 *
 *     tl_draw_batch_args args = {.mean = mean, .deviation = deviation};
 *     TL_TRY(tl_draw_detections(&pictures, images, boxes, classes, scores, &args));
 *     TL_TRY_DONE(st, tl_draw_log(logs, "image/validation_outputs", pictures));
 *
 * Text is drawn in a small font of our own, which has the characters of ASCII; others are a small
 * box. What lies outside of the picture is not drawn.
 *
 * Ownership: the caller's. Thread word: free-threaded; a picture one thread at a time. */
#ifndef TILTH_DATA_DRAW_H
#define TILTH_DATA_DRAW_H

#include <tilth/core/logs.h>
#include <tilth/data/image.h>
#include <tilth/desc/desc.h>

TL_BEGIN

typedef struct tl_color {
    uint8_t red, green, blue;
} tl_color;

/* How much of a pixel's colour is that of the mask, or class, upon it. */
#define TL_DRAW_ALPHA 0.4

/* The colour of a class: the first few dozen are told apart easily. Class 0 is grey. */
TL_API tl_color tl_draw_color(int64_t class_number);

/* --- one picture: RGB, of bytes --------------------------------------------------------------- */

/* A frame, 4 pixels wide, on the edges ymin, xmin, ymax, xmax (in pixels), with a label on its
 * upper side. `text` may be NULL. */
TL_API void tl_draw_box(const tl_pixels *picture, const double box[4], tl_color color,
                        const char *text);
/* Text whose upper left corner is at `y`, `x`; `scale` is how many pixels a dot of the font has in
 * each direction. */
TL_API void tl_draw_text(const tl_pixels *picture, int64_t y, int64_t x, const char *text,
                         tl_color color, int64_t scale);
/* The pixels it takes. */
TL_API void tl_draw_text_size(int64_t *height, int64_t *width, const char *text, int64_t scale);
/* `mask` has a byte for each pixel, row by row; the colour is put where it is not 0. */
TL_API void tl_draw_mask(const tl_pixels *picture, const uint8_t *mask, tl_color color,
                         double alpha);
/* `classes` has a class for each pixel, row by row; pixels of the class `ignored` stay as they are.
 */
TL_API void tl_draw_classes(const tl_pixels *picture, const uint8_t *classes, int64_t ignored,
                            double alpha);

/* --- batches ---------------------------------------------------------------------------------- */

/* Zero is the default of everything. */
typedef struct tl_draw_batch_args {
    /* (optional: those of ImageNet, from 0 to 255) What images were normalised with: 3 numbers
     * each. Images of bytes are not normalised. */
    const float *mean, *deviation;
    tl_opt_double score; /* (optional: 0.2) boxes of more are drawn */
    int64_t boxes;       /* (optional: 20) places of an image that are looked at */
    tl_strings names;    /* (optional: numbers) of classes, by their numbers */
    int64_t pictures;    /* (optional: all) of the batch */
} tl_draw_batch_args;

/* Pictures [B, H, W, 3] of bytes, at the host, of images [B, H, W, 1 or 3]: boxes [B, K, 4] are
 * ymin, xmin, ymax, xmax in pixels of them; classes and scores are [B, K]. Labels are "dog: 87%".
 * The caller frees the pictures. */
TL_API TL_NODISCARD tl_status tl_draw_detections(tl_tensor **out, const tl_tensor *images,
                                                 const tl_tensor *boxes, const tl_tensor *classes,
                                                 const tl_tensor *scores,
                                                 const tl_draw_batch_args *args);
/* The same of logits [B, h, w, C]: each pixel gets the colour of its likeliest class, as the
 * nearest place of the logits has it. */
TL_API TL_NODISCARD tl_status tl_draw_segmentation(tl_tensor **out, const tl_tensor *images,
                                                   const tl_tensor *logits,
                                                   const tl_draw_batch_args *args);
/* Puts each picture into the logs: "NAME/0", "NAME/1", ... The summary manager `images` writes
 * those whose names begin with "image/". */
TL_API TL_NODISCARD tl_status tl_draw_log(tl_logs *logs, const char *name,
                                          const tl_tensor *pictures);

TL_END

#endif
