/* Optimizers: what leaves them untouched, weights, accumulation, groups, state, classes of one's
 * own, and what they refuse. That their rules are right is in test_optimizer_golden.c.
 * runs: fake device */
#include "test.h"

#include <tilth/base/alloc.h>
#include <tilth/ops/update.h>

#include "rules.h"
#include "weights.h"

/* --- all that a run has, as a state ----------------------------------------------------------- */

static tl_state *state_of(const lab *l)
{
    tl_state *s, *model, *optimizer;
    assert_ok(tl_state_new(&s));
    assert_ok(tl_state_sub(&model, s, "model"));
    assert_ok(tl_state_sub(&optimizer, s, "optimizer"));
    assert_ok(tl_model_state(l->model, model));
    assert_ok(tl_optimizer_state(l->o, optimizer));
    return s;
}

static tl_state *snapshot(const lab *l)
{
    tl_state *s = state_of(l), *copy;
    assert_ok(tl_state_clone(&copy, s));
    tl_state_free(&s);
    return copy;
}

static bool equal_states(const tl_state *a, const tl_state *b)
{
    tl_state_report r = {0};
    assert_ok(tl_state_compare(&r, a, b, &(tl_state_compare_args){.values = true}));
    bool same = tl_state_report_clean(&r);
    tl_state_report_deinit(&r);
    return same;
}

static bool still(const lab *l, const tl_state *before)
{
    tl_state *now = state_of(l);
    bool same = equal_states(now, before);
    tl_state_free(&now);
    return same;
}

static void spoil(lab *l, double value)
{
    double first;
    double values[MOST];
    int64_t count = tl_tensor_count(l->grad_parts[3]);
    assert_ok(tl_tensor_get_doubles(l->grad_parts[3], values, count));
    first = values[7];
    values[7] = value;
    assert_true(first != value);
    assert_ok(tl_tensor_set_doubles(l->grad_parts[3], values, count));
}

/* --- gradients that are not finite ------------------------------------------------------------ */

static void check_untouched(const char *yaml, int mode)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    lab l;
    bool finite;
    char text[512];
    snprintf(text, sizeof text, "%sema: {average_decay: 0.5, trainable_weights_only: false}\n",
             yaml);
    lab_open(&l, TL_F32, text, mode);
    for (int k = 0; k < 3; k++) {
        lab_run_number(&l, k + 1);
        assert_ok(tl_tensor_get(tl_optimizer_finite(l.o), &finite, sizeof finite));
        assert_true(finite);
        tl_state *before = snapshot(&l);
        lab_set_gradients(&l, 50 + k);
        spoil(&l, bad[k]);
        lab_run(&l);
        if (!still(&l, before)) fail_msg("%s, mode %d, %g: something moved", yaml, mode, bad[k]);
        assert_int_equal(tl_optimizer_iterations(l.o), k + 1);
        assert_ok(tl_tensor_get(tl_optimizer_finite(l.o), &finite, sizeof finite));
        assert_false(finite);
        lab_run_number(&l, 60 + k); // the next one is applied
        assert_false(still(&l, before));
        assert_ok(tl_tensor_set(tl_optimizer_counter(l.o), &(int64_t){k + 1}, sizeof(int64_t)));
        tl_state_free(&before);
    }
    lab_close(&l);
}

static void test_not_finite(void **state)
{
    (void)state;
    for (int i = 0; i < RULES; i++) check_untouched(all_rules[i], EAGER);
    for (int i = 0; i < RULES; i += 3) check_untouched(all_rules[i], INTERPRETED);
    check_untouched(all_rules[3], COMPILED);
    check_untouched(all_rules[RULES - 1], COMPILED);
}

/* --- weights and accumulation ----------------------------------------------------------------- */

static void set_weight(lab *l, float value)
{
    if (!l->weight) assert_ok(tl_tensor_new(&l->weight, l->engine, TL_F32, TL_SCALAR));
    assert_ok(tl_tensor_set(l->weight, &value, sizeof value));
}

// Gradients of a window: those of its micro-batches, each times its weight, which are not alike.
static const float micro_weights[] = {3, 1, 8, 4};
enum { MICRO = 4, WINDOWS = 3 };

static void micro_values(double values[PARAMS][MOST], int window, int micro)
{
    for (int i = 0; i < PARAMS; i++) {
        pseudo_values(values[i], 17 * (10 * window + micro) + 5 * i + 3, MOST);
        for (int k = 0; k < MOST; k++) values[i][k] *= micro_weights[micro];
    }
}

static void put_gradients(lab *l, double values[PARAMS][MOST])
{
    for (int i = 0; i < PARAMS; i++)
        assert_ok(
            tl_tensor_set_doubles(l->grad_parts[i], values[i], tl_tensor_count(l->grad_parts[i])));
}

