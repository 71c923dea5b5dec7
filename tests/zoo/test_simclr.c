/* SimCLR: configurations as data, the model, what batches hold, what is learned and what is left
 * alone, where fine-tuning begins. */
#include "zoo/zoo_lab.h"

#include <math.h>

#include <tilth/ops/create.h>
#include <tilth/ops/view.h>
#include <tilth/zoo/simclr.h>

#include "same_data.h"

/* --- configuration ---------------------------------------------------------------------------- */

static void compare(const char *experiment, bool read)
{
    const char *file = tl_arena_printf(lab_arena, TEST_DATA "/data/simclr/%s.yaml", experiment);
    const tl_parse_options options = {
        .experiment = experiment, .config_file = {&file, read ? 1 : 0}, .strict_override = true};
    const tl_value *theirs, *ours;
    tl_str text = TL_STR_INIT;
    tl_config *c;
    assert_ok(tl_yaml_read(&theirs, lab_arena, file));
    assert_ok(tl_experiment_parse(&c, lab_registry, &options));
    assert_ok(tl_yaml_write(&text, tl_config_desc(c), tl_config_value(c)));
    assert_ok(tl_yaml_parse(&ours, lab_arena, tl_str_text(&text), text.length, "written"));
    assert_same_data(experiment, ours, theirs);
    tl_str_deinit(&text);
    tl_config_free(&c);
}

static void test_configurations_of_model_garden(void **state)
{
    (void)state;
    static const char *const names[] = {"simclr_pretraining", "simclr_finetuning",
                                        "simclr_pretraining_imagenet",
                                        "simclr_finetuning_imagenet"};
    for (int i = 0; i < 4; i++) {
        compare(names[i], false);
        compare(names[i], true);
    }
}

static void refuse(const char *experiment, const char *yaml, const char *text)
{
    tl_config *c = NULL;
    tl_status st = lab_parse(&c, experiment, yaml);
    if (st == TL_OK || !strstr(tl_error_message(), text))
        fail_msg("%s: %s\n    lacks %s", yaml ? yaml : experiment, tl_error_message(), text);
    tl_config_free(&c);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    refuse("simclr/local", "task: {model: {projection_head: {ft_proj_idx: 3}}}",
           "ft_proj_idx: there is no layer 3 among 2");
    refuse("simclr/local", "task: {model: {mode: finetune}}", "simclr_finetuning");
    refuse("simclr/local_finetuning", "task: {model: {mode: pretrain}}", "train_data.parser.mode");
    refuse("simclr/local_finetuning", "task: {model: {supervised_head: null}}",
           "supervised_head: fine-tuning trains it");
    refuse("simclr/local", "task: {train_data: {parser: {parse_label: false}}}",
           "teach no supervised_head");
    refuse("simclr/local", "task: {train_data: {parser: {aug_color_jitter_strength: 2}}}",
           "aug_color_jitter_strength");
    refuse("simclr/local", "task: {train_data: {parser: {crop_area_range: [0.5, 0.2]}}}",
           "crop_area_range: expected two shares");
    refuse("simclr/local", "task: {init_checkpoint_modules: backbone_projection}",
           "init_checkpoint_modules");
    refuse("simclr/local", "task: {class_names: [a, b]}", "there are 2 names for 4 classes");
    refuse("multitask_simclr", NULL, "'simclr_pretraining'");
}

/* --- the model -------------------------------------------------------------------------------- */

static void assert_shape(const tl_shape *found, tl_shape wanted)
{
    assert_true(tl_shape_equal(found, &wanted));
}

static void call(tl_model *m, tl_ctx *c, tl_tensor *x, tl_tensors *out)
{
    tl_named image = {"image", x};
    tl_call_all(c, m, &(tl_tensors){&image, 1, 1}, out);
    assert_ok(tl_ctx_status(c));
}

static tl_tensor *noise(tl_ctx *c, int64_t channels)
{
    float values[2 * 16 * 16 * 2];
    tl_rng rng;
    tl_rng_init(&rng, 5);
    for (int64_t i = 0; i < 2 * 16 * 16 * channels; i++) values[i] = tl_rng_uniform_f32(&rng);
    return tl_from(c, TL_F32, TL_SHAPE(2, 16, 16, channels), values);
}

