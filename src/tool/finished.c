#include "tool/finished.h"

#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/io/checkpoint_manager.h>
#include <tilth/train/launch.h>

#include "tool/experiment.h"

#define NAME_FILE "experiment.txt"

static const tl_field fields[] = {
    TL_F(tli_finished_flags, model_dir, .flags = TL_FIELD_NULLABLE, .help = "folder of the run"),
    TL_F(tli_finished_flags, checkpoint, .s = "latest",
         .help = "latest (of those that can be read), best, the path of a checkpoint, or its name in the folder"),
    TL_F(tli_finished_flags, experiment, .flags = TL_FIELD_NULLABLE,
         .help = "which experiment it was, when the folder does not say so"),
    TL_F_END,
};
const tl_desc tli_finished_flags_desc = {.name = "finished", .help = "which run",
                                         .size = sizeof(tli_finished_flags), .fields = fields};

/* --- which experiment it was ------------------------------------------------------------------ */

typedef struct remember {
    tl_hook base;
    const char *path, *text;
} remember;
typedef struct remembered {
    const char *experiment, *model_dir;
} remembered;

static tl_status remember_start(tl_hook *h, const void *config)
{
    remember *r = (remember *)h;
    const remembered *m = config;
    r->path = tl_path_join(h->arena, m->model_dir, NAME_FILE);
    r->text = tl_arena_printf(h->arena, "%s\n", m->experiment);
    return r->path && r->text ? TL_OK : TL_ENOMEM;
}

static tl_status remember_now(tl_hook *h)
{
    const remember *r = (remember *)h;
    return tl_file_write_atomic(r->path, r->text, strlen(r->text));
}

static const tl_hook_class remember_class = {
    .cls = TL_CLASS(tl_hook_class, "experiment_name", NULL, remember, NULL),
    .start = remember_start,
    .before_train = remember_now,
};

tl_status tli_remember_experiment(tl_hook **out, const char *experiment, const char *model_dir)
{
    *out = NULL;
    if (!experiment || !model_dir) return TL_OK;
    return tl_hook_new(out, &remember_class, &(tl_hook_args){.config = &(remembered){experiment, model_dir}});
}

