/* What random changes of images are configured with. */
#include <string.h>

#include <tilth/data/augment.h>

/* --- aug_type --------------------------------------------------------------------------------- */

static const tl_field autoaug_fields[] = {
    TL_F(tl_autoaug, augmentation_name, .s = "v0",
         .help =
             "v0, test, simple, reduced_cifar10, svhn, reduced_imagenet, "
             "panoptic_deeplab_policy, vit or deit3_three_augment; with boxes also detection_v0"),
    TL_F(tl_autoaug, cutout_const, .d = 100, TL_RANGE(0, 1e6),
         .help = "half of the side of the largest cutout"),
    TL_F(tl_autoaug, translate_const, .d = 250, TL_RANGE(0, 1e6),
         .help = "pixels of the largest translation"),
    TL_F_END,
};

static tl_status check_autoaug(const void *value)
{
    const char *name = ((const tl_autoaug *)value)->augmentation_name;
    if (tl_augment_policy_find(name)) return TL_OK;
    if (strcmp(name, "detection_v0") == 0)
        return TL_FAIL(
            TL_EUNSUPPORTED,
            "augmentation_name: detection_v0 moves boxes, which images alone have none of");
    tl_str names = TL_STR_INIT;
    const tl_augment_policy *p;
    for (int64_t i = 0; (p = tl_augment_policy_at(i)); i++)
        tl_str_addf(&names, "%s%s", i ? ", " : "", p->name);
    tl_status st = tl_str_status(&names);
    if (st == TL_OK)
        st = TL_FAIL(TL_EINVAL, "augmentation_name: there is no policy '%s' (known: %s)", name,
                     tl_str_text(&names));
    tl_str_deinit(&names);
    return st;
}

const tl_desc tl_autoaug_desc = {
    .name = "autoaug",
    .help = "AutoAugment: one of the rows of a policy that was searched for",
    .size = sizeof(tl_autoaug),
    .fields = autoaug_fields,
    .check = check_autoaug,
};

static tl_status check_autoaug_boxes(const void *value)
{
    const char *name = ((const tl_autoaug *)value)->augmentation_name;
    return strcmp(name, "detection_v0") == 0 ? TL_OK : check_autoaug(value);
}

const tl_desc tl_autoaug_boxes_desc = {
    .name = "autoaug",
    .help = "AutoAugment: one of the rows of a policy that was searched for; boxes move with their "
            "images",
    .size = sizeof(tl_autoaug),
    .fields = autoaug_fields,
    .check = check_autoaug_boxes,
};

static const tl_field randaug_fields[] = {
    TL_F(tl_randaug, num_layers, .i = 2, TL_RANGE(0, 64),
         .help = "operations that an image goes through"),
    TL_F(tl_randaug, magnitude, .d = 10, TL_RANGE(0, 100),
         .help = "how strong they are; 10 is a lot"),
    TL_F(tl_randaug, cutout_const, .d = 40, TL_RANGE(0, 1e6),
         .help = "half of the side of a cutout of magnitude 10"),
    TL_F(tl_randaug, translate_const, .d = 10, TL_RANGE(0, 1e6),
         .help = "pixels of a translation of magnitude 10"),
    TL_F(tl_randaug, magnitude_std, TL_AT_LEAST(0),
         .help = "deviation of the magnitude, which is drawn for each operation and stays within 0 "
                 "and 10; 0: none"),
    TL_F(tl_randaug, prob_to_apply, TL_RANGE(0, 1),
         .help = "that an operation is done; null: always"),
    TL_F(tl_randaug, exclude_ops,
         .help = "names of operations that are not done: Cutout, Invert, ..."),
    TL_F_END,
};

static tl_status check_randaug(const void *value)
{
    const tl_strings *excluded = &((const tl_randaug *)value)->exclude_ops;
    for (int64_t i = 0; i < excluded->count; i++) {
        tl_augment_op op;
        if (tl_augment_op_find(&op, excluded->items[i]) && op <= TL_AUGMENT_SOLARIZE_ADD) continue;
        tl_str names = TL_STR_INIT;
        for (int k = 0; k <= TL_AUGMENT_SOLARIZE_ADD; k++)
            tl_str_addf(&names, "%s%s", k ? ", " : "", tl_augment_op_name((tl_augment_op)k));
        tl_status st = tl_str_status(&names);
        if (st == TL_OK)
            st = TL_FAIL(TL_EINVAL, "exclude_ops: RandAugment has no operation '%s' (it has: %s)",
                         excluded->items[i], tl_str_text(&names));
        tl_str_deinit(&names);
        return st;
    }
    return TL_OK;
}

const tl_desc tl_randaug_desc = {
    .name = "randaug",
    .help = "RandAugment: operations drawn one after the other",
    .size = sizeof(tl_randaug),
    .fields = randaug_fields,
    .check = check_randaug,
};

/* --- the others ------------------------------------------------------------------------------- */

static const tl_field erasing_fields[] = {
    TL_F(tl_random_erasing, probability, .d = 0.25, TL_RANGE(0, 1),
         .help = "that an image is changed"),
    TL_F(tl_random_erasing, min_area, .d = 0.02, TL_RANGE(0, 1),
         .help = "least share of the image that is covered"),
    TL_F(tl_random_erasing, max_area, .d = 1.0 / 3, TL_RANGE(0, 1), .help = "largest share"),
    TL_F(tl_random_erasing, min_aspect, .d = 0.3, TL_RANGE(1e-3, 1),
         .help = "least height / width; the largest is 1 / min_aspect"),
    TL_F_END,
};

static tl_status check_erasing(const void *value)
{
    const tl_random_erasing *e = value;
    if (e->min_area <= e->max_area) return TL_OK;
    return TL_FAIL(TL_EINVAL, "min_area: it is %g, more than max_area, %g", e->min_area,
                   e->max_area);
}

const tl_desc tl_random_erasing_desc = {
    .name = "random_erasing",
    .help = "noise over a random rectangle",
    .size = sizeof(tl_random_erasing),
    .fields = erasing_fields,
    .check = check_erasing,
};

static const tl_field mixture_fields[] = {
    TL_F(tl_mixup_and_cutmix, mixup_alpha, .d = 0.8, TL_RANGE(0, 1e6),
         .help = "mixup: shares are of the distribution beta(alpha, alpha); 0: no mixup"),
    TL_F(tl_mixup_and_cutmix, cutmix_alpha, .d = 1, TL_RANGE(0, 1e6), .help = "the same of cutmix"),
    TL_F(tl_mixup_and_cutmix, prob, .d = 1, TL_RANGE(0, 1), .help = "that a batch is mixed"),
    TL_F(tl_mixup_and_cutmix, switch_prob, .d = 0.5, TL_RANGE(0, 1),
         .help = "that it is mixed by cutmix"),
    TL_F(tl_mixup_and_cutmix, label_smoothing, .d = 0.1, TL_RANGE(0, 1),
         .help = "share of each label that is spread over all classes"),
    TL_F_END,
};
const tl_desc tl_mixup_and_cutmix_desc = {
    .name = "mixup_and_cutmix",
    .help = "images and labels of a batch mixed in pairs",
    .size = sizeof(tl_mixup_and_cutmix),
    .fields = mixture_fields,
};
