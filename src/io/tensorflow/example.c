#include <tilth/io/tensorflow/example.h>

#include <inttypes.h>
#include <string.h>

#include "io/tensorflow/protobuf.h"

/* Example and SequenceExample have their features, or context, in field 1; a SequenceExample its
 * lists in 2. */
enum { FEATURES = 1, FEATURE_LISTS = 2 };
enum { ENTRY = 1, ENTRY_NAME = 1, ENTRY_VALUE = 2 };
/* A list of any kind holds its values in field 1. */
enum { VALUES = 1 };
enum { LONGEST_VARINT = 10 };

static const char *const kind_names[] = {"none", "bytes", "float", "int64"};

const char *tl_feature_kind_name(tl_feature_kind kind)
{
    bool known = kind >= TL_FEATURE_NONE && kind <= TL_FEATURE_INTS;
    return known ? kind_names[kind] : kind_names[TL_FEATURE_NONE];
}

static tli_pb pb_of(tl_bytes bytes)
{
    return (tli_pb){bytes.data, bytes.data + bytes.size, false};
}

/* What examples are full of: a text or a message of a field below 16 that is shorter than 16 KiB.
 * Its number; 0, and nothing has moved, for all else. */
static inline int usual_field(tl_bytes *in, tl_bytes *out)
{
    const uint8_t *at = (const uint8_t *)in->data;
    size_t head = 2;
    if (in->size < 3 || at[0] < 8 || (at[0] & 0x87) != TLI_PB_BYTES) return 0;
    size_t size = at[1];
    if (size >= 0x80) {
        if (at[2] >= 0x80) return 0;
        size = (size & 0x7f) | (size_t)at[2] << 7;
        head = 3;
    }
    if (size > in->size - head) return 0;
    *out = (tl_bytes){in->data + head, size};
    *in = (tl_bytes){in->data + head + size, in->size - head - size};
    return at[0] >> 3;
}

/* As tli_pb_next, and at once for the usual ones. */
static inline bool next_field(tli_pb *in, tli_pb_field *out)
{
    tl_bytes left = {in->at, (size_t)(in->end - in->at)}, found;
    int number = in->damaged ? 0 : usual_field(&left, &found);
    if (!number) return tli_pb_next(in, out);
    *out = (tli_pb_field){
        .number = number, .wire = TLI_PB_BYTES, .data = found.data, .size = found.size};
    in->at = left.data;
    return true;
}

/* --- values ----------------------------------------------------------------------------------- */

/* The pieces of a feature's values, one field of a list after the other: packed ones many at once.
 * */
typedef struct pieces {
    tli_pb lists, values;
    int kind;
} pieces;

static pieces pieces_of(const tl_feature *f)
{
    return (pieces){pb_of(f->values), {NULL, NULL, false}, (int)f->kind};
}

static bool next_piece(pieces *p, tli_pb_field *out)
{
    for (;;) {
        while (p->values.at != p->values.end)
            if (!next_field(&p->values, out)) return false;
            else if (out->number == VALUES) return true;
        tli_pb_field list;
        if (!next_field(&p->lists, &list)) return false;
        if (list.number == p->kind && list.wire == TLI_PB_BYTES)
            p->values = (tli_pb){list.data, list.data + list.size, false};
    }
}

// Which list a feature is, and its only piece, as nearly all of numbers have no more; 0 for others.
static inline int only_piece(tl_bytes feature, tl_bytes *out)
{
    tl_bytes list;
    int kind = usual_field(&feature, &list);
    if (!kind || feature.size || usual_field(&list, out) != VALUES || list.size) return 0;
    return kind;
}

