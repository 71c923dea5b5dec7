/* Elements moved from one place to another, with any strides on both sides.
 *
 *     tli_move m;
 *     tli_move_init(&m, &x->shape, tl_dtype_size(x->dtype), to, to_strides, from, x->strides);
 *     TL_TRY(tli_move_run(run->threads, &m));
 *
 * Axes are joined where both sides allow it. Runs without gaps are copied at once; where the source
 * runs along another axis than the target, tiles are transposed in registers.
 *
 * Thread word: free-threaded. */
#ifndef TLI_CPU_MOVE_H
#define TLI_CPU_MOVE_H

#include <tilth/sys/core/backend.h>

typedef struct tli_move {
    int rank;
    size_t size; /* of an element */
    int64_t dims[TL_MAX_RANK];
    int64_t to_step[TL_MAX_RANK], from_step[TL_MAX_RANK]; /* bytes */
    char *to;
    const char *from;
    bool empty;
} tli_move;

/* Strides are in elements and may be negative; the places do not overlap. */
void tli_move_init(tli_move *m, const tl_shape *shape, size_t size, void *to,
                   const int64_t *to_strides, const void *from, const int64_t *from_strides);
TL_NODISCARD tl_status tli_move_run(tl_pool *threads, const tli_move *m);

/* `count` elements of `size` bytes (1, 2, 4 or 8) like the one at `element`. */
TL_NODISCARD tl_status tli_fill(tl_pool *threads, void *to, const void *element, size_t size,
                                int64_t count);

#endif
