#include "train/run/folder.h"

#include <tilth/base/arena.h>
#include <tilth/base/file.h>
#include <tilth/io/checkpoint/manager.h>

tl_status tli_run_folder_hold(tli_run_folder *f, const char *path)
{
    if (!path || !*path || f->hold) return TL_OK; // who needs one says so
    return tli_folder_hold_new(&f->hold, path);
}

tl_status tli_run_folder_claim(tli_run_folder *f, const char *path)
{
    if (!path || !*path || f->lock) return TL_OK;
    TL_TRY(tli_run_folder_hold(f, path));
    f->path = path;
    return tl_dir_exists(path) ? tli_run_lock_take(&f->lock, path) : TL_OK;
}

/* Whoever made the folder since we looked may be through already. */
static tl_status check_still_empty(const char *path)
{
    tl_arena *arena;
    const char *latest = NULL;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tl_checkpoint_latest_of_any(&latest, arena, path);
    bool empty = !latest;
    tl_arena_free(&arena);
    TL_TRY(st);
    if (empty) return TL_OK;
    return TL_FAIL(
        TL_EEXISTS,
        "another run has begun in '%s' at the same time; the same command goes on with it", path);
}

tl_status tli_run_folder_begin(tli_run_folder *f)
{
    if (!f->path || f->lock) return TL_OK;
    TL_TRY(tl_mkdirs(f->path));
    TL_TRY(tli_run_lock_take(&f->lock, f->path));
    return check_still_empty(f->path);
}

void tli_run_folder_leave(tli_run_folder *f)
{
    tli_run_lock_release(&f->lock);
    tli_folder_hold_free(&f->hold);
    f->path = NULL;
}
