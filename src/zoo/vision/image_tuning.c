#include "zoo/vision/image_tuning.h"

#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/desc/yaml.h>

#include "zoo/inner/zoo.h"

/* --- finding it ------------------------------------------------------------------------------- */

/* The value at a dotted path; NULL: there is none. */
static const tl_value *look(const tl_value *v, const char *path)
{
    while (v && *path) {
        char key[64];
        size_t length = strcspn(path, ".");
        if (v->kind != TL_VALUE_MAP || length >= sizeof key) return NULL;
        memcpy(key, path, length);
        key[length] = 0;
        v = tl_value_get(v, key);
        path += length + (path[length] == '.');
    }
    return v;
}

static bool has_numbers(const tl_value *v)
{
    return v && v->kind == TL_VALUE_LIST && v->count > 0;
}

/* The task that knows images: of a distillation, the student's. */
static const tl_value *task_of(const tl_value *params)
{
    const tl_value *task = look(params, "task"), *type = look(task, "student.type");
    while (type && type->kind == TL_VALUE_SCALAR) {
        task = look(look(task, "student"), type->text);
        type = look(task, "student.type");
    }
    return task;
}

/* Of several tasks on one backbone, the first one's. */
static const tl_value *data_of(const tl_value *task)
{
    const tl_value *routines = look(task, "task_routines"), *data = look(task, "train_data");
    if (routines && routines->kind == TL_VALUE_LIST && routines->count > 0)
        data = look(routines->items[0], "task_config.train_data");
    return has_numbers(look(data, "mean")) ? data : NULL;
}

static tl_status read_params(tli_earlier_run *out, tl_arena *arena, const char *file)
{
    const tl_value *params;
    TL_TRY(tl_yaml_read(&params, arena, file));
    const tl_value *task = task_of(params);
    if (!look(task, "model.backbone.type")) return TL_OK; // another kind of run
    *out = (tli_earlier_run){.task = task,
                             .data = data_of(task),
                             .plain = look(task, "model.projection_head") != NULL, // SimCLR's
                             .file = file};
    return TL_OK;
}

tl_status tli_earlier_run_find(tli_earlier_run *out, tl_arena *arena, const char *path)
{
    static const char *const names[] = {"params.yaml", "config.yaml"};
    const char *folder = tl_dir_exists(path) ? path : tl_path_dirname(arena, path);
    const char *above = folder ? tl_path_join(arena, folder, "..") : NULL;
    *out = (tli_earlier_run){0};
    if (!above) return TL_ENOMEM;
    for (int i = 0; i < 2 * TL_COUNT(names); i++) {
        const char *file =
            tl_path_join(arena, i < TL_COUNT(names) ? folder : above, names[i % TL_COUNT(names)]);
        if (!file) return TL_ENOMEM;
        if (tl_file_exists(file)) return read_params(out, arena, file);
    }
    return TL_OK;
}

/* --- choosing --------------------------------------------------------------------------------- */

/* A value at a dotted path of the configuration. */
static tl_status put(tl_config *config, const char *path, const tl_value *value)
{
    tl_arena *arena = tl_config_arena(config);
    char *keys = tl_arena_strdup(arena, path);
    if (!keys) return TL_ENOMEM;
    for (char *dot = keys; dot;) {
        dot = strrchr(keys, '.');
        const tl_value_pair pair = {
            .key = dot ? dot + 1 : keys, .place = value->place, .value = value};
        value = tl_value_new_map(arena, value->place, &pair, 1);
        if (!value) return TL_ENOMEM;
        if (dot) *dot = 0;
    }
    return tl_config_apply(config, value);
}

/* All that lies below a path, each unless somebody has said another thing. */
static tl_status take(tl_config *config, const char *path, const tl_value *value)
{
    if (!value) return TL_OK;
    if (value->kind != TL_VALUE_MAP)
        return tl_config_is_given(config, path) ? TL_OK : put(config, path, value);
    for (int64_t i = 0; i < value->count; i++) {
        const char *below =
            tl_arena_printf(tl_config_arena(config), "%s.%s", path, value->pairs[i].key);
        if (!below) return TL_ENOMEM;
        TL_TRY(take(config, below, value->pairs[i].value));
    }
    return TL_OK;
}

static bool knows(const tli_earlier_run *run, tl_strings classes)
{
    const tl_value *names = look(run->task, "class_names");
    if (!names || names->kind != TL_VALUE_LIST || names->count != classes.count) return false;
    for (int64_t i = 0; i < classes.count; i++)
        if (names->items[i]->kind != TL_VALUE_SCALAR
            || strcmp(names->items[i]->text, classes.items[i]) != 0)
            return false;
    return classes.count > 0;
}

tl_status tli_earlier_run_choose(tl_config *config, const tli_earlier_run *run, tl_strings classes)
{
    static const char *const model[] = {"model.backbone", "model.norm_activation",
                                        "model.input_size"};
    static const char *const numbers[] = {"mean", "stddev"}, *const plain[] = {"[0.0]", "[255.0]"};
    static const char *const sections[] = {"train_data", "validation_data"};
    const tl_experiment_config *e = tl_config_value(config);
    const bool evaluates = ((const tl_task_config *)e->task.value)->validation_data != NULL;
    char to[64];
    for (int i = 0; i < TL_COUNT(model); i++) {
        snprintf(to, sizeof to, "task.%s", model[i]);
        TL_TRY(take(config, to, look(run->task, model[i])));
    }
    for (int i = 0; i < TL_COUNT(numbers); i++)
        for (int k = 0; k < (evaluates ? 2 : 1); k++) {
            snprintf(to, sizeof to, "task.%s.%s", sections[k], numbers[i]);
            if (run->plain) TL_TRY(tli_choose(config, to, "%s", plain[i]));
            else if (run->data) TL_TRY(take(config, to, look(run->data, numbers[i])));
        }
    if (knows(run, classes)) return TL_OK;
    TL_LOG_INFO("the run of '%s' knows other classes: its backbone is taken, and the head starts "
                "from first values",
                run->file);
    return tli_choose(config, "task.init_checkpoint_modules", "backbone");
}
