/* Decoders: what makes the maps of a backbone ready for heads, level by level.
 *
 *     tl_layer *decoder;
 *     tl_decoder_parts with = {.parts = parts, .model = {3, 7}, .backbone = {2, 5}};
 *     TL_TRY(tl_decoder_make(&decoder, s, &(tl_oneof){.type = "fpn"}, &with));
 *     ...
 *     tl_call_all(c, decoder, &maps, &pyramid); // "3" to "7"
 *
 * A decoder of one's own is a class of the kind `decoder`. Names and defaults are those of Model
 * Garden's official/vision/configs/decoders.py.
 *
 * Ownership: layers belong to their model. Thread word: immutable (configurations, classes). */
#ifndef TILTH_ZOO_DECODER_H
#define TILTH_ZOO_DECODER_H

#include <tilth/zoo/backbone.h>

TL_BEGIN

/* What a model gives to its decoder. */
typedef struct tl_decoder_parts {
    tl_backbone_parts parts;
    tl_levels model;    /* min_level and max_level of the model */
    tl_levels backbone; /* that the backbone gives */
    /* (optional: not known) channels of the backbone's maps, as tl_backbone_class has it */
    int64_t (*channels)(const void *config, int64_t level);
    const void *backbone_config; /* for `channels` */
} tl_decoder_parts;

typedef struct tl_decoder_class {
    tl_class cls;
    /* (optional: the maps of the backbone stay as they are) A layer under the scope's that takes
     * maps by the names of their levels and gives others. `config` and what `parts` points at stay
     * valid as long as the model. NULL, with the error set, when that failed. */
    tl_layer *(*make)(tl_scope *s, const char *name, const void *config,
                      const tl_decoder_parts *parts);
    /* (optional: all is well) Whether it can stand on such a backbone. */
    tl_status (*check)(const void *config, const tl_decoder_parts *parts);
    /* (optional: none) Which objects its layers, below "decoder", are in checkpoints of Model
     * Garden; there too they lie below "decoder". */
    tl_status (*original_names)(const void *config, const tl_decoder_parts *parts,
                                tl_original_names *into);
} tl_decoder_class;
TL_API extern const tl_kind tl_kind_decoder;

/* The decoder that `choice` names, as the part "decoder" of the scope's model; without a value it
 * has its defaults. *out is NULL, without a failure, when nothing stands between backbone and
 * head. */
TL_API TL_NODISCARD tl_status tl_decoder_make(tl_layer **out, tl_scope *s, const tl_oneof *choice,
                                              const tl_decoder_parts *parts);
/* Its class and configuration, in `arena` where `choice` has none. Without a type it is the
 * identity. */
TL_API TL_NODISCARD tl_status tl_decoder_find(const tl_decoder_class **cls, const void **config,
                                              tl_arena *arena, const tl_registry *registry,
                                              const tl_oneof *choice);

/* --- those that ship -------------------------------------------------------------------------- */

/* identity: the backbone's maps go to the head. */
typedef struct tl_identity_config {
    char unused;
} tl_identity_config;
TL_API extern const tl_decoder_class tl_decoder_identity;

/* fpn: a feature pyramid. What a coarse level has seen is added to the finer ones; levels above the
 * backbone's are made by convolutions of stride 2. */
typedef enum tl_fpn_fusion { TL_FPN_SUM, TL_FPN_CONCAT } tl_fpn_fusion;
typedef struct tl_fpn_config {
    int64_t num_filters; /* 256 */
    tl_fpn_fusion fusion_type;
    bool use_separable_conv; /* their kernels have no penalty, and begin as Keras' do */
    bool use_keras_layer;    /* makes no difference here */
} tl_fpn_config;
TL_API extern const tl_decoder_class tl_decoder_fpn;

/* nasfpn: the pyramid that a search has found, of levels 3 to 7, some times over. */
typedef struct tl_nasfpn_config {
    int64_t num_filters; /* 256 */
    int64_t num_repeats; /* 5 */
    bool use_separable_conv;
} tl_nasfpn_config;
TL_API extern const tl_decoder_class tl_decoder_nasfpn;

/* aspp: convolutions of several dilations, and the mean of the image, over one level: DeepLab's. */
typedef struct tl_aspp_config {
    int64_t level;          /* 4 */
    tl_ints dilation_rates; /* none: one convolution of 1x1 and the mean */
    double dropout_rate;
    int64_t num_filters; /* 256 */
    bool use_depthwise_convolution;
    tl_ints pool_kernel_size;      /* null: of all pixels; else height and width in pixels */
    const char *spp_layer_version; /* v1 */
    bool output_tensor;            /* makes no difference here */
} tl_aspp_config;
TL_API extern const tl_decoder_class tl_decoder_aspp;

TL_END

#endif
