#include <math.h>
#include <string.h>
#include <tilth/core/tensor.h>

#include "core/inner/element.h"
#include "core/inner/number.h"

enum { EDGE = 3, LONGEST = 1000, LINE = 75, NUMBER_TEXT = 48, MOST_DIGITS = 4 };

typedef struct printer {
    tl_str *out;
    const tl_tensor *t;
    const void *elements; /* row-major */
    bool cut;             /* long axes are cut in the middle */
    bool exponents;       /* floats as 1.5e-07 */
    int digits;           /* behind the point */
    int width;            /* of the widest number */
    double least, most;   /* sizes of the finite ones, 0 aside */
    bool whole;           /* all of them */
} printer;

static void number_text(const printer *p, char out[NUMBER_TEXT], int64_t at)
{
    double value = tli_element_get(p->t->dtype, p->elements, at);
    if (p->t->dtype == TL_BOOL) snprintf(out, NUMBER_TEXT, "%s", value != 0 ? "true" : "false");
    else if (p->t->dtype == TL_I64)
        snprintf(out, NUMBER_TEXT, "%lld", (long long)((const int64_t *)p->elements)[at]);
    else if (!tl_dtype_is_float(p->t->dtype)) snprintf(out, NUMBER_TEXT, "%.0f", value);
    else
        tli_number_text(out, NUMBER_TEXT,
                        p->exponents ? "%.*e"
                        : p->digits  ? "%.*f"
                                     : "%#.*f",
                        p->digits, value);
}

/* --- what is shown ---------------------------------------------------------------------------- */

static bool skipped(const printer *p, int64_t i, int64_t count)
{
    return p->cut && count > 2 * EDGE && i >= EDGE && i < count - EDGE;
}

static void each_shown(printer *p, int axis, int64_t at, void (*fn)(printer *p, int64_t at))
{
    const tl_shape *s = &p->t->shape;
    if (axis == s->rank) {
        fn(p, at);
        return;
    }
    for (int64_t i = 0; i < s->dims[axis]; i++) {
        if (skipped(p, i, s->dims[axis])) i = s->dims[axis] - EDGE;
        each_shown(p, axis + 1, at * s->dims[axis] + i, fn);
    }
}

/* --- how it is shown -------------------------------------------------------------------------- */

static void note_size(printer *p, int64_t at)
{
    double size = fabs(tli_element_get(p->t->dtype, p->elements, at));
    if (!isfinite(size)) return;
    p->whole &= size == floor(size);
    if (size > p->most) p->most = size;
    if (size != 0 && size < p->least) p->least = size;
}

// As many digits behind the point as the numbers have, up to four.
static void note_digits(printer *p, int64_t at)
{
    char text[NUMBER_TEXT];
    double value = tli_element_get(p->t->dtype, p->elements, at);
    if (!isfinite(value)) return;
    tli_number_text(text, sizeof text, p->exponents ? "%.*e" : "%.*f", MOST_DIGITS, value);
    const char *point = strchr(text, '.');
    TL_ASSERT(point && strlen(point) > MOST_DIGITS);
    for (int digits = MOST_DIGITS; digits > p->digits; digits--)
        if (point[digits] != '0') p->digits = digits;
}

static void note_width(printer *p, int64_t at)
{
    char text[NUMBER_TEXT];
    number_text(p, text, at);
    int width = (int)strlen(text);
    TL_ASSERT(width < NUMBER_TEXT);
    if (width > p->width) p->width = width;
}

// Numbers that are far from 1, or far from each other, are shown with exponents.
static void choose_format(printer *p)
{
    p->least = INFINITY;
    p->whole = true;
    if (tl_dtype_is_float(p->t->dtype)) {
        each_shown(p, 0, 0, note_size);
        p->exponents = p->most >= 1e8 || (p->most > 0 && p->least < 1e-4)
                       || (p->most / p->least > 1e5 && !p->whole);
        each_shown(p, 0, 0, note_digits);
    }
    each_shown(p, 0, 0, note_width);
}

/* --- showing it ------------------------------------------------------------------------------- */

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
    int64_t count = s->dims[axis];
    tl_str_addc(p->out, '[');
    if (axis == s->rank - 1) add_row(p, at, axis + 1);
    for (int64_t i = 0; axis < s->rank - 1 && i < count; i++) {
        if (i) {
            tl_str_addc(p->out, ',');
            tl_str_pad(p->out, '\n', s->rank - 1 - axis);
            tl_str_pad(p->out, ' ', axis + 1);
        }
        if (skipped(p, i, count)) {
            tl_str_add(p->out, "...");
            i = count - EDGE - 1;
        } else {
            add_axis(p, axis + 1, at * count + i);
        }
    }
    tl_str_addc(p->out, ']');
}

// One short row stands behind the type, everything else below it.
static bool on_one_line(const printer *p, int used)
{
    if (p->t->shape.rank > 1) return false;
    int64_t shown = p->t->shape.rank ? p->t->shape.dims[0] : 1;
    if (p->cut) shown = 2 * EDGE + 1;
    return used + shown * (p->width + 2) <= LINE;
}

void tl_tensor_text(tl_str *out, const tl_tensor *t)
{
    char spec[TL_TENSOR_TEXT];
    tl_str_add(out, tl_tensor_spec(spec, t));
    tl_lease l;
    if (!t->storage) {
        tl_str_add(out, " (without elements)");
        return;
    }
    if (tl_lease_read(&l, t) != TL_OK) {
        tl_str_add(out, tl_error_code() == TL_ESTATE ? " (leased for writing)"
                                                     : " (no memory to show it)");
        return;
    }
    int64_t count = tl_tensor_count(t);
    printer p = {.out = out, .t = t, .elements = l.data, .cut = count > LONGEST};
    choose_format(&p);
    tl_str_addc(out, count == 0 || on_one_line(&p, (int)strlen(spec) + 1) ? ' ' : '\n');
    if (count == 0) {
        tl_str_add(out, "[]");
    } else if (t->shape.rank) {
        add_axis(&p, 0, 0);
    } else {
        char text[NUMBER_TEXT];
        number_text(&p, text, 0);
        tl_str_add(out, text);
    }
    tl_lease_drop(&l);
}

void tl_tensor_print(const tl_tensor *t, FILE *to)
{
    tl_str text = TL_STR_INIT;
    tl_tensor_text(&text, t);
    fprintf(to, "%s\n", tl_str_text(&text));
    tl_str_deinit(&text);
}
