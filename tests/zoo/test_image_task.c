/* The task image_classification: losses by their formulas, metrics, data of every kind, runs that
 * go on, weights of other runs, images for people. runs: fake device */
#include "zoo/zoo_lab.h"

#include <tilth/io/checkpoint/checkpoint.h>
#include <tilth/io/idx.h>
#include <tilth/io/image/png.h>
#include <tilth/io/tensorflow/tfrecord.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/ops/create.h>
#include <tilth/train/run/launch.h>

#include "zoo/vision/image_report.h"
#include "zoo/vision/image_view.h"

/* --- losses ----------------------------------------------------------------------------------- */

enum { EXAMPLES = 2, CLASSES = 3 };
static const double logits_of[EXAMPLES][CLASSES] = {{1, 2, -1}, {0.5, -0.5, 0}};
static const int64_t labels_of[EXAMPLES] = {1, 2};
static const double soft_of[EXAMPLES][CLASSES] = {{0.2, 0.7, 0.1}, {0, 0.001, 0.999}};

static double log_share(int64_t e, int64_t k)
{
    double sum = 0;
    for (int i = 0; i < CLASSES; i++) sum += exp(logits_of[e][i]);
    return logits_of[e][k] - log(sum);
}

/* -target log sigmoid(x) - (1 - target) log (1 - sigmoid(x)) */
static double binary(double target, double x)
{
    return -target * log(1 / (1 + exp(-x))) - (1 - target) * log(1 / (1 + exp(x)));
}

/* The losses of both examples, as the task makes them. */
static void losses_of(double out[EXAMPLES], const char *yaml, bool soft, double aux)
{
    lab_run r;
    tl_ctx *c;
    tl_tensors labels = {0}, outputs = {0};
    lab_begin(&r, "image_classification", yaml);
    assert_ok(tl_ctx_new(&c, r.task->engine));
    tl_mark mark = tl_ctx_begin(c);
    tl_tensor *y = soft ? tl_from_doubles(c, TL_F32, TL_SHAPE(EXAMPLES, CLASSES), &soft_of[0][0])
                        : tl_from(c, TL_I64, TL_SHAPE(EXAMPLES), labels_of);
    tl_tensors_put(c, &labels, "label", y);
    tl_tensors_put(c, &outputs, "y",
                   tl_from_doubles(c, TL_F32, TL_SHAPE(EXAMPLES, CLASSES), &logits_of[0][0]));
    tl_tensor *extra = aux != 0 ? tl_number(c, TL_F32, aux) : NULL;
    tl_tensor *losses = tl_task_build_losses(r.task, c, &labels, &outputs, extra);
    assert_ok(tl_ctx_status(c));
    assert_ok(tl_tensor_get_doubles(losses, out, EXAMPLES));
    tl_ctx_end(c, mark);
    tl_ctx_free(&c);
    lab_end(&r);
}

static void test_cross_entropy(void **state)
{
    (void)state;
    double found[EXAMPLES];
    losses_of(found, NULL, false, 0);
    for (int e = 0; e < EXAMPLES; e++) assert_near(found[e], -log_share(e, labels_of[e]), 1e-6);
    losses_of(found, "task: {losses: {one_hot: false}}", false, 0);
    for (int e = 0; e < EXAMPLES; e++) assert_near(found[e], -log_share(e, labels_of[e]), 1e-6);
    losses_of(found, "task: {losses: {label_smoothing: 0.3}}", false, 0);
    for (int e = 0; e < EXAMPLES; e++) {
        double wanted = 0;
        for (int k = 0; k < CLASSES; k++)
            wanted -= (0.7 * (k == labels_of[e]) + 0.1) * log_share(e, k);
        assert_near(found[e], wanted, 1e-6);
    }
}

static void test_soft_labels(void **state)
{
    (void)state;
    double found[EXAMPLES];
    losses_of(found, "task: {losses: {soft_labels: true, label_smoothing: 0.3}}", true, 0);
    for (int e = 0; e < EXAMPLES; e++) {
        double wanted = 0;
        for (int k = 0; k < CLASSES; k++) wanted -= soft_of[e][k] * log_share(e, k);
        assert_near(found[e], wanted, 1e-6);
    }
}

