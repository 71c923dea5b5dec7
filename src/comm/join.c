#include "comm/control.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
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
#include "comm/hall.h"

/* Ranks of one machine that no launcher of ours has started. They meet at a socket in a folder that
 * only their user can enter; its name follows from what they have in common. */

enum { HELLO_BYTES = 64, PATH_BYTES = 108 };

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
        int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        bool used = probe >= 0
                    && (connect(probe, (const struct sockaddr *)at, sizeof *at) == 0
                        || errno == EAGAIN); // so many wait there
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

/* Whom the chief waits for, and what it gives them. */
typedef struct gathering {
    const tl_who *who;
    const int *files;
    int *fds;
} gathering;

static bool ask(void *self, tli_stranger *s)
{
    (void)self;
    return is_own_user(s->fd);
}

/* Who does not know how is sent away. */
static bool admit(void *self, const tli_stranger *s)
{
    const gathering *g = self;
    const int32_t size = g->who->size;
    tli_control_message m;
    size_t used = 0;
    if (tli_control_read(&m, &used, s->said, s->got) != TL_OK) {
        tl_error_clear();
        return false;
    }
    if (!used || m.type != TLI_CONTROL_HELLO || m.version != TLI_CONTROL_VERSION || m.size != size
        || m.rank <= 0 || m.rank >= size || g->fds[m.rank] >= 0
        || !give_files(s->fd, g->files, 1 + size))
        return false;
    g->fds[m.rank] = s->fd;
    return true;
}

static int32_t lacking(char *missing, size_t room, const gathering *g)
{
    size_t at = 0;
    int32_t lacks = 0;
    *missing = '\0';
    for (int32_t r = 1; r < g->who->size; r++) {
        if (g->fds[r] >= 0) continue;
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
    gathering g = {who, files, fds};
    tli_hall h;
    tli_hall_open(&h,
                  &(tli_hall_args){.bytes = HELLO_BYTES, .ask = ask, .admit = admit, .self = &g});
    while ((lacks = lacking(missing, sizeof missing, &g)) > 0 && tl_clock_ns() < end)
        tli_hall_look(&h, listener, end);
    tli_hall_close(&h);
    if (!lacks) return TL_OK;
    return TL_FAIL(TL_EPEER,
                   "%" PRId32 " of %" PRId32
                   " processes have not come; those of rank%s lack: start all of them",
                   lacks, who->size, missing);
}

/* --- interruptions ---------------------------------------------------------------------------- */

/* Who is ended by a signal while others are awaited takes the socket away before that. */
static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
static char left_behind[PATH_BYTES];

static void take_away(int number)
{
    unlink(left_behind);
    raise(number); // its usual effect is back (SA_RESETHAND), once this returns
}

/* Until pthread_sigmask brings back what was before: the socket's file and its guard begin and end
 * together. The threads that we start take no signals. */
static void hold_signals(sigset_t *before)
{
    sigset_t held;
    sigemptyset(&held);
    for (int64_t i = 0; i < TL_COUNT(ends); i++) sigaddset(&held, ends[i]);
    pthread_sigmask(SIG_BLOCK, &held, before);
}

/* Signals that somebody handles stay theirs. */
static void begin_guard(bool guarded[], const char *path)
{
    struct sigaction now, ours = {.sa_handler = take_away, .sa_flags = SA_RESETHAND};
    snprintf(left_behind, sizeof left_behind, "%s", path);
    sigemptyset(&ours.sa_mask);
    for (int64_t i = 0; i < TL_COUNT(ends); i++)
        guarded[i] = sigaction(ends[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL
                     && sigaction(ends[i], &ours, NULL) == 0;
}

static void end_guard(const bool guarded[])
{
    for (int64_t i = 0; i < TL_COUNT(ends); i++)
        if (guarded[i]) signal(ends[i], SIG_DFL);
}

static tl_status open_place(int *listener, bool guarded[], const struct sockaddr_un *at)
{
    sigset_t before;
    hold_signals(&before);
    tl_status st = listen_at(listener, at);
    if (st == TL_OK) begin_guard(guarded, at->sun_path);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return st;
}

static void close_place(const bool guarded[], const struct sockaddr_un *at)
{
    sigset_t before;
    hold_signals(&before);
    unlink(at->sun_path);
    end_guard(guarded);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static tl_status lead(int *files, int *fds, const tl_who *who, const struct sockaddr_un *at,
                      int64_t end)
{
    int listener = -1;
    bool guarded[TL_COUNT(ends)];
    for (int32_t r = 0; r < who->size; r++) fds[r] = -1;
    TL_TRY(tl_comm_files_new(files, who->size));
    tl_status st = open_place(&listener, guarded, at);
    if (st == TL_OK) {
        st = gather_ranks(listener, fds, files, who, end);
        close_place(guarded, at);
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
           && send(fd, bytes, HELLO_BYTES, MSG_NOSIGNAL) == HELLO_BYTES
           && tli_wait_for(fd, POLLIN, end) && take_files(fd, files, 1 + who->size);
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
