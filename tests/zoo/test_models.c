/* Backbones and the model around them: shapes, numbers of parameters, what options change.
 * takes: long */
#include "zoo/zoo_lab.h"

#include <tilth/ops/create.h>
#include <tilth/ops/random.h>

typedef struct wanted {
    const char *yaml;
    int64_t params, state;
} wanted;

/* Of one model: its size, and that it answers [batch, classes]. */
static void check(const wanted *w)
{
    lab_run r;
    tl_model *m;
    tl_ctx *c;
    lab_begin(&r, "image_classification", w->yaml);
    if (tl_task_build_model(r.task, &m) != TL_OK) fail_msg("%s: %s", w->yaml, tl_error_message());
    tl_model_size size = tl_model_measure(m);
    if (size.params != w->params || size.state != w->state)
        fail_msg("%s: %lld parameters and %lld of state, expected %lld and %lld", w->yaml,
                 (long long)size.params, (long long)size.state, (long long)w->params,
                 (long long)w->state);
    const tl_image_model_config *k = r.task->config->model.value;
    int64_t count;
    const tl_spec *input = tl_model_inputs(m, &count);
    assert_int_equal(count, 1);
    assert_ok(tl_ctx_new(&c, r.task->engine));
    tl_mark mark = tl_ctx_begin(c);
    tl_shape shape = input->shape;
    shape.dims[0] = 2;
    tl_tensor *y = tl_call(c, m, tl_random_normal(c, TL_F32, shape, 0, 1));
    assert_ok(tl_ctx_status(c));
    assert_int_equal(y->shape.rank, 2);
    assert_int_equal(y->shape.dims[0], 2);
    assert_int_equal(y->shape.dims[1], k->num_classes);
    tl_ctx_end(c, mark);
    tl_ctx_free(&c);
    tl_model_free(&m);
    lab_end(&r);
}

#define MODEL(size, classes, backbone)                                                             \
    "task: {model: {num_classes: " #classes ", input_size: " size ", backbone: " backbone "}}"
#define RESNET(more) "{type: resnet, resnet: {" more "}}"

/* torchvision's numbers, and where the first stage has a projection 64 * 64 + 2 * 64 more: as in
 * Model Garden, all first blocks have one. */
static void test_sizes_of_resnets(void **state)
{
    (void)state;
    static const wanted all[] = {
        {MODEL("[64, 64, 3]", 1000, RESNET("model_id: 18")), 11689512 + 4224, 9600 + 128},
        {MODEL("[64, 64, 3]", 1000, RESNET("model_id: 34")), 21797672 + 4224, 17024 + 128},
        {MODEL("[64, 64, 3]", 1000, RESNET("model_id: 50")), 25557032, 53120},
        {MODEL("[32, 32, 3]", 10, RESNET("model_id: 18, stem_type: cifar")), 11173962 + 4224,
         9600 + 128},
        {MODEL("[28, 28, 1]", 10, RESNET("model_id: 18, stem_type: cifar")), 11172810 + 4224,
         9600 + 128},
    };
    for (int64_t i = 0; i < TL_COUNT(all); i++)
        if (test_takes(i + 1, 5)) check(&all[i]);
}

static void test_variants_of_resnets(void **state)
{
    (void)state;
    static const wanted all[] = {
        // Half the filters; the stem alone has all of them.
        {MODEL("[32, 32, 3]", 10, RESNET("model_id: 18, depth_multiplier: 0.5")), 2802538, 4864},
        {MODEL("[32, 32, 3]", 10, RESNET("model_id: 18, depth_multiplier: 0.5, scale_stem: false")),
         2817546, 4928},
        // Three convolutions in place of one of 7x7.
        {MODEL("[32, 32, 3]", 10, RESNET("model_id: 18, stem_type: v1")),
         11181642 + 4224 - 9408 + 864 + 9216 + 18432 + 128, 9728 + 128},
        // A convolution in place of the pooling.
        {MODEL("[32, 32, 3]", 10, RESNET("model_id: 18, replace_stem_max_pool: true")),
         11181642 + 4224 + 64 * 64 * 9 + 128, 9728 + 128},
        // It has as many filters as the blocks behind it, whatever the stem has.
        {MODEL("[32, 32, 3]", 10,
               RESNET("model_id: 18, depth_multiplier: 0.5, scale_stem: false, "
                      "replace_stem_max_pool: true")),
         2817546 + 64 * 32 * 9 + 64 - 32 * 32 * 9 - 32 * 32, 4928 + 64},
    };
    for (int64_t i = 0; i < TL_COUNT(all); i++)
        if (test_takes(i, 4)) check(&all[i]);
}

