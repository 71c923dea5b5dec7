/* Arrays as numpy saves them: a line of Python that describes them, then the numbers. */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "io/table/impl.h"

enum { MAGIC = 6, VERSION = 2 };

/* --- the description -------------------------------------------------------------------------- */

/* A reader of {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }. */
typedef struct python {
    const char *at, *end;
} python;

static void skip_blanks(python *p)
{
    while (p->at < p->end && isspace((unsigned char)*p->at)) p->at++;
}

static bool take(python *p, char c)
{
    skip_blanks(p);
    if (p->at == p->end || *p->at != c) return false;
    p->at++;
    return true;
}

static bool take_string(python *p, char *out, size_t room)
{
    skip_blanks(p);
    if (p->at == p->end || (*p->at != '\'' && *p->at != '"')) return false;
    char quote = *p->at++;
    size_t length = 0;
    for (; p->at < p->end && *p->at != quote; p->at++)
        if (length + 1 < room) out[length++] = *p->at;
    out[length] = '\0';
    return take(p, quote);
}

static bool take_bool(python *p, bool *out)
{
    skip_blanks(p);
    *out = p->end - p->at >= 4 && memcmp(p->at, "True", 4) == 0;
    if (!*out && (p->end - p->at < 5 || memcmp(p->at, "False", 5) != 0)) return false;
    p->at += *out ? 4 : 5;
    return true;
}

/* Dimensions; those beyond the second are counted alone. */
static bool take_shape(python *p, int64_t dims[2], int *rank)
{
    *rank = 0;
    if (!take(p, '(')) return false;
    while (!take(p, ')')) {
        int64_t value = 0;
        skip_blanks(p);
        const char *from = p->at;
        for (; p->at < p->end && isdigit((unsigned char)*p->at); p->at++) {
            if (value > ((int64_t)1 << 58)) return false;
            value = value * 10 + (*p->at - '0');
        }
        if (p->at == from) return false;
        if (*rank < 2) dims[*rank] = value;
        ++*rank;
        if (!take(p, ',') && (skip_blanks(p), p->at == p->end || *p->at != ')')) return false;
    }
    return true;
}

typedef struct description {
    char descr[32];
    bool fortran, structured;
    int64_t dims[2];
    int rank;
    bool has_descr, has_order, has_shape;
} description;

static bool take_pair(python *p, description *d)
{
    char key[32];
    if (!take_string(p, key, sizeof key) || !take(p, ':')) return false;
    if (strcmp(key, "fortran_order") == 0) return d->has_order = take_bool(p, &d->fortran);
    if (strcmp(key, "shape") == 0) return d->has_shape = take_shape(p, d->dims, &d->rank);
    if (strcmp(key, "descr") != 0) return false;
    skip_blanks(p);
    d->structured = p->at < p->end && *p->at == '[';
    return d->structured || (d->has_descr = take_string(p, d->descr, sizeof d->descr));
}

static tl_status read_description(description *d, const tli_table *t, const char *from,
                                  const char *end)
{
    python p = {from, end};
    bool good = take(&p, '{');
    *d = (description){0};
    while (good && !take(&p, '}')) {
        good = take_pair(&p, d);
        if (d->structured)
            return TL_FAIL(TL_EUNSUPPORTED,
                           "'%s' has a structured type, of fields with names; save it as CSV, or "
                           "as an array of numbers alone",
                           t->base.name);
        if (good && !take(&p, ',')) {
            good = take(&p, '}');
            break;
        }
    }
    if (good && d->has_descr && d->has_order && d->has_shape) return TL_OK;
    return TL_FAIL(TL_EDATA,
                   "'%s' is a damaged npy file: its description of the array cannot be understood",
                   t->base.name);
}

/* '<f8': order, kind, bytes. */
static tl_status read_type(tli_table *t, const description *d)
{
    const uint16_t one = 1;
    const bool little = *(const uint8_t *)&one == 1;
    const char *s = d->descr;
    char order = strchr("<>|=", *s) && *s ? *s++ : '=';
    tli_npy *n = &t->npy;
    n->kind = *s;
    n->size = *s && s[1] >= '1' && s[1] <= '8' && !s[2] ? s[1] - '0' : 0;
    bool power = n->size == 1 || n->size == 2 || n->size == 4 || n->size == 8;
    bool known = (n->kind == 'b' && n->size == 1) || ((n->kind == 'i' || n->kind == 'u') && power)
                 || (n->kind == 'f' && (n->size == 4 || n->size == 8));
    n->swapped = (order == '<' && !little) || (order == '>' && little);
    if (known) return TL_OK;
    return TL_FAIL(
        TL_EUNSUPPORTED,
        "'%s' has the type '%s'; expected bool, an integer (i1 to i8, u1 to u8), f4 or f8",
        t->base.name, d->descr);
}

