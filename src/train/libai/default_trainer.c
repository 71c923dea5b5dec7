#include "train/libai/default_trainer.h"

#include <inttypes.h>

#include <tilth/base/alloc.h>
#include <tilth/base/log.h>
#include <tilth/train/writers/metrics_file.h>

#include "train/libai/libai.h"
#include "train/run/finished.h"
#include "train/peers.h"
#include "train/run/folder.h"
#include "train/run/several.h"
#include "train/trainer/trainer.h"

/* --- the base's pieces ------------------------------------------------------------------------ */

tl_input_context tli_default_input(const tl_default_trainer *t)
{
    return (tl_input_context){.pipelines = 1,
                              .replicas = tl_strategy_replicas(t->strategy),
                              .seed = (uint64_t)t->config->train.seed};
}

static tl_status build_task(tl_default_trainer *t, tl_task **out)
{
    return tl_get_task(out, &(tl_task_args){.registry = t->registry,
                                            .config = &t->experiment->task,
                                            .logging_dir = t->config->train.output_dir,
                                            .engine = tl_strategy_engine(t->strategy),
                                            .dtype = tl_mixed_precision_dtype(
                                                t->experiment->runtime.mixed_precision_dtype),
                                            .seed = (uint64_t)t->config->train.seed});
}

static tl_status build_train_loader(tl_default_trainer *t, tl_dataset **out)
{
    const tl_task_config *task = t->task->config;
    tl_input_context input = tli_default_input(t);
    if (!task->train_data)
        return TL_FAIL(
            TL_EINVAL,
            "there is nothing to train with: dataloader.train (train_data of the task) is null");
    return tl_task_build_inputs(t->task, task->train_data, &input, out);
}

static tl_status build_test_loader(tl_default_trainer *t, tl_dataset **out)
{
    const tl_task_config *task = t->task->config;
    tl_input_context input = tli_default_input(t);
    if (!task->validation_data)
        return TL_FAIL(
            TL_EINVAL,
            "there is nothing to evaluate with: dataloader.test (validation_data of the task) is "
            "null; train.evaluation.enabled=false trains without");
    return tl_task_build_inputs(t->task, task->validation_data, &input, out);
}

/* The description of the task's training data, which may be more than tl_data_config. */
static const tl_desc *data_desc(const tl_default_trainer *t)
{
    const tl_field *row = tl_desc_field(t->experiment->task.desc, "train_data");
    return row && row->desc ? row->desc : &tl_data_config_desc;
}

/* Data that is read once, one by one, knows how much it is. */
static tl_status train_examples(tl_default_trainer *t, int64_t *out)
{
    const tl_desc *desc = data_desc(t);
    tl_input_context input = tli_default_input(t);
    input.replicas = 1; // they are counted one by one
    tl_data_config *once;
    tl_dataset *data = NULL;
    *out = 0;
    if (t->config->tilth.train_examples.set) {
        *out = t->config->tilth.train_examples.value;
        return TL_OK;
    }
    if (!(once = tl_arena_alloc(t->arena, desc->size))) return TL_ENOMEM;
    TL_TRY(tl_desc_copy(t->arena, desc, once, t->task->config->train_data));
    once->is_training = (tl_opt_bool){true, false};
    once->drop_remainder = false;
    once->sampler = NULL; // an epoch is all of the data
    once->global_batch_size = 1;
    TL_TRY(tl_task_build_inputs(t->task, once, &input, &data));
    tl_status st = tl_dataset_length(data, out);
    tl_dataset_free(&data);
    if (st == TL_EUNSUPPORTED || (st == TL_OK && *out < 0)) {
        *out = 0; // who needs it says so
        return TL_OK;
    }
    return st;
}

static tl_status auto_scale_hyperparams(tl_default_trainer *t)
{
    int64_t examples = 0;
    if (tl_libai_counts_epochs(&t->config->train))
        TL_TRY(TLI_DEFAULT_CALL(t, train_examples)(t, &examples));
    return tl_libai_auto_scale(&t->config->train, examples);
}