/* Two views on the axis of channels are answered as all first ones, then all second ones. */
static void test_views_are_a_batch(void **state)
{
    (void)state;
    lab_run r;
    tl_model *m;
    tl_ctx *c;
    tl_tensor *views[2];
    tl_tensors both = {0}, each[2] = {{0}, {0}};
    lab_begin(&r, "simclr/local", NULL);
    assert_ok(tl_task_build_model(r.task, &m));
    assert_ok(tl_ctx_new(&c, r.task->engine));
    tl_tensor *x = noise(c, 2);
    call(m, c, x, &both);
    assert_int_equal(both.count, 2);
    assert_string_equal(both.items[0].name, TL_SIMCLR_CLASSES);
    assert_string_equal(both.items[1].name, TL_SIMCLR_PROJECTION);
    assert_shape(&both.items[0].tensor->shape, TL_SHAPE(4, 4));
    assert_shape(&both.items[1].tensor->shape, TL_SHAPE(4, 16));
    tl_split_even(c, x, 3, 2, views);
    for (int v = 0; v < 2; v++) {
        double whole[64], own[32];
        call(m, c, views[v], &each[v]);
        assert_ok(tl_tensor_get_doubles(both.items[1].tensor, whole, 64));
        assert_ok(tl_tensor_get_doubles(each[v].items[1].tensor, own, 32));
        for (int i = 0; i < 32; i++) assert_true(fabs(whole[32 * v + i] - own[i]) < 1e-5);
    }
    tl_ctx_free(&c);
    tl_model_free(&m);
    lab_end(&r);
}

static void count_parameters(const char *experiment, const char *yaml, int64_t all, int64_t trained)
{
    lab_run r;
    tl_model *m;
    lab_begin(&r, experiment, yaml);
    assert_ok(tl_task_build_model(r.task, &m));
    tl_model_size size = tl_model_measure(m);
    assert_int_equal(size.params, all);
    assert_int_equal(size.trainable, trained);
    tl_model_free(&m);
    lab_end(&r);
}

/* A backbone of 9616 weights; products of 32 x 32 and 32 x 16, norms of 2 x 32 and 16, a head of
 * 33 x 4. */
static void test_which_weights_there_are(void **state)
{
    (void)state;
    const int64_t backbone = 8 * 9 + 8 + 16 * 8 * 9 + 16 + 256 * 32 + 32, head = 33 * 4;
    const int64_t first = 32 * 32 + 64, second = 32 * 16 + 16;
    count_parameters("simclr/local", NULL, backbone + first + second + head,
                     backbone + first + second + head);
    count_parameters("simclr/local", "task: {model: {supervised_head: null}}",
                     backbone + first + second, backbone + first + second);
    // Fine-tuning has the layers of the projection head that it uses.
    count_parameters("simclr/local_finetuning", NULL, backbone + first + head,
                     backbone + first + head);
    count_parameters(
        "simclr/local_finetuning",
        "task: {model: {projection_head: {ft_proj_idx: 0}, backbone_trainable: false}}",
        backbone + head, head);
    count_parameters("simclr/local_finetuning",
                     "task: {model: {projection_head: {ft_proj_idx: -1}}}",
                     backbone + first + second + 17 * 4, backbone + first + second + 17 * 4);
}

/* Where its layers lie in checkpoints of Model Garden, beside those of the backbone. */
static void test_names_of_model_garden(void **state)
{
    (void)state;
    static const char *const wanted[][2] = {
        {"projection_head/nl_0/dense", "projection_head/_layers/0/_dense0"},
        {"projection_head/nl_1/norm", "projection_head/_layers/1/_norm0"},
        {"supervised_head", "supervised_head/_dense0"},
    };
    lab_run r;
    tl_original_names names;
    lab_begin(&r, "simclr/local", "task: {model: {backbone: {type: resnet}}}");
    assert_ok(tl_original_names_init(&names));
    assert_ok(tl_task_original_names(r.task, &names));
    for (int i = 0; i < 3; i++) {
        int64_t k = 0;
        while (k < names.layers.count && strcmp(names.layers.items[k].ours, wanted[i][0]) != 0) k++;
        assert_true(k < names.layers.count);
        assert_string_equal(names.layers.items[k].theirs, wanted[i][1]);
    }
    tl_original_names_deinit(&names);
    lab_end(&r);
    lab_begin(&r, "simclr/local", NULL);
    assert_ok(tl_original_names_init(&names));
    assert_fails(tl_task_original_names(r.task, &names), TL_EUNSUPPORTED, "no backbone 'cnn'");
    tl_original_names_deinit(&names);
    lab_end(&r);
}

