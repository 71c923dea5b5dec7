#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>
#include <tilth/train/writers/writer.h>

#include "io/inner/append.h"
#include "io/inner/json_lines.h"
#include "io/inner/json_text.h"

typedef tl_event_latest_list metrics;
typedef tl_json_writer_instance json;

/* --- what is there already -------------------------------------------------------------------- */

static bool is_early(const char *line, const char *end, void *payload)
{
    const tl_opt_int *keep_to = payload;
    int64_t iteration;
    return !keep_to->set || !tli_json_line_int(&iteration, line, end, "iteration")
           || iteration <= keep_to->value;
}

static tl_status mend(const char *path, tl_opt_int keep_to)
{
    return tli_json_lines_mend(path, is_early, &keep_to);
}

static tl_status open_file(json *j, tl_opt_int keep_to)
{
    TL_TRY(tli_make_folder_of(j->path));
    TL_TRY(mend(j->path, keep_to));
    return tli_append_open(&j->file, j->path, false, false);
}

static tl_status json_init(tl_event_writer *w, const void *given)
{
    json *j = (json *)w;
    const tl_json_writer_args *args = given;
    if (!args || !args->path)
        return TL_FAIL(TL_EINVAL, "the JSON writer needs a path, such as 'metrics.json'");
    j->window = args->window > 0 ? args->window : TL_EVENT_WINDOW;
    j->written = args->keep_to.set ? args->keep_to.value : -1;
    j->path = tl_strdup(args->path);
    if (!j->path) return TL_FAIL_NOMEM(strlen(args->path) + 1);
    return args->later ? TL_OK : open_file(j, args->keep_to);
}

/* --- lines ------------------------------------------------------------------------------------ */

static void add_member(tl_str *out, bool first, const tl_event_latest *metric)
{
    tl_str_add(out, first ? "{" : ", ");
    tli_json_add_text(out, metric->name, false);
    tl_str_add(out, ": ");
    tli_json_add_number(out, metric->value);
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
    if (j->fresh.count)
        qsort(j->fresh.items, (size_t)j->fresh.count, sizeof *j->fresh.items, compare);
    return TL_OK;
}

/* A class that derives from this one may have an init of its own. */
static tl_status check_path(const json *j)
{
    if (j->path) return TL_OK;
    return TL_FAIL(TL_ESTATE,
                   "the %s writer has no path: its class has an init that must call that of its "
                   "base, tl_json_writer",
                   j->base.cls->cls.name);
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
    if (!j->file) TL_TRY(open_file(j, (tl_opt_int){0}));
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
    return open_file(j, (tl_opt_int){true, keep_to});
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
