#include "io/inner/json_lines.h"

#include <stdlib.h>
#include <string.h>

#include <tilth/base/file.h>

/* --- a line ----------------------------------------------------------------------------------- */

/* Where the string that opens at `at` ends: behind its quote, or NULL when it does not. */
static const char *string_end(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\') at++;
    return at < end ? at + 1 : NULL;
}

const char *tli_json_line_find(const char *at, const char *end, const char *key)
{
    size_t length = strlen(key);
    int64_t depth = 0;
    while (at < end) {
        if (*at != '"') {
            depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
            at++;
            continue;
        }
        const char *after = string_end(at, end);
        if (!after) return NULL;
        bool is_key =
            depth == 1 && (size_t)(after - at) == length + 2 && memcmp(at + 1, key, length) == 0;
        at = after;
        while (is_key && at < end && (*at == ' ' || *at == ':')) at++;
        if (is_key && after != at) return at < end ? at : NULL;
    }
    return NULL;
}

bool tli_json_line_int(int64_t *out, const char *line, const char *end, const char *key)
{
    const char *at = tli_json_line_find(line, end, key);
    char number[24] = "", *stop;
    if (!at) return false;
    memcpy(number, at,
           (size_t)(end - at) < sizeof number - 1 ? (size_t)(end - at) : sizeof number - 1);
    *out = strtoll(number, &stop, 10);
    return stop != number;
}

bool tli_json_line_is(const char *line, const char *end, const char *key, const char *text)
{
    const char *at = tli_json_line_find(line, end, key);
    size_t length = strlen(text);
    return at && (size_t)(end - at) >= length + 2 && *at == '"' && at[length + 1] == '"'
           && memcmp(at + 1, text, length) == 0;
}

/* True when the line is an object that was written to its end. */
static bool is_whole(const char *at, const char *end)
{
    int64_t depth = 0;
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

/* --- a file ----------------------------------------------------------------------------------- */

/* The lines that stay. `changed` says whether that is less than there is, or a newline more. */
static void keep_lines(tl_str *out, bool *changed, const tl_file_mapping *file,
                       tli_json_line_fn *keep, void *payload)
{
    const char *end = file->data + file->size;
    *changed = false;
    for (const char *at = file->data, *next; at < end; at = next) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        next = newline ? newline + 1 : end;
        bool stays = keep(at, stop, payload);
        *changed |= !stays || !newline;
        if (!stays || (!newline && !is_whole(at, stop))) continue;
        tl_str_addn(out, at, (size_t)(stop - at));
        tl_str_addc(out, '\n');
    }
}

tl_status tli_json_lines_mend(const char *path, tli_json_line_fn *keep, void *payload)
{
    tl_file_mapping file = TL_FILE_MAPPING_INIT;
    tl_str kept = TL_STR_INIT;
    bool changed;
    if (!tl_file_exists(path)) return TL_OK;
    tl_status st;
    TL_TRY_DONE(st, tl_file_map(&file, path));
    keep_lines(&kept, &changed, &file, keep, payload);
    TL_TRY_DONE(st, tl_str_status(&kept));
    if (changed) st = tl_file_write_atomic(path, tl_str_text(&kept), kept.length);
done:
    tl_file_unmap(&file);
    tl_str_deinit(&kept);
    return st;
}

tl_status tli_make_folder_of(const char *path)
{
    tl_arena *arena = NULL;
    TL_TRY(tl_arena_new(&arena));
    const char *folder = tl_path_dirname(arena, path);
    tl_status st = folder ? tl_mkdirs(folder) : TL_ENOMEM;
    tl_arena_free(&arena);
    return st;
}
