/* Updates that Keras has beside those of update.c: one sweep over memory each
 * (cpu/ref/update_keras.c says them in full). */
#include "cpu/nadam.h"
#include "cpu/simd/math.h"
#include "cpu/simd/update.h"

/* The numbers of a step, of which each rule has its own meanings; made once for a sweep. */
typedef struct numbers {
    vf rate, kept; /* kept: what a decay leaves of a weight */
    vf epsilon, beta_1, rest_1, beta_2, rest_2;
    vf momentum, gradient, factor;    /* nadam */
    vf one_over, power, pull, l1, l2; /* ftrl */
} numbers;

TLI_INLINE vf spread(double number)
{
    return vf_set1((float)number);
}

TLI_INLINE void move_weight(const block *b, const numbers *k, int64_t i, vf by, int64_t n)
{
    put_weight(b, i, vf_fnma(k->rate, by, vf_mul(k->kept, get(b->w, i, n))), n);
}

/* x moved by `rest` of the way to y. */
TLI_INLINE vf moved(vf x, vf y, vf rest)
{
    return vf_fma(vf_sub(y, x), rest, x);
}

/* --- the rules -------------------------------------------------------------------------------- */

/* One quotient and one root: sqrt(d + epsilon) / sqrt(s + epsilon) would be a root more. */
TLI_INLINE void adadelta_steps(const block *b, const numbers *k, const int ways, int64_t i,
                               int64_t n)
{
    vf g[WAYS], d[WAYS], ratio[WAYS];
    UNROLLED(int j = 0; j < ways; j++) {
        const int64_t at = i + j * VF;
        g[j] = load_grad(b, at, n);
        d[j] = get(b->slot[1], at, n);
        const vf s =
            vf_fma(k->beta_1, get(b->slot[0], at, n), vf_mul(k->rest_1, vf_mul(g[j], g[j])));
        put(b->slot[0], at, s, n);
        ratio[j] = vf_div(vf_add(d[j], k->epsilon), vf_add(s, k->epsilon));
    }
    UNROLLED(int j = 0; j < ways; j++) g[j] = vf_mul(g[j], vf_sqrt(ratio[j]));
    UNROLLED(int j = 0; j < ways; j++) {
        const int64_t at = i + j * VF;
        const vf square = vf_mul(g[j], g[j]);
        put(b->slot[1], at, vf_fma(k->beta_1, d[j], vf_mul(k->rest_1, square)), n);
        move_weight(b, k, at, g[j], n);
    }
}

TLI_INLINE void adamax_step(const block *b, const numbers *k, int64_t i, int64_t n)
{
    const vf g = load_grad(b, i, n), m = moved(get(b->slot[0], i, n), g, k->rest_1);
    const vf u = vf_max(vf_mul(k->beta_2, get(b->slot[1], i, n)), vf_abs(g));
    put(b->slot[0], i, m, n);
    put(b->slot[1], i, u, n);
    move_weight(b, k, i, vf_div(m, vf_add(u, k->epsilon)), n);
}

TLI_INLINE void nadam_steps(const block *b, const numbers *k, const int ways, int64_t i, int64_t n)
{
    vf direction[WAYS], root[WAYS];
    UNROLLED(int j = 0; j < ways; j++) {
        const int64_t at = i + j * VF;
        const vf g = load_grad(b, at, n), m = moved(get(b->slot[0], at, n), g, k->rest_1);
        const vf v = moved(get(b->slot[1], at, n), vf_mul(g, g), k->rest_2);
        direction[j] = vf_fma(k->momentum, m, vf_mul(k->gradient, g));
        put(b->slot[0], at, m, n);
        put(b->slot[1], at, v, n);
        root[j] = vf_sqrt(v);
    }
    UNROLLED(int j = 0; j < ways; j++) root[j] = vf_fma(root[j], k->factor, k->epsilon);
    UNROLLED(int j = 0; j < ways; j++) direction[j] = vf_div(direction[j], root[j]);
    UNROLLED(int j = 0; j < ways; j++) move_weight(b, k, i + j * VF, direction[j], n);
}

TLI_INLINE vf ftrl_power(vf x, vf power, bool root)
{
    return root ? vf_sqrt(x) : vf_pow(x, power);
}

