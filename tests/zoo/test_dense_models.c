/* Models that say something of each place of an image: RetinaNet and segmentation. Numbers of the
 * losses and of intersection over union are those of Model Garden, run on the same inputs. */
#include "zoo/zoo_lab.h"

#include <tilth/nn/segmentation_loss.h>
#include <tilth/ops/create.h>
#include <tilth/zoo/retinanet.h>
#include <tilth/zoo/segmentation.h>

#include "zoo/vision/pixel_counts.h"

/* --- the loss of pixels ----------------------------------------------------------------------- */

static tl_engine *engine;
static tl_ctx *ctx;

static int open_ctx(void **state)
{
    if (lab_open(state) || test_engine_new(&engine, NULL, 1) != TL_OK) return -1;
    return tl_ctx_new(&ctx, engine) == TL_OK ? 0 : -1;
}

static int close_ctx(void **state)
{
    tl_ctx_free(&ctx);
    tl_engine_free(&engine);
    return lab_close(state);
}

#define CTX_TEST(f) cmocka_unit_test_setup_teardown(f, open_ctx, close_ctx)

static double number_of(tl_tensor *t)
{
    double value = NAN;
    if (t) assert_ok(tl_tensor_get_doubles(t, &value, 1));
    else fail_msg("%s", tl_error_message());
    return value;
}

/* [1, 2, 4, 3]: a tenth of the place, turned and halved by channel. */
static tl_tensor *made_logits(void)
{
    static const double factor[3] = {1, -1, 0.5};
    double values[24];
    for (int i = 0; i < 24; i++) values[i] = 0.1 * i * factor[i % 3];
    return tl_from_doubles(ctx, TL_F32, TL_SHAPE(1, 2, 4, 3), values);
}

static tl_tensor *made_masks(void)
{
    static const double labels[8] = {0, 1, 2, 255, 1, 1, 0, 2};
    return tl_from_doubles(ctx, TL_F32, TL_SHAPE(1, 2, 4, 1), labels);
}

static tl_segmentation_loss_config plain_loss(void)
{
    return (tl_segmentation_loss_config){
        .ignore_label = 255, .use_groundtruth_dimension = true, .top_k_percent_pixels = 1};
}

static void check_loss(const tl_segmentation_loss_config *how, double wanted)
{
    assert_near(number_of(tl_segmentation_loss(ctx, made_masks(), made_logits(), how)), wanted,
                2e-6);
}

static void test_losses_of_pixels(void **state)
{
    static const double weights[3] = {0.5, 2, 1};
    (void)state;
    tl_segmentation_loss_config k = plain_loss();
    check_loss(&k, 1.6975329);
    k.label_smoothing = 0.1;
    check_loss(&k, 1.6803901);
    k = plain_loss();
    k.class_weights = (tl_doubles){weights, 3};
    check_loss(&k, 2.7580099);
    k = plain_loss();
    k.top_k_percent_pixels = 0.25;
    check_loss(&k, 3.2865498);
    k = plain_loss();
    k.use_binary_cross_entropy = true;
    check_loss(&k, 0.9347094);
    k.top_k_percent_pixels = 0.5;
    check_loss(&k, 1.3298519);
}

static void test_losses_at_two_sizes(void **state)
{
    (void)state;
    tl_segmentation_loss_config k = plain_loss();
    tl_tensor *logits = tl_from_doubles(ctx, TL_F32, TL_SHAPE(1, 1, 1, 3), (double[]){1, 0, -1});
    tl_tensor *masks = tl_from_doubles(ctx, TL_F32, TL_SHAPE(1, 2, 2, 1), (double[]){0, 1, 1, 2});
    assert_near(number_of(tl_segmentation_loss(ctx, masks, logits, &k)), 1.4076023, 2e-6);
    k.use_groundtruth_dimension = false;
    assert_near(number_of(tl_segmentation_loss(ctx, masks, logits, &k)), 2.4075818, 2e-6);
}

