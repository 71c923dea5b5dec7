/* Initialisers: means and variances, what they depend on, matrices, shapes that are refused. */
#include "nn/lab.h"

typedef struct spec {
    tl_shape shape;
    tl_oneof initializer;
} spec;
static spec chosen;

static void one_param(probe *p, tl_scope *s)
{
    p->param = tl_scope_param(
        s, "w", &(tl_param_args){.shape = chosen.shape, .initializer = &chosen.initializer});
}

static tl_tensor *just_x(probe *p, tl_ctx *ctx, tl_tensor *x)
{
    (void)p;
    (void)ctx;
    return x;
}
static const recipe one = {one_param, just_x};

// Values of a parameter of this shape; the caller frees them.
static double *draw(tl_shape shape, tl_oneof initializer)
{
    chosen = (spec){shape, initializer};
    tl_model *m = make_model(&one, TL_F32, TL_F32, TL_SHAPE(1));
    int64_t n = tl_shape_count(&shape);
    double *values = calloc((size_t)n, sizeof *values);
    assert_ok(tl_tensor_get_doubles(param(m, "w"), values, n));
    tl_model_free(&m);
    return values;
}

static void check_moments(tl_shape shape, tl_oneof initializer, double mean, double variance,
                          double bound)
{
    int64_t n = tl_shape_count(&shape);
    double *v = draw(shape, initializer), sum = 0, squares = 0, most = 0;
    for (int64_t i = 0; i < n; i++) sum += v[i];
    for (int64_t i = 0; i < n; i++) squares += (v[i] - sum / (double)n) * (v[i] - sum / (double)n);
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(v[i] - mean));
    // Five deviations of the estimate; a fourth moment of at most 3 makes that of the variance.
    assert_near(sum / (double)n, mean, 5 * sqrt(variance / (double)n) + 1e-12);
    assert_near(squares / (double)n, variance, 5 * variance * sqrt(2 / (double)n) + 1e-12);
    if (bound > 0) {
        assert_true(most <= bound * (1 + 1e-6));
        assert_true(most > 0.97 * bound); // it does reach out there
    }
    free(v);
}

#define OF(name) ((tl_oneof)TL_INITIALIZER(name))

static void constants_are_constant(void **state)
{
    (void)state;
    tl_shape shape = TL_SHAPE(3, 4);
    check_moments(shape, OF("zeros"), 0, 0, 0);
    check_moments(shape, OF("ones"), 1, 0, 0);
    tl_constant_initializer k = {.value = -2.5};
    check_moments(shape, (tl_oneof){.type = "constant", .value = &k}, -2.5, 0, 0);
}

static void draws_have_their_moments(void **state)
{
    (void)state;
    tl_shape shape = TL_SHAPE(200, 100);
    check_moments(shape, OF("random_normal"), 0, 0.05 * 0.05, 0);
    tl_normal_initializer n = {.mean = 2, .stddev = TL_SET(0.5)};
    check_moments(shape, (tl_oneof){.type = "random_normal", .value = &n}, 2, 0.25, 0);
    double cut = 0.87962566103423978;
    check_moments(shape, (tl_oneof){.type = "truncated_normal", .value = &n}, 2, 0.25 * cut * cut,
                  1);
    check_moments(shape, OF("random_uniform"), 0, 0.1 * 0.1 / 12, 0.05);
    tl_uniform_initializer u = {.low = TL_SET(0), .high = TL_SET(1)};
    check_moments(shape, (tl_oneof){.type = "random_uniform", .value = &u}, 0.5, 1.0 / 12, 0.5);
}

