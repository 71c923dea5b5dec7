/* Private to train: tensors that are summed up in steps and must not hold what a step that came to
 * nothing has added: metrics, and running statistics where several batches make a step.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_TRAIN_GUARD_H
#define TLI_TRAIN_GUARD_H

#include <tilth/core/ctx.h>
#include <tilth/core/tensors.h>

/* bytes from which on a sum of lanes is worth a call of its own: it goes where it lies */
enum { TLI_LARGE_SUM = 65536 };

typedef struct tli_guarded {
    tl_tensor *live; /* borrowed */
    tl_tensor *kept; /* as it was before the step */
    bool moves;      /* batches move it; else they add to it */
    bool here;       /* a small sum, where the host computes: not worth ops of a program */
} tli_guarded;
typedef struct tli_guard {
    tli_guarded *items;
    int64_t count, capacity;
} tli_guard;

void tli_guard_deinit(tli_guard *g);
TL_NODISCARD tl_status tli_guard_add(tli_guard *g, tl_engine *engine, tl_tensor *live, bool moves);
/* Sums, such as the states of metrics. */
TL_NODISCARD tl_status tli_guard_add_all(tli_guard *g, tl_engine *engine, const tl_tensors *live);

/* Before and after a step; both only call ops, and may be captured. The second puts back what was
 * kept when `finite`, a bool scalar, is false. */
void tli_guard_keep(const tli_guard *g, tl_ctx *c);
void tli_guard_settle(const tli_guard *g, tl_ctx *c, tl_tensor *finite);
/* The same for steps of several lanes (lanes.h), each of which starts anew: sums at 0, what moves
 * where it stood before the step. After it, `live` is the sum over the lanes of what they have
 * added, or of how far they have moved it: the first is added, the mean of the second gone.
 * `finite` may be NULL: it is. */
void tli_guard_keep_for_lanes(const tli_guard *g, tl_ctx *c);
void tli_guard_settle_lanes(const tli_guard *g, tl_ctx *c, int64_t lanes, tl_tensor *finite);
/* The same at once, where the host computes; the second behind tli_guard_settle_lanes, which leaves
 * the small sums to it. */
void tli_guard_keep_here(const tli_guard *g);
TL_NODISCARD tl_status tli_guard_settle_here(const tli_guard *g, bool finite);
/* What was kept is as it should be, though a step that was to keep something else was left
 * undone. */
void tli_guard_accept(const tli_guard *g);
/* Puts back what was kept. */
void tli_guard_restore(const tli_guard *g, tl_ctx *c);

#endif
