/* Summary managers: logs in, event files out.
 *
 *     tl_summary_manager *m;
 *     TL_TRY(tl_summary_manager_new(
 *         &m, &tl_summary_manager_scalars,
 *         &(tl_summary_manager_args){.dir = "run1/train", .step = &step}));
 *     TL_TRY_DONE(st, tl_summary_manager_write(m, logs));             // at the step of that moment
 *     st = tl_summary_manager_flush(m);
 * done:
 *     tl_summary_manager_free(&m);
 *
 * Logs within logs go to folders below `dir`, which TensorBoard shows as runs of their own. Folders
 * and files are made when the first thing is written to them; a manager without `dir` is off, and
 * makes none.
 *
 * A manager of one's own overrides what it does differently, most often one method:
 *
 *     static tl_status write_entry(tl_summary_manager *m, tl_event_file *f, int64_t step,
 *                                  const tl_logs_entry *e)
 *     {
 *         if (e->kind == TL_LOGS_NUMBER && strcmp(e->name, "loss") == 0) ...;
 *         return tl_summary_manager_scalars.write_entry(m, f, step, e);          // "super"
 *     }
 *     static const tl_summary_manager_class mine = {
 *         .cls = TL_CLASS(tl_summary_manager_class, "mine", &tl_summary_manager_scalars.cls,
 *                         tl_summary_manager, NULL),
 *         .write_entry = write_entry};
 *
 * Ownership: the caller's. Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_SUMMARY_H
#define TILTH_TRAIN_SUMMARY_H

#include <tilth/desc/class.h>
#include <tilth/io/tensorflow/event_file.h>

TL_BEGIN

typedef struct tl_summary_manager tl_summary_manager;
typedef struct tl_summary_manager_args tl_summary_manager_args;
typedef struct tli_summary_files tli_summary_files;

typedef struct tl_summary_manager_class {
    tl_class cls;
    /* (optional: nothing) The head is filled already. */
    tl_status (*init)(tl_summary_manager *m, const tl_summary_manager_args *args);
    /* Hands what was written to the system. */
    tl_status (*flush)(tl_summary_manager *m);
    /* The event file of a folder below `dir` ("" is `dir` itself), made when it is not there; NULL,
     * which takes everything, when the manager is off. It belongs to the manager. */
    tl_status (*summary_writer)(tl_event_file **out, tl_summary_manager *m,
                                const char *relative_path);
    /* All of the logs, at the step of this moment. */
    tl_status (*write_summaries)(tl_summary_manager *m, const tl_logs *logs);
    /* One entry that is not logs, under its name. What write_summaries of the classes here
     * calls. */
    tl_status (*write_entry)(tl_summary_manager *m, tl_event_file *f, int64_t step,
                             const tl_logs_entry *entry);
    /* (optional) Gives back what `init` made, also when that failed half-way. */
    void (*dispose)(tl_summary_manager *m);
    /* (optional: nothing; of the classes here: all files) The run goes back: takes out what was
     * written of steps after `keep_to`. */
    tl_status (*rewind)(tl_summary_manager *m, int64_t keep_to);
} tl_summary_manager_class;
TL_API extern const tl_kind tl_kind_summary_manager;

/* First member of every manager's struct. Members are for reading. */
struct tl_summary_manager {
    const tl_summary_manager_class *cls;
    const char *dir; /* NULL: off */
    const int64_t *step;
    int64_t max_outputs;
    tl_opt_int keep_to;
    tli_summary_files *files; /* the event files that are open */
};

struct tl_summary_manager_args {
    const char *dir; /* NULL: off. Copied */
    /* required: read whenever something is written; must outlive the manager */
    const int64_t *step;
    int64_t max_outputs; /* (optional: 20) images of a batch */
    /* (optional: all stays) the run goes on after this step: see event_file.h. Done at once, in
     * `dir` and all folders below it */
    tl_opt_int keep_to;
    const void *config; /* for `init` of a class of one's own */
};

/* Numbers only, as the original's default has it; other entries are left out, with one notice. Base
 * of the others. */
TL_API extern const tl_summary_manager_class tl_summary_manager_scalars;
/* Numbers, images, histograms and text: Model Garden's ImageScalarSummaryManager and more. An entry
 * goes by its kind; a tensor [count, height, width, channels] under a name that begins with
 * "image/" is a batch of images, as in the original, of which max_outputs are written. */
TL_API extern const tl_summary_manager_class tl_summary_manager_images;

TL_API TL_NODISCARD tl_status tl_summary_manager_new(tl_summary_manager **out,
                                                     const tl_summary_manager_class *cls,
                                                     const tl_summary_manager_args *args);
/* Closes all files, which brings them to the disk. NULL is fine. */
TL_API void tl_summary_manager_free(tl_summary_manager **m);

/* The methods, looked up along the chain of classes. A NULL manager is one that is off. */
TL_API TL_NODISCARD tl_status tl_summary_manager_flush(tl_summary_manager *m);
TL_API TL_NODISCARD tl_status tl_summary_manager_writer(tl_event_file **out, tl_summary_manager *m,
                                                        const char *relative_path);
TL_API TL_NODISCARD tl_status tl_summary_manager_write(tl_summary_manager *m, const tl_logs *logs);

/* For a run that goes back while the manager is open. Files that were asked for stay valid. */
TL_API TL_NODISCARD tl_status tl_summary_manager_rewind(tl_summary_manager *m, int64_t keep_to);

/* Brings all open files to the disk: before a checkpoint that they must not lag behind. */
TL_API TL_NODISCARD tl_status tl_summary_manager_sync(tl_summary_manager *m);

TL_END

#endif
