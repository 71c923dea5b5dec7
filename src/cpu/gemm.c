#include "cpu/gemm.h"

#include <string.h>
#include <tilth/base/integer.h>

#include "cpu/gemm_impl.h"
#include "cpu/scratch.h"

/* How a product passes. A batch is a list of products; small ones are spread over the threads
 * whole, large ones are cut. A product that is long and thin in depth is cut there (cut_in_depth);
 * any other is cut into tasks of mb x nb elements of c. A task goes through the depth in blocks of
 * kb; in each it goes through its columns in panels of nr, and for each of these through its rows
 * in panels of mr. So a panel of b stays in the first-level cache and the block of a in the second
 * one. Kernels whose tiles go along rows have it the other way round.
 *
 * Panels are packed before the tasks start when several tasks read them, by the task itself when it
 * is the only one, and not at all when they are read too seldom to be worth it. Rows of floats that
 * few columns read, as in shallow products and in convolutions of few results, are multiplied where
 * they are (TLI_GEMM_ROWS), and a product of less than a task goes straight to the tiles
 * (TLI_GEMM_SMALL).
 *
 * All of this follows from the shape, the strides and the types, never from the number of threads.
 */

/* --- kernels ---------------------------------------------------------------------------------- */

#define DECLARE(isa) extern const tli_gemm_kernels tli_gemm_kernels_##isa[TLI_GEMM_KINDS];
TLI_ISA_LIST(DECLARE)
#undef DECLARE

static const tli_gemm_kernels *const tables[TLI_ISA_COUNT] = {
#define TABLE(isa) [TLI_##isa] = tli_gemm_kernels_##isa,
    TLI_ISA_LIST(TABLE)
#undef TABLE
};

const tli_gemm_kernels *tli_gemm_kernels_of(tli_isa isa, tli_gemm_kind kind)
{
    const tli_gemm_kernels *k = &tables[isa][kind];
    TL_ASSERT((int)isa < TLI_ISA_COUNT && kind < TLI_GEMM_KINDS
              && tables[isa][TLI_GEMM_F32].mr > 0);
    return k->mr ? k : &tables[isa][TLI_GEMM_F32];
}

tli_gemm_kind tli_gemm_kind_of(tli_isa isa, tl_dtype a_type, tl_dtype b_type)
{
    if (a_type == TL_F64 && b_type == TL_F64) return TLI_GEMM_F64;
    if (a_type == TL_BF16 && b_type == TL_BF16)
        return tli_gemm_kernels_of(isa, TLI_GEMM_BF16)->kind;
    return TLI_GEMM_F32;
}

static bool is_wide(tl_dtype type)
{
    return type == TL_F64;
}

static tl_status check_types(const tli_gemm *g)
{
    const tl_dtype all[] = {
        g->a_type,
        g->b_type,
        g->c_type,
        g->bias ? g->bias_type : g->c_type,
        g->residual ? g->residual_type : g->c_type,
        g->pre_activation ? g->pre_type : g->c_type,
    };
    for (int64_t i = 0; i < TL_COUNT(all); i++)
        if (!tl_dtype_is_float(all[i]) || is_wide(all[i]) != is_wide(g->a_type))
            return TL_FAIL(
                TL_EINVAL,
                "a matrix product of %s and %s into %s meets %s: the types are float32, "
                "bfloat16 and float16 in any mixture, or float64 alone; convert one side",
                tl_dtype_name(g->a_type), tl_dtype_name(g->b_type), tl_dtype_name(g->c_type),
                tl_dtype_name(all[i]));
    return TL_OK;
}

/* --- one product of the batch ----------------------------------------------------------------- */

static int64_t batch_count(const tli_gemm *g)
{
    int64_t count = 1;
    for (int d = 0; d < g->batch_rank; d++) count *= g->batch[d];
    TL_ASSERT(g->batch_rank >= 0 && g->batch_rank <= TLI_GEMM_BATCH_RANK);
    return count;
}

