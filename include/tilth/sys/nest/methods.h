/* What a backend does with loop nests: which ones it can walk, what that is worth, and how they run. A
 * backend without these methods gets programs without nests.
 *
 * Thread word: immutable. */
#ifndef TILTH_NEST_METHODS_H
#define TILTH_NEST_METHODS_H

#include <tilth/sys/core/backend.h>
#include <tilth/sys/nest/jit.h>
#include <tilth/sys/nest/plan.h>

TL_BEGIN

/* What matters of a plan to who would make two nests one. */
typedef struct tl_nest_cost {
    int64_t row, reduced; /* points of a row; rows that are added up */
    int64_t tasks;        /* of the first phase */
    int64_t scratch;      /* bytes */
    int phases;
} tl_nest_cost;

struct tl_nest_methods {
    /* How it is walked. TL_EUNSUPPORTED, with the reason: it cannot be, and is computed otherwise. */
    tl_status (*plan)(tl_nest_plan **out, tl_arena *arena, const tl_nest *nest);
    /* Whether one nest in place of two that need nothing from each other is walked as well as they are. */
    bool (*as_good)(const tl_nest_cost *both, const tl_nest_cost *a, const tl_nest_cost *b);
    /* Opens what compiles. TL_EUNSUPPORTED, with the reason: nothing does here. */
    tl_status (*open)(tl_jit **out);
    /* Compiles nests of a program, those that are equal once; `seconds` is what compilers took. The code
     * lives as long as `jit`. */
    tl_status (*compile)(tl_jit *jit, const char *program, const tl_nest_plan *const *plans, int64_t count,
                         tl_nest_fn **out, double *seconds);
    /* Runs a nest, whose buffers are the inputs and then the outputs of the call. `compiled` NULL: interpreted.
     * `scratch` has plan->scratch_bytes, and is NULL when these are 0. */
    tl_status (*run)(const tl_run *run, const tl_node *call, const tl_nest_plan *plan, tl_nest_fn *compiled,
                     const tl_tensor *scratch);
};

/* Those of an engine's backend; NULL: none. */
TL_API const tl_nest_methods *tl_engine_nests(const tl_engine *engine);
TL_API void tl_nest_plan_cost(tl_nest_cost *out, const tl_nest_plan *plan);

TL_END

#endif
