/* COCO's JSON files: what is read, and what is wrong with files that are refused. */
#include "io/alloc_failures.h"
#include "io/folder.h"

#include <tilth/io/coco/annotations.h>

/* Quotes are written as ': no text here has one. */
static char *json(const char *text)
{
    static char buffers[4][4096];
    static int next;
    char *buffer = buffers[next++ % 4];
    snprintf(buffer, sizeof buffers[0], "%s", text);
    for (char *p = buffer; *p; p++)
        if (*p == '\'') *p = '"';
    return buffer;
}

static tl_status parse(tl_coco_set **out, const char *text, bool masks)
{
    const char *good = json(text);
    return tl_coco_parse(out, "gt.json", good, strlen(good), masks);
}

static tl_status parse_results(tl_coco_set **out, const tl_coco_set *truths, const char *text,
                               bool masks)
{
    const char *good = json(text);
    return tl_coco_parse_results(out, "dt.json", good, strlen(good), truths, masks);
}

#define IMAGES "'images': [{'id': 7, 'height': 4, 'width': 5, 'file_name': 'a.jpg'}, {'id': -3}]"
#define CATEGORIES "'categories': [{'id': 3, 'name': 'car'}, {'id': 90}]"
#define FILE_WITH(annotations)                                                                     \
    "{'info': {'x': [1, {}]}, 'annotations': [" annotations "], " IMAGES ", " CATEGORIES "}"

static void annotations(void **state)
{
    (void)state;
    tl_coco_set *s;
    assert_ok(parse(&s,
                    FILE_WITH("{'id': 1, 'image_id': 7, 'category_id': 3, 'bbox': [1, 2.5, 3, 2], "
                              "'area': 4.5, 'iscrowd': 1, 'segmentation': 'whatever'}, "
                              "{'image_id': -3.0, 'category_id': 12, 'bbox': [0, 0, 1e1, 2]}"),
                    false));
    assert_true(s->images.count == 2 && s->categories.count == 2 && s->objects.count == 2);
    assert_true(s->images.items[0].height == 4 && s->images.items[0].width == 5);
    assert_true(s->images.items[1].id == -3 && s->images.items[1].height == 0);
    assert_string_equal(s->categories.items[0].name, "car");
    assert_string_equal(s->categories.items[1].name, "90");
    const tl_coco_object *o = s->objects.items;
    assert_true(o[0].image == 7 && o[0].category == 3 && o[0].crowd && o[0].area == 4.5);
    assert_true(o[0].box[1] == 2.5 && o[0].box[3] == 2 && !o[0].mask.counts);
    assert_true(!o[1].crowd && o[1].area == 20);
    tl_coco_set_free(&s);
}

static void segmentations(void **state)
{
    (void)state;
    tl_coco_set *s, *r;
    assert_ok(parse(&s,
                    FILE_WITH("{'image_id': 7, 'category_id': 3, 'bbox': [0, 0, 1, 1], "
                              "'segmentation': {'size': [4, 5], 'counts': '5220003'}}, "
                              "{'image_id': 7, 'category_id': 3, 'bbox': [0, 0, 1, 1], 'area': 1, "
                              "'segmentation': {'size': [4, 5], 'counts': [8, 2, 2, 2, 2, 2, 2]}}, "
                              "{'image_id': 7, 'category_id': 3, 'bbox': [0, 0, 1, 1], "
                              "'segmentation': [[0, 0, 2, 0, 2, 2, 0, 2], [3, 0, 5, 0, 5, 4, 3, "
                              "4]]}"),
                    true));
    const tl_coco_object *o = s->objects.items;
    assert_true(o[0].area == 6 && tl_rle_area(&o[0].mask) == 6);
    assert_true(o[1].area == 1 && tl_rle_area(&o[1].mask) == 6 && o[1].mask.counts[0] == 8);
    assert_int_equal(tl_rle_area(&o[2].mask), 4 + 8);
    // Results: of a mask alone its box and area, of a box alone the box as a mask.
    assert_ok(parse_results(&r, s,
                            "[{'image_id': 7, 'category_id': 3, 'score': 0.5, 'segmentation': "
                            "{'size': [4, 5], 'counts': '5220003'}}, {'image_id': 7, "
                            "'category_id': 3, 'score': 1, 'bbox': [1, 1, 3.5, 2]}]",
                            true));
    o = r->objects.items;
    assert_true(o[0].score == 0.5 && o[0].area == 6 && o[0].box[0] == 1 && o[0].box[2] == 3);
    assert_true(o[1].area == 7 && tl_rle_area(&o[1].mask) > 0);
    tl_coco_set_free(&r);
    // Where boxes are compared masks serve for their boxes alone.
    assert_ok(parse_results(&r, s,
                            "[{'image_id': 7, 'category_id': 3, 'score': 0.5, 'bbox': [], "
                            "'segmentation': {'size': [4, 5], 'counts': '5220003'}}]",
                            false));
    o = r->objects.items;
    assert_true(o[0].box[3] == 2 && o[0].area == 6 && !o[0].mask.counts);
    tl_coco_set_free(&r);
    tl_coco_set_free(&s);
}

