/* Lists of small pieces of work as one kernel: on a GPU, pieces that take a microsecond each wait
 * for each other longer than they run. What is put into a list is noted here as well; where it is
 * small, and kernels of texts alone, the texts become functions of one kernel that all processors
 * run at once, with barriers where a piece needs what another one has written.
 *
 *     tli_whole_call(w, call);                       // whose memory the next pieces use
 *     tli_whole_work(w, &work, &args, sizeof args);
 *     tli_whole_issued(w);                           // nothing noted before: it is no such list
 *
 * The functions are those of the single kernels, and so are the bits of what they compute.
 *
 * Ownership: texts of works and walks of nests are borrowed until the list is complete.
 * Thread word: one thread at a time. */
#ifndef TILTH_CUDA_WHOLE_H
#define TILTH_CUDA_WHOLE_H

#include "cuda/kernels.h"
#include <tilth/sys/nest/gpu.h>

typedef struct tli_whole tli_whole;

/* `processors`: of the GPU, which run a block each. */
TL_NODISCARD tl_status tli_whole_new(tli_whole **out, int processors);
void tli_whole_free(tli_whole **w);

/* What is noted from now on reads and writes memory of this call. */
void tli_whole_call(tli_whole *w, const tl_node *call);
/* Memory beside. */
void tli_whole_reads(tli_whole *w, const void *at, size_t bytes);
void tli_whole_writes(tli_whole *w, const void *at, size_t bytes);

void tli_whole_work(tli_whole *w, const tli_cuda_work *work, const void *args, size_t bytes);
void tli_whole_nest(tli_whole *w, const tl_gpu_walk *walk, void *const *addresses, int count);
/* `from` NULL: both bytes of `pattern` again and again. Bytes that are noted here are memory of the
 * device. */
void tli_whole_move(tli_whole *w, void *to, const void *from, unsigned pattern, size_t bytes);
/* A piece of work was put into the list. */
void tli_whole_issued(tli_whole *w);

/* Whether the list, now complete, is worth a kernel of its own, which is made later. */
bool tli_whole_is_good(const tli_whole *w);
/* There was no memory to note it in. */
bool tli_whole_failed(const tli_whole *w);
/* The kernel `whole`. */
TL_NODISCARD tl_status tli_whole_print(const tli_whole *w, tl_str *out);
/* Compiles it, and then puts it into the queue. */
TL_NODISCARD tl_status tli_whole_make(tli_whole *w, tli_cuda *d, tl_queue *q);
/* With a ticket. */
TL_NODISCARD tl_status tli_whole_run(tli_whole *w, tl_queue *q);

#endif
