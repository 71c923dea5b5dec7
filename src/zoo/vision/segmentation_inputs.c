/* Pictures with a class for each pixel on their way into a model. */
#include <tilth/zoo/segmentation_inputs.h>

#include <math.h>
#include <string.h>

#include <tilth/data/batch.h>
#include <tilth/data/pipeline.h>

#include "zoo/inner/shapes.h"
#include "zoo/vision/frame.h"
#include "zoo/vision/image_inputs.h"
#include "zoo/vision/picture.h"

#define IMAGE "image"
#define MASKS "masks"
#define VALID "valid_masks"
#define INFO "image_info"
#define LABELS "image/segmentation/class/encoded"

/* Of labels that lie outside of the picture. */
static const float beyond = -1;

/* Pictures that become the channels of one. */
enum { LAYERS = 8 };
typedef struct layer {
    const char *name; /* of its field */
    int64_t channels, first;
    float mean[TL_PIXELS_CHANNELS], stddev[TL_PIXELS_CHANNELS];
} layer;

/* How pictures are seen. */
typedef struct view {
    layer layers[LAYERS];
    int64_t layer_count, channels;
    int64_t stretched_height, stretched_width; /* first of all; 0: not */
    int64_t crop_height, crop_width;           /* then a part; 0: all */
    bool flip;
    tli_framing framing;
} view;

/* What the maps need to know; const while they run. */
typedef struct plan {
    view view;
    const tl_segmentation_data_config *data;
    bool training, named;
    bool matting, whole_truth; /* masks have the size of the picture */
    int64_t num_classes;
    float ignore_label;
    uint64_t seed; /* synthetic */
    const char *section;
    tl_feature_spec features[LAYERS + 2];
    tl_example_features example;
} plan;

/* One example on its way. */
typedef struct work {
    const view *v;
    tl_sample *s;
    tl_window window; /* of the stretched picture */
    bool mirror;
    tli_frame frame;
} work;

/* --- plans ------------------------------------------------------------------------------------ */

static tl_status add_layer(view *v, const tl_dense_feature *f)
{
    if (v->layer_count == LAYERS)
        return TL_FAIL(TL_ELIMIT, "additional_dense_features: there are more than %d", LAYERS - 1);
    layer *l = &v->layers[v->layer_count++];
    *l = (layer){.name = f->feature_name, .channels = f->num_channels, .first = v->channels};
    v->channels += l->channels;
    for (int64_t i = 0; i < l->channels; i++) {
        l->mean[i] = (float)f->mean.items[i];
        l->stddev[i] = (float)f->stddev.items[i];
    }
    if (strcmp(l->name, LABELS) == 0)
        return TL_FAIL(TL_EINVAL, "image_feature: '%s' holds the classes", LABELS);
    for (int64_t i = 0; i + 1 < v->layer_count; i++)
        if (strcmp(v->layers[i].name, l->name) == 0)
            return TL_FAIL(TL_EINVAL, "additional_dense_features: '%s' is read twice", l->name);
    return TL_OK;
}

static tl_status make_view(view *v, const tl_segmentation_data_config *d, bool training)
{
    const tl_dense_feature *more = d->additional_dense_features.items;
    bool crops = training && d->crop_size.count;
    tl_ints size = crops ? d->crop_size : d->output_size;
    *v = (view){.flip = training && d->aug_rand_hflip};
    TL_TRY(add_layer(v, &d->image_feature));
    for (int64_t i = 0; i < d->additional_dense_features.count; i++) TL_TRY(add_layer(v, &more[i]));
    if (size.count != 2)
        return TL_FAIL(TL_EINVAL, "output_size is empty: set it to [height, width]");
    if (d->output_size.count && (crops || !d->preserve_aspect_ratio)) {
        v->stretched_height = d->output_size.items[0];
        v->stretched_width = d->output_size.items[1];
    }
    if (crops) {
        v->crop_height = size.items[0];
        v->crop_width = size.items[1];
    }
    v->framing = (tli_framing){.height = size.items[0],
                               .width = size.items[1],
                               .padded_height = size.items[0],
                               .padded_width = size.items[1],
                               .centered = d->centered_crop,
                               .scale_from = d->aug_scale_min,
                               .scale_to = d->aug_scale_max};
    return TL_OK;
}

/* --- pictures --------------------------------------------------------------------------------- */

