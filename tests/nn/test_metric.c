/* Metrics as objects: states, weights, names in logs, resets, sets, what is refused. What each
 * computes is in test_metric_golden.c. */
#include "nn/lab.h"

#include <tilth/base/alloc.h>
#include <tilth/graph/function.h>
#include <tilth/nn/metrics.h>

/* --- a metric of the test's own, as the header shows it --------------------------------------- */

typedef struct agreement {
    tl_metric base;
    tl_tensor *total, *count;
} agreement;
static int disposed;

static tl_status agreement_build(tl_metric *m)
{
    agreement *a = (agreement *)m;
    a->total = tl_metric_state(m, "total", TL_F64, TL_SCALAR);
    a->count = tl_metric_state(m, "count", TL_F64, TL_SCALAR);
    return a->total && a->count ? TL_OK : tl_error_code();
}

static void agreement_update(tl_metric *m, tl_ctx *ctx, tl_tensor *y, tl_tensor *p,
                             tl_tensor *weight)
{
    agreement *a = (agreement *)m;
    tl_metric_add(ctx, a->total, tl_metric_weighted(ctx, tl_mul(ctx, y, p), weight));
    tl_metric_add(ctx, a->count, tl_metric_weights(ctx, p, weight));
}

static tl_tensor *agreement_result(tl_metric *m, tl_ctx *ctx)
{
    agreement *a = (agreement *)m;
    return tl_div_no_nan(ctx, a->total, a->count);
}

static void agreement_dispose(tl_metric *m)
{
    (void)m;
    disposed++;
}

static const tl_metric_class agreement_class = {
    .cls = TL_CLASS(tl_metric_class, "agreement", NULL, agreement, NULL, .help = "of the test"),
    .build = agreement_build,
    .update = agreement_update,
    .result = agreement_result,
    .dispose = agreement_dispose,
};

static tl_tensor *row(int64_t n, const double *values)
{
    return tl_from_doubles(c, TL_F32, TL_SHAPE(n), values);
}
#define ROW(...)                                                                                   \
    row((int64_t)TL_COUNT(((const double[]){__VA_ARGS__})), (const double[]){__VA_ARGS__})

static double number(tl_metric *m)
{
    double value = NAN;
    assert_ok(tl_metric_number(&value, m, c));
    return value;
}

static tl_metric *make(const tl_metric_class *cls, const void *config)
{
    tl_metric *m = NULL;
    assert_ok(tl_metric_new(&m, engine, cls, config, NULL));
    return m;
}

static void own_metrics_accumulate_and_reset(void **state)
{
    (void)state;
    disposed = 0;
    tl_metric *m = make(&agreement_class, NULL);
    assert_string_equal(m->name, "agreement");
    assert_near(number(m), 0, 0); // of nothing
    tl_metric_update(m, c, ROW(1, 2), ROW(3, 4), NULL);
    assert_near(number(m), 5.5, 0);
    tl_metric_update(m, c, ROW(1, 1), ROW(10, 20), ROW(0.5, 0));
    assert_near(number(m), (3 + 8 + 5) / 2.5, 1e-12);
    assert_ok(tl_metric_reset(m, c));
    assert_near(number(m), 0, 0);
    tl_metric_free(&m);
    assert_int_equal(disposed, 1);
    assert_null(m);
}

static void a_class_inherits_what_it_leaves_out(void **state)
{
    (void)state;
    static const tl_metric_class derived = {.cls = TL_CLASS(tl_metric_class, "derived",
                                                            &agreement_class.cls, agreement, NULL,
                                                            .help = "of the test")};
    tl_metric *m = make(&derived, NULL);
    tl_metric_update(m, c, ROW(1, 2), ROW(3, 4), NULL);
    assert_near(number(m), 5.5, 0);
    tl_metric_free(&m);
}

static void long_sums_stay_exact(void **state)
{
    (void)state;
    tl_metric *m = make(&tl_metric_mean, NULL);
    // In float32 a million times 0.1 added one by one would be 0.9 % off.
    tl_tensor *batch = tl_full(c, TL_F32, TL_SHAPE(1000), 0.1);
    for (int i = 0; i < 1000; i++) {
        tl_mark mark = tl_ctx_begin(c);
        tl_metric_update_value(m, c, batch, NULL);
        assert_ok(tl_ctx_status(c));
        tl_ctx_end(c, mark);
    }
    assert_near(number(m), 0.1f, 1e-15);
    tl_metric_free(&m);
}

