/* Reference kernels: what each op means, in plain loops. They are the oracle of the tests and what
 * runs where nothing faster does. Floats are computed in double and rounded once, integers in
 * int64.
 *
 * Thread word: free-threaded. */
#ifndef TLI_CPU_REF_H
#define TLI_CPU_REF_H

#include <tilth/core/attrs.h>
#include <tilth/sys/core/backend.h>

#include "cpu/inner/random.h"
#include "core/inner/element.h"
#include "core/inner/storage.h"

/* One table of kernels for each family of ops: tli_ref_elementwise and so on. */
// clang-format off
#define TLI_REF_FAMILIES(X)                                                                        \
    X(elementwise) X(create) X(random) X(reduce) X(sort) X(view) X(pack) X(index)         \
    X(matmul) X(conv) X(pool) X(resize) X(norm) X(softmax) X(loss) X(attention) X(dropout)         \
    X(update) X(update_keras) X(boxes) X(crop) X(comm)
// clang-format on
#define TLI_REF_EXTERN(family) extern const tl_kernels tli_ref_##family;
TLI_REF_FAMILIES(TLI_REF_EXTERN)
#undef TLI_REF_EXTERN

/* Element `index` (row-major over `shape`, to which t broadcasts) of a tensor, as an offset from
 * its first element. */
static inline int64_t tli_ref_offset(const tl_tensor *t, const tl_shape *shape, int64_t index)
{
    int64_t at = 0;
    for (int d = shape->rank - 1, own = t->shape.rank - 1; d >= 0; d--, own--) {
        int64_t i = index % shape->dims[d];
        index /= shape->dims[d];
        // It broadcasts.
        TL_ASSERT(own < 0 || t->shape.dims[own] == 1 || t->shape.dims[own] == shape->dims[d]);
        if (own >= 0 && t->shape.dims[own] != 1) at += i * t->strides[own];
    }
    TL_ASSERT(index == 0);
    return at;
}

/* Whether element `at`, counted from the first one, lies in the tensor's memory. */
static inline bool tli_ref_has(const tl_tensor *t, int64_t at)
{
    const int64_t size = (int64_t)tl_dtype_size(t->dtype), from = (t->offset + at) * size;
    return from >= 0 && from + size <= (int64_t)t->storage->bytes;
}

static inline double tli_ref_get(const tl_tensor *t, int64_t at)
{
    TL_ASSERT(tli_ref_has(t, at));
    return tli_element_get(t->dtype, tli_data(t), at);
}

static inline void tli_ref_set(const tl_tensor *t, int64_t at, double value)
{
    TL_ASSERT(tli_ref_has(t, at));
    tli_element_set(t->dtype, tli_data(t), at, value);
}

/* Integers and bool, exactly: a double would lose the last digits of int64. Stores wrap to the
 * type's width. */
static inline int64_t tli_ref_get_int(const tl_tensor *t, int64_t at)
{
    TL_ASSERT(tli_ref_has(t, at));
    if (t->dtype == TL_I64) return ((const int64_t *)tli_data(t))[at];
    return (int64_t)tli_ref_get(t, at);
}

static inline void tli_ref_set_int(const tl_tensor *t, int64_t at, int64_t value)
{
    TL_ASSERT(tli_ref_has(t, at) && !tl_dtype_is_float(t->dtype));
    void *data = tli_data(t);
    switch (tl_dtype_size(t->dtype)) {
    case 8: ((int64_t *)data)[at] = value; break;
    case 4: ((int32_t *)data)[at] = (int32_t)value; break;
    case 2: ((int16_t *)data)[at] = (int16_t)value; break;
    default: ((uint8_t *)data)[at] = t->dtype == TL_BOOL ? value != 0 : (uint8_t)value; break;
    }
}

/* All of them, then NULL. */
extern const tl_kernels *const tli_reference_tables[];

#endif
