/* What the columns of a table are, by what stands in them. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <tilth/base/vec.h>

#include "data/table_find.h"
#include "data/table_impl.h"

enum {
    USUAL_CATEGORIES = 100,
    MOST_VALUES = 50000, /* different texts of a column that are counted */
    MOST_CLASSES = 1000,
    MOST_MISSING = 10, /* different texts that count as missing targets */
    FEW_INTEGERS = 20, /* different ones up to which a target of integers is one of classes */
    MANY_ROWS = 50     /* from which on a value that occurs once counts as rare */
};
static const char asked_for[] = "as it was asked for";
static const double nearly_all = 0.95, leaning = 2;

/* --- counting --------------------------------------------------------------------------------- */

static void add_number(tli_table_moments *m, double x)
{
    double n = (double)++m->count, d = x - m->mean, step = d / n, spread = d * step * (n - 1);
    if (m->count == 1) m->least = m->most = x;
    m->mean += step;
    m->m3 += spread * step * (n - 2) - 3 * step * m->m2;
    m->m2 += spread;
    m->least = fmin(m->least, x);
    m->most = fmax(m->most, x);
}

static double deviation_of(const tli_table_moments *m)
{
    return m->count ? sqrt(m->m2 / (double)m->count) : 0;
}

/* How far the numbers lean to the right. */
static double lean_of(const tli_table_moments *m)
{
    double variance = m->m2 / (double)m->count;
    return variance > 0 ? m->m3 / (double)m->count / pow(variance, 1.5) : 0;
}

static tl_status count_value(tl_map *map, bool *too_many, tl_str *text, const tl_cell *c,
                             int64_t most)
{
    tl_str_cut(text, 0);
    tl_cell_write(text, c);
    TL_TRY(tl_str_status(text));
    intptr_t before = (intptr_t)tl_map_get(map, tl_str_text(text));
    if (!before && tl_map_count(map) >= most) {
        *too_many = true;
        return TL_OK;
    }
    return tl_map_set(map, tl_str_text(text), (void *)(before + 1));
}

/* First pass: what kinds of cells a column has. */
static void look_at_cell(tli_table_column *k, const tl_table *t, const tl_cell *c)
{
    double value;
    if (tl_cell_number(&value, t, c)) {
        add_number(&k->numbers, value);
        if (value >= 0) add_number(&k->logarithms, tli_table_bend(value));
    } else if (tl_cell_is_missing(c)) {
        k->missing++;
    } else if (tl_cell_days(&value, c)) {
        add_number(&k->dates, value);
    } else if (!k->texts++) {
        k->odd_line = tl_table_line(t);
    }
}

static tl_status look_at_target(tli_table_search *s, const tl_table *t, const tl_cell *c,
                                bool held_out)
{
    tli_table_column *k = &s->columns[s->target];
    double value;
    bool number = tl_cell_number(&value, t, c);
    if (!number && !k->texts++) k->odd_line = tl_table_line(t);
    if (number && value != floor(value)) s->fractions = true;
    s->least = number ? fmin(s->least, value) : s->least;
    s->most = number ? fmax(s->most, value) : s->most;
    if (number && !held_out) add_number(&k->numbers, value);
    return count_value(&s->classes, &s->too_many_classes, &s->text, c, MOST_CLASSES + 1);
}

/* Also in rows that are held out: they are counted as well. */
static void look_whether_it_counts(tli_table_search *s, const tl_table *t, const tl_cell *cells)
{
    for (int64_t i = 0; i < s->count; i++) {
        tli_table_column *k = &s->columns[i];
        double value;
        if (!k->counts_rows) continue;
        k->counts_rows =
            tl_cell_number(&value, t, &cells[i]) && (s->seen == 0 || value == k->last + 1);
        k->last = value;
    }
    s->seen++;
}

/* A text that counts as missing may be meant as a class. */
static tl_status look_at_missing_target(tli_table_search *s, const tl_cell *c)
{
    bool too_many;
    s->without++;
    return c->is_number || !c->length
               ? TL_OK
               : count_value(&s->missing_texts, &too_many, &s->text, c, MOST_MISSING);
}

