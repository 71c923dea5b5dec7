/* Progressive training: a training in stages, each with a model, an optimizer and data of its own.
 *
 *     trainer:
 *       progressive:
 *         stages:
 *         - {num_steps: 200, task: {model: {input_size: [16, 16, 3]}}}
 *         - {num_steps: 400, optimizer_config: {learning_rate: {constant: {learning_rate: 0.001}}}}
 *
 * An experiment whose section `trainer` is tl_progressive_trainer_config is trained so, whatever its
 * task: a stage is the experiment with changes, and its model takes over from the one before all
 * weights of the same name and shape. In C a task may have a policy, which says all of it:
 *
 *     static tl_status my_get_model(tl_trainer *t, int64_t stage, tl_model *old, tl_model **out)
 *     {
 *         TL_TRY(my_build(t->task, stage, out));
 *         return old ? tl_model_take_over(*out, old, NULL) : TL_OK;
 *     }
 *     static const tl_progressive_policy my_policy = {
 *         .num_stages = my_num_stages, .num_steps = my_num_steps, .get_model = my_get_model,
 *         .get_optimizer = my_get_optimizer, .get_train_dataset = my_get_train_dataset,
 *         .get_eval_dataset = my_get_eval_dataset};
 *     static const tl_task_class my_class = {
 *         .cls = TL_CLASS(tl_task_class, "mine", &tl_base_task.cls, tl_task, &my_config_desc),
 *         .build_losses = my_build_losses, .policy = &my_policy};
 *
 * As in Model Garden, stages change at the ends of loops alone (steps_per_loop): steps of a loop
 * that reaches over an edge are the old stage's. An optimizer is new in each stage: slots and
 * learning rate begin again, unless its `offset` says otherwise. Evaluations are of the model and
 * the data of the stage. A checkpoint holds the number of its stage: whoever restores it goes to
 * that stage first, without the models before it.
 *
 * Ownership: the trainer's. Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_PROGRESSIVE_H
#define TILTH_TRAIN_PROGRESSIVE_H

#include <tilth/train/trainer/trainer.h>

TL_BEGIN

/* --- what is configured ----------------------------------------------------------------------- */

typedef struct tl_stage_config {
    int64_t num_steps;
    const tl_value *task;             /* NULL, or what differs from the section `task` */
    const tl_value *optimizer_config; /* NULL, or what differs from that of the trainer */
} tl_stage_config;

typedef struct tl_progressive_config {
    tl_structs stages; /* of tl_stage_config */
} tl_progressive_config;

typedef struct tl_progressive_trainer_config {
    tl_trainer_config base;
    tl_progressive_config *progressive; /* or NULL: the task has a policy */
    /* plain checkpoints beside those of the run, for who does not know of stages */
    bool export_checkpoint;
    tl_opt_int export_checkpoint_interval; /* null: checkpoint_interval */
    tl_opt_int export_max_to_keep;         /* null: max_to_keep */
    bool export_only_final_stage_ckpt;
} tl_progressive_trainer_config;
TL_API extern const tl_desc tl_stage_config_desc, tl_progressive_config_desc,
    tl_progressive_trainer_config_desc;

/* --- policies --------------------------------------------------------------------------------- */

struct tl_progressive_policy {
    int64_t (*num_stages)(const tl_trainer *t);
    int64_t (*num_steps)(const tl_trainer *t, int64_t stage);
    /* `old` is the model of the stage before, which goes afterwards; NULL at the start, and where a
     * checkpoint of this stage is restored. What is not carried over here is lost. */
    tl_status (*get_model)(tl_trainer *t, int64_t stage, tl_model *old, tl_model **out);
    tl_status (*get_optimizer)(tl_trainer *t, int64_t stage, tl_model *m, tl_optimizer **out);
    /* `old` as above. *out may be `old`: then it goes on where it stands. */
    tl_status (*get_train_dataset)(tl_trainer *t, int64_t stage, const tl_input_context *input,
                                   tl_dataset *old, tl_dataset **out);
    tl_status (*get_eval_dataset)(tl_trainer *t, int64_t stage, const tl_input_context *input,
                                  tl_dataset *old, tl_dataset **out);
    /* (optional: the same for all) Whose steps are run. */
    tl_task *(*get_task)(tl_trainer *t, int64_t stage);
};

/* Copies to a model all weights and statistics of another one that have the same path, and the same
 * shape, or one that their layer can be made to fit (tl_layer_class.fit). `count`, which may be
 * NULL, gets their number. */
TL_API TL_NODISCARD tl_status tl_model_take_over(tl_model *to, const tl_model *from,
                                                 int64_t *count);

/* --- the trainer ------------------------------------------------------------------------------ */

TL_API extern const tl_trainer_class tl_progressive_trainer;
/* The stage that it is in, and how many there are; 0 of 0 for other trainers. */
TL_API int64_t tl_trainer_stage(const tl_trainer *t);
TL_API int64_t tl_trainer_stage_count(const tl_trainer *t);
/* The stage that a step lies in; the last one also behind the end. */
TL_API int64_t tl_trainer_stage_of(const tl_trainer *t, int64_t step);

TL_END

#endif
