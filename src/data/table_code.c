/* Rows of a table as numbers, by its schema. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/map.h>
#include <tilth/data/table.h>

#include "data/table_impl.h"

/* Standardised numbers lie within so many deviations. */
static const double farthest = 10;

typedef struct number_column {
    bool date, logarithm;
    int64_t gap;   /* which input says that it is missing; -1: none */
    int64_t place; /* in the table that was bound */
} number_column;
typedef struct category_column {
    tl_map codes;
    int32_t first; /* of its codes among all */
    int64_t place;
} category_column;

struct tl_table_coder {
    const tl_table_schema *schema;
    number_column *numbers;
    category_column *categories;
    tl_map classes;
    tl_map class_numbers; /* the same by their numbers, where all are some */
    int64_t target;       /* -1: the table has none */
    tl_arena *arena;
};

/* --- the schema ------------------------------------------------------------------------------- */

static bool is_among(const tl_strings *names, const char *name)
{
    for (int64_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], name) == 0) return true;
    return false;
}

tl_table_widths tl_table_schema_widths(const tl_table_schema *s)
{
    const tl_table_category *categories = s->categories.items;
    tl_table_widths w = {.numbers = s->numbers.count + s->gaps.count,
                         .categories = s->categories.count};
    for (int64_t i = 0; i < s->categories.count; i++) {
        int64_t codes = categories[i].values.count + TL_CATEGORY_VALUES;
        w.entries += codes;
        if (codes > w.largest) w.largest = codes;
    }
    return w;
}

static tl_status number_values(tl_map *out, const tl_strings *values, int64_t from)
{
    for (int64_t i = 0; i < values->count; i++)
        // NULL is: not there
        TL_TRY(tl_map_set(out, values->items[i], (void *)(intptr_t)(from + i + 1)));
    return TL_OK;
}

/* Equal numbers have equal keys. */
static const char *key_of(char key[static 32], double number)
{
    tl_double_text(key, number + 0.0); // -0 is 0
    return key;
}

/* With a point or with a comma, as the table wrote them. */
static bool read_class(double *out, const char *name)
{
    const tl_cell c = {.text = name, .length = strlen(name)};
    return tl_cell_number(out, &(tl_table){0}, &c)
           || tl_cell_number(out, &(tl_table){.decimal_comma = true}, &c);
}

static tl_status number_classes(tl_table_coder *c)
{
    const tl_strings *names = &c->schema->class_names;
    char key[32];
    double number;
    for (int64_t i = 0; i < names->count; i++)
        if (!read_class(&number, names->items[i])) return TL_OK;
    for (int64_t i = 0; i < names->count && read_class(&number, names->items[i]); i++)
        TL_TRY(tl_map_set(&c->class_numbers, key_of(key, number), (void *)(intptr_t)(i + 1)));
    return TL_OK;
}

static tl_status fill(tl_table_coder *c)
{
    const tl_table_schema *s = c->schema;
    const tl_table_category *categories = s->categories.items;
    int64_t gap = s->numbers.count, first = 0;
    c->numbers = tl_arena_array(c->arena, s->numbers.count + 1, sizeof *c->numbers);
    c->categories = tl_arena_array(c->arena, s->categories.count + 1, sizeof *c->categories);
    if (!c->numbers || !c->categories) return TL_ENOMEM;
    for (int64_t i = 0; i < s->numbers.count; i++) {
        const char *name = s->numbers.items[i];
        c->numbers[i] = (number_column){.date = is_among(&s->dates, name),
                                        .logarithm = is_among(&s->logarithms, name),
                                        .gap = is_among(&s->gaps, name) ? gap++ : -1};
    }
    for (int64_t i = 0; i < s->categories.count; i++) {
        c->categories[i].first = (int32_t)first;
        first += categories[i].values.count + TL_CATEGORY_VALUES;
        TL_TRY(number_values(&c->categories[i].codes, &categories[i].values, TL_CATEGORY_VALUES));
    }
    TL_TRY(number_classes(c));
    return number_values(&c->classes, &s->class_names, 0);
}

tl_status tl_table_coder_new(tl_table_coder **out, const tl_table_schema *schema)
{
    tl_arena *arena;
    *out = NULL;
    TL_TRY(tl_arena_new(&arena));
    tl_table_coder *c = tl_arena_alloc(arena, sizeof *c);
    if (!c) {
        tl_arena_free(&arena);
        return TL_ENOMEM;
    }
    *c = (tl_table_coder){.schema = schema, .target = -1, .arena = arena};
    *out = c;
    tl_status st = fill(c);
    if (st != TL_OK) tl_table_coder_free(out);
    return st;
}

void tl_table_coder_free(tl_table_coder **out)
{
    tl_table_coder *c = *out;
    *out = NULL;
    if (!c) return;
    for (int64_t i = 0; c->categories && i < c->schema->categories.count; i++)
        tl_map_deinit(&c->categories[i].codes);
    tl_map_deinit(&c->classes);
    tl_map_deinit(&c->class_numbers);
    tl_arena *arena = c->arena;
    tl_arena_free(&arena);
}

