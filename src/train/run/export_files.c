#include <tilth/train/controller/actions.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/vec.h>

#include "base/inner/folder.h"

enum { USUAL_TO_KEEP = 5, DEEPEST = 64, MOST_DIGITS = 18 };

struct tl_export_file_manager {
    tl_arena *arena;
    const char *folder, *prefix; /* of the base, and its last part with '-' */
    const char *base, *subdirectory;
    int64_t max_to_keep; /* negative: all */
    int64_t (*next_id)(void *payload);
    void *payload;
    int64_t next; /* when nobody else counts; -1 before the folder was looked at */
};

/* --- making ----------------------------------------------------------------------------------- */

static tl_status fill(tl_export_file_manager *m, const tl_export_file_manager_args *args)
{
    TL_TRY(tl_arena_new(&m->arena));
    m->base = tl_arena_strdup(m->arena, args->base);
    m->folder = tl_path_dirname(m->arena, args->base);
    m->prefix = tl_arena_printf(m->arena, "%s-", tl_path_basename(args->base));
    if (!m->base || !m->folder || !m->prefix) return TL_ENOMEM;
    if (args->subdirectory && *args->subdirectory) {
        m->subdirectory = tl_arena_strdup(m->arena, args->subdirectory);
        if (!m->subdirectory) return TL_ENOMEM;
    }
    m->max_to_keep = args->max_to_keep.set ? args->max_to_keep.value : USUAL_TO_KEEP;
    m->next_id = args->next_id;
    m->payload = args->payload;
    m->next = -1;
    return TL_OK;
}

tl_status tl_export_file_manager_new(tl_export_file_manager **out,
                                     const tl_export_file_manager_args *args)
{
    *out = NULL;
    if (!args->base || !*tl_path_basename(args->base))
        return TL_FAIL(TL_EINVAL,
                       "exports need a base for their names, such as 'run1/export', not '%s'",
                       args->base ? args->base : "");
    if (args->max_to_keep.set && args->max_to_keep.value == 0)
        return TL_FAIL(TL_EINVAL,
                       "max_to_keep of exports is 0; at least 1 is kept (negative: all)");
    tl_export_file_manager *m = tl_alloc_zero(sizeof *m);
    if (!m) return TL_FAIL_NOMEM(sizeof *m);
    tl_status st = fill(m, args);
    if (st != TL_OK) tl_export_file_manager_free(&m);
    *out = m;
    return st;
}

void tl_export_file_manager_free(tl_export_file_manager **m)
{
    if (!*m) return;
    tl_arena_free(&(*m)->arena);
    tl_free(*m);
    *m = NULL;
}

/* --- what is there ---------------------------------------------------------------------------- */

// The number at the end of "export-12"; -1 when it is not one of ours.
static int64_t number_of(const tl_export_file_manager *m, const char *name)
{
    size_t length = strlen(m->prefix);
    if (strncmp(name, m->prefix, length) != 0) return -1;
    size_t digits = strspn(name + length, "0123456789");
    if (digits == 0 || digits > MOST_DIGITS || name[length + digits]) return -1;
    return strtoll(name + length, NULL, 10);
}

typedef struct found {
    int64_t number;
    const char *path;
} found;
typedef struct found_list {
    found *items;
    int64_t count, capacity;
} found_list;

