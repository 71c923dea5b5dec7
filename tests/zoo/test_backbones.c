/* Backbones of Model Garden against Model Garden (tests/golden/backbones.py): the same weights by
 * the names of its checkpoints, the same answers; which endpoints there are. */
#include "zoo/zoo_lab.h"

#include <tilth/io/safetensors.h>
#include <tilth/train/run/initialize.h>

#include "nn/golden_file.h"
#include "zoo/formula.h"

enum { SAMPLES = 16, MOST = 32 };

/* --- numbers of a formula --------------------------------------------------------------------- */

static void fill(tl_tensor *t, const char *key)
{
    const char *name = strrchr(key, '/') + 1;
    bool near_one = !strcmp(name, "gamma") || !strcmp(name, "moving_variance");
    bool depthwise = !strcmp(name, "depthwise_kernel"), kernel = !strcmp(name, "kernel");
    int64_t count = tl_tensor_count(t);
    uint32_t seed = formula_seed(key);
    double scale = 1.0 / 8;
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    if (kernel) scale = sqrt(6.0 / (double)(count / t->shape.dims[t->shape.rank - 1]));
    if (depthwise) scale = sqrt(6.0 / (double)(t->shape.dims[0] * t->shape.dims[1]));
    for (int64_t i = 0; i < count; i++) {
        double v = formula_number(seed, i);
        values[i] = (float)(near_one ? 1 + v / 4 : v * scale);
    }
    assert_ok(tl_tensor_set(t, values, (size_t)count * sizeof *values));
    free(values);
}

/* What a weight is called in checkpoints of Model Garden. */
static const char *their_name(const tl_original_names *n, const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    for (int64_t i = 0; i < n->renamed.count; i++)
        if (!strcmp(n->renamed.items[i].ours, path)) name = n->renamed.items[i].theirs;
    size_t length = (size_t)(strrchr(path, '/') - path);
    for (int64_t i = 0; i < n->layers.count; i++) {
        const tl_original_name *l = &n->layers.items[i];
        if (strlen(l->ours) == length && !strncmp(l->ours, path, length))
            return tl_arena_printf(lab_arena, "%s/%s", l->theirs, name);
    }
    fail_msg("%s has no name in Model Garden", path);
    return NULL;
}

static void fill_model(tl_task *t, tl_model *m)
{
    tl_original_names names;
    assert_ok(tl_original_names_init(&names));
    assert_ok(tl_task_original_names(t, &names));
    for (int64_t i = 0; i < tl_model_param_count(m); i++) {
        const tl_param *p = tl_model_param(m, i);
        fill(p->tensor, their_name(&names, p->path));
    }
    tl_original_names_deinit(&names);
}

static tl_tensor *make_images(tl_ctx *c, tl_shape shape)
{
    int64_t count = tl_shape_count(&shape);
    double *values = tl_arena_array(lab_arena, count, sizeof *values);
    for (int64_t i = 0; i < count; i++) values[i] = formula_number(formula_seed("images"), i);
    return tl_from_doubles(c, TL_F32, shape, values);
}

/* --- comparisons ------------------------------------------------------------------------------ */

/* Those of the file, near by the size of all that they were taken from. */
static void compare(const char *what, const double *found, const golden *g, const double *all,
                    int64_t count)
{
    double most = 0, off = 0;
    for (int64_t i = 0; i < count; i++) most = fmax(most, fabs(all[i]));
    for (int64_t i = 0; i < tl_shape_count(&g->shape); i++)
        off = fmax(off, fabs(found[i] - golden_number(g, i)));
    if (!(off <= 3e-5 * most) || most == 0) fail_msg("%s: off by %g of %g", what, off, most);
}

