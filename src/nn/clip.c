/* Clipping of gradients. Factors are numbers of the program and are carried along, to be multiplied
 * in the sweep that updates; only clipping by value, and by the norm of each parameter, writes
 * gradients anew. */
#include <math.h>

#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/pack.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/update.h>
#include <tilth/ops/view.h>

#include "nn/optimizer.h"

/* --- factors ---------------------------------------------------------------------------------- */

static tl_tensor *times(tl_ctx *c, tl_tensor *a, tl_tensor *b)
{
    return !a ? b : !b ? a : tl_mul(c, a, b);
}

void tli_gradients_scale(tli_gradients *g, tl_tensor *factor)
{
    for (int64_t i = 0; i < g->o->count; i++)
        if (g->grads[i]) g->factors[i] = times(g->c, g->factors[i], factor);
    if (g->norm) g->norm = times(g->c, g->norm, factor);
}

// Halves become float32: what follows is computed in the type of the parameters.
static tl_tensor *widened(const tli_gradients *g, int64_t block)
{
    return tl_cast(g->c, g->grads[block], g->o->values[block]->dtype);
}

void tli_gradients_settle(tli_gradients *g, int64_t block)
{
    if (!g->factors[block]) return;
    tl_tensor *wide = widened(g, block);
    tl_dtype dtype = g->o->values[block]->dtype;
    g->grads[block] = tl_mul(g->c, wide, tl_cast(g->c, g->factors[block], dtype));
    g->factors[block] = NULL;
}

/* --- norms ------------------------------------------------------------------------------------ */

static int gather(const tli_gradients *g, tl_tensor **list, const tl_group_config *group)
{
    int count = 0;
    for (int64_t i = 0; i < g->o->count; i++)
        if (g->grads[i] && (!group || g->o->parts[i].group == group)) list[count++] = g->grads[i];
    return count;
}

static tl_tensor **room_for_blocks(const tli_gradients *g)
{
    tl_tensor **list = tl_arena_array(tl_ctx_arena(g->c), g->o->count, sizeof *list);
    if (!list) tl_ctx_fail(g->c);
    return list;
}

void tli_gradients_measure(tli_gradients *g, tl_tensor **norm, tl_tensor **finite)
{
    tl_tensor **list = room_for_blocks(g);
    *norm = *finite = NULL;
    if (!list) return;
    if (g->divided) {
        *norm = tl_take(g->c, g->o->divided.norms, 0, 0);
        *finite = g->o->divided.finite;
    } else {
        tl_finite_and_norm(g->c, list, gather(g, list, NULL), norm, finite);
    }
    *norm = tl_cast(g->c, *norm, TL_F64);
}

// Blocks of one clipping have one factor between them until a group gets its own, which comes last.
static tl_tensor *factor_of(const tli_gradients *g, const tl_group_config *group)
{
    for (int64_t i = 0; i < g->o->count; i++)
        if (g->grads[i] && (!group || g->o->parts[i].group == group)) return g->factors[i];
    return NULL;
}

static tl_tensor *norm_of_all(tli_gradients *g)
{
    tl_tensor *finite;
    if (g->norm) return g->norm;
    tli_gradients_measure(g, &g->norm, &finite);
    return g->norm = times(g->c, g->norm, factor_of(g, NULL));
}

static const tli_row_squares *rows_of(const tli_gradients *g, const tl_param *p)
{
    for (int64_t i = 0; i < g->row_count; i++)
        if (tl_model_param(g->o->model, g->rows[i].param) == p) return &g->rows[i];
    return NULL;
}

static tl_tensor *part_of(tli_gradients *g, const tl_param *p)
{
    const int64_t end = p->offset + tl_tensor_count(p->tensor);
    return tl_slice(g->c, widened(g, p->block), 0, p->offset, end, 1);
}

