/* Anchors, their labels, losses, detections and crops against Model Garden: a few numbers that were
 * written down, and those of tests/golden/detection.py. */
#include "nn/golden_file.h"

#include <math.h>
#include <stdlib.h>
#include <tilth/graph/function.h>
#include <tilth/nn/detection.h>
#include <tilth/nn/detection_losses.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/index.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

static tl_engine *engine;
static tl_registry *registry;
static tl_ctx *c;
static tl_config *configs[32]; /* of the present test */
static int config_count;

static int open_all(void **state)
{
    (void)state;
    golden_begin(TEST_DATA "/golden/detection.bin", &registry, &tl_detection_losses_module,
                 &engine);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    golden_end(&registry, &engine);
    return 0;
}

static int fresh(void **state)
{
    (void)state;
    return tl_ctx_new(&c, engine) == TL_OK ? 0 : -1;
}

static int drop(void **state)
{
    (void)state;
    while (config_count) tl_config_free(&configs[--config_count]);
    tl_ctx_free(&c);
    return 0;
}

// The configuration that a text gives, for as long as the test runs.
static tl_status config_from(const void **out, const tl_desc *desc, const char *yaml)
{
    assert_true(config_count < (int)TL_COUNT(configs));
    TL_TRY(tl_config_new(&configs[config_count], registry, desc));
    tl_config *own = configs[config_count++];
    TL_TRY(tl_config_yaml(own, yaml, "test"));
    TL_TRY(tl_config_finish(own));
    *out = tl_config_value(own);
    return TL_OK;
}

/* --- comparing -------------------------------------------------------------------------------- */

static const golden *row(const char *name)
{
    const golden *g = golden_peek("%s", name);
    if (!g) fail_msg("%s is not in the golden file", name);
    return g;
}

static tl_tensor *given(const char *name)
{
    const golden *g = row(name);
    static const tl_dtype types[] = {TL_F32, TL_F64, TL_I64};
    tl_tensor *t = tl_from(c, types[g->kind], g->shape, g->values);
    assert_non_null(t);
    return t;
}

static void check_numbers(const char *name, const tl_tensor *t, const golden *g,
                          const double *wanted, int64_t count, double most)
{
    if (!t) {
        assert_ok(tl_ctx_status(c));
        fail_msg("%s: no tensor", name);
    }
    assert_int_equal(tl_tensor_count(t), count);
    double *found = malloc((size_t)(count ? count : 1) * sizeof *found);
    assert_non_null(found);
    assert_ok(tl_tensor_get_doubles(t, found, count));
    for (int64_t i = 0; i < count; i++) {
        const double right = g ? golden_number(g, i) : wanted[i];
        if (!(fabs(found[i] - right) <= most * fmax(1, fabs(right))))
            fail_msg("%s: element %d is %.9g and should be %.9g", name, (int)i, found[i], right);
    }
    free(found);
}

static void check_row(const char *name, const tl_tensor *t, double most)
{
    const golden *g = row(name);
    check_numbers(name, t, g, NULL, tl_shape_count(&g->shape), most);
}

#define CHECK(t, most, ...)                                                                        \
    check_numbers(#t, t, NULL, (const double[]){__VA_ARGS__},                                      \
                  (int64_t)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)), most)
#define TENSOR(shape, ...) tl_from_doubles(c, TL_F32, shape, (const double[]){__VA_ARGS__})

/* --- anchors ---------------------------------------------------------------------------------- */

static tl_tensor *anchors_by(const char *name, const double *aspects, int64_t count,
                             tl_anchor_grid *grid)
{
    const golden *a = row(name);
    *grid = (tl_anchor_grid){.min_level = (int64_t)golden_number(a, 0),
                             .max_level = (int64_t)golden_number(a, 1),
                             .height = (int64_t)golden_number(a, 4),
                             .width = (int64_t)golden_number(a, 5)};
    return tl_anchors(c,
                      &(tl_anchor_config){.num_scales = (int64_t)golden_number(a, 2),
                                          .aspect_ratios = {aspects, count},
                                          .anchor_size = golden_number(a, 3)},
                      grid);
}

static void test_anchors(void **state)
{
    (void)state;
    for (int i = 0; golden_peek("anchors/%d/args", i); i++) {
        char name[3][64];
        double aspects[8];
        tl_anchor_grid grid;
        snprintf(name[0], sizeof *name, "anchors/%d/args", i);
        snprintf(name[1], sizeof *name, "anchors/%d/aspects", i);
        snprintf(name[2], sizeof *name, "anchors/%d/boxes", i);
        const int64_t count = row(name[1])->shape.dims[0];
        for (int64_t k = 0; k < count; k++) aspects[k] = golden_number(row(name[1]), k);
        check_row(name[2], anchors_by(name[0], aspects, count, &grid), 2e-7);
    }
    tl_tensor *first =
        tl_anchors(c, &(tl_anchor_config){2, {(const double[]){0.5, 1, 2}, 3}, 4},
                   &(tl_anchor_grid){.min_level = 3, .max_level = 4, .height = 64, .width = 64});
    tl_tensor *six = tl_slice(c, first, 0, 0, 6, 1);
    CHECK(six, 1e-7, -18.627417, -7.313708, 26.627417, 15.313708, -12, -12, 20, 20, -7.313708,
          -18.627417, 15.313708, 26.627417, -28, -12, 36, 20, -18.627417, -18.627417, 26.627417,
          26.627417, -12, -28, 20, 36);
    tl_tensor *last = tl_slice(c, first, 0, -1, TL_OPEN, 1);
    CHECK(last, 0, 24, -8, 88, 120);
    tl_anchor_grid none = {.min_level = 5, .max_level = 3, .height = 64, .width = 64};
    assert_null(tl_anchors(c, &(tl_anchor_config){1, {(const double[]){1}, 1}, 4}, &none));
    assert_fails(tl_ctx_status(c), TL_EINVAL, "levels 5 to 3");
}

