/* Private to tool: what runs have left in their folders, read to be compared: settings and curves.
 *
 * From params.yaml, or config.yaml of `train_net`; metrics.jsonl (metrics_file.h), or, of runs that
 * have none, the metrics of the best checkpoint. Files may be of anybody, half-written or damaged:
 * what cannot be read is told.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_TOOL_RUNS_H
#define TILTH_SRC_TOOL_RUNS_H

#include <tilth/train/experiment.h>

#include "desc/inner/flatten.h"
#include "tool/tool.h"

typedef struct tli_point {
    int64_t step;
    double value;  /* NaN: it was not finite */
    int64_t order; /* in the file */
} tli_point;

/* The values of a metric, by step; each step once. Those of evaluations have the name that they are
 * told under, those of the training "train/NAME". */
typedef struct tli_curve {
    const char *name;
    tli_point *items;
    int64_t count, capacity;
} tli_curve;

typedef struct tli_past_run {
    const char *folder, *name; /* the name is what tells it from the others */
    const char *problem;       /* NULL: none; else what cannot be read */
    bool usable;               /* there is something to be told */
    const char *experiment;    /* NULL: unknown */
    const char *state; /* "done", "stopped", "signal", "error", or "unfinished": no end is there */
    bool finished;     /* of a training: done or stopped */
    int64_t step;      /* the last one that is known */
    double seconds;    /* of all that is known; NaN: nothing */
    const char *best_metric; /* that chooses its best checkpoint; "": none */
    tl_metric_comp best_comp;
    tli_settings settings;
    /* in the order in which they first came */
    struct {
        tli_curve *items;
        int64_t count, capacity;
    } curves;
} tli_past_run;

typedef struct tli_past_runs {
    tli_past_run *items;
    int64_t count;
} tli_past_runs;

/* Reads all of them; those that are not usable say why. Free is due also after a failure. */
TL_NODISCARD tl_status tli_past_runs_read(tli_past_runs *out, tl_arena *arena, tl_strings folders);
void tli_past_runs_free(tli_past_runs *runs);
/* Whether a training in this folder came to its end, as metrics.jsonl says. */
TL_NODISCARD tl_status tli_past_run_finished(bool *out, const char *folder);

/* NULL when there is none of that name. */
const tli_curve *tli_past_run_curve(const tli_past_run *r, const char *name);

typedef struct tli_summary {
    bool known; /* there is a finite value */
    double best, last;
    int64_t best_step, last_step;
} tli_summary;
tli_summary tli_curve_summary(const tli_curve *curve, tl_metric_comp comp);

/* Whether higher is better: as the runs say, or else as the name sounds. */
tl_metric_comp tli_metric_comp_of(const tli_past_runs *runs, const char *metric);
/* The metric that most is said with: what chooses the best checkpoint, the loss of evaluations, of
 * training, or what there is. NULL: there is none. */
const char *tli_past_runs_metric(const tli_past_runs *runs);
/* The name of a metric as the curves have it: of evaluations, or else of the training.
 * TL_ENOTFOUND, with those that there are, when no run has it. */
TL_NODISCARD tl_status tli_past_runs_find(const char **out, const tli_past_runs *runs,
                                          const char *metric);
/* What was wrong, as one failure; TL_OK when nothing was. */
TL_NODISCARD tl_status tli_past_runs_problems(const tli_past_runs *runs);

/* --- comparing (compare.c) -------------------------------------------------------------------- */

typedef enum tli_layout { TLI_LAYOUT_TABLE, TLI_LAYOUT_JSON, TLI_LAYOUT_CSV } tli_layout;
typedef struct tli_compare_args {
    tl_strings metrics; /* none: the one that most is said with */
    const char *sort;   /* NULL: the first metric, best first */
    tli_layout layout;
} tli_compare_args;
/* Adds the table of settings that differ and metrics to the run's text. */
TL_NODISCARD tl_status tli_compare(tli_run *run, tli_past_runs *runs, const tli_compare_args *args);

/* --- tables (sheet.c) ------------------------------------------------------------------------- */

typedef struct tli_column {
    const char *title, *full; /* for people, and in CSV */
    bool right;
    const char **cells;
} tli_column;
typedef struct tli_sheet {
    tl_arena *arena;
    int64_t rows;
    struct {
        tli_column *items;
        int64_t count, capacity;
    } columns;
} tli_sheet;
/* A column with empty cells. */
TL_NODISCARD tl_status tli_sheet_add(tli_column **out, tli_sheet *t, const char *title,
                                     const char *full, bool right);
/* In parts below each other, all with the first column, when it is wider than `width`. */
void tli_sheet_write(tl_str *out, const tli_sheet *t, int width);
void tli_sheet_write_csv(tl_str *out, const tli_sheet *t);
/* A text in so many columns at most, without what a terminal would obey. */
void tli_add_cut(tl_str *out, const char *text, int width);
/* Columns that a text takes on a terminal, when each character takes one. */
int tli_columns(const char *text);

#endif