static void compare_samples(const char *name, const tl_tensor *t)
{
    char what[128];
    snprintf(what, sizeof what, "%s shape", name);
    const golden *shape = golden_peek("%s", what), *g = golden_peek("%s", name);
    assert_non_null(shape);
    double samples[SAMPLES];
    int64_t count = tl_tensor_count(t), theirs = 1;
    double *values = tl_arena_array(lab_arena, count, sizeof *values);
    for (int64_t i = 0; i < tl_shape_count(&shape->shape); i++)
        theirs *= (int64_t)golden_number(shape, i);
    if (theirs != count) fail_msg("%s: %lld numbers", name, (long long)count);
    if (t->shape.rank == 4)
        for (int i = 0; i < 4; i++)
            assert_int_equal(t->shape.dims[i], (int64_t)golden_number(shape, i));
    assert_ok(tl_tensor_get_doubles(t, values, count));
    for (int64_t i = 0; i < SAMPLES; i++) samples[i] = values[i * count / SAMPLES];
    compare(name, samples, g, values, count);
}

/* All endpoints of the file, and no others. */
static void compare_endpoints(const char *name, const tl_tensors *maps)
{
    int64_t wanted = 0;
    size_t length = strlen(name);
    for (int64_t i = 0; i < golden_count; i++) {
        const char *at = goldens[i].name;
        wanted += !strncmp(at, name, length) && at[length] == '/' && strstr(at, " shape") != NULL;
    }
    assert_int_equal(maps->count, wanted);
    assert_string_equal(maps->items[0].name, "features");
    for (int64_t i = 0; i < maps->count; i++) {
        char key[96];
        snprintf(key, sizeof key, "%s/%s", name, maps->items[i].name);
        compare_samples(key, maps->items[i].tensor);
    }
}

/* Those of the class are those that the layer gives. */
static void check_levels(const tl_task *t, const tl_tensors *maps)
{
    const tl_backbone_class *cls;
    const void *config;
    const tl_image_model_config *model = t->config->model.value;
    assert_ok(
        tl_backbone_find(&cls, &config, lab_arena, lab_registry, &model->backbone, "backbone"));
    tl_levels levels = cls->levels(config);
    for (int64_t i = 0; i < 9; i++) {
        char name[4];
        snprintf(name, sizeof name, "%d", (int)i);
        assert_int_equal(tl_tensors_peek(maps, name) != NULL, i >= levels.min && i <= levels.max);
    }
}

static void check_answers(lab_run *r, tl_model *m, const char *name)
{
    tl_ctx *c;
    tl_layer *backbone = NULL;
    double logits[MOST];
    int64_t count;
    tl_tensors in = {0}, maps = {0};
    const golden *wanted = golden_peek("%s/logits", name);
    assert_ok(tl_ctx_new(&c, r->task->engine));
    tl_mark mark = tl_ctx_begin(c);
    tl_shape shape = tl_model_inputs(m, &count)->shape;
    shape.dims[0] = 2;
    tl_tensor *x = make_images(c, shape), *y = tl_call(c, m, x);
    assert_ok(tl_ctx_status(c));
    assert_int_equal(tl_tensor_count(y), tl_shape_count(&wanted->shape));
    assert_ok(tl_tensor_get_doubles(y, logits, tl_tensor_count(y)));
    compare(name, logits, wanted, logits, tl_tensor_count(y));
    assert_string_equal(tl_model_item(m, 0, &backbone), "backbone");
    tl_tensors_put(c, &in, "x", x);
    tl_call_all(c, backbone, &in, &maps);
    assert_ok(tl_ctx_status(c));
    compare_endpoints(name, &maps);
    check_levels(r->task, &maps);
    tl_ctx_end(c, mark);
    tl_ctx_free(&c);
}

/* `name` with "/config" behind it. */
static void check_case(const golden *g)
{
    lab_run r;
    tl_model *m;
    char *yaml = tl_arena_printf(lab_arena, "%.*s", (int)tl_shape_count(&g->shape), g->values);
    char *name = tl_arena_strdup(lab_arena, g->name);
    *strrchr(name, '/') = '\0';
    lab_begin(&r, "image_classification", yaml);
    if (tl_task_build_model(r.task, &m) != TL_OK) fail_msg("%s: %s", name, tl_error_message());
    tl_model_size size = tl_model_measure(m);
    const golden *theirs = golden_peek("%s/size", name);
    assert_int_equal(size.trainable, (int64_t)golden_number(theirs, 0));
    assert_int_equal(size.params + size.state, (int64_t)golden_number(theirs, 1));
    fill_model(r.task, m);
    check_answers(&r, m, name);
    tl_model_free(&m);
    lab_end(&r);
}