static void test_the_loss_of_shares(void **state)
{
    static const double weights[2] = {1, 3};
    (void)state;
    tl_segmentation_loss_config k = plain_loss();
    k.gt_is_matting_map = true;
    k.class_weights = (tl_doubles){weights, 2};
    tl_tensor *logits =
        tl_from_doubles(ctx, TL_F32, TL_SHAPE(1, 1, 2, 2), (double[]){1, -1, 0.2, 0.4});
    tl_tensor *masks = tl_from_doubles(ctx, TL_F32, TL_SHAPE(1, 1, 2, 1), (double[]){0.25, 0.75});
    assert_near(number_of(tl_segmentation_loss(ctx, masks, logits, &k)), 1.2856660, 2e-6);
}

static void refuse_loss(tl_tensor *masks, const tl_segmentation_loss_config *how, const char *text)
{
    tl_tensor *loss = tl_segmentation_loss(ctx, masks, made_logits(), how);
    double value;
    if (loss && tl_ctx_status(ctx) == TL_OK && tl_tensor_get_doubles(loss, &value, 1) == TL_OK)
        fail_msg("no failure: %s", text);
    if (!strstr(tl_error_message(), text)) fail_msg("'%s' lacks '%s'", tl_error_message(), text);
    tl_ctx_free(&ctx);
    assert_ok(tl_ctx_new(&ctx, engine));
}

static void test_losses_that_cannot_be(void **state)
{
    static const double weights[2] = {1, 1};
    (void)state;
    tl_segmentation_loss_config k = plain_loss();
    k.class_weights = (tl_doubles){weights, 2};
    refuse_loss(made_masks(), &k, "class_weights has 2 numbers; there are 3 classes");
    k = plain_loss();
    k.gt_is_matting_map = true;
    refuse_loss(made_masks(), &k, "shares of two classes, and there are 3");
    k = plain_loss();
    refuse_loss(tl_zeros(ctx, TL_F32, TL_SHAPE(1, 2, 4, 2)), &k, "[batch, height, width, 1]");
    refuse_loss(tl_full(ctx, TL_F32, TL_SHAPE(1, 2, 4, 1), 7), &k, "7");
}

/* --- intersection over union ------------------------------------------------------------------ */

/* Logits that say these classes. */
static tl_tensor *saying(const int *classes, int rows, int columns, int count)
{
    double values[256] = {0};
    for (int i = 0; i < rows * columns; i++) values[i * count + classes[i]] = 1;
    return tl_from_doubles(ctx, TL_F32, TL_SHAPE(1, rows, columns, count), values);
}

static tl_tensor *info(double height, double width, double desired_height, double desired_width,
                       double scale)
{
    return tl_from_doubles(
        ctx, TL_F32, TL_SHAPE(1, 4, 2),
        (double[]){height, width, desired_height, desired_width, scale, scale, 0, 0});
}

static void test_intersection_over_union(void **state)
{
    static const int said[8] = {0, 1, 2, 1, 1, 1, 0, 0};
    static const double labels[8] = {0, 1, 2, 255, 1, 0, 0, 1}, wanted[4] = {0.5, 0.5, 1, 0};
    (void)state;
    tli_pixel_counts *n;
    double iou[4];
    assert_ok(tli_pixel_counts_new(&n, 4));
    assert_ok(tli_pixel_counts_add(
        n, &(tli_pixel_batch){.logits = saying(said, 2, 4, 4),
                              .masks = tl_from_doubles(ctx, TL_F32, TL_SHAPE(1, 2, 4, 1), labels),
                              .image_info = info(2, 4, 2, 4, 1),
                              .ignore_label = 255}));
    tli_pixel_counts_iou(n, iou);
    for (int i = 0; i < 4; i++) assert_near(iou[i], wanted[i], 1e-12);
    tli_pixel_counts_reset(n);
    tli_pixel_counts_iou(n, iou);
    for (int i = 0; i < 4; i++) assert_true(iou[i] == 0);
    tli_pixel_counts_free(&n);
}

