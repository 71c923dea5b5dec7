/* Memory that a thread keeps between calls, for kernels that need room to pack into.
 *
 *     void *room;
 *     TL_TRY(tli_scratch(&room, TLI_SCRATCH_PACK, bytes));
 *
 * A slot holds one piece of memory, aligned to 64 bytes, that grows as asked for; what was in it is
 * lost when it grows. A slot is one user's at a time: a kernel that calls another one must not
 * count on a slot that the other uses.
 *
 * Ownership: the thread's. It is freed when the thread ends, and for the main thread when the
 * process does, or by tli_scratch_free. Thread word: free-threaded (each thread has its own). */
#ifndef TLI_CPU_SCRATCH_H
#define TLI_CPU_SCRATCH_H

#include <tilth/base/status.h>

typedef enum tli_scratch_slot {
    TLI_SCRATCH_PACK,   /* panels that a whole product shares */
    TLI_SCRATCH_TASK,   /* panels and sums of one task of a product */
    TLI_SCRATCH_SPLIT,  /* partial sums of a product that is cut in depth */
    TLI_SCRATCH_KERNEL, /* for the kernels that call a product */
    TLI_SCRATCH_PARTS,  /* for those that call such a kernel, for parts of their work */
    TLI_SCRATCH_SLOTS
} tli_scratch_slot;

/* `bytes` of this thread's slot; TL_ENOMEM when there is no memory. */
TL_NODISCARD tl_status tli_scratch(void **out, tli_scratch_slot slot, size_t bytes);
/* For assertions: whether these bytes lie in what the calling thread was given of one of its slots,
 * and asked for last. */
bool tli_scratch_holds(const void *memory, size_t bytes);
/* Gives this thread's memory back. */
void tli_scratch_free(void);

#endif
