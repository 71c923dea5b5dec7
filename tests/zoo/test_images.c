/* The experiment `images`: what it finds in folders, records and idx files, and what it leaves as
 * it was given. */
#include "zoo/zoo_lab.h"

#include <tilth/data/batch.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/idx.h>
#include <tilth/io/image/png.h>
#include <tilth/io/tensorflow/tfrecord.h>

/* --- data ------------------------------------------------------------------------------------- */

static tl_str png_of(int64_t height, int64_t width, int64_t channels, int number)
{
    tl_str out = TL_STR_INIT;
    uint8_t *pixels = tl_alloc((size_t)(height * width * channels));
    assert_non_null(pixels);
    for (int64_t i = 0; i < height * width * channels; i++)
        pixels[i] = (uint8_t)(i * 31 + number * 57);
    assert_ok(tl_png_encode(&out, &(tl_png_image){width, height, channels, pixels}));
    tl_free(pixels);
    return out;
}

static void put_image(const char *path, int64_t height, int64_t width, int64_t channels, int number)
{
    tl_str png = png_of(height, width, channels, number);
    assert_ok(tl_mkdirs(tl_path_dirname(lab_arena, path)));
    assert_ok(tl_file_write_atomic(path, png.data, png.length));
    tl_str_deinit(&png);
}

/* `count` images of each class of the list, whose names may have spaces and quotes. */
static void put_folder(const char *folder, const char *const *classes, int count, int64_t side,
                       int64_t channels)
{
    int number = 0;
    for (; *classes; classes++)
        for (int i = 0; i < count; i++, number++)
            put_image(tl_arena_printf(lab_arena, "%s/%s/%d.png", folder, *classes, i), side, side,
                      channels, number);
}
#define CLASSES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* `called` may be empty. */
static void put_record(tl_tfrecord_writer *w, int number, int64_t label, int64_t channels,
                       tl_bytes called)
{
    tl_str example = TL_STR_INIT, png = png_of(12, 12, channels, number);
    tl_example_writer e = tl_example_begin(&example);
    tl_example_add_bytes(&e, "image/encoded", &(tl_bytes){png.data, png.length}, 1);
    tl_example_add_ints(&e, "image/class/label", &label, 1);
    if (called.size) tl_example_add_bytes(&e, "image/filename", &called, 1);
    assert_ok(tl_example_end(&e));
    assert_ok(tl_tfrecord_write(w, example.data, example.length));
    tl_str_deinit(&example);
    tl_str_deinit(&png);
}

static void put_records(const char *path, int count, int classes)
{
    tl_tfrecord_writer *w;
    assert_ok(tl_tfrecord_writer_begin(&w, path, NULL));
    for (int i = 0; i < count; i++) put_record(w, i, i % classes, 1, (tl_bytes){0});
    assert_ok(tl_tfrecord_writer_commit(&w));
}

/* --- what is found ---------------------------------------------------------------------------- */

static tl_config *config;
static const tl_image_task_config *task;
static const tl_image_model_config *model;
static const tl_image_data_config *train, *validation;
static const tl_trainer_config *trainer;

/* With these overrides. */
static tl_status try_images(const char *words)
{
    tl_config_free(&config);
    const tl_parse_options o = {
        .experiment = "images",
        .strict_override = true,
        .params_override = words,
    };
    TL_TRY(tl_experiment_parse(&config, lab_registry, &o));
    const tl_experiment_config *e = tl_config_value(config);
    task = e->task.value;
    trainer = e->trainer.value;
    model = task->base.model.value;
    train = (const tl_image_data_config *)task->base.train_data;
    validation = (const tl_image_data_config *)task->base.validation_data;
    return TL_OK;
}

static int close_images(void **state)
{
    tl_config_free(&config);
    return lab_close(state);
}

static void size_is(int64_t height, int64_t width, int64_t channels)
{
    assert_int_equal(model->input_size.count, 3);
    assert_int_equal(model->input_size.items[0], height);
    assert_int_equal(model->input_size.items[1], width);
    assert_int_equal(model->input_size.items[2], channels);
}

