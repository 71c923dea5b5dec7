/* Choices among boxes are made in float32, in this order of operations: that is a part of what the
 * ops mean. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>

#include "cpu/ref/ref.h"

enum { YMIN, XMIN, YMAX, XMAX, SIDES };

static bool is_padding(const float *b)
{
    return b[YMIN] < 0 && b[XMIN] < 0 && b[YMAX] < 0 && b[XMAX] < 0;
}

static float area(const float *b)
{
    return (b[YMAX] - b[YMIN]) * (b[XMAX] - b[XMIN]);
}

static float shared_area(const float *a, const float *b)
{
    const float height = fminf(a[YMAX], b[YMAX]) - fmaxf(a[YMIN], b[YMIN]);
    const float width = fminf(a[XMAX], b[XMAX]) - fmaxf(a[XMIN], b[XMIN]);
    return fmaxf(width, 0) * fmaxf(height, 0);
}

/* --- match_boxes ------------------------------------------------------------------------------ */

static float plain_overlap(const float *a, const float *b)
{
    if (is_padding(a) || is_padding(b)) return -1;
    const float shared = shared_area(a, b);
    return shared == 0 ? 0 : shared / (area(a) + area(b) - shared);
}

static int32_t kind_of(const tl_match_attr *a, float overlap)
{
    if (overlap < (float)a->padding) return -3;
    if (overlap < (float)a->unmatched) return -1;
    return overlap < (float)a->matched ? -2 : 1;
}

// Each of the others takes the box that overlaps it most; the first of the others wins.
static void take_best(const float *boxes, int64_t n, const float *others, int64_t m, int32_t *index,
                      int32_t *kind)
{
    for (int64_t j = m - 1; j >= 0; j--) {
        int64_t best = -1;
        float most = -1;
        for (int64_t i = 0; i < n; i++) {
            const float overlap = plain_overlap(boxes + i * SIDES, others + j * SIDES);
            if (overlap > most) {
                most = overlap;
                best = i;
            }
        }
        if (best >= 0) {
            index[best] = (int32_t)j;
            kind[best] = 1;
        }
    }
}

static tl_status match_boxes_kernel(const tl_run *run, const tl_node *call)
{
    const tl_match_attr *a = call->attr;
    const tl_shape *boxes_shape = &call->in[0]->shape;
    const int64_t batch = call->in[1]->shape.dims[0], m = call->in[1]->shape.dims[1];
    const int64_t n = boxes_shape->dims[boxes_shape->rank - 2];
    (void)run;
    for (int64_t image = 0; image < batch; image++) {
        const float *boxes =
            (const float *)tli_data(call->in[0]) + (boxes_shape->rank == 3 ? image * n * SIDES : 0);
        const float *others = (const float *)tli_data(call->in[1]) + image * m * SIDES;
        int32_t *index = (int32_t *)tli_data(call->out[0]) + image * n;
        int32_t *kind = (int32_t *)tli_data(call->out[1]) + image * n;
        float *overlaps = (float *)tli_data(call->out[2]) + image * n;
        for (int64_t i = 0; i < n; i++) {
            index[i] = 0;
            overlaps[i] = -1;
            for (int64_t j = 0; j < m; j++) {
                const float overlap = plain_overlap(boxes + i * SIDES, others + j * SIDES);
                if (overlap > overlaps[i]) {
                    overlaps[i] = overlap;
                    index[i] = (int32_t)j;
                }
            }
            kind[i] = kind_of(a, overlaps[i]);
        }
        if (a->force) take_best(boxes, n, others, m, index, kind);
    }
    return TL_OK;
}

/* --- suppress_boxes --------------------------------------------------------------------------- */

enum { TILE = 512 };

/* A box that may be kept; those of a class stand in the order of their scores. */
typedef struct candidate {
    float score;
    int32_t from;
    int64_t seen; /* soft: how many of the kept ones its score knows of */
} candidate;

typedef struct class_job {
    const tl_suppress_attr *a;
    const float *boxes;
    int64_t box_step; /* between the boxes of a class */
    candidate *list;
    int64_t count;
    bool *live, *kept, *rest; /* one for each candidate */
    int32_t *index;
    float *score;
    int64_t found;
} class_job;

static const float *box_of(const class_job *j, int64_t i)
{
    return j->boxes + j->list[i].from * j->box_step;
}

