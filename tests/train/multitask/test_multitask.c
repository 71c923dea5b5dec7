/* Several tasks on one model: how they are drawn, what a step changes, what is told, and that a
 * run goes on as if it had not stopped. The reference of steps is plain C.
 * runs: fake device */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/log.h>
#include <tilth/builtin/builtin.h>
#include <tilth/io/checkpoint/checkpoint.h>
#include <tilth/nn/layers.h>
#include <tilth/nn/metrics.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/train/multitask/multitask.h>
#include <tilth/train/run/run.h>

#include "train/lab.h"

enum { BATCH = 4, EXAMPLES = 12 };

/* --- two tasks: lines through 0, on one shared number ----------------------------------------- */

/* w of the encoder, u of a's head, v of b's: a learns y = 2x, b learns y = -3x. */
static const double slopes[2] = {2, -3};

static float example_x(int i)
{
    return (float)(i % 5 + 1) / 4;
}

static tl_status line_inputs(tl_task *t, const tl_data_config *data, const tl_input_context *input,
                             tl_dataset **out)
{
    float x[EXAMPLES], y[EXAMPLES];
    double slope = slopes[strcmp(t->name, "b") == 0];
    (void)input;
    for (int i = 0; i < EXAMPLES; i++) {
        x[i] = example_x(i);
        y[i] = (float)(slope * x[i]);
    }
    const tl_array arrays[] = {{"x", TL_F32, TL_SHAPE(EXAMPLES, 1), x},
                               {"y", TL_F32, TL_SHAPE(EXAMPLES, 1), y}};
    return tl_dataset_from_arrays(out, &(tl_arrays_args){.arrays = arrays,
                                                         .count = 2,
                                                         .copy = true,
                                                         .batch_size = BATCH,
                                                         .repeat = data == t->config->train_data});
}

static tl_tensor *line_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                              const tl_tensors *outputs, tl_tensor *aux)
{
    (void)t;
    tl_tensor *d = tl_sub(c, outputs->items[0].tensor, labels->items[0].tensor);
    tl_tensor *loss = tl_mean(c, tl_square(c, d), TL_ALL, false);
    return aux ? tl_add(c, loss, aux) : loss;
}

static tl_status line_metrics(tl_task *t, bool training, tl_metrics *into)
{
    (void)training;
    return tl_metrics_add(NULL, into, &tl_metric_mean_squared_error, NULL,
                          strcmp(t->name, "b") == 0 ? "b_mse" : "a_mse");
}

static tl_status line_validation(tl_task *t, tl_step *s)
{
    TL_TRY(tl_base_task.validation_step(t, s));
    tl_step_log(s, "counter", tl_full(s->ctx, TL_F32, TL_SCALAR, 1));
    return tl_ctx_status(s->ctx);
}

static tl_status line_aggregate(tl_task *t, void **state, const tl_logs *step)
{
    double one;
    (void)t;
    if (!*state && !(*state = tl_alloc_zero(sizeof(double)))) return TL_FAIL_NOMEM(sizeof(double));
    TL_TRY(tl_logs_number(&one, step, "counter"));
    *(double *)*state += one;
    return TL_OK;
}

static tl_status line_reduce(tl_task *t, void *state, int64_t global_step, tl_logs *into)
{
    (void)t, (void)global_step;
    return tl_logs_put(into, "counter", *(const double *)state);
}

static void line_release(tl_task *t, void *state)
{
    (void)t;
    tl_free(state);
}

typedef struct head {
    tl_layer base;
    tl_layer *dense;
} head;

static double penalty; /* of b's head */

static tl_status head_build(tl_layer *l, tl_scope *s, const void *encoder)
{
    static tl_l2_regularizer l2;
    (void)encoder;
    l2 = (tl_l2_regularizer){TL_SET(penalty)};
    tl_oneof costs = {.type = "l2", .value = &l2};
    bool dear = penalty > 0 && strcmp(l->name, "b") == 0;
    ((head *)l)->dense = tl_dense(s, "dense", .units = 1, .without_bias = true,
                                  .kernel_initializer = {.type = "ones"},
                                  .kernel_regularizer = dear ? costs : (tl_oneof){0});
    return tl_scope_status(s);
}

