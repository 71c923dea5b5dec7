#include "check/scan.h"

#include <math.h>
#include <string.h>
#include <tilth/base/crc32c.h>
#include <tilth/sys/core/backend.h>

#include "core/inner/element.h"
#include "core/inner/storage.h"

enum { PIECE = 4096 };

/* --- patterns --------------------------------------------------------------------------------- */

// Floats get a quiet NaN, repeated in pairs of bytes; other types two bytes that are no small
// number.
static uint16_t pattern_of(tl_dtype dtype, tli_fill fill)
{
    if (tl_dtype_is_float(dtype)) return fill == TLI_FILL_FIRST ? TLI_UNWRITTEN : 0x7ffb;
    return fill == TLI_FILL_FIRST ? 0xa5a5 : 0x5a5a;
}

void tli_fill_output(const tl_tensor *t, tli_fill fill)
{
    uint16_t pattern = pattern_of(t->dtype, fill);
    char *data = tli_data(t);
    size_t bytes = tl_tensor_bytes(t);
    if (tl_dtype_size(t->dtype) == 1) memset(data, pattern & 0xff, bytes);
    else
        for (size_t i = 0; i < bytes; i += sizeof pattern)
            memcpy(data + i, &pattern, sizeof pattern);
}

static uint64_t bits_at(const char *element, size_t size)
{
    uint64_t bits = 0;
    memcpy((char *)&bits + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof bits - size : 0),
           element, size);
    return bits;
}

static uint64_t repeated(uint16_t pattern, size_t size)
{
    uint64_t all = pattern * UINT64_C(0x0001000100010001);
    return size == 8 ? all : all & ((UINT64_C(1) << (8 * size)) - 1);
}

static uint64_t exponent_mask(tl_dtype dtype)
{
    switch (dtype) {
    case TL_F32: return 0x7f800000;
    case TL_F64: return UINT64_C(0x7ff0000000000000);
    case TL_BF16: return 0x7f80;
    case TL_F16: return 0x7c00;
    default: return 0;
    }
}

/* An element is looked for by its bits: (bits & mask) == want, or != want. */
typedef struct needle {
    uint64_t mask, want;
    size_t size;
    bool differs;
} needle;

static needle needle_of(tl_dtype dtype, tli_search what)
{
    needle n = {.mask = UINT64_MAX, .size = tl_dtype_size(dtype)};
    switch (what) {
    case TLI_FIND_LEFT_FIRST: n.want = repeated(pattern_of(dtype, TLI_FILL_FIRST), n.size); break;
    case TLI_FIND_LEFT_SECOND: n.want = repeated(pattern_of(dtype, TLI_FILL_SECOND), n.size); break;
    case TLI_FIND_UNWRITTEN: n.want = repeated(TLI_UNWRITTEN, n.size); break;
    case TLI_FIND_NOT_FINITE: n.mask = n.want = exponent_mask(dtype); break;
    case TLI_FIND_NOT_BOOL: n.mask = ~UINT64_C(1), n.want = 0, n.differs = true; break;
    }
    return n;
}

/* --- walking ---------------------------------------------------------------------------------- */

/* The elements of a tensor in row-major order, those that are seen many times once. */
typedef struct cursor {
    const tl_tensor *t;
    int64_t index[TL_MAX_RANK], at; /* offset from the first element, in elements */
} cursor;

static int64_t extent_along(const tl_tensor *t, int d)
{
    return t->strides[d] == 0 && t->shape.dims[d] > 1 ? 1 : t->shape.dims[d];
}

static bool advance(cursor *c)
{
    for (int d = c->t->shape.rank - 1; d >= 0; d--) {
        c->at += c->t->strides[d];
        if (++c->index[d] < extent_along(c->t, d)) return true;
        c->at -= c->t->strides[d] * c->index[d];
        c->index[d] = 0;
    }
    return false;
}

static int64_t row_major_index(const cursor *c)
{
    int64_t index = 0;
    for (int d = 0; d < c->t->shape.rank; d++) index = index * c->t->shape.dims[d] + c->index[d];
    return index;
}

static bool is(const needle *n, const char *element)
{
    return ((bits_at(element, n->size) & n->mask) == n->want) != n->differs;
}

int64_t tli_find(const tl_tensor *t, tli_search what, int64_t start)
{
    needle n = needle_of(t->dtype, what);
    const char *data = tli_data(t);
    int64_t count = tl_tensor_count(t), size = (int64_t)n.size;
    if (count == 0) return -1;
    if (t->contiguous) {
        for (int64_t i = start; i < count; i++)
            if (is(&n, data + i * size)) return i;
        return -1;
    }
    cursor c = {.t = t};
    do {
        int64_t index = row_major_index(&c);
        if (index >= start && is(&n, data + c.at * size)) return index;
    } while (advance(&c));
    return -1;
}

uint32_t tli_checksum(const tl_tensor *t, int64_t most)
{
    tli_extent e = tli_extent_of(t);
    const char *bytes = (const char *)t->storage->data + e.from;
    int64_t length = e.to - e.from;
    if (length <= most) return length ? tl_crc32c(0, bytes, (size_t)length) : 0;
    uint32_t crc = 0;
    int64_t pieces =
        most / PIECE > 1 ? most / PIECE : 2; // the first and the last are always among them
    for (int64_t i = 0; i < pieces; i++) {
        int64_t size = length < PIECE ? length : PIECE;
        int64_t at = (int64_t)((double)(length - size) * (double)i / (double)(pieces - 1));
        crc = tl_crc32c(crc, bytes + at, (size_t)size);
    }
    return crc;
}

void tli_range(const tl_tensor *t, double *least, double *most)
{
    *least = *most = NAN;
    if (tl_tensor_count(t) == 0) return;
    cursor c = {.t = t};
    do {
        double value = tli_element_get(t->dtype, tli_data(t), c.at);
        if (!(value >= *least)) *least = value;
        if (!(value <= *most)) *most = value;
    } while (advance(&c));
}

double tli_element_at(const tl_tensor *t, int64_t index)
{
    int64_t at = 0;
    for (int d = t->shape.rank - 1; d >= 0; d--) {
        at += index % t->shape.dims[d] * t->strides[d];
        index /= t->shape.dims[d];
    }
    return tli_element_get(t->dtype, tli_data(t), at);
}

const char *tli_element_text(char out[TL_SHAPE_TEXT], const tl_tensor *t, int64_t index)
{
    tl_shape place = {.rank = t->shape.rank};
    for (int d = t->shape.rank - 1; d >= 0; d--) {
        place.dims[d] = index % t->shape.dims[d];
        index /= t->shape.dims[d];
    }
    return tl_shape_text(out, &place);
}
