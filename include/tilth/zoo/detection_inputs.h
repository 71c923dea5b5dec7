/* Pictures with boxes, on their way into a detector: from records, through a pipeline, to batches.
 *
 *     tl_dataset *d;
 *     TL_TRY(tl_detection_inputs(&d, &(tl_detection_inputs_args){
 *         .data = data, .size = {(const int64_t[]){640, 640}, 2}, .max_level = 7,
 *         .arena = arena}));
 *
 * Names and defaults are those of Model Garden's official/vision/configs/retinanet.py. Records are
 * tf.train.Example with these features; lists have one value for each object:
 *
 *     image/encoded                        JPEG or PNG, read as RGB
 *     image/source_id                      the picture's id, in decimal; empty: a hash of its bytes
 *     image/object/bbox/{ymin,xmin,ymax,xmax}  shares of the picture's height and width
 *     image/object/class/label             from 1 on; 0 is the background
 *     image/object/class/text              label_map_decoder: names, which a file gives numbers
 *     image/object/area, image/object/is_crowd   (optional)
 *     image/object/mask                    with include_mask: a PNG of the picture's size for each
 *     image/object/attribute/NAME          of decoder.attribute_names
 *
 * Batches, where M is parser.max_num_instances, and what lies behind the last object is -1:
 *
 *     image         float32 [B, height, width, 3]  normalised, zeros at the bottom and right; each
 *                                                  side a multiple of 2^max_level with parser.pad
 *     boxes         float32 [B, M, 4]   ymin, xmin, ymax, xmax in pixels of `image`
 *     classes       int32 [B, M]
 *     attribute/NAME  float32 [B, M, size]
 *     image_info    float32 [B, 4, 2]   size of the picture, of `size`, scale, offset
 *
 * and in evaluations, in pixels of the picture as it was:
 *
 *     groundtruth/boxes [B, M, 4], groundtruth/classes, groundtruth/areas, groundtruth/is_crowds
 *     [B, M] (behind the last object of is_crowds: 0), groundtruth/source_id int64 [B],
 *     groundtruth/num_detections, groundtruth/height, groundtruth/width int32 [B], and with
 *     include_mask groundtruth/masks uint8 [B, most objects, greatest height, greatest width]
 *
 * Labels of anchors are made of them by tl_label_anchors (nn/detection.h).
 *
 * Ownership: the dataset is the caller's. Thread word: immutable (configurations); a dataset one
 * thread at a time. */
#ifndef TILTH_ZOO_DETECTION_INPUTS_H
#define TILTH_ZOO_DETECTION_INPUTS_H

#include <tilth/data/augment.h>
#include <tilth/data/dataset.h>
#include <tilth/train/task.h>

TL_BEGIN

/* --- decoders --------------------------------------------------------------------------------- */

/* Branches of `decoder`. */
typedef struct tl_simple_decoder {
    bool regenerate_source_id;             /* ids are hashes of the pictures' bytes */
    tl_opt_double mask_binarize_threshold; /* null: all that is not 0 is inside */
    tl_strings attribute_names;
} tl_simple_decoder;
typedef struct tl_label_map_decoder {
    bool regenerate_source_id;
    tl_opt_double mask_binarize_threshold;
    const char *label_map; /* a CSV file of lines NUMBER,NAME */
} tl_label_map_decoder;
extern TL_API const tl_desc tl_simple_decoder_desc, tl_label_map_decoder_desc;
/* Both, by their names, for rows of such a field. */
extern TL_API const tl_branch tl_example_decoders[];

/* Model Garden's id of a picture without one: Farmhash's Fingerprint64 modulo 2^22 - 1. */
TL_API int64_t tl_source_id_of(const void *data, size_t size);

/* --- configuration ---------------------------------------------------------------------------- */

/* aug_rand_jpeg: pictures are written as a JPEG of random quality, and read again. */
typedef struct tl_rand_jpeg {
    int64_t min_quality, max_quality; /* 20, 100: below the latter */
    double prob_to_apply;             /* 0.6 */
} tl_rand_jpeg;

/* ssd_random_crop: one of several sets of limits is drawn, and with its probability a part of the
 * picture. */