static tl_status check_size(tli_table *t, const description *d)
{
    if (d->rank != 2)
        return TL_FAIL(TL_EDATA, "'%s' has %d dimension%s; a table has two: rows and columns",
                       t->base.name, d->rank, d->rank == 1 ? "" : "s");
    int64_t rows = d->dims[0], columns = d->dims[1];
    size_t bytes = (size_t)(t->end - t->npy.values);
    if (columns < 1 || columns > TL_TABLE_COLUMNS)
        return TL_FAIL(TL_EDATA, "'%s' has %" PRId64 " columns; 1 to %d are accepted", t->base.name,
                       columns, TL_TABLE_COLUMNS);
    if (rows > (int64_t)(SIZE_MAX / 4) / columns / t->npy.size
        || bytes != (size_t)(rows * columns * t->npy.size))
        return TL_FAIL(TL_EDATA,
                       "'%s' is damaged: %" PRId64 " rows of %" PRId64
                       " columns do not fit the %zu bytes behind its head",
                       t->base.name, rows, columns, bytes);
    t->npy.rows = rows;
    t->npy.fortran = d->fortran;
    return tli_table_number_columns(t, columns);
}

tl_status tli_npy_begin(tli_table *t)
{
    const uint8_t *b = (const uint8_t *)t->data;
    size_t size = (size_t)(t->end - t->data), head = MAGIC + VERSION, length = 0;
    description d;
    int version = size > MAGIC ? b[MAGIC] : 0, wide = version == 1 ? 2 : 4;
    if (version < 1 || version > 3)
        return TL_FAIL(TL_EUNSUPPORTED, "'%s' is an npy file of version %d; 1 to 3 are known",
                       t->base.name, version);
    if (size >= head + (size_t)wide)
        for (int i = wide - 1; i >= 0; i--) length = length << 8 | b[head + (size_t)i];
    head += (size_t)wide;
    if (size < head || size - head < length)
        return TL_FAIL(TL_EDATA, "'%s' was cut short within its head", t->base.name);
    TL_TRY(read_description(&d, t, t->data + head, t->data + head + length));
    TL_TRY(read_type(t, &d));
    t->npy.values = t->data + head + length;
    return check_size(t, &d);
}

/* --- rows ------------------------------------------------------------------------------------- */

static double number_of(const tli_npy *n, const char *from)
{
    uint8_t b[8];
    for (int i = 0; i < n->size; i++) b[i] = (uint8_t)from[n->swapped ? n->size - 1 - i : i];
    union {
        int8_t i1;
        int16_t i2;
        int32_t i4;
        int64_t i8;
        uint8_t u1;
        uint16_t u2;
        uint32_t u4;
        uint64_t u8;
        float f4;
        double f8;
    } v;
    memcpy(&v, b, (size_t)n->size);
    switch (n->kind << 4 | n->size) {
    case 'b' << 4 | 1: return v.u1 != 0;
    case 'i' << 4 | 1: return v.i1;
    case 'i' << 4 | 2: return v.i2;
    case 'i' << 4 | 4: return v.i4;
    case 'i' << 4 | 8: return (double)v.i8;
    case 'u' << 4 | 1: return v.u1;
    case 'u' << 4 | 2: return v.u2;
    case 'u' << 4 | 4: return v.u4;
    case 'u' << 4 | 8: return (double)v.u8;
    case 'f' << 4 | 4: return v.f4;
    default: return v.f8;
    }
}

static tl_status npy_next(tli_table *t, bool *more)
{
    tli_npy *n = &t->npy;
    int64_t columns = t->base.columns;
    *more = n->at < n->rows;
    if (!*more) return TL_OK;
    for (int64_t i = 0; i < columns; i++) {
        int64_t place = n->fortran ? i * n->rows + n->at : n->at * columns + i;
        t->cells[i] = (tl_cell){
            .text = "", .is_number = true, .number = number_of(n, n->values + place * n->size)};
    }
    t->line = ++n->at;
    return TL_OK;
}

static void npy_rewind(tli_table *t)
{
    t->npy.at = t->line = 0;
}

const tli_table_format tli_npy_format = {npy_next, npy_rewind};