static void test_anchor_maps(void **state)
{
    (void)state;
    const tl_anchor_grid grid = {.min_level = 3, .max_level = 4, .height = 20, .width = 16};
    tl_tensor *x = tl_reshape(c, tl_arange(c, TL_F32, 0, 8 * 2 * 3 * 2, 1), TL_SHAPE(1, 16, 6));
    tl_tensor *maps[2];
    tl_anchors_unpack(c, x, &grid, maps);
    assert_ok(tl_ctx_status(c));
    const tl_shape shapes[] = {TL_SHAPE(1, 3, 2, 12), TL_SHAPE(1, 2, 1, 12)};
    for (int i = 0; i < 2; i++) assert_true(tl_shape_equal(&maps[i]->shape, &shapes[i]));
    tl_tensor *back = tl_anchors_pack(c, maps, 2, 6);
    tl_tensor *same = tl_all(c, tl_equal(c, back, x), TL_ALL, false);
    CHECK(same, 0, 1);
    assert_null(tl_anchors_pack(c, maps, 2, 5));
    assert_fails(tl_ctx_status(c), TL_EINVAL, "anchors * 5");
}

/* --- boxes ------------------------------------------------------------------------------------ */

static void test_boxes(void **state)
{
    (void)state;
    tl_tensor *anchor = TENSOR(TL_SHAPE(1, 4), 0, 0, 10, 20);
    tl_tensor *box = TENSOR(TL_SHAPE(1, 4), 2, 1, 8, 23),
              *zero = TENSOR(TL_SHAPE(1, 4), 0, 0, 0, 0);
    static const double weights[] = {10, 10, 5, 5};
    CHECK(tl_box_encode(c, box, anchor, NULL), 1e-6, 0, .1, -.510826, .095310);
    CHECK(tl_box_encode(c, box, anchor, weights), 1e-6, 0, 1, -2.554128, .476551);
    CHECK(tl_box_encode(c, zero, TENSOR(TL_SHAPE(1, 4), 5, 5, 25, 15), NULL), 1e-6, -.75, -1,
          -21.416412, -20.723267);
    CHECK(tl_box_decode(c, TENSOR(TL_SHAPE(1, 4), .1, -.2, .3, 9), anchor, NULL), 1e-6, -.749294,
          -619.00006, 12.749294, 631.00006);
    tl_tensor *a = given("overlaps/a"), *b = given("overlaps/b");
    check_row("overlaps/iou", tl_box_overlap(c, a, b, TL_OVERLAP_IOU), 1e-7);
    check_row("overlaps/ioa", tl_box_overlap(c, a, b, TL_OVERLAP_IOA), 1e-7);
    check_row("overlaps/giou", tl_box_overlap(c, a, b, TL_OVERLAP_GIOU), 1e-6);
    tl_tensor *code = tl_box_encode(c, tl_slice(c, b, 0, 0, 1, 1),
                                    tl_slice(c, tl_slice(c, a, 0, 0, 1, 1), 1, 0, 5, 1), weights);
    check_row("overlaps/code", code, 1e-6);
}

/* --- labels ----------------------------------------------------------------------------------- */

static void test_matcher(void **state)
{
    (void)state;
    // Labels of one anchor of side 32 at each place.
    static const double one[] = {1};
    tl_tensor *anchors =
        tl_anchors(c, &(tl_anchor_config){1, {one, 1}, 4},
                   &(tl_anchor_grid){.min_level = 3, .max_level = 3, .height = 32, .width = 32});
    tl_tensor *truth = TENSOR(TL_SHAPE(1, 2, 4), 2, 3, 30, 28, 0, 0, 8, 8);
    tl_tensor *classes = TENSOR(TL_SHAPE(1, 2), 7, 3);
    tl_anchor_labels l = tl_label_anchors(c, anchors, truth, classes, .match_threshold = 0.5,
                                          .unmatched_threshold = 0.4);
    CHECK(l.cls_targets, 0, 3, -1, -1, -1, -1, 7, 7, -1, -1, 7, 7, -1, -1, -1, -1, -1);
    tl_tensor *first = tl_slice(c, l.box_targets, 1, 0, 1, 1);
    tl_tensor *fifth = tl_slice(c, l.box_targets, 1, 5, 6, 1);
    CHECK(first, 1e-6, 0, 0, -1.386294, -1.386294);
    CHECK(fifth, 1e-6, .125, .109375, -.133531, -.246860);
}

