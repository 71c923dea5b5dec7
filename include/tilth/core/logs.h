/* Logs: all that is told. Ordered names to numbers, text, images and histograms; console, event
 * files, hooks and the choice of the best model read them.
 *
 *     tl_logs *l, *validation;
 *     TL_TRY(tl_logs_new(&l));
 *     TL_TRY(tl_logs_put(l, "learning_rate", 0.1));
 *     TL_TRY(tl_logs_put_tensor(l, "loss", loss));                      // read only when asked for
 *     TL_TRY(tl_logs_sub(&validation, l, "validation"));                // logs within logs
 *     TL_TRY(tl_logs_put(validation, "accuracy", 0.93));
 *     double best = tl_logs_number_or(l, "validation/accuracy", 0);
 *     tl_logs_free(&l);
 *
 * A tensor is kept by reference and read when somebody asks for its number or elements: who only
 * carries logs around waits for no device. It is read as it is then, so what must not change
 * meanwhile is copied before.
 *
 * Logs nest. A name may also hold slashes itself ("image/input", "train/loss"): then it is one
 * name, as TensorBoard's tags are, where logs within logs are folders of their own. Either is found
 * by its path.
 *
 * Ownership: the caller's; logs within logs belong to the outer ones. Thread word: one thread at a
 * time. */
#ifndef TILTH_CORE_LOGS_H
#define TILTH_CORE_LOGS_H

#include <tilth/core/tensor.h>

TL_BEGIN

typedef struct tl_logs tl_logs;

TL_API TL_NODISCARD tl_status tl_logs_new(tl_logs **out);
/* For what tl_logs_new made. NULL is fine. */
TL_API void tl_logs_free(tl_logs **l);
/* Everything out. */
TL_API void tl_logs_clear(tl_logs *l);

/* --- filling ---------------------------------------------------------------------------------- */

/* A name that is there keeps its place and gets the new value. */
TL_API TL_NODISCARD tl_status tl_logs_put(tl_logs *l, const char *name, double value);
/* A number that a tensor with one element holds. */
TL_API TL_NODISCARD tl_status tl_logs_put_tensor(tl_logs *l, const char *name, const tl_tensor *t);
TL_API TL_NODISCARD tl_status tl_logs_put_text(tl_logs *l, const char *name, const char *text);
/* [height, width, channels] with 1, 3 or 4 channels: uint8, or floats from 0 to 1. */
TL_API TL_NODISCARD tl_status tl_logs_put_image(tl_logs *l, const char *name, const tl_tensor *t);
/* How the elements of a tensor of any shape are spread, in `bins` equal steps; 0: 30 of them. */
TL_API TL_NODISCARD tl_status tl_logs_put_histogram(tl_logs *l, const char *name,
                                                    const tl_tensor *t, int64_t bins);
/* A tensor of any shape, for who takes it out again (predictions, for a metric of the host); with
 * one element it is a number. Writers leave others out. */
TL_API TL_NODISCARD tl_status tl_logs_put_any(tl_logs *l, const char *name, const tl_tensor *t);
/* The logs of that name, made when they are not there. They belong to `l`, and last until it puts
 * or removes something of that name. A value of that name is TL_EEXISTS. */
TL_API TL_NODISCARD tl_status tl_logs_sub(tl_logs **out, tl_logs *l, const char *name);
/* All of `from` into `l`: what has a name that is there replaces it, logs within logs are merged.
 * `from` must not lie within `l`. A failure may leave a part merged. */
TL_API TL_NODISCARD tl_status tl_logs_merge(tl_logs *l, const tl_logs *from);
/* By its path. False when it is not there. */
TL_API bool tl_logs_remove(tl_logs *l, const char *path);

/* --- reading ---------------------------------------------------------------------------------- */

typedef enum tl_logs_kind {
    TL_LOGS_NUMBER,
    TL_LOGS_TEXT,
    TL_LOGS_IMAGE,
    TL_LOGS_HISTOGRAM,
    TL_LOGS_TENSOR,
    TL_LOGS_LOGS
} tl_logs_kind;
/* "number", "text", ...; never NULL. */
TL_API const char *tl_logs_kind_name(tl_logs_kind kind);

/* Borrowed from the logs, until the entry changes. */
typedef struct tl_logs_entry {
    const char *name; /* in a walk: the path */
    tl_logs_kind kind;
    double number;           /* when there is no tensor */
    const tl_tensor *tensor; /* number, image, histogram, tensor */
    const char *text;
    int64_t bins;
    const tl_logs *logs;
} tl_logs_entry;

TL_API int64_t tl_logs_count(const tl_logs *l);
TL_API void tl_logs_at(tl_logs_entry *out, const tl_logs *l, int64_t index);
/* False when there is no such entry. */
TL_API bool tl_logs_find(tl_logs_entry *out, const tl_logs *l, const char *path);
/* The number of an entry or at a path: here a device is waited for. TL_ENOTFOUND, or TL_EINVAL for
 * what is no number. */
TL_API TL_NODISCARD tl_status tl_logs_entry_number(double *out, const tl_logs_entry *entry);
TL_API TL_NODISCARD tl_status tl_logs_number(double *out, const tl_logs *l, const char *path);
/* `otherwise` when there is no such number. */
TL_API double tl_logs_number_or(const tl_logs *l, const char *path, double otherwise);

/* Called for each entry but logs themselves, in order. A failure ends the walk and is handed on. */
typedef tl_status tl_logs_fn(const tl_logs_entry *entry, void *payload);
TL_API TL_NODISCARD tl_status tl_logs_walk(const tl_logs *l, tl_logs_fn *fn, void *payload);

/* The elements of a histogram as event files want them: bin i holds those from edges[i] to edges[i
 * + 1], the last one its upper edge too. NaN and infinities are in no bin and no sum. */
typedef struct tl_histogram {
    int64_t count, strange;            /* finite elements, and others */
    double min, max, sum, sum_squares; /* 0 when there are no finite elements */
    int64_t bins;
    const double *edges;   /* bins + 1 of them */
    const int64_t *counts; /* bins of them */
} tl_histogram;
/* In the arena. */
TL_API TL_NODISCARD tl_status tl_logs_entry_histogram(tl_histogram *out, tl_arena *arena,
                                                      const tl_logs_entry *entry);

/* What the console shows: "loss: 0.3127, validation: {accuracy: 0.93}"; images and histograms by
 * their type. Reads the numbers. */
TL_API TL_NODISCARD tl_status tl_logs_text(tl_str *out, const tl_logs *l);

TL_END

#endif
