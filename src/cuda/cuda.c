/* The backend of GPUs. */
#include <tilth/base/log.h>
#include <tilth/sys/cpu/cpu.h>

#include "base/inner/thread.h"
#include "cuda/attend.h"
#include "cuda/convs.h"
#include "cuda/kernels.h"
#include "cuda/lanes.h"
#include "cuda/limits.h"
#include "cuda/nests.h"
#include "cuda/pools.h"
#include "cuda/products.h"
#include "cuda/whole.h"

static tl_status supported(void)
{
    const tli_cuda_api *api;
    TL_TRY(tli_cuda_driver(&api));
    return tli_cuda_compiler(&api);
}

static const tl_kernels *const moves[] = {&tli_cuda_move_kernels,
                                          &tli_cuda_pool_kernels,
                                          &tli_cuda_row_kernels,
                                          &tli_cuda_norm_kernels,
                                          &tli_cuda_draw_kernels,
                                          &tli_cuda_channel_kernels,
                                          &tli_cuda_index_kernels,
                                          &tli_cuda_make_kernels,
                                          &tli_cuda_update_kernels,
                                          &tli_cuda_box_kernels,
                                          NULL};
static const tl_kernels *const tables[] = {&tli_cuda_product_kernels, NULL};

static const tl_kernels *const networks[] = {&tli_cuda_conv_kernels, &tli_cuda_attend_kernels,
                                             NULL};

static bool takes(const tl_engine *engine, const tl_node *call)
{
    const bool attends = call->op->op == TL_OP_attend || call->op->op == TL_OP_attend_grad;
    return attends ? tli_cuda_attend_takes(engine, call) : tli_cuda_conv_takes(engine, call);
}

static tl_status put_in_lane(const tl_run *run, const tl_node *call, tl_kernel_fn *kernel)
{
    tli_cuda_queue *q = tli_cuda_queue_of(run->queue);
    TL_TRY(tli_cuda_lanes_call(q, call, NULL, 0));
    TL_TRY(kernel(run, call));
    return tli_cuda_lanes_called(q);
}

/* What a call puts into the queue stays together: several threads may compute with one engine. */
static tl_status put_together(const tl_run *run, const tl_node *call, tl_kernel_fn *kernel)
{
    if (run->queue->device->cls != &tl_device_cuda) return kernel(run, call); // staged
    tli_cuda *d = tli_cuda_of(run->queue->device);
    pthread_mutex_lock(&d->calls);
    if (tli_cuda_listed(run->queue)) tli_whole_call(tli_cuda_listed(run->queue), call);
    const tl_status st =
        tli_cuda_queue_of(run->queue)->lanes ? put_in_lane(run, call, kernel) : kernel(run, call);
    pthread_mutex_unlock(&d->calls);
    return st;
}

/* Below all others: calls that nests compute, as far as nests can. */
static const tl_kernels *const singles[] = {&tli_cuda_nest_kernels, &tli_cuda_sort_kernels, NULL};
static const tl_backend_class single = {
    .cls = {.class_size = sizeof(tl_backend_class), .name = "cuda"},
    .fallback = &tl_backend_cpu,
    .tables = singles,
    .takes = tli_cuda_nest_takes,
    .device = &tl_device_cuda,
    .supported = supported,
    .nests = &tli_cuda_nests,
};

/* They differ in what there is beside the compiler: cuBLASLt may lack, or cuDNN. */
static const tl_backend_class plain = {
    .cls = {.class_size = sizeof(tl_backend_class), .name = "cuda"},
    .fallback = &single,
    .tables = moves,
    .device = &tl_device_cuda,
    .supported = supported,
    .around = put_together,
    .nests = &tli_cuda_nests,
    .limits = tli_cuda_limits,
};
static const tl_backend_class multiplying = {
    .cls = {.class_size = sizeof(tl_backend_class), .name = "cuda"},
    .fallback = &plain,
    .tables = tables,
    .takes = tli_cuda_product_takes,
    .device = &tl_device_cuda,
    .supported = supported,
    .around = put_together,
    .nests = &tli_cuda_nests,
};
static const tl_backend_class whole = {
    .cls = {.class_size = sizeof(tl_backend_class), .name = "cuda"},
    .fallback = &multiplying,
    .tables = networks,
    .takes = takes,
    .device = &tl_device_cuda,
    .supported = supported,
    .around = put_together,
    .nests = &tli_cuda_nests,
};

static void *start_driver(void *unused)
{
    const tli_cuda_api *api;
    if (tli_cuda_driver(&api) != TL_OK) tl_error_clear(); // who needs it is told
    return unused;
}

static tl_status choose_by_libraries(const tl_backend_class **out)
{
    const tli_cuda_api *api;
    *out = &whole;
    if (tli_cuda_compiler(&api) != TL_OK) { // it will be refused: nothing is slow
        tl_error_clear();
        return TL_OK;
    }
    if (tli_cuda_dnn(&api) == TL_OK) return TL_OK;
    *out = tli_cuda_products(&api) == TL_OK ? &multiplying : &plain;
    if (*out == &multiplying) (void)!tli_cuda_dnn(&api); // what lacks, again
    TL_LOG_ONCE(TL_LEVEL_WARNING, "on this GPU much is slow: %s", tl_error_message());
    tl_error_clear();
    return TL_OK;
}

/* The driver takes as long to start as the libraries to open. */
static tl_status choose(const tl_backend_class **out)
{
    sigset_t mask, before;
    pthread_t thread;
    tli_thread_mask(&mask);
    pthread_sigmask(SIG_SETMASK, &mask, &before);
    const bool beside = pthread_create(&thread, NULL, start_driver, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    const tl_status st = choose_by_libraries(out);
    if (beside) pthread_join(thread, NULL);
    return st;
}

const tl_backend_class tl_backend_cuda = {
    .cls = {.class_size = sizeof(tl_backend_class),
            .name = "cuda",
            .help = "kernels for a GPU of NVIDIA's"},
    .fallback = &plain,
    .device = &tl_device_cuda,
    .choose = choose,
};

static const tl_entry entries[] = {{&tl_kind_device, &tl_device_cuda.cls},
                                   {&tl_kind_backend, &tl_backend_cuda.cls}};
const tl_module tl_cuda_module = {TL_MODULE_HEAD("cuda"), entries, TL_COUNT(entries)};