// Regions among which the truth itself is mixed, padding included.
static void test_region_matches(void **state)
{
    (void)state;
    tl_tensor *truth = TENSOR(TL_SHAPE(1, 2, 4), 0, 0, 10, 10, -1, -1, -1, -1);
    tl_tensor *regions = TENSOR(TL_SHAPE(1, 6, 4), 0, 0, 10, 10, 0, 0, 10, 4, 50, 50, 60, 60, 0, 0,
                                10, 5, 0, 0, 10, 10, -1, -1, -1, -1);
    tl_matches m =
        tl_box_match(c, regions, truth, .unmatched = 0.5, .matched = 0.5, .tell_padding = true);
    CHECK(m.kind, 0, 1, -1, -1, 1, 1, -3);
    CHECK(m.overlap, 1e-7, 1, .4, 0, .5, 1, -1);
    CHECK(tl_match_take(c, &m, TENSOR(TL_SHAPE(1, 2), 5, -1), 0), 0, 5, 0, 0, 5, 5, 0);
}

static void test_labels(void **state)
{
    (void)state;
    static const double aspects[] = {.5, 1, 2};
    tl_anchor_grid grid;
    tl_tensor *anchors = anchors_by("labels/args", aspects, 3, &grid);
    for (int i = 0; golden_peek("labels/%d/boxes", i); i++) {
        char name[96];
#define NAME(what) (snprintf(name, sizeof name, "labels/%d/" what, i), name)
        const golden *limits = row(NAME("thresholds")), *w = row(NAME("weights"));
        double weights[4];
        for (int64_t k = 0; k < tl_shape_count(&w->shape); k++) weights[k] = golden_number(w, k);
        // Two images: the second has padding between its boxes, and the same labels.
        const int64_t m = row(NAME("boxes"))->shape.dims[0];
        tl_tensor *gap = tl_full(c, TL_F32, TL_SHAPE(1, 2, 4), -1);
        tl_tensor *truth = tl_expand_dims(c, given(NAME("boxes")), 0);
        tl_tensor *parts[] = {tl_slice(c, truth, 1, 0, m / 2, 1), gap,
                              tl_slice(c, truth, 1, m / 2, m, 1)};
        tl_tensor *padded[] = {tl_concat(c, (tl_tensor *[]){truth, gap}, 2, 1),
                               tl_concat(c, parts, 3, 1)};
        tl_tensor *class = tl_expand_dims(c, given(NAME("classes")), 0);
        tl_tensor *none = tl_full(c, TL_I64, TL_SHAPE(1, 2), 0);
        tl_tensor *kinds[] = {tl_slice(c, class, 1, 0, m / 2, 1), none,
                              tl_slice(c, class, 1, m / 2, m, 1)};
        tl_tensor *classes[] = {tl_concat(c, (tl_tensor *[]){class, none}, 2, 1),
                                tl_concat(c, kinds, 3, 1)};
        tl_anchor_labels l =
            tl_label_anchors(c, anchors, tl_concat(c, padded, 2, 0), tl_concat(c, classes, 2, 0),
                             .match_threshold = golden_number(limits, 0),
                             .unmatched_threshold = golden_number(limits, 1),
                             .box_coder_weights = {weights, tl_shape_count(&w->shape)});
        assert_ok(tl_ctx_status(c));
        for (int64_t image = 0; image < 2; image++) {
            check_row(NAME("cls_targets"), tl_take(c, l.cls_targets, 0, image), 0);
            check_row(NAME("box_targets"), tl_take(c, l.box_targets, 0, image), 1e-5);
            check_row(NAME("cls_weights"), tl_take(c, l.cls_weights, 0, image), 0);
            check_row(NAME("box_weights"), tl_take(c, l.box_weights, 0, image), 0);
        }
        tl_matches alone = tl_box_match(c, anchors, truth, .matched = golden_number(limits, 0),
                                        .unmatched = golden_number(limits, 1), .force = true);
        tl_tensor *attributes = tl_expand_dims(c, given(NAME("attributes")), 0);
        check_row(NAME("att_targets"), tl_match_take(c, &alone, attributes, 0), 0);
#undef NAME
    }
}

static void test_rpn_labels(void **state)
{
    (void)state;
    static const double aspects[] = {.5, 1, 2};
    tl_anchor_grid grid;
    tl_tensor *anchors = anchors_by("labels/args", aspects, 3, &grid);
    tl_tensor *truth = tl_expand_dims(c, given("labels/1/boxes"), 0);
    const tl_label_rpn_args args = {.match_threshold = 0.5,
                                    .unmatched_threshold = 0.3,
                                    .rpn_batch_size_per_im = 20,
                                    .rpn_fg_fraction = 0.5};
    tl_matches m = tl_box_match(c, anchors, truth, .matched = 0.5, .unmatched = 0.3, .force = true);
    tl_tensor *taken[2];
    for (int draw = 0; draw < 2; draw++) {
        tl_ctx_set_draws(c, (tl_draws){.seed = 5, .step = draw});
        tl_rpn_labels l = tl_label_rpn_with(c, anchors, truth, &args);
        assert_ok(tl_ctx_status(c));
        taken[draw] = l.score_targets;
        // As many as there may be, each where it may be.
        for (int kind = 0; kind < 2; kind++) {
            tl_tensor *is = tl_equal(c, l.score_targets, tl_number(c, TL_I32, kind));
            tl_tensor *may = tl_equal(c, m.kind, tl_number(c, TL_I32, kind ? 1 : -1));
            tl_tensor *both = tl_logical_and(c, is, may);
            CHECK(tl_sum(c, tl_cast(c, is, TL_F32), TL_ALL, false), 0, 10);
            CHECK(tl_sum(c, tl_cast(c, both, TL_F32), TL_ALL, false), 0, 10);
        }
        tl_tensor *coded =
            tl_any(c, tl_not_equal(c, l.box_targets, tl_number(c, TL_F32, 0)), TL_AXES(-1), false);
        tl_tensor *same = tl_equal(c, coded, tl_equal(c, m.kind, tl_number(c, TL_I32, 1)));
        CHECK(tl_all(c, same, TL_ALL, false), 0, 1);
    }
    CHECK(tl_all(c, tl_equal(c, taken[0], taken[1]), TL_ALL, false), 0, 0);
}

