/* Losses as objects: functions and classes of the program's own, reductions, weights, shapes, what
 * is refused. What each computes is in test_loss_golden.c. runs: fake device */
#include "nn/lab.h"

#include <tilth/base/alloc.h>
#include <tilth/nn/losses.h>

static tl_tensor *row(int64_t n, const double *values)
{
    return tl_from_doubles(c, TL_F32, TL_SHAPE(n), values);
}
#define ROW(...)                                                                                   \
    row((int64_t)TL_COUNT(((const double[]){__VA_ARGS__})), (const double[]){__VA_ARGS__})

/* --- a class and a function of the test's own ------------------------------------------------- */

typedef struct scaled_config {
    tl_loss_config loss;
    double factor;
} scaled_config;
static const tl_field scaled_fields[] = {
    TL_F(scaled_config, factor, .d = 3, TL_AT_LEAST(1), .help = "of the squares"),
    TL_F_END,
};
static const tl_desc scaled_desc = {
    .name = "scaled",
    .help = "of the test",
    .size = sizeof(scaled_config),
    .fields = scaled_fields,
    .base = &tl_loss_config_desc,
};

static int built, disposed;

static tl_status scaled_build(tl_loss *l)
{
    built++;
    return strcmp(l->name, "bad") == 0 ? TL_FAIL(TL_EINVAL, "it was told to fail") : TL_OK;
}

static tl_tensor *scaled_call(tl_loss *l, tl_ctx *ctx, tl_tensor *y, tl_tensor *p)
{
    return tl_scale(ctx, tl_square(ctx, tl_sub(ctx, p, y)),
                    ((const scaled_config *)l->config)->factor);
}

static void scaled_dispose(tl_loss *l)
{
    (void)l;
    disposed++;
}

static const tl_loss_class scaled_class = {
    .cls = TL_CLASS(tl_loss_class, "scaled", NULL, tl_loss, &scaled_desc, .help = "of the test"),
    .call = scaled_call,
    .build = scaled_build,
    .dispose = scaled_dispose,
};

static tl_tensor *payload_loss(void *payload, tl_ctx *ctx, tl_tensor *y, tl_tensor *p)
{
    return tl_scale(ctx, tl_abs(ctx, tl_sub(ctx, p, y)), *(const double *)payload);
}

static tl_tensor *no_loss(void *payload, tl_ctx *ctx, tl_tensor *y, tl_tensor *p)
{
    (void)payload;
    (void)ctx;
    (void)y;
    (void)p;
    return NULL;
}

static void own_classes_have_configurations(void **state)
{
    (void)state;
    tl_loss *l;
    built = disposed = 0;
    assert_ok(tl_loss_new(&l, &scaled_class, NULL, NULL));
    assert_string_equal(l->name, "scaled");
    assert_near(at(tl_loss_call(l, c, ROW(0, 0), ROW(1, 2), NULL), 0), 3 * 2.5, 1e-6);
    tl_loss_free(&l);
    assert_null(l);
    assert_ok(tl_loss_new(
        &l, &scaled_class,
        &(scaled_config){.loss = {.reduction = TL_REDUCTION_SUM, .name = "mine"}, .factor = 2},
        NULL));
    assert_string_equal(l->name, "mine");
    assert_near(at(tl_loss_call(l, c, ROW(0, 0), ROW(1, 2), ROW(1, 10)), 0), 2 * 41, 1e-5);
    tl_loss_free(&l);
    assert_fails(tl_loss_new(&l, &scaled_class, &(scaled_config){.factor = 0.5}, NULL), TL_EINVAL,
                 "loss 'scaled': factor is 0.5 and must be at least 1");
    assert_fails(tl_loss_new(&l, &scaled_class, NULL, "bad"), TL_EINVAL, "loss 'bad': it was told");
    assert_null(l);
    assert_int_equal(built, 3);
    assert_int_equal(disposed, 4);
}

static void a_loss_may_be_one_function(void **state)
{
    (void)state;
    tl_loss *l;
    double factor = 2;
    assert_ok(tl_loss_from_function(&l, payload_loss, &factor, "far", TL_REDUCTION_NONE));
    assert_string_equal(l->name, "far");
    tl_tensor *each = tl_loss_call(l, c, ROW(1, 1), ROW(0, 4), ROW(1, 0.5));
    assert_near(at(each, 0), 2, 0);
    assert_near(at(each, 1), 3, 0);
    tl_loss_free(&l);
    assert_ok(tl_loss_from_function(&l, no_loss, NULL, NULL, TL_REDUCTION_SUM));
    assert_null(tl_loss_call(l, c, ROW(1), ROW(0), NULL));
    assert_fails(tl_ctx_status(c), TL_EINVAL, "gave no tensor");
    tl_loss_free(&l);
    assert_fails(tl_loss_from_function(&l, no_loss, NULL, "x", (tl_reduction)6), TL_EINVAL,
                 "6 is no reduction");
}

/* --- reductions and weights ------------------------------------------------------------------- */

