#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/crc32c.h>

#include "io/tensorflow/protobuf.h"
#include "io/inner/tensorbundle.h"

static const tli_tb_entry *inner(const tl_tensorbundle_entry *shown)
{
    return (const tli_tb_entry *)shown;
}

static tl_status fail_data(const tl_tensorbundle *b, const tli_tb_entry *e, const char *what)
{
    return TL_FAIL(TL_EINVAL,
                   "'%s.data-%05" PRId64 "-of-%05" PRId64 "' is damaged: entry '%s' (%zu bytes at "
                   "byte %" PRIu64 "): %s",
                   b->prefix, e->shard, b->shard_count, e->shown.name, e->shown.bytes, e->offset,
                   what);
}

static tl_status check_crc(const tl_tensorbundle *b, const tli_tb_entry *e, uint32_t crc)
{
    char what[80];
    uint32_t found = tl_crc32c_mask(crc);
    if (found == e->crc) return TL_OK;
    snprintf(what, sizeof what, "its checksum is %08" PRIx32 " and should be %08" PRIx32, found,
             e->crc);
    return fail_data(b, e, what);
}

/* --- strings ---------------------------------------------------------------------------------- */

/* Lengths (varints), a masked checksum of them (of 4 bytes each, or 8 where they need it), bytes.
 * The checksum of the entry covers the lengths as numbers, their checksum, and the bytes. */
typedef struct strings {
    tl_tensorbundle_string *items;
    int64_t count;
} strings;

static uint32_t crc_length(uint32_t crc, uint64_t length)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(length >> 8 * i);
    return tl_crc32c(crc, bytes, length > UINT32_MAX ? 8 : 4);
}

static int64_t element_count(const tli_tb_entry *e)
{
    int64_t count = 1;
    for (int i = 0; i < e->shown.rank; i++) count *= e->shown.dims[i];
    return count;
}

static tl_status read_lengths(const tl_tensorbundle *b, const tli_tb_entry *e, strings *out,
                              const char **at, uint32_t *crc)
{
    const char *end = e->data + e->shown.bytes;
    uint64_t total = 0, length;
    for (int64_t i = 0; i < out->count; i++) {
        if (!tli_get_varint(at, end, &length) || length > e->shown.bytes)
            return fail_data(b, e, "the lengths of its strings are damaged");
        if (out->items) out->items[i].size = (size_t)length;
        *crc = crc_length(*crc, length);
        total += length;
        if (total > e->shown.bytes) break;
    }
    if (end - *at < 4 || total != (uint64_t)(end - *at) - 4)
        return fail_data(b, e, "the lengths of its strings do not add up to its bytes");
    if (tli_get_u32(*at) != tl_crc32c_mask(*crc))
        return fail_data(b, e, "the checksum of the lengths of its strings is wrong");
    return TL_OK;
}

static tl_status read_strings(const tl_tensorbundle *b, const tli_tb_entry *e, strings *out)
{
    const char *at = e->data, *end = at + e->shown.bytes;
    uint32_t crc = 0;
    TL_TRY(read_lengths(b, e, out, &at, &crc));
    crc = tl_crc32c(crc, at, (size_t)(end - at));
    at += 4;
    for (int64_t i = 0; i < out->count && out->items; i++) {
        out->items[i].data = at;
        at += out->items[i].size;
    }
    return check_crc(b, e, crc);
}

/* What Python keeps as it likes (the state of an iterator): each element is a length, bytes, and
 * the masked checksum of all so far, in which the length counts as 8 bytes. */
static tl_status check_variants(const tl_tensorbundle *b, const tli_tb_entry *e)
{
    const char *at = e->data, *end = at + e->shown.bytes;
    uint32_t crc = 0;
    for (int64_t i = 0, count = element_count(e); i < count; i++) {
        uint64_t length;
        uint8_t bytes[8];
        if (!tli_get_varint(&at, end, &length) || length > (uint64_t)(end - at)
            || (uint64_t)(end - at) - length < 4)
            return fail_data(b, e, "its elements do not fit into its bytes");
        for (int k = 0; k < 8; k++) bytes[k] = (uint8_t)(length >> 8 * k);
        crc = tl_crc32c(tl_crc32c(crc, bytes, sizeof bytes), at, (size_t)length);
        at += length;
        if (tli_get_u32(at) != tl_crc32c_mask(crc))
            return fail_data(b, e, "the checksum of an element is wrong");
        crc = tl_crc32c(crc, at, 4);
        at += 4;
    }
    if (at != end) return fail_data(b, e, "it has more bytes than its elements");
    return check_crc(b, e, crc);
}

static tl_status verify_one(const tl_tensorbundle *b, const tli_tb_entry *e)
{
    if (e->shown.is_string) return read_strings(b, e, &(strings){NULL, element_count(e)});
    if (strcmp(e->shown.type, "variant") == 0) return check_variants(b, e);
    return check_crc(b, e, tl_crc32c(0, e->data, e->shown.bytes));
}

