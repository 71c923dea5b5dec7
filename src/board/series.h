/* Private to board: the points of a curve, kept small, and chosen to be drawn.
 *
 *     tli_series s = {0};
 *     if (!tli_series_add(&s, 10, wall_time, 0.5)) ...;             // the error is set
 *     tli_series_sample(&chosen, &s, &(tli_sample_args){.buckets = 500});
 *     tli_series_free(&s);
 *
 * A point takes 12 bytes: steps and milliseconds are kept as distances from the first one of their
 * block, values as float32, which is what event files hold. A curve that has become too long is
 * thinned: of each four neighbours the lowest and the highest stay, so no extreme is ever lost.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_BOARD_SERIES_H
#define TLI_BOARD_SERIES_H

#include <tilth/base/status.h>

typedef struct tli_point {
    int64_t step;
    double time; /* seconds since 1970 */
    double value;
} tli_point;

enum { TLI_BLOCK = 128 };
typedef struct tli_block {
    int64_t step;
    double time;
    int count;
    uint32_t steps[TLI_BLOCK], times[TLI_BLOCK];
    float values[TLI_BLOCK];
} tli_block;

typedef struct tli_series {
    tli_block **items;
    int64_t count, capacity; /* blocks */
    int64_t points, told;    /* that are kept, and that there were */
    bool thinned;
    tli_point low, high; /* of all finite values; NaN: there is none */
} tli_series;

/* False, with the error set, when there is no memory. */
bool tli_series_add(tli_series *s, int64_t step, double time, double value);
void tli_series_free(tli_series *s);
/* Takes out the points of this step and of later ones. */
void tli_series_cut(tli_series *s, int64_t step);
/* Half of the points at most, with all extremes, the first and the last one. */
bool tli_series_thin(tli_series *s);
size_t tli_series_bytes(const tli_series *s);

/* One after the other: *block and *at begin with 0. */
bool tli_series_next(tli_point *out, const tli_series *s, int64_t *block, int *at);
/* False when there is none. */
bool tli_series_first(tli_point *out, const tli_series *s);
bool tli_series_last(tli_point *out, const tli_series *s);

typedef enum tli_axis { TLI_AXIS_STEP, TLI_AXIS_TIME, TLI_AXIS_RELATIVE } tli_axis;
typedef struct tli_sample_args {
    int64_t buckets; /* columns of the drawing */
    tli_axis axis;
    bool logarithmic; /* the axis */
    double from, to;  /* on the axis; both 0: all */
    double smooth;    /* 0: none; else the weight of what came before, below 1 */
} tli_sample_args;
typedef struct tli_points {
    tli_point *items;
    int64_t count, capacity;
} tli_points;
/* What a line through all points would show in so many columns: of each one the first, lowest,
 * highest and last point, and one neighbour on either side. Smoothed values are averages that
 * forget (as TensorBoard's), of all points from the first one on; those that are not finite stay as
 * they are. */
TL_NODISCARD tl_status tli_series_sample(tli_points *out, const tli_series *s,
                                         const tli_sample_args *args);

#endif