/* Moves on to product number `index`. */
static void move_to(product *p, int64_t index)
{
    const tli_gemm *g = p->g;
    int64_t a = 0, b = 0, c = 0, residual = 0, pre = 0;
    for (int d = g->batch_rank - 1; d >= 0; d--) {
        const int64_t i = index % g->batch[d];
        index /= g->batch[d];
        a += i * g->a_batch[d];
        b += i * g->b_batch[d];
        c += i * g->c_batch[d];
        residual += i * g->residual_batch[d];
        pre += i * g->pre_batch[d];
    }
    TL_ASSERT(index == 0); // it was a product of the batch
    p->a = tli_gemm_at(g->a, g->a_type, a);
    p->b = tli_gemm_at(g->b, g->b_type, b);
    p->c = tli_gemm_at_out(g->c, g->c_type, c);
    p->residual = tli_gemm_at(g->residual, g->residual_type, residual);
    p->pre = tli_gemm_at_out(g->pre_activation, g->pre_type, pre);
}

static product product_of(const tli_gemm *g, const tli_gemm_kernels *k, int64_t index, bool whole)
{
    product p = {.g = g,
                 .k = k,
                 .batch = index,
                 .a = g->a,
                 .b = g->b,
                 .c = g->c,
                 .residual = g->residual,
                 .pre = g->pre_activation,
                 .c_type = g->c_type,
                 .c_row = g->c_row,
                 .depth = g->k,
                 .accumulate = g->accumulate,
                 .whole = whole};
    if (g->batch_rank > 0) move_to(&p, index);
    p.finish = g->bias || g->residual || g->pre_activation || g->activation != TLI_ACT_NONE
               || g->c_type != k->sum_type;
    tli_gemm_cut(&p);
    return p;
}

typedef struct batch_run {
    const tli_gemm *g;
    const tli_gemm_kernels *k;
} batch_run;

static tl_status run_some(int64_t begin, int64_t end, void *payload)
{
    const batch_run *r = payload;
    for (int64_t i = begin; i < end; i++) {
        product p = product_of(r->g, r->k, i, true);
        TL_TRY(tli_gemm_run_product(NULL, &p));
    }
    return TL_OK;
}

/* Whether the last row of a taller matrix is that of the batch's last one. */
static bool lies_below(const tli_gemm *g, int64_t row, int64_t batch_step)
{
    const int64_t batch = g->batch[g->batch_rank - 1];
    return g->m <= 0 || batch <= 1
           || (g->m - 1) * row + (batch - 1) * batch_step == (g->m * batch - 1) * row;
}

/* Matrices that share b and lie below each other are one taller matrix. */
static void merge_batches(tli_gemm *g)
{
    while (g->batch_rank > 0 && !g->pack_a && !g->pack_b && !g->rows_a) {
        const int d = g->batch_rank - 1;
        const bool merges = (g->packed_b || g->b_batch[d] == 0) && g->a_batch[d] == g->m * g->a_row
                            && g->c_batch[d] == g->m * g->c_row
                            && (!g->residual || g->residual_batch[d] == g->m * g->residual_row)
                            && (!g->pre_activation || g->pre_batch[d] == g->m * g->pre_row);
        if (!merges && g->batch[d] != 1) return;
        TL_ASSERT(lies_below(g, g->a_row, g->a_batch[d]) && lies_below(g, g->c_row, g->c_batch[d]));
        TL_ASSERT(!g->residual || lies_below(g, g->residual_row, g->residual_batch[d]));
        g->m *= g->batch[d];
        g->batch_rank--;
    }
}

bool tli_gemm_packs_b(tli_isa isa, const tli_gemm *wanted)
{
    tli_gemm g = *wanted;
    if (!tl_dtype_is_float(g.a_type) || !tl_dtype_is_float(g.b_type)) return false;
    if (is_wide(g.a_type) != is_wide(g.b_type)) return false;
    merge_batches(&g);
    const tli_gemm_kernels *k = tli_gemm_kernels_of(isa, tli_gemm_kind_of(isa, g.a_type, g.b_type));
    if (g.batch_rank > 0 || g.m <= 0 || g.n <= 0 || g.k <= 0 || tli_gemm_in_rows(&g, k))
        return false;
    const product p = product_of(&g, k, 0, false);
    return tli_gemm_makes_panels_of_b(&p);
}

