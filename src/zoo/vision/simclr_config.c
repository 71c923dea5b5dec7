/* What SimCLR is configured with. */
#include <tilth/zoo/simclr.h>

#define OURS .flags = TL_FIELD_QUIET

/* --- data ------------------------------------------------------------------------------------- */

static const char *const modes[] = {"pretrain", "finetune", NULL};
static const char *const jitters[] = {"simclrv1", "simclrv2", NULL};
static const char *const file_types[] = {"tfrecord",     "sstable",   "tfds", "idx",
                                         "image_folder", "synthetic", NULL};
static const char *const holdout_parts[] = {"auto", "train", "validation", NULL};

static const tl_field parser_fields[] = {
    TL_F(tl_simclr_parser, aug_rand_crop, .b = true,
         .help = "in training, cut out a part of random size and shape"),
    TL_F(tl_simclr_parser, aug_rand_hflip, .b = true,
         .help = "in training, flip left and right at random"),
    TL_F(tl_simclr_parser, aug_color_distort, .b = true,
         .help = "in pre-training, change brightness, contrast and colours at random"),
    TL_F(tl_simclr_parser, aug_color_jitter_strength, .d = 1, TL_RANGE(0, 1.25),
         .help = "how far: factors are up to 0.8 of it away from 1, hues are turned by up to 0.2"),
    TL_F(tl_simclr_parser, aug_color_jitter_impl, .i = TL_SIMCLR_V2, .names = jitters,
         .help = "simclrv2 multiplies brightness, simclrv1 adds to it"),
    TL_F(tl_simclr_parser, aug_rand_blur, .b = true, .help = "in pre-training, blur at random"),
    TL_F(tl_simclr_parser, parse_label, .b = true,
         .help = "examples have classes; without them the model has no supervised_head"),
    TL_F(tl_simclr_parser, test_crop, .b = true,
         .help = "in evaluation, images larger than 32 pixels are seen without their edges"),
    TL_F(tl_simclr_parser, mode, .names = modes,
         .help = "pretrain: two views of each image; finetune: one, in its own colours"),
    TL_F(tl_simclr_parser, crop_area_range, OURS, TL_DEFAULT_LIST(double, 0.08, 1), TL_RANGE(0, 1),
         .help = "least and largest share of the image that aug_rand_crop takes"),
    TL_F_END,
};
static tl_status check_parser(const void *value)
{
    const tl_doubles *area = &((const tl_simclr_parser *)value)->crop_area_range;
    if (area->count == 2 && area->items[0] > 0 && area->items[0] <= area->items[1]) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "crop_area_range: expected two shares above 0, the smaller one first");
}
static const tl_desc parser_desc = {
    .name = "simclr_parser",
    .help = "how images are seen",
    .size = sizeof(tl_simclr_parser),
    .fields = parser_fields,
    .check = check_parser,
};

static const tl_field decoder_fields[] = {
    TL_F(tl_simclr_decoder, decode_label, .b = true, .help = "records have classes"),
    TL_F_END,
};
static const tl_desc decoder_desc = {
    .name = "simclr_decoder",
    .help = "what is read of records",
    .size = sizeof(tl_simclr_decoder),
    .fields = decoder_fields,
};

