/* Regularisers: their sums, their gradients, and which parameters have them. */
#include "nn/lab.h"

static tl_oneof chosen;

static void one_dense(probe *p, tl_scope *s)
{
    p->part[0] = tl_dense(s, "up", .units = 3, .kernel_regularizer = chosen);
}

// What the model adds to the loss against factors of magnitudes and squares, with its gradient.
static void check(tl_oneof regularizer, double l1, double l2)
{
    chosen = regularizer;
    tl_model *m = make_model(&(recipe){one_dense, NULL}, TL_F32, TL_F32, TL_SHAPE(2, 4));
    scramble(m);
    tl_tensor *w = param(m, "up/kernel"), *grad;
    double value, sum = 0;
    tl_mark mark = tl_ctx_begin(c);
    tl_ctx_set_taping(c, true);
    tl_tensor *loss = tl_model_losses(c, m);
    assert_non_null(loss);
    assert_int_equal(loss->shape.rank, 0);
    assert_ok(tl_gradient(c, loss, &w, 1, &grad));
    assert_ok(tl_tensor_item(loss, &value));
    for (int64_t i = 0; i < 12; i++) {
        double x = at(w, i);
        sum += l1 * fabs(x) + l2 * x * x;
        assert_near(at(grad, i), l1 * (x > 0 ? 1 : -1) + 2 * l2 * x, 1e-6);
    }
    assert_near(value, sum, 1e-5);
    tl_ctx_set_taping(c, false);
    tl_ctx_end(c, mark);
    tl_model_free(&m);
}

static void terms_are_sums(void **state)
{
    (void)state;
    check((tl_oneof)TL_REGULARIZER("l1"), 0.01, 0);
    check((tl_oneof)TL_REGULARIZER("l2"), 0, 0.01);
    check((tl_oneof)TL_REGULARIZER_OF("l1", tl_l1_regularizer, .l1 = TL_SET(0.5)), 0.5, 0);
    check((tl_oneof)TL_REGULARIZER_OF("l2", tl_l2_regularizer, .l2 = TL_SET(0.25)), 0, 0.25);
    check((tl_oneof)TL_REGULARIZER_OF("l1_l2", tl_l1_l2_regularizer, .l1 = 0.5, .l2 = 0.25), 0.5,
          0.25);
    check((tl_oneof)TL_REGULARIZER_OF("l1_l2", tl_l1_l2_regularizer, .l2 = 0.25), 0, 0.25);
}

static void none_is_nothing(void **state)
{
    (void)state;
    chosen = (tl_oneof){0};
    tl_model *m = make_model(&(recipe){one_dense, NULL}, TL_F32, TL_F32, TL_SHAPE(2, 4));
    assert_null(tl_model_losses(c, m));
    assert_ok(tl_ctx_status(c));
    tl_model_free(&m);
}

static void terms_add_up_in_float32(void **state)
{
    (void)state;
    chosen = (tl_oneof)TL_REGULARIZER("l2");
    tl_model *m = make_model(&(recipe){one_dense, NULL}, TL_BF16, TL_F32, TL_SHAPE(2, 4));
    assert_int_equal(tl_model_losses(c, m)->dtype, TL_F32);
    assert_ok(tl_model_set_trainable(m, "up/kernel", false));
    assert_null(tl_model_losses(c, m));
    tl_model_free(&m);
}

static void mistakes_are_told(void **state)
{
    (void)state;
    tl_model *m;
    const recipe r = {one_dense, NULL};
    chosen = (tl_oneof)TL_REGULARIZER_OF("l1", tl_l1_regularizer, .l1 = TL_SET(-1));
    assert_fails(try_model(&m, &r, TL_SHAPE(2, 4)), TL_EINVAL, "up: kernel_regularizer: l1 is -1");
    chosen = (tl_oneof)TL_REGULARIZER("l3");
    assert_fails(try_model(&m, &r, TL_SHAPE(2, 4)), TL_ENOTFOUND,
                 "up: kernel_regularizer: unknown type 'l3'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(terms_are_sums),
        LAB_TEST(none_is_nothing),
        LAB_TEST(terms_add_up_in_float32),
        LAB_TEST(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, open_lab, close_lab);
}
