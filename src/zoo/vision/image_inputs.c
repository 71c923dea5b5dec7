/* Images on their way into the model: from files, through a pipeline, to normalised floats. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/data/batch.h>
#include <tilth/data/pipeline.h>
#include <tilth/io/image/image.h>
#include <tilth/zoo/vision.h>

#include "io/inner/json_text.h"
#include "zoo/vision/image_classes.h"
#include "zoo/vision/image_inputs.h"
#include "zoo/vision/image_view.h"

#define IMAGE "image"
#define LABEL "label"
#define FORMAT TLI_IMAGE_FORMAT
#define FILENAME TLI_IMAGE_FILENAME

/* What the maps need to know; const while they run, but for what is counted. */
typedef struct plan {
    tli_view view;
    const tl_image_data_config *data;
    int64_t num_classes;
    bool multilabel, named, unlabelled;
    const tl_contrast_look *look; /* NULL: as the view says */
    int64_t views;
    tl_mixing mixing;
    const char *image, *label; /* fields of samples as they come from the source */
    tl_feature_spec features[4];
    tl_example_features example;
    int64_t made_from;      /* synthetic: the first example */
    tl_strings class_names; /* which number each class has; none: those of the data */
    const char *section;    /* of the configuration */
    tl_holdout_part part;
    /* images that were left out in the pass that is counted; -1: none yet */
    _Atomic int64_t bad_pass, bad_count;
} plan;

/* --- plans ------------------------------------------------------------------------------------ */

/* Those of ImageNet: of red, green and blue, or of grey. */
static void usual_numbers(tli_view *v)
{
    static const float mean[] = {123.675f, 116.28f, 103.53f}, stddev[] = {58.395f, 57.12f, 57.375f};
    for (int i = 0; i < TLI_VIEW_CHANNELS; i++) {
        v->mean[i] = v->channels >= 3 && i < 3 ? mean[i] : 127.5f;
        v->stddev[i] = v->channels >= 3 && i < 3 ? stddev[i] : 63.75f;
    }
}

const tl_autoaug tli_usual_autoaug = {
    .augmentation_name = "v0",
    .cutout_const = 100,
    .translate_const = 250,
};
const tl_randaug tli_usual_randaug = {
    .num_layers = 2,
    .magnitude = 10,
    .cutout_const = 40,
    .translate_const = 10,
};

/* aug_type, or what aug_policy stands for in its words. */
static tl_status choose_policy(tli_view *v, const tl_image_data_config *d)
{
    const tl_oneof *chosen = &d->aug_type;
    const char *name = chosen->type ? chosen->type : d->aug_policy;
    if (!name || !*name) return TL_OK;
    if (strcmp(name, "autoaug") == 0) {
        v->autoaug = chosen->type && chosen->value ? chosen->value : &tli_usual_autoaug;
        if (tl_augment_policy_find(v->autoaug->augmentation_name)) return TL_OK;
        return TL_FAIL(TL_EINVAL, "aug_type: there is no policy '%s'",
                       v->autoaug->augmentation_name);
    }
    if (strcmp(name, "randaug") != 0)
        return TL_FAIL(TL_EINVAL, "there is no augmentation '%s'; there are autoaug and randaug",
                       name);
    v->randaug = chosen->type && chosen->value ? chosen->value : &tli_usual_randaug;
    if (chosen->type) return TL_OK;
    v->older = tli_usual_randaug;
    v->older.translate_const = 100;
    if (d->randaug_magnitude.set) v->older.magnitude = (double)d->randaug_magnitude.value;
    v->randaug = &v->older;
    return TL_OK;
}

bool tli_image_turns(const tl_image_data_config *d)
{
    return d->exif_orientation.set ? d->exif_orientation.value : d->file_type == TL_IMAGES_FOLDER;
}

