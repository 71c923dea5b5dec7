/* Tensors: a header (type, shape, strides) over storage that is counted and shared.
 *
 *     tl_tensor *t;
 *     TL_TRY(tl_tensor_new(&t, engine, TL_F32, TL_SHAPE(2, 3)));         // its own, uninitialised
 *     TL_TRY(tl_tensor_set(t, values, sizeof values));
 *     tl_tensor_print(t, stdout);
 *     tl_tensor_free(&t);
 *
 * Most tensors are made by ops and belong to a context (ctx.h): they live until its scope ends and
 * are never freed one by one. What must live longer is kept with tl_tensor_keep.
 *
 * Host access to elements goes through leases, the one place where a device is waited for:
 *
 *     tl_lease l;
 *     TL_TRY(tl_lease_read(&l, t));
 *     const float *x = l.data;                             // row-major, without gaps
 *     tl_lease_drop(&l);
 *     TL_TRY(tl_lease_discard(&l, t));
 *     ... l.data ...                                       // every element is written
 *     TL_TRY(tl_lease_end(&l));                            // they are the tensor's now
 *
 * Members are for reading; ops and these functions write them.
 * Thread word: one thread at a time for a header; storage is shared freely. */
#ifndef TILTH_CORE_TENSOR_H
#define TILTH_CORE_TENSOR_H

#include <stdio.h>
#include <tilth/base/str.h>
#include <tilth/core/dtype.h>
#include <tilth/core/engine.h>
#include <tilth/core/shape.h>

TL_BEGIN

typedef struct tl_storage tl_storage;
typedef struct tl_node tl_node;
typedef struct tl_tensor tl_tensor;

struct tl_tensor {
    tl_dtype dtype;
    bool contiguous; /* row-major without gaps */
    bool tracked;    /* gradients flow to it or through it */
    int output;      /* which output of `node` it is */
    tl_shape shape;
    int64_t strides[TL_MAX_RANK]; /* in elements; 0 where one element is seen many times */
    int64_t offset;               /* of the first element, in elements */
    /* NULL while it is only described: in capture, and when dropped */
    tl_storage *storage;
    tl_node *node;      /* the call that made it, when it was recorded */
    tl_tensor *view_of; /* whose storage it shares, when an op made it as a view */
    tl_tensor *next;    /* the context's list */
    /* among all that contexts made, one more than the one before it in its context: notes about
     * tensors lie in arrays beside them. 0: no context's */
    uint64_t id;
};

/* Where a tensor lies. At the host, ops cannot use it; leases of it cost nothing, and copies
 * between it and the device need nobody to wait. On an engine of the host both are the same. */
typedef enum tl_side {
    TL_AT_DEVICE,
    TL_AT_HOST,
} tl_side;
/* A tensor of the caller's, its elements uninitialised; tl_tensor_new makes it at the device. */
TL_API TL_NODISCARD tl_status tl_tensor_new(tl_tensor **out, tl_engine *engine, tl_dtype dtype,
                                            tl_shape shape);
TL_API TL_NODISCARD tl_status tl_tensor_new_at(tl_tensor **out, tl_engine *engine, tl_side side,
                                               tl_dtype dtype, tl_shape shape);
/* A header of the caller's over the storage of `t`: what keeps a result beyond its scope. */
TL_API TL_NODISCARD tl_status tl_tensor_keep(tl_tensor **out, const tl_tensor *t);
/* `shape` elements of the flat storage of `t` from element `offset` on: parameters in their
 * block. */
TL_API TL_NODISCARD tl_status tl_tensor_part(tl_tensor **out, const tl_tensor *t, int64_t offset,
                                             tl_shape shape);
/* For tensors made by the three above. NULL is fine. */
TL_API void tl_tensor_free(tl_tensor **t);
/* For headers inside other structs, whose type and shape are set: `t` becomes the part of `block`
 * from element `offset` on; what it showed before is let go. A NULL block only lets go. */
TL_API TL_NODISCARD tl_status tl_tensor_place(tl_tensor *t, const tl_tensor *block, int64_t offset);

TL_API int64_t tl_tensor_count(const tl_tensor *t);
TL_API size_t tl_tensor_bytes(const tl_tensor *t);
TL_API tl_engine *tl_tensor_engine(const tl_tensor *t);
/* At the device, where that is the host's own. */
TL_API tl_side tl_tensor_side(const tl_tensor *t);
/* "float32[2, 3]". Gives `out` back. */
enum { TL_TENSOR_TEXT = TL_SHAPE_TEXT + 16 };
TL_API const char *tl_tensor_spec(char out[TL_TENSOR_TEXT], const tl_tensor *t);

/* All elements, row-major, in the tensor's own type; `bytes` must be tl_tensor_bytes. */
TL_API TL_NODISCARD tl_status tl_tensor_set(tl_tensor *t, const void *elements, size_t bytes);
TL_API TL_NODISCARD tl_status tl_tensor_get(const tl_tensor *t, void *elements, size_t bytes);
/* The same with conversion from and to double; `count` must be tl_tensor_count. */
TL_API TL_NODISCARD tl_status tl_tensor_set_doubles(tl_tensor *t, const double *elements,
                                                    int64_t count);
TL_API TL_NODISCARD tl_status tl_tensor_get_doubles(const tl_tensor *t, double *elements,
                                                    int64_t count);
/* The value of a tensor with one element. */
TL_API TL_NODISCARD tl_status tl_tensor_item(const tl_tensor *t, double *out);

/* Laid out as NumPy does it; long axes are cut in the middle. */
TL_API void tl_tensor_text(tl_str *out, const tl_tensor *t);
TL_API void tl_tensor_print(const tl_tensor *t, FILE *to);

/* Access by the host. While a storage is leased for writing nobody else may lease it; while it is
 * leased at all, no op may write it. The header must stay until the lease ends. A tensor that shows
 * one element many times (stride 0) cannot be written. */
typedef struct tl_lease {
    void *data;
    const tl_tensor *tensor; /* NULL: ended */
    tl_storage *storage;
    tl_storage *staged; /* where elements of another device are meanwhile; NULL: where they lie */
    bool write, copied;
} tl_lease;
TL_API TL_NODISCARD tl_status tl_lease_read(tl_lease *out, const tl_tensor *t);
/* To change elements: those that are not written keep what they hold. */
TL_API TL_NODISCARD tl_status tl_lease_write(tl_lease *out, tl_tensor *t);
/* To write all elements: they hold anything at first, which saves their way here from another
 * device. */
TL_API TL_NODISCARD tl_status tl_lease_discard(tl_lease *out, tl_tensor *t);
/* Ends it: what was written has arrived where the tensor lies. A second time is fine. */
TL_API TL_NODISCARD tl_status tl_lease_end(tl_lease *lease);
/* Ends one that was for reading; or one for writing after a failure, when nobody will use what the
 * tensor holds. A second time is fine. */
TL_API void tl_lease_drop(tl_lease *lease);

/* All elements of `from`, converted to the type of `to`, without a way over the host where both lie
 * on one device and are of one type. Shapes must be equal. */
TL_API TL_NODISCARD tl_status tl_tensor_copy(tl_tensor *to, const tl_tensor *from);
/* Exchanges the elements of two tensors without gaps, of one type and shape. */
TL_API TL_NODISCARD tl_status tl_tensor_swap(tl_tensor *a, tl_tensor *b);
/* Sets all bytes of a tensor without gaps to zero. */
TL_API TL_NODISCARD tl_status tl_tensor_clear(tl_tensor *t);

TL_END

#endif