/* --- columns of a table ----------------------------------------------------------------------- */

/* By its name alone: a number would be the place that it had in another table. */
static int64_t place_of(const tl_table *t, const char *name)
{
    int64_t i = 0;
    while (i < t->columns && strcmp(t->names[i], name) != 0) i++;
    return i < t->columns ? i : -1;
}

static tl_status find_input(int64_t *out, const tl_table *t, const char *name)
{
    *out = place_of(t, name);
    if (*out >= 0) return TL_OK;
    const char *near = tl_nearest(name, t->names, t->columns);
    return TL_FAIL(
        TL_ENOTFOUND, "'%s' has no column '%s', which the model needs%s%s%s%s", t->name, name,
        near ? "; is it called '" : "", near ? near : "", near ? "' now?" : "",
        t->has_header || t->is_npy ? "" : "; its first line was not taken for names of columns");
}

tl_status tl_table_coder_bind(tl_table_coder *c, const tl_table *t, bool needs_target)
{
    const tl_table_schema *s = c->schema;
    const tl_table_category *categories = s->categories.items;
    for (int64_t i = 0; i < s->numbers.count; i++)
        TL_TRY(find_input(&c->numbers[i].place, t, s->numbers.items[i]));
    for (int64_t i = 0; i < s->categories.count; i++)
        TL_TRY(find_input(&c->categories[i].place, t, categories[i].name));
    c->target = place_of(t, s->target);
    if (c->target >= 0 || !needs_target) return TL_OK;
    return find_input(&c->target, t, s->target);
}

/* --- rows ------------------------------------------------------------------------------------- */

double tli_table_bend(double value)
{
    return value > 0 ? log1p(value) : value; // goes on below 0, should there be such
}

static void code_number(const tl_table_coder *c, int64_t i, const tl_table *t, const tl_cell *cell,
                        float *out)
{
    const number_column *n = &c->numbers[i];
    const tl_table_schema *s = c->schema;
    double value;
    bool there = n->date ? tl_cell_days(&value, cell) : tl_cell_number(&value, t, cell);
    if (n->gap >= 0) out[n->gap] = there ? 0 : 1;
    out[i] = 0;
    if (!there) return;
    if (n->logarithm) value = tli_table_bend(value);
    value = (value - s->mean.items[i]) / s->stddev.items[i];
    out[i] = (float)(value > farthest ? farthest : value > -farthest ? value : -farthest);
}

/* The number of a value from 1 on, 0 when it is not there. */
static int64_t look_up(const tl_map *map, const tl_cell *cell)
{
    char few[256];
    tl_str text = TL_STR_INIT;
    const char *key = few;
    if (!cell->is_number && cell->length < sizeof few) {
        memcpy(few, cell->text, cell->length);
        few[cell->length] = '\0';
    } else {
        tl_cell_write(&text, cell);
        key = tl_str_text(&text);
    }
    int64_t found = (int64_t)(intptr_t)tl_map_get(map, key);
    tl_str_deinit(&text);
    return found;
}

static int32_t code_category(const category_column *k, const tl_cell *cell)
{
    if (tl_cell_is_missing(cell)) return k->first + TL_CATEGORY_MISSING;
    int64_t found = look_up(&k->codes, cell);
    return k->first + (found ? (int32_t)found - 1 : TL_CATEGORY_OTHER);
}

void tl_table_coder_row(const tl_table_coder *c, const tl_table *t, const tl_cell *cells,
                        float *numbers, int32_t *categories)
{
    for (int64_t i = 0; i < c->schema->numbers.count; i++)
        code_number(c, i, t, &cells[c->numbers[i].place], numbers);
    for (int64_t i = 0; i < c->schema->categories.count; i++)
        categories[i] = code_category(&c->categories[i], &cells[c->categories[i].place]);
}

bool tli_table_target_fits(double target)
{
    return fabs(target) <= FLT_MAX;
}

static tl_status fail_target(const tl_table_coder *c, const tl_table *t, const tl_cell *cell,
                             const char *why)
{
    tl_str text = TL_STR_INIT;
    tl_cell_write(&text, cell);
    tl_status st = TL_FAIL(TL_EINVAL, "%s:%" PRId64 ": column '%s': '%.80s' is %s", t->name,
                           tl_table_line(t), c->schema->target, tl_str_text(&text), why);
    tl_str_deinit(&text);
    return st;
}

tl_status tl_table_coder_target(const tl_table_coder *c, const tl_table *t, const tl_cell *cells,
                                double *out, bool *missing)
{
    const tl_table_schema *s = c->schema;
    *missing = c->target < 0 || tl_cell_is_missing(&cells[c->target]);
    *out = 0;
    if (*missing) return TL_OK;
    const tl_cell *cell = &cells[c->target];
    if (s->kind == TL_TABLE_REGRESSION) {
        if (!tl_cell_number(out, t, cell)) return fail_target(c, t, cell, "no number");
        *out = (*out - s->target_mean) / s->target_stddev;
        if (tli_table_target_fits(*out)) return TL_OK;
        return fail_target(c, t, cell, "too far from the numbers of the training data");
    }
    int64_t found = look_up(&c->classes, cell);
    char key[32];
    if (!found && tl_cell_number(out, t, cell))
        found = (int64_t)(intptr_t)tl_map_get(&c->class_numbers, key_of(key, *out));
    if (!found) return fail_target(c, t, cell, "no class of those that the training data has");
    *out = (double)(found - 1);
    return TL_OK;
}

