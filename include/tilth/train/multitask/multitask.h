/* Multi-task training: several tasks that share a model, or parts of one.
 *
 *     task:
 *       task_routines:
 *       - {task_name: kind, task_weight: 2.0, task_config: {...}}
 *       - {task_name: count, eval_steps: 10, task_config: {...}}
 *     trainer:
 *       trainer_type: interleaving
 *       task_sampler: {type: proportional, proportional: {alpha: 0.5}}
 *
 * In C one derives a task and says what the model of all of them is; which tasks there are the
 * experiment says, in its `fill`:
 *
 *     static tl_status my_net_build(tl_model *m, tl_scope *s, const void *config)
 *     {
 *         my_net *n = (my_net *)m;
 *         n->encoder = tl_dense(s, "encoder", .units = 32);     // shared
 *         tl_scope_part(s, tl_scope_layer(s, "kind", &my_head_class, n->encoder));
 *         tl_scope_part(s, tl_scope_layer(s, "count", &my_head_class, n->encoder));
 *         return tl_scope_status(s);
 *     }
 *     static const tl_task_class my_class = {
 *         .cls = TL_CLASS(tl_task_class, "my_tasks", &tl_multi_task_class.cls, tl_multi_task,
 *                         &my_config_desc),
 *         .build_model = my_build_model};
 *
 *     static tl_status my_fill(tl_experiment_config *e, tl_arena *arena)
 *     {
 *         tl_task_routine *r;
 *         tl_structs *list = &((tl_multi_task_config *)e->task.value)->task_routines;
 *         TL_TRY(tl_task_routines_add(&r, list, arena, "kind", &my_kind_desc));
 *         r->task_weight.value = 2;
 *         return tl_task_routines_add(&r, list, arena, "count", &my_count_desc);
 *     }
 *
 * A part of the model (tl_scope_part) has the name of its task; a model without parts serves all
 * tasks as it is. Where tasks are interleaved, each step is one task's: its batch, its train_step,
 * its metrics; what its part does not use stays as it is, slots included. Joint steps take a batch
 * of each task and lower the sum of weight times loss; as in Model Garden the model's own losses
 * (regularisers) are not in it. What is told is nested by task, and so are the folders of event
 * files: validation/kind.
 *
 * Which task a step has is drawn by the same numbers as in Model Garden, from the number of the
 * step alone; that stands in the checkpoint with the position of each task's data.
 *
 * Ownership: the task's, and the trainer's. Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_MULTITASK_H
#define TILTH_TRAIN_MULTITASK_H

#include <tilth/train/trainer/trainer.h>

TL_BEGIN

/* --- what is configured ----------------------------------------------------------------------- */

typedef struct tl_multi_task_config {
    tl_task_config base;      /* init_checkpoint and model; data are the tasks' */
    tl_structs task_routines; /* of tl_task_routine */
} tl_multi_task_config;

typedef enum tl_multi_task_trainer_type {
    TL_TASKS_INTERLEAVING, /* one task a step, which is drawn */
    TL_TASKS_JOINT         /* all in each step */
} tl_multi_task_trainer_type;

typedef struct tl_proportional_sample_config {
    double alpha; /* weights to this power are what is drawn by; 1 */
} tl_proportional_sample_config;
typedef struct tl_annealing_sample_config {
    int64_t steps_per_epoch, total_steps; /* 5, 20 */
} tl_annealing_sample_config;

typedef struct tl_multi_task_trainer_config {
    tl_trainer_config base;
    tl_multi_task_trainer_type trainer_type;
    tl_oneof task_sampler; /* uniform, proportional, annealing */
} tl_multi_task_trainer_config;

TL_API extern const tl_desc tl_multi_task_config_desc, tl_multi_task_trainer_config_desc,
    tl_proportional_sample_config_desc, tl_annealing_sample_config_desc;

/* Adds a routine to a list of them, for `fill` of experiments: task_config is a new one of that
 * description. The list is made anew in the arena, so earlier routines move. */
TL_API TL_NODISCARD tl_status tl_task_routines_add(tl_task_routine **out, tl_structs *list,
                                                   tl_arena *arena, const char *task_name,
                                                   const tl_desc *task_config);

/* --- the task --------------------------------------------------------------------------------- */

typedef struct tl_sub_task {
    const char *name; /* task_name, else that of its task_config, else that of its class */
    tl_task *task;
    double weight;
    int64_t eval_steps; /* 0: as many as all evaluations have */
} tl_sub_task;

/* First member of what derives from it. Members are for reading. */
typedef struct tl_multi_task {
    tl_task base;
    tl_sub_task *tasks; /* in the order of the configuration */
    int64_t count;
} tl_multi_task;
/* Its train_step is the joint one; `tasks` of the step says whose. What derives from it has a
 * build_model. */
TL_API extern const tl_task_class tl_multi_task_class;

/* --- drawing tasks ---------------------------------------------------------------------------- */

/* For each task the chance that it or one before it is drawn in this step; the last one is 1, but
 * for rounding. `sampler` is as in tl_multi_task_trainer_config. */
TL_API TL_NODISCARD tl_status tl_task_distribution(float *cumulative, const tl_oneof *sampler,
                                                   const double *weights, int64_t count,
                                                   int64_t step);
/* What is drawn for a step, in [0, 1): TensorFlow's stateless_uniform of the seed (0, step). */
TL_API float tl_task_draw(int64_t step);
/* The task that a draw falls on. */
TL_API int64_t tl_task_drawn(const float *cumulative, int64_t count, float draw);

/* --- trainers --------------------------------------------------------------------------------- */

/* Joint training; a run of an experiment with tl_multi_task_trainer_config has it, or the one
 * below, by trainer_type. Both evaluate one task after the other. */
TL_API extern const tl_trainer_class tl_multi_task_trainer;
TL_API extern const tl_trainer_class tl_interleaving_trainer;
/* Trains one task, and evaluates those of `eval_tasks`: runs of experiments that have some. */
TL_API extern const tl_trainer_class tl_multi_eval_trainer;

/* Tasks that a trainer trains or evaluates one by one, in their order; 0 and NULL for others. */
TL_API int64_t tl_trainer_task_count(const tl_trainer *t);
TL_API tl_task *tl_trainer_task(const tl_trainer *t, int64_t index);
/* In how many of the steps so far a task was drawn. TL_ENOTFOUND when there is none of that name. */
TL_API TL_NODISCARD tl_status tl_trainer_task_steps(int64_t *out, const tl_trainer *t,
                                                    const char *name);

TL_END

#endif
