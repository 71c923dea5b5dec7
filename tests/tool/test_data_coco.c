/* `tilth data coco`: its records beside those of Model Garden's create_coco_tf_record
 * (tests/golden/coco_records.py made them), and what it refuses. */
#include "io/folder.h"

#include <tilth/data/draw.h>
#include <tilth/io/coco/annotations.h>
#include <tilth/io/image/png.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>

#include "tool/tool_run.h"

#define GOLDEN TEST_DATA "/golden/coco_records/"

static int teardown(void **state)
{
    (void)state;
    char command[128];
    tool_forget();
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

#define coco(...) run("data", "coco", __VA_ARGS__)

/* --- beside the original ---------------------------------------------------------------------- */

static void same_pixels(tl_bytes a, tl_bytes b)
{
    tl_png_image x, y;
    assert_ok(tl_png_decode(&x, a.data, a.size, 0, 1 << 20));
    assert_ok(tl_png_decode(&y, b.data, b.size, 0, 1 << 20));
    assert_true(x.height == y.height && x.width == y.width && x.channels == 1 && y.channels == 1);
    assert_memory_equal(x.pixels, y.pixels, (size_t)(x.height * x.width));
    tl_free(x.pixels);
    tl_free(y.pixels);
}

// Bytes of masks are those of another encoder; all other values are the same, bit by bit.
static void same_values(const tl_feature *a, const tl_feature *b, const char *name)
{
    enum { MOST = 8 };
    assert_true(a->kind == b->kind && a->count == b->count && a->count <= MOST);
    if (a->kind == TL_FEATURE_BYTES) {
        tl_bytes x[MOST], y[MOST];
        assert_ok(tl_feature_bytes(a, name, x, a->count));
        assert_ok(tl_feature_bytes(b, name, y, b->count));
        for (int64_t i = 0; i < a->count; i++) {
            if (strcmp(name, "image/object/mask") == 0) {
                same_pixels(x[i], y[i]);
                continue;
            }
            assert_int_equal(x[i].size, y[i].size);
            assert_memory_equal(x[i].data, y[i].data, x[i].size);
        }
    } else if (a->kind == TL_FEATURE_FLOATS) {
        float x[MOST], y[MOST];
        assert_ok(tl_feature_floats(a, name, x, a->count));
        assert_ok(tl_feature_floats(b, name, y, b->count));
        assert_memory_equal(x, y, (size_t)a->count * sizeof *x);
    } else {
        int64_t x[MOST], y[MOST];
        assert_ok(tl_feature_ints(a, name, x, a->count));
        assert_ok(tl_feature_ints(b, name, y, b->count));
        assert_memory_equal(x, y, (size_t)a->count * sizeof *x);
    }
}

static int64_t features_of(const tl_tfrecord *r)
{
    tl_example_reader in = tl_example_read(r->data, r->size);
    tl_feature f;
    int64_t count = 0;
    for (bool more = true;; count++) {
        assert_ok(tl_example_next(&in, &f, &more));
        if (!more) return count;
    }
}

static void same_record(const tl_tfrecord *a, const tl_tfrecord *b, const char *without)
{
    tl_example_reader in = tl_example_read(b->data, b->size);
    tl_feature ours, theirs;
    int64_t count = 0;
    for (bool more = true;;) {
        char text[100];
        const char *name = text;
        assert_ok(tl_example_next(&in, &theirs, &more));
        if (!more) break;
        snprintf(text, sizeof text, "%.*s", (int)theirs.name.size, theirs.name.data);
        if (without && strcmp(text, without) == 0) continue;
        assert_ok(tl_example_find(&ours, &name, 1, a->data, a->size));
        same_values(&ours, &theirs, name);
        count++;
    }
    assert_int_equal(features_of(a), count);
}

static int64_t same_records(const char *a, const char *b, const char *without)
{
    tl_tfrecord_file *ours, *theirs;
    assert_ok(tl_tfrecord_open(&ours, a, NULL));
    assert_ok(tl_tfrecord_open(&theirs, b, NULL));
    tl_tfrecord_cursor x = {.file = ours}, y = {.file = theirs};
    int64_t count = 0;
    for (;; count++) {
        tl_tfrecord r, s;
        bool more, also;
        assert_ok(tl_tfrecord_next(&x, &r, &more));
        assert_ok(tl_tfrecord_next(&y, &s, &also));
        assert_int_equal(more, also);
        if (!more) break;
        same_record(&r, &s, without);
    }
    tl_tfrecord_close(&ours);
    tl_tfrecord_close(&theirs);
    return count;
}

static void beside_the_original(void **state)
{
    (void)state;
    coco(GOLDEN "images", GOLDEN "annotations.json", "--out", in_folder("a/m"), "--masks",
         "--shards=2");
    went_well();
    has("wrote 4 examples to ");
    has("a/m-00000-of-00002.tfrecord ... m-00001-of-00002.tfrecord\n6 annotations are left out:\n"
        "  2: width or height is not above 0\n  3: the box reaches beyond the image\n"
        "  1: the image is not in 'images'\n");
    assert_int_equal(same_records(in_folder("a/m-00000-of-00002.tfrecord"),
                                  GOLDEN "original-00000-of-00002.tfrecord", NULL),
                     2);
    assert_int_equal(same_records(in_folder("a/m-00001-of-00002.tfrecord"),
                                  GOLDEN "original-00001-of-00002.tfrecord", NULL),
                     2);
    coco(GOLDEN "images", GOLDEN "annotations.json", "--out", in_folder("a/b"), "--shards=2");
    went_well();
    assert_int_equal(same_records(in_folder("a/b-00000-of-00002.tfrecord"),
                                  GOLDEN "original-00000-of-00002.tfrecord", "image/object/mask"),
                     2);
}

/* --- pictures --------------------------------------------------------------------------------- */

static void pictures(void **state)
{
    (void)state;
    tl_png_image p, map;
    size_t size;
    coco(GOLDEN "images", GOLDEN "annotations.json", "--out", in_folder("p/m"), "--masks");
    run("data", "show", in_folder("p/m-00000-of-00001.tfrecord"), "--examples=3", "--pictures",
        in_folder("drawn"));
    went_well();
    has("  drawn in ");
    has("drawn/m-00000-of-00001.tfrecord-1.png\n");
    assert_false(is_there("drawn/m-00000-of-00001.tfrecord-3.png"));
    // grey.jpg: frames on the edges of the second box, 12.3 .. 28.2 and 3.7 .. 23.9, of class 18.
    char *bytes = bytes_of(in_folder("drawn/m-00000-of-00001.tfrecord-1.png"), &size);
    assert_ok(tl_png_decode(&p, bytes, size, 3, 1 << 20));
    assert_true(p.height == 34 && p.width == 29);
    tl_color dog = tl_draw_color(18);
    assert_memory_equal(p.pixels + 3 * (24 * 29 + 20), &dog, 3);
    assert_memory_equal(p.pixels + 3 * (20 * 29 + 12), &dog, 3);
    tl_free(bytes);
    tl_free(p.pixels);
    // Segmentation: a map of classes beside the image.
    static uint8_t classes[30 * 40] = {[0] = 255, [1] = 7};
    map = (tl_png_image){40, 30, 1, classes};
    tl_str png = TL_STR_INIT, example = TL_STR_INIT, file = TL_STR_INIT;
    for (int bad = 0; bad < 2; bad++) {
        tl_str_cut(&png, 0), tl_str_cut(&example, 0), tl_str_cut(&file, 0);
        map.height -= bad;
        assert_ok(tl_png_encode(&png, &map));
        bytes = bytes_of(GOLDEN "images/a.jpg", &size);
        tl_example_writer w = tl_example_begin(&example);
        tl_example_add_bytes(&w, "image/encoded", &(tl_bytes){bytes, size}, 1);
        tl_example_add_bytes(&w, "image/segmentation/class/encoded",
                             &(tl_bytes){png.data, png.length}, 1);
        assert_ok(tl_example_end(&w));
        tl_tfrecord_add(&file, example.data, example.length);
        put_bytes(in_folder("map"), file.data, file.length);
        run("data", "show", in_folder("map"), "--pictures", in_folder("drawn"), "--overwrite");
        tl_free(bytes);
    }
    ended(1, "map', record 0: image/segmentation/class/encoded: it has 29 x 40 pixels, but the "
             "image 30 x 40");
    tl_str_deinit(&png);
    tl_str_deinit(&example);
    tl_str_deinit(&file);
    // The picture of the good one is still there: the first pixel is that of the image.
    tl_image image = TL_IMAGE_INIT;
    bytes = bytes_of(GOLDEN "images/a.jpg", &size);
    assert_ok(tl_image_decode(&image, bytes, size, NULL));
    tl_free(bytes);
    bytes = bytes_of(in_folder("drawn/map-0.png"), &size);
    assert_ok(tl_png_decode(&p, bytes, size, 3, 1 << 20));
    assert_memory_equal(p.pixels, image.pixels, 3);
    assert_int_equal(p.pixels[3], (int)(0.6 * image.pixels[3] + 0.4 * tl_draw_color(7).red + 0.5));
    assert_int_equal(p.pixels[6], (int)(0.6 * image.pixels[6] + 0.4 * 128 + 0.5));
    tl_free(bytes);
    tl_free(p.pixels);
    tl_image_deinit(&image);
    run("data", "show", in_folder("p/m-00000-of-00001.tfrecord"), "--pictures", in_folder("drawn"));
    ended(2, "drawn/m-00000-of-00001.tfrecord-0.png' exists; --overwrite replaces it");
}

/* --- what is refused -------------------------------------------------------------------------- */

static void put_file(const char *name, const char *text)
{
    char good[4096];
    snprintf(good, sizeof good, "%s", text);
    for (char *p = good; *p; p++)
        if (*p == '\'') *p = '"';
    put_bytes(in_folder(name), good, strlen(good));
}

#define IMAGE(id, name) "{'id': " #id ", 'height': 30, 'width': 40, 'file_name': '" name "'}"
#define BOX(image, category, mask)                                                                 \
    "{'image_id': " #image ", 'category_id': " #category ", 'bbox': [1, 2, 3, 4], "                \
    "'segmentation': " mask "}"
#define SET(images, annotations)                                                                   \
    "{'images': [" images "], 'categories': [{'id': 1, 'name': 'x'}], 'annotations': "             \
    "[" annotations "]}"

static void nothing_was_written(void)
{
    DIR *d = opendir(in_folder("out"));
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) assert_int_equal(e->d_name[0], '.');
    rewinddir(d);
    int count = 0;
    while (readdir(d)) count++;
    closedir(d);
    assert_int_equal(count, 2);
}