static void test_binary_cross_entropy(void **state)
{
    (void)state;
    double found[EXAMPLES];
    losses_of(found, "task: {losses: {use_binary_cross_entropy: true}}", false, 0);
    for (int e = 0; e < EXAMPLES; e++) {
        double wanted = 0;
        for (int k = 0; k < CLASSES; k++)
            wanted += binary(k == labels_of[e], logits_of[e][k]) / CLASSES;
        assert_near(found[e], wanted, 1e-6);
    }
    // Shares above the smoothing of mixtures / classes are a yes: 0.01 here.
    losses_of(found,
              "task: {losses: {use_binary_cross_entropy: true}, train_data: {mixup_and_cutmix: "
              "{label_smoothing: 0.03}}}",
              true, 0);
    for (int e = 0; e < EXAMPLES; e++) {
        double wanted = 0;
        for (int k = 0; k < CLASSES; k++)
            wanted += binary(soft_of[e][k] > 0.01 + 1e-6, logits_of[e][k]) / CLASSES;
        assert_near(found[e], wanted, 1e-6);
    }
}

static void test_the_weight_counts_for_all(void **state)
{
    (void)state;
    double plain[EXAMPLES], found[EXAMPLES];
    losses_of(plain, NULL, false, 0);
    losses_of(found, "task: {losses: {loss_weight: 2.5}}", false, 0.25);
    for (int e = 0; e < EXAMPLES; e++) assert_near(found[e], 2.5 * (plain[e] + 0.25), 1e-5);
}

/* --- data ------------------------------------------------------------------------------------- */

enum { SIDE = 8, COUNT = 10 };

static void pixels_of(uint8_t *out, int index)
{
    for (int i = 0; i < SIDE * SIDE; i++) out[i] = (uint8_t)((i * 3 + index * 20) & 255);
}

/* One pass over `data` of an experiment gives these pixels, less 100, divided by 50. */
static void check_pass(const char *yaml)
{
    lab_run r;
    tl_dataset *d;
    tl_ctx *c;
    lab_begin(&r, "image_classification", yaml);
    tl_status st = tl_task_build_inputs(r.task, r.task->config->validation_data,
                                        &(tl_input_context){.pipelines = 1, .replicas = 1}, &d);
    if (st != TL_OK) fail_msg("%s: %s", yaml, tl_error_message());
    assert_ok(tl_ctx_new(&c, r.task->engine));
    int seen = 0;
    for (bool more = true;;) {
        tl_mark mark = tl_ctx_begin(c);
        tl_batch b = {.ctx = c};
        assert_ok(tl_dataset_next(d, c, &b.tensors, &more));
        if (!more) {
            tl_ctx_end(c, mark);
            break;
        }
        tl_tensor *x = tl_batch_get(&b, "image"), *y = tl_batch_get(&b, "label");
        int64_t size = tl_batch_size(&b);
        assert_int_equal(x->shape.rank, 4);
        assert_int_equal(x->dtype, TL_F32);
        assert_int_equal(y->dtype, TL_I32);
        double values[COUNT * SIDE * SIDE], labels[COUNT];
        assert_ok(tl_tensor_get_doubles(x, values, size * SIDE * SIDE));
        assert_ok(tl_tensor_get_doubles(y, labels, size));
        for (int64_t i = 0; i < size; i++, seen++) {
            uint8_t wanted[SIDE * SIDE];
            pixels_of(wanted, seen);
            assert_int_equal((int)labels[i], seen / 4);
            for (int k = 0; k < SIDE * SIDE; k++)
                assert_near(values[i * SIDE * SIDE + k], (wanted[k] - 100) / 50.0, 1e-5);
        }
        tl_ctx_end(c, mark);
    }
    assert_int_equal(seen, COUNT); // the short batch at the end too
    tl_ctx_free(&c);
    tl_dataset_free(&d);
    lab_end(&r);
}

#define DATA(type, path)                                                                           \
    "task: {model: {num_classes: 3, input_size: [8, 8, 1]}, validation_data: {global_batch_size: " \
    "4, mean: [100], "                                                                             \
    "stddev: [50], center_crop_fraction: 1.0, file_type: " type ", input_path: '" path "'}}"

static void write_idx(void)
{
    uint8_t images[COUNT][SIDE * SIDE], labels[COUNT];
    for (int i = 0; i < COUNT; i++) {
        pixels_of(images[i], i);
        labels[i] = (uint8_t)(i / 4);
    }
    const tl_shape shape = TL_SHAPE(COUNT, SIDE, SIDE), line = TL_SHAPE(COUNT);
    assert_ok(tl_idx_write("images.idx.gz", TL_U8, &shape, images));
    assert_ok(tl_idx_write("labels.idx", TL_U8, &line, labels));
}

