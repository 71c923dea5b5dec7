#include <tilth/train/controller/actions.h>

#include <inttypes.h>
#include <math.h>

#include <tilth/base/log.h>

#include "io/inner/checkpoint_manager.h"
#include "train/controller/controller.h"
#include "train/trainer/trainer.h"

#define TRAINING_LOSS "training_loss"

typedef tl_recovery_instance recovery;

static tl_status start(tl_hook *h, const void *config)
{
    recovery *r = (recovery *)h;
    h->started = true;
    r->back_at = -1;
    if (!config)
        return TL_FAIL(TL_EINVAL, "recovery needs a config: a bound and a number of trials");
    r->config = *(const tl_recovery_config *)config;
    if (r->config.recovery_max_trials < 0)
        return TL_FAIL(
            TL_EINVAL,
            "recovery_max_trials is %" PRId64
            " and must be 0 or more; leave the hook out to let a training go on whatever its loss",
            r->config.recovery_max_trials);
    return TL_OK;
}

static tl_status keep_trials(tl_hook *h, tl_state *into)
{
    return tl_state_bind_int(into, "trials", &((recovery *)h)->trials);
}

/* --- the data --------------------------------------------------------------------------------- */

/* The part of the trainer's state that says where its data stands; NULL when there is none. */
static tl_state *data_of(tl_trainer *t)
{
    tl_state_entry e;
    tl_state *state = tl_trainer_checkpoint(t);
    return state && tl_state_find(&e, state, "data") && e.kind == TL_STATE_STATE ? e.state : NULL;
}

// The batches of the step that failed, to which the trainer has gone back.
static tl_status skip_step(tl_trainer *t)
{
    for (int64_t i = 0; t->train_dataset && i < t->parts->batches; i++) {
        tl_mark mark = tl_ctx_begin(t->ctx);
        tl_tensors batch = {0};
        bool more = true;
        tl_status st = TLI_TRAINER_CALL(t, next_train_inputs)(t, t->ctx, &batch, &more);
        tl_ctx_end(t->ctx, mark);
        TL_TRY(st);
        if (!more) break;
    }
    return TL_OK;
}

/* --- which checkpoint ------------------------------------------------------------------------- */

/* Numbers are absurd before they are not finite: a trial that begins with such weights is wasted.
 * What was there before this training is not doubted, as it may be the settings that are wrong. */
static bool is_doubtful(const recovery *r, bool in_step)
{
    const tl_controller *c = r->base.controller;
    if (in_step && tli_controller_leads_nowhere(c)) return true;
    int64_t step = tli_checkpoint_manager_own_latest(c->manager);
    if (step < 0 || !tli_checkpoint_manager_has_earlier(c->manager)) return false;
    return step == r->back_at || (!in_step && step > c->loop_begin);
}

static tl_status give_up_doubtful(recovery *r, bool in_step)
{
    tl_controller *c = r->base.controller;
    tl_str file = TL_STR_INIT, aside = TL_STR_INIT;
    tl_status st = TL_OK;
    if (tli_controller_tell_saved(c, true) != TL_OK) TL_LOG_ERROR("%s", tl_error_message());
    while (st == TL_OK && is_doubtful(r, in_step)) {
        tl_str_cut(&file, 0);
        tl_str_cut(&aside, 0);
        st = tli_controller_give_up_latest(&file, &aside, c);
        if (st == TL_OK)
            TL_LOG_WARNING("'%s' leads to a training that blows up, and is kept as '%s'",
                           tl_str_text(&file), tl_str_text(&aside));
    }
    tl_str_deinit(&file);
    tl_str_deinit(&aside);
    return st;
}

/* --- going back ------------------------------------------------------------------------------- */

/* Everything is as in the checkpoint, but for two things: the data goes on where it is, since the
 * same batches would give the same numbers again; and trials are not forgotten. */
