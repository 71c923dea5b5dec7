#include "cpu/ref/update.h"

#include <string.h>

/* --- sgd, adam, rmsprop, adagrad ------------------------------------------------------------- */

static void sgd_element(const block *b, const tl_sgd_attr *a, const part *p, int64_t i)
{
    double g = gradient(b, i) + p->decay * tli_ref_get(b->w, i);
    if (a->momentum == 0) {
        move(b, i, -b->rate * g);
    } else if (a->form == TL_FORM_KERAS) {
        double v = keep(b, 0, i, a->momentum * get(b, 0, i) - b->rate * g);
        move(b, i, a->nesterov ? a->momentum * v - b->rate * g : v);
    } else {
        double v = keep(b, 0, i, a->momentum * get(b, 0, i) + g);
        move(b, i, -b->rate * (a->nesterov ? g + a->momentum * v : v));
    }
}

static tl_status update_sgd_kernel(const tl_run *run, const tl_node *n)
{
    const tl_sgd_attr *a = n->attr;
    block b;
    (void)run;
    if (!block_of(&b, n)) return TL_OK;
    for (int64_t k = 0; k < part_count(a->offsets); k++) {
        part p = part_of(&b, k, a->offsets, a->decayed, (tl_ints){NULL, 0}, a->weight_decay);
        for (int64_t i = p.begin; i < p.end; i++) sgd_element(&b, a, &p, i);
    }
    return TL_OK;
}

static void adam_element(const block *b, const tl_adam_attr *a, const part *p, int64_t i)
{
    double c1 = 1 - pow(a->beta_1, b->step), c2 = 1 - pow(a->beta_2, b->step), g = gradient(b, i);
    double w = tli_ref_get(b->w, i);
    double m = keep(b, 0, i, a->beta_1 * get(b, 0, i) + (1 - a->beta_1) * g);
    double v = keep(b, 1, i, a->beta_2 * get(b, 1, i) + (1 - a->beta_2) * g * g);
    if (a->amsgrad) v = keep(b, 2, i, fmax(get(b, 2, i), v));
    double by = a->form == TL_FORM_KERAS ? sqrt(c2) / c1 * m / (sqrt(v) + a->epsilon)
                                         : m / c1 / (sqrt(v / c2) + a->epsilon);
    move(b, i, -b->rate * (p->decay * w + by));
}

static tl_status update_adam_kernel(const tl_run *run, const tl_node *n)
{
    const tl_adam_attr *a = n->attr;
    block b;
    (void)run;
    if (!block_of(&b, n)) return TL_OK;
    for (int64_t k = 0; k < part_count(a->offsets); k++) {
        part p = part_of(&b, k, a->offsets, a->decayed, (tl_ints){NULL, 0}, a->weight_decay);
        for (int64_t i = p.begin; i < p.end; i++) adam_element(&b, a, &p, i);
    }
    return TL_OK;
}

static tl_status update_rmsprop_kernel(const tl_run *run, const tl_node *n)
{
    const tl_rmsprop_attr *a = n->attr;
    block b;
    (void)run;
    if (!block_of(&b, n)) return TL_OK;
    for (int64_t i = 0; i < b.count; i++) {
        double g = gradient(&b, i),
               s = keep(&b, 0, i, a->rho * get(&b, 0, i) + (1 - a->rho) * g * g);
        if (a->centered) {
            double mean = keep(&b, 1, i, a->rho * get(&b, 1, i) + (1 - a->rho) * g);
            s -= mean * mean;
        }
        int last = 1 + a->centered;
        if (a->momentum == 0) {
            move(&b, i, -b.rate * g / (sqrt(s) + a->epsilon));
        } else if (a->form == TL_FORM_KERAS) {
            double by = b.rate * g / sqrt(s + a->epsilon);
            move(&b, i, -keep(&b, last, i, a->momentum * get(&b, last, i) + by));
        } else {
            double by = g / (sqrt(s) + a->epsilon);
            move(&b, i, -b.rate * keep(&b, last, i, a->momentum * get(&b, last, i) + by));
        }
    }
    return TL_OK;
}

