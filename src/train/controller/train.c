#include "train/controller/controller.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tilth/base/clock.h>
#include <tilth/base/integer.h>
#include <tilth/base/log.h>
#include <tilth/base/vec.h>

#include "io/inner/checkpoint_manager.h"
#include "train/writers/pretty.h"
#include "train/controller/signals.h"
#include "train/trainer/trainer.h"

/* --- at steps --------------------------------------------------------------------------------- */

static int64_t next_multiple(int64_t step, int64_t interval)
{
    return interval > 0 ? (step / interval + 1) * interval : INT64_MAX;
}

/* The step at which the host has something to do next. */
static int64_t find_due(const tl_controller *c, int64_t step)
{
    int64_t due = next_multiple(step, c->given.summary_interval);
    if (c->manager)
        due = tl_min_i64(due, next_multiple(step, tl_checkpoint_manager_interval(c->manager)));
    for (int64_t i = 0; i < c->hook_count; i++)
        if (TL_CLASS_METHOD(tl_hook_class, c->hooks[i]->cls, after_step))
            due = tl_min_i64(due, next_multiple(step, c->hooks[i]->period));
    for (int64_t i = 0; c->peers && i < c->saver_count; i++)
        due = tl_min_i64(due, next_multiple(step, c->savers[i]->period));
    return due;
}

/* Whoever asks to stop is heard at the next step, whatever is due. Checkpoints that are being
 * written, or come by time, are looked after at each step. */
static void set_due(tl_controller *c, int64_t step)
{
    bool look = c->saving || (c->manager && tl_checkpoint_manager_keeps_time(c->manager));
    c->due = find_due(c, step);
    __atomic_store_n(&c->watch.due, look ? tl_min_i64(c->due, step + 1) : c->due, __ATOMIC_RELEASE);
    if (tli_controller_stopping(c)) __atomic_store_n(&c->watch.due, 0, __ATOMIC_RELEASE);
}

/* Steps log the same names in the same order: a name is looked up when it is new in its place. */
static tl_status scalar_of(tl_event_scalar **out, tl_controller *c, int64_t place, const char *name)
{
    while (c->told.count <= place)
        if (!TL_VEC_PUSH(&c->told, (tli_told){0})) return TL_ENOMEM;
    tli_told *there = &c->told.items[place];
    if (!there->name || strcmp(there->name, name) != 0) {
        TL_TRY(tl_event_storage_scalar(&there->scalar, c->storage, name, true));
        there->name = tl_arena_strdup(c->arena, name);
        if (!there->name) return TL_ENOMEM;
    }
    *out = there->scalar;
    return TL_OK;
}

/* What the step has logged goes to the storage, where hooks and writers find it; nobody waits for
 * it here. */
static tl_status store_outputs(tl_controller *c, const tl_trainer *t)
{
    for (int64_t i = 0; t->outputs && i < t->outputs->count; i++) {
        const tl_named *o = &t->outputs->items[i];
        tl_event_scalar *scalar;
        if (tl_tensor_count(o->tensor) != 1) continue;
        TL_TRY(scalar_of(&scalar, c, i, o->name));
        TL_TRY(tl_event_scalar_put_tensor(scalar, o->tensor));
    }
    return TL_OK;
}

static tl_status call_after_step(tl_controller *c, tl_trainer *t)
{
    if (!c->steps_watched) return TL_OK;
    tl_event_storage_set_iteration(c->storage, t->global_step - 1);
    TL_TRY(store_outputs(c, t));
    for (int64_t i = 0; i < c->hook_count; i++) {
        tl_hook *h = c->hooks[i];
        const tl_hook_class *with = TL_CLASS_METHOD(tl_hook_class, h->cls, after_step);
        if (!with || t->global_step % h->period != 0) continue;
        if (!with->in_flight) TL_TRY(tl_trainer_join(t));
        TL_TRY(tli_hook_settle(h, with->after_step(h)));
    }
    return TL_OK;
}