static void bad_images(void **state)
{
    (void)state;
    const char *images = GOLDEN "images";
    put_file(
        "bad.json",
        SET(IMAGE(42, "a.jpg") ", " IMAGE(1, "lost.jpg") ", " IMAGE(2, "c.jpg") ", " IMAGE(
                3, "../annotations.json") ", {'id': 4}, " IMAGE(5, "a.jpg") ", " IMAGE(6, "a.jpg"),
            BOX(42, 1, "0") ", " BOX(5, 2, "0") ", " BOX(6, 1, "[[1, 2]]")));
    coco(images, in_folder("bad.json"), "--out", in_folder("out/x"));
    failed(1, "5 of 7 images cannot be used; --skip_bad leaves them out:\n");
    text_has(err, "lost.jpg': ");
    text_has(err, "images/c.jpg': the image has 21 x 33 pixels, but the annotations say 30 x 40\n");
    text_has(err, "'../annotations.json', of image 3, leads out of '");
    text_has(err, "image 4 has no 'file_name'\n");
    text_has(err, "images/a.jpg': category_id: there is no category 2 in 'categories'\n");
    nothing_was_written();
    coco(images, in_folder("bad.json"), "--out", in_folder("out/x"), "--skip_bad");
    went_well();
    has("wrote 2 examples to ");
    has("5 images cannot be used and are left out:\n");
    coco(images, in_folder("bad.json"), "--out", in_folder("out/x"), "--skip_bad");
    failed(2, "out/x-00000-of-00001.tfrecord' exists; --overwrite replaces it");
    coco(images, in_folder("bad.json"), "--out", in_folder("out/x"), "--skip_bad", "--masks",
         "--overwrite", "--shards=2");
    went_well();
    has("removed ");
    has("7 images cannot be used and are left out:\n");
    has("annotations[2]: segmentation: polygon 0: a polygon has 1 corners, and needs 3 or more\n");
    has("annotations[0]: segmentation: must be a list of polygons, or an object with size");
}

