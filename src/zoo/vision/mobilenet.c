/* MobileNets, laid out as in Model Garden. */
#include <stdio.h>

#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/zoo/backbone.h>

#include "zoo/vision/conv_norm.h"
#include "zoo/vision/gate.h"
#include "zoo/vision/mobilenet_tables.h"

enum { FIRST_LEVEL = 2, LEVELS = 8 };

/* --- configuration ---------------------------------------------------------------------------- */

static tl_status check_mobilenet(const void *value)
{
    const tl_mobilenet_config *c = value;
    const tli_mobilenet *network = tli_mobilenet_find(c->model_id);
    int64_t stride = c->output_stride.value;
    if (!network)
        return TL_FAIL(TL_EUNSUPPORTED, "model_id: there is no '%.80s'; there are %s", c->model_id,
                       tli_mobilenet_names);
    if (!c->output_stride.set) return TL_OK;
    if (network->divisor == 1 && stride != 8 && stride != 16 && stride != 32)
        return TL_FAIL(TL_EINVAL, "output_stride: of MobileNetV1 it is 8, 16, 32 or null");
    if (stride > 1 && stride % 2)
        return TL_FAIL(TL_EINVAL, "output_stride: it is null, 1 or even, not %lld",
                       (long long)stride);
    return TL_OK;
}

static const tl_field mobilenet_fields[] = {
    TL_F(tl_mobilenet_config, model_id, .s = "MobileNetV2",
         .help = "MobileNetV1, MobileNetV2, MobileNetV3Large, MobileNetV3Small, "
                 "MobileNetV3SmallReducedFilters or MobileNetV3EdgeTPU"),
    TL_F(tl_mobilenet_config, filter_size_scale, .d = 1, TL_RANGE(1e-3, 1e3),
         .help = "of all numbers of filters; below 1 that of the last layer stays, but for V1"),
    TL_F(tl_mobilenet_config, stochastic_depth_drop_rate, TL_RANGE(0, 1),
         .help = "share of examples for which blocks are left out in training"),
    TL_F(tl_mobilenet_config, flat_stochastic_depth_drop_rate, .b = true,
         .help = "for all blocks alike; otherwise for the last ones, and for earlier ones less"),
    TL_F(tl_mobilenet_config, output_stride, TL_AT_LEAST(1),
         .help = "how much smaller than the image maps become at most; beyond it convolutions are "
                 "dilated; null: no limit"),
    TL_F(tl_mobilenet_config, output_intermediate_endpoints,
         .help = "gives the maps inside the blocks of the levels too: 2/depthwise"),
    TL_F(tl_mobilenet_config, symmetric_padding, .flags = TL_FIELD_QUIET,
         .help = "pad images alike on both sides, as PyTorch does; otherwise what is odd goes to "
                 "the end, as in TensorFlow"),
    TL_F_END,
};
static const tl_desc mobilenet_desc = {
    .name = "mobilenet",
    .help = "small networks of convolutions by channel",
    .size = sizeof(tl_mobilenet_config),
    .fields = mobilenet_fields,
    .check = check_mobilenet,
};

/* --- the plan: what each block becomes -------------------------------------------------------- */

/* A block of the table as a configuration has it. */
typedef struct planned {
    const tli_mobile_block *block;
    const tl_mobilenet_config *config;
    tl_backbone_parts parts;
    int64_t inputs, expanded, filters, divisor;
    int64_t stride, dilation;
    double drop_rate;
    int level; /* of the endpoint that its map is; 0: none */
} planned;

/* The nearest multiple of `divisor` that is at least `least` and not much smaller. */
static int64_t make_divisible(double value, int64_t divisor, int64_t least)
{
    int64_t nearest = (int64_t)(value + (double)divisor / 2) / divisor * divisor;
    if (nearest < least) nearest = least;
    return (double)nearest < 0.9 * value ? nearest + divisor : nearest;
}

/* What is reached while blocks are planned one after the other. */
typedef struct progress {
    const tl_mobilenet_config *config;
    const tli_mobilenet *network;
    int64_t stride, rate; /* of the map, and of the convolutions that keep it */
    int64_t channels;
    int level; /* of the next endpoint */
} progress;

static int64_t filters_of(const progress *p, int64_t i)
{
    double filters = (double)p->network->blocks[i].filters, scale = p->config->filter_size_scale;
    bool stays = i == p->network->count - 1 && p->network->divisor > 1 && scale < 1;
    return make_divisible((stays ? filters / scale : filters) * scale, p->network->divisor, 8);
}

/* Where the map must not become smaller, blocks dilate in place of their stride. As in Model Garden
 * inverted blocks that would have had a stride dilate already, others only behind it. */
