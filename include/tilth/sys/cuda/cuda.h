/* NVIDIA's GPUs: a device and a backend for it.
 *
 *     tl_engine *e;
 *     TL_TRY(tl_engine_open(&e, registry, "cuda:0", 0));    // what lacks is told by the failure
 *
 * NVIDIA's libraries are looked for when a GPU is first asked for: in the folders of
 * TILTH_CUDA_PATH, where the loader looks, in CUDA_HOME and /usr/local/cuda. What the backend has
 * no kernels for is computed by the CPU's, between copies.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_CUDA_CUDA_H
#define TILTH_CUDA_CUDA_H

#include <tilth/desc/registry.h>
#include <tilth/sys/core/backend.h>

TL_BEGIN

TL_API extern const tl_device_class tl_device_cuda;
TL_API extern const tl_backend_class tl_backend_cuda;
/* Both, for a registry. */
TL_API extern const tl_module tl_cuda_module;

/* What a person wants to know about a GPU. */
typedef struct tl_gpu {
    char name[96];    /* "NVIDIA H200" */
    int major, minor; /* compute capability */
    int processors;
    int64_t memory; /* bytes */
    bool old;       /* too old to be computed on */
} tl_gpu;
/* How many GPUs can be used here. TL_EUNSUPPORTED, with what lacks: none. */
TL_API TL_NODISCARD tl_status tl_gpu_count(int64_t *out);
TL_API TL_NODISCARD tl_status tl_gpu_at(tl_gpu *out, int64_t number);

/* Whether the system shows a GPU of NVIDIA's, which CUDA_VISIBLE_DEVICES does not hide. Asks no
 * library, so it costs nothing; whether the GPU can be used tl_gpu_count says. */
TL_API bool tl_gpu_seen(void);

/* A library of NVIDIA's that is used here, whether or not it was found. */
typedef struct tl_gpu_library {
    const char *name;    /* "driver", "nvrtc" */
    const char *version; /* NULL: it was not found, and `why` says where it was sought */
    const char *file;
    const char *why;
} tl_gpu_library;
/* Looks for them. Texts live as long as the process. */
TL_API const tl_gpu_library *tl_gpu_libraries(int64_t *count);

TL_END

#endif
