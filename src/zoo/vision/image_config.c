/* What image classification is configured with. */
#include <string.h>

#include <tilth/zoo/detection_inputs.h>
#include <tilth/zoo/vision.h>

/* Features of Model Garden that are not here yet. */
#define LATER .flags = TL_FIELD_LATER

/* --- model ------------------------------------------------------------------------------------ */

/* Those of the engine, one by its name in Keras. */
static const char *const activation_names[] = {
    "linear",
#define TL_ACTIVATION(id, name, keras, call) keras,
#include <tilth/core/elementwise.def>
    NULL,
};

static const tl_field norm_fields[] = {
    TL_F(tl_norm_activation, activation, .i = TL_ACT_RELU, .names = activation_names,
         .help = "function behind each layer"),
    TL_F(tl_norm_activation, use_sync_bn,
         .help = "batch norm over the batches of all replicas; with one replica only the running "
                 "variance differs, which is that of the batch and not the estimate of the "
                 "population's"),
    TL_F(tl_norm_activation, norm_momentum, .d = 0.99, TL_RANGE(0, 1),
         .help = "how much of the running statistics of batch norm stays"),
    TL_F(tl_norm_activation, norm_epsilon, .d = 0.001, TL_AT_LEAST(0),
         .help = "added to the variance in batch norm"),
    TL_F_END,
};
const tl_desc tl_norm_activation_desc = {
    .name = "norm_activation",
    .help = "batch norm, and the function behind each layer",
    .size = sizeof(tl_norm_activation),
    .fields = norm_fields,
};

static tl_status check_input_size(const void *value)
{
    const tl_ints *size = &((const tl_image_model_config *)value)->input_size;
    if (!size->count || size->count == 3) return TL_OK;
    return TL_FAIL(TL_EINVAL, "input_size: expected [height, width, channels], found %lld numbers",
                   (long long)size->count);
}

static const tl_field model_fields[] = {
    TL_F(tl_image_model_config, num_classes, TL_AT_LEAST(0), .help = "number of classes"),
    TL_F(tl_image_model_config, input_size, TL_AT_LEAST(1),
         .help = "height, width and channels of images"),
    TL_F(tl_image_model_config, backbone, .kind = &tl_kind_backbone,
         .help = "what turns images into features"),
    TL_F(tl_image_model_config, dropout_rate, TL_RANGE(0, 1),
         .help = "share of features dropped before the last layer"),
    TL_F_STRUCT(tl_image_model_config, norm_activation, &tl_norm_activation_desc,
                .help = "batch norm, and the function behind each layer"),
    TL_F(tl_image_model_config, add_head_batch_norm, .help = "batch norm behind the backbone"),
    TL_F(tl_image_model_config, kernel_initializer, .s = "random_uniform",
         .help = "first values of the last layer: the name of an initialiser"),
    TL_F(tl_image_model_config, output_softmax,
         .help = "metrics are given probabilities and not logits"),
    TL_F_END,
};
const tl_desc tl_image_model_config_desc = {
    .name = "image_classification_model",
    .help = "a backbone, pooling and a dense layer",
    .size = sizeof(tl_image_model_config),
    .fields = model_fields,
    .check = check_input_size,
};

/* --- data ------------------------------------------------------------------------------------- */

static const tl_branch augmentations[] = {
    {"autoaug", &tl_autoaug_desc}, {"randaug", &tl_randaug_desc}, {NULL, NULL}};

static const char *const file_types[] = {"tfrecord",     "sstable",   "tfds", "idx",
                                         "image_folder", "synthetic", NULL};
static const char *const holdout_parts[] = {"auto", "train", "validation", NULL};
static const char *const resize_methods[] = {"bilinear", "nearest", "area", "bicubic", NULL};

