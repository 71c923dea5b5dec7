#include "cpu/ref/ref.h"

#include <math.h>

/* The rows along an axis: item i of a row lies `stride` further on than item i - 1. */
typedef struct rows {
    int64_t count, length, stride;
} rows;

static rows rows_of(const tl_node *n)
{
    const tl_softmax_attr *a = n->attr;
    const tl_tensor *x = n->in[0];
    rows r = {.length = x->shape.dims[a->axis], .stride = 1};
    for (int i = (int)a->axis + 1; i < x->shape.rank; i++) r.stride *= x->shape.dims[i];
    r.count = r.length ? tl_tensor_count(x) / r.length : 0;
    TL_ASSERT(r.count * r.length == tl_tensor_count(x) && (!r.stride || r.count % r.stride == 0));
    return r;
}

static int64_t row_at(const rows *r, int64_t row)
{
    return row / r->stride * r->stride * r->length + row % r->stride;
}

// Greatest item and sum of exp(item - greatest).
static double greatest(const rows *r, const tl_tensor *x, int64_t at, double *sum)
{
    double most = -INFINITY;
    *sum = 0;
    for (int64_t i = 0; i < r->length; i++) {
        double v = tli_ref_get(x, at + i * r->stride);
        if (v > most || isnan(v)) most = v;
        if (isnan(v)) break;
    }
    for (int64_t i = 0; i < r->length; i++) *sum += exp(tli_ref_get(x, at + i * r->stride) - most);
    return most;
}

static tl_status forward(const tl_node *n, bool logarithm)
{
    rows r = rows_of(n);
    for (int64_t row = 0; row < r.count; row++) {
        int64_t at = row_at(&r, row);
        double sum, most = greatest(&r, n->in[0], at, &sum);
        for (int64_t i = at; i < at + r.length * r.stride; i += r.stride) {
            double v = tli_ref_get(n->in[0], i) - most;
            tli_ref_set(n->out[0], i, logarithm ? v - log(sum) : exp(v) / sum);
        }
    }
    return TL_OK;
}

static tl_status backward(const tl_node *n, bool logarithm)
{
    const tl_tensor *gy = n->in[0], *y = n->in[1];
    rows r = rows_of(n);
    for (int64_t row = 0; row < r.count; row++) {
        int64_t at = row_at(&r, row), end = at + r.length * r.stride;
        double sum = 0;
        for (int64_t i = at; i < end; i += r.stride)
            sum += tli_ref_get(gy, i) * (logarithm ? 1 : tli_ref_get(y, i));
        for (int64_t i = at; i < end; i += r.stride) {
            double g = tli_ref_get(gy, i), v = tli_ref_get(y, i);
            tli_ref_set(n->out[0], i, logarithm ? g - exp(v) * sum : v * (g - sum));
        }
    }
    return TL_OK;
}

#define KERNEL(name, direction, logarithm)                                                         \
    static tl_status name##_kernel(const tl_run *run, const tl_node *n)                            \
    {                                                                                              \
        (void)run;                                                                                 \
        return direction(n, logarithm);                                                            \
    }
KERNEL(softmax, forward, false)
KERNEL(softmax_grad, backward, false)
KERNEL(log_softmax, forward, true)
KERNEL(log_softmax_grad, backward, true)

#define ROW(name) TL_INIT(TL_OP_##name, TL_DTYPE_COUNT, name##_kernel, 0)
static const tl_kernel table[] = {ROW(softmax), ROW(softmax_grad), ROW(log_softmax),
                                  ROW(log_softmax_grad)};
const tl_kernels tli_ref_softmax = {table, TL_COUNT(table)};
