/* Trainers on a real model: eager and compiled, accumulated, resumed, blown up, exchanged.
 * runs: fake device */
#include "test.h"

#include <stdlib.h>

#include <tilth/base/alloc.h>
#include <tilth/data/pipeline.h>
#include <tilth/io/checkpoint/checkpoint.h>
#include <tilth/train/run/exporter.h>

#include "train/two.h"

/* The bias in front of a batch norm changes nothing: its gradient is what rounding leaves of 0, and
 * Adam makes whole steps of that. */
enum { HIDDEN_BIAS = 1 };

/* Between parameters of the two, but for number `but` (-1: of all). */
static double difference_but(two *a, two *b, int64_t but)
{
    double most = 0;
    for (int64_t i = 0; i < tl_model_param_count(a->t->model); i++) {
        if (i == but) continue;
        const tl_tensor *x = tl_model_param(a->t->model, i)->tensor,
                        *y = tl_model_param(b->t->model, i)->tensor;
        double p[256], q[256];
        int64_t n = tl_tensor_count(x);
        assert_ok(tl_tensor_get_doubles(x, p, n));
        assert_ok(tl_tensor_get_doubles(y, q, n));
        for (int64_t k = 0; k < n; k++)
            if (fabs(p[k] - q[k]) > most) most = fabs(p[k] - q[k]);
    }
    return most;
}

static double largest_difference(two *a, two *b)
{
    return difference_but(a, b, -1);
}

static double told(two *w, const char *name)
{
    double value;
    assert_ok(tl_logs_number(&value, w->logs, name));
    return value;
}

/* --- tests ------------------------------------------------------------------------------------ */

static void it_learns_and_tells(void **state)
{
    (void)state;
    two w;
    open_two(&w, NULL, NULL);
    assert_ok(tl_trainer_train(w.t, 60, w.logs));
    assert_int_equal(w.t->global_step, 60);
    assert_true(told(&w, "training_loss") < 0.6);
    assert_true(told(&w, "accuracy") > 0.7);
    assert_near(told(&w, "learning_rate"), 0.05 * 0.5 * (1 + cos(3.14159265358979 * 0.6)), 1e-6);
    double first = told(&w, "training_loss");
    tl_logs_clear(w.logs);
    assert_ok(tl_trainer_train(w.t, 20, w.logs));
    assert_true(told(&w, "training_loss") < first); // of this loop alone
    assert_non_null(tl_tensors_peek(w.t->outputs, "active"));
    tl_logs_clear(w.logs);
    assert_ok(tl_trainer_evaluate(w.t, -1, w.logs));
    assert_true(told(&w, "accuracy") > 0.8);
    assert_true(told(&w, "validation_loss") < 0.6);
    close_two(&w);
}

/* The precision is the task's: what else is made in the process does not change it. */
static void precisions_live_side_by_side(void **state)
{
    (void)state;
    two a, b, alone;
    open_two(&a, "tilth.jit=false", NULL);
    open_two(&b, "tilth.jit=false,runtime.mixed_precision_dtype=bfloat16", NULL);
    assert_int_equal(a.task->dtype, TL_F32);
    assert_int_equal(b.task->dtype, TL_BF16);
    for (int i = 0; i < 3; i++) {
        assert_ok(tl_trainer_train(a.t, 1, a.logs));
        assert_ok(tl_trainer_train(b.t, 1, b.logs));
    }
    open_two(&alone, "tilth.jit=false", NULL);
    for (int i = 0; i < 3; i++) assert_ok(tl_trainer_train(alone.t, 1, alone.logs));
    assert_true(largest_difference(&a, &alone) == 0);
    assert_true(largest_difference(&a, &b) > 0);
    close_two(&a);
    close_two(&b);
    close_two(&alone);
}

static void policies_have_names(void **state)
{
    (void)state;
    tl_dtype dtype;
    assert_ok(tl_mixed_precision_policy(&dtype, "mixed_float16"));
    assert_int_equal(dtype, TL_F16);
    assert_ok(tl_mixed_precision_policy(&dtype, "float64"));
    assert_int_equal(dtype, TL_F64);
    assert_fails(tl_mixed_precision_policy(&dtype, "half"), TL_EINVAL,
                 "there is no precision policy 'half'");
    for (tl_mixed_precision p = TL_PRECISION_UNSET; p <= TL_PRECISION_MIXED_BFLOAT16; p++) {
        assert_ok(tl_mixed_precision_policy(&dtype, tl_mixed_precision_name(p)));
        assert_int_equal(dtype, tl_mixed_precision_dtype(p));
    }
}

