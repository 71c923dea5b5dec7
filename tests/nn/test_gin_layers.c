/* gin names layers, initialisers and regularisers: what it makes is what YAML makes. */
#include "nn/choice.h"

#include <tilth/base/alloc.h>
#include <tilth/desc/gin.h>

/* A model of one's own, with a layer of somebody else's inside. */
typedef struct my_model_config {
    tl_layer_config layer;
    int64_t width; /* required */
    tl_oneof head;
} my_model_config;
static const tl_field my_model_fields[] = {
    TL_F(my_model_config, width, TL_AT_LEAST(1), .flags = TL_FIELD_REQUIRED, .help = "of the body"),
    TL_F(my_model_config, head, .kind = &tl_kind_layer, .help = "the last layer"),
    TL_F_END,
};
static const tl_desc my_model_desc = {
    .name = "my_model",
    .help = "a model",
    .size = sizeof(my_model_config),
    .fields = my_model_fields,
    .base = &tl_layer_config_desc,
};

static tl_status my_model_build(tl_layer *l, tl_scope *s, const void *config)
{
    const my_model_config *k = config;
    (void)l;
    tl_dense(s, "body", .units = k->width);
    (void)tl_scope_layer_of(s, "head", &k->head);
    return tl_scope_status(s);
}

static tl_tensor *my_model_forward(tl_layer *l, tl_ctx *ctx, tl_tensor *x)
{
    for (tl_layer *part = l->first; part; part = part->next) x = tl_call(ctx, part, x);
    return x;
}

static const tl_layer_class my_model = {
    .cls = TL_CLASS(tl_layer_class, "my_model", NULL, tl_layer, &my_model_desc, .help = "a model"),
    .build = my_model_build,
    .forward = my_model_forward,
};

/* A configurable that takes layers as references, to be made now or later. */
typedef struct pair_args {
    tl_ref now, later;
    tl_oneof initializer;
} pair_args;
static const tl_field pair_fields[] = {
    TL_F(pair_args, now, .kind = &tl_kind_layer, .help = "a layer"),
    TL_F(pair_args, later, .help = "anything"),
    TL_F(pair_args, initializer, .kind = &tl_kind_initializer, .help = "of both"),
    TL_F_END,
};
static const tl_desc pair_desc = {
    .name = "pair",
    .help = "arguments",
    .size = sizeof(pair_args),
    .fields = pair_fields,
};
static tl_oneof *made[3];
static tl_status pair_call(void **out, tl_gin *gin, const void *args)
{
    const pair_args *a = args;
    void *first, *second;
    TL_TRY(tl_gin_call_ref(&first, gin, &a->later));
    TL_TRY(tl_gin_call_ref(&second, gin, &a->later));
    made[0] = a->now.object;
    made[1] = first;
    made[2] = second;
    *out = made;
    return TL_OK;
}
static const tl_configurable_class pair = {
    .cls = TL_CONFIGURABLE("tests.pair", &pair_desc, .help = "two layers"),
    .call = pair_call,
};

static const tl_entry entries[] = {{&tl_kind_layer, &my_model.cls},
                                   {&tl_kind_configurable, &pair.cls}};
static const tl_module module = {TL_MODULE_HEAD("gin_layers_test"), entries, TL_COUNT(entries)};

/* --- the same from gin and from YAML ---------------------------------------------------------- */

static tl_gin *gin;

static int open_all(void **state)
{
    open_registry(state);
    assert_ok(tl_registry_add(registry, &module));
    return 0;
}

static int new_gin(void **state)
{
    assert_ok(tl_gin_new(&gin, registry));
    return fresh(state);
}

static int free_gin(void **state)
{
    (void)state;
    tl_gin_free(&gin);
    return 0;
}

static tl_model *model_of(const tl_oneof *choice, tl_dtype dtype, tl_shape shape)
{
    const tl_class *cls;
    tl_model *m;
    tl_spec input = {"x", dtype, shape};
    assert_ok(tl_registry_find(&cls, registry, &tl_kind_layer, choice->type));
    assert_ok(tl_model_new(&m, &(tl_model_args){.engine = engine,
                                                .cls = (const tl_layer_class *)cls,
                                                .config = choice->value,
                                                .inputs = &input,
                                                .input_count = 1,
                                                .seed = 5,
                                                .registry = registry}));
    return m;
}

