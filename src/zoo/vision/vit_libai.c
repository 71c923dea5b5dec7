/* LiBai's VisionTransformer, by the names of its arguments: a vit in other ways. */
#include "zoo/vision/vit_parts.h"

static int64_t mlp_units(const tl_vision_transformer_config *c)
{
    return (int64_t)((double)c->embed_dim * c->mlp_ratio);
}

static tl_status check(const void *value)
{
    const tl_vision_transformer_config *c = value;
    if (c->embed_dim % c->num_heads)
        return TL_FAIL(TL_EINVAL, "num_heads: %lld heads do not divide embed_dim, %lld",
                       (long long)c->num_heads, (long long)c->embed_dim);
    if (mlp_units(c) < 1)
        return TL_FAIL(TL_EINVAL, "mlp_ratio: %g of embed_dim, %lld, leaves no unit", c->mlp_ratio,
                       (long long)c->embed_dim);
    return TL_OK;
}

#define ROW(member, ...) TL_F(tl_vision_transformer_config, member, __VA_ARGS__)
static const tl_field fields[] = {
    ROW(patch_size, .i = 16, TL_RANGE(1, 1 << 16),
        .help = "height and width of what becomes a token"),
    ROW(embed_dim, .i = 192, TL_RANGE(1, 1 << 20), .help = "numbers of a token"),
    ROW(depth, .i = 12, TL_RANGE(1, 1 << 16), .help = "blocks"),
    ROW(num_heads, .i = 3, TL_RANGE(1, 1 << 16), .help = "heads of the attention"),
    ROW(mlp_ratio, .d = 4, TL_RANGE(0, 1 << 10),
        .help = "units inside the dense layers, for each number of a token"),
    ROW(drop_rate, TL_RANGE(0, 1), .help = "share dropped of the tokens and of what parts give"),
    ROW(attn_drop_rate, TL_RANGE(0, 1), .help = "share dropped of the attention's weights"),
    ROW(drop_path_rate, TL_RANGE(0, 1),
        .help = "share of examples for which the parts of the last block are left out in "
                "training, those of earlier ones less, and of the first one none"),
    TL_F_END,
};
static const tl_desc desc = {
    .name = "vision_transformer",
    .help = "LiBai's vision transformer",
    .size = sizeof(tl_vision_transformer_config),
    .fields = fields,
    .check = check,
};

tli_vit_sizes tli_vision_transformer_sizes(const tl_vision_transformer_config *c)
{
    return (tli_vit_sizes){NULL, c->patch_size, c->embed_dim, mlp_units(c), c->num_heads, c->depth};
}

/* Its truncated normal numbers are cut at 100 deviations, and so normal; patches begin as a
 * convolution of PyTorch does, within the root of 1 / inputs. */
static tl_layer *make(tl_scope *s, const char *name, const void *config,
                      const tl_backbone_parts *parts)
{
    static const tl_normal_initializer small = {.stddev = TL_SET(0.02)};
    static const tl_variance_scaling root = {
        .scale = TL_SET(1.0 / 3), .mode = TL_FAN_IN, .distribution = TL_UNIFORM};
    const tl_vision_transformer_config *c = config;
    const tl_oneof normal = {.type = "random_normal", .value = (void *)(uintptr_t)&small};
    const tli_vit_ways ways = {
        .attention_output_rate = c->drop_rate,
        .kernel = normal,
        .token = normal,
        .position = normal,
        .patch = {.type = "variance_scaling", .value = (void *)(uintptr_t)&root}};
    const tli_vit_ways *kept = tl_arena_copy(tl_scope_arena(s), &ways, sizeof ways);
    void *made;
    if (!kept || tl_desc_new(&made, tl_scope_arena(s), tl_backbone_vit.cls.config) != TL_OK)
        return tl_scope_fail(s, name);
    tl_vit_config *v = made;
    v->model_name = NULL;
    v->hidden_size = c->embed_dim;
    v->patch_size = c->patch_size;
    v->transformer = (tl_vit_transformer){.mlp_dim = mlp_units(c),
                                          .num_heads = c->num_heads,
                                          .num_layers = c->depth,
                                          .attention_dropout_rate = c->attn_drop_rate,
                                          .dropout_rate = c->drop_rate};
    v->init_stochastic_depth_rate = c->drop_path_rate;
    v->stochastic_depth_from_zero = true;
    v->norm_epsilon = TLI_LIBAI_EPSILON;
    v->activation = TL_ACT_GELU;
    return tli_vit_make(s, name, v, parts, kept);
}

const tl_backbone_class tl_backbone_vision_transformer = {
    .cls = {.class_size = sizeof(tl_backbone_class),
            .name = "vision_transformer",
            .help = "LiBai's vision transformer",
            .config = &desc},
    .make = make,
};