static tl_status update_adagrad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_adagrad_attr *a = n->attr;
    block b;
    (void)run;
    if (!block_of(&b, n)) return TL_OK;
    for (int64_t i = 0; i < b.count; i++) {
        double g = gradient(&b, i), s = keep(&b, 0, i, get(&b, 0, i) + g * g);
        move(&b, i, -b.rate * g / (sqrt(s) + a->epsilon));
    }
    return TL_OK;
}

/* --- lamb, lars: rates that follow norms ----------------------------------------------------- */

// |w| / |u|, or 1 when either is 0; both come as sums of squares.
static double ratio_of(const part *p, double w, double u)
{
    return p->adapted && w > 0 && u > 0 ? sqrt(w) / sqrt(u) : 1;
}

static double lamb_direction(const block *b, const tl_lamb_attr *a, const part *p, int64_t i)
{
    double m = get(b, 0, i) / (1 - pow(a->beta_1, b->step));
    double v = get(b, 1, i) / (1 - pow(a->beta_2, b->step));
    return m / (sqrt(v) + a->epsilon) + p->decay * tli_ref_get(b->w, i);
}

static tl_status update_lamb_kernel(const tl_run *run, const tl_node *n)
{
    const tl_lamb_attr *a = n->attr;
    block b;
    (void)run;
    if (!block_of(&b, n)) return TL_OK;
    for (int64_t k = 0; k < part_count(a->offsets); k++) {
        part p = part_of(&b, k, a->offsets, a->decayed, a->adapted, a->weight_decay);
        double ww = 0, uu = 0;
        for (int64_t i = p.begin; i < p.end; i++) {
            double g = gradient(&b, i), w = tli_ref_get(b.w, i);
            keep(&b, 0, i, a->beta_1 * get(&b, 0, i) + (1 - a->beta_1) * g);
            keep(&b, 1, i, a->beta_2 * get(&b, 1, i) + (1 - a->beta_2) * g * g);
            double u = lamb_direction(&b, a, &p, i);
            ww += w * w;
            uu += u * u;
        }
        double ratio = ratio_of(&p, ww, uu);
        for (int64_t i = p.begin; i < p.end; i++)
            move(&b, i, -ratio * b.rate * lamb_direction(&b, a, &p, i));
    }
    return TL_OK;
}

static double decayed_gradient(const block *b, const part *p, int64_t i)
{
    return gradient(b, i) + p->decay * tli_ref_get(b->w, i);
}

static void lars_classic(const block *b, const tl_lars_attr *a, const part *p)
{
    double ww = 0, gg = 0;
    for (int64_t i = p->begin; i < p->end; i++) {
        double w = tli_ref_get(b->w, i), g = decayed_gradient(b, p, i);
        ww += w * w;
        gg += g * g;
    }
    double rate = b->rate * ratio_of(p, a->eeta * a->eeta * ww, gg);
    for (int64_t i = p->begin; i < p->end; i++) {
        double g = decayed_gradient(b, p, i),
               v = keep(b, 0, i, a->momentum * get(b, 0, i) + rate * g);
        move(b, i, a->nesterov ? -(a->momentum * v + rate * g) : -v);
    }
}

static double lars_direction(const block *b, const tl_lars_attr *a, const part *p, int64_t i)
{
    double v = get(b, 0, i);
    return a->nesterov ? a->momentum * v + decayed_gradient(b, p, i) : v;
}

static void lars_popular(const block *b, const tl_lars_attr *a, const part *p)
{
    double ww = 0, uu = 0;
    for (int64_t i = p->begin; i < p->end; i++) {
        keep(b, 0, i, a->momentum * get(b, 0, i) + decayed_gradient(b, p, i));
        double w = tli_ref_get(b->w, i), u = lars_direction(b, a, p, i);
        ww += w * w;
        uu += u * u;
    }
    double rate = b->rate * ratio_of(p, a->eeta * a->eeta * ww, uu);
    for (int64_t i = p->begin; i < p->end; i++) move(b, i, -rate * lars_direction(b, a, p, i));
}

