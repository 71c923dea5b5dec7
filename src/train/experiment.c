#include <tilth/train/experiment.h>

#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/str.h>
#include <tilth/desc/gin.h>

#include "train/inner/experiment.h"
#include "train/controller/schedule_end.h"

static const tl_field experiment_fields[] = {
    TL_F(tl_experiment_config, task, .desc = &tl_task_config_desc, .set = true,
         .help = "what is learned: model, data, losses and metrics"),
    TL_F(tl_experiment_config, trainer, .desc = &tl_trainer_config_desc, .set = true,
         .help = "how long and how often: steps, intervals, checkpoints, optimizer"),
    TL_F_STRUCT(tl_experiment_config, runtime, &tl_runtime_config_desc,
                .help = "on what the training runs, and in which precision"),
    TL_F_STRUCT(tl_experiment_config, tilth, &tl_own_config_desc, .flags = TL_FIELD_QUIET,
                .help = "what Model Garden does not have"),
    TL_F(tl_experiment_config, eval_tasks, .desc = &tl_task_routine_desc, .flags = TL_FIELD_QUIET,
         .help = "tasks that are evaluated in place of the one that is trained; which ones there "
                 "are, the experiment says"),
    TL_F_END,
};
const tl_desc tl_experiment_config_desc = {
    .name = "experiment",
    .help = "task, trainer and runtime",
    .size = sizeof(tl_experiment_config),
    .fields = experiment_fields,
};

static const tl_method experiment_methods[] = {
    TL_METHOD(tl_experiment_class, task, true),
    TL_METHOD(tl_experiment_class, trainer, false),
    TL_METHOD(tl_experiment_class, fill, false),
    TL_METHOD(tl_experiment_class, complete, false),
    {NULL, 0, false},
};
/* The nearest descriptions up the chain, or what stands in for them. */
static const tl_experiment_class no_experiment = {
    .task = &tl_task_config_desc,
    .trainer = &tl_trainer_config_desc,
};
#define SECTION(cls, section) TL_CLASS_METHOD_OR(tl_experiment_class, cls, section, no_experiment)

static tl_status verify_section(const tl_desc *desc, const tl_desc *base)
{
    TL_TRY(tl_desc_verify(desc));
    if (tl_desc_is(desc, base)) return TL_OK;
    return TL_FAIL(TL_EINVAL, "the description '%s' does not derive from '%s'", desc->name,
                   base->name);
}

static tl_status verify_experiment(const tl_class *cls)
{
    TL_TRY(verify_section(SECTION(cls, task), &tl_task_config_desc));
    return verify_section(SECTION(cls, trainer), &tl_trainer_config_desc);
}

const tl_kind tl_kind_experiment = {
    .name = "experiment",
    .plural = "experiments",
    .help = "a task with a trainer and defaults, under a name",
    .class_size = sizeof(tl_experiment_class),
    .methods = experiment_methods,
    .verify = verify_experiment,
};

static const tl_field options_fields[] = {
    TL_F(tl_parse_options, experiment, .flags = TL_FIELD_NULLABLE,
         .help = "name of the experiment to start from"),
    TL_F(tl_parse_options, config_file, .flags = TL_FIELD_PATH,
         .help = "YAML file that changes the experiment; later ones win"),
    TL_F(tl_parse_options, params_override, .s = "", .flags = TL_FIELD_PATH,
         .help = "changes after the files: a.b=1,c='x',d=[1,2], or YAML text, or a YAML file"),
    TL_F(tl_parse_options, tpu, .s = "", .flags = TL_FIELD_NULLABLE,
         .help = "sets runtime.tpu; TPUs are not available"),
    TL_F(tl_parse_options, tf_data_service, .s = "", .flags = TL_FIELD_NULLABLE,
         .help = "sets tf_data_service_address of both data sections; the service is not "
                 "available"),
    TL_F(tl_parse_options, strict_override, .b = true,
         .help = "unknown keys are errors; else they are skipped with a warning"),
    TL_F_END,
};
const tl_desc tl_parse_options_desc = {
    .name = "parse_options",
    .help = "which experiment, and what is changed in it",
    .size = sizeof(tl_parse_options),
    .fields = options_fields,
};

/* --- the experiment's own defaults ------------------------------------------------------------ */

