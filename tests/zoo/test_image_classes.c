/* Classes of image data: one numbering for training and validation, names from folders and from
 * lists beside records; parts that are held out; images that are damaged or lie on their side. */
#include "zoo/zoo_lab.h"

#include <tilth/io/tensorflow/example.h>
#include <tilth/io/image/jpeg.h>
#include <tilth/io/image/png.h>
#include <tilth/io/tensorflow/tfrecord.h>

enum { SIDE = 8, MOST = 64 };

/* --- data ------------------------------------------------------------------------------------- */

/* An image whose pixels all have the value of its number. */
static tl_str png_of(int number)
{
    uint8_t pixels[SIDE * SIDE];
    tl_str out = TL_STR_INIT;
    memset(pixels, number, sizeof pixels);
    assert_ok(tl_png_encode(&out, &(tl_png_image){SIDE, SIDE, 1, pixels}));
    return out;
}

static void put_bytes(const char *path, const char *data, size_t size)
{
    assert_ok(tl_mkdirs(tl_path_dirname(lab_arena, path)));
    assert_ok(tl_file_write_atomic(path, data, size));
}

static void put_image(const char *path, int number)
{
    tl_str png = png_of(number);
    put_bytes(path, png.data, png.length);
    tl_str_deinit(&png);
}

static void put_record(tl_tfrecord_writer *w, const tl_str *image, int64_t label, const char *name)
{
    tl_str example = TL_STR_INIT;
    tl_example_writer e = tl_example_begin(&example);
    tl_example_add_bytes(&e, "image/encoded", &(tl_bytes){image->data, image->length}, 1);
    tl_example_add_ints(&e, "image/class/label", &label, 1);
    if (name) tl_example_add_text(&e, "image/filename", name);
    assert_ok(tl_example_end(&e));
    assert_ok(tl_tfrecord_write(w, example.data, example.length));
    tl_str_deinit(&example);
}

/* Images 0 to count - 1, of the classes 0, 1, 2 in turn; `bad` is none that can be decoded. */
static void put_records(const char *path, int count, int bad)
{
    tl_tfrecord_writer *w;
    char name[32];
    assert_ok(tl_mkdirs(tl_path_dirname(lab_arena, path)));
    assert_ok(tl_tfrecord_writer_begin(&w, path, NULL));
    for (int i = 0; i < count; i++) {
        tl_str png = png_of(i);
        if (i == bad) tl_str_cut(&png, png.length / 2);
        snprintf(name, sizeof name, "picture%d.png", i);
        put_record(w, &png, i % 3, name);
        tl_str_deinit(&png);
    }
    assert_ok(tl_tfrecord_writer_commit(&w));
}

/* --- what comes out --------------------------------------------------------------------------- */

typedef struct pass {
    int count, images[MOST], labels[MOST]; /* pixels' value, class */
} pass;

static tl_status open_data(lab_run *r, bool training, tl_dataset **out)
{
    const tl_task_config *c = r->task->config;
    return tl_task_build_inputs(r->task, training ? c->train_data : c->validation_data,
                                &(tl_input_context){.pipelines = 1, .replicas = 1, .seed = 3}, out);
}

static tl_status read_batches(lab_run *r, tl_dataset *d, pass *out, int most)
{
    tl_ctx *c;
    tl_status st = TL_OK;
    assert_ok(tl_ctx_new(&c, r->task->engine));
    for (bool more = true; st == TL_OK && out->count < most;) {
        double labels[MOST], *pixels = tl_alloc(sizeof(double) * MOST * SIDE * SIDE);
        tl_mark mark = tl_ctx_begin(c);
        tl_batch b = {.ctx = c};
        assert_non_null(pixels);
        st = tl_dataset_next(d, c, &b.tensors, &more);
        int64_t size = st == TL_OK && more ? tl_batch_size(&b) : 0;
        if (size) {
            assert_ok(tl_tensor_get_doubles(tl_batch_get(&b, "image"), pixels, size * SIDE * SIDE));
            assert_ok(tl_tensor_get_doubles(tl_batch_get(&b, "label"), labels, size));
        }
        for (int64_t i = 0; i < size && out->count < MOST; i++) {
            out->images[out->count] = (int)(pixels[i * SIDE * SIDE] + 0.5);
            out->labels[out->count++] = (int)labels[i];
        }
        tl_ctx_end(c, mark);
        tl_free(pixels);
        if (!more) break;
    }
    tl_ctx_free(&c);
    return st;
}

