/* The funnel: every call of an op passes here. It checks the inputs, infers types and shapes, runs
 * the call unless the context captures, and records it when the context tapes or captures.
 *
 *     tl_tensor *tl_exp(tl_ctx *c, tl_tensor *x) { return tl_apply(c, TL_OP_exp, NULL, 1, &x); }
 *
 * Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_APPLY_H
#define TILTH_OPS_APPLY_H

#include <tilth/core/ctx.h>
#include <tilth/sys/core/op.h>
#include <tilth/sys/ops/apply.h>

TL_BEGIN

/* The op's only output; NULL when the context failed. `attr` is the op's described struct, or NULL
 * when it has none. Inputs may be NULL only after a failure. */
TL_API tl_tensor *tl_apply(tl_ctx *c, tl_op op, const void *attr, int inputs, tl_tensor *const *in);
/* All outputs, into `out`; they are set to NULL and false comes back when the context failed. */
TL_API bool tl_apply_all(tl_ctx *c, tl_op op, const void *attr, int inputs, tl_tensor *const *in,
                         tl_tensor **out);
/* TL_APPLY(c, add, NULL, a, b) */
#define TL_APPLY(c, op, attr, ...)                                                                 \
    tl_apply((c), TL_OP_##op, (attr), (int)TL_COUNT_OF_(tl_tensor *const, __VA_ARGS__),            \
             TL_ITEMS_(tl_tensor *const, __VA_ARGS__))

/* Runs recorded calls again, `first` to `last`, in order: tensors without elements get storage,
 * others are computed anew in place. */
TL_API TL_NODISCARD tl_status tl_replay(tl_ctx *c, const tl_node *first, const tl_node *last);

TL_END

#endif
