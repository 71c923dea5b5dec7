/* A model that is nothing but parameters, and gradients for it that follow no pattern: what tests
 * of optimizers need. */
#ifndef TILTH_TESTS_NN_WEIGHTS_H
#define TILTH_TESTS_NN_WEIGHTS_H

#include "test.h"

#include <stdlib.h>

#include <tilth/graph/function.h>
#include <tilth/nn/layer.h>
#include <tilth/nn/optimizer.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>

#include "engine.h"
#include "settings.h"

enum { PARAMS = 4, MOST = 64, MOST_BLOCKS = 8 };

/* Parameters and their places in a list of all elements. */
typedef struct wanted_param {
    const char *layer, *name;
    tl_shape shape;
} wanted_param;
static const wanted_param wanted_params[PARAMS] = {
    {"dense", "kernel", {.rank = 2, .dims = {5, 3}}},
    {"dense", "bias", {.rank = 1, .dims = {3}}},
    {"layer_norm", "gamma", {.rank = 1, .dims = {4}}},
    {"conv", "kernel", {.rank = 3, .dims = {2, 3, 4}}},
};
enum { ELEMENTS = 15 + 3 + 4 + 24 };

static inline tl_tensor *pass_on(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    (void)l;
    (void)c;
    return x;
}

static inline tl_status build_holder(tl_layer *l, tl_scope *s, const void *config)
{
    (void)config;
    for (int i = 0; i < PARAMS; i++)
        if (strcmp(wanted_params[i].layer, l->name) == 0)
            tl_scope_param(s, wanted_params[i].name,
                           &(tl_param_args){.shape = wanted_params[i].shape});
    return tl_scope_status(s);
}
static const tl_layer_class holder = {
    .cls = TL_CLASS(tl_layer_class, "holder", NULL, tl_layer, NULL),
    .build = build_holder,
    .forward = pass_on,
};

static inline tl_status build_weights(tl_layer *l, tl_scope *s, const void *config)
{
    (void)l;
    (void)config;
    tl_scope_layer(s, "dense", &holder, NULL);
    tl_scope_layer(s, "layer_norm", &holder, NULL);
    tl_scope_layer(s, "conv", &holder, NULL);
    tl_scope_param(s, "statistic", &(tl_param_args){.shape = TL_SHAPE(3), .state = true});
    return tl_scope_status(s);
}
static const tl_layer_class weights_class = {
    .cls = TL_CLASS(tl_layer_class, "weights", NULL, tl_layer, NULL),
    .build = build_weights,
    .forward = pass_on,
};

/* Numbers between -1 and 1, as tests/golden/optimizers.py has them. */
static inline void pseudo_values(double *out, int64_t seed, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = (double)((i * 7919 + seed * 104729 + i * i * seed % 1013) % 1021 - 510) / 512;
}

static inline void put_values(tl_tensor *const *tensors, int64_t factor, int64_t first, bool zero)
{
    for (int i = 0; i < PARAMS; i++) {
        double values[MOST];
        int64_t count = tl_tensor_count(tensors[i]);
        pseudo_values(values, factor * i + first, count);
        for (int64_t k = 0; zero && i == 1 && k < count; k++) values[k] = 0;
        assert_ok(tl_tensor_set_doubles(tensors[i], values, count));
    }
}

/* One engine for all labs of a program. */
static tl_engine *lab_engine;

static inline int open_labs(void **state)
{
    assert_ok(test_engine_new(&lab_engine, NULL, 1));
    return open_registry(state);
}

static inline int close_labs(void **state)
{
    tl_engine_free(&lab_engine);
    return close_registry(state);
}

/* All that a test of an optimizer has. */
typedef struct lab {
    tl_engine *engine;
    tl_ctx *c;
    tl_model *model;
    tl_optimizer *o;
    tl_function *step;
    tl_tensor *params[PARAMS];
    tl_tensor *grads[MOST_BLOCKS];               /* by block */
    tl_tensor *grad_parts[PARAMS];               /* the same by parameter */
    tl_tensor *weight;                           /* or NULL */
    tl_status (*body)(struct lab *l, tl_ctx *c); /* what a step does; NULL: applies */
} lab;

static inline tl_tensor *param_of(const lab *l, int i)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", wanted_params[i].layer, wanted_params[i].name);
    const tl_param *p = tl_model_find(l->model, path);
    assert_non_null(p);
    return p->tensor;
}