static tl_tensor *head_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    tl_layer *encoder = (tl_layer *)(uintptr_t)l->config;
    return tl_call(c, ((head *)l)->dense, tl_call(c, encoder, x));
}
static const tl_layer_class head_class = {
    .cls = TL_CLASS(tl_layer_class, "line_head", NULL, head, NULL),
    .build = head_build,
    .forward = head_forward,
};

typedef struct lines {
    tl_model base;
    tl_layer *encoder, *a, *b;
} lines;

static bool without_b; /* its part */

static tl_status lines_build(tl_model *m, tl_scope *s, const void *config)
{
    lines *n = (lines *)m;
    (void)config;
    n->encoder = tl_dense(s, "encoder", .units = 1, .without_bias = true,
                          .kernel_initializer = {.type = "ones"});
    n->a = tl_scope_layer(s, "a", &head_class, n->encoder);
    n->b = tl_scope_layer(s, "b", &head_class, n->encoder);
    tl_scope_part(s, n->a);
    if (!without_b) tl_scope_part(s, n->b);
    return tl_scope_status(s);
}

static void lines_forward(tl_model *m, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    lines *n = (lines *)m;
    tl_tensors_put(c, out, "a", tl_call(c, n->a, tl_tensors_get(c, in, "a/x")));
    tl_tensors_put(c, out, "b", tl_call(c, n->b, tl_tensors_get(c, in, "b/x")));
}
static const tl_layer_class lines_class = {
    .cls = TL_CLASS(tl_layer_class, "lines", NULL, lines, NULL),
    .build = lines_build,
    .forward_all = lines_forward,
};

static tl_status lines_model(tl_task *t, tl_model **out)
{
    const tl_spec x[] = {{"a/x", TL_F32, TL_SHAPE(BATCH, 1)}, {"b/x", TL_F32, TL_SHAPE(BATCH, 1)}};
    return tl_model_new(out, &(tl_model_args){.engine = t->engine,
                                              .cls = &lines_class,
                                              .inputs = x,
                                              .input_count = 2,
                                              .seed = t->seed,
                                              .dtype = t->dtype});
}

/* Alone, for evaluations of one model as several tasks. */
static tl_status line_model(tl_task *t, tl_model **out)
{
    const tl_spec x = {"x", TL_F32, TL_SHAPE(BATCH, 1)};
    const tl_dense_config one = {.units = 1, .kernel_initializer = {.type = "ones"}};
    return tl_model_new(out, &(tl_model_args){.engine = t->engine,
                                              .cls = &tl_layer_dense,
                                              .config = &one,
                                              .inputs = &x,
                                              .input_count = 1});
}

static const tl_desc line_desc = {
    .name = "line", .help = "a line", .size = sizeof(tl_task_config), .base = &tl_task_config_desc};
static const tl_task_class line_task = {
    .cls =
        TL_CLASS(tl_task_class, "line", &tl_base_task.cls, tl_task, &line_desc, .help = "a line"),
    .build_model = line_model,
    .build_inputs = line_inputs,
    .build_losses = line_losses,
    .build_metrics = line_metrics,
    .validation_step = line_validation,
    .aggregate_logs = line_aggregate,
    .reduce_aggregated_logs = line_reduce,
    .release_aggregated = line_release,
};
static const tl_desc lines_desc = {.name = "lines",
                                   .help = "two lines",
                                   .size = sizeof(tl_multi_task_config),
                                   .base = &tl_multi_task_config_desc};
static const tl_task_class lines_task = {
    .cls = TL_CLASS(tl_task_class, "lines", &tl_multi_task_class.cls, tl_multi_task, &lines_desc,
                    .help = "two lines"),
    .build_model = lines_model,
};

static const char *second_name = "b";

