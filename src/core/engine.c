#include "core/inner/resident.h"
#include "core/inner/engine.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/core/attrs.h>

#include "core/inner/sound.h"

static const tl_method backend_methods[] = {
    TL_METHOD(tl_backend_class, choose, false),
    TL_METHOD(tl_backend_class, supported, false),
    TL_METHOD(tl_backend_class, around, false),
    TL_METHOD(tl_backend_class, limits, false),
    {NULL, 0, false},
};
const tl_kind tl_kind_backend = {
    .name = "backend",
    .plural = "backends",
    .help = "tables of kernels that compute ops",
    .class_size = sizeof(tl_backend_class),
    .methods = backend_methods,
};

static const tl_device_class *device_of(const tl_backend_class *b)
{
    return b->device ? b->device : &tl_device_host;
}

// The backend that a class stands for, if this machine can run it.
static tl_status resolve(const tl_backend_class **backend)
{
    const tl_backend_class *asked = *backend;
    if (asked->choose) TL_TRY_NOTE(asked->choose(backend), "backend '%s'", asked->cls.name);
    if ((*backend)->supported)
        TL_TRY_NOTE((*backend)->supported(), "backend '%s'", (*backend)->cls.name);
    return TL_OK;
}

// A kernel that does not take all calls stands before the one that was there.
static void fill_cell(tli_cell *cell, const tl_backend_class *backend, const tl_kernel *k,
                      unsigned staged)
{
    tli_cell filled = {.fn = k->fn, .flags = k->flags | staged};
    if (backend->takes) {
        filled.takes = backend->takes;
        filled.other = cell->takes ? cell->other : cell->fn;
        filled.other_flags = cell->takes ? cell->other_flags : cell->flags;
    }
    *cell = filled;
}

// The fallback's rows first, then what the backend does better.
static tl_status fill_cells(tl_engine *e, const tl_backend_class *backend)
{
    const tl_backend_class *fallback = backend->fallback;
    if (fallback) {
        TL_TRY(resolve(&fallback));
        TL_TRY(fill_cells(e, fallback));
    }
    const tl_device_class *own = e->device->cls, *its = device_of(backend);
    if (its != own && !its->host)
        return TL_FAIL(
            TL_EINVAL,
            "the backend '%s' is for the device '%s', and falls back on '%s', which is for '%s'",
            e->backend->cls.name, own->cls.name, backend->cls.name, its->cls.name);
    const unsigned staged = its == own ? 0 : TL_KERNEL_STAGED;
    for (const tl_kernels *const *t = backend->tables; t && *t; t++) {
        for (int64_t i = 0; i < (*t)->count; i++) {
            const tl_kernel *k = &(*t)->rows[i];
            bool all = k->dtype == TL_DTYPE_COUNT;
            TL_ASSERT(k->fn && k->op < TL_OP_COUNT && k->dtype <= TL_DTYPE_COUNT);
            for (int d = all ? 0 : (int)k->dtype; d < (all ? TL_DTYPE_COUNT : (int)k->dtype + 1);
                 d++)
                fill_cell(&e->cells[k->op][d], backend, k, staged);
        }
    }
    return TL_OK;
}

// The host has one, in which all is done at once.
static tl_status open_queues(tl_engine *e)
{
    const tl_device_class *d = e->device->cls;
    TL_TRY(d->queue_new(&e->in, e->device));
    TL_TRY(d->queue_new(&e->out, e->device));
    return d->queue_new(&e->queue, e->device);
}

static bool wants_waits(void)
{
    const char *sync = getenv("TILTH_DEVICE_SYNC");
    return sync && *sync && strcmp(sync, "0") != 0;
}

static int64_t count_of(const tl_device_class *d)
{
    const tl_device_class *with = TL_CLASS_METHOD(tl_device_class, d, count);
    return with ? with->count() : -1;
}

// "cuda:0, cuda:1"; the name alone where nobody knows how many there are.
static void add_devices(tl_str *out, const tl_device_class *d)
{
    const int64_t count = count_of(d);
    for (int64_t i = 0; i < count; i++)
        tl_str_addf(out, "%s%s:%" PRId64, out->length ? ", " : "", d->cls.name, i);
    if (count < 0) tl_str_addf(out, "%s%s", out->length ? ", " : "", d->cls.name);
}

