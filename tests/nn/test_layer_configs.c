/* Layers by name: every class that ships from YAML, zeros that are meant, mistakes and how they are
 * told, and classes that the registry refuses. */
#include "nn/choice.h"

#include <tilth/builtin/builtin.h>

static const tl_oneof *chosen;

static void chosen_build(probe *p, tl_scope *s)
{
    p->part[0] = tl_scope_layer_of(s, "l", chosen);
}
static const recipe of_choice = {chosen_build, NULL};

static tl_model *from_yaml(const char *yaml, tl_dtype dtype, tl_shape shape)
{
    tl_config *config;
    tl_model *m;
    assert_ok(read_config(&config, yaml));
    chosen = &((const holder *)tl_config_value(config))->layer;
    tl_spec input = {"x", dtype, shape};
    assert_ok(tl_model_new(&m, &(tl_model_args){.engine = engine,
                                                .cls = &probe_class,
                                                .config = &of_choice,
                                                .inputs = &input,
                                                .input_count = 1,
                                                .seed = 1,
                                                .registry = registry}));
    tl_config_free(&config); // a model keeps nothing of it
    return m;
}

/* --- every class ------------------------------------------------------------------------------ */

static const struct {
    const char *type, *fields;
    tl_dtype dtype;
    int64_t in[4], out[4]; /* up to the first 0 */
    int64_t params, state;
} cases[] = {
    {"dense",
     "units: 5, activation: hard_swish, kernel_initializer: {type: he_normal}",
     TL_F32,
     {2, 4},
     {2, 5},
     25,
     0},
    {"embedding",
     "entries: 9, size: 3, initializer: {type: truncated_normal, truncated_normal: {stddev: 0.02}}",
     TL_I64,
     {2, 4},
     {2, 4, 3},
     27,
     0},
    {"conv1d",
     "filters: 4, kernel: 3, padding: same, stride: 2",
     TL_F32,
     {2, 8, 3},
     {2, 4, 4},
     40,
     0},
    {"conv2d",
     "filters: 4, kernel: 3, kernel_width: 1, padding: explicit, pad: 1",
     TL_F32,
     {2, 4, 4, 3},
     {2, 4, 6, 4},
     40,
     0},
    {"conv2d_transpose",
     "filters: 2, kernel: 2, stride: 2",
     TL_F32,
     {2, 3, 3, 4},
     {2, 6, 6, 2},
     34,
     0},
    {"depthwise_conv2d", "kernel: 3, multiplier: 2", TL_F32, {2, 5, 5, 3}, {2, 3, 3, 6}, 60, 0},
    {"layer_norm", "epsilon: 0.1", TL_F32, {2, 6}, {2, 6}, 12, 0},
    {"rms_norm", "frozen: true", TL_F32, {2, 6}, {2, 6}, 6, 0},
    {"batch_norm", "momentum: 0.9", TL_F32, {2, 6}, {2, 6}, 12, 12},
    {"group_norm", "groups: 2", TL_F32, {2, 3, 6}, {2, 3, 6}, 12, 0},
    {"attention", "heads: 2, causal: true", TL_F32, {2, 3, 8}, {2, 3, 8}, 288, 0},
    {"activation", "function: softplus", TL_F32, {2, 6}, {2, 6}, 0, 0},
    {"dropout", "rate: 0.1", TL_F32, {2, 6}, {2, 6}, 0, 0},
    {"stochastic_depth", "rate: 0.1", TL_F32, {2, 6}, {2, 6}, 0, 0},
    {"max_pool", "size: 3, stride: 1, padding: same", TL_F32, {2, 4, 4, 3}, {2, 4, 4, 3}, 0, 0},
    {"avg_pool", "", TL_F32, {2, 4, 4, 3}, {2, 2, 2, 3}, 0, 0},
    {"global_avg_pool", "", TL_F32, {2, 4, 4, 3}, {2, 3}, 0, 0},
    {"global_max_pool", "", TL_F32, {2, 4, 4, 3}, {2, 3}, 0, 0},
    {"flatten", "", TL_F32, {2, 4, 3}, {2, 12}, 0, 0},
    {"sequential",
     "layers: [{layer: {type: dense, dense: {units: 5}}}, {name: out, layer: {type: dense, dense: "
     "{units: 3}}}, {layer: {type: sequential, sequential: {layers: [{layer: {type: flatten}}]}}}]",
     TL_F32,
     {2, 4},
     {2, 3},
     43,
     0},
    {"residual",
     "layers: [{layer: {type: dense, dense: {units: 5}}}], shortcut: {type: dense, dense: {units: "
     "5, "
     "without_bias: true}}",
     TL_F32,
     {2, 4},
     {2, 5},
     45,
     0},
};

