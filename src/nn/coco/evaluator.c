#include <tilth/nn/coco_evaluator.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>
#include <tilth/base/log.h>

static const tl_field fields[] = {
    TL_F(tl_coco_evaluator_config, annotation_file, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "COCO's JSON file; null: the ground truth of the batches"),
    TL_F(tl_coco_evaluator_config, include_mask, .help = "evaluate masks too"),
    TL_F(tl_coco_evaluator_config, per_category_metrics, .help = "tell the numbers by category"),
    TL_F(tl_coco_evaluator_config, max_num_eval_detections, .i = 100, TL_RANGE(1, INT32_MAX),
         .help = "detections of an image and category that count, best first"),
    TL_F(tl_coco_evaluator_config, need_rescale_bboxes, TL_FILLED, .b = true,
         .help = "divide boxes by the scale in image_info"),
    TL_F_END,
};
const tl_desc tl_coco_evaluator_desc = {
    .name = "coco_evaluator",
    .help = "average precision of detections, as COCO defines it",
    .size = sizeof(tl_coco_evaluator_config),
    .fields = fields,
};

static tl_status build(tl_evaluator *base)
{
    tl_coco_evaluator *e = (tl_coco_evaluator *)base;
    const tl_coco_evaluator_config *c = base->config;
    TL_TRY(tl_coco_set_new(&e->found));
    if (!c->annotation_file) return tl_coco_set_new(&e->truths);
    return tl_coco_read(&e->truths, c->annotation_file, c->include_mask);
}

static void dispose(tl_evaluator *base)
{
    tl_coco_evaluator *e = (tl_coco_evaluator *)base;
    tl_coco_set_free(&e->found);
    tl_coco_set_free(&e->truths);
}

static void reset(tl_evaluator *base)
{
    tl_coco_evaluator *e = (tl_coco_evaluator *)base;
    tl_coco_clear(e->found);
    if (!((const tl_coco_evaluator_config *)base->config)->annotation_file)
        tl_coco_clear(e->truths);
}

/* --- batches ---------------------------------------------------------------------------------- */

/* A tensor on the host, as doubles. */
typedef struct array {
    double *items;
    tl_shape shape;
} array;

/* The shape that a tensor must have; 0 stands for any number. */
static bool fits(const tl_shape *shape, const int64_t *dims, int rank)
{
    // A number for each image may also be a list of one.
    bool listed = rank == 1 && shape->rank == 2 && shape->dims[1] == 1;
    if (shape->rank != rank && !listed) return false;
    for (int i = 0; i < rank; i++)
        if (dims[i] && shape->dims[i] != dims[i]) return false;
    return true;
}

static tl_status read_array(array *out, tl_arena *arena, const tl_tensors *from, const char *what,
                            const char *name, const int64_t *dims, int rank)
{
    const tl_tensor *t = tl_tensors_peek(from, name);
    char spec[TL_TENSOR_TEXT], wanted[TL_SHAPE_TEXT];
    if (!t) return TL_FAIL(TL_ENOTFOUND, "the %s have no '%s'", what, name);
    if (!fits(&t->shape, dims, rank)) {
        tl_shape shape = {.rank = rank};
        for (int i = 0; i < rank; i++) shape.dims[i] = dims[i];
        return TL_FAIL(TL_EINVAL, "'%s' of the %s is %s, not %s (0: any number)", name, what,
                       tl_tensor_spec(spec, t), tl_shape_text(wanted, &shape));
    }
    int64_t count = tl_tensor_count(t);
    out->shape = t->shape;
    out->items = tl_arena_array(arena, count + 1, sizeof *out->items);
    if (!out->items) return TL_ENOMEM;
    return tl_tensor_get_doubles(t, out->items, count);
}

/* The batch that is taken in. */
typedef struct batch {
    tl_coco_evaluator *e;
    const tl_coco_evaluator_config *config;
    tl_arena *arena;
    const tl_tensors *from;
    const char *what;      /* in messages */
    int64_t count, places; /* images, and objects of each */
    array ids, used, boxes, classes, weights;
} batch;

