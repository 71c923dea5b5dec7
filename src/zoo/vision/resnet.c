/* Residual networks, laid out as in Model Garden: He et al. 2015, with the variants of its
 * configuration. */
#include <tilth/zoo/backbone.h>

#include "zoo/vision/residual.h"

enum { FIRST_LEVEL = 2 };

static tl_status check_resnet(const void *value)
{
    const tl_resnet_config *c = value;
    if (tli_resnet_find(c->model_id)) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "model_id: there is no ResNet-%lld; there are 10, 18, 26, 34, 50, 101, 152, "
                   "200, 270, 350 and 420",
                   (long long)c->model_id);
}

static const char *const stem_names[] = {"v0", "v1", "cifar", NULL};
static const tl_field resnet_fields[] = {
    TL_F(tl_resnet_config, model_id, .i = 50, TL_AT_LEAST(1),
         .help = "number of layers: 10, 18, 26, 34, 50, 101, 152, 200, 270, 350 or 420"),
    TL_F(tl_resnet_config, depth_multiplier, .d = 1, TL_RANGE(1e-3, 1e3),
         .help = "of all numbers of filters"),
    TL_F(tl_resnet_config, stem_type, .names = stem_names,
         .help = "first layers: v0 (7x7, stride 2), v1 (three 3x3) or cifar (one 3x3, no pooling)"),
    TL_F(tl_resnet_config, se_ratio, TL_RANGE(0, 1),
         .help = "squeeze and excitation with so many of the filters; 0 for none"),
    TL_F(tl_resnet_config, stochastic_depth_drop_rate, TL_RANGE(0, 1),
         .help = "share of examples for which the last blocks are left out in training, earlier "
                 "ones less"),
    TL_F(tl_resnet_config, scale_stem, .b = true,
         .help = "depth_multiplier counts for the stem too"),
    TL_F(tl_resnet_config, resnetd_shortcut,
         .help = "average pooling before the projections of bottlenecks (50 and more layers), in "
                 "place of their stride"),
    TL_F(tl_resnet_config, replace_stem_max_pool,
         .help = "a convolution of stride 2 in place of the pooling behind the stem"),
    TL_F(tl_resnet_config, bn_trainable, .b = true, .help = "train scale and shift of batch norms"),
    TL_F(tl_resnet_config, symmetric_padding, .flags = TL_FIELD_QUIET,
         .help = "pad images alike on both sides, as PyTorch does; otherwise what is odd goes to "
                 "the end, as in TensorFlow"),
    TL_F(tl_resnet_config, identity_shortcuts, .flags = TL_FIELD_QUIET,
         .help = "no projection where a block keeps the shape, as in PyTorch (the first stage of "
                 "18 and 34); otherwise each stage begins with one"),
    TL_F_END,
};
static const tl_desc resnet_desc = {
    .name = "resnet",
    .help = "residual networks",
    .size = sizeof(tl_resnet_config),
    .fields = resnet_fields,
    .check = check_resnet,
};

static int64_t scaled(int64_t filters, double multiplier)
{
    int64_t n = (int64_t)((double)filters * multiplier);
    return n > 1 ? n : 1;
}

/* NULL without memory. */
static tli_residual_plan *make_plan(tl_arena *arena, const tl_resnet_config *c)
{
    const tli_resnet_variant *v = tli_resnet_find(c->model_id);
    tli_residual_plan *p = tli_residual_plan_new(arena, TLI_RESNET_STAGES);
    double stem = c->scale_stem ? c->depth_multiplier : 1;
    if (!p) return NULL;
    p->bottleneck = v->bottleneck;
    p->resnetd_shortcut = c->resnetd_shortcut;
    p->norm_frozen = !c->bn_trainable;
    p->se_ratio = c->se_ratio;
    p->symmetric_padding = c->symmetric_padding;
    p->stem =
        (tli_residual_stem){.type = c->stem_type,
                            .first = scaled(32, stem),
                            .filters = scaled(64, stem),
                            .pool = c->replace_stem_max_pool ? scaled(64, c->depth_multiplier) : 0};
    for (int i = 0; i < TLI_RESNET_STAGES; i++)
        p->stages[i] = (tli_residual_stage){
            .blocks = v->blocks[i],
            .filters = scaled((int64_t)64 << i, c->depth_multiplier),
            .stride = i > 0 ? 2 : 1,
            .drop_rate = c->stochastic_depth_drop_rate * (i + 2) / (TLI_RESNET_STAGES + 1),
            .level = FIRST_LEVEL + i};
    int64_t before = p->stem.pool ? p->stem.pool : p->stem.filters;
    p->stages[0].identity =
        c->identity_shortcuts && !v->bottleneck && before == p->stages[0].filters;
    return p;
}

static tl_layer *make_resnet(tl_scope *s, const char *name, const void *config,
                             const tl_backbone_parts *parts)
{
    tli_residual_plan *plan = make_plan(tl_scope_arena(s), config);
    if (!plan) return NULL;
    plan->parts = *parts;
    return tli_residual_network(s, name, plan);
}

/* The stem of small images neither strides nor pools: levels are names there. */
static tl_levels resnet_levels(const void *config)
{
    (void)config;
    return (tl_levels){FIRST_LEVEL, FIRST_LEVEL + TLI_RESNET_STAGES - 1};
}

static int64_t resnet_channels(const void *config, int64_t level)
{
    const tl_resnet_config *c = config;
    int64_t filters = scaled((int64_t)64 << (level - FIRST_LEVEL), c->depth_multiplier);
    return tli_resnet_find(c->model_id)->bottleneck ? filters * TLI_BOTTLENECK_GROWTH : filters;
}

static tl_status name_layers(const void *config, tl_original_names *into)
{
    const tl_resnet_config *c = config;
    if (c->symmetric_padding || c->identity_shortcuts)
        return TL_FAIL(TL_EUNSUPPORTED, "Model Garden has no ResNet with symmetric_padding or "
                                        "identity_shortcuts, which are those of PyTorch");
    const tli_residual_plan *plan = make_plan(into->arena, config);
    return plan ? tli_residual_names(plan, into) : TL_ENOMEM;
}

const tl_backbone_class tl_backbone_resnet = {
    .cls = {.class_size = sizeof(tl_backbone_class),
            .name = "resnet",
            .help = "residual networks",
            .config = &resnet_desc},
    .make = make_resnet,
    .levels = resnet_levels,
    .original_names = name_layers,
    .channels = resnet_channels,
};
