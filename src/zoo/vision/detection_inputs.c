/* Pictures with boxes on their way into a detector. */
#include <tilth/zoo/detection_inputs.h>

#include <stdatomic.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>
#include <tilth/base/log.h>
#include <tilth/data/batch.h>

#include "zoo/inner/shapes.h"
#include "zoo/vision/detection_augment.h"
#include "zoo/vision/detection_example.h"
#include "zoo/vision/frame.h"
#include "zoo/vision/image_inputs.h"
#include "zoo/vision/picture.h"

enum { CHANNELS = 3 };

/* How pictures are seen. */
typedef struct view {
    tli_framing framing;
    float mean[CHANNELS], stddev[CHANNELS];
} view;

/* What the maps need to know; const while they run, but for what is told once. */
typedef struct plan {
    tli_detection_decoder decoder;
    view view;
    const tl_detection_data_config *data;
    const tl_detection_parser *parser;
    bool training, truth, masks, named;
    int64_t num_classes;
    const char *section; /* of the configuration */
    const char *kept[TL_SAMPLE_FIELDS];
    int64_t kept_count;
    atomic_bool told_crowded;
} plan;

/* --- plans ------------------------------------------------------------------------------------ */

static tl_status make_view(view *v, const tl_detection_data_config *d, tl_ints size,
                           int64_t max_level)
{
    static const float mean[] = {123.675f, 116.28f, 103.53f}, stddev[] = {58.395f, 57.12f, 57.375f};
    enum { LARGEST = 1 << 16, HIGHEST = 16 };
    const tl_detection_parser *p = &d->parser;
    bool fits = size.count == 2 || (size.count == 3 && size.items[2] == CHANNELS);
    for (int64_t i = 0; fits && i < 2; i++) fits = size.items[i] > 0 && size.items[i] <= LARGEST;
    if (!fits)
        return TL_FAIL(TL_EINVAL,
                       "model.input_size: expected [height, width, 3], from 1 to %d "
                       "pixels",
                       LARGEST);
    if (max_level < 0 || max_level > HIGHEST)
        return TL_FAIL(TL_EINVAL, "model.max_level is %lld; expected 0 to %d", (long long)max_level,
                       HIGHEST);
    int64_t unit = p->pad ? (int64_t)1 << max_level : 1;
    v->framing = (tli_framing){.height = size.items[0],
                               .width = size.items[1],
                               .padded_height = tl_round_up(size.items[0], unit),
                               .padded_width = tl_round_up(size.items[1], unit),
                               .stretch = !p->keep_aspect_ratio,
                               .scale_from = p->aug_scale_min,
                               .scale_to = p->aug_scale_max};
    for (int64_t i = 0; i < CHANNELS; i++) {
        v->mean[i] = d->mean.count ? (float)d->mean.items[i] : mean[i];
        v->stddev[i] = d->mean.count ? (float)d->stddev.items[i] : stddev[i];
    }
    return TL_OK;
}

tl_status tl_detection_padded_size(int64_t out[2], const tl_detection_data_config *data,
                                   tl_ints size, int64_t max_level)
{
    view v;
    TL_TRY(make_view(&v, data, size, max_level));
    out[0] = v.framing.padded_height;
    out[1] = v.framing.padded_width;
    return TL_OK;
}

/* --- objects ---------------------------------------------------------------------------------- */

/* Those of a picture that are left. */
typedef struct objects {
    int64_t count;
    int64_t *which;    /* number of each in the record */
    float (*boxes)[4]; /* shares of the picture, or pixels */
    const int32_t *classes;
    const float *attributes[TLI_DETECTION_ATTRIBUTES];
} objects;

static tl_status check_class(const plan *p, int32_t class, int64_t i)
{
    if (p->num_classes < 1 || (class >= 1 && class < p->num_classes)
        || (class == -1 && p->decoder.named))
        return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "the class of object %lld is %d; model.num_classes is %lld, and 0 is the "
                   "background: classes are 1 to %lld",
                   (long long)i, class, (long long)p->num_classes, (long long)p->num_classes - 1);
}