#define READ(b, into, name, ...)                                                                   \
    TL_TRY(read_array((into), (b)->arena, (b)->from, (b)->what, (name), (int64_t[]){__VA_ARGS__},  \
                      (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))))

static const double MOST_ID = 9007199254740992; /* whole numbers up to it are exact */

/* Numbers of tensors may be anything. */
static int64_t whole(double value)
{
    return isnan(value) ? 0 : (int64_t)fmin(fmax(value, -MOST_ID), MOST_ID);
}

static tl_status check_ids(const array *ids)
{
    for (int64_t i = 0; i < tl_shape_count(&ids->shape); i++)
        if (!(fabs(ids->items[i]) < MOST_ID))
            return TL_FAIL(TL_EINVAL, "source_id is %g: ids are below 2^53", ids->items[i]);
    return TL_OK;
}

static tl_status read_common(batch *b, const char *boxes, const char *classes)
{
    READ(b, &b->ids, "source_id", 0);
    TL_TRY(check_ids(&b->ids));
    b->count = b->ids.shape.dims[0];
    READ(b, &b->used, "num_detections", b->count);
    READ(b, &b->boxes, boxes, b->count, 0, 4);
    b->places = b->boxes.shape.dims[1];
    READ(b, &b->classes, classes, b->count, b->places);
    if (tl_tensors_peek(b->from, "weight")) READ(b, &b->weights, "weight", b->count);
    return TL_OK;
}

/* What only fills up a batch is no image. */
static bool fills_up(const batch *b, int64_t image)
{
    return b->weights.items && b->weights.items[image] == 0;
}

/* How many of an image's places are used. */
static int64_t used_of(const batch *b, int64_t image)
{
    return tl_clamp_i64(whole(b->used.items[image]), 0, b->places);
}

/* From ymin, xmin, ymax, xmax, with the roundings of the original. */
static void set_box(float out[4], const double *corners, const double scale[2])
{
    float top = (float)corners[0] / (float)scale[0], left = (float)corners[1] / (float)scale[1];
    out[0] = left;
    out[1] = top;
    out[2] = (float)corners[3] / (float)scale[1] - left;
    out[3] = (float)corners[2] / (float)scale[0] - top;
}

static const double no_scale[2] = {1, 1};

static tl_coco_object make_object(const batch *b, int64_t image, int64_t at, const float box[4])
{
    tl_coco_object o = {.image = whole(b->ids.items[image]),
                        .category = whole(b->classes.items[at]),
                        .area = box[2] * box[3]};
    for (int i = 0; i < 4; i++) o.box[i] = box[i];
    return o;
}

/* --- ground truth ----------------------------------------------------------------------------- */

typedef struct truth_batch {
    batch b;
    array heights, widths, crowds, areas, masks;
} truth_batch;

static tl_status read_truths(truth_batch *t)
{
    batch *b = &t->b;
    TL_TRY(read_common(b, "boxes", "classes"));
    READ(b, &t->heights, "height", b->count);
    READ(b, &t->widths, "width", b->count);
    if (tl_tensors_peek(b->from, "is_crowds"))
        READ(b, &t->crowds, "is_crowds", b->count, b->places);
    if (tl_tensors_peek(b->from, "areas")) READ(b, &t->areas, "areas", b->count, b->places);
    if (b->config->include_mask) READ(b, &t->masks, "masks", b->count, b->places, 0, 0);
    return TL_OK;
}

static tl_status read_mask(tl_rle *out, const truth_batch *t, int64_t image, int64_t at)
{
    int64_t rows = t->masks.shape.dims[2], columns = t->masks.shape.dims[3];
    int64_t height = whole(t->heights.items[image]), width = whole(t->widths.items[image]);
    if (height > rows || width > columns)
        return TL_FAIL(TL_EINVAL,
                       "'masks' has %" PRId64 " x %" PRId64 " pixels, but the image has %" PRId64
                       " x %" PRId64,
                       rows, columns, height, width);
    const double *values = t->masks.items + at * rows * columns;
    int64_t count = height > 0 && width > 0 ? height * width : 0;
    uint8_t *pixels = tl_alloc((size_t)count);
    if (!pixels) return TL_FAIL_NOMEM((size_t)count);
    for (int64_t i = 0; i < count; i++) pixels[i] = values[i / width * columns + i % width] != 0;
    tl_status st = tl_rle_from_pixels(out, pixels, height, width);
    tl_free(pixels);
    return st;
}

