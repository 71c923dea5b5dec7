#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/tensorflow/protobuf.h"
#include "io/inner/tensorbundle.h"

static const tli_tb_type types[] = {
#define TYPE_ROW(number, name, bytes, dtype) {number, name, bytes, (int)(dtype)},
    TLI_TB_TYPES(TYPE_ROW)
#undef TYPE_ROW
};

const tli_tb_type *tli_tb_type_numbered(uint64_t number)
{
    return number >= 1 && number <= (uint64_t)TL_COUNT(types) ? &types[number - 1] : NULL;
}

const tli_tb_type *tli_tb_type_named(const char *name)
{
    for (int64_t i = 0; i < TL_COUNT(types); i++)
        if (strcmp(types[i].name, name) == 0) return &types[i];
    return NULL;
}

const tli_tb_type *tli_tb_type_of(tl_dtype dtype)
{
    int64_t i = 0;
    while (types[i].dtype != (int)dtype) i++;
    return &types[i];
}

/* --- shapes ----------------------------------------------------------------------------------- */

/* The first number of a small message: the size of a dimension. */
static bool read_dim(int64_t *out, tli_pb_field message)
{
    tli_pb in = {message.data, message.data + message.size, false};
    tli_pb_field f;
    *out = 0;
    while (tli_pb_next(&in, &f))
        if (f.number == 1 && f.wire == TLI_PB_VARINT) *out = (int64_t)f.bits;
    return !in.damaged;
}

static int64_t count_fields(tli_pb_field message, int number)
{
    tli_pb in = {message.data, message.data + message.size, false};
    tli_pb_field f;
    int64_t count = 0;
    while (tli_pb_next(&in, &f)) count += f.number == number && f.wire == TLI_PB_BYTES;
    return count;
}

static tl_status read_shape(tl_tensorbundle *b, tli_tb_entry *e, tli_pb_field shape)
{
    tli_pb in = {shape.data, shape.data + shape.size, false};
    tli_pb_field f;
    int64_t rank = count_fields(shape, 2), at = 0;
    int64_t *dims = tl_arena_array(b->arena, rank, sizeof *dims);
    if (!dims) return TL_ENOMEM;
    while (tli_pb_next(&in, &f)) {
        if (f.number == 3 && f.wire == TLI_PB_VARINT && f.bits)
            return TLI_TB_FAIL(b, e, "the number of its dimensions is not known");
        if (f.number != 2 || f.wire != TLI_PB_BYTES) continue;
        if (!read_dim(&dims[at], f))
            return TLI_TB_FAIL(b, e, "dimension %" PRId64 " of its shape is damaged", at);
        if (dims[at] < 0)
            return TLI_TB_FAIL(b, e,
                               "dimension %" PRId64 " of its shape is %" PRId64 ", not from 0 on",
                               at, dims[at]);
        at++;
    }
    if (in.damaged) return TLI_TB_FAIL(b, e, "its shape is damaged");
    e->shown.rank = (int)rank; // a message in memory has fewer bytes than an int can count
    e->shown.dims = dims;
    return TL_OK;
}

/* --- one entry -------------------------------------------------------------------------------- */

/* What an entry says of itself. */
typedef struct fields {
    uint64_t type, shard, offset, size;
    tli_pb_field shape;
    int64_t slices;
} fields;

static bool read_fields(fields *out, tli_tb_entry *e, tli_bytes value)
{
    tli_pb in = {value.data, value.data + value.size, false};
    tli_pb_field f;
    *out = (fields){.shape = {.data = value.data}};
    while (tli_pb_next(&in, &f)) {
        bool number = f.wire == TLI_PB_VARINT, bytes = f.wire == TLI_PB_BYTES;
        if (f.number == 1 && number) out->type = f.bits;
        if (f.number == 2 && bytes) out->shape = f;
        if (f.number == 3 && number) out->shard = f.bits;
        if (f.number == 4 && number) out->offset = f.bits;
        if (f.number == 5 && number) out->size = f.bits;
        if (f.number == 6 && f.wire == TLI_PB_FIXED32) e->crc = (uint32_t)f.bits;
        if (f.number == 7 && bytes) out->slices++;
    }
    return !in.damaged;
}

