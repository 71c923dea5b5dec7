/* `tilth eval_coco`: the twelve lines, the JSON, and what it refuses. */
#include "tool/tool_lab.h"

#include <jansson.h>

#define TRUTHS                                                                                     \
    "{\"images\": [{\"id\": 1, \"height\": 60, \"width\": 60}], \"categories\": [{\"id\": 1, "     \
    "\"name\": \"\\u001b[31mcar\"}, {\"id\": 2}], \"annotations\": [{\"image_id\": 1, "            \
    "\"category_id\": 1, \"bbox\": [0, 0, 10, 10], \"area\": 100, \"segmentation\": [[0, 0, 10, "  \
    "0, 10, 10, 0, 10]]}, {\"image_id\": 1, \"category_id\": 1, \"bbox\": [0, 0, 10, 12], "        \
    "\"area\": 120, \"segmentation\": [[0, 0, 10, 0, 10, 12, 0, 12]]}]}"
#define FOUND(category)                                                                            \
    "[{\"image_id\": 1, \"category_id\": 1, \"bbox\": [0, 0, 10, 11], \"score\": 0.5}, "           \
    "{\"image_id\": 1, \"category_id\": " category ", \"bbox\": [0, 0, 10, 10], \"score\": 0.5}]"

static int settle(void **state)
{
    if (tool_open(state) != 0) return -1;
    put_text("gt.json", TRUTHS);
    put_text("dt.json", FOUND("1"));
    put_text("odd.json", FOUND("5"));
    put_text("none.json", "[]");
    put_text("bad.json", "[{\"image_id\": 2, \"category_id\": 1}]");
    return 0;
}

static void test_twelve_lines(void **state)
{
    (void)state;
    run("eval_coco", "gt.json", "dt.json");
    went_well();
    assert_string_equal(
        out, " Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.925\n"
             " Average Precision  (AP) @[ IoU=0.50      | area=   all | maxDets=100 ] = 1.000\n"
             " Average Precision  (AP) @[ IoU=0.75      | area=   all | maxDets=100 ] = 1.000\n"
             " Average Precision  (AP) @[ IoU=0.50:0.95 | area= small | maxDets=100 ] = 0.925\n"
             " Average Precision  (AP) @[ IoU=0.50:0.95 | area=medium | maxDets=100 ] = -1.000\n"
             " Average Precision  (AP) @[ IoU=0.50:0.95 | area= large | maxDets=100 ] = -1.000\n"
             " Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets=  1 ] = 0.450\n"
             " Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets= 10 ] = 0.950\n"
             " Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.950\n"
             " Average Recall     (AR) @[ IoU=0.50:0.95 | area= small | maxDets=100 ] = 0.950\n"
             " Average Recall     (AR) @[ IoU=0.50:0.95 | area=medium | maxDets=100 ] = -1.000\n"
             " Average Recall     (AR) @[ IoU=0.50:0.95 | area= large | maxDets=100 ] = -1.000\n");
    run("eval_coco", "--segm", "gt.json", "dt.json"); // the same as masks
    went_well();
    has("area=   all | maxDets=100 ] = 0.925\n");
    run("eval_coco", "gt.json", "dt.json", "--max_detections=300");
    has("(AP) @[ IoU=0.50:0.95 | area=   all | maxDets=300 ] = 0.925\n");
}

static void test_json(void **state)
{
    (void)state;
    run("eval_coco", "--json", "gt.json", "dt.json");
    went_well();
    json_t *all = json_loads(out, JSON_REJECT_DUPLICATES, NULL);
    double ap, first_ap, recall;
    int objects, detections, id;
    const char *name;
    assert_int_equal(json_array_size(json_object_get(all, "stats")), 12);
    assert_int_equal(json_array_size(json_object_get(all, "per_category")), 2);
    assert_int_equal(json_unpack(all, "{s:[F], s:i, s:i, s:[{s:i, s:s, s:F, s:F}]}", "stats", &ap,
                                 "objects", &objects, "detections", &detections, "per_category",
                                 "id", &id, "name", &name, "AP", &first_ap, "ARmax1", &recall),
                     0);
    assert_near(ap, .925248, 5e-7);
    assert_near(first_ap, ap, 1e-15);
    assert_near(recall, .45, 1e-15);
    assert_true(objects == 2 && detections == 2 && id == 1);
    assert_string_equal(name, "\033[31mcar");
    text_has_not(out, "\033"); // escaped
    json_decref(all);
}

static void test_notices(void **state)
{
    (void)state;
    run("eval_coco", "gt.json", "odd.json");
    went_well();
    logged("'odd.json': 1 of 2 detections have a category_id that is not among the categories");
    has("area=   all | maxDets=  1 ] = 0.450\n");
    run("eval_coco", "gt.json", "none.json");
    went_well();
    logged("'none.json': there are no detections");
    has("(AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.000\n");
}

static void test_mistakes(void **state)
{
    (void)state;
    run("eval_coco", "gt.json");
    failed(2, "two files are needed: annotations, and detections");
    run("eval_coco", "gt.json", "lost.json");
    failed(2, "lost.json");
    run("eval_coco", "dt.json", "gt.json");
    failed(1, "'dt.json': '{' is expected at character 1");
    run("eval_coco", "gt.json", "bad.json");
    failed(1, "'bad.json': [0]: image_id: there is no image 2 in the annotations");
    run("eval_coco", "gt.json", "dt.json", "--max_detections=5");
    failed(2, "max_detections");
    run("eval_coco", "--help");
    went_well();
    has("ANNOTATIONS.json DETECTIONS.json");
    has("--[no]segm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_twelve_lines),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_notices),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, settle, tool_close);
}