static tl_status make_view(tli_view *v, const tl_image_data_config *d, tl_ints size)
{
    if (size.count != 3)
        return TL_FAIL(TL_EINVAL,
                       "model.input_size has %lld numbers: set it to [height, width, channels]",
                       (long long)size.count);
    *v = (tli_view){.height = size.items[0],
                    .width = size.items[1],
                    .channels = size.items[2],
                    .side = d->shorter_side,
                    .resize = (int)d->tf_resize_method,
                    .orient = tli_image_turns(d),
                    .training = d->base.is_training.set && d->base.is_training.value,
                    .center = d->center_crop_fraction,
                    .crop = d->aug_crop,
                    .flip = d->aug_rand_hflip,
                    .area_from = d->crop_area_range.items[0],
                    .area_to = d->crop_area_range.items[1],
                    .pad = d->aug_pad,
                    .jitter = d->color_jitter,
                    .three_augment = d->three_augment,
                    .erasing = d->random_erasing};
    TL_TRY(choose_policy(v, d));
    if (v->channels > TLI_VIEW_CHANNELS)
        return TL_FAIL(TL_EINVAL, "model.input_size asks for %lld channels; images have at most %d",
                       (long long)v->channels, TLI_VIEW_CHANNELS);
    if (v->training && v->channels != 1 && v->channels != 3
        && (v->jitter > 0 || v->autoaug || v->randaug || v->three_augment))
        return TL_FAIL(TL_EINVAL,
                       "model.input_size asks for %lld channels; color_jitter, aug_type and "
                       "three_augment change images of 1 or 3",
                       (long long)v->channels);
    usual_numbers(v);
    if (!d->mean.count) return TL_OK;
    if (d->mean.count != 1 && d->mean.count != v->channels)
        return TL_FAIL(TL_EINVAL, "mean and stddev have %lld numbers for %lld channels",
                       (long long)d->mean.count, (long long)v->channels);
    for (int64_t i = 0; i < v->channels; i++) {
        v->mean[i] = (float)d->mean.items[d->mean.count > 1 ? i : 0];
        v->stddev[i] = (float)d->stddev.items[d->mean.count > 1 ? i : 0];
    }
    return TL_OK;
}

static bool turns_single_files(const tl_image_data_config *d)
{
    return !d->exif_orientation.set || d->exif_orientation.value;
}

tl_status tl_image_prepare(float *out, const tl_image_data_config *data, tl_ints size,
                           const void *file, size_t bytes)
{
    tli_view v;
    bool undecodable;
    TL_TRY(make_view(&v, data, size));
    v.training = false;
    v.orient = turns_single_files(data);
    return tli_view_encoded(out, &v, file, bytes, NULL, &undecodable);
}

tl_status tl_image_prepare_pixels(float *out, const tl_image_data_config *data, tl_ints size,
                                  tl_shape shape, const void *pixels)
{
    tli_view v;
    TL_TRY(make_view(&v, data, size));
    v.training = false;
    return tli_view_pixels(out, &v, &shape, pixels, NULL);
}

/* In one line. */
static void add_numbers(tli_json *j, const char *key, const float *numbers, int64_t count)
{
    tl_str text = TL_STR_INIT;
    for (int64_t i = 0; i < count; i++)
        tl_str_addf(&text, "%s%.7g", i ? ", " : "[", (double)numbers[i]);
    tl_str_addc(&text, ']');
    tli_json_raw(j, key, tl_str_text(&text));
    tl_str_deinit(&text);
}

tl_status tli_image_describe(tl_str *out, const tl_image_data_config *data, tl_ints size)
{
    static const char *const methods[] = {
        [TL_IMAGE_BILINEAR] = "bilinear",
        [TL_IMAGE_NEAREST] = "nearest",
        [TL_IMAGE_AREA] = "area",
        [TL_IMAGE_BICUBIC] = "bicubic",
    };
    static const char *const orders[] = {"", "grey", "grey, alpha", "RGB", "RGBA"};
    tli_json j = {.out = out, .indent = 2};
    tli_view v;
    TL_TRY(make_view(&v, data, size));
    tli_json_begin(&j, NULL, '{');
    tli_json_text(&j, "layout", "NHWC");
    tli_json_text(&j, "dtype", "float32");
    tli_json_int(&j, "height", v.height);
    tli_json_int(&j, "width", v.width);
    tli_json_int(&j, "channels", v.channels);
    tli_json_text(&j, "channel_order", orders[v.channels]);
    tli_json_text(&j, "orientation", turns_single_files(data) ? "EXIF" : "as stored");
    tli_json_int(&j, "shorter_side", v.side);
    tli_json_number(&j, "center_crop_fraction", v.center);
    tli_json_text(&j, "resize", methods[v.resize]);
    add_numbers(&j, "mean", v.mean, v.channels);
    add_numbers(&j, "stddev", v.stddev, v.channels);
    tli_json_end(&j, '}');
    tl_str_addc(out, '\n');
    return tl_str_status(out);
}

