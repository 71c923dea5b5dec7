#include <tilth/train/run/exporter.h>

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/io/checkpoint/manager.h>

#include "io/inner/checkpoint_manager.h"
#include "io/inner/json_text.h"
#include "train/run/metric_name.h"

#define NAME "best_ckpt"
#define STEP_KEY "best_ckpt_global_step"

enum { LONGEST_INFO = 1 << 22, DEEPEST = 64, INDENT = 4, LONGEST_VECTOR = 1 << 16 };

struct tl_exporter {
    tl_arena *arena;
    const char *dir, *metric, *best_metric, *info; /* "best_accuracy"; DIR/info.json */
    tl_metric_comp comp;
    tl_logs *best;         /* NULL before the first */
    tl_str path;           /* of its checkpoint */
    const tl_notes *notes; /* or NULL */
};

/* --- info.json, written ----------------------------------------------------------------------- */

/* Laid out as Python's json does it with an indent of 4, as the original's is; but what is not
 * finite is null, since JSON has no such numbers. */
typedef struct writer {
    tli_json json;
    tl_status status;
} writer;

static void add_vector(writer *w, const char *name, const tl_tensor *t)
{
    int64_t count = tl_tensor_count(t);
    double *values = tl_alloc((size_t)(count ? count : 1) * sizeof *values);
    tl_status st = values ? tl_tensor_get_doubles(t, values, count) : TL_FAIL_NOMEM(count * 8);
    tli_json_begin(&w->json, name, '[');
    for (int64_t i = 0; st == TL_OK && i < count; i++) tli_json_number(&w->json, NULL, values[i]);
    tli_json_end(&w->json, ']');
    tl_free(values);
    if (w->status == TL_OK) w->status = st;
}

static void add_logs(writer *w, const tl_logs *logs);

// Images, histograms, text and tensors of more than one axis are left out.
static void add_entry(writer *w, const tl_logs_entry *e)
{
    double number;
    if (e->kind == TL_LOGS_LOGS) {
        tli_json_begin(&w->json, e->name, '{');
        add_logs(w, e->logs);
        tli_json_end(&w->json, '}');
    } else if (e->kind == TL_LOGS_NUMBER) {
        tl_status st = tl_logs_entry_number(&number, e);
        if (w->status == TL_OK) w->status = st;
        if (st == TL_OK) tli_json_number(&w->json, e->name, number);
    } else if (e->kind == TL_LOGS_TENSOR && e->tensor->shape.rank <= 1
               && tl_tensor_count(e->tensor) <= LONGEST_VECTOR) {
        add_vector(w, e->name, e->tensor);
    }
}

static void add_logs(writer *w, const tl_logs *logs)
{
    if (w->json.depth > DEEPEST && w->status == TL_OK)
        w->status = TL_FAIL(TL_ELIMIT, "metrics are nested more than %d deep", DEEPEST);
    if (w->status != TL_OK) return;
    for (int64_t i = 0; i < tl_logs_count(logs); i++) {
        tl_logs_entry e;
        tl_logs_at(&e, logs, i);
        if (w->json.depth > 1 || strcmp(e.name, STEP_KEY) != 0) add_entry(w, &e);
    }
}

static tl_status write_info(const tl_exporter *e, const tl_logs *logs, int64_t step)
{
    tl_str text = TL_STR_INIT;
    writer w = {.json = {.out = &text, .indent = INDENT, .ascii = true}};
    tli_json_begin(&w.json, NULL, '{');
    add_logs(&w, logs);
    tli_json_number(&w.json, STEP_KEY, (double)step);
    tli_json_end(&w.json, '}');
    tl_str_addc(&text, '\n');
    tl_status st = w.status == TL_OK ? tl_str_status(&text) : w.status;
    if (st == TL_OK) st = tl_file_write_atomic(e->info, tl_str_text(&text), text.length);
    tl_str_deinit(&text);
    return st;
}

/* --- info.json, read -------------------------------------------------------------------------- */

static tl_status logs_from_json(tl_logs *into, json_t *object, int depth)
{
    const char *name;
    json_t *value;
    if (depth > DEEPEST) return TL_FAIL(TL_ELIMIT, "metrics are nested more than %d deep", DEEPEST);
    json_object_foreach(object, name, value)
    {
        tl_logs *sub;
        if (json_is_object(value)) {
            TL_TRY(tl_logs_sub(&sub, into, name));
            TL_TRY(logs_from_json(sub, value, depth + 1));
        } else if (json_is_number(value)) {
            TL_TRY(tl_logs_put(into, name, json_number_value(value)));
        } else if (json_is_null(value)) {
            TL_TRY(tl_logs_put(into, name, NAN));
        }
    }
    return TL_OK;
}

