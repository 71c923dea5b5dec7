/* Learning rates and warm-ups: vectors of Model Garden's tests and of LiBai's formulas, what is
 * missing, and the same bits eagerly and in a program. */
#include "test.h"
#include "engine.h"

#include <tilth/base/alloc.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/graph/function.h>
#include <tilth/nn/schedule.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>

#include "nn/rate.h"
#include "settings.h"

static const double pi = 3.14159265358979323846;

typedef struct point {
    int64_t step;
    double rate;
} point;

static void check_points(const char *yaml, const point *points, size_t count, double relative)
{
    tl_config *s = settings_of(yaml);
    for (size_t i = 0; i < count; i++) {
        double rate = NAN;
        assert_ok(schedule_rate(&rate, tl_config_value(s), points[i].step));
        if (!(fabs(rate - points[i].rate) <= relative * fmax(fabs(points[i].rate), 1e-12)))
            fail_msg("%s\n    step %lld: %.10g, not %.10g", yaml, (long long)points[i].step, rate,
                     points[i].rate);
    }
    tl_config_free(&s);
}
#define assert_rates(yaml, relative, ...)                                                          \
    check_points((yaml), (const point[]){__VA_ARGS__},                                             \
                 sizeof((const point[]){__VA_ARGS__}) / sizeof(point), (relative))

/* --- Model Garden's --------------------------------------------------------------------------- */

static void test_constant(void **state)
{
    (void)state;
    assert_rates("learning_rate: {type: constant}", 0, {0, 0.1}, {12345678, 0.1});
}

static void test_stepwise(void **state)
{
    (void)state;
    assert_rates("learning_rate: {type: stepwise, stepwise: {boundaries: [10000, 20000],\n"
                 "  values: [0.1, 0.01, 0.001]}}\n"
                 "warmup: {type: linear, linear: {warmup_steps: 500, warmup_learning_rate: 0.01}}",
                 1e-15, {0, 0.01}, {250, 0.055}, {499, 0.09982}, {500, 0.1}, {5500, 0.1},
                 {10000, 0.1}, {10001, 0.01}, {20000, 0.01}, {20001, 0.001});
    assert_rates("learning_rate: {type: stepwise, stepwise: {boundaries: [10], values: [2, 1],\n"
                 "  offset: 5}}",
                 0, {0, 2}, {15, 2}, {16, 1});
    assert_rates("learning_rate: {type: stepwise, stepwise: {values: [0.25]}}", 0, {0, 0.25},
                 {9, 0.25});
}

static void test_polynomial_warmup(void **state)
{
    (void)state;
    assert_rates("learning_rate: {type: stepwise, stepwise: {boundaries: [10000, 20000],\n"
                 "  values: [0.1, 0.01, 0.001]}}\n"
                 "warmup: {type: polynomial, polynomial: {warmup_steps: 500, power: 2}}",
                 1e-15, {0, 0.1 / 250000}, {1, 0.1 / 250000}, {250, 0.025}, {500, 0.1},
                 {10001, 0.01});
    assert_rates("learning_rate: {type: constant, constant: {learning_rate: 3}}\n"
                 "warmup: {type: polynomial, polynomial: {warmup_steps: 0}}",
                 0, {0, 3}, {1, 3});
}

/* The WarmUp of official/nlp/optimization.py: to a rate of its own, from which the schedule has
 * fallen already. */
static void test_peak_warmup(void **state)
{
    (void)state;
    assert_rates("learning_rate: {type: polynomial, polynomial: {initial_learning_rate: 1,\n"
                 "  decay_steps: 100, end_learning_rate: 0}}\n"
                 "warmup: {type: peak, peak: {warmup_steps: 10, peak_learning_rate: 1}}",
                 1e-15, {0, 0}, {1, 0.1}, {5, 0.5}, {9, 0.9}, {10, 0.9}, {11, 0.89}, {100, 0});
    assert_rates("learning_rate: {type: constant, constant: {learning_rate: 3}}\n"
                 "warmup: {type: peak, peak: {warmup_steps: 4, power: 2}}",
                 1e-15, {0, 0}, {1, 0.1 / 16}, {2, 0.025}, {4, 3});
}

