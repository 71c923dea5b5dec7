#include <tilth/board/board.h>

#ifdef TLI_HAVE_MICROHTTPD

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/log.h>

#include "base/inner/thread.h"
#include "board/answer.h"
#include "board/guard.h"

/* What clients may take. A connection holds 16 KiB; those beyond the limit wait in the system's
 * queue, and those that say nothing, or read nothing, are closed. */
enum {
    MOST_CONNECTIONS = 200,
    MOST_LISTENERS = 100,
    CONNECTION_SECONDS = 30,
    CONNECTION_BYTES = 16 << 10,
    BEAT_SECONDS = 10,
    FIRST_PORT = 6006,
    PORTS_TRIED = 10
};

/* Seconds between looks, and what a page beside a training may take of one processor. */
#define LEAST_PAUSE 1.0
#define MOST_PAUSE 20.0
#define BEHIND_SHARE 0.004

/* A client that is told of changes: only which version it has seen is kept of it. */
typedef struct listener {
    struct tl_board *board;
    struct MHD_Connection *connection;
    uint64_t seen;
    double told;
    bool suspended;
    struct listener *next;
} listener;

struct tl_board {
    tli_store *store;
    struct MHD_Daemon *daemon;
    tli_guard guard;
    struct sockaddr_storage address;
    char *token, *url;
    tli_kept *kept;   /* of answers */
    bool behind;      /* everything else of the process goes first */
    clockid_t server; /* what the server's thread has taken; known with the first request */
    _Atomic(bool) served;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool started, stopping;
    tl_error failure;
    tl_status status;
    listener *listeners;
    int listener_count;
};

/* --- telling of changes ----------------------------------------------------------------------- */

static uint64_t version_of(tl_board *b)
{
    tli_store_lock(b->store);
    uint64_t version = b->store->version;
    tli_store_unlock(b->store);
    return version;
}

/* Wakes those who wait and are to be told something: that there is news, or that we are here. */
static void wake(tl_board *b)
{
    uint64_t version = version_of(b);
    double now = tli_wall_time();
    pthread_mutex_lock(&b->mutex);
    for (listener *l = b->listeners; l; l = l->next) {
        if (!l->suspended) continue;
        if (l->seen == version && now - l->told < BEAT_SECONDS && !b->stopping) continue;
        l->suspended = false;
        MHD_resume_connection(l->connection);
    }
    pthread_mutex_unlock(&b->mutex);
}

static ssize_t tell_listener(void *payload, uint64_t pos, char *out, size_t room)
{
    listener *l = payload;
    tl_board *b = l->board;
    uint64_t version = version_of(b);
    double now = tli_wall_time();
    int length = 0;
    (void)pos;
    pthread_mutex_lock(&b->mutex);
    if (b->stopping) {
        length = MHD_CONTENT_READER_END_OF_STREAM;
    } else if (version != l->seen) {
        length = snprintf(out, room, "data: %llu\n\n", (unsigned long long)version);
        l->seen = version;
        l->told = now;
    } else if (now - l->told >= BEAT_SECONDS) {
        length = snprintf(out, room, ":\n\n"); // so that clients that are gone are noticed
        l->told = now;
    } else {
        l->suspended = true;
        MHD_suspend_connection(l->connection);
    }
    pthread_mutex_unlock(&b->mutex);
    return length;
}

static void forget_listener(void *payload)
{
    listener *l = payload;
    tl_board *b = l->board;
    pthread_mutex_lock(&b->mutex);
    for (listener **at = &b->listeners; *at; at = &(*at)->next) {
        if (*at != l) continue;
        *at = l->next;
        b->listener_count--;
        break;
    }
    pthread_mutex_unlock(&b->mutex);
    tl_free(l);
}

/* --- answers ---------------------------------------------------------------------------------- */

static void add_headers(struct MHD_Response *r, const char *type, bool keep)
{
    static const char *const headers[][2] = {
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' "
         "data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors "
         "'none'"},
    };
    for (int i = 0; i < TL_COUNT(headers); i++)
        MHD_add_response_header(r, headers[i][0], headers[i][1]);
    MHD_add_response_header(r, "Content-Type", type);
    MHD_add_response_header(r, "Cache-Control", keep ? "private, max-age=3600" : "no-store");
}

