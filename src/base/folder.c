#include "base/inner/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>

#include "base/inner/file_io.h"

enum {
    OPENING = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
    PLACE = O_PATH | O_CLOEXEC, /* to go on from, and to look at: needs no right to read */
    TRIES = 10,
    MOST_LINKS = 40,
    MOST_LEVELS = 4096,
    ROOM_FOR_RUN = 512 /* of its name in messages */
};

/* --- held folders ----------------------------------------------------------------------------- */

struct tli_folder_hold {
    tli_folder_hold *next;
    int fd; /* -1: it was not there so far */
    dev_t device;
    ino_t inode;
    size_t length;
    char path[]; /* without slashes at its end */
};

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static tli_folder_hold *held;

static void let_go(tli_folder_hold *h)
{
    if (h->fd >= 0) close(h->fd);
    h->fd = -1;
}

/* From then on it is that folder, whatever gets its name, and wherever we stand, until it is
 * removed. */
static void settle(tli_folder_hold *h)
{
    struct stat info;
    if (h->fd >= 0 && fstat(h->fd, &info) == 0 && info.st_nlink > 0) return;
    let_go(h);
    h->fd = open(h->path, PLACE | O_DIRECTORY);
    if (h->fd >= 0 && fstat(h->fd, &info) != 0) let_go(h);
    if (h->fd < 0) return;
    h->device = info.st_dev;
    h->inode = info.st_ino;
}

static bool is_root(const tli_folder_hold *h)
{
    struct stat root;
    return h->fd >= 0 && stat("/", &root) == 0 && root.st_dev == h->device
           && root.st_ino == h->inode;
}

static void free_hold(tli_folder_hold *h)
{
    let_go(h);
    tl_free(h);
}

tl_status tli_folder_hold_new(tli_folder_hold **out, const char *path)
{
    size_t length = strlen(path);
    *out = NULL;
    while (length > 0 && path[length - 1] == '/') length--;
    // everything lies in the root, and the links that systems are made of
    if (!length) return TL_OK;
    tli_folder_hold *h = tl_alloc(sizeof *h + length + 1);
    if (!h) return TL_FAIL_NOMEM(sizeof *h + length + 1);
    h->fd = -1;
    h->length = length;
    memcpy(h->path, path, length);
    h->path[length] = '\0';
    settle(h);
    if (is_root(h)) {
        free_hold(h);
        return TL_OK;
    }
    pthread_mutex_lock(&guard);
    h->next = held;
    held = h;
    pthread_mutex_unlock(&guard);
    *out = h;
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
    free_hold(*hold);
    *hold = NULL;
}

static bool any_is_held(void)
{
    pthread_mutex_lock(&guard);
    bool any = held != NULL;
    pthread_mutex_unlock(&guard);
    return any;
}

/* --- walking ---------------------------------------------------------------------------------- */

/* Outside of held folders links are followed; from the first held folder on the way none is,
 * however the way there is written. */
typedef struct walk {
    int at;                 /* the folder that was reached */
    bool make;              /* folders that are not there */
    bool inside;            /* of a held folder */
    bool unsure;            /* not inside by the way we came, but perhaps by where it led */
    int links;              /* followed so far */
    const char *path;       /* the whole, for messages */
    char run[ROOM_FOR_RUN]; /* the held folder's name */
} walk;

static void enter(walk *w, const char *run)
{
    w->inside = true;
    w->unsure = false;
    snprintf(w->run, sizeof w->run, "%s", run);
}

/* How much of path[0 .. length) is the name of the outermost held folder that it begins with, and
 * w->at that folder, or -1 as long as it is not there. SIZE_MAX: it begins with none. */
