/* Functions: a C callback that runs ops, captured once for each signature of its inputs and
 * replayed from then on as an optimised program.
 *
 *     static tl_status step(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
 *     {
 *         tl_tensor *y = tl_call(c, model, tl_tensors_get(c, in, "x"));
 *         ...
 *         tl_tensors_put(c, out, "loss", loss);
 *         return tl_ctx_status(c);
 *     }
 *     tl_function *f;
 *     TL_TRY(tl_function_new(&f, &(tl_function_args){.engine = e, .body = step, .self = task}));
 *     TL_TRY(tl_function_call(f, c, &in, &out));
 *     tl_function_free(&f);
 *
 * A signature is the names, types and shapes of the inputs, whether the context trains, how many
 * lanes meet in it, and the path of the module that calls, by which random draws are keyed. What
 * the callback reads from elsewhere is fixed when it is captured: numbers become constants, tensors
 * from outside (parameters, slots) are read and written in place in each call and must outlive the
 * function.
 * When their memory has moved, the function captures again.
 *
 * A signature that is called a second time is compiled; one that is seen once is interpreted. The
 * bits are the same. A backend that cannot interpret compiles at the first call.
 *
 * Ownership: the caller's. Thread word: one thread at a time. */
#ifndef TILTH_GRAPH_FUNCTION_H
#define TILTH_GRAPH_FUNCTION_H

#include <tilth/core/tensors.h>

TL_BEGIN

typedef struct tl_function tl_function;
typedef struct tl_program tl_program;   /* sys/graph/program.h */
typedef struct tl_optimize tl_optimize; /* sys/graph/graph.h */

/* What is captured: runs ops of `c` on `in` and puts what it gives into `out`. Whatever it wants to
 * keep from call to call lies in tensors from outside that ops write in place. Reading elements is
 * refused: they are computed when the program runs. */
typedef tl_status tl_graph_fn(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out);

/* What the backward pass computes again instead of keeping it: less memory, more time, the same
 * draws and bits. */
typedef enum tl_recompute {
    TL_RECOMPUTE_NONE,
    TL_RECOMPUTE_SELECTIVE, /* cheap results that are needed again much later */
    TL_RECOMPUTE_FULL /* all but what passes from one stretch of the forward pass to the next; where
                       * it is cut into stretches follows from the sizes of what would be kept */
} tl_recompute;

typedef struct tl_function_args {
    tl_engine *engine;
    const char *name; /* (optional: "function") in messages and reports */
    tl_graph_fn *body;
    void *self;
    int64_t programs; /* (optional: 8) how many signatures are kept; the one unused longest goes */
    /* never compile; where the backend cannot interpret, calls stay as they are */
    bool interpret;
    const tl_optimize *optimize; /* (optional: all passes) borrowed */
} tl_function_args;
TL_API TL_NODISCARD tl_status tl_function_new(tl_function **out, const tl_function_args *args);
/* NULL is fine. */
TL_API void tl_function_free(tl_function **f);

/* Outputs belong to `c`. */
TL_API TL_NODISCARD tl_status tl_function_call(tl_function *f, tl_ctx *c, const tl_tensors *in,
                                               tl_tensors *out);
/* The program that a call would run, captured if there is none; it lives until another call. */
TL_API TL_NODISCARD tl_status tl_function_find(tl_function *f, tl_ctx *c, const tl_tensors *in,
                                               tl_program **out);
/* Forgets all programs: the next call captures. */
TL_API void tl_function_reset(tl_function *f);

typedef struct tl_function_stats {
    int64_t calls, captures, kept; /* programs that are kept */
    int64_t evicted;               /* for want of room */
    double capture_s, compile_s;   /* spent on capturing and optimising, and on compiling */
} tl_function_stats;
TL_API void tl_function_measure(const tl_function *f, tl_function_stats *out);
/* Of the last call; NULL before the first. */
TL_API tl_program *tl_function_program(const tl_function *f);

TL_END

#endif