static void test_a_folder_is_enough(void **state)
{
    (void)state;
    put_folder("pets", CLASSES("dog", "cat, black", "it's"), 8, 12, 3);
    assert_ok(try_images("task.train_data.input_path=pets"));
    assert_int_equal(train->file_type, TL_IMAGES_FOLDER);
    assert_int_equal(model->num_classes, 3);
    assert_int_equal(task->class_names.count, 3);
    assert_string_equal(task->class_names.items[0], "cat, black");
    assert_string_equal(task->class_names.items[2], "it's");
    size_is(12, 12, 3);
    assert_true(train->holdout == 0.2 && validation->holdout == 0.2);
    assert_string_equal(validation->base.input_path->text, "pets");
    assert_int_equal(train->mean.count, 3);
    assert_true(train->skip_bad && validation->skip_bad && train->base.cache);
    assert_true(train->base.global_batch_size > 0 && validation->base.global_batch_size > 0);
    assert_true(trainer->train_steps > 0);
    assert_int_equal(trainer->train_steps % trainer->validation_interval, 0);
    assert_int_equal(trainer->validation_interval % trainer->steps_per_loop, 0);
    assert_string_equal(tl_config_source(config, "task.model.num_classes"), "the data");
    assert_string_equal(tl_config_source(config, "task.class_names"), "the data");
    assert_string_equal(tl_config_source(config, "task.train_data.input_path"),
                        "--params_override");
}

static void test_what_is_given_stays(void **state)
{
    (void)state;
    put_folder("pets", CLASSES("cat", "dog"), 8, 12, 3);
    assert_ok(
        try_images("task.train_data.input_path=pets,task.model.input_size=[16,16,3],trainer.train_"
                   "steps=7,task.train_data.global_batch_size=3,task.train_data.holdout=0.5,task."
                   "model.backbone.cnn.filters=[4],task.train_data.mean=[1],task.train_data.stddev="
                   "[2],trainer.optimizer_config.learning_rate.cosine.initial_learning_rate=0.5"));
    size_is(16, 16, 3);
    assert_int_equal(trainer->train_steps, 7);
    assert_int_equal(train->base.global_batch_size, 3);
    assert_true(train->holdout == 0.5 && validation->holdout == 0.5);
    assert_int_equal(train->mean.count, 1);
    const tl_cnn_config *cnn = model->backbone.value;
    assert_int_equal(cnn->filters.count, 1);
    const tl_cosine_config *rate = trainer->optimizer_config.learning_rate.value;
    assert_true(rate->initial_learning_rate.value == 0.5);
    assert_int_equal(rate->decay_steps.value, 7);
    assert_int_equal(model->num_classes, 2);
    assert_int_equal(trainer->train_steps % trainer->validation_interval, 0);
}

static void test_grey_images_have_one_channel(void **state)
{
    (void)state;
    put_folder("signs", CLASSES("a", "b"), 6, 20, 1);
    assert_ok(try_images("task.train_data.input_path=signs"));
    size_is(20, 20, 1);
    assert_false(train->aug_rand_hflip);
    assert_int_equal(train->mean.count, 1);
    assert_true(train->aug_pad > 0 && !train->aug_crop);
    const tl_cnn_config *cnn = model->backbone.value;
    assert_int_equal(cnn->units.count, 1); // where things lie matters
}

static void test_photos_are_brought_to_one_size(void **state)
{
    (void)state;
    put_folder("photos", CLASSES("a", "b"), 4, 90, 3);
    put_image("photos/a/wide.png", 100, 170, 3, 5);
    assert_ok(try_images("task.train_data.input_path=photos"));
    size_is(56, 56, 3);
    assert_int_equal(train->shorter_side, 70);
    assert_int_equal(validation->shorter_side, 70);
    assert_true(train->aug_crop && train->aug_rand_hflip);
    const tl_cnn_config *cnn = model->backbone.value;
    assert_int_equal(cnn->units.count, 0);
}

static void test_a_folder_that_is_divided(void **state)
{
    (void)state;
    put_folder("all/train", CLASSES("cat", "dog"), 6, 12, 3);
    put_folder("all/val", CLASSES("cat", "dog"), 2, 12, 3);
    assert_ok(try_images("task.train_data.input_path=all"));
    assert_string_equal(train->base.input_path->text, "all/train");
    assert_string_equal(validation->base.input_path->text, "all/val");
    assert_true(train->holdout == 0 && validation->holdout == 0);
    assert_int_equal(model->num_classes, 2);
}