/* Channel 0 of 2 x 3 logits is 2i - 5, the other 0: it is the larger one where the enlarged map is
 * above 0. What Model Garden makes of it: rows -5 -4.5 -3.5 -2.5 -1.5 -1 | -3.5 -3 -2 -1 0 .5 |
 * ... | 1 1.5 2.5 3.5 4.5 5. */
static void test_pictures_as_they_were(void **state)
{
    (void)state;
    tli_pixel_counts *n;
    double values[12], masks[35], iou[2];
    for (int i = 0; i < 6; i++) {
        values[2 * i] = 2 * i - 5;
        values[2 * i + 1] = 0;
    }
    for (int i = 0; i < 35; i++) masks[i] = 0; // 5 x 7, of which 4 x 6 are the picture
    assert_ok(tli_pixel_counts_new(&n, 2));
    assert_ok(tli_pixel_counts_add(
        n, &(tli_pixel_batch){.logits = tl_from_doubles(ctx, TL_F32, TL_SHAPE(1, 2, 3, 2), values),
                              .masks = tl_from_doubles(ctx, TL_F32, TL_SHAPE(1, 5, 7, 1), masks),
                              .image_info = info(4, 6, 2, 3, 0.5),
                              .ignore_label = 255,
                              .rescale = true}));
    tli_pixel_counts_iou(n, iou);
    // row 0: none; row 1: one above 0 and one equal, which is the first; row 2 (-.5 0 1 2 3 3.5): 5
    // of 6; row 3: all
    assert_near(iou[0], (2 + 5 + 6) / 24.0, 1e-12);
    tli_pixel_counts_free(&n);
}

static void test_classes_that_cannot_be(void **state)
{
    static const int said[2] = {0, 1};
    (void)state;
    tli_pixel_counts *n;
    assert_ok(tli_pixel_counts_new(&n, 2));
    const double strange[][2] = {{0, 3}, {0, -1}, {0, NAN}, {0, 1e30}};
    for (int i = 0; i < TL_COUNT(strange); i++) {
        tl_status st = tli_pixel_counts_add(
            n, &(tli_pixel_batch){
                   .logits = saying(said, 1, 2, 2),
                   .masks = tl_from_doubles(ctx, TL_F32, TL_SHAPE(1, 1, 2, 1), strange[i]),
                   .image_info = info(1, 2, 1, 2, 1),
                   .ignore_label = 255});
        assert_int_equal(st, TL_EINVAL);
        assert_non_null(strstr(tl_error_message(), "a mask has the class"));
    }
    tli_pixel_counts_free(&n);
    assert_int_equal(tli_pixel_counts_new(&n, 1 << 20), TL_EINVAL);
}

/* --- models ----------------------------------------------------------------------------------- */

static int64_t count_below(tl_model *m, const char *part, bool trained)
{
    int64_t count = 0;
    for (int64_t i = 0; i < tl_model_param_count(m); i++) {
        const tl_param *p = tl_model_param(m, i);
        if (strncmp(p->path, part, strlen(part)) != 0 || (trained && p->state)) continue;
        count += tl_tensor_count(p->tensor);
    }
    return count;
}

/* Those of Model Garden's default configurations, of trained ones. */
static void check_counts(const char *experiment, const char *yaml, int64_t decoder, int64_t head,
                         int64_t all)
{
    lab_run r;
    tl_model *m;
    lab_begin(&r, experiment, yaml);
    assert_ok(tl_task_build_model(r.task, &m));
    assert_int_equal(count_below(m, "decoder/", true), decoder);
    assert_int_equal(count_below(m, "head/", true), head);
    assert_int_equal(count_below(m, "", true), all);
    tl_model_free(&m);
    lab_end(&r);
}

