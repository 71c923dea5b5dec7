/* Layers and models: a tree of named parts, each a described class.
 *
 *     typedef struct { tl_model base; tl_layer *conv, *head; } net;
 *     static tl_status net_build(tl_model *m, tl_scope *s, const void *config)
 *     {
 *         net *n = (net *)m;
 *         n->conv = tl_conv2d(s, "conv", .filters = 16, .kernel = 3, .stride = 2);
 *         n->head = tl_dense(s, "head", .units = 10);
 *         return tl_scope_status(s);
 *     }
 *     static tl_tensor *net_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
 *     {
 *         net *n = (net *)m;
 *         x = tl_relu(c, tl_call(c, n->conv, x));
 *         return tl_call(c, n->head, tl_mean(c, x, TL_AXES(1, 2), false));
 *     }
 *     static const tl_layer_class net_class = {
 *         .cls = TL_CLASS(tl_layer_class, "net", NULL, net, NULL),
 *         .build = net_build, .forward = net_forward};
 *
 * A model is the outermost layer; any model can be a layer of another one. Parameters get their
 * shapes from the first call, which is a rehearsal without elements (model.h).
 *
 * Ownership: layers belong to their model. Thread word: one thread at a time. */
#ifndef TILTH_NN_LAYER_H
#define TILTH_NN_LAYER_H

#include <tilth/core/tensors.h>
#include <tilth/nn/initializer.h>

TL_BEGIN

typedef struct tl_layer tl_layer;
typedef tl_layer tl_model;
typedef struct tl_scope tl_scope;
typedef struct tl_net tl_net;

typedef struct tl_layer_class {
    tl_class cls;
    /* (optional: nothing) Makes the layer's own layers. */
    tl_status (*build)(tl_layer *l, tl_scope *s, const void *config);
    /* (optional: none) Declares parameters, once the input is known: type and shape, no elements.
     * Called once, before the first call. What does not depend on the input may be declared in
     * `build`. */
    tl_status (*parameters)(tl_layer *l, tl_scope *s, const tl_tensor *x);
    /* One of the two is required: one tensor to one tensor, or named ones to named ones. */
    tl_tensor *(*forward)(tl_layer *l, tl_ctx *c, tl_tensor *x);
    void (*forward_all)(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out);
    /* (optional) Gives back what is not in the model's arena, also when building failed. */
    void (*dispose)(tl_layer *l);
    /* (optional: `parameters`, with the first input) The same as `parameters` for tl_call_all. */
    tl_status (*parameters_all)(tl_layer *l, tl_scope *s, const tl_tensors *in);
    /* (optional: it is refused) Makes a parameter of the layer from what it was in a model that was
     * trained before, where it had another shape: a table of positions for larger images. Only
     * calls ops. NULL, with the error set, when it cannot. */
    tl_tensor *(*fit)(tl_layer *l, tl_ctx *c, const char *name, tl_tensor *found);
} tl_layer_class;
TL_API extern const tl_kind tl_kind_layer;

/* First member of every layer's struct. Members are for reading. */
struct tl_layer {
    const tl_layer_class *cls;
    const char *name, *path; /* "dense", "encoder/layer_0/dense"; "" for the model itself */
    const void *config; /* a copy, completed with defaults; of a class that describes none it is the
                         * pointer that was given, which must stay valid as long as the model */
    tl_net *net;        /* the model's parameters */
    tl_layer *parent, *first, *last, *next; /* the tree */
    bool ready;                             /* parameters are declared */
    bool frozen;                            /* its parameters are not trained */
    tl_shape input, output; /* of the first call; a dash in the summary when never called */
    bool called;
    uint64_t users; /* of models with parts: by which of them it is called, one bit for each */
};

/* First member of every layer's configuration. */
typedef struct tl_layer_config {
    const char *name;  /* when the one who makes the layer gives no other */
    bool frozen;       /* not trained */
    bool complete;     /* set by defaults, parsing and copying: a zero is meant. In C literals it is
                        * left out, and members that are zero get their defaults */
    const char *group; /* parameter group for optimizers; "": that of the layer around it */
} tl_layer_config;
TL_API extern const tl_desc tl_layer_config_desc;

/* Calls a layer. Names its ops in messages and keys its random numbers by its path. Floats are cast
 * to the model's compute type first. Of a layer that gives several tensors, tl_call gives the
 * first. */
TL_API tl_tensor *tl_call(tl_ctx *c, tl_layer *l, tl_tensor *x);
/* The same with names; what the layer gives is added to `out`. A layer that knows no names takes
 * one tensor, whatever its name, and gives "y". */
