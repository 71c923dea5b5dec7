/* Actions: hooks for what Model Garden does after loops and evaluations, and the pieces they are
 * made of.
 *
 *     tl_hooks hooks = {0};
 *     TL_TRY_DONE(st, tl_get_train_actions(&hooks, experiment, trainer));
 *     TL_TRY_DONE(st, tl_get_eval_actions(&hooks, experiment, trainer, model_dir));
 *     ... .hooks = hooks.items, .hook_count = hooks.count ...           // in tl_controller_args
 * done:
 *     tl_controller_free(&c);
 *     tl_hooks_free(&hooks);
 *
 * An export of each model that is better than all before:
 *
 *     tl_hook *export, *when_best;
 *     TL_TRY(tl_new_best_metric_new(&best, &(tl_new_best_metric_args){.metric = "accuracy",
 *                                                                     .path = "run1/best.json"}));
 *     TL_TRY(tl_export_file_manager_new(
 *         &files, &(tl_export_file_manager_args){.base = "run1/export"}));
 *     TL_TRY(tl_hook_new(&export, &tl_export_model_hook,
 *                        &(tl_hook_args){.config = &(tl_export_model_config){.files = files}}));
 *     TL_TRY(tl_hook_new(&when_best, &tl_conditional_hook,
 *                        &(tl_hook_args){.config = &(tl_conditional_config){
 *                            .condition = tl_new_best_metric_condition, .payload = best,
 *                            .hooks = &export, .hook_count = 1}}));
 *
 * A metric is named as in the configuration of a trainer: "accuracy", and "a|b" for b in a.
 *
 * The struct of each hook's objects is here, to begin that of a class which derives from it
 * (hook.h); its members are private to the hook.
 *
 * Ownership: the caller's. Configs are copied when a hook is made; what they point to is borrowed,
 * but for texts, which are copied too. Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_ACTIONS_H
#define TILTH_TRAIN_ACTIONS_H

#include <tilth/base/file.h>
#include <tilth/train/experiment.h>
#include <tilth/train/hooks/hook.h>
#include <tilth/train/trainer/trainer.h>

TL_BEGIN

/* --- lists ------------------------------------------------------------------------------------ */

/* Hooks that belong to the list. */
typedef struct tl_hooks {
    tl_hook **items;
    int64_t count, capacity;
} tl_hooks;
/* Frees the hooks, last one first, and empties the list. */
TL_API void tl_hooks_free(tl_hooks *hooks);
/* Makes a hook and adds it; `out`, which may be NULL, is the hook. */
TL_API TL_NODISCARD tl_status tl_hooks_add(tl_hooks *hooks, tl_hook **out, const tl_hook_class *cls,
                                           const tl_hook_args *args);

/* Adds what an experiment wants during its training: recovery, unless trainer.recovery_max_trials
 * is negative; early stopping, when tilth.early_stopping is set; the noise of gradients, when
 * tilth.gradient_noise_scale is. */
TL_API TL_NODISCARD tl_status tl_get_train_actions(tl_hooks *into,
                                                   const tl_experiment_config *config,
                                                   const tl_trainer *trainer);
/* Adds what it wants after evaluations: checkpoints of averaged weights, when the optimizer keeps
 * averages and there is a folder. `model_dir` may be NULL. */
TL_API TL_NODISCARD tl_status tl_get_eval_actions(tl_hooks *into,
                                                  const tl_experiment_config *config,
                                                  const tl_trainer *trainer, const char *model_dir);

/* --- a number that outlives the process ------------------------------------------------------- */

/* A number in a JSON file. Members are for reading. */
typedef struct tl_persisted_value {
    double value;
    char *path; /* NULL: it is kept in memory alone */
    bool write;
} tl_persisted_value;

/* The number that the file holds; `initial` when there is no file, or an empty one: it is then
 * written, in a folder that is made for it. Without `write` the file is read and nothing is ever
 * written. */
TL_API TL_NODISCARD tl_status tl_persisted_value_init(tl_persisted_value *v, double initial,
                                                      const char *path, bool write);