static void eager_and_compiled_agree(void **state)
{
    (void)state;
    two a, b, c;
    open_two(&a, NULL, NULL);
    open_two(&b, "runtime.run_eagerly=true", NULL);
    open_two(&c, "tilth.jit=false", NULL);
    assert_null(tl_trainer_train_function(b.t));
    assert_non_null(tl_trainer_train_function(a.t));
    assert_ok(tl_trainer_train(a.t, 1, a.logs));
    assert_ok(tl_trainer_train(b.t, 1, b.logs));
    assert_ok(tl_trainer_train(c.t, 1, c.logs));
    assert_near(difference_but(&a, &b, HIDDEN_BIAS), 0, 1e-6);
    assert_near(told(&a, "training_loss"), told(&b, "training_loss"), 1e-6);
    assert_ok(tl_trainer_train(a.t, 9, a.logs));
    assert_ok(tl_trainer_train(b.t, 9, b.logs));
    assert_ok(tl_trainer_train(c.t, 9, c.logs));
    assert_near(difference_but(&a, &b, HIDDEN_BIAS), 0, 1e-3); // the bias moves what it is added to
    assert_true(largest_difference(&a, &c) == 0);              // interpreted: bit for bit
    assert_near(told(&a, "training_loss"), told(&b, "training_loss"), 1e-5);
    close_two(&a);
    close_two(&b);
    close_two(&c);
}

/* Whether batches of 8 are one update each, or two batches of 4 are: the data, the weights and so
 * the gradients are the same. Without what looks at the batch as a whole. */
static tl_tensor *plain_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    net *n = (net *)m;
    return tl_call(c, n->head, tl_relu(c, fragile(c, tl_call(c, n->hidden, x))));
}
static tl_status plain_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    (void)config;
    n->hidden = tl_dense(s, "hidden", .units = 16);
    n->head = tl_dense(s, "head", .units = 2);
    return tl_scope_status(s);
}
static const tl_layer_class plain_class = {
    .cls = TL_CLASS(tl_layer_class, "plain", NULL, net, NULL),
    .build = plain_build,
    .forward = plain_forward,
};
static tl_status plain_model(tl_task *t, tl_model **out)
{
    tl_spec x = {"x", TL_F32, TL_SHAPE(8, WIDTH)};
    return tl_model_new(out, &(tl_model_args){.engine = t->engine,
                                              .cls = &plain_class,
                                              .inputs = &x,
                                              .input_count = 1,
                                              .seed = 3,
                                              .dtype = t->dtype});
}

static void exchange_model(two *w)
{
    tl_model *m;
    tl_optimizer *o;
    const tl_trainer_config *p = w->t->params;
    assert_ok(plain_model(w->task, &m));
    assert_ok(tl_task_create_optimizer(w->task, m, &p->optimizer_config, NULL, &o));
    assert_ok(tl_trainer_set_model(w->t, &m, &o));
    assert_null(m);
    assert_null(o);
}

static void accumulation_is_exact(void **state)
{
    (void)state;
    two a, b;
    weighted = true;
    open_two(&a, NULL, NULL);
    batch_size = 4;
    open_two(&b, "tilth.gradient_accumulation=2", NULL);
    exchange_model(&a);
    exchange_model(&b);
    assert_ok(tl_trainer_train(a.t, 12, a.logs));
    assert_ok(tl_trainer_train(b.t, 12, b.logs));
    assert_int_equal(b.t->global_step, 12);
    assert_int_equal(tl_optimizer_iterations(b.t->optimizer), 12);
    assert_near(largest_difference(&a, &b), 0, 2e-6);
    assert_near(told(&a, "training_loss"), told(&b, "training_loss"), 1e-6);
    close_two(&a);
    close_two(&b);
}