// Elements, and whether a tensor may have this shape.
static tl_status count_elements(const tl_tensorbundle *b, const tli_tb_entry *e, int64_t *count,
                                bool *acceptable)
{
    int64_t bytes = 8; // as tl_shape_check counts
    *count = 1;
    *acceptable = e->shown.rank <= TL_MAX_RANK;
    for (int i = 0; i < e->shown.rank; i++) {
        int64_t dim = e->shown.dims[i];
        if (__builtin_mul_overflow(*count, dim, count))
            return TLI_TB_FAIL(b, e, "its shape has too many elements");
        if (__builtin_mul_overflow(bytes, dim > 0 ? dim : 1, &bytes)) *acceptable = false;
    }
    return TL_OK;
}

static tl_status check_size(const tl_tensorbundle *b, tli_tb_entry *e, const tli_tb_type *type,
                            uint64_t size)
{
    int64_t count, bytes;
    bool acceptable;
    TL_TRY(count_elements(b, e, &count, &acceptable));
    e->shown.bytes = (size_t)size;
    if (!type || !type->bytes) {                 // what varies, or is newer, cannot be checked
        if (e->shown.pieces) e->shown.bytes = 0; // nor put together
        return TL_OK;
    }
    if (__builtin_mul_overflow(count, (int64_t)type->bytes, &bytes))
        return TLI_TB_FAIL(b, e, "its shape has too many elements");
    if (!e->shown.pieces && (uint64_t)bytes != size) {
        tl_str spec = TL_STR_INIT;
        tl_tensorbundle_spec(&spec, &e->shown);
        tl_status st =
            TLI_TB_FAIL(b, e, "%s has %" PRId64 " bytes, and the index gives it %" PRIu64,
                        tl_str_text(&spec), bytes, size);
        tl_str_deinit(&spec);
        return st;
    }
    e->shown.bytes = (size_t)bytes;
    e->shown.readable = type->dtype >= 0 && acceptable;
    if (e->shown.readable) e->shown.dtype = (tl_dtype)type->dtype;
    return TL_OK;
}

static tl_status read_pieces(tl_tensorbundle *b, tli_tb_entry *e, tli_bytes value);

tl_status tli_tb_parse_entry(tl_tensorbundle *b, tli_tb_entry *e, tli_bytes value)
{
    fields f;
    if (!read_fields(&f, e, value))
        return TLI_TB_FAIL(b, e, "what the index says of it is no protocol buffer");
    const tli_tb_type *type = tli_tb_type_numbered(f.type);
    e->shown.type = type ? type->name : tl_arena_printf(b->arena, "type %" PRIu64, f.type);
    if (!e->shown.type) return TL_ENOMEM;
    if (f.type == 0) return TLI_TB_FAIL(b, e, "it has no type");
    e->shown.is_string = f.type == TLI_TB_STRING;
    e->shown.pieces = f.slices;
    TL_TRY(read_shape(b, e, f.shape));
    TL_TRY(check_size(b, e, type, f.size));
    if (f.slices) return read_pieces(b, e, value);
    if (f.shard >= (uint64_t)b->shard_count)
        return TLI_TB_FAIL(
            b, e, "it lies in data file %" PRIu64 ", and there are %" PRId64 " (the first is 0)",
            f.shard, b->shard_count);
    e->shard = (int64_t)f.shard;
    e->offset = f.offset;
    return TL_OK;
}

/* --- pieces ----------------------------------------------------------------------------------- */

enum { MOST_PIECES = 4096, WHOLE = -1 /* the length of a dimension that is not cut */ };

