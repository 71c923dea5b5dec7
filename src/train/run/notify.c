#include "train/run/notify.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/log.h>
#include <tilth/base/vec.h>

#include "base/inner/file_io.h"
#include "base/inner/process.h"
#include "base/inner/thread.h"

enum { MOST_WAITING = 256 };
int64_t tli_notify_limit_ms = 30000;

typedef struct item {
    char *event, *text;
    size_t length;
} item;

struct tli_notify {
    char *command, *model_dir;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, ending, warned;
    int64_t deadline; /* of all, once it ends; on the clock of tl_clock_ns */
    struct {
        item *items;
        int64_t count, capacity;
    } waiting;
};

static void free_item(item *i)
{
    tl_free(i->event);
    tl_free(i->text);
}

/* One that always fails should not fill the log. */
static void warn_once(tli_notify *n, const char *event, const char *what)
{
    if (n->warned) return;
    n->warned = true;
    TL_LOG_WARNING("tilth.notify: the command %s at the event '%s'; the training goes on, and this "
                   "is not said again",
                   what, event);
}

/* --- one command ------------------------------------------------------------------------------ */

/* A file without a name that holds the text: the command may read it or not. -1, with errno, when
 * there is none. */
static int input_of(const item *i)
{
    int fd = memfd_create("event", MFD_CLOEXEC);
    if (fd < 0) return -1;
    struct iovec piece = tli_piece(i->text, i->length);
    int error = tli_write_all(fd, &piece, 1);
    if (!error && lseek(fd, 0, SEEK_SET) == 0) return fd;
    close(fd);
    errno = error ? error : errno;
    return -1;
}

static int start(pid_t *pid, const tli_notify *n, const char *event, int input)
{
    tl_str name = TL_STR_INIT, folder = TL_STR_INIT;
    tl_str_addf(&name, "TILTH_EVENT=%s", event);
    tl_str_addf(&folder, "TILTH_MODEL_DIR=%s", n->model_dir);
    const char *const variables[] = {tl_str_text(&name), tl_str_text(&folder), NULL};
    const char *const argv[] = {"/bin/sh", "-c", n->command, NULL};
    int error = name.failed || folder.failed ? ENOMEM : 0;
    if (!error)
        error = tli_process_start(pid, &(tli_process_args){.program = "/bin/sh",
                                                           .argv = argv,
                                                           .variables = variables,
                                                           .input = input,
                                                           .output = -1});
    tl_str_deinit(&name);
    tl_str_deinit(&folder);
    return error;
}

static int64_t end_of_patience(tli_notify *n, int64_t begun)
{
    int64_t end = begun + tli_notify_limit_ms * 1000000;
    pthread_mutex_lock(&n->lock);
    if (n->ending && n->deadline < end) end = n->deadline;
    pthread_mutex_unlock(&n->lock);
    return end;
}

