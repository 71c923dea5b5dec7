#include <tilth/ops/random.h>
#include <tilth/sys/core/op.h>
#include <tilth/sys/ops/apply.h>

#include <inttypes.h>
#include <math.h>

#include "core/inner/integer.h"
#include "ops/ops.h"

/* --- floats and bernoulli --------------------------------------------------------------------- */

static const tl_field random_fields[] = {
    TL_F(tl_random_attr, key, .help = "of the draws"),
    TL_F(tl_random_attr, a, .help = "low, mean or probability"),
    TL_F(tl_random_attr, b, .help = "high or deviation"),
    TL_F(tl_random_attr, shape, .help = "of the result"),
    TL_F(tl_random_attr, dtype, .names = tl_dtype_names, .help = "of the result"),
    TL_F_END,
};
static const tl_desc random_desc = {
    .name = "random",
    .help = "attributes of random numbers",
    .size = sizeof(tl_random_attr),
    .fields = random_fields,
};

static tl_status random_infer(const tl_node *call)
{
    const tl_random_attr *a = call->attr;
    call->out[0]->dtype = a->dtype;
    return tli_shape_from(&call->out[0]->shape, a->shape);
}

static tl_status want_float_type(tl_dtype dtype)
{
    if (tl_dtype_is_float(dtype)) return TL_OK;
    return TL_FAIL(TL_EINVAL, "the type is %s and must be a floating-point type",
                   tl_dtype_name(dtype));
}

static tl_status uniform_infer(const tl_node *call)
{
    const tl_random_attr *a = call->attr;
    TL_TRY(want_float_type(a->dtype));
    if (!(a->a <= a->b) || !isfinite(a->b - a->a))
        return TL_FAIL(TL_EINVAL,
                       "low is %g and high is %g; both must be finite, and low not above high",
                       a->a, a->b);
    return random_infer(call);
}

static tl_status normal_infer(const tl_node *call)
{
    const tl_random_attr *a = call->attr;
    TL_TRY(want_float_type(a->dtype));
    if (!isfinite(a->a) || !isfinite(a->b) || a->b < 0)
        return TL_FAIL(TL_EINVAL,
                       "the mean is %g and the deviation %g; both must be finite, and the "
                       "deviation not negative",
                       a->a, a->b);
    return random_infer(call);
}

static tl_status bernoulli_infer(const tl_node *call)
{
    const tl_random_attr *a = call->attr;
    if (!(a->a >= 0 && a->a <= 1))
        return TL_FAIL(TL_EINVAL, "the probability is %g and must lie between 0 and 1", a->a);
    return random_infer(call);
}

#define RANDOM(name_, help_, desc, rule)                                                           \
    const tl_op_class tl_op_##name_ = {                                                            \
        .op = TL_OP_##name_,                                                                       \
        .name = #name_,                                                                            \
        .help = (help_),                                                                           \
        .attr = &(desc),                                                                           \
        .outputs = 1,                                                                              \
        .by = -1,                                                                                  \
        .flags = TL_OP_CONSTANT | TL_OP_RANDOM,                                                    \
        .infer = rule,                                                                             \
    }
RANDOM(random_uniform, "equally likely numbers in [low, high)", random_desc, uniform_infer);
RANDOM(random_normal, "normal numbers", random_desc, normal_infer);
RANDOM(random_truncated_normal, "normal numbers within two deviations", random_desc, normal_infer);
RANDOM(random_bernoulli, "1 with a probability, else 0", random_desc, bernoulli_infer);

static tl_tensor *draw(tl_ctx *c, tl_op op, tl_dtype dtype, const tl_shape *shape, double a,
                       double b)
{
    tl_random_attr attr = {
        .key = tl_ctx_draw_key(c), .a = a, .b = b, .shape = tli_dims(shape), .dtype = dtype};
    return tl_apply(c, op, &attr, 0, NULL);
}

tl_tensor *tl_random_uniform(tl_ctx *c, tl_dtype dtype, tl_shape shape, double low, double high)
{
    return draw(c, TL_OP_random_uniform, dtype, &shape, low, high);
}

