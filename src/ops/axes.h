/* What public functions of ops check before they reach the funnel: axes, mostly.
 *
 * Thread word: one thread at a time for a context. */
#ifndef TLI_OPS_AXES_H
#define TLI_OPS_AXES_H

#include <tilth/core/attrs.h>
#include <tilth/core/ctx.h>

/* Describes tl_axis_attr. */
extern const tl_desc tli_axis_desc;

/* Keeps the failure that was just made, under the name of the function. Gives NULL. */
tl_tensor *tli_fail(tl_ctx *c, const char *name);
/* Whether the input is there and the context has not failed; a missing input is a failure. */
bool tli_there(tl_ctx *c, const tl_tensor *x, const char *name);
/* The axis counted from 0; false when the context failed. */
bool tli_axis(tl_ctx *c, int *out, const tl_tensor *x, int64_t axis, const char *name);
/* Axes from 0, increasing, none twice: the form that attributes have. NULL items are all axes. */
TL_NODISCARD tl_status tli_axes_straighten(int64_t out[TL_MAX_RANK], int64_t *count,
                                           const tl_shape *shape, tl_ints axes);

/* 16-bit floats as float32, others as they are: gradients of several steps round once, at the end.
 * */
tl_tensor *tli_widen(tl_ctx *c, tl_tensor *x);

#endif
