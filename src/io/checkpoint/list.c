#include "io/inner/checkpoint_manager.h"

#include <ctype.h>
#include <string.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/base/map.h>
#include <tilth/base/vec.h>
#include <tilth/io/checkpoint/checkpoint.h>
#include <tilth/io/tensorflow/tensorbundle.h>

enum { LONGEST_FILE = 16 << 20, MOST_DIGITS = 19, SECONDS_BETWEEN_WARNINGS = 60 };

void tli_checkpoint_list_deinit(tli_checkpoint_list *l)
{
    for (int64_t i = 0; i < l->count; i++) tl_free(l->items[i].path);
    TL_VEC_FREE(l);
    tl_free(l->latest);
    *l = (tli_checkpoint_list){0};
}

tl_status tli_checkpoint_list_add(tli_checkpoint_list *l, const char *path, double time)
{
    tli_checkpoint_item item = {tl_strdup(path), time};
    if (!item.path) return TL_FAIL_NOMEM(strlen(path) + 1);
    if (TL_VEC_PUSH(l, item)) return TL_OK;
    tl_free(item.path);
    return TL_ENOMEM;
}

tl_status tli_checkpoint_list_set_latest(tli_checkpoint_list *l, const char *path)
{
    char *copy = path ? tl_strdup(path) : NULL;
    if (path && !copy) return TL_FAIL_NOMEM(strlen(path) + 1);
    tl_free(l->latest);
    l->latest = copy;
    return TL_OK;
}

tl_status tli_checkpoint_list_copy(tli_checkpoint_list *out, const tli_checkpoint_list *l)
{
    *out = (tli_checkpoint_list){.preserved = l->preserved};
    tl_status st = tli_checkpoint_list_set_latest(out, l->latest);
    for (int64_t i = 0; i < l->count && st == TL_OK; i++)
        st = tli_checkpoint_list_add(out, l->items[i].path, l->items[i].time);
    if (st != TL_OK) tli_checkpoint_list_deinit(out);
    return st;
}

void tli_checkpoint_list_remove(tli_checkpoint_list *l, const char *path)
{
    int64_t i = 0;
    while (i < l->count && strcmp(l->items[i].path, path) != 0) i++;
    if (i == l->count) return;
    tl_free(l->items[i].path);
    memmove(&l->items[i], &l->items[i + 1], (size_t)(l->count - i - 1) * sizeof *l->items);
    l->count--;
}

void tli_checkpoint_list_drop(tli_checkpoint_list *l, int64_t i)
{
    tl_free(l->items[i].path);
    l->items[i].path = NULL;
}

void tli_checkpoint_list_pack(tli_checkpoint_list *l)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < l->count; i++)
        if (l->items[i].path) l->items[kept++] = l->items[i];
    l->count = kept;
}

/* --- what an item means ----------------------------------------------------------------------- */

// Steps are written without zeros in front.
static bool is_step(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits <= MOST_DIGITS && !text[digits] && (text[0] != '0' || digits == 1);
}

bool tli_checkpoint_is_own(const char *item, const char *name)
{
    size_t head = strlen(name), timed = strlen(TLI_CHECKPOINT_TIMED);
    if (strncmp(item, name, head) != 0 || item[head] != '-') return false;
    const char *step = item + head + 1;
    return is_step(strncmp(step, TLI_CHECKPOINT_TIMED, timed) == 0 ? step + timed : step);
}

static tl_status is_there(bool *out, tl_arena *arena, const char *prefix, const char *suffix)
{
    const char *file = tl_arena_printf(arena, "%s%s", prefix, suffix);
    *out = file && tl_file_exists(file);
    return file ? TL_OK : TL_ENOMEM;
}

