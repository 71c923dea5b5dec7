/* Pictures of batches, for summaries. */
#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>

#include "core/inner/element.h"
#include "data/draw_impl.h"

/* Of ImageNet's pixels. */
static const float usual_mean[3] = {0.485f * 255, 0.456f * 255, 0.406f * 255};
static const float usual_deviation[3] = {0.229f * 255, 0.224f * 255, 0.225f * 255};

enum { USUAL_BOXES = 20 };
#define USUAL_SCORE 0.2

/* --- images ----------------------------------------------------------------------------------- */

static uint8_t byte_of(double x)
{
    return x >= 255 ? 255 : x > 0 ? (uint8_t)x : 0;
}

static void take_images(uint8_t *out, const tl_tensor *images, const void *elements, int64_t pixels,
                        const tl_draw_batch_args *args)
{
    const float *mean = args->mean ? args->mean : usual_mean;
    const float *deviation = args->deviation ? args->deviation : usual_deviation;
    int64_t channels = images->shape.dims[3];
    for (int64_t i = 0; i < pixels; i++)
        for (int64_t c = 0; c < 3; c++) {
            double x =
                tli_element_get(images->dtype, elements, i * channels + (channels == 1 ? 0 : c));
            bool plain = images->dtype == TL_U8;
            out[3 * i + c] = byte_of(plain ? x : x * (double)deviation[c] + (double)mean[c]);
        }
}

static tl_status check_images(const tl_tensor *images, const tl_draw_batch_args *args)
{
    char text[TL_TENSOR_TEXT];
    bool good =
        images->shape.rank == 4 && (images->shape.dims[3] == 1 || images->shape.dims[3] == 3);
    if (!good)
        return TL_FAIL(TL_EINVAL,
                       "images must be [batch, height, width, 1 or 3] to be drawn on, not %s",
                       tl_tensor_spec(text, images));
    if (!args->mean != !args->deviation)
        return TL_FAIL(TL_EINVAL, "images to be drawn on have a mean and a deviation, or neither");
    return TL_OK;
}

// The images of a batch, as bytes; pictures are drawn upon them.
static tl_status begin(tl_tensor **out, const tl_tensor *images, const tl_draw_batch_args *args)
{
    const int64_t *d = images->shape.dims;
    tl_lease in, to;
    *out = NULL;
    TL_TRY(check_images(images, args));
    int64_t count = args->pictures > 0 ? tl_min_i64(args->pictures, d[0]) : d[0];
    TL_TRY(tl_tensor_new_at(out, tl_tensor_engine(images), TL_AT_HOST, TL_U8,
                            TL_SHAPE(count, d[1], d[2], 3)));
    tl_status st = tl_lease_read(&in, images);
    if (st == TL_OK) {
        st = tl_lease_discard(&to, *out);
        if (st == TL_OK) {
            take_images(to.data, images, in.data, count * d[1] * d[2], args);
            st = tl_lease_end(&to);
        }
        tl_lease_drop(&in);
    }
    if (st != TL_OK) tl_tensor_free(out);
    return st;
}

static tl_pixels picture_at(const tl_tensor *pictures, uint8_t *data, int64_t index)
{
    const int64_t *d = pictures->shape.dims;
    return tl_pixels_new(TL_U8, d[1], d[2], 3, data + index * d[1] * d[2] * 3);
}

/* --- detections ------------------------------------------------------------------------------- */

typedef struct found {
    tl_lease boxes, classes, scores;
} found;

static void drop(found *f)
{
    tl_lease_drop(&f->boxes);
    tl_lease_drop(&f->classes);
    tl_lease_drop(&f->scores);
}

static double number_at(const tl_lease *l, int64_t index)
{
    return tli_element_get(l->tensor->dtype, l->data, index);
}

static void draw_one(const tl_pixels *p, const found *f, int64_t place,
                     const tl_draw_batch_args *args)
{
    char text[64];
    double score = number_at(&f->scores, place), box[4];
    double least = args->score.set ? args->score.value : USUAL_SCORE;
    // In float32, so that a score of 0.2 is not above 0.2.
    if (!((float)score > (float)least)) return;
    double number = number_at(&f->classes, place);
    int64_t class_number = number >= 0 && number < 1e9 ? (int64_t)number : 0;
    int percent = score < 1 ? (int)(100 * score) : 100;
    for (int i = 0; i < 4; i++) box[i] = number_at(&f->boxes, 4 * place + i);
    if (class_number < args->names.count)
        snprintf(text, sizeof text, "%.48s: %d%%", args->names.items[class_number], percent);
    else snprintf(text, sizeof text, "%" PRId64 ": %d%%", class_number, percent);
    tl_draw_box(p, box, tl_draw_color(class_number), text);
}

static tl_status check_found(const tl_tensor *images, const tl_tensor *boxes,
                             const tl_tensor *classes, const tl_tensor *scores)
{
    char a[TL_TENSOR_TEXT], b[TL_TENSOR_TEXT], c[TL_TENSOR_TEXT];
    int64_t batch = images->shape.dims[0], places = boxes->shape.dims[1];
    const tl_shape want = TL_SHAPE(batch, places, 4), flat = TL_SHAPE(batch, places);
    if (tl_shape_equal(&boxes->shape, &want) && tl_shape_equal(&classes->shape, &flat)
        && tl_shape_equal(&scores->shape, &flat))
        return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "detections to be drawn are boxes [batch, places, 4], classes and scores "
                   "[batch, places] of %" PRId64 " images, not %s, %s and %s",
                   batch, tl_tensor_spec(a, boxes), tl_tensor_spec(b, classes),
                   tl_tensor_spec(c, scores));
}