static void run_whole(lab *l, int window)
{
    double sum[PARAMS][MOST] = {{0}}, values[PARAMS][MOST];
    float weight = 0;
    for (int m = 0; m < MICRO; m++) {
        micro_values(values, window, m);
        weight += micro_weights[m];
        for (int i = 0; i < PARAMS; i++)
            for (int k = 0; k < MOST; k++) sum[i][k] += values[i][k];
    }
    set_weight(l, weight);
    put_gradients(l, sum);
    lab_run(l);
}

static tl_status flush(lab *l, tl_ctx *c)
{
    tl_optimizer_flush(l->o, c);
    return tl_ctx_status(c);
}

static void run_pieces(lab *l, int window)
{
    double values[PARAMS][MOST];
    assert_false(tl_optimizer_set_accumulating(l->o, true));
    for (int m = 0; m < MICRO; m++) {
        micro_values(values, window, m);
        set_weight(l, micro_weights[m]);
        put_gradients(l, values);
        lab_run(l);
    }
    assert_true(tl_optimizer_set_accumulating(l->o, false));
    tl_mark mark = tl_ctx_begin(l->c);
    assert_ok(flush(l, l->c));
    tl_ctx_end(l->c, mark);
}

static void check_accumulation(const char *yaml, tl_dtype dtype, double most, int mode)
{
    lab whole, pieces;
    double a[ELEMENTS], b[ELEMENTS];
    lab_open(&whole, dtype, yaml, EAGER);
    lab_open(&pieces, dtype, yaml, mode);
    for (int window = 0; window < WINDOWS; window++) {
        run_whole(&whole, window);
        run_pieces(&pieces, window);
        assert_int_equal(tl_optimizer_iterations(pieces.o), window + 1);
    }
    get_all(a, whole.params);
    get_all(b, pieces.params);
    assert_near(most_apart(a, b, ELEMENTS), 0, most);
    lab_close(&whole);
    lab_close(&pieces);
}

static void test_accumulation(void **state)
{
    (void)state;
    for (int i = 0; i < RULES; i++) {
        check_accumulation(all_rules[i], TL_F32, 1e-6, EAGER);
        check_accumulation(all_rules[i], TL_F64, 1e-12, EAGER);
    }
    check_accumulation(all_rules[3], TL_F32, 1e-6, COMPILED);
}

// Without weights every micro-batch counts alike: the mean of the gradients is applied.
static void test_unweighted_accumulation(void **state)
{
    (void)state;
    lab l;
    double before[ELEMENTS], after[ELEMENTS], first[MOST], second[MOST];
    lab_open(&l, TL_F64, "optimizer: {type: sgd}\n" RATE, EAGER);
    get_all(before, l.params);
    tl_optimizer_set_accumulating(l.o, true);
    assert_true(tl_optimizer_accumulating(l.o));
    lab_run_number(&l, 1);
    lab_run_number(&l, 2);
    assert_int_equal(tl_optimizer_iterations(l.o), 0);
    get_all(after, l.params);
    assert_memory_equal(before, after, sizeof before);
    assert_ok(flush(&l, l.c));
    get_all(after, l.params);
    pseudo_values(first, 17 * 1 + 3, 15);
    pseudo_values(second, 17 * 2 + 3, 15);
    for (int i = 0; i < 15; i++)
        assert_near(after[i], before[i] - 0.125 * (first[i] + second[i]) / 2, 1e-15);
    lab_close(&l);
}

// A window with a bad micro-batch is dropped as a whole, and the next one begins from zero.
static void test_bad_window(void **state)
{
    (void)state;
    lab l;
    lab_open(&l, TL_F32, all_rules[3], EAGER);
    tl_optimizer_set_accumulating(l.o, true);
    tl_state *before = snapshot(&l);
    lab_set_gradients(&l, 1);
    spoil(&l, NAN);
    lab_run(&l);
    lab_run_number(&l, 2);
    assert_ok(flush(&l, l.c));
    assert_true(still(&l, before));
    lab_run_number(&l, 3);
    assert_ok(flush(&l, l.c));
    assert_int_equal(tl_optimizer_iterations(l.o), 1);
    tl_state_free(&before);
    lab_close(&l);
}