static tl_status fill_lines(tl_experiment_config *e, tl_arena *arena)
{
    tl_structs *list = &((tl_multi_task_config *)e->task.value)->task_routines;
    tl_task_routine *r;
    TL_TRY(tl_task_routines_add(&r, list, arena, "a", &line_desc));
    return tl_task_routines_add(&r, list, arena, second_name, &line_desc);
}

static tl_status fill_evaluations(tl_experiment_config *e, tl_arena *arena)
{
    tl_task_routine *r;
    TL_TRY(tl_task_routines_add(&r, &e->eval_tasks, arena, "a", &line_desc));
    r->eval_steps = (tl_opt_int)TL_SET(2);
    TL_TRY(tl_task_routines_add(&r, &e->eval_tasks, arena, "b", &line_desc));
    r->eval_steps = (tl_opt_int)TL_SET(3);
    return TL_OK;
}

#define RATE "0.05"
/* Changes of both routines, as YAML. */
#define TASKS(a, b) "task: {task_routines: [{" a "}, {" b "}]}"
static const char settings[] =
    "trainer:\n"
    "  steps_per_loop: 10\n"
    "  summary_interval: 10\n"
    "  checkpoint_interval: 10\n"
    "  train_steps: 20\n"
    "  validation_interval: 10\n"
    "  optimizer_config:\n"
    "    optimizer: {type: sgd, sgd: {momentum: 0.9}}\n"
    "    learning_rate: {type: constant, constant: {learning_rate: " RATE "}}\n"
    "tilth: {seed: 3}\n";
static const tl_experiment_class lines_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class), .name = "lines", .help = "two lines"},
    .task = &lines_desc,
    .trainer = &tl_multi_task_trainer_config_desc,
    .fill = fill_lines,
    .defaults = settings,
};
static const tl_experiment_class line_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class), .name = "line", .help = "a line"},
    .task = &line_desc,
    .fill = fill_evaluations,
    .defaults = settings,
};
static const tl_entry entries[] = {{&tl_kind_task, &line_task.cls},
                                   {&tl_kind_task, &lines_task.cls},
                                   {&tl_kind_experiment, &lines_experiment.cls},
                                   {&tl_kind_experiment, &line_experiment.cls}};
static const tl_module module = {TL_MODULE_HEAD("lines"), entries, TL_COUNT(entries)};

/* --- a trainer for them ----------------------------------------------------------------------- */

static tl_status open_task(lab *w, const char *experiment, const char *override)
{
    return open_task_of(w, &module, experiment, override, 0);
}

static tl_status open_lab(lab *w, const char *experiment, const char *override)
{
    TL_TRY(open_task(w, experiment, override));
    return tl_create_trainer(&w->t, w->params, w->task, w->strategy, true, true, NULL, NULL, 11);
}

static double value_of(const lab *w, const char *path)
{
    double value;
    assert_ok(tl_tensor_item(tl_model_find(w->t->model, path)->tensor, &value));
    return value;
}

/* --- drawing ---------------------------------------------------------------------------------- */

static void distributions_are_those_of_model_garden(void **state)
{
    (void)state;
    static const double weights[] = {1, 2, 3};
    static const float uniform[] = {0.333333F, 0.666666F, 1},
                       proportional[] = {0.07142857F, 0.35714286F, 1},
                       epochs[3][3] = {{0.12056106F, 0.4387236F, 1},
                                       {0.16666667F, 0.5F, 1},
                                       {0.22477472F, 0.5654695F, 1}};
    tl_proportional_sample_config square = {2};
    tl_annealing_sample_config annealing = {6, 18};
    tl_oneof kinds[] = {{.type = "uniform"},
                        {.type = "proportional", .value = &square},
                        {.type = "annealing", .value = &annealing}};
    for (int64_t step = 0; step < 18; step++) {
        const float *wanted[] = {uniform, proportional, epochs[step / 6]};
        for (int k = 0; k < 3; k++) {
            float c[3];
            assert_ok(tl_task_distribution(c, &kinds[k], weights, 3, step));
            for (int i = 0; i < 3; i++) assert_near(c[i], wanted[k][i], 1e-6);
        }
    }
    float c[3];
    assert_fails(tl_task_distribution(c, &(tl_oneof){.type = "often"}, weights, 3, 0), TL_EINVAL,
                 "must be uniform, proportional or annealing");
    assert_fails(tl_task_distribution(c, &kinds[1], (const double[]){0, 0, 0}, 3, 0), TL_EINVAL,
                 "at least one task_weight must be above 0");
    annealing = (tl_annealing_sample_config){6, 6};
    assert_fails(tl_task_distribution(c, &kinds[2], weights, 3, 0), TL_EINVAL,
                 "trainer.task_sampler.annealing asks for (total_steps must be several times");
}