static tl_status update_lars_kernel(const tl_run *run, const tl_node *n)
{
    const tl_lars_attr *a = n->attr;
    block b;
    (void)run;
    if (!block_of(&b, n)) return TL_OK;
    for (int64_t k = 0; k < part_count(a->offsets); k++) {
        part p = part_of(&b, k, a->offsets, a->decayed, a->adapted, a->weight_decay);
        (a->classic_momentum ? lars_classic : lars_popular)(&b, a, &p);
    }
    return TL_OK;
}

/* --- averages and norms ---------------------------------------------------------------------- */

static tl_status update_ema_kernel(const tl_run *run, const tl_node *n)
{
    const tl_ema_attr *a = n->attr;
    const tl_tensor *s = n->in[0], *v = n->in[1];
    double m = n->inputs > 2 ? tli_ref_get(n->in[2], 0) : a->momentum;
    (void)run;
    for (int64_t i = 0, count = m == 1 ? 0 : tl_tensor_count(s); i < count; i++)
        tli_ref_set(s, i, m * tli_ref_get(s, i) + (1 - m) * tli_ref_get(v, i));
    return TL_OK;
}

static tl_status assign_kernel(const tl_run *run, const tl_node *n)
{
    const tl_assign_attr *a = n->attr;
    const tl_tensor *to = n->in[0], *v = n->in[1];
    (void)run;
    if (!a->add) {
        memcpy(tli_data(to), tli_data(v), tl_tensor_bytes(to));
        return TL_OK;
    }
    if (n->inputs > 2 && *(const bool *)tli_data(n->in[2]))
        memset(tli_data(to), 0, tl_tensor_bytes(to));
    for (int64_t i = 0, count = tl_tensor_count(to); i < count && !a->scale; i++)
        tli_number_set(to, i, tli_number_add(to, tli_number_get(to, i), tli_number_get(v, i)));
    for (int64_t i = 0, count = tl_tensor_count(to); i < count && a->scale; i++) {
        const double more = tli_ref_get(v, i) * a->scale; // rounded before it is added
        tli_ref_set(to, i, tli_ref_get(to, i) + (to->dtype == TL_F32 ? (float)more : more));
    }
    return TL_OK;
}

static tl_status finite_and_norm_kernel(const tl_run *run, const tl_node *n)
{
    const tl_finite_attr *a = n->attr;
    bool finite = true;
    double sum = 0;
    (void)run;
    for (int k = 0; k < n->inputs; k++) {
        const block b = {.grad = n->in[k],
                         .runs = a->runs,
                         .scale = 1,
                         .count = a->runs.count ? a->count : tl_tensor_count(n->in[k])};
        for (int64_t i = 0; i < b.count; i++) {
            double v = gradient(&b, i);
            finite &= isfinite(v) != 0;
            sum += v * v;
        }
    }
    tli_ref_set(n->out[0], 0, sqrt(sum));
    tli_ref_set(n->out[1], 0, finite);
    return TL_OK;
}

static tl_status square_sums_kernel(const tl_run *run, const tl_node *n)
{
    const int64_t count = tl_tensor_count(n->in[0]);
    (void)run;
    for (int64_t at = 0; at < count; at += TL_SQUARES) {
        double sum = 0;
        for (int64_t i = at; i < count && i < at + TL_SQUARES; i++)
            sum += tli_ref_get(n->in[0], i) * tli_ref_get(n->in[0], i);
        tli_ref_set(n->out[0], at / TL_SQUARES, sum);
    }
    return TL_OK;
}

#define ROW(name, flags) TL_INIT(TL_OP_##name, TL_DTYPE_COUNT, name##_kernel, flags)
static const tl_kernel table[] = {
    ROW(update_sgd, TL_KERNEL_JOINED),
    ROW(update_adam, TL_KERNEL_JOINED),
    ROW(update_rmsprop, TL_KERNEL_JOINED),
    ROW(update_adagrad, TL_KERNEL_JOINED),
    ROW(update_lamb, TL_KERNEL_JOINED),
    ROW(update_lars, TL_KERNEL_JOINED),
    ROW(finite_and_norm, TL_KERNEL_JOINED),
    ROW(update_ema, 0),
    ROW(assign, 0),
    ROW(square_sums, 0),
};
const tl_kernels tli_ref_update = {table, TL_COUNT(table)};