static void test_counts_of_parameters(void **state)
{
    (void)state;
    check_counts("retinanet_resnetfpn_coco",
                 "task: {init_checkpoint: '', model: {input_size: [128, 128, 3]},"
                 " train_data: {global_batch_size: 1}}",
                 3871232, 6711895, 34091159);
    check_counts("mnv2_deeplabv3_pascal", "task: {train_data: {global_batch_size: 1}}",
                 2525717 - 5397 - 2223872, 5397, 2525717);
    check_counts("mnv2_deeplabv3plus_cityscapes", "task: {train_data: {global_batch_size: 1}}",
                 296448, 2682755 - 296448 - 2223872, 2682755);
}

/* What parsing, or the model, or its data refuse. */
static tl_status try_model(const char *experiment, const char *yaml)
{
    lab_run r;
    tl_config *c = NULL;
    tl_model *m = NULL;
    tl_dataset *data = NULL;
    TL_TRY(lab_parse(&c, experiment, yaml));
    tl_config_free(&c);
    lab_begin(&r, experiment, yaml);
    tl_status st = tl_task_build_model(r.task, &m);
    if (st == TL_OK)
        st = tl_task_build_inputs(r.task, r.task->config->train_data,
                                  &(tl_input_context){.pipelines = 1, .replicas = 1}, &data);
    tl_dataset_free(&data);
    tl_model_free(&m);
    lab_end(&r);
    return st;
}

static void refuse_model(const char *experiment, const char *yaml, const char *text)
{
    if (try_model(experiment, yaml) == TL_OK) fail_msg("%s: no failure", yaml);
    if (!strstr(tl_error_message(), text))
        fail_msg("%s: '%s' lacks '%s'", yaml, tl_error_message(), text);
}

static void test_models_that_cannot_be(void **state)
{
    (void)state;
#define DETECTOR(yaml, text) refuse_model("detection/local", "task: {model: " yaml "}", text)
    DETECTOR("{backbone: {type: cnn}}", "'cnn' has no levels to stand on");
    DETECTOR("{backbone: {type: vit}}", "that of vit needs output_2d_feature_maps");
    DETECTOR("{min_level: 1}", "min_level is 1, and the backbone has levels 2 to 5");
    DETECTOR("{min_level: 5, max_level: 3}", "levels rise");
    DETECTOR("{decoder: {type: nasfpn}}", "nasfpn is of levels 3 to 7");
    DETECTOR("{decoder: {type: aspp, aspp: {level: 6}}}", "aspp.level is 6");
    DETECTOR("{decoder: {type: identity}, max_level: 5}", "and one head looks at all: choose fpn");
    DETECTOR("{decoder: {type: identity}, min_level: 5, max_level: 6}", "gives no level 6");
    DETECTOR("{num_classes: 1}", "one for the background");
    DETECTOR("{input_size: [96, 96]}", "[height, width, channels]");
    DETECTOR("{input_size: [96, 96, 1]}", "the third number is 3");
    DETECTOR("{head: {attribute_heads: [{name: a}, {name: a}]}}", "another one is called 'a'");
    DETECTOR("{head: {attribute_heads: [{name: a/b}]}}", "without '/'");
    DETECTOR("{head: {share_classification_heads: true,"
             " attribute_heads: [{name: a, prediction_tower_name: t}]}}",
             "exclude each other");
    refuse_model("detection/local", "task: {init_checkpoint_modules: head}", "found the string");
    refuse_model("segmentation/local", "task: {losses: {class_weights: [1, 2]}}",
                 "losses.class_weights: there are 2 numbers for 6 classes");
    refuse_model("segmentation/local", "task: {losses: {gt_is_matting_map: true}}",
                 "losses.gt_is_matting_map: masks are shares of two classes");
    refuse_model("detection/local", "task: {init_checkpoint_modules: [backbone, 3]}",
                 "all, backbone, decoder");
    refuse_model("detection/local", "task: {use_wod_metrics: true}", "use_wod_metrics");
    refuse_model("detection/local",
                 "task: {model: {input_size: [90, 96, 3]}, train_data: {parser: {pad: false}}}",
                 "multiples of 2^max_level, such as [96, 96, 3]");
    refuse_model("segmentation/local",
                 "task: {model: {head: {feature_fusion: panoptic_fpn_fusion}}}",
                 "panoptic_fpn_fusion is not there yet");
    refuse_model("segmentation/local", "task: {model: {mask_scoring_head: {}}}",
                 "mask_scoring_head");
    refuse_model("segmentation/local", "task: {model: {input_size: [96, 96]}}", "found 2 numbers");
}

