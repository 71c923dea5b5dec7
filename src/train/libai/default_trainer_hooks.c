#include <tilth/base/file.h>
#include <tilth/base/vec.h>
#include <tilth/train/writers/metrics_file.h>

#include "train/controller/controller.h"
#include "train/libai/default_trainer.h"
#include "train/controller/signals.h"

/* --- metrics of training ---------------------------------------------------------------------- */

static tl_status tell_metrics(tl_trainer *t, tl_event_storage *s)
{
    tl_logs *logs;
    size_t scope;
    TL_TRY(tl_logs_new(&logs));
    tl_status st = tl_metrics_tell(t->train_metrics, t->ctx, logs);
    if (st == TL_OK) st = tl_event_storage_scope_begin(&scope, s, "train");
    if (st == TL_OK) {
        st = tl_event_storage_put_logs(s, logs, false);
        tl_event_storage_scope_end(s, scope);
    }
    tl_logs_free(&logs);
    return st;
}

/* At the last step the loop itself tells them and begins them anew. */
static tl_status metrics_after_step(tl_hook *h)
{
    tl_trainer *t = tl_controller_trainer(h->controller);
    if (!t->train_metrics || !tl_metrics_count(t->train_metrics)) return TL_OK;
    TL_TRY(tell_metrics(t, tl_controller_storage(h->controller)));
    if (t->global_step == tl_controller_last_step(h->controller)) return TL_OK;
    return tl_metrics_reset(t->train_metrics, t->ctx);
}

const tl_hook_class tl_train_metrics_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "train_metrics",
            .size = sizeof(tl_hook),
            .help = "tells the task's metrics of training"},
    .after_step = metrics_after_step,
};

/* --- evaluation ------------------------------------------------------------------------------- */

static bool leave_evaluation(void *self, tl_trainer *t)
{
    (void)t;
    return !tli_controller_stopping(self);
}

/* Hooks are told of the results by who asked for them. */
tl_status tli_default_test(tl_default_trainer *t, tl_logs *results)
{
    tl_controller *c = t->controller;
    tl_trainer_watch watch = {.batch = leave_evaluation,
                              .self = c,
                              .due = INT64_MAX,
                              .wake = !t->heed_signals ? NULL
                                      : c->peers       ? &c->peers->signal
                                                       : &tli_signal};
    TL_TRY(tli_hooks_before_eval(c));
    if (t->heed_signals) tli_controller_heed(c, "the evaluation is abandoned");
    tl_trainer_set_watch(t->trainer, &watch);
    tl_status st = tli_default_evaluate_all(t, results);
    if (st == TL_OK) st = tli_peers_share_logs(c->peers, results); // some are the chief's alone
    if (st == TL_OK) st = tli_peers_agree(c->peers);
    tl_trainer_set_watch(t->trainer, c->last_step ? &c->watch : NULL);
    if (t->heed_signals) tli_signals_end();
    return st;
}

static tl_status evaluate(tl_controller *c, tl_logs *results, void *payload)
{
    (void)c;
    return tl_default_trainer_test(payload, results);
}

/* --- what was cut off ------------------------------------------------------------------------- */

/* Checkpoints come before the evaluation of their step: a run that ended between the two has to
 * make up for it, or model_best would be another one than that of a run that was not interrupted.
 */
static tl_status make_up(tl_hook *h)
{
    tl_controller *c = h->controller;
    int64_t step = c->trainer->global_step;
    if (step == 0 || step >= c->last_step) return TL_OK;
    tl_event_storage_set_iteration(c->storage, step - 1);
    for (int64_t i = 0; i < c->hook_count; i++) {
        tl_hook *other = c->hooks[i];
        bool evaluates = other->cls == &tl_eval_hook || other->cls == &tl_best_checkpointer_hook;
        if (evaluates && step % other->period == 0)
            TL_TRY(tli_hook_settle(other, other->cls->after_step(other)));
    }
    return TL_OK;
}

static const tl_hook_class make_up_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "make_up",
            .size = sizeof(tl_hook),
            .help = "evaluates what was saved and not evaluated"},
    .before_train = make_up,
};

/* --- several processes ------------------------------------------------------------------------ */

/* Checkpoints are hooks' here, which the chief alone has. */
static tl_status compare(tl_hook *h)
{
    return tli_controller_compare_now(h->controller);
}

static const tl_hook_class compare_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "compare",
            .size = sizeof(tl_hook),
            .help = "compares what processes hold, before it is saved"},
    .after_step = compare,
};