/* All that data of this task gives, bytes as they are; `training` once around. */
static tl_status read_pass(pass *out, const char *yaml, bool training, int most)
{
    lab_run r;
    tl_dataset *d = NULL;
    *out = (pass){0};
    lab_begin(&r, "image_classification", yaml);
    tl_status st = open_data(&r, training, &d);
    if (st == TL_OK) st = read_batches(&r, d, out, most);
    tl_dataset_free(&d);
    lab_end(&r);
    return st;
}

#define COMMON                                                                                     \
    "global_batch_size: 4, mean: [0], stddev: [1], center_crop_fraction: 1.0, aug_crop: false, "   \
    "aug_rand_hflip: false"
#define TASK(model, train, validation)                                                             \
    "task: {model: {" model ", input_size: [8, 8, 1]}, train_data: {" COMMON ", " train "}, "      \
    "validation_data: {" COMMON ", " validation "}}"
#define FOLDER(path) "file_type: image_folder, input_path: " path

static void fails_with(const char *yaml, bool training, const char *message)
{
    pass p;
    assert_int_not_equal(read_pass(&p, yaml, training, MOST), TL_OK);
    if (!strstr(tl_error_message(), message))
        fail_msg("'%s' lacks '%s'", tl_error_message(), message);
}

static int64_t warnings;
static char last_warning[512];
static void keep_warning(const tl_log_record *record, void *payload)
{
    (void)payload;
    warnings++;
    snprintf(last_warning, sizeof last_warning, "%s", record->text);
}

static int64_t listen(void)
{
    int64_t handle;
    warnings = 0;
    assert_ok(tl_log_sink_add(
        &handle, &(tl_log_sink){.min_level = TL_LEVEL_WARNING, .write = keep_warning}));
    return handle;
}

/* --- one numbering ---------------------------------------------------------------------------- */

static void put_folders(void)
{
    put_image("train/ant/1.png", 11);
    put_image("train/bee/1.png", 21);
    put_image("train/cat/1.png", 31);
    put_image("valid/bee/1.png", 22); // no ant: its own numbering would begin with bee
    put_image("valid/cat/1.png", 32);
}

static void validation_has_the_numbers_of_training(void **state)
{
    (void)state;
    pass p;
    put_folders();
    int64_t handle = listen();
    assert_ok(read_pass(&p, TASK("num_classes: 3", FOLDER("train"), FOLDER("valid")), false, MOST));
    tl_log_sink_remove(handle);
    assert_int_equal(p.count, 2);
    assert_true(p.images[0] == 22 && p.labels[0] == 1);
    assert_true(p.images[1] == 32 && p.labels[1] == 2);
    assert_int_equal(warnings, 1);
    assert_string_equal(last_warning, "'valid' has no folder for the class 'ant'");
    // Names that are given say the numbers of both.
    const char *given =
        "task: {class_names: [cat, bee, ant], model: {num_classes: 3, input_size: [8, 8, 1]}, "
        "train_data: {" COMMON ", " FOLDER("train") "}, validation_data: {" COMMON
                                                    ", " FOLDER("valid") "}}";
    assert_ok(read_pass(&p, given, false, MOST));
    // class after class, in the order of the list
    assert_true(p.images[0] == 32 && p.labels[0] == 0);
    assert_true(p.images[1] == 22 && p.labels[1] == 1);
}

static void classes_that_do_not_agree_are_errors(void **state)
{
    (void)state;
    put_folders();
    fails_with(TASK("num_classes: 2", FOLDER("train"), FOLDER("valid")), true,
               "the data has 3 classes (ant, bee, cat), and task.model.num_classes is 2: set "
               "task.model.num_classes=3");
    fails_with(TASK("num_classes: 4", FOLDER("train"), FOLDER("valid")), true, "num_classes=3");
    fails_with(TASK("num_classes: 3", FOLDER("nope"), FOLDER("valid")), false,
               "task.train_data.input_path: 'nope' does not exist");
    fails_with(TASK("num_classes: 3", FOLDER("train"), FOLDER("nope")), false,
               "task.validation_data.input_path: 'nope' does not exist");
    fails_with(TASK("num_classes: 3", "input_path: train", FOLDER("valid")), true,
               "'train' is a folder, and file_type is tfrecord: for a folder of images set "
               "task.train_data.file_type=image_folder");
    put_image("valid/dog/1.png", 1);
    fails_with(TASK("num_classes: 3", FOLDER("train"), FOLDER("valid")), false,
               "task.validation_data.input_path: the folder 'valid/dog' is no class: there are "
               "ant, bee, cat");
}

