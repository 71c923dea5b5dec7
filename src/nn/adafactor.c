/* Adafactor as Keras has it: of squared gradients only averages over rows and over columns are
 * kept, for parameters that have both. It is made of ops, one parameter after the other. */
#include <math.h>

#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/pack.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/update.h>
#include <tilth/ops/view.h>

#include "nn/optimizer.h"

// A shape without one of its axes.
static tl_shape without(tl_shape shape, int axis)
{
    for (int i = axis; i + 1 < shape.rank; i++) shape.dims[i] = shape.dims[i + 1];
    shape.dims[--shape.rank] = 0;
    return shape;
}

tl_status tli_adafactor_keras_prepare(tl_optimizer_block *b, const void *config)
{
    (void)config;
    for (int64_t i = 0; i < b->block->param_count; i++) {
        tl_shape shape = tl_optimizer_block_param(b, i)->tensor->shape;
        if (shape.rank < 2) {
            TL_TRY(tl_optimizer_add_param_slot(b, "v", i, shape, 0));
            continue;
        }
        TL_TRY(tl_optimizer_add_param_slot(b, "r", i, without(shape, shape.rank - 1), 0));
        TL_TRY(tl_optimizer_add_param_slot(b, "c", i, without(shape, shape.rank - 2), 0));
    }
    return TL_OK;
}

/* The numbers of this update, in the type of the block. */
typedef struct numbers {
    tl_tensor *rate, *kept, *taken, *scale; /* kept + taken = 1 */
} numbers;

static numbers numbers_of(tl_ctx *c, const tl_update *u)
{
    const tl_adafactor_keras_config *g = u->config;
    tl_dtype dtype = u->values->dtype;
    tl_tensor *taken = tl_pow(c, u->step, tl_number(c, TL_F64, g->beta_2_decay.value));
    return (numbers){.rate = tl_cast(c, tl_minimum(c, u->rate, tl_rsqrt(c, u->step)), dtype),
                     .kept = tl_cast(c, tl_affine(c, taken, -1, 1), dtype),
                     .taken = tl_cast(c, taken, dtype),
                     .scale = tl_cast(c, u->scale, dtype)};
}

static tl_tensor *root_mean_square(tl_ctx *c, tl_tensor *x)
{
    return tl_sqrt(c, tl_mean(c, tl_square(c, x), TL_ALL, false));
}

// Moves an average, unless nothing is to be applied, and gives its new value.
static tl_tensor *move(tl_ctx *c, const tl_update *u, const numbers *n, tl_tensor *average,
                       tl_tensor *by)
{
    tl_tensor *next = tl_add(c, tl_mul(c, n->kept, average), tl_mul(c, n->taken, by));
    next = tl_where(c, u->apply, next, average);
    tl_assign(c, average, next);
    return next;
}

// The averages of squares that stand for those of each element.
static tl_tensor *squares(tl_ctx *c, const tl_update *u, const numbers *n, int64_t param,
                          tl_tensor *square)
{
    tl_tensor *v = tl_optimizer_param_slot(u->block, "v", param);
    if (v) return move(c, u, n, v, square);
    tl_tensor *r = tl_optimizer_param_slot(u->block, "r", param);
    tl_tensor *columns = tl_optimizer_param_slot(u->block, "c", param);
    r = move(c, u, n, r, tl_mean(c, square, TL_AXES(-1), false));
    columns = move(c, u, n, columns, tl_mean(c, square, TL_AXES(-2), false));
    r = tl_div(c, r, tl_mean(c, r, TL_AXES(-1), true));
    return tl_mul(c, tl_expand_dims(c, r, -1), tl_expand_dims(c, columns, -2));
}

static tl_tensor *new_values(tl_ctx *c, const tl_update *u, const numbers *n, int64_t param,
                             tl_tensor *grad)
{
    const tl_adafactor_keras_config *g = u->config;
    const tl_param *p = tl_optimizer_block_param(u->block, param);
    const int64_t at = u->block->offsets.items[param], end = at + tl_tensor_count(p->tensor);
    tl_tensor *w = tl_reshape(c, tl_slice(c, u->values, 0, at, end, 1), p->tensor->shape);
    tl_tensor *x = tl_reshape(c, tl_slice(c, grad, 0, at, end, 1), p->tensor->shape);
    tl_tensor *v = squares(c, u, n, param, tl_shift(c, tl_square(c, x), g->epsilon_1.value));
    tl_tensor *by = tl_mul(c, x, tl_rsqrt(c, v));
    tl_tensor *size = tl_scale(c, root_mean_square(c, by), 1 / g->clip_threshold.value);
    by = tl_div(c, by, tl_clip(c, size, 1, INFINITY));
    tl_tensor *rate =
        tl_mul(c, tl_clip(c, root_mean_square(c, w), g->epsilon_2.value, INFINITY), n->rate);
    return tl_where(c, u->apply, tl_sub(c, w, tl_mul(c, rate, by)), w);
}

bool tli_adafactor_keras_update(tl_ctx *c, const tl_update *u)
{
    const tl_block *block = u->block->block;
    numbers n = numbers_of(c, u);
    tl_tensor *grad = tl_mul(c, tl_cast(c, u->grad, u->values->dtype), n.scale);
    tl_tensor **parts = tl_arena_array(tl_ctx_arena(c), block->param_count, sizeof *parts);
    if (!parts) {
        tl_ctx_fail(c);
        return false;
    }
    for (int64_t i = 0; i < block->param_count; i++) parts[i] = new_values(c, u, &n, i, grad);
    return tl_assign(c, u->values,
                     tl_pack(c, (int)block->param_count, parts, u->block->offsets.items,
                             tl_tensor_count(u->values)));
}