/* --- training --------------------------------------------------------------------------------- */

#define FEW                                                                                        \
    "  train_data: {synthetic_examples: 8, global_batch_size: 4}\n"                                \
    "  validation_data: {synthetic_examples: 6, global_batch_size: 4}\n"                           \
    "trainer: {train_steps: 4, steps_per_loop: 2, validation_interval: 4}\n"

static void train_a_little(lab_run *r, const char *experiment, const char *yaml)
{
    lab_train(r, experiment, yaml);
    assert_ok(tl_trainer_train(r->trainer, 4, r->logs));
    assert_true(isfinite(tl_logs_number_or(r->logs, "training_loss", NAN)));
    tl_logs_clear(r->logs);
    assert_ok(tl_trainer_evaluate(r->trainer, -1, r->logs));
    assert_true(isfinite(tl_logs_number_or(r->logs, "validation_loss", NAN)));
}

static void test_a_detector_learns(void **state)
{
    (void)state;
    lab_run r;
    train_a_little(&r, "detection/local", "task:\n" FEW);
    assert_true(tl_logs_number_or(r.logs, "AP", -2) >= -1);
    assert_true(tl_logs_number_or(r.logs, "box_loss", -1) > 0);
    lab_end(&r);
}

/* The last batch is short: its pictures count once, and no others. */
static void test_short_batches_are_whole(void **state)
{
    (void)state;
    double losses[2], ap[2];
    for (int i = 0; i < 2; i++) {
        lab_run r;
        lab_train(&r, "detection/local",
                  i ? "task: {validation_data: {synthetic_examples: 6, global_batch_size: 4}}"
                    : "task: {validation_data: {synthetic_examples: 6, global_batch_size: 6}}");
        assert_ok(tl_trainer_evaluate(r.trainer, -1, r.logs));
        losses[i] = tl_logs_number_or(r.logs, "validation_loss", NAN);
        ap[i] = tl_logs_number_or(r.logs, "AR100", NAN);
        ap[i] = tl_logs_number_or(r.logs, "AP", NAN);
        lab_end(&r);
    }
    assert_true(isfinite(losses[0]) && isfinite(losses[1]));
    assert_near(ap[0], ap[1], 1e-6);
}

static void test_a_detector_tells_categories(void **state)
{
    (void)state;
    lab_run r;
    train_a_little(&r, "detection/local",
                   "task:\n"
                   "  per_category_metrics: true\n"
                   "  model: {decoder: {type: identity}, head: {share_level_convs: false,"
                   " use_separable_conv: true, num_convs: 1}}\n" FEW);
    assert_true(tl_logs_number_or(r.logs, "AP", -2) >= -1);
    assert_true(tl_logs_number_or(r.logs, "Precision mAP ByCategory/5", -2) >= -1);
    lab_end(&r);
}

static void test_a_segmenter_learns(void **state)
{
    (void)state;
    lab_run r;
    train_a_little(&r, "segmentation/local", "task:\n" FEW);
    assert_true(tl_logs_number_or(r.logs, "mean_iou", -1) > 0);
    assert_true(tl_logs_number_or(r.logs, "iou/background", -1) > 0);
    lab_end(&r);
    train_a_little(&r, "segmentation/local",
                   "task:\n"
                   "  model:\n"
                   "    backbone: {type: mobilenet, mobilenet: {model_id: MobileNetV2,\n"
                   "               filter_size_scale: 0.25, output_stride: 16}}\n"
                   "    decoder: {type: aspp, aspp: {level: 4, dilation_rates: [2],"
                   " num_filters: 8}}\n"
                   "    head: {level: 4, feature_fusion: deeplabv3plus, num_filters: 8,\n"
                   "           use_depthwise_convolution: true}\n" FEW);
    assert_true(tl_logs_number_or(r.logs, "mean_iou", -1) >= 0);
    lab_end(&r);
}

