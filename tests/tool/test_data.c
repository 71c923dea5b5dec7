/* `tilth data`: what it shows of record files, idx files and folders of images, what it makes of
 * them, and its exit codes. */
#include "io/folder.h"

#include <tilth/io/tensorflow/example.h>
#include <tilth/io/idx.h>
#include <tilth/io/image/jpeg.h>
#include <tilth/io/image/png.h>
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

#define data(...) run("data", __VA_ARGS__)

/* --- features --------------------------------------------------------------------------------- */

static tl_feature feature(const tl_tfrecord *r, const char *name)
{
    tl_feature f;
    assert_ok(tl_example_find(&f, &name, 1, r->data, r->size));
    return f;
}

static int64_t int_in(const tl_tfrecord *r, const char *name)
{
    tl_feature f = feature(r, name);
    int64_t value;
    assert_ok(tl_feature_ints(&f, name, &value, 1));
    return value;
}

static tl_bytes bytes_in(const tl_tfrecord *r, const char *name)
{
    tl_feature f = feature(r, name);
    tl_bytes value;
    assert_ok(tl_feature_bytes(&f, name, &value, 1));
    return value;
}

/* --- what is shown ---------------------------------------------------------------------------- */

static void put_records(const char *name)
{
    tl_str file = TL_STR_INIT, example = TL_STR_INIT, png = TL_STR_INIT;
    uint8_t pixels[6] = {1, 2, 3, 4, 5, 6};
    tl_png_image image = {2, 1, 3, pixels};
    static const int64_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    assert_ok(tl_png_encode(&png, &image));
    for (int i = 0; i < 3; i++) {
        tl_str_cut(&example, 0);
        tl_example_writer w = tl_example_begin(&example);
        tl_example_add_ints(&w, "ids", ids, 4 + 3 * i);
        tl_example_add_floats(&w, "weight", (const float[]){0.5f}, 1);
        tl_example_add_bytes(&w, "image/encoded", &(tl_bytes){png.data, png.length}, 1);
        if (i == 1) tl_example_add_text(&w, "text", "a\x1b[2Jb");
        assert_ok(tl_example_end(&w));
        tl_tfrecord_add(&file, example.data, example.length);
    }
    tl_tfrecord_add(&file, "xyz", 3);
    put_bytes(in_folder(name), file.data, file.length);
    tl_str_deinit(&file);
    tl_str_deinit(&example);
    tl_str_deinit(&png);
}

static void records_are_shown(void **state)
{
    (void)state;
    put_records("some.tfrecord");
    data("show", in_folder("some.tfrecord"), "--examples=3");
    went_well();
    has("some.tfrecord: TFRecord, 4 records, ");
    has("all checksums are right\nrecords have 3 to ");
    has(" bytes; 1 are no tf.train.Example\n");
    has("  ids            int64  4 to 10 values, ");
    has("  image/encoded  bytes  1 value, ");
    has("  text           bytes  1 value, in 1 records, ");
    has("  weight         float  1 value, ");
    has("record 0 at byte 0:\n  ids: int64 1, 2, 3, 4\n  weight: float 0.5\n  image/encoded: "
        "bytes PNG 1 x 2 x 3, ");
    has("  text: bytes 6 bytes: 61 1b 5b 32 4a 62\n"); // a terminal would obey
    has("  ids: int64 1, 2, 3, 4, 5, 6, 7, 8, ... (10)\n");
    assert_null(strstr(out, "record 3"));
    data("show", in_folder("some.tfrecord"), "--examples=0");
    assert_null(strstr(out, "record 0"));
    put_bytes(in_folder("nothing"), "", 0);
    data("show", in_folder("nothing"));
    went_well();
    has("nothing: TFRecord, 0 records, 0 bytes, EMPTY\n");
}

static void put_pair(void)
{
    uint8_t images[3 * 4 * 5], labels[3] = {2, 0, 2};
    tl_shape shape = TL_SHAPE(3, 4, 5), row = TL_SHAPE(3);
    for (size_t i = 0; i < sizeof images; i++) images[i] = (uint8_t)(i * 4);
    assert_ok(tl_idx_write(in_folder("images.gz"), TL_U8, &shape, images));
    assert_ok(tl_idx_write(in_folder("labels"), TL_U8, &row, labels));
}