static void hear(const tl_log_record *record, void *payload)
{
    tl_str_addf(payload, "%s\n", record->text);
}

static void annealing_that_ends_early_is_told(void **state)
{
    (void)state;
    for (int early = 0; early < 2; early++) {
        int64_t sink;
        tl_str heard = TL_STR_INIT;
        lab w;
        assert_ok(tl_log_sink_add(&sink, &(tl_log_sink){TL_LEVEL_WARNING, hear, NULL, &heard}));
        assert_ok(open_lab(&w, "lines",
                           early
                               ? "{trainer: {train_steps: 30, task_sampler: {type: annealing}}}"
                               : "{trainer: {train_steps: 20, task_sampler: {type: annealing}}}"));
        close_lab(&w);
        assert_true(tl_log_sink_remove(sink));
        assert_true(!!strstr(tl_str_text(&heard), "annealing.total_steps is 20") == early);
        tl_str_deinit(&heard);
    }
}

static void draws_are_those_of_tensorflow(void **state)
{
    (void)state;
    static const double wanted[] = {.2110155, .0821661, .3832020, .7764543, .8733433, .5545410,
                                    .4489651, .8921868, .2835417, .5289423, .2020308, .9870130};
    static const double weights[] = {2, 1};
    tl_proportional_sample_config plain = {1};
    char drawn[13] = "";
    float c[2];
    assert_ok(tl_task_distribution(c, &(tl_oneof){.type = "proportional", .value = &plain}, weights,
                                   2, 0));
    for (int i = 0; i < 12; i++) {
        assert_near(tl_task_draw(i), wanted[i], 6e-8);
        drawn[i] = "ab"[tl_task_drawn(c, 2, tl_task_draw(i))];
    }
    assert_string_equal(drawn, "aaabbaabaaab");
    assert_int_equal(tl_task_drawn((const float[]){0.5F, 0.999F}, 2, 0.9995F), 1);
    assert_int_equal(tl_task_drawn((const float[]){0.999F, 0.999F}, 2, 0.9995F), 0); // weight 0
}

/* --- steps ------------------------------------------------------------------------------------ */

/* A number with its momentum. */
typedef struct number {
    double value, momentum;
} number;

static void descend(number *n, double gradient)
{
    n->momentum = 0.9 * n->momentum - 0.05 * gradient; // as Keras writes it
    n->value += n->momentum;
}

/* The mean of (h w x - slope x)^2 over a task's next batch, and its gradient by h w. */
static double loss_of(double product, double slope, int64_t *position, double *by_product)
{
    double loss = 0;
    *by_product = 0;
    for (int i = 0; i < BATCH; i++) {
        double x = example_x((int)((*position + i) % EXAMPLES)), d = (product - slope) * x;
        loss += d * d / BATCH;
        *by_product += 2 * d * x / BATCH;
    }
    *position += BATCH;
    return loss;
}

