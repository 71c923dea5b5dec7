#include <inttypes.h>
#include <tilth/base/integer.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/random.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/sort.h>
#include <tilth/ops/view.h>

#include "nn/detection_impl.h"

enum { SIDES = 4 };

static tl_tensor *count_of(tl_ctx *c, tl_tensor *x)
{
    return tl_sum(c, tl_cast(c, x, TL_I32), TL_AXES(-1), true);
}

// Places [batch, K] of the regions that are taken, in order. Regions that are neither something nor
// background fill up, from the front, where there are not enough.
static tl_tensor *draw_places(tl_ctx *c, const tl_matches *m, const tl_sample_regions_args *args)
{
    const int64_t n = m->kind->shape.dims[1], all = tl_min_i64(args->num_sampled_rois, n);
    const int64_t most = (int64_t)((double)args->num_sampled_rois * args->foreground_fraction);
    tl_tensor *something = tli_kind_is(c, m, TL_MATCHED), *places = NULL;
    tl_tensor *nothing = tli_kind_is(c, m, TL_BACKGROUND);
    tl_tensor *neither = tl_logical_not(c, tl_logical_or(c, something, nothing));
    tl_tensor *lack = tl_affine(c, count_of(c, neither), 1, (double)(all - n));
    tl_tensor *rank = tl_cumsum(c, tl_cast(c, neither, TL_I32), -1, false, false);
    tl_tensor *more = tl_logical_and(c, neither, tl_less_equal(c, rank, lack));
    tl_tensor *draws = tl_random_uniform(c, TL_F32, m->kind->shape, 0, 1);
    tl_tensor *first = tli_some_of(c, something, draws, most, NULL);
    tl_tensor *left = tl_affine(c, count_of(c, first), -1, (double)all);
    tl_tensor *rest = tli_some_of(c, tl_logical_or(c, nothing, more), draws, all, left);
    // Where even they are not enough, the first of those that are left over.
    tl_top_k(c, tl_add(c, first, rest), all, NULL, &places);
    return places;
}

static tl_tensor *rows_at(tl_ctx *c, tl_tensor *rows, tl_tensor *places)
{
    if (tl_ctx_failed(c) || !places) return rows;
    if (rows->shape.rank == 2) return tl_take_along_axis(c, rows, places, 1);
    const tl_shape wide = TL_SHAPE(places->shape.dims[0], places->shape.dims[1], SIDES);
    tl_tensor *each = tl_broadcast_to(c, tl_expand_dims(c, places, -1), wide);
    return tl_take_along_axis(c, rows, each, 1);
}

static tl_sampled_regions sample(tl_ctx *c, tl_tensor *regions, tl_tensor *truth,
                                 const tl_sample_regions_args *args)
{
    static const double usual[] = {10, 10, 5, 5};
    tl_sampled_regions s = {0};
    regions = tl_cast(c, regions, TL_F32);
    truth = tl_cast(c, truth, TL_F32);
    if (!args->without_truth) regions = tl_concat(c, (tl_tensor *[]){regions, truth}, 2, 1);
    const tl_matches m =
        tl_box_match(c, regions, truth, .unmatched = args->background_iou_high_threshold,
                     .matched = args->foreground_iou_threshold, .tell_padding = true,
                     .least = args->background_iou_low_threshold);
    if (tl_ctx_failed(c)) return s;
    tl_tensor *places = args->skip_subsampling ? NULL : draw_places(c, &m, args);
    tl_tensor *matched = tli_kind_is(c, &m, TL_MATCHED);
    tl_tensor *index = tl_where(c, matched, m.index, tl_number(c, TL_I32, -1));
    s.regions = rows_at(c, regions, places);
    s.boxes = rows_at(c, tl_match_take(c, &m, truth, 0), places);
    s.classes = rows_at(c, tl_match_take(c, &m, tl_cast(c, args->classes, TL_I32), 0), places);
    s.indices = rows_at(c, index, places);
    if (tl_ctx_failed(c)) return s;
    tl_tensor *real = tl_greater(c, s.classes, tl_number(c, TL_I32, 0));
    tl_tensor *code = tl_box_encode(c, s.boxes, s.regions, args->weights ? args->weights : usual);
    s.box_targets = tl_where(c, tl_expand_dims(c, real, -1), code, tl_number(c, TL_F32, 0));
    return s;
}

tl_sampled_regions tl_sample_regions(tl_ctx *c, tl_tensor *regions, tl_tensor *truth,
                                     const tl_sample_regions_args *args)
{
    if (tl_ctx_failed(c)) return (tl_sampled_regions){0};
    if (!regions || !truth || !args->classes || args->num_sampled_rois < 0
        || !(args->foreground_fraction >= 0 && args->foreground_fraction <= 1)) {
        (void)TL_FAIL(TL_EINVAL,
                      "%" PRId64 " regions, %g of them something, with regions, boxes and classes: "
                      "the number must not be below 0, the share lie between 0 and 1, and the "
                      "tensors be there",
                      args->num_sampled_rois, args->foreground_fraction);
        tl_ctx_fail(c);
        return (tl_sampled_regions){0};
    }
    const bool taping = tl_ctx_set_taping(c, false);
    tl_sampled_regions out = sample(c, regions, truth, args);
    tl_ctx_set_taping(c, taping);
    return tl_ctx_failed(c) ? (tl_sampled_regions){0} : out;
}