/* --- batches ---------------------------------------------------------------------------------- */

enum { BATCH = 4, SIDE = 16 };

static void first_batch(double *images, tl_shape *shape, const char *yaml, bool training)
{
    lab_run r;
    tl_dataset *d;
    tl_ctx *c;
    bool more;
    lab_begin(&r, "simclr/local", yaml);
    const tl_task_config *k = r.task->config;
    assert_ok(tl_task_build_inputs(r.task, training ? k->train_data : k->validation_data,
                                   &(tl_input_context){.pipelines = 1, .replicas = 1, .seed = 7},
                                   &d));
    assert_ok(tl_ctx_new(&c, r.task->engine));
    tl_batch b = {.ctx = c};
    assert_ok(tl_dataset_next(d, c, &b.tensors, &more));
    tl_tensor *x = tl_batch_get(&b, "image");
    assert_non_null(tl_batch_get(&b, "label"));
    *shape = x->shape;
    assert_ok(tl_tensor_get_doubles(x, images, tl_tensor_count(x)));
    tl_ctx_free(&c);
    tl_dataset_free(&d);
    lab_end(&r);
}

#define SMALL "task: {train_data: {global_batch_size: 4}, validation_data: {global_batch_size: 4}}"

static void test_batches_hold_views(void **state)
{
    (void)state;
    static double images[BATCH * SIDE * SIDE * 2], again[BATCH * SIDE * SIDE * 2];
    tl_shape shape;
    first_batch(images, &shape, SMALL, true);
    assert_shape(&shape, TL_SHAPE(BATCH, SIDE, SIDE, 2));
    first_batch(again, &shape, SMALL, true);
    assert_memory_equal(images, again, sizeof images); // one seed, one batch
    int64_t differ = 0;
    for (int64_t i = 0; i < BATCH * SIDE * SIDE * 2; i += 2) {
        assert_true(images[i] >= 0 && images[i] <= 1);
        differ += images[i] != images[i + 1];
    }
    assert_true(differ > BATCH * SIDE * SIDE / 2);
    first_batch(images, &shape, SMALL, false);
    assert_shape(&shape, TL_SHAPE(BATCH, SIDE, SIDE, 1));
    // Bytes, divided by 255.
    for (int64_t i = 0; i < BATCH * SIDE * SIDE; i++)
        assert_true(fabs(images[i] * 255 - rint(images[i] * 255)) < 1e-4);
}

/* Views of nothing but the image: both are it, in fine-tuning it comes once. */
static void test_changes_can_be_switched_off(void **state)
{
    (void)state;
    static double images[BATCH * SIDE * SIDE * 2];
    tl_shape shape;
    first_batch(images, &shape,
                "task: {train_data: {global_batch_size: 4, parser: {aug_rand_crop: false, "
                "aug_color_distort: false, aug_rand_blur: false}}}",
                true);
    for (int64_t i = 0; i < BATCH * SIDE * SIDE * 2; i += 2) {
        assert_true(images[i] == images[i + 1]);
        assert_true(fabs(images[i] * 255 - rint(images[i] * 255)) < 1e-4);
    }
}

/* --- training --------------------------------------------------------------------------------- */

static tl_status launch(tl_logs *logs, const char *experiment, const char *folder, const char *yaml)
{
    static const char quick[] = "runtime: {run_eagerly: false}\n"
                                "tilth: {seed: 3, threads: 1}\n"
                                "trainer: {steps_per_loop: 5, summary_interval: 20, "
                                "checkpoint_interval: 20, train_steps: 20, validation_interval: "
                                "20}\n"
                                "task: {train_data: {global_batch_size: 32}}\n";
    tl_config *c;
    const tl_parse_options options = {.experiment = experiment, .strict_override = true};
    TL_TRY(tl_experiment_begin(&c, lab_registry, &options));
    assert_ok(tl_config_yaml(c, quick, "quick"));
    assert_ok(tl_config_yaml(c, yaml ? yaml : "{}", "yaml"));
    tl_status st = tl_config_finish(c);
    if (st != TL_OK) {
        tl_config_free(&c);
        return st;
    }
    return lab_launch(logs, &c, folder);
}

/* A run that was interrupted ends with the same bytes. */
static void test_runs_are_resumed(void **state)
{
    (void)state;
    assert_ok(launch(NULL, "simclr/local", "a", NULL));
    assert_ok(launch(NULL, "simclr/local", "b", "trainer: {train_steps: 7}\n"));
    assert_ok(launch(NULL, "simclr/local", "b", NULL));
    assert_same_file("a/ckpt-20.safetensors", "b/ckpt-20.safetensors");
}

