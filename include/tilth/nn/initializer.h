/* Initialisers: first values of parameters. Each is a described class that makes a
 * tensor out of ops.
 *
 *     tl_dense(s, "up", .units = 64, .kernel_initializer = TL_INITIALIZER("he_normal")); // a name
 *     tl_dense(s, "down", .units = 16,                                                // an object
 *              .kernel_initializer = TL_INITIALIZER_OF("truncated_normal", tl_normal_initializer,
 *                                                      .stddev = TL_SET(0.02)));
 *
 * What is drawn depends on the seed and on the path of the parameter, not on the order in which
 * parameters are made.
 *
 * Thread word: immutable. */
#ifndef TILTH_NN_INITIALIZER_H
#define TILTH_NN_INITIALIZER_H

#include <tilth/core/ctx.h>
#include <tilth/desc/registry.h>

TL_BEGIN

typedef struct tl_initializer_class {
    tl_class cls;
    /* Required: a tensor of this type and shape. Only calls ops; not while capturing. */
    tl_tensor *(*make)(tl_ctx *c, const void *config, tl_dtype dtype, tl_shape shape);
} tl_initializer_class;
TL_API extern const tl_kind tl_kind_initializer;
TL_API extern const tl_module tl_initializers_module;

/* Inputs and outputs that a weight connects: the last two dimensions, times the sizes of the window
 * (the dimensions before them). A vector counts as both. */
TL_API void tl_fans(const tl_shape *shape, double *in, double *out);

#define TL_INITIALIZER(name_) TL_INIT(.type = (name_))
#define TL_INITIALIZER_OF(name_, config_type, ...)                                                 \
    TL_INIT(.type = (name_), .value = TL_LITERAL(config_type, __VA_ARGS__))

/* Configurations. What a literal leaves out has its default; TL_SET(0) means zero. */
typedef struct tl_constant_initializer {
    double value;
} tl_constant_initializer;
/* 0, 0.05 */
typedef struct tl_normal_initializer {
    double mean;
    tl_opt_double stddev;
} tl_normal_initializer;
/* -0.05, 0.05 */
typedef struct tl_uniform_initializer {
    tl_opt_double low, high;
} tl_uniform_initializer;
typedef enum tl_fan_mode { TL_FAN_IN, TL_FAN_OUT, TL_FAN_AVG } tl_fan_mode;
typedef enum tl_scaling { TL_TRUNCATED_NORMAL, TL_UNTRUNCATED_NORMAL, TL_UNIFORM } tl_scaling;
typedef struct tl_variance_scaling {
    tl_opt_double scale;     /* 1 */
    tl_fan_mode mode;        /* fan_in */
    tl_scaling distribution; /* truncated_normal */
} tl_variance_scaling;
/* orthogonal: the shape is seen as a matrix whose columns are the last axis; its rows, or its
 * columns when there are fewer of them, are orthogonal to each other and of length `gain`.
 * identity: matrices alone. */
typedef struct tl_gain_initializer {
    tl_opt_double gain;
} tl_gain_initializer; /* 1 */

TL_END

#endif
