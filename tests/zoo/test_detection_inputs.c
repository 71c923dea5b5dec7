/* Pictures with boxes on their way into a detector: against Model Garden's decoder and parser
 * (tests/golden/vision_inputs.py), changes at random, what is refused, exact resuming.
 * needs: threads */
#include "zoo/inputs_lab.h"

#include <tilth/zoo/detection_inputs.h>

#include "nn/golden_file.h"
#include "zoo/vision/detection_example.h"
#include "zoo/inner/shapes.h"

#define RETINANET TEST_DATA "/data/configs/retinanet.yaml"

static const tl_detection_data_config *parse(const char *yaml)
{
    return data_made(&tl_detection_data_config_desc, yaml);
}

static tl_status refused(const char *yaml)
{
    const void *config;
    return data_parse(&config, &tl_detection_data_config_desc, yaml);
}

static tl_detection_inputs_args args_of(const tl_detection_data_config *data)
{
    static const int64_t size[] = {96, 96, 3};
    return (tl_detection_inputs_args){.data = data,
                                      .size = {size, 3},
                                      .max_level = 5,
                                      .input = {.seed = 3},
                                      .threads = 2,
                                      .arena = lab_arena};
}

static tl_dataset *inputs(const char *yaml, bool evaluation)
{
    tl_dataset *d;
    tl_detection_inputs_args args = args_of(parse(yaml));
    args.evaluation = evaluation;
    args.num_classes = TLI_SHAPES_KINDS + 1;
    assert_ok(tl_detection_inputs(&d, &args));
    return d;
}

/* --- configuration ---------------------------------------------------------------------------- */

static void test_defaults_are_model_gardens(void **state)
{
    (void)state;
    data_is_as_in_file(&tl_detection_data_config_desc, RETINANET, "train_data");
    data_is_as_in_file(&tl_detection_data_config_desc, RETINANET, "validation_data");
    data_reads_files(&tl_detection_data_config_desc, TEST_DATA "/data/configs/retinanet*.yaml", 4);
}

static void test_wrong_configurations(void **state)
{
    (void)state;
    assert_fails(refused("file_type: tfds"), TL_EUNSUPPORTED, "file_type: tfds is not supported");
    assert_fails(refused("parser: {aug_scale_min: 2}"), TL_EINVAL, "aug_scale_min: it must be");
    assert_fails(refused("parser: {unmatched_threshold: 0.7}"), TL_EINVAL,
                 "unmatched_threshold: it must be");
    assert_fails(refused("mean: [1, 2]\nstddev: [1, 2]"), TL_EINVAL, "expected 3 of both");
    assert_fails(refused("parser: {aug_rand_jpeg: {min_quality: 90, max_quality: 90}}"), TL_EINVAL,
                 "min_quality: it must be below");
}

/* --- made-up pictures ------------------------------------------------------------------------- */

static void test_shapes_are_known_exactly(void **state)
{
    (void)state;
    static tli_shapes s, again, other;
    int64_t of_class[TLI_SHAPES_KINDS + 1] = {0}, of_count[TLI_SHAPES_MOST + 1] = {0};
    for (int64_t i = 0; i < 64; i++) {
        tli_shapes_make(&s, TLI_SHAPES_TRAIN, i);
        tli_shapes_make(&again, TLI_SHAPES_TRAIN, i);
        tli_shapes_make(&other, TLI_SHAPES_VALIDATION, i);
        assert_memory_equal(s.pixels, again.pixels, sizeof s.pixels);
        assert_memory_not_equal(s.pixels, other.pixels, sizeof s.pixels);
        of_count[s.count]++;
        for (int64_t k = 0; k < s.count; k++) {
            int64_t area = 0, seen = 0, outside = 0;
            const float *box = s.boxes[k];
            of_class[s.classes[k]]++;
            for (int p = 0; p < TLI_SHAPES_PIXELS; p++) {
                int y = p / TLI_SHAPES_SIDE, x = p % TLI_SHAPES_SIDE;
                bool inside = (float)y >= box[0] && (float)x >= box[1] && (float)y < box[2]
                              && (float)x < box[3];
                bool hidden = false;
                for (int64_t j = k + 1; j < s.count; j++) hidden |= s.masks[j][p] != 0;
                area += s.masks[k][p];
                outside += s.masks[k][p] && !inside;
                seen += s.masks[k][p] && !hidden;
                if (s.masks[k][p] && !hidden) assert_int_equal(s.labels[p], s.classes[k]);
            }
            assert_int_equal(area, s.areas[k]);
            assert_int_equal(outside, 0);
            assert_true(2 * seen >= area && area > 60);
        }
    }
    for (int i = 1; i <= TLI_SHAPES_KINDS; i++) assert_true(of_class[i] > 10);
    assert_true(of_count[0] == 0 && of_count[1] > 0 && of_count[6] > 0);
}

