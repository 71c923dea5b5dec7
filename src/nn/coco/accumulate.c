#include "nn/coco/coco.h"

#include <float.h>
#include <stdlib.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>

enum { RECALLS = 101 };

/* Recall i of those at which precision is looked at, computed as NumPy's linspace does. */
static double recall_at(int i)
{
    return i == RECALLS - 1 ? 1 : i * (1.0 / (RECALLS - 1));
}

/* Best first; equals stay as they came. They lie in one array, so that places can be compared. */
static int by_score(const void *a, const void *b)
{
    const tli_coco_found *x = *(tli_coco_found *const *)a, *y = *(tli_coco_found *const *)b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x > y) - (x < y);
}

/* Object `found` of so many is the first with which this recall is reached, or a later one. */
static bool reaches(int64_t found, int64_t objects, int recall)
{
    return !((double)found / (double)objects < recall_at(recall));
}

/* From the precision after each object that was found. */
static void make_curve(tli_coco_curve *out, double *precision, int64_t found, int64_t objects)
{
    for (int64_t i = found - 1; i > 0; i--)
        if (precision[i] > precision[i - 1]) precision[i - 1] = precision[i];
    out->count = 0;
    if (objects <= RECALLS) {
        for (int64_t i = 0; i < found; i++) out->precision[out->count++] = precision[i];
        return;
    }
    for (int64_t i = 0, at = 0; i < RECALLS; i++) {
        while (at < found && !reaches(at + 1, objects, (int)i)) at++;
        if (at == found) break;
        out->precision[out->count++] = precision[at];
    }
}

/* Of detections with ranks below `limit`, at one area and threshold: the recall, and `room` with
 * the precision after each object that was found, unless it is NULL. Gives how many were. */
static int64_t count_one(double *recall, double *room, tli_coco_found *const *order, int64_t count,
                         int64_t limit, uint64_t bit, int64_t objects)
{
    int64_t right = 0, wrong = 0;
    for (int64_t i = 0; i < count; i++) {
        const tli_coco_found *f = order[i];
        if (f->rank >= limit || f->ignored & bit) continue;
        if (!(f->matched & bit)) {
            wrong++;
            continue;
        }
        right++;
        if (room) room[right - 1] = (double)right / ((double)wrong + (double)right + DBL_EPSILON);
    }
    *recall = (double)right / (double)objects;
    return right;
}

static void count_all(tli_coco_numbers *out, double *room, tli_coco_found *const *order,
                      int64_t count, const int64_t max_detections[3])
{
    double *memory = out->memory;
    for (int a = 0; a < TLI_COCO_AREAS; a++) {
        int64_t objects = out->objects[a];
        for (int t = 0; t < TLI_COCO_THRESHOLDS && objects; t++) {
            uint64_t bit = UINT64_C(1) << (a * TLI_COCO_THRESHOLDS + t);
            int64_t found =
                count_one(&out->recall[a][t], room, order, count, max_detections[2], bit, objects);
            out->curves[a][t].precision = memory;
            make_curve(&out->curves[a][t], room, found, objects);
            memory += tl_min_i64(objects, RECALLS);
            for (int few = 0; a == 0 && few < 2; few++)
                count_one(&out->recall_of_few[few][t], NULL, order, count, max_detections[few], bit,
                          objects);
        }
    }
}

static int64_t count_objects(tli_coco_numbers *out, const tli_coco_class *category)
{
    int64_t found = 0;
    for (int64_t c = 0; c < category->cell_count; c++) {
        const tli_coco_cell *cell = &category->cells[c];
        found += cell->found_count;
        for (int64_t i = 0; i < cell->truth_count; i++)
            for (int a = 0; a < TLI_COCO_AREAS; a++)
                out->objects[a] +=
                    !cell->truths[i]->crowd && !tli_coco_outside(cell->truths[i]->area, a);
    }
    return found;
}

tl_status tli_coco_accumulate(tli_coco_numbers *out, const tli_coco_class *category,
                              const int64_t max_detections[3])
{
    int64_t count = count_objects(out, category), at = 0, values = 1;
    for (int a = 0; a < TLI_COCO_AREAS; a++)
        values += tl_min_i64(out->objects[a], RECALLS) * TLI_COCO_THRESHOLDS;
    out->memory = tl_alloc((size_t)values * sizeof *out->memory);
    if (!out->memory) return TL_FAIL_NOMEM((size_t)values * sizeof *out->memory);
    // Of the precisions there are no more than detections.
    size_t bytes = (size_t)(count + 1) * (sizeof(tli_coco_found *) + sizeof(double));
    double *room = tl_alloc(bytes);
    if (!room) return TL_FAIL_NOMEM(bytes);
    tli_coco_found **order = (tli_coco_found **)(room + count + 1);
    for (int64_t c = 0; c < category->cell_count; c++)
        for (int64_t d = 0; d < category->cells[c].found_count; d++)
            order[at++] = &category->cells[c].found[d];
    qsort(order, (size_t)count, sizeof *order, by_score);
    count_all(out, room, order, count, max_detections);
    tl_free(room);
    return TL_OK;
}

