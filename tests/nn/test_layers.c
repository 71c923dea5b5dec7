/* Every layer against the formula that its header gives, written with ops: results and gradients.
 * Then what random layers draw, and attention with masks, keys and shared heads.
 * runs: fake device */
#include "nn/lab.h"

typedef tl_tensor *formula(const tl_model *m, tl_tensor *x);

/* Compares a model with a formula in float64: values, and gradients by the input and all
 * parameters. */
static void check_training(const recipe *r, tl_dtype dtype, tl_shape shape, formula *by_hand,
                           bool training)
{
    tl_model *m = make_model(r, TL_F64, dtype, shape);
    scramble(m);
    tl_ctx_set_taping(c, true);
    tl_ctx_set_training(c, training);
    tl_tensor *x = dtype == TL_F64 ? numbers(dtype, shape)
                                   : tl_cast(c, tl_affine(c, numbers(TL_F64, shape), 1, 2), dtype);
    if (dtype == TL_F64) assert_ok(tl_watch(x));
    tl_tensor *y = tl_call(c, m, x), *want = by_hand(m, x);
    assert_same(y, want, 1e-12);
    tl_tensor *by[32], *found[32], *wanted[32];
    int64_t n = 0;
    if (dtype == TL_F64) by[n++] = x;
    for (int64_t i = 0; i < tl_model_param_count(m); i++)
        if (tl_model_param(m, i)->trainable) by[n++] = tl_model_param(m, i)->tensor;
    if (n) {
        tl_tensor *weights = numbers(TL_F64, y->shape);
        assert_ok(tl_gradient(c, tl_sum(c, tl_mul(c, y, weights), TL_ALL, false), by, n, found));
        assert_ok(
            tl_gradient(c, tl_sum(c, tl_mul(c, want, weights), TL_ALL, false), by, n, wanted));
    }
    for (int64_t i = 0; i < n; i++) assert_same(found[i], wanted[i], 1e-11);
    tl_ctx_set_taping(c, false);
    tl_ctx_set_training(c, false);
    tl_model_free(&m);
}

static void check(const recipe *r, tl_dtype dtype, tl_shape shape, formula *by_hand)
{
    check_training(r, dtype, shape, by_hand, false);
}