/* Batches of 20, 20 and 8 are 48 examples, and each counts alike. */
static void unequal_batches_are_exact(void **state)
{
    (void)state;
    two a, b;
    batch_size = EXAMPLES;
    open_two(&a, NULL, NULL);
    batch_size = 20;
    open_two(&b, "tilth.gradient_accumulation=3,task.train_data.is_training=false", NULL);
    tl_dataset *data;
    const tl_array arrays[] = {{"x", TL_F32, TL_SHAPE(EXAMPLES, WIDTH), xs},
                               {"y", TL_I32, TL_SHAPE(EXAMPLES), ys}};
    assert_ok(tl_dataset_from_arrays(
        &data, &(tl_arrays_args){.arrays = arrays, .count = 2, .batch_size = 20}));
    assert_ok(tl_trainer_set_train_dataset(b.t, &data));
    exchange_model(&a);
    exchange_model(&b);
    assert_ok(tl_trainer_train(a.t, 1, a.logs));
    assert_ok(tl_trainer_train(b.t, 1, b.logs));
    assert_near(largest_difference(&a, &b), 0, 2e-6);
    assert_near(told(&a, "training_loss"), told(&b, "training_loss"), 1e-6);
    close_two(&a);
    close_two(&b);
}

static void parts_are_exchanged_in_mid_run(void **state)
{
    (void)state;
    two w;
    open_two(&w, NULL, NULL);
    assert_ok(tl_trainer_train(w.t, 3, w.logs));
    tl_state *held = tl_trainer_checkpoint(w.t);
    exchange_model(&w);
    assert_ptr_equal(tl_trainer_checkpoint(w.t), held); // whoever holds it has the new parts
    tl_state_entry e;
    assert_false(tl_state_find(&e, held, "model/norm/gamma"));
    assert_true(tl_state_find(&e, held, "model/hidden/kernel"));
    assert_ok(tl_trainer_train(w.t, 3, w.logs));
    assert_int_equal(w.t->global_step, 6);
    tl_dataset *data;
    tl_input_context input = {.pipelines = 1, .replicas = 1};
    batch_size = 6;
    assert_ok(tl_task_build_inputs(w.task, w.task->config->train_data, &input, &data));
    assert_ok(tl_trainer_set_train_dataset(w.t, &data));
    assert_ok(tl_trainer_train(w.t, 3, w.logs));
    tl_model *m;
    assert_ok(plain_model(w.task, &m));
    assert_fails(tl_trainer_set_model(w.t, &m, NULL), TL_EINVAL, "that of another model");
    close_two(&w);
}

static void a_restored_trainer_goes_on_exactly(void **state)
{
    (void)state;
    two a, b;
    tl_state *saved;
    open_two(&a, NULL, NULL);
    open_two(&b, NULL, NULL);
    assert_ok(tl_trainer_train(a.t, 7, a.logs));
    assert_ok(tl_state_clone(&saved, tl_trainer_checkpoint(a.t)));
    assert_ok(tl_trainer_train(a.t, 9, a.logs));
    assert_ok(tl_trainer_train(b.t, 2, b.logs)); // somewhere else
    assert_ok(tl_state_copy(tl_trainer_checkpoint(b.t), saved, NULL, NULL));
    assert_int_equal(b.t->global_step, 7);
    assert_ok(tl_trainer_train(b.t, 9, b.logs));
    tl_state_report report = {0};
    assert_ok(tl_state_compare(&report, tl_trainer_checkpoint(a.t), tl_trainer_checkpoint(b.t),
                               &(tl_state_compare_args){.values = true}));
    assert_true(tl_state_report_clean(&report));
    tl_state_report_deinit(&report);
    tl_state_free(&saved);
    close_two(&a);
    close_two(&b);
}

static void assert_finite_model(const tl_model *m)
{
    for (int64_t i = 0; i < tl_model_param_count(m); i++) {
        double v[256];
        const tl_tensor *p = tl_model_param(m, i)->tensor;
        assert_ok(tl_tensor_get_doubles(p, v, tl_tensor_count(p)));
        for (int64_t k = 0; k < tl_tensor_count(p); k++) assert_true(isfinite(v[k]));
    }
}