static bool before(const candidate *a, const candidate *b)
{
    return a->score > b->score || (a->score == b->score && a->from < b->from);
}

static void keep(class_job *j, int64_t i)
{
    j->index[j->found] = j->list[i].from;
    j->score[j->found++] = j->list[i].score;
}

static bool has_positive(const float *b)
{
    return b[YMIN] > 0 || b[XMIN] > 0 || b[YMAX] > 0 || b[XMAX] > 0;
}

static float padded_overlap(const float *a, const float *b)
{
    return shared_area(a, b) / (area(a) + area(b) - shared_area(a, b) + 1e-8f);
}

// Corners may come in any order; a box without area overlaps nothing.
static float cornered_overlap(const float *a, const float *b)
{
    float p[SIDES], q[SIDES];
    for (int i = 0; i < 2; i++) {
        p[i] = fminf(a[i], a[2 + i]);
        p[2 + i] = fmaxf(a[i], a[2 + i]);
        q[i] = fminf(b[i], b[2 + i]);
        q[2 + i] = fmaxf(b[i], b[2 + i]);
    }
    if (area(p) <= 0 || area(q) <= 0) return 0;
    const float shared = shared_area(p, q);
    return shared / (area(p) + area(q) - shared);
}

static void tiled(class_job *j)
{
    const float limit = (float)j->a->overlap;
    for (int64_t i = 0; i < j->count && j->found < j->a->keep; i++) {
        const int64_t tile = i / TILE * TILE;
        const float *box = box_of(j, i);
        bool out = false, dead = is_padding(box);
        for (int64_t k = 0; k < i && !dead; k++) {
            // Of earlier tiles those that are kept count, of its own also some that are not.
            if (k < tile ? !j->kept[k] : !j->live[k]) continue;
            const float overlap = padded_overlap(box_of(j, k), box);
            out |= overlap >= limit;
            dead |= overlap >= limit && (k < tile || overlap > 0.5f);
        }
        j->live[i] = !dead;
        j->kept[i] = !dead && !out;
        if (j->kept[i] && has_positive(box)) keep(j, i);
    }
}

static void greedy(class_job *j)
{
    const float limit = (float)j->a->overlap;
    const bool above = j->a->rule == TL_SUPPRESS_ABOVE;
    for (int64_t i = 0; i < j->count && j->found < j->a->keep; i++) {
        const float *box = box_of(j, i);
        bool out = false;
        for (int64_t k = 0; k < i && !out; k++) {
            if (!j->kept[k]) continue;
            const float *other = box_of(j, k);
            out =
                above ? cornered_overlap(box, other) > limit : padded_overlap(other, box) >= limit;
        }
        j->kept[i] = !out;
        if (!out && (above || has_positive(box))) keep(j, i);
    }
}

// Moves the first candidate to its place among those behind it, which are in order.
static void sink(candidate *list, int64_t first, int64_t count)
{
    const candidate moved = list[first];
    int64_t i = first;
    for (; i + 1 < count && before(&list[i + 1], &moved); i++) list[i] = list[i + 1];
    list[i] = moved;
}

static void soft(class_job *j)
{
    const float scale = (float)(-0.5 / j->a->sigma), least = (float)j->a->score;
    // Those that are kept stand in front of the list, in the order in which they were found.
    for (int64_t i = 0; i < j->count && j->found < j->a->keep;) {
        candidate *next = &j->list[i];
        const float had = next->score;
        for (int64_t k = i - 1; k >= next->seen; k--) {
            const float overlap = cornered_overlap(box_of(j, i), box_of(j, k));
            next->score *= expf(scale * overlap * overlap);
            if (next->score <= least) break;
        }
        next->seen = i;
        if (next->score == had) {
            keep(j, i);
            i++;
        } else if (next->score > least) sink(j->list, i, j->count);
        else {
            memmove(next, next + 1, (size_t)(j->count - i - 1) * sizeof *next);
            j->count--;
        }
    }
}

// How NMS v3 computes the overlap of box i with j, which may be better.
static float matrix_overlap(const float *i, const float *j)
{
    const float height = j[YMAX] - j[YMIN], width = j[XMAX] - j[XMIN];
    const float high = fmaxf(-j[YMIN] + i[YMIN], 0) + fmaxf(j[YMAX] - i[YMAX], 0);
    const float wide = fmaxf(-j[XMIN] + i[XMIN], 0) + fmaxf(j[XMAX] - i[XMAX], 0);
    const float shared = fmaxf(height - high, 0) * fmaxf(width - wide, 0);
    const float all = area(j) + area(i) - shared;
    return shared / (all == 0 ? 1 : all);
}

