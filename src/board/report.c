#include <tilth/board/board.h>

#include <stdio.h>
#include <jansson.h>
#include <string.h>

#include <tilth/base/alloc.h>

#include "base/inner/base64.h"
#include "board/answer.h"
#include "board/page.h"
#include "io/inner/json_text.h"

/* --- a page that carries its answers with it -------------------------------------------------- */

enum { MOST_BYTES = 64 << 20 };

typedef struct arguments {
    const char *names[8], *values[8];
    int count;
} arguments;

static const char *argument(void *payload, const char *name)
{
    const arguments *a = payload;
    for (int i = 0; i < a->count; i++)
        if (strcmp(a->names[i], name) == 0) return a->values[i];
    return NULL;
}

typedef struct report {
    tli_store *s;
    tl_str *out;
    tl_str images;
    bool more; /* something is in the object that is being written */
} report;

/* The end of the script must not be in it. */
static void add_json(tl_str *out, const char *json)
{
    for (const char *at = json; *at;) {
        size_t length = strcspn(at, "<");
        tl_str_addn(out, at, length);
        at += length;
        if (!*at) break;
        tl_str_add(out, "\\u003c");
        at++;
    }
}

/* The answer to a question, or NULL: the string is the caller's to deinit. */
static const char *answer(tli_answer *a, report *r, const char *path, arguments *args)
{
    *a = (tli_answer)TLI_ANSWER_INIT;
    tli_board_answer(a, r->s, &(tli_request){.path = path, .arg = argument, .payload = args});
    return a->status == 200 ? tl_str_text(&a->body) : NULL;
}

/* "KEY": ANSWER, among others. */
static void add_answer(report *r, const char *key, const char *path, arguments *args)
{
    tli_answer a;
    const char *json = answer(&a, r, path, args);
    if (json && r->out->length + a.body.length < MOST_BYTES) {
        if (r->more) tl_str_add(r->out, ",\n");
        tl_str key_text = TL_STR_INIT;
        tli_json_add_text(&key_text, key, false);
        add_json(r->out, tl_str_text(&key_text));
        tl_str_deinit(&key_text);
        tl_str_add(r->out, ": ");
        add_json(r->out, json);
        r->more = true;
    }
    tli_answer_deinit(&a);
}

static void open_object(report *r, const char *name)
{
    tl_str_addf(r->out, ",\n\"%s\": {", name);
    r->more = false;
}

/* For each run. */
static void add_of_runs(report *r, const char *name, const char *path, const char *argument_name)
{
    open_object(r, name);
    for (int64_t i = 0; i < r->s->runs.count; i++) {
        char id[24];
        snprintf(id, sizeof id, "%lld", (long long)i);
        arguments args = {{argument_name}, {id}, 1};
        add_answer(r, id, path, &args);
    }
    tl_str_addc(r->out, '}');
}

static void add_curves(report *r, json_t *tags)
{
    size_t i;
    json_t *tag;
    open_object(r, "curves");
    json_array_foreach(tags, i, tag)
    {
        const char *name = json_string_value(json_object_get(tag, "tag"));
        bool system = json_is_true(json_object_get(tag, "system"));
        tl_str key = TL_STR_INIT;
        arguments args = {{"tag", "points", "system"}, {name, "300", system ? "1" : "0"}, 3};
        if (!name || strcmp(json_string_value(json_object_get(tag, "kind")), "numbers") != 0)
            continue;
        tl_str_addf(&key, "%s %s", system ? "1" : "", name);
        add_answer(r, tl_str_text(&key), "/api/curves", &args);
        tl_str_deinit(&key);
    }
    tl_str_addc(r->out, '}');
}

/* --- pictures --------------------------------------------------------------------------------- */

static void add_picture(report *r, const char *run, const char *part, const char *tag,
                        const char *step, int64_t index)
{
    tli_answer a;
    char number[24];
    tl_str key = TL_STR_INIT;
    snprintf(number, sizeof number, "%lld", (long long)index);
    arguments args = {{"run", "part", "tag", "step", "index"}, {run, part, tag, step, number}, 5};
    if (answer(&a, r, "/api/image", &args) && r->images.length + a.body.length < MOST_BYTES / 2) {
        tl_str_addf(&key, "%s %s %s %s %s", run, part, tag, step, number);
        if (r->images.length) tl_str_add(&r->images, ",\n");
        tl_str text = TL_STR_INIT;
        tli_json_add_text(&text, tl_str_text(&key), false);
        add_json(&r->images, tl_str_text(&text));
        tl_str_deinit(&text);
        tl_str_addf(&r->images, ": \"data:%s;base64,", a.type);
        tli_base64_add(&r->images, tl_str_text(&a.body), a.body.length);
        tl_str_addc(&r->images, '"');
    }
    tli_answer_deinit(&a);
    tl_str_deinit(&key);
}