TL_API void tl_persisted_value_deinit(tl_persisted_value *v);
/* The file is replaced in one step. A number that is not finite is TL_EINVAL. */
TL_API TL_NODISCARD tl_status tl_persisted_value_set(tl_persisted_value *v, double value);

/* --- the best so far -------------------------------------------------------------------------- */

typedef struct tl_new_best_metric tl_new_best_metric;

typedef struct tl_new_best_metric_args {
    const char *metric; /* of the logs; or */
    /* what is computed from them */
    tl_status (*value)(double *out, const tl_logs *logs, void *payload);
    void *payload;
    tl_metric_comp comp; /* (optional: higher is better) */
    const char *path;    /* (optional: in memory alone) where the best value is kept */
    bool read_only;      /* the file is read, and never written */
} tl_new_best_metric_args;
TL_API TL_NODISCARD tl_status tl_new_best_metric_new(tl_new_best_metric **out,
                                                     const tl_new_best_metric_args *args);
/* NULL is fine. */
TL_API void tl_new_best_metric_free(tl_new_best_metric **m);
/* Whether the metric is better than any that was committed; one that is not finite never is. A
 * metric that is not in the logs is TL_ENOTFOUND, with those that are. */
TL_API TL_NODISCARD tl_status tl_new_best_metric_test(bool *better, tl_new_best_metric *m,
                                                      const tl_logs *logs);
/* The same, and a better one is the best from now on. */
TL_API TL_NODISCARD tl_status tl_new_best_metric_commit(bool *better, tl_new_best_metric *m,
                                                        const tl_logs *logs);
/* Before the first one: the worst double that there is. */
TL_API double tl_new_best_metric_best(const tl_new_best_metric *m);
/* tl_new_best_metric_commit as a condition (below), with the metric as payload. */
TL_API tl_status tl_new_best_metric_condition(bool *holds, tl_controller *c, const tl_logs *logs,
                                              void *payload);

/* --- files that are numbered ------------------------------------------------------------------ */

/* Exports beside each other: BASE-0, BASE-1, ..., or BASE-0/SUB. Managed are those whose names end
 * in a number and which have the subdirectory. */
typedef struct tl_export_file_manager tl_export_file_manager;

typedef struct tl_export_file_manager_args {
    const char *base;                  /* "run1/export" */
    tl_opt_int max_to_keep;            /* (not set: 5) the newest; negative: all; 0 is TL_EINVAL */
    int64_t (*next_id)(void *payload); /* (optional: one more than the highest that is there) */
    void *payload;
    const char *subdirectory; /* (optional: none) */
} tl_export_file_manager_args;
TL_API TL_NODISCARD tl_status tl_export_file_manager_new(tl_export_file_manager **out,
                                                         const tl_export_file_manager_args *args);
/* NULL is fine. */
TL_API void tl_export_file_manager_free(tl_export_file_manager **m);
/* Where the next export goes; in the arena. Nothing is made there. */
TL_API TL_NODISCARD tl_status tl_export_file_manager_next(const char **name,
                                                          tl_export_file_manager *m,
                                                          tl_arena *arena);
/* BASE-N of those that are managed, by their numbers; in the arena. */
TL_API TL_NODISCARD tl_status tl_export_file_manager_list(tl_path_list *out,
                                                          const tl_export_file_manager *m,
                                                          tl_arena *arena);
/* Removes the oldest beyond max_to_keep, with all that is in them. */
TL_API TL_NODISCARD tl_status tl_export_file_manager_clean_up(tl_export_file_manager *m);

/* --- hooks ------------------------------------------------------------------------------------ */

/* Calls after_eval of hooks of its own when a condition holds after an evaluation. They are freed
 * by the caller, after this one; what they keep is in checkpoints. */
typedef tl_status tl_condition_fn(bool *holds, tl_controller *c, const tl_logs *logs,
                                  void *payload);
typedef struct tl_conditional_config {
    tl_condition_fn *condition;
    void *payload;
    tl_hook *const *hooks;
    int64_t hook_count;
    bool after_loops; /* after each loop of the training instead, and their after_loop */
} tl_conditional_config;
typedef struct tl_conditional_instance {
    tl_hook base;
    tl_conditional_config config;
} tl_conditional_instance;
TL_API extern const tl_hook_class tl_conditional_hook;