static size_t begin_in_held(walk *w, const char *path, size_t length)
{
    const tli_folder_hold *found = NULL;
    pthread_mutex_lock(&guard);
    for (tli_folder_hold *h = held; h; h = h->next) {
        settle(h);
        bool begins = h->length <= length && strncmp(path, h->path, h->length) == 0
                      && (h->length == length || path[h->length] == '/');
        if (begins && (!found || h->length < found->length)) found = h;
    }
    size_t root = found ? found->length : SIZE_MAX;
    if (found && found->fd >= 0) w->at = fcntl(found->fd, F_DUPFD_CLOEXEC, 0);
    if (found && w->at >= 0) enter(w, found->path);
    pthread_mutex_unlock(&guard);
    return root;
}

static bool is_held(walk *w, const struct stat *info)
{
    bool found = false;
    pthread_mutex_lock(&guard);
    for (tli_folder_hold *h = held; h && !found; h = h->next) {
        settle(h);
        found = h->fd >= 0 && h->device == info->st_dev && h->inode == info->st_ino;
        if (found) enter(w, h->path);
    }
    pthread_mutex_unlock(&guard);
    return found;
}

/* Looks at the folder that was reached, and at all above it. */
static void look_above(walk *w)
{
    struct stat info, below = {0};
    int at = fcntl(w->at, F_DUPFD_CLOEXEC, 0);
    w->unsure = false;
    for (int i = 0; i < MOST_LEVELS && at >= 0 && fstat(at, &info) == 0 && !is_held(w, &info);
         i++) {
        if (i > 0 && info.st_dev == below.st_dev && info.st_ino == below.st_ino) break; // the root
        below = info;
        int above = openat(at, "..", PLACE | O_DIRECTORY);
        close(at);
        at = above;
    }
    if (at >= 0) close(at);
}

/* Takes the descriptor. */
static void arrive(walk *w, int fd)
{
    if (w->at >= 0) close(w->at);
    w->at = fd;
}

/* text[0 .. end) is as far as it went. */
static tl_status fail_step(const walk *w, const char *name, int error, const char *text, size_t end)
{
    struct stat info;
    if (w->inside && fstatat(w->at, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode))
        return TL_FAIL(
            TL_EINVAL,
            "'%.*s' is a symbolic link, and nothing is written through links that lie in the "
            "folder of a run, '%s': put a folder in its place, or name another folder for the run",
            (int)end, text, w->run);
    if (error == ENOTDIR)
        return TL_FAIL(TL_EEXISTS, "'%.*s' is no directory: a file of that name is there", (int)end,
                       text);
    tl_status st = TLI_FAIL_SYSTEM(error, "open the directory", w->path);
    return tl_error_note(st, "'%.*s'", (int)end, text);
}

/* The folder of that name, or the link: -1, and errno. */
static int open_step(const walk *w, const char *name)
{
    int next = openat(w->at, name, PLACE | O_NOFOLLOW);
    if (next < 0 && errno == ENOENT && w->make
        && (mkdirat(w->at, name, 0777) == 0 || errno == EEXIST))
        next = openat(w->at, name, PLACE | O_NOFOLLOW);
    return next;
}

static tl_status walk_on(walk *w, const char *text, size_t from, size_t to);

/* The system follows it, by its own rules; we look whether that leads through a held folder. */
static tl_status follow(walk *w, const char *name, const char *text, size_t end)
{
    char target[4096];
    tl_error before;
    int there = openat(w->at, name, PLACE | O_DIRECTORY);
    ssize_t length = there < 0 ? -1 : readlinkat(w->at, name, target, sizeof target - 1);
    int error = length < 0 ? errno
                : length == 0 || length >= (ssize_t)sizeof target - 1 || ++w->links > MOST_LINKS
                    ? ELOOP
                    : 0;
    if (error) {
        if (there >= 0) close(there);
        return fail_step(w, name, error, text, end);
    }
    target[length] = '\0';
    tl_error_save(&before);
    tl_status st = walk_on(w, target, 0, (size_t)length);
    if (w->inside) {
        close(there);
        return st;
    }
    tl_error_restore(&before); // links of /proc say what cannot be walked
    arrive(w, there);
    w->unsure = true;
    return TL_OK;
}