static enum MHD_Result send_answer(tl_board *b, struct MHD_Connection *c, tli_answer *a,
                                   bool remember)
{
    struct MHD_Response *r;
    if (a->fixed) {
        union {
            const char *text;
            void *data;
        } fixed = {a->fixed}; // only read, as the mode says
        r = MHD_create_response_from_buffer(a->fixed_size, fixed.data, MHD_RESPMEM_PERSISTENT);
    } else {
        union {
            const char *text;
            void *data;
        } body = {tl_str_text(&a->body)};
        r = MHD_create_response_from_buffer(a->body.length, body.data, MHD_RESPMEM_MUST_COPY);
    }
    if (!r) return MHD_NO;
    add_headers(r, a->type, a->keep);
    if (a->status == 405) MHD_add_response_header(r, "Allow", "GET, HEAD");
    if (remember) {
        tl_str cookie = TL_STR_INIT;
        tl_str_addf(&cookie, "tilth_board=%s; HttpOnly; SameSite=Strict; Path=/", b->token);
        MHD_add_response_header(r, "Set-Cookie", tl_str_text(&cookie));
        tl_str_deinit(&cookie);
    }
    enum MHD_Result result = MHD_queue_response(c, (unsigned)a->status, r);
    MHD_destroy_response(r);
    return result;
}

static enum MHD_Result refuse(tl_board *b, struct MHD_Connection *c, int status, const char *why)
{
    tli_answer a = TLI_ANSWER_INIT;
    tli_answer_fail(&a, status, "%s", why);
    enum MHD_Result result = send_answer(b, c, &a, false);
    tli_answer_deinit(&a);
    return result;
}

static enum MHD_Result listen_to(tl_board *b, struct MHD_Connection *c)
{
    listener *l = tl_alloc_zero(sizeof *l);
    if (!l) return MHD_NO;
    *l = (listener){.board = b, .connection = c};
    pthread_mutex_lock(&b->mutex);
    bool room = b->listener_count < MOST_LISTENERS && !b->stopping;
    if (room) {
        l->next = b->listeners;
        b->listeners = l;
        b->listener_count++;
    }
    pthread_mutex_unlock(&b->mutex);
    if (!room) {
        tl_free(l);
        return refuse(b, c, 503, "too many pages are open");
    }
    struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1024,
                                                               tell_listener, l, forget_listener);
    if (!r) {
        forget_listener(l);
        return MHD_NO;
    }
    add_headers(r, "text/event-stream", false);
    enum MHD_Result result = MHD_queue_response(c, 200, r);
    MHD_destroy_response(r);
    return result;
}

static const char *argument(void *payload, const char *name)
{
    return MHD_lookup_connection_value(payload, MHD_GET_ARGUMENT_KIND, name);
}

static const char *header(struct MHD_Connection *c, const char *name)
{
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

static enum MHD_Result handle(void *payload, struct MHD_Connection *c, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
    static int begun;
    tl_board *b = payload;
    if (!b->served && pthread_getcpuclockid(pthread_self(), &b->server) == 0) b->served = true;
    tli_answer a = TLI_ANSWER_INIT;
    (void)version, (void)upload;
    if (!*state) { // the head is there; whether a body follows is seen at the next call
        *state = &begun;
        return MHD_YES;
    }
    if (*upload_size) {
        *upload_size = 0; // a body is passed over; the answer refuses it
        return MHD_YES;
    }
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return refuse(b, c, 405, "this page is only read");
    const char *given = argument(c, "token");
    tli_guard_request who = {.host = header(c, "Host"),
                             .origin = header(c, "Origin"),
                             .authorization = header(c, "Authorization"),
                             .cookie =
                                 MHD_lookup_connection_value(c, MHD_COOKIE_KIND, "tilth_board"),
                             .token = given};
    const char *why = tli_guard_refuses(&b->guard, &who);
    if (why) return refuse(b, c, 403, why);
    if (strcmp(path, "/events") == 0) return listen_to(b, c);
    tli_board_answer(&a, b->store,
                     &(tli_request){.path = path, .arg = argument, .payload = c, .kept = b->kept});
    enum MHD_Result result = send_answer(b, c, &a, b->token && given);
    tli_answer_deinit(&a);
    return result;
}

/* --- beginning and ending --------------------------------------------------------------------- */

static void ignore_messages(void *payload, const char *format, va_list args)
{
    (void)payload, (void)format, (void)args;
}

static void set_port(struct sockaddr_storage *address, int64_t port)
{
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)port);
    else ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
}