static void test_sizes_of_small_networks(void **state)
{
    (void)state;
    static const wanted all[] = {
        {MODEL("[28, 28, 1]", 10, "{type: mlp, mlp: {units: [256, 256]}}"), 269322, 0},
        {MODEL("[28, 28, 1]", 10, "{type: mlp, mlp: {units: [], dropout_rate: 0.5}}"), 7850, 0},
        {MODEL("[28, 28, 1]", 10, "{type: cnn}"), 421642, 0},
        {MODEL("[28, 28, 1]", 10, "{type: cnn, cnn: {filters: [8], units: [], batch_norm: true}}"),
         72 + 16 + 90, 16},
        {MODEL("[28, 28, 1]", 10,
               "{type: cnn, cnn: {filters: [8], repeats: 2, units: [], dropout_rate: 0.2}}"),
         80 + 584 + 90, 0},
    };
    for (int64_t i = 0; i < TL_COUNT(all); i++) check(&all[i]);
}

static void test_the_head(void **state)
{
    (void)state;
    check(&(wanted){
        "task: {model: {num_classes: 3, input_size: [8, 8, 1], dropout_rate: 0.5, "
        "add_head_batch_norm: true, backbone: {type: cnn, cnn: {filters: [4], units: []}}}}",
        40 + 8 + 15, 8});
}

/* --- what options do -------------------------------------------------------------------------- */

static tl_tensor *param(tl_model *m, const char *path)
{
    const tl_param *p = tl_model_find(m, path);
    if (!p) fail_msg("there is no parameter '%s'", path);
    return p->tensor;
}

enum { SIDE = 5, MOST_CHANNELS = 16 };

/* What a projection of resnetd_shortcut gets to see: the mean of up to 2 x 2 pixels. */
static int64_t pool(double *out, const double *in, int64_t channels, int64_t stride)
{
    int64_t side = (SIDE + stride - 1) / stride;
    for (int64_t y = 0; y < side; y++)
        for (int64_t x = 0; x < side; x++)
            for (int64_t k = 0; k < channels; k++) {
                double sum = 0, count = 0;
                for (int64_t i = y * stride; i < SIDE && i < y * stride + 2; i++)
                    for (int64_t j = x * stride; j < SIDE && j < x * stride + 2; j++, count++)
                        sum += in[(i * SIDE + j) * channels + k];
                out[(y * side + x) * channels + k] = sum / count;
            }
    return side;
}

/* A block whose own convolutions give nothing gives its shortcut: of `in`, or of that pooled with
 * `stride`. */
