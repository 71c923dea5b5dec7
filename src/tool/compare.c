#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/map.h>
#include <tilth/base/vec.h>
#include <tilth/train/writers/progress.h>

#include "io/inner/json_text.h"
#include "tool/runs.h"

typedef struct comparison {
    tli_run *run;
    tli_past_runs *runs;
    const char **metrics; /* as the curves have them */
    tl_metric_comp *comps;
    int64_t metric_count;
    struct {
        const char **items;
        int64_t count, capacity;
    } keys; /* of settings that differ */
} comparison;

static const char experiment_key[] = "experiment";

static const char *setting_of(const tli_past_run *p, const char *key)
{
    return key == experiment_key ? p->experiment : tli_settings_find(&p->settings, key);
}

/* --- what differs ----------------------------------------------------------------------------- */

/* `both`: two runs that have it differ in it; else it may also be missing in one. */
static bool differs(const comparison *c, const char *key, bool both)
{
    const char *first = NULL;
    bool seen = false;
    for (int64_t i = 0; i < c->runs->count; i++) {
        const tli_past_run *p = &c->runs->items[i];
        // what is unknown is no difference
        if (!p->usable || (key != experiment_key && !p->settings.count)) continue;
        const char *value = setting_of(p, key);
        if (both && !value) continue;
        if (seen && (!first || !value ? first != value : strcmp(first, value) != 0)) return true;
        first = value;
        seen = true;
    }
    return false;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Those that differ in value come first; then those that only some runs have. */
static void sort_keys(comparison *c, int64_t first)
{
    const char **all = c->keys.items + first;
    int64_t count = c->keys.count - first, both = 0;
    for (int64_t i = 0; i < count; i++) {
        const char *key = all[i];
        if (!differs(c, key, true)) continue;
        all[i] = all[both];
        all[both++] = key;
    }
    if (both) qsort(all, (size_t)both, sizeof *all, by_text);
    if (count > both) qsort(all + both, (size_t)(count - both), sizeof *all, by_text);
}

static tl_status find_differences(comparison *c)
{
    tl_map seen = TL_MAP_INIT;
    tl_status st = TL_OK;
    if (differs(c, experiment_key, false) && !TL_VEC_PUSH(&c->keys, experiment_key))
        return TL_ENOMEM;
    int64_t first = c->keys.count;
    for (int64_t i = 0; i < c->runs->count && st == TL_OK; i++) {
        const tli_past_run *p = &c->runs->items[i];
        for (int64_t k = 0; k < p->settings.count && st == TL_OK; k++) {
            const char *key = p->settings.items[k].key;
            if (tl_map_has(&seen, key)) continue;
            st = tl_map_set(&seen, key, &seen);
            if (st == TL_OK && differs(c, key, false) && !TL_VEC_PUSH(&c->keys, key))
                st = TL_ENOMEM;
        }
    }
    tl_map_deinit(&seen);
    sort_keys(c, first);
    return st;
}

/* The shortest end of a key that none of the others has: "learning_rate". */
static const char *short_key(const comparison *c, const char *key)
{
    const char *at = key + strlen(key);
    for (bool alone = false; !alone && at > key;) {
        do at--;
        while (at > key && at[-1] != '.');
        alone = true;
        size_t length = strlen(at);
        for (int64_t i = 0; i < c->keys.count && alone; i++) {
            const char *other = c->keys.items[i];
            size_t n = strlen(other);
            bool ends = n >= length && strcmp(other + n - length, at) == 0
                        && (n == length || other[n - length - 1] == '.');
            alone = other == key || !ends;
        }
    }
    return at;
}

/* --- the order -------------------------------------------------------------------------------- */

typedef struct place {
    tli_past_run run;
    double number;    /* NaN: none, which comes last */
    const char *text; /* where there is no number */
    int64_t order;
} place;

static int by_place(const void *a, const void *b)
{
    const place *p = a, *q = b;
    if (p->run.usable != q->run.usable) return p->run.usable ? -1 : 1;
    if (isnan(p->number) != isnan(q->number)) return isnan(p->number) ? 1 : -1;
    if (p->number < q->number || p->number > q->number) return p->number < q->number ? -1 : 1;
    int texts =
        p->text && q->text ? strcmp(p->text, q->text) : (q->text != NULL) - (p->text != NULL);
    return texts ? texts : p->order < q->order ? -1 : 1;
}

/* A setting by its whole key or the end of it; NULL: there is none. */
static const char *sort_key(const comparison *c, const char *word)
{
    for (int64_t i = 0; i < c->keys.count; i++)
        if (strcmp(c->keys.items[i], word) == 0
            || strcmp(short_key(c, c->keys.items[i]), word) == 0)
            return c->keys.items[i];
    return NULL;
}

static tl_status set_place(place *p, const comparison *c, const char *sort, const char *key,
                           const char *metric)
{
    p->number = NAN;
    p->text = NULL;
    if (metric) {
        tl_metric_comp comp = tli_metric_comp_of(c->runs, metric);
        tli_summary s = tli_curve_summary(tli_past_run_curve(&p->run, metric), comp);
        if (s.known) p->number = comp == TL_METRIC_LOWER ? s.best : -s.best;
    } else if (key) {
        char *end;
        p->text = setting_of(&p->run, key);
        if (p->text) p->number = tl_strtod(p->text, &end);
        if (p->text && (*end || end == p->text)) p->number = NAN;
    } else if (strcmp(sort, "name") == 0) {
        p->text = p->run.name;
    } else {
        p->number = strcmp(sort, "time") == 0 ? p->run.seconds : (double)p->run.step;
    }
    return TL_OK;
}

static tl_status sort_runs(comparison *c, const char *sort)
{
    bool plain =
        sort
        && (strcmp(sort, "name") == 0 || strcmp(sort, "time") == 0 || strcmp(sort, "step") == 0);
    const char *key = sort && !plain ? sort_key(c, sort) : NULL;
    const char *metric = !sort && c->metric_count ? c->metrics[0] : NULL;
    if (!sort && !metric) sort = "name";
    if (sort && !plain && !key && !metric && strcmp(sort, "name") != 0)
        TL_TRY_NOTE(tli_past_runs_find(&metric, c->runs, sort),
                    "--sort: name, time, step, a setting that differs or a metric");
    place *places = tl_arena_array(c->run->arena, c->runs->count, sizeof *places);
    if (!places) return TL_ENOMEM;
    for (int64_t i = 0; i < c->runs->count; i++) {
        places[i].run = c->runs->items[i];
        places[i].order = i;
        TL_TRY(set_place(&places[i], c, sort ? sort : "", key, metric));
    }
    qsort(places, (size_t)c->runs->count, sizeof *places, by_place);
    for (int64_t i = 0; i < c->runs->count; i++) c->runs->items[i] = places[i].run;
    return TL_OK;
}

/* --- for people, and for spreadsheets --------------------------------------------------------- */

static const char *cell(comparison *c, const char *format, double value)
{
    return isnan(value) ? "" : tl_arena_printf(c->run->arena, format, value);
}

enum { MOST_SETTINGS = 12 }; /* in a table for people */

static tl_status add_settings(comparison *c, tli_sheet *t, bool csv)
{
    for (int64_t k = 0; k < c->keys.count && (csv || k < MOST_SETTINGS); k++) {
        tli_column *column;
        const char *key = c->keys.items[k];
        TL_TRY(tli_sheet_add(&column, t, short_key(c, key), key, false));
        for (int64_t i = 0; i < t->rows; i++) {
            const char *value = setting_of(&c->runs->items[i], key);
            column->cells[i] = value ? value : "-";
        }
    }
    return TL_OK;
}

static tl_status add_metric(comparison *c, tli_sheet *t, int64_t m, bool csv)
{
    enum { BEST, AT, LAST, COLUMNS };
    static const char *const whats[] = {"best", "at", "last"};
    const char *number = csv ? "%.17g" : "%.5g", *name = c->metrics[m];
    tl_arena *arena = c->run->arena;
    int64_t first = t->columns.count;
    for (int k = 0; k < COLUMNS; k++) {
        tli_column *column;
        const char *title = k == BEST ? name : whats[k];
        const char *full = tl_arena_printf(arena, "%s %s", name, whats[k]);
        if (!full) return TL_ENOMEM;
        TL_TRY(tli_sheet_add(&column, t, title, full, true));
    }
    for (int64_t i = 0; i < t->rows; i++) {
        tli_summary s =
            tli_curve_summary(tli_past_run_curve(&c->runs->items[i], name), c->comps[m]);
        const char *cells[COLUMNS] = {cell(c, number, s.best), "", cell(c, number, s.last)};
        if (s.known) cells[AT] = tl_arena_printf(arena, "%" PRId64, s.best_step);
        for (int k = 0; k < COLUMNS; k++) {
            if (!cells[k]) return TL_ENOMEM;
            t->columns.items[first + k].cells[i] = cells[k];
        }
    }
    return TL_OK;
}

static const char *time_cell(comparison *c, double seconds, bool csv)
{
    tl_str text = TL_STR_INIT;
    if (isnan(seconds)) return "";
    if (csv) tl_str_addf(&text, "%.3f", seconds);
    else tl_progress_time(&text, seconds);
    const char *copy = tl_str_copy(&text, c->run->arena);
    tl_str_deinit(&text);
    return copy;
}

static tl_status add_progress(comparison *c, tli_sheet *t, bool csv)
{
    tli_column *step, *seconds, *state;
    TL_TRY(tli_sheet_add(&step, t, "step", NULL, true));
    TL_TRY(tli_sheet_add(&seconds, t, "time", "seconds", true));
    TL_TRY(tli_sheet_add(&state, t, "state", NULL, false));
    step = &t->columns.items[t->columns.count - 3];
    seconds = step + 1;
    for (int64_t i = 0; i < t->rows; i++) {
        const tli_past_run *p = &c->runs->items[i];
        step->cells[i] = tl_arena_printf(c->run->arena, "%" PRId64, p->step);
        seconds->cells[i] = time_cell(c, p->seconds, csv);
        state->cells[i] = p->state;
        if (!step->cells[i] || !seconds->cells[i]) return TL_ENOMEM;
    }
    return TL_OK;
}

static tl_status fill_table(comparison *c, tli_sheet *t, bool csv)
{
    tli_column *name;
    while (t->rows < c->runs->count && c->runs->items[t->rows].usable) t->rows++;
    TL_TRY(tli_sheet_add(&name, t, "run", NULL, false));
    for (int64_t i = 0; i < t->rows; i++) name->cells[i] = c->runs->items[i].name;
    for (int64_t m = 0; m < c->metric_count; m++) TL_TRY(add_metric(c, t, m, csv));
    TL_TRY(add_settings(c, t, csv));
    return add_progress(c, t, csv);
}

static tl_status write_table(comparison *c, bool csv)
{
    tli_sheet t = {.arena = c->run->arena};
    tl_status st = fill_table(c, &t, csv);
    if (st == TL_OK && csv) tli_sheet_write_csv(&c->run->text, &t);
    else if (st == TL_OK) tli_sheet_write(&c->run->text, &t, c->run->tool->width);
    if (st == TL_OK && !csv && c->keys.count > MOST_SETTINGS)
        tl_str_addf(&c->run->text,
                    "\n%" PRId64 " more settings differ: --json and --csv show all\n",
                    c->keys.count - MOST_SETTINGS);
    TL_VEC_FREE(&t.columns);
    return st == TL_OK ? tl_str_status(&c->run->text) : st;
}

/* --- for programs ----------------------------------------------------------------------------- */

static void add_curves(tli_json *j, const comparison *c, const tli_past_run *p)
{
    tli_json_begin(j, "metrics", '{');
    for (int64_t i = 0; i < p->curves.count; i++) {
        const char *name = p->curves.items[i].name;
        tli_summary s = tli_curve_summary(&p->curves.items[i], tli_metric_comp_of(c->runs, name));
        tli_json_begin(j, name, '{');
        tli_json_number(j, "best", s.best);
        if (s.known) tli_json_int(j, "best_step", s.best_step);
        tli_json_number(j, "last", s.last);
        tli_json_int(j, "last_step", s.last_step);
        tli_json_end(j, '}');
    }
    tli_json_end(j, '}');
}

static void add_run(tli_json *j, const comparison *c, const tli_past_run *p)
{
    tli_json_begin(j, NULL, '{');
    tli_json_text(j, "name", p->name);
    tli_json_text(j, "folder", p->folder);
    if (p->problem) tli_json_text(j, "problem", p->problem);
    if (p->usable) {
        tli_json_text(j, "experiment", p->experiment);
        tli_json_text(j, "state", p->state);
        tli_json_int(j, "step", p->step);
        tli_json_number(j, "seconds", p->seconds);
        tli_json_begin(j, "settings", '{');
        for (int64_t k = 0; k < c->keys.count; k++)
            if (c->keys.items[k] != experiment_key)
                tli_json_text(j, c->keys.items[k], setting_of(p, c->keys.items[k]));
        tli_json_end(j, '}');
        add_curves(j, c, p);
    }
    tli_json_end(j, '}');
}

static tl_status write_json(comparison *c)
{
    tli_json j = {.out = &c->run->text, .indent = 2};
    tli_json_begin(&j, NULL, '{');
    tli_json_begin(&j, "metrics", '[');
    for (int64_t m = 0; m < c->metric_count; m++) tli_json_text(&j, NULL, c->metrics[m]);
    tli_json_end(&j, ']');
    tli_json_begin(&j, "runs", '[');
    for (int64_t i = 0; i < c->runs->count; i++) add_run(&j, c, &c->runs->items[i]);
    tli_json_end(&j, ']');
    tli_json_end(&j, '}');
    tl_str_addc(&c->run->text, '\n');
    return tl_str_status(&c->run->text);
}

/* --- the command ------------------------------------------------------------------------------ */

static tl_status choose_metrics(comparison *c, tl_strings asked)
{
    const char *usual = tli_past_runs_metric(c->runs);
    c->metric_count = asked.count ? asked.count : usual != NULL;
    c->metrics = tl_arena_array(c->run->arena, c->metric_count + 1, sizeof *c->metrics);
    c->comps = tl_arena_array(c->run->arena, c->metric_count + 1, sizeof *c->comps);
    if (!c->metrics || !c->comps) return TL_ENOMEM;
    c->metrics[0] = usual;
    for (int64_t m = 0; m < asked.count; m++)
        TL_TRY_NOTE(tli_past_runs_find(&c->metrics[m], c->runs, asked.items[m]), "--metric");
    for (int64_t m = 0; m < c->metric_count; m++)
        c->comps[m] = tli_metric_comp_of(c->runs, c->metrics[m]);
    return TL_OK;
}

static tl_status compare_with(comparison *c, const tli_compare_args *args)
{
    TL_TRY(choose_metrics(c, args->metrics));
    TL_TRY(find_differences(c));
    TL_TRY(sort_runs(c, args->sort));
    if (args->layout == TLI_LAYOUT_JSON) return write_json(c);
    return write_table(c, args->layout == TLI_LAYOUT_CSV);
}

tl_status tli_compare(tli_run *run, tli_past_runs *runs, const tli_compare_args *args)
{
    comparison c = {.run = run, .runs = runs};
    tl_status st = compare_with(&c, args);
    TL_VEC_FREE(&c.keys);
    return st;
}

typedef struct compare_flags {
    tl_strings metric;
    const char *sort;
    bool json, csv;
} compare_flags;
static const tl_field compare_fields[] = {
    TL_F(compare_flags, metric,
         .help = "a metric to show; may be repeated. The default is the metric that chooses the "
                 "best checkpoint, or a loss"),
    TL_F(compare_flags, sort, .flags = TL_FIELD_NULLABLE,
         .help = "what the runs are sorted by: name, time, step, a setting that differs, or a "
                 "metric, best first; the default is the first metric"),
    TL_F(compare_flags, json, .help = "a JSON object, with all metrics"),
    TL_F(compare_flags, csv, .help = "values with commas between them, for spreadsheets"),
    TL_F_END,
};
static const tl_desc compare_flags_desc = {
    .name = "compare",
    .help = "flags of `compare`",
    .size = sizeof(compare_flags),
    .fields = compare_fields,
};

static tl_status compare_read(tli_run *run, tli_past_runs *runs, const compare_flags *given)
{
    bool any = false;
    for (int64_t i = 0; i < runs->count; i++) any |= runs->items[i].usable;
    if (!any) return tli_past_runs_problems(runs);
    tli_compare_args args = {.metrics = given->metric,
                             .sort = given->sort,
                             .layout = given->json  ? TLI_LAYOUT_JSON
                                       : given->csv ? TLI_LAYOUT_CSV
                                                    : TLI_LAYOUT_TABLE};
    if (given->csv) run->form = TLI_FORM_DATA;
    TL_TRY(tli_compare(run, runs, &args));
    TL_TRY(tli_tell_now(run));
    return tli_past_runs_problems(runs);
}

static tl_status run_compare(tli_run *run)
{
    const compare_flags *given = run->given[0];
    tli_past_runs runs;
    if (!run->words.count)
        return TL_FAIL(TL_EINVAL, "no run is named: give the folders of some runs");
    if (given->json && given->csv) return TL_FAIL(TL_EINVAL, "--json and --csv cannot be combined");
    tl_status st = tli_past_runs_read(&runs, run->arena, run->words);
    if (st == TL_OK) st = compare_read(run, &runs, given);
    tli_past_runs_free(&runs);
    return st;
}

const tli_command tli_command_compare = {
    .name = "compare",
    .brief = "shows runs side by side: the settings that differ, and their results",
    .usage = "RUN... [flags]\n\n"
             "Each RUN is the folder of a run of `train` or `train_net`. Shows the settings that "
             "differ, the best value of a metric with its step, its last value, the last step, the "
             "time, and how the run ended. A run that cannot be read is reported, and the others "
             "are still shown; the command then ends with 1.",
    .flags = {{"Comparison", &compare_flags_desc}},
    .run = run_compare,
};
