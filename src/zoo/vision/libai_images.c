/* LiBai's loaders of images: a folder of pictures, what is done to them, and mixtures. */
#include <math.h>
#include <string.h>

#include <tilth/base/log.h>

#include "base/inner/json_escape.h"
#include "zoo/vision/libai.h"

/* --- arguments -------------------------------------------------------------------------------- */

tl_status tli_libai_at(tl_status failed, const tl_value *at)
{
    tl_str place = TL_STR_INIT;
    tl_place_write(&place, at->place);
    tl_status st = tl_error_note(failed, "%s", tl_str_text(&place));
    tl_str_deinit(&place);
    return st;
}

#define FAIL_AT(at, ...) tli_libai_at(TL_FAIL(TL_EUNSUPPORTED, __VA_ARGS__), at)

static const char *whole_class(const tl_value *v)
{
    const tl_value *target = tl_value_get(v, "_target_");
    return target && target->kind == TL_VALUE_SCALAR ? target->text : "";
}

static const char *last_part(const char *dotted)
{
    const char *dot = strrchr(dotted, '.');
    return dot ? dot + 1 : dotted;
}

const char *tli_libai_class(const tl_value *v)
{
    return last_part(whole_class(v));
}

/* Of whom a message speaks: a dict of arguments has no class. */
static const char *owner(const tl_value *map)
{
    const char *name = tli_libai_class(map);
    return *name ? name : "cfg";
}

tl_status tli_libai_known(const tl_value *map, const char *const *keys)
{
    for (int64_t i = 0; i < map->count; i++) {
        int64_t count = 0;
        bool known = strcmp(map->pairs[i].key, "_target_") == 0;
        for (; keys[count]; count++) known |= strcmp(keys[count], map->pairs[i].key) == 0;
        if (known) continue;
        const char *near = tl_nearest(map->pairs[i].key, keys, count);
        return FAIL_AT(map->pairs[i].value, "%s: the argument '%.60s' is not known here%s%s%s",
                       owner(map), map->pairs[i].key, near ? ", did you mean '" : "",
                       near ? near : "", near ? "'?" : "");
    }
    return TL_OK;
}

const tl_value *tli_libai_value(const tl_value *map, const char *key)
{
    const tl_value *v = tl_value_get(map, key);
    return v && !tl_value_is_null(v) ? v : NULL;
}

tl_status tli_libai_int(int64_t *out, const tl_value *map, const char *key, int64_t otherwise)
{
    const tl_value *v = tl_value_get(map, key);
    *out = otherwise;
    if (!v || tl_value_int(v, out)) return TL_OK;
    return FAIL_AT(v, "%s: %s must be an integer", owner(map), key);
}

tl_status tli_libai_double(double *out, const tl_value *map, const char *key, double otherwise)
{
    const tl_value *v = tl_value_get(map, key);
    *out = otherwise;
    if (!v || (tl_value_double(v, out) && isfinite(*out))) return TL_OK;
    return FAIL_AT(v, "%s: %s must be a number", owner(map), key);
}

/* --- what is done to pictures ----------------------------------------------------------------- */

typedef struct look {
    bool training;
    int64_t size;               /* of the model's images */
    bool crops, flips, central; /* RandomResizedCrop, RandomHorizontalFlip, CenterCrop */
    double area[2];
    int64_t resized, cropped; /* Resize, CenterCrop */
    const char *method;
    bool normalized;
    double mean[3], std[3];
    tl_str more; /* other keys */
} look;

static void add_number(tl_str *out, double value)
{
    char text[32];
    tl_double_text(text, value);
    tl_str_add(out, text);
}

/* A number, or two of it. */
static tl_status side(int64_t *out, const tl_value *map)
{
    const tl_value *size = tl_value_get(map, "size");
    *out = 0;
    if (size && size->kind == TL_VALUE_LIST && size->count == 2) {
        int64_t other = 0;
        bool fine = tl_value_int(size->items[0], out) && tl_value_int(size->items[1], &other);
        if (fine && *out == other) return TL_OK;
    } else if (size && tl_value_int(size, out)) {
        return TL_OK;
    }
    return FAIL_AT(map, "%s: size must be an integer, or twice the same", tli_libai_class(map));
}

