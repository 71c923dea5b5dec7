/* Matrix products: c = act(alpha * a * b [+ c] + bias) + residual, for every stride, type and
 * batch.
 *
 *     const tli_gemm g = {
 *         .m = rows, .n = units, .k = features, .alpha = 1,
 *         .a_type = TL_F32, .b_type = TL_F32, .c_type = TL_F32,
 *         .a = x, .a_row = features, .a_col = 1,
 *         .b = w, .b_row = units, .b_col = 1, // {1, features} is the transpose
 *         .c = y, .c_row = units,
 *         .bias = bias, .activation = TLI_ACT_GELU,
 *     };
 *     TL_TRY(tli_gemm_run(pool, isa, &g));
 *
 * Sums are float32, or float64 when all three matrices are; bfloat16 and float16 are rounded once,
 * when c is stored. How the work is cut, and in which order the parts of a sum are added, follows
 * from the shape alone: the bits are the same for every number of threads. (They may differ between
 * instruction sets, and between a weight that was packed before and one that was not.)
 *
 * Ownership: all memory is the caller's. c, residual and pre_activation may not overlap a or b; the
 * residual may be c itself, at the same place.
 *
 * Thread word: free-threaded. */
#ifndef TLI_CPU_GEMM_H
#define TLI_CPU_GEMM_H

#include <tilth/base/pool.h>
#include <tilth/core/dtype.h>

#include "base/inner/isa.h"

enum { TLI_GEMM_BATCH_RANK = 6 };

typedef enum tli_activation {
    TLI_ACT_NONE,
    TLI_ACT_RELU,
    TLI_ACT_RELU6,
    TLI_ACT_GELU,      /* x * Phi(x) */
    TLI_ACT_GELU_TANH, /* its approximation through tanh */
    TLI_ACT_SILU,
    TLI_ACT_TANH,
    TLI_ACT_SIGMOID,
    TLI_ACT_COUNT
} tli_activation;

/* Fills panels of an operand that is not a matrix in memory, such as the patches of an image.
 *
 * `first` and `count` are rows of a, or columns of b: `first` is a multiple of the panel's width
 * (mr or nr of the kernels), and `count` is such a multiple too except at the end of the matrix.
 * The panels lie behind each other in dst, tli_gemm_panel_bytes() apart; what is in a panel beyond
 * `count`, and in depth beyond `depth`, must be zero. k0 is a multiple of kr. `batch` counts the
 * batch dims in row-major order. Called from several threads at once. */
typedef tl_status tli_gemm_pack_fn(const void *payload, void *dst, int64_t batch, int64_t first,
                                   int64_t count, int64_t k0, int64_t depth);

/* Finds rows of an a that lies in pieces: rows[(t - first_piece) * mr + i] is where piece t of row
 * first + i starts, for `count` <= mr rows and `pieces` pieces from `first_piece` on. All that it
 * names are of one length, of floats side by side. Called from several threads at once. */
typedef void tli_gemm_rows_fn(const void *payload, const void **rows, int mr, int64_t batch,
                              int64_t first, int64_t count, int64_t first_piece, int64_t pieces);

typedef struct tli_gemm {
    int64_t m, n, k; /* c is m x n; any of them may be 0 */
    /* Each F32, BF16 or F16, in any mixture, or all three F64. */
    tl_dtype a_type, b_type, c_type;

    /* Strides count elements; any value will do, 0 and negative ones too. */
    const void *a;
    int64_t a_row, a_col;
    const void *b;
    int64_t b_row, b_col;
    void *c;
    int64_t c_row; /* columns of c lie side by side */

    /* (optional) in place of the pointers a and b; the types are those that the operand would have
     * in memory, and choose the kernels. */
    tli_gemm_pack_fn *pack_a, *pack_b;
    const void *pack_a_payload, *pack_b_payload;
    /* (optional, F32 alone) in place of a: rows in this many pieces of k / pieces floats, which are
     * read where they are. What packs b then packs panels for the kernels' `in_rows`. */
    tli_gemm_rows_fn *rows_a;
    const void *rows_a_payload;
    int64_t pieces;
    /* Whether the product is of the kernels' `turned`, for which the pack functions then pack. */
    bool turned;
    /* (optional) in place of b: what tli_gemm_pack_b made for this isa, a_type, b_type, k and n.
     * Shared by all batches. */
    const void *packed_b;

    /* Outer dims; a stride of 0 in a or b broadcasts. c's strides must keep its matrices apart. */
    int batch_rank;
    int64_t batch[TLI_GEMM_BATCH_RANK];
    int64_t a_batch[TLI_GEMM_BATCH_RANK], b_batch[TLI_GEMM_BATCH_RANK];
    int64_t c_batch[TLI_GEMM_BATCH_RANK];

    double alpha;    /* 1 for a plain product; 0 still reads a and b */
    bool accumulate; /* what c holds is added, before bias and activation */

    /* What happens to a sum before it is stored; all optional. */
    const void *bias; /* n values, shared by all batches */
    tl_dtype bias_type;
    tli_activation activation;
    const void *residual; /* (m, n), added after the activation */
    tl_dtype residual_type;
    int64_t residual_row, residual_batch[TLI_GEMM_BATCH_RANK];
    void *pre_activation; /* (m, n), written: the sum with bias, before the activation */
    tl_dtype pre_type;
    int64_t pre_row, pre_batch[TLI_GEMM_BATCH_RANK];
    bool slope; /* of TLI_ACT_GELU_TANH at that sum, which is written in its place */
} tli_gemm;

