/* Sums of gradients of which each process has its part: what is still taken of all of them. */
#include <math.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>
#include <tilth/base/log.h>
#include <tilth/core/comm.h>
#include <tilth/ops/update.h>

#include "nn/optimizer.h"

/* --- whether ---------------------------------------------------------------------------------- */

static bool clips_groups(const tl_optimizer *o)
{
    for (int64_t i = 0; i < o->group_count; i++)
        if (o->groups[i].clip_norm.set) return true;
    return false;
}

static bool has_other_norms(const tl_optimizer *o)
{
    for (int64_t i = 0; i < o->group_count; i++)
        if (o->groups[i].clip_norm.set && o->groups[i].norm_type.set
            && o->groups[i].norm_type.value != 2)
            return true;
    return false;
}

static bool has_doubles(const tl_optimizer *o)
{
    for (int64_t i = 0; i < o->count; i++)
        if (o->parts[i].base.block && o->values[i]->dtype == TL_F64) return true;
    return false;
}

/* Why each process needs all of them; NULL: it does not. */
static const char *hindrance(const tl_optimizer *o)
{
    const tl_optimizer_config *c = o->config.optimizer.value;
    if (c->clipnorm.set) return "clipnorm takes norms of whole parameters";
    if (c->clipvalue.set && (c->global_clipnorm.set || clips_groups(o)))
        return "clipvalue comes before norms are taken";
    if (has_other_norms(o)) return "norm_type of a group is not 2";
    if (o->noise.sums) return "gradient_noise_scale compares them";
    if (c->global_clipnorm.set && o->row_sums.count)
        return "global_clipnorm counts rows that were looked up";
    return has_doubles(o) ? "weights are in float64" : NULL;
}

bool tli_optimizer_can_divide(const tl_optimizer *o)
{
    return !hindrance(o);
}

tl_status tl_optimizer_decide_division(tl_optimizer *o)
{
    if (!o->divided.wanted || o->divided.decided) return TL_OK;
    const char *why = hindrance(o);
    o->divided.decided = true;
    if (why) {
        TL_LOG_INFO("sums of gradients are not divided between processes: %s", why);
        return TL_OK;
    }
    TL_TRY(tli_optimizer_tensor(&o->divided.norms, o, TL_F32, TL_SHAPE(1 + o->group_count), 0));
    TL_TRY(tli_optimizer_tensor(&o->divided.finite, o, TL_BOOL, TL_SCALAR, 1));
    o->divided.on = true;
    return TL_OK;
}

/* --- who has what ----------------------------------------------------------------------------- */

int64_t tli_sum_cut(int64_t begin, bool end)
{
    return end ? begin : begin / TL_SQUARES * TL_SQUARES;
}

static int64_t cut_of(const tl_optimizer *o, const tli_part *p, int32_t rank)
{
    return tli_sum_cut(tli_share_begin(o, p, rank), rank == o->sharers->size);
}

int64_t tl_optimizer_sum_cut(const tl_optimizer *o, const tl_tensor *sum, int32_t rank)
{
    if (!o->divided.on) return -1;
    for (int64_t i = 0; i < o->count; i++)
        if (o->parts[i].own && o->parts[i].sum == sum) return cut_of(o, &o->parts[i], rank);
    return -1;
}

/* --- what lies between parts ------------------------------------------------------------------ */

/* Elements of `p` that lie with rank `a` and are moved by rank `b`. */
static tl_part between(const tl_optimizer *o, const tli_part *p, char *data, int32_t a, int32_t b)
{
    const int64_t from = tl_max_i64(cut_of(o, p, a), tli_share_begin(o, p, b));
    const int64_t end = tl_min_i64(cut_of(o, p, a + 1), tli_share_begin(o, p, b + 1));
    const size_t size = tl_dtype_size(p->sum->dtype);
    if (a == b || from >= end) return (tl_part){0};
    return (tl_part){data + (size_t)from * size, (size_t)(end - from) * size};
}

/* Where parameters are moved whole, ends of them lie with the rank of the piece. */
static tl_status hand_over(const tl_optimizer *o, const tli_part *p)
{
    tl_comm_group *g = o->sharers;
    const size_t bytes = 2 * (size_t)g->size * sizeof(tl_part);
    tl_part *send = tl_alloc(bytes), *recv = send + g->size;
    tl_lease l;
    tl_status st = send ? tl_lease_write(&l, p->sum) : TL_FAIL_NOMEM(bytes);
    if (st == TL_OK) {
        for (int32_t r = 0; r < g->size; r++) {
            send[r] = between(o, p, l.data, g->rank, r);
            recv[r] = between(o, p, l.data, r, g->rank);
        }
        st = tl_comm_all_to_all(g, send, recv);
        if (st == TL_OK) st = tl_lease_end(&l);
        else tl_lease_drop(&l);
    }
    tl_free(send);
    return st;
}

