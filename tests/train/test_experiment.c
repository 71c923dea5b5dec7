/* Experiments: the tables against Model Garden's own files, the order of sources, params.yaml. */
#include "same_data.h"

#include <stdlib.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/base/str.h>
#include <tilth/builtin/builtin.h>
#include <tilth/train/task.h>

/* --- experiments of this test ----------------------------------------------------------------- */

typedef struct deep_data_config {
    tl_data_config base;
    int64_t width;
} deep_data_config;
static const tl_field deep_data_fields[] = {
    TL_F(deep_data_config, width, .i = 28, .help = "of an image"),
    TL_F_END,
};
static const tl_desc deep_data_desc = {
    .name = "deep_data",
    .size = sizeof(deep_data_config),
    .fields = deep_data_fields,
    .base = &tl_data_config_desc,
};

typedef struct deep_model_config {
    int64_t depth;
} deep_model_config;
static const tl_field deep_model_fields[] = {
    TL_F(deep_model_config, depth, .i = 2, .help = "layers"),
    TL_F_END,
};
static const tl_desc deep_model_desc = {
    .name = "deep_model",
    .size = sizeof(deep_model_config),
    .fields = deep_model_fields,
};

typedef struct deep_task_config {
    tl_task_config base;
    double label_smoothing;
} deep_task_config;
static const tl_field deep_task_fields[] = {
    TL_F_AS(deep_task_config, base.model, "model", .desc = &deep_model_desc, .set = true,
            .help = "the model"),
    TL_F_OPTIONAL_AS(deep_task_config, base.train_data, "train_data", &deep_data_desc, .set = true,
                     .help = "examples to train with"),
    TL_F(deep_task_config, label_smoothing, .help = "share of each label that goes to the others"),
    TL_F_END,
};
static const tl_desc deep_task_desc = {
    .name = "deep_task",
    .size = sizeof(deep_task_config),
    .fields = deep_task_fields,
    .base = &tl_task_config_desc,
};
static const tl_task_class deep_task = {
    .cls = {.class_size = sizeof(tl_task_class), .name = "deep", .config = &deep_task_desc}};

typedef struct long_trainer_config {
    tl_trainer_config base;
    int64_t epochs;
} long_trainer_config;
static const tl_field long_trainer_fields[] = {
    TL_F(long_trainer_config, epochs, .i = 3, .help = "passes over the data"),
    TL_F_END,
};
static const tl_desc long_trainer_desc = {
    .name = "long_trainer",
    .size = sizeof(long_trainer_config),
    .fields = long_trainer_fields,
    .base = &tl_trainer_config_desc,
};

static tl_status fill_deep(tl_experiment_config *experiment, tl_arena *arena)
{
    deep_task_config *task = experiment->task.value;
    long_trainer_config *trainer = experiment->trainer.value;
    task->label_smoothing = 0.1;
    task->base.name = tl_arena_strdup(arena, "filled");
    trainer->base.train_steps = trainer->epochs * 100;
    trainer->base.steps_per_loop = 7;
    return task->base.name ? TL_OK : TL_ENOMEM;
}

static const char *const deep_restrictions[] = {"task.train_data.is_training != None", NULL};
static const tl_experiment_class deep_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class), .name = "test/deep"},
    .task = &deep_task_desc,
    .trainer = &long_trainer_desc,
    .defaults = "task: {train_data: {is_training: true, global_batch_size: 8}}\n"
                "trainer: {steps_per_loop: 11, optimizer_config: {optimizer: {type: sgd}}}\n",
    .restrictions = deep_restrictions,
    .fill = fill_deep,
};
static const tl_experiment_class deeper_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class),
            .name = "test/deeper",
            .base = &deep_experiment.cls},
    .defaults = "task: {model: {depth: 50}}",
};
static const tl_experiment_class broken_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class), .name = "test/broken"},
    .task = &deep_task_desc,
    .defaults = "task: {modle: {depth: 50}}",
};
static const tl_experiment_class misfit_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class), .name = "test/misfit"},
    .task = &deep_data_desc, // no task at all
};
static const tl_entry entries[] = {
    {&tl_kind_task, &deep_task.cls},
    {&tl_kind_experiment, &deep_experiment.cls},
    {&tl_kind_experiment, &deeper_experiment.cls},
    {&tl_kind_experiment, &broken_experiment.cls},
};
static const tl_module test_module = {TL_MODULE_HEAD("test"), entries, TL_COUNT(entries)};

/* --- around every test ------------------------------------------------------------------------ */

static tl_registry *registry;
static tl_arena *arena;
static char folder[] = "experiment-XXXXXX";
static int64_t sink;
static tl_str logged;

static void keep_line(const tl_log_record *record, void *payload)
{
    (void)payload;
    tl_str_addf(&logged, "%s: %s\n", tl_level_name(record->level), record->text);
}

