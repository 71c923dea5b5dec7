#include "zoo/vision/image_report.h"

#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>

#include "train/inner/show_example.h"

enum { MOST_IMAGES = 16 };

#define IMAGES "report/image"
#define LABELS "report/label"
#define ANSWERS "report/answer"
#define WEIGHTS "report/weight"

typedef struct wrong {
    int64_t label, answer;
} wrong;
typedef struct report {
    int64_t count;
    tl_shape shape; /* of one image */
    wrong items[MOST_IMAGES];
    uint8_t *pixels;
} report;

tl_status tli_report_step(tl_step *s, tl_tensor *labels, tl_tensor *logits)
{
    tl_ctx *c = s->ctx;
    tl_tensor *image = tl_batch_get(s->batch, "image"), *weight = tl_step_parts(s)->weight;
    if (labels && logits && labels->shape.rank == logits->shape.rank)
        labels = tl_argmax(c, labels, -1, false);
    tl_step_log(s, IMAGES, tl_cast(c, image, TL_F32));
    tl_step_log(s, LABELS, tl_cast(c, labels, TL_I64));
    tl_step_log(s, ANSWERS, tl_cast(c, tl_argmax(c, logits, -1, false), TL_I64));
    if (weight) tl_step_log(s, WEIGHTS, tl_cast(c, weight, TL_F32));
    return tl_ctx_status(c);
}

static tl_status make_room(report *r, const tl_tensor *images)
{
    r->shape = TL_SHAPE(images->shape.dims[1], images->shape.dims[2], images->shape.dims[3]);
    size_t bytes = (size_t)tl_shape_count(&r->shape) * MOST_IMAGES;
    r->pixels = tl_alloc(bytes);
    return r->pixels ? TL_OK : TL_FAIL_NOMEM(bytes);
}

/* `weights` may be NULL: all examples count. */
static tl_status take(report *r, const tl_tensor *images, const tl_tensor *labels,
                      const tl_tensor *answers, const tl_tensor *weights)
{
    tl_lease pixels = {0}, truth = {0}, given = {0}, weight = {0};
    int64_t each = tl_shape_count(&r->shape);
    tl_status st;
    TL_TRY_DONE(st, tl_lease_read(&pixels, images));
    TL_TRY_DONE(st, tl_lease_read(&truth, labels));
    TL_TRY_DONE(st, tl_lease_read(&given, answers));
    if (weights) TL_TRY_DONE(st, tl_lease_read(&weight, weights));
    const int64_t *y = truth.data, *o = given.data;
    const float *w = weight.data;
    for (int64_t i = 0; i < images->shape.dims[0] && r->count < MOST_IMAGES; i++) {
        if (y[i] == o[i] || (w && w[i] == 0)) continue;
        tli_pixels_of_floats(r->pixels + r->count * each, (const float *)pixels.data + i * each,
                             each);
        r->items[r->count++] = (wrong){y[i], o[i]};
    }
done:
    tl_lease_drop(&pixels);
    tl_lease_drop(&truth);
    tl_lease_drop(&given);
    tl_lease_drop(&weight);
    return st;
}

tl_status tli_report_keep(void **state, const tl_logs *step)
{
    tl_logs_entry images, labels, answers, weights;
    report *r = *state;
    if (r && r->count == MOST_IMAGES) return TL_OK;
    if (!tl_logs_find(&images, step, IMAGES) || !tl_logs_find(&labels, step, LABELS)
        || !tl_logs_find(&answers, step, ANSWERS) || images.tensor->shape.rank != 4)
        return TL_OK;
    if (!r) {
        *state = r = tl_alloc_zero(sizeof *r);
        if (!r) return TL_FAIL_NOMEM(sizeof *r);
        TL_TRY(make_room(r, images.tensor));
    }
    bool weighted = tl_logs_find(&weights, step, WEIGHTS);
    return take(r, images.tensor, labels.tensor, answers.tensor, weighted ? weights.tensor : NULL);
}

static void add_name(tl_str *text, tl_strings names, int64_t class_id)
{
    if (class_id >= 0 && class_id < names.count) tl_str_add(text, names.items[class_id]);
    else tl_str_addf(text, "%lld", (long long)class_id);
}

static tl_status tell_text(const report *r, tl_strings names, tl_logs *into)
{
    tl_str text = TL_STR_INIT;
    for (int64_t i = 0; i < r->count; i++) {
        tl_str_addf(&text, "%s%lld: ", i ? "\n" : "", (long long)i);
        add_name(&text, names, r->items[i].label);
        tl_str_add(&text, ", taken for ");
        add_name(&text, names, r->items[i].answer);
    }
    tl_status st = tl_str_status(&text);
    if (st == TL_OK) st = tl_logs_put_text(into, "misclassified", tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

tl_status tli_report_tell(tl_engine *engine, void *state, tl_strings names, tl_logs *into)
{
    const report *r = state;
    const int64_t *d = r->shape.dims;
    tl_tensor *images;
    if (!r->count) return TL_OK;
    TL_TRY(tl_tensor_new(&images, engine, TL_U8, TL_SHAPE(r->count, d[0], d[1], d[2])));
    tl_status st = tl_tensor_set(images, r->pixels, (size_t)(r->count * tl_shape_count(&r->shape)));
    if (st == TL_OK) st = tl_logs_put_any(into, "image/misclassified", images);
    if (st == TL_OK) st = tell_text(r, names, into);
    tl_tensor_free(&images);
    return st;
}

void tli_report_free(void *state)
{
    if (!state) return;
    tl_free(((report *)state)->pixels);
    tl_free(state);
}
