/* Choices among boxes: who matches whom, who is suppressed. Every comparison is the reference's,
 * bit for bit, of many pairs at a time; most pairs are never looked at. */
#include <math.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>

#include "cpu/scratch.h"
#include "cpu/simd/kernels.h"
#include "cpu/simd/sort_parts.h"
#include "cpu/simd/vec.h"

enum { YMIN, XMIN, YMAX, XMAX, SIDES, AREA = SIDES, COLUMNS };

/* PART boxes have a common hull, and overlaps that lie in 512 bytes of the first-level cache; fewer
 * would miss less of what is around them and ask for more hulls. A task has BLOCK boxes, or ROWS
 * rows of scores: tens of microseconds. TILE is a part of what the op means. */
enum { PART = 128, BLOCK = 4096, ROWS = 4096, TILE = 512 };
_Static_assert(BLOCK % PART == 0 && PART % VF == 0, "parts fill blocks, vectors parts");

TLI_INLINE bool is_padding(const float *b)
{
    return b[YMIN] < 0 && b[XMIN] < 0 && b[YMAX] < 0 && b[XMAX] < 0;
}

TLI_INLINE float area_of(const float *b)
{
    return (b[YMAX] - b[YMIN]) * (b[XMAX] - b[XMIN]);
}

/* One box against VF others, whose columns lie `step` floats apart. */
typedef struct box {
    vf side[COLUMNS];
} box;

TLI_INLINE box box_of(const float *b, float area)
{
    return (box){
        {vf_set1(b[YMIN]), vf_set1(b[XMIN]), vf_set1(b[YMAX]), vf_set1(b[XMAX]), vf_set1(area)}};
}

TLI_INLINE vf shared_area(const box *b, const float *at, int64_t step)
{
    const vf height = vf_sub(vf_min(b->side[YMAX], vf_load(at + YMAX * step)),
                             vf_max(b->side[YMIN], vf_load(at + YMIN * step)));
    const vf width = vf_sub(vf_min(b->side[XMAX], vf_load(at + XMAX * step)),
                            vf_max(b->side[XMIN], vf_load(at + XMIN * step)));
    return vf_mul(vf_max_c(width, vf_zero()), vf_max_c(height, vf_zero()));
}

/* --- match_boxes ------------------------------------------------------------------------------ */

/* Boxes as columns: COLUMNS of `length` floats, then the hulls of their parts. */
typedef struct match_job {
    const tl_match_attr *a;
    const float *boxes, *others;
    int32_t *index, *kind;
    float *overlap;
    float *columns, *hulls;
    int64_t n, m, sets, length, parts, blocks; /* sets: of boxes, 1 or one an image */
    int64_t *first;                            /* of each set: the first box that is not padding */
    float *most;                               /* [image, block, m]: what the others have found */
    int32_t *best;
} match_job;

static float *columns_of(const match_job *j, int64_t set)
{
    return j->columns + set * COLUMNS * j->length;
}

static tl_status make_columns(int64_t begin, int64_t end, void *payload)
{
    const match_job *j = payload;
    for (int64_t set = begin; set < end; set++) {
        const float *boxes = j->boxes + set * j->n * SIDES;
        float *columns = columns_of(j, set);
        j->first[set] = -1;
        for (int64_t i = 0; i < j->length; i++) {
            // Padding, and what lies behind the last box, overlaps nothing.
            const bool real = i < j->n && !is_padding(boxes + i * SIDES);
            for (int side = 0; side < SIDES; side++)
                columns[side * j->length + i] = real          ? boxes[i * SIDES + side]
                                                : side < YMAX ? HUGE_VALF
                                                              : -HUGE_VALF;
            columns[AREA * j->length + i] = real ? area_of(boxes + i * SIDES) : 0;
            if (real && j->first[set] < 0) j->first[set] = i;
        }
        for (int64_t part = 0; part < j->parts; part++) {
            float *hull = j->hulls + (set * j->parts + part) * SIDES;
            for (int side = 0; side < SIDES; side++) {
                const float *x = columns + side * j->length + part * PART;
                float most = x[0];
                for (int64_t i = 1; i < PART; i++)
                    most = side < YMAX ? fminf(most, x[i]) : fmaxf(most, x[i]);
                hull[side] = most;
            }
        }
    }
    return TL_OK;
}

/* What the boxes of a part have found so far. */
typedef struct found {
    float overlap[PART];
    int32_t index[PART];
} found;