// The norm of a parameter's gradient as clipping takes it, without the block's factor.
static tl_tensor *clipped_norm_of(tli_gradients *g, const tl_param *p, tl_tensor *part)
{
    const tli_row_squares *rows = rows_of(g, p);
    tl_tensor *norm, *finite;
    if (rows) return tl_sqrt(g->c, rows->sum);
    if (!part || !tl_finite_and_norm(g->c, &part, 1, &norm, &finite)) return NULL;
    return tl_cast(g->c, norm, TL_F64);
}

// The norm of all, with the rows that were looked up in the place of their tables.
static tl_tensor *clipped_norm_of_all(tli_gradients *g)
{
    tl_ctx *c = g->c;
    tl_tensor *norm = norm_of_all(g);
    if (!g->row_count) return norm;
    if (g->divided) { // of tables that were not looked up in when it was decided
        (void)TL_FAIL(TL_EUNSUPPORTED, "tilth.zero: rows that were looked up are clipped, which "
                                       "needs all gradients in each process: set it to 1");
        tl_ctx_fail(c);
        return NULL;
    }
    tl_tensor *squares = tl_square(c, norm);
    for (int64_t i = 0; i < g->row_count; i++) {
        const tl_param *p = tl_model_param(g->o->model, g->rows[i].param);
        tl_tensor *table, *finite, *part = part_of(g, p), *factor = g->factors[p->block];
        if (!part || !tl_finite_and_norm(c, &part, 1, &table, &finite)) return NULL;
        table = tl_square(c, tl_cast(c, table, TL_F64));
        tl_tensor *more = tl_sub(c, g->rows[i].sum, table);
        squares = tl_add(c, squares, times(c, more, factor ? tl_square(c, factor) : NULL));
    }
    return tl_sqrt(c, squares);
}

// What brings a norm down to the largest one that is allowed.
static tl_tensor *shrink(tl_ctx *c, tl_tensor *norm, double most)
{
    tl_tensor *limit = tl_number(c, TL_F64, most), *one = tl_number(c, TL_F64, 1);
    return tl_where(c, tl_greater(c, norm, limit), tl_div(c, limit, norm), one);
}

/* --- kinds of clipping ------------------------------------------------------------------------ */

static void clip_all(tli_gradients *g, double most)
{
    tli_gradients_scale(g, shrink(g->c, clipped_norm_of_all(g), most));
}

double tli_own_clip_norm(const tl_optimizer *o)
{
    const tl_optimizer_class *own = TL_CLASS_METHOD(tl_optimizer_class, o->cls, clip_norm);
    return own ? own->clip_norm(o->config.optimizer.value) : 0;
}

tl_tensor *tli_gradients_own_factor(tli_gradients *g)
{
    return shrink(g->c, clipped_norm_of_all(g), tli_own_clip_norm(g->o));
}

static void clip_values(tli_gradients *g, double most)
{
    for (int64_t i = 0; i < g->o->count; i++) {
        if (!g->grads[i]) continue;
        tli_gradients_settle(g, i);
        g->grads[i] = tl_clip(g->c, widened(g, i), -most, most);
    }
    g->norm = NULL;
    g->row_count = 0; // rows have no norm of their own any more
}

// A parameter's gradient, no longer than allowed.
static tl_tensor *clip_param(tli_gradients *g, int64_t block, const tl_param *p, double most)
{
    tl_ctx *c = g->c;
    tl_tensor *part = part_of(g, p), *factor = g->factors[block];
    tl_tensor *norm = times(c, clipped_norm_of(g, p, part), factor);
    if (!part) return NULL;
    factor = times(c, factor, shrink(c, norm, most));
    return tl_mul(c, part, tl_cast(c, factor, part->dtype));
}

