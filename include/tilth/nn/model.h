/* Models: a layer with its parameters.
 *
 *     tl_model *m;
 *     tl_spec image = {"image", TL_F32, TL_SHAPE(32, 28, 28, 1)};
 *     TL_TRY(tl_model_new(&m, &(tl_model_args){.engine = e, .cls = &net_class, .inputs = &image,
 *                                              .input_count = 1, .seed = 1}));
 *     tl_tensor *y = tl_call(c, m, x);
 *     tl_model_free(&m);
 *
 * A new model is rehearsed once with tensors that have no elements; every layer then knows its
 * shapes and declares its parameters. These are put into blocks, one for each (type, trained or
 * not, group), so that an optimizer updates a block in one sweep; then they are initialised.
 *
 * Ownership: the caller's. Thread word: one thread at a time. */
#ifndef TILTH_NN_MODEL_H
#define TILTH_NN_MODEL_H

#include <tilth/core/spec.h>
#include <tilth/core/state.h>
#include <tilth/desc/gin.h>
#include <tilth/nn/layer.h>

TL_BEGIN

typedef struct tl_model_args {
    tl_engine *engine;
    const tl_layer_class *cls;
    const void *config;
    const tl_spec *inputs; /* of the rehearsal; later calls may have other batch sizes */
    int64_t input_count;
    uint64_t seed;
    tl_dtype dtype; /* of computation: TL_F32, TL_BF16, TL_F16, TL_F64; parameters are kept in
                     * float32, or float64 for TL_F64 */
    const tl_registry *registry; /* (optional: what ships) where layers and initialisers are looked
                                  * up by name; must outlive the model and its copies */
    /* (optional: tl_gin_current) binds what its layers leave open; must outlive them too */
    tl_gin *gin;
} tl_model_args;

TL_API TL_NODISCARD tl_status tl_model_new(tl_model **out, const tl_model_args *args);
/* NULL is fine. Tensors of its parameters that were kept (tl_tensor_keep) stay valid; calls that
 * were recorded with it must be gone (tl_ctx_end). */
TL_API void tl_model_free(tl_model **m);
/* A model of the same class and configuration with the same values and the same parts frozen. */
TL_API TL_NODISCARD tl_status tl_model_copy(tl_model **out, const tl_model *m);

typedef struct tl_param {
    const char *path; /* "conv/kernel" */
    tl_tensor *tensor;
    tl_layer *layer; /* whose it is */
    bool trainable, state;
    const char *group;
    int64_t block, offset; /* where it lies: index of the block, place in it in elements */
    tl_oneof initializer, regularizer;
    const char *const *aliases; /* other paths of the same parameter, then NULL */
} tl_param;
TL_API int64_t tl_model_param_count(const tl_model *m);
TL_API const tl_param *tl_model_param(const tl_model *m, int64_t index);
/* By path, aliases included; NULL when there is none. */
TL_API const tl_param *tl_model_find(const tl_model *m, const char *path);

typedef struct tl_block {
    tl_dtype dtype;
    bool trainable, state;
    const char *group;
    tl_tensor *values; /* flat, parameters one behind the other, each begins at a multiple of 16;
                        * zeros between them */
    const int64_t *params; /* indices of its parameters, in order */
    int64_t param_count;
    uint64_t users; /* of all its parameters, as in tl_layer; 0: of the whole model */
    bool asleep;    /* left alone for now (tl_optimizer_wake): it has no gradient and no losses */
} tl_block;
TL_API int64_t tl_model_block_count(const tl_model *m);
TL_API const tl_block *tl_model_block(const tl_model *m, int64_t index);

/* --- parts ------------------------------------------------------------------------------------ */

/* Models of several tasks have parts that are models by themselves (tl_scope_part): layers of one
 * task, and those that it shares with others. A part goes wherever a step takes a model: what it
 * does not use has no gradient, no loss and no update there. The optimizer is the whole model's. */
TL_API int64_t tl_model_part_count(const tl_model *m);
/* By name, as its layer has it; NULL when there is none. */
TL_API tl_model *tl_model_part(const tl_model *m, const char *name);
/* Whether a parameter is used by `m`, which is a model or a part of one. */
TL_API bool tl_model_uses(const tl_model *m, const tl_param *p);
/* Forgets losses and statistics of earlier calls, as a call of the whole model does; calls of parts
 * that follow are summed up. */
TL_API void tl_model_begin_calls(tl_ctx *c, tl_model *m);

/* What the model was rehearsed with. */
TL_API const tl_spec *tl_model_inputs(const tl_model *m, int64_t *count);

/* Gradients of a value by all trained parameters, one tensor for each block (`blocks` has room for
 * tl_model_block_count), laid out as it is; NULL for blocks that are not trained, or that a part
 * does not use. */
TL_API TL_NODISCARD tl_status tl_model_gradients(tl_ctx *c, const tl_model *m, tl_tensor *of,
                                                 tl_tensor **blocks);

/* Multiplies these gradients by a number. What else a step does to them before the optimizer sees
 * them does not reach rows that were looked up (tl_layer_looked_up). */
TL_API void tl_model_scale_gradients(tl_ctx *c, const tl_model *m, tl_tensor **blocks,
                                     double factor);

/* Freezes or thaws every layer and parameter whose path is `path` or lies under it ("" is all).
 * Blocks are laid out anew, so optimizer slots, and states made by tl_model_state, do not fit any
 * more; tensors of parameters stay valid. A failure changes nothing. */
TL_API TL_NODISCARD tl_status tl_model_set_trainable(tl_model *m, const char *path, bool trainable);
/* Puts the parameters whose paths match a POSIX extended regular expression into a group. Else as
 * above. */
TL_API TL_NODISCARD tl_status tl_model_set_group(tl_model *m, const char *pattern,
                                                 const char *group);

/* Draws all values again. */
TL_API TL_NODISCARD tl_status tl_model_initialize(tl_model *m, uint64_t seed);
/* Sum of the regularisers of trained parameters and of what layers added in the last call of the
 * model, whose scope (tl_ctx_begin) must still be open; NULL when there is nothing. */
TL_API tl_tensor *tl_model_losses(tl_ctx *c, tl_model *m);

/* Running statistics are not moved by calls of the model from now on, but by
 * tl_model_apply_updates: so a step whose gradients are not finite leaves them as they were. Gives
 * what was set before. */
TL_API bool tl_model_hold_updates(tl_model *m, bool hold);
/* Moves them as the last call of the model wanted, whose scope must still be open; not when
 * `finite`, a bool scalar, is false (NULL: always). */
TL_API void tl_model_apply_updates(tl_ctx *c, tl_model *m, tl_tensor *finite);

/* Parameters and state by path, for checkpoints; a tied parameter once, with its aliases. */
TL_API TL_NODISCARD tl_status tl_model_state(const tl_model *m, tl_state *into);
/* Parts that were named for partial checkpoints. */
TL_API int64_t tl_model_item_count(const tl_model *m);
TL_API const char *tl_model_item(const tl_model *m, int64_t index, tl_layer **part);

/* Elements: of parameters, of those that are trained, of state. */
typedef struct tl_model_size {
    int64_t params, trainable, state;
} tl_model_size;
TL_API tl_model_size tl_model_measure(const tl_model *m);
/* A table of layers, shapes and parameter counts, for people. */
TL_API void tl_model_summary(const tl_model *m, tl_str *out);
/* The same in at most `width` columns (40 or more; 0: as many as it takes): names are shortened,
 * and where that does not do, shapes are left out. */
TL_API void tl_model_summary_fit(const tl_model *m, int width, tl_str *out);

TL_END

#endif