static struct MHD_Daemon *start_at(tl_board *b, int64_t port)
{
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME
                     | MHD_USE_ERROR_LOG;
    if (b->address.ss_family == AF_INET6) flags |= MHD_USE_IPv6;
    set_port(&b->address, port);
    return MHD_start_daemon(
        flags, (uint16_t)port, NULL, NULL, handle, b, MHD_OPTION_EXTERNAL_LOGGER, ignore_messages,
        NULL, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&b->address, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)MOST_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)CONNECTION_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES, MHD_OPTION_STRICT_FOR_CLIENT,
        1, MHD_OPTION_END);
}

static tl_status start_daemon(tl_board *b, const tl_board_args *args)
{
    const char *address = args->address ? args->address : "127.0.0.1";
    int64_t port = args->port ? args->port : FIRST_PORT, tries = args->port ? 1 : PORTS_TRIED;
    tl_str url = TL_STR_INIT;
    for (int64_t i = 0; i < tries && !b->daemon; i++, port += !b->daemon)
        b->daemon = start_at(b, port);
    if (!b->daemon)
        return TL_FAIL(TL_EEXISTS, "the page cannot listen on %s port %lld: %s", address,
                       (long long)(args->port ? args->port : FIRST_PORT),
                       errno ? strerror(errno) : "something else does; choose another with --port");
    bool v6 = b->address.ss_family == AF_INET6;
    tl_str_addf(&url, "http://%s%s%s:%lld/", v6 ? "[" : "", address, v6 ? "]" : "",
                (long long)port);
    if (b->token) tl_str_addf(&url, "?token=%s", b->token);
    tl_status st = tl_str_status(&url);
    if (st == TL_OK && !(b->url = tl_strdup(tl_str_text(&url)))) st = TL_FAIL_NOMEM(url.length);
    tl_str_deinit(&url);
    return st;
}

typedef struct starting {
    tl_board *board;
    const tl_board_args *args;
} starting;

static void note_start(tl_board *b, tl_status status)
{
    tl_error_save(&b->failure);
    pthread_mutex_lock(&b->mutex);
    b->status = status;
    b->started = true;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->mutex);
}

/* False: it is to end. */
static bool wait_a_while(tl_board *b, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    int64_t ns = until.tv_nsec + (int64_t)(seconds * 1e9);
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&b->mutex);
    if (!b->stopping) pthread_cond_timedwait(&b->changed, &b->mutex, &until);
    bool go_on = !b->stopping;
    pthread_mutex_unlock(&b->mutex);
    return go_on;
}

/* Seconds that both threads have taken of processors. */
static double seconds_taken(const tl_board *b)
{
    struct timespec mine = {0}, servers = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mine);
    if (b->served) clock_gettime(b->server, &servers);
    return (double)(mine.tv_sec + servers.tv_sec) + (double)(mine.tv_nsec + servers.tv_nsec) * 1e-9;
}

/* How long to wait before the next look. Beside a training, what the last news have cost (each page
 * that is open asks for what it shows) is to be a small part of a processor: the more of them look,
 * the less often they are told. */
static double pause_after(const tl_board *b, double taken)
{
    double pause = b->behind ? taken / BEHIND_SHARE : 0;
    return pause < LEAST_PAUSE ? LEAST_PAUSE : pause > MOST_PAUSE ? MOST_PAUSE : pause;
}