static void test_answers_of_model_garden(void **state)
{
    (void)state;
    int64_t done = 0;
    golden_open(TEST_DATA "/golden/backbones.bin");
    for (int64_t i = 0; i < golden_count; i++) {
        if (!strstr(goldens[i].name, "/config")) continue;
        check_case(&goldens[i]);
        done++;
    }
    assert_true(done >= 11);
    golden_close();
}

/* --- sizes ------------------------------------------------------------------------------------ */

/* Of Model Garden's experiments, and of the backbones of those that are for other tasks. */
static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *experiment, *yaml;
        int64_t trainable, all;
    } cases[] = {
        {"mobilenet_imagenet", NULL, 3506153, 3540265},
        {"resnet_rs_imagenet", NULL, 35693961, 35747337},
        {"vit_imagenet_pretrain", NULL, 87159017, 87159017},
        {"vit_imagenet_finetune", NULL, 86860265, 86860265},
        {"image_classification", // timm's vit_tiny_patch16_224
         "task: {model: {num_classes: 1000, input_size: [224, 224, 3], backbone: {type: "
         "vision_transformer}}}",
         5717416, 5717416},
        {"image_classification",
         "task: {model: {num_classes: 1, input_size: [64, 64, 3], backbone: {type: dilated_resnet, "
         "dilated_resnet: {model_id: 101, output_stride: 16, stem_type: v1, multigrid: [1, 2, 4], "
         "last_stage_repeats: 1}}}}",
         42623936 + 2049, 0},
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        if (!test_takes(i, 5)) continue;
        lab_run r;
        tl_model *m;
        lab_begin(&r, cases[i].experiment, cases[i].yaml);
        assert_ok(tl_task_build_model(r.task, &m));
        tl_model_size size = tl_model_measure(m);
        assert_int_equal(size.trainable, cases[i].trainable);
        if (cases[i].all) assert_int_equal(size.params + size.state, cases[i].all);
        tl_model_free(&m);
        lab_end(&r);
    }
}

/* --- positions for images of another size ----------------------------------------------------- */

#define SMALL_VIT(height, more)                                                                    \
    "task: {model: {num_classes: 3, input_size: [" #height ", 16, 3], backbone: {type: vit, vit: " \
    "{model_name: null, hidden_size: 8, patch_size: 8, transformer: {mlp_dim: 16, num_heads: 2, "  \
    "num_layers: 2}" more "}}}}"
#define TABLE "backbone/position/pos_embedding"

static void open_model(lab_run *r, tl_model **m, const char *yaml)
{
    lab_begin(r, "image_classification", yaml);
    assert_ok(tl_task_build_model(r->task, m));
}

static void close_model(lab_run *r, tl_model **m)
{
    tl_model_free(m);
    lab_end(r);
}

static void read_param(double *out, tl_model *m, const char *path, int64_t count)
{
    const tl_param *p = tl_model_find(m, path);
    assert_non_null(p);
    assert_int_equal(tl_tensor_count(p->tensor), count);
    assert_ok(tl_tensor_get_doubles(p->tensor, out, count));
}

/* The weights of a model as a file, below a path or as they are. */
static void write_weights(tl_model *m, const char *file, const char *below)
{
    tl_state *s, *all;
    assert_ok(tl_state_new(&s));
    assert_ok(tl_state_new(&all));
    assert_ok(tl_model_state(m, s));
    if (below) assert_ok(tl_state_mount(all, below, s));
    assert_ok(tl_safetensors_write(file, below ? all : s, NULL, 0));
    tl_state_free(&all);
    tl_state_free(&s);
}