static void check_shortcut(const char *id, const char *name, const char *last, int64_t channels,
                           int64_t stride)
{
    static const float zeros[64];
    double in[SIDE * SIDE * MOST_CHANNELS] = {0}, seen[SIDE * SIDE * MOST_CHANNELS], alone[4096],
                            found[4096];
    char yaml[256], path[96];
    lab_run r;
    tl_model *m;
    tl_ctx *c;
    snprintf(yaml, sizeof yaml,
             "task: {model: {num_classes: 3, input_size: [8, 8, 1], backbone: {type: resnet, "
             "resnet: {model_id: %s, depth_multiplier: 0.0625, resnetd_shortcut: true}}}}",
             id);
    lab_begin(&r, "image_classification", yaml);
    assert_ok(tl_task_build_model(r.task, &m));
    snprintf(path, sizeof path, "backbone/%s/%s/norm/gamma", name, last);
    tl_tensor *gamma = param(m, path);
    assert_ok(tl_tensor_set(gamma, zeros, (size_t)tl_tensor_count(gamma) * sizeof *zeros));
    snprintf(path, sizeof path, "backbone/%s/shortcut/conv/kernel", name);
    assert_int_equal(param(m, path)->shape.dims[2], channels);
    tl_layer *shortcut = tl_model_find(m, path)->layer->parent, *block = shortcut->parent;
    for (int64_t i = 0; i < SIDE * SIDE * channels; i++) in[i] = (double)(i * i * 7 % 23 - 11) / 8;
    int64_t side = SIDE;
    if (stride) side = pool(seen, in, channels, stride);
    else memcpy(seen, in, sizeof in);
    assert_ok(tl_ctx_new(&c, r.task->engine));
    tl_mark mark = tl_ctx_begin(c);
    tl_tensor *x = tl_from_doubles(c, TL_F32, TL_SHAPE(1, SIDE, SIDE, channels), in);
    tl_tensor *y =
        tl_call(c, shortcut, tl_from_doubles(c, TL_F32, TL_SHAPE(1, side, side, channels), seen));
    tl_tensor *z = tl_call(c, block, x);
    assert_ok(tl_ctx_status(c));
    assert_true(tl_shape_equal(&y->shape, &z->shape));
    assert_ok(tl_tensor_get_doubles(y, alone, tl_tensor_count(y)));
    assert_ok(tl_tensor_get_doubles(z, found, tl_tensor_count(z)));
    for (int64_t i = 0; i < tl_tensor_count(y); i++) assert_near(found[i], fmax(alone[i], 0), 1e-5);
    tl_ctx_end(c, mark);
    tl_ctx_free(&c);
    tl_model_free(&m);
    lab_end(&r);
}

/* As in Model Garden: bottlenecks pool, also where their stride is 1; other blocks never do. */
static void test_shortcuts_of_resnet_d(void **state)
{
    (void)state;
    check_shortcut("50", "stage_1_block_1", "conv_3", 4, 1);
    check_shortcut("50", "stage_2_block_1", "conv_3", 16, 2);
    check_shortcut("18", "stage_1_block_1", "conv_2", 4, 0);
    check_shortcut("18", "stage_2_block_1", "conv_2", 4, 0);
}

/* Gates have activations of their own. */
static void test_gates_do_not_follow_the_activation(void **state)
{
    (void)state;
    lab_run r;
    tl_model *m;
    lab_begin(&r, "image_classification",
              "task: {model: {num_classes: 3, input_size: [8, 8, 1], norm_activation: {activation: "
              "swish}, backbone: {type: resnet, resnet: {model_id: 18, depth_multiplier: 0.0625, "
              "se_ratio: 0.25}}}}");
    assert_ok(tl_task_build_model(r.task, &m));
    const tl_layer *reduce = tl_model_find(m, "backbone/stage_1_block_1/gate/reduce/kernel")->layer;
    const tl_layer *expand = tl_model_find(m, "backbone/stage_1_block_1/gate/expand/kernel")->layer;
    assert_int_equal(((const tl_conv2d_config *)reduce->config)->activation, TL_ACT_RELU);
    assert_int_equal(((const tl_conv2d_config *)expand->config)->activation, TL_ACT_SIGMOID);
    tl_model_free(&m);
    lab_end(&r);
}

static void test_regularizers_and_parts(void **state)
{
    (void)state;
    lab_run r;
    tl_model *m;
    tl_ctx *c;
    tl_layer *part;
    lab_begin(
        &r, "image_classification",
        "task: {losses: {l2_weight_decay: 0.2}, model: {num_classes: 3, input_size: [8, 8, 1], "
        "backbone: {type: resnet, resnet: {model_id: 50, stem_type: cifar, depth_multiplier: "
        "0.0625, se_ratio: 0.25, stochastic_depth_drop_rate: 0.5, resnetd_shortcut: true}}}}");
    assert_ok(tl_task_build_model(r.task, &m));
    assert_int_equal(tl_model_item_count(m), 1);
    assert_string_equal(tl_model_item(m, 0, &part), "backbone");
    assert_string_equal(part->name, "backbone");
    // Half the decay times the squares of kernels alone.
    assert_ok(tl_ctx_new(&c, r.task->engine));
    tl_mark mark = tl_ctx_begin(c);
    double expected = 0, found;
    for (int64_t i = 0; i < tl_model_param_count(m); i++) {
        const tl_param *p = tl_model_param(m, i);
        size_t length = strlen(p->path);
        bool kernel = length > 6 && strcmp(p->path + length - 6, "kernel") == 0;
        assert_true((p->regularizer.type != NULL) == kernel);
        if (!kernel) continue;
        int64_t count = tl_tensor_count(p->tensor);
        double *values = tl_arena_array(lab_arena, count, sizeof *values);
        assert_ok(tl_tensor_get_doubles(p->tensor, values, count));
        for (int64_t k = 0; k < count; k++) expected += 0.1 * values[k] * values[k];
    }
    tl_ctx_set_training(c, true);
    tl_tensor *y = tl_call(c, m, tl_random_normal(c, TL_F32, TL_SHAPE(4, 8, 8, 1), 0, 1));
    assert_non_null(y);
    assert_ok(tl_tensor_item(tl_model_losses(c, m), &found));
    assert_near(found, expected, 1e-4 * expected);
    tl_ctx_end(c, mark);
    tl_ctx_free(&c);
    tl_model_free(&m);
    lab_end(&r);
}

