/* What the files of metrics share. Thread word: one thread at a time for a context. */
#ifndef TLI_NN_METRIC_IMPL_H
#define TLI_NN_METRIC_IMPL_H

#include <tilth/nn/metrics.h>

/* The class, or one that it derives from, says that it is about one tensor. */
bool tli_metric_of_values(const tl_metric *m);

/* Counts of answers at thresholds, float64 [labels, thresholds]. */
typedef struct tli_counts {
    tl_tensor *true_positives, *false_positives, *true_negatives, *false_negatives;
} tli_counts;

TL_NODISCARD tl_status tli_counts_build(tli_counts *k, tl_metric *m, int64_t labels,
                                        int64_t thresholds);
/* Targets (not 0 is yes) and predictions of one shape; NULL: the context failed. `labels` above 1
 * splits along the last axis. */
typedef struct tli_answers {
    tl_tensor *yes;     /* float64 [n, labels]: the weight where the target is yes, else 0 */
    tl_tensor *no;      /* the other way round */
    tl_tensor *answers; /* [n, labels], at least float32; 0 where nothing is weighed */
} tli_answers;
void tli_answers_of(tli_answers *out, tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred,
                    tl_tensor *weight, int64_t labels);
/* Adds at `count` thresholds, in any order: an answer above one is yes. */
void tli_counts_add(const tli_counts *k, tl_ctx *c, const tli_answers *a, const double *thresholds,
                    int64_t count);
/* The same at even steps from 0 to 1, of which the first is below all answers. Answers outside of
 * [0, 1] fail the context, or the program when it runs. */
void tli_counts_add_even(const tli_counts *k, tl_ctx *c, const tli_answers *a);

/* False, and the context failed, unless the last axis is as long as there are classes. */
bool tli_check_width(tl_ctx *c, const tl_tensor *scores, int64_t classes);
/* As float32, or wider. */
tl_tensor *tli_at_least_f32(tl_ctx *c, tl_tensor *x);
/* One place of the last axis of both. False: the context failed. */
bool tli_only_class(tl_ctx *c, tl_tensor **y_true, tl_tensor **y_pred, const tl_opt_int *class_id);

#define TLI_METRIC_DESC(id, T, check_, help_)                                                      \
    static const tl_desc id##_desc = {.name = #id,                                                 \
                                      .help = help_,                                               \
                                      .size = sizeof(T),                                           \
                                      .fields = id##_fields,                                       \
                                      .base = &tl_metric_config_desc,                              \
                                      .check = check_};
#define TLI_METRIC_CLASS(id, instance_, config_, help_, ...)                                       \
    const tl_metric_class tl_metric_##id = {.cls = {.class_size = sizeof(tl_metric_class),         \
                                                    .name = #id,                                   \
                                                    .help = help_,                                 \
                                                    .size = sizeof(instance_),                     \
                                                    .config = (config_)},                          \
                                            __VA_ARGS__};

#endif