static tl_str png_of(int index)
{
    uint8_t pixels[SIDE * SIDE];
    tl_str out = TL_STR_INIT;
    pixels_of(pixels, index);
    assert_ok(tl_png_encode(&out, &(tl_png_image){SIDE, SIDE, 1, pixels}));
    return out;
}

static void test_pairs_of_idx_files(void **state)
{
    (void)state;
    write_idx();
    check_pass(DATA("idx", "images.idx.gz,labels.idx"));
}

static void test_folders_of_images(void **state)
{
    (void)state;
    static const char *const classes[] = {"a", "b", "c"};
    for (int i = 0; i < COUNT; i++) {
        char path[64];
        tl_str png = png_of(i);
        snprintf(path, sizeof path, "folder/%s", classes[i / 4]);
        assert_ok(tl_mkdirs(path));
        snprintf(path, sizeof path, "folder/%s/%02d.png", classes[i / 4], i);
        assert_ok(tl_file_write_atomic(path, tl_str_text(&png), png.length));
        tl_str_deinit(&png);
    }
    check_pass(DATA("image_folder", "folder"));
    check_pass(DATA("image_folder, cache: true", "folder"));
}

static void test_records(void **state)
{
    (void)state;
    tl_tfrecord_writer *w;
    assert_ok(tl_tfrecord_writer_begin(&w, "all.tfrecord", NULL));
    for (int i = 0; i < COUNT; i++) {
        tl_str png = png_of(i), example = TL_STR_INIT;
        tl_example_writer e = tl_example_begin(&example);
        int64_t label = i / 4;
        tl_example_add_bytes(&e, "image/encoded", &(tl_bytes){tl_str_text(&png), png.length}, 1);
        tl_example_add_ints(&e, "image/class/label", &label, 1);
        assert_ok(tl_example_end(&e));
        assert_ok(tl_tfrecord_write(w, tl_str_text(&example), example.length));
        tl_str_deinit(&example);
        tl_str_deinit(&png);
    }
    assert_ok(tl_tfrecord_writer_commit(&w));
    check_pass(DATA("tfrecord", "all.tfrecord"));
    check_pass(DATA("tfrecord, cache: true", "all.tfrecord"));
}

/* Pixels as they are, with their size beside them; the last one of `count` has a byte less. */
static void write_raw(const char *path, int count, bool cut)
{
    tl_tfrecord_writer *w;
    const int64_t side = SIDE, one = 1;
    assert_ok(tl_tfrecord_writer_begin(&w, path, NULL));
    for (int i = 0; i < count; i++) {
        uint8_t pixels[SIDE * SIDE];
        tl_str example = TL_STR_INIT;
        tl_example_writer e = tl_example_begin(&example);
        int64_t label = i / 4;
        pixels_of(pixels, i);
        tl_example_add_bytes(
            &e, "image/encoded",
            &(tl_bytes){(const char *)pixels, sizeof pixels - (cut && i + 1 == count)}, 1);
        tl_example_add_ints(&e, "image/class/label", &label, 1);
        tl_example_add_text(&e, "image/format", "raw");
        tl_example_add_ints(&e, "image/height", &side, 1);
        tl_example_add_ints(&e, "image/width", &side, 1);
        tl_example_add_ints(&e, "image/channels", &one, 1);
        assert_ok(tl_example_end(&e));
        assert_ok(tl_tfrecord_write(w, tl_str_text(&example), example.length));
        tl_str_deinit(&example);
    }
    assert_ok(tl_tfrecord_writer_commit(&w));
}

static void test_raw_records(void **state)
{
    (void)state;
    write_raw("raw.tfrecord", COUNT, false);
    check_pass(DATA("tfrecord", "raw.tfrecord"));
    check_pass(DATA("tfrecord, cache: true", "raw.tfrecord"));
}

