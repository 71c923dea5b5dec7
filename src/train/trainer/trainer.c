#include "train/trainer/trainer.h"

#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/nn/layers.h>
#include <tilth/nn/metrics.h>
#include <tilth/sys/core/device.h>

/* --- the class -------------------------------------------------------------------------------- */

static tl_status base_initialize(tl_trainer *t)
{
    return t->task ? tl_task_initialize(t->task, t->model) : TL_OK;
}

const tl_trainer_class tl_base_trainer = {
    .cls = {.class_size = sizeof(tl_trainer_class),
            .name = "Trainer",
            .size = sizeof(tl_trainer),
            .help = "the training loop that tasks are run by"},
    .initialize = base_initialize,
    .train = tli_train,
    .evaluate = tli_evaluate,
    .train_loop_begin = tli_train_loop_begin,
    .next_train_inputs = tli_next_train_inputs,
    .train_step = tli_train_step,
    .train_loop_end = tli_train_loop_end,
    .eval_begin = tli_eval_begin,
    .next_eval_inputs = tli_next_eval_inputs,
    .eval_step = tli_eval_step,
    .eval_reduce = tli_eval_reduce,
    .eval_end = tli_eval_end,
    .eval_leave = tli_eval_leave,
    .in_flight = true,
};

const tl_kind tl_kind_trainer = {
    .name = "trainer",
    .plural = "trainers",
    .help = "a training loop",
    .class_size = sizeof(tl_trainer_class),
    .names_are_keys = true,
    TL_INSTANCE(tl_trainer),
};

/* --- making ----------------------------------------------------------------------------------- */

static tl_status build_model(tl_trainer *t)
{
    const tl_optimization_config *o = &t->params->optimizer_config;
    if (!t->model) TL_TRY(tl_task_build_model(t->task, &t->model));
    // Who only evaluates needs the optimizer for the averages that it keeps; stages know theirs.
    if (t->optimizer || t->parts->stages.policy || (!t->parts->trains && !o->ema)) return TL_OK;
    return tl_task_create_optimizer(t->task, t->model, o, &t->config->runtime, &t->optimizer);
}

/* Batches come to the device by themselves. */
tl_status tli_trainer_feed(tl_trainer *t, tl_dataset **dataset, int64_t batches)
{
    const tl_lane_run run = tl_strategy_run(t->strategy);
    const tl_batch_share own = {.of = tl_strategy_replicas(t->strategy) * batches,
                                .first = run.first * batches,
                                .count = run.count * batches};
    TL_TRY(tl_dataset_share(dataset, dataset, own));
    return tl_dataset_to_device(dataset, dataset, t->engine);
}

static tl_status build_train(tl_trainer *t)
{
    tl_input_context input = {
        .pipelines = 1, .replicas = tl_strategy_replicas(t->strategy), .seed = t->seed};
    TL_TRY(tl_metrics_new(&t->train_metrics, t->engine));
    TL_TRY(tl_task_build_metrics(t->task, true, t->train_metrics));
    TL_TRY(tl_metric_new(&t->train_loss, t->engine, &tl_metric_mean, NULL, "training_loss"));
    if (t->parts->subjects.trained) TL_TRY(tli_subjects_build_train(t));
    if (t->train_dataset) return tli_trainer_feed(t, &t->train_dataset, t->parts->accumulation);
    if (!t->task->config || !t->task->config->train_data)
        return TL_FAIL(TL_EINVAL, "there is nothing to train with: task.train_data is null");
    const int64_t batch = t->task->config->train_data->global_batch_size / input.replicas;
    TL_TRY(tli_check_batch_memory(t->model, t->parts->keys, batch, tli_batch_memory(t->engine)));
    TL_TRY(tl_task_build_inputs(t->task, t->task->config->train_data, &input, &t->train_dataset));
    return tli_trainer_feed(t, &t->train_dataset, t->parts->accumulation);
}