/* Fails with TL_ENOMEM when there is no memory to pack into, TL_EINVAL for a mixture of types that
 * is not listed above, or as a pack function does. */
TL_NODISCARD tl_status tli_gemm_run(tl_pool *pool, tli_isa isa, const tli_gemm *g);

/* A weight packed once, for many products: its b, b_type, b_row, b_col (or pack_b), k, n and a_type
 * are read. `dst` has tli_gemm_packed_b_bytes() bytes, aligned to 64. */
size_t tli_gemm_packed_b_bytes(tli_isa isa, tl_dtype a_type, tl_dtype b_type, int64_t k, int64_t n);
TL_NODISCARD tl_status tli_gemm_pack_b(void *dst, tl_pool *pool, tli_isa isa, const tli_gemm *g);

/* Whether a product packs b, and has the same bits when that was done before. */
bool tli_gemm_packs_b(tli_isa isa, const tli_gemm *g);

/* --- kernels ---------------------------------------------------------------------------------- */

/* What the multiply-add units work on. */
typedef enum tli_gemm_kind {
    TLI_GEMM_F32,
    TLI_GEMM_BF16,
    TLI_GEMM_F64,
    TLI_GEMM_KINDS
} tli_gemm_kind;

/* A block of sums on their way into c. All pointers are those of the block's first element; sums
 * are float, or double for F64 kernels. */
typedef struct tli_gemm_epilogue {
    int64_t rows, cols;
    const void *sums; /* may be c itself where c has the type of the sums */
    int64_t sums_row;
    void *c;
    int64_t c_row;
    tl_dtype c_type;
    const void *bias, *residual; /* NULL for none */
    tl_dtype bias_type, residual_type;
    int64_t residual_row;
    tli_activation activation;
    void *pre;
    tl_dtype pre_type;
    int64_t pre_row;
    bool slope; /* gelu_tanh's, in `pre` */
} tli_gemm_epilogue;

/* The pieces of a product, for kernels that hold tiles of their own (attention).
 *
 * A panel is mr rows of a (or nr columns of b) over some depth, laid out as the tile kernel reads
 * it. For F32 and F64 kernels that is element (i, p) at [p * mr + i]: a matrix of strides
 * {1, mr}, so `strided` takes a panel as well. For BF16 it is as the instructions take it: blocks
 * of 2 by 4 (BFMMLA), whole tile registers (AMX).
 *
 * Depth may be any number; a panel has room for it rounded up to kr, filled with zeros. */
