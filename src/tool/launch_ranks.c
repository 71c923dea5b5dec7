#include "tool/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilth/base/clock.h>
#include <tilth/base/pool.h>
#include <tilth/comm/shm.h>

#define SECOND INT64_C(1000000000)
enum {
    STREAMS = 2, /* standard output and standard error of a rank */
    LINE = 4096,
    /* seconds that ranks get to leave by themselves when one is lost: those that are stuck, too
     * (comm/world.h) */
    PATIENCE_S = 10,
};

static const int handed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

/* What a rank writes, until its line is whole. */
typedef struct stream {
    int fd; /* -1: ours, or no more */
    char line[LINE];
    size_t length;
} stream;

typedef struct rank {
    pid_t pid;
    bool running;
    int status;
    stream streams[STREAMS];
} rank;

typedef struct ranks {
    const tli_ranks_args *args;
    rank *items;
    int32_t size, running;
    int files[1 + TL_COMM_SHM_RANKS];
    int chief[TL_COMM_SHM_RANKS], other[TL_COMM_SHM_RANKS]; /* ends of the control channel */
    char program[4096];
    const char **argv;
    int signals; /* signalfd */
    sigset_t before;
    int64_t hurry; /* when those that are left are killed; 0: never */
    tli_ranks_end *end;
} ranks;

/* --- one rank --------------------------------------------------------------------------------- */

static void add_list(tl_str *s, const int *items, int32_t count)
{
    for (int32_t i = 0; i < count; i++) tl_str_addf(s, "%s%d", i ? "," : "", items[i]);
}

/* What launch itself says: of another one's ranks it would say something else. */
static bool is_ours(const char *variable)
{
    static const char *const ours[] = {"TILTH_RANK=",       "TILTH_SIZE=",  "TILTH_LOCAL_RANK=",
                                       "TILTH_LOCAL_SIZE=", "TILTH_FILES=", "TILTH_CONTROL="};
    for (int64_t i = 0; i < TL_COUNT(ours); i++)
        if (strncmp(variable, ours[i], strlen(ours[i])) == 0) return true;
    return false;
}

/* Of the environment: who it is, and what it inherits. In the arena. */
static tl_status variables_of(const char ***out, ranks *r, int32_t number)
{
    tl_str s[7] = {TL_STR_INIT, TL_STR_INIT, TL_STR_INIT, TL_STR_INIT,
                   TL_STR_INIT, TL_STR_INIT, TL_STR_INIT};
    size_t own = 0;
    tl_status st = TL_OK;
    while (environ[own]) own++;
    const char **all = tl_arena_array(r->args->arena, (int64_t)own + 8, sizeof *all);
    int threads = tl_pool_default_threads() / (int)r->size;
    bool given = getenv("TILTH_NUM_THREADS") || getenv("OMP_NUM_THREADS");
    tl_str_addf(&s[0], "TILTH_RANK=%" PRId32, number);
    tl_str_addf(&s[1], "TILTH_SIZE=%" PRId32, r->size);
    tl_str_addf(&s[2], "TILTH_LOCAL_RANK=%" PRId32, number);
    tl_str_addf(&s[3], "TILTH_LOCAL_SIZE=%" PRId32, r->size);
    tl_str_add(&s[4], "TILTH_FILES=");
    add_list(&s[4], r->files, 1 + r->size);
    tl_str_add(&s[5], "TILTH_CONTROL=");
    if (number == 0) add_list(&s[5], r->chief, r->size);
    else add_list(&s[5], &r->other[number], 1);
    tl_str_addf(&s[6], "TILTH_NUM_THREADS=%d", threads > 1 ? threads : 1);
    size_t count = 0;
    for (size_t i = 0; all && i < own; i++)
        if (!is_ours(environ[i])) all[count++] = environ[i];
    for (int i = 0; i < 7; i++) {
        const char *text = tl_str_copy(&s[i], r->args->arena);
        if (!text) st = TL_ENOMEM;
        if (all && text && (i < 6 || !given)) all[count++] = text;
        tl_str_deinit(&s[i]);
    }
    if (!all) return TL_ENOMEM;
    all[count] = NULL;
    *out = all;
    return st;
}