static double reduce(tl_tensor *values, tl_tensor *weight, tl_reduction reduction)
{
    double value = NAN;
    tl_tensor *t = tl_loss_reduce(c, values, weight, reduction);
    assert_ok(tl_ctx_status(c));
    assert_ok(tl_tensor_item(t, &value));
    return value;
}

static void reductions_are_keras(void **state)
{
    (void)state;
    tl_tensor *values = ROW(1, 2, 6), *weight = ROW(1, 0, 0.5);
    assert_near(reduce(values, weight, TL_REDUCTION_SUM), 4, 1e-6);
    assert_near(reduce(values, weight, TL_REDUCTION_SUM_OVER_BATCH_SIZE), 4.0 / 3, 1e-6);
    assert_near(reduce(values, weight, TL_REDUCTION_MEAN), 4.0 / 3, 1e-6);
    assert_near(reduce(values, weight, TL_REDUCTION_AUTO), 4.0 / 3, 1e-6);
    assert_near(reduce(values, weight, TL_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT), 4 / 1.5, 1e-6);
    assert_near(reduce(values, NULL, TL_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT), 3, 1e-6);
    assert_near(reduce(values, ROW(0, 0, 0), TL_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT), 0, 0);
    tl_tensor *tokens = tl_from_doubles(c, TL_F32, TL_SHAPE(2, 2), (double[]){1, 2, 3, 4});
    assert_near(reduce(tokens, ROW(1, 3), TL_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT), 24.0 / 8, 1e-6);
    assert_near(reduce(tokens, ROW(1, 3), TL_REDUCTION_SUM_OVER_BATCH_SIZE), 24.0 / 4, 1e-6);
    assert_null(tl_loss_reduce(c, tokens, ROW(1, 2, 3), TL_REDUCTION_SUM));
    assert_fails(tl_ctx_status(c), TL_EINVAL, "the weights are [3]");
}

// Neither the value nor the gradient of an example without weight is seen.
static void weight_zero_has_no_gradient(void **state)
{
    (void)state;
    tl_tensor *p = ROW(0.5, 0), *y = ROW(1, 1), *gradient;
    tl_ctx_set_taping(c, true);
    assert_ok(tl_watch(p));
    tl_tensor *bad = tl_log(c, p); // minus infinity, with an infinite slope
    tl_tensor *loss = tl_loss_reduce(c, tl_mul(c, y, bad), ROW(1, 0), TL_REDUCTION_SUM);
    assert_ok(tl_gradient(c, loss, &p, 1, &gradient));
    assert_near(at(loss, 0), log(0.5), 1e-6);
    assert_near(at(gradient, 0), 2, 1e-6);
    tl_ctx_set_taping(c, false);
}

/* --- shapes and types ------------------------------------------------------------------------- */

static void vectors_are_one_value_an_example(void **state)
{
    (void)state;
    tl_tensor *column = tl_from_doubles(c, TL_F32, TL_SHAPE(3, 1), (double[]){1, 2, 4});
    assert_shape(tl_mean_squared_error(c, ROW(0, 0, 0), column)->shape, 3);
    assert_shape(tl_mean_squared_error(c, column, ROW(0, 0, 0))->shape, 3);
    assert_shape(tl_mean_absolute_error(c, column, column)->shape, 3);
    assert_near(at(tl_mean_squared_error(c, column, ROW(0, 0, 0)), 2), 16, 0);
    assert_int_equal(tl_huber(c, tl_number(c, TL_F32, 1), tl_number(c, TL_F32, 4), 1)->shape.rank,
                     0);
    tl_tensor *cube = tl_zeros(c, TL_F32, TL_SHAPE(2, 3, 4));
    assert_shape(tl_hinge(c, cube, cube)->shape, 2, 3);
    assert_shape(tl_focal(c, cube, cube, 0.25, 2)->shape, 2, 3, 4);
    assert_ok(tl_ctx_status(c));
}

static void short_floats_are_computed_in_float32(void **state)
{
    (void)state;
    tl_tensor *p = tl_from_doubles(c, TL_BF16, TL_SHAPE(1, 2), (double[]){1.5, -2});
    tl_tensor *y = tl_from_doubles(c, TL_I32, TL_SHAPE(1, 2), (double[]){1, 0});
    tl_tensor *loss = tl_mean_squared_error(c, y, p);
    assert_int_equal(loss->dtype, TL_F32);
    assert_near(at(loss, 0), 2.125, 0);
    tl_tensor *label = tl_from_doubles(c, TL_U8, TL_SHAPE(1, 1), (double[]){1});
    tl_sparse_crossentropy_config logits = {.from_logits = true};
    loss = tl_sparse_categorical_crossentropy(c, label, p, &logits);
    assert_int_equal(loss->dtype, TL_F32);
    assert_shape(loss->shape, 1);
    assert_near(at(loss, 0), log1p(exp(3.5)), 1e-5);
}

