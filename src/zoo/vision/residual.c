#include "zoo/vision/residual.h"

#include <stdio.h>
#include <string.h>

#include <tilth/ops/elementwise.h>
#include <tilth/ops/pool.h>

#include "zoo/vision/conv_norm.h"
#include "zoo/vision/gate.h"

enum { LEVELS = 8 };

static const tli_resnet_variant variants[] = {
    {10, false, {1, 1, 1, 1}},   {18, false, {2, 2, 2, 2}},   {26, false, {3, 3, 3, 3}},
    {34, false, {3, 4, 6, 3}},   {50, true, {3, 4, 6, 3}},    {101, true, {3, 4, 23, 3}},
    {152, true, {3, 8, 36, 3}},  {200, true, {3, 24, 36, 3}}, {270, true, {4, 29, 53, 4}},
    {350, true, {4, 36, 72, 4}}, {420, true, {4, 44, 87, 4}},
};

const tli_resnet_variant *tli_resnet_find(int64_t id)
{
    for (int64_t i = 0; i < TL_COUNT(variants); i++)
        if (variants[i].id == id) return &variants[i];
    return NULL;
}

tli_residual_plan *tli_residual_plan_new(tl_arena *arena, int64_t stages)
{
    size_t bytes = sizeof(tli_residual_plan) + (size_t)stages * sizeof(tli_residual_stage);
    tli_residual_plan *plan = tl_arena_alloc(arena, bytes);
    if (!plan) return NULL;
    memset(plan, 0, bytes);
    plan->count = stages;
    return plan;
}

/* What a unit is made of: filters, kernel, stride, dilation, and whether the activation follows. */
typedef struct unit {
    int64_t filters, kernel, stride, dilation;
    bool active;
} unit;

static tl_layer *make_unit(tl_scope *s, const char *name, const tli_residual_plan *p, unit u)
{
    return tli_conv_norm(
        s, name,
        &(tli_conv_norm_config){.parts = p->parts,
                                .filters = u.filters,
                                .kernel = u.kernel,
                                .stride = u.stride,
                                .dilation = u.dilation,
                                .symmetric = p->symmetric_padding,
                                .norm_frozen = p->norm_frozen,
                                .activation =
                                    u.active ? p->parts.norm_activation->activation : TL_ACT_NONE});
}

/* --- blocks ----------------------------------------------------------------------------------- */

typedef struct block_config {
    const tli_residual_plan *plan;
    const tli_residual_stage *stage;
    int64_t index; /* in its stage; the first usually has a projection */
} block_config;
typedef struct block {
    tl_layer base;
    const block_config *config;
    tl_layer *units[3], *shortcut, *gate, *depth;
} block;

static int64_t stride_of(const block_config *c)
{
    return c->index == 0 ? c->stage->stride : 1;
}

static int64_t dilation_of(const block_config *c)
{
    int64_t dilation = c->stage->dilation ? c->stage->dilation : 1;
    return c->stage->multigrid ? dilation * c->stage->multigrid[c->index] : dilation;
}

/* Blocks of two convolutions keep the stride in their projection. */
static bool pools_shortcut(const block_config *c)
{
    return c->index == 0 && c->plan->bottleneck && c->plan->resnetd_shortcut;
}

static tl_status block_build(tl_layer *l, tl_scope *s, const void *config)
{
    block *b = (block *)l;
    const block_config *c = b->config = config;
    const tli_residual_plan *p = c->plan;
    int64_t filters = c->stage->filters, stride = stride_of(c), dilation = dilation_of(c);
    int64_t outputs = p->bottleneck ? filters * TLI_BOTTLENECK_GROWTH : filters;
    if (c->index == 0 && !c->stage->identity)
        b->shortcut = make_unit(s, "shortcut", p,
                                (unit){outputs, 1, pools_shortcut(c) ? 1 : stride, 1, false});
    if (p->bottleneck) {
        b->units[0] = make_unit(s, "conv_1", p, (unit){filters, 1, 1, 1, true});
        b->units[1] = make_unit(s, "conv_2", p, (unit){filters, 3, stride, dilation, true});
        b->units[2] = make_unit(s, "conv_3", p, (unit){outputs, 1, 1, 1, false});
    } else {
        b->units[0] = make_unit(s, "conv_1", p, (unit){filters, 3, stride, 1, true});
        b->units[1] = make_unit(s, "conv_2", p, (unit){filters, 3, 1, 1, false});
    }
    if (p->se_ratio > 0) {
        int64_t reduced = (int64_t)((double)outputs * p->se_ratio);
        b->gate = tli_gate(s, "gate",
                           &(tli_gate_config){.parts = p->parts,
                                              .reduced = reduced > 1 ? reduced : 1,
                                              .filters = outputs});
    }
    if (c->stage->drop_rate > 0)
        b->depth = tl_stochastic_depth_layer(s, "depth", .rate = c->stage->drop_rate);
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
        x = tl_avg_pool2d(c, x, .size = {2}, .stride = {stride_of(k)}, .padding = TL_SAME);
    if (b->shortcut) x = tl_call(c, b->shortcut, x);
    return tl_activate(c, tl_add(c, y, x), k->plan->parts.norm_activation->activation);
}

static const tl_layer_class block_class = {
    .cls = TL_CLASS(tl_layer_class, "residual_block", NULL, block, NULL),
    .build = block_build,
    .forward = block_forward,
};

/* --- the network ------------------------------------------------------------------------------ */

typedef struct network {
    tl_layer base;
    const tli_residual_plan *plan;
    tl_layer *stem[3], *pool; /* pool: the convolution that stands for it */
    tl_layer *first_block;
} network;