static void assert_same_models(tl_model *a, tl_model *b, tl_dtype dtype, tl_shape shape)
{
    tl_str p = TL_STR_INIT, q = TL_STR_INIT;
    tl_model_summary(a, &p);
    tl_model_summary(b, &q);
    assert_string_equal(tl_str_text(&p), tl_str_text(&q));
    tl_str_deinit(&p);
    tl_str_deinit(&q);
    tl_tensor *x = dtype == TL_I64 ? tl_ones(c, dtype, shape) : numbers(dtype, shape);
    tl_tensor *y = tl_call(c, a, x), *z = tl_call(c, b, x);
    assert_ok(tl_ctx_status(c));
    size_t bytes = tl_tensor_bytes(y);
    char left[65536], right[65536];
    assert_true(bytes <= sizeof left && bytes == tl_tensor_bytes(z));
    assert_ok(tl_tensor_get(y, left, bytes));
    assert_ok(tl_tensor_get(z, right, bytes));
    assert_memory_equal(left, right, bytes);
}

/* Calls `name` after reading the text, and compares with what the YAML makes. */
static void compare(const char *text, const char *name, const char *yaml, tl_dtype dtype,
                    tl_shape shape)
{
    tl_config *config;
    void *object;
    assert_ok(tl_gin_parse(gin, text, "t.gin"));
    assert_ok(tl_gin_finalize(gin));
    assert_ok(tl_gin_call_name(&object, gin, name));
    assert_ok(read_config(&config, yaml));
    const holder *wanted = tl_config_value(config);
    holder found = {*(const tl_oneof *)object};
    if (!tl_desc_equal(&holder_desc, &found, wanted))
        fail_msg("gin:\n%s\nis not YAML:\n%s", text, yaml);
    tl_model *a = model_of(&found.layer, dtype, shape);
    tl_model *b = model_of(&wanted->layer, dtype, shape);
    tl_config_free(&config);
    assert_same_models(a, b, dtype, shape);
    tl_model_free(&a);
    tl_model_free(&b);
}

