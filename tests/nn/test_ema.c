/* Averages of the weights: what they are after each update, and exchanging them with the
 * weights. runs: fake device */
#include "test.h"

#include "weights.h"

#define SGD                                                                                        \
    "optimizer: {type: sgd}\n"                                                                     \
    "learning_rate: {type: constant, constant: {learning_rate: 0.125}}\n"

static void get_averages(const lab *l, double *out)
{
    assert_ok(tl_optimizer_swap(l->o));
    get_all(out, l->params);
    assert_ok(tl_optimizer_swap(l->o));
}

/* --- their values ----------------------------------------------------------------------------- */

typedef struct rule {
    const char *ema; /* as YAML */
    double decay;
    int64_t start;
    bool dynamic;
} rule;
static const rule rules[] = {
    {"ema: {}", 0.99, 0, true},
    {"ema: {average_decay: 0.9, dynamic_decay: false}", 0.9, 0, false},
    {"ema: {average_decay: 0.375, start_step: 4}", 0.375, 4, true},
    {"ema: {average_decay: 0.75, start_step: 6, dynamic_decay: false}", 0.75, 6, false},
};

static double decay_of(const rule *r, int64_t updates)
{
    double n = (double)(updates - r->start);
    if (n < 0) return 0;
    return r->dynamic ? fmin(r->decay, (1 + n) / (10 + n)) : r->decay;
}

static void check_rule(const rule *r, tl_dtype dtype, int mode)
{
    lab l;
    char yaml[512];
    double wanted[ELEMENTS] = {0}, found[ELEMENTS], weights[ELEMENTS];
    snprintf(yaml, sizeof yaml, "%s%s", SGD, r->ema);
    lab_open(&l, dtype, yaml, mode);
    assert_true(tl_optimizer_averages(l.o));
    get_averages(&l, found);
    assert_memory_equal(found, wanted, sizeof found); // they begin at 0
    for (int step = 1; step <= 12; step++) {
        lab_run_number(&l, step);
        get_all(weights, l.params);
        double keep = decay_of(r, step);
        for (int i = 0; i < ELEMENTS; i++) wanted[i] = keep * wanted[i] + (1 - keep) * weights[i];
        get_averages(&l, found);
        assert_near(most_apart(wanted, found, ELEMENTS), 0, dtype == TL_F64 ? 1e-14 : 1e-6);
    }
    lab_close(&l);
}

static void test_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        for (int mode = 0; mode < MODES; mode++) {
            check_rule(&rules[i], TL_F32, mode);
            check_rule(&rules[i], TL_F64, mode);
        }
}

// The numbers that Model Garden's zeros lead to.
static void test_first_update(void **state)
{
    (void)state;
    lab l;
    double weights[ELEMENTS], found[ELEMENTS];
    lab_open(&l, TL_F64, SGD "ema: {}", EAGER);
    lab_run_number(&l, 1);
    get_all(weights, l.params);
    get_averages(&l, found);
    for (int i = 0; i < ELEMENTS; i++) assert_near(found[i], 9. / 11 * weights[i], 1e-7);
    lab_close(&l);
    lab_open(&l, TL_F64, SGD "ema: {dynamic_decay: false}", EAGER);
    lab_run_number(&l, 1);
    get_all(weights, l.params);
    get_averages(&l, found);
    for (int i = 0; i < ELEMENTS; i++) assert_near(found[i], 0.01 * weights[i], 1e-7);
    lab_close(&l);
}

/* --- what is averaged ------------------------------------------------------------------------- */

static void set_statistic(lab *l, double value)
{
    double values[] = {value, 2 * value, 3 * value};
    assert_ok(tl_tensor_set_doubles(tl_model_find(l->model, "statistic")->tensor, values, 3));
}

static double statistic(lab *l)
{
    double values[3];
    assert_ok(tl_tensor_get_doubles(tl_model_find(l->model, "statistic")->tensor, values, 3));
    return values[1];
}

static void test_statistics(void **state)
{
    (void)state;
    for (int all = 0; all < 2; all++) {
        lab l;
        char yaml[256];
        snprintf(yaml, sizeof yaml,
                 "%sema: {average_decay: 0.5, dynamic_decay: false, trainable_weights_only: %s}",
                 SGD, all ? "false" : "true");
        lab_open(&l, TL_F32, yaml, EAGER);
        set_statistic(&l, 8);
        lab_run_number(&l, 1);
        set_statistic(&l, 16);
        lab_run_number(&l, 2);
        assert_ok(tl_optimizer_swap(l.o));
        assert_near(statistic(&l), all ? 2 * (8. / 4 + 16. / 2) : 32, 0);
        assert_ok(tl_optimizer_swap(l.o));
        assert_near(statistic(&l), 32, 0);
        lab_close(&l);
    }
}