static void numbers_that_blow_up_are_found(void **state)
{
    (void)state;
    two w;
    tl_state *before;
    tl_state_report report = {0};
    spoiled = true;
    open_two(&w, NULL, NULL);
    tl_status st = TL_OK;
    for (int i = 0; i < 6 && st == TL_OK; i++) {
        if (i) tl_state_free(&before);
        assert_ok(tl_state_clone(&before, tl_trainer_checkpoint(w.t)));
        st = tl_trainer_train(w.t, 1, w.logs);
    }
    assert_int_equal(st, TL_ENAN);
    char step[32];
    snprintf(step, sizeof step, "step %d:", (int)w.t->global_step + 1);
    static const char *const said[] = {"fragile: ", "log", "learning rate 0.0", "gradient norm "};
    assert_non_null(strstr(tl_error_message(), step));
    for (int i = 0; i < 4; i++)
        if (!strstr(tl_error_message(), said[i]))
            fail_msg("'%s' lacks '%s'", tl_error_message(), said[i]);
    // All is as it was before the step: weights, statistics, data.
    assert_finite_model(w.t->model);
    assert_ok(tl_state_compare(&report, before, tl_trainer_checkpoint(w.t),
                               &(tl_state_compare_args){.values = true}));
    for (int64_t i = 0; i < report.count; i++) fail_msg("'%s' has changed", report.items[i].path);
    tl_state_report_deinit(&report);
    tl_state_free(&before);
    close_two(&w);
}

/* --- steps that come to nothing --------------------------------------------------------------- */

static double counted, loss_counted; /* examples, at the end of the last loop */

static tl_status counting_loop_end(tl_trainer *t, tl_logs *logs)
{
    const tl_metric *accuracy = tl_metrics_find(t->train_metrics, "accuracy");
    TL_TRY(tl_tensor_item(tl_tensors_peek(&accuracy->states, "count"), &counted));
    TL_TRY(tl_tensor_item(tl_tensors_peek(&t->train_loss->states, "count"), &loss_counted));
    return tl_base_trainer.train_loop_end(t, logs);
}
static const tl_trainer_class counting_trainer = {
    .cls = TL_CLASS(tl_trainer_class, "counting", &tl_base_trainer.cls, tl_trainer, NULL),
    .train_loop_end = counting_loop_end,
};

/* One pass is six steps, of which one is left out: whatever it would have told does not count. */
static void steps_that_are_left_out_do_not_count(void **state)
{
    (void)state;
    static const struct {
        const char *override;
        int64_t batch;
        bool scaled;
    } cases[] = {
        {"trainer.recovery_max_trials=-1", 8, false}, // goes on whatever comes
        {"trainer.recovery_max_trials=-1,runtime.run_eagerly=true", 8, false},
        {"trainer.recovery_max_trials=-1,tilth.gradient_accumulation=2", 4, false},
        {"runtime.mixed_precision_dtype=float16", 8, true}, // an overflow under loss scaling
        {"runtime.mixed_precision_dtype=mixed_float16,tilth.gradient_accumulation=2", 4, true},
    };
    spoiled = true;
    for (size_t i = 0; i < TL_COUNT(cases); i++) {
        two w;
        batch_size = cases[i].batch;
        open_two(&w, cases[i].override, &counting_trainer);
        assert_ok(tl_trainer_train(w.t, 6, w.logs));
        assert_int_equal(w.t->global_step, 6);
        int64_t done = tl_optimizer_iterations(w.t->optimizer);
        // the scale has to be found first
        assert_true(cases[i].scaled ? done >= 2 && done <= 5 : done == 5);
        assert_near(counted, (double)(8 * done), 0);
        assert_near(loss_counted, (double)(8 * done), 0);
        assert_true(isfinite(told(&w, "training_loss")) && told(&w, "training_loss") > 0);
        assert_finite_model(w.t->model); // running statistics too
        close_two(&w);
    }
}

/* A loss scale that cannot be lowered any more is not what is wrong. */
static void no_scale_is_small_enough(void **state)
{
    (void)state;
    two w;
    spoiled = hopeless = true;
    open_two(&w, "runtime.mixed_precision_dtype=float16", NULL);
    assert_fails(tl_trainer_train(w.t, 100, w.logs), TL_ENAN, "numbers are not finite");
    assert_int_equal(w.t->global_step, 15); // from 32768 down to 1, which is tried too
    close_two(&w);
    // One that is fixed cannot be lowered at all.
    open_two(&w, "runtime.mixed_precision_dtype=float16,runtime.loss_scale=1024", NULL);
    assert_fails(tl_trainer_train(w.t, 100, w.logs), TL_ENAN, "step 1: numbers are not finite");
    close_two(&w);
}

