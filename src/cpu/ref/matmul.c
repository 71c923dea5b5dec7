#include "cpu/ref/meaning.h"
#include "cpu/ref/ref.h"

/* --- matmul ----------------------------------------------------------------------------------- */

// The offset of matrix `index` of the batch `shape` in an operand, which may broadcast.
static int64_t batch_offset(const tl_tensor *t, const tl_shape *batch, int64_t index)
{
    tl_tensor outer = *t;
    outer.shape.rank -= 2;
    return tli_ref_offset(&outer, batch, index);
}

static tl_status matmul_kernel(const tl_run *run, const tl_node *n)
{
    const tl_matmul_attr *attr = n->attr;
    const tl_tensor *a = n->in[0], *b = n->in[1], *y = n->out[0];
    const int64_t *as = a->strides + a->shape.rank - 2, *bs = b->strides + b->shape.rank - 2;
    int64_t a_row = as[attr->transpose_a], a_col = as[!attr->transpose_a];
    int64_t b_row = bs[attr->transpose_b], b_col = bs[!attr->transpose_b];
    int64_t rows = y->shape.dims[y->shape.rank - 2], columns = y->shape.dims[y->shape.rank - 1];
    int64_t depth = a->shape.dims[a->shape.rank - (attr->transpose_a ? 2 : 1)];
    tl_shape batch = y->shape;
    // [m, k] [k, n] -> [m, n].
    TL_ASSERT(rows == a->shape.dims[a->shape.rank - (attr->transpose_a ? 1 : 2)]);
    TL_ASSERT(columns == b->shape.dims[b->shape.rank - (attr->transpose_b ? 2 : 1)]);
    (void)run;
    batch.rank -= 2;
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++) {
        int64_t column = i % columns, row = i / columns % rows, matrix = i / columns / rows;
        int64_t left = batch_offset(a, &batch, matrix) + row * a_row;
        int64_t right = batch_offset(b, &batch, matrix) + column * b_col;
        double sum = 0;
        for (int64_t k = 0; k < depth; k++)
            sum += tli_ref_get(a, left + k * a_col) * tli_ref_get(b, right + k * b_row);
        tli_ref_set(y, i, sum);
    }
    return TL_OK;
}

/* --- linear ----------------------------------------------------------------------------------- */

static tl_status linear_kernel(const tl_run *run, const tl_node *n)
{
    const tl_linear_attr *attr = n->attr;
    const tl_tensor *x = n->in[0], *w = n->in[1], *bias = n->inputs > 2 ? n->in[2] : NULL;
    const tl_tensor *y = n->out[0];
    int64_t depth = w->shape.dims[0], units = w->shape.dims[1];
    int64_t step = x->strides[x->shape.rank - 1];
    TL_ASSERT(x->shape.dims[x->shape.rank - 1] == depth
              && tl_tensor_count(y) * depth == tl_tensor_count(x) * units);
    tl_tensor rows = *x; // each of x's rows, by its first element
    (void)run;
    rows.shape.rank--;
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++) {
        int64_t unit = i % units, row = tli_ref_offset(&rows, &rows.shape, i / units);
        double sum = 0;
        for (int64_t k = 0; k < depth; k++)
            sum += tli_ref_get(x, row + k * step)
                   * tli_ref_get(w, k * w->strides[0] + unit * w->strides[1]);
        if (bias) sum += tli_ref_get(bias, unit * bias->strides[0]);
        if (attr->keep_sum) tli_ref_set(n->out[1], i, sum);
        if (attr->keep_slope) tli_ref_set(n->out[1], i, ref_gelu_grad(1, sum, true, 0));
        tli_ref_set(y, i, meaning_of_activation(attr->activation, sum));
    }
    return TL_OK;
}

/* --- the table -------------------------------------------------------------------------------- */

static const tl_kernel rows[] = {
    {TL_OP_matmul, TL_DTYPE_COUNT, matmul_kernel, TL_KERNEL_STRIDED},
    {TL_OP_linear, TL_DTYPE_COUNT, linear_kernel, TL_KERNEL_STRIDED | TL_KERNEL_SLOPES},
};
const tl_kernels tli_ref_matmul = {rows, TL_COUNT(rows)};
