/* Backbones: what turns images into features, by levels.
 *
 *     tl_layer *backbone;
 *     TL_TRY(tl_backbone_make(&backbone, s, &(tl_oneof){.type = "resnet"},
 *                             &(tl_backbone_parts){.norm_activation = &norm}));
 *     ...
 *     tl_tensors maps = {0};
 *     tl_call_all(c, backbone, &images, &maps);
 *     tl_tensor *coarse = tl_tensors_get(c, &maps, "5"); // 32 times smaller than the image
 *     tl_tensor *all = tl_call(c, backbone, image);      // "features": for a classifier
 *
 * A backbone of one's own is a class of the kind `backbone`: a described configuration and a
 * function that makes a layer; in a module it can be chosen by its name in YAML. Names and defaults
 * are those of Model Garden's official/vision/configs/backbones.py.
 *
 * Ownership: layers belong to their model. Thread word: immutable (configurations, classes). */
#ifndef TILTH_ZOO_BACKBONE_H
#define TILTH_ZOO_BACKBONE_H

#include <tilth/nn/layers.h>
#include <tilth/train/run/original.h>

TL_BEGIN

typedef struct tl_norm_activation {
    tl_activation activation; /* relu */
    bool use_sync_bn;
    double norm_momentum, norm_epsilon; /* 0.99, 0.001 */
} tl_norm_activation;
TL_API extern const tl_desc tl_norm_activation_desc;

/* Levels of feature maps; none when min is above max. */
typedef struct tl_levels {
    int64_t min, max;
} tl_levels;

/* What a model gives to its backbone, and to what stands on it. */
typedef struct tl_backbone_parts {
    const tl_norm_activation *norm_activation;
    const tl_oneof *kernel_regularizer; /* NULL: none */
} tl_backbone_parts;

typedef struct tl_backbone_class {
    tl_class cls;
    /* (optional: the backbone is a name that configurations know, and is refused when a model is
     * made of it) A layer under the scope's that makes maps of images [batch, height, width,
     * channels]. The first that it gives, "features", is what a classifier looks at: [batch,
     * height, width, channels] or [batch, features]. The others are its endpoints: "3" is a map
     * that is smaller by 2^3, rounded up. `config` and what `parts` points at stay valid as long
     * as the model. NULL, with the error set, when that failed. */
    tl_layer *(*make)(tl_scope *s, const char *name, const void *config,
                      const tl_backbone_parts *parts);
    /* (optional: none) Which endpoints it gives: all levels from the lowest to the highest. What is
     * built on them is checked against this before anything is made. */
    tl_levels (*levels)(const void *config);
    /* (optional) Which objects its layers, below "backbone", are in checkpoints of Model Garden;
     * there too they lie below "backbone". NULL: it has no such backbone. */
    tl_status (*original_names)(const void *config, tl_original_names *into);
    /* (optional: not known) How many channels the map of one of its levels has. */
    int64_t (*channels)(const void *config, int64_t level);
} tl_backbone_class;
TL_API extern const tl_kind tl_kind_backbone;

/* The backbone that `choice` names, as the part "backbone" of the scope's model; without a value it
 * has its defaults. */
TL_API TL_NODISCARD tl_status tl_backbone_make(tl_layer **out, tl_scope *s, const tl_oneof *choice,
                                               const tl_backbone_parts *parts);
/* Its class and configuration, in `arena` where `choice` has none. `key` stands in messages:
 * "task.model.backbone". */
TL_API TL_NODISCARD tl_status tl_backbone_find(const tl_backbone_class **cls, const void **config,
                                               tl_arena *arena, const tl_registry *registry,
                                               const tl_oneof *choice, const char *key);

/* --- those that ship -------------------------------------------------------------------------- */

/* resnet: 10, 18, 26 and 34 of blocks of two 3x3 convolutions, 50, 101, 152, 200, 270, 350 and 420
 * of bottlenecks, the stride in the 3x3 convolution. As in Model Garden the first block of every
 * stage has a projection. */
typedef enum tl_resnet_stem {
    TL_STEM_V0,   /* 7x7, stride 2 */
    TL_STEM_V1,   /* three 3x3, the first with stride 2 */
    TL_STEM_CIFAR /* one 3x3, and no pooling behind it: for small images */
} tl_resnet_stem;
typedef struct tl_resnet_config {
    int64_t model_id;        /* 50 */
    double depth_multiplier; /* 1: of all numbers of filters */
    tl_resnet_stem stem_type;
    double se_ratio; /* 0: no squeeze and excitation */
    double stochastic_depth_drop_rate;
    bool scale_stem;
    bool resnetd_shortcut;      /* of bottlenecks alone */
    bool replace_stem_max_pool; /* by a convolution, which depth_multiplier always scales */
    bool bn_trainable;
    /* Ours: both are true of the ResNets of torchvision, timm and Hugging Face. */
    bool symmetric_padding;  /* as many zeros before an image as behind it, whatever the stride */
    bool identity_shortcuts; /* projections only where the shape changes */
} tl_resnet_config;
TL_API extern const tl_backbone_class tl_backbone_resnet;