// Eight bytes, the first one lowest.
static inline uint64_t load_8(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

#define HIGH_BITS UINT64_C(0x8080808080808080)

// -1 for bytes that are no row of varints.
static int64_t count_varints_one_by_one(const char *data, size_t size)
{
    int64_t count = 0;
    int run = 0;
    bool bad = false;
    for (size_t i = 0; i < size; i++) {
        run = (uint8_t)data[i] & 0x80 ? run + 1 : 0;
        bad |= run >= LONGEST_VARINT;
        count += run == 0;
    }
    return bad || run ? -1 : count;
}

// The same, eight bytes at a time: each without its high bit ends a varint. One that is too long
// has four bytes of a half word that all go on; then it is found out the slow way.
static int64_t count_varints(const char *data, size_t size)
{
    const uint64_t each = UINT64_C(0x0101010101010101);
    uint64_t going = 0, halves = 0;
    size_t i = 0;
    for (; i + 8 <= size; i += 8) {
        const uint64_t on = load_8(data + i) >> 7 & each;
        going += on * each >> 56;           // the sum of all bytes in the highest one
        halves |= on * (each & UINT32_MAX); // the sum of each half in its highest one
    }
    const bool doubtful = halves & UINT64_C(0x0400000004000000); // a sum of four
    if (doubtful || (size && (uint8_t)data[size - 1] & 0x80))
        return count_varints_one_by_one(data, size);
    int64_t count = (int64_t)(i - going);
    for (; i < size; i++) count += !((uint8_t)data[i] & 0x80);
    return count;
}

// How many values a piece of bytes holds; -1 when it cannot be one of this kind.
static int64_t count_bytes(int kind, tl_bytes piece)
{
    switch (kind) {
    case TL_FEATURE_BYTES: return 1;
    case TL_FEATURE_FLOATS: return piece.size % 4 == 0 ? (int64_t)(piece.size / 4) : -1;
    default: return count_varints(piece.data, piece.size);
    }
}

// The same of any piece.
static int64_t count_piece(int kind, const tli_pb_field *piece)
{
    if (piece->wire == TLI_PB_BYTES) return count_bytes(kind, (tl_bytes){piece->data, piece->size});
    bool fits = (kind == TL_FEATURE_FLOATS && piece->wire == TLI_PB_FIXED32)
                || (kind == TL_FEATURE_INTS && piece->wire == TLI_PB_VARINT);
    return fits ? 1 : -1;
}

// False when the lists are damaged.
static bool count_values(tl_feature *f)
{
    pieces p = pieces_of(f);
    tli_pb_field piece;
    f->count = 0;
    while (next_piece(&p, &piece)) {
        int64_t n = count_piece(p.kind, &piece);
        if (n < 0) return false;
        f->count += n;
    }
    return !p.lists.damaged && !p.values.damaged;
}

// A feature is one of three lists: the last one that is there counts, and what came before it of
// the same kind.
static bool parse_lists(tl_feature *f, tl_bytes bytes)
{
    tli_pb in = pb_of(bytes);
    tli_pb_field list;
    f->kind = TL_FEATURE_NONE;
    f->count = 0;
    f->values = (tl_bytes){NULL, 0};
    const char *from = in.at;
    while (next_field(&in, &list)) {
        bool known = list.number >= TL_FEATURE_BYTES && list.number <= TL_FEATURE_INTS;
        if (known && list.wire != TLI_PB_BYTES) return false;
        if (known && list.number != (int)f->kind) {
            f->kind = (tl_feature_kind)list.number;
            f->values.data = from;
        }
        from = in.at;
    }
    if (in.damaged) return false;
    if (f->kind == TL_FEATURE_NONE) return true;
    f->values.size = (size_t)(in.end - f->values.data);
    return count_values(f);
}

static bool parse_feature(tl_feature *f, tl_bytes bytes)
{
    tl_bytes piece;
    int kind = only_piece(bytes, &piece);
    if (kind < TL_FEATURE_BYTES || kind > TL_FEATURE_INTS) return parse_lists(f, bytes);
    f->kind = (tl_feature_kind)kind;
    f->count = count_bytes(kind, piece);
    f->values = bytes;
    return f->count >= 0;
}

static tl_status check(const tl_feature *f, const char *name, tl_feature_kind kind, int64_t count)
{
    if (f->kind == kind && f->count == count) return TL_OK;
    if (f->kind == TL_FEATURE_NONE && count == 0) return TL_OK;
    if (f->kind == TL_FEATURE_NONE)
        return TL_FAIL(TL_ENOTFOUND, "the example has no feature '%s'; a list of %s is wanted",
                       name, kind_names[kind]);
    if (f->kind != kind)
        return TL_FAIL(TL_EINVAL, "the feature '%s' is a list of %s; one of %s is wanted", name,
                       tl_feature_kind_name(f->kind), kind_names[kind]);
    return TL_FAIL(TL_EINVAL, "the feature '%s' has %" PRId64 " values; %" PRId64 " are wanted",
                   name, f->count, count);
}

// The bytes are looked at a second time here. Whoever maps a file has no promise that they are the
// same.
static tl_status check_whole(const char *name, int64_t missing)
{
    if (missing <= 0) return TL_OK;
    return TL_FAIL(TL_EIO,
                   "the feature '%s' lacks %" PRId64
                   " values that it had a moment ago: its file changed while it was read",
                   name, missing);
}

tl_status tl_feature_bytes(const tl_feature *f, const char *name, tl_bytes *out, int64_t count)
{
    TL_TRY(check(f, name, TL_FEATURE_BYTES, count));
    pieces p = pieces_of(f);
    tli_pb_field piece;
    for (; count > 0 && next_piece(&p, &piece) && piece.wire == TLI_PB_BYTES; count--)
        *out++ = (tl_bytes){piece.data, piece.size};
    return check_whole(name, count);
}

static void copy_floats(float *out, const char *data, int64_t count)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (count) memcpy(out, data, (size_t)count * sizeof *out);
#else
    for (int64_t i = 0; i < count; i++) out[i] = tli_get_float(data + 4 * i);
#endif
}

