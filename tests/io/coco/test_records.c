/* COCO's files, written: annotations of records beside those of Model Garden
 * (tests/golden/coco_records.py made them), and sets that are written and read again. */
#include "io/alloc_failures.h"
#include "io/folder.h"

#include <tilth/io/coco/records.h>
#include <tilth/io/image/png.h>
#include <tilth/io/tensorflow/example.h>

#define GOLDEN TEST_DATA "/golden/coco_records/"

static const char *const shards[] = {GOLDEN "original-00000-of-00002.tfrecord",
                                     GOLDEN "original-00001-of-00002.tfrecord"};

static void same_mask(const tl_rle *a, const tl_rle *b)
{
    assert_true(a->height == b->height && a->width == b->width && a->count == b->count);
    if (a->count) assert_memory_equal(a->counts, b->counts, (size_t)a->count * sizeof *a->counts);
}

/* Bit by bit; `named` when both have names. */
static void same_sets(const tl_coco_set *a, const tl_coco_set *b, bool named)
{
    assert_int_equal(a->images.count, b->images.count);
    for (int64_t i = 0; i < a->images.count; i++) {
        const tl_coco_image *x = &a->images.items[i], *y = &b->images.items[i];
        assert_true(x->id == y->id && x->height == y->height && x->width == y->width);
        assert_int_equal(!x->file_name, !y->file_name);
        if (x->file_name) assert_string_equal(x->file_name, y->file_name);
    }
    assert_int_equal(a->categories.count, b->categories.count);
    for (int64_t i = 0; named && i < a->categories.count; i++) {
        assert_int_equal(a->categories.items[i].id, b->categories.items[i].id);
        assert_string_equal(a->categories.items[i].name, b->categories.items[i].name);
    }
    assert_int_equal(a->objects.count, b->objects.count);
    for (int64_t i = 0; i < a->objects.count; i++) {
        const tl_coco_object *x = &a->objects.items[i], *y = &b->objects.items[i];
        assert_true(x->image == y->image && x->category == y->category && x->crowd == y->crowd);
        assert_memory_equal(x->box, y->box, sizeof x->box);
        assert_true(x->area == y->area);
        same_mask(&x->mask, &y->mask);
    }
}

static void beside_the_original(void **state)
{
    (void)state;
    tl_coco_set *ours, *theirs, *again, *first;
    tl_coco_records_args args = {.paths = {(const char **)(uintptr_t)shards, 2}, .masks = true};
    assert_ok(tl_coco_from_records(&ours, &args));
    assert_ok(tl_coco_read(&theirs, GOLDEN "original.json", true));
    same_sets(ours, theirs, false); // Model Garden keeps no names
    assert_int_equal(ours->objects.count, 5);
    assert_true(ours->categories.items[1].id == 3 && ours->categories.items[2].id == 18);
    assert_string_equal(ours->categories.items[1].name, "Auto f\xc3\xbcr alle");
    assert_ok(tl_coco_write(in_folder("annotation.json"), ours));
    assert_ok(tl_coco_read(&again, in_folder("annotation.json"), true));
    same_sets(ours, again, true);
    args.examples = 1;
    args.masks = false;
    assert_ok(tl_coco_from_records(&first, &args));
    assert_true(first->images.count == 1 && first->objects.count == 3);
    assert_null(first->objects.items[0].mask.counts);
    tl_coco_set_free(&first);
    tl_coco_set_free(&again);
    tl_coco_set_free(&theirs);
    tl_coco_set_free(&ours);
}

