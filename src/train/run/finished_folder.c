#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/io/safetensors.h>
#include <tilth/sys/cuda/cuda.h>

#include "train/libai/default_trainer.h"
#include "train/libai/libai.h"
#include "train/run/finished.h"

enum { LONGEST_NAME = 4096, LONGEST_JSON = 16 << 20 };

/* --- kinds ------------------------------------------------------------------------------------ */

static tl_status holds(bool *out, tl_arena *arena, const char *folder, const char *name)
{
    const char *path = tl_path_join(arena, folder, name);
    if (!path) return TL_ENOMEM;
    *out = tl_file_exists(path);
    return TL_OK;
}

static tl_status find_kind(tl_folder_kind *out, tl_arena *arena, const char *folder)
{
    static const char *const names[] = {
        [TL_FOLDER_EXPERIMENT] = "params.yaml",
        [TL_FOLDER_EXPORTED] = TL_EXPORTED_FILE,
        [TL_FOLDER_LIBAI] = "config.yaml",
    };
    static const tl_folder_kind order[] = {TL_FOLDER_EXPERIMENT, TL_FOLDER_EXPORTED,
                                           TL_FOLDER_LIBAI};
    bool there, weights;
    for (int i = 0; i < TL_COUNT(order); i++) {
        TL_TRY(holds(&there, arena, folder, names[order[i]]));
        if (!there) continue;
        *out = order[i];
        TL_TRY(holds(&weights, arena, folder, TL_WEIGHTS_FILE));
        if (*out != TL_FOLDER_LIBAI || !weights) return TL_OK;
        return TL_FAIL(
            TL_EINVAL,
            "'%s' holds exported weights without %s, which says how to use them: export them again",
            folder, TL_EXPORTED_FILE);
    }
    return TL_FAIL(TL_ENOTFOUND,
                   "'%s' is no folder of a run: it has no params.yaml (of `train`), no config.yaml "
                   "(of `train_net`) and no %s (of `export`)%s",
                   folder, TL_EXPORTED_FILE,
                   tl_dir_exists(folder) ? "" : "; there is no such folder");
}

tl_status tl_folder_kind_of(tl_folder_kind *out, const char *folder)
{
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = find_kind(out, arena, folder);
    tl_arena_free(&arena);
    return st;
}

/* --- experiments ------------------------------------------------------------------------------ */

/* As experiment.txt says; NULL when it is not there. */
static tl_status read_name(const char **out, tl_arena *arena, const char *folder)
{
    const char *path = tl_path_join(arena, folder, TL_EXPERIMENT_FILE);
    char *text;
    *out = NULL;
    if (!path) return TL_ENOMEM;
    if (!tl_file_exists(path)) return TL_OK;
    TL_TRY(tl_file_read(&text, NULL, path, LONGEST_NAME));
    *out = tl_arena_strndup(arena, text, strcspn(text, "\n"));
    tl_free(text);
    return *out ? TL_OK : TL_ENOMEM;
}

/* Which experiment it was. */
static tl_status recall(tl_finished *f, const tl_finished_args *args)
{
    f->experiment = args->experiment;
    if (f->experiment) return TL_OK;
    TL_TRY(read_name(&f->experiment, f->arena, args->folder));
    if (f->experiment) return TL_OK;
    return TL_FAIL(
        TL_ENOTFOUND,
        "%s/%s is not there, so --experiment=NAME must say what was trained in that folder",
        args->folder, TL_EXPERIMENT_FILE);
}

tl_status tl_folder_check_experiment(const char *folder, const char *experiment)
{
    tl_arena *arena;
    const char *begun;
    if (!folder || !*folder || !experiment) return TL_OK;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = read_name(&begun, arena, folder);
    if (st == TL_OK && begun && strcmp(begun, experiment) != 0)
        st = TL_FAIL(TL_EINVAL,
                     "the run in '%s' belongs to the experiment '%s', not to '%s': resume it with "
                     "--experiment=%s, or use another folder",
                     folder, begun, experiment, begun);
    tl_arena_free(&arena);
    return st;
}

