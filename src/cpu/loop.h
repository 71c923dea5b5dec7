/* Loops over the elements of several tensors that broadcast to one shape.
 *
 *     tli_loop l;
 *     tli_loop_init(&l, &y->shape, 3, (const tl_tensor *[]){y, a, b});
 *     TL_TRY(tli_loop_run(run->threads, &l, add_row, NULL));
 *
 * Axes that lie behind each other in every tensor are joined, so that most loops are one row, and
 * the others have few long ones. The work is cut by sizes alone: results do not depend on the
 * threads.
 *
 * Thread word: free-threaded. */
#ifndef TLI_CPU_LOOP_H
#define TLI_CPU_LOOP_H

#include <tilth/sys/core/backend.h>

enum { TLI_LOOP_MOST = 5 };

/* Elements a task, of `n` in all: long runs keep the prefetching going, and there are tasks for
 * many threads all the same. LEAST floats are 64 KiB, whose sweep takes some microseconds where
 * handing a task to a thread takes tenths of one; MOST are 1 MiB, so that a slow thread holds the
 * others up by little; TASKS is two for each of 64 threads. All three trade starts against balance.
 */
static inline int64_t tli_loop_grain(int64_t n)
{
    enum { LEAST = 16384, MOST = 262144, TASKS = 128 };
    return n / TASKS < LEAST ? LEAST : n / TASKS > MOST ? MOST : n / TASKS;
}

typedef struct tli_loop {
    int operands, rank; /* rank of the axes around the rows */
    int64_t n, rows;    /* elements of a row; rows */
    int64_t dims[TL_MAX_RANK];
    char *data[TLI_LOOP_MOST];   /* first elements */
    size_t size[TLI_LOOP_MOST];  /* of an element */
    int64_t step[TLI_LOOP_MOST]; /* between elements of a row; 0: always the same one */
    int64_t strides[TLI_LOOP_MOST][TL_MAX_RANK]; /* between rows */
} tli_loop;

/* Every tensor broadcasts to `shape`. */
void tli_loop_init(tli_loop *l, const tl_shape *shape, int operands, const tl_tensor *const *t);

/* A piece of a row: `n` elements of each operand from data[i] on, step[i] elements apart. */
typedef tl_status tli_loop_fn(void *payload, char *const *data, const int64_t *step, int64_t n);
TL_NODISCARD tl_status tli_loop_run(tl_pool *threads, const tli_loop *l, tli_loop_fn *fn,
                                    void *payload);

#endif
