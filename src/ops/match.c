#include <tilth/ops/boxes.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/view.h>
#include <tilth/sys/ops/apply.h>

#include <inttypes.h>

#include "ops/axes.h"
#include "ops/ops.h"

/* --- match_boxes ------------------------------------------------------------------------------ */

static const tl_field match_fields[] = {
    TL_F(tl_match_attr, padding, .help = "overlaps below it are padding's"),
    TL_F(tl_match_attr, unmatched, .help = "overlaps below it are background"),
    TL_F(tl_match_attr, matched, .help = "overlaps from it on are matches"),
    TL_F(tl_match_attr, force, .help = "each box takes the one that overlaps it most"),
    TL_F_END,
};
static const tl_desc match_desc = {
    .name = "match_boxes",
    .help = "attributes of match_boxes",
    .size = sizeof(tl_match_attr),
    .fields = match_fields,
};

static tl_status want_boxes(const tl_tensor *t, int least, int most, const char *what)
{
    char spec[TL_TENSOR_TEXT];
    const tl_shape *s = &t->shape;
    if (t->dtype != TL_F32 || s->rank < least || s->rank > most || s->dims[s->rank - 1] != 4)
        return TL_FAIL(TL_EINVAL, "%s are %s and must be float32 of %d%s dimensions, the last of 4",
                       what, tl_tensor_spec(spec, t), most, least < most ? " or fewer" : "");
    return TL_OK;
}

static tl_status match_infer(const tl_node *call)
{
    const tl_match_attr *a = call->attr;
    const tl_tensor *boxes = call->in[0], *others = call->in[1];
    char spec[2][TL_TENSOR_TEXT];
    TL_TRY(want_boxes(boxes, 2, 3, "the boxes"));
    TL_TRY(want_boxes(others, 3, 3, "the other boxes"));
    if (!(a->unmatched <= a->matched))
        return TL_FAIL(TL_EINVAL,
                       "background is below %g and matches begin at %g, which must not be less",
                       a->unmatched, a->matched);
    const int rank = boxes->shape.rank;
    const int64_t *n = boxes->shape.dims, *m = others->shape.dims;
    if ((rank == 3 && n[0] != m[0]) || n[rank - 2] > INT32_MAX || m[1] > INT32_MAX)
        return TL_FAIL(TL_EINVAL, "boxes %s and other boxes %s are not of one batch",
                       tl_tensor_spec(spec[0], boxes), tl_tensor_spec(spec[1], others));
    for (int i = 0; i < 3; i++) {
        call->out[i]->dtype = i < 2 ? TL_I32 : TL_F32;
        call->out[i]->shape = TL_SHAPE(m[0], n[rank - 2]);
    }
    return TL_OK;
}

const tl_op_class tl_op_match_boxes = {
    .op = TL_OP_match_boxes,
    .name = "match_boxes",
    .help = "which other box each box overlaps most",
    .attr = &match_desc,
    .inputs_min = 2,
    .inputs_max = 2,
    .outputs = 3,
    .flags = TL_OP_CONSTANT,
    .infer = match_infer,
};

tl_matches tl_box_match_with(tl_ctx *c, tl_tensor *boxes, const tl_box_match_args *args)
{
    tl_tensor *out[3] = {NULL, NULL, NULL};
    if (tli_there(c, boxes, "box_match") && tli_there(c, args->others, "box_match")) {
        // Every overlap is at least -1.
        tl_match_attr attr = {.padding = args->tell_padding ? args->least : -2,
                              .unmatched = args->unmatched,
                              .matched = args->matched,
                              .force = args->force};
        tl_tensor *in[] = {tl_cast(c, boxes, TL_F32), tl_cast(c, args->others, TL_F32)};
        tl_apply_all(c, TL_OP_match_boxes, &attr, 2, in, out);
    }
    return (tl_matches){.index = out[0], .kind = out[1], .overlap = out[2]};
}

tl_tensor *tl_match_take(tl_ctx *c, const tl_matches *m, tl_tensor *rows, double otherwise)
{
    char spec[TL_TENSOR_TEXT];
    if (!tli_there(c, rows, "match_take") || !tli_there(c, m->index, "match_take")) return NULL;
    const tl_shape *found = &m->index->shape, *s = &rows->shape;
    if (s->rank < 2 || s->rank > 3 || s->dims[0] != found->dims[0]) {
        (void)TL_FAIL(TL_EINVAL,
                      "the rows are %s and must be [%" PRId64 ", m] or [%" PRId64 ", m, k]",
                      tl_tensor_spec(spec, rows), found->dims[0], found->dims[0]);
        return tli_fail(c, "match_take");
    }
    tl_shape shape = *s;
    shape.dims[1] = found->dims[1];
    if (s->dims[1] == 0) return tl_full(c, rows->dtype, shape, otherwise);
    tl_tensor *matched = tl_equal(c, m->kind, tl_number(c, TL_I32, TL_MATCHED)), *index = m->index;
    if (s->rank == 3) {
        matched = tl_expand_dims(c, matched, -1);
        index = tl_broadcast_to(c, tl_expand_dims(c, index, -1), shape);
    }
    tl_tensor *taken = tl_take_along_axis(c, rows, index, 1);
    return tl_where(c, matched, taken, tl_number(c, rows->dtype, otherwise));
}

