/* Epochs: counts steps in passes over the data, for trainers that do something once a pass.
 *
 *     tl_epoch_helper epochs;
 *     TL_TRY(tl_epoch_helper_init(&epochs, 500, &trainer->global_step));
 *     ...
 *     if (tl_epoch_helper_begin(&epochs)) reset_metrics(t);             // in train_loop_begin
 *     ...
 *     TL_TRY(tl_epoch_helper_end(&epochs, &over));                      // in train_loop_end
 *     if (over) TL_TRY(tell_metrics(t, logs));
 *
 * An epoch may take several loops: it ends in the loop that reaches, or passes, a multiple of its
 * steps.
 *
 * Ownership: the caller's, it holds nothing. Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_EPOCH_H
#define TILTH_TRAIN_EPOCH_H

#include <tilth/base/status.h>

TL_BEGIN

/* Members are for reading. */
typedef struct tl_epoch_helper {
    int64_t epoch_steps;
    const int64_t *step;
    int64_t current_epoch; /* -1 before the first has begun */
    int64_t start_step;    /* of the current one */
    bool inside;
} tl_epoch_helper;

/* `epoch_steps` is 1 or more; `step` is read whenever it is asked and must outlive the helper. */
TL_API TL_NODISCARD tl_status tl_epoch_helper_init(tl_epoch_helper *e, int64_t epoch_steps,
                                                   const int64_t *step);
/* Begins an epoch; false when one has begun and not ended. */
TL_API bool tl_epoch_helper_begin(tl_epoch_helper *e);
/* Ends the epoch when its steps are done, and says so in *over. TL_ESTATE when none has begun. */
TL_API TL_NODISCARD tl_status tl_epoch_helper_end(tl_epoch_helper *e, bool *over);
/* Steps since the current epoch has begun. */
TL_API int64_t tl_epoch_helper_batch_index(const tl_epoch_helper *e);

TL_END

#endif