/* InterpolationMode.BICUBIC, or str_to_interp_mode("bicubic"). */
static tl_status interpolation(look *k, const tl_value *map)
{
    static const struct {
        const char *name, *method;
    } known[] = {{"BICUBIC", "bicubic"},   {"bicubic", "bicubic"}, {"BILINEAR", "bilinear"},
                 {"bilinear", "bilinear"}, {"NEAREST", "nearest"}, {"nearest", "nearest"}};
    const tl_value *v = tli_libai_value(map, "interpolation"), *words;
    k->method = "bilinear";
    if (!v) return TL_OK;
    words = v->kind == TL_VALUE_MAP ? tl_value_get(v, "_args_") : NULL;
    const tl_value *word =
        words && words->kind == TL_VALUE_LIST && words->count == 1 ? words->items[0] : v;
    if (word->kind == TL_VALUE_SCALAR)
        for (int64_t i = 0; i < TL_COUNT(known); i++)
            if (strcmp(last_part(word->text), known[i].name) == 0) {
                k->method = known[i].method;
                return TL_OK;
            }
    return FAIL_AT(v, "interpolation: expected nearest, bilinear or bicubic");
}

/* Two or three numbers under a key. */
static tl_status numbers(double *out, int64_t count, const tl_value *map, const char *key)
{
    const tl_value *v = tl_value_get(map, key);
    bool fine = v && v->kind == TL_VALUE_LIST && v->count == count;
    for (int64_t i = 0; fine && i < count; i++)
        fine = tl_value_double(v->items[i], &out[i]) && isfinite(out[i]);
    if (fine) return TL_OK;
    return FAIL_AT(v ? v : map, "%s: %s must be %lld numbers", tli_libai_class(map), key,
                   (long long)count);
}

static tl_status random_resized_crop(look *k, const tl_value *v)
{
    static const char *const keys[] = {"size", "scale", "ratio", "interpolation", NULL};
    double ratio[2] = {0.75, 4.0 / 3};
    int64_t size;
    TL_TRY(tli_libai_known(v, keys));
    TL_TRY(side(&size, v));
    TL_TRY(interpolation(k, v));
    if (size != k->size)
        return FAIL_AT(v, "RandomResizedCrop: size is %lld, and the model's img_size %lld",
                       (long long)size, (long long)k->size);
    k->area[0] = 0.08, k->area[1] = 1;
    if (tl_value_get(v, "scale")) TL_TRY(numbers(k->area, 2, v, "scale"));
    if (tl_value_get(v, "ratio")) TL_TRY(numbers(ratio, 2, v, "ratio"));
    if (fabs(ratio[0] - 0.75) > 1e-9 || fabs(ratio[1] - 4.0 / 3) > 1e-9)
        return FAIL_AT(v, "RandomResizedCrop: ratio is (3/4, 4/3) here, found (%g, %g)", ratio[0],
                       ratio[1]);
    k->crops = true;
    return TL_OK;
}

static tl_status flip(look *k, const tl_value *v)
{
    static const char *const keys[] = {"p", NULL};
    double p;
    TL_TRY(tli_libai_known(v, keys));
    TL_TRY(tli_libai_double(&p, v, "p", 0.5));
    if (p != 0.5) return FAIL_AT(v, "RandomHorizontalFlip: p is 0.5 here, found %g", p);
    k->flips = true;
    return TL_OK;
}

static tl_status resize(look *k, const tl_value *v)
{
    static const char *const keys[] = {"size", "interpolation", NULL};
    TL_TRY(tli_libai_known(v, keys));
    TL_TRY(interpolation(k, v));
    return side(&k->resized, v);
}

static tl_status center_crop(look *k, const tl_value *v)
{
    static const char *const keys[] = {"size", NULL};
    TL_TRY(tli_libai_known(v, keys));
    k->central = true;
    return side(&k->cropped, v);
}

/* The two lists have names of their own. */
static bool known_list(double out[3], const tl_value *v)
{
    static const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225};
    if (!v || v->kind != TL_VALUE_SCALAR) return false;
    const char *name = last_part(v->text);
    const double *found = strcmp(name, "IMAGENET_DEFAULT_MEAN") == 0  ? mean
                          : strcmp(name, "IMAGENET_DEFAULT_STD") == 0 ? std
                                                                      : NULL;
    if (found) memcpy(out, found, sizeof mean);
    return found != NULL;
}

static tl_status normalize(look *k, const tl_value *v)
{
    static const char *const keys[] = {"mean", "std", NULL};
    TL_TRY(tli_libai_known(v, keys));
    if (!known_list(k->mean, tl_value_get(v, "mean"))) TL_TRY(numbers(k->mean, 3, v, "mean"));
    if (!known_list(k->std, tl_value_get(v, "std"))) TL_TRY(numbers(k->std, 3, v, "std"));
    k->normalized = true;
    return TL_OK;
}