/* In the child, where little may be called. */
static void become(const ranks *r, int32_t number, const char *const *environment, int out, int err)
{
    setpgid(0, 0); // signals of a terminal are for us, and are handed on
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0) dup2(null, STDIN_FILENO);
    if (out >= 0) dup2(out, STDOUT_FILENO);
    if (err >= 0) dup2(err, STDERR_FILENO);
    for (int32_t i = 0; i <= r->size; i++) fcntl(r->files[i], F_SETFD, 0);
    if (number > 0) fcntl(r->other[number], F_SETFD, 0);
    for (int32_t i = 1; number == 0 && i < r->size; i++) fcntl(r->chief[i], F_SETFD, 0);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &r->before, NULL);
    execve(r->program, (char *const *)(uintptr_t)r->argv, (char *const *)(uintptr_t)environment);
    _exit(127);
}

static tl_status start_rank(ranks *r, int32_t number)
{
    rank *k = &r->items[number];
    int pipes[STREAMS][2] = {{-1, -1}, {-1, -1}};
    const char **environment;
    for (int i = 0; i < STREAMS; i++) k->streams[i].fd = -1;
    TL_TRY(variables_of(&environment, r, number));
    for (int i = 0; number > 0 && i < STREAMS; i++) {
        if (pipe2(pipes[i], O_CLOEXEC) < 0)
            return TL_FAIL(TL_EIO, "rank %" PRId32 ": pipe: %s", number, strerror(errno));
        fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
        k->streams[i].fd = pipes[i][0];
    }
    k->pid = fork();
    if (k->pid == 0) become(r, number, environment, pipes[0][1], pipes[1][1]);
    for (int i = 0; i < STREAMS; i++)
        if (pipes[i][1] >= 0) close(pipes[i][1]);
    if (k->pid < 0)
        return TL_FAIL(TL_EIO, "rank %" PRId32 " cannot be started: %s", number, strerror(errno));
    k->running = true;
    r->running++;
    return TL_OK;
}

/* --- what they write -------------------------------------------------------------------------- */

static void write_line(const ranks *r, int32_t number, int which, const char *line, size_t length)
{
    FILE *to = which ? r->args->tool->err : r->args->tool->out;
    fprintf(to, "[%" PRId32 "] %.*s\n", number, (int)length, line);
    fflush(to);
}

static void read_stream(ranks *r, int32_t number, int which)
{
    stream *s = &r->items[number].streams[which];
    for (;;) {
        ssize_t got = read(s->fd, s->line + s->length, LINE - s->length);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (got <= 0) break;
        s->length += (size_t)got;
        size_t begin = 0;
        for (size_t i = 0; i < s->length; i++) {
            if (s->line[i] != '\n') continue;
            write_line(r, number, which, s->line + begin, i - begin);
            begin = i + 1;
        }
        if (begin == 0 && s->length == LINE) { // too long a line is cut
            write_line(r, number, which, s->line, LINE);
            begin = LINE;
        }
        memmove(s->line, s->line + begin, s->length - begin);
        s->length -= begin;
    }
    if (s->length) write_line(r, number, which, s->line, s->length);
    close(s->fd);
    s->fd = -1;
}

/* --- how they end ----------------------------------------------------------------------------- */

static void signal_all(const ranks *r, int number)
{
    for (int32_t i = 0; i < r->size; i++)
        if (r->items[i].running) kill(r->items[i].pid, number);
}

static void reap(ranks *r)
{
    for (int32_t i = 0; i < r->size; i++) {
        rank *k = &r->items[i];
        if (!k->running || waitpid(k->pid, &k->status, WNOHANG) != k->pid) continue;
        k->running = false;
        r->running--;
        bool well = WIFEXITED(k->status) && WEXITSTATUS(k->status) == 0;
        if (!well && !r->hurry) r->hurry = tl_clock_ns() + PATIENCE_S * SECOND;
        if (!WIFSIGNALED(k->status) || r->end->signal) continue;
        r->end->lost++;
        char text[128];
        snprintf(text, sizeof text, "rank %" PRId32 " (process %ld) was ended by signal %d, %s", i,
                 (long)k->pid, WTERMSIG(k->status), strsignal(WTERMSIG(k->status)));
        tli_complain(r->args->tool, "launch", text);
    }
}

static void read_signals(ranks *r)
{
    struct signalfd_siginfo info;
    while (read(r->signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD) continue;
        r->end->signal = (int)info.ssi_signo;
        signal_all(r, (int)info.ssi_signo);
    }
}