/* What the step tells beside its loss, at every summary_interval. */
static tl_status write_outputs(tl_controller *c, tl_trainer *t)
{
    if ((!c->summaries && !c->summaries_watched) || !c->given.summary_interval || !t->outputs
        || t->global_step % c->given.summary_interval != 0)
        return TL_OK;
    TL_TRY(tl_trainer_join(t));
    tl_logs *logs;
    TL_TRY(tl_logs_new(&logs));
    tl_status st = TL_OK;
    for (int64_t i = 0; i < t->outputs->count && st == TL_OK; i++) {
        const tl_named *o = &t->outputs->items[i];
        bool told = strcmp(o->name, TL_LOSS) == 0; // as the mean of the loop
        if (!told && tl_tensor_count(o->tensor) == 1)
            st = tl_logs_put_tensor(logs, o->name, o->tensor);
    }
    if (st == TL_OK) st = tli_controller_forgive(c, tl_summary_manager_write(c->summaries, logs));
    if (st == TL_OK && tl_logs_count(logs)) st = tli_hooks_on_summary(c, logs);
    tl_logs_free(&logs);
    return st;
}

/* Whether a hook is due that does not go with steps under way. */
static bool somebody_looks(const tl_controller *c, const tl_trainer *t)
{
    for (int64_t i = 0; i < c->hook_count; i++) {
        const tl_hook *h = c->hooks[i];
        const tl_hook_class *with = TL_CLASS_METHOD(tl_hook_class, h->cls, after_step);
        if (with && !with->in_flight && t->global_step % h->period == 0) return true;
    }
    return false;
}

/* At the end of a loop the checkpoint comes after its report. */
static tl_status at_step(tl_controller *c, tl_trainer *t)
{
    if (somebody_looks(c, t)) TL_TRY(tl_trainer_join(t)); // it is no time of hooks
    int64_t begin = tl_clock_ns();
    double away_s = c->away_s;
    c->in_step = true;
    tl_status st = call_after_step(c, t);
    c->in_step = false;
    c->away_s = away_s + (double)(tl_clock_ns() - begin) * 1e-9; // what hooks have saved is in it
    TL_TRY(st);
    TL_TRY(write_outputs(c, t));
    if (t->global_step == c->loop_end) return TL_OK;
    TL_TRY(tli_controller_compare(c));
    return tli_controller_is_apart(c) ? TL_OK : tli_controller_save(c, true, NULL);
}

/* Where all have come to the same step of a loop. */
static tl_status save_with_all(tl_controller *c, const tl_trainer *t)
{
    TL_TRY(tli_controller_finish_save(c, false));
    if (t->global_step == c->loop_end || !tli_controller_may_save(c)) return TL_OK;
    TL_TRY(tli_controller_save_apart(c));
    return tli_controller_save_together(c, true);
}

/* A signal counts as well: hooks see the last step. */
static bool is_due(const tl_controller *c, const tl_trainer *t)
{
    return t->global_step >= c->due || tli_controller_stopping(c);
}

static tl_status save_by_time(tl_controller *c, const tl_trainer *t)
{
    bool timed = c->manager && tl_checkpoint_manager_keeps_time(c->manager);
    timed &= !tli_controller_is_apart(c);
    return !timed || t->global_step == c->loop_end ? TL_OK : tli_controller_save(c, true, NULL);
}

/* Hooks that all processes have may have asked to stop, and all hear of it at this step. */
static tl_status agree(const tl_controller *c, const tl_trainer *t)
{
    bool any = false;
    for (int64_t i = 0; c->peers && i < c->hook_count; i++) {
        const tl_hook *h = c->hooks[i];
        any |= TL_CLASS_METHOD(tl_hook_class, h->cls, after_step) && !tli_hook_writes(h)
               && t->global_step % h->period == 0;
    }
    return any ? tli_peers_agree(c->peers) : TL_OK;
}

static bool watch_step(void *self, tl_trainer *t, tl_status *status)
{
    tl_controller *c = self;
    if (*status == TL_OK) *status = tli_controller_tell_saved(c, false);
    if (*status == TL_OK) *status = is_due(c, t) ? at_step(c, t) : save_by_time(c, t);
    if (*status == TL_OK) *status = save_with_all(c, t);
    if (*status == TL_OK) *status = agree(c, t);
    c->left = tli_controller_stopping(c) && t->global_step < c->loop_end;
    if (*status == TL_OK && c->left) *status = tl_trainer_join(t);
    set_due(c, t->global_step);
    c->left |= *status != TL_OK;
    return !c->left;
}

