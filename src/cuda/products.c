#include "cuda/products.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/core/attrs.h>

#include "core/inner/storage.h"
#include "cuda/device.h"
#include "cuda/kernels.h"

enum { WORKSPACE = 32 << 20 };

/* What is found out once about a product: descriptions and the algorithm. */
struct tli_cuda_plan {
    tli_cuda_product what;
    cublasLtMatmulDesc_t description;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace;
};

static tl_status check(const tli_cuda_api *api, cublasStatus_t status, const char *call)
{
    if (status == CUBLAS_STATUS_SUCCESS) return TL_OK;
    return TL_FAIL(TL_EIO, "cuBLASLt: %s: %s", call, api->cublasLtGetStatusName(status));
}
#define TRY(api, call, ...) TL_TRY(check((api), (api)->call(__VA_ARGS__), #call))

/* --- descriptions ----------------------------------------------------------------------------- */

static int type_of(tl_dtype dtype)
{
    switch (dtype) {
    case TL_BF16: return CUDA_R_16BF;
    case TL_F16: return CUDA_R_16F;
    case TL_F64: return CUDA_R_64F;
    default: return CUDA_R_32F;
    }
}

static tl_status describe_matrix(const tli_cuda_api *api, cublasLtMatrixLayout_t *out,
                                 const tli_cuda_product *p, tl_dtype dtype, int64_t rows,
                                 int64_t columns, int64_t step)
{
    const int32_t batch = (int32_t)p->batch;
    TRY(api, cublasLtMatrixLayoutCreate, out, type_of(dtype), (uint64_t)rows, (uint64_t)columns,
        rows);
    if (batch == 1) return TL_OK;
    TRY(api, cublasLtMatrixLayoutSetAttribute, *out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
        sizeof batch);
    TRY(api, cublasLtMatrixLayoutSetAttribute, *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
        &step, sizeof step);
    return TL_OK;
}

/* cuBLAS counts by columns: a row-major matrix is its own transpose there. So the product is that
 * of b and a, in this order. */
static tl_status describe(const tli_cuda_api *api, tli_cuda_plan *p)
{
    const tli_cuda_product *w = &p->what;
    const int32_t transposed = CUBLAS_OP_T, bias = CUBLASLT_EPILOGUE_BIAS;
    const bool is_double = w->dtype == TL_F64;
    TRY(api, cublasLtMatmulDescCreate, &p->description,
        is_double ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, is_double ? CUDA_R_64F : CUDA_R_32F);
    if (w->transpose_b)
        TRY(api, cublasLtMatmulDescSetAttribute, p->description, CUBLASLT_MATMUL_DESC_TRANSA,
            &transposed, sizeof transposed);
    if (w->transpose_a)
        TRY(api, cublasLtMatmulDescSetAttribute, p->description, CUBLASLT_MATMUL_DESC_TRANSB,
            &transposed, sizeof transposed);
    if (w->bias)
        TRY(api, cublasLtMatmulDescSetAttribute, p->description, CUBLASLT_MATMUL_DESC_EPILOGUE,
            &bias, sizeof bias);
    const tl_dtype result = w->wide && !is_double ? TL_F32 : w->dtype;
    TL_TRY(describe_matrix(api, &p->a, w, w->dtype, w->transpose_a ? w->m : w->k,
                           w->transpose_a ? w->k : w->m, w->a_step));
    TL_TRY(describe_matrix(api, &p->b, w, w->dtype, w->transpose_b ? w->k : w->n,
                           w->transpose_b ? w->n : w->k, w->b_step));
    return describe_matrix(api, &p->c, w, result, w->n, w->m, w->m * w->n);
}