static tl_status check_which(const tl_device_class *d, const char *which)
{
    const int64_t count = count_of(d);
    if (!which || count < 0) return TL_OK;
    for (int64_t i = 0; i < count; i++) {
        char number[24];
        snprintf(number, sizeof number, "%" PRId64, i);
        if (strcmp(which, number) == 0) return TL_OK;
    }
    tl_str known = TL_STR_INIT;
    add_devices(&known, d);
    tl_status st = tl_str_status(&known);
    if (st == TL_OK)
        st = TL_FAIL(TL_EINVAL, "there is no device '%s' (there are%s%s)", which,
                     count ? ": " : " none", tl_str_text(&known));
    tl_str_deinit(&known);
    return st;
}

static tl_status open_device(tl_engine *e, const tl_engine_args *args)
{
    const tl_device_class *d = device_of(e->backend);
    if (args->beside) {
        TL_ASSERT(args->beside->device->cls == d);
        e->beside = true;
        e->device = args->beside->device;
        e->queue = args->beside->queue;
        e->in = args->beside->in;
        e->out = args->beside->out;
        e->losses = args->beside->losses;
    } else {
        tl_device *opened;
        TL_TRY_NOTE(check_which(d, args->which), "device '%s'", d->cls.name);
        TL_TRY_NOTE(d->open(&opened, args->which), "device '%s'", d->cls.name);
        e->device = opened;
        if (!d->host) TL_TRY(tli_losses_new(&e->losses));
        TL_TRY(open_queues(e));
    }
    tli_memory_args memory = {.engine = e,
                              .device = e->device,
                              .queue = e->queue,
                              .in = e->in,
                              .out = e->out,
                              .losses = e->losses,
                              .guarded = e->backend->guards_memory};
    tli_memory_init(&e->memory, &memory);
    e->waits = e->losses && wants_waits();
    memory.host = true;
    tli_memory_init(&e->staging, &memory);
    return TL_OK;
}

static tl_status prepare(tl_engine *e, const tl_engine_args *args)
{
    TL_TRY(tl_pool_new(&e->threads, args->threads));
    TL_TRY(open_device(e, args));
    return fill_cells(e, e->backend);
}

tl_status tl_engine_new(tl_engine **out, const tl_engine_args *args)
{
    const tl_backend_class *backend = args->backend;
    TL_ASSERT(backend);
    *out = NULL;
    TL_TRY(resolve(&backend));
    tl_engine *e = tl_alloc_zero(sizeof *e);
    if (!e) return TL_FAIL_NOMEM(sizeof *e);
    e->backend = backend;
    tl_status st = prepare(e, args);
    if (st != TL_OK) tl_engine_free(&e);
    *out = e;
    return st;
}

// A backend has the name of its device, but for those of the host, the best of which is "cpu".
static tl_status fail_unknown(tl_status st, const tl_registry *registry)
{
    char why[TL_ERROR_TEXT];
    tl_str known = TL_STR_INIT;
    snprintf(why, sizeof why, "%s", tl_error_message());
    tl_str_add(&known, "cpu");
    for (int64_t i = 0; i < tl_registry_count(registry, &tl_kind_device); i++)
        add_devices(&known, (const tl_device_class *)tl_registry_at(registry, &tl_kind_device, i));
    tl_status told = tl_str_status(&known);
    if (told == TL_OK)
        told = TL_FAIL(st, "%.*s; devices are: %s", TL_ERROR_TEXT / 2, why, tl_str_text(&known));
    tl_str_deinit(&known);
    return told;
}

// "cuda:1" is the backend "cuda" on the device 1.
tl_status tl_engine_open(tl_engine **out, const tl_registry *registry, const char *name,
                         int threads)
{
    *out = NULL;
    const char *said = name ? NULL : getenv("TILTH_DEVICE");
    if (!name) name = said && *said ? said : "cpu";
    const char *colon = strchr(name, ':');
    char backend[64];
    const tl_class *cls;
    snprintf(backend, sizeof backend, "%.*s", colon ? (int)(colon - name) : (int)strlen(name),
             name);
    tl_status st = tl_registry_find(&cls, registry, &tl_kind_backend, backend);
    if (st == TL_ENOTFOUND) st = fail_unknown(st, registry);
    if (st == TL_OK)
        st = tl_engine_new(out, &(tl_engine_args){.backend = (const tl_backend_class *)cls,
                                                  .which = colon ? colon + 1 : NULL,
                                                  .threads = threads});
    return st == TL_OK || !said ? st : tl_error_note(st, "TILTH_DEVICE");
}

