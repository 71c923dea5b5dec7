/* Tensors from outside that are not all there: a run has what it needs of them brought to it.
 *
 * Processes that share weights out have parts of them each. A run reads a weight in a few of its
 * calls: once forward, and again backward. So parts are brought before the call that reads them
 * first, and dropped behind one after which they are not needed for a while: where two others come
 * before they are read again. What is brought, and in which order, follows from the program alone,
 * so processes that run the same program bring the same together.
 *
 *     const tl_early_part parts[] = {{weights, 0, 5000}, {weights, 5000, 9632}};
 *     const tl_need need = {parts, 2, .bring = gather, .drop = release};
 *     TL_TRY(tl_program_set_need(p, &need));
 *     TL_TRY(tl_program_run(p, c, &in, &out));
 *     TL_TRY(tl_program_set_need(p, NULL));
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_GRAPH_NEED_H
#define TILTH_GRAPH_NEED_H

#include <tilth/sys/graph/early.h>

TL_BEGIN

typedef struct tl_need {
    const tl_early_part *parts; /* what is in none of them is there */
    int64_t count;
    tl_status (*bring)(void *self, int64_t part);
    void (*drop)(void *self, int64_t part); /* of what was brought */
    void *self;
} tl_need;

/* Of the runs that follow, until it is set again; NULL: all is there. What it points to is
 * borrowed. Where the host does not compute, and for lanes that stop at collectives, it must not be
 * set. A failure leaves none set, and a run that fails may have brought what it does not drop. */
TL_API TL_NODISCARD tl_status tl_program_set_need(tl_program *p, const tl_need *need);
/* What the next run brings, as a number that is not 0: that of another program is the same where it
 * brings the same parts in the same order. 0: nothing is set. */
TL_API uint64_t tl_program_need_order(const tl_program *p);

TL_END

#endif
