#include <string.h>

#include "cpu/gemm.h"
#include "cpu/scratch.h"
#include "cpu/simd/kernels.h"

/* Products go to the GEMM as they lie: its strides are those of the tensors. */

#define THIS_ISA TLI_JOIN(TLI, TLI_ISA) /* TLI_neon, TLI_avx2 ... */

#define SAME(name) ((int)TL_ACT_##name == (int)TLI_ACT_##name)
_Static_assert(SAME(NONE) && SAME(RELU) && SAME(RELU6) && SAME(GELU) && SAME(GELU_TANH)
                   && SAME(SILU) && SAME(TANH) && SAME(SIGMOID)
                   && (int)TL_ACT_FUSED_COUNT == (int)TLI_ACT_COUNT,
               "activations of ops and of products have one numbering");
_Static_assert(TL_MAX_RANK - 2 <= TLI_GEMM_BATCH_RANK, "every stack of matrices is a batch");

// Strides of the dims before the last two, aligned at the end with those of the result; a dim that
// is stretched has 0.
static void batch_strides(int64_t *out, int batch_rank, const tl_tensor *t)
{
    TL_ASSERT(batch_rank <= TLI_GEMM_BATCH_RANK && t->shape.rank - 2 <= batch_rank);
    for (int d = batch_rank - 1, own = t->shape.rank - 3; d >= 0; d--, own--)
        out[d] = own >= 0 && t->shape.dims[own] != 1 ? t->strides[own] : 0;
}

static tli_gemm matmul_of(const tl_node *n)
{
    const tl_matmul_attr *attr = n->attr;
    const tl_tensor *a = n->in[0], *b = n->in[1], *y = n->out[0];
    const int a_rank = a->shape.rank, b_rank = b->shape.rank, rank = y->shape.rank;
    const int64_t *a_strides = a->strides + a_rank - 2, *b_strides = b->strides + b_rank - 2;
    tli_gemm g = {
        .m = y->shape.dims[rank - 2],
        .n = y->shape.dims[rank - 1],
        .k = a->shape.dims[a_rank - (attr->transpose_a ? 2 : 1)],
        .alpha = 1,
        .a_type = a->dtype,
        .b_type = b->dtype,
        .c_type = y->dtype,
        .a = tli_data(a),
        .b = tli_data(b),
        .c = tli_data(y),
        .a_row = a_strides[attr->transpose_a],
        .a_col = a_strides[!attr->transpose_a],
        .b_row = b_strides[attr->transpose_b],
        .b_col = b_strides[!attr->transpose_b],
        .c_row = y->shape.dims[rank - 1],
        .batch_rank = rank - 2,
    };
    for (int d = 0; d < g.batch_rank; d++) g.batch[d] = y->shape.dims[d];
    batch_strides(g.a_batch, g.batch_rank, a);
    batch_strides(g.b_batch, g.batch_rank, b);
    batch_strides(g.c_batch, g.batch_rank, y);
    TL_ASSERT(g.m == a->shape.dims[a_rank - (attr->transpose_a ? 1 : 2)]);
    TL_ASSERT(g.n == b->shape.dims[b_rank - (attr->transpose_b ? 2 : 1)]);
    // [m, k] [k, n] -> [m, n].
    TL_ASSERT(g.k == b->shape.dims[b_rank - (attr->transpose_b ? 1 : 2)]);
    TL_ASSERT(g.m <= 1 || g.n == 0 || g.c_row == y->strides[rank - 2]);
    return g;
}

static tl_status matmul_kernel(const tl_run *run, const tl_node *n)
{
    tli_gemm g = matmul_of(n);
    g.packed_b = run->packed ? tli_data(run->packed) : NULL;
    return tli_gemm_run(run->threads, THIS_ISA, &g);
}

// The bias with its numbers side by side.
static tl_status straight_bias(const void **out, const tl_tensor *bias)
{
    const size_t size = tl_dtype_size(bias->dtype);
    const int64_t count = bias->shape.dims[0];
    TL_ASSERT(bias->shape.rank == 1);
    const char *from = tli_data(bias);
    *out = from;
    if (bias->strides[0] == 1 || count <= 1) return TL_OK;
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL, (size_t)count * size));
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)room + (size_t)i * size, from + i * bias->strides[0] * (int64_t)size, size);
    *out = room;
    return TL_OK;
}

