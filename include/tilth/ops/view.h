/* Ops that show elements in another shape, cut them out, or put them together.
 *
 *     tl_tensor *heads = tl_reshape(c, x, TL_SHAPE(batch, -1, 12, 64));
 *     tl_tensor *first = tl_take(c, x, 1, 0);                          // x[:, 0]
 *     tl_tensor *odd = tl_slice(c, x, -1, 1, TL_OPEN, 2);              // x[..., 1::2]
 *     tl_tensor *both = tl_concat(c, (tl_tensor *[]){a, b}, 2, -1);
 *     tl_tensor *wide = tl_pad(c, x, .before = {0, 1, 1}, .after = {0, 1, 1});
 *
 * Those of the first two sections are views: the result shares the storage and costs nothing, also
 * of views and with steps below 0. Axes below 0 count from the end.
 *
 * Precision: elements are moved, not computed.
 * Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_VIEW_H
#define TILTH_OPS_VIEW_H

#include <tilth/core/attrs.h>
#include <tilth/core/ctx.h>
#include <tilth/ops/reduce.h>

TL_BEGIN

/* --- another shape ---------------------------------------------------------------------------- */

/* One dimension may be -1: it is what the others leave. Copies only when no strides could show the
 * elements so. */
TL_API tl_tensor *tl_reshape(tl_ctx *c, tl_tensor *x, tl_shape shape);
/* Axis i of the result is axis perm[i] of x. */
TL_API tl_tensor *tl_transpose(tl_ctx *c, tl_tensor *x, const int64_t *perm, int count);
TL_API tl_tensor *tl_swap_axes(tl_ctx *c, tl_tensor *x, int64_t a, int64_t b);
/* Dimensions of 1 stretched, and new ones put in front, as in NumPy. */
TL_API tl_tensor *tl_broadcast_to(tl_ctx *c, tl_tensor *x, tl_shape shape);
/* A dimension of 1 that becomes axis `axis` of the result. */
TL_API tl_tensor *tl_expand_dims(tl_ctx *c, tl_tensor *x, int64_t axis);
/* Without the axes, which must be of 1; TL_ALL takes all those out that are. */
TL_API tl_tensor *tl_squeeze(tl_ctx *c, tl_tensor *x, tl_axes axes);
/* The elements in row-major order; the tensor itself when they are. */
TL_API tl_tensor *tl_contiguous(tl_ctx *c, tl_tensor *x);

/* --- parts ------------------------------------------------------------------------------------ */

/* start, start + step, ... up to but without `stop`, as Python's slices: places below 0 count from
 * the end, places outside stop at the ends, TL_OPEN is as far as the step leads. The step is not 0.
 * */
typedef struct tl_range {
    int64_t start, stop, step;
} tl_range;
#define TL_OPEN INT64_MIN
#define TL_WHOLE TL_INIT(TL_OPEN, TL_OPEN, 1)

TL_API tl_tensor *tl_slice(tl_ctx *c, tl_tensor *x, int64_t axis, int64_t start, int64_t stop,
                           int64_t step);
/* The first `count` axes at once: tl_slice_with(c, x, (const tl_range[]){TL_WHOLE, {0, 5, 1}}, 2).
 * */
TL_API tl_tensor *tl_slice_with(tl_ctx *c, tl_tensor *x, const tl_range *ranges, int count);
/* One place of an axis, which goes. An index below 0 counts from the end; outside is an error. */
TL_API tl_tensor *tl_take(tl_ctx *c, tl_tensor *x, int64_t axis, int64_t index);
/* The axes backwards. */
TL_API tl_tensor *tl_flip(tl_ctx *c, tl_tensor *x, tl_axes axes);
/* `count` parts of these sizes, which must add up to the axis. out[i] is NULL when the context
 * failed. */
TL_API void tl_split(tl_ctx *c, tl_tensor *x, int64_t axis, const int64_t *sizes, int64_t count,
                     tl_tensor **out);
/* `count` equal parts. */
TL_API void tl_split_even(tl_ctx *c, tl_tensor *x, int64_t axis, int64_t count, tl_tensor **out);

/* --- put together ----------------------------------------------------------------------------- */

/* One behind the other along an axis; all else must be alike. Types meet (tl_dtype_meet). */
TL_API tl_tensor *tl_concat(tl_ctx *c, tl_tensor *const *x, int count, int64_t axis);
/* Along a new axis, which becomes axis `axis` of the result. */
TL_API tl_tensor *tl_stack(tl_ctx *c, tl_tensor *const *x, int count, int64_t axis);
/* repeats[i] copies of axis i, one behind the other; `count` is the number of dimensions. */
TL_API tl_tensor *tl_tile(tl_ctx *c, tl_tensor *x, const int64_t *repeats, int count);
/* The reverse of a slice: x put into zeros of `shape`, place i of an axis at start + i * step.
 * Starts are not below 0. `count` is the number of dimensions. */
TL_API tl_tensor *tl_unslice(tl_ctx *c, tl_tensor *x, tl_shape shape, const int64_t *starts,
                             const int64_t *steps, int count);

typedef struct tl_pad_args {
    int64_t before[TL_MAX_RANK], after[TL_MAX_RANK]; /* how many places more, for each axis */
    double value;                                    /* of the new places, with TL_PAD_CONSTANT */
    tl_pad_mode mode; /* TL_PAD_REFLECT mirrors without repeating the edge: fewer places than the
                         axis has */
} tl_pad_args;
TL_API tl_tensor *tl_pad_with(tl_ctx *c, tl_tensor *x, tl_pad_args args);
/* tl_pad(c, x, .before = {0, 1}, .after = {0, 2}, .value = -1) */
#define tl_pad(c, x, ...) tl_pad_with((c), (x), TL_VALUE_(tl_pad_args, __VA_ARGS__))

TL_END

#endif