/* Without a file categories are those that occur. */
static tl_status add_category(tl_coco_set *truths, int64_t id)
{
    for (int64_t i = 0; i < truths->categories.count; i++)
        if (truths->categories.items[i].id == id) return TL_OK;
    return tl_coco_add_category(truths, id, NULL);
}

static tl_status add_truths_of(const truth_batch *t, int64_t image)
{
    const batch *b = &t->b;
    tl_coco_set *truths = b->e->truths;
    if (b->used.items[image] > (double)b->places)
        TL_LOG_EVERY_S(TL_LEVEL_WARNING, 60,
                       "image %" PRId64 " has %.0f objects, but there is room for %" PRId64
                       ": the others are not evaluated (an annotation_file has all)",
                       whole(b->ids.items[image]), b->used.items[image], b->places);
    TL_TRY(tl_coco_add_image(truths, &(tl_coco_image){.id = whole(b->ids.items[image])}));
    for (int64_t k = 0; k < used_of(b, image); k++) {
        int64_t at = image * b->places + k;
        float box[4];
        set_box(box, b->boxes.items + 4 * at, no_scale);
        tl_coco_object o = make_object(b, image, at, box);
        o.crowd = t->crowds.items && t->crowds.items[at] != 0;
        TL_TRY(add_category(truths, o.category));
        if (b->config->include_mask) TL_TRY(read_mask(&o.mask, t, image, at));
        if (t->areas.items) o.area = t->areas.items[at];
        else if (o.mask.counts) o.area = (double)tl_rle_area(&o.mask);
        TL_TRY(tl_coco_add_object(truths, &o));
    }
    return TL_OK;
}

/* --- detections ------------------------------------------------------------------------------- */

typedef struct found_batch {
    batch b;
    array scores, info, masks, outer_boxes;
} found_batch;

static tl_status read_found(found_batch *f)
{
    batch *b = &f->b;
    const tl_coco_evaluator_config *c = b->config;
    TL_TRY(read_common(b, "detection_boxes", "detection_classes"));
    READ(b, &f->scores, "detection_scores", b->count, b->places);
    if (c->need_rescale_bboxes.value || c->include_mask)
        READ(b, &f->info, "image_info", b->count, 4, 2);
    if (!c->include_mask) return TL_OK;
    READ(b, &f->masks, "detection_masks", b->count, b->places, 0, 0);
    if (tl_tensors_peek(b->from, "detection_outer_boxes"))
        READ(b, &f->outer_boxes, "detection_outer_boxes", b->count, b->places, 4);
    return TL_OK;
}

static tl_status paste(tl_rle *out, const found_batch *f, int64_t image, int64_t at,
                       const float box[4])
{
    int64_t rows = f->masks.shape.dims[2], columns = f->masks.shape.dims[3];
    const double *values = f->masks.items + at * rows * columns, *info = f->info.items + 8 * image;
    float *probabilities = tl_alloc((size_t)(rows * columns) * sizeof *probabilities);
    if (!probabilities) return TL_FAIL_NOMEM((size_t)(rows * columns) * sizeof *probabilities);
    for (int64_t i = 0; i < rows * columns; i++) probabilities[i] = (float)values[i];
    bool sized =
        info[0] >= 1 && info[1] >= 1 && info[0] <= TL_RLE_LONGEST && info[1] <= TL_RLE_LONGEST;
    tl_status st =
        sized ? tl_rle_paste(out, probabilities, rows, columns, box, (int64_t)info[0],
                             (int64_t)info[1])
              : TL_FAIL(TL_EINVAL, "'image_info' has an image of %g x %g pixels", info[0], info[1]);
    tl_free(probabilities);
    return st;
}

