/* What the files of products share. Thread word: one thread at a time for a context. */
#ifndef TLI_OPS_MATMUL_H
#define TLI_OPS_MATMUL_H

#include <tilth/ops/matmul.h>

/* All rows under each other: [..., n] as [rows, n]. NULL gives NULL. */
tl_tensor *tli_flat_rows(tl_ctx *c, tl_tensor *t);

#endif