/* Whoever has made the folder must not make us run something. */
static void forget_command(tl_config *c, const char *file)
{
    tl_experiment_config *e = tl_config_edit(c);
    if (!e->tilth.notify) return;
    TL_LOG_WARNING("%s: tilth.notify is left out: commands are not taken from the folder of a run",
                   file);
    e->tilth.notify = NULL;
}

static tl_status leave_machine(tl_config *c)
{
    tl_experiment_config *e = tl_config_edit(c);
    const int64_t gpus = e->runtime.num_gpus;
    TL_TRY(tl_desc_defaults(tl_config_arena(c), &tl_runtime_config_desc, &e->runtime));
    e->runtime.num_gpus = gpus;
    return TL_OK;
}

/* Opening shows all that may lack; what it has found out stays for who opens the GPU next. */
static tl_status try_gpu(const tl_registry *registry)
{
    tl_engine *engine;
    TL_TRY(tl_engine_open(&engine, registry, tl_backend_cuda.cls.name, 1));
    tl_engine_free(&engine);
    return TL_OK;
}

/* The run was trained on GPUs, and nobody has asked for one here: this machine may have none, and
 * whoever names a device wants that. */
static void leave_gpus(tl_config *c, const tl_finished_args *args)
{
    tl_experiment_config *e = tl_config_edit(c);
    const char *environment = getenv("TILTH_DEVICE");
    e->runtime.num_gpus = 0;
    if ((environment && *environment) || (e->tilth.device && *e->tilth.device)) return;
    if (try_gpu(args->registry) == TL_OK) {
        e->runtime.num_gpus = 1;
        return;
    }
    e->tilth.device = "cpu"; // not the default: a GPU that is there is no news
    if (!args->world || tl_world_comm(args->world)->rank == 0)
        TL_LOG_WARNING("the run was trained on a GPU, and none can be used here, so the CPU "
                       "computes: %s",
                       tl_error_message());
    tl_error_clear();
}

/* Each process has a lane at least, and each lane as much of a batch as the others. */
static tl_status raise_lanes(tl_config *c, const tl_world *world)
{
    const tl_experiment_config *e = tl_config_value(c);
    const tl_task_config *task = e->task.value;
    const tl_data_config *data = task ? task->validation_data : NULL;
    const int32_t size = world ? tl_world_comm(world)->size : 1;
    const int64_t batch = data && data->global_batch_size > 0 ? data->global_batch_size : size;
    char word[64];
    if (e->tilth.lanes >= size) return TL_OK;
    int32_t fewer = size;
    while (batch % fewer) fewer--;
    if (fewer < size)
        return TL_FAIL(TL_EINVAL,
                       "%" PRId32 " processes cannot share batches of %" PRId64
                       " examples (task.validation_data.global_batch_size) evenly: start %" PRId32,
                       size, batch, fewer);
    snprintf(word, sizeof word, "tilth.lanes=%" PRId32, size);
    return tl_config_word(c, word, tl_world_who(world)->source);
}

/* What the caller asks for, on top of what the run was. */
static tl_status change(tl_config *c, const tl_finished_args *args, const char *file)
{
    static const char gpus[] = "runtime.num_gpus";
    tl_experiment_config *e = tl_config_edit(c);
    forget_command(c, file);
    const char *said = tl_config_source(c, gpus);
    if (args->any_machine) TL_TRY(leave_machine(c));
    if (args->threads > 0) e->tilth.threads = args->threads;
    for (int64_t i = 0; i < args->config_file.count; i++)
        TL_TRY(tl_config_read(c, args->config_file.items[i]));
    if (args->params_override && *args->params_override)
        TL_TRY(tl_config_override(c, args->params_override, "--params_override"));
    TL_TRY(tl_config_words(c, args->words, args->word_count));
    if (e->runtime.num_gpus > 0 && strcmp(tl_config_source(c, gpus), said) == 0)
        leave_gpus(c, args);
    return raise_lanes(c, args->world);
}

static tl_status read_experiment(tl_finished *f, const tl_finished_args *args, const char *name)
{
    const char *file = tl_path_join(f->arena, args->folder, name);
    tl_parse_options parse = TL_PARSE_OPTIONS_INIT;
    if (!file) return TL_ENOMEM;
    parse.experiment = f->experiment;
    parse.config_file = (tl_strings){&file, 1};
    TL_TRY(tl_experiment_begin(&f->config, args->registry, &parse));
    TL_TRY(change(f->config, args, file));
    TL_TRY(tl_experiment_finish(f->config, args->registry, f->experiment));
    f->params = tl_config_value(f->config);
    return TL_OK;
}

