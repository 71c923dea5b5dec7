/* What an engine is made of. Thread word: free-threaded. */
#ifndef TLI_CORE_ENGINE_H
#define TLI_CORE_ENGINE_H

#include <tilth/sys/core/backend.h>

#include "core/inner/losses.h"
#include "core/inner/storage.h"

typedef struct tli_cell {
    tl_kernel_fn *fn;
    unsigned flags;
    /* Whether it takes a call, or NULL; else `other` does, which takes all. */
    bool (*takes)(const tl_engine *engine, const tl_node *call);
    tl_kernel_fn *other;
    unsigned other_flags;
} tli_cell;

struct tl_engine {
    const tl_backend_class *backend;
    tl_device *device;
    tl_queue *queue;    /* what ops are put into, in the order of their calls */
    tl_queue *in, *out; /* copies from the host and to it; on the host they are the same one */
    bool waits;         /* after each call, so that it is the call that fails */
    tli_losses *losses; /* work of the queue that was left undone; NULL on the host */
    bool beside;        /* device, queues and losses are another engine's */
    tl_pool *threads;
    tli_memory memory;  /* of the device */
    tli_memory staging; /* of the host, where the device's is another one */
    tli_cell cells[TL_OP_COUNT][TL_DTYPE_COUNT]; /* fallbacks filled in */
};

/* Memory of the host that the device reaches: the device's own where the host may look at it. */
static inline tli_memory *tli_engine_staging(tl_engine *e)
{
    return e->device->cls->host ? &e->memory : &e->staging;
}

static inline tli_memory *tli_engine_memory(tl_engine *e, tl_side side)
{
    return side == TL_AT_HOST ? tli_engine_staging(e) : &e->memory;
}

/* Whether the call changes its input `i` in place. */
static inline bool tli_call_writes(const tl_node *call, int i)
{
    return i < 32 && (call->op->writes >> i & 1);
}

/* Whether the tensor, which has storage, lies where kernels of the engine's device find it. */
bool tli_is_here(const tl_engine *e, const tl_tensor *t);
/* The failure for one that does not; what it is in words comes first: "input 2". */
TL_NODISCARD TL_PRINTF(3, 4) tl_status
    tli_fail_elsewhere(const tl_engine *e, const tl_tensor *t, const char *what, ...);
/* Every tensor of the call lies on the engine's device, and what it reads is there or will be. */
TL_NODISCARD tl_status tli_check_device(const tl_engine *e, const tl_node *call);
/* The call was put into the engine's queue just now. Waits for it where that is wanted. */
TL_NODISCARD tl_status tli_call_queued(const tl_run *run, const tl_node *call);
/* Runs a call of a kernel that the engine gave, around hook included. */
TL_NODISCARD tl_status tli_run_kernel(const tl_run *run, const tl_node *call, const tl_kernel *k);
/* A call whose kernel is one of the host, on an engine of another device: inputs come, outputs
 * go. */
TL_NODISCARD tl_status tli_run_staged(const tl_run *run, const tl_node *call, tl_kernel_fn *kernel);

#endif
