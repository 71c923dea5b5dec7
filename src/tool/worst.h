/* Private to tool: the worst mistakes of an evaluation, as examples that people can look at.
 *
 *     tl_str text = TL_STR_INIT;
 *     TL_TRY_DONE(st, tli_worst_find(&text, &finished, -1));      // JSON, for the page of the run
 *
 * Of classes: those that are wrong, the surest first. Of numbers: the largest errors. The
 * validation data is read twice: once to find them, once to show them.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_TOOL_WORST_H
#define TILTH_SRC_TOOL_WORST_H

#include <tilth/train/run/finished.h>

/* Whether the answers of its task can be right or wrong: one of several classes, or a number. */
bool tli_worst_can(const tl_finished *f);
/* `steps` batches at most; below 0: all. */
TL_NODISCARD tl_status tli_worst_find(tl_str *out, const tl_finished *f, int64_t steps);

#endif
