#include <tilth/train/controller/actions.h>

#include <inttypes.h>

#include <tilth/base/vec.h>
#include <tilth/io/safetensors.h>
#include <tilth/train/progressive/progressive.h>

#include "train/controller/controller.h"

/* --- lists ------------------------------------------------------------------------------------ */

void tl_hooks_free(tl_hooks *hooks)
{
    for (int64_t i = hooks->count - 1; i >= 0; i--) tl_hook_free(&hooks->items[i]);
    TL_VEC_FREE(hooks);
}

tl_status tl_hooks_add(tl_hooks *hooks, tl_hook **out, const tl_hook_class *cls,
                       const tl_hook_args *args)
{
    tl_hook *h;
    if (out) *out = NULL;
    TL_TRY(tl_hook_new(&h, cls, args));
    if (!TL_VEC_PUSH(hooks, h)) {
        tl_hook_free(&h);
        return TL_ENOMEM;
    }
    if (out) *out = h;
    return TL_OK;
}

tl_status tl_get_train_actions(tl_hooks *into, const tl_experiment_config *config,
                               const tl_trainer *trainer)
{
    const tl_trainer_config *p = config->trainer.value;
    const tl_early_stopping_config *stop = config->tilth.early_stopping;
    if (p->recovery_max_trials >= 0) {
        tl_recovery_config recovery = {
            .loss_upper_bound = p->loss_upper_bound,
            .recovery_begin_steps = p->recovery_begin_steps,
            .recovery_max_trials = p->recovery_max_trials,
        };
        TL_TRY(tl_hooks_add(into, NULL, &tl_recovery_hook, &(tl_hook_args){.config = &recovery}));
    }
    if (stop)
        TL_TRY(tl_hooks_add(into, NULL, &tl_early_stopping_hook, &(tl_hook_args){.config = stop}));
    if (!config->tilth.gradient_noise_scale) return TL_OK;
    // Before a step is captured, whoever does that.
    if (trainer->optimizer) TL_TRY(tl_optimizer_measure_noise(trainer->optimizer));
    TL_TRY(tl_hooks_add(into, NULL, &tl_noise_scale_hook, NULL));
    return TL_OK;
}

static bool has_averages(const tl_trainer *t)
{
    return t->optimizer && tl_optimizer_averages(t->optimizer);
}

tl_status tl_get_eval_actions(tl_hooks *into, const tl_experiment_config *config,
                              const tl_trainer *trainer, const char *model_dir)
{
    const tl_trainer_config *p = config->trainer.value;
    // a later stage may keep averages
    if (!has_averages(trainer) && !tl_trainer_stage_count(trainer)) return TL_OK;
    if (!model_dir || !*model_dir) return TL_OK;
    tl_ema_checkpoint_config ema = {
        .dir = model_dir,
        .max_to_keep = p->max_to_keep.set ? p->max_to_keep.value : -1,
    };
    return tl_hooks_add(into, NULL, &tl_ema_checkpoint_hook, &(tl_hook_args){.config = &ema});
}

/* --- when a condition holds ------------------------------------------------------------------- */

typedef tl_conditional_instance conditional;

static tl_status conditional_start(tl_hook *h, const void *config)
{
    conditional *c = (conditional *)h;
    h->started = true;
    if (!config || !((const tl_conditional_config *)config)->condition)
        return TL_FAIL(TL_EINVAL, "the hook '%s' needs a condition, and none is given", h->name);
    c->config = *(const tl_conditional_config *)config;
    size_t bytes = (size_t)c->config.hook_count * sizeof *c->config.hooks;
    if (!bytes) return TL_OK;
    c->config.hooks = tl_arena_copy(h->arena, c->config.hooks, bytes);
    return c->config.hooks ? TL_OK : TL_ENOMEM;
}

// They belong to the same controller, which does not know them.
static void adopt(const conditional *c)
{
    for (int64_t i = 0; i < c->config.hook_count; i++)
        c->config.hooks[i]->controller = c->base.controller;
}