/* Where a picture of this size is seen this time. */
static tl_status choose(work *w, int64_t height, int64_t width, const tl_rng *rng)
{
    const view *v = w->v;
    tl_rng own;
    if (v->stretched_height) {
        height = v->stretched_height;
        width = v->stretched_width;
    }
    w->window = (tl_window){0, 0, width, height};
    if (v->crop_height) {
        if (v->crop_height > height || v->crop_width > width)
            return TL_FAIL(TL_EINVAL,
                           "crop_size is %lld x %lld, and the picture has %lld x %lld pixels: set "
                           "output_size, which it is brought to first",
                           (long long)v->crop_height, (long long)v->crop_width, (long long)height,
                           (long long)width);
        tl_rng_split(&own, rng, "crop");
        w->window.y = tl_rng_below(&own, height - v->crop_height + 1);
        w->window.x = tl_rng_below(&own, width - v->crop_width + 1);
        w->window.height = v->crop_height;
        w->window.width = v->crop_width;
    }
    if (v->flip) {
        tl_rng_split(&own, rng, "flip");
        w->mirror = tl_rng_below(&own, 2) == 1;
    }
    return tli_frame_choose(&w->frame, &v->framing, w->window.height, w->window.width, rng);
}

/* To stretched_height x stretched_width, in memory of the sample. */
static tl_status stretch(const work *w, tl_pixels *p, const tl_pixels_resize_args *how,
                         tl_dtype dtype)
{
    int64_t height = w->v->stretched_height, width = w->v->stretched_width;
    if (!height) return TL_OK;
    void *memory =
        tl_sample_scratch(w->s, (size_t)(height * width * p->channels) * tl_dtype_size(dtype));
    if (!memory) return tl_error_code();
    tl_pixels out = tl_pixels_new(dtype, height, width, p->channels, memory);
    TL_TRY(tl_pixels_resize(&out, p, how, NULL));
    *p = out;
    return TL_OK;
}

static tl_status put_layer(const work *w, const layer *l, float *out, tl_pixels p)
{
    const tl_pixels_resize_args how = {.mean = l->mean, .deviation = l->stddev};
    bool normal = w->v->stretched_height > 0; // already, then
    TL_TRY(stretch(w, &p, &how, TL_F32));
    tl_pixels part = tl_pixels_crop(&p, w->window);
    return tli_frame_image(&w->frame, out, &part, w->mirror, normal ? NULL : l->mean,
                           normal ? NULL : l->stddev);
}

/* Several pictures as channels of one. */
static tl_status put_layers(const work *w, float *out, const tl_pixels *pictures)
{
    const view *v = w->v;
    int64_t pixels = v->framing.padded_height * v->framing.padded_width;
    if (v->layer_count == 1) return put_layer(w, &v->layers[0], out, pictures[0]);
    float *one = tl_sample_scratch(w->s, (size_t)(pixels * TL_PIXELS_CHANNELS) * sizeof *one);
    if (!one) return tl_error_code();
    for (int64_t i = 0; i < v->layer_count; i++) {
        const layer *l = &v->layers[i];
        TL_TRY(put_layer(w, l, one, pictures[i]));
        for (int64_t k = 0; k < pixels; k++)
            memcpy(out + k * v->channels + l->first, one + k * l->channels,
                   (size_t)l->channels * sizeof *one);
    }
    return TL_OK;
}

/* --- labels ----------------------------------------------------------------------------------- */

/* The nearest pixel of a picture that is mirrored is not always the mirrored nearest one: they are
 * mirrored before. */
static tl_status mirror_labels(const work *w, tl_pixels *p)
{
    uint8_t *memory = tl_sample_scratch(w->s, (size_t)(p->height * p->width));
    if (!memory) return tl_error_code();
    tl_pixels out = tl_pixels_new(TL_U8, p->height, p->width, 1, memory);
    tl_pixels_copy(&out, p, true);
    *p = out;
    return TL_OK;
}

/* As large as they are, with nothing behind them. */
static tl_status pad_labels(const plan *p, float *out, const tl_pixels *labels)
{
    const int64_t *room = p->data->groundtruth_padded_size.items;
    if (labels->height > room[0] || labels->width > room[1])
        return TL_FAIL(TL_EINVAL,
                       "the picture has %lld x %lld pixels, and groundtruth_padded_size is %lld x "
                       "%lld: it must hold every picture",
                       (long long)labels->height, (long long)labels->width, (long long)room[0],
                       (long long)room[1]);
    for (int64_t i = 0; i < room[0] * room[1]; i++) out[i] = beyond;
    tl_pixels all = tl_pixels_new(TL_F32, room[0], room[1], 1, out);
    tl_pixels part = tl_pixels_crop(&all, (tl_window){0, 0, labels->width, labels->height});
    tl_pixels_copy(&part, labels, false);
    return TL_OK;
}