/* Into memory of the sample. */
static tl_status get_objects(const plan *p, objects *o, tl_sample *s)
{
    const tl_sample_field *boxes, *classes, *crowds, *values;
    TL_TRY(tl_sample_get(s, TLI_DETECTION_BOXES, &boxes));
    TL_TRY(tl_sample_get(s, TLI_DETECTION_CLASSES, &classes));
    TL_TRY(tl_sample_get(s, TLI_TRUTH_CROWDS, &crowds));
    int64_t n = boxes->shape.dims[0];
    *o = (objects){.classes = classes->data};
    o->which = tl_sample_scratch(s, (size_t)n * sizeof *o->which);
    o->boxes = tl_sample_scratch(s, (size_t)n * sizeof *o->boxes);
    if (!o->which || !o->boxes) return tl_error_code();
    for (int64_t a = 0; a < p->decoder.attribute_count; a++) {
        TL_TRY(tl_sample_get(s, p->decoder.fields[a], &values));
        o->attributes[a] = values->data;
    }
    bool skip = p->training && p->parser->skip_crowd_during_training && crowds->shape.dims[0];
    const float *from = boxes->data;
    const int32_t *crowd = crowds->data;
    for (int64_t i = 0; i < n; i++) {
        TL_TRY(check_class(p, o->classes[i], i));
        if (skip && crowd[i]) continue;
        memcpy(o->boxes[o->count], from + 4 * i, sizeof *o->boxes);
        o->which[o->count++] = i;
    }
    return TL_OK;
}

static void flip_boxes(objects *o)
{
    for (int64_t i = 0; i < o->count; i++) {
        float left = o->boxes[i][1];
        o->boxes[i][1] = 1 - o->boxes[i][3];
        o->boxes[i][3] = 1 - left;
    }
}

/* To pixels of the input; those of which nothing is seen are left out. */
static void frame_objects(objects *o, const tli_frame *f)
{
    const float size[] = {(float)f->height, (float)f->width};
    int64_t left = 0;
    for (int64_t i = 0; i < o->count; i++) {
        float box[4];
        for (int k = 0; k < 4; k++) box[k] = o->boxes[i][k] * size[k % 2];
        tli_frame_box(f, box);
        if (!(box[2] > box[0] && box[3] > box[1])) continue;
        memcpy(o->boxes[left], box, sizeof box);
        o->which[left++] = o->which[i];
    }
    o->count = left;
}

/* Once: of evaluations too, where detections would be compared with less than there is. */
static void tell_crowded(plan *p, const tl_sample *s, int64_t count)
{
    if (count <= p->parser->max_num_instances || atomic_exchange(&p->told_crowded, true)) return;
    TL_LOG_WARNING("%s: record %lld of '%s' has %lld objects, and there is room for %lld: the "
                   "others are left out, here and of all pictures; raise "
                   "parser.max_num_instances",
                   p->section, (long long)s->at.number, s->at.file, (long long)count,
                   (long long)p->parser->max_num_instances);
}

/* `rows` of `width` floats, and -1 behind them. */
static tl_status put_floats(tl_sample *s, const char *name, tl_shape shape, const float *from,
                            const int64_t *which, int64_t rows)
{
    float *out = tl_sample_add(s, name, TL_F32, shape);
    if (!out) return tl_error_code();
    int64_t width = shape.rank > 1 ? shape.dims[1] : 1, count = tl_shape_count(&shape);
    rows = tl_min_i64(rows, shape.dims[0]);
    for (int64_t i = 0; i < rows; i++)
        memcpy(out + i * width, from + (which ? which[i] : i) * width, (size_t)width * sizeof *out);
    for (int64_t i = rows * width; i < count; i++) out[i] = -1;
    return TL_OK;
}