static void close_queues(tl_engine *e)
{
    tl_queue **queues[] = {&e->queue, &e->out, &e->in};
    for (int i = 0; i < 3; i++)
        if (*queues[i]) e->device->cls->queue_free(queues[i]);
}

void tl_engine_free(tl_engine **engine)
{
    tl_engine *e = *engine;
    if (!e) return;
    if (e->queue) { // the last one that is opened
        // what is queued may use its threads
        (void)!tl_queue_wait(e->queue, tl_queue_ticket(e->queue));
        tli_memory_deinit(&e->memory);
        tli_memory_deinit(&e->staging);
    }
    if (!e->beside) close_queues(e);
    if (!e->beside) tli_losses_free(&e->losses);
    if (e->device && !e->beside) e->device->cls->close(&e->device);
    tl_pool_free(&e->threads);
    tl_free(e);
    *engine = NULL;
}

const tl_backend_class *tl_engine_backend(const tl_engine *e)
{
    return e->backend;
}

tl_device *tl_engine_device(const tl_engine *e)
{
    return e->device;
}

tl_status tl_engine_wait(tl_engine *e)
{
    uint64_t from, to;
    if (!e->losses) return TL_OK;
    // What copies left undone, nobody takes for elements: a lease waits for its copy.
    tl_status in = e->device->cls->clear(e->in, &from, &to),
              out = e->device->cls->clear(e->out, &from, &to);
    tl_status st = tli_losses_take(e->losses, e->queue);
    return st != TL_OK ? st : out != TL_OK ? out : in;
}

tl_status tl_engine_recover(tl_engine *e, tl_status st)
{
    tl_error why;
    if (st == TL_OK || !e->losses) return st;
    tl_error_save(&why);
    (void)!tl_engine_wait(e);
    tl_error_restore(&why);
    return st;
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

int64_t tli_engine_resident(const tl_engine *e)
{
    tli_memory *m = &((tl_engine *)e)->memory;
    pthread_mutex_lock(&m->lock);
    const int64_t resident = m->resident;
    pthread_mutex_unlock(&m->lock);
    return resident;
}

void tl_engine_trim(tl_engine *e)
{
    tli_memory_trim(&e->memory);
    tli_memory_trim(&e->staging);
}

static tl_dtype kernel_dtype(const tl_node *call)
{
    return call->op->by < 0 ? call->out[0]->dtype : call->in[call->op->by]->dtype;
}

tl_status tl_engine_kernel(const tl_engine *e, const tl_node *call, tl_kernel *out)
{
    tl_dtype dtype = kernel_dtype(call);
    TL_ASSERT(call->op->by < call->inputs && call->op->op < TL_OP_COUNT);
    const tli_cell *cell = &e->cells[call->op->op][dtype];
    if (!cell->fn)
        return TL_FAIL(TL_EUNSUPPORTED, "there is no %s of %s on the backend '%s'", call->op->name,
                       tl_dtype_name(dtype), e->backend->cls.name);
    const bool takes = !cell->takes || cell->takes(e, call);
    *out = (tl_kernel){call->op->op, dtype, takes ? cell->fn : cell->other,
                       takes ? cell->flags : cell->other_flags};
    if (out->fn) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED, "the backend '%s' has no kernel for this %s of %s",
                   e->backend->cls.name, call->op->name, tl_dtype_name(dtype));
}

/* --- running ---------------------------------------------------------------------------------- */

bool tli_is_here(const tl_engine *e, const tl_tensor *t)
{
    const tli_memory *m = t->storage->memory;
    return m->queue == e->queue && (!m->on_host || e->device->cls->host);
}

