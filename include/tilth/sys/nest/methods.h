/* What a backend does with loop nests: which ones it can walk, what that is worth, and how they are
 * compiled and run. A backend without these methods gets programs without nests.
 *
 * Plans, compilers and code are the backend's own: others only hand them back to it. On the host a
 * plan is that of plan.h, a compiler starts the system's, and code is a function; on a GPU they are
 * something else.
 *
 * Thread word: immutable. */
#ifndef TILTH_NEST_METHODS_H
#define TILTH_NEST_METHODS_H

#include <tilth/sys/core/backend.h>
#include <tilth/sys/nest/nest.h>

TL_BEGIN

/* One thread at a time. */
typedef struct tl_nest_compiler tl_nest_compiler;
/* Immutable; belongs to its compiler. */
typedef struct tl_nest_code tl_nest_code;

/* What is put into one nest: follows from what starting a call costs. */
typedef struct tl_nest_limits {
    int members;   /* calls, at most */
    int64_t tiny;  /* points up to which starting a call takes longer than what it computes */
    int64_t small; /* and up to which it counts */
} tl_nest_limits;

struct tl_nest_methods {
    tl_nest_limits limits;
    /* It has no interpreter: nests are compiled before their first run, and where nothing may be
     * compiled programs have none. */
    bool compile_first;
    /* Calls that find no company become nests too: it has no kernels of its own for single ops. */
    bool singles;
    /* Legality: how the nest is walked, in the arena. TL_EUNSUPPORTED, with the reason: it cannot
     * be, and is computed otherwise. What it points to is copied, but for attributes and notes of
     * terms. */
    tl_status (*plan)(const tl_nest_walk **out, tl_arena *arena, const tl_nest *nest);
    /* Cost: whether one nest in place of two that need nothing from each other is walked as well as
     * they are. */
    bool (*as_good)(const tl_nest_walk *both, const tl_nest_walk *a, const tl_nest_walk *b);
    /* Opens what compiles for the engine, which outlives it. TL_EUNSUPPORTED, with the reason:
     * nothing does here. */
    tl_status (*open)(tl_nest_compiler **out, tl_engine *engine);
    /* Its code is gone as well. NULL is fine. */
    void (*close)(tl_nest_compiler **compiler);
    /* Compiles nests of a program, those that are equal once; adds what compilers took to
     * `seconds`. */
    tl_status (*compile)(tl_nest_compiler *compiler, const char *program,
                         const tl_nest_walk *const *walks, int64_t count, const tl_nest_code **out,
                         double *seconds);
    /* Runs a nest, whose buffers are the inputs and then the outputs of the call. `code` NULL:
     * interpreted. `scratch` has walk->scratch_bytes, and is NULL when these are 0. */
    tl_status (*run)(const tl_run *run, const tl_node *call, const tl_nest_walk *walk,
                     const tl_nest_code *code, const tl_tensor *scratch);
};

/* Those of an engine's backend; NULL: none. */
TL_API const tl_nest_methods *tl_engine_nests(const tl_engine *engine);

/* For compilers: nests that differ in their notes only are one kernel. `of[i]` is that of nest i,
 * `first[k]` a nest that is kernel k; both have room for `count`. Gives how many there are. */
TL_API int64_t tl_nest_number(const tl_nest_walk *const *walks, int64_t count, int64_t *of,
                              int64_t *first);

TL_END

#endif
