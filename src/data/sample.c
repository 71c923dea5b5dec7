#include <inttypes.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>
#include <tilth/base/str.h>

#include "data/sample_impl.h"

/* --- memory ----------------------------------------------------------------------------------- */

enum { ALIGNMENT = 64, FIRST_CHUNK = 4096 };

typedef struct tli_chunk {
    struct tli_chunk *older;
    size_t size; /* what comes behind this head, at a multiple of the alignment */
} chunk;

static char *chunk_data(chunk *c)
{
    return (char *)c + ALIGNMENT;
}

static void free_chunks(tli_slot *slot)
{
    while (slot->chunk) {
        chunk *older = slot->chunk->older;
        tl_free(slot->chunk);
        slot->chunk = older;
    }
}

static bool add_chunk(tli_slot *slot, size_t bytes)
{
    // What the last sample needed in pieces, or twice of what there is, so that pieces stay few.
    size_t size = slot->chunk ? 2 * slot->chunk->size : FIRST_CHUNK;
    if (size < slot->taken && !slot->chunk) size = slot->taken;
    if (size < bytes) size = bytes;
    chunk *c = tl_alloc_aligned(ALIGNMENT, ALIGNMENT + size);
    if (!c) {
        (void)TL_FAIL_NOMEM(size);
        return false;
    }
    *c = (chunk){slot->chunk, size};
    slot->chunk = c;
    slot->used = 0;
    return true;
}

static void *take(tli_slot *slot, size_t bytes)
{
    if (bytes > SIZE_MAX / 4) {
        (void)TL_FAIL_NOMEM(bytes);
        return NULL;
    }
    bytes = tl_round_up_size(bytes, ALIGNMENT);
    if ((!slot->chunk || slot->chunk->size - slot->used < bytes) && !add_chunk(slot, bytes))
        return NULL;
    void *memory = chunk_data(slot->chunk) + slot->used;
    slot->used += bytes;
    return memory;
}

tl_status tli_slot_new(tli_slot **out)
{
    *out = tl_alloc_zero(sizeof **out);
    return *out ? TL_OK : TL_FAIL_NOMEM(sizeof **out);
}

void tli_slot_free(tli_slot *slot)
{
    if (!slot) return;
    free_chunks(slot);
    tl_free(slot);
}

void tli_slot_reset(tli_slot *slot)
{
    if (slot->chunk && slot->chunk->older) {
        slot->taken = 0;
        for (const chunk *c = slot->chunk; c; c = c->older) slot->taken += c->size;
        free_chunks(slot);
    }
    slot->used = 0;
    slot->own = 0;
    slot->keep = slot->left_out = slot->ready = false;
    slot->map = 0;
    slot->s.record = NULL;
    slot->s.record_size = 0;
    slot->s.count = 0;
}

size_t tli_slot_bytes(const tli_slot *slot)
{
    size_t bytes = slot->used;
    for (const chunk *c = slot->chunk ? slot->chunk->older : NULL; c; c = c->older)
        bytes += c->size;
    return bytes;
}

tl_status tl_sample_new(tl_sample **out)
{
    tli_slot *slot;
    *out = NULL;
    TL_TRY(tli_slot_new(&slot));
    *out = &slot->s;
    return TL_OK;
}

void tl_sample_reset(tl_sample *s)
{
    tli_slot_reset(tli_slot_of(s));
    s->at = (tl_sample_place){0};
}

void tl_sample_free(tl_sample **s)
{
    if (*s) tli_slot_free(tli_slot_of(*s));
    *s = NULL;
}

void *tl_sample_scratch(tl_sample *s, size_t bytes)
{
    return take(tli_slot_of(s), bytes);
}

/* --- fields ----------------------------------------------------------------------------------- */

size_t tli_field_bytes(const tl_sample_field *f)
{
    return (size_t)tl_shape_count(&f->shape) * tl_dtype_size(f->dtype);
}

// -1: not there. Names are mostly the same text, at the same place.
static int64_t find(const tl_sample *s, const char *name)
{
    for (int64_t i = 0; i < s->count; i++) {
        const char *other = s->fields[i].name;
        if (other == name || (other[0] == name[0] && strcmp(other, name) == 0)) return i;
    }
    return -1;
}

const tl_sample_field *tl_sample_peek(const tl_sample *s, const char *name)
{
    int64_t i = find(s, name);
    return i < 0 ? NULL : &s->fields[i];
}

static tl_status not_there(const tl_sample *s, const char *name)
{
    tl_str there = TL_STR_INIT;
    for (int64_t i = 0; i < s->count; i++)
        tl_str_addf(&there, "%s'%s'", i ? ", " : "", s->fields[i].name);
    tl_status st = TL_FAIL(TL_ENOTFOUND, "there is no field '%s'; there %s %s%s", name,
                           s->count == 1 ? "is" : "are", s->count ? tl_str_text(&there) : "none",
                           s->record ? ", the record was not decoded" : "");
    tl_str_deinit(&there);
    return st;
}

tl_status tl_sample_get(const tl_sample *s, const char *name, const tl_sample_field **out)
{
    *out = tl_sample_peek(s, name);
    return *out ? TL_OK : not_there(s, name);
}

