/* Samples become tensors: rows of memory that the engine owns, written side by side, handed over as
 * they are. */
#include <inttypes.h>
#include <string.h>

#include "core/inner/element.h"
#include "data/pipeline_impl.h"

typedef struct column {
    const char *name;
    tl_dtype dtype;
    tl_shape shape; /* of one example, as wide as the widest */
    bool ragged;    /* some are narrower */
    size_t row;     /* bytes */
    char fill[8];   /* one element of what narrower ones are filled up with */
    tl_lease lease;
} column;

typedef struct collation {
    const tli_slots *members;
    bool padded; /* all samples were looked at before rows are written; else each is with its row */
    column columns[TL_SAMPLE_FIELDS];
    int64_t count;
} collation;

/* --- what the columns are --------------------------------------------------------------------- */

static tl_status unlike(const column *c, const tl_sample *s, const tl_sample_field *f,
                        const tl_sample *first, const char *advice)
{
    char one[TL_SHAPE_TEXT], other[TL_SHAPE_TEXT];
    return TL_FAIL(TL_EINVAL,
                   "field '%s' is %s%s in record %" PRId64
                   " of '%s', but %s%s in those before it, from record %" PRId64 " of '%s' on: %s",
                   c->name, tl_dtype_name(f->dtype), tl_shape_text(one, &f->shape), s->at.number,
                   s->at.file, tl_dtype_name(c->dtype), tl_shape_text(other, &c->shape),
                   first->at.number, first->at.file, advice);
}

// The field that belongs to a column, mostly at the same place.
static const tl_sample_field *field_of(const tl_sample *s, int64_t i, const char *name)
{
    if (i < s->count && s->fields[i].name == name) return &s->fields[i];
    return tl_sample_peek(s, name);
}

static tl_status join(column *c, const tl_sample *s, const tl_sample_field *f,
                      const tl_sample *first, bool padded)
{
    if (f->dtype != c->dtype || f->shape.rank != c->shape.rank)
        return unlike(c, s, f, first, "all must have one type and as many axes");
    if (tl_shape_equal(&f->shape, &c->shape)) return TL_OK;
    if (!padded) return unlike(c, s, f, first, "make them alike, or ask for padded batches");
    c->ragged = true;
    for (int i = 0; i < c->shape.rank; i++)
        if (f->shape.dims[i] > c->shape.dims[i]) c->shape.dims[i] = f->shape.dims[i];
    return TL_OK;
}

static tl_status join_sample(collation *all, const tl_sample *s)
{
    const tl_sample *first = &all->members->items[0]->s;
    for (int64_t i = 0; i < all->count; i++) {
        column *c = &all->columns[i];
        const tl_sample_field *f = field_of(s, i, c->name);
        if (!f)
            return TL_FAIL(TL_EINVAL,
                           "record %" PRId64 " of '%s' has no field '%s', as record %" PRId64
                           " of '%s' has; all of a batch must have the same",
                           s->at.number, s->at.file, c->name, first->at.number, first->at.file);
        TL_TRY(join(c, s, f, first, all->padded));
    }
    if (s->count == all->count) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "record %" PRId64 " of '%s' has %" PRId64 " fields, but record %" PRId64
                   " of '%s' has %" PRId64 "; all of a batch must have the same",
                   s->at.number, s->at.file, s->count, first->at.number, first->at.file,
                   all->count);
}

static tl_status make_columns(const tli_pipeline *p, collation *all)
{
    const tl_sample *first = &all->members->items[0]->s;
    if (!first->count)
        return TL_FAIL(
            TL_EINVAL,
            "record %" PRId64
            " of '%s' has no fields to make a batch of: decode it, or have a map add some",
            first->at.number, first->at.file);
    all->count = first->count;
    for (int64_t i = 0; i < first->count; i++) {
        const tl_sample_field *f = &first->fields[i];
        if (f->shape.rank == TL_MAX_RANK)
            return TL_FAIL(
                TL_ELIMIT,
                "field '%s' has %d axes, and a batch would have one more than there can be",
                f->name, TL_MAX_RANK);
        all->columns[i] = (column){.name = f->name, .dtype = f->dtype, .shape = f->shape};
    }
    for (int64_t i = 0; i < p->args.pad_count; i++)
        if (!tl_sample_peek(first, p->args.pads[i].name))
            return TL_FAIL(TL_ENOTFOUND,
                           "pads: there is no field '%s' in record %" PRId64 " of '%s'",
                           p->args.pads[i].name, first->at.number, first->at.file);
    for (int64_t i = 1; all->padded && i < all->members->count; i++)
        TL_TRY(join_sample(all, &all->members->items[i]->s));
    return TL_OK;
}

/* --- filling up ------------------------------------------------------------------------------- */

static tl_status pad_element(const tli_pipeline *p, column *c)
{
    double value = 0;
    for (int64_t i = 0; i < p->args.pad_count; i++)
        if (strcmp(p->args.pads[i].name, c->name) == 0) value = p->args.pads[i].value;
    tli_element_set(c->dtype, c->fill, 0, value);
    if (tl_dtype_is_float(c->dtype) || tli_element_get(c->dtype, c->fill, 0) == value) return TL_OK;
    return TL_FAIL(TL_EINVAL, "field '%s' is %s and cannot be filled up with %g", c->name,
                   tl_dtype_name(c->dtype), value);
}