static void test_made_up_batches(void **state)
{
    (void)state;
    static tli_shapes s;
    tl_dataset *d = inputs("file_type: synthetic\nsynthetic_examples: 5\nglobal_batch_size: 3\n"
                           "parser: {max_num_instances: 8}",
                           true);
    tl_batch b = data_next(d);
    const double *boxes = data_numbers(&b, "boxes", TL_SHAPE(3, 8, 4));
    const double *classes = data_numbers(&b, "classes", TL_SHAPE(3, 8));
    const double *truth = data_numbers(&b, "groundtruth/boxes", TL_SHAPE(3, 8, 4));
    const double *areas = data_numbers(&b, "groundtruth/areas", TL_SHAPE(3, 8));
    const double *ids = data_numbers(&b, "groundtruth/source_id", TL_SHAPE(3));
    const double *counts = data_numbers(&b, "groundtruth/num_detections", TL_SHAPE(3));
    const double *crowds = data_numbers(&b, "groundtruth/is_crowds", TL_SHAPE(3, 8));
    const double *image = data_numbers(&b, "image", TL_SHAPE(3, 96, 96, 3));
    const double *info = data_numbers(&b, "image_info", TL_SHAPE(3, 4, 2));
    NEAR_ALL(info, 0, 96, 96, 96, 96, 1, 1, 0, 0);
    for (int64_t i = 0; i < 3; i++) {
        tli_shapes_make(&s, TLI_SHAPES_VALIDATION, i);
        assert_true(ids[i] == (double)(i + 1) && counts[i] == (double)s.count);
        assert_near(image[i * 96 * 96 * 3], (s.pixels[0] - 123.675) / 58.395, 1e-5);
        for (int64_t k = 0; k < 8; k++) {
            bool there = k < s.count;
            assert_true(classes[i * 8 + k] == (there ? s.classes[k] : -1));
            assert_true(areas[i * 8 + k] == (there ? (double)s.areas[k] : -1));
            assert_true(crowds[i * 8 + k] == 0);
            for (int j = 0; j < 4; j++) {
                assert_near(boxes[(i * 8 + k) * 4 + j], there ? s.boxes[k][j] : -1, 1e-4);
                assert_near(truth[(i * 8 + k) * 4 + j], there ? s.boxes[k][j] : -1, 1e-4);
            }
        }
    }
    b = data_next(d); // the tail is kept
    assert_int_equal(tl_batch_size(&b), 2);
    data_ends(d);
    tl_dataset_free(&d);
}

static void test_training_resumes_exactly(void **state)
{
    (void)state;
    const char *yaml = "file_type: synthetic\nsynthetic_examples: 7\nglobal_batch_size: 4\n"
                       "is_training: true\nparser: {aug_rand_hflip: true, aug_scale_min: 0.5, "
                       "aug_scale_max: 1.5, aug_rand_jpeg: {}}";
    tl_dataset *first = inputs(yaml, false);
    tl_detection_inputs_args args = args_of(tl_config_value(data_config));
    tl_dataset *second;
    args.threads = 1;
    assert_ok(tl_detection_inputs(&second, &args));
    resumes_exactly(first, second, 3, 5);
    tl_dataset_free(&first);
    tl_dataset_free(&second);
}

/* --- against Model Garden --------------------------------------------------------------------- */

static void test_ids_are_model_gardens(void **state)
{
    (void)state;
    const golden *bytes = golden_peek("ids/bytes"), *lengths = golden_peek("ids/lengths");
    const golden *ids = golden_peek("ids/ids");
    assert_non_null(bytes);
    for (int64_t i = 0; i < lengths->shape.dims[0]; i++)
        assert_true(tl_source_id_of(bytes->values, (size_t)golden_number(lengths, i))
                    == (int64_t)golden_number(ids, i));
    assert_int_equal(tl_source_id_of("", 0), 187172);
    assert_int_equal(tl_source_id_of("abc", 3), 3719063);
    assert_int_equal(tl_source_id_of("hello world", 11), 3757893);
}

static void put_golden(const char *path, const char *name)
{
    const golden *g = golden_peek("detection/%s", name);
    tl_str example = TL_STR_INIT;
    assert_non_null(g);
    tl_str_addn(&example, g->values, (size_t)g->shape.dims[0]);
    write_records(path, &example, 1);
    tl_str_deinit(&example);
}

typedef struct parsed {
    const char *name, *record;
    int64_t size[2], level;
    const char *parser; /* of its fields */
    bool evaluation;
    int64_t room; /* max_num_instances */
} parsed;

static tl_dataset *open_record(const parsed *p)
{
    char yaml[512];
    tl_dataset *d;
    snprintf(yaml, sizeof yaml,
             "input_path: in.tfrecord\nglobal_batch_size: 1\nis_training: %s\ndecoder: "
             "{simple_decoder: {attribute_names: [colour]}}\nparser: {max_num_instances: %d%s}",
             p->evaluation ? "false" : "true", (int)p->room, p->parser ? p->parser : "");
    put_golden("in.tfrecord", p->record);
    tl_detection_inputs_args args = args_of(parse(yaml));
    args.evaluation = p->evaluation;
    args.size = (tl_ints){p->size, 2};
    args.max_level = p->level;
    args.num_classes = 6;
    assert_ok(tl_detection_inputs(&d, &args));
    return d;
}

/* As the file has them, and -1 (or `beyond`) behind them. */
static void rows_are(const tl_batch *b, const char *field, const golden *g, int64_t room,
                     double most, double beyond)
{
    assert_non_null(g);
    int64_t width = g->shape.rank > 1 ? g->shape.dims[1] : 1, rows = g->shape.dims[0];
    tl_shape shape = g->shape.rank > 1 ? TL_SHAPE(1, room, width) : TL_SHAPE(1, room);
    const double *found = data_numbers(b, field, shape);
    for (int64_t i = 0; i < room * width; i++) {
        double want = i < rows * width ? golden_number(g, i) : beyond;
        if (!(fabs(found[i] - want) <= most))
            fail_msg("%s: number %lld is %.9g, not %.9g", g->name, (long long)i, found[i], want);
    }
}