static void names_of(lab_run *r, const char *wanted)
{
    tl_strings names;
    tl_str text = TL_STR_INIT;
    assert_ok(tl_image_task_classes(r->task, &names));
    for (int64_t i = 0; i < names.count; i++) tl_str_addf(&text, "%s,", names.items[i]);
    assert_string_equal(tl_str_text(&text), wanted);
    tl_str_deinit(&text);
}

static void tasks_know_their_classes(void **state)
{
    (void)state;
    lab_run r;
    put_folders();
    lab_begin(&r, "image_classification", TASK("num_classes: 3", FOLDER("train"), FOLDER("valid")));
    names_of(&r, "ant,bee,cat,");
    lab_end(&r);
    lab_begin(&r, "vision/local", NULL);
    names_of(&r, "horizontal,falling,vertical,rising,");
    lab_end(&r);
    put_records("rec/train-00000-of-00001", 6, -1);
    put_records("rec/valid-00000-of-00001", 6, -1);
    const char *records =
        TASK("num_classes: 3", "input_path: 'rec/train*'", "input_path: 'rec/valid*'");
    lab_begin(&r, "image_classification", records);
    names_of(&r, "");
    lab_end(&r);
    // is matched by the pattern, and is no record
    put_bytes("rec/train.classes.txt", "x\ny\nz\n", 6);
    put_bytes("rec/valid.classes.txt", "x\ny\n", 4);
    pass p;
    assert_ok(read_pass(&p, records, true, 6));
    assert_ok(read_pass(&p, records, false, MOST));
    assert_int_equal(p.count, 6);
    lab_begin(&r, "image_classification", records);
    names_of(&r, "x,y,z,");
    lab_end(&r);
    // Numbers in records are what they are: a list that has others is an error, and so is one of
    // another length.
    put_bytes("rec/valid.classes.txt", "y\nz\n", 4);
    fails_with(records, false,
               "class 0 is 'y' in the list beside the records, and 'x' in training");
    put_bytes("rec/train.classes.txt", "x\ny\n", 4);
    fails_with(records, true, "the data has 2 classes (x, y), and task.model.num_classes is 3");
}

/* What a run has stored serves when the folder of training is gone. */
static void stored_names_go_before_folders(void **state)
{
    (void)state;
    static const char *const stored[] = {"ant", "bee", "cat"}, *const others[] = {"ant"};
    lab_run r;
    tl_dataset *d;
    pass p = {0};
    put_folders();
    lab_begin(&r, "image_classification", TASK("num_classes: 3", FOLDER("gone"), FOLDER("valid")));
    assert_ok(tl_image_task_set_classes(r.task, (tl_strings){stored, 3}));
    names_of(&r, "ant,bee,cat,");
    assert_ok(open_data(&r, false, &d));
    assert_ok(read_batches(&r, d, &p, MOST));
    assert_int_equal(p.labels[0], 1);
    tl_dataset_free(&d);
    lab_end(&r);
    lab_begin(&r, "vision/local", NULL);
    assert_fails(tl_image_task_set_classes(r.task, (tl_strings){others, 1}), TL_EINVAL,
                 "class 0 is 'ant', and task.class_names calls it 'horizontal'");
    lab_end(&r);
}

/* --- what is held out ------------------------------------------------------------------------- */

#define HELD(path) path ", holdout: 0.3"

static void check_division(const char *yaml, int count)
{
    pass train, held;
    bool seen[MOST] = {false};
    assert_ok(read_pass(&held, yaml, false, MOST));
    assert_in_range(held.count, 3, count / 2);
    assert_ok(read_pass(&train, yaml, true, count - held.count)); // the first time around
    for (int i = 0; i < held.count; i++) {
        assert_false(seen[held.images[i]]);
        seen[held.images[i]] = true;
    }
    for (int i = 0; i < train.count && i < count - held.count; i++) {
        assert_false(seen[train.images[i]]);
        seen[train.images[i]] = true;
    }
    for (int i = 0; i < count; i++) assert_true(seen[i]);
}