// Buckets have one length for all their batches: of the field that they go by, and of those as long
// as it.
static void widen(const tli_pipeline *p, collation *all, int64_t i, int64_t pad_to)
{
    column *c = &all->columns[i];
    if (pad_to <= 0 || c->shape.rank < 1) return;
    for (int64_t m = 0; m < all->members->count; m++) {
        const tl_sample *s = &all->members->items[m]->s;
        const tl_sample_field *by = tl_sample_peek(s, p->args.bucket_by);
        if (!by || field_of(s, i, c->name)->shape.dims[0] != by->shape.dims[0]) return;
    }
    if (c->shape.dims[0] != pad_to) c->ragged = true;
    c->shape.dims[0] = pad_to;
}

static void fill_elements(char *to, const column *c, size_t size, size_t count)
{
    for (size_t i = 0; i < count; i++, to += size) memcpy(to, c->fill, size);
}

// Copies an array into a corner of a larger one, one axis after the other, and fills the rest up.
static void copy_padded(char *to, const char *from, const column *c, const tl_shape *have, int axis)
{
    size_t size = tl_dtype_size(c->dtype), wide = size, narrow = size;
    for (int i = axis + 1; i < have->rank; i++) {
        wide *= (size_t)c->shape.dims[i];
        narrow *= (size_t)have->dims[i];
    }
    size_t there = axis < have->rank ? (size_t)have->dims[axis] : 1;
    size_t wanted = axis < have->rank ? (size_t)c->shape.dims[axis] : 1;
    if (wide == narrow) {
        if (there && wide) memcpy(to, from, there * wide);
    } else {
        for (size_t i = 0; i < there; i++)
            copy_padded(to + i * wide, from + i * narrow, c, have, axis + 1);
    }
    fill_elements(to + there * wide, c, size, (wanted - there) * wide / size);
}

static tl_status write_rows(int64_t begin, int64_t end, void *payload)
{
    collation *all = payload;
    for (int64_t m = begin; m < end; m++) {
        const tl_sample *s = &all->members->items[m]->s;
        if (!all->padded) TL_TRY(join_sample(all, s));
        for (int64_t i = 0; i < all->count; i++) {
            const column *c = &all->columns[i];
            const tl_sample_field *f = field_of(s, i, c->name);
            char *row = (char *)c->lease.data + (size_t)m * c->row;
            if (c->ragged) copy_padded(row, f->data, c, &f->shape, 0);
            else if (c->row) memcpy(row, f->data, c->row);
        }
    }
    return TL_OK;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static tl_status open_column(const tli_pipeline *p, column *c, int64_t examples, tli_ready *out)
{
    tl_shape shape = {.rank = c->shape.rank + 1, .dims = {examples}};
    for (int i = 0; i < c->shape.rank; i++) shape.dims[i + 1] = c->shape.dims[i];
    TL_TRY(tl_shape_check(&shape, c->name));
    c->row = (size_t)tl_shape_count(&c->shape) * tl_dtype_size(c->dtype);
    tl_named *named = &out->tensors[out->count];
    TL_TRY(tl_tensor_new_at(&named->tensor, p->engine, TL_AT_HOST, c->dtype, shape));
    named->name = c->name;
    out->count++;
    return tl_lease_discard(&c->lease, named->tensor);
}

static int64_t grain_of(const collation *all)
{
    size_t bytes = 1;
    for (int64_t i = 0; i < all->count; i++) bytes += all->columns[i].row;
    int64_t grain = (int64_t)((64 << 10) / bytes); // copies are cheap: a piece is worth handing out
    return grain < 1 ? 1 : grain;
}

tl_status tli_collate(tli_pipeline *p, const tli_slots *members, int64_t pad_to, tli_ready *out)
{
    collation all = {.members = members, .padded = p->args.padded};
    tl_status st = make_columns(p, &all);
    for (int64_t i = 0; st == TL_OK && i < all.count; i++) {
        column *c = &all.columns[i];
        widen(p, &all, i, pad_to);
        if (c->ragged) TL_TRY_DONE(st, pad_element(p, c));
        TL_TRY_DONE(st, open_column(p, c, members->count, out));
    }
    if (st == TL_OK)
        st = tl_parallel_for(p->pool, members->count, grain_of(&all), write_rows, &all);
    for (int64_t i = 0; i < all.count && st == TL_OK; i++) st = tl_lease_end(&all.columns[i].lease);
done:
    for (int64_t i = 0; i < all.count; i++) tl_lease_drop(&all.columns[i].lease);
    return st;
}

void tli_ready_clear(tli_ready *r)
{
    for (int64_t i = 0; i < r->count; i++) tl_tensor_free(&r->tensors[i].tensor);
    r->count = 0;
    r->ended = false;
    r->failed = TL_OK;
}
