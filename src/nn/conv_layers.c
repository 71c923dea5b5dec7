#include <tilth/ops/conv.h>
#include <tilth/ops/elementwise.h>

#include "nn/fields.h"

typedef struct conv {
    tl_layer base;
    tl_tensor *kernel, *bias; /* bias may be NULL */
} conv;

/* What all four have, whatever their configuration is. */
typedef struct choices {
    bool without_bias;
    const tl_oneof *kernel, *bias, *kernel_regularizer, *bias_regularizer;
} choices;
#define CHOICES(k)                                                                                 \
    ((choices){(k)->without_bias, &(k)->kernel_initializer, &(k)->bias_initializer,                \
               &(k)->kernel_regularizer, &(k)->bias_regularizer})

static int64_t or_else(int64_t chosen, int64_t otherwise)
{
    return chosen ? chosen : otherwise;
}

static tl_status declare(tl_layer *l, tl_scope *s, tl_shape kernel, int64_t channels, choices k)
{
    conv *v = (conv *)l;
    v->kernel = tli_param(s, "kernel", kernel, k.kernel, "glorot_uniform", k.kernel_regularizer);
    if (!k.without_bias)
        v->bias = tli_param(s, "bias", TL_SHAPE(channels), k.bias, "zeros", k.bias_regularizer);
    return tl_scope_status(s);
}

static tl_tensor *kernel_of(tl_ctx *c, const tl_layer *l)
{
    return tl_layer_value(c, l, ((const conv *)l)->kernel);
}

static tl_tensor *finish(tl_ctx *c, tl_layer *l, tl_tensor *y, tl_activation activation)
{
    const conv *v = (conv *)l;
    if (v->bias) y = tl_add(c, y, tl_layer_value(c, l, v->bias));
    return tl_activate(c, y, activation);
}

static tl_status check_groups(int64_t groups, int64_t inputs, int64_t filters)
{
    if (inputs % groups == 0 && filters % groups == 0) return TL_OK;
    return TL_FAIL(TL_EINVAL, "%lld groups must divide both %lld input channels and %lld filters",
                   (long long)groups, (long long)inputs, (long long)filters);
}

static tl_status check_pad(tl_padding padding, int64_t pad)
{
    if (!pad || padding == TL_EXPLICIT) return TL_OK;
    return TL_FAIL(TL_EINVAL, "pad: it is used when padding is explicit, and padding is %s",
                   tli_padding_names[padding]);
}

/* The window of a convolution of images, as its op takes it. */
#define WINDOW(k)                                                                                  \
    .stride = {(k)->stride, (k)->stride_width}, .dilation = {(k)->dilation, (k)->dilation_width},  \
    .padding = (k)->padding, .pads = {(k)->pad, (k)->pad, (k)->pad, (k)->pad}

#define CHECK_OF(id)                                                                               \
    static tl_status id##_check(const void *config)                                                \
    {                                                                                              \
        const tl_##id##_config *k = config;                                                        \
        return check_pad(k->padding, k->pad);                                                      \
    }
CHECK_OF(conv2d)
CHECK_OF(depthwise_conv2d)
CHECK_OF(conv1d)

/* Rows that several have. */
#define WINDOW_ROWS(T)                                                                             \
    TLI_REQUIRED_ROW(T, kernel, "height of the window"),                                           \
        TL_F(T, kernel_width, TL_AT_LEAST(0), .help = "its width; 0: as the height"),              \
        TL_F(T, stride, .i = 1, TL_AT_LEAST(1), .help = "step of the window, down"),               \
        TL_F(T, stride_width, TL_AT_LEAST(0), .help = "across; 0: as down"),                       \
        TL_F(T, dilation, .i = 1, TL_AT_LEAST(1),                                                  \
             .help = "distance of the window's elements, down"),                                   \
        TL_F(T, dilation_width, TL_AT_LEAST(0), .help = "across; 0: as down")
#define GROUPS_ROW(T)                                                                              \
    TL_F(T, groups, .i = 1, TL_AT_LEAST(1), .help = "of channels that are not mixed")
#define LAST_ROWS(T, around)                                                                       \
    TL_F(T, padding, .names = tli_padding_names, .help = "what lies around the " around),          \
        TL_F(T, pad, TL_AT_LEAST(0), .help = "zeros on each side, when padding is explicit"),      \
        TLI_ACTIVATION_ROW(T, activation), TL_F(T, without_bias, .help = "adds nothing"),          \
        TLI_INITIALIZER_ROW(T, kernel_initializer, "glorot_uniform when null"),                    \
        TLI_INITIALIZER_ROW(T, bias_initializer, "zeros when null"),                               \
        TLI_REGULARIZER_ROW(T, kernel_regularizer, "none when null"),                              \
        TLI_REGULARIZER_ROW(T, bias_regularizer, "none when null"), TL_F_END

/* --- conv2d ----------------------------------------------------------------------------------- */

