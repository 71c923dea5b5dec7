#include <tilth/train/hooks/hooks.h>

#include <inttypes.h>
#include <string.h>

#include <tilth/base/clock.h>
#include <tilth/base/log.h>

#include "train/controller/controller.h"

/* --- time ------------------------------------------------------------------------------------- */

enum { USUAL_WARMUP = 3, NS = 1000000000 };

typedef tl_iteration_timer_instance iteration_timer;

static tl_status timer_start(tl_hook *h, const void *config)
{
    const tl_iteration_timer_config *given = config;
    iteration_timer *t = (iteration_timer *)h;
    h->started = true;
    t->warmup = given && given->warmup ? given->warmup : USUAL_WARMUP;
    return TL_OK;
}

/* What is over stays. */
static void forget_earlier(iteration_timer *t)
{
    memset(t->before, 0, sizeof t->before); // step 0 is behind none
}

static tl_status timer_before_train(tl_hook *h)
{
    iteration_timer *t = (iteration_timer *)h;
    t->step_ns = tl_clock_ns();
    t->now = (tl_iteration_timer_counts){.begin_ns = t->step_ns};
    forget_earlier(t);
    return tl_event_storage_scalar(&t->time, tl_controller_storage(h->controller), "time", true);
}

static tl_status timer_before_step(tl_hook *h)
{
    ((iteration_timer *)h)->step_ns = tl_clock_ns();
    return TL_OK;
}

static tl_status timer_after_step(tl_hook *h)
{
    iteration_timer *t = (iteration_timer *)h;
    int64_t now = tl_clock_ns(), took = now - t->step_ns;
    t->now.step = tl_controller_step(h->controller);
    t->before[t->now.step % TL_TIMER_STEPS] = t->now;
    if (++t->now.done < t->warmup) {
        t->now.begin_ns = now;
        return TL_OK;
    }
    t->now.timed++;
    t->now.in_steps_ns += took;
    return tl_event_scalar_put(t->time, (double)took / NS);
}

static void timer_take_back(tl_hook *h, int64_t step)
{
    iteration_timer *t = (iteration_timer *)h;
    for (int64_t next = step + 1; next <= step + TL_TIMER_STEPS; next++) {
        const tl_iteration_timer_counts *then = &t->before[next % TL_TIMER_STEPS];
        if (then->step != next) continue; // its period is longer, or none was put behind
        t->now = *then;
        break;
    }
    forget_earlier(t);
}

static tl_status timer_on_restore(tl_hook *h, const char *path)
{
    (void)path;
    forget_earlier((iteration_timer *)h); // the numbers of steps come again
    return TL_OK;
}

// "1 day, 2:03:04", as Python shows a time.
static const char *duration(char out[40], int64_t ns)
{
    int64_t s = ns / NS, days = s / 86400;
    char day[20] = "";
    if (days) snprintf(day, sizeof day, "%d day%s, ", (int)(days % 100000), days == 1 ? "" : "s");
    s %= 86400;
    snprintf(out, 40, "%s%d:%02d:%02d", day, (int)(s / 3600), (int)(s / 60 % 60), (int)(s % 60));
    return out;
}

static tl_status timer_after_train(tl_hook *h)
{
    const iteration_timer *t = (const iteration_timer *)h;
    int64_t total = tl_clock_ns() - t->now.begin_ns, in_steps = t->now.in_steps_ns;
    char a[40], b[40];
    if (t->now.timed > 0 && in_steps > 0)
        TL_LOG_INFO("Overall training speed: %" PRId64 " iterations in %s (%.4f s / it)",
                    t->now.timed, duration(a, in_steps),
                    (double)in_steps / NS / (double)t->now.timed);
    TL_LOG_INFO("Total training time: %s (%s on hooks)", duration(a, total),
                duration(b, total - in_steps));
    return TL_OK;
}

const tl_hook_class tl_iteration_timer_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "iteration_timer",
            .size = sizeof(tl_iteration_timer_instance),
            .help = "times each step"},
    .start = timer_start,
    .needs_start = true,
    .before_train = timer_before_train,
    .after_train = timer_after_train,
    .before_step = timer_before_step,
    .after_step = timer_after_step,
    .on_restore = timer_on_restore,
    .in_flight = true,
    .take_back = timer_take_back,
};

/* --- learning rate ---------------------------------------------------------------------------- */

typedef tl_lr_scheduler_instance lr_scheduler;

static tl_status lr_start(tl_hook *h, const void *config)
{
    lr_scheduler *l = (lr_scheduler *)h;
    h->started = true;
    if (config) l->config = *(const tl_lr_scheduler_config *)config;
    if (l->config.every < 1) l->config.every = 1;
    return TL_OK;
}

static tl_status lr_before_train(tl_hook *h)
{
    lr_scheduler *l = (lr_scheduler *)h;
    if (!l->config.optimizer && !tl_controller_trainer(h->controller)->optimizer)
        return TL_FAIL(TL_EINVAL,
                       "it tells the learning rate of an optimizer, and the trainer has none");
    return tl_event_storage_scalar(&l->lr, tl_controller_storage(h->controller), "lr", false);
}

static tl_status put_rate(const lr_scheduler *l, tl_optimizer *o, tl_ctx *c)
{
    tl_mark mark = tl_ctx_begin(c);
    tl_tensor *rate = tl_optimizer_rate(o, c);
    tl_status st = rate ? tl_event_scalar_put_tensor(l->lr, rate) : tl_ctx_status(c);
    tl_ctx_end(c, mark);
    return st;
}

