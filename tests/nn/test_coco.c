/* Average precision: vectors and random sets of pycocotools (tests/golden/coco.py), with the same
 * bits on any number of threads. needs: threads */
#include "test.h"

#include <stdlib.h>

#include <jansson.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/nn/coco.h>

#include "nn/coco/coco.h"

typedef struct row {
    int64_t image, category;
    double box[4], score;
    bool crowd;
} row;

static tl_coco_set *make_set(const row *rows, int64_t count)
{
    tl_coco_set *set;
    assert_ok(tl_coco_set_new(&set));
    for (int64_t i = 0; i < count; i++) {
        const double *b = rows[i].box;
        tl_coco_object o = {rows[i].image, rows[i].category,       {b[0], b[1], b[2], b[3]},
                            b[2] * b[3],   .score = rows[i].score, .crowd = rows[i].crowd};
        assert_ok(tl_coco_add_object(set, &o));
    }
    return set;
}

static tl_coco_set *make_truths(const row *rows, int64_t count, int64_t images, int64_t categories)
{
    tl_coco_set *set = make_set(rows, count);
    for (int64_t i = images; i > 0; i--) // in any order
        assert_ok(tl_coco_add_image(set, &(tl_coco_image){.id = i}));
    for (int64_t k = categories; k > 0; k--) assert_ok(tl_coco_add_category(set, k, NULL));
    return set;
}

static tl_coco_result *evaluate(const tl_coco_set *truths, const tl_coco_set *found,
                                const tl_coco_args *args)
{
    tl_coco_result *r;
    assert_ok(tl_coco_evaluate(&r, truths, found, args));
    return r;
}

static void assert_stats(const double *stats, const double *wanted, double most)
{
    for (int i = 0; i < TL_COCO_STATS; i++)
        if (!(fabs(stats[i] - wanted[i]) <= most))
            fail_msg("number %d is %.17g, not %.17g", i, stats[i], wanted[i]);
}

/* --- vectors ---------------------------------------------------------------------------------- */

static const row truth_rows[] = {
    {1, 1, {10, 10, 40, 40}, 0, false},   {1, 1, {100, 100, 50, 60}, 0, false},
    {1, 2, {20, 120, 30, 20}, 0, false},  {1, 1, {60, 10, 80, 40}, 0, true},
    {2, 1, {30, 30, 120, 120}, 0, false}, {2, 2, {5, 5, 20, 20}, 0, false},
    {2, 2, {150, 10, 25, 25}, 0, false},  {2, 3, {0, 0, 10, 10}, 0, false},
};
static const row found_rows[] = {
    {1, 1, {12, 11, 40, 40}, .9, false},   {1, 1, {10, 14, 40, 36}, .8, false},
    {1, 1, {65, 12, 30, 30}, .7, false},   {1, 1, {100, 100, 52, 55}, .6, false},
    {1, 1, {0, 180, 15, 15}, .5, false},   {1, 2, {22, 121, 30, 20}, .95, false},
    {1, 2, {100, 20, 10, 10}, .3, false},  {2, 1, {35, 28, 110, 125}, .85, false},
    {2, 1, {30, 30, 60, 60}, .4, false},   {2, 2, {6, 6, 20, 20}, .6, false},
    {2, 2, {148, 12, 25, 25}, .55, false}, {2, 2, {80, 80, 40, 40}, .9, false},
};
static const double wanted[TL_COCO_STATS] = {.409213, .583333, .490099, .291584, .693234, .8,
                                             .244444, .477778, .477778, .3,      .85,     .8};

