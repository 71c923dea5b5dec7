/* Reference kernels: what each op means, in plain loops. They are the oracle of the tests and what runs
 * where nothing faster does. Floats are computed in double and rounded once, integers in int64.
 *
 * Thread word: free-threaded. */
#ifndef TLI_CPU_REF_H
#define TLI_CPU_REF_H

#include <tilth/core/attrs.h>
#include <tilth/core/backend.h>

#include "core/element.h"

/* One table of kernels for each family of ops: tli_ref_elementwise and so on. */
#define TLI_REF_FAMILIES(X) X(elementwise) X(create) X(reduce) X(view)
#define TLI_REF_EXTERN(family) extern const tl_kernels tli_ref_##family;
TLI_REF_FAMILIES(TLI_REF_EXTERN)
#undef TLI_REF_EXTERN

/* Element `index` (row-major over `shape`, to which t broadcasts) of a tensor, as an offset from its first
 * element. */
static inline int64_t tli_ref_offset(const tl_tensor *t, const tl_shape *shape, int64_t index)
{
    int64_t at = 0;
    for (int d = shape->rank - 1, own = t->shape.rank - 1; d >= 0; d--, own--) {
        int64_t i = index % shape->dims[d];
        index /= shape->dims[d];
        if (own >= 0 && t->shape.dims[own] != 1) at += i * t->strides[own];
    }
    return at;
}

static inline double tli_ref_get(const tl_tensor *t, int64_t at)
{
    return tli_element_get(t->dtype, tl_kernel_data(t), at);
}

static inline void tli_ref_set(const tl_tensor *t, int64_t at, double value)
{
    tli_element_set(t->dtype, tl_kernel_data(t), at, value);
}

#endif
