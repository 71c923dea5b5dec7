#include <inttypes.h>
#include <string.h>

#include "data/dataset_impl.h"

/* --- a function of the program ---------------------------------------------------------------- */

typedef struct from_function {
    tl_dataset base;
    tl_fill_fn *fill;
    void *self;
    tl_spec *specs;
    int64_t spec_count, length;
    int64_t index; /* of the next batch */
} from_function;

static tl_status function_next(tl_dataset *d, tl_ctx *c, tl_tensors *out, bool *more)
{
    from_function *f = (from_function *)d;
    if (f->index < 0)
        return TL_FAIL(TL_EINVAL, "the restored position is batch %" PRId64, f->index);
    TL_TRY_NOTE(f->fill(f->self, c, f->index, out, more), "batch %" PRId64, f->index);
    TL_TRY(tl_ctx_status(c));
    if (*more) f->index++;
    return TL_OK;
}

static tl_status function_rewind(tl_dataset *d)
{
    ((from_function *)d)->index = 0;
    return TL_OK;
}

static tl_status function_state(tl_dataset *d, tl_state *into)
{
    return tl_state_bind_int(into, "index", &((from_function *)d)->index);
}

static tl_status function_describe(tl_dataset *d, const tl_spec **specs, int64_t *count)
{
    from_function *f = (from_function *)d;
    if (!f->specs)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "the dataset is a function and was made without 'specs', so "
                       "what its batches hold is not known before they come");
    *specs = f->specs;
    *count = f->spec_count;
    return TL_OK;
}

static tl_status function_length(tl_dataset *d, int64_t *batches)
{
    *batches = ((from_function *)d)->length;
    if (*batches) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED, "the dataset is a function and was made without 'length'");
}

static const tl_dataset_class function_class = {
    .cls = TL_CLASS(tl_dataset_class, "function", NULL, from_function, NULL,
                    .help = "batches that the program makes"),
    .next = function_next,
    .rewind = function_rewind,
    .state = function_state,
    .describe = function_describe,
    .length = function_length,
};

static tl_status copy_specs(from_function *f, const tl_spec *specs, int64_t count)
{
    if (!specs) return TL_OK;
    f->specs = tl_arena_copy(f->base.arena, specs, (size_t)count * sizeof *specs);
    f->spec_count = count;
    if (!f->specs) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++)
        if (!(f->specs[i].name = tl_arena_strdup(f->base.arena, specs[i].name))) return TL_ENOMEM;
    return TL_OK;
}

tl_status tl_dataset_from_function(tl_dataset **out, const tl_dataset_function *args)
{
    TL_TRY(tl_dataset_new(out, &function_class, NULL));
    from_function *f = (from_function *)*out;
    f->fill = args->fill;
    f->self = args->self;
    f->length = args->length;
    tl_status st = copy_specs(f, args->specs, args->spec_count);
    if (st != TL_OK) tl_dataset_free(out);
    return st;
}

/* --- batches that are there ------------------------------------------------------------------- */

typedef struct kept_batch {
    tl_named *fields;
    int64_t count;
} kept_batch;

typedef struct from_batches {
    tl_dataset base;
    kept_batch *batches;
    tl_spec *specs; /* of the first one */
    int64_t batch_count, index;
    bool repeat;
} from_batches;

static tl_status batches_next(tl_dataset *d, tl_ctx *c, tl_tensors *out, bool *more)
{
    from_batches *b = (from_batches *)d;
    if (b->index < 0 || b->index > b->batch_count)
        return TL_FAIL(TL_EINVAL,
                       "the restored position is batch %" PRId64 ", but there are %" PRId64
                       ": the state is of other data",
                       b->index, b->batch_count);
    int64_t index = b->repeat && b->index == b->batch_count ? 0 : b->index;
    if (index == b->batch_count) {
        *more = false;
        return TL_OK;
    }
    const kept_batch *batch = &b->batches[index];
    for (int64_t i = 0; i < batch->count; i++) {
        tl_tensor *t = tli_dataset_show(c, batch->fields[i].tensor);
        if (t) tl_tensors_put(c, out, batch->fields[i].name, t);
        TL_TRY(tl_ctx_status(c));
    }
    b->index = index + 1;
    return TL_OK;
}

