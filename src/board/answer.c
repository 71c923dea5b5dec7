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
} route;
static const route routes[] = {
    {"/api/runs", tli_answer_runs},       {"/api/tags", tli_answer_tags},
    {"/api/curves", tli_answer_curves},   {"/api/settings", tli_answer_settings},
    {"/api/media", tli_answer_media},     {"/api/image", tli_answer_image},
    {"/api/files", tli_answer_files},     {"/api/log", tli_answer_log},
    {"/api/weights", tli_answer_weights}, {"/api/reports", tli_answer_reports},
};

void tli_board_answer(tli_answer *a, tli_store *s, const tli_request *q)
{
    const char *path = strcmp(q->path, "/") == 0 ? "/index.html" : q->path;
    a->status = 200;
    a->type = "application/json";
    for (int i = 0; i < TL_COUNT(routes); i++) {
        if (strcmp(path, routes[i].path) != 0) continue;
        routes[i].answer(a, s, q);
        if (a->status == 200 && !a->fixed && tl_str_status(&a->body) != TL_OK) {
            tl_str_deinit(&a->body);
            tli_answer_fail(a, 503, "there is no memory for this answer");
        }
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