static void test_weights(void **state)
{
    (void)state;
    lab l, plain;
    double a[ELEMENTS], b[ELEMENTS], norm;
    lab_open(&plain, TL_F32, all_rules[3], EAGER);
    lab_open(&l, TL_F32, all_rules[3], EAGER);
    set_weight(&l, 4);
    for (int step = 1; step <= 3; step++) {
        lab_run_number(&plain, step);
        double values[PARAMS][MOST];
        for (int i = 0; i < PARAMS; i++) {
            pseudo_values(values[i], 17 * step + 5 * i + 3, MOST);
            for (int k = 0; k < MOST; k++) values[i][k] *= 4;
        }
        put_gradients(&l, values);
        lab_run(&l);
    }
    get_all(a, plain.params);
    get_all(b, l.params);
    assert_memory_equal(a, b, sizeof a); // 4 is a power of two
    assert_ok(tl_tensor_item(tl_optimizer_norm(plain.o), &norm));
    double other;
    assert_ok(tl_tensor_item(tl_optimizer_norm(l.o), &other));
    assert_near(other, norm, 0);
    // No weight at all, and one that is none, leave everything as it is.
    tl_state *before = snapshot(&l);
    bool finite;
    set_weight(&l, 0);
    lab_run_number(&l, 4);
    assert_true(still(&l, before));
    assert_ok(tl_tensor_get(tl_optimizer_finite(l.o), &finite, sizeof finite));
    assert_true(finite);
    set_weight(&l, NAN);
    lab_run_number(&l, 4);
    assert_true(still(&l, before));
    assert_ok(tl_tensor_get(tl_optimizer_finite(l.o), &finite, sizeof finite));
    assert_false(finite);
    tl_state_free(&before);
    lab_close(&plain);
    lab_close(&l);
}

/* --- numbers ---------------------------------------------------------------------------------- */

static void test_numbers(void **state)
{
    (void)state;
    lab l;
    double norm, sum = 0, rate;
    lab_open(&l, TL_F32,
             "optimizer: {type: sgd, sgd: {decay: 0.5}}\n"
             "learning_rate: {type: polynomial, polynomial: {initial_learning_rate: 1,\n"
             "  decay_steps: 4, end_learning_rate: 0}}",
             EAGER);
    assert_int_equal(tl_optimizer_iterations(l.o), 0);
    assert_near(tl_optimizer_learning_rate(l.o), 1, 0);
    lab_run_number(&l, 1);
    assert_int_equal(tl_optimizer_iterations(l.o), 1);
    assert_near(tl_optimizer_learning_rate(l.o), 0.75 / 1.5, 1e-15);
    lab_run_number(&l, 2);
    assert_near(tl_optimizer_learning_rate(l.o), 0.5 / 2, 1e-15);
    assert_ok(tl_optimizer_set_multiplier(l.o, 0.5));
    assert_near(tl_optimizer_multiplier(l.o), 0.5, 0);
    assert_near(tl_optimizer_learning_rate(l.o), 0.125, 1e-15);
    assert_ok(tl_tensor_item(tl_optimizer_rate(l.o, l.c), &rate));
    assert_near(rate, 0.125, 1e-15);
    assert_fails(tl_optimizer_set_multiplier(l.o, -1), TL_EINVAL, "at least 0");
    assert_fails(tl_optimizer_set_multiplier(l.o, NAN), TL_EINVAL, "at least 0");
    for (int i = 0; i < PARAMS; i++) {
        double values[MOST];
        int64_t count = tl_tensor_count(l.params[i]);
        pseudo_values(values, 17 * 2 + 5 * i + 3, count);
        for (int64_t k = 0; k < count; k++) sum += values[k] * values[k];
    }
    assert_ok(tl_tensor_item(tl_optimizer_norm(l.o), &norm));
    assert_near(norm, sqrt(sum), 1e-6);
    assert_near(tl_optimizer_loss_scale(l.o), 1, 0);
    assert_false(tl_optimizer_averages(l.o));
    assert_ptr_equal(tl_optimizer_model(l.o), l.model);
    assert_string_equal(tl_optimizer_kind(l.o)->cls.name, "sgd");
    assert_string_equal(tl_optimizer_settings(l.o)->optimizer.type, "sgd");
    lab_close(&l);
}

// A program that was captured before heeds the factor.
static void test_multiplier_in_programs(void **state)
{
    (void)state;
    lab l;
    double a[ELEMENTS], b[ELEMENTS], g[MOST];
    lab_open(&l, TL_F64, "optimizer: {type: sgd}\n" RATE, COMPILED);
    for (int step = 1; step <= 3; step++) lab_run_number(&l, step);
    get_all(a, l.params);
    assert_ok(tl_optimizer_set_multiplier(l.o, 0.25));
    lab_run_number(&l, 4);
    get_all(b, l.params);
    pseudo_values(g, 17 * 4 + 3, 15);
    for (int i = 0; i < 15; i++) assert_near(b[i], a[i] - 0.125 / 4 * g[i], 1e-15);
    lab_close(&l);
}

/* --- groups ----------------------------------------------------------------------------------- */

static const tl_group_config two_groups[] = {
    {.group = "small", .pattern = "bias$|gamma$", .weight_decay = {true, 0}, .rate = {true, 0.5}},
    {.group = "images", .pattern = "^conv/", .clip_norm = {true, 0.25}},
};

