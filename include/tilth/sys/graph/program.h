/* Programs: graphs made ready to run. All memory between calls is planned, so a run allocates
 * nothing but what it gives to its caller.
 *
 *     tl_program *p;
 *     TL_TRY(tl_program_new(&p, &g, &(tl_program_args){0}));           // takes the graph
 *     TL_TRY(tl_program_run(p, c, &in, &out));
 *     tl_program_free(&p);
 *
 * Inputs must have the types and shapes of the capture; they, the tensors from outside and the
 * context that runs it are of the graph's engine, or lie on its device. Outputs belong to the
 * context that runs it. Step, microbatch and seed of random draws are those of that context
 * (tl_ctx_set_draws), and its collectives are of that context's strand.
 *
 * Ownership: the caller's; tensors from outside (graph.h) must outlive it. Thread word: one thread
 * at a time. */
#ifndef TILTH_GRAPH_PROGRAM_H
#define TILTH_GRAPH_PROGRAM_H

#include <tilth/sys/core/backend.h>
#include <tilth/sys/graph/graph.h>
#include <tilth/sys/nest/methods.h>

TL_BEGIN

typedef struct tl_program_args {
    const char *name; /* (optional: "program") in messages and reports */
} tl_program_args;

/* Takes the graph, also when it fails. */
TL_API TL_NODISCARD tl_status tl_program_new(tl_program **out, tl_graph **g,
                                             const tl_program_args *args);
/* NULL is fine. */
TL_API void tl_program_free(tl_program **p);

/* Nests run compiled from now on, with the same bits; until then they are interpreted, where the
 * backend can (sys/nest/methods.h). The compiler is one of the program's engine; the code lives as
 * long as it does. A failure changes nothing; TL_EUNSUPPORTED says why code cannot be compiled
 * here. */
TL_API TL_NODISCARD tl_status tl_program_compile(tl_program *p, tl_nest_compiler *compiler);

TL_API TL_NODISCARD tl_status tl_program_run(tl_program *p, tl_ctx *c, const tl_tensors *in,
                                             tl_tensors *out);
/* Whether a run of it has not ended: one that has stopped at a collective (ops/comm.h), while other
 * lanes go on. */
TL_API bool tl_program_is_under_way(const tl_program *p);
/* False when a tensor from outside has other memory than when the graph was captured. */
TL_API bool tl_program_is_current(const tl_program *p);

typedef struct tl_program_stats {
    int64_t kernels;         /* calls of a run */
    int64_t nests, compiled; /* those that are nests, and those of them that run compiled code */
    int64_t collectives;     /* those in which lanes meet */
    int64_t workspace;       /* bytes of planned memory */
    int64_t unplanned;       /* bytes that the same tensors would take side by side */
    int64_t copied;          /* bytes of copies of weights in half precision */
    int64_t packed;      /* bytes of weights laid out for their kernels, from the first run on */
    double flops, bytes; /* of a run */
    double compile_s;    /* that compilers took */
} tl_program_stats;
TL_API void tl_program_measure(const tl_program *p, tl_program_stats *out);
/* Of these, the collectives, which are counted already. */
TL_API int64_t tl_program_collectives(const tl_program *p);

/* Times every kernel in the runs that follow; costs two readings of the clock a kernel. */
TL_API void tl_program_set_timing(tl_program *p, bool on);
/* A table of kernels for people, those that take longest first where they were timed. With `most`,
 * which may be NULL, each row also has the time that its operations, or its bytes beyond what the
 * cache holds, need at least on this machine, whichever is longer, and what share of its time that
 * is: "cache" where its bytes would take longer than its operations, and the cache holds them. */
TL_API void tl_program_report(const tl_program *p, const tl_limits *most, tl_str *out);
/* The last timed run as JSON for chrome://tracing and Perfetto. */
TL_API TL_NODISCARD tl_status tl_program_trace(const tl_program *p, tl_str *out);
TL_API const tl_graph *tl_program_graph(const tl_program *p);

TL_END

#endif
