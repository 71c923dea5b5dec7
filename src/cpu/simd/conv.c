#include <string.h>

#include "cpu/simd/conv_parts.h"
#include "cpu/simd/kernels.h"

#define THIS_ISA TLI_JOIN(TLI, TLI_ISA) /* TLI_neon, TLI_avx2 ... */

static tli_conv conv_of(const tl_node *n, const tl_tensor *x, const tl_tensor *k,
                        const tl_tensor *y)
{
    const tl_conv_attr *a = n->attr;
    const int64_t *xd = x->shape.dims, *kd = k->shape.dims, *yd = y->shape.dims;
    // [n, h, w, c].
    TL_ASSERT(xd[0] == yd[0] && kd[2] * a->groups == xd[3] && kd[3] == yd[3]
              && kd[3] % a->groups == 0);
    TL_ASSERT(x->dtype == k->dtype && k->dtype == y->dtype);
    return (tli_conv){
        .type = x->dtype,
        .x = tli_data(x),
        .k = tli_data(k),
        .y = tli_data(y),
        .images = xd[0],
        .h = xd[1],
        .w = xd[2],
        .in = xd[3],
        .oh = yd[1],
        .ow = yd[2],
        .out = yd[3],
        .kh = kd[0],
        .kw = kd[1],
        .stride_y = a->stride_y,
        .stride_x = a->stride_x,
        .dilation_y = a->dilation_y,
        .dilation_x = a->dilation_x,
        .top = a->top,
        .left = a->left,
        .groups = a->groups,
        .group_in = kd[2],
        .group_out = kd[3] / a->groups,
    };
}

static tli_conv_fn *choose(const tli_conv *c, tli_conv_want what)
{
    static const tli_conv_method *const special[] = {&TLI_ISA_NAME(tli_conv_each),
                                                     &TLI_ISA_NAME(tli_conv_band), &tli_conv_cut,
                                                     &TLI_ISA_NAME(tli_conv_winograd)};
    for (int64_t i = 0; i < TL_COUNT(special); i++)
        if (special[i]->suits(c, what))
            return what == TLI_CONV_RESULT  ? special[i]->result
                   : what == TLI_CONV_IMAGE ? special[i]->image
                                            : special[i]->filter;
    return what == TLI_CONV_RESULT  ? tli_conv_gemm_result
           : what == TLI_CONV_IMAGE ? tli_conv_gemm_image
                                    : tli_conv_gemm_filter;
}

static tl_status run_conv(const tl_run *run, const tl_tensor *out, const tli_conv *c,
                          tli_conv_want what)
{
    if (tl_tensor_count(out) == 0) return TL_OK;
    if (c->images == 0 || c->in == 0 || c->out == 0) { // sums of nothing
        memset(tli_data(out), 0, (size_t)tl_tensor_count(out) * tl_dtype_size(c->type));
        return TL_OK;
    }
    return choose(c, what)(run->threads, THIS_ISA, c);
}

static tl_status convolve2d_kernel(const tl_run *run, const tl_node *n)
{
    const tli_conv c = conv_of(n, n->in[0], n->in[1], n->out[0]);
    return run_conv(run, n->out[0], &c, TLI_CONV_RESULT);
}

static tl_status convolve2d_input_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tli_conv c = conv_of(n, n->out[0], n->in[1], n->in[0]);
    return run_conv(run, n->out[0], &c, TLI_CONV_IMAGE);
}

static tl_status convolve2d_filter_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tli_conv c = conv_of(n, n->in[0], n->out[0], n->in[1]);
    return run_conv(run, n->out[0], &c, TLI_CONV_FILTER);
}

#define ROWS(dtype)                                                                                \
    TL_INIT(TL_OP_convolve2d, dtype, convolve2d_kernel, 0),                                        \
        TL_INIT(TL_OP_convolve2d_input_grad, dtype, convolve2d_input_grad_kernel, 0),              \
        TL_INIT(TL_OP_convolve2d_filter_grad, dtype, convolve2d_filter_grad_kernel, 0)
static const tl_kernel rows[] = {ROWS(TL_F32), ROWS(TL_BF16), ROWS(TL_F16)};
TLI_SIMD_KERNELS(conv, rows);
