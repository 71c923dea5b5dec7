/* An update: from the gradients of all blocks to new weights, in ops. */
#include <inttypes.h>

#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/pack.h>
#include <tilth/ops/update.h>
#include <tilth/ops/view.h>

#include "nn/net.h"
#include "nn/optimizer.h"

/* --- checks ----------------------------------------------------------------------------------- */

// The blocks are those that the optimizer was made for.
static tl_status check_model(const tl_optimizer *o)
{
    bool same = tl_model_block_count(o->model) == o->count;
    for (int64_t i = 0; same && i < o->count; i++)
        same = tl_model_block(o->model, i)->values->storage == o->values[i]->storage;
    if (!same)
        return TL_FAIL(TL_ESTATE, "the model's blocks were laid out anew after the optimizer was "
                                  "made; make a new optimizer");
    if (o->swapped)
        return TL_FAIL(TL_ESTATE, "weights and averages are exchanged; call tl_optimizer_swap "
                                  "before the next update");
    return TL_OK;
}

static tl_status check_gradients(const tl_optimizer *o, tl_tensor *const *grads)
{
    for (int64_t i = 0; i < o->count; i++) {
        if (!o->parts[i].base.block) continue;
        const tl_block *block = tl_model_block(o->model, i);
        if (!grads[i] && (block->users || block->asleep)) continue; // of other parts, or of later
        if (!grads[i])
            return TL_FAIL(TL_EINVAL, "block %" PRId64 " is trained, but has no gradient", i);
        if (tl_shape_equal(&grads[i]->shape, &o->values[i]->shape)
            && tl_dtype_is_float(grads[i]->dtype))
            continue;
        char found[TL_TENSOR_TEXT], wanted[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL,
                       "the gradient of block %" PRId64 " is %s and must be of a floating-point "
                       "type and shaped like the block, %s",
                       i, tl_tensor_spec(found, grads[i]), tl_tensor_spec(wanted, o->values[i]));
    }
    return TL_OK;
}

static tl_status check_weight(const tl_tensor *weight)
{
    if (!weight
        || (tl_dtype_is_float(weight->dtype) && tl_tensor_count(weight) == 1
            && weight->shape.rank == 0))
        return TL_OK;
    char found[TL_TENSOR_TEXT];
    return TL_FAIL(TL_EINVAL, "the weight is %s and must be a floating-point scalar",
                   tl_tensor_spec(found, weight));
}

// False when the context failed, before or here.
static bool check(const tl_optimizer *o, tl_ctx *c, tl_tensor *const *grads,
                  const tl_tensor *weight)
{
    if (tl_ctx_failed(c)) return false;
    if (check_model(o) == TL_OK && check_gradients(o, grads) == TL_OK
        && check_weight(weight) == TL_OK)
        return true;
    tl_ctx_fail(c);
    return false;
}

/* --- the update ------------------------------------------------------------------------------- */

/* What the blocks of one update share. */
typedef struct sweep {
    tl_optimizer *o;
    tl_ctx *c;
    tli_gradients g;
    tl_tensor *rate, *step; /* float64 scalars; the step counts from 1 */
    tl_tensor *finite, *apply;
} sweep;

/* Gradients of all blocks, and what is known of rows that were looked up. */
typedef struct incoming {
    tl_tensor *const *grads;
    const tli_row_squares *rows;
    int64_t row_count;
    bool divided;
} incoming;

static bool take_gradients(sweep *s, const incoming *in)
{
    tl_arena *arena = tl_ctx_arena(s->c);
    s->g = (tli_gradients){
        .o = s->o, .c = s->c, .rows = in->rows, .row_count = in->row_count, .divided = in->divided};
    s->g.grads = tl_arena_array(arena, s->o->count, sizeof(tl_tensor *));
    s->g.factors = tl_arena_array(arena, s->o->count, sizeof(tl_tensor *));
    if (!s->g.grads || !s->g.factors) {
        tl_ctx_fail(s->c);
        return false;
    }
    for (int64_t i = 0; i < s->o->count; i++)
        if (s->o->parts[i].base.block) s->g.grads[i] = in->grads[i];
    return true;
}