/* The same of integers, with `beyond` behind them. */
static tl_status put_ints(tl_sample *s, const char *name, int64_t room, const int32_t *from,
                          const int64_t *which, int64_t rows, int32_t beyond)
{
    int32_t *out = tl_sample_add(s, name, TL_I32, TL_SHAPE(room));
    if (!out) return tl_error_code();
    rows = tl_min_i64(rows, room);
    for (int64_t i = 0; i < rows; i++) out[i] = from[which ? which[i] : i];
    for (int64_t i = rows; i < room; i++) out[i] = beyond;
    return TL_OK;
}

static tl_status put_objects(plan *p, tl_sample *s, const objects *o)
{
    int64_t room = p->parser->max_num_instances;
    tell_crowded(p, s, o->count);
    TL_TRY(put_floats(s, TLI_DETECTION_BOXES, TL_SHAPE(room, 4), o->boxes[0], NULL, o->count));
    TL_TRY(put_ints(s, TLI_DETECTION_CLASSES, room, o->classes, o->which, o->count, -1));
    for (int64_t a = 0; a < p->decoder.attribute_count; a++)
        TL_TRY(put_floats(s, p->decoder.fields[a], TL_SHAPE(room, p->decoder.sizes[a]),
                          o->attributes[a], o->which, o->count));
    return TL_OK;
}

/* --- ground truth ----------------------------------------------------------------------------- */

static tl_status put_int(tl_sample *s, const char *name, int64_t value)
{
    int32_t *out = tl_sample_add(s, name, TL_I32, TL_SCALAR);
    if (!out) return tl_error_code();
    *out = (int32_t)value;
    return TL_OK;
}

/* Those of the record, or of the boxes where it has none. */
static tl_status put_areas(tl_sample *s, int64_t room, const float *boxes, int64_t n)
{
    const tl_sample_field *f;
    TL_TRY(tl_sample_get(s, TLI_TRUTH_AREAS, &f));
    const float *areas = f->data;
    if (!f->shape.dims[0]) {
        float *made = tl_sample_scratch(s, (size_t)n * sizeof *made);
        if (!made) return tl_error_code();
        for (int64_t i = 0; i < n; i++)
            made[i] = (boxes[4 * i + 3] - boxes[4 * i + 1]) * (boxes[4 * i + 2] - boxes[4 * i]);
        areas = made;
    }
    return put_floats(s, TLI_TRUTH_AREAS, TL_SHAPE(room), areas, NULL, n);
}

static tl_status put_crowds(tl_sample *s, int64_t room)
{
    const tl_sample_field *f;
    TL_TRY(tl_sample_get(s, TLI_TRUTH_CROWDS, &f));
    return put_ints(s, TLI_TRUTH_CROWDS, room, f->data, NULL, f->shape.dims[0], 0);
}

static tl_status put_masks(tl_sample *s, int64_t room)
{
    const tl_sample_field *f;
    TL_TRY(tl_sample_get(s, TLI_TRUTH_MASKS, &f));
    tl_shape shape = f->shape;
    if (shape.dims[0] > room) shape.dims[0] = room;
    return tl_sample_show(s, TLI_TRUTH_MASKS, TL_U8, shape, f->data);
}