static tl_status conv2d_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    const tl_conv2d_config *k = l->config;
    int64_t inputs, width = or_else(k->kernel_width, k->kernel);
    TL_TRY(tli_channels(&inputs, x, 4));
    TL_TRY(check_groups(k->groups, inputs, k->filters));
    return declare(l, s, TL_SHAPE(k->kernel, width, inputs / k->groups, k->filters), k->filters,
                   CHOICES(k));
}

static tl_tensor *conv2d_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    const tl_conv2d_config *k = l->config;
    tl_tensor *y = tl_convolve2d(c, x, kernel_of(c, l), WINDOW(k), .groups = k->groups);
    return finish(c, l, y, k->activation);
}

#define CONV2D_ROWS(T)                                                                             \
    TLI_REQUIRED_ROW(T, filters, "channels of the result"), WINDOW_ROWS(T), GROUPS_ROW(T),         \
        LAST_ROWS(T, "image")
static const tl_field conv2d_fields[] = {CONV2D_ROWS(tl_conv2d_config)};
TLI_CHECKED_LAYER_CLASS(conv2d, conv, conv2d_check, "convolution of images",
                        .parameters = conv2d_parameters, .forward = conv2d_forward)

/* --- conv2d_transpose ------------------------------------------------------------------------- */

static tl_status conv2d_transpose_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    const tl_conv2d_transpose_config *k = l->config;
    int64_t inputs, width = or_else(k->kernel_width, k->kernel);
    TL_TRY(tli_channels(&inputs, x, 4));
    TL_TRY(check_groups(k->groups, inputs, k->filters));
    return declare(l, s, TL_SHAPE(k->kernel, width, k->filters / k->groups, inputs), k->filters,
                   CHOICES(k));
}

static tl_tensor *conv2d_transpose_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    const tl_conv2d_transpose_config *k = l->config;
    tl_tensor *y = tl_convolve2d_transpose(c, x, kernel_of(c, l), WINDOW(k), .groups = k->groups);
    return finish(c, l, y, k->activation);
}

static const tl_field conv2d_transpose_fields[] = {CONV2D_ROWS(tl_conv2d_transpose_config)};
TLI_CHECKED_LAYER_CLASS(conv2d_transpose, conv, conv2d_check, "convolution the other way round",
                        .parameters = conv2d_transpose_parameters,
                        .forward = conv2d_transpose_forward)

/* --- depthwise -------------------------------------------------------------------------------- */

static tl_status depthwise_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    const tl_depthwise_conv2d_config *k = l->config;
    int64_t inputs, width = or_else(k->kernel_width, k->kernel);
    TL_TRY(tli_channels(&inputs, x, 4));
    return declare(l, s, TL_SHAPE(k->kernel, width, inputs, k->multiplier), inputs * k->multiplier,
                   CHOICES(k));
}

static tl_tensor *depthwise_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    const tl_depthwise_conv2d_config *k = l->config;
    return finish(c, l, tl_convolve2d_depthwise(c, x, kernel_of(c, l), WINDOW(k)), k->activation);
}

static const tl_field depthwise_conv2d_fields[] = {
    TL_F(tl_depthwise_conv2d_config, multiplier, .i = 1, TL_AT_LEAST(1),
         .help = "filters of each channel"),
    WINDOW_ROWS(tl_depthwise_conv2d_config), LAST_ROWS(tl_depthwise_conv2d_config, "image")};
TLI_CHECKED_LAYER_CLASS(depthwise_conv2d, conv, depthwise_conv2d_check,
                        "convolution of each channel by itself", .parameters = depthwise_parameters,
                        .forward = depthwise_forward)

/* --- conv1d ----------------------------------------------------------------------------------- */

static tl_status conv1d_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    const tl_conv1d_config *k = l->config;
    int64_t inputs;
    TL_TRY(tli_channels(&inputs, x, 3));
    TL_TRY(check_groups(k->groups, inputs, k->filters));
    return declare(l, s, TL_SHAPE(k->kernel, inputs / k->groups, k->filters), k->filters,
                   CHOICES(k));
}

static tl_tensor *conv1d_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    const tl_conv1d_config *k = l->config;
    tl_tensor *y =
        tl_convolve1d(c, x, kernel_of(c, l), .stride = k->stride, .dilation = k->dilation,
                      .padding = k->padding, .pads = {k->pad, k->pad}, .groups = k->groups);
    return finish(c, l, y, k->activation);
}

static const tl_field conv1d_fields[] = {
    TLI_REQUIRED_ROW(tl_conv1d_config, filters, "channels of the result"),
    TLI_REQUIRED_ROW(tl_conv1d_config, kernel, "width of the window"),
    TL_F(tl_conv1d_config, stride, .i = 1, TL_AT_LEAST(1), .help = "step of the window"),
    TL_F(tl_conv1d_config, dilation, .i = 1, TL_AT_LEAST(1),
         .help = "distance of the window's elements"),
    GROUPS_ROW(tl_conv1d_config),
    LAST_ROWS(tl_conv1d_config, "sequence")};
TLI_CHECKED_LAYER_CLASS(conv1d, conv, conv1d_check, "convolution along time",
                        .parameters = conv1d_parameters, .forward = conv1d_forward)