/* Bytes become classes, or shares; what lies outside becomes ignore_label. */
static tl_status finish_labels(const plan *p, float *labels, bool *valid, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float v = labels[i];
        if (v == beyond) v = p->ignore_label;
        else if (p->matting && p->training) v = v / 255;
        else if (p->matting) v = v / 255 > 0.5f;
        else if (p->num_classes > 0 && v != p->ignore_label && v >= (float)p->num_classes)
            return TL_FAIL(TL_EINVAL,
                           "'" LABELS "' has a pixel of class %d; model.num_classes is %lld, and "
                           "losses.ignore_label %d: pixels are numbers of classes, not colours",
                           (int)v, (long long)p->num_classes, (int)p->ignore_label);
        labels[i] = v;
        valid[i] = v != p->ignore_label;
    }
    return TL_OK;
}

static tl_status put_labels(const plan *p, const work *w, tl_pixels labels)
{
    const tl_pixels_resize_args nearest = {.method = TL_PIXELS_NEAREST};
    const tli_framing *f = &w->v->framing;
    int64_t height = f->padded_height, width = f->padded_width;
    if (p->whole_truth) {
        height = p->data->groundtruth_padded_size.items[0];
        width = p->data->groundtruth_padded_size.items[1];
    }
    float *out = tl_sample_add(w->s, MASKS, TL_F32, TL_SHAPE(height, width, 1));
    bool *valid = tl_sample_add(w->s, VALID, TL_BOOL, TL_SHAPE(height, width, 1));
    if (!out || !valid) return tl_error_code();
    TL_TRY(stretch(w, &labels, &nearest, TL_U8));
    labels = tl_pixels_crop(&labels, w->window);
    if (w->mirror) TL_TRY(mirror_labels(w, &labels));
    if (p->whole_truth) TL_TRY(pad_labels(p, out, &labels));
    else TL_TRY(tli_frame_labels(&w->frame, out, &labels, beyond));
    return finish_labels(p, out, valid, height * width);
}

/* --- examples --------------------------------------------------------------------------------- */

static tl_status check_sizes(const plan *p, const tli_picture *pictures, int64_t count)
{
    const tl_pixels *a = &pictures[0].pixels;
    for (int64_t i = 1; i < count; i++) {
        const tl_pixels *b = &pictures[i].pixels;
        const char *name = i < p->view.layer_count ? p->view.layers[i].name : LABELS;
        if (a->height == b->height && a->width == b->width) continue;
        return TL_FAIL(TL_EINVAL,
                       "'%s' has %lld x %lld pixels, and '%s' %lld x %lld: both must have the same",
                       name, (long long)b->height, (long long)b->width, p->view.layers[0].name,
                       (long long)a->height, (long long)a->width);
    }
    return TL_OK;
}

static tl_status put_example(const plan *p, tl_sample *s, const tli_picture *pictures)
{
    const view *v = &p->view;
    work w = {.v = v, .s = s};
    tl_pixels layers[LAYERS];
    tl_rng rng;
    TL_TRY(check_sizes(p, pictures, v->layer_count + 1));
    for (int64_t i = 0; i < v->layer_count; i++) layers[i] = pictures[i].pixels;
    tl_sample_rng(s, &rng);
    TL_TRY(choose(&w, layers[0].height, layers[0].width, p->training ? &rng : NULL));
    float *out = tl_sample_add(
        s, IMAGE, TL_F32, TL_SHAPE(v->framing.padded_height, v->framing.padded_width, v->channels));
    float *info = tl_sample_add(s, INFO, TL_F32, TL_SHAPE(4, 2));
    if (!out || !info) return tl_error_code();
    TL_TRY(put_layers(&w, out, layers));
    tli_frame_info(&w.frame, info);
    return put_labels(p, &w, pictures[v->layer_count].pixels);
}

static tl_status open_named(tli_picture *out, const tl_sample *s, const char *name,
                            int64_t channels)
{
    const tl_sample_field *f;
    TL_TRY(tl_sample_get(s, name, &f));
    TL_TRY_NOTE(tli_picture_open(out, f, channels, false), "'%s'", name);
    return TL_OK;
}