static tl_status build_model(tl_default_trainer *t, tl_model **out)
{
    return tl_task_build_model(t->task, out);
}

static tl_status build_lr_scheduler(tl_default_trainer *t, tl_optimization_config *into)
{
    return tl_libai_schedule(into, t->arena, t->config);
}

static tl_status group_params(tl_default_trainer *t, tl_param_groups *groups)
{
    int64_t count = tl_model_param_count(t->model), trained = 0, rule_count;
    const char **paths = tl_arena_array(t->arena, count ? count : 1, sizeof *paths);
    tl_group_config *rules;
    if (!paths) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        const tl_param *p = tl_model_param(t->model, i);
        if (p->trainable && !p->state) paths[trained++] = p->path;
    }
    TL_TRY(tl_libai_param_rules(&rules, &rule_count, t->arena, &t->config->optim, t->model));
    TL_TRY(tl_param_groups_of(groups, t->arena, paths, trained, rules, rule_count));
    return tl_model_group(t->model, groups->groups, groups->count);
}

static tl_status build_optimizer(tl_default_trainer *t, tl_optimizer **out)
{
    enum { FIRST_SCALE = 65536 };
    tl_param_groups groups;
    TL_TRY(tl_libai_optimizer(t->optimization, t->arena, &t->config->optim));
    TL_TRY(group_params(t, &groups));
    return tl_optimizer_new(
        out, &(tl_optimizer_args){.engine = tl_strategy_engine(t->strategy),
                                  .model = t->model,
                                  .config = t->optimization,
                                  .registry = t->registry,
                                  .groups = groups.groups,
                                  .group_count = groups.count,
                                  .scaled = t->task->dtype == TL_F16,
                                  .initial_scale =
                                      FIRST_SCALE * (double)tl_strategy_replicas(t->strategy)});
}

static tl_status build_evaluator(tl_default_trainer *t, tl_evaluator **out)
{
    (void)t;
    *out = NULL;
    return TL_OK;
}

static tl_status build_trainer(tl_default_trainer *t, tl_trainer **out)
{
    tl_trainer_args args = {.cls = t->config->graph.enabled ? t->graph : t->eager,
                            .config = t->experiment,
                            .strategy = t->strategy,
                            .task = t->task,
                            .model = t->model,
                            .optimizer = t->optimizer,
                            .train_dataset = t->train_loader,
                            .validation_dataset = t->test_loader,
                            .train = !t->eval_only,
                            .evaluate = t->test_loader != NULL,
                            .seed = (uint64_t)t->config->train.seed};
    t->model = NULL;
    t->optimizer = NULL;
    t->train_loader = t->test_loader = NULL;
    TL_TRY(tl_trainer_new(out, &args));
    (*out)->parts->keys = tli_libai_keys;
    return TL_OK;
}

static tl_status initialize(void *payload)
{
    return tl_trainer_initialize(payload);
}

static tl_status build_checkpointer(tl_default_trainer *t, tl_checkpoint_manager **out)
{
    const tl_libai_train_config *train = &t->config->train;
    const tli_peers *peers = tli_strategy_peers(t->strategy);
    const bool chief = tli_is_chief(t->strategy);
    tl_state *state = tl_trainer_checkpoint(t->trainer);
    const char *numerics = tli_numerics(t->arena, t->trainer->engine, &t->experiment->tilth);
    if (!state) return tl_error_code();
    if (!numerics) return TL_ENOMEM;
    return tl_checkpoint_manager_new(
        out,
        &(tl_checkpoint_manager_args){.directory = train->output_dir,
                                      .state = state,
                                      .step = &t->trainer->global_step,
                                      .interval = INT64_MAX, // hooks say when
                                      .minutes = t->config->tilth.checkpoint_minutes,
                                      .files = t->config->tilth.checkpoint_shards,
                                      .group = peers && !t->eval_only ? peers->all : NULL,
                                      .part = tli_trainer_part,
                                      .read_only = !chief,
                                      .anew = !train->resume || !chief, // who says which one it is
                                      .max_to_keep = train->checkpointer.max_to_keep,
                                      .optional = "hooks",
                                      .explained = "data",
                                      .explanation = "training data: " TL_DATASET_OF_OTHER_DATA,
                                      .init = initialize,
                                      .choices = tli_trainer_choices,
                                      .choose = tli_trainer_choose,
                                      .payload = t->trainer,
                                      .background = true,
                                      .notes = t->notes.items,
                                      .note_count = t->notes.count,
                                      .numerics = numerics});
}