void tli_coco_numbers_deinit(tli_coco_numbers *n)
{
    tl_free(n->memory);
    n->memory = NULL;
}

/* --- the twelve numbers ----------------------------------------------------------------------- */

/* Numbers in the order of NumPy's arrays, one after the other: threshold, then recall, then
 * category, of which those without objects are left out. */
typedef struct stream {
    const tli_coco_numbers *numbers;
    int64_t *known;   /* the categories with objects in this area */
    int64_t *reached; /* of each of them: objects that the recall needs, less one */
    int64_t count, k;
    int area, threshold, recall;
    int few; /* of recalls: the limit; 2 is the last */
} stream;

static double next_precision(stream *s)
{
    const tli_coco_numbers *n = &s->numbers[s->known[s->k]];
    const tli_coco_curve *curve = &n->curves[s->area][s->threshold];
    int64_t *at = &s->reached[s->k], objects = n->objects[s->area];
    if (!s->recall) *at = 0;
    if (objects > RECALLS) *at = s->recall;
    else
        while (*at < curve->count && !reaches(*at + 1, objects, s->recall)) ++*at;
    double value = *at < curve->count ? curve->precision[*at] : 0;
    if (++s->k < s->count) return value;
    s->k = 0;
    if (++s->recall < RECALLS) return value;
    s->recall = 0;
    s->threshold++;
    return value;
}

static double next_recall(stream *s)
{
    const tli_coco_numbers *n = &s->numbers[s->known[s->k]];
    const double *recalls = s->few < 2 ? n->recall_of_few[s->few] : n->recall[s->area];
    double value = recalls[s->threshold];
    if (++s->k < s->count) return value;
    s->k = 0;
    s->threshold++;
    return value;
}

typedef double next_fn(stream *s);

/* NumPy adds in this order, and so the last bits, by which printed digits may differ, are the
 * same. */
static double sum(stream *s, next_fn *next, int64_t count)
{
    enum { LANES = 8, BLOCK = 128 };
    double total = 0, lanes[LANES];
    if (count > BLOCK) {
        int64_t half = count / 2 - count / 2 % LANES;
        total = sum(s, next, half);
        return total + sum(s, next, count - half);
    }
    if (count >= LANES) {
        for (int i = 0; i < LANES; i++) lanes[i] = next(s);
        for (; count >= 2 * LANES; count -= LANES)
            for (int i = 0; i < LANES; i++) lanes[i] += next(s);
        total = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]))
                + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
        count -= LANES;
    }
    for (; count > 0; count--) total += next(s);
    return total;
}

static double mean(stream *s, next_fn *next, int64_t count)
{
    return count ? sum(s, next, count) / (double)count : -1;
}

static void begin(stream *s, const tli_coco_numbers *numbers, int64_t count, int area)
{
    *s = (stream){numbers, s->known, s->reached, .area = area};
    for (int64_t k = 0; k < count; k++)
        if (numbers[k].objects[area]) s->known[s->count++] = k;
}

tl_status tli_coco_summarize(double stats[TL_COCO_STATS], const tli_coco_numbers *numbers,
                             int64_t count)
{
    static const struct {
        int area, threshold, few; /* threshold -1: all of them */
    } what[TL_COCO_STATS] = {{0, -1, 2}, {0, 0, 2},  {0, 5, 2},  {1, -1, 2},
                             {2, -1, 2}, {3, -1, 2}, {0, -1, 0}, {0, -1, 1},
                             {0, -1, 2}, {1, -1, 2}, {2, -1, 2}, {3, -1, 2}};
    size_t bytes = (size_t)(count + 1) * 2 * sizeof(int64_t);
    stream s = {.known = tl_alloc(bytes)};
    if (!s.known) return TL_FAIL_NOMEM(bytes);
    s.reached = s.known + count + 1;
    for (int i = 0; i < TL_COCO_STATS; i++) {
        begin(&s, numbers, count, what[i].area);
        s.few = what[i].few;
        int64_t thresholds = what[i].threshold < 0 ? TLI_COCO_THRESHOLDS : 1;
        if (what[i].threshold > 0) s.threshold = what[i].threshold;
        bool precision = i < TL_COCO_AR1;
        stats[i] = mean(&s, precision ? next_precision : next_recall,
                        s.count * thresholds * (precision ? RECALLS : 1));
    }
    tl_free(s.known);
    return TL_OK;
}
