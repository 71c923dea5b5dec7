/* Files with the names of classes, beside records. */
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/map.h>
#include <tilth/data/image_folder.h>

static const char ending[] = ".classes.txt";
enum { LARGEST = 16 << 20 };

static bool ends_in(const char *path, const char *end)
{
    size_t length = strlen(path), n = strlen(end);
    return length > n && strcmp(path + length - n, end) == 0;
}

bool tl_class_list_is(const char *path)
{
    static const char *const others[] = {".vocab.txt", ".tokenizer.json", ".tokenizer_config.json"};
    for (int i = 0; i < TL_COUNT(others); i++)
        if (ends_in(path, others[i])) return true;
    return ends_in(path, ending);
}

// Names are the keys of the map.
static tl_status add_name(tl_map *names, const char *path, char *line, size_t length)
{
    long long number = (long long)tl_map_count(names) + 1;
    if (length && line[length - 1] == '\r') length--;
    if (!length || memchr(line, 0, length))
        return TL_FAIL(TL_EINVAL, "%s:%lld: a name of a class is expected in each line", path,
                       number);
    line[length] = '\0';
    if (tl_map_has(names, line))
        return TL_FAIL(TL_EINVAL, "%s:%lld: the class '%s' is there twice", path, number, line);
    return tl_map_set(names, line, NULL);
}

static tl_status split_lines(tl_map *names, const char *path, char *text, size_t size)
{
    for (char *at = text, *end = text + size; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop ? stop : end) - at);
        TL_TRY(add_name(names, path, at, length));
        at += length + (stop != NULL);
    }
    return tl_map_count(names)
               ? TL_OK
               : TL_FAIL(TL_EINVAL, "'%s' is empty; a name of a class is expected in each line",
                         path);
}

static tl_status keep_names(tl_strings *out, tl_arena *arena, const tl_map *names)
{
    int64_t count = tl_map_count(names);
    const char **items = tl_arena_array(arena, count, sizeof *items);
    for (int64_t i = 0; items && i < count; i++)
        if (!(items[i] = tl_arena_strdup(arena, tl_map_key(names, i)))) return TL_ENOMEM;
    *out = (tl_strings){items, count};
    return items ? TL_OK : TL_ENOMEM;
}

tl_status tl_class_list_read(tl_strings *out, tl_arena *arena, const char *path)
{
    char *text;
    size_t size;
    tl_map names = TL_MAP_INIT;
    *out = (tl_strings){0};
    TL_TRY(tl_file_read(&text, &size, path, LARGEST));
    tl_status st = split_lines(&names, path, text, size);
    if (st == TL_OK) st = keep_names(out, arena, &names);
    tl_map_deinit(&names);
    tl_free(text);
    return st;
}

tl_status tl_class_list_write(const char *path, tl_strings names)
{
    tl_str text = TL_STR_INIT;
    tl_status st = TL_OK;
    for (int64_t i = 0; i < names.count && st == TL_OK; i++) {
        if (!*names.items[i] || strpbrk(names.items[i], "\r\n"))
            st = TL_FAIL(TL_EINVAL, "'%s': the name of class %lld is empty or has a line break",
                         path, (long long)i);
        tl_str_addf(&text, "%s\n", names.items[i]);
    }
    if (st == TL_OK) st = tl_str_status(&text);
    if (st == TL_OK) st = tl_file_write_atomic(path, tl_str_text(&text), text.length);
    tl_str_deinit(&text);
    return st;
}

/* --- beside records --------------------------------------------------------------------------- */

// Length of what stands before "-00000-of-00004" and ".gz" in a path; all of it when nothing such
// does.
static size_t prefix_length(const char *path)
{
    static const char form[] = "-00000-of-00000";
    size_t length = strlen(path), n = sizeof form - 1;
    if (length > 3 && strcmp(path + length - 3, ".gz") == 0) length -= 3;
    if (length <= n) return length;
    const char *at = path + length - n;
    for (const char *f = form; *f; f++, at++)
        if (*f == '0' ? *at < '0' || *at > '9' : *at != *f) return length;
    return length - n;
}

char *tl_class_list_path(tl_arena *arena, const char *records)
{
    return tl_arena_printf(arena, "%.*s%s", (int)prefix_length(records), records, ending);
}

char *tl_record_companion(tl_arena *arena, const char *records, const char *name)
{
    return tl_arena_printf(arena, "%.*s.%s", (int)prefix_length(records), records, name);
}

static bool same_names(tl_strings a, tl_strings b)
{
    if (a.count != b.count) return false;
    for (int64_t i = 0; i < a.count; i++)
        if (strcmp(a.items[i], b.items[i]) != 0) return false;
    return true;
}

tl_status tl_class_list_beside(tl_strings *out, tl_arena *arena, const char *const *paths,
                               int64_t count)
{
    const char *before = NULL, *first = NULL; // prefix that was looked for, list that was found
    *out = (tl_strings){0};
    for (int64_t i = 0; i < count; i++) {
        size_t length = prefix_length(paths[i]);
        if (before && strlen(before) == length && strncmp(before, paths[i], length) == 0) continue;
        before = tl_arena_strndup(arena, paths[i], length);
        const char *path = before ? tl_class_list_path(arena, paths[i]) : NULL;
        if (!path) return TL_ENOMEM;
        if (!tl_file_exists(path)) continue;
        tl_strings found;
        TL_TRY(tl_class_list_read(&found, arena, path));
        if (first && !same_names(found, *out))
            return TL_FAIL(TL_EINVAL,
                           "'%s' and '%s' number classes in different ways; convert both folders "
                           "with one list: tilth data convert --classes=%s",
                           first, path, first);
        if (!first) *out = found;
        if (!first) first = path;
    }
    return TL_OK;
}