static tl_status erase(look *k, const tl_value *v)
{
    static const char *const keys[] = {"probability", "min_area", "max_area",
                                       "min_aspect",  "mode",     "max_count",
                                       "num_splits",  "device",   NULL};
    double probability, least, most, aspect;
    int64_t count, splits;
    const tl_value *mode = tl_value_get(v, "mode");
    TL_TRY(tli_libai_known(v, keys));
    TL_TRY(tli_libai_double(&probability, v, "probability", 0.5));
    TL_TRY(tli_libai_double(&least, v, "min_area", 0.02));
    TL_TRY(tli_libai_double(&most, v, "max_area", 1.0 / 3));
    TL_TRY(tli_libai_double(&aspect, v, "min_aspect", 0.3));
    TL_TRY(tli_libai_int(&count, v, "max_count", 1));
    TL_TRY(tli_libai_int(&splits, v, "num_splits", 0));
    if (!mode || mode->kind != TL_VALUE_SCALAR || strcmp(mode->text, "pixel") != 0)
        return FAIL_AT(v, "RandomErasing: mode is \"pixel\" here");
    if (count != 1 || splits != 0)
        return FAIL_AT(v, "RandomErasing: max_count is 1 and num_splits 0 here");
    tl_str_add(&k->more, ", random_erasing: {probability: ");
    add_number(&k->more, probability);
    tl_str_add(&k->more, ", min_area: ");
    add_number(&k->more, least);
    tl_str_add(&k->more, ", max_area: ");
    add_number(&k->more, most);
    tl_str_add(&k->more, ", min_aspect: ");
    add_number(&k->more, aspect);
    tl_str_addc(&k->more, '}');
    return tl_str_status(&k->more);
}

/* "rand-m9-mstd0.5-inc1": magnitude, its deviation, operations. */
static tl_status rand_augment(look *k, const tl_value *v)
{
    static const char *const keys[] = {"config_str", "hparams", NULL};
    const tl_value *text = tl_value_get(v, "config_str");
    double magnitude = 10, deviation = 0, layers = 2;
    TL_TRY(tli_libai_known(v, keys));
    if (!text || text->kind != TL_VALUE_SCALAR || strncmp(text->text, "rand", 4) != 0)
        return FAIL_AT(v, "rand_augment_transform: config_str must begin with \"rand\"");
    for (const char *at = strchr(text->text, '-'); at; at = strchr(at, '-')) {
        double *into = NULL;
        at++;
        if (strncmp(at, "mstd", 4) == 0) into = &deviation, at += 4;
        else if (*at == 'm') into = &magnitude, at++;
        else if (*at == 'n') into = &layers, at++;
        else if (strncmp(at, "inc", 3) != 0)
            return FAIL_AT(text,
                           "rand_augment_transform: '%.20s' is not known here (known: m, "
                           "mstd, n, inc)",
                           at);
        if (into) *into = tl_strtod(at, NULL);
    }
    TL_LOG_INFO("rand_augment_transform becomes Model Garden's RandAugment, whose operations and "
                "strengths differ a little");
    tl_str_add(&k->more, ", aug_type: {type: randaug, randaug: {magnitude: ");
    add_number(&k->more, magnitude);
    tl_str_add(&k->more, ", magnitude_std: ");
    add_number(&k->more, deviation);
    tl_str_addf(&k->more, ", num_layers: %lld, exclude_ops: [Cutout]}}", (long long)layers);
    return tl_str_status(&k->more);
}

static tl_status one_transform(look *k, const tl_value *v)
{
    static const struct {
        const char *name;
        tl_status (*read)(look *k, const tl_value *v);
        bool training, testing;
    } known[] = {{"RandomResizedCrop", random_resized_crop, true, false},
                 {"RandomHorizontalFlip", flip, true, false},
                 {"rand_augment_transform", rand_augment, true, false},
                 {"RandomErasing", erase, true, false},
                 {"Resize", resize, false, true},
                 {"CenterCrop", center_crop, false, true},
                 {"Normalize", normalize, true, true}};
    const char *name = tli_libai_class(v);
    if (strcmp(name, "ToTensor") == 0) return TL_OK;
    for (int64_t i = 0; i < TL_COUNT(known); i++) {
        if (strcmp(known[i].name, name) != 0) continue;
        if (k->training ? known[i].training : known[i].testing) return known[i].read(k, v);
        return FAIL_AT(v, "%s: it stands in %s loaders here", name,
                       k->training ? "test" : "training");
    }
    return FAIL_AT(v,
                   "there is no '%.100s' here (known: RandomResizedCrop, RandomHorizontalFlip, "
                   "rand_augment_transform, RandomErasing, Resize, CenterCrop, ToTensor, "
                   "Normalize)",
                   whole_class(v));
}

