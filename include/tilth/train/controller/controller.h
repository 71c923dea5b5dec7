/* The controller: the loop around a trainer. It owns the intervals: when the loop reports, when a
 * checkpoint is saved, when the model is evaluated, when hooks are called.
 *
 *     tl_controller *c;
 *     TL_TRY(tl_controller_new(&c, &(tl_controller_args){
 *         .trainer = t, .evaluator = t, .steps_per_loop = 100, .checkpoint_manager = m,
 *         .summary_dir = "run1/train", .eval_summary_dir = "run1/validation"}));
 *     TL_TRY(tl_controller_train_and_evaluate(c, 1000, -1, 500, NULL));
 *     tl_controller_free(&c);
 *
 * Numbers of steps count from the start of the training. Loops end, and checkpoints and evaluations
 * come, at multiples of their intervals, wherever the process started; so a run that was
 * interrupted does what one that was not would have done, with the same bits. What each loop and
 * evaluation tells is printed, logged and written as summaries.
 *
 * Nothing is written before the first training or evaluation, but that a damaged checkpoint is set
 * aside.
 *
 * A new controller restores the latest checkpoint, or initializes the trainer. When the latest one
 * is damaged, the one before it is taken, with an error in the log. A controller that trains sets
 * the damaged file aside; one that only evaluates leaves the folder as it is.
 *
 * Ownership: the caller's; what it is given is borrowed. Thread word: one thread at a time, but for
 * tl_controller_request_stop. */
#ifndef TILTH_TRAIN_CONTROLLER_H
#define TILTH_TRAIN_CONTROLLER_H

#include <tilth/io/checkpoint/manager.h>
#include <tilth/train/hooks/hook.h>
#include <tilth/train/writers/storage.h>
#include <tilth/train/writers/summary.h>
#include <tilth/train/trainer/trainer.h>

TL_BEGIN

typedef struct tl_controller_args {
    tl_trainer *trainer;   /* who trains; NULL: nobody */
    tl_trainer *evaluator; /* who evaluates; NULL: nobody. Most often the trainer */
    int64_t steps_per_loop;
    /* (optional) instead: the loop that begins here. Checkpoints then hold where their loop
     * ends. */
    int64_t (*steps_of_loop)(void *payload, int64_t step);
    void *payload;
    tl_checkpoint_manager *checkpoint_manager; /* (optional: nothing is saved or restored) */
    /* (optional: none) of what the step logs; a multiple of steps_per_loop */
    int64_t summary_interval;
    const char *summary_dir, *eval_summary_dir; /* (optional: none) */
    /* (optional: new ones in those folders) */
    tl_summary_manager *summary_manager, *eval_summary_manager;
    const tl_summary_manager_class *eval_summary_cls; /* (optional: scalars) of the new one */
    tl_hook *const *hooks;
    int64_t hook_count;
    /* A checkpoint or summary that cannot be written (TL_EIO: a full disk) is an error in the log,
     * and the training goes on and tries again at the next one. Otherwise it ends. What was saved
     * before stays in both cases; the checkpoint at the end must be written. Of hooks those are
     * forgiven whose class says that they write (`files`). / */
    bool survive_write_failures;
    /* SIGTERM, SIGINT, SIGUSR1, and SIGHUP where it was not ignored, save and stop; the second ends
     * the process at once. The first one is answered on standard error. */
    bool heed_signals;
    bool leave_unsaved; /* a signal ends the training without a checkpoint of its own */
    bool quiet;         /* no lines on standard output; the log has them all the same */
} tl_controller_args;
TL_API TL_NODISCARD tl_status tl_controller_new(tl_controller **out,
                                                const tl_controller_args *args);
/* Waits for checkpoints that are being written. NULL is fine. */
TL_API void tl_controller_free(tl_controller **c);

/* Until this step. TL_ESTOPPED when it was asked to stop before: a checkpoint was saved. */
TL_API TL_NODISCARD tl_status tl_controller_train(tl_controller *c, int64_t steps,
                                                  bool checkpoint_at_completion);
/* `steps` batches, -1 for all. `logs` may be NULL; else they are what was told. */
TL_API TL_NODISCARD tl_status tl_controller_evaluate(tl_controller *c, int64_t steps,
                                                     tl_logs *logs);
/* Evaluates at each multiple of the interval and at the end; 0: at the end only. An evaluation that
 * was cut off is made up for when the run is resumed. `logs`, which may be NULL, are those of the
 * last one. */
TL_API TL_NODISCARD tl_status tl_controller_train_and_evaluate(tl_controller *c,
                                                               int64_t train_steps,
                                                               int64_t eval_steps,
                                                               int64_t eval_interval,
                                                               tl_logs *logs);
/* Evaluates each checkpoint that appears in the manager's folder, the newest when there are
 * several. Ends when `timeout_s` (negative: never) passed without one, or `done`, which may be
 * NULL, says so after one. `logs`, which may be NULL, are those of the last one. */
TL_API TL_NODISCARD tl_status tl_controller_evaluate_continuously(tl_controller *c, int64_t steps,
                                                                  double timeout_s,
                                                                  bool (*done)(void *payload),
                                                                  void *payload, tl_logs *logs);

/* Saves now, unless this step is saved; `saved` may be NULL. After the last step of a loop it is
 * saved when the loop has been told, and `saved` is false. */
TL_API TL_NODISCARD tl_status tl_controller_save_checkpoint(tl_controller *c, bool *saved);
/* `path` NULL: the latest, or else initializes. *restored, which may be NULL, is the file or
 * NULL. */
TL_API TL_NODISCARD tl_status tl_controller_restore_checkpoint(tl_controller *c, const char *path,
                                                               const char **restored);

/* Ends the training after the current step, with a checkpoint. `reason` is copied; hooks call it,
 * and any thread may. The training then ends with TL_OK. */
TL_API void tl_controller_request_stop(tl_controller *c, const char *reason);
/* NULL: nobody asked. */
TL_API const char *tl_controller_stop_reason(const tl_controller *c);

TL_API tl_trainer *tl_controller_trainer(const tl_controller *c);
TL_API tl_trainer *tl_controller_evaluator(const tl_controller *c);
TL_API int64_t tl_controller_step(const tl_controller *c);
/* The step at which the training that is going on ends; 0 outside of one. */
TL_API int64_t tl_controller_last_step(const tl_controller *c);
TL_API tl_checkpoint_manager *tl_controller_manager(const tl_controller *c);
/* Where steps and hooks put what writers write; there for the whole training. */
TL_API tl_event_storage *tl_controller_storage(const tl_controller *c);
/* Steps a second of the last loop, without evaluations and checkpoints. */
TL_API double tl_controller_steps_per_second(const tl_controller *c);

TL_END

#endif