static tl_status look_at_row(tli_table_search *s, const tl_table *t, const tl_cell *cells,
                             bool second)
{
    if (!second) look_whether_it_counts(s, t, cells);
    if (tl_cell_is_missing(&cells[s->target]))
        return second ? TL_OK : look_at_missing_target(s, &cells[s->target]);
    bool held_out = tl_table_is_held_out(t, cells, s->args->held_out);
    if (!second) {
        s->rows++;
        s->training += !held_out;
        TL_TRY(look_at_target(s, t, &cells[s->target], held_out));
    }
    for (int64_t i = 0; i < s->count && !held_out; i++) {
        tli_table_column *k = &s->columns[i];
        if (i == s->target) continue;
        if (!second) look_at_cell(k, t, &cells[i]);
        else if (k->kind == TLI_COLUMN_CATEGORY && !tl_cell_is_missing(&cells[i]))
            TL_TRY(count_value(&k->values, &k->too_many, &s->text, &cells[i], MOST_VALUES));
    }
    return TL_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

static tl_status take_columns(tli_table_search *s, const tl_table *t)
{
    const tl_table_find_args *a = s->args;
    const char **names = tl_arena_array(s->arena, t->columns, sizeof *names);
    s->columns = tl_arena_array(s->arena, t->columns, sizeof *s->columns);
    if (!names || !s->columns) return TL_ENOMEM;
    s->count = t->columns;
    for (int64_t i = 0; i < t->columns; i++) {
        if (!(names[i] = tl_arena_strdup(s->arena, t->names[i]))) return TL_ENOMEM;
        s->columns[i] = (tli_table_column){.name = names[i], .counts_rows = true};
    }
    s->names = names;
    s->has_header = t->has_header;
    s->delimiter = t->delimiter;
    s->decimal_comma = t->decimal_comma;
    if (t->likely_name && !(s->likely_name = tl_arena_strdup(s->arena, t->likely_name)))
        return TL_ENOMEM;
    TL_TRY_NOTE(tl_table_find(&s->target, t, a->target && *a->target ? a->target : "-1"),
                "task.target");
    int64_t at;
    for (int64_t i = 0; i < a->ignore.count; i++) {
        TL_TRY_NOTE(tl_table_find(&at, t, a->ignore.items[i]), "task.ignore");
        if (at == s->target)
            return TL_FAIL(TL_EINVAL,
                           "task.ignore: '%s' is the target, which is learned; name another column "
                           "as task.target to leave it out",
                           names[at]);
        s->columns[at].why = asked_for;
    }
    for (int64_t i = 0; i < a->categories.count; i++) {
        TL_TRY_NOTE(tl_table_find(&at, t, a->categories.items[i]), "task.categories");
        s->columns[at].forced = true;
    }
    return TL_OK;
}

static tl_status check_columns(const tli_table_search *s, const tl_table *t)
{
    if (t->columns != s->count)
        return TL_FAIL(TL_EINVAL, "'%s' has %" PRId64 " columns, and '%s' has %" PRId64, t->name,
                       t->columns, s->args->paths[0], s->count);
    for (int64_t i = 0; i < s->count; i++)
        if (strcmp(t->names[i], s->names[i]) != 0)
            return TL_FAIL(TL_EINVAL,
                           "column %" PRId64
                           " of '%s' is called '%s', and that of '%s' is called '%s'",
                           i + 1, t->name, t->names[i], s->args->paths[0], s->names[i]);
    return TL_OK;
}

static tl_status look_at_file(tli_table_search *s, int64_t file, bool second)
{
    tl_table *t;
    const tl_cell *cells;
    TL_TRY(tl_table_open(&t, s->args->paths[file], &s->args->table));
    tl_status st = s->columns ? check_columns(s, t) : take_columns(s, t);
    for (bool more = true; st == TL_OK;) {
        st = tl_table_next(t, &cells, &more);
        if (st != TL_OK || !more) break;
        st = look_at_row(s, t, cells, second);
    }
    if (!second) s->not_utf8 += t->not_utf8;
    tl_table_free(&t);
    return st;
}

/* --- classes that are numbers ----------------------------------------------------------------- */

typedef struct number_class {
    const char *text;
    int64_t times;
    double value;
} number_class;

/* Equal numbers side by side, of them what occurs most often first. */
static int compare_numbers(const void *a, const void *b)
{
    const number_class *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    if (x->times != y->times) return x->times > y->times ? -1 : 1;
    return strcmp(x->text, y->text);
}

/* 1, 1.0 and 01 are one class, called as it is written most often. */
static tl_status join_equal_classes(tli_table_search *s)
{
    const tl_table like = {.decimal_comma = s->decimal_comma};
    int64_t count = tl_map_count(&s->classes);
    tl_map joined = TL_MAP_INIT;
    number_class *all = tl_arena_array(s->arena, count + 1, sizeof *all);
    if (!all) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        all[i] = (number_class){.text = tl_map_key(&s->classes, i),
                                .times = (intptr_t)tl_map_at(&s->classes, i)};
        const tl_cell c = {.text = all[i].text, .length = strlen(all[i].text)};
        // of a file that writes them otherwise
        if (!tl_cell_number(&all[i].value, &like, &c)) return TL_OK;
    }
    qsort(all, (size_t)count, sizeof *all, compare_numbers);
    tl_status st = TL_OK;
    for (int64_t i = 0, next; i < count && st == TL_OK; i = next) {
        int64_t times = 0;
        for (next = i; next < count && all[next].value == all[i].value; next++)
            times += all[next].times;
        st = tl_map_set(&joined, all[i].text, (void *)(intptr_t)times);
    }
    tl_map before = s->classes;
    if (st == TL_OK) s->classes = joined;
    tl_map_deinit(st == TL_OK ? &before : &joined);
    return st;
}