static bool read_extent(int64_t *start, int64_t *length, tli_pb_field message)
{
    tli_pb in = {message.data, message.data + message.size, false};
    tli_pb_field f;
    *start = 0;
    *length = WHOLE;
    while (tli_pb_next(&in, &f)) {
        if (f.number == 1 && f.wire == TLI_PB_VARINT) *start = (int64_t)f.bits;
        if (f.number == 2 && f.wire == TLI_PB_VARINT) *length = (int64_t)f.bits;
    }
    return !in.damaged;
}

static tl_status read_piece(tl_tensorbundle *b, const tli_tb_entry *e, tli_tb_piece *piece,
                            tli_pb_field message)
{
    tli_pb in = {message.data, message.data + message.size, false};
    tli_pb_field f;
    int rank = e->shown.rank, at = 0;
    int64_t *starts = tl_arena_array(b->arena, rank, sizeof *starts),
            *lengths = tl_arena_array(b->arena, rank, sizeof *lengths);
    if (!starts || !lengths) return TL_ENOMEM;
    while (tli_pb_next(&in, &f)) {
        if (f.number != 1 || f.wire != TLI_PB_BYTES) continue;
        if (at == rank || !read_extent(&starts[at], &lengths[at], f))
            return TLI_TB_FAIL(b, e, "a piece of it is damaged, or has more dimensions than it");
        int64_t dim = e->shown.dims[at], length = lengths[at] == WHOLE ? dim : lengths[at];
        if (starts[at] < 0 || starts[at] > dim || length < 0 || length > dim - starts[at])
            return TLI_TB_FAIL(b, e, "a piece of it leaves dimension %d", at);
        at++;
    }
    if (in.damaged || at != rank)
        return TLI_TB_FAIL(b, e, "a piece of it is damaged, or has fewer dimensions than it");
    piece->starts = starts;
    piece->lengths = lengths;
    return TL_OK;
}

static tl_status read_pieces(tl_tensorbundle *b, tli_tb_entry *e, tli_bytes value)
{
    tli_pb in = {value.data, value.data + value.size, false};
    tli_pb_field f;
    int64_t at = 0;
    if (e->key.data) return TLI_TB_FAIL(b, e, "a piece is in pieces itself");
    if (e->shown.pieces > MOST_PIECES)
        return TL_FAIL(TL_ELIMIT, "'%s': entry '%s' is in %" PRId64 " pieces; %d are accepted",
                       b->index_path, e->shown.name, e->shown.pieces, MOST_PIECES);
    tli_tb_piece *pieces = tl_arena_array(b->arena, e->shown.pieces, sizeof *pieces);
    if (!pieces) return TL_ENOMEM;
    e->pieces = pieces;
    while (tli_pb_next(&in, &f))
        if (f.number == 7 && f.wire == TLI_PB_BYTES) TL_TRY(read_piece(b, e, &pieces[at++], f));
    return TL_OK;
}

/* The keys of pieces are made so that their bytes have the order of what they are made of. */
static void add_number(tl_str *out, uint64_t value)
{
    int bytes = 0;
    while (bytes < 8 && value >> 8 * bytes) bytes++;
    tl_str_addc(out, (char)bytes);
    while (bytes--) tl_str_addc(out, (char)(value >> 8 * bytes));
}

static void add_text(tl_str *out, const char *text)
{
    for (; *text; text++) {
        tl_str_addc(out, *text);
        if (*text == '\xff') tl_str_addc(out, '\0');
    }
    tl_str_addn(out, "\0\1", 2);
}

