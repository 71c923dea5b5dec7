/* Vision transformers: Dosovitskiy et al. 2020, laid out as in Model Garden, with the variants of
 * its configuration. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tilth/base/log.h>
#include <tilth/ops/attention.h>
#include <tilth/ops/matmul.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>
#include <tilth/zoo/backbone.h>

#include "zoo/vision/conv_norm.h"
#include "zoo/vision/vit_parts.h"

/* --- configuration ---------------------------------------------------------------------------- */

const tli_vit_sizes tli_vit_models[] = {
    {"vit-ti16", 16, 192, 768, 3, 12},
    {"vit-s16", 16, 384, 1536, 6, 12},
    {"vit-b16", 16, 768, 3072, 12, 12},
    {"vit-b32", 32, 768, 3072, 12, 12},
    {"vit-l16", 16, 1024, 4096, 16, 24},
    {"vit-l32", 32, 1024, 4096, 16, 24},
    {"vit-h14", 14, 1280, 5120, 16, 32},
    {"vit-g14", 14, 1408, 5632, 16, 40},
    {"vit-G14", 14, 1664, 8192, 16, 48},
    {"vit-e14", 14, 1792, 15360, 16, 56},
    {NULL, 0, 0, 0, 0, 0},
};

static const tli_vit_sizes *find_model(const char *name)
{
    for (const tli_vit_sizes *m = tli_vit_models; m->name; m++)
        if (strcmp(m->name, name) == 0) return m;
    return NULL;
}

tli_vit_sizes tli_vit_sizes_of(const tl_vit_config *c)
{
    if (c->model_name) return *find_model(c->model_name);
    return (tli_vit_sizes){NULL,
                           c->patch_size,
                           c->hidden_size,
                           c->transformer.mlp_dim,
                           c->transformer.num_heads,
                           c->transformer.num_layers};
}

static tl_status check_vit(const void *value)
{
    const tl_vit_config *c = value;
    if (c->model_name && !find_model(c->model_name))
        return TL_FAIL(TL_EUNSUPPORTED,
                       "model_name: there is no '%.80s'; there are vit-ti16, vit-s16, vit-b16, "
                       "vit-b32, vit-l16, vit-l32, vit-h14, vit-g14, vit-G14, vit-e14, and null "
                       "for sizes of your own",
                       c->model_name);
    tli_vit_sizes z = tli_vit_sizes_of(c);
    if (z.hidden % z.heads)
        return TL_FAIL(TL_EINVAL,
                       "transformer.num_heads: %lld heads do not divide hidden_size, %lld",
                       (long long)z.heads, (long long)z.hidden);
    if (c->pos_embed_shape.count && c->pos_embed_shape.count != 2)
        return TL_FAIL(TL_EINVAL, "pos_embed_shape: expected [rows, columns], found %lld numbers",
                       (long long)c->pos_embed_shape.count);
    return TL_OK;
}

static const tl_field transformer_fields[] = {
    TL_F(tl_vit_transformer, mlp_dim, .i = 1, TL_RANGE(1, 1 << 20),
         .help = "units inside the dense layers; model_name overrides it"),
    TL_F(tl_vit_transformer, num_heads, .i = 1, TL_RANGE(1, 1 << 16),
         .help = "heads of the attention; model_name overrides it"),
    TL_F(tl_vit_transformer, num_layers, .i = 1, TL_RANGE(1, 1 << 16),
         .help = "blocks; model_name overrides it"),
    TL_F(tl_vit_transformer, attention_dropout_rate, TL_RANGE(0, 1),
         .help = "share dropped of the attention's weights, and of what it gives"),
    TL_F(tl_vit_transformer, dropout_rate, TL_RANGE(0, 1),
         .help = "share dropped of the tokens' numbers, and behind the dense layers"),
    TL_F_END,
};
static const tl_desc transformer_desc = {
    .name = "vit_transformer",
    .help = "the blocks of a vision transformer",
    .size = sizeof(tl_vit_transformer),
    .fields = transformer_fields,
};