/* --- samples ---------------------------------------------------------------------------------- */

/* Bytes that are pixels already, as `tilth data convert --encoding=raw` writes them. */
tl_status tli_image_shape_raw(const char *name, tl_sample *s)
{
    static const tl_feature_spec size[] = {{.spec = {"image/height", TL_I64, {0}}},
                                           {.spec = {"image/width", TL_I64, {0}}},
                                           {.spec = {"image/channels", TL_I64, {0}}}};
    static const tl_example_features sizes = {size, TL_COUNT(size)};
    const tl_sample_field *format = tl_sample_peek(s, FORMAT), *image;
    int64_t n[TL_COUNT(size)];
    if (format->shape.dims[0] != 3 || memcmp(format->data, "raw", 3) != 0) return TL_OK;
    TL_TRY(tl_example_decode((void *)(uintptr_t)&sizes, s));
    for (int64_t i = 0; i < TL_COUNT(size); i++) TL_TRY(tl_sample_int(s, size[i].spec.name, &n[i]));
    TL_TRY(tl_sample_get(s, name, &image));
    int64_t bytes = image->shape.dims[0];
    if (n[0] < 1 || n[1] < 1 || n[2] < 1 || n[2] > TLI_VIEW_CHANNELS || n[0] > bytes / n[1]
        || n[0] * n[1] * n[2] != bytes)
        return TL_FAIL(TL_EINVAL,
                       "'%s' has %lld bytes; a raw image of %lld x %lld x %lld has another number",
                       name, (long long)bytes, (long long)n[0], (long long)n[1], (long long)n[2]);
    return tl_sample_show(s, name, TL_U8, TL_SHAPE(n[0], n[1], n[2]), image->data);
}

/* How people find the picture again: the name that the record has, beside the place that the
 * pipeline tells. */
static tl_status note_picture(const tl_sample *s, tl_status st)
{
    const tl_sample_field *name = tl_sample_peek(s, FILENAME);
    if (st == TL_OK || !name || name->dtype != TL_U8 || name->shape.rank != 1
        || !name->shape.dims[0])
        return st;
    int length = name->shape.dims[0] > 255 ? 255 : (int)name->shape.dims[0];
    return tl_error_note(st, "the picture '%.*s'", length, (const char *)name->data);
}

/* Counted in the first pass that is seen: later ones meet the same images again. */
static void tell_bad(plan *p, const tl_sample *s)
{
    enum { NAMED = 10 };
    int64_t none = -1;
    atomic_compare_exchange_strong(&p->bad_pass, &none, s->at.epoch);
    if (atomic_load(&p->bad_pass) != s->at.epoch) return;
    int64_t count = atomic_fetch_add(&p->bad_count, 1) + 1;
    if (count <= NAMED)
        TL_LOG_WARNING("%s, skip_bad: left out: record %lld of '%s': %s", p->section,
                       (long long)s->at.number, s->at.file, tl_error_message());
    else if ((count & (count - 1)) == 0)
        TL_LOG_WARNING("%s, skip_bad: %lld images that cannot be decoded were left out so far",
                       p->section, (long long)count);
}

/* After a failure that is the image's. */
static tl_status leave_out_bad(plan *p, tl_sample *s, tl_status st)
{
    st = note_picture(s, st);
    if (!p->data->skip_bad || st == TL_ENOMEM) return st;
    tell_bad(p, s);
    tl_error_clear();
    tl_sample_leave_out(s);
    return TL_OK;
}

/* Whether the image belongs to the part of the data that is not read. */
static tl_status is_other_part(const plan *p, const tl_sample *s, bool *out)
{
    const tl_sample_field *f;
    *out = false;
    if (!(p->data->holdout > 0) || p->data->file_type == TL_IMAGES_FOLDER) return TL_OK;
    TL_TRY(tl_sample_get(s, p->image, &f));
    uint64_t hash =
        tl_content_hash(f->data, (size_t)tl_shape_count(&f->shape) * tl_dtype_size(f->dtype));
    *out = tl_content_held_out(hash, p->data->holdout) != (p->part == TL_HOLDOUT_VALIDATION);
    return TL_OK;
}

