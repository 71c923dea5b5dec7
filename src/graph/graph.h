/* Graphs from inside: what passes work with. Thread word: one thread at a time. */
#ifndef TLI_GRAPH_GRAPH_H
#define TLI_GRAPH_GRAPH_H

#include <tilth/base/vec.h>
#include <tilth/sys/graph/graph.h>
#include <tilth/sys/nest/methods.h>

#include "core/inner/ctx.h"
#include "core/inner/engine.h"
#include "graph/uses.h"

/* A tensor from outside and the header that stands for it in the graph. */
typedef struct tli_outside {
    const tl_tensor *original; /* NULL: the graph's own, as copies of weights are */
    tl_tensor *header;         /* holds its own count of the storage */
} tli_outside;

/* A copy of weights, kept from run to run (weight_copies.c). */
typedef struct tli_weight_copy {
    tl_node *refresh; /* casts the weights into it; not among the calls of a run */
    bool valid;
    uint64_t version; /* of the weights' storage that it shows, when it is valid */
} tli_weight_copy;

struct tl_graph {
    tl_ctx *ctx;            /* owns nodes and headers */
    const char *path;       /* of the module around it */
    tl_recompute recompute; /* rather than keep */
    tl_named *inputs, *outputs;
    int64_t input_count, output_count;
    struct {
        tli_outside *items;
        int64_t count, capacity;
    } outside;
    struct {
        tli_weight_copy *items;
        int64_t count, capacity;
    } copies;
    tl_arena *scratch; /* of the pass that runs: gone when it ends */
    tli_uses uses;     /* of what the list holds: tli_ functions that change it keep them true */
};

/* --- reading ---------------------------------------------------------------------------------- */

#define TLI_EACH_NODE(g, n) for (tl_node *n = (g)->ctx->first; n; n = n->after)
/* Allows the node itself to be removed or moved. */
#define TLI_EACH_NODE_SAFE(g, n, next)                                                             \
    for (tl_node *n = (g)->ctx->first, *next = n ? n->after : NULL; n;                             \
         n = next, next = n ? n->after : NULL)

/* What holds the elements: the tensor at the end of a chain of views. */
static inline tl_tensor *tli_root(const tl_tensor *t)
{
    while (t->view_of) t = t->view_of;
    return (tl_tensor *)t;
}
static inline bool tli_is_view(const tl_node *n)
{
    return n->op->flags & TL_OP_VIEW;
}
/* One element of each input, as they stand under each other, gives one of the output. */
static inline bool tli_is_elementwise(const tl_node *n)
{
    return n->op->flags & TL_OP_ELEMENTWISE;
}
/* Changes memory that others see: may not be removed, merged or moved past readers of it. */
static inline bool tli_has_effects(const tl_node *n)
{
    return n->op->writes != 0;
}
/* All lanes make it, in the same order. */
static inline bool tli_is_collective(const tl_node *n)
{
    return n->op->flags & TL_OP_COMM;
}
/* What is written when `t` is: tensors from outside share memory when they share storage. */
static inline const void *tli_memory_of(const tl_tensor *t)
{
    t = tli_root(t);
    return !t->node && t->storage ? (const void *)t->storage : (const void *)t;
}
/* Whether a call of the graph writes that. */
bool tli_is_written(const tl_graph *g, const tl_tensor *t);
bool tli_is_output(const tl_graph *g, const tl_tensor *t);
/* Numbers the nodes in their order, from 0. */
int64_t tli_number_nodes(tl_graph *g);
/* Whether all elements of `t` are this number; only for results of `full` that nobody writes, and
 * views of them. */
bool tli_is_number(const tl_graph *g, const tl_tensor *t, double *number);
/* TL_KERNEL_ flags of the kernel that a call would have; none, where the backend has no kernel. */
unsigned tli_kernel_flags(const tl_graph *g, const tl_node *call);

/* --- changing --------------------------------------------------------------------------------- */

/* All that changes the list goes through these. They fail for want of memory, and when views cannot
 * show what takes the place of their input; the graph can only be freed then. */

/* `to` takes the place of `from` in all calls and outputs; views of it are inferred again. */
TL_NODISCARD tl_status tli_replace(tl_graph *g, tl_tensor *from, tl_tensor *to);
/* In one input of one call. */
TL_NODISCARD tl_status tli_set_input(tl_graph *g, tl_node *n, int input, tl_tensor *t);
/* One more, behind the others. */
TL_NODISCARD tl_status tli_add_input(tl_graph *g, tl_node *n, tl_tensor *t);
/* A call whose results nobody uses. */
void tli_remove(tl_graph *g, tl_node *n);
/* New calls are appended by the ops; this brings all behind `last` before `place`, and into the
 * graph. */
TL_NODISCARD tl_status tli_move_new(tl_graph *g, tl_node *last, tl_node *place);
/* Moves one call before another; ask tli_may_move first. */
TL_NODISCARD tl_status tli_move(tl_graph *g, tl_node *n, tl_node *place);
/* Whether a call can put an output over an input that it reads: a nest, or TL_KERNEL_OVER. */
bool tli_writes_over(const tl_graph *g, const tl_node *n);
/* Puts an output of such a call over the memory of an input, which nobody reads any more. */
TL_NODISCARD tl_status tli_reuse(tl_graph *g, tl_node *n, int output, int input);
/* A header for elements from outside; `original` may be NULL. */
TL_NODISCARD tl_status tli_add_outside(tl_graph *g, const tl_tensor *original, tl_tensor *header);

/* --- nests ------------------------------------------------------------------------------------ */

/* Many calls in one: `attr` is a tl_nest whose buffers are the inputs and then the outputs. */
extern const tl_op_class tli_op_nest;
/* TL_EUNSUPPORTED when there is no plan for it. */
TL_NODISCARD tl_status tli_nest_try_plan(tl_graph *g, const tl_nest *nest);

/* --- recomputation ---------------------------------------------------------------------------- */

/* All but what passes from one stretch of the forward pass to the next. */
tl_status tli_recompute_full(tl_graph *g, int64_t *changes);

/* --- passes ----------------------------------------------------------------------------------- */
/* Each is one file; tl_graph_passes says what it is for. */
tl_status tli_pass_dead(tl_graph *g, int64_t *changes);
tl_status tli_pass_simplify(tl_graph *g, int64_t *changes);
tl_status tli_pass_common(tl_graph *g, int64_t *changes);
tl_status tli_pass_epilogue(tl_graph *g, int64_t *changes);
tl_status tli_pass_join(tl_graph *g, int64_t *changes);
/* What a float32 tensor was widened from, where neither has changed since, up to `user`; NULL: it
 * was not, or they have. */
tl_tensor *tli_widened_from(const tl_graph *g, const tl_tensor *t, const tl_node *user);
tl_status tli_pass_gradient_runs(tl_graph *g, int64_t *changes);
tl_status tli_pass_weight_copies(tl_graph *g, int64_t *changes);
tl_status tli_pass_draws(tl_graph *g, int64_t *changes);
tl_status tli_pass_recompute(tl_graph *g, int64_t *changes);
tl_status tli_pass_slopes(tl_graph *g, int64_t *changes);
tl_status tli_pass_straighten(tl_graph *g, int64_t *changes);
tl_status tli_pass_fuse(tl_graph *g, int64_t *changes);
tl_status tli_pass_order(tl_graph *g, int64_t *changes);
tl_status tli_pass_reuse(tl_graph *g, int64_t *changes);

#endif