const tl_default_trainer_class tl_base_default_trainer = {
    .cls = {.class_size = sizeof(tl_default_trainer_class),
            .name = "DefaultTrainer",
            .size = sizeof(tl_default_trainer),
            .help = "a run as LiBai puts it together"},
    .build_task = build_task,
    .build_train_loader = build_train_loader,
    .build_test_loader = build_test_loader,
    .train_examples = train_examples,
    .auto_scale_hyperparams = auto_scale_hyperparams,
    .build_model = build_model,
    .build_lr_scheduler = build_lr_scheduler,
    .build_optimizer = build_optimizer,
    .build_evaluator = build_evaluator,
    .build_trainer = build_trainer,
    .build_checkpointer = build_checkpointer,
    .build_hooks = tli_default_build_hooks,
    .build_writers = tli_default_build_writers,
    .test = tli_default_test,
};

/* --- putting together ------------------------------------------------------------------------- */

/* Several processes are copies of the model, as yet. */
static tl_status check_copies(const tl_libai_dist_config *d)
{
    const bool tensor = d->tensor_parallel_size > 1;
    if (!tensor && d->pipeline_parallel_size == 1) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "%s is %" PRId64 ": processes cannot share a %s yet; set it to 1, and each of "
                   "them is a copy of the model",
                   tensor ? "tensor_parallel_size" : "pipeline_parallel_size",
                   tensor ? d->tensor_parallel_size : d->pipeline_parallel_size,
                   tensor ? "layer" : "model by its layers");
}

static tl_status take_config(tl_default_trainer *t, const tl_default_trainer_args *args)
{
    TL_TRY(tl_arena_new(&t->arena));
    TL_TRY(tl_logs_new(&t->last_eval_results));
    if (!(t->folder = tl_arena_alloc(t->arena, sizeof *t->folder))) return TL_ENOMEM;
    *t->folder = (tli_run_folder){0};
    if (!(t->config = tl_arena_alloc(t->arena, sizeof *t->config))) return TL_ENOMEM;
    TL_TRY(tl_desc_copy(t->arena, &tl_libai_config_desc, t->config, args->config));
    if (args->fast_dev_run) tl_libai_fast_dev_run(&t->config->train);
    tl_libai_train_config *train = &t->config->train;
    TL_TRY(tl_get_distribution_strategy(
        &t->strategy,
        &(tl_strategy_args){.registry = args->registry,
                            .device = t->config->tilth.device,
                            .distribution_strategy = args->world ? "mirrored" : "one_device",
                            .threads = (int)t->config->tilth.threads,
                            .lanes = t->config->tilth.lanes,
                            .bucket_mb = (double)train->nccl_fusion_threshold_mb,
                            .bucket_params = train->nccl_fusion_max_ops,
                            .world = args->world}));
    TL_TRY(tli_run_folder_hold(t->folder, train->output_dir));
    TL_TRY_NOTE(
        tli_libai_resolve_dist(train, tl_strategy_replicas(t->strategy), tli_is_chief(t->strategy)),
        "train");
    TL_TRY_NOTE(check_copies(&train->dist), "train.dist");
    TL_TRY_NOTE(tl_libai_resolve_batch(train, train->dist.data_parallel_size), "train");
    t->global_batch_size = t->config->train.global_batch_size.value;
    return tli_default_experiment(t);
}

static void tell_model(const tl_model *m)
{
    tl_str text = TL_STR_INIT;
    tl_model_summary(m, &text);
    TL_LOG_INFO("Model:\n%s", tl_str_text(&text));
    tl_str_deinit(&text);
}