/* --- exchanging ------------------------------------------------------------------------------- */

static void test_swap(void **state)
{
    (void)state;
    lab l;
    double weights[ELEMENTS], averages[ELEMENTS], found[ELEMENTS];
    lab_open(&l, TL_F32, SGD "ema: {average_decay: 0.75}", COMPILED);
    for (int step = 1; step <= 5; step++) lab_run_number(&l, step);
    get_all(weights, l.params);
    assert_false(tl_optimizer_swapped(l.o));
    assert_ok(tl_optimizer_swap(l.o));
    assert_true(tl_optimizer_swapped(l.o));
    get_all(averages, l.params);
    assert_true(most_apart(weights, averages, ELEMENTS) > 1e-3);
    // Meanwhile nothing is updated, and no state is taken.
    tl_mark mark = tl_ctx_begin(l.c);
    assert_false(tl_optimizer_apply(l.o, l.c, l.grads, NULL));
    assert_fails(tl_ctx_status(l.c), TL_ESTATE, "are exchanged");
    tl_ctx_end(l.c, mark);
    tl_state *s;
    assert_ok(tl_state_new(&s));
    assert_fails(tl_optimizer_state(l.o, s), TL_ESTATE, "are exchanged");
    tl_state_free(&s);
    assert_ok(tl_optimizer_swap(l.o));
    get_all(found, l.params);
    assert_memory_equal(found, weights, sizeof found);
    assert_ok(tl_optimizer_swap(l.o));
    get_all(found, l.params);
    assert_memory_equal(found, averages, sizeof found);
    assert_ok(tl_optimizer_swap(l.o));
    // A program that was captured before sees the weights where they were.
    lab other;
    lab_open(&other, TL_F32, SGD "ema: {average_decay: 0.75}", COMPILED);
    for (int step = 1; step <= 6; step++) lab_run_number(&other, step);
    lab_run_number(&l, 6);
    get_all(found, l.params);
    get_all(weights, other.params);
    assert_memory_equal(found, weights, sizeof found);
    lab_close(&other);
    lab_close(&l);
}

// Numbers that adding and subtracting would lose.
static void test_swap_is_exact(void **state)
{
    (void)state;
    lab l;
    lab_open(&l, TL_F32, SGD "ema: {}", EAGER);
    float big[] = {1e30f, INFINITY, NAN}, back[3];
    assert_ok(tl_tensor_set(l.params[1], big, sizeof big));
    assert_ok(tl_optimizer_swap(l.o));
    assert_ok(tl_tensor_get(l.params[1], back, sizeof back));
    assert_near(back[0], 0, 0);
    assert_ok(tl_optimizer_swap(l.o));
    assert_ok(tl_tensor_get(l.params[1], back, sizeof back));
    assert_memory_equal(back, big, sizeof big);
    lab_close(&l);
}

static void test_swap_refused(void **state)
{
    (void)state;
    lab l;
    lab_open(&l, TL_F32, SGD, EAGER);
    assert_false(tl_optimizer_averages(l.o));
    assert_fails(tl_optimizer_swap(l.o), TL_ESTATE, "no averages are kept");
    lab_close(&l);
    // An exchange that cannot be finished is taken back.
    lab_open(&l, TL_F32, SGD "ema: {trainable_weights_only: false}", EAGER);
    double before[ELEMENTS], after[ELEMENTS];
    lab_run_number(&l, 1);
    get_all(before, l.params);
    tl_lease lease;
    assert_ok(tl_lease_read(&lease, tl_model_find(l.model, "statistic")->tensor));
    assert_int_not_equal(tl_optimizer_swap(l.o), TL_OK);
    assert_ok(tl_lease_end(&lease));
    assert_false(tl_optimizer_swapped(l.o));
    get_all(after, l.params);
    assert_memory_equal(before, after, sizeof before);
    lab_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),        cmocka_unit_test(test_first_update),
        cmocka_unit_test(test_statistics),    cmocka_unit_test(test_swap),
        cmocka_unit_test(test_swap_is_exact), cmocka_unit_test(test_swap_refused),
    };
    return cmocka_run_group_tests(tests, open_labs, close_labs);
}
