#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/text/rows.h>
#include <tilth/zoo/language.h>

#include "tool/data_text.h"
#include "tool/predict.h"

enum { LARGEST = 1 << 30 /* bytes of a file that is read */ };
#define STANDARD_INPUT "standard input"

/* How the run's own texts lie. */
typedef struct form {
    const char *first, *second; /* columns; NULL: not known, none */
    tl_table_header header;
    char delimiter;
    bool of_files; /* each file is one text */
} form;

static tl_status form_of(form *out, tli_asking *a)
{
    const tl_object object = tli_answering(tl_predictor_finished(a->p)->params);
    const tl_task_config *task = object.value;
    const tl_data_config *data = task->train_data ? task->train_data : task->validation_data;
    tl_strings given = {0};
    *out = (form){0};
    if (data && tl_desc_is(object.desc, &tl_text_task_config_desc)) {
        const tl_text_data_config *d = (const tl_text_data_config *)data;
        *out = (form){.first = *d->text_column ? d->text_column : NULL,
                      .second = *d->second_text_column ? d->second_text_column : NULL,
                      .delimiter = strcmp(d->delimiter, "tab") == 0 ? '\t' : *d->delimiter,
                      .header = d->header,
                      .of_files = !*d->text_column};
    } else if (data && tl_desc_is(object.desc, &tl_sentence_text_task_config_desc)) {
        tl_strings fields = ((const tl_sentence_text_data_config *)data)->text_fields;
        out->first = fields.count > 0 ? fields.items[0] : NULL;
        out->second = fields.count > 1 ? fields.items[1] : NULL;
    }
    if (!a->flags->text_columns) return TL_OK;
    TL_TRY(tli_split_commas(&given, a->run->arena, "text_columns", a->flags->text_columns));
    if (given.count > 2)
        return TL_FAIL(TL_EINVAL, "--text_columns: one text, or a pair; found %" PRId64 " columns",
                       given.count);
    out->first = given.items[0];
    out->second = given.count > 1 ? given.items[1] : NULL;
    return TL_OK;
}

/* --- one text --------------------------------------------------------------------------------- */

/* Texts are copied: they wait until there are enough of them. */
static tl_status keep(const void **out, tli_asking *a, tl_bytes text)
{
    *out = text.size ? tl_arena_copy(a->names, text.data, text.size) : "";
    return *out ? TL_OK : TL_ENOMEM;
}

static tl_status ask_text(tli_asking *a, const char *file, int64_t line, tl_bytes first,
                          tl_bytes second)
{
    tl_query q = {.size = first.size, .second_size = second.size, .of_data = true};
    const char *name = line ? tl_arena_printf(a->names, "%s:%" PRId64, file, line) : file;
    if (!name) return TL_ENOMEM;
    TL_TRY(keep(&q.data, a, first));
    if (second.data) TL_TRY(keep(&q.second, a, second));
    return tli_ask(a, name, &q);
}

static bool is_enough(const tli_asking *a, int64_t taken)
{
    return a->flags->count > 0 && taken >= a->flags->count;
}

/* --- rows ------------------------------------------------------------------------------------- */

static tl_status ask_rows(tli_asking *a, const char *path, const form *f)
{
    tl_text_rows *rows;
    int64_t taken = 0;
    if (!f->first)
        return TL_FAIL(TL_EINVAL,
                       "%s: which column holds the texts is not known: say --text_columns=NAME",
                       path);
    TL_TRY(tl_text_rows_open(&rows, path,
                             &(tl_text_rows_args){.first = f->first,
                                                  .second = f->second,
                                                  .header = f->header,
                                                  .delimiter = f->delimiter}));
    tl_status st = TL_OK;
    for (bool more = true; st == TL_OK && !is_enough(a, taken); taken++) {
        tl_text_row row;
        st = tl_text_rows_next(rows, &row, &more);
        if (st == TL_EDATA && tl_text_rows_go_on(rows)) {
            st = tli_ask_failed(a, st);
            continue;
        }
        if (st != TL_OK || !more) break;
        if (f->second && !row.second.data) row.second.data = "";
        st = ask_text(a, path, row.line, row.first, row.second);
    }
    tl_text_rows_free(&rows);
    return st;
}

