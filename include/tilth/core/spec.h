/* What a tensor will be: name, type and shape of an input of a model, a graph or a batch.
 *
 *     tl_spec image = {"image", TL_F32, TL_SHAPE(32, 28, 28, 1)};
 *
 * Thread word: immutable. */
#ifndef TILTH_CORE_SPEC_H
#define TILTH_CORE_SPEC_H

#include <tilth/core/dtype.h>
#include <tilth/core/shape.h>

TL_BEGIN

typedef struct tl_spec {
    const char *name; /* borrowed, unless whoever takes the spec says otherwise */
    tl_dtype dtype;
    tl_shape shape;
} tl_spec;

TL_END

#endif