static void variances_follow_the_fans(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double scale;
        int fan;
        bool uniform;
    } rules[] = {
        {"glorot_uniform", 1, 2, true},    {"glorot_normal", 1, 2, false},
        {"he_uniform", 2, 0, true},        {"he_normal", 2, 0, false},
        {"lecun_uniform", 1, 0, true},     {"lecun_normal", 1, 0, false},
        {"variance_scaling", 1, 0, false},
    };
    // A matrix, and a kernel of a convolution whose window counts for both fans.
    const tl_shape shapes[] = {TL_SHAPE(120, 80), TL_SHAPE(3, 3, 24, 40)};
    for (int i = 0; i < 7; i++)
        for (int k = 0; k < 2; k++) {
            double in = k ? 9 * 24 : 120, out = k ? 9 * 40 : 80;
            double variance = rules[i].scale / (rules[i].fan == 2 ? (in + out) / 2 : in);
            double bound =
                rules[i].uniform ? sqrt(3 * variance) : 2 * sqrt(variance) / 0.87962566103423978;
            check_moments(shapes[k], OF(rules[i].name), 0, variance, bound);
        }
    tl_variance_scaling v = {
        .scale = TL_SET(3), .mode = TL_FAN_OUT, .distribution = TL_UNTRUNCATED_NORMAL};
    check_moments(shapes[0], (tl_oneof){.type = "variance_scaling", .value = &v}, 0, 3.0 / 80, 0);
    check_moments(TL_SHAPE(5000), OF("lecun_uniform"), 0, 1.0 / 5000,
                  sqrt(3.0 / 5000)); // a vector is both
}

static void fans_of_few_dimensions(void **state)
{
    (void)state;
    double in, out;
    tl_fans(&(tl_shape){0}, &in, &out);
    assert_true(in == 1 && out == 1);
    tl_shape vector = TL_SHAPE(7), kernel = TL_SHAPE(5, 3, 4, 6);
    tl_fans(&vector, &in, &out);
    assert_true(in == 7 && out == 7);
    tl_fans(&kernel, &in, &out);
    assert_true(in == 60 && out == 90);
}

/* --- what draws depend on --------------------------------------------------------------------- */

static void order_ab(probe *p, tl_scope *s)
{
    p->part[0] = tl_dense(s, "a", .units = 4);
    p->part[1] = tl_dense(s, "b", .units = 4);
}

static void order_ba(probe *p, tl_scope *s)
{
    p->part[1] = tl_dense(s, "b", .units = 4);
    p->part[2] = tl_embedding(s, "more", .entries = 3, .size = 2);
    p->part[0] = tl_dense(s, "a", .units = 4);
}

static tl_tensor *b_then_a(probe *p, tl_ctx *ctx, tl_tensor *x)
{
    return tl_call(ctx, p->part[0], tl_call(ctx, p->part[1], x));
}

static void the_order_does_not_matter(void **state)
{
    (void)state;
    tl_model *first = make_model(&(recipe){order_ab, NULL}, TL_F32, TL_F32, TL_SHAPE(2, 4));
    tl_model *second = make_model(&(recipe){order_ba, b_then_a}, TL_F32, TL_F32, TL_SHAPE(2, 4));
    assert_same(param(first, "a/kernel"), param(second, "a/kernel"), 0);
    assert_same(param(first, "b/kernel"), param(second, "b/kernel"), 0);
    assert_true(apart(param(first, "a/kernel"), param(first, "b/kernel")) > 1e-3);
    tl_model_free(&first);
    tl_model_free(&second);
}

/* --- matrices --------------------------------------------------------------------------------- */

// The shorter side of [rows, columns] is orthogonal, each of its vectors of length `gain`.
static void check_orthogonal(tl_shape shape, double gain)
{
    tl_gain_initializer g = {.gain = TL_SET(gain)};
    double *m = draw(shape, (tl_oneof){.type = "orthogonal", .value = &g});
    int64_t columns = shape.dims[shape.rank - 1], rows = tl_shape_count(&shape) / columns;
    bool tall = rows > columns;
    int64_t vectors = tall ? columns : rows, length = tall ? rows : columns;
    for (int64_t a = 0; a < vectors; a++)
        for (int64_t b = 0; b <= a; b++) {
            double sum = 0;
            for (int64_t i = 0; i < length; i++)
                sum += tall ? m[i * columns + a] * m[i * columns + b]
                            : m[a * columns + i] * m[b * columns + i];
            assert_near(sum, a == b ? gain * gain : 0, 2e-6 * gain * gain);
        }
    free(m);
}

