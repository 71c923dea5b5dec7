/* `tilth data voc` and `tilth data cityscapes`: records of small folders, and what is refused. */
#include "io/folder.h"

#include <tilth/io/image/jpeg.h>
#include <tilth/io/image/png.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>

#include "tool/tool_run.h"

static int teardown(void **state)
{
    (void)state;
    char command[128];
    tool_forget();
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

/* --- files ------------------------------------------------------------------------------------ */

static void put(const char *name, const void *data, size_t size)
{
    tl_arena *arena;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_mkdirs(tl_path_dirname(arena, in_folder(name))));
    put_bytes(in_folder(name), data, size);
    tl_arena_free(&arena);
}

static void put_text(const char *name, const char *text)
{
    put(name, text, strlen(text));
}

static void put_png(const char *name, int64_t rows, int64_t columns, int64_t channels,
                    uint8_t *pixels)
{
    tl_str png = TL_STR_INIT;
    assert_ok(tl_png_encode(&png, &(tl_png_image){columns, rows, channels, pixels}));
    put(name, png.data, png.length);
    tl_str_deinit(&png);
}

static void put_jpeg(const char *name, int64_t rows, int64_t columns)
{
    static uint8_t pixels[64 * 64 * 3];
    tl_str file = TL_STR_INIT;
    tl_image image = {rows, columns, 3, pixels, 0};
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i / 7);
    assert_ok(tl_jpeg_encode(&file, &image, NULL));
    put(name, file.data, file.length);
    tl_str_deinit(&file);
}

/* --- records ---------------------------------------------------------------------------------- */

typedef struct opened {
    tl_tfrecord_file *file;
    tl_tfrecord_cursor at;
    tl_tfrecord r;
} opened;

static void open_records(opened *o, const char *name)
{
    assert_ok(tl_tfrecord_open(&o->file, in_folder(name), NULL));
    o->at = (tl_tfrecord_cursor){.file = o->file};
}

static bool next(opened *o)
{
    bool more;
    assert_ok(tl_tfrecord_next(&o->at, &o->r, &more));
    if (!more) tl_tfrecord_close(&o->file);
    return more;
}

static tl_feature feature(const opened *o, const char *name)
{
    tl_feature f;
    assert_ok(tl_example_find(&f, &name, 1, o->r.data, o->r.size));
    return f;
}

static void assert_floats(const opened *o, const char *name, const float *wanted, int64_t count)
{
    float values[8];
    tl_feature f = feature(o, name);
    assert_ok(tl_feature_floats(&f, name, values, count));
    assert_memory_equal(values, wanted, (size_t)count * sizeof *values);
}

static void assert_ints(const opened *o, const char *name, const int64_t *wanted, int64_t count)
{
    int64_t values[8];
    tl_feature f = feature(o, name);
    assert_ok(tl_feature_ints(&f, name, values, count));
    assert_memory_equal(values, wanted, (size_t)count * sizeof *values);
}

static void assert_text(const opened *o, const char *name, const char *wanted)
{
    tl_bytes text;
    tl_feature f = feature(o, name);
    assert_ok(tl_feature_bytes(&f, name, &text, 1));
    assert_int_equal(text.size, strlen(wanted));
    assert_memory_equal(text.data, wanted, text.size);
}

static void assert_classes(const opened *o, const uint8_t *wanted, int64_t rows, int64_t columns)
{
    static const char *const name = "image/segmentation/class/encoded";
    tl_bytes png;
    tl_png_image image;
    tl_feature f = feature(o, name);
    assert_ok(tl_feature_bytes(&f, name, &png, 1));
    assert_ok(tl_png_decode(&image, png.data, png.size, 0, 1 << 20));
    assert_true(image.height == rows && image.width == columns && image.channels == 1);
    assert_memory_equal(image.pixels, wanted, (size_t)(rows * columns));
    tl_free(image.pixels);
}

/* --- Pascal VOC ------------------------------------------------------------------------------- */

#define OBJECT(name, x0, y0, x1, y1, more)                                                         \
    "<object><name>" name "</name>" more "<bndbox><xmin>" #x0 "</xmin><ymin>" #y0                  \
    "</ymin><xmax>" #x1 "</xmax><ymax>" #y1 "</ymax></bndbox></object>"
#define ANNOTATION(objects)                                                                        \
    "<annotation><size><width>5</width><height>4</height></size>" objects "</annotation>"

static void put_voc(void)
{
    size_t size;
    put_jpeg("voc/JPEGImages/2007_000027.jpg", 4, 5);
    put_jpeg("voc/JPEGImages/2007_000032.jpg", 4, 5);
    put_text("voc/Annotations/2007_000027.xml",
             ANNOTATION(OBJECT("person", 1, 1, 5, 4, "<difficult>1</difficult>")
                            OBJECT("dog", 2, 3, 4, 4, "")));
    put_text("voc/ImageSets/Main/train.txt", "2007_000027\n");
    put_text("voc/ImageSets/Main/all.txt", "2007_000027 1\r\n\n 2007_000032 -1");
    put_text("voc/ImageSets/Segmentation/train.txt", "2007_000027\n2007_000032\n");
    char *png = bytes_of(TEST_DATA "/golden/coco_records/voc.png", &size);
    put("voc/SegmentationClass/2007_000027.png", png, size); // with VOC's palette
    tl_free(png);
    uint8_t grey[4 * 5] = {0, 20, 255};
    put_png("voc/SegmentationClass/2007_000032.png", 4, 5, 1, grey);
}

