#include <inttypes.h>
#include <tilth/base/integer.h>
#include <tilth/nn/detection.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/sort.h>
#include <tilth/ops/view.h>

enum { SIDES = 4, MOST_LEVELS = 31 };

// Boxes [batch, n, 4] at places [batch, k].
static tl_tensor *boxes_at(tl_ctx *c, tl_tensor *boxes, tl_tensor *places)
{
    if (tl_ctx_failed(c)) return NULL;
    const int64_t *p = places->shape.dims;
    tl_tensor *wide = tl_expand_dims(c, places, -1);
    return tl_take_along_axis(c, boxes, tl_broadcast_to(c, wide, TL_SHAPE(p[0], p[1], SIDES)), 1);
}

static tl_proposals best_of(tl_ctx *c, tl_tensor *boxes, tl_tensor *scores, int64_t count)
{
    tl_proposals p = {0};
    tl_tensor *places = NULL;
    tl_top_k(c, scores, count, &p.scores, &places);
    p.regions = boxes_at(c, boxes, places);
    return p;
}

// Those of one level: boxes [batch, n, 4], scores [batch, n].
static tl_proposals of_level(tl_ctx *c, const tl_propose_args *a, tl_tensor *boxes,
                             tl_tensor *scores)
{
    const int64_t n = scores->shape.dims[1], keep = tl_min_i64(n, a->num_proposals);
    if (!(a->nms_iou_threshold > 0)) return best_of(c, boxes, scores, keep);
    const bool filtered = a->use_batched_nms || a->pre_nms_score_threshold > 0;
    const tl_kept k = tl_box_suppress(
        c, tl_expand_dims(c, boxes, 2), tl_expand_dims(c, scores, -1),
        .rule = a->use_batched_nms ? TL_SUPPRESS_ABOVE : TL_SUPPRESS_TILED,
        .overlap = a->nms_iou_threshold, .score = filtered ? a->pre_nms_score_threshold : -1,
        .candidates = a->use_batched_nms ? 0 : a->pre_nms_top_k,
        .keep = a->use_batched_nms ? tl_min_i64(keep, a->pre_nms_top_k) : keep);
    if (tl_ctx_failed(c)) return (tl_proposals){0};
    tl_tensor *places = tl_squeeze(c, k.index, TL_AXES(1));
    tl_tensor *there =
        tl_less(c, tl_arange(c, TL_I32, 0, (double)places->shape.dims[1], 1), k.count);
    boxes = boxes_at(c, boxes, places);
    boxes = tl_where(c, tl_expand_dims(c, there, -1), boxes, tl_number(c, TL_F32, 0));
    return (tl_proposals){.regions = boxes, .scores = tl_squeeze(c, k.score, TL_AXES(1))};
}

static tl_proposals propose(tl_ctx *c, const tl_propose_args *a)
{
    tl_tensor *regions[MOST_LEVELS], *scores[MOST_LEVELS];
    tl_tensor *size = tl_expand_dims(c, a->image_shape, 1);
    tl_tensor *anchors = tl_expand_dims(c, tl_cast(c, a->anchors, TL_F32), 0);
    int64_t from = 0;
    for (int i = 0; i < a->levels; i++) {
        tl_tensor *codes = tl_anchors_pack(c, a->boxes + i, 1, SIDES);
        tl_tensor *logits = tl_anchors_pack(c, a->scores + i, 1, 1);
        if (tl_ctx_failed(c)) return (tl_proposals){0};
        const int64_t n = codes->shape.dims[1];
        tl_tensor *own = tl_slice(c, anchors, 1, from, from + n, 1);
        tl_tensor *boxes = tl_box_decode(c, tl_cast(c, codes, TL_F32), own, NULL);
        tl_tensor *score = tl_sigmoid(c, tl_cast(c, tl_squeeze(c, logits, TL_AXES(-1)), TL_F32));
        boxes = tl_box_clip(c, boxes, size);
        if (a->pre_nms_min_size_threshold > 0)
            tl_box_filter_small(c, &boxes, &score, size, a->pre_nms_min_size_threshold);
        if (tl_ctx_failed(c)) return (tl_proposals){0};
        const tl_proposals found = of_level(c, a, boxes, score);
        regions[i] = found.regions;
        scores[i] = found.scores;
        from += n;
    }
    tl_tensor *all = tl_concat(c, regions, a->levels, 1),
              *each = tl_concat(c, scores, a->levels, 1);
    if (tl_ctx_failed(c)) return (tl_proposals){0};
    return best_of(c, all, each, tl_min_i64(each->shape.dims[1], a->num_proposals));
}

tl_proposals tl_propose_regions(tl_ctx *c, const tl_propose_args *args)
{
    if (tl_ctx_failed(c)) return (tl_proposals){0};
    if (args->levels < 1 || args->levels > MOST_LEVELS || !args->anchors || !args->image_shape
        || args->num_proposals < 1 || args->pre_nms_top_k < 1) {
        (void)TL_FAIL(TL_EINVAL,
                      "%" PRId64 " proposals of %" PRId64 " candidates in %d levels, with anchors "
                      "and sizes of images: there must be some of each, and at most %d levels",
                      args->num_proposals, args->pre_nms_top_k, args->levels, MOST_LEVELS);
        tl_ctx_fail(c);
        return (tl_proposals){0};
    }
    const bool taping = tl_ctx_set_taping(c, false);
    tl_proposals out = propose(c, args);
    tl_ctx_set_taping(c, taping);
    return tl_ctx_failed(c) ? (tl_proposals){0} : out;
}