static void test_records_with_a_list(void **state)
{
    (void)state;
    put_records("train-00000-of-00002", 10, 3);
    put_records("train-00001-of-00002", 8, 2);
    assert_ok(tl_file_write_atomic("train.classes.txt", "ape\nbee\ncow\neel\n", 16));
    assert_ok(try_images("task.train_data.input_path='train*'"));
    assert_int_equal(train->file_type, TL_IMAGES_TFRECORD);
    assert_int_equal(model->num_classes, 4);
    assert_string_equal(task->class_names.items[3], "eel");
    size_is(12, 12, 1);
    assert_true(train->holdout == 0.2);
    // Names by hand, and too few of them.
    assert_ok(try_images("task.train_data.input_path='train-*',task.class_names=[x,y,z]"));
    assert_int_equal(model->num_classes, 3);
    assert_fails(try_images("task.train_data.input_path='train-*',task.class_names=[x,y]"),
                 TL_EINVAL, "names for 2 classes");
}

static void test_idx_files(void **state)
{
    (void)state;
    uint8_t pixels[12 * 10 * 8], labels[12];
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 7);
    for (size_t i = 0; i < sizeof labels; i++) labels[i] = (uint8_t)(i % 5);
    tl_shape of_images = TL_SHAPE(12, 10, 8), of_labels = TL_SHAPE(12);
    assert_ok(tl_idx_write("images", TL_U8, &of_images, pixels));
    assert_ok(tl_idx_write("labels", TL_U8, &of_labels, labels));
    assert_ok(try_images("task.train_data.input_path='images,labels'"));
    assert_int_equal(train->file_type, TL_IMAGES_IDX);
    assert_int_equal(model->num_classes, 5);
    assert_int_equal(task->class_names.count, 0);
    size_is(10, 8, 1);
}

static void test_a_run_does_not_look_again(void **state)
{
    (void)state;
    put_folder("pets", CLASSES("cat", "dog"), 8, 12, 3);
    assert_ok(try_images("task.train_data.input_path=pets"));
    assert_ok(tl_serialize_config(config, "run"));
    assert_int_equal(rename("pets", "gone"), 0);
    const char *file = "run/params.yaml";
    tl_config *again;
    assert_ok(tl_experiment_parse(&again, lab_registry,
                                  &(tl_parse_options){.experiment = "images",
                                                      .strict_override = true,
                                                      .config_file = {&file, 1}}));
    const tl_experiment_config *e = tl_config_value(again);
    assert_true(tl_desc_equal(&tl_experiment_config_desc, e, tl_config_value(config)));
    tl_config_free(&again);
}

