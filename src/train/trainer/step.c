#include <tilth/train/trainer/step.h>

#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>
#include <tilth/train/task.h>

const tl_batch_parts *tl_step_parts(tl_step *s)
{
    if (s->is_split) return &s->parts;
    s->is_split = true;
    if (s->task) {
        tl_task_split_batch(s->task, s->batch, &s->parts);
        return &s->parts;
    }
    tl_batch_split(s->batch, &s->parts.features, &s->parts.labels);
    s->parts.weight = tl_batch_weight(s->batch);
    return &s->parts;
}

tl_tensor *tl_step_forward(tl_step *s, tl_tensor *x)
{
    s->has_aux = false;
    return tl_call(s->ctx, s->model, x);
}

void tl_step_forward_all(tl_step *s, const tl_tensors *in, tl_tensors *out)
{
    s->has_aux = false;
    tl_call_all(s->ctx, s->model, in, out);
}

void tl_step_log(tl_step *s, const char *name, tl_tensor *t)
{
    if (t) tl_tensors_put(s->ctx, s->logs, name, t);
}

tl_tensor *tl_step_aux_losses(tl_step *s)
{
    s->has_aux = true;
    return tl_model_losses(s->ctx, s->model);
}

/* --- losses ----------------------------------------------------------------------------------- */

/* Weights as they multiply the losses: those of examples are stretched over what follows. */
static tl_tensor *like_losses(tl_ctx *c, tl_tensor *weights, const tl_tensor *losses)
{
    weights = tl_cast(c, weights, losses->dtype);
    if (!weights || weights->shape.rank >= losses->shape.rank) return weights;
    tl_shape wide = weights->shape;
    while (wide.rank < losses->shape.rank) wide.dims[wide.rank++] = 1;
    return tl_reshape(c, weights, wide);
}

/* The sum of weighted losses and the sum of weights, both over the number of losses: so neither
 * grows with the batch, and their quotient is the mean. Without weights the second is NULL and
 * means 1. */
static tl_tensor *share(tl_ctx *c, tl_tensor *losses, tl_tensor *weights, tl_tensor **weight)
{
    *weight = NULL;
    if (!losses) return NULL;
    // a scalar is a mean already; it counts what it is of
    if (!weights || losses->shape.rank == 0) {
        if (weights) *weight = tl_cast(c, tl_mean(c, weights, TL_ALL, false), TL_F32);
        losses = tl_mean(c, losses, TL_ALL, false);
        return weights ? tl_mul(c, losses, tl_cast(c, *weight, losses->dtype)) : losses;
    }
    tl_tensor *w = like_losses(c, weights, losses);
    if (!w) return NULL;
    // An example of no weight must not count, whatever was computed for it.
    tl_tensor *zero = tl_full(c, losses->dtype, TL_SCALAR, 0);
    tl_tensor *none = tl_equal(c, w, zero);
    tl_tensor *weighted = tl_where(c, none, zero, tl_mul(c, losses, w));
    *weight = tl_cast(c, tl_mean(c, tl_broadcast_to(c, w, losses->shape), TL_ALL, false), TL_F32);
    return tl_mean(c, weighted, TL_ALL, false);
}

/* Adds the model's own losses, which count as often as the mean does. */
static tl_tensor *with_aux(tl_step *s, tl_tensor *total, tl_tensor *weight)
{
    if (s->has_aux || !total) return total;
    tl_tensor *aux = tl_step_aux_losses(s);
    if (!aux) return total;
    aux = tl_cast(s->ctx, aux, total->dtype);
    if (weight) aux = tl_mul(s->ctx, aux, tl_cast(s->ctx, weight, total->dtype));
    return tl_add(s->ctx, total, aux);
}

/* How many losses a mean is of: so often it counts beside those of other batches. */
static double times_of(const tl_step *s, const tl_tensor *losses)
{
    int64_t count = losses->shape.rank ? tl_tensor_count(losses) : tl_batch_size(s->batch);
    return count > 0 ? (double)count : 1;
}

static tl_tensor *counted(tl_ctx *c, tl_tensor *weight, double times)
{
    return weight ? tl_affine(c, weight, times, 0) : tl_full(c, TL_F32, TL_SCALAR, times);
}

/* The mean, as people read it; 0 of nothing. */
static void tell(tl_step *s, tl_tensor *total, tl_tensor *weight, double times)
{
    if (total && weight)
        total = tl_div_no_nan(s->ctx, total, tl_cast(s->ctx, weight, total->dtype));
    s->weight = counted(s->ctx, weight, times);
    tl_step_log(s, TL_LOSS, total);
}

void tl_step_report(tl_step *s, tl_tensor *losses, tl_tensor *weights)
{
    tl_tensor *weight, *total = share(s->ctx, losses, weights, &weight);
    if (total) tell(s, with_aux(s, total, weight), weight, times_of(s, losses));
}

tl_tensor *tl_step_mean(tl_step *s, tl_tensor *losses, tl_tensor *weights)
{
    tl_tensor *weight, *total = share(s->ctx, losses, weights, &weight);
    if (!total || !weight) return total;
    return tl_div_no_nan(s->ctx, total, tl_cast(s->ctx, weight, total->dtype));
}

tl_status tl_step_gradients(tl_step *s, tl_tensor *loss, tl_tensor *grads[TL_STEP_BLOCKS])
{
    if (tl_model_block_count(s->model) > TL_STEP_BLOCKS)
        return TL_FAIL(TL_ELIMIT, "the model has more than %d blocks of parameters",
                       TL_STEP_BLOCKS);
    TL_TRY(tl_ctx_status(s->ctx));
    bool taping = tl_ctx_set_taping(s->ctx, false);
    tl_status st = tl_model_gradients(s->ctx, s->model, loss, grads);
    tl_ctx_set_taping(s->ctx, taping);
    return st;
}

void tl_step_minimize(tl_step *s, tl_tensor *losses, tl_tensor *weights)
{
    tl_tensor *weight, *total = share(s->ctx, losses, weights, &weight);
    tl_tensor *grads[TL_STEP_BLOCKS];
    s->losses = losses;
    total = with_aux(s, total, weight);
    if (!total) return;
    if (tl_step_gradients(s, tl_optimizer_scaled_loss(s->optimizer, s->ctx, total), grads)
        != TL_OK) {
        tl_ctx_fail(s->ctx);
        return;
    }
    bool taping = tl_ctx_set_taping(s->ctx, false);
    double times = times_of(s, losses);
    tl_tensor *apply_weight = weight;
    if (tl_optimizer_accumulating(s->optimizer)) { // batches of other sizes follow
        tl_model_scale_gradients(s->ctx, s->model, grads, times);
        apply_weight = counted(s->ctx, weight, times);
    }
    tl_optimizer_apply(s->optimizer, s->ctx, grads, apply_weight);
    tell(s, total, weight, times);
    tl_ctx_set_taping(s->ctx, taping);
}

tl_status tl_step_metrics(tl_step *s, tl_tensor *y_true, tl_tensor *y_pred, tl_tensor *weights)
{
    bool taping = tl_ctx_set_taping(s->ctx, false);
    if (s->metrics) tl_metrics_update(s->metrics, s->ctx, y_true, y_pred, weights);
    tl_ctx_set_taping(s->ctx, taping);
    return tl_ctx_status(s->ctx);
}
