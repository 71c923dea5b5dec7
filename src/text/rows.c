#include <tilth/text/rows.h>

#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>

#include <jansson.h>

/* The texts of a row, and its label. */
enum { FIRST, SECOND, LABEL, COLUMNS };

struct tl_text_rows {
    char *name;
    char *columns[COLUMNS]; /* as they are called; NULL: there is none */
    int64_t line;
    bool found;   /* the last row, whatever stands in it */
    tl_str label; /* of the last row */
    tl_table *table;
    int64_t places[COLUMNS]; /* of the columns in the table */
    tl_file_mapping file;    /* of JSON */
    const char *at, *end;
    json_t *object; /* of the last line */
};

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text), n = strlen(ending);
    return length >= n && strcmp(text + length - n, ending) == 0;
}

static bool is_json(const char *name)
{
    return ends_with(name, ".jsonl") || ends_with(name, ".ndjson") || ends_with(name, ".json");
}

static tl_status fail_at(const tl_text_rows *r, int column, const char *why)
{
    return TL_FAIL(TL_EDATA, "%s:%" PRId64 ": column '%.80s': %s", r->name, r->line,
                   r->columns[column], why);
}

tl_status tl_text_rows_refuse_label(const tl_text_rows *r, const char *why)
{
    return r->columns[LABEL] ? fail_at(r, LABEL, why)
                             : TL_FAIL(TL_EDATA, "%s:%" PRId64 ": %s", r->name, r->line, why);
}

/* --- tables ----------------------------------------------------------------------------------- */

static tl_table_args table_args(const char *name, const tl_text_rows_args *args)
{
    bool tabs = args->delimiter == '\t'
                || (!args->delimiter && (ends_with(name, ".tsv") || ends_with(name, ".tsv.gz")));
    return (tl_table_args){
        .header = args->header,
        .delimiter = args->delimiter,
        .no_quotes = args->quoting.set ? !args->quoting.value : tabs,
        .skip_short = args->skip_short,
    };
}

static tl_status find_columns(tl_text_rows *r)
{
    if (r->table->is_npy)
        return TL_FAIL(TL_EINVAL, "'%s' is an array of numbers; texts are expected", r->name);
    for (int i = 0; i < COLUMNS; i++)
        if (r->columns[i]) TL_TRY(tl_table_find(&r->places[i], r->table, r->columns[i]));
    return TL_OK;
}

/* Latin-1 would be a guess, and what is guessed wrong is learned without a word. */
static tl_status take_cell(const tl_text_rows *r, const tl_cell *cells, int column, tl_bytes *out)
{
    if (!r->columns[column]) return TL_OK;
    const tl_cell *c = &cells[r->places[column]];
    *out = (tl_bytes){c->text, c->length};
    if (!c->was_not_utf8) return TL_OK;
    return fail_at(r, column,
                   "the text is no UTF-8; if it is Windows-1252 or Latin-1, `iconv -f WINDOWS-1252 "
                   "-t UTF-8 FILE >NEW` writes it anew");
}

