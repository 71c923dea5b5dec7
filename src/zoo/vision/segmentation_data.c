/* What data for segmentation are configured with. */
#include <tilth/zoo/detection_inputs.h>
#include <tilth/zoo/segmentation_inputs.h>

static const tl_field feature_fields[] = {
    TL_F(tl_dense_feature, feature_name, .s = "image/encoded",
         .help = "feature of an example that holds the encoded picture"),
    TL_F(tl_dense_feature, num_channels, .i = 3, TL_RANGE(1, 4), .help = "channels it is read as"),
    TL_F(tl_dense_feature, mean, TL_DEFAULT_LIST(double, 123.675, 116.28, 103.53), TL_AT_LEAST(0),
         .help = "subtracted from the bytes of each channel"),
    TL_F(tl_dense_feature, stddev, TL_DEFAULT_LIST(double, 58.395, 57.120000000000005, 57.375),
         TL_AT_LEAST(1e-6), .help = "each channel is divided by it, after mean is subtracted"),
    TL_F_END,
};
static tl_status check_feature(const void *value)
{
    const tl_dense_feature *f = value;
    if (f->mean.count == f->num_channels && f->stddev.count == f->num_channels) return TL_OK;
    return TL_FAIL(
        TL_EINVAL, "mean: it has %lld numbers and stddev %lld; num_channels asks for %lld",
        (long long)f->mean.count, (long long)f->stddev.count, (long long)f->num_channels);
}
const tl_desc tl_dense_feature_desc = {
    .name = "dense_feature",
    .help = "a feature of examples that is a picture",
    .size = sizeof(tl_dense_feature),
    .fields = feature_fields,
    .check = check_feature,
};

static const char *const file_types[] = {"tfrecord", "sstable", "tfds", "synthetic", NULL};

#define SIDES TL_RANGE(1, 65536)
static const tl_field data_fields[] = {
    TL_F_AS(tl_segmentation_data_config, base.input_path, "input_path",
            .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
            .accept = TL_ACCEPT_STRING | TL_ACCEPT_LIST | TL_ACCEPT_MAP,
            .help = "files to read: a path or a pattern with * and ?, several separated by commas, "
                    "a list of them, or a map of names to such for mixtures"),
    TL_F_AS(tl_segmentation_data_config, base.is_training, "is_training", .set = true, .b = true,
            .help = "repeat, shuffle and change the pictures at random; null is as false"),
    TL_F_AS(tl_segmentation_data_config, base.shuffle_buffer_size, "shuffle_buffer_size", .i = 1000,
            TL_AT_LEAST(0), .help = "examples among which the next one is drawn in training"),
    TL_F_AS(tl_segmentation_data_config, base.cycle_length, "cycle_length", .set = true, .i = 10,
            TL_AT_LEAST(-1),
            .help = "files read at a time, in turn; null or -1 lets the library choose"),
    TL_F_STRUCT(tl_segmentation_data_config, image_feature, &tl_dense_feature_desc,
                .help = "the picture"),
    TL_F(tl_segmentation_data_config, output_size, SIDES,
         .help = "height and width that pictures are brought to"),
    TL_F(tl_segmentation_data_config, crop_size, SIDES,
         .help = "in training, height and width of a part of the picture, which is stretched to "
                 "output_size first; empty: none"),
    TL_F(tl_segmentation_data_config, weights, .flags = TL_FIELD_NULLABLE, .accept = TL_ACCEPT_MAP,
         .help = "shares of the parts of an input_path that is a map"),
    TL_F(tl_segmentation_data_config, dtype, .s = "float32",
         .pattern = "^(float32|float16|bfloat16)$",
         .help = "type of images; whatever it is, the model computes in that of the runtime"),
    TL_F(tl_segmentation_data_config, resize_eval_groundtruth, .b = true,
         .help = "evaluate at output_size; otherwise at the size of each picture"),
    TL_F(tl_segmentation_data_config, groundtruth_padded_size, SIDES,
         .help = "height and width that hold every picture; needed without "
                 "resize_eval_groundtruth"),
    TL_F(tl_segmentation_data_config, aug_scale_min, .d = 1, TL_RANGE(0.01, 100),
         .help = "in training, the least scale; 1 with an aug_scale_max of 1: always the same"),
    TL_F(tl_segmentation_data_config, aug_scale_max, .d = 1, TL_RANGE(0.01, 100),
         .help = "in training, the greatest scale; of what becomes larger than the input, a random "
                 "part is cut out"),
    TL_F(tl_segmentation_data_config, aug_rand_hflip, .b = true,
         .help = "in training, flip left and right at random"),
    TL_F(tl_segmentation_data_config, preserve_aspect_ratio, .b = true,
         .help = "pictures keep their shape; otherwise they are stretched to output_size"),
    TL_F(tl_segmentation_data_config, aug_policy, .flags = TL_FIELD_NULLABLE | TL_FIELD_UNREAD,
         .help = "Model Garden never reads it"),
    TL_F(tl_segmentation_data_config, file_type, .names = file_types,
         .help = "tfrecord, or synthetic (nothing is read). sstable and tfds are not supported"),
    TL_F(tl_segmentation_data_config, decoder, .s = "simple_decoder",
         .branches = tl_example_decoders, .flags = TL_FIELD_UNREAD | TL_FIELD_NULLABLE,
         .help = "how examples with boxes are read; for pictures, set image_feature"),
    TL_F(tl_segmentation_data_config, additional_dense_features, .desc = &tl_dense_feature_desc,
         .help = "further features that are pictures of the same size: channels behind the "
                 "picture's own"),
    TL_F(tl_segmentation_data_config, centered_crop,
         .help = "pictures that are smaller than the input lie in its middle, and not at top left"),
    TL_F(tl_segmentation_data_config, synthetic_examples, .i = 1024, .flags = TL_FIELD_QUIET,
         TL_RANGE(1, 100000000), .help = "examples that file_type synthetic makes"),
    TL_F_END,
};