static void content_divides_folders_and_records(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    pass folder, records;
    char path[64];
    put_records("all.tfrecord", COUNT, -1);
    for (int i = 0; i < COUNT; i++) {
        snprintf(path, sizeof path, "all/%c/%02d.png", 'a' + i % 3, i);
        put_image(path, i);
    }
    check_division(TASK("num_classes: 3", HELD(FOLDER("all")), HELD(FOLDER("all"))), COUNT);
    check_division(
        TASK("num_classes: 3", HELD("input_path: all.tfrecord"), HELD("input_path: all.tfrecord")),
        COUNT);
    check_division(TASK("num_classes: 3", HELD("cache: true, input_path: all.tfrecord"),
                        HELD("cache: true, input_path: all.tfrecord")),
                   COUNT);
    // An image is on the same side in both, in whatever order.
    assert_ok(read_pass(&folder, TASK("num_classes: 3", HELD(FOLDER("all")), HELD(FOLDER("all"))),
                        false, MOST));
    assert_ok(read_pass(
        &records,
        TASK("num_classes: 3", HELD("input_path: all.tfrecord"), HELD("input_path: all.tfrecord")),
        false, MOST));
    assert_int_equal(folder.count, records.count);
    for (int i = 0; i < folder.count; i++) {
        bool found = false;
        for (int k = 0; k < records.count; k++) found |= records.images[k] == folder.images[i];
        assert_true(found);
    }
}

/* --- damaged images --------------------------------------------------------------------------- */

static void damaged_pictures_are_named_or_left_out(void **state)
{
    (void)state;
    pass p;
    put_records("bad.tfrecord", 10, 7);
#define BAD(more)                                                                                  \
    TASK("num_classes: 3", "input_path: bad.tfrecord" more, "input_path: bad.tfrecord" more)
    fails_with(BAD(""), false,
               " of 'bad.tfrecord': the picture 'picture7.png': reading a PNG image: ");
    fails_with(BAD(", cache: true"), false,
               " of 'bad.tfrecord': the picture 'picture7.png': reading a PNG image: ");
    for (int cached = 0; cached < 2; cached++) {
        int64_t handle = listen();
        const char *yaml = cached ? BAD(", skip_bad: true, cache: true") : BAD(", skip_bad: true");
        assert_ok(read_pass(&p, yaml, false, MOST));
        tl_log_sink_remove(handle);
        assert_int_equal(p.count, 9);
        for (int i = 0; i < 9; i++) assert_int_equal(p.images[i], i < 7 ? i : i + 1);
        assert_int_equal(warnings, 1);
        assert_non_null(strstr(last_warning,
                               "task.validation_data, skip_bad: left out: record 7 of "
                               "'bad.tfrecord': the picture 'picture7.png': reading a PNG image"));
        assert_ok(read_pass(&p, yaml, true, 40)); // pass after pass
        for (int i = 0; i < p.count; i++) assert_int_not_equal(p.images[i], 7);
    }
    put_image("mixed/a/1.png", 1);
    put_bytes("mixed/a/2.jpg", "hello", 5);
#define MIXED(more) TASK("num_classes: 1", FOLDER("mixed") more, FOLDER("mixed") more)
    fails_with(MIXED(""), false, "mixed/a/2.jpg': these 5 bytes are no image");
    assert_ok(read_pass(&p, MIXED(", skip_bad: true"), false, MOST));
    assert_int_equal(p.count, 1);
}

static void empty_files_of_records_are_told(void **state)
{
    (void)state;
    pass p;
    put_records("some/a", 6, -1);
    put_bytes("some/b", "", 0);
    put_bytes("none/a", "", 0);
    put_bytes("none/b", "", 0);
    int64_t handle = listen();
    assert_ok(read_pass(&p, TASK("num_classes: 3", "input_path: 'some/*'", "input_path: 'some/*'"),
                        false, MOST));
    tl_log_sink_remove(handle);
    assert_int_equal(p.count, 6);
    assert_string_equal(
        last_warning, "1 of 2 files of records is empty: 'some/b' has 0 bytes. Was it cut short?");
    fails_with(TASK("num_classes: 3", "input_path: 'some/b'", "input_path: 'some/b'"), true,
               "task.train_data.input_path: 'some/b' is empty: it has 0 bytes");
    fails_with(TASK("num_classes: 3", "input_path: 'none/*'", "input_path: 'none/*'"), false,
               "task.validation_data.input_path: all 2 files are empty");
}

/* --- images that lie on their side ------------------------------------------------------------ */