static tl_shape shape_of(const int64_t dims[4])
{
    int rank = 0;
    while (rank < 4 && dims[rank]) rank++;
    return tl_shape_of(rank, dims);
}

static void every_layer_has_a_name(void **state)
{
    (void)state;
    assert_int_equal(tl_registry_count(registry, &tl_kind_layer), TL_COUNT(cases));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char yaml[512];
        snprintf(yaml, sizeof yaml, "layer: {type: %s, %s: {%s}}", cases[i].type, cases[i].type,
                 cases[i].fields);
        tl_shape in = shape_of(cases[i].in), out = shape_of(cases[i].out);
        tl_model *m = from_yaml(yaml, cases[i].dtype, in);
        char text[TL_SHAPE_TEXT];
        if (!tl_shape_equal(&m->output, &out))
            fail_msg("%s: %s", cases[i].type, tl_shape_text(text, &m->output));
        assert_int_equal(tl_model_measure(m).params, cases[i].params);
        assert_int_equal(tl_model_measure(m).state, cases[i].state);
        tl_tensor *x = cases[i].dtype == TL_I64 ? tl_zeros(c, TL_I64, in) : numbers(TL_F32, in);
        tl_tensor *y = tl_call(c, m->first, x);
        assert_ok(tl_ctx_status(c));
        assert_true(tl_shape_equal(&y->shape, &out));
        tl_model_free(&m);
    }
}

// What is written down is what was read.
static void choices_survive_being_written(void **state)
{
    (void)state;
    tl_config *a, *b;
    tl_str first = TL_STR_INIT, second = TL_STR_INIT;
    assert_ok(read_config(
        &a,
        "layer: {type: sequential, sequential: {layers: [{layer: {type: batch_norm, batch_norm: "
        "{momentum: 0, name: bn}}}]}}"));
    assert_ok(tl_config_write(&first, a, false));
    assert_ok(read_config(&b, tl_str_text(&first)));
    assert_ok(tl_config_write(&second, b, false));
    assert_string_equal(tl_str_text(&first), tl_str_text(&second));
    assert_non_null(strstr(tl_str_text(&first), "name: bn"));
    tl_str_deinit(&first);
    tl_str_deinit(&second);
    tl_config_free(&a);
    tl_config_free(&b);
}

static void a_zero_in_yaml_is_meant(void **state)
{
    (void)state;
    tl_model *m =
        from_yaml("layer: {type: batch_norm, batch_norm: {momentum: 0}}", TL_F32, TL_SHAPE(4, 2));
    tl_ctx_set_training(c, true);
    tl_tensor *x = numbers(TL_F32, TL_SHAPE(4, 2));
    tl_call(c, m, x);
    assert_same(param(m, "l/moving_mean"), tl_mean(c, x, TL_AXES(0), false), 1e-6);
    tl_model_free(&m);
    m = from_yaml("layer: {type: dense, dense: {units: 2, kernel_initializer: {type: "
                  "random_uniform, random_uniform: "
                  "{low: 0, high: 1}}, bias_initializer: {type: truncated_normal, "
                  "truncated_normal: {mean: 3, stddev: 0}}}}",
                  TL_F32, TL_SHAPE(2, 50));
    for (int64_t i = 0; i < 100; i++) assert_true(at(param(m, "l/kernel"), i) >= 0);
    assert_near(at(param(m, "l/bias"), 1), 3, 0);
    tl_model_free(&m);
    // Of a model that is a layer by itself, through its copy too.
    const tl_class *cls;
    tl_config *config;
    tl_model *copy;
    assert_ok(read_config(&config,
                          "layer: {type: embedding, embedding: {entries: 3, size: 2, scale: 0}}"));
    const tl_oneof *o = &((const holder *)tl_config_value(config))->layer;
    assert_ok(tl_registry_find(&cls, registry, &tl_kind_layer, o->type));
    assert_ok(try_class(&m, (const tl_layer_class *)cls, o->value, TL_F32, TL_I64, TL_SHAPE(2)));
    assert_ok(tl_model_copy(&copy, m));
    assert_near(at(tl_call(c, copy, tl_zeros(c, TL_I64, TL_SHAPE(2))), 0), 0, 0);
    tl_model_free(&copy);
    tl_model_free(&m);
    tl_config_free(&config);
}

