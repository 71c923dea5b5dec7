#include "core/inner/tensor.h"

#include <inttypes.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/sys/core/backend.h>

#include "core/inner/element.h"
#include "core/inner/engine.h"
#include "core/inner/sound.h"

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
    return tl_tensor_new_at(out, engine, TL_AT_DEVICE, dtype, shape);
}

tl_status tl_tensor_new_at(tl_tensor **out, tl_engine *engine, tl_side side, tl_dtype dtype,
                           tl_shape shape)
{
    TL_TRY(tl_shape_check(&shape, "tensor"));
    tl_tensor *t = tl_alloc_zero(sizeof *t);
    if (!t) return TL_FAIL_NOMEM(sizeof *t);
    t->dtype = dtype;
    t->shape = shape;
    tli_tensor_row_major(t);
    tl_status st =
        tli_storage_new(&t->storage, tli_engine_memory(engine, side), tl_tensor_bytes(t));
    if (st != TL_OK) {
        tl_free(t);
        return st;
    }
    TL_ASSERT(tli_tensor_is_sound(t) && t->storage->bytes >= tl_tensor_bytes(t));
    *out = t;
    return TL_OK;
}

static tl_status check_elements(const tl_tensor *t)
{
    if (t->storage) return TL_OK;
    char spec[TL_TENSOR_TEXT];
    return TL_FAIL(
        TL_ESTATE,
        "%s has no elements yet: it is being captured, and is computed when the program runs. Log "
        "it, or make it an output of the captured function, and read it afterwards",
        tl_tensor_spec(spec, t));
}

