/* What an engine is made of. Thread word: free-threaded. */
#ifndef TLI_CORE_ENGINE_H
#define TLI_CORE_ENGINE_H

#include <tilth/sys/core/backend.h>

#include "core/inner/storage.h"

typedef struct tli_cell {
    tl_kernel_fn *fn;
    unsigned flags;
} tli_cell;

struct tl_engine {
    const tl_backend_class *backend;
    tl_pool *threads;
    tli_memory memory;
    tli_cell cells[TL_OP_COUNT][TL_DTYPE_COUNT]; /* fallbacks filled in */
};

#endif