static void image_is(const tl_batch *b, const golden *g, double most)
{
    assert_non_null(g);
    const double *found =
        data_numbers(b, "image", TL_SHAPE(1, g->shape.dims[0], g->shape.dims[1], 3));
    for (int64_t i = 0; i < tl_shape_count(&g->shape); i++)
        if (!(fabs(found[i] - golden_number(g, i)) <= most))
            fail_msg("%s: number %lld is %.9g, not %.9g", g->name, (long long)i, found[i],
                     golden_number(g, i));
}

static void is_parsed(const tl_batch *b, const char *name, int64_t room)
{
    const double *info = data_numbers(b, "image_info", TL_SHAPE(1, 4, 2));
    const golden *want = golden_peek("detection/%s/image_info", name);
    for (int64_t i = 0; i < 8; i++) assert_near(info[i], golden_number(want, i), 1e-6);
    image_is(b, golden_peek("detection/%s/image", name), 5e-6);
    rows_are(b, "boxes", golden_peek("detection/%s/boxes", name), room, 1e-5, -1);
    rows_are(b, "classes", golden_peek("detection/%s/classes", name), room, 0, -1);
    rows_are(b, "attribute/colour", golden_peek("detection/%s/colour", name), room, 0, -1);
}

static const parsed parses[] = {
    {"train", "whole", {24, 32}, 3, NULL, false, 9},
    {"small", "whole", {24, 32}, 3, ", aug_scale_min: 0.7, aug_scale_max: 0.7", false, 9},
    {"crowds", "whole", {24, 32}, 3, ", skip_crowd_during_training: false", false, 9},
    {"stretched", "plain", {21, 30}, 4, ", keep_aspect_ratio: false", false, 5},
    {"unpadded", "plain", {21, 30}, 4, ", pad: false", false, 100},
    {"compressed", "jpeg", {24, 32}, 3, NULL, false, 6},
    {"eval", "whole", {21, 30}, 4, NULL, true, 7},
};

static void test_parses_as_model_garden(void **state)
{
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(parses); i++) {
        tl_dataset *d = open_record(&parses[i]);
        tl_batch b = data_next(d);
        is_parsed(&b, parses[i].name, parses[i].room);
        tl_dataset_free(&d);
    }
}

static void truth_is(const tl_batch *b, const char *name, const char *field, int64_t room,
                     double beyond)
{
    char ours[64];
    snprintf(ours, sizeof ours, "groundtruth/%s", field);
    rows_are(b, ours, golden_peek("detection/%s/groundtruth/%s", name, field), room, 1e-4, beyond);
}

static void test_ground_truth_is_model_gardens(void **state)
{
    (void)state;
    const parsed p = parses[TL_COUNT(parses) - 1];
    tl_dataset *d = open_record(&p);
    tl_batch b = data_next(d);
    truth_is(&b, "eval", "boxes", 7, -1);
    truth_is(&b, "eval", "classes", 7, -1);
    truth_is(&b, "eval", "areas", 7, -1);
    truth_is(&b, "eval", "is_crowds", 7, 0);
    NEAR_ALL(data_numbers(&b, "groundtruth/source_id", TL_SHAPE(1)), 0, 4711);
    NEAR_ALL(data_numbers(&b, "groundtruth/height", TL_SHAPE(1)), 0, 13);
    NEAR_ALL(data_numbers(&b, "groundtruth/width", TL_SHAPE(1)), 0, 19);
    NEAR_ALL(data_numbers(&b, "groundtruth/num_detections", TL_SHAPE(1)), 0, 5);
    tl_dataset_free(&d);
    // Areas of boxes where the record has none, and less room than objects.
    const parsed few = {"eval_plain", "plain", {21, 30}, 4, NULL, true, 4};
    d = open_record(&few);
    b = data_next(d);
    truth_is(&b, "eval_plain", "boxes", 4, -1);
    truth_is(&b, "eval_plain", "areas", 4, -1);
    NEAR_ALL(data_numbers(&b, "groundtruth/num_detections", TL_SHAPE(1)), 0, 4);
    tl_dataset_free(&d);
    // A record with nothing in it but a picture, whose id is empty.
    const parsed empty = {NULL, "empty", {24, 32}, 3, NULL, true, 3};
    d = open_record(&empty);
    b = data_next(d);
    const double *boxes = data_numbers(&b, "boxes", TL_SHAPE(1, 3, 4));
    for (int i = 0; i < 12; i++) assert_true(boxes[i] == -1);
    NEAR_ALL(data_numbers(&b, "groundtruth/num_detections", TL_SHAPE(1)), 0, 0);
    assert_true(data_numbers(&b, "groundtruth/source_id", TL_SHAPE(1))[0] > 0);
    tl_dataset_free(&d);
}

static bool image_is_like(const tl_batch *b, const golden *g)
{
    const double *found =
        data_numbers(b, "image", TL_SHAPE(1, g->shape.dims[0], g->shape.dims[1], 3));
    for (int64_t i = 0; i < tl_shape_count(&g->shape); i++)
        if (fabs(found[i] - golden_number(g, i)) > 5e-6) return false;
    return true;
}