static tl_status build_evaluate(tl_trainer *t)
{
    tl_input_context input = {
        .pipelines = 1, .replicas = tl_strategy_replicas(t->strategy), .seed = t->seed};
    if (t->parts->subjects.count) return tli_subjects_build_evaluate(t);
    TL_TRY(tl_metrics_new(&t->validation_metrics, t->engine));
    TL_TRY(tl_task_build_metrics(t->task, false, t->validation_metrics));
    TL_TRY(tl_metric_new(&t->validation_loss, t->engine, &tl_metric_mean, NULL, "validation_loss"));
    TL_TRY(tli_trainer_lanes_of_metrics(t, &t->parts->eval_lanes, &t->parts->eval_guard,
                                        t->validation_metrics, t->validation_loss));
    if (t->validation_dataset) return tli_trainer_feed(t, &t->validation_dataset, 1);
    if (!t->task->config || !t->task->config->validation_data)
        return TL_FAIL(TL_EINVAL,
                       "there is nothing to evaluate with: task.validation_data is null");
    TL_TRY(tl_task_build_inputs(t->task, t->task->config->validation_data, &input,
                                &t->validation_dataset));
    return tli_trainer_feed(t, &t->validation_dataset, 1);
}

static tl_function_args function_args(const tl_trainer *t)
{
    return (tl_function_args){
        .engine = t->engine, .interpret = !t->config->tilth.jit, .optimize = &t->parts->optimize};
}

static tl_status make_function(tl_trainer *t, tl_function **out, const char *name,
                               tl_graph_fn *body, void *self)
{
    tl_function_args args = function_args(t);
    args.name = name;
    args.body = body;
    args.self = self;
    return tl_function_new(out, &args);
}

static tl_status build_functions(tl_trainer *t)
{
    tl_trainer_parts *p = t->parts;
    bool eager = t->config->runtime.run_eagerly;
    p->optimize.recompute = t->config->tilth.recompute;
    if (p->trains && t->params->train_tf_function && !eager) {
        TL_TRY(make_function(t, &p->train, "train_step", tli_train_body, t));
        if (p->sums) TL_TRY(make_function(t, &p->apply, "apply", tli_apply_body, t));
    }
    if (!p->evaluates || !t->params->eval_tf_function || eager) return TL_OK;
    for (int64_t i = 0; i < p->subjects.count; i++)
        TL_TRY(make_function(t, &p->subjects.items[i].eval, "eval_step", tli_subject_eval_body,
                             &p->subjects.items[i]));
    return p->subjects.count ? TL_OK : make_function(t, &p->eval, "eval_step", tli_eval_body, t);
}

static tl_status guard_subjects(tl_trainer *t, tli_guard *g)
{
    const tli_subjects *all = &t->parts->subjects;
    for (int64_t i = 0; all->trained && i < all->count; i++) {
        const tli_subject *s = &all->items[i];
        TL_TRY(tli_guard_add_all(g, t->engine, &s->train_loss->states));
        for (int64_t k = 0; k < tl_metrics_count(s->train_metrics); k++)
            TL_TRY(tli_guard_add_all(g, t->engine, &tl_metrics_at(s->train_metrics, k)->states));
    }
    return TL_OK;
}

/* With one batch a step, running statistics wait for the flag; with several they are moved by
 * each. */
static tl_status build_guard(tl_trainer *t)
{
    tli_guard *g = &t->parts->guard;
    tli_guard_deinit(g);
    t->parts->unfinished = false; // nothing is kept that could be put back
    if (!t->train_loss) return TL_OK;
    TL_TRY(tli_guard_add_all(g, t->engine, &t->train_loss->states));
    for (int64_t i = 0; i < tl_metrics_count(t->train_metrics); i++)
        TL_TRY(tli_guard_add_all(g, t->engine, &tl_metrics_at(t->train_metrics, i)->states));
    TL_TRY(guard_subjects(t, g));
    for (int64_t i = 0; t->parts->sums && i < tl_model_block_count(t->model); i++)
        if (tl_model_block(t->model, i)->state)
            TL_TRY(tli_guard_add(g, t->engine, tl_model_block(t->model, i)->values, true));
    return TL_OK;
}

