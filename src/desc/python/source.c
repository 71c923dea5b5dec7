/* Where the text of a configuration comes from: a file, what it imports, and what is shipped. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/file.h>
#include <tilth/base/log.h>

#include "desc/python/impl.h"

/* --- one text --------------------------------------------------------------------------------- */

static tl_status check_nesting(tli_py_reader *r, const tli_py_file *file)
{
    for (const tli_py_file *f = file->outer; f; f = f->outer)
        if (f->shipped == file->shipped && strcmp(f->id, file->id) == 0)
            return TL_FAIL(TL_EINVAL, "%s imports itself, by way of %s", file->source,
                           file->outer->source);
    if (file->depth > TL_PYTHON_MAX_IMPORTS)
        return TL_FAIL(TL_ELIMIT, "files are imported more than %d deep",
                       (int)TL_PYTHON_MAX_IMPORTS);
    if (r->files++ >= TL_PYTHON_MAX_FILES)
        return TL_FAIL(TL_ELIMIT, "more than %d files are imported", (int)TL_PYTHON_MAX_FILES);
    return TL_OK;
}

static tl_status read_text(tli_py **names, tli_py_reader *r, const tli_py_file *file,
                           const char *text, size_t length)
{
    tl_place start = {file->source, 1, 1};
    tli_py_module m = {.reader = r, .file = file};
    r->bytes += length;
    if (length > TL_PYTHON_MAX_BYTES || r->bytes > TL_PYTHON_MAX_TOTAL)
        return TL_FAIL(TL_ELIMIT, "%s: a configuration has at most %d bytes, with its imports %d",
                       file->source, (int)TL_PYTHON_MAX_BYTES, (int)TL_PYTHON_MAX_TOTAL);
    m.names = *names = tli_py_new(r, TLI_PY_MAP, start);
    if (!m.names) return tl_error_code();
    TL_TRY(tli_gin_lexer_init(&m.lexer, text, length, start));
    return tli_py_statements(&m);
}

static tl_status read_file(tli_py **names, tli_py_reader *r, const tli_py_file *file)
{
    char *text;
    size_t size;
    TL_TRY(tl_file_read(&text, &size, file->id, TL_PYTHON_MAX_BYTES));
    tl_status st = read_text(names, r, file, text, size);
    tl_free(text);
    return st;
}

/* --- shipped files ---------------------------------------------------------------------------- */

static const char *shipped_text(const tli_py_reader *r, const char *path)
{
    for (int64_t i = 0; r->options && i < r->options->shipped_count; i++)
        if (strcmp(r->options->shipped[i].path, path) == 0) return r->options->shipped[i].text;
    return NULL;
}

/* Without what stands behind the last '/'; "" when there is none. */
static char *folder_of(tl_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    return tl_arena_strndup(arena, path, slash ? (size_t)(slash - path) : 0);
}

static tl_status read_shipped(tli_py **names, tli_py_reader *r, const char *path, const char *text,
                              const tli_py_file *outer)
{
    const char *source = tl_arena_printf(r->arena, "shipped/%s", path);
    tli_py_file file = {.source = source,
                        .id = path,
                        .folder = folder_of(r->arena, path),
                        .shipped = true,
                        .outer = outer,
                        .depth = outer->depth + 1};
    if (!source || !file.folder) return TL_ENOMEM;
    TL_TRY(check_nesting(r, &file));
    return read_text(names, r, &file, text, strlen(text));
}

/* Says behind a failure's message which statement brought the file in. */
static tl_status imported_at(tl_status failed, tl_place place)
{
    if (failed == TL_OK || failed == TL_ENOMEM) return failed;
    tl_str from = TL_STR_INIT;
    tl_place_write(&from, place);
    tl_status st = TL_FAIL(failed, "%s (imported at %s)", tl_error_message(), tl_str_text(&from));
    tl_str_deinit(&from);
    return st;
}

/* --- imports ---------------------------------------------------------------------------------- */

/* "a.b" as "a/b.py". */
static char *path_of(tl_arena *arena, const char *dotted)
{
    char *path = tl_arena_printf(arena, "%s.py", dotted);
    for (char *p = path; p && p < path + strlen(dotted); p++)
        if (*p == '.') *p = '/';
    return path;
}

static tl_status outside(tl_place place, const char *root)
{
    return TLI_PY_FAIL(place, TL_EINVAL,
                       "this import leaves %s, and nothing is read outside of it; start from a "
                       "folder above, or copy the file",
                       root);
}