static tl_status step(walk *w, const char *name, const char *text, size_t end)
{
    struct stat info;
    const bool up = strcmp(name, "..") == 0;
    if (w->unsure && !up) look_above(w);
    if (w->inside && up)
        return TL_FAIL(TL_EINVAL, "'%s' leads out of the folder of a run, '%s'", w->path, w->run);
    int next = open_step(w, name);
    if (next < 0) return fail_step(w, name, errno, text, end);
    int error = fstat(next, &info) != 0 ? errno : S_ISDIR(info.st_mode) ? 0 : ENOTDIR;
    if (error) {
        close(next);
        return error == ENOTDIR && S_ISLNK(info.st_mode) && !w->inside
                   ? follow(w, name, text, end)
                   : fail_step(w, name, error, text, end);
    }
    arrive(w, next);
    if (up) w->unsure = true;
    else if (!w->inside) (void)is_held(w, &info);
    return TL_OK;
}

/* Goes along text[from .. to). */
static tl_status walk_on(walk *w, const char *text, size_t from, size_t to)
{
    char name[256];
    if (from == 0) {
        const bool absolute = to > 0 && text[0] == '/';
        if (absolute || w->at < 0) arrive(w, open(absolute ? "/" : ".", PLACE | O_DIRECTORY));
        if (w->at < 0) return TLI_FAIL_SYSTEM(errno, "open the directory of", w->path);
    }
    for (size_t at = from, end; at < to; at = end) {
        while (at < to && text[at] == '/') at++;
        for (end = at; end < to && text[end] != '/';) end++;
        if (end == at || (end == at + 1 && text[at] == '.')) continue;
        if (end - at >= sizeof name) return fail_step(w, ".", ENAMETOOLONG, text, end);
        memcpy(name, text + at, end - at);
        name[end - at] = '\0';
        TL_TRY(step(w, name, text, end));
    }
    return TL_OK;
}

/* To the folder path[0 .. length). */
static tl_status walk_to(walk *w, const char *path, size_t length)
{
    size_t root = begin_in_held(w, path, length);
    if (root != SIZE_MAX && w->at < 0) { // to be made, or not there
        w->unsure = path[0] != '/';
        TL_TRY(walk_on(w, path, 0, root));
        char run[ROOM_FOR_RUN];
        snprintf(run, sizeof run, "%.*s", (int)root, path);
        enter(w, run);
    }
    if (root != SIZE_MAX) return root < length ? walk_on(w, path, root, length) : TL_OK;
    w->unsure = length == 0 || path[0] != '/';
    return walk_on(w, path, 0, length);
}

static tl_status open_plainly(int *fd, const char *path, size_t length, int flags)
{
    const char *name = length ? path : ".";
    char *part = NULL;
    if (length && path[length]) {
        if (!(part = tl_alloc(length + 1))) return TL_FAIL_NOMEM(length + 1);
        memcpy(part, path, length);
        part[length] = '\0';
        name = part;
    }
    *fd = open(name, flags);
    int error = *fd < 0 ? errno : 0;
    tl_free(part);
    return error ? TLI_FAIL_SYSTEM(error, "open the directory of", path) : TL_OK;
}

/* The folder path[0 .. length). */
static tl_status open_part(int *fd, const char *path, size_t length, int flags)
{
    walk w = {.at = -1, .path = path};
    *fd = -1;
    if (!any_is_held()) return open_plainly(fd, path, length, flags);
    tl_status st = walk_to(&w, path, length);
    if (st == TL_OK && (*fd = openat(w.at, ".", flags)) < 0)
        st = TLI_FAIL_SYSTEM(errno, "open the directory of", path);
    if (w.at >= 0) close(w.at);
    return st;
}

tl_status tli_folder_open_of(int *fd, const char **name, const char *path)
{
    *name = tl_path_basename(path);
    return open_part(fd, path, (size_t)(*name - path), OPENING);
}