static inline void new_grads(lab *l)
{
    for (int64_t b = 0; b < tl_model_block_count(l->model); b++) {
        const tl_block *block = tl_model_block(l->model, b);
        if (!block->trainable) continue;
        double zeros[4 * MOST] = {0};
        assert_ok(tl_tensor_new(&l->grads[b], l->engine, block->dtype, block->values->shape));
        assert_ok(tl_tensor_set_doubles(l->grads[b], zeros, tl_tensor_count(block->values)));
    }
    for (int i = 0; i < PARAMS; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", wanted_params[i].layer, wanted_params[i].name);
        const tl_param *p = tl_model_find(l->model, path);
        if (p->trainable)
            assert_ok(
                tl_tensor_part(&l->grad_parts[i], l->grads[p->block], p->offset, p->tensor->shape));
    }
}

static inline tl_status lab_step(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    lab *l = self;
    (void)in;
    if (l->body) TL_TRY(l->body(l, c));
    else tl_optimizer_apply(l->o, c, l->grads, l->weight);
    tl_tensors_put(c, out, "rate", tl_optimizer_rate(l->o, c));
    return tl_ctx_status(c);
}

enum { EAGER, INTERPRETED, COMPILED, MODES };

/* A model with the weights of the golden files. */
static inline void lab_open_model(lab *l, tl_dtype dtype)
{
    tl_spec input = {"x", TL_F32, TL_SHAPE(1)};
    *l = (lab){.engine = lab_engine};
    assert_ok(tl_ctx_new(&l->c, l->engine));
    assert_ok(tl_model_new(&l->model, &(tl_model_args){.engine = l->engine,
                                                       .cls = &weights_class,
                                                       .inputs = &input,
                                                       .input_count = 1,
                                                       .dtype = dtype}));
    for (int i = 0; i < PARAMS; i++) l->params[i] = param_of(l, i);
    put_values(l->params, 1, 1, true);
}

static inline void lab_open_optimizer(lab *l, const char *yaml, const tl_optimizer_args *more,
                                      int mode)
{
    tl_config *s = settings_of(yaml);
    tl_optimizer_args args = more ? *more : (tl_optimizer_args){0};
    args.engine = l->engine;
    args.model = l->model;
    args.config = tl_config_value(s);
    args.registry = registry;
    assert_ok(tl_optimizer_new(&l->o, &args));
    tl_config_free(&s); // the optimizer has a copy
    new_grads(l);
    if (mode != EAGER)
        assert_ok(tl_function_new(&l->step, &(tl_function_args){.engine = l->engine,
                                                                .body = lab_step,
                                                                .self = l,
                                                                .interpret = mode == INTERPRETED}));
}

static inline void lab_open(lab *l, tl_dtype dtype, const char *yaml, int mode)
{
    lab_open_model(l, dtype);
    lab_open_optimizer(l, yaml, NULL, mode);
}

static inline void lab_close(lab *l)
{
    tl_function_free(&l->step);
    tl_optimizer_free(&l->o);
    for (int i = 0; i < PARAMS; i++) tl_tensor_free(&l->grad_parts[i]);
    for (int i = 0; i < MOST_BLOCKS; i++) tl_tensor_free(&l->grads[i]);
    tl_tensor_free(&l->weight);
    tl_model_free(&l->model);
    tl_ctx_free(&l->c);
}

/* The gradients of step `number`, from 1. */
static inline void lab_set_gradients(lab *l, int64_t number)
{
    put_values(l->grad_parts, 5, 17 * number + 3, false);
}

/* One step with the gradients as they are. */
static inline void lab_run(lab *l)
{
    tl_mark mark = tl_ctx_begin(l->c);
    tl_tensors in = {0}, out = {0};
    assert_ok(l->step ? tl_function_call(l->step, l->c, &in, &out) : lab_step(l, l->c, &in, &out));
    tl_ctx_end(l->c, mark);
}

static inline void lab_run_number(lab *l, int64_t number)
{
    lab_set_gradients(l, number);
    lab_run(l);
}

/* All parameters one behind the other, as numbers. */
static inline void get_all(double *out, tl_tensor *const *tensors)
{
    for (int i = 0; i < PARAMS; i++) {
        int64_t count = tl_tensor_count(tensors[i]);
        assert_ok(tl_tensor_get_doubles(tensors[i], out, count));
        out += count;
    }
}

static inline double most_apart(const double *a, const double *b, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fabs(a[i] - b[i]) <= HUGE_VAL ? fmax(most, fabs(a[i] - b[i])) : HUGE_VAL;
    return most;
}

#endif