// The largest overlap of box `other`, number `number`, with those of a part; all of them in `with`.
TLI_INLINE float match_part(found *f, float *with, const float *columns, int64_t length,
                            const float *other, int32_t number)
{
    const box b = box_of(other, area_of(other));
    vf most = vf_zero();
    for (int64_t i = 0; i < PART; i += VF) {
        const vf shared = shared_area(&b, columns + i, length);
        if (!vm_any(vf_ne(shared, vf_zero()))) {
            vf_store(with + i, vf_zero());
            continue;
        }
        const vf all = vf_sub(vf_add(vf_load(columns + AREA * length + i), b.side[AREA]), shared);
        const vf overlap = vf_drop(vf_eq(shared, vf_zero()), vf_div(shared, all));
        const vf had = vf_load(f->overlap + i);
        const vm more = vf_gt(overlap, had);
        vf_store(with + i, overlap);
        vf_store(f->overlap + i, vf_select(more, overlap, had));
        vi_store(f->index + i, vi_select(more, vi_set1(number), vi_load(f->index + i)));
        most = vf_select(vf_gt(overlap, most), overlap, most);
    }
    return vf_hmax(most);
}

static int32_t kind_of(const tl_match_attr *a, float overlap)
{
    if (overlap < (float)a->padding) return -3;
    if (overlap < (float)a->unmatched) return -1;
    return overlap < (float)a->matched ? -2 : 1;
}

static void put_found(const match_job *j, int64_t image, int64_t set, int64_t from, const found *f)
{
    for (int64_t i = 0; i < PART && from + i < j->n; i++) {
        const bool padding = is_padding(j->boxes + (set * j->n + from + i) * SIDES);
        const int64_t at = image * j->n + from + i;
        j->overlap[at] = padding ? -1 : f->overlap[i];
        j->index[at] = padding ? 0 : f->index[i];
        j->kind[at] = kind_of(j->a, j->overlap[at]);
    }
}

static tl_status match_blocks(int64_t begin, int64_t end, void *payload)
{
    const match_job *j = payload;
    for (int64_t task = begin; task < end; task++) {
        const int64_t image = task / j->blocks, set = j->sets > 1 ? image : 0;
        const float *others = j->others + image * j->m * SIDES;
        float *most = j->most + task * j->m, with[PART];
        int32_t *best = j->best + task * j->m, some = -1;
        for (int64_t k = j->m - 1; k >= 0; k--) {
            most[k] = 0;
            best[k] = (int32_t)j->first[set];
            if (!is_padding(others + k * SIDES)) some = (int32_t)k;
        }
        const int64_t from = task % j->blocks * BLOCK;
        for (int64_t at = from; at < tl_min_i64(from + BLOCK, j->n); at += PART) {
            const float *hull = j->hulls + (set * j->parts + at / PART) * SIDES;
            found f;
            for (int64_t i = 0; i < PART; i++) {
                f.overlap[i] = some < 0 ? -1 : 0;
                f.index[i] = some < 0 ? 0 : some;
            }
            for (int64_t k = 0; k < j->m; k++) {
                const float *b = others + k * SIDES;
                if (!(b[YMAX] > hull[YMIN] && b[XMAX] > hull[XMIN] && b[YMIN] < hull[YMAX]
                      && b[XMIN] < hull[XMAX])
                    || is_padding(b))
                    continue;
                const float top =
                    match_part(&f, with, columns_of(j, set) + at, j->length, b, (int32_t)k);
                if (!(top > most[k])) continue;
                int64_t i = 0;
                while (with[i] != top) i++;
                most[k] = top;
                best[k] = (int32_t)(at + i);
            }
            put_found(j, image, set, at, &f);
        }
    }
    return TL_OK;
}

// Each of the others takes the box that overlaps it most; the first of the others wins.
static void take_best(const match_job *j, int64_t image)
{
    for (int64_t k = j->m - 1; k >= 0; k--) {
        const int64_t first = image * j->blocks * j->m + k;
        int64_t at = first;
        for (int64_t block = 1; block < j->blocks; block++)
            if (j->most[first + block * j->m] > j->most[at]) at = first + block * j->m;
        if (is_padding(j->others + (image * j->m + k) * SIDES) || j->best[at] < 0) continue;
        j->index[image * j->n + j->best[at]] = (int32_t)k;
        j->kind[image * j->n + j->best[at]] = 1;
    }
}

