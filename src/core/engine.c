#include "core/inner/engine.h"

#include <tilth/base/alloc.h>

static const tl_method backend_methods[] = {
    TL_METHOD(tl_backend_class, supported, false),
    TL_METHOD(tl_backend_class, around, false),
    {NULL, 0, false},
};
const tl_kind tl_kind_backend = {
    .name = "backend",
    .plural = "backends",
    .help = "tables of kernels that compute ops",
    .class_size = sizeof(tl_backend_class),
    .methods = backend_methods,
};

// The fallback's rows first, then what the backend does better.
static void fill_cells(tl_engine *e, const tl_backend_class *backend)
{
    if (backend->fallback) fill_cells(e, backend->fallback);
    for (const tl_kernels *const *t = backend->tables; t && *t; t++) {
        for (int64_t i = 0; i < (*t)->count; i++) {
            const tl_kernel *k = &(*t)->rows[i];
            bool all = k->dtype == TL_DTYPE_COUNT;
            for (int d = all ? 0 : (int)k->dtype; d < (all ? TL_DTYPE_COUNT : (int)k->dtype + 1); d++)
                e->cells[k->op][d] = (tli_cell){k->fn, k->flags};
        }
    }
}

tl_status tl_engine_new(tl_engine **out, const tl_engine_args *args)
{
    TL_ASSERT(args->backend);
    if (args->backend->supported)
        TL_TRY_NOTE(args->backend->supported(), "backend '%s'", args->backend->cls.name);
    tl_engine *e = tl_alloc_zero(sizeof *e);
    if (!e) return TL_FAIL_NOMEM(sizeof *e);
    tl_status st = tl_pool_new(&e->threads, args->threads);
    if (st != TL_OK) {
        tl_free(e);
        return st;
    }
    e->backend = args->backend;
    tli_memory_init(&e->memory, e, e->backend->guards_memory);
    fill_cells(e, e->backend);
    *out = e;
    return TL_OK;
}

void tl_engine_free(tl_engine **engine)
{
    tl_engine *e = *engine;
    if (!e) return;
    tli_memory_deinit(&e->memory);
    tl_pool_free(&e->threads);
    tl_free(e);
    *engine = NULL;
}

const tl_backend_class *tl_engine_backend(const tl_engine *e)
{
    return e->backend;
}

tl_pool *tl_engine_threads(const tl_engine *e)
{
    return e->threads;
}

void tl_engine_memory(const tl_engine *e, tl_memory_stats *out)
{
    tli_memory *m = &((tl_engine *)e)->memory; // the lock is no part of what callers see
    pthread_mutex_lock(&m->lock);
    *out = m->stats;
    pthread_mutex_unlock(&m->lock);
}

void tl_engine_reset_peak(tl_engine *e)
{
    pthread_mutex_lock(&e->memory.lock);
    e->memory.stats.peak = e->memory.stats.used;
    pthread_mutex_unlock(&e->memory.lock);
}

void tl_engine_trim(tl_engine *e)
{
    tli_memory_trim(&e->memory);
}

static tl_dtype kernel_dtype(const tl_node *call)
{
    return call->op->by < 0 ? call->out[0]->dtype : call->in[call->op->by]->dtype;
}

tl_status tl_engine_kernel(const tl_engine *e, const tl_node *call, tl_kernel *out)
{
    tl_dtype dtype = kernel_dtype(call);
    const tli_cell *cell = &e->cells[call->op->op][dtype];
    if (!cell->fn)
        return TL_FAIL(TL_EUNSUPPORTED, "there is no %s of %s on the backend '%s'", call->op->name,
                       tl_dtype_name(dtype), e->backend->cls.name);
    *out = (tl_kernel){call->op->op, dtype, cell->fn, cell->flags};
    return TL_OK;
}

tl_status tl_engine_run(tl_engine *e, const tl_draws *draws, const tl_node *call)
{
    tl_kernel kernel;
    TL_TRY(tl_engine_kernel(e, call, &kernel));
    tl_run run = {.engine = e, .threads = e->threads, .draws = *draws};
    return e->backend->around ? e->backend->around(&run, call, kernel.fn) : kernel.fn(&run, call);
}

void *tl_kernel_data(const tl_tensor *t)
{
    return (char *)t->storage->data + t->offset * (int64_t)tl_dtype_size(t->dtype);
}
