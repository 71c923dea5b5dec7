/* Messages for people: levels, sinks, rate limits.
 *
 *     TL_LOG_INFO("restored %s at step %lld", path, (long long)step);
 *     TL_LOG_EVERY_S(TL_LEVEL_WARNING, 30, "the input pipeline is slower than the model");
 *
 *     tl_log_sink sink = {TL_LEVEL_ERROR, send_to_monitor, NULL, monitor};
 *     int64_t handle;
 *     TL_TRY(tl_log_sink_add(&handle, &sink));
 *     ...
 *     tl_log_sink_remove(handle);
 *
 * A message of a level that nobody wants costs one load and one branch, and its arguments are not
 * evaluated. A message that is wanted is formatted once and handed to every sink, one message at a
 * time, so that the lines of many threads never mix; a sink that waits makes them all wait. Logging
 * changes neither errno nor the thread's error record, and never fails: without memory a long
 * message is cut and marked with "...".
 *
 * At the start there is one sink, standard error, and the level is info. Lines are laid out as absl
 * does, so that what reads the logs of Model Garden reads these:
 *
 *     I1115 04:15:02.123456    4242 trainer.c:120] step 100: loss 0.31
 *
 * letter of the level (debug has info's, as there), month and day, local time, thread, file:line,
 * text. A text of several lines is written as it is.
 *
 * A sink may log: its message goes to the sinks that are not running on this thread at that moment,
 * at once, so there is neither a deadlock nor an endless chain; when no other sink is there the
 * message is lost. A sink may also add and remove sinks, itself included.
 *
 * Thread word: free-threaded. Not for signal handlers. */
#ifndef TILTH_BASE_LOG_H
#define TILTH_BASE_LOG_H

#include <tilth/base/status.h>

TL_BEGIN

typedef enum tl_level {
    TL_LEVEL_DEBUG,
    TL_LEVEL_INFO,
    TL_LEVEL_WARNING,
    TL_LEVEL_ERROR,
    TL_LEVEL_FATAL, /* a word for how bad it is; nothing ends because of it */
    TL_LEVEL_NONE   /* above all messages */
} tl_level;

/* "debug", "info", ...; never NULL. */
TL_API const char *tl_level_name(tl_level level);

/* --- making messages -------------------------------------------------------------------------- */

#define TL_LOG(level, ...)                                                                         \
    (tl_log_wants(level) ? tl_log_write((level), __FILE__, __LINE__, __VA_ARGS__) : (void)0)
#define TL_LOG_DEBUG(...) TL_LOG(TL_LEVEL_DEBUG, __VA_ARGS__)
#define TL_LOG_INFO(...) TL_LOG(TL_LEVEL_INFO, __VA_ARGS__)
#define TL_LOG_WARNING(...) TL_LOG(TL_LEVEL_WARNING, __VA_ARGS__)
#define TL_LOG_ERROR(...) TL_LOG(TL_LEVEL_ERROR, __VA_ARGS__)
#define TL_LOG_FATAL(...) TL_LOG(TL_LEVEL_FATAL, __VA_ARGS__)

/* For logs alone: standard error leaves it out, since people are told another way. */
#define TL_LOG_TOLD(level, ...)                                                                    \
    (tl_log_wants(level) ? tl_log_write_told((level), __FILE__, __LINE__, __VA_ARGS__) : (void)0)

/* Statements that count for themselves, over all threads. While their level is off they do not
 * count. Calls 1, n + 1, 2n + 1, ... of this line: */
#define TL_LOG_EVERY_N(level, n, ...)                                                              \
    TL_LOG_WHEN_((level), tl_log_every_n(&tl_log_site_, (n)), __VA_ARGS__)
/* The first call of this line, then again whenever that many seconds (a double) have passed: */
#define TL_LOG_EVERY_S(level, seconds, ...)                                                        \
    TL_LOG_WHEN_((level), tl_log_every_s(&tl_log_site_, (seconds)), __VA_ARGS__)
/* The first call of this line: */
#define TL_LOG_ONCE(level, ...)                                                                    \
    TL_LOG_WHEN_((level), tl_log_every_n(&tl_log_site_, INT64_MAX), __VA_ARGS__)

