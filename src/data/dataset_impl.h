/* Private to data: datasets around datasets.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_DATA_DATASET_IMPL_H
#define TLI_DATA_DATASET_IMPL_H

#include <tilth/data/dataset.h>

/* tl_dataset_next without the way to the device: tensors may lie at the host, where they were
 * made. */
TL_NODISCARD tl_status tli_dataset_make(tl_dataset *d, tl_ctx *c, tl_tensors *out, bool *more);

/* A header of the context over a tensor that the dataset keeps. NULL: the context failed. */
tl_tensor *tli_dataset_show(tl_ctx *c, const tl_tensor *t);

#endif
