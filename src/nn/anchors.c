#include <inttypes.h>
#include <math.h>
#include <tilth/base/alloc.h>
#include <tilth/nn/detection.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/random.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/sort.h>
#include <tilth/ops/view.h>

#include "nn/detection_impl.h"

enum { SIDES = 4, MOST_LEVEL = 30 };

/* --- anchors ---------------------------------------------------------------------------------- */

static const tl_field anchor_fields[] = {
    TL_F(tl_anchor_config, num_scales, .i = 3, TL_RANGE(1, 1024),
         .help = "sizes between one level and the next"),
    TL_F(tl_anchor_config, aspect_ratios, TL_DEFAULT_LIST(double, 0.5, 1, 2), TL_RANGE(1e-6, 1e6),
         .help = "widths over heights"),
    TL_F(tl_anchor_config, anchor_size, .d = 4, TL_RANGE(1e-6, 1e6),
         .help = "side of the smallest, in strides of its level"),
    TL_F_END,
};
const tl_desc tl_anchor_config_desc = {
    .name = "anchor",
    .help = "boxes around each place of feature maps",
    .size = sizeof(tl_anchor_config),
    .fields = anchor_fields,
};

void tl_anchor_map(const tl_anchor_grid *grid, int64_t level, int64_t *rows, int64_t *columns)
{
    const int64_t stride = INT64_C(1) << level;
    *rows = (grid->height + stride - 1) / stride;
    *columns = (grid->width + stride - 1) / stride;
}

int64_t tl_anchors_per_place(const tl_anchor_config *config)
{
    return config->num_scales * config->aspect_ratios.count;
}

tl_status tl_anchors_count(int64_t *out, const tl_anchor_config *config, const tl_anchor_grid *grid)
{
    if (grid->min_level < 0 || grid->max_level > MOST_LEVEL || grid->min_level > grid->max_level
        || grid->height < 1 || grid->width < 1 || grid->height > INT32_MAX
        || grid->width > INT32_MAX)
        return TL_FAIL(TL_EINVAL,
                       "anchors of levels %" PRId64 " to %" PRId64 " in images of %" PRId64
                       "x%" PRId64 " pixels: levels must be 0 to %d and images have pixels",
                       grid->min_level, grid->max_level, grid->height, grid->width, MOST_LEVEL);
    const int64_t each = tl_anchors_per_place(config);
    if (config->num_scales < 1 || each < 1 || each > INT16_MAX)
        return TL_FAIL(TL_EINVAL,
                       "%" PRId64 " scales and %" PRId64
                       " aspect ratios: there must be some, and at most %d anchors at a place",
                       config->num_scales, config->aspect_ratios.count, INT16_MAX);
    *out = 0;
    for (int64_t level = grid->min_level; level <= grid->max_level; level++) {
        int64_t rows, columns;
        tl_anchor_map(grid, level, &rows, &columns);
        if (rows * columns > INT32_MAX / each - *out / each)
            return TL_FAIL(TL_EINVAL,
                           "more than %d anchors in images of %" PRId64 "x%" PRId64 " pixels",
                           INT32_MAX, grid->height, grid->width);
        *out += rows * columns * each;
    }
    return TL_OK;
}

// The anchors of a level, from `out` on; gives where the next ones come. Centres and half sizes are
// rounded to float32 once.
static float *write_level(float *out, const tl_anchor_config *config, const tl_anchor_grid *grid,
                          int64_t level)
{
    int64_t rows, columns;
    tl_anchor_map(grid, level, &rows, &columns);
    const float down = (float)((double)grid->height / (double)rows);
    const float across = (float)((double)grid->width / (double)columns);
    for (int64_t i = 0; i < rows * columns; i++) {
        const float y = (float)((double)(down / 2) + (double)(i / columns) * (double)down);
        const float x = (float)((double)(across / 2) + (double)(i % columns) * (double)across);
        for (int64_t k = 0; k < tl_anchors_per_place(config); k++, out += SIDES) {
            const int64_t scale = k / config->aspect_ratios.count;
            const double aspect = config->aspect_ratios.items[k % config->aspect_ratios.count];
            const double side = ldexp(config->anchor_size, (int)level)
                                * pow(2, (double)scale / (double)config->num_scales);
            const float height = (float)(side * pow(aspect, -0.5) / 2);
            const float width = (float)(side * pow(aspect, 0.5) / 2);
            out[0] = y - height;
            out[1] = x - width;
            out[2] = y + height;
            out[3] = x + width;
        }
    }
    return out;
}