static void test_exponential(void **state)
{
    (void)state;
    assert_rates("learning_rate: {type: exponential, exponential: {initial_learning_rate: 0.1,\n"
                 "  decay_steps: 1000, decay_rate: 0.96, staircase: true}}",
                 1e-15, {0, 0.1}, {999, 0.1}, {1000, 0.096}, {2500, 0.1 * 0.96 * 0.96});
    assert_rates("learning_rate: {type: exponential, exponential: {initial_learning_rate: 0.1,\n"
                 "  decay_steps: 1000, decay_rate: 0.96, offset: 100}}",
                 1e-14, {100, 0.1}, {600, 0.1 * sqrt(0.96)}, {1100, 0.096});
}

static void test_polynomial(void **state)
{
    (void)state;
    assert_rates("learning_rate: {type: polynomial, polynomial: {initial_learning_rate: 0.1,\n"
                 "  decay_steps: 1000, end_learning_rate: 0.001}}",
                 1e-13, {0, 0.1}, {500, 0.0505}, {1000, 0.001}, {9999, 0.001});
    assert_rates("learning_rate: {type: polynomial, polynomial: {initial_learning_rate: 1,\n"
                 "  decay_steps: 10, end_learning_rate: 0, power: 2, cycle: true}}",
                 1e-13, {0, 1}, {5, 0.25}, {10, 0}, {15, 0.0625}, {20, 0});
    // A step before the offset is not stopped at the initial rate.
    assert_rates("learning_rate: {type: polynomial, polynomial: {initial_learning_rate: 1,\n"
                 "  decay_steps: 10, end_learning_rate: 0, offset: 10}}",
                 1e-13, {0, 2}, {10, 1}, {15, 0.5});
}

static void test_cosine(void **state)
{
    (void)state;
    assert_rates("learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.1,\n"
                 "  decay_steps: 1000, alpha: 0.1, offset: 7}}",
                 1e-13, {7, 0.1}, {257, 0.1 * (0.9 * 0.5 * (1 + cos(pi / 4)) + 0.1)}, {507, 0.055},
                 {1007, 0.01}, {5000, 0.01});
}

static void test_cosine_restarts(void **state)
{
    (void)state;
    // Each fall is twice as long and half as high: from 0, 10, 30, 70, 150.
    assert_rates("learning_rate: {type: cosine_restarts, cosine_restarts: {\n"
                 "  initial_learning_rate: 1, first_decay_steps: 10, m_mul: 0.5}}",
                 1e-13, {0, 1}, {5, 0.5}, {10, 0.5}, {20, 0.25}, {30, 0.25}, {50, 0.125},
                 {70, 0.125}, {150, 0.0625}, {310, 1. / 32}, {630, 1. / 64}, {1270, 1. / 128});
    assert_rates("learning_rate: {type: cosine_restarts, cosine_restarts: {t_mul: 1,\n"
                 "  initial_learning_rate: 2, first_decay_steps: 4, alpha: 0.5}}",
                 1e-13, {0, 2}, {2, 1.5}, {4, 2}, {6, 1.5}, {401, 1 + 0.5 * (1 + cos(pi / 4))});
    assert_rates("learning_rate: {type: cosine_restarts, cosine_restarts: {t_mul: 1.5,\n"
                 "  initial_learning_rate: 1, first_decay_steps: 2, offset: 3}}",
                 1e-13, {0, 1}, {3, 1}, {4, 0.5}, {5, 1}, {8, 1});
}

