/* What people see while a model is trained in their terminal: a table of the model, a bar that
 * moves, a line for each evaluation.
 *
 *     tl_hook *h;
 *     TL_TRY(tl_progress_hook_new(
 *         &h, &(tl_progress_args){.to = stdout, .width = 100, .batch_size = 128}));
 *     tl_run_args run = {.hooks = &h, .hook_count = 1, .quiet = true};
 *     tl_hook_free(&h);
 *
 * It is for terminals, where lines can be drawn over. For a file or a pipe the controller's own
 * lines do.
 *
 * Ownership: the caller's. Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_PROGRESS_H
#define TILTH_TRAIN_PROGRESS_H

#include <stdio.h>

#include <tilth/train/hooks/hook.h>

TL_BEGIN

typedef struct tl_progress_args {
    FILE *to;   /* borrowed */
    bool plain; /* in ASCII alone */
    /* columns; (optional: 80) of a terminal its own count, which may change while it trains */
    int width;
    int64_t batch_size; /* examples of a step; 0: steps a second are told */
    const char
        *metric; /* (optional: "accuracy", or the first one there is) shown beside the loss */
} tl_progress_args;
TL_API TL_NODISCARD tl_status tl_progress_hook_new(tl_hook **out, const tl_progress_args *args);

/* "0:04:05" or "4:05"; for who tells times as the bar does. */
TL_API void tl_progress_time(tl_str *out, double seconds);
/* "4361" as "4,361". */
TL_API void tl_progress_count(tl_str *out, double count);

TL_END

#endif
