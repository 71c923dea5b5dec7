#include "cuda/device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>

#include "cuda/lanes.h"

enum { OLDEST_MAJOR = 8, ALIGNMENT = 256, BLOCK = 2 << 20, APART = 4 << 20 };

tl_status tli_cuda_enter(const tli_cuda *d)
{
    TLI_CUDA_TRY(d->api, cuCtxSetCurrent, d->context);
    return TL_OK;
}

/* --- what there is ---------------------------------------------------------------------------- */

tl_status tl_gpu_count(int64_t *out)
{
    const tli_cuda_api *api;
    int count;
    *out = 0;
    TL_TRY(tli_cuda_driver(&api));
    TLI_CUDA_TRY(api, cuDeviceGetCount, &count);
    *out = count;
    return TL_OK;
}

static tl_status attribute(const tli_cuda_api *api, CUdevice device, int what, int *out)
{
    TLI_CUDA_TRY(api, cuDeviceGetAttribute, out, what, device);
    return TL_OK;
}

tl_status tl_gpu_at(tl_gpu *out, int64_t number)
{
    const tli_cuda_api *api;
    CUdevice device;
    size_t bytes;
    *out = (tl_gpu){0};
    TL_TRY(tli_cuda_driver(&api));
    TLI_CUDA_TRY(api, cuDeviceGet, &device, (int)number);
    TLI_CUDA_TRY(api, cuDeviceGetName, out->name, (int)sizeof out->name, device);
    TLI_CUDA_TRY(api, cuDeviceTotalMem_v2, &bytes, device);
    out->memory = (int64_t)bytes;
    TL_TRY(attribute(api, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &out->processors));
    TL_TRY(attribute(api, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &out->major));
    out->old = out->major < OLDEST_MAJOR;
    return attribute(api, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &out->minor);
}

static int64_t count_gpus(void)
{
    int64_t count;
    if (tl_gpu_count(&count) != TL_OK) tl_error_clear();
    return count;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* The context stays for who opens the GPU next: making one takes a good part of a second, and
 * programs make engines one after the other. The driver ends it with the process. */
static void close_gpu(tl_device **device)
{
    tli_cuda *d = tli_cuda_of(*device);
    if (!d) return;
    tli_thread_stay(&d->handles.leaving);
    tli_cuda_handles_join(d);
    if (d->context && tli_cuda_enter(d) == TL_OK) {
        tli_dnn_plans_deinit(d);
        tli_cuda_products_deinit(d);
        tli_cuda_work_deinit(d);
        tli_cuda_singles_deinit(d);
        for (int64_t i = 0; i < d->modules.count; i++)
            (void)d->api->cuModuleUnload(d->modules.items[i]);
    }
    TL_VEC_FREE(&d->modules);
    tl_map_deinit(&d->kernels);
    tli_choices_deinit(&d->choices);
    tli_cuda_codes_close(&d->codes);
    pthread_mutex_destroy(&d->handles.lock);
    pthread_mutex_destroy(&d->calls);
    pthread_mutex_destroy(&d->lock);
    tl_free(d);
    *device = NULL;
}

static tl_status open_context(tli_cuda *d, int64_t number)
{
    tl_gpu about;
    int cache, served;
    TL_TRY(tli_cuda_driver(&d->api));
    TL_TRY(tl_gpu_at(&about, number));
    if (about.old)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "%s has compute capability %d.%d, and %d.0 is needed: GPUs since 2020",
                       about.name, about.major, about.minor, OLDEST_MAJOR);
    TLI_CUDA_TRY(d->api, cuDeviceGet, &d->device, (int)number);
    TL_TRY(attribute(d->api, d->device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &cache));
    TL_TRY(attribute(d->api, d->device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                     &d->room));
    memcpy(d->model, about.name, sizeof d->model);
    d->major = about.major;
    d->minor = about.minor;
    d->processors = about.processors;
    d->cache = cache;
    // where it cannot be known, it may be
    d->served = d->api->cuDeviceGetAttribute(&served, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, d->device)
                    != CUDA_SUCCESS
                || served;
    TL_TRY(tli_cuda_codes_open(&d->codes, d->major, d->minor));
    d->choices.codes = d->codes;
    TLI_CUDA_TRY(d->api, cuDevicePrimaryCtxRetain, &d->context, d->device);
    return tli_cuda_enter(d);
}

static tl_status open_gpu(tl_device **out, const char *which)
{
    // the engine has compared it with the count of devices
    const int64_t number = which ? strtoll(which, NULL, 10) : 0;
    tli_cuda *d = tl_alloc_zero(sizeof *d);
    *out = d ? &d->base : NULL;
    if (!d) return TL_FAIL_NOMEM(sizeof *d);
    d->base.cls = &tl_device_cuda;
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->calls, NULL);
    pthread_mutex_init(&d->handles.lock, NULL);
    tli_choices_init(&d->choices, d->model, NULL);
    snprintf(d->base.name, sizeof d->base.name, "cuda:%" PRId64, number);
    tl_status st = open_context(d, number);
    if (st != TL_OK) close_gpu(out);
    return st;
}

