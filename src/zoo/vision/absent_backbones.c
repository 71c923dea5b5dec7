/* Backbones of Model Garden that cannot be built yet: configurations name them and keep their
 * fields, and tl_backbone_find refuses them by name. */
#include <tilth/zoo/backbone.h>

#include "zoo/vision/absent.h"

#define DROP_RATE(T)                                                                               \
    TL_F(T, stochastic_depth_drop_rate, TL_RANGE(0, 1),                                            \
         .help = "share of examples for which the last blocks are left out in training")
#define GATE(T, number)                                                                            \
    TL_F(T, se_ratio, .d = number, TL_RANGE(0, 1), .help = "squeeze and excitation")
#define LEVELS(T)                                                                                  \
    TL_F(T, min_level, .i = 3, TL_RANGE(0, 11), .help = "the finest map that it gives"),           \
        TL_F(T, max_level, .i = 7, TL_RANGE(0, 11), .help = "the coarsest map that it gives")

#define BACKBONE(id, what)                                                                         \
    static const tl_desc id##_desc = {                                                             \
        .name = #id, .help = what, .size = sizeof(id##_config), .fields = id##_fields};            \
    const tl_backbone_class tli_backbone_##id = {.cls = {.class_size = sizeof(tl_backbone_class),  \
                                                         .name = #id,                              \
                                                         .help = what " (not here yet)",           \
                                                         .config = &id##_desc}}

typedef struct efficientnet_config {
    const char *model_id;
    double se_ratio, stochastic_depth_drop_rate;
} efficientnet_config;
static const tl_field efficientnet_fields[] = {
    TL_F(efficientnet_config, model_id, .s = "b0", .help = "b0 to b7"),
    GATE(efficientnet_config, 0),
    DROP_RATE(efficientnet_config),
    TL_F_END,
};
BACKBONE(efficientnet, "EfficientNet");

typedef struct mobiledet_config {
    const char *model_id;
    double filter_size_scale;
} mobiledet_config;
static const tl_field mobiledet_fields[] = {
    TL_F(mobiledet_config, model_id, .s = "MobileDetCPU",
         .help = "MobileDetCPU, MobileDetDSP, MobileDetEdgeTPU or MobileDetGPU"),
    TL_F(mobiledet_config, filter_size_scale, .d = 1, TL_RANGE(1e-3, 1e3),
         .help = "of all numbers of filters"),
    TL_F_END,
};
BACKBONE(mobiledet, "MobileDet");

typedef struct revnet_config {
    int64_t model_id;
} revnet_config;
static const tl_field revnet_fields[] = {
    TL_F(revnet_config, model_id, .i = 56, TL_AT_LEAST(1), .help = "38, 56 or 104"),
    TL_F_END,
};
BACKBONE(revnet, "RevNet, whose blocks can be computed backwards");

typedef struct spinenet_config {
    const char *model_id;
    double stochastic_depth_drop_rate;
    int64_t min_level, max_level;
} spinenet_config;
static const tl_field spinenet_fields[] = {
    TL_F(spinenet_config, model_id, .s = "49", .help = "49S, 49, 96, 143, 143L or 190"),
    DROP_RATE(spinenet_config),
    LEVELS(spinenet_config),
    TL_F_END,
};
BACKBONE(spinenet, "SpineNet, whose scales a search has put in order");

typedef struct spinenet_mobile_config {
    const char *model_id;
    double stochastic_depth_drop_rate, se_ratio;
    int64_t expand_ratio, min_level, max_level;
    bool use_keras_upsampling_2d;
} spinenet_mobile_config;
static const tl_field spinenet_mobile_fields[] = {
    TL_F(spinenet_mobile_config, model_id, .s = "49", .help = "49, 49S or 49XS"),
    DROP_RATE(spinenet_mobile_config),
    GATE(spinenet_mobile_config, 0.2),
    TL_F(spinenet_mobile_config, expand_ratio, .i = 6, TL_AT_LEAST(1),
         .help = "of the filters inside a block"),
    LEVELS(spinenet_mobile_config),
    TL_F(spinenet_mobile_config, use_keras_upsampling_2d, .help = "how maps are made larger"),
    TL_F_END,
};
BACKBONE(spinenet_mobile, "SpineNet of inverted bottlenecks");
