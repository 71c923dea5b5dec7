#include "tool/runs.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/base/map.h>
#include <tilth/base/vec.h>
#include <tilth/desc/yaml.h>
#include <tilth/train/writers/metrics_file.h>

#include "base/inner/utc.h"

/* JSON takes some twenty times the memory of its text. */
enum { LONGEST_INFO = 1 << 22, LONGEST_LINE = 1 << 22 };

/* --- settings --------------------------------------------------------------------------------- */

typedef struct reader {
    tl_arena *arena;
    tli_past_run *run;
    tl_map curves; /* name to place in the list, and one */
    tl_str name;   /* of the metric that is being read */
    int64_t order;
    int64_t strange;   /* lines that are not understood */
    bool training;     /* between its start and its end */
    double begun, now; /* seconds, of its events */
} reader;

static bool is_where_it_lies(const char *key)
{
    return strcmp(key, "train.output_dir") == 0;
}

/* What chooses the best checkpoint, in the words of Model Garden or of LiBai; a|b is b in a, whose
 * path is a/b. */
static tl_status find_best(reader *r)
{
    tli_past_run *p = r->run;
    static const char *const names[] = {"trainer.best_checkpoint_eval_metric",
                                        "train.evaluation.eval_metric"};
    static const char *const comps[] = {"trainer.best_checkpoint_metric_comp",
                                        "train.evaluation.eval_mode"};
    p->best_metric = "";
    for (int i = 0; i < 2; i++) {
        const char *metric = tli_settings_find(&p->settings, names[i]),
                   *comp = tli_settings_find(&p->settings, comps[i]);
        if (!metric || !*metric || strcmp(metric, "null") == 0) continue;
        char *path = tl_arena_strdup(r->arena, metric);
        if (!path) return TL_ENOMEM;
        for (char *bar = path; (bar = strchr(bar, '|'));) *bar = '/';
        p->best_metric = path;
        p->best_comp = comp && (strcmp(comp, "lower") == 0 || strcmp(comp, "min") == 0)
                           ? TL_METRIC_LOWER
                           : TL_METRIC_HIGHER;
        break;
    }
    return TL_OK;
}

static tl_status read_settings(reader *r)
{
    static const char *const files[] = {"params.yaml", "config.yaml"};
    tli_past_run *p = r->run;
    for (int i = 0; i < TL_COUNT(files); i++) {
        const char *path = tl_path_join(r->arena, p->folder, files[i]);
        const tl_value *v;
        if (!path) return TL_ENOMEM;
        if (!tl_file_exists(path)) continue;
        TL_TRY(tl_yaml_read(&v, r->arena, path));
        TL_TRY(tli_settings_add(&p->settings, v, r->arena));
        p->usable = true;
        break;
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < p->settings.count; i++)
        if (!is_where_it_lies(p->settings.items[i].key))
            p->settings.items[kept++] = p->settings.items[i];
    p->settings.count = kept;
    return find_best(r);
}

/* --- curves ----------------------------------------------------------------------------------- */

static tl_status curve_of(tli_curve **out, reader *r, const char *name)
{
    intptr_t place = (intptr_t)tl_map_get(&r->curves, name);
    if (!place) {
        tli_curve fresh = {.name = tl_arena_strdup(r->arena, name)};
        if (!fresh.name || !TL_VEC_PUSH(&r->run->curves, fresh)) return TL_ENOMEM;
        place = r->run->curves.count;
        TL_TRY(tl_map_set(&r->curves, name, (void *)place));
    }
    *out = &r->run->curves.items[place - 1];
    return TL_OK;
}

static tl_status add_point(reader *r, const char *name, int64_t step, double value)
{
    tli_curve *c;
    TL_TRY(curve_of(&c, r, name));
    return TL_VEC_PUSH(c, ((tli_point){step, value, r->order})) ? TL_OK : TL_ENOMEM;
}

static int by_step(const void *a, const void *b)
{
    const tli_point *p = a, *q = b;
    if (p->step != q->step) return p->step < q->step ? -1 : 1;
    return p->order < q->order ? -1 : p->order > q->order;
}

/* By step; of a step that is there twice the later line counts. */
static void tidy(tli_curve *c)
{
    int64_t kept = 0;
    if (!c->count) return;
    qsort(c->items, (size_t)c->count, sizeof *c->items, by_step);
    for (int64_t i = 0; i < c->count; i++) {
        if (kept && c->items[kept - 1].step == c->items[i].step) kept--;
        c->items[kept++] = c->items[i];
    }
    c->count = kept;
}