static void read_weights(lab_run *r, const char *experiment, const char *yaml, tl_model **m)
{
    lab_begin(r, experiment, yaml);
    assert_ok(tl_task_build_model(r->task, m));
    assert_ok(tl_task_initialize(r->task, *m));
}

static bool same_weights(const tl_model *a, const tl_model *b, const char *part)
{
    bool same = true;
    int64_t seen = 0;
    for (int64_t i = 0; i < tl_model_param_count(b); i++) {
        const tl_param *p = tl_model_param(b, i), *q = tl_model_find(a, p->path);
        static double x[16384], y[16384];
        int64_t count = tl_tensor_count(p->tensor);
        if (strncmp(p->path, part, strlen(part)) != 0) continue;
        assert_non_null(q);
        assert_true(count <= 16384);
        assert_ok(tl_tensor_get_doubles(p->tensor, x, count));
        assert_ok(tl_tensor_get_doubles(q->tensor, y, count));
        same = same && memcmp(x, y, (size_t)count * sizeof *x) == 0;
        seen++;
    }
    assert_true(seen > 0);
    return same;
}

/* What labels teach the supervised head reaches nothing else: with other labels all other weights
 * are the same, bit by bit. */
static void test_labels_teach_the_head_alone(void **state)
{
    (void)state;
    lab_run a, b;
    tl_model *m, *n;
    assert_ok(launch(NULL, "simclr/local", "own", NULL));
    assert_ok(launch(NULL, "simclr/local", "zeros",
                     "task: {train_data: {input_set_label_to_zero: true}}\n"));
    read_weights(&a, "simclr/local", "task: {init_checkpoint: own}", &m);
    read_weights(&b, "simclr/local", "task: {init_checkpoint: zeros}", &n);
    assert_true(same_weights(m, n, "backbone"));
    assert_true(same_weights(m, n, "projection_head"));
    assert_false(same_weights(m, n, "supervised_head"));
    tl_model_free(&m);
    tl_model_free(&n);
    lab_end(&a);
    lab_end(&b);
}

/* Which parts fine-tuning takes over. */
static void test_where_fine_tuning_begins(void **state)
{
    (void)state;
    static const struct {
        const char *modules;
        bool projection, head;
    } rows[] = {
        {"backbone", false, false}, {"backbone_projection", true, false}, {"all", true, true}};
    lab_run from;
    tl_model *trained;
    assert_ok(launch(NULL, "simclr/local", "run", NULL));
    read_weights(&from, "simclr/local", "task: {init_checkpoint: run}", &trained);
    for (int i = 0; i < 3; i++) {
        lab_run r;
        tl_model *m;
        char yaml[128];
        snprintf(yaml, sizeof yaml, "task: {init_checkpoint: run, init_checkpoint_modules: %s}",
                 rows[i].modules);
        read_weights(&r, "simclr/local_finetuning", yaml, &m);
        assert_true(same_weights(trained, m, "backbone"));
        assert_int_equal(same_weights(trained, m, "projection_head"), rows[i].projection);
        assert_int_equal(same_weights(trained, m, "supervised_head"), rows[i].head);
        tl_model_free(&m);
        lab_end(&r);
    }
    tl_model_free(&trained);
    lab_end(&from);
    // It trains, and is evaluated as a classifier.
    tl_logs *logs;
    double accuracy, loss;
    assert_ok(tl_logs_new(&logs));
    assert_ok(launch(logs, "simclr/local_finetuning", "tuned", "task: {init_checkpoint: run}\n"));
    assert_ok(tl_logs_number(&accuracy, logs, "accuracy"));
    assert_ok(tl_logs_number(&loss, logs, "validation_loss"));
    assert_true(accuracy > 0 && loss > 0);
    tl_logs_free(&logs);
}

