#include "core/tensor.h"
#include "cpu/ref/ref.h"

static tl_status copy_kernel(const tl_run *run, const tl_node *n)
{
    (void)run;
    tli_tensor_gather(n->in[0], tl_kernel_data(n->out[0]));
    return TL_OK;
}

static const tl_kernel rows[] = {{TL_OP_copy, TL_DTYPE_COUNT, copy_kernel, TL_KERNEL_STRIDED}};
const tl_kernels tli_ref_view = {rows, TL_COUNT(rows)};
