/* Losses by cross-entropy, one value an example: they are weighted and averaged by who trains.
 *
 *     loss = tl_sparse_cross_entropy(c, labels, logits);                    // labels: class
 * numbers loss = tl_sparse_cross_entropy(c, labels, logits, .smoothing = 0.1, .ignored = {true,
 * -1});
 *
 * The classes lie along the last axis of the logits; the result has the other axes. Logits are what
 * a model puts out before any softmax or sigmoid.
 *
 * Precision: computed in float32 (float64 for float64). Losses are float32 (float64), also those of
 * bfloat16 and float16 logits.
 * Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_LOSS_H
#define TILTH_OPS_LOSS_H

#include <tilth/core/attrs.h>
#include <tilth/core/ctx.h>

TL_BEGIN

/* -log of the share that a softmax gives to the label. labels: integers of the shape of the result;
 * one that is not a class, and not ignored, is an error that names it and its place. */
typedef struct tl_sparse_cross_entropy_args {
    tl_tensor *logits;
    double smoothing;   /* this share of each target is spread evenly over all classes, in [0, 1] */
    tl_opt_int ignored; /* examples with this label have loss 0 and no gradient: {true, -1} */
} tl_sparse_cross_entropy_args;
TL_API tl_tensor *tl_sparse_cross_entropy_with(tl_ctx *c, tl_tensor *labels,
                                               const tl_sparse_cross_entropy_args *args);
/* tl_sparse_cross_entropy(c, labels, logits, ...), then what differs from the default. */
#define tl_sparse_cross_entropy(c, labels, ...)                                                    \
    tl_sparse_cross_entropy_with((c), (labels),                                                    \
                                 TL_LITERAL(tl_sparse_cross_entropy_args, .logits = __VA_ARGS__))

/* The same for targets that are shares of all classes, of the shape of the logits; they need not
 * add up to 1. Gradients flow to them too. */
TL_API tl_tensor *tl_cross_entropy(tl_ctx *c, tl_tensor *targets, tl_tensor *logits,
                                   double smoothing);

/* Each element a question of its own, with a target from 0 (no) to 1 (yes):
 * -target * log(sigmoid(x)) - (1 - target) * log(1 - sigmoid(x)), without overflow. One shape for
 * all. */
TL_API tl_tensor *tl_sigmoid_cross_entropy(tl_ctx *c, tl_tensor *targets, tl_tensor *logits);

TL_END

#endif
