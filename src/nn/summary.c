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
    if (l->called)
        tl_shape_text(r.output, &l->output);
    else
        strcpy(r.output, "-");
    int64_t params = own_count(l, false), state = own_count(l, true);
    char more[32];
    grouped(more, state);
    grouped(r.params, params);
    if (!params && !state) r.params[0] = '\0'; // what its layers have stands with them
    snprintf(r.note, sizeof r.note, "%s%s%s%s", state ? "  + " : "", state ? more : "",
             state ? " state" : "", params && l->frozen ? "  frozen" : "");
    return r;
}

typedef struct widths {
    int name, output, params;
} widths;

static int longer(int width, const char *text)
{
    int length = (int)strlen(text);
    return length > width ? length : width;
}

static void measure(widths *w, const tl_layer *l, int depth)
{
    row r = row_of(l, depth);
    *w =
        (widths){longer(w->name, r.name), longer(w->output, r.output), longer(w->params, r.params)};
    for (const tl_layer *child = l->first; child; child = child->next) measure(w, child, depth + 1);
}

static void add_row(tl_str *out, const widths *w, const row *r)
{
    if (*r->params)
        tl_str_addf(out, "%-*s  %-*s  %*s%s\n", w->name, r->name, w->output, r->output, w->params,
                    r->params, r->note);
    else
        tl_str_addf(out, "%-*s  %s\n", w->name, r->name, r->output);
}

static void add_layer(tl_str *out, const widths *w, const tl_layer *l, int depth)
{
    row r = row_of(l, depth);
    add_row(out, w, &r);
    for (const tl_layer *child = l->first; child; child = child->next)
        add_layer(out, w, child, depth + 1);
}

void tl_model_summary(const tl_model *m, tl_str *out)
{
    const row head = {"layer (type)", "output", "parameters", ""};
    widths w = {longer(0, head.name), longer(0, head.output), longer(0, head.params)};
    measure(&w, m, 0);
    add_row(out, &w, &head);
    tl_str_pad(out, '-', w.name + w.output + w.params + 4);
    tl_str_addc(out, '\n');
    add_layer(out, &w, m, 0);
    tl_str_pad(out, '-', w.name + w.output + w.params + 4);
    tl_model_size size = tl_model_measure(m);
    char all[32], trained[32], frozen[32], state[32];
    grouped(all, size.params);
    grouped(trained, size.trainable);
    grouped(frozen, size.params - size.trainable);
    grouped(state, size.state);
    tl_str_addf(out, "\nparameters: %s, trained: %s, frozen: %s, state: %s\n", all, trained, frozen,
                state);
}
