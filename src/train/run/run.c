#include <tilth/train/run/run.h>

#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/log.h>
#include <tilth/base/vec.h>
#include <tilth/sys/core/backend.h>
#include <tilth/train/run/finished.h>
#include <tilth/train/writers/metrics_file.h>

#include "train/configurables.h"
#include "train/peers.h"
#include "train/run/continuous.h"
#include "train/run/folder.h"
#include "train/run/impl.h"
#include "train/run/several.h"
#include "train/controller/schedule_end.h"
#include "train/trainer/trainer.h"

/* --- modes ------------------------------------------------------------------------------------ */

static const char *const modes[] = {
    "train",
    "eval",
    "train_and_eval",
    "continuous_eval",
    TLI_CONTINUOUS_MODE,
    "train_and_post_eval",
};
#define ALL_MODES                                                                                  \
    "train, eval, train_and_eval, continuous_eval, continuous_train_and_eval, train_and_post_eval"

static bool is_one_of(const char *word, const char *const *words, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0) return true;
    return false;
}

tl_status tl_check_mode(const char *mode)
{
    if (!mode) return TL_FAIL(TL_EINVAL, "no mode is given; there are " ALL_MODES);
    if (is_one_of(mode, modes, TL_COUNT(modes))) return TL_OK;
    if (strcmp(mode, "train_and_validate") == 0)
        return TL_FAIL(TL_EUNSUPPORTED, "the mode '%s' is not implemented; there are " ALL_MODES,
                       mode);
    const char *near = tl_nearest(mode, modes, TL_COUNT(modes));
    return TL_FAIL(TL_EINVAL, "there is no mode '%.80s'%s%s%s; there are " ALL_MODES, mode,
                   near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

/* --- the pieces ------------------------------------------------------------------------------- */

tl_status tl_create_trainer(tl_trainer **out, const tl_experiment_config *params, tl_task *task,
                            tl_strategy *strategy, bool train, bool evaluate, tl_exporter *exporter,
                            const tl_trainer_class *cls, uint64_t seed)
{
    if (!cls) cls = tli_usual_trainer(params);
    if (cls == &tl_base_trainer) TL_LOG_INFO("Running default trainer.");
    return tl_trainer_new(out, &(tl_trainer_args){.cls = cls,
                                                  .config = params,
                                                  .strategy = strategy,
                                                  .task = task,
                                                  .train = train,
                                                  .evaluate = evaluate,
                                                  .exporter = exporter,
                                                  .seed = seed});
}

/* Of several processes one writes. */
static bool writes(const tl_runner *r)
{
    return !r->args->keep_nothing && tli_is_chief(r->args->strategy);
}

static tl_status base_build_exporter(tl_runner *r, tl_exporter **out)
{
    *out = NULL;
    if (!r->evaluates || !writes(r)) return TL_OK;
    return tl_maybe_create_best_ckpt_exporter(out, r->params, r->args->model_dir);
}

static tl_status base_build_trainer(tl_runner *r, tl_trainer **out)
{
    const tl_run_args *a = r->args;
    if (a->trainer && *a->trainer) {
        *out = *a->trainer;
        *a->trainer = NULL;
        return TL_OK;
    }
    if (a->gin) return tli_gin_create_trainer(r, out);
    return tl_create_trainer(out, a->params, a->task, a->strategy, r->trains, r->evaluates,
                             r->exporter, a->trainer_cls, a->seed);
}

static tl_status initialize(void *payload)
{
    return tl_trainer_initialize(payload);
}

static tl_status restore_original(void *payload, const char *prefix)
{
    return tl_trainer_restore_original(payload, prefix);
}

static tl_status before_restore(void *payload, const tl_state *found)
{
    return tli_trainer_before_restore(payload, found);
}

static tl_status base_build_checkpoint_manager(tl_runner *r, tl_checkpoint_manager **out)
{
    tl_state *state = tl_trainer_checkpoint(r->trainer);
    const char *numerics = tli_numerics(r->arena, r->trainer->engine, &r->args->params->tilth);
    const tli_peers *peers = tli_strategy_peers(r->args->strategy);
    if (!state) return tl_error_code();
    if (!numerics) return TL_ENOMEM;
    if (!r->args->model_dir || !*r->args->model_dir)
        return TL_FAIL(TL_EINVAL, "model_dir is not set: there is no folder for checkpoints");
    return tl_checkpoint_manager_new(
        out, &(tl_checkpoint_manager_args){
                 .directory = r->args->model_dir,
                 .state = state,
                 .step = &r->trainer->global_step,
                 .interval = r->args->keep_nothing ? 0 : r->params->checkpoint_interval,
                 .minutes = r->args->params->tilth.checkpoint_minutes,
                 .files = r->args->params->tilth.checkpoint_shards,
                 .group = peers && r->trains ? peers->all : NULL,
                 .part = tli_trainer_part,
                 .read_only = !writes(r),
                 .anew = !tli_is_chief(r->args->strategy), // the chief says which one it is
                 .max_to_keep = r->params->max_to_keep,
                 .init = initialize,
                 .restore_bundle = restore_original,
                 .before_restore = before_restore,
                 .choices = tli_trainer_choices,
                 .choose = tli_trainer_choose,
                 .payload = r->trainer,
                 .background = r->args->background_checkpoints,
                 .optional = "hooks",
                 .explained = "data",
                 .explanation = "training data: " TL_DATASET_OF_OTHER_DATA,
                 .notes = r->notes.items,
                 .note_count = r->notes.count,
                 .numerics = numerics});
}

static tl_status base_build_hooks(tl_runner *r)
{
    if (r->args->gin) return tli_gin_get_actions(r);
    if (r->trains) TL_TRY(tl_get_train_actions(&r->hooks, r->args->params, r->trainer));
    if (r->args->keep_nothing) return TL_OK; // those of evaluations write
    return tl_get_eval_actions(&r->hooks, r->args->params, r->trainer, r->args->model_dir);
}

tl_status tl_runner_add_hook(tl_runner *r, tl_hook **hook)
{
    if (!TL_VEC_PUSH(&r->hooks, *hook)) {
        tl_hook_free(hook);
        return TL_ENOMEM;
    }
    *hook = NULL;
    return TL_OK;
}

/* Those of the caller first, then the experiment's. */
static tl_status all_hooks(tl_runner *r, tl_hook ***out, int64_t *count)
{
    const tl_run_args *a = r->args;
    *count = a->hook_count + r->hooks.count;
    *out = tl_arena_array(r->arena, *count ? *count : 1, sizeof **out);
    if (!*out) return TL_ENOMEM;
    for (int64_t i = 0; i < a->hook_count; i++) (*out)[i] = a->hooks[i];
    for (int64_t i = 0; i < r->hooks.count; i++) (*out)[a->hook_count + i] = r->hooks.items[i];
    return TL_OK;
}

static tl_status base_build_controller(tl_runner *r, tl_controller **out)
{
    const tl_run_args *a = r->args;
    const tl_trainer_config *p = r->params;
    tl_hook **hooks;
    int64_t count;
    TL_TRY(all_hooks(r, &hooks, &count));
    const char *train_dir = tl_path_join(r->arena, a->model_dir, "train");
    const char *eval_dir = tl_path_join(r->arena, a->model_dir, p->validation_summary_subdir);
    if (!train_dir || !eval_dir) return TL_ENOMEM;
    const bool chief = tli_is_chief(a->strategy);
    bool summaries = !a->without_summaries && writes(r);
    return tl_controller_new(
        out,
        &(tl_controller_args){.trainer = r->trains ? r->trainer : NULL,
                              .evaluator = r->trainer,
                              .steps_per_loop = p->steps_per_loop,
                              .checkpoint_manager = r->manager,
                              .summary_interval = summaries ? p->summary_interval : 0,
                              .summary_dir = summaries ? train_dir : NULL,
                              .eval_summary_dir = summaries ? eval_dir : NULL,
                              .summary_manager = chief ? a->summary_manager : NULL,
                              .eval_summary_manager = chief ? a->eval_summary_manager : NULL,
                              .eval_summary_cls = a->eval_summary_cls,
                              .hooks = hooks,
                              .hook_count = count,
                              .survive_write_failures = a->params->tilth.survive_write_failures,
                              .leave_unsaved = !p->preemption_on_demand_checkpoint,
                              .heed_signals = a->heed_signals,
                              .quiet = a->quiet || !writes(r)});
}

/* --- running ---------------------------------------------------------------------------------- */

static bool is_mode(const tl_runner *r, const char *mode)
{
    return strcmp(r->args->mode, mode) == 0;
}

static bool reached_the_end(void *payload)
{
    const tl_runner *r = payload;
    return r->trainer->global_step >= r->params->train_steps;
}

static tl_status run_mode(tl_runner *r, tl_logs *logs)
{
    const tl_trainer_config *p = r->params;
    tl_controller *c = r->controller;
    if (is_mode(r, "train") || is_mode(r, "train_and_post_eval"))
        return tl_controller_train(c, p->train_steps, true);
    if (is_mode(r, "train_and_eval"))
        return tl_controller_train_and_evaluate(c, p->train_steps, p->validation_steps,
                                                p->validation_interval, logs);
    if (is_mode(r, "eval")) return tl_controller_evaluate(c, p->validation_steps, logs);
    double timeout = p->continuous_eval_timeout.set ? (double)p->continuous_eval_timeout.value : -1;
    TL_TRY(tl_controller_evaluate_continuously(c, p->validation_steps, timeout, reached_the_end, r,
                                               logs));
    if (tl_logs_count(logs)) return TL_OK;
    return TL_FAIL(TL_ENOTFOUND,
                   "there was nothing to evaluate: no checkpoint has appeared in '%s' for %g s "
                   "(trainer.continuous_eval_timeout)",
                   r->args->model_dir, timeout);
}

static void report_model(tl_model *m)
{
    tl_model_size size = tl_model_measure(m);
    double flops = tl_count_flops(m);
    // Whatever the words say, Model Garden counts all of them, and scripts read this line.
    TL_LOG_INFO("Number of trainable params in model: %f Millions.",
                (double)(size.params + size.state) * 1e-6);
    if (flops > 0) TL_LOG_INFO("FLOPs (multi-adds) in model: %f Billions.", flops * 1e-9 / 2);
}

static tl_status base_run(tl_runner *r, tl_logs *logs)
{
    TL_LOG_INFO("Starts to execute mode: %s", r->args->mode);
    TL_TRY(run_mode(r, logs));
    if (r->trainer->model) report_model(r->trainer->model);
    if (!r->args->run_post_eval && !is_mode(r, "train_and_post_eval")) return TL_OK;
    tl_logs_clear(logs);
    return tl_controller_evaluate(r->controller, r->params->validation_steps, logs);
}

const tl_runner_class tl_base_runner = {
    .cls = {.class_size = sizeof(tl_runner_class),
            .name = "runner",
            .help = "how a run is put together"},
    .build_exporter = base_build_exporter,
    .build_trainer = base_build_trainer,
    .build_checkpoint_manager = base_build_checkpoint_manager,
    .build_hooks = base_build_hooks,
    .build_controller = base_build_controller,
    .run = base_run,
};

/* --- beginning -------------------------------------------------------------------------------- */

static tl_status write_experiment(tl_runner *r)
{
    const char *path = tl_path_join(r->arena, r->args->model_dir, TL_EXPERIMENT_FILE);
    const char *text = tl_arena_printf(r->arena, "%s\n", r->args->experiment);
    if (!path || !text) return TL_ENOMEM;
    return tl_file_write_atomic(path, text, strlen(text));
}

/* What cannot be written is refused before there is a folder. */
static tl_status try_to_serialize(const tl_config *config)
{
    tl_str text = TL_STR_INIT;
    tl_status st = tl_config_write_saved(&text, config);
    if (st == TL_OK) st = tl_str_status(&text);
    tl_str_deinit(&text);
    return st;
}

tl_status tl_runner_begin(tl_runner *r)
{
    const tl_run_args *a = r->args;
    if (r->begun || !r->folder) return TL_OK;
    r->begun = true;
    if (a->config) TL_TRY(try_to_serialize(a->config));
    TL_TRY(tli_run_folder_begin(r->folder));
    if (a->config) {
        TL_LOG_INFO("Final experiment parameters: %s/params.yaml", a->model_dir);
        TL_LOG_INFO("Saving experiment configuration to %s/params.yaml", a->model_dir);
        TL_TRY(tl_serialize_config(a->config, a->model_dir));
    }
    if (a->experiment) TL_TRY(write_experiment(r));
    return tl_notes_write(&r->notes, a->model_dir);
}

/* --- running ---------------------------------------------------------------------------------- */

/* A class that does not name the base inherits from it all the same. */
#define CALL(r, method) TL_CLASS_METHOD_OR(tl_runner_class, (r)->cls, method, tl_base_runner)

/* An evaluation of weights that nobody has trained would look like a result. */
static tl_status check_weights(const tl_runner *r)
{
    const tl_task_config *task = r->args->params->task.value;
    bool initialized = task && task->init_checkpoint && *task->init_checkpoint;
    if (!is_mode(r, "eval") || initialized || !tli_is_chief(r->args->strategy)
        || tl_checkpoint_manager_latest(r->manager))
        return TL_OK;
    return TL_FAIL(TL_ENOTFOUND,
                   "there is nothing to evaluate: '%s' holds no checkpoint, and "
                   "task.init_checkpoint is not set",
                   r->args->model_dir);
}

/* Behind all others: they may change what is told. */
static tl_status add_metrics_file(tl_runner *r, tl_hook **out)
{
    const tl_run_args *a = r->args;
    *out = NULL;
    if (a->without_metrics_file || !writes(r) || !a->model_dir || !*a->model_dir) return TL_OK;
    tl_metrics_file_config config = {
        .dir = a->model_dir,
        .experiment = a->experiment,
        .mode = a->mode,
        .notify = a->params->tilth.notify,
    };
    return tl_hooks_add(&r->hooks, out, &tl_metrics_file_hook, &(tl_hook_args){.config = &config});
}

static tl_status make_notes(tl_runner *r)
{
    const char *folder = r->args->model_dir;
    TL_TRY(tli_gin_note(r));
    TL_TRY(tl_task_notes(r->args->task, &r->notes));
    if (folder && *folder) TL_TRY(tl_notes_check(&r->notes, folder));
    if (r->exporter) tl_exporter_set_notes(r->exporter, &r->notes);
    return TL_OK;
}

/* Nothing is written before tl_runner_begin. */
static tl_status run(tl_runner *r, tl_logs *logs)
{
    tl_hook *metrics;
    if (r->folder) TL_TRY(tli_run_folder_claim(r->folder, r->args->model_dir));
    if (r->trains) TL_TRY(tl_folder_check_experiment(r->args->model_dir, r->args->experiment));
    TL_TRY(CALL(r, build_exporter)(r, &r->exporter));
    TL_TRY(CALL(r, build_trainer)(r, &r->trainer));
    if (r->folder) tl_str_add(&r->trainer->parts->stages.folder, r->args->model_dir);
    if (r->trains && tli_is_chief(r->args->strategy))
        tli_tell_schedule_end(r->args->params, r->args->task ? r->args->task->registry : NULL,
                              r->trainer->engine);
    if (r->trains) TL_TRY(tli_trainer_try_data(r->trainer));
    TL_TRY(make_notes(r));
    TL_TRY(CALL(r, build_checkpoint_manager)(r, &r->manager));
    if (r->manager) TL_TRY(check_weights(r));
    TL_TRY(CALL(r, build_hooks)(r));
    if (r->args->gin && r->trains) TL_TRY(tl_gin_check_used(r->args->gin, r->args->gin_strict));
    TL_TRY(add_metrics_file(r, &metrics));
    TL_TRY(CALL(r, build_controller)(r, &r->controller));
    if (r->trains) TL_TRY(tli_trainer_try_place(r->trainer, r->params->train_steps));
    TL_TRY(tl_runner_begin(r));
    if (r->args->keep_nothing) return tli_run_trial(r, logs);
    tl_status st = CALL(r, run)(r, logs);
    if (metrics) tl_metrics_file_end(metrics, st);
    return st;
}

// Nobody chooses one by its name: the kind is for its instances alone.
static const tl_kind kind = {
    .name = "runner",
    .plural = "runners",
    .class_size = sizeof(tl_runner_class),
    TL_INSTANCE(tl_runner),
};

static tl_status runner_new(tl_runner **out, const tl_run_args *args)
{
    const tl_runner_class *cls = args->runner ? args->runner : &tl_base_runner;
    size_t size;
    TL_TRY(tl_class_instance_size(&size, &kind, &cls->cls));
    tl_runner *r = tl_alloc_zero(size);
    if (!r) return TL_FAIL_NOMEM(size);
    r->cls = cls;
    r->args = args;
    r->params = args->params->trainer.value;
    r->trains = strstr(args->mode, "train") != NULL;
    r->evaluates = strstr(args->mode, "eval") != NULL || args->run_post_eval;
    *out = r;
    return tl_arena_new(&r->arena);
}

/* All but the trainer, which may be a part of the result. */
static void runner_free(tl_runner *r)
{
    if (!r) return;
    tl_controller_free(&r->controller);
    tl_hooks_free(&r->hooks);
    tl_checkpoint_manager_free(&r->manager);
    if (r->trainer) r->trainer->exporter = NULL;
    tl_exporter_free(&r->exporter);
    tl_notes_deinit(&r->notes);
    tl_arena_free(&r->arena);
    tl_free(r);
}

/* Several runs in a row are for who opens a task for each. */
static tl_status check_run(const char *mode)
{
    TL_TRY(tl_check_mode(mode));
    if (strcmp(mode, TLI_CONTINUOUS_MODE) != 0) return TL_OK;
    return TL_FAIL(TL_EINVAL, "the mode '%s' is several runs: tl_launch does them", mode);
}

tl_status tli_run_experiment_in(tl_run_result *out, const tl_run_args *args, tli_run_folder *folder)
{
    tl_runner *r = NULL;
    tl_logs *logs = NULL;
    tl_status st;
    if (out) *out = (tl_run_result){0};
    TL_TRY_DONE(st, check_run(args->mode));
    TL_TRY_DONE(st, runner_new(&r, args));
    TL_TRY_DONE(st, tli_run_folder_hold(folder, args->model_dir));
    if (r->trains && writes(r)) r->folder = folder;
    TL_TRY_DONE(st, tl_logs_new(&logs));
    tl_gin *outer = tl_gin_set_current(args->gin);
    if (args->task && !args->task->gin) args->task->gin = args->gin;
    st = run(r, logs);
    tl_gin_set_current(outer);
done:;
    tl_trainer *trainer = r ? r->trainer : NULL;
    runner_free(r);
    if (args->trainer && *args->trainer) tl_trainer_free(args->trainer);
    if (out && st == TL_OK) {
        *out = (tl_run_result){.trainer = trainer, .model = trainer->model, .logs = logs};
        return TL_OK;
    }
    tl_trainer_free(&trainer);
    tl_logs_free(&logs);
    return st;
}

tl_status tl_run_experiment(tl_run_result *out, const tl_run_args *args)
{
    tli_run_folder folder = {0};
    tl_status st = tli_run_experiment_in(out, args, &folder);
    tli_run_folder_leave(&folder);
    return st;
}

void tl_run_result_deinit(tl_run_result *r)
{
    tl_trainer_free(&r->trainer);
    tl_logs_free(&r->logs);
    *r = (tl_run_result){0};
}