/* --- deciding --------------------------------------------------------------------------------- */

/* Numbers of rows as people and programs write them into tables: id, PassengerId, index, row, "",
 * Unnamed: 0. */
static bool is_called_a_counter(const char *name)
{
    static const char *const names[] = {"index", "row", "no",       "no.",  "nr",
                                        "nr.",   "#",   "rownames", "col_0"};
    size_t length = strlen(name);
    if (strncasecmp(name, "unnamed", 7) == 0) return true;
    if (length >= 2 && strcasecmp(name + length - 2, "id") == 0) return true;
    for (int64_t i = 0; i < TL_COUNT(names); i++)
        if (strcasecmp(name, names[i]) == 0) return true;
    return false;
}

static void leave_out(tli_table_column *k, const char *why)
{
    k->kind = TLI_COLUMN_LEFT_OUT;
    k->why = why;
}

static void decide_number(tli_table_column *k, tli_table_moments *m, tli_column_kind kind)
{
    double deviation = deviation_of(m);
    k->kind = kind;
    if (m->least == m->most) leave_out(k, "always the same");
    else if (!(deviation > 0) || !isfinite(deviation) || !isfinite(m->mean))
        leave_out(k, "numbers out of range");
    else if (kind == TLI_COLUMN_NUMBER && k->counts_rows && k->numbers.count > 7
             && is_called_a_counter(k->name))
        leave_out(k, "it counts the rows");
    if (k->kind != TLI_COLUMN_NUMBER || m->least < 0 || !(lean_of(m) > leaning)) return;
    double spread = deviation_of(&k->logarithms);
    k->logarithm = spread > 0 && isfinite(spread) && fabs(lean_of(&k->logarithms)) < lean_of(m) / 2;
}

static void decide_kind(tli_table_column *k)
{
    int64_t there = k->numbers.count + k->dates.count + k->texts;
    if (k->why) leave_out(k, k->why);
    else if (!there) leave_out(k, "it is empty");
    else if (k->forced) k->kind = TLI_COLUMN_CATEGORY;
    else if ((double)k->numbers.count >= nearly_all * (double)there)
        decide_number(k, &k->numbers, TLI_COLUMN_NUMBER);
    else if ((double)k->dates.count >= nearly_all * (double)there)
        decide_number(k, &k->dates, TLI_COLUMN_DATE);
    else k->kind = TLI_COLUMN_CATEGORY;
}

