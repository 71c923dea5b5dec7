/* Pictures with a class for each pixel on their way into a model: against Model Garden's parser
 * (tests/golden/vision_inputs.py), what is refused, exact resuming. needs: threads */
#include "zoo/inputs_lab.h"

#include <tilth/zoo/segmentation_inputs.h>

#include "nn/golden_file.h"
#include "zoo/inner/shapes.h"

#define SEGMENTATION TEST_DATA "/data/configs/semantic_segmentation.yaml"

/* Within which numbers of Model Garden's must be met. */
static const double close_by = 5e-6;

static const tl_segmentation_data_config *parse(const char *yaml)
{
    return data_made(&tl_segmentation_data_config_desc, yaml);
}

static tl_status refused(const char *yaml)
{
    const void *config;
    return data_parse(&config, &tl_segmentation_data_config_desc, yaml);
}

static tl_segmentation_inputs_args args_of(const tl_segmentation_data_config *data)
{
    return (tl_segmentation_inputs_args){.data = data,
                                         .ignore_label = 255,
                                         .num_classes = 6,
                                         .input = {.seed = 3},
                                         .threads = 2,
                                         .arena = lab_arena};
}

/* --- configuration ---------------------------------------------------------------------------- */

static void test_defaults_are_model_gardens(void **state)
{
    (void)state;
    data_is_as_in_file(&tl_segmentation_data_config_desc, SEGMENTATION, "train_data");
    data_is_as_in_file(&tl_segmentation_data_config_desc, SEGMENTATION, "validation_data");
    data_reads_files(&tl_segmentation_data_config_desc, TEST_DATA "/data/configs/*_deeplab*.yaml",
                     6);
}

static void test_wrong_configurations(void **state)
{
    (void)state;
    tl_dataset *d;
    assert_fails(refused("file_type: sstable"), TL_EUNSUPPORTED, "file_type: sstable is not");
    assert_fails(refused("output_size: [1, 2, 3]"), TL_EINVAL, "output_size: expected [height");
    assert_fails(refused("resize_eval_groundtruth: false"), TL_EINVAL,
                 "groundtruth_padded_size: set it");
    assert_fails(refused("image_feature: {num_channels: 1}"), TL_EINVAL, "num_channels asks for 1");
    assert_fails(refused("centered_crop: true\nresize_eval_groundtruth: false\n"
                         "groundtruth_padded_size: [9, 9]"),
                 TL_EINVAL, "centered_crop: it needs resize_eval_groundtruth");
    tl_segmentation_inputs_args args = args_of(parse("file_type: synthetic"));
    assert_fails(tl_segmentation_inputs(&d, &args), TL_EINVAL,
                 "task.train_data: output_size is empty");
    args = args_of(parse("file_type: synthetic\noutput_size: [32, 32]"));
    assert_fails(tl_segmentation_inputs(&d, &args), TL_EINVAL, "global_batch_size is 0");
}

/* --- against Model Garden's parser ------------------------------------------------------------ */

static void put_golden(const char *path, const char *name)
{
    const golden *g = golden_peek("%s", name);
    tl_str example = TL_STR_INIT;
    assert_non_null(g);
    tl_str_addn(&example, g->values, (size_t)g->shape.dims[0]);
    write_records(path, &example, 1);
    tl_str_deinit(&example);
}

typedef struct parsed {
    const char *name, *record, *yaml; /* beside what all have */
    bool evaluation, matting;
} parsed;

static tl_batch parse_record(const parsed *p, tl_dataset **d)
{
    char yaml[512];
    snprintf(yaml, sizeof yaml,
             "input_path: in.tfrecord\nglobal_batch_size: 1\nis_training: %s\naug_rand_hflip: "
             "false\n%s",
             p->evaluation ? "false" : "true", p->yaml);
    put_golden("in.tfrecord", p->record);
    tl_segmentation_inputs_args args = args_of(parse(yaml));
    args.evaluation = p->evaluation;
    args.gt_is_matting_map = p->matting;
    assert_ok(tl_segmentation_inputs(d, &args));
    return data_next(*d);
}