/* The first batches of training with random parts, mirrored at random, as one row of numbers. */
static void crops(double *out, int64_t count, uint64_t seed)
{
    lab_run r;
    tl_dataset *d;
    tl_ctx *c;
    lab_begin(
        &r, "image_classification",
        "task: {model: {num_classes: 2, input_size: [8, 8, 3]}, train_data: {global_batch_size: 2, "
        "file_type: image_folder, input_path: large, crop_area_range: [0.2, 0.9]}}");
    assert_ok(tl_task_build_inputs(r.task, r.task->config->train_data,
                                   &(tl_input_context){.pipelines = 1, .replicas = 1, .seed = seed},
                                   &d));
    assert_ok(tl_ctx_new(&c, r.task->engine));
    for (int64_t i = 0; i < count; i++) {
        tl_mark mark = tl_ctx_begin(c);
        tl_batch b = {.ctx = c};
        bool more = true;
        assert_ok(tl_dataset_next(d, c, &b.tensors, &more));
        assert_true(more);
        tl_tensor *x = tl_batch_get(&b, "image");
        assert_int_equal(tl_tensor_count(x), 2 * 8 * 8 * 3);
        assert_ok(tl_tensor_get_doubles(x, out + i * 384, 384));
        tl_ctx_end(c, mark);
    }
    tl_ctx_free(&c);
    tl_dataset_free(&d);
    lab_end(&r);
}

static void test_random_parts_of_large_images(void **state)
{
    (void)state;
    enum { BATCHES = 4, H = 40, W = 60 };
    static uint8_t pixels[H * W * 3];
    static double first[BATCHES * 384], again[BATCHES * 384], other[BATCHES * 384];
    assert_ok(tl_mkdirs("large/a"));
    assert_ok(tl_mkdirs("large/b"));
    for (int i = 0; i < 4; i++) {
        char path[32];
        tl_str png = TL_STR_INIT;
        for (int k = 0; k < H * W * 3; k++) pixels[k] = (uint8_t)(k / (W * 3) * 5 + i * 10 + k % 3);
        assert_ok(tl_png_encode(&png, &(tl_png_image){W, H, 3, pixels}));
        snprintf(path, sizeof path, "large/%c/%d.png", i < 2 ? 'a' : 'b', i);
        assert_ok(tl_file_write_atomic(path, tl_str_text(&png), png.length));
        tl_str_deinit(&png);
    }
    crops(first, BATCHES, 5);
    crops(again, BATCHES, 5);
    crops(other, BATCHES, 6);
    assert_memory_equal(first, again, sizeof first);
    assert_true(memcmp(first, other, sizeof first) != 0);
    for (int64_t i = 0; i < BATCHES * 384; i++) // of bytes 0 to 232, normalised as ImageNet's are
        assert_true(first[i] > -2.2 && first[i] < 2.4);
    assert_true(memcmp(first, first + 2 * 384, 384 * sizeof *first) != 0);
}

static void refuse_data(const char *yaml, const char *message)
{
    lab_run r;
    tl_dataset *d;
    lab_begin(&r, "image_classification", yaml);
    tl_status st = tl_task_build_inputs(r.task, r.task->config->validation_data,
                                        &(tl_input_context){.pipelines = 1, .replicas = 1}, &d);
    if (st == TL_OK) { // some things are seen when the first batch is made
        tl_ctx *c;
        tl_tensors out = {0};
        bool more = true;
        assert_ok(tl_ctx_new(&c, r.task->engine));
        tl_mark mark = tl_ctx_begin(c);
        st = tl_dataset_next(d, c, &out, &more);
        tl_ctx_end(c, mark);
        tl_ctx_free(&c);
        tl_dataset_free(&d);
    }
    assert_int_not_equal(st, TL_OK);
    if (!strstr(tl_error_message(), message))
        fail_msg("'%s' lacks '%s'", tl_error_message(), message);
    lab_end(&r);
}

