#include "base/inner/code_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tilth/base/clock.h>
#include <tilth/base/crc32c.h>
#include <tilth/base/map.h>

#include "base/inner/code.h"
#include "base/inner/file_io.h"

/* --- names ------------------------------------------------------------------------------------ */

tli_code_key tli_code_key_of(const char *identity, const char *source)
{
    size_t size = strlen(source);
    tli_code_key key = {.identity = identity, .source_size = size};
    uint64_t hash = tl_hash_bytes(tl_hash_string(TL_HASH_SEED, identity), source, size);
    snprintf(key.name, sizeof key.name, "%016llx", (unsigned long long)hash);
    key.source_crc = tl_crc32c(0, source, size);
    TL_ASSERT(tli_code_is_key(key.name));
    return key;
}

bool tli_code_is_key(const char *name)
{
    return strlen(name) == TLI_CODE_KEY && strspn(name, "0123456789abcdef") == TLI_CODE_KEY;
}

/* --- looking at an entry ---------------------------------------------------------------------- */

enum { SUM_TEXT = TLI_CODE_IDENTITY + 256, OPENING = O_RDONLY | O_NOFOLLOW | O_CLOEXEC };
_Static_assert(TLI_CODE_TEMP > TLI_CODE_KEY + sizeof ".tmp-.old"
                   && TLI_CODE_TEMP > TLI_CODE_KEY + sizeof ".lock-",
               "names beside an entry hold its key");

static int open_entry(const tli_code_cache *c, const char *name)
{
    return openat(c->fd, name, OPENING | O_DIRECTORY);
}

/* What k.sum must say, in full; the object's part is found out by reading it. */
static size_t print_sums(char out[SUM_TEXT], const tli_code_key *key, size_t size, uint32_t crc)
{
    int length =
        snprintf(out, SUM_TEXT, "%ssource %zu bytes, crc32c %08x\nobject %zu bytes, crc32c %08x\n",
                 key->identity, key->source_size, (unsigned)key->source_crc, size, (unsigned)crc);
    TL_ASSERT(length > 0 && length < SUM_TEXT);
    return (size_t)length;
}

static bool is_private(const struct stat *info, const char *name, char reason[TLI_CODE_REASON])
{
    if (info->st_uid != geteuid())
        snprintf(reason, TLI_CODE_REASON, "%s belongs to user %u", name, (unsigned)info->st_uid);
    else if (info->st_mode & (S_IWGRP | S_IWOTH))
        snprintf(reason, TLI_CODE_REASON, "others may write to %s", name);
    else return true;
    return false;
}

/* A file of the entry, if it is one that only this user can have written. A link is none. */
static int open_member(int entry, const char *name, char reason[TLI_CODE_REASON])
{
    struct stat info;
    int fd = openat(entry, name, OPENING | O_NONBLOCK);
    if (fd < 0) {
        char text[128];
        snprintf(reason, TLI_CODE_REASON, "%s cannot be opened: %s", name,
                 strerror_r(errno, text, sizeof text));
        return -1;
    }
    bool fine = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    if (!fine) snprintf(reason, TLI_CODE_REASON, "%s is not a file", name);
    if (fine && is_private(&info, name, reason)) return fd;
    close(fd);
    return -1;
}

static ssize_t read_some(int fd, void *data, size_t size)
{
    ssize_t got;
    do got = read(fd, data, size);
    while (got < 0 && errno == EINTR);
    return got;
}

/* Read and not mapped: a file that is cut short meanwhile must not end the process. */
static bool sum_file(int fd, size_t *size, uint32_t *crc)
{
    char block[32 << 10];
    ssize_t got;
    *size = 0;
    *crc = 0;
    while ((got = read_some(fd, block, sizeof block)) > 0) {
        *size += (size_t)got;
        *crc = tl_crc32c(*crc, block, (size_t)got);
    }
    return got == 0;
}

/* The open file, or -1. */
static int sum_member(int entry, const char *name, size_t *size, uint32_t *crc,
                      char reason[TLI_CODE_REASON])
{
    int fd = open_member(entry, name, reason);
    if (fd < 0 || sum_file(fd, size, crc)) return fd;
    close(fd);
    snprintf(reason, TLI_CODE_REASON, "%s cannot be read", name);
    return -1;
}

static bool check_sums(int entry, const tli_code_cache *c, const tli_code_key *key, size_t size,
                       uint32_t crc, char reason[TLI_CODE_REASON])
{
    char wanted[SUM_TEXT], found[SUM_TEXT];
    size_t length = print_sums(wanted, key, size, crc), have = 0;
    int fd = open_member(entry, "k.sum", reason);
    if (fd < 0) return false;
    ssize_t got;
    while ((got = read_some(fd, found + have, sizeof found - have)) > 0) have += (size_t)got;
    close(fd);
    if (got == 0 && have == length && memcmp(wanted, found, length) == 0) return true;
    snprintf(reason, TLI_CODE_REASON, "%s does not match its checksum in k.sum", c->object);
    return false;
}