static void test_powers(void **state)
{
    (void)state;
    assert_rates("learning_rate: {type: power, power: {initial_learning_rate: 1, power: -1}}",
                 1e-14, {0, 1}, {1, 1}, {250, 1. / 250});
    assert_rates("learning_rate: {type: power_linear, power_linear: {initial_learning_rate: 1,\n"
                 "  power: -1, linear_decay_fraction: 0.5, total_decay_steps: 100, offset: 0}}",
                 1e-14, {0, 1}, {1, 1}, {40, 1. / 40}, {60, 0.8 / 60}, {100, 0}, {200, 0});
    assert_rates("learning_rate: {type: power_linear, power_linear: {initial_learning_rate: 1,\n"
                 "  power: -1, linear_decay_fraction: 0.5, total_decay_steps: 100, offset: 90}}",
                 1e-14, {0, 1}, {90, 1}, {91, 1}, {130, 1. / 40}, {150, 0.8 / 60}, {190, 0});
    assert_rates("learning_rate: {type: power_linear, power_linear: {initial_learning_rate: 1,\n"
                 "  power: 0, linear_decay_fraction: 1, total_decay_steps: 100}}",
                 1e-14, {0, 1}, {40, 0.6}, {100, 0});
    assert_rates("learning_rate: {type: power_linear, power_linear: {initial_learning_rate: 1,\n"
                 "  power: -1, linear_decay_fraction: 0, total_decay_steps: 100}}",
                 1e-14, {200, 1. / 200});
    assert_rates("learning_rate: {type: power_with_offset, power_with_offset: {power: -1,\n"
                 "  initial_learning_rate: 1, offset: 10, pre_offset_learning_rate: 3}}",
                 1e-14, {1, 3}, {10, 3}, {11, 1}, {20, 0.1});
}

static void test_step_cosine(void **state)
{
    (void)state;
    const char *yaml = "learning_rate: {type: step_cosine_with_offset, step_cosine_with_offset: {\n"
                       "  values: [0.0001, 0.00005], boundaries: [0, 500000], offset: 10000}}\n"
                       "warmup: {type: linear, linear: {warmup_steps: 10000}}";
    assert_rates(yaml, 1e-14, {0, 0}, {5000, 5e-5}, {10000, 1e-4},
                 {20000, 5e-5 + 2.5e-5 * (1 + cos(pi / 50))});
    // As near as the original's test asks for, where it rounds to float32.
    assert_rates(yaml, 1e-3, {20000, 9.994863e-05}, {499999, 5e-05});
    // Where the original divides by 0: the last value stays.
    assert_rates(yaml, 1e-14, {510000, 5e-5}, {510001, 5e-5}, {999999, 5e-5});
    assert_rates("learning_rate: {type: step_cosine_with_offset, step_cosine_with_offset: {\n"
                 "  values: [1, 0.5, 2], boundaries: [10, 20, 40]}}",
                 1e-13, {0, 1}, {10, 1}, {15, 0.75}, {20, 0.5}, {30, 1.25}, {40, 2}, {41, 2});
}

/* A schedule with an offset is the one without it, so many steps later. */
static void test_offsets(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "type: stepwise, stepwise: {boundaries: [3, 7], values: [1, 2, 3], offset: %d}",
        "type: exponential, exponential: {initial_learning_rate: 0.3, decay_steps: 3, decay_rate: "
        "0.7, offset: %d}",
        "type: polynomial, polynomial: {initial_learning_rate: 0.3, decay_steps: 9, power: 1.7, "
        "offset: %d}",
        "type: cosine, cosine: {initial_learning_rate: 0.3, decay_steps: 9, offset: %d}",
        "type: cosine_restarts, cosine_restarts: {initial_learning_rate: 0.3, first_decay_steps: "
        "3, offset: %d}",
        "type: power_linear, power_linear: {initial_learning_rate: 0.3, total_decay_steps: 9, "
        "offset: %d}",
        "type: step_cosine_with_offset, step_cosine_with_offset: {boundaries: [0, 9], values: [3, "
        "2], offset: %d}",
    };
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        tl_config *s[2];
        for (int k = 0; k < 2; k++) {
            char body[256], yaml[320];
            snprintf(body, sizeof body, rows[i], 7 * k);
            snprintf(yaml, sizeof yaml, "learning_rate: {%s}", body);
            s[k] = settings_of(yaml);
        }
        for (int64_t step = 0; step < 12; step++) {
            double plain = NAN, later = NAN;
            assert_ok(schedule_rate(&plain, tl_config_value(s[0]), step));
            assert_ok(schedule_rate(&later, tl_config_value(s[1]), step + 7));
            assert_near(later, plain, 1e-15);
        }
        for (int k = 0; k < 2; k++) tl_config_free(&s[k]);
    }
}