/* For the cache: decoding is what takes long. */
static tl_status decode_pixels(const plan *p, tl_sample *s)
{
    const tl_sample_field *f;
    tl_image image = TL_IMAGE_INIT;
    TL_TRY(tl_sample_get(s, p->image, &f));
    if (f->shape.rank != 1) return TL_OK;
    TL_TRY(tli_view_decode(&image, &p->view, f->data, (size_t)f->shape.dims[0]));
    uint8_t *to =
        tl_sample_add(s, p->image, TL_U8, TL_SHAPE(image.height, image.width, image.channels));
    tl_status st = to ? TL_OK : tl_error_code();
    if (to) memcpy(to, image.pixels, (size_t)(image.height * image.width * image.channels));
    tl_image_deinit(&image);
    return st;
}

static tl_status decode_sample(void *self, tl_sample *s)
{
    plan *p = self;
    const char *const kept[] = {p->image, p->label, FILENAME};
    bool other;
    if (s->record) TL_TRY(tl_example_decode(&p->example, s));
    TL_TRY(is_other_part(p, s, &other));
    if (other) {
        tl_sample_leave_out(s);
        tl_sample_keep(s, NULL, 0); // a cache remembers no more than that
        return TL_OK;
    }
    if (s->record) TL_TRY(tli_image_shape_raw(p->image, s));
    tl_status st = p->data->base.cache ? decode_pixels(p, s) : TL_OK;
    if (st != TL_OK) TL_TRY(leave_out_bad(p, s, st));
    tl_sample_keep(s, kept, 3);
    return TL_OK;
}

static tl_status check_label(const plan *p, int64_t label)
{
    if (label >= 0 && label < p->num_classes) return TL_OK;
    return TL_FAIL(TL_EINVAL, "its class is %lld%s; model.num_classes is %lld", (long long)label,
                   label == -1 ? " (there is none)" : "", (long long)p->num_classes);
}

/* Any number of classes: 1 for each, and 0 for the others. */
static tl_status map_labels(const plan *p, tl_sample *s)
{
    const tl_sample_field *f;
    int64_t one;
    TL_TRY(tl_sample_get(s, p->label, &f));
    tl_sample_field from = *f; // the field may be replaced, its data stays
    bool several = from.dtype == TL_I64 && from.shape.rank == 1;
    if (!several) TL_TRY(tl_sample_int(s, p->label, &one));
    const int64_t *labels = several ? from.data : &one;
    int64_t count = several ? from.shape.dims[0] : 1;
    float *out = tl_sample_add(s, LABEL, TL_F32, TL_SHAPE(p->num_classes));
    if (!out) return tl_error_code();
    memset(out, 0, (size_t)p->num_classes * sizeof *out);
    for (int64_t i = 0; i < count; i++) {
        TL_TRY(check_label(p, labels[i]));
        out[labels[i]] = 1;
    }
    return TL_OK;
}

static tl_status put_label(tl_sample *s, int64_t label)
{
    int32_t *out = tl_sample_add(s, LABEL, TL_I32, TL_SCALAR);
    if (!out) return tl_error_code();
    *out = (int32_t)label;
    return TL_OK;
}

static tl_status map_label(const plan *p, tl_sample *s)
{
    const tl_sample_field *f;
    int64_t label = -1;
    if (p->unlabelled) return put_label(s, 0);
    if (p->multilabel) return map_labels(p, s);
    TL_TRY(tl_sample_get(s, p->label, &f));
    if (f->dtype == TL_I64 && f->shape.rank == 1) { // any number of them, as files have it
        if (f->shape.dims[0] > 1)
            return TL_FAIL(TL_EINVAL,
                           "'%s' has %lld classes; set task.train_data.is_multilabel for examples "
                           "with several",
                           p->label, (long long)f->shape.dims[0]);
        if (f->shape.dims[0]) label = *(const int64_t *)f->data;
    } else {
        TL_TRY(tl_sample_int(s, p->label, &label));
    }
    TL_TRY(check_label(p, label));
    return put_label(s, label);
}

/* --- several views of an image ---------------------------------------------------------------- */

