/* Graphs: the calls of a function, recorded instead of run.
 *
 *     tl_graph *g;
 *     TL_TRY(tl_graph_capture(&g, &(tl_capture){.engine = e, .body = my_step, .self = task,
 *                                               .inputs = specs, .input_count = 2,
 *                                               .training = true}));
 *     TL_TRY(tl_graph_optimize(g, NULL));
 *     tl_graph_text(g, &text);                                // what is left, one line a call
 *     tl_graph_free(&g);
 *
 * A graph is a list of nodes (sys/core/op.h) in an order in which they can run, over tensors
 * without elements. Tensors that come from outside and have elements, such as parameters, are
 * noted: the graph refers to their memory, and calls that write it do so in place.
 *
 * Ownership: the caller's; it keeps the memory of tensors from outside alive. Thread word: one
 * thread at a time. */
#ifndef TILTH_GRAPH_GRAPH_H
#define TILTH_GRAPH_GRAPH_H

#include <tilth/core/spec.h>
#include <tilth/graph/function.h>
#include <tilth/sys/core/op.h>
#include <tilth/sys/graph/graph.h>

TL_BEGIN

typedef struct tl_graph tl_graph;

typedef struct tl_capture {
    tl_engine *engine;
    tl_graph_fn *body;
    void *self;
    const tl_spec *inputs; /* names are borrowed while capturing */
    int64_t input_count;
    bool training;
    const char
        *path; /* (optional: "") of the module around it: keys of random draws follow from it */
    tl_strand *strand; /* (optional: alone) one of those that collectives are of */
} tl_capture;
TL_API TL_NODISCARD tl_status tl_graph_capture(tl_graph **out, const tl_capture *args);
/* NULL is fine. */
TL_API void tl_graph_free(tl_graph **g);

/* One pass over a graph; gives how much it changed. */
typedef struct tl_pass {
    const char *name, *help;
    tl_status (*run)(tl_graph *g, int64_t *changes);
} tl_pass;
/* In the order in which they run, then one whose name is NULL. */
TL_API extern const tl_pass tl_graph_passes[];

struct tl_optimize {
    const char *const *skip; /* (optional) names of passes that are left out, then NULL */
    bool no_nests;           /* (optional) every call stays one of its own */
    tl_recompute recompute;  /* (optional: none) */
    /* (optional) tl_graph_verify after each pass, not only of the calls that it has changed */
    bool verify;
    /* (optional) Called before the first pass with NULL, and after each with how much it
     * changed. */
    void (*watch)(const tl_graph *g, const tl_pass *pass, int64_t changes, void *payload);
    void *payload;
};
/* Runs the passes, checks the calls that each has changed, and all of them in the end. `how` may be
 * NULL. */
TL_API TL_NODISCARD tl_status tl_graph_optimize(tl_graph *g, const tl_optimize *how);

/* The rules that every pass keeps: a tensor is made before it is used and by one call; types and
 * shapes are those that the op infers; views show what they are views of; what the graph keeps
 * about uses of tensors and writes of memory is so. */
TL_API TL_NODISCARD tl_status tl_graph_verify(const tl_graph *g);

TL_API int64_t tl_graph_count(const tl_graph *g);
TL_API const tl_node *tl_graph_first(const tl_graph *g);
/* What it is given and what it gives, by name. */
TL_API const tl_named *tl_graph_inputs(const tl_graph *g, int64_t *count);
TL_API const tl_named *tl_graph_outputs(const tl_graph *g, int64_t *count);
TL_API double tl_node_flops(const tl_node *n);
/* Bytes that a call reads and writes. */
TL_API double tl_node_bytes(const tl_node *n);

/* For people: one line a call; a drawing for Graphviz' dot. */
TL_API void tl_graph_text(const tl_graph *g, tl_str *out);
TL_API void tl_graph_dot(const tl_graph *g, tl_str *out);

TL_END

#endif