tl_status tl_feature_floats(const tl_feature *f, const char *name, float *out, int64_t count)
{
    TL_TRY(check(f, name, TL_FEATURE_FLOATS, count));
    pieces p = pieces_of(f);
    tli_pb_field piece;
    while (count > 0 && next_piece(&p, &piece)) {
        if (piece.wire == TLI_PB_BYTES) {
            int64_t n = (int64_t)(piece.size / 4);
            if (n > count) n = count;
            copy_floats(out, piece.data, n);
            out += n;
            count -= n;
        } else {
            uint32_t bits = (uint32_t)piece.bits;
            memcpy(out++, &bits, sizeof bits);
            count--;
        }
    }
    return check_whole(name, count);
}

static const char *copy_varint(int64_t *out, const char *at, const char *end)
{
    uint64_t value = 0;
    for (int shift = 0; at < end && shift < 64; shift += 7) {
        uint8_t byte = (uint8_t)*at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) break;
    }
    *out = (int64_t)value;
    return at;
}

// Whether two varints that end at these bits have up to four bytes each.
static inline bool are_short(uint64_t first, uint64_t second)
{
    return second && __builtin_ctzll(first) < 32
           && __builtin_ctzll(second) - __builtin_ctzll(first) <= 32;
}

// The two of them, in a half word each. `end ^ (end - 1)` has all bits up to that of an end.
static inline uint64_t join_two(uint64_t word, uint64_t first, uint64_t second)
{
    const uint64_t one = first ^ (first - 1), both = second ^ (second - 1);
    const int up = 31 - __builtin_ctzll(first);
    uint64_t two = ((word & one) | (word & (both ^ one)) << up) & ~HIGH_BITS;
    two -= (two & UINT64_C(0x7f007f007f007f00)) >> 1; // seven bits beside seven, and then fourteen
    return (two & UINT64_C(0x00003fff00003fff)) | (two >> 2 & UINT64_C(0x0fffc0000fffc000));
}

// The bytes from `at` on, up to eight, and none behind `end`: in their place are such that go on.
static inline uint64_t load_left(const char *at, const char *end, size_t size)
{
    const int64_t left = end - at;
    if (left >= 8) return load_8(at);
    if (size < 8) return ~UINT64_C(0);
    return load_8(end - 8) >> (64 - 8 * left) | ~UINT64_C(0) << 8 * left;
}

// Sixteen numbers of one byte each.
static inline bool are_small(const char *at, const char *end)
{
    return end - at >= 16 && !((load_8(at) | load_8(at + 8)) & HIGH_BITS);
}

