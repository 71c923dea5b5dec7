/* Attributes of ops: described structs, read by shape rules, gradients and kernels alike. Their
 * descriptions stand beside the op's class in src/ops.
 *
 * Members are numbers, enums, bools and lists of numbers; lists are borrowed until the call is
 * recorded, which copies them.
 *
 * Thread word: immutable. */
#ifndef TILTH_CORE_ATTRS_H
#define TILTH_CORE_ATTRS_H

#include <tilth/core/dtype.h>
#include <tilth/desc/desc.h>

TL_BEGIN

/* --- elementwise, create ------------------------------------------------------------------------ */
typedef struct tl_cast_attr {
    tl_dtype dtype;
} tl_cast_attr;

typedef struct tl_full_attr {
    double value;
    tl_ints shape;
    tl_dtype dtype;
} tl_full_attr;

/* --- reduce -------------------------------------------------------------------------------------- */
typedef struct tl_reduce_attr {
    tl_ints axes; /* from 0, increasing; never empty unless the input is a scalar */
    bool keep_dims;
} tl_reduce_attr;

/* --- view ---------------------------------------------------------------------------------------- */
typedef struct tl_shape_attr {
    tl_ints shape;
} tl_shape_attr;

typedef struct tl_transpose_attr {
    tl_ints perm;
} tl_transpose_attr;

TL_END

#endif
