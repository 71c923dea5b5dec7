/* LiBai's DefaultTrainer: task, trainer, hooks and writers put together from its configuration
 * (libai.h), and set going on the controller's loop.
 *
 *     tl_default_trainer *t = NULL;
 *     TL_TRY_DONE(st, tl_default_trainer_new(&t, &(tl_default_trainer_args){.registry = r,
 *                                                                           .config = config}));
 *     TL_TRY_DONE(st, tl_default_trainer_train(t));
 *     accuracy = tl_logs_number_or(t->last_eval_results, "accuracy", 0);
 * done:
 *     tl_default_trainer_free(&t);
 *
 * Each piece can be exchanged alone, by a class that derives from tl_default_trainer_class. Hooks
 * of one's own:
 *
 *     static tl_status build_hooks(tl_default_trainer *t)
 *     {
 *         TL_TRY(tl_base_default_trainer.build_hooks(t));                         // super
 *         return tl_hooks_add(&t->hooks, NULL, &my_hook, &(tl_hook_args){.period = 100});
 *     }
 *     static const tl_default_trainer_class mine = {
 *         .cls = TL_CLASS(tl_default_trainer_class, "mine", &tl_base_default_trainer.cls,
 *                         tl_default_trainer, NULL),
 *         .build_hooks = build_hooks};
 *
 * and another step: what LiBai calls run_step of its EagerTrainer and GraphTrainer is train_step of
 * tl_eager_trainer and tl_graph_trainer here.
 *
 *     typedef struct my_trainer { tl_libai_trainer base; double previous_loss; } my_trainer;
 *     static tl_status run_step(tl_trainer *t)
 *     {
 *         my_trainer *m = (my_trainer *)t;
 *         TL_TRY(tl_eager_trainer.train_step(t));                                      // super
 *         return tl_tensor_item(tl_tensors_peek(t->outputs, "total_loss"), &m->previous_loss);
 *     }
 *     static const tl_trainer_class my_eager = {
 *         .cls = TL_CLASS(tl_trainer_class, "my_eager", &tl_eager_trainer.cls, my_trainer, NULL),
 *         .train_step = run_step};
 *     ... .eager = &my_eager ...                                // in tl_default_trainer_args
 *
 * Files, all in train.output_dir:
 *
 *     ckpt-STEP.safetensors, checkpoint   checkpoints, and which there are
 *     last_checkpoint                     a text that names the latest: "ckpt-STEP"
 *     model_best.safetensors, .json       the one with the best metric
 *     model_final.safetensors             the one at the end
 *     metrics.json, events.out.tfevents.* what was told
 *     metrics.jsonl                       the same for programs, with all events (metrics_file.h)
 *     classes.txt                         names of classes, and other notes of the task (notes.h),
 *                                         which are in the metadata of checkpoints too
 *     config.yaml, log.txt                the configuration as it was used, and messages; both
 *                                         by tl_train_net
 *
 * A run that is not resumed begins anew: what an earlier one has left in the folder is moved into
 * previous-N in it. With train.resume and no checkpoint a run begins from the start. Nothing in the
 * folder changes before the run is accepted, data and checkpoint included; while it trains nobody
 * else may train there (TL_EEXISTS says who does).
 *
 * Ownership: the caller's; what is given is borrowed. Thread word: one run at a time in a process,
 * when signals are heeded. */
#ifndef TILTH_TRAIN_DEFAULT_TRAINER_H
#define TILTH_TRAIN_DEFAULT_TRAINER_H

#include <tilth/comm/world.h>
#include <tilth/nn/evaluator.h>
#include <tilth/train/hooks/hooks.h>
#include <tilth/train/libai/libai.h>

TL_BEGIN

/* --- trainers --------------------------------------------------------------------------------- */

/* First member of what derives from the two below. */
typedef struct tl_libai_trainer {
    tl_trainer base;
    tl_evaluator *evaluator; /* (optional: none) gets what validation steps log: what is named like
                              * a label as groundtruths, the rest as predictions. Borrowed */
    tl_tensors told;         /* what base.outputs points at */
    tl_event_storage *storage; /* that the handles are of */
    tl_event_scalar *data_time, *grad_norm;
} tl_libai_trainer;