static void ignored_classes_have_no_loss(void **state)
{
    (void)state;
    tl_tensor *p = tl_from_doubles(c, TL_F32, TL_SHAPE(2, 2), (double[]){0.25, 0.75, NAN, 1});
    tl_tensor *y = tl_from_doubles(c, TL_I64, TL_SHAPE(2), (double[]){1, -1});
    tl_sparse_crossentropy_config how = {.ignore_class = {true, -1}};
    tl_tensor *loss = tl_sparse_categorical_crossentropy(c, y, p, &how);
    assert_near(at(loss, 0), -log(0.75), 1e-6);
    assert_near(at(loss, 1), 0, 0);
}

static void large_errors_do_not_overflow(void **state)
{
    (void)state;
    tl_tensor *loss = tl_log_cosh(c, ROW(0, 0, 0), ROW(1000, -1000, 0));
    assert_near(at(loss, 0), 1000 - log(2), 1e-3);
    assert_near(at(loss, 1), 1000 - log(2), 1e-3);
    assert_near(at(loss, 2), 0, 1e-6);
    tl_crossentropy_config logits = {.from_logits = true};
    loss = tl_binary_crossentropy(c, ROW(1, 0), ROW(-500, 500), &logits);
    assert_near(at(loss, 0), 500, 1e-3);
    assert_near(at(loss, 1), 500, 1e-3);
    loss = tl_cosine_similarity(c, tl_zeros(c, TL_F32, TL_SHAPE(1, 2)),
                                tl_ones(c, TL_F32, TL_SHAPE(1, 2)));
    assert_near(at(loss, 0), 0, 0);
}

static void smooth_l1_without_beta_is_the_magnitude(void **state)
{
    (void)state;
    assert_same(tl_smooth_l1(c, ROW(1, 2), ROW(3, 1), 0), ROW(2, 1), 0);
}

static void inputs_that_do_not_fit_are_named(void **state)
{
    (void)state;
    tl_loss *l;
    assert_ok(tl_loss_new(&l, &tl_loss_mean_squared_error, NULL, NULL));
    assert_null(tl_loss_call(l, c, ROW(1, 2), ROW(1, 2, 3), NULL));
    assert_fails(tl_ctx_status(c), TL_EINVAL,
                 "mean_squared_error: the targets are float32[2] and the predictions float32[3]");
    assert_null(tl_loss_call(l, c, ROW(1), ROW(1), NULL)); // it stays so
    tl_ctx_clear(c);
    assert_null(tl_loss_values(l, c, NULL, ROW(1)));
    assert_fails(tl_ctx_status(c), TL_EINVAL, "mean_squared_error: the loss was given no targets");
    tl_ctx_clear(c);
    tl_loss_free(&l);
    tl_crossentropy_config how = {0};
    tl_tensor *one = tl_number(c, TL_F32, 1);
    assert_null(tl_categorical_crossentropy(c, one, one, &how));
    assert_fails(tl_ctx_status(c), TL_EINVAL, "no axis of classes");
    tl_ctx_clear(c);
    assert_null(tl_cosine_similarity(c, one, one));
    assert_fails(tl_ctx_status(c), TL_EINVAL, "no direction");
    tl_ctx_clear(c);
    tl_registry *registry;
    assert_ok(tl_registry_new(&registry));
    assert_ok(tl_registry_add(registry, &tl_losses_module));
    assert_fails(tl_loss_new_of(&l, &(tl_oneof){.type = "hubber"}, registry, NULL), TL_ENOTFOUND,
                 "huber");
    assert_null(l);
    tl_registry_free(&registry);
}

/* --- memory ----------------------------------------------------------------------------------- */

static tl_status use_losses(void)
{
    tl_loss *l = NULL;
    tl_mark mark = tl_ctx_begin(c);
    tl_status st;
    TL_TRY_DONE(st, tl_loss_new(&l, &scaled_class, &(scaled_config){.loss.name = "mine"}, NULL));
    (void)tl_loss_call(l, c, ROW(1, 2), ROW(2, 3), ROW(1, 0));
    TL_TRY_DONE(st, tl_ctx_status(c));
done:
    tl_loss_free(&l);
    tl_ctx_end(c, mark);
    return st;
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    assert_ok(use_losses());
    for (int64_t nth = 1;; nth++) {
        assert_true(nth < 100000);
        tl_engine_trim(engine);
        tl_alloc_fail_at(nth, 2); // the second one too, since memory of tensors is asked for again
        int64_t before = tl_alloc_calls();
        tl_status st = use_losses();
        bool reached = tl_alloc_calls() - before >= nth;
        tl_alloc_fail_at(0, 0);
        assert_int_equal(st, reached ? TL_ENOMEM : TL_OK);
        if (!reached) break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(own_classes_have_configurations),
        LAB_TEST(a_loss_may_be_one_function),
        LAB_TEST(reductions_are_keras),
        LAB_TEST(weight_zero_has_no_gradient),
        LAB_TEST(vectors_are_one_value_an_example),
        LAB_TEST(short_floats_are_computed_in_float32),
        LAB_TEST(ignored_classes_have_no_loss),
        LAB_TEST(large_errors_do_not_overflow),
        LAB_TEST(smooth_l1_without_beta_is_the_magnitude),
        LAB_TEST(inputs_that_do_not_fit_are_named),
        LAB_TEST(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, open_lab, close_lab);
}
