#include <tilth/base/file.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>

#include "base/inner/file_io.h"
#include "base/inner/folder.h"

static tl_status status_of(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR: return TL_ENOTFOUND;
    case EEXIST: return TL_EEXISTS;
    case ENOMEM: return TL_ENOMEM;
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG: return TL_EINVAL;
    default: return TL_EIO;
    }
}

tl_status tli_fail_system(const char *file, int line, int error, const char *verb, const char *path)
{
    char reason[128];
    return tl_error_set(status_of(error), file, line, "cannot %s '%s': %s", verb, path,
                        strerror_r(error, reason, sizeof reason));
}

/* A terminal that another program made non-blocking takes the rest a little later. */
static void wait_until_writable(int fd)
{
    struct pollfd wanted = {.fd = fd, .events = POLLOUT};
    (void)poll(&wanted, 1, -1);
}

int tli_write_all(int fd, struct iovec *pieces, int count)
{
    while (count > 0) {
        if (pieces->iov_len == 0) {
            pieces++;
            count--;
            continue;
        }
        ssize_t written = writev(fd, pieces, count);
        if (written < 0 && errno == EAGAIN) wait_until_writable(fd);
        else if (written < 0 && errno != EINTR) return errno;
        for (size_t left = written > 0 ? (size_t)written : 0; left > 0;) {
            size_t step = left < pieces->iov_len ? left : pieces->iov_len;
            pieces->iov_base = (char *)pieces->iov_base + step;
            pieces->iov_len -= step;
            left -= step;
            if (pieces->iov_len == 0) {
                pieces++;
                count--;
            }
        }
    }
    return 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* What a shell hands over as a file: it is waited for, since whoever gave the command has named it.
 * Nothing at all is named so as well. */
static bool names_stream(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    for (int64_t i = 0; i < TL_COUNT(folders); i++) {
        size_t length = strlen(folders[i]);
        if (strncmp(path, folders[i], length) != 0) continue;
        const char *number = path + length; // and nothing else: no way back up
        return *number && !number[strspn(number, "0123456789")];
    }
    return strcmp(path, "/dev/stdin") == 0 || strcmp(path, "/dev/null") == 0;
}

static tl_status check_regular(const struct stat *info, const char *path)
{
    if (S_ISREG(info->st_mode)) return TL_OK;
    if (S_ISDIR(info->st_mode)) return TLI_FAIL_SYSTEM(EISDIR, "read", path);
    return TL_FAIL(TL_EINVAL, "cannot read '%s': it is %s, and only regular files are read", path,
                   tli_kind_of_file(info->st_mode));
}

/* A pipe would be waited for, for ever perhaps, and a device may do something when it is opened. */
static tl_status open_regular(int *fd, struct stat *info, const char *path)
{
    if (stat(path, info) == 0) TL_TRY(check_regular(info, path));
    *fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (*fd < 0) return TLI_FAIL_SYSTEM(errno, "open", path);
    tl_status st =
        fstat(*fd, info) == 0 ? check_regular(info, path) : TLI_FAIL_SYSTEM(errno, "read", path);
    if (st != TL_OK) close(*fd);
    return st;
}

static tl_status open_for_reading(int *fd, struct stat *info, const char *path)
{
    if (!names_stream(path)) return open_regular(fd, info, path);
    do *fd = open(path, O_RDONLY | O_CLOEXEC);
    while (*fd < 0 && errno == EINTR);
    if (*fd < 0) return TLI_FAIL_SYSTEM(errno, "open", path);
    int error = fstat(*fd, info) != 0 ? errno : S_ISDIR(info->st_mode) ? EISDIR : 0;
    if (error) close(*fd);
    return error ? TLI_FAIL_SYSTEM(error, "read", path) : TL_OK;
}

tl_status tli_file_open(int *fd, struct stat *info, const char *path)
{
    return open_regular(fd, info, path);
}

static tl_status fail_too_large(const char *path, size_t limit)
{
    return TL_FAIL(TL_ELIMIT, "'%s' is larger than the %zu bytes that are accepted", path, limit);
}

/* Room for one byte more than is there, which is how the end is told from a full buffer. */
static tl_status grow(char **data, size_t *room, size_t wanted)
{
    char *grown = tl_realloc(*data, wanted);
    if (!grown) return TL_FAIL_NOMEM(wanted);
    *data = grown;
    *room = wanted;
    return TL_OK;
}

static tl_status read_to_end(char **data, size_t *size, int fd, const char *path, size_t limit,
                             size_t expected)
{
    size_t room = 0;
    *size = 0;
    // Files of the kernel say that they are empty, and some answer one read only.
    TL_TRY(grow(data, &room, expected ? expected + 1 : 4096));
    for (;;) {
        ssize_t got = read(fd, *data + *size, room - *size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return TLI_FAIL_SYSTEM(errno, "read", path);
        if (got == 0) break;
        *size += (size_t)got;
        if (*size > limit) return fail_too_large(path, limit);
        if (*size == room) TL_TRY(grow(data, &room, room < 4096 ? 8192 : room * 2));
    }
    (*data)[*size] = '\0';
    return TL_OK;
}

tl_status tl_file_read(char **data, size_t *size, const char *path, size_t limit)
{
    int fd;
    struct stat info;
    size_t length = 0;
    *data = NULL;
    if (size) *size = 0;
    TL_TRY(open_for_reading(&fd, &info, path));
    size_t expected = S_ISREG(info.st_mode) ? (size_t)info.st_size : 0;
    tl_status status = expected > limit ? fail_too_large(path, limit)
                                        : read_to_end(data, &length, fd, path, limit, expected);
    close(fd);
    if (status != TL_OK) {
        tl_free(*data);
        *data = NULL;
        return status;
    }
    if (size) *size = length;
    return TL_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

enum { WRITER_BUFFER = 1 << 16, LONGEST_STEM = 200, TEMP_TRIES = 100 };

struct tl_file_writer {
    char *path;       /* where the file goes */
    const char *name; /* the last part of it */
    int folder, fd;
    char temp[LONGEST_STEM + 32]; /* name in the folder; "" while or once there is no such file */
    bool failed;
    bool replaces; /* a file that is there, and had this mode */
    mode_t mode;
    size_t used;
    char buffer[WRITER_BUFFER];
};

/* What is no file is not replaced, nor a link to such: /dev/stdout is one. */
static tl_status look_at_target(tl_file_writer *w, const char *path)
{
    struct stat info;
    w->path = tl_strdup(path);
    if (!w->path) return TL_FAIL_NOMEM(strlen(path) + 1);
    if (stat(path, &info) != 0) return TL_OK; // a new file; what else is wrong shows when it opens
    if (S_ISDIR(info.st_mode)) return TLI_FAIL_SYSTEM(EISDIR, "write", path);
    if (!S_ISREG(info.st_mode))
        return TL_FAIL(TL_EINVAL, "cannot write '%s': it is not a regular file", path);
    w->replaces = lstat(path, &info) == 0 && S_ISREG(info.st_mode);
    w->mode = info.st_mode & 0777;
    return TL_OK;
}

uint64_t tli_random_bits(void)
{
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, 0) == (ssize_t)sizeof bits) return bits;
    // Any number will do, since the file is opened exclusively; uniqueness only saves tries.
    static uint64_t counter;
    return (uint64_t)getpid() << 32 ^ __atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED);
}