// The bytes were seen to be whole varints, as many as there is room for up to `last`. Short ones
// are put together two at a time, without asking how many bytes each has, which no CPU foresees.
// `lost` has bits that were left out.
#define COPY_VARINTS(name, type)                                                                   \
    static type *name(type *out, const type *last, const char *at, size_t size, int64_t *lost)     \
    {                                                                                              \
        const char *end = at + size;                                                               \
        while (at < end && out < last) {                                                           \
            if (last - out >= 16 && are_small(at, end)) {                                          \
                uint8_t bytes[16]; /* no part of what is written */                                \
                memcpy(bytes, at, sizeof bytes);                                                   \
                for (int i = 0; i < 16; i++) out[i] = bytes[i];                                    \
                out += 16;                                                                         \
                at += 16;                                                                          \
                continue;                                                                          \
            }                                                                                      \
            const uint64_t word = load_left(at, end, size);                                        \
            const uint64_t ends = ~word & HIGH_BITS, second = ends & (ends - 1);                   \
            if (are_short(ends, second) && last - out >= 2) {                                      \
                const uint64_t two = join_two(word, ends, second);                                 \
                out[0] = (type)(two & UINT32_MAX);                                                 \
                out[1] = (type)(two >> 32);                                                        \
                out += 2;                                                                          \
                at += __builtin_ctzll(second) / 8 + 1;                                             \
            } else {                                                                               \
                int64_t value;                                                                     \
                at = copy_varint(&value, at, end);                                                 \
                *lost |= (type)value ^ value;                                                      \
                *out++ = (type)value;                                                              \
            }                                                                                      \
        }                                                                                          \
        return out;                                                                                \
    }
COPY_VARINTS(copy_varints, int64_t)
COPY_VARINTS(copy_varints_32, int32_t)

tl_status tl_feature_ints(const tl_feature *f, const char *name, int64_t *out, int64_t count)
{
    TL_TRY(check(f, name, TL_FEATURE_INTS, count));
    pieces p = pieces_of(f);
    tli_pb_field piece;
    int64_t lost = 0;
    while (count > 0 && next_piece(&p, &piece)) {
        int64_t *from = out;
        if (piece.wire == TLI_PB_BYTES)
            out = copy_varints(out, out + count, piece.data, piece.size, &lost);
        else *out++ = (int64_t)piece.bits;
        count -= out - from;
    }
    return check_whole(name, count);
}

tl_status tl_feature_int32s(const tl_feature *f, const char *name, int32_t *out, int64_t count,
                            bool *fits)
{
    TL_TRY(check(f, name, TL_FEATURE_INTS, count));
    pieces p = pieces_of(f);
    tli_pb_field piece;
    int64_t lost = 0;
    while (count > 0 && next_piece(&p, &piece)) {
        int32_t *from = out;
        if (piece.wire == TLI_PB_BYTES) {
            out = copy_varints_32(out, out + count, piece.data, piece.size, &lost);
        } else {
            *out = (int32_t)piece.bits;
            lost |= *out++ ^ (int64_t)piece.bits;
        }
        count -= out - from;
    }
    *fits = !lost;
    return check_whole(name, count);
}

/* --- features by name ------------------------------------------------------------------------- */

static tl_status fail_at(const tl_example_reader *r, const char *at, const char *what)
{
    return TL_FAIL(TL_EINVAL, "no tf.train.Example: %s at byte %zu of %zu", what,
                   (size_t)(at - r->whole.data), r->whole.size);
}

static tl_example_reader read_field(int field, const void *data, size_t size)
{
    tl_bytes whole = {size ? data : "", size};
    return (tl_example_reader){whole, whole, {whole.data, 0}, field};
}

tl_example_reader tl_example_read(const void *data, size_t size)
{
    return read_field(FEATURES, data, size);
}

// The next field of a message of the given number, past all others; *found is false at the end.
static tl_status next_message(const tl_example_reader *r, tl_bytes *in, int number, tl_bytes *out,
                              bool *found)
{
    tli_pb pb = pb_of(*in);
    tli_pb_field f;
    *found = false;
    while (!*found && next_field(&pb, &f)) {
        if (f.number != number) continue;
        if (f.wire != TLI_PB_BYTES)
            return fail_at(r, in->data, "a number where a message is expected");
        *out = (tl_bytes){f.data, f.size};
        *found = true;
    }
    if (pb.damaged) return fail_at(r, pb.at, "no field");
    *in = (tl_bytes){pb.at, (size_t)(pb.end - pb.at)};
    return TL_OK;
}