static void boxes(void **state)
{
    (void)state;
    tl_coco_set *truths = make_truths(truth_rows, TL_COUNT(truth_rows), 2, 3);
    tl_coco_set *found = make_set(found_rows, TL_COUNT(found_rows));
    tl_coco_result *r = evaluate(truths, found, &(tl_coco_args){.per_category = true});
    static const double ap50[] = {.915842, .834158, 0};
    assert_stats(r->stats, wanted, 5e-7);
    assert_int_equal(r->category_count, 3);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(r->categories[k].id, k + 1);
        assert_near(r->categories[k].stats[TL_COCO_AP50], ap50[k], 5e-7);
    }
    assert_string_equal(r->categories[2].name, "3");
    assert_int_equal(r->categories[0].objects, 3);
    assert_int_equal(r->categories[0].detections, 7);
    assert_true(r->images == 2 && r->objects == 7 && r->crowds == 1 && r->detections == 12);
    tl_coco_result_free(&r);
    // The limits that leave AP without a number in the original.
    for (int64_t most = 10; most <= 300; most += 290) {
        r = evaluate(truths, found, &(tl_coco_args){.max_detections = {1, 10, most}});
        assert_stats(r->stats, wanted, 5e-7);
        assert_null(r->categories);
        tl_coco_result_free(&r);
    }
    // Slots that hold nothing change nothing.
    for (int i = 0; i < 50; i++) {
        tl_coco_object none = {.image = 1 + i % 2, .category = 1 + i % 3};
        assert_ok(tl_coco_add_object(found, &none));
    }
    r = evaluate(truths, found, &(tl_coco_args){0});
    assert_stats(r->stats, wanted, 5e-7);
    tl_coco_result_free(&r);
    tl_coco_set_free(&found);
    tl_coco_set_free(&truths);
}

static void ties_and_borders(void **state)
{
    (void)state;
    const row two[] = {{1, 1, {0, 0, 10, 10}, 0, false}, {1, 1, {0, 0, 10, 12}, 0, false}};
    const row tied[] = {{1, 1, {0, 0, 10, 11}, .5, false}, {1, 1, {0, 0, 10, 10}, .5, false}};
    tl_coco_set *truths = make_truths(two, 2, 1, 1), *found = make_set(tied, 2);
    tl_coco_result *r = evaluate(truths, found, &(tl_coco_args){0});
    assert_near(r->stats[TL_COCO_AP], .925248, 5e-7);
    assert_near(r->stats[TL_COCO_AR1], .45, 1e-12);
    assert_near(r->stats[TL_COCO_AR], .95, 1e-12);
    tl_coco_result_free(&r);
    tl_coco_set_free(&found);
    // An overlap of exactly one half is enough.
    found = make_set(&(row){1, 1, {0, 0, 10, 5}, .5, false}, 1);
    tl_coco_set *one = make_truths(two, 1, 1, 1);
    r = evaluate(one, found, &(tl_coco_args){0});
    assert_near(r->stats[TL_COCO_AR], .1, 1e-12);
    assert_near(r->stats[TL_COCO_AP50], 1, 1e-12);
    assert_near(r->stats[TL_COCO_APL], -1, 0);
    tl_coco_result_free(&r);
    tl_coco_set_free(&one);
    tl_coco_set_free(&found);
    tl_coco_set_free(&truths);
    static const double thresholds[] = {.5, .55, .6, .65, .7, .75, .8, .85, .8999999999999999, .95};
    for (int i = 0; i < TLI_COCO_THRESHOLDS; i++)
        assert_true(tli_coco_threshold(i) == thresholds[i]);
}

static void add_rectangle(tl_coco_set *set, int top, int bottom, int left, int right, double score,
                          bool crowd)
{
    uint8_t pixels[60 * 60] = {0};
    tl_coco_object o = {.image = 1, .category = 1, .score = score, .crowd = crowd};
    for (int y = top; y < bottom; y++)
        for (int x = left; x < right; x++) pixels[60 * y + x] = 1;
    assert_ok(tl_rle_from_pixels(&o.mask, pixels, 60, 60));
    o.area = (double)tl_rle_area(&o.mask);
    assert_ok(tl_coco_add_object(set, &o));
}

