#include "tool/export.h"

#include <inttypes.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/desc/yaml.h>
#include <tilth/io/safetensors.h>

#include "base/inner/folder.h"
#include "tool/finished.h"

#define OURS "tilth"
#define ONNX "onnx"

typedef struct export_flags {
    const char *to, *format;
} export_flags;
static const tl_field export_fields[] = {
    TL_F(export_flags, to, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "folder for model.safetensors and the files beside it; made when it is not there"),
    TL_F(export_flags, format, .s = OURS,
         .pattern = "^(" OURS "|hf|torchvision|timm|libai|" ONNX ")$",
         .help = "tilth; hf: as transformers of Hugging Face reads it (BERT, ResNet, ViT); "
                 "torchvision, timm or libai: their names (ResNet, ViT); or onnx"),
    TL_F_END,
};
static const tl_desc export_flags_desc = {
    .name = "export",
    .help = "flags of `export`",
    .size = sizeof(export_flags),
    .fields = export_fields,
};

enum { OUTPUT, RUN }; /* structs of flags, by their place in the command's table */

#define CONFIG_FILE "config.yaml"
#define BINDINGS_FILE "bindings.gin"

/* --- files ------------------------------------------------------------------------------------ */

static tl_status write_weights(const tl_finished *f, const char *path)
{
    char step[32];
    tl_state *state;
    snprintf(step, sizeof step, "%" PRId64, f->trainer->global_step);
    const tl_safetensors_note notes[] = {
        {"format", "tilth"}, {"step", step}, {"averaged", f->averaged ? "true" : "false"}};
    TL_TRY(tl_state_new(&state));
    tl_status st = tl_model_state(f->trainer->model, state);
    if (st == TL_OK) st = tl_safetensors_write(path, state, notes, TL_COUNT(notes));
    tl_state_free(&state);
    return st;
}

