#include "cuda/products.h"

#include "core/inner/storage.h"
#include "cuda/kernels.h"

tl_status tli_cuda_multiply(const tl_run *run, const tli_cuda_product *what, const void *a,
                            const void *b, const void *bias, void *c)
{
    return tli_cuda_multiply_into(run, what,
                                  &(tli_cuda_operands){.a = a, .b = b, .bias = bias, .c = c});
}

/* --- matmul ----------------------------------------------------------------------------------- */

static int64_t matrices(const tl_tensor *t)
{
    int64_t count = 1;
    for (int i = 0; i < t->shape.rank - 2; i++) count *= t->shape.dims[i];
    return count;
}

static int64_t dim(const tl_tensor *t, int from_end)
{
    return t->shape.dims[t->shape.rank - from_end];
}

/* Which matrix of an operand belongs to matrix `number` of the result. */
static int64_t matrix_for(const tl_tensor *operand, const tl_tensor *y, int64_t number)
{
    int64_t at = 0, below = 1;
    const int extra = y->shape.rank - operand->shape.rank;
    for (int i = y->shape.rank - 3; i >= 0; i--) {
        const int64_t index = number % y->shape.dims[i];
        number /= y->shape.dims[i];
        if (i < extra) continue;
        if (operand->shape.dims[i - extra] != 1) at += index * below;
        below *= operand->shape.dims[i - extra];
    }
    return at;
}

static const char *element(const tl_tensor *t, int64_t number)
{
    return (const char *)tli_data(t) + (size_t)number * tl_dtype_size(t->dtype);
}

// Operands whose matrices are repeated in another way than as a whole: one product each.
static tl_status multiply_each(const tl_run *run, const tl_node *call, tli_cuda_product p,
                               int64_t count)
{
    const tl_tensor *a = call->in[0], *b = call->in[1], *y = call->out[0];
    p.batch = 1;
    p.a_step = p.b_step = 0;
    for (int64_t i = 0; i < count; i++)
        TL_TRY(tli_cuda_multiply(run, &p, element(a, matrix_for(a, y, i) * p.m * p.k),
                                 element(b, matrix_for(b, y, i) * p.k * p.n), NULL,
                                 (void *)(uintptr_t)element(y, i * p.m * p.n)));
    return TL_OK;
}

static tli_cuda_product product_of(const tl_node *matmul)
{
    const tl_matmul_attr *attr = matmul->attr;
    const tl_tensor *a = matmul->in[0], *y = matmul->out[0];
    return (tli_cuda_product){.dtype = a->dtype,
                              .m = dim(y, 2),
                              .n = dim(y, 1),
                              .k = dim(a, attr->transpose_a ? 2 : 1),
                              .transpose_a = attr->transpose_a,
                              .transpose_b = attr->transpose_b,
                              .batch = matrices(y),
                              .wide = attr->wide,
                              .masked = matmul->inputs > 2 && !attr->added && !attr->gelu_grad,
                              .added = attr->added,
                              .gelu_grad = attr->gelu_grad};
}

bool tli_cuda_product_takes(const tl_engine *engine, const tl_node *call)
{
    (void)engine;
    if (call->op->op != TL_OP_matmul || call->inputs < 3) return true;
    const tli_cuda_product p = product_of(call);
    if (!p.masked) return true;
    return tl_tensor_count(call->out[0]) && p.k && tli_cuda_is_small(&p)
           && matrices(call->in[0]) == 1 && matrices(call->in[1]) == 1;
}

static tl_status matmul(const tl_run *run, const tl_node *call)
{
    const tl_tensor *a = call->in[0], *b = call->in[1];
    tl_tensor *y = call->out[0];
    const int64_t count = matrices(y), of_a = matrices(a), of_b = matrices(b);
    tli_cuda_product p = product_of(call);
    if (!count || !p.m || !p.n) return TL_OK;
    if (!p.k) return run->queue->device->cls->fill(run->queue, tli_data(y), 0, tl_tensor_bytes(y));
    if (of_b == 1 && !p.transpose_a) { // one long product
        p.m *= count;
        p.batch = 1;
    }
    if ((of_a != 1 && of_a != count) || (of_b != 1 && of_b != count))
        return multiply_each(run, call, p, count);
    p.a_step = of_a == 1 ? 0 : p.m * p.k;
    p.b_step = of_b == 1 ? 0 : p.k * p.n;
    if (p.batch > INT32_MAX) return multiply_each(run, call, p, count);
    void *third = call->inputs > 2 ? tli_data(call->in[2]) : NULL;
    tl_status st = tli_cuda_multiply_into(run, &p,
                                          &(tli_cuda_operands){.a = tli_data(a),
                                                               .b = tli_data(b),
                                                               .mask = p.masked ? third : NULL,
                                                               .added = p.added ? third : NULL,
                                                               .sum = p.gelu_grad ? third : NULL,
                                                               .c = tli_data(y)});
    if (st != TL_EUNSUPPORTED || !p.gelu_grad) return st;
    tl_error_clear();
    p.gelu_grad = false;
    TL_TRY(tli_cuda_multiply(run, &p, tli_data(a), tli_data(b), NULL, tli_data(y)));
    return tli_cuda_gelu_grad(run, call->in[2], y);
}

