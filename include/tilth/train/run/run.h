/* Running experiments: a task, a trainer, a controller and their files, put together and set going.
 *
 *     tl_run_result result = {0};
 *     TL_TRY_DONE(st, tl_run_experiment(&result, &(tl_run_args){
 *         .strategy = strategy, .task = task, .mode = "train_and_eval", .params = experiment,
 *         .model_dir = "out/run1"}));
 *     tl_logs_number(&accuracy, result.logs, "accuracy");
 * done:
 *     tl_run_result_deinit(&result);
 *
 * Modes: train, eval, train_and_eval, continuous_eval, train_and_post_eval. tl_launch also knows
 * continuous_train_and_eval, which is several runs.
 *
 * Nothing is written through a symbolic link that lies in the folder: a file is replaced, a linked
 * sub-folder refused.
 *
 * A run that trains changes nothing in its folder before everything that can be refused has been:
 * configuration, data (one batch of each is made), model, checkpoint. Then it begins:
 * tl_runner_begin writes params.yaml, experiment.txt and notes. One that is refused leaves no
 * folder behind. From before the checkpoint is read until its end nobody else may train there
 * (TL_EEXISTS says who does); who only evaluates may always.
 *
 * The pieces can be exchanged one by one: a trainer class, hooks, summary managers, or, through a
 * class that derives from tl_base_runner, how each of them is built.
 *
 * Ownership: what is given is borrowed; the result is the caller's. Thread word: one run at a time
 * in a process, when signals are heeded. */
#ifndef TILTH_TRAIN_RUN_H
#define TILTH_TRAIN_RUN_H

#include <tilth/desc/gin.h>
#include <tilth/train/controller/actions.h>
#include <tilth/train/controller/controller.h>
#include <tilth/train/run/exporter.h>

TL_BEGIN

typedef struct tl_runner tl_runner;
typedef struct tl_run_args tl_run_args;

/* What the result points to belongs to it. */
typedef struct tl_run_result {
    tl_trainer *trainer;
    tl_model *model; /* the trainer's */
    tl_logs *logs;   /* of the last evaluation; empty when there was none */
} tl_run_result;
TL_API void tl_run_result_deinit(tl_run_result *r);

/* Each piece, to be overridden alone. The base's do what the members of tl_run_args say. */
typedef struct tl_runner_class {
    tl_class cls;
    tl_status (*build_exporter)(tl_runner *r, tl_exporter **out); /* *out may be NULL */
    tl_status (*build_trainer)(tl_runner *r, tl_trainer **out);
    tl_status (*build_checkpoint_manager)(tl_runner *r, tl_checkpoint_manager **out);
    /* Adds hooks to r->hooks; who frees them is the runner. */
    tl_status (*build_hooks)(tl_runner *r);
    tl_status (*build_controller)(tl_runner *r, tl_controller **out);
    tl_status (*run)(tl_runner *r, tl_logs *logs);
} tl_runner_class;
TL_API extern const tl_runner_class tl_base_runner;

/* First member of what derives from it. Members are for reading. */
struct tl_runner {
    const tl_runner_class *cls;
    const tl_run_args *args;
    const tl_trainer_config *params; /* the section `trainer` */
    bool trains, evaluates;
    tl_exporter *exporter;
    tl_trainer *trainer;
    tl_checkpoint_manager *manager;
    tl_controller *controller;
    tl_hooks hooks; /* the runner's own */
    tl_notes notes; /* what the run keeps beside params.yaml */
    tl_arena *arena;
    struct tli_run_folder *folder; /* NULL: nothing is kept */
    bool begun;
};
/* The start of a run that trains, once all is accepted: from here on its folder is written to.
 * Called between build_controller and run; again it does nothing. */
TL_API TL_NODISCARD tl_status tl_runner_begin(tl_runner *r);
/* Gives a hook to the runner, which frees it, also when this fails. */
TL_API TL_NODISCARD tl_status tl_runner_add_hook(tl_runner *r, tl_hook **hook);

struct tl_run_args {
    tl_strategy *strategy;
    tl_task *task;
    const char *mode;
    const tl_experiment_config *params;
    const char *model_dir;
    bool run_post_eval;        /* evaluate once at the end, whatever the mode */
    bool without_summaries;    /* no event files */
    bool without_metrics_file; /* no metrics.jsonl (metrics_file.h) */
    const char *experiment;    /* (optional: none) its name, for experiment.txt and metrics.jsonl */
    tl_hook *const *hooks; /* (optional: none) called before those that the experiment asks for */
    int64_t hook_count;
    const tl_trainer_class *trainer_cls; /* (optional: as tl_create_trainer says) */
    /* (optional: one is created) taken over, also when this fails */
    tl_trainer **trainer;
    tl_summary_manager *summary_manager, *eval_summary_manager; /* (optional: new ones) */
    const tl_summary_manager_class *eval_summary_cls; /* (optional: scalars) of the new one */
    /* (optional) what it binds is in force while the run is put together and runs */
    tl_gin *gin;
    bool gin_strict;               /* bindings of files that are not used are refused, too */
    const tl_runner_class *runner; /* (optional: tl_base_runner) */
    bool background_checkpoints;   /* training goes on while a checkpoint is written */
    bool heed_signals, quiet;      /* as in tl_controller_args */
    /* (optional) of a new run; a resumed one has that of its start */
    uint64_t seed;
    /* (optional) what params.yaml says from the run's start on */
    const tl_config *config;
    /* a trial: a few steps, one batch evaluated, and no file is written */
    bool keep_nothing;
};
/* What the logs of a trial hold: seconds of the first step, with all that is prepared for it, of
 * one after that, of the evaluation of one batch; and the most memory that the process had, in
 * bytes. */
#define TL_TRIAL_FIRST_STEP "first_step_seconds"
#define TL_TRIAL_STEP "step_seconds"
#define TL_TRIAL_EVALUATION "evaluation_seconds"
#define TL_TRIAL_MEMORY "peak_memory"
/* TL_EUNSUPPORTED or TL_EINVAL for a mode that cannot be launched. Nothing has been written
 * then. */
TL_API TL_NODISCARD tl_status tl_check_mode(const char *mode);
/* Runs until the end. `out` may be NULL. */
TL_API TL_NODISCARD tl_status tl_run_experiment(tl_run_result *out, const tl_run_args *args);

/* A trainer for an experiment: builds model and optimizer through the task. `cls` NULL:
 * tl_base_trainer, or what the experiment is for: several tasks (multitask.h). */
TL_API TL_NODISCARD tl_status tl_create_trainer(tl_trainer **out,
                                                const tl_experiment_config *params, tl_task *task,
                                                tl_strategy *strategy, bool train, bool evaluate,
                                                tl_exporter *exporter, const tl_trainer_class *cls,
                                                uint64_t seed);

/* --- what people ask of a model --------------------------------------------------------------- */

/* Floating-point operations of one example, as TensorFlow's profiler counts them (normalisations
 * and most activations not at all); 0 when they cannot be counted. */
TL_API double tl_count_flops(tl_model *m);
/* A line "NAME [SHAPE]" for each parameter, then "Total params: N". */
TL_API TL_NODISCARD tl_status tl_write_model_params(const tl_model *m, const char *path);

TL_END

#endif
