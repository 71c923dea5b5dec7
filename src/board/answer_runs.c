#include <stdio.h>
#include <math.h>
#include <string.h>
#include <tilth/base/vec.h>

#include "board/answer.h"
#include "board/digits.h"
#include "io/inner/json_text.h"

/* --- the list --------------------------------------------------------------------------------- */

static const char *const state_names[] = {"unknown", "running", "finished", "stopped", "crashed"};

enum { SPARK = 24 };

static void add_spark(tli_json *j, const tli_tag *t)
{
    tli_points points = {0};
    tli_json_begin(j, "spark", '[');
    if (tli_series_sample(&points, &t->series, &(tli_sample_args){.buckets = SPARK}) == TL_OK)
        for (int64_t i = 0; i < points.count; i++) tli_json_number(j, NULL, points.items[i].value);
    tli_json_end(j, ']');
    TL_VEC_FREE(&points);
}

/* Whether less is better: as the run says, or as the name sounds. */
static bool is_lower_better(const tli_board_run *r, const tli_tag *t)
{
    if (strcmp(t->name, r->best_metric) == 0) return r->best_lower;
    return strstr(t->name, "loss") || strstr(t->name, "error") || strstr(t->name, "perplexity");
}

static void add_best(tli_json *j, const tli_board_run *r)
{
    const tli_tag *t = tli_run_best_tag(r);
    tli_point last;
    if (!t || !tli_series_last(&last, &t->series)) return;
    bool lower = is_lower_better(r, t);
    const tli_point *best = lower ? &t->series.low : &t->series.high;
    tli_json_begin(j, "best", '{');
    tli_json_text(j, "tag", t->name);
    tli_json_text(j, "part", r->parts.items[t->part]);
    tli_json_bool(j, "lower", lower);
    tli_json_number(j, "value", best->value);
    tli_json_int(j, "step", best->step);
    tli_json_number(j, "last", last.value);
    add_spark(j, t);
    tli_json_end(j, '}');
}

static int64_t batch_of(const tli_board_run *r)
{
    static const char *const keys[] = {"task.train_data.global_batch_size",
                                       "train.global_batch_size"};
    for (int i = 0; i < TL_COUNT(keys); i++) {
        const char *value = tli_settings_find(&r->settings, keys[i]);
        if (value && strcmp(value, "null") != 0) return (int64_t)tl_strtod(value, NULL);
    }
    return 0;
}

static void add_row(tli_json *j, const tli_board_run *r, int64_t id)
{
    tli_json_begin(j, NULL, '{');
    tli_json_int(j, "id", id);
    tli_json_text(j, "name", r->name);
    tli_json_text(j, "state", state_names[r->state]);
    tli_json_int(j, "step", r->step);
    if (r->train_steps > 0) tli_json_int(j, "steps", r->train_steps);
    if (r->began > 0) tli_json_number(j, "began", r->began);
    if (r->now > 0) tli_json_number(j, "now", r->now);
    if (r->speed > 0) tli_json_number(j, "speed", r->speed);
    if (batch_of(r) > 0) tli_json_int(j, "batch", batch_of(r));
    if (r->experiment) tli_json_text(j, "experiment", r->experiment);
    if (r->reason && r->ended) tli_json_text(j, "reason", r->reason);
    if (r->message && r->ended) tli_json_text(j, "message", r->message);
    if (r->too_many_tags) tli_json_bool(j, "cut", true);
    for (int64_t i = 0; i < r->files.count; i++)
        if (r->files.items[i].damaged) tli_json_text(j, "damaged", r->files.items[i].path);
    add_best(j, r);
    tli_json_end(j, '}');
}

/* Rows are made when a run has changed, however many ask. */
static const tl_str *row_of(tli_board_run *r, int64_t id)
{
    if (r->row_version == r->version && r->row.length) return &r->row;
    tli_json j = {.out = &r->row};
    tl_str_cut(&r->row, 0);
    add_row(&j, r, id);
    r->row_version = r->version;
    return &r->row;
}

void tli_answer_runs(tli_answer *a, tli_store *s, const tli_request *q)
{
    int64_t since = tli_request_int(q, "since", 0);
    tl_str *out = &a->body;
    bool first = true;
    char now[TLI_DIGITS];
    tli_digits_thousandths(now, llround(tli_wall_time() * 1e3));
    tli_store_lock(s);
    tl_str_addf(out,
                "{\"version\": %llu, \"settled\": %s, \"read\": %lld, \"total\": %lld, "
                "\"cut\": %s, \"now\": %s, \"runs\": [",
                (unsigned long long)s->version, s->settled ? "true" : "false",
                (long long)s->bytes_read, (long long)s->bytes_total,
                s->too_many_runs ? "true" : "false", now);
    for (int64_t i = 0; i < s->runs.count; i++) {
        tli_board_run *r = &s->runs.items[i];
        if (since > 0 && r->version <= (uint64_t)since) continue;
        if (r->gone && since <= 0) continue;
        if (!first) tl_str_add(out, ",\n");
        first = false;
        if (r->gone) tl_str_addf(out, "{\"id\": %lld, \"gone\": true}", (long long)i);
        else tl_str_add(out, tl_str_text(row_of(r, i)));
    }
    tl_str_add(out, "]}\n");
    tli_store_unlock(s);
}

/* --- settings --------------------------------------------------------------------------------- */

void tli_answer_settings(tli_answer *a, tli_store *s, const tli_request *q)
{
    tli_json j = {.out = &a->body};
    tli_store_lock(s);
    tli_json_begin(&j, NULL, '{');
    for (int64_t i = 0; i < s->runs.count; i++) {
        const tli_board_run *r = &s->runs.items[i];
        char id[24];
        if (r->gone || !r->settings.count || !tli_request_has_run(q, i)) continue;
        snprintf(id, sizeof id, "%lld", (long long)i);
        tli_json_begin(&j, id, '{');
        for (int64_t k = 0; k < r->settings.count; k++)
            tli_json_text(&j, r->settings.items[k].key, r->settings.items[k].value);
        tli_json_end(&j, '}');
    }
    tli_json_end(&j, '}');
    tli_store_unlock(s);
}
