/* Experiments of image classification: Model Garden's files as data, what is refused, what the
 * small ones say. */
#include "zoo/zoo_lab.h"

#include "same_data.h"

/* --- against Model Garden's files ------------------------------------------------------------- */

static const tl_value *written(const tl_config *c)
{
    tl_str text = TL_STR_INIT;
    const tl_value *v;
    assert_ok(tl_yaml_write(&text, tl_config_desc(c), tl_config_value(c)));
    assert_ok(tl_yaml_parse(&v, lab_arena, tl_str_text(&text), text.length, "written"));
    tl_str_deinit(&text);
    return v;
}

/* Model Garden writes '/' of a name as "__" in that of a file. */
static const char *experiment_of(const char *file)
{
    const char *slash = strrchr(file, '/');
    char *name = tl_arena_strdup(lab_arena, slash + 1);
    name[strlen(name) - strlen(".yaml")] = '\0';
    char *between = strstr(name, "__");
    if (!between) return name;
    *between = '/';
    memmove(between + 1, between + 2, strlen(between + 2) + 1);
    return name;
}

static tl_path_list files_of_model_garden(void)
{
    tl_path_list files;
    assert_ok(tl_glob(&files, lab_arena, TEST_DATA "/data/configs/*.yaml"));
    assert_int_equal(files.count, 41);
    return files;
}

static void test_all_files_are_data(void **state)
{
    (void)state;
    tl_path_list files = files_of_model_garden();
    for (int64_t i = 0; i < files.count; i++) {
        const tl_value *read, *again;
        tl_str text = TL_STR_INIT;
        assert_ok(tl_yaml_read(&read, lab_arena, files.items[i]));
        assert_int_equal(read->count, 3); // runtime, task, trainer
        assert_ok(tl_yaml_write_value(&text, read));
        assert_ok(tl_yaml_parse(&again, lab_arena, tl_str_text(&text), text.length, "again"));
        assert_true(tl_value_equal(again, read));
        tl_str_deinit(&text);
    }
}

/* The experiment alone, and the file on top of it, are what the file says. Nothing is added: what
 * Model Garden does not have is not written as long as it has its default. */
static void compare(const char *experiment, const char *file)
{
    const tl_value *theirs;
    tl_config *c;
    assert_ok(tl_yaml_read(&theirs, lab_arena, file));
    assert_ok(lab_parse(&c, experiment, NULL));
    assert_same_data(experiment, written(c), theirs);
    tl_config_free(&c);
}

static void compare_read(const char *experiment, const char *file)
{
    const tl_parse_options options = {
        .experiment = experiment,
        .config_file = {&file, 1},
        .strict_override = true,
    };
    const tl_value *theirs, *kept;
    tl_config *c;
    assert_ok(tl_yaml_read(&theirs, lab_arena, file));
    assert_ok(tl_experiment_parse(&c, lab_registry, &options));
    assert_same_data(file, written(c), theirs);
    assert_ok(tl_serialize_config(c, lab_folder));
    assert_ok(tl_yaml_read(&kept, lab_arena, tl_path_join(lab_arena, lab_folder, "params.yaml")));
    assert_same_data("params.yaml", kept, theirs);
    tl_config_free(&c);
}

/* What is not here is refused by its name, with the way to see what is here. */
static void compare_refusal(const char *experiment)
{
    tl_config *c;
    char start[128];
    snprintf(start, sizeof start, "there is no experiment '%s'", experiment);
    assert_fails(lab_parse(&c, experiment, NULL), TL_ENOTFOUND, start);
    if (!strstr(tl_error_message(), "`list experiments` shows")) fail_msg("%s", tl_error_message());
}