tl_status tl_tensor_keep(tl_tensor **out, const tl_tensor *t)
{
    TL_TRY(check_elements(t));
    tl_tensor *k = tl_alloc_zero(sizeof *k);
    if (!k) return TL_FAIL_NOMEM(sizeof *k);
    *k = (tl_tensor){.dtype = t->dtype,
                     .contiguous = t->contiguous,
                     .shape = t->shape,
                     .offset = t->offset,
                     .storage = t->storage};
    memcpy(k->strides, t->strides, sizeof k->strides);
    tli_storage_retain(k->storage);
    // Two headers hold it now.
    TL_ASSERT(tli_tensor_is_sound(k) && atomic_load(&k->storage->refs) > 1);
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
            return TL_FAIL(TL_EINVAL,
                           "%s is not row-major and has no parts; make it contiguous first",
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
    TL_ASSERT(tli_tensor_is_sound(t));
    TL_ASSERT(!block
              || (t->offset >= block->offset
                  && t->offset + tl_tensor_count(t) <= block->offset + tl_tensor_count(block)));
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
    TL_ASSERT(!*out || (*out)->storage == t->storage);
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

tl_side tl_tensor_side(const tl_tensor *t)
{
    const tli_memory *m = t->storage ? t->storage->memory : NULL;
    return m && m->on_host && !m->device->cls->host ? TL_AT_HOST : TL_AT_DEVICE;
}

const char *tl_tensor_spec(char out[TL_TENSOR_TEXT], const tl_tensor *t)
{
    char shape[TL_SHAPE_TEXT];
    snprintf(out, TL_TENSOR_TEXT, "%s%s", tl_dtype_name(t->dtype), tl_shape_text(shape, &t->shape));
    return out;
}

/* --- between strides and rows ----------------------------------------------------------------- */

// Walks all elements in row-major order; `flat` is the side without gaps. The host may look at
// both.
static void walk(const tl_tensor *t, char *flat, bool gather)
{
    TL_ASSERT(tli_tensor_is_sound(t));
    size_t size = tl_dtype_size(t->dtype);
    int64_t count = tl_tensor_count(t), index[TL_MAX_RANK] = {0}, at = 0;
    char *elements = tli_data(t);
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
    TL_ASSERT(at == 0); // behind the last element the walk is where it began
}

void tli_tensor_gather(const tl_tensor *t, void *to)
{
    TL_ASSERT(tli_tensor_is_sound(t));
    size_t bytes = tl_tensor_bytes(t);
    if (!t->contiguous) walk(t, to, true);
    else if (bytes) memcpy(to, tli_data(t), bytes);
}

void tli_tensor_scatter(const tl_tensor *t, const void *from)
{
    TL_ASSERT(tli_tensor_is_sound(t));
    size_t bytes = tl_tensor_bytes(t);
    if (!t->contiguous) walk(t, (char *)from, false); // only read
    else if (bytes) memcpy(tli_data(t), from, bytes);
}

/* --- leases ----------------------------------------------------------------------------------- */

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
        return TL_FAIL(TL_EINVAL,
                       "%s cannot be written: it shows one element many times; write what it is a "
                       "view of, or a copy",
                       tl_tensor_spec(spec, t));
    atomic_int *leases = &t->storage->leases;
    TL_ASSERT(tli_tensor_is_sound(t));
    int seen = atomic_load(leases);
    do {
        if (seen < 0 || (write && seen > 0))
            return TL_FAIL(TL_ESTATE,
                           "%s cannot be leased for %s: it is leased for %s; end that lease first",
                           tl_tensor_spec(spec, t), write ? "writing" : "reading",
                           seen < 0 ? "writing" : "reading");
    } while (!atomic_compare_exchange_weak(leases, &seen, write ? -1 : seen + 1));
    return TL_OK;
}

static void unclaim(tl_storage *s, bool touched, bool write)
{
    // As claim left it.
    TL_ASSERT(write ? atomic_load(&s->leases) == -1 : atomic_load(&s->leases) > 0);
    if (touched) tli_storage_touch(s);
    if (write) {
        atomic_store(&s->leases, 0);
    } else {
        atomic_fetch_sub(&s->leases, 1);
    }
}

// A copy without gaps, in `l->data`, of elements that have some.
static tl_status straighten(tl_lease *l, const tl_tensor *elements)
{
    TL_ASSERT(!elements->contiguous && !l->copied);
    size_t bytes = tl_tensor_bytes(elements);
    l->data = tl_alloc_aligned(elements->storage->memory->device->cls->alignment, bytes);
    if (!l->data) return TL_FAIL_NOMEM(bytes);
    l->copied = true;
    tli_tensor_gather(elements, l->data);
    return TL_OK;
}

static tl_status show(tl_lease *l, const tl_tensor *t, bool keep)
{
    if (t->storage->memory->on_host) {
        if (keep) TL_TRY(tli_storage_wait(t->storage));
        if (l->write) TL_TRY(tli_storage_wait_to_write(t->storage));
        l->data = tli_data(t);
        return t->contiguous ? TL_OK : straighten(l, t);
    }
    tli_image image;
    TL_TRY(tli_image_begin(&image, t, keep || !t->contiguous));
    tl_status st = tli_image_wait(&image);
    if (st != TL_OK) {
        tli_image_close(&image);
        return st;
    }
    l->staged = image.tensor.storage;
    l->data = tli_data(&image.tensor);
    st = t->contiguous ? TL_OK : straighten(l, &image.tensor);
    if (st != TL_OK) tli_image_close(&image);
    return st;
}

static tl_status lease(tl_lease *out, const tl_tensor *t, bool write, bool keep)
{
    *out = (tl_lease){0};
    TL_TRY(claim(t, write));
    tl_lease l = {.tensor = t, .storage = t->storage, .write = write};
    TL_ASSERT(atomic_load(&t->storage->leases) != 0);
    tl_status st = show(&l, t, keep);
    if (st != TL_OK) {
        unclaim(t->storage, false, write);
        return st;
    }
    tli_storage_retain(t->storage);
    *out = l;
    return TL_OK;
}

tl_status tl_lease_read(tl_lease *out, const tl_tensor *t)
{
    return lease(out, t, false, true);
}

tl_status tl_lease_write(tl_lease *out, tl_tensor *t)
{
    return lease(out, t, true, true);
}

tl_status tl_lease_discard(tl_lease *out, tl_tensor *t)
{
    return lease(out, t, true, false);
}

// What was written goes where the tensor lies.
static tl_status give_back(const tl_lease *l)
{
    if (!l->staged) {
        if (l->copied) tli_tensor_scatter(l->tensor, l->data);
        return TL_OK;
    }
    tli_image image = {.tensor = *l->tensor, .of = l->tensor, .extent = tli_extent_of(l->tensor)};
    image.tensor.storage = l->staged;
    image.tensor.offset = tli_image_offset(l->tensor, image.extent);
    TL_ASSERT(tli_tensor_is_sound(&image.tensor));
    if (l->copied) tli_tensor_scatter(&image.tensor, l->data);
    TL_TRY(tli_image_put(&image));
    return tli_image_wait(&image);
}

static tl_status end(tl_lease *l, bool keep)
{
    if (!l->tensor) return TL_OK;
    // The tensor may have been dropped since.
    TL_ASSERT(l->write || !l->staged || l->storage != l->staged);
    tl_status st = l->write && keep && l->tensor->storage == l->storage ? give_back(l) : TL_OK;
    if (l->copied) tl_free(l->data);
    tli_storage_release(l->staged);
    unclaim(l->storage, l->write, l->write);
    tli_storage_release(l->storage);
    *l = (tl_lease){0};
    return st;
}

tl_status tl_lease_end(tl_lease *l)
{
    return end(l, true);
}

void tl_lease_drop(tl_lease *l)
{
    (void)end(l, false);
}

/* --- from tensor to tensor -------------------------------------------------------------------- */

static tl_status check_alike(const tl_tensor *to, const tl_tensor *from)
{
    char a[TL_TENSOR_TEXT], b[TL_TENSOR_TEXT];
    if (tl_shape_equal(&to->shape, &from->shape)) return TL_OK;
    return TL_FAIL(TL_EINVAL, "%s cannot be copied to %s: the shapes differ",
                   tl_tensor_spec(a, from), tl_tensor_spec(b, to));
}

// Parts of one storage cannot be leased for reading and for writing at a time.
static tl_status copy_within(tl_tensor *to, const tl_tensor *from)
{
    TL_ASSERT(to->storage == from->storage && tl_tensor_count(to) == tl_tensor_count(from));
    size_t bytes = tl_tensor_bytes(from);
    void *elements = tl_alloc(bytes ? bytes : 1);
    if (!elements) return TL_FAIL_NOMEM(bytes);
    tl_status st = tl_tensor_get(from, elements, bytes);
    tl_lease l;
    if (st == TL_OK) st = tl_lease_discard(&l, to);
    if (st == TL_OK) {
        for (int64_t i = 0, n = tl_tensor_count(to); i < n; i++)
            tli_element_set(to->dtype, l.data, i, tli_element_get(from->dtype, elements, i));
        if (to->dtype == from->dtype && bytes) memcpy(l.data, elements, bytes); // the same bits
        st = tl_lease_end(&l);
    }
    tl_free(elements);
    return st;
}

static tl_status copy_over_host(tl_tensor *to, const tl_tensor *from)
{
    if (to->storage == from->storage) return copy_within(to, from);
    tl_lease x, y;
    TL_TRY(tl_lease_read(&x, from));
    tl_status st = tl_lease_discard(&y, to);
    int64_t count = tl_tensor_count(to);
    if (st == TL_OK && to->dtype == from->dtype && count)
        memcpy(y.data, x.data, tl_tensor_bytes(to));
    else if (st == TL_OK)
        for (int64_t i = 0; i < count; i++)
            tli_element_set(to->dtype, y.data, i, tli_element_get(from->dtype, x.data, i));
    if (st == TL_OK) st = tl_lease_end(&y);
    tl_lease_drop(&x);
    return st;
}

// In the order of the calls, as if it were an op.
static tl_status copy_among_kernels(const tl_tensor *to, const tl_tensor *from)
{
    const tli_memory *m = to->storage->memory;
    TL_TRY(m->device->cls->copy(m->queue, tli_data(to), tli_data(from), tl_tensor_bytes(to)));
    tli_storage_used(from->storage);
    tli_storage_written(to->storage);
    return TL_OK;
}

bool tli_copy_is_over_host(const tl_tensor *to, const tl_tensor *from)
{
    const tli_memory *m = to->storage->memory;
    return to->storage == from->storage || m->device->cls->host
           || m->device != from->storage->memory->device || to->dtype != from->dtype
           || !to->contiguous || !from->contiguous || m->queue != from->storage->memory->queue;
}

tl_status tl_tensor_copy(tl_tensor *to, const tl_tensor *from)
{
    TL_TRY(check_elements(to));
    TL_TRY(check_elements(from));
    TL_TRY(check_alike(to, from));
    if (tli_copy_is_over_host(to, from)) return copy_over_host(to, from);
    TL_TRY(tli_storage_check(from->storage));
    TL_ASSERT(tl_tensor_bytes(to) == tl_tensor_bytes(from) && tli_tensors_are_apart(to, from));
    TL_TRY(claim(to, true));
    bool comes = tl_tensor_side(from) == TL_AT_HOST && tl_tensor_side(to) == TL_AT_DEVICE;
    tl_status st = comes ? tli_send(to, from) : copy_among_kernels(to, from);
    unclaim(to->storage, true, true);
    return st;
}

static void exchange(char *a, char *b, size_t bytes)
{
    char piece[4096];
    for (size_t at = 0; at < bytes; at += sizeof piece) {
        size_t size = bytes - at < sizeof piece ? bytes - at : sizeof piece;
        memcpy(piece, a + at, size);
        memcpy(a + at, b + at, size);
        memcpy(b + at, piece, size);
    }
}

static tl_status swap_on_host(tl_tensor *a, tl_tensor *b)
{
    TL_ASSERT(tl_tensor_bytes(a) == tl_tensor_bytes(b));
    tl_lease left, right;
    TL_TRY(tl_lease_write(&left, a));
    tl_status st = tl_lease_write(&right, b);
    if (st == TL_OK) {
        exchange(left.data, right.data, tl_tensor_bytes(a));
        st = tl_lease_end(&right);
        if (st == TL_OK) st = tl_lease_end(&left);
    }
    tl_lease_drop(&left);
    return st;
}

/* Parts of two tensors that are exchanged, and memory for one of them. */
typedef struct pieces {
    tl_tensor a, b, spare;
} pieces;

static tl_status place_pieces(pieces *p, const tl_tensor *a, const tl_tensor *b,
                              const tl_tensor *spare, int64_t at)
{
    const int64_t rest = tl_tensor_count(a) - at, most = tl_tensor_count(spare);
    const tl_shape shape = TL_SHAPE(rest < most ? rest : most);
    p->a.dtype = p->b.dtype = p->spare.dtype = a->dtype;
    p->a.shape = p->b.shape = p->spare.shape = shape;
    TL_TRY(tl_tensor_place(&p->a, a, at));
    TL_TRY(tl_tensor_place(&p->b, b, at));
    return tl_tensor_place(&p->spare, spare, 0);
}

// All of it or nothing.
static tl_status exchange_pieces(pieces *p)
{
    TL_TRY(tl_tensor_copy(&p->spare, &p->a));
    TL_TRY(tl_tensor_copy(&p->a, &p->b));
    tl_status st = tl_tensor_copy(&p->b, &p->spare);
    tl_error why;
    if (st == TL_OK) return TL_OK;
    tl_error_save(&why);
    (void)!tl_tensor_copy(&p->a, &p->spare);
    tl_error_restore(&why);
    return st;
}

// The elements before `*end`, or as many of them as can be: `*end` says where it ended.
static tl_status swap_until(tl_tensor *a, tl_tensor *b, const tl_tensor *spare, int64_t *end)
{
    pieces p = {0};
    tl_status st = TL_OK;
    int64_t at = 0;
    for (; at < *end && st == TL_OK; at += st == TL_OK ? tl_tensor_count(&p.a) : 0) {
        st = place_pieces(&p, a, b, spare, at);
        if (st == TL_OK) st = exchange_pieces(&p);
    }
    *end = at;
    (void)!tl_tensor_place(&p.a, NULL, 0);
    (void)!tl_tensor_place(&p.b, NULL, 0);
    (void)!tl_tensor_place(&p.spare, NULL, 0);
    return st;
}

static tl_status swap_on_device(tl_tensor *a, tl_tensor *b)
{
    enum { PIECE = 1 << 20 }; // elements: what is exchanged may be most of the memory
    const int64_t count = tl_tensor_count(a);
    int64_t end = count;
    tl_tensor *spare;
    TL_TRY(tl_tensor_new(&spare, tl_tensor_engine(a), a->dtype,
                         TL_SHAPE(count < PIECE ? count : PIECE)));
    tl_status st = swap_until(a, b, spare, &end);
    if (st != TL_OK) {
        tl_error why;
        tl_error_save(&why);
        (void)!swap_until(a, b, spare, &end); // both are as they were
        tl_error_restore(&why);
    }
    tl_tensor_free(&spare);
    return st;
}

tl_status tl_tensor_swap(tl_tensor *a, tl_tensor *b)
{
    char x[TL_TENSOR_TEXT], y[TL_TENSOR_TEXT];
    TL_TRY(check_elements(a));
    TL_TRY(check_elements(b));
    if (a->dtype != b->dtype || !tl_shape_equal(&a->shape, &b->shape) || !a->contiguous
        || !b->contiguous)
        return TL_FAIL(TL_EINVAL, "%s cannot be exchanged for %s", tl_tensor_spec(x, a),
                       tl_tensor_spec(y, b));
    return a->storage->memory->device->cls->host ? swap_on_host(a, b) : swap_on_device(a, b);
}

tl_status tl_tensor_clear(tl_tensor *t)
{
    char spec[TL_TENSOR_TEXT];
    TL_TRY(check_elements(t));
    if (!t->contiguous)
        return TL_FAIL(TL_EINVAL, "%s has gaps and cannot be cleared", tl_tensor_spec(spec, t));
    const tli_memory *m = t->storage->memory;
    TL_TRY(claim(t, true));
    tl_status st = TL_OK;
    if (m->device->cls->host) {
        if (tl_tensor_bytes(t)) memset(tli_data(t), 0, tl_tensor_bytes(t));
    } else {
        st = m->device->cls->fill(m->queue, tli_data(t), 0, tl_tensor_bytes(t));
        if (st == TL_OK) tli_storage_written(t->storage);
    }
    unclaim(t->storage, true, true);
    return st;
}

/* --- all elements at once --------------------------------------------------------------------- */

static tl_status check_size(const tl_tensor *t, size_t bytes)
{
    if (bytes == tl_tensor_bytes(t)) return TL_OK;
    char spec[TL_TENSOR_TEXT];
    return TL_FAIL(TL_EINVAL, "%s has %zu bytes, not %zu", tl_tensor_spec(spec, t),
                   tl_tensor_bytes(t), bytes);
}

tl_status tl_tensor_set(tl_tensor *t, const void *elements, size_t bytes)
{
    TL_TRY(check_size(t, bytes));
    TL_TRY(check_elements(t));
    if (t->storage->memory->device->cls->host) { // into any strides at once
        TL_TRY(claim(t, true));
        tli_tensor_scatter(t, elements);
        unclaim(t->storage, true, true);
        return TL_OK;
    }
    tl_lease l;
    TL_TRY(tl_lease_discard(&l, t));
    if (bytes) memcpy(l.data, elements, bytes);
    return tl_lease_end(&l);
}

tl_status tl_tensor_get(const tl_tensor *t, void *elements, size_t bytes)
{
    TL_TRY(check_size(t, bytes));
    TL_TRY(check_elements(t));
    if (t->storage->memory->device->cls->host) {
        TL_TRY(claim(t, false));
        tli_tensor_gather(t, elements);
        unclaim(t->storage, false, false);
        return TL_OK;
    }
    tl_lease l;
    TL_TRY(tl_lease_read(&l, t));
    if (bytes) memcpy(elements, l.data, bytes);
    tl_lease_drop(&l);
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
    TL_TRY(tl_lease_discard(&l, t));
    for (int64_t i = 0; i < count; i++) tli_element_set(t->dtype, l.data, i, elements[i]);
    return tl_lease_end(&l);
}

tl_status tl_tensor_get_doubles(const tl_tensor *t, double *elements, int64_t count)
{
    TL_TRY(check_count(t, count));
    tl_lease l;
    TL_TRY(tl_lease_read(&l, t));
    for (int64_t i = 0; i < count; i++) elements[i] = tli_element_get(t->dtype, l.data, i);
    tl_lease_drop(&l);
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
