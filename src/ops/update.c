#include <tilth/ops/update.h>
#include <tilth/sys/core/op.h>
#include <tilth/sys/ops/apply.h>

#include <inttypes.h>

#include <tilth/base/integer.h>

#include "core/inner/gradient_run.h"
#include "ops/ops.h"
#include "ops/wide.h"

/* --- descriptions ---------------------------------------------------------------------------- */

static const char *const form_names[] = {"keras", "pytorch", NULL};

#define ROW(T, member, text) TL_F(tl_##T##_attr, member, .help = text)
#define FORM_ROW(T) TL_F(tl_##T##_attr, form, .names = form_names, .help = "whose way is followed")
#define MOMENTUM_ROW(T) ROW(T, momentum, "share of the last update that is kept")
#define EPSILON_ROW(T) ROW(T, epsilon, "keeps the divisor away from 0")
#define BETA_ROWS(T)                                                                               \
    ROW(T, beta_1, "decay of the average of gradients"),                                           \
        ROW(T, beta_2, "decay of the average of their squares")
#define DECAY_ROWS(T)                                                                              \
    ROW(T, weight_decay, "share of a weight that is taken away"),                                  \
        ROW(T, offsets, "where the tensors of the block begin"),                                   \
        ROW(T, decayed, "whether each of them decays")
#define DESC(T, ...)                                                                               \
    static const tl_desc T##_desc = {.name = #T,                                                   \
                                     .help = "attributes of " #T,                                  \
                                     .size = sizeof(tl_##T##_attr),                                \
                                     .fields = T##_fields,                                         \
                                     __VA_ARGS__};

static const tl_field update_fields[] = {
    TL_F(tl_update_attr, copy, .flags = TL_FIELD_QUIET,
         .help = "the last input is a copy of the parameters in half precision"),
    TL_F(tl_update_attr, runs, .flags = TL_FIELD_QUIET,
         .help = "first element, first byte and type of each run of the gradient"),
    TL_F_END,
};
DESC(update, .base = NULL)

static const tl_field sgd_fields[] = {
    MOMENTUM_ROW(sgd), DECAY_ROWS(sgd),
    FORM_ROW(sgd),     ROW(sgd, nesterov, "look ahead along the momentum"),
    TL_F_END,
};
DESC(sgd, .base = &update_desc)

static const tl_field adam_fields[] = {
    BETA_ROWS(adam),
    EPSILON_ROW(adam),
    DECAY_ROWS(adam),
    FORM_ROW(adam),
    ROW(adam, amsgrad, "divide by the greatest average"),
    TL_F_END,
};
DESC(adam, .base = &update_desc)

static const tl_field rmsprop_fields[] = {
    ROW(rmsprop, rho, "decay of the average of squares"),
    MOMENTUM_ROW(rmsprop),
    EPSILON_ROW(rmsprop),
    FORM_ROW(rmsprop),
    ROW(rmsprop, centered, "by the variance, not by the mean square"),
    TL_F_END,
};
DESC(rmsprop, .base = &update_desc)

static const tl_field adagrad_fields[] = {EPSILON_ROW(adagrad), TL_F_END};
DESC(adagrad, .base = &update_desc)

static const tl_field lamb_fields[] = {
    BETA_ROWS(lamb),  EPSILON_ROW(lamb),
    DECAY_ROWS(lamb), ROW(lamb, adapted, "whether the rate of each follows its norm"),
    TL_F_END,
};
DESC(lamb, .base = &update_desc)

static const tl_field lars_fields[] = {
    MOMENTUM_ROW(lars),
    ROW(lars, eeta, "share of its norm by which a tensor moves"),
    DECAY_ROWS(lars),
    ROW(lars, nesterov, "look ahead along the momentum"),
    ROW(lars, classic_momentum, "the rate goes into the momentum"),
    ROW(lars, adapted, "whether the rate of each follows its norm"),
    TL_F_END,
};
DESC(lars, .base = &update_desc)

static const tl_field adadelta_fields[] = {
    ROW(adadelta, rho, "decay of the averages"),
    EPSILON_ROW(adadelta),
    DECAY_ROWS(adadelta),
    TL_F_END,
};
DESC(adadelta, .base = &update_desc)

static const tl_field adamax_fields[] = {
    ROW(adamax, beta_1, "decay of the average of gradients"),
    ROW(adamax, beta_2, "decay of the greatest magnitude"),
    EPSILON_ROW(adamax),
    DECAY_ROWS(adamax),
    TL_F_END,
};
DESC(adamax, .base = &update_desc)