static void a_step_is_one_tasks(void **state)
{
    (void)state;
    lab w;
    number shared = {1, 0}, heads[2] = {{1, 0}, {1, 0}};
    int64_t positions[2] = {0}, counts[2] = {0};
    static const char *const drawn = "aaabbaabaaab";
    assert_ok(open_lab(&w, "lines", "{" TASKS("task_weight: 2", "") "}"));
    assert_ptr_equal(w.t->cls, &tl_interleaving_trainer);
    for (int64_t step = 0; step < 12; step++) {
        int k = drawn[step] == 'b';
        double by, loss = loss_of(heads[k].value * shared.value, slopes[k], &positions[k], &by);
        number before = shared;
        descend(&shared, by * heads[k].value);
        descend(&heads[k], by * before.value);
        counts[k]++;
        tl_logs_clear(w.logs);
        assert_ok(tl_trainer_train(w.t, 1, w.logs));
        assert_near(told(&w, k ? "b/training_loss" : "a/training_loss"), loss, 1e-5 * (1 + loss));
        assert_near(told(&w, k ? "b/b_mse" : "a/a_mse"), loss, 1e-5 * (1 + loss));
        assert_true(told(&w, k ? "a/training_loss" : "b/training_loss") == 0);
        assert_near(value_of(&w, "encoder/kernel"), shared.value, 1e-5);
        assert_near(value_of(&w, "a/dense/kernel"), heads[0].value, 1e-5);
        assert_near(value_of(&w, "b/dense/kernel"), heads[1].value, 1e-5);
    }
    tl_logs_entry e;
    assert_false(tl_logs_find(&e, w.logs, "total_loss"));
    assert_near(told(&w, "learning_rate"), 0.05, 1e-9);
    assert_int_equal(tl_optimizer_iterations(w.t->optimizer), 12);
    for (int k = 0; k < 2; k++) {
        int64_t steps;
        assert_ok(tl_trainer_task_steps(&steps, w.t, k ? "b" : "a"));
        assert_int_equal(steps, counts[k]);
    }
    close_lab(&w);
}

/* All batches of a step are of the task that is drawn, and what it does not use stays, with its
 * slots. */
static void a_step_of_several_batches_is_one_tasks(void **state)
{
    (void)state;
    lab w;
    number shared = {1, 0}, heads[2] = {{1, 0}, {1, 0}};
    int64_t positions[2] = {0}, counts[2] = {0};
    static const char *const drawn = "aaabbaabaaab";
    assert_ok(open_lab(&w, "lines",
                       "{tilth: {gradient_accumulation: 3}, " TASKS("task_weight: 2", "") "}"));
    for (int64_t step = 0; step < 12; step++) {
        int k = drawn[step] == 'b';
        double by = 0, loss = 0;
        for (int i = 0; i < 3; i++) {
            double one;
            loss += loss_of(heads[k].value * shared.value, slopes[k], &positions[k], &one) / 3;
            by += one / 3;
        }
        number before = shared;
        descend(&shared, by * heads[k].value);
        descend(&heads[k], by * before.value);
        counts[k]++;
        tl_logs_clear(w.logs);
        assert_ok(tl_trainer_train(w.t, 1, w.logs));
        assert_near(told(&w, k ? "b/training_loss" : "a/training_loss"), loss, 1e-5 * (1 + loss));
        assert_near(value_of(&w, "encoder/kernel"), shared.value, 1e-5);
        assert_near(value_of(&w, "a/dense/kernel"), heads[0].value, 1e-5);
        assert_near(value_of(&w, "b/dense/kernel"), heads[1].value, 1e-5);
    }
    assert_int_equal(tl_optimizer_iterations(w.t->optimizer), 12);
    for (int k = 0; k < 2; k++) {
        int64_t steps;
        assert_ok(tl_trainer_task_steps(&steps, w.t, k ? "b" : "a"));
        assert_int_equal(steps, counts[k]);
    }
    close_lab(&w);
}

