/* Which checkpoint is meant: by a path, by an item of a list, by a directory; a file of ours, or a
 * TensorBundle. */
#include <string.h>
#include <sys/stat.h>
#include <tilth/base/log.h>
#include <tilth/io/tensorflow/tensorbundle.h>

#include "io/inner/checkpoint_manager.h"

static bool is_newer(const char *path, const char *than)
{
    struct stat a, b;
    if (stat(path, &a) != 0 || stat(than, &b) != 0) return false;
    return a.st_mtim.tv_sec > b.st_mtim.tv_sec;
}

tl_status tli_checkpoint_find_item(tli_checkpoint_place *out, tl_arena *arena,
                                   const char *directory, const char *item)
{
    tl_file_info ours = {0}, divided = {0}, theirs;
    const char *prefix;
    bool elsewhere;
    TL_TRY(tli_checkpoint_list_prefix(&prefix, &elsewhere, arena, directory, item));
    const char *file = tl_arena_printf(arena, "%s" TL_CHECKPOINT_SUFFIX, prefix);
    const char *pieces = tl_arena_printf(arena, "%s" TL_SAFETENSORS_INDEX, prefix);
    const char *index = tl_arena_printf(arena, "%s" TL_TENSORBUNDLE_SUFFIX, prefix);
    if (!file || !pieces || !index) return TL_ENOMEM;
    // state files of ours never lead out of their folder
    if (!elsewhere) TL_TRY(tl_file_stat(&ours, file));
    if (!elsewhere) TL_TRY(tl_file_stat(&divided, pieces));
    if (divided.exists && !ours.exists) ours = divided, file = pieces;
    TL_TRY(tl_file_stat(&theirs, index));
    *out = (tli_checkpoint_place){file, false, ours.exists || theirs.exists};
    if (ours.exists && theirs.exists && is_newer(index, file))
        TL_LOG_INFO("'%s' is there as a TensorBundle too, a newer one; the file is taken", file);
    if (!ours.exists && theirs.exists) *out = (tli_checkpoint_place){prefix, true, true};
    return TL_OK;
}

/* The latest of the state file; a file that is not understood is warned of, and has none. Without
 * one it is the newest of those that lie there under the usual name. */
static tl_status find_latest(tli_checkpoint_place *out, tl_arena *arena, const char *directory)
{
    tli_checkpoint_list l;
    *out = (tli_checkpoint_place){0};
    tl_status st = tli_checkpoint_list_read(&l, directory, tli_checkpoint_clock());
    if (st == TL_EINVAL || st == TL_ELIMIT) TL_LOG_WARNING("%s", tl_error_message());
    if (st == TL_EINVAL || st == TL_ELIMIT) {
        tl_error_clear();
        return TL_OK;
    }
    if (st == TL_ENOTFOUND) {
        tl_error_clear();
        st = tli_checkpoint_folder_scan(&l, directory, TLI_CHECKPOINT_USUAL_NAME);
    }
    if (st != TL_OK || !l.latest) return st;
    st = tli_checkpoint_find_item(out, arena, directory, l.latest);
    tli_checkpoint_list_deinit(&l);
    return st;
}

tl_status tl_checkpoint_latest(const char **path, tl_arena *arena, const char *directory)
{
    tli_checkpoint_place latest;
    *path = NULL;
    TL_TRY(find_latest(&latest, arena, directory));
    if (latest.there && !latest.bundle) *path = latest.path;
    return TL_OK;
}

tl_status tl_checkpoint_latest_of_any(const char **path, tl_arena *arena, const char *directory)
{
    tli_checkpoint_place latest;
    *path = NULL;
    TL_TRY(find_latest(&latest, arena, directory));
    if (latest.there) *path = latest.path;
    return TL_OK;
}

tl_status tl_checkpoint_resolve(const char **file, tl_arena *arena, const char *path)
{
    tl_file_info info;
    *file = NULL;
    TL_TRY(tl_file_stat(&info, path));
    if (info.is_dir) {
        tli_checkpoint_place latest;
        TL_TRY(find_latest(&latest, arena, path));
        if (latest.there && !latest.bundle) {
            *file = latest.path;
            return TL_OK;
        }
        if (latest.path && !latest.there)
            return TL_FAIL(
                TL_ENOTFOUND,
                "'%s', the latest checkpoint that the folder tells of, is not there; name another",
                latest.path);
        return TL_FAIL(TL_ENOTFOUND, "there is no checkpoint in the directory '%s'", path);
    }
    static const char *const endings[] = {"", TL_CHECKPOINT_SUFFIX, TL_SAFETENSORS_INDEX,
                                          ".index.json"};
    for (int64_t i = 0; i < TL_COUNT(endings); i++) {
        if (!(*file = tl_arena_printf(arena, "%s%s", path, endings[i]))) return TL_ENOMEM;
        if (tl_file_exists(*file) && (i < 3 || tli_safetensors_is_index(*file))) return TL_OK;
    }
    *file = NULL;
    return TL_FAIL(TL_ENOTFOUND, "there is no checkpoint '%s' (nor '%s" TL_CHECKPOINT_SUFFIX "')",
                   path, path);
}

tl_status tl_checkpoint_locate(const char **path, bool *bundle, tl_arena *arena, const char *given)
{
    const char *prefix = NULL;
    tl_error failure;
    *bundle = false;
    tl_status st = tl_checkpoint_resolve(path, arena, given);
    bool names_file = st == TL_OK && strcmp(*path, given) == 0; // perhaps one of a bundle's
    if (st == TL_OK && !names_file) return TL_OK;
    if (st != TL_OK && st != TL_ENOTFOUND) return st;
    tl_error_save(&failure);
    tl_status other = tl_tensorbundle_resolve(&prefix, arena, given);
    if (other != TL_OK && other != TL_ENOTFOUND) return other;
    *bundle = other == TL_OK && !(names_file && strcmp(prefix, given) == 0);
    if (*bundle) {
        *path = prefix;
        return TL_OK;
    }
    tl_error_restore(&failure);
    return st;
}

tl_status tli_checkpoint_verify_bundle(const char *prefix)
{
    tl_tensorbundle *b;
    TL_TRY(tl_tensorbundle_open(&b, prefix));
    tl_status st = tl_tensorbundle_verify(b);
    tl_tensorbundle_free(&b);
    return st;
}

bool tl_checkpoint_is_usable(const char *path)
{
    tl_checkpoint *c = NULL;
    tl_arena *arena = NULL;
    tl_error kept;
    bool bundle = false;
    tl_error_save(&kept);
    tl_status st = tl_arena_new(&arena);
    if (st == TL_OK) st = tl_checkpoint_locate(&path, &bundle, arena, path);
    if (st == TL_OK)
        st = bundle ? tli_checkpoint_verify_bundle(path) : tl_checkpoint_open(&c, path);
    tl_checkpoint_free(&c);
    tl_arena_free(&arena);
    tl_error_restore(&kept);
    return st != TL_EINVAL && st != TL_ENOTFOUND;
}
