#include "base/inner/code_cache.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/log.h>
#include <tilth/base/str.h>
#include <tilth/base/vec.h>

#include "base/inner/trust.h"

/* --- which folder ----------------------------------------------------------------------------- */

static const char *const advice = "set TILTH_CACHE_DIR to a folder of your own";

static tl_status refuse_system(const char *path, const char *verb, int error)
{
    char reason[128];
    return TL_FAIL(TL_EUNSUPPORTED, "the cache for compiled code: cannot %s '%s': %s; %s", verb,
                   path, strerror_r(error, reason, sizeof reason), advice);
}

/* The home of the user database, for processes that were started without a HOME. */
static void add_home(tl_str *out)
{
    const char *home = secure_getenv("HOME");
    if (home && *home == '/') {
        tl_str_add(out, home);
        return;
    }
    char text[4096];
    struct passwd user, *found = NULL;
    if (getpwuid_r(geteuid(), &user, text, sizeof text, &found) == 0 && found && found->pw_dir
        && *found->pw_dir == '/')
        tl_str_add(out, found->pw_dir);
}

static tl_status choose_folder(tl_str *out, const char *wanted)
{
    const char *named = secure_getenv("TILTH_CACHE_DIR"), *xdg = secure_getenv("XDG_CACHE_HOME");
    if (!wanted && named && *named) wanted = named;
    if (wanted) {
        tl_str_add(out, wanted);
    } else if (xdg && *xdg == '/') { // relative ones are to be ignored, says its specification
        tl_str_addf(out, "%s/tilth", xdg);
    } else {
        add_home(out);
        if (out->length) tl_str_add(out, "/.cache/tilth");
    }
    TL_TRY(tl_str_status(out));
    if (out->length) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "no place for the cache of compiled code: neither "
                   "TILTH_CACHE_DIR nor XDG_CACHE_HOME nor HOME is set, and the "
                   "user has no home; %s",
                   advice);
}

/* --- whose folder ----------------------------------------------------------------------------- */

static tl_status check_usable(const tli_code_cache *c)
{
    struct statvfs mount;
    if (faccessat(c->fd, ".", R_OK | W_OK | X_OK, AT_EACCESS) != 0)
        return refuse_system(c->path, "write to", errno);
    if (fstatvfs(c->fd, &mount) == 0 && mount.f_flag & ST_NOEXEC)
        return TL_FAIL(
            TL_EUNSUPPORTED,
            "the cache for compiled code: '%s' is on a file system that is mounted noexec, "
            "from which no code can be loaded; %s",
            c->path, advice);
    return TL_OK;
}

/* Takes over what was opened. */
static tl_status take_place(tli_code_cache *c, tli_trusted *place)
{
    TL_ASSERT(c->fd < 0 && place->fd >= 0);
    c->path = tl_strdup(tl_str_text(&place->path));
    if (!c->path) return TL_FAIL_NOMEM(place->path.length + 1);
    c->fd = place->fd;
    place->fd = -1;
    return TL_OK;
}

/* Loading runs code, so nobody else may be able to put any there. */
static tl_status open_folder(tli_code_cache *c, const char *path, bool *unsafe)
{
    tli_trusted place;
    tl_status st = tli_trust_own_folder(&place, path, true);
    *unsafe = st == TL_EUNSUPPORTED;
    if (st == TL_OK) {
        st = take_place(c, &place);
        if (st == TL_OK) st = check_usable(c);
    } else if (st != TL_ENOMEM && !*unsafe) {
        st = TL_FAIL(TL_EUNSUPPORTED, "the cache for compiled code: %s; %s", tl_error_message(),
                     advice);
    }
    tli_trusted_deinit(&place);
    return st;
}

/* --- without a cache -------------------------------------------------------------------------- */

/* The compiler works in a folder of our own, which is made there and removed again. What comes out
 * is loaded from memory, so a noexec mount will do. */