/* Of 32 images, one in 32 would be found by chance. */
static void test_views_of_an_image_are_found(void **state)
{
    (void)state;
    lab_run r;
    double first, last, entropy;
    lab_train(&r, "simclr/local",
              "task: {train_data: {global_batch_size: 32}}\ntilth: {seed: 1}\n");
    assert_ok(tl_trainer_train(r.trainer, 10, r.logs));
    assert_ok(tl_logs_number(&first, r.logs, "contrast_loss"));
    assert_ok(tl_trainer_train(r.trainer, 90, r.logs));
    assert_ok(tl_logs_number(&last, r.logs, "contrast_loss"));
    assert_ok(tl_logs_number(&entropy, r.logs, "contrast_entropy"));
    assert_true(last < first - 0.5);
    assert_true(entropy > 0 && entropy < log(32));
    double found = tl_logs_number_or(r.logs, "contrast_accuracy", 0);
    if (!(found > 1.5 / 32)) fail_msg("%g of the views are found", found);
    double total = tl_logs_number_or(r.logs, "total_loss", 0),
           supervised = tl_logs_number_or(r.logs, "supervised_loss", 0);
    assert_true(fabs(total - last - supervised) < 1e-4);
    lab_end(&r);
}

/* Recipes of Model Garden leave batch norms out of weight decay by the name that they have there.
 * Without gradients, decay is all that happens. */
static void test_norms_are_not_decayed(void **state)
{
    (void)state;
    lab_run r;
    tl_ctx *c;
    tl_tensor *grads[TL_STEP_BLOCKS];
    lab_train(&r, "simclr/local",
              "trainer: {optimizer_config: {optimizer: {type: lars, lars: {weight_decay_rate: 0.1, "
              "eeta: 1.0, exclude_from_weight_decay: [batch_normalization, bias]}}, learning_rate: "
              "{type: constant, constant: {learning_rate: 0.5}}}}");
    tl_model *m = r.trainer->model;
    assert_ok(tl_ctx_new(&c, r.task->engine));
    for (int64_t i = 0; i < tl_model_block_count(m); i++) {
        const tl_block *b = tl_model_block(m, i);
        grads[i] = b->trainable ? tl_zeros(c, b->dtype, b->values->shape) : NULL;
    }
    const tl_param *kernel = tl_model_find(m, "projection_head/nl_0/dense/kernel");
    double before[32 * 32], after[32 * 32], gamma[32];
    assert_ok(tl_tensor_get_doubles(kernel->tensor, before, 32 * 32));
    tl_optimizer_apply(r.trainer->optimizer, c, grads, NULL);
    assert_ok(tl_ctx_status(c));
    // A step of the kernel's own norm, at a rate of a half.
    assert_ok(tl_tensor_get_doubles(kernel->tensor, after, 32 * 32));
    for (int i = 0; i < 32 * 32; i++) assert_true(fabs(after[i] - before[i] / 2) < 1e-6);
    const tl_param *scale = tl_model_find(m, "projection_head/nl_0/norm/gamma");
    assert_ok(tl_tensor_get_doubles(scale->tensor, gamma, 32));
    for (int i = 0; i < 32; i++) assert_true(gamma[i] == 1);
    tl_ctx_free(&c);
    lab_end(&r);
}

static void test_what_cannot_be_trained(void **state)
{
    (void)state;
    assert_fails(launch(NULL, "simclr/local", "x",
                        "task: {loss: {l2_weight_decay: 0.1}}\ntrainer: {optimizer_config: "
                        "{optimizer: {type: lars}}}\n"),
                 TL_EINVAL, "lars has a weight decay of its own");
    assert_fails(launch(NULL, "simclr/local", "y", "task: {model: {supervised_head: null}}\n"),
                 TL_EUNSUPPORTED, "task.model.supervised_head is null");
    assert_false(tl_file_exists("y")); // nothing was trained
    assert_fails(launch(NULL, "simclr/local", "z", "task: {train_data: {global_batch_size: 1}}\n"),
                 TL_EINVAL, "task.train_data.global_batch_size is 1");
    assert_fails(launch(NULL, "simclr/local", "z", "task: {train_data: {is_training: false}}\n"),
                 TL_EINVAL, "task.train_data.is_training is false");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_configurations_of_model_garden),
        LAB_TEST(test_what_is_refused),
        LAB_TEST(test_views_are_a_batch),
        LAB_TEST(test_which_weights_there_are),
        LAB_TEST(test_names_of_model_garden),
        LAB_TEST(test_batches_hold_views),
        LAB_TEST(test_changes_can_be_switched_off),
        LAB_TEST(test_runs_are_resumed),
        LAB_TEST(test_labels_teach_the_head_alone),
        LAB_TEST(test_where_fine_tuning_begins),
        LAB_TEST(test_views_of_an_image_are_found),
        LAB_TEST(test_norms_are_not_decayed),
        LAB_TEST(test_what_cannot_be_trained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