static void damage_is_shown(void **state)
{
    (void)state;
    size_t size;
    put_records("damaged");
    char *bytes = bytes_of(in_folder("damaged"), &size);
    bytes[size - 5] ^= 1; // in the last record
    put_bytes(in_folder("damaged"), bytes, size);
    data("show", in_folder("damaged"));
    ended(1, "damaged', record 3 at byte ");
    has("3 records, ");
    has("DAMAGED behind them\n");
    has("record 0 at byte 0:");
    bytes[3] ^= 1; // and in the first head
    put_bytes(in_folder("damaged"), bytes, size);
    data("show", in_folder("damaged"));
    ended(2, "is neither a TFRecord file nor an idx file");
    text_has(err, "record 0 at byte 0: the checksum of the record's length is wrong");
    text_has(err, "is no idx file");
    tl_free(bytes);
    // What can only be records, or was compressed, is damaged and not of another kind.
    put_records("cut");
    bytes = bytes_of(in_folder("cut"), &size);
    put_bytes(in_folder("cut"), bytes, 20); // within the first record
    data("show", in_folder("cut"));
    ended(1, "record 0 at byte 0: the file ends within the record: it was cut short");
    assert_null(strstr(err, "idx"));
    tl_free(bytes);
    put_pair();
    bytes = bytes_of(in_folder("images.gz"), &size);
    put_bytes(in_folder("cut.gz"), bytes, size - 9);
    data("show", in_folder("cut.gz"));
    ended(1, "cut.gz' is cut short: its compressed data goes on");
    assert_null(strstr(strstr(err, "is cut short") + 1, "is cut short")); // said once
    bytes[size - 6] ^= 1;
    put_bytes(in_folder("cut.gz"), bytes, size);
    data("show", in_folder("cut.gz"));
    ended(1, "cut.gz' is damaged: its compressed data near byte");
    tl_free(bytes);
}

// One that cannot be shown does not hide the others.
static void all_files_are_shown(void **state)
{
    (void)state;
    put_pair();
    put_records("good");
    put_records("bad");
    size_t size;
    char *bytes = bytes_of(in_folder("bad"), &size);
    put_bytes(in_folder("bad"), bytes, size - 5);
    tl_free(bytes);
    data("show", in_folder("good"), in_folder("bad"), in_folder("nowhere"), in_folder("labels"));
    ended(1, "bad', record 3 at byte ");
    text_has(err, "nowhere");
    has("good: TFRecord, 4 records, ");
    has("bad: TFRecord, 3 records, ");
    has("labels: idx, uint8 [3], 3 bytes\n");
    data("show", in_folder("nowhere"), in_folder("bad"));
    ended(2, "nowhere");
    text_has(err, "bad', record 3 at byte ");
    has("bad: TFRecord, 3 records, ");
    put_records("a\x1b[2Jb");
    data("show", in_folder("a\x1b[2Jb"));
    went_well();
    has("a\\x1b[2Jb: TFRecord, 4 records, ");
    assert_null(strchr(out, '\x1b'));
}

static void arrays_are_shown(void **state)
{
    (void)state;
    put_pair();
    data("show", in_folder("images.gz"), in_folder("labels"));
    went_well();
    has("images.gz: idx, compressed, uint8 [3, 4, 5], 60 bytes\nleast 0, mean 118, greatest 236\n");
    has("item 0:\n      .\n  .::::\n");
    has("labels: idx, uint8 [3], 3 bytes\n");
    has("  0: 1 times\n  2: 2 times\n");
}

static void put_folder(void)
{
    uint8_t pixels[6] = {1, 2, 3, 4, 5, 6};
    tl_image image = {1, 2, 3, pixels, 0};
    tl_png_image png = {2, 1, 3, pixels};
    tl_str file = TL_STR_INIT;
    assert_ok(tl_mkdirs(in_folder("flowers/rose")));
    assert_ok(tl_mkdirs(in_folder("flowers/daisy")));
    assert_ok(tl_jpeg_encode(&file, &image, NULL));
    put_bytes(in_folder("flowers/rose/1.jpg"), file.data, file.length);
    tl_str_cut(&file, 0);
    assert_ok(tl_png_encode(&file, &png));
    put_bytes(in_folder("flowers/daisy/1.png"), file.data, file.length);
    put_bytes(in_folder("flowers/daisy/2.png"), file.data, file.length);
    tl_str_deinit(&file);
}

