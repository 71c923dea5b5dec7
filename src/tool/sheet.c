#include <string.h>

#include <tilth/base/vec.h>

#include "tool/runs.h"

enum { WIDEST_CELL = 28, GAP = 2 };

int tli_columns(const char *text)
{
    int count = 0;
    for (; *text; text++) count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

tl_status tli_sheet_add(tli_column **out, tli_sheet *t, const char *title, const char *full,
                        bool right)
{
    tli_column c = {.title = title, .full = full ? full : title, .right = right};
    c.cells = tl_arena_array(t->arena, t->rows ? t->rows : 1, sizeof *c.cells);
    if (!c.cells) return TL_ENOMEM;
    for (int64_t i = 0; i < t->rows; i++) c.cells[i] = "";
    if (!TL_VEC_PUSH(&t->columns, c)) return TL_ENOMEM;
    *out = &t->columns.items[t->columns.count - 1];
    return TL_OK;
}

static int cell_width(const char *text, int most)
{
    int wide = tli_columns(text);
    return wide < most ? wide : most;
}

static int column_width(const tli_sheet *t, const tli_column *c, int most)
{
    int wide = cell_width(c->title, most);
    for (int64_t i = 0; i < t->rows; i++) {
        int cell = cell_width(c->cells[i], most);
        if (cell > wide) wide = cell;
    }
    return wide;
}

/* So many columns of a text; where the next one stands. */
static const char *add_columns(tl_str *out, const char *text, int columns)
{
    for (; *text; text++) {
        if (((unsigned char)*text & 0xc0) != 0x80 && columns-- == 0) break;
        if (out) tl_str_addc(out, (unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
    }
    return text;
}

/* Of a long text the middle is left out; the end says most, for paths and keys begin alike. */
void tli_add_cut(tl_str *out, const char *text, int width)
{
    int wide = tli_columns(text), head = width / 4;
    if (wide > width) {
        const char *rest = add_columns(out, text, head);
        tl_str_add(out, "..");
        text = add_columns(NULL, rest, wide - width + 2);
    }
    add_columns(out, text, wide);
}

static void add_cell(tl_str *out, const char *text, int width, bool right, bool last)
{
    int wide = tli_columns(text);
    if (right) tl_str_pad(out, ' ', width - wide);
    tli_add_cut(out, text, width);
    if (!right && !last) tl_str_pad(out, ' ', width - wide);
}

static void add_line(tl_str *out, const tli_sheet *t, const int *widths, int64_t from, int64_t to,
                     int64_t row)
{
    for (int64_t i = 0; i < to; i = i == 0 ? from : i + 1) {
        const tli_column *c = &t->columns.items[i];
        bool last = i == to - 1 || to <= 1;
        if (i) tl_str_pad(out, ' ', GAP);
        add_cell(out, row < 0 ? c->title : c->cells[row], widths[i], c->right, last);
        if (last) break;
    }
    tl_str_addc(out, '\n');
}

void tli_sheet_write(tl_str *out, const tli_sheet *t, int width)
{
    int64_t count = t->columns.count;
    int *widths = tl_arena_array(t->arena, count ? count : 1, sizeof *widths);
    int most = width / 2 < WIDEST_CELL ? width / 2 : WIDEST_CELL;
    if (!widths) out->failed = true;
    if (!widths || !count) return;
    for (int64_t i = 0; i < count; i++) widths[i] = column_width(t, &t->columns.items[i], most);
    for (int64_t from = 1, to; from < count || from == 1; from = to) {
        int used = widths[0];
        for (to = from; to < count && (to == from || used + GAP + widths[to] <= width); to++)
            used += GAP + widths[to];
        if (from > 1) tl_str_addc(out, '\n');
        for (int64_t row = -1; row < t->rows; row++) add_line(out, t, widths, from, to, row);
        if (to >= count) break;
    }
}

static void add_csv(tl_str *out, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        tl_str_add(out, text);
        return;
    }
    tl_str_addc(out, '"');
    for (; *text; text++) {
        if (*text == '"') tl_str_addc(out, '"');
        tl_str_addc(out, *text);
    }
    tl_str_addc(out, '"');
}

void tli_sheet_write_csv(tl_str *out, const tli_sheet *t)
{
    for (int64_t row = -1; row < t->rows; row++) {
        for (int64_t i = 0; i < t->columns.count; i++) {
            const tli_column *c = &t->columns.items[i];
            if (i) tl_str_addc(out, ',');
            add_csv(out, row < 0 ? c->full : c->cells[row]);
        }
        tl_str_addc(out, '\n');
    }
}
