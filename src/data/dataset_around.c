#include <inttypes.h>
#include <string.h>

#include "data/dataset_impl.h"

typedef struct around {
    tl_dataset base;
    tl_dataset *inner;
    int64_t count; /* of batches (take), or of examples (pad) */
    int64_t taken;
    tl_spec *specs; /* once they were asked for */
    int64_t spec_count;
} around;

static tl_status around_state(tl_dataset *d, tl_state *into)
{
    tl_state *inner;
    TL_TRY(tl_state_sub(&inner, into, "inner"));
    return tl_dataset_state(((around *)d)->inner, inner);
}

static tl_status around_rewind(tl_dataset *d)
{
    around *a = (around *)d;
    TL_TRY(tl_dataset_rewind(a->inner));
    a->taken = 0;
    return TL_OK;
}

static tl_status around_describe(tl_dataset *d, const tl_spec **specs, int64_t *count)
{
    return tl_dataset_describe(((around *)d)->inner, specs, count);
}

static tl_status around_length(tl_dataset *d, int64_t *batches)
{
    return tl_dataset_length(((around *)d)->inner, batches);
}

static tl_status around_tell(tl_dataset *d, tl_str *out)
{
    return tl_dataset_tell(((around *)d)->inner, out);
}

static void around_dispose(tl_dataset *d)
{
    tl_dataset_free(&((around *)d)->inner);
}

static const tl_dataset_class around_class = {
    .cls = {.class_size = sizeof(tl_dataset_class), .name = "around", .size = sizeof(around)},
    .rewind = around_rewind,
    .state = around_state,
    .describe = around_describe,
    .dispose = around_dispose,
    .length = around_length,
    .tell = around_tell,
};

// Takes *inner over, also after a failure.
static tl_status put_around(tl_dataset **out, const tl_dataset_class *cls, tl_dataset **inner,
                            int64_t count)
{
    tl_status st = tl_dataset_new(out, cls, NULL);
    if (st != TL_OK) {
        tl_dataset_free(inner);
        return st;
    }
    around *a = (around *)*out;
    a->inner = *inner;
    a->count = count;
    *inner = NULL;
    return TL_OK;
}

/* --- the first batches ------------------------------------------------------------------------ */

static tl_status take_next(tl_dataset *d, tl_ctx *c, tl_tensors *out, bool *more)
{
    around *a = (around *)d;
    if (a->taken >= a->count) {
        *more = false;
        return TL_OK;
    }
    TL_TRY(tli_dataset_make(a->inner, c, out, more));
    if (*more) a->taken++;
    return TL_OK;
}

static tl_status take_state(tl_dataset *d, tl_state *into)
{
    TL_TRY(tl_state_bind_int(into, "taken", &((around *)d)->taken));
    return around_state(d, into);
}

static tl_status take_length(tl_dataset *d, int64_t *batches)
{
    around *a = (around *)d;
    if (tl_dataset_length(a->inner, batches) != TL_OK || *batches < 0 || *batches > a->count)
        *batches = a->count;
    return TL_OK;
}

static const tl_dataset_class take_class = {
    .cls = TL_CLASS(tl_dataset_class, "take", &around_class.cls, around, NULL,
                    .help = "the first batches of another dataset"),
    .next = take_next,
    .state = take_state,
    .length = take_length,
};

tl_status tl_dataset_take(tl_dataset **out, tl_dataset **inner, int64_t count)
{
    *out = NULL;
    if (count < 0) {
        tl_dataset_free(inner);
        return TL_FAIL(TL_EINVAL, "%" PRId64 " batches cannot be taken", count);
    }
    return put_around(out, &take_class, inner, count);
}

/* --- batches of one size ---------------------------------------------------------------------- */

static tl_status pad_copy(tl_tensor *wide, const tl_tensor *t)
{
    tl_lease from, to;
    TL_TRY(tl_lease_read(&from, t));
    tl_status st = tl_lease_discard(&to, wide);
    if (st == TL_OK) {
        size_t bytes = tl_tensor_bytes(t), row = bytes / (size_t)t->shape.dims[0];
        if (bytes) memcpy(to.data, from.data, bytes);
        for (size_t at = bytes; at < tl_tensor_bytes(wide); at += row)
            memcpy((char *)to.data + at, from.data, row);
        st = tl_lease_end(&to);
    }
    tl_lease_drop(&from);
    return st;
}

// `t` with copies of its first example behind it.
static tl_tensor *fill_up(tl_ctx *c, const tl_tensor *t, int64_t size)
{
    tl_shape shape = t->shape;
    shape.dims[0] = size;
    tl_tensor *wide = tl_ctx_tensor(c, TL_AT_HOST, t->dtype, shape);
    if (!wide) return NULL;
    return pad_copy(wide, t) == TL_OK ? wide : tl_ctx_fail(c);
}