/* One behind the other on the axis of channels. */
static tl_status see_pixels(const plan *p, tl_sample *s, float *out, const tl_pixels *image,
                            tl_rng *rng)
{
    const tli_view *v = &p->view;
    const int64_t c = v->channels, pixels = v->height * v->width;
    if (p->views == 1) return tl_contrast_view(out, v->height, v->width, p->look, image, rng);
    float *one = tl_sample_scratch(s, (size_t)(pixels * c) * sizeof *one);
    if (!one) return tl_error_code();
    for (int64_t k = 0; k < p->views; k++) {
        TL_TRY(tl_contrast_view(one, v->height, v->width, p->look, image, rng));
        for (int64_t i = 0; i < pixels; i++)
            memcpy(out + (i * p->views + k) * c, one + i * c, (size_t)c * sizeof *out);
    }
    return TL_OK;
}

static tl_status see(const plan *p, tl_sample *s, const tl_sample_field *from, tl_rng *rng,
                     bool *undecodable)
{
    const tli_view *v = &p->view;
    tl_image image = TL_IMAGE_INIT;
    float *out =
        tl_sample_add(s, IMAGE, TL_F32, TL_SHAPE(v->height, v->width, v->channels * p->views));
    tl_pixels whole;
    tl_status st = TL_OK;
    if (!out) return tl_error_code();
    if (from->shape.rank == 1) {
        st = tli_view_decode(&image, v, from->data, (size_t)from->shape.dims[0]);
        *undecodable = st != TL_OK && st != TL_ENOMEM;
        whole = tl_pixels_of(&image);
    } else {
        st = tli_view_whole(&whole, v, &from->shape, from->data);
    }
    if (st == TL_OK) st = see_pixels(p, s, out, &whole, rng);
    tl_image_deinit(&image);
    return st;
}

static tl_status view(const plan *p, tl_sample *s, bool *undecodable)
{
    const tli_view *v = &p->view;
    const tl_sample_field *f;
    tl_rng rng;
    TL_TRY(map_label(p, s));
    TL_TRY(tl_sample_get(s, p->image, &f));
    tl_sample_field from = *f; // the field may be replaced, its data stays
    tl_sample_rng(s, &rng);
    if (from.dtype != TL_U8)
        return TL_FAIL(TL_EINVAL, "'%s' is %s; expected bytes", p->image,
                       tl_dtype_name(from.dtype));
    if (p->look) return see(p, s, &from, &rng, undecodable);
    float *out = tl_sample_add(s, IMAGE, TL_F32, TL_SHAPE(v->height, v->width, v->channels));
    if (!out) return tl_error_code();
    if (from.shape.rank != 1) return tli_view_pixels(out, v, &from.shape, from.data, &rng);
    return tli_view_encoded(out, v, from.data, (size_t)from.shape.dims[0], &rng, undecodable);
}

tl_status tli_image_add_name(tl_sample *s, tli_image_place place)
{
    enum { LONGEST = 256 };
    const tl_sample_field *given = tl_sample_peek(s, FILENAME);
    bool named = given && given->dtype == TL_U8 && given->shape.rank == 1 && given->shape.dims[0];
    int64_t all = named ? given->shape.dims[0] : 0, shown = all < LONGEST ? all : LONGEST - 1;
    char text[LONGEST * 2];
    if (place == TLI_IN_FOLDER) snprintf(text, sizeof text, "%s", s->at.file);
    else if (place == TLI_MADE_UP)
        snprintf(text, sizeof text, "made-up image %lld", (long long)s->at.number);
    else
        snprintf(text, sizeof text, "%.*s%srecord %lld of %s", (int)shown,
                 named ? (const char *)given->data + all - shown : "", named ? ", " : "",
                 (long long)s->at.number, s->at.file);
    size_t length = strlen(text), from = length >= LONGEST ? length - (LONGEST - 1) : 0;
    char *out = tl_sample_add(s, TL_BATCH_NAME, TL_U8, TL_SHAPE(LONGEST));
    if (!out) return tl_error_code();
    memset(out, 0, LONGEST);
    memcpy(out, text + from, length - from);
    return TL_OK;
}

static tl_status add_name(const plan *p, tl_sample *s)
{
    tl_image_files type = p->data->file_type;
    return tli_image_add_name(s, type == TL_IMAGES_FOLDER      ? TLI_IN_FOLDER
                                 : type == TL_IMAGES_SYNTHETIC ? TLI_MADE_UP
                                                               : TLI_IN_RECORD);
}

