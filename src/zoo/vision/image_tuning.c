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

static tl_status read_params(tli_earlier_run *out, tl_arena *arena, const char *file)
{
    const tl_value *params;
    TL_TRY(tl_yaml_read(&params, arena, file));
    if (!look(params, "task.model.backbone.type")) return TL_OK; // another kind of run
    *out = (tli_earlier_run){.params = params,
                             .file = file,
                             .normalised = has_numbers(look(params, "task.train_data.mean"))};
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
    const tl_value *names = look(run->params, "task.class_names");
    if (!names || names->kind != TL_VALUE_LIST || names->count != classes.count) return false;
    for (int64_t i = 0; i < classes.count; i++)
        if (names->items[i]->kind != TL_VALUE_SCALAR
            || strcmp(names->items[i]->text, classes.items[i]) != 0)
            return false;
    return classes.count > 0;
}

tl_status tli_earlier_run_choose(tl_config *config, const tli_earlier_run *run, tl_strings classes)
{
    static const char *const model[] = {"task.model.backbone", "task.model.norm_activation",
                                        "task.model.input_size"};
    static const char *const data[] = {"mean", "stddev"};
    const tl_experiment_config *e = tl_config_value(config);
    const tl_task_config *task = e->task.value;
    for (int i = 0; i < TL_COUNT(model); i++)
        TL_TRY(take(config, model[i], look(run->params, model[i])));
    for (int i = 0; i < TL_COUNT(data) && run->normalised; i++) {
        char from[64], to[64];
        snprintf(from, sizeof from, "task.train_data.%s", data[i]);
        snprintf(to, sizeof to, "task.validation_data.%s", data[i]);
        TL_TRY(take(config, from, look(run->params, from)));
        if (task->validation_data) TL_TRY(take(config, to, look(run->params, from)));
    }
    if (knows(run, classes)) return TL_OK;
    TL_LOG_INFO("the run of '%s' knows other classes: its backbone is taken, and the head starts "
                "from first values",
                run->file);
    return tli_choose(config, "task.init_checkpoint_modules", "backbone");
}