static void folders_are_shown(void **state)
{
    (void)state;
    put_folder();
    data("show", in_folder("flowers"), "--examples=10");
    went_well();
    has("flowers: folder of images, 2 classes, 3 images, ");
    has("\n  0  daisy, 2 images\n  1  rose, 1 image\n");
    has("daisy/1.png: class 0, PNG 1 x 2 x 3, ");
    has("rose/1.jpg: class 1, JPEG 1 x 2 x 3, ");
    put_bytes(in_folder("flowers/rose/1.jpg"), "hello", 5);
    data("show", in_folder("flowers"), "--examples=10");
    ended(1, "rose/1.jpg: these 5 bytes are no image");
    text_has(err, "flowers': 1 of 3 images cannot be read:");
    has("2 classes, 2 images, ");
    has("\n1 CORRUPT\n");
    has("daisy/1.png: class 0, PNG 1 x 2 x 3, ");
}

/* A JPEG that ends half-way, a PNG that is a GIF, files that are not read, a class without images,
 * and one that lies on its side. */
static void put_mixed_folder(void)
{
    static const char exif[] = "\xff\xe1\0\x22"
                               "Exif\0\0"
                               "II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0";
    uint8_t pixels[40 * 30];
    tl_str file = TL_STR_INIT, turned = TL_STR_INIT;
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 7);
    assert_ok(tl_jpeg_encode(&file, &(tl_image){40, 30, 1, pixels, 0}, NULL));
    tl_str_addn(&turned, file.data, 2);
    tl_str_addn(&turned, exif, 36);
    tl_str_addn(&turned, file.data + 2, file.length - 2);
    for (int i = 0; i < 3; i++) {
        static const char *const folders[] = {"mixed/a", "mixed/b", "mixed/c"};
        assert_ok(tl_mkdirs(in_folder(folders[i])));
    }
    put_bytes(in_folder("mixed/a/good.jpg"), file.data, file.length);
    put_bytes(in_folder("mixed/a/cut.jpg"), file.data, file.length / 2);
    put_bytes(in_folder("mixed/a/wrong.png"), "GIF89a", 6);
    put_bytes(in_folder("mixed/a/x.webp"), "RIFF", 4);
    put_bytes(in_folder("mixed/c/turned.jpg"), turned.data, turned.length);
    tl_str_deinit(&file);
    tl_str_deinit(&turned);
}

static void damaged_images_are_told_together(void **state)
{
    (void)state;
    put_mixed_folder();
    data("show", in_folder("mixed"), "--examples=0");
    ended(1, "mixed': 2 of 4 images cannot be read:\n");
    text_has(err, "a/cut.jpg: reading a JPEG image: Premature end");
    text_has(err, "a/wrong.png: this is a GIF image");
    has("images are 30 to 40 (median 30) pixels high and 30 to 40 (median 30) wide; 2 have 1 "
        "channel\n");
    has("1 is turned by EXIF\n2 CORRUPT\n");
    has("mixed/b' holds no image\n");
    has("1 .webp is not read: .jpg, .jpeg and .png are\n");
    data("convert", in_folder("mixed"), "--out", in_folder("made/m"));
    ended(1, "2 of 4 images cannot be read; skip_bad leaves them out:");
    text_has(err, "a/cut.jpg': reading a JPEG image: ");
    text_has(err, "a/wrong.png': this is a GIF image");
    assert_false(tl_dir_exists(in_folder("made"))); // nothing was written
    data("convert", in_folder("mixed"), "--out", in_folder("made/m"), "--skip_bad");
    went_well();
    has("wrote 2 examples to ");
    has("2 images cannot be read and are left out: ");
    has("1 is turned by EXIF; training on records ignores that unless exif_orientation is true\n");
    size_t size;
    char *names = bytes_of(in_folder("made/m.classes.txt"), &size);
    assert_string_equal(names, "a\nc\n");
    tl_free(names);
    data("show", in_folder("made/m-00000-of-00001"), "--examples=0");
    went_well();
    has("2 classes\n  0  a, 1 record\n  1  c, 1 record\n");
    has("images are 30 to 40 (median 30) pixels high");
}