// What an element of a parameter has become after one step of plain descent with decay.
static double moved(int param, int64_t k, double rate, double decay, double factor)
{
    double w[MOST], g[MOST];
    pseudo_values(w, param + 1, MOST);
    pseudo_values(g, 17 + 5 * param + 3, MOST);
    if (param == 1) w[k] = 0;
    return w[k] - rate * (g[k] * factor + decay * w[k]);
}

static double norm_of(int param, int64_t count, double p)
{
    double g[MOST], sum = 0, most = 0;
    pseudo_values(g, 17 + 5 * param + 3, MOST);
    for (int64_t k = 0; k < count; k++) {
        sum += pow(fabs(g[k]), p);
        most = fmax(most, fabs(g[k]));
    }
    return p == INFINITY ? most : pow(sum, 1 / p);
}

static void check_groups(tl_dtype dtype, int mode, double norm_type, double most)
{
    lab l;
    tl_group_config groups[2] = {two_groups[0], two_groups[1]};
    groups[1].norm_type = (tl_opt_double){norm_type != 2, norm_type};
    lab_open_model(&l, dtype);
    assert_ok(tl_model_group(l.model, groups, 2));
    put_values(l.params, 1, 1, true);
    lab_open_optimizer(&l, "optimizer: {type: torch_sgd, torch_sgd: {weight_decay: 0.5}}\n" RATE,
                       &(tl_optimizer_args){.groups = groups, .group_count = 2}, mode);
    lab_run_number(&l, 1);
    double found[ELEMENTS], *at = found;
    double factor = 0.25 / (norm_of(3, 24, norm_type) + 1e-6);
    assert_true(factor < 1);
    get_all(found, l.params);
    for (int i = 0; i < 15; i++) assert_near(*at++, moved(0, i, 0.125, 0.5, 1), most);
    for (int i = 0; i < 3; i++) assert_near(*at++, moved(1, i, 0.0625, 0, 1), most);
    for (int i = 0; i < 4; i++) assert_near(*at++, moved(2, i, 0.0625, 0, 1), most);
    for (int i = 0; i < 24; i++) assert_near(*at++, moved(3, i, 0.125, 0.5, factor), most);
    lab_close(&l);
}

static void test_groups(void **state)
{
    (void)state;
    static const double types[] = {2, 1, 3, INFINITY};
    for (int i = 0; i < 4; i++) {
        check_groups(TL_F32, EAGER, types[i], 1e-6);
        check_groups(TL_F64, EAGER, types[i], 1e-14);
    }
    check_groups(TL_F32, COMPILED, 2, 1e-6);
    check_groups(TL_F32, INTERPRETED, INFINITY, 1e-6);
}

// The decay of a group is for all its parameters, also for those that a list leaves out.
static void test_group_decay(void **state)
{
    (void)state;
    lab plain, grouped;
    double a[ELEMENTS], b[ELEMENTS];
    const char *yaml = "optimizer: {type: adamw, adamw: {weight_decay_rate: 0.5,\n"
                       "  exclude_from_weight_decay: [gamma]}}\n" RATE;
    tl_group_config group = {.group = "norms", .weight_decay = {true, 0.5}};
    lab_open(&plain, TL_F64, yaml, EAGER);
    lab_open_model(&grouped, TL_F64);
    assert_ok(tl_model_set_group(grouped.model, "gamma", "norms"));
    lab_open_optimizer(&grouped, yaml, &(tl_optimizer_args){.groups = &group, .group_count = 1},
                       EAGER);
    lab_run_number(&plain, 1);
    lab_run_number(&grouped, 1);
    get_all(a, plain.params);
    get_all(b, grouped.params);
    for (int i = 0; i < ELEMENTS; i++) {
        double w[MOST];
        pseudo_values(w, 3, MOST);
        bool gamma = i >= 18 && i < 22;
        assert_near(b[i], a[i] - (gamma ? 0.125 * 0.5 * w[i - 18] : 0), 1e-12);
    }
    lab_close(&plain);
    lab_close(&grouped);
}

static tl_status try_optimizer(tl_optimizer **out, lab *l, const char *yaml,
                               const tl_group_config *groups, int64_t count)
{
    tl_config *s = settings_of(yaml);
    tl_status st = tl_optimizer_new(out, &(tl_optimizer_args){.engine = l->engine,
                                                              .model = l->model,
                                                              .config = tl_config_value(s),
                                                              .registry = registry,
                                                              .groups = groups,
                                                              .group_count = count});
    tl_config_free(&s);
    return st;
}

