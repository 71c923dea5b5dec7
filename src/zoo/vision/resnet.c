/* Residual networks, laid out as in Model Garden: He et al. 2015, with the variants of its
 * configuration. */
#include <stdio.h>

#include <tilth/ops/elementwise.h>
#include <tilth/ops/pool.h>
#include <tilth/zoo/backbone.h>

#include "zoo/vision/conv_norm.h"
#include "zoo/vision/gate.h"

enum { STAGES = 4, BOTTLENECK_GROWTH = 4 };

/* --- variants --------------------------------------------------------------------------------- */

typedef struct variant {
    int64_t id;
    bool bottleneck;
    int64_t blocks[STAGES];
} variant;
static const variant variants[] = {
    {10, false, {1, 1, 1, 1}},   {18, false, {2, 2, 2, 2}},   {26, false, {3, 3, 3, 3}},
    {34, false, {3, 4, 6, 3}},   {50, true, {3, 4, 6, 3}},    {101, true, {3, 4, 23, 3}},
    {152, true, {3, 8, 36, 3}},  {200, true, {3, 24, 36, 3}}, {270, true, {4, 29, 53, 4}},
    {350, true, {4, 36, 72, 4}}, {420, true, {4, 44, 87, 4}},
};

static const variant *find_variant(int64_t id)
{
    for (int64_t i = 0; i < TL_COUNT(variants); i++)
        if (variants[i].id == id) return &variants[i];
    return NULL;
}

static tl_status check_resnet(const void *value)
{
    const tl_resnet_config *c = value;
    if (find_variant(c->model_id)) return TL_OK;
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
    TL_F_END,
};
static const tl_desc resnet_desc = {
    .name = "resnet",
    .help = "residual networks",
    .size = sizeof(tl_resnet_config),
    .fields = resnet_fields,
    .check = check_resnet,
};

/* What all parts of a network share. */
typedef struct shared {
    const tl_resnet_config *config;
    tl_backbone_parts parts;
} shared;

/* What a unit is made of: filters, kernel, stride, and whether the activation follows. */
typedef struct unit_config {
    const shared *all;
    int64_t filters, kernel, stride;
    bool active;
} unit_config;

static tl_layer *make_unit(tl_scope *s, const char *name, unit_config u)
{
    return tli_conv_norm(
        s, name,
        &(tli_conv_norm_config){.parts = u.all->parts,
                                .filters = u.filters,
                                .kernel = u.kernel,
                                .stride = u.stride,
                                .norm_frozen = !u.all->config->bn_trainable,
                                .activation = u.active ? u.all->parts.norm_activation->activation
                                                       : TL_ACT_NONE});
}

/* --- blocks ----------------------------------------------------------------------------------- */

typedef struct block_config {
    const shared *all;
    bool bottleneck, projection;
    int64_t filters, stride;
    double drop_rate;
} block_config;
typedef struct block {
    tl_layer base;
    const block_config *config;
    tl_layer *units[3], *shortcut, *gate, *depth;
} block;

/* Blocks of two convolutions keep the stride in their projection. */
static bool pools_shortcut(const block_config *c)
{
    return c->projection && c->bottleneck && c->all->config->resnetd_shortcut;
}

static tl_status block_build(tl_layer *l, tl_scope *s, const void *config)
{
    block *b = (block *)l;
    const block_config *c = b->config = config;
    const tl_resnet_config *r = c->all->config;
    int64_t outputs = c->bottleneck ? c->filters * BOTTLENECK_GROWTH : c->filters;
    if (c->projection)
        b->shortcut =
            make_unit(s, "shortcut",
                      (unit_config){c->all, outputs, 1, pools_shortcut(c) ? 1 : c->stride, false});
    if (c->bottleneck) {
        b->units[0] = make_unit(s, "conv_1", (unit_config){c->all, c->filters, 1, 1, true});
        b->units[1] = make_unit(s, "conv_2", (unit_config){c->all, c->filters, 3, c->stride, true});
        b->units[2] = make_unit(s, "conv_3", (unit_config){c->all, outputs, 1, 1, false});
    } else {
        b->units[0] = make_unit(s, "conv_1", (unit_config){c->all, c->filters, 3, c->stride, true});
        b->units[1] = make_unit(s, "conv_2", (unit_config){c->all, c->filters, 3, 1, false});
    }
    if (r->se_ratio > 0) {
        int64_t reduced = (int64_t)((double)outputs * r->se_ratio);
        b->gate = tli_gate(s, "gate",
                           &(tli_gate_config){.parts = c->all->parts,
                                              .reduced = reduced > 1 ? reduced : 1,
                                              .filters = outputs});
    }
    if (c->drop_rate > 0) b->depth = tl_stochastic_depth_layer(s, "depth", .rate = c->drop_rate);
    return tl_scope_status(s);
}

