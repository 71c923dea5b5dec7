/* The CPU's backends: `reference`, plain loops that say what each op means, and one for each
 * instruction set, which computes faster what is worth it and falls back on the reference for the
 * rest.
 *
 *     tl_engine *e;
 *     TL_TRY(tl_engine_open(&e, registry, "cpu", 0));        // the best backend, all threads
 *
 * Thread word: free-threaded. */
#ifndef TILTH_CPU_CPU_H
#define TILTH_CPU_CPU_H

#include <tilth/desc/registry.h>
#include <tilth/sys/core/backend.h>

TL_BEGIN

TL_API extern const tl_backend_class tl_backend_reference;
/* Stands for the one to use, by name and without a registry: {.backend = &tl_backend_cpu}. */
TL_API extern const tl_backend_class tl_backend_cpu;
/* All of them, for a registry. */
TL_API extern const tl_module tl_cpu_module;

/* The backends of this build, the plainest first, whether or not this machine can run them. */
TL_API const tl_backend_class *const *tl_cpu_backends(int64_t *count);
/* The one to use: what TILTH_ISA names, else the best that this machine supports. */
TL_API TL_NODISCARD tl_status tl_cpu_backend(const tl_backend_class **out);

TL_END

#endif
