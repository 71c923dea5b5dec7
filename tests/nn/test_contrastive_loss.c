/* SimCLR's loss: against PyTorch in float64 (tests/golden/contrastive.py), against what Model
 * Garden computes, over several lanes, and what is refused. runs: fake device */
#include "nn/golden_file.h"

#include <math.h>

#include <tilth/core/strands.h>
#include <tilth/nn/contrastive_loss.h>
#include <tilth/nn/losses.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

static tl_engine *engine;
static tl_registry *registry;
static tl_ctx *c;

static int open_all(void **state)
{
    (void)state;
    golden_begin(TEST_DATA "/golden/contrastive.bin", &registry, &tl_losses_module, &engine);
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
    assert_ok(tl_ctx_new(&c, engine));
    tl_ctx_set_taping(c, true);
    return 0;
}

static int stale(void **state)
{
    (void)state;
    tl_ctx_free(&c);
    return 0;
}

static void compare(const tl_tensor *found, const char *what, int i, double most)
{
    const golden *wanted = golden_peek("%02d/%s", i, what);
    double values[512];
    assert_non_null(found);
    assert_non_null(wanted);
    assert_true(tl_shape_equal(&found->shape, &wanted->shape));
    assert_ok(tl_tensor_get_doubles(found, values, tl_tensor_count(found)));
    for (int64_t k = 0; k < tl_tensor_count(found); k++) {
        double right = golden_number(wanted, k);
        if (!(fabs(values[k] - right) <= most * fmax(1, fabs(right))))
            fail_msg("case %d: element %d of %s is %.12g and should be %.12g", i, (int)k, what,
                     values[k], right);
    }
}

static void compare_case(int i, tl_dtype dtype, double most)
{
    const golden *how = golden_peek("%02d/how", i);
    tl_tensor *views[] = {golden_tensor(c, golden_peek("%02d/first", i), dtype),
                          golden_tensor(c, golden_peek("%02d/second", i), dtype)};
    tl_tensor *grads[2];
    tl_contrast k;
    for (int v = 0; v < 2; v++) assert_ok(tl_watch(views[v]));
    tl_contrastive_loss(&k, c, views[0], views[1],
                        &(tl_contrastive_args){.temperature = golden_number(how, 0),
                                               .without_norm = golden_number(how, 1) == 0});
    compare(k.losses, "losses", i, most);
    compare(tl_contrast_accuracy(c, &k), "accuracy", i, 0);
    compare(tl_contrast_entropy(c, &k), "entropy", i, most);
    assert_ok(tl_gradient(c, tl_mean(c, k.losses, TL_ALL, false), views, 2, grads));
    compare(grads[0], "by_first", i, most);
    compare(grads[1], "by_second", i, most);
}

static void test_against_pytorch(void **state)
{
    (void)state;
    int count = (int)golden_number(golden_peek("count"), 0);
    assert_int_equal(count, 5);
    for (int i = 0; i < count; i++) {
        compare_case(i, TL_F64, 1e-11);
        compare_case(i, TL_F32, 2e-5);
    }
}

static tl_tensor *rows(const double values[4])
{
    return tl_from_doubles(c, TL_F32, TL_SHAPE(2, 2), values);
}

static double mean(tl_tensor *x)
{
    double value;
    assert_non_null(x);
    assert_ok(tl_tensor_get_doubles(tl_mean(c, x, TL_ALL, false), &value, 1));
    return value;
}

/* Numbers of Model Garden's ContrastiveLoss. */
static void test_against_model_garden(void **state)
{
    (void)state;
    tl_tensor *first = rows((const double[]){1, 2, 3, -1});
    tl_tensor *second = rows((const double[]){1, 1, 2, -2});
    tl_contrast k;
    tl_contrastive_loss(&k, c, first, second, &(tl_contrastive_args){.temperature = 0.1});
    // differences of numbers around 10, in the order in which a device adds up
    const double most = test_wants_gpu() ? 2e-6 : 1e-7;
    assert_true(fabs(mean(k.losses) - 0.00951636) < most);
    tl_contrastive_loss(&k, c, first, second,
                        &(tl_contrastive_args){.temperature = 1, .without_norm = true});
    assert_true(fabs(mean(k.losses) - 0.24281152) < most);
}

/* --- several lanes ---------------------------------------------------------------------------- */

static double values[2][24];

typedef struct lane {
    tl_ctx *c;
    double loss, gradients[2][12];
} lane;

