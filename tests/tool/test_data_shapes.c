/* `tilth data shapes`: records and folders of made-up pictures, which say what was drawn; and the
 * detections that `tilth eval` writes for them. */
#include "tool/tool_lab.h"

#include <jansson.h>

#include <tilth/base/alloc.h>
#include <tilth/data/image_folder.h>
#include <tilth/io/coco/records.h>
#include <tilth/io/image/image.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>

#include "zoo/inner/shapes.h"

enum { SIDE = TLI_SHAPES_SIDE };

/* --- records ---------------------------------------------------------------------------------- */

static tl_image picture_of(const tl_tfrecord *r, const char *name, int channels)
{
    tl_image image = TL_IMAGE_INIT;
    tl_feature f;
    tl_bytes bytes;
    assert_ok(tl_example_find(&f, &name, 1, r->data, r->size));
    assert_ok(tl_feature_bytes(&f, name, &bytes, 1));
    assert_ok(
        tl_image_decode(&image, bytes.data, bytes.size, &(tl_image_args){.channels = channels}));
    assert_true(image.height == SIDE && image.width == SIDE);
    return image;
}

/* Pictures and classes of pixels are those that were drawn, byte by byte. */
static void check_pixels(const char *path, int64_t first, int64_t every)
{
    static tli_shapes made;
    tl_tfrecord_file *file;
    tl_tfrecord r;
    bool more;
    assert_ok(tl_tfrecord_open(&file, path, NULL));
    tl_tfrecord_cursor at = {.file = file};
    for (int64_t i = first;; i += every) {
        assert_ok(tl_tfrecord_next(&at, &r, &more));
        if (!more) break;
        tli_shapes_make(&made, 7, i);
        tl_image picture = picture_of(&r, "image/encoded", 3);
        assert_memory_equal(picture.pixels, made.pixels, sizeof made.pixels);
        tl_image_deinit(&picture);
        picture = picture_of(&r, "image/segmentation/class/encoded", 1);
        assert_memory_equal(picture.pixels, made.labels, sizeof made.labels);
        tl_image_deinit(&picture);
    }
    tl_tfrecord_close(&file);
}

static void check_object(const tl_coco_object *o, const tli_shapes *made, int64_t k)
{
    static uint8_t mask[TLI_SHAPES_PIXELS];
    const float *box = made->boxes[k];
    const double wanted[] = {box[1], box[0], box[3] - box[1], box[2] - box[0]};
    assert_int_equal(o->category, made->classes[k]);
    assert_true(o->area == (double)made->areas[k] && !o->crowd);
    for (int i = 0; i < 4; i++) assert_near(o->box[i], wanted[i], 1e-4);
    tl_rle_to_pixels(mask, &o->mask);
    assert_memory_equal(mask, made->masks[k], sizeof mask);
}

static void test_records_say_what_was_drawn(void **state)
{
    (void)state;
    static tli_shapes made;
    tl_coco_set *set;
    run("data", "shapes", "--out=a/s", "--count=5", "--seed=7", "--masks", "--shards=2");
    went_well();
    has("wrote 5 examples to a/s-00000-of-00002.tfrecord ... s-00001-of-00002.tfrecord\n");
    check_pixels("a/s-00000-of-00002.tfrecord", 0, 2);
    check_pixels("a/s-00001-of-00002.tfrecord", 1, 2);
    run("data", "annotations", "a/s-00000-of-00002.tfrecord", "a/s-00001-of-00002.tfrecord",
        "--masks", "--out=a/truths.json");
    went_well();
    assert_ok(tl_coco_read(&set, "a/truths.json", true));
    assert_int_equal(set->images.count, 5);
    int64_t at = 0;
    for (int64_t i = 0; i < set->images.count; i++) {
        tli_shapes_make(&made, 7, set->images.items[i].id - 1);
        for (int64_t k = 0; k < made.count; k++, at++)
            check_object(&set->objects.items[at], &made, k);
    }
    assert_int_equal(at, set->objects.count);
    tl_coco_set_free(&set);
}