static tl_status map_image(void *self, tl_sample *s)
{
    static const char *const kept[] = {IMAGE, LABEL, TL_BATCH_NAME};
    plan *p = self;
    bool undecodable = false;
    tl_status st = view(p, s, &undecodable);
    if (undecodable) return leave_out_bad(p, s, st);
    if (st != TL_OK) return note_picture(s, st);
    if (p->named) TL_TRY(add_name(p, s));
    tl_sample_keep(s, kept, 3);
    return TL_OK;
}

/* --- made-up images --------------------------------------------------------------------------- */

/* Stripes that lean by the class, with a random phase and some noise. */
static tl_status make_image(void *self, int64_t index, tl_sample *out)
{
    enum { WAVE = 256 };
    const plan *p = self;
    const tli_view *v = &p->view;
    uint8_t *pixels =
        tl_sample_add(out, p->image, TL_U8, TL_SHAPE(v->height, v->width, v->channels));
    int64_t *label = tl_sample_add(out, p->label, TL_I64, TL_SCALAR);
    uint8_t wave[WAVE];
    tl_rng rng;
    if (!pixels || !label) return tl_error_code();
    tl_rng_init(&rng, (uint64_t)(p->made_from + index));
    *label = index % p->num_classes;
    for (int i = 0; i < WAVE; i++)
        wave[i] = (uint8_t)(128 + 18 * sin(i * 2 * 3.14159265358979 / WAVE));
    double lean = 3.14159265358979 * (double)*label / (double)p->num_classes;
    double period = 6 + (double)(v->height < v->width ? v->height : v->width) / 16;
    int across = (int)lrint(-sin(lean) * 256 * WAVE / period),
        down = (int)lrint(cos(lean) * 256 * WAVE / period);
    int phase = (int)tl_rng_below(&rng, WAVE) * 256;
    uint32_t noise = tl_rng_u32(&rng) | 1;
    for (int64_t y = 0; y < v->height; y++)
        for (int64_t x = 0; x < v->width; x++)
            for (int64_t k = 0; k < v->channels; k++) {
                noise = noise * 1664525 + 1013904223;
                int at = (phase + across * (int)x + down * (int)y) >> 8;
                pixels[(y * v->width + x) * v->channels + k] =
                    (uint8_t)(wave[at & (WAVE - 1)] + (int)(noise >> 25) - 64);
            }
    return TL_OK;
}

/* --- sources ---------------------------------------------------------------------------------- */

static tl_status open_idx(tl_source **out, const char *const *paths, int64_t count)
{
    if (count != 2)
        return TL_FAIL(TL_EINVAL,
                       "input_path names %lld files; file_type idx needs two, separated by a "
                       "comma: images, labels",
                       (long long)count);
    const tl_idx_field fields[] = {{IMAGE, paths[0]}, {LABEL, paths[1]}};
    return tl_source_idx(out, fields, 2);
}

/* The names of a folder's classes are those of training, or its own when there are none. */
static tl_status open_folder(const plan *p, const char *const *paths, int64_t count,
                             tl_source **out)
{
    int64_t classes;
    if (count != 1)
        return TL_FAIL(TL_EINVAL, "%lld folders are named; file_type image_folder takes one",
                       (long long)count);
    TL_TRY(tl_source_image_folder(out, &(tl_image_folder_args){.path = paths[0],
                                                               .classes = p->class_names,
                                                               .holdout = p->data->holdout,
                                                               .part = p->part,
                                                               .skip_bad = p->data->skip_bad}));
    const char *const *names = tl_source_class_names(*out, &classes);
    tl_status st = tli_image_check_classes((tl_strings){names, classes}, p->num_classes);
    if (st != TL_OK) tl_source_free(out);
    return st;
}

/* Numbers in records are fixed: a list of their names that is beside them must say what training
 * says. */
static tl_status check_list(const plan *p, const char *const *paths, int64_t count)
{
    tl_arena *arena;
    tl_strings found;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tl_class_list_beside(&found, arena, paths, count);
    for (int64_t i = 0; st == TL_OK && p->class_names.count && i < found.count; i++) {
        const char *known = i < p->class_names.count ? p->class_names.items[i] : "none";
        if (strcmp(known, found.items[i]) == 0) continue;
        st = TL_FAIL(TL_EINVAL,
                     "class %lld is '%s' in the list beside the records, and '%s' in training: "
                     "write them with the list of training, tilth data convert --classes=FILE",
                     (long long)i, found.items[i], known);
    }
    tl_arena_free(&arena);
    return st;
}