tl_status tli_trainer_share_out(const tl_trainer *t)
{
    const tli_peers *p = tli_strategy_peers(t->strategy);
    if (!p || !t->config->tilth.zero) return TL_OK; // alone there is nobody to share with
    if (t->parts->stages.policy && !tl_optimizer_is_shared(t->optimizer))
        TL_TRY(tl_comm_unshare(p->all->comm)); // what the stage before had is gone
    TL_TRY_NOTE(tl_optimizer_share(t->optimizer, p->all, t->config->tilth.zero), "tilth.zero");
    return TL_OK;
}

static tl_status build_lanes(tl_trainer *t)
{
    const tl_function_args args = function_args(t);
    const bool eager = t->config->runtime.run_eagerly || !t->params->train_tf_function;
    if (!t->parts->trains || !t->optimizer) return TL_OK;
    TL_TRY(tli_lanes_init(&t->parts->lanes, t->strategy, &t->parts->guard, t->optimizer, t->engine,
                          eager ? NULL : &args));
    // The chief enters a stage when it looks for a checkpoint, before the others: then with a step.
    return t->parts->stages.policy ? TL_OK : tli_trainer_share_out(t);
}

static int64_t count_states(const tl_metrics *metrics, const tl_metric *loss)
{
    int64_t count = loss->states.count;
    for (int64_t i = 0; i < tl_metrics_count(metrics); i++)
        count += tl_metrics_at(metrics, i)->states.count;
    return count;
}

tl_status tli_trainer_lanes_of_metrics(tl_trainer *t, tli_lanes *lanes, tli_guard *guard,
                                       const tl_metrics *metrics, const tl_metric *loss)
{
    const tl_function_args args = function_args(t);
    const bool eager = t->config->runtime.run_eagerly || !t->params->eval_tf_function;
    if (tl_strategy_replicas(t->strategy) == 1 || guard->count == count_states(metrics, loss))
        return TL_OK;
    tli_lanes_deinit(lanes);
    tli_guard_deinit(guard);
    TL_TRY(tli_guard_add_all(guard, t->engine, &loss->states));
    for (int64_t i = 0; i < tl_metrics_count(metrics); i++)
        TL_TRY(tli_guard_add_all(guard, t->engine, &tl_metrics_at(metrics, i)->states));
    return tli_lanes_init(lanes, t->strategy, guard, NULL, t->engine, eager ? NULL : &args);
}

static tl_status count_batches(tl_trainer *t)
{
    tl_trainer_parts *p = t->parts;
    const int64_t lanes = tl_strategy_replicas(t->strategy);
    p->accumulation = t->config->tilth.gradient_accumulation;
    p->batches = p->accumulation * tl_strategy_run(t->strategy).count;
    p->sums = p->accumulation > 1 || lanes > 1;
    // The strategy may be somebody else's than the configuration's.
    if (lanes == t->config->tilth.lanes) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "tilth.lanes is %" PRId64 ", but the strategy of the trainer has %" PRId64
                   ": give the configuration's to tl_get_distribution_strategy",
                   t->config->tilth.lanes, lanes);
}

static tl_status build(tl_trainer *t)
{
    TL_TRY(tl_ctx_new(&t->ctx, t->engine));
    if (!t->task != !t->config)
        return TL_FAIL(TL_EINVAL,
                       "the trainer '%s' was given a %s without a %s: it takes both or none",
                       t->cls->cls.name, t->task ? "task" : "config", t->task ? "config" : "task");
    if (t->task) {
        TL_TRY(count_batches(t));
        const tl_trainer_class *own = TL_CLASS_METHOD(tl_trainer_class, t->cls, prepare);
        if (own) TL_TRY(own->prepare(t));
        TL_TRY(build_model(t));
        TL_TRY(tli_subjects_bind(t));
        if (t->parts->trains) TL_TRY(build_train(t));
        if (t->parts->evaluates) TL_TRY(build_evaluate(t));
        TL_TRY(build_guard(t));
        TL_TRY(tli_flight_init(t));
        TL_TRY(build_functions(t));
        TL_TRY(build_lanes(t));
        if (t->optimizer) tl_optimizer_set_accumulating(t->optimizer, t->parts->sums);
    }
    const tl_trainer_class *with = TL_CLASS_METHOD(tl_trainer_class, t->cls, start);
    return with ? with->start(t) : TL_OK;
}

