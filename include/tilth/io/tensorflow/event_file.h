/* TensorBoard's event files: scalars, images, histograms, text and hyper-parameters, written and
 * read.
 *
 *     tl_event_file *f;
 *     TL_TRY(tl_event_file_open(&f, &(tl_event_file_args){.folder = "run1/train"}));
 *     TL_TRY_DONE(st, tl_event_file_scalar(f, step, "loss", 0.31));
 *     TL_TRY_DONE(st, tl_event_file_image(f, step, "image/input", image, 0));
 *     st = tl_event_file_flush(f);
 * done:
 *     tl_event_file_close(&f);
 *
 * Each writer makes a file of its own in the folder,
 * `events.out.tfevents.<time>.<host>.<pid>.<number>`, with a time after that of every other one
 * there, since TensorBoard reads them in the order of their names.
 *
 * A run that goes back to an earlier step (it was killed after its last checkpoint) says which one
 * with `keep_to`: what our own writers wrote there for later steps is taken out of the files, what
 * is there for that step itself is not written twice, and a TensorBoard that is looking drops what
 * it had read. So each step is told once, however often a run was ended. Files that somebody else
 * wrote, and those that a living writer has open, are left alone.
 *
 * A NULL file takes everything and does nothing: what is written when summaries are off.
 *
 * Ownership: the caller's. Thread word: one thread at a time. */
#ifndef TILTH_IO_EVENT_FILE_H
#define TILTH_IO_EVENT_FILE_H

#include <tilth/core/logs.h>
#include <tilth/desc/desc.h>

TL_BEGIN

/* --- writing ---------------------------------------------------------------------------------- */

typedef struct tl_event_file tl_event_file;

typedef struct tl_event_file_args {
    const char *folder; /* made when it is not there */
    const char *suffix; /* (optional: none) at the end of the file's name */
    tl_opt_int keep_to; /* (optional: everything stays) the last step whose events are kept */
} tl_event_file_args;

TL_API TL_NODISCARD tl_status tl_event_file_open(tl_event_file **out,
                                                 const tl_event_file_args *args);
/* Writes what is left, to the disk, and frees the writer also when that fails. NULL is fine. Who
 * wants to know calls tl_event_file_sync before; here a failure is a message of level error. */
TL_API void tl_event_file_close(tl_event_file **f);
/* "" for a NULL file. */
TL_API const char *tl_event_file_path(const tl_event_file *f);

/* Hands what was written to the system: it survives the end of the process. */
TL_API TL_NODISCARD tl_status tl_event_file_flush(tl_event_file *f);
/* The same, and waits for the disk: it survives the end of the machine. */
TL_API TL_NODISCARD tl_status tl_event_file_sync(tl_event_file *f);

/* Stored as float32. */
TL_API TL_NODISCARD tl_status tl_event_file_scalar(tl_event_file *f, int64_t step, const char *tag,
                                                   double value);
/* [height, width, channels], or a batch of such of which at most `most` are written (0: 3, as
 * TensorFlow has it): uint8, or floats from 0 to 1. */
TL_API TL_NODISCARD tl_status tl_event_file_image(tl_event_file *f, int64_t step, const char *tag,
                                                  const tl_tensor *image, int64_t most);
TL_API TL_NODISCARD tl_status tl_event_file_histogram(tl_event_file *f, int64_t step,
                                                      const char *tag, const tl_histogram *h);
/* Shown as Markdown. */
TL_API TL_NODISCARD tl_status tl_event_file_text(tl_event_file *f, int64_t step, const char *tag,
                                                 const char *text);
/* An entry of logs by its kind, under its name. Here its tensor is read. Tensors that are neither
 * number, image nor histogram are left out; logs within logs are refused: they are folders of their
 * own (train/writers/summary.h). */
TL_API TL_NODISCARD tl_status tl_event_file_entry(tl_event_file *f, int64_t step,
                                                  const tl_logs_entry *entry);

/* --- hyper-parameters ------------------------------------------------------------------------- */

