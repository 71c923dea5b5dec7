/* Batches on their way from the host, where they are made, to the device that computes with
 * them. */
#include <tilth/base/vec.h>
#include <tilth/data/dataset.h>

#include "core/inner/engine.h"
#include "core/inner/tensor.h"
#include "data/dataset_impl.h"

/* So many batches have a place: the next one is brought to its own while one is computed with. */
enum { DEPTH = 2 };

/* The fields of a batch as the device sees them: always at the same place, while their shapes
 * stay. */
typedef struct slot {
    tl_tensor **items;
    int64_t count, capacity;
} slot;

typedef struct feed {
    tl_dataset base;
    tl_dataset *inner;
    tl_engine *engine;
    slot slots[DEPTH];
    int next; /* slot */
} feed;

/* --- batches ---------------------------------------------------------------------------------- */

/* Somebody may have kept the batch that lay there: it stays his. */
static bool is_free_for(const tl_tensor *there, const tl_tensor *t)
{
    return there && there->dtype == t->dtype && tl_shape_equal(&there->shape, &t->shape)
           && tli_storage_is_single(there->storage);
}

static tl_status bring(slot *s, int64_t field, tl_engine *e, const tl_tensor *t)
{
    if (field == s->count && !TL_VEC_PUSH(s, (tl_tensor *)NULL)) return TL_ENOMEM;
    tl_tensor **there = &s->items[field];
    if (!is_free_for(*there, t)) {
        tl_tensor_free(there);
        TL_TRY(tl_tensor_new(there, e, t->dtype, t->shape));
    }
    // which waits for nobody; the host's memory is not used again before it has run
    return tl_tensor_copy(*there, t);
}

static tl_status feed_next(tl_dataset *d, tl_ctx *c, tl_tensors *out, bool *more)
{
    feed *f = (feed *)d;
    tl_tensors batch = {0};
    TL_TRY(tli_dataset_make(f->inner, c, &batch, more));
    if (!*more) return TL_OK;
    slot *s = &f->slots[f->next];
    f->next = (f->next + 1) % DEPTH;
    for (int64_t i = 0, brought = 0; i < batch.count; i++) {
        tl_tensor *t = batch.items[i].tensor;
        if (tl_tensor_side(t) == TL_AT_HOST) {
            TL_TRY_NOTE(bring(s, brought, f->engine, t), "'%s'", batch.items[i].name);
            t = tli_dataset_show(c, s->items[brought++]);
        }
        if (t) tl_tensors_put(c, out, batch.items[i].name, t);
    }
    return tl_ctx_status(c);
}

static tl_status feed_rewind(tl_dataset *d)
{
    return tl_dataset_rewind(((feed *)d)->inner);
}

/* As if it were not there: a checkpoint does not know on which device it was made. */
static tl_status feed_state(tl_dataset *d, tl_state *into)
{
    return tl_dataset_state(((feed *)d)->inner, into);
}

static tl_status feed_describe(tl_dataset *d, const tl_spec **specs, int64_t *count)
{
    return tl_dataset_describe(((feed *)d)->inner, specs, count);
}

static tl_status feed_length(tl_dataset *d, int64_t *batches)
{
    return tl_dataset_length(((feed *)d)->inner, batches);
}

static tl_status feed_tell(tl_dataset *d, tl_str *out)
{
    return tl_dataset_tell(((feed *)d)->inner, out);
}

static void feed_dispose(tl_dataset *d)
{
    feed *f = (feed *)d;
    for (int i = 0; i < DEPTH; i++) {
        for (int64_t k = 0; k < f->slots[i].count; k++) tl_tensor_free(&f->slots[i].items[k]);
        TL_VEC_FREE(&f->slots[i]);
    }
    tl_dataset_free(&f->inner);
}

static const tl_dataset_class feed_class = {
    .cls = TL_CLASS(tl_dataset_class, "feed", NULL, feed, NULL,
                    .help = "brings the batches of another dataset to a device"),
    .next = feed_next,
    .rewind = feed_rewind,
    .state = feed_state,
    .describe = feed_describe,
    .dispose = feed_dispose,
    .length = feed_length,
    .tell = feed_tell,
};

tl_status tl_dataset_to_device(tl_dataset **out, tl_dataset **inner, tl_engine *engine)
{
    tl_dataset *taken = *inner, *made = NULL;
    *inner = NULL;
    *out = taken;
    if (engine->device->cls->host) return TL_OK;
    *out = NULL;
    tl_status st = tl_dataset_new(&made, &feed_class, NULL);
    if (st != TL_OK) {
        tl_dataset_free(&taken);
        return st;
    }
    ((feed *)made)->inner = taken;
    ((feed *)made)->engine = engine;
    *out = made;
    return TL_OK;
}
