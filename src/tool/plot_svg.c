#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <tilth/base/integer.h>

#include "tool/plot.h"
#include "tool/svg.h"

/* Of the drawing, in its own units. */
enum {
    WIDTH = 860,
    LEFT = 76,
    TOP = 44,
    PLOT_WIDTH = 740,
    PLOT_HEIGHT = 360,
    AXIS_HEIGHT = 52,
    LEGEND_ROW = 20
};
enum { MOST_DOTS = 60, LETTER = 7 };

/* Okabe and Ito's colours, which those who see few colours can tell apart too, but yellow, which
 * white swallows. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#333333"};
static const char *const dashes[] = {"", " stroke-dasharray=\"7 4\"", " stroke-dasharray=\"2 3\""};

static const char *colour_of(const tli_figure *f, int64_t series)
{
    return colours[f->series[series].colour % TL_COUNT(colours)];
}

/* Colours that come again are dashed. */
static const char *dash_of(const tli_figure *f, int64_t series)
{
    const tli_series *s = &f->series[series];
    return dashes[(s->dash + s->colour / TL_COUNT(colours)) % TL_COUNT(dashes)];
}

static double x_of(const tli_figure *f, int64_t step)
{
    return LEFT + tli_axis_place(&f->x, (double)step) * PLOT_WIDTH;
}

static double y_of(const tli_figure *f, double value)
{
    return TOP + (1 - tli_axis_place(&f->y, value)) * PLOT_HEIGHT;
}

static void add_axes(tl_str *out, const tli_figure *f)
{
    char label[32];
    tl_str_add(out, "<g stroke=\"#e3e3e3\" stroke-width=\"1\">\n");
    for (int i = 0; i < f->y.count; i++) {
        double y = y_of(f, tli_axis_tick(&f->y, i));
        tl_str_addf(out, "<path d=\"M%d %.1fh%d\"/>\n", LEFT, y, PLOT_WIDTH);
    }
    for (int i = 0; i < f->x.count; i++) {
        double x = LEFT + tli_axis_place(&f->x, tli_axis_tick(&f->x, i)) * PLOT_WIDTH;
        tl_str_addf(out, "<path d=\"M%.1f %dv%d\"/>\n", x, TOP, PLOT_HEIGHT);
    }
    tl_str_addf(out,
                "</g>\n<path d=\"M%d %dv%dh%d\" fill=\"none\" stroke=\"#444\"/>\n<g "
                "font-size=\"13\" fill=\"#444\">\n",
                LEFT, TOP, PLOT_HEIGHT, PLOT_WIDTH);
    for (int i = 0; i < f->y.count; i++) {
        double value = tli_axis_tick(&f->y, i);
        tli_axis_label(label, sizeof label, &f->y, value);
        tl_str_addf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 8,
                    y_of(f, value) + 4.5, label);
    }
    for (int i = 0; i < f->x.count; i++) {
        double value = tli_axis_tick(&f->x, i);
        tli_axis_label(label, sizeof label, &f->x, value);
        tl_str_addf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                    LEFT + tli_axis_place(&f->x, value) * PLOT_WIDTH, TOP + PLOT_HEIGHT + 18,
                    label);
    }
    tl_str_addf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n</g>\n",
                LEFT + PLOT_WIDTH / 2, TOP + PLOT_HEIGHT + 38, f->x_name ? f->x_name : "step");
}

/* The first, least, greatest and last point of each half unit are all that can be seen of more. */
typedef struct bundle {
    double x;
    tli_point points[4]; /* first, least, greatest, last */
    int64_t count;
} bundle;

static void add_point(tl_str *out, const tli_figure *f, tli_point p, bool *move)
{
    tl_str_addf(out, "%c%.1f %.1f", *move ? 'M' : 'L', x_of(f, p.step), y_of(f, p.value));
    *move = false;
}