#define OURS .flags = TL_FIELD_QUIET
static const char *const poolers[] = {"token", "gap", "none", NULL};
static const tl_field vit_fields[] = {
    TL_F(tl_vit_config, model_name, .s = "vit-b16", .flags = TL_FIELD_NULLABLE,
         .help = "vit-ti16, vit-s16, vit-b16, vit-b32, vit-l16, vit-l32, vit-h14, vit-g14, vit-G14 "
                 "or vit-e14: it sets hidden_size, patch_size and the sizes of transformer; null: "
                 "they are taken as they are"),
    TL_F(tl_vit_config, pooler, .names = poolers,
         .help = "what features are: token (a token of their own), gap (the mean of all tokens) or "
                 "none (all tokens)"),
    TL_F(tl_vit_config, representation_size, TL_RANGE(0, 1 << 20),
         .help = "units of a dense layer with tanh behind the pooling; 0: none"),
    TL_F(tl_vit_config, hidden_size, .i = 1, TL_RANGE(1, 1 << 20),
         .help = "numbers of a token; model_name overrides it"),
    TL_F(tl_vit_config, patch_size, .i = 16, TL_RANGE(1, 1 << 16),
         .help = "height and width of what becomes a token; model_name overrides it"),
    TL_F_STRUCT(tl_vit_config, transformer, &transformer_desc, .help = "the blocks"),
    TL_F(tl_vit_config, init_stochastic_depth_rate, TL_RANGE(0, 1),
         .help = "share of examples for which the parts of the last block are left out in "
                 "training, those of earlier ones less"),
    TL_F(tl_vit_config, original_init, .b = true,
         .help = "first values as in the paper; otherwise truncated normal numbers"),
    TL_F(tl_vit_config, pos_embed_shape, .flags = TL_FIELD_NULLABLE, TL_RANGE(1, 1 << 14),
         .help = "[rows, columns] that the table of positions has, whatever the image; it is "
                 "resized when it is used; null: those of the image"),
    TL_F(tl_vit_config, output_encoded_tokens, .b = true,
         .help = "pooler none gives the endpoint encoded_tokens"),
    TL_F(tl_vit_config, output_2d_feature_maps, .help = "gives the tokens as a map, too"),
    TL_F(tl_vit_config, layer_scale_init_value, TL_RANGE(0, 1e6),
         .help = "first value of a scale for each number behind each part; 0: no scales"),
    TL_F(tl_vit_config, transformer_partition_dims, .flags = TL_FIELD_NULLABLE | TL_FIELD_LATER,
         .help = "parts of tensors by replica"),
    TL_F(tl_vit_config, output_attention_scores,
         .help = "gives what the tokens of the last block look at: attention_scores"),
    TL_F(tl_vit_config, norm_epsilon, .d = 1e-6, OURS, TL_AT_LEAST(0),
         .help = "added to variances; LiBai's is 1e-5"),
    TL_F(tl_vit_config, activation, .i = TL_ACT_GELU_TANH, OURS, .names = tl_activation_names,
         .help = "inside the dense layers; that of PyTorch's is gelu"),
    TL_F(tl_vit_config, stochastic_depth_from_zero, OURS,
         .help = "the first block is never left out, as in LiBai; otherwise it is left out at "
                 "1 / num_layers of the rate"),
    TL_F_END,
};
static const tl_desc vit_desc = {
    .name = "vit",
    .help = "vision transformers",
    .size = sizeof(tl_vit_config),
    .fields = vit_fields,
    .check = check_vit,
};

/* --- the network ------------------------------------------------------------------------------ */

typedef struct given {
    const tl_vit_config *config;
    tl_backbone_parts parts;
    tli_vit_sizes size;
    const tli_vit_ways *ways; /* NULL: Model Garden's */
} given;
typedef struct vit {
    tl_layer base;
    const given *given;
    tl_layer *patch, *token, *position, *first_block, *norm, *pre_logits;
} vit;

static double drop_rate(const tl_vit_config *c, int64_t i, int64_t layers)
{
    if (!c->stochastic_depth_from_zero)
        return c->init_stochastic_depth_rate * (double)(i + 1) / (double)layers;
    return layers > 1 ? c->init_stochastic_depth_rate * (double)i / (double)(layers - 1) : 0;
}