/* What Model Garden's try_count_params and try_count_flops say of the same models: scripts read
 * those lines. */
static void test_counts_of_model_garden(void **state)
{
    (void)state;
    static const struct {
        const char *yaml;
        int64_t params, flops;
    } all[] = {
        {MODEL("[32, 32, 3]", 10, RESNET("model_id: 18")), 11195594, 74610186},
        {MODEL("[28, 28, 3]", 10, RESNET("model_id: 18")), 11195594, 68924106},
        {MODEL("[32, 32, 3]", 10, RESNET("model_id: 18, stem_type: v1, se_ratio: 0.25")), 11565514,
         85120874},
        {MODEL("[64, 64, 3]", 1000, RESNET("model_id: 50")), 25610152, 671990760},
        {MODEL("[64, 64, 3]", 7,
               RESNET("model_id: 50, resnetd_shortcut: true, replace_stem_max_pool: true")),
         23612615, 686829575},
    };
    for (int64_t i = 0; i < TL_COUNT(all); i++) {
        if (!test_takes(i, 5)) continue;
        lab_run r;
        tl_model *m;
        lab_begin(&r, "image_classification", all[i].yaml);
        assert_ok(tl_task_build_model(r.task, &m));
        tl_model_size size = tl_model_measure(m);
        assert_int_equal(size.params + size.state, all[i].params);
        if (tl_count_flops(m) != (double)all[i].flops)
            fail_msg("%s: %.0f, not %lld", all[i].yaml, tl_count_flops(m), (long long)all[i].flops);
        tl_model_free(&m);
        lab_end(&r);
    }
}

static void test_frozen_parts(void **state)
{
    (void)state;
    lab_run r;
    tl_model *m;
    lab_begin(&r, "vision/local", "task: {freeze_backbone: true}");
    assert_ok(tl_task_build_model(r.task, &m));
    assert_int_equal(tl_model_measure(m).trainable, 32 * 4 + 4);
    tl_model_free(&m);
    lab_end(&r);
    lab_begin(&r, "vision/local",
              "task: {model: {backbone: {type: resnet, resnet: {model_id: 18, stem_type: cifar, "
              "bn_trainable: false}}}}");
    assert_ok(tl_task_build_model(r.task, &m));
    assert_false(tl_model_find(m, "backbone/stem/norm/gamma")->trainable);
    assert_true(tl_model_find(m, "backbone/stem/conv/kernel")->trainable);
    tl_model_free(&m);
    lab_end(&r);
}

static void test_copies_answer_alike(void **state)
{
    (void)state;
    lab_run r;
    tl_model *m, *copy;
    tl_ctx *c;
    lab_begin(&r, "vision/local", NULL);
    assert_ok(tl_task_build_model(r.task, &m));
    assert_ok(tl_model_copy(&copy, m));
    assert_ok(tl_ctx_new(&c, r.task->engine));
    tl_mark mark = tl_ctx_begin(c);
    tl_tensor *x = tl_random_normal(c, TL_F32, TL_SHAPE(2, 16, 16, 1), 0, 1);
    double a[8], b[8];
    assert_ok(tl_tensor_get_doubles(tl_call(c, m, x), a, 8));
    assert_ok(tl_tensor_get_doubles(tl_call(c, copy, x), b, 8));
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(param(m, "backbone/conv_2/kernel")->shape.dims[3], 16);
    tl_ctx_end(c, mark);
    tl_ctx_free(&c);
    tl_model_free(&copy);
    tl_model_free(&m);
    lab_end(&r);
}