static void test_data_that_cannot_be(void **state)
{
    (void)state;
    write_idx();
    refuse_data(DATA("idx", "images.idx.gz"), "needs two");
    write_raw("raw.tfrecord", 1, true);
    refuse_data(DATA("tfrecord", "raw.tfrecord"),
                "'image/encoded' has 63 bytes; a raw image of 8 x 8 x 1");
    refuse_data(DATA("idx", "nowhere.gz,labels.idx"), "nowhere.gz");
    refuse_data("task: {model: {num_classes: 3, input_size: [8, 8, 3]}, validation_data: "
                "{global_batch_size: 4, file_type: idx, input_path: 'images.idx.gz,labels.idx'}}",
                "input_size");
    refuse_data("task: {model: {num_classes: 2, input_size: [8, 8, 1]}, validation_data: "
                "{global_batch_size: 10, file_type: idx, input_path: 'images.idx.gz,labels.idx'}}",
                "its class is 2");
    refuse_data("task: {model: {num_classes: 3, input_size: [8, 8, 1]}, validation_data: "
                "{file_type: synthetic}}",
                "task.validation_data");
    refuse_data("task: {model: {input_size: [8, 8, 1]}, validation_data: {global_batch_size: 4, "
                "file_type: synthetic}}",
                "model.num_classes is 0");
    if (!tl_dir_exists("/usr/share/datasets/fashion-mnist")) {
        lab_run r;
        tl_dataset *d;
        lab_begin(&r, "fashion_mnist/cnn", NULL);
        assert_fails(tl_task_build_inputs(r.task, r.task->config->train_data,
                                          &(tl_input_context){.pipelines = 1, .replicas = 1}, &d),
                     TL_ENOTFOUND, "apt-get install dataset-fashion-mnist");
        lab_end(&r);
    }
}

static void test_inputs_without_memory(void **state)
{
    (void)state;
    lab_run r;
    tl_status st = TL_ENOMEM;
    lab_begin(&r, "vision/local", NULL);
    for (int64_t nth = 1; st != TL_OK; nth++) {
        tl_dataset *d = NULL;
        tl_alloc_fail_at(nth, 2);
        st = tl_task_build_inputs(r.task, r.task->config->train_data,
                                  &(tl_input_context){.pipelines = 1, .replicas = 1}, &d);
        tl_alloc_fail_at(0, 0);
        if (st != TL_OK && st != TL_ENOMEM)
            fail_msg("allocation %lld: %s", (long long)nth, tl_error_message());
        tl_dataset_free(&d);
    }
    lab_end(&r);
}

/* --- views ------------------------------------------------------------------------------------ */

static void test_views(void **state)
{
    (void)state;
    uint8_t in[SIDE * SIDE];
    float out[SIDE * SIDE], half[16];
    const tl_shape shape = TL_SHAPE(SIDE, SIDE);
    pixels_of(in, 0);
    tli_view v = {.height = SIDE,
                  .width = SIDE,
                  .channels = 1,
                  .mean = {0},
                  .stddev = {1},
                  .training = true,
                  .flip = true,
                  .pad = 2,
                  .area_from = 0.08,
                  .area_to = 1};
    bool mirrored = false, moved = false;
    for (uint64_t seed = 0; seed < 40; seed++) {
        tl_rng rng;
        tl_rng_init(&rng, seed);
        assert_ok(tli_view_pixels(out, &v, &shape, in, &rng));
        // The middle shows the same picture, mirrored or not, moved by up to two.
        float d = out[3 * SIDE + 4] - out[3 * SIDE + 3];
        assert_true(d == 3 || d == -3);
        mirrored |= d == -3;
        moved |= d == 3 && out[3 * SIDE + 3] != in[3 * SIDE + 3];
    }
    assert_true(mirrored && moved);
    // The middle half, at its own size.
    v = (tli_view){
        .height = 4, .width = 4, .channels = 1, .mean = {10}, .stddev = {2}, .center = 0.5};
    assert_ok(tli_view_pixels(half, &v, &shape, in, NULL));
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 4; x++)
            assert_near(half[y * 4 + x], (in[(y + 2) * SIDE + x + 2] - 10) / 2.0, 1e-5);
}

/* --- runs ------------------------------------------------------------------------------------- */

static const char *const quick = "trainer: {train_steps: 40, steps_per_loop: 10, summary_interval: "
                                 "10, checkpoint_interval: 20, validation_interval: 20}\n"
                                 "tilth: {seed: 3, threads: 1}\n";

static tl_status launch(tl_logs *logs, const char *experiment, const char *folder, const char *yaml)
{
    tl_config *c;
    const tl_parse_options options = {.experiment = experiment, .strict_override = true};
    TL_TRY(tl_experiment_begin(&c, lab_registry, &options));
    assert_ok(tl_config_yaml(c, quick, "quick"));
    assert_ok(tl_config_yaml(c, yaml ? yaml : "{}", "yaml"));
    assert_ok(tl_config_finish(c));
    return lab_launch(logs, &c, folder);
}