static void results(void **state)
{
    (void)state;
    tl_coco_set *truths, *found, *again;
    assert_ok(tl_coco_read(&truths, GOLDEN "original.json", true));
    assert_ok(tl_coco_set_new(&found));
    assert_ok(tl_coco_write_results(in_folder("found.json"), found, true)); // nothing was found
    assert_ok(tl_coco_read_results(&again, in_folder("found.json"), truths, false));
    assert_int_equal(again->objects.count, 0);
    tl_coco_set_free(&again);
    for (int64_t i = 0; i < truths->objects.count; i++) {
        tl_coco_object o = truths->objects.items[i];
        o.score = 1.0 / (double)(i + 3);
        o.crowd = false;
        tl_rle mask = o.mask;
        assert_ok(tl_rle_merge(&o.mask, &mask, 1, false));
        assert_ok(tl_coco_add_object(found, &o));
    }
    for (int masks = 0; masks < 2; masks++) {
        assert_ok(tl_coco_write_results(in_folder("found.json"), found, masks));
        assert_ok(tl_coco_read_results(&again, in_folder("found.json"), truths, masks));
        assert_int_equal(again->objects.count, found->objects.count);
        for (int64_t i = 0; i < found->objects.count; i++) {
            const tl_coco_object *x = &found->objects.items[i], *y = &again->objects.items[i];
            assert_true(x->image == y->image && x->category == y->category && x->score == y->score);
            if (masks) same_mask(&x->mask, &y->mask);
            else assert_memory_equal(x->box, y->box, sizeof x->box);
            // Sizes are those of what the file has.
            if (masks) assert_true(y->area == (double)tl_rle_area(&x->mask));
        }
        tl_coco_set_free(&again);
    }
    assert_ok(tl_coco_add_object(found, &(tl_coco_object){.image = 7}));
    assert_fails(tl_coco_write_results(in_folder("found.json"), found, true), TL_EINVAL,
                 "an object of image 7 has no mask");
    tl_coco_set_free(&found);
    tl_coco_set_free(&truths);
    // What is not known is left out; nothing takes the place of a file that cannot be written.
    assert_ok(tl_coco_set_new(&found));
    assert_ok(tl_coco_add_image(found, &(tl_coco_image){.id = -7, .file_name = "a\"b\n.jpg"}));
    assert_ok(tl_coco_add_category(found, 2, NULL));
    assert_ok(tl_coco_write(in_folder("few.json"), found));
    size_t size;
    char *text = bytes_of(in_folder("few.json"), &size);
    assert_string_equal(text, "{\"images\": [{\"id\": -7, \"file_name\": \"a\\\"b\\n.jpg\"}],\n"
                              "\"categories\": [{\"id\": 2, \"name\": \"2\"}],\n"
                              "\"annotations\": []}\n");
    tl_free(text);
    assert_fails(tl_coco_write(in_folder("no/such.json"), found), TL_ENOTFOUND, "such.json");
    tl_coco_set_free(&found);
}

/* --- records that are none -------------------------------------------------------------------- */

typedef struct parts {
    const char *id;
    int64_t boxes, labels, masks, side, height;
    bool no_image;
} parts;

static tl_status add(tl_coco_set *set, const parts *p, const tl_coco_records_args *args)
{
    static const char *const sides[] = {"image/object/bbox/ymin", "image/object/bbox/xmin",
                                        "image/object/bbox/ymax", "image/object/bbox/xmax"};
    static uint8_t pixels[64];
    static const float numbers[4] = {0.25f, 0.5f, NAN, 1};
    static const int64_t labels[4] = {5, 1, 5, 2};
    tl_str example = TL_STR_INIT, png = TL_STR_INIT, mask = TL_STR_INIT;
    assert_ok(tl_png_encode(&png, &(tl_png_image){8, 4, 1, pixels}));
    assert_ok(tl_png_encode(&mask, &(tl_png_image){p->side, 4, 1, pixels}));
    tl_example_writer w = tl_example_begin(&example);
    if (!p->no_image)
        tl_example_add_bytes(&w, "image/encoded", &(tl_bytes){png.data, png.length}, 1);
    if (p->id) tl_example_add_text(&w, "image/source_id", p->id);
    if (p->height) tl_example_add_ints(&w, "image/height", &p->height, 1);
    for (int s = 0; s < 4; s++) tl_example_add_floats(&w, sides[s], numbers, p->boxes);
    tl_example_add_ints(&w, "image/object/class/label", labels, p->labels);
    tl_bytes masks[4];
    for (int i = 0; i < 4; i++) masks[i] = (tl_bytes){mask.data, mask.length};
    tl_example_add_bytes(&w, "image/object/mask", masks, p->masks);
    assert_ok(tl_example_end(&w));
    tl_status st = tl_coco_add_example(set, example.data, example.length, args);
    tl_str_deinit(&example);
    tl_str_deinit(&png);
    tl_str_deinit(&mask);
    return st;
}

