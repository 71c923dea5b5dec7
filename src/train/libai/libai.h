/* Private to train: checks of LiBai's configuration that need more than a table.
 *
 * Thread word: immutable. */
#ifndef TLI_TRAIN_LIBAI_H
#define TLI_TRAIN_LIBAI_H

#include <tilth/train/libai/libai.h>

TL_NODISCARD tl_status tli_libai_check_scheduler(const void *value);
TL_NODISCARD tl_status tli_libai_check_optim(const void *value);
TL_NODISCARD tl_status tli_libai_check_params(const void *value);

/* What stands behind the last dot. */
const char *tli_last_part(const char *dotted);

/* --- sections `model` and `dataloader`, from a file or a word --------------------------------- */

/* `map` with all keys but these two; NULL when there is no memory. */
const tl_value *tli_libai_without(tl_arena *arena, const tl_value *map, const char *one,
                                  const char *two);
/* What `train` or `test` of dataloader is in the section `task`: the key there, and its value. */
TL_NODISCARD tl_status tli_libai_read_loader(const char **key, const tl_value **value,
                                             tl_arena *arena, const char *name,
                                             const tl_value *given);
/* Fails when `dataloader` is no map. */
TL_NODISCARD tl_status tli_libai_check_loaders(const tl_value *loaders);

#endif
