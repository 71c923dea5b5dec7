#include "io/inner/run_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>

#include "base/inner/folder.h"

enum { HOLDER = 512, TRIES = 100 };

struct tli_run_lock {
    char *path;
    int fd;
    dev_t device;
    ino_t inode;
    tli_run_lock *next;
};

/* Those of this process. Locks of the older kind do not keep a process from taking what it has, and
 * all are lost when it closes any descriptor of the file: so it must not even be opened a second
 * time. */
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static tli_run_lock *ours;

static bool is_ours(const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0) return false;
    for (const tli_run_lock *l = ours; l; l = l->next)
        if (l->device == info.st_dev && l->inode == info.st_ino) return true;
    return false;
}

/* --- who has it ------------------------------------------------------------------------------- */

static void write_holder(int fd)
{
    char text[HOLDER], host[128] = "", since[32] = "";
    time_t now = time(NULL);
    struct tm parts;
    if (gethostname(host, sizeof host - 1) != 0) strcpy(host, "?");
    if (localtime_r(&now, &parts)) strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S", &parts);
    int length =
        snprintf(text, sizeof text, "pid %ld\nhost %s\nsince %s\n", (long)getpid(), host, since);
    // A disk that is full does not matter here: who it is, is only told to people.
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)length, 0) != length)
        TL_LOG_DEBUG("the lock does not say who has it: %s", strerror(errno));
}

/* What follows `key` in its line; "" when it is not there. */
static void line_of(char *out, size_t size, const char *text, const char *key)
{
    size_t length = strlen(key);
    *out = '\0';
    for (const char *at = text; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, key, length) != 0) continue;
        snprintf(out, size, "%.*s", (int)strcspn(at + length, "\n"), at + length);
        return;
    }
}

#define HOST_LETTERS "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz.-_"

