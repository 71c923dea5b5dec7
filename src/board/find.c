#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/vec.h>
#include <tilth/train/writers/metrics_file.h>

#include "board/store.h"

/* --- finding runs ----------------------------------------------------------------------------- */

enum { DEEPEST = 12, MOST_NAMES = 1 << 20 };

typedef struct finding {
    tli_store *s;
    tl_arena *arena;
    int32_t root;
    int64_t names; /* looked at */
    bool too_many; /* runs */
} finding;

typedef struct names {
    const char **items;
    int64_t count, capacity;
} names;

static bool is_event_file(const char *name)
{
    return strstr(name, ".tfevents.") || strstr(name, "tfevents") == name;
}

static bool is_mark(const char *name)
{
    static const char *const marks[] = {"params.yaml", "config.yaml", "experiment.txt",
                                        TL_METRICS_FILE};
    for (int i = 0; i < TL_COUNT(marks); i++)
        if (strcmp(name, marks[i]) == 0) return true;
    return false;
}

/* Folders with these names are parts of the run above them. */
static bool is_part(const char *name)
{
    static const char *const parts[] = {"train", "validation", "eval", "val", "test"};
    for (int i = 0; i < TL_COUNT(parts); i++)
        if (strcmp(name, parts[i]) == 0) return true;
    return false;
}

/* What people call it: the path below the folder, behind that folder's name where there are
 * several. */
static char *name_of(const finding *f, const char *path)
{
    char *whole = realpath(f->s->roots[f->root].folder, NULL);
    const char *root = tl_path_basename(whole ? whole : f->s->roots[f->root].folder);
    const char *name = !*path                  ? root
                       : f->s->root_count == 1 ? path
                                               : tl_arena_printf(f->arena, "%s/%s", root, path);
    char *copy = name ? tl_strdup(name) : NULL;
    free(whole);
    return copy;
}

/* A place for one more; -1 when there is none. */
static int64_t free_place(finding *f)
{
    tli_store *s = f->s;
    if (s->runs.count < s->most_runs)
        return TL_VEC_PUSH(&s->runs, (tli_board_run){.gone = true}) ? s->runs.count - 1 : -1;
    for (int64_t i = 0; i < s->runs.count; i++) {
        tli_board_run *r = &s->runs.items[i];
        const char *key = r->gone ? tl_arena_printf(f->arena, "%d/%s", r->root, r->path) : NULL;
        if (!key) continue;
        tl_map_remove(&s->by_path, key);
        tli_run_free(s, r);
        return i;
    }
    f->too_many = true;
    return -1;
}

/* The run of that folder, made when it is new; NULL when there is no room. The lock is held. */
static tli_board_run *run_of(finding *f, const char *path)
{
    tli_store *s = f->s;
    const char *key = tl_arena_printf(f->arena, "%d/%s", f->root, path);
    if (!key) return NULL;
    intptr_t place = (intptr_t)tl_map_get(&s->by_path, key);
    if (place) return &s->runs.items[place - 1];
    tli_board_run r = {.root = f->root,
                       .path = tl_strdup(path),
                       .name = name_of(f, path),
                       .best_metric = "",
                       .rest = TL_STR_INIT,
                       .by_name = TL_MAP_INIT};
    r.lines.path =
        tl_strdup(tl_arena_printf(f->arena, "%s%s" TL_METRICS_FILE, path, *path ? "/" : ""));
    int64_t at = r.path && r.name && r.lines.path ? free_place(f) : -1;
    if (at >= 0 && tl_map_set(&s->by_path, key, (void *)(intptr_t)(at + 1)) != TL_OK) {
        s->runs.items[at] = (tli_board_run){.gone = true, .best_metric = ""};
        at = -1;
    }
    if (at < 0) {
        tl_free(r.path);
        tl_free(r.name);
        tl_free(r.lines.path);
        return NULL;
    }
    r.version = ++s->version;
    s->runs.items[at] = r;
    return &s->runs.items[at];
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const tli_followed *)a)->path, ((const tli_followed *)b)->path);
}

/* Files are read in the order of their names. A new one in their midst changes what is said of
 * pictures, which know their file by its place: the run is read anew. */
static bool add_file(finding *f, tli_board_run *r, int32_t part, const char *path)
{
    for (int64_t i = 0; i < r->files.count; i++)
        if (strcmp(r->files.items[i].path, path) == 0) return r->files.items[i].seen = true;
    tli_followed file = {.path = tl_strdup(path), .part = part, .last_tag = -1, .seen = true};
    if (!file.path || !TL_VEC_PUSH(&r->files, file)) {
        tl_free(file.path);
        return false;
    }
    bool last = r->files.count < 2 || strcmp(r->files.items[r->files.count - 2].path, path) < 0;
    if (last) return true;
    tli_run_clear(f->s, r);
    qsort(r->files.items, (size_t)r->files.count, sizeof *r->files.items, by_path);
    return true;
}

