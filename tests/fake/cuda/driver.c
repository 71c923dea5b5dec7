/* A driver of GPUs that is none, as libcuda.so.1: memory is the host's, copies happen at once,
 * kernels do nothing. So all that is about a GPU but what its kernels compute runs where none is,
 * and each of its failures can be had. FAKE_CUDA in the environment says which, as words with
 * commas:
 *
 *     stub, none, mismatch, broken    cuInit fails so
 *     hidden                          there is no GPU
 *     old                             the driver is for CUDA 12.2
 *     small                           the GPU has compute capability 7.5
 *     served, tacit                   by MPS, for several processes; or it does not say whether
 *     memory=BYTES                    of the GPU; 1 GB. What nobody writes takes none of the host's
 *     processors=N                    4
 *     lost=N                          the GPU is gone behind N kernels, copies and fills
 *
 * FAKE_CUDA_COUNTS names a file that tells, when the process has ended, what was put into streams,
 * and which kernels were captured instead: "graphs 7 kernels 12 captured 34".
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cuda/api.h"

#define EXPORT __attribute__((visibility("default")))
#define TLI_CUDA_FUNCTION(library, result, name, ...) EXPORT result name __VA_ARGS__;
#include "cuda/functions.def"
#undef TLI_CUDA_FUNCTION

enum { UNKNOWN = 999, INVALID = 1, LOST = CUDA_ERROR_LAUNCH_FAILED };

/* The number behind a word, 0 where it has none; -1: the word is not there. */
static long long asked(const char *word)
{
    const char *at = getenv("FAKE_CUDA");
    const size_t length = strlen(word);
    while (at && *at) {
        const size_t here = strcspn(at, ",=");
        if (here == length && strncmp(at, word, length) == 0)
            return at[here] == '=' ? strtoll(at + here + 1, NULL, 10) : 0;
        at += strcspn(at, ",");
        at += *at == ',';
    }
    return -1;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long long done, used;

static CUresult state(void)
{
    const long long least = asked("lost");
    return least >= 0 && __atomic_load_n(&done, __ATOMIC_RELAXED) > least ? LOST : CUDA_SUCCESS;
}

static CUresult work(void)
{
    __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
    return CUDA_SUCCESS; // as on a GPU it shows later
}

/* What is told at the end. Who captures is one thread: others may put in copies meanwhile. */
static _Thread_local bool capturing;
static struct {
    long long graphs, kernels, captured;
} counts;

static CUresult launch(void)
{
    __atomic_fetch_add(capturing ? &counts.captured : &counts.kernels, 1, __ATOMIC_RELAXED);
    return work();
}

__attribute__((destructor)) static void tell_counts(void)
{
    const char *path = getenv("FAKE_CUDA_COUNTS");
    FILE *to = path ? fopen(path, "w") : NULL;
    if (!to) return;
    fprintf(to, "graphs %lld kernels %lld captured %lld\n", counts.graphs, counts.kernels,
            counts.captured);
    fclose(to);
}

/* --- the driver ------------------------------------------------------------------------------- */

CUresult cuInit(unsigned flags)
{
    (void)flags;
    if (asked("stub") >= 0) return CUDA_ERROR_STUB_LIBRARY;
    if (asked("none") >= 0) return CUDA_ERROR_NO_DEVICE;
    if (asked("mismatch") >= 0) return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    return asked("broken") >= 0 ? UNKNOWN : CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = asked("old") >= 0 ? 12020 : 13000;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text)
{
    *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == LOST                   ? "CUDA_ERROR_LAUNCH_FAILED"
                                              : "CUDA_ERROR_UNKNOWN";
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory"
            : error == LOST                   ? "unspecified launch failure"
                                              : "unknown error";
    return CUDA_SUCCESS;
}

/* --- the GPU ---------------------------------------------------------------------------------- */

static size_t memory(void)
{
    const long long bytes = asked("memory");
    return bytes > 0 ? (size_t)bytes : (size_t)1 << 30;
}

CUresult cuDeviceGetCount(int *count)
{
    *count = asked("hidden") < 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = 0;
    return ordinal == 0 ? CUDA_SUCCESS : INVALID;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    (void)device;
    snprintf(name, (size_t)length, "Fake GPU");
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute what, CUdevice device)
{
    const bool small = asked("small") >= 0;
    const long long processors = asked("processors");
    (void)device;
    if (what == CU_DEVICE_ATTRIBUTE_MPS_ENABLED && asked("tacit") >= 0) return INVALID;
    *value = what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR                 ? small ? 7 : 9
             : what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR               ? small ? 5 : 0
             : what == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE                          ? 1 << 20
             : what == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT && processors > 0 ? (int)processors
             : what == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN && processors > 0
                 ? 227 << 10
             : what == CU_DEVICE_ATTRIBUTE_MPS_ENABLED ? asked("served") >= 0
                                                       : 4;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = memory();
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    (void)device;
    *context = (CUcontext)&lock;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    (void)context;
    return CUDA_SUCCESS;
}

/* --- memory ----------------------------------------------------------------------------------- */

enum { AHEAD = 256 }; /* bytes before an address, which begin with the size */

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    *total = memory();
    pthread_mutex_lock(&lock);
    *free = *total - (size_t)used;
    pthread_mutex_unlock(&lock);
    return state();
}

