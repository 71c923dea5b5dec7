#include "base/inner/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/inner/file_io.h"

/* --- groups ----------------------------------------------------------------------------------- */

enum { RECORD = 16 << 10 };

/* Directories of a network often do not list who is in a group, and people whose first group it is
 * are listed nowhere. So a group is the user's own only if it has his name and is his first one:
 * that is how systems make it for one user, and what makes them set a umask of 002. */
static bool is_named_after(char name[256], unsigned user, unsigned gid)
{
    char memory[RECORD];
    struct passwd record, *found = NULL;
    if (getpwuid_r(user, &record, memory, sizeof memory, &found) != 0 || !found) return false;
    if (found->pw_gid != gid || strlen(found->pw_name) >= 256) return false;
    strcpy(name, found->pw_name);
    struct group group, *of = NULL;
    if (getgrgid_r(gid, &group, memory, sizeof memory, &of) != 0 || !of) return false;
    return strcmp(of->gr_name, name) == 0;
}

static bool has_only(const struct group *g, const char *name)
{
    for (char **member = g->gr_mem; member && *member; member++)
        if (strcmp(*member, name) != 0 && strcmp(*member, "root") != 0) return false;
    return true;
}

/* The answer of the system, which may come from elsewhere than the file. */
static bool is_listed_alone(unsigned gid, const char *name)
{
    char memory[RECORD];
    struct group record, *found = NULL;
    return getgrgid_r(gid, &record, memory, sizeof memory, &found) == 0 && found
           && has_only(found, name);
}

/* Nobody else has it as the first group. */
static bool is_first_of_nobody_else(const char *passwd, unsigned user, unsigned gid)
{
    char memory[RECORD];
    struct passwd record, *found;
    FILE *file = fopen(passwd, "re");
    if (!file) return false;
    int error = 0;
    bool alone = true;
    while (alone && (error = fgetpwent_r(file, &record, memory, sizeof memory, &found)) == 0)
        alone = record.pw_gid != gid || record.pw_uid == user || record.pw_uid == 0;
    fclose(file);
    return alone && error == ENOENT;
}

/* Lines of the same number under other names give the same rights. */
static bool is_of_nobody_else(const char *group, const char *name, unsigned gid)
{
    char memory[RECORD];
    struct group record, *found;
    FILE *file = fopen(group, "re");
    if (!file) return false;
    int error = 0;
    bool alone = true;
    while (alone && (error = fgetgrent_r(file, &record, memory, sizeof memory, &found)) == 0)
        alone = record.gr_gid != gid || has_only(&record, name);
    fclose(file);
    return alone && error == ENOENT;
}

bool tli_trust_is_own_group(unsigned user, unsigned gid, const char *passwd, const char *group)
{
    char name[256];
    return is_named_after(name, user, gid) && is_listed_alone(gid, name)
           && is_first_of_nobody_else(passwd, user, gid) && is_of_nobody_else(group, name, gid);
}

/* An access list hides behind the bits of the group: who is named there may be anybody. A
 * descriptor that is only a place cannot be asked for it. */
static bool has_access_list(int fd, const struct stat *info)
{
    int asked = S_ISDIR(info->st_mode) ? openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : fd;
    if (asked < 0) return true;
    ssize_t size = fgetxattr(asked, "system.posix_acl_access", NULL, 0);
    bool none = size < 0 && (errno == ENODATA || errno == ENOTSUP);
    if (asked != fd) close(asked);
    return !none;
}

/* --- the rule --------------------------------------------------------------------------------- */

static tl_status refuse_owner(const char *path, const struct stat *info)
{
    return TL_FAIL(TL_EUNSUPPORTED, "'%s' belongs to user %u, neither you (user %u) nor root", path,
                   (unsigned)info->st_uid, (unsigned)geteuid());
}

static tl_status refuse_group(const char *path, const struct stat *info)
{
    return TL_FAIL(TL_EUNSUPPORTED,
                   "its group (%u), in which others may be, may write to '%s' (chmod g-w)",
                   (unsigned)info->st_gid, path);
}

/* `sticky_will_do`: others may add names, but cannot touch what is there. */
static tl_status check_writers(int fd, const struct stat *info, const char *path,
                               bool sticky_will_do)
{
    if (S_ISLNK(info->st_mode)) return TL_OK; // nobody can change where it leads
    if (sticky_will_do && S_ISDIR(info->st_mode) && info->st_mode & S_ISVTX) return TL_OK;
    if (info->st_mode & S_IWOTH)
        return TL_FAIL(TL_EUNSUPPORTED, "everybody may write to '%s' (chmod o-w)", path);
    if (!(info->st_mode & S_IWGRP)) return TL_OK;
    if (has_access_list(fd, info)) return refuse_group(path, info);
    bool own = tli_trust_is_own_group(geteuid(), info->st_gid, "/etc/passwd", "/etc/group");
    return own ? TL_OK : refuse_group(path, info);
}