/* Classes are numbered as they are named. */
static void test_other_kinds(void **state)
{
    (void)state;
    tl_coco_set *set;
    bool seen[4] = {false};
    run("data", "shapes", "--out=b", "--count=12", "--kinds=corner,circle,star");
    went_well();
    const char *path = "b-00000-of-00001.tfrecord";
    assert_ok(tl_coco_from_records(&set, &(tl_coco_records_args){.paths = {&path, 1}}));
    assert_int_equal(set->categories.count, 3);
    assert_string_equal(set->categories.items[0].name, "corner");
    assert_string_equal(set->categories.items[1].name, "circle");
    assert_string_equal(set->categories.items[2].name, "star");
    for (int64_t i = 0; i < set->objects.count; i++) {
        assert_in_range(set->objects.items[i].category, 1, 3);
        seen[set->objects.items[i].category] = true;
    }
    assert_true(seen[1] && seen[2] && seen[3]);
    tl_coco_set_free(&set);
}

/* --- folders ---------------------------------------------------------------------------------- */

/* Areas of kinds are those of geometry. With one seed, pictures of two kinds differ in the kind
 * alone. */
static void test_kinds_have_their_areas(void **state)
{
    (void)state;
    enum { PICTURES = 300, MARGIN = 3 }; // corners of a square reach as far beyond a circle
    static tli_shapes made;
    static const double areas[] = {0,       3.14159, 2.56,    1.29904, 2.04, 2.19911,
                                   1.12257, 1.52947, 1.57080, 1.3,     1.35};
    static bool whole[PICTURES];
    double of_circles = 0;
    for (int32_t kind = 1; kind <= TLI_SHAPES_ALL_KINDS; kind++) {
        const tli_shapes_args args = {.seed = 5, .most = 1, .kinds = {kind}, .kind_count = 1};
        double sum = 0;
        for (int64_t i = 0; i < PICTURES; i++) {
            tli_shapes_make_of(&made, &args, i);
            const float *box = made.boxes[0];
            assert_true(made.count == 1 && made.classes[0] == kind);
            if (kind == 1)
                whole[i] = box[0] >= MARGIN && box[1] >= MARGIN && box[2] <= SIDE - MARGIN
                           && box[3] <= SIDE - MARGIN;
            if (whole[i]) sum += (double)made.areas[0];
        }
        if (kind == 1) of_circles = sum;
        double ratio = sum / of_circles * areas[1] / areas[kind];
        if (ratio < 0.985 || ratio > 1.015)
            fail_msg("%s: %g of its area", tli_shape_names[kind], ratio);
    }
}

static void test_folders(void **state)
{
    (void)state;
    static tli_shapes made;
    tl_image_folder list;
    run("data", "shapes", "--out=c/d", "--count=7", "--seed=3", "--kinds=star,arrow", "--folders");
    went_well();
    has("wrote 7 pictures of 2 kinds to c/d\n");
    assert_ok(tl_image_folder_list(&list, lab_arena, &(tl_image_folder_args){.path = "c/d"}));
    assert_int_equal(list.count, 7);
    assert_int_equal(list.class_count, 2);
    assert_string_equal(list.classes[0], "arrow");
    char *file;
    size_t size;
    tl_image image = TL_IMAGE_INIT;
    assert_ok(tl_file_read(&file, &size, "c/d/arrow/00004.png", 1 << 20));
    assert_ok(tl_image_decode(&image, file, size, NULL));
    const tli_shapes_args args = {.seed = 3, .most = 1, .kinds = {9}, .kind_count = 1};
    tli_shapes_make_of(&made, &args, 3);
    assert_memory_equal(image.pixels, made.pixels, sizeof made.pixels);
    tl_image_deinit(&image);
    tl_free(file);
    run("data", "shapes", "--out=c/d", "--folders");
    failed(2, "'c/d' exists; name a new folder");
    run("data", "shapes", "--out=c/e", "--folders", "--masks");
    failed(2, "--masks, --gzip, --overwrite and --shards are for records");
}

