/* Experiments of image classification: Model Garden's files as data, what is refused, what the small ones say. */
#include "zoo/zoo_lab.h"

/* --- against Model Garden's files ------------------------------------------------------------- */

/* The first key that differs, as a path; "" when there is none. 1 equals 1.0, and lists are tuples. */
static void differences(tl_str *out, const char *path, const tl_value *ours, const tl_value *theirs)
{
    if (!ours || !theirs || ours->kind != theirs->kind) {
        if (ours != theirs) tl_str_addf(out, "%s: one has it, the other not\n", path);
        return;
    }
    if (ours->kind == TL_VALUE_SCALAR) {
        double x, y;
        bool numbers = tl_value_double(ours, &x) && tl_value_double(theirs, &y);
        if (numbers ? x != y : !tl_value_equal(ours, theirs))
            tl_str_addf(out, "%s: '%s' is not '%s'\n", path, ours->text, theirs->text);
        return;
    }
    if (ours->count != theirs->count)
        tl_str_addf(out, "%s: %lld entries, not %lld\n", path, (long long)ours->count,
                    (long long)theirs->count);
    for (int64_t i = 0; i < theirs->count; i++) {
        char *below;
        if (theirs->kind == TL_VALUE_LIST) {
            below = tl_arena_printf(lab_arena, "%s[%lld]", path, (long long)i);
            differences(out, below, i < ours->count ? ours->items[i] : NULL, theirs->items[i]);
        } else {
            below = tl_arena_printf(lab_arena, "%s.%s", path, theirs->pairs[i].key);
            differences(out, below, tl_value_get(ours, theirs->pairs[i].key), theirs->pairs[i].value);
        }
    }
}

static const tl_value *written(const tl_config *c)
{
    tl_str text = TL_STR_INIT;
    const tl_value *v;
    assert_ok(tl_yaml_write(&text, tl_config_desc(c), tl_config_value(c)));
    assert_ok(tl_yaml_parse(&v, lab_arena, tl_str_text(&text), text.length, "written"));
    tl_str_deinit(&text);
    return v;
}

static void compare(const char *experiment, const char *override, const char *file)
{
    const tl_value *theirs;
    tl_config *c;
    tl_str found = TL_STR_INIT;
    assert_ok(tl_yaml_read(&theirs, lab_arena, file));
    assert_ok(lab_parse(&c, experiment, override));
    differences(&found, experiment, written(c), theirs);
    if (found.length) fail_msg("%s", tl_str_text(&found));
    tl_str_deinit(&found);
    tl_config_free(&c);
}

static void test_files_of_model_garden(void **state)
{
    (void)state;
    compare("image_classification", NULL, TEST_DATA "/data/configs/image_classification.yaml");
    compare("resnet_imagenet", NULL, TEST_DATA "/data/configs/resnet_imagenet.yaml");
}

/* The files themselves are read by our tables, each field. */
static void test_files_can_be_used(void **state)
{
    (void)state;
    static const char *const files[] = {TEST_DATA "/data/configs/image_classification.yaml",
                                        TEST_DATA "/data/configs/resnet_imagenet.yaml"};
    for (int64_t i = 0; i < TL_COUNT(files); i++) {
        const tl_parse_options options = {.experiment = "image_classification",
                                          .config_file = {&files[i], 1}, .strict_override = true};
        tl_config *c;
        tl_str found = TL_STR_INIT;
        const tl_value *theirs;
        assert_ok(tl_experiment_parse(&c, lab_registry, &options));
        assert_ok(tl_yaml_read(&theirs, lab_arena, files[i]));
        differences(&found, "", written(c), theirs);
        if (found.length) fail_msg("%s: %s", files[i], tl_str_text(&found));
        tl_str_deinit(&found);
        tl_config_free(&c);
    }
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
    if (st != TL_EUNSUPPORTED && st != TL_EINVAL && st != TL_ENOTFOUND) fail_msg("%s: %s", yaml, tl_status_name(st));
    if (!strstr(tl_error_message(), text)) fail_msg("%s: %s\n    lacks %s", yaml, tl_error_message(), text);
    assert_null(c);
}

static void test_what_is_not_there_is_refused_by_name(void **state)
{
    (void)state;
    refuse("task: {model: {backbone: {type: vit}}}", "unknown type 'vit' (known: cnn, mlp, resnet)");
    refuse("task: {model: {backbone: {resnet: {model_id: 27}}}}", "there is no ResNet-27");
    refuse("task: {train_data: {file_type: sstable}}", "sstable is not there");
    refuse("task: {train_data: {file_type: csv}}", "file_type");
    refuse("task: {train_input_partition_dims: [2]}", "train_input_partition_dims");
    refuse("task: {model_output_keys: [1]}", "model_output_keys");
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
    static const char *const names[] = {"image_classification", "resnet_imagenet",
                                        "tf_vision_example_experiment", "vision/local",
                                        "fashion_mnist/cnn", "fashion_mnist/mlp", "fashion_mnist/resnet"};
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
    assert_ok(lab_parse(&c, "vision/local", "task: {model: {norm_activation: {activation: swish}}}"));
    const tl_task_config *task = ((const tl_experiment_config *)tl_config_value(c))->task.value;
    const tl_image_model_config *m = task->model.value;
    assert_int_equal(m->norm_activation.activation, TL_ACT_SILU);
    tl_config_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_files_of_model_garden),
        LAB_TEST(test_files_can_be_used),
        LAB_TEST(test_the_starter_example),
        LAB_TEST(test_what_is_not_there_is_refused_by_name),
        LAB_TEST(test_what_does_not_fit_is_refused),
        LAB_TEST(test_all_experiments_can_be_read_back),
        LAB_TEST(test_activations_by_keras_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
