/* Texts in files and folders, one after the other, and which columns of a file they stand in. */
#include "zoo/language/texts.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <strings.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/base/map.h>
#include <tilth/text/rows.h>

enum { LARGEST_TEXT = 16 << 20 };

typedef struct walk {
    const tl_text_data_config *data;
    tli_text_fn *fn;
    void *self;
    int64_t told, passed; /* texts; files that are none by their names */
} walk;

tl_status tli_text_note(tl_status st, const tli_text *t)
{
    if (st == TL_OK) return TL_OK;
    return t->line ? tl_error_note(st, "%s:%" PRId64, t->file, t->line)
                   : tl_error_note(st, "%s", t->file);
}

static tl_status tell(walk *w, tli_text *t)
{
    t->held_out =
        w->data->holdout > 0
        && tl_content_held_out(tl_content_hash(t->first.size ? t->first.data : "", t->first.size),
                               w->data->holdout);
    w->told++;
    return tli_text_note(w->fn(w->self, t), t);
}

/* --- rows ------------------------------------------------------------------------------------- */

static const char *given(const char *column)
{
    return column && *column ? column : NULL;
}

static char delimiter_of(const tl_text_data_config *d)
{
    return strcmp(d->delimiter, "tab") == 0 ? '\t' : *d->delimiter;
}

static tl_status each_row(walk *w, const char *path)
{
    const tl_text_data_config *d = w->data;
    tl_text_rows *rows;
    tl_status st = tl_text_rows_open(&rows, path,
                                     &(tl_text_rows_args){.first = given(d->text_column),
                                                          .second = given(d->second_text_column),
                                                          .label = given(d->label_column),
                                                          .header = d->header,
                                                          .delimiter = delimiter_of(d)});
    for (bool more = true; st == TL_OK;) {
        tl_text_row row;
        st = tl_text_rows_next(rows, &row, &more);
        if (st != TL_OK || !more) break;
        st = tell(w, &(tli_text){.first = row.first,
                                 .second = row.second,
                                 .label = row.label,
                                 .file = path,
                                 .line = row.line});
    }
    tl_text_rows_free(&rows);
    return st;
}

/* --- folders ---------------------------------------------------------------------------------- */

static bool is_text(const char *name)
{
    size_t length = strlen(name);
    return length > 4 && strcasecmp(name + length - 4, ".txt") == 0;
}

static tl_status tell_file(walk *w, const char *path, const char *label)
{
    char *data;
    size_t size;
    TL_TRY(tl_file_read(&data, &size, path, LARGEST_TEXT));
    tl_status st = tell(w, &(tli_text){.first = {data, size}, .label = label, .file = path});
    tl_free(data);
    return st;
}

static tl_status each_of_class(walk *w, const char *folder, const char *label)
{
    tl_path_list paths;
    tl_arena *arena;
    int64_t before = w->told;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tl_dir_list(&paths, arena, folder);
    for (int64_t i = 0; i < paths.count && st == TL_OK; i++) {
        const char *path = paths.items[i];
        if (is_text(path) && !tl_dir_exists(path)) st = tell_file(w, path, label);
        else w->passed++;
    }
    if (st == TL_OK && w->told == before)
        TL_LOG_WARNING("'%s' holds no text (no file that ends in .txt), and is no class", folder);
    tl_arena_free(&arena);
    return st;
}

static tl_status each_class(walk *w, const char *path)
{
    tl_path_list paths;
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tl_dir_list(&paths, arena, path);
    for (int64_t i = 0; i < paths.count && st == TL_OK; i++) {
        const char *folder = paths.items[i];
        if (tl_dir_exists(folder)) st = each_of_class(w, folder, tl_path_basename(folder));
        else w->passed++;
    }
    tl_arena_free(&arena);
    return st;
}

static tl_status each_in_folder(walk *w, const char *path)
{
    int64_t before = w->told;
    w->passed = 0;
    TL_TRY(each_class(w, path));
    if (w->told == before)
        return TL_FAIL(TL_EINVAL,
                       "'%s' holds no texts: expected a folder for each class, with files in it "
                       "that end in .txt",
                       path);
    if (w->passed)
        TL_LOG_WARNING("'%s': %" PRId64 " files and folders are passed over: texts lie in the "
                       "folders of classes, and end in .txt",
                       path, w->passed);
    return TL_OK;
}

tl_status tli_texts_each(const tl_text_data_config *data, const char *const *paths, int64_t count,
                         tli_text_fn *fn, void *self)
{
    walk w = {.data = data, .fn = fn, .self = self};
    for (int64_t i = 0; i < count; i++)
        TL_TRY(tl_dir_exists(paths[i]) ? each_in_folder(&w, paths[i]) : each_row(&w, paths[i]));
    if (w.told) return TL_OK;
    return TL_FAIL(TL_EINVAL, "'%s' has no rows: expected texts with classes",
                   count ? paths[0] : "input_path");
}

/* --- columns ---------------------------------------------------------------------------------- */

enum { LOOKED_AT = 1000 /* rows */, MOST_COLUMNS = 256 };

/* What columns are called, and how long their texts are. */
typedef struct columns {
    const char *names[MOST_COLUMNS];
    double bytes[MOST_COLUMNS];
    int64_t count;
} columns;

