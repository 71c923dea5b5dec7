/* The hooks of LiBai's trainer: what it says, saves and evaluates while it trains. All work on the
 * event storage of the controller (storage.h), where each step's numbers are.
 *
 *     tl_hooks hooks = {0};
 *     TL_TRY(tl_hooks_add(&hooks, NULL, &tl_iteration_timer_hook, NULL));
 *     TL_TRY(tl_hooks_add(&hooks, NULL, &tl_lr_scheduler_hook,
 *                         &(tl_hook_args){.config = &(tl_lr_scheduler_config){.every = 20}}));
 *     TL_TRY(tl_hooks_add(&hooks, NULL, &tl_periodic_checkpointer_hook,
 *                         &(tl_hook_args){.period = 1000}));
 *     TL_TRY(tl_hooks_add(&hooks, NULL, &tl_eval_hook, &(tl_hook_args){.period = 500}));
 *     tl_best_checkpointer_config best = {.metric = "Acc@1"};
 *     TL_TRY(tl_hooks_add(&hooks, NULL, &tl_best_checkpointer_hook,
 *                         &(tl_hook_args){.period = 500, .config = &best}));
 *     TL_TRY(tl_hooks_add(&hooks, NULL, &tl_periodic_writer_hook,
 *                         &(tl_hook_args){.period = 20,
 *                                         .config = &(tl_periodic_writer_config){writers, 3}}));
 *
 * This order has its reasons: the timer comes first, so that it times the step alone; a checkpoint
 * before the evaluation, so that one that fails leaves it; writers last, so that they write what
 * the others put.
 *
 * Iterations count from 0, as in LiBai: step i + 1 is iteration i. A period is that of the hook's
 * arguments, in steps. Where a hook also does something at the end, that is when the training has
 * reached its last step, and not when it failed or was stopped before.
 *
 * The struct of each hook's objects is here, to begin that of a class which derives from it
 * (hook.h); its members are private to the hook.
 *
 * Ownership: the caller's. Configs are copied when a hook is made; what they point to is borrowed,
 * but for texts, which are copied too. Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_HOOKS_H
#define TILTH_TRAIN_HOOKS_H

#include <tilth/train/controller/actions.h>
#include <tilth/train/controller/controller.h>
#include <tilth/train/writers/writer.h>

TL_BEGIN

/* Puts the seconds that each step took as "time", which is smoothed; the first ones, which compile
 * and warm up, are left out. At the end it tells the speed, and how long it all took. */
typedef struct tl_iteration_timer_config {
    int64_t warmup; /* (optional: 3) the first step that is timed; negative: all are */
} tl_iteration_timer_config;
typedef struct tl_iteration_timer_counts {
    int64_t step;        /* that follows */
    int64_t done, timed; /* steps */
    int64_t begin_ns;    /* of the training, without what is not timed */
    int64_t in_steps_ns;
} tl_iteration_timer_counts;
enum { TL_TIMER_STEPS = 8 }; /* more than can be taken back at a time */
typedef struct tl_iteration_timer_instance {
    tl_hook base;
    int64_t warmup;
    tl_iteration_timer_counts now, before[TL_TIMER_STEPS]; /* the last steps, by their numbers */
    int64_t step_ns;                                       /* when this step began */
    tl_event_scalar *time;
} tl_iteration_timer_instance;
TL_API extern const tl_hook_class tl_iteration_timer_hook;

/* Puts the learning rate that a step uses as "lr", which is not smoothed. */
typedef struct tl_lr_scheduler_config {
    tl_optimizer *optimizer; /* (optional: the trainer's) */
    /* (optional: 1) steps; computing it takes some microseconds, and more often than it is written
     * is of no use. It is always put at the last step */
    int64_t every;
} tl_lr_scheduler_config;
typedef struct tl_lr_scheduler_instance {
    tl_hook base;
    tl_lr_scheduler_config config;
    tl_event_scalar *lr;
} tl_lr_scheduler_instance;
TL_API extern const tl_hook_class tl_lr_scheduler_hook;

/* Evaluates at its period, except at the last step, and at the end; puts all results into the
 * storage, those of logs within logs by their path, none of them smoothed. The last ones belong to
 * the iteration after the last. */
typedef struct tl_eval_config {
    /* (optional: tl_controller_evaluate of all examples) Fills the results. They are then handed to
     * the after_eval of all hooks, as those of the controller's evaluations are. */
    tl_status (*evaluate)(tl_controller *c, tl_logs *results, void *payload);
    void *payload;
    bool only_at_end, not_at_end;
} tl_eval_config;
typedef struct tl_eval_instance {
    tl_hook base;
    tl_eval_config config;
} tl_eval_instance;
TL_API extern const tl_hook_class tl_eval_hook;