/* A JPEG that is dark above and bright below when it is seen upright, stored on its side. */
static tl_str turned_jpeg(void)
{
    static const char exif[] = "\xff\xe1\0\x22"
                               "Exif\0\0"
                               "II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0";
    uint8_t pixels[SIDE * SIDE];
    tl_str plain = TL_STR_INIT, out = TL_STR_INIT;
    // columns become rows
    for (int i = 0; i < SIDE * SIDE; i++) pixels[i] = i % SIDE < SIDE / 2 ? 20 : 220;
    assert_ok(tl_jpeg_encode(&plain, &(tl_image){SIDE, SIDE, 1, pixels, 0}, NULL));
    tl_str_addn(&out, plain.data, 2);
    tl_str_addn(&out, exif, 36);
    tl_str_addn(&out, plain.data + 2, plain.length - 2);
    tl_str_deinit(&plain);
    return out;
}

static bool is_upright(const float *pixels)
{
    return pixels[SIDE - 1] < 100 && pixels[SIDE * (SIDE - 1)] > 150;
}

static void folders_are_turned_and_records_are_not(void **state)
{
    (void)state;
    tl_str jpeg = turned_jpeg();
    tl_tfrecord_writer *w;
    put_bytes("side/a/1.jpg", jpeg.data, jpeg.length);
    assert_ok(tl_tfrecord_writer_begin(&w, "side.tfrecord", NULL));
    put_record(w, &jpeg, 0, NULL);
    assert_ok(tl_tfrecord_writer_commit(&w));
    static const struct {
        const char *data;
        bool upright;
    } cases[] = {
        {FOLDER("side"), true},
        {FOLDER("side") ", cache: true", true},
        {FOLDER("side") ", exif_orientation: false", false},
        {"input_path: side.tfrecord", false}, // as Model Garden decodes
        {"input_path: side.tfrecord, exif_orientation: true", true},
        {"input_path: side.tfrecord, exif_orientation: true, cache: true", true},
    };
    for (int i = 0; i < TL_COUNT(cases); i++) {
        char yaml[1024];
        snprintf(yaml, sizeof yaml,
                 "task: {model: {num_classes: 1, input_size: [8, 8, 1]}, train_data: {}, "
                 "validation_data: {" COMMON ", %s}}",
                 cases[i].data);
        lab_run r;
        tl_dataset *d;
        tl_ctx *c;
        lab_begin(&r, "image_classification", yaml);
        assert_ok(open_data(&r, false, &d));
        assert_ok(tl_ctx_new(&c, r.task->engine));
        tl_mark mark = tl_ctx_begin(c);
        tl_batch b = {.ctx = c};
        bool more = true;
        float pixels[SIDE * SIDE];
        assert_ok(tl_dataset_next(d, c, &b.tensors, &more));
        assert_ok(tl_tensor_get(tl_batch_get(&b, "image"), pixels, sizeof pixels));
        assert_int_equal(is_upright(pixels), cases[i].upright);
        // A single file is turned unless that is forbidden.
        const tl_image_data_config *data =
            (const tl_image_data_config *)r.task->config->validation_data;
        const int64_t size[] = {SIDE, SIDE, 1};
        assert_ok(tl_image_prepare(pixels, data, (tl_ints){size, 3}, jpeg.data, jpeg.length));
        assert_int_equal(is_upright(pixels),
                         !data->exif_orientation.set || data->exif_orientation.value);
        tl_ctx_end(c, mark);
        tl_ctx_free(&c);
        tl_dataset_free(&d);
        lab_end(&r);
    }
    tl_str_deinit(&jpeg);
}

/* --- configurations --------------------------------------------------------------------------- */

static void settings_that_cannot_be_are_refused(void **state)
{
    (void)state;
    tl_config *c;
    assert_fails(lab_parse(&c, "vision/local", "task: {train_data: {holdout: 0.1}}"), TL_EINVAL,
                 "file_type synthetic makes examples of its own");
    assert_fails(lab_parse(&c, "image_classification", "task: {train_data: {holdout: 1.0}}"),
                 TL_EINVAL, "holdout");
    assert_fails(lab_parse(&c, "image_classification",
                           "task: {train_data: {skip_bad: true, sampler: {shuffle: true}}}"),
                 TL_EINVAL, "skip_bad");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(validation_has_the_numbers_of_training),
        LAB_TEST(classes_that_do_not_agree_are_errors),
        LAB_TEST(tasks_know_their_classes),
        LAB_TEST(stored_names_go_before_folders),
        LAB_TEST(content_divides_folders_and_records),
        LAB_TEST(damaged_pictures_are_named_or_left_out),
        LAB_TEST(empty_files_of_records_are_told),
        LAB_TEST(folders_are_turned_and_records_are_not),
        LAB_TEST(settings_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
