#include <tilth/io/idx.h>

#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>

#include "io/inflate.h"

/* Two zero bytes, the type, the rank; then the dimensions, 4 bytes each, the highest first. */
enum { HEAD = 4, DIM = 4 };

static const struct {
    int code;
    tl_dtype dtype;
} types[] = {{0x08, TL_U8},  {0x09, TL_I8},  {0x0b, TL_I16},
             {0x0c, TL_I32}, {0x0d, TL_F32}, {0x0e, TL_F64}};

static int code_of(tl_dtype dtype)
{
    for (int64_t i = 0; i < TL_COUNT(types); i++)
        if (types[i].dtype == dtype) return types[i].code;
    return 0;
}

static bool dtype_of(tl_dtype *out, int code)
{
    for (int64_t i = 0; i < TL_COUNT(types); i++) {
        *out = types[i].dtype;
        if (types[i].code == code) return true;
    }
    return false;
}

static bool is_big_endian(void)
{
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 0;
}

// From the file's order to the machine's, or back.
static void swap(void *to, const void *from, int64_t count, size_t size)
{
    const uint8_t *in = from;
    uint8_t *out = to;
    for (int64_t i = 0; i < count; i++, in += size, out += size)
        for (size_t k = 0; k < size; k++) out[k] = in[size - 1 - k];
}

/* --- reading ---------------------------------------------------------------------------------- */

static tl_status parse_head(tl_idx *x, const char *name, const uint8_t *data, size_t size)
{
    if (size < HEAD || data[0] || data[1] || !dtype_of(&x->dtype, data[2]))
        return TL_FAIL(
            TL_EINVAL,
            "'%s' is no idx file: it must begin with two zero bytes and a type (8, 9, 11 to 14)",
            name);
    int rank = data[3];
    if (rank < 1 || rank > TL_MAX_RANK)
        return TL_FAIL(TL_EINVAL, "'%s' has %d dimensions; 1 to %d are accepted", name, rank,
                       TL_MAX_RANK);
    if (size < HEAD + (size_t)rank * DIM)
        return TL_FAIL(TL_EINVAL, "'%s' ends at byte %zu, within its head of %d dimensions", name,
                       size, rank);
    x->shape.rank = rank;
    for (int i = 0; i < rank; i++) {
        const uint8_t *p = data + HEAD + i * DIM;
        x->shape.dims[i] =
            (int64_t)((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]);
    }
    return tl_shape_check(&x->shape, name);
}

static tl_status parse(tl_idx *x, const char *name, const uint8_t *data, size_t size)
{
    TL_TRY(parse_head(x, name, data, size));
    size_t head = HEAD + (size_t)x->shape.rank * DIM, element = tl_dtype_size(x->dtype);
    int64_t count = tl_shape_count(&x->shape);
    char text[TL_SHAPE_TEXT];
    if ((size_t)count > SIZE_MAX / 2 / element || size - head != (size_t)count * element)
        return TL_FAIL(TL_EINVAL,
                       "'%s' is damaged: %s of %s do not fit the %zu bytes after its head%s", name,
                       tl_shape_text(text, &x->shape), tl_dtype_name(x->dtype), size - head,
                       (size_t)count > (size - head) / element ? ": it was cut short" : "");
    int64_t items = x->shape.dims[0];
    x->item_size = items ? (size_t)count / (size_t)items * element : 0;
    x->data = data + head;
    if (element == 1 || is_big_endian()) return TL_OK;
    void *swapped = tl_alloc_aligned(64, (size_t)count * element + 1);
    if (!swapped) return TL_FAIL_NOMEM((size_t)count * element + 1);
    swap(swapped, x->data, count, element);
    tl_free(x->owned);
    tl_file_unmap(&x->mapped);
    x->data = x->owned = swapped;
    return TL_OK;
}

// What was mapped may go once it is unpacked.
static tl_status take(tl_idx *x, const char *name, const void *data, size_t size)
{
    char *unpacked;
    x->packed = tli_is_gzip(data, size);
    if (!x->packed) return parse(x, name, data, size);
    TL_TRY(tli_inflate(&unpacked, &size, name, data, size, 0));
    x->owned = unpacked;
    tl_file_unmap(&x->mapped);
    return parse(x, name, (const uint8_t *)unpacked, size);
}

tl_status tl_idx_open(tl_idx *out, const char *path)
{
    *out = (tl_idx){0};
    TL_TRY(tl_file_map(&out->mapped, path));
    tl_status st = take(out, path, out->mapped.data, out->mapped.size);
    if (st != TL_OK) tl_idx_close(out);
    return st;
}

tl_status tl_idx_from_memory(tl_idx *out, const char *name, const void *data, size_t size)
{
    *out = (tl_idx){0};
    tl_status st = take(out, name, size ? data : "", size);
    if (st != TL_OK) tl_idx_close(out);
    return st;
}

void tl_idx_close(tl_idx *idx)
{
    tl_file_unmap(&idx->mapped);
    tl_free(idx->owned);
    *idx = (tl_idx){0};
}

const void *tl_idx_item(const tl_idx *idx, int64_t index)
{
    TL_ASSERT(index >= 0 && index < idx->shape.dims[0]);
    return (const char *)idx->data + (size_t)index * idx->item_size;
}

/* --- writing ---------------------------------------------------------------------------------- */

static tl_status make_file(tl_str *out, const char *path, tl_dtype dtype, const tl_shape *shape,
                           const void *data)
{
    int code = code_of(dtype);
    TL_TRY(tl_shape_check(shape, path));
    if (!code)
        return TL_FAIL(TL_EUNSUPPORTED, "'%s': idx files cannot hold %s", path,
                       tl_dtype_name(dtype));
    if (shape->rank < 1)
        return TL_FAIL(TL_EINVAL, "'%s': an idx file has at least one dimension", path);
    tl_str_addn(out, (const char[]){0, 0, (char)code, (char)shape->rank}, HEAD);
    for (int i = 0; i < shape->rank; i++) {
        int64_t dim = shape->dims[i];
        if (dim > UINT32_MAX)
            return TL_FAIL(TL_ELIMIT,
                           "'%s': a dimension of %" PRId64 " does not fit into an idx file", path,
                           dim);
        for (int k = 3; k >= 0; k--) tl_str_addc(out, (char)(dim >> 8 * k));
    }
    size_t element = tl_dtype_size(dtype), head = out->length;
    int64_t count = tl_shape_count(shape);
    tl_str_addn(out, data, (size_t)count * element);
    TL_TRY(tl_str_status(out));
    if (element > 1 && !is_big_endian()) swap(out->data + head, data, count, element);
    return TL_OK;
}

tl_status tl_idx_write(const char *path, tl_dtype dtype, const tl_shape *shape, const void *data)
{
    tl_str plain = TL_STR_INIT, packed = TL_STR_INIT;
    size_t length = strlen(path);
    bool gzip = length >= 3 && strcmp(path + length - 3, ".gz") == 0;
    tl_status st;
    TL_TRY_DONE(st, make_file(&plain, path, dtype, shape, data));
    if (gzip) TL_TRY_DONE(st, tli_gzip(&packed, plain.data, plain.length, 0));
    const tl_str *file = gzip ? &packed : &plain;
    st = tl_file_write_atomic(path, file->data, file->length);
done:
    tl_str_deinit(&plain);
    tl_str_deinit(&packed);
    return st;
}
