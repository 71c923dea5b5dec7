/* Updates of float32 parameters over whole blocks: one sweep over memory each. */
#include <math.h>

#include "cpu/simd/kernels.h"
#include "cpu/simd/vec.h"

enum { PARAM, GRAD, HYPER, SLOTS };        /* inputs */
enum { RATE, STEP, SCALE, APPLY, HYPERS }; /* elements of the third */
enum { GRAIN = 16384 };                    /* elements a task */

/* m / (sqrt(v) * factor + epsilon). Estimates refined by hand would be a longer chain, and slower, than the
 * units for roots and quotients. */
TLI_INLINE vf over_root(vf m, vf v, vf factor, vf epsilon)
{
    return vf_div(m, vf_fma(vf_sqrt(v), factor, epsilon));
}

/* One update: a block and the numbers of this step. */
typedef struct block block;
typedef void sweep_fn(const block *b, int64_t begin, int64_t end, float decay);
struct block {
    float *w, *slot[3];
    const void *grad;
    tl_dtype grad_type;
    const void *attr;
    sweep_fn *sweep;
    double rate, step;
    float scale, decay;
    tl_ints offsets, decayed;
};

TLI_INLINE vf load_grad(const block *b, int64_t i, int64_t n)
{
    const vf scale = vf_set1(b->scale);
    if (b->grad_type == TL_F32) {
        const float *g = (const float *)b->grad + i;
        return vf_mul(n == VF ? vf_load(g) : vf_load_n(g, n), scale);
    }
    const uint16_t *g = (const uint16_t *)b->grad + i;
    return vf_mul(b->grad_type == TL_BF16 ? vf_load_bf16_n(g, n) : vf_load_f16_n(g, n), scale);
}

TLI_INLINE vf get(const float *p, int64_t i, int64_t n)
{
    return n == VF ? vf_load(p + i) : vf_load_n(p + i, n);
}

TLI_INLINE void put(float *p, int64_t i, vf x, int64_t n)
{
    if (n == VF)
        vf_store(p + i, x);
    else
        vf_store_n(p + i, x, n);
}

