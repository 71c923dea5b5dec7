#include "cpu/ref/ref.h"

#include <inttypes.h>
#include <math.h>

static double logsumexp(const tl_tensor *z, int64_t at, int64_t classes)
{
    double most = -INFINITY, sum = 0;
    for (int64_t k = 0; k < classes; k++) {
        double v = tli_ref_get(z, at + k);
        if (isnan(v)) return v;
        if (v > most) most = v;
    }
    if (isinf(most)) return most;
    for (int64_t k = 0; k < classes; k++) sum += exp(tli_ref_get(z, at + k) - most);
    return most + log(sum);
}

static int64_t classes_of(const tl_tensor *logits)
{
    TL_ASSERT(logits->shape.rank > 0);
    return logits->shape.dims[logits->shape.rank - 1];
}

// Integers do not pass through double here: an ignored label may be any int64.
static int64_t label_of(const tl_tensor *labels, int64_t i)
{
    if (labels->dtype == TL_I64) return ((const int64_t *)tli_data(labels))[i];
    return (int64_t)tli_ref_get(labels, i);
}

static bool ignores(const tl_entropy_attr *a, int64_t label)
{
    return a->ignored.set && label == a->ignored.value;
}

/* --- labels ---------------------------------------------------------------------------------- */

// "[1, 4]" of element i: where a bad label stands.
static void place_text(char out[TL_SHAPE_TEXT], const tl_shape *shape, int64_t i)
{
    tl_shape place = *shape;
    for (int d = shape->rank - 1; d >= 0; d--) {
        place.dims[d] = i % shape->dims[d];
        i /= shape->dims[d];
    }
    tl_shape_text(out, &place);
}

static tl_status sparse_cross_entropy_kernel(const tl_run *run, const tl_node *n)
{
    const tl_entropy_attr *a = n->attr;
    const tl_tensor *labels = n->in[0], *z = n->in[1];
    int64_t classes = classes_of(z);
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(labels); i < count; i++) {
        int64_t label = label_of(labels, i), at = i * classes;
        double lse = logsumexp(z, at, classes), loss = 0;
        if (!ignores(a, label)) {
            if (label < 0 || label >= classes) {
                char place[TL_SHAPE_TEXT];
                place_text(place, &labels->shape, i);
                return TL_FAIL(TL_EINVAL,
                               "label %" PRId64 " at %s is not a class; there are 0 to %" PRId64,
                               label, place, classes - 1);
            }
            loss = (1 - a->smoothing) * (lse - tli_ref_get(z, at + label));
            double spread = a->smoothing / (double)classes;
            for (int64_t k = 0; k < classes && spread > 0; k++)
                loss += spread * (lse - tli_ref_get(z, at + k));
        }
        tli_ref_set(n->out[0], i, loss);
        tli_ref_set(n->out[1], i, lse);
    }
    return TL_OK;
}

static tl_status sparse_cross_entropy_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_entropy_attr *a = n->attr;
    const tl_tensor *g = n->in[0], *labels = n->in[1], *z = n->in[2], *lse = n->in[3];
    int64_t classes = classes_of(z);
    double spread = a->smoothing / (double)classes;
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(labels); i < count; i++) {
        int64_t label = label_of(labels, i);
        for (int64_t k = 0; k < classes; k++) {
            int64_t at = i * classes + k;
            double target = (k == label ? 1 - a->smoothing : 0) + spread;
            double share = exp(tli_ref_get(z, at) - tli_ref_get(lse, i));
            tli_ref_set(n->out[0], at,
                        ignores(a, label) ? 0 : tli_ref_get(g, i) * (share - target));
        }
    }
    return TL_OK;
}

/* --- shares of all classes ------------------------------------------------------------------- */

static double smoothed(const tl_entropy_attr *a, double target, int64_t classes)
{
    return target * (1 - a->smoothing) + a->smoothing / (double)classes;
}

static tl_status cross_entropy_kernel(const tl_run *run, const tl_node *n)
{
    const tl_entropy_attr *a = n->attr;
    const tl_tensor *targets = n->in[0], *z = n->in[1];
    int64_t classes = classes_of(z);
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(n->out[0]); i < count; i++) {
        double lse = logsumexp(z, i * classes, classes), loss = 0;
        for (int64_t k = 0; k < classes; k++) {
            double t = smoothed(a, tli_ref_get(targets, i * classes + k), classes);
            if (t != 0)
                loss += t * (lse - tli_ref_get(z, i * classes + k)); // 0 times infinity is 0 here
        }
        tli_ref_set(n->out[0], i, loss);
        tli_ref_set(n->out[1], i, lse);
    }
    return TL_OK;
}

static tl_status cross_entropy_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_entropy_attr *a = n->attr;
    const tl_tensor *g = n->in[0], *targets = n->in[1], *z = n->in[2], *lse = n->in[3];
    int64_t classes = classes_of(z);
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(lse); i < count; i++) {
        double total = 0;
        for (int64_t k = 0; k < classes; k++)
            total += smoothed(a, tli_ref_get(targets, i * classes + k), classes);
        for (int64_t k = 0; k < classes; k++) {
            int64_t at = i * classes + k;
            double share = exp(tli_ref_get(z, at) - tli_ref_get(lse, i));
            double t = smoothed(a, tli_ref_get(targets, at), classes);
            tli_ref_set(n->out[0], at, tli_ref_get(g, i) * (share * total - t));
        }
    }
    return TL_OK;
}

/* --- yes or no ------------------------------------------------------------------------------- */

static tl_status sigmoid_cross_entropy_kernel(const tl_run *run, const tl_node *n)
{
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(n->out[0]); i < count; i++) {
        double t = tli_ref_get(n->in[0], i), z = tli_ref_get(n->in[1], i);
        tli_ref_set(n->out[0], i, fmax(z, 0) - z * t + log1p(exp(-fabs(z))));
    }
    return TL_OK;
}

#define ROW(name) TL_INIT(TL_OP_##name, TL_DTYPE_COUNT, name##_kernel, 0)
static const tl_kernel table[] = {
    ROW(sparse_cross_entropy), ROW(sparse_cross_entropy_grad), ROW(cross_entropy),
    ROW(cross_entropy_grad),   ROW(sigmoid_cross_entropy),
};
const tl_kernels tli_ref_loss = {table, TL_COUNT(table)};
