/* The models whose training steps are measured: those of the peers (bench/peers/step.py), by the
 * same names. */
#ifndef TILTH_BENCH_MODELS_H
#define TILTH_BENCH_MODELS_H

#include <tilth/nn/model.h>

typedef struct step_model {
    const char *name;
    const tl_layer_class *cls;
    const void *config;
    tl_shape input, labels;
    bool ids;        /* the input is integers below `classes`, else normal numbers */
    int64_t classes; /* labels are below it */
    double flops;    /* of the products of a step, both ways */
    bool half;       /* it is large enough for bfloat16 */
    bool clip;       /* gradients are clipped to a norm of 1, all together */
} step_model;

extern const step_model step_models[];
extern const int64_t step_model_count;

/* One whose weights take more memory than what it computes in. */
extern const step_model large_mlp;

/* Narrow encoders of more and more layers, whose calls are many and take no time. */
extern const step_model deep_models[];
extern const int64_t deep_model_count;

/* Of a size that keeps a GPU busy. */
extern const step_model gpu_models[];
extern const int64_t gpu_model_count;

#endif
