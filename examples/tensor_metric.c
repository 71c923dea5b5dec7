/* Counterpart of MyMetric (Model Garden, Customize metrics: Keras metrics): a metric with two
 * variables, total and count, that ops add to. Such a metric runs inside the compiled step, and its
 * variables are in checkpoints.
 *
 *     $ example_tensor_metric
 *
 * In a task it is one line of build_metrics: tl_metrics_add(NULL, into, &my_metric_class, NULL,
 * NULL). */
#include <tilth/tilth.h>

/* --- the metric ------------------------------------------------------------------------------- */

typedef struct my_metric {
    tl_metric base;
    tl_tensor *total, *count;
} my_metric;

/* __init__: variables that start at 0. */
static tl_status build(tl_metric *m)
{
    my_metric *u = (my_metric *)m;
    u->total = tl_metric_state(m, "total", TL_F64, TL_SCALAR);
    u->count = tl_metric_state(m, "count", TL_F64, TL_SCALAR);
    return u->total && u->count ? TL_OK : tl_error_code();
}

static void update_state(tl_metric *m, tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred,
                         tl_tensor *sample_weight)
{
    my_metric *u = (my_metric *)m;
    tl_tensor *agreement = tl_mul(c, y_true, y_pred);
    // Without weights every example weighs 1; those of weight 0 count nothing.
    tl_metric_add(c, u->total, tl_metric_weighted(c, agreement, sample_weight));
    tl_metric_add(c, u->count, tl_metric_weights(c, agreement, sample_weight));
}

static tl_tensor *result(tl_metric *m, tl_ctx *c)
{
    my_metric *u = (my_metric *)m;
    return tl_div_no_nan(c, u->total, u->count);
}

/* reset_states() is inherited: it assigns 0 to all of them. */
static const tl_metric_class my_metric_class = {
    .cls = TL_CLASS(tl_metric_class, "my_metric", NULL, my_metric, NULL),
    .build = build,
    .update = update_state,
    .result = result,
};

/* --- using it --------------------------------------------------------------------------------- */

/* One batch: predictions for three examples, of which the last may weigh less. */
static tl_status see_batch(tl_metrics *metrics, tl_ctx *c, const double *y_pred, double last_weight)
{
    tl_mark scope = tl_ctx_begin(c);
    tl_tensor *truth = tl_from_doubles(c, TL_F32, TL_SHAPE(3), (double[]){1, 0, 1});
    tl_tensor *prediction = tl_from_doubles(c, TL_F32, TL_SHAPE(3), y_pred);
    tl_tensor *weight = tl_from_doubles(c, TL_F32, TL_SHAPE(3), (double[]){1, 1, last_weight});
    tl_metrics_update(metrics, c, truth, prediction, weight);
    tl_status st = tl_ctx_status(c);
    tl_ctx_end(c, scope);
    return st;
}

static tl_status tell(tl_metrics *metrics, tl_ctx *c, const char *when)
{
    tl_logs *logs;
    tl_str text = TL_STR_INIT;
    TL_TRY(tl_logs_new(&logs));
    tl_mark scope = tl_ctx_begin(c);
    tl_status st = tl_metrics_tell(metrics, c, logs);
    if (st == TL_OK) st = tl_logs_text(&text, logs);
    if (st == TL_OK) printf("%s: %s\n", when, tl_str_text(&text));
    tl_ctx_end(c, scope);
    tl_str_deinit(&text);
    tl_logs_free(&logs);
    return st;
}

int main(void)
{
    tl_registry *registry = NULL;
    tl_engine *engine = NULL;
    tl_ctx *c = NULL;
    tl_metrics *metrics = NULL;
    tl_status st;
    TL_TRY_DONE(st, tl_registry_new_builtin(&registry));
    TL_TRY_DONE(st, tl_engine_open(&engine, registry, "cpu", 0));
    TL_TRY_DONE(st, tl_ctx_new(&c, engine));
    TL_TRY_DONE(st, tl_metrics_new(&metrics, engine));
    TL_TRY_DONE(st, tl_metrics_add(NULL, metrics, &my_metric_class, NULL, NULL));
    TL_TRY_DONE(st, tl_metrics_add(NULL, metrics, &tl_metric_binary_accuracy, NULL, NULL));

    TL_TRY_DONE(st, see_batch(metrics, c, (double[]){0.75, 0.25, 0.5}, 1)); // total 1.25, count 3
    TL_TRY_DONE(st, see_batch(metrics, c, (double[]){0.25, 0.75, 1}, 0));   // total 1.5, count 5
    TL_TRY_DONE(st, tell(metrics, c, "after two batches"));
    TL_TRY_DONE(st, tl_metrics_reset(metrics, c));
    st = tell(metrics, c, "after a reset");
done:
    if (st != TL_OK) fprintf(stderr, "%s\n", tl_error_message());
    tl_metrics_free(&metrics);
    tl_ctx_free(&c);
    tl_engine_free(&engine);
    tl_registry_free(&registry);
    return tl_exit_code(st);
}
