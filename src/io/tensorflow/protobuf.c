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