/* A field as in the file, but for the last `rows` of each picture. */
static void field_is(const tl_batch *b, const char *name, const char *field, double most,
                     int64_t rows)
{
    const golden *g = golden_peek("%s/%s", name, field);
    assert_non_null(g);
    tl_shape shape = {.rank = g->shape.rank + 1, .dims = {1}};
    for (int i = 0; i < g->shape.rank; i++) shape.dims[i + 1] = g->shape.dims[i];
    const double *found = data_numbers(b, field, shape);
    int64_t count = tl_shape_count(&g->shape), width = count / g->shape.dims[0];
    for (int64_t i = 0; i < count - rows * width; i++)
        if (!(fabs(found[i] - golden_number(g, i)) <= most))
            fail_msg("%s, %s: number %lld is %.9g, not %.9g", name, field, (long long)i, found[i],
                     golden_number(g, i));
}

static const parsed parses[] = {
    {"train", "plain", "output_size: [24, 32]", false, false},
    {"small", "plain", "output_size: [24, 32]\naug_scale_min: 0.7\naug_scale_max: 0.7", false,
     false},
    {"centered", "plain",
     "output_size: [24, 40]\naug_scale_min: 0.7\naug_scale_max: 0.7\ncentered_crop: true", false,
     false},
    {"stretched", "plain", "output_size: [22, 30]\npreserve_aspect_ratio: false", false, false},
    {"cropped", "plain",
     "output_size: [20, 28]\ncrop_size: [20, 28]\naug_scale_min: 0.8\naug_scale_max: 0.8", false,
     false},
    {"matting", "plain", "output_size: [24, 32]", false, true},
    {"layers", "depth",
     "output_size: [24, 32]\nadditional_dense_features: [{feature_name: depth, num_channels: 1, "
     "mean: [40], stddev: [30]}]",
     false, false},
    {"eval", "plain", "output_size: [24, 32]", true, false},
    {"eval_matting", "plain", "output_size: [24, 32]", true, true},
    {"eval_whole", "plain",
     "output_size: [24, 32]\nresize_eval_groundtruth: false\ngroundtruth_padded_size: [16, 25]",
     true, false},
};

static void test_parses_as_model_garden(void **state)
{
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(parses); i++) {
        char name[64], record[64];
        snprintf(name, sizeof name, "segmentation/%s", parses[i].name);
        snprintf(record, sizeof record, "segmentation/%s", parses[i].record);
        parsed p = parses[i];
        tl_dataset *d;
        p.record = record;
        tl_batch b = parse_record(&p, &d);
        field_is(&b, name, "image", close_by, 0);
        field_is(&b, name, "image_info", 1e-5, 0);
        field_is(&b, name, "masks", 1e-6, 0);
        field_is(&b, name, "valid_masks", 0, 0);
        tl_dataset_free(&d);
    }
}

/* With Model Garden the label of this picture ends a row before the picture. */
static void test_labels_are_as_high_as_pictures(void **state)
{
    (void)state;
    const parsed p = {"short", "segmentation/short", "output_size: [24, 32]", false, false};
    tl_dataset *d;
    tl_batch b = parse_record(&p, &d);
    const double *info = data_numbers(&b, "image_info", TL_SHAPE(1, 4, 2));
    const double *valid = data_numbers(&b, "valid_masks", TL_SHAPE(1, 24, 32, 1));
    const golden *theirs = golden_peek("segmentation/short/valid_masks");
    int64_t rows = (int64_t)rint(info[0] * info[4]), last = rows - 1, columns = 5;
    assert_true(golden_number(theirs, last * 32 + columns) == 0);
    assert_true(valid[last * 32 + columns] == 1);
    assert_true(rows == 24 || valid[rows * 32 + columns] == 0);
    field_is(&b, "segmentation/short", "image", close_by, 0);
    tl_dataset_free(&d);
}

