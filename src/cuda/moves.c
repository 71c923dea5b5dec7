/* What moves elements and computes nothing: copies of views, packing. */
#include <string.h>

#include <tilth/core/attrs.h>

#include "core/inner/storage.h"
#include "cuda/device.h"
#include "cuda/kernels.h"

/* --- copies of views -------------------------------------------------------------------------- */

tl_status tli_cuda_gather_at(const tl_run *run, size_t size, int rank, const int64_t *dims,
                             const int64_t *strides, const void *from, void *to)
{
    tl_shape box = {.rank = rank};
    int64_t packed[TL_MAX_RANK], stride = 1;
    for (int i = rank - 1; i >= 0; stride *= dims[i--]) packed[i] = stride;
    memcpy(box.dims, dims, (size_t)rank * sizeof *dims);
    return tli_cuda_move_box(run, &box, size, from, strides, to, packed);
}

tl_status tli_cuda_gather(const tl_run *run, const tl_tensor *from, void *to)
{
    if (from->contiguous)
        return run->queue->device->cls->copy(run->queue, to, tli_data(from), tl_tensor_bytes(from));
    return tli_cuda_gather_at(run, tl_dtype_size(from->dtype), from->shape.rank, from->shape.dims,
                              from->strides, tli_data(from), to);
}

static tl_status copy(const tl_run *run, const tl_node *call)
{
    return tli_cuda_gather(run, call->in[0], tli_data(call->out[0]));
}

/* --- packing ---------------------------------------------------------------------------------- */

static tl_status pack(const tl_run *run, const tl_node *call)
{
    const tl_pack_attr *a = call->attr;
    const tl_device_class *device = run->queue->device->cls;
    const size_t size = tl_dtype_size(call->out[0]->dtype);
    char *to = tli_data(call->out[0]);
    int64_t at = 0;
    for (int i = 0; i <= call->inputs; i++) { // the last one is the gap behind all
        const int64_t begin = i < call->inputs ? a->offsets.items[i] : a->count;
        if (begin > at)
            TL_TRY(
                device->fill(run->queue, to + (size_t)at * size, 0, (size_t)(begin - at) * size));
        if (i == call->inputs) break;
        char *place = to + (size_t)begin * size;
        // else it was computed there
        if (tli_data(call->in[i]) != place) TL_TRY(tli_cuda_gather(run, call->in[i], place));
        at = begin + (int64_t)(tl_tensor_bytes(call->in[i]) / size);
    }
    return TL_OK;
}

static const tl_kernel rows[] = {
    {TL_OP_copy, TL_DTYPE_COUNT, copy, TL_KERNEL_STRIDED},
    {TL_OP_pack, TL_DTYPE_COUNT, pack, TL_KERNEL_STRIDED},
};
const tl_kernels tli_cuda_move_kernels = {rows, TL_COUNT(rows)};
