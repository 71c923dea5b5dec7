/* Between the files of the product's driver: gemm.c (batches, entry points), gemm_cut.c (how one
 * product is cut) and gemm_product.c (its packing and tasks). */
#ifndef TLI_CPU_GEMM_IMPL_H
#define TLI_CPU_GEMM_IMPL_H

#include "cpu/gemm.h"

/* What a task should have, in multiply-adds of floats: some microseconds, where handing one to
 * another thread costs a few tenths of one. What has less is done by the calling thread alone. */
#define TLI_GEMM_TASK_WORK 2.0e5

/* What an element of c takes beside its sum: a tile starts and ends, c is written, and rounded
 * where it is narrower. A guess at its order: it decides how many tasks shallow products have, no
 * more. */
#define TLI_GEMM_END_WORK 8.0

typedef enum tli_gemm_mode {
    TLI_GEMM_TILES,
    TLI_GEMM_ROW,    /* c is one row, and b's columns lie side by side */
    TLI_GEMM_COLUMN, /* c is one column, and a's rows lie side by side: the same turned around */
    TLI_GEMM_DOTS,   /* few elements of c, and both operands are side by side in depth */
    TLI_GEMM_ROWS,   /* rows of a are read where they are, several at a time */
    TLI_GEMM_SMALL,  /* so little that nothing is cut, and nothing packed beside b */
} tli_gemm_mode;

typedef enum tli_gemm_source {
    TLI_GEMM_DIRECT, /* read where it is */
    TLI_GEMM_OWN,    /* packed by the task that reads it */
    TLI_GEMM_SHARED, /* packed before the tasks start, or long before */
} tli_gemm_source;

typedef struct product {
    const tli_gemm *g; /* shapes, strides and types of a and b; bias and activation */
    const tli_gemm_kernels *k;
    int64_t batch; /* its number, for pack functions */
    const void *a, *b, *residual;
    void *c, *pre;
    tl_dtype c_type;
    int64_t c_row;
    int64_t k0, depth; /* the part of the depth that is summed up here */
    bool accumulate;
    bool finish; /* the sums still need the epilogue */
    bool whole;  /* one thread does all of it, beside others that do such products */

    /* the cut */
    tli_gemm_mode mode;
    tli_gemm_source a_from, b_from;
    int64_t mb, nb, kb;
} product;

/* Panels of a part of an operand: lanes first .. first + count - 1, depth k0 .. k1 - 1, in blocks
 * of kb: of each block all panels, then the next block. */
typedef struct panels {
    char *data;
    int64_t first, count, k0, k1;
} panels;

static inline const void *tli_gemm_at(const void *base, tl_dtype type, int64_t index)
{
    return base ? (const char *)base + index * (int64_t)tl_dtype_size(type) : NULL;
}

static inline void *tli_gemm_at_out(void *base, tl_dtype type, int64_t index)
{
    return base ? (char *)base + index * (int64_t)tl_dtype_size(type) : NULL;
}

/* All of a product of this depth, whose multiply-adds take `weight` times as long as floats'. */
static inline double tli_gemm_work(const tli_gemm *g, int64_t depth, double weight)
{
    return (double)g->m * (double)g->n * ((double)depth * weight + TLI_GEMM_END_WORK);
}

/* Floats of a small product's b that are packed: 16 KiB on the stack, half of a first-level cache
 * of 32 KiB; and rows of a tile, of which none is higher than 8. */
enum { TLI_GEMM_SMALL_FLOATS = 4096, TLI_GEMM_SMALL_ROWS = 16 };

/* Whether b may be in panels. */
static inline bool tli_gemm_uses_panels(const product *p)
{
    return p->mode == TLI_GEMM_TILES || p->mode == TLI_GEMM_ROWS;
}

/* The depth of a block of panels: about kc, and nearly the same for all blocks of a product. */
int64_t tli_gemm_block_depth(const tli_gemm_kernels *k, int64_t depth);
/* Multiply-adds of floats that take the time of one on these kernels' numbers. */
double tli_gemm_weight(const tli_gemm_kernels *k);
/* Whether a product does best with the kernels' `in_rows`. */
bool tli_gemm_in_rows(const tli_gemm *g, const tli_gemm_kernels *k);
void tli_gemm_cut(product *p);
/* After the cut: whether panels of all of b are made, in blocks of the whole depth. */
bool tli_gemm_makes_panels_of_b(const product *p);
TL_NODISCARD tl_status tli_gemm_run_product(tl_pool *pool, const product *p);
/* Fills both; one without lanes is left alone. */
TL_NODISCARD tl_status tli_gemm_pack_panels(tl_pool *pool, const product *p, const panels *a,
                                            const panels *b);
/* For tests: other limits for the parts whose panels are packed together; 0 for the usual ones. */
void tli_gemm_limit_parts(int64_t side, int64_t bytes);

#endif
