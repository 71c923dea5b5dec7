#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/base/vec.h>
#include <tilth/train/writer.h>

#include "io/append.h"
#include "io/utf8.h"

typedef tl_event_latest_list metrics;
typedef tl_json_writer_instance json;

/* --- what is there already -------------------------------------------------------------------- */

// Where the string that opens at `at` ends: behind its quote, or NULL when it does not.
static const char *string_end(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\') at++;
    return at < end ? at + 1 : NULL;
}

// The iteration of a line: the number behind that key of the outermost object. False when there is none.
// It also reads lines with bare NaN in them, which are no JSON, and others write.
static bool line_iteration(int64_t *out, const char *at, const char *end)
{
    static const char key[] = "\"iteration\"";
    int depth = 0;
    while (at < end) {
        if (*at == '"') {
            const char *after = string_end(at, end);
            if (!after) return false;
            bool is_key = depth == 1 && (size_t)(after - at) == sizeof key - 1
                          && memcmp(at, key, sizeof key - 1) == 0;
            at = after;
            while (is_key && at < end && (*at == ' ' || *at == ':')) at++;
            if (!is_key || after == at) continue;
            char number[24] = "";
            memcpy(number, at, (size_t)(end - at) < sizeof number - 1 ? (size_t)(end - at) : sizeof number - 1);
            char *stop;
            *out = strtoll(number, &stop, 10);
            return stop != number;
        }
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        at++;
    }
    return false;
}

// True when the line is an object that was written to its end.
static bool is_whole(const char *at, const char *end)
{
    int depth = 0;
    while (at < end) {
        if (*at == '"') {
            at = string_end(at, end);
            if (!at) return false;
            continue;
        }
        if (*at == '{') depth++;
        if (*at == '}' && --depth == 0) return at + 1 == end;
        at++;
    }
    return false;
}

// The lines that stay. `changed` says whether that is less than there is, or a newline more.
static void keep_lines(tl_str *out, bool *changed, const tl_file_mapping *file, tl_opt_int keep_to)
{
    const char *end = file->data + file->size;
    *changed = false;
    for (const char *at = file->data, *next; at < end; at = next) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        int64_t iteration;
        next = newline ? newline + 1 : end;
        bool late = keep_to.set && line_iteration(&iteration, at, stop) && iteration > keep_to.value;
        *changed |= late || !newline;
        if (late || (!newline && !is_whole(at, stop))) continue;
        tl_str_addn(out, at, (size_t)(stop - at));
        tl_str_addc(out, '\n');
    }
}

static tl_status mend(const char *path, tl_opt_int keep_to)
{
    tl_file_mapping file = TL_FILE_MAPPING_INIT;
    tl_str kept = TL_STR_INIT;
    bool changed;
    if (!tl_file_exists(path)) return TL_OK;
    tl_status st;
    TL_TRY_DONE(st, tl_file_map(&file, path));
    keep_lines(&kept, &changed, &file, keep_to);
    TL_TRY_DONE(st, tl_str_status(&kept));
    if (changed) st = tl_file_write_atomic(path, tl_str_text(&kept), kept.length);
done:
    tl_file_unmap(&file);
    tl_str_deinit(&kept);
    return st;
}

static tl_status make_folder_of(const char *path)
{
    tl_arena *arena = NULL;
    TL_TRY(tl_arena_new(&arena));
    const char *folder = tl_path_dirname(arena, path);
    tl_status st = folder ? tl_mkdirs(folder) : TL_ENOMEM;
    tl_arena_free(&arena);
    return st;
}

static tl_status json_init(tl_event_writer *w, const void *given)
{
    json *j = (json *)w;
    const tl_json_writer_args *args = given;
    if (!args || !args->path) return TL_FAIL(TL_EINVAL, "the JSON writer needs a path, such as 'metrics.json'");
    j->window = args->window > 0 ? args->window : TL_EVENT_WINDOW;
    j->written = args->keep_to.set ? args->keep_to.value : -1;
    j->path = tl_strdup(args->path);
    if (!j->path) return TL_FAIL_NOMEM(strlen(args->path) + 1);
    TL_TRY(make_folder_of(j->path));
    TL_TRY(mend(j->path, args->keep_to));
    return tli_append_open(&j->file, j->path, false, false);
}

/* --- lines ------------------------------------------------------------------------------------ */

static void add_string(tl_str *out, const char *text)
{
    tl_str_addc(out, '"');
    for (int length; *text; text += length) {
        length = tli_utf8_length(text);
        if (!length) {
            tl_str_add(out, TLI_UTF8_REPLACEMENT);
            length = 1;
        } else if (*text == '"' || *text == '\\') {
            tl_str_addf(out, "\\%c", *text);
        } else if ((unsigned char)*text < 0x20) {
            tl_str_addf(out, "\\u%04x", (unsigned)*text);
        } else {
            tl_str_addn(out, text, (size_t)length);
        }
    }
    tl_str_addc(out, '"');
}

