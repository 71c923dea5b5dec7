#include <tilth/nn/coco.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>

#include "nn/coco/coco.h"

/* --- by category and image -------------------------------------------------------------------- */

typedef struct ids {
    int64_t *items; /* sorted, each once */
    int64_t count;
} ids;

/* An object by the places of its category and image among the ids. */
typedef struct entry {
    const tl_coco_object *object;
    int32_t category, image;
} entry;
typedef struct entries {
    entry *items;
    int64_t count;
} entries;

typedef struct evaluation {
    const tl_coco_args *args;
    int64_t max_detections[3];
    tl_arena *arena; /* of everything here */
    ids images, categories;
    entries truths, found;
    int64_t strange;
    const tl_coco_object **truth_objects; /* in the order of truths */
    tli_coco_found *kept; /* in the order of found, without those beyond the limit */
    tli_coco_cell *cells;
    int64_t cell_count, most_truths;
    tli_coco_class *classes; /* one for each category */
    tli_coco_numbers *numbers;
} evaluation;

static int by_id(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void make_unique(ids *i)
{
    int64_t count = 0;
    qsort(i->items, (size_t)i->count, sizeof *i->items, by_id);
    for (int64_t k = 0; k < i->count; k++)
        if (!k || i->items[k] != i->items[k - 1]) i->items[count++] = i->items[k];
    i->count = count;
}

/* -1: it is not among them. `last` is where the one before was: neighbours are often alike. */
static int32_t find_id(const ids *i, int64_t id, int64_t *last)
{
    if (*last < i->count && i->items[*last] == id) return (int32_t)*last;
    int64_t low = 0, high = i->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (i->items[middle] < id) low = middle + 1;
        else high = middle;
    }
    if (low == i->count || i->items[low] != id) return -1;
    *last = low;
    return (int32_t)low;
}

static tl_status find_ids(evaluation *e, const tl_coco_set *truths)
{
    const tl_coco_args *a = e->args;
    e->images.count = a->images ? a->image_count : truths->images.count;
    e->categories.count = truths->categories.count;
    if (e->images.count > INT32_MAX || e->categories.count > INT32_MAX)
        return TL_FAIL(TL_ELIMIT, "there are more than %d images or categories", INT32_MAX);
    e->images.items = tl_arena_array(e->arena, e->images.count + 1, sizeof(int64_t));
    e->categories.items = tl_arena_array(e->arena, e->categories.count + 1, sizeof(int64_t));
    if (!e->images.items || !e->categories.items) return TL_ENOMEM;
    for (int64_t i = 0; i < e->images.count; i++)
        e->images.items[i] = a->images ? a->images[i] : truths->images.items[i].id;
    for (int64_t i = 0; i < e->categories.count; i++)
        e->categories.items[i] = truths->categories.items[i].id;
    make_unique(&e->images);
    make_unique(&e->categories);
    return TL_OK;
}

/* A stable sort by numbers below `limit`. */
static tl_status sort_entries(entry *to, const entry *from, int64_t count, bool by_image,
                              int64_t limit)
{
    int64_t *starts = tl_alloc_zero((size_t)(limit + 1) * sizeof *starts);
    if (!starts) return TL_FAIL_NOMEM((size_t)(limit + 1) * sizeof *starts);
    for (int64_t i = 0; i < count; i++) starts[(by_image ? from[i].image : from[i].category) + 1]++;
    for (int64_t k = 0; k < limit; k++) starts[k + 1] += starts[k];
    for (int64_t i = 0; i < count; i++)
        to[starts[by_image ? from[i].image : from[i].category]++] = from[i];
    tl_free(starts);
    return TL_OK;
}

/* The objects of images that count, by category, then by image, then as they came. */
static tl_status group(entries *out, evaluation *e, const tl_coco_set *set, int64_t *strange)
{
    int64_t count = set->objects.count, image_at = 0, category_at = 0;
    entry *items = tl_arena_array(e->arena, count + 1, sizeof *items);
    entry *other = tl_alloc((size_t)(count + 1) * sizeof *other);
    tl_status st = items && other ? TL_OK : TL_FAIL_NOMEM((size_t)count * sizeof *other);
    *out = (entries){items, 0};
    for (int64_t i = 0; st == TL_OK && i < count; i++) {
        const tl_coco_object *o = &set->objects.items[i];
        entry n = {.object = o, .image = find_id(&e->images, o->image, &image_at)};
        if (n.image < 0) continue;
        n.category = find_id(&e->categories, o->category, &category_at);
        if (n.category < 0) ++*strange;
        else items[out->count++] = n;
    }
    if (st == TL_OK) st = sort_entries(other, items, out->count, true, e->images.count);
    if (st == TL_OK) st = sort_entries(items, other, out->count, false, e->categories.count);
    tl_free(other);
    return st;
}

/* --- cells ------------------------------------------------------------------------------------ */