tl_status tli_checkpoint_list_prefix(const char **out, bool *elsewhere, tl_arena *arena,
                                     const char *directory, const char *item)
{
    static int64_t warned;
    bool ours, divided, theirs;
    *elsewhere = false;
    *out = tl_path_join(arena, directory, item[0] == '/' ? tl_path_basename(item) : item);
    if (!*out) return TL_ENOMEM;
    if (item[0] != '/') return TL_OK;
    TL_TRY(is_there(&ours, arena, *out, TL_CHECKPOINT_SUFFIX));
    TL_TRY(is_there(&divided, arena, *out, TL_SAFETENSORS_INDEX));
    TL_TRY(is_there(&theirs, arena, *out, TL_TENSORBUNDLE_SUFFIX));
    if (ours || divided || theirs) return TL_OK;
    *elsewhere = true;
    if (!(*out = tl_arena_strdup(arena, item))) return TL_ENOMEM;
    TL_TRY(is_there(&theirs, arena, item, TL_TENSORBUNDLE_SUFFIX));
    if (theirs
        && tl_log_every_s(&warned, SECONDS_BETWEEN_WARNINGS)) // it is asked for again and again
        TL_LOG_WARNING("the state file in '%s' names '%s', which is not in that folder: it is "
                       "read, and stays as it is",
                       directory, item);
    return TL_OK;
}

/* Whether there was one. */
static bool delete_file(tl_arena *arena, const char *prefix, const char *suffix)
{
    const char *file = prefix ? tl_arena_printf(arena, "%s%s", prefix, suffix) : NULL;
    tl_status st = file ? tl_file_remove(file) : TL_ENOMEM;
    if (st != TL_OK && st != TL_ENOTFOUND)
        TL_LOG_WARNING("an old checkpoint stays: %s", tl_error_message());
    if (st != TL_OK) tl_error_clear();
    return st == TL_OK;
}

/* The index before its files: without it they are no checkpoint. */
void tli_checkpoint_list_delete(const char *directory, const char *item, const char *name)
{
    tl_arena *arena;
    if (!tli_checkpoint_is_own(item, name)) return;
    if (tl_arena_new(&arena) != TL_OK) {
        TL_LOG_WARNING("an old checkpoint stays: %s", tl_error_message());
        tl_error_clear();
        return;
    }
    const char *prefix = tl_path_join(arena, directory, item);
    (void)delete_file(arena, prefix, TL_CHECKPOINT_SUFFIX);
    if (delete_file(arena, prefix, TL_SAFETENSORS_INDEX))
        tli_checkpoint_remove_pieces(directory, item, 0);
    tl_arena_free(&arena);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* A text of fields: name, colon, a quoted string or a number. */
typedef struct reader {
    const char *at, *end;
    int line;
    tl_str text; /* of the value */
} reader;

static tl_status fail_at(const reader *r, const char *what)
{
    return TL_FAIL(TL_EINVAL, "line %d: %s", r->line, what);
}

static void skip_blanks(reader *r)
{
    for (; r->at < r->end; r->at++) {
        if (*r->at == '#')
            while (r->at + 1 < r->end && r->at[1] != '\n') r->at++;
        else if (*r->at == '\n') r->line++;
        else if (!isspace((unsigned char)*r->at) && *r->at != ',' && *r->at != ';') return;
    }
}

static tl_status read_name(reader *r, char *name, size_t size)
{
    size_t length = 0;
    while (r->at < r->end && (isalnum((unsigned char)*r->at) || *r->at == '_')) {
        if (length + 1 >= size) return fail_at(r, "a field of that name is not known");
        name[length++] = *r->at++;
    }
    name[length] = '\0';
    skip_blanks(r);
    if (!length || r->at == r->end || *r->at != ':')
        return fail_at(r, "a field and ':' are expected");
    r->at++;
    skip_blanks(r);
    return TL_OK;
}

static int digit_of(char c, int base)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = c ? strchr(digits, tolower((unsigned char)c)) : NULL;
    return found && found - digits < base ? (int)(found - digits) : -1;
}