static void test_what_is_refused(void **state)
{
    (void)state;
    run("data", "shapes");
    failed(2, "`shapes` needs --out");
    run("data", "shapes", "--out=x", "more");
    failed(2, "'more' is one word too many");
    run("data", "shapes", "--out=x", "--kinds=star,moon");
    failed(2, "--kinds: there is no 'moon'; there are circle, square, triangle, cross, ring, star, "
              "crescent, half, arrow, corner");
    run("data", "shapes", "--out=x", "--kinds=star,star");
    failed(2, "--kinds: 'star' is named twice");
    run("data", "shapes", "--out=x", "--count=0");
    ended(2, "count");
}

/* --- detections of an evaluation -------------------------------------------------------------- */

static double metric_of(const json_t *told, const char *name)
{
    const json_t *value = json_object_get(json_object_get(told, "metrics"), name);
    assert_non_null(value);
    return json_number_value(value);
}

/* The numbers of `eval` are those of its file, and the pictures of records are those that are made
 * up while it evaluates. */
static void test_detections_of_an_evaluation(void **state)
{
    (void)state;
    run("train", "--experiment=detection/local", "--mode=train", "--model_dir=run",
        "--progress=lines", "tilth.seed=1", "tilth.threads=1", "tilth.jit=false",
        "trainer.train_steps=2", "trainer.steps_per_loop=2", "task.train_data.synthetic_examples=4",
        "task.train_data.global_batch_size=2",
        "task.model.detection_generator.pre_nms_score_threshold=0.0");
    ended(0, "");
    run("data", "shapes", "--out=val", "--count=6", "--seed=2");
    went_well();
    run("data", "annotations", "val-00000-of-00001.tfrecord", "--out=truths.json");
    went_well();
    run("eval", "--model_dir=run", "--json", "task.validation_data.synthetic_examples=6");
    ended(0, "");
    json_t *made_up = json_loads(out, 0, NULL);
    run("eval", "--model_dir=run", "--json", "--detections=found.json",
        "task.validation_data.file_type=tfrecord",
        "task.validation_data.input_path=val-00000-of-00001.tfrecord");
    ended(0, "");
    json_t *read = json_loads(out, 0, NULL);
    run("eval_coco", "truths.json", "found.json", "--json");
    ended(0, "");
    json_t *counted = json_loads(out, 0, NULL);
    static const char *const names[] = {"AP",     "AP50",    "AP75",     "APs", "APm", "APl",
                                        "ARmax1", "ARmax10", "ARmax100", "ARs", "ARm", "ARl"};
    const json_t *stats = json_object_get(counted, "stats");
    assert_int_equal(json_array_size(stats), TL_COUNT(names));
    for (size_t i = 0; i < TL_COUNT(names); i++) {
        assert_near(metric_of(read, names[i]), json_number_value(json_array_get(stats, i)), 1e-6);
        assert_near(metric_of(read, names[i]), metric_of(made_up, names[i]), 1e-6);
    }
    assert_true(metric_of(read, "ARmax100") > 0); // something was compared
    assert_int_equal(json_integer_value(json_object_get(counted, "images")), 6);
    assert_true(json_integer_value(json_object_get(counted, "detections")) > 0);
    json_decref(made_up);
    json_decref(read);
    json_decref(counted);
    run("eval", "--model_dir=run", "--detections=found.json", "task.use_coco_metrics=false",
        "task.validation_data.synthetic_examples=2");
    ended(2, "--detections: task.use_coco_metrics is false");
}

static void test_what_has_no_detections(void **state)
{
    (void)state;
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=run", "--progress=lines",
        "tilth.threads=1", "tilth.jit=false", "trainer.train_steps=2");
    ended(0, "");
    run("eval", "--model_dir=run", "--detections=found.json");
    ended(2, "--detections: the task ");
    assert_false(tl_file_exists("found.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_records_say_what_was_drawn),
        TOOL_TEST(test_other_kinds),
        TOOL_TEST(test_kinds_have_their_areas),
        TOOL_TEST(test_folders),
        TOOL_TEST(test_what_is_refused),
        TOOL_TEST(test_detections_of_an_evaluation),
        TOOL_TEST(test_what_has_no_detections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
