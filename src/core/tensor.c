#include "core/inner/tensor.h"

#include <inttypes.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/sys/core/backend.h>

#include "core/inner/element.h"
#include "core/inner/engine.h"

void tli_tensor_row_major(tl_tensor *t)
{
    tl_shape_strides(t->strides, &t->shape);
    t->contiguous = true;
}

bool tli_tensor_is_row_major(const tl_tensor *t)
{
    int64_t step = 1;
    for (int i = t->shape.rank - 1; i >= 0; i--) {
        if (t->shape.dims[i] == 0) return true;
        if (t->shape.dims[i] != 1 && t->strides[i] != step) return false;
        step *= t->shape.dims[i];
    }
    return true;
}

tl_status tl_tensor_new(tl_tensor **out, tl_engine *engine, tl_dtype dtype, tl_shape shape)
{
    TL_TRY(tl_shape_check(&shape, "tensor"));
    tl_tensor *t = tl_alloc_zero(sizeof *t);
    if (!t) return TL_FAIL_NOMEM(sizeof *t);
    t->dtype = dtype;
    t->shape = shape;
    tli_tensor_row_major(t);
    tl_status st = tli_storage_new(&t->storage, &engine->memory, tl_tensor_bytes(t));
    if (st != TL_OK) {
        tl_free(t);
        return st;
    }
    *out = t;
    return TL_OK;
}

static tl_status check_elements(const tl_tensor *t)
{
    if (t->storage) return TL_OK;
    char spec[TL_TENSOR_TEXT];
    return TL_FAIL(TL_ESTATE,
                   "%s has no elements yet: it is being captured, and is computed when the program runs. "
                   "Log it, or make it an output of the captured function, and read it afterwards",
                   tl_tensor_spec(spec, t));
}

tl_status tl_tensor_keep(tl_tensor **out, const tl_tensor *t)
{
    TL_TRY(check_elements(t));
    tl_tensor *k = tl_alloc_zero(sizeof *k);
    if (!k) return TL_FAIL_NOMEM(sizeof *k);
    *k = (tl_tensor){.dtype = t->dtype, .contiguous = t->contiguous, .shape = t->shape,
                     .offset = t->offset, .storage = t->storage};
    memcpy(k->strides, t->strides, sizeof k->strides);
    tli_storage_retain(k->storage);
    *out = k;
    return TL_OK;
}

tl_status tl_tensor_place(tl_tensor *t, const tl_tensor *block, int64_t offset)
{
    tl_storage *before = t->storage;
    if (block) {
        TL_TRY(check_elements(block));
        char part[TL_TENSOR_TEXT], whole[TL_TENSOR_TEXT];
        if (!block->contiguous)
            return TL_FAIL(TL_EINVAL, "%s is not row-major and has no parts; make it contiguous first",
                           tl_tensor_spec(whole, block));
        if (block->dtype != t->dtype || offset < 0
            || tl_tensor_count(t) > tl_tensor_count(block) - offset)
            return TL_FAIL(TL_EINVAL, "%s does not fit into %s at element %" PRId64,
                           tl_tensor_spec(part, t), tl_tensor_spec(whole, block), offset);
        tli_storage_retain(block->storage);
        t->offset = block->offset + offset;
        tli_tensor_row_major(t);
    }
    t->storage = block ? block->storage : NULL;
    tli_storage_release(before);
    return TL_OK;
}

tl_status tl_tensor_part(tl_tensor **out, const tl_tensor *t, int64_t offset, tl_shape shape)
{
    TL_TRY(tl_shape_check(&shape, "part of a tensor"));
    tl_tensor *part = tl_alloc_zero(sizeof *part);
    if (!part) return TL_FAIL_NOMEM(sizeof *part);
    part->dtype = t->dtype;
    part->shape = shape;
    tl_status st = tl_tensor_place(part, t, offset);
    if (st != TL_OK) tl_free(part);
    *out = st == TL_OK ? part : NULL;
    return st;
}