// What stands behind a backslash: a letter, up to three octal digits, or x and hexadecimal ones.
static tl_status read_escape(reader *r)
{
    static const char letters[] = "nrtabfv\\'\"?", meanings[] = "\n\r\t\a\b\f\v\\'\"?";
    const char *found = r->at < r->end && *r->at ? strchr(letters, *r->at) : NULL;
    if (found) {
        tl_str_addc(&r->text, meanings[found - letters]);
        r->at++;
        return TL_OK;
    }
    bool hex = r->at < r->end && (*r->at == 'x' || *r->at == 'X');
    int value = 0, count = 0, most = hex ? 2 : 3;
    if (hex) r->at++;
    for (; count < most && r->at < r->end && digit_of(*r->at, hex ? 16 : 8) >= 0; count++, r->at++)
        value = value * (hex ? 16 : 8) + digit_of(*r->at, hex ? 16 : 8);
    if (!count || value > 255 || !value) return fail_at(r, "a backslash without a meaning");
    tl_str_addc(&r->text, (char)value);
    return TL_OK;
}

static tl_status read_string(reader *r)
{
    tl_str_cut(&r->text, 0);
    if (r->at == r->end || (*r->at != '"' && *r->at != '\''))
        return fail_at(r, "a quoted text is expected");
    char quote = *r->at++;
    while (r->at < r->end && *r->at != quote) {
        char c = *r->at++;
        if (c == '\n' || c == '\0') return fail_at(r, "a text without an end");
        if (c == '\\') TL_TRY(read_escape(r));
        else tl_str_addc(&r->text, c);
    }
    if (r->at++ == r->end) return fail_at(r, "a text without an end");
    return tl_str_status(&r->text);
}

static tl_status read_number(reader *r, double *out)
{
    char number[64];
    size_t length = 0;
    while (r->at < r->end && (isalnum((unsigned char)*r->at) || strchr("+-.", *r->at)) && *r->at
           && length + 1 < sizeof number)
        number[length++] = *r->at++;
    number[length] = '\0';
    char *end;
    *out = tl_strtod(number, &end);
    if (end == number || *end || *out != *out) return fail_at(r, "a number is expected");
    return TL_OK;
}

typedef struct times {
    double *items;
    int64_t count, capacity;
} times;

static tl_status read_fields(tli_checkpoint_list *out, times *all, reader *r)
{
    for (skip_blanks(r); r->at < r->end; skip_blanks(r)) {
        char name[64];
        double number;
        TL_TRY(read_name(r, name, sizeof name));
        if (strcmp(name, "model_checkpoint_path") == 0) {
            TL_TRY(read_string(r));
            TL_TRY(tli_checkpoint_list_set_latest(out, tl_str_text(&r->text)));
        } else if (strcmp(name, "all_model_checkpoint_paths") == 0) {
            TL_TRY(read_string(r));
            TL_TRY(tli_checkpoint_list_add(out, tl_str_text(&r->text), 0));
        } else if (strcmp(name, "all_model_checkpoint_timestamps") == 0) {
            TL_TRY(read_number(r, &number));
            if (!TL_VEC_PUSH(all, number)) return TL_ENOMEM;
        } else if (strcmp(name, "last_preserved_timestamp") == 0) {
            TL_TRY(read_number(r, &out->preserved));
        } else {
            return fail_at(r, "a field of that name is not known");
        }
    }
    return TL_OK;
}

tl_status tli_checkpoint_list_parse(tli_checkpoint_list *out, const char *text, size_t size,
                                    double now)
{
    reader r = {.at = text, .end = text + size, .line = 1, .text = TL_STR_INIT};
    times all = {0};
    *out = (tli_checkpoint_list){0};
    tl_status st = read_fields(out, &all, &r);
    if (st == TL_OK && !out->latest) st = TL_FAIL(TL_EINVAL, "it has no model_checkpoint_path");
    for (int64_t i = 0; i < out->count; i++)
        out->items[i].time = i < all.count && all.items[i] < now ? all.items[i] : now;
    if (st != TL_OK) tli_checkpoint_list_deinit(out);
    TL_VEC_FREE(&all);
    tl_str_deinit(&r.text);
    return st;
}

static bool may_be_read(const char *item)
{
    return *item && (item[0] == '/' || tl_path_stays_inside(item));
}

static void warn_of(const char *item, const char *path)
{
    TL_LOG_WARNING("'%s' names '%s', which is no checkpoint in its folder: it is left alone", path,
                   item);
}