tl_status tl_sample_int(const tl_sample *s, const char *name, int64_t *out)
{
    const tl_sample_field *f;
    char shape[TL_SHAPE_TEXT];
    TL_TRY(tl_sample_get(s, name, &f));
    if (tl_shape_count(&f->shape) == 1) switch (f->dtype) {
        case TL_I64: *out = *(const int64_t *)f->data; return TL_OK;
        case TL_I32: *out = *(const int32_t *)f->data; return TL_OK;
        case TL_I16: *out = *(const int16_t *)f->data; return TL_OK;
        case TL_I8: *out = *(const int8_t *)f->data; return TL_OK;
        case TL_U8: *out = *(const uint8_t *)f->data; return TL_OK;
        case TL_BOOL: *out = *(const bool *)f->data; return TL_OK;
        default: break;
        }
    return TL_FAIL(TL_EINVAL, "field '%s' is %s%s; one whole number is expected", name,
                   tl_dtype_name(f->dtype), tl_shape_text(shape, &f->shape));
}

// Where a field of that name goes; NULL, with the error set, when there is no room.
static tl_sample_field *place(tl_sample *s, const char *name, int64_t *index)
{
    *index = find(s, name);
    if (*index >= 0) return &s->fields[*index];
    if (s->count == TL_SAMPLE_FIELDS) {
        (void)TL_FAIL(TL_ELIMIT, "field '%s': a sample has at most %d fields", name,
                      TL_SAMPLE_FIELDS);
        return NULL;
    }
    *index = s->count++;
    return &s->fields[*index];
}

static tl_status put(tl_sample *s, const char *name, tl_dtype dtype, tl_shape shape,
                     const void *data, bool own)
{
    int64_t index;
    tl_sample_field *f = place(s, name, &index);
    if (!f) return TL_ELIMIT;
    *f = (tl_sample_field){name, dtype, shape, data};
    tli_slot *slot = tli_slot_of(s);
    slot->own &= ~(UINT32_C(1) << index);
    slot->own |= (uint32_t)own << index;
    return TL_OK;
}

void *tl_sample_add(tl_sample *s, const char *name, tl_dtype dtype, tl_shape shape)
{
    if (tl_shape_check(&shape, name) != TL_OK) return NULL;
    void *data = take(tli_slot_of(s), (size_t)tl_shape_count(&shape) * tl_dtype_size(dtype));
    if (!data || put(s, name, dtype, shape, data, true) != TL_OK) return NULL;
    return data;
}

tl_status tl_sample_show(tl_sample *s, const char *name, tl_dtype dtype, tl_shape shape,
                         const void *data)
{
    TL_TRY(tl_shape_check(&shape, name));
    return put(s, name, dtype, shape, data, false);
}

void *tl_sample_write(tl_sample *s, const char *name)
{
    tli_slot *slot = tli_slot_of(s);
    int64_t i = find(s, name);
    if (i < 0) {
        (void)not_there(s, name);
        return NULL;
    }
    tl_sample_field *f = &s->fields[i];
    if (slot->own >> i & 1) return (void *)(uintptr_t)f->data;
    size_t bytes = tli_field_bytes(f);
    void *copy = take(slot, bytes);
    if (!copy) return NULL;
    if (bytes) memcpy(copy, f->data, bytes);
    f->data = copy;
    slot->own |= UINT32_C(1) << i;
    return copy;
}

static void take_out(tl_sample *s, int64_t i)
{
    tli_slot *slot = tli_slot_of(s);
    uint32_t below = (UINT32_C(1) << i) - 1;
    slot->own = (slot->own & below) | (slot->own >> 1 & ~below);
    memmove(&s->fields[i], &s->fields[i + 1], (size_t)(s->count - i - 1) * sizeof s->fields[0]);
    s->count--;
}

bool tl_sample_remove(tl_sample *s, const char *name)
{
    int64_t i = find(s, name);
    if (i < 0) return false;
    take_out(s, i);
    return true;
}

void tl_sample_keep(tl_sample *s, const char *const *names, int64_t count)
{
    for (int64_t i = s->count; i-- > 0;) {
        bool wanted = false;
        for (int64_t k = 0; k < count && !wanted; k++)
            wanted = strcmp(s->fields[i].name, names[k]) == 0;
        if (!wanted) take_out(s, i);
    }
}

tl_status tl_sample_rename(tl_sample *s, const char *name, const char *as)
{
    int64_t i = find(s, name), other = find(s, as);
    if (i < 0) return not_there(s, name);
    if (other >= 0 && other != i)
        return TL_FAIL(TL_EEXISTS, "'%s' cannot be renamed: there is a field '%s' already", name,
                       as);
    s->fields[i].name = as;
    return TL_OK;
}

void tl_sample_leave_out(tl_sample *s)
{
    tli_slot_of(s)->left_out = true;
}

void tl_sample_rng(const tl_sample *s, tl_rng *out)
{
    const tli_slot *slot = (const tli_slot *)s;
    if (slot->draws) *out = *slot->draws;
    else tl_rng_init(out, 0);
    tl_rng_fold(out, out, (uint64_t)s->at.sequence);
    tl_rng_fold(out, out, (uint64_t)slot->map);
}
