/* Private to distill.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_TRAIN_DISTILL_H
#define TILTH_SRC_TRAIN_DISTILL_H

#include <tilth/train/distill/distillation.h>

/* Whether a task is a classifier whose first output are logits. */
TL_NODISCARD tl_status tli_distill_check(const tl_task *t, const char *who);
/* Once a training begins; nothing happens when it is open. */
TL_NODISCARD tl_status tli_distill_open(tl_distillation *d);
void tli_distill_close(tl_distillation *d);

#endif