/* Those that are names alone say what lacks, and name an experiment that is there. */
static void compare_lack(const tl_class *cls)
{
    tl_config *c;
    char start[128];
    snprintf(start, sizeof start, "experiment '%s' is not here yet: ", cls->name);
    assert_fails(lab_parse(&c, cls->name, NULL), TL_EUNSUPPORTED, start);
    const char *other = strrchr(tl_error_message(), ' ');
    char *name = tl_arena_strdup(lab_arena, other + 2);
    assert_int_equal(other[1], '\'');
    *strrchr(name, '\'') = '\0';
    assert_ok(lab_parse(&c, name, NULL));
    tl_config_free(&c);
}

static void test_all_experiments_of_model_garden(void **state)
{
    (void)state;
    tl_path_list files = files_of_model_garden();
    int64_t shipped = 0, lacking = 0;
    for (int64_t i = 0; i < files.count; i++) {
        const char *name = experiment_of(files.items[i]);
        const tl_class *cls = tl_registry_peek(lab_registry, &tl_kind_experiment, name);
        if (!cls) {
            compare_refusal(name);
            continue;
        }
        if (TL_CLASS_HAS(tl_experiment_class, cls, lacks)) {
            compare_lack(cls);
            lacking++;
            continue;
        }
        shipped++;
        compare(name, files.items[i]);
        compare_read(name, files.items[i]);
    }
    assert_int_equal(shipped, 26); // of images 9, detection 4, segmentation 8, BERT 5
    assert_int_equal(lacking, 15); // with two stages 5, of videos 6, of language 4
}

/* Another value of the same type; NULL where there is no obvious one. */
static const tl_value *changed(const tl_value *v)
{
    bool yes;
    double number;
    const char *text = NULL;
    switch (tl_value_scalar(v)) {
    case TL_SCALAR_BOOL: text = tl_value_bool(v, &yes) && yes ? "false" : "true"; break;
    case TL_SCALAR_INT:
    case TL_SCALAR_DOUBLE:
        assert_true(tl_value_double(v, &number));
        text = tl_arena_printf(
            lab_arena, "%g", tl_value_scalar(v) == TL_SCALAR_INT ? number + 1 : number / 2 + 0.125);
        break;
    default: break;
    }
    return text ? tl_value_new_scalar(lab_arena, (tl_place){.source = "changed"}, text, false)
                : NULL;
}

/* With this one field changed, that field says so, and no other is different from the file. */
static void change(const char *experiment, const tl_value *whole, const tl_value_pair *path,
                   int depth, const tl_value *to)
{
    tl_config *c;
    tl_str said = TL_STR_INIT, where = TL_STR_INIT;
    const tl_value *map = to;
    for (int d = depth; d >= 0; d--) {
        const tl_value_pair pair = {.key = path[d].key, .value = map};
        map = tl_value_new_map(lab_arena, to->place, &pair, 1);
    }
    assert_ok(tl_experiment_begin(&c, lab_registry, &(tl_parse_options){.experiment = experiment}));
    assert_ok(tl_config_apply(c, map));
    const tl_value *found = written(c);
    tell_differences(&said, "", found, whole);
    for (int d = 0; d <= depth; d++) {
        tl_str_addf(&where, ".%s", path[d].key);
        found = tl_value_get(found, path[d].key);
    }
    tl_str_add(&where, ": is '");
    const char *end = strchr(tl_str_text(&said), '\n');
    if (strncmp(tl_str_text(&said), tl_str_text(&where), where.length) != 0 || end[1]
        || !same_scalar(found, to))
        fail_msg("%s%s' differs in:\n%s", tl_str_text(&where), to->text, tl_str_text(&said));
    tl_str_deinit(&said);
    tl_str_deinit(&where);
    tl_config_free(&c);
}

enum { DEEPEST = 8 };

/* Who takes part is no part of a run: YAML that is written has the key, and nobody's number. */
static bool is_of_who_starts_it(const char *key)
{
    return strcmp(key, "task_index") == 0;
}