static int open_all(void **state)
{
    (void)state;
    const tl_log_sink keep = {.min_level = TL_LEVEL_WARNING, .write = keep_line};
    if (tl_log_sink_add(&sink, &keep) != TL_OK) return -1;
    tl_log_sink_remove(TL_LOG_STDERR);
    if (tl_registry_new_builtin(&registry) != TL_OK) return -1;
    if (tl_registry_add(registry, &test_module) != TL_OK) return -1;
    return mkdtemp(folder) && tl_arena_new(&arena) == TL_OK ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    tl_registry_free(&registry);
    tl_arena_free(&arena);
    tl_log_sink_remove(sink);
    tl_str_deinit(&logged);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) == 0 ? 0 : -1;
}

static int forget_log(void **state)
{
    (void)state;
    tl_str_cut(&logged, 0);
    return 0;
}

/* A file in the test's folder. */
static const char *file_with(const char *name, const char *text)
{
    const char *path = tl_path_join(arena, folder, name);
    assert_non_null(path);
    assert_ok(tl_file_write_atomic(path, text, strlen(text)));
    return path;
}

/* The experiment with this --params_override. */
static tl_status parse(tl_config **out, const char *experiment, const char *override)
{
    const tl_parse_options options = {
        .experiment = experiment,
        .params_override = override,
        .strict_override = true,
    };
    return tl_experiment_parse(out, registry, &options);
}

static const tl_value *written(const tl_config *c)
{
    tl_str text = TL_STR_INIT;
    const tl_value *v;
    assert_ok(tl_yaml_write(&text, tl_config_desc(c), tl_config_value(c)));
    assert_ok(tl_yaml_parse(&v, arena, tl_str_text(&text), text.length, "written"));
    tl_str_deinit(&text);
    return v;
}

/* --- against Model Garden's files ------------------------------------------------------------- */

static void test_mock_is_the_originals_mock(void **state)
{
    (void)state;
    tl_config *c;
    const tl_value *expected;
    assert_ok(tl_yaml_read(&expected, arena, TEST_DATA "/data/configs/mock.yaml"));
    assert_ok(parse(&c, "mock", NULL));
    const tl_value *found = written(c);
    assert_true(tl_value_equal(found, expected));
    assert_int_equal(logged.length, 0);
    tl_config_free(&c);
}

/* All 41 experiments of Model Garden: their runtime and trainer, put on top of the defaults, are
 * written back as they were. (Some ask for what is not there yet, so the configs are not
 * finished.) */
static void test_runtime_and_trainer_of_all_experiments(void **state)
{
    (void)state;
    tl_path_list files;
    assert_ok(tl_glob(&files, arena, TEST_DATA "/data/configs/*.yaml"));
    assert_int_equal(files.count, 41);
    for (int64_t i = 0; i < files.count; i++) {
        const tl_value *file;
        assert_ok(tl_yaml_read(&file, arena, files.items[i]));
        const tl_value_pair pairs[] = {
            {.key = "runtime", .value = tl_value_get(file, "runtime")},
            {.key = "trainer", .value = tl_value_get(file, "trainer")},
        };
        const tl_value *sections = tl_value_new_map(arena, (tl_place){0}, pairs, TL_COUNT(pairs));
        tl_config *c;
        assert_ok(tl_config_new(&c, registry, &tl_experiment_config_desc));
        if (tl_config_apply(c, sections) != TL_OK)
            fail_msg("%s: %s", files.items[i], tl_error_message());
        const tl_value *found = written(c);
        for (int64_t k = 0; k < TL_COUNT(pairs); k++)
            assert_same_data(files.items[i], tl_value_get(found, pairs[k].key), pairs[k].value);
        tl_config_free(&c);
    }
    assert_int_equal(logged.length, 0);
}

static void differ(const char *found, const char *expected, const char *said)
{
    tl_str out = TL_STR_INIT;
    const tl_value *a, *b;
    assert_ok(tl_yaml_parse(&a, arena, found, strlen(found), "found"));
    assert_ok(tl_yaml_parse(&b, arena, expected, strlen(expected), "expected"));
    tell_differences(&out, "t", a, b);
    assert_string_equal(tl_str_text(&out), said);
    tl_str_deinit(&out);
}

static void test_differences_are_told(void **state)
{
    (void)state;
    static const char data[] = "{a: 1, b: [x, 2]}";
    differ("{b: [x, 2.0], a: 1.0}", data, "");
    differ("{a: 2, b: [x, 2]}", data, "t.a: is '2', not '1'\n");
    differ("{a: '1', b: [x, 2]}", data, "t.a: is '1', not '1'\n");
    differ("{a: true, b: [x, 2]}", data, "t.a: is 'true', not '1'\n");
    differ("{a: 1, b: [x]}", data, "t.b[1]: is missing\n");
    differ("{a: 1, b: [x, 2, 3]}", data, "t.b[2]: is too much\n");
    differ("{a: 1, c: [x, 2]}", data, "t.b: is missing\nt.c: is too much\n");
    differ("{a: 1, b: null}", data, "t.b: is of another kind\n");
}