/* A run of ours as the beginning: the model is its own, and so is how it knows images. */
static void test_beginning_with_another_run(void **state)
{
    (void)state;
    put_folder("pets", CLASSES("cat", "dog"), 8, 12, 3);
    put_folder("birds", CLASSES("jay", "owl", "tit"), 40, 60, 3);
    assert_ok(try_images("task.train_data.input_path=pets,task.model.backbone.type=resnet,task."
                         "model.backbone.resnet.model_id=10,task.model.backbone.resnet.depth_"
                         "multiplier=0.25,task.model.norm_activation.activation=swish"));
    assert_ok(tl_serialize_config(config, "run"));
    double mean = train->mean.items[0], stddev = train->stddev.items[2];
    // the folder, a checkpoint in it, and one in a folder in it
    static const char *const from[] = {"run", "run/ckpt-20", "run/best/ckpt-10"};
    assert_ok(tl_mkdirs("run/best"));
    for (int i = 0; i < TL_COUNT(from); i++) {
        assert_ok(try_images(tl_arena_printf(
            lab_arena, "task.train_data.input_path=birds,task.init_checkpoint=%s", from[i])));
        const tl_resnet_config *resnet = model->backbone.value;
        assert_string_equal(model->backbone.type, "resnet");
        assert_true(resnet->model_id == 10 && resnet->depth_multiplier == 0.25);
        assert_int_equal(model->norm_activation.activation, TL_ACT_SILU);
        size_is(12, 12, 3);
        assert_true(train->mean.items[0] == mean && validation->mean.items[0] == mean);
        assert_true(train->stddev.items[2] == stddev && validation->stddev.items[2] == stddev);
        assert_int_equal(model->num_classes, 3);
        assert_string_equal(task->init_checkpoint_modules, "backbone");
        assert_int_equal(task->freeze_backbone_steps, trainer->train_steps / 10);
        assert_true(task->freeze_backbone_steps > 0);
        const tl_cosine_config *rate = trainer->optimizer_config.learning_rate.value;
        assert_true(rate->initial_learning_rate.value == 0.0005);
        assert_non_null(
            strstr(tl_config_source(config, "task.model.backbone.type"), "params.yaml"));
    }
    // The same classes: the head is of use. What is given stays.
    assert_ok(try_images("task.train_data.input_path=pets,task.init_checkpoint=run,task.model."
                         "backbone.resnet.depth_multiplier=0.5,task.train_data.mean=[1,2,3]"));
    assert_string_equal(task->init_checkpoint_modules, "all");
    assert_true(((const tl_resnet_config *)model->backbone.value)->depth_multiplier == 0.5);
    assert_true(train->mean.items[0] == 1 && validation->mean.items[0] == mean);
    // Numbers that the run does not say are those of ImageNet, not those of these images.
    const char other[] = "task: {model: {backbone: {type: resnet, resnet: {model_id: 18}}}}\n";
    assert_ok(tl_mkdirs("theirs"));
    assert_ok(tl_file_write_atomic("theirs/params.yaml", other, strlen(other)));
    assert_ok(try_images("task.train_data.input_path=birds,task.init_checkpoint=theirs"));
    assert_int_equal(train->mean.count, 0);
    assert_int_equal(((const tl_resnet_config *)model->backbone.value)->model_id, 18);
    // What is no run of a backbone changes nothing.
    assert_ok(tl_file_write_atomic("theirs/params.yaml", "task: 3\n", 8));
    assert_ok(try_images("task.train_data.input_path=birds,task.init_checkpoint=theirs"));
    assert_string_equal(model->backbone.type, "cnn");
    assert_int_equal(train->mean.count, 3);
    assert_int_equal(task->freeze_backbone_steps, 0);
    assert_ok(tl_file_write_atomic("theirs/params.yaml", "task: [\n", 8));
    assert_fails(try_images("task.train_data.input_path=birds,task.init_checkpoint=theirs"),
                 TL_EINVAL, "task.init_checkpoint: theirs/params.yaml");
}

static void begin_with(const char *yaml)
{
    assert_ok(tl_mkdirs("other"));
    assert_ok(tl_file_write_atomic("other/params.yaml", yaml, strlen(yaml)));
    assert_ok(try_images("task.train_data.input_path=birds,task.init_checkpoint=other"));
    assert_int_equal(((const tl_resnet_config *)model->backbone.value)->model_id, 34);
}

/* Runs of other tasks say in other places how they know images. */
static void test_beginning_with_other_tasks(void **state)
{
    (void)state;
#define KNOWN "model: {backbone: {type: resnet, resnet: {model_id: 34}}"
    put_folder("birds", CLASSES("jay", "owl", "tit"), 40, 60, 3);
    begin_with("task: {teacher: x, student: {type: image_classification, image_classification: {"
               "train_data: {mean: [7.0], stddev: [8.0]}, " KNOWN "}}}}\n");
    assert_true(train->mean.items[0] == 7 && validation->stddev.items[0] == 8);
    begin_with("task: {" KNOWN "}, task_routines: [{task_config: {train_data: {mean: [9.0], "
               "stddev: [10.0]}}}]}\n");
    assert_true(train->mean.items[0] == 9 && validation->stddev.items[0] == 10);
    begin_with("task: {" KNOWN ", projection_head: {proj_output_dim: 4}}, train_data: {}}\n");
    assert_true(train->mean.items[0] == 0 && validation->stddev.items[0] == 255);
}

static void hear(const tl_log_record *record, void *payload)
{
    tl_str_addf(payload, "%c %s\n", *tl_level_name(record->level), record->text);
}

