/* Loop nests on a GPU: how they are walked there, and the text of their kernels.
 *
 *     tl_gpu_walk *w;
 *     TL_TRY(tl_gpu_walk_new(&w, arena, &nest));       // TL_EUNSUPPORTED: compute it otherwise
 *     tl_gpu_print_head(&text);
 *     tl_gpu_print(&text, w, "nest_0", false);         // kernels nest_0_0 and perhaps nest_0_1
 *
 * Threads work in groups, a warp or a block, which share nothing with each other. A nest without
 * reductions is walked point by point; one with reductions along rows has a group for each row,
 * whose threads keep their elements in registers from stage to stage; reductions over outer axes
 * are made in pieces, which a second kernel brings together.
 *
 * A kernel is written as regions that each thread of a group runs, with barriers between them. The
 * same text is CUDA C and, behind another prelude, plain C: there a region is a loop over the
 * threads, and a test runs it on the host with the bits that a GPU must give.
 *
 * Everything follows from sizes alone, never from how large the GPU is, and every sum follows one
 * tree: results have the same bits everywhere.
 *
 * Ownership: in the arena it was made in; attributes and notes of terms are borrowed from the nest.
 * Thread word: immutable once made. */
#ifndef TILTH_NEST_GPU_H
#define TILTH_NEST_GPU_H

#include <tilth/sys/nest/plan.h>

TL_BEGIN

typedef struct tli_gpu_plan tli_gpu_plan;

typedef struct tl_gpu_phase {
    int64_t groups; /* they may run side by side */
    int threads;    /* of a group: 32, or a block of several warps */
} tl_gpu_phase;

typedef struct tl_gpu_walk {
    tl_nest_walk walk;
    int phase_count;
    tl_gpu_phase phases[TL_NEST_PHASES];
    const tli_gpu_plan *plan;
} tl_gpu_walk;

TL_API TL_NODISCARD tl_status tl_gpu_walk_new(tl_gpu_walk **out, tl_arena *arena,
                                              const tl_nest *nest);
/* Whether one nest in place of two that need nothing from each other is walked as well. */
TL_API bool tl_gpu_walk_as_good(const tl_gpu_walk *both, const tl_gpu_walk *a,
                                const tl_gpu_walk *b);

/* What a file of kernels begins with. */
TL_API void tl_gpu_print_head(tl_str *out);
/* A kernel NAME_0, NAME_1 for each phase. Its parameters are the addresses of those buffers that
 * tl_gpu_uses, in order, and of the scratch memory. `on_host`: as plain C, with a tl_nest_fn NAME
 * around them. */
TL_API void tl_gpu_print(tl_str *out, const tl_gpu_walk *walk, const char *name, bool on_host);
TL_API bool tl_gpu_uses(const tl_gpu_walk *walk, int buffer);
/* Adds a text of kernels for a GPU without what they do not need of its head. Texts without that
 * head are added as they are. */
TL_API TL_NODISCARD tl_status tl_gpu_prune(tl_str *out, const char *text);

TL_END

#endif