tl_tensor *tl_random_normal(tl_ctx *c, tl_dtype dtype, tl_shape shape, double mean,
                            double deviation)
{
    return draw(c, TL_OP_random_normal, dtype, &shape, mean, deviation);
}

tl_tensor *tl_random_truncated_normal(tl_ctx *c, tl_dtype dtype, tl_shape shape, double mean,
                                      double deviation)
{
    return draw(c, TL_OP_random_truncated_normal, dtype, &shape, mean, deviation);
}

tl_tensor *tl_random_bernoulli(tl_ctx *c, tl_dtype dtype, tl_shape shape, double probability)
{
    return draw(c, TL_OP_random_bernoulli, dtype, &shape, probability, 0);
}

/* --- integers --------------------------------------------------------------------------------- */

static const tl_field integers_fields[] = {
    TL_F(tl_random_integers_attr, key, .help = "of the draws"),
    TL_F(tl_random_integers_attr, low, .help = "the least"),
    TL_F(tl_random_integers_attr, high, .help = "one more than the greatest"),
    TL_F(tl_random_integers_attr, shape, .help = "of the result"),
    TL_F(tl_random_integers_attr, dtype, .names = tl_dtype_names, .help = "of the result"),
    TL_F_END,
};
static const tl_desc integers_desc = {
    .name = "random_integers",
    .help = "attributes of random_integers",
    .size = sizeof(tl_random_integers_attr),
    .fields = integers_fields,
};

static tl_status integers_infer(const tl_node *call)
{
    const tl_random_integers_attr *a = call->attr;
    int64_t least, greatest;
    if (tl_dtype_classify(a->dtype) != TL_CLASS_INT)
        return TL_FAIL(TL_EINVAL, "the type is %s and must be an integer type",
                       tl_dtype_name(a->dtype));
    if (a->low >= a->high)
        return TL_FAIL(TL_EINVAL, "low is %" PRId64 " and must be below high, %" PRId64, a->low,
                       a->high);
    tli_integer_range(a->dtype, &least, &greatest);
    if (a->low < least || a->high - 1 > greatest)
        return TL_FAIL(TL_EINVAL,
                       "%s holds %" PRId64 " to %" PRId64 ", not all from %" PRId64 " to %" PRId64,
                       tl_dtype_name(a->dtype), least, greatest, a->low, a->high - 1);
    call->out[0]->dtype = a->dtype;
    return tli_shape_from(&call->out[0]->shape, a->shape);
}

RANDOM(random_integers, "equally likely integers in [low, high)", integers_desc, integers_infer);

tl_tensor *tl_random_integers(tl_ctx *c, tl_dtype dtype, tl_shape shape, int64_t low, int64_t high)
{
    tl_random_integers_attr attr = {
        .key = tl_ctx_draw_key(c),
        .low = low,
        .high = high,
        .shape = tli_dims(&shape),
        .dtype = dtype,
    };
    return tl_apply(c, TL_OP_random_integers, &attr, 0, NULL);
}

static const tl_field permutation_fields[] = {
    TL_F(tl_permutation_attr, key, .help = "of the draws"),
    TL_F(tl_permutation_attr, count, .help = "of the numbers"),
    TL_F_END,
};
static const tl_desc permutation_desc = {
    .name = "random_permutation",
    .help = "attributes of random_permutation",
    .size = sizeof(tl_permutation_attr),
    .fields = permutation_fields,
};

static tl_status permutation_infer(const tl_node *call)
{
    const tl_permutation_attr *a = call->attr;
    if (a->count < 0)
        return TL_FAIL(TL_EINVAL, "the count is %" PRId64 " and must not be negative", a->count);
    call->out[0]->dtype = TL_I64;
    call->out[0]->shape = TL_SHAPE(a->count);
    return TL_OK;
}

RANDOM(random_permutation, "0 .. count-1 in random order", permutation_desc, permutation_infer);

tl_tensor *tl_random_permutation(tl_ctx *c, int64_t count)
{
    tl_permutation_attr attr = {.key = tl_ctx_draw_key(c), .count = count};
    return tl_apply(c, TL_OP_random_permutation, &attr, 0, NULL);
}