static void test_flips_are_model_gardens(void **state)
{
    (void)state;
    const parsed p = {NULL, "whole", {24, 32}, 3, ", aug_rand_hflip: true", false, 9};
    tl_dataset *d = open_record(&p);
    int64_t flipped = 0;
    for (int i = 0; i < 16; i++) {
        tl_batch b = data_next(d);
        bool mirrored = image_is_like(&b, golden_peek("detection/flipped/image"));
        is_parsed(&b, mirrored ? "flipped" : "train", 9);
        flipped += mirrored;
    }
    assert_true(flipped > 2 && flipped < 14);
    tl_dataset_free(&d);
}

/* A part of the scaled picture, at the place that image_info tells. */
static void test_large_pictures_are_cut(void **state)
{
    (void)state;
    const parsed p = {NULL,  "plain", {24, 32}, 3, ", aug_scale_min: 1.5, aug_scale_max: 1.5",
                      false, 9};
    const golden *whole = golden_peek("detection/large");
    tl_dataset *d = open_record(&p);
    int64_t height = whole->shape.dims[0], width = whole->shape.dims[1], places[2] = {0};
    double last[2] = {-1, -1};
    assert_true(height > 24 && width > 32);
    for (int n = 0; n < 12; n++) {
        tl_batch b = data_next(d);
        const double *image = data_numbers(&b, "image", TL_SHAPE(1, 24, 32, 3));
        const double *info = data_numbers(&b, "image_info", TL_SHAPE(1, 4, 2));
        const double *boxes = data_numbers(&b, "boxes", TL_SHAPE(1, 9, 4));
        NEAR_ALL(info, 1e-6, 13, 19, 24, 32, (double)height / 13, (double)width / 19);
        for (int y = 0; y < 24; y++)
            for (int i = 0; i < 32 * 3; i++)
                assert_near(image[y * 96 + i],
                            golden_number(whole, ((int64_t)info[6] + y) * width * 3
                                                     + (int64_t)info[7] * 3 + i),
                            5e-6);
        // The first box is (.1, .2, .6, .7).
        NEAR_ALL(boxes, 1e-4, fmax(.1 * (double)height - info[6], 0),
                 fmax(.2 * (double)width - info[7], 0), fmin(.6 * (double)height - info[6], 24),
                 fmin(.7 * (double)width - info[7], 32));
        for (int k = 0; k < 2; k++) places[k] += info[6 + k] != last[k], last[k] = info[6 + k];
    }
    assert_true(places[0] > 4 && places[1] > 4);
    tl_dataset_free(&d);
}

/* --- numbers from the specification ----------------------------------------------------------- */

static void test_known_numbers(void **state)
{
    (void)state;
    static const int64_t size[] = {6, 8, 3}, large[] = {512, 512};
    uint8_t pixels[3 * 5 * 3], colour[3] = {0, 128, 255};
    float image[8 * 8 * 3], info[8], normal[3];
    int64_t padded[2];
    for (int i = 0; i < 45; i++) pixels[i] = (uint8_t)i;
    const tl_detection_data_config *d = parse("mean: [0, 0, 0]\nstddev: [1, 1, 1]");
    assert_ok(tl_detection_padded_size(padded, d, (tl_ints){size, 3}, 3));
    assert_true(padded[0] == 8 && padded[1] == 8);
    assert_ok(tl_detection_prepare_pixels(image, info, d, (tl_ints){size, 3}, 3, TL_SHAPE(3, 5, 3),
                                          pixels));
    static const double wants_info[] = {3, 5, 6, 8, 1.666667, 1.6, 0, 0};
    static const double row[] = {0, 1.3125, 3.1875, 5.0625, 6.9375, 8.8125, 10.6875, 12};
    for (int i = 0; i < 8; i++) assert_near(info[i], wants_info[i], 1e-6);
    for (int x = 0; x < 8; x++) assert_near(image[3 * x], row[x], 1e-5);
    assert_near(image[1 * 24], 6, 1e-5);
    assert_near(image[2 * 24], 15, 1e-5);
    assert_near(image[4 * 24], 30, 1e-5);
    for (int i = 6 * 24; i < 8 * 24; i++) assert_true(image[i] == 0);
    d = parse(NULL);
    static const int64_t one[] = {1, 1};
    assert_ok(tl_detection_prepare_pixels(normal, info, d, (tl_ints){one, 2}, 0, TL_SHAPE(1, 1, 3),
                                          colour));
    assert_near(normal[0], -2.117904, 1e-6);
    assert_near(normal[1], 0.205182, 1e-6);
    assert_near(normal[2], 2.64, 1e-6);
    uint8_t *grey = tl_alloc_zero(427 * 640);
    float *floats = tl_alloc(512 * 512 * 3 * sizeof *floats);
    assert_non_null(grey);
    assert_non_null(floats);
    assert_ok(tl_detection_prepare_pixels(floats, info, d, (tl_ints){large, 2}, 7,
                                          TL_SHAPE(427, 640), grey));
    assert_near(info[4], 0.800937, 1e-6);
    assert_near(info[5], 0.8, 1e-6);
    tl_free(grey);
    tl_free(floats);
}