static tl_status watch_before(void *self, tl_trainer *t)
{
    tl_controller *c = self;
    tl_event_storage_set_iteration(c->storage, t->global_step);
    for (int64_t i = 0; i < c->hook_count; i++) {
        tl_hook *h = c->hooks[i];
        const tl_hook_class *with = TL_CLASS_METHOD(tl_hook_class, h->cls, before_step);
        if (!with || (t->global_step + 1) % h->period != 0) continue;
        if (!with->in_flight) TL_TRY(tl_trainer_join(t));
        TL_TRY_NOTE(with->before_step(h), "hook '%s'", h->name);
    }
    return TL_OK;
}

/* --- a loop ----------------------------------------------------------------------------------- */

static tl_status tell_loop(tl_controller *c, tl_logs *logs)
{
    tl_str text = TL_STR_INIT;
    tl_status st = tli_logs_pretty(&text, logs);
    if (st == TL_OK)
        tli_controller_say(c, "train | step: % 6" PRId64 " | steps/sec: % 6.1f | output: %s",
                           c->trainer->global_step, c->steps_per_second, tl_str_text(&text));
    tl_str_deinit(&text);
    TL_TRY(st);
    TL_TRY(tl_logs_put(logs, "steps_per_second", c->steps_per_second));
    st = tl_summary_manager_write(c->summaries, logs);
    if (st == TL_OK) st = tl_summary_manager_flush(c->summaries);
    return tli_controller_forgive(c, st);
}

static tl_status end_loop(tl_controller *c, int64_t from, double seconds, tl_logs *logs)
{
    int64_t step = c->trainer->global_step;
    if (step != c->loop_end)
        TL_LOG_WARNING("train(%" PRId64 ") of the trainer did not move the global step by that: it "
                       "was %" PRId64 ", expected %" PRId64 ", found %" PRId64,
                       c->loop_end - from, from, c->loop_end, step);
    c->steps_per_second = seconds > 0 ? (double)(step - from) / seconds : 0;
    TL_TRY(tli_hooks_after_loop(c, logs));
    TL_TRY(tli_peers_agree(c->peers));
    if (c->trainer->global_step < step) return TL_OK; // a hook went back: this loop was not
    TL_TRY(tell_loop(c, logs));
    TL_TRY(tli_controller_compare(c));
    TL_TRY(tli_controller_finish_save(c, false));
    TL_TRY(tli_controller_save_together(c, true));
    bool asked = c->save_at_end;
    c->save_at_end = false;
    return tli_controller_forgive(c, tli_controller_save(c, !asked, NULL));
}

/* Steps may have been put behind the one that failed: what was told and counted of them goes. */
static void take_back_steps(tl_controller *c)
{
    const int64_t step = c->trainer->global_step, last = step > 0 ? step - 1 : 0;
    const int64_t iteration = c->watch.before ? step : last; // where watch_before has left it
    tl_event_storage_rewind(c->storage, step - 1);
    if (tl_event_storage_iteration(c->storage) > iteration)
        tl_event_storage_set_iteration(c->storage, iteration);
    for (int64_t i = 0; i < c->hook_count; i++) {
        const tl_hook_class *with = TL_CLASS_METHOD(tl_hook_class, c->hooks[i]->cls, take_back);
        if (with) with->take_back(c->hooks[i], step);
    }
}

/* Nothing is saved: numbers that are finite may be absurd all the same, and the step that was not
 * is their child. */
static tl_status after_failure(tl_controller *c, tl_status st)
{
    tl_error error;
    bool handled;
    tl_error_save(&error);
    if (c->trainer->parts->flight.flies) take_back_steps(c);
    tl_status after = tli_hooks_on_error(c, st, &handled);
    if (after == TL_OK && handled) {
        c->left = false;
        return TL_OK;
    }
    if (after != TL_OK) tl_error_save(&error);
    tl_error_restore(&error);
    return after != TL_OK ? after : st;
}