tl_status tl_anchors_write(float *out, int64_t count, const tl_anchor_config *config,
                           const tl_anchor_grid *grid)
{
    int64_t wanted;
    TL_TRY(tl_anchors_count(&wanted, config, grid));
    if (count != wanted)
        return TL_FAIL(TL_EINVAL, "room for %" PRId64 " anchors; there are %" PRId64, count,
                       wanted);
    for (int64_t level = grid->min_level; level <= grid->max_level; level++)
        out = write_level(out, config, grid, level);
    return TL_OK;
}

tl_tensor *tl_anchors(tl_ctx *c, const tl_anchor_config *config, const tl_anchor_grid *grid)
{
    int64_t count;
    if (tl_ctx_failed(c)) return NULL;
    if (tl_anchors_count(&count, config, grid) != TL_OK) return tl_ctx_fail(c);
    float *boxes = tl_alloc((size_t)count * SIDES * sizeof *boxes);
    if (!boxes) {
        (void)TL_FAIL_NOMEM((size_t)count * SIDES * sizeof *boxes);
        return tl_ctx_fail(c);
    }
    tl_tensor *t = NULL;
    if (tl_anchors_write(boxes, count, config, grid) != TL_OK) tl_ctx_fail(c);
    else t = tl_from(c, TL_F32, TL_SHAPE(count, SIDES), boxes);
    tl_free(boxes);
    return t;
}

/* --- labels ----------------------------------------------------------------------------------- */

tl_tensor *tli_kind_is(tl_ctx *c, const tl_matches *m, int kind)
{
    return tl_equal(c, m->kind, tl_number(c, TL_I32, kind));
}

// The code of the boxes that anchors have found; of others that of zeros.
static tl_tensor *found_code(tl_ctx *c, const tl_matches *m, tl_tensor *anchors, tl_tensor *truth,
                             const double *weights)
{
    tl_tensor *boxes = tl_match_take(c, m, tl_cast(c, truth, TL_F32), 0);
    return tl_box_encode(c, boxes, tl_expand_dims(c, anchors, 0), weights);
}

static bool check_weights(tl_ctx *c, const tl_doubles *weights)
{
    if (!weights->count || weights->count == SIDES) return true;
    (void)TL_FAIL(TL_EINVAL, "box_coder_weights has %" PRId64 " numbers; it needs 4, or none",
                  weights->count);
    tl_ctx_fail(c);
    return false;
}

tl_anchor_labels tl_label_anchors_with(tl_ctx *c, tl_tensor *anchors, tl_tensor *truth,
                                       const tl_label_anchors_args *args)
{
    tl_anchor_labels l = {0};
    if (tl_ctx_failed(c) || !check_weights(c, &args->box_coder_weights)) return l;
    const double *weights = args->box_coder_weights.count ? args->box_coder_weights.items : NULL;
    l.matches = tl_box_match(c, anchors, truth, .unmatched = args->unmatched_threshold,
                             .matched = args->match_threshold, .force = true);
    l.cls_targets = tl_match_take(c, &l.matches, tl_cast(c, args->classes, TL_I32), -1);
    l.box_targets = found_code(c, &l.matches, anchors, truth, weights);
    l.box_weights = tl_cast(c, tli_kind_is(c, &l.matches, TL_MATCHED), TL_F32);
    l.cls_weights = tl_cast(c, tl_logical_not(c, tli_kind_is(c, &l.matches, TL_IGNORED)), TL_F32);
    return tl_ctx_failed(c) ? (tl_anchor_labels){0} : l;
}

tl_tensor *tli_some_of(tl_ctx *c, tl_tensor *may, tl_tensor *draws, int64_t most, tl_tensor *limit)
{
    tl_tensor *values, *places;
    if (tl_ctx_failed(c)) return NULL;
    const int64_t n = may->shape.dims[1], k = most < n ? most : n;
    tl_top_k(c, tl_where(c, may, draws, tl_number(c, TL_F32, -1)), k, &values, &places);
    tl_tensor *taken = tl_greater_equal(c, values, tl_number(c, TL_F32, 0));
    if (limit)
        taken = tl_logical_and(c, taken, tl_less(c, tl_arange(c, TL_I32, 0, (double)k, 1), limit));
    return tl_take_along_axis_grad(c, tl_cast(c, taken, TL_F32), places, -1, n);
}