/* --- LiBai's, and others ---------------------------------------------------------------------- */

static void test_libai(void **state)
{
    (void)state;
    assert_rates("learning_rate: {type: cosine, cosine: {initial_learning_rate: 1.0e-4,\n"
                 "  decay_steps: 100, alpha: 0.01}}\n"
                 "warmup: {type: linear, linear: {warmup_steps: 10, warmup_learning_rate: 1.0e-7}}",
                 1e-6, {0, 1e-7}, {1, 9.847730e-06}, {5, 4.883865e-05}, {9, 8.782957e-05},
                 {10, 9.757730e-05}, {11, 9.707360e-05}, {50, 5.050000e-05}, {99, 1.024425e-06},
                 {100, 1e-6}, {101, 1e-6});
    assert_rates("learning_rate: {type: multistep, multistep: {initial_learning_rate: 5,\n"
                 "  milestones: [10, 15, 20]}}\n"
                 "warmup: {type: linear, linear: {warmup_steps: 5, warmup_learning_rate: 0.005}}",
                 1e-12, {0, 0.005}, {1, 1.004}, {2, 2.003}, {3, 3.002}, {4, 4.001}, {5, 5}, {9, 5},
                 {10, 0.5}, {14, 0.5}, {15, 0.05}, {19, 0.05}, {20, 0.005}, {1000, 0.005});
    assert_rates("learning_rate: {type: exponential, exponential: {initial_learning_rate: 5,\n"
                 "  decay_steps: 1, decay_rate: 0.1}}\n"
                 "warmup: {type: linear, linear: {warmup_steps: 5, warmup_learning_rate: 0.005}}",
                 1e-12, {0, 0.005}, {1, 0.00401}, {2, 0.00302}, {3, 0.00203}, {4, 0.00104},
                 {5, 5e-5}, {6, 5e-6});
    assert_rates("learning_rate: {type: exponential, exponential: {initial_learning_rate: 1,\n"
                 "  decay_steps: 10, decay_rate: 0.1, staircase: true}}\n"
                 "warmup: {type: constant, constant: {warmup_steps: 5,\n"
                 "  warmup_learning_rate: 0.25}}",
                 1e-14, {0, 0.25}, {4, 0.25}, {5, 1}, {9, 1}, {10, 0.1}, {20, 0.01});
    assert_rates("learning_rate: {type: cosine_annealing, cosine_annealing: {decay_steps: 8,\n"
                 "  initial_learning_rate: 1, end_learning_rate: 0.2}}",
                 1e-13, {0, 1}, {4, 0.6}, {8, 0.2}, {12, 0.6}, {16, 1}, {24, 0.2});
}

