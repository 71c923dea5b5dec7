/* COCOEvaluator: what Model Garden's tells of two batches (tests/golden/coco_evaluator.py), masks
 * as it pastes them, a class that derives, and what is refused. runs: fake device */
#include "nn/golden_json.h"

#include <unistd.h>

#include <tilth/nn/coco_evaluator.h>

enum { SIDE = 160 }; /* of the masks of ground truth; images are smaller */

static int open_all(void **state)
{
    return golden_json_open(state, TEST_DATA "/golden/coco_evaluator.json");
}

/* --- tensors of the golden file --------------------------------------------------------------- */

static void put_all(tl_tensors *into, json_t *lists)
{
    const char *name;
    json_t *list;
    json_object_foreach(lists, name, list)
    {
        bool numbers = strstr(name, "boxes") || strstr(name, "scores") || strstr(name, "info")
                       || strstr(name, "detection_masks");
        put_list(into, name, list,
                 numbers                          ? TL_F32
                 : strcmp(name, "source_id") == 0 ? TL_I64
                                                  : TL_I32);
    }
}

/* The masks of ground truth as pixels, with something that does not count around them. */
static void put_masks(tl_tensors *into, const json_t *batch)
{
    const json_t *masks = json_object_get(batch, "masks"), *truth = json_object_get(batch, "truth");
    int64_t images = (int64_t)json_array_size(masks),
            places = (int64_t)json_array_size(json_array_get(masks, 0));
    double *all = tl_alloc((size_t)(images * places * SIDE * SIDE) * sizeof *all);
    assert_non_null(all);
    for (int64_t i = 0; i < images * places * SIDE * SIDE; i++) all[i] = 1;
    for (int64_t j = 0; j < images; j++) {
        int64_t height =
            json_integer_value(json_array_get(json_object_get(truth, "height"), (size_t)j));
        int64_t width =
            json_integer_value(json_array_get(json_object_get(truth, "width"), (size_t)j));
        for (int64_t k = 0; k < places; k++) {
            const char *text =
                json_string_value(json_array_get(json_array_get(masks, (size_t)j), (size_t)k));
            uint8_t pixels[SIDE * SIDE];
            tl_rle mask;
            assert_ok(tl_rle_from_text(&mask, text, strlen(text), height, width));
            tl_rle_to_pixels(pixels, &mask);
            tl_rle_deinit(&mask);
            for (int64_t i = 0; i < height * width; i++)
                all[((j * places + k) * SIDE + i / width) * SIDE + i % width] = pixels[i];
        }
    }
    tl_tensors_put(c, into, "masks",
                   tl_from_doubles(c, TL_U8, TL_SHAPE(images, places, SIDE, SIDE), all));
    tl_free(all);
}

static tl_evaluator *make(const tl_coco_evaluator_config *config)
{
    tl_evaluator *e;
    assert_ok(tl_evaluator_new(&e, &tl_coco_evaluator_class, config, NULL));
    return e;
}

static void feed(tl_evaluator *e, bool masks)
{
    const json_t *batches = json_object_get(golden, "batches");
    for (size_t i = 0; i < json_array_size(batches); i++) {
        const json_t *batch = json_array_get(batches, i);
        tl_tensors truth = {0}, found = {0};
        put_all(&truth, json_object_get(batch, "truth"));
        put_all(&found, json_object_get(batch, "found"));
        if (masks) put_masks(&truth, batch);
        assert_ok(tl_ctx_status(c));
        assert_ok(tl_evaluator_update(e, &truth, &found));
    }
}

