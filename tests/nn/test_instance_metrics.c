/* InstanceMetrics: what Model Garden's tells of three batches (tests/golden/instance_metrics.py),
 * by boxes and by masks; one image by hand; and what is refused. runs: fake device */
#include "nn/golden_json.h"

#include <tilth/nn/instance_metrics.h>

static int open_all(void **state)
{
    return golden_json_open(state, TEST_DATA "/golden/instance_metrics.json");
}

/* --- tensors ---------------------------------------------------------------------------------- */

static void put_all(tl_tensors *into, json_t *lists)
{
    const char *name;
    json_t *list;
    json_object_foreach(lists, name, list)
    {
        bool whole = strstr(name, "classes") || strstr(name, "crowds");
        put_list(into, name, list, whole ? TL_I32 : TL_F32);
    }
}

static tl_evaluator *make(const tl_instance_metrics_config *config)
{
    tl_evaluator *e;
    assert_ok(tl_evaluator_new(&e, &tl_instance_metrics_class, config, NULL));
    return e;
}

static void beside_the_original(void **state)
{
    (void)state;
    const json_t *batches = json_object_get(golden, "batches");
    for (int masks = 0; masks < 2; masks++) {
        tl_evaluator *e = make(&(tl_instance_metrics_config){
            .num_classes = 5, .use_masks = masks, .per_category_metrics = true});
        json_t *wanted = json_array_get(json_object_get(golden, "results"), (size_t)masks), *value;
        for (int round = 0; round < 2; round++) { // the second one begins anew
            tl_logs *logs;
            for (size_t i = 0; i < json_array_size(batches); i++) {
                tl_tensors truth = {0}, found = {0};
                put_all(&truth, json_object_get(json_array_get(batches, i), "truth"));
                put_all(&found, json_object_get(json_array_get(batches, i), "found"));
                assert_ok(tl_ctx_status(c));
                assert_ok(tl_evaluator_update(e, &truth, &found));
            }
            assert_ok(tl_logs_new(&logs));
            assert_ok(tl_evaluator_tell(e, logs));
            assert_int_equal(tl_logs_count(logs), json_object_size(wanted));
            const char *name;
            json_object_foreach(wanted, name, value)
            {
                double number = -1;
                assert_ok(tl_logs_number(&number, logs, name));
                assert_near(number, json_number_value(value), 2e-6);
            }
            tl_logs_free(&logs);
        }
        tl_evaluator_free(&e);
    }
}

/* --- the vector ------------------------------------------------------------------------------- */

static void put(tl_tensors *into, const char *name, tl_shape shape, const double *values)
{
    tl_tensors_put(c, into, name, tl_from_doubles(c, TL_F32, shape, values));
}

static const double info[] = {200, 200, 200, 200, 1, 1, 0, 0};

static void put_vector(tl_tensors *truth, tl_tensors *found)
{
    put(truth, "boxes", TL_SHAPE(1, 3, 4),
        (const double[]){10, 10, 50, 50, 100, 100, 160, 150, 10, 60, 50, 140});
    put(truth, "classes", TL_SHAPE(1, 3), (const double[]){1, 1, 1});
    put(truth, "is_crowds", TL_SHAPE(1, 3), (const double[]){0, 0, 1});
    put(truth, "image_info", TL_SHAPE(1, 4, 2), info);
    put(found, "detection_boxes", TL_SHAPE(1, 5, 4),
        (const double[]){11, 12, 51,  52,  14,  10,  50, 50, 12, 65,
                         42, 95, 100, 100, 155, 152, 0,  0,  0,  0});
    put(found, "detection_classes", TL_SHAPE(1, 5), (const double[]){1, 1, 1, 1, 1});
    put(found, "detection_scores", TL_SHAPE(1, 5), (const double[]){.9, .8, .7, .6, 0});
}

static void vector(void **state)
{
    (void)state;
    tl_tensors truth = {0}, found = {0};
    tl_logs *logs;
    put_vector(&truth, &found);
    tl_evaluator *e = make(&(tl_instance_metrics_config){
        .num_classes = 3, .iou_thresholds = {(const double[]){0.5, 0.75}, 2}});
    assert_ok(tl_logs_new(&logs));
    assert_ok(tl_evaluator_tell(e, logs)); // of nothing
    assert_near(tl_logs_number_or(logs, "ap", -1), 0, 0);
    assert_ok(tl_evaluator_update(e, &truth, &found));
    assert_ok(tl_evaluator_tell(e, logs));
    assert_near(tl_logs_number_or(logs, "ap50", -1), .834983, 1e-6);
    assert_near(tl_logs_number_or(logs, "ap75", -1), .834983, 1e-6);
    assert_near(tl_logs_number_or(logs, "ap", -1), .834983, 1e-6);
    assert_int_equal(tl_logs_count(logs), 3);
    // Numbers that are none do no harm.
    tl_tensors odd = {0};
    put(&odd, "detection_boxes", TL_SHAPE(1, 2, 4),
        (const double[]){NAN, 1, INFINITY, 3, -1e30, -1, 1e30, 3});
    put(&odd, "detection_classes", TL_SHAPE(1, 2), (const double[]){1, 1e9});
    put(&odd, "detection_scores", TL_SHAPE(1, 2), (const double[]){NAN, -5});
    assert_ok(tl_evaluator_update(e, &truth, &odd));
    assert_ok(tl_evaluator_tell(e, logs));
    assert_near(tl_logs_number_or(logs, "ap", -1), 0, 0);
    tl_logs_free(&logs);
    tl_evaluator_free(&e);
}

static void mistakes(void **state)
{
    (void)state;
    tl_tensors truth = {0}, found = {0}, none = {0};
    tl_evaluator *e;
    put_vector(&truth, &found);
    e = make(&(tl_instance_metrics_config){.num_classes = 3, .use_masks = true});
    assert_fails(tl_evaluator_update(e, &truth, &found), TL_ENOTFOUND,
                 "there is no 'detection_masks'");
    assert_fails(tl_evaluator_update(e, &none, &found), TL_ENOTFOUND, "there is no 'boxes'");
    put(&none, "boxes", TL_SHAPE(2, 3, 4), (const double[24]){0});
    assert_fails(tl_evaluator_update(e, &none, &found), TL_EINVAL,
                 "'boxes' is float32[2, 3, 4], not [1, 0, 4] (0: any number)");
    tl_evaluator_free(&e);
    assert_fails(
        tl_evaluator_new(&e, &tl_instance_metrics_class,
                         &(tl_instance_metrics_config){
                             .num_classes = 3, .mask_output_boundary = {(const int64_t[]){640}, 1}},
                         NULL),
        TL_EINVAL, "mask_output_boundary: a height and a width are expected");
    assert_fails(tl_evaluator_new(&e, &tl_instance_metrics_class,
                                  &(tl_instance_metrics_config){.num_classes = 1 << 20,
                                                                .num_confidence_bins = 1 << 20},
                                  NULL),
                 TL_ELIMIT, "are more than 268435456 counts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(beside_the_original),
        LAB_TEST(vector),
        LAB_TEST(mistakes),
    };
    return cmocka_run_group_tests(tests, open_all, golden_json_close);
}