// An entry of a map: the last name and the last value that it holds.
static tl_status parse_entry(const tl_example_reader *r, tl_bytes entry, tl_bytes *name,
                             tl_bytes *value)
{
    tli_pb in = pb_of(entry);
    tli_pb_field f;
    *name = *value = (tl_bytes){entry.data, 0};
    while (next_field(&in, &f)) {
        if (f.number != ENTRY_NAME && f.number != ENTRY_VALUE) continue;
        if (f.wire != TLI_PB_BYTES)
            return fail_at(r, entry.data, "a number where a name or value is expected");
        *(f.number == ENTRY_NAME ? name : value) = (tl_bytes){f.data, f.size};
    }
    return in.damaged ? fail_at(r, in.at, "no field") : TL_OK;
}

// Nearly all are a name and a value.
static inline bool usual_entry(tl_bytes *in, tl_bytes *name, tl_bytes *value)
{
    tl_bytes left = *in, entry;
    if (usual_field(&left, &entry) != ENTRY || usual_field(&entry, name) != ENTRY_NAME
        || usual_field(&entry, value) != ENTRY_VALUE || entry.size)
        return false;
    *in = left;
    return true;
}

static tl_status next_entry(tl_example_reader *r, tl_bytes *name, tl_bytes *value, bool *more)
{
    tl_bytes entry;
    *more = usual_entry(&r->inner, name, value);
    if (*more) return TL_OK;
    for (;;) {
        TL_TRY(next_message(r, &r->inner, ENTRY, &entry, more));
        if (*more) return parse_entry(r, entry, name, value);
        TL_TRY(next_message(r, &r->outer, r->field, &r->inner, more));
        if (!*more) return TL_OK;
    }
}

static tl_status fail_feature(const tl_example_reader *r, tl_bytes name, const char *at)
{
    int length = name.size < 60 ? (int)name.size : 60;
    return TL_FAIL(TL_EINVAL,
                   "no tf.train.Example: the value of feature '%.*s' at byte %zu of %zu is damaged",
                   length, name.data, (size_t)(at - r->whole.data), r->whole.size);
}

tl_status tl_example_next(tl_example_reader *r, tl_feature *out, bool *more)
{
    tl_bytes value;
    TL_TRY(next_entry(r, &out->name, &value, more));
    if (!*more || parse_feature(out, value)) return TL_OK;
    *more = false;
    return fail_feature(r, out->name, value.data);
}

static bool is_name(const char *name, tl_bytes bytes)
{
    if (!bytes.size) return !*name;
    return name[0] == bytes.data[0] && strlen(name) == bytes.size
           && memcmp(name, bytes.data, bytes.size) == 0;
}

tl_status tl_example_find(tl_feature *out, const char *const *names, int64_t count,
                          const void *data, size_t size)
{
    tl_example_reader r = tl_example_read(data, size);
    tl_bytes name, value;
    for (int64_t i = 0; i < count; i++) out[i] = (tl_feature){.name = {"", 0}};
    for (bool more = true;;) {
        TL_TRY(next_entry(&r, &name, &value, &more));
        if (!more) return TL_OK;
        for (int64_t i = 0; i < count; i++) {
            if (!is_name(names[i], name)) continue;
            out[i].name = name;
            if (!parse_feature(&out[i], value)) return fail_feature(&r, name, value.data);
        }
    }
}

/* --- lists of features ------------------------------------------------------------------------ */

static bool parse_list(tl_feature_list *list, tl_bytes name, tl_bytes value)
{
    tli_pb in = pb_of(value);
    tli_pb_field f;
    *list = (tl_feature_list){.name = name, .steps = value, .there = true};
    while (next_field(&in, &f)) {
        if (f.number != VALUES) continue;
        if (f.wire != TLI_PB_BYTES) return false;
        list->count++;
    }
    return !in.damaged;
}