static tl_status batches_rewind(tl_dataset *d)
{
    ((from_batches *)d)->index = 0;
    return TL_OK;
}

static tl_status batches_state(tl_dataset *d, tl_state *into)
{
    return tl_state_bind_int(into, "index", &((from_batches *)d)->index);
}

static tl_status batches_describe(tl_dataset *d, const tl_spec **specs, int64_t *count)
{
    from_batches *b = (from_batches *)d;
    *specs = b->specs;
    *count = b->batch_count ? b->batches[0].count : 0;
    return TL_OK;
}

static tl_status batches_length(tl_dataset *d, int64_t *batches)
{
    from_batches *b = (from_batches *)d;
    *batches = b->repeat ? -1 : b->batch_count;
    return TL_OK;
}

static void batches_dispose(tl_dataset *d)
{
    from_batches *b = (from_batches *)d;
    for (int64_t i = 0; i < b->batch_count; i++)
        for (int64_t k = 0; k < b->batches[i].count; k++)
            tl_tensor_free(&b->batches[i].fields[k].tensor);
}

static const tl_dataset_class batches_class = {
    .cls = TL_CLASS(tl_dataset_class, "batches", NULL, from_batches, NULL,
                    .help = "batches that are there"),
    .next = batches_next,
    .rewind = batches_rewind,
    .state = batches_state,
    .describe = batches_describe,
    .dispose = batches_dispose,
    .length = batches_length,
};

static tl_status keep_batch(from_batches *b, const tl_tensors *from)
{
    tl_arena *arena = b->base.arena;
    kept_batch *batch = &b->batches[b->batch_count++];
    batch->fields = tl_arena_array(arena, from->count, sizeof *batch->fields);
    if (!batch->fields) return TL_ENOMEM;
    for (int64_t i = 0; i < from->count; i++) {
        const tl_tensor *t = from->items[i].tensor;
        tl_named *field = &batch->fields[i];
        char spec[TL_TENSOR_TEXT];
        if (!t->contiguous)
            return TL_FAIL(TL_EINVAL,
                           "'%s' of batch %" PRId64 ", %s, is not row-major; make it so first "
                           "(tl_contiguous)",
                           from->items[i].name, b->batch_count - 1, tl_tensor_spec(spec, t));
        field->name = tl_arena_strdup(arena, from->items[i].name);
        if (!field->name) return TL_ENOMEM;
        TL_TRY(tl_tensor_keep(&field->tensor, t));
        batch->count++;
    }
    return TL_OK;
}

static tl_status keep_all(from_batches *b, const tl_tensors *batches, int64_t count)
{
    tl_arena *arena = b->base.arena;
    b->batches = tl_arena_array(arena, count, sizeof *b->batches);
    if (!b->batches) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) TL_TRY(keep_batch(b, &batches[i]));
    int64_t fields = count ? b->batches[0].count : 0;
    b->specs = tl_arena_array(arena, fields, sizeof *b->specs);
    if (!b->specs) return TL_ENOMEM;
    for (int64_t i = 0; i < fields; i++) {
        const tl_named *f = &b->batches[0].fields[i];
        b->specs[i] = (tl_spec){f->name, f->tensor->dtype, f->tensor->shape};
    }
    return TL_OK;
}

tl_status tl_dataset_from_batches(tl_dataset **out, const tl_tensors *batches, int64_t count,
                                  bool repeat)
{
    *out = NULL;
    if (repeat && count < 1)
        return TL_FAIL(TL_EINVAL, "there are no batches, so repeating them would never end");
    TL_TRY(tl_dataset_new(out, &batches_class, NULL));
    from_batches *b = (from_batches *)*out;
    b->repeat = repeat;
    tl_status st = keep_all(b, batches, count);
    if (st != TL_OK) tl_dataset_free(out);
    return st;
}