static void test_descriptions_are_sound(void **state)
{
    (void)state;
    assert_ok(tl_desc_verify(&tl_experiment_config_desc));
    assert_ok(tl_desc_verify(&tl_parse_options_desc));
    tl_parse_options o;
    assert_ok(tl_desc_defaults(arena, &tl_parse_options_desc, &o));
    assert_null(o.experiment);
    assert_true(o.strict_override);
    assert_int_equal(o.config_file.count, 0);
}

static void test_a_plain_experiment_config_is_mock(void **state)
{
    (void)state;
    tl_experiment_config e;
    assert_ok(tl_desc_defaults(arena, &tl_experiment_config_desc, &e));
    assert_ptr_equal(e.task.desc, &tl_task_config_desc);
    const tl_trainer_config *t = e.trainer.value;
    assert_int_equal(t->steps_per_loop, 1000);
    assert_int_equal(t->max_to_keep.value, 5);
    assert_string_equal(e.runtime.distribution_strategy, "mirrored");
}

/* --- the experiment's own defaults ------------------------------------------------------------ */

static void test_defaults_of_an_experiment(void **state)
{
    (void)state;
    tl_config *c;
    assert_ok(parse(&c, "test/deep", NULL));
    const tl_experiment_config *e = tl_config_value(c);
    const deep_task_config *task = e->task.value;
    const long_trainer_config *trainer = e->trainer.value;
    assert_ptr_equal(e->task.desc, &deep_task_desc);
    assert_true(task->label_smoothing == 0.1); // fill
    assert_string_equal(task->base.name, "filled");
    assert_int_equal(trainer->base.train_steps, 300);
    assert_int_equal(trainer->base.steps_per_loop, 11); // the text, after fill
    assert_int_equal(task->base.train_data->global_batch_size, 8);
    assert_int_equal(((const deep_data_config *)task->base.train_data)->width, 28);
    assert_int_equal(((const deep_model_config *)task->base.model.value)->depth, 2);
    assert_string_equal(trainer->base.optimizer_config.optimizer.type, "sgd");
    assert_non_null(
        strstr(tl_config_source(c, "trainer.steps_per_loop"), "experiment 'test/deep'"));
    assert_string_equal(tl_config_source(c, "trainer.checkpoint_interval"), "default");
    tl_config_free(&c);
}

static void test_an_experiment_starts_from_its_base(void **state)
{
    (void)state;
    tl_config *c;
    assert_ok(parse(&c, "test/deeper", NULL));
    const tl_experiment_config *e = tl_config_value(c);
    const deep_task_config *task = e->task.value;
    assert_ptr_equal(e->trainer.desc, &long_trainer_desc);
    assert_int_equal(((const deep_model_config *)task->base.model.value)->depth, 50);
    assert_int_equal(task->base.train_data->global_batch_size, 8);
    assert_true(task->label_smoothing == 0.1);
    tl_config_free(&c);
    assert_fails(parse(&c, "test/deeper", "task.train_data.is_training=null"), TL_EINVAL,
                 "task.train_data.is_training");
    assert_null(c);
}

static void test_experiments_are_fresh_each_time(void **state)
{
    (void)state;
    tl_config *a, *b;
    assert_ok(parse(&a, "mock", "trainer.train_steps=5,task.train_data.seed=1"));
    assert_ok(parse(&b, "mock", NULL));
    const tl_experiment_config *e = tl_config_value(b);
    assert_int_equal(((const tl_trainer_config *)e->trainer.value)->train_steps, 0);
    assert_false(((const tl_task_config *)e->task.value)->train_data->seed.set);
    tl_config_free(&a);
    tl_config_free(&b);
}

