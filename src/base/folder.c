#include "base/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>

#include "base/file_io.h"

enum { OPENING = O_RDONLY | O_DIRECTORY | O_CLOEXEC, TRIES = 10 };

/* --- held folders ------------------------------------------------------------------------------- */

struct tli_folder_hold {
    tli_folder_hold *next;
    size_t length;
    char path[]; /* without slashes at its end */
};

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static tli_folder_hold *held;

tl_status tli_folder_hold_new(tli_folder_hold **out, const char *path)
{
    size_t length = strlen(path);
    while (length > 0 && path[length - 1] == '/') length--;
    tli_folder_hold *h = tl_alloc(sizeof *h + length + 1);
    *out = h;
    if (!h) return TL_FAIL_NOMEM(sizeof *h + length + 1);
    h->length = length;
    memcpy(h->path, path, length);
    h->path[length] = '\0';
    pthread_mutex_lock(&guard);
    h->next = held;
    held = h;
    pthread_mutex_unlock(&guard);
    return TL_OK;
}

void tli_folder_hold_free(tli_folder_hold **hold)
{
    if (!*hold) return;
    pthread_mutex_lock(&guard);
    for (tli_folder_hold **at = &held; *at; at = &(*at)->next) {
        if (*at != *hold) continue;
        *at = (*hold)->next;
        break;
    }
    pthread_mutex_unlock(&guard);
    tl_free(*hold);
    *hold = NULL;
}

/* How much of the path names the outermost held folder that it lies in; SIZE_MAX: it lies in none. */
static size_t held_part(const char *path)
{
    size_t shortest = SIZE_MAX;
    pthread_mutex_lock(&guard);
    for (const tli_folder_hold *h = held; h; h = h->next)
        if (h->length < shortest && strncmp(path, h->path, h->length) == 0 && path[h->length] == '/') shortest = h->length;
    pthread_mutex_unlock(&guard);
    return shortest;
}

/* --- walking ------------------------------------------------------------------------------------ */

static tl_status fail_step(int folder, const char *name, int error, const char *path, size_t root, size_t end)
{
    struct stat info;
    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode))
        return TL_FAIL(TL_EINVAL, "'%.*s' is a symbolic link, and nothing is written through links that lie in the folder "
                                  "of a run, '%.*s': put a folder in its place, or name another folder for the run",
                       (int)end, path, (int)(root ? root : 1), path);
    if (error == ENOTDIR)
        return TL_FAIL(TL_EEXISTS, "'%.*s' is no directory: a file of that name is there", (int)end, path);
    tl_status st = TLI_FAIL_SYSTEM(error, "open the directory", path);
    return tl_error_note(st, "'%.*s'", (int)end, path);
}

/* From *fd to the folder of that name in it. */
static tl_status step_into(int *fd, char *name, bool make, const char *path, size_t root, size_t end)
{
    if (strcmp(name, "..") == 0)
        return TL_FAIL(TL_EINVAL, "'%s' leads out of the folder of a run, '%.*s'", path, (int)(root ? root : 1), path);
    int next = openat(*fd, name, OPENING | O_NOFOLLOW);
    if (next < 0 && errno == ENOENT && make && (mkdirat(*fd, name, 0777) == 0 || errno == EEXIST))
        next = openat(*fd, name, OPENING | O_NOFOLLOW);
    if (next < 0) return fail_step(*fd, name, errno, path, root, end);
    close(*fd);
    *fd = next;
    return TL_OK;
}

/* Opens path[0 .. length), of which path[0 .. root) is held. `text` is a copy that may be cut. */
static tl_status walk(int *fd, char *text, size_t root, size_t length, bool make, const char *path)
{
    char after = text[root];
    tl_status st = TL_OK;
    text[root] = '\0';
    if (make && root) st = tl_mkdirs(text);
    if (st == TL_OK && (*fd = open(root ? text : "/", OPENING)) < 0) st = TLI_FAIL_SYSTEM(errno, "open the directory", text);
    text[root] = after;
    for (size_t at = root, end; st == TL_OK && at < length; at = end) {
        while (at < length && text[at] == '/') at++;
        for (end = at; end < length && text[end] != '/';) end++;
        after = text[end];
        text[end] = '\0';
        if (end > at && strcmp(text + at, ".") != 0) st = step_into(fd, text + at, make, path, root, end);
        text[end] = after;
    }
    return st;
}

