#include <inttypes.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/rng.h>
#include <tilth/data/dataset.h>

typedef struct arrays {
    tl_dataset base;
    tl_array *fields;
    size_t *row_bytes; /* of one example, for each field */
    tl_spec *specs;
    int64_t field_count, examples, batch_size;
    bool shuffle, repeat, drop_remainder;
    // The position. Restoring a state writes here.
    uint64_t seed;
    int64_t epoch, position; /* pass, and examples of it that were given out */
    // The order of a pass, and which one it is of.
    int64_t *order;
    uint64_t order_seed;
    int64_t order_epoch; /* -1: of none */
} arrays;

/* --- the order -------------------------------------------------------------------------------- */

// Drawn anew when the pass, or the seed that a restored state brought, is another one.
static void order_pass(arrays *a)
{
    if (!a->shuffle || (a->order_epoch == a->epoch && a->order_seed == a->seed)) return;
    tl_rng rng;
    tl_rng_init(&rng, a->seed);
    tl_rng_split(&rng, &rng, "dataset/order");
    tl_rng_fold(&rng, &rng, (uint64_t)a->epoch);
    tl_rng_permutation(&rng, a->order, a->examples);
    a->order_epoch = a->epoch;
    a->order_seed = a->seed;
}

static void begin_pass(arrays *a)
{
    a->epoch++;
    a->position = 0;
}

static tl_status check_position(const arrays *a)
{
    if (a->epoch >= 0 && a->position >= 0 && a->position <= a->examples) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "the restored position is example %" PRId64 " of pass %" PRId64
                   ", but there are %" PRId64 " examples: the state is of other data",
                   a->position, a->epoch, a->examples);
}

/* --- batches ---------------------------------------------------------------------------------- */

// Examples `from` to `from + count` of the order of this pass.
static void copy_rows(const arrays *a, int64_t field, char *to, int64_t from, int64_t count)
{
    size_t bytes = a->row_bytes[field];
    const char *data = a->fields[field].data;
    if (!a->shuffle) {
        if (bytes) memcpy(to, data + (size_t)from * bytes, (size_t)count * bytes);
        return;
    }
    const int64_t *order = a->order + from;
    for (int64_t i = 0; i < count; i++, to += bytes)
        if (bytes) memcpy(to, data + (size_t)order[i] * bytes, bytes);
}

static tl_tensor *new_field(const arrays *a, tl_ctx *c, int64_t field, int64_t count)
{
    tl_shape shape = a->specs[field].shape;
    shape.dims[0] = count;
    return tl_ctx_tensor(c, TL_AT_HOST, a->specs[field].dtype, shape);
}

// Puts tensors for `count` examples into `out`, leased for writing.
static tl_status open_batch(const arrays *a, tl_ctx *c, tl_tensors *out, tl_lease *leases,
                            int64_t count, int64_t *opened)
{
    for (*opened = 0; *opened < a->field_count; ++*opened) {
        tl_tensor *t = new_field(a, c, *opened, count);
        if (!t) return tl_ctx_status(c);
        tl_tensors_put(c, out, a->specs[*opened].name, t);
        TL_TRY(tl_ctx_status(c));
        TL_TRY(tl_lease_discard(&leases[*opened], t));
    }
    return TL_OK;
}

// Fills rows of all fields; goes on in the next pass when this one ends before.
static void fill(arrays *a, const tl_lease *leases, int64_t count)
{
    for (int64_t done = 0; done < count;) {
        if (a->position == a->examples) begin_pass(a);
        order_pass(a);
        int64_t here = a->examples - a->position;
        if (here > count - done) here = count - done;
        for (int64_t f = 0; f < a->field_count; f++)
            copy_rows(a, f, (char *)leases[f].data + (size_t)done * a->row_bytes[f], a->position,
                      here);
        a->position += here;
        done += here;
    }
}

// How many examples the next batch has; 0: the pass is over.
static int64_t next_count(arrays *a)
{
    int64_t left = a->examples - a->position;
    if (left >= a->batch_size) return a->batch_size;
    if (!a->repeat) return a->drop_remainder ? 0 : left;
    if (a->drop_remainder) begin_pass(a);
    return a->batch_size;
}

static tl_status arrays_next(tl_dataset *d, tl_ctx *c, tl_tensors *out, bool *more)
{
    arrays *a = (arrays *)d;
    TL_TRY(check_position(a));
    int64_t before_epoch = a->epoch, before_position = a->position, opened = 0;
    int64_t count = next_count(a);
    if (!count) {
        *more = false;
        return TL_OK;
    }
    tl_lease *leases = tl_arena_array(tl_ctx_arena(c), a->field_count, sizeof *leases);
    tl_status st = leases ? open_batch(a, c, out, leases, count, &opened) : TL_ENOMEM;
    if (st == TL_OK) fill(a, leases, count);
    for (int64_t f = 0; f < opened && st == TL_OK; f++) st = tl_lease_end(&leases[f]);
    for (int64_t f = 0; f < opened; f++) tl_lease_drop(&leases[f]);
    if (st != TL_OK) { // the same batch comes again
        a->epoch = before_epoch;
        a->position = before_position;
    }
    return st;
}

static tl_status arrays_rewind(tl_dataset *d)
{
    arrays *a = (arrays *)d;
    if (a->position) begin_pass(a);
    return TL_OK;
}

static tl_status arrays_state(tl_dataset *d, tl_state *into)
{
    arrays *a = (arrays *)d;
    TL_TRY(tl_state_bind_words(into, "seed", &a->seed, 1));
    TL_TRY(tl_state_bind_int(into, "epoch", &a->epoch));
    return tl_state_bind_int(into, "position", &a->position);
}