/* --- losses ----------------------------------------------------------------------------------- */

typedef struct which {
    const char *name;
    const tl_loss_class *cls;
    const void *config;
} which;

static tl_tensor *loss_of(const which *w, tl_tensor *p)
{
    char name[96];
    snprintf(name, sizeof name, "losses/%s/y", w->name);
    tl_tensor *y = given(name), *loss;
    const golden *g = golden_peek("losses/%s/classes", w->name);
    if (w->cls) {
        tl_loss *l;
        tl_tensor *classes = g ? tl_from(c, TL_I64, g->shape, g->values) : NULL;
        if (classes && w->cls == &tl_loss_fastrcnn_box)
            y = tl_concat(c, (tl_tensor *[]){tl_expand_dims(c, tl_cast(c, classes, TL_F32), -1), y},
                          2, -1);
        if (classes && w->cls == &tl_loss_maskrcnn) {
            tl_tensor *real = tl_greater(c, classes, tl_number(c, TL_I64, 0));
            real = tl_expand_dims(c, tl_expand_dims(c, real, -1), -1);
            y = tl_where(c, real, y, tl_number(c, TL_F32, -1));
        }
        assert_ok(tl_loss_new(&l, w->cls, w->config, NULL));
        loss = tl_loss_call(l, c, y, p, NULL);
        tl_loss_free(&l);
        return loss;
    }
    if (!strcmp(w->name, "mask")) return tl_maskrcnn_loss(c, given("losses/mask/classes"), y, p);
    if (!strcmp(w->name, "retinanet_box"))
        return tl_retinanet_box_loss(
            c,
            &(tl_retinanet_loss_args){.box_targets = y,
                                      .box_weights = given("losses/retinanet_box/box_w")},
            p, 0.1);
    return tl_retinanet_class_loss(
        c,
        &(tl_retinanet_loss_args){.cls_targets = y,
                                  .cls_weights = given("losses/retinanet_class/cls_w"),
                                  .box_weights = given("losses/retinanet_class/box_w")},
        p, 0.25, 1.5);
}

static const double class_weights[] = {.5, 2, 1, 1, 3};
static const which losses[] = {
    {"rpn_score", &tl_loss_rpn_score, &(tl_rpn_score_config){.rpn_batch_size_per_im = 16}},
    {"rpn_box", &tl_loss_rpn_box, NULL},
    {"class_softmax", &tl_loss_fastrcnn_class, NULL},
    {"class_sigmoid", &tl_loss_fastrcnn_class,
     &(tl_fastrcnn_class_config){.use_binary_cross_entropy = true}},
    {"class_softmax_top", &tl_loss_fastrcnn_class,
     &(tl_fastrcnn_class_config){.top_k_percent = TL_SET(.4)}},
    {"class_sigmoid_top", &tl_loss_fastrcnn_class,
     &(tl_fastrcnn_class_config){.use_binary_cross_entropy = true,
                                 .top_k_percent = TL_SET(.3),
                                 .class_weights = {class_weights, 5}}},
    {"class_softmax_weights", &tl_loss_fastrcnn_class,
     &(tl_fastrcnn_class_config){.class_weights = {class_weights, 5}}},
    {"box", &tl_loss_fastrcnn_box, NULL},
    {"box_agnostic", &tl_loss_fastrcnn_box, NULL},
    {"mask", &tl_loss_maskrcnn, NULL},
    {"mask", NULL, NULL},
    {"retinanet_class", NULL, NULL},
    {"retinanet_box", NULL, NULL},
};

static void test_losses(void **state)
{
    (void)state;
    for (size_t i = 0; i < TL_COUNT(losses); i++) {
        char name[96];
        snprintf(name, sizeof name, "losses/%s/p", losses[i].name);
        tl_tensor *p = given(name), *gradient;
        tl_ctx_set_taping(c, true);
        assert_ok(tl_watch(p));
        tl_tensor *loss = loss_of(&losses[i], p);
        tl_ctx_set_taping(c, false);
        assert_ok(tl_ctx_status(c));
        assert_ok(tl_gradient(c, loss, &p, 1, &gradient));
        snprintf(name, sizeof name, "losses/%s/loss", losses[i].name);
        check_row(name, loss, 2e-6);
        snprintf(name, sizeof name, "losses/%s/gradient", losses[i].name);
        check_row(name, gradient, 2e-6);
    }
}

