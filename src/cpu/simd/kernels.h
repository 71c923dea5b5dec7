/* Vector kernels: one table for each family of ops and each instruction set,
 * tli_simd_elementwise_neon and so on.
 *
 * Thread word: free-threaded. */
#ifndef TLI_CPU_SIMD_KERNELS_H
#define TLI_CPU_SIMD_KERNELS_H

#include <tilth/core/attrs.h>
#include <tilth/sys/core/backend.h>

#include "base/inner/isa.h"
#include "core/inner/storage.h"

// clang-format off
#define TLI_SIMD_FAMILIES(X, isa)                                                                  \
    X(elementwise, isa) X(matmul, isa) X(conv, isa) X(update, isa) X(attention, isa) X(norm, isa)  \
    X(batch_norm, isa) X(softmax, isa) X(loss, isa) X(dropout, isa) X(pool, isa) X(copy, isa)      \
    X(reduce, isa) X(cast, isa) X(scan, isa) X(index, isa) X(numbers, isa) X(random, isa)          \
    X(sort, isa) X(boxes, isa) X(crop, isa) X(resize, isa) X(update_keras, isa)
// clang-format on

#define TLI_SIMD_EXTERN(family, isa) extern const tl_kernels tli_simd_##family##_##isa;
#define TLI_SIMD_EXTERNS(isa) TLI_SIMD_FAMILIES(TLI_SIMD_EXTERN, isa)
TLI_ISA_LIST(TLI_SIMD_EXTERNS)
#undef TLI_SIMD_EXTERNS
#undef TLI_SIMD_EXTERN

/* tl_backend_class.pack of each instruction set. */
#define TLI_PACK_EXTERN(isa)                                                                       \
    tl_status tli_pack_weight_##isa(const tl_run *run, const tl_node *call, const tl_tensor *to,   \
                                    size_t *bytes);
TLI_ISA_LIST(TLI_PACK_EXTERN)
#undef TLI_PACK_EXTERN

/* Hands a rare case to the reference kernel. Its inputs must have the strides that one takes. */
TL_NODISCARD tl_status tli_run_reference(const tl_run *run, const tl_node *call);

/* TLI_SIMD_KERNELS(elementwise, rows): what a family's file ends with. */
#define TLI_SIMD_KERNELS(family, rows)                                                             \
    const tl_kernels TLI_ISA_NAME(tli_simd_##family) = {rows, TL_COUNT(rows)}

#endif
