/* Event storage: what hooks and model code say during training, until writers write it (writer.h).
 *
 *     tl_event_storage *s;
 *     TL_TRY(tl_event_storage_new(&s, NULL));
 *     tl_event_storage_push(s);                            // the current one of this thread
 *     ...
 *     tl_event_storage *now = tl_event_storage_current();  // in model code, hooks, anywhere
 *     if (now) TL_TRY(tl_event_storage_put(now, "some_accuracy", value));
 *     ...
 *     tl_event_storage_pop(s);
 *     tl_event_storage_free(&s);
 *
 * A scalar has a history, which smooths what is shown. Whether it is smoothed is said when it is
 * first put, and stays so: losses and times are, learning rates and results of an evaluation are
 * not.
 *
 * A tensor is kept by reference and read when somebody asks, most often a writer: training waits
 * for no device in between. Up to TL_EVENT_UNREAD values of a name wait unread; then the oldest is
 * read. A tensor whose memory the next step writes over (put again before it was read) has lost its
 * earlier value, and the history has none of that iteration.
 *
 * In a loop that runs every few microseconds a scalar is put by its handle, which spares looking up
 * the name.
 *
 * Ownership: the caller's. Thread word: one thread at a time; each thread has a stack of its
 * own. */
#ifndef TILTH_TRAIN_STORAGE_H
#define TILTH_TRAIN_STORAGE_H

#include <tilth/core/logs.h>

TL_BEGIN

enum { TL_EVENT_UNREAD = 64, TL_EVENT_WINDOW = 20, TL_HISTORY_LENGTH = 1000000 };

/* --- history ---------------------------------------------------------------------------------- */

/* The last values of a scalar with their iterations. Members are for the functions. */
typedef struct tl_history {
    struct tl_history_item {
        double value;
        int64_t iteration;
    } * items; /* a ring */
    int64_t first, count, capacity, most;
    int64_t seen;   /* values ever put */
    double average; /* of all of them */
} tl_history;

/* At most `most` values are kept; 0: TL_HISTORY_LENGTH. */
TL_API void tl_history_init(tl_history *h, int64_t most);
TL_API void tl_history_deinit(tl_history *h);
TL_API TL_NODISCARD tl_status tl_history_put(tl_history *h, double value, int64_t iteration);
TL_API int64_t tl_history_count(const tl_history *h);
/* 0 is the oldest that is kept. */
TL_API double tl_history_value(const tl_history *h, int64_t index);
TL_API int64_t tl_history_iteration(const tl_history *h, int64_t index);
/* Of an empty history all four are NaN. The window counts values, from the newest back; the median
 * of an even number is the mean of the two in the middle, and NaN among them makes it NaN. */
TL_API double tl_history_latest(const tl_history *h);
TL_API double tl_history_median(const tl_history *h, int64_t window);
TL_API double tl_history_average(const tl_history *h, int64_t window);
/* Of all values ever put, also those no longer kept. */
TL_API double tl_history_global_average(const tl_history *h);
/* Takes back the values of iterations after `keep_to`. */
TL_API void tl_history_rewind(tl_history *h, int64_t keep_to);

/* --- storage ---------------------------------------------------------------------------------- */

typedef struct tl_event_storage tl_event_storage;
typedef struct tl_event_storage_args {
    int64_t iteration; /* at which it starts */
    int64_t history;   /* (optional: TL_HISTORY_LENGTH) values kept of each scalar */
} tl_event_storage_args;

/* `args` NULL: all 0. */
TL_API TL_NODISCARD tl_status tl_event_storage_new(tl_event_storage **out,
                                                   const tl_event_storage_args *args);
/* It must not be on a stack. NULL is fine. */
TL_API void tl_event_storage_free(tl_event_storage **s);

/* This thread's stack; a storage is on one of them at most once, and the last one pushed is popped
 * first. */
TL_API void tl_event_storage_push(tl_event_storage *s);
TL_API void tl_event_storage_pop(tl_event_storage *s);
/* The one pushed last; NULL when there is none. */
TL_API tl_event_storage *tl_event_storage_current(void);

/* What is put belongs to this iteration. */
TL_API int64_t tl_event_storage_iteration(const tl_event_storage *s);
TL_API void tl_event_storage_set_iteration(tl_event_storage *s, int64_t iteration);
/* Examples consumed so far; 0 until it is set. */
TL_API int64_t tl_event_storage_samples(const tl_event_storage *s);
TL_API void tl_event_storage_set_samples(tl_event_storage *s, int64_t samples);