/* It learns, and a run that was interrupted ends with the same bytes. */
static void test_local_learns_and_resumes(void **state)
{
    (void)state;
    tl_logs *logs;
    double accuracy;
    assert_ok(tl_logs_new(&logs));
    assert_ok(launch(logs, "vision/local", "whole", "trainer: {train_steps: 200}\n"));
    assert_ok(tl_logs_number(&accuracy, logs, "accuracy"));
    assert_true(accuracy > 0.8);
    assert_ok(launch(NULL, "vision/local", "a", NULL));
    assert_ok(launch(NULL, "vision/local", "b", "trainer: {train_steps: 13}\n"));
    assert_ok(launch(NULL, "vision/local", "b", NULL));
    assert_same_file("a/ckpt-40.safetensors", "b/ckpt-40.safetensors");
    tl_logs_free(&logs);
}

static void test_metrics_of_an_evaluation(void **state)
{
    (void)state;
    tl_logs *logs;
    double all = 0, one;
    assert_ok(tl_logs_new(&logs));
    assert_ok(launch(logs, "vision/local", "m",
                     "task: {allow_image_summary: true, model: {output_softmax: true}, evaluation: "
                     "{top_k: 3, precision_and_recall_thresholds: [0.25, 0.75], "
                     "report_per_class_precision_and_recall: true}}\n"));
    double accuracy = tl_logs_number_or(logs, "accuracy", -1),
           top = tl_logs_number_or(logs, "top_3_accuracy", -1);
    assert_true(accuracy >= 0 && top >= accuracy && top <= 1);
    assert_true(tl_logs_number_or(logs, "precision_at_threshold_0.25", -1) >= 0);
    assert_true(tl_logs_number_or(logs, "recall_at_threshold_0.75", -1) >= 0);
    static const char *const names[] = {"horizontal", "falling", "vertical", "rising"};
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "recall_at_threshold_0.25/%s", names[i]);
        assert_ok(tl_logs_number(&one, logs, name));
        all += one;
    }
    // With as many examples of each class, the mean of the recalls is that of all.
    assert_near(all / 4, tl_logs_number_or(logs, "recall_at_threshold_0.25", -1), 1e-9);
    tl_logs_free(&logs);
}

static void test_images_of_an_evaluation(void **state)
{
    (void)state;
    lab_run r;
    tl_logs_entry e;
    lab_train(&r, "vision/local", "task: {allow_image_summary: true}");
    assert_ok(tl_trainer_evaluate(r.trainer, -1, r.logs)); // nothing is learned: there are mistakes
    assert_true(tl_logs_find(&e, r.logs, "confusion"));
    assert_int_equal(e.kind, TL_LOGS_IMAGE);
    assert_true(tl_logs_find(&e, r.logs, "image/misclassified"));
    assert_int_equal(e.tensor->shape.rank, 4);
    assert_int_equal(e.tensor->shape.dims[0], 16);
    assert_int_equal(e.tensor->shape.dims[1], 16);
    assert_int_equal(e.tensor->dtype, TL_U8);
    assert_true(tl_logs_find(&e, r.logs, "misclassified"));
    assert_non_null(strstr(e.text, ", taken for "));
    assert_non_null(strstr(e.text, "horizontal"));
    lab_end(&r);
}

/* Examples that only fill up a batch are no mistakes, and what is no number can be shown. */
static void test_images_that_count(void **state)
{
    (void)state;
    static const float pixels[4][4] = {
        {0, 1, 2, 4}, {5, 6, 7, 8}, {NAN, 1, 3, INFINITY}, {0, 0, 1, 1}};
    static const float weights[4] = {1, 0, 0.5f, 1},
                       logits[4][2] = {{0, 1}, {0, 1}, {0, 1}, {0, 1}};
    static const int32_t labels[4] = {0, 0, 0, 1};
    static const uint8_t wanted[2][4] = {{0, 64, 128, 255}, {0, 0, 255, 255}};
    uint8_t found[2][4];
    lab_run r;
    tl_ctx *c;
    tl_logs *step;
    tl_logs_entry e;
    void *kept = NULL;
    lab_begin(&r, "vision/local", NULL);
    assert_ok(tl_ctx_new(&c, r.task->engine));
    assert_ok(tl_logs_new(&step));
    tl_mark mark = tl_ctx_begin(c);
    tl_batch b = {.ctx = c};
    tl_tensors told = {0};
    tl_step s = {.ctx = c, .batch = &b, .logs = &told};
    tl_tensors_put(c, &b.tensors, "image", tl_from(c, TL_F32, TL_SHAPE(4, 2, 2, 1), pixels));
    tl_tensors_put(c, &b.tensors, TL_BATCH_WEIGHT, tl_from(c, TL_F32, TL_SHAPE(4), weights));
    assert_ok(tli_report_step(&s, tl_from(c, TL_I32, TL_SHAPE(4), labels),
                              tl_from(c, TL_F32, TL_SHAPE(4, 2), logits)));
    for (int64_t i = 0; i < told.count; i++)
        assert_ok(tl_logs_put_any(step, told.items[i].name, told.items[i].tensor));
    assert_ok(tli_report_keep(&kept, step));
    assert_ok(tli_report_tell(r.task->engine, kept, (tl_strings){NULL, 0}, r.logs));
    assert_true(tl_logs_find(&e, r.logs, "image/misclassified"));
    assert_int_equal(e.tensor->shape.dims[0], 2);
    assert_ok(tl_tensor_get(e.tensor, found, sizeof found));
    assert_memory_equal(found, wanted, sizeof found);
    tli_report_free(kept);
    tl_ctx_end(c, mark);
    tl_logs_free(&step);
    tl_ctx_free(&c);
    lab_end(&r);
}