static void test_loss_numbers(void **state)
{
    (void)state;
    tl_tensor *scores = tl_add(c,
                               tl_rpn_score_loss(c, TENSOR(TL_SHAPE(1, 2, 2, 1), 1, 0, -1, 1),
                                                 TENSOR(TL_SHAPE(1, 2, 2, 1), 1, -2, .5, 0), 4),
                               tl_rpn_score_loss(c, TENSOR(TL_SHAPE(1, 1, 2, 1), 0, -1),
                                                 TENSOR(TL_SHAPE(1, 1, 2, 1), 3, -1), 4));
    CHECK(scores, 1e-6, 1.0454811);
    tl_tensor *code = TENSOR(TL_SHAPE(1, 1, 1, 8), .1, .2, .3, .4, .5, .6, .7, .8);
    tl_tensor *boxes =
        tl_rpn_box_loss(c, TENSOR(TL_SHAPE(1, 1, 1, 8), 0, 0, 0, 0, .5, .5, .5, .5), code, 1.0 / 9);
    CHECK(boxes, 1e-6, .01202241);
    tl_tensor *logits = TENSOR(TL_SHAPE(1, 2, 3), 1, 2, -1, 0, 0, 3);
    tl_tensor *classes = TENSOR(TL_SHAPE(1, 2), 1, 0);
    tl_fastrcnn_class_config how = {0};
    CHECK(tl_fastrcnn_class_loss(c, classes, logits, &how), 1e-6, 1.7219676);
    how.class_weights = (tl_doubles){class_weights, 3};
    CHECK(tl_fastrcnn_class_loss(c, classes, logits, &how), 1e-6, 1.1227429);
    how = (tl_fastrcnn_class_config){.use_binary_cross_entropy = true};
    CHECK(tl_fastrcnn_class_loss(c, classes, logits, &how), 1e-6, 1.0313889);
    how = (tl_fastrcnn_class_config){.top_k_percent = TL_SET(0.5)};
    CHECK(tl_fastrcnn_class_loss(c, classes, logits, &how), 1e-6, 3.0948920);
    tl_tensor *all = tl_reshape(c, tl_arange(c, TL_F32, 0, 2.4, .1), TL_SHAPE(1, 2, 12));
    tl_tensor *targets = TENSOR(TL_SHAPE(1, 2, 4), .5, .5, .5, .5, 9, 9, 9, 9);
    CHECK(tl_fastrcnn_box_loss(c, classes, targets, all, 1), 1e-6, .00748130);
    CHECK(tl_fastrcnn_box_loss(c, classes, targets, tl_slice(c, all, -1, 0, 4, 1), 1), 1e-6,
          .06733167);
    tl_tensor *masks = TENSOR(TL_SHAPE(1, 2, 2, 2), 1, 0, 1, 1, 0, 0, 1, 0);
    tl_tensor *pixels = TENSOR(TL_SHAPE(1, 2, 2, 2), -3, -2, -1, 0, 1, 2, 3, 4);
    CHECK(tl_maskrcnn_loss(c, classes, masks, pixels), 1e-6, 1.2922504);
    CHECK(
        tl_focal(c, TENSOR(TL_SHAPE(4), 1, 0, 0, 1), TENSOR(TL_SHAPE(4), 2, -1, .5, -3), .25, 1.5),
        1e-6, .001306, .032768, .358774, .708577);
    CHECK(tl_huber(c, tl_zeros(c, TL_F32, TL_SHAPE(1, 4)), TENSOR(TL_SHAPE(1, 4), .05, -.2, 1, 0),
                   .1),
          1e-6, .027812);
    const tl_retinanet_loss_args args = {
        .cls_targets = TENSOR(TL_SHAPE(1, 4), 2, -1, -1, 1),
        .box_targets = tl_full(c, TL_F32, TL_SHAPE(1, 4, 4), .1),
        .cls_weights = TENSOR(TL_SHAPE(1, 4), 1, 1, 0, 1),
        .box_weights = TENSOR(TL_SHAPE(1, 4), 1, 0, 0, 1),
    };
    tl_tensor *outputs = tl_reshape(c, tl_arange(c, TL_F32, -2, 1, .25), TL_SHAPE(1, 4, 3));
    CHECK(tl_retinanet_class_loss(c, &args, outputs, .25, 1.5), 1e-6, .3988035);
    outputs = tl_reshape(c, tl_arange(c, TL_F32, -.5, 1.1, .1), TL_SHAPE(1, 4, 4));
    CHECK(tl_retinanet_box_loss(c, &args, outputs, .1), 1e-6, .03666667);
}

/* --- detections ------------------------------------------------------------------------------- */

enum { LEVELS = 3 };

static const void *config_of(const tl_desc *desc, const char *name)
{
    assert_true(config_count < (int)TL_COUNT(configs));
    return golden_config(&configs[config_count++], registry, desc, row(name));
}

static void check_detections(const char *prefix, int i, const tl_detections *d)
{
    char name[96];
    assert_ok(tl_ctx_status(c));
#define NAME(what) (snprintf(name, sizeof name, "%s/%d/" what, prefix, i), name)
    check_row(NAME("detection_scores"), d->detection_scores, 1e-6);
    check_row(NAME("detection_classes"), d->detection_classes, 0);
    check_row(NAME("detection_boxes"), d->detection_boxes, 1e-5);
    check_row(NAME("num_detections"), d->num_detections, 0);
#undef NAME
}

