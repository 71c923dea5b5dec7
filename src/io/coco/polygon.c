#include <tilth/io/coco/rle.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "io/coco/rle.h"

/* Corners are taken to a grid of a fifth of a pixel, and edges walk it in steps of one along their
 * longer side. An edge flips the pixels below it in column n where it goes from grid column 5n + 2
 * to 5n + 3, or back. COCO takes all steps; here only those that cross are computed. */
enum { GRID = 5 };
static const double MOST_COORDINATE = 1e8; /* on the grid it fits in 32 bits */

typedef struct flips {
    uint32_t *items;
    int64_t count, capacity;
} flips;

typedef struct edge {
    int64_t x, y, dx, dy; /* where it begins, and its length; the longer side does not go back */
    double slope;         /* along the shorter side, for a step along the longer one */
    bool flat;            /* the longer side is x */
} edge;

static int64_t on_grid(double coordinate)
{
    return (int64_t)(GRID * coordinate + 0.5);
}

static edge make_edge(int64_t x0, int64_t y0, int64_t x1, int64_t y1)
{
    bool flat = llabs(x1 - x0) >= llabs(y1 - y0), back = flat ? x0 > x1 : y0 > y1;
    edge e = {.x = back ? x1 : x0, .y = back ? y1 : y0, .flat = flat};
    e.dx = (back ? x0 : x1) - e.x;
    e.dy = (back ? y0 : y1) - e.y;
    if (e.dx || e.dy) e.slope = flat ? (double)e.dy / (double)e.dx : (double)e.dx / (double)e.dy;
    return e;
}

/* Where the shorter side is after so many steps. */
static int64_t shorter_at(const edge *e, int64_t step)
{
    return (int64_t)((double)(e->flat ? e->y : e->x) + e->slope * (double)step + 0.5);
}

/* The step of a steep edge with which it goes from grid column `column` to the next, or back. */
static int64_t steep_crossing(const edge *e, int64_t column)
{
    bool right = e->dx > 0;
    int64_t step = (int64_t)(((double)(column - e->x) + 0.5) / e->slope);
    if (step < 0) step = 0;
    if (step > e->dy - 1) step = e->dy - 1;
    // The guess is off by a step or two, since places are rounded.
    while (step > 0 && (right ? shorter_at(e, step) > column : shorter_at(e, step) <= column))
        step--;
    while (step < e->dy - 1
           && (right ? shorter_at(e, step + 1) <= column : shorter_at(e, step + 1) > column))
        step++;
    return step;
}

/* The row from which on pixels are flipped in column n. */
static int64_t row_of(const edge *e, int64_t n, int64_t height)
{
    int64_t column = GRID * n + 2, y;
    if (e->flat) {
        int64_t a = shorter_at(e, column - e->x), b = shorter_at(e, column + 1 - e->x);
        y = a < b ? a : b;
    } else {
        y = e->y + steep_crossing(e, column);
    }
    double row = ((double)y + 0.5) / GRID - 0.5;
    if (row < 0) row = 0;
    else if (row > (double)height) row = (double)height;
    return (int64_t)ceil(row);
}

/* How many columns an edge crosses, from which one on. */
static int64_t columns_of(int64_t *first, const edge *e, int64_t width)
{
    int64_t low = e->dx < 0 ? e->x + e->dx : e->x, high = e->dx < 0 ? e->x : e->x + e->dx;
    // Columns n with low <= 5n + 2 and 5n + 3 <= high.
    *first = low <= 2 ? 0 : (low - 2 + GRID - 1) / GRID;
    int64_t last = high < 3 ? -1 : (high - 3) / GRID;
    if (last > width - 1) last = width - 1;
    return last < *first ? 0 : last - *first + 1;
}

static tl_status add_edge(flips *f, const edge *e, int64_t height, int64_t width, int64_t most)
{
    int64_t first, count = columns_of(&first, e, width);
    if (count > most - f->count)
        return TL_FAIL(TL_ELIMIT,
                       "the edges of a polygon cross columns of pixels more than %" PRId64
                       " times: more than can be accepted here",
                       most);
    for (int64_t n = first; n < first + count; n++)
        if (!TL_VEC_PUSH(f, (uint32_t)(n * height + row_of(e, n, height)))) return TL_ENOMEM;
    return TL_OK;
}

static tl_status add_edges(flips *f, const double *corners, int64_t count, int64_t height,
                           int64_t width, int64_t most)
{
    for (int64_t i = 0; i < 2 * count; i++)
        if (!(fabs(corners[i]) <= MOST_COORDINATE))
            return TL_FAIL(TL_EINVAL, "coordinate %" PRId64 " of a polygon is %g: not a pixel", i,
                           corners[i]);
    for (int64_t i = 0; i < count; i++) {
        const double *from = corners + 2 * i, *to = corners + 2 * ((i + 1) % count);
        edge e = make_edge(on_grid(from[0]), on_grid(from[1]), on_grid(to[0]), on_grid(to[1]));
        TL_TRY(add_edge(f, &e, height, width, most));
    }
    return TL_OK;
}

