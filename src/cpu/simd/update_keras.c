/* Updates that Keras has beside those of update.c: one sweep over memory each
 * (cpu/ref/update_keras.c says them in full). */
#include "cpu/nadam.h"
#include "cpu/simd/math.h"
#include "cpu/simd/update.h"

// What a decay leaves of a weight.
TLI_INLINE vf kept(const block *b, float decay, vf w)
{
    return vf_mul(vf_set1((float)(1 - b->rate * decay)), w);
}

/* x moved by `rest` of the way to y. */
TLI_INLINE vf moved(vf x, vf y, double rest)
{
    return vf_fma(vf_sub(y, x), vf_set1((float)rest), x);
}

TLI_INLINE void adadelta_step(const block *b, const tl_adadelta_attr *a, float decay, int64_t i,
                              int64_t n)
{
    const vf rho = vf_set1((float)a->rho), rest = vf_set1((float)(1 - a->rho));
    const vf epsilon = vf_set1((float)a->epsilon), g = load_grad(b, i, n);
    const vf squares = vf_fma(rho, get(b->slot[0], i, n), vf_mul(rest, vf_mul(g, g)));
    const vf steps = get(b->slot[1], i, n);
    const vf by =
        vf_div(vf_mul(vf_sqrt(vf_add(steps, epsilon)), g), vf_sqrt(vf_add(squares, epsilon)));
    put(b->slot[0], i, squares, n);
    put(b->slot[1], i, vf_fma(rho, steps, vf_mul(rest, vf_mul(by, by))), n);
    put_weight(b, i, vf_fnma(vf_set1((float)b->rate), by, kept(b, decay, get(b->w, i, n))), n);
}

TLI_INLINE void adamax_step(const block *b, const tl_adamax_attr *a, vf rate, float decay,
                            int64_t i, int64_t n)
{
    const vf g = load_grad(b, i, n), m = moved(get(b->slot[0], i, n), g, 1 - a->beta_1);
    const vf u = vf_max(vf_mul(vf_set1((float)a->beta_2), get(b->slot[1], i, n)), vf_abs(g));
    const vf by = vf_div(m, vf_add(u, vf_set1((float)a->epsilon)));
    put(b->slot[0], i, m, n);
    put(b->slot[1], i, u, n);
    put_weight(b, i, vf_fnma(rate, by, kept(b, decay, get(b->w, i, n))), n);
}

TLI_INLINE void nadam_step(const block *b, const tl_nadam_attr *a, const tli_nadam *s, float decay,
                           int64_t i, int64_t n)
{
    const vf g = load_grad(b, i, n), m = moved(get(b->slot[0], i, n), g, 1 - a->beta_1);
    const vf v = moved(get(b->slot[1], i, n), vf_mul(g, g), 1 - a->beta_2);
    const vf direction =
        vf_fma(vf_set1((float)s->momentum), m, vf_mul(vf_set1((float)s->gradient), g));
    const vf by =
        over_root(direction, v, vf_set1((float)(1 / sqrt(s->squares))), vf_set1((float)a->epsilon));
    put(b->slot[0], i, m, n);
    put(b->slot[1], i, v, n);
    put_weight(b, i, vf_fnma(vf_set1((float)b->rate), by, kept(b, decay, get(b->w, i, n))), n);
}

TLI_INLINE vf ftrl_power(const tl_ftrl_attr *a, vf x)
{
    return a->learning_rate_power == -0.5 ? vf_sqrt(x)
                                          : vf_pow(x, vf_set1((float)-a->learning_rate_power));
}

