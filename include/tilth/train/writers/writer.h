/* Event writers: what is in an event storage goes to the console, to metrics.json, to TensorBoard,
 * or where one's own writer brings it.
 *
 *     tl_event_writer *writers[2];
 *     tl_console_writer_args console = {.batch_size = 64, .max_iteration = 1000};
 *     TL_TRY(tl_event_writer_new(&writers[0], &tl_console_writer, &console));
 *     tl_json_writer_args json = {.path = "run1/metrics.json"};
 *     TL_TRY(tl_event_writer_new(&writers[1], &tl_json_writer, &json));
 *     ...
 *     if (tl_event_writers_due(iteration, 20, 1000))
 *         TL_TRY(tl_event_writers_write(writers, 2, storage));
 *     ...
 *     TL_TRY(tl_event_writers_finish(writers, 2, storage)); // after training: writes once more
 *     for (int i = 0; i < 2; i++) tl_event_writer_free(&writers[i]);
 *
 * A writer writes what is newer than what it wrote before: a metric that was not put again is not
 * repeated, and one that is put under an iteration that was written already is lost. So results
 * that come after the last step are put at an iteration of their own:
 * tl_event_storage_set_iteration(s, max_iteration).
 *
 * Iterations count from 0, as in LiBai: the step of iteration i is i + 1.
 *
 * A writer that derives from one that is here begins with its struct, tl_NAME_writer_instance,
 * whose members are private; with an `init` of its own, it calls that of the base.
 *
 * Ownership: the caller's. Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_WRITER_H
#define TILTH_TRAIN_WRITER_H

#include <tilth/desc/class.h>
#include <tilth/train/writers/storage.h>

TL_BEGIN

typedef struct tl_event_writer tl_event_writer;

typedef struct tl_event_writer_class {
    tl_class cls;
    /* (optional: nothing) The arguments are what tl_event_writer_new was given. */
    tl_status (*init)(tl_event_writer *w, const void *args);
    /* What is new in the storage. It may put scalars of its own. */
    tl_status (*write)(tl_event_writer *w, tl_event_storage *s);
    /* (optional: nothing) Brings what was written to the disk. */
    tl_status (*sync)(tl_event_writer *w);
    /* (optional: nothing) Called once. Nothing is written afterwards. */
    tl_status (*close)(tl_event_writer *w);
    /* (optional) Gives back what `init` made, also when that failed half-way. */
    void (*dispose)(tl_event_writer *w);
    /* (optional: nothing) The run goes back: takes out what was written of iterations after
     * `keep_to`. */
    tl_status (*rewind)(tl_event_writer *w, int64_t keep_to);
} tl_event_writer_class;
TL_API extern const tl_kind tl_kind_event_writer;

/* First member of every writer's struct. Members are for reading. */
struct tl_event_writer {
    const tl_event_writer_class *cls;
    bool closed;
};

TL_API TL_NODISCARD tl_status tl_event_writer_new(tl_event_writer **out,
                                                  const tl_event_writer_class *cls,
                                                  const void *args);
/* Closes it when nobody did; that failing is a message of level error. NULL is fine. */
TL_API void tl_event_writer_free(tl_event_writer **w);
/* The methods. Writing to a closed writer is TL_ESTATE; closing it twice is fine. */
TL_API TL_NODISCARD tl_status tl_event_writer_write(tl_event_writer *w, tl_event_storage *s);
TL_API TL_NODISCARD tl_status tl_event_writer_sync(tl_event_writer *w);
TL_API TL_NODISCARD tl_status tl_event_writer_close(tl_event_writer *w);
TL_API TL_NODISCARD tl_status tl_event_writer_rewind(tl_event_writer *w, int64_t keep_to);

/* --- several ---------------------------------------------------------------------------------- */

/* True after the last iteration of each period and after the very last one. A period of 0 or less
 * is due after the very last one only. */
TL_API bool tl_event_writers_due(int64_t iteration, int64_t period, int64_t max_iteration);
/* Each in its turn. One that fails does not keep the others from writing; the first failure is
 * handed on. */
TL_API TL_NODISCARD tl_status tl_event_writers_write(tl_event_writer *const *writers, int64_t count,
                                                     tl_event_storage *s);
TL_API TL_NODISCARD tl_status tl_event_writers_sync(tl_event_writer *const *writers, int64_t count);
/* For a run that goes back while they are open; tl_event_storage_rewind does the same for the
 * storage. */
TL_API TL_NODISCARD tl_status tl_event_writers_rewind(tl_event_writer *const *writers,
                                                      int64_t count, int64_t keep_to);