static tl_status open_temp(tl_file_writer *w)
{
    if (!*w->name) return TLI_FAIL_SYSTEM(EISDIR, "write", w->path);
    int error = EEXIST;
    for (int i = 0; i < TEMP_TRIES && (error == EEXIST || error == EINTR); i++) {
        snprintf(w->temp, sizeof w->temp, ".%.*s.%016llx.tmp", LONGEST_STEM, w->name,
                 (unsigned long long)tli_random_bits());
        // Nobody else may look in before the mode is that of the file it replaces.
        w->fd = openat(w->folder, w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                       w->replaces ? 0600 : 0666);
        if (w->fd >= 0) break;
        error = errno;
    }
    if (w->fd < 0) {
        w->temp[0] = '\0';
        return TLI_FAIL_SYSTEM(error, "make a temporary file beside", w->path);
    }
    if (w->replaces && fchmod(w->fd, w->mode) != 0)
        return TLI_FAIL_SYSTEM(errno, "set the mode of the new", w->path);
    return TL_OK;
}

tl_status tl_file_writer_begin(tl_file_writer **out, const char *path)
{
    tl_status status;
    tl_file_writer *w = tl_alloc(sizeof *w);
    *out = NULL;
    if (!w) return TL_FAIL_NOMEM(sizeof *w);
    memset(w, 0, offsetof(tl_file_writer, buffer));
    w->folder = w->fd = -1;
    TL_TRY_DONE(status, look_at_target(w, path));
    // The folder stays open: what comes later works also after a chdir, and allocates nothing.
    TL_TRY_DONE(status, tli_folder_open_of(&w->folder, &w->name, w->path));
    TL_TRY_DONE(status, open_temp(w));
    *out = w;
    w = NULL;
done:
    tl_file_writer_abort(&w);
    return status;
}