/* Reads what is new. The server's thread is a child of this one, and as patient. */
static void *follow(void *payload)
{
    starting *s = payload;
    tl_board *b = s->board;
    if (b->behind) setpriority(PRIO_PROCESS, (id_t)gettid(), 19);
    tl_status st = start_daemon(b, s->args);
    note_start(b, st);
    if (st != TL_OK) return NULL;
    for (double before = 0;;) {
        double now = seconds_taken(b), pause = pause_after(b, now - before);
        before = now;
        if (tli_store_look(b->store) != TL_OK)
            TL_LOG_EVERY_S(TL_LEVEL_WARNING, 60, "the page: %s", tl_error_message());
        wake(b);
        if (!wait_a_while(b, pause)) return NULL;
    }
}

static tl_status start_thread(tl_board *b, const tl_board_args *args)
{
    starting s = {b, args};
    sigset_t mask, before;
    tli_thread_mask(&mask);
    pthread_sigmask(SIG_SETMASK, &mask, &before);
    int error = pthread_create(&b->thread, NULL, follow, &s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) return TL_FAIL(TL_EIO, "the page has no thread: %s", strerror(error));
    pthread_mutex_lock(&b->mutex);
    while (!b->started) pthread_cond_wait(&b->changed, &b->mutex);
    pthread_mutex_unlock(&b->mutex);
    if (b->status != TL_OK) {
        pthread_join(b->thread, NULL);
        b->started = false;
        tl_error_restore(&b->failure);
    }
    return b->status;
}

static tl_status take_args(tl_board *b, const tl_board_args *args)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&b->address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&b->address;
    const char *address = args->address ? args->address : "127.0.0.1";
    if (args->port < 0 || args->port > 65535)
        return TL_FAIL(TL_EINVAL, "port %lld: expected 1 to 65535", (long long)args->port);
    if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) v4->sin_family = AF_INET;
    else if (inet_pton(AF_INET6, address, &v6->sin6_addr) == 1) v6->sin6_family = AF_INET6;
    else
        return TL_FAIL(TL_EINVAL,
                       "address '%.80s': expected one of this machine, such as 127.0.0.1", address);
    TL_TRY(tli_guard_init(&b->guard, address, args->token));
    if (args->token && !(b->token = tl_strdup(args->token)))
        return TL_FAIL_NOMEM(strlen(args->token) + 1);
    b->guard.token = b->token;
    b->behind = args->behind;
    b->kept = tli_kept_new(); // without it every answer is made anew
    return tli_store_new(&b->store, &(tli_store_args){.folders = args->folders,
                                                      .patient = args->patient,
                                                      .most_points = args->most_points});
}

tl_status tl_board_start(tl_board **out, const tl_board_args *args)
{
    tl_board *b = tl_alloc_zero(sizeof *b);
    *out = NULL;
    if (!b) return TL_FAIL_NOMEM(sizeof *b);
    pthread_mutex_init(&b->mutex, NULL);
    pthread_cond_init(&b->changed, NULL);
    tl_status st = take_args(b, args);
    if (st == TL_OK) st = start_thread(b, args);
    if (st == TL_OK) *out = b;
    else tl_board_stop(&b);
    return st;
}

const char *tl_board_url(const tl_board *b)
{
    return b->url;
}

void tl_board_stop(tl_board **board)
{
    tl_board *b = *board;
    tl_error before;
    if (!b) return;
    tl_error_save(&before);
    pthread_mutex_lock(&b->mutex);
    b->stopping = true;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->mutex);
    if (b->store) b->store->stop = true;
    if (b->started) pthread_join(b->thread, NULL);
    if (b->store) wake(b);
    if (b->daemon) MHD_stop_daemon(b->daemon);
    tli_store_free(&b->store);
    tli_kept_free(&b->kept);
    pthread_mutex_destroy(&b->mutex);
    pthread_cond_destroy(&b->changed);
    tl_free(b->token);
    tl_free(b->url);
    tl_free(b);
    *board = NULL;
    tl_error_restore(&before);
}

#else

tl_status tl_board_start(tl_board **out, const tl_board_args *args)
{
    (void)args;
    *out = NULL;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "this build serves no pages: it was made without libmicrohttpd. Install "
                   "libmicrohttpd-dev and build again; `tilth report` needs no server");
}

const char *tl_board_url(const tl_board *b)
{
    (void)b;
    return "";
}

void tl_board_stop(tl_board **b)
{
    *b = NULL;
}

#endif
