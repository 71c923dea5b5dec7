#include "cuda/limits.h"

#include "core/inner/engine.h"
#include "cuda/device.h"
#include "cuda/products.h"

/* A product of so many rows keeps any GPU busy, and so many bytes are more than its caches hold. */
enum { SIDE = 4096, ROUNDS = 5, COPIED = 512 << 20 };

typedef struct work {
    tl_run run;
    tl_dtype dtype;
    char *memory; /* three parts of COPIED / 2 bytes each */
} work;

static tl_status multiply(const work *w)
{
    const tli_cuda_product p = {.dtype = w->dtype, .m = SIDE, .n = SIDE, .k = SIDE, .batch = 1};
    const size_t part = COPIED / 2;
    return tli_cuda_multiply(&w->run, &p, w->memory, w->memory + part, NULL, w->memory + 2 * part);
}

static tl_status copy(const work *w)
{
    return w->run.queue->device->cls->copy(w->run.queue, w->memory + COPIED / 2, w->memory,
                                           COPIED / 2);
}

// The best of some rounds, by the device's clock.
static tl_status measure(const work *w, tl_status (*put)(const work *w), double *ns)
{
    const tl_device_class *d = w->run.queue->device->cls;
    tl_event *from = NULL, *to = NULL;
    int64_t took;
    *ns = 1e18;
    tl_status st = d->event_new(&from, w->run.queue->device);
    if (st == TL_OK) st = d->event_new(&to, w->run.queue->device);
    for (int i = 0; st == TL_OK && i < ROUNDS; i++) {
        st = d->record(from, w->run.queue);
        if (st == TL_OK) st = put(w);
        if (st == TL_OK) st = d->record(to, w->run.queue);
        if (st == TL_OK) st = tl_queue_wait(w->run.queue, tl_queue_ticket(w->run.queue));
        if (st == TL_OK) st = d->elapsed(from, to, &took);
        if (st == TL_OK && (double)took < *ns) *ns = (double)took;
    }
    d->event_free(&from);
    d->event_free(&to);
    return st;
}

static tl_status measure_products(work *w, tl_limits *out)
{
    const double flops = 2.0 * SIDE * SIDE * SIDE;
    double ns;
    w->dtype = TL_F32;
    TL_TRY(measure(w, multiply, &ns));
    out->flops = flops / ns;
    w->dtype = TL_BF16;
    TL_TRY(measure(w, multiply, &ns));
    out->half_flops = flops / ns;
    return TL_OK;
}

static bool multiplies(void)
{
    const tli_cuda_api *api;
    const bool here = tli_cuda_products(&api) == TL_OK;
    if (!here) tl_error_clear(); // whoever opened the engine was told
    return here;
}

static tl_status measure_all(work *w, tl_limits *out)
{
    double ns;
    TL_TRY(w->run.queue->device->cls->fill(w->run.queue, w->memory, 0, COPIED / 2 * 3));
    if (multiplies()) TL_TRY(measure_products(w, out));
    TL_TRY(measure(w, copy, &ns));
    out->bytes = (double)COPIED / ns; // half is read, half is written
    return TL_OK;
}

tl_status tli_cuda_limits(tl_engine *engine, tl_limits *out)
{
    tl_device *device = tl_engine_device(engine);
    work w = {.run = {.engine = engine, .queue = engine->queue}};
    *out = (tl_limits){.cache = (double)tli_cuda_of(device)->cache};
    w.memory = device->cls->alloc(device, COPIED / 2 * 3);
    if (!w.memory) return TL_FAIL_NOMEM(COPIED / 2 * 3);
    tl_status st = measure_all(&w, out);
    device->cls->free(device, w.memory, COPIED / 2 * 3);
    return st;
}