static bool is_below(const char *path, const char *root)
{
    size_t length = strlen(root);
    if (strcmp(root, "/") == 0) return true;
    return strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* `from .x` in a shipped file, or in a text. */
static tl_status import_shipped(tli_py **names, tli_py_module *m, int level, const char *path,
                                tl_place place)
{
    tl_arena *arena = m->reader->arena;
    const char *folder = m->file->folder ? m->file->folder : "";
    for (int i = 1; i < level; i++) {
        if (!*folder) return outside(place, "the shipped configurations");
        folder = folder_of(arena, folder);
        if (!folder) return TL_ENOMEM;
    }
    const char *whole = *folder ? tl_path_join(arena, folder, path) : path;
    if (!whole) return TL_ENOMEM;
    const char *text = shipped_text(m->reader, whole);
    if (!text) return TLI_PY_FAIL(place, TL_ENOTFOUND, "no configuration '%s' is shipped", whole);
    return imported_at(read_shipped(names, m->reader, whole, text, m->file), place);
}

/* The file in messages: as the importing one is named. */
static char *source_of(tli_py_module *m, int level, const char *path)
{
    tl_arena *arena = m->reader->arena;
    const char *folder = folder_of(arena, m->file->source);
    if (!folder) return NULL;
    const char *slash = *folder || *m->file->source == '/' ? "/" : "";
    char *source = tl_arena_printf(arena, "%s%s", folder, slash);
    for (int i = 1; source && i < level; i++) source = tl_arena_printf(arena, "%s../", source);
    return source ? tl_arena_printf(arena, "%s%s", source, path) : NULL;
}

static tl_status import_file(tli_py **names, tli_py_module *m, const char *path, const char *source,
                             tl_place place)
{
    tl_arena *arena = m->reader->arena;
    char real[PATH_MAX];
    if (!realpath(path, real) || !is_below(real, m->reader->root))
        return outside(place, m->reader->root);
    tli_py_file file = {.source = source,
                        .id = tl_arena_strdup(arena, real),
                        .folder = folder_of(arena, real),
                        .outer = m->file,
                        .depth = m->file->depth + 1};
    if (!file.id || !file.folder) return TL_ENOMEM;
    tl_status st = check_nesting(m->reader, &file);
    if (st == TL_OK) st = read_file(names, m->reader, &file);
    return imported_at(st, place);
}

tl_status tli_py_import(tli_py **names, tli_py_module *m, int level, const char *dotted,
                        tl_place place)
{
    tl_arena *arena = m->reader->arena;
    const char *path = path_of(arena, dotted), *folder = m->file->folder;
    if (!path) return TL_ENOMEM;
    if (m->file->shipped || !folder) return import_shipped(names, m, level, path, place);
    for (int i = 1; i < level; i++) {
        folder = folder_of(arena, folder);
        if (!folder) return TL_ENOMEM;
        if (!is_below(*folder ? folder : "/", m->reader->root))
            return outside(place, m->reader->root);
    }
    const char *whole = tl_arena_printf(arena, "%s/%s", folder, path);
    const char *source = source_of(m, level, path);
    if (!whole || !source) return TL_ENOMEM;
    if (tl_file_exists(whole)) return import_file(names, m, whole, source, place);
    const char *text = strncmp(path, "common/", 7) == 0 ? shipped_text(m->reader, path) : NULL;
    if (!text)
        return TLI_PY_FAIL(place, TL_ENOTFOUND, "there is no file '%s' for this import", source);
    TL_LOG_INFO("%s: there is no '%s', the one that is shipped is used", m->file->source, source);
    return imported_at(read_shipped(names, m->reader, path, text, m->file), place);
}

tl_status tli_py_get_config(tli_py **out, tli_py_module *m, const char *path, tl_place place)
{
    tli_py *names;
    const char *text = shipped_text(m->reader, path);
    if (!text) {
        enum { MOST = 128 };
        const char *known[MOST], *near = NULL;
        int64_t count = 0;
        for (int64_t i = 0; m->reader->options && i < m->reader->options->shipped_count; i++)
            if (count < MOST) known[count++] = m->reader->options->shipped[i].path;
        if (count) near = tl_nearest(path, known, count);
        return TLI_PY_FAIL(place, TL_ENOTFOUND, "no configuration '%.100s' is shipped%s%s%s", path,
                           near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    TL_TRY(imported_at(read_shipped(&names, m->reader, path, text, m->file), place));
    return tli_py_taken(out, m->reader, names, place);
}

/* --- doors ------------------------------------------------------------------------------------ */

/* The working directory when the file is below it, otherwise the folder of the file. */
static tl_status find_root(tli_py_reader *r, const tli_py_file *file)
{
    char real[PATH_MAX], *here = getcwd(real, sizeof real);
    if (r->options && r->options->root) {
        if (!realpath(r->options->root, real))
            return TL_FAIL(TL_ENOTFOUND, "there is no folder '%s'", r->options->root);
        here = real;
    }
    bool below = here && is_below(file->folder, here);
    if (r->options && r->options->root && !below)
        return TL_FAIL(TL_EINVAL, "%s is not below %s", file->source, r->options->root);
    r->root = tl_arena_strdup(r->arena, below ? here : *file->folder ? file->folder : "/");
    return r->root ? TL_OK : TL_ENOMEM;
}

tl_status tl_python_read(const tl_value **out, tl_arena *arena, const char *path,
                         const tl_python_options *options)
{
    tli_py_reader r = {.arena = arena, .options = options};
    char real[PATH_MAX];
    tli_py *names;
    const char *id = realpath(path, real) ? real : path;
    tli_py_file file = {.source = tl_arena_strdup(arena, path),
                        .id = tl_arena_strdup(arena, id),
                        .folder = folder_of(arena, id)};
    if (!file.source || !file.id || !file.folder) return TL_ENOMEM;
    TL_TRY(find_root(&r, &file));
    TL_TRY(read_file(&names, &r, &file));
    return tli_py_export(out, &r, names);
}

tl_status tl_python_parse(const tl_value **out, tl_arena *arena, const char *text, size_t length,
                          const char *source, const tl_python_options *options)
{
    tli_py_reader r = {.arena = arena, .options = options};
    tli_py *names;
    tli_py_file file = {.source = tl_arena_strdup(arena, source), .id = ""};
    if (!file.source) return TL_ENOMEM;
    TL_TRY(read_text(&names, &r, &file, text, length));
    return tli_py_export(out, &r, names);
}