tl_status tli_gemm_run(tl_pool *pool, tli_isa isa, const tli_gemm *wanted)
{
    TL_TRY(check_types(wanted));
    const tli_gemm *g = wanted;
    tli_gemm merged;
    if (g->batch_rank > 0) {
        merged = *wanted;
        merge_batches(&merged);
        g = &merged;
    }
    const int64_t count = batch_count(g);
    if (g->m <= 0 || g->n <= 0 || count <= 0) return TL_OK;
    TL_ASSERT(g->k >= 0 && g->activation < TLI_ACT_COUNT
              && (!g->rows_a || (g->pieces > 0 && g->k % g->pieces == 0)));
    // Rows of c have no element in common.
    TL_ASSERT(g->m == 1 || g->c_row >= g->n || g->c_row <= -g->n);
    const tli_gemm_kernels *k =
        tli_gemm_kernels_of(isa, tli_gemm_kind_of(isa, g->a_type, g->b_type));
    const batch_run r = {g, g->turned ? k->turned : tli_gemm_in_rows(g, k) ? k->in_rows : k};
    TL_ASSERT(r.k && (!g->turned || !g->packed_b));
    const double each = tli_gemm_work(g, g->k, tli_gemm_weight(r.k)) / TLI_GEMM_TASK_WORK;
    if (each * (double)count <= 1) pool = NULL; // less than a task

    // Products that are small, or enough of them, are spread whole: MANY is a product for each of
    // 64 threads, SMALL the tasks of a product below which cutting it would start more of them than
    // it is worth.
    enum { MANY = 64, SMALL = 8 };
    if (count > 1 && (count >= MANY || each < SMALL)) {
        const int64_t grain = each < 1 ? (int64_t)(1 / each) : 1;
        TL_ASSERT(grain >= 1);
        return tl_parallel_for(pool, count, grain, run_some, (void *)(uintptr_t)&r);
    }
    for (int64_t i = 0; i < count; i++) {
        product p = product_of(g, r.k, i, false);
        TL_TRY(tli_gemm_run_product(pool, &p));
    }
    return TL_OK;
}

/* --- weights packed before -------------------------------------------------------------------- */

size_t tli_gemm_packed_b_bytes(tli_isa isa, tl_dtype a_type, tl_dtype b_type, int64_t k, int64_t n)
{
    const tli_gemm_kernels *kernels =
        tli_gemm_kernels_of(isa, tli_gemm_kind_of(isa, a_type, b_type));
    return (size_t)tl_div_up(n, kernels->nr) * tli_gemm_panel_bytes(kernels, kernels->nr, k);
}

tl_status tli_gemm_pack_b(void *dst, tl_pool *pool, tli_isa isa, const tli_gemm *g)
{
    if (!tl_dtype_is_float(g->b_type) || is_wide(g->b_type) != is_wide(g->a_type))
        return TL_FAIL(TL_EINVAL, "a weight of %s cannot be packed for products with %s",
                       tl_dtype_name(g->b_type), tl_dtype_name(g->a_type));
    const tli_gemm_kernels *k =
        tli_gemm_kernels_of(isa, tli_gemm_kind_of(isa, g->a_type, g->b_type));
    TL_ASSERT((uintptr_t)dst % 64 == 0 && g->k > 0 && g->n > 0);
    const product p = {
        .g = g, .k = k, .a = g->a, .b = g->b, .depth = g->k, .kb = tli_gemm_block_depth(k, g->k)};
    return tli_gemm_pack_panels(pool, &p, &(panels){0},
                                &(panels){.data = dst, .count = g->n, .k1 = g->k});
}
