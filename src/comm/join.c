#include "comm/control.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <tilth/base/clock.h>
#include <tilth/comm/shm.h>

#include "base/inner/sha256.h"

/* Ranks of one machine that no launcher of ours has started. They meet at a socket in a folder that
 * only their user can enter; its name follows from what they have in common. */

#define SECOND INT64_C(1000000000)
enum { HELLO_BYTES = 64, PATH_BYTES = 108, VISITORS = 64 };

/* --- the place -------------------------------------------------------------------------------- */

static tl_status own_folder(const char *path)
{
    struct stat st;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return TL_FAIL(TL_EIO, "'%s', where processes meet: %s", path, strerror(errno));
    if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid()
        || (st.st_mode & 077))
        return TL_FAIL(TL_EIO,
                       "'%s', where processes meet: expected a folder of this user that nobody "
                       "else can enter (mode 0700)",
                       path);
    return TL_OK;
}

static tl_status meeting_place(struct sockaddr_un *out, const tl_who *who)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char folder[PATH_BYTES], name[TLI_SHA256_TEXT], key[TL_WHO_KEY + 32];
    bool given = runtime && *runtime == '/' && strlen(runtime) < 60;
    snprintf(folder, sizeof folder, "%s/tilth-%ld", given ? runtime : "/tmp", (long)geteuid());
    TL_TRY(own_folder(folder));
    snprintf(key, sizeof key, "%s %" PRId32, who->key, who->size);
    tli_sha256_text(name, key, strlen(key));
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (snprintf(out->sun_path, sizeof out->sun_path, "%.80s/join-%.16s", folder, name)
        >= (int)sizeof out->sun_path)
        return TL_FAIL(TL_EIO, "'%s', where processes meet, is too long a path", folder);
    return TL_OK;
}

static bool is_own_user(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

static bool wait_for(int fd, short events, int64_t end)
{
    struct pollfd p = {.fd = fd, .events = events};
    for (;;) {
        int64_t left = (end - tl_clock_ns()) / 1000000;
        int got = poll(&p, 1, left > 0 ? (int)(left < 1000 ? left : 1000) : 0);
        if (got > 0) return true;
        if (got < 0 && errno != EINTR) return false;
        if (left <= 0) return false;
    }
}

/* --- descriptors over a socket ---------------------------------------------------------------- */

static bool give_files(int fd, const int *files, int32_t count)
{
    char room[CMSG_SPACE(sizeof(int) * (1 + TL_COMM_SHM_RANKS))] = {0}, byte = 1;
    size_t bytes = sizeof(int) * (size_t)count;
    struct iovec data = {&byte, 1};
    struct msghdr m = {.msg_iov = &data,
                       .msg_iovlen = 1,
                       .msg_control = room,
                       .msg_controllen = CMSG_SPACE(bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(c), files, bytes);
    return sendmsg(fd, &m, MSG_NOSIGNAL) == 1;
}

static bool take_files(int fd, int *files, int32_t count)
{
    char room[CMSG_SPACE(sizeof(int) * (1 + TL_COMM_SHM_RANKS))], byte;
    struct iovec data = {&byte, 1};
    struct msghdr m = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    ssize_t got = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = got == 1 ? CMSG_FIRSTHDR(&m) : NULL;
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) return false;
    size_t bytes = c->cmsg_len - CMSG_LEN(0);
    if (bytes == sizeof(int) * (size_t)count) {
        memcpy(files, CMSG_DATA(c), bytes);
        return true;
    }
    for (size_t i = 0; i + sizeof(int) <= bytes; i += sizeof(int)) {
        int stray;
        memcpy(&stray, CMSG_DATA(c) + i, sizeof stray);
        close(stray);
    }
    return false;
}

/* --- the chief -------------------------------------------------------------------------------- */

static tl_status listen_at(int *out, const struct sockaddr_un *at)
{
    *out = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*out < 0) return TL_FAIL(TL_EIO, "a socket: %s", strerror(errno));
    if (bind(*out, (const struct sockaddr *)at, sizeof *at) < 0 && errno == EADDRINUSE) {
        int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool used = probe >= 0 && connect(probe, (const struct sockaddr *)at, sizeof *at) == 0;
        if (probe >= 0) close(probe);
        if (used)
            return TL_FAIL(TL_EEXISTS,
                           "another run's processes meet at '%s' at this moment: give "
                           "this run a port of its own",
                           at->sun_path);
        unlink(at->sun_path); // of a run that was killed
        if (bind(*out, (const struct sockaddr *)at, sizeof *at) < 0)
            return TL_FAIL(TL_EIO, "'%s': %s", at->sun_path, strerror(errno));
    }
    if (listen(*out, TL_COMM_SHM_RANKS) < 0)
        return TL_FAIL(TL_EIO, "'%s': %s", at->sun_path, strerror(errno));
    return TL_OK;
}

