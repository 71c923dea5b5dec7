/* Convolutions by cuDNN; those of single pixels are products, those of single channels kernels.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_CUDA_CONVS_H
#define TILTH_CUDA_CONVS_H

#include <tilth/sys/core/backend.h>

#include "cuda/dnn.h"

/* Image [n, rows, columns, in], filter [filter_rows, filter_columns, in / groups, out] and result
 * [n, result_rows, result_columns, out], of which `way` computes one from the others. */
typedef struct tli_conv {
    tli_dnn_way way;
    tl_dtype dtype;
    int64_t n, rows, columns, in;
    int64_t filter_rows, filter_columns, groups;
    int64_t result_rows, result_columns, out;
    tli_dnn_window window;
} tli_conv;

enum { TLI_CONV_IMAGE = 1, TLI_CONV_FILTER, TLI_CONV_RESULT }; /* numbers of the graph's tensors */

tli_conv tli_conv_of(const tl_node *call);
/* Its graph (tli_dnn_draw): cuDNN takes the filter as [out, filter_rows, filter_columns, in /
 * groups]. */
void tli_conv_draw(tli_dnn_graph *g, const void *conv);

/* Whether it is better computed as another convolution, whose image has the pixels that a stride
 * covers as channels and is computed without strides and padding; and that one (conv_fold.c). */
bool tli_conv_folds(const tli_conv *c);
tli_conv tli_conv_fold(const tli_conv *c);
/* Its image. */
TL_NODISCARD tl_status tli_conv_fold_image(const tl_run *run, const tli_conv *c, const tli_conv *f,
                                           const void *from, void *to);
/* Its filter, as cuDNN takes it; or back from there, `load` being what makes floats of elements, or
 * "". */
TL_NODISCARD tl_status tli_conv_fold_filter(const tl_run *run, const tli_conv *c, const tli_conv *f,
                                            void *own, void *folded, bool back, const char *load);

/* Whether it is better computed as products of the pixels under each place; and that
 * (conv_patches.c). */
bool tli_conv_has_patches(const tli_conv *c);
TL_NODISCARD tl_status tli_conv_by_patches(const tl_run *run, const tl_node *call,
                                           const tli_conv *c);
/* Puts them in rows of so many elements, the last of which are zeros; and, where it is not NULL,
 * rows of zeros behind those of the filter. */
int64_t tli_conv_patch(const tli_conv *c);
TL_NODISCARD tl_status tli_conv_put_patches(const tl_run *run, const tli_conv *c, const void *x,
                                            void *rows, const void *filter, void *filter_out);

/* Convolutions of each channel on its own, by kernels (depthwise.c). */
bool tli_conv_is_depthwise(const tli_conv *c);
TL_NODISCARD tl_status tli_conv_depthwise(const tl_run *run, const tl_node *call,
                                          const tli_conv *c);
/* The text of its kernel `number`: for tests, which compile it without a GPU. False: there are not
 * so many. */
bool tli_depthwise_text(tl_str *out, int number, tl_dtype dtype);

/* Whether the GPU computes the call. */
bool tli_cuda_conv_takes(const tl_engine *engine, const tl_node *call);
extern const tl_kernels tli_cuda_conv_kernels;

#endif
