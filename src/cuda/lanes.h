/* Two lanes of a list of work: gradients of filters and averages are needed at the end of a step
 * alone, and small ones leave most of a GPU idle. So they, and what is made of them alone, are put
 * into a second stream, which runs beside the first; who needs what they write waits for it.
 *
 *     TL_TRY(tli_cuda_lanes_begin(q));                 // with the list
 *     TL_TRY(tli_cuda_lanes_call(q, call, NULL, 0));   // q->stream is that of its lane now
 *     ...
 *     TL_TRY(tli_cuda_lanes_called(q));
 *     TL_TRY(tli_cuda_lanes_end(q));                   // all is in the first lane again
 *
 * Each lane has scratch memory of its own. The order of calls that touch the same memory is that of
 * the list, so are their bits.
 *
 * Thread word: the thread that makes the list. */
#ifndef TILTH_CUDA_LANES_H
#define TILTH_CUDA_LANES_H

#include "cuda/device.h"
#include "cuda/kernels.h"
#include <tilth/sys/core/backend.h>

/* Whether a call, whatever was put in before it, is one for the second lane. */
bool tli_cuda_runs_beside(const tl_node *call);
TL_NODISCARD tl_status tli_cuda_lanes_begin(tli_cuda_queue *q);
/* `scratch` is memory that the call writes beside its tensors, or NULL. */
TL_NODISCARD tl_status tli_cuda_lanes_call(tli_cuda_queue *q, const tl_node *call,
                                           const void *scratch, size_t bytes);
TL_NODISCARD tl_status tli_cuda_lanes_called(tli_cuda_queue *q);
/* Something is put in that is no call, behind all that is there. */
TL_NODISCARD tl_status tli_cuda_lanes_other(tli_cuda_queue *q);
/* What is to be averaged by the call that is put in, a small one: it waits until somebody touches
 * its memory, or the list ends, and is one kernel with others then. */
TL_NODISCARD tl_status tli_cuda_lanes_average(tli_cuda_queue *q, const tli_average *row);
/* Whether or not what was put in is good. */
TL_NODISCARD tl_status tli_cuda_lanes_end(tli_cuda_queue *q);

/* Whether calls are put into the second lane now. */
bool tli_cuda_is_aside(const tli_cuda_queue *q);

/* --- what is made early -------------------------------------------------------------------------
 * Kernels of libraries want filters to lie otherwise. One that the list has not written so far is
 * turned beside what comes before it, once for all that want it. */
typedef enum tli_early {
    TLI_NOT_EARLY, /* there is no such place */
    TLI_TURNED,    /* it lies there already */
    TLI_TURN_NOW   /* put in what turns it, with the queue's stream, then tli_cuda_turned */
} tli_early;
TL_NODISCARD tl_status tli_cuda_turn(tli_cuda_queue *q, const void *from, size_t bytes,
                                     int64_t rows, int64_t columns, char **place, tli_early *how);
TL_NODISCARD tl_status tli_cuda_turned(tli_cuda_queue *q);

/* Gives back the second stream and its memory. */
void tli_cuda_lanes_free(tli_cuda_queue *q);

#endif