static int by_number(const void *a, const void *b)
{
    const found *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static tl_status add_found(found_list *list, const tl_export_file_manager *m, tl_arena *arena,
                           const char *name)
{
    found f = {.number = number_of(m, name)};
    if (f.number < 0) return TL_OK;
    f.path = tl_path_join(arena, m->folder, name);
    if (!f.path) return TL_ENOMEM;
    if (m->subdirectory) {
        const char *inside = tl_path_join(arena, f.path, m->subdirectory);
        if (!inside) return TL_ENOMEM;
        if (!tl_file_exists(inside)) return TL_OK;
    }
    return TL_VEC_PUSH(list, f) ? TL_OK : TL_ENOMEM;
}

static tl_status find_all(found_list *list, const tl_export_file_manager *m, tl_arena *arena)
{
    DIR *dir;
    tl_status st = tli_folder_list(&dir, m->folder);
    if (st != TL_OK || !dir) return st;
    for (struct dirent *e; st == TL_OK && (errno = 0, e = readdir(dir));)
        st = add_found(list, m, arena, e->d_name);
    if (st == TL_OK && errno)
        st = TL_FAIL(TL_EIO, "cannot look into '%s': %s", m->folder, strerror(errno));
    closedir(dir);
    if (st == TL_OK && list->count)
        qsort(list->items, (size_t)list->count, sizeof *list->items, by_number);
    return st;
}

tl_status tl_export_file_manager_list(tl_path_list *out, const tl_export_file_manager *m,
                                      tl_arena *arena)
{
    found_list list = {0};
    tl_status st;
    *out = (tl_path_list){0};
    TL_TRY_DONE(st, find_all(&list, m, arena));
    out->items = tl_arena_array(arena, list.count ? list.count : 1, sizeof *out->items);
    if (!out->items) {
        st = TL_ENOMEM;
        goto done;
    }
    for (int64_t i = 0; i < list.count; i++) out->items[out->count++] = list.items[i].path;
done:
    TL_VEC_FREE(&list);
    return st;
}

/* --- the next, and the old -------------------------------------------------------------------- */

// Also of those without the subdirectory: what a process that was ended left half is not written
// over.
static tl_status highest(int64_t *out, const tl_export_file_manager *m, tl_arena *arena)
{
    tl_export_file_manager all = *m;
    found_list list = {0};
    all.subdirectory = NULL;
    tl_status st = find_all(&list, &all, arena);
    *out = st == TL_OK && list.count ? list.items[list.count - 1].number : -1;
    TL_VEC_FREE(&list);
    return st;
}

tl_status tl_export_file_manager_next(const char **name, tl_export_file_manager *m, tl_arena *arena)
{
    *name = NULL;
    if (!m->next_id && m->next < 0) {
        TL_TRY(highest(&m->next, m, arena));
        m->next++;
    }
    int64_t id = m->next_id ? m->next_id(m->payload) : m->next;
    if (id < 0)
        return TL_FAIL(TL_EINVAL, "the number of an export is %" PRId64 " and must not be negative",
                       id);
    const char *path = tl_arena_printf(arena, "%s-%" PRId64, m->base, id);
    if (path && m->subdirectory) path = tl_path_join(arena, path, m->subdirectory);
    if (!path) return TL_ENOMEM;
    if (!m->next_id) m->next++;
    *name = path;
    return TL_OK;
}

static int remove_inside(int folder, int depth);

/* 0, or an errno. Links are removed, not followed, whoever puts them there meanwhile. */
static int remove_one(int folder, const char *name, int depth)
{
    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT) return 0;
    if (errno != EISDIR && errno != EPERM) return errno;
    int inner = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0) return errno;
    int error = depth < DEEPEST ? remove_inside(inner, depth) : ELOOP;
    if (error) return error;
    return unlinkat(folder, name, AT_REMOVEDIR) == 0 ? 0 : errno;
}

/* Takes the descriptor. */
static int remove_inside(int folder, int depth)
{
    DIR *dir = fdopendir(folder);
    int error = dir ? 0 : errno;
    if (!dir) close(folder);
    for (const struct dirent *e; !error && (errno = 0, e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            error = remove_one(folder, e->d_name, depth + 1);
    if (!error) error = errno;
    if (dir) closedir(dir);
    return error;
}

static tl_status remove_export(const char *path)
{
    const char *name;
    int folder;
    TL_TRY(tli_folder_open_of(&folder, &name, path));
    int error = remove_one(folder, name, 0);
    close(folder);
    return error
               ? TL_FAIL(TL_EIO, "the old export '%s' cannot be removed: %s", path, strerror(error))
               : TL_OK;
}

tl_status tl_export_file_manager_clean_up(tl_export_file_manager *m)
{
    tl_path_list list;
    tl_arena *arena;
    tl_status st;
    if (m->max_to_keep < 0) return TL_OK;
    TL_TRY(tl_arena_new(&arena));
    TL_TRY_DONE(st, tl_export_file_manager_list(&list, m, arena));
    for (int64_t i = 0; i < list.count - m->max_to_keep && st == TL_OK; i++)
        st = remove_export(list.items[i]);
done:
    tl_arena_free(&arena);
    return st;
}