void tl_tensor_free(tl_tensor **t)
{
    if (!*t) return;
    tli_storage_release((*t)->storage);
    tl_free(*t);
    *t = NULL;
}

int64_t tl_tensor_count(const tl_tensor *t)
{
    return tl_shape_count(&t->shape);
}

size_t tl_tensor_bytes(const tl_tensor *t)
{
    return (size_t)tl_tensor_count(t) * tl_dtype_size(t->dtype);
}

tl_engine *tl_tensor_engine(const tl_tensor *t)
{
    return t->storage ? t->storage->memory->engine : NULL;
}

const char *tl_tensor_spec(char out[TL_TENSOR_TEXT], const tl_tensor *t)
{
    char shape[TL_SHAPE_TEXT];
    snprintf(out, TL_TENSOR_TEXT, "%s%s", tl_dtype_name(t->dtype), tl_shape_text(shape, &t->shape));
    return out;
}

/* --- between strides and rows ------------------------------------------------------------------ */

// Walks all elements in row-major order; `flat` is the side without gaps.
static void walk(const tl_tensor *t, char *flat, bool gather)
{
    size_t size = tl_dtype_size(t->dtype);
    int64_t count = tl_tensor_count(t), index[TL_MAX_RANK] = {0}, at = 0;
    char *elements = tl_kernel_data(t);
    for (int64_t i = 0; i < count; i++, flat += size) {
        char *element = elements + at * (int64_t)size;
        memcpy(gather ? flat : element, gather ? element : flat, size);
        for (int d = t->shape.rank - 1; d >= 0; d--) {
            at += t->strides[d];
            if (++index[d] < t->shape.dims[d]) break;
            at -= t->strides[d] * index[d];
            index[d] = 0;
        }
    }
}

void tli_tensor_gather(const tl_tensor *t, void *to)
{
    size_t bytes = tl_tensor_bytes(t);
    if (!t->contiguous)
        walk(t, to, true);
    else if (bytes)
        memcpy(to, tl_kernel_data(t), bytes);
}

void tli_tensor_scatter(const tl_tensor *t, const void *from)
{
    size_t bytes = tl_tensor_bytes(t);
    if (!t->contiguous)
        walk(t, (char *)from, false); // only read
    else if (bytes)
        memcpy(tl_kernel_data(t), from, bytes);
}

/* --- leases --------------------------------------------------------------------------------------- */

static bool one_element_many_times(const tl_tensor *t)
{
    bool repeated = false;
    for (int i = 0; i < t->shape.rank; i++) {
        if (t->shape.dims[i] == 0) return false;
        repeated |= t->strides[i] == 0 && t->shape.dims[i] > 1;
    }
    return repeated;
}

// Marks the storage as read or written by the host until unclaim.
static tl_status claim(const tl_tensor *t, bool write)
{
    TL_TRY(check_elements(t));
    char spec[TL_TENSOR_TEXT];
    if (write && one_element_many_times(t))
        return TL_FAIL(TL_EINVAL, "%s cannot be written: it shows one element many times; write what it is "
                       "a view of, or a copy", tl_tensor_spec(spec, t));
    atomic_int *leases = &t->storage->leases;
    int seen = atomic_load(leases);
    do {
        if (seen < 0 || (write && seen > 0))
            return TL_FAIL(TL_ESTATE, "%s cannot be leased for %s: it is leased for %s; end that lease first",
                           tl_tensor_spec(spec, t), write ? "writing" : "reading",
                           seen < 0 ? "writing" : "reading");
    } while (!atomic_compare_exchange_weak(leases, &seen, write ? -1 : seen + 1));
    return TL_OK;
}

static void unclaim(tl_storage *s, bool write)
{
    if (write) {
        tli_storage_touch(s);
        atomic_store(&s->leases, 0);
    } else {
        atomic_fetch_sub(&s->leases, 1);
    }
}