static void test_one_file(void **state)
{
    (void)state;
    static const int64_t size[] = {21, 30};
    const golden *example = golden_peek("detection/whole"),
                 *g = golden_peek("detection/eval/image");
    const char *name = "image/encoded";
    tl_feature f;
    tl_bytes file;
    float image[32 * 32 * 3], info[8];
    assert_ok(tl_example_find(&f, &name, 1, example->values, (size_t)example->shape.dims[0]));
    assert_ok(tl_feature_bytes(&f, name, &file, 1));
    const tl_detection_data_config *d = parse(NULL);
    assert_ok(
        tl_detection_prepare(image, info, d, (tl_ints){size, 2}, 4, file.data, file.size, false));
    for (int64_t i = 0; i < tl_shape_count(&g->shape); i++)
        assert_near(image[i], golden_number(g, i), 5e-6);
    assert_fails(
        tl_detection_prepare(image, info, d, (tl_ints){size, 1}, 4, file.data, file.size, false),
        TL_EINVAL, "model.input_size: expected");
    assert_fails(
        tl_detection_prepare(image, info, d, (tl_ints){size, 2}, 4, "no picture", 10, false),
        TL_EINVAL, "neither JPEG nor PNG begins so");
}

/* --- records that tests write ----------------------------------------------------------------- */

/* A record of a black picture of 40 x 60 with a white rectangle in it, and its box. */
static tl_str white_record(tl_window w)
{
    enum { HEIGHT = 40, WIDTH = 60 };
    uint8_t pixels[HEIGHT * WIDTH * 3] = {0};
    const float box[4] = {(float)w.y / HEIGHT, (float)w.x / WIDTH, (float)(w.y + w.height) / HEIGHT,
                          (float)(w.x + w.width) / WIDTH};
    static const char *const sides[] = {"image/object/bbox/ymin", "image/object/bbox/xmin",
                                        "image/object/bbox/ymax", "image/object/bbox/xmax"};
    tl_str out = TL_STR_INIT;
    tl_pixels image = tl_pixels_new(TL_U8, HEIGHT, WIDTH, 3, pixels);
    tl_pixels_fill(&image, w, 255);
    tl_bytes file = png_bytes(HEIGHT, WIDTH, 3, pixels);
    tl_example_writer e = tl_example_begin(&out);
    tl_example_add_bytes(&e, "image/encoded", &file, 1);
    tl_example_add_text(&e, "image/source_id", "1");
    for (int k = 0; k < 4; k++) tl_example_add_floats(&e, sides[k], &box[k], 1);
    tl_example_add_ints(&e, "image/object/class/label", &(int64_t){1}, 1);
    assert_ok(tl_example_end(&e));
    return out;
}

/* What is white in an image, as a box; false: nothing. */
static bool find_white(double out[4], const double *image, int64_t side)
{
    out[0] = out[1] = (double)side;
    out[2] = out[3] = 0;
    for (int64_t y = 0; y < side; y++)
        for (int64_t x = 0; x < side; x++) {
            if (image[(y * side + x) * 3] < 0.5) continue;
            out[0] = fmin(out[0], (double)y), out[2] = fmax(out[2], (double)y + 1);
            out[1] = fmin(out[1], (double)x), out[3] = fmax(out[3], (double)x + 1);
        }
    return out[2] > 0;
}

/* Whatever happens to a picture, its box stays around the rectangle: by so many pixels. */
static void box_follows(const char *parser, double most, int64_t least_seen)
{
    enum { SIDE = 96, BATCH = 32 };
    char yaml[512];
    tl_dataset *d;
    int64_t seen = 0;
    tl_str record = white_record((tl_window){10, 12, 22, 14});
    write_records("white.tfrecord", &record, 1);
    tl_str_deinit(&record);
    snprintf(yaml, sizeof yaml,
             "input_path: white.tfrecord\nglobal_batch_size: %d\nis_training: true\nmean: [128, "
             "128, 128]\nstddev: [128, 128, 128]\nparser: {max_num_instances: 2, %s}",
             BATCH, parser);
    tl_detection_inputs_args args = args_of(parse(yaml));
    assert_ok(tl_detection_inputs(&d, &args));
    for (int n = 0; n < 2; n++) {
        tl_batch b = data_next(d);
        const double *image = data_numbers(&b, "image", TL_SHAPE(BATCH, SIDE, SIDE, 3));
        const double *boxes = data_numbers(&b, "boxes", TL_SHAPE(BATCH, 2, 4));
        for (int64_t i = 0; i < BATCH; i++) {
            const double *box = boxes + 8 * i;
            double white[4];
            if (box[2] - box[0] < 6 || box[3] - box[1] < 6) continue; // a corner, or nothing
            if (!find_white(white, image + i * SIDE * SIDE * 3, SIDE)) continue;
            for (int k = 0; k < 4; k++)
                if (fabs(white[k] - box[k]) > most)
                    fail_msg("%s: image %lld: side %d is %g, and white begins at %g", parser,
                             (long long)i, k, box[k], white[k]);
            seen++;
        }
    }
    assert_true(seen >= least_seen);
    tl_dataset_free(&d);
}