static tl_status recall(const char **out, tli_run *run, const tli_finished_flags *flags)
{
    const char *path = tl_path_join(run->arena, flags->model_dir, NAME_FILE);
    char *text;
    size_t size;
    *out = flags->experiment;
    if (*out) return TL_OK;
    if (!path) return TL_ENOMEM;
    if (!tl_file_exists(path))
        return TL_FAIL(TL_ENOTFOUND, "%s is not there, so --experiment=NAME must say what was trained in "
                                     "that folder", path);
    TL_TRY(tl_file_read(&text, &size, path, 4096));
    *out = tl_arena_strndup(run->arena, text, strcspn(text, "\n"));
    tl_free(text);
    return *out ? TL_OK : TL_ENOMEM;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Its own file alone, or changed by words of the command line; or what is in it of the model, whatever machine it ran
 * on. */
typedef enum config_use { AS_IT_IS, OVERRIDDEN, MODEL_ALONE } config_use;

static tl_status forget_machine(tl_config *c)
{
    tl_experiment_config *e = tl_config_edit(c);
    return tl_desc_defaults(tl_config_arena(c), &tl_runtime_config_desc, &e->runtime);
}

/* Whoever has made the folder must not make us run something. */
static void forget_command(tl_config *c, const char *file)
{
    tl_experiment_config *e = tl_config_edit(c);
    if (!e->tilth.notify) return;
    TL_LOG_WARNING("%s: tilth.notify is left out: commands are not taken from the folder of a run", file);
    e->tilth.notify = NULL;
}

static tl_status apply_changes(tl_config *c, tli_run *run, const tli_finished_changes *changes)
{
    for (int64_t i = 0; i < changes->config_file.count; i++) TL_TRY(tl_config_read(c, changes->config_file.items[i]));
    if (changes->params_override && *changes->params_override)
        TL_TRY(tl_config_override(c, changes->params_override, "--params_override"));
    return tli_experiment_words(c, run);
}

static tl_status read_config(tli_finished *f, tli_run *run, const tli_finished_flags *flags, config_use use,
                             const tli_finished_changes *changes)
{
    const char *file = tl_path_join(run->arena, flags->model_dir, "params.yaml");
    tl_parse_options parse = TL_PARSE_OPTIONS_INIT;
    if (!file) return TL_ENOMEM;
    if (!tl_file_exists(file))
        return TL_FAIL(TL_ENOTFOUND, "'%s' is no folder of a run: it has no params.yaml", flags->model_dir);
    TL_TRY(recall(&parse.experiment, run, flags));
    parse.config_file = (tl_strings){&file, 1};
    TL_TRY(tl_experiment_begin(&f->config, run->registry, &parse));
    forget_command(f->config, file);
    if (use == MODEL_ALONE) TL_TRY(forget_machine(f->config));
    if (use == OVERRIDDEN) TL_TRY(apply_changes(f->config, run, changes));
    TL_TRY(tl_experiment_finish(f->config, run->registry, parse.experiment));
    f->params = tl_config_value(f->config);
    return TL_OK;
}

static tl_status restore(tli_finished *f, const char *file)
{
    f->file = file;
    return tl_trainer_restore_to_evaluate(f->trainer, file);
}

static tl_status list_files(tl_path_list *out, tli_finished *f, tli_run *run, const char *folder)
{
    tl_state *state = tl_trainer_checkpoint(f->trainer);
    tl_checkpoint_manager *m;
    if (!state) return tl_error_code();
    TL_TRY(tl_checkpoint_manager_new(&m, &(tl_checkpoint_manager_args){.directory = folder, .state = state,
                                                                       .step = &f->trainer->global_step}));
    tl_status st = tl_checkpoint_manager_candidates(out, m, run->arena);
    tl_checkpoint_manager_free(&m);
    if (st != TL_OK || out->count) return st;
    return TL_FAIL(TL_ENOTFOUND, "there is no checkpoint in the folder '%s'", folder);
}

/* The newest one that can be read, as training and its evaluations do it. Those that cannot are left where they are. */
static tl_status restore_newest(tli_finished *f, tli_run *run, const char *folder)
{
    tl_path_list all;
    tl_error first = {.code = TL_OK};
    TL_TRY(list_files(&all, f, run, folder));
    for (int64_t i = 0; i < all.count; i++) {
        tl_status st = restore(f, all.items[i]);
        if (st == TL_OK && i > 0) TL_LOG_ERROR("taking '%s' instead", all.items[i]);
        if (st == TL_OK || tl_checkpoint_is_usable(all.items[i])) return st;
        if (i == 0) tl_error_save(&first);
        TL_LOG_ERROR("the checkpoint '%s' cannot be used: %s", all.items[i], tl_error_message());
    }
    tl_error_restore(&first);
    return tl_error_note(first.code, "no checkpoint in '%s' can be used; the latest", folder);
}

/* A path, or the name of a checkpoint in the run's folder. */
static tl_status locate_chosen(const char **file, tli_run *run, const char *folder, const char *path)
{
    tl_error failure;
    bool bundle;
    tl_status st = tl_checkpoint_locate(file, &bundle, run->arena, path);
    if (st != TL_ENOTFOUND || strchr(path, '/')) return st;
    tl_error_save(&failure);
    const char *within = tl_path_join(run->arena, folder, path);
    if (!within) return TL_ENOMEM;
    st = tl_checkpoint_locate(file, &bundle, run->arena, within);
    if (st == TL_ENOTFOUND) tl_error_restore(&failure);
    return st;
}

static tl_status restore_chosen(tli_finished *f, tli_run *run, const tli_finished_flags *flags)
{
    const tl_trainer_config *t = f->params->trainer.value;
    const char *path = flags->checkpoint, *file;
    if (strcmp(path, "latest") == 0) return restore_newest(f, run, flags->model_dir);
    if (strcmp(path, "best") == 0) {
        if (!t->best_checkpoint_export_subdir || !*t->best_checkpoint_export_subdir)
            return TL_FAIL(TL_EINVAL, "the run keeps no best checkpoint: its "
                                      "trainer.best_checkpoint_export_subdir is empty");
        path = tl_path_join(run->arena, flags->model_dir, t->best_checkpoint_export_subdir);
        if (!path) return TL_ENOMEM;
    } else if (tl_dir_exists(path)) {
        return restore_newest(f, run, path);
    }
    TL_TRY(locate_chosen(&file, run, flags->model_dir, path));
    return restore(f, file);
}

static tl_status build(tli_finished *f, tli_run *run, bool evaluates)
{
    const tl_experiment_config *e = f->params;
    uint64_t seed = tl_experiment_seed(e);
    TL_TRY(tl_experiment_open(&f->strategy, &f->task, run->registry, e, NULL, seed));
    return tl_trainer_new(&f->trainer, &(tl_trainer_args){.config = e, .strategy = f->strategy,
                                                          .task = f->task, .evaluate = evaluates,
                                                          .seed = seed});
}

tl_status tli_finished_open(tli_finished *out, tli_run *run, const tli_finished_flags *flags, bool evaluates,
                            const tli_finished_changes *changes)
{
    *out = (tli_finished){0};
    if (!flags->model_dir || !*flags->model_dir)
        return TL_FAIL(TL_EINVAL, "no run is named: say --model_dir=FOLDER");
    TL_TRY(read_config(out, run, flags, changes ? OVERRIDDEN : AS_IT_IS, changes));
    TL_TRY(build(out, run, evaluates));
    TL_TRY(restore_chosen(out, run, flags));
    tl_optimizer *o = out->trainer->optimizer;
    if (evaluates || !o || !tl_optimizer_averages(o) || tl_optimizer_iterations(o) == 0) return TL_OK;
    return tl_optimizer_swap(o);
}

void tli_finished_close(tli_finished *f)
{
    tl_trainer_free(&f->trainer);
    tl_task_free(&f->task);
    tl_strategy_free(&f->strategy);
    tl_config_free(&f->config);
}

/* --- names in Model Garden -------------------------------------------------------------------- */

/* The folder of the run that a checkpoint in `folder` is of: that one, or (as of the best one) the one above. NULL when
 * there is none, or it does not say of which experiment it is. */
static tl_status find_run(const char **out, tl_arena *arena, const char *folder, const char *experiment)
{
    const char *const places[] = {folder, tl_path_join(arena, folder, "..")};
    *out = NULL;
    for (int i = 0; i < TL_COUNT(places); i++) {
        const char *params = places[i] ? tl_path_join(arena, places[i], "params.yaml") : NULL,
                   *name = params ? tl_path_join(arena, places[i], NAME_FILE) : NULL;
        if (!name) return TL_ENOMEM;
        if (!tl_file_exists(params)) continue;
        if (experiment || tl_file_exists(name)) *out = places[i];
        return TL_OK;
    }
    if (!experiment) return TL_OK;
    return TL_FAIL(TL_ENOTFOUND, "--experiment=%s: there is no params.yaml in '%s', nor in the folder above it, which "
                   "would say how the model is made; without --experiment names stay as they are", experiment, folder);
}

tl_status tli_finished_names(tl_original_names *out, bool *known, tli_run *run, const char *folder,
                             const char *experiment)
{
    tli_finished f = {0};
    tli_finished_flags flags = {.experiment = experiment};
    tl_status st;
    *known = false;
    TL_TRY(tl_original_names_init(out));
    TL_TRY(find_run(&flags.model_dir, run->arena, folder, experiment));
    if (!flags.model_dir) return TL_OK;
    TL_TRY_DONE(st, read_config(&f, run, &flags, MODEL_ALONE, NULL));
    TL_TRY_DONE(st, tl_experiment_open(&f.strategy, &f.task, run->registry, f.params, NULL, 0));
    st = tl_task_original_names(f.task, out);
    *known = st == TL_OK;
    if (st == TL_EUNSUPPORTED) {
        TL_LOG_WARNING("%s; names stay as they are", tl_error_message());
        tl_error_clear();
        st = TL_OK;
    }
done:
    tli_finished_close(&f);
    return st;
}
