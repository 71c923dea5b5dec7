/* Matrix products by cuBLASLt.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_CUDA_PRODUCTS_H
#define TILTH_CUDA_PRODUCTS_H

#include <tilth/core/attrs.h>
#include <tilth/sys/core/backend.h>

/* c = op(a) op(b), row-major, `batch` times: [m, k] and [k, n] as the product sees them. */
typedef struct tli_cuda_product {
    tl_dtype dtype;
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    int64_t batch, a_step, b_step; /* elements between operands; 0: the same one */
    bool bias;
    bool wide;                /* the result of half precision is float32 */
    tl_activation activation; /* of the sum: none, relu, gelu_tanh */
    bool keep_sum;            /* with gelu_tanh: what it is given is a result too */
    bool added;               /* something like the result is added to it */
    bool masked;              /* small ones: 0 where something like the result is not positive */
    bool gelu_grad; /* the result is the gradient of gelu_tanh, which `sum` was given to */
    struct {
        int a, b, c;
    } aligned; /* bytes that they begin at a multiple of; tli_cuda_multiply_into knows */
} tli_cuda_product;

/* Where they lie; what a product has not is NULL. */
typedef struct tli_cuda_operands {
    const void *a, *b, *bias;
    void *sum, *c;
    const void *added, *mask;
} tli_cuda_operands;

/* Puts it into the run's queue. TL_EUNSUPPORTED: cuBLASLt cannot, and nothing was put there. */
TL_NODISCARD tl_status tli_cuda_multiply_into(const tl_run *run, const tli_cuda_product *what,
                                              const tli_cuda_operands *operands);

/* Puts it into the run's queue. `bias` has n elements, or is NULL. */
TL_NODISCARD tl_status tli_cuda_multiply(const tl_run *run, const tli_cuda_product *what,
                                         const void *a, const void *b, const void *bias, void *c);

/* Whether the product is so small that starting cuBLASLt's kernels takes longer than computing it;
 * then such a kernel of ours, with the same duties. */
bool tli_cuda_is_small(const tli_cuda_product *what);
TL_NODISCARD tl_status tli_cuda_multiply_small(const tl_run *run, const tli_cuda_product *what,
                                               const tli_cuda_operands *operands);

/* Whether kernels have the form of the call. */
bool tli_cuda_product_takes(const tl_engine *engine, const tl_node *call);

extern const tl_kernels tli_cuda_product_kernels;

#endif