static void voc_boxes(void **state)
{
    (void)state;
    opened o;
    put_voc();
    run("data", "voc", in_folder("voc"), "--out", in_folder("boxes"));
    went_well();
    has("wrote 1 examples to ");
    open_records(&o, "boxes-00000-of-00001.tfrecord");
    assert_true(next(&o));
    assert_floats(&o, "image/object/bbox/xmin", (float[]){0, 1.f / 5}, 2);
    assert_floats(&o, "image/object/bbox/ymin", (float[]){0, 2.f / 4}, 2);
    assert_floats(&o, "image/object/bbox/xmax", (float[]){1, 4.f / 5}, 2);
    assert_floats(&o, "image/object/bbox/ymax", (float[]){1, 1}, 2);
    assert_floats(&o, "image/object/area", (float[]){20, 6}, 2);
    assert_ints(&o, "image/object/class/label", (int64_t[]){15, 12}, 2);
    assert_ints(&o, "image/object/difficult", (int64_t[]){1, 0}, 2);
    assert_ints(&o, "image/object/is_crowd", (int64_t[]){0, 0}, 2);
    assert_ints(&o, "image/height", (int64_t[]){4}, 1);
    assert_ints(&o, "image/width", (int64_t[]){5}, 1);
    assert_text(&o, "image/source_id", "2007000027");
    assert_text(&o, "image/filename", "2007_000027.jpg");
    assert_int_equal(feature(&o, "image/segmentation/class/encoded").kind, TL_FEATURE_NONE);
    assert_false(next(&o));
    // The other image has no list of objects.
    run("data", "voc", in_folder("voc"), "--out", in_folder("all"), "--split=all");
    failed(1, "1 of 2 images cannot be used; --skip_bad leaves them out:\n");
    text_has(err, "Annotations/2007_000032.xml");
    run("data", "voc", in_folder("voc"), "--out", in_folder("all"), "--split=all", "--skip_bad");
    went_well();
    has("wrote 1 examples to ");
}

static void voc_classes(void **state)
{
    (void)state;
    opened o;
    uint8_t first[20], second[20] = {0, 20, 255};
    for (int i = 0; i < 20; i++) first[i] = i < 19 ? (uint8_t)i : 255;
    run("data", "voc", in_folder("voc"), "--out", in_folder("pixels"), "--masks");
    went_well();
    open_records(&o, "pixels-00000-of-00001.tfrecord");
    assert_true(next(&o));
    assert_classes(&o, first, 4, 5);
    assert_text(&o, "image/segmentation/class/format", "png");
    assert_ints(&o, "image/object/class/label", (int64_t[]){15, 12}, 2);
    assert_true(next(&o));
    assert_classes(&o, second, 4, 5);
    assert_int_equal(feature(&o, "image/object/class/label").kind, TL_FEATURE_NONE);
    assert_false(next(&o));
}

static void voc_mistakes(void **state)
{
    (void)state;
    uint8_t odd[4 * 5 * 3] = {0, 0, 0, 1, 2, 3};
    put_text("voc/ImageSets/Main/bad.txt", "a\nb\nc\nd\ne\n2007_000027");
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        char path[64];
        snprintf(path, sizeof path, "voc/JPEGImages/%s.jpg", names[i]);
        put_jpeg(path, i == 1 ? 5 : 4, 5);
    }
    put_text("voc/Annotations/a.xml", ANNOTATION(OBJECT("unicorn", 1, 1, 5, 4, "")));
    put_text("voc/Annotations/b.xml", ANNOTATION(OBJECT("dog", 1, 1, 5, 4, "")));
    put_text("voc/Annotations/c.xml", ANNOTATION(OBJECT("dog", 1, 1, 6, 4, "")));
    put_text("voc/Annotations/d.xml", "<annotation>");
    run("data", "voc", in_folder("voc"), "--out", in_folder("x"), "--split=bad");
    failed(1, "5 of 6 images cannot be used");
    text_has(err, "a.xml': the class 'unicorn' is not known; --classes names others\n");
    text_has(err, "b.xml': it says 4 x 5 pixels, but the image has 5 x 5\n");
    text_has(err, "c.xml': the box of 'dog', from 0, 0 to 6, 4, is empty or does not lie in");
    text_has(err, "d.xml', line 1: the file ends within an element");
    text_has(err, "JPEGImages/e.jpg");
    put_text("names.txt", "unicorn\ndog\nperson\n");
    run("data", "voc", in_folder("voc"), "--out", in_folder("x"), "--split=bad", "--skip_bad",
        "--classes", in_folder("names.txt"));
    went_well();
    has("wrote 2 examples to ");
    opened o;
    open_records(&o, "x-00000-of-00001.tfrecord");
    assert_true(next(&o));
    assert_text(&o, "image/source_id", "1"); // names that are no numbers: by their places
    assert_text(&o, "image/object/class/text", "unicorn");
    assert_true(next(&o));
    assert_text(&o, "image/source_id", "6");
    assert_false(next(&o));
    put_text("voc/ImageSets/Segmentation/odd.txt", "a\n2007_000027\n");
    put_png("voc/SegmentationClass/a.png", 4, 5, 3, odd);
    run("data", "voc", in_folder("voc"), "--out", in_folder("y"), "--split=odd", "--masks",
        "--classes", in_folder("names.txt"));
    failed(1, "2 of 2 images cannot be used");
    text_has(err, "a.png': pixel 1 of row 0 has no colour of a class\n");
    text_has(err, "2007_000027.png': pixel 4 of row 0 has no colour of a class\n"); // class 4 of 3
    run("data", "voc", in_folder("voc"), "--out", in_folder("y"), "--split=../x");
    failed(2, "--split: '../x' is no name of a part of the data");
    run("data", "voc", in_folder("voc"), "--out", in_folder("y"), "--split=none");
    failed(2, "ImageSets/Main/none.txt");
    put_text("voc/ImageSets/Main/out.txt", "../../secret\n");
    run("data", "voc", in_folder("voc"), "--out", in_folder("y"), "--split=out");
    failed(1, "out.txt': '../../secret' leads out of the folder");
}