static const tl_field data_fields[] = {
    TL_F_AS(tl_simclr_data_config, base.is_training, "is_training", .set = true, .b = true,
            .help = "repeat, shuffle and change the images at random; null is as false"),
    TL_F_AS(tl_simclr_data_config, base.shuffle_buffer_size, "shuffle_buffer_size", .i = 10000,
            TL_AT_LEAST(0), .help = "examples among which the next one is drawn in training"),
    TL_F_AS(tl_simclr_data_config, base.cycle_length, "cycle_length", .set = true, .i = 10,
            TL_AT_LEAST(-1),
            .help = "files read at a time, in turn; null or -1 lets the library choose"),
    TL_F(tl_simclr_data_config, dtype, .s = "float32", .pattern = "^(float32|float16|bfloat16)$",
         .help = "type of images; whatever it is, the model computes in that of the runtime"),
    TL_F_STRUCT(tl_simclr_data_config, parser, &parser_desc, .help = "how images are seen"),
    TL_F_STRUCT(tl_simclr_data_config, decoder, &decoder_desc, .help = "what is read of records"),
    TL_F(tl_simclr_data_config, input_set_label_to_zero,
         .help = "in pre-training, all labels are 0: to be sure that none is used"),
    TL_F(tl_simclr_data_config, file_type, OURS, .names = file_types,
         .help = "tfrecord; idx (input_path: images, then labels), image_folder (input_path: a "
                 "folder with a folder for each class), synthetic (nothing is read)"),
    TL_F(tl_simclr_data_config, synthetic_examples, OURS, .i = 1024, TL_RANGE(1, 100000000),
         .help = "examples that file_type synthetic makes"),
    TL_F(tl_simclr_data_config, holdout, OURS, TL_RANGE(0, 0.999),
         .help = "share of the images that is held out of training, for validation; they are "
                 "chosen by their bytes"),
    TL_F(tl_simclr_data_config, holdout_part, OURS, .names = holdout_parts,
         .help = "which part is read: train (what is left), validation (what is held out); auto is "
                 "train for train_data and validation for validation_data"),
    TL_F_END,
};
static tl_status check_data(const void *value)
{
    const tl_simclr_data_config *d = value;
    if (d->file_type == TL_IMAGES_SSTABLE || d->file_type == TL_IMAGES_TFDS)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "file_type: %s is not supported; write TFRecords, or use "
                       "image_folder or idx",
                       file_types[d->file_type]);
    if (d->holdout > 0 && d->file_type == TL_IMAGES_SYNTHETIC)
        return TL_FAIL(TL_EINVAL,
                       "holdout: file_type synthetic makes examples of its own for validation");
    return TL_OK;
}
const tl_desc tl_simclr_data_config_desc = {
    .name = "simclr_data",
    .help = "images, and their classes",
    .size = sizeof(tl_simclr_data_config),
    .fields = data_fields,
    .base = &tl_data_config_desc,
    .check = check_data,
};

/* --- model ------------------------------------------------------------------------------------ */

static const tl_field projection_fields[] = {
    TL_F(tl_projection_head, proj_output_dim, .i = 128, TL_AT_LEAST(1),
         .help = "size of what is compared"),
    TL_F(tl_projection_head, num_proj_layers, .i = 3, TL_RANGE(0, 64), .help = "number of layers"),
    TL_F(tl_projection_head, ft_proj_idx, .i = 1, TL_RANGE(-64, 64),
         .help = "which of them the supervised head stands on: 0 on what comes into the first, -1 "
                 "on the last"),
    TL_F_END,
};
static tl_status check_projection(const void *value)
{
    const tl_projection_head *p = value;
    if (p->ft_proj_idx <= p->num_proj_layers && p->ft_proj_idx >= -p->num_proj_layers - 1)
        return TL_OK;
    return TL_FAIL(TL_EINVAL, "ft_proj_idx: there is no layer %lld among %lld",
                   (long long)p->ft_proj_idx, (long long)p->num_proj_layers);
}
static const tl_desc projection_desc = {
    .name = "projection_head",
    .help = "dense layers between the backbone and what is compared",
    .size = sizeof(tl_projection_head),
    .fields = projection_fields,
    .check = check_projection,
};

static const tl_field supervised_fields[] = {
    TL_F(tl_supervised_head, num_classes, .i = 1001, TL_AT_LEAST(1), .help = "number of classes"),
    TL_F(tl_supervised_head, zero_init, .help = "its weights begin as zeros"),
    TL_F_END,
};
static const tl_desc supervised_desc = {
    .name = "supervised_head",
    .help = "a dense layer that tells classes",
    .size = sizeof(tl_supervised_head),
    .fields = supervised_fields,
};

static void init_norm(void *value)
{
    tl_norm_activation *n = value;
    n->norm_momentum = 0.9;
    n->norm_epsilon = 1e-5;
}

static const tl_field model_fields[] = {
    TL_F(tl_simclr_model_config, input_size, TL_AT_LEAST(1),
         .help = "height, width and channels of images"),
    TL_F(tl_simclr_model_config, backbone, .kind = &tl_kind_backbone,
         .help = "what turns images into features"),
    TL_F_STRUCT(tl_simclr_model_config, projection_head, &projection_desc,
                .help = "between the backbone and what is compared"),
    TL_F_OPTIONAL(tl_simclr_model_config, supervised_head, &supervised_desc, .set = true,
                  .help =
                      "what tells classes; in pre-training it changes nothing below it, and may "
                      "be null"),
    TL_F_STRUCT(tl_simclr_model_config, norm_activation, &tl_norm_activation_desc,
                .init = init_norm, .help = "batch norm, and the function behind each layer"),
    TL_F(tl_simclr_model_config, mode, .names = modes, .help = "what the model is trained for"),
    TL_F(tl_simclr_model_config, backbone_trainable, .b = true,
         .help = "false: the backbone stays as it is, statistics included"),
    TL_F_END,
};
static tl_status check_model(const void *value)
{
    const tl_simclr_model_config *m = value;
    if (m->input_size.count && m->input_size.count != 3)
        return TL_FAIL(TL_EINVAL,
                       "input_size: expected [height, width, channels], found %lld "
                       "numbers",
                       (long long)m->input_size.count);
    if (m->mode == TL_SIMCLR_FINETUNE && !m->supervised_head)
        return TL_FAIL(TL_EINVAL, "supervised_head: fine-tuning trains it, so it cannot be null");
    return TL_OK;
}
const tl_desc tl_simclr_model_config_desc = {
    .name = "simclr_model",
    .help = "a backbone, a projection head and a supervised head",
    .size = sizeof(tl_simclr_model_config),
    .fields = model_fields,
    .check = check_model,
};

