#include <string.h>

#include "core/inner/tensor.h"
#include "cpu/ref/ref.h"

static tl_status pack_kernel(const tl_run *run, const tl_node *n)
{
    const tl_pack_attr *a = n->attr;
    size_t size = tl_dtype_size(n->out[0]->dtype);
    char *to = tli_data(n->out[0]);
    int64_t at = 0;
    (void)run;
    for (int i = 0; i < n->inputs; i++) {
        const int64_t begin = a->offsets.items[i],
                      end = begin + (int64_t)(tl_tensor_bytes(n->in[i]) / size);
        TL_ASSERT(begin >= at && end <= a->count); // in order, apart
        memset(to + (size_t)at * size, 0, (size_t)(begin - at) * size);
        char *place = to + (size_t)begin * size;
        // else it was computed there
        if (tli_data(n->in[i]) != place) tli_tensor_gather(n->in[i], place);
        at = end;
    }
    memset(to + (size_t)at * size, 0, (size_t)(a->count - at) * size);
    return TL_OK;
}

static const tl_kernel rows[] = {{TL_OP_pack, TL_DTYPE_COUNT, pack_kernel, TL_KERNEL_STRIDED}};
const tl_kernels tli_ref_pack = {rows, TL_COUNT(rows)};