static tl_status arrays_describe(tl_dataset *d, const tl_spec **specs, int64_t *count)
{
    arrays *a = (arrays *)d;
    *specs = a->specs;
    *count = a->field_count;
    return TL_OK;
}

static tl_status arrays_length(tl_dataset *d, int64_t *batches)
{
    arrays *a = (arrays *)d;
    int64_t rest = a->drop_remainder ? 0 : a->batch_size - 1;
    *batches = a->repeat ? -1 : (a->examples + rest) / a->batch_size;
    return TL_OK;
}

static void arrays_dispose(tl_dataset *d)
{
    tl_free(((arrays *)d)->order);
}

static const tl_dataset_class arrays_class = {
    .cls = TL_CLASS(tl_dataset_class, "arrays", NULL, arrays, NULL, .help = "arrays in memory"),
    .next = arrays_next,
    .rewind = arrays_rewind,
    .state = arrays_state,
    .describe = arrays_describe,
    .dispose = arrays_dispose,
    .length = arrays_length,
};

/* --- making ----------------------------------------------------------------------------------- */

static tl_status check_array(const tl_arrays_args *args, int64_t i)
{
    const tl_array *f = &args->arrays[i];
    char spec[TL_SHAPE_TEXT];
    if (!f->name || !*f->name) return TL_FAIL(TL_EINVAL, "array %" PRId64 " has no name", i);
    TL_TRY(tl_shape_check(&f->shape, f->name));
    if (f->shape.rank < 1)
        return TL_FAIL(TL_EINVAL, "'%s' is a scalar; its first dimension must be the examples",
                       f->name);
    if (f->shape.dims[0] != args->arrays[0].shape.dims[0])
        return TL_FAIL(TL_EINVAL,
                       "'%s' is %s, but '%s' has %" PRId64 " examples; all must have as many",
                       f->name, tl_shape_text(spec, &f->shape), args->arrays[0].name,
                       args->arrays[0].shape.dims[0]);
    if (!f->data && tl_shape_count(&f->shape))
        return TL_FAIL(TL_EINVAL, "'%s' has no data", f->name);
    for (int64_t k = 0; k < i; k++)
        if (strcmp(args->arrays[k].name, f->name) == 0)
            return TL_FAIL(TL_EEXISTS, "there are two arrays '%s'", f->name);
    return TL_OK;
}

static tl_status check_args(const tl_arrays_args *args)
{
    if (args->count < 1) return TL_FAIL(TL_EINVAL, "there are no arrays");
    if (args->batch_size < 1)
        return TL_FAIL(TL_EINVAL, "batch_size is %" PRId64 " and must be at least 1",
                       args->batch_size);
    for (int64_t i = 0; i < args->count; i++) TL_TRY(check_array(args, i));
    int64_t examples = args->arrays[0].shape.dims[0];
    if (args->repeat && (examples == 0 || (args->drop_remainder && examples < args->batch_size)))
        return TL_FAIL(TL_EINVAL,
                       "%" PRId64 " examples make no batch of %" PRId64
                       ", so repeating them would never end",
                       examples, args->batch_size);
    return TL_OK;
}

static tl_status add_field(arrays *a, const tl_array *from, int64_t i, bool copy)
{
    tl_arena *arena = a->base.arena;
    size_t bytes = (size_t)tl_shape_count(&from->shape) * tl_dtype_size(from->dtype);
    a->fields[i] = *from;
    a->fields[i].name = tl_arena_strdup(arena, from->name);
    if (!a->fields[i].name) return TL_ENOMEM;
    if (copy && bytes && !(a->fields[i].data = tl_arena_copy(arena, from->data, bytes)))
        return TL_ENOMEM;
    a->row_bytes[i] = a->examples ? bytes / (size_t)a->examples : 0;
    a->specs[i] = (tl_spec){a->fields[i].name, from->dtype, from->shape};
    a->specs[i].shape.dims[0] = a->batch_size;
    return TL_OK;
}

static tl_status fill_in(arrays *a, const tl_arrays_args *args)
{
    tl_arena *arena = a->base.arena;
    a->examples = args->arrays[0].shape.dims[0];
    a->field_count = args->count;
    a->batch_size = args->batch_size;
    a->shuffle = args->shuffle;
    a->repeat = args->repeat;
    a->drop_remainder = args->drop_remainder;
    a->seed = args->seed;
    a->order_epoch = -1;
    a->fields = tl_arena_array(arena, args->count, sizeof *a->fields);
    a->row_bytes = tl_arena_array(arena, args->count, sizeof *a->row_bytes);
    a->specs = tl_arena_array(arena, args->count, sizeof *a->specs);
    if (!a->fields || !a->row_bytes || !a->specs) return TL_ENOMEM;
    for (int64_t i = 0; i < args->count; i++) TL_TRY(add_field(a, &args->arrays[i], i, args->copy));
    if (!args->shuffle) return TL_OK;
    size_t bytes = (size_t)a->examples * sizeof *a->order;
    a->order = tl_alloc(bytes);
    return a->order ? TL_OK : TL_FAIL_NOMEM(bytes);
}

tl_status tl_dataset_from_arrays(tl_dataset **out, const tl_arrays_args *args)
{
    *out = NULL;
    TL_TRY_NOTE(check_args(args), "dataset of arrays");
    TL_TRY(tl_dataset_new(out, &arrays_class, NULL));
    tl_status st = fill_in((arrays *)*out, args);
    if (st != TL_OK) tl_dataset_free(out);
    return st;
}