tl_rpn_labels tl_label_rpn_with(tl_ctx *c, tl_tensor *anchors, tl_tensor *truth,
                                const tl_label_rpn_args *args)
{
    const int64_t all = args->rpn_batch_size_per_im;
    if (!tl_ctx_failed(c)
        && (all < 0 || !(args->rpn_fg_fraction >= 0 && args->rpn_fg_fraction <= 1))) {
        (void)TL_FAIL(TL_EINVAL,
                      "%" PRId64 " anchors an image, %g of them something: the number must not be "
                      "below 0, the share lie between 0 and 1",
                      all, args->rpn_fg_fraction);
        tl_ctx_fail(c);
    }
    tl_matches m = {0};
    if (!tl_ctx_failed(c))
        m = tl_box_match(c, anchors, truth, .unmatched = args->unmatched_threshold,
                         .matched = args->match_threshold, .force = true);
    if (tl_ctx_failed(c)) return (tl_rpn_labels){0};
    tl_tensor *matched = tli_kind_is(c, &m, TL_MATCHED);
    tl_tensor *draws = tl_random_uniform(c, TL_F32, m.kind->shape, 0, 1);
    tl_tensor *something =
        tli_some_of(c, matched, draws, (int64_t)(args->rpn_fg_fraction * (double)all), NULL);
    tl_tensor *count = tl_cast(c, tl_sum(c, something, TL_AXES(-1), true), TL_I32);
    tl_tensor *left = tl_affine(c, count, -1, (double)all);
    tl_tensor *nothing = tli_some_of(c, tli_kind_is(c, &m, TL_BACKGROUND), draws, all, left);
    tl_tensor *scores = tl_shift(c, tl_add(c, tl_scale(c, something, 2), nothing), -1);
    tl_tensor *code = found_code(c, &m, anchors, truth, NULL);
    code = tl_where(c, tl_expand_dims(c, matched, -1), code, tl_number(c, TL_F32, 0));
    scores = tl_cast(c, scores, TL_I32);
    if (tl_ctx_failed(c)) return (tl_rpn_labels){0};
    return (tl_rpn_labels){.score_targets = scores, .box_targets = code};
}

/* --- maps ------------------------------------------------------------------------------------- */

void tl_anchors_unpack(tl_ctx *c, tl_tensor *x, const tl_anchor_grid *grid, tl_tensor **out)
{
    const int64_t levels = grid->max_level - grid->min_level + 1;
    int64_t places = 0, from = 0, rows, columns;
    char spec[TL_TENSOR_TEXT];
    for (int64_t i = 0; i < levels; i++) {
        out[i] = NULL;
        if (grid->min_level < 0 || grid->max_level > MOST_LEVEL) continue; // no places
        tl_anchor_map(grid, grid->min_level + i, &rows, &columns);
        places += rows * columns;
    }
    if (tl_ctx_failed(c)) return;
    if (!x || x->shape.rank < 2 || x->shape.rank > 3 || places < 1 || x->shape.dims[1] % places) {
        (void)TL_FAIL(TL_EINVAL, "%s does not hold the anchors of %" PRId64 " places",
                      x ? tl_tensor_spec(spec, x) : "nothing", places);
        tl_ctx_fail(c);
        return;
    }
    const int64_t each = x->shape.dims[1] / places;
    const int64_t width = each * (x->shape.rank == 3 ? x->shape.dims[2] : 1);
    for (int64_t i = 0; i < levels; i++) {
        tl_anchor_map(grid, grid->min_level + i, &rows, &columns);
        const int64_t to = from + rows * columns * each;
        out[i] = tl_reshape(c, tl_slice(c, x, 1, from, to, 1),
                            TL_SHAPE(x->shape.dims[0], rows, columns, width));
        from = to;
    }
}

tl_tensor *tl_anchors_pack(tl_ctx *c, tl_tensor *const *maps, int levels, int64_t width)
{
    tl_tensor *parts[MOST_LEVEL + 1];
    char spec[TL_TENSOR_TEXT];
    if (tl_ctx_failed(c)) return NULL;
    if (levels < 1 || levels > MOST_LEVEL + 1) {
        (void)TL_FAIL(TL_EINVAL, "%d levels; there must be 1 to %d", levels, MOST_LEVEL + 1);
        return tl_ctx_fail(c);
    }
    for (int i = 0; i < levels; i++) {
        const tl_shape *s = maps[i] ? &maps[i]->shape : NULL;
        if (!s || s->rank != 4 || width < 1 || s->dims[3] % width) {
            (void)TL_FAIL(TL_EINVAL,
                          "map %d is %s and must be [batch, rows, columns, anchors * %" PRId64 "]",
                          i, s ? tl_tensor_spec(spec, maps[i]) : "missing", width);
            return tl_ctx_fail(c);
        }
        const int64_t places = s->dims[1] * s->dims[2] * (s->dims[3] / width);
        parts[i] = tl_reshape(c, maps[i], TL_SHAPE(s->dims[0], places, width));
    }
    return tl_concat(c, parts, levels, 1);
}
