/* What the files of the convolutions' kernels know of each other. */
#ifndef TLI_CPU_SIMD_CONV_PARTS_H
#define TLI_CPU_SIMD_CONV_PARTS_H

#include "cpu/conv.h"

extern const tli_conv_method TLI_ISA_NAME(tli_conv_band), TLI_ISA_NAME(tli_conv_each);
extern const tli_conv_method TLI_ISA_NAME(tli_conv_winograd);
extern tli_conv_fn TLI_ISA_NAME(tli_conv_winograd_filter);

#endif