static void weight_zero_counts_nothing(void **state)
{
    (void)state;
    static const tl_metric_class *const classes[] = {
        &tl_metric_mean_squared_error, &tl_metric_binary_accuracy,
        &tl_metric_precision,          &tl_metric_auc,
        &tl_metric_accuracy,           &tl_metric_binary_crossentropy,
    };
    for (int64_t i = 0; i < TL_COUNT(classes); i++) {
        tl_metric *whole = make(classes[i], NULL), *padded = make(classes[i], NULL);
        tl_metric_update(whole, c, ROW(1, 0, 1), ROW(0.9, 0.2, 0.4), NULL);
        tl_metric_update(padded, c, ROW(1, 0, 1, 1, 0), ROW(0.9, 0.2, 0.4, NAN, 7),
                         ROW(1, 1, 1, 0, 0));
        assert_near(number(padded), number(whole), 1e-12);
        tl_metric_free(&whole);
        tl_metric_free(&padded);
    }
}

static void weights_have_the_first_axes(void **state)
{
    (void)state;
    tl_metric *m = make(&tl_metric_mean, NULL);
    tl_tensor *values = tl_from_doubles(c, TL_F32, TL_SHAPE(2, 2), (double[]){1, 2, 3, 4});
    tl_metric_update_value(m, c, values, ROW(1, 3));
    assert_near(number(m), (1.5 + 3 * 3.5) / 4, 1e-12);
    assert_ok(tl_metric_reset(m, c));
    tl_metric_update_value(m, c, ROW(1, 2),
                           tl_from_doubles(c, TL_F32, TL_SHAPE(2, 1), (double[]){1, 3}));
    assert_near(number(m), 7.0 / 4, 1e-12);
    assert_ok(tl_metric_reset(m, c));
    tl_metric_update_value(m, c, values, tl_number(c, TL_F32, 2)); // one for all
    assert_near(number(m), 2.5, 1e-12);
    tl_metric_update_value(m, c, values, ROW(1, 2, 3));
    assert_fails(tl_ctx_status(c), TL_EINVAL,
                 "mean: the weights are [3] and do not fit the values, [2, 2]");
    tl_ctx_clear(c);
    tl_metric_free(&m);
}

/* --- telling ---------------------------------------------------------------------------------- */

static void vectors_are_told_by_number_or_label(void **state)
{
    (void)state;
    static const char *const names[] = {"low", "high"};
    tl_threshold_metric_config config = {.thresholds = {(const double[]){0.3, 0.7}, 2}};
    tl_metric *plain = make(&tl_metric_recall, &config);
    config.metric.labels = (tl_strings){names, 2};
    config.metric.name = "hit_rate";
    tl_metric *named = make(&tl_metric_recall, &config);
    tl_logs *logs;
    assert_ok(tl_logs_new(&logs));
    tl_metric_update(plain, c, ROW(1, 1), ROW(0.9, 0.5), NULL);
    tl_metric_update(named, c, ROW(1, 1), ROW(0.9, 0.5), NULL);
    assert_ok(tl_metric_tell(plain, c, logs));
    assert_ok(tl_metric_tell(named, c, logs));
    assert_int_equal(tl_logs_count(logs), 4);
    assert_near(tl_logs_number_or(logs, "recall/0", NAN), 1, 0);
    assert_near(tl_logs_number_or(logs, "recall/1", NAN), 0.5, 0);
    assert_near(tl_logs_number_or(logs, "hit_rate/low", NAN), 1, 0);
    assert_near(tl_logs_number_or(logs, "hit_rate/high", NAN), 0.5, 0);
    tl_logs_free(&logs);
    tl_metric_free(&plain);
    tl_metric_free(&named);
}