/* What a function of graph mode is given. */
typedef struct detector {
    const tl_multilevel_generator_config *config;
    bool attributes;
    tl_tensor *found_attributes;
} detector;

static tl_detections detect(tl_ctx *own, detector *d)
{
    static const double aspects[] = {.5, 2};
    tl_tensor *boxes[LEVELS], *scores[LEVELS], *attributes[LEVELS];
    tl_anchor_grid grid;
    tl_ctx *had = c;
    c = own;
    for (int i = 0; i < LEVELS; i++) {
        char name[96];
        snprintf(name, sizeof name, "detections/boxes/%d", 3 + i);
        boxes[i] = given(name);
        const bool fine = d->config->nms.nms_version == TL_NMS_BATCHED;
        snprintf(name, sizeof name, "detections/%s/%d", fine ? "fine" : "scores", 3 + i);
        scores[i] = given(name);
        snprintf(name, sizeof name, "detections/attributes/%d", 3 + i);
        attributes[i] = given(name);
    }
    tl_detections out =
        tl_detect(c, d->config,
                  &(tl_detect_args){.boxes = boxes,
                                    .scores = scores,
                                    .levels = LEVELS,
                                    .anchors = anchors_by("detections/args", aspects, 2, &grid),
                                    .image_shape = given("detections/shape"),
                                    .attributes = attributes,
                                    .detection_attributes = &d->found_attributes,
                                    .attribute_count = d->attributes ? 1 : 0});
    c = had;
    return out;
}

static tl_status detect_step(void *self, tl_ctx *own, const tl_tensors *in, tl_tensors *out)
{
    (void)in;
    tl_detections d = detect(own, self);
    TL_TRY(tl_ctx_status(own));
    tl_tensors_put(own, out, "boxes", d.detection_boxes);
    tl_tensors_put(own, out, "scores", d.detection_scores);
    tl_tensors_put(own, out, "classes", d.detection_classes);
    tl_tensors_put(own, out, "count", d.num_detections);
    return tl_ctx_status(own);
}

static void test_detections(void **state)
{
    (void)state;
    for (int i = 0; golden_peek("detections/%d/config", i); i++) {
        char name[96];
        snprintf(name, sizeof name, "detections/%d/config", i);
        detector d = {.config = config_of(&tl_multilevel_generator_config_desc, name)};
        d.attributes = golden_peek("detections/%d/detection_attributes", i);
        tl_detections found = detect(c, &d);
        check_detections("detections", i, &found);
        snprintf(name, sizeof name, "detections/%d/detection_attributes", i);
        if (d.attributes) check_row(name, d.found_attributes, 0);
        // The same in a compiled function.
        tl_function *f;
        tl_tensors in = {0}, out = {0};
        assert_ok(tl_function_new(
            &f, &(tl_function_args){.engine = engine, .body = detect_step, .self = &d}));
        assert_ok(tl_function_call(f, c, &in, &out));
        tl_detections again = {.detection_boxes = tl_tensors_peek(&out, "boxes"),
                               .detection_scores = tl_tensors_peek(&out, "scores"),
                               .detection_classes = tl_tensors_peek(&out, "classes"),
                               .num_detections = tl_tensors_peek(&out, "count")};
        check_detections("detections", i, &again);
        tl_function_free(&f);
    }
    const void *config;
    assert_ok(config_from(&config, &tl_multilevel_generator_config_desc, "{apply_nms: false}"));
    detector d = {.config = config};
    tl_detections all = detect(c, &d);
    check_row("detections/decoded_boxes", all.decoded_boxes, 1e-5);
    check_row("detections/decoded_box_scores", all.decoded_box_scores, 1e-6);
    assert_null(all.detection_boxes);
}

static void test_region_detections(void **state)
{
    (void)state;
    for (int i = 0; golden_peek("regions/%d/config", i); i++) {
        char name[96];
        double weights[4];
        snprintf(name, sizeof name, "regions/%d/weights", i);
        for (int k = 0; k < 4; k++) weights[k] = golden_number(row(name), k);
        snprintf(name, sizeof name, "regions/%d/per_class", i);
        const bool each = golden_number(row(name), 0) != 0;
        snprintf(name, sizeof name, "regions/%d/config", i);
        const tl_detection_generator_config *config =
            config_of(&tl_detection_generator_config_desc, name);
        tl_detections found = tl_detect_regions(
            c, config,
            &(tl_detect_regions_args){.boxes = given(each ? "regions/each" : "regions/one"),
                                      .scores = given("regions/scores"),
                                      .regions = given("regions/rois"),
                                      .image_shape = given("regions/shape"),
                                      .weights = weights});
        check_detections("regions", i, &found);
    }
}