static int by_place(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static tl_status make_runs(tl_rle *out, flips *f, int64_t height, int64_t width)
{
    tli_runs runs = {0};
    tl_status st = TL_OK;
    if (f->count) qsort(f->items, (size_t)f->count, sizeof *f->items, by_place);
    for (int64_t i = 0, next; st == TL_OK && i < f->count; i = next) {
        for (next = i + 1; next < f->count && f->items[next] == f->items[i];) next++;
        // Two flips at one place are none.
        if ((next - i) % 2 && f->items[i] < (uint32_t)(height * width)
            && !tli_runs_flip(&runs, f->items[i]))
            st = TL_ENOMEM;
    }
    if (st == TL_OK) st = tli_runs_end(out, &runs, height, width);
    TL_VEC_FREE(&runs);
    return st;
}

tl_status tli_rle_from_polygon(tl_rle *out, const double *corners, int64_t corner_count,
                               int64_t height, int64_t width, int64_t *crossings)
{
    flips f = {0};
    *out = (tl_rle)TL_RLE_INIT;
    TL_TRY(tli_rle_check_size(height, width));
    if (corner_count < 3)
        return TL_FAIL(TL_EINVAL, "a polygon has %" PRId64 " corners, and needs 3 or more",
                       corner_count);
    tl_status st = add_edges(&f, corners, corner_count, height, width, *crossings);
    if (st == TL_OK) {
        *crossings -= f.count;
        st = make_runs(out, &f, height, width);
    }
    TL_VEC_FREE(&f);
    return st;
}

tl_status tl_rle_from_polygon(tl_rle *out, const double *corners, int64_t corner_count,
                              int64_t height, int64_t width)
{
    int64_t crossings = TL_RLE_MOST_CROSSINGS;
    return tli_rle_from_polygon(out, corners, corner_count, height, width, &crossings);
}

/* --- several masks ---------------------------------------------------------------------------- */

/* The begin of a run of ones, or behind its end. */
typedef struct border {
    uint32_t place;
    int32_t change; /* of the number of masks that have what follows */
} border;
typedef struct borders {
    border *items;
    int64_t count, capacity;
} borders;

static int by_border(const void *a, const void *b)
{
    const border *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

static tl_status add_borders(borders *all, const tl_rle *mask)
{
    uint32_t at = 0;
    for (int64_t i = 0; i < mask->count; at += mask->counts[i++]) {
        if (i % 2 == 0 || !mask->counts[i]) continue;
        if (!TL_VEC_PUSH(all, (border){at, 1})) return TL_ENOMEM;
        if (!TL_VEC_PUSH(all, (border){at + mask->counts[i], -1})) return TL_ENOMEM;
    }
    return TL_OK;
}

static tl_status merge_borders(tl_rle *out, borders *all, int64_t least, int64_t height,
                               int64_t width)
{
    tli_runs runs = {0};
    tl_status st = TL_OK;
    int64_t depth = 0;
    if (all->count) qsort(all->items, (size_t)all->count, sizeof *all->items, by_border);
    for (int64_t i = 0, next; st == TL_OK && i < all->count; i = next) {
        bool inside = depth >= least;
        for (next = i; next < all->count && all->items[next].place == all->items[i].place; next++)
            depth += all->items[next].change;
        if ((depth >= least) != inside && all->items[i].place < (uint32_t)(height * width)
            && !tli_runs_flip(&runs, all->items[i].place))
            st = TL_ENOMEM;
    }
    if (st == TL_OK) st = tli_runs_end(out, &runs, height, width);
    TL_VEC_FREE(&runs);
    return st;
}

tl_status tl_rle_merge(tl_rle *out, const tl_rle *masks, int64_t count, bool intersect)
{
    borders all = {0};
    tl_status st = TL_OK;
    *out = (tl_rle)TL_RLE_INIT;
    TL_ASSERT(count > 0);
    for (int64_t i = 0; st == TL_OK && i < count; i++) {
        if (masks[i].height != masks[0].height || masks[i].width != masks[0].width)
            st = TL_FAIL(TL_EINVAL,
                         "masks of %" PRId64 " x %" PRId64 " and of %" PRId64 " x %" PRId64
                         " pixels cannot be merged",
                         masks[0].height, masks[0].width, masks[i].height, masks[i].width);
        else st = add_borders(&all, &masks[i]);
    }
    if (st == TL_OK)
        st = merge_borders(out, &all, intersect ? count : 1, masks[0].height, masks[0].width);
    TL_VEC_FREE(&all);
    return st;
}