typedef enum tl_hparam_kind { TL_HPARAM_NUMBER, TL_HPARAM_TEXT, TL_HPARAM_BOOL } tl_hparam_kind;
typedef struct tl_hparam {
    const char *name;
    tl_hparam_kind kind;
    double number; /* the member that the kind names */
    const char *text;
    bool truth;
} tl_hparam;
typedef struct tl_hparam_metric {
    const char *tag;   /* of a scalar in the runs */
    const char *group; /* (optional: "") folder of its event file below the run's: "validation" */
    const char *title; /* (optional: the tag) what the column says */
} tl_hparam_metric;

/* What varies between the runs below this folder, and by what they are judged: written once, in the
 * folder above the runs. TensorBoard finds out by itself where it is missing. */
TL_API TL_NODISCARD tl_status tl_event_file_hparams(tl_event_file *f, const tl_hparam *params,
                                                    int64_t count, const tl_hparam_metric *metrics,
                                                    int64_t metric_count);
/* The values of one run, at its start. `group` (optional: none) names runs that differ in their
 * seed only. */
TL_API TL_NODISCARD tl_status tl_event_file_run_start(tl_event_file *f, const tl_hparam *params,
                                                      int64_t count, const char *group);
/* How the run ended. */
TL_API TL_NODISCARD tl_status tl_event_file_run_end(tl_event_file *f, bool success);

/* --- going back ------------------------------------------------------------------------------- */

/* The run goes back to step `keep_to` while the file is open: what it, and our other files in its
 * folder, say about later steps is taken out, and the rest goes to a new file. */
TL_API TL_NODISCARD tl_status tl_event_file_rewind(tl_event_file *f, int64_t keep_to);
/* Takes the events after step `keep_to` out of our files in the folder, and below it when `deep`;
 * files with nothing left are removed, but for the newest one. What tl_event_file_open does with
 * keep_to, for folders that may not be written again. A folder that does not exist is fine. Each
 * file is replaced in one step: whoever looks sees the old or the new one. */
TL_API TL_NODISCARD tl_status tl_event_folder_rewind(const char *folder, int64_t keep_to,
                                                     bool deep);

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct tl_event_bytes {
    const char *data; /* with a NUL after the last one, which `size` does not count */
    size_t size;
} tl_event_bytes;

/* A value of an event. Which members hold something follows from the plug-in. */
typedef struct tl_event_value {
    const char *tag;
    const char *
        plugin; /* "scalars", "images", "histograms", "text", "hparams", ...; "" when nobody said */
    double number;      /* scalars, also those of the old style */
    const double *rows; /* histograms: left, right, count of each bucket */
    int64_t row_count;
    const tl_event_bytes *strings; /* text; images: width, height, then PNG files */
    int64_t string_count;
    tl_event_bytes content; /* what the plug-in put beside the value, in its first event */
} tl_event_value;

typedef struct tl_event {
    double wall_time;
    int64_t step;
    const char *file_version; /* "brain.Event:2" in the first event of a file, otherwise "" */
    const char *writer;       /* who wrote the file, in its first event; "" when it does not say */
    /* 0: none; 1: a session starts at this step, 2: it stops, 3: checkpoint */
    int session;
    const tl_event_value *values;
    int64_t count;
} tl_event;

typedef struct tl_event_reader tl_event_reader;
TL_API TL_NODISCARD tl_status tl_event_reader_open(tl_event_reader **out, const char *path);
/* NULL is fine. */
TL_API void tl_event_reader_close(tl_event_reader **r);
/* The next event, valid until the next call; *more is false at the end, which is also where a last
 * record was cut short by a process that ended while it wrote. A damaged record is TL_EINVAL. */
TL_API TL_NODISCARD tl_status tl_event_reader_next(tl_event_reader *r, tl_event *out, bool *more);
/* True when the end was a record cut short. */
TL_API bool tl_event_reader_cut(const tl_event_reader *r);

TL_END

#endif