static void annotations(void **state)
{
    (void)state;
    const char *shard = GOLDEN "original-00000-of-00002.tfrecord",
               *more = GOLDEN "original-00001-of-00002.tfrecord";
    run("data", "annotations", shard, more, "--out", in_folder("made.json"), "--masks");
    went_well();
    has("wrote 5 objects of 4 images to ");
    tl_coco_set *ours, *theirs;
    assert_ok(tl_coco_read(&ours, in_folder("made.json"), true));
    assert_ok(tl_coco_read(&theirs, GOLDEN "original.json", true));
    assert_int_equal(ours->objects.count, theirs->objects.count);
    for (int64_t i = 0; i < ours->objects.count; i++) {
        const tl_coco_object *x = &ours->objects.items[i], *y = &theirs->objects.items[i];
        assert_true(tl_rle_iou(&x->mask, &y->mask, false) == 1 && x->area == y->area);
    }
    tl_coco_set_free(&ours);
    tl_coco_set_free(&theirs);
    run("data", "annotations", shard, "--out", in_folder("made.json"));
    failed(2, "made.json' exists; --overwrite replaces it");
    run("data", "annotations", shard);
    failed(2, "`annotations` needs --out, the JSON file to write");
}

static void bad_files(void **state)
{
    (void)state;
    const char *images = GOLDEN "images";
    coco(images, "--out", in_folder("out/y"));
    failed(2, "`coco` needs a folder of images and an annotation file");
    coco(images, in_folder("lost.json"));
    failed(2, "`coco` needs --out");
    coco(images, in_folder("lost.json"), "--out", in_folder("out/y"));
    failed(2, "lost.json");
    coco(in_folder("lost"), in_folder("lost.json"), "--out", in_folder("out/y"));
    failed(2, "lost' is no folder of images");
    put_file("cut.json",
             "{'images': [" IMAGE(1, "a.jpg") "], 'categories': [{'id': 1}], "
                                              "'annotations': [{'image_id': 1, 'bbox': [1");
    coco(images, in_folder("cut.json"), "--out", in_folder("out/y"));
    failed(1, "cut.json': ',' or '}' is expected at character");
    put_file("odd.json", SET(IMAGE(1, "a.jpg"), "{'image_id': 'x'}"));
    coco(images, in_folder("odd.json"), "--out", in_folder("out/y"));
    failed(1, "odd.json': annotations[0]: image_id: must be a whole number");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beside_the_original), cmocka_unit_test(pictures),
        cmocka_unit_test(bad_images),          cmocka_unit_test(annotations),
        cmocka_unit_test(bad_files),
    };
    return cmocka_run_group_tests(tests, make_folder, teardown);
}