/* Half of the rows, in float64. */
static tl_status run_lane(void *self, tl_strand *strand)
{
    lane *l = (lane *)self + tl_strand_lane(strand);
    const int64_t first = tl_strand_lane(strand) * 3;
    tl_tensor *views[2], *found[2];
    tl_contrast own;
    tl_ctx_set_strand(l->c, strand);
    for (int v = 0; v < 2; v++) {
        views[v] = tl_from_doubles(l->c, TL_F64, TL_SHAPE(3, 4), &values[v][first * 4]);
        TL_TRY(tl_watch(views[v]));
    }
    tl_contrastive_loss(&own, l->c, views[0], views[1],
                        &(tl_contrastive_args){.temperature = 0.3, .without_norm = true});
    tl_tensor *loss = tl_scale(l->c, tl_mean(l->c, own.losses, TL_ALL, false), 0.5);
    double labels[3];
    TL_TRY(tl_ctx_status(l->c));
    assert_int_equal(own.logits->shape.dims[1], 6);
    TL_TRY(tl_tensor_get_doubles(own.labels, labels, 3));
    assert_true(labels[0] == (double)first);
    TL_TRY(tl_gradient(l->c, loss, views, 2, found));
    for (int v = 0; v < 2; v++) TL_TRY(tl_tensor_get_doubles(found[v], l->gradients[v], 12));
    return tl_tensor_get_doubles(loss, &l->loss, 1);
}

/* The mean of what two lanes compute is what one with all rows computes, gradients included. */
static void test_lanes_share_views(void **state)
{
    (void)state;
    if (fake_wanted() || test_wants_gpu()) skip(); // a process with a device carries one lane
    tl_rng rng;
    tl_rng_init(&rng, 3);
    for (int i = 0; i < 48; i++) (&values[0][0])[i] = tl_rng_normal_f64(&rng);
    tl_tensor *views[2], *alone[2];
    for (int v = 0; v < 2; v++) {
        views[v] = tl_from_doubles(c, TL_F64, TL_SHAPE(6, 4), values[v]);
        assert_ok(tl_watch(views[v]));
    }
    tl_contrast whole;
    tl_contrastive_loss(&whole, c, views[0], views[1],
                        &(tl_contrastive_args){.temperature = 0.3, .without_norm = true});
    tl_tensor *one = tl_mean(c, whole.losses, TL_ALL, false);
    assert_ok(tl_gradient(c, one, views, 2, alone));
    tl_strands *strands;
    lane lanes[2] = {0};
    assert_ok(tl_strands_new(&strands, &(tl_strands_args){.of = {.lanes = 2, .ranks = 1}}));
    for (int i = 0; i < 2; i++) {
        assert_ok(tl_ctx_new(&lanes[i].c, engine));
        tl_ctx_set_taping(lanes[i].c, true);
    }
    assert_ok(tl_strands_run(strands, run_lane, lanes));
    assert_true(fabs(lanes[0].loss + lanes[1].loss - mean(one)) < 1e-13);
    for (int v = 0; v < 2; v++) {
        double a[24];
        assert_ok(tl_tensor_get_doubles(alone[v], a, 24));
        for (int i = 0; i < 24; i++)
            assert_true(fabs(a[i] - lanes[i / 12].gradients[v][i % 12]) < 1e-13);
    }
    for (int i = 0; i < 2; i++) tl_ctx_free(&lanes[i].c);
    tl_strands_free(&strands);
}

static void refuse(tl_tensor *first, tl_tensor *second, tl_contrastive_args args, const char *text)
{
    tl_contrast k;
    tl_contrastive_loss(&k, c, first, second, &args);
    assert_null(k.losses);
    assert_null(tl_contrast_accuracy(c, &k));
    assert_null(tl_contrast_entropy(c, &k));
    assert_fails(tl_ctx_status(c), TL_EINVAL, text);
    tl_ctx_clear(c);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    tl_tensor *x = rows((const double[]){1, 2, 3, 4});
    tl_tensor *other = tl_from_doubles(c, TL_F32, TL_SHAPE(1, 4), (const double[]){1, 2, 3, 4});
    refuse(x, x, (tl_contrastive_args){0}, "temperature is 0 and must be above 0");
    refuse(x, other, (tl_contrastive_args){.temperature = 1}, "both must be [images, features]");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, stale)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_against_pytorch),
        TEST(test_against_model_garden),
        TEST(test_lanes_share_views),
        TEST(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