static void test_proposals(void **state)
{
    (void)state;
    static const double aspects[] = {.5, 1, 2};
    tl_tensor *boxes[LEVELS], *scores[LEVELS];
    tl_anchor_grid grid;
    for (int i = 0; i < LEVELS; i++) {
        char name[96];
        snprintf(name, sizeof name, "proposals/boxes/%d", 3 + i);
        boxes[i] = given(name);
        snprintf(name, sizeof name, "proposals/scores/%d", 3 + i);
        scores[i] = given(name);
    }
    for (int i = 0; golden_peek("proposals/%d/given", i); i++) {
        char name[96];
        const golden *g = golden_peek("proposals/%d/given", i);
        tl_proposals p = tl_propose_regions(
            c, &(tl_propose_args){.boxes = boxes,
                                  .scores = scores,
                                  .levels = LEVELS,
                                  .anchors = anchors_by("proposals/args", aspects, 3, &grid),
                                  .image_shape = given("proposals/shape"),
                                  .pre_nms_top_k = (int64_t)golden_number(g, 0),
                                  .pre_nms_score_threshold = golden_number(g, 1),
                                  .pre_nms_min_size_threshold = golden_number(g, 2),
                                  .nms_iou_threshold = golden_number(g, 3),
                                  .num_proposals = (int64_t)golden_number(g, 4),
                                  .use_batched_nms = golden_number(g, 5) != 0});
        assert_ok(tl_ctx_status(c));
        snprintf(name, sizeof name, "proposals/%d/scores", i);
        check_row(name, p.scores, 1e-6);
        snprintf(name, sizeof name, "proposals/%d/regions", i);
        check_row(name, p.regions, 1e-5);
    }
}

static double sum_of(tl_tensor *truths)
{
    double sum;
    tl_tensor *all = tl_sum(c, tl_cast(c, truths, TL_F32), TL_ALL, false);
    assert_ok(tl_ctx_status(c));
    assert_ok(tl_tensor_item(all, &sum));
    return sum;
}

static void test_samples(void **state)
{
    (void)state;
    tl_tensor *regions = given("samples/regions"), *truth = given("samples/truth");
    tl_sample_regions_args args = {.classes = given("samples/classes"),
                                   .num_sampled_rois = 16,
                                   .foreground_fraction = 0.25,
                                   .foreground_iou_threshold = 0.5,
                                   .background_iou_high_threshold = 0.5,
                                   .skip_subsampling = true};
    tl_sampled_regions all = tl_sample_regions(c, regions, truth, &args);
    check_row("samples/all_regions", all.regions, 0);
    check_row("samples/boxes", all.boxes, 0);
    check_row("samples/all_classes", all.classes, 0);
    check_row("samples/indices", all.indices, 0);
    args.skip_subsampling = false;
    tl_tensor *taken[2];
    for (int draw = 0; draw < 2; draw++) {
        tl_ctx_set_draws(c, (tl_draws){.seed = 5, .step = draw});
        tl_sampled_regions s = tl_sample_regions(c, regions, truth, &args);
        assert_ok(tl_ctx_status(c));
        assert_int_equal(s.regions->shape.dims[1], 16);
        taken[draw] = s.regions;
        // A quarter of each image is something, and what is told of it is true.
        tl_tensor *real = tl_greater(c, s.classes, tl_number(c, TL_I32, 0));
        assert_true(sum_of(real) == 8);
        assert_true(sum_of(tl_greater_equal(c, s.indices, tl_number(c, TL_I32, 0))) == 8);
        tl_tensor *found = tl_box_overlap(c, s.regions, truth, TL_OVERLAP_IOU);
        tl_tensor *place = tl_expand_dims(c, tl_maximum(c, s.indices, tl_number(c, TL_I32, 0)), -1);
        tl_tensor *own = tl_squeeze(c, tl_take_along_axis(c, found, place, 2), TL_AXES(2));
        tl_tensor *enough = tl_greater_equal(c, own, tl_number(c, TL_F32, 0.4999));
        assert_true(sum_of(tl_logical_and(c, real, enough)) == 8);
        static const double weights[] = {10, 10, 5, 5};
        tl_tensor *back = tl_box_decode(c, s.box_targets, s.regions, weights);
        tl_tensor *off = tl_abs(c, tl_sub(c, back, s.boxes));
        off = tl_logical_and(c, tl_expand_dims(c, real, -1),
                             tl_greater(c, off, tl_number(c, TL_F32, 1e-3)));
        assert_true(sum_of(off) == 0);
    }
    assert_true(sum_of(tl_not_equal(c, taken[0], taken[1])) > 0);
    // More than there are: all of them, in order.
    args.num_sampled_rois = 500;
    tl_sampled_regions every = tl_sample_regions(c, regions, truth, &args);
    assert_ok(tl_ctx_status(c));
    assert_int_equal(every.regions->shape.dims[1], 86);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const tl_desc *desc;
        const char *yaml, *message;
    } wrong[] = {
        {&tl_multilevel_generator_config_desc, "{nms_version: tflite}", "Tilth does not write"},
        {&tl_multilevel_generator_config_desc, "{nms_version: v1, use_class_agnostic_nms: true}",
         "v2 alone"},
        {&tl_multilevel_generator_config_desc, "{soft_nms_sigma: 0.5}", "v1 alone"},
        {&tl_multilevel_generator_config_desc, "{nms_version: v1, soft_nms_sigma: 0}", "above 0"},
        {&tl_multilevel_generator_config_desc, "{nms_version: v3, return_decoded: true}",
         "before all boxes are there"},
        {&tl_multilevel_generator_config_desc, "{box_coder_weights: [1, 2]}", "it needs 4"},
        {&tl_multilevel_generator_config_desc, "{tflite_post_processing: {y_scale: 2}}", "y_scale"},
        {&tl_detection_generator_config_desc, "{nms_version: v3}", "v3 is for anchors"},
    };
    for (size_t i = 0; i < TL_COUNT(wrong); i++) {
        const void *config;
        const tl_status status = strstr(wrong[i].yaml, "post") ? TL_EUNSUPPORTED : TL_EINVAL;
        assert_fails(config_from(&config, wrong[i].desc, wrong[i].yaml), status, wrong[i].message);
    }
    const void *config;
    assert_ok(config_from(&config, &tl_multilevel_generator_config_desc, "{}"));
    detector d = {.config = config, .attributes = true};
    assert_null(detect(c, &d).detection_boxes);
    assert_fails(tl_ctx_status(c), TL_EINVAL, "attributes need nms_version v1");
}

