#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/plot.h"

enum { DOT_COLUMNS = 2, DOT_ROWS = 4, WIDEST_LABEL = 16 };

static const char marks[] = "*o+x#@%&=~";
static const char *const colours[] = {"\033[34m", "\033[31m", "\033[32m", "\033[35m",
                                      "\033[33m", "\033[36m", "\033[94m", "\033[91m",
                                      "\033[92m", "\033[95m", "\033[93m", "\033[96m"};
#define PLAIN "\033[0m"

/* The area inside the axes: of each cell the dots that are set, and whose they are. */
typedef struct canvas {
    int columns, rows; /* cells */
    int dx, dy;        /* dots of a cell */
    unsigned char *dots;
    int16_t *owner; /* -1: nobody */
} canvas;

static tl_status make_canvas(canvas *c, tl_arena *arena, int columns, int rows, bool braille)
{
    *c = (canvas){.columns = columns,
                  .rows = rows,
                  .dx = braille ? DOT_COLUMNS : 1,
                  .dy = braille ? DOT_ROWS : 1};
    int64_t cells = (int64_t)columns * rows;
    c->dots = tl_arena_array(arena, cells, sizeof *c->dots);
    c->owner = tl_arena_array(arena, cells, sizeof *c->owner);
    if (!c->dots || !c->owner) return TL_ENOMEM;
    memset(c->dots, 0, (size_t)cells);
    for (int64_t i = 0; i < cells; i++) c->owner[i] = -1;
    return TL_OK;
}

static void set_dot(canvas *c, int x, int y, int16_t owner)
{
    static const unsigned char bits[DOT_ROWS][DOT_COLUMNS] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    int64_t cell = (int64_t)(y / c->dy) * c->columns + x / c->dx;
    c->dots[cell] |= bits[y % c->dy][x % c->dx];
    c->owner[cell] = owner;
}

static void draw_line(canvas *c, int x0, int y0, int x1, int y1, int16_t owner)
{
    int dx = abs(x1 - x0), dy = -abs(y1 - y0), sx = x0 < x1 ? 1 : -1, sy = y0 < y1 ? 1 : -1,
        error = dx + dy;
    for (;;) {
        set_dot(c, x0, y0, owner);
        if (x0 == x1 && y0 == y1) return;
        int twice = 2 * error;
        if (twice >= dy) {
            error += dy;
            x0 += sx;
        }
        if (twice <= dx) {
            error += dx;
            y0 += sy;
        }
    }
}

/* A value that is not finite is a gap. */
static void draw_series(canvas *c, const tli_figure *f, int16_t index)
{
    const tli_curve *curve = f->series[index].curve;
    int wide = c->columns * c->dx - 1, high = c->rows * c->dy - 1, x0 = 0, y0 = 0;
    bool before = false;
    for (int64_t i = 0; i < curve->count; i++) {
        tli_point p = curve->items[i];
        if (isnan(p.value)) {
            before = false;
            continue;
        }
        int x = (int)lround(tli_axis_place(&f->x, (double)p.step) * wide);
        int y = high - (int)lround(tli_axis_place(&f->y, p.value) * high);
        draw_line(c, before ? x0 : x, before ? y0 : y, x, y, index);
        x0 = x;
        y0 = y;
        before = true;
    }
}

/* --- text ------------------------------------------------------------------------------------- */

typedef struct writer {
    tl_str *out;
    const tli_figure *f;
    const canvas *c;
    tli_strokes strokes;
    int margin; /* columns before the axis */
} writer;

static const char *colour_of(const writer *w, int64_t series)
{
    return w->strokes == TLI_STROKES_COLOURS ? colours[series % TL_COUNT(colours)] : "";
}

static char mark_of(int64_t series)
{
    return marks[series % (int64_t)(sizeof marks - 1)];
}

/* `pen` is whose colour is on; -1: nobody's. */
static void add_cell(const writer *w, int64_t cell, int16_t *pen)
{
    int16_t owner = w->c->owner[cell];
    if (w->strokes == TLI_STROKES_COLOURS && owner != *pen) {
        tl_str_add(w->out, owner < 0 ? PLAIN : colour_of(w, owner));
        *pen = owner;
    }
    if (owner < 0) {
        tl_str_addc(w->out, ' ');
    } else if (w->strokes == TLI_STROKES_ASCII) {
        tl_str_addc(w->out, mark_of(owner));
    } else {
        unsigned dots = w->c->dots[cell]; // U+2800 and the dots
        char text[] = {(char)0xe2, (char)(0xa0 + (dots >> 6)), (char)(0x80 + (dots & 0x3f)), '\0'};
        tl_str_add(w->out, text);
    }
}

