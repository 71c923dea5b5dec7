#include <tilth/nn/initializer.h>

#include <math.h>
#include <tilth/base/alloc.h>
#include <tilth/ops/create.h>
#include <tilth/ops/random.h>

static const tl_method methods[] = {TL_METHOD(tl_initializer_class, make, true), {NULL, 0, false}};
const tl_kind tl_kind_initializer = {
    .name = "initializer",
    .plural = "initializers",
    .help = "first values of parameters",
    .class_size = sizeof(tl_initializer_class),
    .methods = methods,
    .names_are_keys = true,
};

void tl_fans(const tl_shape *shape, double *in, double *out)
{
    *in = *out = 1;
    if (shape->rank == 0) return;
    if (shape->rank == 1) {
        *in = *out = (double)shape->dims[0];
        return;
    }
    double window = 1;
    for (int i = 0; i < shape->rank - 2; i++) window *= (double)shape->dims[i];
    *in = window * (double)shape->dims[shape->rank - 2];
    *out = window * (double)shape->dims[shape->rank - 1];
}

#define INITIALIZER(id, name_, config_, help_)                                                     \
    static const tl_initializer_class id##_initializer = {                                         \
        .cls = {.class_size = sizeof(tl_initializer_class),                                        \
                .name = name_,                                                                     \
                .help = help_,                                                                     \
                .config = config_},                                                                \
        .make = id##_make,                                                                         \
    };

/* --- constants -------------------------------------------------------------------------------- */

static const tl_field constant_fields[] = {
    TL_F(tl_constant_initializer, value, .help = "of every element"),
    TL_F_END,
};
static const tl_desc constant_desc = {
    .name = "constant",
    .help = "every element is one number",
    .size = sizeof(tl_constant_initializer),
    .fields = constant_fields,
};

static tl_tensor *zeros_make(tl_ctx *c, const void *config, tl_dtype dtype, tl_shape shape)
{
    (void)config;
    return tl_zeros(c, dtype, shape);
}

static tl_tensor *ones_make(tl_ctx *c, const void *config, tl_dtype dtype, tl_shape shape)
{
    (void)config;
    return tl_ones(c, dtype, shape);
}

static tl_tensor *constant_make(tl_ctx *c, const void *config, tl_dtype dtype, tl_shape shape)
{
    return tl_full(c, dtype, shape, ((const tl_constant_initializer *)config)->value);
}

INITIALIZER(zeros, "zeros", NULL, "0 everywhere")
INITIALIZER(ones, "ones", NULL, "1 everywhere")
INITIALIZER(constant, "constant", &constant_desc, "one number everywhere")

/* --- draws ------------------------------------------------------------------------------------ */

static const tl_field normal_fields[] = {
    TL_F(tl_normal_initializer, mean, .help = "of what is drawn"),
    TL_F(tl_normal_initializer, stddev, TL_FILLED, .d = 0.05, TL_AT_LEAST(0),
         .help = "of what is drawn"),
    TL_F_END,
};
static const tl_desc normal_desc = {
    .name = "normal",
    .help = "normal numbers",
    .size = sizeof(tl_normal_initializer),
    .fields = normal_fields,
};
static const tl_field uniform_fields[] = {
    TL_F(tl_uniform_initializer, low, TL_FILLED, .d = -0.05, .help = "smallest number"),
    TL_F(tl_uniform_initializer, high, TL_FILLED, .d = 0.05, .help = "bound that is not reached"),
    TL_F_END,
};
static tl_status uniform_check(const void *config)
{
    const tl_uniform_initializer *u = config;
    if (u->low.value < u->high.value) return TL_OK;
    return TL_FAIL(TL_EINVAL, "low: it is %g and must be below high, %g", u->low.value,
                   u->high.value);
}

static const tl_desc uniform_desc = {
    .name = "uniform",
    .help = "numbers between two bounds",
    .size = sizeof(tl_uniform_initializer),
    .fields = uniform_fields,
    .check = uniform_check,
};

static tl_tensor *normal_make(tl_ctx *c, const void *config, tl_dtype dtype, tl_shape shape)
{
    const tl_normal_initializer *n = config;
    return tl_random_normal(c, dtype, shape, n->mean, n->stddev.value);
}

static tl_tensor *truncated_make(tl_ctx *c, const void *config, tl_dtype dtype, tl_shape shape)
{
    const tl_normal_initializer *n = config;
    return tl_random_truncated_normal(c, dtype, shape, n->mean, n->stddev.value);
}