static void flush(tl_str *out, const tli_figure *f, bundle *b, bool *move)
{
    bool falls = b->points[2].step < b->points[1].step;
    const tli_point *in_order[] = {&b->points[0], &b->points[falls ? 2 : 1],
                                   &b->points[falls ? 1 : 2], &b->points[3]};
    for (int i = 0; i < 4 && b->count; i++)
        if (i == 0 || in_order[i]->step > in_order[i - 1]->step)
            add_point(out, f, *in_order[i], move);
    b->count = 0;
}

static void gather(tl_str *out, const tli_figure *f, bundle *b, tli_point p, bool *move)
{
    double x = floor(x_of(f, p.step) * 2);
    if (b->count && b->x != x) flush(out, f, b, move);
    b->x = x;
    if (!b->count++) b->points[0] = b->points[1] = b->points[2] = p;
    if (p.value < b->points[1].value) b->points[1] = p;
    if (p.value > b->points[2].value) b->points[2] = p;
    b->points[3] = p;
}

static void add_series(tl_str *out, const tli_figure *f, int64_t index)
{
    const tli_curve *c = f->series[index].curve;
    bundle b = {0};
    bool move = true;
    tl_str_add(out, "<path d=\"");
    for (int64_t i = 0; i < c->count; i++) {
        if (!isnan(c->items[i].value)) {
            gather(out, f, &b, c->items[i], &move);
            continue;
        }
        flush(out, f, &b, &move); // a gap
        move = true;
    }
    flush(out, f, &b, &move);
    tl_str_addf(
        out, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\" stroke-linejoin=\"round\"%s/>\n",
        colour_of(f, index), dash_of(f, index));
    if (c->count > MOST_DOTS) return;
    tl_str_addf(out, "<g fill=\"%s\">\n", colour_of(f, index));
    for (int64_t i = 0; i < c->count; i++)
        if (!isnan(c->items[i].value))
            tl_str_addf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\"/>\n",
                        x_of(f, c->items[i].step), y_of(f, c->items[i].value));
    tl_str_add(out, "</g>\n");
}

/* Columns of the legend that the longest label leaves room for. */
static int legend_columns(const tli_figure *f)
{
    int longest = 1;
    for (int64_t i = 0; i < f->count; i++) {
        int wide = tli_columns(f->series[i].label);
        if (wide > longest) longest = wide;
    }
    int columns = PLOT_WIDTH / (longest * LETTER + 56);
    return columns < 1 ? 1 : columns > 4 ? 4 : columns;
}

static void add_legend(tl_str *out, const tli_figure *f, int columns)
{
    tl_str_add(out, "<g font-size=\"13\" fill=\"#222\">\n");
    for (int64_t i = 0; i < f->count; i++) {
        int x = LEFT + (int)(i % columns) * (PLOT_WIDTH / columns);
        int y = TOP + PLOT_HEIGHT + AXIS_HEIGHT + (int)(i / columns) * LEGEND_ROW + 8;
        tl_str_addf(
            out,
            "<path d=\"M%d %dh26\" stroke=\"%s\" stroke-width=\"3\"%s/><text x=\"%d\" y=\"%d\">", x,
            y - 4, colour_of(f, i), dash_of(f, i), x + 34, y);
        tli_svg_text(out, f->series[i].label, 0);
        tl_str_add(out, "</text>\n");
    }
    tl_str_add(out, "</g>\n");
}

void tli_figure_svg(tl_str *out, tli_figure *f)
{
    int columns = legend_columns(f);
    int height =
        TOP + PLOT_HEIGHT + AXIS_HEIGHT + (int)tl_div_up(f->count, columns) * LEGEND_ROW + 12;
    tli_figure_scale(f, 9, 7);
    tl_str_addf(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                "height=\"%d\" font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\">\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                WIDTH, height, WIDTH, height);
    tl_str_addf(out, "<text x=\"%d\" y=\"27\" font-size=\"16\" fill=\"#222\">", LEFT);
    tli_svg_text(out, f->title, 0);
    tl_str_add(out, "</text>\n");
    add_axes(out, f);
    for (int64_t i = 0; i < f->count; i++) add_series(out, f, i);
    add_legend(out, f, columns);
    tl_str_add(out, "</svg>\n");
}