static int64_t an_id(const void *data, size_t size)
{
    (void)data;
    return (int64_t)size + 1000000;
}

static void odd_records(void **state)
{
    (void)state;
    tl_coco_set *s;
    const tl_coco_records_args plain = {0}, masks = {.masks = true},
                               made = {.make_id = an_id, .regenerate_id = true};
    assert_ok(tl_coco_set_new(&s));
    assert_ok(add(s, &(parts){"12", 2, 2, 0, 8, 0, false}, &plain));
    assert_true(s->images.items[0].id == 12 && s->images.items[0].height == 4);
    // Without areas: those of the boxes, which are of no size here.
    assert_true(s->objects.items[1].area == 0 && s->objects.items[1].box[0] == 4);
    assert_ok(add(s, &(parts){"-12", 2, 2, 2, 8, 7, false}, &masks));
    assert_true(s->images.items[1].id == -12 && s->images.items[1].height == 7);
    assert_ok(add(s, &(parts){"-12", 0, 0, 0, 8, 0, false}, &made));
    assert_true(s->images.items[2].id > 1000000);
    assert_true(s->categories.count == 2 && s->categories.items[0].id == 1);
    static const struct {
        parts p;
        bool masks;
        const char *why;
    } bad[] = {
        {{.id = "1", .side = 8, .no_image = true}, false, "'image/encoded'"},
        {{.id = "", .side = 8}, false, "'image/source_id' is missing or empty"},
        {{.id = NULL, .side = 8}, false, "'image/source_id' is missing or empty"},
        {{.id = "1x", .side = 8},
         false,
         "'image/source_id' is '1x', but images of COCO have whole"},
        {{.id = "99999999999999999999999", .side = 8}, false, "have whole numbers"},
        {{.id = "1", .side = 8, .height = -4}, false, "'image/height' is -4"},
        {{"1", 2, 1, 0, 8, 0, false},
         false,
         "'image/object/class/label' has 1 values for 2 objects"},
        {{"1", 2, 2, 1, 8, 0, false}, true, "'image/object/mask' has 1 values for 2 objects"},
        {{"1", 1, 1, 1, 7, 0, false}, true, "of object 0 has 4 x 7 pixels, but the image 4 x 8"},
        {{"1", 3, 3, 0, 8, 0, false}, false, "object 2: number 0 of the box is nan"},
    };
    for (size_t i = 0; i < TL_COUNT(bad); i++)
        assert_fails(add(s, &bad[i].p, bad[i].masks ? &masks : &plain), TL_EDATA, bad[i].why);
    tl_coco_set_free(&s);
    const char *path = in_folder("none");
    put_bytes(path, "\x01", 1);
    tl_coco_records_args args = {.paths = {&path, 1}};
    assert_fails(tl_coco_from_records(&s, &args), TL_EINVAL, "none'");
    assert_null(s);
}

static tl_status read_and_write(void)
{
    tl_coco_set *s;
    tl_coco_records_args args = {.paths = {(const char **)(uintptr_t)shards, 1}, .masks = true};
    TL_TRY(tl_coco_from_records(&s, &args));
    tl_status st = tl_coco_write(in_folder("lacking.json"), s);
    tl_coco_set_free(&s);
    return st;
}

static void memory_may_lack(void **state)
{
    (void)state;
    assert_survives_failures(read_and_write, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beside_the_original),
        cmocka_unit_test(results),
        cmocka_unit_test(odd_records),
        cmocka_unit_test(memory_may_lack),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
