/* Protocol buffers on the wire: fields appended to a string, and read from bytes.
 *
 *     size_t value = tli_pb_begin(&event, 5);             // a message within the message
 *     tli_pb_text(&event, 1, "loss");
 *     tli_pb_float(&event, 2, 0.5f);
 *     tli_pb_end(&event, value);
 *
 *     tli_pb in = {bytes, bytes + size, false};
 *     tli_pb_field f;
 *     while (tli_pb_next(&in, &f))
 *         if (f.number == 5 && f.wire == TLI_PB_BYTES) read_value(f.data, f.size);
 *     if (in.damaged) ...
 *
 * Thread word: one thread at a time. */
#ifndef TLI_IO_PROTOBUF_H
#define TLI_IO_PROTOBUF_H

#include <string.h>

#include <tilth/base/str.h>

enum { TLI_PB_VARINT = 0, TLI_PB_FIXED64 = 1, TLI_PB_BYTES = 2, TLI_PB_FIXED32 = 5 };

void tli_pb_int(tl_str *out, int field, int64_t value);
void tli_pb_double(tl_str *out, int field, double value);
void tli_pb_float(tl_str *out, int field, float value);
void tli_pb_bytes(tl_str *out, int field, const void *data, size_t size);
/* What is no UTF-8 in it is replaced, since readers refuse the whole message otherwise. */
void tli_pb_text(tl_str *out, int field, const char *text);
/* A message, or packed numbers: what is appended in between are its bytes. */
size_t tli_pb_begin(tl_str *out, int field);
void tli_pb_end(tl_str *out, size_t mark);

/* A number without the name of a field. */
void tli_put_varint(tl_str *out, uint64_t value);
void tli_put_u32(tl_str *out, uint32_t value);
void tli_put_u64(tl_str *out, uint64_t value);
/* Moves `*at` behind the number; false when there is none before `end`. */
bool tli_get_varint(const char **at, const char *end, uint64_t *out);

/* Files of events are read at hundreds of megabytes a second, in records of fifty bytes: what is
 * done for each field is inline. */
static inline uint32_t tli_get_u32(const void *at)
{
    const uint8_t *p = at;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t tli_get_u64(const void *at)
{
    return (uint64_t)tli_get_u32(at) | (uint64_t)tli_get_u32((const char *)at + 4) << 32;
}

static inline double tli_get_double(const void *at)
{
    const uint64_t bits = tli_get_u64(at);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float tli_get_float(const void *at)
{
    const uint32_t bits = tli_get_u32(at);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

typedef struct tli_pb {
    const char *at, *end;
    bool damaged;
} tli_pb;
typedef struct tli_pb_field {
    int number, wire;
    uint64_t bits;    /* of a varint or a fixed number */
    const char *data; /* of bytes */
    size_t size;
} tli_pb_field;

/* Nearly all names of fields and lengths are one byte. */
static inline bool tli_pb_varint(tli_pb *in, uint64_t *out)
{
    if (in->at < in->end && (uint8_t)*in->at < 0x80) {
        *out = (uint8_t)*in->at++;
        return true;
    }
    return tli_get_varint(&in->at, in->end, out);
}

static inline bool tli_pb_fixed(tli_pb *in, tli_pb_field *out, size_t size)
{
    if ((size_t)(in->end - in->at) < size) return false;
    out->bits = size == 8 ? tli_get_u64(in->at) : tli_get_u32(in->at);
    in->at += size;
    return true;
}

static inline bool tli_pb_field_rest(tli_pb *in, tli_pb_field *out)
{
    switch (out->wire) {
    case TLI_PB_VARINT: return tli_pb_varint(in, &out->bits);
    case TLI_PB_FIXED64: return tli_pb_fixed(in, out, 8);
    case TLI_PB_FIXED32: return tli_pb_fixed(in, out, 4);
    case TLI_PB_BYTES:
        if (!tli_pb_varint(in, &out->bits) || out->bits > (uint64_t)(in->end - in->at))
            return false;
        out->data = in->at;
        out->size = (size_t)out->bits;
        in->at += out->size;
        return true;
    default: return false; // groups went out of use before event files came up
    }
}

/* False at the end and at what is no field. */
static inline bool tli_pb_next(tli_pb *in, tli_pb_field *out)
{
    uint64_t key;
    if (in->at == in->end || in->damaged) return false;
    in->damaged = !tli_pb_varint(in, &key) || key >> 3 == 0 || key >> 3 >= 1 << 29;
    if (in->damaged) return false;
    *out = (tli_pb_field){.number = (int)(key >> 3), .wire = (int)(key & 7)};
    in->damaged = !tli_pb_field_rest(in, out);
    return !in->damaged;
}

#endif