/* The folder path[0 .. length). */
static tl_status open_part(int *fd, const char *path, size_t length, bool make)
{
    size_t root = held_part(path);
    *fd = -1;
    char *text = tl_alloc(length + 2);
    if (!text) return TL_FAIL_NOMEM(length + 2);
    memcpy(text, length ? path : ".", length ? length : 1);
    text[length ? length : 1] = '\0';
    tl_status st = TL_OK;
    if (root <= length)
        st = walk(fd, text, root, length, make, path);
    else if ((*fd = open(text, OPENING)) < 0)
        st = TLI_FAIL_SYSTEM(errno, "open the directory of", path);
    if (st != TL_OK && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    tl_free(text);
    return st;
}

tl_status tli_folder_open_of(int *fd, const char **name, const char *path)
{
    *name = tl_path_basename(path);
    return open_part(fd, path, (size_t)(*name - path), false);
}

tl_status tli_folder_open(int *fd, const char *path)
{
    return open_part(fd, path, strlen(path), false);
}

/* --- making ------------------------------------------------------------------------------------- */

/* Another process may make the same directory at the same time: that is as good as making it. */
static tl_status make_folder(const char *path)
{
    struct stat info;
    if (mkdir(path, 0777) == 0) return TL_OK;
    int error = errno;
    if (stat(path, &info) != 0) return TLI_FAIL_SYSTEM(error, "make the directory", path);
    if (S_ISDIR(info.st_mode)) return TL_OK;
    return TL_FAIL(TL_EEXISTS, "cannot make the directory '%s': a file of that name is there",
                   path);
}

static tl_status make_folders(const char *path)
{
    char *part = tl_strdup(path);
    if (!part) return TL_FAIL_NOMEM(strlen(path) + 1);
    tl_status status = TL_OK;
    for (char *p = part; *p && status == TL_OK; p++) {
        bool ends_name = *p == '/' && p > part && p[-1] != '/';
        if (!ends_name) continue;
        *p = '\0';
        status = make_folder(part);
        *p = '/';
    }
    if (status == TL_OK) status = make_folder(part);
    tl_free(part);
    return status;
}

tl_status tl_mkdirs(const char *path)
{
    int fd;
    if (held_part(path) == SIZE_MAX) return tl_dir_exists(path) ? TL_OK : make_folders(path);
    TL_TRY(open_part(&fd, path, strlen(path), true));
    close(fd);
    return TL_OK;
}

/* --- files of our own --------------------------------------------------------------------------- */

const char *tli_kind_of_file(mode_t mode)
{
    return S_ISFIFO(mode)   ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
           : S_ISDIR(mode)  ? "a directory"
           : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                            : "no regular file";
}

static tl_status fail_kind(const char *path, mode_t mode)
{
    return TL_FAIL(TL_EINVAL, "cannot write '%s': it is %s, and only regular files are written", path,
                   tli_kind_of_file(mode));
}

/* A file of other names is changed under all of them: this name gets a copy, and its mode. */
static tl_status copy_apart(const char *path)
{
    tl_file_mapping file = TL_FILE_MAPPING_INIT;
    TL_TRY(tl_file_map(&file, path));
    tl_status st = tl_file_write_atomic(path, file.data, file.size);
    tl_file_unmap(&file);
    if (st == TL_OK) TL_LOG_WARNING("'%s' had other names (hard links): it is a copy now, and they stay as they are", path);
    return st;
}

static bool is_denial(int error)
{
    return error == EACCES || error == EPERM || error == EROFS;
}

/* *again: what was in the way is not any more. */
static tl_status make_way(int folder, const char *name, const char *path, int error, bool *again)
{
    struct stat info;
    *again = error == EINTR;
    if (*again) return TL_OK;
    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return TLI_FAIL_SYSTEM(error, "open", path);
    if (!S_ISLNK(info.st_mode))
        return S_ISREG(info.st_mode) || S_ISDIR(info.st_mode) ? TLI_FAIL_SYSTEM(error, "open", path)
                                                              : fail_kind(path, info.st_mode);
    if (unlinkat(folder, name, 0) != 0 && errno != ENOENT) return TLI_FAIL_SYSTEM(errno, "replace the link", path);
    TL_LOG_WARNING("'%s' was a symbolic link: it is a file of its own now, and what it led to stays as it is", path);
    *again = true;
    return TL_OK;
}

static tl_status try_to_open(int *fd, struct stat *info, int folder, const char *name, const char *path,
                             const tli_open_args *args, bool *again)
{
    int flags = O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (args->fresh ? O_EXCL : 0);
    *again = false;
    flags |= (args->read_back ? O_RDWR : O_WRONLY) | (args->read_back && !args->append ? 0 : O_APPEND);
    *fd = openat(folder, name, flags, 0666);
    if (*fd < 0 && args->fresh && errno == EEXIST) return TLI_FAIL_SYSTEM(EEXIST, "make", path);
    if (*fd < 0 && args->denied) *args->denied = is_denial(errno);
    if (*fd < 0) return make_way(folder, name, path, errno, again);
    if (fstat(*fd, info) != 0) return TLI_FAIL_SYSTEM(errno, "look at", path);
    if (!S_ISREG(info->st_mode)) return fail_kind(path, info->st_mode);
    if (info->st_nlink <= 1 || args->keep_names) return TL_OK;
    *again = true;
    return copy_apart(path);
}

tl_status tli_open_own(int *fd, struct stat *info, const char *path, const tli_open_args *args)
{
    const char *name;
    int folder;
    bool again = true;
    *fd = -1;
    if (args->denied) *args->denied = false;
    tl_status st = tli_folder_open_of(&folder, &name, path);
    for (int i = 0; i < TRIES && st == TL_OK && again; i++) {
        st = try_to_open(fd, info, folder, name, path, args, &again);
        if ((st != TL_OK || again) && *fd >= 0) {
            close(*fd);
            *fd = -1;
        }
    }
    if (folder >= 0) close(folder);
    if (st == TL_OK && again) st = TL_FAIL(TL_EIO, "cannot open '%s': somebody puts links in its place, again and again", path);
    return st;
}

tl_status tli_rename_beside(const char *path, const char *name)
{
    const char *old;
    int folder;
    TL_TRY(tli_folder_open_of(&folder, &old, path));
    int error = renameat(folder, old, folder, name) == 0 ? 0 : errno;
    close(folder);
    return error ? TLI_FAIL_SYSTEM(error, "rename", path) : TL_OK;
}