static tl_status check_place(int fd, const struct stat *info, const char *path)
{
    if (info->st_uid != geteuid() && info->st_uid != 0) return refuse_owner(path, info);
    return check_writers(fd, info, path, true);
}

/* --- the walk --------------------------------------------------------------------------------- */

enum { PLACE = O_PATH | O_NOFOLLOW | O_CLOEXEC, MOST_LINKS = 40 };

typedef struct walk {
    int at;      /* the folder that was reached, and checked */
    tl_str path; /* its name; "" is the root */
    tl_str rest; /* what is left to go */
    int links;
    bool make;
    bool want_file;
    bool shared; /* the folder is one of those where others may add names */
    int file;    /* what was wanted, if that is a file */
} walk;

static const char *name_of(const walk *w)
{
    return w->path.length ? tl_str_text(&w->path) : "/";
}

/* Takes the descriptor, and makes it the folder that was reached. */
static tl_status step_into(walk *w, int fd)
{
    struct stat info;
    if (w->at >= 0) close(w->at);
    w->at = fd;
    TL_TRY(tl_str_status(&w->path));
    if (fd < 0) return TLI_FAIL_SYSTEM(errno, "open", name_of(w));
    if (fstat(fd, &info) != 0) return TLI_FAIL_SYSTEM(errno, "look at", name_of(w));
    w->shared =
        S_ISDIR(info.st_mode) && info.st_mode & (S_IWOTH | S_IWGRP) && info.st_mode & S_ISVTX;
    return check_place(fd, &info, name_of(w));
}