static tl_status add_metrics(reader *r, const char *event, int64_t step, json_t *metrics)
{
    bool trained = strcmp(event, "evaluation") != 0;
    const char *name;
    json_t *value;
    json_object_foreach(metrics, name, value)
    {
        if (!json_is_number(value) && !json_is_null(value)) continue;
        tl_str_cut(&r->name, 0);
        if (trained && strncmp(name, "train/", 6) != 0) tl_str_add(&r->name, "train/");
        tl_str_add(&r->name, name);
        TL_TRY(tl_str_status(&r->name));
        TL_TRY(add_point(r, tl_str_text(&r->name), step,
                         json_is_number(value) ? json_number_value(value) : NAN));
    }
    return TL_OK;
}

/* --- metrics.jsonl ---------------------------------------------------------------------------- */

static void add_seconds(tli_past_run *p, double seconds)
{
    if (!isfinite(seconds) || seconds < 0) return;
    p->seconds = isnan(p->seconds) ? seconds : p->seconds + seconds;
}

/* A training that was killed has no end; its last event is as good. */
static void close_training(reader *r)
{
    if (r->training) add_seconds(r->run, r->now - r->begun);
    r->training = false;
}

static bool is_training(json_t *line)
{
    const char *mode = json_string_value(json_object_get(line, "mode"));
    return !mode || strstr(mode, "train");
}

static tl_status note_start(reader *r, json_t *line)
{
    const char *experiment = json_string_value(json_object_get(line, "experiment"));
    if (experiment && !(r->run->experiment = tl_arena_strdup(r->arena, experiment)))
        return TL_ENOMEM;
    if (!is_training(line)) return TL_OK;
    r->training = true;
    r->begun = r->now;
    r->run->finished = false;
    r->run->state = "unfinished";
    return TL_OK;
}

static void note_end(reader *r, json_t *line)
{
    static const char *const states[] = {"done", "signal", "error"};
    const char *reason = json_string_value(json_object_get(line, "reason"));
    tli_past_run *p = r->run;
    if (!is_training(line) || !reason) return;
    add_seconds(p, json_number_value(json_object_get(line, "seconds")));
    r->training = false;
    for (int i = 0; i < TL_COUNT(states); i++)
        if (strcmp(reason, states[i]) == 0) p->state = states[i];
    if (strncmp(reason, "stopped", 7) == 0) p->state = "stopped";
    p->finished = strcmp(p->state, "done") == 0 || strcmp(p->state, "stopped") == 0;
}

static bool has_metrics(const char *event)
{
    return strcmp(event, "train") == 0 || strcmp(event, "summary") == 0
           || strcmp(event, "evaluation") == 0;
}

static tl_status read_event(reader *r, json_t *line)
{
    const char *event = json_string_value(json_object_get(line, "event"));
    json_t *step = json_object_get(line, "step"), *metrics = json_object_get(line, "metrics");
    if (!event || !json_is_integer(step) || json_integer_value(step) < 0) {
        r->strange++;
        return TL_OK;
    }
    bool start = strcmp(event, "start") == 0, measured = has_metrics(event);
    if (start && is_training(line)) close_training(r);
    double now = tli_utc_seconds(json_string_value(json_object_get(line, "time")));
    if (isfinite(now)) r->now = now;
    r->order++;
    r->run->usable = true;
    if (start) return note_start(r, line);
    if (strcmp(event, "end") == 0) note_end(r, line);
    if (!measured) return TL_OK;
    if (json_integer_value(step) > r->run->step) r->run->step = json_integer_value(step);
    if (!json_is_object(metrics)) return TL_OK;
    return add_metrics(r, event, json_integer_value(step), metrics);
}

/* Half a line is what a process leaves that is killed amid it, or has no room on the disk. */
static bool is_cut(const char *line, const json_error_t *error)
{
    return *line == '{' && json_error_code(error) == json_error_premature_end_of_input;
}

/* A line that is no JSON, or too long, is passed over: half of one, or what somebody else has
 * written. */