static void a_joint_step_lowers_the_weighted_sum(void **state)
{
    (void)state;
    lab w;
    number shared = {1, 0}, heads[2] = {{1, 0}, {1, 0}};
    int64_t positions[2] = {0};
    static const double weights[2] = {2, 0.5};
    assert_ok(open_lab(
        &w, "lines",
        "{trainer: {trainer_type: joint}, " TASKS("task_weight: 2", "task_weight: 0.5") "}"));
    assert_ptr_equal(w.t->cls, &tl_multi_task_trainer);
    for (int64_t step = 0; step < 20; step++) {
        double by[2], loss[2], total = 0, by_shared = 0;
        for (int k = 0; k < 2; k++) {
            loss[k] = loss_of(heads[k].value * shared.value, slopes[k], &positions[k], &by[k]);
            total += weights[k] * loss[k];
            by_shared += weights[k] * by[k] * heads[k].value;
        }
        for (int k = 0; k < 2; k++) descend(&heads[k], weights[k] * by[k] * shared.value);
        descend(&shared, by_shared);
        tl_logs_clear(w.logs);
        assert_ok(tl_trainer_train(w.t, 1, w.logs));
        assert_near(told(&w, "a/training_loss"), loss[0], 1e-5 * (1 + loss[0]));
        assert_near(told(&w, "b/training_loss"), loss[1], 1e-5 * (1 + loss[1]));
        assert_near(told(&w, "total_loss/training_loss"), total, 1e-5 * (1 + total));
        assert_near(value_of(&w, "encoder/kernel"), shared.value, 2e-5);
        assert_near(value_of(&w, "b/dense/kernel"), heads[1].value, 2e-5);
    }
    int64_t steps;
    assert_ok(tl_trainer_task_steps(&steps, w.t, "b"));
    assert_int_equal(steps, 20);
    close_lab(&w);
}

/* What b's head costs is in b's loss alone, and in no joint one. */
static void regularizers_are_those_of_the_task(void **state)
{
    (void)state;
    lab w;
    int64_t position = 0;
    double by, plain = loss_of(1, slopes[0], &position, &by);
    penalty = 0.25;
    assert_ok(open_lab(&w, "lines", "{" TASKS("", "task_weight: 0") "}"));
    assert_ok(tl_trainer_train(w.t, 1, w.logs));
    assert_near(told(&w, "a/training_loss"), plain, 1e-5);
    close_lab(&w);
    position = 0;
    plain = loss_of(1, slopes[1], &position, &by);
    assert_ok(open_lab(&w, "lines", "{" TASKS("task_weight: 0", "") "}"));
    assert_ok(tl_trainer_train(w.t, 1, w.logs));
    assert_near(told(&w, "b/training_loss"), plain + 0.25, 1e-5);
    close_lab(&w);
    assert_ok(open_lab(&w, "lines", "trainer.trainer_type=joint"));
    assert_ok(tl_trainer_train(w.t, 1, w.logs));
    assert_near(told(&w, "b/training_loss"), plain, 1e-5);
    close_lab(&w);
    penalty = 0;
}

/* The vector of the original's own test: 1000 steps, weights 3 and 1, annealed. */
static void a_long_run_draws_all(void **state)
{
    (void)state;
    lab w;
    int64_t a, b;
    assert_ok(
        open_lab(&w, "lines",
                 "{trainer: {task_sampler: {type: annealing, annealing: {steps_per_epoch: 200, "
                 "total_steps: 1000}}, optimizer_config: {learning_rate: {constant: "
                 "{learning_rate: 0.001}}}}, " TASKS("task_weight: 3", "") "}"));
    assert_ok(tl_trainer_train(w.t, 1000, w.logs));
    assert_ok(tl_trainer_task_steps(&a, w.t, "a"));
    assert_ok(tl_trainer_task_steps(&b, w.t, "b"));
    assert_int_equal(w.t->global_step, 1000);
    assert_int_equal(a + b, 1000);
    assert_true(a > 550 && b > 200); // the chances of b are 0.19 at first, 0.45 at the end
    assert_fails(tl_trainer_task_steps(&a, w.t, "c"), TL_ENOTFOUND, "no task 'c'");
    close_lab(&w);
}

/* --- evaluations ------------------------------------------------------------------------------ */

static void evaluations_are_nested(void **state)
{
    (void)state;
    lab w;
    int64_t position = 0;
    double by, loss = 0;
    assert_ok(open_lab(&w, "lines", "{" TASKS("", "eval_steps: 3") "}"));
    for (int i = 0; i < 2; i++) loss += loss_of(1, slopes[0], &position, &by) / 2;
    assert_ok(tl_trainer_evaluate(w.t, 2, w.logs));
    assert_near(told(&w, "a/validation_loss"), loss, 1e-5);
    assert_near(told(&w, "a/a_mse"), loss, 1e-5);
    assert_true(told(&w, "a/counter") == 2);
    assert_true(told(&w, "b/counter") == 3); // its own number goes before
    close_lab(&w);
}