/* A trainer with nothing in it but its class. */
static tl_status allocate(tl_trainer **out, const tl_trainer_class *cls)
{
    size_t size;
    *out = NULL;
    TL_TRY(tl_class_instance_size(&size, &tl_kind_trainer, &cls->cls));
    tl_trainer *t = tl_alloc_zero(size);
    tl_trainer_parts *parts = tl_alloc_zero(sizeof *parts);
    if (!t || !parts) {
        tl_free(t);
        tl_free(parts);
        return TL_FAIL_NOMEM(size);
    }
    t->cls = cls;
    t->parts = parts;
    *out = t;
    return TL_OK;
}

tl_status tl_trainer_new(tl_trainer **out, const tl_trainer_args *args)
{
    tl_trainer *t;
    tl_status st = allocate(&t, args->cls ? args->cls : tli_usual_trainer(args->config));
    *out = NULL;
    if (st != TL_OK) {
        tl_trainer_args given = *args;
        tl_optimizer_free(&given.optimizer);
        tl_model_free(&given.model);
        tl_dataset_free(&given.train_dataset);
        tl_dataset_free(&given.validation_dataset);
        return st;
    }
    t->config = args->config;
    t->params = args->config ? args->config->trainer.value : NULL;
    t->strategy = args->strategy;
    t->engine = tl_strategy_engine(args->strategy);
    t->task = args->task;
    t->model = args->model;
    t->optimizer = args->optimizer;
    t->train_dataset = args->train_dataset;
    t->validation_dataset = args->validation_dataset;
    t->exporter = args->exporter;
    t->seed = args->seed;
    t->parts->trains = args->train;
    t->parts->evaluates = args->evaluate;
    t->parts->accumulation = t->parts->batches = 1;
    t->parts->keys = tli_own_keys;
    st = build(t);
    if (st != TL_OK) tl_trainer_free(&t);
    *out = t;
    return st;
}

static void forget_position(tl_trainer *t)
{
    tl_state_free(&t->parts->position);
    tl_state_free(&t->parts->position_then);
}

void tl_trainer_free(tl_trainer **trainer)
{
    tl_trainer *t = *trainer;
    if (!t) return;
    const tl_trainer_class *with = TL_CLASS_METHOD(tl_trainer_class, t->cls, dispose);
    if (with) with->dispose(t);
    if (t->ctx) tli_trainer_close_step(t);
    tl_state_free(&t->parts->state);
    forget_position(t);
    tl_function_free(&t->parts->train);
    tl_function_free(&t->parts->apply);
    tl_function_free(&t->parts->eval);
    tli_lanes_deinit(&t->parts->lanes);
    tli_lanes_deinit(&t->parts->eval_lanes);
    tli_guard_deinit(&t->parts->eval_guard);
    tli_subjects_deinit(&t->parts->subjects);
    tli_flight_deinit(&t->parts->flight);
    tli_guard_deinit(&t->parts->guard);
    tl_metric_free(&t->train_loss);
    tl_metric_free(&t->validation_loss);
    tl_metrics_free(&t->train_metrics);
    tl_metrics_free(&t->validation_metrics);
    tl_dataset_free(&t->train_dataset);
    tl_dataset_free(&t->validation_dataset);
    tl_optimizer_free(&t->optimizer);
    tl_model_free(&t->model);
    tl_ctx_free(&t->ctx);
    tli_stages_deinit(&t->parts->stages);
    tl_free(t->parts);
    tl_free(t);
    *trainer = NULL;
}

/* --- the methods ------------------------------------------------------------------------------ */

