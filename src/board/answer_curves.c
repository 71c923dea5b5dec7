#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/vec.h>

#include "board/answer.h"
#include "board/digits.h"
#include "io/inner/json_text.h"

/* --- tags ------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {"numbers", "images", "histograms", "texts"};

/* The union of what the runs have, by kind, in the order in which it first came. */
void tli_answer_tags(tli_answer *a, tli_store *s, const tli_request *q)
{
    tli_json j = {.out = &a->body};
    tl_map seen = TL_MAP_INIT;
    tl_str key = TL_STR_INIT;
    tli_store_lock(s);
    tli_json_begin(&j, NULL, '[');
    for (int64_t i = 0; i < s->runs.count; i++) {
        const tli_board_run *r = &s->runs.items[i];
        if (r->gone || !tli_request_has_run(q, i)) continue;
        for (int64_t k = 0; k < r->tags.count; k++) {
            const tli_tag *t = &r->tags.items[k];
            const char *part = r->parts.items[t->part];
            if (!tli_tag_shown(r, t) || (t->kind == TLI_TAG_NUMBER && !t->series.points)) continue;
            bool system = strcmp(part, "system") == 0;
            tl_str_cut(&key, 0);
            tl_str_addf(&key, "%d%d %s", t->kind, system, t->name);
            if (tl_map_has(&seen, tl_str_text(&key))) continue;
            if (tl_map_set(&seen, tl_str_text(&key), NULL) != TL_OK) break;
            tli_json_begin(&j, NULL, '{');
            tli_json_text(&j, "tag", t->name);
            tli_json_text(&j, "kind", kind_names[t->kind]);
            if (system) tli_json_bool(&j, "system", true);
            tli_json_end(&j, '}');
        }
    }
    tli_json_end(&j, ']');
    tli_store_unlock(s);
    tl_str_deinit(&key);
    tl_map_deinit(&seen);
}

/* --- curves ----------------------------------------------------------------------------------- */

enum { MOST_BUCKETS = 4096, MOST_CURVES = 200 };

static void add_value(tl_str *out, double v)
{
    char text[TLI_DIGITS];
    tl_str_addn(out, text, tli_digits_value(text, v));
}

/* Steps, seconds since `start`, values. */
static void add_points(tl_str *out, const char *name, const tli_points *p, double start)
{
    char text[TLI_DIGITS + 1] = ",";
    tl_str_addf(out, ", \"%s\": [[", name);
    for (int64_t i = 0; i < p->count; i++) {
        size_t length = 1 + tli_digits_int(text + 1, p->items[i].step);
        tl_str_addn(out, text + !i, length - !i);
    }
    tl_str_add(out, "],[");
    for (int64_t i = 0; i < p->count; i++) {
        int64_t ms = llround((p->items[i].time - start) * 1e3);
        size_t length = 1 + tli_digits_thousandths(text + 1, ms);
        tl_str_addn(out, text + !i, length - !i);
    }
    tl_str_add(out, "],[");
    for (int64_t i = 0; i < p->count; i++) {
        size_t length = 1 + tli_digits_value(text + 1, p->items[i].value);
        tl_str_addn(out, text + !i, length - !i);
    }
    tl_str_add(out, "]]");
}

static void add_curve(tl_str *out, const tli_board_run *r, int64_t run, const tli_tag *t,
                      const tli_sample_args *args)
{
    tli_points raw = {0}, smooth = {0};
    tli_sample_args plain = *args;
    tli_point first = {0}, last = {0};
    char start[TLI_DIGITS];
    plain.smooth = 0;
    (void)tli_series_first(&first, &t->series);
    (void)tli_series_last(&last, &t->series);
    tl_status st = tli_series_sample(&raw, &t->series, &plain);
    if (st == TL_OK && args->smooth > 0) st = tli_series_sample(&smooth, &t->series, args);
    if (st == TL_OK) {
        tl_str_addf(out, "{\"run\": %lld, \"part\": ", (long long)run);
        tli_json_add_text(out, r->parts.items[t->part], false);
        tli_digits_thousandths(start, llround(first.time * 1e3));
        tl_str_addf(out, ", \"count\": %lld, \"start\": %s, \"thinned\": %s, \"last\": ",
                    (long long)t->series.told, start, t->series.thinned ? "true" : "false");
        add_value(out, last.value);
        tl_str_add(out, ", \"low\": ");
        add_value(out, t->series.low.value);
        tl_str_add(out, ", \"high\": ");
        add_value(out, t->series.high.value);
        add_points(out, "points", &raw, first.time);
        if (args->smooth > 0) add_points(out, "smooth", &smooth, first.time);
        tl_str_addc(out, '}');
    } else {
        out->failed = true;
    }
    TL_VEC_FREE(&raw);
    TL_VEC_FREE(&smooth);
}

static tli_axis axis_of(const char *name)
{
    if (strcmp(name, "time") == 0) return TLI_AXIS_TIME;
    return strcmp(name, "relative") == 0 ? TLI_AXIS_RELATIVE : TLI_AXIS_STEP;
}

static int64_t within(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

void tli_answer_curves(tli_answer *a, tli_store *s, const tli_request *q)
{
    const char *tag = tli_request_text(q, "tag", "");
    bool system = tli_request_int(q, "system", 0) != 0;
    double smooth = tli_request_number(q, "smooth", 0);
    tli_sample_args args = {
        .buckets = within(tli_request_int(q, "points", 500), 1, MOST_BUCKETS),
        .axis = axis_of(tli_request_text(q, "axis", "step")),
        .logarithmic = tli_request_int(q, "log", 0) != 0,
        .from = tli_request_number(q, "from", 0),
        .to = tli_request_number(q, "to", 0),
        .smooth = smooth > 0 && smooth < 1 ? smooth : 0,
    };
    int64_t count = 0, left_out = 0;
    tl_str_add(&a->body, "{\"curves\": [");
    tli_store_lock(s);
    for (int64_t i = 0; i < s->runs.count; i++) {
        const tli_board_run *r = &s->runs.items[i];
        if (r->gone || !tli_request_has_run(q, i)) continue;
        for (int64_t k = 0; k < r->tags.count; k++) {
            const tli_tag *t = &r->tags.items[k];
            if (t->kind != TLI_TAG_NUMBER || !t->series.points || !tli_tag_shown(r, t)
                || strcmp(t->name, tag) != 0
                || (strcmp(r->parts.items[t->part], "system") == 0) != system)
                continue;
            if (count >= MOST_CURVES) {
                left_out++;
                continue;
            }
            if (count++) tl_str_add(&a->body, ",\n");
            add_curve(&a->body, r, i, t, &args);
        }
    }
    tl_str_addf(&a->body, "], \"left_out\": %lld, \"version\": %llu}\n", (long long)left_out,
                (unsigned long long)s->version);
    tli_store_unlock(s);
}
