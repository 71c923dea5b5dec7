/* Named tensors: what goes into a model and what comes out of it, when it is more than one.
 *
 *     tl_tensors in = {0};
 *     tl_tensors_put(c, &in, "ids", ids);
 *     tl_tensors_put(c, &in, "mask", mask);
 *     tl_tensor *ids = tl_tensors_get(c, &in, "ids");      // missing: the context fails, naming it
 *
 * Ownership: the list lies in the context's arena and goes with its scope. Thread word: one thread
 * at a time. */
#ifndef TILTH_CORE_TENSORS_H
#define TILTH_CORE_TENSORS_H

#include <tilth/core/ctx.h>

TL_BEGIN

typedef struct tl_named {
    const char *name; /* borrowed */
    tl_tensor *tensor;
} tl_named;
struct tl_tensors {
    tl_named *items;
    int64_t count, capacity;
};

/* Adds, or replaces what has that name. */
TL_API void tl_tensors_put(tl_ctx *c, tl_tensors *list, const char *name, tl_tensor *t);
/* A name that is not there fails the context with a list of those that are. */
TL_API tl_tensor *tl_tensors_get(tl_ctx *c, const tl_tensors *list, const char *name);
/* NULL when it is not there. */
TL_API tl_tensor *tl_tensors_peek(const tl_tensors *list, const char *name);

TL_END

#endif
