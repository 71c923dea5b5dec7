/* Trainers: the body of the loop. A trainer takes batches through a task's steps, keeps the metrics
 * and the global step, and knows all that a checkpoint must hold.
 *
 *     tl_trainer *t;
 *     TL_TRY(tl_trainer_new(&t, &(tl_trainer_args){.config = experiment, .task = task,
 *                                                  .strategy = s, .train = true,
 *                                                  .evaluate = true}));
 *     tl_logs *logs;
 *     TL_TRY(tl_logs_new(&logs));
 *     TL_TRY(tl_trainer_train(t, 100, logs));       // 100 steps; training_loss, learning_rate, ...
 *     TL_TRY(tl_trainer_evaluate(t, -1, logs));     // all examples; validation_loss, ...
 *     tl_trainer_free(&t);
 *
 * A trainer of one's own is a class that derives from tl_base_trainer and overrides what it does
 * differently:
 *
 *     static tl_status my_loop_end(tl_trainer *t, tl_logs *logs)
 *     {
 *         TL_TRY(tl_base_trainer.train_loop_end(t, logs));                         // super
 *         return tl_logs_put(logs, "iterations", (double)tl_optimizer_iterations(t->optimizer));
 *     }
 *     static const tl_trainer_class mine = {
 *         .cls = TL_CLASS(tl_trainer_class, "mine", &tl_base_trainer.cls, tl_trainer, NULL),
 *         .train_loop_end = my_loop_end};
 *
 * A step is one update of the optimizer, made of config->tilth.gradient_accumulation batches. It
 * runs as one compiled program, or operation by operation when the configuration says so
 * (train_tf_function, run_eagerly). Where the engine's device is not the host, steps are under way
 * when their call returns, and `global_step` counts them: tl_trainer_join waits for them. When
 * `train` has come back, all are over.
 *
 * Ownership: the caller's. Config, task and strategy are borrowed; model, optimizer and datasets
 * belong to the trainer. Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_TRAINER_H
#define TILTH_TRAIN_TRAINER_H

#include <signal.h>

#include <tilth/graph/function.h>
#include <tilth/train/strategy.h>
#include <tilth/train/task.h>

TL_BEGIN

typedef struct tl_trainer tl_trainer;
typedef struct tl_exporter tl_exporter;
typedef struct tl_trainer_parts tl_trainer_parts;

typedef struct tl_trainer_class {
    tl_class cls;
    /* (optional) Makes ready what the trainer has of its own. Everything else is there. */
    tl_status (*start)(tl_trainer *t);
    /* (optional) Gives back what `start` made, also when that failed. */
    void (*dispose)(tl_trainer *t);
    /* What a new run starts from. Base: the task's initialize. */
    tl_status (*initialize)(tl_trainer *t);
    /* (optional) Binds what is to be in checkpoints beside what the base has. */
    tl_status (*state)(tl_trainer *t, tl_state *into);

    /* `steps` steps; adds them to global_step. Base: train_loop_begin, train_step as often,
     * train_loop_end. Between two steps tl_trainer_between must be called; false says to leave the
     * loop where it is. */
    tl_status (*train)(tl_trainer *t, int64_t steps, tl_logs *logs);
    /* `steps` batches, -1 for all. Base: eval_begin, eval_step and eval_reduce as often,
     * eval_end. */
    tl_status (*evaluate)(tl_trainer *t, int64_t steps, tl_logs *logs);

    tl_status (*train_loop_begin)(tl_trainer *t);
    /* One batch of training data; *more false says that there is none. */
    tl_status (*next_train_inputs)(tl_trainer *t, tl_ctx *c, tl_tensors *batch, bool *more);
    /* One update. Where steps may be under way when their call returns (in_flight), the outputs are
     * tensors that nobody has waited for. */
    tl_status (*train_step)(tl_trainer *t);
    /* Tells and resets the metrics of the loop. Base: metrics, training_loss, learning_rate. */
    tl_status (*train_loop_end)(tl_trainer *t, tl_logs *logs);

    /* Base: resets the metrics, puts averaged weights in. *state is NULL; what it is set to goes
     * through eval_reduce to eval_end. */
    tl_status (*eval_begin)(tl_trainer *t, void **state);
    /* One batch, and what goes past the step into its logs (texts, file names). */
    tl_status (*next_eval_inputs)(tl_trainer *t, tl_ctx *c, tl_tensors *batch, tl_logs *passthrough,
                                  bool *more);
    /* One batch through the task's validation_step; its logs. */
    tl_status (*eval_step)(tl_trainer *t, tl_logs *logs, bool *more);
    /* Base: the task's aggregate_logs. */
    tl_status (*eval_reduce)(tl_trainer *t, void **state, const tl_logs *step);
    /* Base: metrics, validation_loss, what the task reduces to, the best checkpoint; weights
     * back. */
    tl_status (*eval_end)(tl_trainer *t, void *state, tl_logs *logs);
    /* Always follows eval_begin, also after a failure: puts weights back, frees the state. */
    void (*eval_leave)(tl_trainer *t, void *state);
    /* (optional: false) Of the class that fills train_step: it keeps nothing of its own that would
     * have to be taken back with a step that is taken back. Others' steps are waited for. */
    bool in_flight;
    /* (optional) Before anything is built: may make what the task would build otherwise (model,
     * optimizer, datasets of the trainer). */
    tl_status (*prepare)(tl_trainer *t);
    /* (optional) Before a checkpoint is restored: may change what the trainer has, so that it fits.
     * `found` is what is in it: numbers with their values, tensors described. */
    tl_status (*before_restore)(tl_trainer *t, const tl_state *found);
} tl_trainer_class;
TL_API extern const tl_trainer_class tl_base_trainer;
TL_API extern const tl_kind tl_kind_trainer;