static void build_stem(network *n, tl_scope *s)
{
    const tli_residual_plan *p = n->plan;
    const tli_residual_stem *stem = &p->stem;
    if (stem->type == TL_STEM_V0) {
        n->stem[0] = make_unit(s, "stem", p, (unit){stem->filters, 7, 2, 1, true});
    } else if (stem->type == TL_STEM_CIFAR) {
        n->stem[0] = make_unit(s, "stem", p, (unit){stem->filters, 3, 1, 1, true});
    } else {
        n->stem[0] = make_unit(s, "stem_1", p, (unit){stem->first, 3, 2, 1, true});
        n->stem[1] = make_unit(s, "stem_2", p, (unit){stem->first, 3, 1, 1, true});
        n->stem[2] = make_unit(s, "stem_3", p, (unit){stem->filters, 3, 1, 1, true});
    }
    if (stem->pool) n->pool = make_unit(s, "stem_pool", p, (unit){stem->pool, 3, 2, 1, true});
}

static tl_status build_stages(network *n, tl_scope *s)
{
    const tli_residual_plan *p = n->plan;
    for (int64_t stage = 0; stage < p->count; stage++) {
        for (int64_t i = 0; i < p->stages[stage].blocks; i++) {
            block_config b = {p, &p->stages[stage], i};
            const block_config *kept = tl_arena_copy(tl_scope_arena(s), &b, sizeof b);
            char *name = tl_arena_printf(tl_scope_arena(s), "stage_%lld_block_%lld",
                                         (long long)stage + 1, (long long)i + 1);
            if (!kept || !name) return TL_ENOMEM;
            (void)tl_scope_layer(s, name, &block_class, kept);
        }
    }
    return tl_scope_status(s);
}

static tl_status network_build(tl_layer *l, tl_scope *s, const void *config)
{
    network *n = (network *)l;
    n->plan = config;
    build_stem(n, s);
    tl_layer *before = l->last;
    TL_TRY(build_stages(n, s));
    n->first_block = before ? before->next : l->first;
    return TL_OK;
}

/* A stage is over before the first block of the next: its map is the endpoint of its level. */
static void network_forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    static const char *const names[LEVELS] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    network *n = (network *)l;
    const tli_residual_plan *p = n->plan;
    tl_tensor *x = in->items[0].tensor, *maps[LEVELS] = {NULL};
    for (int i = 0; i < TL_COUNT(n->stem) && n->stem[i]; i++) x = tl_call(c, n->stem[i], x);
    int64_t around = p->symmetric_padding;
    if (n->pool) x = tl_call(c, n->pool, x);
    else if (p->stem.type != TL_STEM_CIFAR)
        x = tl_max_pool2d(c, x, .size = {3}, .stride = {2},
                          .padding = around ? TL_EXPLICIT : TL_SAME,
                          .pads = {around, around, around, around});
    tl_layer *child = n->first_block;
    for (int64_t stage = 0; stage < p->count; stage++) {
        for (int64_t i = 0; i < p->stages[stage].blocks; i++, child = child->next)
            x = tl_call(c, child, x);
        maps[p->stages[stage].level] = x;
    }
    tl_tensors_put(c, out, "features", x);
    for (int i = 0; i < LEVELS; i++)
        if (maps[i]) tl_tensors_put(c, out, names[i], maps[i]);
}

static const tl_layer_class network_class = {
    .cls = TL_CLASS(tl_layer_class, "residual_network", NULL, network, NULL),
    .build = network_build,
    .forward_all = network_forward,
};

tl_layer *tli_residual_network(tl_scope *s, const char *name, const tli_residual_plan *plan)
{
    return tl_scope_layer(s, name, &network_class, plan);
}

/* --- names in Model Garden -------------------------------------------------------------------- */

typedef struct naming {
    const tli_residual_plan *plan;
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
static tl_status name_block(naming *n, const char *name, bool projection)
{
    const tli_residual_plan *p = n->plan;
    const struct part {
        const char *ours, *theirs;
        bool there;
    } parts[] = {
        {"shortcut/conv", p->bottleneck && p->resnetd_shortcut ? "_shortcut1" : "_shortcut",
         projection},
        {"shortcut/norm", "_norm0", projection},
        {"conv_1/conv", "_conv1", true},
        {"conv_1/norm", "_norm1", true},
        {"conv_2/conv", "_conv2", true},
        {"conv_2/norm", "_norm2", true},
        {"conv_3/conv", "_conv3", p->bottleneck},
        {"conv_3/norm", "_norm3", p->bottleneck},
        {"gate/reduce", "_squeeze_excitation/_se_reduce", p->se_ratio > 0},
        {"gate/expand", "_squeeze_excitation/_se_expand", p->se_ratio > 0},
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

tl_status tli_residual_names(const tli_residual_plan *plan, tl_original_names *into)
{
    static const char *const deep[] = {"stem_1", "stem_2", "stem_3"};
    naming n = {plan, into, 0};
    if (plan->stem.type == TL_STEM_V1)
        for (int i = 0; i < TL_COUNT(deep); i++) TL_TRY(name_stem(&n, deep[i]));
    else TL_TRY(name_stem(&n, "stem"));
    if (plan->stem.pool) TL_TRY(name_stem(&n, "stem_pool"));
    for (int64_t stage = 0; stage < plan->count; stage++)
        for (int64_t i = 0; i < plan->stages[stage].blocks; i++) {
            char name[64];
            snprintf(name, sizeof name, "stage_%lld_block_%lld", (long long)stage + 1,
                     (long long)i + 1);
            TL_TRY(name_block(&n, name, i == 0 && !plan->stages[stage].identity));
        }
    return TL_OK;
}