/* A loop of six good steps is told, though seven were tried. */
static void what_recovery_went_back_from_does_not_count(void **state)
{
    (void)state;
    two w;
    char folder[TEMPORARY_PATH];
    assert_non_null(mkdtemp(temporary(folder, "tilth-test-trainer")));
    spoiled = true;
    open_two(&w,
             "trainer: {train_steps: 6, steps_per_loop: 6, summary_interval: 6, "
             "checkpoint_interval: 1, recovery_max_trials: 1}",
             NULL);
    tl_run_result result;
    assert_ok(tl_run_experiment(&result, &(tl_run_args){.strategy = w.strategy,
                                                        .task = w.task,
                                                        .mode = "train",
                                                        .params = tl_config_value(w.config),
                                                        .model_dir = folder,
                                                        .trainer_cls = &counting_trainer,
                                                        .seed = 11,
                                                        .quiet = true}));
    assert_int_equal(result.trainer->global_step, 6);
    assert_near(counted, 48, 0);
    assert_near(loss_counted, 48, 0);
    tl_run_result_deinit(&result);
    close_two(&w);
    assert_int_equal(remove_tree(folder), 0);
}

/* --- steps that are left between their batches ------------------------------------------------ */

static int64_t fails_at; /* this batch cannot be read, once; counted down */

static tl_status failing_inputs(tl_trainer *t, tl_ctx *c, tl_tensors *batch, bool *more)
{
    if (--fails_at == 0) return TL_FAIL(TL_EIO, "the batch cannot be read");
    return tl_base_trainer.next_train_inputs(t, c, batch, more);
}
static const tl_trainer_class failing_trainer = {
    .cls = TL_CLASS(tl_trainer_class, "failing", &tl_base_trainer.cls, tl_trainer, NULL),
    .next_train_inputs = failing_inputs,
    .train_loop_end = counting_loop_end,
};

/* Whether the third step is left before its first batch or after it: metrics and running statistics
 * are the same. */
static void half_a_step_leaves_nothing(void **state)
{
    (void)state;
    two w[2];
    tl_state_report report = {0};
    batch_size = 4;
    for (int i = 0; i < 2; i++) {
        open_two(&w[i], "tilth.gradient_accumulation=2", &failing_trainer);
        fails_at = 5 + i;
        assert_fails(tl_trainer_train(w[i].t, 6, w[i].logs), TL_EIO, "the batch cannot be read");
        assert_int_equal(w[i].t->global_step, 2);
    }
    assert_ok(tl_state_compare(&report, tl_trainer_checkpoint(w[0].t),
                               tl_trainer_checkpoint(w[1].t),
                               &(tl_state_compare_args){.values = true}));
    for (int64_t i = 0; i < report.count; i++)
        if (strncmp(report.items[i].path, "data/", 5) != 0)
            fail_msg("'%s' differs", report.items[i].path);
    tl_state_report_deinit(&report);
    for (int i = 0; i < 2; i++) {
        assert_ok(tl_trainer_train(w[i].t, 3, w[i].logs));
        assert_near(counted, 8 * 5, 0);
        assert_near(loss_counted, 8 * 5, 0);
        close_two(&w[i]);
    }
}

/* --- the best checkpoint ---------------------------------------------------------------------- */

/* It is made while averages are in the model, and is as any other all the same. */
static void the_best_checkpoint_is_as_any_other(void **state)
{
    (void)state;
    static const char averaged[] = "trainer.optimizer_config.ema.average_decay=0.9";
    char folder[TEMPORARY_PATH];
    two a, b;
    tl_exporter *e;
    tl_state_report report = {0};
    assert_non_null(mkdtemp(temporary(folder, "tilth-test-trainer")));
    assert_ok(tl_exporter_new(
        &e,
        &(tl_exporter_args){.dir = folder, .metric = "validation_loss", .comp = TL_METRIC_LOWER}));
    open_two(&a, averaged, NULL);
    open_two(&b, averaged, NULL);
    a.t->exporter = e;
    assert_ok(tl_trainer_train(a.t, 10, a.logs));
    tl_logs_clear(a.logs);
    assert_ok(tl_trainer_evaluate(a.t, -1, a.logs));
    assert_false(tl_optimizer_swapped(a.t->optimizer));
    assert_ok(
        tl_checkpoint_restore(tl_trainer_checkpoint(b.t), tl_exporter_best_path(e), NULL, NULL));
    assert_ok(tl_state_compare(&report, tl_trainer_checkpoint(a.t), tl_trainer_checkpoint(b.t),
                               &(tl_state_compare_args){.values = true}));
    for (int64_t i = 0; i < report.count; i++)
        fail_msg("'%s' is another one", report.items[i].path);
    tl_state_report_deinit(&report);
    assert_ok(tl_trainer_evaluate(b.t, -1, b.logs));
    assert_true(told(&b, "validation_loss")
                == tl_logs_number_or(tl_exporter_best_logs(e), "validation_loss", -1));
    assert_true(told(&b, "validation_loss") == told(&a, "validation_loss"));
    close_two(&a);
    close_two(&b);
    tl_exporter_free(&e);
    assert_int_equal(remove_tree(folder), 0);
}