#define OURS .flags = TL_FIELD_QUIET
static const tl_field data_fields[] = {
    TL_F_AS(tl_image_data_config, base.is_training, "is_training", .set = true, .b = true,
            .help = "repeat, shuffle and change the images at random; null is as false"),
    TL_F_AS(tl_image_data_config, base.shuffle_buffer_size, "shuffle_buffer_size", .i = 10000,
            TL_AT_LEAST(0), .help = "examples among which the next one is drawn in training"),
    TL_F_AS(tl_image_data_config, base.cycle_length, "cycle_length", .set = true, .i = 10,
            TL_AT_LEAST(-1),
            .help = "files read at a time, in turn; null or -1 lets the library choose"),
    TL_F(tl_image_data_config, dtype, .s = "float32", .pattern = "^(float32|float16|bfloat16)$",
         .help = "type of images; whatever it is, the model computes in that of the runtime"),
    TL_F(tl_image_data_config, file_type, .names = file_types,
         .help = "tfrecord; idx (input_path: images, then labels), image_folder (input_path: a "
                 "folder with a folder for each class), synthetic (nothing is read). sstable and "
                 "tfds are not supported"),
    TL_F(tl_image_data_config, image_field_key, .s = "image/encoded",
         .help = "feature of an example that holds the encoded image"),
    TL_F(tl_image_data_config, label_field_key, .s = "image/class/label",
         .help = "feature of an example that holds the class"),
    TL_F(tl_image_data_config, decode_jpeg_only, .b = true,
         .help = "Model Garden's decoder for JPEG alone; Tilth tells JPEG and PNG apart by itself"),
    TL_F(tl_image_data_config, is_multilabel,
         .help = "examples may have several classes, or none; that of train_data holds for both"),
    TL_F(tl_image_data_config, aug_crop, .b = true,
         .help = "in training, cut out a part of random size and shape"),
    TL_F(tl_image_data_config, crop_area_range, TL_DEFAULT_LIST(double, 0.08, 1), TL_RANGE(0, 1),
         .help = "least and largest share of the image that aug_crop takes"),
    TL_F(tl_image_data_config, aug_rand_hflip, .b = true,
         .help = "in training, flip left and right at random"),
    TL_F(tl_image_data_config, center_crop_fraction, .d = 0.875, TL_RANGE(0, 1),
         .help = "in evaluation, cut out the square in the middle with this share of the shorter "
                 "side; 0 takes the whole image"),
    TL_F(tl_image_data_config, tf_resize_method, .names = resize_methods,
         .help = "how images get the size of the model's input"),
    TL_F(tl_image_data_config, color_jitter, TL_RANGE(0, 1000),
         .help = "in training, multiply brightness, contrast and colour by factors up to this far "
                 "from 1"),
    TL_F(tl_image_data_config, aug_policy, .flags = TL_FIELD_NULLABLE,
         .help = "autoaug or randaug; the older form of aug_type, which overrides it"),
    TL_F(tl_image_data_config, randaug_magnitude, .set = true, .i = 10, TL_RANGE(0, 100),
         .help = "magnitude of an aug_policy that is randaug; null is 10"),
    TL_F(tl_image_data_config, aug_type, .flags = TL_FIELD_NULLABLE, .branches = augmentations,
         .help = "in training, a policy of random changes"),
    TL_F(tl_image_data_config, three_augment,
         .help = "in training, images are grey, solarized or blurred"),
    TL_F_OPTIONAL(tl_image_data_config, random_erasing, &tl_random_erasing_desc,
                  .help = "in training, noise over random parts"),
    TL_F_OPTIONAL(tl_image_data_config, mixup_and_cutmix, &tl_mixup_and_cutmix_desc,
                  .help =
                      "in training, mixtures of two images; labels become shares of the classes"),
    TL_F(tl_image_data_config, repeated_augment, TL_RANGE(1, 64),
         .help = "in training, how often each example comes in a pass, augmented anew each time; "
                 "null: once"),
    TL_F(tl_image_data_config, weights, .flags = TL_FIELD_NULLABLE, .accept = TL_ACCEPT_MAP,
         .help = "shares of the parts of an input_path that is a map"),
    TL_F(tl_image_data_config, decoder, .s = "simple_decoder", .branches = tl_example_decoders,
         .flags = TL_FIELD_UNREAD,
         .help = "how examples with boxes and masks are read; for images, set image_field_key and "
                 "label_field_key"),
    TL_F(tl_image_data_config, mean, OURS, TL_AT_LEAST(0),
         .help = "subtracted from the bytes of each channel; empty: that of ImageNet"),
    TL_F(tl_image_data_config, stddev, OURS, TL_AT_LEAST(1e-6),
         .help =
             "each channel is divided by it, after mean is subtracted; empty: that of ImageNet"),
    TL_F(tl_image_data_config, aug_pad, OURS, TL_RANGE(0, 4096),
         .help = "in training, move the image by up to this many pixels, with zeros around it"),
    TL_F(tl_image_data_config, synthetic_examples, .i = 1024, OURS, TL_RANGE(1, 100000000),
         .help = "examples that file_type synthetic makes"),
    TL_F(tl_image_data_config, shorter_side, OURS, TL_RANGE(0, 65536),
         .help =
             "if the shorter side of an encoded image is longer than this, reduce the image to it "
             "first, with every pixel counted; `cache` keeps the reduced images; 0: leave them"),
    TL_F(tl_image_data_config, holdout, OURS, TL_RANGE(0, 0.999),
         .help = "share of the images that is held out of training, for validation; they are "
                 "chosen by their bytes"),
    TL_F(tl_image_data_config, holdout_part, OURS, .names = holdout_parts,
         .help = "which part is read: train (what is left), validation (what is held out); auto is "
                 "train for train_data and validation for validation_data"),
    TL_F(tl_image_data_config, skip_bad, OURS,
         .help =
             "images that cannot be decoded are left out and reported; otherwise they end the run"),
    TL_F(tl_image_data_config, exif_orientation, OURS,
         .help = "turn images as their EXIF orientation says; null is true for image_folder and "
                 "for single files, false for all else, as Model Garden has it"),
    TL_F_END,
};

