#include "io/tensorflow/snappy.h"

#include <string.h>

#include <tilth/base/alloc.h>

/* The most bytes that one byte of a stream can stand for: a copy of 64 takes 2, or more. */
enum { MOST_RATIO = 32 };

typedef struct stream {
    const uint8_t *data;
    size_t size, at;
    char *out;
    size_t length, done; /* of `out` */
} stream;

static tl_status fail_at(size_t at, const char *what)
{
    return TL_FAIL(TL_EINVAL, "its Snappy stream is damaged at byte %zu: %s", at, what);
}

static tl_status read_length(stream *s)
{
    uint64_t length = 0;
    for (int shift = 0; shift < 35 && s->at < s->size; shift += 7) {
        uint8_t byte = s->data[s->at++];
        length |= (uint64_t)(byte & 0x7f) << shift;
        if (byte >= 0x80) continue;
        if (length > (uint64_t)s->size * MOST_RATIO)
            return fail_at(0, "it claims more bytes than it can hold");
        s->length = (size_t)length;
        return TL_OK;
    }
    return fail_at(s->at, "it has no length");
}

// A number of 1 to 4 bytes, the lowest first.
static tl_status read_number(stream *s, int bytes, size_t *out)
{
    if (s->size - s->at < (size_t)bytes) return fail_at(s->size, "it ends within an element");
    *out = 0;
    for (int i = 0; i < bytes; i++) *out |= (size_t)s->data[s->at++] << 8 * i;
    return TL_OK;
}

static tl_status read_literal(stream *s, int tag)
{
    enum { LONG = 60 }; // from here on the length follows, in 1 to 4 bytes
    size_t begin = s->at - 1, length = (size_t)tag >> 2;
    if (length >= LONG) TL_TRY(read_number(s, (int)length - LONG + 1, &length));
    length++;
    if (length > s->size - s->at) return fail_at(s->size, "it ends within a literal");
    if (length > s->length - s->done) return fail_at(begin, "it holds more bytes than it says");
    memcpy(s->out + s->done, s->data + s->at, length);
    s->done += length;
    s->at += length;
    return TL_OK;
}

static tl_status read_copy(stream *s, int tag)
{
    size_t begin = s->at - 1, offset, length = ((size_t)tag >> 2) + 1;
    switch (tag & 3) {
    case 1:
        TL_TRY(read_number(s, 1, &offset));
        offset |= (size_t)tag >> 5 << 8;
        length = ((size_t)tag >> 2 & 7) + 4;
        break;
    case 2: TL_TRY(read_number(s, 2, &offset)); break;
    default: TL_TRY(read_number(s, 4, &offset)); break;
    }
    if (offset == 0 || offset > s->done) return fail_at(begin, "it copies from before its begin");
    if (length > s->length - s->done) return fail_at(begin, "it holds more bytes than it says");
    // Byte by byte: what is copied may be made by the copying.
    for (size_t i = 0; i < length; i++, s->done++) s->out[s->done] = s->out[s->done - offset];
    return TL_OK;
}

static tl_status read_elements(stream *s)
{
    while (s->at < s->size) {
        int tag = s->data[s->at++];
        TL_TRY((tag & 3) == 0 ? read_literal(s, tag) : read_copy(s, tag));
    }
    if (s->done == s->length) return TL_OK;
    return fail_at(s->size, "it ends before it gave as many bytes as it says");
}

tl_status tli_snappy_unpack(char **out, size_t *out_size, const void *data, size_t size)
{
    stream s = {.data = data, .size = size};
    *out = NULL;
    *out_size = 0;
    TL_TRY(read_length(&s));
    s.out = tl_alloc(s.length);
    if (!s.out) return TL_FAIL_NOMEM(s.length);
    tl_status st = read_elements(&s);
    if (st != TL_OK) {
        tl_free(s.out);
        return st;
    }
    *out = s.out;
    *out_size = s.length;
    return TL_OK;
}