// Norm and flag of what came in, then what it is still to be divided by.
static void measure(sweep *s, tl_tensor *weight)
{
    tl_ctx *c = s->c;
    tl_tensor *divisor = NULL;
    tli_gradients_measure(&s->g, &s->g.norm, &s->finite);
    if (s->o->halted) s->finite = tl_logical_and(c, s->finite, tl_logical_not(c, s->o->halted));
    if (weight) {
        divisor = tl_cast(c, weight, TL_F64);
        s->finite = tl_logical_and(c, s->finite, tl_isfinite(c, divisor));
        s->apply = tl_logical_and(c, s->finite, tl_greater(c, divisor, tl_number(c, TL_F64, 0)));
    } else {
        s->apply = s->finite;
    }
    if (s->o->scale) {
        tl_tensor *scale = tl_cast(c, s->o->scale, TL_F64);
        divisor = divisor ? tl_mul(c, divisor, scale) : scale;
    }
    if (divisor) tli_gradients_scale(&s->g, tl_reciprocal(c, divisor));
    tl_assign(c, s->o->norm, tl_cast(c, s->g.norm, TL_F32));
    tl_assign(c, s->o->finite, s->finite);
}

static tl_tensor *hyper_of(tl_ctx *c, const tl_update *u)
{
    static const int64_t places[] = {TL_HYPER_RATE, TL_HYPER_STEP, TL_HYPER_SCALE, TL_HYPER_APPLY};
    tl_tensor *const parts[] = {u->rate, u->step, u->scale, u->apply};
    tl_tensor *numbers[TL_HYPER_COUNT];
    tl_dtype dtype = u->values->dtype;
    for (int i = 0; i < TL_HYPER_COUNT; i++) numbers[i] = tl_cast(c, parts[i], dtype);
    return tl_pack(c, TL_HYPER_COUNT, numbers, places, TL_HYPER_COUNT);
}

/* Of a group: a part of the rate, and nothing of it while the group is frozen. Optimizers go on
 * with their slots, so that what they know is not of zeros when the rate sets in. */
static tl_tensor *rate_of(tl_ctx *c, const sweep *s, const tl_group_config *g)
{
    tl_tensor *rate = g->rate.set ? tl_scale(c, s->rate, g->rate.value) : s->rate;
    if (!g->frozen_steps || !rate) return rate;
    tl_tensor *frozen = tl_number(c, TL_F64, (double)g->frozen_steps);
    return tl_mul(c, rate, tl_cast(c, tl_less(c, frozen, s->step), rate->dtype));
}

static void update_block(sweep *s, int64_t index)
{
    tl_ctx *c = s->c;
    const tli_part *part = &s->o->parts[index];
    tl_tensor *grad = s->g.grads[index];
    const tli_share *own = part->own;
    if (own && !own->count) return; // others move it
    if (own) {
        grad = tl_slice(c, grad, 0, own->from, own->from + own->count, 1);
        part = &own->part;
    }
    tl_update u = {.block = &part->base,
                   .config = s->o->config.optimizer.value,
                   .values = part->base.block->values,
                   .grad = grad,
                   .rate = s->rate,
                   .step = s->step,
                   .scale = s->g.factors[index],
                   .apply = s->apply};
    if (part->group) u.rate = rate_of(c, s, part->group);
    if (!u.scale) u.scale = tl_number(c, TL_F64, 1);
    u.hyper = hyper_of(c, &u);
    if (tl_ctx_failed(c)) return;
    TL_CLASS_METHOD(tl_optimizer_class, s->o->cls, update)->update(c, &u);
}