static void test_classes_are_told(void **state)
{
    (void)state;
    tl_str heard = TL_STR_INIT;
    int64_t handle;
    put_folder("pets", CLASSES("cat"), 20, 12, 3);
    put_folder("pets", CLASSES("dog"), 2, 12, 3);
    assert_ok(tl_log_sink_add(&handle, &(tl_log_sink){TL_LEVEL_INFO, hear, NULL, &heard}));
    assert_ok(try_images("task.train_data.input_path=pets"));
    assert_true(tl_log_sink_remove(handle));
    assert_non_null(
        strstr(tl_str_text(&heard),
               "22 images of 2 classes, in colour, 12 x 12:\n        20  cat\n         2  dog\n"));
    assert_non_null(strstr(tl_str_text(&heard),
                           "classes are of different sizes: 'cat' has 20 images and 'dog' 2."));
    tl_str_deinit(&heard);
}

static void test_mistakes(void **state)
{
    (void)state;
    assert_fails(try_images("task.train_data.input_path=nowhere"), TL_ENOTFOUND,
                 "task.train_data.input_path");
    assert_ok(tl_mkdirs("bad/a"));
    assert_ok(tl_file_write_atomic("bad/a/x.jpg", "no picture", 10));
    assert_fails(try_images("task.train_data.input_path=bad"), TL_EDATA,
                 "none of 1 images could be decoded");
    put_folder("alone", CLASSES("cat"), 4, 12, 3);
    assert_fails(try_images("task.train_data.input_path=alone"), TL_EINVAL,
                 "all images are of one class");
    // Nothing is said: nothing is found, so that the configuration can be looked at.
    assert_ok(try_images(""));
    assert_int_equal(model->num_classes, 0);
}

/* --- images that are brought down ------------------------------------------------------------- */

static const char reduced[] =
    "task:\n"
    "  model: {num_classes: 2, input_size: [8, 8, 3]}\n"
    "  evaluation: {report_mistakes: 3}\n"
    "  validation_data: {file_type: image_folder, input_path: wide, global_batch_size: 4,\n"
    "                    shorter_side: 10, center_crop_fraction: 0.9, cache: %s}\n";

/* The first batch of four images, and their names. */
static void read_batch(double *pixels, char names[4][256], const char *settings)
{
    lab_run r;
    tl_dataset *d;
    tl_ctx *c;
    bool more;
    double bytes[4 * 256];
    lab_begin(&r, "image_classification", settings);
    assert_ok(tl_task_build_inputs(r.task, r.task->config->validation_data,
                                   &(tl_input_context){.pipelines = 1, .replicas = 1}, &d));
    assert_ok(tl_ctx_new(&c, r.task->engine));
    tl_batch b = {.ctx = c};
    assert_ok(tl_dataset_next(d, c, &b.tensors, &more));
    assert_true(more);
    assert_ok(tl_tensor_get_doubles(tl_batch_get(&b, "image"), pixels, 4 * 8 * 8 * 3));
    assert_ok(tl_tensor_get_doubles(tl_batch_get(&b, TL_BATCH_NAME), bytes, TL_COUNT(bytes)));
    for (int i = 0; i < 4 * 256; i++) names[i / 256][i % 256] = (char)bytes[i];
    tl_ctx_free(&c);
    tl_dataset_free(&d);
    lab_end(&r);
}

static void test_reduced_images_are_the_same_however_they_come(void **state)
{
    (void)state;
    double kept[4 * 8 * 8 * 3], read[4 * 8 * 8 * 3];
    float alone[8 * 8 * 3];
    char names[4][256], *file;
    size_t size;
    for (int i = 0; i < 2; i++) {
        put_image(tl_arena_printf(lab_arena, "wide/a/%d.png", i), 23, 41 + i, 3, i);
        put_image(tl_arena_printf(lab_arena, "wide/b/%d.png", i), 37 + i, 19, 3, i + 7);
    }
    read_batch(kept, names, tl_arena_printf(lab_arena, reduced, "true"));
    assert_string_equal(names[3], "wide/b/1.png");
    read_batch(read, names, tl_arena_printf(lab_arena, reduced, "false"));
    assert_memory_equal(kept, read, sizeof kept);
    lab_run r;
    lab_begin(&r, "image_classification", tl_arena_printf(lab_arena, reduced, "false"));
    assert_ok(tl_file_read(&file, &size, "wide/a/0.png", 1 << 20));
    const int64_t shape[] = {8, 8, 3};
    assert_ok(tl_image_prepare(alone, (const tl_image_data_config *)r.task->config->validation_data,
                               (tl_ints){shape, 3}, file, size));
    for (int i = 0; i < 8 * 8 * 3; i++) assert_true((double)alone[i] == kept[i]);
    tl_free(file);
    lab_end(&r);
}