static const struct {
    const char *type, *name, *text, *fields;
    tl_dtype dtype;
    int64_t in[4]; /* up to the first 0 */
} cases[] = {
    {"dense",
     "Dense",
     "Dense.units = 5\nDense.activation = 'gelu'\nDense.kernel_initializer = @HeNormal()\n"
     "Dense.kernel_regularizer = @L2()\nL2.l2 = 0.5\n",
     "units: 5, activation: gelu, kernel_initializer: {type: he_normal}, kernel_regularizer: "
     "{type: l2, l2: {l2: 0.5}}",
     TL_F32,
     {2, 4}},
    {"embedding",
     "Embedding",
     "Embedding:\n  entries = 9\n  size = 3\n  initializer = @TruncatedNormal()\n"
     "TruncatedNormal.stddev = 0.02\n",
     "entries: 9, size: 3, initializer: {type: truncated_normal, truncated_normal: {stddev: "
     "0.02}}",
     TL_I64,
     {2, 4}},
    {"conv1d",
     "Conv1D",
     "Conv1D.filters = 4\nConv1D.kernel = 3\nConv1D.padding = 'same'\n"
     "Conv1D.kernel_initializer = 'he_normal'\n", // by its name, as in Keras
     "filters: 4, kernel: 3, padding: same, kernel_initializer: {type: he_normal}",
     TL_F32,
     {2, 8, 3}},
    {"conv2d",
     "Conv2D",
     "Conv2D.filters = 4\nConv2d.kernel = 3\nconv2d.stride = 2\n"
     "Conv2D.kernel_initializer = 'HeNormal'\n",
     "filters: 4, kernel: 3, stride: 2, kernel_initializer: {type: he_normal}",
     TL_F32,
     {2, 5, 5, 3}},
    {"conv2d_transpose",
     "Conv2DTranspose",
     "Conv2DTranspose.filters = 2\nConv2DTranspose.kernel = 2\nConv2DTranspose.stride = 2\n",
     "filters: 2, kernel: 2, stride: 2",
     TL_F32,
     {2, 3, 3, 4}},
    {"depthwise_conv2d",
     "DepthwiseConv2D",
     "DepthwiseConv2D.kernel = 3\n",
     "kernel: 3",
     TL_F32,
     {2, 5, 5, 3}},
    {"layer_norm", "layers.LayerNorm", "LayerNorm.epsilon = 0.1\n", "epsilon: 0.1", TL_F32, {2, 6}},
    {"rms_norm", "RmsNorm", "RMSNorm.frozen = True\n", "frozen: true", TL_F32, {2, 6}},
    {"batch_norm", "batch_norm", "BatchNorm.momentum = 0.0\n", "momentum: 0", TL_F32, {2, 6}},
    {"group_norm", "GroupNorm", "GroupNorm.groups = 2\n", "groups: 2", TL_F32, {2, 3, 6}},
    {"attention",
     "Attention",
     "Attention.heads = 2\nAttention.causal = True\n",
     "heads: 2, causal: true",
     TL_F32,
     {2, 3, 8}},
    {"activation",
     "Activation",
     "Activation.function = 'softplus'\n",
     "function: softplus",
     TL_F32,
     {2, 6}},
    {"dropout", "Dropout", "Dropout.rate = %rate\nrate = 0.1\n", "rate: 0.1", TL_F32, {2, 6}},
    {"stochastic_depth",
     "StochasticDepth",
     "StochasticDepth.rate = 0.1\n",
     "rate: 0.1",
     TL_F32,
     {2, 6}},
    {"max_pool",
     "MaxPool",
     "MaxPool.size = 3\nMaxPool.stride = 1\n",
     "size: 3, stride: 1",
     TL_F32,
     {2, 4, 4, 3}},
    {"avg_pool", "AvgPool", "", "", TL_F32, {2, 4, 4, 3}},
    {"global_avg_pool", "GlobalAvgPool", "", "", TL_F32, {2, 4, 4, 3}},
    {"global_max_pool", "GlobalMaxPool", "", "", TL_F32, {2, 4, 4, 3}},
    {"flatten", "Flatten", "", "", TL_F32, {2, 4, 3}},
    {"sequential",
     "Sequential",
     "Sequential.layers = [@up/Dense(), @Dropout(), {'name': 'out', 'layer': @down/Dense()},\n"
     "                     @inner/Sequential()]\n"
     "inner/Sequential.layers = [@Flatten()]\n"
     "Dense.activation = 'relu'\nDense.kernel_initializer = @VarianceScaling()\n"
     "up/Dense.units = 5\nup/Dense.name = 'first'\n"
     "down/Dense.units = 3\ndown/Dense.kernel_initializer = None\n"
     "VarianceScaling.scale = 2.0\nVarianceScaling.mode = 'fan_out'\n",
     "layers: [{layer: {type: dense, dense: {units: 5, name: first, activation: relu, "
     "kernel_initializer: {type: variance_scaling, variance_scaling: {scale: 2, mode: "
     "fan_out}}}}}, {layer: {type: dropout}}, {name: out, layer: {type: dense, dense: {units: 3, "
     "activation: relu}}}, {layer: {type: sequential, sequential: {layers: [{layer: {type: "
     "flatten}}]}}}]",
     TL_F32,
     {2, 4}},
    {"residual",
     "Residual",
     "Residual.layers = [@body/Dense()]\nResidual.shortcut = @Dense()\n"
     "Dense.units = 5\nDense.without_bias = True\nbody/Dense.without_bias = False\n",
     "layers: [{layer: {type: dense, dense: {units: 5}}}], shortcut: {type: dense, dense: {units: "
     "5, without_bias: true}}",
     TL_F32,
     {2, 4}},
    {"my_model",
     "my_model",
     "my_model.width = 6\nmy_model.head = @last/Dense()\nlast/Dense.units = 3\n"
     "last/Dense.activation = 'tanh'\nDense.units = 32\n",
     "width: 6, head: {type: dense, dense: {units: 3, activation: tanh}}",
     TL_F32,
     {2, 4}},
};

