/* Which memory calls of a list read and write: what one needs of another.
 *
 * Ownership: whoever has it frees it. Thread word: one thread at a time. */
#ifndef TILTH_CUDA_REACH_H
#define TILTH_CUDA_REACH_H

#include <tilth/sys/core/backend.h>

/* [from, to), of the call with this number. */
typedef struct tli_reach {
    uintptr_t from, to;
    int call;
    bool written;
} tli_reach;
typedef struct tli_reaches {
    tli_reach *items;
    int64_t count, capacity;
    bool failed; /* there was no memory for all */
} tli_reaches;

void tli_reach_add(tli_reaches *to, int call, const void *at, size_t bytes, bool written);
/* All tensors of the call. */
void tli_reach_call(tli_reaches *to, int number, const tl_node *call);
/* Whether one of the two writes where the other is. */
static inline bool tli_reach_meets(const tli_reach *a, const tli_reach *b)
{
    return (a->written || b->written) && a->from < b->to && b->from < a->to;
}

#endif
