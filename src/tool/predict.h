/* Private to the command `predict`: queries on their way to a predictor, and answers on their way
 * out.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_TOOL_PREDICT_H
#define TILTH_SRC_TOOL_PREDICT_H

#include <tilth/builtin/predictor.h>

#include "tool/tool.h"

enum { TLI_ASKED_AT_ONCE = 64, TLI_TOLD_AT_ONCE = 1 << 16 /* bytes */ };

typedef struct tli_predict_flags {
    int64_t top, count;
    bool csv, json;
    const char *text_columns;
    double score;
    const char *pictures;
} tli_predict_flags;

typedef struct tli_asking {
    tli_run *run;
    const tli_predict_flags *flags;
    tl_predictor *p;
    /* not answered yet; their `file` is what they are called */
    tl_query queries[TLI_ASKED_AT_ONCE];
    int64_t waiting;
    tl_arena *names; /* of those */
    int64_t told, failed;
    tl_str text;        /* what is told next */
    bool begun;         /* the head of the table is written */
    tl_strings columns; /* of tables: that it has from their files */
    bool ended;         /* the model, or standard output, has failed: nothing goes on */
} tli_asking;

/* One more; answers come when there are enough. The name is copied, data must stay until
 * tli_ask_flush. */
TL_NODISCARD tl_status tli_ask(tli_asking *a, const char *name, const tl_query *query);
/* Answers what waits. */
TL_NODISCARD tl_status tli_ask_flush(tli_asking *a);
/* The last failure is that of something that was to be asked: it is told, and the rest goes on. One
 * that ended all, or of memory, stays what it is. */
TL_NODISCARD tl_status tli_ask_failed(tli_asking *a, tl_status status);

/* Objects that were found in a picture, in the ways that answers are told; of those with a score of
 * at least `--score`. */
void tli_objects_plainly(tl_str *out, const tli_asking *a, const char *file,
                         const tl_prediction *found);
void tli_objects_head(tl_str *out);
void tli_objects_rows(tl_str *out, const tli_asking *a, const char *file,
                      const tl_prediction *found);
void tli_objects_json(tl_str *out, const tli_asking *a, const char *file,
                      const tl_prediction *found);
/* The picture with boxes and labels, as a PNG file in `--pictures`. */
TL_NODISCARD tl_status tli_objects_draw(const tli_asking *a, const tl_query *query,
                                        const tl_prediction *found);

/* Tells an answer; tli_ask_flush brings it out. */
void tli_ask_tell(tli_asking *a, const char *file, const tl_prediction *answer);

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