static tl_status map_example(void *self, tl_sample *s)
{
    static const char *const kept[] = {IMAGE, MASKS, VALID, INFO, TL_BATCH_NAME};
    const plan *p = self;
    const view *v = &p->view;
    tli_picture pictures[LAYERS + 1];
    int64_t open = 0;
    tl_status st = TL_OK;
    for (; open <= v->layer_count; open++) {
        bool labels = open == v->layer_count;
        TL_TRY_DONE(st, open_named(&pictures[open], s, labels ? LABELS : v->layers[open].name,
                                   labels ? 1 : v->layers[open].channels));
    }
    TL_TRY_DONE(st, put_example(p, s, pictures));
    if (p->named)
        TL_TRY_DONE(st, tli_image_add_name(s, p->data->file_type == TL_SEGMENTATION_SYNTHETIC
                                                  ? TLI_MADE_UP
                                                  : TLI_IN_RECORD));
    tl_sample_keep(s, kept, TL_COUNT(kept));
done:
    while (open > 0) tli_picture_close(&pictures[--open]);
    return st;
}

/* For a cache, pixels. */
static tl_status decode_example(void *self, tl_sample *s)
{
    const plan *p = self;
    if (!s->record) return TL_OK; // made up
    TL_TRY(tl_example_decode((void *)(uintptr_t)&p->example, s));
    if (!p->data->base.cache) return TL_OK;
    for (int64_t i = 0; i < p->view.layer_count; i++) {
        const layer *l = &p->view.layers[i];
        TL_TRY_NOTE(tli_picture_decode(s, l->name, l->channels), "'%s'", l->name);
    }
    TL_TRY_NOTE(tli_picture_decode(s, LABELS, 1), "'" LABELS "'");
    return TL_OK;
}

/* --- one picture ------------------------------------------------------------------------------ */

tl_status tl_segmentation_image_size(int64_t out[3], const tl_segmentation_data_config *data)
{
    view v;
    TL_TRY(make_view(&v, data, false));
    out[0] = v.framing.padded_height;
    out[1] = v.framing.padded_width;
    out[2] = v.channels;
    return TL_OK;
}

static tl_status prepare(float *image, float info[TLI_FRAME_INFO],
                         const tl_segmentation_data_config *data, tl_sample_field f, bool orient)
{
    view v;
    work w = {.v = &v};
    tli_picture p;
    TL_TRY(make_view(&v, data, false));
    if (v.layer_count > 1)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "the model looks at %lld pictures at a time "
                       "(additional_dense_features), and one is given",
                       (long long)v.layer_count);
    if (f.shape.rank == 2) f.shape = TL_SHAPE(f.shape.dims[0], f.shape.dims[1], 1);
    TL_TRY(tli_picture_open(&p, &f, v.channels, orient));
    tl_status st = tl_sample_new(&w.s);
    if (st == TL_OK) st = choose(&w, p.pixels.height, p.pixels.width, NULL);
    if (st == TL_OK) st = put_layer(&w, &v.layers[0], image, p.pixels);
    if (st == TL_OK) tli_frame_info(&w.frame, info);
    tl_sample_free(&w.s);
    tli_picture_close(&p);
    return st;
}

tl_status tl_segmentation_prepare(float *image, float image_info[8],
                                  const tl_segmentation_data_config *data, const void *file,
                                  size_t bytes, bool of_data)
{
    const tl_sample_field f = {
        .name = "the picture", .dtype = TL_U8, .shape = TL_SHAPE((int64_t)bytes), .data = file};
    return prepare(image, image_info, data, f, !of_data);
}

tl_status tl_segmentation_prepare_pixels(float *image, float image_info[8],
                                         const tl_segmentation_data_config *data, tl_shape shape,
                                         const void *pixels)
{
    const tl_sample_field f = {
        .name = "the picture", .dtype = TL_U8, .shape = shape, .data = pixels};
    char text[TL_SHAPE_TEXT];
    if (shape.rank != 2 && shape.rank != 3)
        return TL_FAIL(TL_EINVAL,
                       "the picture has the shape %s; expected [height, width, channels]",
                       tl_shape_text(text, &shape));
    return prepare(image, image_info, data, f, false);
}

