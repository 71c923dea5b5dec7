/* `tilth predict` of a detector: objects in pictures, told and drawn. */
#include "tool/tool_lab.h"

#include <jansson.h>

#include <tilth/base/alloc.h>
#include <tilth/io/image/image.h>
#include <tilth/io/image/png.h>

enum { HEIGHT = 60, WIDTH = 130 };

static void write_picture(const char *path)
{
    static uint8_t pixels[HEIGHT * WIDTH * 3];
    tl_str png = TL_STR_INIT;
    for (int i = 0; i < HEIGHT * WIDTH * 3; i++) pixels[i] = (uint8_t)(i * 7 + i / WIDTH * 31);
    assert_ok(tl_png_encode(&png, &(tl_png_image){WIDTH, HEIGHT, 3, pixels}));
    assert_ok(tl_file_write_atomic(path, tl_str_text(&png), png.length));
    tl_str_deinit(&png);
}

/* It knows nothing yet, and tells the least that it thinks. */
static void train(void)
{
    run("train", "--experiment=detection/local", "--mode=train", "--model_dir=run",
        "--progress=lines", "tilth.seed=1", "tilth.threads=1", "tilth.jit=false",
        "trainer.train_steps=2", "trainer.steps_per_loop=2", "task.train_data.synthetic_examples=4",
        "task.train_data.global_batch_size=2",
        "task.model.detection_generator.pre_nms_score_threshold=0.0",
        "task.model.detection_generator.max_num_detections=5");
    ended(0, "");
}

static void check_object(const json_t *o)
{
    const json_t *box = json_object_get(o, "box");
    double v[4];
    assert_int_equal(json_array_size(box), 4);
    for (size_t i = 0; i < 4; i++) v[i] = json_number_value(json_array_get(box, i));
    assert_true(v[0] >= 0 && v[0] <= v[2] && v[2] <= HEIGHT);
    assert_true(v[1] >= 0 && v[1] <= v[3] && v[3] <= WIDTH);
    assert_true(json_number_value(json_object_get(o, "score")) > 0);
    assert_in_range(json_integer_value(json_object_get(o, "class_id")), 1, 5);
    const char *name = json_string_value(json_object_get(o, "class"));
    assert_non_null(strstr("circle square triangle cross ring", name));
}

static void test_objects_are_told(void **state)
{
    (void)state;
    train();
    write_picture("one.png");
    run("predict", "--model_dir=run", "--json", "--score=0.0001", "one.png");
    ended(0, "");
    json_t *told = json_loads(out, 0, NULL);
    assert_non_null(told);
    assert_string_equal(json_string_value(json_object_get(told, "file")), "one.png");
    const json_t *objects = json_object_get(told, "objects");
    assert_int_equal(json_array_size(objects), 5);
    for (size_t i = 0; i < 5; i++) check_object(json_array_get(objects, i));
    json_decref(told);

    run("predict", "--model_dir=run", "--csv", "--score=0.0001", "one.png");
    ended(0, "");
    has("file,class,score,ymin,xmin,ymax,xmax\none.png,");
    run("predict", "--model_dir=run", "--score=0.99", "one.png");
    ended(0, "");
    has("one.png: nothing\n");
}

static void test_objects_are_drawn(void **state)
{
    (void)state;
    train();
    write_picture("one.png");
    put_text("two.png", "no picture");
    run("predict", "--model_dir=run", "--score=0.0001", "--pictures=drawn/here", "one.png",
        "two.png");
    ended(1, "two.png");
    char *file;
    size_t size;
    tl_image image = TL_IMAGE_INIT;
    assert_ok(tl_file_read(&file, &size, "drawn/here/one.png.png", 1 << 20));
    assert_ok(tl_image_decode(&image, file, size, NULL));
    assert_int_equal(image.height, HEIGHT);
    assert_int_equal(image.width, WIDTH);
    assert_false(tl_file_exists("drawn/here/two.png.png"));
    tl_image_deinit(&image);
    tl_free(file);
}

static void test_what_has_no_objects(void **state)
{
    (void)state;
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=run", "--progress=lines",
        "tilth.threads=1", "tilth.jit=false", "trainer.train_steps=2");
    ended(0, "");
    write_picture("one.png");
    run("predict", "--model_dir=run", "--pictures=drawn", "one.png");
    ended(2, "--pictures: this run finds neither objects nor classes of pixels");
    assert_false(tl_dir_exists("drawn"));
}

/* --- evaluations by a file of annotations ----------------------------------------------------- */

#define EVALUATED                                                                                  \
    "train", "--experiment=detection/local", "--mode=train_and_eval", "tilth.seed=1",              \
        "tilth.threads=1", "tilth.jit=false", "trainer.train_steps=2", "trainer.steps_per_loop=2", \
        "trainer.summary_interval=2", "trainer.validation_interval=2",                             \
        "task.train_data.synthetic_examples=4", "task.train_data.global_batch_size=2",             \
        "task.validation_data.file_type=tfrecord", "task.validation_data.input_path=val-*",        \
        "task.validation_data.global_batch_size=2"

/* A file that says of the same pictures that they show nothing: there is no precision then. */
static void test_the_file_of_annotations_counts(void **state)
{
    (void)state;
    json_error_t why;
    run("data", "shapes", "--count=2", "--out=val");
    ended(0, "");
    run("data", "annotations", "val-00000-of-00001.tfrecord", "--out=val.json");
    ended(0, "");
    json_t *all = json_load_file("val.json", 0, &why);
    assert_non_null(all);
    assert_int_equal(json_array_clear(json_object_get(all, "annotations")), 0);
    assert_int_equal(json_dump_file(all, "none.json", 0), 0);
    json_decref(all);
    run(EVALUATED, "--model_dir=by_records");
    ended(0, "");
    has("AP                       0.0000\n");
    run(EVALUATED, "--model_dir=by_file", "task.annotation_file=none.json");
    ended(0, "");
    has("AP                       -1.0000\n");
    run(EVALUATED, "--model_dir=refused", "task.annotation_file=other.json");
    failed(2, "task.annotation_file: evaluator 'coco_metric': cannot open 'other.json'");
    run(EVALUATED, "--model_dir=refused", "task.model.detection_generator.apply_nms=false");
    failed(2, "task.model.detection_generator.apply_nms is false: there are no detections to tell");
    run(EVALUATED, "--model_dir=refused", "task.model.head.attribute_heads=[{name: depth}]");
    failed(2, "task.train_data: decoder.simple_decoder.attribute_names lacks 'depth'");
    assert_false(tl_file_exists("refused")); // nothing is trained before
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_objects_are_told),
        TOOL_TEST(test_objects_are_drawn),
        TOOL_TEST(test_what_has_no_objects),
        TOOL_TEST(test_the_file_of_annotations_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
