/* Shapes: up to eight dimensions, row-major.
 *
 *     tl_shape a = TL_SHAPE(32, 1, 128), b = TL_SHAPE(10, 1), both;
 *     TL_TRY(tl_shape_broadcast(&both, &a, &b));            // [32, 10, 128]
 *
 * Ownership: plain data, copied by assignment. Thread word: immutable. */
#ifndef TILTH_CORE_SHAPE_H
#define TILTH_CORE_SHAPE_H

#include <tilth/base/status.h>

TL_BEGIN

enum { TL_MAX_RANK = 8, TL_SHAPE_TEXT = 192 };

typedef struct tl_shape {
    int rank;
    int64_t dims[TL_MAX_RANK];
} tl_shape;

/* TL_SHAPE(2, 3); TL_SCALAR has rank 0 and one element. */
#define TL_SHAPE(...)                                                                              \
    tl_shape_of((int)TL_COUNT_OF_(const int64_t, __VA_ARGS__),                                     \
                TL_ITEMS_(const int64_t, __VA_ARGS__))
#define TL_SCALAR tl_shape_of(0, NULL)
/* A rank above TL_MAX_RANK is a programmer's error. */
TL_API tl_shape tl_shape_of(int rank, const int64_t *dims);

/* Rank and dimensions acceptable, and the elements countable. `what` begins the message. */
TL_API TL_NODISCARD tl_status tl_shape_check(const tl_shape *shape, const char *what);
/* The number of elements; 1 for a scalar. */
TL_API int64_t tl_shape_count(const tl_shape *shape);
TL_API bool tl_shape_equal(const tl_shape *a, const tl_shape *b);
/* What two shapes become together, as NumPy does it: aligned at the last dimension, 1 stretches. */
TL_API TL_NODISCARD tl_status tl_shape_broadcast(tl_shape *out, const tl_shape *a,
                                                 const tl_shape *b);
/* "[2, 3]"; "[]" for a scalar. Gives `out` back. */
TL_API const char *tl_shape_text(char out[TL_SHAPE_TEXT], const tl_shape *shape);
/* Row-major strides, in elements. */
TL_API void tl_shape_strides(int64_t strides[TL_MAX_RANK], const tl_shape *shape);
/* -1 is the last axis. An axis outside the rank is TL_EINVAL; `what` begins the message. */
TL_API TL_NODISCARD tl_status tl_axis_check(int *out, int64_t axis, int rank, const char *what);

TL_END

#endif
