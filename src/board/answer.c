#include "board/answer.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* --- what is asked ---------------------------------------------------------------------------- */

const char *tli_request_text(const tli_request *q, const char *name, const char *otherwise)
{
    const char *text = q->arg(q->payload, name);
    return text ? text : otherwise;
}

int64_t tli_request_int(const tli_request *q, const char *name, int64_t otherwise)
{
    const char *text = q->arg(q->payload, name);
    char *end;
    if (!text || !*text) return otherwise;
    long long value = strtoll(text, &end, 10);
    return *end ? otherwise : value;
}

double tli_request_number(const tli_request *q, const char *name, double otherwise)
{
    const char *text = q->arg(q->payload, name);
    char *end;
    if (!text || !*text) return otherwise;
    double value = tl_strtod(text, &end);
    return *end || !isfinite(value) ? otherwise : value;
}

tli_board_run *tli_request_run(tli_answer *a, tli_store *s, const tli_request *q)
{
    int64_t run = tli_request_int(q, "run", -1);
    if (run >= 0 && run < s->runs.count && !s->runs.items[run].gone) return &s->runs.items[run];
    tli_answer_fail(a, 404, "there is no such run");
    return NULL;
}

bool tli_request_has_run(const tli_request *q, int64_t run)
{
    const char *text = q->arg(q->payload, "runs");
    if (!text) return true;
    while (*text) {
        char *end;
        long long one = strtoll(text, &end, 10);
        if (end == text) return false;
        if (one == run) return true;
        text = *end ? end + 1 : end;
    }
    return false;
}

/* --- what is answered ------------------------------------------------------------------------- */

void tli_answer_deinit(tli_answer *a)
{
    tl_str_deinit(&a->body);
}

void tli_answer_fail(tli_answer *a, int status, const char *format, ...)
{
    va_list args;
    tl_str_cut(&a->body, 0);
    va_start(args, format);
    tl_str_addv(&a->body, format, args);
    va_end(args);
    tl_str_addc(&a->body, '\n');
    a->status = status;
    a->type = "text/plain; charset=utf-8";
    a->fixed = NULL;
}

typedef struct route {
    const char *path;
    void (*answer)(tli_answer *a, tli_store *s, const tli_request *q);
    bool kept; /* the same for all who ask until something changes */
} route;
static const route routes[] = {
    {"/api/runs", tli_answer_runs, false},      {"/api/tags", tli_answer_tags, true},
    {"/api/curves", tli_answer_curves, true},   {"/api/settings", tli_answer_settings, true},
    {"/api/media", tli_answer_media, true},     {"/api/image", tli_answer_image, false},
    {"/api/files", tli_answer_files, true},     {"/api/log", tli_answer_log, true},
    {"/api/weights", tli_answer_weights, true}, {"/api/reports", tli_answer_reports, true},
};

/* All that an answer can depend on. */
static void add_key(tl_str *out, const tli_request *q)
{
    static const char *const names[] = {"run",    "runs",   "tag",  "part", "points",
                                        "axis",   "log",    "from", "to",   "smooth",
                                        "system", "search", "file", "most", "step"};
    tl_str_add(out, q->path);
    for (int i = 0; i < TL_COUNT(names); i++) {
        const char *text = q->arg(q->payload, names[i]);
        if (text) tl_str_addf(out, "\n%d %s", i, text);
    }
}

static void answer_by(tli_answer *a, tli_store *s, const tli_request *q, const route *by)
{
    tl_str key = TL_STR_INIT;
    uint64_t version = 0;
    bool kept = by->kept && q->kept;
    if (kept) {
        add_key(&key, q);
        tli_store_lock(s);
        version = s->version;
        tli_store_unlock(s);
    }
    if (!kept || !tli_kept_find(q->kept, tl_str_text(&key), version, &a->body)) {
        by->answer(a, s, q);
        if (kept && a->status == 200 && !key.failed)
            tli_kept_keep(q->kept, tl_str_text(&key), version, &a->body);
    }
    tl_str_deinit(&key);
    if (a->status == 200 && tl_str_status(&a->body) != TL_OK) {
        tl_str_deinit(&a->body);
        tli_answer_fail(a, 503, "there is no memory for this answer");
    }
}

void tli_board_answer(tli_answer *a, tli_store *s, const tli_request *q)
{
    const char *path = strcmp(q->path, "/") == 0 ? "/index.html" : q->path;
    a->status = 200;
    a->type = "application/json";
    for (int i = 0; i < TL_COUNT(routes); i++) {
        if (strcmp(path, routes[i].path) != 0) continue;
        answer_by(a, s, q, &routes[i]);
        return;
    }
    for (int64_t i = 0; i < tli_page_file_count; i++) {
        if (strcmp(path, tli_page_files[i].path) != 0) continue;
        a->type = tli_page_files[i].type;
        a->fixed = tli_page_files[i].text;
        a->fixed_size = strlen(tli_page_files[i].text);
        return;
    }
    tli_answer_fail(a, 404, "there is no such page");
}
