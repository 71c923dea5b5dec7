/* Plans: how a loop nest is walked on the host.
 *
 *     tl_nest_plan *p;
 *     TL_TRY(tl_nest_plan_new(&p, arena, &nest));          // TL_EUNSUPPORTED: compute it otherwise
 *     void *scratch = tl_alloc_aligned(TL_NEST_ALIGNMENT, p->walk.scratch_bytes);
 *     TL_TRY(tl_nest_run(p, NULL, buffers, scratch, pool));    // interpreted
 *
 * Axes that every access walks alike are joined and put in the order kept | reduced | row, where
 * the row is the one that most accesses walk element by element. A row is computed in stages: a
 * reduction along it ends one, and its value is known to the next. Reductions over the outer axes
 * add up rows, in pieces that are brought together in a second phase.
 *
 * Work is cut into tasks by sizes alone, and every sum follows one tree; so results have the same
 * bits with any number of threads, interpreted or compiled.
 *
 * Ownership: in the arena it was made in; attributes and notes of terms are borrowed from the nest,
 * everything else is copied. Thread word: immutable once made. */
#ifndef TILTH_NEST_PLAN_H
#define TILTH_NEST_PLAN_H

#include <tilth/base/pool.h>
#include <tilth/sys/nest/nest.h>

TL_BEGIN

enum { TL_NEST_PHASES = 2, TL_NEST_ALIGNMENT = 64 };

typedef struct tli_schedule tli_schedule;

typedef struct tl_nest_phase {
    int64_t tasks; /* of about 10 to 20 microseconds; they may run side by side */
} tl_nest_phase;

typedef struct tl_nest_plan {
    tl_nest_walk walk;
    int phase_count;
    tl_nest_phase phases[TL_NEST_PHASES];
    const tli_schedule *schedule;
} tl_nest_plan;

/* A nest that does not fit one sweep (reductions over sets of axes that do not nest, a reduction
 * over outer axes whose result is needed before it is complete) is TL_EUNSUPPORTED, with the
 * reason. */
TL_API TL_NODISCARD tl_status tl_nest_plan_new(tl_nest_plan **out, tl_arena *arena,
                                               const tl_nest *nest);

/* What matters of a plan to who would make two nests one. */
typedef struct tl_nest_cost {
    int64_t row, reduced; /* points of a row; rows that are added up */
    int64_t tasks;        /* of the first phase */
    int64_t scratch;      /* bytes */
    int phases;
} tl_nest_cost;
TL_API void tl_nest_plan_cost(tl_nest_cost *out, const tl_nest_plan *plan);

/* What print_c.h prints: tasks first .. end - 1 of a phase. */
typedef void tl_nest_fn(void *const *buffers, void *scratch, int phase, int64_t first, int64_t end);

/* Runs all phases on the pool: by `compiled`, or interpreted where that is NULL. `buffers` has one
 * pointer for each buffer of the nest; scratch is aligned to TL_NEST_ALIGNMENT and may be NULL when
 * there are no scratch_bytes. */
TL_API TL_NODISCARD tl_status tl_nest_run(const tl_nest_plan *plan, tl_nest_fn *compiled,
                                          void *const *buffers, void *scratch, tl_pool *pool);

TL_END

#endif
