/* Products for which cuBLASLt's kernels are too long on their way (text/product.cu). */
#include <tilth/base/integer.h>

#include "cuda/kernels.h"
#include "cuda/products.h"

enum { TILE_M = 16, TILE_N = 32, THREADS = 256, MOST = 1 << 25 /* multiply-adds */ };

bool tli_cuda_is_small(const tli_cuda_product *w)
{
    return (w->dtype == TL_BF16 || w->dtype == TL_F16) && !w->keep_sum
           && (w->activation == TL_ACT_NONE || w->activation == TL_ACT_RELU)
           && (double)w->batch * (double)w->m * (double)w->n * (double)w->k <= MOST;
}

/* Whether two elements along the sum can be read at once: they lie side by side, and each row
 * begins where such a pair may. */
static bool has_pairs(const void *at, bool along, int64_t k, int64_t step)
{
    return along && k % 2 == 0 && step % 2 == 0 && (uintptr_t)at % 4 == 0;
}

tl_status tli_cuda_multiply_small(const tl_run *run, const tli_cuda_product *w,
                                  const tli_cuda_operands *o)
{
    const tli_product_args a = {.groups =
                                    w->batch * tl_div_up(w->m, TILE_M) * tl_div_up(w->n, TILE_N),
                                .m = w->m,
                                .n = w->n,
                                .k = w->k,
                                .a_step = w->a_step,
                                .b_step = w->b_step,
                                .a = o->a,
                                .b = o->b,
                                .bias = o->bias,
                                .added = o->added,
                                .c = o->c,
                                .relu = w->activation == TL_ACT_RELU};
    tli_cuda_work work = {
        .text = {tli_text_of_product}, .name = "multiply_small", .threads = THREADS};
    tli_cuda_define_type(&work.defines, "X", w->dtype);
    tli_cuda_define_type(&work.defines, "Y", w->wide ? TL_F32 : w->dtype);
    tli_cuda_define(&work.defines, "TRANSPOSE_A", w->transpose_a);
    tli_cuda_define(&work.defines, "TRANSPOSE_B", w->transpose_b);
    tli_cuda_define(&work.defines, "PAIRS_A", has_pairs(o->a, !w->transpose_a, w->k, w->a_step));
    tli_cuda_define(&work.defines, "PAIRS_B", has_pairs(o->b, w->transpose_b, w->k, w->b_step));
    tl_str_addf(&work.defines, "#define HALF \"%s\"\n", w->dtype == TL_BF16 ? "bf16" : "f16");
    return tli_cuda_put(run, &work, &a, sizeof a);
}