#define CONDITIONAL_PHASE(phase, loop)                                                             \
    static tl_status conditional_##phase(tl_hook *h, tl_logs *logs)                                \
    {                                                                                              \
        const conditional *c = (const conditional *)h;                                             \
        bool holds = false;                                                                        \
        if (c->config.after_loops != (loop)) return TL_OK;                                         \
        TL_TRY(c->config.condition(&holds, h->controller, logs, c->config.payload));               \
        adopt(c);                                                                                  \
        for (int64_t i = 0; holds && i < c->config.hook_count; i++) {                              \
            tl_hook *inner = c->config.hooks[i];                                                   \
            const tl_hook_class *with = TL_CLASS_METHOD(tl_hook_class, inner->cls, phase);         \
            if (with) TL_TRY(tli_hook_settle(inner, with->phase(inner, logs)));                    \
        }                                                                                          \
        return TL_OK;                                                                              \
    }
CONDITIONAL_PHASE(after_loop, true)
CONDITIONAL_PHASE(after_eval, false)

static tl_status conditional_state(tl_hook *h, tl_state *into)
{
    const conditional *c = (const conditional *)h;
    for (int64_t i = 0; i < c->config.hook_count; i++) {
        tl_hook *inner = c->config.hooks[i];
        const tl_hook_class *with = TL_CLASS_METHOD(tl_hook_class, inner->cls, state);
        tl_state *sub;
        if (!with) continue;
        TL_TRY(tl_state_sub(&sub, into, inner->name));
        TL_TRY_NOTE(with->state(inner, sub), "hook '%s'", inner->name);
    }
    return TL_OK;
}

const tl_hook_class tl_conditional_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "conditional",
            .size = sizeof(tl_conditional_instance),
            .help = "calls other hooks when a condition holds"},
    .start = conditional_start,
    .needs_start = true,
    .after_loop = conditional_after_loop,
    .after_eval = conditional_after_eval,
    .state = conditional_state,
};

/* --- the weights ------------------------------------------------------------------------------ */

/* Whose model is looked at. */
static tl_trainer *subject(const tl_hook *h)
{
    tl_trainer *t = tl_controller_trainer(h->controller);
    return t ? t : tl_controller_evaluator(h->controller);
}

static tl_status require_model(const tl_hook *h, const tl_trainer *t)
{
    if (t->model) return TL_OK;
    return TL_FAIL(TL_ESTATE, "the hook '%s' writes a model, and the trainer has none", h->name);
}

/* Calls `write` with averaged weights in the model, where they are wanted; they are put back
 * whatever happens. */
static tl_status with_averages(tl_trainer *t, bool wanted,
                               tl_status (*write)(tl_trainer *t, void *payload), void *payload)
{
    tl_optimizer *o = t->optimizer;
    bool swap = wanted && o && tl_optimizer_averages(o) && !tl_optimizer_swapped(o);
    if (swap) TL_TRY(tl_optimizer_swap(o));
    tl_status st = write(t, payload);
    tl_error error;
    if (st != TL_OK) tl_error_save(&error);
    if (swap && tl_optimizer_swap(o) != TL_OK && st == TL_OK) st = tl_error_code();
    else if (st != TL_OK) tl_error_restore(&error);
    return st;
}

/* --- exports ---------------------------------------------------------------------------------- */

typedef tl_export_model_instance export_model;

static tl_status export_start(tl_hook *h, const void *config)
{
    export_model *e = (export_model *)h;
    h->started = true;
    if (!config || !((const tl_export_model_config *)config)->files)
        return TL_FAIL(TL_EINVAL, "the hook '%s' needs a file manager, and none is given", h->name);
    e->config = *(const tl_export_model_config *)config;
    return TL_OK;
}

static tl_status write_weights(tl_trainer *t, void *path)
{
    tl_safetensors_note note = {"format", "pt"}; // what `transformers` wants to see
    tl_state *state;
    TL_TRY(tl_state_new(&state));
    tl_status st = tl_model_state(t->model, state);
    if (st == TL_OK) st = tl_safetensors_write(path, state, &note, 1);
    tl_state_free(&state);
    return st;
}