/* Changes each number and each truth, one at a time; gives how many there are. */
static int64_t change_each(const char *experiment, const tl_value *whole, const tl_value *part,
                           tl_value_pair *path, int depth)
{
    int64_t done = 0;
    assert_true(depth < DEEPEST);
    for (int64_t i = 0; i < part->count; i++) {
        const tl_value *v = part->pairs[i].value;
        path[depth] = part->pairs[i];
        if (v->kind == TL_VALUE_MAP) done += change_each(experiment, whole, v, path, depth + 1);
        const bool asked = v->kind == TL_VALUE_SCALAR && !is_of_who_starts_it(part->pairs[i].key);
        const tl_value *to = asked ? changed(v) : NULL;
        if (to) change(experiment, whole, path, depth, to);
        done += to != NULL;
    }
    return done;
}

static void test_every_field_is_read(void **state)
{
    (void)state;
    const tl_value *theirs;
    tl_value_pair path[DEEPEST];
    assert_ok(tl_yaml_read(&theirs, lab_arena, TEST_DATA "/data/configs/resnet_imagenet.yaml"));
    assert_int_equal(change_each("resnet_imagenet", theirs, theirs, path, 0), 99);
}

/* What a file says is taken from the file: here the experiment says something else. */
static void test_a_file_on_top_of_another_experiment(void **state)
{
    (void)state;
    compare_read("image_classification", TEST_DATA "/data/configs/resnet_imagenet.yaml");
}

