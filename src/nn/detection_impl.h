/* What the files of detection share. Thread word: one thread at a time for a context. */
#ifndef TLI_NN_DETECTION_IMPL_H
#define TLI_NN_DETECTION_IMPL_H

#include <tilth/nn/detection.h>

/* float32 [batch, n]: 1 at up to `most` of the places where `may` [batch, n] is true, those with
 * the largest draws, and only at the first `limit` (int32 [batch, 1]) of them, unless that is NULL;
 * else 0. */
tl_tensor *tli_some_of(tl_ctx *c, tl_tensor *may, tl_tensor *draws, int64_t most, tl_tensor *limit);
/* Whether anchors or regions are of a kind. */
tl_tensor *tli_kind_is(tl_ctx *c, const tl_matches *m, int kind);

#endif