#define ONE(members) FILE_WITH("{'image_id': 7, 'category_id': 3, 'bbox': [0, 0, 1, 1]" members "}")
#define MASK(value) ONE(", 'segmentation': " value)

static void bad_annotations(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
        bool masks;
    } rows[] = {
        {"", "'gt.json': '{' is expected at character 1, the end", false},
        {"[]", "'gt.json': '{' is expected at character 1", false},
        {"{" IMAGES "}", "there is no 'categories': a COCO annotation file has a list", false},
        {"{'images': [], 'images': []}", "'images' is there twice", false},
        {"{'images': {}, 'categories': [], 'annotations': []}", "images: '[' is expected", false},
        {"{'images': [], 'categories': [], 'annotations': []}", "categories: there are none",
         false},
        {"{'images': [3], " CATEGORIES ", 'annotations': []}", "images[0]: must be an object",
         false},
        {"{'images': [{}], " CATEGORIES ", 'annotations': []}", "images[0]: there is no 'id'",
         false},
        {"{'images': [{'id': 1.5}], " CATEGORIES ", 'annotations': []}",
         "images[0]: id: must be a whole number", false},
        {"{'images': [{'id': 1e30}], " CATEGORIES ", 'annotations': []}",
         "images[0]: id: must be a whole number", false},
        {"{'images': [{'id': 1, 'height': 70000}], " CATEGORIES ", 'annotations': []}",
         "images[0]: height: must be a whole number from 1 to 65536", false},
        {"{'images': [{'id': 1}, {'id': 2}, {'id': 1}], " CATEGORIES ", 'annotations': []}",
         "images: two have the id 1", false},
        {"{" IMAGES ", 'categories': [{'id': 1}, {'id': 1}], 'annotations': []}",
         "categories: two have the id 1", false},
        {"{" IMAGES ", 'categories': [{'id': 1, 'name': 2}], 'annotations': []}",
         "categories[0]: name: must be a text", false},
        {FILE_WITH("{'image_id': 8, 'category_id': 3, 'bbox': [0, 0, 1, 1]}"),
         "'gt.json': annotations[0]: image_id: there is no image 8 in 'images'", false},
        {FILE_WITH("{'image_id': 7, 'bbox': [0, 0, 1, 1]}"), "there is no 'category_id'", false},
        {FILE_WITH("{'image_id': 7, 'category_id': 3}"), "annotations[0]: there is no 'bbox'",
         false},
        {FILE_WITH("{'image_id': 7, 'category_id': 3, 'bbox': [0, 0, 1]}"),
         "bbox: must be a list of 4 numbers", false},
        {FILE_WITH("{'image_id': 7, 'category_id': 3, 'bbox': [0, 0, 1, 'x']}"),
         "bbox: must be a list of 4 numbers", false},
        {FILE_WITH("{'image_id': 7, 'category_id': 3, 'bbox': 'x'}"),
         "bbox: must be a list of 4 numbers", false},
        {FILE_WITH("{'image_id': 7, 'category_id': 3, 'bbox': [0, 0, 1e200, 1]}"),
         "annotations[0]: number 2 of the box is 1e+200", false},
        {ONE(", 'area': 'x'"), "annotations[0]: area: must be a number", false},
        {ONE(", 'iscrowd': 2"), "annotations[0]: iscrowd: must be 0 or 1", false},
        {ONE(", 'iscrowd': 'x'"), "iscrowd: must be 0 or 1", false},
        {ONE(""), "annotations[0]: there is no 'segmentation'", true},
        {MASK("5"), "segmentation: must be a list of polygons, or an object with size and counts",
         true},
        {MASK("[]"), "segmentation: there is no polygon", true},
        {MASK("[[0, 0, 1, 1]]"), "segmentation: polygon 0: a polygon has 2 corners", true},
        {MASK("[[0, 0, 1, 1, 2]]"), "polygon 0: must be a list of pairs of numbers", true},
        {MASK("[[0, 0, 1, 1, 2, 'x']]"), "polygon 0: number 5 is none", true},
        {MASK("[[0, 0, 9, 0, 9, 9], 5]"), "polygon 1: must be a list of pairs", true},
        {MASK("{'counts': 'x'}"), "segmentation: size: must be a list of 2 numbers", true},
        {MASK("{'size': [4, 5.5], 'counts': 'x'}"), "size: must be two whole numbers from 1", true},
        {MASK("{'size': [5, 4], 'counts': '5220003'}"),
         "size: the mask has 5 x 4 pixels, but image 7 has 4 x 5", true},
        {MASK("{'size': [4, 5], 'counts': 9}"), "counts: must be a text, or a list", true},
        {MASK("{'size': [4, 5], 'counts': [20.5]}"), "counts: number 0 must be a whole one", true},
        {MASK("{'size': [4, 5], 'counts': [21]}"), "run 0 of the mask has the length 21", true},
        {MASK("{'size': [4, 5], 'counts': '52200'}"), "the runs of the mask hold", true},
        {FILE_WITH("{'image_id': -3, 'category_id': 3, 'bbox': [0, 0, 1, 1], 'segmentation': [[0, "
                   "0, 1, 1, 0, 1]]}"),
         "polygons need 'height' and 'width' of image -3", true},
        {FILE_WITH("{'image_id': 7,}"), "annotations[0]: string or '}' expected", false},
        {FILE_WITH("{'image_id': 7, 'image_id': 7}"), "duplicate object key", false},
        {FILE_WITH("") " x", "nothing more is expected at character", false},
    };
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        tl_coco_set *s;
        assert_fails(parse(&s, rows[i].text, rows[i].masks), TL_EDATA, rows[i].message);
        assert_null(s);
        assert_true(strncmp(tl_error_message(), "'gt.json': ", 11) == 0);
    }
}

