/* The loss of semantic segmentation: a class for each pixel. Names and formulas are Model Garden's.
 *
 *     tl_segmentation_loss_config k = {.ignore_label = 255, .use_groundtruth_dimension = true,
 *                                      .top_k_percent_pixels = 1};
 *     tl_tensor *loss = tl_segmentation_loss(c, masks, logits, &k);
 *
 * It is the mean over the pixels that count; a batch without any has loss 0.
 *
 * Precision: bfloat16 and float16 are computed in float32; losses are float32 (float64 for
 * float64). Thread word: one thread at a time. */
#ifndef TILTH_NN_SEGMENTATION_LOSS_H
#define TILTH_NN_SEGMENTATION_LOSS_H

#include <tilth/core/ctx.h>
#include <tilth/desc/desc.h>

TL_BEGIN

typedef struct tl_segmentation_loss_config {
    double label_smoothing;
    int64_t ignore_label;           /* pixels with it do not count: 255 */
    bool gt_is_matting_map;         /* masks are shares of the second of two classes */
    tl_doubles class_weights;       /* none: all 1 */
    bool use_groundtruth_dimension; /* logits are brought to the size of masks, else the reverse */
    bool use_binary_cross_entropy;  /* each class a question of its own */
    double top_k_percent_pixels;    /* 1; below it: the largest losses alone, so many of all */
} tl_segmentation_loss_config;

/* Masks [batch, height, width, 1], of integers or floats; logits [batch, rows, columns, classes].
 * A class that is not there, and not ignored, is an error that names it and its place. */
TL_API tl_tensor *tl_segmentation_loss(tl_ctx *c, tl_tensor *masks, tl_tensor *logits,
                                       const tl_segmentation_loss_config *how);

TL_END

#endif