static tl_status add_found_of(const found_batch *f, int64_t image)
{
    const batch *b = &f->b;
    tl_coco_set *found = b->e->found;
    const double *scale = no_scale;
    if (b->config->need_rescale_bboxes.value) scale = f->info.items + 8 * image + 4;
    TL_TRY(tl_coco_add_image(found, &(tl_coco_image){.id = whole(b->ids.items[image])}));
    for (int64_t k = 0; k < used_of(b, image); k++) {
        int64_t at = image * b->places + k;
        float box[4], outer[4];
        set_box(box, b->boxes.items + 4 * at, scale);
        tl_coco_object o = make_object(b, image, at, box);
        o.score = f->scores.items[at];
        if (f->outer_boxes.items) set_box(outer, f->outer_boxes.items + 4 * at, scale);
        if (b->config->include_mask) {
            TL_TRY(paste(&o.mask, f, image, at, f->outer_boxes.items ? outer : box));
            o.area = (double)tl_rle_area(&o.mask);
        }
        TL_TRY(tl_coco_add_object(found, &o));
    }
    return TL_OK;
}

static tl_status take_truths(tl_coco_evaluator *e, tl_arena *arena, const tl_tensors *from)
{
    truth_batch t = {{e, e->base.config, arena, from, "groundtruths", .count = 0}, .crowds = {0}};
    TL_TRY(read_truths(&t));
    for (int64_t i = 0; i < t.b.count; i++) {
        if (fills_up(&t.b, i)) continue;
        TL_TRY_NOTE(add_truths_of(&t, i), "groundtruths: image %.0f", t.b.ids.items[i]);
    }
    return TL_OK;
}

static tl_status take_found(tl_coco_evaluator *e, tl_arena *arena, const tl_tensors *from)
{
    found_batch f = {{e, e->base.config, arena, from, "predictions", .count = 0}, .info = {0}};
    TL_TRY(read_found(&f));
    for (int64_t i = 0; i < f.b.count; i++) {
        if (fills_up(&f.b, i)) continue;
        TL_TRY_NOTE(add_found_of(&f, i), "predictions: image %.0f", f.b.ids.items[i]);
    }
    return TL_OK;
}

static tl_status update(tl_evaluator *base, const tl_tensors *groundtruths,
                        const tl_tensors *predictions)
{
    tl_coco_evaluator *e = (tl_coco_evaluator *)base;
    const tl_coco_evaluator_config *c = base->config;
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = take_found(e, arena, predictions);
    if (st == TL_OK && !c->annotation_file) st = take_truths(e, arena, groundtruths);
    tl_arena_free(&arena);
    return st;
}

/* --- results ---------------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    const tl_coco_image *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* All images that came must be among those that are known. */
static tl_status check_images(const tl_coco_evaluator *e, const int64_t *came, int64_t count)
{
    size_t known = (size_t)e->truths->images.count, bytes = (known + 1) * sizeof(tl_coco_image);
    tl_coco_image *sorted = tl_alloc(bytes);
    tl_status st = TL_OK;
    if (!sorted) return TL_FAIL_NOMEM(bytes);
    for (size_t i = 0; i < known; i++) sorted[i] = e->truths->images.items[i];
    qsort(sorted, known, sizeof *sorted, by_id);
    for (int64_t i = 0; st == TL_OK && i < count; i++) {
        tl_coco_image key = {.id = came[i]};
        if (bsearch(&key, sorted, known, sizeof key, by_id)) continue;
        const char *file = ((const tl_coco_evaluator_config *)e->base.config)->annotation_file;
        st = TL_FAIL(TL_EINVAL,
                     "there are detections of image %" PRId64 ", which is not in %s: source_id of "
                     "the records must be the ids of that file",
                     came[i], file ? file : "the ground truth");
    }
    tl_free(sorted);
    return st;
}

static tl_status evaluate(tl_coco_result **out, const tl_coco_evaluator *e, const int64_t *images,
                          bool masks, tl_pool *pool)
{
    const tl_coco_evaluator_config *c = e->base.config;
    int64_t most = masks ? 100 : c->max_num_eval_detections;
    tl_coco_args args = {.masks = masks,
                         .max_detections = {1, tl_min_i64(10, most), most},
                         .per_category = c->per_category_metrics,
                         .images = images,
                         .image_count = e->found->images.count,
                         .pool = pool};
    TL_TRY(check_images(e, images, args.image_count));
    return tl_coco_evaluate(out, e->truths, e->found, &args);
}

