#include <math.h>
#include <stdio.h>

#include "tool/plot.h"

enum { MOST_TICKS = 40 };
#define GREATEST 1e300 /* beyond it differences overflow */

/* The round number, 1, 2 or 5 times a power of ten, that is not less. */
static double round_up(double step)
{
    double power = pow(10, floor(log10(step))), times = step / power;
    return power * (times <= 1.0000001 ? 1 : times <= 2.0000001 ? 2 : times <= 5.0000001 ? 5 : 10);
}

static void set_ticks(tli_axis *a, int wanted, bool whole)
{
    a->step = round_up((a->high - a->low) / wanted);
    if (whole && a->step < 1) a->step = 1;
    a->first = ceil(a->low / a->step - 1e-9) * a->step;
    double count = floor((a->high - a->first) / a->step + 1e-9) + 1;
    a->count = count > 0 && count <= MOST_TICKS ? (int)count : 0;
}

tli_axis tli_axis_of(double least, double greatest, int ticks, bool whole)
{
    if (least < -GREATEST) least = -GREATEST;
    if (greatest > GREATEST) greatest = GREATEST;
    if (!(greatest - least > fabs(greatest) * 1e-12)) { // one value alone stands in the middle
        double around = whole ? 1 : greatest != 0 ? fabs(greatest) * 0.1 : 1;
        greatest += around;
        least -= whole && least >= 1 ? 1 : whole ? 0 : around;
    }
    tli_axis a = {.low = least, .high = greatest};
    int wanted = ticks < 1 ? 1 : ticks > MOST_TICKS / 2 ? MOST_TICKS / 2 : ticks;
    for (; wanted <= MOST_TICKS; wanted *= 2) { // one tick alone says nothing
        set_ticks(&a, wanted, whole);
        if (a.count >= 2 || (whole && a.step <= 1)) break;
    }
    return a;
}

double tli_axis_tick(const tli_axis *a, int index)
{
    double value = a->first + index * a->step;
    return fabs(value) < a->step * 1e-9 ? 0 : value;
}

/* As many digits as tell a tick from the next one. */
void tli_axis_label(char *out, size_t size, const tli_axis *a, double value)
{
    if (a->powers) {
        snprintf(out, size, "%.2g", pow(10, value / TLI_AXIS_POWER));
        return;
    }
    double most = fmax(fabs(a->low), fabs(a->high)), last = floor(log10(a->step) + 1e-9);
    int digits = (int)fmin(fmax(0, -last), 400),
        figures = (int)fmin(fmax(4, floor(log10(most)) - last + 1), 15);
    if (most >= 1e7 || digits > 6) snprintf(out, size, "%.*g", figures, value);
    else snprintf(out, size, "%.*f", digits, value);
}

double tli_axis_place(const tli_axis *a, double value)
{
    double place = (value - a->low) / (a->high - a->low);
    return place < 0 ? 0 : place > 1 ? 1 : place;
}

void tli_figure_scale(tli_figure *f, int x_ticks, int y_ticks)
{
    double least = INFINITY, greatest = -INFINITY, first = INFINITY, last = -INFINITY;
    for (int64_t i = 0; i < f->count; i++) {
        const tli_curve *c = f->series[i].curve;
        for (int64_t k = 0; k < c->count; k++) {
            if (isnan(c->items[k].value)) continue;
            least = fmin(least, c->items[k].value);
            greatest = fmax(greatest, c->items[k].value);
            first = fmin(first, (double)c->items[k].step);
            last = fmax(last, (double)c->items[k].step);
        }
    }
    if (!f->x_powers && first < last * 0.1) first = 0;
    double room = (fmin(greatest, GREATEST) - fmax(least, -GREATEST)) * 0.03;
    f->x = tli_axis_of(first, last, x_ticks, true);
    f->x.powers = f->x_powers;
    f->y = tli_axis_of(least - room, greatest + room, y_ticks, false);
}