static void update(tl_optimizer *o, tl_ctx *c, const incoming *in, tl_tensor *weight,
                   bool statistics)
{
    sweep s = {.o = o, .c = c};
    if (!take_gradients(&s, in)) return;
    s.rate = tl_optimizer_rate(o, c);
    tl_tensor *done = tl_cast(c, o->iterations, TL_F64);
    s.step = tl_shift(c, done, 1);
    measure(&s, weight);
    tli_gradients_clip(&s.g);
    for (int64_t i = 0; i < o->count && !tl_ctx_failed(c); i++)
        if (s.g.grads[i]) update_block(&s, i);
    tl_assign_add(c, o->iterations, tl_cast(c, s.apply, TL_I64));
    if (statistics) tl_model_apply_updates(c, o->model, s.finite);
    tli_averages_update(o, c, s.step, s.apply);
    tli_loss_scale_update(o, c, s.finite);
}

/* --- from outside ----------------------------------------------------------------------------- */

bool tl_optimizer_apply(tl_optimizer *o, tl_ctx *c, tl_tensor *const *grads, tl_tensor *weight)
{
    if (o->accumulating) return tl_optimizer_accumulate(o, c, grads, weight);
    if (o->inert) return !tl_ctx_failed(c);
    if (!check(o, c, grads, weight)) return false;
    bool taping = tl_ctx_set_taping(c, false);
    const tli_net_call *call = tli_net_call_find(o->model->net, c);
    update(o, c,
           &(incoming){grads, call ? call->squares.items : NULL, call ? call->squares.count : 0,
                       false},
           weight, true);
    tl_ctx_set_taping(c, taping);
    return !tl_ctx_failed(c);
}

static tl_status make_sums(tl_optimizer *o)
{
    for (int64_t i = 0; i < o->count; i++) {
        tli_part *p = &o->parts[i];
        if (!p->base.block || p->sum) continue;
        TL_TRY(tli_optimizer_tensor(&p->sum, o, o->values[i]->dtype, o->values[i]->shape, 0));
    }
    if (o->weight_sum) return TL_OK;
    return tli_optimizer_tensor(&o->weight_sum, o, TL_F64, TL_SCALAR, 0);
}

static tl_status find_row_sum(tl_tensor **out, tl_optimizer *o, int64_t param)
{
    for (int64_t i = 0; i < o->row_sums.count; i++)
        if (o->row_sums.items[i].param == param) {
            *out = o->row_sums.items[i].sum;
            return TL_OK;
        }
    TL_TRY(tli_optimizer_tensor(out, o, TL_F64, TL_SCALAR, 0));
    if (TL_VEC_PUSH(&o->row_sums, ((tli_row_squares){param, *out}))) return TL_OK;
    tl_tensor_free(out);
    return TL_ENOMEM;
}

// As if the batches were one: their rows stand in one list.
static void accumulate_rows(tl_optimizer *o, tl_ctx *c)
{
    const tli_net_call *call = tli_net_call_find(o->model->net, c);
    for (int64_t i = 0; call && i < call->squares.count; i++) {
        tl_tensor *sum;
        if (find_row_sum(&sum, o, call->squares.items[i].param) == TL_OK)
            tl_assign_add(c, sum, call->squares.items[i].sum);
        else tl_ctx_fail(c);
    }
}

static void add_gradient(const tl_optimizer *o, tl_ctx *c, tl_tensor *sum, tl_tensor *more)
{
    if (o->fresh) tl_assign_sum(c, sum, more, o->fresh);
    else tl_assign_add(c, sum, more);
}