static tl_status train_loop(tl_controller *c, int64_t steps)
{
    tl_trainer *t = c->trainer;
    tl_logs *logs;
    int64_t from = t->global_step;
    c->loop_begin = from;
    c->loop_end = c->open_end = from + steps;
    c->left = false;
    c->away_s = 0;
    c->save_at_end = false;
    set_due(c, from);
    TL_TRY(tl_logs_new(&logs));
    int64_t begin = tl_clock_ns();
    tl_status st = tl_trainer_train(t, steps, logs);
    double seconds = (double)(tl_clock_ns() - begin) * 1e-9 - c->away_s;
    if (st == TL_OK && !c->left) c->open_end = 0;
    if (st != TL_OK) st = after_failure(c, st);
    else if (!c->left) st = end_loop(c, from, seconds, logs);
    tl_logs_free(&logs);
    return st;
}

/* Loops end at multiples of their length, wherever they begin. */
static int64_t loop_length(const tl_controller *c, int64_t step)
{
    const tl_controller_args *a = &c->given;
    if (!a->steps_of_loop) return a->steps_per_loop - step % a->steps_per_loop;
    if (c->open_end > step) return c->open_end - step; // it was left, and is gone on with
    int64_t steps = a->steps_of_loop(a->payload, step);
    return steps > 0 ? steps : 1;
}

static tl_status train_until(tl_controller *c, int64_t steps)
{
    while (c->trainer->global_step < steps && !tli_controller_stopping(c)) {
        int64_t step = c->trainer->global_step;
        TL_TRY(train_loop(c, tl_min_i64(steps - step, loop_length(c, step))));
        if (c->left) break;
    }
    return TL_OK;
}

/* --- a training ------------------------------------------------------------------------------- */

static void begin_training(tl_controller *c, int64_t steps)
{
    bool watched = false;
    for (int64_t i = 0; i < c->hook_count; i++)
        watched |= TL_CLASS_METHOD(tl_hook_class, c->hooks[i]->cls, before_step) != NULL;
    c->watch = (tl_trainer_watch){.step = watch_step,
                                  .self = c,
                                  .before = watched ? watch_before : NULL,
                                  .wake = c->peers                ? &c->peers->woken
                                          : c->given.heed_signals ? &tli_signal
                                                                  : NULL};
    c->last_step = steps;
    c->again_at = 0;
    __atomic_store_n(&c->stop, 0, __ATOMIC_RELEASE);
    if (c->peers) tli_peers_forget(c->peers);
    bool saves =
        c->manager && tl_checkpoint_manager_interval(c->manager) && !c->given.leave_unsaved;
    if (c->given.heed_signals)
        tli_controller_heed(c, saves ? "this step is being finished, and saved"
                                     : "this step is being finished");
    tl_trainer_set_watch(c->trainer, &c->watch);
    tl_event_storage_push(c->storage);
    if (c->trainer->global_step < steps)
        tli_controller_say(c, "train | step: % 6" PRId64 " | training until step %" PRId64 "...",
                           c->trainer->global_step, steps);
    else
        tli_controller_say(
            c, "train | step: % 6" PRId64 " | nothing to train: training ends at step %" PRId64,
            c->trainer->global_step, steps);
}

static bool is_left_unsaved(const tl_controller *c)
{
    return tli_controller_signal(c) && c->given.leave_unsaved;
}

/* `sync`: a failure in the background is one of the training; else it is left for later. */
static tl_status wait_for_saves(tl_controller *c, tl_status so_far, bool sync)
{
    tl_error error;
    if (!c->manager) return so_far;
    if (so_far != TL_OK) tl_error_save(&error);
    tl_status st = tli_controller_tell_saved(c, true);
    if (sync && st == TL_OK) st = tl_checkpoint_manager_sync(c->manager);
    if (so_far == TL_OK) return st;
    if (st != TL_OK) TL_LOG_ERROR("%s", tl_error_message());
    tl_error_restore(&error);
    return so_far;
}

