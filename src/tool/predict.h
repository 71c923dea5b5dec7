/* Private to the command `predict`: queries on their way to a predictor, and answers on their way
 * out.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_TOOL_PREDICT_H
#define TILTH_SRC_TOOL_PREDICT_H

#include <tilth/base/map.h>
#include <tilth/builtin/predictor.h>
#include <tilth/data/image.h>

#include "io/inner/json_text.h"
#include "tool/tool.h"

enum {
    TLI_ASKED_AT_ONCE = 64,
    TLI_MAPPED_AT_ONCE = 8,    /* where answers are as large as pictures */
    TLI_TOLD_AT_ONCE = 1 << 16 /* bytes */
};

typedef struct tli_predict_flags {
    int64_t top, count;
    bool csv, json;
    const char *text_columns;
    double score;
    const char *pictures;
} tli_predict_flags;

typedef struct tli_asking tli_asking;

/* One answer, on its way out. */
typedef struct tli_telling {
    const tli_asking *asking;
    const char *file; /* what it is called */
    const tl_prediction *answer;
    /* files of --pictures; NULL: there are none */
    const char *picture, *labels;
} tli_telling;

/* How answers of one form are told. */
typedef struct tli_teller {
    void (*plainly)(tl_str *out, const tli_telling *t);
    void (*json)(tl_str *out, const tli_telling *t);
    void (*head)(tl_str *out, const tli_telling *t); /* of the table */
    void (*rows)(tl_str *out, const tli_telling *t);
    /* NULL: there is nothing to be drawn */
    void (*draw)(const tl_pixels *picture, const tli_telling *t);
} tli_teller;
extern const tli_teller tli_tell_objects; /* of those with a score of at least `--score` */
extern const tli_teller tli_tell_pixels;

/* Without digits that float32 does not have. */
double tli_rounded(double value, int digits);
/* Members for files of --pictures, where there are some. */
void tli_json_pictures(tli_json *j, const tli_telling *t);

struct tli_asking {
    tli_run *run;
    const tli_predict_flags *flags;
    tl_predictor *p;
    const tli_teller *teller;
    /* not answered yet; their `file` is what they are called */
    tl_query queries[TLI_ASKED_AT_ONCE];
    int64_t waiting, at_once;
    tl_arena *names;               /* of those */
    int64_t told, failed, undrawn; /* the last are told */
    tl_str text;                   /* what is told next */
    bool begun;                    /* the head of the table is written */
    tl_strings columns;            /* of tables: that it has from their files */
    bool ended;                    /* the model, or standard output, has failed: nothing goes on */
    tl_map drawn;                  /* names of files below --pictures, and how often they came */
    struct tli_folder_hold *hold;  /* of --pictures: nothing there is written through a link */
};

/* The configuration of the task that answers: of a distillation, the student's. */
tl_object tli_answering(const tl_experiment_config *params);

/* One more; answers come when there are enough. The name is copied, data must stay until
 * tli_ask_flush. */
TL_NODISCARD tl_status tli_ask(tli_asking *a, const char *name, const tl_query *query);
/* Answers what waits. */
TL_NODISCARD tl_status tli_ask_flush(tli_asking *a);
/* The last failure is that of something that was to be asked: it is told, and the rest goes on. One
 * that ended all, or of memory, stays what it is. */
TL_NODISCARD tl_status tli_ask_failed(tli_asking *a, tl_status status);

/* Tells an answer; tli_ask_flush brings it out. */
void tli_ask_tell(tli_asking *a, const tli_telling *t);

/* Draws an answer into its picture, which becomes a PNG file below --pictures, and the classes of
 * pixels into another; t->picture and t->labels are set to their paths. */
TL_NODISCARD tl_status tli_draw_answer(tli_asking *a, const tl_query *query, tli_telling *t);
/* Fails where a picture, or a folder of them, lies in --pictures, where it could be replaced. */
TL_NODISCARD tl_status tli_check_apart(const tli_asking *a, const char *path);

/* What one word of the command line names, of image classification: an image, a folder with images
 * in it and below it, or a file with several: idx, TFRecord. */
TL_NODISCARD tl_status tli_ask_images(tli_asking *a, const char *path);
/* The same of tables: a file whose rows are told as FILE:LINE, or as they are with the answers
 * behind them (--csv). */
TL_NODISCARD tl_status tli_ask_table(tli_asking *a, const char *path);
/* The same of texts: rows of CSV, TSV and JSONL, and lines of all else, told as FILE:LINE;
 * files that are a text each, where the run was trained with such; `-` is standard input. */
TL_NODISCARD tl_status tli_ask_texts(tli_asking *a, const char *path);
/* Files in a folder and below it, sorted; links that lead to the same folder again are not
 * followed. */
TL_NODISCARD tl_status tli_ask_below(tli_asking *a, const char *path,
                                     bool (*is_wanted)(const char *path),
                                     tl_status (*ask)(tli_asking *a, const char *path),
                                     int64_t *found);

#endif