static tl_tensor *uniform_make(tl_ctx *c, const void *config, tl_dtype dtype, tl_shape shape)
{
    const tl_uniform_initializer *u = config;
    return tl_random_uniform(c, dtype, shape, u->low.value, u->high.value);
}

INITIALIZER(normal, "random_normal", &normal_desc, "normal numbers")
INITIALIZER(truncated, "truncated_normal", &normal_desc, "normal numbers within two deviations")
INITIALIZER(uniform, "random_uniform", &uniform_desc, "numbers between two bounds")

/* --- by the number of connections ------------------------------------------------------------- */

static const char *const mode_names[] = {"fan_in", "fan_out", "fan_avg", NULL};
static const char *const scaling_names[] = {"truncated_normal", "untruncated_normal", "uniform",
                                            NULL};
static const tl_field scaling_fields[] = {
    TL_F(tl_variance_scaling, scale, TL_FILLED, .d = 1.0, TL_AT_LEAST(0),
         .help = "of the variance"),
    TL_F(tl_variance_scaling, mode, .names = mode_names, .help = "connections that are counted"),
    TL_F(tl_variance_scaling, distribution, .names = scaling_names, .help = "of what is drawn"),
    TL_F_END,
};
static const tl_desc scaling_desc = {
    .name = "variance_scaling",
    .help = "variance by connections",
    .size = sizeof(tl_variance_scaling),
    .fields = scaling_fields,
};

// Two deviations cut off leave this much of the deviation.
#define TRUNCATED_DEVIATION 0.87962566103423978

static tl_tensor *scaled(tl_ctx *c, tl_variance_scaling v, tl_dtype dtype, tl_shape shape)
{
    double in, out;
    tl_fans(&shape, &in, &out);
    double fan = v.mode == TL_FAN_IN ? in : v.mode == TL_FAN_OUT ? out : (in + out) / 2;
    double variance = v.scale.value / (fan > 1 ? fan : 1);
    switch (v.distribution) {
    case TL_UNIFORM: {
        double bound = sqrt(3 * variance);
        return tl_random_uniform(c, dtype, shape, -bound, bound);
    }
    case TL_UNTRUNCATED_NORMAL: return tl_random_normal(c, dtype, shape, 0, sqrt(variance));
    default:
        return tl_random_truncated_normal(c, dtype, shape, 0, sqrt(variance) / TRUNCATED_DEVIATION);
    }
}

static tl_tensor *scaling_make(tl_ctx *c, const void *config, tl_dtype dtype, tl_shape shape)
{
    return scaled(c, *(const tl_variance_scaling *)config, dtype, shape);
}

