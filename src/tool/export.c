#include <inttypes.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/desc/yaml.h>
#include <tilth/io/safetensors.h>

#include "tool/finished.h"

typedef struct export_flags {
    const char *to;
} export_flags;
static const tl_field export_fields[] = {
    TL_F(export_flags, to, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "folder for model.safetensors and config.yaml; made when it is not there"),
    TL_F_END,
};
static const tl_desc export_flags_desc = {.name = "export", .help = "flags of `export`",
                                          .size = sizeof(export_flags), .fields = export_fields};

enum { OUTPUT, RUN }; /* structs of flags, by their place in the command's table */

static tl_status write_weights(const tl_finished *f, const char *path)
{
    char step[32];
    tl_state *state;
    snprintf(step, sizeof step, "%" PRId64, f->trainer->global_step);
    const tl_safetensors_note notes[] = {{"format", "tilth"}, {"step", step},
                                         {"averaged", f->averaged ? "true" : "false"}};
    TL_TRY(tl_state_new(&state));
    tl_status st = tl_model_state(f->trainer->model, state);
    if (st == TL_OK) st = tl_safetensors_write(path, state, notes, TL_COUNT(notes));
    tl_state_free(&state);
    return st;
}

static tl_status write_config(const tl_finished *f, const char *path)
{
    tl_str text = TL_STR_INIT;
    tl_status st = f->kind == TL_FOLDER_LIBAI ? tl_yaml_write(&text, &tl_experiment_config_desc, f->params)
                                              : tl_config_write(&text, f->config, false);
    if (st == TL_OK) st = tl_file_write_atomic(path, tl_str_text(&text), text.length);
    tl_str_deinit(&text);
    return st;
}

static tl_status export_to(tli_run *run, const tl_finished *f, const char *folder)
{
    const char *weights = tl_path_join(run->arena, folder, "model.safetensors");
    const char *config = tl_path_join(run->arena, folder, "config.yaml");
    tl_model_size size = tl_model_measure(f->trainer->model);
    if (!weights || !config) return TL_ENOMEM;
    TL_TRY(tl_mkdirs(folder));
    TL_TRY(write_weights(f, weights));
    TL_TRY(write_config(f, config));
    tl_str_addf(&run->text, "%s: %" PRId64 " %sparameters of step %" PRId64 "\n%s: how they were trained\n",
                weights, size.params + size.state, f->averaged ? "averaged " : "", f->trainer->global_step,
                config);
    return tl_str_status(&run->text);
}

static tl_status run_export(tli_run *run)
{
    const char *folder = ((const export_flags *)run->given[OUTPUT])->to;
    tl_finished f;
    if (!folder || !*folder)
        return TL_FAIL(TL_EINVAL, "no folder is named for what is exported: say --to=FOLDER");
    tl_finished_args which = tli_finished_args(run, run->given[RUN]);
    tl_status st = tl_finished_open(&f, &which);
    if (st == TL_OK) st = export_to(run, &f, folder);
    tl_finished_close(&f);
    return st;
}

const tli_command tli_command_export = {
    .name = "export",
    .brief = "writes the weights of a run as one file, with their configuration",
    .usage = "--model_dir=FOLDER --to=FOLDER [--checkpoint=latest|best|PATH]\n\n"
             "Writes model.safetensors, which Python's `safetensors` reads, and config.yaml. When the run "
             "has kept averages of the weights it is these that are written. task.init_checkpoint of "
             "another run takes the file.",
    .flags = {{"Output", &export_flags_desc}, {"Run", &tli_finished_flags_desc}},
    .run = run_export,
};