/* Sums of parts are only added up in float32, in one order: the same bits each time. */
static tl_status choose(const tli_cuda_api *api, cublasLtHandle_t handle, tli_cuda_plan *p)
{
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found;
    const uint64_t most = WORKSPACE;
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    int count = 0;
    TRY(api, cublasLtMatmulPreferenceCreate, &preference);
    tl_status st =
        check(api,
              api->cublasLtMatmulPreferenceSetAttribute(
                  preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most),
              "workspace");
    if (st == TL_OK)
        st = check(
            api,
            api->cublasLtMatmulPreferenceSetAttribute(
                preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes),
            "schemes");
    if (st == TL_OK)
        st = check(api,
                   api->cublasLtMatmulAlgoGetHeuristic(handle, p->description, p->b, p->a, p->c,
                                                       p->c, preference, 1, &found, &count),
                   "cublasLtMatmulAlgoGetHeuristic");
    (void)api->cublasLtMatmulPreferenceDestroy(preference);
    TL_TRY(st);
    if (!count)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "cuBLASLt has no algorithm for a product of [%" PRId64 ", %" PRId64
                       "] and [%" PRId64 ", %" PRId64 "] in %s",
                       p->what.m, p->what.k, p->what.k, p->what.n, tl_dtype_name(p->what.dtype));
    p->algorithm = found.algo;
    p->workspace = found.workspaceSize;
    return TL_OK;
}

/* --- plans are kept --------------------------------------------------------------------------- */

static void free_plan(const tli_cuda_api *api, tli_cuda_plan *p)
{
    if (!p) return;
    if (p->description) (void)api->cublasLtMatmulDescDestroy(p->description);
    cublasLtMatrixLayout_t layouts[] = {p->a, p->b, p->c};
    for (int i = 0; i < 3; i++)
        if (layouts[i]) (void)api->cublasLtMatrixLayoutDestroy(layouts[i]);
    tl_free(p);
}

void tli_cuda_products_deinit(tli_cuda *d)
{
    for (int64_t i = 0; i < tl_map_count(&d->plans); i++)
        free_plan(d->api, tl_map_at(&d->plans, i));
    tl_map_deinit(&d->plans);
    if (d->products) (void)d->api->cublasLtDestroy(d->products);
    d->products = NULL;
}

static tl_status new_plan(tli_cuda *d, tli_cuda_plan **out, const tli_cuda_product *what)
{
    const tli_cuda_api *api;
    *out = NULL;
    TL_TRY(tli_cuda_products(&api));
    if (!d->products) TRY(api, cublasLtCreate, &d->products);
    tli_cuda_plan *p = tl_alloc_zero(sizeof *p);
    if (!p) return TL_FAIL_NOMEM(sizeof *p);
    p->what = *what;
    tl_status st = describe(api, p);
    if (st == TL_OK) st = choose(api, d->products, p);
    if (st != TL_OK) free_plan(api, p);
    else *out = p;
    return st;
}

static tl_status find_plan(tli_cuda *d, tli_cuda_plan **out, const tli_cuda_product *w)
{
    char key[160];
    snprintf(key, sizeof key,
             "%d %" PRId64 " %" PRId64 " %" PRId64 " %d%d%d%d %" PRId64 " %" PRId64 " %" PRId64,
             (int)w->dtype, w->m, w->n, w->k, w->transpose_a, w->transpose_b, w->bias, w->wide,
             w->batch, w->a_step, w->b_step);
    if ((*out = tl_map_get(&d->plans, key))) return TL_OK;
    TL_TRY(new_plan(d, out, w));
    tl_status st = tl_map_set(&d->plans, key, *out);
    if (st != TL_OK) free_plan(d->api, *out);
    return st;
}

/* --- running ---------------------------------------------------------------------------------- */