static void test_mistakes_in_an_experiment(void **state)
{
    (void)state;
    tl_config *c;
    assert_fails(parse(&c, "test/broken", NULL), TL_ENOTFOUND, "experiment 'test/broken'");
    assert_non_null(strstr(tl_error_message(), "did you mean 'model'"));
    // Experiments are strict with themselves whatever the user says.
    const tl_parse_options lax = {.experiment = "test/broken"};
    assert_fails(tl_experiment_parse(&c, registry, &lax), TL_ENOTFOUND, "task.modle");
    // One whose task is none cannot even be registered.
    static const tl_entry misfits[] = {{&tl_kind_experiment, &misfit_experiment.cls}};
    static const tl_module misfit_module = {TL_MODULE_HEAD("misfit"), misfits, TL_COUNT(misfits)};
    assert_fails(tl_registry_add(registry, &misfit_module), TL_EINVAL,
                 "the description 'deep_data' does not derive from 'task'");
    // One whose task nobody has registered can, but not be used.
    static const tl_entry orphans[] = {{&tl_kind_experiment, &deep_experiment.cls}};
    static const tl_module orphan_module = {TL_MODULE_HEAD("orphan"), orphans, TL_COUNT(orphans)};
    tl_registry *alone;
    assert_ok(tl_registry_new_builtin(&alone));
    assert_ok(tl_registry_add(alone, &orphan_module));
    const tl_parse_options deep = {.experiment = "test/deep"};
    assert_fails(tl_experiment_parse(&c, alone, &deep), TL_ENOTFOUND, "no task is registered");
    tl_registry_free(&alone);
    assert_null(c);
}

/* --- order ------------------------------------------------------------------------------------ */

static void test_later_sources_win(void **state)
{
    (void)state;
    const char *files[] = {
        file_with("a.yaml", "trainer: {train_steps: 1, steps_per_loop: 1, summary_interval: 1,\n"
                            "          checkpoint_interval: 1, max_to_keep: 1}\n"),
        file_with("b.yaml", "trainer:\n  train_steps: 2\n  steps_per_loop: 2\n"
                            "  summary_interval: 2\n  checkpoint_interval: 2\n"),
    };
    static const tl_word words[] = {{"trainer.train_steps=4", "command line"},
                                    {"++trainer.train_steps=5", "--trainer.train_steps"},
                                    {"trainer.steps_per_loop=4", "command line"}};
    const tl_parse_options o = {
        .experiment = "mock",
        .config_file = {files, 2},
        .params_override = "trainer.train_steps=3,trainer.steps_per_loop=3,"
                           "trainer.summary_interval=3",
        .strict_override = true,
    };
    tl_config *c;
    assert_ok(tl_experiment_begin(&c, registry, &o));
    assert_ok(tl_config_words(c, words, TL_COUNT(words)));
    assert_ok(tl_config_finish(c));
    const tl_experiment_config *e = tl_config_value(c);
    const tl_trainer_config *t = e->trainer.value;
    assert_int_equal(t->train_steps, 5);
    assert_int_equal(t->steps_per_loop, 4);
    assert_int_equal(t->summary_interval, 3);
    assert_int_equal(t->checkpoint_interval, 2);
    assert_int_equal(t->max_to_keep.value, 1);
    assert_int_equal(t->validation_interval, 1000);
    assert_string_equal(tl_config_source(c, "trainer.train_steps"), "--trainer.train_steps");
    assert_string_equal(tl_config_source(c, "trainer.steps_per_loop"), "command line");
    assert_non_null(strstr(tl_config_source(c, "trainer.summary_interval"), "--params_override"));
    assert_non_null(strstr(tl_config_source(c, "trainer.checkpoint_interval"), "b.yaml:5"));
    assert_non_null(strstr(tl_config_source(c, "trainer.max_to_keep"), "a.yaml:2"));
    tl_config_free(&c);
}

static void test_an_unset_tpu_flag_leaves_the_file_alone(void **state)
{
    (void)state;
    const char *file = file_with("tpu.yaml", "runtime: {tpu: from-file}\n");
    tl_parse_options o = {.experiment = "mock", .config_file = {&file, 1}, .tpu = ""};
    tl_config *c;
    // TPUs are not there, so what arrived is seen in the refusal.
    assert_fails(tl_experiment_parse(&c, registry, &o), TL_EUNSUPPORTED, "tpu.yaml:1");
    assert_non_null(strstr(tl_error_message(), "runtime.tpu"));
    o.tpu = "from-flag";
    assert_fails(tl_experiment_parse(&c, registry, &o), TL_EUNSUPPORTED, "--tpu: runtime.tpu");
    o.params_override = "runtime.tpu=null"; // comes after the flag
    assert_ok(tl_experiment_parse(&c, registry, &o));
    assert_null(((const tl_experiment_config *)tl_config_value(c))->runtime.tpu);
    tl_config_free(&c);
}

static void test_the_data_service_flag_sets_both_sections(void **state)
{
    (void)state;
    tl_parse_options o = {
        .experiment = "mock", .tf_data_service = "grpc://x", .strict_override = true};
    tl_config *c;
    assert_fails(tl_experiment_parse(&c, registry, &o), TL_EUNSUPPORTED,
                 "--tf_data_service: task.train_data.tf_data_service_address");
    assert_non_null(strstr(tl_error_message(), "task.validation_data.tf_data_service_address"));
    const char *file = file_with("one.yaml", "task: {validation_data: null}\n");
    o.config_file = (tl_strings){&file, 1};
    assert_fails(tl_experiment_parse(&c, registry, &o), TL_EUNSUPPORTED, "task.train_data");
    assert_null(strstr(tl_error_message(), "validation_data"));
    assert_null(c);
}

