/* Checkpoints from inside: saved in two steps, so that the second can happen elsewhere, and opened
 * with the reason why not. Thread word: one thread at a time. */
#ifndef TLI_IO_CHECKPOINT_IMPL_H
#define TLI_IO_CHECKPOINT_IMPL_H

#include <tilth/io/checkpoint/checkpoint.h>

#include "io/safetensors/impl.h"

/* What the file will be: everything but the elements of tensors is copied. */
TL_NODISCARD tl_status tli_checkpoint_draft(tli_st_draft *d, const tl_state *s,
                                            const tl_checkpoint_info *info);
/* Writes it, with the draft's d->bytes bytes of data, or (NULL) from where its items lie. */
TL_NODISCARD tl_status tli_checkpoint_write(const char *path, tli_st_draft *d, const void *data);

/* `*damaged`: a reason to fail was that the file is not what was written. `weights` as in
 * tl_checkpoint_restore_args. */
TL_NODISCARD tl_status tli_checkpoint_open(tl_checkpoint **out, const char *path, bool weights,
                                           bool *damaged);
TL_NODISCARD tl_status tli_checkpoint_restore(tl_state *into, const tl_checkpoint *c,
                                              const tl_checkpoint_restore_args *args,
                                              tl_state_report *report);

#endif