tl_status tli_folder_open(int *fd, const char *path)
{
    return open_part(fd, path, strlen(path), OPENING);
}

tl_status tli_folder_list(DIR **out, const char *path)
{
    tl_error before;
    int fd;
    *out = NULL;
    tl_error_save(&before);
    tl_status st = tli_folder_open(&fd, path);
    if (st == TL_ENOTFOUND || st == TL_EEXISTS) { // the latter: it is a file
        tl_error_restore(&before);
        return TL_OK;
    }
    TL_TRY(st);
    *out = fdopendir(fd);
    if (*out) return TL_OK;
    int error = errno;
    close(fd);
    return TLI_FAIL_SYSTEM(error, "search the directory", path);
}

tl_status tli_folder_reach(int *fd, const char *path)
{
    return open_part(fd, path, strlen(path), PLACE | O_DIRECTORY);
}

/* --- making ----------------------------------------------------------------------------------- */

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
    walk w = {.at = -1, .make = true, .path = path};
    if (!*path || !any_is_held()) return tl_dir_exists(path) ? TL_OK : make_folders(path);
    tl_status st = walk_to(&w, path, strlen(path));
    if (w.at >= 0) close(w.at);
    return st;
}

/* --- files of our own ------------------------------------------------------------------------- */

const char *tli_kind_of_file(mode_t mode)
{
    return S_ISFIFO(mode)                   ? "a pipe"
           : S_ISSOCK(mode)                 ? "a socket"
           : S_ISDIR(mode)                  ? "a directory"
           : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                            : "no regular file";
}

static tl_status fail_kind(const char *path, mode_t mode)
{
    return TL_FAIL(TL_EINVAL, "cannot write '%s': it is %s, and only regular files are written",
                   path, tli_kind_of_file(mode));
}

/* A file of ours that is about to be opened. */
typedef struct opening {
    int folder;
    const char *name, *path;
    const tli_open_args *args;
    bool again; /* what was in the way is not any more */
} opening;

static tl_status fail_opening(const opening *o, int error, const char *verb)
{
    if (o->args->denied) *o->args->denied = error == EACCES || error == EPERM || error == EROFS;
    return TLI_FAIL_SYSTEM(error, verb, o->path);
}