/* --- names in Model Garden -------------------------------------------------------------------- */

/* The order in which Keras counts the layers of a pyramid, as the original gives it. */
static void check_pyramid(tl_levels model, tl_levels backbone, const char *wanted)
{
    tl_fpn_config k = {.num_filters = 8};
    const tl_decoder_parts parts = {.model = model, .backbone = backbone};
    tl_original_names names;
    tl_str text = TL_STR_INIT;
    assert_ok(tl_original_names_init(&names));
    assert_ok(tl_decoder_fpn.original_names(&k, &parts, &names));
    for (int64_t i = 0; i < names.layers.count; i++) {
        char theirs[64];
        snprintf(theirs, sizeof theirs, "decoder/layer_with_weights-%lld", (long long)i);
        assert_string_equal(names.layers.items[i].theirs, theirs);
        tl_str_addf(&text, "%s%s", i ? " " : "", names.layers.items[i].ours + strlen("decoder/"));
    }
    assert_string_equal(tl_str_text(&text), wanted);
    tl_str_deinit(&text);
    tl_original_names_deinit(&names);
}

static void test_names_of_pyramids(void **state)
{
    (void)state;
    check_pyramid((tl_levels){3, 7}, (tl_levels){2, 5},
                  "lateral_5 lateral_4 post_hoc_5 lateral_3 coarser_6 post_hoc_3 post_hoc_4 "
                  "coarser_7 norm_3 norm_4 norm_5 norm_6 norm_7");
    check_pyramid((tl_levels){2, 6}, (tl_levels){2, 5},
                  "lateral_5 lateral_4 lateral_3 lateral_2 post_hoc_5 post_hoc_2 post_hoc_3 "
                  "post_hoc_4 coarser_6 norm_2 norm_3 norm_4 norm_5 norm_6");
    check_pyramid((tl_levels){3, 6}, (tl_levels){2, 5},
                  "lateral_5 lateral_4 lateral_3 post_hoc_5 post_hoc_3 post_hoc_4 coarser_6 norm_3 "
                  "norm_4 norm_5 norm_6");
    check_pyramid((tl_levels){2, 5}, (tl_levels){2, 5},
                  "lateral_5 lateral_4 lateral_3 lateral_2 post_hoc_2 post_hoc_3 post_hoc_4 "
                  "post_hoc_5 norm_2 norm_3 norm_4 norm_5");
    check_pyramid((tl_levels){2, 7}, (tl_levels){2, 5},
                  "lateral_5 lateral_4 lateral_3 post_hoc_5 lateral_2 coarser_6 post_hoc_2 "
                  "post_hoc_3 post_hoc_4 coarser_7 norm_2 norm_3 norm_4 norm_5 norm_6 norm_7");
    check_pyramid((tl_levels){4, 8}, (tl_levels){2, 5},
                  "lateral_5 post_hoc_5 coarser_6 lateral_4 coarser_7 post_hoc_4 coarser_8 norm_4 "
                  "norm_5 norm_6 norm_7 norm_8");
    check_pyramid((tl_levels){5, 7}, (tl_levels){2, 5},
                  "lateral_5 post_hoc_5 coarser_6 coarser_7 norm_5 norm_6 norm_7");
    check_pyramid((tl_levels){3, 4}, (tl_levels){2, 5},
                  "lateral_4 lateral_3 post_hoc_3 post_hoc_4 norm_3 norm_4");
    check_pyramid((tl_levels){3, 7}, (tl_levels){2, 4},
                  "lateral_4 post_hoc_4 coarser_5 lateral_3 coarser_6 post_hoc_3 coarser_7 norm_3 "
                  "norm_4 norm_5 norm_6 norm_7");
}