static void every_layer_is_the_same_in_gin(void **state)
{
    assert_int_equal(tl_registry_count(registry, &tl_kind_layer), TL_COUNT(cases));
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        char yaml[1024];
        int rank = 0;
        while (rank < 4 && cases[i].in[rank]) rank++;
        snprintf(yaml, sizeof yaml, "layer: {type: %s, %s: {%s}}", cases[i].type, cases[i].type,
                 cases[i].fields);
        compare(cases[i].text, cases[i].name, yaml, cases[i].dtype, tl_shape_of(rank, cases[i].in));
        free_gin(state);
        new_gin(state);
    }
}

static void initializers_and_regularizers_have_names_too(void **state)
{
    (void)state;
    const tl_kind *kinds[] = {&tl_kind_initializer, &tl_kind_regularizer};
    for (int64_t k = 0; k < TL_COUNT(kinds); k++) {
        for (int64_t i = 0; i < tl_registry_count(registry, kinds[k]); i++) {
            const tl_class *cls = tl_registry_at(registry, kinds[k], i);
            char name[128];
            void *object;
            snprintf(name, sizeof name, "%s.%s", kinds[k]->plural, cls->name);
            assert_ok(tl_gin_call_name(&object, gin, name));
            const tl_oneof *o = object;
            assert_string_equal(o->type, cls->name);
            assert_ptr_equal(o->desc, cls->config);
            assert_true(!o->desc == !o->value);
        }
    }
}

/* --- references ------------------------------------------------------------------------------- */

static void configurables_take_layers(void **state)
{
    (void)state;
    void *object;
    assert_ok(tl_gin_parse(gin,
                           "pair.now = @a/Dense()\npair.later = @b/Dense\n"
                           "pair.initializer = @Zeros()\n"
                           "Dense.units = 1\na/Dense.units = 2\nb/Dense.units = 3\n",
                           "t.gin"));
    assert_ok(tl_gin_finalize(gin));
    assert_ok(tl_gin_call_name(&object, gin, "pair"));
    assert_int_equal(((const tl_dense_config *)made[0]->value)->units, 2);
    assert_int_equal(((const tl_dense_config *)made[1]->value)->units, 3);
    assert_int_equal(((const tl_dense_config *)made[2]->value)->units, 3);
    assert_ptr_not_equal(made[1]->value, made[2]->value); // each call makes its own
    assert_string_equal(made[1]->type, "dense");
    assert_ptr_equal(made[1]->desc, tl_layer_dense.cls.config);
}

static const tl_value *yaml_value(tl_arena *arena, const char *text)
{
    const tl_value *v;
    assert_ok(tl_yaml_parse(&v, arena, text, strlen(text), "t.yaml"));
    return v;
}

static void targets_name_layers(void **state)
{
    (void)state;
    tl_arena *arena;
    void *object;
    assert_ok(tl_arena_new(&arena));
    const tl_value *v = yaml_value(arena, "{_target_: my_model, width: 4, head: {_target_: Dense, "
                                          "units: 2, kernel_initializer: {_target_: Ones}}}");
    assert_ok(tl_instantiate(&object, gin, v));
    const my_model_config *k = ((const tl_oneof *)object)->value;
    assert_string_equal(k->head.type, "dense");
    const tl_dense_config *dense = k->head.value;
    assert_int_equal(dense->units, 2);
    assert_string_equal(dense->kernel_initializer.type, "ones");
    v = yaml_value(arena, "{_target_: my_model, width: 4, head: {_target_: Ones}}");
    assert_fails(tl_instantiate(&object, gin, v), TL_EINVAL,
                 "head: expected one of the layers, found the initializer 'ones'");
    tl_arena_free(&arena);
}