/* The tick of the y axis in this row; -1: none. */
static int tick_in_row(const writer *w, int row)
{
    for (int i = 0; i < w->f->y.count; i++) {
        double place = tli_axis_place(&w->f->y, tli_axis_tick(&w->f->y, i));
        if (w->c->rows - 1 - (int)lround(place * (w->c->rows - 1)) == row) return i;
    }
    return -1;
}

static void trim(tl_str *out)
{
    while (out->length && out->data[out->length - 1] == ' ') tl_str_cut(out, out->length - 1);
}

static void add_row(const writer *w, int row)
{
    bool ascii = w->strokes == TLI_STROKES_ASCII;
    int tick = tick_in_row(w, row);
    char label[32] = "";
    if (tick >= 0) tli_axis_label(label, sizeof label, &w->f->y, tli_axis_tick(&w->f->y, tick));
    tl_str_addf(w->out, "%*s %s", w->margin - 2, label,
                tick >= 0 ? (ascii ? "+" : "┤") : (ascii ? "|" : "│"));
    int16_t pen = -1;
    for (int x = 0; x < w->c->columns; x++) add_cell(w, (int64_t)row * w->c->columns + x, &pen);
    trim(w->out);
    if (pen >= 0) tl_str_add(w->out, PLAIN);
    tl_str_addc(w->out, '\n');
}

/* The column of a tick of the x axis. */
static int column_of(const writer *w, int tick)
{
    return (int)lround(tli_axis_place(&w->f->x, tli_axis_tick(&w->f->x, tick))
                       * (w->c->columns - 1));
}

static void add_x_axis(const writer *w)
{
    bool ascii = w->strokes == TLI_STROKES_ASCII;
    int at = 0, next = 0;
    tl_str_pad(w->out, ' ', w->margin - 1);
    tl_str_add(w->out, ascii ? "+" : "└");
    for (int x = 0; x < w->c->columns; x++) {
        while (next < w->f->x.count && column_of(w, next) < x) next++;
        bool tick = next < w->f->x.count && column_of(w, next) == x;
        tl_str_add(w->out, ascii ? (tick ? "+" : "-") : (tick ? "┬" : "─"));
    }
    tl_str_addc(w->out, '\n');
    tl_str_pad(w->out, ' ', w->margin);
    for (int i = 0; i < w->f->x.count; i++) {
        char label[32];
        tli_axis_label(label, sizeof label, &w->f->x, tli_axis_tick(&w->f->x, i));
        int wide = (int)strlen(label), begin = column_of(w, i) - wide / 2;
        if (begin < 0) begin = 0;
        if (begin + wide > w->c->columns) begin = w->c->columns - wide;
        if (begin < at + (at > 0)) continue; // there is no room
        tl_str_pad(w->out, ' ', begin - at);
        tl_str_add(w->out, label);
        at = begin + wide;
    }
    tl_str_addc(w->out, '\n');
}

static void add_legend(const writer *w, int width)
{
    for (int64_t i = 0; i < w->f->count; i++) {
        char mark[2] = {mark_of(i), '\0'};
        tl_str_pad(w->out, ' ', w->margin);
        if (w->strokes == TLI_STROKES_ASCII) tl_str_add(w->out, mark);
        else
            tl_str_addf(w->out, "%s━━%s", colour_of(w, i),
                        w->strokes == TLI_STROKES_COLOURS ? PLAIN : "");
        tl_str_addc(w->out, ' ');
        tli_add_cut(w->out, w->f->series[i].label, width - w->margin - 3);
        tl_str_addc(w->out, '\n');
    }
}

tl_status tli_figure_text(tl_str *out, tl_arena *arena, tli_figure *f, int width, int height,
                          tli_strokes strokes)
{
    canvas c;
    // Dots without colours do not say whose they are.
    if (strokes == TLI_STROKES_UNICODE && f->count > 1) strokes = TLI_STROKES_ASCII;
    writer w = {.out = out, .f = f, .c = &c, .strokes = strokes};
    tli_figure_scale(f, width / 12, height / 3);
    for (int i = 0; i < f->y.count; i++) {
        char label[32];
        tli_axis_label(label, sizeof label, &f->y, tli_axis_tick(&f->y, i));
        if ((int)strlen(label) + 2 > w.margin) w.margin = (int)strlen(label) + 2;
    }
    if (w.margin < 3) w.margin = 3;
    int columns = width - w.margin;
    TL_TRY(make_canvas(&c, arena, columns > 8 ? columns : 8, height > 3 ? height : 3,
                       strokes != TLI_STROKES_ASCII));
    for (int64_t i = 0; i < f->count; i++) draw_series(&c, f, (int16_t)i);
    if (*f->title) tl_str_addf(out, "%*s%s\n", w.margin, "", f->title);
    for (int row = 0; row < c.rows; row++) add_row(&w, row);
    add_x_axis(&w);
    add_legend(&w, width);
    return tl_str_status(out);
}