/* First member of every trainer's struct. Members are for reading; `global_step` may be written by
 * a class that overrides `train`. */
struct tl_trainer {
    const tl_trainer_class *cls;
    const tl_experiment_config *config; /* NULL: a trainer without a task */
    const tl_trainer_config *params;    /* its section `trainer` */
    tl_strategy *strategy;
    tl_engine *engine;
    tl_ctx *ctx;
    tl_task *task; /* NULL: none */
    tl_model *model;
    tl_optimizer *optimizer; /* NULL when it does not train */
    tl_dataset *train_dataset, *validation_dataset;
    tl_metrics *train_metrics, *validation_metrics; /* NULL when it does not train, or evaluate */
    tl_metric *train_loss, *validation_loss;        /* means: training_loss, validation_loss */
    tl_exporter *exporter;                          /* of the best checkpoint; NULL: none */
    int64_t global_step;
    uint64_t seed; /* in checkpoints: a resumed run has that of its start */
    /* what the last training step logged; valid until the next one, or a join that fails */
    const tl_tensors *outputs;
    double data_wait_s;      /* spent waiting for batches since the loop began */
    tl_trainer_parts *parts; /* the rest */
};

typedef struct tl_trainer_args {
    /* (optional: tl_base_trainer, or what the experiment is for: several tasks, multitask.h) */
    const tl_trainer_class *cls;
    /* (optional: none, for classes that override train and evaluate) */
    const tl_experiment_config *config;
    tl_strategy *strategy;
    tl_task *task; /* required where there is a config */
    /* (optional: the task builds it) taken over, also when this fails */
    tl_model *model;
    /* (optional: the task creates it) taken over as well; of that model */
    tl_optimizer *optimizer;
    /* (optional: the task builds them) taken over as well */
    tl_dataset *train_dataset, *validation_dataset;
    bool train, evaluate;
    tl_exporter *exporter; /* (optional: none) borrowed */
    uint64_t seed;
} tl_trainer_args;
TL_API TL_NODISCARD tl_status tl_trainer_new(tl_trainer **out, const tl_trainer_args *args);
/* NULL is fine. */
TL_API void tl_trainer_free(tl_trainer **t);

/* The methods, as the trainer's class has them. */
TL_API TL_NODISCARD tl_status tl_trainer_initialize(tl_trainer *t);
TL_API TL_NODISCARD tl_status tl_trainer_train(tl_trainer *t, int64_t steps, tl_logs *logs);
TL_API TL_NODISCARD tl_status tl_trainer_evaluate(tl_trainer *t, int64_t steps, tl_logs *logs);

/* All that a checkpoint holds. It belongs to the trainer; NULL when there is no memory for it. */
TL_API tl_state *tl_trainer_checkpoint(tl_trainer *t);
/* Takes from a checkpoint what evaluating needs, and leaves the rest. `path` is a file of ours, or
 * the prefix of a checkpoint of Model Garden. */
TL_API TL_NODISCARD tl_status tl_trainer_restore_to_evaluate(tl_trainer *t, const char *path);
/* Goes on where Model Garden stopped: weights, slots, averages, loss scale and step come from the
 * checkpoint with this prefix, under the names that the task has for them, and nothing is written
 * unless all of them are in it. What Model Garden does not keep stays as it is, with a line in the
 * log: positions in the data, metrics, hooks. */
TL_API TL_NODISCARD tl_status tl_trainer_restore_original(tl_trainer *t, const char *prefix);
/* Waits for the steps that the device still computes; there are none where it is the host. When one
 * of them has failed, or was not finite, that comes out here, and step, state and data are as
 * before it. */
TL_API TL_NODISCARD tl_status tl_trainer_join(tl_trainer *t);

/* --- in mid-run ------------------------------------------------------------------------------- */

/* Each takes over what it is given; programs are captured again. Where the model changes, the
 * optimizer must follow. The checkpoint's state is the same one, with the new parts in it. */
TL_API TL_NODISCARD tl_status tl_trainer_set_model(tl_trainer *t, tl_model **model,
                                                   tl_optimizer **optimizer);
TL_API TL_NODISCARD tl_status tl_trainer_set_train_dataset(tl_trainer *t, tl_dataset **data);
TL_API TL_NODISCARD tl_status tl_trainer_set_validation_dataset(tl_trainer *t, tl_dataset **data);

/* The programs of training and evaluation, for reports; NULL when they run eagerly. */
TL_API tl_function *tl_trainer_train_function(const tl_trainer *t);
TL_API tl_function *tl_trainer_eval_function(const tl_trainer *t);

/* --- between two steps ------------------------------------------------------------------------ */

/* Called by `train` after each step and by `evaluate` after each batch: hands control to who
 * watches the loop when something is due. False: leave the loop as it is, to be gone on with. */
TL_API bool tl_trainer_between(tl_trainer *t);

typedef struct tl_trainer_watch {
    /* False ends the loop. A failure is kept in *status, and ends it too. */
    bool (*step)(void *self, tl_trainer *t, tl_status *status);
    bool (*batch)(void *self, tl_trainer *t); /* (optional) in evaluations, when `wake` is not 0 */
    /* (optional) before each step; a failure ends the loop */
    tl_status (*before)(void *self, tl_trainer *t);
    void *self;
    int64_t due; /* the step at which `step` is to be called next; 0: at each */
    const volatile sig_atomic_t *wake; /* (optional) when it is not 0 something is due at once */
} tl_trainer_watch;
/* NULL: nobody watches. The struct is borrowed and may be changed. */
TL_API void tl_trainer_set_watch(tl_trainer *t, tl_trainer_watch *watch);

TL_END

#endif
