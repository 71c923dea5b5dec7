/* Work of a queue that was left undone: something before it failed, and the failure was told and
 * forgotten. What such work was to write is known by its ticket.
 *
 * Thread word: free-threaded. */
#ifndef TLI_CORE_LOSSES_H
#define TLI_CORE_LOSSES_H

#include <tilth/sys/core/device.h>

typedef struct tli_losses tli_losses;

TL_NODISCARD tl_status tli_losses_new(tli_losses **out);
/* NULL is fine. */
void tli_losses_free(tli_losses **losses);
/* Waits for all work of the queue, and tells its failure. That is forgotten then, and what was left
 * undone is noted here. */
TL_NODISCARD tl_status tli_losses_take(tli_losses *l, tl_queue *q);
/* Whether the work of this ticket is among it; `*why` is the failure then (NULL: not asked for). */
bool tli_losses_find(tli_losses *l, uint64_t ticket, tl_error *why);

#endif