// Before the step the rate of the next update is the one that the step uses.
static tl_status lr_before_step(tl_hook *h)
{
    lr_scheduler *l = (lr_scheduler *)h;
    const tl_trainer *t = tl_controller_trainer(h->controller);
    int64_t step = t->global_step + 1;
    if (step % l->config.every != 0 && step != tl_controller_last_step(h->controller)) return TL_OK;
    return put_rate(l, l->config.optimizer ? l->config.optimizer : t->optimizer, t->ctx);
}

const tl_hook_class tl_lr_scheduler_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "lr_scheduler",
            .size = sizeof(tl_lr_scheduler_instance),
            .help = "tells the learning rate"},
    .start = lr_start,
    .needs_start = true,
    .before_train = lr_before_train,
    .before_step = lr_before_step,
    .in_flight = true,
};

/* --- evaluation ------------------------------------------------------------------------------- */

typedef tl_eval_instance eval;

static tl_status eval_start(tl_hook *h, const void *config)
{
    h->started = true;
    if (config) ((eval *)h)->config = *(const tl_eval_config *)config;
    return TL_OK;
}

static tl_status fill_results(const eval *e, tl_logs *results)
{
    tl_controller *c = e->base.controller;
    if (!e->config.evaluate) return tl_controller_evaluate(c, -1, results);
    TL_TRY(e->config.evaluate(c, results, e->config.payload));
    return tli_hooks_after_eval(c, results);
}

static tl_status evaluate(const eval *e)
{
    tl_logs *results;
    TL_TRY(tl_logs_new(&results));
    tl_status st = fill_results(e, results);
    // A signal ends the evaluation and the training, which says so.
    if (st == TL_ESTOPPED && tli_controller_stopping(e->base.controller)) st = TL_OK;
    else if (st == TL_OK)
        st = tl_event_storage_put_logs(tl_controller_storage(e->base.controller), results, false);
    tl_logs_free(&results);
    return st;
}

static tl_status eval_after_step(tl_hook *h)
{
    const eval *e = (const eval *)h;
    bool last = tl_controller_step(h->controller) == tl_controller_last_step(h->controller);
    return last || e->config.only_at_end ? TL_OK : evaluate(e);
}

static tl_status eval_after_train(tl_hook *h)
{
    const eval *e = (const eval *)h;
    int64_t step = tl_controller_step(h->controller);
    if (e->config.not_at_end || step < tl_controller_last_step(h->controller)) return TL_OK;
    tl_event_storage_set_iteration(tl_controller_storage(h->controller), step);
    return evaluate(e);
}

const tl_hook_class tl_eval_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "eval",
            .size = sizeof(tl_eval_instance),
            .help = "evaluates during training"},
    .start = eval_start,
    .needs_start = true,
    .after_train = eval_after_train,
    .after_step = eval_after_step,
};

/* --- writers ---------------------------------------------------------------------------------- */

typedef tl_periodic_writer_instance periodic_writer;

static tl_status writer_start(tl_hook *h, const void *config)
{
    periodic_writer *w = (periodic_writer *)h;
    h->started = true;
    if (!config)
        return TL_FAIL(TL_EINVAL, "the hook '%s' needs writers, and none are given", h->name);
    w->config = *(const tl_periodic_writer_config *)config;
    w->written = -1;
    size_t bytes = (size_t)w->config.count * sizeof *w->config.writers;
    if (!bytes) return TL_OK;
    w->config.writers = tl_arena_copy(h->arena, w->config.writers, bytes);
    return w->config.writers ? TL_OK : TL_ENOMEM;
}

static tl_status write_now(periodic_writer *w)
{
    tl_event_storage *s = tl_controller_storage(w->base.controller);
    w->written = tl_event_storage_iteration(s);
    return tl_event_writers_write(w->config.writers, w->config.count, s);
}

static tl_status writer_after_step(tl_hook *h)
{
    return write_now((periodic_writer *)h);
}

/* The last step may lie between two periods, and evaluations put results after it. */
static tl_status writer_after_train(tl_hook *h)
{
    periodic_writer *w = (periodic_writer *)h;
    tl_event_storage *s = tl_controller_storage(h->controller);
    int64_t step = tl_controller_step(h->controller);
    tl_status st = TL_OK;
    if (step > 0 && w->written != step - 1) {
        tl_event_storage_set_iteration(s, step - 1);
        st = write_now(w);
    }
    tl_error error;
    if (st != TL_OK) tl_error_save(&error);
    tl_event_storage_set_iteration(s, step);
    tl_status closed = tl_event_writers_finish(w->config.writers, w->config.count, s);
    if (st != TL_OK) tl_error_restore(&error);
    return st != TL_OK ? st : closed;
}

static tl_status writer_on_save(tl_hook *h, const char *path)
{
    const periodic_writer *w = (const periodic_writer *)h;
    (void)path;
    return tl_event_writers_sync(w->config.writers, w->config.count);
}

const tl_hook_class tl_periodic_writer_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "periodic_writer",
            .size = sizeof(tl_periodic_writer_instance),
            .help = "writes what is in the event storage"},
    .start = writer_start,
    .needs_start = true,
    .after_train = writer_after_train,
    .after_step = writer_after_step,
    .on_save = writer_on_save,
    .files = TL_HOOK_FILES,
};
