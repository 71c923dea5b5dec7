/* Pictures with boxes on their way into a detector: what becomes of records and of made-up
 * pictures, what is refused, exact resuming. needs: threads */
#include "zoo/inputs_lab.h"

#include <tilth/zoo/detection_inputs.h>

#include "zoo/vision/shapes.h"

#define RETINANET TEST_DATA "/data/configs/retinanet.yaml"

static const tl_detection_data_config *parse(const char *yaml)
{
    const void *config;
    assert_ok(data_parse(&config, &tl_detection_data_config_desc, yaml));
    return config;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        DATA_TEST(test_defaults_are_model_gardens), DATA_TEST(test_wrong_configurations),
        DATA_TEST(test_shapes_are_known_exactly),   DATA_TEST(test_made_up_batches),
        DATA_TEST(test_training_resumes_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
