/* The best checkpoint of a run, by a metric of its evaluations.
 *
 *     tl_exporter *e;
 *     TL_TRY(tl_exporter_new(
 *         &e, &(tl_exporter_args){.dir = "run1/best_ckpt", .metric = "accuracy"}));
 *     TL_TRY(tl_exporter_maybe_export(e, state, logs, step, &exported));
 *     tl_exporter_free(&e);
 *
 * Files: best_ckpt-STEP.safetensors, one at a time; `checkpoint`; info.json with the metrics of
 * that evaluation, which is written after the checkpoint is in place. A new process goes on from
 * info.json.
 *
 * Ownership: the caller's. Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_EXPORTER_H
#define TILTH_TRAIN_EXPORTER_H

#include <tilth/core/logs.h>
#include <tilth/core/state.h>
#include <tilth/train/experiment.h>
#include <tilth/train/run/notes.h>

TL_BEGIN

typedef struct tl_exporter tl_exporter;

typedef struct tl_exporter_args {
    const char *dir;     /* made by the first export when it is not there */
    const char *metric;  /* "accuracy"; "a|b" for b in a */
    tl_metric_comp comp; /* (optional: higher is better) */
} tl_exporter_args;
TL_API TL_NODISCARD tl_status tl_exporter_new(tl_exporter **out, const tl_exporter_args *args);
/* NULL is fine. */
TL_API void tl_exporter_free(tl_exporter **e);
/* Notes that its checkpoints get from now on; borrowed. */
TL_API void tl_exporter_set_notes(tl_exporter *e, const tl_notes *notes);
/* The one that an experiment wants: *out is NULL when it names no folder or no metric. */
TL_API TL_NODISCARD tl_status tl_maybe_create_best_ckpt_exporter(tl_exporter **out,
                                                                 const tl_trainer_config *params,
                                                                 const char *model_dir);

/* Saves the state when the metric is better than any before; one that is not a number never is.
 * Puts best_METRIC into the logs. A metric that is not in the logs is TL_ENOTFOUND, with those that
 * are. `exported` may be NULL. */
TL_API TL_NODISCARD tl_status tl_exporter_maybe_export(tl_exporter *e, const tl_state *state,
                                                       tl_logs *logs, int64_t global_step,
                                                       bool *exported);
/* The numbers of the best evaluation so far, best_ckpt_global_step among them; NULL before the
 * first. */
TL_API const tl_logs *tl_exporter_best_logs(const tl_exporter *e);
/* The file of the best checkpoint; NULL before the first. */
TL_API const char *tl_exporter_best_path(const tl_exporter *e);

TL_END

#endif
