/* The trainer of a training in stages. */
#include <inttypes.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>

#include "train/trainer/trainer.h"

#define STAGE_ID "stage_id"
#define EXPORTS "exported_ckpts"

static tli_stages *stages_of(const tl_trainer *t)
{
    return &t->parts->stages;
}

static const tl_progressive_trainer_config *config_of(const tl_trainer *t)
{
    return t->config->trainer.value;
}

int64_t tl_trainer_stage(const tl_trainer *t)
{
    return stages_of(t)->stage;
}

int64_t tl_trainer_stage_count(const tl_trainer *t)
{
    const tl_progressive_policy *policy = stages_of(t)->policy;
    return policy ? policy->num_stages(t) : 0;
}

int64_t tl_trainer_stage_of(const tl_trainer *t, int64_t step)
{
    const tl_progressive_policy *policy = stages_of(t)->policy;
    int64_t last = tl_trainer_stage_count(t) - 1;
    for (int64_t i = 0; i <= last; i++) {
        step -= policy->num_steps(t, i);
        if (step < 0) return i;
    }
    if (step > 0 && policy)
        TL_LOG_ONCE(TL_LEVEL_WARNING,
                    "the stages are over, and the training is not: it goes on in the last one");
    return last > 0 ? last : 0;
}

/* --- plain checkpoints ------------------------------------------------------------------------ */

static void close_exports(tli_stages *s)
{
    tl_checkpoint_manager_free(&s->exports);
    tl_state_free(&s->exported);
}

void tli_stages_deinit(tli_stages *s)
{
    close_exports(s);
    tli_stages_close(s);
    tl_str_deinit(&s->folder);
}

static tl_status open_exports(tl_trainer *t)
{
    tli_stages *s = stages_of(t);
    const tl_progressive_trainer_config *c = config_of(t);
    const tl_opt_int *interval = &c->export_checkpoint_interval, *most = &c->export_max_to_keep;
    tl_state *sub;
    tl_arena *arena;
    TL_TRY(tl_state_new(&s->exported));
    TL_TRY(tl_state_bind_int(s->exported, "global_step", &t->global_step));
    TL_TRY(tl_state_sub(&sub, s->exported, "model"));
    TL_TRY(tl_model_state(t->model, sub));
    TL_TRY(tl_state_sub(&sub, s->exported, "optimizer"));
    TL_TRY(tl_optimizer_state(t->optimizer, sub));
    TL_TRY(tl_arena_new(&arena));
    const char *folder = tl_path_join(arena, tl_str_text(&s->folder), EXPORTS);
    tl_status st = TL_ENOMEM;
    if (folder)
        st = tl_checkpoint_manager_new(
            &s->exports,
            &(tl_checkpoint_manager_args){.directory = folder,
                                          .state = s->exported,
                                          .step = &t->global_step,
                                          .interval = interval->set ? interval->value
                                                                    : c->base.checkpoint_interval,
                                          .max_to_keep = most->set ? *most : c->base.max_to_keep});
    tl_arena_free(&arena);
    return st;
}

static tl_status maybe_export(tl_trainer *t)
{
    tli_stages *s = stages_of(t);
    const tl_progressive_trainer_config *c = config_of(t);
    bool last = s->stage == tl_trainer_stage_count(t) - 1;
    if (!c->export_checkpoint || !s->folder.length) return TL_OK;
    if (c->export_only_final_stage_ckpt && !last) return TL_OK;
    if (!s->exports) {
        tl_status st = open_exports(t);
        if (st != TL_OK) close_exports(s);
        TL_TRY_NOTE(st, EXPORTS);
    }
    bool at_end = t->global_step >= c->base.train_steps;
    TL_TRY_NOTE(tl_checkpoint_manager_save(s->exports, !at_end, NULL), EXPORTS);
    return TL_OK;
}

/* --- stages ----------------------------------------------------------------------------------- */

static tl_input_context input_of(const tl_trainer *t)
{
    return (tl_input_context){
        .pipelines = 1, .replicas = tl_strategy_replicas(t->strategy), .seed = t->seed};
}

/* What a stage is made of, before anything of the one before it goes. */
typedef struct pieces {
    tl_model *model;
    tl_optimizer *optimizer;
    tl_dataset *train, *eval;
} pieces;

static void pieces_free(pieces *p, const tl_trainer *t)
{
    if (p->train != t->train_dataset) tl_dataset_free(&p->train);
    if (p->eval != t->validation_dataset) tl_dataset_free(&p->eval);
    tl_optimizer_free(&p->optimizer);
    tl_model_free(&p->model);
}

static bool keeps_averages(const tl_trainer *t, int64_t stage)
{
    const tli_stages *s = stages_of(t);
    const tl_experiment_config *e = s->count ? s->items[stage].params : t->config;
    return ((const tl_trainer_config *)e->trainer.value)->optimizer_config.ema != NULL;
}

static tl_status make_pieces(pieces *out, tl_trainer *t, int64_t stage, bool from_before)
{
    const tl_progressive_policy *policy = stages_of(t)->policy;
    const tl_input_context input = input_of(t);
    TL_TRY(policy->get_model(t, stage, from_before ? t->model : NULL, &out->model));
    // who only evaluates needs the optimizer for the averages that it keeps
    if (t->parts->trains || keeps_averages(t, stage))
        TL_TRY(policy->get_optimizer(t, stage, out->model, &out->optimizer));
    if (t->parts->trains)
        TL_TRY(policy->get_train_dataset(t, stage, &input, from_before ? t->train_dataset : NULL,
                                         &out->train));
    if (t->parts->evaluates)
        TL_TRY(policy->get_eval_dataset(t, stage, &input,
                                        from_before ? t->validation_dataset : NULL, &out->eval));
    return TL_OK;
}

