#include "board/store.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>

#include "base/inner/file_io.h"
#include "base/inner/utf8.h"

double tli_wall_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- the lock --------------------------------------------------------------------------------- */

void tli_store_lock(tli_store *s)
{
    atomic_fetch_add(&s->waiting, 1);
    pthread_mutex_lock(&s->mutex);
    atomic_fetch_sub(&s->waiting, 1);
}

void tli_store_unlock(tli_store *s)
{
    pthread_mutex_unlock(&s->mutex);
}

/* --- files ------------------------------------------------------------------------------------ */

/* Walks the path by descriptors; a link anywhere in it is refused. */
static int open_below(int root, const char *path, int flags)
{
    char part[256];
    int at = dup(root);
    while (at >= 0 && *path) {
        size_t length = strcspn(path, "/");
        bool last = !path[length];
        if (length >= sizeof part || (length == 2 && memcmp(path, "..", 2) == 0)) errno = EINVAL;
        int next = -1;
        if (length && length < sizeof part && !(length == 2 && memcmp(path, "..", 2) == 0)) {
            memcpy(part, path, length);
            part[length] = '\0';
            next = openat(at, part,
                          (last ? flags : O_DIRECTORY | O_RDONLY) | O_NOFOLLOW | O_NONBLOCK
                              | O_CLOEXEC);
        }
        close(at);
        at = next;
        path += length + !last;
    }
    return at;
}