/* Somebody who has come, and has not said yet who it is. */
typedef struct visitor {
    int fd; /* -1: nobody */
    int64_t until;
    uint8_t bytes[HELLO_BYTES];
    size_t got;
} visitor;

typedef struct hall {
    const tl_who *who;
    const int *files;
    int *fds;
    visitor visitors[VISITORS];
} hall;

static void send_away(visitor *v)
{
    if (v->fd >= 0) close(v->fd);
    v->fd = -1;
}

/* When there are too many, the one who has stood there longest goes. */
static void let_in(hall *h, int fd)
{
    visitor *v = &h->visitors[0];
    for (int i = 1; i < VISITORS && v->fd >= 0; i++)
        if (h->visitors[i].fd < 0 || h->visitors[i].until < v->until) v = &h->visitors[i];
    send_away(v);
    *v = (visitor){.fd = fd, .until = tl_clock_ns() + 5 * SECOND};
    if (!is_own_user(fd)) send_away(v);
}

/* Who does not know how is sent away. */
static void judge(hall *h, visitor *v)
{
    tli_control_message m;
    size_t used = 0;
    const int32_t size = h->who->size;
    bool right = tli_control_read(&m, &used, v->bytes, sizeof v->bytes) == TL_OK && used
                 && m.type == TLI_CONTROL_HELLO && m.version == TLI_CONTROL_VERSION
                 && m.size == size && m.rank > 0 && m.rank < size && h->fds[m.rank] < 0
                 && give_files(v->fd, h->files, 1 + size);
    if (!right) {
        tl_error_clear();
        send_away(v);
        return;
    }
    h->fds[m.rank] = v->fd;
    v->fd = -1;
}

static void listen_to(hall *h, visitor *v)
{
    ssize_t got = recv(v->fd, v->bytes + v->got, sizeof v->bytes - v->got, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
        send_away(v);
        return;
    }
    v->got += (size_t)got;
    if (v->got == sizeof v->bytes) judge(h, v);
}

/* Who is silent holds up nobody. */
static void look_around(hall *h, int listener, int64_t end)
{
    struct pollfd polled[1 + VISITORS] = {{.fd = listener, .events = POLLIN}};
    int64_t now = tl_clock_ns(), next = end;
    for (int i = 0; i < VISITORS; i++) {
        visitor *v = &h->visitors[i];
        if (v->fd >= 0 && v->until <= now) send_away(v);
        polled[1 + i] = (struct pollfd){.fd = v->fd, .events = POLLIN};
        if (v->fd >= 0 && v->until < next) next = v->until;
    }
    const int64_t wait = next > now ? (next - now) / 1000000 + 1 : 0;
    if (poll(polled, 1 + VISITORS, (int)(wait > 1000 ? 1000 : wait)) <= 0) return;
    for (int i = 0; i < VISITORS; i++)
        if (h->visitors[i].fd >= 0 && polled[1 + i].revents) listen_to(h, &h->visitors[i]);
    int fd = polled[0].revents ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    if (fd >= 0) let_in(h, fd);
}