static void answers_of(double *out, lab_run *r, tl_model *m)
{
    tl_ctx *c;
    assert_ok(tl_ctx_new(&c, r->task->engine));
    tl_mark mark = tl_ctx_begin(c);
    tl_tensor *y = tl_call(c, m, make_images(c, TL_SHAPE(1, 24, 16, 3)));
    assert_ok(tl_ctx_status(c));
    assert_ok(tl_tensor_get_doubles(y, out, 3));
    tl_ctx_end(c, mark);
    tl_ctx_free(&c);
}

/* Two rows of two become three: the one between them is their mean. The token keeps its row. */
static void check_resized(const double *small, const double *large)
{
    static const double parts[7][5] = {
        {1}, {0, 1}, {0, 0, 1}, {0, .5, 0, .5}, {0, 0, .5, 0, .5}, {0, 0, 0, 1}, {0, 0, 0, 0, 1}};
    for (int64_t i = 0; i < 7; i++)
        for (int64_t k = 0; k < 8; k++) {
            double wanted = 0;
            for (int64_t j = 0; j < 5; j++) wanted += parts[i][j] * small[j * 8 + k];
            assert_near(large[i * 8 + k], wanted, 1e-7);
        }
}

static void test_positions_are_resized(void **state)
{
    (void)state;
    static const char *const backbone[] = {"backbone"}, *const head[] = {"head"};
    lab_run r, q, p;
    tl_model *small, *large, *fixed;
    double before[56], table[40], found[56], a[3], b[3];
    open_model(&r, &small, SMALL_VIT(16, ""));
    open_model(&q, &large, SMALL_VIT(24, ""));
    open_model(&p, &fixed, SMALL_VIT(24, ", pos_embed_shape: [2, 2]"));
    fill_model(r.task, small);
    read_param(table, small, TABLE, 40);
    read_param(before, large, TABLE, 56);
    write_weights(small, "plain.safetensors", NULL);
    write_weights(small, "run.safetensors", "model");
    // Another part leaves them alone.
    assert_ok(tl_model_initialize_from(large, "run.safetensors", (tl_strings){head, 1}));
    read_param(found, large, TABLE, 56);
    assert_memory_equal(found, before, sizeof found);
    assert_ok(tl_model_initialize_from(large, "run.safetensors", (tl_strings){backbone, 1}));
    read_param(found, large, TABLE, 56);
    check_resized(table, found);
    assert_ok(tl_model_initialize(large, 3));
    assert_ok(tl_model_initialize_from(large, "plain.safetensors", (tl_strings){NULL, 0}));
    read_param(found, large, TABLE, 56);
    check_resized(table, found);
    // A model that resizes its table whenever it is used gives the same.
    assert_ok(tl_model_initialize_from(fixed, "plain.safetensors", (tl_strings){NULL, 0}));
    answers_of(a, &q, large);
    answers_of(b, &p, fixed);
    for (int i = 0; i < 3; i++) assert_near(a[i], b[i], 1e-6);
    close_model(&p, &fixed);
    close_model(&q, &large);
    close_model(&r, &small);
}

static void test_positions_that_cannot_be_resized(void **state)
{
    (void)state;
    lab_run r, q;
    tl_model *oblong, *other;
    double before[48], after[48];
    open_model(&r, &oblong, SMALL_VIT(24, ""));
    open_model(&q, &other, SMALL_VIT(24, ", pooler: gap"));
    write_weights(oblong, "oblong.safetensors", NULL);
    read_param(before, other, TABLE, 48);
    assert_fails(tl_model_initialize_from(other, "oblong.safetensors", (tl_strings){NULL, 0}),
                 TL_EINVAL, "'" TABLE "' of 'oblong.safetensors'");
    if (!strstr(tl_error_message(), "no table of a square grid with rows of 8 numbers"))
        fail_msg("%s", tl_error_message());
    read_param(after, other, TABLE, 48);
    assert_memory_equal(before, after, sizeof before);
    close_model(&q, &other);
    close_model(&r, &oblong);
}