// The tensor of the block that holds element `at`.
static int64_t part_at(const block *b, int64_t at)
{
    int64_t low = 0, high = b->offsets.count - 1;
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        if (b->offsets.items[middle] <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static tl_status sweep_piece(int64_t begin, int64_t end, void *payload)
{
    const block *b = payload;
    if (!b->decayed.count || !b->offsets.count) {
        b->sweep(b, begin, end, b->decay);
        return TL_OK;
    }
    for (int64_t k = part_at(b, begin); begin < end; k++) {
        const int64_t next = k + 1 < b->offsets.count ? b->offsets.items[k + 1] : end;
        const int64_t stop = next < end ? next : end;
        b->sweep(b, begin, stop, b->decayed.items[k] ? b->decay : 0);
        begin = stop;
    }
    return TL_OK;
}

static tl_status run_block(const tl_run *run, const tl_node *n, block *b)
{
    const float *hyper = tl_kernel_data(n->in[HYPER]);
    if (hyper[APPLY] == 0) return TL_OK;
    if (n->in[GRAD]->dtype == TL_F64) return tli_run_reference(run, n);
    b->w = tl_kernel_data(n->in[PARAM]);
    b->grad = tl_kernel_data(n->in[GRAD]);
    b->grad_type = n->in[GRAD]->dtype;
    for (int i = SLOTS; i < n->inputs; i++) b->slot[i - SLOTS] = tl_kernel_data(n->in[i]);
    b->attr = n->attr;
    b->rate = hyper[RATE];
    b->step = hyper[STEP];
    b->scale = hyper[SCALE];
    return tl_parallel_for(run->threads, tl_tensor_count(n->in[PARAM]), GRAIN, sweep_piece, b);
}

/* --- the rules (cpu/ref/update.c says them in full) --------------------------------------------------- */

/* The loops below are written once for n lanes; most rounds have all of them, and know it. */
/* `b` is a copy: what is stored through its pointers cannot change it, and it stays in registers. */
#define SWEEP(step, ...)                                                                           \
    do {                                                                                           \
        int64_t i = begin;                                                                         \
        for (; i + VF <= end; i += VF) step(__VA_ARGS__, i, VF);                                   \
        if (i < end) step(__VA_ARGS__, i, end - i);                                                \
    } while (0)

TLI_INLINE void sgd_step(const block *b, const tl_sgd_attr *a, float decay, int64_t i, int64_t n)
{
    const vf rate = vf_set1((float)b->rate), momentum = vf_set1((float)a->momentum);
    vf w = get(b->w, i, n), g = vf_fma(w, vf_set1(decay), load_grad(b, i, n));
    if (a->momentum == 0) {
        w = vf_fnma(rate, g, w);
    } else if (a->form == TL_FORM_KERAS) {
        const vf v = vf_fnma(rate, g, vf_mul(momentum, get(b->slot[0], i, n)));
        put(b->slot[0], i, v, n);
        w = vf_add(w, a->nesterov ? vf_fnma(rate, g, vf_mul(momentum, v)) : v);
    } else {
        const vf v = vf_fma(momentum, get(b->slot[0], i, n), g);
        put(b->slot[0], i, v, n);
        w = vf_fnma(rate, a->nesterov ? vf_fma(momentum, v, g) : v, w);
    }
    put(b->w, i, w, n);
}

static void sgd_sweep(const block *shared, int64_t begin, int64_t end, float decay)
{
    const block copy = *shared, *b = &copy;
    SWEEP(sgd_step, b, b->attr, decay);
}

typedef struct adam {
    vf rate, factor, epsilon, beta_1, rest_1, beta_2, rest_2, kept;
    bool amsgrad;
} adam;

TLI_INLINE void adam_step(const block *b, const adam *a, int64_t i, int64_t n)
{
    const vf g = load_grad(b, i, n);
    const vf m = vf_fma(a->beta_1, get(b->slot[0], i, n), vf_mul(a->rest_1, g));
    vf v = vf_fma(a->beta_2, get(b->slot[1], i, n), vf_mul(vf_mul(a->rest_2, g), g));
    put(b->slot[0], i, m, n);
    put(b->slot[1], i, v, n);
    if (a->amsgrad) {
        v = vf_max(get(b->slot[2], i, n), v);
        put(b->slot[2], i, v, n);
    }
    const vf by = over_root(m, v, a->factor, a->epsilon);
    put(b->w, i, vf_fnma(a->rate, by, vf_mul(a->kept, get(b->w, i, n))), n);
}

static void adam_sweep(const block *shared, int64_t begin, int64_t end, float decay)
{
    const block copy = *shared, *b = &copy;
    const tl_adam_attr *k = b->attr;
    const double c1 = 1 - pow(k->beta_1, b->step), c2 = 1 - pow(k->beta_2, b->step);
    const bool keras = k->form == TL_FORM_KERAS;
    const adam a = {
        .rate = vf_set1((float)(keras ? b->rate * sqrt(c2) / c1 : b->rate / c1)),
        .factor = vf_set1((float)(keras ? 1 : 1 / sqrt(c2))),
        .epsilon = vf_set1((float)k->epsilon),
        .beta_1 = vf_set1((float)k->beta_1),
        .rest_1 = vf_set1((float)(1 - k->beta_1)),
        .beta_2 = vf_set1((float)k->beta_2),
        .rest_2 = vf_set1((float)(1 - k->beta_2)),
        .kept = vf_set1((float)(1 - b->rate * decay)),
        .amsgrad = k->amsgrad,
    };
    SWEEP(adam_step, b, &a);
}

TLI_INLINE void rmsprop_step(const block *b, const tl_rmsprop_attr *a, int64_t i, int64_t n)
{
    const vf rate = vf_set1((float)b->rate), momentum = vf_set1((float)a->momentum);
    const vf rho = vf_set1((float)a->rho), rest = vf_set1((float)(1 - a->rho));
    const vf epsilon = vf_set1((float)a->epsilon), g = load_grad(b, i, n);
    float *buffer = b->slot[1 + a->centered];
    vf s = vf_fma(rho, get(b->slot[0], i, n), vf_mul(vf_mul(rest, g), g)), w = get(b->w, i, n);
    put(b->slot[0], i, s, n);
    if (a->centered) {
        const vf mean = vf_fma(rho, get(b->slot[1], i, n), vf_mul(rest, g));
        put(b->slot[1], i, mean, n);
        s = vf_fnma(mean, mean, s);
    }
    const bool inside = a->momentum != 0 && a->form == TL_FORM_KERAS; // where the epsilon stands
    const vf under = inside ? vf_sqrt(vf_add(s, epsilon)) : vf_add(vf_sqrt(s), epsilon);
    vf by = vf_div(inside ? vf_mul(rate, g) : g, under);
    if (a->momentum != 0) {
        by = vf_fma(momentum, get(buffer, i, n), by);
        put(buffer, i, by, n);
    }
    w = vf_fnma(inside ? vf_set1(1) : rate, by, w);
    put(b->w, i, w, n);
}

static void rmsprop_sweep(const block *shared, int64_t begin, int64_t end, float decay)
{
    const block copy = *shared, *b = &copy;
    (void)decay;
    SWEEP(rmsprop_step, b, b->attr);
}

TLI_INLINE void adagrad_step(const block *b, const tl_adagrad_attr *a, int64_t i, int64_t n)
{
    const vf g = load_grad(b, i, n), s = vf_fma(g, g, get(b->slot[0], i, n));
    const vf by = over_root(g, s, vf_set1(1), vf_set1((float)a->epsilon));
    put(b->slot[0], i, s, n);
    put(b->w, i, vf_fnma(vf_set1((float)b->rate), by, get(b->w, i, n)), n);
}

static void adagrad_sweep(const block *shared, int64_t begin, int64_t end, float decay)
{
    const block copy = *shared, *b = &copy;
    (void)decay;
    SWEEP(adagrad_step, b, b->attr);
}

static tl_status update_sgd_kernel(const tl_run *run, const tl_node *n)
{
    const tl_sgd_attr *a = n->attr;
    block b = {.sweep = sgd_sweep, .decay = (float)a->weight_decay, .offsets = a->offsets,
               .decayed = a->decayed};
    return run_block(run, n, &b);
}

static tl_status update_adam_kernel(const tl_run *run, const tl_node *n)
{
    const tl_adam_attr *a = n->attr;
    block b = {.sweep = adam_sweep, .decay = (float)a->weight_decay, .offsets = a->offsets,
               .decayed = a->decayed};
    return run_block(run, n, &b);
}

static tl_status update_rmsprop_kernel(const tl_run *run, const tl_node *n)
{
    block b = {.sweep = rmsprop_sweep};
    return run_block(run, n, &b);
}

static tl_status update_adagrad_kernel(const tl_run *run, const tl_node *n)
{
    block b = {.sweep = adagrad_sweep};
    return run_block(run, n, &b);
}

/* --- averages ------------------------------------------------------------------------------------- */

typedef struct average {
    float *s;
    const float *v;
    float momentum;
} average;

static tl_status ema_piece(int64_t begin, int64_t end, void *payload)
{
    const average *e = payload;
    const vf m = vf_set1(e->momentum), rest = vf_set1(1 - e->momentum);
#define EMA_STEP(e, i, n) put(e->s, i, vf_fma(m, get(e->s, i, n), vf_mul(rest, get(e->v, i, n))), n)
    SWEEP(EMA_STEP, e);
#undef EMA_STEP
    return TL_OK;
}

static tl_status update_ema_kernel(const tl_run *run, const tl_node *n)
{
    const tl_ema_attr *a = n->attr;
    average e = {.s = tl_kernel_data(n->in[0]), .v = tl_kernel_data(n->in[1]),
                 .momentum = n->inputs > 2 ? *(const float *)tl_kernel_data(n->in[2]) : (float)a->momentum};
    if (e.momentum == 1) return TL_OK;
    if (n->in[1]->dtype != TL_F32) return tli_run_reference(run, n);
    return tl_parallel_for(run->threads, tl_tensor_count(n->in[0]), GRAIN, ema_piece, &e);
}

static const tl_kernel rows[] = {
    {TL_OP_update_sgd, TL_F32, update_sgd_kernel, 0},
    {TL_OP_update_adam, TL_F32, update_adam_kernel, 0},
    {TL_OP_update_rmsprop, TL_F32, update_rmsprop_kernel, 0},
    {TL_OP_update_adagrad, TL_F32, update_adagrad_kernel, 0},
    {TL_OP_update_ema, TL_F32, update_ema_kernel, 0},
};
TLI_SIMD_KERNELS(update, rows);