static void test_boxes_follow_their_pictures(void **state)
{
    (void)state;
    const char *scaled = "aug_rand_hflip: true, aug_scale_min: 0.5, aug_scale_max: 2.0";
    char parser[256];
    box_follows(scaled, 1.5, 40);
    snprintf(parser, sizeof parser, "%s, aug_type: {type: ssd_random_crop}", scaled);
    box_follows(parser, 4, 30); // parts are scaled up, and whole pixels with them
    snprintf(parser, sizeof parser,
             "%s, aug_type: {type: randaug, randaug: {magnitude: 4, exclude_ops: [Cutout, Invert, "
             "Solarize, SolarizeAdd, Brightness, Equalize, Contrast, Posterize]}}",
             scaled);
    box_follows(parser, 7, 30);
    box_follows("aug_rand_jpeg: {min_quality: 80, prob_to_apply: 1.0}", 1.5, 60);
}

/* Model Garden draws both from one number: flipped pictures are small ones there. */
static void test_flips_and_scales_are_drawn_by_themselves(void **state)
{
    (void)state;
    enum { BATCH = 64, HALVES = 2 };
    tl_dataset *d;
    int64_t count[HALVES][HALVES] = {{0}};
    tl_str record = white_record((tl_window){0, 0, 20, 40});
    write_records("left.tfrecord", &record, 1);
    tl_str_deinit(&record);
    tl_detection_inputs_args args =
        args_of(parse("input_path: left.tfrecord\nglobal_batch_size: 64\nis_training: true\n"
                      "parser: {aug_rand_hflip: true, aug_scale_min: 0.4, aug_scale_max: 1.0, "
                      "max_num_instances: 1}"));
    assert_ok(tl_detection_inputs(&d, &args));
    for (int n = 0; n < 4; n++) {
        tl_batch b = data_next(d);
        const double *boxes = data_numbers(&b, "boxes", TL_SHAPE(BATCH, 1, 4));
        const double *info = data_numbers(&b, "image_info", TL_SHAPE(BATCH, 4, 2));
        for (int64_t i = 0; i < BATCH; i++)
            count[boxes[4 * i + 1] > 0.5][info[8 * i + 5] > 0.7 * 96 / 60]++;
    }
    for (int flipped = 0; flipped < HALVES; flipped++)
        for (int upper = 0; upper < HALVES; upper++) assert_true(count[flipped][upper] > 40);
    tl_dataset_free(&d);
}

static void test_augmented_training_resumes_exactly(void **state)
{
    (void)state;
    static const char *const types[] = {
        "type: ssd_random_crop", "type: randaug",
        "type: autoaug, autoaug: {augmentation_name: detection_v0}"};
    for (int64_t i = 0; i < TL_COUNT(types); i++) {
        char yaml[256];
        tl_dataset *first, *second;
        snprintf(yaml, sizeof yaml,
                 "file_type: synthetic\nsynthetic_examples: 5\nglobal_batch_size: 4\n"
                 "is_training: true\nparser: {aug_rand_hflip: true, aug_type: {%s}}",
                 types[i]);
        tl_detection_inputs_args args = args_of(parse(yaml));
        assert_ok(tl_detection_inputs(&first, &args));
        args.threads = 1;
        assert_ok(tl_detection_inputs(&second, &args));
        resumes_exactly(first, second, 2, 3);
        tl_dataset_free(&first);
        tl_dataset_free(&second);
    }
}

/* --- decoders --------------------------------------------------------------------------------- */

/* What a record of two objects holds, and what is wrong with it. */
typedef struct row {
    const char *says;                                     /* a part of the message */
    int64_t boxes, labels, crowds, areas, masks, colours; /* values of lists */
    bool no_picture, no_id, damaged, texts;
    const char *id;
    float xmin, area;
    int64_t label, mask_height;
} row;
#define GOOD .boxes = 2, .labels = 2, .label = 1, .colours = 2

static tl_str record_of(const row *r)
{
    uint8_t pixels[6 * 8 * 3] = {9}, mask[8 * 8] = {0, 255, 255};
    const float side[3][3] = {{0.1f, 0.2f, 0}, {r->xmin, 0.2f, 0}, {0.9f, 0.8f, 1}};
    const float areas[] = {r->area, 6, 7};
    const int64_t labels[] = {r->label, 2, 3}, crowds[] = {0, 1, 1}, colours[] = {1, 2, 3};
    tl_bytes file = png_bytes(6, 8, 3, pixels),
             one = png_bytes(r->mask_height ? r->mask_height : 6, 8, 1, mask);
    const tl_bytes masks[] = {one, one, one}, texts[] = {{"cat", 3}, {"emu", 3}, {"dog", 3}};
    tl_str out = TL_STR_INIT;
    tl_example_writer e = tl_example_begin(&out);
    if (r->damaged) file.size /= 2;
    if (!r->no_picture) tl_example_add_bytes(&e, "image/encoded", &file, 1);
    if (!r->no_id) tl_example_add_text(&e, "image/source_id", r->id ? r->id : "7");
    tl_example_add_floats(&e, "image/object/bbox/ymin", side[0], 2);
    tl_example_add_floats(&e, "image/object/bbox/xmin", side[1], r->boxes);
    tl_example_add_floats(&e, "image/object/bbox/ymax", side[2], 2);
    tl_example_add_floats(&e, "image/object/bbox/xmax", side[2], 2);
    if (r->texts) tl_example_add_bytes(&e, "image/object/class/text", texts, r->labels);
    else tl_example_add_ints(&e, "image/object/class/label", labels, r->labels);
    if (r->crowds) tl_example_add_ints(&e, "image/object/is_crowd", crowds, r->crowds);
    if (r->areas) tl_example_add_floats(&e, "image/object/area", areas, r->areas);
    if (r->masks) tl_example_add_bytes(&e, "image/object/mask", masks, r->masks);
    if (r->colours) tl_example_add_ints(&e, "image/object/attribute/colour", colours, r->colours);
    assert_ok(tl_example_end(&e));
    return out;
}