/* Every allocation of it fails once; nothing is left behind, which the sanitizers see. */
static void test_resizing_without_memory(void **state)
{
    (void)state;
    lab_run r, q;
    tl_model *small, *large;
    tl_status st = TL_ENOMEM;
    open_model(&r, &small, SMALL_VIT(16, ""));
    open_model(&q, &large, SMALL_VIT(24, ""));
    write_weights(small, "small.safetensors", NULL);
    for (int64_t nth = 1; st != TL_OK; nth += test_failure_step(nth)) {
        tl_alloc_fail_at(nth, 2);
        st = tl_model_initialize_from(large, "small.safetensors", (tl_strings){NULL, 0});
        tl_alloc_fail_at(0, 0);
        if (st != TL_OK && st != TL_ENOMEM)
            fail_msg("allocation %lld: %s", (long long)nth, tl_error_message());
    }
    close_model(&q, &large);
    close_model(&r, &small);
}

/* --- what options of vision transformers do --------------------------------------------------- */

static const tl_layer *child_of(const tl_layer *l, const char *name)
{
    for (const tl_layer *child = l->first; child; child = child->next)
        if (!strcmp(child->name, name)) return child;
    return NULL;
}

static double drop_rate_of(tl_model *m, const char *block)
{
    const tl_layer *l = child_of(child_of(child_of(m, "backbone"), block), "depth_mlp");
    return l ? ((const tl_stochastic_depth_config *)l->config)->rate : 0;
}

/* As in Model Garden the first block has its share; as in LiBai it has none. */
static void test_drop_rates(void **state)
{
    (void)state;
    lab_run r;
    tl_model *m;
    open_model(&r, &m, SMALL_VIT(16, ", init_stochastic_depth_rate: 0.5"));
    assert_near(drop_rate_of(m, "layer_0"), 0.25, 1e-12);
    assert_near(drop_rate_of(m, "layer_1"), 0.5, 1e-12);
    close_model(&r, &m);
    open_model(&r, &m,
               SMALL_VIT(16, ", init_stochastic_depth_rate: 0.5, stochastic_depth_from_zero: true, "
                             "norm_epsilon: 1.0e-05"));
    assert_near(drop_rate_of(m, "layer_0"), 0, 0);
    assert_near(drop_rate_of(m, "layer_1"), 0.5, 1e-12);
    const tl_layer *norm = child_of(child_of(m, "backbone"), "norm");
    assert_near(((const tl_layer_norm_config *)norm->config)->epsilon.value, 1e-5, 0);
    close_model(&r, &m);
    open_model(&r, &m,
               "task: {model: {num_classes: 3, input_size: [16, 16, 3], backbone: {type: "
               "vision_transformer, vision_transformer: {embed_dim: 12, depth: 3, patch_size: 8, "
               "drop_path_rate: 0.5}}}}");
    assert_near(drop_rate_of(m, "layer_0"), 0, 0);
    assert_near(drop_rate_of(m, "layer_1"), 0.25, 1e-12);
    assert_near(drop_rate_of(m, "layer_2"), 0.5, 1e-12);
    close_model(&r, &m);
}