static tl_status flush(tl_file_writer *w, const void *more, size_t size)
{
    struct iovec pieces[] = {tli_piece(w->buffer, w->used), tli_piece(more, size)};
    int error = tli_write_all(w->fd, pieces, 2);
    w->used = 0;
    w->failed = error != 0;
    return error ? TLI_FAIL_SYSTEM(error, "write", w->path) : TL_OK;
}

static tl_status check_not_failed(const tl_file_writer *w)
{
    if (!w->failed) return TL_OK;
    return TL_FAIL(TL_ESTATE, "cannot write '%s': an earlier write failed", w->path);
}

tl_status tl_file_writer_write(tl_file_writer *w, const void *data, size_t size)
{
    TL_TRY(check_not_failed(w));
    if (size >= sizeof w->buffer - w->used) return flush(w, data, size);
    if (size) memcpy(w->buffer + w->used, data, size);
    w->used += size;
    return TL_OK;
}

/* File systems that cannot sync say EINVAL; there is nothing to wait for then. */
static int sync_fd(int fd)
{
    int result;
    do result = fsync(fd);
    while (result != 0 && errno == EINTR);
    return result == 0 || errno == EINVAL ? 0 : errno;
}

/* Some file systems tell of a failed write only when the file is synced or closed. */
static tl_status finish_temp(tl_file_writer *w)
{
    int error = sync_fd(w->fd);
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0 && errno != EINTR && !error) error = errno;
    return error ? TLI_FAIL_SYSTEM(error, "write", w->path) : TL_OK;
}

static tl_status put_in_place(tl_file_writer *w)
{
    if (renameat(w->folder, w->temp, w->folder, w->name) != 0)
        return TLI_FAIL_SYSTEM(errno, "put in place", w->path);
    w->temp[0] = '\0';
    int error = sync_fd(w->folder); // a rename is on the disk only when its directory is
    return error ? TLI_FAIL_SYSTEM(error, "sync the directory of", w->path) : TL_OK;
}

tl_status tl_file_writer_commit(tl_file_writer **writer)
{
    tl_status status;
    TL_TRY_DONE(status, check_not_failed(*writer));
    TL_TRY_DONE(status, flush(*writer, NULL, 0));
    TL_TRY_DONE(status, finish_temp(*writer));
    status = put_in_place(*writer);
done:
    tl_file_writer_abort(writer);
    return status;
}

void tl_file_writer_abort(tl_file_writer **writer)
{
    tl_file_writer *w = *writer;
    if (!w) return;
    if (w->fd >= 0) close(w->fd);
    if (w->temp[0]) unlinkat(w->folder, w->temp, 0);
    if (w->folder >= 0) close(w->folder);
    tl_free(w->path);
    tl_free(w);
    *writer = NULL;
}

tl_status tl_file_write_atomic(const char *path, const void *data, size_t size)
{
    tl_file_writer *w = NULL;
    tl_status status;
    TL_TRY_DONE(status, tl_file_writer_begin(&w, path));
    TL_TRY_DONE(status, tl_file_writer_write(w, data, size));
    status = tl_file_writer_commit(&w);
done:
    tl_file_writer_abort(&w);
    return status;
}

tl_status tl_file_remove(const char *path)
{
    const char *name;
    int folder;
    TL_TRY(tli_folder_open_of(&folder, &name, path));
    int error = unlinkat(folder, name, 0) == 0 ? 0 : errno;
    close(folder);
    return error ? TLI_FAIL_SYSTEM(error, "remove", path) : TL_OK;
}

/* --- asking ----------------------------------------------------------------------------------- */

tl_status tl_file_stat(tl_file_info *out, const char *path)
{
    struct stat info;
    *out = (tl_file_info){0};
    if (stat(path, &info) != 0)
        return status_of(errno) == TL_ENOTFOUND ? TL_OK : TLI_FAIL_SYSTEM(errno, "look at", path);
    out->exists = true;
    out->is_dir = S_ISDIR(info.st_mode);
    out->is_regular = S_ISREG(info.st_mode);
    out->size = out->is_regular ? (size_t)info.st_size : 0;
    return TL_OK;
}

