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
uint32_t tli_get_u32(const void *at);
uint64_t tli_get_u64(const void *at);
double tli_get_double(const void *at);
float tli_get_float(const void *at);

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
/* False at the end and at what is no field. */
bool tli_pb_next(tli_pb *in, tli_pb_field *out);

#endif
