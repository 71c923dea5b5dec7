/* Training steps of a model with Adam, for tests that compare ways of running them. */
#ifndef TILTH_TESTS_GRAPH_TRAINER_H
#define TILTH_TESTS_GRAPH_TRAINER_H

#include "test.h"

#include <tilth/nn/model.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/loss.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/update.h>

typedef struct trainer {
    tl_model *model;
    tl_tensor *m, *v, *hyper;
} trainer;

/* Of a model with one block of parameters; the context has the moments. */
static inline void trainer_start(trainer *t, tl_engine *engine, tl_ctx *c,
                                 const tl_layer_class *cls, const tl_spec *input, tl_dtype dtype)
{
    assert_ok(tl_model_new(&t->model, &(tl_model_args){.engine = engine,
                                                       .cls = cls,
                                                       .inputs = input,
                                                       .input_count = 1,
                                                       .seed = 5,
                                                       .dtype = dtype}));
    const tl_tensor *values = tl_model_block(t->model, 0)->values;
    t->m = tl_full(c, values->dtype, values->shape, 0);
    t->v = tl_full(c, values->dtype, values->shape, 0);
    t->hyper = tl_from_doubles(c, TL_F32, TL_SHAPE(TL_HYPER_COUNT), (double[]){0.01, 1, 1, 1});
}

/* The loss of "x" with labels "y", and gradients of it. */
static inline tl_status trainer_gradients(const trainer *t, tl_ctx *c, const tl_tensors *in,
                                          tl_tensor **loss, tl_tensor **grads)
{
    bool taping = tl_ctx_set_taping(c, true);
    tl_tensor *scores = tl_cast(c, tl_call(c, t->model, tl_tensors_get(c, in, "x")), TL_F32);
    *loss =
        tl_mean(c, tl_sparse_cross_entropy(c, tl_tensors_get(c, in, "y"), scores), TL_ALL, false);
    TL_TRY(tl_model_gradients(c, t->model, *loss, grads));
    tl_ctx_set_taping(c, taping);
    return TL_OK;
}

/* A step, with the norm of the gradients. */
static inline tl_status train_step(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    trainer *t = self;
    tl_tensor *loss, *grads[2], *norm, *finite;
    TL_TRY(trainer_gradients(t, c, in, &loss, grads));
    tl_finite_and_norm(c, grads, 1, &norm, &finite);
    tl_update_adam(
        c, tl_model_block(t->model, 0)->values, grads[0], t->hyper, t->m, t->v, NULL,
        &(tl_adam_attr){.beta_1 = 0.9, .beta_2 = 0.99, .epsilon = 1e-6, .weight_decay = 0.01});
    tl_tensors_put(c, out, "loss", loss);
    tl_tensors_put(c, out, "norm", norm);
    return tl_ctx_status(c);
}

#endif
