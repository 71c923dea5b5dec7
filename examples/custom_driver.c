/* Counterpart of train.py (Model Garden, Customize launch script; and "Tensorflow Trainer",
 * train.py): a training driver of one's own, every piece a call of its own, with a flag and a
 * function that the original lacks.
 *
 *     $ example_custom_driver --experiment=example/digits --mode=train_and_eval --model_dir=run \
 *           --params_override=trainer.train_steps=500 --notify=run/done.txt
 *
 * Where no piece is to be changed, tl_launch is all of `run` below, and tl_main all of the
 * program. */
#include <string.h>

#include "digits.h"

/* --- flags: those of Model Garden, and one of ours -------------------------------------------- */

typedef struct driver_flags {
    const char *notify;
} driver_flags;
static const tl_field driver_fields[] = {
    TL_F(driver_flags, notify, .s = "", .help = "file that is told how the run ended; '' for none"),
    TL_F_END,
};
static const tl_desc driver_flags_desc = {
    .name = "driver",
    .help = "flags of this driver",
    .size = sizeof(driver_flags),
    .fields = driver_fields,
};

typedef struct all_flags {
    tl_train_flags train;   /* --mode, --model_dir, --gin_file, --gin_params, ... */
    tl_parse_options parse; /* --experiment, --config_file, --params_override, ... */
    driver_flags own;
} all_flags;

/* --- what this driver does beside training ---------------------------------------------------- */

static tl_status notify(const char *path, const char *model_dir, const tl_logs *logs)
{
    tl_str text = TL_STR_INIT;
    tl_str_addf(&text, "%s is done: ", model_dir);
    tl_status st = tl_logs_text(&text, logs);
    if (st == TL_OK) tl_str_addf(&text, "\n");
    if (st == TL_OK) st = tl_str_status(&text);
    if (st == TL_OK) st = tl_file_write_atomic(path, tl_str_text(&text), text.length);
    tl_str_deinit(&text);
    return st;
}

/* --- main ------------------------------------------------------------------------------------- */

static tl_status run(tl_registry *registry, const all_flags *flags)
{
    const char *mode = flags->train.mode, *model_dir = flags->train.model_dir;
    tl_config *config = NULL;
    tl_gin *gin = NULL;
    tl_strategy *strategy = NULL;
    tl_task *task = NULL;
    tl_run_result result = {0};
    tl_status st;

    TL_TRY_DONE(st, tl_check_mode(mode));
    TL_TRY_DONE(st, tl_run_bindings(&gin, registry, model_dir, flags->train.gin_file,
                                    flags->train.gin_params));
    tl_gin_set_current(gin);
    TL_TRY_DONE(st, tl_experiment_parse(&config, registry, &flags->parse));
    const tl_experiment_config *params = tl_config_value(config);
    // Pure evaluation writes no params.yaml: it would race the job that trains.
    if (strstr(mode, "train")) TL_TRY_DONE(st, tl_serialize_config(config, model_dir));

    const tl_runtime_config *r = &params->runtime;
    uint64_t seed = tl_experiment_seed(params);
    const tl_strategy_args devices = {
        .registry = registry,
        .distribution_strategy = r->distribution_strategy,
        .num_gpus = r->num_gpus,
        .all_reduce_alg = r->all_reduce_alg,
        .tpu_address = r->tpu,
    };
    TL_TRY_DONE(st, tl_get_distribution_strategy(&strategy, &devices));
    const tl_task_args work = {
        .registry = registry,
        .config = &params->task,
        .logging_dir = model_dir,
        .engine = tl_strategy_engine(strategy),
        .seed = seed,
        .dtype = tl_mixed_precision_dtype(r->mixed_precision_dtype),
    };
    TL_TRY_DONE(st, tl_get_task(&task, &work));
    const tl_run_args experiment = {
        .strategy = strategy,
        .task = task,
        .mode = mode,
        .params = params,
        .model_dir = model_dir,
        .gin = gin,
        .seed = seed,
        .heed_signals = true,
    };
    TL_TRY_DONE(st, tl_run_experiment(&result, &experiment));
    TL_TRY_DONE(st, tl_save_gin_config(gin, mode, model_dir));
    if (*flags->own.notify) st = notify(flags->own.notify, model_dir, result.logs);
done:
    tl_run_result_deinit(&result);
    tl_task_free(&task);
    tl_strategy_free(&strategy);
    tl_config_free(&config);
    tl_gin_set_current(NULL);
    tl_gin_free(&gin);
    return st;
}

static tl_status print_help(const tl_flags *flags)
{
    tl_str text = TL_STR_INIT;
    tl_status st = tl_flags_help(&text, flags, 80);
    if (st == TL_OK) puts(tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

int main(int argc, char **argv)
{
    all_flags given;
    tl_flags *flags = NULL;
    tl_registry *registry = NULL;
    tl_strings words;
    tl_status st;
    TL_TRY_DONE(st, tl_flags_new(&flags, "custom_driver",
                                 "--experiment=NAME --mode=MODE --model_dir=FOLDER"));
    TL_TRY_DONE(st, tl_flags_define(flags, "Run", &tl_train_flags_desc, &given.train));
    TL_TRY_DONE(st, tl_flags_define(flags, "Experiment", &tl_parse_options_desc, &given.parse));
    TL_TRY_DONE(st, tl_flags_define(flags, "Driver", &driver_flags_desc, &given.own));
    TL_TRY_DONE(st, tl_flags_parse(&words, flags, argc, argv));
    TL_TRY_DONE(st, tl_registry_new_builtin(&registry));        // registry_imports: what ships,
    TL_TRY_DONE(st, tl_registry_add(registry, &digits_module)); // and what is ours
    st = tl_flags_help_asked(flags) ? print_help(flags) : run(registry, &given);
done:
    if (st != TL_OK) fprintf(stderr, "%s: %s\n", argv[0], tl_error_message());
    tl_registry_free(&registry);
    tl_flags_free(&flags);
    return tl_exit_code(st);
}