static tl_status step_by_hand(tl_task *t, tl_step *s)
{
    tl_tensor *y = tl_batch_get(s->batch, "y");
    tl_tensor *o = tl_step_forward(s, tl_batch_get(s->batch, "x"));
    (void)t;
    tl_step_minimize(s, tl_sparse_cross_entropy(s->ctx, y, o), NULL);
    return tl_step_metrics(s, y, o, NULL);
}
static const tl_task_class task_by_hand = {
    .cls = TL_CLASS(tl_task_class, "by_hand", &two_task.cls, tl_task, &task_desc),
    .train_step = step_by_hand,
};

/* Example 17 is the second of the fifth batch, that is of the first of step 3: all of that is
 * told. */
static void the_example_is_named(void **state)
{
    (void)state;
    const tl_array arrays[] = {{"x", TL_F32, TL_SHAPE(EXAMPLES, WIDTH), xs},
                               {"y", TL_I32, TL_SHAPE(EXAMPLES), ys},
                               {"id", TL_I32, TL_SHAPE(EXAMPLES), ids}};
    static const char *const said[] = {"step 3:",
                                       "gradient norm ",
                                       "learning rate 0.0",
                                       "microbatch 1 of 2",
                                       "epoch 0, position 16",
                                       "examples 1 (id 117) of 4",
                                       "First seen in fragile: log"};
    two w;
    tl_dataset *data;
    spoiled = true;
    open_two(&w, "tilth.gradient_accumulation=2", NULL);
    w.task->cls = &task_by_hand;
    exchange_model(&w);
    assert_ok(tl_dataset_from_arrays(
        &data, &(tl_arrays_args){.arrays = arrays, .count = 3, .batch_size = 4}));
    assert_ok(tl_trainer_set_train_dataset(w.t, &data));
    assert_int_equal(tl_trainer_train(w.t, 6, w.logs), TL_ENAN);
    for (size_t i = 0; i < TL_COUNT(said); i++)
        if (!strstr(tl_error_message(), said[i]))
            fail_msg("'%s' lacks '%s'", tl_error_message(), said[i]);
    // The data stands before the step.
    tl_state_entry e;
    assert_true(tl_state_find(&e, tl_trainer_checkpoint(w.t), "data/position"));
    assert_int_equal(e.i, 16);
    close_two(&w);
}

/* A pipeline, too, says where it stood; and a norm that is none has no sign. */
static void the_record_is_named(void **state)
{
    (void)state;
    const tl_array arrays[] = {{"x", TL_F32, TL_SHAPE(EXAMPLES, WIDTH), xs},
                               {"y", TL_I32, TL_SHAPE(EXAMPLES), ys}};
    for (int accumulation = 1; accumulation <= 2; accumulation++) {
        two w;
        tl_source *source;
        tl_dataset *data, *all;
        spoiled = true;
        open_two(&w, accumulation == 2 ? "tilth.gradient_accumulation=2" : NULL, NULL);
        exchange_model(&w);
        assert_ok(tl_source_arrays(&source, arrays, 2, false));
        assert_ok(tl_pipeline_new(
            &all, &(tl_pipeline_args){
                      .sources = &source, .source_count = 1, .batch_size = 4, .repeat = true}));
        assert_ok(tl_dataset_take(&data, &all, 100)); // what lies around it hands on what it says
        assert_ok(tl_trainer_set_train_dataset(w.t, &data));
        assert_fails(tl_trainer_train(w.t, 6, w.logs), TL_ENAN, ", batch at epoch 0, record 16");
        assert_null(strstr(tl_error_message(), "-nan"));
        close_two(&w);
    }
}

static tl_status no_loss(tl_task *t, tl_step *s)
{
    (void)t;
    return tl_ctx_status(s->ctx);
}
static const tl_task_class silent_task = {
    .cls = TL_CLASS(tl_task_class, "silent", &two_task.cls, tl_task, &task_desc),
    .train_step = no_loss,
};