static const tl_field nadam_fields[] = {
    BETA_ROWS(nadam),
    EPSILON_ROW(nadam),
    DECAY_ROWS(nadam),
    TL_F_END,
};
DESC(nadam, .base = &update_desc)

static const tl_field ftrl_fields[] = {
    ROW(ftrl, learning_rate_power, "minus the power of the sum of squares"),
    ROW(ftrl, l1, "pull that weights of 0 withstand"),
    ROW(ftrl, l2, "pull of each weight to 0"),
    ROW(ftrl, l2_shrinkage, "the same, by way of the gradient"),
    ROW(ftrl, beta, "the same, less at greater rates"),
    DECAY_ROWS(ftrl),
    TL_F_END,
};
DESC(ftrl, .base = &update_desc)

static const tl_field lion_fields[] = {
    ROW(lion, beta_1, "share of the average in the direction"),
    ROW(lion, beta_2, "decay of the average of gradients"),
    DECAY_ROWS(lion),
    TL_F_END,
};
DESC(lion, .base = &update_desc)

static const tl_field ema_fields[] = {ROW(ema, momentum, "share of the old average"), TL_F_END};
DESC(ema, .base = NULL)

static const tl_field finite_fields[] = {
    TL_F(tl_finite_attr, runs, .flags = TL_FIELD_QUIET,
         .help = "first element, first byte and type of each run of the block"),
    TL_F(tl_finite_attr, count, .flags = TL_FIELD_QUIET, .help = "elements of these runs"),
    TL_F_END,
};
DESC(finite, .base = NULL)

static const tl_field assign_fields[] = {
    ROW(assign, add, "add to what is there"),
    ROW(assign, scale, "multiplies what is added; 0: nothing does"),
    TL_F_END,
};
DESC(assign, .base = NULL)

/* --- shape rules ----------------------------------------------------------------------------- */

enum { PARAM, GRAD, HYPER, SLOTS };

static tl_status check_param(const tl_tensor *t, const char *what)
{
    if (t->dtype == TL_F32 || t->dtype == TL_F64) return TL_OK;
    char spec[TL_TENSOR_TEXT];
    return TL_FAIL(TL_EINVAL, "%s is %s and must be float32 or float64", what,
                   tl_tensor_spec(spec, t));
}

static tl_status check_like(const tl_tensor *t, const tl_tensor *param, const char *what,
                            bool any_float)
{
    bool type = any_float ? tl_dtype_is_float(t->dtype) : t->dtype == param->dtype;
    if (type && tl_shape_equal(&t->shape, &param->shape)) return TL_OK;
    char spec[TL_TENSOR_TEXT], wanted[TL_TENSOR_TEXT];
    return TL_FAIL(TL_EINVAL, "%s is %s and must be %s the parameters, %s", what,
                   tl_tensor_spec(spec, t),
                   any_float ? "of a floating-point type and shaped like" : "like",
                   tl_tensor_spec(wanted, param));
}

static tl_status check_copy(const tl_tensor *copy, const tl_tensor *param)
{
    bool half = copy->dtype == TL_BF16 || copy->dtype == TL_F16;
    if (half && tl_shape_equal(&copy->shape, &param->shape)) return TL_OK;
    char spec[TL_TENSOR_TEXT], wanted[TL_TENSOR_TEXT];
    return TL_FAIL(TL_EINVAL,
                   "the copy is %s and must be bfloat16 or float16, shaped like the parameters, %s",
                   tl_tensor_spec(spec, copy), tl_tensor_spec(wanted, param));
}

// Numbers of a step are float32; for a block of float64 they may have its precision.
static bool is_number_for(const tl_tensor *t, const tl_tensor *param)
{
    return t->dtype == TL_F32 || (t->dtype == TL_F64 && param->dtype == TL_F64);
}

static const char *or_float64(const tl_tensor *param)
{
    return param->dtype == TL_F64 ? ", or float64" : "";
}

/* Runs of a block of `count` elements that lies in `bytes`: they cover it in order, and none lies
 * over another, or beyond the bytes. */
