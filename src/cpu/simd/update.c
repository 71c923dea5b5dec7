/* Updates of float32 parameters over whole blocks: one sweep over memory each. */
#include <math.h>

#include "cpu/simd/kernels.h"
#include "cpu/simd/vec.h"

enum { PARAM, GRAD, HYPER, SLOTS };        /* inputs */
enum { RATE, STEP, SCALE, APPLY, HYPERS }; /* elements of the third */
enum { GRAIN = 16384 };                    /* elements a task */

/* m / (sqrt(v) * factor + epsilon) for v >= 0. */
#if defined(TLI_ISA_neon) || defined(TLI_ISA_neon_bf16)
// Roots and quotients take turns in one slow unit; estimates refined to 2 ulp do not.
TLI_INLINE vf over_root(vf m, vf v, vf factor, vf epsilon)
{
    vf r = vrsqrteq_f32(v);
    r = vmulq_f32(r, vrsqrtsq_f32(vmulq_f32(v, r), r));
    r = vmulq_f32(r, vrsqrtsq_f32(vmulq_f32(v, r), r));
    const vf root = vf_keep(vf_gt(v, vf_zero()), vmulq_f32(v, r));
    const vf d = vf_fma(root, factor, epsilon);
    vf q = vrecpeq_f32(d);
    q = vmulq_f32(q, vrecpsq_f32(d, q));
    q = vmulq_f32(q, vrecpsq_f32(d, q));
    // Nothing by nothing stays what it is: an estimate of 1 / 0 would not.
    return vf_select(vf_gt(d, vf_set1(0x1p-100f)), vmulq_f32(m, q), vf_div(m, d));
}
#else
TLI_INLINE vf over_root(vf m, vf v, vf factor, vf epsilon)
{
    return vf_div(m, vf_fma(vf_sqrt(v), factor, epsilon));
}
#endif

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

#define EACH(i, n)                                                                                 \
    for (int64_t i = begin, n; i < end && (n = end - i < VF ? end - i : VF, true); i += VF)

static void sgd_sweep(const block *b, int64_t begin, int64_t end, float decay)
{
    const tl_sgd_attr *a = b->attr;
    const vf rate = vf_set1((float)b->rate), momentum = vf_set1((float)a->momentum), d = vf_set1(decay);
    const bool keras = a->form == TL_FORM_KERAS;
    EACH(i, n)
    {
        vf w = get(b->w, i, n), g = vf_fma(w, d, load_grad(b, i, n));
        if (a->momentum == 0) {
            w = vf_fnma(rate, g, w);
        } else if (keras) {
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
}

static void adam_sweep(const block *b, int64_t begin, int64_t end, float decay)
{
    const tl_adam_attr *a = b->attr;
    const double c1 = 1 - pow(a->beta_1, b->step), c2 = 1 - pow(a->beta_2, b->step);
    const bool keras = a->form == TL_FORM_KERAS;
    const vf rate = vf_set1((float)(keras ? b->rate * sqrt(c2) / c1 : b->rate / c1));
    const vf factor = vf_set1((float)(keras ? 1 : 1 / sqrt(c2))), epsilon = vf_set1((float)a->epsilon);
    const vf beta_1 = vf_set1((float)a->beta_1), rest_1 = vf_set1((float)(1 - a->beta_1));
    const vf beta_2 = vf_set1((float)a->beta_2), rest_2 = vf_set1((float)(1 - a->beta_2));
    const vf shrink = vf_set1((float)(b->rate * decay));
    EACH(i, n)
    {
        const vf g = load_grad(b, i, n), w = get(b->w, i, n);
        const vf m = vf_fma(beta_1, get(b->slot[0], i, n), vf_mul(rest_1, g));
        vf v = vf_fma(beta_2, get(b->slot[1], i, n), vf_mul(vf_mul(rest_2, g), g));
        put(b->slot[0], i, m, n);
        put(b->slot[1], i, v, n);
        if (a->amsgrad) {
            v = vf_max(get(b->slot[2], i, n), v);
            put(b->slot[2], i, v, n);
        }
        put(b->w, i, vf_sub(vf_fnma(shrink, w, w), vf_mul(rate, over_root(m, v, factor, epsilon))), n);
    }
}

static void rmsprop_sweep(const block *b, int64_t begin, int64_t end, float decay)
{
    const tl_rmsprop_attr *a = b->attr;
    const vf rate = vf_set1((float)b->rate), momentum = vf_set1((float)a->momentum), one = vf_set1(1);
    const vf rho = vf_set1((float)a->rho), rest = vf_set1((float)(1 - a->rho));
    const vf epsilon = vf_set1((float)a->epsilon);
    float *buffer = b->slot[1 + a->centered];
    (void)decay;
    EACH(i, n)
    {
        const vf g = load_grad(b, i, n);
        vf s = vf_fma(rho, get(b->slot[0], i, n), vf_mul(vf_mul(rest, g), g)), w = get(b->w, i, n);
        put(b->slot[0], i, s, n);
        if (a->centered) {
            const vf mean = vf_fma(rho, get(b->slot[1], i, n), vf_mul(rest, g));
            put(b->slot[1], i, mean, n);
            s = vf_fnma(mean, mean, s);
        }
        if (a->momentum == 0) {
            w = vf_fnma(rate, vf_div(g, vf_add(vf_sqrt(s), epsilon)), w);
        } else {
            const bool keras = a->form == TL_FORM_KERAS;
            const vf under = keras ? vf_sqrt(vf_add(s, epsilon)) : vf_add(vf_sqrt(s), epsilon);
            const vf by = vf_div(keras ? vf_mul(rate, g) : g, under);
            const vf kept = vf_fma(momentum, get(buffer, i, n), by);
            put(buffer, i, kept, n);
            w = vf_fnma(keras ? one : rate, kept, w);
        }
        put(b->w, i, w, n);
    }
}

static void adagrad_sweep(const block *b, int64_t begin, int64_t end, float decay)
{
    const tl_adagrad_attr *a = b->attr;
    const vf rate = vf_set1((float)b->rate), epsilon = vf_set1((float)a->epsilon), one = vf_set1(1);
    (void)decay;
    EACH(i, n)
    {
        const vf g = load_grad(b, i, n), s = vf_fma(g, g, get(b->slot[0], i, n));
        put(b->slot[0], i, s, n);
        put(b->w, i, vf_fnma(rate, over_root(g, s, one, epsilon), get(b->w, i, n)), n);
    }
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
    EACH(i, n) put(e->s, i, vf_fma(m, get(e->s, i, n), vf_mul(rest, get(e->v, i, n))), n);
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