static bool is_golden(const double *found, const golden *g, double most)
{
    for (int64_t i = 0; i < tl_shape_count(&g->shape); i++)
        if (!(fabs(found[i] - golden_number(g, i)) <= most)) return false;
    return true;
}

/* Every picture is one of two, and both come. */
static void test_flips_are_model_gardens(void **state)
{
    (void)state;
    const parsed p = {"flipped", "segmentation/plain",
                      "aug_rand_hflip: true\noutput_size: [24, 32]", false, false};
    char yaml[256];
    tl_dataset *d;
    int64_t flipped = 0;
    snprintf(yaml, sizeof yaml, "input_path: in.tfrecord\nglobal_batch_size: 1\n%s", p.yaml);
    put_golden("in.tfrecord", p.record);
    tl_segmentation_inputs_args args = args_of(parse(yaml));
    assert_ok(tl_segmentation_inputs(&d, &args));
    for (int i = 0; i < 16; i++) {
        tl_batch b = data_next(d);
        const double *image = data_numbers(&b, "image", TL_SHAPE(1, 24, 32, 3));
        const double *masks = data_numbers(&b, "masks", TL_SHAPE(1, 24, 32, 1));
        bool mirrored = is_golden(image, golden_peek("segmentation/flipped/image"), close_by);
        const char *name = mirrored ? "segmentation/flipped" : "segmentation/train";
        flipped += mirrored;
        assert_true(is_golden(image, golden_peek("%s/image", name), close_by));
        assert_true(is_golden(masks, golden_peek("%s/masks", name), 0));
    }
    assert_true(flipped > 2 && flipped < 14);
    tl_dataset_free(&d);
}

/* --- random parts ----------------------------------------------------------------------------- */

/* Pixels whose value is their place: parts of picture and label lie at the same one. */
static void test_parts_of_pictures_and_labels_agree(void **state)
{
    (void)state;
    enum { SIDE = 15, PART = 6 };
    uint8_t pixels[SIDE * SIDE * 3], labels[SIDE * SIDE];
    tl_str example = TL_STR_INIT;
    for (int i = 0; i < SIDE * SIDE; i++) {
        labels[i] = (uint8_t)i;
        for (int k = 0; k < 3; k++) pixels[3 * i + k] = (uint8_t)i;
    }
    tl_bytes picture = png_bytes(SIDE, SIDE, 3, pixels), classes = png_bytes(SIDE, SIDE, 1, labels);
    tl_example_writer w = tl_example_begin(&example);
    tl_example_add_bytes(&w, "image/encoded", &picture, 1);
    tl_example_add_bytes(&w, "image/segmentation/class/encoded", &classes, 1);
    assert_ok(tl_example_end(&w));
    write_records("in.tfrecord", &example, 1);
    tl_str_deinit(&example);
    tl_segmentation_inputs_args args = args_of(
        parse("input_path: in.tfrecord\nglobal_batch_size: 64\ncrop_size: [6, 6]\nimage_feature: "
              "{mean: [0, 0, 0], stddev: [1, 1, 1]}"));
    args.num_classes = 0;
    tl_dataset *d;
    assert_ok(tl_segmentation_inputs(&d, &args));
    tl_batch b = data_next(d);
    const double *image = data_numbers(&b, "image", TL_SHAPE(64, PART, PART, 3));
    const double *masks = data_numbers(&b, "masks", TL_SHAPE(64, PART, PART, 1));
    double least = 255, most = 0, steps[2] = {0};
    for (int64_t i = 0; i < 64 * PART * PART; i++) assert_near(image[3 * i], masks[i], 1e-3);
    for (int64_t i = 0; i < 64; i++) {
        const double *part = masks + i * PART * PART;
        double step = part[1] - part[0], first = step > 0 ? part[0] : part[PART - 1];
        assert_near(part[PART] - part[0], SIDE, 0);
        steps[step > 0]++;
        least = fmin(least, first);
        most = fmax(most, first);
    }
    assert_true(steps[0] > 16 && steps[1] > 16);
    assert_true(least < SIDE && most >= SIDE * (SIDE - PART)); // the first and the last row
    tl_dataset_free(&d);
}