static void orthogonal_matrices_are(void **state)
{
    (void)state;
    check_orthogonal(TL_SHAPE(20, 7), 1);
    check_orthogonal(TL_SHAPE(7, 20), 1);
    check_orthogonal(TL_SHAPE(33, 33), 2.5);
    check_orthogonal(TL_SHAPE(3, 3, 4, 8), 1);  // 36 by 8
    check_orthogonal(TL_SHAPE(1, 2, 3, 40), 1); // 6 by 40
    check_orthogonal(TL_SHAPE(1, 1), 1);
}

static void identity_is(void **state)
{
    (void)state;
    tl_gain_initializer g = {.gain = TL_SET(3)};
    double *m = draw(TL_SHAPE(3, 5), (tl_oneof){.type = "identity", .value = &g});
    for (int i = 0; i < 15; i++) assert_near(m[i], i / 5 == i % 5 ? 3 : 0, 0);
    free(m);
}

/* --- refused ---------------------------------------------------------------------------------- */

static tl_tensor *too_small(tl_ctx *ctx, const void *config, tl_dtype dtype, tl_shape shape)
{
    (void)config;
    (void)shape;
    return tl_zeros(ctx, dtype, TL_SHAPE(1));
}
static const tl_initializer_class small_class = {
    .cls = {.class_size = sizeof(tl_initializer_class), .name = "small", .help = "a mistake"},
    .make = too_small,
};
static const tl_entry small_entry[] = {{&tl_kind_initializer, &small_class.cls}};
static const tl_module small_module = {TL_MODULE_HEAD("small"), small_entry, 1};

static void mistakes_are_told(void **state)
{
    (void)state;
    tl_model *m;
    chosen = (spec){TL_SHAPE(2, 3, 4), OF("identity")};
    assert_fails(try_model(&m, &one, TL_SHAPE(1)), TL_EINVAL,
                 "model 'probe': w: identity: [2, 3, 4] is not a matrix");
    chosen = (spec){TL_SHAPE(5), OF("orthogonal")};
    assert_fails(try_model(&m, &one, TL_SHAPE(1)), TL_EINVAL,
                 "model 'probe': w: orthogonal: [5] is not a matrix");
    chosen = (spec){TL_SHAPE(5), OF("orthogonl")};
    assert_fails(try_model(&m, &one, TL_SHAPE(1)), TL_ENOTFOUND, "did you mean 'orthogonal'");
    // A class of one's own that does not do as it is told.
    tl_registry *r;
    assert_ok(tl_registry_new(&r));
    assert_ok(tl_registry_add(r, &small_module));
    chosen = (spec){TL_SHAPE(5), OF("small")};
    tl_spec input = {"x", TL_F32, TL_SHAPE(1)};
    assert_fails(tl_model_new(&m, &(tl_model_args){.engine = engine,
                                                   .cls = &probe_class,
                                                   .config = &one,
                                                   .inputs = &input,
                                                   .input_count = 1,
                                                   .registry = r}),
                 TL_EINVAL, "w: the initializer 'small' made float32[1], not float32[5]");
    tl_registry_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(constants_are_constant),
        LAB_TEST(draws_have_their_moments),
        LAB_TEST(variances_follow_the_fans),
        LAB_TEST(fans_of_few_dimensions),
        LAB_TEST(the_order_does_not_matter),
        LAB_TEST(orthogonal_matrices_are),
        LAB_TEST(identity_is),
        LAB_TEST(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, open_lab, close_lab);
}
