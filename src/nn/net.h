/* What a model is made of: the parameters behind its tree of layers.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_NN_NET_H
#define TLI_NN_NET_H

#include <stdatomic.h>
#include <tilth/base/vec.h>
#include <tilth/nn/model.h>

enum { TLI_PARAM_ALIGNMENT = 16 }; /* elements, at least: one cache line of float32 */
enum { TLI_MOST_PARTS = 64 };      /* of a model: bits of a number */

typedef struct tli_item {
    const char *name;
    tl_layer *part;
} tli_item;

typedef struct tli_alias {
    const char *path;
    int64_t param;
} tli_alias;

/* A running statistic that is still to be moved. */
typedef struct tli_update {
    tl_tensor *average, *value;
    double momentum;
} tli_update;

/* Rows that were looked up in a table, a parameter. */
typedef struct tli_lookup {
    int64_t param;
    tl_tensor *rows;
} tli_lookup;

/* Squares of the gradients of such rows, added up: each row counts by itself. */
typedef struct tli_row_squares {
    int64_t param;
    tl_tensor *sum; /* float64 scalar */
} tli_row_squares;

/* What the last call of the model in one context has come to: contexts may call a model side by
 * side. */
typedef struct tli_net_call {
    const tl_ctx *ctx;
    tl_layer *current; /* the innermost one that is being called; NULL: none */
    uint64_t part;     /* bit of the part of the model that is being called; 0: none */
    struct {
        tl_tensor **items;
        int64_t count, capacity;
    } losses;
    struct {
        tli_update *items;
        int64_t count, capacity;
    } updates;
    struct {
        tli_lookup *items;
        int64_t count, capacity;
    } lookups;
    struct {
        tli_row_squares *items; /* of the gradients that were taken last */
        int64_t count, capacity;
    } squares;
    struct tli_net_call *next;
} tli_net_call;

typedef struct tli_blocks {
    tl_block *items;
    int64_t count, capacity;
} tli_blocks;

struct tl_net {
    tl_arena *arena;
    tl_engine *engine;
    tl_layer *root;
    tl_model_args args; /* copied, for tl_model_copy; config and inputs in the arena */
    const tl_registry *registry;
    tl_registry *own_registry; /* when none was given */
    tl_dtype compute, storage; /* types of computation and of parameters */
    bool rehearsing;           /* parameters may still be declared */
    struct {
        tl_param **items;
        int64_t count, capacity;
    } params;
    tli_blocks blocks;
    struct {
        tli_item *items;
        int64_t count, capacity;
    } items;
    struct {
        tli_alias *items;
        int64_t count, capacity;
    } aliases;
    struct {
        tl_layer **items; /* models by themselves */
        int64_t count, capacity;
    } parts;
    bool holding;                  /* updates wait for tl_model_apply_updates */
    _Atomic(tli_net_call *) calls; /* one for each context that has called, none is removed */
};

/* Of a context; NULL: it has not called yet. */
tli_net_call *tli_net_call_find(tl_net *net, const tl_ctx *c);
/* The same, a new one if need be; NULL: there is no memory. */
tli_net_call *tli_net_call_of(tl_net *net, const tl_ctx *c);
/* Forgets what the call before has come to: the model's own call begins. */
void tli_net_call_begin(tli_net_call *call);
/* Of all of them. */
void tli_net_calls_drop_updates(tl_net *net);
void tli_net_calls_free(tl_net *net);

/* Puts the look-ups in tables of which nothing else was made up to `of` to the front, and gives
 * their number (lookups.c). */
int64_t tli_lookups_alone(tl_ctx *c, const tl_net *net, tli_net_call *call, const tl_tensor *of);
/* Notes the squares of the gradients of the first look-ups. */
void tli_lookups_measure(tl_ctx *c, tli_net_call *call, tl_tensor *const *gradients, int64_t count);

struct tl_scope {
    tl_net *net;
    tl_layer *layer;
    tl_status status;
    tl_error *error; /* the first one, in the net's arena; NULL: no memory for it */
};

tl_scope tli_scope_of(tl_net *net, tl_layer *layer);
/* Makes a layer and builds what is below it. */
TL_NODISCARD tl_status tli_layer_new(tl_layer **out, tl_net *net, tl_layer *parent,
                                     const char *name, const tl_layer_class *cls,
                                     const void *config);
void tli_layer_dispose(tl_layer *l);
/* Goes into the layer's module; gives the layer around it, for the way back. */
tl_layer *tli_layer_enter(tl_ctx *c, tl_layer *l);
void tli_layer_leave(tl_ctx *c, tl_layer *l, tl_layer *outer);
/* The path of what has this name in a layer; NULL: no memory. */
const char *tli_path_join(tl_arena *arena, const tl_layer *l, const char *name);
/* A name that a new layer or parameter of `l` may have. */
TL_NODISCARD tl_status tli_check_name(const tl_layer *l, const char *name);

/* The bit of a layer that is a part of the model; 0: it is none. */
uint64_t tli_net_part_bit(const tl_net *net, const tl_layer *l);
/* Whether a model, or a part of one, uses what has these users. */
bool tli_part_uses(const tl_model *m, uint64_t users);

/* Puts every parameter into its block, with its value. A failure changes nothing. */
TL_NODISCARD tl_status tli_net_lay_out(tl_net *net);
/* Whether a parameter is trained at present. */
bool tli_param_is_awake(const tl_net *net, const tl_param *p);
/* With its parameters, and the layers whose they are. */
void tli_block_set_asleep(tl_net *net, int64_t index, bool asleep);
void tli_blocks_free(tli_blocks *blocks);
/* Whether `path` is `under` or lies below it. */
bool tli_path_under(const char *path, const char *under);

#endif