static void one_model_is_evaluated_as_several_tasks(void **state)
{
    (void)state;
    lab w;
    assert_ok(open_lab(&w, "line", NULL));
    assert_ptr_equal(w.t->cls, &tl_multi_eval_trainer);
    assert_ok(tl_trainer_train(w.t, 10, w.logs));
    assert_true(told(&w, "training_loss") >= 0);
    tl_logs_clear(w.logs);
    assert_ok(tl_trainer_evaluate(w.t, -1, w.logs));
    assert_true(told(&w, "a/counter") == 2);
    assert_true(told(&w, "b/counter") == 3);
    assert_true(told(&w, "b/validation_loss") > told(&w, "a/validation_loss")); // a is learned
    close_lab(&w);
}

/* --- runs ------------------------------------------------------------------------------------- */

static tl_status run(lab *w, tl_run_result *out, const char *mode, const char *folder)
{
    return tl_run_experiment(out, &(tl_run_args){.strategy = w->strategy,
                                                 .task = w->task,
                                                 .mode = mode,
                                                 .params = w->params,
                                                 .config = w->config,
                                                 .seed = 11,
                                                 .quiet = true,
                                                 .model_dir = folder});
}

static bool has_events(const char *folder, const char *sub)
{
    char command[512];
    snprintf(command, sizeof command, "ls '%s/%s'/events* >/dev/null 2>&1", folder, sub);
    return system(command) == 0;
}

static void a_run_leaves_files_of_each_task(void **state)
{
    (void)state;
    static const char *const best =
        "trainer.best_checkpoint_export_subdir=best,trainer.best_checkpoint_eval_metric=b|b_mse,"
        "trainer.best_checkpoint_metric_comp=lower";
    static const char *const folders[] = {"train", "train/a", "train/b", "validation/a",
                                          "validation/b"};
    char folder[TEMPORARY_PATH];
    assert_non_null(mkdtemp(temporary(folder, "tilth-test-tasks")));
    char path[512];
    tl_run_result r;
    lab w;
    assert_ok(open_task(&w, "lines", best));
    assert_ok(run(&w, &r, "train_and_eval", folder));
    assert_int_equal(r.trainer->global_step, 20);
    double mse = tl_logs_number_or(r.logs, "b/b_mse", -1);
    assert_true(mse >= 0);
    tl_run_result_deinit(&r);
    close_lab(&w);
    for (size_t i = 0; i < TL_COUNT(folders); i++) assert_true(has_events(folder, folders[i]));
    snprintf(path, sizeof path, "%s/best/info.json", folder);
    assert_int_equal(access(path, F_OK), 0);
    // an evaluation of the same folder finds the same
    assert_ok(open_task(&w, "lines", best));
    assert_ok(run(&w, &r, "eval", folder));
    assert_true(tl_logs_number_or(r.logs, "b/b_mse", -1) == mse);
    tl_run_result_deinit(&r);
    close_lab(&w);
    remove_folder(folder);
}

