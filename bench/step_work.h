/* A training step of one of the models, ready to be run: eager, or as a compiled program.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_BENCH_STEP_WORK_H
#define TILTH_BENCH_STEP_WORK_H

#include <tilth/graph/function.h>
#include <tilth/sys/core/backend.h>

#include "models.h"

enum { MOST_BLOCKS = 8 };

typedef struct step_work {
    const tl_backend_class *backend; /* NULL: the CPU's */
    tl_engine *engine;
    tl_ctx *c;
    tl_model *model;
    tl_function *step; /* NULL: eager */
    bool clip;         /* as in the model */
    tl_tensor *x, *y, *hyper, *m[MOST_BLOCKS], *v[MOST_BLOCKS];
} step_work;

tl_status step_work_make(step_work *w, const step_model *s, tl_dtype dtype, bool eager);
void step_work_unmake(step_work *w);
/* What a step computes, to be captured; `self` is a step_work. */
tl_status step_work_body(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out);
/* One step; of a step_work. */
void step_work_run(void *payload);
/* "mlp784-128-10 B32 f32" */
enum { STEP_NAME = 64 };
const char *step_work_name(char out[STEP_NAME], const step_model *s, tl_dtype dtype);

#endif