static void plan_stride(progress *p, planned *out)
{
    const tli_mobile_block *b = out->block;
    const tl_opt_int limit = p->config->output_stride;
    int64_t stride = b->stride ? b->stride : 1;
    out->stride = stride;
    out->dilation = 1;
    if (!limit.set || p->stride != limit.value) {
        p->stride *= stride;
        return;
    }
    int64_t before = p->rate;
    p->rate *= stride;
    if (b->kind != TLI_MOBILE_CONV) out->stride = 1;
    out->dilation = b->kind == TLI_MOBILE_INVERTED && before == 1 ? p->rate : before;
}

/* Endpoints of one level replace each other: the last of them counts. */
static void plan_level(progress *p, planned *out)
{
    const tl_opt_int limit = p->config->output_stride;
    if (!out->block->is_level) return;
    out->level = p->level;
    if (!limit.set || p->stride != limit.value) p->level++;
}

static planned plan_block(progress *p, int64_t i)
{
    const tl_mobilenet_config *c = p->config;
    planned out = {.block = &p->network->blocks[i],
                   .config = c,
                   .inputs = p->channels,
                   .divisor = p->network->divisor,
                   .drop_rate = c->stochastic_depth_drop_rate};
    if (!c->flat_stochastic_depth_drop_rate)
        out.drop_rate *= (double)(i + 1) / (double)p->network->count;
    plan_stride(p, &out);
    plan_level(p, &out);
    if (out.block->kind == TLI_MOBILE_POOL) return out;
    out.filters = p->channels = filters_of(p, i);
    out.expanded = make_divisible((double)out.inputs * out.block->expand, out.divisor, out.divisor);
    return out;
}

static progress plan_begin(const tl_mobilenet_config *c)
{
    return (progress){.config = c,
                      .network = tli_mobilenet_find(c->model_id),
                      .stride = 1,
                      .rate = 1,
                      .level = FIRST_LEVEL};
}

/* --- blocks ----------------------------------------------------------------------------------- */

/* Those of up to three convolutions; "depthwise" is what comes out of the one by channel. */
typedef struct block {
    tl_layer base;
    const planned *plan;
    tl_layer *expand, *depthwise, *gate, *project, *depth;
} block;

static bool expands(const planned *p)
{
    return p->block->kind == TLI_MOBILE_INVERTED && p->block->expand > 1;
}

static bool is_depthwise(const planned *p)
{
    return p->block->kind == TLI_MOBILE_SEPARABLE
           || (p->block->kind == TLI_MOBILE_INVERTED && !p->block->fused);
}

/* Without an expansion the channels are those that came in. */
static int64_t inner_channels(const planned *p)
{
    return expands(p) ? p->expanded : p->inputs;
}

static bool is_residual(const planned *p)
{
    return p->block->kind == TLI_MOBILE_INVERTED && !p->block->no_residual && p->stride == 1
           && p->inputs == p->filters;
}

static tl_layer *make_unit(tl_scope *s, const char *name, const planned *p,
                           tli_conv_norm_config unit)
{
    unit.parts = p->parts;
    unit.symmetric = p->config->symmetric_padding;
    return tli_conv_norm(s, name, &unit);
}

static tl_status block_build(tl_layer *l, tl_scope *s, const void *config)
{
    block *b = (block *)l;
    const planned *p = b->plan = config;
    const tli_mobile_block *t = p->block;
    bool separable = t->kind == TLI_MOBILE_SEPARABLE;
    // Model Garden's argument of separable blocks has a name that Keras passes over.
    tl_oneof initializer = {.type = separable ? "glorot_uniform" : "variance_scaling"};
    if (expands(p))
        b->expand = make_unit(s, "expand", p,
                              (tli_conv_norm_config){.filters = p->expanded,
                                                     .kernel = t->fused ? t->kernel : 1,
                                                     .stride = t->fused ? p->stride : 1,
                                                     .activation = t->activation});
    if (is_depthwise(p))
        b->depthwise = make_unit(s, "depthwise", p,
                                 (tli_conv_norm_config){.kernel = t->kernel,
                                                        .stride = p->stride,
                                                        .dilation = p->dilation,
                                                        .depthwise = true,
                                                        .activation = t->activation,
                                                        .kernel_initializer = initializer});
    if (t->squeeze > 0) {
        int64_t reduced = (int64_t)((double)p->expanded * t->squeeze);
        if (reduced < 1) reduced = 1;
        b->gate = tli_gate(
            s, "gate",
            &(tli_gate_config){.parts = p->parts,
                               .reduced = make_divisible((double)reduced, p->divisor, p->divisor),
                               .filters = inner_channels(p),
                               .hard = true});
    }
    b->project =
        make_unit(s, "project", p,
                  (tli_conv_norm_config){.filters = p->filters,
                                         .kernel = 1,
                                         .activation = separable ? t->activation : TL_ACT_NONE});
    if (is_residual(p) && p->drop_rate > 0)
        b->depth = tl_stochastic_depth_layer(s, "depth", .rate = p->drop_rate);
    return tl_scope_status(s);
}