/* --- params.yaml ------------------------------------------------------------------------------ */

static void test_params_yaml_reads_back_equal(void **state)
{
    (void)state;
    static const char changes[] =
        "trainer.train_steps=7,trainer.loss_upper_bound=1e9,trainer.max_to_keep=null,"
        "trainer.best_checkpoint_metric_comp=lower,"
        "trainer.optimizer_config.optimizer.type=adamw,"
        "trainer.optimizer_config.optimizer.adamw.exclude_from_weight_decay=[bias,'a, b'],"
        "trainer.optimizer_config.ema.average_decay=0.5,"
        "runtime.mixed_precision_dtype=mixed_bfloat16,"
        "runtime.distribution_strategy='off',task.train_data.input_path=[a,'10:30'],"
        "task.train_data.width=32,task.model.depth=3,task.init_checkpoint=null";
    tl_config *a, *b;
    assert_ok(parse(&a, "test/deep", changes));
    const char *model_dir = tl_path_join(arena, folder, "some/model");
    assert_ok(tl_serialize_config(a, model_dir));
    assert_ok(tl_serialize_config(a, model_dir)); // each start writes it again
    const char *params = tl_path_join(arena, model_dir, "params.yaml");
    const tl_parse_options o = {
        .experiment = "test/deep",
        .config_file = {&params, 1},
        .strict_override = true,
    };
    assert_ok(tl_experiment_parse(&b, registry, &o));
    assert_true(tl_desc_equal(&tl_experiment_config_desc, tl_config_value(a), tl_config_value(b)));
    assert_true(tl_value_equal(written(a), written(b)));

    const tl_experiment_config *e = tl_config_value(b);
    assert_int_equal(e->runtime.mixed_precision_dtype, TL_PRECISION_MIXED_BFLOAT16);
    assert_string_equal(e->runtime.distribution_strategy, "off");
    assert_false(((const tl_trainer_config *)e->trainer.value)->max_to_keep.set);
    char *text;
    assert_ok(tl_file_read(&text, NULL, params, 1 << 20));
    assert_null(strstr(text, "tilth")); // nothing of ours while it is at its defaults
    tl_free(text);
    tl_config_free(&a);
    tl_config_free(&b);
}

/* Our own section shows what was changed in it, and nothing else. */
static void test_our_section_is_quiet(void **state)
{
    (void)state;
    tl_config *c;
    assert_ok(tl_config_new(&c, registry, &tl_experiment_config_desc));
    assert_null(tl_value_get(written(c), "tilth"));
    assert_ok(tl_config_override(c, "tilth.gradient_accumulation=4", "test"));
    const tl_value *own = tl_value_get(written(c), "tilth"), *expected;
    assert_ok(tl_yaml_parse(&expected, arena, "gradient_accumulation: 4", 24, "test"));
    assert_non_null(own);
    assert_true(tl_value_equal(own, expected));
    tl_config_free(&c);
}

static void test_params_yaml_needs_a_folder(void **state)
{
    (void)state;
    tl_config *c;
    assert_ok(parse(&c, "mock", NULL));
    assert_fails(tl_serialize_config(c, NULL), TL_EINVAL, "there is no folder");
    assert_fails(tl_serialize_config(c, ""), TL_EINVAL, "there is no folder");
    const char *file = file_with("file", "");
    tl_status st = tl_serialize_config(c, tl_path_join(arena, file, "below"));
    assert_true(st != TL_OK);
    assert_non_null(strstr(tl_error_message(), file));
    tl_config_free(&c);
}

/* --- fields that are not there yet, and that nothing reads ------------------------------------ */

static void test_fields_without_a_feature_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const changes[] = {
        "runtime.tpu=x",
        "runtime.tpu_enable_xla_dynamic_padder=false",
        "trainer.allow_tpu_summary=true",
        "task.train_data.tfds_name=mnist",
        "task.train_data.tfds_split=train",
        "task.validation_data.tfds_data_dir=d",
        "task.train_data.tfds_as_supervised=true",
        "task.train_data.tfds_skip_decoding_feature=image",
        "task.train_data.ram_budget=4",
        "task.train_data.enable_tf_data_service=true",
        "task.train_data.tf_data_service_address=a",
        "task.train_data.tf_data_service_job_name=j",
        "task.train_data.enable_shared_tf_data_service_between_parallel_trainers=true",
        "task.train_data.apply_tf_data_service_before_batching=true",
        "task.train_data.trainer_id=x",
        "task.train_data.autotune_algorithm=hill_climb",
    };
    for (int64_t i = 0; i < TL_COUNT(changes); i++) {
        tl_config *c;
        char path[128];
        snprintf(path, sizeof path, "%.*s", (int)strcspn(changes[i], "="), changes[i]);
        assert_fails(parse(&c, "mock", changes[i]), TL_EUNSUPPORTED, path);
        assert_non_null(strstr(tl_error_message(), "--params_override"));
    }
}

