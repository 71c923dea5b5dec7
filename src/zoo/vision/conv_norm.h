/* Private to vision: convolutions as backbones, pyramids and heads have them. With its batch norm
 * and activation one is a layer with the parts "conv" and "norm".
 *
 *     tl_layer *stem = tli_conv_norm(s, "stem", &(tli_conv_norm_config){
 *         .parts = *parts, .filters = 32, .kernel = 3, .stride = 2, .activation = TL_ACT_RELU6});
 */
#ifndef TILTH_SRC_ZOO_VISION_CONV_NORM_H
#define TILTH_SRC_ZOO_VISION_CONV_NORM_H

#include <tilth/zoo/backbone.h>

typedef struct tli_conv_norm_config {
    tl_backbone_parts parts;
    int64_t filters;             /* of a depthwise one: none, as many as there are channels */
    int64_t kernel;              /* height and width; padding is "same" */
    int64_t stride, dilation;    /* (optional: 1) */
    bool symmetric;              /* as many zeros on one side as on the other, not "same" */
    bool depthwise;              /* one filter for each channel, without a penalty */
    bool with_bias;              /* of the convolution */
    bool norm_frozen;            /* scale and shift of the batch norm are not trained */
    tl_activation activation;    /* behind the norm; TL_ACT_NONE: none */
    tl_oneof kernel_initializer; /* (optional: variance_scaling) */
} tli_conv_norm_config;
/* NULL when the scope failed. */
tl_layer *tli_conv_norm(tl_scope *s, const char *name, const tli_conv_norm_config *config);

/* A convolution with a bias, alone: heads and pyramids. A separable one has the weights
 * depthwise_kernel and pointwise_kernel. */
/* Values that initializers and the penalty point at live as long as the model. */
typedef struct tli_conv_config {
    int64_t filters, kernel;
    int64_t stride; /* (optional: 1) */
    bool separable;
    tl_oneof kernel_initializer; /* of both parts of a separable one */
    tl_oneof bias_initializer;   /* (optional: zeros) */
    tl_oneof penalty;            /* of kernels; of both parts of a separable one */
} tli_conv_config;
tl_layer *tli_conv(tl_scope *s, const char *name, const tli_conv_config *config);

/* The batch norm that `parts` asks for. */
tl_layer *tli_norm(tl_scope *s, const char *name, const tl_backbone_parts *parts, bool frozen);
/* The penalty of kernels; none where `parts` has none. */
tl_oneof tli_penalty(const tl_backbone_parts *parts);

#endif