static void test_bad_groups(void **state)
{
    (void)state;
    lab l;
    tl_optimizer *o;
    lab_open_model(&l, TL_F32);
    const char *sgd = all_rules[0];
    tl_group_config none = {.group = "none"}, empty = {.group = ""}, twice[2] = {{.group = "a"}};
    assert_fails(try_optimizer(&o, &l, sgd, &none, 1), TL_ENOTFOUND,
                 "groups[0]: group: the model has no parameters in a group 'none'");
    assert_null(o);
    assert_fails(try_optimizer(&o, &l, sgd, &empty, 1), TL_EINVAL, "group: must be set");
    assert_ok(tl_model_set_group(l.model, "bias", "a"));
    twice[1] = twice[0];
    assert_fails(try_optimizer(&o, &l, sgd, twice, 2), TL_EEXISTS, "groups[1]: 'a' is there twice");
    twice[0].weight_decay = (tl_opt_double){true, 0.1};
    assert_fails(try_optimizer(&o, &l, "optimizer: {type: adagrad}\n" RATE, twice, 1), TL_EINVAL,
                 "the optimizer 'adagrad' has none");
    twice[0] = (tl_group_config){.group = "a", .rate = {true, -1}};
    assert_fails(try_optimizer(&o, &l, sgd, twice, 1), TL_EINVAL, "rate: must be at least 0");
    twice[0] = (tl_group_config){.group = "a", .clip_norm = {true, NAN}};
    assert_fails(try_optimizer(&o, &l, sgd, twice, 1), TL_EINVAL, "clip_norm: must be more than 0");
    twice[0] = (tl_group_config){.group = "a", .norm_type = {true, 0.5}};
    assert_fails(try_optimizer(&o, &l, sgd, twice, 1), TL_EINVAL, "norm_type: must be at least 1");
    tl_group_config pattern = {.group = "b", .pattern = "("};
    assert_fails(tl_model_group(l.model, &pattern, 1), TL_EINVAL, "groups[0].pattern");
    lab_close(&l);
}

/* --- state ------------------------------------------------------------------------------------ */

static void test_paths(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        "iterations",           "rate_multiplier",   "m/dense/kernel",   "m/dense/bias",
        "m/layer_norm/gamma",   "m/conv/kernel",     "v/dense/kernel",   "vhat/conv/kernel",
        "average/dense/kernel", "average/statistic", "loss_scale/scale", "loss_scale/good_steps",
    };
    lab l;
    tl_state *s;
    tl_state_entry e;
    lab_open_model(&l, TL_F32);
    lab_open_optimizer(&l,
                       "optimizer: {type: adam, adam: {amsgrad: true}}\n" RATE
                       "ema: {trainable_weights_only: false}",
                       &(tl_optimizer_args){.scaled = true}, EAGER);
    assert_ok(tl_state_new(&s));
    assert_ok(tl_optimizer_state(l.o, s));
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        assert_ok(tl_state_get(&e, s, wanted[i], TL_STATE_TENSOR));
    assert_true(tl_state_find(&e, s, "v/conv/kernel"));
    tl_shape shape = TL_SHAPE(2, 3, 4);
    assert_true(tl_shape_equal(&e.tensor->shape, &shape));
    assert_false(tl_state_find(&e, s, "m/statistic")); // it is not trained
    int64_t entries, bytes;
    assert_ok(tl_state_size(s, &entries, &bytes));
    assert_int_equal(entries, 2 + 3 * 4 + 5 + 2);
    tl_state_free(&s);
    lab_close(&l);
}

static void check_resume(const char *yaml, int mode)
{
    lab first, second;
    char text[512];
    snprintf(text, sizeof text, "%sema: {average_decay: 0.75}\n", yaml);
    lab_open(&first, TL_F32, text, mode);
    for (int step = 1; step <= 4; step++) lab_run_number(&first, step);
    tl_state *middle = snapshot(&first);
    for (int step = 5; step <= 8; step++) lab_run_number(&first, step);
    tl_state *end = snapshot(&first);
    lab_open(&second, TL_F32, text, mode);
    lab_run_number(&second, 77); // captured before it is restored
    tl_state *into = state_of(&second);
    assert_ok(tl_state_copy(into, middle, NULL, NULL));
    assert_int_equal(tl_optimizer_iterations(second.o), 4);
    for (int step = 5; step <= 8; step++) lab_run_number(&second, step);
    assert_true(still(&second, end));
    tl_state_free(&into);
    tl_state_free(&middle);
    tl_state_free(&end);
    lab_close(&first);
    lab_close(&second);
}

static void test_resume(void **state)
{
    (void)state;
    for (int i = 0; i < RULES; i++) check_resume(all_rules[i], i % 4 == 3 ? COMPILED : EAGER);
}

/* --- classes of one's own --------------------------------------------------------------------- */

