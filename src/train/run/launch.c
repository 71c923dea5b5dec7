#include <tilth/train/run/launch.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tilth/base/log.h>
#include <tilth/base/rng.h>
#include <tilth/desc/yaml.h>

#include "train/run/continuous.h"
#include "train/run/impl.h"
#include "train/run/several.h"

#define UNREAD_ROW(member)                                                                         \
    TL_F(tl_train_flags, member, .flags = TL_FIELD_NULLABLE, .help = "read by nothing")
static const tl_field flag_fields[] = {
    TL_F(tl_train_flags, mode, .flags = TL_FIELD_NULLABLE,
         .help = "train, eval, train_and_eval, continuous_eval, " TLI_CONTINUOUS_MODE
                 " or train_and_post_eval"),
    TL_F(tl_train_flags, model_dir, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "folder for checkpoints, summaries and params.yaml"),
    TL_F(tl_train_flags, gin_file, .flags = TL_FIELD_PATH, .help = "file with gin bindings"),
    TL_F(tl_train_flags, gin_params, .help = "a gin binding, such as 'Dense.units = 256'"),
    TL_F(tl_train_flags, gin_strict,
         .help =
             "bindings of a file that the run does not use are errors; else they are warned of"),
    TL_F(tl_train_flags, pretrain_steps, TL_AT_LEAST(0),
         .help = TLI_CONTINUOUS_MODE
         ": it ends when this step of the pre-training is fine-tuned, and waits for it; 0: only "
         "trainer.continuous_eval_timeout ends it"),
    TL_F(tl_train_flags, enable_async_checkpointing, .b = true,
         .help = "train on while a checkpoint is written"),
    TL_F(tl_train_flags, dry_run,
         .help = "test the setup: do a few steps, evaluate one batch, print time and memory, keep "
                 "nothing"),
    UNREAD_ROW(tpu_platform),
    UNREAD_ROW(tfhub_handle),
    UNREAD_ROW(tflex_output_uri),
    TL_F_END,
};
const tl_desc tl_train_flags_desc = {
    .name = "train_flags",
    .help = "what to do, and where",
    .size = sizeof(tl_train_flags),
    .fields = flag_fields,
};

/* --- pieces ----------------------------------------------------------------------------------- */