/* The same step in two ways: operation by operation, whatever the configuration says; and as one
 * program. Into the current event storage they put, beside all scalars that the step logs,
 *
 *     total_loss   what the step minimised, over all of its batches; where it does not say, the sum
 *                  of what it logs under names with "loss" in them
 *     data_time    seconds that the step has waited for data
 *     grad_norm    of the gradients, before they are clipped
 *
 * and how many samples have been consumed. */
TL_API extern const tl_trainer_class tl_eager_trainer, tl_graph_trainer;

/* In a task's train_step: LiBai's dictionary of losses. Logs all of them, and minimises the sum of
 * those with "loss" in their names: all scalars, or all one value an example; `weights` as in
 * tl_step_minimize. */
TL_API void tl_step_minimize_dict(tl_step *s, const tl_tensors *losses, tl_tensor *weights);

/* --- the default trainer ---------------------------------------------------------------------- */

typedef struct tl_default_trainer tl_default_trainer;

/* Called in this order when a trainer is made. What is not needed (test loader without evaluation,
 * everything of training when it only evaluates) is not built. */
typedef struct tl_default_trainer_class {
    tl_class cls;
    tl_status (*build_task)(tl_default_trainer *t, tl_task **out);
    tl_status (*build_train_loader)(tl_default_trainer *t, tl_dataset **out);
    tl_status (*build_test_loader)(tl_default_trainer *t, tl_dataset **out);
    /* Examples of an epoch; asked when epochs are counted. Base: tilth.train_examples, or what the
     * training data says when it is read once. */
    tl_status (*train_examples)(tl_default_trainer *t, int64_t *out);
    /* Base: tl_libai_auto_scale. */
    tl_status (*auto_scale_hyperparams)(tl_default_trainer *t);
    tl_status (*build_model)(tl_default_trainer *t, tl_model **out);
    /* The schedule is a part of the optimizer's program, so it comes first. Base:
     * tl_libai_schedule. */
    tl_status (*build_lr_scheduler)(tl_default_trainer *t, tl_optimization_config *into);
    /* Of t->model, with t->optimization, which it may change. Base: tl_libai_optimizer, and the
     * groups of optim.params. */
    tl_status (*build_optimizer)(tl_default_trainer *t, tl_optimizer **out);
    /* *out may be NULL, as the base's is: the task has metrics of its own. */
    tl_status (*build_evaluator)(tl_default_trainer *t, tl_evaluator **out);
    /* Takes over t->model, t->optimizer and the loaders. Base: an eager or a graph trainer, as
     * graph.enabled says. */
    tl_status (*build_trainer)(tl_default_trainer *t, tl_trainer **out);
    tl_status (*build_checkpointer)(tl_default_trainer *t, tl_checkpoint_manager **out);
    /* Adds hooks to t->hooks, which are called in this order. Base: timer, learning rate, metrics
     * of training, metrics.jsonl, checkpoints, evaluation, best checkpoint, writers. */
    tl_status (*build_hooks)(tl_default_trainer *t);
    /* Adds writers, with tl_default_trainer_add_writer. Called by build_hooks. Base: console,
     * metrics.json, TensorBoard. */
    tl_status (*build_writers)(tl_default_trainer *t);
    /* Evaluates. Base: train.evaluation.eval_iter batches, at most, of the test loader. */
    tl_status (*test)(tl_default_trainer *t, tl_logs *results);
} tl_default_trainer_class;
TL_API extern const tl_default_trainer_class tl_base_default_trainer;

typedef struct tl_event_writers {
    tl_event_writer **items;
    int64_t count, capacity;
} tl_event_writers;