static void names_come_from_three_places(void **state)
{
    (void)state;
    tl_model *m = from_yaml(
        "layer: {type: sequential, sequential: {layers: [{name: a, layer: {type: dense, dense: "
        "{units: 1, name: unused}}}, {layer: {type: dense, dense: {units: 1, name: b}}}, {layer: "
        "{type: flatten}}]}}",
        TL_F32, TL_SHAPE(2, 3));
    const tl_layer *l = m->first->first;
    assert_string_equal(l->path, "l/a");
    assert_string_equal(l->next->path, "l/b");
    assert_string_equal(l->next->next->path, "l/flatten_2");
    tl_model_free(&m);
}

/* --- literals --------------------------------------------------------------------------------- */

static void nested_literals(probe *p, tl_scope *s)
{
    p->part[0] = tl_residual(
        s, "l",
        .layers = TL_LAYERS({.layer = {.type = "dense", .value = &(tl_dense_config){.units = 3}}}),
        .shortcut = {
            .type = "sequential",
            .value = &(tl_sequential_config){
                .layers = TL_LAYERS(
                    {.layer = {.type = "dense", .value = &(tl_dense_config){.units = 5}}},
                    {.layer = {.type = "batch_norm"}},
                    {.name = "out",
                     .layer = {.type = "dense",
                               .value = &(tl_dense_config){.units = 3, .without_bias = true}}})}});
}

/* A list in a literal in a literal keeps its configurations, and gets its defaults. */
static void lists_in_literals_are_completed(void **state)
{
    (void)state;
    tl_model *m = make_model(&(recipe){nested_literals, NULL}, TL_F32, TL_F32, TL_SHAPE(2, 4));
    const tl_residual_config *k = m->first->config;
    const tl_sequential_config *shortcut = k->shortcut.value;
    const tl_layer_choice *list = shortcut->layers.items;
    assert_int_equal(((const tl_dense_config *)list[0].layer.value)->units, 5);
    assert_true(((const tl_batch_norm_config *)list[1].layer.value)->momentum.value == 0.99);
    assert_true(((const tl_dense_config *)list[2].layer.value)->without_bias);
    assert_shape(param(m, "l/shortcut/dense_0/kernel")->shape, 4, 5);
    assert_shape(param(m, "l/shortcut/out/kernel")->shape, 5, 3);
    assert_null(tl_model_find(m, "l/shortcut/out/bias"));
    tl_model_free(&m);
}

/* A configuration that was filled by defaults means its zeros, also in a list of a literal. */
static void zeros_of_complete_configurations_stay(void **state)
{
    (void)state;
    tl_batch_norm_config norm;
    tl_arena *arena;
    tl_model *m;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_desc_defaults(arena, tl_layer_batch_norm.cls.config, &norm));
    norm.momentum.value = 0;
    tl_sequential_config config = {
        .layers = TL_LAYERS({.layer = {.type = "batch_norm", .value = &norm}},
                            {.layer = {.type = "batch_norm",
                                       .value = &(tl_batch_norm_config){.epsilon = TL_SET(0.5)}}})};
    assert_ok(try_class(&m, &tl_layer_sequential, &config, TL_F32, TL_F32, TL_SHAPE(2, 5)));
    assert_true(((const tl_batch_norm_config *)m->first->config)->momentum.value == 0);
    assert_true(((const tl_batch_norm_config *)m->first->next->config)->momentum.value == 0.99);
    tl_model_free(&m);
    tl_arena_free(&arena);
}

/* --- required fields -------------------------------------------------------------------------- */

/* The number of fields that must be given and are not. */
static int64_t missing_fields(const tl_class *cls)
{
    tl_arena *arena;
    int64_t count, missing = 0;
    assert_ok(tl_arena_new(&arena));
    const tl_field **fields = tl_desc_sorted(arena, cls->config, &count);
    assert_non_null(fields);
    for (int64_t i = 0; i < count; i++) missing += (fields[i]->flags & TL_FIELD_REQUIRED) != 0;
    tl_arena_free(&arena);
    return missing;
}

/* Whatever ships is fine by default, or says which of its fields are required. */
static void a_class_says_what_it_requires(void **state)
{
    (void)state;
    tl_registry *all;
    int64_t demanding = 0;
    assert_ok(tl_registry_new_builtin(&all));
    for (int64_t k = 0; k < tl_registry_kind_count(all); k++) {
        const tl_kind *kind = tl_registry_kind_at(all, k);
        for (int64_t i = 0; i < tl_registry_count(all, kind); i++) {
            const tl_class *cls = tl_registry_at(all, kind, i);
            tl_arena *arena;
            void *value;
            if (!cls->config) continue;
            assert_ok(tl_arena_new(&arena));
            assert_ok(tl_desc_new(&value, arena, cls->config));
            tl_status st = tl_desc_check(cls->config, value);
            if (st == TL_EUNSUPPORTED) st = TL_OK; // there is no such optimizer to give fields to
            if ((st != TL_OK) != (missing_fields(cls) > 0))
                fail_msg("%s '%s' has %lld required fields, and its defaults give: %s", kind->name,
                         cls->name, (long long)missing_fields(cls),
                         st == TL_OK ? "no failure" : tl_error_message());
            demanding += st != TL_OK;
            tl_arena_free(&arena);
        }
    }
    assert_true(demanding >= 7);
    tl_registry_free(&all);
}