static void bad_results(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
        bool masks;
    } rows[] = {
        {"{}", "'dt.json': '[' is expected at character 1", false},
        {"[{'image_id': 9, 'category_id': 3, 'score': 1, 'bbox': [0, 0, 1, 1]}]",
         "'dt.json': [0]: image_id: there is no image 9 in the annotations", false},
        {"[{'image_id': '7', 'category_id': 3, 'score': 1, 'bbox': [0, 0, 1, 1]}]",
         "'dt.json': [0]: image_id: must be a whole number", false},
        {"[{'image_id': 7, 'category_id': 3, 'bbox': [0, 0, 1, 1]}]", "[0]: there is no 'score'",
         false},
        {"[{'image_id': 7, 'category_id': 3, 'score': null, 'bbox': [0, 0, 1, 1]}]",
         "[0]: score: must be a number", false},
        {"[{'image_id': 7, 'category_id': 3, 'score': 1}]", "[0]: there is no 'bbox'", false},
        {"[{'image_id': 7, 'category_id': 3, 'score': NaN, 'bbox': [0, 0, 1, 1]}]",
         "[0]: invalid token", false},
        {"[{'image_id': -3, 'category_id': 3, 'score': 1, 'bbox': [0, 0, 1, 1]}]",
         "the box as a mask needs 'height' and 'width' of image -3", true},
        {"[{'image_id': 7, 'category_id': 3, 'score': 1, 'bbox': [0, 0, 1e9, 1]}]",
         "[0]: bbox: coordinate", true},
    };
    tl_coco_set *truths, *s;
    assert_ok(parse(&truths, FILE_WITH(""), false));
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        assert_fails(parse_results(&s, truths, rows[i].text, rows[i].masks), TL_EDATA,
                     rows[i].message);
        assert_null(s);
    }
    assert_ok(parse_results(&s, truths, " [ ] ", false));
    assert_int_equal(s->objects.count, 0);
    tl_coco_set_free(&s);
    tl_coco_set_free(&truths);
}