// A record that cannot be decoded is found by its number and by its name.
static void damaged_records_are_found(void **state)
{
    (void)state;
    tl_str file = TL_STR_INIT, example = TL_STR_INIT;
    for (int i = 0; i < 3; i++) {
        const int64_t label = i;
        tl_str_cut(&example, 0);
        tl_example_writer w = tl_example_begin(&example);
        tl_example_add_text(&w, "image/encoded", i ? "\xff\xd8\xff" : "123456");
        if (!i) tl_example_add_text(&w, "image/format", "raw");
        tl_example_add_text(&w, "image/filename", "the one");
        tl_example_add_ints(&w, "image/class/label", &label, 1);
        assert_ok(tl_example_end(&w));
        tl_tfrecord_add(&file, example.data, example.length);
    }
    put_bytes(in_folder("pictures"), file.data, file.length);
    data("show", in_folder("pictures"));
    ended(
        1,
        "pictures': 2 of 2 images cannot be read:\n  record 1, 'the one': reading a JPEG image: ");
    has("3 classes\n  0, 1 record\n");
    has("2 CORRUPT\n");
    tl_str_deinit(&file);
    tl_str_deinit(&example);
}

static void what_is_shown_comes_as_json(void **state)
{
    (void)state;
    put_mixed_folder();
    put_pair();
    put_records("some.tfrecord");
    data("show", in_folder("mixed"), in_folder("labels"), in_folder("some.tfrecord"), "--json");
    ended(1, "2 of 4 images cannot be read");
    has("/mixed\", \"kind\": \"image_folder\", \"count\": 2, \"bytes\": ");
    has("\"classes\": [{\"class\": 0, \"name\": \"a\", \"count\": 1}, {\"class\": 1, \"name\": "
        "\"c\", \"count\": 1}], \"height\": {\"min\": 30, \"median\": 30, \"max\": 40}, \"width\": "
        "{\"min\": 30, \"median\": 30, \"max\": 40}, \"channels\": {\"1\": 2}, \"turned\": 1, "
        "\"corrupt\": [{\"file\": ");
    has("\"not_read\": {\".webp\": 1}, \"empty\": [");
    has("\"kind\": \"idx\", \"count\": 3, \"bytes\": 3, \"compressed\": false, \"dtype\": "
        "\"uint8\", \"shape\": [3], ");
    has("\"classes\": [{\"class\": 0, \"count\": 1}, {\"class\": 2, \"count\": 2}]}\n");
    has("\"kind\": \"tfrecord\", \"count\": 4, ");
    has("\"features\": [{\"name\": \"ids\", \"type\": \"int64\", \"records\": 3, \"min\": 4, "
        "\"max\": 10, ");
    int lines = 0;
    for (const char *p = out; *p; p++) lines += *p == '\n';
    assert_int_equal(lines, 3); // an object each
}

// Records of validation get the numbers of training.
static void a_list_says_the_numbers_of_records(void **state)
{
    (void)state;
    put_folder();
    put_bytes(in_folder("list.txt"), "tulip\nrose\ndaisy\n", 17);
    data("convert", in_folder("flowers"), "--out", in_folder("listed/v"), "--classes",
         in_folder("list.txt"));
    went_well();
    has("has no folder for the class 'tulip'\n");
    tl_tfrecord_file *f;
    tl_tfrecord r;
    bool more = true;
    assert_ok(tl_tfrecord_open(&f, in_folder("listed/v-00000-of-00001"), NULL));
    tl_tfrecord_cursor at = {.file = f};
    for (int i = 0; i < 3; i++) {
        assert_ok(tl_tfrecord_next(&at, &r, &more));
        tl_bytes text = bytes_in(&r, "image/class/text");
        assert_int_equal(int_in(&r, "image/class/label"), text.size == 4 ? 1 : 2);
    }
    tl_tfrecord_close(&f);
    put_bytes(in_folder("list.txt"), "rose\n", 5);
    data("convert", in_folder("flowers"), "--out", in_folder("listed/w"), "--classes",
         in_folder("list.txt"));
    ended(2, "daisy' is no class: there are rose");
    put_pair();
    data("convert", in_folder("images.gz"), in_folder("labels"), "--out", in_folder("listed/x"),
         "--classes", in_folder("list.txt"));
    ended(2, "--classes numbers the classes of a folder");
}

/* --- what is made ----------------------------------------------------------------------------- */