static CUresult allocate(void **out, size_t bytes)
{
    const size_t room = (bytes + AHEAD - 1) / AHEAD * AHEAD + AHEAD;
    char *at = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(at, &bytes, sizeof bytes);
    *out = at + AHEAD;
    return CUDA_SUCCESS;
}

/* Gives the size of what was there. */
static size_t release(void *address)
{
    size_t bytes;
    char *at = (char *)address - AHEAD;
    memcpy(&bytes, at, sizeof bytes);
    munmap(at, (bytes + AHEAD - 1) / AHEAD * AHEAD + AHEAD);
    return bytes;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    void *at;
    if (state() != CUDA_SUCCESS) return state();
    pthread_mutex_lock(&lock);
    const bool fits = bytes <= memory() - (size_t)used;
    if (fits) used += (long long)bytes;
    pthread_mutex_unlock(&lock);
    const CUresult result = fits ? allocate(&at, bytes) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) *address = (CUdeviceptr)(uintptr_t)at;
    return result;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    const size_t bytes = release((void *)(uintptr_t)address);
    pthread_mutex_lock(&lock);
    used -= (long long)bytes;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
    (void)flags;
    return state() == CUDA_SUCCESS ? allocate(address, bytes) : state();
}

CUresult cuMemFreeHost(void *address)
{
    (void)release(address);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    memcpy((void *)(uintptr_t)to, from, bytes);
    return work();
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    (void)stream;
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return work();
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    (void)stream;
    memset((void *)(uintptr_t)to, value, count);
    return work();
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
{
    unsigned short *at = (unsigned short *)(uintptr_t)to;
    (void)stream;
    for (size_t i = 0; i < count; i++) at[i] = value;
    return work();
}

/* --- streams, events, lists ------------------------------------------------------------------- */

/* Handles that nothing is behind. */
static void *handle(void)
{
    static char somewhere;
    return &somewhere;
}
#define MAKES(name, type, ...)                                                                     \
    CUresult name(type *out, __VA_ARGS__)                                                          \
    {                                                                                              \
        (void)a;                                                                                   \
        *out = handle();                                                                           \
        return CUDA_SUCCESS;                                                                       \
    }
#define TAKES(name, type, result)                                                                  \
    CUresult name(type a)                                                                          \
    {                                                                                              \
        (void)a;                                                                                   \
        return result;                                                                             \
    }
CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    static char streams[256];
    static unsigned made;
    (void)flags;
    *stream = (CUstream)&streams[__atomic_fetch_add(&made, 1, __ATOMIC_RELAXED) % sizeof streams];
    return CUDA_SUCCESS;
}
TAKES(cuStreamDestroy_v2, CUstream, CUDA_SUCCESS)
TAKES(cuStreamSynchronize, CUstream, state())
MAKES(cuEventCreate, CUevent, unsigned a)
TAKES(cuEventDestroy_v2, CUevent, CUDA_SUCCESS)
TAKES(cuEventQuery, CUevent, state())
TAKES(cuEventSynchronize, CUevent, state())
TAKES(cuGraphExecDestroy, CUgraphExec, CUDA_SUCCESS)
TAKES(cuGraphDestroy, CUgraph, CUDA_SUCCESS)
TAKES(cuModuleUnload, CUmodule, CUDA_SUCCESS)

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)stream, (void)event, (void)flags;
    return state();
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    (void)stream, (void)mode;
    capturing = true;
    return state();
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    (void)stream;
    *graph = handle();
    capturing = false;
    return state();
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    (void)event, (void)stream;
    return state();
}

CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    (void)from, (void)to;
    *ms = 1;
    return state();
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    (void)graph, (void)flags;
    *out = handle();
    return state();
}

CUresult cuGraphUpload(CUgraphExec graph, CUstream stream)
{
    (void)graph, (void)stream;
    return state();
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream)
{
    (void)graph, (void)stream;
    __atomic_fetch_add(&counts.graphs, 1, __ATOMIC_RELAXED);
    return work();
}

/* --- kernels ---------------------------------------------------------------------------------- */

CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
    (void)image;
    *out = handle();
    return state();
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    (void)module, (void)name;
    *out = handle();
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute what, int value)
{
    (void)function, (void)what, (void)value;
    return CUDA_SUCCESS;
}

/* Kernels whose blocks run all at once, as the driver promises, and those that begin before others
 * have ended, without the promise. */
EXPORT long long fake_promised, fake_early;

CUresult cuLaunchKernelEx(const CUlaunchConfig *how, CUfunction kernel, void **parameters,
                          void **extra)
{
    (void)kernel, (void)parameters, (void)extra;
    bool promised = false;
    for (unsigned i = 0; i < how->numAttrs; i++)
        promised |= how->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    __atomic_fetch_add(promised ? &fake_promised : &fake_early, 1, __ATOMIC_RELAXED);
    return launch();
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void **arguments, void **extra)
{
    (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y;
    (void)block_z, (void)shared_bytes, (void)stream, (void)arguments, (void)extra;
    return launch();
}