static void files(void **state)
{
    (void)state;
    tl_coco_set *truths, *found;
    const char *truth_path = in_folder("gt.json"), *found_path = in_folder("dt.json");
    const char *text = json(ONE(""));
    put_bytes(truth_path, text, strlen(text));
    assert_ok(tl_coco_read(&truths, truth_path, false));
    text = json("[{'image_id': 7, 'category_id': 3, 'score': 1, 'bbox': [0, 0, 1, 1]}, 5]");
    put_bytes(found_path, text, strlen(text));
    assert_fails(tl_coco_read_results(&found, found_path, truths, false), TL_EDATA,
                 "dt.json': [1]: must be an object");
    assert_fails(tl_coco_read_results(&found, in_folder("none"), truths, false), TL_ENOTFOUND,
                 "none");
    assert_null(found);
    put_bytes(found_path, text, strlen(text) - 4);
    assert_fails(tl_coco_read_results(&found, found_path, truths, false), TL_EDATA,
                 "',' or ']' is expected at character");
    tl_coco_set_free(&truths);
}

#define AT(image, x, more)                                                                         \
    "{'category_id': 3, 'bbox': [" #x ", 0, 1, 1]" more ", 'image_id': " #image "}"

static void image_by_image(void **state)
{
    (void)state;
    tl_coco_file *f;
    tl_coco_object o;
    const char *path = in_folder("file.json");
    const char *text = json(FILE_WITH(AT(7, 1, "") ", " AT(-3, 2, "") ", " AT(5, 9, "") ", " AT(
        7.0, 3, ", 'segmentation': {'size': [4, 5], 'counts': '5220003'}") ", " AT(7, 1e999,
                                                                                   "") ", 8"));
    put_bytes(path, text, strlen(text));
    assert_fails(tl_coco_open(&f, path), TL_EDATA, "file.json': annotations[5]: '{' is expected");
    assert_null(f);
    text = json(FILE_WITH(AT(7, 1, "") ", " AT(-3, 2, "") ", " AT(5, 9, "") ", " AT(
        7.0, 3, ", 'segmentation': {'size': [4, 5], 'counts': '5220003'}") ", " AT(7, 1e200, "")));
    put_bytes(path, text, strlen(text));
    assert_ok(tl_coco_open(&f, path));
    const tl_coco_set *set = tl_coco_file_set(f);
    assert_true(set->images.count == 2 && set->categories.count == 2 && !set->objects.count);
    assert_string_equal(set->images.items[0].file_name, "a.jpg");
    assert_null(set->images.items[1].file_name);
    assert_int_equal(tl_coco_file_count(f, -1), 1);
    assert_int_equal(tl_coco_file_count(f, 0), 3);
    assert_int_equal(tl_coco_file_count(f, 1), 1);
    assert_ok(tl_coco_file_object(&o, f, 0, 1, true));
    assert_true(o.image == 7 && o.box[0] == 3 && tl_rle_area(&o.mask) == 6);
    tl_rle_deinit(&o.mask);
    assert_ok(tl_coco_file_object(&o, f, 0, 0, false));
    assert_true(o.box[0] == 1 && !o.mask.counts);
    assert_ok(tl_coco_file_object(&o, f, 1, 0, false));
    assert_true(o.image == -3 && o.box[0] == 2);
    assert_fails(tl_coco_file_object(&o, f, 0, 0, true), TL_EDATA,
                 "file.json': annotations[0]: there is no 'segmentation'");
    assert_fails(tl_coco_file_object(&o, f, 0, 2, false), TL_EDATA,
                 "file.json': annotations[4]: number 0 of the box is 1e+200");
    tl_coco_close(&f);
}