static void pairs_become_records(void **state)
{
    (void)state;
    static const char *const encodings[] = {"png", "jpeg", "raw"};
    put_pair();
    for (int e = 0; e < 3; e++) {
        char flag[32];
        snprintf(flag, sizeof flag, "--encoding=%s", encodings[e]);
        data("convert", in_folder("images.gz"), in_folder("labels"), "--out",
             in_folder("new/train"), "--shards=2", "--noshuffle", "--overwrite", flag);
        went_well();
        has("wrote 3 examples to ");
        has("train-00000-of-00002 ... train-00001-of-00002\n");
        for (int64_t shard = 0; shard < 2; shard++) { // 0 and 2, then 1
            tl_tfrecord_file *f;
            tl_tfrecord r;
            bool more;
            assert_ok(tl_tfrecord_open(
                &f, in_folder(shard ? "new/train-00001-of-00002" : "new/train-00000-of-00002"),
                NULL));
            tl_tfrecord_cursor at = {.file = f};
            for (int64_t i = shard; i < 3; i += 2) {
                assert_ok(tl_tfrecord_next(&at, &r, &more));
                assert_true(more);
                assert_int_equal(int_in(&r, "image/class/label"), i == 1 ? 0 : 2);
                assert_int_equal(int_in(&r, "image/height"), 4);
                tl_bytes encoded = bytes_in(&r, "image/encoded");
                tl_image image = TL_IMAGE_INIT;
                if (e == 2) assert_int_equal((uint8_t)encoded.data[7], (20 * i + 7) * 4);
                else assert_ok(tl_image_decode(&image, encoded.data, encoded.size, NULL));
                if (e == 0) assert_int_equal(image.pixels[7], (20 * i + 7) * 4);
                if (e < 2)
                    assert_true(image.height == 4 && image.width == 5 && image.channels == 1);
                tl_image_deinit(&image);
            }
            assert_ok(tl_tfrecord_next(&at, &r, &more));
            assert_false(more);
            tl_tfrecord_close(&f);
        }
    }
    data("convert", in_folder("images.gz"), in_folder("labels"), "--out", in_folder("new/train"),
         "--shards=2");
    ended(2, "train-00000-of-00002' exists; --overwrite replaces it");
}

static void folders_become_records(void **state)
{
    (void)state;
    put_folder();
    for (int order = 0; order < 2; order++) { // the same twice
        tl_tfrecord_file *f;
        tl_tfrecord r;
        bool more;
        int64_t seen = 0;
        data("convert", in_folder("flowers"), "--out", in_folder("records/all"), "--gzip",
             "--seed=3", "--overwrite");
        went_well();
        assert_ok(tl_tfrecord_open(&f, in_folder("records/all-00000-of-00001.gz"), NULL));
        tl_tfrecord_cursor at = {.file = f};
        for (int i = 0; i < 3; i++) {
            assert_ok(tl_tfrecord_next(&at, &r, &more));
            tl_bytes encoded = bytes_in(&r, "image/encoded"),
                     text = bytes_in(&r, "image/class/text");
            bool rose = int_in(&r, "image/class/label") == 1;
            assert_memory_equal(text.data, rose ? "rose" : "daisy", text.size);
            seen += rose ? 10 : 1;
            assert_int_equal(tl_image_format_of(encoded.data, encoded.size),
                             rose ? TL_FORMAT_JPEG : TL_FORMAT_PNG);
            assert_int_equal(int_in(&r, "image/width"), 2);
        }
        assert_int_equal(seen, 12);
        tl_tfrecord_close(&f);
    }
    size_t size;
    char *names = bytes_of(in_folder("records/all.classes.txt"), &size);
    assert_string_equal(names, "daisy\nrose\n");
    tl_free(names);
    tl_path_list found; // who reads all of them reads records alone
    tl_arena *arena;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_glob(&found, arena, in_folder("records/all-*")));
    assert_int_equal(found.count, 1);
    tl_arena_free(&arena);
    assert_ok(tl_file_remove(in_folder("records/all-00000-of-00001.gz")));
    data("convert", in_folder("flowers"), "--out", in_folder("records/all"), "--gzip");
    ended(2, "all.classes.txt' exists; --overwrite replaces it");
}