tl_status tli_fail_elsewhere(const tl_engine *e, const tl_tensor *t, const char *what, ...)
{
    char name[TL_ERROR_TEXT / 4], spec[TL_TENSOR_TEXT];
    const tli_memory *m = t->storage->memory;
    const bool staged = m->on_host && !m->device->cls->host;
    va_list args;
    va_start(args, what);
    vsnprintf(name, sizeof name, what, args);
    va_end(args);
    if (!staged && strcmp(m->device->name, e->device->name) == 0)
        return TL_FAIL(TL_EINVAL,
                       "%s, %s, is of another engine of '%s', whose work has another order; open "
                       "one engine beside the other, or copy it",
                       name, tl_tensor_spec(spec, t), e->device->name);
    return TL_FAIL(TL_EINVAL,
                   "%s, %s, lies on the %s '%s' and is computed with on '%s'; copy it there first",
                   name, tl_tensor_spec(spec, t), staged ? "host's side of" : "device",
                   m->device->name, e->device->name);
}

static tl_status check_here(const tl_engine *e, const tl_tensor *t, const char *side, int i)
{
    if (!t->storage) return TL_FAIL(TL_ESTATE, "%s %d has no elements", side, i);
    return tli_is_here(e, t) ? TL_OK : tli_fail_elsewhere(e, t, "%s %d", side, i);
}

// One that puts a value in place reads nothing of what was there.
static bool only_writes(const tl_node *call, int i)
{
    return i == 0 && call->op->op == TL_OP_assign && !((const tl_assign_attr *)call->attr)->add;
}

static tl_status check_computed(const tl_node *call)
{
    for (int i = 0; i < call->inputs; i++)
        if (!only_writes(call, i))
            TL_TRY_NOTE(tli_storage_check(call->in[i]->storage), "input %d", i);
    return TL_OK;
}

tl_status tli_check_device(const tl_engine *e, const tl_node *call)
{
    for (int i = 0; i < call->inputs; i++) TL_TRY(check_here(e, call->in[i], "input", i));
    for (int i = 0; i < call->outputs; i++) TL_TRY(check_here(e, call->out[i], "output", i));
    return e->losses ? check_computed(call) : TL_OK;
}

tl_status tli_call_queued(const tl_run *run, const tl_node *call)
{
    const tl_engine *e = run->engine;
    if (run->queue->device->cls->host) return TL_OK;
    for (int i = 0; i < call->outputs; i++) tli_storage_written(call->out[i]->storage);
    for (int i = 0; i < call->inputs; i++) {
        if (tli_call_writes(call, i)) tli_storage_written(call->in[i]->storage);
        else tli_storage_used(call->in[i]->storage);
    }
    return e->waits ? tl_engine_wait(run->engine) : TL_OK;
}

tl_status tli_run_kernel(const tl_run *run, const tl_node *call, const tl_kernel *k)
{
    const tl_engine *e = run->engine;
    // The checking backend tells in words.
    TL_ASSERT(e->backend->around || tli_call_is_sound(call, k));
    if (k->flags & TL_KERNEL_STAGED) return tli_run_staged(run, call, k->fn);
    TL_TRY(e->backend->around ? e->backend->around(run, call, k->fn) : k->fn(run, call));
    return e->losses ? tli_call_queued(run, call) : TL_OK; // the host has run it
}

tl_status tl_engine_run(tl_engine *e, const tl_draws *draws, const tl_node *call)
{
    return tl_engine_run_strand(e, draws, NULL, call);
}

tl_status tl_engine_run_strand(tl_engine *e, const tl_draws *draws, tl_strand *strand,
                               const tl_node *call)
{
    tl_kernel kernel;
    TL_TRY(tl_engine_kernel(e, call, &kernel));
    TL_TRY(tli_check_device(e, call));
    tl_run run = {
        .engine = e, .queue = e->queue, .threads = e->threads, .draws = *draws, .strand = strand};
    return tli_run_kernel(&run, call, &kernel);
}

tl_status tl_engine_limits(tl_engine *e, tl_limits *out)
{
    const tl_backend_class *b = e->backend;
    while (b && !b->limits) b = b->fallback;
    if (b && device_of(b) == e->device->cls) return b->limits(e, out);
    return TL_FAIL(TL_EUNSUPPORTED, "the backend '%s' does not know what it can do at most",
                   e->backend->cls.name);
}

void *tl_kernel_data(const tl_tensor *t)
{
    return tli_data(t);
}