static tl_status step_to_root(walk *w)
{
    tl_str_cut(&w->path, 0);
    return step_into(w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

static tl_status step_up(walk *w)
{
    const char *slash = strrchr(tl_str_text(&w->path), '/');
    if (!slash) return TL_OK; // above the root is the root
    tl_str_cut(&w->path, (size_t)(slash - w->path.data));
    return step_into(w, openat(w->at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* What the link says comes before what is left. */
static tl_status follow(walk *w, int link, const char *path)
{
    char target[4096];
    ssize_t length = readlinkat(link, "", target, sizeof target - 1);
    if (length <= 0) return TLI_FAIL_SYSTEM(length ? errno : ENOENT, "read the link", path);
    if (length >= (ssize_t)sizeof target - 1 || ++w->links > MOST_LINKS)
        return TLI_FAIL_SYSTEM(ELOOP, "follow", path);
    target[length] = '\0';
    tl_str rest = TL_STR_INIT;
    tl_str_addf(&rest, "%s%s%s", target, w->rest.length ? "/" : "", tl_str_text(&w->rest));
    tl_str_deinit(&w->rest);
    w->rest = rest;
    TL_TRY(tl_str_status(&w->rest));
    return target[0] == '/' ? step_to_root(w) : TL_OK;
}

/* Opened anew to be read, and checked anew: this is what the caller gets. */
static tl_status take_file(walk *w, const char *name, const char *path)
{
    struct stat info;
    w->file = openat(w->at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (w->file < 0) return TLI_FAIL_SYSTEM(errno, "open", path);
    if (fstat(w->file, &info) != 0) return TLI_FAIL_SYSTEM(errno, "look at", path);
    if (!S_ISREG(info.st_mode)) return TL_FAIL(TL_EINVAL, "'%s' is not a file", path);
    TL_TRY(check_place(w->file, &info, path));
    tl_str_addf(&w->path, "/%s", name);
    return tl_str_status(&w->path);
}

/* `last`: nothing comes behind it, and no slash that would ask for a folder. */
static tl_status enter(walk *w, const char *name, const char *path, bool last)
{
    struct stat info;
    int fd = openat(w->at, name, PLACE);
    if (fd < 0 && errno == ENOENT && w->make) {
        if (mkdirat(w->at, name, 0700) != 0 && errno != EEXIST)
            return TLI_FAIL_SYSTEM(errno, "make the folder", path);
        fd = openat(w->at, name, PLACE);
    }
    if (fd < 0) return TLI_FAIL_SYSTEM(errno, "open", path);
    tl_status st = fstat(fd, &info) == 0 ? TL_OK : TLI_FAIL_SYSTEM(errno, "look at", path);
    if (st == TL_OK && S_ISDIR(info.st_mode)) {
        tl_str_addf(&w->path, "/%s", name);
        return step_into(w, fd);
    }
    if (st == TL_OK && S_ISLNK(info.st_mode)) {
        st = check_place(fd, &info, path);
        if (st == TL_OK) st = follow(w, fd, path);
    } else if (st == TL_OK && w->want_file && last) {
        st = S_ISREG(info.st_mode) ? take_file(w, name, path)
                                   : TL_FAIL(TL_EINVAL, "'%s' is not a file", path);
    } else if (st == TL_OK) {
        st = TLI_FAIL_SYSTEM(ENOTDIR, "open", path);
    }
    close(fd);
    return st;
}

static tl_status step(walk *w, const char *name, bool last)
{
    if (!*name || strcmp(name, ".") == 0) return TL_OK;
    if (strcmp(name, "..") == 0) return step_up(w);
    tl_str path = TL_STR_INIT;
    tl_str_addf(&path, "%s/%s", tl_str_text(&w->path), name);
    tl_status st = tl_str_status(&path);
    if (st == TL_OK) st = enter(w, name, tl_str_text(&path), last);
    tl_str_deinit(&path);
    return st;
}

/* Takes the next name off what is left, and goes there. */
static tl_status step_on(walk *w)
{
    char name[256];
    const char *rest = tl_str_text(&w->rest);
    size_t length = strcspn(rest, "/");
    bool last = rest[length] == '\0';
    if (length >= sizeof name) return TLI_FAIL_SYSTEM(ENAMETOOLONG, "open", rest);
    memcpy(name, rest, length);
    name[length] = '\0';
    tl_str left = TL_STR_INIT;
    if (!last) tl_str_add(&left, rest + length + 1);
    tl_str_deinit(&w->rest);
    w->rest = left;
    TL_TRY(tl_str_status(&left));
    return step(w, name, last);
}

static tl_status begin(walk *w, const char *path)
{
    if (!*path) return TLI_FAIL_SYSTEM(ENOENT, "open", path);
    if (*path != '/') {
        char *here = getcwd(NULL, 0);
        if (!here) return TLI_FAIL_SYSTEM(errno, "find the current folder for", path);
        tl_str_addf(&w->rest, "%s/", here);
        free(here);
    }
    tl_str_add(&w->rest, path);
    TL_TRY(tl_str_status(&w->rest));
    return step_to_root(w);
}

/* Leaves `at` or `file` open where it ended. */
static tl_status go(walk *w, const char *path)
{
    TL_TRY(begin(w, path));
    while (w->rest.length && w->file < 0) TL_TRY(step_on(w));
    if (w->want_file && w->file < 0) return TL_FAIL(TL_EINVAL, "'%s' is not a file", name_of(w));
    if (!w->path.length) tl_str_add(&w->path, "/");
    return tl_str_status(&w->path);
}

static void end(walk *w)
{
    if (w->at >= 0) close(w->at);
    if (w->file >= 0) close(w->file);
    tl_str_deinit(&w->path);
    tl_str_deinit(&w->rest);
}

/* --- what callers want ------------------------------------------------------------------------ */

/* A place is nothing that can be listed or locked. */
static tl_status open_folder(tli_trusted *out, walk *w)
{
    out->fd = openat(w->at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (out->fd < 0) return TLI_FAIL_SYSTEM(errno, "open", name_of(w));
    out->path = w->path;
    w->path = (tl_str)TL_STR_INIT;
    return TL_OK;
}

static tl_status check_own(const walk *w)
{
    struct stat info;
    if (fstat(w->at, &info) != 0) return TLI_FAIL_SYSTEM(errno, "look at", name_of(w));
    if (info.st_uid != geteuid())
        return TL_FAIL(TL_EUNSUPPORTED, "'%s' belongs to user %u, not to you (user %u)", name_of(w),
                       (unsigned)info.st_uid, (unsigned)geteuid());
    return check_writers(w->at, &info, name_of(w), false);
}

tl_status tli_trust_own_folder(tli_trusted *out, const char *path, bool make)
{
    walk w = {.at = -1, .file = -1, .make = make};
    *out = (tli_trusted)TLI_TRUSTED_INIT;
    tl_status st = go(&w, path);
    if (st == TL_OK) st = check_own(&w);
    if (st == TL_OK) st = open_folder(out, &w);
    end(&w);
    return st;
}

tl_status tli_trust_folder(tli_trusted *out, const char *path)
{
    walk w = {.at = -1, .file = -1};
    *out = (tli_trusted)TLI_TRUSTED_INIT;
    tl_status st = go(&w, path);
    if (st == TL_OK) st = open_folder(out, &w);
    end(&w);
    return st;
}

tl_status tli_trust_file(tli_trusted *out, const char *path)
{
    walk w = {.at = -1, .file = -1, .want_file = true};
    *out = (tli_trusted)TLI_TRUSTED_INIT;
    tl_status st = go(&w, path);
    if (st == TL_OK) {
        *out = (tli_trusted){.fd = w.file, .folder = w.at, .shared = w.shared, .path = w.path};
        w.file = w.at = -1;
        w.path = (tl_str)TL_STR_INIT;
    }
    end(&w);
    return st;
}

void tli_trusted_deinit(tli_trusted *t)
{
    if (t->fd >= 0) close(t->fd);
    if (t->folder >= 0) close(t->folder);
    tl_str_deinit(&t->path);
    *t = (tli_trusted)TLI_TRUSTED_INIT;
}