/* In pixels of the picture. */
static tl_status put_truth(plan *p, tl_sample *s, int64_t height, int64_t width)
{
    const float size[] = {(float)height, (float)width};
    int64_t room = p->parser->max_num_instances;
    const tl_sample_field *boxes, *classes;
    TL_TRY(tl_sample_get(s, TLI_DETECTION_BOXES, &boxes));
    TL_TRY(tl_sample_get(s, TLI_DETECTION_CLASSES, &classes));
    int64_t n = boxes->shape.dims[0];
    const float *from = boxes->data;
    float *made = tl_sample_scratch(s, (size_t)n * 4 * sizeof *made);
    if (!made) return tl_error_code();
    for (int64_t i = 0; i < 4 * n; i++) made[i] = from[i] * size[i % 2];
    tell_crowded(p, s, n);
    TL_TRY(put_floats(s, TLI_TRUTH_BOXES, TL_SHAPE(room, 4), made, NULL, n));
    TL_TRY(put_ints(s, TLI_TRUTH_CLASSES, room, classes->data, NULL, n, -1));
    TL_TRY(put_areas(s, room, made, n));
    TL_TRY(put_crowds(s, room));
    TL_TRY(put_int(s, TLI_TRUTH_COUNT, tl_min_i64(n, room)));
    TL_TRY(put_int(s, TLI_TRUTH_HEIGHT, height));
    TL_TRY(put_int(s, TLI_TRUTH_WIDTH, width));
    return p->masks ? put_masks(s, room) : TL_OK;
}

/* --- pictures --------------------------------------------------------------------------------- */

/* Every choice has a stream of its own: none of them says anything about another. */
static tl_status change(const plan *p, tli_picture *image, objects *o, const tl_rng *rng,
                        bool *mirror)
{
    const tl_detection_parser *c = p->parser;
    tl_rng own;
    TL_TRY(tli_detection_augment(&c->aug_type, image, (tl_image_boxes){o->boxes, o->count}, rng));
    if (c->aug_rand_jpeg) TL_TRY(tli_detection_lose_quality(c->aug_rand_jpeg, image, rng));
    tl_rng_split(&own, rng, "flip");
    *mirror = c->aug_rand_hflip && tl_rng_below(&own, 2) == 1;
    if (*mirror) flip_boxes(o);
    return TL_OK;
}

static tl_status put_image(plan *p, tl_sample *s, tli_picture *image, objects *o, const tl_rng *rng)
{
    const view *v = &p->view;
    bool mirror = false;
    tli_frame f;
    if (p->training) TL_TRY(change(p, image, o, rng, &mirror));
    TL_TRY(tli_frame_choose(&f, &v->framing, image->pixels.height, image->pixels.width,
                            p->training ? rng : NULL));
    float *out =
        tl_sample_add(s, TLI_DETECTION_IMAGE, TL_F32,
                      TL_SHAPE(v->framing.padded_height, v->framing.padded_width, CHANNELS));
    float *info = tl_sample_add(s, TLI_DETECTION_INFO, TL_F32, TL_SHAPE(4, 2));
    if (!out || !info) return tl_error_code();
    TL_TRY(tli_frame_image(&f, out, &image->pixels, mirror, v->mean, v->stddev));
    tli_frame_info(&f, info);
    frame_objects(o, &f);
    return put_objects(p, s, o);
}

static tl_status map_example(void *self, tl_sample *s)
{
    plan *p = self;
    const tl_sample_field *f;
    tli_picture image;
    objects o;
    tl_rng rng;
    tl_sample_rng(s, &rng);
    TL_TRY(tl_sample_get(s, TLI_DETECTION_IMAGE, &f));
    TL_TRY(get_objects(p, &o, s));
    TL_TRY(tli_picture_open(&image, f, CHANNELS, false));
    tl_status st = TL_OK;
    if (p->truth) st = put_truth(p, s, image.pixels.height, image.pixels.width);
    if (st == TL_OK) st = put_image(p, s, &image, &o, &rng);
    tli_picture_close(&image);
    TL_TRY(st);
    if (p->named)
        TL_TRY(tli_image_add_name(s, p->data->file_type == TL_DETECTION_SYNTHETIC ? TLI_MADE_UP
                                                                                  : TLI_IN_RECORD));
    tl_sample_keep(s, p->kept, p->kept_count);
    return TL_OK;
}

/* --- one picture ------------------------------------------------------------------------------ */