static tl_status draw_found(tl_tensor *pictures, const found *f, const tl_draw_batch_args *args)
{
    int64_t places = f->classes.tensor->shape.dims[1];
    int64_t most = tl_min_i64(places, args->boxes > 0 ? args->boxes : USUAL_BOXES);
    tl_lease to;
    TL_TRY(tl_lease_write(&to, pictures));
    for (int64_t i = 0; i < pictures->shape.dims[0]; i++) {
        tl_pixels p = picture_at(pictures, to.data, i);
        // The best come first, and are drawn above the others.
        for (int64_t k = most - 1; k >= 0; k--) draw_one(&p, f, i * places + k, args);
    }
    return tl_lease_end(&to);
}

tl_status tl_draw_detections(tl_tensor **out, const tl_tensor *images, const tl_tensor *boxes,
                             const tl_tensor *classes, const tl_tensor *scores,
                             const tl_draw_batch_args *args)
{
    found f = {0};
    tl_status st;
    TL_TRY(begin(out, images, args));
    TL_TRY_DONE(st, check_found(images, boxes, classes, scores));
    TL_TRY_DONE(st, tl_lease_read(&f.boxes, boxes));
    TL_TRY_DONE(st, tl_lease_read(&f.classes, classes));
    TL_TRY_DONE(st, tl_lease_read(&f.scores, scores));
    st = draw_found(*out, &f, args);
done:
    drop(&f);
    if (st != TL_OK) tl_tensor_free(out);
    return st;
}

/* --- classes of pixels ------------------------------------------------------------------------ */

static int64_t likeliest(const tl_lease *logits, int64_t begin_at, int64_t classes)
{
    int64_t best = 0;
    double most = number_at(logits, begin_at);
    for (int64_t c = 1; c < classes; c++) {
        double x = number_at(logits, begin_at + c);
        if (!(x > most)) continue;
        most = x;
        best = c;
    }
    return best;
}

// The row of `from` that is nearest to row y of `to`.
static int64_t nearest(int64_t y, int64_t from, int64_t to)
{
    return (2 * y + 1) * from / (2 * to);
}

static void draw_map(const tl_pixels *p, const uint8_t *classes, int64_t height, int64_t width,
                     uint8_t *room)
{
    for (int64_t y = 0; y < p->height; y++)
        for (int64_t x = 0; x < p->width; x++)
            room[y * p->width + x] =
                classes[nearest(y, height, p->height) * width + nearest(x, width, p->width)];
    tl_draw_classes(p, room, -1, TL_DRAW_ALPHA);
}

static tl_status draw_maps(tl_tensor *pictures, const tl_lease *logits)
{
    const int64_t *d = logits->tensor->shape.dims, *size = pictures->shape.dims;
    int64_t places = d[1] * d[2];
    tl_lease to;
    size_t bytes = (size_t)(places + size[1] * size[2]);
    uint8_t *classes = tl_alloc(bytes);
    if (!classes) return TL_FAIL_NOMEM(bytes);
    tl_status st = tl_lease_write(&to, pictures);
    for (int64_t i = 0; st == TL_OK && i < size[0]; i++) {
        tl_pixels p = picture_at(pictures, to.data, i);
        for (int64_t k = 0; k < places; k++)
            classes[k] = (uint8_t)likeliest(logits, (i * places + k) * d[3], d[3]);
        draw_map(&p, classes, d[1], d[2], classes + places);
    }
    if (st == TL_OK) st = tl_lease_end(&to);
    tl_free(classes);
    return st;
}

tl_status tl_draw_segmentation(tl_tensor **out, const tl_tensor *images, const tl_tensor *logits,
                               const tl_draw_batch_args *args)
{
    enum { MOST_CLASSES = 256 };
    char text[TL_TENSOR_TEXT];
    const int64_t *d = logits->shape.dims;
    tl_lease l;
    TL_TRY(begin(out, images, args));
    tl_status st = TL_OK;
    if (logits->shape.rank != 4 || d[0] != images->shape.dims[0] || d[1] < 1 || d[2] < 1 || d[3] < 1
        || d[3] > MOST_CLASSES)
        st = TL_FAIL(TL_EINVAL,
                     "logits to be drawn are [batch, height, width, classes] of %" PRId64
                     " images and at most %d classes, not %s",
                     images->shape.dims[0], MOST_CLASSES, tl_tensor_spec(text, logits));
    if (st == TL_OK) st = tl_lease_read(&l, logits);
    if (st == TL_OK) {
        st = draw_maps(*out, &l);
        tl_lease_drop(&l);
    }
    if (st != TL_OK) tl_tensor_free(out);
    return st;
}

/* --- logs ------------------------------------------------------------------------------------- */

tl_status tl_draw_log(tl_logs *logs, const char *name, const tl_tensor *pictures)
{
    const int64_t *d = pictures->shape.dims;
    tl_str key = TL_STR_INIT;
    tl_status st = TL_OK;
    for (int64_t i = 0; st == TL_OK && i < d[0]; i++) {
        tl_tensor *one;
        tl_str_cut(&key, 0);
        tl_str_addf(&key, "%s/%" PRId64, name, i);
        TL_TRY_DONE(st, tl_str_status(&key));
        TL_TRY_DONE(st, tl_tensor_part(&one, pictures, i * d[1] * d[2] * d[3],
                                       TL_SHAPE(1, d[1], d[2], d[3])));
        st = tl_logs_put_any(logs, tl_str_text(&key), one);
        tl_tensor_free(&one);
    }
done:
    tl_str_deinit(&key);
    return st;
}