static tl_status read_look(look *k, const tl_value *transform)
{
    const tl_value *list = transform ? tl_value_get(transform, "transforms") : NULL;
    if (!transform) return TL_OK;
    if (strcmp(tli_libai_class(transform), "Compose") != 0 || !list || list->kind != TL_VALUE_LIST)
        return FAIL_AT(transform, "transform: expected LazyCall(transforms.Compose)(transforms="
                                  "[...])");
    for (int64_t i = 0; i < list->count; i++) TL_TRY(one_transform(k, list->items[i]));
    if (k->central && k->cropped != k->size)
        return FAIL_AT(transform, "CenterCrop: size is %lld, and the model's img_size %lld",
                       (long long)k->cropped, (long long)k->size);
    if (k->central && k->resized < k->cropped)
        return FAIL_AT(transform, "CenterCrop: a Resize to %lld or more must stand before it",
                       (long long)k->cropped);
    return TL_OK;
}

static void add_numbers(tl_str *out, const char *key, const double *values, double factor)
{
    tl_str_addf(out, ", %s: [", key);
    for (int i = 0; i < 3; i++) {
        if (i) tl_str_add(out, ", ");
        add_number(out, values[i] * factor);
    }
    tl_str_addc(out, ']');
}

static void add_look(tl_str *out, const look *k)
{
    tl_str_addf(out, ", aug_crop: %s, aug_rand_hflip: %s", k->crops ? "true" : "false",
                k->flips ? "true" : "false");
    if (k->crops) {
        tl_str_add(out, ", crop_area_range: [");
        add_number(out, k->area[0]);
        tl_str_add(out, ", ");
        add_number(out, k->area[1]);
        tl_str_addc(out, ']');
    }
    tl_str_add(out, ", center_crop_fraction: ");
    add_number(out, k->central ? (double)k->cropped / (double)k->resized : 0);
    if (k->method) tl_str_addf(out, ", tf_resize_method: %s", k->method);
    static const double none[] = {0, 0, 0}, one[] = {1, 1, 1};
    add_numbers(out, "mean", k->normalized ? k->mean : none, 255);
    add_numbers(out, "stddev", k->normalized ? k->std : one, 255);
    tl_str_add(out, tl_str_text(&k->more));
}

/* --- loaders ---------------------------------------------------------------------------------- */

static tl_status add_mixture(tl_str *out, const tl_value *loader)
{
    static const char *const keys[] = {
        "mixup_alpha", "cutmix_alpha",    "prob",        "switch_prob",
        "mode",        "label_smoothing", "num_classes", NULL};
    static const struct {
        const char *key;
        double otherwise;
    } settings[] = {{"mixup_alpha", 1},
                    {"cutmix_alpha", 0},
                    {"prob", 1},
                    {"switch_prob", 0.5},
                    {"label_smoothing", 0.1}};
    const tl_value *mixture = tli_libai_value(loader, "mixup_func");
    if (!mixture) return TL_OK;
    if (strcmp(tli_libai_class(mixture), "Mixup") != 0)
        return FAIL_AT(mixture, "mixup_func: there is no '%.100s' here (known: Mixup)",
                       whole_class(mixture));
    TL_TRY(tli_libai_known(mixture, keys));
    const tl_value *mode = tl_value_get(mixture, "mode");
    if (mode && (mode->kind != TL_VALUE_SCALAR || strcmp(mode->text, "batch") != 0))
        return FAIL_AT(mode, "Mixup: mode is \"batch\" here");
    tl_str_add(out, ", mixup_and_cutmix: {");
    for (int64_t i = 0; i < TL_COUNT(settings); i++) {
        double value;
        TL_TRY(tli_libai_double(&value, mixture, settings[i].key, settings[i].otherwise));
        tl_str_addf(out, "%s%s: ", i ? ", " : "", settings[i].key);
        add_number(out, value);
    }
    tl_str_addc(out, '}');
    return TL_OK;
}

static tl_status add_flag(tl_str *out, const tl_value *map, const char *key)
{
    const tl_value *v = tl_value_get(map, key);
    bool flag;
    if (!v) return TL_OK;
    if (!tl_value_bool(v, &flag)) return FAIL_AT(v, "%s must be True or False", key);
    tl_str_addf(out, ", %s: %s", key, flag ? "true" : "false");
    return TL_OK;
}

