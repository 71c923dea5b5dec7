/* How much gradients of batches differ, against the formulas of McCandlish et al. (2018, appendix
 * A.1) written out: of batches of different weights, with a loss scale, in all modes. */
#include "weights.h"

#define RATE "learning_rate: {type: constant, constant: {learning_rate: 0.125}}\n"
#define SGD "optimizer: {type: sgd, sgd: {global_clipnorm: 0.1}}\n" RATE

enum { BATCHES = 3 };
static const double weights[BATCHES] = {1, 0.5, 2};

static tl_status accumulate(lab *l, tl_ctx *c)
{
    tl_optimizer_accumulate(l->o, c, l->grads, l->weight);
    return tl_ctx_status(c);
}

/* The gradients that are summed up are `weights` times those of the batches. */
static void add_batch(lab *l, int64_t number, double weight)
{
    float w = (float)weight;
    double values[ELEMENTS], *at = values;
    for (int i = 0; i < PARAMS; i++) {
        int64_t count = tl_tensor_count(l->grad_parts[i]);
        pseudo_values(at, 5 * i + 17 * number + 3, count);
        for (int64_t k = 0; k < count; k++) at[k] *= weight;
        assert_ok(tl_tensor_set_doubles(l->grad_parts[i], at, count));
        at += count;
    }
    assert_ok(tl_tensor_set(l->weight, &w, sizeof w));
    lab_run(l);
}

static void flush(lab *l)
{
    tl_mark mark = tl_ctx_begin(l->c);
    assert_true(tl_optimizer_flush(l->o, l->c));
    tl_ctx_end(l->c, mark);
}

/* With B the weights: |G_small|^2 is the mean over batches, and E|G_B|^2 = |G|^2 + tr(S) / B. */
static tl_gradient_noise by_formula(int64_t first)
{
    double mean[ELEMENTS] = {0}, small = 0, inverse = 0, total = 0, large = 0;
    for (int b = 0; b < BATCHES; b++) total += weights[b];
    for (int b = 0; b < BATCHES; b++) {
        double g[ELEMENTS], *at = g;
        for (int i = 0; i < PARAMS; i++) {
            int64_t count = tl_shape_count(&wanted_params[i].shape);
            pseudo_values(at, 5 * i + 17 * (first + b) + 3, count);
            at += count;
        }
        for (int i = 0; i < ELEMENTS; i++) {
            small += g[i] * g[i] / BATCHES;
            mean[i] += weights[b] / total * g[i];
        }
        inverse += 1 / weights[b] / BATCHES;
    }
    for (int i = 0; i < ELEMENTS; i++) large += mean[i] * mean[i];
    double noise = (small - large) / (inverse - 1 / total);
    return (tl_gradient_noise){.known = true, .noise = noise, .signal = large - noise / total};
}

static void check_noise(tl_dtype dtype, int mode, double scale)
{
    lab l;
    tl_gradient_noise found;
    lab_open_model(&l, dtype);
    lab_open_optimizer(
        &l, SGD, &(tl_optimizer_args){.scaled = scale != 1, .loss_scale = scale != 1 ? scale : 0},
        mode);
    l.body = accumulate;
    assert_ok(tl_tensor_new(&l.weight, l.engine, TL_F32, TL_SCALAR));
    assert_fails(tl_optimizer_noise(&found, l.o), TL_ESTATE, "tl_optimizer_measure_noise");
    assert_ok(tl_optimizer_measure_noise(l.o));
    assert_ok(tl_optimizer_measure_noise(l.o));
    assert_ok(tl_optimizer_noise(&found, l.o));
    assert_false(found.known);
    for (int64_t first = 1; first < 8; first += BATCHES) {
        for (int b = 0; b < BATCHES; b++) add_batch(&l, first + b, weights[b]);
        flush(&l);
        tl_gradient_noise wanted = by_formula(first);
        assert_ok(tl_optimizer_noise(&found, l.o));
        assert_true(found.known);
        // The sums are those of a loss times its scale.
        double by = 1 / (scale * scale), most = dtype == TL_F64 ? 1e-12 : 1e-5;
        assert_near(found.noise / (wanted.noise * by), 1, most);
        assert_near(found.signal / (wanted.signal * by), 1, most);
    }
    // What was left half-way is forgotten.
    add_batch(&l, 99, 1);
    assert_ok(tl_optimizer_discard(l.o));
    for (int b = 0; b < BATCHES; b++) add_batch(&l, 1 + b, weights[b]);
    flush(&l);
    assert_ok(tl_optimizer_noise(&found, l.o));
    assert_near(found.noise * scale * scale / by_formula(1).noise, 1, 1e-5);
    // One batch says nothing of others, and neither do numbers that are not finite.
    add_batch(&l, 1, 1);
    flush(&l);
    assert_ok(tl_optimizer_noise(&found, l.o));
    assert_false(found.known);
    add_batch(&l, 1, 1);
    add_batch(&l, 2, NAN);
    flush(&l);
    assert_ok(tl_optimizer_noise(&found, l.o));
    assert_false(found.known);
    assert_true(found.noise == 0 && found.signal == 0);
    lab_close(&l);
}

static void test_noise(void **state)
{
    (void)state;
    for (int mode = EAGER; mode < MODES; mode++) {
        check_noise(TL_F32, mode, 1);
        check_noise(TL_F64, mode, 1);
    }
    check_noise(TL_F32, EAGER, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_noise),
    };
    return cmocka_run_group_tests(tests, open_labs, close_labs);
}