static tl_status build_blocks(vit *v, tl_scope *s)
{
    static const tl_normal_initializer small = {.stddev = TL_SET(0.02)};
    const tl_vit_config *c = v->given->config;
    const tli_vit_sizes *z = &v->given->size;
    const tli_vit_ways *w = v->given->ways;
    tl_layer *before = v->base.last;
    for (int64_t i = 0; i < z->layers; i++) {
        char *name = tl_arena_printf(tl_scope_arena(s), "layer_%lld", (long long)i);
        if (!name) return TL_ENOMEM;
        tli_vit_block_config block = {
            .hidden_size = z->hidden,
            .heads = z->heads,
            .mlp_dim = z->mlp,
            .dropout_rate = c->transformer.dropout_rate,
            .attention_dropout_rate = c->transformer.attention_dropout_rate,
            // As in Model Garden the rate of weights counts for what they give, too.
            .attention_output_rate =
                w ? w->attention_output_rate : c->transformer.attention_dropout_rate,
            .activation = c->activation,
            .drop_rate = drop_rate(c, i, z->layers),
            .norm_epsilon = c->norm_epsilon,
            .layer_scale = c->layer_scale_init_value,
            .gives_scores = c->output_attention_scores && i == z->layers - 1,
            .kernel_initializer = {.type = "truncated_normal", .value = (void *)(uintptr_t)&small}};
        if (c->original_init) block.kernel_initializer = (tl_oneof){.type = "glorot_uniform"};
        if (w) block.kernel_initializer = w->kernel;
        (void)tli_vit_block(s, name, &block);
    }
    v->first_block = before->next;
    return tl_scope_status(s);
}

static tl_status vit_build(tl_layer *l, tl_scope *s, const void *config)
{
    vit *v = (vit *)l;
    const given *g = v->given = config;
    const tl_vit_config *c = g->config;
    const tl_ints *shape = &c->pos_embed_shape;
    static const tl_normal_initializer small = {.stddev = TL_SET(0.02)};
    tl_oneof initializer = {.type = c->original_init ? "lecun_normal" : "he_uniform"};
    tli_vit_position_config position = {
        .token = c->pooler == TL_VIT_TOKEN,
        .initializer = {.type = "random_normal", .value = (void *)(uintptr_t)&small}};
    if (g->ways) initializer = g->ways->patch, position.initializer = g->ways->position;
    if (shape->count) position.rows = shape->items[0], position.cols = shape->items[1];
    v->patch = tl_conv2d(s, "patch", .filters = g->size.hidden, .kernel = g->size.patch,
                         .stride = g->size.patch, .kernel_initializer = initializer,
                         .kernel_regularizer = tli_penalty(&g->parts));
    if (c->pooler == TL_VIT_TOKEN)
        v->token = tli_vit_token(s, "token", g->ways ? &g->ways->token : NULL);
    v->position = tli_vit_position(s, "position", &position);
    TL_TRY(tl_scope_status(s));
    TL_TRY(build_blocks(v, s));
    v->norm = tl_layer_norm(s, "norm", .epsilon = TL_SET(c->norm_epsilon));
    if (c->representation_size)
        v->pre_logits = tl_dense(s, "pre_logits", .units = c->representation_size,
                                 .activation = TL_ACT_TANH, .kernel_initializer = initializer,
                                 .kernel_regularizer = tli_penalty(&g->parts));
    return tl_scope_status(s);
}

/* Patches as tokens, with their positions. */
static tl_tensor *make_tokens(vit *v, tl_ctx *c, tl_tensor *map)
{
    tl_tensors in = {0}, out = {0};
    tl_tensor *x = tl_reshape(
        c, map, TL_SHAPE(map->shape.dims[0], map->shape.dims[1] * map->shape.dims[2], -1));
    if (v->token) x = tl_call(c, v->token, x);
    tl_tensors_put(c, &in, "x", x);
    tl_tensors_put(c, &in, "map", map);
    tl_call_all(c, v->position, &in, &out);
    if (tl_ctx_failed(c)) return NULL;
    return tl_dropout(c, out.items[0].tensor, v->given->config->transformer.dropout_rate);
}

