#include "zoo/vision/pixel_counts.h"

#include <math.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>

#include "zoo/vision/pixel_view.h"

struct tli_pixel_counts {
    int64_t classes;
    int64_t *cells; /* [classes][classes]: what it is, what was said */
    float *line;    /* [columns of the logits][classes]: between two rows */
    int64_t line_count;
};

tl_status tli_pixel_counts_new(tli_pixel_counts **out, int64_t num_classes)
{
    enum { MOST = 1 << 15 };
    *out = NULL;
    if (num_classes < 1 || num_classes > MOST)
        return TL_FAIL(TL_EINVAL, "there are %lld classes: 1 to %d can be counted",
                       (long long)num_classes, MOST);
    const size_t bytes = (size_t)(num_classes * num_classes) * sizeof(int64_t);
    tli_pixel_counts *n = tl_alloc_zero(sizeof *n);
    if (!n) return TL_FAIL_NOMEM(sizeof *n);
    n->classes = num_classes;
    n->cells = tl_alloc_zero(bytes);
    *out = n;
    if (n->cells) return TL_OK;
    tli_pixel_counts_free(out);
    return TL_FAIL_NOMEM(bytes);
}

void tli_pixel_counts_free(tli_pixel_counts **n)
{
    if (!*n) return;
    tl_free((*n)->cells);
    tl_free((*n)->line);
    tl_free(*n);
    *n = NULL;
}

void tli_pixel_counts_reset(tli_pixel_counts *n)
{
    memset(n->cells, 0, (size_t)(n->classes * n->classes) * sizeof *n->cells);
}

void tli_pixel_counts_iou(const tli_pixel_counts *n, double *iou)
{
    for (int64_t i = 0; i < n->classes; i++) {
        int64_t is = 0, said = 0;
        for (int64_t k = 0; k < n->classes; k++) {
            is += n->cells[i * n->classes + k];
            said += n->cells[k * n->classes + i];
        }
        const int64_t both = n->cells[i * n->classes + i], either = is + said - both;
        iou[i] = either ? (double)both / (double)either : 0;
    }
}

/* --- one image -------------------------------------------------------------------------------- */

/* An image's logits, at the size of its masks or of the picture as it was, and the masks. */
typedef struct image {
    tli_pixel_view view;
    const float *masks;
    int64_t mask_rows, mask_columns; /* that count */
    int64_t mask_stride;
} image;

/* The class of a mask's pixel; -1: it does not count. */
static tl_status class_of(int64_t *out, const tli_pixel_counts *n, const tli_pixel_batch *b,
                          float mark)
{
    *out = -1;
    if (!(fabsf(mark) < 1e9f)) return TL_FAIL(TL_EINVAL, "a mask has the class %g", (double)mark);
    if ((int64_t)mark == b->ignore_label) return TL_OK;
    *out = b->gt_is_matting_map ? mark > 0.5f : (int64_t)mark;
    if (*out >= 0 && *out < n->classes) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "a mask has the class %lld; there are 0 to %lld, and %lld, which is ignored",
                   (long long)*out, (long long)n->classes - 1, (long long)b->ignore_label);
}

static tl_status count_image(tli_pixel_counts *n, const tli_pixel_batch *b, const image *m)
{
    for (int64_t y = 0; y < m->mask_rows; y++) {
        tli_pixel_line(n->line, &m->view, y);
        for (int64_t x = 0; x < m->mask_columns; x++) {
            int64_t is;
            TL_TRY(class_of(&is, n, b, m->masks[y * m->mask_stride + x]));
            if (is >= 0) n->cells[is * n->classes + tli_pixel_class(&m->view, n->line, x)]++;
        }
    }
    return TL_OK;
}

/* --- batches ---------------------------------------------------------------------------------- */

/* Only the masks of the picture itself count. */
static tl_status look_back(image *m, const float *info)
{
    int64_t size[2];
    TL_TRY(tli_pixel_view_back(&m->view, info, size));
    m->mask_rows = tl_min_i64(m->mask_rows, size[0]);
    m->mask_columns = tl_min_i64(m->mask_columns, size[1]);
    return TL_OK;
}

static tl_status make_line(tli_pixel_counts *n, int64_t count)
{
    if (n->line_count >= count) return TL_OK;
    tl_free(n->line);
    n->line = tl_alloc((size_t)count * sizeof *n->line);
    n->line_count = n->line ? count : 0;
    return n->line ? TL_OK : TL_FAIL_NOMEM((size_t)count * sizeof *n->line);
}

static tl_status check_batch(const tli_pixel_counts *n, const tli_pixel_batch *b)
{
    const tl_shape *l = &b->logits->shape, *m = &b->masks->shape, *i = &b->image_info->shape;
    char spec[3][TL_TENSOR_TEXT];
    if (l->rank == 4 && m->rank == 4 && i->rank == 3 && l->dims[3] == n->classes && m->dims[3] == 1
        && l->dims[0] == m->dims[0] && i->dims[0] == m->dims[0] && i->dims[1] == 4
        && i->dims[2] == 2 && l->dims[1] > 0 && l->dims[2] > 0 && b->logits->dtype == TL_F32
        && b->masks->dtype == TL_F32 && b->image_info->dtype == TL_F32)
        return TL_OK;
    return TL_FAIL(TL_EINVAL, "logits %s, masks %s and image_info %s do not fit each other",
                   tl_tensor_spec(spec[0], b->logits), tl_tensor_spec(spec[1], b->masks),
                   tl_tensor_spec(spec[2], b->image_info));
}

tl_status tli_pixel_counts_add(tli_pixel_counts *n, const tli_pixel_batch *b)
{
    tl_lease logits = {0}, masks = {0}, info = {0};
    tl_status st;
    TL_TRY(check_batch(n, b));
    const int64_t *l = b->logits->shape.dims, *m = b->masks->shape.dims;
    TL_TRY(make_line(n, l[2] * l[3]));
    TL_TRY_DONE(st, tl_lease_read(&logits, b->logits));
    TL_TRY_DONE(st, tl_lease_read(&masks, b->masks));
    TL_TRY_DONE(st, tl_lease_read(&info, b->image_info));
    for (int64_t i = 0; st == TL_OK && i < l[0]; i++) {
        image one = {.view = {.logits = (const float *)logits.data + i * l[1] * l[2] * l[3],
                              .rows = l[1],
                              .columns = l[2],
                              .classes = l[3],
                              .height = m[1],
                              .width = m[2]},
                     .masks = (const float *)masks.data + i * m[1] * m[2],
                     .mask_rows = m[1],
                     .mask_columns = m[2],
                     .mask_stride = m[2]};
        if (b->rescale) st = look_back(&one, (const float *)info.data + i * 8);
        if (st == TL_OK) st = count_image(n, b, &one);
    }
done:
    tl_lease_drop(&logits);
    tl_lease_drop(&masks);
    tl_lease_drop(&info);
    return st;
}