static tl_status check_runs(tl_ints runs, int64_t count, const tl_tensor *bytes)
{
    char spec[TL_TENSOR_TEXT];
    if (bytes->dtype != TL_U8 || bytes->shape.rank != 1)
        return TL_FAIL(TL_EINVAL, "a block in runs is %s and must be uint8 of one axis",
                       tl_tensor_spec(spec, bytes));
    if (runs.count % TLI_RUN_NUMBERS || runs.items[0] != 0)
        return TL_FAIL(TL_EINVAL, "runs are three numbers each, and the first begins at element 0");
    int64_t free = 0; // bytes from here on
    for (int64_t i = 0; i < runs.count / TLI_RUN_NUMBERS; i++) {
        const tli_gradient_run r = tli_gradient_run_of(runs, NULL, count, i);
        const int64_t at = runs.items[i * TLI_RUN_NUMBERS + 1];
        const bool type = r.type == TL_F32 || r.type == TL_BF16 || r.type == TL_F16;
        if (!type || r.begin >= r.end || r.end > count || at < free
            || at % (int64_t)tl_dtype_size(r.type)
            || (r.end - r.begin) * (int64_t)tl_dtype_size(r.type) > bytes->shape.dims[0] - at)
            return TL_FAIL(TL_EINVAL,
                           "run %" PRId64 " of a block, elements %" PRId64 " to %" PRId64
                           " of %" PRId64 " from byte %" PRId64
                           " on, must hold float32, bfloat16 or float16 and lie behind the one "
                           "before, within %s",
                           i, r.begin, r.end, count, at, tl_tensor_spec(spec, bytes));
        free = at + (r.end - r.begin) * (int64_t)tl_dtype_size(r.type);
    }
    return TL_OK;
}

// Parameters, gradients, hyper-parameters, then slots, whose number the attributes say, and the
// copy, where they say that there is one.
static tl_status check_block(const tl_node *call, int slots)
{
    const tl_tensor *param = call->in[PARAM], *hyper = call->in[HYPER];
    const tl_update_attr *attr = call->attr;
    bool copy = attr->copy;
    if (call->inputs != SLOTS + slots + copy)
        return TL_FAIL(TL_EINVAL, "%d slots are given; with these attributes it has %d%s",
                       call->inputs - SLOTS, slots + copy,
                       copy ? ", a copy of the parameters among them" : "");
    TL_TRY(check_param(param, "the block of parameters"));
    if (attr->runs.count) TL_TRY(check_runs(attr->runs, tl_tensor_count(param), call->in[GRAD]));
    else TL_TRY(check_like(call->in[GRAD], param, "the gradient", true));
    if (copy) TL_TRY(check_copy(call->in[SLOTS + slots], param));
    for (int i = SLOTS; i < SLOTS + slots; i++) {
        char what[32];
        snprintf(what, sizeof what, "slot %d", i - SLOTS);
        TL_TRY(check_like(call->in[i], param, what, false));
    }
    if (!is_number_for(hyper, param) || hyper->shape.rank != 1
        || hyper->shape.dims[0] != TL_HYPER_COUNT) {
        char spec[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL, "hyper is %s and must be float32[%d]%s",
                       tl_tensor_spec(spec, hyper), TL_HYPER_COUNT, or_float64(param));
    }
    return TL_OK;
}

static tl_status check_flags(tl_ints flags, tl_ints offsets, const char *name)
{
    int64_t tensors = offsets.count ? offsets.count : 1;
    if (flags.count && flags.count != tensors)
        return TL_FAIL(TL_EINVAL, "%s has %" PRId64 " items for %" PRId64 " tensors", name,
                       flags.count, tensors);
    return TL_OK;
}

static tl_status check_offsets(const tl_node *call, tl_ints offsets)
{
    int64_t count = tl_tensor_count(call->in[PARAM]), before = 0;
    for (int64_t i = 0; i < offsets.count; i++) {
        int64_t at = offsets.items[i];
        if (i == 0 ? at != 0 : at < before || at > count)
            return TL_FAIL(TL_EINVAL,
                           "offset %" PRId64 " is %" PRId64
                           "; they begin at 0 and do not fall, and the "
                           "block has %" PRId64 " elements",
                           i, at, count);
        before = at;
    }
    return TL_OK;
}

static tl_status sgd_infer(const tl_node *call)
{
    const tl_sgd_attr *a = call->attr;
    TL_TRY(check_block(call, a->momentum != 0));
    TL_TRY(check_offsets(call, a->offsets));
    return check_flags(a->decayed, a->offsets, "decayed");
}

static tl_status adam_infer(const tl_node *call)
{
    const tl_adam_attr *a = call->attr;
    TL_TRY(check_block(call, 2 + a->amsgrad));
    TL_TRY(check_offsets(call, a->offsets));
    return check_flags(a->decayed, a->offsets, "decayed");
}

