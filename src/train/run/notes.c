#include <tilth/train/run/notes.h>

#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/alloc.h>

enum { MOST_NOTES = 16, LONGEST_NOTE = 16 << 20 };

void tl_notes_deinit(tl_notes *n)
{
    tl_arena_free(&n->arena);
    *n = (tl_notes){0};
}

static int64_t place_of(const tl_notes *n, const char *name)
{
    int64_t i = 0;
    while (i < n->count && strcmp(n->items[i].key, name) != 0) i++;
    return i;
}

static tl_status make_room(tl_notes *n)
{
    if (n->arena) return TL_OK;
    TL_TRY(tl_arena_new(&n->arena));
    n->items = tl_arena_array(n->arena, MOST_NOTES, sizeof *n->items);
    n->files = tl_arena_array(n->arena, MOST_NOTES, sizeof *n->files);
    return n->items && n->files ? TL_OK : TL_ENOMEM;
}

tl_status tl_notes_put(tl_notes *n, const char *name, const char *file, const char *text)
{
    TL_TRY(make_room(n));
    int64_t i = place_of(n, name);
    if (i == MOST_NOTES)
        return TL_FAIL(TL_ELIMIT, "a run has at most %d notes; '%s' is one more", MOST_NOTES, name);
    n->items[i] =
        (tl_safetensors_note){tl_arena_strdup(n->arena, name), tl_arena_strdup(n->arena, text)};
    n->files[i] = tl_arena_strdup(n->arena, file);
    if (!n->items[i].key || !n->items[i].value || !n->files[i]) return TL_ENOMEM;
    if (i == n->count) n->count++;
    return TL_OK;
}

const char *tl_notes_get(const tl_notes *n, const char *name)
{
    int64_t i = place_of(n, name);
    return i < n->count ? n->items[i].value : NULL;
}

/* --- folders ---------------------------------------------------------------------------------- */

tl_status tl_notes_read(const char **out, tl_arena *arena, const char *folder, const char *file)
{
    const char *path = tl_path_join(arena, folder, file);
    char *text;
    *out = NULL;
    if (!path) return TL_ENOMEM;
    if (!tl_file_exists(path)) return TL_OK;
    TL_TRY(tl_file_read(&text, NULL, path, LONGEST_NOTE));
    *out = tl_arena_strdup(arena, text);
    tl_free(text);
    return *out ? TL_OK : TL_ENOMEM;
}

/* The line at which two texts part, from 1 on. */
static int parting_line(const char *a, const char *b)
{
    int line = 1;
    for (; *a && *a == *b; a++, b++) line += *a == '\n';
    return line;
}

static tl_status check_one(const char *folder, const char *file, const char *text, tl_arena *arena)
{
    const char *there;
    TL_TRY(tl_notes_read(&there, arena, folder, file));
    if (!there || strcmp(there, text) == 0) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "%s/%s: the run in this folder was begun with another text (line %d differs); "
                   "resume it with that text, or name another folder",
                   folder, file, parting_line(there, text));
}

static tl_status write_one(const char *folder, const char *file, const char *text, tl_arena *arena)
{
    const char *path = tl_path_join(arena, folder, file);
    if (!path) return TL_ENOMEM;
    return tl_file_exists(path) ? TL_OK : tl_file_write_atomic(path, text, strlen(text));
}

static tl_status each(const tl_notes *n, const char *folder,
                      tl_status (*act)(const char *folder, const char *file, const char *text,
                                       tl_arena *arena))
{
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = TL_OK;
    for (int64_t i = 0; i < n->count && st == TL_OK; i++)
        st = act(folder, n->files[i], n->items[i].value, arena);
    tl_arena_free(&arena);
    return st;
}

tl_status tl_notes_check(const tl_notes *n, const char *folder)
{
    return each(n, folder, check_one);
}

tl_status tl_notes_write(const tl_notes *n, const char *folder)
{
    return each(n, folder, write_one);
}