static tl_status open_workplace(tli_code_cache *c)
{
    const char *places[] = {secure_getenv("TMPDIR"), secure_getenv("XDG_RUNTIME_DIR"), "/tmp",
                            "/var/tmp", "/dev/shm"};
    tl_status st = TL_EUNSUPPORTED;
    for (int64_t i = 0; i < TL_COUNT(places) && st != TL_OK && st != TL_ENOMEM; i++) {
        tli_trusted place;
        if (!places[i] || *places[i] != '/') continue;
        st = tli_trust_folder(&place, places[i]);
        if (st == TL_OK && faccessat(place.fd, ".", R_OK | W_OK | X_OK, AT_EACCESS) != 0)
            st = TL_EIO;
        if (st == TL_OK) st = take_place(c, &place);
        tli_trusted_deinit(&place);
    }
    if (st == TL_OK || st == TL_ENOMEM) return st;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "no place to compile in: /tmp and the like cannot be written to, or others "
                   "could exchange what lies there; set TMPDIR to a folder of your own");
}

static tl_status do_without(tli_code_cache *c, const char *path)
{
    TL_LOG_ONCE(TL_LEVEL_WARNING,
                "the cache for compiled code, '%s', is not used, because others could put code "
                "there: %s; all is compiled into memory, in every run anew; to keep it, %s",
                path, tl_error_message(), advice);
    tl_error_clear();
    c->in_memory = true;
    return open_workplace(c);
}

tl_status tli_code_cache_init(tli_code_cache *c, const char *wanted, size_t max_bytes,
                              const char *source, const char *object)
{
    tl_status st;
    tl_str path = TL_STR_INIT;
    bool unsafe;
    *c = (tli_code_cache){.fd = -1, .max_bytes = max_bytes, .source = source, .object = object};
    TL_TRY_DONE(st, choose_folder(&path, wanted));
    st = open_folder(c, tl_str_text(&path), &unsafe);
    if (unsafe) st = do_without(c, tl_str_text(&path));
done:
    tl_str_deinit(&path);
    if (st != TL_OK) tli_code_cache_deinit(c);
    return st;
}

void tli_code_cache_deinit(tli_code_cache *c)
{
    if (c->fd >= 0) close(c->fd);
    tl_free(c->path);
    *c = (tli_code_cache){.fd = -1};
}

/* --- what is in it ---------------------------------------------------------------------------- */

typedef struct cached {
    char name[TLI_CODE_KEY + 1];
    size_t bytes;
    struct timespec used;
} cached;
typedef struct cached_list {
    cached *items;
    int64_t count, capacity;
} cached_list;