/* Writes the model's weights to NAME/model.safetensors, where NAME is the manager's next, after
 * each evaluation; then cleans up. */
typedef struct tl_export_model_config {
    tl_export_file_manager *files;
    bool averages;    /* averaged weights, where the optimizer keeps them */
    bool after_loops; /* after each loop of the training instead */
} tl_export_model_config;
typedef struct tl_export_model_instance {
    tl_hook base;
    tl_export_model_config config;
} tl_export_model_instance;
TL_API extern const tl_hook_class tl_export_model_hook;

/* After each evaluation, averaged weights as a checkpoint of the model alone:
 * DIR/ema_checkpoints/average_weights-ITERATIONS.safetensors, and the state file beside it. */
typedef struct tl_ema_checkpoint_config {
    const char *dir;
    int64_t max_to_keep; /* (optional: 1) the newest; negative: all */
} tl_ema_checkpoint_config;
typedef struct tl_ema_checkpoint_instance {
    tl_hook base;
    const char *dir;
    tl_opt_int max_to_keep;
} tl_ema_checkpoint_instance;
TL_API extern const tl_hook_class tl_ema_checkpoint_hook;

/* Goes back to the last checkpoint when the loss of a loop is above a bound, or numbers are not
 * finite; fails with TL_ENAN when that has happened too often, or there is no checkpoint. The
 * training data is not taken back: what blew up is not seen again. How often it happened is in
 * checkpoints.
 *
 * Weights may be absurd before they are not finite. So a checkpoint that this training has made is
 * set aside (FILE.poisoned), and the one before it is taken, when the first step after it was not
 * finite though its batch is; and, where there is one before it, when it was gone back to already
 * and led there again, or lies within the loop whose loss is too high. */
typedef struct tl_recovery_config {
    double loss_upper_bound;
    /* the bound holds from this step on; NaN is looked for from the start */
    int64_t recovery_begin_steps;
    int64_t recovery_max_trials; /* 0: fails at once */
} tl_recovery_config;
typedef struct tl_recovery_instance {
    tl_hook base;
    tl_recovery_config config;
    int64_t trials;  /* that were needed so far */
    int64_t back_at; /* the step that it went back to last; -1: it did not yet */
} tl_recovery_instance;
TL_API extern const tl_hook_class tl_recovery_hook;

/* Ends the training when a metric of the evaluations has not become better `patience` times in a
 * row. Its config is a tl_early_stopping_config. A run that was ended so is not gone on with,
 * unless `patience` is raised. */
typedef struct tl_early_stopping_instance {
    tl_hook base;
    tl_early_stopping_config config;
    /* In checkpoints: */
    double best;
    int64_t best_step; /* -1 before the first */
    int64_t waited;    /* evaluations since then */
    int64_t seen;      /* step of the last evaluation; -1: none */
} tl_early_stopping_instance;
TL_API extern const tl_hook_class tl_early_stopping_hook;

/* Tells the gradient noise scale after each loop, as "gradient_noise_scale": the size of a batch
 * below which larger ones save as many steps as they are larger, and above which they save few. It
 * counts what has a loss of its own, examples or tokens. It comes from the gradients of the batches
 * that make a step (tl_optimizer_noise): tilth.gradient_accumulation must be 2 or more. Nothing is
 * told before an estimate makes sense. Its period may be above 1. */
#define TL_NOISE_SCALE "gradient_noise_scale"
typedef struct tl_noise_scale_config {
    double decay; /* (optional: 0.99) of the averages over steps; negative: only the last one */
} tl_noise_scale_config;
typedef struct tl_noise_scale_instance {
    tl_hook base;
    double decay;
    double noise, signal; /* averages, both short of 1 / (1 - decay^steps); in checkpoints */
} tl_noise_scale_instance;
TL_API extern const tl_hook_class tl_noise_scale_hook;

TL_END

#endif