static tl_status read_lines(reader *r, const char *text, size_t size)
{
    tl_status st = TL_OK;
    for (const char *at = text, *end = text + size, *next; at < end && st == TL_OK; at = next) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
        next = stop + 1;
        if (at == stop) continue;
        json_error_t error;
        bool too_long = stop - at > LONGEST_LINE;
        json_t *line = too_long ? NULL : json_loadb(at, (size_t)(stop - at), 0, &error);
        if (!line && !too_long && is_cut(at, &error))
            TL_LOG_INFO("'%s': a line of " TL_METRICS_FILE " was cut, and is left out",
                        r->run->folder);
        else if (!json_is_object(line)) r->strange++;
        else st = read_event(r, line);
        json_decref(line);
    }
    close_training(r);
    return st;
}

static tl_status read_events(bool *there, reader *r)
{
    const char *path = tl_path_join(r->arena, r->run->folder, TL_METRICS_FILE);
    tl_file_mapping file = TL_FILE_MAPPING_INIT;
    *there = false;
    if (!path) return TL_ENOMEM;
    if (!tl_file_exists(path)) return TL_OK;
    TL_TRY(tl_file_map(&file, path));
    tl_status st = read_lines(r, file.data, file.size);
    tl_file_unmap(&file);
    *there = r->order > 0;
    if (st == TL_OK && r->strange) {
        r->run->problem =
            tl_arena_printf(r->arena, "%s: %" PRId64 " line%s not understood, and left out", path,
                            r->strange, r->strange == 1 ? " is" : "s are");
        if (!r->run->problem) return TL_ENOMEM;
    }
    return st;
}

/* --- runs without it -------------------------------------------------------------------------- */

static tl_status read_json(json_t **out, reader *r, const char *folder, const char *name)
{
    const char *path = tl_path_join(r->arena, folder, name);
    char *text;
    size_t size;
    *out = NULL;
    if (!path) return TL_ENOMEM;
    if (!tl_file_exists(path)) return TL_OK;
    TL_TRY(tl_file_read(&text, &size, path, LONGEST_INFO));
    json_error_t error;
    *out = json_loadb(text, size, 0, &error);
    tl_free(text);
    if (json_is_object(*out)) return TL_OK;
    json_decref(*out);
    *out = NULL;
    return TL_FAIL(TL_EINVAL, "%s: not understood (%s)", path, error.text);
}

/* Those of the best checkpoint are all that is known then. */
static tl_status read_best(reader *r)
{
    tli_past_run *p = r->run;
    const char *subdir = tli_settings_find(&p->settings, "trainer.best_checkpoint_export_subdir");
    if (subdir && !tl_path_stays_inside(subdir)) return TL_OK; // no run that trains says so
    const char *folder = tl_path_join(r->arena, p->folder, subdir && *subdir ? subdir : "best");
    json_t *info;
    tl_status st = TL_OK;
    if (!folder) return TL_ENOMEM;
    TL_TRY(read_json(&info, r, folder, "info.json"));
    if (info) {
        p->step = (int64_t)json_number_value(json_object_get(info, "best_ckpt_global_step"));
        json_object_del(info, "best_ckpt_global_step");
        st = add_metrics(r, "evaluation", p->step, info);
    } else {
        TL_TRY(read_json(&info, r, p->folder, "model_best.json"));
        const char *metric = json_string_value(json_object_get(info, "metric"));
        if (metric) {
            p->step = json_integer_value(json_object_get(info, "iteration")) + 1;
            st = add_point(r, metric, p->step, json_number_value(json_object_get(info, "value")));
        }
    }
    if (info) p->usable = true;
    json_decref(info);
    return st;
}

static tl_status read_experiment(reader *r)
{
    const char *path = tl_path_join(r->arena, r->run->folder, "experiment.txt");
    char *text;
    if (!path) return TL_ENOMEM;
    if (r->run->experiment || !tl_file_exists(path)) return TL_OK;
    TL_TRY(tl_file_read(&text, NULL, path, 4096));
    r->run->experiment = tl_arena_strndup(r->arena, text, strcspn(text, "\n"));
    tl_free(text);
    return r->run->experiment ? TL_OK : TL_ENOMEM;
}

/* --- runs ------------------------------------------------------------------------------------- */

static tl_status no_run(const reader *r)
{
    const char *path = tl_path_join(r->arena, r->run->folder, TL_METRICS_FILE);
    if (!path) return TL_ENOMEM;
    if (!tl_file_exists(path))
        return TL_FAIL(
            TL_ENOTFOUND,
            "'%s' is no folder of a run: it has neither params.yaml nor " TL_METRICS_FILE,
            r->run->folder);
    return TL_FAIL(TL_ENOTFOUND,
                   "'%s' is no folder of a run: it has no params.yaml, and its " TL_METRICS_FILE
                   " %s",
                   r->run->folder, r->strange ? "has no line of one" : "is empty");
}