/* A small file of polygons that go to and fro over a wide image: it would have 2^28 runs. */
static void hostile_polygons(void **state)
{
    (void)state;
    enum { POLYGONS = 100, EDGES = 64 };
    tl_str text = TL_STR_INIT;
    tl_coco_set *s;
    tl_coco_file *f;
    tl_coco_object o;
    tl_str_add(&text, "{\"images\": [{\"id\": 7, \"height\": 32767, \"width\": 65536}], "
                      "\"categories\": [{\"id\": 3}], \"annotations\": [");
    for (int i = 0; i < POLYGONS; i++) {
        tl_str_addf(&text,
                    "%s{\"image_id\": 7, \"category_id\": 3, \"bbox\": [0, 0, 9, 9], "
                    "\"segmentation\": [[0, 0",
                    i ? ", " : "");
        for (int e = 1; e < EDGES; e++) tl_str_addf(&text, ", %d, %d", e % 2 ? 65536 : 0, 9 * e);
        tl_str_add(&text, "]]}");
    }
    tl_str_add(&text, "]}");
    assert_ok(tl_str_status(&text));
    assert_true(text.length < 100000);
    // Two have used up most of what all may cross: a budget that is there takes the time of two.
    assert_fails(tl_coco_parse(&s, "gt.json", text.data, text.length, true), TL_ELIMIT,
                 "'gt.json': annotations[2]: segmentation: polygon 0: the edges of a polygon cross "
                 "columns of pixels more than 311296 times");
    assert_null(s);
    assert_ok(tl_coco_parse(&s, "gt.json", text.data, text.length, false)); // without its masks
    tl_coco_set_free(&s);
    put_bytes(in_folder("wide.json"), text.data, text.length);
    assert_ok(tl_coco_open(&f, in_folder("wide.json")));
    for (int i = 0; i < POLYGONS; i++)
        assert_fails(tl_coco_file_object(&o, f, 0, i, true), TL_ELIMIT, "wide.json': annotations[");
    tl_coco_close(&f);
    tl_str_deinit(&text);
}

/* A wide object of a wide image is no attack. */
static void wide_polygons(void **state)
{
    (void)state;
    tl_coco_set *s;
    assert_ok(parse(&s,
                    "{'images': [{'id': 1, 'height': 20000, 'width': 60000}], 'categories': "
                    "[{'id': 1}], 'annotations': [{'image_id': 1, 'category_id': 1, 'bbox': [0, 0, "
                    "9, 9], 'segmentation': [[5, 5, 59995, 5, 59995, 19995, 5, 19995], [100, 100, "
                    "59000, 3000, 30000, 19000]]}]}",
                    true));
    assert_true(s->objects.items[0].area == 59990.0 * 19990);
    tl_coco_set_free(&s);
}

static tl_status open_and_read(void)
{
    tl_coco_file *f;
    tl_coco_object o;
    TL_TRY(tl_coco_open(&f, in_folder("file.json")));
    tl_status st = tl_coco_file_object(&o, f, 0, 1, true);
    if (st == TL_OK) tl_rle_deinit(&o.mask);
    tl_coco_close(&f);
    return st;
}

static tl_status read_all(void)
{
    tl_coco_set *truths, *found = NULL;
    TL_TRY(parse(&truths,
                 FILE_WITH("{'image_id': 7, 'category_id': 3, 'bbox': [0, 0, 1, 1], "
                           "'segmentation': [[0, 0, 2, 0, 2, 2], [3, 0, 5, 0, 5, 4]]}, "
                           "{'image_id': 7, 'category_id': 3, 'bbox': [0, 0, 1, 1], "
                           "'segmentation': {'size': [4, 5], 'counts': [8, 12]}}"),
                 true));
    tl_status st = parse_results(&found, truths,
                                 "[{'image_id': 7, 'category_id': 3, 'score': 0.5, "
                                 "'segmentation': {'size': [4, 5], 'counts': '5220003'}}]",
                                 true);
    tl_coco_set_free(&found);
    tl_coco_set_free(&truths);
    return st;
}

static void memory_may_lack(void **state)
{
    (void)state;
    assert_survives_failures(read_all, 10);
    assert_survives_failures(open_and_read, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(annotations),
        cmocka_unit_test(segmentations),
        cmocka_unit_test(bad_annotations),
        cmocka_unit_test(bad_results),
        cmocka_unit_test(files),
        cmocka_unit_test(image_by_image),
        cmocka_unit_test(hostile_polygons),
        cmocka_unit_test(wide_polygons),
        cmocka_unit_test(memory_may_lack),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