/* Takes out what leads out of the directory, and of what is named twice all but the last. */
static tl_status clean_items(tli_checkpoint_list *l, const char *path)
{
    tl_map seen = TL_MAP_INIT;
    tl_status st = TL_OK;
    bool warned = false;
    for (int64_t i = l->count - 1; i >= 0 && st == TL_OK; i--) {
        const char *item = l->items[i].path;
        bool readable = may_be_read(item), twice = readable && tl_map_has(&seen, item);
        if (!readable && !warned) warn_of(item, path);
        warned |= !readable;
        if (readable && !twice) st = tl_map_set(&seen, item, NULL);
        else tli_checkpoint_list_drop(l, i);
    }
    tli_checkpoint_list_pack(l);
    tl_map_deinit(&seen);
    return st;
}

static tl_status clean(tli_checkpoint_list *l, const char *path)
{
    TL_TRY(clean_items(l, path));
    if (may_be_read(l->latest)) return TL_OK;
    if (!l->count)
        return TL_FAIL(TL_EINVAL, "it names no checkpoint in its folder, but '%s'", l->latest);
    warn_of(l->latest, path);
    return tli_checkpoint_list_set_latest(l, l->items[l->count - 1].path);
}

tl_status tli_checkpoint_list_read(tli_checkpoint_list *out, const char *directory, double now)
{
    tl_arena *arena = NULL;
    char *data = NULL, *path = NULL;
    size_t size;
    tl_status st;
    *out = (tli_checkpoint_list){0};
    TL_TRY_DONE(st, tl_arena_new(&arena));
    path = tl_path_join(arena, directory, TLI_CHECKPOINT_LIST_NAME);
    TL_TRY_DONE(st, path ? tl_file_read(&data, &size, path, LONGEST_FILE) : TL_ENOMEM);
    st = tli_checkpoint_list_parse(out, data, size, now);
    if (st == TL_OK) st = clean(out, path);
    if (st != TL_OK) {
        tl_error_note(st, "'%s'", path);
        tli_checkpoint_list_deinit(out);
    }
done:
    tl_free(data);
    tl_arena_free(&arena);
    return st;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void add_path(tl_str *out, const char *field, const char *path)
{
    tl_str_addf(out, "%s: \"", field);
    for (const unsigned char *p = (const unsigned char *)path; *p; p++) {
        if (*p == '"' || *p == '\\' || *p == '\'') tl_str_addf(out, "\\%c", *p);
        else if (*p < 0x20 || *p > 0x7e) tl_str_addf(out, "\\%03o", *p);
        else tl_str_addc(out, (char)*p);
    }
    tl_str_add(out, "\"\n");
}

static void add_time(tl_str *out, const char *field, double time)
{
    char text[32];
    tl_double_text(text, time);
    tl_str_addf(out, "%s: %s\n", field, text);
}

void tli_checkpoint_list_text(tl_str *out, const tli_checkpoint_list *l)
{
    add_path(out, "model_checkpoint_path", l->latest);
    for (int64_t i = 0; i < l->count; i++)
        add_path(out, "all_model_checkpoint_paths", l->items[i].path);
    for (int64_t i = 0; i < l->count; i++)
        add_time(out, "all_model_checkpoint_timestamps", l->items[i].time);
    add_time(out, "last_preserved_timestamp", l->preserved);
}

tl_status tli_checkpoint_list_write(const tli_checkpoint_list *l, const char *directory)
{
    tl_str text = TL_STR_INIT;
    tl_arena *arena = NULL;
    tl_status st;
    TL_TRY_DONE(st, tl_arena_new(&arena));
    tli_checkpoint_list_text(&text, l);
    TL_TRY_DONE(st, tl_str_status(&text));
    const char *path = tl_path_join(arena, directory, TLI_CHECKPOINT_LIST_NAME);
    st = path ? tl_file_write_atomic(path, tl_str_text(&text), text.length) : TL_ENOMEM;
done:
    tl_arena_free(&arena);
    tl_str_deinit(&text);
    return st;
}