static tl_status add_sampler(tl_str *out, const tl_value *loader)
{
    static const char *const repeat_keys[] = {"shuffle", "num_repeats", NULL};
    static const char *const keys[] = {"shuffle", "drop_last", NULL};
    const tl_value *sampler = tli_libai_value(loader, "sampler");
    if (!sampler) sampler = tli_libai_value(loader, "sampler_cfg");
    if (!sampler) return TL_OK;
    const char *name = tli_libai_class(sampler);
    if (strcmp(name, "RASampler") == 0) {
        int64_t times;
        TL_TRY(tli_libai_known(sampler, repeat_keys));
        TL_TRY(tli_libai_int(&times, sampler, "num_repeats", 3));
        tl_str_addf(out, ", repeated_augment: %lld", (long long)times);
        return TL_OK;
    }
    if (strcmp(name, "CyclicSampler") != 0 && strcmp(name, "SingleRoundSampler") != 0)
        return FAIL_AT(sampler,
                       "there is no '%.100s' here (known: CyclicSampler, "
                       "SingleRoundSampler, RASampler)",
                       whole_class(sampler));
    TL_TRY(tli_libai_known(sampler, keys));
    tl_str_addf(out, ", sampler: {_target_: %s", name);
    TL_TRY(add_flag(out, sampler, "shuffle"));
    TL_TRY(add_flag(out, sampler, "drop_last"));
    tl_str_addc(out, '}');
    return TL_OK;
}

/* Of a list the one item. */
static tl_status dataset_of(const tl_value **out, const tl_value *loader)
{
    static const char *const keys[] = {"root", "train", "transform", "dataset_name", NULL};
    const tl_value *v = tl_value_get(loader, "dataset");
    if (v->kind == TL_VALUE_LIST && v->count == 1) v = v->items[0];
    if (v->kind != TL_VALUE_MAP)
        return FAIL_AT(v, "dataset: expected one dataset, LazyCall(ImageNetDataset)(...)");
    if (strcmp(tli_libai_class(v), "ImageNetDataset") != 0)
        return FAIL_AT(v,
                       "there is no '%.100s' here (known: ImageNetDataset, which reads a folder "
                       "of pictures for each class from root/train and root/val); or leave "
                       "`dataset` out and give the keys of the task's data",
                       whole_class(v));
    *out = v;
    return tli_libai_known(v, keys);
}

static tl_status add_folder(tl_str *out, const tl_value *dataset)
{
    const tl_value *root = tl_value_get(dataset, "root"), *part = tl_value_get(dataset, "train");
    bool train = true;
    if (!root || root->kind != TL_VALUE_SCALAR)
        return FAIL_AT(root ? root : dataset, "ImageNetDataset: root must be a path");
    if (part && !tl_value_bool(part, &train))
        return FAIL_AT(part, "ImageNetDataset: train must be True or False");
    tl_str path = TL_STR_INIT;
    tl_str_addf(&path, "%s/%s", root->text, train ? "train" : "val");
    tl_str_add(out, "{file_type: image_folder, input_path: ");
    tl_status st = tl_str_status(&path);
    if (st == TL_OK) tli_json_add_text(out, tl_str_text(&path), false);
    tl_str_deinit(&path);
    return st;
}

tl_status tli_libai_images(tl_str *yaml, const tl_value *loader, bool training, int64_t size)
{
    static const char *const keys[] = {
        "dataset",     "num_workers",      "mixup_func",       "sampler",
        "sampler_cfg", "train_batch_size", "test_batch_size",  "seed",
        "collate_fn",  "dataset_mixer",    "consumed_samples", NULL};
    look k = {.training = training, .size = size, .more = TL_STR_INIT};
    const tl_value *dataset = NULL, *other;
    tl_status st;
    TL_TRY(tli_libai_known(loader, keys));
    if ((other = tli_libai_value(loader, "collate_fn")))
        return FAIL_AT(other, "collate_fn: it must be None here");
    TL_TRY(dataset_of(&dataset, loader));
    TL_TRY_DONE(st, read_look(&k, tli_libai_value(dataset, "transform")));
    TL_TRY_DONE(st, add_folder(yaml, dataset));
    add_look(yaml, &k);
    TL_TRY_DONE(st, add_mixture(yaml, loader));
    TL_TRY_DONE(st, add_sampler(yaml, loader));
    tl_str_addc(yaml, '}');
    st = tl_str_status(yaml);
done:
    tl_str_deinit(&k.more);
    return st;
}