TLI_INLINE void ftrl_step(const block *b, const numbers *k, const bool root, int64_t i, int64_t n)
{
    const vf g = load_grad(b, i, n), w = vf_mul(k->kept, get(b->w, i, n));
    const vf before = get(b->slot[0], i, n), s = vf_fma(g, g, before);
    const vf power = ftrl_power(s, k->power, root);
    const vf moves = vf_mul(vf_sub(power, ftrl_power(before, k->power, root)), k->one_over);
    const vf z = vf_add(get(b->slot[1], i, n), vf_fnma(moves, w, vf_fma(k->pull, w, g)));
    const vf beyond = vf_sub(vf_min_c(vf_max_c(z, vf_sub(vf_zero(), k->l1)), k->l1), z);
    // Nothing that pulls gives 0, also over nothing.
    const vf to = vf_div(beyond, vf_fma(power, k->one_over, k->l2));
    put(b->slot[0], i, s, n);
    put(b->slot[1], i, z, n);
    put_weight(b, i, vf_select(vf_eq(beyond, vf_zero()), vf_zero(), to), n);
}

TLI_INLINE void lion_step(const block *b, const numbers *k, int64_t i, int64_t n)
{
    const vf g = load_grad(b, i, n), m = get(b->slot[0], i, n);
    const vf direction = vf_fma(m, k->beta_1, vf_mul(g, k->rest_1));
    put(b->slot[0], i, vf_fma(m, k->beta_2, vf_mul(g, k->rest_2)), n);
    move_weight(b, k, i, vf_sign(direction), n);
}

/* --- sweeps ----------------------------------------------------------------------------------- */

static numbers numbers_of(const block *b, float decay, double rate)
{
    return (numbers){.rate = spread(rate), .kept = spread(1 - b->rate * decay)};
}

static void set_betas(numbers *k, double beta_1, double beta_2, double epsilon)
{
    k->beta_1 = spread(beta_1);
    k->rest_1 = spread(1 - beta_1);
    k->beta_2 = spread(beta_2);
    k->rest_2 = spread(1 - beta_2);
    k->epsilon = spread(epsilon);
}

static void adadelta_sweep(const block *shared, int64_t begin, int64_t end, float decay)
{
    const block copy = *shared, *b = &copy;
    const tl_adadelta_attr *a = b->attr;
    numbers k = numbers_of(b, decay, b->rate);
    set_betas(&k, a->rho, a->rho, a->epsilon);
    SWEEP_BESIDE(adadelta_steps, b, &k);
}

static void adamax_sweep(const block *shared, int64_t begin, int64_t end, float decay)
{
    const block copy = *shared, *b = &copy;
    const tl_adamax_attr *a = b->attr;
    numbers k = numbers_of(b, decay, b->rate / (1 - pow(a->beta_1, b->step)));
    set_betas(&k, a->beta_1, a->beta_2, a->epsilon);
    SWEEP(adamax_step, b, &k);
}

static void nadam_sweep(const block *shared, int64_t begin, int64_t end, float decay)
{
    const block copy = *shared, *b = &copy;
    const tl_nadam_attr *a = b->attr;
    const tli_nadam s = tli_nadam_at(a->beta_1, a->beta_2, b->step);
    numbers k = numbers_of(b, decay, b->rate);
    set_betas(&k, a->beta_1, a->beta_2, a->epsilon);
    k.momentum = spread(s.momentum);
    k.gradient = spread(s.gradient);
    k.factor = spread(1 / sqrt(s.squares));
    SWEEP_BESIDE(nadam_steps, b, &k);
}

static void ftrl_sweep(const block *shared, int64_t begin, int64_t end, float decay)
{
    const block copy = *shared, *b = &copy;
    const tl_ftrl_attr *a = b->attr;
    numbers k = numbers_of(b, decay, b->rate);
    k.one_over = spread(1 / b->rate);
    k.power = spread(-a->learning_rate_power);
    k.pull = spread(2 * a->l2_shrinkage);
    k.l1 = spread(a->l1);
    k.l2 = spread(2 * a->l2 + a->beta / b->rate);
    if (a->learning_rate_power == -0.5) SWEEP(ftrl_step, b, &k, true);
    else SWEEP(ftrl_step, b, &k, false);
}

static void lion_sweep(const block *shared, int64_t begin, int64_t end, float decay)
{
    const block copy = *shared, *b = &copy;
    const tl_lion_attr *a = b->attr;
    numbers k = numbers_of(b, decay, b->rate);
    set_betas(&k, a->beta_1, a->beta_2, 0);
    SWEEP(lion_step, b, &k);
}

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