static tl_tensor *block_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    block *b = (block *)l;
    const block_config *k = b->config;
    tl_tensor *y = x;
    for (int i = 0; i < TL_COUNT(b->units) && b->units[i]; i++) y = tl_call(c, b->units[i], y);
    if (b->gate) y = tl_call(c, b->gate, y);
    if (b->depth) y = tl_call(c, b->depth, y);
    if (pools_shortcut(k))
        x = tl_avg_pool2d(c, x, .size = {2}, .stride = {k->stride}, .padding = TL_SAME);
    if (b->shortcut) x = tl_call(c, b->shortcut, x);
    return tl_activate(c, tl_add(c, y, x), k->all->parts.norm_activation->activation);
}

static const tl_layer_class block_class = {
    .cls = TL_CLASS(tl_layer_class, "residual_block", NULL, block, NULL),
    .build = block_build,
    .forward = block_forward,
};

/* --- the network ------------------------------------------------------------------------------ */

typedef struct resnet {
    tl_layer base;
    const shared *all;
    tl_layer *stem[3], *pool; /* pool: the convolution that stands for it */
    tl_layer *first_block;
} resnet;

static int64_t scaled(int64_t filters, double multiplier)
{
    int64_t n = (int64_t)((double)filters * multiplier);
    return n > 1 ? n : 1;
}

static void build_stem(resnet *r, tl_scope *s, const shared *all)
{
    const tl_resnet_config *c = all->config;
    double by = c->scale_stem ? c->depth_multiplier : 1;
    int64_t all_filters = scaled(64, by), half = scaled(32, by);
    if (c->stem_type == TL_STEM_V0) {
        r->stem[0] = make_unit(s, "stem", (unit_config){all, all_filters, 7, 2, true});
    } else if (c->stem_type == TL_STEM_CIFAR) {
        r->stem[0] = make_unit(s, "stem", (unit_config){all, all_filters, 3, 1, true});
    } else {
        r->stem[0] = make_unit(s, "stem_1", (unit_config){all, half, 3, 2, true});
        r->stem[1] = make_unit(s, "stem_2", (unit_config){all, half, 3, 1, true});
        r->stem[2] = make_unit(s, "stem_3", (unit_config){all, all_filters, 3, 1, true});
    }
    if (c->replace_stem_max_pool)
        r->pool = make_unit(s, "stem_pool",
                            (unit_config){all, scaled(64, c->depth_multiplier), 3, 2, true});
}

static tl_status build_stages(tl_scope *s, const shared *all)
{
    const variant *v = find_variant(all->config->model_id);
    for (int stage = 0; stage < STAGES; stage++) {
        for (int64_t i = 0; i < v->blocks[stage]; i++) {
            block_config *b = tl_arena_alloc(tl_scope_arena(s), sizeof *b);
            char *name = tl_arena_printf(tl_scope_arena(s), "stage_%d_block_%lld", stage + 1,
                                         (long long)i + 1);
            if (!b || !name) return TL_ENOMEM;
            *b = (block_config){
                .all = all,
                .bottleneck = v->bottleneck,
                .projection = i == 0,
                .filters = scaled((int64_t)64 << stage, all->config->depth_multiplier),
                .stride = i == 0 && stage > 0 ? 2 : 1,
                .drop_rate = all->config->stochastic_depth_drop_rate * (stage + 2) / (STAGES + 1)};
            (void)tl_scope_layer(s, name, &block_class, b);
        }
    }
    return tl_scope_status(s);
}

static tl_status resnet_build(tl_layer *l, tl_scope *s, const void *config)
{
    resnet *r = (resnet *)l;
    r->all = config;
    build_stem(r, s, config);
    tl_layer *before = l->last;
    TL_TRY(build_stages(s, config));
    r->first_block = before ? before->next : l->first;
    return TL_OK;
}

/* A stage is over before the first block of the next: its map is the endpoint of its level. */
static void resnet_forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    static const char *const levels[STAGES] = {"2", "3", "4", "5"};
    resnet *r = (resnet *)l;
    const variant *v = find_variant(r->all->config->model_id);
    tl_tensor *x = in->items[0].tensor, *maps[STAGES] = {NULL};
    for (int i = 0; i < TL_COUNT(r->stem) && r->stem[i]; i++) x = tl_call(c, r->stem[i], x);
    if (r->pool) x = tl_call(c, r->pool, x);
    else if (r->all->config->stem_type != TL_STEM_CIFAR)
        x = tl_max_pool2d(c, x, .size = {3}, .stride = {2}, .padding = TL_SAME);
    tl_layer *child = r->first_block;
    for (int stage = 0; stage < STAGES; stage++) {
        for (int64_t i = 0; i < v->blocks[stage]; i++, child = child->next)
            x = tl_call(c, child, x);
        maps[stage] = x;
    }
    tl_tensors_put(c, out, "features", x);
    for (int i = 0; i < STAGES; i++) tl_tensors_put(c, out, levels[i], maps[i]);
}