#define SCALED(id, scale_, mode_, distribution_, help_)                                            \
    static tl_tensor *id##_make(tl_ctx *c, const void *config, tl_dtype dtype, tl_shape shape)     \
    {                                                                                              \
        (void)config;                                                                              \
        return scaled(c, (tl_variance_scaling){TL_SET(scale_), mode_, distribution_}, dtype,       \
                      shape);                                                                      \
    }                                                                                              \
    INITIALIZER(id, #id, NULL, help_)

INITIALIZER(scaling, "variance_scaling", &scaling_desc, "variance by the number of connections")
SCALED(glorot_uniform, 1, TL_FAN_AVG, TL_UNIFORM, "Glorot and Bengio's, uniform")
SCALED(glorot_normal, 1, TL_FAN_AVG, TL_TRUNCATED_NORMAL, "Glorot and Bengio's, truncated normal")
SCALED(he_uniform, 2, TL_FAN_IN, TL_UNIFORM, "He's, uniform")
SCALED(he_normal, 2, TL_FAN_IN, TL_TRUNCATED_NORMAL, "He's, truncated normal")
SCALED(lecun_uniform, 1, TL_FAN_IN, TL_UNIFORM, "LeCun's, uniform")
SCALED(lecun_normal, 1, TL_FAN_IN, TL_TRUNCATED_NORMAL, "LeCun's, truncated normal")

/* --- matrices --------------------------------------------------------------------------------- */

static const tl_field gain_fields[] = {
    TL_F(tl_gain_initializer, gain, TL_FILLED, .d = 1.0, .help = "factor"),
    TL_F_END,
};
static const tl_desc gain_desc = {
    .name = "gain",
    .help = "a factor",
    .size = sizeof(tl_gain_initializer),
    .fields = gain_fields,
};

static tl_tensor *identity_make(tl_ctx *c, const void *config, tl_dtype dtype, tl_shape shape)
{
    const tl_gain_initializer *g = config;
    if (shape.rank != 2) {
        char text[TL_SHAPE_TEXT];
        (void)TL_FAIL(TL_EINVAL, "identity: %s is not a matrix", tl_shape_text(text, &shape));
        return tl_ctx_fail(c);
    }
    double *m = tl_arena_array(tl_ctx_arena(c), tl_shape_count(&shape), sizeof *m);
    if (!m) return tl_ctx_fail(c);
    for (int64_t i = 0; i < shape.dims[0] && i < shape.dims[1]; i++)
        m[i * shape.dims[1] + i] = g->gain.value;
    return tl_from_doubles(c, dtype, shape, m);
}

// Eight sums side by side, so that no addition waits for the one before it.
static double dot(const double *a, const double *b, int64_t n)
{
    enum { SUMS = 8 };
    double sums[SUMS] = {0};
    int64_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int k = 0; k < SUMS; k++) sums[k] += a[i + k] * b[i + k];
    for (; i < n; i++) sums[0] += a[i] * b[i];
    return (sums[0] + sums[4]) + (sums[1] + sums[5]) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

// Rows made orthogonal to those before them (twice, against what rounding leaves) and of length 1.
static void orthogonalize(double *m, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++) {
        double *row = m + r * columns;
        for (int64_t k = 0; k < 2 * r; k++) {
            const double *other = m + k % r * columns;
            double along = dot(row, other, columns);
            for (int64_t i = 0; i < columns; i++) row[i] -= along * other[i];
        }
        double length = sqrt(dot(row, row, columns));
        for (int64_t i = 0; i < columns; i++) row[i] /= length;
    }
}

// The shape seen as a matrix whose columns are the last axis; the shorter side is made orthogonal.
static tl_tensor *orthogonal_make(tl_ctx *c, const void *config, tl_dtype dtype, tl_shape shape)
{
    const tl_gain_initializer *g = config;
    if (shape.rank < 2) {
        char text[TL_SHAPE_TEXT];
        (void)TL_FAIL(TL_EINVAL, "orthogonal: %s is not a matrix and has no rows to compare",
                      tl_shape_text(text, &shape));
        return tl_ctx_fail(c);
    }
    int64_t columns = shape.dims[shape.rank - 1], count = tl_shape_count(&shape);
    int64_t rows = columns ? count / columns : 0;
    bool tall = rows > columns;
    tl_tensor *drawn = tl_random_normal(c, TL_F64, TL_SHAPE(count), 0, 1);
    double *m = tl_arena_array(tl_ctx_arena(c), count, sizeof *m);
    double *out = tl_arena_array(tl_ctx_arena(c), count, sizeof *out);
    if (!drawn || !m || !out || tl_tensor_get_doubles(drawn, m, count) != TL_OK)
        return tl_ctx_fail(c);
    orthogonalize(m, tall ? columns : rows, tall ? rows : columns);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < columns; k++)
            out[r * columns + k] = g->gain.value * (tall ? m[k * rows + r] : m[r * columns + k]);
    return tl_from_doubles(c, dtype, shape, out);
}

INITIALIZER(identity, "identity", &gain_desc, "ones on the diagonal of a matrix")
INITIALIZER(orthogonal, "orthogonal", &gain_desc, "rows or columns orthogonal to each other")

/* --- the list --------------------------------------------------------------------------------- */

#define ENTRY(id) TL_INIT(&tl_kind_initializer, &id##_initializer.cls)
static const tl_entry entries[] = {
    ENTRY(zeros),         ENTRY(ones),       ENTRY(constant),   ENTRY(normal),
    ENTRY(truncated),     ENTRY(uniform),    ENTRY(scaling),    ENTRY(glorot_uniform),
    ENTRY(glorot_normal), ENTRY(he_uniform), ENTRY(he_normal),  ENTRY(lecun_uniform),
    ENTRY(lecun_normal),  ENTRY(identity),   ENTRY(orthogonal),
};
const tl_module tl_initializers_module = {TL_MODULE_HEAD("nn_initializers"), entries,
                                          TL_COUNT(entries)};