/* The layers of the decoder as Model Garden counts them, by when they are made: "c1 n1 c0 n0". */
static void tell_counted(tl_str *out, tl_task *t)
{
    tl_original_names names;
    const char *units[64];
    int64_t count = 0, found = 0;
    assert_ok(tl_original_names_init(&names));
    assert_ok(tl_task_original_names(t, &names));
    // Projections of levels come before nodes of cells, and both by their numbers.
    for (int pass = 0; pass < 2; pass++)
        for (int a = 1; a <= 8; a++)
            for (int b = 1; b <= (pass ? 7 : 1); b++) {
                char path[64];
                if (pass) snprintf(path, sizeof path, "decoder/cell_%d_node_%d/conv", a, b);
                else snprintf(path, sizeof path, "decoder/project_%d/conv", a);
                for (int64_t i = 0; i < names.layers.count; i++)
                    if (!strcmp(names.layers.items[i].ours, path))
                        units[count++] = tl_arena_strdup(lab_arena, path);
            }
    for (int64_t i = 0; i < names.layers.count; i++) {
        const tl_original_name *n = &names.layers.items[i];
        char theirs[64];
        if (strncmp(n->theirs, "decoder/", strlen("decoder/")) != 0) continue;
        snprintf(theirs, sizeof theirs, "decoder/layer_with_weights-%d", (int)found);
        assert_string_equal(n->theirs, theirs);
        const size_t length = strlen(n->ours) - strlen("conv");
        for (int64_t k = 0; k < count; k++)
            if (!strncmp(units[k], n->ours, length) && strlen(units[k]) == length + 4)
                tl_str_addf(out, "%s%c%lld", found ? " " : "", n->ours[length], (long long)k);
        found++;
    }
    assert_int_equal(found, 2 * count);
    tl_original_names_deinit(&names);
}

/* tests/golden/nasfpn_names.py has asked Model Garden. */
static void test_names_of_found_pyramids(void **state)
{
    (void)state;
    char *text, *rest = NULL;
    int64_t compared = 0;
    assert_ok(tl_file_read(&text, NULL, TEST_DATA "/golden/nasfpn_names.txt", 1 << 20));
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        lab_run r;
        tl_str found = TL_STR_INIT;
        char *order = strchr(line, '\t');
        *order++ = '\0';
        lab_begin(&r, "retinanet", tl_arena_printf(lab_arena, "task: {model: %s}", line));
        tell_counted(&found, r.task);
        if (strcmp(tl_str_text(&found), order) != 0)
            fail_msg("%s\n    gives %s\n    not   %s", line, tl_str_text(&found), order);
        tl_str_deinit(&found);
        lab_end(&r);
        compared++;
    }
    assert_int_equal(compared, 6);
    tl_free(text);
}

static void test_pyramids_without_names(void **state)
{
    (void)state;
    lab_run r;
    tl_original_names names;
    assert_ok(tl_original_names_init(&names));
    lab_begin(&r, "retinanet",
              "task: {model: {num_classes: 3, input_size: [128, 128, 3], decoder: {type: nasfpn, "
              "nasfpn: {num_filters: 64}}}}");
    assert_fails(tl_task_original_names(r.task, &names), TL_EUNSUPPORTED, "num_filters is 64");
    lab_end(&r);
    tl_original_names_deinit(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CTX_TEST(test_losses_of_pixels),        CTX_TEST(test_losses_at_two_sizes),
        CTX_TEST(test_the_loss_of_shares),      CTX_TEST(test_losses_that_cannot_be),
        CTX_TEST(test_intersection_over_union), CTX_TEST(test_pictures_as_they_were),
        CTX_TEST(test_classes_that_cannot_be),  LAB_TEST(test_counts_of_parameters),
        LAB_TEST(test_models_that_cannot_be),   LAB_TEST(test_a_detector_learns),
        LAB_TEST(test_short_batches_are_whole), LAB_TEST(test_a_detector_tells_categories),
        LAB_TEST(test_a_segmenter_learns),      LAB_TEST(test_names_of_pyramids),
        LAB_TEST(test_names_of_found_pyramids), LAB_TEST(test_pyramids_without_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