/* --- suppress_boxes --------------------------------------------------------------------------- */

static const char *const rule_names[] = {"tiled", "greedy", "above", "soft", "refined", NULL};
_Static_assert(TL_COUNT(rule_names) == TL_SUPPRESSION_COUNT + 1, "each rule has a name");

static const tl_field suppress_fields[] = {
    TL_F(tl_suppress_attr, overlap, .help = "threshold of overlaps"),
    TL_F(tl_suppress_attr, score, .help = "scores must be above it"),
    TL_F(tl_suppress_attr, sigma, .help = "of the bell that scores are lowered by"),
    TL_F(tl_suppress_attr, candidates, .help = "of each class, at most"),
    TL_F(tl_suppress_attr, keep, .help = "of each class"),
    TL_F(tl_suppress_attr, rounds, .help = "of refinement"),
    TL_F(tl_suppress_attr, rule, .names = rule_names, .help = "whom a kept box takes out"),
    TL_F_END,
};
static const tl_desc suppress_desc = {
    .name = "suppress_boxes",
    .help = "attributes of suppress_boxes",
    .size = sizeof(tl_suppress_attr),
    .fields = suppress_fields,
};

static tl_status check_suppression(const tl_suppress_attr *a)
{
    if (a->rule < 0 || a->rule >= TL_SUPPRESSION_COUNT)
        return TL_FAIL(TL_EINVAL, "%d is no rule", (int)a->rule);
    if (a->keep < 0 || a->keep > INT32_MAX || a->candidates < 0 || a->rounds < 0)
        return TL_FAIL(TL_EINVAL,
                       "%" PRId64 " of %" PRId64 " candidates in %" PRId64
                       " rounds; numbers must not be below 0",
                       a->keep, a->candidates, a->rounds);
    if (a->rule == TL_SUPPRESS_SOFT && !(a->sigma > 0))
        return TL_FAIL(TL_EINVAL, "a sigma of %g; it must be above 0", a->sigma);
    return a->overlap >= 0
               ? TL_OK
               : TL_FAIL(TL_EINVAL, "a threshold of %g; no overlap is below 0", a->overlap);
}

static tl_status suppress_infer(const tl_node *call)
{
    const tl_suppress_attr *a = call->attr;
    const tl_tensor *boxes = call->in[0], *scores = call->in[1];
    const int64_t *b = boxes->shape.dims, *s = scores->shape.dims;
    char spec[2][TL_TENSOR_TEXT];
    TL_TRY(want_boxes(boxes, 4, 4, "the boxes"));
    TL_TRY(tli_want_rank(scores, 3, "the tensor of scores"));
    TL_TRY(check_suppression(a));
    if (scores->dtype != TL_F32 || b[0] != s[0] || b[1] != s[1] || (b[2] != 1 && b[2] != s[2])
        || b[1] > INT32_MAX)
        return TL_FAIL(TL_EINVAL,
                       "boxes %s and scores %s do not fit: scores must be float32 [batch, n, "
                       "classes], boxes [batch, n, 1 or classes, 4]",
                       tl_tensor_spec(spec[0], boxes), tl_tensor_spec(spec[1], scores));
    for (int i = 0; i < 3; i++) {
        call->out[i]->dtype = i == 1 ? TL_F32 : TL_I32;
        call->out[i]->shape = i < 2 ? TL_SHAPE(s[0], s[2], a->keep) : TL_SHAPE(s[0], s[2]);
    }
    return TL_OK;
}

const tl_op_class tl_op_suppress_boxes = {
    .op = TL_OP_suppress_boxes,
    .name = "suppress_boxes",
    .help = "the best boxes of each class that overlap little",
    .attr = &suppress_desc,
    .inputs_min = 2,
    .inputs_max = 2,
    .outputs = 3,
    .flags = TL_OP_CONSTANT,
    .infer = suppress_infer,
};

tl_kept tl_box_suppress_with(tl_ctx *c, tl_tensor *boxes, const tl_box_suppress_args *args)
{
    tl_tensor *out[3] = {NULL, NULL, NULL};
    if (tli_there(c, boxes, "box_suppress") && tli_there(c, args->scores, "box_suppress")) {
        tl_suppress_attr attr = {.overlap = args->overlap,
                                 .score = args->score,
                                 .sigma = args->sigma,
                                 .candidates = args->candidates,
                                 .keep = args->keep,
                                 .rounds = args->rounds,
                                 .rule = args->rule};
        tl_tensor *in[] = {tl_cast(c, boxes, TL_F32), tl_cast(c, args->scores, TL_F32)};
        tl_apply_all(c, TL_OP_suppress_boxes, &attr, 2, in, out);
    }
    return (tl_kept){.index = out[0], .score = out[1], .count = out[2]};
}