#define TL_LOG_WHEN_(level, due, ...)                                                              \
    do {                                                                                           \
        static int64_t tl_log_site_;                                                               \
        if (tl_log_wants(level) && (due)) tl_log_write((level), __FILE__, __LINE__, __VA_ARGS__);  \
    } while (0)

/* --- which messages --------------------------------------------------------------------------- */

/* Messages below the level are dropped, whatever the sinks want. */
TL_API void tl_log_set_level(tl_level level);
TL_API tl_level tl_log_level(void);
/* The same in absl's numbers: 1 and more debug, 0 info, -1 warning, -2 error, -3 and less fatal. */
TL_API void tl_log_set_verbosity(int verbosity);

/* --- where they go ---------------------------------------------------------------------------- */

typedef struct tl_log_record {
    tl_level level;
    const char *file; /* without its folder */
    int line;
    int thread;      /* the system's number; that of the main thread is the process's */
    int64_t time_us; /* since 1970 */
    const char *text;
    size_t length; /* of the text */
    bool told;     /* who reads standard error sees it another way: it is left out there */
} tl_log_record;

typedef struct tl_log_sink {
    tl_level min_level;
    void (*write)(const tl_log_record *record, void *payload); /* the record is gone afterwards */
    void (*release)(void *payload); /* optional: called when the sink is removed */
    void *payload;
} tl_log_sink;

/* The struct is copied. Sinks are called in the order in which they were added. */
TL_API TL_NODISCARD tl_status tl_log_sink_add(int64_t *handle, const tl_log_sink *sink);
/* When it returns, the sink is not running and will not run again (when called from the sink
 * itself: once that returns). False when the handle names no sink. */
TL_API bool tl_log_sink_remove(int64_t handle);

/* The sink that is there at the start; it can be removed like any other. */
#define TL_LOG_STDERR INT64_C(0)
/* Its function. Coloured by level when standard error is a terminal, NO_COLOR is unset or empty and
 * TERM is not "dumb". The payload is not used. */
TL_API void tl_log_write_stderr(const tl_log_record *record, void *payload);

/* Whether standard output and standard error are one file, pipe or terminal: what is written to
 * both stands there twice. */
TL_API bool tl_log_shares_stdout(void);

/* Adds a sink that writes `PROGRAM.HOST.USER.log.INFO.YYYYMMDD-HHMMSS.PID` in the folder, which is
 * made when it is not there, and points the symbolic link `PROGRAM.INFO` at it, as absl does. What
 * has that name already is left alone, and the file gets 16 hexadecimal digits behind its own. The
 * file begins with one line that says when, where and how it was written; each message is in the
 * file when the call that made it returns. It is closed when the sink is removed. `program` NULL is
 * the name of the running program. */
TL_API TL_NODISCARD tl_status tl_log_folder_add(int64_t *handle, const char *folder,
                                                const char *program, tl_level min_level);

/* What stands before the text, "I1115 04:15:02.123456    4242 trainer.c:120] ". Always terminated;
 * the length it has in `out`. */
enum { TL_LOG_PREFIX = 160 };
TL_API size_t tl_log_prefix(char out[TL_LOG_PREFIX], const tl_log_record *record);

/* --- the functions behind the macros ---------------------------------------------------------- */

TL_API extern int tl_log_threshold;
static inline bool tl_log_wants(tl_level level)
{
    return (int)level >= __atomic_load_n(&tl_log_threshold, __ATOMIC_RELAXED);
}
TL_API void tl_log_write(tl_level level, const char *file, int line, const char *format, ...)
    TL_PRINTF(4, 5);
TL_API void tl_log_writev(tl_level level, const char *file, int line, const char *format,
                          va_list args) TL_PRINTF(4, 0);
/* The same for what people are told another way: the sinks of standard error leave it out. */
TL_API void tl_log_write_told(tl_level level, const char *file, int line, const char *format, ...)
    TL_PRINTF(4, 5);
TL_API bool tl_log_every_n(int64_t *site, int64_t n);
TL_API bool tl_log_every_s(int64_t *site, double seconds);

TL_END

#endif
