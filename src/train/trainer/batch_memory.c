/* Batches that no memory could hold are refused before anything is made of them. */
#include <inttypes.h>

#include <tilth/base/machine.h>
#include <tilth/sys/core/device.h>

#include "train/trainer/trainer.h"

const tli_batch_keys tli_own_keys = {"task.train_data.global_batch_size",
                                     "tilth.gradient_accumulation", "tilth.recompute=full"};
const tli_batch_keys tli_libai_keys = {"train.train_micro_batch_size",
                                       "train.num_accumulation_steps",
                                       "train.activation_checkpoint.enabled=true"};

/* What one example needs at least, in bytes. */
typedef struct need {
    double inputs, largest; /* all inputs together; the greatest result of a layer */
    const char *layer;      /* whose that is */
} need;

/* Results may be in half precision. */
enum { LEAST_ELEMENT = 2 };

static void look_at(need *n, const tl_layer *l, int64_t batch)
{
    if (l->called && l->output.rank && l->output.dims[0] == batch) {
        double bytes = (double)tl_shape_count(&l->output) / (double)batch * LEAST_ELEMENT;
        if (bytes > n->largest) *n = (need){n->inputs, bytes, *l->name ? l->name : "the model"};
    }
    for (const tl_layer *child = l->first; child; child = child->next) look_at(n, child, batch);
}

static need need_of(const tl_model *m)
{
    need n = {0, 0, ""};
    int64_t count, batch = 0;
    const tl_spec *inputs = tl_model_inputs(m, &count);
    for (int64_t i = 0; i < count; i++) {
        const tl_shape *s = &inputs[i].shape;
        if (!s->rank || s->dims[0] < 1) continue;
        batch = s->dims[0];
        n.inputs +=
            (double)tl_shape_count(s) / (double)batch * (double)tl_dtype_size(inputs[i].dtype);
    }
    if (batch) look_at(&n, m, batch);
    return n;
}

double tli_batch_memory(const tl_engine *engine)
{
    tl_device *d = tl_engine_device(engine);
    tl_device_memory memory = {0};
    if (!d->cls->host && d->cls->memory(d, &memory) != TL_OK) tl_error_clear();
    return memory.total > 0 ? (double)memory.total : tl_machine_memory();
}

tl_status tli_check_batch_memory(const tl_model *m, tli_batch_keys keys, int64_t batch,
                                 double there)
{
    const double gib = 1024.0 * 1024 * 1024;
    need n = need_of(m);
    double bytes = (double)batch * (n.inputs + n.largest);
    if (bytes <= there) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "%s: a batch of %" PRId64
                   " examples needs at least %.1f GiB of memory (%.1f for its inputs, %.1f for the "
                   "results of '%s'), and there are %.1f GiB: choose a smaller one (with %s "
                   "several batches make one step)",
                   keys.size, batch, bytes / gib, (double)batch * n.inputs / gib,
                   (double)batch * n.largest / gib, n.layer, there / gib, keys.accumulation);
}

tl_status tli_step_status(const tl_trainer *t, tl_status st)
{
    const tli_batch_keys *keys = &t->parts->keys;
    if (st != TL_ENOMEM) return st;
    return TL_FAIL(TL_ENOMEM,
                   "%s; a smaller %s needs less (with %s several batches make one step), and so "
                   "does %s",
                   tl_error_message(), keys->size, keys->accumulation, keys->recompute);
}
