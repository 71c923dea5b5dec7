/* Contexts: where an expression is computed.
 *
 *     tl_mark step = tl_ctx_begin(c);
 *     tl_tensor *y = tl_add(c, tl_exp(c, x), b);            // belongs to c
 *     TL_TRY(tl_ctx_status(c));                             // one check for the whole expression
 *     ...
 *     tl_ctx_end(c, step);                                  // all that was made since is gone
 *
 * Errors flow like NaN: an op that fails gives NULL, an op given NULL gives NULL, and the context
 * keeps the first message. A context that failed computes nothing until tl_ctx_end or
 * tl_ctx_clear.
 *
 * Three modes, two booleans. Plain: ops run. `taping`: ops that a gradient may flow through are
 * also recorded. `capturing`: every op is recorded and none runs, so tensors have types and shapes
 * but no elements, and asking for those is refused.
 *
 * Ownership: the caller's; tensors and nodes made in it are its own. Thread word: one thread at a
 * time; contexts of one engine may run side by side. */
#ifndef TILTH_CORE_CTX_H
#define TILTH_CORE_CTX_H

#include <tilth/base/arena.h>
#include <tilth/base/rng.h>
#include <tilth/core/tensor.h>

TL_BEGIN

typedef struct tl_ctx tl_ctx;
typedef struct tl_tensors tl_tensors; /* named tensors: tensors.h */
typedef struct tl_strand tl_strand;   /* strands.h */

TL_API TL_NODISCARD tl_status tl_ctx_new(tl_ctx **out, tl_engine *engine);
/* NULL is fine. */
TL_API void tl_ctx_free(tl_ctx **c);
TL_API tl_engine *tl_ctx_engine(const tl_ctx *c);
/* The arena of the innermost scope. */
TL_API tl_arena *tl_ctx_arena(tl_ctx *c);

/* --- scopes ----------------------------------------------------------------------------------- */

typedef struct tl_mark {
    tl_arena_mark arena;
    tl_tensor *tensors;
    tl_node *last;
    int64_t modules;
} tl_mark;
TL_API tl_mark tl_ctx_begin(tl_ctx *c);
/* Ends the scope: its tensors and records are gone, and so is its error. Modules that were entered
 * in it and not left, because something failed in between, are left. */
TL_API void tl_ctx_end(tl_ctx *c, tl_mark mark);

/* --- errors ----------------------------------------------------------------------------------- */

/* TL_OK, or the first failure, its message put into the thread's record. */
TL_API TL_NODISCARD tl_status tl_ctx_status(const tl_ctx *c);
/* Keeps the failure that was just made (TL_FAIL), unless there is one already. Gives NULL, so that
 * ops can `return tl_ctx_fail(c)`. */
TL_API tl_tensor *tl_ctx_fail(tl_ctx *c);
TL_API bool tl_ctx_failed(const tl_ctx *c);
TL_API void tl_ctx_clear(tl_ctx *c);

/* --- modes ------------------------------------------------------------------------------------ */

/* Each gives what was set before, to be put back. */
TL_API bool tl_ctx_set_taping(tl_ctx *c, bool on);
TL_API bool tl_ctx_set_capturing(tl_ctx *c, bool on);
TL_API bool tl_ctx_set_training(tl_ctx *c, bool on);
TL_API bool tl_ctx_taping(const tl_ctx *c);
TL_API bool tl_ctx_capturing(const tl_ctx *c);
/* Dropout drops, batch norm uses its batch. Off in a new context. */
TL_API bool tl_ctx_training(const tl_ctx *c);

/* Recorded calls since the context, or its oldest open scope, began. */
TL_API const tl_node *tl_ctx_first_node(const tl_ctx *c);
TL_API const tl_node *tl_ctx_last_node(const tl_ctx *c);

/* Where what is logged goes: a list of the context's arena, or NULL (at first), which forgets it.
 * Gives what was set before. */
TL_API tl_tensors *tl_ctx_set_log(tl_ctx *c, tl_tensors *log);
/* Says something about what is computed, from anywhere in a model: a tensor under a name. In a
 * captured step it becomes an output of the program, read only when somebody asks for it. */
TL_API void tl_ctx_log(tl_ctx *c, const char *name, tl_tensor *t);

/* --- modules and random numbers --------------------------------------------------------------- */

/* Names the module whose ops follow: for messages, and for the keys of random numbers. */
TL_API void tl_ctx_enter(tl_ctx *c, const char *name);
TL_API void tl_ctx_leave(tl_ctx *c);
/* "encoder/layer_0"; "" outside. Valid until the module is left. */
TL_API const char *tl_ctx_path(const tl_ctx *c);

/* What changes from step to step: an input of every random op. */
typedef struct tl_draws {
    uint64_t seed;
    int64_t step, microbatch, replica;
} tl_draws;

/* Seed, step, microbatch and replica of what is drawn from now on. Starts the ordinals of random
 * calls again, so that each step numbers them alike. */
TL_API void tl_ctx_set_draws(tl_ctx *c, tl_draws draws);
TL_API tl_draws tl_ctx_draws(const tl_ctx *c);
/* The key of the next random call: the path of the module and how many calls it has made. A draw is
 * a function of (seed, key, step, microbatch, replica) and nothing else. */
TL_API int64_t tl_ctx_draw_key(tl_ctx *c);
/* The stream behind a key, for kernels. */
TL_API void tl_draw_stream(tl_rng *out, const tl_draws *draws, int64_t key);

/* --- lanes ------------------------------------------------------------------------------------ */

/* The lane that is computed here, which meets others in collectives (ops/comm.h); NULL, as at
 * first: it is alone, and whatever they would gather or add is its own. Gives what was set
 * before. */
TL_API tl_strand *tl_ctx_set_strand(tl_ctx *c, tl_strand *strand);
TL_API tl_strand *tl_ctx_strand(const tl_ctx *c);
/* How many meet: 1 without a strand. */
TL_API int64_t tl_ctx_lanes(const tl_ctx *c);

/* --- for ops ---------------------------------------------------------------------------------- */

/* The funnel's pieces: a header of the context, zeroed; storage for a header whose type and shape
 * are set; a record of a call, its arrays and attributes copied. NULL or false: the context
 * failed. */
TL_API tl_tensor *tl_ctx_header(tl_ctx *c);
TL_API bool tl_ctx_storage(tl_ctx *c, tl_tensor *t);
/* A tensor of the context, row-major, its elements uninitialised. */
TL_API tl_tensor *tl_ctx_tensor(tl_ctx *c, tl_side side, tl_dtype dtype, tl_shape shape);
TL_API bool tl_ctx_record(tl_ctx *c, const tl_node *call);
/* Gives the storage of a tensor of the context back before its scope ends. It has no elements
 * then. */
TL_API void tl_ctx_drop(tl_ctx *c, tl_tensor *t);
/* The tensor made last; older ones follow by `next`. */
TL_API tl_tensor *tl_ctx_newest(const tl_ctx *c);

TL_END

#endif
