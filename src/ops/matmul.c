#include "ops/matmul.h"

#include <inttypes.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/view.h>
#include <tilth/sys/ops/apply.h>

#include "ops/ops.h"
#include "ops/wide.h"

static const tl_field matmul_fields[] = {
    TL_F(tl_matmul_attr, transpose_a, .help = "exchanges the last two dims of the first input"),
    TL_F(tl_matmul_attr, transpose_b, .help = "exchanges the last two dims of the second input"),
    TL_F(tl_matmul_attr, wide, .help = "of half precision: the result is float32"),
    TL_F(tl_matmul_attr, added, .help = "adds the third input"),
    TL_F(tl_matmul_attr, gelu_grad,
         .help = "gives the gradient of gelu by tanh at the third input"),
    TL_F_END,
};
static const tl_desc matmul_desc = {
    .name = "matmul",
    .help = "attributes of matmul",
    .size = sizeof(tl_matmul_attr),
    .fields = matmul_fields,
};

/* --- shapes ----------------------------------------------------------------------------------- */

static int64_t dim(const tl_tensor *t, int from_end)
{
    return t->shape.dims[t->shape.rank - from_end];
}

// Rows and columns of an operand as the product sees it.
static void matrix_of(const tl_tensor *t, bool transposed, int64_t *rows, int64_t *columns)
{
    *rows = dim(t, transposed ? 1 : 2);
    *columns = dim(t, transposed ? 2 : 1);
}

static tl_shape batch_of(const tl_tensor *t)
{
    tl_shape batch = t->shape;
    batch.rank -= 2;
    return batch;
}

static tl_status want_matrices(const tl_tensor *t, const char *what)
{
    char spec[TL_TENSOR_TEXT];
    TL_TRY(tli_want_float(t, what));
    if (t->shape.rank >= 2) return TL_OK;
    return TL_FAIL(TL_EINVAL, "%s is %s and must be a matrix, a stack of matrices or a vector",
                   what, tl_tensor_spec(spec, t));
}

static tl_status want_same_type(const tl_tensor *a, const tl_tensor *b)
{
    return a->dtype == b->dtype ? TL_OK
                                : TL_FAIL(TL_EINVAL, "%s and %s are of different types; cast one",
                                          tl_dtype_name(a->dtype), tl_dtype_name(b->dtype));
}

static tl_status matmul_infer(const tl_node *call)
{
    const tl_matmul_attr *attr = call->attr;
    const tl_tensor *a = call->in[0], *b = call->in[1];
    tl_tensor *y = call->out[0];
    int64_t m, k, also_k, n;
    TL_TRY(want_matrices(a, "the first input"));
    TL_TRY(want_matrices(b, "the second input"));
    TL_TRY(want_same_type(a, b));
    matrix_of(a, attr->transpose_a, &m, &k);
    matrix_of(b, attr->transpose_b, &also_k, &n);
    if (k != also_k) {
        char left[TL_TENSOR_TEXT], right[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL,
                       "%s%s times %s%s: the first has %" PRId64 " columns and the second "
                       "%" PRId64 " rows; they must agree",
                       tl_tensor_spec(left, a), attr->transpose_a ? " (transposed)" : "",
                       tl_tensor_spec(right, b), attr->transpose_b ? " (transposed)" : "", k,
                       also_k);
    }
    tl_shape left = batch_of(a), right = batch_of(b);
    TL_TRY_NOTE(tl_shape_broadcast(&y->shape, &left, &right), "dims before the matrices");
    y->shape.dims[y->shape.rank++] = m;
    y->shape.dims[y->shape.rank++] = n;
    y->dtype = attr->wide ? tli_wide(a->dtype) : a->dtype;
    if (call->inputs > 2
        && (call->in[2]->dtype != y->dtype || !tl_shape_equal(&call->in[2]->shape, &y->shape)))
        return TL_FAIL(TL_EINVAL, "the third input must be like the result");
    return TL_OK;
}