// What a copy of the logs keeps: numbers, read now.
static tl_status copy_numbers(tl_logs *into, const tl_logs *from, int depth)
{
    if (depth > DEEPEST) return TL_FAIL(TL_ELIMIT, "metrics are nested more than %d deep", DEEPEST);
    for (int64_t i = 0; i < tl_logs_count(from); i++) {
        tl_logs_entry e;
        tl_logs *sub;
        double number;
        tl_logs_at(&e, from, i);
        if (e.kind == TL_LOGS_LOGS) {
            TL_TRY(tl_logs_sub(&sub, into, e.name));
            TL_TRY(copy_numbers(sub, e.logs, depth + 1));
        } else if (e.kind == TL_LOGS_NUMBER) {
            TL_TRY(tl_logs_entry_number(&number, &e));
            TL_TRY(tl_logs_put(into, e.name, number));
        }
    }
    return TL_OK;
}

static tl_status parse_info(tl_logs **out, const tl_exporter *e, const char *text, size_t size)
{
    json_error_t error;
    json_t *object = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    tl_status st = TL_OK;
    if (!json_is_object(object))
        st = TL_FAIL(TL_EINVAL, "%s: not understood (%s); remove it to forget the best checkpoint",
                     e->info, object ? "it is no object" : error.text);
    if (st == TL_OK) st = tl_logs_new(out);
    if (st == TL_OK) st = logs_from_json(*out, object, 0);
    if (st != TL_OK) tl_logs_free(out);
    json_decref(object);
    return st;
}

static void set_path(tl_str *out, const tl_exporter *e, int64_t step)
{
    tl_str_cut(out, 0);
    tl_str_addf(out, "%s/" NAME "-%" PRId64 TL_CHECKPOINT_SUFFIX, e->dir, step);
}

/* The best one so far, in e->path: a file of ours, or the latest bundle, whose number Model Garden
 * counts otherwise. */
static tl_status find_best(bool *there, tl_exporter *e, int64_t step)
{
    tl_arena *arena;
    const char *found = NULL;
    bool bundle;
    TL_TRY(tl_arena_new(&arena));
    set_path(&e->path, e, step);
    tl_status st = tl_str_status(&e->path);
    *there = st == TL_OK && tl_file_exists(tl_str_text(&e->path));
    if (st == TL_OK && !*there) {
        st = tl_checkpoint_locate(&found, &bundle, arena, e->dir);
        *there = st == TL_OK && bundle;
    }
    if (*there && found) {
        tl_str_cut(&e->path, 0);
        tl_str_add(&e->path, found);
        st = tl_str_status(&e->path);
    }
    tl_arena_free(&arena);
    if (st == TL_ENOTFOUND) tl_error_clear();
    return st == TL_ENOTFOUND ? TL_OK : st;
}

/* Metrics whose checkpoint is gone are forgotten: otherwise no checkpoint might ever be better
 * again. */
static tl_status load_info(tl_exporter *e)
{
    char *text;
    size_t size;
    double step, value;
    if (!tl_file_exists(e->info)) return TL_OK;
    TL_TRY(tl_file_read(&text, &size, e->info, LONGEST_INFO));
    tl_status st = parse_info(&e->best, e, text, size);
    tl_free(text);
    TL_TRY(st);
    step = tl_logs_number_or(e->best, STEP_KEY, NAN);
    bool there = isfinite(step);
    if (there) TL_TRY(find_best(&there, e, (int64_t)step));
    if (tli_metric_get(&value, e->best, e->metric) != TL_OK) {
        TL_LOG_WARNING("%s has no '%s': the search for the best checkpoint starts anew", e->info,
                       e->metric);
    } else if (!there) {
        TL_LOG_WARNING("%s names step %g, whose checkpoint is missing: the search for the best one "
                       "starts anew",
                       e->info, step);
    } else {
        return TL_OK;
    }
    tl_logs_free(&e->best);
    tl_str_cut(&e->path, 0);
    return TL_OK;
}

/* --- making ----------------------------------------------------------------------------------- */

static tl_status begin(tl_exporter *e, const tl_exporter_args *args)
{
    TL_TRY(tl_arena_new(&e->arena));
    e->comp = args->comp;
    e->dir = tl_arena_strdup(e->arena, args->dir);
    e->metric = tl_arena_strdup(e->arena, args->metric);
    e->best_metric = tl_arena_printf(e->arena, "best_%s", args->metric);
    e->info = tl_path_join(e->arena, args->dir, "info.json");
    if (!e->dir || !e->metric || !e->best_metric || !e->info) return TL_ENOMEM;
    return load_info(e);
}

tl_status tl_exporter_new(tl_exporter **out, const tl_exporter_args *args)
{
    *out = NULL;
    if (!args->dir || !*args->dir)
        return TL_FAIL(TL_EINVAL, "the best checkpoint needs a folder, and none is given");
    if (!args->metric || !*args->metric)
        return TL_FAIL(TL_EINVAL, "the best checkpoint needs a metric, and none is given");
    tl_exporter *e = tl_alloc_zero(sizeof *e);
    if (!e) return TL_FAIL_NOMEM(sizeof *e);
    tl_status st = begin(e, args);
    if (st != TL_OK) tl_exporter_free(&e);
    *out = e;
    return st;
}