static int by_score(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->object->score != y->object->score) return x->object->score > y->object->score ? -1 : 1;
    return (x->object > y->object) - (x->object < y->object); // as they came
}

static bool is_in(const entries *list, int64_t at, const entry *cell)
{
    return at < list->count && list->items[at].category == cell->category
           && list->items[at].image == cell->image;
}

/* Cells in order of category and image; `kept` gets their best detections, which follow each
 * other. */
static void make_cells(evaluation *e)
{
    int64_t t = 0, f = 0, kept = 0;
    while (t < e->truths.count || f < e->found.count) {
        const entry *a = t < e->truths.count ? &e->truths.items[t] : NULL;
        const entry *b = f < e->found.count ? &e->found.items[f] : NULL;
        bool truth_first = a
                           && (!b || a->category < b->category
                               || (a->category == b->category && a->image <= b->image));
        entry first = truth_first ? *a : *b;
        tli_coco_class *class = &e->classes[first.category];
        tli_coco_cell *cell = &e->cells[e->cell_count++];
        if (!class->cells) class->cells = cell;
        class->cell_count++;
        *cell = (tli_coco_cell){.found = e->kept + kept, .truths = e->truth_objects + t};
        for (; is_in(&e->truths, t, &first); t++) {
            e->truth_objects[t] = e->truths.items[t].object;
            class->crowds += e->truth_objects[t]->crowd;
            cell->truth_count++;
        }
        class->truths += cell->truth_count;
        e->most_truths = tl_max_i64(e->most_truths, cell->truth_count);
        entry *best = e->found.items + f;
        int64_t count = 0;
        while (is_in(&e->found, f, &first)) f++, count++;
        qsort(best, (size_t)count, sizeof *best, by_score);
        cell->found_count = tl_min_i64(count, e->max_detections[2]);
        for (int64_t i = 0; i < cell->found_count; i++)
            e->kept[kept++] = (tli_coco_found){
                .object = best[i].object, .score = best[i].object->score, .rank = (int32_t)i};
    }
}

static tl_status prepare(evaluation *e, const tl_coco_set *truths, const tl_coco_set *found)
{
    int64_t unknown = 0;
    TL_TRY(find_ids(e, truths));
    TL_TRY(group(&e->truths, e, truths, &unknown));
    TL_TRY(group(&e->found, e, found, &e->strange));
    int64_t most_cells = e->truths.count + e->found.count;
    e->truth_objects = tl_arena_array(e->arena, e->truths.count + 1, sizeof *e->truth_objects);
    e->kept = tl_arena_array(e->arena, e->found.count + 1, sizeof *e->kept);
    e->cells = tl_arena_array(e->arena, most_cells + 1, sizeof *e->cells);
    e->classes = tl_arena_array(e->arena, e->categories.count + 1, sizeof *e->classes);
    e->numbers = tl_arena_array(e->arena, e->categories.count + 1, sizeof *e->numbers);
    if (!e->truth_objects || !e->kept || !e->cells || !e->classes || !e->numbers) return TL_ENOMEM;
    make_cells(e);
    return TL_OK;
}

/* --- the work --------------------------------------------------------------------------------- */

enum { CELLS_AT_ONCE = 64 };

static tl_status match_cells(int64_t begin, int64_t end, void *payload)
{
    evaluation *e = payload;
    tli_coco_scratch *s;
    TL_TRY(tli_coco_scratch_new(&s, e->most_truths));
    for (int64_t i = begin; i < end; i++) tli_coco_match(&e->cells[i], s, e->args->masks);
    tli_coco_scratch_free(&s);
    return TL_OK;
}

static tl_status accumulate_classes(int64_t begin, int64_t end, void *payload)
{
    evaluation *e = payload;
    for (int64_t k = begin; k < end; k++)
        TL_TRY(tli_coco_accumulate(&e->numbers[k], &e->classes[k], e->max_detections));
    return TL_OK;
}

static tl_status refuse_without_masks(const entries *list, const char *what)
{
    for (int64_t i = 0; i < list->count; i++)
        if (!list->items[i].object->mask.counts)
            return TL_FAIL(TL_EINVAL, "%s of image %" PRId64 " has no mask", what,
                           list->items[i].object->image);
    return TL_OK;
}

static tl_status set_limits(evaluation *e)
{
    static const int64_t usual[3] = {1, 10, 100};
    const int64_t *given = e->args->max_detections;
    memcpy(e->max_detections, given[0] || given[1] || given[2] ? given : usual, sizeof usual);
    const int64_t *m = e->max_detections;
    if (m[0] >= 1 && m[0] <= m[1] && m[1] <= m[2] && m[2] <= INT32_MAX) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "max_detections are three numbers from 1 on that rise, not %" PRId64 ", %" PRId64
                   ", %" PRId64,
                   m[0], m[1], m[2]);
}