static void test_weights_of_another_run(void **state)
{
    (void)state;
    assert_ok(launch(NULL, "vision/local", "first", NULL));
    lab_run r;
    lab_train(&r, "vision/local",
              "task: {init_checkpoint: first, init_checkpoint_modules: backbone}");
    double before[4 * 32], after[4 * 32], conv[8];
    tl_model *m = r.trainer->model;
    assert_ok(tl_tensor_get_doubles(tl_model_find(m, "head/kernel")->tensor, before, 128));
    assert_ok(tl_trainer_initialize(r.trainer));
    assert_ok(tl_tensor_get_doubles(tl_model_find(m, "head/kernel")->tensor, after, 128));
    assert_memory_equal(before, after, sizeof before); // the head is not taken
    assert_ok(tl_tensor_get_doubles(tl_model_find(m, "backbone/conv_1/bias")->tensor, conv, 8));
    tl_checkpoint *c;
    assert_ok(tl_checkpoint_open(&c, "first/ckpt-40.safetensors"));
    const tl_safetensors_entry *e = tl_checkpoint_find(c, "model/backbone/conv_1/bias");
    for (int i = 0; i < 8; i++) {
        float f;
        memcpy(&f, (const char *)e->data + 4 * i, 4);
        assert_near(conv[i], f, 0);
    }
    tl_checkpoint_free(&c);
    lab_end(&r);
}

static void test_the_starter_example_trains(void **state)
{
    (void)state;
    tl_logs *logs;
    assert_ok(tl_logs_new(&logs));
    assert_ok(launch(logs, "tf_vision_example_experiment", "e",
                     "trainer: {train_steps: 10, validation_interval: 10}\n"
                     "task:\n"
                     "  model: {num_classes: 3, input_size: [16, 16, 1]}\n"
                     "  train_data: {file_type: synthetic, input_path: '', global_batch_size: 8}\n"
                     "  validation_data: {file_type: synthetic, input_path: '', global_batch_size: "
                     "8, synthetic_examples: 24}\n"));
    assert_true(tl_logs_number_or(logs, "accuracy", -1) >= 0);
    assert_true(tl_logs_number_or(logs, "top_5_accuracy", -1) == 1);
    tl_logs_free(&logs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_cross_entropy),
        LAB_TEST(test_soft_labels),
        LAB_TEST(test_binary_cross_entropy),
        LAB_TEST(test_the_weight_counts_for_all),
        LAB_TEST(test_pairs_of_idx_files),
        LAB_TEST(test_raw_records),
        LAB_TEST(test_folders_of_images),
        LAB_TEST(test_records),
        LAB_TEST(test_random_parts_of_large_images),
        LAB_TEST(test_data_that_cannot_be),
        LAB_TEST(test_inputs_without_memory),
        LAB_TEST(test_views),
        LAB_TEST(test_local_learns_and_resumes),
        LAB_TEST(test_metrics_of_an_evaluation),
        LAB_TEST(test_images_of_an_evaluation),
        LAB_TEST(test_images_that_count),
        LAB_TEST(test_weights_of_another_run),
        LAB_TEST(test_the_starter_example_trains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
