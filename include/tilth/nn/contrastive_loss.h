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
 * Several processes share what they compare with: `gather` is given the rows of this one, of unit
 * length where they are normalised, and gives those of all, in the order of their ranks; `rank`
 * says which are its own. All have the same number of rows. Gradients flow through it, so that
 * views of one process teach the others:
 *
 *     tl_tensor *my_gather(void *self, tl_ctx *c, tl_tensor *rows); // [n, d] to [ranks n, d]
 *     tl_contrast found;
 *     tl_contrastive_loss(&found, c, first, second,
 *                         &(tl_contrastive_args){.temperature = 0.1, .gather = my_gather,
 *                                                .self = group, .rank = rank});
 *
 * The mean over all processes of the means of their losses is then the loss of one process that has
 * all rows.
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
    tl_tensor *(*gather)(void *self, tl_ctx *c, tl_tensor *rows); /* NULL: this process is alone */
    void *self;
    int64_t rank; /* of this process, from 0 */
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