static tl_status rmsprop_infer(const tl_node *call)
{
    const tl_rmsprop_attr *a = call->attr;
    return check_block(call, 1 + a->centered + (a->momentum != 0));
}

static tl_status adagrad_infer(const tl_node *call)
{
    return check_block(call, 1);
}

static tl_status lamb_infer(const tl_node *call)
{
    const tl_lamb_attr *a = call->attr;
    TL_TRY(check_block(call, 2));
    TL_TRY(check_offsets(call, a->offsets));
    TL_TRY(check_flags(a->decayed, a->offsets, "decayed"));
    return check_flags(a->adapted, a->offsets, "adapted");
}

static tl_status lars_infer(const tl_node *call)
{
    const tl_lars_attr *a = call->attr;
    TL_TRY(check_block(call, 1));
    TL_TRY(check_offsets(call, a->offsets));
    TL_TRY(check_flags(a->decayed, a->offsets, "decayed"));
    return check_flags(a->adapted, a->offsets, "adapted");
}

#define DECAYING_INFER(T, slots)                                                                   \
    static tl_status T##_infer(const tl_node *call)                                                \
    {                                                                                              \
        const tl_##T##_attr *a = call->attr;                                                       \
        TL_TRY(check_block(call, slots));                                                          \
        TL_TRY(check_offsets(call, a->offsets));                                                   \
        return check_flags(a->decayed, a->offsets, "decayed");                                     \
    }
DECAYING_INFER(adadelta, 2)
DECAYING_INFER(adamax, 2)
DECAYING_INFER(nadam, 2)
DECAYING_INFER(ftrl, 2)
DECAYING_INFER(lion, 1)

static tl_status ema_infer(const tl_node *call)
{
    TL_TRY(check_param(call->in[0], "the average"));
    const tl_tensor *average = call->in[0], *value = call->in[1];
    if (!tl_dtype_is_float(value->dtype) || !tl_shape_equal(&value->shape, &average->shape)) {
        char spec[TL_TENSOR_TEXT], wanted[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL,
                       "the value is %s and must be of a floating-point type and shaped like the "
                       "average, %s",
                       tl_tensor_spec(spec, value), tl_tensor_spec(wanted, average));
    }
    if (call->inputs < 3) return TL_OK;
    if (is_number_for(call->in[2], average) && tl_tensor_count(call->in[2]) == 1) return TL_OK;
    char spec[TL_TENSOR_TEXT];
    return TL_FAIL(TL_EINVAL, "the momentum is %s and must be float32%s with one element",
                   tl_tensor_spec(spec, call->in[2]), or_float64(average));
}

static tl_status assign_infer(const tl_node *call)
{
    const tl_tensor *target = call->in[0], *value = call->in[1];
    char spec[TL_TENSOR_TEXT], wanted[TL_TENSOR_TEXT];
    if (value->dtype != target->dtype || !tl_shape_equal(&value->shape, &target->shape))
        return TL_FAIL(TL_EINVAL, "the value is %s and must be like the target, %s",
                       tl_tensor_spec(spec, value), tl_tensor_spec(wanted, target));
    if (call->inputs < 3) return TL_OK;
    if (call->in[2]->dtype == TL_BOOL && tl_tensor_count(call->in[2]) == 1) return TL_OK;
    return TL_FAIL(TL_EINVAL, "whether the sum begins is %s and must be bool with one element",
                   tl_tensor_spec(spec, call->in[2]));
}

static tl_status finite_and_norm_infer(const tl_node *call)
{
    const tl_finite_attr *a = call->attr;
    if (a->runs.count && call->inputs > 1)
        return TL_FAIL(TL_EINVAL, "%d blocks are given; one in runs must be alone", call->inputs);
    if (a->runs.count) TL_TRY(check_runs(a->runs, a->count, call->in[0]));
    for (int i = 0; i < call->inputs && !a->runs.count; i++)
        TL_TRY(tli_want_float(call->in[i], "a block"));
    call->out[0]->dtype = a->runs.count ? TL_F32 : tli_wide(call->in[0]->dtype);
    call->out[1]->dtype = TL_BOOL;
    return TL_OK;
}

static tl_status square_sums_infer(const tl_node *call)
{
    TL_TRY(tli_want_float(call->in[0], "a block"));
    call->out[0]->dtype = TL_F64;
    call->out[0]->shape = TL_SHAPE(tl_div_up(tl_tensor_count(call->in[0]), TL_SQUARES));
    return TL_OK;
}

/* --- the ops --------------------------------------------------------------------------------- */