// out[i]: whether one that is better, and of those in `among`, overlaps candidate i too much.
static void find_worse(const class_job *j, const bool *among, bool *out)
{
    const float limit = (float)j->a->overlap;
    for (int64_t i = 0; i < j->count; i++) {
        const candidate *own = &j->list[i];
        out[i] = false;
        for (int64_t k = 0; k < j->count && !out[i]; k++) {
            const candidate *other = &j->list[k];
            const bool better = other->score > own->score
                                || (other->score == own->score && other->from > own->from);
            out[i] = among[k] && better && matrix_overlap(box_of(j, i), box_of(j, k)) > limit;
        }
    }
}

static void refined(class_job *j)
{
    bool *some = j->live, *worse = j->kept, *good = j->rest;
    for (int64_t i = 0; i < j->count; i++) some[i] = true;
    for (int64_t round = 0; round < j->a->rounds; round++) {
        // Good ones have nobody who is better; those that good ones take out have no say any more.
        find_worse(j, some, worse);
        for (int64_t i = 0; i < j->count; i++) good[i] = some[i] && !worse[i];
        find_worse(j, good, worse);
        for (int64_t i = 0; i < j->count; i++) some[i] = some[i] && !worse[i];
    }
    find_worse(j, some, worse);
    for (int64_t i = 0; i < j->count && j->found < j->a->keep; i++)
        if (!worse[i] && j->list[i].score > 0) keep(j, i);
}

static int by_score(const void *a, const void *b)
{
    return before(a, b) ? -1 : before(b, a);
}

static tl_status suppress_boxes_kernel(const tl_run *run, const tl_node *call)
{
    const tl_suppress_attr *a = call->attr;
    const int64_t *s = call->in[1]->shape.dims, n = s[1], classes = s[2];
    const int64_t per_box = call->in[0]->shape.dims[2];
    const size_t bytes = (size_t)n * (sizeof(candidate) + 3 * sizeof(bool));
    (void)run;
    candidate *room = tl_alloc(bytes ? bytes : 1);
    if (!room) return TL_FAIL_NOMEM(bytes);
    bool *flags = (bool *)(room + n);
    for (int64_t line = 0; line < s[0] * classes; line++) {
        const int64_t image = line / classes, kind = line % classes;
        const float *scores = (const float *)tli_data(call->in[1]) + image * n * classes + kind;
        const float *boxes = (const float *)tli_data(call->in[0])
                             + (image * n * per_box + (per_box > 1 ? kind : 0)) * SIDES;
        class_job j = {.a = a,
                       .boxes = boxes,
                       .box_step = per_box * SIDES,
                       .list = room,
                       .live = flags,
                       .kept = flags + n,
                       .rest = flags + 2 * n,
                       .index = (int32_t *)tli_data(call->out[0]) + line * a->keep,
                       .score = (float *)tli_data(call->out[1]) + line * a->keep};
        for (int64_t i = 0; i < n; i++)
            if (scores[i * classes] > (float)a->score)
                room[j.count++] = (candidate){scores[i * classes], (int32_t)i, 0};
        if (j.count) qsort(room, (size_t)j.count, sizeof *room, by_score);
        if (a->candidates) j.count = tl_min_i64(j.count, a->candidates);
        memset(j.index, 0, (size_t)a->keep * sizeof *j.index);
        memset(j.score, 0, (size_t)a->keep * sizeof *j.score);
        switch (a->rule) {
        case TL_SUPPRESS_TILED: tiled(&j); break;
        case TL_SUPPRESS_SOFT: soft(&j); break;
        case TL_SUPPRESS_REFINED: refined(&j); break;
        default: greedy(&j); break;
        }
        ((int32_t *)tli_data(call->out[2]))[line] = (int32_t)j.found;
    }
    tl_free(room);
    return TL_OK;
}

static const tl_kernel rows[] = {
    {TL_OP_match_boxes, TL_F32, match_boxes_kernel, 0},
    {TL_OP_suppress_boxes, TL_F32, suppress_boxes_kernel, 0},
};
const tl_kernels tli_ref_boxes = {rows, TL_COUNT(rows)};