bool tl_optimizer_accumulate(tl_optimizer *o, tl_ctx *c, tl_tensor *const *grads, tl_tensor *weight)
{
    if (o->inert) return !tl_ctx_failed(c);
    if (!check(o, c, grads, weight)) return false;
    const bool told = o->batch >= 0, again = told && o->additions > o->batch;
    o->additions++;
    if (make_sums(o) != TL_OK) {
        tl_ctx_fail(c);
        return false;
    }
    bool taping = tl_ctx_set_taping(c, false);
    if (o->fresh && again) tl_assign(c, o->fresh, o->begun);
    for (int64_t i = 0; i < o->count; i++)
        if (o->parts[i].sum && grads[i])
            add_gradient(o, c, o->parts[i].sum, tl_cast(c, grads[i], o->values[i]->dtype));
    if (o->fresh && !told) tl_assign(c, o->fresh, o->begun);
    accumulate_rows(o, c);
    tli_noise_add(o, c, grads, weight);
    tl_assign_add(c, o->weight_sum, weight ? tl_cast(c, weight, TL_F64) : tl_number(c, TL_F64, 1));
    tl_ctx_set_taping(c, taping);
    return !tl_ctx_failed(c);
}

bool tli_is_summed(const tl_block *b, const tl_model *part)
{
    return !b->asleep && tli_part_uses(part, b->users);
}

bool tl_optimizer_flush(tl_optimizer *o, tl_ctx *c)
{
    return tl_optimizer_flush_part(o, c, o->model);
}

bool tl_optimizer_flush_part(tl_optimizer *o, tl_ctx *c, const tl_model *part)
{
    if (!tl_ctx_failed(c) && !o->weight_sum) {
        (void)TL_FAIL(TL_ESTATE, "nothing was accumulated; call tl_optimizer_accumulate first");
        tl_ctx_fail(c);
    }
    if (tl_ctx_failed(c)) return false;
    tl_tensor **sums = tl_arena_array(tl_ctx_arena(c), o->count, sizeof *sums);
    if (!sums) tl_ctx_fail(c);
    for (int64_t i = 0; sums && i < o->count; i++)
        sums[i] = tli_is_summed(tl_model_block(o->model, i), part) ? o->parts[i].sum : NULL;
    if (!sums || !check(o, c, sums, o->weight_sum)) return false;
    bool taping = tl_ctx_set_taping(c, false);
    tli_noise_flush(o, c, sums);
    update(o, c, &(incoming){sums, o->row_sums.items, o->row_sums.count, o->divided.on},
           o->weight_sum, false);
    for (int64_t i = 0; i < o->count && !o->fresh; i++)
        if (sums[i]) tl_assign(c, sums[i], tl_zeros(c, sums[i]->dtype, sums[i]->shape));
    tl_optimizer_begin_lane(o, c);
    for (int64_t i = 0; i < o->row_sums.count; i++)
        tl_assign(c, o->row_sums.items[i].sum, tl_number(c, TL_F64, 0));
    tl_assign(c, o->weight_sum, tl_number(c, TL_F64, 0));
    tl_ctx_set_taping(c, taping);
    return !tl_ctx_failed(c);
}

/* --- lanes ------------------------------------------------------------------------------------ */

int64_t tl_optimizer_gradient_sums(const tl_optimizer *o)
{
    int64_t count = 0;
    for (int64_t i = 0; i < o->count; i++) count += o->parts[i].sum != NULL;
    return count;
}

tl_tensor *tl_optimizer_sum(const tl_optimizer *o, int64_t index)
{
    for (int64_t i = 0; i < o->count; i++)
        if (o->parts[i].sum && index-- == 0) return o->parts[i].sum;
    tl_tensor *const more[] = {o->weight_sum, o->noise.sums};
    for (int64_t i = 0; i < TL_COUNT(more); i++)
        if (more[i] && index-- == 0) return more[i];
    return index < o->row_sums.count ? o->row_sums.items[index].sum : NULL;
}

int64_t tl_optimizer_sum_count(const tl_optimizer *o)
{
    return tl_optimizer_gradient_sums(o) + (o->weight_sum != NULL) + (o->noise.sums != NULL)
           + o->row_sums.count;
}

