/* Pictures with a class for each pixel, on their way into a model of segmentation.
 *
 *     tl_dataset *d;
 *     TL_TRY(tl_segmentation_inputs(&d, &(tl_segmentation_inputs_args){
 *         .data = data, .ignore_label = 255, .arena = arena}));
 *
 * Names and defaults are those of Model Garden's official/vision/configs/semantic_segmentation.py.
 * Records are tf.train.Example with these features:
 *
 *     image/encoded                     JPEG or PNG; another name: image_feature.feature_name
 *     image/segmentation/class/encoded  the classes: a PNG of one channel, of the same size
 *
 * Batches, of crop_size in training where it is set, else of output_size:
 *
 *     image        float32 [B, height, width, channels]  normalised; zeros around the picture
 *     masks        float32 [B, height, width, 1]  the class of each pixel; ignore_label around the
 *                                                 picture
 *     valid_masks  bool [B, height, width, 1]     masks that are not ignore_label
 *     image_info   float32 [B, 4, 2]              size of the picture, of what is wanted, scale,
 *                                                 offset
 *
 * In evaluations without resize_eval_groundtruth, masks have the size of the picture, filled up to
 * groundtruth_padded_size.
 *
 * Ownership: the dataset is the caller's. Thread word: immutable (configurations); a dataset one
 * thread at a time. */
#ifndef TILTH_ZOO_SEGMENTATION_INPUTS_H
#define TILTH_ZOO_SEGMENTATION_INPUTS_H

#include <tilth/data/dataset.h>
#include <tilth/train/task.h>

TL_BEGIN

/* A feature that is a picture, of bytes. */
typedef struct tl_dense_feature {
    const char *feature_name; /* image/encoded */
    int64_t num_channels;     /* 3 */
    tl_doubles mean, stddev;  /* ImageNet's, of bytes, one for each channel */
} tl_dense_feature;

typedef enum tl_segmentation_files {
    TL_SEGMENTATION_TFRECORD,
    TL_SEGMENTATION_SSTABLE,  /* (refused) */
    TL_SEGMENTATION_TFDS,     /* (refused) */
    TL_SEGMENTATION_SYNTHETIC /* made up: shapes of five kinds, 96 x 96 pixels, for trying out */
} tl_segmentation_files;

typedef struct tl_segmentation_data_config {
    tl_data_config base;
    tl_dense_feature image_feature;
    tl_ints output_size; /* height, width that pictures are brought to */
    /* (or none) In training, pictures are stretched to output_size, or stay as they are where that
     * is empty, and a part of this size is taken. */
    tl_ints crop_size;
    const tl_value *weights;
    const char *dtype;
    bool resize_eval_groundtruth;
    tl_ints groundtruth_padded_size;
    double aug_scale_min, aug_scale_max;
    bool aug_rand_hflip;
    bool preserve_aspect_ratio;
    const char *aug_policy; /* never read */
    tl_segmentation_files file_type;
    tl_oneof decoder;                     /* never read */
    tl_structs additional_dense_features; /* of tl_dense_feature: channels behind the picture's */
    bool centered_crop;
    /* Ours. */
    int64_t synthetic_examples;
} tl_segmentation_data_config;
extern TL_API const tl_desc tl_dense_feature_desc, tl_segmentation_data_config_desc;

typedef struct tl_segmentation_inputs_args {
    const tl_segmentation_data_config *data; /* must outlive the dataset */
    int64_t num_classes;  /* (optional: any) masks with others, but for ignore_label, are errors */
    int64_t ignore_label; /* of the losses: 255 is usual */
    bool gt_is_matting_map; /* of the losses: bytes of masks are shares of 255 */
    tl_input_context input;
    bool evaluation;    /* each example once, the last short batch too */
    bool name_examples; /* batches have the field TL_BATCH_NAME too */
    int threads;        /* (optional: as many as the machine has) */
    tl_arena *arena;    /* lives as long as the dataset */
} tl_segmentation_inputs_args;
TL_API TL_NODISCARD tl_status tl_segmentation_inputs(tl_dataset **out,
                                                     const tl_segmentation_inputs_args *args);

/* Height, width and channels of `image` in evaluations. */
TL_API TL_NODISCARD tl_status tl_segmentation_image_size(int64_t out[3],
                                                         const tl_segmentation_data_config *data);
/* What evaluations do to a picture: an encoded one in; out floats of that size, and the eight
 * numbers of image_info. A JPEG is turned as its EXIF orientation says, unless it is `of_data`.
 * With additional_dense_features one file is not enough, which is an error. */
TL_API TL_NODISCARD tl_status tl_segmentation_prepare(float *image, float image_info[8],
                                                      const tl_segmentation_data_config *data,
                                                      const void *file, size_t bytes, bool of_data);
/* The same for pixels that are bytes already: [height, width, channels], or [height, width] of a
 * single channel. */
TL_API TL_NODISCARD tl_status tl_segmentation_prepare_pixels(
    float *image, float image_info[8], const tl_segmentation_data_config *data, tl_shape shape,
    const void *pixels);

/* The way back: maps of a prepared picture that are brought to height x width have the picture as
 * it was, pixel by pixel, from `top` and `left` on. */
typedef struct tl_segmentation_way_back {
    int64_t height, width;
    float top, left;
} tl_segmentation_way_back;
/* For a picture of this size. */
TL_API TL_NODISCARD tl_status tl_segmentation_look_back(tl_segmentation_way_back *out,
                                                        const tl_segmentation_data_config *data,
                                                        int64_t height, int64_t width);

TL_END

#endif
