/* What data for detectors are configured with. */
#include <tilth/zoo/detection_inputs.h>

#define OURS .flags = TL_FIELD_QUIET

/* --- decoders --------------------------------------------------------------------------------- */

static const tl_field simple_decoder_fields[] = {
    TL_F(tl_simple_decoder, regenerate_source_id,
         .help = "ids of pictures are made of their bytes, whatever the files say"),
    TL_F(tl_simple_decoder, mask_binarize_threshold, TL_RANGE(0, 255),
         .help = "values of a mask above it are inside of the object; null: all but 0"),
    TL_F(tl_simple_decoder, attribute_names,
         .help = "attributes of objects: features image/object/attribute/NAME"),
    TL_F_END,
};
const tl_desc tl_simple_decoder_desc = {
    .name = "simple_decoder",
    .help = "features of an example as they are",
    .size = sizeof(tl_simple_decoder),
    .fields = simple_decoder_fields,
};

static const tl_field label_map_fields[] = {
    TL_F(tl_label_map_decoder, regenerate_source_id,
         .help = "ids of pictures are made of their bytes, whatever the files say"),
    TL_F(tl_label_map_decoder, mask_binarize_threshold, TL_RANGE(0, 255),
         .help = "values of a mask above it are inside of the object; null: all but 0"),
    TL_F(tl_label_map_decoder, label_map, .s = "", .flags = TL_FIELD_PATH,
         .help = "CSV file with lines NUMBER,NAME: classes of objects that have names"),
    TL_F_END,
};
const tl_desc tl_label_map_decoder_desc = {
    .name = "label_map_decoder",
    .help = "classes of objects have names, which a file gives numbers",
    .size = sizeof(tl_label_map_decoder),
    .fields = label_map_fields,
};

const tl_branch tl_example_decoders[] = {{"simple_decoder", &tl_simple_decoder_desc},
                                         {"label_map_decoder", &tl_label_map_decoder_desc},
                                         {NULL, NULL}};

/* --- augmentation ----------------------------------------------------------------------------- */

static const tl_field rand_jpeg_fields[] = {
    TL_F(tl_rand_jpeg, min_quality, .i = 20, TL_RANGE(1, 100), .help = "least quality"),
    TL_F(tl_rand_jpeg, max_quality, .i = 100, TL_RANGE(2, 101),
         .help = "quality that is not reached any more"),
    TL_F(tl_rand_jpeg, prob_to_apply, .d = 0.6, TL_RANGE(0, 1), .help = "how often it is done"),
    TL_F_END,
};
static tl_status check_jpeg(const void *value)
{
    const tl_rand_jpeg *j = value;
    if (j->min_quality < j->max_quality) return TL_OK;
    return TL_FAIL(TL_EINVAL, "min_quality: it must be below max_quality, which is %lld",
                   (long long)j->max_quality);
}
const tl_desc tl_rand_jpeg_desc = {
    .name = "rand_jpeg_quality",
    .help = "writes pictures as JPEG of random quality, and reads them again",
    .size = sizeof(tl_rand_jpeg),
    .fields = rand_jpeg_fields,
    .check = check_jpeg,
};

static const tl_field limits_fields[] = {
    TL_F(tl_ssd_crop_limits, min_object_covered, TL_RANGE(0, 1),
         .help = "share of some box that the part must hold"),
    TL_F(tl_ssd_crop_limits, min_box_overlap, .d = 0.5, TL_RANGE(0, 1),
         .help = "boxes of which the part holds less are left out"),
    TL_F(tl_ssd_crop_limits, prob_to_apply, .d = 0.85, TL_RANGE(0, 1),
         .help = "how often a part is taken"),
    TL_F_END,
};
static const tl_desc limits_desc = {
    .name = "ssd_random_crop_param",
    .help = "limits of the part that is taken",
    .size = sizeof(tl_ssd_crop_limits),
    .fields = limits_fields,
};