// Parameters, slots and the copy are written; gradients and hyper-parameters are not.
#define WRITES (1u << PARAM | ~0u << SLOTS)

#define UPDATE(T, help_, slots_)                                                                   \
    const tl_op_class tl_op_update_##T = {                                                         \
        .op = TL_OP_update_##T,                                                                    \
        .name = "update_" #T,                                                                      \
        .help = help_,                                                                             \
        .attr = &T##_desc,                                                                         \
        .inputs_min = SLOTS,                                                                       \
        .inputs_max = SLOTS + (slots_) + 1,                                                        \
        .flags = TL_OP_CONSTANT | TL_OP_UPDATE,                                                    \
        .writes = WRITES,                                                                          \
        .infer = T##_infer,                                                                        \
    };
UPDATE(sgd, "a step down the gradient", 1)
UPDATE(adam, "a step of Adam or AdamW", 3)
UPDATE(rmsprop, "a step of RMSProp", 3)
UPDATE(adagrad, "a step of Adagrad", 1)
UPDATE(lamb, "a step of LAMB", 2)
UPDATE(lars, "a step of LARS", 1)
UPDATE(adadelta, "a step of Adadelta", 2)
UPDATE(adamax, "a step of Adamax", 2)
UPDATE(nadam, "a step of Nadam", 2)
UPDATE(ftrl, "a step of FTRL", 2)
UPDATE(lion, "a step of Lion", 1)

const tl_op_class tl_op_update_ema = {
    .op = TL_OP_update_ema,
    .name = "update_ema",
    .help = "a moving average, moved in place",
    .attr = &ema_desc,
    .inputs_min = 2,
    .inputs_max = 3,
    .flags = TL_OP_CONSTANT,
    .writes = 1,
    .infer = ema_infer,
};

const tl_op_class tl_op_assign = {
    .op = TL_OP_assign,
    .name = "assign",
    .help = "a value put in place, or added there",
    .attr = &assign_desc,
    .inputs_min = 2,
    .inputs_max = 3,
    .flags = TL_OP_CONSTANT,
    .writes = 1,
    .infer = assign_infer,
};

const tl_op_class tl_op_finite_and_norm = {
    .op = TL_OP_finite_and_norm,
    .name = "finite_and_norm",
    .help = "Euclidean norm of blocks, and whether all is finite",
    .attr = &finite_desc,
    .inputs_min = 1,
    .inputs_max = -1,
    .outputs = 2,
    .flags = TL_OP_CONSTANT,
    .infer = finite_and_norm_infer,
};

const tl_op_class tl_op_square_sums = {
    .op = TL_OP_square_sums,
    .name = "square_sums",
    .help = "sums of squares of a block's pieces",
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .flags = TL_OP_CONSTANT,
    .infer = square_sums_infer,
};

// The slots that are there follow the first three inputs.
static bool update(tl_ctx *c, tl_op op, const void *attr, tl_tensor *const *first,
                   tl_tensor *const *slots, int count)
{
    tl_tensor *in[SLOTS + 3] = {first[0], first[1], first[2]}, *none[1] = {NULL};
    int inputs = SLOTS;
    for (int i = 0; i < count; i++)
        if (slots[i]) in[inputs++] = slots[i];
    return tl_apply_all(c, op, attr, inputs, in, none);
}

bool tl_update_sgd(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper,
                   tl_tensor *velocity, const tl_sgd_attr *attr)
{
    tl_tensor *const first[] = {param, grad, hyper}, *const slots[] = {velocity};
    return update(c, TL_OP_update_sgd, attr, first, slots, 1);
}

bool tl_update_adam(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper, tl_tensor *m,
                    tl_tensor *v, tl_tensor *v_max, const tl_adam_attr *attr)
{
    tl_tensor *const first[] = {param, grad, hyper}, *const slots[] = {m, v, v_max};
    return update(c, TL_OP_update_adam, attr, first, slots, 3);
}

bool tl_update_rmsprop(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper,
                       tl_tensor *squares, tl_tensor *average, tl_tensor *buffer,
                       const tl_rmsprop_attr *attr)
{
    tl_tensor *const first[] = {param, grad, hyper}, *const slots[] = {squares, average, buffer};
    return update(c, TL_OP_update_rmsprop, attr, first, slots, 3);
}

bool tl_update_adagrad(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper,
                       tl_tensor *squares, const tl_adagrad_attr *attr)
{
    tl_tensor *const first[] = {param, grad, hyper}, *const slots[] = {squares};
    return update(c, TL_OP_update_adagrad, attr, first, slots, 1);
}

