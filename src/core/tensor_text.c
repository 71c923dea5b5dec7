#include <math.h>
#include <string.h>
#include <tilth/core/tensor.h>

#include "core/element.h"

enum { EDGE = 3, LONGEST = 1000, LINE = 75, NUMBER_TEXT = 40 };

typedef struct printer {
    tl_str *out;
    const tl_tensor *t;
    const void *elements; /* row-major */
    bool cut;             /* long axes are cut in the middle */
    int width;            /* of the widest number */
    const char *format;
} printer;

static void number_text(const printer *p, char out[NUMBER_TEXT], int64_t at)
{
    double value = tli_element_get(p->t->dtype, p->elements, at);
    if (p->t->dtype == TL_BOOL)
        snprintf(out, NUMBER_TEXT, "%s", value != 0 ? "true" : "false");
    else if (p->t->dtype == TL_I64)
        snprintf(out, NUMBER_TEXT, "%lld", (long long)((const int64_t *)p->elements)[at]);
    else
        snprintf(out, NUMBER_TEXT, p->format, value);
}

static bool skipped(const printer *p, int64_t i, int64_t count)
{
    return p->cut && count > 2 * EDGE && i >= EDGE && i < count - EDGE;
}

// Calls for each element that is shown.
static void each_shown(printer *p, int axis, int64_t at, void (*fn)(printer *p, int64_t at))
{
    const tl_shape *s = &p->t->shape;
    if (axis == s->rank) {
        fn(p, at);
        return;
    }
    for (int64_t i = 0; i < s->dims[axis]; i++)
        if (!skipped(p, i, s->dims[axis])) each_shown(p, axis + 1, at * s->dims[axis] + i, fn);
}

static void measure(printer *p, int64_t at)
{
    char text[NUMBER_TEXT];
    number_text(p, text, at);
    int width = (int)strlen(text);
    if (width > p->width) p->width = width;
}


// Numbers that differ by many powers of ten are shown with exponents, whole ones without digits.
static const char *choose_format(const printer *p)
{
    if (!tl_dtype_is_float(p->t->dtype)) return "%.0f";
    double least = INFINITY, most = 0;
    bool whole = true;
    for (int64_t i = 0, n = tl_tensor_count(p->t); i < n && i < LONGEST; i++) {
        double size = fabs(tli_element_get(p->t->dtype, p->elements, i));
        if (!isfinite(size)) continue;
        whole &= size == floor(size);
        if (size > most) most = size;
        if (size != 0 && size < least) least = size;
    }
    if (most >= 1e8 || (least < 1e-4 && most != 0) || (most / least > 1e5 && !whole)) return "%.4e";
    return whole ? "%.0f." : "%.4f";
}

static void add_row(printer *p, int64_t at, int indent)
{
    int64_t count = p->t->shape.dims[p->t->shape.rank - 1];
    int column = indent;
    char text[NUMBER_TEXT];
    for (int64_t i = 0; i < count; i++) {
        if (i) tl_str_add(p->out, ",");
        if (skipped(p, i, count)) {
            tl_str_add(p->out, " ...");
            column += 5;
            i = count - EDGE - 1;
            continue;
        }
        if (i && column + p->width + 2 > LINE) {
            tl_str_addc(p->out, '\n');
            tl_str_pad(p->out, ' ', indent);
            column = indent;
        } else if (i) {
            tl_str_addc(p->out, ' ');
        }
        number_text(p, text, at * count + i);
        tl_str_addf(p->out, "%*s", p->width, text);
        column += p->width + 2;
    }
}

static void add_axis(printer *p, int axis, int64_t at)
{
    const tl_shape *s = &p->t->shape;
    tl_str_addc(p->out, '[');
    if (axis == s->rank - 1) {
        add_row(p, at, axis + 1);
    } else {
        for (int64_t i = 0; i < s->dims[axis]; i++) {
            bool skip = skipped(p, i, s->dims[axis]);
            if (i) {
                tl_str_addc(p->out, ',');
                tl_str_pad(p->out, '\n', s->rank - 1 - axis);
                tl_str_pad(p->out, ' ', axis + 1);
            }
            if (skip) {
                tl_str_add(p->out, "...");
                i = s->dims[axis] - EDGE - 1;
            } else {
                add_axis(p, axis + 1, at * s->dims[axis] + i);
            }
        }
    }
    tl_str_addc(p->out, ']');
}

void tl_tensor_text(tl_str *out, const tl_tensor *t)
{
    char spec[TL_TENSOR_TEXT];
    tl_str_add(out, tl_tensor_spec(spec, t));
    tl_lease l;
    if (!t->storage || tl_lease_read(&l, t) != TL_OK) {
        tl_str_add(out, t->storage ? " (leased for writing)" : " (captured)");
        return;
    }
    printer p = {.out = out, .t = t, .elements = l.data, .cut = tl_tensor_count(t) > LONGEST};
    p.format = choose_format(&p);
    tl_str_addc(out, t->shape.rank > 1 ? '\n' : ' ');
    each_shown(&p, 0, 0, measure);
    if (t->shape.rank) {
        add_axis(&p, 0, 0);
    } else {
        char text[NUMBER_TEXT];
        number_text(&p, text, 0);
        tl_str_add(out, text);
    }
    tl_lease_end(&l);
}

void tl_tensor_print(const tl_tensor *t, FILE *to)
{
    tl_str text = TL_STR_INIT;
    tl_tensor_text(&text, t);
    fprintf(to, "%s\n", tl_str_text(&text));
    tl_str_deinit(&text);
}
