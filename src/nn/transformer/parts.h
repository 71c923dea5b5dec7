/* What layers of transformers share. Thread word: one thread at a time. */
#ifndef TLI_NN_TRANSFORMER_PARTS_H
#define TLI_NN_TRANSFORMER_PARTS_H

#include <tilth/nn/transformer.h>

#include "nn/fields.h"

/* What is added to scores [batch, heads, T, S]: 0 where the mask is 1, -1e9 where it is 0. NULL for
 * no mask. */
tl_tensor *tli_mask_bias(tl_ctx *c, tl_tensor *mask, tl_dtype dtype);

/* The fields that dense layers, and what is made of them, have. */
#define TLI_KERNEL_ROWS(T)                                                                         \
    TLI_INITIALIZER_ROW(T, kernel_initializer, "glorot_uniform when null"),                        \
        TLI_INITIALIZER_ROW(T, bias_initializer, "zeros when null")
#define TLI_REGULARIZER_ROWS(T)                                                                    \
    TLI_REGULARIZER_ROW(T, kernel_regularizer, "none when null"),                                  \
        TLI_REGULARIZER_ROW(T, bias_regularizer, "none when null")
#define TLI_RATE_ROW(T, member, help_) TL_F(T, member, TL_FILLED, TL_RANGE(0, 1), .help = help_)

#endif