static tl_status new_section(tl_object *out, tl_arena *arena, const tl_desc *desc)
{
    void *value;
    TL_TRY(tl_desc_new(&value, arena, desc));
    *out = (tl_object){desc, value};
    return TL_OK;
}

/* Base classes first, so that what they give can be changed again. */
static tl_status apply_class(tl_config *c, const tl_class *cls)
{
    if (cls->base) TL_TRY(apply_class(c, cls->base));
    const tl_experiment_class *e = (const tl_experiment_class *)cls;
    // A plug-in's table may be older and shorter than ours.
    if (TL_CLASS_HAS(tl_experiment_class, cls, fill))
        TL_TRY(e->fill(tl_config_edit(c), tl_config_arena(c)));
    if (TL_CLASS_HAS(tl_experiment_class, cls, defaults)) {
        const char *source = tl_arena_printf(tl_config_arena(c), "experiment '%s'", cls->name);
        if (!source) return TL_ENOMEM;
        TL_TRY(tl_config_yaml(c, e->defaults, source));
    }
    if (!TL_CLASS_HAS(tl_experiment_class, cls, restrictions)) return TL_OK;
    for (const char *const *r = e->restrictions; *r; r++) TL_TRY(tl_config_restrict(c, *r));
    return TL_OK;
}

static tl_status apply_defaults(tl_config *c, const tl_class *cls)
{
    tl_experiment_config *e = tl_config_edit(c);
    tl_arena *arena = tl_config_arena(c);
    TL_TRY(new_section(&e->task, arena, SECTION(cls, task)));
    TL_TRY(new_section(&e->trainer, arena, SECTION(cls, trainer)));
    return apply_class(c, cls);
}

/* --- flags ------------------------------------------------------------------------------------ */

static bool is_given(const char *text)
{
    return text && *text;
}

/* {key: value} in the config's arena; NULL, with the error set, when there is no memory. */
static const tl_value *map_of(tl_arena *arena, tl_place place, const char *key,
                              const tl_value *value)
{
    if (!value) return NULL;
    const tl_value_pair pair = {.key = key, .place = place, .value = value};
    return tl_value_new_map(arena, place, &pair, 1);
}

/* Sets section.part.key, or section.key when part is NULL. */
static tl_status apply_flag(tl_config *c, const char *flag, const char *section, const char *part,
                            const char *key, const char *text)
{
    tl_arena *arena = tl_config_arena(c);
    const tl_place place = {.source = flag};
    const tl_value *v = tl_value_new_scalar(arena, place, text, true);
    v = map_of(arena, place, key, v);
    if (part) v = map_of(arena, place, part, v);
    v = map_of(arena, place, section, v);
    return v ? tl_config_apply(c, v) : TL_ENOMEM;
}

static tl_status apply_data_service(tl_config *c, const char *address)
{
    const tl_experiment_config *e = tl_config_value(c);
    const tl_task_config *task = e->task.value;
    if (task && task->train_data)
        TL_TRY(apply_flag(c, "--tf_data_service", "task", "train_data", "tf_data_service_address",
                          address));
    if (task && task->validation_data)
        TL_TRY(apply_flag(c, "--tf_data_service", "task", "validation_data",
                          "tf_data_service_address", address));
    return TL_OK;
}

/* Model Garden's files are YAML. */
static tl_status read_file(tl_config *c, const char *path)
{
    size_t length = strlen(path);
    if (length > 3 && strcmp(path + length - 3, ".py") == 0)
        return TL_FAIL(TL_EINVAL,
                       "--config_file=%s: this is Python, as LiBai's configurations are, and no "
                       "experiment; the command `train_net --config-file=%s` trains from it",
                       path, path);
    return tl_config_read(c, path);
}

static tl_status apply_options(tl_config *c, const tl_parse_options *o)
{
    tl_config_set_strict(c, o->strict_override);
    for (int64_t i = 0; i < o->config_file.count; i++)
        TL_TRY(read_file(c, o->config_file.items[i]));
    // Only when it is given: an unset flag must not wipe out what a file says.
    if (is_given(o->tpu)) TL_TRY(apply_flag(c, "--tpu", "runtime", NULL, "tpu", o->tpu));
    if (is_given(o->tf_data_service)) TL_TRY(apply_data_service(c, o->tf_data_service));
    if (is_given(o->params_override))
        TL_TRY(tl_config_override(c, o->params_override, "--params_override"));
    return TL_OK;
}