// Means of elements are told by their places.
static void tensors_are_told_by_place(void **state)
{
    (void)state;
    tl_metric *m = make(&tl_metric_mean_tensor,
                        &(tl_mean_tensor_config){.shape = {(const int64_t[]){2, 3}, 2}});
    tl_logs *logs;
    assert_ok(tl_logs_new(&logs));
    for (int i = 1; i <= 2; i++)
        tl_metric_update_value(m, c, tl_reshape(c, ROW(i, 0, 0, 0, 0, 4 * i), TL_SHAPE(2, 3)),
                               NULL);
    assert_ok(tl_metric_tell(m, c, logs));
    assert_int_equal(tl_logs_count(logs), 6);
    assert_near(tl_logs_number_or(logs, "mean_tensor/0/0", NAN), 1.5, 0);
    assert_near(tl_logs_number_or(logs, "mean_tensor/1/2", NAN), 6, 0);
    assert_near(tl_logs_number_or(logs, "mean_tensor/1/0", NAN), 0, 0);
    tl_metric_update_value(m, c, ROW(1, 2, 3), NULL);
    assert_fails(tl_ctx_status(c), TL_EINVAL, "must have the shape of the metric, [2, 3]");
    tl_ctx_clear(c);
    tl_logs_free(&logs);
    tl_metric_free(&m);
}

// Where Keras has NaN, or minus infinity that becomes 0.
static void targets_without_spread_explain_nothing(void **state)
{
    (void)state;
    tl_metric *m = make(&tl_metric_r2_score, NULL);
    assert_near(number(m), 0, 0);
    tl_metric_update(m, c, ROW(2, 2, 7), ROW(2, 2, 9), ROW(1, 1, 0));
    assert_near(number(m), 1, 0);
    tl_metric_update(m, c, ROW(2, 2), ROW(2, 3), NULL);
    assert_near(number(m), 0, 0);
    tl_metric_free(&m);
}

// What was told does not change when the metric goes on.
static void told_numbers_stay(void **state)
{
    (void)state;
    static const tl_metric_class *const classes[] = {&tl_metric_sum, &tl_metric_mean};
    for (int64_t i = 0; i < TL_COUNT(classes); i++) {
        tl_metric *m = make(classes[i], NULL);
        tl_logs *logs;
        assert_ok(tl_logs_new(&logs));
        tl_mark mark = tl_ctx_begin(c);
        tl_metric_update_value(m, c, ROW(3), NULL);
        assert_ok(tl_metric_tell(m, c, logs));
        tl_metric_update_value(m, c, ROW(5), NULL);
        assert_ok(tl_metric_reset(m, c));
        tl_ctx_end(c, mark);
        assert_near(tl_logs_number_or(logs, m->name, NAN), 3, 0);
        tl_logs_free(&logs);
        tl_metric_free(&m);
    }
}

static void a_confusion_matrix_is_an_image(void **state)
{
    (void)state;
    tl_metric *m = make(&tl_metric_confusion_matrix, &(tl_confusion_config){.num_classes = 3});
    tl_logs *logs;
    tl_logs_entry entry;
    assert_ok(tl_logs_new(&logs));
    tl_tensor *y = tl_from_doubles(c, TL_I32, TL_SHAPE(4), (double[]){0, 0, 2, 0});
    tl_tensor *p = tl_from_doubles(c, TL_I32, TL_SHAPE(4), (double[]){0, 1, 2, 0});
    tl_metric_update(m, c, y, p, NULL);
    assert_ok(tl_metric_tell(m, c, logs));
    assert_true(tl_logs_find(&entry, logs, "confusion_matrix"));
    assert_int_equal(entry.kind, TL_LOGS_IMAGE);
    assert_shape(entry.tensor->shape, 3, 3, 1);
    assert_near(at(entry.tensor, 0), 2.0 / 3, 1e-6);
    assert_near(at(entry.tensor, 1), 1.0 / 3, 1e-6);
    assert_near(at(entry.tensor, 3), 0, 0); // no target of class 1
    assert_near(at(entry.tensor, 8), 1, 0);
    tl_logs_free(&logs);
    tl_metric_free(&m);
}

static tl_tensor *matrix_result(tl_metric *m, tl_ctx *ctx)
{
    (void)m;
    return tl_ones(ctx, TL_F32, TL_SHAPE(2, 2));
}