static void test_a_model_in_c(void **state)
{
    (void)state;
    tl_engine *e;
    tl_model *m;
    tl_image_model_config k;
    assert_ok(test_engine_new(&e, NULL, 1));
    assert_ok(tl_desc_defaults(lab_arena, &tl_image_model_config_desc, &k));
    k.num_classes = 10;
    k.input_size = (tl_ints){(const int64_t[]){28, 28, 1}, 3};
    k.backbone = (tl_oneof){.type = "cnn"};
    assert_ok(tl_image_classifier_new(
        &m, &(tl_image_classifier_args){
                .engine = e, .config = &k, .registry = lab_registry, .arena = lab_arena}));
    assert_int_equal(tl_model_measure(m).params, 421642);
    tl_model_free(&m);
    tl_engine_free(&e);
}

/* --- a backbone of one's own ------------------------------------------------------------------ */

typedef struct mean_config {
    int64_t channels;
} mean_config;
static const tl_field mean_fields[] = {
    TL_F(mean_config, channels, .i = 5, TL_AT_LEAST(1), .help = "of the only convolution"),
    TL_F_END,
};
static const tl_desc mean_desc = {
    .name = "mean",
    .help = "one convolution",
    .size = sizeof(mean_config),
    .fields = mean_fields,
};

static tl_layer *make_mean(tl_scope *s, const char *name, const void *config,
                           const tl_backbone_parts *parts)
{
    return tl_conv2d(s, name, .filters = ((const mean_config *)config)->channels, .kernel = 1,
                     .activation = parts->norm_activation->activation);
}
static const tl_backbone_class mean_backbone = {
    .cls = {.class_size = sizeof(tl_backbone_class),
            .name = "mean",
            .help = "one convolution",
            .config = &mean_desc},
    .make = make_mean,
};
static const tl_entry mean_entries[] = {{&tl_kind_backbone, &mean_backbone.cls}};
static const tl_module mean_module = {TL_MODULE_HEAD("test_mean"), mean_entries,
                                      TL_COUNT(mean_entries)};

static void test_a_backbone_of_ones_own(void **state)
{
    (void)state;
    assert_ok(tl_registry_add(lab_registry, &mean_module));
    check(&(wanted){MODEL("[4, 4, 2]", 3, "{type: mean}"), 15 + 18, 0});
    check(&(wanted){MODEL("[4, 4, 2]", 3, "{type: mean, mean: {channels: 7}}"), 21 + 24, 0});
}

static void test_zeros_are_meant(void **state)
{
    (void)state;
    lab_run r;
    tl_model *m;
    lab_begin(&r, "vision/local",
              "task: {model: {norm_activation: {norm_momentum: 0, norm_epsilon: 0}, backbone: "
              "{cnn: {batch_norm: true}}}}");
    assert_ok(tl_task_build_model(r.task, &m));
    const tl_layer *norm = tl_model_find(m, "backbone/norm_1/gamma")->layer;
    const tl_batch_norm_config *k = norm->config;
    assert_true(k->momentum.value == 0 && k->epsilon.value == 0);
    tl_model_free(&m);
    lab_end(&r);
}

static void test_all_norms_are_synchronized(void **state)
{
    (void)state;
    static const char *const backbones[] = {
        "{type: cnn, cnn: {batch_norm: true}}",
        "{type: resnet, resnet: {model_id: 18, stem_type: cifar, depth_multiplier: 0.0625}}",
        "{type: mobilenet, mobilenet: {filter_size_scale: 0.1}}",
    };
    static const int64_t counts[] = {3, 22, 53};
    for (int i = 0; i < 6; i++) {
        lab_run r;
        tl_model *m;
        int64_t norms = 0;
        bool asked = i % 2;
        char *yaml = tl_arena_printf(lab_arena,
                                     "task: {model: {add_head_batch_norm: true, norm_activation: "
                                     "{use_sync_bn: %s}, backbone: %s}}",
                                     asked ? "true" : "false", backbones[i / 2]);
        lab_begin(&r, "vision/local", yaml);
        assert_ok(tl_task_build_model(r.task, &m));
        for (int64_t k = 0; k < tl_model_param_count(m); k++) {
            const tl_param *p = tl_model_param(m, k);
            if (!strstr(p->path, "moving_variance")) continue;
            assert_int_equal(((const tl_batch_norm_config *)p->layer->config)->synchronized, asked);
            norms++;
        }
        assert_int_equal(norms, counts[i / 2]);
        tl_model_free(&m);
        lab_end(&r);
    }
}