static tl_status open_files(void *self, const char *name, const char *const *paths, int64_t count,
                            tl_source **out)
{
    const plan *p = self;
    (void)name;
    *out = NULL;
    switch (p->data->file_type) {
    case TL_IMAGES_IDX: return open_idx(out, paths, count);
    case TL_IMAGES_FOLDER: return open_folder(p, paths, count, out);
    default: break;
    }
    if (tl_dir_exists(paths[0]))
        return TL_FAIL(TL_EINVAL,
                       "'%s' is a folder, and file_type is tfrecord: for a folder of images set "
                       "%s.file_type=image_folder",
                       paths[0], p->section);
    TL_TRY(check_list(p, paths, count));
    return tl_source_tfrecords(out, paths, count, NULL);
}

/* A folder that a package brings should be asked for by the package's name. */
static tl_status explain_missing(tl_status st, const tl_value *path)
{
    if (st != TL_ENOTFOUND || !path || path->kind != TL_VALUE_SCALAR
        || !strstr(path->text, "/usr/share/datasets/fashion-mnist/"))
        return st;
    return tl_error_note(
        st, "Fashion-MNIST is not installed; run: apt-get install dataset-fashion-mnist");
}

tl_status tli_image_read_made_up(tl_pipeline_args *a, const tl_data_config *d,
                                 const tl_input_context *input, tl_sample_make_fn *make, void *self,
                                 int64_t examples, tl_arena *arena)
{
    bool training = d->is_training.set && d->is_training.value;
    TL_TRY(tl_pipeline_args_batch(a, d, input->replicas));
    a->sources = tl_arena_array(arena, 1, sizeof *a->sources);
    if (!a->sources) return TL_ENOMEM;
    TL_TRY(tl_source_function(a->sources, make, self, examples));
    a->source_count = 1;
    a->pipelines = input->pipelines;
    a->pipeline = input->pipeline;
    a->cache = d->cache;
    a->shuffle = training ? d->shuffle_buffer_size : 0;
    a->repeat = training;
    a->drop_remainder = d->drop_remainder && training;
    a->prefetch = d->prefetch_buffer_size.set && d->prefetch_buffer_size.value > 0
                      ? d->prefetch_buffer_size.value
                      : 0;
    a->seed = d->seed.set ? (uint64_t)d->seed.value : input->seed;
    tl_status st = tl_pipeline_args_sampler(a, arena, d);
    if (st != TL_OK) tl_pipeline_args_drop(a);
    return st;
}

static tl_status read_synthetic(tl_pipeline_args *a, const tl_image_inputs_args *args, plan *p)
{
    p->made_from = args->evaluation ? (int64_t)1 << 40 : 0;
    p->image = IMAGE;
    p->label = LABEL;
    return tli_image_read_made_up(a, &args->data->base, &args->input, make_image, p,
                                  args->data->synthetic_examples, args->arena);
}

static tl_status read_files(tl_pipeline_args *a, const tl_image_inputs_args *args, plan *p)
{
    const tl_image_data_config *d = args->data;
    if (d->file_type == TL_IMAGES_IDX) {
        p->image = IMAGE;
        p->label = LABEL;
    } else if (d->file_type == TL_IMAGES_FOLDER) {
        p->image = "image/encoded";
        p->label = "image/class/label";
        if (d->base.cache) a->decode = (tl_sample_map){decode_sample, p};
    } else {
        p->features[0] = (tl_feature_spec){.spec = {p->image, TL_U8, TL_SHAPE(-1)}};
        p->features[1] =
            (tl_feature_spec){.spec = {p->label, TL_I64, TL_SHAPE(-1)}, .optional = true};
        p->features[2] = (tl_feature_spec){.spec = {FORMAT, TL_U8, TL_SHAPE(-1)}, .optional = true};
        p->features[3] =
            (tl_feature_spec){.spec = {FILENAME, TL_U8, TL_SHAPE(-1)}, .optional = true};
        p->example = (tl_example_features){p->features, 4};
        a->decode = (tl_sample_map){decode_sample, p};
    }
    if (d->holdout > 0 && d->file_type == TL_IMAGES_IDX)
        a->decode = (tl_sample_map){decode_sample, p};
    a->leaves_out = d->skip_bad || (d->holdout > 0 && d->file_type != TL_IMAGES_FOLDER);
    tl_status st = tl_pipeline_args_read(a, args->arena, &d->base,
                                         &(tl_pipeline_reader){.pipelines = args->input.pipelines,
                                                               .pipeline = args->input.pipeline,
                                                               .replicas = args->input.replicas,
                                                               .seed = args->input.seed,
                                                               .weights = d->weights,
                                                               .section = p->section,
                                                               .open = open_files,
                                                               .open_self = p});
    return explain_missing(st, d->base.input_path);
}

