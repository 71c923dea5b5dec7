#include "cpu/ref/ref.h"

#include <math.h>

/* --- two inputs --------------------------------------------------------------------------------- */

typedef double binary_fn(double a, double b);

static tl_status binary(const tl_node *n, binary_fn *fn)
{
    const tl_tensor *a = n->in[0], *b = n->in[1], *y = n->out[0];
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++)
        tli_ref_set(y, i, fn(tli_ref_get(a, tli_ref_offset(a, &y->shape, i)),
                             tli_ref_get(b, tli_ref_offset(b, &y->shape, i))));
    return TL_OK;
}

static double add(double a, double b)
{
    return a + b;
}

static double mul(double a, double b)
{
    return a * b;
}

/* --- one input ---------------------------------------------------------------------------------- */

typedef double unary_fn(double x);

static tl_status unary(const tl_node *n, unary_fn *fn)
{
    const tl_tensor *x = n->in[0], *y = n->out[0];
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++)
        tli_ref_set(y, i, fn(tli_ref_get(x, tli_ref_offset(x, &y->shape, i))));
    return TL_OK;
}

static double same(double x)
{
    return x;
}

/* --- the table ---------------------------------------------------------------------------------- */

#define KERNEL(name, kind, fn)                                                                     \
    static tl_status name##_kernel(const tl_run *run, const tl_node *n)                            \
    {                                                                                              \
        (void)run;                                                                                 \
        return kind(n, fn);                                                                        \
    }
KERNEL(add, binary, add)
KERNEL(mul, binary, mul)
KERNEL(exp, unary, exp)
KERNEL(cast, unary, same)

#define ROW(name) {TL_OP_##name, TL_DTYPE_COUNT, name##_kernel, TL_KERNEL_STRIDED}
static const tl_kernel rows[] = {ROW(add), ROW(mul), ROW(exp), ROW(cast)};
const tl_kernels tli_ref_elementwise = {rows, TL_COUNT(rows)};
