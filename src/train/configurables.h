/* Private to train: the pieces of a run as gin makes them.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_TRAIN_CONFIGURABLES_H
#define TLI_TRAIN_CONFIGURABLES_H

#include <tilth/train/run/run.h>

/* `build_optimizer`, which may refuse, and `create_trainer`, with what gin binds to trainer_cls. */
TL_NODISCARD tl_status tli_gin_create_trainer(tl_runner *r, tl_trainer **out);
/* `get_train_actions` and `get_eval_actions`. */
TL_NODISCARD tl_status tli_gin_get_actions(tl_runner *r);
/* Makes the bindings a note of the run. Others than those that it was begun with are refused. */
TL_NODISCARD tl_status tli_gin_note(tl_runner *r);

#endif