static tl_status lease(tl_lease *out, const tl_tensor *t, bool write)
{
    *out = (tl_lease){0};
    TL_TRY(claim(t, write));
    void *data = tl_kernel_data(t);
    if (!t->contiguous) {
        data = tl_alloc_aligned(TLI_STORAGE_ALIGNMENT, tl_tensor_bytes(t));
        if (!data) {
            unclaim(t->storage, write);
            return TL_FAIL_NOMEM(tl_tensor_bytes(t));
        }
        tli_tensor_gather(t, data);
    }
    tli_storage_retain(t->storage);
    *out = (tl_lease){.data = data, .tensor = t, .storage = t->storage, .write = write,
                      .copied = !t->contiguous};
    return TL_OK;
}

tl_status tl_lease_read(tl_lease *out, const tl_tensor *t)
{
    return lease(out, t, false);
}

tl_status tl_lease_write(tl_lease *out, tl_tensor *t)
{
    return lease(out, t, true);
}

void tl_lease_end(tl_lease *l)
{
    if (!l->tensor) return;
    if (l->copied) {
        if (l->write && l->tensor->storage == l->storage) tli_tensor_scatter(l->tensor, l->data);
        tl_free(l->data);
    }
    unclaim(l->storage, l->write);
    tli_storage_release(l->storage); // the tensor may have been dropped since
    *l = (tl_lease){0};
}

/* --- all elements at once ----------------------------------------------------------------------- */

static tl_status check_size(const tl_tensor *t, size_t bytes)
{
    if (bytes == tl_tensor_bytes(t)) return TL_OK;
    char spec[TL_TENSOR_TEXT];
    return TL_FAIL(TL_EINVAL, "%s has %zu bytes, not %zu", tl_tensor_spec(spec, t), tl_tensor_bytes(t),
                   bytes);
}

tl_status tl_tensor_set(tl_tensor *t, const void *elements, size_t bytes)
{
    TL_TRY(check_size(t, bytes));
    TL_TRY(claim(t, true));
    tli_tensor_scatter(t, elements);
    unclaim(t->storage, true);
    return TL_OK;
}

tl_status tl_tensor_get(const tl_tensor *t, void *elements, size_t bytes)
{
    TL_TRY(check_size(t, bytes));
    TL_TRY(claim(t, false));
    tli_tensor_gather(t, elements);
    unclaim(t->storage, false);
    return TL_OK;
}

static tl_status check_count(const tl_tensor *t, int64_t count)
{
    if (count == tl_tensor_count(t)) return TL_OK;
    char spec[TL_TENSOR_TEXT];
    return TL_FAIL(TL_EINVAL, "%s has %" PRId64 " elements, not %" PRId64, tl_tensor_spec(spec, t),
                   tl_tensor_count(t), count);
}

tl_status tl_tensor_set_doubles(tl_tensor *t, const double *elements, int64_t count)
{
    TL_TRY(check_count(t, count));
    tl_lease l;
    TL_TRY(tl_lease_write(&l, t));
    for (int64_t i = 0; i < count; i++) tli_element_set(t->dtype, l.data, i, elements[i]);
    tl_lease_end(&l);
    return TL_OK;
}

tl_status tl_tensor_get_doubles(const tl_tensor *t, double *elements, int64_t count)
{
    TL_TRY(check_count(t, count));
    tl_lease l;
    TL_TRY(tl_lease_read(&l, t));
    for (int64_t i = 0; i < count; i++) elements[i] = tli_element_get(t->dtype, l.data, i);
    tl_lease_end(&l);
    return TL_OK;
}

tl_status tl_tensor_item(const tl_tensor *t, double *out)
{
    if (tl_tensor_count(t) != 1) {
        char spec[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL, "%s has %" PRId64 " elements; only a tensor with one has an item",
                       tl_tensor_spec(spec, t), tl_tensor_count(t));
    }
    return tl_tensor_get_doubles(t, out, 1);
}