/* All that a checkpoint holds: weights, slots, metrics, data and draws. */
static void resumed_runs_are_the_same(void **state)
{
    (void)state;
    static const char *const kinds[] = {"trainer.task_sampler.type=uniform",
                                        "trainer.trainer_type=joint", "runtime.run_eagerly=true",
                                        "tilth.gradient_accumulation=2"};
    char folder[TEMPORARY_PATH];
    assert_non_null(mkdtemp(temporary(folder, "tilth-test-tasks")));
    char path[512];
    snprintf(path, sizeof path, "%s/c.safetensors", folder);
    for (size_t k = 0; k < TL_COUNT(kinds); k++) {
        for (int64_t edge = 1; edge < 9; edge += 3) {
            lab whole, first, rest;
            tl_state_report report = {0};
            assert_ok(open_lab(&whole, "lines", kinds[k]));
            assert_ok(open_lab(&first, "lines", kinds[k]));
            assert_ok(open_lab(&rest, "lines", kinds[k]));
            assert_ok(tl_trainer_train(whole.t, edge, whole.logs));
            assert_ok(tl_trainer_train(whole.t, 9 - edge, whole.logs));
            assert_ok(tl_trainer_train(first.t, edge, first.logs));
            assert_ok(tl_checkpoint_save(path, tl_trainer_checkpoint(first.t), NULL));
            assert_ok(tl_checkpoint_restore(tl_trainer_checkpoint(rest.t), path, NULL, NULL));
            assert_int_equal(rest.t->global_step, edge);
            tl_logs_clear(rest.logs);
            assert_ok(tl_trainer_train(rest.t, 9 - edge, rest.logs));
            assert_true(told(&rest, "b/training_loss") == told(&whole, "b/training_loss"));
            assert_ok(tl_state_compare(&report, tl_trainer_checkpoint(whole.t),
                                       tl_trainer_checkpoint(rest.t), NULL));
            assert_int_equal(report.count, 0);
            for (int64_t i = 0; i < tl_model_param_count(whole.t->model); i++) {
                const char *name = tl_model_param(whole.t->model, i)->path;
                assert_true(value_of(&whole, name) == value_of(&rest, name));
            }
            tl_state_report_deinit(&report);
            close_lab(&whole);
            close_lab(&first);
            close_lab(&rest);
        }
    }
    remove_folder(folder);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void refuses(const char *override, const char *text)
{
    lab w;
    tl_status st = open_lab(&w, "lines", override);
    assert_int_not_equal(st, TL_OK);
    if (!strstr(tl_error_message(), text)) fail_msg("'%s' is not in: %s", text, tl_error_message());
    close_lab(&w);
}

static void mistakes_are_told(void **state)
{
    (void)state;
    refuses("task.task_routines=[]", "task.task_routines is empty");
    refuses("{task: {task_routines: [{task_name: a}]}}", "task_config is null");
    refuses("{task: {train_data: {global_batch_size: 2}}}", "the data of several tasks");
    refuses("{" TASKS("task_weight: 0", "task_weight: 0") "}", "at least one task_weight");
    refuses("{" TASKS("task_weight: -1", "") "}", "task_weight");
    refuses("trainer.task_sampler.type=often", "often");
    refuses("trainer.trainer_type=alternating", "interleaving");
    refuses("{" TASKS("", "task_name: a") "}", "there are two tasks 'a'");
    refuses("{" TASKS("", "task_name: total_loss") "}", "cannot name a task");
    refuses("{" TASKS("", "task_name: b/c") "}", "cannot name a task");
    refuses("{" TASKS("", "task_name: c") "}", "the model has no part 'c'");
    refuses("{" TASKS("", "task_config: {train_data: null}") "}",
            "nothing to train the task 'b' with");
    refuses("{" TASKS("", "task_config: {validation_data: null}") "}", "validation_data is null");
    without_b = true;
    refuses(NULL, "the model has no part 'b'");
    without_b = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distributions_are_those_of_model_garden),
        cmocka_unit_test(annealing_that_ends_early_is_told),
        cmocka_unit_test(draws_are_those_of_tensorflow),
        cmocka_unit_test(a_step_is_one_tasks),
        cmocka_unit_test(a_step_of_several_batches_is_one_tasks),
        cmocka_unit_test(a_joint_step_lowers_the_weighted_sum),
        cmocka_unit_test(regularizers_are_those_of_the_task),
        cmocka_unit_test(a_long_run_draws_all),
        cmocka_unit_test(evaluations_are_nested),
        cmocka_unit_test(one_model_is_evaluated_as_several_tasks),
        cmocka_unit_test(a_run_leaves_files_of_each_task),
        cmocka_unit_test(resumed_runs_are_the_same),
        cmocka_unit_test(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