/* Writes once more, so that what came after the last step is there, and closes. All are closed
 * whatever fails; the first failure is handed on. */
TL_API TL_NODISCARD tl_status tl_event_writers_finish(tl_event_writer *const *writers,
                                                      int64_t count, tl_event_storage *s);

/* --- the console ------------------------------------------------------------------------------ */

/* One line, LiBai's:
 *
 *     eta: 0:04:05  iteration: 19/1000  consumed_samples: 640  total_loss: 1.93
 *     time: 0.2500 s/iter  data_time: 0.0100 s/iter  total_throughput: 256.00 samples/s
 *     lr: 1.00e-04
 *
 * Every scalar with "loss" in its name (median of 200), "time" (average over all), "data_time"
 * (average of 20) and "lr" (the last one) are taken from the storage, where they are there; and
 * after them, likewise,
 *
 *     name in the storage     shown as
 *     grad_norm               grad_norm: 1.034
 *     examples_per_second     examples/s: 256.0
 *     tokens_per_second       tokens/s: 131072
 *     memory_bytes            max_mem: 812M
 *     data_wait               data_wait: 4.0%          (share of the time spent waiting for data)
 *     mfu                     mfu: 41.2%               (share of the machine's peak)
 *     ...[metric]...          by its name, %.4g
 *
 * The time left is the median of the last 1000 "time"s for each iteration to come; it is put into
 * the storage as "eta_seconds", so the console comes before the other writers. Nothing is said at
 * max_iteration itself, which is where results after the last step are put. */
typedef struct tl_console_writer_args {
    int64_t batch_size;    /* examples of one iteration; 0: no total_throughput */
    int64_t max_iteration; /* 0: no end is known, and no time left */
    void (*say)(const char *line, void *payload); /* (optional: a message of level info) */
    void *payload;
} tl_console_writer_args;
typedef struct tl_console_writer_instance {
    tl_event_writer base;
    tl_console_writer_args args;
    bool wrote;             /* before there was a "time" */
    int64_t last_iteration; /* then */
    int64_t last_ns;
} tl_console_writer_instance;
TL_API extern const tl_event_writer_class tl_console_writer;

/* --- metrics.json ----------------------------------------------------------------------------- */

/* A line for each iteration that has something new, with sorted keys:
 *
 *     {"data_time": 0.01, "eta_seconds": 12.3, "iteration": 19, "lr": 0.0001, "time": 0.25,
 *      "total_loss": 1.9}
 *
 * What is not finite is null. Lines are appended and handed to the system at once, and to the disk
 * at most once a second and when it is closed. A last line that a killed process left half is
 * removed. */
typedef struct tl_json_writer_args {
    const char *path; /* its folder is made when it is not there */
    int64_t window;   /* (optional: TL_EVENT_WINDOW) of the median of what is smoothed */
    /* (optional: all stay) lines of iterations after this one are removed: the run goes on after
     * it. {true, step - 1} for a run resumed at `step` */
    tl_opt_int keep_to;
    bool later; /* the file is not touched before it is rewound or written to */
} tl_json_writer_args;
typedef struct tl_event_latest_list {
    tl_event_latest *items;
    int64_t count, capacity;
} tl_event_latest_list;
typedef struct tl_json_writer_instance {
    tl_event_writer base;
    char *path;
    struct tli_append *file; /* NULL when it could not be opened again */
    int64_t window;
    int64_t written; /* the last iteration that is in the file */
    tl_event_latest_list fresh;
    tl_str lines;
} tl_json_writer_instance;
TL_API extern const tl_event_writer_class tl_json_writer;

/* --- TensorBoard ------------------------------------------------------------------------------ */

/* Scalars, images, histograms and text as events whose step is the iteration. The file is made when
 * there is something to write. */
typedef struct tl_tensorboard_writer_args {
    const char *folder;
    int64_t window;     /* (optional: TL_EVENT_WINDOW) of the median of what is smoothed */
    tl_opt_int keep_to; /* (optional: all stay) as for metrics.json; done at once */
} tl_tensorboard_writer_args;
typedef struct tl_tensorboard_writer_instance {
    tl_event_writer base;
    char *folder;
    struct tl_event_file *file; /* NULL until there is something to write */
    tl_opt_int keep_to;
    int64_t window;
    int64_t written; /* the last iteration that is in the file */
} tl_tensorboard_writer_instance;
TL_API extern const tl_event_writer_class tl_tensorboard_writer;

TL_END

#endif
