#include "train/run/finished.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/io/checkpoint/manager.h>
#include <tilth/train/run/launch.h>

#include "train/run/impl.h"

/* --- checkpoints ------------------------------------------------------------------------------ */

static tl_status restore(tl_finished *f, const char *file)
{
    f->file = file;
    return tl_trainer_restore_to_evaluate(f->trainer, file);
}

static tl_status list_files(tl_path_list *out, tl_finished *f, const char *folder)
{
    tl_state *state = tl_trainer_checkpoint(f->trainer);
    tl_checkpoint_manager *m;
    if (!state) return tl_error_code();
    TL_TRY(tl_checkpoint_manager_new(
        &m, &(tl_checkpoint_manager_args){
                .directory = folder, .state = state, .step = &f->trainer->global_step}));
    tl_status st = tl_checkpoint_manager_candidates(out, m, f->arena);
    tl_checkpoint_manager_free(&m);
    if (st != TL_OK || out->count) return st;
    return TL_FAIL(TL_ENOTFOUND, "there is no checkpoint in the folder '%s'", folder);
}

/* The newest one that can be read, as training and its evaluations do it. Those that cannot are
 * left where they are. */
static tl_status restore_newest(tl_finished *f, const char *folder)
{
    tl_path_list all;
    tl_error first = {.code = TL_OK};
    TL_TRY(list_files(&all, f, folder));
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
static tl_status locate_chosen(const char **file, tl_arena *arena, const char *folder,
                               const char *path)
{
    tl_error failure;
    bool bundle;
    tl_status st = tl_checkpoint_locate(file, &bundle, arena, path);
    if (st != TL_ENOTFOUND || strchr(path, '/')) return st;
    tl_error_save(&failure);
    const char *within = tl_path_join(arena, folder, path);
    if (!within) return TL_ENOMEM;
    st = tl_checkpoint_locate(file, &bundle, arena, within);
    if (st == TL_ENOTFOUND) tl_error_restore(&failure);
    return st;
}

/* Where the best one of a run is kept. */
static tl_status best_of(const char **out, const tl_finished *f, const char *folder)
{
    const tl_trainer_config *t = f->params->trainer.value;
    const char *name = f->kind == TL_FOLDER_LIBAI ? "model_best" : t->best_checkpoint_export_subdir;
    if (!name || !*name)
        return TL_FAIL(
            TL_EINVAL,
            "the run keeps no best checkpoint: its trainer.best_checkpoint_export_subdir is empty");
    *out = tl_path_join(f->arena, folder, name);
    return *out ? TL_OK : TL_ENOMEM;
}

static tl_status restore_chosen(tl_finished *f, const tl_finished_args *args, const char *path)
{
    const char *file;
    if (strcmp(path, "latest") == 0) return restore_newest(f, args->folder);
    if (strcmp(path, "best") == 0) TL_TRY(best_of(&path, f, args->folder));
    else if (tl_dir_exists(path)) return restore_newest(f, path);
    TL_TRY(locate_chosen(&file, f->arena, args->folder, path));
    return restore(f, file);
}

/* --- exported weights ------------------------------------------------------------------------- */

static tl_status read_notes(tl_finished *f)
{
    tl_safetensors *file;
    TL_TRY(tl_safetensors_open(&file, f->file));
    const char *step = tl_safetensors_note_get(file, "step"),
               *averaged = tl_safetensors_note_get(file, "averaged");
    if (step) f->trainer->global_step = strtoll(step, NULL, 10);
    f->averaged = averaged && strcmp(averaged, "true") == 0;
    tl_safetensors_free(&file);
    return TL_OK;
}

static tl_status restore_exported(tl_finished *f, const tl_finished_args *args, const char *chosen)
{
    tl_state *state;
    if (strcmp(chosen, "latest") != 0)
        return TL_FAIL(
            TL_EINVAL,
            "--checkpoint=%s: '%s' was exported, and holds the weights of one checkpoint alone",
            chosen, args->folder);
    f->file = tl_path_join(f->arena, args->folder, TL_WEIGHTS_FILE);
    if (!f->file) return TL_ENOMEM;
    TL_TRY(tl_state_new(&state));
    tl_status st = tl_model_state(f->trainer->model, state);
    if (st == TL_OK)
        st = tl_checkpoint_restore(state, f->file, &(tl_checkpoint_restore_args){.weights = true},
                                   NULL);
    tl_state_free(&state);
    return st == TL_OK ? read_notes(f) : st;
}

/* --- opening ---------------------------------------------------------------------------------- */

static tl_status read_folder(tl_finished *f, const tl_finished_args *args)
{
    TL_TRY(tl_folder_kind_of(&f->kind, args->folder));
    TL_TRY(
        tl_run_bindings(&f->gin, args->registry, args->folder, (tl_strings){0}, (tl_strings){0}));
    tl_gin *outer = tl_gin_set_current(f->gin);
    tl_status st = tli_finished_config(f, args);
    tl_gin_set_current(outer);
    return st;
}

tl_status tl_finished_read(tl_finished *out, const tl_finished_args *args)
{
    *out = (tl_finished){0};
    if (!args->folder || !*args->folder)
        return TL_FAIL(TL_EINVAL, "no run is named: say --model_dir=FOLDER");
    TL_TRY(tl_arena_new(&out->arena));
    return read_folder(out, args);
}

static tl_status build(tl_finished *f, const tl_finished_args *args)
{
    uint64_t seed = tl_experiment_seed(f->params);
    tl_gin *outer = tl_gin_set_current(f->gin);
    tl_status st = tl_experiment_open_in(&f->strategy, &f->task, args->registry, f->params,
                                         args->folder, seed, args->world);
    tl_gin_set_current(outer);
    TL_TRY(st);
    TL_TRY(tli_finished_begin_classes(f, args->folder));
    return tl_trainer_new(&f->trainer, &(tl_trainer_args){.config = f->params,
                                                          .strategy = f->strategy,
                                                          .task = f->task,
                                                          .evaluate = args->evaluates,
                                                          .seed = seed});
}

tl_status tl_finished_open(tl_finished *out, const tl_finished_args *args)
{
    const char *chosen = args->checkpoint ? args->checkpoint : "latest";
    TL_TRY(tl_finished_read(out, args));
    TL_TRY(build(out, args));
    TL_TRY(out->kind == TL_FOLDER_EXPORTED ? restore_exported(out, args, chosen)
                                           : restore_chosen(out, args, chosen));
    TL_TRY(tli_finished_end_classes(out));
    tl_optimizer *o = out->trainer->optimizer;
    if (args->evaluates || !o || !tl_optimizer_averages(o) || tl_optimizer_iterations(o) == 0)
        return TL_OK;
    out->averaged = true;
    return tl_optimizer_swap(o);
}

const char *tl_finished_class(const tl_finished *f, int64_t class_id)
{
    return class_id < f->classes.count ? f->classes.items[class_id]
                                       : tl_arena_printf(f->arena, "%" PRId64, class_id);
}

void tl_finished_close(tl_finished *f)
{
    tl_trainer_free(&f->trainer);
    tl_task_free(&f->task);
    tl_strategy_free(&f->strategy);
    tl_config_free(&f->config);
    tl_gin_free(&f->gin);
    tl_arena_free(&f->arena);
}
