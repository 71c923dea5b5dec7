/* Launching: what Model Garden's train.py does, as one call and as its pieces.
 *
 *     int main(int argc, char **argv)                            // a driver of one's own
 *     {
 *         ...flags into `flags` and `parse`: tl_train_flags_desc, tl_parse_options_desc...
 *         TL_TRY_DONE(st, tl_run_bindings(&gin, registry, flags.model_dir, flags.gin_file,
 *                                         flags.gin_params));
 *         tl_gin_set_current(gin);
 *         TL_TRY_DONE(st, tl_experiment_parse(&config, registry, &parse));
 *         const tl_experiment_config *params = tl_config_value(config);
 *         TL_TRY_DONE(st, tl_get_distribution_strategy(&strategy, &(tl_strategy_args){...}));
 *         tl_dtype dtype = tl_mixed_precision_dtype(params->runtime.mixed_precision_dtype);
 *         TL_TRY_DONE(st, tl_get_task(&task, &(tl_task_args){.dtype = dtype, ...}));
 *         // and params.yaml
 *         TL_TRY_DONE(st, tl_run_experiment(&result, &(tl_run_args){.config = config, ...}));
 *         TL_TRY_DONE(st, tl_save_gin_config(gin, flags.mode, flags.model_dir));
 *         ...
 *     }
 *
 * or, where nothing of that is to be changed: tl_launch.
 *
 * Ownership: the caller's. Thread word: one run at a time in a process. */
#ifndef TILTH_TRAIN_LAUNCH_H
#define TILTH_TRAIN_LAUNCH_H

#include <tilth/comm/world.h>
#include <tilth/desc/gin.h>
#include <tilth/train/run/run.h>

TL_BEGIN

/* Model Garden's flags beside those of tl_parse_options. */
typedef struct tl_train_flags {
    const char *mode, *model_dir; /* required */
    tl_strings gin_file, gin_params;
    bool gin_strict;
    int64_t pretrain_steps;          /* of continuous_train_and_eval; 0: not known */
    bool enable_async_checkpointing; /* true by default */
    bool dry_run;                    /* tl_run_args.keep_nothing; model_dir is not touched */
    /* nothing reads them, there or here */
    const char *tpu_platform, *tfhub_handle, *tflex_output_uri;
} tl_train_flags;
TL_API extern const tl_desc tl_train_flags_desc;

typedef struct tl_launch_args {
    tl_registry *registry;
    tl_config *config; /* finished; of an experiment */
    /* (optional: read from the flags) in force when the configuration was finished */
    tl_gin *gin;
    const tl_train_flags *flags;
    /* (optional) what differs from the usual: trainer_cls, hooks, managers, runner */
    const tl_run_args *run;
} tl_launch_args;
/* Runs an experiment as `tilth train` does. `logs`, which may be NULL, get the numbers and texts of
 * the last evaluation, those of logs within logs by their path. Nothing is written before all is
 * accepted (run.h). Where several processes were started (comm/who.h), they carry the lanes of one
 * run together: all call this with the same arguments, all return at the same step, and rank 0
 * writes. */
TL_API TL_NODISCARD tl_status tl_launch(tl_logs *logs, const tl_launch_args *args);

/* Before an experiment is finished: where nobody has set tilth.lanes, they are those that the run
 * in the folder was begun with, or, where none was (NULL: none was), as many as there are
 * processes. */
TL_API TL_NODISCARD tl_status tl_experiment_lanes(tl_config *config, const char *model_dir);

/* What an experiment runs on and is about, under its precision; `logging_dir` may be NULL. Both are
 * the caller's, the task first to be freed; after a failure both are NULL. */
TL_API TL_NODISCARD tl_status tl_experiment_open(tl_strategy **strategy, tl_task **task,
                                                 const tl_registry *registry,
                                                 const tl_experiment_config *params,
                                                 const char *logging_dir, uint64_t seed);
/* The same as one of the processes of a world, which may be NULL, and outlives both. */
TL_API TL_NODISCARD tl_status tl_experiment_open_in(tl_strategy **strategy, tl_task **task,
                                                    const tl_registry *registry,
                                                    const tl_experiment_config *params,
                                                    const char *logging_dir, uint64_t seed,
                                                    tl_world *world);
/* The seed of an experiment: its own, or one that is drawn. */
TL_API uint64_t tl_experiment_seed(const tl_experiment_config *params);
/* The bindings of a run, finalised: those that are given, or, without any, those that the run in
 * the folder was begun with (bindings.gin), if there is one; `model_dir` may be NULL. They are read
 * before the experiment is looked up, which an `import` of theirs may bring, and are to be in force
 * from there on (tl_gin_set_current). */
TL_API TL_NODISCARD tl_status tl_run_bindings(tl_gin **out, tl_registry *registry,
                                              const char *model_dir, tl_strings files,
                                              tl_strings params);
/* Writes what gin's bindings were used for into model_dir/operative_config.SUFFIX.gin. */
TL_API TL_NODISCARD tl_status tl_save_gin_config(tl_gin *gin, const char *suffix,
                                                 const char *model_dir);

/* create_trainer, get_train_actions, get_eval_actions and the trainer classes that ship, for
 * gin. */
TL_API extern const tl_module tl_train_module;

TL_END

#endif
