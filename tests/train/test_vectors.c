/* Vectors of the originals' own tests that no other file has: evaluations over an iterator, results
 * of the mock task, numbers in nested logs, the list of parameters, activations. */
#include "train/toy.h"

#include <tilth/builtin/builtin.h>
#include <tilth/nn/layers.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/create.h>
#include <tilth/train/run/run.h>

#include "train/run/metric_name.h"

/* --- an evaluation takes as many batches as it is told ---------------------------------------- */

/* The sum of data 0 to 9; each evaluation begins anew, or goes on where the last one ended. */
static bool recreate;
static double sum;

static tl_status sum_begin(tl_trainer *t, void **state)
{
    *state = NULL;
    sum = 0;
    return recreate ? tl_dataset_rewind(t->validation_dataset) : TL_OK;
}

static tl_status sum_step(tl_trainer *t, tl_logs *logs, bool *more)
{
    tl_tensors batch = {0};
    TL_TRY(TLI_TRAINER_CALL(t, next_eval_inputs)(t, t->ctx, &batch, logs, more));
    return *more ? tl_logs_put_tensor(logs, "value", tl_tensors_peek(&batch, "value")) : TL_OK;
}

static tl_status sum_reduce(tl_trainer *t, void **state, const tl_logs *step)
{
    double value;
    (void)t, (void)state;
    TL_TRY(tl_logs_number(&value, step, "value"));
    sum += value;
    return TL_OK;
}

static tl_status sum_end(tl_trainer *t, void *state, tl_logs *logs)
{
    (void)t, (void)state;
    return tl_logs_put(logs, "sum", sum);
}

static void sum_leave(tl_trainer *t, void *state)
{
    (void)t, (void)state;
}
static const tl_trainer_class summing = {
    .cls = TL_CLASS(tl_trainer_class, "summing", &tl_base_trainer.cls, tl_trainer, NULL),
    .eval_begin = sum_begin,
    .eval_step = sum_step,
    .eval_reduce = sum_reduce,
    .eval_end = sum_end,
    .eval_leave = sum_leave,
};

static tl_dataset *zero_to_nine(void)
{
    float values[10];
    for (int i = 0; i < 10; i++) values[i] = (float)i;
    const tl_array array = {"value", TL_F32, TL_SHAPE(10), values};
    tl_dataset *d;
    assert_ok(tl_dataset_from_arrays(
        &d, &(tl_arrays_args){.arrays = &array, .count = 1, .batch_size = 1, .copy = true}));
    return d;
}

static double evaluated(toy *y, int64_t steps)
{
    tl_logs *logs;
    double value;
    assert_ok(tl_logs_new(&logs));
    assert_ok(tl_controller_evaluate(y->c, steps, logs));
    assert_ok(tl_logs_number(&value, logs, "sum"));
    tl_logs_free(&logs);
    return value;
}

static void open_summing(toy *y, bool anew)
{
    recreate = anew;
    assert_ok(tl_trainer_new(&y->t, &(tl_trainer_args){.cls = &summing,
                                                       .strategy = y->strategy,
                                                       .evaluate = true,
                                                       .validation_dataset = zero_to_nine()}));
    assert_ok(tl_controller_new(&y->c, &(tl_controller_args){.evaluator = y->t, .quiet = true}));
}

static void evaluations_begin_anew_or_go_on(void **state)
{
    toy *y = *state;
    open_summing(y, true);
    assert_near(evaluated(y, 5), 10, 0);
    assert_near(evaluated(y, 5), 10, 0);
    assert_near(evaluated(y, 10), 45, 0);
    assert_near(evaluated(y, -1), 45, 0);
    toy_close(y);
    open_summing(y, false);
    assert_near(evaluated(y, 5), 10, 0);
    assert_near(evaluated(y, 5), 35, 0);
}

/* --- the mock task ---------------------------------------------------------------------------- */

static tl_status tells_no_loss(tl_task *t, tl_step *s)
{
    tl_tensors outputs = {0};
    TL_TRY(tl_task_inference_step(t, s, &outputs));
    tl_step_log(s, "counter", tl_full(s->ctx, TL_F32, TL_SCALAR, 1));
    return tl_ctx_status(s->ctx);
}

static void evaluate_mock(toy *y, tl_logs *logs, bool with_loss)
{
    tl_registry *all;
    tl_config *config;
    tl_task *task;
    tl_task_class silent;
    assert_ok(tl_registry_new_builtin(&all));
    assert_ok(tl_experiment_parse(&config, all, &(tl_parse_options){.experiment = "mock"}));
    const tl_experiment_config *e = tl_config_value(config);
    assert_ok(tl_get_task(&task, &(tl_task_args){.registry = all,
                                                 .config = &e->task,
                                                 .engine = tl_strategy_engine(y->strategy)}));
    if (!with_loss) {
        silent = (tl_task_class){
            .cls = TL_CLASS(tl_task_class, "silent", &task->cls->cls, tl_task, NULL),
            .validation_step = tells_no_loss};
        task->cls = &silent;
    }
    assert_ok(tl_create_trainer(&y->t, e, task, y->strategy, false, true, NULL, NULL, 1));
    assert_ok(tl_trainer_evaluate(y->t, 5, logs));
    tl_trainer_free(&y->t);
    tl_task_free(&task);
    tl_config_free(&config);
    tl_registry_free(&all);
}