static int32_t lacking(char *missing, size_t room, const hall *h)
{
    size_t at = 0;
    int32_t lacks = 0;
    *missing = '\0';
    for (int32_t r = 1; r < h->who->size; r++) {
        if (h->fds[r] >= 0) continue;
        lacks++;
        if (at < room - 8) at += (size_t)snprintf(missing + at, room - at, " %" PRId32, r);
    }
    return lacks;
}

static tl_status gather_ranks(int listener, int *fds, const int *files, const tl_who *who,
                              int64_t end)
{
    char missing[128];
    int32_t lacks;
    hall h = {.who = who, .files = files, .fds = fds};
    for (int i = 0; i < VISITORS; i++) h.visitors[i].fd = -1;
    while ((lacks = lacking(missing, sizeof missing, &h)) > 0 && tl_clock_ns() < end)
        look_around(&h, listener, end);
    for (int i = 0; i < VISITORS; i++) send_away(&h.visitors[i]);
    if (!lacks) return TL_OK;
    return TL_FAIL(TL_EPEER,
                   "%" PRId32 " of %" PRId32
                   " processes have not come; those of rank%s lack: start all of them",
                   lacks, who->size, missing);
}

static tl_status lead(int *files, int *fds, const tl_who *who, const struct sockaddr_un *at,
                      int64_t end)
{
    int listener = -1;
    for (int32_t r = 0; r < who->size; r++) fds[r] = -1;
    TL_TRY(tl_comm_files_new(files, who->size));
    tl_status st = listen_at(&listener, at);
    if (st == TL_OK) {
        st = gather_ranks(listener, fds, files, who, end);
        unlink(at->sun_path);
    }
    if (listener >= 0) close(listener);
    if (st == TL_OK) return st;
    tl_comm_files_close(files, who->size);
    for (int32_t r = 0; r < who->size; r++)
        if (fds[r] >= 0) close(fds[r]);
    return st;
}

/* --- the others ------------------------------------------------------------------------------- */

static bool knock(int fd, int *files, const tl_who *who, const struct sockaddr_un *at, int64_t end)
{
    tli_control_message m = {.type = TLI_CONTROL_HELLO,
                             .version = TLI_CONTROL_VERSION,
                             .rank = who->rank,
                             .size = who->size,
                             .process = (int32_t)getpid()};
    uint8_t bytes[TLI_CONTROL_TEXT + 64];
    memset(m.text, '-', HELLO_BYTES - 24); // all are of one length
    return connect(fd, (const struct sockaddr *)at, sizeof *at) == 0 && is_own_user(fd)
           && tli_control_write(bytes, &m) == HELLO_BYTES
           && send(fd, bytes, HELLO_BYTES, MSG_NOSIGNAL) == HELLO_BYTES && wait_for(fd, POLLIN, end)
           && take_files(fd, files, 1 + who->size);
}

static tl_status come(int *files, int *fds, const tl_who *who, const struct sockaddr_un *at,
                      int64_t end)
{
    for (;;) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) return TL_FAIL(TL_EIO, "a socket: %s", strerror(errno));
        if (knock(fd, files, who, at, end)) {
            fds[0] = fd;
            return TL_OK;
        }
        close(fd);
        if (tl_clock_ns() > end)
            return TL_FAIL(TL_EPEER,
                           "rank 0 of %" PRId32
                           " processes has not come: start all of them, on this machine",
                           who->size);
        tl_sleep_ns(20000000);
    }
}

tl_status tli_join(int *files, int *fds, const tl_who *who, int64_t timeout_ns)
{
    struct sockaddr_un at;
    int64_t end = tl_clock_ns() + timeout_ns;
    if (who->size > TL_COMM_SHM_RANKS)
        return TL_FAIL(TL_EINVAL, "%" PRId32 " processes are too many for one machine: %d at most",
                       who->size, TL_COMM_SHM_RANKS);
    TL_TRY(meeting_place(&at, who));
    return who->rank == 0 ? lead(files, fds, who, &at, end) : come(files, fds, who, &at, end);
}
