#include <stdio.h>
#include <unistd.h>

#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/desc/yaml.h>

#include "base/inner/folder.h"
#include "train/libai/default_trainer.h"
#include "train/run/several.h"

static const tl_field flag_fields[] = {
    TL_F_AS(tl_train_net_flags, config_file, "config-file", .flags = TL_FIELD_PATH,
            .help = "file with LiBai's sections: YAML, or Python when it ends with .py"),
    TL_F(tl_train_net_flags, resume,
         .help = "go on with the run in train.output_dir, if there is one"),
    TL_F_AS(tl_train_net_flags, eval_only, "eval-only",
            .help = "evaluate the weights of train.load_weight, or with --resume those of the run"),
    TL_F_AS(tl_train_net_flags, fast_dev_run, "fast-dev-run",
            .help = "train 20 steps, with an evaluation each 10 and a line each step, to "
                    "test the setup"),
    TL_F_END,
};
const tl_desc tl_train_net_flags_desc = {
    .name = "train_net_flags",
    .help = "what to do, and with which configuration",
    .size = sizeof(tl_train_net_flags),
    .fields = flag_fields,
};

/* --- log.txt ---------------------------------------------------------------------------------- */

/* What was told so far is held in memory until the run is accepted. */
typedef struct run_log {
    int64_t handle; /* of its sink; -1: none */
    tl_str held;
    FILE *file;
} run_log;

static void hold_line(const tl_log_record *record, void *payload)
{
    char prefix[TL_LOG_PREFIX];
    tl_log_prefix(prefix, record);
    tl_str_addf(payload, "%s%s\n", prefix, record->text);
}

static void write_line(const tl_log_record *record, void *payload)
{
    char prefix[TL_LOG_PREFIX];
    tl_log_prefix(prefix, record);
    fprintf(payload, "%s%s\n", prefix, record->text);
    fflush(payload);
}

static void drop_sink(run_log *l)
{
    if (l->handle >= 0) tl_log_sink_remove(l->handle);
    l->handle = -1;
}

static tl_status add_sink(run_log *l, void (*write)(const tl_log_record *record, void *payload),
                          void *payload)
{
    drop_sink(l);
    return tl_log_sink_add(&l->handle, &(tl_log_sink){TL_LEVEL_DEBUG, write, NULL, payload});
}

static tl_status open_log(run_log *l, tl_arena *arena, const char *folder)
{
    const char *path = tl_path_join(arena, folder, "log.txt");
    if (!path) return TL_ENOMEM;
    TL_TRY(tl_mkdirs(folder));
    int fd;
    struct stat info;
    TL_TRY(tli_open_own(&fd, &info, path, &(tli_open_args){0}));
    l->file = fdopen(fd, "ae");
    if (!l->file) {
        close(fd);
        return TL_FAIL_NOMEM(sizeof *l->file);
    }
    TL_TRY(add_sink(l, write_line, l->file));
    fputs(tl_str_text(&l->held), l->file);
    fflush(l->file);
    tl_str_deinit(&l->held);
    return TL_OK;
}

static void close_log(run_log *l)
{
    drop_sink(l);
    if (l->file) fclose(l->file);
    tl_str_deinit(&l->held);
}

/* --- config.yaml ------------------------------------------------------------------------------ */

static tl_status config_text(tl_str *out, const tl_libai_config *config)
{
    TL_TRY(tl_yaml_write(out, &tl_libai_config_desc, config));
    return tl_str_status(out);
}

static tl_status log_config(const tl_libai_config *config)
{
    tl_str text = TL_STR_INIT;
    tl_status st = config_text(&text, config);
    if (st == TL_OK)
        TL_LOG_TOLD(TL_LEVEL_INFO, "Configuration as it was asked for:\n%s", tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

/* As it is used: resolved and scaled. Reading it back gives the same run. */
static tl_status write_config(tl_arena *arena, const tl_libai_config *config)
{
    tl_str text = TL_STR_INIT;
    const char *path = tl_path_join(arena, config->train.output_dir, "config.yaml");
    tl_status st = path ? config_text(&text, config) : TL_ENOMEM;
    if (st == TL_OK) st = tl_file_write_atomic(path, tl_str_text(&text), text.length);
    if (st == TL_OK) TL_LOG_INFO("Full config saved to %s", path);
    tl_str_deinit(&text);
    return st;
}

/* --- all of it -------------------------------------------------------------------------------- */

static tl_status run(tl_logs *results, const tl_train_net_args *args, tl_world *world,
                     tl_arena *arena, run_log *log)
{
    const tl_libai_config *config = tl_config_value(args->config);
    const bool chief = !world || tl_world_comm(world)->rank == 0; // who writes
    tl_default_trainer_args given = args->trainer ? *args->trainer : (tl_default_trainer_args){0};
    tl_default_trainer *t = NULL;
    tl_status st;
    given.registry = args->registry;
    given.config = config;
    given.eval_only = args->flags->eval_only;
    given.fast_dev_run = args->flags->fast_dev_run;
    given.heed_signals = true;
    given.world = world;
    TL_TRY_DONE(st, tl_default_trainer_new(&t, &given));
    if (chief) TL_TRY_DONE(st, open_log(log, arena, config->train.output_dir)); // it is accepted
    if (chief && !given.eval_only) TL_TRY_DONE(st, write_config(arena, t->config));
    TL_TRY_DONE(st,
                given.eval_only ? tl_default_trainer_test(t, NULL) : tl_default_trainer_train(t));
    if (results) st = tl_logs_merge(results, t->last_eval_results);
done:
    tl_default_trainer_free(&t);
    return st;
}

/* A run that goes on has the lanes that it had. */
static tl_status choose_lanes(tl_config *config, tl_arena *arena)
{
    tl_libai_config *edit = tl_config_edit(config);
    const char *source;
    if (!edit || tl_config_is_given(config, "tilth.lanes")) return TL_OK;
    return tli_lanes_of_run(&edit->tilth.lanes, &source, arena,
                            edit->train.resume ? edit->train.output_dir : NULL, "config.yaml");
}

static tl_status enter(tl_world **out, const tl_config *config)
{
    tl_who who;
    TL_TRY(tl_who_find(&who, NULL));
    return who.size > 1 ? tli_world_join(out, NULL, config) : TL_OK;
}

tl_status tl_train_net(tl_logs *results, const tl_train_net_args *args)
{
    tl_libai_config *edit = tl_config_edit(args->config);
    tl_arena *arena = NULL;
    tl_world *world = NULL;
    run_log log = {.handle = -1, .held = TL_STR_INIT};
    tl_status st;
    if (edit && args->flags->resume) edit->train.resume = true;
    TL_TRY_DONE(st, tl_arena_new(&arena));
    TL_TRY_DONE(st, choose_lanes(args->config, arena));
    TL_TRY_DONE(st, tl_config_finish(args->config));
    TL_TRY_DONE(st, enter(&world, args->config));
    TL_TRY_DONE(st, add_sink(&log, hold_line, &log.held));
    TL_TRY_DONE(st, log_config(tl_config_value(args->config)));
    st = run(results, args, world, arena, &log);
    if (st != TL_OK) // for log.txt: who called tells people. A signal is no error
        TL_LOG_TOLD(st == TL_ESTOPPED ? TL_LEVEL_WARNING : TL_LEVEL_ERROR, "%s",
                    tl_error_message());
done:
    close_log(&log);
    tl_arena_free(&arena);
    return tli_world_leave(&world, st);
}