static tl_tensor *no_result(tl_metric *m, tl_ctx *ctx)
{
    (void)m;
    (void)ctx;
    return NULL;
}

static void telling_says_what_is_wrong(void **state)
{
    (void)state;
    static const tl_metric_class matrix = {
        .cls = TL_CLASS(tl_metric_class, "matrix", &agreement_class.cls, agreement, NULL,
                        .help = "of the test"),
        .result = matrix_result,
    };
    static const tl_metric_class none = {
        .cls = TL_CLASS(tl_metric_class, "none", &agreement_class.cls, agreement, NULL,
                        .help = "of the test"),
        .result = no_result,
    };
    tl_metric *m = make(&matrix, NULL);
    tl_logs *logs;
    double value;
    assert_ok(tl_logs_new(&logs));
    assert_fails(tl_metric_tell(m, c, logs), TL_EINVAL,
                 "metric 'matrix': its result is float32[2, 2]");
    bool before = tl_ctx_set_capturing(c, true);
    assert_fails(tl_metric_tell(m, c, logs), TL_ESTATE, "while a function is captured");
    tl_ctx_set_capturing(c, before);
    tl_metric_free(&m);
    m = make(&none, NULL);
    assert_fails(tl_metric_number(&value, m, c), TL_EINVAL, "gave no tensor");
    assert_int_equal(tl_logs_count(logs), 0);
    tl_metric_free(&m);
    tl_logs_free(&logs);
}

/* --- states ----------------------------------------------------------------------------------- */

static void states_continue_where_they_were(void **state)
{
    (void)state;
    tl_metrics *a, *b;
    tl_state *from, *to;
    assert_ok(tl_metrics_new(&a, engine));
    assert_ok(tl_metrics_new(&b, engine));
    for (int i = 0; i < 2; i++) {
        tl_metrics *all = i ? b : a;
        assert_ok(tl_metrics_add(NULL, all, &tl_metric_binary_accuracy, NULL, "accuracy"));
        assert_ok(tl_metrics_add(NULL, all, &tl_metric_auc, NULL, "train/auc"));
        assert_ok(tl_metrics_add(NULL, all, &tl_metric_binary_iou, NULL, NULL));
        assert_ok(tl_metrics_add(NULL, all, &tl_metric_r2_score,
                                 &(tl_r2_config){.num_outputs = 1, .num_regressors = 2}, NULL));
        assert_ok(tl_metrics_add(NULL, all, &tl_metric_specificity_at_sensitivity, NULL, NULL));
        assert_ok(tl_metrics_add(NULL, all, &tl_metric_poisson, NULL, NULL));
    }
    tl_metrics_update(a, c, ROW(1, 0, 1), ROW(0.9, 0.6, 0.2), NULL);
    assert_ok(tl_state_new(&from));
    assert_ok(tl_state_new(&to));
    assert_ok(tl_metrics_state(a, from));
    assert_ok(tl_metrics_state(b, to));
    assert_ok(tl_state_copy(to, from, NULL, NULL));
    for (int i = 0; i < 2; i++)
        tl_metrics_update(i ? b : a, c, ROW(1, 0), ROW(0.3, 0.4), ROW(2, 1));
    for (int64_t i = 0; i < tl_metrics_count(a); i++)
        assert_near(number(tl_metrics_at(a, i)), number(tl_metrics_at(b, i)), 0);
    assert_near(number(tl_metrics_find(b, "accuracy")), (1 + 0 + 0 + 0 + 1) / 6.0, 1e-12);
    tl_state_free(&from);
    tl_state_free(&to);
    tl_metrics_free(&a);
    tl_metrics_free(&b);
}

static void nothing_is_taped(void **state)
{
    (void)state;
    tl_metric *m = make(&tl_metric_mean_squared_error, NULL);
    tl_tensor *p = ROW(1, 2);
    tl_ctx_set_taping(c, true);
    assert_ok(tl_watch(p));
    const tl_node *before = tl_ctx_last_node(c);
    tl_metric_update(m, c, ROW(3, 4), p, NULL);
    assert_ok(tl_ctx_status(c));
    assert_ptr_equal(tl_ctx_last_node(c), before);
    assert_true(tl_ctx_taping(c));
    tl_ctx_set_taping(c, false);
    tl_metric_free(&m);
}