/* --- what was exported ------------------------------------------------------------------------ */

static tl_status new_section(tl_object *out, tl_arena *arena, const tl_desc *desc)
{
    void *value;
    TL_TRY(tl_desc_new(&value, arena, desc));
    *out = (tl_object){desc, value};
    return TL_OK;
}

/* Without the experiment, which may be somebody's who is not here: the task is enough. */
static tl_status read_task(tl_finished *f, const tl_finished_args *args, const char *task)
{
    const char *file = tl_path_join(f->arena, args->folder, "config.yaml");
    const tl_class *cls;
    if (!file) return TL_ENOMEM;
    TL_TRY(tl_registry_find(&cls, args->registry, &tl_kind_task, task));
    TL_TRY(tl_config_new(&f->config, args->registry, &tl_experiment_config_desc));
    tl_experiment_config *e = tl_config_edit(f->config);
    TL_TRY(new_section(&e->task, tl_config_arena(f->config), tl_class_config(cls)));
    TL_TRY(new_section(&e->trainer, tl_config_arena(f->config), &tl_trainer_config_desc));
    TL_TRY(tl_config_read(f->config, file));
    TL_TRY(change(f->config, args, file));
    TL_TRY(tl_config_finish(f->config));
    f->params = tl_config_value(f->config);
    return TL_OK;
}

/* What model.json says of where it came from; in the arena. */
static tl_status read_origin(const char **task, tl_finished *f, const char *folder)
{
    const char *path = tl_path_join(f->arena, folder, TL_EXPORTED_FILE);
    json_t *name = NULL; // of the experiment; null: there was none
    json_error_t error;
    char *text;
    size_t size;
    if (!path) return TL_ENOMEM;
    TL_TRY(tl_file_read(&text, &size, path, LONGEST_JSON));
    json_t *json = json_loadb(text, size, 0, &error);
    tl_status st = TL_OK;
    if (!json) st = TL_FAIL(TL_EINVAL, "%s:%d: %s", path, error.line, error.text);
    else if (json_unpack(json, "{s:s, s?o}", "task", task, "experiment", &name) != 0)
        st = TL_FAIL(TL_EINVAL, "%s: expected an object that names its \"task\"", path);
    if (st == TL_OK && !(*task = tl_arena_strdup(f->arena, *task))) st = TL_ENOMEM;
    if (st == TL_OK && json_is_string(name)
        && !(f->experiment = tl_arena_strdup(f->arena, json_string_value(name))))
        st = TL_ENOMEM;
    json_decref(json);
    tl_free(text);
    return st;
}

static tl_status read_exported(tl_finished *f, const tl_finished_args *args)
{
    const char *task;
    TL_TRY(read_origin(&task, f, args->folder));
    if (args->experiment) f->experiment = args->experiment;
    if (f->experiment
        && (args->experiment
            || tl_registry_peek(args->registry, &tl_kind_experiment, f->experiment)))
        return read_experiment(f, args, "config.yaml");
    return read_task(f, args, task);
}

/* --- LiBai's words ---------------------------------------------------------------------------- */

static tl_status apply_file(tl_config *config, const char *path)
{
    char *text;
    TL_TRY(tl_file_read(&text, NULL, path, TL_YAML_MAX_BYTES));
    tl_status st = tl_libai_yaml(config, text, path);
    tl_free(text);
    return st;
}

