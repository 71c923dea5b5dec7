/* Attention from plain ops: slower, and with every derivative. */
#include <tilth/ops/attention.h>

#include <inttypes.h>
#include <math.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/matmul.h>
#include <tilth/ops/softmax.h>
#include <tilth/ops/view.h>

#include "ops/ops.h"

static tl_tensor *swap_middle(tl_ctx *c, tl_tensor *t)
{
    return tl_transpose(c, t, (const int64_t[]){0, 2, 1, 3}, 4);
}

// [B, S, G, D] as [B, H, S, D]: each head as often as it serves.
static tl_tensor *heads_of(tl_ctx *c, tl_tensor *t, int64_t heads)
{
    const int64_t *d = t->shape.dims;
    if (d[2] == heads || d[2] < 1) return swap_middle(c, t);
    tl_shape apart = TL_SHAPE(d[0], d[1], d[2], 1, d[3]);
    tl_shape often = TL_SHAPE(d[0], d[1], d[2], heads / d[2], d[3]);
    tl_shape whole = TL_SHAPE(d[0], d[1], heads, d[3]);
    return swap_middle(c, tl_reshape(c, tl_broadcast_to(c, tl_reshape(c, t, apart), often), whole));
}

// [T, S]: whether a query may look at a key.
static tl_tensor *causal_mask(tl_ctx *c, int64_t queries, int64_t keys)
{
    tl_tensor *t = tl_arange(c, TL_I64, (double)(keys - queries), (double)keys, 1);
    tl_tensor *s = tl_arange(c, TL_I64, 0, (double)keys, 1);
    return tl_less_equal(c, tl_reshape(c, s, TL_SHAPE(1, keys)),
                         tl_reshape(c, t, TL_SHAPE(queries, 1)));
}

// What may be looked at, broadcasting to [B, H, T, S]; NULL: everything.
static tl_tensor *allowed(tl_ctx *c, const tl_tensor *q, const tl_tensor *k,
                          const tl_attend_args *args)
{
    int64_t batch = k->shape.dims[0], keys = k->shape.dims[1];
    tl_tensor *mask = args->mask ? tl_reshape(c, args->mask, TL_SHAPE(batch, 1, 1, keys)) : NULL;
    if (!args->causal) return mask;
    tl_tensor *past = causal_mask(c, q->shape.dims[1], keys);
    return mask ? tl_logical_and(c, mask, past) : past;
}

static tl_status check(const tl_tensor *q, const tl_tensor *k, const tl_tensor *v)
{
    TL_TRY(tli_want_rank(q, 4, "q"));
    TL_TRY(tli_want_rank(k, 4, "k"));
    TL_TRY(tli_want_rank(v, 4, "v"));
    if (k->shape.dims[2] < 1 || q->shape.dims[2] % k->shape.dims[2])
        return TL_FAIL(TL_EINVAL,
                       "q has %" PRId64 " heads, which is not a multiple of the %" PRId64 " of k",
                       q->shape.dims[2], k->shape.dims[2]);
    return TL_OK;
}

tl_tensor *tl_attend_plain_with(tl_ctx *c, tl_tensor *q, tl_tensor *k, const tl_attend_args *args)
{
    if (!q || !k || !args->v) return tl_attend_with(c, q, k, args); // which says so
    if (check(q, k, args->v) != TL_OK) {
        (void)tl_error_note(tl_error_code(), "attend_plain");
        return tl_ctx_fail(c);
    }
    int64_t heads = q->shape.dims[2];
    double scale = args->scale != 0 ? args->scale : 1 / sqrt((double)q->shape.dims[3]);
    tl_tensor *scores = tl_matmul_with(c, swap_middle(c, q), heads_of(c, k, heads), false, true);
    scores = tl_scale(c, scores, scale);
    if (args->bias) scores = tl_add(c, scores, args->bias);
    tl_tensor *mask = allowed(c, q, k, args);
    if (mask && scores) {
        // Finite, so that a row without any key has no NaN; its even weights are taken away below.
        tl_tensor *low =
            tl_full(c, scores->dtype, TL_SCALAR, scores->dtype == TL_F16 ? -6e4 : -1e30);
        scores = tl_where(c, mask, scores, low);
    }
    tl_tensor *weights = tl_softmax(c, scores, -1);
    if (mask && weights)
        weights = tl_where(c, mask, weights, tl_full(c, weights->dtype, TL_SCALAR, 0));
    weights = tl_dropout(c, weights, args->dropout);
    return swap_middle(c, tl_matmul(c, weights, heads_of(c, args->v, heads)));
}
