/* Atrous spatial pyramid pooling: Chen et al. 2017, as Model Garden computes it. */
#include <stdio.h>
#include <string.h>

#include <tilth/ops/pool.h>
#include <tilth/ops/view.h>

#include "zoo/vision/conv_norm.h"
#include "zoo/vision/levels.h"

static tl_status check_aspp(const void *value)
{
    const tl_aspp_config *k = value;
    if (strcmp(k->spp_layer_version, "v1") != 0)
        return TL_FAIL(TL_EUNSUPPORTED, "spp_layer_version: '%s' is not there; v1 is",
                       k->spp_layer_version);
    if (k->pool_kernel_size.count == 0 || k->pool_kernel_size.count == 2) return TL_OK;
    return TL_FAIL(TL_EINVAL, "pool_kernel_size has %lld numbers: set [height, width], or null",
                   (long long)k->pool_kernel_size.count);
}

static const tl_field aspp_fields[] = {
    TL_F(tl_aspp_config, level, .i = 4, TL_RANGE(0, TLI_LEVELS - 1),
         .help = "of the backbone, which it works on"),
    TL_F(tl_aspp_config, dilation_rates, TL_AT_LEAST(1),
         .help = "of the 3x3 convolutions; none: one of 1x1 and the mean"),
    TL_F(tl_aspp_config, dropout_rate, TL_RANGE(0, 1), .help = "share dropped at the end"),
    TL_F(tl_aspp_config, num_filters, .i = 256, TL_AT_LEAST(1), .help = "of each branch"),
    TL_F(tl_aspp_config, use_depthwise_convolution,
         .help = "the dilated ones are depthwise, with a pointwise one behind each"),
    TL_F(tl_aspp_config, pool_kernel_size, TL_AT_LEAST(1), .flags = TL_FIELD_NULLABLE,
         .help = "height and width of the means, in pixels of the image; null: all of it"),
    TL_F(tl_aspp_config, spp_layer_version, .s = "v1", .help = "v1"),
    TL_F(tl_aspp_config, output_tensor, .help = "makes no difference here"),
    TL_F_END,
};
static const tl_desc aspp_desc = {
    .name = "aspp",
    .help = "convolutions of several dilations over one level",
    .size = sizeof(tl_aspp_config),
    .fields = aspp_fields,
    .check = check_aspp,
};

typedef struct given {
    const tl_aspp_config *config;
    tl_decoder_parts with;
} given;
typedef struct aspp {
    tl_layer base;
    const given *given;
    /* The first is of 1x1, the last of the mean. Where they are depthwise, `wide` are dilated. */
    tl_layer **branches, **wide;
    tl_layer *projection, *dropout;
} aspp;

/* Of 3x3 with this dilation; 0: of 1x1. */
static tl_layer *make_branch(tl_scope *s, const given *g, const char *name, int64_t dilation)
{
    const bool alone = dilation && !g->config->use_depthwise_convolution;
    return tli_conv_norm(
        s, name,
        &(tli_conv_norm_config){.parts = g->with.parts,
                                .filters = g->config->num_filters,
                                .kernel = alone ? 3 : 1,
                                .dilation = alone ? dilation : 1,
                                .activation = g->with.parts.norm_activation->activation});
}

static tl_status build(tl_layer *l, tl_scope *s, const void *config)
{
    aspp *a = (aspp *)l;
    const given *g = a->given = config;
    const tl_aspp_config *k = g->config;
    const int64_t rates = k->dilation_rates.count;
    tl_arena *arena = tl_scope_arena(s);
    a->branches = tl_arena_array(arena, rates + 2, sizeof(tl_layer *));
    a->wide = tl_arena_array(arena, rates + 2, sizeof(tl_layer *));
    if (!a->branches || !a->wide) return TL_ENOMEM;
    a->branches[0] = make_branch(s, g, "branch_0", 0);
    for (int64_t i = 1; i <= rates; i++) {
        const int64_t dilation = k->dilation_rates.items[i - 1];
        const char *name = tli_level_text(s, "branch", i), *wide = tli_level_text(s, "wide", i);
        if (!name || !wide) return TL_ENOMEM;
        if (k->use_depthwise_convolution)
            a->wide[i] = tl_depthwise_conv2d(s, wide, .kernel = 3, .dilation = dilation,
                                             .padding = TL_SAME, .without_bias = true);
        a->branches[i] = make_branch(s, g, name, dilation);
    }
    a->branches[rates + 1] = make_branch(s, g, "pooled", 0);
    a->projection = make_branch(s, g, "projection", 0);
    if (k->dropout_rate > 0) a->dropout = tl_dropout_layer(s, "dropout", .rate = k->dropout_rate);
    return tl_scope_status(s);
}