/* Records know what their files were called; of a long name the end is told. */
static void test_names_of_records(void **state)
{
    (void)state;
    static const size_t lengths[] = {20, 255, 256, 300};
    double pixels[4 * 8 * 8 * 3];
    char names[4][256];
    tl_tfrecord_writer *w;
    assert_ok(tl_tfrecord_writer_begin(&w, "long", NULL));
    for (int i = 0; i < 4; i++) {
        char called[512];
        memset(called, 'x', sizeof called);
        memcpy(called + lengths[i] - 8, "/cat.png", 8);
        put_record(w, i, i % 2, 3, (tl_bytes){called, lengths[i]});
    }
    assert_ok(tl_tfrecord_writer_commit(&w));
    read_batch(pixels, names,
               "task:\n"
               "  model: {num_classes: 2, input_size: [8, 8, 3]}\n"
               "  evaluation: {report_mistakes: 3}\n"
               "  validation_data: {input_path: long, global_batch_size: 4}\n");
    assert_string_equal(names[0], "xxxxxxxxxxxx/cat.png, record 0 of long");
    for (int i = 1; i < 4; i++) {
        assert_int_equal(strlen(names[i]), 255);
        assert_non_null(
            strstr(names[i], tl_arena_printf(lab_arena, "xxxxxx/cat.png, record %d of long", i)));
    }
}

/* --- what was taken for what ------------------------------------------------------------------ */

static const char *text_of(const lab_run *r, const char *name)
{
    tl_logs_entry e;
    assert_true(tl_logs_find(&e, r->logs, name));
    assert_int_equal(e.kind, TL_LOGS_TEXT);
    return e.text;
}

static void test_mistakes_are_told(void **state)
{
    (void)state;
    static const char few[] =
        "task: {evaluation: {report_mistakes: 3}, validation_data: {synthetic_examples: 50}}\n"
        "tilth: {jit: false}\n";
    static const char many[] = "task:\n"
                               "  model: {num_classes: 15}\n"
                               "  class_names: []\n"
                               "  evaluation: {report_mistakes: 2}\n"
                               "  validation_data: {synthetic_examples: 60}\n"
                               "tilth: {jit: false}\n";
    lab_run r;
    // 50 are no whole batches: what fills up the last one does not count
    lab_train(&r, "vision/local", few);
    assert_ok(tl_trainer_evaluate(r.trainer, -1, r.logs));
    assert_non_null(strstr(text_of(&r, "confusion_table"),
                           " of 50 images have a wrong answer; rows: true class"));
    assert_non_null(strstr(text_of(&r, "confusion_table"), "\n  falling "));
    const char *worst = text_of(&r, "worst_mistakes");
    int lines = 0;
    double before = 1;
    for (const char *at = worst; (at = strstr(at, "\n  0.")); at++, lines++) {
        double share = strtod(at + 3, NULL);
        assert_true(share <= before);
        before = share;
    }
    assert_int_equal(lines, 3);
    assert_non_null(strstr(worst, ": made-up image "));
    lab_end(&r);
    lab_train(&r, "vision/local", many);
    assert_ok(tl_trainer_evaluate(r.trainer, -1, r.logs));
    assert_non_null(strstr(text_of(&r, "confusion_table"),
                           " of 60 images have a wrong answer, most often:\n       4  "));
    lab_end(&r);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, lab_open, close_images)
    const struct CMUnitTest tests[] = {
        CASE(test_a_folder_is_enough),
        CASE(test_what_is_given_stays),
        CASE(test_grey_images_have_one_channel),
        CASE(test_photos_are_brought_to_one_size),
        CASE(test_a_folder_that_is_divided),
        CASE(test_records_with_a_list),
        CASE(test_idx_files),
        CASE(test_a_run_does_not_look_again),
        CASE(test_beginning_with_another_run),
        CASE(test_beginning_with_other_tasks),
        CASE(test_classes_are_told),
        CASE(test_mistakes),
        CASE(test_names_of_records),
        CASE(test_mistakes_are_told),
        CASE(test_reduced_images_are_the_same_however_they_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