static tl_status next_in_table(tl_text_rows *r, tl_text_row *out, bool *more)
{
    const tl_cell *cells;
    tl_bytes label = {0};
    TL_TRY(tl_table_next(r->table, &cells, more));
    if (!*more) return TL_OK;
    r->found = true;
    r->line = out->line = tl_table_line(r->table);
    TL_TRY(take_cell(r, cells, FIRST, &out->first));
    TL_TRY(take_cell(r, cells, SECOND, &out->second));
    TL_TRY(take_cell(r, cells, LABEL, &label));
    if (!r->columns[LABEL]) return TL_OK;
    if (!label.size) return fail_at(r, LABEL, "the label is missing");
    tl_str_addn(&r->label, label.data, label.size);
    return TL_OK;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static tl_status no_member(const tl_text_rows *r, int column)
{
    enum { MOST = 30 };
    tl_str list = TL_STR_INIT;
    const char *key;
    json_t *value;
    int count = 0;
    json_object_foreach(r->object, key, value)
    {
        if (count < MOST) tl_str_addf(&list, "%s%.60s", count ? ", " : "", key);
        count++;
    }
    tl_status st =
        TL_FAIL(TL_EDATA, "%s:%" PRId64 ": there is no '%.80s'; the object has %s%s", r->name,
                r->line, r->columns[column], count ? tl_str_text(&list) : "nothing",
                count > MOST ? " and others" : "");
    tl_str_deinit(&list);
    return st;
}

static tl_status get_text(const tl_text_rows *r, int column, tl_bytes *out)
{
    if (!r->columns[column]) return TL_OK;
    const json_t *value = json_object_get(r->object, r->columns[column]);
    if (!value) return no_member(r, column);
    if (!json_is_string(value)) return fail_at(r, column, "a text is expected");
    *out = (tl_bytes){json_string_value(value), json_string_length(value)};
    return TL_OK;
}

static tl_status get_label(tl_text_rows *r)
{
    char number[32];
    if (!r->columns[LABEL]) return TL_OK;
    const json_t *value = json_object_get(r->object, r->columns[LABEL]);
    if (!value) return no_member(r, LABEL);
    switch (json_typeof(value)) {
    case JSON_STRING:
        tl_str_addn(&r->label, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER: tl_str_addf(&r->label, "%lld", (long long)json_integer_value(value)); break;
    case JSON_REAL:
        tl_double_text(number, json_real_value(value));
        tl_str_add(&r->label, number);
        break;
    case JSON_TRUE: tl_str_add(&r->label, "true"); break;
    case JSON_FALSE: tl_str_add(&r->label, "false"); break;
    default: return fail_at(r, LABEL, "a text or a number is expected");
    }
    return r->label.length || r->label.failed ? TL_OK : fail_at(r, LABEL, "the label is missing");
}

static bool is_empty(const char *at, const char *stop)
{
    while (at < stop && strchr(" \t\r", *at) && *at) at++;
    return at == stop;
}

/* The next line that is not empty; false: there is none. */
static bool next_line(tl_text_rows *r, const char **from, size_t *size)
{
    while (r->at < r->end) {
        const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
        *from = r->at;
        *size = (size_t)((stop ? stop : r->end) - r->at);
        r->at = stop ? stop + 1 : r->end;
        r->line++;
        if (!is_empty(*from, *from + *size)) return true;
    }
    return false;
}

static tl_status next_object(tl_text_rows *r, tl_text_row *out, bool *more)
{
    const char *text;
    size_t size;
    json_error_t error;
    json_decref(r->object);
    r->object = NULL;
    r->found = *more = next_line(r, &text, &size);
    if (!*more) return TL_OK;
    r->object = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!r->object)
        return TL_FAIL(TL_EDATA, "%s:%" PRId64 ": column %d: no JSON: %s", r->name, r->line,
                       error.column, error.text);
    if (!json_is_object(r->object))
        return TL_FAIL(TL_EDATA, "%s:%" PRId64 ": a JSON object is expected on each line", r->name,
                       r->line);
    out->line = r->line;
    TL_TRY(get_text(r, FIRST, &out->first));
    TL_TRY(get_text(r, SECOND, &out->second));
    return get_label(r);
}

static tl_status next_in_json(tl_text_rows *r, tl_text_row *out, bool *more)
{
    tl_status st = next_object(r, out, more);
    if ((st == TL_OK && *more) || !r->file.data) return st;
    tl_status mapped = tl_file_mapping_check(&r->file, r->name); // zeros are no rows
    if (mapped == TL_OK) return st;
    r->found = false;
    return mapped;
}

/* --- rows ------------------------------------------------------------------------------------- */

static tl_status take_args(tl_text_rows *r, const char *name, const tl_text_rows_args *args)
{
    const char *const columns[COLUMNS] = {args->first, args->second, args->label};
    if (!args->first || !*args->first)
        return TL_FAIL(TL_EINVAL, "'%s': the column of the texts is not given", name);
    r->name = tl_strdup(name);
    if (!r->name) return TL_FAIL_NOMEM(strlen(name) + 1);
    for (int i = 0; i < COLUMNS; i++) {
        r->columns[i] = tl_strdup(columns[i]);
        if (columns[i] && !r->columns[i]) return TL_FAIL_NOMEM(strlen(columns[i]) + 1);
    }
    return TL_OK;
}

static tl_status begin_json(tl_text_rows *r, const char *data, size_t size)
{
    const bool mark = size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0;
    r->at = data + (mark ? 3 : 0);
    r->end = data + size;
    return TL_OK;
}

static tl_status open_file(tl_text_rows *r, const char *path, const tl_text_rows_args *args)
{
    TL_TRY(take_args(r, path, args));
    if (is_json(path)) {
        TL_TRY(tl_file_map(&r->file, path));
        return begin_json(r, r->file.data, r->file.size);
    }
    tl_table_args how = table_args(path, args);
    TL_TRY(tl_table_open(&r->table, path, &how));
    return find_columns(r);
}

static tl_status open_memory(tl_text_rows *r, const char *name, const void *data, size_t size,
                             const tl_text_rows_args *args)
{
    TL_TRY(take_args(r, name, args));
    if (is_json(name)) return begin_json(r, size ? data : "", size);
    tl_table_args how = table_args(name, args);
    TL_TRY(tl_table_from_memory(&r->table, name, data, size, &how));
    return find_columns(r);
}

static tl_status make(tl_text_rows **out)
{
    *out = tl_alloc_zero(sizeof **out);
    return *out ? TL_OK : TL_FAIL_NOMEM(sizeof **out);
}

tl_status tl_text_rows_open(tl_text_rows **out, const char *path, const tl_text_rows_args *args)
{
    TL_TRY(make(out));
    tl_status st = open_file(*out, path, args);
    if (st != TL_OK) tl_text_rows_free(out);
    return st;
}

tl_status tl_text_rows_from_memory(tl_text_rows **out, const char *name, const void *data,
                                   size_t size, const tl_text_rows_args *args)
{
    TL_TRY(make(out));
    tl_status st = open_memory(*out, name, data, size, args);
    if (st != TL_OK) tl_text_rows_free(out);
    return st;
}

void tl_text_rows_free(tl_text_rows **rows)
{
    tl_text_rows *r = *rows;
    *rows = NULL;
    if (!r) return;
    json_decref(r->object);
    tl_table_free(&r->table);
    tl_file_unmap(&r->file);
    tl_str_deinit(&r->label);
    for (int i = 0; i < COLUMNS; i++) tl_free(r->columns[i]);
    tl_free(r->name);
    tl_free(r);
}

bool tl_text_rows_go_on(const tl_text_rows *r)
{
    return r->found;
}

int64_t tl_text_rows_skipped(const tl_text_rows *r)
{
    return r->table ? r->table->skipped : 0;
}

tl_status tl_text_rows_next(tl_text_rows *r, tl_text_row *out, bool *more)
{
    *out = (tl_text_row){0};
    r->found = false;
    tl_str_cut(&r->label, 0);
    TL_TRY(r->table ? next_in_table(r, out, more) : next_in_json(r, out, more));
    if (!*more || !r->columns[LABEL]) return TL_OK;
    TL_TRY(tl_str_status(&r->label));
    if (memchr(tl_str_text(&r->label), 0, r->label.length))
        return fail_at(r, LABEL, "a zero byte stands in the label");
    out->label = tl_str_text(&r->label);
    return TL_OK;
}