/* Once the values of a category are counted. */
static void decide_category(tli_table_column *k)
{
    int64_t different = tl_map_count(&k->values),
            there = k->numbers.count + k->dates.count + k->texts;
    if (k->kind != TLI_COLUMN_CATEGORY) return;
    if (k->too_many) leave_out(k, "more than 50000 different texts");
    else if (k->forced) return;
    else if (different == 1 && !k->missing) leave_out(k, "always the same");
    else if (different == there && different > 2) leave_out(k, "different in every row");
    else if (different > 2 && different > there / 2) leave_out(k, "different in most rows");
}

/* Of a regression's target. Numbers of rows that are held out may lie anywhere. */
static tl_status check_numbers(const tli_table_search *s, const tli_table_column *k)
{
    const char *file = s->args->paths[0];
    const double mean = k->numbers.mean, deviation = deviation_of(&k->numbers);
    if (!(deviation > 0 && isfinite(deviation)))
        return TL_FAIL(TL_EINVAL,
                       "'%s': the numbers of the column '%s', the target, are all the same in the "
                       "rows to learn from, or out of range",
                       file, k->name);
    const double far = mean - s->least > s->most - mean ? s->least : s->most;
    if (!tli_table_target_fits((far - mean) / deviation))
        return TL_FAIL(
            TL_EINVAL,
            "'%s': the column '%s', the target, has the number %g, too far from those of "
            "the rows to learn from (%g on average, with a deviation of %g); mend it, or "
            "leave its row out",
            file, k->name, far, mean, deviation);
    return TL_OK;
}

static tl_status decide_target(tl_table_kind *out, const tli_table_search *s)
{
    const tli_table_column *k = &s->columns[s->target];
    const char *file = s->args->paths[0];
    int64_t different = tl_map_count(&s->classes);
    bool numbers = k->texts == 0;
    *out = s->args->kind;
    if (!s->rows)
        return TL_FAIL(TL_EINVAL, "'%s' has no row with a value in the column '%s', the target",
                       file, k->name);
    if (different < 2)
        return TL_FAIL(TL_EINVAL,
                       "'%s': the column '%s', the target, always says '%s': there is nothing to "
                       "learn; name another column as target",
                       file, k->name, tl_map_key(&s->classes, 0));
    if (*out == TL_TABLE_AUTO) {
        bool few = different <= FEW_INTEGERS && 2 * different <= s->rows;
        *out = numbers && (s->fractions || !few) ? TL_TABLE_REGRESSION : TL_TABLE_CLASSIFICATION;
    }
    if (*out == TL_TABLE_REGRESSION && !numbers)
        return TL_FAIL(TL_EINVAL,
                       "%s:%" PRId64 ": column '%s': regression needs a number, and this is a text",
                       file, k->odd_line, k->name);
    if (*out == TL_TABLE_CLASSIFICATION
        && (s->too_many_classes || (different > 2 && 2 * different > s->rows)))
        return TL_FAIL(
            TL_EINVAL,
            "'%s': the column '%s', the target, has %s%" PRId64 " different values in %" PRId64
            " rows; classes occur more often. Name another column as target, or kind=regression",
            file, k->name, s->too_many_classes ? "more than " : "",
            s->too_many_classes ? MOST_CLASSES : different, s->rows);
    return *out == TL_TABLE_REGRESSION ? check_numbers(s, k) : TL_OK;
}

/* --- the schema ------------------------------------------------------------------------------- */

typedef struct value {
    const char *text;
    int64_t times;
} value;

static int compare_values(const void *a, const void *b)
{
    const value *x = a, *y = b;
    if (x->times != y->times) return x->times > y->times ? -1 : 1;
    return strcmp(x->text, y->text);
}

/* Numbers by what they are, texts by their bytes. */
static int compare_classes(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    const tl_table plain = {0};
    const tl_cell cx = {.text = x, .length = strlen(x)}, cy = {.text = y, .length = strlen(y)};
    double nx, ny;
    if (tl_cell_number(&nx, &plain, &cx) && tl_cell_number(&ny, &plain, &cy) && nx != ny)
        return nx < ny ? -1 : 1;
    return strcmp(x, y);
}

