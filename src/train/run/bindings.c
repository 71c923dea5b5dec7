/* gin's bindings of a run: where they come from, and that they stay the same. */
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/train/run/launch.h>

#include "train/configurables.h"

#define NOTE "gin"
#define NOTE_FILE "bindings.gin"

/* The folder may be a stranger's. It names plug-ins by their names alone, and they come from where
 * the user's are; we write no `include`. */
static tl_status read_stored(tl_gin *gin, const char *model_dir)
{
    tl_arena *arena;
    const char *text = NULL;
    if (!model_dir || !*model_dir) return TL_OK;
    TL_TRY(tl_arena_new(&arena));
    const char *path = tl_path_join(arena, model_dir, NOTE_FILE);
    tl_status st = path ? tl_notes_read(&text, arena, model_dir, NOTE_FILE) : TL_ENOMEM;
    tl_gin_refuse_includes(gin, true);
    if (st == TL_OK && text) st = tl_gin_parse(gin, text, path);
    tl_gin_refuse_includes(gin, false);
    tl_arena_free(&arena);
    return st;
}

tl_status tl_run_bindings(tl_gin **out, tl_registry *registry, const char *model_dir,
                          tl_strings files, tl_strings params)
{
    TL_TRY(tl_gin_new(out, registry));
    tl_status st = tl_gin_allow_plugins(*out, NULL);
    if (st == TL_OK && !files.count && !params.count) st = read_stored(*out, model_dir);
    if (st == TL_OK) st = tl_gin_parse_files_and_params(*out, files, params, true);
    if (st != TL_OK) tl_gin_free(out);
    return st;
}

/* A run that goes on and was begun without bindings has no file that could differ. */
static tl_status check_begun_with(const tl_runner *r)
{
    tl_arena *arena;
    const char *stored = NULL, *latest = NULL, *folder = r->args->model_dir;
    if (!folder || !*folder) return TL_OK;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tl_notes_check(&r->notes, folder);
    if (st == TL_OK) st = tl_notes_read(&stored, arena, folder, NOTE_FILE);
    if (st == TL_OK && !stored) st = tl_checkpoint_latest_of_any(&latest, arena, folder);
    if (st == TL_OK && latest)
        st = TL_FAIL(TL_EINVAL,
                     "the run in '%s' was begun without gin's bindings, and cannot be resumed with "
                     "bindings; leave out --gin_file and --gin_params, or name another folder",
                     folder);
    tl_arena_free(&arena);
    return st;
}

tl_status tli_gin_note(tl_runner *r)
{
    tl_gin *gin = r->args->gin;
    tl_str text = TL_STR_INIT;
    if (!gin || tl_gin_is_empty(gin)) return TL_OK;
    tl_status st = tl_gin_config_str(&text, gin);
    if (st == TL_OK) st = tl_notes_put(&r->notes, NOTE, NOTE_FILE, tl_str_text(&text));
    if (st == TL_OK) st = check_begun_with(r);
    tl_str_deinit(&text);
    return st;
}