// One bit for each byte beyond the first stands before the number, and its sign is turned.
static void add_signed(tl_str *out, int64_t value)
{
    enum { LONGEST = 10 };
    uint64_t size = value < 0 ? ~(uint64_t)value : (uint64_t)value;
    int length = 1;
    while (length < LONGEST && size >> (7 * length - 1)) length++;
    uint8_t bytes[LONGEST];
    for (int i = 0; i < LONGEST; i++) {
        int shift = 8 * (LONGEST - 1 - i);
        bytes[i] = shift >= 64 ? (value < 0 ? 0xff : 0) : (uint8_t)((uint64_t)value >> shift);
    }
    uint8_t *first = bytes + LONGEST - length;
    for (int bit = 0; bit < length; bit++) first[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
    tl_str_addn(out, (const char *)first, (size_t)length);
}

static void add_piece_key(tl_str *out, const tli_tb_entry *e, const tli_tb_piece *piece)
{
    add_number(out, 0);
    add_text(out, e->shown.name);
    add_number(out, (uint64_t)e->shown.rank);
    for (int i = 0; i < e->shown.rank; i++) {
        add_signed(out, piece->starts[i]);
        add_signed(out, piece->lengths[i]);
    }
}

static int by_key(const void *a, const void *b)
{
    return tli_bytes_compare(((const tli_tb_entry *)a)->key, ((const tli_tb_entry *)b)->key);
}

static int64_t length_of(const tli_tb_entry *e, const tli_tb_piece *piece, int dim)
{
    return piece->lengths[dim] == WHOLE ? e->shown.dims[dim] : piece->lengths[dim];
}

static tl_status check_piece(const tl_tensorbundle *b, const tli_tb_entry *e,
                             const tli_tb_piece *piece, int64_t *elements)
{
    const tl_tensorbundle_entry *part = &piece->entry->shown;
    bool fits = strcmp(part->type, e->shown.type) == 0 && part->rank == e->shown.rank;
    int64_t count = 1;
    for (int i = 0; i < e->shown.rank && fits; i++) {
        fits = part->dims[i] == length_of(e, piece, i);
        count *= part->dims[i]; // no more than the whole has
    }
    *elements += count;
    return fits ? TL_OK : TLI_TB_FAIL(b, e, "a piece of it has another type or shape than it says");
}

static bool overlap(const tli_tb_entry *e, const tli_tb_piece *x, const tli_tb_piece *y)
{
    for (int i = 0; i < e->shown.rank; i++) {
        int64_t of_x = length_of(e, x, i), of_y = length_of(e, y, i);
        if (!of_x || !of_y) return false; // one of them has no elements
        if (x->starts[i] + of_x <= y->starts[i] || y->starts[i] + of_y <= x->starts[i])
            return false;
    }
    return true;
}

tl_status tli_tb_find_pieces(tl_tensorbundle *b, tli_tb_entry *e)
{
    tli_tb_piece *pieces = (tli_tb_piece *)(uintptr_t)e->pieces;
    tl_str key = TL_STR_INIT;
    int64_t elements = 0, count = 1;
    tl_status st = TL_OK;
    for (int i = 0; i < e->shown.rank; i++) count *= e->shown.dims[i];
    for (int64_t i = 0; i < e->shown.pieces; i++) {
        tl_str_cut(&key, 0);
        add_piece_key(&key, e, &pieces[i]);
        TL_TRY_DONE(st, tl_str_status(&key));
        const tli_tb_entry wanted = {.key = {key.data, key.length}};
        pieces[i].entry = b->parts.count ? bsearch(&wanted, b->parts.items, (size_t)b->parts.count,
                                                   sizeof wanted, by_key)
                                         : NULL;
        if (!pieces[i].entry) {
            st = TLI_TB_FAIL(b, e, "piece %" PRId64 " of %" PRId64 " is missing", i,
                             e->shown.pieces);
            goto done;
        }
        for (int64_t k = 0; k < i; k++)
            if (overlap(e, &pieces[k], &pieces[i])) {
                st = TLI_TB_FAIL(b, e, "pieces %" PRId64 " and %" PRId64 " of it overlap", k, i);
                goto done;
            }
        // Behind that, so that the elements can be counted: there are no more than in the whole.
        TL_TRY_DONE(st, check_piece(b, e, &pieces[i], &elements));
    }
    if (elements != count)
        st = TLI_TB_FAIL(b, e, "its pieces have %" PRId64 " elements together, and it has %" PRId64,
                         elements, count);
done:
    tl_str_deinit(&key);
    return st;
}