/* Which number a class has is what the run says, whatever lies in the folders of data by now. */
static tl_status take_classes(tl_default_trainer *t)
{
    tl_strings names;
    return tli_take_noted_classes(&names, t->task, t->arena, t->config->train.output_dir);
}

static tl_status check_memory(const tl_default_trainer *t)
{
    const tl_task_config *task = t->task->config;
    if (t->eval_only || !task->train_data) return TL_OK;
    const int64_t batch = task->train_data->global_batch_size / tl_strategy_replicas(t->strategy);
    return tli_check_batch_memory(t->model, tli_libai_keys, batch,
                                  tli_batch_memory(tl_strategy_engine(t->strategy)));
}

static tl_status build_pieces(tl_default_trainer *t)
{
    bool tests = t->eval_only || t->config->train.evaluation.enabled;
    TL_TRY(TLI_DEFAULT_CALL(t, build_task)(t, &t->task));
    if (t->eval_only && t->config->train.resume) TL_TRY(take_classes(t));
    if (!t->eval_only) TL_TRY(TLI_DEFAULT_CALL(t, build_train_loader)(t, &t->train_loader));
    if (tests) TL_TRY(TLI_DEFAULT_CALL(t, build_test_loader)(t, &t->test_loader));
    if (!t->eval_only) TL_TRY(TLI_DEFAULT_CALL(t, auto_scale_hyperparams)(t));
    tli_default_scaled(t);
    TL_TRY(TLI_DEFAULT_CALL(t, build_model)(t, &t->model));
    tell_model(t->model);
    TL_TRY(check_memory(t));
    if (!t->eval_only) {
        TL_TRY(TLI_DEFAULT_CALL(t, build_lr_scheduler)(t, t->optimization));
        TL_TRY(TLI_DEFAULT_CALL(t, build_optimizer)(t, &t->optimizer));
    }
    if (tests) TL_TRY(TLI_DEFAULT_CALL(t, build_evaluator)(t, &t->evaluator));
    TL_TRY(TLI_DEFAULT_CALL(t, build_trainer)(t, &t->trainer));
    const tl_class *cls = &t->trainer->cls->cls;
    if (tl_class_is(cls, &tl_eager_trainer.cls) || tl_class_is(cls, &tl_graph_trainer.cls))
        ((tl_libai_trainer *)t->trainer)->evaluator = t->evaluator;
    if (tests) TL_TRY(tli_default_evaluator(t));
    return tests ? tli_default_tests_open(t) : TL_OK;
}

static tl_status build_controller(tl_default_trainer *t)
{
    return tl_controller_new(
        &t->controller,
        &(tl_controller_args){.trainer = t->eval_only ? NULL : t->trainer,
                              .evaluator = t->trainer->validation_metrics ? t->trainer : NULL,
                              .steps_per_loop = t->max_iter > 0 ? t->max_iter : 1,
                              .checkpoint_manager = t->checkpointer,
                              .hooks = t->hooks.items,
                              .hook_count = t->hooks.count,
                              .survive_write_failures = t->config->tilth.survive_write_failures,
                              .heed_signals = t->heed_signals,
                              .quiet = true});
}

/* A class of one's own may look into the folder though the run begins anew: then it must be empty
 * before all is accepted. */
static tl_status make_checkpointer(tl_default_trainer *t)
{
    const tl_libai_train_config *train = &t->config->train;
    TL_TRY(TLI_DEFAULT_CALL(t, build_checkpointer)(t, &t->checkpointer));
    if (train->resume || !t->checkpointer || !tl_checkpoint_manager_latest(t->checkpointer))
        return TL_OK;
    tl_checkpoint_manager_free(&t->checkpointer);
    TL_TRY(tli_set_aside(train->output_dir, &t->notes));
    return TLI_DEFAULT_CALL(t, build_checkpointer)(t, &t->checkpointer);
}

