/* What a training step became: the calls that were captured, the kernels that are left, where the
 * time goes, and what memory it takes (trainer/memory.h).
 *
 *     tl_str text = TL_STR_INIT;
 *     TL_TRY(tl_explain(&text, trainer, &(tl_explain_args){.steps = 20}));
 *     puts(tl_str_text(&text));
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_EXPLAIN_H
#define TILTH_TRAIN_EXPLAIN_H

#include <tilth/train/trainer/trainer.h>

TL_BEGIN

typedef struct tl_explain_args {
    int64_t steps; /* (optional: 10) that are timed; they train the model */
    /* (optional) a timed step for chrome://tracing and Perfetto is written here */
    const char *trace_path;
    /* (optional) the optimised graph as text, or for Graphviz when it ends in .dot */
    const char *graph_path;
    const char *passes_path; /* (optional) the graph as text before and after every pass */
} tl_explain_args;
/* A trainer that runs eagerly has no program: TL_ESTATE. */
TL_API TL_NODISCARD tl_status tl_explain(tl_str *out, tl_trainer *t, const tl_explain_args *args);

TL_END

#endif