/* First member of what derives from it. Members are for reading. */
struct tl_default_trainer {
    const tl_default_trainer_class *cls;
    const tl_registry *registry;
    tl_libai_config *config; /* a copy, with what was filled in and scaled */
    const tl_trainer_class *eager, *graph;
    bool eval_only, heed_signals;
    tl_status (*add_hooks)(tl_default_trainer *t, void *payload); /* NULL: none */
    void *hooks_payload;
    tl_experiment_config *experiment;     /* the same in the words of trainers and tasks */
    tl_optimization_config *optimization; /* a part of it */
    tl_strategy *strategy;
    tl_task *task;
    tl_dataset *train_loader, *test_loader; /* these four are NULL once the trainer has them */
    tl_model *model;
    tl_optimizer *optimizer;
    tl_trainer *trainer;
    tl_evaluator *evaluator;             /* or NULL */
    tl_checkpoint_manager *checkpointer; /* NULL: nothing is saved or restored */
    tl_hooks hooks;
    tl_event_writers writers;
    tl_hook *metrics_file; /* one of the hooks, or NULL */
    tl_controller *controller;
    int64_t start_iter, max_iter, global_batch_size;
    tl_logs *last_eval_results; /* empty before the first evaluation */
    tl_arena *arena;            /* lives as long as the trainer */
    /* what the run keeps beside config.yaml; empty when it only evaluates */
    tl_notes notes;
    struct tli_run_folder *folder;
    struct tli_libai_tests *tests; /* test loaders behind the first; NULL: there are none */
};

typedef struct tl_default_trainer_args {
    const tl_default_trainer_class *cls; /* (optional: tl_base_default_trainer) */
    const tl_registry *registry;         /* knows the task */
    const tl_libai_config *config;
    bool eval_only;    /* to be tested, with the weights of train.load_weight, or of the run when
                          train.resume */
    bool fast_dev_run; /* a few steps, to see whether everything is there */
    const tl_trainer_class *eager, *graph; /* (optional: tl_eager_trainer, tl_graph_trainer) */
    bool heed_signals;                     /* as in tl_controller_args */
    /* (optional: this one is alone) The processes that share the work; borrowed. Rank 0 writes. */
    tl_world *world;
    /* (optional: none) Adds to t->hooks, before the writers; called by the base's build_hooks. */
    tl_status (*add_hooks)(tl_default_trainer *t, void *payload);
    void *hooks_payload;
} tl_default_trainer_args;
/* Builds everything, and restores a checkpoint or loads weights. */
TL_API TL_NODISCARD tl_status tl_default_trainer_new(tl_default_trainer **out,
                                                     const tl_default_trainer_args *args);
/* NULL is fine. */
TL_API void tl_default_trainer_free(tl_default_trainer **t);

/* Until train_iter. TL_ESTOPPED when a signal ended it before. */
TL_API TL_NODISCARD tl_status tl_default_trainer_train(tl_default_trainer *t);
/* Evaluates now, tells the results, and keeps their numbers as last_eval_results. `results`, which
 * may be NULL, must not outlive the trainer. */
TL_API TL_NODISCARD tl_status tl_default_trainer_test(tl_default_trainer *t, tl_logs *results);

/* For build_writers: makes a writer that belongs to the trainer. */
TL_API TL_NODISCARD tl_status tl_default_trainer_add_writer(tl_default_trainer *t,
                                                            const tl_event_writer_class *cls,
                                                            const void *args);

/* Puts what the task's metrics have come to as "train/NAME" into the event storage, at its period,
 * and begins them anew. */
TL_API extern const tl_hook_class tl_train_metrics_hook;

/* --- train_net -------------------------------------------------------------------------------- */

/* LiBai's flags, with its names: --config-file, --resume, --eval-only, --fast-dev-run. */
typedef struct tl_train_net_flags {
    const char *config_file; /* "": the defaults */
    bool resume, eval_only, fast_dev_run;
} tl_train_net_flags;
TL_API extern const tl_desc tl_train_net_flags_desc;

typedef struct tl_train_net_args {
    const tl_registry *registry;
    tl_config *config; /* of tl_libai_begin, not yet finished; it then is */
    const tl_train_net_flags *flags;
    const tl_default_trainer_args *trainer; /* (optional) classes that differ from the usual */
} tl_train_net_args;
/* What `tilth train_net` does: output_dir with log.txt and config.yaml in it, then training or
 * testing, shared with the processes that were started with this one. A run that is refused leaves
 * neither. `results`, which may be NULL, are those of the last evaluation. */
TL_API TL_NODISCARD tl_status tl_train_net(tl_logs *results, const tl_train_net_args *args);

TL_END

#endif
