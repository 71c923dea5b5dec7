#include <tilth/data/source.h>

#include <inttypes.h>
#include <string.h>

#include "data/source_impl.h"

tl_status tl_source_new(tl_source **out, const tl_source_class *cls)
{
    tl_arena *arena;
    *out = NULL;
    if (cls->size && cls->size < sizeof(tl_source))
        return TL_FAIL(TL_EINVAL,
                       "source class '%s': an instance has %zu bytes, fewer than the %zu of a "
                       "tl_source: let its struct begin with a tl_source",
                       cls->name, cls->size, sizeof(tl_source));
    TL_TRY(tl_arena_new(&arena));
    tl_source *s = tl_arena_alloc(arena, cls->size ? cls->size : sizeof(tl_source));
    if (!s) {
        tl_arena_free(&arena);
        return TL_ENOMEM;
    }
    s->cls = cls;
    s->arena = arena;
    *out = s;
    return TL_OK;
}

void tl_source_free(tl_source **s)
{
    if (!*s) return;
    if ((*s)->cls->dispose) (*s)->cls->dispose(*s);
    tl_arena *arena = (*s)->arena;
    tl_arena_free(&arena);
    *s = NULL;
}

tl_status tli_source_length(tl_source *s, int64_t part, int64_t *records)
{
    *records = -1;
    return s->cls->length ? s->cls->length(s, part, records) : TL_OK;
}

tl_status tl_source_count(tl_source *s, int64_t *records)
{
    *records = 0;
    for (int64_t part = 0; part < s->parts; part++) {
        int64_t here;
        TL_TRY(tli_source_length(s, part, &here));
        if (here < 0) {
            tl_record_at at = {.part = part};
            bool more = true;
            while (more) TL_TRY(s->cls->step(s, &at, &more));
            here = at.number;
        }
        *records += here;
    }
    return TL_OK;
}

const char *tli_source_part_name(const tl_source *s, int64_t part)
{
    return s->cls->part_name ? s->cls->part_name(s, part) : s->cls->name;
}

/* --- examples in memory ----------------------------------------------------------------------- */

typedef struct arrays {
    tl_source base;
    tl_array *fields; /* shapes are those of one example */
    size_t *row_bytes;
    int64_t field_count, examples;
} arrays;

static tl_status arrays_length(tl_source *s, int64_t part, int64_t *records)
{
    (void)part;
    *records = ((arrays *)s)->examples;
    return TL_OK;
}

static tl_status arrays_read(tl_source *s, const tl_record_at *at, tl_sample *out)
{
    const arrays *a = (const arrays *)s;
    for (int64_t i = 0; i < a->field_count; i++) {
        const tl_array *f = &a->fields[i];
        const char *row = (const char *)f->data + (size_t)at->number * a->row_bytes[i];
        TL_TRY(tl_sample_show(out, f->name, f->dtype, f->shape, row));
    }
    return TL_OK;
}

static const tl_source_class arrays_class = {
    .name = "arrays",
    .size = sizeof(arrays),
    .length = arrays_length,
    .read = arrays_read,
};

static tl_status check_arrays(const tl_array *fields, int64_t count)
{
    char text[TL_SHAPE_TEXT];
    if (count < 1 || count > TL_SAMPLE_FIELDS)
        return TL_FAIL(TL_EINVAL, "there are %" PRId64 " arrays; 1 to %d are expected", count,
                       TL_SAMPLE_FIELDS);
    for (int64_t i = 0; i < count; i++) {
        const tl_array *f = &fields[i];
        if (!f->name || !*f->name) return TL_FAIL(TL_EINVAL, "array %" PRId64 " has no name", i);
        TL_TRY(tl_shape_check(&f->shape, f->name));
        if (f->shape.rank < 1 || f->shape.dims[0] != fields[0].shape.dims[0])
            return TL_FAIL(TL_EINVAL,
                           "'%s' is %s; its first dimension must be the examples, and as many as "
                           "'%s' has",
                           f->name, tl_shape_text(text, &f->shape), fields[0].name);
        if (!f->data && tl_shape_count(&f->shape))
            return TL_FAIL(TL_EINVAL, "'%s' has no data", f->name);
        for (int64_t k = 0; k < i; k++)
            if (strcmp(fields[k].name, f->name) == 0)
                return TL_FAIL(TL_EEXISTS, "there are two arrays '%s'", f->name);
    }
    return TL_OK;
}

static tl_shape shape_of_one(const tl_shape *all)
{
    return tl_shape_of(all->rank - 1, all->dims + 1);
}

static tl_status fill_arrays(arrays *a, const tl_array *fields, int64_t count, bool copy)
{
    tl_arena *arena = a->base.arena;
    a->base.parts = 1;
    a->base.in_memory = true;
    a->examples = fields[0].shape.dims[0];
    a->fields = tl_arena_array(arena, count, sizeof *a->fields);
    a->row_bytes = tl_arena_array(arena, count, sizeof *a->row_bytes);
    if (!a->fields || !a->row_bytes) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        tl_array *f = &a->fields[i];
        *f = fields[i];
        f->shape = shape_of_one(&fields[i].shape);
        a->row_bytes[i] = (size_t)tl_shape_count(&f->shape) * tl_dtype_size(f->dtype);
        size_t bytes = (size_t)a->examples * a->row_bytes[i];
        if (!(f->name = tl_arena_strdup(arena, f->name))) return TL_ENOMEM;
        if (copy && bytes && !(f->data = tl_arena_copy(arena, f->data, bytes))) return TL_ENOMEM;
    }
    a->field_count = count;
    return TL_OK;
}

tl_status tl_source_arrays(tl_source **out, const tl_array *fields, int64_t count, bool copy)
{
    *out = NULL;
    TL_TRY_NOTE(check_arrays(fields, count), "source of arrays");
    TL_TRY(tl_source_new(out, &arrays_class));
    tl_status st = fill_arrays((arrays *)*out, fields, count, copy);
    if (st != TL_OK) tl_source_free(out);
    return st;
}

/* --- a function of the program ---------------------------------------------------------------- */

typedef struct function {
    tl_source base;
    tl_sample_make_fn *make;
    void *self;
    int64_t length;
} function;

static tl_status function_length(tl_source *s, int64_t part, int64_t *records)
{
    (void)part;
    *records = ((function *)s)->length;
    return TL_OK;
}

static tl_status function_read(tl_source *s, const tl_record_at *at, tl_sample *out)
{
    const function *f = (const function *)s;
    return f->make(f->self, at->number, out);
}

static const tl_source_class function_class = {
    .name = "function",
    .size = sizeof(function),
    .length = function_length,
    .read = function_read,
};

tl_status tl_source_function(tl_source **out, tl_sample_make_fn *make, void *self, int64_t length)
{
    *out = NULL;
    if (length < 0) return TL_FAIL(TL_EINVAL, "a source cannot have %" PRId64 " samples", length);
    TL_TRY(tl_source_new(out, &function_class));
    function *f = (function *)*out;
    f->base.parts = 1;
    f->make = make;
    f->self = self;
    f->length = length;
    return TL_OK;
}