static void test_the_starter_example(void **state)
{
    (void)state;
    tl_config *c;
    assert_ok(lab_parse(&c, "tf_vision_example_experiment", NULL));
    const tl_experiment_config *e = tl_config_value(c);
    const tl_trainer_config *t = e->trainer.value;
    const tl_task_config *task = e->task.value;
    const tl_example_model_config *m = task->model.value;
    const tl_cosine_config *rate = t->optimizer_config.learning_rate.value;
    assert_int_equal(t->train_steps, 900);
    assert_int_equal(t->steps_per_loop, 10);
    assert_int_equal(task->train_data->global_batch_size, 256);
    assert_true(task->train_data->is_training.value);
    assert_false(task->validation_data->is_training.value);
    assert_int_equal(m->num_classes, 10);
    assert_int_equal(m->input_size.items[1], 128);
    assert_near(rate->initial_learning_rate.value, 1.6, 0);
    assert_int_equal(rate->decay_steps.value, 3500);
    tl_config_free(&c);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void refuse(const char *yaml, const char *text)
{
    tl_config *c = NULL;
    tl_status st = lab_parse(&c, "image_classification", yaml);
    if (st != TL_EUNSUPPORTED && st != TL_EINVAL && st != TL_ENOTFOUND)
        fail_msg("%s: %s", yaml, tl_status_name(st));
    if (!strstr(tl_error_message(), text))
        fail_msg("%s: %s\n    lacks %s", yaml, tl_error_message(), text);
    assert_null(c);
}

static void test_what_is_not_there_is_refused_by_name(void **state)
{
    (void)state;
    refuse("task: {model: {backbone: {type: resnet_3d}}}",
           "unknown type 'resnet_3d', did you mean 'resnet'? (known: cnn, dilated_resnet, "
           "efficientnet, mlp, mobiledet, mobilenet, resnet, revnet, spinenet, spinenet_mobile, "
           "vision_transformer, vit)");
    refuse("task: {model: {backbone: {resnet: {model_id: 27}}}}", "there is no ResNet-27");
    refuse("task: {train_data: {file_type: sstable}}", "sstable is not supported");
    refuse("task: {train_data: {file_type: csv}}", "file_type");
    refuse("task: {train_input_partition_dims: [2]}", "train_input_partition_dims");
    refuse("task: {model_output_keys: [1]}", "model_output_keys");
}

/* Their configurations are read; models are not made of them. */
static void test_backbones_that_are_not_here(void **state)
{
    (void)state;
    static const struct {
        const char *experiment, *yaml, *backbone;
    } cases[] = {
        {"revnet_imagenet", NULL, "revnet"},
        {"retinanet_spinenet_coco", NULL, "spinenet"},
        {"retinanet_mobile_coco", NULL, "spinenet_mobile"},
        {"image_classification",
         "task: {model: {num_classes: 3, input_size: [32, 32, 3], backbone: {type: efficientnet, "
         "efficientnet: "
         "{model_id: b3}}}}",
         "efficientnet"},
        {"retinanet",
         "task: {model: {num_classes: 3, input_size: [64, 64, 3], backbone: {type: mobiledet}}}",
         "mobiledet"},
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        lab_run r;
        tl_model *m;
        char message[96];
        snprintf(message, sizeof message,
                 "model.backbone: '%s' is not here yet; resnet, dilated_resnet, mobilenet and vit",
                 cases[i].backbone);
        lab_begin(&r, cases[i].experiment, cases[i].yaml);
        assert_fails(tl_task_build_model(r.task, &m), TL_EUNSUPPORTED, message);
        lab_end(&r);
    }
}

static void test_what_does_not_fit_is_refused(void **state)
{
    (void)state;
    refuse("task: {model: {input_size: [28, 28]}}", "input_size");
    refuse("task: {train_data: {crop_area_range: [1, 0.1]}}", "crop_area_range");
    refuse("task: {train_data: {mean: [1, 2, 3]}}", "mean");
    refuse("task: {losses: {one_hot: false, label_smoothing: 0.1}}", "label_smoothing");
    refuse("task: {init_checkpoint_modules: head}", "init_checkpoint_modules");
    refuse("task: {class_names: [a, b], model: {num_classes: 3}}", "2 names for 3 classes");
    refuse("task: {train_data: {is_training: null}}", "is_training");
    refuse("task: {train_data: {aug_pad: 4097}}", "aug_pad");
    refuse("task: {train_data: {aug_pad: 9000000000000000000}}", "aug_pad");
}

/* --- the small ones --------------------------------------------------------------------------- */

static void test_all_experiments_can_be_read_back(void **state)
{
    (void)state;
    static const char *const names[] = {"image_classification",   "resnet_imagenet",
                                        "resnet_rs_imagenet",     "mobilenet_imagenet",
                                        "vit_imagenet_pretrain",  "vit_imagenet_finetune",
                                        "deit_imagenet_pretrain", "tf_vision_example_experiment",
                                        "vision/local",           "fashion_mnist/cnn",
                                        "fashion_mnist/mlp",      "fashion_mnist/resnet"};
    for (int64_t i = 0; i < TL_COUNT(names); i++) {
        tl_config *c, *again;
        tl_str text = TL_STR_INIT;
        assert_ok(lab_parse(&c, names[i], NULL));
        assert_ok(tl_yaml_write(&text, tl_config_desc(c), tl_config_value(c)));
        assert_ok(lab_parse(&again, names[i], tl_str_text(&text)));
        assert_true(tl_desc_equal(tl_config_desc(c), tl_config_value(c), tl_config_value(again)));
        tl_str_deinit(&text);
        tl_config_free(&again);
        tl_config_free(&c);
    }
}

static void test_activations_by_keras_names(void **state)
{
    (void)state;
    tl_config *c;
    assert_ok(
        lab_parse(&c, "vision/local", "task: {model: {norm_activation: {activation: swish}}}"));
    const tl_task_config *task = ((const tl_experiment_config *)tl_config_value(c))->task.value;
    const tl_image_model_config *m = task->model.value;
    assert_int_equal(m->norm_activation.activation, TL_ACT_SILU);
    tl_config_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_all_files_are_data),
        LAB_TEST(test_all_experiments_of_model_garden),
        LAB_TEST(test_every_field_is_read),
        LAB_TEST(test_a_file_on_top_of_another_experiment),
        LAB_TEST(test_the_starter_example),
        LAB_TEST(test_what_is_not_there_is_refused_by_name),
        LAB_TEST(test_backbones_that_are_not_here),
        LAB_TEST(test_what_does_not_fit_is_refused),
        LAB_TEST(test_all_experiments_can_be_read_back),
        LAB_TEST(test_activations_by_keras_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