static tl_status read_libai(tl_finished *f, const tl_finished_args *args)
{
    const char *path = tl_path_join(f->arena, args->folder, "config.yaml");
    tl_libai_config *resolved = tl_arena_alloc(f->arena, sizeof *resolved);
    tl_experiment_config *params;
    if (!path || !resolved) return TL_ENOMEM;
    TL_TRY(tl_libai_begin(&f->config, args->registry, path));
    for (int64_t i = 0; i < args->config_file.count; i++)
        TL_TRY(apply_file(f->config, args->config_file.items[i]));
    if (args->params_override && *args->params_override)
        TL_TRY(tl_config_override(f->config, args->params_override, "--params_override"));
    TL_TRY(tl_libai_words(f->config, args->words, args->word_count));
    TL_TRY(tl_config_finish(f->config));
    TL_TRY(tl_desc_copy(f->arena, &tl_libai_config_desc, resolved, tl_config_value(f->config)));
    const tl_comm *comm = args->world ? tl_world_comm(args->world) : NULL;
    TL_TRY_NOTE(
        tli_libai_resolve_dist(&resolved->train, resolved->tilth.lanes, !comm || comm->rank == 0),
        "train");
    TL_TRY_NOTE(tl_libai_resolve_batch(&resolved->train, resolved->tilth.lanes), "train");
    const int64_t processes = comm ? comm->size : 1;
    const int64_t lanes =
        resolved->tilth.lanes > processes ? resolved->tilth.lanes : processes; // one each at least
    TL_TRY(tli_libai_experiment(&params, f->arena, resolved, lanes));
    tli_libai_scaled(params, &resolved->train);
    tl_optimization_config *optimization =
        &((tl_trainer_config *)params->trainer.value)->optimizer_config;
    // whoever looks at its steps needs them
    TL_TRY(tl_libai_schedule(optimization, f->arena, resolved));
    TL_TRY(tl_libai_optimizer(optimization, f->arena, &resolved->optim));
    if (args->threads > 0) params->tilth.threads = args->threads;
    f->params = params;
    return TL_OK;
}

tl_status tli_finished_config(tl_finished *f, const tl_finished_args *args)
{
    switch (f->kind) {
    case TL_FOLDER_LIBAI: return read_libai(f, args);
    case TL_FOLDER_EXPORTED: return read_exported(f, args);
    default: TL_TRY(recall(f, args)); return read_experiment(f, args, "params.yaml");
    }
}

/* --- classes ---------------------------------------------------------------------------------- */

/* One a line. */
static tl_status split(tl_strings *out, tl_arena *arena, const char *text)
{
    int64_t most = 1, count = 0;
    for (const char *p = text; *p; p++) most += *p == '\n';
    const char **names = tl_arena_array(arena, most, sizeof *names);
    if (!names) return TL_ENOMEM;
    for (const char *p = text; *p; count++) {
        size_t line = strcspn(p, "\n"), length = line && p[line - 1] == '\r' ? line - 1 : line;
        if (!(names[count] = tl_arena_strndup(arena, p, length))) return TL_ENOMEM;
        p += line + (p[line] == '\n');
    }
    *out = (tl_strings){names, count};
    return TL_OK;
}

/* A run whose folder has lost the file has it in each checkpoint. */
static tl_status read_note(const char **out, tl_finished *f)
{
    tl_safetensors *file;
    if (!f->file || !tl_file_exists(f->file)) return TL_OK; // a bundle: it has no notes
    TL_TRY(tl_safetensors_open(&file, f->file));
    const char *text = tl_safetensors_note_get(file, "tilth.note.classes");
    tl_status st = TL_OK;
    if (text && !(*out = tl_arena_strdup(f->arena, text))) st = TL_ENOMEM;
    tl_safetensors_free(&file);
    return st;
}

tl_status tli_take_noted_classes(tl_strings *out, tl_task *task, tl_arena *arena,
                                 const char *folder)
{
    const char *text;
    *out = (tl_strings){0};
    TL_TRY(tl_notes_read(&text, arena, folder, TL_CLASSES_FILE));
    if (text) TL_TRY(split(out, arena, text));
    if (out->count) TL_TRY_NOTE(tl_task_set_classes(task, *out), "%s/%s", folder, TL_CLASSES_FILE);
    return TL_OK;
}

tl_status tli_finished_begin_classes(tl_finished *f, const char *folder)
{
    return tli_take_noted_classes(&f->classes, f->task, f->arena, folder);
}

tl_status tli_finished_end_classes(tl_finished *f)
{
    const char *text = NULL;
    tl_answer_form form;
    if (!f->classes.count) TL_TRY(read_note(&text, f));
    if (text) TL_TRY(split(&f->classes, f->arena, text));
    if (f->classes.count) return TL_OK;
    tl_task_answer_form(f->task, &form);
    f->classes = form.names;
    return TL_OK;
}
