#include "zoo/language/scores.h"

#include <math.h>
#include <stdlib.h>
#include <tilth/base/alloc.h>

double tli_f1_score(const double *labels, const double *answers, int64_t count)
{
    int64_t both = 0, either = 0;
    for (int64_t i = 0; i < count; i++) {
        both += labels[i] == 1 && answers[i] == 1;
        either += (labels[i] == 1) + (answers[i] == 1);
    }
    return either ? 2.0 * (double)both / (double)either : 0;
}

/* The number of classes that are named; an error where something is no class. */
static tl_status count_classes(int64_t *out, const double *x, int64_t count)
{
    enum { MOST = 1 << 20 };
    for (int64_t i = 0; i < count; i++) {
        if (!(x[i] >= 0 && x[i] < MOST) || x[i] != floor(x[i]))
            return TL_FAIL(TL_EINVAL, "%g is no class: classes are whole numbers from 0 on", x[i]);
        if ((int64_t)x[i] >= *out) *out = (int64_t)x[i] + 1;
    }
    return TL_OK;
}

/* With t and p the numbers of labels and answers of each class, c the right ones and n all:
 * (c n - sum t p) / sqrt((n^2 - sum p^2) (n^2 - sum t^2)). */
tl_status tli_matthews_corrcoef(double *out, const double *labels, const double *answers,
                                int64_t count)
{
    int64_t classes = 1;
    *out = 0;
    TL_TRY(count_classes(&classes, labels, count));
    TL_TRY(count_classes(&classes, answers, count));
    double *t = tl_alloc_zero((size_t)(2 * classes) * sizeof *t), *p = t + classes;
    double right = 0, n = (double)count, tp = 0, tt = 0, pp = 0;
    if (!t) return TL_FAIL_NOMEM((size_t)(2 * classes) * sizeof *t);
    for (int64_t i = 0; i < count; i++) {
        t[(int64_t)labels[i]]++;
        p[(int64_t)answers[i]]++;
        right += labels[i] == answers[i];
    }
    for (int64_t k = 0; k < classes; k++) {
        tp += t[k] * p[k];
        tt += t[k] * t[k];
        pp += p[k] * p[k];
    }
    tl_free(t);
    const double below = (n * n - pp) * (n * n - tt);
    if (below > 0) *out = (right * n - tp) / sqrt(below);
    return TL_OK;
}

double tli_pearson(const double *a, const double *b, int64_t count)
{
    double ma = 0, mb = 0, ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < count; i++) {
        ma += a[i] / (double)count;
        mb += b[i] / (double)count;
    }
    for (int64_t i = 0; i < count; i++) {
        ab += (a[i] - ma) * (b[i] - mb);
        aa += (a[i] - ma) * (a[i] - ma);
        bb += (b[i] - mb) * (b[i] - mb);
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa) / sqrt(bb) : NAN;
}

typedef struct ranked {
    double value;
    int64_t at;
} ranked;

static int by_value(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->value != y->value ? (x->value < y->value ? -1 : 1)
                                : (x->at > y->at) - (x->at < y->at);
}

static void rank(double *out, ranked *scratch, const double *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) scratch[i] = (ranked){x[i], i};
    qsort(scratch, (size_t)count, sizeof *scratch, by_value);
    for (int64_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && scratch[end].value == scratch[i].value;) end++;
        for (int64_t k = i; k < end; k++) out[scratch[k].at] = (double)(i + end - 1) / 2;
    }
}

tl_status tli_spearman(double *out, const double *a, const double *b, int64_t count)
{
    const size_t bytes = (size_t)count * (sizeof(ranked) + 2 * sizeof(double)) + 1;
    ranked *scratch = tl_alloc(bytes);
    *out = NAN;
    if (!scratch) return TL_FAIL_NOMEM(bytes);
    double *ra = (double *)(scratch + count), *rb = ra + count;
    rank(ra, scratch, a, count);
    rank(rb, scratch, b, count);
    *out = tli_pearson(ra, rb, count);
    tl_free(scratch);
    return TL_OK;
}