static bool check_source(int entry, const tli_code_cache *c, const tli_code_key *key,
                         char reason[TLI_CODE_REASON])
{
    size_t size;
    uint32_t crc;
    int fd = sum_member(entry, c->source, &size, &crc, reason);
    if (fd < 0) return false;
    close(fd);
    if (size == key->source_size && crc == key->source_crc) return true;
    snprintf(reason, TLI_CODE_REASON, "%s is not the source that is wanted", c->source);
    return false;
}

/* The object, open, or -1. */
static int open_object(int entry, const tli_code_cache *c, const tli_code_key *key,
                       char reason[TLI_CODE_REASON])
{
    struct stat info;
    size_t size;
    uint32_t crc;
    if (fstat(entry, &info) != 0 || !is_private(&info, "its folder", reason)) return -1;
    if (!check_source(entry, c, key, reason)) return -1;
    int fd = sum_member(entry, c->object, &size, &crc, reason);
    if (fd < 0 || check_sums(entry, c, key, size, crc, reason)) return fd;
    close(fd);
    return -1;
}

tli_code_entry tli_code_entry_open(int *object, const tli_code_cache *c, const tli_code_key *key,
                                   char reason[TLI_CODE_REASON])
{
    *object = -1;
    int entry = c->in_memory ? -1 : open_entry(c, key->name);
    if (c->in_memory || (entry < 0 && errno == ENOENT)) return TLI_ENTRY_ABSENT;
    if (entry < 0) {
        snprintf(reason, TLI_CODE_REASON, "it is no folder that can be opened");
        return TLI_ENTRY_BAD;
    }
    *object = open_object(entry, c, key, reason);
    bool good = *object >= 0;
    struct stat info;
    // One that was taken away while it was looked at is not bad.
    bool gone = !good && fstat(entry, &info) == 0 && info.st_nlink == 0;
    bool moved = !good && faccessat(c->fd, key->name, F_OK, 0) != 0;
    close(entry);
    return good ? TLI_ENTRY_GOOD : gone || moved ? TLI_ENTRY_ABSENT : TLI_ENTRY_BAD;
}

tli_code_entry tli_code_entry_check(const tli_code_cache *c, const tli_code_key *key,
                                    char reason[TLI_CODE_REASON])
{
    int object;
    tli_code_entry entry = tli_code_entry_open(&object, c, key, reason);
    if (object >= 0) close(object);
    return entry;
}

void tli_code_entry_touch(const tli_code_cache *c, const tli_code_key *key)
{
    char path[TLI_CODE_KEY + 8];
    TL_ASSERT(tli_code_is_key(key->name) && !c->in_memory);
    snprintf(path, sizeof path, "%s/k.sum", key->name);
    (void)utimensat(c->fd, path, NULL, 0); // a time that stays old only makes it go earlier
}

/* --- making an entry -------------------------------------------------------------------------- */

static tl_status refuse(const tli_code_cache *c, const char *verb, int error)
{
    char reason[128];
    return TL_FAIL(TL_EUNSUPPORTED,
                   "the cache for compiled code: cannot %s in '%s': %s; make room there, or set "
                   "TILTH_CACHE_DIR to another folder",
                   verb, c->path, strerror_r(error, reason, sizeof reason));
}

/* Not synced: what a crash of the machine leaves does not match its checksum. 0, or the errno. */
static int write_member(int folder, const char *name, const char *data, size_t size)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return errno;
    struct iovec piece = tli_piece(data, size);
    int error = tli_write_all(fd, &piece, 1);
    if (close(fd) != 0 && errno != EINTR && !error) error = errno;
    return error;
}

static void print_temp_name(char name[TLI_CODE_TEMP])
{
    static uint64_t counter; // with the time, unlikely to be taken; whether it is, mkdir says
    uint64_t parts[] = {(uint64_t)tl_clock_ns(), (uint64_t)getpid(),
                        __atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED)};
    snprintf(name, TLI_CODE_TEMP, ".tmp-%016llx",
             (unsigned long long)tl_hash_bytes(TL_HASH_SEED, parts, sizeof parts));
}

tl_status tli_code_temp_new(char name[TLI_CODE_TEMP], const tli_code_cache *c, const char *source)
{
    enum { TRIES = 100 };
    int error = EEXIST;
    for (int i = 0; i < TRIES && error == EEXIST; i++) {
        print_temp_name(name);
        error = mkdirat(c->fd, name, 0700) == 0 ? 0 : errno;
    }
    if (error) {
        name[0] = '\0';
        return refuse(c, "make a folder", error);
    }
    int folder = open_entry(c, name);
    error = folder < 0 ? errno : write_member(folder, c->source, source, strlen(source));
    if (folder >= 0) close(folder);
    if (!error) return TL_OK;
    tli_code_cache_remove(c, name);
    name[0] = '\0';
    return refuse(c, "write a file", error);
}