static tl_status export_now(export_model *e)
{
    tl_trainer *t = subject(&e->base);
    const char *name;
    char *file;
    tl_arena *arena;
    tl_status st;
    TL_TRY(require_model(&e->base, t));
    TL_TRY(tl_arena_new(&arena));
    TL_TRY_DONE(st, tl_export_file_manager_next(&name, e->config.files, arena));
    TL_TRY_DONE(st, tl_mkdirs(name));
    file = tl_path_join(arena, name, "model.safetensors");
    st = file ? with_averages(t, e->config.averages, write_weights, file) : TL_ENOMEM;
    if (st == TL_OK) st = tl_export_file_manager_clean_up(e->config.files);
done:
    tl_arena_free(&arena);
    return st;
}

static tl_status export_after_loop(tl_hook *h, tl_logs *logs)
{
    (void)logs;
    return ((export_model *)h)->config.after_loops ? export_now((export_model *)h) : TL_OK;
}

static tl_status export_after_eval(tl_hook *h, tl_logs *logs)
{
    (void)logs;
    return ((export_model *)h)->config.after_loops ? TL_OK : export_now((export_model *)h);
}

const tl_hook_class tl_export_model_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "export_model",
            .size = sizeof(tl_export_model_instance),
            .help = "writes the weights of the model, for others to use"},
    .start = export_start,
    .needs_start = true,
    .after_loop = export_after_loop,
    .after_eval = export_after_eval,
    .files = TL_HOOK_FILES,
};

/* --- checkpoints of averages ------------------------------------------------------------------ */

typedef tl_ema_checkpoint_instance ema_checkpoint;

static tl_status ema_start(tl_hook *h, const void *config)
{
    ema_checkpoint *e = (ema_checkpoint *)h;
    const tl_ema_checkpoint_config *given = config;
    h->started = true;
    if (!given || !given->dir || !*given->dir)
        return TL_FAIL(TL_EINVAL, "the hook '%s' needs a folder, and none is given", h->name);
    e->dir = tl_path_join(h->arena, given->dir, "ema_checkpoints");
    if (given->max_to_keep >= 0) {
        e->max_to_keep.set = true;
        e->max_to_keep.value = given->max_to_keep ? given->max_to_keep : 1;
    }
    return e->dir ? TL_OK : TL_ENOMEM;
}

/* The manager is made anew each time: models may change in mid-run, and it finds the older ones by
 * itself. */
static tl_status write_averages(tl_trainer *t, void *payload)
{
    const ema_checkpoint *e = payload;
    int64_t iterations = tl_optimizer_iterations(t->optimizer);
    tl_checkpoint_manager *m = NULL;
    tl_state *state, *model;
    tl_status st;
    TL_TRY(tl_state_new(&state));
    TL_TRY_DONE(st, tl_state_bind_int(state, "iterations", &iterations));
    TL_TRY_DONE(st, tl_state_sub(&model, state, "model"));
    TL_TRY_DONE(st, tl_model_state(t->model, model));
    tl_checkpoint_manager_args args = {
        .directory = e->dir,
        .name = "average_weights",
        .state = state,
        .step = &iterations,
        .interval = 1,
        .max_to_keep = e->max_to_keep,
    };
    TL_TRY_DONE(st, tl_checkpoint_manager_new(&m, &args));
    st = tl_checkpoint_manager_save(m, false, NULL);
done:
    tl_checkpoint_manager_free(&m);
    tl_state_free(&state);
    return st;
}

static tl_status ema_after_eval(tl_hook *h, tl_logs *logs)
{
    tl_trainer *t = subject(h);
    (void)logs;
    TL_TRY(require_model(h, t));
    if (!has_averages(t) && tl_trainer_stage_count(t)) return TL_OK; // this stage keeps none
    if (!has_averages(t))
        return TL_FAIL(TL_ESTATE,
                       "the hook '%s' writes averaged weights, and the optimizer keeps none: set "
                       "trainer.optimizer_config.ema",
                       h->name);
    return with_averages(t, true, write_averages, h);
}

const tl_hook_class tl_ema_checkpoint_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "ema_checkpoint",
            .size = sizeof(tl_ema_checkpoint_instance),
            .help = "writes averaged weights as checkpoints of their own"},
    .start = ema_start,
    .needs_start = true,
    .after_eval = ema_after_eval,
    .files = TL_HOOK_CHECKPOINTS,
};