static tl_tensor *call_blocks(vit *v, tl_ctx *c, tl_tensor *x, tl_tensor **scores)
{
    tl_layer *block = v->first_block;
    for (int64_t i = 0; x && i < v->given->size.layers; i++, block = block->next) {
        tl_tensors in = {0}, out = {0};
        tl_tensors_put(c, &in, "x", x);
        tl_call_all(c, block, &in, &out);
        if (tl_ctx_failed(c)) return NULL;
        x = out.items[0].tensor;
        *scores = tl_tensors_peek(&out, "scores");
    }
    return x ? tl_call(c, v->norm, x) : NULL;
}

static int level_of(const tl_vit_config *c)
{
    return (int)lround(log2((double)tli_vit_sizes_of(c).patch));
}

/* Of the tokens of patches, in rows. */
static tl_tensor *as_map(tl_ctx *c, tl_tensor *x, const tl_shape *grid)
{
    return tl_reshape(c, x, TL_SHAPE(grid->dims[0], grid->dims[1], grid->dims[2], -1));
}

static void vit_forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    static const char *const levels[] = {"0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                         "9", "10", "11", "12", "13", "14", "15", "16"};
    vit *v = (vit *)l;
    const tl_vit_config *k = v->given->config;
    tl_tensor *map = tl_call(c, v->patch, in->items[0].tensor), *scores = NULL;
    if (!map) return;
    const tl_shape grid = map->shape;
    tl_tensor *x = make_tokens(v, c, map);
    x = x ? call_blocks(v, c, x, &scores) : NULL;
    if (!x) return;
    tl_tensor *patches = x, *features = x;
    if (k->pooler == TL_VIT_TOKEN) {
        patches = tl_slice(c, x, 1, 1, x->shape.dims[1], 1);
        features = tl_take(c, x, 1, 0);
    } else if (k->pooler == TL_VIT_GAP) {
        features = tl_mean(c, x, TL_AXES(1), false);
    }
    if (v->pre_logits) features = tl_call(c, v->pre_logits, features);
    if (k->pooler == TL_VIT_NONE) {
        tl_tensors_put(c, out, "features", as_map(c, features, &grid));
        if (k->output_encoded_tokens) tl_tensors_put(c, out, "encoded_tokens", features);
    } else {
        tl_tensors_put(c, out, "features",
                       tl_reshape(c, features, TL_SHAPE(grid.dims[0], 1, 1, -1)));
    }
    if (k->output_2d_feature_maps)
        tl_tensors_put(c, out, levels[level_of(k)], as_map(c, patches, &grid));
    if (k->output_attention_scores) tl_tensors_put(c, out, "attention_scores", scores);
}

static const tl_layer_class vit_class = {
    .cls = TL_CLASS(tl_layer_class, "vit", NULL, vit, NULL),
    .build = vit_build,
    .forward_all = vit_forward,
};

/* What was written there is lost, as in Model Garden; there it is lost without a word. */
static void warn_of_lost(const tl_vit_config *c, const tli_vit_sizes *z)
{
    const struct {
        const char *key;
        int64_t given, otherwise, used;
    } all[] = {
        {"hidden_size", c->hidden_size, 1, z->hidden},
        {"patch_size", c->patch_size, 16, z->patch},
        {"transformer.mlp_dim", c->transformer.mlp_dim, 1, z->mlp},
        {"transformer.num_heads", c->transformer.num_heads, 1, z->heads},
        {"transformer.num_layers", c->transformer.num_layers, 1, z->layers},
    };
    for (int i = 0; c->model_name && i < TL_COUNT(all); i++)
        if (all[i].given != all[i].otherwise && all[i].given != all[i].used)
            TL_LOG_WARNING("model.backbone.vit.%s is %lld, and model_name %s makes it %lld; set "
                           "model_name to null for sizes of your own",
                           all[i].key, (long long)all[i].given, c->model_name,
                           (long long)all[i].used);
}

