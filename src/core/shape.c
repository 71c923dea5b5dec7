#include <tilth/core/shape.h>

#include <inttypes.h>
#include <stdio.h>

tl_shape tl_shape_of(int rank, const int64_t *dims)
{
    TL_ASSERT(rank >= 0 && rank <= TL_MAX_RANK);
    tl_shape s = {.rank = rank};
    for (int i = 0; i < rank; i++) s.dims[i] = dims[i];
    return s;
}

tl_status tl_shape_check(const tl_shape *shape, const char *what)
{
    if (shape->rank < 0 || shape->rank > TL_MAX_RANK)
        return TL_FAIL(TL_EINVAL, "%s: %d dimensions; at most %d are possible", what, shape->rank,
                       TL_MAX_RANK);
    int64_t count = 8; // the largest element's bytes: they must be countable too
    char text[TL_SHAPE_TEXT];
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dims[i] < 0)
            return TL_FAIL(TL_EINVAL, "%s: shape %s has a negative dimension", what,
                           tl_shape_text(text, shape));
        if (__builtin_mul_overflow(count, shape->dims[i] > 0 ? shape->dims[i] : 1, &count))
            return TL_FAIL(TL_ELIMIT, "%s: shape %s has too many elements", what,
                           tl_shape_text(text, shape));
    }
    return TL_OK;
}

int64_t tl_shape_count(const tl_shape *shape)
{
    TL_ASSERT(shape->rank >= 0 && shape->rank <= TL_MAX_RANK);
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++) count *= shape->dims[i];
    return count;
}

bool tl_shape_equal(const tl_shape *a, const tl_shape *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

tl_status tl_shape_broadcast(tl_shape *out, const tl_shape *a, const tl_shape *b)
{
    tl_shape s = {.rank = a->rank > b->rank ? a->rank : b->rank};
    TL_ASSERT(s.rank >= 0 && s.rank <= TL_MAX_RANK);
    for (int i = 1; i <= s.rank; i++) {
        int64_t x = i <= a->rank ? a->dims[a->rank - i] : 1;
        int64_t y = i <= b->rank ? b->dims[b->rank - i] : 1;
        if (x != y && x != 1 && y != 1) {
            char left[TL_SHAPE_TEXT], right[TL_SHAPE_TEXT];
            return TL_FAIL(TL_EINVAL,
                           "shapes %s and %s do not broadcast: %" PRId64 " meets %" PRId64,
                           tl_shape_text(left, a), tl_shape_text(right, b), x, y);
        }
        s.dims[s.rank - i] = x == 1 ? y : x;
    }
    *out = s;
    return TL_OK;
}

const char *tl_shape_text(char out[TL_SHAPE_TEXT], const tl_shape *shape)
{
    int length = 0, rank = shape->rank < TL_MAX_RANK ? shape->rank : TL_MAX_RANK;
    for (int i = 0; i < rank; i++)
        length += snprintf(out + length, (size_t)(TL_SHAPE_TEXT - length), "%s%" PRId64,
                           i ? ", " : "[", shape->dims[i]);
    snprintf(out + length, (size_t)(TL_SHAPE_TEXT - length), length ? "]" : "[]");
    return out;
}

void tl_shape_strides(int64_t strides[TL_MAX_RANK], const tl_shape *shape)
{
    int64_t step = 1;
    for (int i = shape->rank - 1; i >= 0; i--) {
        strides[i] = step;
        step *= shape->dims[i];
    }
    TL_ASSERT(step == tl_shape_count(shape)); // the outermost axis steps over all of the others
}

tl_status tl_axis_check(int *out, int64_t axis, int rank, const char *what)
{
    if (axis < -rank || axis >= rank)
        return TL_FAIL(TL_EINVAL, "%s: axis %" PRId64 " of a tensor with %d dimensions", what, axis,
                       rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    TL_ASSERT(*out >= 0 && *out < rank);
    return TL_OK;
}