/* --- made-up pictures ------------------------------------------------------------------------- */

static void test_made_up_batches(void **state)
{
    (void)state;
    static tli_shapes s;
    tl_segmentation_inputs_args args =
        args_of(parse("file_type: synthetic\nsynthetic_examples: 3\nglobal_batch_size: 2\n"
                      "is_training: false\noutput_size: [96, 96]"));
    tl_dataset *d;
    args.evaluation = true;
    args.name_examples = true;
    assert_ok(tl_segmentation_inputs(&d, &args));
    tl_batch b = data_next(d);
    assert_non_null(tl_batch_peek(&b, TL_BATCH_NAME));
    const double *masks = data_numbers(&b, "masks", TL_SHAPE(2, 96, 96, 1));
    for (int64_t i = 0; i < 2; i++) {
        tli_shapes_make(&s, TLI_SHAPES_VALIDATION, i);
        for (int k = 0; k < TLI_SHAPES_PIXELS; k++)
            assert_true(masks[i * TLI_SHAPES_PIXELS + k] == s.labels[k]);
    }
    b = data_next(d);
    assert_int_equal(tl_batch_size(&b), 1);
    data_ends(d);
    tl_dataset_free(&d);
}

static void test_training_resumes_exactly(void **state)
{
    (void)state;
    tl_segmentation_inputs_args args = args_of(
        parse("file_type: synthetic\nsynthetic_examples: 7\nglobal_batch_size: 4\noutput_size: "
              "[64, 80]\ncrop_size: [48, 48]\naug_scale_min: 0.5\naug_scale_max: 2.0"));
    tl_dataset *first, *second;
    assert_ok(tl_segmentation_inputs(&first, &args));
    args.threads = 1;
    assert_ok(tl_segmentation_inputs(&second, &args));
    resumes_exactly(first, second, 3, 5);
    tl_dataset_free(&first);
    tl_dataset_free(&second);
}

static void test_one_picture(void **state)
{
    (void)state;
    const golden *g = golden_peek("segmentation/eval/image");
    const golden *example = golden_peek("segmentation/plain");
    const char *name = "image/encoded";
    tl_feature f;
    tl_bytes file;
    float image[24 * 32 * 3], info[8];
    int64_t size[3];
    assert_ok(tl_example_find(&f, &name, 1, example->values, (size_t)example->shape.dims[0]));
    assert_ok(tl_feature_bytes(&f, name, &file, 1));
    const tl_segmentation_data_config *data = parse("output_size: [24, 32]");
    assert_ok(tl_segmentation_image_size(size, data));
    assert_true(size[0] == 24 && size[1] == 32 && size[2] == 3);
    assert_ok(tl_segmentation_prepare(image, info, data, file.data, file.size, false));
    for (int64_t i = 0; i < 24 * 32 * 3; i++) assert_near(image[i], golden_number(g, i), close_by);
    assert_true(info[0] == 13 && info[1] == 19 && info[2] == 24 && info[3] == 32);
    data = parse("output_size: [24, 32]\nadditional_dense_features: [{feature_name: depth}]");
    assert_fails(tl_segmentation_prepare(image, info, data, file.data, file.size, false),
                 TL_EUNSUPPORTED, "looks at 2 pictures");
}

/* --- bad records ------------------------------------------------------------------------------ */

typedef struct bad {
    bool no_picture, no_labels, damaged;
    int64_t height, width; /* of the labels; 0: those of the picture */
    uint8_t label;
    const char *yaml, *says;
} bad;