tl_ints tl_optimizer_sum_params(const tl_optimizer *o, const tl_tensor *sum,
                                const int64_t **numbers)
{
    for (int64_t i = 0; i < o->count; i++) {
        const tl_optimizer_block *b = &o->parts[i].base;
        if (!o->parts[i].sum || o->parts[i].sum != sum) continue;
        *numbers = b->block->params;
        return b->offsets;
    }
    *numbers = NULL;
    return (tl_ints){0};
}

const char *tl_optimizer_param_path(const tl_optimizer *o, int64_t number)
{
    return o->model->net->params.items[number]->path;
}

int64_t tl_optimizer_additions(const tl_optimizer *o)
{
    return o->additions;
}

void tl_optimizer_begin_batch(tl_optimizer *o)
{
    o->batch = o->additions;
}

void tl_optimizer_end_batch(tl_optimizer *o)
{
    o->batch = -1;
}

tl_status tl_optimizer_set_lanes(tl_optimizer *o, int64_t lanes)
{
    o->lanes = lanes;
    if (lanes < 2 || o->fresh) return TL_OK;
    TL_TRY(tli_optimizer_tensor(&o->begun, o, TL_BOOL, TL_SCALAR, 0));
    return tli_optimizer_tensor(&o->fresh, o, TL_BOOL, TL_SCALAR, 1);
}

tl_tensor *tl_optimizer_fresh(const tl_optimizer *o)
{
    return o->fresh;
}

void tl_optimizer_begin_lane(tl_optimizer *o, tl_ctx *c)
{
    if (o->fresh) tl_assign(c, o->fresh, tl_full(c, TL_BOOL, TL_SCALAR, 1));
}

bool tl_optimizer_clips_lanes(const tl_optimizer *o)
{
    return o->lanes > 1 && tli_own_clip_norm(o) > 0;
}

// What a lane's sums are of: weight times loss scale, and the number of lanes.
static tl_tensor *share_of_lane(tl_optimizer *o, tl_ctx *c)
{
    tl_tensor *of = tl_scale(c, o->weight_sum, (double)o->lanes);
    return o->scale ? tl_mul(c, of, tl_cast(c, o->scale, TL_F64)) : of;
}

// What is still to be multiplied is carried out: the sums of other lanes have factors of their own.
static void clip_sums(sweep *s)
{
    tl_ctx *c = s->c;
    tl_optimizer *o = s->o;
    tli_gradients_measure(&s->g, &s->g.norm, &s->finite);
    tli_gradients_scale(&s->g, tl_reciprocal(c, share_of_lane(o, c)));
    tl_tensor *factor = tli_gradients_own_factor(&s->g);
    for (int64_t i = 0; i < o->count && !tl_ctx_failed(c); i++)
        if (s->g.grads[i])
            tl_assign(c, o->parts[i].sum,
                      tl_mul(c, o->parts[i].sum, tl_cast(c, factor, o->values[i]->dtype)));
    for (int64_t i = 0; i < o->row_sums.count; i++)
        tl_assign(c, o->row_sums.items[i].sum,
                  tl_mul(c, o->row_sums.items[i].sum, tl_square(c, factor)));
}

bool tl_optimizer_clip_lane(tl_optimizer *o, tl_ctx *c)
{
    sweep s = {.o = o, .c = c};
    if (tl_ctx_failed(c) || !tl_optimizer_clips_lanes(o) || !o->weight_sum)
        return !tl_ctx_failed(c);
    tl_tensor **sums = tl_arena_array(tl_ctx_arena(c), o->count, sizeof *sums);
    if (!sums) {
        tl_ctx_fail(c);
        return false;
    }
    for (int64_t i = 0; i < o->count; i++) sums[i] = o->parts[i].sum;
    bool taping = tl_ctx_set_taping(c, false);
    if (take_gradients(&s, &(incoming){sums, o->row_sums.items, o->row_sums.count, false}))
        clip_sums(&s);
    tl_ctx_set_taping(c, taping);
    return !tl_ctx_failed(c);
}
