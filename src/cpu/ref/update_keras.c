/* Updates that Keras has beside those of update.c. */
#include <math.h>

#include "cpu/inner/nadam.h"
#include "cpu/ref/update.h"

// A weight less what its decay takes.
static double decayed_weight(const block *b, const part *p, int64_t i)
{
    return tli_ref_get(b->w, i) * (1 - b->rate * p->decay);
}

static void set_weight(const block *b, int64_t i, double w)
{
    tli_ref_set(b->w, i, w);
    if (b->copy) tli_ref_set(b->copy, i, tli_ref_get(b->w, i));
}

static void adadelta_element(const block *b, const tl_adadelta_attr *a, const part *p, int64_t i)
{
    double g = gradient(b, i), d = get(b, 1, i);
    double s = keep(b, 0, i, a->rho * get(b, 0, i) + (1 - a->rho) * g * g);
    double u = sqrt(d + a->epsilon) * g / sqrt(s + a->epsilon);
    keep(b, 1, i, a->rho * d + (1 - a->rho) * u * u);
    set_weight(b, i, decayed_weight(b, p, i) - b->rate * u);
}

static void adamax_element(const block *b, const tl_adamax_attr *a, const part *p, int64_t i)
{
    double g = gradient(b, i), c1 = 1 - pow(a->beta_1, b->step);
    double m = keep(b, 0, i, a->beta_1 * get(b, 0, i) + (1 - a->beta_1) * g);
    double n = keep(b, 1, i, fmax(a->beta_2 * get(b, 1, i), fabs(g)));
    set_weight(b, i, decayed_weight(b, p, i) - b->rate / c1 * m / (n + a->epsilon));
}

static void nadam_element(const block *b, const tl_nadam_attr *a, const tli_nadam *s, const part *p,
                          int64_t i)
{
    double g = gradient(b, i);
    double m = keep(b, 0, i, a->beta_1 * get(b, 0, i) + (1 - a->beta_1) * g);
    double v = keep(b, 1, i, a->beta_2 * get(b, 1, i) + (1 - a->beta_2) * g * g);
    double direction = s->momentum * m + s->gradient * g;
    set_weight(b, i,
               decayed_weight(b, p, i) - b->rate * direction / (sqrt(v / s->squares) + a->epsilon));
}

static void ftrl_element(const block *b, const tl_ftrl_attr *a, const part *p, int64_t i)
{
    double g = gradient(b, i), w = decayed_weight(b, p, i), q = -a->learning_rate_power;
    double before = get(b, 0, i), s = keep(b, 0, i, before + g * g), power = pow(s, q);
    double z = get(b, 1, i) + g + 2 * a->l2_shrinkage * w - (power - pow(before, q)) / b->rate * w;
    double beyond = fmin(fmax(z, -a->l1), a->l1) - z;
    keep(b, 1, i, z);
    set_weight(b, i, beyond == 0 ? 0 : beyond / (power / b->rate + 2 * a->l2 + a->beta / b->rate));
}

static void lion_element(const block *b, const tl_lion_attr *a, const part *p, int64_t i)
{
    double g = gradient(b, i), m = get(b, 0, i);
    double direction = a->beta_1 * m + (1 - a->beta_1) * g;
    double sign = direction > 0 ? 1 : direction < 0 ? -1 : direction;
    keep(b, 0, i, a->beta_2 * m + (1 - a->beta_2) * g);
    set_weight(b, i, decayed_weight(b, p, i) - b->rate * sign);
}

/* Element by element, tensor by tensor. `idle` says when nothing is to be done. */
#define RULE(rule, idle)                                                                           \
    static tl_status update_##rule##_kernel(const tl_run *run, const tl_node *n)                   \
    {                                                                                              \
        const tl_##rule##_attr *a = n->attr;                                                       \
        block b;                                                                                   \
        (void)run;                                                                                 \
        if (!block_of(&b, n) || (idle)) return TL_OK;                                              \
        for (int64_t k = 0; k < part_count(a->offsets); k++) {                                     \
            part p = part_of(&b, k, a->offsets, a->decayed, (tl_ints){NULL, 0}, a->weight_decay);  \
            for (int64_t i = p.begin; i < p.end; i++) rule##_element(&b, a, &p, i);                \
        }                                                                                          \
        return TL_OK;                                                                              \
    }
RULE(adadelta, false)
RULE(adamax, false)
RULE(ftrl, b.rate == 0)
RULE(lion, false)

static tl_status update_nadam_kernel(const tl_run *run, const tl_node *n)
{
    const tl_nadam_attr *a = n->attr;
    block b;
    (void)run;
    if (!block_of(&b, n)) return TL_OK;
    const tli_nadam s = tli_nadam_at(a->beta_1, a->beta_2, b.step);
    for (int64_t k = 0; k < part_count(a->offsets); k++) {
        part p = part_of(&b, k, a->offsets, a->decayed, (tl_ints){NULL, 0}, a->weight_decay);
        for (int64_t i = p.begin; i < p.end; i++) nadam_element(&b, a, &s, &p, i);
    }
    return TL_OK;
}

#define ROW(name) TL_INIT(TL_OP_##name, TL_DTYPE_COUNT, name##_kernel, TL_KERNEL_JOINED)
static const tl_kernel table[] = {
    ROW(update_adadelta), ROW(update_adamax), ROW(update_nadam), ROW(update_ftrl), ROW(update_lion),
};
const tl_kernels tli_ref_update_keras = {table, TL_COUNT(table)};