tl_status tl_coco_evaluator_evaluate(tl_coco_result **out, const tl_coco_evaluator *e, bool masks)
{
    int64_t count = e->found->images.count;
    tl_pool *pool = NULL;
    *out = NULL;
    int64_t *images = tl_alloc((size_t)(count + 1) * sizeof *images);
    if (!images) return TL_FAIL_NOMEM((size_t)count * sizeof *images);
    for (int64_t i = 0; i < count; i++) images[i] = e->found->images.items[i].id;
    tl_status st = tl_pool_new(&pool, 0);
    if (st == TL_OK) st = evaluate(out, e, images, masks, pool);
    tl_pool_free(&pool);
    tl_free(images);
    return st;
}

/* What helps where numbers are lower than expected. */
static void explain(const tl_coco_result *r)
{
    TL_LOG_INFO("COCO: %" PRId64 " images, %" PRId64 " objects, %" PRId64 " crowds, %" PRId64
                " detections",
                r->images, r->objects, r->crowds, r->detections);
    if (r->strange)
        TL_LOG_WARNING("COCO: %" PRId64 " detections are of classes that no category of the ground "
                       "truth has, and are left out",
                       r->strange);
}

static tl_status put(tl_logs *into, const tl_coco_result *r, bool masks, int64_t most)
{
    static const char *const names[] = {
#define STAT_NAME(stat, name, category_name) name,
        TL_COCO_STAT_LIST(STAT_NAME)
#undef STAT_NAME
    };
    for (int i = 0; i < TL_COCO_STATS; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", masks ? "mask_" : "", names[i]);
        if (i == TL_COCO_AR)
            snprintf(name, sizeof name, "%s%s%" PRId64, masks ? "mask_" : "", names[i], most);
        TL_TRY(tl_logs_put(into, name, r->stats[i]));
    }
    return TL_OK;
}

static tl_status put_categories(tl_logs *into, const tl_coco_result *r, bool masks)
{
    static const char *const names[] = {
#define STAT_NAME(stat, name, category_name) category_name,
        TL_COCO_STAT_LIST(STAT_NAME)
#undef STAT_NAME
    };
    tl_str name = TL_STR_INIT;
    tl_status st = TL_OK;
    for (int64_t k = 0; k < r->category_count; k++) {
        for (int i = 0; st == TL_OK && i < TL_COCO_STATS; i++) {
            tl_str_cut(&name, 0);
            tl_str_addf(&name, "%s%s/%s", masks ? "mask " : "", names[i], r->categories[k].name);
            st = tl_str_status(&name);
            if (st == TL_OK) st = tl_logs_put(into, tl_str_text(&name), r->categories[k].stats[i]);
        }
    }
    tl_str_deinit(&name);
    return st;
}

static tl_status result(tl_evaluator *base, tl_logs *into)
{
    const tl_coco_evaluator *e = (const tl_coco_evaluator *)base;
    const tl_coco_evaluator_config *c = base->config;
    tl_coco_result *results[2] = {NULL, NULL};
    tl_status st = TL_OK;
    int kinds = c->include_mask ? 2 : 1;
    for (int i = 0; st == TL_OK && i < kinds; i++)
        st = tl_coco_evaluator_evaluate(&results[i], e, i == 1);
    if (st == TL_OK) explain(results[0]);
    for (int i = 0; st == TL_OK && i < kinds; i++)
        st = put(into, results[i], i == 1, c->max_num_eval_detections);
    for (int i = 0; st == TL_OK && i < kinds; i++) st = put_categories(into, results[i], i == 1);
    for (int i = 0; i < 2; i++) tl_coco_result_free(&results[i]);
    return st;
}

const tl_evaluator_class tl_coco_evaluator_class = {
    .cls = TL_CLASS(tl_evaluator_class, "coco_metric", NULL, tl_coco_evaluator,
                    &tl_coco_evaluator_desc,
                    .help = "average precision of detections, as COCO defines it"),
    .build = build,
    .update = update,
    .result = result,
    .reset = reset,
    .dispose = dispose,
};