static void put_bad(const bad *k)
{
    uint8_t pixels[6 * 8 * 3] = {0}, labels[20 * 20] = {0};
    tl_str examples[2] = {TL_STR_INIT, TL_STR_INIT};
    for (int i = 0; i < 2; i++) {
        bool good = i == 0;
        int64_t height = good || !k->height ? 6 : k->height,
                width = good || !k->width ? 8 : k->width;
        labels[3] = good ? 1 : k->label;
        tl_bytes picture = png_bytes(6, 8, 3, pixels),
                 classes = png_bytes(height, width, 1, labels);
        if (!good && k->damaged) classes.size /= 2;
        tl_example_writer w = tl_example_begin(&examples[i]);
        if (good || !k->no_picture) tl_example_add_bytes(&w, "image/encoded", &picture, 1);
        if (good || !k->no_labels)
            tl_example_add_bytes(&w, "image/segmentation/class/encoded", &classes, 1);
        assert_ok(tl_example_end(&w));
    }
    write_records("bad.tfrecord", examples, 2);
    for (int i = 0; i < 2; i++) tl_str_deinit(&examples[i]);
}

static void test_bad_records_are_named(void **state)
{
    (void)state;
    static const bad cases[] = {
        {.no_picture = true, .says = "has no feature 'image/encoded'"},
        {.no_labels = true, .says = "has no feature 'image/segmentation/class/encoded'"},
        {.damaged = true, .says = "'image/segmentation/class/encoded'"},
        {.height = 7, .says = "has 7 x 8 pixels, and 'image/encoded' 6 x 8"},
        {.label = 6, .says = "a pixel of class 6; model.num_classes is 6"},
        {.yaml = "resize_eval_groundtruth: false\ngroundtruth_padded_size: [5, 8]",
         .says = "groundtruth_padded_size is 5 x 8"},
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        char yaml[256];
        tl_dataset *d;
        tl_tensors t = {0};
        bool more = true;
        snprintf(yaml, sizeof yaml,
                 "input_path: bad.tfrecord\nglobal_batch_size: 2\nis_training: "
                 "false\noutput_size: [16, 16]\n%s",
                 cases[i].yaml ? cases[i].yaml : "");
        put_bad(&cases[i]);
        tl_segmentation_inputs_args args = args_of(parse(yaml));
        args.evaluation = true;
        assert_ok(tl_segmentation_inputs(&d, &args));
        tl_status st = tl_dataset_next(d, data_ctx, &t, &more);
        assert_true(st != TL_OK);
        const char *place = cases[i].yaml ? "record 0 " : "record 1 ";
        if (!strstr(tl_error_message(), cases[i].says) || !strstr(tl_error_message(), place)
            || !strstr(tl_error_message(), "bad.tfrecord"))
            fail_msg("case %lld: %s", (long long)i, tl_error_message());
        tl_dataset_free(&d);
    }
    // A part that is larger than the picture.
    tl_dataset *d;
    tl_tensors t = {0};
    bool more = true;
    tl_segmentation_inputs_args args =
        args_of(parse("input_path: bad.tfrecord\nglobal_batch_size: 1\ncrop_size: [9, 9]"));
    assert_ok(tl_segmentation_inputs(&d, &args));
    assert_fails(tl_dataset_next(d, data_ctx, &t, &more), TL_EINVAL, "crop_size is 9 x 9");
    tl_dataset_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DATA_TEST(test_defaults_are_model_gardens),
        DATA_TEST(test_wrong_configurations),
        DATA_TEST(test_parses_as_model_garden),
        DATA_TEST(test_labels_are_as_high_as_pictures),
        DATA_TEST(test_flips_are_model_gardens),
        DATA_TEST(test_parts_of_pictures_and_labels_agree),
        DATA_TEST(test_made_up_batches),
        DATA_TEST(test_training_resumes_exactly),
        DATA_TEST(test_one_picture),
        DATA_TEST(test_bad_records_are_named),
    };
    golden_open(TEST_DATA "/golden/vision_inputs.bin");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    golden_close();
    return failed;
}