/* Once all is accepted: from here on the folder is written to. */
static tl_status begin_run(tl_default_trainer *t)
{
    const tl_libai_train_config *train = &t->config->train;
    if (!tli_is_chief(t->strategy)) return TL_OK;
    TL_TRY(tli_run_folder_begin(t->folder));
    if (!train->resume) TL_TRY(tli_set_aside(train->output_dir, &t->notes));
    TL_TRY(tl_notes_write(&t->notes, train->output_dir));
    // What an interrupted run told beyond its checkpoint will be told again; so may the last step
    // be.
    int64_t keep_to = t->start_iter - 1, told;
    TL_TRY(tli_last_told(&told, train->output_dir, keep_to));
    return tl_event_writers_rewind(t->writers.items, t->writers.count, told);
}

static tl_status begin_training(tl_default_trainer *t)
{
    const tl_libai_train_config *train = &t->config->train;
    const bool chief = tli_is_chief(t->strategy);
    if (chief) TL_TRY(tli_run_folder_claim(t->folder, train->output_dir));
    TL_TRY(tli_trainer_try_data(t->trainer));
    TL_TRY(tl_task_notes(t->task, &t->notes));
    if (train->resume) TL_TRY(tl_notes_check(&t->notes, train->output_dir));
    TL_TRY(make_checkpointer(t));
    if (chief && train->resume && t->checkpointer && !tl_checkpoint_manager_latest(t->checkpointer))
        TL_LOG_INFO("'%s' holds no checkpoint to resume: the run starts from the beginning",
                    train->output_dir);
    TL_TRY(TLI_DEFAULT_CALL(t, build_hooks)(t));
    TL_TRY(build_controller(t));
    t->start_iter = t->trainer->global_step;
    TL_TRY(tli_trainer_try_place(t->trainer, train->train_iter));
    return begin_run(t);
}

/* Scores of weights that nobody has trained would look like results. */
static tl_status begin_testing(tl_default_trainer *t)
{
    const tl_libai_train_config *train = &t->config->train;
    const tl_task_config *task = t->task->config;
    if (train->resume) {
        TL_TRY(TLI_DEFAULT_CALL(t, build_checkpointer)(t, &t->checkpointer));
        if (!t->checkpointer
            || (tli_is_chief(t->strategy) && !tl_checkpoint_manager_latest(t->checkpointer)))
            return TL_FAIL(TL_ENOTFOUND, "there is nothing to evaluate: '%s' holds no checkpoint",
                           train->output_dir);
    } else if (!task->init_checkpoint || !*task->init_checkpoint) {
        return TL_FAIL(TL_EINVAL,
                       "there is nothing to evaluate: name the weights with train.load_weight, or "
                       "say --resume "
                       "for those of the run in train.output_dir, '%s'",
                       train->output_dir);
    }
    TL_TRY(build_controller(t));
    if (!train->resume) TL_TRY(tl_trainer_initialize(t->trainer));
    t->start_iter = t->trainer->global_step;
    return TL_OK;
}

// Nobody chooses one by its name: the kind is for its instances alone.
static const tl_kind kind = {
    .name = "default trainer",
    .plural = "default trainers",
    .class_size = sizeof(tl_default_trainer_class),
    TL_INSTANCE(tl_default_trainer),
};

tl_status tl_default_trainer_new(tl_default_trainer **out, const tl_default_trainer_args *args)
{
    const tl_default_trainer_class *cls = args->cls ? args->cls : &tl_base_default_trainer;
    size_t size;
    *out = NULL;
    TL_TRY(tl_class_instance_size(&size, &kind, &cls->cls));
    tl_default_trainer *t = tl_alloc_zero(size);
    if (!t) return TL_FAIL_NOMEM(size);
    t->cls = cls;
    t->registry = args->registry;
    t->eager = args->eager ? args->eager : &tl_eager_trainer;
    t->graph = args->graph ? args->graph : &tl_graph_trainer;
    t->eval_only = args->eval_only;
    t->heed_signals = args->heed_signals;
    t->add_hooks = args->add_hooks;
    t->hooks_payload = args->hooks_payload;
    tl_status st = take_config(t, args);
    if (st == TL_OK) st = build_pieces(t);
    if (st == TL_OK) st = t->eval_only ? begin_testing(t) : begin_training(t);
    if (st != TL_OK) tl_default_trainer_free(&t);
    *out = t;
    return st;
}