static void init_finetuned(void *value)
{
    tl_simclr_model_config *m = value;
    m->mode = TL_SIMCLR_FINETUNE;
    m->supervised_head->zero_init = true;
}
static const tl_field no_fields[] = {TL_F_END};
static const tl_desc finetuned_model_desc = {
    .name = "simclr_finetuned_model",
    .help = "a backbone, a projection head and a supervised head",
    .size = sizeof(tl_simclr_model_config),
    .fields = no_fields,
    .base = &tl_simclr_model_config_desc,
    .init = init_finetuned,
};

/* --- tasks ------------------------------------------------------------------------------------ */

static const tl_field evaluation_fields[] = {
    TL_F(tl_simclr_evaluation, top_k, .i = 5, TL_AT_LEAST(1),
         .help = "the metric top_K_accuracy: the label is among the K greatest answers"),
    TL_F(tl_simclr_evaluation, one_hot, .b = true, .flags = TL_FIELD_UNREAD,
         .help = "whether labels become vectors on their way; losses and metrics are the same"),
    TL_F_END,
};
static const tl_desc evaluation_desc = {
    .name = "simclr_evaluation",
    .help = "what is told of an evaluation",
    .size = sizeof(tl_simclr_evaluation),
    .fields = evaluation_fields,
};

static void init_validation(void *value)
{
    ((tl_simclr_data_config *)value)->base.is_training.value = false;
}

static void init_tuning_data(void *value)
{
    ((tl_simclr_data_config *)value)->parser.mode = TL_SIMCLR_FINETUNE;
}

static void init_tuning_validation(void *value)
{
    init_tuning_data(value);
    init_validation(value);
}

#define TASK_ROWS(T, model_desc, train_init, validation_init, modules, pattern_, modules_help)     \
    TL_F_AS(T, base.base.init_checkpoint, "init_checkpoint",                                       \
            .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,                                            \
            .help = "checkpoint, or a folder with some, from which the weights start when the "    \
                    "model's folder has none"),                                                    \
        TL_F_AS(T, base.base.model, "model", .set = true, .desc = &(model_desc),                   \
                .help = "backbone and heads"),                                                     \
        TL_F_OPTIONAL_AS(T, base.base.train_data, "train_data", &tl_simclr_data_config_desc,       \
                         .set = true, .init = train_init, .help = "examples to train with"),       \
        TL_F_OPTIONAL_AS(T, base.base.validation_data, "validation_data",                          \
                         &tl_simclr_data_config_desc, .set = true, .init = validation_init,        \
                         .help = "examples to evaluate with"),                                     \
        TL_F_AS(T, base.init_checkpoint_modules, "init_checkpoint_modules", .s = modules,          \
                .pattern = pattern_, .help = "what init_checkpoint gives: " modules_help)

static const tl_field task_fields[] = {
    TL_F_STRUCT(tl_simclr_task_config, evaluation, &evaluation_desc,
                .help = "what is told of an evaluation"),
    TL_F(tl_simclr_task_config, init_checkpoint_modules, .s = "all",
         .help = "what init_checkpoint gives"),
    TL_F(tl_simclr_task_config, class_names, OURS, .help = "names of the classes, in order"),
    TL_F_END,
};
static const tl_simclr_model_config *model_of(const tl_simclr_task_config *t)
{
    return t->base.model.value;
}
static tl_status check_task(const void *value)
{
    const tl_simclr_task_config *t = value;
    const tl_simclr_data_config *train = (const tl_simclr_data_config *)t->base.train_data;
    const tl_simclr_model_config *m = model_of(t);
    if (!m) return TL_OK;
    int64_t classes = m->supervised_head ? m->supervised_head->num_classes : 0;
    if (classes && t->class_names.count && t->class_names.count != classes)
        return TL_FAIL(TL_EINVAL, "class_names: there are %lld names for %lld classes",
                       (long long)t->class_names.count, (long long)classes);
    if (train && m->supervised_head && (!train->parser.parse_label || !train->decoder.decode_label))
        return TL_FAIL(TL_EINVAL, "train_data: examples without labels (parse_label, decode_label) "
                                  "teach no supervised_head: set model.supervised_head=null");
    if (train && train->parser.mode != m->mode)
        return TL_FAIL(TL_EINVAL, "train_data.parser.mode: it is %s, and that of the model %s",
                       modes[train->parser.mode], modes[m->mode]);
    return TL_OK;
}
static const tl_desc task_desc = {
    .name = "simclr",
    .help = "what pre-training and fine-tuning have in common",
    .size = sizeof(tl_simclr_task_config),
    .fields = task_fields,
    .base = &tl_task_config_desc,
    .check = check_task,
};