static tl_status write_weights(tl_tensor *to, const tl_tensor *given, int64_t examples)
{
    tl_lease write;
    TL_TRY(tl_lease_discard(&write, to));
    float *weights = write.data;
    int64_t each = tl_tensor_count(to) / to->shape.dims[0];
    for (int64_t i = 0; i < tl_tensor_count(to); i++)
        weights[i] = i < examples * each ? 1.0f : 0.0f;
    tl_status st = TL_OK;
    tl_lease read;
    if (given && (st = tl_lease_read(&read, given)) == TL_OK) {
        memcpy(weights, read.data, tl_tensor_bytes(given));
        tl_lease_drop(&read);
    }
    if (st == TL_OK) st = tl_lease_end(&write);
    tl_lease_drop(&write);
    return st;
}

// 1, or what was given, for each example; 0 for those that fill up.
static tl_tensor *new_weights(tl_ctx *c, const tl_tensor *given, int64_t examples, int64_t size)
{
    tl_shape shape = given ? given->shape : TL_SHAPE(size);
    shape.dims[0] = size;
    tl_tensor *t = tl_ctx_tensor(c, TL_AT_HOST, TL_F32, shape);
    if (!t) return NULL;
    return write_weights(t, given, examples) == TL_OK ? t : tl_ctx_fail(c);
}

// The examples of a batch, which all fields have; -1: the context failed.
static int64_t count_examples(tl_ctx *c, const tl_tensors *batch, int64_t most)
{
    int64_t examples = -1;
    for (int64_t i = 0; i < batch->count; i++) {
        const tl_shape *shape = &batch->items[i].tensor->shape;
        char spec[TL_TENSOR_TEXT];
        int64_t here = shape->rank ? shape->dims[0] : -1;
        if (here > 0 && here <= most && (examples < 0 || here == examples)) {
            examples = here;
            continue;
        }
        (void)TL_FAIL(TL_EINVAL,
                      "'%s' is %s; its first axis must be the examples of the batch, 1 to %" PRId64
                      " of them and as many as in the other fields",
                      batch->items[i].name, tl_tensor_spec(spec, batch->items[i].tensor), most);
        tl_ctx_fail(c);
        return -1;
    }
    return examples;
}

static bool check_weight(tl_ctx *c, const tl_tensor *weight)
{
    if (!weight || weight->dtype == TL_F32) return true;
    char spec[TL_TENSOR_TEXT];
    (void)TL_FAIL(TL_EINVAL, "'" TL_BATCH_WEIGHT "' is %s and must be float32 to be filled up",
                  tl_tensor_spec(spec, weight));
    tl_ctx_fail(c);
    return false;
}

static tl_status pad_next(tl_dataset *d, tl_ctx *c, tl_tensors *out, bool *more)
{
    around *a = (around *)d;
    tl_tensors batch = {0};
    TL_TRY(tli_dataset_make(a->inner, c, &batch, more));
    if (!*more) return TL_OK;
    tl_tensor *weight = tl_tensors_peek(&batch, TL_BATCH_WEIGHT);
    int64_t examples = count_examples(c, &batch, a->count);
    if (examples > 0 && check_weight(c, weight)) {
        for (int64_t i = 0; i < batch.count && !tl_ctx_failed(c); i++) {
            tl_tensor *t = batch.items[i].tensor;
            if (t == weight) continue;
            if (examples < a->count) t = fill_up(c, t, a->count);
            if (t) tl_tensors_put(c, out, batch.items[i].name, t);
        }
        if (!weight || examples < a->count) weight = new_weights(c, weight, examples, a->count);
        if (weight) tl_tensors_put(c, out, TL_BATCH_WEIGHT, weight);
    }
    return tl_ctx_status(c);
}

// The fields of what is inside, for full batches, and weights if there are none.
static tl_status make_specs(around *a)
{
    const tl_spec *inner;
    int64_t count;
    bool weighted = false;
    TL_TRY(tl_dataset_describe(a->inner, &inner, &count));
    tl_spec *specs = tl_arena_array(a->base.arena, count + 1, sizeof *specs);
    if (!specs) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        specs[i] = inner[i];
        specs[i].shape.dims[0] = a->count;
        weighted |= strcmp(inner[i].name, TL_BATCH_WEIGHT) == 0;
    }
    if (!weighted) specs[count++] = (tl_spec){TL_BATCH_WEIGHT, TL_F32, TL_SHAPE(a->count)};
    a->specs = specs;
    a->spec_count = count;
    return TL_OK;
}

static tl_status pad_describe(tl_dataset *d, const tl_spec **specs, int64_t *count)
{
    around *a = (around *)d;
    if (!a->specs) TL_TRY(make_specs(a));
    *specs = a->specs;
    *count = a->spec_count;
    return TL_OK;
}

static const tl_dataset_class pad_class = {
    .cls = TL_CLASS(tl_dataset_class, "pad", &around_class.cls, around, NULL,
                    .help = "batches of another dataset, all of one size"),
    .next = pad_next,
    .describe = pad_describe,
};

tl_status tl_dataset_pad(tl_dataset **out, tl_dataset **inner, int64_t batch_size)
{
    *out = NULL;
    if (batch_size < 1) {
        tl_dataset_free(inner);
        return TL_FAIL(TL_EINVAL, "batch_size is %" PRId64 " and must be at least 1", batch_size);
    }
    return put_around(out, &pad_class, inner, batch_size);
}
