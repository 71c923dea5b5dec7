/* Weights that lie apart (nn/optimizer.h, tl_optimizer_need), for who plans memory.
 *
 * Thread word: immutable. */
#ifndef TLI_NN_WEIGHTS_APART_H
#define TLI_NN_WEIGHTS_APART_H

#include <tilth/nn/optimizer.h>

/* Bytes of weights of others that a process has for a while in a step, about: those of the layers
 * that are computed; 0 where they do not lie apart. */
double tli_weights_brought(const tl_optimizer *o, const tl_optimizer_sharing *how);

#endif
