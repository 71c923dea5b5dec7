/* The backend of GPUs. */
#include <tilth/sys/cpu/cpu.h>

#include "cuda/device.h"
#include "cuda/nests.h"

static tl_status supported(void)
{
    int64_t count;
    return tl_gpu_count(&count);
}

const tl_backend_class tl_backend_cuda = {
    .cls = {.class_size = sizeof(tl_backend_class),
            .name = "cuda",
            .help = "kernels for a GPU of NVIDIA's"},
    .fallback = &tl_backend_cpu,
    .device = &tl_device_cuda,
    .supported = supported,
    .nests = &tli_cuda_nests,
};

static const tl_entry entries[] = {{&tl_kind_device, &tl_device_cuda.cls},
                                   {&tl_kind_backend, &tl_backend_cuda.cls}};
const tl_module tl_cuda_module = {TL_MODULE_HEAD("cuda"), entries, TL_COUNT(entries)};
