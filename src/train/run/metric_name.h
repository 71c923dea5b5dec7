/* Private to train: metrics by the names that configurations give them, and which of two is better.
 *
 * Thread word: free-threaded. */
#ifndef TLI_TRAIN_METRIC_NAME_H
#define TLI_TRAIN_METRIC_NAME_H

#include <tilth/core/logs.h>
#include <tilth/train/experiment.h>

/* The number that "a" or "a|b" (b in a) names. TL_ENOTFOUND, with the names that are there;
 * TL_EINVAL for what is no number. */
TL_NODISCARD tl_status tli_metric_get(double *out, const tl_logs *logs, const char *metric);

/* Strictly; a value that is not finite never is. */
bool tli_metric_is_better(tl_metric_comp comp, double value, double than);
/* That all others are better than. */
double tli_metric_worst(tl_metric_comp comp);

#endif