static tl_status go_back(recovery *r, bool in_step)
{
    tl_controller *c = r->base.controller;
    tl_trainer *t = tl_controller_trainer(c);
    tl_state *data = data_of(t), *now = NULL;
    const char *path;
    int64_t trials = r->trials, from = tl_controller_step(c), stage = tl_trainer_stage(t);
    tl_status st;
    tli_trainer_close_step(t);
    if (data) TL_TRY(tl_state_clone(&now, data));
    TL_TRY_DONE(st, tl_controller_restore_checkpoint(c, NULL, &path));
    // A stage before this one has data of its own, which then are where the checkpoint has them.
    bool moved = data && tl_trainer_stage(t) != stage;
    if (data && !moved) TL_TRY_DONE(st, tl_state_copy(data, now, NULL, NULL));
    if (in_step) TL_TRY_DONE(st, skip_step(t));
    r->trials = trials;
    r->back_at = tl_controller_step(c);
    if (!tli_controller_follows(c))
        TL_LOG_WARNING("went back from step %" PRId64 " to %s (recovery %" PRId64 " of %" PRId64
                       ")",
                       from, path ? path : "the beginning", trials, r->config.recovery_max_trials);
done:
    tl_state_free(&now);
    return st;
}

/* `what` has happened; goes back, or says why not. */
static tl_status recover(recovery *r, bool in_step, const char *what)
{
    tl_checkpoint_manager *m = tl_controller_manager(r->base.controller);
    int64_t most = r->config.recovery_max_trials;
    if (r->trials >= most)
        return TL_FAIL(TL_ENAN, "%s. %s%" PRId64 " %s were made (trainer.recovery_max_trials)",
                       what, most ? "All of the " : "No recovery is allowed: ", most,
                       most == 1 ? "recovery" : "recoveries");
    const bool follows = tli_controller_follows(r->base.controller);
    if (m && !follows) TL_TRY(give_up_doubtful(r, in_step));
    if (!m || (!follows && !tl_checkpoint_manager_latest(m)))
        return TL_FAIL(
            TL_ENAN, "%s. There is no checkpoint to go back to: lower trainer.checkpoint_interval",
            what);
    r->trials++;
    if (!follows) TL_LOG_WARNING("%s", what);
    return go_back(r, in_step);
}

/* The loss of the loop. Of several tasks, which tell theirs in logs of their own, the one that is
 * not finite, or the largest. */
static tl_status loop_loss(double *out, const tl_logs *logs)
{
    tl_logs_entry e;
    bool any = false;
    for (int64_t i = 0; i < tl_logs_count(logs); i++) {
        double loss;
        tl_logs_at(&e, logs, i);
        if (e.kind != TL_LOGS_LOGS || !tl_logs_find(&e, e.logs, TRAINING_LOSS)) continue;
        TL_TRY(tl_logs_entry_number(&loss, &e));
        if (!any || !(loss <= *out)) *out = loss;
        any = true;
        if (!isfinite(loss)) return TL_OK;
    }
    return any ? TL_OK : tl_logs_number(out, logs, TRAINING_LOSS);
}

static tl_status after_loop(tl_hook *h, tl_logs *logs)
{
    recovery *r = (recovery *)h;
    int64_t step = tl_controller_step(h->controller);
    double loss;
    TL_TRY(loop_loss(&loss, logs));
    bool finite = isfinite(loss);
    if (finite && (step < r->config.recovery_begin_steps || loss <= r->config.loss_upper_bound))
        return TL_OK;
    tl_str what = TL_STR_INIT;
    if (finite)
        tl_str_addf(&what,
                    "the loss is %g at step %" PRId64 ", above trainer.loss_upper_bound = %g", loss,
                    step, r->config.loss_upper_bound);
    else tl_str_addf(&what, "the loss is %g at step %" PRId64, isnan(loss) ? NAN : loss, step);
    tl_status st = recover(r, false, tl_str_text(&what));
    tl_str_deinit(&what);
    return st;
}

static tl_status on_error(tl_hook *h, tl_status status, bool *handled)
{
    if (status != TL_ENAN) return TL_OK;
    tl_error error;
    tl_error_save(&error);
    TL_TRY(recover((recovery *)h, true, error.text));
    *handled = true;
    return TL_OK;
}

const tl_hook_class tl_recovery_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "recovery",
            .size = sizeof(tl_recovery_instance),
            .help = "goes back to the last checkpoint when the training blows up"},
    .start = start,
    .needs_start = true,
    .after_loop = after_loop,
    .on_error = on_error,
    .state = keep_trials,
};