void tl_exporter_free(tl_exporter **e)
{
    if (!*e) return;
    tl_logs_free(&(*e)->best);
    tl_str_deinit(&(*e)->path);
    tl_arena_free(&(*e)->arena);
    tl_free(*e);
    *e = NULL;
}

void tl_exporter_set_notes(tl_exporter *e, const tl_notes *notes)
{
    e->notes = notes;
}

tl_status tl_maybe_create_best_ckpt_exporter(tl_exporter **out, const tl_trainer_config *params,
                                             const char *model_dir)
{
    const char *sub = params->best_checkpoint_export_subdir,
               *metric = params->best_checkpoint_eval_metric;
    tl_arena *arena;
    *out = NULL;
    if (!model_dir || !*model_dir || !sub || !*sub || !metric || !*metric) return TL_OK;
    TL_TRY(tl_arena_new(&arena));
    const char *dir = tl_path_join(arena, model_dir, sub);
    tl_status st = TL_ENOMEM;
    if (dir)
        st = tl_exporter_new(out, &(tl_exporter_args){.dir = dir,
                                                      .metric = metric,
                                                      .comp = params->best_checkpoint_metric_comp});
    tl_arena_free(&arena);
    return st;
}

/* --- exporting -------------------------------------------------------------------------------- */

/* The state file names the one checkpoint that is the best. */
static tl_status write_state_file(const tl_exporter *e, int64_t step)
{
    tli_checkpoint_list list = {0};
    char name[48];
    snprintf(name, sizeof name, NAME "-%" PRId64, step);
    tl_status st = tli_checkpoint_list_add(&list, name, tl_clock_wall());
    if (st == TL_OK) st = tli_checkpoint_list_set_latest(&list, name);
    if (st == TL_OK) st = tli_checkpoint_list_write(&list, e->dir);
    tli_checkpoint_list_deinit(&list);
    return st;
}

// A checkpoint that lies there in vain is no reason to fail.
static void remove_others(const tl_exporter *e, int64_t step)
{
    tli_checkpoint_list there;
    char best[48];
    snprintf(best, sizeof best, NAME "-%" PRId64, step);
    if (tli_checkpoint_folder_scan(&there, e->dir, NAME) != TL_OK) return;
    for (int64_t i = 0; i < there.count; i++)
        if (strcmp(there.items[i].path, best) != 0)
            tli_checkpoint_list_delete(e->dir, there.items[i].path, NAME);
    tli_checkpoint_list_deinit(&there);
}

/* Whenever it is ended, info.json tells of a checkpoint that is there: the new one is in place
 * before it is told of, and the old one is removed after that. */
static tl_status export(tl_exporter *e, const tl_state *state, const tl_logs *logs, int64_t step)
{
    tl_logs *best = NULL;
    tl_str path = TL_STR_INIT;
    tl_checkpoint_info info = {0};
    tl_status st;
    if (e->notes)
        info = (tl_checkpoint_info){.notes = e->notes->items, .note_count = e->notes->count};
    set_path(&path, e, step);
    TL_TRY_DONE(st, tl_str_status(&path));
    TL_TRY_DONE(st, tl_logs_new(&best));
    TL_TRY_DONE(st, copy_numbers(best, logs, 0));
    TL_TRY_DONE(st, tl_logs_put(best, STEP_KEY, (double)step));
    TL_TRY_DONE(st, tl_mkdirs(e->dir)); // who only looks leaves no folder behind
    TL_TRY_DONE(st, tl_checkpoint_save(tl_str_text(&path), state, &info));
    TL_TRY_DONE(st, write_state_file(e, step));
    TL_TRY_DONE(st, write_info(e, logs, step));
    tl_logs_free(&e->best);
    tl_str_deinit(&e->path);
    e->best = best;
    e->path = path;
    remove_others(e, step);
    return TL_OK;
done:
    tl_logs_free(&best);
    tl_str_deinit(&path);
    return tl_error_note(st, "exporting the best checkpoint of step %" PRId64, step);
}

tl_status tl_exporter_maybe_export(tl_exporter *e, const tl_state *state, tl_logs *logs,
                                   int64_t global_step, bool *exported)
{
    double value, best = tli_metric_worst(e->comp);
    if (exported) *exported = false;
    TL_TRY_NOTE(
        tli_metric_get(&value, logs, e->metric),
        "trainer.best_checkpoint_eval_metric must be one of the metrics that evaluations tell");
    if (e->best) TL_TRY(tli_metric_get(&best, e->best, e->metric));
    bool better = isfinite(value)
                  && (!e->best || !isfinite(best) || tli_metric_is_better(e->comp, value, best));
    if (better) {
        if (!state)
            return TL_FAIL(TL_ESTATE, "there is no state that the best checkpoint could hold");
        TL_TRY(export(e, state, logs, global_step));
        best = value;
        if (exported) *exported = true;
    }
    return e->best ? tl_logs_put(logs, e->best_metric, best) : TL_OK;
}

const tl_logs *tl_exporter_best_logs(const tl_exporter *e)
{
    return e->best;
}

const char *tl_exporter_best_path(const tl_exporter *e)
{
    return e->best ? tl_str_text(&e->path) : NULL;
}
