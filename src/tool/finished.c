#include "tool/finished.h"

#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/desc/gin.h>
#include <tilth/train/run/launch.h>

static const tl_field fields[] = {
    TL_F(tli_finished_flags, model_dir, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "folder of the run"),
    TL_F(tli_finished_flags, checkpoint, .s = "latest", .flags = TL_FIELD_PATH,
         .help = "latest (of those that can be read), best, the path of a checkpoint, or its name "
                 "in the folder"),
    TL_F(tli_finished_flags, experiment, .flags = TL_FIELD_NULLABLE,
         .help = "the experiment of the run, if the folder does not name it"),
    TL_F_END,
};
const tl_desc tli_finished_flags_desc = {
    .name = "finished",
    .help = "which run",
    .size = sizeof(tli_finished_flags),
    .fields = fields,
};

/* --- opening ---------------------------------------------------------------------------------- */

tl_finished_args tli_finished_args(const tli_run *run, const tli_finished_flags *flags)
{
    return (tl_finished_args){.registry = run->registry,
                              .folder = flags->model_dir,
                              .checkpoint = flags->checkpoint,
                              .experiment = flags->experiment};
}

/* --- names in Model Garden -------------------------------------------------------------------- */

tl_status tli_finished_folder(const char **out, tl_arena *arena, const char *folder,
                              const char *experiment)
{
    const char *const places[] = {folder, tl_path_join(arena, folder, "..")};
    *out = NULL;
    for (int i = 0; i < TL_COUNT(places); i++) {
        const char *params = places[i] ? tl_path_join(arena, places[i], "params.yaml") : NULL,
                   *name = params ? tl_path_join(arena, places[i], TL_EXPERIMENT_FILE) : NULL;
        if (!name) return TL_ENOMEM;
        if (!tl_file_exists(params)) continue;
        if (experiment || tl_file_exists(name)) *out = places[i];
        return TL_OK;
    }
    if (!experiment) return TL_OK;
    return TL_FAIL(
        TL_ENOTFOUND,
        "--experiment=%s: there is no params.yaml in '%s', nor in the folder above it, which would "
        "say how the model is made; without --experiment names stay as they are",
        experiment, folder);
}

tl_status tli_finished_names(tl_original_names *out, bool *known, tli_run *run, const char *folder,
                             const char *experiment)
{
    tl_finished f = {0};
    tl_finished_args args = {
        .registry = run->registry, .experiment = experiment, .any_machine = true};
    tl_status st;
    *known = false;
    TL_TRY(tl_original_names_init(out));
    TL_TRY(tli_finished_folder(&args.folder, run->arena, folder, experiment));
    if (!args.folder) return TL_OK;
    TL_TRY_DONE(st, tl_finished_read(&f, &args));
    // What gin makes of the model has other names.
    tl_gin *outer = tl_gin_set_current(f.gin);
    st = tl_experiment_open(&f.strategy, &f.task, run->registry, f.params, NULL, 0);
    tl_gin_set_current(outer);
    if (st != TL_OK) goto done;
    st = tl_task_original_names(f.task, out);
    *known = st == TL_OK;
    if (st == TL_EUNSUPPORTED) {
        TL_LOG_WARNING("%s; names stay as they are", tl_error_message());
        tl_error_clear();
        st = TL_OK;
    }
done:
    tl_finished_close(&f);
    return st;
}