static tl_status try_read(reader *r)
{
    bool there;
    if (!tl_dir_exists(r->run->folder))
        return TL_FAIL(TL_ENOTFOUND, "'%s': there is no such folder", r->run->folder);
    tl_status settings = read_settings(r);
    if (settings == TL_ENOMEM) return settings;
    tl_error error;
    if (settings != TL_OK) tl_error_save(&error); // the curves may be there all the same
    TL_TRY(read_events(&there, r));
    if (!there) TL_TRY(read_best(r));
    TL_TRY(read_experiment(r));
    if (settings != TL_OK) tl_error_restore(&error);
    return settings == TL_OK && !r->run->usable ? no_run(r) : settings;
}

static void close_reader(reader *r)
{
    tl_map_deinit(&r->curves);
    tl_str_deinit(&r->name);
}

static tl_status read_run(tli_past_run *p, tl_arena *arena, const char *folder)
{
    reader r = {.arena = arena, .run = p, .curves = TL_MAP_INIT, .name = TL_STR_INIT};
    *p = (tli_past_run){
        .folder = folder, .name = folder, .seconds = NAN, .state = "unfinished", .best_metric = ""};
    tl_status st = try_read(&r);
    if (st != TL_OK && st != TL_ENOMEM) {
        p->problem = tl_arena_strdup(arena, tl_error_message());
        tl_error_clear();
        st = p->problem ? TL_OK : TL_ENOMEM;
    }
    for (int64_t i = 0; i < p->curves.count; i++) tidy(&p->curves.items[i]);
    close_reader(&r);
    return st;
}

/* Names are paths without the folders that all have in common, and without slashes at the end. */
static tl_status name_runs(tli_past_runs *runs, tl_arena *arena)
{
    size_t common = 0;
    for (int64_t i = 0; i < runs->count; i++) {
        char *name = tl_arena_strdup(arena, runs->items[i].folder);
        if (!name) return TL_ENOMEM;
        for (size_t n = strlen(name); n > 1 && name[n - 1] == '/'; n--) name[n - 1] = '\0';
        runs->items[i].name = name;
    }
    const char *first = runs->count ? runs->items[0].name : "";
    for (size_t n = 0; first[n]; n++) {
        int64_t i = 1;
        while (i < runs->count && runs->items[i].name[n] == first[n] && runs->items[i].name[n + 1])
            i++;
        if (i < runs->count || !first[n + 1]) break;
        if (first[n] == '/') common = n + 1;
    }
    for (int64_t i = 0; i < runs->count; i++) runs->items[i].name += common;
    return TL_OK;
}

tl_status tli_past_runs_read(tli_past_runs *out, tl_arena *arena, tl_strings folders)
{
    *out = (tli_past_runs){0};
    out->items = tl_arena_array(arena, folders.count ? folders.count : 1, sizeof *out->items);
    if (!out->items) return TL_ENOMEM;
    for (int64_t i = 0; i < folders.count; i++) {
        out->count++;
        TL_TRY(read_run(&out->items[i], arena, folders.items[i]));
    }
    return name_runs(out, arena);
}

void tli_past_runs_free(tli_past_runs *runs)
{
    for (int64_t i = 0; i < runs->count; i++) {
        tli_past_run *p = &runs->items[i];
        for (int64_t k = 0; k < p->curves.count; k++) tl_free(p->curves.items[k].items);
        TL_VEC_FREE(&p->curves);
        TL_VEC_FREE(&p->settings);
    }
    runs->count = 0;
}

tl_status tli_past_run_finished(bool *out, const char *folder)
{
    tl_arena *arena;
    tli_past_run p = {.folder = folder, .state = "", .seconds = NAN};
    reader r = {.run = &p, .curves = TL_MAP_INIT, .name = TL_STR_INIT};
    bool there;
    *out = false;
    TL_TRY(tl_arena_new(&arena));
    r.arena = arena;
    tl_status st = read_events(&there, &r);
    *out = st == TL_OK && p.finished;
    close_reader(&r);
    tli_past_runs_free(&(tli_past_runs){&p, 1});
    tl_arena_free(&arena);
    return st;
}

/* --- metrics ---------------------------------------------------------------------------------- */

const tli_curve *tli_past_run_curve(const tli_past_run *r, const char *name)
{
    for (int64_t i = 0; i < r->curves.count; i++)
        if (strcmp(r->curves.items[i].name, name) == 0) return &r->curves.items[i];
    return NULL;
}