static tl_status check_data(const void *value)
{
    const tl_image_data_config *d = value;
    const tl_doubles *area = &d->crop_area_range;
    if (d->file_type == TL_IMAGES_SSTABLE || d->file_type == TL_IMAGES_TFDS)
        return TL_FAIL(
            TL_EUNSUPPORTED,
            "file_type: %s is not supported; write TFRecords, or use image_folder or idx",
            file_types[d->file_type]);
    if (area->count != 2 || area->items[0] > area->items[1])
        return TL_FAIL(TL_EINVAL, "crop_area_range: expected two shares, the smaller first");
    if (d->mean.count != d->stddev.count)
        return TL_FAIL(TL_EINVAL,
                       "mean: it has %lld numbers and stddev %lld; there is one for each channel",
                       (long long)d->mean.count, (long long)d->stddev.count);
    if (d->aug_policy && *d->aug_policy && strcmp(d->aug_policy, "autoaug")
        && strcmp(d->aug_policy, "randaug"))
        return TL_FAIL(TL_EINVAL, "aug_policy: expected autoaug or randaug, found '%.80s'",
                       d->aug_policy);
    if (d->base.sampler && d->repeated_augment.set && d->repeated_augment.value > 1)
        return TL_FAIL(TL_EINVAL, "repeated_augment: it cannot stand beside a sampler, which says "
                                  "how often each example is read");
    if (d->holdout > 0 && d->file_type == TL_IMAGES_SYNTHETIC)
        return TL_FAIL(TL_EINVAL,
                       "holdout: file_type synthetic makes examples of its own for validation");
    if (d->base.sampler && d->holdout > 0 && d->file_type != TL_IMAGES_FOLDER)
        return TL_FAIL(
            TL_EINVAL,
            "holdout: beside a sampler, which counts examples, only image_folder can be divided");
    if (d->base.sampler && d->skip_bad)
        return TL_FAIL(TL_EINVAL,
                       "skip_bad: it cannot stand beside a sampler, which counts on every example");
    if (d->is_multilabel && d->mixup_and_cutmix)
        return TL_FAIL(
            TL_EINVAL,
            "mixup_and_cutmix: it mixes examples of one class each; is_multilabel is set");
    return TL_OK;
}

const tl_desc tl_image_data_config_desc = {
    .name = "image_data",
    .help = "images and their classes",
    .size = sizeof(tl_image_data_config),
    .fields = data_fields,
    .base = &tl_data_config_desc,
    .check = check_data,
};

/* --- the task --------------------------------------------------------------------------------- */

static const tl_field losses_fields[] = {
    TL_F(tl_image_losses, loss_weight, .d = 1, TL_AT_LEAST(0), .help = "factor of the whole loss"),
    TL_F(tl_image_losses, one_hot, .b = true,
         .help = "labels become vectors; needed for label_smoothing"),
    TL_F(tl_image_losses, label_smoothing, TL_RANGE(0, 1),
         .help = "share of each label that is spread over all classes"),
    TL_F(tl_image_losses, l2_weight_decay, TL_AT_LEAST(0),
         .help = "half of it times the squares of the weights is added to the loss"),
    TL_F(tl_image_losses, soft_labels, .help = "labels are shares of the classes already"),
    TL_F(tl_image_losses, use_binary_cross_entropy,
         .help = "each class is a yes-or-no question of its own"),
    TL_F_END,
};
static const tl_desc losses_desc = {
    .name = "losses",
    .help = "how answers are judged",
    .size = sizeof(tl_image_losses),
    .fields = losses_fields,
};