static void block_forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    block *b = (block *)l;
    tl_tensor *x = in->items[0].tensor, *y = x, *inside = NULL;
    if (b->expand) y = tl_call(c, b->expand, y);
    if (b->depthwise) inside = y = tl_call(c, b->depthwise, y);
    if (b->gate) y = tl_call(c, b->gate, y);
    y = tl_call(c, b->project, y);
    if (b->depth) y = tl_call(c, b->depth, y);
    if (is_residual(b->plan)) y = tl_add(c, y, x);
    tl_tensors_put(c, out, "y", y);
    if (inside) tl_tensors_put(c, out, "depthwise", inside);
}

static const tl_layer_class block_class = {
    .cls = TL_CLASS(tl_layer_class, "mobile_block", NULL, block, NULL),
    .build = block_build,
    .forward_all = block_forward,
};

/* --- the network ------------------------------------------------------------------------------ */

typedef struct given {
    const tl_mobilenet_config *config;
    tl_backbone_parts parts;
} given;
/* The layers are its children, one for each block but for the pooling. */
typedef struct mobilenet {
    tl_layer base;
    const given *given;
} mobilenet;

static tl_layer *make_block(tl_scope *s, const char *name, const planned *p)
{
    const tli_mobile_block *t = p->block;
    if (t->kind != TLI_MOBILE_CONV) return tl_scope_layer(s, name, &block_class, p);
    if (t->plain)
        return tl_conv2d(s, name, .filters = p->filters, .kernel = t->kernel, .stride = p->stride,
                         .padding = TL_SAME, .activation = t->activation,
                         .kernel_initializer = TL_INITIALIZER("variance_scaling"),
                         .kernel_regularizer = tli_penalty(&p->parts));
    return make_unit(s, name, p,
                     (tli_conv_norm_config){.filters = p->filters,
                                            .kernel = t->kernel,
                                            .stride = p->stride,
                                            .activation = t->activation});
}

/* The channels of the image do not matter: the first block does not look at them. */
static tl_status mobilenet_build(tl_layer *l, tl_scope *s, const void *config)
{
    mobilenet *m = (mobilenet *)l;
    const given *g = m->given = config;
    progress at = plan_begin(g->config);
    for (int64_t i = 0; i < at.network->count; i++) {
        planned p = plan_block(&at, i);
        p.parts = g->parts;
        if (p.block->kind == TLI_MOBILE_POOL) continue;
        const planned *kept = tl_arena_copy(tl_scope_arena(s), &p, sizeof p);
        char *name = tl_arena_printf(tl_scope_arena(s), "block_%lld", (long long)i);
        if (!kept || !name) return TL_ENOMEM;
        (void)make_block(s, name, kept);
    }
    return tl_scope_status(s);
}

/* What is given beside the features, by level. */
typedef struct endpoints {
    tl_tensor *maps[LEVELS], *inside[LEVELS];
} endpoints;

static tl_tensor *call_block(tl_ctx *c, tl_layer *l, tl_tensor *x, tl_tensor **inside)
{
    tl_tensors in = {0}, out = {0};
    *inside = NULL;
    tl_tensors_put(c, &in, "x", x);
    tl_call_all(c, l, &in, &out);
    if (tl_ctx_failed(c)) return NULL;
    *inside = tl_tensors_peek(&out, "depthwise");
    return out.items[0].tensor;
}

static void put_endpoints(tl_ctx *c, tl_tensors *out, const endpoints *e, bool inside)
{
    static const char *const names[LEVELS] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    static const char *const inner[LEVELS] = {"0/depthwise", "1/depthwise", "2/depthwise",
                                              "3/depthwise", "4/depthwise", "5/depthwise",
                                              "6/depthwise", "7/depthwise"};
    for (int i = 0; i < LEVELS; i++) {
        if (e->maps[i]) tl_tensors_put(c, out, names[i], e->maps[i]);
        if (e->inside[i] && inside) tl_tensors_put(c, out, inner[i], e->inside[i]);
    }
}

static void mobilenet_forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    const tl_mobilenet_config *config = ((mobilenet *)l)->given->config;
    tl_tensor *x = in->items[0].tensor, *inside;
    progress at = plan_begin(config);
    endpoints e = {0};
    tl_layer *child = l->first;
    for (int64_t i = 0; i < at.network->count; i++) {
        planned p = plan_block(&at, i);
        inside = NULL;
        if (p.block->kind == TLI_MOBILE_POOL) {
            x = tl_mean(c, x, TL_AXES(1, 2), true);
        } else {
            x = call_block(c, child, x, &inside);
            child = child->next;
        }
        if (!p.level) continue;
        e.maps[p.level] = x;
        // Of separable blocks Model Garden does not give it.
        e.inside[p.level] = p.block->kind == TLI_MOBILE_INVERTED ? inside : NULL;
    }
    tl_tensors_put(c, out, "features", x);
    put_endpoints(c, out, &e, config->output_intermediate_endpoints);
}