static void test_bad_records_are_named(void **state)
{
    (void)state;
    const row rows[] = {
        {"has no feature 'image/encoded'", GOOD, .no_picture = true},
        {"PNG", GOOD, .damaged = true, .masks = 2},
        {"'image/object/bbox/xmin' has 1 values", .boxes = 1, .labels = 2, .label = 1},
        {"'image/object/class/label' has 3 values", .boxes = 2, .labels = 3, .label = 1},
        {"'image/object/is_crowd' has 1 values", GOOD, .crowds = 1},
        {"'image/object/area' has 3 values", GOOD, .areas = 3},
        {"'image/object/area' of object 0 is not a finite number", GOOD, .areas = 2,
         .area = INFINITY},
        {"'image/object/mask' has 1 values", GOOD, .masks = 1},
        {"'image/object/mask' of object 0: it has 7 x 8 pixels, and the picture 6 x 8", GOOD,
         .masks = 2, .mask_height = 7},
        {"'image/object/attribute/colour' has 3 values", .boxes = 2, .labels = 2, .label = 1,
         .colours = 3},
        {"'image/object/bbox/xmin' of object 0 is not a finite number", GOOD, .xmin = NAN},
        {"'image/source_id' is '12x', and not a whole number", GOOD, .id = "12x"},
        {"'image/source_id' is '99999999999999999999", GOOD, .id = "99999999999999999999"},
        {"has no 'image/source_id'", GOOD, .no_id = true},
        {"the class of object 0 is 0; model.num_classes is 6", .boxes = 2, .labels = 2, .masks = 2,
         .colours = 2},
        {"the class of object 0 is 6", .boxes = 2, .labels = 2, .label = 6, .masks = 2,
         .colours = 2},
    };
    const row good = {NULL, GOOD, .masks = 2};
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        tl_dataset *d;
        tl_tensors t = {0};
        bool more = true;
        tl_str records[2] = {record_of(&good), record_of(&rows[i])};
        write_records("bad.tfrecord", records, 2);
        for (int k = 0; k < 2; k++) tl_str_deinit(&records[k]);
        tl_detection_inputs_args args =
            args_of(parse("input_path: bad.tfrecord\nglobal_batch_size: 2\ndecoder: "
                          "{simple_decoder: {attribute_names: [colour]}}"));
        args.evaluation = args.include_mask = true;
        args.num_classes = 6;
        assert_ok(tl_detection_inputs(&d, &args));
        assert_true(tl_dataset_next(d, data_ctx, &t, &more) != TL_OK);
        if (!strstr(tl_error_message(), rows[i].says) || !strstr(tl_error_message(), "record 1 ")
            || !strstr(tl_error_message(), "bad.tfrecord"))
            fail_msg("row %lld: %s\n    lacks: %s", (long long)i, tl_error_message(), rows[i].says);
        tl_dataset_free(&d);
    }
}

/* Bytes that were changed at random: read or refused, and nothing else happens. */
static void test_damaged_records_are_read_or_refused(void **state)
{
    (void)state;
    enum { RUNS = 3000 };
    const row good = {NULL, GOOD, .masks = 2, .crowds = 2, .areas = 2};
    const char *const names[] = {"colour"};
    const tl_simple_decoder config = {.attribute_names = {names, 1}};
    const tl_oneof chosen = {.type = "simple_decoder", .value = (void *)(uintptr_t)&config};
    tli_detection_decoder decoder;
    tl_sample *s;
    tl_rng rng;
    int64_t read = 0;
    tl_str record = record_of(&good);
    char *bytes = tl_arena_alloc(lab_arena, record.length);
    assert_non_null(bytes);
    assert_ok(tli_detection_decoder_open(&decoder, &chosen, (tl_ints){0}, lab_arena));
    decoder.truth = decoder.masks = decoder.keep_pixels = true;
    assert_ok(tl_sample_new(&s));
    tl_rng_init(&rng, 1);
    for (int i = 0; i < RUNS; i++) {
        memcpy(bytes, record.data, record.length);
        for (int64_t k = tl_rng_below(&rng, 4); k > 0; k--)
            bytes[tl_rng_below(&rng, (int64_t)record.length)] ^= (char)(1 << tl_rng_below(&rng, 8));
        tl_sample_reset(s);
        s->record = bytes;
        s->record_size = record.length;
        tl_status st = tli_detection_decode(&decoder, s);
        if (st == TL_OK) read++;
        else assert_true(*tl_error_message());
        tl_error_clear();
    }
    assert_true(read > RUNS / 5 && read < RUNS);
    tl_sample_free(&s);
    tl_str_deinit(&record);
}

static tl_status open_rows(tl_dataset **d, const row *r, const char *yaml, bool evaluation)
{
    char text[512];
    tl_str record = record_of(r);
    write_records("rows.tfrecord", &record, 1);
    tl_str_deinit(&record);
    snprintf(text, sizeof text, "input_path: rows.tfrecord\nglobal_batch_size: 1\n%s", yaml);
    tl_detection_inputs_args args = args_of(parse(text));
    args.evaluation = args.include_mask = evaluation;
    args.num_classes = 10;
    return tl_detection_inputs(d, &args);
}

