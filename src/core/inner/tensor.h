/* Tensors from inside. Thread word: one thread at a time. */
#ifndef TLI_CORE_TENSOR_H
#define TLI_CORE_TENSOR_H

#include <tilth/core/tensor.h>

/* Row-major strides and the flag that goes with them. */
void tli_tensor_row_major(tl_tensor *t);
/* Whether the strides that are set leave no gaps. */
bool tli_tensor_is_row_major(const tl_tensor *t);
/* All elements between `t` and a row-major array of its type, in either direction. */
void tli_tensor_gather(const tl_tensor *t, void *to);
void tli_tensor_scatter(const tl_tensor *t, const void *from);

/* Makes sure that there is memory for a lease of the tensor, in the pool of its engine: one that
 * follows, with none in between, does not fail for lack of it. */
TL_NODISCARD tl_status tli_lease_reserve(const tl_tensor *t);
/* The same for tl_tensor_copy of these two, which have storage. */
TL_NODISCARD tl_status tli_copy_reserve(const tl_tensor *to, const tl_tensor *from);
/* Whether the host must look at both: else the device copies. */
bool tli_copy_is_over_host(const tl_tensor *to, const tl_tensor *from);

/* Queues the copy of a tensor at the host to one at the device, both without gaps. It runs beside
 * kernels that were queued before and do not use `to`; those that are queued from now on find it
 * done. */
TL_NODISCARD tl_status tli_send(const tl_tensor *to, const tl_tensor *from);

/* Bytes of its storage that a tensor reaches: [from, to). Empty for a tensor without elements. */
typedef struct tli_extent {
    int64_t from, to;
} tli_extent;
tli_extent tli_extent_of(const tl_tensor *t);
/* Where the first element of `t` is, counted in elements, in memory that begins with its extent. */
static inline int64_t tli_image_offset(const tl_tensor *t, tli_extent e)
{
    return e.to > e.from ? t->offset - e.from / (int64_t)tl_dtype_size(t->dtype) : 0;
}

/* A tensor of another device as the host sees it: the same type, shape and strides over a copy of
 * its extent. Copies of several images are queued one behind the other, and then waited for. */
typedef struct tli_image {
    tl_tensor tensor;
    const tl_tensor *of;
    tli_extent extent;
    uint64_t ticket;  /* of the copy that was queued last; 0: none was */
    bool goes;        /* that copy goes to the device */
    uint64_t written; /* the ticket of who had written there before it */
} tli_image;
/* `filled`: with the elements that are there, after the wait; else it holds anything. */
TL_NODISCARD tl_status tli_image_begin(tli_image *out, const tl_tensor *of, bool filled);
/* Queues the way back of the image's extent to where it came from. */
TL_NODISCARD tl_status tli_image_put(tli_image *image);
/* Waits until what was queued for it has run. */
TL_NODISCARD tl_status tli_image_wait(tli_image *image);
void tli_image_close(tli_image *image);

#endif
