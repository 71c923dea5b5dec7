/* The loss of contrastive learning (NT-Xent, SimCLR): of all views of a batch, which one shows the
 * same image? Formulas are those of Model Garden's official/projects/simclr.
 *
 *     tl_contrast found;
 *     tl_contrastive_loss(&found, c, first, second, &(tl_contrastive_args){.temperature = 0.1});
 *     tl_tensor *loss = tl_mean(c, found.losses, TL_ALL, false);
 *
 * Row i of `first` and of `second` are two views of image i. Each of the 2 n views is compared with
 * the other 2 n - 1; the one of its own image is the right answer of a softmax over dot products
 * divided by the temperature.
 *
 * Lanes share what they compare with (ops/comm.h): rows of unit length, where they are normalised,
 * are gathered from all of them, which have as many each. Gradients flow back, so that views of one
 * lane teach the others, and the mean over all lanes of the means of their losses is the loss of
 * one that has all rows.
 *
 * Precision: bfloat16 and float16 are computed in float32; losses are float32 (float64 for
 * float64). Thread word: one thread at a time for a context. */
#ifndef TILTH_NN_CONTRASTIVE_LOSS_H
#define TILTH_NN_CONTRASTIVE_LOSS_H

#include <tilth/core/ctx.h>

TL_BEGIN

typedef struct tl_contrastive_args {
    double temperature; /* required: above 0 */
    bool without_norm;  /* rows are taken as they are, and not brought to unit length */
} tl_contrastive_args;

typedef struct tl_contrast {
    tl_tensor *losses; /* [n]: for each image the sum over its two views */
    /* [n, all]: the first views with the second views of all images, divided by the temperature */
    tl_tensor *logits;
    tl_tensor *labels; /* int32 [n]: which of them is the second view of the same image */
} tl_contrast;
/* All members are NULL when the context failed. */
TL_API void tl_contrastive_loss(tl_contrast *out, tl_ctx *c, tl_tensor *first, tl_tensor *second,
                                const tl_contrastive_args *args);

/* What people look at, one value for each image: 1 where the largest of the logits is that of the
 * same image, and the entropy of their softmax. */
TL_API tl_tensor *tl_contrast_accuracy(tl_ctx *c, const tl_contrast *k);
TL_API tl_tensor *tl_contrast_entropy(tl_ctx *c, const tl_contrast *k);

TL_END

#endif