/* Names put within the scope begin with its name and '/'. Scopes nest, and their names are joined.
 * What begins gives the mark with which it ends; ending an outer scope ends those within it. */
TL_API TL_NODISCARD tl_status tl_event_storage_scope_begin(size_t *mark, tl_event_storage *s,
                                                           const char *name);
TL_API void tl_event_storage_scope_end(tl_event_storage *s, size_t mark);

/* --- putting ---------------------------------------------------------------------------------- */

/* A number that is smoothed where it is shown, or (plain) is not. Putting a name both ways is
 * TL_EINVAL. */
TL_API TL_NODISCARD tl_status tl_event_storage_put(tl_event_storage *s, const char *name,
                                                   double value);
TL_API TL_NODISCARD tl_status tl_event_storage_put_plain(tl_event_storage *s, const char *name,
                                                         double value);
/* The same of a tensor with one element, which is read later. */
TL_API TL_NODISCARD tl_status tl_event_storage_put_tensor(tl_event_storage *s, const char *name,
                                                          const tl_tensor *t, bool smooth);
/* For images ([height, width, channels] of uint8, or floats from 0 to 1), histograms (`bins` 0: 30)
 * and text a name keeps what was put last. */
TL_API TL_NODISCARD tl_status tl_event_storage_put_image(tl_event_storage *s, const char *name,
                                                         const tl_tensor *t);
TL_API TL_NODISCARD tl_status tl_event_storage_put_histogram(tl_event_storage *s, const char *name,
                                                             const tl_tensor *t, int64_t bins);
TL_API TL_NODISCARD tl_status tl_event_storage_put_text(tl_event_storage *s, const char *name,
                                                        const char *text);
/* All entries of the logs but plain tensors; those of logs within logs by their path, joined with
 * '/'. */
TL_API TL_NODISCARD tl_status tl_event_storage_put_logs(tl_event_storage *s, const tl_logs *logs,
                                                        bool smooth);

/* A scalar by its handle, made when it is not there; valid as long as the storage. */
typedef struct tl_event_scalar tl_event_scalar;
TL_API TL_NODISCARD tl_status tl_event_storage_scalar(tl_event_scalar **out, tl_event_storage *s,
                                                      const char *name, bool smooth);
TL_API TL_NODISCARD tl_status tl_event_scalar_put(tl_event_scalar *scalar, double value);
TL_API TL_NODISCARD tl_status tl_event_scalar_put_tensor(tl_event_scalar *scalar,
                                                         const tl_tensor *t);

/* --- reading: here devices are waited for ----------------------------------------------------- */

/* A scalar as it was put last. */
typedef struct tl_event_latest {
    const char *name; /* valid as long as the storage */
    double value;
    int64_t iteration;
    bool smooth;
} tl_event_latest;

/* Scalars, in the order in which they were first put. One that has a handle and no value yet has
 * the iteration -1. */
TL_API int64_t tl_event_storage_count(const tl_event_storage *s);
TL_API TL_NODISCARD tl_status tl_event_storage_at(tl_event_latest *out, tl_event_storage *s,
                                                  int64_t index);
/* The same with the median of the last `window` values where it is smoothed. */
TL_API TL_NODISCARD tl_status tl_event_storage_smoothed_at(tl_event_latest *out,
                                                           tl_event_storage *s, int64_t index,
                                                           int64_t window);
/* By its name, with scopes in it. TL_ENOTFOUND when nothing was put under it. */
TL_API TL_NODISCARD tl_status tl_event_storage_latest(tl_event_latest *out, tl_event_storage *s,
                                                      const char *name);
/* The history, valid until the next put; what was unread is read. NULL in *out when nothing was put
 * under that name. */
TL_API TL_NODISCARD tl_status tl_event_storage_history(const tl_history **out, tl_event_storage *s,
                                                       const char *name);

/* Images, histograms and text, in the order in which they were first put; the iteration is -1 when
 * what was put last was taken back. */
TL_API int64_t tl_event_storage_media_count(const tl_event_storage *s);
TL_API void tl_event_storage_media_at(tl_logs_entry *out, int64_t *iteration,
                                      const tl_event_storage *s, int64_t index);
/* Forgets them, and lets their tensors go. */
TL_API void tl_event_storage_clear_media(tl_event_storage *s);

/* The run goes back: forgets all that was put at iterations after `keep_to`. So many examples are
 * consumed as were then, where that is no more than a few iterations ago. Writers go back too
 * (writer.h). */
TL_API void tl_event_storage_rewind(tl_event_storage *s, int64_t keep_to);

TL_END

#endif