/* A test of one layer: how it is made, the shape of its input, its formula. */
#define LAYER(test, dtype, shape, made, ...)                                                       \
    static void test##_build(probe *p, tl_scope *s)                                                \
    {                                                                                              \
        p->part[0] = made;                                                                         \
    }                                                                                              \
    static tl_tensor *test##_formula(const tl_model *m, tl_tensor *x)                              \
    {                                                                                              \
        (void)m;                                                                                   \
        __VA_ARGS__;                                                                               \
    }                                                                                              \
    static void test(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        check(&(recipe){test##_build, NULL}, dtype, shape, test##_formula);                        \
    }

/* --- dense, embedding ------------------------------------------------------------------------- */

LAYER(dense, TL_F64, TL_SHAPE(2, 3, 4), tl_dense(s, "l", .units = 5, .activation = TL_ACT_TANH),
      return tl_tanh(c, tl_add(c, tl_matmul(c, x, param(m, "l/kernel")), param(m, "l/bias"))))
LAYER(dense_without_bias, TL_F64, TL_SHAPE(3, 4),
      tl_dense(s, "l", .units = 5, .without_bias = true), assert_null(tl_model_find(m, "l/bias"));
      return tl_matmul(c, x, param(m, "l/kernel")))
LAYER(dense_mish, TL_F64, TL_SHAPE(3, 4), tl_dense(s, "l", .units = 5, .activation = TL_ACT_MISH),
      return tl_mish(c, tl_add(c, tl_matmul(c, x, param(m, "l/kernel")), param(m, "l/bias"))))
LAYER(embedding, TL_I64, TL_SHAPE(2, 3),
      tl_embedding(s, "l", .entries = 5, .size = 4, .scale = TL_SET(3)),
      return tl_scale(c, tl_matmul(c, tl_one_hot(c, x, 5, TL_F64), param(m, "l/table")), 3))

/* --- convolution: a sum over the window ------------------------------------------------------- */

// kernel[i, j] of a kernel [height, width, a, b]
static tl_tensor *tap(tl_tensor *kernel, int64_t i, int64_t j)
{
    return tl_take(c, tl_take(c, kernel, 0, i), 0, j);
}

// What tap (i, j) sees of an image: `count` places down and across from there on.
static tl_tensor *seen(tl_tensor *x, int64_t i, int64_t j, int64_t step, int64_t count)
{
    x = tl_slice(c, x, 1, i, i + (count - 1) * step + 1, step);
    return tl_slice(c, x, 2, j, j + (count - 1) * step + 1, step);
}

LAYER(conv2d, TL_F64, TL_SHAPE(2, 7, 7, 3),
      tl_conv2d(s, "l", .filters = 4, .kernel = 3, .stride = 2, .activation = TL_ACT_ELU),
      tl_tensor *sum = param(m, "l/bias");
      for (int i = 0; i < 9; i++) sum = tl_add(c, sum,
                                               tl_matmul(c, seen(x, i / 3, i % 3, 2, 3),
                                                         tap(param(m, "l/kernel"), i / 3, i % 3)));
      return tl_elu(c, sum, 1))
LAYER(conv2d_padded, TL_F64, TL_SHAPE(1, 4, 4, 2),
      tl_conv2d(s, "l", .filters = 3, .kernel = 3, .padding = TL_EXPLICIT, .pad = 1,
                .without_bias = true),
      tl_tensor *sum = tl_number(c, TL_F64, 0);
      tl_tensor *wide = tl_pad(c, x, .before = {0, 1, 1}, .after = {0, 1, 1});
      for (int i = 0; i < 9; i++) sum = tl_add(c, sum,
                                               tl_matmul(c, seen(wide, i / 3, i % 3, 1, 4),
                                                         tap(param(m, "l/kernel"), i / 3, i % 3)));
      return sum)
LAYER(conv2d_groups, TL_F64, TL_SHAPE(2, 2, 2, 4),
      tl_conv2d(s, "l", .filters = 6, .kernel = 1, .groups = 2, .without_bias = true),
      tl_tensor *k = tap(param(m, "l/kernel"), 0, 0);
      tl_tensor
          * halves[2] = {tl_matmul(c, tl_slice(c, x, 3, 0, 2, 1), tl_slice(c, k, 1, 0, 3, 1)),
                         tl_matmul(c, tl_slice(c, x, 3, 2, 4, 1), tl_slice(c, k, 1, 3, 6, 1))};
      return tl_concat(c, halves, 2, 3))
LAYER(
    conv2d_transpose, TL_F64, TL_SHAPE(2, 3, 3, 2),
    tl_conv2d_transpose(s, "l", .filters = 4, .kernel = 2, .stride = 2),
    tl_tensor *sum = param(m, "l/bias");
    for (int i = 0; i < 4; i++) {
        tl_tensor *part =
            tl_matmul_with(c, x, tap(param(m, "l/kernel"), i / 2, i % 2), false, true);
        const int64_t starts[4] = {0, i / 2, i % 2, 0};
        const int64_t steps[4] = {1, 2, 2, 1};
        sum = tl_add(c, sum, tl_unslice(c, part, TL_SHAPE(2, 6, 6, 4), starts, steps, 4));
    } return sum)
LAYER(depthwise, TL_F64, TL_SHAPE(2, 4, 4, 3),
      tl_depthwise_conv2d(s, "l", .kernel = 2, .multiplier = 2),
      tl_tensor *sum = tl_number(c, TL_F64, 0);
      for (int i = 0; i < 4; i++)
          sum = tl_add(c, sum,
                       tl_mul(c, tl_expand_dims(c, seen(x, i / 2, i % 2, 1, 3), 4),
                              tap(param(m, "l/kernel"), i / 2, i % 2)));
      return tl_add(c, tl_reshape(c, sum, TL_SHAPE(2, 3, 3, 6)), param(m, "l/bias")))
LAYER(conv1d, TL_F64, TL_SHAPE(2, 9, 3),
      tl_conv1d(s, "l", .filters = 4, .kernel = 3, .dilation = 2),
      tl_tensor *sum = param(m, "l/bias");
      for (int i = 0; i < 3; i++) sum = tl_add(c, sum,
                                               tl_matmul(c, tl_slice(c, x, 1, 2 * i, 2 * i + 5, 1),
                                                         tl_take(c, param(m, "l/kernel"), 0, i)));
      return sum)

/* --- normalisation ---------------------------------------------------------------------------- */

static tl_tensor *normal(tl_tensor *x, tl_axes axes, double epsilon)
{
    tl_tensor *mean = tl_mean(c, x, axes, true), *variance = tl_variance(c, x, axes, 0, true);
    return tl_mul(c, tl_sub(c, x, mean), tl_rsqrt(c, tl_shift(c, variance, epsilon)));
}

LAYER(layer_norm, TL_F64, TL_SHAPE(2, 3, 6), tl_layer_norm(s, "l"),
      return tl_add(c, tl_mul(c, normal(x, TL_AXES(-1), 1e-5), param(m, "l/gamma")),
                    param(m, "l/beta")))
LAYER(layer_norm_bare, TL_F64, TL_SHAPE(3, 6),
      tl_layer_norm(s, "l", .epsilon = TL_SET(0.1), .without_scale = true, .without_shift = true),
      assert_int_equal(tl_model_param_count(m), 0);
      return normal(x, TL_AXES(-1), 0.1))
LAYER(rms_norm, TL_F64, TL_SHAPE(3, 6), tl_rms_norm(s, "l"),
      tl_tensor *square = tl_mean(c, tl_square(c, x), TL_AXES(-1), true);
      return tl_mul(c, tl_mul(c, x, tl_rsqrt(c, tl_shift(c, square, 1e-6))), param(m, "l/gamma")))
LAYER(group_norm, TL_F64, TL_SHAPE(2, 2, 2, 6), tl_group_norm(s, "l", .groups = 3),
      tl_tensor *g = normal(tl_reshape(c, x, TL_SHAPE(2, 2, 2, 3, 2)), TL_AXES(1, 2, 4), 1e-3);
      g = tl_reshape(c, g, TL_SHAPE(2, 2, 2, 6));
      return tl_add(c, tl_mul(c, g, param(m, "l/gamma")), param(m, "l/beta")))
LAYER(batch_norm_in_evaluation, TL_F64, TL_SHAPE(3, 2, 4), tl_batch_norm(s, "l"),
      tl_tensor *y = tl_sub(c, x, param(m, "l/moving_mean"));
      y = tl_mul(c, y, tl_rsqrt(c, tl_shift(c, param(m, "l/moving_variance"), 1e-3)));
      return tl_add(c, tl_mul(c, y, param(m, "l/gamma")), param(m, "l/beta")))

static tl_tensor *batch_formula(const tl_model *m, tl_tensor *x)
{
    return tl_add(c, tl_mul(c, normal(x, TL_AXES(0, 1), 1e-3), param(m, "l/gamma")),
                  param(m, "l/beta"));
}

static void batch_norm_in_training(void **state)
{
    (void)state;
    check_training(&(recipe){batch_norm_in_evaluation_build, NULL}, TL_F64, TL_SHAPE(3, 2, 4),
                   batch_formula, true);
}

/* --- without parameters ----------------------------------------------------------------------- */

static tl_activation function;
static void function_build(probe *p, tl_scope *s)
{
    p->part[0] = tl_activation_layer(s, "l", .function = function);
}

static tl_tensor *function_formula(const tl_model *m, tl_tensor *x)
{
    (void)m;
    switch (function) {
    case TL_ACT_NONE: return x;
    case TL_ACT_RELU: return tl_maximum(c, x, tl_number(c, TL_F64, 0));
    case TL_ACT_RELU6: return tl_clip(c, x, 0, 6);
    case TL_ACT_GELU:
        return tl_mul(c, x, tl_affine(c, tl_erf(c, tl_scale(c, x, sqrt(0.5))), 0.5, 0.5));
    case TL_ACT_GELU_TANH: return tl_gelu(c, x, true);
    case TL_ACT_SILU: return tl_mul(c, x, tl_sigmoid(c, x));
    case TL_ACT_TANH: return tl_affine(c, tl_sigmoid(c, tl_scale(c, x, 2)), 2, -1);
    case TL_ACT_SIGMOID: return tl_reciprocal(c, tl_shift(c, tl_exp(c, tl_neg(c, x)), 1));
    case TL_ACT_ELU: {
        tl_tensor *zero = tl_number(c, TL_F64, 0);
        return tl_where(c, tl_greater(c, x, zero), x, tl_expm1(c, x));
    }
    case TL_ACT_SOFTPLUS: return tl_log1p(c, tl_exp(c, x));
    case TL_ACT_MISH: return tl_mul(c, x, tl_tanh(c, tl_log1p(c, tl_exp(c, x))));
    case TL_ACT_HARD_SWISH: return tl_mul(c, x, tl_clip(c, tl_affine(c, x, 1.0 / 6, 0.5), 0, 1));
    case TL_ACT_HARD_SIGMOID: return tl_clip(c, tl_affine(c, x, 1.0 / 6, 0.5), 0, 1);
    case TL_ACT_COUNT: break;
    }
    return NULL;
}

static void every_activation(void **state)
{
    (void)state;
    for (int i = 0; i < TL_ACT_COUNT; i++) {
        function = (tl_activation)i;
        check(&(recipe){function_build, NULL}, TL_F64, TL_SHAPE(3, 7), function_formula);
    }
}

// A linear map with what is fused into it, and with what follows it.
static void every_activation_after_a_linear_map(void **state)
{
    (void)state;
    tl_tensor *x = numbers(TL_F64, TL_SHAPE(3, 4)), *w = numbers(TL_F64, TL_SHAPE(4, 5));
    tl_tensor *b = numbers(TL_F64, TL_SHAPE(5)), *found, *wanted;
    tl_ctx_set_taping(c, true);
    assert_ok(tl_watch(w));
    for (int i = 0; i < TL_ACT_COUNT; i++) {
        function = (tl_activation)i;
        tl_tensor *y = tl_linear(c, x, w, b, function);
        tl_tensor *want = function_formula(NULL, tl_add(c, tl_matmul(c, x, w), b));
        assert_same(y, want, 1e-12);
        assert_ok(tl_gradient(c, tl_sum(c, y, TL_ALL, false), &w, 1, &found));
        assert_ok(tl_gradient(c, tl_sum(c, want, TL_ALL, false), &w, 1, &wanted));
        assert_same(found, wanted, 1e-11);
        assert_non_null(tl_activation_names[i]);
    }
    assert_null(tl_activation_names[TL_ACT_COUNT]);
    assert_null(tl_activate(c, x, TL_ACT_COUNT));
    assert_fails(tl_ctx_status(c), TL_EINVAL, "13 is no activation");
}

LAYER(max_pool, TL_F64, TL_SHAPE(2, 4, 4, 3), tl_max_pool_layer(s, "l"),
      tl_tensor *most = seen(x, 0, 0, 2, 2);
      for (int i = 1; i < 4; i++) most = tl_maximum(c, most, seen(x, i / 2, i % 2, 2, 2));
      return most)
LAYER(avg_pool, TL_F64, TL_SHAPE(2, 5, 5, 3), tl_avg_pool_layer(s, "l", .size = 3, .stride = 2),
      tl_tensor *sum = seen(x, 0, 0, 2, 2);
      for (int i = 1; i < 9; i++) sum = tl_add(c, sum, seen(x, i / 3, i % 3, 2, 2));
      return tl_scale(c, sum, 1.0 / 9))
LAYER(padded_pool, TL_F64, TL_SHAPE(1, 2, 2, 1),
      tl_max_pool_layer(s, "l", .size = 2, .padding = TL_EXPLICIT, .pad = 1),
      return x) // each window sees one corner
LAYER(global_avg_pool, TL_F64, TL_SHAPE(2, 3, 4, 5), tl_global_avg_pool_layer(s, "l"),
      return tl_mean(c, x, TL_AXES(1, 2), false))
LAYER(global_max_pool, TL_F64, TL_SHAPE(2, 6, 5), tl_global_max_pool_layer(s, "l"),
      return tl_max(c, x, TL_AXES(1), false))
LAYER(flatten, TL_F64, TL_SHAPE(2, 3, 4), tl_flatten_layer(s, "l"),
      return tl_reshape(c, x, TL_SHAPE(2, 12)))
LAYER(dropout_in_evaluation, TL_F64, TL_SHAPE(2, 3), tl_dropout_layer(s, "l", .rate = 0.5),
      return x)

static void a_global_pool_wants_something_to_pool(void **state)
{
    (void)state;
    tl_model *m;
    assert_fails(try_model(&m, &(recipe){global_avg_pool_build, NULL}, TL_SHAPE(2, 5)), TL_EINVAL,
                 "model 'probe': l: global_avg_pool: the input is float32[2, 5]");
}

static void flatten_keeps_an_empty_batch(void **state)
{
    (void)state;
    tl_model *m = make_model(&(recipe){flatten_build, NULL}, TL_F32, TL_F32, TL_SHAPE(2, 3, 4));
    tl_tensor *y = tl_call(c, m, tl_zeros(c, TL_F32, TL_SHAPE(0, 3, 4)));
    assert_ok(tl_ctx_status(c));
    assert_shape(y->shape, 0, 12);
    tl_model_free(&m);
}

/* --- made of others --------------------------------------------------------------------------- */

#define DENSE(n)                                                                                   \
    TL_INIT(.type = "dense", .value = &(tl_dense_config){.units = (n), .activation = TL_ACT_TANH})
static tl_tensor *dense_of(const tl_model *m, const char *path, tl_tensor *x)
{
    char kernel[64], bias[64];
    snprintf(kernel, sizeof kernel, "%s/kernel", path);
    snprintf(bias, sizeof bias, "%s/bias", path);
    return tl_tanh(c, tl_add(c, tl_matmul(c, x, param(m, kernel)), param(m, bias)));
}

LAYER(sequential, TL_F64, TL_SHAPE(2, 3),
      tl_sequential(
          s, "l",
          .layers = TL_LAYERS({.layer = DENSE(4)}, {.name = "named", .layer = DENSE(2)},
                              {.layer = {.type = "dense",
                                         .value = &(tl_dense_config){.layer.name = "own",
                                                                     .units = 3,
                                                                     .activation = TL_ACT_TANH}}})),
      return dense_of(m, "l/own", dense_of(m, "l/named", dense_of(m, "l/dense_0", x))))
LAYER(residual, TL_F64, TL_SHAPE(2, 3),
      tl_residual(s, "l", .layers = TL_LAYERS({.layer = DENSE(4)}, {.layer = DENSE(3)})),
      return tl_add(c, x, dense_of(m, "l/dense_1", dense_of(m, "l/dense_0", x))))
LAYER(residual_with_a_shortcut, TL_F64, TL_SHAPE(2, 3),
      tl_residual(s, "l", .layers = TL_LAYERS({.layer = DENSE(4)}), .shortcut = DENSE(4)),
      return tl_add(c, dense_of(m, "l/shortcut", x), dense_of(m, "l/dense_0", x)))
LAYER(nested, TL_F64, TL_SHAPE(2, 3),
      tl_sequential(s, "l",
                    .layers = TL_LAYERS(
                        {.layer = {.type = "sequential",
                                   .value = &(tl_sequential_config){.layers = TL_LAYERS(
                                                                        {.layer = DENSE(4)},
                                                                        {.layer = DENSE(5)})}}})),
      return dense_of(m, "l/sequential_0/dense_1", dense_of(m, "l/sequential_0/dense_0", x)))

static void bad_residual(probe *p, tl_scope *s)
{
    p->part[0] = tl_residual(s, "l", .layers = TL_LAYERS({.layer = DENSE(1)}));
}

static void a_residual_does_not_stretch(void **state)
{
    (void)state;
    tl_model *m;
    assert_fails(
        try_model(&m, &(recipe){bad_residual, NULL}, TL_SHAPE(2, 3)), TL_EINVAL,
        "l: the layers make [2, 1], which cannot be added to [2, 3]; a shortcut is missing");
}

/* --- attention -------------------------------------------------------------------------------- */

static tl_tensor *project(const tl_model *m, const char *name, tl_tensor *x, int64_t heads,
                          int64_t size)
{
    char kernel[64], bias[64];
    snprintf(kernel, sizeof kernel, "l/%s/kernel", name);
    snprintf(bias, sizeof bias, "l/%s/bias", name);
    tl_tensor *y = tl_add(c, tl_matmul(c, x, param(m, kernel)), param(m, bias));
    return heads ? tl_reshape(c, y, TL_SHAPE(x->shape.dims[0], x->shape.dims[1], heads, size)) : y;
}

static tl_tensor *attended(const tl_model *m, tl_tensor *q, tl_tensor *k, tl_tensor *v,
                           tl_tensor *mask, int64_t heads, int64_t kv_heads, int64_t size,
                           bool causal)
{
    tl_tensor *y =
        tl_attend(c, project(m, "query", q, heads, size), project(m, "key", k, kv_heads, size),
                  project(m, "value", v, kv_heads, size), .mask = mask, .causal = causal);
    y = tl_reshape(c, y, TL_SHAPE(q->shape.dims[0], q->shape.dims[1], heads * size));
    return project(m, "output", y, 0, 0);
}

LAYER(self_attention, TL_F64, TL_SHAPE(2, 3, 8), tl_attention(s, "l", .heads = 2, .causal = true),
      return attended(m, x, x, x, NULL, 2, 2, 4, true))
LAYER(grouped_attention, TL_F64, TL_SHAPE(2, 3, 8),
      tl_attention(s, "l", .heads = 4, .kv_heads = 2, .head_size = 3),
      assert_shape(param(m, "l/key/kernel")->shape, 8, 6);
      return attended(m, x, x, x, NULL, 4, 2, 3, false))

static void cross_build(probe *p, tl_scope *s)
{
    p->part[0] = tl_attention(s, "l", .heads = 2);
}

// x [2, 7, 8] holds the query and, padded, the values of size 6 and the keys of size 5.
static tl_tensor *cross_forward(probe *p, tl_ctx *ctx, tl_tensor *x)
{
    tl_tensors in = {0}, out = {0};
    tl_tensor *memory = tl_slice(ctx, x, 1, 3, 7, 1);
    tl_tensor *mask =
        tl_from_doubles(ctx, TL_BOOL, TL_SHAPE(2, 4), (double[]){1, 1, 0, 1, 0, 1, 1, 0});
    tl_tensors_put(ctx, &in, "mask", mask); // the order must not matter
    tl_tensors_put(ctx, &in, "value", tl_slice(ctx, memory, 2, 0, 6, 1));
    tl_tensors_put(ctx, &in, "key", tl_slice(ctx, memory, 2, 0, 5, 1));
    tl_tensors_put(ctx, &in, "query", tl_slice(ctx, x, 1, 0, 3, 1));
    tl_call_all(ctx, p->part[0], &in, &out);
    return tl_tensors_peek(&out, "y");
}

static tl_tensor *cross_formula(const tl_model *m, tl_tensor *x)
{
    tl_tensor *memory = tl_slice(c, x, 1, 3, 7, 1);
    tl_tensor *mask =
        tl_from_doubles(c, TL_BOOL, TL_SHAPE(2, 4), (double[]){1, 1, 0, 1, 0, 1, 1, 0});
    return attended(m, tl_slice(c, x, 1, 0, 3, 1), tl_slice(c, memory, 2, 0, 5, 1),
                    tl_slice(c, memory, 2, 0, 6, 1), mask, 2, 2, 4, false);
}

static void attention_to_others_with_a_mask(void **state)
{
    (void)state;
    check(&(recipe){cross_build, cross_forward}, TL_F64, TL_SHAPE(2, 7, 8), cross_formula);
}

static void odd_heads(probe *p, tl_scope *s)
{
    p->part[0] = tl_attention(s, "l", .heads = 3);
}

static void odd_groups(probe *p, tl_scope *s)
{
    p->part[0] = tl_attention(s, "l", .heads = 4, .kv_heads = 3);
}

static void heads_must_fit(void **state)
{
    (void)state;
    tl_model *m;
    assert_fails(try_model(&m, &(recipe){odd_heads, NULL}, TL_SHAPE(2, 3, 8)), TL_EINVAL,
                 "l: 3 heads do not divide the size 8; set head_size");
    assert_fails(try_model(&m, &(recipe){odd_groups, NULL}, TL_SHAPE(2, 3, 8)), TL_EINVAL,
                 "l: 4 heads are no multiple of 3 kv_heads");
}

/* --- what is drawn ---------------------------------------------------------------------------- */

static void two_drops(probe *p, tl_scope *s)
{
    p->part[0] = tl_dropout_layer(s, "first", .rate = 0.5);
    p->part[1] = tl_dropout_layer(s, "second", .rate = 0.5);
    p->part[2] = tl_stochastic_depth_layer(s, "depth", .rate = 0.5);
}

static tl_tensor *drops[5];
static tl_tensor *drop_forward(probe *p, tl_ctx *ctx, tl_tensor *x)
{
    drops[0] = tl_call(ctx, p->part[0], x);
    drops[1] = tl_call(ctx, p->part[0], x);
    drops[2] = tl_call(ctx, p->part[1], x);
    drops[3] = tl_call(ctx, p->part[2], x);
    return x;
}

static void draws_are_keyed_by_path_call_and_step(void **state)
{
    (void)state;
    tl_model *m = make_model(&(recipe){two_drops, drop_forward}, TL_F32, TL_F32, TL_SHAPE(64, 8));
    tl_tensor *x = tl_ones(c, TL_F32, TL_SHAPE(64, 8)), *before[4];
    tl_ctx_set_training(c, true);
    tl_ctx_set_draws(c, (tl_draws){.seed = 5, .step = 3});
    tl_call(c, m, x);
    memcpy(before, drops, sizeof before);
    assert_true(apart(before[0], before[1]) > 1);          // two calls of one layer
    assert_true(apart(before[0], before[2]) > 1);          // two layers
    tl_ctx_set_draws(c, (tl_draws){.seed = 5, .step = 3}); // the step again
    tl_call(c, m, x);
    for (int i = 0; i < 4; i++) assert_same(before[i], drops[i], 0);
    tl_ctx_set_draws(c, (tl_draws){.seed = 5, .step = 4});
    tl_call(c, m, x);
    for (int i = 0; i < 4; i++) assert_true(apart(before[i], drops[i]) > 1);
    double sum = 0;
    for (int64_t i = 0; i < 512; i++) {
        double value = at(before[0], i);
        assert_true(value == 0 || value == 2);
        sum += value;
        assert_near(at(before[3], i), at(before[3], i / 8 * 8), 0); // an example as a whole
    }
    assert_near(sum / 512, 1, 0.25);
    tl_ctx_set_training(c, false);
    tl_call(c, m, x);
    for (int i = 0; i < 4; i++) assert_same(drops[i], x, 0);
    tl_model_free(&m);
}

static void inner_drop(probe *p, tl_scope *s)
{
    p->part[0] = tl_sequential(
        s, "body",
        .layers =
            TL_LAYERS({.name = "drop",
                       .layer = {.type = "dropout", .value = &(tl_dropout_config){.rate = 0.5}}}));
}

// A layer that is called from outside has its whole path all the same, in messages too.
static void a_layer_has_its_path_wherever_it_is_called(void **state)
{
    (void)state;
    tl_model *m = make_model(&(recipe){inner_drop, NULL}, TL_F32, TL_F32, TL_SHAPE(2, 3));
    tl_layer *drop = m->first->first;
    assert_string_equal(drop->path, "body/drop");
    assert_null(tl_call(c, drop, NULL));
    assert_fails(tl_ctx_status(c), TL_EINVAL, "body/drop: ");
    assert_string_equal(tl_ctx_path(c), "");
    tl_model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(dense),
        LAB_TEST(dense_without_bias),
        LAB_TEST(dense_mish),
        LAB_TEST(embedding),
        LAB_TEST(conv2d),
        LAB_TEST(conv2d_padded),
        LAB_TEST(conv2d_groups),
        LAB_TEST(conv2d_transpose),
        LAB_TEST(depthwise),
        LAB_TEST(conv1d),
        LAB_TEST(layer_norm),
        LAB_TEST(layer_norm_bare),
        LAB_TEST(rms_norm),
        LAB_TEST(group_norm),
        LAB_TEST(batch_norm_in_evaluation),
        LAB_TEST(batch_norm_in_training),
        LAB_TEST(every_activation),
        LAB_TEST(every_activation_after_a_linear_map),
        LAB_TEST(max_pool),
        LAB_TEST(avg_pool),
        LAB_TEST(padded_pool),
        LAB_TEST(global_avg_pool),
        LAB_TEST(global_max_pool),
        LAB_TEST(a_global_pool_wants_something_to_pool),
        LAB_TEST(flatten),
        LAB_TEST(dropout_in_evaluation),
        LAB_TEST(flatten_keeps_an_empty_batch),
        LAB_TEST(sequential),
        LAB_TEST(residual),
        LAB_TEST(residual_with_a_shortcut),
        LAB_TEST(nested),
        LAB_TEST(a_residual_does_not_stretch),
        LAB_TEST(self_attention),
        LAB_TEST(grouped_attention),
        LAB_TEST(attention_to_others_with_a_mask),
        LAB_TEST(heads_must_fit),
        LAB_TEST(draws_are_keyed_by_path_call_and_step),
        LAB_TEST(a_layer_has_its_path_wherever_it_is_called),
    };
    return cmocka_run_group_tests(tests, open_lab, close_lab);
}
