/* Where gin's text comes from: files and what they include, and the modules that they import. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/log.h>

#include "desc/gin/impl.h"

/* --- files ----------------------------------------------------------------------------------- */

static bool is_readable(const char *path)
{
    return tl_file_exists(path) && !tl_dir_exists(path);
}

/* The file as named, or in the first folder that has it; NULL in *out when nobody has. */
static tl_status find_file(const char **out, tl_gin *gin, const char *name)
{
    *out = is_readable(name) ? name : NULL;
    for (int64_t i = 0; !*out && *name != '/' && i < gin->paths.count; i++) {
        const char *path = tl_path_join(gin->arena, gin->paths.items[i], name);
        if (!path) return TL_ENOMEM;
        if (is_readable(path)) *out = path;
    }
    return TL_OK;
}

static tl_status not_found(const tl_gin *gin, const char *name)
{
    tl_str searched = TL_STR_INIT;
    tl_str_add(&searched, "the working directory");
    for (int64_t i = 0; i < gin->paths.count; i++)
        tl_str_addf(&searched, ", %s", gin->paths.items[i]);
    tl_status st = *name == '/' ? TL_FAIL(TL_ENOTFOUND, "there is no gin file '%s'", name)
                                : TL_FAIL(TL_ENOTFOUND, "there is no gin file '%s' (looked in %s)",
                                          name, tl_str_text(&searched));
    tl_str_deinit(&searched);
    return st;
}

/* Writes "a.gin -> b.gin" down to the file that is being read. */
static void write_chain(tl_str *out, const tli_gin_file *file, const char *from)
{
    if (file->outer && strcmp(file->real_path, from) != 0) write_chain(out, file->outer, from);
    tl_str_addf(out, "%s -> ", file->path);
}

/* Fails when the file is one of those that are being read, or they are too many. */
static tl_status check_nesting(tl_gin *gin, const char *path, const char *real_path)
{
    for (const tli_gin_file *f = gin->file; f; f = f->outer) {
        if (strcmp(f->real_path, real_path) != 0) continue;
        tl_str chain = TL_STR_INIT;
        write_chain(&chain, gin->file, real_path);
        tl_status st =
            TL_FAIL(TL_EINVAL, "the file includes itself: %s%s", tl_str_text(&chain), path);
        tl_str_deinit(&chain);
        return st;
    }
    if (gin->file && gin->file->depth >= TL_GIN_MAX_INCLUDES)
        return TL_FAIL(TL_ELIMIT, "files are included more than %d deep", TL_GIN_MAX_INCLUDES);
    if (gin->file_count++ >= TL_GIN_MAX_FILES)
        return TL_FAIL(TL_ELIMIT, "more than %d gin files are read", TL_GIN_MAX_FILES);
    return TL_OK;
}

static tl_status open_file(tli_gin_file *file, tl_gin *gin, const char *name)
{
    const char *path;
    TL_TRY(find_file(&path, gin, name));
    if (!path) return not_found(gin, name);
    char resolved[PATH_MAX];
    const char *real_path = realpath(path, resolved) ? resolved : path;
    TL_TRY(check_nesting(gin, path, real_path));
    *file = (tli_gin_file){
        .path = path,
        .real_path = tl_arena_strdup(gin->arena, real_path),
        .outer = gin->file,
        .depth = gin->file ? gin->file->depth + 1 : 0,
    };
    return file->real_path ? TL_OK : TL_ENOMEM;
}

/* Says behind the message of a failure which statement brought the file in. */
static tl_status included_from(tl_status failed, tl_place place)
{
    if (!place.source) return failed;
    tl_str from = TL_STR_INIT;
    tl_place_write(&from, place);
    tl_status st = TL_FAIL(failed, "%s (included from %s)", tl_error_message(), tl_str_text(&from));
    tl_str_deinit(&from);
    return st;
}

tl_status tli_gin_include(tl_gin *gin, const char *name, const char *home, tl_place place)
{
    tli_gin_file file;
    char *text = NULL;
    size_t size;
    tl_status st = open_file(&file, gin, name);
    if (st == TL_OK) st = tl_file_read(&text, &size, file.path, TL_GIN_MAX_BYTES);
    if (st != TL_OK) return tli_gin_at(st, place);
    gin->file = &file;
    st = tli_gin_parse_text(gin, text, size, file.path, home, false);
    gin->file = file.outer;
    tl_free(text);
    return st == TL_OK ? TL_OK : included_from(st, place);
}