static tl_status match_boxes_kernel(const tl_run *run, const tl_node *call)
{
    const tl_shape *boxes = &call->in[0]->shape, *others = &call->in[1]->shape;
    const int64_t batch = others->dims[0], n = boxes->dims[boxes->rank - 2];
    match_job j = {.a = call->attr,
                   .boxes = tli_data(call->in[0]),
                   .others = tli_data(call->in[1]),
                   .index = tli_data(call->out[0]),
                   .kind = tli_data(call->out[1]),
                   .overlap = tli_data(call->out[2]),
                   .n = n,
                   .m = others->dims[1],
                   .sets = boxes->rank == 3 ? batch : 1};
    if (!n || !batch) return TL_OK;
    j.parts = (n + PART - 1) / PART;
    j.length = j.parts * PART;
    j.blocks = (n + BLOCK - 1) / BLOCK;
    const int64_t tasks = batch * j.blocks;
    const size_t firsts = (size_t)j.sets * sizeof *j.first;
    const size_t columns =
        (size_t)(j.sets * (COLUMNS * j.length + SIDES * j.parts)) * sizeof(float);
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL,
                       firsts + columns + (size_t)(2 * tasks * j.m) * sizeof(float)));
    j.first = room;
    j.columns = (float *)(j.first + j.sets);
    j.hulls = j.columns + j.sets * COLUMNS * j.length;
    j.most = j.hulls + j.sets * SIDES * j.parts;
    j.best = (int32_t *)(j.most + tasks * j.m);
    TL_TRY(tl_parallel_for(run->threads, j.sets, 1, make_columns, &j));
    TL_TRY(tl_parallel_for(run->threads, tasks, 1, match_blocks, &j));
    for (int64_t image = 0; j.a->force && image < batch; image++) take_best(&j, image);
    return TL_OK;
}

/* --- suppress_boxes: who may be kept ---------------------------------------------------------- */

typedef struct suppress_job {
    const tl_suppress_attr *a;
    const float *boxes, *scores;
    int32_t *index, *counts;
    float *kept;
    int64_t batch, n, classes, per_box, chunks;
    int64_t *starts;    /* [image, chunk, class], then their sum: where its entries begin */
    tli_entry *entries; /* of all classes, one behind the other */
    bool fill;          /* else they are counted */
} suppress_job;

TLI_INLINE void offer(const suppress_job *j, int64_t *place, float score, int64_t from)
{
    if (!(score > (float)j->a->score)) return;
    if (j->fill) j->entries[*place] = (tli_entry){~tli_float_key(score), (uint32_t)from};
    (*place)++;
}

static tl_status collect(int64_t begin, int64_t end, void *payload)
{
    const suppress_job *j = payload;
    const vf least = vf_set1((float)j->a->score);
    for (int64_t task = begin; task < end; task++) {
        const int64_t image = task / j->chunks, first = task % j->chunks * ROWS;
        int64_t *places = j->starts + task * j->classes;
        const int64_t last = tl_min_i64(first + ROWS, j->n);
        for (int64_t i = first; i < last; i++) {
            const float *row = j->scores + (image * j->n + i) * j->classes;
            int64_t k = 0;
            for (; k + VF <= j->classes; k += VF) {
                if (!vm_any(vf_gt(vf_load(row + k), least))) continue;
                for (int lane = 0; lane < VF; lane++) offer(j, &places[k + lane], row[k + lane], i);
            }
            for (; k < j->classes; k++) offer(j, &places[k], row[k], i);
        }
    }
    return TL_OK;
}

// Counts of each chunk become the places of its entries: those of a class lie together, in order.
static int64_t lay_out(const suppress_job *j)
{
    int64_t total = 0;
    for (int64_t image = 0; image < j->batch; image++)
        for (int64_t k = 0; k < j->classes; k++)
            for (int64_t chunk = 0; chunk < j->chunks; chunk++) {
                int64_t *start = j->starts + (image * j->chunks + chunk) * j->classes + k;
                const int64_t count = *start;
                *start = total;
                total += count;
            }
    return total;
}

/* --- suppress_boxes: who is ------------------------------------------------------------------- */

/* Boxes that take out others, as columns `step` floats apart; there is room for a vector behind the
 * last one. */
typedef struct crowd {
    float *columns;
    int64_t step, count;
} crowd;

static void join(crowd *w, const float *b, float area)
{
    for (int side = 0; side < SIDES; side++) w->columns[side * w->step + w->count] = b[side];
    w->columns[AREA * w->step + w->count++] = area;
}

