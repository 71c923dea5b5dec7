/* Averages of the weights, moved a little with each update. */
#include <string.h>

#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/update.h>

#include "core/inner/storage.h"
#include "nn/optimizer.h"

static bool averaged(const tl_optimizer *o, const tl_block *block)
{
    if (!o->config.ema || (block->dtype != TL_F32 && block->dtype != TL_F64)) return false;
    return block->trainable || !o->config.ema->trainable_weights_only.value;
}

tl_status tli_averages_new(tl_optimizer *o)
{
    for (int64_t i = 0; i < o->count; i++) {
        const tl_block *block = tl_model_block(o->model, i);
        if (averaged(o, block))
            TL_TRY(tli_optimizer_tensor(&o->average[i], o, block->dtype, block->values->shape, 0));
    }
    return TL_OK;
}

tl_status tli_averages_state(const tl_optimizer *o, tl_state *into)
{
    for (int64_t i = 0; i < o->count; i++) {
        const tl_block *block = tl_model_block(o->model, i);
        for (int64_t k = 0; o->average[i] && k < block->param_count; k++)
            TL_TRY(tli_state_put_part(into, "average", tl_model_param(o->model, block->params[k]),
                                      o->average[i]));
    }
    return TL_OK;
}

// How much of the average is kept: nothing before start_step, and at first less than later.
static tl_tensor *decay_at(tl_ctx *c, const tl_ema_config *g, tl_tensor *step)
{
    tl_tensor *decay = tl_number(c, TL_F64, g->average_decay.value);
    tl_tensor *n = tl_shift(c, step, -(double)g->start_step);
    if (g->dynamic_decay.value)
        decay = tl_minimum(c, decay, tl_div(c, tl_shift(c, n, 1), tl_shift(c, n, 10)));
    tl_tensor *none = tl_number(c, TL_F64, 0);
    return g->start_step ? tl_where(c, tl_less(c, n, none), none, decay) : decay;
}

void tli_averages_update(tl_optimizer *o, tl_ctx *c, tl_tensor *step, tl_tensor *apply)
{
    if (!o->config.ema) return;
    tl_tensor *all = tl_number(c, TL_F64, 1);
    tl_tensor *kept = tl_where(c, apply, decay_at(c, o->config.ema, step), all);
    for (int64_t i = 0; i < o->count; i++) {
        const tli_share *own = o->parts[i].own;
        if (!o->average[i] || (own && !own->count)) continue;
        tl_update_ema_by(c, own ? own->average : o->average[i],
                         own ? own->block.values : tl_model_block(o->model, i)->values,
                         tl_cast(c, kept, o->average[i]->dtype));
    }
}

bool tl_optimizer_averages(const tl_optimizer *o)
{
    return o->config.ema != NULL;
}

bool tl_optimizer_swapped(const tl_optimizer *o)
{
    return o->swapped;
}

/* What others have in common with us stays as it is: we only look at the other one. */
static tl_status swap_block(const tl_optimizer *o, int64_t i)
{
    if (!o->parts[i].own) return tl_tensor_swap(o->values[i], o->average[i]);
    tli_storage_exchange(o->values[i]->storage, o->average[i]->storage);
    return TL_OK;
}

tl_status tl_optimizer_swap(tl_optimizer *o)
{
    tl_status st = TL_OK;
    int64_t done = 0;
    if (!o->config.ema)
        return TL_FAIL(TL_ESTATE, "no averages are kept; set `ema` of the optimizer's "
                                  "configuration");
    for (; st == TL_OK && done < o->count; done++)
        if (o->average[done]) st = swap_block(o, done);
    if (st == TL_OK) {
        o->swapped = !o->swapped;
        return TL_OK;
    }
    // The one that failed was not exchanged; those before it are put back.
    tl_error why;
    tl_error_save(&why);
    for (int64_t i = 0; i < done - 1; i++)
        if (o->average[i]) (void)!swap_block(o, i);
    tl_error_restore(&why);
    return st;
}
