/* Evaluations of several tasks, one after the other. */
#include <inttypes.h>

#include <tilth/base/log.h>
#include <tilth/ops/reduce.h>

#include "core/inner/engine.h"
#include "train/trainer/trainer.h"

tl_status tli_subject_eval_body(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tli_subject *one = self;
    tl_batch batch = {.ctx = c, .tensors = *in};
    tl_step s = {.ctx = c,
                 .task = one->sub.task,
                 .model = one->model,
                 .batch = &batch,
                 .metrics = one->validation_metrics,
                 .logs = out,
                 .replicas = tl_strategy_replicas(one->trainer->strategy)};
    tl_tensors *log = tl_ctx_set_log(c, out);
    tl_model_begin_calls(c, one->model);
    tl_status st = tl_task_validation_step(one->sub.task, &s);
    tl_ctx_set_log(c, log);
    TL_TRY(st);
    tl_tensor *loss = tl_tensors_peek(out, TL_LOSS);
    if (loss)
        tl_metric_update_value(one->validation_loss, c, tl_mean(c, loss, TL_ALL, false), s.weight);
    return tl_ctx_status(c);
}

/* --- one task --------------------------------------------------------------------------------- */

static tl_status begin_one(tl_trainer *t, tli_subject *one)
{
    one->told_loss = false;
    one->peers = tl_task_aggregates(one->sub.task) ? tli_strategy_peers(t->strategy) : NULL;
    if (!one->validation_loss) return TL_FAIL(TL_ESTATE, "the trainer was made without evaluation");
    tl_mark mark = tl_ctx_begin(t->ctx);
    tl_status st = tl_metrics_reset(one->validation_metrics, t->ctx);
    if (st == TL_OK) st = tl_metric_reset(one->validation_loss, t->ctx);
    tl_ctx_end(t->ctx, mark);
    TL_TRY(st);
    return tl_dataset_rewind(one->validation_dataset);
}

static tl_status aggregate(void *self, const tl_logs *logs)
{
    tli_subject *one = self;
    return tl_task_aggregate_logs(one->sub.task, &one->state, logs);
}

static tl_status run_batch(tl_trainer *t, tli_subject *one, tl_logs *logs, bool *more)
{
    tl_tensors in = {0}, out = {0};
    TL_TRY(
        tli_data_failed(tl_dataset_next(one->validation_dataset, t->ctx, &in, more), "validation"));
    if (!*more || !in.count) return TL_OK;
    tl_ctx_set_draws(
        t->ctx, (tl_draws){.seed = t->seed, .step = t->global_step, .replica = t->parts->lane});
    if (one->eval) TL_TRY(tl_function_call(one->eval, t->ctx, &in, &out));
    else TL_TRY(tli_subject_eval_body(one, t->ctx, &in, &out));
    one->told_loss |= tl_tensors_peek(&out, TL_LOSS) != NULL;
    for (int64_t i = 0; i < out.count; i++)
        TL_TRY(tl_logs_put_any(logs, out.items[i].name, out.items[i].tensor));
    return one->peers && one->peers->rank > 0 ? tli_peers_pack_logs(&one->packed, logs)
                                              : aggregate(one, logs);
}

static tl_status evaluate_batch(void *self, int64_t lane, bool *more)
{
    tli_subject *one = self;
    tl_trainer *t = one->trainer;
    t->parts->lane = lane;
    tl_mark mark = tl_ctx_begin(t->ctx);
    tl_logs *step = NULL;
    tl_status st = tl_logs_new(&step);
    if (st == TL_OK) st = run_batch(t, one, step, more);
    tl_logs_free(&step);
    tl_ctx_end(t->ctx, mark);
    return st;
}

static tl_status evaluate_one(tl_trainer *t, tli_subject *one, int64_t steps)
{
    const tl_trainer_watch *w = t->parts->watch;
    int64_t done = 0;
    bool more = true;
    if (one->sub.eval_steps) steps = one->sub.eval_steps;
    while (steps < 0 || done < steps) {
        TL_TRY(tli_lanes_each(&one->lanes, t->ctx, evaluate_batch, one, &more));
        if (one->peers)
            TL_TRY(tli_peers_bring_logs(one->peers, &one->packed, t->engine, aggregate, one));
        if (!more) break;
        done++;
        if (w && w->batch && w->wake && *w->wake && !w->batch(w->self, t))
            return TL_FAIL(TL_ESTOPPED, "the evaluation was ended after %" PRId64 " batches", done);
    }
    if (!done)
        return TL_FAIL(TL_EINVAL, "there was nothing to evaluate: the validation data is empty");
    return TL_OK;
}

static tl_status tell_one(tl_trainer *t, tli_subject *one, tl_logs *logs)
{
    tl_logs *own;
    TL_TRY(tl_logs_sub(&own, logs, one->sub.name));
    TL_TRY(tl_metrics_tell(one->validation_metrics, t->ctx, own));
    if (one->told_loss) TL_TRY(tl_metric_tell(one->validation_loss, t->ctx, own));
    else TL_LOG_INFO("The task '%s' did not report validation loss.", one->sub.name);
    if (!one->state) return TL_OK;
    return tl_task_reduce_aggregated_logs(one->sub.task, one->state, t->global_step, own);
}

/* --- all -------------------------------------------------------------------------------------- */

static tl_status tell_all(tl_trainer *t, tl_logs *logs)
{
    tli_subjects *all = &t->parts->subjects;
    TL_TRY(tl_trainer_join(t));
    tl_mark mark = tl_ctx_begin(t->ctx);
    tl_status st = TL_OK;
    for (int64_t i = 0; i < all->count && st == TL_OK; i++) {
        st = tell_one(t, &all->items[i], logs);
        if (st != TL_OK) st = tl_error_note(st, "task '%s'", all->items[i].sub.name);
    }
    if (st == TL_OK && t->exporter) st = tli_trainer_export_best(t, logs);
    tl_ctx_end(t->ctx, mark);
    return st;
}

static void leave(tl_trainer *t)
{
    tli_subjects *all = &t->parts->subjects;
    if (t->optimizer && tl_optimizer_swapped(t->optimizer))
        (void)!tl_optimizer_swap(t->optimizer); // it has the memory from the first time
    for (int64_t i = 0; i < all->count; i++) {
        tli_subject *one = &all->items[i];
        if (one->state) tl_task_release_aggregated(one->sub.task, one->state);
        one->state = NULL;
        tl_str_deinit(&one->packed);
    }
}

tl_status tli_subjects_evaluate(tl_trainer *t, int64_t steps, tl_logs *logs)
{
    tli_subjects *all = &t->parts->subjects;
    tl_status st = TL_OK;
    for (int64_t i = 0; i < all->count && st == TL_OK; i++) st = begin_one(t, &all->items[i]);
    if (st == TL_OK) st = tli_trainer_take_averages(t);
    for (int64_t i = 0; i < all->count && st == TL_OK; i++) {
        st = evaluate_one(t, &all->items[i], steps);
        if (st != TL_OK) st = tl_error_note(st, "task '%s'", all->items[i].sub.name);
    }
    if (st == TL_OK) st = tell_all(t, logs);
    if (st == TL_OK) st = tl_queue_wait(t->engine->in, tl_queue_ticket(t->engine->in));
    st = tl_engine_recover(t->engine, st); // weights that were exchanged can be put back
    leave(t);
    return st;
}