static double matmul_flops(const tl_node *call)
{
    const tl_matmul_attr *attr = call->attr;
    double k = (double)dim(call->in[0], attr->transpose_a ? 2 : 1);
    return 2 * k * (double)tl_tensor_count(call->out[0]);
}

/* --- gradient --------------------------------------------------------------------------------- */

tl_tensor *tli_flat_rows(tl_ctx *c, tl_tensor *t)
{
    if (!t) return NULL;
    int64_t rows = 1;
    for (int i = 0; i < t->shape.rank - 1; i++) rows *= t->shape.dims[i];
    return tl_reshape(c, t, TL_SHAPE(rows, dim(t, 1)));
}

static bool is_single(const tl_shape *batch)
{
    for (int i = 0; i < batch->rank; i++)
        if (batch->dims[i] != 1) return false;
    return true;
}

static tl_tensor *gradient_of_b(tl_ctx *c, const tl_node *n, tl_tensor *gy)
{
    const tl_matmul_attr *attr = n->attr;
    tl_tensor *a = n->in[0], *b = n->in[1];
    tl_shape batch = batch_of(b);
    if (is_single(&batch) && a->shape.rank > 2 && !attr->transpose_a) {
        // One weight for many matrices: a long product instead of a sum of many.
        a = tli_flat_rows(c, a);
        gy = tli_flat_rows(c, gy);
    }
    tl_tensor *g = attr->transpose_b ? tl_matmul_with(c, gy, a, true, attr->transpose_a)
                                     : tl_matmul_with(c, a, gy, !attr->transpose_a, false);
    return tl_sum_to(c, g, &b->shape);
}

static void matmul_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                            const bool *wanted)
{
    const tl_matmul_attr *attr = n->attr;
    tl_tensor *a = n->in[0], *b = n->in[1];
    if (wanted[0]) {
        tl_tensor *g = attr->transpose_a ? tl_matmul_with(c, b, gy[0], attr->transpose_b, true)
                                         : tl_matmul_with(c, gy[0], b, false, !attr->transpose_b);
        gx[0] = tl_sum_to(c, g, &a->shape);
    }
    if (wanted[1]) gx[1] = gradient_of_b(c, n, gy[0]);
}

const tl_op_class tl_op_matmul = {
    .op = TL_OP_matmul,
    .name = "matmul",
    .help = "products of matrices",
    .attr = &matmul_desc,
    .inputs_min = 2,
    // Compiled programs give another one, where a kernel says TL_KERNEL_JOINED: what is added, or
    // what the result is the gradient of an activation for (core/attrs.h).
    .inputs_max = 3,
    .outputs = 1,
    .infer = matmul_infer,
    .gradient = matmul_gradient,
    .flops = matmul_flops,
};

/* --- from outside ----------------------------------------------------------------------------- */

tl_tensor *tl_matmul_with(tl_ctx *c, tl_tensor *a, tl_tensor *b, bool transpose_a, bool transpose_b)
{
    if (!a || !b || tl_ctx_failed(c)) return TL_APPLY(c, matmul, NULL, a, b);
    if (!tli_meet(c, &a, &b)) return NULL;
    bool row = a->shape.rank == 1, column = b->shape.rank == 1;
    if (row) a = tl_reshape(c, a, TL_SHAPE(1, a->shape.dims[0]));
    if (column) b = tl_reshape(c, b, TL_SHAPE(b->shape.dims[0], 1));
    tl_matmul_attr attr = {.transpose_a = transpose_a && !row,
                           .transpose_b = transpose_b && !column};
    tl_tensor *y = TL_APPLY(c, matmul, &attr, a, b);
    if (!y || !(row || column)) return y;
    tl_shape shape = batch_of(y);
    if (!row) shape.dims[shape.rank++] = dim(y, 2);
    if (!column) shape.dims[shape.rank++] = dim(y, 1);
    return tl_reshape(c, y, shape);
}

tl_tensor *tl_matmul(tl_ctx *c, tl_tensor *a, tl_tensor *b)
{
    return tl_matmul_with(c, a, b, false, false);
}