/* --- Cityscapes ------------------------------------------------------------------------------- */

static void cityscapes(void **state)
{
    (void)state;
    static uint8_t ids[5 * 8], image[5 * 8 * 3];
    static const uint8_t wanted[5 * 8] = {255, 255, 255, 255, 255, 255, 255, 0,   1,   255,
                                          255, 2,   3,   4,   255, 255, 255, 5,   255, 6,
                                          7,   8,   9,   10,  11,  12,  13,  14,  15,  255,
                                          255, 16,  17,  18,  255, 255, 255, 255, 255, 255};
    opened o;
    for (int i = 0; i < 40; i++) ids[i] = (uint8_t)i;
    ids[39] = 255;
    put_png("cs/leftImg8bit/val/bonn/bonn_1_2_leftImg8bit.png", 5, 8, 3, image);
    put_png("cs/gtFine/val/bonn/bonn_1_2_gtFine_labelIds.png", 5, 8, 1, ids);
    run("data", "cityscapes", in_folder("cs"), "--out", in_folder("cs/r"), "--split=val");
    went_well();
    has("wrote 1 examples to ");
    open_records(&o, "cs/r-00000-of-00001.tfrecord");
    assert_true(next(&o));
    assert_classes(&o, wanted, 5, 8);
    assert_text(&o, "image/filename", "bonn/bonn_1_2_leftImg8bit.png");
    assert_text(&o, "image/format", "png");
    assert_text(&o, "image/source_id", "1");
    assert_ints(&o, "image/width", (int64_t[]){8}, 1);
    assert_false(next(&o));
    put_png("cs/leftImg8bit/val/bonn/bonn_1_3_leftImg8bit.png", 5, 8, 3, image);
    put_png("cs/leftImg8bit/val/ulm/ulm_1_1_leftImg8bit.png", 5, 8, 3, image);
    put_png("cs/gtFine/val/ulm/ulm_1_1_gtFine_labelIds.png", 4, 8, 1, ids);
    put_png("cs/leftImg8bit/val/ulm/ulm_2_1_leftImg8bit.png", 5, 8, 3, image);
    put_png("cs/gtFine/val/ulm/ulm_2_1_gtFine_labelIds.png", 5, 8, 3, image);
    run("data", "cityscapes", in_folder("cs"), "--out", in_folder("cs/s"), "--split=val");
    failed(1, "3 of 4 images cannot be used");
    text_has(err, "gtFine/val/bonn/bonn_1_3_gtFine_labelIds.png");
    text_has(err, "ulm_1_1_gtFine_labelIds.png': it has 4 x 8 pixels, but the image 5 x 8\n");
    text_has(err, "ulm_2_1_gtFine_labelIds.png': it has 3 channels, but ids have one\n");
    run("data", "cityscapes", in_folder("cs"), "--out", in_folder("cs/s"));
    failed(2, "leftImg8bit/train/*/*_leftImg8bit.png': a folder of Cityscapes has leftImg8bit");
    run("data", "cityscapes", in_folder("cs"), in_folder("cs"), "--out", in_folder("cs/s"));
    failed(2, "`cityscapes` needs one folder");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(voc_boxes),
        cmocka_unit_test(voc_classes),
        cmocka_unit_test(voc_mistakes),
        cmocka_unit_test(cityscapes),
    };
    return cmocka_run_group_tests(tests, make_folder, teardown);
}