static tl_status add_config(tl_notes *files, const tl_finished *f)
{
    tl_str text = TL_STR_INIT;
    tl_status st = f->kind == TL_FOLDER_LIBAI
                       ? tl_yaml_write(&text, &tl_experiment_config_desc, f->params)
                       : tl_config_write_saved(&text, f->config);
    if (st == TL_OK) st = tl_str_status(&text);
    if (st == TL_OK) st = tl_notes_put(files, "configuration", CONFIG_FILE, tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

static tl_status add_model(tl_notes *files, const tl_finished *f)
{
    tl_str text = TL_STR_INIT;
    tl_status st = tli_export_model(&text, f);
    if (st == TL_OK) st = tl_notes_put(files, "model", TL_EXPORTED_FILE, tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

static tl_status add_classes(tl_notes *files, const tl_finished *f)
{
    tl_str text = TL_STR_INIT;
    for (int64_t i = 0; i < f->classes.count; i++) tl_str_addf(&text, "%s\n", f->classes.items[i]);
    tl_status st = tl_str_status(&text);
    if (st == TL_OK && f->classes.count)
        st = tl_notes_put(files, "classes", TL_CLASSES_FILE, tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

/* What gin has bound in the run holds for what is built from the export too. */
static tl_status add_bindings(tl_notes *files, const tl_finished *f, const char *from)
{
    const char *text;
    TL_TRY(tl_notes_read(&text, f->arena, from, BINDINGS_FILE));
    return text && *text ? tl_notes_put(files, "bindings", BINDINGS_FILE, text) : TL_OK;
}

/* --- the command ------------------------------------------------------------------------------ */

static const struct {
    const char *file, *what;
} known[] = {{CONFIG_FILE, "how they were trained"},
             {TL_EXPORTED_FILE, "the model, layer by layer"},
             {TL_CLASSES_FILE, "names of the classes, one a line"},
             {"preprocessing.json", "how an image is made ready"},
             {"schema.yaml", "what the columns of a table are"},
             {BINDINGS_FILE, "what gin has bound"}};
/* Those of other forms, which an export of ours leaves alone. */
static const struct {
    const char *file, *what;
} theirs[] = {{"config.json", "what the model is"},
              {"preprocessor_config.json", "how an image is made ready"},
              {"vocab.txt", "its words"},
              {"tokenizer.json", "its words, and how text is cut into them"},
              {"tokenizer_config.json", "how text is cut into them"}};

static const char *what_it_is(const char *file)
{
    for (int64_t i = 0; i < TL_COUNT(known); i++)
        if (strcmp(known[i].file, file) == 0) return known[i].what;
    for (int64_t i = 0; i < TL_COUNT(theirs); i++)
        if (strcmp(theirs[i].file, file) == 0) return theirs[i].what;
    return "what the task has beside them";
}

static bool has_file(const tl_notes *files, const char *name)
{
    for (int64_t i = 0; i < files->count; i++)
        if (strcmp(files->files[i], name) == 0) return true;
    return false;
}

/* Files of an earlier export that this one does not have would be taken for its own. */
static tl_status remove_old(tl_arena *arena, const tl_notes *files, const char *folder)
{
    for (int64_t i = 0; i < TL_COUNT(known); i++) {
        if (has_file(files, known[i].file)) continue;
        const char *path = tl_path_join(arena, folder, known[i].file);
        if (!path) return TL_ENOMEM;
        if (tl_file_exists(path)) TL_TRY(tl_file_remove(path));
    }
    return TL_OK;
}

static tl_status write_files(tli_run *run, const tl_notes *files, const char *folder)
{
    for (int64_t i = 0; i < files->count; i++) {
        const char *path = tl_path_join(run->arena, folder, files->files[i]);
        if (!path) return TL_ENOMEM;
        TL_TRY(tl_file_write_atomic(path, files->items[i].value, strlen(files->items[i].value)));
        tl_str_addf(&run->text, "%s: %s\n", path, what_it_is(files->files[i]));
    }
    return tl_str_status(&run->text);
}

/* --- the form of others ----------------------------------------------------------------------- */

/* Where a run has its vocabulary, it goes with the weights. */
static tl_status add_vocabulary(tl_notes *files, const tl_finished *f, const char *from)
{
    static const char *const all[] = {"vocab.txt", "tokenizer.json", "tokenizer_config.json"};
    for (int64_t i = 0; i < TL_COUNT(all); i++) {
        const char *text;
        TL_TRY(tl_notes_read(&text, f->arena, from, all[i]));
        if (text && *text) TL_TRY(tl_notes_put(files, all[i], all[i], text));
    }
    return TL_OK;
}

static tl_status gather_theirs(tl_notes *files, tl_state *weights, const tl_finished *f,
                               const char *from, const char *format)
{
    tl_state *model;
    TL_TRY(tl_state_new(&model));
    tl_status st = tl_model_state(f->trainer->model, model);
    if (st == TL_OK)
        st = tl_task_export_weights(
            f->task, &(tl_export_args){.format = format, .model = model, .classes = f->classes},
            weights, files);
    if (st == TL_OK) st = add_vocabulary(files, f, from);
    tl_state_free(&model);
    return st;
}

tl_status tli_export_theirs(tli_run *run, const tl_finished *f, const char *from,
                            const char *folder, const char *format)
{
    static const tl_safetensors_note notes[] = {{"format", "pt"}}; // transformers looks for it
    const char *path = tl_path_join(run->arena, folder, TL_WEIGHTS_FILE);
    tl_notes files = {0};
    tl_state *weights = NULL;
    int64_t entries, bytes;
    tl_status st;
    if (!path) return TL_ENOMEM;
    TL_TRY_DONE(st, tl_state_new(&weights));
    TL_TRY_DONE(st, gather_theirs(&files, weights, f, from, format));
    TL_TRY_DONE(st, tl_state_size(weights, &entries, &bytes));
    TL_TRY_DONE(st, tl_mkdirs(folder));
    TL_TRY_DONE(st, remove_old(run->arena, &files, folder));
    TL_TRY_DONE(st, tl_safetensors_write(path, weights, notes, TL_COUNT(notes)));
    tl_str_addf(&run->text, "%s: %" PRId64 " %sweights of step %" PRId64 "\n", path, entries,
                f->averaged ? "averaged " : "", f->trainer->global_step);
    st = write_files(run, &files, folder);
done:
    tl_state_free(&weights);
    tl_notes_deinit(&files);
    return st;
}

/* --- the form of ours ------------------------------------------------------------------------- */

static tl_status gather(tl_notes *files, const tl_finished *f, const char *from)
{
    TL_TRY(add_config(files, f));
    TL_TRY(add_model(files, f));
    TL_TRY(add_classes(files, f));
    TL_TRY(add_bindings(files, f, from));
    return tl_task_export_files(f->task, files);
}

static tl_status export_to(tli_run *run, const tl_finished *f, const char *from, const char *folder)
{
    const char *weights = tl_path_join(run->arena, folder, TL_WEIGHTS_FILE);
    tl_model_size size = tl_model_measure(f->trainer->model);
    tl_notes files = {0};
    tl_status st;
    if (!weights) return TL_ENOMEM;
    TL_TRY_DONE(st, gather(&files, f, from));
    TL_TRY_DONE(st, tl_mkdirs(folder));
    TL_TRY_DONE(st, remove_old(run->arena, &files, folder));
    TL_TRY_DONE(st, write_weights(f, weights));
    tl_str_addf(&run->text, "%s: %" PRId64 " %sparameters of step %" PRId64 "\n", weights,
                size.params + size.state, f->averaged ? "averaged " : "", f->trainer->global_step);
    st = write_files(run, &files, folder);
done:
    tl_notes_deinit(&files);
    return st;
}

/* A run has a config.yaml, too, or is what is looked for first: neither must be spoilt. */
static tl_status check_folder(const char *folder)
{
    tl_folder_kind kind;
    if (tl_folder_kind_of(&kind, folder) != TL_OK || kind == TL_FOLDER_EXPORTED) {
        tl_error_clear();
        return TL_OK;
    }
    return TL_FAIL(TL_EINVAL,
                   "--to=%s: this is the folder of a run; name another one, such as %s/exported",
                   folder, folder);
}

static tl_status run_export(tli_run *run)
{
    const export_flags *flags = run->given[OUTPUT];
    const char *folder = flags->to;
    tl_finished f;
    if (!folder || !*folder)
        return TL_FAIL(TL_EINVAL, "no folder is named for what is exported: say --to=FOLDER");
    TL_TRY(check_folder(folder));
    tl_finished_args which = tli_finished_args(run, run->given[RUN]);
    tli_folder_hold *hold = NULL; // it is often exported to a folder in that of the run
    tl_status st = tl_finished_open(&f, &which);
    if (st == TL_OK) st = tli_folder_hold_new(&hold, which.folder);
    if (st == TL_OK) {
        if (strcmp(flags->format, OURS) == 0) st = export_to(run, &f, which.folder, folder);
        else if (strcmp(flags->format, ONNX) == 0) st = tli_export_onnx(run, &f, folder);
        else st = tli_export_theirs(run, &f, which.folder, folder, flags->format);
    }
    tli_folder_hold_free(&hold);
    tl_finished_close(&f);
    return st;
}

const tli_command tli_command_export = {
    .name = "export",
    .brief = "writes the weights of a run, and everything needed to use them",
    .usage = "--model_dir=FOLDER --to=FOLDER [--checkpoint=latest|best|PATH] "
             "[--format=tilth|hf|torchvision|timm|libai|onnx]"
             "\n\n"
             "Writes model.safetensors, which Python's `safetensors` reads, model.json (every "
             "layer with its configuration), preprocessing.json (how images are made ready), "
             "classes.txt (names of the classes), of tables schema.yaml (what their columns are) "
             "and config.yaml. If the run has kept averages of the weights, the averages are "
             "written. `predict` and `eval` take the folder as --model_dir, task.init_checkpoint "
             "of another run takes model.safetensors. --format=hf writes a BERT, a ResNet, a "
             "MobileNetV2 or a "
             "vision transformer as Hugging Face has it: config.json and model.safetensors for "
             "from_pretrained() of Python's `transformers`; torchvision, timm and libai give the "
             "weights of image classifiers the names that they have there. --format=onnx writes "
             "model.onnx: what the model computes, with its weights, for ONNX Runtime and others.",
    .flags = {{"Output", &export_flags_desc}, {"Run", &tli_finished_flags_desc}},
    .run = run_export,
};
