/* What a model is made of: the parameters behind its tree of layers.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_NN_NET_H
#define TLI_NN_NET_H

#include <tilth/base/vec.h>
#include <tilth/nn/model.h>

enum { TLI_PARAM_ALIGNMENT = 16 }; /* elements: one cache line of float32 */

typedef struct tli_item {
    const char *name;
    tl_layer *part;
} tli_item;

typedef struct tli_alias {
    const char *path;
    int64_t param;
} tli_alias;

struct tl_net {
    tl_arena *arena;
    tl_engine *engine;
    tl_layer *root;
    tl_model_args args;      /* copied, for tl_model_copy; config and inputs in the arena */
    const tl_registry *registry;
    tl_registry *own_registry; /* when none was given */
    tl_dtype compute, storage; /* types of computation and of parameters */
    bool rehearsing;           /* parameters may still be declared */
    struct { tl_param **items; int64_t count, capacity; } params;
    struct { tl_block *items; int64_t count, capacity; } blocks;
    struct { tli_item *items; int64_t count, capacity; } items;
    struct { tli_alias *items; int64_t count, capacity; } aliases;
    struct { tl_tensor **items; int64_t count, capacity; } losses; /* of the last call */
};

struct tl_scope {
    tl_net *net;
    tl_layer *layer;
    tl_status status;
    tl_error *error; /* the first one, in the net's arena; NULL: no memory for it */
};

tl_scope tli_scope_of(tl_net *net, tl_layer *layer);
/* Makes a layer and builds what is below it. */
TL_NODISCARD tl_status tli_layer_new(tl_layer **out, tl_net *net, tl_layer *parent, const char *name,
                                     const tl_layer_class *cls, const void *config);
void tli_layer_dispose(tl_layer *l);
/* The nearest class up the chain that fills a method. */
#define TLI_LAYER_METHOD(l, method)                                                                \
    ((const tl_layer_class *)tl_class_with(&(l)->cls->cls, offsetof(tl_layer_class, method)))

/* Puts every parameter into its block; values that are there move along. */
TL_NODISCARD tl_status tli_net_lay_out(tl_net *net);
void tli_net_free_blocks(tl_net *net);
/* Whether `path` is `under` or lies below it. */
bool tli_path_under(const char *path, const char *under);

#endif
