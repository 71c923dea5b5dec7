/* The engine: where tensors live and who computes them. It holds a device, a backend's table of
 * kernels for it, the threads that run them, and the pool that tensor memory comes from.
 *
 *     tl_engine *e;
 *     TL_TRY(tl_engine_open(&e, registry, "cpu", 0));
 *     tl_ctx *c;
 *     TL_TRY(tl_ctx_new(&c, e));
 *     ...
 *     tl_ctx_free(&c);
 *     tl_engine_free(&e);                                                // after all that uses it
 *
 * Ownership: the caller's. Thread word: free-threaded, but for tl_engine_free. */
#ifndef TILTH_CORE_ENGINE_H
#define TILTH_CORE_ENGINE_H

#include <tilth/base/pool.h>
#include <tilth/desc/registry.h>

TL_BEGIN

typedef struct tl_engine tl_engine;
typedef struct tl_backend_class tl_backend_class;
typedef struct tl_device tl_device;

/* An engine by the name of its backend: "cpu", "cuda", or "cuda:1" for one of several devices. NULL
 * is what TILTH_DEVICE says, else "cpu". */
TL_API TL_NODISCARD tl_status tl_engine_open(tl_engine **out, const tl_registry *registry,
                                             const char *name, int threads);

typedef struct tl_engine_args {
    const tl_backend_class *backend; /* required */
    /* (optional: the first) of the devices of the backend's kind */
    const char *which;
    /* (optional: none) of the same device: each computes with tensors of the other, and what both
     * are asked to compute is computed in the order of the calls. It lives longer than the new
     * one */
    tl_engine *beside;
    int threads; /* 0: tl_pool_default_threads() */
} tl_engine_args;

/* The same for a backend that is at hand. */
TL_API TL_NODISCARD tl_status tl_engine_new(tl_engine **out, const tl_engine_args *args);
/* NULL is fine. Every tensor and context of the engine must be gone. */
TL_API void tl_engine_free(tl_engine **engine);
TL_API const tl_backend_class *tl_engine_backend(const tl_engine *engine);
TL_API tl_device *tl_engine_device(const tl_engine *engine);
TL_API tl_pool *tl_engine_threads(const tl_engine *engine);
/* Waits until all that was computed so far is there. A failure of something that was computed since
 * somebody last waited comes out here, and is forgotten then: what follows is computed again. What
 * was to be computed between the failure and this call is not; whoever reads it is told that
 * failure. */
TL_API TL_NODISCARD tl_status tl_engine_wait(tl_engine *engine);
/* After a failure `st` that has been told: the engine computes again, whatever has failed in it.
 * Gives `st` back, its message as it was. TL_OK does nothing. */
TL_API TL_NODISCARD tl_status tl_engine_recover(tl_engine *engine, tl_status st);

/* Memory of tensors, in bytes. What tensors gave back is kept for the next ones. */
typedef struct tl_memory_stats {
    int64_t used, peak;  /* by tensors that are alive */
    int64_t cached;      /* given back and kept */
    int64_t allocations; /* how often the system was asked */
} tl_memory_stats;
TL_API void tl_engine_memory(const tl_engine *engine, tl_memory_stats *out);
/* The peak starts again from what is used now. */
TL_API void tl_engine_reset_peak(tl_engine *engine);
/* Gives the kept memory back to the system. */
TL_API void tl_engine_trim(tl_engine *engine);

TL_END

#endif