static tl_status read_sources(tl_pipeline_args *a, const tl_image_inputs_args *args, plan *p)
{
    return args->data->file_type == TL_IMAGES_SYNTHETIC ? read_synthetic(a, args, p)
                                                        : read_files(a, args, p);
}

/* repeated_augment: examples are drawn from so many readers of the same, each in an order of its
 * own. */
static tl_status read_again(tl_pipeline_args *a, int64_t times, const tl_image_inputs_args *args,
                            plan *p)
{
    int64_t once = a->source_count;
    tl_source **sources = tl_arena_array(args->arena, once * times, sizeof *sources);
    double *weights = tl_arena_array(args->arena, once * times, sizeof *weights);
    if (!sources || !weights) return TL_ENOMEM;
    memcpy(sources, a->sources, (size_t)once * sizeof *sources);
    for (int64_t i = 0; i < once * times; i++) weights[i] = a->weights ? a->weights[i % once] : 1;
    a->sources = sources;
    a->weights = weights;
    for (int64_t t = 1; t < times; t++) {
        tl_pipeline_args more = {0};
        TL_TRY(read_sources(&more, args, p));
        memcpy(sources + t * once, more.sources, (size_t)once * sizeof *sources);
        a->source_count += once;
    }
    return TL_OK;
}

tl_status tl_image_inputs(tl_dataset **out, const tl_image_inputs_args *args)
{
    *out = NULL;
    plan *p = tl_arena_alloc(args->arena, sizeof *p);
    if (!p) return TL_ENOMEM;
    *p = (plan){.data = args->data,
                .num_classes = args->num_classes,
                .multilabel = args->multilabel || args->data->is_multilabel,
                .named = args->name_examples,
                .unlabelled = args->unlabelled,
                .views = args->views > 0 ? args->views : 1,
                .image = args->data->image_field_key,
                .label = args->data->label_field_key,
                .class_names = args->class_names,
                .part = args->data->holdout_part,
                .bad_pass = -1,
                .section = args->evaluation ? "task.validation_data" : "task.train_data"};
    if (p->part == TL_HOLDOUT_AUTO)
        p->part = args->evaluation ? TL_HOLDOUT_VALIDATION : TL_HOLDOUT_TRAIN;
    TL_TRY(make_view(&p->view, args->data, args->size));
    p->look = p->view.training ? args->look : NULL;
    if (p->look && p->view.channels != 1 && p->view.channels != 3)
        return TL_FAIL(TL_EINVAL,
                       "model.input_size asks for %lld channels; views of images have 1 or 3",
                       (long long)p->view.channels);
    if (args->num_classes < 1)
        return TL_FAIL(TL_EINVAL,
                       "model.num_classes is %lld: set it to the number of classes in the data",
                       (long long)args->num_classes);
    if (args->data->base.global_batch_size < 1)
        return TL_FAIL(TL_EINVAL, "global_batch_size is 0: set it in %s", p->section);
    TL_TRY(tli_image_check_classes(args->class_names, args->num_classes));
    const tl_sample_map map = {map_image, p};
    const tl_opt_int *times = &args->data->repeated_augment;
    tl_pipeline_args a = {.maps = &map, .map_count = 1, .threads = args->threads};
    TL_TRY(read_sources(&a, args, p));
    tl_status st = p->view.training && times->set ? read_again(&a, times->value, args, p) : TL_OK;
    if (st != TL_OK) {
        tl_pipeline_args_drop(&a);
        return st;
    }
    if (p->view.training && args->data->mixup_and_cutmix) {
        p->mixing = (tl_mixing){args->data->mixup_and_cutmix, IMAGE, LABEL, args->num_classes};
        a.postprocess = tl_mixing_batch;
        a.postprocess_self = &p->mixing;
    }
    return tl_pipeline_new(out, &a);
}