tl_status tl_sequence_example_find(tl_feature_list *out, const char *const *names, int64_t count,
                                   const void *data, size_t size)
{
    tl_example_reader r = read_field(FEATURE_LISTS, data, size);
    tl_bytes name, value;
    for (int64_t i = 0; i < count; i++) out[i] = (tl_feature_list){.name = {"", 0}};
    for (bool more = true;;) {
        TL_TRY(next_entry(&r, &name, &value, &more));
        if (!more) return TL_OK;
        for (int64_t i = 0; i < count; i++)
            if (is_name(names[i], name) && !parse_list(&out[i], name, value))
                return fail_feature(&r, name, value.data);
    }
}

tl_status tl_feature_list_next(tl_feature_list *list, tl_feature *out, bool *more)
{
    tl_example_reader r = {.whole = list->steps};
    tl_bytes value;
    out->name = list->name;
    *more = false;
    if (!list->count) return TL_OK;
    TL_TRY(next_message(&r, &list->steps, VALUES, &value, more));
    if (!*more) return TL_OK;
    list->count--;
    if (parse_feature(out, value)) return TL_OK;
    *more = false;
    return fail_feature(&r, list->name, value.data);
}

/* --- writing ---------------------------------------------------------------------------------- */

tl_example_writer tl_example_begin(tl_str *out)
{
    return (tl_example_writer){out, tli_pb_begin(out, FEATURES)};
}

/* The open messages around the values of a feature. */
typedef struct nesting {
    size_t entry, feature, list;
} nesting;

static nesting begin_feature(tl_example_writer *w, const char *name, tl_feature_kind kind)
{
    nesting n;
    n.entry = tli_pb_begin(w->out, ENTRY);
    tli_pb_text(w->out, ENTRY_NAME, name);
    n.feature = tli_pb_begin(w->out, ENTRY_VALUE);
    n.list = tli_pb_begin(w->out, (int)kind);
    return n;
}

static void end_feature(tl_example_writer *w, nesting n)
{
    tli_pb_end(w->out, n.list);
    tli_pb_end(w->out, n.feature);
    tli_pb_end(w->out, n.entry);
}

void tl_example_add_bytes(tl_example_writer *w, const char *name, const tl_bytes *values,
                          int64_t count)
{
    nesting n = begin_feature(w, name, TL_FEATURE_BYTES);
    for (int64_t i = 0; i < count; i++)
        tli_pb_bytes(w->out, VALUES, values[i].data, values[i].size);
    end_feature(w, n);
}

void tl_example_add_text(tl_example_writer *w, const char *name, const char *text)
{
    tl_example_add_bytes(w, name, &(tl_bytes){text, strlen(text)}, 1);
}

enum { GATHERED = 256 }; // bytes of numbers that are appended at a time

void tl_example_add_floats(tl_example_writer *w, const char *name, const float *values,
                           int64_t count)
{
    nesting n = begin_feature(w, name, TL_FEATURE_FLOATS);
    size_t packed = tli_pb_begin(w->out, VALUES), length = 0;
    char bytes[GATHERED];
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        for (int k = 0; k < 4; k++) bytes[length++] = (char)(bits >> 8 * k);
        if (length < GATHERED - sizeof bits) continue;
        tl_str_addn(w->out, bytes, length);
        length = 0;
    }
    tl_str_addn(w->out, bytes, length);
    tli_pb_end(w->out, packed);
    end_feature(w, n);
}

void tl_example_add_ints(tl_example_writer *w, const char *name, const int64_t *values,
                         int64_t count)
{
    nesting n = begin_feature(w, name, TL_FEATURE_INTS);
    size_t packed = tli_pb_begin(w->out, VALUES), length = 0;
    char bytes[GATHERED];
    for (int64_t i = 0; i < count; i++) {
        uint64_t value = (uint64_t)values[i];
        for (; value >= 0x80; value >>= 7) bytes[length++] = (char)(value | 0x80);
        bytes[length++] = (char)value;
        if (length < GATHERED - LONGEST_VARINT) continue;
        tl_str_addn(w->out, bytes, length);
        length = 0;
    }
    tl_str_addn(w->out, bytes, length);
    tli_pb_end(w->out, packed);
    end_feature(w, n);
}

tl_status tl_example_end(tl_example_writer *w)
{
    tli_pb_end(w->out, w->mark);
    return tl_str_status(w->out);
}