static void test_recomputation_is_chosen(void **state)
{
    static const char *const changes[] = {"tilth.recompute=none", "tilth.recompute=selective",
                                          "tilth.recompute=full"};
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(changes); i++) {
        tl_config *c;
        assert_ok(parse(&c, "mock", changes[i]));
        const tl_experiment_config *e = tl_config_value(c);
        assert_int_equal(e->tilth.recompute, TL_RECOMPUTE_NONE + i);
        tl_config_free(&c);
    }
}

static void test_choices_without_a_feature_are_refused_by_name(void **state)
{
    (void)state;
    tl_config *c;
    assert_fails(parse(&c, "mock", "runtime.distribution_strategy=TPU"), TL_EUNSUPPORTED,
                 "distribution_strategy: 'TPU' is not supported: there is no code for TPUs");
    assert_fails(parse(&c, "mock", "{runtime: {loss_scale: fixed}}"), TL_EINVAL,
                 "runtime.loss_scale: expected 'dynamic'");
}

static void test_sections_without_a_feature_are_refused_by_name(void **state)
{
    (void)state;
    tl_config *c;
    assert_fails(parse(&c, "mock", "task.differential_privacy_config.noise_multiplier=1"),
                 TL_EUNSUPPORTED, "task.differential_privacy_config: not available yet");
    assert_fails(parse(&c, "mock", "{task: {differential_privacy_config: {}}}"), TL_EUNSUPPORTED,
                 "task.differential_privacy_config");
}

static void test_a_default_that_is_written_out_is_fine(void **state)
{
    (void)state;
    tl_config *c;
    assert_ok(parse(&c, "mock",
                    "{runtime: {num_gpus: 0, tpu: null, num_packs: 1}, "
                    "tilth: {threads: 0, seed: null}, task: {train_data: {tfds_name: ''}}}"));
    assert_int_equal(logged.length, 0);
    tl_config_free(&c);
}

static void test_fields_that_nothing_reads_give_one_notice(void **state)
{
    (void)state;
    static const char *const changes[] = {
        "runtime.gpu_thread_mode=x",
        "runtime.dataset_num_private_threads=4",
        "runtime.per_gpu_thread_count=2",
        "runtime.batchnorm_spatial_persistent=true",
        "runtime.num_cores_per_replica=2",
        "runtime.default_shard_dim=0",
        "runtime.use_tpu_mp_strategy=true",
        "runtime.enable_xla=true",
        "trainer.optimizer_config.ema.clipnorm=1",
    };
    for (int64_t i = 0; i < TL_COUNT(changes); i++) {
        tl_config *c;
        tl_str_cut(&logged, 0);
        assert_ok(parse(&c, "mock", changes[i]));
        char path[128];
        snprintf(path, sizeof path, "%.*s", (int)strcspn(changes[i], "="), changes[i]);
        const char *text = tl_str_text(&logged), *first = strstr(text, path);
        if (!first || strchr(text, '\n') != text + strlen(text) - 1)
            fail_msg("%s is told as: %s", changes[i], text);
        tl_config_free(&c);
    }
    tl_str_cut(&logged, 0);
    tl_config *c;
    assert_ok(parse(&c, "mock", "runtime.run_eagerly=true,trainer.train_tf_function=false"));
    assert_int_equal(logged.length, 0); // these two are read
    tl_config_free(&c);
}

/* --- errors ----------------------------------------------------------------------------------- */

static void test_the_experiment_must_be_known(void **state)
{
    (void)state;
    tl_config *c;
    assert_fails(parse(&c, NULL, NULL), TL_EINVAL, "--experiment");
    assert_fails(parse(&c, "", NULL), TL_EINVAL, "--experiment");
    assert_fails(parse(&c, "mokc", NULL), TL_ENOTFOUND, "did you mean 'mock'?");
    assert_fails(parse(&c, "test", NULL), TL_ENOTFOUND, "test/deep");
    assert_null(c);
}

static void test_unknown_keys(void **state)
{
    (void)state;
    tl_config *c;
    assert_fails(parse(&c, "mock", "trainer.train_step=5"), TL_ENOTFOUND,
                 "did you mean 'train_steps'");
    assert_fails(parse(&c, "mock", "{triner: {}}"), TL_ENOTFOUND, "did you mean 'trainer'");
    const char *file = file_with("lax.yaml", "trainer: {train_steps: 3, foo: 1}\n");
    tl_parse_options o = {.experiment = "mock", .config_file = {&file, 1}, .strict_override = true};
    assert_fails(tl_experiment_parse(&c, registry, &o), TL_ENOTFOUND, "lax.yaml:1");
    o.strict_override = false;
    assert_ok(tl_experiment_parse(&c, registry, &o));
    const tl_experiment_config *e = tl_config_value(c);
    assert_int_equal(((const tl_trainer_config *)e->trainer.value)->train_steps, 3);
    assert_non_null(strstr(tl_str_text(&logged), "trainer.foo"));
    tl_config_free(&c);
}