/* The first `size` bytes. 0, or an errno. */
static int copy_bytes(int to, int from, off_t size)
{
    char buffer[1 << 14];
    for (off_t left = size; left > 0;) {
        ssize_t got =
            read(from, buffer, left < (off_t)sizeof buffer ? (size_t)left : sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno;
        if (got == 0) break; // it was cut short meanwhile
        struct iovec piece = tli_piece(buffer, (size_t)got);
        int error = tli_write_all(to, &piece, 1);
        if (error) return error;
        left -= got;
    }
    return 0;
}

static tl_status put_copy(const opening *o, int from, const struct stat *info)
{
    char temp[300];
    snprintf(temp, sizeof temp, ".%.200s.%016llx.tmp", o->name,
             (unsigned long long)tli_random_bits());
    int to = openat(o->folder, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0) return fail_opening(o, errno, "make a temporary file beside");
    int error = copy_bytes(to, from, info->st_size);
    if (!error && fchmod(to, info->st_mode & 0777) != 0) error = errno;
    if (!error && fsync(to) != 0 && errno != EINVAL) error = errno;
    if (close(to) != 0 && !error && errno != EINTR) error = errno;
    if (!error && renameat(o->folder, temp, o->folder, o->name) != 0) error = errno;
    if (!error) return TL_OK;
    unlinkat(o->folder, temp, 0);
    return fail_opening(o, error, "make a copy of");
}

/* A file of other names is changed under all of them: this name gets a copy, and its mode. What is
 * copied is the file that was opened, not what may have taken its name since. */
static tl_status copy_apart(opening *o, const struct stat *opened)
{
    struct stat info;
    int from =
        openat(o->folder, o->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    o->again = true;
    if (from < 0)
        return errno == EACCES || errno == EPERM ? fail_opening(o, errno, "make a copy of") : TL_OK;
    tl_status st = TL_OK;
    if (fstat(from, &info) == 0 && info.st_dev == opened->st_dev && info.st_ino == opened->st_ino) {
        st = put_copy(o, from, &info);
        if (st == TL_OK)
            TL_LOG_WARNING(
                "'%s' had other names (hard links): it is a copy now, and they stay as they are",
                o->path);
    }
    close(from);
    return st;
}

/* In a folder that people share: the system says no more than that it is not permitted. */
static tl_status fail_of_others(const opening *o, const struct stat *info)
{
    char memory[1024], owner[64];
    struct passwd user, *found = NULL;
    if (getpwuid_r(info->st_uid, &user, memory, sizeof memory, &found) == 0 && found)
        snprintf(owner, sizeof owner, "%.60s", user.pw_name);
    else snprintf(owner, sizeof owner, "user %u", (unsigned)info->st_uid);
    if (o->args->denied) *o->args->denied = true;
    return TL_FAIL(TL_EIO,
                   "cannot write '%s': it belongs to %s, and its mode (%03o) does not let you: ask "
                   "its owner to let the group write to it (chmod g+w), or name another folder",
                   o->path, owner, (unsigned)info->st_mode & 0777);
}

static tl_status make_way(opening *o, int error)
{
    struct stat info;
    o->again = error == EINTR;
    if (o->again) return TL_OK;
    if (fstatat(o->folder, o->name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return fail_opening(o, error, "open");
    if (S_ISREG(info.st_mode) && error == EACCES && info.st_uid != geteuid())
        return fail_of_others(o, &info);
    if (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) return fail_opening(o, error, "open");
    if (!S_ISLNK(info.st_mode)) return fail_kind(o->path, info.st_mode);
    if (unlinkat(o->folder, o->name, 0) != 0 && errno != ENOENT)
        return fail_opening(o, errno, "replace the link");
    TL_LOG_WARNING(
        "'%s' was a symbolic link: it is a file of its own now, and what it led to stays as it is",
        o->path);
    o->again = true;
    return TL_OK;
}

static tl_status try_to_open(int *fd, struct stat *info, opening *o)
{
    const tli_open_args *args = o->args;
    int flags =
        O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (args->fresh ? O_EXCL : 0);
    o->again = false;
    flags |=
        (args->read_back ? O_RDWR : O_WRONLY) | (args->read_back && !args->append ? 0 : O_APPEND);
    *fd = openat(o->folder, o->name, flags, 0666);
    if (*fd < 0 && args->fresh && errno == EEXIST) return TLI_FAIL_SYSTEM(EEXIST, "make", o->path);
    if (*fd < 0) return make_way(o, errno);
    if (fstat(*fd, info) != 0) return TLI_FAIL_SYSTEM(errno, "look at", o->path);
    if (!S_ISREG(info->st_mode)) return fail_kind(o->path, info->st_mode);
    return info->st_nlink <= 1 || args->keep_names ? TL_OK : copy_apart(o, info);
}

tl_status tli_open_own(int *fd, struct stat *info, const char *path, const tli_open_args *args)
{
    opening o = {.folder = -1, .path = path, .args = args, .again = true};
    *fd = -1;
    if (args->denied) *args->denied = false;
    tl_status st = tli_folder_open_of(&o.folder, &o.name, path);
    for (int i = 0; i < TRIES && st == TL_OK && o.again; i++) {
        st = try_to_open(fd, info, &o);
        if ((st != TL_OK || o.again) && *fd >= 0) {
            close(*fd);
            *fd = -1;
        }
    }
    if (o.folder >= 0) close(o.folder);
    if (st == TL_OK && o.again)
        st = TL_FAIL(TL_EIO, "cannot open '%s': somebody puts links in its place, again and again",
                     path);
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