static void test_classes_have_names(void **state)
{
    (void)state;
    const row named = {NULL, .boxes = 2, .labels = 2, .texts = true, .masks = 2};
    const char *yaml = "decoder: {type: label_map_decoder, label_map_decoder: {label_map: map.csv}}"
                       "\nparser: {max_num_instances: 3}";
    tl_dataset *d;
    const char map[] = "3,dog\n8,cat\n";
    assert_ok(tl_file_write_atomic("map.csv", map, sizeof map - 1));
    assert_ok(open_rows(&d, &named, yaml, true));
    tl_batch b = data_next(d);
    NEAR_ALL(data_numbers(&b, "classes", TL_SHAPE(1, 3)), 0, 8, -1, -1); // an emu is not in the map
    tl_dataset_free(&d);
    assert_ok(tl_file_write_atomic("map.csv", "3,dog\nx,cat\n", 12));
    assert_fails(open_rows(&d, &named, yaml, true), TL_EDATA, "'map.csv', line 2: expected NUMBER");
    assert_ok(tl_file_write_atomic("map.csv", "3,dog\n4,dog\n", 12));
    assert_fails(open_rows(&d, &named, yaml, true), TL_EDATA, "'dog' is there twice");
    assert_ok(tl_file_write_atomic("map.csv", "3,dog,x\n", 8));
    assert_fails(open_rows(&d, &named, yaml, true), TL_EDATA, "expected lines NUMBER,NAME");
    assert_fails(open_rows(&d, &named, "decoder: {type: label_map_decoder}", true), TL_EINVAL,
                 "label_map: it is empty");
}

static void test_masks_and_ids(void **state)
{
    (void)state;
    const row masks = {NULL, GOOD, .masks = 2, .id = "no number"};
    tl_dataset *d;
    assert_ok(
        open_rows(&d, &masks, "decoder: {simple_decoder: {regenerate_source_id: true}}", true));
    tl_batch b = data_next(d);
    const double *m = data_numbers(&b, "groundtruth/masks", TL_SHAPE(1, 2, 6, 8));
    NEAR_ALL(m, 0, 0, 1, 1, 0);
    assert_true(data_numbers(&b, "groundtruth/source_id", TL_SHAPE(1))[0] >= 0);
    tl_dataset_free(&d);
    assert_ok(open_rows(&d, &masks,
                        "cache: true\ndecoder: {simple_decoder: {regenerate_source_id: true, "
                        "mask_binarize_threshold: 255}}",
                        true));
    b = data_next(d);
    NEAR_ALL(data_numbers(&b, "groundtruth/masks", TL_SHAPE(1, 2, 6, 8)), 0, 0, 0, 0, 0);
    tl_dataset_free(&d);
    // Training does not look at ids.
    assert_ok(open_rows(&d, &masks, "is_training: true", false));
    b = data_next(d);
    assert_null(tl_batch_peek(&b, "groundtruth/source_id"));
    tl_dataset_free(&d);
}

static void hear(const tl_log_record *record, void *payload)
{
    if (strstr(record->text, "raise parser.max_num_instances")) ++*(int *)payload;
}

static void test_too_many_objects_are_told_once(void **state)
{
    (void)state;
    const row two = {NULL, GOOD};
    tl_dataset *d;
    int heard = 0;
    int64_t handle;
    assert_ok(tl_log_sink_add(&handle, &(tl_log_sink){TL_LEVEL_WARNING, hear, NULL, &heard}));
    assert_ok(open_rows(&d, &two, "is_training: true\nparser: {max_num_instances: 1}", false));
    for (int i = 0; i < 3; i++) {
        tl_batch b = data_next(d);
        (void)data_numbers(&b, "boxes", TL_SHAPE(1, 1, 4));
    }
    tl_dataset_free(&d);
    assert_true(tl_log_sink_remove(handle));
    assert_int_equal(heard, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DATA_TEST(test_defaults_are_model_gardens),
        DATA_TEST(test_wrong_configurations),
        DATA_TEST(test_shapes_are_known_exactly),
        DATA_TEST(test_made_up_batches),
        DATA_TEST(test_training_resumes_exactly),
        DATA_TEST(test_ids_are_model_gardens),
        DATA_TEST(test_parses_as_model_garden),
        DATA_TEST(test_ground_truth_is_model_gardens),
        DATA_TEST(test_flips_are_model_gardens),
        DATA_TEST(test_large_pictures_are_cut),
        DATA_TEST(test_known_numbers),
        DATA_TEST(test_one_file),
        DATA_TEST(test_boxes_follow_their_pictures),
        DATA_TEST(test_flips_and_scales_are_drawn_by_themselves),
        DATA_TEST(test_augmented_training_resumes_exactly),
        DATA_TEST(test_bad_records_are_named),
        DATA_TEST(test_damaged_records_are_read_or_refused),
        DATA_TEST(test_classes_have_names),
        DATA_TEST(test_masks_and_ids),
        DATA_TEST(test_too_many_objects_are_told_once),
    };
    golden_open(TEST_DATA "/golden/vision_inputs.bin");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    golden_close();
    return failed;
}