static tl_tensor *pool(tl_ctx *c, const given *g, tl_tensor *x)
{
    const tl_ints size = g->config->pool_kernel_size;
    if (!size.count) return tl_global_avg_pool(c, x, true);
    const int64_t scale = (int64_t)1 << g->config->level;
    const int64_t high = size.items[0] / scale, wide = size.items[1] / scale;
    return tl_avg_pool2d(c, x, .size = {high, wide}, .stride = {high, wide});
}

static void forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    aspp *a = (aspp *)l;
    const given *g = a->given;
    const int64_t rates = g->config->dilation_rates.count;
    tl_tensor *x = tli_level_get(c, in, g->config->level);
    tl_tensor **parts = tl_arena_array(tl_ctx_arena(c), rates + 2, sizeof *parts);
    if (!x || !parts) return;
    for (int64_t i = 0; i <= rates; i++)
        parts[i] = tl_call(c, a->branches[i], a->wide[i] ? tl_call(c, a->wide[i], x) : x);
    tl_tensor *mean = tl_call(c, a->branches[rates + 1], pool(c, g, x));
    parts[rates + 1] =
        tl_resize(c, mean, x->shape.dims[1], x->shape.dims[2], .method = TL_BILINEAR);
    x = tl_call(c, a->projection, tl_concat(c, parts, (int)rates + 2, -1));
    if (a->dropout) x = tl_call(c, a->dropout, x);
    tl_tensors_put(c, out, tli_level_name(g->config->level), x);
}

static const tl_layer_class aspp_class = {
    .cls = TL_CLASS(tl_layer_class, "aspp", NULL, aspp, NULL),
    .build = build,
    .forward_all = forward,
};

static tl_layer *make(tl_scope *s, const char *name, const void *config,
                      const tl_decoder_parts *parts)
{
    given g = {config, *parts};
    const given *kept = tl_arena_copy(tl_scope_arena(s), &g, sizeof g);
    return kept ? tl_scope_layer(s, name, &aspp_class, kept) : tl_scope_fail(s, name);
}

static tl_status check(const void *config, const tl_decoder_parts *parts)
{
    const tl_aspp_config *k = config;
    if (parts->backbone.min <= k->level && k->level <= parts->backbone.max) return TL_OK;
    return TL_FAIL(
        TL_EINVAL, "model.decoder.aspp.level is %lld, and the backbone has levels %lld to %lld",
        (long long)k->level, (long long)parts->backbone.min, (long long)parts->backbone.max);
}

/* --- names in Model Garden -------------------------------------------------------------------- */

/* A row of layers: the convolution is the one with number `first`. */
static tl_status name_branch(tl_original_names *into, const char *ours, const char *theirs,
                             int first)
{
    static const char *const parts[] = {"conv", "norm"};
    char from[96], to[160];
    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof from, "decoder/%s/%s", ours, parts[i]);
        snprintf(to, sizeof to, "decoder/aspp/%s/layer_with_weights-%d", theirs, first + i);
        TL_TRY(tl_original_names_add(into, from, to));
    }
    return TL_OK;
}

/* The depthwise convolution before a branch. */
static tl_status name_wide(tl_original_names *into, int i)
{
    char ours[64], kernel[64], theirs[96];
    snprintf(ours, sizeof ours, "decoder/wide_%d", i);
    snprintf(kernel, sizeof kernel, "decoder/wide_%d/kernel", i);
    snprintf(theirs, sizeof theirs, "decoder/aspp/aspp_layers/%d/layer_with_weights-0", i);
    TL_TRY(tl_original_names_add(into, ours, theirs));
    return tl_original_names_rename(into, kernel, "depthwise_kernel");
}

static tl_status original_names(const void *config, const tl_decoder_parts *parts,
                                tl_original_names *into)
{
    const tl_aspp_config *k = config;
    const int rates = (int)k->dilation_rates.count;
    char ours[64], theirs[96];
    (void)parts;
    for (int i = 0; i <= rates; i++) {
        snprintf(ours, sizeof ours, "branch_%d", i);
        snprintf(theirs, sizeof theirs, "aspp_layers/%d", i);
        const bool wide = k->use_depthwise_convolution && i > 0;
        TL_TRY(name_branch(into, ours, theirs, wide ? 1 : 0));
        if (wide) TL_TRY(name_wide(into, i));
    }
    snprintf(theirs, sizeof theirs, "aspp_layers/%d/layer_with_weights-0", rates + 1);
    TL_TRY(name_branch(into, "pooled", theirs, 0));
    return name_branch(into, "projection", "projection", 0);
}

const tl_decoder_class tl_decoder_aspp = {
    .cls = {.class_size = sizeof(tl_decoder_class),
            .name = "aspp",
            .help = "convolutions of several dilations over one level",
            .config = &aspp_desc},
    .make = make,
    .check = check,
    .original_names = original_names,
};
