/* Private to train: tensors that are summed up in steps and must not hold what a step that came to
 * nothing has added: metrics, and running statistics where several batches make a step.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_TRAIN_GUARD_H
#define TLI_TRAIN_GUARD_H

#include <tilth/core/ctx.h>
#include <tilth/core/tensors.h>

typedef struct tli_guarded {
    tl_tensor *live; /* borrowed */
    tl_tensor *kept; /* as it was before the step */
} tli_guarded;
typedef struct tli_guard {
    tli_guarded *items;
    int64_t count, capacity;
} tli_guard;

void tli_guard_deinit(tli_guard *g);
TL_NODISCARD tl_status tli_guard_add(tli_guard *g, tl_engine *engine, tl_tensor *live);
TL_NODISCARD tl_status tli_guard_add_all(tli_guard *g, tl_engine *engine, const tl_tensors *live);

/* Before and after a step; both only call ops, and may be captured. The second puts back what was
 * kept when `finite`, a bool scalar, is false. */
void tli_guard_keep(const tli_guard *g, tl_ctx *c);
void tli_guard_settle(const tli_guard *g, tl_ctx *c, tl_tensor *finite);
/* What was kept is as it should be, though a step that was to keep something else was left
 * undone. */
void tli_guard_accept(const tli_guard *g);
/* Puts back what was kept. */
void tli_guard_restore(const tli_guard *g, tl_ctx *c);

#endif