bool tl_file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

bool tl_dir_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* --- paths ------------------------------------------------------------------------------------ */

char *tl_path_join(tl_arena *arena, const char *folder, const char *name)
{
    size_t length = strlen(folder);
    if (length == 0 || name[0] == '/') return tl_arena_strdup(arena, name);
    const char *slash = folder[length - 1] == '/' ? "" : "/";
    return tl_arena_printf(arena, "%s%s%s", folder, slash, name);
}

bool tl_path_stays_inside(const char *path)
{
    if (path[0] == '/') return false;
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strcmp(part, "..") == 0 || strncmp(part, "../", 3) == 0) return false;
    }
    return true;
}

const char *tl_path_basename(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *tl_path_dirname(tl_arena *arena, const char *path)
{
    size_t length = (size_t)(tl_path_basename(path) - path);
    if (length == 0) return tl_arena_strdup(arena, ".");
    while (length > 1 && path[length - 1] == '/') length--;
    return tl_arena_strndup(arena, path, length);
}

// glob() hands its error function no payload.
static _Thread_local struct {
    int error;
    char path[1024];
} glob_failure;

static int stop_unless_absent(const char *path, int error)
{
    if (status_of(error) == TL_ENOTFOUND) return 0;
    glob_failure.error = error;
    snprintf(glob_failure.path, sizeof glob_failure.path, "%s", path);
    return 1;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static tl_status copy_paths(tl_path_list *out, tl_arena *arena, const glob_t *found)
{
    const char **items = tl_arena_array(arena, (int64_t)found->gl_pathc, sizeof *items);
    if (!items) return TL_ENOMEM;
    for (size_t i = 0; i < found->gl_pathc; i++) {
        items[i] = tl_arena_strdup(arena, found->gl_pathv[i]);
        if (!items[i]) return TL_ENOMEM;
    }
    qsort(items, found->gl_pathc, sizeof *items, compare_paths);
    *out = (tl_path_list){items, (int64_t)found->gl_pathc};
    return TL_OK;
}

tl_status tl_glob(tl_path_list *out, tl_arena *arena, const char *pattern)
{
    glob_t found = {0};
    tl_status status = TL_OK;
    *out = (tl_path_list){NULL, 0};
    switch (glob(pattern, GLOB_NOSORT, stop_unless_absent, &found)) {
    case 0: status = copy_paths(out, arena, &found); break;
    case GLOB_NOMATCH: break;
    case GLOB_ABORTED:
        status = TLI_FAIL_SYSTEM(glob_failure.error, "search the directory", glob_failure.path);
        break;
    default: status = TL_FAIL_NOMEM(strlen(pattern));
    }
    globfree(&found);
    return status;
}

static tl_status copy_entries(tl_path_list *out, tl_arena *arena, DIR *dir, const char *folder)
{
    struct {
        const char **items;
        int64_t count, capacity;
    } found = {0};
    tl_status st = TL_OK;
    for (const struct dirent *e; st == TL_OK && (errno = 0, e = readdir(dir));) {
        if (e->d_name[0] == '.') continue;
        const char *path = tl_path_join(arena, folder, e->d_name);
        if (!path || !TL_VEC_PUSH(&found, path)) st = TL_ENOMEM;
    }
    if (st == TL_OK && errno) st = TLI_FAIL_SYSTEM(errno, "search the directory", folder);
    const size_t bytes = (size_t)found.count * sizeof *found.items;
    if (st == TL_OK && found.count) {
        qsort(found.items, (size_t)found.count, sizeof *found.items, compare_paths);
        out->items = tl_arena_copy(arena, found.items, bytes);
        if (out->items) out->count = found.count;
        else st = TL_ENOMEM;
    }
    TL_VEC_FREE(&found);
    return st;
}

tl_status tl_dir_list(tl_path_list *out, tl_arena *arena, const char *folder)
{
    *out = (tl_path_list){NULL, 0};
    DIR *dir = opendir(folder);
    if (!dir) return TLI_FAIL_SYSTEM(errno, "search the directory", folder);
    tl_status st = copy_entries(out, arena, dir, folder);
    closedir(dir);
    return st;
}
