#include "train/trainer/trainer.h"

#include <inttypes.h>

#include <tilth/base/log.h>
#include <tilth/ops/reduce.h>
#include <tilth/train/run/exporter.h>

#include "core/inner/engine.h"

/* --- the program of a step -------------------------------------------------------------------- */

tl_status tli_eval_body(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_trainer *t = self;
    tl_batch batch = {.ctx = c, .tensors = *in};
    tl_step s = {.ctx = c,
                 .task = t->task,
                 .model = t->model,
                 .batch = &batch,
                 .metrics = t->validation_metrics,
                 .logs = out,
                 .replicas = tl_strategy_replicas(t->strategy)};
    tl_tensors *log = tl_ctx_set_log(c, out);
    tl_status st = tl_task_validation_step(t->task, &s);
    tl_ctx_set_log(c, log);
    TL_TRY(st);
    tl_tensor *loss = tl_tensors_peek(out, TL_LOSS);
    if (loss)
        tl_metric_update_value(t->validation_loss, c, tl_mean(c, loss, TL_ALL, false), s.weight);
    return tl_ctx_status(c);
}

/* --- a batch ---------------------------------------------------------------------------------- */

tl_status tli_next_eval_inputs(tl_trainer *t, tl_ctx *c, tl_tensors *batch, tl_logs *passthrough,
                               bool *more)
{
    (void)passthrough;
    return tli_data_failed(tl_dataset_next(t->validation_dataset, c, batch, more), "validation");
}

/* What the step told, over what went past it. */
static tl_status merge(tl_logs *logs, const tl_tensors *out)
{
    for (int64_t i = 0; i < out->count; i++) {
        tl_logs_entry there;
        const char *name = out->items[i].name;
        if (tl_logs_find(&there, logs, name))
            TL_LOG_ONCE(TL_LEVEL_WARNING,
                        "the validation step logs '%s', which is also passed by it; the step's "
                        "value is used",
                        name);
        TL_TRY(tl_logs_put_any(logs, name, out->items[i].tensor));
    }
    return TL_OK;
}

tl_status tli_eval_step(tl_trainer *t, tl_logs *logs, bool *more)
{
    tl_tensors in = {0}, out = {0};
    TL_TRY(TLI_TRAINER_CALL(t, next_eval_inputs)(t, t->ctx, &in, logs, more));
    t->parts->no_rows = *more && !in.count;
    if (!*more || t->parts->no_rows) return TL_OK;
    tl_ctx_set_draws(
        t->ctx, (tl_draws){.seed = t->seed, .step = t->global_step, .replica = t->parts->lane});
    if (t->parts->eval) TL_TRY(tl_function_call(t->parts->eval, t->ctx, &in, &out));
    else TL_TRY(tli_eval_body(t, t->ctx, &in, &out));
    t->parts->told_loss |= tl_tensors_peek(&out, TL_LOSS) != NULL;
    return merge(logs, &out);
}

tl_status tli_eval_reduce(tl_trainer *t, void **state, const tl_logs *step)
{
    return tl_task_aggregate_logs(t->task, state, step);
}

/* --- an evaluation ---------------------------------------------------------------------------- */

tl_status tli_trainer_take_averages(tl_trainer *t)
{
    if (t->optimizer && tl_optimizer_need(t->optimizer))
        TL_TRY(tl_optimizer_bring(t->optimizer, false));
    if (!t->optimizer || !tl_optimizer_averages(t->optimizer)) return TL_OK;
    if (tl_optimizer_iterations(t->optimizer) == 0) return TL_OK; // they mean nothing yet
    return tl_optimizer_swap(t->optimizer);
}

tl_status tli_eval_begin(tl_trainer *t, void **state)
{
    *state = NULL;
    t->parts->told_loss = false;
    if (!t->validation_loss) return TL_FAIL(TL_ESTATE, "the trainer was made without evaluation");
    tl_mark mark = tl_ctx_begin(t->ctx);
    tl_status st = tl_metrics_reset(t->validation_metrics, t->ctx);
    if (st == TL_OK) st = tl_metric_reset(t->validation_loss, t->ctx);
    tl_ctx_end(t->ctx, mark);
    TL_TRY(st);
    TL_TRY(tl_dataset_rewind(t->validation_dataset));
    return tli_trainer_take_averages(t);
}

void tli_eval_leave(tl_trainer *t, void *state)
{
    if (t->optimizer && tl_optimizer_swapped(t->optimizer))
        (void)!tl_optimizer_swap(t->optimizer); // it has the memory from the first time
    if (state) tl_task_release_aggregated(t->task, state);
}

/* As every checkpoint it has the weights in the model and the averages with the optimizer, though
 * they are exchanged in an evaluation: who restores it need not know where it came from. */
static tl_status export_as_trained(tl_trainer *t, tl_logs *logs)
{
    bool swapped = t->optimizer && tl_optimizer_swapped(t->optimizer);
    tl_error error;
    if (swapped) TL_TRY(tl_optimizer_swap(t->optimizer));
    tl_state *state = tl_trainer_checkpoint(t);
    tl_status st = state ? tl_exporter_maybe_export(t->exporter, state, logs, t->global_step, NULL)
                         : tl_error_code();
    if (st != TL_OK) tl_error_save(&error);
    tl_status back = swapped ? tl_optimizer_swap(t->optimizer) : TL_OK;
    if (st == TL_OK) return back;
    tl_error_restore(&error);
    return st;
}

