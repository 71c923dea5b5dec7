#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/inner/clean.h"
#include "core/inner/element.h"
#include "tool/ckpt.h"

/* How far two tensors of one type and shape are apart. */
typedef struct distance {
    int64_t count, different, first; /* first: element, -1 when none differs */
    double greatest, a, b;           /* the greatest distance; the first two that differ */
} distance;

static double element_at(const tl_safetensors_entry *e, int64_t i)
{
    double aligned; // files are not
    size_t size = tl_dtype_size(e->dtype);
    tl_safetensors_bytes(&aligned, e, (size_t)i * size, size);
    return tli_element_get(e->dtype, &aligned, 0);
}

static bool bits_differ(const tl_safetensors_entry *a, const tl_safetensors_entry *b, int64_t i)
{
    uint64_t x = 0, y = 0;
    size_t size = tl_dtype_size(a->dtype), at = (size_t)i * size;
    tl_safetensors_bytes(&x, a, at, size);
    tl_safetensors_bytes(&y, b, at, size);
    return x != y;
}

static bool same_bytes(const tl_safetensors_entry *a, const tl_safetensors_entry *b)
{
    char x[4096], y[4096];
    if (a->data && b->data) return !a->bytes || memcmp(a->data, b->data, a->bytes) == 0;
    for (size_t at = 0, now; at < a->bytes; at += now) {
        now = a->bytes - at < sizeof x ? a->bytes - at : sizeof x;
        tl_safetensors_bytes(x, a, at, now);
        tl_safetensors_bytes(y, b, at, now);
        if (memcmp(x, y, now) != 0) return false;
    }
    return true;
}

/* Not one of a bundle that lies in slices. */
static bool is_at_hand(const tl_safetensors_entry *e)
{
    return e->data || e->pieces;
}

// Without a tolerance bits are compared, so that 0 and -0 differ and a NaN equals itself.
static distance measure(const tl_safetensors_entry *a, const tl_safetensors_entry *b,
                        double tolerance)
{
    distance d = {.count = (int64_t)(a->bytes / tl_dtype_size(a->dtype)), .first = -1};
    for (int64_t i = 0; i < d.count; i++) {
        if (!bits_differ(a, b, i)) continue;
        double x = element_at(a, i), y = element_at(b, i), apart = fabs(x - y);
        if (tolerance > 0 && apart <= tolerance) continue;
        if (d.first < 0) {
            d.first = i;
            d.a = x;
            d.b = y;
        }
        d.different++;
        if (!(apart <= d.greatest)) d.greatest = apart; // also NaN
    }
    return d;
}

static void begin_line(tl_str *out, char sign, const char *path)
{
    tl_str_addf(out, "%c ", sign);
    tli_add_clean_word(out, path);
    tl_str_add(out, "  ");
}

// The text has the type of what it tells of.
static bool compare_rows(tl_str *out, const tli_ckpt_row *a, const tli_ckpt_row *b,
                         double tolerance)
{
    const tl_safetensors_entry *x = a->entry, *y = b->entry;
    if (!is_at_hand(x) || !is_at_hand(y)) {
        begin_line(out, '~', a->path);
        tl_str_addf(out, "%s: in pieces, which cannot be compared\n", a->text);
        return false;
    }
    bool told = strcmp(a->text, b->text) != 0, same_size = x->bytes == y->bytes;
    bool equal = !told && same_size && same_bytes(x, y);
    if (equal) return true;
    if (told || !same_size || !a->tensor || !x->readable) {
        begin_line(out, '~', a->path);
        if (told) tl_str_addf(out, "%s | %s\n", a->text, b->text);
        else tl_str_addf(out, "%s: the bytes differ\n", a->text);
        return false;
    }
    distance d = measure(x, y, tolerance);
    if (!d.different) return true;
    begin_line(out, '~', a->path);
    tl_str_addf(out,
                "%s: %" PRId64 " of %" PRId64 " elements, at most by %.6g; the first at %" PRId64
                ": %.9g | %.9g\n",
                a->text, d.different, d.count, d.greatest, d.first, d.a, d.b);
    return false;
}

tl_status tli_ckpt_diff(tl_str *out, int64_t *different, const tli_ckpt *a, const tli_ckpt *b,
                        double tolerance)
{
    int64_t equal = 0;
    *different = 0;
    for (int64_t i = 0; i < a->count; i++) {
        const tli_ckpt_row *row = &a->rows[i], *other = tl_map_get(&b->by_path, row->path);
        if (other && compare_rows(out, row, other, tolerance)) {
            equal++;
            continue;
        }
        ++*different;
        if (other) continue;
        begin_line(out, '-', row->path);
        tl_str_addf(out, "%s\n", row->text);
    }
    for (int64_t i = 0; i < b->count; i++) {
        const tli_ckpt_row *row = &b->rows[i];
        if (tl_map_has(&a->by_path, row->path)) continue;
        ++*different;
        begin_line(out, '+', row->path);
        tl_str_addf(out, "%s\n", row->text);
    }
    tl_str_addf(out, "%" PRId64 " equal, %" PRId64 " different\n", equal, *different);
    return tl_str_status(out);
}
