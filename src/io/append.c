#include "io/inner/append.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/log.h>
#include <tilth/base/vec.h>

#include "base/inner/file_io.h"
#include "base/inner/folder.h"

enum { WAITING_USUALLY = 1 << 16, WAITING_MOST = 8 << 20 };
#define SYNC_EVERY_NS INT64_C(1000000000)

struct tli_append {
    char *path;
    int fd;
    tl_str waiting;
    struct {
        size_t *items;
        int64_t count, capacity;
    } lengths;      /* of the records in it */
    int64_t lost;   /* records that were dropped since something could be written */
    int64_t synced; /* when, on the clock of tl_clock_ns */
    bool unsynced;  /* something was handed to the system since */
};

tl_status tli_append_open(tli_append **out, const char *path, bool fresh, bool lock)
{
    *out = NULL;
    tli_append *a = tl_alloc_zero(sizeof *a);
    if (!a) return TL_FAIL_NOMEM(sizeof *a);
    tl_status st;
    struct stat info;
    a->fd = -1;
    a->path = tl_strdup(path);
    a->synced = tl_clock_ns();
    st = a->path ? tli_open_own(&a->fd, &info, path, &(tli_open_args){.fresh = fresh})
                 : TL_FAIL_NOMEM(strlen(path) + 1);
    if (st != TL_OK) {
        (void)tli_append_close(&a);
        return st;
    }
    // File systems without locks have no way to say that it is in use; nothing else depends on it.
    if (lock) (void)flock(a->fd, LOCK_EX | LOCK_NB);
    *out = a;
    return TL_OK;
}

tl_status tli_append_close(tli_append **append)
{
    tli_append *a = *append;
    if (!a) return TL_OK;
    tl_status st = a->fd >= 0 ? tli_append_sync(a, false) : TL_OK;
    if (a->fd >= 0 && close(a->fd) != 0 && errno != EINTR && st == TL_OK)
        st = TLI_FAIL_SYSTEM(errno, "close", a->path);
    tl_str_deinit(&a->waiting);
    TL_VEC_FREE(&a->lengths);
    tl_free(a->path);
    tl_free(a);
    *append = NULL;
    return st;
}

const char *tli_append_path(const tli_append *a)
{
    return a->path;
}

/* A disk may be full for long, and what waits for it must not fill the memory. Half of it goes at a
 * time; the newest record stays, however long it is. */
static void drop_oldest(tli_append *a)
{
    size_t bytes = 0;
    int64_t count = 0;
    while (count < a->lengths.count - 1 && a->waiting.length - bytes > WAITING_MOST / 2)
        bytes += a->lengths.items[count++];
    if (!a->lost && count)
        TL_LOG_WARNING("'%s' cannot be written: more than %d MiB wait for it, and the oldest "
                       "records are dropped",
                       a->path, WAITING_MOST >> 20);
    a->lost += count;
    a->lengths.count -= count;
    memmove(a->lengths.items, a->lengths.items + count,
            (size_t)a->lengths.count * sizeof *a->lengths.items);
    memmove(a->waiting.data, a->waiting.data + bytes, a->waiting.length - bytes);
    tl_str_cut(&a->waiting, a->waiting.length - bytes);
}

tl_status tli_append_record(tli_append *a, const void *data, size_t size)
{
    size_t before = a->waiting.length;
    if (!TL_VEC_PUSH(&a->lengths, size)) return TL_ENOMEM;
    tl_str_addn(&a->waiting, data, size);
    if (a->waiting.failed) {
        a->waiting.failed = false; // what waited before is still whole
        tl_str_cut(&a->waiting, before);
        a->lengths.count--;
        return TL_FAIL_NOMEM(before + size);
    }
    if (a->waiting.length < WAITING_USUALLY) return TL_OK;
    tl_status st = tli_append_flush(a);
    if (st != TL_OK && a->waiting.length > WAITING_MOST) drop_oldest(a);
    return st;
}

/* Half a record would hide those that come after it. What others have added in the meantime is not
 * ours to cut. */
static tl_status take_back(const tli_append *a, off_t before, size_t written)
{
    struct stat now;
    if (before < 0 || !written || fstat(a->fd, &now) != 0 || now.st_size != before + (off_t)written)
        return TL_OK;
    return ftruncate(a->fd, before) == 0 ? TL_OK : TLI_FAIL_SYSTEM(errno, "shorten", a->path);
}

tl_status tli_append_flush(tli_append *a)
{
    if (!a->waiting.length) return TL_OK;
    struct iovec piece = tli_piece(a->waiting.data, a->waiting.length);
    off_t before = lseek(a->fd, 0, SEEK_END);
    int error = tli_write_all(a->fd, &piece, 1);
    if (error) {
        TL_TRY(take_back(a, before, a->waiting.length - piece.iov_len));
        return TLI_FAIL_SYSTEM(error, "write", a->path);
    }
    a->unsynced = true;
    tl_str_cut(&a->waiting, 0);
    a->lengths.count = 0;
    if (a->lost)
        TL_LOG_WARNING("'%s' is written again; %" PRId64 " of its records are lost", a->path,
                       a->lost);
    a->lost = 0;
    return TL_OK;
}

tl_status tli_append_sync(tli_append *a, bool rarely)
{
    TL_TRY(tli_append_flush(a));
    int64_t now = tl_clock_ns();
    if (!a->unsynced || (rarely && now - a->synced < SYNC_EVERY_NS)) return TL_OK;
    int result;
    do result = fdatasync(a->fd);
    while (result != 0 && errno == EINTR);
    if (result != 0 && errno != EINVAL) return TLI_FAIL_SYSTEM(errno, "sync", a->path);
    a->synced = now;
    a->unsynced = false;
    return TL_OK;
}

bool tli_append_is_locked(const char *path)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return false;
    bool locked = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return locked;
}
