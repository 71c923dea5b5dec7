#include "cpu/ref/ref.h"

static tl_status full_kernel(const tl_run *run, const tl_node *n)
{
    const tl_full_attr *a = n->attr;
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(n->out[0]); i < count; i++)
        tli_ref_set(n->out[0], i, a->value);
    return TL_OK;
}

static const tl_kernel rows[] = {{TL_OP_full, TL_DTYPE_COUNT, full_kernel, TL_KERNEL_STRIDED}};
const tl_kernels tli_ref_create = {rows, TL_COUNT(rows)};
