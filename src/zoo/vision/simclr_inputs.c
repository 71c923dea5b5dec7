/* Images on their way to SimCLR: read as for image classification, seen in other ways. */
#include "zoo/vision/simclr.h"

tl_status tli_simclr_image_data(tl_image_data_config *out, tl_arena *arena,
                                const tl_simclr_data_config *d, tl_ints size)
{
    static const double black[] = {0}, white[] = {255};
    const double middle = 0.875;
    const bool small = size.count == 3 && size.items[0] <= 32 && size.items[1] <= 32;
    TL_TRY(tl_desc_defaults(arena, &tl_image_data_config_desc, out));
    out->base = d->base;
    out->file_type = d->file_type;
    out->synthetic_examples = d->synthetic_examples;
    out->holdout = d->holdout;
    out->holdout_part = d->holdout_part;
    out->aug_crop = out->aug_rand_hflip = false; // views are drawn elsewhere
    out->center_crop_fraction = d->parser.test_crop && !small ? middle : 0;
    out->mean = (tl_doubles){black, 1};
    out->stddev = (tl_doubles){white, 1};
    return TL_OK;
}

/* As there, fine-tuning leaves colours alone. */
static void choose_look(tl_contrast_look *out, const tl_simclr_parser *p)
{
    const bool pretrains = p->mode == TL_SIMCLR_PRETRAIN;
    *out = (tl_contrast_look){.crop = p->aug_rand_crop,
                              .area_from = p->crop_area_range.items[0],
                              .area_to = p->crop_area_range.items[1],
                              .flip = p->aug_rand_hflip,
                              .distort = p->aug_color_distort && pretrains,
                              .strength = p->aug_color_jitter_strength,
                              .additive = p->aug_color_jitter_impl == TL_SIMCLR_V1,
                              .blur = p->aug_rand_blur && pretrains};
}

/* A step compares what it is given: a single image has nothing to be told from. */
static tl_status check_batch(const tl_data_config *data)
{
    if (!data->is_training.value)
        return TL_FAIL(TL_EINVAL, "task.train_data.is_training is false: there would be one view "
                                  "of each image, and nothing to compare it with");
    if (data->global_batch_size != 1) return TL_OK;
    return TL_FAIL(TL_EINVAL, "task.train_data.global_batch_size is 1: views of an image are "
                              "compared with those of others, so that it must be 2 or more");
}

tl_status tli_simclr_require_head(const tl_task *t)
{
    if (((const tl_simclr_model_config *)t->config->model.value)->supervised_head) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "pre-training is evaluated by its supervised head, and "
                   "task.model.supervised_head is null: set it, or train with --mode=train");
}

static tl_status check_inputs(const tl_task *t, const tl_simclr_data_config *d, bool trains)
{
    const tl_simclr_model_config *m = t->config->model.value;
    if (m->mode != TL_SIMCLR_PRETRAIN) return TL_OK;
    return trains ? check_batch(&d->base) : tli_simclr_require_head(t);
}

tl_status tli_simclr_inputs(tl_task *t, const tl_data_config *data, const tl_input_context *input,
                            tl_dataset **out)
{
    const tl_simclr_data_config *d = (const tl_simclr_data_config *)data;
    const tl_simclr_model_config *m = t->config->model.value;
    const tl_simclr_task_config *k = (const tl_simclr_task_config *)t->config;
    const bool labelled = d->parser.parse_label && d->decoder.decode_label && m->supervised_head;
    *out = NULL;
    TL_TRY(check_inputs(t, d, data == t->config->train_data));
    tl_image_data_config *images = tl_arena_alloc(t->arena, sizeof *images);
    tl_contrast_look *look = tl_arena_alloc(t->arena, sizeof *look);
    if (!images || !look) return TL_ENOMEM;
    TL_TRY(tli_simclr_image_data(images, t->arena, d, m->input_size));
    choose_look(look, &d->parser);
    return tl_image_inputs(
        out, &(tl_image_inputs_args){.data = images,
                                     .size = m->input_size,
                                     .num_classes = labelled ? m->supervised_head->num_classes : 1,
                                     .input = *input,
                                     .evaluation = data != t->config->train_data,
                                     .class_names = labelled ? k->class_names : (tl_strings){0},
                                     .look = look,
                                     .views = d->parser.mode == TL_SIMCLR_PRETRAIN ? 2 : 1,
                                     .unlabelled = !labelled,
                                     .arena = t->arena});
}

/* --- what lacks ------------------------------------------------------------------------------- */

static tl_status lacks_of_data(tl_lacks *into, const tl_simclr_data_config *d, const char *section)
{
    const char *path = tl_arena_printf(into->arena, "%s.input_path", section);
    const char *size = tl_arena_printf(into->arena, "%s.global_batch_size", section);
    if (!path || !size) return TL_ENOMEM;
    if (d->file_type != TL_IMAGES_SYNTHETIC && !tl_paths_given(d->base.input_path))
        TL_TRY(tl_lacks_add(into, path, "where the images lie", "FILES"));
    if (d->base.global_batch_size < 1)
        TL_TRY(tl_lacks_add(into, size, "how many images are taken at a time", "256"));
    return TL_OK;
}

tl_status tli_simclr_lacks(const tl_task_config *config, bool trains, bool evaluates,
                           tl_lacks *into)
{
    const tl_simclr_model_config *m = config->model.value;
    const tl_simclr_data_config *train = (const tl_simclr_data_config *)config->train_data,
                                *validation =
                                    (const tl_simclr_data_config *)config->validation_data;
    if (!m) return TL_OK;
    if (m->input_size.count != 3)
        TL_TRY(tl_lacks_add(into, "task.model.input_size",
                            "height, width and channels that images are brought to", "[64,64,3]"));
    if (!m->backbone.type)
        TL_TRY(tl_lacks_add(into, "task.model.backbone.type", "what turns images into features",
                            "resnet"));
    if (trains && train) TL_TRY(lacks_of_data(into, train, "task.train_data"));
    return evaluates && validation ? lacks_of_data(into, validation, "task.validation_data")
                                   : TL_OK;
}