static void watch(ranks *r)
{
    struct pollfd fds[1 + STREAMS * TL_COMM_SHM_RANKS];
    bool open = true;
    while (r->running || open) {
        fds[0] = (struct pollfd){.fd = r->signals, .events = POLLIN};
        open = false;
        for (int32_t i = 0; i < r->size * STREAMS; i++) {
            int fd = r->items[i / STREAMS].streams[i % STREAMS].fd;
            fds[1 + i] = (struct pollfd){.fd = fd, .events = POLLIN};
            open = open || fd >= 0;
        }
        // What a rank has started may hold its streams open for longer than it lives.
        int got = poll(fds, 1 + (nfds_t)(r->size * STREAMS), r->running ? 200 : 0);
        read_signals(r);
        for (int32_t i = 0; got > 0 && i < r->size * STREAMS; i++)
            if (fds[1 + i].revents) read_stream(r, i / STREAMS, i % STREAMS);
        if (!r->running && got <= 0) break;
        reap(r);
        if (r->running && r->hurry && tl_clock_ns() > r->hurry) {
            signal_all(r, SIGKILL);
            r->hurry = INT64_MAX;
        }
    }
}

/* The code of the first that failed by itself; those that lost a peer come after, and stops. */
static int code_of_all(const ranks *r)
{
    int code = 0;
    for (int32_t i = 0; i < r->size; i++) {
        int status = r->items[i].status;
        int own = WIFEXITED(status) ? WEXITSTATUS(status) : TL_EXIT_PEER;
        if (WIFSIGNALED(status) && r->end->signal) own = 128 + WTERMSIG(status); // as a shell
        if (own == 0) continue;
        bool better = code == 0 || (code == TL_EXIT_PEER && own != TL_EXIT_PEER)
                      || (code == TL_EXIT_STOPPED && own != TL_EXIT_STOPPED && own != TL_EXIT_PEER);
        if (better) code = own;
    }
    if (r->end->lost && !r->end->signal) return TL_EXIT_PEER;
    return code;
}

/* --- all of them ------------------------------------------------------------------------------ */

static tl_status prepare(ranks *r)
{
    sigset_t caught;
    ssize_t length = readlink("/proc/self/exe", r->program, sizeof r->program - 1);
    if (length <= 0) return TL_FAIL(TL_EIO, "/proc/self/exe: %s", strerror(errno));
    r->program[length] = '\0';
    r->argv = tl_arena_array(r->args->arena, r->args->words.count + 2, sizeof *r->argv);
    r->items = tl_arena_array(r->args->arena, r->size, sizeof *r->items);
    if (!r->argv || !r->items) return TL_ENOMEM;
    memset(r->items, 0, (size_t)r->size * sizeof *r->items);
    r->argv[0] = r->args->tool->program;
    for (int64_t i = 0; i < r->args->words.count; i++) r->argv[1 + i] = r->args->words.items[i];
    r->argv[1 + r->args->words.count] = NULL;
    TL_TRY(tl_comm_files_new(r->files, r->size));
    for (int32_t i = 1; i < r->size; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
            return TL_FAIL(TL_EIO, "socketpair: %s", strerror(errno));
        r->chief[i] = pair[0];
        r->other[i] = pair[1];
    }
    sigemptyset(&caught);
    sigaddset(&caught, SIGCHLD);
    for (int64_t i = 0; i < TL_COUNT(handed_on); i++) sigaddset(&caught, handed_on[i]);
    sigprocmask(SIG_BLOCK, &caught, &r->before);
    r->signals = signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK);
    return r->signals < 0 ? TL_FAIL(TL_EIO, "signalfd: %s", strerror(errno)) : TL_OK;
}

static void close_ends(ranks *r)
{
    tl_comm_files_close(r->files, r->size);
    for (int32_t i = 0; i < r->size; i++) {
        if (r->chief[i] >= 0) close(r->chief[i]);
        if (r->other[i] >= 0) close(r->other[i]);
        r->chief[i] = r->other[i] = -1;
    }
}

tl_status tli_ranks_run(tli_ranks_end *out, const tli_ranks_args *args)
{
    ranks r = {.args = args, .size = args->size, .signals = -1, .end = out};
    *out = (tli_ranks_end){0};
    for (int32_t i = 0; i <= TL_COMM_SHM_RANKS; i++) r.files[i] = -1;
    for (int32_t i = 0; i < TL_COMM_SHM_RANKS; i++) r.chief[i] = r.other[i] = -1;
    sigprocmask(SIG_SETMASK, NULL, &r.before);
    tl_status st = prepare(&r);
    for (int32_t i = 0; i < r.size && st == TL_OK; i++) st = start_rank(&r, i);
    close_ends(&r);
    if (st != TL_OK && r.items) signal_all(&r, SIGKILL);
    if (r.signals >= 0) {
        watch(&r);
        close(r.signals);
    }
    sigprocmask(SIG_SETMASK, &r.before, NULL);
    if (st == TL_OK) out->code = code_of_all(&r);
    return st;
}