static tl_status look_at_table(columns *out, tl_arena *arena, const tl_text_data_config *d,
                               const char *path)
{
    size_t length = strlen(path);
    tl_table *table;
    tl_table_args how = {.header = d->header, .delimiter = delimiter_of(d)};
    how.no_quotes = how.delimiter == '\t'
                    || (!how.delimiter && length > 4 && strcmp(path + length - 4, ".tsv") == 0);
    TL_TRY(tl_table_open(&table, path, &how));
    tl_status st = TL_OK;
    out->count = table->columns < MOST_COLUMNS ? table->columns : MOST_COLUMNS;
    for (int64_t i = 0; i < out->count && st == TL_OK; i++)
        if (!(out->names[i] = tl_arena_strdup(arena, table->names[i]))) st = TL_ENOMEM;
    for (int64_t n = 0; n < LOOKED_AT && st == TL_OK; n++) {
        const tl_cell *cells;
        bool more = true;
        st = tl_table_next(table, &cells, &more);
        if (st != TL_OK || !more) break;
        for (int64_t i = 0; i < out->count; i++) out->bytes[i] += (double)cells[i].length;
    }
    tl_table_free(&table);
    return st;
}

/* Of JSON the first object says it. */
static tl_status look_at_json(columns *out, tl_arena *arena, const char *path)
{
    tl_file_mapping file;
    const char *key;
    json_t *value;
    TL_TRY(tl_file_map(&file, path));
    size_t from = 0, size;
    while (from < file.size && isspace((unsigned char)file.data[from])) from++;
    const char *end = memchr(file.data + from, '\n', file.size - from);
    size = (end ? (size_t)(end - file.data) : file.size) - from;
    json_t *object = json_loadb(file.data + from, size, 0, NULL);
    tl_file_unmap(&file);
    json_object_foreach(object, key, value)
    {
        if (out->count == MOST_COLUMNS) break;
        if (!(out->names[out->count] = tl_arena_strdup(arena, key))) {
            json_decref(object);
            return TL_ENOMEM;
        }
        out->bytes[out->count++] = (double)json_string_length(value);
    }
    bool is_object = json_is_object(object);
    json_decref(object);
    if (is_object) return TL_OK;
    return TL_FAIL(TL_EDATA, "%s:1: a JSON object is expected on each line", path);
}

static bool is_json(const char *path)
{
    static const char *const endings[] = {".jsonl", ".ndjson", ".json"};
    size_t length = strlen(path);
    for (int i = 0; i < TL_COUNT(endings); i++) {
        size_t n = strlen(endings[i]);
        if (length > n && strcmp(path + length - n, endings[i]) == 0) return true;
    }
    return false;
}

/* The first of the usual names that a column has, but for `other`. */
static const char *usual(const columns *c, const char *const *names, const char *other)
{
    for (; *names; names++)
        for (int64_t i = 0; i < c->count; i++)
            if (strcasecmp(c->names[i], *names) == 0 && (!other || strcmp(c->names[i], other) != 0))
                return c->names[i];
    return NULL;
}

/* The longest texts; of two columns the one that is left. */
static const char *longest(const columns *c, const char *other)
{
    int64_t best = -1;
    for (int64_t i = 0; i < c->count; i++)
        if ((!other || strcmp(c->names[i], other) != 0)
            && (best < 0 || c->bytes[i] > c->bytes[best]))
            best = i;
    return best < 0 ? NULL : c->names[best];
}

static const char *left(const columns *c, const char *other)
{
    if (c->count != 2) return NULL;
    return c->names[strcmp(c->names[0], other) == 0 ? 1 : 0];
}

static tl_status no_column(const columns *c, const char *path, const char *key, const char *what)
{
    tl_str names = TL_STR_INIT;
    for (int64_t i = 0; i < c->count && i < 30; i++)
        tl_str_addf(&names, "%s%.60s", i ? ", " : "", c->names[i]);
    tl_status st =
        c->count < 2
            ? TL_FAIL(TL_EINVAL,
                      "'%s' has one column%s%s; texts need another one, with their class", path,
                      c->count ? ", " : "", tl_str_text(&names))
            : TL_FAIL(TL_EINVAL, "'%s' has the columns %s; which of them %s cannot be told: set %s",
                      path, tl_str_text(&names), what, key);
    tl_str_deinit(&names);
    return st;
}

tl_status tli_text_columns_find(tli_text_columns *out, tl_arena *arena,
                                const tl_text_data_config *data, const char *path)
{
    static const char *const texts[] = {"text",     "sentence",  "review",      "content",
                                        "message",  "body",      "comment",     "tweet",
                                        "document", "utterance", "description", "question",
                                        "title",    "headline",  NULL};
    static const char *const labels[] = {"label",  "labels",    "class", "category",
                                         "target", "sentiment", "stars", "rating",
                                         "topic",  "intent",    NULL};
    columns *c = tl_arena_alloc(arena, sizeof *c);
    if (!c) return TL_ENOMEM;
    *out = (tli_text_columns){given(data->text_column), given(data->label_column)};
    if (out->text && out->label) return TL_OK;
    TL_TRY(is_json(path) ? look_at_json(c, arena, path) : look_at_table(c, arena, data, path));
    if (c->count < 2) return no_column(c, path, "label_column", "holds the classes");
    if (!out->label) out->label = usual(c, labels, out->text);
    if (!out->text) out->text = usual(c, texts, out->label);
    if (!out->text) out->text = longest(c, out->label);
    if (!out->label) out->label = left(c, out->text);
    if (out->label) return TL_OK;
    return no_column(c, path, "task.train_data.label_column", "holds the classes");
}