/* --- parts ------------------------------------------------------------------------------------ */

static uint64_t hash_cell(uint64_t hash, const tl_cell *c)
{
    if (c->is_number) return tl_hash_bytes(hash, &c->number, sizeof c->number);
    return tl_hash_bytes(tl_hash_bytes(hash, c->text, c->length), "", 1);
}

bool tl_table_is_held_out(const tl_table *t, const tl_cell *cells, double share)
{
    uint64_t hash = TL_HASH_SEED;
    if (share <= 0) return false;
    for (int64_t i = 0; i < t->columns; i++) hash = hash_cell(hash, &cells[i]);
    // Rows that differ little have hashes that differ little, until they are mixed.
    hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((hash ^ hash >> 31) >> 11) * 0x1p-53 < share;
}

/* --- all of them ------------------------------------------------------------------------------ */

static bool grow(void *memory, int64_t rows, int64_t width, size_t size)
{
    void *now;
    memcpy(&now, memory, sizeof now);
    if (width == 0) return true;
    if ((size_t)rows > SIZE_MAX / 4 / size / (size_t)width) return false;
    void *more = tl_realloc(now, (size_t)rows * (size_t)width * size);
    if (!more) return false;
    memcpy(memory, &more, sizeof more);
    return true;
}

static tl_status make_room(tl_table_rows *r, bool classes)
{
    if (r->count < r->capacity) return TL_OK;
    int64_t rows = r->capacity ? 2 * r->capacity : 1024;
    if (grow(&r->numbers, rows, r->widths.numbers, sizeof *r->numbers)
        && grow(&r->categories, rows, r->widths.categories, sizeof *r->categories)
        && grow(&r->classes, rows, classes, sizeof *r->classes)
        && grow(&r->targets, rows, !classes, sizeof *r->targets)
        && grow(&r->places, rows, 1, sizeof *r->places)) {
        r->capacity = rows;
        return TL_OK;
    }
    return TL_FAIL(TL_ENOMEM,
                   "the table does not fit into memory: %" PRId64 " rows of %" PRId64
                   " numbers and %" PRId64 " categories",
                   rows, r->widths.numbers, r->widths.categories);
}

static tl_status add_row(tl_table_rows *r, const tl_table_coder *c, const tl_table *t,
                         const tl_cell *cells, int64_t place)
{
    bool classes = c->schema->kind == TL_TABLE_CLASSIFICATION, missing;
    double target;
    TL_TRY(tl_table_coder_target(c, t, cells, &target, &missing));
    if (missing) {
        r->missing++;
        return TL_OK;
    }
    TL_TRY(make_room(r, classes));
    int64_t i = r->count++;
    tl_table_coder_row(c, t, cells, r->numbers ? r->numbers + i * r->widths.numbers : NULL,
                       r->categories ? r->categories + i * r->widths.categories : NULL);
    if (classes) r->classes[i] = (int32_t)target;
    else r->targets[i] = (float)target;
    r->places[i] = place;
    return TL_OK;
}

static tl_status load_file(tl_table_rows *r, tl_table_coder *c, const tl_table_load_args *args,
                           int64_t file)
{
    tl_table *t;
    const tl_cell *cells;
    TL_TRY(tl_table_open(&t, args->paths[file], &args->table));
    tl_status st = tl_table_coder_bind(c, t, true);
    for (bool more = true; st == TL_OK;) {
        st = tl_table_next(t, &cells, &more);
        if (st != TL_OK || !more) break;
        if (args->part != TL_PART_ALL
            && tl_table_is_held_out(t, cells, args->held_out) != (args->part == TL_PART_HELD_OUT))
            continue;
        st = add_row(r, c, t, cells, file << TL_TABLE_LINE_BITS | tl_table_line(t));
    }
    tl_table_free(&t);
    return st;
}

tl_status tl_table_rows_load(tl_table_rows *out, const tl_table_schema *schema,
                             const tl_table_load_args *args)
{
    tl_table_coder *c;
    *out = (tl_table_rows){.widths = tl_table_schema_widths(schema)};
    TL_TRY(tl_table_coder_new(&c, schema));
    tl_status st = TL_OK;
    for (int64_t i = 0; i < args->path_count && st == TL_OK; i++) st = load_file(out, c, args, i);
    tl_table_coder_free(&c);
    if (st != TL_OK) tl_table_rows_deinit(out);
    return st;
}

void tl_table_rows_deinit(tl_table_rows *r)
{
    tl_free(r->numbers);
    tl_free(r->categories);
    tl_free(r->classes);
    tl_free(r->targets);
    tl_free(r->places);
    *r = (tl_table_rows){0};
}
