/* Private to vision: networks of residual blocks, by a plan: a stem, then stages of blocks. What
 * resnet and dilated_resnet share; they differ in their plans.
 *
 *     tli_residual_plan *plan = tli_residual_plan_new(arena, 4);
 *     plan->stem = (tli_residual_stem){.type = TL_STEM_V0, .filters = 64};
 *     plan->stages[0] = (tli_residual_stage){.blocks = 3, .filters = 64, .stride = 1, .level = 2};
 *     ...
 *     tl_layer *network = tli_residual_network(s, "backbone", plan);
 *
 * Layers stem (or stem_1, stem_2, stem_3), stem_pool and stage_1_block_1, ... */
#ifndef TILTH_SRC_ZOO_VISION_RESIDUAL_H
#define TILTH_SRC_ZOO_VISION_RESIDUAL_H

#include <tilth/zoo/backbone.h>

enum {
    TLI_RESNET_STAGES = 4,
    TLI_BOTTLENECK_GROWTH = 4 /* its last convolution has so many times the filters */
};

/* What He et al. 2015 and those after them call by a number of layers. */
typedef struct tli_resnet_variant {
    int64_t id;
    bool bottleneck;
    int64_t blocks[TLI_RESNET_STAGES];
} tli_resnet_variant;
/* NULL: there is none of that number. */
const tli_resnet_variant *tli_resnet_find(int64_t id);

typedef struct tli_residual_stem {
    tl_resnet_stem type;
    int64_t first;   /* filters of the first two convolutions of TL_STEM_V1 */
    int64_t filters; /* of the last one */
    int64_t pool;    /* filters of a convolution in place of the pooling; 0: pooling */
} tli_residual_stem;

typedef struct tli_residual_stage {
    int64_t blocks, filters;
    int64_t stride; /* of the first block */
    /* (optional: 1) of the 3x3 convolutions, and what it is multiplied by in each block, if
     * anything */
    int64_t dilation;
    const int64_t *multigrid;
    double drop_rate; /* share of examples for which a block is left out in training */
    bool identity;    /* the first block has no projection: it keeps the shape */
    int level;        /* which endpoint its map is; of several the last counts */
} tli_residual_stage;

/* Must stay valid as long as the model. */
typedef struct tli_residual_plan {
    tl_backbone_parts parts;
    tli_residual_stem stem;
    bool bottleneck, resnetd_shortcut, norm_frozen;
    bool symmetric_padding; /* as many zeros on one side as on the other */
    double se_ratio;
    int64_t count;
    tli_residual_stage stages[];
} tli_residual_plan;
/* Of zeros; NULL without memory. */
tli_residual_plan *tli_residual_plan_new(tl_arena *arena, int64_t stages);

/* A layer that gives "features" and its endpoints. NULL when the scope failed. */
tl_layer *tli_residual_network(tl_scope *s, const char *name, const tli_residual_plan *plan);
/* Its names in Model Garden, where layers are counted in the order in which they are made. */
tl_status tli_residual_names(const tli_residual_plan *plan, tl_original_names *into);

#endif