static tl_status take_values(tl_table_category *out, const tli_table_search *s,
                             const tli_table_column *k)
{
    int64_t count = tl_map_count(&k->values), most = s->args->max_categories;
    value *all = tl_arena_array(s->arena, count + 1, sizeof *all);
    const char **kept = tl_arena_array(s->args->arena, count + 1, sizeof *kept);
    if (!all || !kept) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++)
        all[i] = (value){tl_map_key(&k->values, i), (int64_t)(intptr_t)tl_map_at(&k->values, i)};
    qsort(all, (size_t)count, sizeof *all, compare_values);
    if (most <= 0) most = USUAL_CATEGORIES;
    *out =
        (tl_table_category){.name = tl_arena_strdup(s->args->arena, k->name), .values = {kept, 0}};
    if (!out->name) return TL_ENOMEM;
    for (int64_t i = 0; i < count && i < most; i++) {
        if (all[i].times < 2 && s->training >= MANY_ROWS && out->values.count >= 2) break;
        if (!(kept[out->values.count++] = tl_arena_strdup(s->args->arena, all[i].text)))
            return TL_ENOMEM;
    }
    return TL_OK;
}

/* A list that is being filled; it has room for all columns. */
static bool add_name(tl_strings *list, const tli_table_search *s, const tli_table_column *k)
{
    const char **items = (const char **)(uintptr_t)list->items;
    return (items[list->count++] = tl_arena_strdup(s->args->arena, k->name)) != NULL;
}

static tl_status make_lists(tl_table_schema *out, const tli_table_search *s)
{
    tl_strings *const lists[] = {&out->numbers, &out->dates, &out->logarithms, &out->gaps,
                                 &out->ignored};
    for (int64_t i = 0; i < TL_COUNT(lists); i++) {
        lists[i]->items = tl_arena_array(s->args->arena, s->count + 1, sizeof(char *));
        if (!lists[i]->items) return TL_ENOMEM;
    }
    out->mean.items = tl_arena_array(s->args->arena, s->count + 1, sizeof(double));
    out->stddev.items = tl_arena_array(s->args->arena, s->count + 1, sizeof(double));
    out->categories.items = tl_arena_array(s->args->arena, s->count + 1, sizeof(tl_table_category));
    return out->mean.items && out->stddev.items && out->categories.items ? TL_OK : TL_ENOMEM;
}

static bool add_numbers(tl_table_schema *out, const tli_table_search *s, const tli_table_column *k)
{
    const tli_table_moments *m = k->kind == TLI_COLUMN_DATE ? &k->dates
                                 : k->logarithm             ? &k->logarithms
                                                            : &k->numbers;
    ((double *)(uintptr_t)out->mean.items)[out->mean.count++] = m->mean;
    ((double *)(uintptr_t)out->stddev.items)[out->stddev.count++] = deviation_of(m);
    bool fine = add_name(&out->numbers, s, k);
    if (k->kind == TLI_COLUMN_DATE) fine = fine && add_name(&out->dates, s, k);
    if (k->logarithm) fine = fine && add_name(&out->logarithms, s, k);
    int64_t others =
        k->missing + k->texts + (k->kind == TLI_COLUMN_DATE ? k->numbers.count : k->dates.count);
    return others ? fine && add_name(&out->gaps, s, k) : fine;
}

static tl_status fail_without_inputs(const tli_table_search *s)
{
    int64_t asked = 0;
    for (int64_t i = 0; i < s->count; i++) asked += s->columns[i].why == asked_for;
    return TL_FAIL(
        TL_EINVAL, "'%s' has no column to learn '%s' from: all others are %s", s->args->paths[0],
        s->names[s->target],
        !asked ? "empty, always the same, or different in most rows"
        : asked == s->count - 1
            ? "left out by task.ignore"
            : "left out by task.ignore, empty, always the same, or different in most rows");
}

static tl_status take_inputs(tl_table_schema *out, const tli_table_search *s)
{
    TL_TRY(make_lists(out, s));
    for (int64_t i = 0; i < s->count; i++) {
        const tli_table_column *k = &s->columns[i];
        if (i == s->target) continue;
        if (k->kind == TLI_COLUMN_CATEGORY) {
            tl_table_category *all = out->categories.items;
            TL_TRY(take_values(&all[out->categories.count++], s, k));
        } else if (k->kind == TLI_COLUMN_LEFT_OUT ? !add_name(&out->ignored, s, k)
                                                  : !add_numbers(out, s, k)) {
            return TL_ENOMEM;
        }
    }
    return out->numbers.count || out->categories.count ? TL_OK : fail_without_inputs(s);
}