static tl_status refuse(const char *path, const char *folder, int fd)
{
    char text[HOLDER] = "", pid[32], host[128], since[32];
    ssize_t length = pread(fd, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    line_of(pid, sizeof pid, text, "pid ");
    line_of(host, sizeof host, text, "host ");
    line_of(since, sizeof since, text, "since ");
    // It is for people to type, and whoever can write the file wrote it.
    bool believable = *pid && !pid[strspn(pid, "0123456789")] && *host
                      && !host[strspn(host, HOST_LETTERS)]
                      && !since[strspn(since, "0123456789-:T Z+")];
    if (!believable)
        return TL_FAIL(TL_EEXISTS,
                       "'%s' is in use: another process trains in it (it has '%s'). Wait for it, "
                       "or name another folder",
                       folder, path);
    return TL_FAIL(TL_EEXISTS,
                   "'%s' is in use: process %s on %s has been training in it since %s. Wait for "
                   "it, end it (on %s: kill %s), or name another folder",
                   folder, pid, host, since, host, pid);
}

/* --- taking it -------------------------------------------------------------------------------- */

typedef enum outcome { TAKEN, HELD, NO_LOCKS } outcome;

static outcome lock_file(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int result = -1;
    errno = EINVAL;
#ifdef F_OFD_SETLK
    result = fcntl(fd, F_OFD_SETLK, &whole);
#endif
    if (result != 0 && errno == EINVAL) result = fcntl(fd, F_SETLK, &whole);
    if (result == 0) return TAKEN;
    return errno == EAGAIN || errno == EACCES ? HELD : NO_LOCKS;
}

/* Who had it before may have removed the file between our opening and locking it. */
static bool is_still(int fd, const char *path, struct stat *info)
{
    struct stat named;
    return fstat(fd, info) == 0 && lstat(path, &named) == 0 && named.st_dev == info->st_dev
           && named.st_ino == info->st_ino;
}

/* *fd is -1 after a failure. */
static tl_status open_locked(int *fd, struct stat *info, const char *path, const char *folder)
{
    for (int i = 0; i < TRIES; i++) {
        TL_TRY(
            tli_open_own(fd, info, path, &(tli_open_args){.read_back = true, .keep_names = true}));
        outcome found = lock_file(*fd);
        int why = errno;
        if (found == NO_LOCKS)
            TL_LOG_WARNING("'%s' cannot be locked (%s): see to it that nobody else trains in '%s'",
                           path, strerror(why), folder);
        tl_status st = found == HELD ? refuse(path, folder, *fd) : TL_OK;
        bool still = is_still(*fd, path, info);
        if (st == TL_OK && still && info->st_nlink <= 1) return TL_OK;
        // Nobody holds it, and it has other names: it would be written under all of them.
        if (st == TL_OK && still) st = tl_file_remove(path);
        close(*fd);
        *fd = -1;
        TL_TRY(st);
    }
    return TL_FAIL(TL_EIO, "'%s' cannot be locked: it vanishes again and again", path);
}

static tl_status take(tli_run_lock *l, const char *folder)
{
    struct stat info;
    if (is_ours(l->path))
        return TL_FAIL(TL_EEXISTS,
                       "'%s' is in use: this process trains in it already; name another folder",
                       folder);
    TL_TRY(open_locked(&l->fd, &info, l->path, folder));
    l->device = info.st_dev;
    l->inode = info.st_ino;
    write_holder(l->fd);
    l->next = ours;
    ours = l;
    return TL_OK;
}

static char *path_in(const char *folder)
{
    size_t size = strlen(folder) + sizeof "/" TLI_RUN_LOCK_NAME;
    char *path = tl_alloc(size);
    if (path) snprintf(path, size, "%s/" TLI_RUN_LOCK_NAME, folder);
    return path;
}

static void free_lock(tli_run_lock *l)
{
    if (l) tl_free(l->path);
    tl_free(l);
}

tl_status tli_run_lock_take(tli_run_lock **out, const char *folder)
{
    tli_run_lock *l = tl_alloc_zero(sizeof *l);
    *out = NULL;
    if (l) l->path = path_in(folder);
    if (!l || !l->path) {
        free_lock(l);
        return TL_FAIL_NOMEM(sizeof *l);
    }
    pthread_mutex_lock(&guard);
    tl_status st = take(l, folder);
    pthread_mutex_unlock(&guard);
    if (st == TL_OK) *out = l;
    else free_lock(l);
    return st;
}

/* The file goes while it is still locked: who opens it before that notices that it is gone. */
void tli_run_lock_release(tli_run_lock **lock)
{
    tli_run_lock *l = *lock;
    struct stat info;
    tl_error before; // letting go is often what a failure leads to
    if (!l) return;
    pthread_mutex_lock(&guard);
    for (tli_run_lock **at = &ours; *at; at = &(*at)->next) {
        if (*at != l) continue;
        *at = l->next;
        break;
    }
    tl_error_save(&before);
    if (is_still(l->fd, l->path, &info)) (void)!tl_file_remove(l->path);
    tl_error_restore(&before);
    close(l->fd);
    pthread_mutex_unlock(&guard);
    free_lock(l);
    *lock = NULL;
}

/* --- asking ----------------------------------------------------------------------------------- */

static bool is_locked(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int result = -1;
    errno = EINVAL;
#ifdef F_OFD_GETLK
    result = fcntl(fd, F_OFD_GETLK, &whole);
#endif
    if (result != 0 && errno == EINVAL) result = fcntl(fd, F_GETLK, &whole);
    return result == 0 && whole.l_type != F_UNLCK;
}

static int64_t holder_here(int fd)
{
    char text[HOLDER] = "", pid[32], host[128], here[128] = "";
    ssize_t length = pread(fd, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    line_of(pid, sizeof pid, text, "pid ");
    line_of(host, sizeof host, text, "host ");
    if (gethostname(here, sizeof here - 1) != 0 || strcmp(host, here) != 0) return 0;
    return strtoll(pid, NULL, 10);
}

bool tli_run_lock_held(const char *folder, int64_t *pid)
{
    char *path = path_in(folder);
    struct stat info;
    bool held = false;
    int fd = -1;
    if (pid) *pid = 0;
    if (!path) return false;
    pthread_mutex_lock(&guard);
    if (is_ours(path)) {
        held = true;
        if (pid) *pid = getpid();
    } else if ((fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) >= 0) {
        held = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && is_locked(fd);
        if (held && pid) *pid = holder_here(fd);
        close(fd);
    }
    pthread_mutex_unlock(&guard);
    tl_free(path);
    return held;
}