/* dilated_resnet: 50, 101, 152 and 200, whose maps become smaller by output_stride at most: behind
 * it the 3x3 convolutions of each stage look twice as far apart as those of the stage before. */
typedef struct tl_dilated_resnet_config {
    int64_t model_id;           /* 50 */
    int64_t output_stride;      /* 16: 4, 8, 16 or 32 */
    tl_ints multigrid;          /* none: further dilations of the blocks of the last stages */
    tl_resnet_stem stem_type;   /* v0 or v1, which has twice the filters of resnet's */
    int64_t last_stage_repeats; /* 1 */
    double se_ratio;
    double stochastic_depth_drop_rate;
    bool resnetd_shortcut;
    bool replace_stem_max_pool;
} tl_dilated_resnet_config;
TL_API extern const tl_backbone_class tl_backbone_dilated_resnet;

/* mobilenet: MobileNetV1, MobileNetV2, MobileNetV3Large, MobileNetV3Small,
 * MobileNetV3SmallReducedFilters, MobileNetV3EdgeTPU. Its activations are those of the table, and
 * not the model's. The features are what comes behind the last level. */
typedef struct tl_mobilenet_config {
    const char *model_id;     /* MobileNetV2 */
    double filter_size_scale; /* 1: of all numbers of filters */
    double stochastic_depth_drop_rate;
    bool flat_stochastic_depth_drop_rate; /* true: the same for all blocks */
    tl_opt_int output_stride;             /* null: maps become as small as they do */
    bool output_intermediate_endpoints;   /* "2/depthwise" and so on too */
    bool symmetric_padding;               /* ours: as in tl_resnet_config */
} tl_mobilenet_config;
TL_API extern const tl_backbone_class tl_backbone_mobilenet;

/* vit: vision transformers. Features are [batch, 1, 1, numbers] of the token or of the mean, or
 * with pooler none the map of all tokens; norm_activation is not asked. output_2d_feature_maps
 * gives the tokens as a map of the level that is nearest to patch_size; other endpoints are
 * encoded_tokens [batch, tokens, numbers] and attention_scores [batch, heads, tokens, tokens]. */
typedef enum tl_vit_pooler { TL_VIT_TOKEN, TL_VIT_GAP, TL_VIT_NONE } tl_vit_pooler;
typedef struct tl_vit_transformer {
    int64_t mlp_dim, num_heads, num_layers; /* 1: those of model_name */
    double attention_dropout_rate, dropout_rate;
} tl_vit_transformer;
typedef struct tl_vit_config {
    const char *model_name; /* vit-b16; NULL: the sizes are those below */
    tl_vit_pooler pooler;
    int64_t representation_size;     /* of a dense layer behind the pooling; 0: none */
    int64_t hidden_size, patch_size; /* those of model_name */
    tl_vit_transformer transformer;
    double init_stochastic_depth_rate;
    bool original_init;      /* true */
    tl_ints pos_embed_shape; /* none: the grid of the image */
    bool output_encoded_tokens, output_2d_feature_maps;
    double layer_scale_init_value;      /* 0: no scales */
    tl_ints transformer_partition_dims; /* (later) */
    bool output_attention_scores;
    /* Ours. */
    double norm_epsilon;      /* 1e-6 */
    tl_activation activation; /* gelu_tanh: inside the dense layers */
    bool stochastic_depth_from_zero;
} tl_vit_config;
TL_API extern const tl_backbone_class tl_backbone_vit;

/* vision_transformer: LiBai's, by the names of its arguments. It differs from vit in its first
 * values, in where it drops, in gelu, which is exact, and in what is added to variances, 1e-5. The
 * size of images, their channels and the classes are those of the model. */
typedef struct tl_vision_transformer_config {
    int64_t patch_size;               /* 16 */
    int64_t embed_dim;                /* 192 */
    int64_t depth;                    /* 12 */
    int64_t num_heads;                /* 3 */
    double mlp_ratio;                 /* 4: units inside the dense layers, rounded down */
    double drop_rate, attn_drop_rate; /* of what parts give; of the attention's weights */
    double drop_path_rate;            /* of the last block; the first is never left out */
} tl_vision_transformer_config;
TL_API extern const tl_backbone_class tl_backbone_vision_transformer;

/* cnn: for each number of filters, convolutions of that many and a 2x2 max pooling; then dense
 * layers. */
typedef struct tl_cnn_config {
    tl_ints filters;     /* 32, 64 */
    int64_t kernel;      /* 3 */
    int64_t repeats;     /* 1: convolutions before each pooling */
    tl_ints units;       /* 128: of the dense layers; none: the map is pooled */
    bool batch_norm;     /* after each convolution */
    double dropout_rate; /* behind each pooling */
} tl_cnn_config;
TL_API extern const tl_backbone_class tl_backbone_cnn;

/* mlp: dense layers over all pixels. */
typedef struct tl_mlp_config {
    tl_ints units;       /* 256, 256 */
    double dropout_rate; /* behind each */
} tl_mlp_config;
TL_API extern const tl_backbone_class tl_backbone_mlp;

TL_END

#endif