/* --- mistakes --------------------------------------------------------------------------------- */

static void mistakes_are_told(void **state)
{
    (void)state;
    tl_config *config;
    assert_fails(read_config(&config, "layer: {type: dens}"), TL_ENOTFOUND, "did you mean 'dense'");
    assert_fails(read_config(&config, "layer: {type: dense, dense: {unit: 3}}"), TL_ENOTFOUND,
                 "did you mean 'units'");
    assert_fails(read_config(&config, "layer: {type: dense}"), TL_EINVAL,
                 "units: it has no default and must be given");
    assert_fails(read_config(&config, "layer: {type: dense, dense: {units: 0}}"), TL_EINVAL,
                 "units");
    assert_fails(
        read_config(&config,
                    "layer: {type: conv1d, conv1d: {filters: 1, kernel: 1, stride_width: 2}}"),
        TL_ENOTFOUND, "stride_width");
    assert_fails(read_config(&config, "layer: {type: layer_norm, layer_norm: {momentum: 0.5}}"),
                 TL_ENOTFOUND, "momentum");
    assert_fails(read_config(&config, "layer: {type: dense, dense: {units: 1, activation: leaky}}"),
                 TL_EINVAL, "activation");
    assert_fails(read_config(&config, "layer: {type: max_pool, max_pool: {size: 0}}"), TL_EINVAL,
                 "size");
    assert_fails(read_config(&config,
                             "layer: {type: dense, dense: {units: 1, kernel_initializer: {type: "
                             "random_uniform, random_uniform: {low: 1, high: 0}}}}"),
                 TL_EINVAL, "low: it is 1 and must be below high, 0");
}

/* --- classes of one's own --------------------------------------------------------------------- */

typedef struct odd_config {
    int64_t size;
} odd_config;
static const tl_field odd_fields[] = {TL_F(odd_config, size, .help = "of it"), TL_F_END};
static const tl_desc odd_desc = {
    .name = "odd",
    .help = "odd",
    .size = sizeof(odd_config),
    .fields = odd_fields,
};

static tl_tensor *same_x(tl_layer *l, tl_ctx *ctx, tl_tensor *x)
{
    (void)l;
    (void)ctx;
    return x;
}

static void a_registered_layer_has_a_layers_configuration(void **state)
{
    (void)state;
    static const tl_layer_class odd = {
        .cls = TL_CLASS(tl_layer_class, "odd", NULL, tl_layer, &odd_desc, .help = "odd"),
        .forward = same_x,
    };
    static const tl_layer_class bare = {
        .cls = TL_CLASS(tl_layer_class, "bare", NULL, tl_layer, NULL, .help = "bare")};
    static const tl_entry odd_entry[] = {{&tl_kind_layer, &odd.cls}},
                          bare_entry[] = {{&tl_kind_layer, &bare.cls}};
    static const tl_module odd_module = {TL_MODULE_HEAD("odd"), odd_entry, 1};
    static const tl_module bare_module = {TL_MODULE_HEAD("bare"), bare_entry, 1};
    assert_fails(tl_registry_add(registry, &odd_module), TL_EINVAL, "does not derive from 'layer'");
    assert_fails(tl_registry_add(registry, &bare_module), TL_EINVAL,
                 "it has neither 'forward' nor 'forward_all'");
    tl_model *m; // without being registered it may have any
    assert_ok(try_class(&m, &odd, &(odd_config){3}, TL_F32, TL_F32, TL_SHAPE(2)));
    assert_int_equal(((const odd_config *)m->config)->size, 3);
    tl_model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(every_layer_has_a_name),
        LAB_TEST(choices_survive_being_written),
        LAB_TEST(a_zero_in_yaml_is_meant),
        LAB_TEST(names_come_from_three_places),
        LAB_TEST(mistakes_are_told),
        LAB_TEST(a_registered_layer_has_a_layers_configuration),
        LAB_TEST(lists_in_literals_are_completed),
        LAB_TEST(zeros_of_complete_configurations_stay),
        LAB_TEST(a_class_says_what_it_requires),
    };
    return cmocka_run_group_tests(tests, open_registry, close_registry);
}