tl_status tl_trainer_initialize(tl_trainer *t)
{
    return TLI_TRAINER_CALL(t, initialize)(t);
}

/* Something went wrong on the host while steps were under way; what went wrong in one of them came
 * first. */
static tl_status land_after(tl_trainer *t, tl_status st)
{
    tl_error error;
    tl_error_save(&error);
    TL_TRY(tl_trainer_join(t));
    tl_error_restore(&error);
    return st;
}

tl_status tl_trainer_train(tl_trainer *t, int64_t steps, tl_logs *logs)
{
    t->parts->watched = TL_OK;
    tl_status st = TLI_TRAINER_CALL(t, train)(t, steps, logs);
    if (t->parts->flight.count) st = land_after(t, st);
    st = tl_engine_recover(t->engine, st);
    // what a watch has found is not for the class to hand on
    return st != TL_OK ? st : t->parts->watched;
}

tl_status tl_trainer_evaluate(tl_trainer *t, int64_t steps, tl_logs *logs)
{
    TL_TRY(tl_trainer_join(t));
    return tl_engine_recover(t->engine, TLI_TRAINER_CALL(t, evaluate)(t, steps, logs));
}

tl_status tl_trainer_join(tl_trainer *t)
{
    return tli_flight_land(t);
}

tl_function *tl_trainer_train_function(const tl_trainer *t)
{
    return t->parts->train;
}

tl_function *tl_trainer_eval_function(const tl_trainer *t)
{
    return t->parts->eval;
}

/* --- state ------------------------------------------------------------------------------------ */

/* The parts keep their places when a model or dataset is exchanged: managers and controllers hold
 * the state. */
static tl_status empty_part(tl_state **out, tl_state *s, const char *name)
{
    TL_TRY(tl_state_sub(out, s, name));
    tl_state_clear(*out);
    return TL_OK;
}

static tl_status fill_model(tl_trainer *t, tl_state *s)
{
    tl_state *sub;
    if (t->model) {
        TL_TRY(empty_part(&sub, s, "model"));
        TL_TRY(tl_model_state(t->model, sub));
    }
    if (!t->optimizer) return TL_OK;
    TL_TRY(empty_part(&sub, s, "optimizer"));
    return tl_optimizer_state(t->optimizer, sub);
}

static tl_status fill_data(tl_trainer *t, tl_state *s)
{
    tl_state *sub;
    if (!t->train_dataset) return TL_OK;
    TL_TRY(empty_part(&sub, s, "data"));
    return tl_dataset_state(t->train_dataset, sub);
}

static tl_status fill_state(tl_trainer *t, tl_state *s)
{
    tl_state *sub;
    TL_TRY(tl_state_bind_int(s, "global_step", &t->global_step));
    TL_TRY(tl_state_bind_words(s, "seed", &t->seed, 1));
    TL_TRY(fill_model(t, s));
    if (t->train_metrics) {
        TL_TRY(tl_state_sub(&sub, s, "metrics"));
        TL_TRY(tl_metrics_state(t->train_metrics, sub));
        TL_TRY(tl_state_sub(&sub, s, "metrics/training_loss"));
        TL_TRY(tl_metric_state_into(t->train_loss, sub));
    }
    TL_TRY(fill_data(t, s));
    const tl_trainer_class *with = TL_CLASS_METHOD(tl_trainer_class, t->cls, state);
    return with ? with->state(t, s) : TL_OK;
}

tl_state *tl_trainer_checkpoint(tl_trainer *t)
{
    tl_trainer_parts *p = t->parts;
    if (p->state) return p->state;
    if (tl_state_new(&p->state) != TL_OK) return NULL;
    if (fill_state(t, p->state) != TL_OK) tl_state_free(&p->state);
    return p->state;
}

tl_status tli_trainer_before_restore(tl_trainer *t, const tl_state *found)
{
    const tl_trainer_class *with = TL_CLASS_METHOD(tl_trainer_class, t->cls, before_restore);
    return with ? with->before_restore(t, found) : TL_OK;
}

