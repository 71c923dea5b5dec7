#include "cpu/ref/ref.h"

#include <tilth/core/ctx.h>

static tl_status dropout_kernel(const tl_run *run, const tl_node *n)
{
    const tl_dropout_attr *a = n->attr;
    const tl_tensor *x = n->in[0], *y = n->out[0];
    int64_t count = tl_tensor_count(x), each = 1; // elements that share a draw
    tl_rng stream;
    tl_draw_stream(&stream, &run->draws, a->key);
    for (int i = 1; i < x->shape.rank && a->per_example; i++) each *= x->shape.dims[i];
    TL_ASSERT(each == 0 || count % each == 0);
    for (int64_t i = 0; i < count; i++) {
        float u;
        tl_rng_fill_uniform_f32(&stream, i / each, &u, 1);
        bool kept = u >= a->rate;
        tli_ref_set(y, i,
                    kept ? tli_ref_get(x, tli_ref_offset(x, &y->shape, i)) / (1 - a->rate) : 0);
    }
    return TL_OK;
}

static const tl_kernel table[] = {
    {TL_OP_dropout, TL_DTYPE_COUNT, dropout_kernel, TL_KERNEL_STRIDED}};
const tl_kernels tli_ref_dropout = {table, TL_COUNT(table)};