/* The mean over the map of all tokens is the mean of all tokens. */
static void test_all_tokens(void **state)
{
    (void)state;
    lab_run r, q;
    tl_model *mean, *all;
    tl_layer *backbone;
    tl_ctx *c;
    tl_tensors in = {0}, maps = {0};
    double a[3], b[3];
    open_model(&r, &mean, SMALL_VIT(24, ", pooler: gap"));
    open_model(&q, &all, SMALL_VIT(24, ", pooler: none"));
    fill_model(r.task, mean);
    fill_model(q.task, all);
    answers_of(a, &r, mean);
    answers_of(b, &q, all);
    for (int i = 0; i < 3; i++) assert_near(a[i], b[i], 1e-6);
    assert_ok(tl_ctx_new(&c, q.task->engine));
    tl_mark mark = tl_ctx_begin(c);
    (void)tl_model_item(all, 0, &backbone);
    tl_tensors_put(c, &in, "x", make_images(c, TL_SHAPE(2, 24, 16, 3)));
    tl_call_all(c, backbone, &in, &maps);
    assert_ok(tl_ctx_status(c));
    const tl_shape grid = TL_SHAPE(2, 3, 2, 8), row = TL_SHAPE(2, 6, 8);
    assert_true(tl_shape_equal(&tl_tensors_get(c, &maps, "features")->shape, &grid));
    assert_true(tl_shape_equal(&tl_tensors_get(c, &maps, "encoded_tokens")->shape, &row));
    assert_int_equal(maps.count, 2);
    tl_ctx_end(c, mark);
    tl_ctx_free(&c);
    close_model(&q, &all);
    close_model(&r, &mean);
}

/* --- what is refused -------------------------------------------------------------------------- */

#define MOBILE(id) "{type: mobilenet, mobilenet: {model_id: MobileNet" id "}}"

static void refuse(const char *backbone, const char *text)
{
    tl_config *c = NULL;
    char *yaml = tl_arena_printf(lab_arena, "task: {model: {backbone: %s}}", backbone);
    tl_status st = lab_parse(&c, "image_classification", yaml);
    if (st != TL_EUNSUPPORTED && st != TL_EINVAL) fail_msg("%s: %s", yaml, tl_status_name(st));
    if (!strstr(tl_error_message(), text))
        fail_msg("%s: %s\n    lacks %s", yaml, tl_error_message(), text);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    refuse(MOBILE("V4ConvSmall"), "there is no 'MobileNetV4ConvSmall'; there are MobileNetV1");
    refuse("{type: mobilenet, mobilenet: {output_stride: 7}}", "output_stride");
    refuse("{type: mobilenet, mobilenet: {output_stride: 0}}", "output_stride");
    refuse("{type: mobilenet, mobilenet: {model_id: MobileNetV1, output_stride: 4}}",
           "of MobileNetV1 it is 8, 16, 32 or null");
    refuse("{type: mobilenet, mobilenet: {filter_size_scale: 0}}", "filter_size_scale");
    refuse("{type: dilated_resnet, dilated_resnet: {model_id: 34}}",
           "there is no dilated ResNet-34; there are 50, 101, 152 and 200");
    refuse("{type: dilated_resnet, dilated_resnet: {output_stride: 64}}", "output_stride");
    refuse("{type: dilated_resnet, dilated_resnet: {stem_type: cifar}}", "stem_type");
    refuse("{type: dilated_resnet, dilated_resnet: {multigrid: [1, 2]}}",
           "multigrid: it has 2 numbers for the 3 blocks of the last stage");
    refuse("{type: vit, vit: {model_name: vit-b8}}", "there is no 'vit-b8'; there are vit-ti16");
    refuse("{type: vit, vit: {model_name: null, hidden_size: 10, transformer: {num_heads: 3}}}",
           "3 heads do not divide hidden_size, 10");
    refuse("{type: vit, vit: {pos_embed_shape: [14]}}", "pos_embed_shape");
    refuse("{type: vision_transformer, vision_transformer: {num_heads: 5}}",
           "num_heads: 5 heads do not divide embed_dim, 192");
    refuse("{type: vision_transformer, vision_transformer: {mlp_ratio: 0.001}}", "mlp_ratio");
    refuse("{type: vit, vit: {transformer_partition_dims: [1, 1, 1, 1]}}",
           "transformer_partition_dims");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_answers_of_model_garden),
        LAB_TEST(test_sizes),
        LAB_TEST(test_positions_are_resized),
        LAB_TEST(test_positions_that_cannot_be_resized),
        LAB_TEST(test_resizing_without_memory),
        LAB_TEST(test_drop_rates),
        LAB_TEST(test_all_tokens),
        LAB_TEST(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
