/* metrics.jsonl: what a run has come to, for programs. A JSON object a line, one for each event:
 *
 *     {"event": "start", "step": 0, "time": "2026-11-16T06:45:40.123Z",
 *      "experiment": "vision/local", "mode": "train_and_eval", "seed": 7, "resumed_from": null}
 *     {"event": "train", "step": 30, "time": ...,
 *      "metrics": {"training_loss": 2.1, "learning_rate": 0.1}, "steps_per_second": 120.5}
 *     {"event": "summary", "step": 30, "time": ..., "metrics": {"grad_norm": 1.5}}
 *     {"event": "checkpoint", "step": 30, "time": ..., "path": "run/ckpt-30.safetensors"}
 *     {"event": "evaluation", "step": 30, "time": ...,
 *      "metrics": {"validation_loss": 2.0, "accuracy": 0.3}}
 *     {"event": "end", "step": 60, "time": ..., "mode": "train_and_eval", "reason": "done",
 *      "seconds": 0.53}
 *
 *     event        one of these six
 *     step         a number from 0 on: of the checkpoint, for a checkpoint; else where the run was
 *     time         UTC, with milliseconds
 *     experiment   its name; null when it has none
 *     mode         train, eval, train_and_eval, ...
 *     seed         left out where nothing is drawn
 *     resumed_from the checkpoint that the run goes on from; null when it begins
 *     metrics      names and numbers; those of logs within logs by their path: "a/b"
 *     path         of a checkpoint that is on the disk when the line is written
 *     reason       done; "stopped: WHY" when a hook ended it; signal; or error
 *     message      of an error or a signal
 *     seconds      since the start
 *
 * A number that is not finite is null. More keys may come; readers pass over what they do not know.
 *
 * A run that goes on, or goes back, takes its lines of later steps back (but for start and end), so
 * each step is there once. One that only evaluates adds to the file, also beside a run that trains;
 * so do `tilth eval` and `tilth train_net --eval-only --resume`, the line `evaluation` alone.
 *
 *     tl_metrics_file_config config = {.dir = "run1", .mode = "train"};
 *     TL_TRY(tl_hooks_add(&hooks, &file, &tl_metrics_file_hook,
 *                         &(tl_hook_args){.config = &config}));
 *     ...
 *     tl_metrics_file_end(file, tl_controller_train(c, 1000, true));
 *
 * tl_run_experiment and tl_default_trainer_new add one by themselves. It comes behind the other
 * hooks: they may change what a loop tells, or go back. Nothing of it is in checkpoints, and steps
 * wait for nothing.
 *
 * Ownership: as of any hook; texts are copied. Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_METRICS_FILE_H
#define TILTH_TRAIN_METRICS_FILE_H

#include <tilth/train/hooks/hook.h>

TL_BEGIN

#define TL_METRICS_FILE "metrics.jsonl"

typedef struct tl_metrics_file_config {
    const char *dir;        /* required: of the run; made when it is not there */
    const char *experiment; /* (optional: null) */
    const char *mode;       /* (optional: "train") */
    /* (optional: nobody is told) A command, which /bin/sh runs for each event, one after the other
     * and beside the training, with the line as its standard input, and TILTH_EVENT (its name) and
     * TILTH_MODEL_DIR in its environment. What it writes goes to standard error. One that fails, or
     * takes more than half a minute and is ended, is warned of once. The end waits for what is
     * left, no longer than that. */
    const char *notify;
} tl_metrics_file_config;

/* A line `train` for each loop. */
TL_API extern const tl_hook_class tl_metrics_file_hook;
/* A line `train` at its period and at the end, with what steps have put into the event storage
 * (storage.h); it stands before hooks that save. */
TL_API extern const tl_hook_class tl_metrics_file_steps_hook;

/* Writes the end of a run that came back with this status, whose message is the last error; that
 * stays as it is. To be called before the controller is freed. What cannot be written is a warning.
 * A run that never began is none. */
TL_API void tl_metrics_file_end(tl_hook *h, tl_status status);

/* Adds the line of an evaluation that is none of a run's own, as `tilth eval` makes them, to the
 * file of its folder: in one write, as a run may be training there. A folder that may not be
 * written to is left as it is; what else cannot be written is a warning. The last error stays as it
 * is. */
TL_API void tl_metrics_file_evaluated(const char *dir, int64_t step, const tl_logs *logs);

TL_END

#endif