/* How overlaps are judged. */
typedef struct measure {
    float limit, tiny; /* tiny: added to the union */
    bool above;        /* overlaps must be above the limit; else they may be the limit */
} measure;

// Whether one of the crowd, from `first` on, takes the box out. `strong`, unless it is NULL, tells
// whether one does that overlaps it by more than a half: all are looked at until then.
TLI_INLINE bool taken_out(const crowd *w, int64_t first, const box *b, measure by, bool *strong)
{
    const vf limit = vf_set1(by.limit), tiny = vf_set1(by.tiny), half = vf_set1(0.5f);
    const bool apart_counts = !by.above && by.limit == 0;
    bool out = false;
    for (int64_t i = first; i < w->count; i += VF) {
        const float *at = w->columns + i;
        const vf shared = shared_area(b, at, w->step);
        if (!apart_counts && !vm_any(vf_gt(shared, vf_zero()))) continue;
        const vf areas = vf_add(vf_load(at + AREA * w->step), b->side[AREA]);
        const vf overlap = vf_div(shared, vf_add(vf_sub(areas, shared), tiny));
        vm hit = by.above ? vf_gt(overlap, limit) : vf_ge(overlap, limit);
        hit = vm_and(hit, vm_first(w->count - i));
        if (!vm_any(hit)) continue;
        out = true;
        if (!strong) return true;
        *strong = vm_any(vm_and(hit, vf_gt(overlap, half)));
        if (*strong) return true;
    }
    return out;
}

/* The candidates of a class, best first. */
typedef struct class_job {
    const suppress_job *j;
    const float *boxes;
    const tli_entry *list;
    int64_t count, found;
    crowd crowd;
    bool *kept; /* tiled: of those of the crowd that are of the present tile */
    int32_t *index;
    float *score;
} class_job;

TLI_INLINE const float *candidate(const class_job *k, int64_t i)
{
    return k->boxes + (int64_t)k->list[i].from * k->j->per_box * SIDES;
}

TLI_INLINE bool has_positive(const float *b)
{
    return b[YMIN] > 0 || b[XMIN] > 0 || b[YMAX] > 0 || b[XMAX] > 0;
}

static void keep(class_job *k, const float *scores, int64_t i)
{
    k->index[k->found] = (int32_t)k->list[i].from;
    k->score[k->found++] = scores[(int64_t)k->list[i].from * k->j->classes];
}

static void suppress_greedily(class_job *k, const float *scores)
{
    const bool above = k->j->a->rule == TL_SUPPRESS_ABOVE;
    const measure by = {(float)k->j->a->overlap, above ? 0 : 1e-8f, above};
    for (int64_t i = 0; i < k->count && k->found < k->j->a->keep; i++) {
        const float *given = candidate(k, i);
        float b[SIDES] = {given[YMIN], given[XMIN], given[YMAX], given[XMAX]};
        for (int side = 0; above && side < YMAX; side++) {
            b[side] = fminf(given[side], given[2 + side]);
            b[2 + side] = fmaxf(given[side], given[2 + side]);
        }
        const float area = area_of(b);
        const box own = box_of(b, area);
        // Without area it overlaps nothing, by this rule.
        const bool empty = above && area <= 0;
        if (!empty && taken_out(&k->crowd, 0, &own, by, NULL)) continue;
        if (!empty) join(&k->crowd, b, area);
        if (above || has_positive(b)) keep(k, scores, i);
    }
}

// Of the crowd, from `first` on, only those remain that are kept.
static void drop_rest(class_job *k, int64_t first)
{
    crowd *w = &k->crowd;
    int64_t to = first;
    for (int64_t i = first; i < w->count; i++) {
        if (!k->kept[i - first]) continue;
        for (int side = 0; side < COLUMNS; side++)
            w->columns[side * w->step + to] = w->columns[side * w->step + i];
        to++;
    }
    w->count = to;
}

static void suppress_tiled(class_job *k, const float *scores)
{
    const measure by = {(float)k->j->a->overlap, 1e-8f, false};
    int64_t tile = 0; // where the present one begins in the crowd
    for (int64_t i = 0; i < k->count && k->found < k->j->a->keep; i++) {
        if (i && i % TILE == 0) {
            drop_rest(k, tile);
            tile = k->crowd.count;
        }
        const float *b = candidate(k, i);
        if (is_padding(b)) continue;
        const float area = area_of(b);
        const box own = box_of(b, area);
        const crowd before = {k->crowd.columns, k->crowd.step, tile};
        bool strong = false;
        if (taken_out(&before, 0, &own, by, NULL)) continue;
        const bool out = taken_out(&k->crowd, tile, &own, by, &strong);
        if (strong) continue;
        k->kept[k->crowd.count - tile] = !out;
        join(&k->crowd, b, area);
        if (!out && has_positive(b)) keep(k, scores, i);
    }
}

