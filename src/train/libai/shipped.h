/* Private to train: LiBai's common configurations in this library's own words (configs/libai),
 * which the build makes texts of.
 * Thread word: immutable. */
#ifndef TLI_TRAIN_LIBAI_SHIPPED_H
#define TLI_TRAIN_LIBAI_SHIPPED_H

extern const char tli_shipped_common_data_imagenet[], tli_shipped_common_models_graph[],
    tli_shipped_common_models_vit_vit_base_patch16_224[],
    tli_shipped_common_models_vit_vit_base_patch32_224[],
    tli_shipped_common_models_vit_vit_giant_patch14_224[],
    tli_shipped_common_models_vit_vit_gigantic_patch14_224[],
    tli_shipped_common_models_vit_vit_huge_patch14_224[],
    tli_shipped_common_models_vit_vit_large_patch16_224[],
    tli_shipped_common_models_vit_vit_large_patch32_224[],
    tli_shipped_common_models_vit_vit_small_patch16_224[],
    tli_shipped_common_models_vit_vit_small_patch32_224[],
    tli_shipped_common_models_vit_vit_tiny_patch16_224[], tli_shipped_common_optim[],
    tli_shipped_common_train[];

#endif