tl_status tli_trainer_export_best(tl_trainer *t, tl_logs *logs)
{
    tl_status st = export_as_trained(t, logs);
    if (st != TL_EIO || !t->config || !t->config->tilth.survive_write_failures) return st;
    TL_LOG_ERROR("%s. The training goes on (survive_write_failures)", tl_error_message());
    tl_error_clear();
    return TL_OK;
}

tl_status tli_eval_end(tl_trainer *t, void *state, tl_logs *logs)
{
    TL_TRY(tl_trainer_join(t));
    tl_mark mark = tl_ctx_begin(t->ctx);
    tl_status st;
    TL_TRY_DONE(st, tl_metrics_tell(t->validation_metrics, t->ctx, logs));
    if (t->parts->told_loss) TL_TRY_DONE(st, tl_metric_tell(t->validation_loss, t->ctx, logs));
    else TL_LOG_INFO("The task did not report validation loss.");
    if (state)
        TL_TRY_DONE(st, tl_task_reduce_aggregated_logs(t->task, state, t->global_step, logs));
    if (t->exporter) st = tli_trainer_export_best(t, logs);
done:
    tl_ctx_end(t->ctx, mark);
    return st;
}

typedef struct evaluation {
    tl_trainer *t;
    void *state;      /* of eval_reduce */
    tli_peers *peers; /* whose logs are brought to the chief; NULL: nobody's */
    tl_str packed;    /* what this process brings */
} evaluation;

static tl_status reduce(void *self, const tl_logs *step)
{
    evaluation *e = self;
    return TLI_TRAINER_CALL(e->t, eval_reduce)(e->t, &e->state, step);
}

/* The chief reduces for all, where that is more than nothing. */
static tl_status reduce_here_or_there(evaluation *e, const tl_logs *step)
{
    return e->peers && e->peers->rank > 0 ? tli_peers_pack_logs(&e->packed, step) : reduce(e, step);
}

static tli_peers *reducing_peers(const tl_trainer *t)
{
    const bool own = TLI_TRAINER_CALL(t, eval_reduce) != tli_eval_reduce;
    return own || (t->task && tl_task_aggregates(t->task)) ? tli_strategy_peers(t->strategy) : NULL;
}

/* One batch and what is made of it; *more is false when there was none. */
static tl_status evaluate_batch(void *self, int64_t lane, bool *more)
{
    evaluation *e = self;
    tl_trainer *t = e->t;
    tl_mark mark = tl_ctx_begin(t->ctx);
    tl_logs *step = NULL;
    tl_status st = tl_logs_new(&step);
    t->parts->lane = lane;
    t->parts->no_rows = false;
    if (st == TL_OK) st = TLI_TRAINER_CALL(t, eval_step)(t, step, more);
    if (st == TL_OK && *more && !t->parts->no_rows) st = reduce_here_or_there(e, step);
    tl_logs_free(&step);
    tl_ctx_end(t->ctx, mark);
    return st;
}

tl_status tli_evaluate(tl_trainer *t, int64_t steps, tl_logs *logs)
{
    const tl_trainer_watch *w = t->parts->watch;
    evaluation e = {.t = t, .peers = reducing_peers(t), .packed = TL_STR_INIT};
    int64_t done = 0;
    bool more = true;
    tl_status st = TLI_TRAINER_CALL(t, eval_begin)(t, &e.state);
    if (st == TL_OK && t->validation_loss) // somebody may have added metrics
        st = tli_trainer_lanes_of_metrics(t, &t->parts->eval_lanes, &t->parts->eval_guard,
                                          t->validation_metrics, t->validation_loss);
    while (st == TL_OK && (steps < 0 || done < steps)) {
        st = tli_lanes_each(&t->parts->eval_lanes, t->ctx, evaluate_batch, &e, &more);
        if (st == TL_OK && e.peers)
            st = tli_peers_bring_logs(e.peers, &e.packed, t->engine, reduce, &e);
        if (!more) break;
        done++;
        if (st == TL_OK && w && w->batch && w->wake && *w->wake && !w->batch(w->self, t))
            st = TL_FAIL(TL_ESTOPPED, "the evaluation was ended after %" PRId64 " batches", done);
    }
    if (st == TL_OK && !more)
        TL_LOG_INFO("The dataset iterator is exhausted after %" PRId64 " steps.", done);
    if (st == TL_OK && !done)
        st = TL_FAIL(TL_EINVAL, "there was nothing to evaluate: the validation data is empty");
    if (st == TL_OK) st = TLI_TRAINER_CALL(t, eval_end)(t, e.state, logs);
    if (st == TL_OK) st = tl_queue_wait(t->engine->in, tl_queue_ticket(t->engine->in));
    st = tl_engine_recover(t->engine, st); // weights that were exchanged can be put back
    tl_str_deinit(&e.packed);
    TLI_TRAINER_CALL(t, eval_leave)(t, e.state);
    return st;
}
