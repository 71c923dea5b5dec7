/* What moves elements and computes nothing: copies of views, packing, assignments. */
#include <stdio.h>
#include <string.h>

#include <tilth/core/attrs.h>

#include "core/inner/storage.h"
#include "cuda/device.h"
#include "cuda/kernels.h"
#include "nest/inner/words.h"

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
        at = begin + tl_tensor_count(call->in[i]);
    }
    return TL_OK;
}

/* --- assignments ------------------------------------------------------------------------------ */

/* Sums of each type as nests have them: of what is there, or zero, and what is added. */
static const char *sum_of(tl_dtype dtype)
{
    switch (dtype) {
    case TL_BF16: return "bf16_bits_of_f(from_bf16(z) + from_bf16(m))";
    case TL_F16: return "f16_bits_of_f(from_f16(z) + from_f16(m))";
    case TL_I64: return "(i64)((u64)z + (u64)m)";
    case TL_I32: return "(i32)((u32)z + (u32)m)";
    case TL_BOOL: return "(u8)(z | m)";
    default: return "z + m";
    }
}

/* What is added is rounded behind its factor, as the op that multiplies does it. */
static const char *scaled(tl_dtype dtype)
{
    switch (dtype) {
    case TL_F32: return "y[i] * (float)by";
    case TL_BF16: return "bf16_bits_of_f(from_bf16(y[i]) * (float)by)";
    case TL_F16: return "f16_bits_of_f(from_f16(y[i]) * (float)by)";
    default: return "y[i] * by";
    }
}

static tl_status assign(const tl_run *run, const tl_node *call)
{
    const tl_assign_attr *a = call->attr;
    const tl_tensor *to = call->in[0], *from = call->in[1];
    void *x = tli_data(to), *y = tli_data(from);
    int64_t count = tl_tensor_count(to);
    char key[32], body[700];
    CUfunction kernel;
    if (!count) return TL_OK;
    if (!a->add) return run->queue->device->cls->copy(run->queue, x, y, tl_tensor_bytes(to));
    void *fresh = call->inputs > 2 ? tli_data(call->in[2]) : NULL;
    double by = a->scale;
    void *parameters[] = {&x, &y, &fresh, &count, &by};
    const char *type = tli_print_memory_type(to->dtype);
    snprintf(key, sizeof key, "add %d %d", (int)to->dtype, by != 0);
    snprintf(body, sizeof body,
             "extern \"C\" __global__ void kernel(%s *x, const %s *y, const u8 *fresh, i64 n,\n"
             "                                  double by)\n{\n"
             "    const bool begins = fresh && *fresh;\n"
             "    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n;\n"
             "         i += (i64)gridDim.x * blockDim.x) {\n"
             "        const %s z = begins ? (%s)0 : x[i], m = %s;\n"
             "        x[i] = %s;\n"
             "    }\n}\n",
             type, type, type, type, by != 0 ? scaled(to->dtype) : "y[i]", sum_of(to->dtype));
    TL_TRY(tli_cuda_kernel(run, &kernel, key, body));
    return tli_cuda_start(run, kernel, count, parameters);
}

static const tl_kernel rows[] = {
    {TL_OP_copy, TL_DTYPE_COUNT, copy, TL_KERNEL_STRIDED},
    {TL_OP_pack, TL_DTYPE_COUNT, pack, TL_KERNEL_STRIDED},
    {TL_OP_assign, TL_DTYPE_COUNT, assign, 0},
};
const tl_kernels tli_cuda_move_kernels = {rows, TL_COUNT(rows)};