static void clip_params(tli_gradients *g, double most)
{
    for (int64_t i = 0; i < g->o->count; i++) {
        if (!g->grads[i]) continue;
        const tl_optimizer_block *b = &g->o->parts[i].base;
        int64_t count = b->block->param_count;
        tl_tensor **parts = tl_arena_array(tl_ctx_arena(g->c), count, sizeof *parts);
        if (!parts) {
            tl_ctx_fail(g->c);
            return;
        }
        for (int64_t k = 0; k < count; k++)
            parts[k] = clip_param(g, i, tl_optimizer_block_param(b, k), most);
        g->grads[i] =
            tl_pack(g->c, (int)count, parts, b->offsets.items, tl_tensor_count(g->o->values[i]));
        g->factors[i] = NULL;
    }
    g->norm = NULL;
    g->row_count = 0; // rows have no norm of their own any more
}

// A norm that is not Euclidean: the greatest magnitude, or the p-th root of the sum of p-th powers.
static tl_tensor *other_norm(tli_gradients *g, const tl_group_config *group, double p)
{
    tl_ctx *c = g->c;
    tl_tensor *sum = NULL;
    for (int64_t i = 0; i < g->o->count; i++) {
        if (!g->grads[i] || g->o->parts[i].group != group) continue;
        tl_tensor *x = tl_abs(c, widened(g, i));
        if (p == INFINITY) {
            x = tl_cast(c, tl_max(c, x, TL_ALL, false), TL_F64);
            sum = sum ? tl_maximum(c, sum, x) : x;
        } else {
            x = tl_pow(c, x, x ? tl_number(c, x->dtype, p) : NULL);
            x = tl_cast(c, tl_sum(c, x, TL_ALL, false), TL_F64);
            sum = sum ? tl_add(c, sum, x) : x;
        }
    }
    return p == INFINITY ? sum : tl_pow(c, sum, tl_number(c, TL_F64, 1 / p));
}

static tl_tensor *group_norm(tli_gradients *g, const tl_group_config *group)
{
    double p = group->norm_type.set ? group->norm_type.value : 2;
    tl_tensor *norm, *finite, **list = room_for_blocks(g);
    if (!list) return NULL;
    if (g->divided) norm = tl_take(g->c, g->o->divided.norms, 0, 1 + (group - g->o->groups));
    else if (p != 2) norm = other_norm(g, group, p);
    else tl_finite_and_norm(g->c, list, gather(g, list, group), &norm, &finite);
    return times(g->c, tl_cast(g->c, norm, TL_F64), factor_of(g, group));
}

// As LiBai has it: min(1, most / (norm + 1e-6)).
static void clip_group(tli_gradients *g, const tl_group_config *group)
{
    tl_ctx *c = g->c;
    tl_tensor *most = tl_number(c, TL_F64, group->clip_norm.value);
    tl_tensor *norm = group_norm(g, group);
    tl_tensor *factor = tl_div(c, most, tl_shift(c, norm, 1e-6));
    factor = tl_minimum(c, factor, tl_number(c, TL_F64, 1));
    for (int64_t i = 0; i < g->o->count; i++)
        if (g->grads[i] && g->o->parts[i].group == group)
            g->factors[i] = times(c, g->factors[i], factor);
}

/* Not while it is asleep, or in the steps of parts that do not use it. */
static bool has_gradients(const tli_gradients *g, const tl_group_config *group)
{
    for (int64_t i = 0; i < g->o->count; i++)
        if (g->grads[i] && g->o->parts[i].group == group) return true;
    return false;
}

void tli_gradients_clip(tli_gradients *g)
{
    const tl_optimizer *o = g->o;
    const tl_optimizer_config *config = o->config.optimizer.value;
    const double own = tl_optimizer_clips_lanes(o) ? 0 : tli_own_clip_norm(o);
    if (own > 0) clip_all(g, own);
    if (config->clipvalue.set) clip_values(g, config->clipvalue.value);
    if (config->clipnorm.set) clip_params(g, config->clipnorm.value);
    if (config->global_clipnorm.set) clip_all(g, config->global_clipnorm.value);
    for (int64_t i = 0; i < o->group_count; i++)
        if (o->groups[i].clip_norm.set && has_gradients(g, &o->groups[i]))
            clip_group(g, &o->groups[i]);
}