typedef struct sign_config {
    tl_optimizer_config base;
    double beta;
} sign_config;
static const tl_field sign_fields[] = {
    TL_F(sign_config, beta, .d = 0.5, .help = "share of the old gradient"),
    TL_F_END,
};
static const tl_desc sign_desc = {
    .name = "sign",
    .help = "steps by signs",
    .size = sizeof(sign_config),
    .base = &tl_optimizer_config_desc,
    .fields = sign_fields,
};

static tl_status sign_prepare(tl_optimizer_block *b, const void *config)
{
    (void)config;
    TL_TRY(tl_optimizer_add_slot(b, "m", 0.25));
    for (int64_t i = 0; i < b->block->param_count; i++)
        TL_TRY(tl_optimizer_add_param_slot(b, "count", i, TL_SHAPE(1), 3));
    b->weight_decay = 0.5;
    return TL_OK;
}

// m = beta m + (1 - beta) g; w -= rate (sign(m) + decay w)
static bool sign_update(tl_ctx *c, const tl_update *u)
{
    const sign_config *g = u->config;
    tl_dtype dtype = u->values->dtype;
    tl_tensor *m = tl_optimizer_slot(u->block, "m");
    tl_tensor *grad = tl_mul(c, u->grad, tl_cast(c, u->scale, dtype));
    tl_tensor *next = tl_add(c, tl_scale(c, m, g->beta), tl_scale(c, grad, 1 - g->beta));
    tl_tensor *by = tl_add(c, tl_sign(c, next), tl_scale(c, u->values, u->block->weight_decay));
    by = tl_mul(c, by, tl_cast(c, u->rate, dtype));
    tl_assign(c, m, tl_where(c, u->apply, next, m));
    return tl_assign(c, u->values, tl_where(c, u->apply, tl_sub(c, u->values, by), u->values));
}
static const tl_optimizer_class sign_class = {
    .cls = {.class_size = sizeof(tl_optimizer_class),
            .name = "sign",
            .help = "steps by signs",
            .config = &sign_desc},
    .update = sign_update,
    .prepare = sign_prepare,
    .decays = true,
};
// What was compiled when the table was only a head; it takes its methods from a newer one.
static const tl_class old_class = {
    .class_size = sizeof(tl_class),
    .name = "old",
    .help = "older",
    .base = &sign_class.cls,
    .config = &sign_desc,
};
static const tl_class bare_class = {
    .class_size = sizeof(tl_class),
    .name = "bare",
    .help = "bare",
    .config = &sign_desc,
};

static void check_own(const char *type, int mode)
{
    static const tl_entry entries[] = {{&tl_kind_optimizer, &sign_class.cls},
                                       {&tl_kind_optimizer, &old_class},
                                       {&tl_kind_optimizer, &bare_class}};
    static const tl_module own = {TL_MODULE_HEAD("own"), entries, TL_COUNT(entries)};
    assert_ok(tl_registry_add(registry, &own));
    lab l;
    char yaml[256];
    double found[ELEMENTS], w[MOST], g[MOST];
    snprintf(yaml, sizeof yaml, "optimizer: {type: %s}\n" RATE, type);
    lab_open(&l, TL_F64, yaml, mode);
    lab_run_number(&l, 1);
    get_all(found, l.params);
    pseudo_values(w, 1, MOST);
    pseudo_values(g, 17 + 3, MOST);
    for (int i = 0; i < 15; i++) {
        double m = 0.125 + 0.5 * g[i], sign = m > 0 ? 1 : m < 0 ? -1 : 0;
        assert_near(found[i], w[i] - 0.125 * (sign + 0.5 * w[i]), 1e-15);
    }
    tl_state *s = state_of(&l);
    tl_state_entry e;
    assert_true(tl_state_find(&e, s, "optimizer/count/conv/kernel"));
    tl_state_free(&s);
    lab_close(&l);
}

