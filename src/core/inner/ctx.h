/* What a context is made of. Thread word: one thread at a time. */
#ifndef TLI_CORE_CTX_H
#define TLI_CORE_CTX_H

#include <tilth/base/vec.h>
#include <tilth/core/ctx.h>

typedef struct tli_module {
    int64_t path_length; /* of the text before it was entered */
    tl_rng stream;       /* named by the path */
} tli_module;

/* How many random calls a module has made in this step. */
typedef struct tli_ordinal {
    uint64_t key, stream;
    int64_t calls;
} tli_ordinal;

struct tl_ctx {
    tl_engine *engine;
    tl_arena *arena;
    bool taping, capturing, training, failed;
    bool differentiable; /* inside a gradient that will be differentiated */
    tl_tensor *tensors;  /* newest first */
    uint64_t first_id;   /* of its tensors; those of other contexts are far away */
    tl_node *first, *last;
    tl_draws draws;
    tl_strand *strand; /* NULL: alone */
    tl_str path;
    /* of what is recorded now, in place of the path: gradients belong to the call that they are of;
     * NULL or "": the path */
    const char *label;
    struct {
        tli_module *items;
        int64_t count, capacity;
    } modules;
    int64_t unnamed; /* modules inside the last one that could not be noted for lack of memory */
    struct {
        tli_ordinal *items;
        int64_t count, capacity;
    } ordinals;
    tl_tensors *log; /* NULL: nobody listens */
    tl_error error;  /* the first one */
};

/* Attributes of a call, their lists included. NULL: no memory. */
void *tli_attr_copy(tl_arena *arena, const tl_desc *desc, const void *attr);

/* The id that the next tensor will have. */
static inline uint64_t tli_ctx_next_id(const tl_ctx *c)
{
    return c->tensors ? c->tensors->id + 1 : c->first_id;
}

#endif
