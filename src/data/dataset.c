#include "data/dataset_impl.h"

#include <inttypes.h>

#include "core/inner/storage.h"

enum { LONG_PLACE = 100 /* bytes; no more numbers are added then */ };

static const tl_method methods[] = {
    TL_METHOD(tl_dataset_class, build, false),    TL_METHOD(tl_dataset_class, next, true),
    TL_METHOD(tl_dataset_class, rewind, true),    TL_METHOD(tl_dataset_class, state, true),
    TL_METHOD(tl_dataset_class, describe, false), TL_METHOD(tl_dataset_class, dispose, false),
    TL_METHOD(tl_dataset_class, length, false),   TL_METHOD(tl_dataset_class, tell, false),
    TL_METHOD(tl_dataset_class, share, false),    {NULL, 0, false},
};
const tl_kind tl_kind_dataset = {
    .name = "dataset",
    .plural = "datasets",
    .help = "where batches come from",
    .class_size = sizeof(tl_dataset_class),
    .methods = methods,
    .names_are_keys = true,
    TL_INSTANCE(tl_dataset),
};

static tl_status build(tl_dataset *d, const void *config)
{
    const tl_desc *desc = tl_class_config(&d->cls->cls);
    d->config = config;
    if (desc) {
        void *copy = tl_arena_alloc(d->arena, desc->size);
        if (!copy) return TL_ENOMEM;
        d->config = copy;
        TL_TRY(tl_desc_complete(d->arena, desc, copy, config, NULL));
        TL_TRY(tl_desc_check(desc, copy));
    }
    const tl_dataset_class *with = TL_CLASS_METHOD(tl_dataset_class, d->cls, build);
    return with ? with->build(d) : TL_OK;
}

tl_status tl_dataset_new(tl_dataset **out, const tl_dataset_class *cls, const void *config)
{
    tl_arena *arena;
    size_t size;
    *out = NULL;
    TL_TRY(tl_class_instance_size(&size, &tl_kind_dataset, &cls->cls));
    TL_TRY(tl_arena_new(&arena));
    tl_dataset *d = tl_arena_alloc(arena, size);
    if (!d) {
        tl_arena_free(&arena);
        return TL_ENOMEM;
    }
    d->cls = cls;
    d->arena = arena;
    tl_status st = build(d, config);
    if (st != TL_OK) {
        st = tl_error_note(st, "dataset '%s'", cls->cls.name);
        tl_dataset_free(&d);
    }
    *out = d;
    return st;
}

void tl_dataset_free(tl_dataset **d)
{
    if (!*d) return;
    const tl_dataset_class *with = TL_CLASS_METHOD(tl_dataset_class, (*d)->cls, dispose);
    if (with) with->dispose(*d);
    tl_arena *arena = (*d)->arena;
    tl_arena_free(&arena);
    *d = NULL;
}

tl_tensor *tli_dataset_show(tl_ctx *c, const tl_tensor *t)
{
    tl_tensor *header = tl_ctx_header(c);
    if (!header) return NULL;
    header->dtype = t->dtype;
    header->shape = t->shape;
    return tl_tensor_place(header, t, 0) == TL_OK ? header : tl_ctx_fail(c);
}

tl_status tli_dataset_make(tl_dataset *d, tl_ctx *c, tl_tensors *out, bool *more)
{
    *more = true;
    TL_TRY(tl_ctx_status(c));
    TL_TRY(TL_CLASS_METHOD(tl_dataset_class, d->cls, next)->next(d, c, out, more));
    return tl_ctx_status(c);
}

// The host's memory may be filled with the next batch as soon as this comes back.
static tl_tensor *brought(tl_ctx *c, const tl_tensor *t)
{
    tl_tensor *there = tl_ctx_tensor(c, TL_AT_DEVICE, t->dtype, t->shape);
    if (!there) return NULL;
    if (tl_tensor_copy(there, t) != TL_OK || tli_storage_wait(there->storage) != TL_OK)
        return tl_ctx_fail(c);
    return there;
}

tl_status tl_dataset_next(tl_dataset *d, tl_ctx *c, tl_tensors *out, bool *more)
{
    TL_TRY(tli_dataset_make(d, c, out, more));
    for (int64_t i = 0; i < out->count && *more; i++)
        if (tl_tensor_side(out->items[i].tensor) == TL_AT_HOST)
            out->items[i].tensor = brought(c, out->items[i].tensor);
    return tl_ctx_status(c);
}

tl_status tl_dataset_rewind(tl_dataset *d)
{
    return TL_CLASS_METHOD(tl_dataset_class, d->cls, rewind)->rewind(d);
}

tl_status tl_dataset_state(tl_dataset *d, tl_state *into)
{
    return TL_CLASS_METHOD(tl_dataset_class, d->cls, state)->state(d, into);
}

tl_status tl_dataset_describe(tl_dataset *d, const tl_spec **specs, int64_t *count)
{
    const tl_dataset_class *with = TL_CLASS_METHOD(tl_dataset_class, d->cls, describe);
    if (with) return with->describe(d, specs, count);
    return TL_FAIL(TL_EUNSUPPORTED,
                   "dataset '%s' does not know what its batches hold: its class has no 'describe'",
                   d->cls->cls.name);
}

tl_status tl_dataset_length(tl_dataset *d, int64_t *batches)
{
    const tl_dataset_class *with = TL_CLASS_METHOD(tl_dataset_class, d->cls, length);
    if (with) return with->length(d, batches);
    return TL_FAIL(TL_EUNSUPPORTED,
                   "dataset '%s' does not know how many batches it has: its class has no 'length'",
                   d->cls->cls.name);
}

static tl_status add_number(const tl_state_entry *e, void *payload)
{
    tl_str *out = payload;
    if (e->kind != TL_STATE_INT || out->length > LONG_PLACE) return TL_OK;
    tl_str_addf(out, "%s%s %" PRId64, out->length ? ", " : "", e->path, e->i);
    return TL_OK;
}

tl_status tl_dataset_tell(tl_dataset *d, tl_str *out)
{
    const tl_dataset_class *with = TL_CLASS_METHOD(tl_dataset_class, d->cls, tell);
    tl_state *position;
    if (with) return with->tell(d, out);
    TL_TRY(tl_state_new(&position));
    tl_status st = tl_dataset_state(d, position);
    if (st == TL_OK) st = tl_state_walk(position, add_number, out);
    tl_state_free(&position);
    return st == TL_OK ? tl_str_status(out) : st;
}

/* --- batches ---------------------------------------------------------------------------------- */

tl_tensor *tl_batch_get(const tl_batch *b, const char *name)
{
    return tl_tensors_get(b->ctx, &b->tensors, name);
}

tl_tensor *tl_batch_peek(const tl_batch *b, const char *name)
{
    return tl_tensors_peek(&b->tensors, name);
}

tl_tensor *tl_batch_weight(const tl_batch *b)
{
    return tl_batch_peek(b, TL_BATCH_WEIGHT);
}

int64_t tl_batch_size(const tl_batch *b)
{
    if (!b->tensors.count) return 0;
    const tl_shape *shape = &b->tensors.items[0].tensor->shape;
    return shape->rank ? shape->dims[0] : 1;
}
