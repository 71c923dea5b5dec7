/* Private to train: checks of LiBai's configuration that need more than a table.
 *
 * Thread word: immutable. */
#ifndef TLI_TRAIN_LIBAI_H
#define TLI_TRAIN_LIBAI_H

#include <tilth/train/libai.h>

TL_NODISCARD tl_status tli_libai_check_scheduler(const void *value);
TL_NODISCARD tl_status tli_libai_check_optim(const void *value);
TL_NODISCARD tl_status tli_libai_check_params(const void *value);

/* What stands behind the last dot. */
const char *tli_last_part(const char *dotted);

#endif
