/* `tilth data coco`: its records beside those of Model Garden's create_coco_tf_record
 * (tests/golden/coco_records.py made them), and what it refuses. */
#include "io/folder.h"

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
        cmocka_unit_test(beside_the_original),
        cmocka_unit_test(bad_images),
        cmocka_unit_test(bad_files),
    };
    return cmocka_run_group_tests(tests, make_folder, teardown);
}