static void assert_told(const tl_logs *logs, const char *which, int64_t count)
{
    const char *name;
    json_t *value;
    int64_t seen = 0;
    json_object_foreach(json_object_get(json_object_get(golden, "told"), which), name, value)
    {
        double told = tl_logs_number_or(logs, name, NAN);
        if (!(fabs(told - json_number_value(value)) <= 1e-7)) // floats there
            fail_msg("%s is %.9g, not %.9g", name, told, json_number_value(value));
        seen++;
    }
    assert_int_equal(seen, count);
    assert_int_equal(tl_logs_count(logs), count);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void tells_what_the_original_tells(void **state)
{
    (void)state;
    for (int masks = 0; masks < 2; masks++) {
        tl_logs *logs;
        tl_evaluator *e = make(&(tl_coco_evaluator_config){.include_mask = masks});
        for (int round = 0; round < 2; round++) { // what was told is forgotten
            assert_ok(tl_logs_new(&logs));
            feed(e, masks);
            assert_ok(tl_evaluator_tell(e, logs));
            assert_told(logs, masks ? "masks" : "boxes", masks ? 24 : 12);
            tl_logs_free(&logs);
        }
        tl_evaluator_free(&e);
    }
}

static void names(void **state)
{
    (void)state;
    tl_logs *logs;
    tl_evaluator *e = make(&(tl_coco_evaluator_config){
        .include_mask = true, .per_category_metrics = true, .max_num_eval_detections = 5});
    assert_ok(tl_logs_new(&logs));
    feed(e, true);
    assert_ok(tl_evaluator_tell(e, logs));
    static const char *const there[] = {"AP",
                                        "ARmax1",
                                        "ARmax5",
                                        "mask_ARmax5",
                                        "Precision mAP ByCategory/1",
                                        "Precision mAP ByCategory@50IoU/2",
                                        "Recall AR@100 ByCategory/3",
                                        "mask Recall AR (large) ByCategory/1"};
    for (int64_t i = 0; i < TL_COUNT(there); i++)
        if (isnan(tl_logs_number_or(logs, there[i], NAN))) fail_msg("no '%s'", there[i]);
    assert_int_equal(tl_logs_count(logs), 24 + 2 * 12 * 3);
    double mean = 0;
    for (int k = 1; k <= 3; k++) {
        char name[64];
        snprintf(name, sizeof name, "Precision mAP ByCategory/%d", k);
        mean += tl_logs_number_or(logs, name, NAN) / 3;
    }
    assert_near(mean, tl_logs_number_or(logs, "AP", NAN), 1e-12);
    tl_logs_free(&logs);
    tl_evaluator_free(&e);
}

static void pastes_as_the_original(void **state)
{
    (void)state;
    const float small[] = {.1F, .2F, .9F, .8F, .3F, .9F, .9F, .2F,
                           .6F, .7F, .4F, .1F, .9F, .9F, .2F, 0};
    static const int rows[9][2] = {{0, -1}, {6, 6}, {4, 7},  {3, 6}, {2, 5},
                                   {2, 4},  {2, 3}, {0, -1}, {0, -1}};
    tl_rle mask;
    uint8_t pixels[90];
    assert_ok(tl_rle_paste(&mask, small, 4, 4, (float[]){2.3F, 1.6F, 6, 5}, 9, 10));
    tl_rle_to_pixels(pixels, &mask);
    for (int y = 0; y < 9; y++)
        for (int x = 0; x < 10; x++)
            assert_int_equal(pixels[10 * y + x], x >= rows[y][0] && x <= rows[y][1]);
    tl_rle_deinit(&mask);
    // Beyond the image, all of it, and nothing of it.
    const float one = 1;
    assert_ok(tl_rle_paste(&mask, &one, 1, 1, (float[]){-1e9F, -1e9F, 2e9F, 2e9F}, 9, 10));
    assert_int_equal(tl_rle_area(&mask), 90);
    tl_rle_deinit(&mask);
    assert_ok(tl_rle_paste(&mask, &one, 1, 1, (float[]){50, 50, 5, 5}, 9, 10));
    assert_int_equal(tl_rle_area(&mask), 0);
    tl_rle_deinit(&mask);
    assert_fails(tl_rle_paste(&mask, &one, 1, 1, (float[]){0, NAN, 5, 5}, 9, 10), TL_EINVAL,
                 "number 1 of the box is nan");
    assert_fails(tl_rle_paste(&mask, &one, 0, 1, (float[]){0, 0, 5, 5}, 9, 10), TL_EINVAL,
                 "0 x 1 probabilities");

    tl_evaluator *e = make(&(tl_coco_evaluator_config){.include_mask = true});
    feed(e, true);
    const tl_coco_set *found = ((tl_coco_evaluator *)e)->found;
    const json_t *batches = json_object_get(golden, "batches");
    int64_t at = 0;
    for (size_t i = 0; i < json_array_size(batches); i++) {
        const json_t *pasted = json_object_get(json_array_get(batches, i), "pasted");
        for (size_t j = 0; j < json_array_size(pasted); j++) {
            const json_t *texts = json_array_get(pasted, j);
            for (size_t k = 0; k < json_array_size(texts); k++) {
                tl_str text = TL_STR_INIT;
                assert_ok(tl_rle_to_text(&text, &found->objects.items[at++].mask));
                assert_string_equal(tl_str_text(&text),
                                    json_string_value(json_array_get(texts, k)));
                tl_str_deinit(&text);
            }
        }
    }
    assert_int_equal(at, found->objects.count);
    tl_evaluator_free(&e);
}

/* --- a class that derives --------------------------------------------------------------------- */

typedef struct counting {
    tl_coco_evaluator base;
    int64_t batches;
} counting;

static tl_status counting_update(tl_evaluator *e, const tl_tensors *groundtruths,
                                 const tl_tensors *predictions)
{
    ((counting *)e)->batches++;
    return tl_coco_evaluator_class.update(e, groundtruths, predictions);
}

static tl_status counting_result(tl_evaluator *e, tl_logs *into)
{
    tl_coco_result *r;
    TL_TRY(tl_coco_evaluator_class.result(e, into));
    TL_TRY(tl_coco_evaluator_evaluate(&r, (tl_coco_evaluator *)e, false));
    tl_status st =
        tl_logs_put(into, "detections_per_object", (double)r->detections / (double)r->objects);
    tl_coco_result_free(&r);
    return st;
}

static const tl_evaluator_class counting_class = {
    .cls = TL_CLASS(tl_evaluator_class, "counting", &tl_coco_evaluator_class.cls, counting,
                    &tl_coco_evaluator_desc, .help = "of the test"),
    .update = counting_update,
    .result = counting_result,
};

static void classes_derive(void **state)
{
    (void)state;
    tl_evaluator *e;
    tl_logs *logs;
    assert_ok(tl_logs_new(&logs));
    assert_ok(tl_evaluator_new(&e, &counting_class, NULL, NULL));
    feed(e, false);
    assert_int_equal(((counting *)e)->batches, 2);
    assert_ok(tl_evaluator_tell(e, logs));
    assert_true(tl_logs_number_or(logs, "detections_per_object", 0) > 1);
    assert_int_equal(tl_logs_count(logs), 13);
    tl_logs_free(&logs);
    tl_evaluator_free(&e);
}

/* --- files and mistakes ----------------------------------------------------------------------- */

static void annotation_files(void **state)
{
    (void)state;
    static const char text[] = "{\"images\": [{\"id\": 101}], \"categories\": [{\"id\": 1, "
                               "\"name\": \"cat\"}], \"annotations\": []}";
    char path[TEMPORARY_PATH];
    int file = mkstemp(temporary(path, "tilth_coco"));
    assert_true(file >= 0);
    close(file);
    assert_ok(tl_file_write_atomic(path, text, strlen(text)));
    tl_evaluator *e = make(&(tl_coco_evaluator_config){.annotation_file = path});
    tl_logs *logs;
    assert_ok(tl_logs_new(&logs));
    feed(e, false);
    assert_fails(tl_evaluator_tell(e, logs), TL_EINVAL,
                 "evaluator 'coco_metric': there are detections of image 102, which is not in ");
    assert_ok(tl_evaluator_tell(e, logs)); // the file stays, and nothing came
    assert_near(tl_logs_number_or(logs, "AP", NAN), -1, 0);
    assert_int_equal(((tl_coco_evaluator *)e)->truths->images.count, 1);
    tl_logs_free(&logs);
    tl_evaluator_free(&e);
    assert_ok(tl_file_remove(path));
    assert_fails(tl_evaluator_new(&e, &tl_coco_evaluator_class,
                                  &(tl_coco_evaluator_config){.annotation_file = path}, NULL),
                 TL_ENOTFOUND, "evaluator 'coco_metric'");
    assert_fails(tl_evaluator_new(&e, &tl_coco_evaluator_class,
                                  &(tl_coco_evaluator_config){.max_num_eval_detections = -1}, NULL),
                 TL_EINVAL, "max_num_eval_detections");
}

static void bad_batches(void **state)
{
    (void)state;
    const json_t *batch = json_array_get(json_object_get(golden, "batches"), 0);
    tl_evaluator *e = make(NULL);
    tl_tensors truth = {0}, found = {0};
    assert_fails(tl_evaluator_update(e, &truth, &found), TL_ENOTFOUND,
                 "the predictions have no 'source_id'");
    put_all(&found, json_object_get(batch, "found"));
    assert_fails(tl_evaluator_update(e, &truth, &found), TL_ENOTFOUND,
                 "the groundtruths have no 'source_id'");
    put_all(&truth, json_object_get(batch, "truth"));
    tl_tensor *scores = tl_tensors_peek(&found, "detection_scores");
    tl_tensors_put(c, &found, "detection_scores", tl_zeros(c, TL_F32, TL_SHAPE(2, 3)));
    assert_fails(tl_evaluator_update(e, &truth, &found), TL_EINVAL,
                 "'detection_scores' of the predictions is float32[2, 3], not [2, 8]");
    tl_tensors_put(c, &found, "detection_scores", tl_full(c, TL_F32, TL_SHAPE(2, 8), NAN));
    assert_fails(tl_evaluator_update(e, &truth, &found), TL_EINVAL,
                 "predictions: image 101: the score is nan");
    tl_tensors_put(c, &found, "detection_scores", scores);
    tl_tensors_put(c, &found, "source_id", tl_full(c, TL_F32, TL_SHAPE(2), 1e30));
    assert_fails(tl_evaluator_update(e, &truth, &found), TL_EINVAL, "ids are below 2^53");
    tl_tensors_put(c, &found, "source_id", tl_tensors_peek(&truth, "source_id"));
    tl_tensors_put(c, &found, "detection_classes", tl_full(c, TL_F32, TL_SHAPE(2, 8), NAN));
    tl_tensors_put(c, &found, "num_detections", tl_full(c, TL_F32, TL_SHAPE(2, 1), INFINITY));
    assert_ok(tl_ctx_status(c));
    tl_evaluator_reset(e);
    assert_ok(tl_evaluator_update(e, &truth, &found)); // of class 0, which no object has
    tl_logs *logs;
    assert_ok(tl_logs_new(&logs));
    assert_ok(tl_evaluator_tell(e, logs));
    assert_near(tl_logs_number_or(logs, "AP", NAN), 0, 0);
    tl_logs_free(&logs);
    tl_evaluator_free(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_what_the_original_tells),
        cmocka_unit_test(names),
        cmocka_unit_test(pastes_as_the_original),
        cmocka_unit_test(classes_derive),
        cmocka_unit_test(annotation_files),
        cmocka_unit_test(bad_batches),
    };
    return cmocka_run_group_tests(tests, open_all, golden_json_close);
}
