/* The networks of Howard et al. 2017 (V1), Sandler et al. 2018 (V2) and Howard et al. 2019 (V3), as
 * Model Garden has them. */
#include "zoo/vision/mobilenet_tables.h"

#include <string.h>

#define ROW(kind_, kernel_, stride_, filters_, ...)                                                \
    {                                                                                              \
        .kind = kind_, .kernel = kernel_, .stride = stride_, .filters = filters_,                  \
        .activation = __VA_ARGS__                                                                  \
    }
#define CONV(...) ROW(TLI_MOBILE_CONV, __VA_ARGS__)
#define SEPARABLE(...) ROW(TLI_MOBILE_SEPARABLE, __VA_ARGS__)
#define INVERTED(kernel_, stride_, filters_, activation_, ...)                                     \
    ROW(TLI_MOBILE_INVERTED, kernel_, stride_, filters_, activation_, .expand = __VA_ARGS__)

static const tli_mobile_block v1[] = {
    CONV(3, 2, 32, TL_ACT_RELU6),        SEPARABLE(3, 1, 64, TL_ACT_RELU6),
    SEPARABLE(3, 2, 128, TL_ACT_RELU6),  SEPARABLE(3, 1, 128, TL_ACT_RELU6, .is_level = true),
    SEPARABLE(3, 2, 256, TL_ACT_RELU6),  SEPARABLE(3, 1, 256, TL_ACT_RELU6, .is_level = true),
    SEPARABLE(3, 2, 512, TL_ACT_RELU6),  SEPARABLE(3, 1, 512, TL_ACT_RELU6),
    SEPARABLE(3, 1, 512, TL_ACT_RELU6),  SEPARABLE(3, 1, 512, TL_ACT_RELU6),
    SEPARABLE(3, 1, 512, TL_ACT_RELU6),  SEPARABLE(3, 1, 512, TL_ACT_RELU6, .is_level = true),
    SEPARABLE(3, 2, 1024, TL_ACT_RELU6), SEPARABLE(3, 1, 1024, TL_ACT_RELU6, .is_level = true),
};

static const tli_mobile_block v2[] = {
    CONV(3, 2, 32, TL_ACT_RELU6),
    INVERTED(3, 1, 16, TL_ACT_RELU6, 1),
    INVERTED(3, 2, 24, TL_ACT_RELU6, 6),
    INVERTED(3, 1, 24, TL_ACT_RELU6, 6, .is_level = true),
    INVERTED(3, 2, 32, TL_ACT_RELU6, 6),
    INVERTED(3, 1, 32, TL_ACT_RELU6, 6),
    INVERTED(3, 1, 32, TL_ACT_RELU6, 6, .is_level = true),
    INVERTED(3, 2, 64, TL_ACT_RELU6, 6),
    INVERTED(3, 1, 64, TL_ACT_RELU6, 6),
    INVERTED(3, 1, 64, TL_ACT_RELU6, 6),
    INVERTED(3, 1, 64, TL_ACT_RELU6, 6),
    INVERTED(3, 1, 96, TL_ACT_RELU6, 6),
    INVERTED(3, 1, 96, TL_ACT_RELU6, 6),
    INVERTED(3, 1, 96, TL_ACT_RELU6, 6, .is_level = true),
    INVERTED(3, 2, 160, TL_ACT_RELU6, 6),
    INVERTED(3, 1, 160, TL_ACT_RELU6, 6),
    INVERTED(3, 1, 160, TL_ACT_RELU6, 6),
    INVERTED(3, 1, 320, TL_ACT_RELU6, 6, .is_level = true),
    CONV(1, 1, 1280, TL_ACT_RELU6),
};