tl_status tl_segmentation_look_back(tl_segmentation_way_back *out,
                                    const tl_segmentation_data_config *data, int64_t height,
                                    int64_t width)
{
    view v;
    work w = {.v = &v};
    TL_TRY(make_view(&v, data, false));
    TL_TRY(choose(&w, height, width, NULL));
    const tli_frame *f = &w.frame;
    // What was stretched covers all of it; other maps are rounded up, as the original does it.
    if (v.stretched_height) *out = (tl_segmentation_way_back){height, width, 0, 0};
    else
        *out =
            (tl_segmentation_way_back){(int64_t)ceilf((float)f->how.height / f->scale_y),
                                       (int64_t)ceilf((float)f->how.width / f->scale_x),
                                       (float)f->down / f->scale_y, (float)f->right / f->scale_x};
    return TL_OK;
}

/* --- the pipeline ----------------------------------------------------------------------------- */

static tl_status make_shapes(void *self, int64_t index, tl_sample *out)
{
    enum { SIDE = TLI_SHAPES_SIDE };
    const plan *p = self;
    tli_shapes *made = tl_sample_scratch(out, sizeof *made);
    uint8_t *pixels = tl_sample_add(out, p->view.layers[0].name, TL_U8, TL_SHAPE(SIDE, SIDE, 3));
    uint8_t *labels = tl_sample_add(out, LABELS, TL_U8, TL_SHAPE(SIDE, SIDE, 1));
    if (!made || !pixels || !labels) return tl_error_code();
    tli_shapes_make(made, p->seed, index);
    memcpy(pixels, made->pixels, sizeof made->pixels);
    memcpy(labels, made->labels, sizeof made->labels);
    return TL_OK;
}

static tl_status read_sources(tl_pipeline_args *a, const tl_segmentation_inputs_args *args, plan *p)
{
    const tl_segmentation_data_config *d = args->data;
    const tl_shape any = TL_SHAPE(-1);
    int64_t n = p->view.layer_count;
    if (d->file_type == TL_SEGMENTATION_SYNTHETIC) {
        if (n > 1 || p->view.channels != 3)
            return TL_FAIL(TL_EINVAL, "image_feature: pictures of file_type synthetic have 3 "
                                      "channels, and no features beside them");
        return tli_image_read_made_up(a, &d->base, &args->input, make_shapes, p,
                                      d->synthetic_examples, args->arena);
    }
    for (int64_t i = 0; i < n; i++)
        p->features[i] = (tl_feature_spec){.spec = {p->view.layers[i].name, TL_U8, any}};
    p->features[n++] = (tl_feature_spec){.spec = {LABELS, TL_U8, any}};
    if (p->named)
        p->features[n++] =
            (tl_feature_spec){.spec = {TLI_IMAGE_FILENAME, TL_U8, any}, .optional = true};
    p->example = (tl_example_features){p->features, n};
    a->decode = (tl_sample_map){decode_example, p};
    return tl_pipeline_args_read(a, args->arena, &d->base,
                                 &(tl_pipeline_reader){.pipelines = args->input.pipelines,
                                                       .pipeline = args->input.pipeline,
                                                       .replicas = args->input.replicas,
                                                       .seed = args->input.seed,
                                                       .weights = d->weights,
                                                       .section = p->section});
}

tl_status tl_segmentation_inputs(tl_dataset **out, const tl_segmentation_inputs_args *args)
{
    const tl_segmentation_data_config *d = args->data;
    *out = NULL;
    plan *p = tl_arena_alloc(args->arena, sizeof *p);
    if (!p) return TL_ENOMEM;
    *p = (plan){.data = d,
                .training = d->base.is_training.set && d->base.is_training.value,
                .named = args->name_examples,
                .matting = args->gt_is_matting_map,
                .num_classes = args->num_classes,
                .ignore_label = (float)args->ignore_label,
                .seed = args->evaluation ? TLI_SHAPES_VALIDATION : TLI_SHAPES_TRAIN,
                .section = args->evaluation ? "task.validation_data" : "task.train_data"};
    p->whole_truth = !p->training && !d->resize_eval_groundtruth;
    TL_TRY_NOTE(make_view(&p->view, d, p->training), "%s", p->section);
    if (d->base.global_batch_size < 1)
        return TL_FAIL(TL_EINVAL, "global_batch_size is 0: set it in %s", p->section);
    const tl_sample_map map = {map_example, p};
    tl_pipeline_args a = {.maps = &map, .map_count = 1, .threads = args->threads};
    TL_TRY(read_sources(&a, args, p));
    return tl_pipeline_new(out, &a);
}
