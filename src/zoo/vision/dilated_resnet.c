/* Residual networks for segmentation: Chen et al. 2017, laid out as in Model Garden. */
#include <tilth/zoo/backbone.h>

#include "zoo/vision/residual.h"

enum { FIRST_LEVEL = 2, MOST_REPEATS = 16 };

static tl_status check_dilated(const void *value)
{
    const tl_dilated_resnet_config *c = value;
    const tli_resnet_variant *v = tli_resnet_find(c->model_id);
    int64_t stride = c->output_stride;
    if (!v || !v->bottleneck || v->id > 200)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "model_id: there is no dilated ResNet-%lld; there are 50, 101, 152 and 200",
                       (long long)c->model_id);
    if (stride != 4 && stride != 8 && stride != 16 && stride != 32)
        return TL_FAIL(TL_EINVAL, "output_stride: expected 4, 8, 16 or 32, found %lld",
                       (long long)stride);
    int64_t blocks = v->blocks[TLI_RESNET_STAGES - 1];
    if (c->multigrid.count && c->multigrid.count != blocks)
        return TL_FAIL(TL_EINVAL,
                       "multigrid: it has %lld numbers for the %lld blocks of the last stage",
                       (long long)c->multigrid.count, (long long)blocks);
    return TL_OK;
}

static const char *const stem_names[] = {"v0", "v1", NULL};
static const tl_field dilated_fields[] = {
    TL_F(tl_dilated_resnet_config, model_id, .i = 50, TL_AT_LEAST(1),
         .help = "number of layers: 50, 101, 152 or 200"),
    TL_F(tl_dilated_resnet_config, output_stride, .i = 16, TL_AT_LEAST(1),
         .help = "how much smaller than the image maps become at most: 4, 8, 16 or 32"),
    TL_F(tl_dilated_resnet_config, multigrid, .flags = TL_FIELD_NULLABLE, TL_RANGE(1, 64),
         .help =
             "by which the dilation of each block of the last stages is multiplied; null: by 1"),
    TL_F(tl_dilated_resnet_config, stem_type, .names = stem_names,
         .help = "first layers: v0 (7x7, stride 2) or v1 (three 3x3)"),
    TL_F(tl_dilated_resnet_config, last_stage_repeats, .i = 1, TL_RANGE(0, MOST_REPEATS),
         .help = "how often the last stage comes, each time dilated twice as much"),
    TL_F(tl_dilated_resnet_config, se_ratio, TL_RANGE(0, 1),
         .help = "squeeze and excitation with so many of the filters; 0 for none"),
    TL_F(tl_dilated_resnet_config, stochastic_depth_drop_rate, TL_RANGE(0, 1),
         .help = "share of examples for which the last blocks are left out in training, earlier "
                 "ones less"),
    TL_F(tl_dilated_resnet_config, resnetd_shortcut,
         .help = "average pooling before the projections, in place of their stride"),
    TL_F(tl_dilated_resnet_config, replace_stem_max_pool,
         .help = "a convolution of stride 2 in place of the pooling behind the stem"),
    TL_F_END,
};
static const tl_desc dilated_desc = {
    .name = "dilated_resnet",
    .help = "residual networks with large maps, for segmentation",
    .size = sizeof(tl_dilated_resnet_config),
    .fields = dilated_fields,
    .check = check_dilated,
};

/* The level of the smallest maps. */
static int last_level(const tl_dilated_resnet_config *c)
{
    int level = FIRST_LEVEL;
    while ((int64_t)1 << level < c->output_stride) level++;
    return level;
}

/* NULL without memory. */
static tli_residual_plan *make_plan(tl_arena *arena, const tl_dilated_resnet_config *c)
{
    const tli_resnet_variant *v = tli_resnet_find(c->model_id);
    const int64_t last = TLI_RESNET_STAGES - 1, repeats = c->last_stage_repeats;
    int64_t normal = last_level(c) - FIRST_LEVEL + 1, count = last + repeats, dilation = 2;
    if (count < normal) count = normal;
    tli_residual_plan *p = tli_residual_plan_new(arena, count);
    if (!p) return NULL;
    p->bottleneck = true;
    p->resnetd_shortcut = c->resnetd_shortcut;
    p->se_ratio = c->se_ratio;
    p->stem = (tli_residual_stem){.type = c->stem_type,
                                  .first = 64,
                                  .filters = c->stem_type == TL_STEM_V1 ? 128 : 64,
                                  .pool = c->replace_stem_max_pool ? 64 : 0};
    for (int64_t i = 0; i < count; i++) {
        int64_t like = i < last ? i : last;
        bool dilates = i >= normal;
        p->stages[i] = (tli_residual_stage){
            .blocks = v->blocks[like],
            .filters = (int64_t)64 << like,
            .stride = i > 0 && !dilates ? 2 : 1,
            .dilation = dilates ? dilation : 1,
            .multigrid = dilates && i >= last && c->multigrid.count ? c->multigrid.items : NULL,
            .drop_rate = c->stochastic_depth_drop_rate * (double)(i + 2)
                         / (double)(TLI_RESNET_STAGES + repeats),
            .level = dilates ? last_level(c) : FIRST_LEVEL + (int)i};
        if (dilates) dilation *= 2;
    }
    return p;
}

static tl_layer *make_dilated(tl_scope *s, const char *name, const void *config,
                              const tl_backbone_parts *parts)
{
    tli_residual_plan *plan = make_plan(tl_scope_arena(s), config);
    if (!plan) return NULL;
    plan->parts = *parts;
    return tli_residual_network(s, name, plan);
}

static tl_levels dilated_levels(const void *config)
{
    return (tl_levels){FIRST_LEVEL, last_level(config)};
}

/* The smallest maps are those of the last stage. */
static int64_t dilated_channels(const void *config, int64_t level)
{
    int64_t like = level == last_level(config) ? TLI_RESNET_STAGES - 1 : level - FIRST_LEVEL;
    return ((int64_t)64 << like) * TLI_BOTTLENECK_GROWTH;
}

static tl_status name_layers(const void *config, tl_original_names *into)
{
    const tli_residual_plan *plan = make_plan(into->arena, config);
    return plan ? tli_residual_names(plan, into) : TL_ENOMEM;
}

const tl_backbone_class tl_backbone_dilated_resnet = {
    .cls = {.class_size = sizeof(tl_backbone_class),
            .name = "dilated_resnet",
            .help = "residual networks with large maps, for segmentation",
            .config = &dilated_desc},
    .make = make_dilated,
    .levels = dilated_levels,
    .original_names = name_layers,
    .channels = dilated_channels,
};