static tl_status check_size(const char *name, const tl_ints *size)
{
    if (!size->count || size->count == 2) return TL_OK;
    return TL_FAIL(TL_EINVAL, "%s: expected [height, width], found %lld numbers", name,
                   (long long)size->count);
}

static tl_status check_data(const void *value)
{
    const tl_segmentation_data_config *d = value;
    if (d->file_type == TL_SEGMENTATION_SSTABLE || d->file_type == TL_SEGMENTATION_TFDS)
        return TL_FAIL(TL_EUNSUPPORTED, "file_type: %s is not supported; write TFRecords",
                       file_types[d->file_type]);
    TL_TRY(check_size("output_size", &d->output_size));
    TL_TRY(check_size("crop_size", &d->crop_size));
    TL_TRY(check_size("groundtruth_padded_size", &d->groundtruth_padded_size));
    if (d->aug_scale_min > d->aug_scale_max)
        return TL_FAIL(TL_EINVAL, "aug_scale_min: it must be at most aug_scale_max, which is %g",
                       d->aug_scale_max);
    if (!d->resize_eval_groundtruth && !d->groundtruth_padded_size.count)
        return TL_FAIL(TL_EINVAL, "groundtruth_padded_size: set it to a height and a width that "
                                  "hold every picture, since resize_eval_groundtruth is false");
    if (!d->resize_eval_groundtruth && d->centered_crop)
        return TL_FAIL(TL_EINVAL, "centered_crop: it needs resize_eval_groundtruth");
    return TL_OK;
}

const tl_desc tl_segmentation_data_config_desc = {
    .name = "segmentation_data",
    .help = "pictures, and a class for each of their pixels",
    .size = sizeof(tl_segmentation_data_config),
    .fields = data_fields,
    .base = &tl_data_config_desc,
    .check = check_data,
};