static void test_missing_files(void **state)
{
    (void)state;
    const char *file = "there/is/none.yaml";
    const tl_parse_options o = {.experiment = "mock", .config_file = {&file, 1}};
    tl_config *c;
    assert_fails(tl_experiment_parse(&c, registry, &o), TL_ENOTFOUND, file);
    assert_null(c);
}

static void test_values_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *change, *message;
    } cases[] = {
        {"trainer.steps_per_loop=0", "trainer.steps_per_loop"},
        {"trainer.summary_interval=0", "trainer.summary_interval"},
        {"trainer.checkpoint_interval=-1", "trainer.checkpoint_interval"},
        {"trainer.validation_interval=-1", "trainer.validation_interval"},
        {"trainer.max_to_keep=0", "trainer.max_to_keep"},
        {"trainer.validation_steps=-2", "trainer.validation_steps"},
        {"trainer.train_steps=-1", "trainer.train_steps"},
        {"trainer.train_steps=1.5", "trainer.train_steps"},
        {"trainer.best_checkpoint_metric_comp=best", "higher or lower"},
        {"runtime.mixed_precision_dtype=float64", "bfloat16, mixed_float16 or mixed_bfloat16"},
        {"runtime.distribution_strategy=mirored", "did you mean 'mirrored'"},
        {"runtime.distribution_strategy=false", "write 'off' in quotes"},
        {"runtime.distribution_strategy=horovod", "multi_worker_mirrored"},
        {"runtime.num_gpus=-1", "runtime.num_gpus"},
        {"runtime.num_packs=0", "runtime.num_packs"},
        {"runtime.task_index=-2", "runtime.task_index"},
        {"runtime.all_reduce_alg=sideways", "null, hierarchical_copy, nccl or ring"},
        {"tilth.comm=pigeon", "auto, shm or mpi"},
        {"tilth.bucket_mb=0", "tilth.bucket_mb"},
        {"tilth.peer_timeout_s=0", "tilth.peer_timeout_s"},
        {"task.model={}", "task.model"},
        {"task.train_data.block_length=0", "task.train_data.block_length"},
        {"task.train_data.global_batch_size=-1", "task.train_data.global_batch_size"},
        {"{task: {train_data: {input_path: [[a]]}}}", "input_path: expected a path in the list"},
        {"{task: {train_data: {input_path: {a: {b: c}}}}}", "input_path: a: expected a path"},
        {"tilth.recompute=some", "none, selective or full"},
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        tl_config *c;
        assert_fails(parse(&c, "mock", cases[i].change), TL_EINVAL, cases[i].message);
    }
    tl_config *c;
    assert_fails(parse(&c, "mock", "task.train_data.input_path=a,task.train_data.tfds_name=b"),
                 TL_EUNSUPPORTED,
                 "task.train_data.input_path: it and tfds_name exclude each other");
}

static void test_values_that_are_fine(void **state)
{
    (void)state;
    static const char *const changes[] = {
        "runtime.distribution_strategy=ONE_DEVICE",
        "runtime.distribution_strategy='off'",
        "{runtime: {distribution_strategy: off}}",
        "runtime.distribution_strategy=mirrored",
        "runtime.loss_scale=null",
        "runtime.mixed_precision_dtype=float32",
        "runtime.mixed_precision_dtype=mixed_float16",
        "runtime.mixed_precision_dtype=mixed_bfloat16",
        "runtime.mixed_precision_dtype=null",
        "trainer.validation_interval=0",
        "trainer.validation_steps=-1",
        "trainer.continuous_eval_timeout=null",
        "task.train_data=null",
        "task.model=null",
        "task.init_checkpoint=null",
        "task.train_data.input_path='a*, b'",
        "{task: {train_data: {input_path: [a, b]}}}",
        "{task: {train_data: {input_path: {x: a, y: [b, c]}}}}",
        "task.train_data.input_path=null",
    };
    for (int64_t i = 0; i < TL_COUNT(changes); i++) {
        tl_config *c;
        if (parse(&c, "mock", changes[i]) != TL_OK)
            fail_msg("%s: %s", changes[i], tl_error_message());
        tl_config_free(&c);
    }
}

/* --- classes ---------------------------------------------------------------------------------- */