static void test_own_class(void **state)
{
    (void)state;
    for (int mode = 0; mode < MODES; mode++) check_own("sign", mode);
    check_own("old", EAGER);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void test_refused(void **state)
{
    (void)state;
    lab l;
    tl_optimizer *o;
    lab_open_model(&l, TL_F32);
    assert_fails(try_optimizer(&o, &l, RATE, NULL, 0), TL_EINVAL, "optimizer.type: must be set");
    assert_fails(try_optimizer(&o, &l, "optimizer: {type: sgd}", NULL, 0), TL_EINVAL,
                 "learning_rate.type: must be set");
    assert_fails(
        try_optimizer(&o, &l, "optimizer: {type: sgd}\nlearning_rate: {type: cosine}", NULL, 0),
        TL_EINVAL, "initial_learning_rate: must be set");
    assert_fails(try_optimizer(&o, &l, "optimizer: {type: bare}\n" RATE, NULL, 0), TL_EUNSUPPORTED,
                 "'bare' can be configured, but has no method 'update'");
    assert_fails(try_optimizer(&o, &l,
                               "optimizer: {type: adamw, adamw: {weight_decay_rate: 1,\n"
                               "  exclude_from_weight_decay: ['a(']}}\n" RATE,
                               NULL, 0),
                 TL_EINVAL, "exclude_from_weight_decay: 'a(' is no regular expression");
    assert_fails(try_optimizer(&o, &l,
                               "optimizer: {type: adamw, adamw: {weight_decay_rate: 1,\n"
                               "  include_in_weight_decay: '['}}\n" RATE,
                               NULL, 0),
                 TL_EINVAL, "include_in_weight_decay: '['");
    assert_fails(try_optimizer(&o, &l,
                               "optimizer: {type: lamb, lamb: {\n"
                               "  exclude_from_layer_adaptation: [ok, '*)']}}\n" RATE,
                               NULL, 0),
                 TL_EINVAL, "exclude_from_layer_adaptation: '*)'");
    tl_slide_config slide = {.norm_type = "layer"};
    tl_optimization_config literal = {
        .optimizer = {.type = "slide", .value = &slide},
        .learning_rate = {.type = "constant"},
    };
    assert_fails(
        tl_optimizer_new(
            &o, &(tl_optimizer_args){.engine = l.engine, .model = l.model, .config = &literal}),
        TL_EUNSUPPORTED, "slide");
    tl_sgd_config both = {.base = {.clipnorm = {true, 1}, .global_clipnorm = {true, 1}}};
    literal.optimizer = (tl_oneof){.type = "sgd", .value = &both};
    assert_fails(
        tl_optimizer_new(
            &o, &(tl_optimizer_args){.engine = l.engine, .model = l.model, .config = &literal}),
        TL_EINVAL, "clipnorm");
    assert_ok(tl_model_set_trainable(l.model, "", false));
    assert_fails(try_optimizer(&o, &l, all_rules[0], NULL, 0), TL_EINVAL, "no parameters to train");
    assert_null(o);
    lab_close(&l);
}

static void assert_apply_fails(lab *l, tl_tensor *const *grads, tl_tensor *weight, tl_status code,
                               const char *message)
{
    tl_mark mark = tl_ctx_begin(l->c);
    assert_false(tl_optimizer_apply(l->o, l->c, grads, weight));
    assert_fails(tl_ctx_status(l->c), code, message);
    assert_false(tl_optimizer_apply(l->o, l->c, grads, weight)); // it stays failed
    tl_ctx_end(l->c, mark);
}

static void test_wrong_calls(void **state)
{
    (void)state;
    lab l;
    lab_open(&l, TL_F32, all_rules[0], EAGER);
    tl_tensor *grads[MOST_BLOCKS] = {0};
    tl_state *before = snapshot(&l);
    assert_apply_fails(&l, grads, NULL, TL_EINVAL, "is trained, but has no gradient");
    for (int i = 0; i < MOST_BLOCKS; i++) grads[i] = l.params[0];
    assert_apply_fails(&l, grads, NULL, TL_EINVAL, "must be of a floating-point type and shaped");
    assert_apply_fails(&l, l.grads, l.params[0], TL_EINVAL, "must be a floating-point scalar");
    tl_mark mark = tl_ctx_begin(l.c);
    assert_false(tl_optimizer_flush(l.o, l.c));
    assert_fails(tl_ctx_status(l.c), TL_ESTATE, "nothing was accumulated");
    tl_ctx_end(l.c, mark);
    assert_true(still(&l, before));
    tl_state_free(&before);
    assert_ok(tl_model_set_trainable(l.model, "conv", false));
    assert_apply_fails(&l, l.grads, NULL, TL_ESTATE, "laid out anew");
    lab_close(&l);
}

// Some of it frozen: the rest is updated.
static void test_frozen_part(void **state)
{
    (void)state;
    lab l;
    double before[ELEMENTS], after[ELEMENTS];
    lab_open_model(&l, TL_F32);
    assert_ok(tl_model_set_trainable(l.model, "conv", false));
    lab_open_optimizer(&l, all_rules[3], NULL, EAGER);
    get_all(before, l.params);
    for (int i = 0; i < 3; i++) {
        double values[MOST];
        pseudo_values(values, i, MOST);
        assert_ok(tl_tensor_set_doubles(l.grad_parts[i], values, tl_tensor_count(l.params[i])));
    }
    lab_run(&l);
    get_all(after, l.params);
    assert_memory_equal(before + 22, after + 22, 24 * sizeof(double));
    assert_true(most_apart(before, after, 15) > 0.01);
    lab_close(&l);
}

// What a C program writes down: members that are left out have their defaults.
static void test_literal(void **state)
{
    (void)state;
    lab a, b;
    double x[ELEMENTS], y[ELEMENTS];
    lab_open(&a, TL_F32,
             "optimizer: {type: adam, adam: {beta_1: 0.5}}\n" RATE
             "ema: {average_decay: 0, dynamic_decay: false}",
             EAGER);
    lab_open_model(&b, TL_F32);
    tl_adam_config adam = {.beta_1 = TL_SET(0.5)};
    tl_constant_config rate = {.learning_rate = TL_SET(0.125)};
    tl_ema_config ema = {.average_decay = TL_SET(0), .dynamic_decay = TL_SET(false)};
    tl_optimization_config literal = {
        .optimizer = {.type = "adam", .value = &adam},
        .learning_rate = {.type = "constant", .value = &rate},
        .ema = &ema,
    };
    assert_ok(tl_optimizer_new(
        &b.o, &(tl_optimizer_args){.engine = b.engine, .model = b.model, .config = &literal}));
    new_grads(&b);
    for (int step = 1; step < 4; step++) {
        lab_run_number(&a, step);
        lab_run_number(&b, step);
    }
    get_all(x, a.params);
    get_all(y, b.params);
    assert_memory_equal(x, y, sizeof x);
    assert_ok(tl_optimizer_swap(b.o)); // a decay of 0: the averages are the weights
    get_all(x, b.params);
    assert_memory_equal(x, y, sizeof x);
    assert_ok(tl_optimizer_swap(b.o));
    lab_close(&a);
    lab_close(&b);
}

/* --- no memory -------------------------------------------------------------------------------- */

static void test_no_memory_for_new(void **state)
{
    (void)state;
    lab l;
    tl_optimizer *o;
    const char *yaml = "optimizer: {type: adamw, adamw: {weight_decay_rate: 0.1,\n"
                       "  exclude_from_weight_decay: [bias]}}\n" RATE "ema: {}";
    tl_config *s = settings_of(yaml);
    lab_open_model(&l, TL_F32);
    assert_ok(tl_model_set_group(l.model, "bias", "g"));
    tl_group_config group = {.group = "g", .rate = {true, 2}};
    tl_optimizer_args args = {.engine = l.engine,
                              .model = l.model,
                              .config = tl_config_value(s),
                              .scaled = true,
                              .groups = &group,
                              .group_count = 1};
    int64_t before = tl_alloc_calls();
    assert_ok(tl_optimizer_new(&o, &args));
    int64_t calls = tl_alloc_calls() - before;
    tl_optimizer_free(&o);
    assert_true(calls > 20);
    for (int64_t i = 1; i <= calls; i++) {
        tl_alloc_fail_at(i, 1);
        tl_status st = tl_optimizer_new(&o, &args);
        tl_alloc_fail_at(0, 0);
        if (st != TL_OK) assert_int_equal(st, TL_ENOMEM);
        if (st != TL_OK) assert_null(o);
        tl_optimizer_free(&o);
    }
    tl_config_free(&s);
    lab_close(&l);
}

static void check_no_memory(const char *yaml, bool accumulating)
{
    for (int64_t i = 1; i < 1000; i++) {
        lab l;
        lab_open(&l, TL_F32, yaml, EAGER);
        lab_set_gradients(&l, 1);
        tl_ctx_free(&l.c); // a context that has no memory yet
        assert_ok(tl_ctx_new(&l.c, l.engine));
        tl_optimizer_set_accumulating(l.o, accumulating);
        tl_alloc_fail_at(i, 1);
        int64_t begin = tl_alloc_calls();
        bool done = tl_optimizer_apply(l.o, l.c, l.grads, NULL);
        if (accumulating) done = done && tl_optimizer_flush(l.o, l.c);
        int64_t calls = tl_alloc_calls() - begin;
        tl_alloc_fail_at(0, 0);
        assert_int_equal(tl_ctx_status(l.c), done ? TL_OK : TL_ENOMEM);
        if (done && !accumulating) assert_int_equal(tl_optimizer_iterations(l.o), 1);
        lab_close(&l);
        if (calls < i) return;
    }
    fail_msg("it never succeeded");
}

static void test_no_memory_for_a_step(void **state)
{
    (void)state;
    check_no_memory("optimizer: {type: adamw, adamw: {clipnorm: 1, clipvalue: 1}}\n" RATE "ema: {}",
                    false);
    check_no_memory(all_rules[0], true);
    check_no_memory("optimizer: {type: adafactor_keras}\n" RATE, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_unweighted_accumulation),
        cmocka_unit_test(test_bad_window),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_multiplier_in_programs),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_group_decay),
        cmocka_unit_test(test_bad_groups),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_own_class),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_wrong_calls),
        cmocka_unit_test(test_frozen_part),
        cmocka_unit_test(test_literal),
        cmocka_unit_test(test_no_memory_for_new),
        cmocka_unit_test(test_no_memory_for_a_step),
    };
    return cmocka_run_group_tests(tests, open_labs, close_labs);
}