/* --- norms ------------------------------------------------------------------------------------ */

static bool counts(const tl_optimizer *o, int64_t i, const tl_model *part)
{
    return o->parts[i].sum && tli_is_summed(tl_model_block(o->model, i), part);
}

static int64_t pieces_of(const tl_optimizer *o, int64_t i)
{
    return tl_div_up(tl_tensor_count(o->values[i]), TL_SQUARES);
}

/* Of the pieces that are here. */
static tl_status square(const tl_optimizer *o, tl_ctx *c, const tli_part *p, double *out)
{
    const int64_t from = p->own ? cut_of(o, p, o->sharers->rank) : 0;
    const int64_t end = p->own ? cut_of(o, p, o->sharers->rank + 1) : tl_tensor_count(p->sum);
    tl_tensor *view;
    if (from == end) return TL_OK;
    TL_TRY(tl_tensor_part(&view, p->sum, from, TL_SHAPE(end - from)));
    tl_mark mark = tl_ctx_begin(c);
    tl_tensor *sums = tl_square_sums(c, view);
    tl_status st = sums ? tl_tensor_get(sums, out + from / TL_SQUARES, tl_tensor_bytes(sums))
                        : tl_ctx_status(c);
    tl_ctx_end(c, mark);
    tl_tensor_free(&view);
    return st;
}

static tl_status gather(const tl_optimizer *o, const tli_part *p, double *squares)
{
    tl_comm_group *g = o->sharers;
    tl_part *parts = tl_alloc((size_t)g->size * sizeof *parts);
    if (!parts) return TL_FAIL_NOMEM((size_t)g->size * sizeof *parts);
    for (int32_t r = 0; r < g->size; r++) {
        const int64_t from = cut_of(o, p, r) / TL_SQUARES;
        const int64_t end = tl_div_up(cut_of(o, p, r + 1), TL_SQUARES);
        parts[r] = (tl_part){squares + from, (size_t)(end - from) * sizeof *squares};
    }
    tl_status st = tl_comm_all_gather(g, &parts[g->rank], parts);
    tl_free(parts);
    return st;
}

/* As tl_finite_and_norm does it, of the blocks of a group, or (NULL) of all. */
static float norm_of(const tl_optimizer *o, const tl_model *part, const double *squares,
                     const tl_group_config *group, bool *finite)
{
    double sum = 0;
    for (int64_t i = 0; i < o->count; squares += pieces_of(o, i), i++) {
        if (!counts(o, i, part) || (group && o->parts[i].group != group)) continue;
        for (int64_t k = 0; k < pieces_of(o, i); k++) sum += squares[k];
    }
    *finite = isfinite(sum) != 0;
    return (float)sqrt(sum);
}

static tl_status set_norms(const tl_optimizer *o, const tl_model *part, const double *squares)
{
    tl_lease l;
    bool finite, one;
    TL_TRY(tl_lease_discard(&l, o->divided.norms));
    float *norms = l.data;
    norms[0] = norm_of(o, part, squares, NULL, &finite);
    for (int64_t i = 0; i < o->group_count; i++)
        norms[1 + i] = norm_of(o, part, squares, &o->groups[i], &one);
    TL_TRY(tl_lease_end(&l));
    return tl_tensor_set_doubles(o->divided.finite, &(double){finite}, 1);
}

tl_status tl_optimizer_measure_divided(tl_optimizer *o, tl_ctx *c, const tl_model *part)
{
    if (!o->divided.on) return TL_OK;
    int64_t total = 0;
    for (int64_t i = 0; i < o->count; i++) total += pieces_of(o, i);
    double *squares = tl_alloc_zero((size_t)total * sizeof *squares), *at = squares;
    tl_status st = squares ? TL_OK : TL_FAIL_NOMEM((size_t)total * sizeof *squares);
    for (int64_t i = 0; i < o->count && st == TL_OK; at += pieces_of(o, i), i++) {
        const tli_part *p = &o->parts[i];
        if (!counts(o, i, part)) continue;
        st = square(o, c, p, at);
        if (st == TL_OK && p->own) st = gather(o, p, at);
        if (st == TL_OK && p->own) st = hand_over(o, p);
    }
    if (st == TL_OK) st = set_norms(o, part, squares);
    tl_free(squares);
    return st;
}
