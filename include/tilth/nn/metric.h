/* Metrics: numbers about many batches. A metric is a described class with tensors of its own that
 * ops update in place, so that it runs inside the compiled step.
 *
 *     typedef struct { tl_metric base; tl_tensor *total, *count; } agreement;
 *     static tl_status agreement_build(tl_metric *m)
 *     {
 *         agreement *a = (agreement *)m;
 *         a->total = tl_metric_state(m, "total", TL_F64, TL_SCALAR);
 *         a->count = tl_metric_state(m, "count", TL_F64, TL_SCALAR);
 *         return a->total && a->count ? TL_OK : tl_error_code();
 *     }
 *     static void agreement_update(tl_metric *m, tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred,
 *                                  tl_tensor *weight)
 *     {
 *         agreement *a = (agreement *)m;
 *         tl_metric_add(c, a->total, tl_metric_weighted(c, tl_mul(c, y_true, y_pred), weight));
 *         tl_metric_add(c, a->count, tl_metric_weights(c, y_pred, weight));
 *     }
 *     static tl_tensor *agreement_result(tl_metric *m, tl_ctx *c)
 *     {
 *         agreement *a = (agreement *)m;
 *         return tl_div_no_nan(c, a->total, a->count);
 *     }
 *     static const tl_metric_class agreement_class = {
 *         .cls = TL_CLASS(tl_metric_class, "agreement", NULL, agreement, NULL),
 *         .build = agreement_build, .update = agreement_update, .result = agreement_result};
 *
 *     tl_metrics *all;
 *     TL_TRY(tl_metrics_new(&all, e));
 *     TL_TRY(tl_metrics_add(NULL, all, &agreement_class, NULL, NULL));
 *     TL_TRY(tl_metrics_add(NULL, all, &tl_metric_sparse_categorical_accuracy, NULL, "accuracy"));
 *     ...
 *     tl_metrics_update(all, c, labels, outputs, weight);            // in every step
 *     TL_TRY(tl_metrics_tell(all, c, logs));                         // at the end: accuracy = 0.93
 *     TL_TRY(tl_metrics_reset(all, c));
 *
 * States begin at 0 and are sums: those of several replicas are added before `result` reads them.
 * What does not fit into sums of tensors (detections by image, texts) is an evaluator
 * (evaluator.h).
 *
 * An example whose weight is 0 counts nothing, whatever it holds: so short batches are filled up.
 *
 * Ownership: the caller's; a metric owns its states, a set its metrics. Thread word: one thread at
 * a time. */
#ifndef TILTH_NN_METRIC_H
#define TILTH_NN_METRIC_H

#include <tilth/core/logs.h>
#include <tilth/core/state.h>
#include <tilth/core/tensors.h>
#include <tilth/desc/registry.h>

TL_BEGIN

typedef struct tl_metric tl_metric;

typedef struct tl_metric_class {
    tl_class cls; /* its config, when it has one, derives from tl_metric_config */
    /* (optional: no state) Declares the states. */
    tl_status (*build)(tl_metric *m);
    /* Required. Only calls ops; failures stick in the context. `weight` may be NULL. Nothing is
     * recorded for gradients. */
    void (*update)(tl_metric *m, tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred,
                   tl_tensor *weight);
    /* Required: a scalar, or a vector, whose elements are told as name/0, name/1, ... or by the
     * labels of the configuration. A function of the states alone. */
    tl_tensor *(*result)(tl_metric *m, tl_ctx *c);
    /* (optional: all states become 0) */
    void (*reset)(tl_metric *m, tl_ctx *c);
    /* (optional: the result under the metric's name) */
    tl_status (*tell)(tl_metric *m, tl_ctx *c, tl_logs *into);
    /* (optional) Gives back what is not in the metric's arena, also when building failed. */
    void (*dispose)(tl_metric *m);
    /* It is about one tensor (a loss), not about targets and predictions: tl_metrics_update leaves
     * it alone, and tl_metric_update_value is how it is updated; y_true is NULL then. */
    bool of_values;
} tl_metric_class;
TL_API extern const tl_kind tl_kind_metric;

/* First member of every metric's struct. Members are for reading. */
struct tl_metric {
    const tl_metric_class *cls;
    const char *name;
    const void *config; /* a copy, completed with defaults; of a class that describes none it is the
                         * pointer that was given, which must stay valid as long as the metric */
    bool silent;        /* as its configuration says */
    tl_engine *engine;
    tl_arena *arena; /* lives as long as the metric */
    tl_tensors states;
};

/* First member of every metric's configuration. */
typedef struct tl_metric_config {
    const char *name;  /* "": that of the class */
    bool silent;       /* tl_metrics_tell leaves it out */
    bool complete;     /* set by defaults, parsing and copying: a zero is meant. In C literals it is
                        * left out, and members that are zero get their defaults */
    tl_strings labels; /* of the elements of a vector; none: their numbers */
} tl_metric_config;
TL_API extern const tl_desc tl_metric_config_desc;