static void masks(void **state)
{
    (void)state;
    tl_coco_set *truths = make_truths(NULL, 0, 1, 1), *found;
    assert_ok(tl_coco_set_new(&found));
    add_rectangle(truths, 5, 25, 5, 25, 0, false);
    add_rectangle(truths, 30, 55, 30, 55, 0, false);
    add_rectangle(truths, 40, 60, 0, 20, 0, true);
    add_rectangle(found, 5, 25, 6, 26, .9, false);
    add_rectangle(found, 30, 50, 30, 55, .7, false);
    add_rectangle(found, 42, 52, 2, 12, .8, false);
    add_rectangle(found, 2, 12, 45, 55, .6, false);
    tl_coco_result *r = evaluate(truths, found, &(tl_coco_args){.masks = true});
    assert_near(r->stats[TL_COCO_AP], .80099, 5e-6);
    assert_near(r->stats[TL_COCO_AP50], 1, 1e-12);
    assert_near(r->stats[TL_COCO_AR1], .45, 1e-12);
    assert_near(r->stats[TL_COCO_AR], .8, 1e-12);
    tl_coco_result_free(&r);
    tl_coco_object bare = {.image = 1, .category = 1};
    assert_ok(tl_coco_add_object(found, &bare));
    assert_fails(tl_coco_evaluate(&r, truths, found, &(tl_coco_args){.masks = true}), TL_EINVAL,
                 "a detection of image 1 has no mask");
    assert_null(r);
    tl_coco_set_free(&found);
    tl_coco_set_free(&truths);
}

/* --- what counts ------------------------------------------------------------------------------ */

static void images_and_categories(void **state)
{
    (void)state;
    static const double of_image_2[] = {0.39460946094609456,
                                        0.5555555555555555,
                                        0.4174917491749174,
                                        0.3004950495049505,
                                        -1,
                                        0.7999999999999999,
                                        0.26666666666666666,
                                        0.4666666666666667,
                                        0.4666666666666667,
                                        0.3,
                                        -1,
                                        0.8}; // pycocotools
    tl_coco_set *truths = make_truths(truth_rows, TL_COUNT(truth_rows), 2, 3);
    tl_coco_set *found = make_set(found_rows, TL_COUNT(found_rows));
    tl_coco_object odd = {.image = 1, .category = 77, .box = {0, 0, 9, 9}, .area = 81, .score = 1};
    assert_ok(tl_coco_add_object(found, &odd));
    tl_coco_result *r = evaluate(truths, found, &(tl_coco_args){0});
    assert_stats(r->stats, wanted, 5e-7);
    assert_int_equal(r->strange, 1);
    tl_coco_result_free(&r);
    // One image alone, named twice: as if there were no other.
    r = evaluate(truths, found, &(tl_coco_args){.images = (int64_t[]){2, 2}, .image_count = 2});
    assert_true(r->images == 1 && r->objects == 4 && r->detections == 5 && r->strange == 0);
    assert_stats(r->stats, of_image_2, 1e-15);
    tl_coco_result_free(&r);
    r = evaluate(truths, found, &(tl_coco_args){.images = (int64_t[]){9}, .image_count = 1});
    for (int i = 0; i < TL_COCO_STATS; i++) assert_near(r->stats[i], -1, 0);
    tl_coco_result_free(&r);
    assert_fails(tl_coco_evaluate(&r, truths, found, &(tl_coco_args){.max_detections = {1, 10, 5}}),
                 TL_EINVAL, "that rise, not 1, 10, 5");
    tl_coco_object bad = {.box = {0, 0, NAN, 1}};
    assert_fails(tl_coco_add_object(found, &bad), TL_EINVAL, "number 2 of the box is nan");
    bad = (tl_coco_object){.score = INFINITY};
    assert_fails(tl_coco_add_object(found, &bad), TL_EINVAL, "the score is inf");
    bad = (tl_coco_object){.area = -INFINITY};
    assert_fails(tl_coco_add_object(found, &bad), TL_EINVAL, "the area is -inf");
    tl_coco_set_free(&found);
    // Nothing found: no precision, no recall.
    assert_ok(tl_coco_set_new(&found));
    r = evaluate(truths, found, &(tl_coco_args){0});
    assert_near(r->stats[TL_COCO_AP], 0, 0);
    assert_near(r->stats[TL_COCO_AR], 0, 0);
    tl_coco_result_free(&r);
    tl_coco_set_free(&found);
    tl_coco_set_free(&truths);
}

