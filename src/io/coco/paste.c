#include <tilth/io/coco/rle.h>

#include <inttypes.h>
#include <math.h>

#include <tilth/base/integer.h>

#include "io/coco/rle.h"

/* The steps and roundings of Model Garden's paste_instance_masks, which resizes with OpenCV. */

enum { MOST_PLACE = 1 << 24 }; /* of a corner: whole numbers below it are exact in float */

/* The pixels of the image that one side of the padded probabilities covers. */
typedef struct span {
    int64_t from, length;
    int64_t begin, end; /* those inside the image, counted in the image */
} span;

static int64_t truncated(float place)
{
    return (int64_t)fminf(fmaxf(place, -MOST_PLACE), MOST_PLACE);
}

static span make_span(float from, float length, float scale, int64_t side)
{
    float half = length * 0.5f, middle = from + half;
    half *= scale;
    span s = {.from = truncated(middle - half)};
    int64_t last = truncated(middle + half);
    s.length = tl_max_i64(last - s.from + 1, 1);
    s.begin = tl_clamp_i64(s.from, 0, side);
    s.end = tl_clamp_i64(last + 1, 0, side);
    return s;
}

/* Between which two of `count` values a pixel lies, of which the ring of zeros is the first and the
 * last, and the share of the second one. */
typedef struct between {
    int64_t first, second;
    float share;
} between;

static between find_between(const span *s, int64_t pixel, int64_t count)
{
    double scale = 1 / ((double)s->length / (double)count);
    float place = (float)(((double)(pixel - s->from) + 0.5) * scale - 0.5);
    float first = floorf(place);
    between b = {.first = (int64_t)first, .share = place - first};
    b.second = tl_clamp_i64(b.first + 1, 0, count - 1);
    b.first = tl_clamp_i64(b.first, 0, count - 1);
    return b;
}

typedef struct mask {
    const float *values;
    int64_t rows, columns;
} mask;

/* With the ring around it. */
static float value_at(const mask *m, int64_t row, int64_t column)
{
    bool ring = row == 0 || column == 0 || row > m->rows || column > m->columns;
    return ring ? 0 : m->values[(row - 1) * m->columns + column - 1];
}

static float mixed(const mask *m, int64_t row, const between *x)
{
    return value_at(m, row, x->first) * (1 - x->share) + value_at(m, row, x->second) * x->share;
}

/* Pixels of one column that are inside flip the runs at both ends. */
static bool add_column(tli_runs *runs, bool *inside, const mask *m, const span *down,
                       const between *x, int64_t column, int64_t height)
{
    for (int64_t y = down->begin; y < down->end; y++) {
        between b = find_between(down, y, m->rows + 2);
        float value = mixed(m, b.first, x) * (1 - b.share) + mixed(m, b.second, x) * b.share;
        if ((value > 0.5f) == *inside) continue;
        *inside = !*inside;
        if (!tli_runs_flip(runs, column * height + y)) return false;
    }
    // Below the box nothing is inside; the next column may go on where this one reaches the end.
    if (!*inside || (down->end == height && down->begin == 0)) return true;
    *inside = false;
    return tli_runs_flip(runs, column * height + down->end);
}

tl_status tl_rle_paste(tl_rle *out, const float *probabilities, int64_t rows, int64_t columns,
                       const float box[4], int64_t height, int64_t width)
{
    tli_runs runs = {0};
    tl_status st = TL_OK;
    *out = (tl_rle)TL_RLE_INIT;
    TL_TRY(tli_rle_check_size(height, width));
    if (rows < 1 || columns < 1 || rows > TL_RLE_LONGEST || columns > TL_RLE_LONGEST)
        return TL_FAIL(TL_EINVAL, "%" PRId64 " x %" PRId64 " probabilities are no mask", rows,
                       columns);
    for (int i = 0; i < 4; i++)
        if (!isfinite(box[i])) return TL_FAIL(TL_EINVAL, "number %d of the box is %g", i, box[i]);
    mask m = {probabilities, rows, columns};
    float scale =
        (float)fmax((double)(columns + 2) / (double)columns, (double)(rows + 2) / (double)rows);
    span across = make_span(box[0], box[2], scale, width);
    span down = make_span(box[1], box[3], scale, height);
    bool inside = false;
    for (int64_t x = across.begin; st == TL_OK && x < across.end; x++) {
        between b = find_between(&across, x, columns + 2);
        if (!add_column(&runs, &inside, &m, &down, &b, x, height)) st = TL_ENOMEM;
    }
    if (st == TL_OK && inside && across.end < width && !tli_runs_flip(&runs, across.end * height))
        st = TL_ENOMEM;
    if (st == TL_OK) st = tli_runs_end(out, &runs, height, width);
    TL_VEC_FREE(&runs);
    return st;
}