tl_status tli_cuda_load(tli_cuda *d, CUfunction *out, const char *text, const char *name)
{
    char *code;
    size_t bytes;
    CUmodule module;
    TL_TRY(tli_cuda_code(&code, &bytes, d->codes, text));
    tl_status st = tli_cuda_check(d->api->cuModuleLoadData(&module, code), "cuModuleLoadData");
    tl_free(code);
    TL_TRY(st);
    if (!TL_VEC_PUSH(&d->modules, module)) {
        (void)d->api->cuModuleUnload(module);
        return TL_ENOMEM;
    }
    TLI_CUDA_TRY(d->api, cuModuleGetFunction, out, module, name);
    return TL_OK;
}

/* --- memory ----------------------------------------------------------------------------------- */

static void *allocate(tl_device *device, size_t bytes)
{
    const tli_cuda *d = tli_cuda_of(device);
    CUdeviceptr at = 0;
    void *address = NULL;
    if (d->api->cuCtxSetCurrent(d->context) != CUDA_SUCCESS) return NULL;
    if (d->api->cuMemAlloc_v2(&at, bytes ? bytes : 1) != CUDA_SUCCESS) return NULL;
    memcpy(&address, &at, sizeof address);
    return address;
}

static CUdeviceptr address_of(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

// The driver waits for work that uses it.
static void free_memory(tl_device *device, void *memory, size_t bytes)
{
    const tli_cuda *d = tli_cuda_of(device);
    (void)bytes;
    if (d->api->cuCtxSetCurrent(d->context) == CUDA_SUCCESS)
        (void)d->api->cuMemFree_v2(address_of(memory));
}

static void *allocate_host(tl_device *device, size_t bytes)
{
    const tli_cuda *d = tli_cuda_of(device);
    void *at = NULL;
    if (d->api->cuCtxSetCurrent(d->context) != CUDA_SUCCESS) return NULL;
    if (d->api->cuMemHostAlloc(&at, bytes ? bytes : 1, CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS)
        return NULL;
    return at;
}

static void free_host(tl_device *device, void *memory, size_t bytes)
{
    const tli_cuda *d = tli_cuda_of(device);
    (void)bytes;
    if (d->api->cuCtxSetCurrent(d->context) == CUDA_SUCCESS) (void)d->api->cuMemFreeHost(memory);
}

static tl_status tell_memory(tl_device *device, tl_device_memory *out)
{
    const tli_cuda *d = tli_cuda_of(device);
    size_t free_bytes, total;
    *out = (tl_device_memory){0};
    TL_TRY(tli_cuda_enter(d));
    TLI_CUDA_TRY(d->api, cuMemGetInfo_v2, &free_bytes, &total);
    *out = (tl_device_memory){.free = (int64_t)free_bytes, .total = (int64_t)total};
    return TL_OK;
}

/* --- choices ---------------------------------------------------------------------------------- */

static tl_status tell_choices(tl_device *device, tl_str *out)
{
    tli_choices *c = &tli_cuda_of(device)->choices;
    pthread_mutex_lock(&c->lock);
    const bool some = tl_map_count(&c->table) > 0;
    pthread_mutex_unlock(&c->lock);
    return some ? tli_choices_export(c, out) : TL_OK;
}

static tl_status take_choices(tl_device *device, const char *text)
{
    tli_cuda *d = tli_cuda_of(device);
    const tl_status st = tli_choices_import(&d->choices, text);
    tli_cuda_products_forget(d);
    return st;
}

const tl_device_class tl_device_cuda = {
    .cls = {.class_size = sizeof(tl_device_class), .name = "cuda", .help = "a GPU of NVIDIA's"},
    .alignment = ALIGNMENT,
    .block = BLOCK,
    .apart = APART,
    .beside = tli_cuda_runs_beside,
    .foresee = tli_cuda_foresee,
    .open = open_gpu,
    .close = close_gpu,
    .alloc = allocate,
    .free = free_memory,
    .alloc_host = allocate_host,
    .free_host = free_host,
    .memory = tell_memory,
    .queue_new = tli_cuda_queue_new,
    .queue_free = tli_cuda_queue_free,
    .copy = tli_cuda_copy,
    .fill = tli_cuda_fill,
    .issue = tli_cuda_issue,
    .after = tli_cuda_after,
    .done = tli_cuda_done,
    .wait = tli_cuda_wait,
    .clear = tli_cuda_clear,
    .event_new = tli_cuda_event_new,
    .event_free = tli_cuda_event_free,
    .record = tli_cuda_record,
    .elapsed = tli_cuda_elapsed,
    .program_build = tli_cuda_list_build,
    .program_run = tli_cuda_list_run,
    .program_free = tli_cuda_list_free,
    .set_draws = tli_cuda_set_draws,
    .choices = tell_choices,
    .choose = take_choices,
    .count = count_gpus,
};
