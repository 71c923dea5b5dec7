/* Lanes: virtual replicas, which processes carry, and the one order in which their numbers are
 * added.
 *
 *     tl_lanes l = {.lanes = 8, .ranks = 3};
 *     tl_lane_run mine = tl_lanes_of(&l, rank);             // of rank 1: first 3, count 3
 *     tl_lane_block blocks[TL_LANE_BLOCKS];
 *     int64_t partials = tl_lanes_blocks(&l, rank, blocks); // [3] [4 5]
 *
 *     for (int64_t lane = mine.first; lane < mine.first + mine.count; lane++) {
 *         // push the lane's sum, then add the upper two so often
 *         for (int64_t i = tl_lanes_merges(&l, rank, lane); i > 0; i--) ...
 *     }
 *
 * A run has a fixed number of lanes. Ranks carry runs of neighbours, as even as possible, longer
 * ones first. What lanes bring is added by a tree that knows no ranks: an aligned block of 2^k
 * lanes is the sum of its two halves, and what lies beyond the last lane is absent. A rank adds
 * what lies in its run and brings one partial for each of its largest blocks; 8 lanes on 3 ranks
 * are [0 1][2] | [3][4 5] | [6 7]. So any number of ranks gets the same bits.
 *
 * Ownership: plain data. Thread word: immutable. */
#ifndef TILTH_CORE_LANES_H
#define TILTH_CORE_LANES_H

#include <tilth/core/dtype.h>

TL_BEGIN

enum {
    TL_LANES_MAX = 65536,
    TL_LANE_BLOCKS = 32 /* what a rank brings at most: two of each size */
};

typedef struct tl_lanes {
    int64_t lanes, ranks; /* 1 <= ranks <= lanes <= TL_LANES_MAX */
} tl_lanes;
/* More ranks than lanes, or sizes out of range, are TL_EINVAL. */
TL_API TL_NODISCARD tl_status tl_lanes_check(const tl_lanes *l);

/* Lanes first .. first + count - 1. */
typedef struct tl_lane_run {
    int64_t first, count;
} tl_lane_run;
TL_API tl_lane_run tl_lanes_of(const tl_lanes *l, int64_t rank);

/* Lanes first .. first + 2^order - 1, as far as they are there. */
typedef struct tl_lane_block {
    int64_t first;
    int order;
} tl_lane_block;
/* The largest blocks of a rank's run, in order; how many there are. */
TL_API int64_t tl_lanes_blocks(const tl_lanes *l, int64_t rank, tl_lane_block out[TL_LANE_BLOCKS]);

/* A rank that takes its lanes in order keeps a stack of sums. Behind each lane it pushes that one's
 * and then adds the upper two, the lower one first, this many times; at the end the stack holds
 * what tl_lanes_blocks lists. It never holds more than TL_LANE_BLOCKS. */
TL_API int64_t tl_lanes_merges(const tl_lanes *l, int64_t rank, int64_t lane);

/* The same for who adds what all ranks bring, rank by rank and block by block: how often behind
 * that one. In the end one sum is left. */
TL_API int64_t tl_lanes_joins(const tl_lanes *l, tl_lane_block block);

/* One node of the tree: out = a + b of `count` elements. Floats of two bytes are added in float32
 * and rounded, whole numbers wrap, bool is TL_EINVAL. `out` may be a or b. */
TL_API TL_NODISCARD tl_status tl_lanes_add(tl_dtype dtype, void *out, const void *a, const void *b,
                                           int64_t count);

TL_END

#endif