static void add_member(tl_str *out, bool first, const tl_event_latest *metric)
{
    char number[32];
    tl_str_add(out, first ? "{" : ", ");
    add_string(out, metric->name);
    tl_double_text(number, metric->value);
    tl_str_addf(out, ": %s", isfinite(metric->value) ? number : "null");
}

// By iteration, then by name.
static int compare(const void *a, const void *b)
{
    const tl_event_latest *x = a, *y = b;
    if (x->iteration != y->iteration) return x->iteration < y->iteration ? -1 : 1;
    return strcmp(x->name, y->name);
}

// The line of items[from] and those of its iteration that follow; where the next one starts.
static int64_t add_line(tl_str *out, const metrics *m, int64_t from)
{
    static const char key[] = "iteration";
    int64_t iteration = m->items[from].iteration, i = from;
    bool first = true, said = false;
    while (i <= m->count) {
        const tl_event_latest *metric = i < m->count ? &m->items[i] : NULL;
        if (metric && metric->iteration != iteration) metric = NULL;
        if (!said && (!metric || strcmp(metric->name, key) >= 0)) {
            tl_str_addf(out, "%s\"%s\": %" PRId64, first ? "{" : ", ", key, iteration);
            first = false;
            said = true;
        }
        if (!metric) break;
        if (strcmp(metric->name, key) != 0) add_member(out, first, metric); // the key is taken
        first = false;
        i++;
    }
    tl_str_add(out, "}\n");
    return i;
}

static tl_status collect(json *j, tl_event_storage *s)
{
    j->fresh.count = 0;
    for (int64_t i = 0; i < tl_event_storage_count(s); i++) {
        tl_event_latest latest;
        TL_TRY(tl_event_storage_smoothed_at(&latest, s, i, j->window));
        if (latest.iteration < 0 || latest.iteration <= j->written) continue;
        if (!TL_VEC_PUSH(&j->fresh, latest)) return TL_ENOMEM;
    }
    if (j->fresh.count) qsort(j->fresh.items, (size_t)j->fresh.count, sizeof *j->fresh.items, compare);
    return TL_OK;
}

/* A class that derives from this one may have an init of its own. */
static tl_status check_path(const json *j)
{
    if (j->path) return TL_OK;
    return TL_FAIL(TL_ESTATE, "the %s writer has no path: its class has an init that must call that of its base, "
                              "tl_json_writer", j->base.cls->cls.name);
}

static tl_status json_write(tl_event_writer *w, tl_event_storage *s)
{
    json *j = (json *)w;
    TL_TRY(check_path(j));
    TL_TRY(collect(j, s));
    if (!j->fresh.count) return TL_OK;
    j->lines.failed = false;
    tl_str_cut(&j->lines, 0);
    for (int64_t i = 0; i < j->fresh.count;) i = add_line(&j->lines, &j->fresh, i);
    TL_TRY(tl_str_status(&j->lines));
    if (!j->file) TL_TRY(tli_append_open(&j->file, j->path, false, false));
    TL_TRY(tli_append_record(j->file, j->lines.data, j->lines.length));
    j->written = j->fresh.items[j->fresh.count - 1].iteration;
    return tli_append_sync(j->file, true);
}

static tl_status json_sync(tl_event_writer *w)
{
    const json *j = (json *)w;
    return j->file ? tli_append_sync(j->file, false) : TL_OK;
}

static tl_status json_rewind(tl_event_writer *w, int64_t keep_to)
{
    json *j = (json *)w;
    TL_TRY(check_path(j));
    j->written = keep_to;
    TL_TRY(tli_append_close(&j->file));
    TL_TRY(mend(j->path, (tl_opt_int){true, keep_to}));
    return tli_append_open(&j->file, j->path, false, false);
}

static tl_status json_close(tl_event_writer *w)
{
    return tli_append_close(&((json *)w)->file);
}

static void json_dispose(tl_event_writer *w)
{
    json *j = (json *)w;
    (void)tli_append_close(&j->file); // closed already, unless making it failed
    tl_free(j->path);
    TL_VEC_FREE(&j->fresh);
    tl_str_deinit(&j->lines);
}

const tl_event_writer_class tl_json_writer = {
    .cls = TL_CLASS(tl_event_writer_class, "json", NULL, json, NULL,
                    .help = "metrics.json: a JSON object a line"),
    .init = json_init,
    .write = json_write,
    .sync = json_sync,
    .close = json_close,
    .dispose = json_dispose,
    .rewind = json_rewind,
};