tli_summary tli_curve_summary(const tli_curve *curve, tl_metric_comp comp)
{
    tli_summary s = {.best = NAN, .last = NAN};
    for (int64_t i = 0; curve && i < curve->count; i++) {
        tli_point p = curve->items[i];
        s.last = p.value;
        s.last_step = p.step;
        if (isnan(p.value)) continue;
        if (s.known && !(comp == TL_METRIC_LOWER ? p.value < s.best : p.value > s.best)) continue;
        s.known = true;
        s.best = p.value;
        s.best_step = p.step;
    }
    return s;
}

tl_metric_comp tli_metric_comp_of(const tli_past_runs *runs, const char *metric)
{
    static const char *const lower[] = {"loss", "error",      "mse",  "mae",    "perplexity",
                                        "time", "divergence", "wait", "memory", "norm"};
    for (int64_t i = 0; i < runs->count; i++)
        if (strcmp(runs->items[i].best_metric, metric) == 0) return runs->items[i].best_comp;
    for (int i = 0; i < TL_COUNT(lower); i++)
        if (strstr(metric, lower[i])) return TL_METRIC_LOWER;
    return TL_METRIC_HIGHER;
}

/* What evaluations call so; or else what the training does. */
static const char *full_name(const tli_past_runs *runs, const char *metric)
{
    for (int trained = 0; trained < 2; trained++)
        for (int64_t i = 0; i < runs->count; i++)
            for (int64_t k = 0; k < runs->items[i].curves.count; k++) {
                const char *name = runs->items[i].curves.items[k].name;
                if (trained && strncmp(name, "train/", 6) != 0) continue;
                if (strcmp(trained ? name + 6 : name, metric) == 0) return name;
            }
    return NULL;
}

const char *tli_past_runs_metric(const tli_past_runs *runs)
{
    static const char *const usual[] = {"validation_loss", "training_loss", "total_loss"};
    const char *found = NULL;
    for (int64_t i = 0; i < runs->count && !found; i++)
        if (*runs->items[i].best_metric) found = full_name(runs, runs->items[i].best_metric);
    for (int i = 0; i < TL_COUNT(usual) && !found; i++) found = full_name(runs, usual[i]);
    for (int64_t i = 0; i < runs->count && !found; i++)
        if (runs->items[i].curves.count) found = runs->items[i].curves.items[0].name;
    return found;
}

tl_status tli_past_runs_find(const char **out, const tli_past_runs *runs, const char *metric)
{
    struct {
        const char **items;
        int64_t count, capacity;
    } names = {0};
    tl_str list = TL_STR_INIT;
    tl_status st;
    if ((*out = full_name(runs, metric))) return TL_OK;
    for (int64_t i = 0; i < runs->count; i++)
        for (int64_t k = 0; k < runs->items[i].curves.count; k++) {
            const char *name = runs->items[i].curves.items[k].name;
            int64_t at = 0;
            while (at < names.count && strcmp(names.items[at], name) != 0) at++;
            if (at < names.count) continue;
            if (!TL_VEC_PUSH(&names, name)) goto no_memory;
            tl_str_addf(&list, "%s%s", at ? ", " : "", name);
        }
    const char *near = names.count ? tl_nearest(metric, names.items, names.count) : NULL;
    st = !names.count ? TL_FAIL(TL_ENOTFOUND, "the runs have no metrics yet")
                      : TL_FAIL(TL_ENOTFOUND, "no run has a metric '%.80s'%s%s%s; there are %s",
                                metric, near ? " (did you mean '" : "", near ? near : "",
                                near ? "'?)" : "", tl_str_text(&list));
    TL_VEC_FREE(&names);
    tl_str_deinit(&list);
    return st;
no_memory:
    TL_VEC_FREE(&names);
    tl_str_deinit(&list);
    return TL_ENOMEM;
}

tl_status tli_past_runs_problems(const tli_past_runs *runs)
{
    tl_str all = TL_STR_INIT;
    for (int64_t i = 0; i < runs->count; i++)
        if (runs->items[i].problem)
            tl_str_addf(&all, "%s%s", all.length ? "\n" : "", runs->items[i].problem);
    tl_status st = all.length ? TL_FAIL(TL_EIO, "%s", tl_str_text(&all)) : TL_OK;
    tl_str_deinit(&all);
    return st;
}