/* A stream over a folder of the cache; "." is the cache itself. NULL when it is none or gone. */
static DIR *open_dir(const tli_code_cache *c, const char *name)
{
    int fd = openat(c->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir && fd >= 0) close(fd);
    return dir;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void measure_entry(cached *out, const tli_code_cache *c)
{
    struct stat info;
    DIR *dir = open_dir(c, out->name);
    if (!dir) return;
    for (struct dirent *file; (file = readdir(dir));) {
        if (is_dots(file->d_name) || fstatat(dirfd(dir), file->d_name, &info, AT_SYMLINK_NOFOLLOW))
            continue;
        out->bytes += (size_t)info.st_size;
        if (strcmp(file->d_name, "k.sum") == 0) out->used = info.st_mtim;
    }
    closedir(dir);
}

/* Folders in which entries were being made, and locks, of processes that are no more. */
static void remove_if_left_behind(const tli_code_cache *c, const char *name)
{
    enum { AN_HOUR = 3600 };
    struct stat info;
    bool ours = strncmp(name, ".tmp-", 5) == 0 || strncmp(name, ".lock-", 6) == 0;
    if (!ours || fstatat(c->fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (time(NULL) - info.st_mtim.tv_sec > AN_HOUR) tli_code_cache_remove(c, name);
}

static tl_status list_entries(cached_list *out, const tli_code_cache *c, bool tidy)
{
    tl_status st = TL_OK;
    DIR *dir = open_dir(c, ".");
    if (!dir) return refuse_system(c->path, "list", errno);
    for (struct dirent *file; st == TL_OK && (file = readdir(dir));) {
        if (tidy) remove_if_left_behind(c, file->d_name);
        if (!tli_code_is_key(file->d_name)) continue;
        cached entry = {0};
        memcpy(entry.name, file->d_name, sizeof entry.name);
        TL_ASSERT(entry.name[TLI_CODE_KEY] == 0);
        measure_entry(&entry, c);
        if (!TL_VEC_PUSH(out, entry)) st = TL_ENOMEM;
    }
    closedir(dir);
    return st;
}

tl_status tli_code_cache_measure(const tli_code_cache *c, int64_t *entries, size_t *bytes)
{
    cached_list list = {0};
    tl_status st = c->in_memory ? TL_OK : list_entries(&list, c, false);
    *entries = st == TL_OK ? list.count : 0;
    *bytes = 0;
    for (int64_t i = 0; i < *entries; i++) *bytes += list.items[i].bytes;
    TL_VEC_FREE(&list);
    return st;
}

/* --- removing --------------------------------------------------------------------------------- */

void tli_code_cache_remove(const tli_code_cache *c, const char *name)
{
    if (unlinkat(c->fd, name, 0) == 0) return; // no folder
    DIR *dir = open_dir(c, name);
    if (!dir) return;
    for (struct dirent *file; (file = readdir(dir));)
        if (!is_dots(file->d_name)) (void)unlinkat(dirfd(dir), file->d_name, 0);
    closedir(dir);
    (void)unlinkat(c->fd, name, AT_REMOVEDIR);
}

/* Takes the entry out in one step first, so that no reader finds half of one. */
static void remove_entry(const tli_code_cache *c, const char *key)
{
    TL_ASSERT(tli_code_is_key(key) && !c->in_memory);
    char away[TLI_CODE_TEMP];
    snprintf(away, sizeof away, ".tmp-%s.old", key);
    if (renameat(c->fd, key, c->fd, away) == 0) {
        tli_code_cache_remove(c, away);
        return;
    }
    if (errno == ENOENT) return;    // another process was faster
    tli_code_cache_remove(c, away); // what one that was killed left there
    if (renameat(c->fd, key, c->fd, away) == 0) tli_code_cache_remove(c, away);
}

/* The loader knows what it has mapped. Code of GPUs is copied, and not needed any more. */
static tl_status is_loaded(bool *out, const tli_code_cache *c, const char *key)
{
    tl_str path = TL_STR_INIT;
    tl_str_addf(&path, "%s/%s/k.so", c->path, key);
    tl_status st = tl_str_status(&path);
    void *handle = st == TL_OK ? dlopen(tl_str_text(&path), RTLD_LAZY | RTLD_NOLOAD) : NULL;
    *out = handle != NULL;
    if (handle) dlclose(handle);
    tl_str_deinit(&path);
    return st;
}

static int compare_age(const void *a, const void *b)
{
    const cached *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec) return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

tl_status tli_code_cache_trim(const tli_code_cache *c)
{
    cached_list list = {0};
    size_t total = 0;
    tl_status st = c->in_memory ? TL_OK : list_entries(&list, c, true);
    for (int64_t i = 0; i < list.count; i++) total += list.items[i].bytes;
    if (st == TL_OK && total > c->max_bytes)
        qsort(list.items, (size_t)list.count, sizeof *list.items, compare_age);
    for (int64_t i = 0; i < list.count && st == TL_OK && total > c->max_bytes; i++) {
        bool loaded;
        st = is_loaded(&loaded, c, list.items[i].name);
        if (st != TL_OK || loaded) continue;
        remove_entry(c, list.items[i].name);
        total -= list.items[i].bytes;
        // The oldest first.
        TL_ASSERT(i == 0 || compare_age(&list.items[i - 1], &list.items[i]) <= 0);
    }
    TL_VEC_FREE(&list);
    return st;
}

tl_status tli_code_cache_clear(const tli_code_cache *c)
{
    cached_list list = {0};
    tl_status st = c->in_memory ? TL_OK : list_entries(&list, c, true);
    for (int64_t i = 0; i < list.count && st == TL_OK; i++) remove_entry(c, list.items[i].name);
    TL_VEC_FREE(&list);
    return st;
}