static const tl_field evaluation_fields[] = {
    TL_F(tl_image_evaluation, top_k, .i = 5, TL_AT_LEAST(1),
         .help = "the metric top_K_accuracy: the label is among the K greatest answers"),
    TL_F(tl_image_evaluation, precision_and_recall_thresholds, .flags = TL_FIELD_NULLABLE,
         TL_RANGE(0, 1),
         .help = "above which an answer counts: a probability with model.output_softmax, else a "
                 "logit; null for none of these metrics"),
    TL_F(tl_image_evaluation, report_per_class_precision_and_recall,
         .help = "precision and recall of each class"),
    TL_F(tl_image_evaluation, report_mistakes, .flags = TL_FIELD_QUIET, TL_RANGE(0, 1000),
         .help = "print which classes were taken for which, and this many of the worst mistakes "
                 "with the names of their files; 0 prints none"),
    TL_F_END,
};
static const tl_desc evaluation_desc = {
    .name = "evaluation",
    .help = "what is told of an evaluation",
    .size = sizeof(tl_image_evaluation),
    .fields = evaluation_fields,
};

static void init_validation(void *value)
{
    ((tl_image_data_config *)value)->base.is_training.value = false;
}

static const tl_field task_fields[] = {
    TL_F_AS(tl_image_task_config, base.init_checkpoint, "init_checkpoint",
            .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
            .help = "checkpoint, or a folder with some, from which the weights start when the "
                    "model's folder has none"),
    TL_F_AS(tl_image_task_config, base.model, "model", .set = true,
            .desc = &tl_image_model_config_desc, .help = "backbone and head"),
    TL_F_OPTIONAL_AS(tl_image_task_config, base.train_data, "train_data",
                     &tl_image_data_config_desc, .set = true, .help = "examples to train with"),
    TL_F_OPTIONAL_AS(tl_image_task_config, base.validation_data, "validation_data",
                     &tl_image_data_config_desc, .set = true, .init = init_validation,
                     .help = "examples to evaluate with"),
    TL_F_STRUCT(tl_image_task_config, losses, &losses_desc, .help = "how answers are judged"),
    TL_F_STRUCT(tl_image_task_config, evaluation, &evaluation_desc,
                .help = "what is told of an evaluation"),
    TL_F(tl_image_task_config, train_input_partition_dims, LATER,
         .help = "parts of images by replica"),
    TL_F(tl_image_task_config, eval_input_partition_dims, LATER, .help = "the same in evaluation"),
    TL_F(tl_image_task_config, init_checkpoint_modules, .s = "all", .pattern = "^(all|backbone)$",
         .help = "what init_checkpoint gives: all or backbone"),
    TL_F(tl_image_task_config, model_output_keys, LATER, .help = "which answers of several"),
    TL_F(tl_image_task_config, freeze_backbone, .help = "train the head alone"),
    TL_F(tl_image_task_config, class_names, OURS,
         .help = "names of the classes, in order; empty: the folders of train_data, or the list of "
                 "classes beside its records"),
    TL_F(tl_image_task_config, freeze_backbone_steps, OURS, TL_AT_LEAST(0),
         .help = "train the head alone in the first so many steps: the weights of the backbone "
                 "stay as they are until then"),
    TL_F_END,
};

static tl_status check_task(const void *value)
{
    const tl_image_task_config *t = value;
    const tl_image_losses *l = &t->losses;
    const tl_image_model_config *m = t->base.model.value;
    const tl_image_data_config *train = (const tl_image_data_config *)t->base.train_data;
    const tl_image_data_config *validation = (const tl_image_data_config *)t->base.validation_data;
    bool vectors = l->one_hot || l->soft_labels || l->use_binary_cross_entropy
                   || (train && train->is_multilabel);
    if (l->label_smoothing > 0 && !vectors)
        return TL_FAIL(TL_EINVAL, "losses.label_smoothing: it needs losses.one_hot");
    if (validation && validation->is_multilabel && !(train && train->is_multilabel))
        return TL_FAIL(TL_EINVAL, "validation_data.is_multilabel: train_data.is_multilabel holds "
                                  "for both, and is not set: set it too");
    if (m && t->class_names.count && t->class_names.count != m->num_classes)
        return TL_FAIL(TL_EINVAL, "class_names: there are %lld names for %lld classes",
                       (long long)t->class_names.count, (long long)m->num_classes);
    return TL_OK;
}

const tl_desc tl_image_task_config_desc = {
    .name = "image_classification",
    .help = "tells to which class an image belongs",
    .size = sizeof(tl_image_task_config),
    .fields = task_fields,
    .base = &tl_task_config_desc,
    .check = check_task,
};