// Files of another number of shards would be read beside the new ones.
static void earlier_conversions_do_not_stay(void **state)
{
    (void)state;
    put_pair();
    data("convert", in_folder("images.gz"), in_folder("labels"), "--out", in_folder("again/t"),
         "--shards=3");
    went_well();
    put_bytes(in_folder("again/t-notes-of-mine"), "x", 1);
    data("convert", in_folder("images.gz"), in_folder("labels"), "--out", in_folder("again/t"),
         "--shards=2");
    ended(2, "t-00000-of-00003' exists, from an earlier conversion");
    assert_false(tl_file_exists(in_folder("again/t-00000-of-00002")));
    data("convert", in_folder("images.gz"), in_folder("labels"), "--out", in_folder("again/t"),
         "--shards=2", "--gzip", "--overwrite");
    went_well();
    has("removed ");
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "again/t-%05d-of-00003", i);
        assert_false(tl_file_exists(in_folder(name)));
    }
    assert_true(tl_file_exists(in_folder("again/t-00001-of-00002.gz")));
    assert_true(tl_file_exists(in_folder("again/t-notes-of-mine")));
}

static void mistakes_are_told(void **state)
{
    (void)state;
    put_pair();
    put_folder();
    put_records("r");
    uint8_t two[2] = {0, 1};
    tl_shape row = TL_SHAPE(2);
    assert_ok(tl_idx_write(in_folder("two"), TL_U8, &row, two));
    data("shw");
    ended(2, "'shw' is not one of show, convert, coco, voc, cityscapes, annotations, shapes, "
             "pretraining, finetuning; did you mean 'show'?");
    data("show");
    ended(2, "`show` needs a file, or a folder of images");
    data("show", in_folder("nowhere"));
    ended(2, "nowhere");
    data("convert", in_folder("flowers"));
    ended(2, "`convert` needs --out");
    data("convert", in_folder("images.gz"), "--out", in_folder("x"));
    ended(2, "`convert IMAGES LABELS`");
    data("convert", in_folder("images.gz"), in_folder("two"), "--out", in_folder("x"));
    ended(2, "holds 3 images and ");
    data("convert", in_folder("labels"), in_folder("two"), "--out", in_folder("x"));
    ended(2, "holds no images, but [3] of uint8; [count, height, width]");
    data("convert", in_folder("images.gz"), in_folder("images.gz"), "--out", in_folder("x"));
    ended(2, "holds no labels, but [3, 4, 5] of uint8");
    data("convert", in_folder("r"), "--out", in_folder("x"));
    ended(2, "is a TFRecord file already");
    data("convert", in_folder("flowers"), in_folder("flowers"), "--out", in_folder("x"));
    ended(2, "one folder of images is converted at a time");
    data("convert", in_folder("flowers"), "--out", in_folder("x"), "--shards=5000");
    ended(2, "--shards is at most 1000");
    uint8_t pixels[2 * 3 * 3 * 4] = {0};
    tl_shape four = TL_SHAPE(2, 3, 3, 4), flat = TL_SHAPE(2, 0, 3);
    assert_ok(tl_idx_write(in_folder("four"), TL_U8, &four, pixels));
    assert_ok(tl_idx_write(in_folder("flat"), TL_U8, &flat, pixels));
    data("convert", in_folder("four"), in_folder("two"), "--out", in_folder("x"),
         "--encoding=jpeg");
    ended(2, "four', image ");
    text_has(err, "a JPEG image has 1 (grey) or 3 (RGB) channels, not 4");
    data("convert", in_folder("flat"), in_folder("two"), "--out", in_folder("x"), "--encoding=raw");
    ended(2, "flat' holds no images, but [2, 0, 3] of uint8");
    put_bytes(in_folder("flowers/rose/2.jpg"), "GIF89a", 6); // nothing is left of what was begun
    data("convert", in_folder("flowers"), "--out", in_folder("x/y"));
    ended(1, "2.jpg': this is a GIF image");
    assert_false(tl_file_exists(in_folder("x/y-00000-of-00001")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_shown),
        cmocka_unit_test(damage_is_shown),
        cmocka_unit_test(all_files_are_shown),
        cmocka_unit_test(earlier_conversions_do_not_stay),
        cmocka_unit_test(arrays_are_shown),
        cmocka_unit_test(folders_are_shown),
        cmocka_unit_test(pairs_become_records),
        cmocka_unit_test(folders_become_records),
        cmocka_unit_test(damaged_images_are_told_together),
        cmocka_unit_test(damaged_records_are_found),
        cmocka_unit_test(what_is_shown_comes_as_json),
        cmocka_unit_test(a_list_says_the_numbers_of_records),
        cmocka_unit_test(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, make_folder, teardown);
}