/* Its status, or -1 when it was ended since it took too long. */
static int wait_for(tli_notify *n, pid_t pid)
{
    int64_t begun = tl_clock_ns();
    long rest_ns = 500000;
    int status = 0;
    for (;;) {
        pid_t found = waitpid(pid, &status, WNOHANG);
        if (found == pid) return status;
        // the program does not want to know how its children end
        if (found < 0 && errno != EINTR) return 0;
        if (tl_clock_ns() >= end_of_patience(n, begun)) break;
        nanosleep(&(struct timespec){.tv_nsec = rest_ns}, NULL);
        if (rest_ns < 20000000) rest_ns *= 2;
    }
    kill(-pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return -1;
}

static void run_command(tli_notify *n, const item *i)
{
    char what[160];
    pid_t pid;
    int input = input_of(i), error = input < 0 ? errno : 0;
    if (!error) error = start(&pid, n, i->event, input);
    if (input >= 0) close(input);
    if (error) {
        snprintf(what, sizeof what, "could not be started (%s)", strerror(error));
        warn_once(n, i->event, what);
        return;
    }
    int status = wait_for(n, pid);
    if (status == -1) snprintf(what, sizeof what, "took too long, and was ended,");
    else if (WIFSIGNALED(status))
        snprintf(what, sizeof what, "was ended by signal %d", WTERMSIG(status));
    else snprintf(what, sizeof what, "ended with %d", WEXITSTATUS(status));
    if (status) warn_once(n, i->event, what);
}

/* --- the queue -------------------------------------------------------------------------------- */

static void drop_first(tli_notify *n, item *out)
{
    *out = n->waiting.items[0];
    n->waiting.count--;
    memmove(n->waiting.items, n->waiting.items + 1,
            (size_t)n->waiting.count * sizeof *n->waiting.items);
}

static void *work(void *payload)
{
    tli_notify *n = payload;
    item next;
    pthread_mutex_lock(&n->lock);
    for (;;) {
        while (!n->waiting.count && !n->ending) pthread_cond_wait(&n->changed, &n->lock);
        if (!n->waiting.count) break;
        drop_first(n, &next);
        bool late = n->ending && tl_clock_ns() >= n->deadline;
        pthread_mutex_unlock(&n->lock);
        if (!late) run_command(n, &next);
        else warn_once(n, next.event, "came too late and was not run");
        free_item(&next);
        pthread_mutex_lock(&n->lock);
    }
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

static bool start_thread(tli_notify *n)
{
    sigset_t mask, before;
    if (n->started) return true;
    tli_thread_mask(&mask);
    pthread_sigmask(SIG_SETMASK, &mask, &before);
    n->started = pthread_create(&n->thread, NULL, work, n) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return n->started;
}

tl_status tli_notify_new(tli_notify **out, const char *command, const char *model_dir)
{
    tli_notify *n = tl_alloc_zero(sizeof *n);
    *out = NULL;
    if (!n) return TL_FAIL_NOMEM(sizeof *n);
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->changed, NULL);
    n->command = tl_strdup(command);
    n->model_dir = tl_strdup(model_dir);
    if (!n->command || !n->model_dir) {
        tli_notify_free(&n);
        return TL_FAIL_NOMEM(strlen(command) + strlen(model_dir));
    }
    *out = n;
    return TL_OK;
}

void tli_notify_send(tli_notify *n, const char *event, const char *text, size_t length)
{
    item next = {.event = tl_strdup(event),
                 .text = tl_alloc(length ? length : 1),
                 .length = length},
         oldest;
    bool sent = false, dropped = false;
    if (next.text) memcpy(next.text, text, length);
    if (next.event && next.text && start_thread(n)) {
        pthread_mutex_lock(&n->lock);
        dropped = n->waiting.count >= MOST_WAITING;
        if (dropped) drop_first(n, &oldest);
        sent = TL_VEC_PUSH(&n->waiting, next);
        pthread_cond_signal(&n->changed);
        pthread_mutex_unlock(&n->lock);
    }
    if (dropped) free_item(&oldest);
    if (sent && !dropped) return;
    if (!sent) free_item(&next);
    TL_LOG_ONCE(TL_LEVEL_WARNING, "tilth.notify: events come faster than the command takes them, "
                                  "or there is no memory; some are left out");
}

void tli_notify_free(tli_notify **notify)
{
    tli_notify *n = *notify;
    if (!n) return;
    if (n->started) {
        pthread_mutex_lock(&n->lock);
        n->deadline = tl_clock_ns() + tli_notify_limit_ms * 1000000;
        n->ending = true;
        pthread_cond_signal(&n->changed);
        pthread_mutex_unlock(&n->lock);
        pthread_join(n->thread, NULL);
    }
    pthread_cond_destroy(&n->changed);
    pthread_mutex_destroy(&n->lock);
    for (int64_t i = 0; i < n->waiting.count; i++) free_item(&n->waiting.items[i]);
    TL_VEC_FREE(&n->waiting);
    tl_free(n->command);
    tl_free(n->model_dir);
    tl_free(n);
    *notify = NULL;
}