static void the_mock_task_counts_its_batches(void **state)
{
    toy *y = *state;
    tl_logs *logs;
    tl_logs_entry e;
    double value;
    assert_ok(tl_logs_new(&logs));
    evaluate_mock(y, logs, true);
    assert_ok(tl_logs_number(&value, logs, "counter"));
    assert_near(value, 5, 0); // and one replica
    assert_true(tl_logs_find(&e, logs, "validation_loss"));
    tl_logs_clear(logs);
    evaluate_mock(y, logs, false);
    assert_ok(tl_logs_number(&value, logs, "counter"));
    assert_near(value, 5, 0);
    assert_false(tl_logs_find(&e, logs, "validation_loss"));
    assert_int_equal(toy_count("The task did not report validation loss."), 1);
    tl_logs_free(&logs);
}

/* --- names in nested logs --------------------------------------------------------------------- */

static void leaves_are_found_by_their_path(void **state)
{
    (void)state;
    tl_logs *logs, *a, *i;
    double value;
    assert_ok(tl_logs_new(&logs));
    assert_ok(tl_logs_sub(&a, logs, "a"));
    assert_ok(tl_logs_sub(&i, a, "i"));
    assert_ok(tl_logs_put(i, "x", 5));
    assert_ok(tli_metric_get(&value, logs, "a|i|x"));
    assert_near(value, 5, 0);
    assert_fails(tli_metric_get(&value, logs, "a|i"), TL_EINVAL, "several metrics"); // no leaf
    assert_fails(tli_metric_get(&value, logs, "a|i|y"), TL_ENOTFOUND, "no metric 'a|i|y'");
    // through a number
    assert_fails(tli_metric_get(&value, logs, "a|i|x|z"), TL_ENOTFOUND, "a|i|x");
    tl_logs_free(&logs);
}

/* --- the list of parameters ------------------------------------------------------------------- */

typedef struct pair {
    tl_model base;
    tl_layer *first, *second;
} pair;

static tl_status pair_build(tl_model *m, tl_scope *s, const void *config)
{
    (void)config;
    ((pair *)m)->first = tl_dense(s, "dense", .units = 4);
    ((pair *)m)->second = tl_dense(s, "dense_1", .units = 4);
    return tl_scope_status(s);
}

static tl_tensor *pair_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    return tl_call(c, ((pair *)m)->second, tl_call(c, ((pair *)m)->first, x));
}
static const tl_layer_class pair_class = {
    .cls = TL_CLASS(tl_layer_class, "pair", NULL, pair, NULL),
    .build = pair_build,
    .forward = pair_forward,
};

static void parameters_are_listed(void **state)
{
    toy *y = *state;
    tl_model *m;
    tl_spec x = {"x", TL_F32, TL_SHAPE(1, 3)};
    assert_ok(tl_model_new(&m, &(tl_model_args){.engine = tl_strategy_engine(y->strategy),
                                                .cls = &pair_class,
                                                .inputs = &x,
                                                .input_count = 1}));
    assert_ok(tl_write_model_params(m, "params.txt"));
    assert_file("params.txt", "dense/kernel [3, 4]\n"
                              "dense/bias [4]\n"
                              "dense_1/kernel [4, 4]\n"
                              "dense_1/bias [4]\n"
                              "\n"
                              "Total params: 36\n");
    assert_true(tl_count_flops(m) >= 2 * (3 * 4 + 4 * 4)); // products and sums
    tl_model_free(&m);
}

/* --- activations ------------------------------------------------------------------------------ */

static void activations_have_the_originals_values(void **state)
{
    toy *y = *state;
    static const double in[] = {.25, 0, -.25, -1, -2, 3};
    static const double wanted[] = {.149675, 0, -.100325, -.158808, -.045402, 2.996363};
    double got[6], one;
    tl_ctx *c;
    tl_tensor *x;
    assert_ok(tl_ctx_new(&c, tl_strategy_engine(y->strategy)));
    assert_ok(tl_tensor_new(&x, tl_strategy_engine(y->strategy), TL_F32, TL_SHAPE(6)));
    assert_ok(tl_tensor_set_doubles(x, in, 6));
    assert_ok(tl_tensor_get_doubles(tl_gelu(c, x, true), got, 6));
    for (int i = 0; i < 6; i++) assert_near(got[i], wanted[i], 1e-6);
    assert_ok(tl_tensor_item(tl_mish(c, tl_full(c, TL_F32, TL_SCALAR, 1)), &one));
    assert_near(one, .865098, 1e-6);
    tl_tensor_free(&x);
    tl_ctx_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOY_TEST(evaluations_begin_anew_or_go_on),       TOY_TEST(the_mock_task_counts_its_batches),
        TOY_TEST(leaves_are_found_by_their_path),        TOY_TEST(parameters_are_listed),
        TOY_TEST(activations_have_the_originals_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
