#include "zoo/vision/pixel_view.h"

#include <math.h>

#include <tilth/base/integer.h>

tl_status tli_pixel_view_back(tli_pixel_view *v, const float image_info[8], int64_t size[2])
{
    enum { MOST_SIDE = 1 << 20 };
    int64_t scaled[2];
    for (int i = 0; i < 2; i++) {
        const float original = image_info[i], desired = image_info[2 + i],
                    scale = image_info[4 + i];
        const float back = ceilf(desired / scale), offset = image_info[6 + i];
        if (!(original >= 0 && original <= MOST_SIDE && back >= 1 && back <= MOST_SIDE
              && fabsf(offset) <= MOST_SIDE))
            return TL_FAIL(TL_EINVAL, "image_info has size %g, %g at scale %g", (double)original,
                           (double)desired, (double)scale);
        size[i] = (int64_t)original;
        scaled[i] = (int64_t)back;
    }
    v->height = scaled[0];
    v->width = scaled[1];
    v->top = truncf(image_info[6]);
    v->left = truncf(image_info[7]);
    return TL_OK;
}

/* Between which two of `count` lies pixel `at` of `size`, and how near to the second. */
typedef struct between {
    int64_t low, high;
    float weight;
} between;

static between place(float at, int64_t size, int64_t count)
{
    at = (at + 0.5f) * ((float)count / (float)size) - 0.5f;
    const float low = floorf(at);
    return (between){tl_clamp_i64((int64_t)low, 0, count - 1),
                     tl_clamp_i64((int64_t)low + 1, 0, count - 1), at - low};
}

void tli_pixel_line(float *line, const tli_pixel_view *v, int64_t y)
{
    const between row = place((float)y + v->top, v->height, v->rows);
    const int64_t width = v->columns * v->classes;
    const float *a = v->logits + row.low * width, *b = v->logits + row.high * width;
    for (int64_t i = 0; i < width; i++) line[i] = a[i] + (b[i] - a[i]) * row.weight;
}

int64_t tli_pixel_class(const tli_pixel_view *v, const float *line, int64_t x)
{
    const between at = place((float)x + v->left, v->width, v->columns);
    const float *a = line + at.low * v->classes, *b = line + at.high * v->classes;
    int64_t best = 0;
    float most = -INFINITY;
    for (int64_t i = 0; i < v->classes; i++) {
        const float value = a[i] + (b[i] - a[i]) * at.weight;
        if (!(value > most)) continue;
        most = value;
        best = i;
    }
    return best;
}