/* Writes at its period and at the end, also of a training that failed; then closes the writers.
 * Checkpoints do not get ahead of what is on the disk. */
typedef struct tl_periodic_writer_config {
    tl_event_writer *const *writers; /* must outlive the hook */
    int64_t count;
} tl_periodic_writer_config;
typedef struct tl_periodic_writer_instance {
    tl_hook base;
    tl_periodic_writer_config config;
    int64_t written; /* the last iteration that was; -1: none */
} tl_periodic_writer_instance;
TL_API extern const tl_hook_class tl_periodic_writer_hook;

/* Saves checkpoints at its period and at the end, through the controller's manager, which says how
 * many are kept and must have an interval. Beside ckpt-STEP.safetensors lie
 *
 *     last_checkpoint           a text: "ckpt-STEP", the latest that is complete
 *     model_final.safetensors   the one at the end, under a second name: it stays when the other is
 *                               removed */
typedef struct tl_periodic_checkpointer_config {
    const char *final; /* (optional: "model_final") */
} tl_periodic_checkpointer_config;
typedef struct tl_periodic_checkpointer_instance {
    tl_hook base;
    const char *final;
    bool due;     /* at the end of this loop */
    bool ends;    /* the last one gets its second name when it is there */
    tl_str saved; /* the file that last_checkpoint is to name once it is complete; "": none */
} tl_periodic_checkpointer_instance;
TL_API extern const tl_hook_class tl_periodic_checkpointer_hook;

/* Gives the checkpoint with the best metric the name model_best.safetensors, likewise;
 * model_best.json tells of it, and a new process goes on from there. Looks at its period, except at
 * the last step, and at the end: its period is that of the evaluations, which come before it. */
typedef struct tl_best_checkpointer_config {
    const char *metric;  /* as it is in the storage; required */
    tl_metric_comp comp; /* (optional: higher is better) */
    const char *name;    /* (optional: "model_best") */
} tl_best_checkpointer_config;
typedef struct tl_best_checkpointer_instance {
    tl_hook base;
    const char *metric, *name;
    tl_metric_comp comp;
    bool due;   /* at the end of this loop */
    bool known; /* something is the best */
    double value;
    int64_t iteration;
    bool awaits; /* what was found is to be the best when its checkpoint is there */
    struct {
        int64_t step, iteration;
        double value;
    } found;
} tl_best_checkpointer_instance;
TL_API extern const tl_hook_class tl_best_checkpointer_hook;

/* Times every kernel of some training steps, and writes into a folder
 *
 *     profiler-trace-iterN.json   the last of them, for chrome://tracing and Perfetto
 *     profiler-report-iterN.txt   kernels by the time they took
 *
 * N is the iteration of the last one. What runs eagerly is not timed, which is warned of. */
typedef struct tl_profiler_config {
    const char *dir;      /* required; made when it is not there */
    int64_t first, steps; /* (optional: from step 10 on, 5 steps) */
} tl_profiler_config;
typedef struct tl_profiler_instance {
    tl_hook base;
    const char *dir;
    int64_t first, steps;
    tl_program *timed; /* NULL: none is */
    int64_t count;     /* steps that were timed */
    bool over;
} tl_profiler_instance;
TL_API extern const tl_hook_class tl_profiler_hook;

/* Puts the most memory that tensors have taken so far as "memory_bytes", which the console shows as
 * max_mem, and logs more of it. */
typedef struct tl_memory_stats_config {
    int64_t max_runs; /* (optional: 10) how often it logs; negative: never */
} tl_memory_stats_config;
typedef struct tl_memory_stats_instance {
    tl_hook base;
    int64_t max_runs, runs;
    tl_event_scalar *bytes;
} tl_memory_stats_instance;
TL_API extern const tl_hook_class tl_memory_stats_hook;

/* Puts at its period how fast the training is, by the times that the iteration timer and LiBai's
 * trainer have put (as "time" and "data_time"); the writers write it.
 *
 *     examples_per_second
 *     tokens_per_second    where the batch has a field of whole numbers [examples, length]
 *     data_wait            share of the time that was spent waiting for batches
 *     mfu                  share of the machine's peak that the model makes, where that is given
 *     memory_bytes         the most memory that tensors have taken so far */
typedef struct tl_throughput_config {
    int64_t window; /* (optional: 20) steps that are averaged */
    /* (optional: no mfu) additions and multiplications a second that the machine can do */
    double peak_flops;
} tl_throughput_config;
typedef struct tl_throughput_instance {
    tl_hook base;
    tl_throughput_config config;
    double flops; /* of one example in training; 0: is not known */
} tl_throughput_instance;
TL_API extern const tl_hook_class tl_throughput_hook;

TL_END

#endif
