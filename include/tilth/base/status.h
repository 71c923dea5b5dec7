/* Status codes, and the message that goes with each failure.
 *
 *     tl_status scale_read(double *out, const char *text)
 *     {
 *         char *end;
 *         *out = strtod(text, &end);
 *         if (end == text || *end) return TL_FAIL(TL_EINVAL, "'%s' is not a number", text);
 *         return TL_OK;
 *     }
 *     ...
 *     TL_TRY_NOTE(scale_read(&scale, argv[1]), "--scale");   // "--scale: 'x' is not a number"
 *
 * TL_FAIL is the only way to make a failure, so a code never travels without its text. The text
 * lives in a record of the calling thread, of fixed size: failing allocates nothing. The thread
 * pool copies the record of a failed worker back to the thread that waits for it.
 *
 * Programmer errors (a NULL handle, an unbalanced scope) are TL_ASSERT instead: on in debug and
 * test builds, gone in release builds.
 *
 * Thread word: free-threaded (each thread has its own record). */
#ifndef TILTH_BASE_STATUS_H
#define TILTH_BASE_STATUS_H

#include <assert.h>
#include <stdarg.h>
#include <tilth/base/api.h>

TL_BEGIN

/*    code            name          what it says on its own */
// clang-format off
#define TL_STATUS_LIST(X)                                                                          \
    X(TL_OK,          "ok",          "no error")                                                   \
    X(TL_EINVAL,      "invalid",     "a value, file or argument is not acceptable")                \
    X(TL_ENOTFOUND,   "not found",   "a name, key or file does not exist")                         \
    X(TL_EEXISTS,     "exists",      "a name or file is already taken")                            \
    X(TL_EIO,         "io",          "the operating system refused a file operation")              \
    X(TL_ENOMEM,      "no memory",   "memory is exhausted")                                        \
    X(TL_ELIMIT,      "limit",       "an input is larger or deeper than what is accepted")         \
    X(TL_EUNSUPPORTED, "unsupported", "the feature is not available")                              \
    X(TL_ESTATE,      "state",       "a call came at the wrong time")                              \
    X(TL_ESTOPPED,    "stopped",     "the work was ended before it was done")                      \
    X(TL_ENAN,        "not finite",  "the training has blown up: numbers are not finite")          \
    X(TL_EINTERNAL,   "internal",    "a defect in Tilth")                                          \
    X(TL_EDATA,       "data",        "what was read is damaged, or not what was expected")         \
    X(TL_EPEER,       "peer lost",   "another process of the run was lost, or has ended it")

typedef enum tl_status {
#define TL_STATUS_ENUM(code, name, text) code,
    TL_STATUS_LIST(TL_STATUS_ENUM)
#undef TL_STATUS_ENUM
    TL_STATUS_COUNT
} tl_status;
// clang-format on

/* Name of a code ("not found"); never NULL, also for numbers that are no code. */
TL_API const char *tl_status_name(tl_status code);

/* Text of this thread's last failure; never NULL. Valid until the thread's next failure. */
TL_API const char *tl_error_message(void);
/* Code of this thread's last failure, TL_OK when there was none. */
TL_API tl_status tl_error_code(void);
/* "file.c:12" where the last failure was made; "" when there was none. */
TL_API const char *tl_error_where(void);
/* How many failures this thread has made so far: tells whether a call made one. */
TL_API int64_t tl_error_count(void);
/* Forgets the record. */
TL_API void tl_error_clear(void);

enum { TL_ERROR_TEXT = 4096, TL_ERROR_WHERE = 64 };

/* A copy of the record, to carry it from one thread to another. */
typedef struct tl_error {
    tl_status code;
    char where[TL_ERROR_WHERE];
    char text[TL_ERROR_TEXT];
} tl_error;
TL_API void tl_error_save(tl_error *out);
TL_API void tl_error_restore(const tl_error *saved);

/* The functions behind the macros. */
TL_API tl_status tl_error_set(tl_status code, const char *file, int line, const char *format, ...)
    TL_PRINTF(4, 5);
TL_API tl_status tl_error_note(tl_status code, const char *format, ...) TL_PRINTF(2, 3);

/* Makes a failure: `return TL_FAIL(TL_EINVAL, "matmul: %s", why);` */
#define TL_FAIL(code, ...) tl_error_set((code), __FILE__, __LINE__, __VA_ARGS__)

/* The failure of an allocation of `bytes` bytes. */
#define TL_FAIL_NOMEM(bytes)                                                                       \
    TL_FAIL(TL_ENOMEM, "out of memory (%zu bytes were asked for)", (size_t)(bytes))

/* Forwards a failure. */
#define TL_TRY(call)                                                                               \
    do {                                                                                           \
        tl_status tl_try_status_ = (call);                                                         \
        if (tl_try_status_ != TL_OK) return tl_try_status_;                                        \
    } while (0)

/* Forwards a failure with "note: " put before its text. */
#define TL_TRY_NOTE(call, ...)                                                                     \
    do {                                                                                           \
        tl_status tl_try_status_ = (call);                                                         \
        if (tl_try_status_ != TL_OK) return tl_error_note(tl_try_status_, __VA_ARGS__);            \
    } while (0)

/* Forwards a failure past the cleanup at the label `done`; `status` is the function's variable. */
#define TL_TRY_DONE(status, call)                                                                  \
    do {                                                                                           \
        if (((status) = (call)) != TL_OK) goto done;                                               \
    } while (0)

/* An invariant that only a defect breaks. Tests are built with it (gcc, clang, sanitizers). A
 * release build (NDEBUG) reads the condition and evaluates nothing, so that what only assertions
 * use is not unused there. */
#ifdef NDEBUG
#define TL_ASSERT(condition) ((void)(0 && (condition)))
#else
#define TL_ASSERT(condition) assert(condition)
#endif

TL_END

#endif