/* --- the base's ------------------------------------------------------------------------------- */

static tl_status add_evaluation(tl_default_trainer *t)
{
    const tl_libai_evaluation_config *e = &t->config->train.evaluation;
    // A period that never comes leaves the evaluation at the end.
    int64_t period = e->eval_period > 0 ? e->eval_period : INT64_MAX;
    TL_TRY(tl_hooks_add(
        &t->hooks, NULL, &tl_eval_hook,
        &(tl_hook_args){.period = period,
                        .config = &(tl_eval_config){.evaluate = evaluate, .payload = t}}));
    tl_best_checkpointer_config best = {
        .metric = e->eval_metric,
        .comp = e->eval_mode == TL_LIBAI_MIN ? TL_METRIC_LOWER : TL_METRIC_HIGHER,
    };
    TL_TRY(tl_hooks_add(&t->hooks, NULL, &tl_best_checkpointer_hook,
                        &(tl_hook_args){.period = period, .config = &best}));
    return tl_hooks_add(&t->hooks, NULL, &make_up_hook, NULL);
}

tl_status tli_default_build_hooks(tl_default_trainer *t)
{
    const tl_libai_train_config *train = &t->config->train;
    TL_TRY(tl_hooks_add(&t->hooks, NULL, &tl_iteration_timer_hook, NULL));
    TL_TRY(tl_hooks_add(
        &t->hooks, NULL, &tl_lr_scheduler_hook,
        &(tl_hook_args){.config = &(tl_lr_scheduler_config){.every = train->log_period}}));
    TL_TRY(tl_hooks_add(&t->hooks, NULL, &tl_train_metrics_hook,
                        &(tl_hook_args){.period = train->log_period}));
    TL_TRY(tl_hooks_add(&t->hooks, NULL, &tl_throughput_hook,
                        &(tl_hook_args){.period = train->log_period,
                                        .config = &(tl_throughput_config){
                                            .peak_flops = t->config->tilth.peak_tflops * 1e12}}));
    tl_metrics_file_config file = {
        .dir = train->output_dir,
        .experiment = t->task->cls->cls.name,
        .notify = t->config->tilth.notify,
    };
    TL_TRY(tl_hooks_add(&t->hooks, &t->metrics_file, &tl_metrics_file_steps_hook,
                        &(tl_hook_args){.period = train->log_period, .config = &file}));
    if (tli_strategy_peers(t->strategy))
        TL_TRY(tl_hooks_add(&t->hooks, NULL, &compare_hook,
                            &(tl_hook_args){.period = train->checkpointer.period}));
    TL_TRY(tl_hooks_add(&t->hooks, NULL, &tl_periodic_checkpointer_hook,
                        &(tl_hook_args){.period = train->checkpointer.period}));
    if (train->evaluation.enabled) TL_TRY(add_evaluation(t));
    if (t->add_hooks) TL_TRY(t->add_hooks(t, t->hooks_payload));
    TL_TRY(TLI_DEFAULT_CALL(t, build_writers)(t));
    return tl_hooks_add(&t->hooks, NULL, &tl_periodic_writer_hook,
                        &(tl_hook_args){.period = train->log_period,
                                        .config = &(tl_periodic_writer_config){t->writers.items,
                                                                               t->writers.count}});
}

tl_status tl_default_trainer_add_writer(tl_default_trainer *t, const tl_event_writer_class *cls,
                                        const void *args)
{
    tl_event_writer *w;
    TL_TRY(tl_event_writer_new(&w, cls, args));
    if (TL_VEC_PUSH(&t->writers, w)) return TL_OK;
    tl_event_writer_free(&w);
    return TL_ENOMEM;
}

tl_status tli_default_build_writers(tl_default_trainer *t)
{
    const char *folder = t->config->train.output_dir,
               *path = tl_path_join(t->arena, folder, "metrics.json");
    if (!path) return TL_ENOMEM;
    TL_TRY(
        tl_default_trainer_add_writer(t, &tl_console_writer,
                                      &(tl_console_writer_args){.batch_size = t->global_batch_size,
                                                                .max_iteration = t->max_iter}));
    TL_TRY(tl_default_trainer_add_writer(t, &tl_json_writer,
                                         &(tl_json_writer_args){.path = path, .later = true}));
    return tl_default_trainer_add_writer(t, &tl_tensorboard_writer,
                                         &(tl_tensorboard_writer_args){.folder = folder});
}