static int by_category_id(const void *a, const void *b)
{
    const tl_coco_category *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static tl_status tell_categories(tl_coco_result *r, const evaluation *e, const tl_coco_set *truths)
{
    r->category_count = e->categories.count;
    r->categories = tl_arena_array(r->arena, r->category_count + 1, sizeof *r->categories);
    size_t count = (size_t)truths->categories.count;
    tl_coco_category *named = tl_arena_array(e->arena, (int64_t)count + 1, sizeof *named);
    if (!r->categories || !named) return TL_ENOMEM;
    if (count) memcpy(named, truths->categories.items, count * sizeof *named);
    qsort(named, count, sizeof *named, by_category_id);
    for (int64_t k = 0; k < r->category_count; k++) {
        const tli_coco_class *class = &e->classes[k];
        tl_coco_category_result *c = &r->categories[k];
        c->id = e->categories.items[k];
        const tl_coco_category *of =
            bsearch(&(tl_coco_category){.id = c->id}, named, count, sizeof *named, by_category_id);
        c->name = tl_arena_strdup(r->arena, of->name);
        if (!c->name) return TL_ENOMEM;
        c->objects = class->truths - class->crowds;
        TL_TRY(tli_coco_summarize(c->stats, &e->numbers[k], 1));
    }
    for (int64_t i = 0; i < e->found.count; i++)
        r->categories[e->found.items[i].category].detections++;
    return TL_OK;
}

static tl_status tell(tl_coco_result *r, const evaluation *e, const tl_coco_set *truths)
{
    TL_TRY(tli_coco_summarize(r->stats, e->numbers, e->categories.count));
    memcpy(r->max_detections, e->max_detections, sizeof r->max_detections);
    r->images = e->images.count;
    r->detections = e->found.count;
    r->strange = e->strange;
    for (int64_t k = 0; k < e->categories.count; k++) {
        r->objects += e->classes[k].truths - e->classes[k].crowds;
        r->crowds += e->classes[k].crowds;
    }
    return e->args->per_category ? tell_categories(r, e, truths) : TL_OK;
}

static tl_status evaluate(tl_coco_result *r, evaluation *e, const tl_coco_set *truths,
                          const tl_coco_set *found)
{
    TL_TRY(set_limits(e));
    TL_TRY(prepare(e, truths, found));
    if (e->args->masks) {
        TL_TRY(refuse_without_masks(&e->truths, "an object"));
        TL_TRY(refuse_without_masks(&e->found, "a detection"));
    }
    TL_TRY(tl_parallel_for(e->args->pool, e->cell_count, CELLS_AT_ONCE, match_cells, e));
    TL_TRY(tl_parallel_for(e->args->pool, e->categories.count, 1, accumulate_classes, e));
    return tell(r, e, truths);
}

tl_status tl_coco_evaluate(tl_coco_result **out, const tl_coco_set *truths,
                           const tl_coco_set *found, const tl_coco_args *args)
{
    evaluation e = {.args = args};
    tl_arena *arena;
    *out = NULL;
    TL_TRY(tl_arena_new(&arena));
    tl_coco_result *r = tl_arena_alloc(arena, sizeof *r);
    tl_status st = r ? tl_arena_new(&e.arena) : TL_ENOMEM;
    if (st == TL_OK) {
        r->arena = arena;
        st = evaluate(r, &e, truths, found);
        for (int64_t k = 0; e.numbers && k < e.categories.count; k++)
            tli_coco_numbers_deinit(&e.numbers[k]);
        tl_arena_free(&e.arena);
    }
    if (st != TL_OK) tl_arena_free(&arena);
    else *out = r;
    return st;
}

void tl_coco_result_free(tl_coco_result **result)
{
    if (!*result) return;
    tl_arena *arena = (*result)->arena;
    tl_arena_free(&arena);
    *result = NULL;
}

/* --- for people ------------------------------------------------------------------------------- */

tl_status tl_coco_result_text(tl_str *out, const tl_coco_result *result)
{
    static const struct {
        const char *overlap, *area;
        int limit;
    } lines[TL_COCO_STATS] = {
        {"0.50:0.95", "all", 2},   {"0.50", "all", 2},         {"0.75", "all", 2},
        {"0.50:0.95", "small", 2}, {"0.50:0.95", "medium", 2}, {"0.50:0.95", "large", 2},
        {"0.50:0.95", "all", 0},   {"0.50:0.95", "all", 1},    {"0.50:0.95", "all", 2},
        {"0.50:0.95", "small", 2}, {"0.50:0.95", "medium", 2}, {"0.50:0.95", "large", 2},
    };
    for (int i = 0; i < TL_COCO_STATS; i++)
        tl_str_addf(out, " %-18s %s @[ IoU=%-9s | area=%6s | maxDets=%3" PRId64 " ] = %.3f\n",
                    i < TL_COCO_AR1 ? "Average Precision" : "Average Recall",
                    i < TL_COCO_AR1 ? "(AP)" : "(AR)", lines[i].overlap, lines[i].area,
                    result->max_detections[lines[i].limit], result->stats[i]);
    return tl_str_status(out);
}