static tl_status launch(tli_cuda *d, tli_cuda_queue *q, tli_cuda_plan *p, const void *a,
                        const void *b, const void *bias, void *c)
{
    static const float one = 1, zero = 0;
    static const double one_d = 1, zero_d = 0;
    const bool is_double = p->what.dtype == TL_F64;
    if (p->workspace && !q->workspace)
        TLI_CUDA_TRY(d->api, cuMemAlloc_v2, &q->workspace, WORKSPACE);
    if (bias)
        TRY(d->api, cublasLtMatmulDescSetAttribute, p->description,
            CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    TRY(d->api, cublasLtMatmul, d->products, p->description,
        is_double ? (const void *)&one_d : &one, b, p->b, a, p->a,
        is_double ? (const void *)&zero_d : &zero, c, p->c, c, p->c, &p->algorithm,
        (void *)(uintptr_t)q->workspace, p->workspace, q->stream);
    return TL_OK;
}

tl_status tli_cuda_multiply(const tl_run *run, const tli_cuda_product *what, const void *a,
                            const void *b, const void *bias, void *c)
{
    tli_cuda *d = tli_cuda_of(run->queue->device);
    tli_cuda_plan *plan;
    TL_ASSERT(what->bias == (bias != NULL) && what->m && what->n && what->k);
    TL_TRY(tli_cuda_enter(d));
    pthread_mutex_lock(&d->lock); // a plan's bias is part of its description
    tl_status st = find_plan(d, &plan, what);
    if (st == TL_OK) st = launch(d, tli_cuda_queue_of(run->queue), plan, a, b, bias, c);
    pthread_mutex_unlock(&d->lock);
    if (st == TL_OK) (void)tli_cuda_issue(run->queue);
    return st;
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

static tl_status matmul(const tl_run *run, const tl_node *call)
{
    const tl_matmul_attr *attr = call->attr;
    const tl_tensor *a = call->in[0], *b = call->in[1];
    tl_tensor *y = call->out[0];
    const int64_t count = matrices(y), of_a = matrices(a), of_b = matrices(b);
    tli_cuda_product p = {.dtype = y->dtype,
                          .m = dim(y, 2),
                          .n = dim(y, 1),
                          .k = dim(a, attr->transpose_a ? 2 : 1),
                          .transpose_a = attr->transpose_a,
                          .transpose_b = attr->transpose_b,
                          .batch = count};
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
    return tli_cuda_multiply(run, &p, tli_data(a), tli_data(b), NULL, tli_data(y));
}

/* --- linear ----------------------------------------------------------------------------------- */

static tl_status linear(const tl_run *run, const tl_node *call)
{
    const tl_linear_attr *attr = call->attr;
    const tl_tensor *x = call->in[0], *w = call->in[1];
    tl_tensor *y = call->out[0], *sum = attr->keep_sum ? call->out[1] : y;
    const tli_cuda_product p = {.dtype = y->dtype,
                                .m = w->shape.dims[1] ? tl_tensor_count(y) / w->shape.dims[1] : 0,
                                .n = w->shape.dims[1],
                                .k = w->shape.dims[0],
                                .batch = 1,
                                .bias = call->inputs > 2};
    const void *bias = p.bias ? tli_data(call->in[2]) : NULL;
    if (!p.m || !p.n) return TL_OK;
    if (p.k) TL_TRY(tli_cuda_multiply(run, &p, tli_data(x), tli_data(w), bias, tli_data(sum)));
    else TL_TRY(tli_cuda_spread(run, sum, bias));
    if (attr->activation == TL_ACT_NONE && !attr->keep_sum) return TL_OK;
    return tli_cuda_activate(run, attr->activation, sum, y);
}

static const tl_kernel rows[] = {
    {TL_OP_matmul, TL_F32, matmul, 0}, {TL_OP_matmul, TL_BF16, matmul, 0},
    {TL_OP_matmul, TL_F16, matmul, 0}, {TL_OP_matmul, TL_F64, matmul, 0},
    {TL_OP_linear, TL_F32, linear, 0}, {TL_OP_linear, TL_BF16, linear, 0},
    {TL_OP_linear, TL_F16, linear, 0},
};
const tl_kernels tli_cuda_product_kernels = {rows, TL_COUNT(rows)};