uint64_t tl_experiment_seed(const tl_experiment_config *params)
{
    if (params->tilth.seed.set) return (uint64_t)params->tilth.seed.value;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    tl_rng rng;
    tl_rng_init(&rng,
                (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 20 ^ (uint64_t)getpid() << 50);
    return tl_rng_u64(&rng) >> 1; // what YAML can write as an integer
}

tl_status tl_save_gin_config(tl_gin *gin, const char *suffix, const char *model_dir)
{
    tl_str text = TL_STR_INIT;
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = gin ? tl_gin_operative(&text, gin) : TL_OK;
    char *name = tl_arena_printf(arena, "operative_config.%s.gin", suffix);
    char *path = name ? tl_path_join(arena, model_dir, name) : NULL;
    if (st == TL_OK && !path) st = TL_ENOMEM;
    if (st == TL_OK) st = tl_str_status(&text);
    if (st == TL_OK) TL_LOG_INFO("Saving gin configurations to %s", path);
    if (st == TL_OK) st = tl_file_write_atomic(path, tl_str_text(&text), text.length);
    tl_str_deinit(&text);
    tl_arena_free(&arena);
    return st;
}

tl_status tl_experiment_open_in(tl_strategy **strategy, tl_task **task, const tl_registry *registry,
                                const tl_experiment_config *params, const char *logging_dir,
                                uint64_t seed, tl_world *world)
{
    const tl_runtime_config *r = &params->runtime;
    *strategy = NULL;
    *task = NULL;
    TL_TRY(tl_get_distribution_strategy(
        strategy, &(tl_strategy_args){.registry = registry,
                                      .distribution_strategy = r->distribution_strategy,
                                      .device = params->tilth.device,
                                      .num_gpus = r->num_gpus,
                                      .all_reduce_alg = r->all_reduce_alg,
                                      .tpu_address = r->tpu,
                                      .threads = (int)params->tilth.threads,
                                      .lanes = params->tilth.lanes,
                                      .bucket_mb = params->tilth.bucket_mb,
                                      .num_packs = r->num_packs,
                                      .world = world}));
    tl_status st = tl_get_task(
        task, &(tl_task_args){.registry = registry,
                              .config = &params->task,
                              .logging_dir = logging_dir,
                              .engine = tl_strategy_engine(*strategy),
                              .dtype = tl_mixed_precision_dtype(r->mixed_precision_dtype),
                              .seed = seed,
                              .own = &params->tilth});
    if (st != TL_OK) tl_strategy_free(strategy);
    return st;
}

tl_status tl_experiment_open(tl_strategy **strategy, tl_task **task, const tl_registry *registry,
                             const tl_experiment_config *params, const char *logging_dir,
                             uint64_t seed)
{
    return tl_experiment_open_in(strategy, task, registry, params, logging_dir, seed, NULL);
}

static tl_status check_flags(const tl_train_flags *flags)
{
    TL_TRY(tl_check_mode(flags->mode));
    if (flags->pretrain_steps && strcmp(flags->mode, TLI_CONTINUOUS_MODE) != 0)
        TL_LOG_WARNING("--pretrain_steps is not used: it is for --mode=" TLI_CONTINUOUS_MODE);
    if (flags->model_dir && *flags->model_dir) return TL_OK;
    return TL_FAIL(TL_EINVAL, "no folder is named for the run: say --model_dir=FOLDER");
}

/* --- all of it -------------------------------------------------------------------------------- */

/* In full for who asks for it; params.yaml has it, once the run has begun. */
static tl_status log_params(const tl_config *config)
{
    tl_str text = TL_STR_INIT;
    if (!tl_log_wants(TL_LEVEL_DEBUG)) return TL_OK;
    tl_status st = tl_config_write(&text, config, false);
    if (st == TL_OK) TL_LOG_DEBUG("Final experiment parameters:\n%s", tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

/* Tensors end with the engine; numbers and texts can be handed out. */
static tl_status keep_value(const tl_logs_entry *e, void *payload)
{
    double value;
    if (e->kind == TL_LOGS_TEXT) return tl_logs_put_text(payload, e->name, e->text);
    if (e->kind != TL_LOGS_NUMBER) return TL_OK;
    TL_TRY(tl_logs_entry_number(&value, e));
    return tl_logs_put(payload, e->name, value);
}

static tl_run_args run_args(const tl_launch_args *args, const tl_experiment_config *params)
{
    tl_run_args run = args->run ? *args->run : (tl_run_args){0};
    run.task = NULL;
    run.strategy = NULL;
    run.mode = args->flags->mode;
    run.params = params;
    run.config = args->config;
    run.model_dir = args->flags->model_dir;
    run.background_checkpoints = args->flags->enable_async_checkpointing;
    run.heed_signals = true;
    run.keep_nothing |= args->flags->dry_run;
    return run;
}

tl_status tli_launch_run(tl_logs *logs, tl_run_args *run, const tl_registry *registry,
                         tli_run_folder *folder, tl_world *world)
{
    tl_run_result result = {0};
    tli_run_folder own = {0};
    tl_status st = tl_experiment_open_in(&run->strategy, &run->task, registry, run->params,
                                         run->model_dir, run->seed, world);
    if (st == TL_OK) st = tli_run_experiment_in(&result, run, folder ? folder : &own);
    tli_run_folder_leave(&own);
    if (st == TL_OK && logs) st = tl_logs_walk(result.logs, keep_value, logs);
    tl_run_result_deinit(&result);
    tl_task_free(&run->task);
    tl_strategy_free(&run->strategy);
    return st;
}

tl_status tl_launch(tl_logs *logs, const tl_launch_args *args)
{
    const tl_experiment_config *params = tl_config_value(args->config);
    const tl_task_config *task_config = params->task.value;
    tl_run_args run = run_args(args, params);
    tl_gin *gin = NULL, *outer = tl_gin_current();
    tl_world *world = NULL;
    tl_status st;
    TL_TRY_DONE(st, check_flags(args->flags));
    if (!args->gin)
        TL_TRY_DONE(st, tl_run_bindings(&gin, args->registry, args->flags->model_dir,
                                        args->flags->gin_file, args->flags->gin_params));
    TL_TRY_DONE(st, log_params(args->config));
    run.gin = args->gin ? args->gin : gin;
    run.gin_strict = args->flags->gin_strict;
    run.seed = tl_experiment_seed(params);
    TL_TRY_DONE(st, tli_world_enter(&world, &run, args));
    if (task_config->allow_image_summary && !run.eval_summary_cls)
        run.eval_summary_cls = &tl_summary_manager_images;
    outer = tl_gin_set_current(run.gin);
    if (strcmp(run.mode, TLI_CONTINUOUS_MODE) == 0)
        TL_TRY_DONE(st, tli_launch_rounds(logs, &run, args));
    else TL_TRY_DONE(st, tli_launch_run(logs, &run, args->registry, NULL, world));
    if (!run.keep_nothing && (!world || tl_world_comm(world)->rank == 0))
        st = tl_save_gin_config(run.gin, args->flags->mode, args->flags->model_dir);
done:
    tl_gin_set_current(outer);
    if (run.trainer && *run.trainer) tl_trainer_free(run.trainer);
    tl_gin_free(&gin);
    return tli_world_leave(&world, st);
}