static void test_the_task_class_follows_the_exact_description(void **state)
{
    (void)state;
    tl_config *c;
    const tl_task_class *cls;
    assert_ok(parse(&c, "mock", NULL));
    const tl_experiment_config *e = tl_config_value(c);
    assert_ok(tl_get_task_class(&cls, registry, &e->task));
    assert_string_equal(cls->cls.name, "mock");
    tl_config_free(&c);
    assert_ok(parse(&c, "test/deep", NULL));
    e = tl_config_value(c);
    assert_ok(tl_get_task_class(&cls, registry, &e->task));
    assert_ptr_equal(cls, &deep_task);
    tl_config_free(&c);

    tl_task_config plain;
    assert_ok(tl_desc_defaults(arena, &tl_task_config_desc, &plain));
    const tl_object unregistered = {&tl_task_config_desc, &plain}, none = {NULL, NULL};
    assert_fails(tl_get_task_class(&cls, registry, &unregistered), TL_ENOTFOUND, "task");
    assert_null(cls);
    assert_fails(tl_get_task_class(&cls, registry, &none), TL_EINVAL, "task is null");
}

static void test_an_experiment_needs_a_task(void **state)
{
    (void)state;
    static const tl_experiment_class lazy = {
        .cls = {.class_size = sizeof(tl_experiment_class), .name = "lazy"}};
    static const tl_entry lazy_entries[] = {{&tl_kind_experiment, &lazy.cls}};
    static const tl_module lazy_module = {TL_MODULE_HEAD("lazy"), lazy_entries, 1};
    tl_registry *r;
    assert_ok(tl_registry_new_builtin(&r));
    assert_fails(tl_registry_add(r, &lazy_module), TL_EINVAL, "'task'");
    tl_registry_free(&r);
}

/* --- memory ----------------------------------------------------------------------------------- */

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    const char *file = file_with("memory.yaml", "trainer: {train_steps: 3}\n");
    const char *word = "trainer.steps_per_loop=2";
    const tl_parse_options o = {
        .experiment = "test/deep",
        .config_file = {&file, 1},
        .params_override = "trainer.optimizer_config.optimizer.type=lamb",
        .strict_override = true,
    };
    const char *model_dir = tl_path_join(arena, folder, "memory");
    tl_status st = TL_ENOMEM;
    for (int64_t nth = 1; st != TL_OK; nth += test_failure_step(nth)) {
        tl_registry *r = NULL;
        tl_config *c = NULL;
        assert_true(nth < 100000);
        tl_alloc_fail_at(nth, 1);
        st = tl_registry_new_builtin(&r);
        if (st == TL_OK) st = tl_registry_add(r, &test_module);
        if (st == TL_OK) st = tl_experiment_begin(&c, r, &o);
        if (st == TL_OK) st = tl_config_word(c, word, "word");
        if (st == TL_OK) st = tl_config_finish(c);
        if (st == TL_OK) st = tl_serialize_config(c, model_dir);
        tl_alloc_fail_at(0, 0);
        if (st != TL_OK && st != TL_ENOMEM)
            fail_msg("allocation %lld: %s: %s", (long long)nth, tl_status_name(st),
                     tl_error_message());
        tl_config_free(&c);
        tl_registry_free(&r);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, forget_log)
    const struct CMUnitTest tests[] = {
        TEST(test_descriptions_are_sound),
        TEST(test_differences_are_told),
        TEST(test_mock_is_the_originals_mock),
        TEST(test_runtime_and_trainer_of_all_experiments),
        TEST(test_a_plain_experiment_config_is_mock),
        TEST(test_defaults_of_an_experiment),
        TEST(test_an_experiment_starts_from_its_base),
        TEST(test_experiments_are_fresh_each_time),
        TEST(test_mistakes_in_an_experiment),
        TEST(test_later_sources_win),
        TEST(test_an_unset_tpu_flag_leaves_the_file_alone),
        TEST(test_the_data_service_flag_sets_both_sections),
        TEST(test_params_yaml_reads_back_equal),
        TEST(test_our_section_is_quiet),
        TEST(test_params_yaml_needs_a_folder),
        TEST(test_fields_without_a_feature_are_refused_by_name),
        TEST(test_recomputation_is_chosen),
        TEST(test_choices_without_a_feature_are_refused_by_name),
        TEST(test_sections_without_a_feature_are_refused_by_name),
        TEST(test_a_default_that_is_written_out_is_fine),
        TEST(test_fields_that_nothing_reads_give_one_notice),
        TEST(test_the_experiment_must_be_known),
        TEST(test_unknown_keys),
        TEST(test_missing_files),
        TEST(test_values_are_checked),
        TEST(test_values_that_are_fine),
        TEST(test_the_task_class_follows_the_exact_description),
        TEST(test_an_experiment_needs_a_task),
        TEST(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