static void test_stable_decay(void **state)
{
    (void)state;
    const char *format = "learning_rate: {type: stable_decay, stable_decay: {shape: %s,\n"
                         "  initial_learning_rate: 1, end_learning_rate: 0.1, total_steps: 100,\n"
                         "  decay_steps: 40}}\n"
                         "warmup: {type: linear, linear: {warmup_steps: 10}}";
    char yaml[512];
    snprintf(yaml, sizeof yaml, format, "linear");
    assert_rates(yaml, 1e-13, {0, 0}, {5, 0.5}, {10, 1}, {60, 1}, {70, 0.775}, {100, 0.1},
                 {101, 0.1});
    snprintf(yaml, sizeof yaml, format, "cosine");
    assert_rates(yaml, 1e-13, {60, 1}, {70, 0.1 + 0.45 * (1 + cos(pi / 4))}, {80, 0.55},
                 {100, 0.1});
    snprintf(yaml, sizeof yaml, format, "sqrt");
    assert_rates(yaml, 1e-13, {60, 1}, {70, 0.55}, {100, 0.1}, {500, 0.1});
}

/* --- what is wrong ---------------------------------------------------------------------------- */

static void assert_missing(const char *yaml, const char *message)
{
    tl_config *s = settings_of(yaml);
    tl_schedule *schedule = NULL;
    assert_fails(tl_schedule_new(&schedule, tl_config_value(s), registry), TL_EINVAL, message);
    assert_null(schedule);
    tl_config_free(&s);
}

static void test_missing_keys(void **state)
{
    (void)state;
    assert_missing("{}", "learning_rate.type: must be set");
    assert_missing("learning_rate: {type: exponential, exponential: {initial_learning_rate: 1,\n"
                   "  decay_steps: 3}}",
                   "learning_rate.exponential: decay_rate: must be set");
    assert_missing("learning_rate: {type: exponential, exponential: {initial_learning_rate: 1}}",
                   "decay_steps: must be set");
    assert_missing("learning_rate: {type: polynomial, polynomial: {initial_learning_rate: 1}}",
                   "learning_rate.polynomial: decay_steps: must be set");
    assert_missing("learning_rate: {type: polynomial}", "initial_learning_rate: must be set");
    assert_missing("learning_rate: {type: cosine, cosine: {initial_learning_rate: 1}}",
                   "learning_rate.cosine: decay_steps: must be set");
    assert_missing("learning_rate: {type: cosine_restarts, cosine_restarts: {\n"
                   "  initial_learning_rate: 1}}",
                   "first_decay_steps: must be set");
    assert_missing("learning_rate: {type: power_linear, power_linear: {initial_learning_rate: 1}}",
                   "total_decay_steps: must be set");
    assert_missing("learning_rate: {type: power}", "initial_learning_rate: must be set");
    assert_missing("learning_rate: {type: power_with_offset}",
                   "initial_learning_rate: must be set");
    assert_missing("learning_rate: {type: stepwise}",
                   "learning_rate.stepwise: values: must be set");
    assert_missing("learning_rate: {type: stepwise, stepwise: {values: [1, 2]}}",
                   "boundaries: must be set");
    assert_missing("learning_rate: {type: step_cosine_with_offset,\n"
                   "  step_cosine_with_offset: {boundaries: [1, 2]}}",
                   "values: must be set");
    assert_missing("learning_rate: {type: multistep, multistep: {initial_learning_rate: 1}}",
                   "milestones: must be set");
    assert_missing("learning_rate: {type: cosine_annealing,\n"
                   "  cosine_annealing: {initial_learning_rate: 1}}",
                   "decay_steps: must be set");
    assert_missing("learning_rate: {type: stable_decay, stable_decay: {initial_learning_rate: 1,\n"
                   "  total_steps: 4}}",
                   "decay_steps: must be set");
    assert_missing("learning_rate: {type: constant}\nwarmup: {type: linear}",
                   "warmup.linear.warmup_steps: must be set");
    assert_missing("learning_rate: {type: constant}\nwarmup: {type: polynomial}",
                   "warmup.polynomial.warmup_steps: must be set");
}