static void what_was_used_is_written(void **state)
{
    (void)state;
    void *object;
    tl_str text = TL_STR_INIT, again = TL_STR_INIT;
    assert_ok(tl_gin_parse(gin,
                           "my_model.width = 6\nmy_model.head = @last/Dense()\n"
                           "Dense.units = 3\nlast/Dense.kernel_initializer = @HeNormal()\n",
                           "t.gin"));
    assert_ok(tl_gin_call_name(&object, gin, "my_model"));
    assert_ok(tl_gin_operative(&text, gin));
    assert_string_equal(tl_str_text(&text),
                        "# Parameters for last/Dense:\n"
                        "# ==================================================================="
                        "===========\n"
                        "last/Dense.activation = 'none'\n"
                        "last/Dense.bias_initializer = None\n"
                        "last/Dense.bias_regularizer = None\n"
                        "last/Dense.frozen = False\n"
                        "last/Dense.group = ''\n"
                        "last/Dense.kernel_initializer = @HeNormal()\n"
                        "last/Dense.kernel_regularizer = None\n"
                        "last/Dense.name = ''\n"
                        "last/Dense.units = 3\n"
                        "last/Dense.without_bias = False\n"
                        "\n"
                        "# Parameters for last/HeNormal:\n"
                        "# ==================================================================="
                        "===========\n"
                        "# None.\n"
                        "\n"
                        "# Parameters for MyModel:\n"
                        "# ==================================================================="
                        "===========\n"
                        "MyModel.frozen = False\n"
                        "MyModel.group = ''\n"
                        "MyModel.head = @last/Dense()\n"
                        "MyModel.name = ''\n"
                        "MyModel.width = 6\n");
    // Read back, it means the same.
    holder first = {*(const tl_oneof *)object};
    tl_gin *other;
    assert_ok(tl_gin_new(&other, registry));
    assert_ok(tl_gin_parse(other, tl_str_text(&text), "operative.gin"));
    assert_ok(tl_gin_finalize(other));
    assert_ok(tl_gin_call_name(&object, other, "MyModel"));
    holder second = {*(const tl_oneof *)object};
    assert_true(tl_desc_equal(&holder_desc, &first, &second));
    assert_ok(tl_gin_operative(&again, other));
    assert_string_equal(tl_str_text(&again), tl_str_text(&text));
    tl_gin_free(&other);
    tl_str_deinit(&text);
    tl_str_deinit(&again);
}

