/* Private to nest: what a plan for a GPU consists of. Made by plan_gpu.c, printed by print_gpu.c.
 *
 * Thread word: immutable once made. */
#ifndef TLI_NEST_GPU_H
#define TLI_NEST_GPU_H

#include <tilth/sys/nest/gpu.h>

#include "nest/inner/schedule.h"

typedef enum tli_gpu_form {
    TLI_GPU_FLAT,   /* no reductions: threads take points as they come */
    TLI_GPU_ROWS,   /* reductions along rows: a group has a row, and walks some reduced points */
    TLI_GPU_COLUMNS /* reductions over outer axes: threads have columns, and add up their points */
} tli_gpu_form;

/* The line between what tl_gpu_print_head prints and the kernels. */
#define TLI_GPU_HEAD_END "\n/* kernels */\n"

struct tli_gpu_plan {
    const tli_schedule *s;
    tli_gpu_form form;
    bool wide_index; /* offsets need 64 bits */
    /* Of the first phase. A thread has `each` elements of the row, or points where it is flat. */
    int threads;
    int64_t each;
    bool vectors;       /* FLAT, COLUMNS: they lie side by side, and come and go as one */
    int columns, lanes; /* COLUMNS: threads side by side along the row; and over reduced points */
    int64_t row_pieces, reduced_piece, reduced_pieces;
    bool whole; /* COLUMNS: sums are made in one piece, and `last` follows in the same kernel */
    /* Of the second one, which brings sums together and runs the section `last`. */
    int last_threads, last_lanes; /* threads that add up pieces of the same sums */
    int64_t last_each, last_pieces;
    size_t *sums_at; /* for each reduction: where its sums of pieces lie in scratch */
};

#endif