static tl_status prepare(float *image, float info[TLI_FRAME_INFO], const view *v, tli_picture *p)
{
    tli_frame f;
    tl_status st = tli_frame_choose(&f, &v->framing, p->pixels.height, p->pixels.width, NULL);
    if (st == TL_OK) st = tli_frame_image(&f, image, &p->pixels, false, v->mean, v->stddev);
    if (st == TL_OK) tli_frame_info(&f, info);
    tli_picture_close(p);
    return st;
}

tl_status tl_detection_prepare(float *image, float image_info[8],
                               const tl_detection_data_config *data, tl_ints size,
                               int64_t max_level, const void *file, size_t bytes, bool of_data)
{
    const tl_sample_field f = {.dtype = TL_U8, .shape = TL_SHAPE((int64_t)bytes), .data = file};
    view v;
    tli_picture p;
    TL_TRY(make_view(&v, data, size, max_level));
    TL_TRY(tli_picture_open(&p, &f, CHANNELS, !of_data));
    return prepare(image, image_info, &v, &p);
}

tl_status tl_detection_image_info(float image_info[8], const tl_detection_data_config *data,
                                  tl_ints size, int64_t max_level, int64_t height, int64_t width)
{
    view v;
    tli_frame f;
    TL_TRY(make_view(&v, data, size, max_level));
    TL_TRY(tli_frame_choose(&f, &v.framing, height, width, NULL));
    tli_frame_info(&f, image_info);
    return TL_OK;
}

tl_status tl_detection_prepare_pixels(float *image, float image_info[8],
                                      const tl_detection_data_config *data, tl_ints size,
                                      int64_t max_level, tl_shape shape, const void *pixels)
{
    view v;
    tli_picture p;
    TL_TRY(make_view(&v, data, size, max_level));
    TL_TRY(tli_picture_open_pixels(&p, shape, pixels, CHANNELS));
    return prepare(image, image_info, &v, &p);
}

/* --- made-up pictures ------------------------------------------------------------------------- */

static tl_status put_shapes(const plan *p, tl_sample *out, const tli_shapes *made, int64_t index)
{
    enum { SIDE = TLI_SHAPES_SIDE };
    int64_t n = made->count;
    uint8_t *pixels = tl_sample_add(out, TLI_DETECTION_IMAGE, TL_U8, TL_SHAPE(SIDE, SIDE, 3));
    float *boxes = tl_sample_add(out, TLI_DETECTION_BOXES, TL_F32, TL_SHAPE(n, 4));
    int32_t *classes = tl_sample_add(out, TLI_DETECTION_CLASSES, TL_I32, TL_SHAPE(n));
    int32_t *crowds = tl_sample_add(out, TLI_TRUTH_CROWDS, TL_I32, TL_SHAPE(0));
    float *areas = tl_sample_add(out, TLI_TRUTH_AREAS, TL_F32, TL_SHAPE(n));
    int64_t *id = tl_sample_add(out, TLI_TRUTH_SOURCE_ID, TL_I64, TL_SCALAR);
    if (!pixels || !boxes || !classes || !crowds || !areas || !id) return tl_error_code();
    memcpy(pixels, made->pixels, sizeof made->pixels);
    memcpy(classes, made->classes, (size_t)n * sizeof *classes);
    for (int64_t i = 0; i < n; i++) {
        areas[i] = (float)made->areas[i];
        for (int k = 0; k < 4; k++) boxes[4 * i + k] = made->boxes[i][k] / SIDE;
    }
    *id = index + 1;
    if (!p->masks) return TL_OK;
    uint8_t *masks = tl_sample_add(out, TLI_TRUTH_MASKS, TL_U8, TL_SHAPE(n, SIDE, SIDE));
    if (!masks) return tl_error_code();
    memcpy(masks, made->masks, (size_t)n * sizeof made->masks[0]);
    return TL_OK;
}

static tl_status make_shapes(void *self, int64_t index, tl_sample *out)
{
    const plan *p = self;
    tli_shapes *made = tl_sample_scratch(out, sizeof *made);
    if (!made) return tl_error_code();
    tli_shapes_make(made, p->truth ? TLI_SHAPES_VALIDATION : TLI_SHAPES_TRAIN, index);
    return put_shapes(p, out, made, index);
}