TL_API void tl_call_all(tl_ctx *c, tl_layer *l, const tl_tensors *in, tl_tensors *out);
/* A parameter as the layer computes with it: floats are cast to the compute type. */
TL_API tl_tensor *tl_layer_value(tl_ctx *c, const tl_layer *l, tl_tensor *parameter);
/* A parameter of the layer by name ("kernel"), to tie it or to look at it; NULL when it is not
 * declared. */
TL_API tl_tensor *tl_layer_param(const tl_layer *l, const char *name);
/* Adds a term to the losses of this call of the model (tl_model_losses). */
TL_API void tl_layer_add_loss(tl_ctx *c, tl_layer *l, tl_tensor *loss);
/* Notes that these rows were looked up in a table, a parameter of the model. When nothing else is
 * made of the table, norms by which gradients are clipped count each row by itself, as TensorFlow
 * does; without the note they count what equal rows come to together. */
TL_API void tl_layer_looked_up(tl_ctx *c, tl_layer *l, const tl_tensor *table, tl_tensor *rows);
/* Moves a running statistic of the layer: average = momentum average + (1 - momentum) value; at
 * once, or when the step is known to be good (tl_model_hold_updates). */
TL_API void tl_layer_update(tl_ctx *c, tl_layer *l, tl_tensor *average, tl_tensor *value,
                            double momentum);

/* --- scopes: building the tree ---------------------------------------------------------------- */

/* A new layer under the scope's. A literal `config` is completed: members that are zero get their
 * defaults. `name` NULL: the one in the configuration. Names are unique among the layers and
 * parameters of a layer, and hold no '/'. NULL when the scope failed, also earlier. */
TL_API tl_layer *tl_scope_layer(tl_scope *s, const char *name, const tl_layer_class *cls,
                                const void *config);
/* The same from a one-of, as YAML gives it: `type: dense`. */
TL_API tl_layer *tl_scope_layer_of(tl_scope *s, const char *name, const tl_oneof *layer);

/* A value for a layer whose class is not known here, by the name of its field. */
typedef struct tl_layer_given {
    const char *field; /* NULL: behind the last one */
    tl_type type;      /* TL_TYPE_INT, TL_TYPE_DOUBLE, TL_TYPE_STRING or TL_TYPE_ONEOF */
    int64_t i;
    double d;
    const char *s;
    const tl_oneof *choice;
} tl_layer_given;
/* The same from a reference of gin: `@Name` is a class, of which each call makes a layer with these
 * values, before which gin's bindings step back; `@Name()` was made with all that gin says, and is
 * taken as it is. A field that the class lacks is TL_EINVAL. */
TL_API tl_layer *tl_scope_layer_ref(tl_scope *s, const char *name, const tl_ref *layer,
                                    const tl_layer_given *given);

typedef struct tl_param_args {
    tl_shape shape;
    const tl_oneof *initializer; /* NULL: zeros */
    const tl_oneof *regularizer; /* NULL: none */
    bool state;                  /* kept but not trained: running statistics */
    bool has_dtype;              /* else float32, or float64 in a float64 model */
    tl_dtype dtype;
} tl_param_args;
/* A parameter of the scope's layer; NULL when the scope failed. It has no elements before the model
 * is made, and belongs to the model. */
TL_API tl_tensor *tl_scope_param(tl_scope *s, const char *name, const tl_param_args *args);
/* The same parameter under a second name: tied weights are stored once. */
TL_API void tl_scope_tie(tl_scope *s, const char *name, tl_tensor *parameter);
/* Names a part for partial checkpoints: "backbone". */
TL_API void tl_scope_item(tl_scope *s, const char *name, tl_layer *part);
/* Makes a layer of the scope's a part of the model: a model by itself, for steps that call it and
 * not the whole (tl_model_part). Parts may share layers. In `build` of the model; at most 64. */
TL_API void tl_scope_part(tl_scope *s, tl_layer *part);

/* Makes the failure that was set just now the scope's, unless it has one, with the name of what
 * could not be made. Gives NULL. */
TL_API void *tl_scope_fail(tl_scope *s, const char *name);
/* The first failure; what `build` and `parameters` return. */
TL_API TL_NODISCARD tl_status tl_scope_status(const tl_scope *s);
TL_API tl_arena *tl_scope_arena(tl_scope *s);
/* Where names of plug-ins are looked up; may be NULL. */
TL_API const tl_registry *tl_scope_registry(const tl_scope *s);

TL_END

#endif