static const tl_field contrastive_fields[] = {
    TL_F(tl_simclr_contrastive, projection_norm, .b = true,
         .help = "what is compared is brought to unit length"),
    TL_F(tl_simclr_contrastive, temperature, .d = 0.1, TL_AT_LEAST(1e-6),
         .help = "products are divided by it"),
    TL_F(tl_simclr_contrastive, l2_weight_decay, TL_AT_LEAST(0),
         .help = "half of it times the squares of the weights is added to the loss"),
    TL_F_END,
};
static const tl_desc contrastive_desc = {
    .name = "contrastive_loss",
    .help = "which views are of the same image",
    .size = sizeof(tl_simclr_contrastive),
    .fields = contrastive_fields,
};
static const tl_field pretrain_fields[] = {
    TASK_ROWS(tl_simclr_pretrain_config, tl_simclr_model_config_desc, NULL, init_validation, "all",
              "^(all|backbone)$", "all or backbone"),
    TL_F_STRUCT(tl_simclr_pretrain_config, loss, &contrastive_desc,
                .help = "how answers are judged"),
    TL_F_END,
};
static tl_status check_pretraining(const void *value)
{
    const tl_simclr_model_config *m = model_of(value);
    if (!m || m->mode == TL_SIMCLR_PRETRAIN) return TL_OK;
    return TL_FAIL(TL_EINVAL, "model.mode: this task pre-trains; for finetune there is the "
                              "experiment simclr_finetuning");
}
const tl_desc tl_simclr_pretrain_config_desc = {
    .name = "simclr_pretrain",
    .help = "learns features of images without labels",
    .size = sizeof(tl_simclr_pretrain_config),
    .fields = pretrain_fields,
    .base = &task_desc,
    .check = check_pretraining,
};

static const tl_field classification_fields[] = {
    TL_F(tl_simclr_classification, label_smoothing, TL_RANGE(0, 1),
         .help = "share of each label that is spread over all classes; needs one_hot"),
    TL_F(tl_simclr_classification, one_hot, .b = true,
         .help = "labels become vectors; needed for label_smoothing"),
    TL_F(tl_simclr_classification, l2_weight_decay, TL_AT_LEAST(0),
         .help = "half of it times the squares of the weights is added to the loss"),
    TL_F_END,
};
static tl_status check_classification(const void *value)
{
    const tl_simclr_classification *l = value;
    if (l->label_smoothing == 0 || l->one_hot) return TL_OK;
    return TL_FAIL(TL_EINVAL, "label_smoothing: it needs one_hot");
}
static const tl_desc classification_desc = {
    .name = "classification_loss",
    .help = "how answers are judged",
    .size = sizeof(tl_simclr_classification),
    .fields = classification_fields,
    .check = check_classification,
};
static const tl_field finetune_fields[] = {
    TASK_ROWS(tl_simclr_finetune_config, finetuned_model_desc, init_tuning_data,
              init_tuning_validation, "backbone_projection", "^(all|backbone_projection|backbone)$",
              "all, backbone_projection (without the supervised head) or backbone"),
    TL_F_STRUCT(tl_simclr_finetune_config, loss, &classification_desc,
                .help = "how answers are judged"),
    TL_F_END,
};
static tl_status check_finetuning(const void *value)
{
    const tl_simclr_model_config *m = model_of(value);
    if (!m || m->mode == TL_SIMCLR_FINETUNE) return TL_OK;
    return TL_FAIL(TL_EINVAL, "model.mode: this task fine-tunes; for pretrain there is the "
                              "experiment simclr_pretraining");
}
const tl_desc tl_simclr_finetune_config_desc = {
    .name = "simclr_finetune",
    .help = "tells to which class an image belongs, by features learned without labels",
    .size = sizeof(tl_simclr_finetune_config),
    .fields = finetune_fields,
    .base = &task_desc,
    .check = check_finetuning,
};