// All but bias and sum.
static tli_gemm linear_of(const tl_node *n)
{
    const tl_linear_attr *attr = n->attr;
    const tl_tensor *x = n->in[0], *w = n->in[1], *y = n->out[0];
    const int rank = x->shape.rank;
    tli_gemm g = {
        .m = rank > 1 ? x->shape.dims[rank - 2] : 1,
        .n = w->shape.dims[1],
        .k = w->shape.dims[0],
        .alpha = 1,
        .a_type = x->dtype,
        .b_type = w->dtype,
        .c_type = y->dtype,
        .a = tli_data(x),
        .b = tli_data(w),
        .c = tli_data(y),
        .a_row = rank > 1 ? x->strides[rank - 2] : 0,
        .a_col = x->strides[rank - 1],
        .b_row = w->strides[0],
        .b_col = w->strides[1],
        .c_row = w->shape.dims[1],
        .batch_rank = rank > 2 ? rank - 2 : 0,
        .activation = (tli_activation)attr->activation,
    };
    for (int d = 0; d < g.batch_rank; d++) g.batch[d] = y->shape.dims[d];
    batch_strides(g.a_batch, g.batch_rank, x);
    batch_strides(g.c_batch, g.batch_rank, y);
    // [.., k] [k, n] -> [.., n].
    TL_ASSERT(g.k == x->shape.dims[rank - 1] && g.n == y->shape.dims[y->shape.rank - 1]);
    TL_ASSERT(tl_tensor_count(y) * g.k == tl_tensor_count(x) * g.n);
    return g;
}

static tl_status linear_kernel(const tl_run *run, const tl_node *n)
{
    const tl_linear_attr *attr = n->attr;
    tli_gemm g = linear_of(n);
    g.packed_b = run->packed ? tli_data(run->packed) : NULL;
    if (n->inputs > 2) {
        g.bias_type = n->in[2]->dtype;
        TL_ASSERT(n->in[2]->shape.dims[0] == g.n);
        TL_TRY(straight_bias(&g.bias, n->in[2]));
    }
    if (attr->keep_sum || attr->keep_slope) {
        const tl_tensor *sum = n->out[1];
        TL_ASSERT(tl_shape_equal(&sum->shape, &n->out[0]->shape));
        g.pre_activation = tli_data(sum);
        g.pre_type = sum->dtype;
        g.pre_row = g.n;
        g.slope = attr->keep_slope;
        batch_strides(g.pre_batch, g.batch_rank, sum);
    }
    return tli_gemm_run(run->threads, THIS_ISA, &g);
}

tl_status TLI_ISA_NAME(tli_pack_weight)(const tl_run *run, const tl_node *n, const tl_tensor *to,
                                        size_t *bytes)
{
    *bytes = 0;
    if (n->op->op != TL_OP_matmul && n->op->op != TL_OP_linear) return TL_OK;
    const tli_gemm g = n->op->op == TL_OP_linear ? linear_of(n) : matmul_of(n);
    if (!tli_gemm_packs_b(THIS_ISA, &g)) return TL_OK;
    *bytes = tli_gemm_packed_b_bytes(THIS_ISA, g.a_type, g.b_type, g.k, g.n);
    TL_ASSERT(!to || tl_tensor_bytes(to) >= *bytes);
    return to ? tli_gemm_pack_b(tli_data(to), run->threads, THIS_ISA, &g) : TL_OK;
}

#define ROWS(dtype)                                                                                \
    TL_INIT(TL_OP_matmul, dtype, matmul_kernel, TL_KERNEL_STRIDED),                                \
        TL_INIT(TL_OP_linear, dtype, linear_kernel, TL_KERNEL_STRIDED | TL_KERNEL_SLOPES)
static const tl_kernel rows[] = {ROWS(TL_F32), ROWS(TL_BF16), ROWS(TL_F16), ROWS(TL_F64)};
TLI_SIMD_KERNELS(matmul, rows);