void tl_default_trainer_free(tl_default_trainer **trainer)
{
    tl_default_trainer *t = *trainer;
    if (!t) return;
    tl_controller_free(&t->controller);
    tl_hooks_free(&t->hooks);
    for (int64_t i = 0; i < t->writers.count; i++) tl_event_writer_free(&t->writers.items[i]);
    tl_free(t->writers.items);
    tl_checkpoint_manager_free(&t->checkpointer);
    tl_trainer_free(&t->trainer);
    tl_evaluator_free(&t->evaluator);
    tl_optimizer_free(&t->optimizer);
    tl_model_free(&t->model);
    tl_dataset_free(&t->train_loader);
    tl_dataset_free(&t->test_loader);
    tli_default_tests_close(t);
    tl_task_free(&t->task);
    tl_logs_free(&t->last_eval_results); // its tensors are the engine's
    tl_strategy_free(&t->strategy);
    if (t->folder) tli_run_folder_leave(t->folder);
    tl_notes_deinit(&t->notes);
    tl_arena_free(&t->arena);
    tl_free(t);
    *trainer = NULL;
}

/* --- running ---------------------------------------------------------------------------------- */

tl_status tl_default_trainer_train(tl_default_trainer *t)
{
    if (t->eval_only) return TL_FAIL(TL_ESTATE, "the trainer was made to evaluate only");
    TL_LOG_INFO("Starting training from iteration %" PRId64, t->trainer->global_step);
    tl_status st = tl_controller_train(t->controller, t->max_iter, true);
    if (t->metrics_file) tl_metrics_file_end(t->metrics_file, st);
    return st;
}

static tl_status tell_result(const tl_logs_entry *entry, void *payload)
{
    double value;
    (void)payload;
    if (entry->kind != TL_LOGS_NUMBER) return TL_OK;
    TL_TRY(tl_logs_entry_number(&value, entry));
    TL_LOG_INFO("copypaste: %s=%.4f", entry->name, value);
    return TL_OK;
}

/* Numbers alone: what is kept holds on to no tensor. */
static tl_status copy_numbers(tl_logs *to, const tl_logs *from)
{
    for (int64_t i = 0; i < tl_logs_count(from); i++) {
        tl_logs_entry e;
        tl_logs *inner;
        double value;
        tl_logs_at(&e, from, i);
        if (e.kind == TL_LOGS_LOGS) {
            TL_TRY(tl_logs_sub(&inner, to, e.name));
            TL_TRY(copy_numbers(inner, e.logs));
        } else if (e.kind == TL_LOGS_NUMBER) {
            TL_TRY(tl_logs_entry_number(&value, &e));
            TL_TRY(tl_logs_put(to, e.name, value));
        }
    }
    return TL_OK;
}

static tl_status test(tl_default_trainer *t, tl_logs *results)
{
    TL_TRY(TLI_DEFAULT_CALL(t, test)(t, results));
    tl_logs_clear(t->last_eval_results);
    TL_TRY(copy_numbers(t->last_eval_results, results));
    // Who trains has a hook for it; weights that come from elsewhere are not this run's.
    const tl_libai_train_config *train = &t->config->train;
    if (t->eval_only && train->resume && tli_is_chief(t->strategy))
        tl_metrics_file_evaluated(train->output_dir, t->trainer->global_step, t->last_eval_results);
    TL_LOG_INFO("Evaluation results in csv format:");
    return tl_logs_walk(t->last_eval_results, tell_result, NULL);
}

tl_status tl_default_trainer_test(tl_default_trainer *t, tl_logs *results)
{
    tl_logs *own = NULL;
    if (!t->trainer->validation_metrics)
        return TL_FAIL(
            TL_ESTATE,
            "the trainer was made without evaluation: train.evaluation.enabled is false");
    if (!results) TL_TRY(tl_logs_new(&own));
    tl_status st = test(t, results ? results : own);
    tl_logs_free(&own);
    return st;
}