tl_status tl_tensorbundle_strings(const tl_tensorbundle_string **out, int64_t *count,
                                  tl_arena *arena, const tl_tensorbundle *b,
                                  const tl_tensorbundle_entry *entry)
{
    tli_tb_entry own = *inner(entry); // what the file holds now: it is gone through twice
    const tli_tb_entry *e = &own;
    *out = NULL;
    if (count) *count = 0;
    if (!entry->is_string || entry->pieces)
        return TL_FAIL(TL_EUNSUPPORTED, "'%s': entry '%s' is of type %s%s, not a whole of strings",
                       b->index_path, entry->name, entry->type, entry->pieces ? " in pieces" : "");
    own.data = tl_arena_copy(arena, own.data, entry->bytes);
    if (!own.data) return TL_ENOMEM;
    strings list = {NULL, element_count(e)};
    TL_TRY(read_lengths(b, e, &list, &(const char *){e->data}, &(uint32_t){0})); // so many they are
    list.items = tl_arena_array(arena, list.count, sizeof *list.items);
    if (!list.items) return TL_ENOMEM;
    TL_TRY(read_strings(b, e, &list));
    *out = list.items;
    if (count) *count = list.count;
    return TL_OK;
}

/* --- elements --------------------------------------------------------------------------------- */

tl_status tl_tensorbundle_borrow(const void **data, const tl_tensorbundle *b,
                                 const tl_tensorbundle_entry *entry)
{
    *data = NULL;
    if (entry->pieces)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "'%s': entry '%s' lies in %" PRId64 " pieces; it can only be copied",
                       b->index_path, entry->name, entry->pieces);
    TL_TRY(verify_one(b, inner(entry)));
    *data = inner(entry)->data;
    return TL_OK;
}

/* Copies a piece, row by row, to its place in the whole. */
static void copy_piece(char *to, const tli_tb_entry *e, const tli_tb_piece *piece, size_t element)
{
    const tl_tensorbundle_entry *part = &piece->entry->shown;
    int rank = part->rank;
    int64_t rows = 1, row = rank ? part->dims[rank - 1] : 1;
    for (int i = 0; i + 1 < rank; i++) rows *= part->dims[i];
    const char *from = piece->entry->data;
    for (int64_t r = 0; r < rows && row; r++, from += (size_t)row * element) {
        int64_t place = 0, left = r, stride = 1;
        for (int i = rank - 1; i >= 0; i--) {
            int64_t index = 0;
            if (i < rank - 1) {
                index = left % part->dims[i];
                left /= part->dims[i];
            }
            place += (piece->starts[i] + index) * stride;
            stride *= e->shown.dims[i];
        }
        memcpy(to + (size_t)place * element, from, (size_t)row * element);
    }
}

// Of a type whose elements have a size: whole and pieces then have the bytes of their shapes.
static tl_status copy_pieces(char *to, const tl_tensorbundle *b, const tli_tb_entry *e)
{
    const tli_tb_type *type = tli_tb_type_named(e->shown.type);
    if (!type || !type->bytes)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "'%s': entry '%s' is %s and in pieces, which cannot be put together",
                       b->index_path, e->shown.name, e->shown.type);
    for (int64_t i = 0; i < e->shown.pieces; i++) {
        const tli_tb_piece *piece = &e->pieces[i];
        TL_TRY_NOTE(verify_one(b, piece->entry), "piece %" PRId64 " of entry '%s'", i,
                    e->shown.name);
        copy_piece(to, e, piece, type->bytes);
    }
    return TL_OK;
}

// What was cut after its checksum was looked at is copied as zeros.
static tl_status check_shards(const tl_tensorbundle *b)
{
    for (int64_t i = 0; i < b->shards.count; i++)
        TL_TRY(tl_file_mapping_check(&b->shards.items[i].file, b->prefix));
    return TL_OK;
}

tl_status tl_tensorbundle_copy(void *to, const tl_tensorbundle *b,
                               const tl_tensorbundle_entry *entry)
{
    const void *data;
    if (entry->pieces) {
        TL_TRY(copy_pieces(to, b, inner(entry)));
        return check_shards(b);
    }
    TL_TRY(tl_tensorbundle_borrow(&data, b, entry));
    if (entry->bytes) memcpy(to, data, entry->bytes);
    return check_shards(b);
}

tl_status tl_tensorbundle_verify(const tl_tensorbundle *b)
{
    for (int64_t i = 0; i < b->entries.count; i++)
        if (!b->entries.items[i].shown.pieces) TL_TRY(verify_one(b, &b->entries.items[i]));
    for (int64_t i = 0; i < b->parts.count; i++) TL_TRY(verify_one(b, &b->parts.items[i]));
    return TL_OK;
}