static const tli_mobile_block v3large[] = {
    CONV(3, 2, 16, TL_ACT_HARD_SWISH),
    INVERTED(3, 1, 16, TL_ACT_RELU, 1),
    INVERTED(3, 2, 24, TL_ACT_RELU, 4),
    INVERTED(3, 1, 24, TL_ACT_RELU, 3, .is_level = true),
    INVERTED(5, 2, 40, TL_ACT_RELU, 3, .squeeze = 0.25),
    INVERTED(5, 1, 40, TL_ACT_RELU, 3, .squeeze = 0.25),
    INVERTED(5, 1, 40, TL_ACT_RELU, 3, .squeeze = 0.25, .is_level = true),
    INVERTED(3, 2, 80, TL_ACT_HARD_SWISH, 6),
    INVERTED(3, 1, 80, TL_ACT_HARD_SWISH, 2.5),
    INVERTED(3, 1, 80, TL_ACT_HARD_SWISH, 2.3),
    INVERTED(3, 1, 80, TL_ACT_HARD_SWISH, 2.3),
    INVERTED(3, 1, 112, TL_ACT_HARD_SWISH, 6, .squeeze = 0.25),
    INVERTED(3, 1, 112, TL_ACT_HARD_SWISH, 6, .squeeze = 0.25, .is_level = true),
    INVERTED(5, 2, 160, TL_ACT_HARD_SWISH, 6, .squeeze = 0.25),
    INVERTED(5, 1, 160, TL_ACT_HARD_SWISH, 6, .squeeze = 0.25),
    INVERTED(5, 1, 160, TL_ACT_HARD_SWISH, 6, .squeeze = 0.25, .is_level = true),
    CONV(1, 1, 960, TL_ACT_HARD_SWISH),
    {.kind = TLI_MOBILE_POOL},
    CONV(1, 1, 1280, TL_ACT_HARD_SWISH, .plain = true),
};

static const tli_mobile_block v3small[] = {
    CONV(3, 2, 16, TL_ACT_HARD_SWISH),
    INVERTED(3, 2, 16, TL_ACT_RELU, 1, .squeeze = 0.25, .is_level = true),
    INVERTED(3, 2, 24, TL_ACT_RELU, 4.5),
    INVERTED(3, 1, 24, TL_ACT_RELU, 88.0 / 24, .is_level = true),
    INVERTED(5, 2, 40, TL_ACT_HARD_SWISH, 4, .squeeze = 0.25),
    INVERTED(5, 1, 40, TL_ACT_HARD_SWISH, 6, .squeeze = 0.25),
    INVERTED(5, 1, 40, TL_ACT_HARD_SWISH, 6, .squeeze = 0.25),
    INVERTED(5, 1, 48, TL_ACT_HARD_SWISH, 3, .squeeze = 0.25),
    INVERTED(5, 1, 48, TL_ACT_HARD_SWISH, 3, .squeeze = 0.25, .is_level = true),
    INVERTED(5, 2, 96, TL_ACT_HARD_SWISH, 6, .squeeze = 0.25),
    INVERTED(5, 1, 96, TL_ACT_HARD_SWISH, 6, .squeeze = 0.25),
    INVERTED(5, 1, 96, TL_ACT_HARD_SWISH, 6, .squeeze = 0.25, .is_level = true),
    CONV(1, 1, 576, TL_ACT_HARD_SWISH),
    {.kind = TLI_MOBILE_POOL},
    CONV(1, 1, 1024, TL_ACT_HARD_SWISH, .plain = true),
};