typedef struct tli_gemm_kernels {
    tli_gemm_kind kind;
    int mr, nr, kr;
    double weight; /* multiply-adds of floats that take the time of one of these numbers */
    int near;      /* bytes of b that every task may read: faster kernels read faster */
    int mc, kc;    /* rows and depth of a block of a that stays in the second-level cache */
    /* How many tasks may pack the same lanes of a, or of b, each for itself; 0 is 1. More where
     * packing is faster than reading what another core has packed. */
    int repacks_a, repacks_b;
    /* Tiles follow each other along rows of c: a panel of a stays near while those of b pass. */
    bool along_rows;
    int packs_from;    /* columns of c for which packing rows of a that lie in memory pays */
    size_t element;    /* bytes of one in a panel */
    tl_dtype sum_type; /* F32 or F64 */

    /* Packs a matrix of `count` rows of a (columns of b), `lane` elements apart, whose depth steps
     * by `step` elements, into as many panels as it takes. */
    void (*pack_a)(void *dst, const void *src, tl_dtype type, int64_t lane, int64_t step,
                   int64_t count, int64_t depth);
    void (*pack_b)(void *dst, const void *src, tl_dtype type, int64_t lane, int64_t step,
                   int64_t count, int64_t depth);
    /* One panel from `count` <= mr (nr) rows that lie anywhere, each `depth` elements side by side;
     * NULL is a row of zeros. Panels may be filled in pieces: a piece that starts at depth p (a
     * multiple of kr) belongs at dst + p * mr (nr) * element. */
    void (*gather_a)(void *dst, const void *const *rows, int count, tl_dtype type, int64_t depth);
    void (*gather_b)(void *dst, const void *const *rows, int count, tl_dtype type, int64_t depth);
    /* (NULL where there is none, or packing is no slower) One panel of a, or of b, from `depth`
     * steps that lie anywhere: step p is mr (nr) lanes side by side, `offset` bytes behind
     * steps[p]; NULL is zeros. */
    void (*gather_steps_a)(void *dst, const void *const *steps, size_t offset, int64_t depth);
    void (*gather_steps_b)(void *dst, const void *const *steps, size_t offset, int64_t depth);

    /* (NULL where there is nothing to do) What a thread calls before the first of some calls of
     * `tile`, and after the last one: registers of tiles have to be set up. Both are cheap beside
     * some tiles; nothing between them may call another product. */
    void (*begin)(void);
    void (*end)(void);
    /* c = alpha * a * b, or += with `accumulate`, for one tile of packed panels; rows <= mr,
     * cols <= nr; c is of sum_type. Nothing beyond rows and cols of c is touched. */
    void (*tile)(int rows, int cols, int64_t depth, const void *a, const void *b, void *c,
                 int64_t c_row, double alpha, bool accumulate);
    /* (NULL where a bias is added apart) What `tile` does to a c of F32 where a sum ends, with an
     * alpha of 1: `bias` has nr floats. */
    void (*tile_biased)(int rows, int cols, int64_t depth, const void *a, const void *b, float *c,
                        int64_t c_row, bool accumulate, const float *bias);
    /* (NULL where c is rounded apart) The end of a sum: alpha * a * b + sums + bias, rounded to a c
     * of BF16. `sums` is what the depth before gave, `bias` has nr floats; NULL: none. */
    void (*tile_rounded)(int rows, int cols, int64_t depth, const void *a, const void *b,
                         const float *sums, int64_t sums_row, const float *bias, void *c,
                         int64_t c_row, double alpha);
    /* (NULL for BF16) What `tile` does, on matrices of the kernels' type in memory: a of any
     * strides, columns of b side by side. Reads b up to cols rounded up to `vector`. */
    void (*strided)(int rows, int cols, int64_t depth, const void *a, int64_t a_row, int64_t a_col,
                    const void *b, int64_t b_row, void *c, int64_t c_row, double alpha,
                    bool accumulate);
    /* (NULL for BF16) The same for one row of c, any number of columns; reads nothing beyond them.
     */
    void (*row)(int64_t cols, int64_t depth, const void *a, int64_t a_col, const void *b,
                int64_t b_row, void *c, double alpha, bool accumulate);
    /* (NULL for BF16) The same for rows of a and columns of b that are each side by side in depth,
     * of any number: c[i][j] = alpha * sum_p a[i * a_row + p] * b[j * b_col + p] (+ c). */
    void (*dots)(int64_t rows, int64_t cols, int64_t depth, const void *a, int64_t a_row,
                 const void *b, int64_t b_col, void *c, int64_t c_row, double alpha,
                 bool accumulate);
    /* (only in `in_rows`) The same for rows of a that lie anywhere, in pieces: piece t of row i
     * starts at a[t * mr + i], and has `depth` elements. All mr rows must be there to read, though
     * `rows` of them are stored. b is as for `strided`. */
    void (*rows)(int rows, int cols, int64_t pieces, int64_t depth, const void *const *a,
                 const void *b, int64_t b_row, void *c, int64_t c_row, double alpha,
                 bool accumulate);
    /* (F32 alone, else NULL) Kernels that read a in this way; their tiles have other sizes, and
     * they have neither panels of a nor the functions above. */
    const struct tli_gemm_kernels *in_rows;
    /* (NULL where there are none) The same with tiles as high as these are wide, for numbers of
     * rows and columns that fill them better. */
    const struct tli_gemm_kernels *turned;
    int vector; /* elements in a vector */

    /* sums -> bias, activation, residual -> c. */
    void (*epilogue)(const tli_gemm_epilogue *e);
    /* to[i] = from[i], converted; either type any of F32, BF16, F16 (F64 only to F64). */
    void (*convert)(void *to, tl_dtype to_type, const void *from, tl_dtype from_type, int64_t n);

    /* Multiplies and adds in registers alone, `rounds` times; returns the operations done (a fused
     * multiply-add counts 2 a lane). The time it takes gives the chip's limit. */
    int64_t (*peak)(int64_t rounds);
} tli_gemm_kernels;

/* Bytes behind a panel of a that a tile may call for, ahead of the next panel: memory there should
 * be in use. */
enum { TLI_GEMM_READ_AHEAD = 2048 };

/* Never NULL: an instruction set without kernels for a kind uses wider ones (F32 for BF16). */
const tli_gemm_kernels *tli_gemm_kernels_of(tli_isa isa, tli_gemm_kind kind);
/* The kind in which these types are multiplied. */
tli_gemm_kind tli_gemm_kind_of(tli_isa isa, tl_dtype a_type, tl_dtype b_type);

/* Bytes of a panel of this width (mr or nr) and depth. */
static inline size_t tli_gemm_panel_bytes(const tli_gemm_kernels *k, int width, int64_t depth)
{
    int64_t padded = (depth + k->kr - 1) / k->kr * k->kr;
    return (size_t)(padded * width) * k->element;
}

#endif