/* --- mistakes --------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    tl_status code;
    const char *message;
} mistakes[] = {
    {"Dens.units = 3", TL_ENOTFOUND,
     "t.gin:1:1: Dens.units: there is no configurable 'Dens', did you mean 'Dense'?"},
    {"Dense.unit = 3", TL_ENOTFOUND,
     "t.gin:1:1: Dense.unit: 'layers.Dense' has no parameter 'unit', did you mean 'units'?"},
    {"Dense.units = 'many'", TL_EINVAL,
     "t.gin:1:15: Dense.units: expected an integer, found the string \"many\""},
    {"Dense.units = 0", TL_EINVAL, "Dense.units: "},
    {"a/Dense.activation = gelu", TL_EINVAL, "t.gin:1:22"},
    {"Dense.activation = 'leaky'", TL_EINVAL, "Dense.activation: expected none, relu"},
    {"Dense.kernel_initializer = @Dense()", TL_EINVAL,
     "t.gin:1:28: Dense.kernel_initializer: expected one of the initializers, found the layer "
     "'dense'"},
    {"Dense.kernel_initializer = @pair()", TL_EINVAL,
     "expected one of the initializers, found the configurable 'tests.pair'"},
    {"Dense.kernel_initializer = @HeNormal", TL_EINVAL, "expected a choice such as @name()"},
    {"Dense.kernel_initializer = 3", TL_EINVAL, "expected a choice such as @name()"},
    {"Dense.kernel_initializer = 'he_norml'", TL_ENOTFOUND,
     "Dense.kernel_initializer: unknown type 'he_norml', did you mean 'he_normal'?"},
    {"Dense.kernel_initializer = @HeNorml()", TL_ENOTFOUND, "did you mean 'HeNormal'?"},
    {"Dense.kernel_initializer = {'type': 'he_norml'}", TL_ENOTFOUND, "did you mean 'he_normal'?"},
    {"Dense.units = @Dense()", TL_EINVAL, "Dense.units: expected an integer, found "},
    {"Sequential.layers = [@Flatten(), @HeNormal()]", TL_EINVAL,
     "Sequential.layers[1]: expected one of the layers, found the initializer 'he_normal'"},
    {"Sequential.layers = @Flatten()", TL_EINVAL, "Sequential.layers: expected a list of struct"},
    {"pair.now = @HeNormal()", TL_EINVAL,
     "pair.now: expected a reference to one of the layers, found the initializer 'he_normal'"},
};

static void mistakes_are_told(void **state)
{
    for (int64_t i = 0; i < TL_COUNT(mistakes); i++) {
        tl_status st = tl_gin_parse(gin, mistakes[i].text, "t.gin");
        if (st == TL_OK) st = tl_gin_finalize(gin);
        if (st != mistakes[i].code || !strstr(tl_error_message(), mistakes[i].message))
            fail_msg("'%s' gave %s: %s\nwhich lacks: %s", mistakes[i].text, tl_status_name(st),
                     tl_error_message(), mistakes[i].message);
        free_gin(state);
        new_gin(state);
    }
}

static void calls_tell_what_is_missing(void **state)
{
    (void)state;
    void *object;
    assert_fails(tl_gin_call_name(&object, gin, "Dense"), TL_EINVAL,
                 "layers.Dense: required parameters have no value; bind Dense.units in gin");
    assert_null(object);
    assert_ok(tl_gin_parse(gin, "my_model.width = 1\nmy_model.head = @deep/er/Dense()", "t.gin"));
    assert_ok(tl_gin_finalize(gin));
    assert_fails(tl_gin_call_name(&object, gin, "my_model"), TL_EINVAL,
                 "layers.MyModel: argument head (t.gin:2:1): deep/er/layers.Dense: required "
                 "parameters have no value; bind deep/er/Dense.units in gin");
    tl_gin_unlock(gin);
    assert_ok(tl_gin_parse(gin,
                           "Dense.units = 2\nDense.bias_initializer = @RandomUniform()\n"
                           "RandomUniform.low = 1.0\n",
                           "t.gin"));
    assert_fails(tl_gin_call_name(&object, gin, "Dense"), TL_EINVAL,
                 "low: it is 1 and must be below high");
    assert_fails(tl_gin_call_name(&object, gin, "Dence"), TL_ENOTFOUND, "did you mean 'Dense'?");
}

/* A module that comes later may make a name mean two things. */
static void names_may_become_ambiguous(void **state)
{
    (void)state;
    static const tl_configurable_class other = {
        .cls = TL_CONFIGURABLE("others.Dense", NULL, .help = "another"),
        .call = pair_call,
    };
    static const tl_entry entry[] = {{&tl_kind_configurable, &other.cls}};
    static const tl_module others = {TL_MODULE_HEAD("others"), entry, 1};
    tl_registry *own;
    tl_gin *g;
    void *object;
    assert_ok(tl_registry_new(&own));
    assert_ok(tl_registry_add(own, &tl_layers_module));
    assert_ok(tl_gin_new(&g, own));
    assert_ok(tl_gin_parse(g, "Dense.units = 3", "t.gin"));
    assert_ok(tl_gin_call_name(&object, g, "Dense"));
    assert_ok(tl_registry_add(own, &others));
    assert_fails(tl_gin_call_name(&object, g, "Dense"), TL_EINVAL,
                 "'Dense' is ambiguous: it could be others.Dense, layers.Dense");
    tl_gin_free(&g);
    assert_ok(tl_gin_new(&g, own));
    assert_ok(tl_gin_parse(g, "layers.Dense.units = 3\ndense.activation = 'relu'", "t.gin"));
    assert_ok(tl_gin_call_name(&object, g, "layers.Dense"));
    const tl_dense_config *k = ((const tl_oneof *)object)->value;
    assert_true(k->units == 3 && k->activation == TL_ACT_RELU);
    tl_gin_free(&g);
    tl_registry_free(&own);
}