static tl_status end_training(tl_controller *c, tl_status st, bool save)
{
    bool stopping = tli_controller_stopping(c);
    if (is_left_unsaved(c)) save = false;
    else save |= stopping;
    // The last checkpoint knows of the last evaluation, wherever the intervals lie: a run that has
    // come to its end is not evaluated again when the same command is given once more.
    if (c->manager && c->evaluation_unsaved && c->evaluated == c->trainer->global_step)
        tli_checkpoint_manager_outdate(c->manager);
    if (st == TL_ENAN && !tli_controller_follows(c)) st = tli_controller_blown_up(c);
    const bool together = tli_controller_is_together(c);
    if (st == TL_OK && save && together) st = tli_controller_save_together(c, false);
    if (st == TL_OK && together) st = tli_controller_finish_save(c, true);
    if (st == TL_OK && save && tli_controller_is_apart(c) && !together)
        st = tl_optimizer_bring(c->trainer->optimizer, true);
    // What went wrong in the background is made good by the last checkpoint.
    if (st == TL_OK && save && !together) st = tli_controller_save(c, false, NULL);
    else if (st == TL_OK && c->manager)
        st = tli_controller_forgive(c, tl_checkpoint_manager_sync(c->manager));
    st = wait_for_saves(c, st, false); // hooks are told of it before they are told of the end
    st = tli_hooks_after_train(c, st);
    if (st == TL_OK && together) st = tli_controller_save_together(c, true); // what they asked for
    if (st == TL_OK && together) st = tli_controller_finish_save(c, true);
    stopping |= tli_controller_stopping(c);
    tl_event_storage_pop(c->storage);
    tl_trainer_set_watch(c->trainer, NULL);
    st = wait_for_saves(c, st, true);
    int number = tli_controller_signal(c);
    if (c->given.heed_signals) tli_signals_end();
    c->last_step = 0;
    if (st != TL_OK || !stopping) return st;
    if (number)
        return TL_FAIL(TL_ESTOPPED, "%s ended the training at step %" PRId64 "%s",
                       tli_signal_name(number), c->trainer->global_step,
                       save && c->manager && tl_checkpoint_manager_interval(c->manager)
                           ? ", which is saved: the same command goes on"
                           : "");
    tli_controller_say(c, "train | step: % 6" PRId64 " | stopped: %s", c->trainer->global_step,
                       c->reason);
    return TL_OK;
}

tl_status tl_controller_train(tl_controller *c, int64_t steps, bool checkpoint_at_completion)
{
    TL_TRY(tli_controller_require(c->trainer, "trainer", "train"));
    TL_TRY(tli_controller_open_summaries(c));
    begin_training(c, steps);
    tl_status st = tli_hooks_before_train(c);
    if (st == TL_OK) st = train_until(c, steps);
    return end_training(c, st, checkpoint_at_completion);
}

/* --- with evaluations ------------------------------------------------------------------------- */

static tl_status evaluate_now(tl_controller *c, int64_t steps, tl_logs *logs)
{
    if (logs) tl_logs_clear(logs);
    TL_TRY(tli_controller_tell_saved(c, true)); // an evaluation that goes wrong costs no training
    tl_status st = tl_controller_evaluate(c, steps, logs);
    // The signal that ended it ends the training too, which says so.
    return st == TL_ESTOPPED && tli_controller_stopping(c) ? TL_OK : st;
}

static tl_status train_and_evaluate(tl_controller *c, int64_t steps, int64_t eval_steps,
                                    int64_t interval, tl_logs *logs)
{
    const tl_trainer *t = c->trainer;
    // A checkpoint lies before the evaluation of its step: one that was cut off is made up for.
    bool boundary = t->global_step > 0
                    && (t->global_step >= steps || (interval && t->global_step % interval == 0));
    if (boundary && c->evaluated < t->global_step) TL_TRY(evaluate_now(c, eval_steps, logs));
    while (t->global_step < steps && !tli_controller_stopping(c)) {
        TL_TRY(train_until(
            c, tl_min_i64(steps, interval ? next_multiple(t->global_step, interval) : steps)));
        if (!tli_controller_stopping(c)) TL_TRY(evaluate_now(c, eval_steps, logs));
    }
    return TL_OK;
}

tl_status tl_controller_train_and_evaluate(tl_controller *c, int64_t train_steps,
                                           int64_t eval_steps, int64_t eval_interval, tl_logs *logs)
{
    TL_TRY(tli_controller_require(c->trainer, "trainer", "train_and_evaluate"));
    TL_TRY(tli_controller_require(c->evaluator, "evaluator", "train_and_evaluate"));
    TL_TRY(tli_controller_open_summaries(c));
    begin_training(c, train_steps);
    tl_status st = tli_hooks_before_train(c);
    if (st == TL_OK) st = train_and_evaluate(c, train_steps, eval_steps, eval_interval, logs);
    return end_training(c, st, true);
}