int tli_store_open(const tli_store *s, int32_t root, const char *path)
{
    struct stat info;
    int fd = *path ? open_below(s->roots[root].fd, path, O_RDONLY) : -1;
    if (fd >= 0 && (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int tli_store_open_folder(const tli_store *s, int32_t root, const char *path)
{
    if (!*path) return openat(s->roots[root].fd, ".", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    return open_below(s->roots[root].fd, path, O_DIRECTORY | O_RDONLY);
}

char *tli_store_read(size_t *size, const tli_store *s, int32_t root, const char *path, size_t most)
{
    struct stat info;
    int fd = tli_store_open(s, root, path);
    char *data = NULL;
    *size = 0;
    if (fd >= 0 && fstat(fd, &info) == 0) {
        size_t room = (size_t)info.st_size < most ? (size_t)info.st_size : most;
        data = tl_alloc(room + 1);
        while (data && *size < room) {
            ssize_t got = pread(fd, data + *size, room - *size, (off_t)*size);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) break;
            *size += (size_t)got;
        }
        if (data) data[*size] = '\0';
    }
    if (fd >= 0) close(fd);
    return data;
}

/* --- runs ------------------------------------------------------------------------------------- */

static void free_tags(tli_store *s, tli_board_run *r)
{
    for (int64_t i = 0; i < r->tags.count; i++) {
        tli_tag *t = &r->tags.items[i];
        s->points -= t->series.points;
        tli_series_free(&t->series);
        TL_VEC_FREE(&t->media);
        tl_free(t->name);
    }
    TL_VEC_FREE(&r->tags);
    tl_map_deinit(&r->by_name);
    r->by_name = (tl_map)TL_MAP_INIT;
}

void tli_run_clear(tli_store *s, tli_board_run *r)
{
    free_tags(s, r);
    for (int64_t i = 0; i < r->files.count; i++) {
        s->bytes_read -= r->files.items[i].offset;
        r->files.items[i].offset = 0;
        r->files.items[i].last_tag = -1;
        r->files.items[i].damaged = false;
    }
    r->lines.offset = 0;
    tl_str_cut(&r->rest, 0);
    r->ended = r->has_events = r->too_many_tags = false;
    r->step = 0;
    r->began = 0;
}

void tli_run_free(tli_store *s, tli_board_run *r)
{
    free_tags(s, r);
    for (int64_t i = 0; i < r->parts.count; i++) tl_free(r->parts.items[i]);
    for (int64_t i = 0; i < r->files.count; i++) tl_free(r->files.items[i].path);
    TL_VEC_FREE(&r->parts);
    TL_VEC_FREE(&r->files);
    TL_VEC_FREE(&r->settings);
    tl_arena_free(&r->settings_arena);
    tl_str_deinit(&r->rest);
    tl_str_deinit(&r->row);
    tl_free(r->lines.path);
    tl_free(r->experiment);
    tl_free(r->reason);
    tl_free(r->message);
    tl_free(r->path);
    tl_free(r->name);
}

int32_t tli_run_part(tli_board_run *r, const char *name)
{
    for (int64_t i = 0; i < r->parts.count; i++)
        if (strcmp(r->parts.items[i], name) == 0) return (int32_t)i;
    char *copy = tl_strdup(name);
    if (!copy || !TL_VEC_PUSH(&r->parts, copy)) {
        tl_free(copy);
        return -1;
    }
    return (int32_t)(r->parts.count - 1);
}

static bool is_tag(const tli_board_run *r, int32_t place, int32_t part, const char *name,
                   size_t length)
{
    if (place < 0 || place >= r->tags.count) return false;
    const tli_tag *t = &r->tags.items[place];
    return t->part == part && !t->from_lines && t->length == length
           && memcmp(t->name, name, length) == 0;
}

/* `key` ends with the name. */
static int32_t add_tag(tli_board_run *r, const tli_tag *like, const char *name, const char *key)
{
    if (r->tags.count >= TLI_MOST_TAGS) {
        r->too_many_tags = true;
        return -1;
    }
    tli_tag t = *like;
    t.name = tl_strdup(name);
    t.length = strlen(name);
    if (!t.name || !TL_VEC_PUSH(&r->tags, t)) {
        tl_free(t.name);
        return -1;
    }
    if (tl_map_set(&r->by_name, key, (void *)(intptr_t)r->tags.count) != TL_OK) {
        tl_free(t.name);
        r->tags.count--;
        return -1;
    }
    return (int32_t)(r->tags.count - 1);
}

/* The page asks for tags by the names that it was shown: what is no UTF-8 is replaced. */
static void copy_readable(char *to, const char *name, size_t length)
{
    char plain[TLI_LONGEST_TAG + 1];
    memcpy(plain, name, length);
    plain[length] = '\0';
    for (const char *p = plain; *p;) {
        const int bytes = tli_utf8_length(p), copied = bytes ? bytes : 3;
        memcpy(to, bytes ? p : TLI_UTF8_REPLACEMENT, (size_t)copied);
        to += copied;
        p += bytes ? bytes : 1;
    }
    *to = '\0';
}

static int32_t find_tag(tli_board_run *r, const tli_tag *like, const char *name, size_t length)
{
    char key[3 * TLI_LONGEST_TAG + 16];
    if (length > TLI_LONGEST_TAG || memchr(name, '\0', length)) return -1;
    int head = snprintf(key, sizeof key, "%d%s\n", like->part, like->from_lines ? " lines" : "");
    copy_readable(key + head, name, length);
    intptr_t place = (intptr_t)tl_map_get(&r->by_name, key);
    return place ? (int32_t)(place - 1) : add_tag(r, like, key + head, key);
}

int32_t tli_run_tag(tli_board_run *r, int32_t part, const char *name, size_t length, int32_t guess)
{
    if (is_tag(r, guess, part, name, length)) return guess;
    return find_tag(r, &(tli_tag){.part = part, .next = -1, .kind = TLI_TAG_OTHER}, name, length);
}

int32_t tli_run_own_tag(tli_board_run *r, const char *part, const char *name, bool from_lines)
{
    int32_t number = tli_run_part(r, part);
    if (number < 0) return -1;
    return find_tag(
        r, &(tli_tag){.part = number, .next = -1, .kind = TLI_TAG_NUMBER, .from_lines = from_lines},
        name, strlen(name));
}

/* --- points ----------------------------------------------------------------------------------- */

/* All curves get shorter when there are too many points. */
static bool make_room(tli_store *s)
{
    while (s->points > s->most_points && s->most_of_one > TLI_LEAST_POINTS) {
        s->most_of_one /= 2;
        for (int64_t i = 0; i < s->runs.count; i++)
            for (int64_t k = 0; k < s->runs.items[i].tags.count; k++) {
                tli_series *c = &s->runs.items[i].tags.items[k].series;
                int64_t before = c->points;
                if (before <= s->most_of_one) continue;
                if (!tli_series_thin(c)) return false;
                s->points += c->points - before;
            }
    }
    return true;
}

bool tli_store_add(tli_store *s, tli_board_run *r, int32_t tag, const tli_point *p)
{
    tli_series *c = &r->tags.items[tag].series;
    if (!tli_series_add(c, p->step, p->time, p->value)) return false;
    s->points++;
    if (c->points > s->most_of_one) {
        int64_t before = c->points;
        if (!tli_series_thin(c)) return false;
        s->points += c->points - before;
    }
    return s->points <= s->most_points || make_room(s);
}

bool tli_tag_shown(const tli_board_run *r, const tli_tag *t)
{
    return t->kind != TLI_TAG_OTHER && !(t->from_lines && r->has_events);
}

/* --- the store -------------------------------------------------------------------------------- */

static void close_root(tli_root *root)
{
    if (root->fd >= 0) close(root->fd);
    tl_free(root->folder);
}

static bool is_same_folder(const tli_root *a, const tli_root *b)
{
    struct stat one, other;
    return strcmp(a->folder, b->folder) == 0
           || (a->fd >= 0 && b->fd >= 0 && fstat(a->fd, &one) == 0 && fstat(b->fd, &other) == 0
               && one.st_dev == other.st_dev && one.st_ino == other.st_ino);
}

static tl_status open_roots(tli_store *s, tl_strings folders, bool patient)
{
    s->roots = tl_alloc_zero((size_t)(folders.count + 1) * sizeof *s->roots);
    if (!s->roots) return TL_FAIL_NOMEM(sizeof *s->roots);
    for (int64_t i = 0; i < folders.count; i++) {
        tli_root *root = &s->roots[s->root_count++];
        root->fd = -1;
        root->folder = tl_strdup(folders.items[i]);
        if (!root->folder) return TL_FAIL_NOMEM(strlen(folders.items[i]) + 1);
        root->fd = open(root->folder, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
        if (root->fd < 0 && !(patient && errno == ENOENT))
            return TLI_FAIL_SYSTEM(errno, "open the folder", root->folder);
        bool named_before = false;
        for (int64_t k = 0; k < s->root_count - 1; k++)
            named_before |= is_same_folder(&s->roots[k], root);
        if (named_before) close_root(&s->roots[--s->root_count]); // its runs are there once
    }
    return TL_OK;
}

tl_status tli_store_new(tli_store **out, const tli_store_args *args)
{
    tli_store *s = tl_alloc_zero(sizeof *s);
    *out = NULL;
    if (!s) return TL_FAIL_NOMEM(sizeof *s);
    pthread_mutex_init(&s->mutex, NULL);
    s->most_points = args->most_points ? args->most_points : 1 << 23;
    s->most_of_one = TLI_MOST_POINTS;
    s->most_runs = args->most_runs ? args->most_runs : TLI_MOST_RUNS;
    s->version = 1;
    s->buffer = tl_alloc(TLI_STRETCH);
    tl_status st =
        s->buffer ? open_roots(s, args->folders, args->patient) : TL_FAIL_NOMEM(TLI_STRETCH);
    if (st == TL_OK) *out = s;
    else tli_store_free(&s);
    return st;
}

void tli_store_free(tli_store **store)
{
    tli_store *s = *store;
    if (!s) return;
    for (int64_t i = 0; i < s->runs.count; i++) tli_run_free(s, &s->runs.items[i]);
    TL_VEC_FREE(&s->runs);
    tl_map_deinit(&s->by_path);
    for (int64_t i = 0; i < s->root_count; i++) close_root(&s->roots[i]);
    tl_free(s->roots);
    tl_free(s->buffer);
    pthread_mutex_destroy(&s->mutex);
    tl_free(s);
    *store = NULL;
}

/* Small files of all runs first: the list is there before the curves. */
static void look_at_run(tli_store *s, tli_board_run *r)
{
    bool changed = tli_run_read_settings(s, r);
    changed |= tli_run_read_lines(s, r);
    changed |= tli_run_judge(s, r);
    if (!changed) return;
    tli_store_lock(s);
    r->version = ++s->version;
    tli_store_unlock(s);
}

static void read_run(tli_store *s, tli_board_run *r)
{
    bool changed = false;
    for (int64_t i = 0; i < r->files.count && !s->stop; i++)
        changed |= tli_run_read_events(s, r, &r->files.items[i]);
    if (!changed) return;
    tli_run_judge(s, r);
    tli_store_lock(s);
    r->version = ++s->version;
    tli_store_unlock(s);
}

tl_status tli_store_look(tli_store *s)
{
    enum { FOLDERS_EVERY = 3 };
    double now = tli_wall_time();
    if (now - s->looked >= FOLDERS_EVERY || now < s->looked) {
        TL_TRY(tli_store_find(s));
        s->looked = now;
    }
    for (int64_t i = 0; i < s->runs.count && !s->stop; i++)
        if (!s->runs.items[i].gone) look_at_run(s, &s->runs.items[i]);
    for (int64_t i = s->runs.count; i-- > 0 && !s->stop;)
        if (!s->runs.items[i].gone) read_run(s, &s->runs.items[i]);
    if (!s->settled && !s->stop) {
        tli_store_lock(s);
        s->settled = true;
        s->version++;
        tli_store_unlock(s);
    }
    return TL_OK;
}