static const tli_mobile_block v3smallreducedfilters[] = {
    CONV(3, 2, 16, TL_ACT_HARD_SWISH),
    INVERTED(3, 2, 16, TL_ACT_RELU, 1, .squeeze = 0.25, .is_level = true),
    INVERTED(3, 2, 24, TL_ACT_RELU, 4.5),
    INVERTED(3, 1, 24, TL_ACT_RELU, 88.0 / 24, .is_level = true),
    INVERTED(5, 2, 40, TL_ACT_HARD_SWISH, 4, .squeeze = 0.25),
    INVERTED(5, 1, 40, TL_ACT_HARD_SWISH, 6, .squeeze = 0.25),
    INVERTED(5, 1, 40, TL_ACT_HARD_SWISH, 6, .squeeze = 0.25),
    INVERTED(5, 1, 48, TL_ACT_HARD_SWISH, 3, .squeeze = 0.25),
    INVERTED(5, 1, 48, TL_ACT_HARD_SWISH, 3, .squeeze = 0.25, .is_level = true),
    INVERTED(5, 2, 48, TL_ACT_HARD_SWISH, 3, .squeeze = 0.25),
    INVERTED(5, 1, 48, TL_ACT_HARD_SWISH, 6, .squeeze = 0.25),
    INVERTED(5, 1, 48, TL_ACT_HARD_SWISH, 6, .squeeze = 0.25, .is_level = true),
    CONV(1, 1, 288, TL_ACT_HARD_SWISH),
    {.kind = TLI_MOBILE_POOL},
    CONV(1, 1, 1024, TL_ACT_HARD_SWISH, .plain = true),
};

static const tli_mobile_block v3edgetpu[] = {
    CONV(3, 2, 32, TL_ACT_RELU),
    INVERTED(3, 1, 16, TL_ACT_RELU, 1, .fused = true),
    INVERTED(3, 2, 32, TL_ACT_RELU, 8, .fused = true),
    INVERTED(3, 1, 32, TL_ACT_RELU, 4, .fused = true),
    INVERTED(3, 1, 32, TL_ACT_RELU, 4, .fused = true),
    INVERTED(3, 1, 32, TL_ACT_RELU, 4, .fused = true, .is_level = true),
    INVERTED(3, 2, 48, TL_ACT_RELU, 8, .fused = true),
    INVERTED(3, 1, 48, TL_ACT_RELU, 4, .fused = true),
    INVERTED(3, 1, 48, TL_ACT_RELU, 4, .fused = true),
    INVERTED(3, 1, 48, TL_ACT_RELU, 4, .fused = true, .is_level = true),
    INVERTED(3, 2, 96, TL_ACT_RELU, 8),
    INVERTED(3, 1, 96, TL_ACT_RELU, 4),
    INVERTED(3, 1, 96, TL_ACT_RELU, 4),
    INVERTED(3, 1, 96, TL_ACT_RELU, 4),
    INVERTED(3, 1, 96, TL_ACT_RELU, 8, .no_residual = true),
    INVERTED(3, 1, 96, TL_ACT_RELU, 4),
    INVERTED(3, 1, 96, TL_ACT_RELU, 4),
    INVERTED(3, 1, 96, TL_ACT_RELU, 4, .is_level = true),
    INVERTED(5, 2, 160, TL_ACT_RELU, 8),
    INVERTED(5, 1, 160, TL_ACT_RELU, 4),
    INVERTED(5, 1, 160, TL_ACT_RELU, 4),
    INVERTED(5, 1, 160, TL_ACT_RELU, 4),
    INVERTED(3, 1, 192, TL_ACT_RELU, 8, .is_level = true),
    CONV(1, 1, 1280, TL_ACT_RELU),
};

static const tli_mobilenet networks[] = {
    {"MobileNetV1", v1, TL_COUNT(v1), 1},
    {"MobileNetV2", v2, TL_COUNT(v2), 8},
    {"MobileNetV3Large", v3large, TL_COUNT(v3large), 8},
    {"MobileNetV3Small", v3small, TL_COUNT(v3small), 8},
    {"MobileNetV3SmallReducedFilters", v3smallreducedfilters, TL_COUNT(v3smallreducedfilters), 8},
    {"MobileNetV3EdgeTPU", v3edgetpu, TL_COUNT(v3edgetpu), 8},
};

const char *const tli_mobilenet_names =
    "MobileNetV1, MobileNetV2, MobileNetV3Large, MobileNetV3Small, MobileNetV3SmallReducedFilters "
    "and MobileNetV3EdgeTPU";

const tli_mobilenet *tli_mobilenet_find(const char *id)
{
    for (int64_t i = 0; i < TL_COUNT(networks); i++)
        if (strcmp(networks[i].id, id) == 0) return &networks[i];
    return NULL;
}
