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

/* The bindings of the folder as we print them: the file may be one that a user wrote. */
static tl_status print_stored(tl_str *out, tl_gin *gin, const char *folder)
{
    tl_gin *begun;
    const tl_strings none = {0};
    TL_TRY(tl_run_bindings(&begun, tl_gin_registry(gin), folder, none, none));
    tl_status st = tl_gin_config_str(out, begun);
    tl_gin_free(&begun);
    return st;
}

/* A run that goes on and was begun without bindings has no file that could differ. One that we have
 * not begun keeps none. */
static tl_status check_begun_without(const char *folder, tl_arena *arena)
{
    const char *latest;
    TL_TRY(tl_checkpoint_latest(&latest, arena, folder));
    if (!latest) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "the run in '%s' was begun without gin's bindings, and cannot be resumed with "
                   "bindings; leave out --gin_file and --gin_params, or name another folder",
                   folder);
}

/* The text that the run was begun with, when that binds the same. */
static tl_status find_stored(const char **out, tl_runner *r, const char *bound)
{
    const char *stored, *folder = r->args->model_dir;
    tl_str begun = TL_STR_INIT;
    *out = NULL;
    if (!folder || !*folder) return TL_OK;
    TL_TRY(tl_notes_read(&stored, r->arena, folder, NOTE_FILE));
    if (!stored) return check_begun_without(folder, r->arena);
    tl_status st = print_stored(&begun, r->args->gin, folder);
    if (st == TL_OK && strcmp(tl_str_text(&begun), bound) == 0) *out = stored;
    tl_str_deinit(&begun);
    return st;
}

/* Another text than the run's is for tl_notes_check to tell. */
tl_status tli_gin_note(tl_runner *r)
{
    tl_gin *gin = r->args->gin;
    const char *stored;
    tl_str bound = TL_STR_INIT;
    if (!gin || tl_gin_is_empty(gin)) return TL_OK;
    tl_status st = tl_gin_config_str(&bound, gin);
    if (st == TL_OK) st = find_stored(&stored, r, tl_str_text(&bound));
    if (st == TL_OK)
        st = tl_notes_put(&r->notes, NOTE, NOTE_FILE, stored ? stored : tl_str_text(&bound));
    tl_str_deinit(&bound);
    return st;
}
