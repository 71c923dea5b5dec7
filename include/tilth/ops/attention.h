/* Attention, and the ops that leave things out at random while training.
 *
 *     y = tl_attend(c, q, k, v, .causal = true);
 *     y = tl_attend(c, q, k, v, .mask = padding, .dropout = 0.1);
 *     y = tl_dropout(c, y, 0.1);
 *
 * Heads lie behind positions, [batch, positions, heads, width]: this is how a projection to all
 * heads leaves them, so nothing is transposed on the way in or out.
 *
 * Draws are keyed by the module and the context's step (tl_ctx_set_draws), and by the position of
 * the element: they do not depend on threads, and come again when a captured program is run again.
 *
 * Precision: computed in float32 (float64 for float64) and rounded once.
 * Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_ATTENTION_H
#define TILTH_OPS_ATTENTION_H

#include <tilth/core/ctx.h>

TL_BEGIN

/* softmax(q k * scale + bias) v, for each head on its own, without ever storing all scores.
 *
 * q: [B, T, H, D], k: [B, S, G, D], v: [B, S, G, E]; the result is [B, T, H, E]. H is a multiple of
 * G: each head of k and v serves H / G neighbouring heads of q. A query that may not look at any
 * key gets 0. First order: it has a gradient (by q, k, v and bias), which has none; tl_attend_plain
 * has all. */
typedef struct tl_attend_args {
    tl_tensor *v;
    tl_tensor *mask; /* bool [B, S]: true where a key may be looked at; NULL: everywhere */
    tl_tensor *bias; /* of q's type, broadcasts to [B, H, T, S]; NULL: none */
    double scale;    /* 0: 1 / sqrt(D) */
    bool causal;     /* query t looks at keys 0 .. t + S - T: the last one at all of them */
    double dropout;  /* share of the weights that is dropped while training, in [0, 1] */
} tl_attend_args;
TL_API tl_tensor *tl_attend_with(tl_ctx *c, tl_tensor *q, tl_tensor *k, const tl_attend_args *args);
/* tl_attend(c, q, k, v, ...), then what differs from the default. */
#define tl_attend(c, q, k, ...)                                                                    \
    tl_attend_with((c), (q), (k), TL_LITERAL(tl_attend_args, .v = __VA_ARGS__))
/* The same from plain ops, with all scores in memory. Drops what tl_attend would drop. */
TL_API tl_tensor *tl_attend_plain_with(tl_ctx *c, tl_tensor *q, tl_tensor *k,
                                       const tl_attend_args *args);
#define tl_attend_plain(c, q, k, ...)                                                              \
    tl_attend_plain_with((c), (q), (k), TL_LITERAL(tl_attend_args, .v = __VA_ARGS__))

/* While training (tl_ctx_set_training) each element is 0 with the chance `rate`, in [0, 1], and
 * else divided by 1 - rate. Not training, or with a rate of 0: x itself. */
TL_API tl_tensor *tl_dropout(tl_ctx *c, tl_tensor *x, double rate);
/* The same with one draw for each index of the first axis: whole examples drop out. */
TL_API tl_tensor *tl_stochastic_depth(tl_ctx *c, tl_tensor *x, double rate);

TL_END

#endif