static void mistakes_of_tasks_are_named(void **state)
{
    (void)state;
    two w;
    open_two(&w, NULL, NULL);
    w.task->cls = &silent_task;
    assert_fails(tl_trainer_train(w.t, 1, w.logs), TL_EINVAL, "logged no loss");
    close_two(&w);
    open_two(&w, "task.train_data.is_training=false", NULL);
    assert_fails(tl_trainer_train(w.t, 10, w.logs), TL_EINVAL, "the training data ended at step 6");
    close_two(&w);
}

/* A short batch at the end is padded, and padding does not count. */
static void evaluation_counts_each_example_once(void **state)
{
    (void)state;
    two a, b;
    batch_size = EXAMPLES;
    open_two(&a, NULL, NULL);
    assert_ok(tl_trainer_evaluate(a.t, -1, a.logs));
    batch_size = 7; // 48 = 6 * 7 + 6
    open_two(&b, NULL, NULL);
    assert_ok(tl_trainer_evaluate(b.t, -1, b.logs));
    assert_near(told(&a, "validation_loss"), told(&b, "validation_loss"), 1e-6);
    assert_near(told(&a, "accuracy"), told(&b, "accuracy"), 1e-12);
    tl_logs_clear(b.logs);
    assert_ok(tl_trainer_evaluate(b.t, 100, b.logs)); // more than there is
    assert_near(told(&a, "accuracy"), told(&b, "accuracy"), 1e-12);
    close_two(&a);
    close_two(&b);
}

/* --- overriding ------------------------------------------------------------------------------- */

static tl_status my_loop_end(tl_trainer *t, tl_logs *logs)
{
    TL_TRY(tl_base_trainer.train_loop_end(t, logs));
    return tl_logs_put(logs, "optimizer_iterations", (double)tl_optimizer_iterations(t->optimizer));
}

static tl_status my_eval_inputs(tl_trainer *t, tl_ctx *c, tl_tensors *batch, tl_logs *passthrough,
                                bool *more)
{
    TL_TRY(tl_logs_put_text(passthrough, "file", "a.png"));
    return tl_base_trainer.next_eval_inputs(t, c, batch, passthrough, more);
}

static int texts;
static tl_status my_reduce(tl_trainer *t, void **state, const tl_logs *step)
{
    tl_logs_entry e;
    if (tl_logs_find(&e, step, "file") && e.kind == TL_LOGS_TEXT) texts++;
    return tl_base_trainer.eval_reduce(t, state, step);
}
static const tl_trainer_class my_trainer = {
    .cls = TL_CLASS(tl_trainer_class, "mine", &tl_base_trainer.cls, tl_trainer, NULL),
    .train_loop_end = my_loop_end,
    .next_eval_inputs = my_eval_inputs,
    .eval_reduce = my_reduce,
};

static void methods_are_overridden_one_by_one(void **state)
{
    (void)state;
    two w;
    open_two(&w, NULL, &my_trainer);
    assert_ok(tl_trainer_train(w.t, 4, w.logs));
    assert_near(told(&w, "optimizer_iterations"), 4, 0);
    texts = 0;
    assert_ok(tl_trainer_evaluate(w.t, 3, w.logs));
    assert_int_equal(texts, 3);
    close_two(&w);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup_two)
    const struct CMUnitTest tests[] = {
        TEST(it_learns_and_tells),
        TEST(precisions_live_side_by_side),
        TEST(policies_have_names),
        TEST(eager_and_compiled_agree),
        TEST(accumulation_is_exact),
        TEST(unequal_batches_are_exact),
        TEST(parts_are_exchanged_in_mid_run),
        TEST(a_restored_trainer_goes_on_exactly),
        TEST(numbers_that_blow_up_are_found),
        TEST(steps_that_are_left_out_do_not_count),
        TEST(no_scale_is_small_enough),
        TEST(what_recovery_went_back_from_does_not_count),
        TEST(half_a_step_leaves_nothing),
        TEST(the_best_checkpoint_is_as_any_other),
        TEST(the_example_is_named),
        TEST(the_record_is_named),
        TEST(mistakes_of_tasks_are_named),
        TEST(evaluation_counts_each_example_once),
        TEST(methods_are_overridden_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