tl_status tl_experiment_begin(tl_config **out, const tl_registry *registry,
                              const tl_parse_options *options)
{
    *out = NULL;
    if (!is_given(options->experiment))
        return TL_FAIL(TL_EINVAL, "no experiment is named: say --experiment=NAME (the command "
                                  "`list experiments` shows the names)");
    const tl_class *cls;
    TL_TRY(tl_registry_find(&cls, registry, &tl_kind_experiment, options->experiment));
    if (TL_CLASS_HAS(tl_experiment_class, cls, lacks))
        return TL_FAIL(TL_EUNSUPPORTED, "experiment '%s' is not here yet: %s", cls->name,
                       ((const tl_experiment_class *)cls)->lacks);

    tl_config *c;
    TL_TRY(tl_config_new(&c, registry, &tl_experiment_config_desc));
    tl_status st = apply_defaults(c, cls);
    if (st != TL_OK && strncmp(tl_error_message(), "experiment '", 12) != 0)
        st = tl_error_note(st, "experiment '%s'", cls->name);
    if (st != TL_OK) goto done;
    TL_TRY_DONE(st, tl_config_mark_base(c)); // params.yaml is read on top of the same experiment
    const tl_task_class *task; // an experiment without one could be configured, but never run
    TL_TRY_DONE(st, tl_get_task_class(&task, registry,
                                      &((const tl_experiment_config *)tl_config_value(c))->task));
    TL_TRY_DONE(st, apply_options(c, options));
    *out = c;
    c = NULL;
done:
    tl_config_free(&c);
    return st;
}

static tl_status complete(tl_config *config, const tl_class *cls)
{
    if (cls->base) TL_TRY(complete(config, cls->base));
    if (!TL_CLASS_HAS(tl_experiment_class, cls, complete)) return TL_OK;
    return ((const tl_experiment_class *)cls)->complete(config);
}

tl_status tl_experiment_finish(tl_config *config, const tl_registry *registry,
                               const char *experiment)
{
    const tl_class *cls;
    TL_TRY(tl_registry_find(&cls, registry, &tl_kind_experiment, experiment));
    TL_TRY(complete(config, cls));
    return tli_experiment_settle(config, registry);
}

tl_status tli_experiment_settle(tl_config *config, const tl_registry *registry)
{
    if (tl_gin_current()) TL_TRY(tl_gin_configure(tl_gin_current(), config));
    TL_TRY(tli_stretch_schedule(config, registry));
    return tl_config_finish(config);
}

bool tl_experiment_completes(const tl_registry *registry, const char *experiment)
{
    const tl_class *cls =
        experiment ? tl_registry_peek(registry, &tl_kind_experiment, experiment) : NULL;
    return cls && TL_CLASS_METHOD(tl_experiment_class, cls, complete);
}

tl_status tl_experiment_parse(tl_config **out, const tl_registry *registry,
                              const tl_parse_options *options)
{
    TL_TRY(tl_experiment_begin(out, registry, options));
    tl_status st = tl_experiment_finish(*out, registry, options->experiment);
    if (st != TL_OK) tl_config_free(out);
    return st;
}

/* --- params.yaml ------------------------------------------------------------------------------ */

tl_status tl_serialize_config(const tl_config *config, const char *model_dir)
{
    if (!is_given(model_dir))
        return TL_FAIL(TL_EINVAL, "there is no folder to write params.yaml into");
    tl_str text = TL_STR_INIT;
    tl_arena *scratch;
    TL_TRY(tl_arena_new(&scratch));
    tl_status st = tl_config_write_saved(&text, config);
    if (st != TL_OK) goto done;
    TL_TRY_DONE(st, tl_str_status(&text));
    TL_TRY_DONE(st, tl_mkdirs(model_dir));
    const char *path = tl_path_join(scratch, model_dir, "params.yaml");
    if (!path) {
        st = TL_ENOMEM;
        goto done;
    }
    st = tl_file_write_atomic(path, tl_str_text(&text), text.length);
done:
    tl_str_deinit(&text);
    tl_arena_free(&scratch);
    return st;
}
