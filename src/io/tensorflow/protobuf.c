#include "io/tensorflow/protobuf.h"

#include <string.h>

#include "base/inner/utf8.h"

enum { LONGEST_VARINT = 10 };

/* --- writing ---------------------------------------------------------------------------------- */

static int make_varint(char out[LONGEST_VARINT], uint64_t value)
{
    int n = 0;
    for (; value >= 0x80; value >>= 7) out[n++] = (char)(value | 0x80);
    out[n++] = (char)value;
    return n;
}

void tli_put_varint(tl_str *out, uint64_t value)
{
    char bytes[LONGEST_VARINT];
    int n = make_varint(bytes, value);
    tl_str_addn(out, bytes, (size_t)n);
}

static void add_key(tl_str *out, int field, int wire)
{
    tli_put_varint(out, (uint64_t)field << 3 | (uint64_t)wire);
}

void tli_put_u32(tl_str *out, uint32_t value)
{
    char bytes[4];
    for (int i = 0; i < 4; i++) bytes[i] = (char)(value >> 8 * i);
    tl_str_addn(out, bytes, sizeof bytes);
}

void tli_put_u64(tl_str *out, uint64_t value)
{
    tli_put_u32(out, (uint32_t)value);
    tli_put_u32(out, (uint32_t)(value >> 32));
}

void tli_pb_int(tl_str *out, int field, int64_t value)
{
    add_key(out, field, TLI_PB_VARINT);
    tli_put_varint(out, (uint64_t)value);
}

void tli_pb_double(tl_str *out, int field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_key(out, field, TLI_PB_FIXED64);
    tli_put_u64(out, bits);
}

void tli_pb_float(tl_str *out, int field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_key(out, field, TLI_PB_FIXED32);
    tli_put_u32(out, bits);
}

void tli_pb_bytes(tl_str *out, int field, const void *data, size_t size)
{
    add_key(out, field, TLI_PB_BYTES);
    tli_put_varint(out, size);
    tl_str_addn(out, data, size);
}

void tli_pb_text(tl_str *out, int field, const char *text)
{
    size_t mark = tli_pb_begin(out, field);
    while (*text) {
        size_t valid = 0;
        int length;
        while (text[valid] && (length = tli_utf8_length(text + valid)) > 0) valid += (size_t)length;
        tl_str_addn(out, text, valid);
        text += valid;
        if (!*text) break;
        tl_str_add(out, TLI_UTF8_REPLACEMENT);
        text++;
    }
    tli_pb_end(out, mark);
}

size_t tli_pb_begin(tl_str *out, int field)
{
    add_key(out, field, TLI_PB_BYTES);
    return out->length;
}

// How long the message is stands before it, and is known only now: the message moves to make room.
void tli_pb_end(tl_str *out, size_t mark)
{
    char bytes[LONGEST_VARINT];
    if (out->failed) return;
    size_t length = out->length - mark;
    size_t n = (size_t)make_varint(bytes, length);
    tl_str_addn(out, bytes, n);
    if (out->failed) return;
    memmove(out->data + mark + n, out->data + mark, length);
    memcpy(out->data + mark, bytes, n);
}

/* --- reading ---------------------------------------------------------------------------------- */

uint32_t tli_get_u32(const void *at)
{
    const uint8_t *p = at;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint64_t tli_get_u64(const void *at)
{
    return (uint64_t)tli_get_u32(at) | (uint64_t)tli_get_u32((const char *)at + 4) << 32;
}

double tli_get_double(const void *at)
{
    uint64_t bits = tli_get_u64(at);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float tli_get_float(const void *at)
{
    uint32_t bits = tli_get_u32(at);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

bool tli_get_varint(const char **at, const char *end, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        uint8_t byte = (uint8_t) * (*at)++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

/* Nearly all names of fields and lengths are one byte. */
static inline bool read_varint(tli_pb *in, uint64_t *out)
{
    if (in->at < in->end && (uint8_t)*in->at < 0x80) {
        *out = (uint8_t)*in->at++;
        return true;
    }
    return tli_get_varint(&in->at, in->end, out);
}

static bool read_fixed(tli_pb *in, tli_pb_field *out, size_t size)
{
    if ((size_t)(in->end - in->at) < size) return false;
    out->bits = size == 8 ? tli_get_u64(in->at) : tli_get_u32(in->at);
    in->at += size;
    return true;
}

static bool read_bytes(tli_pb *in, tli_pb_field *out)
{
    uint64_t size;
    if (!read_varint(in, &size) || size > (uint64_t)(in->end - in->at)) return false;
    out->data = in->at;
    out->size = (size_t)size;
    in->at += size;
    return true;
}

static bool read_field(tli_pb *in, tli_pb_field *out)
{
    uint64_t key;
    if (!read_varint(in, &key) || key >> 3 == 0 || key >> 3 >= 1 << 29) return false;
    *out = (tli_pb_field){.number = (int)(key >> 3), .wire = (int)(key & 7)};
    switch (out->wire) {
    case TLI_PB_VARINT: return read_varint(in, &out->bits);
    case TLI_PB_FIXED64: return read_fixed(in, out, 8);
    case TLI_PB_FIXED32: return read_fixed(in, out, 4);
    case TLI_PB_BYTES: return read_bytes(in, out);
    default: return false; // groups went out of use before event files came up
    }
}

bool tli_pb_next(tli_pb *in, tli_pb_field *out)
{
    if (in->at == in->end || in->damaged) return false;
    in->damaged = !read_field(in, out);
    return !in->damaged;
}
