/* Scores of whole evaluations, as scikit-learn and SciPy define them. Thread word:
 * free-threaded. */
#ifndef TLI_ZOO_LANGUAGE_SCORES_H
#define TLI_ZOO_LANGUAGE_SCORES_H

#include <tilth/base/status.h>

/* Of class 1: the harmonic mean of precision and recall; 0 when nothing is of it. */
double tli_f1_score(const double *labels, const double *answers, int64_t count);
/* The correlation of classes, of any number; 0 when one side is all alike. */
TL_NODISCARD tl_status tli_matthews_corrcoef(double *out, const double *labels,
                                             const double *answers, int64_t count);
/* NaN when one side is all alike. */
double tli_pearson(const double *a, const double *b, int64_t count);
/* The same of the ranks; those of equal numbers are their mean. */
TL_NODISCARD tl_status tli_spearman(double *out, const double *a, const double *b, int64_t count);

#endif