typedef struct tl_ssd_crop_limits {
    double min_object_covered; /* 0: of some box, so much is in the part */
    double min_box_overlap;    /* 0.5: boxes of which less is in the part are left out */
    double prob_to_apply;      /* 0.85 */
} tl_ssd_crop_limits;
typedef struct tl_ssd_random_crop {
    tl_structs ssd_random_crop_params; /* of tl_ssd_crop_limits; 7 of them */
    tl_doubles aspect_ratio_range;     /* 0.5, 2: width / height */
    tl_doubles area_range;             /* 0.1, 1: of the picture */
} tl_ssd_random_crop;
extern TL_API const tl_desc tl_rand_jpeg_desc, tl_ssd_random_crop_desc;

typedef struct tl_detection_parser {
    int64_t num_channels;                        /* 3 */
    double match_threshold, unmatched_threshold; /* 0.5, 0.5: for tl_label_anchors */
    bool aug_rand_hflip;
    tl_rand_jpeg *aug_rand_jpeg;         /* or NULL */
    double aug_scale_min, aug_scale_max; /* 1, 1: of the size, drawn for each picture */
    bool skip_crowd_during_training;     /* true */
    int64_t max_num_instances;           /* 100 */
    tl_oneof aug_type;                   /* none, or tl_autoaug, tl_randaug or tl_ssd_random_crop */
    bool pad, keep_aspect_ratio;
    const char *aug_policy; /* never read */
} tl_detection_parser;

typedef enum tl_detection_files {
    TL_DETECTION_TFRECORD,
    TL_DETECTION_SSTABLE,  /* (refused) */
    TL_DETECTION_TFDS,     /* (refused) */
    TL_DETECTION_SYNTHETIC /* made up: shapes of five kinds, 96 x 96 pixels, for trying out */
} tl_detection_files;

typedef struct tl_detection_data_config {
    tl_data_config base;
    const char *dtype;
    tl_oneof decoder;
    tl_detection_parser parser;
    tl_detection_files file_type;
    const tl_value *weights;
    /* Ours. */
    tl_doubles mean, stddev; /* of bytes, one for each channel; none: ImageNet's */
    int64_t synthetic_examples;
} tl_detection_data_config;
extern TL_API const tl_desc tl_detection_parser_desc, tl_detection_data_config_desc;

/* --- batches ---------------------------------------------------------------------------------- */

typedef struct tl_detection_inputs_args {
    const tl_detection_data_config *data; /* must outlive the dataset */
    tl_ints size;        /* height and width that pictures are fitted into; 3 behind them is fine */
    int64_t max_level;   /* of the model's feature maps */
    int64_t num_classes; /* (optional: any) with the background; others are errors */
    tl_ints attribute_sizes; /* (optional: 1 each) values of an object, by attribute_names */
    tl_input_context input;
    bool evaluation;    /* each example once, the last short batch too, and the ground truth */
    bool include_mask;  /* in evaluations */
    bool name_examples; /* batches have the field TL_BATCH_NAME too */
    int threads;        /* (optional: as many as the machine has) */
    tl_arena *arena;    /* lives as long as the dataset */
} tl_detection_inputs_args;
TL_API TL_NODISCARD tl_status tl_detection_inputs(tl_dataset **out,
                                                  const tl_detection_inputs_args *args);

/* --- one picture ------------------------------------------------------------------------------ */

/* Height and width of `image` in batches. */
TL_API TL_NODISCARD tl_status tl_detection_padded_size(int64_t out[2],
                                                       const tl_detection_data_config *data,
                                                       tl_ints size, int64_t max_level);
/* What evaluations do to a picture: an encoded one in; out floats of the padded size, three for
 * each pixel, and the eight numbers of image_info. A JPEG is turned as its EXIF orientation says,
 * unless it is `of_data`, whose boxes know nothing of that. */
TL_API TL_NODISCARD tl_status tl_detection_prepare(float *image, float image_info[8],
                                                   const tl_detection_data_config *data,
                                                   tl_ints size, int64_t max_level,
                                                   const void *file, size_t bytes, bool of_data);
/* The eight numbers alone, of a picture of this size. */
TL_API TL_NODISCARD tl_status tl_detection_image_info(float image_info[8],
                                                      const tl_detection_data_config *data,
                                                      tl_ints size, int64_t max_level,
                                                      int64_t height, int64_t width);
/* The same for pixels that are bytes already: [height, width] or [height, width, 3]. */
TL_API TL_NODISCARD tl_status tl_detection_prepare_pixels(float *image, float image_info[8],
                                                          const tl_detection_data_config *data,
                                                          tl_ints size, int64_t max_level,
                                                          tl_shape shape, const void *pixels);

TL_END

#endif