tl_status tli_code_temp_write(const char *name, const tli_code_cache *c, const void *object,
                              size_t size)
{
    int folder = open_entry(c, name);
    int error = folder < 0 ? errno : write_member(folder, c->object, object, size);
    if (folder >= 0) close(folder);
    return error ? refuse(c, "write a file", error) : TL_OK;
}

tl_status tli_code_temp_take(int *object, const char *name, const tli_code_cache *c)
{
    *object = -1;
    int folder = open_entry(c, name);
    int made = folder < 0 ? -1 : openat(folder, c->object, OPENING);
    int error = errno;
    if (folder >= 0) close(folder);
    if (made < 0) return refuse(c, "open what was compiled", error);
    tl_status st = tli_code_copy(object, made);
    close(made);
    return st == TL_OK || st == TL_ENOMEM ? st : TL_FAIL(TL_EUNSUPPORTED, "%s", tl_error_message());
}

/* The compiler left the object with the mode of the umask, which may let others write. */
static int seal(int folder, const tli_code_cache *c, const tli_code_key *key)
{
    char text[SUM_TEXT];
    size_t size;
    uint32_t crc;
    int fd = openat(folder, c->object, OPENING);
    if (fd < 0) return errno;
    int error = fchmod(fd, 0600) == 0 ? 0 : errno;
    if (!error && !sum_file(fd, &size, &crc)) error = EIO;
    close(fd);
    if (error) return error;
    size_t length = print_sums(text, key, size, crc);
    return write_member(folder, "k.sum", text, length);
}

/* Moves what stands where the entry belongs to a name of its own, and removes it there. */
static void make_way(const tli_code_cache *c, const tli_code_key *key)
{
    char away[TLI_CODE_TEMP];
    print_temp_name(away);
    // No reader takes it for an entry.
    TL_ASSERT(strlen(away) < TLI_CODE_TEMP && !tli_code_is_key(away));
    if (renameat(c->fd, key->name, c->fd, away) == 0) tli_code_cache_remove(c, away);
}

static bool is_taken(int error)
{
    return error == EEXIST || error == ENOTEMPTY || error == ENOTDIR;
}

tl_status tli_code_temp_publish(char name[TLI_CODE_TEMP], const tli_code_cache *c,
                                const tli_code_key *key, bool force)
{
    enum { TRIES = 10 };
    char reason[TLI_CODE_REASON];
    int folder = open_entry(c, name);
    int error = folder < 0 ? errno : seal(folder, c, key);
    TL_ASSERT(name[0] && !c->in_memory);
    if (folder >= 0) close(folder);
    if (error) return refuse(c, "write a file", error);
    error = EEXIST;
    for (int i = 0; i < TRIES && is_taken(error); i++) {
        error = renameat(c->fd, name, c->fd, key->name) == 0 ? 0 : errno;
        if (!is_taken(error)) break;
        if (!force && tli_code_entry_check(c, key, reason) == TLI_ENTRY_GOOD) {
            tli_code_cache_remove(c, name); // another process made the same
            error = 0;
            break;
        }
        make_way(c, key);
    }
    if (error) return refuse(c, "put an entry in place", error);
    name[0] = '\0';
    return TL_OK;
}

/* --- locks ------------------------------------------------------------------------------------ */

static void print_lock_name(char name[TLI_CODE_TEMP], const tli_code_key *key)
{
    snprintf(name, TLI_CODE_TEMP, ".lock-%s", key->name);
}

int tli_code_entry_lock(const tli_code_cache *c, const tli_code_key *key)
{
    const int64_t pause = 3000000, longest = 60000000000;
    char name[TLI_CODE_TEMP];
    if (c->in_memory) return -1;
    print_lock_name(name, key);
    int fd = openat(c->fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return -1;
    for (int64_t begin = tl_clock_ns(); tl_clock_ns() - begin < longest;) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
        if (errno != EWOULDBLOCK && errno != EINTR) break; // a file system without locks
        tl_sleep_ns(pause);
    }
    close(fd);
    return -1;
}

/* Who waits for the file that is removed here finds the entry when his turn comes. */
void tli_code_entry_unlock(const tli_code_cache *c, const tli_code_key *key, int lock)
{
    char name[TLI_CODE_TEMP];
    if (lock < 0) return;
    TL_ASSERT(!c->in_memory);
    print_lock_name(name, key);
    (void)unlinkat(c->fd, name, 0);
    close(lock);
}