TLI_INLINE void ftrl_step(const block *b, const tl_ftrl_attr *a, float decay, int64_t i, int64_t n)
{
    const vf g = load_grad(b, i, n), w = kept(b, decay, get(b->w, i, n));
    const vf before = get(b->slot[0], i, n), squares = vf_fma(g, g, before);
    const vf one_over = vf_set1((float)(1 / b->rate)), power = ftrl_power(a, squares);
    const vf pulled = vf_fma(vf_set1((float)(2 * a->l2_shrinkage)), w, g);
    const vf moves = vf_mul(vf_sub(power, ftrl_power(a, before)), one_over);
    const vf linear = vf_add(get(b->slot[1], i, n), vf_fnma(moves, w, pulled));
    const vf l2 = vf_set1((float)(2 * a->l2 + a->beta / b->rate)), l1 = vf_set1((float)a->l1);
    const vf beyond = vf_sub(vf_min_c(vf_max_c(linear, vf_sub(vf_zero(), l1)), l1), linear);
    // Nothing that pulls gives 0, also over nothing.
    const vf to = vf_div(beyond, vf_fma(power, one_over, l2));
    put(b->slot[0], i, squares, n);
    put(b->slot[1], i, linear, n);
    put_weight(b, i, vf_select(vf_eq(beyond, vf_zero()), vf_zero(), to), n);
}

TLI_INLINE void lion_step(const block *b, const tl_lion_attr *a, float decay, int64_t i, int64_t n)
{
    const vf g = load_grad(b, i, n), m = get(b->slot[0], i, n);
    const vf direction =
        vf_fma(m, vf_set1((float)a->beta_1), vf_mul(g, vf_set1((float)(1 - a->beta_1))));
    put(b->slot[0], i,
        vf_fma(m, vf_set1((float)a->beta_2), vf_mul(g, vf_set1((float)(1 - a->beta_2)))), n);
    put_weight(
        b, i, vf_fnma(vf_set1((float)b->rate), vf_sign(direction), kept(b, decay, get(b->w, i, n))),
        n);
}

static void adamax_sweep(const block *shared, int64_t begin, int64_t end, float decay)
{
    const block copy = *shared, *b = &copy;
    const tl_adamax_attr *a = b->attr;
    const vf rate = vf_set1((float)(b->rate / (1 - pow(a->beta_1, b->step))));
    SWEEP(adamax_step, b, a, rate, decay);
}

static void nadam_sweep(const block *shared, int64_t begin, int64_t end, float decay)
{
    const block copy = *shared, *b = &copy;
    const tl_nadam_attr *a = b->attr;
    const tli_nadam s = tli_nadam_at(a->beta_1, a->beta_2, b->step);
    SWEEP(nadam_step, b, a, &s, decay);
}

#define RULE_SWEEP(rule)                                                                           \
    static void rule##_sweep(const block *shared, int64_t begin, int64_t end, float decay)         \
    {                                                                                              \
        const block copy = *shared, *b = &copy;                                                    \
        SWEEP(rule##_step, b, b->attr, decay);                                                     \
    }
RULE_SWEEP(adadelta)
RULE_SWEEP(ftrl)
RULE_SWEEP(lion)

#define RULE_KERNEL(rule)                                                                          \
    static tl_status update_##rule##_kernel(const tl_run *run, const tl_node *n)                   \
    {                                                                                              \
        const tl_##rule##_attr *a = n->attr;                                                       \
        block b = {.sweep = rule##_sweep,                                                          \
                   .decay = (float)a->weight_decay,                                                \
                   .offsets = a->offsets,                                                          \
                   .decayed = a->decayed};                                                         \
        return run_block(run, n, &b);                                                              \
    }
RULE_KERNEL(adadelta)
RULE_KERNEL(adamax)
RULE_KERNEL(nadam)
RULE_KERNEL(lion)

// At a rate of 0 nothing is known of where the weights should be.
static tl_status update_ftrl_kernel(const tl_run *run, const tl_node *n)
{
    const tl_ftrl_attr *a = n->attr;
    block b = {.sweep = ftrl_sweep,
               .decay = (float)a->weight_decay,
               .offsets = a->offsets,
               .decayed = a->decayed};
    if (((const float *)tli_data(n->in[HYPER]))[RATE] == 0) return TL_OK;
    return run_block(run, n, &b);
}

static const tl_kernel rows[] = {
    {TL_OP_update_adadelta, TL_F32, update_adadelta_kernel, 0},
    {TL_OP_update_adamax, TL_F32, update_adamax_kernel, 0},
    {TL_OP_update_nadam, TL_F32, update_nadam_kernel, 0},
    {TL_OP_update_ftrl, TL_F32, update_ftrl_kernel, 0},
    {TL_OP_update_lion, TL_F32, update_lion_kernel, 0},
};
TLI_SIMD_KERNELS(update_keras, rows);