static const tl_ssd_crop_limits usual_limits[] = {
    {0, 0.5, 0.85},   {0.1, 0.5, 0.85}, {0.3, 0.5, 0.85}, {0.5, 0.5, 0.85},
    {0.7, 0.5, 0.85}, {0.9, 0.5, 0.85}, {1, 0.5, 0.85},
};
static const tl_field ssd_fields[] = {
    TL_F(tl_ssd_random_crop, ssd_random_crop_params, .desc = &limits_desc, .items = usual_limits,
         .count = TL_COUNT(usual_limits), .help = "sets of limits, of which one is drawn"),
    TL_F(tl_ssd_random_crop, aspect_ratio_range, TL_DEFAULT_LIST(double, 0.5, 2),
         TL_RANGE(0.01, 100), .help = "least and greatest width / height of the part"),
    TL_F(tl_ssd_random_crop, area_range, TL_DEFAULT_LIST(double, 0.1, 1), TL_RANGE(0.0001, 1),
         .help = "least and greatest share of the picture"),
    TL_F_END,
};
static tl_status check_range(const char *name, const tl_doubles *range)
{
    if (range->count == 2 && range->items[0] <= range->items[1]) return TL_OK;
    return TL_FAIL(TL_EINVAL, "%s: expected two numbers, the smaller first", name);
}
static tl_status check_ssd(const void *value)
{
    const tl_ssd_random_crop *s = value;
    if (!s->ssd_random_crop_params.count)
        return TL_FAIL(TL_EINVAL, "ssd_random_crop_params: expected one set of limits at least");
    TL_TRY(check_range("aspect_ratio_range", &s->aspect_ratio_range));
    return check_range("area_range", &s->area_range);
}
const tl_desc tl_ssd_random_crop_desc = {
    .name = "ssd_random_crop",
    .help = "takes a part of the picture that holds enough of some object",
    .size = sizeof(tl_ssd_random_crop),
    .fields = ssd_fields,
    .check = check_ssd,
};

/* --- parser ----------------------------------------------------------------------------------- */

static const tl_branch augmentations[] = {{"randaug", &tl_randaug_desc},
                                          {"autoaug", &tl_autoaug_boxes_desc},
                                          {"ssd_random_crop", &tl_ssd_random_crop_desc},
                                          {NULL, NULL}};

static const tl_field parser_fields[] = {
    TL_F(tl_detection_parser, num_channels, .i = 3, .flags = TL_FIELD_UNREAD,
         .help = "Model Garden never reads it; pictures have 3"),
    TL_F(tl_detection_parser, match_threshold, .d = 0.5, TL_RANGE(0, 1),
         .help = "an anchor that overlaps an object as much belongs to it"),
    TL_F(tl_detection_parser, unmatched_threshold, .d = 0.5, TL_RANGE(0, 1),
         .help = "an anchor that overlaps all objects less is background"),
    TL_F(tl_detection_parser, aug_rand_hflip, .help = "in training, flip left and right at random"),
    TL_F_OPTIONAL(tl_detection_parser, aug_rand_jpeg, &tl_rand_jpeg_desc,
                  .help = "in training, losses of JPEG of random quality"),
    TL_F(tl_detection_parser, aug_scale_min, .d = 1, TL_RANGE(0.01, 100),
         .help = "in training, the least scale; 1 with an aug_scale_max of 1: always the same"),
    TL_F(tl_detection_parser, aug_scale_max, .d = 1, TL_RANGE(0.01, 100),
         .help = "in training, the greatest scale; of what becomes larger than the input, a random "
                 "part is cut out"),
    TL_F(tl_detection_parser, skip_crowd_during_training, .b = true,
         .help = "boxes around crowds are left out in training"),
    TL_F(tl_detection_parser, max_num_instances, .i = 100, TL_RANGE(1, 100000),
         .help = "objects of a picture; there is room for as many, and more are left out"),
    TL_F(tl_detection_parser, aug_type, .flags = TL_FIELD_NULLABLE, .branches = augmentations,
         .help = "in training, random changes of pictures and boxes"),
    TL_F(tl_detection_parser, pad, .b = true,
         .help = "sides of the input are rounded up to multiples of 2^max_level"),
    TL_F(tl_detection_parser, keep_aspect_ratio, .b = true,
         .help = "pictures keep their shape; otherwise they are stretched to the input"),
    TL_F(tl_detection_parser, aug_policy, .flags = TL_FIELD_NULLABLE | TL_FIELD_UNREAD,
         .help = "Model Garden never reads it; use aug_type"),
    TL_F_END,
};

