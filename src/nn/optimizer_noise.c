/* Gradients of single batches against their sum: what a gradient noise scale is made from. Norms
 * are those of all blocks, of gradients without loss scale, divided by their weights. */
#include <math.h>

#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/pack.h>
#include <tilth/ops/update.h>
#include <tilth/ops/view.h>

#include "nn/optimizer.h"

enum { SQUARES, INVERSES, BATCHES, SUMS }; /* sums over batches */

tl_status tl_optimizer_measure_noise(tl_optimizer *o)
{
    if (o->noise.sums) return TL_OK;
    TL_TRY(tli_optimizer_tensor(&o->noise.last, o, TL_F64, TL_SHAPE(TLI_NOISES), 0));
    return tli_optimizer_tensor(&o->noise.sums, o, TL_F64, TL_SHAPE(SUMS), 0);
}

// |g|^2 of all blocks together, divided by what they were multiplied by.
static tl_tensor *squared_norm(const tl_optimizer *o, tl_ctx *c, tl_tensor *const *grads,
                               tl_tensor *weight)
{
    tl_tensor **list = tl_arena_array(tl_ctx_arena(c), o->count, sizeof *list), *norm, *finite;
    int count = 0;
    if (!list) return tl_ctx_fail(c);
    for (int64_t i = 0; i < o->count; i++)
        if (o->parts[i].base.block && grads[i]) list[count++] = grads[i];
    tl_finite_and_norm(c, list, count, &norm, &finite);
    tl_tensor *times = o->scale ? tl_mul(c, weight, tl_cast(c, o->scale, TL_F64)) : weight;
    return tl_square(c, tl_div(c, tl_cast(c, norm, TL_F64), times));
}

static tl_tensor *row_of(tl_ctx *c, tl_tensor *const *numbers, int count)
{
    static const int64_t places[] = {0, 1, 2, 3};
    return tl_pack(c, count, numbers, places, count);
}

void tli_noise_add(tl_optimizer *o, tl_ctx *c, tl_tensor *const *grads, tl_tensor *weight)
{
    if (!o->noise.sums || tl_ctx_failed(c)) return;
    tl_tensor *one = tl_number(c, TL_F64, 1);
    weight = weight ? tl_cast(c, weight, TL_F64) : one;
    tl_tensor *numbers[SUMS];
    numbers[SQUARES] = squared_norm(o, c, grads, weight);
    numbers[INVERSES] = tl_reciprocal(c, weight);
    numbers[BATCHES] = one;
    tl_assign_add(c, o->noise.sums, row_of(c, numbers, SUMS));
}

void tli_noise_flush(tl_optimizer *o, tl_ctx *c, tl_tensor *const *sums)
{
    if (!o->noise.sums || tl_ctx_failed(c)) return;
    tl_tensor *batches = tl_take(c, o->noise.sums, 0, BATCHES);
    tl_tensor *numbers[TLI_NOISES];
    numbers[TLI_NOISE_SMALL] = tl_div(c, tl_take(c, o->noise.sums, 0, SQUARES), batches);
    numbers[TLI_NOISE_SMALL_INVERSE] = tl_div(c, tl_take(c, o->noise.sums, 0, INVERSES), batches);
    numbers[TLI_NOISE_LARGE] = squared_norm(o, c, sums, o->weight_sum);
    numbers[TLI_NOISE_LARGE_INVERSE] = tl_reciprocal(c, o->weight_sum);
    tl_assign(c, o->noise.last, row_of(c, numbers, TLI_NOISES));
    tl_assign(c, o->noise.sums, tl_zeros(c, TL_F64, TL_SHAPE(SUMS)));
}

tl_status tl_optimizer_noise(tl_gradient_noise *out, const tl_optimizer *o)
{
    double v[TLI_NOISES];
    *out = (tl_gradient_noise){0};
    if (!o->noise.last)
        return TL_FAIL(TL_ESTATE, "the noise of gradients is not measured; call "
                                  "tl_optimizer_measure_noise before the first step");
    TL_TRY(tl_tensor_get_doubles(o->noise.last, v, TLI_NOISES));
    // The expected square of a mean over w is signal + noise / w.
    double between = v[TLI_NOISE_SMALL_INVERSE] - v[TLI_NOISE_LARGE_INVERSE];
    out->noise = (v[TLI_NOISE_SMALL] - v[TLI_NOISE_LARGE]) / between;
    out->signal = v[TLI_NOISE_LARGE] - out->noise * v[TLI_NOISE_LARGE_INVERSE];
    out->known = between > 0 && isfinite(out->noise) && isfinite(out->signal);
    if (!out->known) *out = (tl_gradient_noise){0};
    return TL_OK;
}