static tl_status update_and_reset(void *self, tl_ctx *ctx, const tl_tensors *in, tl_tensors *out)
{
    tl_tensor *p = tl_tensors_get(ctx, in, "p");
    tl_metric_update_value(self, ctx, p, NULL);
    tl_tensors_put(ctx, out, "result", tl_metric_result(self, ctx));
    TL_TRY(tl_metric_reset(self, ctx));
    return tl_ctx_status(ctx);
}

static void a_reset_may_be_captured(void **state)
{
    (void)state;
    tl_metric *m = make(&tl_metric_mean, NULL);
    tl_function *f;
    assert_ok(tl_function_new(
        &f, &(tl_function_args){.engine = engine, .body = update_and_reset, .self = m}));
    for (int i = 1; i < 4; i++) {
        tl_tensors in = {0}, out = {0};
        tl_tensors_put(c, &in, "p", ROW(i, 3 * i));
        assert_ok(tl_function_call(f, c, &in, &out));
        assert_near(at(tl_tensors_peek(&out, "result"), 0), 2 * i, 0);
    }
    tl_function_free(&f);
    tl_metric_free(&m);
}

/* --- sets ------------------------------------------------------------------------------------- */

static void sets_update_tell_and_reset(void **state)
{
    (void)state;
    tl_metrics *all;
    tl_metric *loss, *hidden;
    tl_logs *logs;
    tl_registry *registry;
    assert_ok(tl_registry_new(&registry));
    assert_ok(tl_registry_add(registry, &tl_metrics_module));
    assert_ok(tl_metrics_new(&all, engine));
    assert_ok(tl_metrics_add(&loss, all, &tl_metric_mean, NULL, "loss"));
    assert_ok(tl_metrics_add_of(NULL, all, &(tl_oneof){.type = "binary_accuracy"}, registry, NULL));
    assert_ok(tl_metrics_add(&hidden, all, &tl_metric_recall,
                             &(tl_threshold_metric_config){.metric.silent = true}, NULL));
    assert_fails(tl_metrics_add(NULL, all, &tl_metric_sum, NULL, "loss"), TL_EEXISTS, "'loss'");
    assert_fails(
        tl_metrics_add_of(NULL, all, &(tl_oneof){.type = "binary_acuracy"}, registry, NULL),
        TL_ENOTFOUND, "binary_accuracy");
    assert_fails(tl_metrics_add_of(NULL, all, &(tl_oneof){0}, registry, NULL), TL_EINVAL,
                 "no metric is chosen");
    assert_int_equal(tl_metrics_count(all), 3);
    assert_ptr_equal(tl_metrics_find(all, "loss"), loss);
    assert_null(tl_metrics_find(all, "gain"));
    assert_ok(tl_logs_new(&logs));
    tl_metrics_update(all, c, ROW(1, 0), ROW(0.9, 0.8), NULL); // leaves the loss alone
    tl_metric_update_value(loss, c, ROW(0.25), NULL);
    assert_ok(tl_metrics_tell(all, c, logs));
    assert_int_equal(tl_logs_count(logs), 2);
    assert_near(tl_logs_number_or(logs, "loss", NAN), 0.25, 0);
    assert_near(tl_logs_number_or(logs, "binary_accuracy", NAN), 0.5, 0);
    assert_near(number(hidden), 1, 0);
    assert_ok(tl_metrics_reset(all, c));
    for (int64_t i = 0; i < 3; i++) assert_near(number(tl_metrics_at(all, i)), 0, 0);
    tl_logs_free(&logs);
    tl_metrics_free(&all);
    tl_registry_free(&registry);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void bad_classes_and_configurations_are_refused(void **state)
{
    (void)state;
    static const tl_metric_class small = {
        .cls = {.class_size = sizeof(tl_metric_class), .name = "small", .help = "x", .size = 4},
        .update = agreement_update,
        .result = agreement_result,
    };
    static const tl_metric_class lame = {
        .cls = TL_CLASS(tl_metric_class, "lame", NULL, agreement, NULL, .help = "x"),
        .update = agreement_update,
    };
    tl_metric *m;
    assert_fails(tl_metric_new(&m, engine, &small, NULL, NULL), TL_EINVAL, "tl_metric");
    assert_fails(tl_metric_new(&m, engine, &lame, NULL, NULL), TL_EINVAL, "result");
    assert_null(m);
    assert_fails(tl_metric_new(&m, engine, &tl_metric_f1_score, NULL, NULL), TL_EINVAL,
                 "metric 'f1_score': num_classes");
    assert_fails(tl_metric_new(&m, engine, &tl_metric_f1_score,
                               &(tl_f_score_config){.num_classes = 2, .beta = 2}, NULL),
                 TL_EINVAL, "must be 1");
    assert_fails(tl_metric_new(&m, engine, &tl_metric_fbeta_score,
                               &(tl_f_score_config){.num_classes = 2, .beta = -1}, NULL),
                 TL_EINVAL, "above 0");
    assert_fails(tl_metric_new(&m, engine, &tl_metric_auc,
                               &(tl_auc_config){.thresholds = {(const double[]){1.5}, 1}}, NULL),
                 TL_EINVAL, "thresholds is 1.5");
    assert_fails(tl_metric_new(&m, engine, &tl_metric_auc,
                               &(tl_auc_config){.num_labels = 3,
                                                .label_weights = {(const double[]){1, 2}, 2}},
                               NULL),
                 TL_EINVAL, "there are 2 for 3 labels");
    tl_iou_config iou = {.confusion.num_classes = 3,
                         .target_class_ids = {(const int64_t[]){1, 3}, 2}};
    assert_fails(tl_metric_new(&m, engine, &tl_metric_iou, &iou, NULL), TL_EINVAL,
                 "target_class_ids: 3 is no class: they are below 3");
    iou.target_class_ids.count = 0;
    assert_fails(tl_metric_new(&m, engine, &tl_metric_iou, &iou, NULL), TL_EINVAL,
                 "target_class_ids");
    tl_one_hot_iou_config one_hot = {.num_classes = 3,
                                     .target_class_ids = {(const int64_t[]){1}, 1}};
    assert_fails(tl_metric_new(&m, engine, &tl_metric_one_hot_mean_iou, &one_hot, NULL), TL_EINVAL,
                 "one_hot_mean_iou takes all classes");
    tl_mean_tensor_config deep = {.shape = {(const int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1}, 9}};
    assert_fails(tl_metric_new(&m, engine, &tl_metric_mean_tensor, &deep, NULL), TL_EINVAL,
                 "shape: it has 9 dimensions");
    assert_fails(tl_metric_new(&m, engine, &tl_metric_mean_relative_error, NULL, NULL), TL_EINVAL,
                 "normalizer");
    assert_fails(tl_metric_new(&m, engine, &tl_metric_recall,
                               &(tl_threshold_metric_config){.top_k = {true, 0}}, NULL),
                 TL_EINVAL, "top_k is 0");
    assert_fails(
        tl_metric_new(&m, engine, &tl_metric_auc, &(tl_auc_config){.curve = (tl_auc_curve)9}, NULL),
        TL_EINVAL, "curve is 9");
}

static void refused(const tl_metric_class *cls, const void *config, tl_tensor *y, tl_tensor *p,
                    const char *text)
{
    tl_metric *m = make(cls, config);
    tl_metric_update(m, c, y, p, NULL);
    assert_fails(tl_ctx_status(c), TL_EINVAL, text);
    tl_ctx_clear(c);
    tl_metric_free(&m);
}

static void inputs_that_do_not_fit_are_named(void **state)
{
    (void)state;
    tl_tensor *wide = tl_zeros(c, TL_F32, TL_SHAPE(2, 3)), *two = ROW(1, 0);
    tl_confusion_config three = {.num_classes = 3};
    refused(&tl_metric_accuracy, NULL, two, ROW(1, 2, 3),
            "accuracy: the targets are float32[2] and the predictions float32[3]");
    refused(&tl_metric_sparse_categorical_accuracy, NULL, ROW(1, 2, 3), wide,
            "class numbers must have");
    refused(&tl_metric_sparse_categorical_accuracy, NULL, two, tl_number(c, TL_F32, 1),
            "no axis of classes");
    refused(&tl_metric_f1_score, &(tl_f_score_config){.num_classes = 4}, two, wide,
            "num_classes 4");
    refused(&tl_metric_auc, &(tl_auc_config){.num_labels = 2}, wide, wide, "num_labels 2");
    refused(&tl_metric_auc, NULL, two, ROW(0.5, 1.5), "predictions must lie from 0 to 1");
    refused(&tl_metric_auc, NULL, two, ROW(0.5, NAN), "predictions must lie from 0 to 1");
    refused(&tl_metric_auc, NULL, two, ROW(-0.001, 0), "predictions must lie from 0 to 1");
    refused(&tl_metric_mean_iou, &three, ROW(0, 3), ROW(0, 1), "class numbers must be below");
    refused(&tl_metric_mean_iou, &three, ROW(0, 1), ROW(0, -1), "class numbers must be below");
    refused(&tl_metric_precision, &(tl_threshold_metric_config){.class_id = {true, 7}}, wide, wide,
            "7");
    refused(&tl_metric_binary_iou, NULL, ROW(0, 2), two, "class numbers must be below");
    refused(&tl_metric_r2_score, &(tl_r2_config){.num_outputs = 4}, wide, wide, "num_outputs 4");
    refused(&tl_metric_mean_relative_error,
            &(tl_mean_relative_error_config){.normalizer = {(const double[]){1, 2}, 2}}, wide, wide,
            "there are 2 normalizers");
    refused(&tl_metric_mean, NULL, two, two, "metric 'mean' is about one tensor");
    refused(&tl_metric_accuracy, NULL, NULL, two, "metric 'accuracy' was given no targets");
    refused(&tl_metric_accuracy, NULL, two, NULL, "metric 'accuracy' was given no predictions");
}

// Class numbers outside are fine where they do not count.
static void what_does_not_count_may_be_no_class(void **state)
{
    (void)state;
    tl_metric *m = make(&tl_metric_mean_iou,
                        &(tl_confusion_config){.num_classes = 2, .ignore_class = {true, 255}});
    tl_metric_update(m, c, ROW(0, 1, 255, -1), ROW(0, 0, 1, 9), ROW(1, 1, 1, 0));
    assert_near(number(m), 0.25, 1e-12); // 1/2 of class 0, none of class 1
    tl_metric_free(&m);
}

static void weights_may_be_truths(void **state)
{
    (void)state;
    tl_metric *m = make(&tl_metric_mean, NULL);
    tl_metric_update_value(m, c, ROW(3), tl_full(c, TL_BOOL, TL_SCALAR, 1));
    tl_metric_update_value(m, c, ROW(NAN), tl_full(c, TL_BOOL, TL_SCALAR, 0));
    assert_near(number(m), 3, 0);
    tl_metric_free(&m);
}

static void values_are_for_metrics_of_values(void **state)
{
    (void)state;
    tl_metric *m = make(&tl_metric_accuracy, NULL), *mean = make(&tl_metric_mean, NULL);
    tl_metric_update_value(m, c, ROW(1), NULL);
    assert_fails(tl_ctx_status(c), TL_EINVAL, "metric 'accuracy' is about targets and predictions");
    double value;
    assert_fails(tl_metric_number(&value, mean, c), TL_EINVAL, "accuracy"); // and it stays so
    assert_fails(tl_ctx_status(c), TL_EINVAL, "accuracy");
    tl_ctx_clear(c);
    tl_metric_update_value(mean, c, NULL, NULL);
    assert_fails(tl_ctx_status(c), TL_EINVAL, "metric 'mean' was given no value");
    tl_ctx_clear(c);
    tl_metric_free(&m);
    tl_metric_free(&mean);
}

// Labels that are no class are wrong answers, not errors, where only answers are compared.
static void labels_outside_are_never_among_the_best(void **state)
{
    (void)state;
    tl_metric *m = make(&tl_metric_sparse_top_k_categorical_accuracy, &(tl_top_k_config){.k = 9});
    tl_tensor *p = tl_from_doubles(c, TL_F32, TL_SHAPE(4, 2), (double[]){1, 2, 1, 2, 1, 2, 1, NAN});
    tl_metric_update(m, c, tl_from_doubles(c, TL_I64, TL_SHAPE(4), (double[]){0, -1, 2, 1}), p,
                     NULL);
    assert_near(number(m), 0.25, 0);
    tl_metric_free(&m);
}

/* --- memory ----------------------------------------------------------------------------------- */

static tl_status use_metrics(void)
{
    tl_metrics *all = NULL;
    tl_logs *logs = NULL;
    tl_state *kept = NULL;
    tl_mark mark = tl_ctx_begin(c);
    tl_status st;
    TL_TRY_DONE(st, tl_metrics_new(&all, engine));
    TL_TRY_DONE(st, tl_metrics_add(NULL, all, &agreement_class, NULL, NULL));
    TL_TRY_DONE(st,
                tl_metrics_add(NULL, all, &tl_metric_auc,
                               &(tl_auc_config){.thresholds = {(const double[]){0.5}, 1}}, NULL));
    TL_TRY_DONE(st, tl_metrics_add(NULL, all, &tl_metric_recall,
                                   &(tl_threshold_metric_config){
                                       .thresholds = {(const double[]){0.5, 0.6}, 2}},
                                   NULL));
    tl_metrics_update(all, c, ROW(1, 0), ROW(0.5, 0.25), ROW(1, 1));
    TL_TRY_DONE(st, tl_ctx_status(c));
    TL_TRY_DONE(st, tl_logs_new(&logs));
    TL_TRY_DONE(st, tl_metrics_tell(all, c, logs));
    TL_TRY_DONE(st, tl_metrics_reset(all, c));
    TL_TRY_DONE(st, tl_state_new(&kept));
    TL_TRY_DONE(st, tl_metrics_state(all, kept));
done:
    tl_state_free(&kept);
    tl_logs_free(&logs);
    tl_metrics_free(&all);
    tl_ctx_end(c, mark);
    return st;
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    assert_ok(use_metrics());
    for (int64_t nth = 1;; nth++) {
        assert_true(nth < 100000);
        tl_engine_trim(engine);
        tl_alloc_fail_at(nth, 2); // the second one too, since memory of tensors is asked for again
        int64_t before = tl_alloc_calls();
        tl_status st = use_metrics();
        bool reached = tl_alloc_calls() - before >= nth;
        tl_alloc_fail_at(0, 0);
        if (!reached) {
            assert_int_equal(st, TL_OK);
            break;
        }
        if (st != TL_ENOMEM)
            fail_msg("allocation %lld: %s: %s", (long long)nth, tl_status_name(st),
                     tl_error_message());
    }
    assert_ok(use_metrics());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(own_metrics_accumulate_and_reset),
        LAB_TEST(a_class_inherits_what_it_leaves_out),
        LAB_TEST(long_sums_stay_exact),
        LAB_TEST(weight_zero_counts_nothing),
        LAB_TEST(weights_have_the_first_axes),
        LAB_TEST(vectors_are_told_by_number_or_label),
        LAB_TEST(tensors_are_told_by_place),
        LAB_TEST(targets_without_spread_explain_nothing),
        LAB_TEST(told_numbers_stay),
        LAB_TEST(a_confusion_matrix_is_an_image),
        LAB_TEST(telling_says_what_is_wrong),
        LAB_TEST(states_continue_where_they_were),
        LAB_TEST(nothing_is_taped),
        LAB_TEST(a_reset_may_be_captured),
        LAB_TEST(sets_update_tell_and_reset),
        LAB_TEST(bad_classes_and_configurations_are_refused),
        LAB_TEST(inputs_that_do_not_fit_are_named),
        LAB_TEST(what_does_not_count_may_be_no_class),
        LAB_TEST(weights_may_be_truths),
        LAB_TEST(values_are_for_metrics_of_values),
        LAB_TEST(labels_outside_are_never_among_the_best),
        LAB_TEST(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, open_lab, close_lab);
}