static tl_status check_parser(const void *value)
{
    const tl_detection_parser *p = value;
    if (p->aug_scale_min > p->aug_scale_max)
        return TL_FAIL(TL_EINVAL, "aug_scale_min: it must be at most aug_scale_max, which is %g",
                       p->aug_scale_max);
    if (p->unmatched_threshold > p->match_threshold)
        return TL_FAIL(TL_EINVAL,
                       "unmatched_threshold: it must be at most match_threshold, which is %g",
                       p->match_threshold);
    return TL_OK;
}

const tl_desc tl_detection_parser_desc = {
    .name = "detection_parser",
    .help = "how pictures and boxes become the input of a detector",
    .size = sizeof(tl_detection_parser),
    .fields = parser_fields,
    .check = check_parser,
};

/* --- data ------------------------------------------------------------------------------------- */

static const char *const file_types[] = {"tfrecord", "sstable", "tfds", "synthetic", NULL};

static const tl_field data_fields[] = {
    TL_F_AS(tl_detection_data_config, base.is_training, "is_training", .set = true, .b = false,
            .help = "repeat, shuffle and change the pictures at random; null is as false"),
    TL_F_AS(tl_detection_data_config, base.shuffle_buffer_size, "shuffle_buffer_size", .i = 10000,
            TL_AT_LEAST(0), .help = "examples among which the next one is drawn in training"),
    TL_F(tl_detection_data_config, dtype, .s = "bfloat16",
         .pattern = "^(float32|float16|bfloat16)$",
         .help = "type of images; whatever it is, the model computes in that of the runtime"),
    TL_F(tl_detection_data_config, decoder, .s = "simple_decoder", .branches = tl_example_decoders,
         .help = "how examples are read"),
    TL_F_STRUCT(tl_detection_data_config, parser, &tl_detection_parser_desc,
                .help = "how pictures and boxes become the input"),
    TL_F(tl_detection_data_config, file_type, .names = file_types,
         .help = "tfrecord, or synthetic (nothing is read). sstable and tfds are not supported"),
    TL_F(tl_detection_data_config, weights, .flags = TL_FIELD_NULLABLE, .accept = TL_ACCEPT_MAP,
         .help = "shares of the parts of an input_path that is a map"),
    TL_F(tl_detection_data_config, mean, OURS, TL_AT_LEAST(0),
         .help = "subtracted from the bytes of each channel; empty: that of ImageNet"),
    TL_F(tl_detection_data_config, stddev, OURS, TL_AT_LEAST(1e-6),
         .help =
             "each channel is divided by it, after mean is subtracted; empty: that of ImageNet"),
    TL_F(tl_detection_data_config, synthetic_examples, .i = 1024, OURS, TL_RANGE(1, 100000000),
         .help = "examples that file_type synthetic makes"),
    TL_F_END,
};

static tl_status check_data(const void *value)
{
    const tl_detection_data_config *d = value;
    if (d->file_type == TL_DETECTION_SSTABLE || d->file_type == TL_DETECTION_TFDS)
        return TL_FAIL(TL_EUNSUPPORTED, "file_type: %s is not supported; write TFRecords",
                       file_types[d->file_type]);
    if (d->mean.count != d->stddev.count || (d->mean.count != 0 && d->mean.count != 3))
        return TL_FAIL(TL_EINVAL,
                       "mean: it has %lld numbers and stddev %lld; expected 3 of both, or none",
                       (long long)d->mean.count, (long long)d->stddev.count);
    return TL_OK;
}

const tl_desc tl_detection_data_config_desc = {
    .name = "detection_data",
    .help = "pictures, and boxes around objects in them",
    .size = sizeof(tl_detection_data_config),
    .fields = data_fields,
    .base = &tl_data_config_desc,
    .check = check_data,
};
