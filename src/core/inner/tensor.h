/* Tensors from inside. Thread word: one thread at a time. */
#ifndef TLI_CORE_TENSOR_H
#define TLI_CORE_TENSOR_H

#include <tilth/core/tensor.h>

/* Row-major strides and the flag that goes with them. */
void tli_tensor_row_major(tl_tensor *t);
/* Whether the strides that are set leave no gaps. */
bool tli_tensor_is_row_major(const tl_tensor *t);
/* All elements between `t` and a row-major array of its type, in either direction. */
void tli_tensor_gather(const tl_tensor *t, void *to);
void tli_tensor_scatter(const tl_tensor *t, const void *from);

#endif
