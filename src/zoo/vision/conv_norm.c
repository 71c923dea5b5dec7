#include "zoo/vision/conv_norm.h"

#include <tilth/ops/conv.h>
#include <tilth/ops/elementwise.h>

typedef struct conv_norm {
    tl_layer base;
    tl_layer *conv, *norm;
    tl_activation activation;
} conv_norm;

tl_oneof tli_penalty(const tl_backbone_parts *parts)
{
    return parts->kernel_regularizer ? *parts->kernel_regularizer : (tl_oneof){0};
}

tl_layer *tli_norm(tl_scope *s, const char *name, const tl_backbone_parts *parts, bool frozen)
{
    const tl_norm_activation *n = parts->norm_activation;
    return tl_batch_norm(s, name, .epsilon = TL_SET(n->norm_epsilon),
                         .momentum = TL_SET(n->norm_momentum), .synchronized = n->use_sync_bn,
                         .layer.frozen = frozen);
}

static tl_status build(tl_layer *l, tl_scope *s, const void *config)
{
    conv_norm *u = (conv_norm *)l;
    const tli_conv_norm_config *c = config;
    tl_oneof initializer = TL_INITIALIZER("variance_scaling");
    if (c->kernel_initializer.type) initializer = c->kernel_initializer;
    u->activation = c->activation;
    tl_padding padding = c->symmetric ? TL_EXPLICIT : TL_SAME;
    int64_t around = c->symmetric ? (c->dilation ? c->dilation : 1) * (c->kernel / 2) : 0;
    u->conv =
        c->depthwise
            ? tl_depthwise_conv2d(s, "conv", .kernel = c->kernel, .stride = c->stride,
                                  .dilation = c->dilation, .padding = padding, .pad = around,
                                  .without_bias = !c->with_bias, .kernel_initializer = initializer)
            : tl_conv2d(s, "conv", .filters = c->filters, .kernel = c->kernel, .stride = c->stride,
                        .dilation = c->dilation, .padding = padding, .pad = around,
                        .without_bias = !c->with_bias, .kernel_initializer = initializer,
                        .kernel_regularizer = tli_penalty(&c->parts));
    u->norm = tli_norm(s, "norm", &c->parts, c->norm_frozen);
    return tl_scope_status(s);
}

static tl_tensor *forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    conv_norm *u = (conv_norm *)l;
    x = tl_call(c, u->norm, tl_call(c, u->conv, x));
    return u->activation == TL_ACT_NONE ? x : tl_activate(c, x, u->activation);
}

static const tl_layer_class conv_norm_class = {
    .cls = TL_CLASS(tl_layer_class, "conv_norm", NULL, conv_norm, NULL),
    .build = build,
    .forward = forward,
};

tl_layer *tli_conv_norm(tl_scope *s, const char *name, const tli_conv_norm_config *config)
{
    const tli_conv_norm_config *kept = tl_arena_copy(tl_scope_arena(s), config, sizeof *config);
    return kept ? tl_scope_layer(s, name, &conv_norm_class, kept) : tl_scope_fail(s, name);
}

/* --- separable -------------------------------------------------------------------------------- */

/* Its weights have the names that Keras' SeparableConv2D gives them. */
typedef struct separable {
    tl_layer base;
    const tli_conv_config *config;
    tl_tensor *depthwise, *pointwise, *bias;
} separable;

static const tl_oneof *or_null(const tl_oneof *choice)
{
    return choice->type ? choice : NULL;
}

static tl_status separable_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    separable *u = (separable *)l;
    const tli_conv_config *c = u->config = l->config;
    const tl_oneof glorot = TL_INITIALIZER("glorot_uniform");
    const tl_oneof *first = c->kernel_initializer.type ? &c->kernel_initializer : &glorot;
    if (x->shape.rank != 4)
        return TL_FAIL(TL_EINVAL, "the input has %d dimensions, not 4", x->shape.rank);
    const int64_t inputs = x->shape.dims[3];
    u->depthwise =
        tl_scope_param(s, "depthwise_kernel",
                       &(tl_param_args){.shape = TL_SHAPE(c->kernel, c->kernel, inputs, 1),
                                        .initializer = first,
                                        .regularizer = or_null(&c->penalty)});
    u->pointwise = tl_scope_param(s, "pointwise_kernel",
                                  &(tl_param_args){.shape = TL_SHAPE(1, 1, inputs, c->filters),
                                                   .initializer = first,
                                                   .regularizer = or_null(&c->penalty)});
    u->bias = tl_scope_param(s, "bias",
                             &(tl_param_args){.shape = TL_SHAPE(c->filters),
                                              .initializer = or_null(&c->bias_initializer)});
    return tl_scope_status(s);
}

static tl_tensor *separable_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    separable *u = (separable *)l;
    const int64_t stride = u->config->stride;
    x = tl_convolve2d_depthwise(c, x, tl_layer_value(c, l, u->depthwise), .padding = TL_SAME,
                                .stride = {stride, stride});
    x = tl_convolve2d(c, x, tl_layer_value(c, l, u->pointwise));
    return tl_add(c, x, tl_layer_value(c, l, u->bias));
}

static const tl_layer_class separable_class = {
    .cls = TL_CLASS(tl_layer_class, "separable_conv", NULL, separable, NULL),
    .parameters = separable_parameters,
    .forward = separable_forward,
};

tl_layer *tli_conv(tl_scope *s, const char *name, const tli_conv_config *config)
{
    const tli_conv_config *c = tl_arena_copy(tl_scope_arena(s), config, sizeof *config);
    if (!c) return tl_scope_fail(s, name);
    if (c->separable) return tl_scope_layer(s, name, &separable_class, c);
    return tl_conv2d(s, name, .filters = c->filters, .kernel = c->kernel, .stride = c->stride,
                     .padding = TL_SAME, .kernel_initializer = c->kernel_initializer,
                     .bias_initializer = c->bias_initializer, .kernel_regularizer = c->penalty);
}
