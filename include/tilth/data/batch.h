/* Batches: what a step works on. Named tensors whose first axis is the examples.
 *
 *     tl_tensor *x = tl_batch_get(b, "image"), *y = tl_batch_get(b, "label");
 *     tl_tensor *w = tl_batch_weight(b);                       // NULL: every example weighs 1
 *
 * Ownership: tensors belong to the context. Thread word: one thread at a time. */
#ifndef TILTH_DATA_BATCH_H
#define TILTH_DATA_BATCH_H

#include <tilth/core/tensors.h>

TL_BEGIN

typedef struct tl_batch {
    tl_ctx *ctx;
    tl_tensors tensors;
} tl_batch;

/* The field that holds how much each example counts. */
#define TL_BATCH_WEIGHT "weight"
/* The field that says where each example came from, for people: texts, uint8 [batch, length], zeros
 * behind them. No model is given it. */
#define TL_BATCH_NAME "example_name"

/* What its fields are for; a task says so (tl_task_class.split_batch). */
typedef struct tl_batch_parts {
    tl_tensors features; /* go to the model */
    tl_tensors labels;   /* what its answers are compared with */
    tl_tensor *weight;   /* how much each example counts; NULL: all alike */
} tl_batch_parts;

/* A name that is not there fails the context with a list of those that are. */
TL_API tl_tensor *tl_batch_get(const tl_batch *b, const char *name);
/* NULL when it is not there. */
TL_API tl_tensor *tl_batch_peek(const tl_batch *b, const char *name);
/* The field "weight", or NULL. */
TL_API tl_tensor *tl_batch_weight(const tl_batch *b);
/* Examples: the first dimension of the first field; 0 of an empty batch. */
TL_API int64_t tl_batch_size(const tl_batch *b);

TL_END

#endif
