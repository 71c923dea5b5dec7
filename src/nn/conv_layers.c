#include <tilth/ops/conv.h>
#include <tilth/ops/elementwise.h>

#include "nn/fields.h"

/* All four have one configuration; they differ by the shape of their kernel and by their op. */
typedef struct conv {
    tl_layer base;
    tl_tensor *kernel, *bias; /* bias may be NULL */
} conv;

static int64_t or_else(int64_t chosen, int64_t otherwise)
{
    return chosen ? chosen : otherwise;
}

static tl_status declare(tl_layer *l, tl_scope *s, tl_shape kernel, int64_t channels)
{
    conv *v = (conv *)l;
    const tl_conv2d_config *k = l->config;
    v->kernel = tli_param(s, "kernel", kernel, &k->kernel_initializer, "glorot_uniform",
                          &k->kernel_regularizer);
    if (!k->without_bias)
        v->bias = tli_param(s, "bias", TL_SHAPE(channels), &k->bias_initializer, "zeros",
                            &k->bias_regularizer);
    return tl_scope_status(s);
}

static tl_tensor *finish(tl_ctx *c, tl_layer *l, tl_tensor *y)
{
    const conv *v = (conv *)l;
    const tl_conv2d_config *k = l->config;
    if (v->bias) y = tl_add(c, y, tl_layer_value(c, l, v->bias));
    return tli_activate(c, y, k->activation);
}

static tl_status check_groups(const tl_conv2d_config *k, int64_t inputs)
{
    if (inputs % k->groups == 0 && k->filters % k->groups == 0) return TL_OK;
    return TL_FAIL(TL_EINVAL, "%lld groups must divide both %lld input channels and %lld filters",
                   (long long)k->groups, (long long)inputs, (long long)k->filters);
}

#define PADS(k) {(k)->pad, (k)->pad, (k)->pad, (k)->pad}

/* --- conv2d --------------------------------------------------------------------------------------- */

static tl_status conv2d_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    const tl_conv2d_config *k = l->config;
    int64_t inputs;
    TL_TRY(tli_channels(&inputs, x, 4));
    TL_TRY(check_groups(k, inputs));
    tl_shape kernel = TL_SHAPE(k->kernel, or_else(k->kernel_width, k->kernel), inputs / k->groups, k->filters);
    return declare(l, s, kernel, k->filters);
}

static tl_tensor *conv2d_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    const tl_conv2d_config *k = l->config;
    tl_tensor *kernel = tl_layer_value(c, l, ((conv *)l)->kernel);
    return finish(c, l, tl_convolve2d(c, x, kernel, .stride = {k->stride, k->stride_width},
                                      .dilation = {k->dilation, k->dilation_width},
                                      .padding = k->padding, .pads = PADS(k), .groups = k->groups));
}

#define CONV_FIELDS(T)                                                                             \
    TL_F(T, filters, .i = 1, TL_AT_LEAST(1), .help = "channels of the result"),                    \
    TL_F(T, kernel, .i = 1, TL_AT_LEAST(1), .help = "height of the window"),                       \
    TL_F(T, kernel_width, TL_AT_LEAST(0), .help = "its width; 0: as the height"),                  \
    TL_F(T, stride, .i = 1, TL_AT_LEAST(1), .help = "step of the window, down"),                   \
    TL_F(T, stride_width, TL_AT_LEAST(0), .help = "across; 0: as down"),                           \
    TL_F(T, dilation, .i = 1, TL_AT_LEAST(1), .help = "distance of the window's elements, down"),  \
    TL_F(T, dilation_width, TL_AT_LEAST(0), .help = "across; 0: as down"),                         \
    TL_F(T, groups, .i = 1, TL_AT_LEAST(1), .help = "of channels that are not mixed"),             \
    TL_F(T, padding, .names = tli_padding_names, .help = "what lies around the image"),            \
    TL_F(T, pad, TL_AT_LEAST(0), .help = "zeros on each side, when padding is explicit"),          \
    TLI_ACTIVATION_ROW(T, activation),                                                             \
    TL_F(T, without_bias, .help = "adds nothing"),                                                 \
    TLI_INITIALIZER_ROW(T, kernel_initializer, "glorot_uniform when null"),                        \
    TLI_INITIALIZER_ROW(T, bias_initializer, "zeros when null"),                                   \
    TLI_REGULARIZER_ROW(T, kernel_regularizer, "none when null"),                                  \
    TLI_REGULARIZER_ROW(T, bias_regularizer, "none when null"),                                    \
    TL_F_END