/* Two names that differ by the way they are written alone. */
static void names_of_one_spelling_are_told_apart(void **state)
{
    (void)state;
    static const tl_layer_class snake = {
        .cls = TL_CLASS(tl_layer_class, "two_words", NULL, tl_layer, &my_model_desc, .help = "one"),
        .forward = my_model_forward,
    };
    static const tl_layer_class camel = {
        .cls = TL_CLASS(tl_layer_class, "TwoWords", NULL, tl_layer, &my_model_desc, .help = "two"),
        .forward = my_model_forward,
    };
    static const tl_entry entry[] = {{&tl_kind_layer, &snake.cls}, {&tl_kind_layer, &camel.cls}};
    static const tl_module words = {TL_MODULE_HEAD("words"), entry, 2};
    tl_registry *own;
    tl_gin *g;
    void *object;
    assert_ok(tl_registry_new(&own));
    assert_ok(tl_registry_add(own, &words));
    assert_ok(tl_gin_new(&g, own));
    assert_ok(tl_gin_parse(g, "two_words.width = 1\nTwoWords.width = 2", "t.gin"));
    assert_ok(tl_gin_call_name(&object, g, "two_words"));
    assert_string_equal(((const tl_oneof *)object)->type, "two_words");
    assert_int_equal(((const my_model_config *)((const tl_oneof *)object)->value)->width, 1);
    assert_ok(tl_gin_call_name(&object, g, "TwoWords"));
    assert_string_equal(((const tl_oneof *)object)->type, "TwoWords");
    assert_int_equal(((const my_model_config *)((const tl_oneof *)object)->value)->width, 2);
    assert_fails(tl_gin_call_name(&object, g, "Two_words"), TL_EINVAL,
                 "'Two_words' is ambiguous: it could be layers.TwoWords, layers.two_words");
    tl_gin_free(&g);
    tl_registry_free(&own);
}

static tl_status read_and_call(void)
{
    tl_gin *g;
    void *object;
    tl_str text = TL_STR_INIT;
    TL_TRY(tl_gin_new(&g, registry));
    tl_status st;
    TL_TRY_DONE(st, tl_gin_parse(g, cases[TL_COUNT(cases) - 3].text, "t.gin"));
    TL_TRY_DONE(st, tl_gin_finalize(g));
    TL_TRY_DONE(st, tl_gin_call_name(&object, g, "Sequential"));
    TL_TRY_DONE(st, tl_gin_operative(&text, g));
done:
    tl_str_deinit(&text);
    tl_gin_free(&g);
    return st;
}

static void allocations_may_fail(void **state)
{
    (void)state;
    int64_t before = tl_alloc_calls();
    assert_ok(read_and_call());
    int64_t calls = tl_alloc_calls() - before;
    for (int64_t nth = 1; nth <= calls; nth++) {
        tl_alloc_fail_at(nth, 1);
        tl_status st = read_and_call();
        tl_alloc_fail_at(0, 0);
        if (st != TL_ENOMEM)
            fail_msg("allocation %lld: %s: %s", (long long)nth, tl_status_name(st),
                     tl_error_message());
    }
}

#define GIN_TEST(f) cmocka_unit_test_setup_teardown(f, new_gin, free_gin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        GIN_TEST(every_layer_is_the_same_in_gin),
        GIN_TEST(initializers_and_regularizers_have_names_too),
        GIN_TEST(configurables_take_layers),
        GIN_TEST(targets_name_layers),
        GIN_TEST(what_was_used_is_written),
        GIN_TEST(mistakes_are_told),
        GIN_TEST(calls_tell_what_is_missing),
        GIN_TEST(names_may_become_ambiguous),
        GIN_TEST(names_of_one_spelling_are_told_apart),
        GIN_TEST(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, open_all, close_registry);
}