static const tl_layer_class mobilenet_class = {
    .cls = TL_CLASS(tl_layer_class, "mobilenet", NULL, mobilenet, NULL),
    .build = mobilenet_build,
    .forward_all = mobilenet_forward,
};

static tl_layer *make_mobilenet(tl_scope *s, const char *name, const void *config,
                                const tl_backbone_parts *parts)
{
    given g = {config, *parts};
    const given *kept = tl_arena_copy(tl_scope_arena(s), &g, sizeof g);
    return kept ? tl_scope_layer(s, name, &mobilenet_class, kept) : NULL;
}

/* The features lie behind the last level, and are none. */
static tl_levels mobilenet_levels(const void *config)
{
    progress at = plan_begin(config);
    int highest = FIRST_LEVEL - 1;
    for (int64_t i = 0; i < at.network->count; i++) {
        planned p = plan_block(&at, i);
        if (p.level > highest) highest = p.level;
    }
    return (tl_levels){FIRST_LEVEL, highest};
}

static int64_t mobilenet_channels(const void *config, int64_t level)
{
    progress at = plan_begin(config);
    int64_t channels = 0;
    for (int64_t i = 0; i < at.network->count; i++) {
        planned p = plan_block(&at, i);
        if (p.level == level) channels = at.channels;
    }
    return channels;
}

/* --- names in Model Garden -------------------------------------------------------------------- */

typedef struct part {
    const char *ours, *theirs;
    bool there;
} part;

/* A block is one layer, its parts are attributes. */
static tl_status name_parts(tl_original_names *into, const planned *p, const char *ours,
                            const char *theirs)
{
    const tli_mobile_block *t = p->block;
    bool separable = t->kind == TLI_MOBILE_SEPARABLE, conv = t->kind == TLI_MOBILE_CONV;
    const part parts[] = {
        {"", "/_conv0", conv && t->plain},
        {"/conv", "/_conv0", conv && !t->plain},
        {"/norm", "/_norm0", conv && !t->plain},
        {"/expand/conv", "/_conv0", expands(p)},
        {"/expand/norm", "/_norm0", expands(p)},
        {"/depthwise/conv", separable ? "/_dwconv0" : "/_conv1", is_depthwise(p)},
        {"/depthwise/norm", separable ? "/_norm0" : "/_norm1", is_depthwise(p)},
        {"/gate/reduce", "/_squeeze_excitation/_se_reduce", t->squeeze > 0},
        {"/gate/expand", "/_squeeze_excitation/_se_expand", t->squeeze > 0},
        {"/project/conv", separable ? "/_conv1" : "/_conv2", !conv},
        {"/project/norm", separable ? "/_norm1" : "/_norm2", !conv},
    };
    char a[96], b[96];
    for (int i = 0; i < TL_COUNT(parts); i++) {
        if (!parts[i].there) continue;
        snprintf(a, sizeof a, "%s%s", ours, parts[i].ours);
        snprintf(b, sizeof b, "%s%s", theirs, parts[i].theirs);
        TL_TRY(tl_original_names_add(into, a, b));
    }
    if (!is_depthwise(p)) return TL_OK;
    snprintf(a, sizeof a, "%s/depthwise/conv/kernel", ours);
    return tl_original_names_rename(into, a, "depthwise_kernel");
}

static tl_status name_layers(const void *config, tl_original_names *into)
{
    if (((const tl_mobilenet_config *)config)->symmetric_padding)
        return TL_FAIL(TL_EUNSUPPORTED, "Model Garden has no MobileNet with symmetric_padding, "
                                        "which is that of PyTorch");
    progress at = plan_begin(config);
    char ours[64], theirs[64];
    long long counted = 0;
    for (int64_t i = 0; i < at.network->count; i++) {
        planned p = plan_block(&at, i);
        if (p.block->kind == TLI_MOBILE_POOL) continue;
        snprintf(ours, sizeof ours, "backbone/block_%lld", (long long)i);
        snprintf(theirs, sizeof theirs, "backbone/layer_with_weights-%lld", counted++);
        TL_TRY(name_parts(into, &p, ours, theirs));
    }
    return TL_OK;
}

const tl_backbone_class tl_backbone_mobilenet = {
    .cls = {.class_size = sizeof(tl_backbone_class),
            .name = "mobilenet",
            .help = "small networks of convolutions by channel",
            .config = &mobilenet_desc},
    .make = make_mobilenet,
    .levels = mobilenet_levels,
    .original_names = name_layers,
    .channels = mobilenet_channels,
};
