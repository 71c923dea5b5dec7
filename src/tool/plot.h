/* Private to tool: curves, drawn as text or as SVG.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_TOOL_PLOT_H
#define TILTH_SRC_TOOL_PLOT_H

#include "tool/runs.h"

typedef struct tli_series {
    const char *label;
    const tli_curve *curve; /* has a finite value */
    /* series of one run are of one colour, where there are several of each */
    int64_t colour, dash;
} tli_series;

/* Of an axis of powers: what one decade takes. */
enum { TLI_AXIS_POWER = 1000 };

/* Round numbers from `first` on, `step` apart. */
typedef struct tli_axis {
    double low, high; /* what is drawn */
    double first, step;
    int count;
    bool powers; /* values are logarithms, to the base 10 and times TLI_AXIS_POWER */
} tli_axis;

typedef struct tli_figure {
    const char *title;  /* "": none */
    const char *x_name; /* NULL: "step" */
    bool x_powers;      /* "steps" are logarithms, as in tli_axis */
    tli_series *series;
    int64_t count;
    tli_axis x, y;
} tli_figure;

/* An axis from the least to the greatest value, with about `ticks` round numbers. `whole`: they are
 * integers. */
tli_axis tli_axis_of(double least, double greatest, int ticks, bool whole);
double tli_axis_tick(const tli_axis *a, int index);
/* The number as it stands at the axis. */
void tli_axis_label(char *out, size_t size, const tli_axis *a, double value);
/* Where a value lies, from 0 to 1. */
double tli_axis_place(const tli_axis *a, double value);
/* The axes around all series. */
void tli_figure_scale(tli_figure *f, int x_ticks, int y_ticks);

typedef enum tli_strokes {
    TLI_STROKES_ASCII,   /* a sign for each series */
    TLI_STROKES_UNICODE, /* dots of Braille; lines for the axes */
    TLI_STROKES_COLOURS  /* the same in colours */
} tli_strokes;
/* `height` rows, without the axis and the legend. */
TL_NODISCARD tl_status tli_figure_text(tl_str *out, tl_arena *arena, tli_figure *f, int width,
                                       int height, tli_strokes strokes);
void tli_figure_svg(tl_str *out, tli_figure *f);
/* What the program's output can show. */
tli_strokes tli_strokes_of(const tli_run *run);

#endif
