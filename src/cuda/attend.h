/* Attention: by cuDNN in half precision, else by products with kernels between them.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_CUDA_ATTEND_H
#define TILTH_CUDA_ATTEND_H

#include <tilth/sys/core/backend.h>

#include "core/inner/storage.h"
#include "cuda/dnn.h"

/* Tensors of the graphs: what a call reads and writes, then what lies in scratch, then numbers. */
enum {
    TLI_ATTEND_Q = 1,
    TLI_ATTEND_K,
    TLI_ATTEND_V,
    TLI_ATTEND_Y,
    TLI_ATTEND_SUMS, /* logarithms of the sums of rows */
    TLI_ATTEND_GY,
    TLI_ATTEND_GQ,
    TLI_ATTEND_GK,
    TLI_ATTEND_GV,
    TLI_ATTEND_DOTS, /* of the rows of y and of its gradient */
    TLI_ATTEND_SCALE,
    TLI_ATTEND_LEAST,
    TLI_ATTEND_ONE
};

/* q [batch, queries, heads, width], k [batch, keys, key_heads, width] and v [batch, keys,
 * key_heads, value_width], with strides in this order. The result lies row-major; gradients do, or
 * are `joined`. */
typedef struct tli_attend {
    tl_dtype dtype;
    bool gradient, causal, joined;
    int64_t batch, queries, keys, heads, key_heads, width, value_width;
    int64_t q[TLI_DNN_RANK], k[TLI_DNN_RANK], v[TLI_DNN_RANK]; /* strides */
    int64_t y[TLI_DNN_RANK], gy[TLI_DNN_RANK];
} tli_attend;

/* Elements from one position of a gradient to the next, each of so many heads. */
static inline int64_t tli_attend_step(const tli_attend *a, int64_t heads, int64_t width)
{
    return heads * width * (a->joined ? 3 : 1);
}
/* Where the gradient of q, k or v (0, 1, 2) begins. */
static inline char *tli_attend_grad_at(const tl_node *call, const tli_attend *a, int number)
{
    if (!a->joined) return tli_data(call->out[number]);
    return (char *)tli_data(call->out[0])
           + (size_t)(number * a->heads * a->width) * tl_dtype_size(a->dtype);
}

/* Of a call of attend or attend_grad; strides are those of row-major tensors. */
tli_attend tli_attend_of(const tl_node *call);
/* Its graph (tli_dnn_draw). */
void tli_attend_draw(tli_dnn_graph *g, const void *attend);

/* A call that cuDNN's pattern has no place for; whoever calls it holds the device's long lock. */
TL_NODISCARD tl_status tli_attend_in_parts(const tl_run *run, const tl_node *call);
/* The text of its kernel `number`: for tests, which compile it without a GPU. False: there are not
 * so many. */
bool tli_attend_text(tl_str *out, int number, tl_dtype dtype);

/* Whether the GPU computes the call. */
bool tli_cuda_attend_takes(const tl_engine *engine, const tl_node *call);
extern const tl_kernels tli_cuda_attend_kernels;

#endif