/* --- pycocotools ------------------------------------------------------------------------------ */

static void numbers_of(double *out, const json_t *list)
{
    assert_int_equal(json_array_size(list), TL_COCO_STATS);
    for (size_t i = 0; i < TL_COCO_STATS; i++) out[i] = json_number_value(json_array_get(list, i));
}

static void check_golden(const json_t *set, tl_pool *pool)
{
    bool with_masks = strcmp(json_string_value(json_object_get(set, "kind")), "segm") == 0;
    int64_t most = json_integer_value(json_object_get(set, "most"));
    char *truth_text = json_dumps(json_object_get(set, "truths"), 0);
    char *found_text = json_dumps(json_object_get(set, "found"), 0);
    tl_coco_set *truths, *found;
    assert_ok(tl_coco_parse(&truths, "truths", truth_text, strlen(truth_text), with_masks));
    assert_ok(
        tl_coco_parse_results(&found, "found", found_text, strlen(found_text), truths, with_masks));
    tl_coco_args args = {
        .masks = with_masks, .max_detections = {1, 10, most}, .per_category = true, .pool = pool};
    tl_coco_result *r = evaluate(truths, found, &args);
    double numbers[TL_COCO_STATS];
    numbers_of(numbers, json_object_get(set, "stats"));
    assert_stats(r->stats, numbers, 0);
    const json_t *categories = json_object_get(set, "categories");
    assert_int_equal(r->category_count, json_array_size(categories));
    for (int64_t k = 0; k < r->category_count; k++) {
        numbers_of(numbers, json_array_get(categories, (size_t)k));
        assert_stats(r->categories[k].stats, numbers, 0);
    }
    tl_str text = TL_STR_INIT;
    assert_ok(tl_coco_result_text(&text, r));
    if (most == 100) // otherwise AP is -1 there
        assert_string_equal(tl_str_text(&text), json_string_value(json_object_get(set, "lines")));
    tl_str_deinit(&text);
    tl_coco_result_free(&r);
    tl_coco_set_free(&found);
    tl_coco_set_free(&truths);
    free(found_text);
    free(truth_text);
}

static void random_sets(void **state)
{
    (void)state;
    char *text;
    assert_ok(tl_file_read(&text, NULL, TEST_DATA "/golden/coco.json", 1 << 24));
    json_t *sets = json_loads(text, 0, NULL);
    assert_true(json_array_size(sets) > 16);
    for (int threads = 1; threads <= 3; threads += 2) {
        tl_pool *pool;
        assert_ok(tl_pool_new(&pool, threads));
        for (size_t i = 0; i < json_array_size(sets); i++)
            check_golden(json_array_get(sets, i), pool);
        tl_pool_free(&pool);
    }
    json_decref(sets);
    tl_free(text);
}

static void memory_may_lack(void **state)
{
    (void)state;
    tl_coco_set *truths = make_truths(truth_rows, TL_COUNT(truth_rows), 2, 3);
    tl_coco_set *found = make_set(found_rows, TL_COUNT(found_rows));
    int64_t failures = 0;
    for (int64_t nth = 1;; nth++) {
        tl_coco_result *r;
        int64_t calls = tl_alloc_calls();
        tl_alloc_fail_at(nth, 1);
        tl_status st = tl_coco_evaluate(&r, truths, found, &(tl_coco_args){.per_category = true});
        tl_alloc_fail_at(0, 0);
        if (st != TL_OK) {
            assert_int_equal(st, TL_ENOMEM);
            assert_null(r);
            failures++;
        }
        tl_coco_result_free(&r);
        if (tl_alloc_calls() - calls < nth) break;
    }
    assert_true(failures > 10);
    tl_coco_set_free(&found);
    tl_coco_set_free(&truths);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes),       cmocka_unit_test(ties_and_borders),
        cmocka_unit_test(masks),       cmocka_unit_test(images_and_categories),
        cmocka_unit_test(random_sets), cmocka_unit_test(memory_may_lack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