bool tl_update_lamb(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper, tl_tensor *m,
                    tl_tensor *v, const tl_lamb_attr *attr)
{
    tl_tensor *const first[] = {param, grad, hyper}, *const slots[] = {m, v};
    return update(c, TL_OP_update_lamb, attr, first, slots, 2);
}

bool tl_update_lars(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper,
                    tl_tensor *velocity, const tl_lars_attr *attr)
{
    tl_tensor *const first[] = {param, grad, hyper}, *const slots[] = {velocity};
    return update(c, TL_OP_update_lars, attr, first, slots, 1);
}

bool tl_update_adadelta(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper,
                        tl_tensor *squares, tl_tensor *steps, const tl_adadelta_attr *attr)
{
    tl_tensor *const first[] = {param, grad, hyper}, *const slots[] = {squares, steps};
    return update(c, TL_OP_update_adadelta, attr, first, slots, 2);
}

bool tl_update_adamax(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper, tl_tensor *m,
                      tl_tensor *norm, const tl_adamax_attr *attr)
{
    tl_tensor *const first[] = {param, grad, hyper}, *const slots[] = {m, norm};
    return update(c, TL_OP_update_adamax, attr, first, slots, 2);
}

bool tl_update_nadam(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper, tl_tensor *m,
                     tl_tensor *v, const tl_nadam_attr *attr)
{
    tl_tensor *const first[] = {param, grad, hyper}, *const slots[] = {m, v};
    return update(c, TL_OP_update_nadam, attr, first, slots, 2);
}

bool tl_update_ftrl(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper,
                    tl_tensor *squares, tl_tensor *linear, const tl_ftrl_attr *attr)
{
    tl_tensor *const first[] = {param, grad, hyper}, *const slots[] = {squares, linear};
    return update(c, TL_OP_update_ftrl, attr, first, slots, 2);
}

bool tl_update_lion(tl_ctx *c, tl_tensor *param, tl_tensor *grad, tl_tensor *hyper, tl_tensor *m,
                    const tl_lion_attr *attr)
{
    tl_tensor *const first[] = {param, grad, hyper}, *const slots[] = {m};
    return update(c, TL_OP_update_lion, attr, first, slots, 1);
}

bool tl_update_ema(tl_ctx *c, tl_tensor *average, tl_tensor *value, double momentum)
{
    tl_tensor *const in[] = {average, value};
    tl_tensor *none[1] = {NULL};
    return tl_apply_all(c, TL_OP_update_ema, &(tl_ema_attr){.momentum = momentum}, 2, in, none);
}

bool tl_update_ema_by(tl_ctx *c, tl_tensor *average, tl_tensor *value, tl_tensor *momentum)
{
    tl_tensor *const in[] = {average, value, momentum};
    tl_tensor *none[1] = {NULL};
    return tl_apply_all(c, TL_OP_update_ema, &(tl_ema_attr){.momentum = 0}, 3, in, none);
}

static bool assign(tl_ctx *c, tl_tensor *target, tl_tensor *value, bool add)
{
    tl_tensor *const in[] = {target, value};
    tl_tensor *none[1] = {NULL};
    return tl_apply_all(c, TL_OP_assign, &(tl_assign_attr){.add = add}, 2, in, none);
}

bool tl_assign(tl_ctx *c, tl_tensor *target, tl_tensor *value)
{
    return assign(c, target, value, false);
}

bool tl_assign_add(tl_ctx *c, tl_tensor *target, tl_tensor *value)
{
    return assign(c, target, value, true);
}

bool tl_assign_sum(tl_ctx *c, tl_tensor *target, tl_tensor *value, tl_tensor *fresh)
{
    tl_tensor *const in[] = {target, value, fresh};
    tl_tensor *none[1] = {NULL};
    return tl_apply_all(c, TL_OP_assign, &(tl_assign_attr){.add = true}, 3, in, none);
}

bool tl_finite_and_norm(tl_ctx *c, tl_tensor *const *blocks, int count, tl_tensor **norm,
                        tl_tensor **finite)
{
    tl_tensor *out[2];
    bool done =
        tl_apply_all(c, TL_OP_finite_and_norm, &(tl_finite_attr){.count = 0}, count, blocks, out);
    *norm = out[0];
    *finite = out[1];
    return done;
}

tl_tensor *tl_square_sums(tl_ctx *c, tl_tensor *block)
{
    return tl_apply(c, TL_OP_square_sums, NULL, 1, &block);
}