static tl_status suppress_classes(int64_t begin, int64_t end, void *payload)
{
    const suppress_job *j = payload;
    for (int64_t line = begin; line < end; line++) {
        const int64_t image = line / j->classes, kind = line % j->classes;
        // Places have moved on to where the entries of their chunks end.
        const int64_t *places = j->starts + image * j->chunks * j->classes + kind;
        const int64_t last = places[(j->chunks - 1) * j->classes];
        const int64_t first = kind    ? places[(j->chunks - 1) * j->classes - 1]
                              : image ? places[-1]
                                      : 0;
        const int64_t count = last - first;
        const int64_t used = j->a->candidates ? tl_min_i64(count, j->a->candidates) : count;
        const int64_t step = used + VF;
        class_job k = {.j = j,
                       .boxes = j->boxes
                                + (image * j->n * j->per_box + (j->per_box > 1 ? kind : 0)) * SIDES,
                       .index = j->index + line * j->a->keep,
                       .score = j->kept + line * j->a->keep};
        const float *scores = j->scores + image * j->n * j->classes + kind;
        memset(k.index, 0, (size_t)j->a->keep * sizeof *k.index);
        memset(k.score, 0, (size_t)j->a->keep * sizeof *k.score);
        j->counts[line] = 0;
        if (!count) continue;
        void *room;
        TL_TRY(tli_scratch(&room, TLI_SCRATCH_TASK,
                           (size_t)count * sizeof(tli_entry)
                               + (size_t)(COLUMNS * step) * sizeof(float) + TILE));
        k.list = tli_sort_entries(j->entries + first, room, count);
        k.count = used;
        k.crowd = (crowd){(float *)((tli_entry *)room + count), step, 0};
        k.kept = (bool *)(k.crowd.columns + COLUMNS * step);
        memset(k.crowd.columns, 0, (size_t)(COLUMNS * step) * sizeof(float));
        if (j->a->rule == TL_SUPPRESS_TILED) suppress_tiled(&k, scores);
        else suppress_greedily(&k, scores);
        j->counts[line] = (int32_t)k.found;
    }
    return TL_OK;
}

static tl_status suppress_boxes_kernel(const tl_run *run, const tl_node *call)
{
    const tl_suppress_attr *a = call->attr;
    const int64_t *s = call->in[1]->shape.dims;
    if (a->rule == TL_SUPPRESS_SOFT || a->rule == TL_SUPPRESS_REFINED)
        return tli_run_reference(run, call);
    suppress_job j = {.a = a,
                      .boxes = tli_data(call->in[0]),
                      .scores = tli_data(call->in[1]),
                      .index = tli_data(call->out[0]),
                      .kept = tli_data(call->out[1]),
                      .counts = tli_data(call->out[2]),
                      .batch = s[0],
                      .n = s[1],
                      .classes = s[2],
                      .per_box = call->in[0]->shape.dims[2],
                      .chunks = tl_max_i64((s[1] + ROWS - 1) / ROWS, 1)};
    const int64_t lines = j.batch * j.classes, tasks = j.batch * j.chunks;
    if (!lines) return TL_OK;
    void *room;
    const size_t starts = (size_t)(tasks * j.classes) * sizeof *j.starts;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL, starts));
    j.starts = room;
    memset(j.starts, 0, starts);
    TL_TRY(tl_parallel_for(run->threads, tasks, 1, collect, &j));
    const size_t bytes = (size_t)lay_out(&j) * sizeof *j.entries;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_PACK, bytes));
    j.entries = room;
    j.fill = true;
    TL_TRY(tl_parallel_for(run->threads, tasks, 1, collect, &j));
    return tl_parallel_for(run->threads, lines, 1, suppress_classes, &j);
}

static const tl_kernel rows[] = {
    {TL_OP_match_boxes, TL_F32, match_boxes_kernel, 0},
    {TL_OP_suppress_boxes, TL_F32, suppress_boxes_kernel, 0},
};
TLI_SIMD_KERNELS(boxes, rows);