static void add_pictures(report *r, const char *run, const char *tag, const char *media)
{
    json_t *parts = json_loads(media, 0, NULL), *part, *item;
    size_t i, k;
    json_array_foreach(parts, i, part)
    {
        json_array_foreach(json_object_get(part, "items"), k, item)
        {
            char step[24];
            int64_t count = json_integer_value(json_object_get(item, "count"));
            snprintf(step, sizeof step, "%lld",
                     (long long)json_integer_value(json_object_get(item, "step")));
            for (int64_t n = 0; n < count && n < 24; n++)
                add_picture(r, run, json_string_value(json_object_get(part, "part")), tag, step, n);
        }
    }
    json_decref(parts);
}

static void add_media(report *r, json_t *tags)
{
    size_t i;
    json_t *tag;
    open_object(r, "media");
    json_array_foreach(tags, i, tag)
    {
        const char *name = json_string_value(json_object_get(tag, "tag"));
        const char *kind = json_string_value(json_object_get(tag, "kind"));
        bool images = kind && strcmp(kind, "images") == 0;
        if (!name || !kind || strcmp(kind, "numbers") == 0) continue;
        for (int64_t run = 0; run < r->s->runs.count; run++) {
            char id[24];
            tl_str key = TL_STR_INIT;
            tli_answer a;
            snprintf(id, sizeof id, "%lld", (long long)run);
            arguments args = {{"run", "tag", "most"}, {id, name, images ? "4" : "40"}, 3};
            tl_str_addf(&key, "%s %s", id, name);
            add_answer(r, tl_str_text(&key), "/api/media", &args);
            if (images && answer(&a, r, "/api/media", &args)) {
                add_pictures(r, id, name, tl_str_text(&a.body));
                tli_answer_deinit(&a);
            }
            tl_str_deinit(&key);
        }
    }
    tl_str_add(r->out, "},\n\"images\": {");
    tl_str_add(r->out, tl_str_text(&r->images));
    tl_str_addc(r->out, '}');
}

/* --- all of it -------------------------------------------------------------------------------- */

static void add_data(report *r)
{
    arguments none = {.count = 0};
    tli_answer a;
    const char *text = answer(&a, r, "/api/tags", &none);
    json_t *tags = text ? json_loads(text, 0, NULL) : NULL;
    tli_answer_deinit(&a);
    tl_str_addf(r->out, "<script type=\"application/json\" id=\"report\">{\"made\": %.0f",
                tli_wall_time());
    r->more = true;
    add_answer(r, "runs", "/api/runs", &none);
    add_answer(r, "settings", "/api/settings", &none);
    add_curves(r, tags);
    add_of_runs(r, "tags", "/api/tags", "runs");
    add_of_runs(r, "files", "/api/files", "run");
    add_of_runs(r, "weights", "/api/weights", "run");
    add_of_runs(r, "reports", "/api/reports", "run");
    add_media(r, tags);
    tl_str_add(r->out, "}</script>\n");
    json_decref(tags);
}

static const char *file_of(const char *line, const char *before)
{
    size_t length = strlen(before);
    if (strncmp(line, before, length) != 0) return NULL;
    for (int64_t i = 0; i < tli_page_file_count; i++) {
        const char *name = tli_page_files[i].path + 1;
        if (strncmp(line + length, name, strlen(name)) == 0) return tli_page_files[i].text;
    }
    return NULL;
}

/* The page as it is served, with its files and the data in their places. */
static void add_page(report *r)
{
    bool data = false;
    for (const char *line = tli_page_index_html; *line;) {
        size_t length = strcspn(line, "\n");
        const char *script = file_of(line, "<script src=\"");
        const char *style = file_of(line, "<link rel=\"stylesheet\" href=\"");
        if (script && !data) add_data(r);
        data |= script != NULL;
        if (script) tl_str_addf(r->out, "<script>\n%s</script>\n", script);
        else if (style) tl_str_addf(r->out, "<style>\n%s</style>\n", style);
        else tl_str_addf(r->out, "%.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

tl_status tl_board_report(tl_str *out, tl_strings folders)
{
    report r = {.out = out, .images = TL_STR_INIT};
    TL_TRY(tli_store_new(&r.s, &(tli_store_args){.folders = folders}));
    tl_status st = tli_store_look(r.s);
    if (st == TL_OK && !r.s->runs.count)
        st = TL_FAIL(TL_ENOTFOUND, "there is no run in '%s'%s",
                     folders.count ? folders.items[0] : "",
                     folders.count > 1 ? ", nor in the others" : "");
    if (st == TL_OK) add_page(&r);
    if (st == TL_OK) st = tl_str_status(&r.images);
    if (st == TL_OK) st = tl_str_status(out);
    tl_str_deinit(&r.images);
    tli_store_free(&r.s);
    return st;
}