/* --- crops ------------------------------------------------------------------------------------ */

static void test_crops(void **state)
{
    (void)state;
    tl_tensor *maps[] = {given("crops/2"), given("crops/3"), given("crops/4")}, *gradients[3];
    tl_ctx_set_taping(c, true);
    for (int i = 0; i < 3; i++) assert_ok(tl_watch(maps[i]));
    tl_tensor *crops =
        tl_crop_levels(c, given("crops/boxes"), maps, 3, .first_level = 2, .size = 4);
    tl_tensor *total = tl_sum(c, tl_mul(c, crops, given("crops/weights")), TL_ALL, false);
    tl_ctx_set_taping(c, false);
    check_row("crops/crops", crops, 2e-6);
    assert_ok(tl_gradient(c, total, maps, 3, gradients));
    check_row("crops/gradient/2", gradients[0], 5e-6);
    check_row("crops/gradient/3", gradients[1], 5e-6);
    check_row("crops/gradient/4", gradients[2], 5e-6);
    check_row("masks/targets",
              tl_crop_masks(c, given("masks/masks"), given("masks/truth"), given("masks/regions"),
                            7, 0.5),
              1e-5);
}

static void test_crop_numbers(void **state)
{
    (void)state;
    tl_tensor *maps[] = {
        tl_reshape(c, tl_arange(c, TL_F32, 0, 64, 1), TL_SHAPE(1, 8, 8, 1)),
        tl_reshape(c, tl_arange(c, TL_F32, 0, 160, 10), TL_SHAPE(1, 4, 4, 1)),
        tl_reshape(c, tl_arange(c, TL_F32, 0, 16, 1), TL_SHAPE(1, 4, 4, 1)),
    };
    tl_tensor *boxes =
        TENSOR(TL_SHAPE(1, 4, 4), 0, 0, 16, 16, 4, 6, 20, 30, 0, 0, 0, 0, 24, 24, 32, 32);
    CHECK(tl_crop_levels(c, boxes, maps, 2, .first_level = 2, .size = 2), 1e-6, 9, 11, 25, 27, 19,
          22, 35, 38, 0, 0, 0, 0, 58.5, 59, 62.5, 63);
    boxes = TENSOR(TL_SHAPE(1, 2, 4), -8, -8, 8, 8, 20, 20, 40, 40);
    CHECK(tl_crop_levels(c, boxes, maps + 2, 1, .first_level = 3, .size = 2), 1e-6, -2.5, -1.5, 1.5,
          2.5, 15, 15, 15, 15);
    // Sides of 55.9, 56, 111.9, 112, 224 and 448 on maps that show their level.
    tl_tensor *levels[6];
    for (int i = 0; i < 6; i++)
        levels[i] = tl_full(c, TL_F32, TL_SHAPE(1, 64 >> i, 64 >> i, 1), i + 1);
    tl_tensor *ends = TENSOR(TL_SHAPE(1, 6, 1), 55.9, 56, 111.9, 112, 224, 448);
    tl_tensor *start = tl_zeros(c, TL_F32, TL_SHAPE(1, 6, 2));
    tl_tensor *squares = tl_concat(c, (tl_tensor *[]){start, ends, ends}, 3, -1);
    CHECK(tl_crop_levels(c, squares, levels, 6, .first_level = 1, .size = 1), 1e-6, 1, 2, 2, 3, 4,
          5);
    tl_tensor *mask = TENSOR(TL_SHAPE(1, 1, 4, 4), 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1);
    CHECK(tl_crop_masks(c, mask, TENSOR(TL_SHAPE(1, 1, 4), 0, 0, 8, 8),
                        TENSOR(TL_SHAPE(1, 1, 4), 2, 2, 10, 6), 4, 0.5),
          1e-6, .5, .5, .375, .125, .375, .125, .125, .375, 0, 0, .125, .375, 0, 0, 0, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, drop)
    static const struct CMUnitTest tests[] = {
        TEST(test_anchors),
        TEST(test_anchor_maps),
        TEST(test_boxes),
        TEST(test_matcher),
        TEST(test_region_matches),
        TEST(test_labels),
        TEST(test_rpn_labels),
        TEST(test_losses),
        TEST(test_loss_numbers),
        TEST(test_detections),
        TEST(test_region_detections),
        TEST(test_refused),
        TEST(test_samples),
        TEST(test_proposals),
        TEST(test_crops),
        TEST(test_crop_numbers),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