static tl_status take_target(tl_table_schema *out, const tli_table_search *s)
{
    const tli_table_column *k = &s->columns[s->target];
    int64_t count = tl_map_count(&s->classes);
    if (!(out->target = tl_arena_strdup(s->args->arena, k->name))) return TL_ENOMEM;
    out->target_stddev = 1;
    if (out->kind == TL_TABLE_REGRESSION) {
        out->target_mean = k->numbers.mean;
        out->target_stddev = deviation_of(&k->numbers);
        return TL_OK;
    }
    const char **names = tl_arena_array(s->args->arena, count, sizeof *names);
    if (!names) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++)
        if (!(names[i] = tl_arena_strdup(s->args->arena, tl_map_key(&s->classes, i))))
            return TL_ENOMEM;
    qsort(names, (size_t)count, sizeof *names, compare_classes);
    out->class_names = (tl_strings){names, count};
    return TL_OK;
}

/* --- all of it -------------------------------------------------------------------------------- */

static tl_status check_parts(const tli_table_search *s)
{
    int64_t held_out = s->rows - s->training;
    if (s->training > 0 && (s->args->held_out <= 0 || held_out > 0)) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "'%s' has %" PRId64 " rows, too few to hold some of them out for validation; "
                   "name a table for that, or set another validation_split",
                   s->args->paths[0], s->rows);
}

static tl_status find(tl_table_schema *out, tl_table_findings *found, tli_table_search *s)
{
    bool categories = false;
    for (int64_t i = 0; i < s->args->path_count; i++) TL_TRY(look_at_file(s, i, false));
    if (!s->columns[s->target].texts) TL_TRY(join_equal_classes(s));
    TL_TRY(decide_target(&out->kind, s));
    TL_TRY(check_parts(s));
    for (int64_t i = 0; i < s->count; i++) {
        if (i != s->target) decide_kind(&s->columns[i]);
        categories = categories || (i != s->target && s->columns[i].kind == TLI_COLUMN_CATEGORY);
    }
    for (int64_t i = 0; categories && i < s->args->path_count; i++)
        TL_TRY(look_at_file(s, i, true));
    for (int64_t i = 0; i < s->count; i++)
        if (i != s->target) decide_category(&s->columns[i]);
    TL_TRY(take_target(out, s));
    TL_TRY(take_inputs(out, s));
    *found = (tl_table_findings){
        .rows = s->rows, .held_out = s->rows - s->training, .has_header = s->has_header};
    return tli_table_tell(found, s, out);
}

/* A first line that should have been names may be why. */
static tl_status fail_with_hint(tl_status status, const tli_table_search *s)
{
    tl_str message = TL_STR_INIT;
    tl_str_addf(&message,
                "%s. The first line was taken for a row, though '%.80s' stands above numbers in "
                "it; task.train_data.header=first_line takes it for names of columns",
                tl_error_message(), s->likely_name);
    if (tl_str_status(&message) == TL_OK) status = TL_FAIL(status, "%s", tl_str_text(&message));
    tl_str_deinit(&message);
    return status;
}

tl_status tl_table_schema_find(tl_table_schema *out, tl_table_findings *found,
                               const tl_table_find_args *args)
{
    tli_table_search s = {.args = args, .least = INFINITY, .most = -INFINITY};
    *out = (tl_table_schema){0};
    *found = (tl_table_findings){0};
    if (args->path_count < 1) return TL_FAIL(TL_EINVAL, "no table is named");
    TL_TRY(tl_arena_new(&s.arena));
    tl_status st = find(out, found, &s);
    if (st == TL_EINVAL && s.likely_name) st = fail_with_hint(st, &s);
    for (int64_t i = 0; s.columns && i < s.count; i++) tl_map_deinit(&s.columns[i].values);
    tl_map_deinit(&s.classes);
    tl_map_deinit(&s.missing_texts);
    tl_str_deinit(&s.text);
    tl_arena_free(&s.arena);
    return st;
}