tl_layer *tli_vit_make(tl_scope *s, const char *name, const tl_vit_config *config,
                       const tl_backbone_parts *parts, const tli_vit_ways *ways)
{
    given g = {config, *parts, tli_vit_sizes_of(config), ways};
    const given *kept = tl_arena_copy(tl_scope_arena(s), &g, sizeof g);
    return kept ? tl_scope_layer(s, name, &vit_class, kept) : NULL;
}

static tl_layer *make_vit(tl_scope *s, const char *name, const void *config,
                          const tl_backbone_parts *parts)
{
    const tli_vit_sizes size = tli_vit_sizes_of(config);
    warn_of_lost(config, &size);
    return tli_vit_make(s, name, config, parts, NULL);
}

static tl_levels vit_levels(const void *config)
{
    const tl_vit_config *c = config;
    if (!c->output_2d_feature_maps) return (tl_levels){1, 0};
    return (tl_levels){level_of(c), level_of(c)};
}

/* --- names in Model Garden -------------------------------------------------------------------- */

typedef struct pair {
    const char *ours, *theirs;
} pair;

static tl_status name_block(tl_original_names *into, const tl_vit_config *c, int encoder, int64_t i)
{
    static const pair parts[] = {
        {"self_attention/query", "_attention_layer/_query_dense"},
        {"self_attention/key", "_attention_layer/_key_dense"},
        {"self_attention/value", "_attention_layer/_value_dense"},
        {"self_attention/attention_output", "_attention_layer/_output_dense"},
        {"self_attention_layer_norm", "_attention_layer_norm"},
        {"intermediate", "_intermediate_dense"},
        {"output", "_output_dense"},
        {"output_layer_norm", "_output_layer_norm"},
        {"layer_scale_attn", "_layer_scale_attn"},
        {"layer_scale_mlp", "_layer_scale_mlp"},
    };
    char ours[128], theirs[128];
    int count = TL_COUNT(parts) - (c->layer_scale_init_value != 0 ? 0 : 2);
    for (int k = 0; k < count; k++) {
        snprintf(ours, sizeof ours, "backbone/layer_%lld/%s", (long long)i, parts[k].ours);
        snprintf(theirs, sizeof theirs, "backbone/layer_with_weights-%d/_encoder_layers/%lld/%s",
                 encoder, (long long)i, parts[k].theirs);
        TL_TRY(tl_original_names_add(into, ours, theirs));
    }
    return TL_OK;
}

static tl_status name_layer(tl_original_names *into, const char *ours, int number,
                            const char *theirs)
{
    char path[96];
    snprintf(path, sizeof path, "backbone/layer_with_weights-%d%s", number, theirs);
    return tl_original_names_add(into, ours, path);
}

/* The encoder is one layer, from the positions to the last norm. */
static tl_status name_layers(const void *config, tl_original_names *into)
{
    const tl_vit_config *c = config;
    const tli_vit_sizes z = tli_vit_sizes_of(c);
    int number = 0;
    if (c->activation != TL_ACT_GELU_TANH)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "Model Garden has no vision transformer with the "
                       "activation %s, which is that of others",
                       tl_activation_names[c->activation]);
    TL_TRY(name_layer(into, "backbone/patch", number++, ""));
    if (c->pooler == TL_VIT_TOKEN) TL_TRY(name_layer(into, "backbone/token", number++, ""));
    TL_TRY(name_layer(into, "backbone/position", number, "/_pos_embed"));
    for (int64_t i = 0; i < z.layers; i++) TL_TRY(name_block(into, c, number, i));
    TL_TRY(name_layer(into, "backbone/norm", number++, "/_norm"));
    return c->representation_size ? name_layer(into, "backbone/pre_logits", number, "") : TL_OK;
}

const tl_backbone_class tl_backbone_vit = {
    .cls = {.class_size = sizeof(tl_backbone_class),
            .name = "vit",
            .help = "vision transformers",
            .config = &vit_desc},
    .make = make_vit,
    .levels = vit_levels,
    .original_names = name_layers,
};
