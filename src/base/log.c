#include <tilth/base/log.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/str.h>
#include <tilth/base/vec.h>

#include "base/inner/clean.h"
#include "base/inner/file_io.h"
#include "base/inner/folder.h"

typedef struct entry {
    tl_log_sink sink;
    int64_t handle;
    bool running; /* its write is on this thread's stack */
    bool removed; /* taken out when no sink runs */
} entry;

typedef struct entry_list {
    entry *items;
    int64_t count, capacity;
} entry_list;

/* The lock is held while sinks run. A thread that runs one already has it: `depth` counts
 * its nested calls and tells. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int depth;

static struct {
    entry_list list;
    entry first[4]; /* where the list begins, so that standard error needs no memory */
    int64_t next_handle;
    tl_level level;
} sinks = {
    .list = {sinks.first, 1, TL_COUNT(sinks.first)},
    .first = {{.sink = {TL_LEVEL_DEBUG, tl_log_write_stderr, NULL, NULL}, .handle = TL_LOG_STDERR}},
    .next_handle = TL_LOG_STDERR + 1,
    .level = TL_LEVEL_INFO,
};

int tl_log_threshold = TL_LEVEL_INFO;

/* A fork waits until no sink runs, so that the child finds the lock free and the sinks whole. */
static void before_fork(void)
{
    if (depth == 0) pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    if (depth == 0) pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

static void enter(void)
{
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    pthread_once(&watched, watch_forks);
    if (depth++ == 0) pthread_mutex_lock(&lock);
}

/* The lowest level that anybody wants. */
static void update_threshold(void)
{
    int lowest = TL_LEVEL_NONE;
    for (int64_t i = 0; i < sinks.list.count; i++) {
        const entry *e = &sinks.list.items[i];
        if (!e->removed && (int)e->sink.min_level < lowest) lowest = (int)e->sink.min_level;
    }
    if (lowest < (int)sinks.level) lowest = (int)sinks.level;
    __atomic_store_n(&tl_log_threshold, lowest, __ATOMIC_RELAXED);
}

/* Takes one removed sink out of the list and hands it over; false when there is none. */
static bool take_removed(tl_log_sink *out)
{
    entry_list *list = &sinks.list;
    for (int64_t i = 0; i < list->count; i++) {
        if (!list->items[i].removed) continue;
        *out = list->items[i].sink;
        list->count--;
        memmove(&list->items[i], &list->items[i + 1],
                (size_t)(list->count - i) * sizeof *list->items);
        return true;
    }
    return false;
}

/* Sinks are released by the outermost call, when none runs, and with the lock still held: a release
 * may log as a write may. */
static void leave(void)
{
    tl_log_sink sink;
    while (depth == 1 && take_removed(&sink))
        if (sink.release) sink.release(sink.payload);
    if (--depth == 0) pthread_mutex_unlock(&lock);
}

/* --- levels ----------------------------------------------------------------------------------- */

const char *tl_level_name(tl_level level)
{
    static const char *const names[] = {"debug", "info", "warning", "error", "fatal", "none"};
    return (unsigned)level < TL_COUNT(names) ? names[level] : "unknown level";
}

void tl_log_set_level(tl_level level)
{
    enter();
    sinks.level = level;
    update_threshold();
    leave();
}

tl_level tl_log_level(void)
{
    enter();
    tl_level level = sinks.level;
    leave();
    return level;
}

void tl_log_set_verbosity(int verbosity)
{
    if (verbosity > 1) verbosity = 1;
    if (verbosity < -3) verbosity = -3;
    tl_log_set_level((tl_level)(TL_LEVEL_INFO - verbosity));
}

/* --- sinks ------------------------------------------------------------------------------------ */

/* The list leaves its first place when that is full. */
static bool make_room(entry_list *list)
{
    if (list->count < list->capacity) return true;
    entry *old = list->items == sinks.first ? NULL : list->items;
    entry_list grown = {old, old ? list->count : 0, old ? list->capacity : 0};
    if (!tl_vec_grow((void **)&grown.items, grown.count, &grown.capacity, sizeof *grown.items))
        return false;
    if (!old) memcpy(grown.items, sinks.first, sizeof sinks.first);
    list->items = grown.items;
    list->capacity = grown.capacity;
    return true;
}

tl_status tl_log_sink_add(int64_t *handle, const tl_log_sink *sink)
{
    tl_status status = TL_OK;
    enter();
    if (make_room(&sinks.list)) {
        *handle = sinks.next_handle++;
        sinks.list.items[sinks.list.count++] = (entry){.sink = *sink, .handle = *handle};
        update_threshold();
    } else {
        status = tl_error_note(TL_ENOMEM, "cannot add a log sink");
    }
    leave();
    return status;
}

bool tl_log_sink_remove(int64_t handle)
{
    bool found = false;
    enter();
    for (int64_t i = 0; i < sinks.list.count && !found; i++) {
        entry *e = &sinks.list.items[i];
        found = e->handle == handle && !e->removed;
        if (found) e->removed = true;
    }
    update_threshold();
    leave();
    return found;
}

static void run_sinks(const tl_log_record *record)
{
    enter();
    // By number, and each sink copied: the list may grow or move while one runs. What is added
    // meanwhile comes too late for this record. Nothing is taken out before the outermost leave.
    int64_t count = sinks.list.count;
    for (int64_t i = 0; i < count; i++) {
        entry *e = &sinks.list.items[i];
        if (e->running || e->removed || record->level < e->sink.min_level) continue;
        tl_log_sink sink = e->sink;
        e->running = true;
        sink.write(record, sink.payload);
        sinks.list.items[i].running = false;
    }
    leave();
}

/* --- messages --------------------------------------------------------------------------------- */

enum { SHORT_TEXT = 1024, NAME_TRIES = 100 };

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* The text in `brief` when it fits, else in memory of its own; cut when there is none. */
static char *format_text(char brief[SHORT_TEXT], size_t *length, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int wanted = vsnprintf(brief, SHORT_TEXT, format, args);
    char *text = brief;
    if (wanted >= SHORT_TEXT) {
        char *longer = tl_alloc((size_t)wanted + 1);
        if (longer) {
            text = longer;
            vsnprintf(text, (size_t)wanted + 1, format, again);
        } else {
            wanted = SHORT_TEXT - 1;
            memcpy(brief + SHORT_TEXT - 4, "...", 4);
        }
    }
    va_end(again);
    *length = wanted < 0 ? 0 : (size_t)wanted;
    return text;
}

/* What a message quotes may come from a stranger's file, and a log is looked at in a terminal. The
 * text may move into memory of its own. */
static char *clean_text(char brief[SHORT_TEXT], char *text, size_t *length)
{
    if (tli_clean_length(text, *length) == *length) return text;
    tl_str clean = TL_STR_INIT;
    tli_add_clean(&clean, text, *length);
    if (clean.failed) {
        tl_str_deinit(&clean);
        tli_clean_in_place(text, *length);
        return text;
    }
    if (text != brief) tl_free(text);
    *length = clean.length;
    return clean.data;
}

static void write_record(tl_level level, const char *file, int line, bool told, const char *format,
                         va_list args)
{
    if (!tl_log_wants(level)) return;
    int error_number = errno;
    tl_error error;
    tl_error_save(&error); // a sink may fail on its own account
    char brief[SHORT_TEXT] = "";
    size_t length;
    char *text = clean_text(brief, format_text(brief, &length, format, args), &length);
    tl_log_record record = {
        .level = level,
        .file = tl_path_basename(file),
        .line = line,
        .thread = (int)gettid(),
        .time_us = now_us(),
        .text = text,
        .length = length,
        .told = told,
    };
    run_sinks(&record);
    if (text != brief) tl_free(text);
    tl_error_restore(&error);
    errno = error_number;
}

void tl_log_writev(tl_level level, const char *file, int line, const char *format, va_list args)
{
    write_record(level, file, line, false, format, args);
}

void tl_log_write(tl_level level, const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tl_log_writev(level, file, line, format, args);
    va_end(args);
}

void tl_log_write_told(tl_level level, const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_record(level, file, line, true, format, args);
    va_end(args);
}

bool tl_log_every_n(int64_t *site, int64_t n)
{
    int64_t before = __atomic_fetch_add(site, 1, __ATOMIC_RELAXED);
    return n <= 1 || before % n == 0;
}

/* The site holds when the next message is due, in nanoseconds of a clock that nobody sets. */
bool tl_log_every_s(int64_t *site, double seconds)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    int64_t now = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
    int64_t due = __atomic_load_n(site, __ATOMIC_RELAXED);
    if (now < due) return false;
    double pause = seconds > 0 ? seconds * 1e9 : 0;
    int64_t next = pause < 9e18 - (double)now ? now + (int64_t)pause : INT64_MAX;
    // Of several threads that see it due, the one that moves it on writes.
    return __atomic_compare_exchange_n(site, &due, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* --- standard error --------------------------------------------------------------------------- */

size_t tl_log_prefix(char out[TL_LOG_PREFIX], const tl_log_record *record)
{
    static const char letters[] = "IIWEF";
    time_t seconds = (time_t)(record->time_us / 1000000);
    struct tm tm;
    localtime_r(&seconds, &tm);
    char letter = (unsigned)record->level < TL_LEVEL_NONE ? letters[record->level] : 'F';
    int length =
        snprintf(out, TL_LOG_PREFIX, "%c%02d%02d %02d:%02d:%02d.%06d %7d %.80s:%d] ", letter,
                 tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                 (int)(record->time_us % 1000000), record->thread, record->file, record->line);
    return (size_t)length;
}

/* One system call, so that other processes on the same terminal or file do not come in between.
 * What cannot be written has nobody to be told to. */
static void write_line(int fd, const tl_log_record *record, const char *before, const char *after)
{
    char prefix[TL_LOG_PREFIX];
    size_t length = tl_log_prefix(prefix, record);
    struct iovec pieces[] = {
        tli_piece(before, strlen(before)),       tli_piece(prefix, length - 1),
        tli_piece(after, strlen(after)),         tli_piece(" ", 1),
        tli_piece(record->text, record->length), tli_piece("\n", 1),
    };
    (void)tli_write_all(fd, pieces, (int)TL_COUNT(pieces));
}

static bool stderr_has_colour;

static void look_at_stderr(void)
{
    const char *plain = getenv("NO_COLOR"), *terminal = getenv("TERM");
    stderr_has_colour =
        isatty(STDERR_FILENO) && !(plain && *plain) && !(terminal && strcmp(terminal, "dumb") == 0);
}

void tl_log_write_stderr(const tl_log_record *record, void *payload)
{
    static pthread_once_t looked = PTHREAD_ONCE_INIT;
    static const char *const colours[] = {"\033[2m", "\033[32m", "\033[33m", "\033[31m",
                                          "\033[1;31m"};
    (void)payload;
    if (record->told) return;
    pthread_once(&looked, look_at_stderr);
    bool colour = stderr_has_colour && (unsigned)record->level < TL_COUNT(colours);
    write_line(STDERR_FILENO, record, colour ? colours[record->level] : "",
               colour ? "\033[0m" : "");
}

bool tl_log_shares_stdout(void)
{
    struct stat out, err;
    return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0
           && out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

/* --- log folders ------------------------------------------------------------------------------ */

/* Whoever is logged in, or the number where nobody keeps names (in containers, for example). */
static void find_user(char *out, size_t room)
{
    const char *name = getenv("LOGNAME");
    if (!name || !*name) name = getenv("USER");
    char memory[1024];
    struct passwd user, *found = NULL;
    if ((!name || !*name) && getpwuid_r(getuid(), &user, memory, sizeof memory, &found) == 0
        && found)
        name = user.pw_name;
    if (name && *name) snprintf(out, room, "%s", name);
    else snprintf(out, room, "%u", (unsigned)getuid());
}

static void find_host(char *out, size_t room)
{
    if (gethostname(out, room) != 0) snprintf(out, room, "unknown");
    out[room - 1] = '\0';
}

/* Where the log goes and how its first line reads. Names from outside stay within the folder. */
static void lay_out_file(tl_str *path, tl_str *header, const char *folder, const char *program)
{
    char host[256], user[256], stamp[32], date[32];
    struct tm tm;
    time_t now = time(NULL);
    localtime_r(&now, &tm);
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &tm);
    strftime(date, sizeof date, "%Y/%m/%d %H:%M:%S", &tm);
    find_host(host, sizeof host);
    find_user(user, sizeof user);
    tl_str_addf(path, "%s/", folder);
    size_t name = path->length;
    tl_str_addf(path, "%s.%s.%s.log.INFO.%s.%d", program, host, user, stamp, (int)getpid());
    for (size_t i = name; i < path->length && !path->failed; i++)
        if (path->data[i] == '/') path->data[i] = '_';
    tl_str_addf(header,
                "Log file made at: %s on machine %s by tilth " TL_VERSION
                "; line format: [IWEF]mmdd hh:mm:ss.uuuuuu threadid file:line] text\n",
                date, host);
}

/* PROGRAM.INFO leads to the newest file. It is put in place by a rename, so it is never missing. A
 * convenience: when it cannot be made the log itself is not worse for it. */
static void point_link_at(int dir, const char *name, const char *folder, const char *program)
{
    tl_str link = TL_STR_INIT, temp = TL_STR_INIT;
    struct stat info;
    tl_str_addf(&link, "%s.INFO", program);
    tl_str_addf(&temp, ".%s.INFO.%016llx.tmp", program, (unsigned long long)tli_random_bits());
    if (link.failed || temp.failed) goto done;
    if (fstatat(dir, tl_str_text(&link), &info, AT_SYMLINK_NOFOLLOW) == 0
        && !S_ISLNK(info.st_mode)) {
        TL_LOG_WARNING("'%s/%s' is not a symbolic link, so it is left as it is", folder,
                       tl_str_text(&link));
    } else {
        char reason[128];
        bool made = symlinkat(name, dir, tl_str_text(&temp)) == 0;
        if (made && renameat(dir, tl_str_text(&temp), dir, tl_str_text(&link)) == 0) goto done;
        TL_LOG_WARNING("cannot make the symbolic link '%s/%s': %s", folder, tl_str_text(&link),
                       strerror_r(errno, reason, sizeof reason));
        if (made) unlinkat(dir, tl_str_text(&temp), 0);
    }
done:
    tl_str_deinit(&link);
    tl_str_deinit(&temp);
}

/* The payload is the descriptor itself. */
static void write_file(const tl_log_record *record, void *payload)
{
    write_line((int)(intptr_t)payload, record, "", "");
}

static void close_file(void *payload)
{
    close((int)(intptr_t)payload);
}

/* The name is known beforehand to whoever can write there: what has it already is neither followed
 * nor added to, and the log goes to a name that nobody knows. */
static int make_file(int *fd, int dir, tl_str *path)
{
    size_t length = path->length;
    for (int i = 0; i < NAME_TRIES; i++) {
        *fd = openat(dir, tl_path_basename(tl_str_text(path)),
                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_APPEND | O_CLOEXEC, 0666);
        if (*fd >= 0) return 0;
        if (errno != EEXIST && errno != EINTR) return errno;
        tl_str_cut(path, length);
        tl_str_addf(path, ".%016llx", (unsigned long long)tli_random_bits());
        if (path->failed) return ENOMEM;
    }
    return EEXIST;
}

tl_status tl_log_folder_add(int64_t *handle, const char *folder, const char *program,
                            tl_level min_level)
{
    tl_str path = TL_STR_INIT, header = TL_STR_INIT;
    int fd = -1, dir = -1, error = 0;
    tl_status status;
    if (!program) program = program_invocation_short_name;
    if (strchr(program, '/'))
        return TL_FAIL(TL_EINVAL, "the program name '%s' of a log file has a slash in it", program);
    TL_TRY_DONE(status, tl_mkdirs(folder));
    TL_TRY_DONE(status, tli_folder_reach(&dir, folder));
    lay_out_file(&path, &header, folder, program);
    TL_TRY_DONE(status, tl_str_status(&path));
    TL_TRY_DONE(status, tl_str_status(&header));
    struct iovec piece = tli_piece(header.data, header.length);
    error = make_file(&fd, dir, &path);
    if (!error) error = tli_write_all(fd, &piece, 1);
    if (error) {
        status = TLI_FAIL_SYSTEM(error, "write the log", tl_str_text(&path));
        goto done;
    }
    tl_log_sink sink = {min_level, write_file, close_file, (void *)(intptr_t)fd};
    TL_TRY_DONE(status, tl_log_sink_add(handle, &sink));
    fd = -1;
    point_link_at(dir, tl_path_basename(tl_str_text(&path)), folder, program);
done:
    if (fd >= 0) close(fd);
    if (dir >= 0) close(dir);
    tl_str_deinit(&path);
    tl_str_deinit(&header);
    return status;
}
