/* Parts of a run that somebody needs before its end: what a program adds to tensors from outside.
 *
 * A training step adds gradients to sums as its last calls, and other processes wait for these
 * sums. Where a sum is what tl_assign_add or tl_assign_sum adds a pack to (ops/pack.h), its
 * elements are known as soon as the packed tensors are. So such a run puts and adds them part by
 * part, each behind the last call that it needs, and tells of it; the calls at the end are left
 * out. Every element is computed as before, with the same bits.
 *
 *     const tl_early_part parts[] = {{sum, 5000, 9632}, {sum, 0, 5000}};
 *     TL_TRY(tl_program_set_early(p, &(tl_early){parts, 2, .there = begin_to_send}));
 *     TL_TRY(tl_program_run(p, c, &in, &out));
 *     TL_TRY(tl_program_set_early(p, NULL));
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_GRAPH_EARLY_H
#define TILTH_GRAPH_EARLY_H

#include <tilth/sys/graph/program.h>

TL_BEGIN

/* Elements from .. end - 1 of a tensor from outside, which has one axis. */
typedef struct tl_early_part {
    const tl_tensor *tensor;
    int64_t from, end;
} tl_early_part;

typedef struct tl_early {
    /* In the order in which they are told of. Those of a tensor cover it, the last elements
     * first. */
    const tl_early_part *parts;
    int64_t count;
    /* Parts before `count` of them have their elements, which the run does not touch any more.
     * Called behind every call of the run, until all parts were told of and beyond. Parts that need
     * the whole run are not told of. */
    tl_status (*there)(void *self, int64_t count);
    void *self;
} tl_early;

/* Of the runs that follow, until it is set again; NULL: they are told of at their end alone. What
 * it points to is borrowed. Ignored where the host does not compute, and where lanes stop at
 * collectives. A failure leaves none set. */
TL_API TL_NODISCARD tl_status tl_program_set_early(tl_program *p, const tl_early *early);

TL_END

#endif
