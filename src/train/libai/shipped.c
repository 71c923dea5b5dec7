/* What get_config finds. */
#include "train/libai/libai.h"
#include "train/libai/shipped.h"

static const tl_python_file files[] = {
    {"common/data/imagenet.py", tli_shipped_common_data_imagenet},
    {"common/models/graph.py", tli_shipped_common_models_graph},
    {"common/models/vit/vit_base_patch16_224.py",
     tli_shipped_common_models_vit_vit_base_patch16_224},
    {"common/models/vit/vit_base_patch32_224.py",
     tli_shipped_common_models_vit_vit_base_patch32_224},
    {"common/models/vit/vit_giant_patch14_224.py",
     tli_shipped_common_models_vit_vit_giant_patch14_224},
    {"common/models/vit/vit_gigantic_patch14_224.py",
     tli_shipped_common_models_vit_vit_gigantic_patch14_224},
    {"common/models/vit/vit_huge_patch14_224.py",
     tli_shipped_common_models_vit_vit_huge_patch14_224},
    {"common/models/vit/vit_large_patch16_224.py",
     tli_shipped_common_models_vit_vit_large_patch16_224},
    {"common/models/vit/vit_large_patch32_224.py",
     tli_shipped_common_models_vit_vit_large_patch32_224},
    {"common/models/vit/vit_small_patch16_224.py",
     tli_shipped_common_models_vit_vit_small_patch16_224},
    {"common/models/vit/vit_small_patch32_224.py",
     tli_shipped_common_models_vit_vit_small_patch32_224},
    {"common/models/vit/vit_tiny_patch16_224.py",
     tli_shipped_common_models_vit_vit_tiny_patch16_224},
    {"common/optim.py", tli_shipped_common_optim},
    {"common/train.py", tli_shipped_common_train},
};
const tl_python_options tli_libai_shipped = {.shipped = files, .shipped_count = TL_COUNT(files)};