/* Lengths and orders are seen when a configuration is finished, and again in C literals. */
static void test_literals(void **state)
{
    (void)state;
    static const int64_t boundaries[] = {1, 2};
    static const double values[] = {1, 2};
    tl_stepwise_config steps = {.boundaries = {boundaries, 2}, .values = {values, 2}};
    tl_optimization_config o = {.learning_rate = {.type = "stepwise", .value = &steps}};
    double rate;
    assert_fails(schedule_rate(&rate, &o, 0), TL_EINVAL,
                 "values: 2 boundaries need 3 values, not 2");
    steps.boundaries.count = 1;
    assert_ok(schedule_rate(&rate, &o, 0));
    assert_near(rate, 1, 0);
    tl_stable_decay_config decay = {
        .initial_learning_rate = {true, 1},
        .total_steps = {true, 4},
        .decay_steps = {true, 5},
    };
    o.learning_rate = (tl_oneof){.type = "stable_decay", .value = &decay};
    assert_fails(schedule_rate(&rate, &o, 0), TL_EINVAL, "decay_steps: 5 is more than");
    o.learning_rate = (tl_oneof){.type = "constnt"};
    assert_fails(schedule_rate(&rate, &o, 0), TL_ENOTFOUND, "constant");
    o.learning_rate = (tl_oneof){.type = "constant"};
    assert_ok(schedule_rate(&rate, &o, 0));
    assert_near(rate, 0.1, 0);
    tl_schedule *s;
    assert_ok(tl_schedule_new(&s, &o, NULL));
    assert_true(tl_schedule_constant(s));
    tl_schedule_free(&s);
    tl_linear_warmup_config warmup = {.base = {.warmup_steps = {true, 0}}};
    o.warmup = (tl_oneof){.type = "linear", .value = &warmup};
    assert_ok(tl_schedule_new(&s, &o, NULL));
    assert_true(tl_schedule_constant(s)); // a warm-up without steps is none
    tl_schedule_free(&s);
    warmup.base.warmup_steps.value = 1;
    assert_ok(tl_schedule_new(&s, &o, NULL));
    assert_false(tl_schedule_constant(s));
    tl_schedule_free(&s);
    tl_schedule_free(&s);
}

/* --- in a program ----------------------------------------------------------------------------- */

static const char *const all[] = {
    "learning_rate: {type: constant}",
    "learning_rate: {type: stepwise, stepwise: {boundaries: [3, 7], values: [1, 2, 3]}}",
    "learning_rate: {type: exponential, exponential: {initial_learning_rate: 0.3, decay_steps: 3,\n"
    "  decay_rate: 0.7}}",
    "learning_rate: {type: polynomial, polynomial: {initial_learning_rate: 0.3, decay_steps: 3,\n"
    "  power: 1.7, cycle: true}}",
    "learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.3, decay_steps: 9}}",
    "learning_rate: {type: cosine_restarts, cosine_restarts: {initial_learning_rate: 0.3,\n"
    "  first_decay_steps: 2, t_mul: 1.3, m_mul: 0.9}}",
    "learning_rate: {type: power, power: {initial_learning_rate: 0.3}}",
    "learning_rate: {type: power_linear, power_linear: {initial_learning_rate: 0.3,\n"
    "  total_decay_steps: 9}}",
    "learning_rate: {type: power_with_offset, power_with_offset: {initial_learning_rate: 0.3,\n"
    "  offset: 2}}",
    "learning_rate: {type: step_cosine_with_offset, step_cosine_with_offset: {\n"
    "  boundaries: [0, 4, 9], values: [3, 2, 4]}}",
    "learning_rate: {type: multistep, multistep: {initial_learning_rate: 1, milestones: [2, 4]}}",
    "learning_rate: {type: cosine_annealing, cosine_annealing: {initial_learning_rate: 1,\n"
    "  decay_steps: 3}}",
    "learning_rate: {type: stable_decay, stable_decay: {initial_learning_rate: 1, total_steps: 9,\n"
    "  decay_steps: 5, shape: sqrt}}",
};
static const char *const warmups[] = {
    "{}",
    "{type: linear, linear: {warmup_steps: 4}}",
    "{type: polynomial, polynomial: {warmup_steps: 4, power: 1.5}}",
    "{type: constant, constant: {warmup_steps: 4, warmup_learning_rate: 0.125}}",
    "{type: peak, peak: {warmup_steps: 4, power: 1.5}}",
};