static void test_models_that_cannot_be(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *message;
    } all[] = {
        {"task: {model: {input_size: [8, 8, 1]}}", "model.num_classes is 0"},
        {"task: {model: {num_classes: 2}}", "model.input_size has 0 numbers"},
        {"task: {model: {num_classes: 2, input_size: [8, 8, 1], backbone: {type: null}}}",
         "no backbone"},
        {"task: {model: {num_classes: 2, input_size: [8, 8, 1], kernel_initializer: he}}", "'he'"},
    };
    for (int64_t i = 0; i < TL_COUNT(all); i++) {
        lab_run r;
        tl_model *m;
        lab_begin(&r, "image_classification", all[i].yaml);
        tl_status st = tl_task_build_model(r.task, &m);
        assert_int_not_equal(st, TL_OK);
        if (!strstr(tl_error_message(), all[i].message))
            fail_msg("%s: the message '%s' lacks '%s'", all[i].yaml, tl_error_message(),
                     all[i].message);
        lab_end(&r);
    }
}

/* Every allocation of building fails once; nothing is left behind, which the sanitizers see. */
static void test_without_memory(void **state)
{
    (void)state;
    static const char *const all[] = {
        ("task: {model: {backbone: {type: resnet, resnet: {model_id: 18, stem_type: cifar, "
         "se_ratio: 0.25, depth_multiplier: 0.0625}}}}"),
        "task: {model: {dropout_rate: 0.1, backbone: {cnn: {batch_norm: true, dropout_rate: "
        "0.1}}}}",
        "task: {model: {backbone: {type: mlp}}}",
        ("task: {model: {backbone: {type: mobilenet, mobilenet: {model_id: MobileNetV3Small, "
         "filter_size_scale: 0.1, stochastic_depth_drop_rate: 0.1}}}}"),
        ("task: {model: {backbone: {type: vit, vit: {model_name: null, hidden_size: 4, patch_size: "
         "8, representation_size: 4, layer_scale_init_value: 0.1, init_stochastic_depth_rate: "
         "0.1}}}}"),
    };
    for (int64_t i = 0; i < TL_COUNT(all); i++) {
        lab_run r;
        tl_status st = TL_ENOMEM;
        int64_t nth = 0;
        lab_begin(&r, "vision/local", all[i]);
        while (st != TL_OK) {
            tl_model *m = NULL;
            tl_alloc_fail_at(++nth, 2);
            st = tl_task_build_model(r.task, &m);
            tl_alloc_fail_at(0, 0);
            if (st != TL_OK && st != TL_ENOMEM)
                fail_msg("allocation %lld: %s", (long long)nth, tl_error_message());
            tl_model_free(&m);
        }
        assert_true(nth > 3);
        lab_end(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_sizes_of_resnets),
        LAB_TEST(test_variants_of_resnets),
        LAB_TEST(test_sizes_of_small_networks),
        LAB_TEST(test_the_head),
        LAB_TEST(test_shortcuts_of_resnet_d),
        LAB_TEST(test_gates_do_not_follow_the_activation),
        LAB_TEST(test_regularizers_and_parts),
        LAB_TEST(test_counts_of_model_garden),
        LAB_TEST(test_frozen_parts),
        LAB_TEST(test_copies_answer_alike),
        LAB_TEST(test_a_model_in_c),
        LAB_TEST(test_a_backbone_of_ones_own),
        LAB_TEST(test_zeros_are_meant),
        LAB_TEST(test_all_norms_are_synchronized),
        LAB_TEST(test_models_that_cannot_be),
        LAB_TEST(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