static const tl_field conv2d_fields[] = {CONV_FIELDS(tl_conv2d_config)};
TLI_LAYER_CLASS(conv2d, conv, "convolution of images", .parameters = conv2d_parameters,
                .forward = conv2d_forward)

/* --- conv1d --------------------------------------------------------------------------------------- */

static tl_status conv1d_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    const tl_conv1d_config *k = l->config;
    int64_t inputs;
    TL_TRY(tli_channels(&inputs, x, 3));
    TL_TRY(check_groups(k, inputs));
    return declare(l, s, TL_SHAPE(k->kernel, inputs / k->groups, k->filters), k->filters);
}

static tl_tensor *conv1d_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    const tl_conv1d_config *k = l->config;
    tl_tensor *kernel = tl_layer_value(c, l, ((conv *)l)->kernel);
    return finish(c, l, tl_convolve1d(c, x, kernel, .stride = k->stride, .dilation = k->dilation,
                                      .padding = k->padding, .pads = {k->pad, k->pad},
                                      .groups = k->groups));
}

static const tl_field conv1d_fields[] = {CONV_FIELDS(tl_conv1d_config)};
TLI_LAYER_CLASS(conv1d, conv, "convolution along time", .parameters = conv1d_parameters,
                .forward = conv1d_forward)

/* --- conv2d_transpose ------------------------------------------------------------------------------- */

static tl_status conv2d_transpose_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    const tl_conv2d_transpose_config *k = l->config;
    int64_t inputs;
    TL_TRY(tli_channels(&inputs, x, 4));
    TL_TRY(check_groups(k, inputs));
    tl_shape kernel = TL_SHAPE(k->kernel, or_else(k->kernel_width, k->kernel), k->filters / k->groups, inputs);
    return declare(l, s, kernel, k->filters);
}

static tl_tensor *conv2d_transpose_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    const tl_conv2d_transpose_config *k = l->config;
    tl_tensor *kernel = tl_layer_value(c, l, ((conv *)l)->kernel);
    return finish(c, l, tl_convolve2d_transpose(c, x, kernel, .stride = {k->stride, k->stride_width},
                                                .dilation = {k->dilation, k->dilation_width},
                                                .padding = k->padding, .pads = PADS(k), .groups = k->groups));
}

static const tl_field conv2d_transpose_fields[] = {CONV_FIELDS(tl_conv2d_transpose_config)};
TLI_LAYER_CLASS(conv2d_transpose, conv, "convolution the other way round",
                .parameters = conv2d_transpose_parameters, .forward = conv2d_transpose_forward)

/* --- depthwise ------------------------------------------------------------------------------------ */

static tl_status depthwise_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    const tl_depthwise_conv2d_config *k = l->config;
    int64_t inputs;
    TL_TRY(tli_channels(&inputs, x, 4));
    tl_shape kernel = TL_SHAPE(k->kernel, or_else(k->kernel_width, k->kernel), inputs, k->filters);
    return declare(l, s, kernel, inputs * k->filters);
}

static tl_tensor *depthwise_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    const tl_depthwise_conv2d_config *k = l->config;
    tl_tensor *kernel = tl_layer_value(c, l, ((conv *)l)->kernel);
    return finish(c, l, tl_convolve2d_depthwise(c, x, kernel, .stride = {k->stride, k->stride_width},
                                                .dilation = {k->dilation, k->dilation_width},
                                                .padding = k->padding, .pads = PADS(k)));
}

static const tl_field depthwise_conv2d_fields[] = {CONV_FIELDS(tl_depthwise_conv2d_config)};
TLI_LAYER_CLASS(depthwise_conv2d, conv, "convolution of each channel by itself",
                .parameters = depthwise_parameters, .forward = depthwise_forward)
