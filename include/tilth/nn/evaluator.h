/* Evaluators: metrics that run on the host, for what does not fit into sums of tensors: detections
 * by image, rank correlations, texts. A step gives them the batch and the outputs; at the end they
 * tell their results and begin anew.
 *
 *     typedef struct { tl_evaluator base; double *found; int64_t count; } my_evaluator;
 *     static const tl_evaluator_class my_class = {
 *         .cls = TL_CLASS(tl_evaluator_class, "mine", NULL, my_evaluator, NULL),
 *         .update = my_update, .result = my_result, .reset = my_reset, .dispose = my_dispose};
 *
 *     tl_evaluator *e;
 *     TL_TRY(tl_evaluator_new(&e, &my_class, NULL, NULL));
 *     TL_TRY(tl_evaluator_update(e, &groundtruths, &predictions));       // each batch, in order
 *     TL_TRY(tl_evaluator_tell(e, logs));                                // results, then reset
 *     tl_evaluator_free(&e);
 *
 * Ownership: the caller's. Thread word: one thread at a time. */
#ifndef TILTH_NN_EVALUATOR_H
#define TILTH_NN_EVALUATOR_H

#include <tilth/core/logs.h>
#include <tilth/core/tensors.h>
#include <tilth/desc/registry.h>

TL_BEGIN

typedef struct tl_evaluator tl_evaluator;

typedef struct tl_evaluator_class {
    tl_class cls;
    /* (optional) */
    tl_status (*build)(tl_evaluator *e);
    /* Required. Both have elements; what is needed later is copied. */
    tl_status (*update)(tl_evaluator *e, const tl_tensors *groundtruths,
                        const tl_tensors *predictions);
    /* Required: evaluates all that came since the last reset. */
    tl_status (*result)(tl_evaluator *e, tl_logs *into);
    /* Required: forgets it. */
    void (*reset)(tl_evaluator *e);
    /* (optional) Gives back what is not in the evaluator's arena, also when building failed. */
    void (*dispose)(tl_evaluator *e);
} tl_evaluator_class;
TL_API extern const tl_kind tl_kind_evaluator;

/* First member of every evaluator's struct. Members are for reading. */
struct tl_evaluator {
    const tl_evaluator_class *cls;
    const char *name;
    const void *config; /* a copy, completed with defaults; of a class that describes none it is the
                         * pointer that was given */
    tl_arena *arena;    /* lives as long as the evaluator */
};

/* A literal `config` is completed, NULL is the defaults. `name` NULL: that of the class. */
TL_API TL_NODISCARD tl_status tl_evaluator_new(tl_evaluator **out, const tl_evaluator_class *cls,
                                               const void *config, const char *name);
/* NULL is fine. */
TL_API void tl_evaluator_free(tl_evaluator **e);
TL_API TL_NODISCARD tl_status tl_evaluator_update(tl_evaluator *e, const tl_tensors *groundtruths,
                                                  const tl_tensors *predictions);
/* The results, and a reset, also when evaluating failed. */
TL_API TL_NODISCARD tl_status tl_evaluator_tell(tl_evaluator *e, tl_logs *into);
TL_API void tl_evaluator_reset(tl_evaluator *e);

TL_END

#endif
