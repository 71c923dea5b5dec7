/* Private to tool: which classes are taken for which, as a table.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_TOOL_CONFUSION_H
#define TILTH_SRC_TOOL_CONFUSION_H

#include <tilth/base/str.h>

#include "io/inner/json_text.h"

typedef struct tli_confusion {
    const char *const *names; /* of the classes */
    /* [classes, classes]: of each class (row) what its examples were taken for */
    const double *counts;
    int64_t classes;
} tli_confusion;

/* A head with what they were taken for, and a row for each class. */
void tli_confusion_csv(tl_str *out, const tli_confusion *k);
/* {"classes": [...], "counts": [[...], ...]}; `key` as in json_text.h. */
void tli_confusion_json(tli_json *j, const char *key, const tli_confusion *k);
/* A picture: the darker, the larger a share of its row. */
void tli_confusion_svg(tl_str *out, const tli_confusion *k);

/* Quoted where a table of commas needs it. */
void tli_csv_add(tl_str *out, const char *text);

#endif