tl_status tl_gin_parse_file(tl_gin *gin, const char *path)
{
    return tli_gin_include(gin, path, "", (tl_place){0});
}

tl_status tl_gin_parse(tl_gin *gin, const char *text, const char *source)
{
    return tli_gin_parse_text(gin, text, strlen(text), source, "", false);
}

tl_status tl_gin_parse_param(tl_gin *gin, const char *text)
{
    // A text of several lines keeps its places, since it would be too long to show.
    size_t length = strlen(text);
    if (length > 200 || strpbrk(text, "\r\n"))
        return tli_gin_parse_text(gin, text, length, "--gin_params", "", false);
    char *source = tl_arena_printf(gin->arena, "--gin_params '%s'", text);
    return source ? tli_gin_parse_text(gin, text, length, source, "", true) : TL_ENOMEM;
}

tl_status tl_gin_parse_files_and_params(tl_gin *gin, tl_strings files, tl_strings params,
                                        bool finalize)
{
    for (int64_t i = 0; i < files.count; i++) TL_TRY(tl_gin_parse_file(gin, files.items[i]));
    for (int64_t i = 0; i < params.count; i++) TL_TRY(tl_gin_parse_param(gin, params.items[i]));
    return finalize ? tl_gin_finalize(gin) : TL_OK;
}

tl_status tl_gin_add_path(tl_gin *gin, const char *folder)
{
    const char *copy = tl_arena_strdup(gin->arena, folder);
    return copy && TL_VEC_PUSH(&gin->paths, copy) ? TL_OK : TL_ENOMEM;
}

void tl_gin_refuse_includes(tl_gin *gin, bool refuse)
{
    gin->no_includes = refuse;
}

/* --- modules --------------------------------------------------------------------------------- */

tl_status tl_gin_allow_plugins(tl_gin *gin, const char *path)
{
    if (!path) path = secure_getenv("TILTH_PLUGIN_PATH"); // it names code
    gin->plugin_path = tl_arena_strdup(gin->arena, path ? path : "");
    return gin->plugin_path ? TL_OK : TL_ENOMEM;
}

/* Loads libtilth-NAME.so from the first folder that has it. */
static tl_status load_plugin(bool *found, tl_gin *gin, const char *name)
{
    *found = false;
    const char *folder = gin->plugin_path;
    while (folder && *folder && !*found) {
        size_t length = strcspn(folder, ":");
        const char *path =
            tl_arena_printf(gin->arena, "%.*s/libtilth-%s.so", (int)length, folder, name);
        if (!path) return TL_FAIL_NOMEM(length);
        if (length && tl_file_exists(path)) {
            TL_TRY(tl_registry_load(gin->registry, path));
            *found = true;
        }
        folder += length + (folder[length] == ':');
    }
    return TL_OK;
}

static tl_status unknown_module(const tl_gin *gin, const char *module, const char *name)
{
    if (gin->plugin_path && *gin->plugin_path)
        return TL_FAIL(TL_ENOTFOUND,
                       "no module '%s' is registered, and no folder of the plug-in path "
                       "'%s' has libtilth-%s.so; load it with --plugin",
                       module, gin->plugin_path, name);
    return TL_FAIL(TL_ENOTFOUND,
                   "no module '%s' is registered; load it with --plugin=libtilth-%s.so%s", module,
                   name, gin->plugin_path ? ", or name its folder in TILTH_PLUGIN_PATH" : "");
}

static tl_status remember_import(tl_gin *gin, const tli_gin_import *import)
{
    gin->settled = false; // names may mean something now that meant nothing before
    return TL_VEC_PUSH(&gin->imports, *import) ? TL_OK : TL_ENOMEM;
}

tl_status tli_gin_import_module(tl_gin *gin, const tli_gin_import *import)
{
    const char *dot = strrchr(import->module, '.'), *name = dot ? dot + 1 : import->module;
    if (strncmp(import->module, "__gin__.", 8) == 0)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "gin's '%s' is not available: modules register what they have; "
                       "remove this line and import the modules",
                       name);
    if (tl_registry_has_module(gin->registry, import->module)
        || tl_registry_has_module(gin->registry, name))
        return remember_import(gin, import);
    bool found;
    TL_TRY_NOTE(load_plugin(&found, gin, name), "import of '%s'", import->module);
    if (found) return remember_import(gin, import);
    if (!gin->skip_all && tl_map_count(&gin->skip_names) == 0)
        return unknown_module(gin, import->module, name);
    TL_LOG_INFO("the import of the unknown module '%s' is skipped", import->module);
    return TL_OK;
}
