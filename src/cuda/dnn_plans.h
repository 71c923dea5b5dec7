/* Plans of cuDNN that a device has made, by what they compute.
 *
 * Thread word: whoever calls holds the device's long lock. */
#ifndef TILTH_CUDA_DNN_PLANS_H
#define TILTH_CUDA_DNN_PLANS_H

#include <tilth/sys/core/backend.h>

#include "cuda/dnn.h"

/* Tensors at most of a graph whose plans are measured, and numbers. */
enum { TLI_DNN_MEASURED = 5, TLI_DNN_NUMBERS = 2 };

/* Puts together the graph of `what`. */
typedef void tli_dnn_draw(tli_dnn_graph *g, const void *what);
typedef struct tli_dnn_wanted {
    const char *key; /* all that the plan depends on, in words */
    tli_dnn_draw *draw;
    const void *what;
    unsigned refused; /* notes */
    int64_t most;     /* bytes of workspace */
    /* Bytes of the tensors 1 to `count`. Where they are told, plans are measured, and the quickest
     * is taken and noted (choices.h); else it is cuDNN's first. */
    int64_t bytes[TLI_DNN_MEASURED];
    int count;
    tli_dnn_place numbers[TLI_DNN_NUMBERS]; /* that it is given too, in memory of the host */
    int number_count;
} tli_dnn_wanted;

/* The plan, made at the first call, and again when another one has been chosen since. NULL: cuDNN
 * has none, which is no failure. */
TL_NODISCARD tl_status tli_dnn_find(tli_cuda *d, const tli_dnn_plan **out,
                                    const tli_dnn_wanted *wanted);

#endif