/* --- the pipeline ----------------------------------------------------------------------------- */

static tl_status read_sources(tl_pipeline_args *a, const tl_detection_inputs_args *args, plan *p)
{
    const tl_detection_data_config *d = args->data;
    if (d->file_type == TL_DETECTION_SYNTHETIC) {
        if (p->decoder.attribute_count)
            return TL_FAIL(TL_EINVAL, "attribute_names: objects of file_type synthetic have none");
        return tli_image_read_made_up(a, &d->base, &args->input, make_shapes, p,
                                      d->synthetic_examples, args->arena);
    }
    a->decode = (tl_sample_map){tli_detection_decode, &p->decoder};
    return tl_pipeline_args_read(a, args->arena, &d->base,
                                 &(tl_pipeline_reader){.pipelines = args->input.pipelines,
                                                       .pipeline = args->input.pipeline,
                                                       .replicas = args->input.replicas,
                                                       .seed = args->input.seed,
                                                       .weights = d->weights,
                                                       .section = p->section});
}

static void keep(plan *p, const char *name)
{
    TL_ASSERT(p->kept_count < TL_SAMPLE_FIELDS);
    p->kept[p->kept_count++] = name;
}

/* Fields of batches. */
static void choose_fields(plan *p)
{
    static const char *const always[] = {TLI_DETECTION_IMAGE, TLI_DETECTION_BOXES,
                                         TLI_DETECTION_CLASSES, TLI_DETECTION_INFO};
    static const char *const truth[] = {TLI_TRUTH_BOXES,  TLI_TRUTH_CLASSES,   TLI_TRUTH_AREAS,
                                        TLI_TRUTH_CROWDS, TLI_TRUTH_SOURCE_ID, TLI_TRUTH_COUNT,
                                        TLI_TRUTH_HEIGHT, TLI_TRUTH_WIDTH};
    for (int64_t i = 0; i < TL_COUNT(always); i++) keep(p, always[i]);
    for (int64_t i = 0; i < p->decoder.attribute_count; i++) keep(p, p->decoder.fields[i]);
    for (int64_t i = 0; p->truth && i < TL_COUNT(truth); i++) keep(p, truth[i]);
    if (p->masks) keep(p, TLI_TRUTH_MASKS);
    if (p->named) keep(p, TL_BATCH_NAME);
}

tl_status tl_detection_inputs(tl_dataset **out, const tl_detection_inputs_args *args)
{
    const tl_detection_data_config *d = args->data;
    *out = NULL;
    plan *p = tl_arena_alloc(args->arena, sizeof *p);
    if (!p) return TL_ENOMEM;
    *p = (plan){.data = d,
                .parser = &d->parser,
                .training = d->base.is_training.set && d->base.is_training.value,
                .truth = args->evaluation,
                .masks = args->evaluation && args->include_mask,
                .named = args->name_examples,
                .num_classes = args->num_classes,
                .section = args->evaluation ? "task.validation_data" : "task.train_data"};
    TL_TRY(make_view(&p->view, d, args->size, args->max_level));
    TL_TRY(
        tli_detection_decoder_open(&p->decoder, &d->decoder, args->attribute_sizes, args->arena));
    p->decoder.truth = p->truth;
    p->decoder.masks = p->masks;
    p->decoder.filenames = p->named;
    p->decoder.keep_pixels = d->base.cache;
    choose_fields(p);
    if (d->base.global_batch_size < 1)
        return TL_FAIL(TL_EINVAL, "global_batch_size is 0: set it in %s", p->section);
    const tl_sample_map map = {map_example, p};
    tl_pipeline_args a = {
        .maps = &map, .map_count = 1, .threads = args->threads, .padded = p->masks};
    TL_TRY(read_sources(&a, args, p));
    return tl_pipeline_new(out, &a);
}