static const tl_layer_class resnet_class = {
    .cls = TL_CLASS(tl_layer_class, "resnet", NULL, resnet, NULL),
    .build = resnet_build,
    .forward_all = resnet_forward,
};

static tl_layer *make_resnet(tl_scope *s, const char *name, const void *config,
                             const tl_backbone_parts *parts)
{
    shared all = {config, *parts};
    shared *kept = tl_arena_copy(tl_scope_arena(s), &all, sizeof all);
    return kept ? tl_scope_layer(s, name, &resnet_class, kept) : NULL;
}

/* The stem of small images neither strides nor pools: levels are names there. */
static tl_levels resnet_levels(const void *config)
{
    (void)config;
    return (tl_levels){2, STAGES + 1};
}

/* --- names in Model Garden -------------------------------------------------------------------- */

typedef struct naming {
    tl_original_names *into;
    int64_t counted; /* layers of the network that have weights */
} naming;

/* A convolution and its batch norm, which are layers of the network by themselves. */
static tl_status name_stem(naming *n, const char *name)
{
    static const char *const parts[] = {"conv", "norm"};
    char ours[96], theirs[96];
    for (int i = 0; i < 2; i++) {
        snprintf(ours, sizeof ours, "backbone/%s/%s", name, parts[i]);
        snprintf(theirs, sizeof theirs, "backbone/layer_with_weights-%lld",
                 (long long)n->counted++);
        TL_TRY(tl_original_names_add(n->into, ours, theirs));
    }
    return TL_OK;
}

/* All of a block is one layer, its parts are attributes. */
static tl_status name_block(naming *n, const char *name, const tl_resnet_config *c, bool bottleneck,
                            bool projection)
{
    const struct part {
        const char *ours, *theirs;
        bool there;
    } parts[] = {
        {"shortcut/conv", bottleneck && c->resnetd_shortcut ? "_shortcut1" : "_shortcut",
         projection},
        {"shortcut/norm", "_norm0", projection},
        {"conv_1/conv", "_conv1", true},
        {"conv_1/norm", "_norm1", true},
        {"conv_2/conv", "_conv2", true},
        {"conv_2/norm", "_norm2", true},
        {"conv_3/conv", "_conv3", bottleneck},
        {"conv_3/norm", "_norm3", bottleneck},
        {"gate/reduce", "_squeeze_excitation/_se_reduce", c->se_ratio > 0},
        {"gate/expand", "_squeeze_excitation/_se_expand", c->se_ratio > 0},
    };
    char ours[128], theirs[128];
    for (int i = 0; i < TL_COUNT(parts); i++) {
        if (!parts[i].there) continue;
        snprintf(ours, sizeof ours, "backbone/%s/%s", name, parts[i].ours);
        snprintf(theirs, sizeof theirs, "backbone/layer_with_weights-%lld/%s",
                 (long long)n->counted, parts[i].theirs);
        TL_TRY(tl_original_names_add(n->into, ours, theirs));
    }
    n->counted++;
    return TL_OK;
}

static tl_status name_layers(const void *config, tl_original_names *into)
{
    static const char *const deep[] = {"stem_1", "stem_2", "stem_3"};
    const tl_resnet_config *c = config;
    const variant *v = find_variant(c->model_id);
    naming n = {into, 0};
    if (c->stem_type == TL_STEM_V1)
        for (int i = 0; i < TL_COUNT(deep); i++) TL_TRY(name_stem(&n, deep[i]));
    else TL_TRY(name_stem(&n, "stem"));
    if (c->replace_stem_max_pool) TL_TRY(name_stem(&n, "stem_pool"));
    for (int stage = 0; stage < STAGES; stage++)
        for (int64_t i = 0; i < v->blocks[stage]; i++) {
            char name[64];
            snprintf(name, sizeof name, "stage_%d_block_%lld", stage + 1, (long long)i + 1);
            TL_TRY(name_block(&n, name, c, v->bottleneck, i == 0));
        }
    return TL_OK;
}

const tl_backbone_class tl_backbone_resnet = {
    .cls = {.class_size = sizeof(tl_backbone_class),
            .name = "resnet",
            .help = "residual networks",
            .config = &resnet_desc},
    .make = make_resnet,
    .levels = resnet_levels,
    .original_names = name_layers,
};