static tl_status rate_of(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_tensors_put(c, out, "rate", tl_schedule_apply(c, self, tl_tensors_get(c, in, "step")));
    return tl_ctx_status(c);
}

static void check_program(tl_engine *e, tl_ctx *c, const tl_optimization_config *config)
{
    tl_schedule *s;
    tl_function *f;
    assert_ok(tl_schedule_new(&s, config, registry));
    assert_ok(tl_function_new(&f, &(tl_function_args){.engine = e, .body = rate_of, .self = s}));
    for (int step = 0; step < 12; step++) {
        tl_mark mark = tl_ctx_begin(c);
        tl_tensors in = {0}, out = {0};
        tl_tensor *at = tl_number(c, TL_F64, step);
        double eager = NAN, captured = NAN, alone = NAN;
        tl_tensors_put(c, &in, "step", at);
        assert_ok(tl_function_call(f, c, &in, &out));
        assert_ok(tl_tensor_item(tl_tensors_get(c, &out, "rate"), &captured));
        assert_ok(tl_tensor_item(tl_schedule_apply(c, s, at), &eager));
        assert_ok(schedule_rate(&alone, config, step));
        assert_memory_equal(&eager, &captured, sizeof eager);
        assert_memory_equal(&eager, &alone, sizeof eager);
        tl_ctx_end(c, mark);
    }
    tl_function_free(&f);
    tl_schedule_free(&s);
}

static void test_bits(void **state)
{
    (void)state;
    tl_engine *e;
    tl_ctx *c;
    assert_ok(test_engine_new(&e, NULL, 1));
    assert_ok(tl_ctx_new(&c, e));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char yaml[512];
        snprintf(yaml, sizeof yaml, "%s\nwarmup: %s\n", all[i], warmups[i % TL_COUNT(warmups)]);
        tl_config *s = settings_of(yaml);
        check_program(e, c, tl_config_value(s));
        tl_config_free(&s);
    }
    tl_ctx_free(&c);
    tl_engine_free(&e);
}

static void test_no_memory(void **state)
{
    (void)state;
    tl_config *s = settings_of("learning_rate: {type: cosine, cosine: {initial_learning_rate: 1,\n"
                               "  decay_steps: 9}}\n"
                               "warmup: {type: linear, linear: {warmup_steps: 4}}");
    double rate = 0;
    int64_t before = tl_alloc_calls();
    assert_ok(schedule_rate(&rate, tl_config_value(s), 3));
    int64_t calls = tl_alloc_calls() - before;
    assert_true(calls > 10);
    for (int64_t i = 1; i <= calls; i++) {
        double again = 0;
        tl_alloc_fail_at(i, 1);
        tl_status st = schedule_rate(&again, tl_config_value(s), 3);
        tl_alloc_fail_at(0, 0);
        if (st == TL_OK) assert_near(again, rate, 0); // something that can be done without
        else assert_int_equal(st, TL_ENOMEM);
    }
    tl_config_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant),
        cmocka_unit_test(test_stepwise),
        cmocka_unit_test(test_polynomial_warmup),
        cmocka_unit_test(test_peak_warmup),
        cmocka_unit_test(test_exponential),
        cmocka_unit_test(test_polynomial),
        cmocka_unit_test(test_cosine),
        cmocka_unit_test(test_cosine_restarts),
        cmocka_unit_test(test_powers),
        cmocka_unit_test(test_step_cosine),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_libai),
        cmocka_unit_test(test_stable_decay),
        cmocka_unit_test(test_missing_keys),
        cmocka_unit_test(test_literals),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, open_registry, close_registry);
}
