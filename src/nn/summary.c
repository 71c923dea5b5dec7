#include <inttypes.h>
#include <string.h>

#include "nn/net.h"

enum { MOST_INDENT = 24 };

typedef struct row {
    char name[96], output[TL_SHAPE_TEXT], params[32];
    char note[64]; /* what stands behind the numbers */
} row;

// "1234567" as "1,234,567".
static void grouped(char out[32], int64_t n)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRId64, n), k = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) out[k++] = ',';
        out[k++] = digits[i];
    }
    out[k] = '\0';
}

// Elements of the layer's own parameters, or of its state.
static int64_t own_count(const tl_layer *l, bool state)
{
    int64_t count = 0;
    for (int64_t i = 0; i < l->net->params.count; i++) {
        const tl_param *p = l->net->params.items[i];
        if (p->layer == l && p->state == state) count += tl_tensor_count(p->tensor);
    }
    return count;
}

static row row_of(const tl_layer *l, int depth)
{
    row r;
    int indent = 2 * depth < MOST_INDENT ? 2 * depth : MOST_INDENT;
    snprintf(r.name, sizeof r.name, "%*s%s (%s)", indent, "", *l->name ? l->name : "model",
             l->cls->cls.name);
    if (l->called) tl_shape_text(r.output, &l->output);
    else strcpy(r.output, "-");
    int64_t params = own_count(l, false), state = own_count(l, true);
    char more[32];
    grouped(more, state);
    grouped(r.params, params);
    if (!params && !state) r.params[0] = '\0'; // what its layers have stands with them
    snprintf(r.note, sizeof r.note, "%s%s%s%s", state ? "  + " : "", state ? more : "",
             state ? " state" : "", params && l->frozen ? "  frozen" : "");
    return r;
}

/* Of the columns; a column of width 0 is left out. */
typedef struct widths {
    int name, output, params, note;
} widths;

enum { BETWEEN = 2, LEAST_NAME = 12 };

static int longer(int width, const char *text)
{
    int length = (int)strlen(text);
    return length > width ? length : width;
}

static void measure(widths *w, const tl_layer *l, int depth)
{
    row r = row_of(l, depth);
    *w = (widths){longer(w->name, r.name), longer(w->output, r.output), longer(w->params, r.params),
                  longer(w->note, *r.params ? r.note : "")};
    for (const tl_layer *child = l->first; child; child = child->next) measure(w, child, depth + 1);
}

static int total(const widths *w)
{
    return w->name + (w->output ? BETWEEN + w->output : 0) + BETWEEN + w->params + w->note;
}

/* What a narrow terminal has no room for: first long names, then shapes, notes, and names again. */
static void fit(widths *w, int width)
{
    if (width < 1) return;
    int too_much = total(w) - width;
    if (too_much > 0 && w->name - too_much < LEAST_NAME) w->output = 0;
    too_much = total(w) - width;
    if (too_much > 0 && w->name - too_much < LEAST_NAME) w->note = 0;
    too_much = total(w) - width;
    if (too_much > 0) w->name = w->name - too_much > LEAST_NAME ? w->name - too_much : LEAST_NAME;
}

/* The name, or the beginning of a longer one. */
static void add_name(tl_str *out, int width, const char *name)
{
    int length = (int)strlen(name);
    if (length <= width) tl_str_addf(out, "%-*s", width, name);
    else tl_str_addf(out, "%.*s..", width - 2, name);
}

static void add_row(tl_str *out, const widths *w, const row *r)
{
    size_t begin = out->length;
    add_name(out, w->name, r->name);
    if (w->output) tl_str_addf(out, "%*s%-*s", BETWEEN, "", w->output, r->output);
    if (*r->params)
        tl_str_addf(out, "%*s%*s%s", BETWEEN, "", w->params, r->params, w->note ? r->note : "");
    while (out->length > begin && out->data[out->length - 1] == ' ')
        tl_str_cut(out, out->length - 1);
    tl_str_addc(out, '\n');
}

static void add_layer(tl_str *out, const widths *w, const tl_layer *l, int depth)
{
    row r = row_of(l, depth);
    add_row(out, w, &r);
    for (const tl_layer *child = l->first; child; child = child->next)
        add_layer(out, w, child, depth + 1);
}

/* On one line, or where that is too long, on several. */
static void add_sizes(tl_str *out, const tl_model *m, int width)
{
    static const char *const names[] = {"parameters", "trained", "frozen", "state"};
    tl_model_size size = tl_model_measure(m);
    const int64_t sizes[] = {size.params, size.trainable, size.params - size.trainable, size.state};
    int column = 0;
    for (int i = 0; i < TL_COUNT(sizes); i++) {
        char number[32], text[64];
        bool last = i + 1 == TL_COUNT(sizes);
        grouped(number, sizes[i]);
        int length = snprintf(text, sizeof text, "%s: %s%s", names[i], number, last ? "" : ",");
        bool new_line = i && width > 0 && column + 1 + length > width;
        tl_str_addf(out, "%s%s", new_line ? "\n" : i ? " " : "", text);
        column = (new_line || !i ? 0 : column + 1) + length;
    }
    tl_str_addc(out, '\n');
}

void tl_model_summary_fit(const tl_model *m, int width, tl_str *out)
{
    const row head = {"layer (type)", "output", "parameters", ""};
    widths w = {longer(0, head.name), longer(0, head.output), longer(0, head.params), 0};
    measure(&w, m, 0);
    fit(&w, width);
    int line = total(&w) - w.note;
    add_row(out, &w, &head);
    tl_str_pad(out, '-', line);
    tl_str_addc(out, '\n');
    add_layer(out, &w, m, 0);
    tl_str_pad(out, '-', line);
    tl_str_addc(out, '\n');
    add_sizes(out, m, width);
}

void tl_model_summary(const tl_model *m, tl_str *out)
{
    tl_model_summary_fit(m, 0, out);
}