static bool note_folder(finding *f, const char *run_path, const char *path, const names *events)
{
    tli_store *s = f->s;
    const char *part = path + strlen(run_path);
    bool good = true;
    part += *part == '/';
    tli_store_lock(s);
    tli_board_run *r = run_of(f, run_path);
    if (r) {
        if (r->gone) r->gone = false, s->version++;
        r->seen = true;
        int32_t number = events->count ? tli_run_part(r, part) : 0;
        for (int64_t i = 0; i < events->count && good && number >= 0; i++) {
            const char *file =
                tl_arena_printf(f->arena, "%s%s%s", path, *path ? "/" : "", events->items[i]);
            good = file && add_file(f, r, number, file);
        }
    }
    tli_store_unlock(s);
    return good;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

typedef struct listing {
    names folders, events;
    bool marked;
} listing;

/* What is in a folder; links are none of it. */
static void list(finding *f, listing *out, int fd)
{
    DIR *dir = fdopendir(fd);
    const struct dirent *e;
    if (!dir) {
        close(fd);
        return;
    }
    while ((e = readdir(dir)) && f->names < MOST_NAMES) {
        struct stat info;
        unsigned char type = e->d_type;
        if (e->d_name[0] == '.') continue;
        f->names++;
        if (type == DT_UNKNOWN && fstatat(dirfd(dir), e->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0)
            type = S_ISDIR(info.st_mode) ? DT_DIR : S_ISREG(info.st_mode) ? DT_REG : DT_LNK;
        bool event = type == DT_REG && is_event_file(e->d_name);
        out->marked |= type == DT_REG && is_mark(e->d_name);
        if (type != DT_DIR && !event) continue;
        const char *name = tl_arena_strdup(f->arena, e->d_name);
        names *to = event ? &out->events : &out->folders;
        if (!name || !TL_VEC_PUSH(to, name)) break;
    }
    closedir(dir);
    if (out->events.count)
        qsort(out->events.items, (size_t)out->events.count, sizeof *out->events.items, by_text);
    if (out->folders.count)
        qsort(out->folders.items, (size_t)out->folders.count, sizeof *out->folders.items, by_text);
}

/* `run`: path of the run that this folder belongs to, NULL for none. */
static void walk(finding *f, const char *path, const char *run, int depth)
{
    int fd = tli_store_open_folder(f->s, f->root, path);
    listing found = {0};
    if (fd < 0) return;
    list(f, &found, fd);
    if (found.marked) run = path;
    else if (!run && found.events.count)
        run = *path && is_part(tl_path_basename(path)) && strchr(path, '/')
                  ? tl_path_dirname(f->arena, path)
                  : path;
    if (run && (found.marked || found.events.count)) note_folder(f, run, path, &found.events);
    // A folder of event files alone does not take in what is below it.
    const char *below = run && (found.marked || run != path) ? run : NULL;
    for (int64_t i = 0; i < found.folders.count && depth < DEEPEST && !f->s->stop; i++) {
        const char *next =
            tl_arena_printf(f->arena, "%s%s%s", path, *path ? "/" : "", found.folders.items[i]);
        if (next) walk(f, next, below, depth + 1);
    }
    TL_VEC_FREE(&found.folders);
    TL_VEC_FREE(&found.events);
}

static void forget_missing(tli_store *s, bool too_many)
{
    tli_store_lock(s);
    s->too_many_runs = too_many;
    for (int64_t i = 0; i < s->runs.count; i++) {
        tli_board_run *r = &s->runs.items[i];
        bool lost = false;
        for (int64_t k = 0; k < r->files.count; k++) lost |= !r->files.items[k].seen;
        if (!r->gone && (!r->seen || lost)) {
            tli_run_clear(s, r);
            for (int64_t k = 0; k < r->files.count; k++) {
                s->bytes_total -= r->files.items[k].size;
                tl_free(r->files.items[k].path);
            }
            r->files.count = 0;
            if (!r->seen) r->gone = true;
            else s->looked = 0; // what is left is found again at once
            r->version = ++s->version;
        }
    }
    tli_store_unlock(s);
}

/* A folder that was removed and made anew is another one under the same name. The descriptor stays
 * the same number: others may be using it. */
static void open_root(tli_root *root)
{
    struct stat now, before;
    if (root->fd < 0) root->fd = open(root->folder, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (root->fd < 0 || stat(root->folder, &now) != 0 || fstat(root->fd, &before) != 0
        || (now.st_ino == before.st_ino && now.st_dev == before.st_dev))
        return;
    int fd = open(root->folder, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    dup3(fd, root->fd, O_CLOEXEC);
    close(fd);
}

tl_status tli_store_find(tli_store *s)
{
    finding f = {.s = s};
    tl_status st = TL_OK;
    for (int64_t i = 0; i < s->runs.count; i++) {
        s->runs.items[i].seen = false;
        for (int64_t k = 0; k < s->runs.items[i].files.count; k++)
            s->runs.items[i].files.items[k].seen = false;
    }
    for (int64_t i = 0; i < s->root_count && st == TL_OK && !s->stop; i++) {
        f.root = (int32_t)i;
        open_root(&s->roots[i]);
        if (s->roots[i].fd < 0) continue;
        st = tl_arena_new(&f.arena);
        if (st == TL_OK) walk(&f, "", NULL, 0);
        tl_arena_free(&f.arena);
    }
    if (st == TL_OK && !s->stop) forget_missing(s, f.too_many);
    return st;
}