bool tli_trainer_part(void *trainer, const tl_tensor *t, int32_t rank, int64_t *from, int64_t *end)
{
    const tl_optimizer *o = ((const tl_trainer *)trainer)->optimizer;
    return o && tl_optimizer_part(o, t, rank, from, end);
}

tl_status tli_trainer_choices(void *trainer, tl_str *out)
{
    tl_device *d = tl_engine_device(((tl_trainer *)trainer)->engine);
    return d->cls->choices ? d->cls->choices(d, out) : TL_OK;
}

tl_status tli_trainer_choose(void *trainer, const char *text)
{
    tl_device *d = tl_engine_device(((tl_trainer *)trainer)->engine);
    return d->cls->choose ? d->cls->choose(d, text) : TL_OK;
}

/* --- in mid-run ------------------------------------------------------------------------------- */

static void forget_programs(tl_trainer *t)
{
    tli_trainer_close_step(t);
    if (t->parts->train) tl_function_reset(t->parts->train);
    if (t->parts->apply) tl_function_reset(t->parts->apply);
    if (t->parts->eval) tl_function_reset(t->parts->eval);
    tli_lanes_deinit(&t->parts->lanes); // of tensors that may go
    for (int64_t i = 0; i < t->parts->subjects.count; i++)
        if (t->parts->subjects.items[i].eval) tl_function_reset(t->parts->subjects.items[i].eval);
}

tl_status tl_trainer_set_model(tl_trainer *t, tl_model **model, tl_optimizer **optimizer)
{
    TL_TRY(tl_trainer_join(t));
    forget_programs(t);
    if (optimizer) {
        tl_optimizer_free(&t->optimizer);
        t->optimizer = *optimizer;
        *optimizer = NULL;
        if (t->optimizer) tl_optimizer_set_accumulating(t->optimizer, t->parts->sums);
    }
    if (model) {
        tl_model_free(&t->model);
        t->model = *model;
        *model = NULL;
    }
    TL_TRY(tli_subjects_bind(t));
    TL_TRY(build_guard(t));
    TL_TRY(tli_flight_init(t));
    if (t->task) TL_TRY(build_lanes(t));
    if (t->optimizer && tl_optimizer_model(t->optimizer) != t->model)
        return TL_FAIL(TL_EINVAL, "the optimizer is that of another model than the trainer's");
    return t->parts->state ? fill_model(t, t->parts->state) : TL_OK;
}

static tl_status set_dataset(tl_trainer *t, tl_dataset **slot, tl_dataset **data)
{
    if (!*data) return TL_FAIL(TL_EINVAL, "there is no dataset to take");
    if (*slot == *data) { // the same one goes on where it is
        *data = NULL;
        return TL_OK;
    }
    TL_TRY(tl_trainer_join(t));
    const bool trains = slot == &t->train_dataset;
    TL_TRY(tli_trainer_feed(t, data, trains ? t->parts->accumulation : 1));
    tli_trainer_close_step(t);
    if (trains) forget_position(t);
    tl_dataset_free(slot);
    *slot = *data;
    *data = NULL;
    return t->parts->state ? fill_data(t, t->parts->state) : TL_OK;
}

tl_status tl_trainer_set_train_dataset(tl_trainer *t, tl_dataset **data)
{
    return set_dataset(t, &t->train_dataset, data);
}

tl_status tl_trainer_set_validation_dataset(tl_trainer *t, tl_dataset **data)
{
    return set_dataset(t, &t->validation_dataset, data);
}

/* --- between two steps ------------------------------------------------------------------------ */

void tl_trainer_set_watch(tl_trainer *t, tl_trainer_watch *watch)
{
    t->parts->watch = watch;
}

bool tl_trainer_between(tl_trainer *t)
{
    tl_trainer_watch *w = t->parts->watch;
    if (!w
        || (t->global_step < __atomic_load_n(&w->due, __ATOMIC_ACQUIRE) && !(w->wake && *w->wake)))
        return true;
    return w->step(w->self, t, &t->parts->watched);
}