/* --- linear ----------------------------------------------------------------------------------- */

/* Whether cuBLASLt can apply it to the sum. Its GELU is estimated, which halves do not show; sums
 * are only kept with it. */
static bool is_in_product(const tl_linear_attr *attr, tl_dtype dtype)
{
    if (attr->activation == TL_ACT_RELU) return !attr->keep_sum;
    return attr->activation == TL_ACT_GELU_TANH && (dtype == TL_BF16 || dtype == TL_F16);
}

/* Something is added to the product. */
static tl_status add_linear(const tl_run *run, const tl_node *call, tli_cuda_product p,
                            const void *bias)
{
    const tl_tensor *added = call->in[3];
    tl_tensor *y = call->out[0];
    p.added = true;
    TL_ASSERT(p.k);
    return tli_cuda_multiply_into(run, &p,
                                  &(tli_cuda_operands){.a = tli_data(call->in[0]),
                                                       .b = tli_data(call->in[1]),
                                                       .bias = bias,
                                                       .c = tli_data(y),
                                                       .added = tli_data(added)});
}

static tl_status linear(const tl_run *run, const tl_node *call)
{
    const tl_linear_attr *attr = call->attr;
    const tl_tensor *x = call->in[0], *w = call->in[1];
    tl_tensor *y = call->out[0], *sum = attr->keep_sum ? call->out[1] : y;
    tli_cuda_product p = {.dtype = y->dtype,
                          .m = w->shape.dims[1] ? tl_tensor_count(y) / w->shape.dims[1] : 0,
                          .n = w->shape.dims[1],
                          .k = w->shape.dims[0],
                          .batch = 1,
                          .bias = call->inputs > 2};
    const void *bias = p.bias ? tli_data(call->in[2]) : NULL;
    if (!p.m || !p.n) return TL_OK;
    if (call->inputs > 3) return add_linear(run, call, p, bias);
    if (p.k && is_in_product(attr, y->dtype)) {
        tli_cuda_product with = p;
        with.activation = attr->activation;
        with.keep_sum = attr->keep_sum;
        const tl_status st = tli_cuda_multiply_into(
            run, &with,
            &(tli_cuda_operands){.a = tli_data(x),
                                 .b = tli_data(w),
                                 .bias = bias,
                                 .sum = attr->keep_sum ? tli_data(sum) : NULL,
                                 .c = tli_data(y)});
        if (st != TL_EUNSUPPORTED) return st;
        tl_error_clear();
    }
    if (p.k) TL_TRY(tli_cuda_multiply(run, &p, tli_data(x), tli_data(w), bias, tli_data(sum)));
    else TL_TRY(tli_cuda_spread(run, sum, bias));
    if (attr->activation == TL_ACT_NONE && !attr->keep_sum) return TL_OK;
    return tli_cuda_activate(run, attr->activation, sum, y);
}

static const tl_kernel rows[] = {
    {TL_OP_matmul, TL_F32, matmul, 0},
    {TL_OP_matmul, TL_BF16, matmul, TL_KERNEL_JOINED},
    {TL_OP_matmul, TL_F16, matmul, TL_KERNEL_JOINED},
    {TL_OP_matmul, TL_F64, matmul, 0},
    {TL_OP_linear, TL_F32, linear, TL_KERNEL_JOINED},
    {TL_OP_linear, TL_BF16, linear, TL_KERNEL_JOINED},
    {TL_OP_linear, TL_F16, linear, TL_KERNEL_JOINED},
};
const tl_kernels tli_cuda_product_kernels = {rows, TL_COUNT(rows)};