/* A literal `config` is completed, NULL is the defaults. `name` NULL: the one in the configuration,
 * else that of the class. */
TL_API TL_NODISCARD tl_status tl_metric_new(tl_metric **out, tl_engine *engine,
                                            const tl_metric_class *cls, const void *config,
                                            const char *name);
/* The same from a one-of, as YAML gives it: `type: precision`. */
TL_API TL_NODISCARD tl_status tl_metric_new_of(tl_metric **out, tl_engine *engine,
                                               const tl_oneof *metric, const tl_registry *registry,
                                               const char *name);
/* NULL is fine. Programs that were captured with it must be gone. */
TL_API void tl_metric_free(tl_metric **m);

/* Adds a batch. */
TL_API void tl_metric_update(tl_metric *m, tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred,
                             tl_tensor *weight);
/* The same for metrics of one tensor: the mean of a loss. */
TL_API void tl_metric_update_value(tl_metric *m, tl_ctx *c, tl_tensor *value, tl_tensor *weight);
TL_API tl_tensor *tl_metric_result(tl_metric *m, tl_ctx *c);
/* The result as a number; that of a vector is refused. Waits for the device. */
TL_API TL_NODISCARD tl_status tl_metric_number(double *out, tl_metric *m, tl_ctx *c);
/* Puts the result into logs, by reference: nothing is waited for. Not while capturing. What it
 * computes belongs to `c`. */
TL_API TL_NODISCARD tl_status tl_metric_tell(tl_metric *m, tl_ctx *c, tl_logs *into);
/* Back to the beginning. May be captured. */
TL_API TL_NODISCARD tl_status tl_metric_reset(tl_metric *m, tl_ctx *c);
/* States by name, for checkpoints. */
TL_API TL_NODISCARD tl_status tl_metric_state_into(const tl_metric *m, tl_state *into);

/* --- for classes ------------------------------------------------------------------------------ */

/* A tensor of the metric's, zeros. Called in `build`; NULL, with the error set, when that
 * failed. */
TL_API tl_tensor *tl_metric_state(tl_metric *m, const char *name, tl_dtype dtype, tl_shape shape);
/* Adds all elements of `value` to `state`, in the state's type: to a scalar their sum, else element
 * by element, shapes alike. */
TL_API void tl_metric_add(tl_ctx *c, tl_tensor *state, tl_tensor *value);
/* Values times their weights, float64. Weights have the values' first axes, or theirs with some of
 * 1; a weight of 0 gives 0, whatever the value. NULL weight: the values. */
TL_API tl_tensor *tl_metric_weighted(tl_ctx *c, tl_tensor *values, tl_tensor *weight);
/* The weights themselves, stretched to the shape of `values`: ones without weights. float64. */
TL_API tl_tensor *tl_metric_weights(tl_ctx *c, tl_tensor *values, tl_tensor *weight);
/* a / b, and 0 where b is 0. */
TL_API tl_tensor *tl_div_no_nan(tl_ctx *c, tl_tensor *a, tl_tensor *b);

/* --- sets ------------------------------------------------------------------------------------- */

typedef struct tl_metrics tl_metrics;

TL_API TL_NODISCARD tl_status tl_metrics_new(tl_metrics **out, tl_engine *engine);
/* NULL is fine. */
TL_API void tl_metrics_free(tl_metrics **all);
/* A new metric of the set; `out` may be NULL. A name that is taken is TL_EEXISTS. */
TL_API TL_NODISCARD tl_status tl_metrics_add(tl_metric **out, tl_metrics *all,
                                             const tl_metric_class *cls, const void *config,
                                             const char *name);
TL_API TL_NODISCARD tl_status tl_metrics_add_of(tl_metric **out, tl_metrics *all,
                                                const tl_oneof *metric, const tl_registry *registry,
                                                const char *name);
TL_API int64_t tl_metrics_count(const tl_metrics *all);
TL_API tl_metric *tl_metrics_at(const tl_metrics *all, int64_t index);
/* NULL when there is none of that name. */
TL_API tl_metric *tl_metrics_find(const tl_metrics *all, const char *name);

/* Every metric of targets and predictions; those of one tensor are updated one by one. */
TL_API void tl_metrics_update(tl_metrics *all, tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred,
                              tl_tensor *weight);
/* Every metric that is not silent. */
TL_API TL_NODISCARD tl_status tl_metrics_tell(tl_metrics *all, tl_ctx *c, tl_logs *into);
TL_API TL_NODISCARD tl_status tl_metrics_reset(tl_metrics *all, tl_ctx *c);
/* Each under its name. */
TL_API TL_NODISCARD tl_status tl_metrics_state(const tl_metrics *all, tl_state *into);

TL_END

#endif