static void take_task(tl_trainer *t, int64_t stage)
{
    const tl_progressive_policy *policy = stages_of(t)->policy;
    if (policy->get_task) t->task = policy->get_task(t, stage);
    stages_of(t)->stage = stage;
}

static tl_status enter(tl_trainer *t, int64_t stage, bool from_before)
{
    pieces p = {0};
    tl_status st = make_pieces(&p, t, stage, from_before);
    if (st != TL_OK) {
        pieces_free(&p, t);
        return tl_error_note(st, "stage %" PRId64, stage);
    }
    close_exports(stages_of(t)); // they hold what goes now
    take_task(t, stage);
    TL_TRY_DONE(st, tl_trainer_set_model(t, &p.model, p.optimizer ? &p.optimizer : NULL));
    if (p.train) TL_TRY_DONE(st, tl_trainer_set_train_dataset(t, &p.train));
    if (p.eval) TL_TRY_DONE(st, tl_trainer_set_validation_dataset(t, &p.eval));
done:
    if (st != TL_OK) pieces_free(&p, t);
    return st;
}

/* --- methods ---------------------------------------------------------------------------------- */

static tl_status find_policy(tl_trainer *t)
{
    tli_stages *s = stages_of(t);
    const tl_task_class *with = TL_CLASS_METHOD(tl_task_class, t->task->cls, policy);
    if (!tl_desc_is(t->config->trainer.desc, &tl_progressive_trainer_config_desc))
        return TL_FAIL(TL_EINVAL,
                       "the trainer '%s' needs a section `trainer` of its own: let the experiment "
                       "have tl_progressive_trainer_config_desc",
                       t->cls->cls.name);
    const tl_progressive_config *config = config_of(t)->progressive;
    if (config) {
        s->policy = &tli_staged_policy;
        return tli_stages_open(t, config);
    }
    if (!with)
        return TL_FAIL(TL_EINVAL,
                       "trainer.progressive is null, and the task '%s' has no stages of its own: "
                       "say which there are, in trainer.progressive.stages",
                       t->task->name);
    s->policy = with->policy;
    if (s->policy->num_stages(t) > 0) return TL_OK;
    return TL_FAIL(TL_EINVAL, "the policy of the task '%s' has no stages", t->task->name);
}

static tl_status prepare(tl_trainer *t)
{
    pieces p = {0};
    if (t->model || t->optimizer || t->train_dataset || t->validation_dataset)
        return TL_FAIL(TL_EINVAL,
                       "the trainer '%s' makes models, optimizers and datasets itself: they are "
                       "those of its stages",
                       t->cls->cls.name);
    TL_TRY(find_policy(t));
    tl_status st = make_pieces(&p, t, 0, false);
    t->model = p.model;
    t->optimizer = p.optimizer;
    t->train_dataset = p.train;
    t->validation_dataset = p.eval;
    if (st != TL_OK) return tl_error_note(st, "stage 0");
    take_task(t, 0);
    return TL_OK;
}

static tl_status state(tl_trainer *t, tl_state *into)
{
    return tl_state_bind_int(into, STAGE_ID, &stages_of(t)->stage);
}

static tl_status train_loop_end(tl_trainer *t, tl_logs *logs)
{
    int64_t next;
    TL_TRY(tl_base_trainer.train_loop_end(t, logs));
    TL_TRY(tl_logs_put(logs, "stage", (double)tl_trainer_stage(t)));
    TL_TRY(maybe_export(t));
    next = tl_trainer_stage_of(t, t->global_step);
    if (next == tl_trainer_stage(t)) return TL_OK;
    TL_LOG_INFO("step %" PRId64 ": stage %" PRId64 " of %" PRId64 " begins", t->global_step, next,
                tl_trainer_stage_count(t));
    return enter(t, next, true);
}

/* The stage that the checkpoint is of; one that does not say it is of the stage of its step. */
static tl_status before_restore(tl_trainer *t, const tl_state *found)
{
    tl_state_entry e;
    int64_t stage = 0;
    if (tl_state_find(&e, found, STAGE_ID) && e.kind == TL_STATE_INT) stage = e.i;
    else if (tl_state_find(&e, found, "global_step") && e.kind == TL_STATE_INT)
        stage = tl_trainer_stage_of(t, e.i);
    if (stage < 0 || stage >= tl_trainer_stage_count(t))
        return TL_FAIL(TL_EINVAL,
                       "the checkpoint is of stage %" PRId64 " (from 0 on), and there are %" PRId64
                       " stages: trainer.progressive is that of another training",
                       stage, tl_trainer_stage_count(t));
    return stage == tl_trainer_stage(t) ? TL_OK : enter(t, stage, false);
}

const tl_trainer_class tl_progressive_trainer = {
    .cls = {.class_size = sizeof(tl_trainer_class),
            .name = "ProgressiveTrainer",
            .base = &tl_base_trainer.cls,
            .size = sizeof(tl_trainer),
            .help = "a training in stages, each with a model, an optimizer and data of its own"},
    .prepare = prepare,
    .state = state,
    .train_loop_end = train_loop_end,
    .before_restore = before_restore,
};