/* --- lines ------------------------------------------------------------------------------------ */

/* A pair stands on a line with a tab between the two. */
static tl_status ask_line(tli_asking *a, const char *file, int64_t number, const char *line,
                          size_t size, const form *f)
{
    while (size && strchr("\r\n", line[size - 1]) && line[size - 1]) size--;
    if (!size) return TL_OK;
    const char *tab = f->second ? memchr(line, '\t', size) : NULL;
    if (!tab) return ask_text(a, file, number, (tl_bytes){line, size}, (tl_bytes){0});
    size_t first = (size_t)(tab - line);
    return ask_text(a, file, number, (tl_bytes){line, first},
                    (tl_bytes){tab + 1, size - first - 1});
}

static tl_status ask_lines(tli_asking *a, const char *path, const form *f)
{
    char *text;
    size_t size;
    tl_status st = TL_OK;
    TL_TRY(tl_file_read(&text, &size, path, LARGEST));
    const char *at = text, *end = text + size;
    for (int64_t number = 1; at < end && st == TL_OK && !is_enough(a, number - 1); number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        st = ask_line(a, path, number, at, (size_t)((stop ? stop : end) - at), f);
        at = stop ? stop + 1 : end;
    }
    tl_free(text);
    return st;
}

/* Answers come as lines do where somebody types them. */
static tl_status ask_standard_input(tli_asking *a, const form *f)
{
    const bool typed = isatty(fileno(stdin));
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    tl_status st = TL_OK;
    errno = 0;
    for (int64_t number = 1;
         st == TL_OK && !is_enough(a, number - 1) && (size = getline(&line, &room, stdin)) >= 0;
         number++) {
        st = ask_line(a, STANDARD_INPUT, number, line, (size_t)size, f);
        if (st == TL_OK && typed) st = tli_ask_flush(a);
    }
    if (st == TL_OK && ferror(stdin))
        st = TL_FAIL(TL_EIO, "cannot read standard input: %s", strerror(errno));
    free(line); // getline's
    return st;
}

/* --- files ------------------------------------------------------------------------------------ */

static bool ends_in(const char *path, const char *ending)
{
    size_t length = strlen(path), n = strlen(ending);
    return length > n && strcasecmp(path + length - n, ending) == 0;
}

static bool has_rows(const char *path)
{
    static const char *const endings[] = {".csv",   ".tsv",    ".csv.gz", ".tsv.gz",
                                          ".jsonl", ".ndjson", ".json"};
    for (int64_t i = 0; i < TL_COUNT(endings); i++)
        if (ends_in(path, endings[i])) return true;
    return false;
}

static bool is_text(const char *path)
{
    return ends_in(path, ".txt");
}

static tl_status ask_whole(tli_asking *a, const char *path)
{
    char *text;
    size_t size;
    TL_TRY(tl_file_read(&text, &size, path, LARGEST));
    tl_status st = ask_text(a, path, 0, (tl_bytes){text, size}, (tl_bytes){0});
    tl_free(text);
    return st;
}

static tl_status ask_path(tli_asking *a, const char *path, const form *f)
{
    int64_t found;
    if (strcmp(path, "-") == 0) return ask_standard_input(a, f);
    if (tl_dir_exists(path)) {
        TL_TRY(tli_ask_below(a, path, is_text, ask_whole, &found));
        return found
                   ? TL_OK
                   : TL_FAIL(TL_EINVAL,
                             "'%s' holds no text: no file in it, nor below it, ends in .txt", path);
    }
    if (has_rows(path)) return ask_rows(a, path, f);
    return f->of_files && is_text(path) ? ask_whole(a, path) : ask_lines(a, path, f);
}

tl_status tli_ask_texts(tli_asking *a, const char *path)
{
    form f;
    TL_TRY(form_of(&f, a));
    tl_status st = ask_path(a, path, &f);
    tl_error why;
    if (st != TL_OK) tl_error_save(&why);
    tl_status rest = tli_ask_flush(a); // what came before something that cannot be read is told
    if (st == TL_OK || rest != TL_OK) return rest;
    tl_error_restore(&why);
    return st;
}
