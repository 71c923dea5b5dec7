#include <tilth/train/hooks/hooks.h>
#include <tilth/train/run/run.h>

#include "train/controller/controller.h"
#include "train/trainer/trainer.h"

enum { USUAL_WINDOW = 20, PASSES = 3 /* forward, and twice as much backward */ };

typedef tl_throughput_instance throughput;

static tl_status start(tl_hook *h, const void *config)
{
    throughput *p = (throughput *)h;
    h->started = true;
    if (config) p->config = *(const tl_throughput_config *)config;
    if (p->config.window <= 0) p->config.window = USUAL_WINDOW;
    if (p->config.peak_flops < 0)
        return TL_FAIL(
            TL_EINVAL,
            "peak_flops is %g and must be the operations a second that the machine can do, or 0",
            p->config.peak_flops);
    return TL_OK;
}

static tl_status before_train(tl_hook *h)
{
    throughput *p = (throughput *)h;
    tl_model *m = tl_controller_trainer(h->controller)->model;
    p->flops = p->config.peak_flops > 0 && m ? PASSES * tl_count_flops(m) : 0;
    return TL_OK;
}

/* Of the last batch: a field of whole numbers [examples, length], or none. */
static int64_t tokens_of(const tl_tensors *batch)
{
    for (int64_t i = 0; i < batch->count; i++) {
        const tl_tensor *t = batch->items[i].tensor;
        if (!tl_dtype_is_float(t->dtype) && t->shape.rank == 2 && t->shape.dims[1] > 1)
            return tl_tensor_count(t);
    }
    return 0;
}

/* The average of the last times; 0 when there is none. */
static tl_status average(double *out, tl_event_storage *s, const char *name, int64_t window)
{
    const tl_history *history;
    TL_TRY(tl_event_storage_history(&history, s, name));
    *out = history && tl_history_count(history) ? tl_history_average(history, window) : 0;
    return TL_OK;
}

static tl_status put(tl_event_storage *s, const char *name, double value)
{
    return value > 0 ? tl_event_storage_put_plain(s, name, value) : TL_OK;
}

static tl_status after_step(tl_hook *h)
{
    const throughput *p = (throughput *)h;
    const tl_trainer *t = tl_controller_trainer(h->controller);
    tl_event_storage *s = tl_controller_storage(h->controller);
    double time, data_time;
    TL_TRY(average(&time, s, "time", p->config.window));
    TL_TRY(average(&data_time, s, "data_time", p->config.window));
    if (!(time > 0)) return TL_OK; // the first steps are not timed
    const tl_batch batch = {.tensors = t->parts->in};
    double batches = (double)(t->parts->accumulation * tl_strategy_replicas(t->strategy)) / time;
    double examples = batches * (double)tl_batch_size(&batch);
    TL_TRY(put(s, "examples_per_second", examples));
    TL_TRY(put(s, "tokens_per_second", batches * (double)tokens_of(&batch.tensors)));
    TL_TRY(put(s, "data_wait", data_time < time ? data_time / time : 1));
    if (p->flops > 0) TL_TRY(put(s, "mfu", examples * p->flops / p->config.peak_flops));
    tl_memory_stats memory;
    tl_engine_memory(t->engine, &memory);
    return put(s, "memory_bytes", (double)memory.peak);
}

const tl_hook_class tl_throughput_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "throughput",
            .size = sizeof(tl_throughput_instance),
            .help = "tells how fast the training is, and what it takes"},
    .start = start,
    .needs_start = true,
    .before_train = before_train,
    .after_step = after_step,
    .in_flight = true,
};
