/* Updates of float32 parameters over whole blocks: one sweep over memory each. */
#include "cpu/simd/update.h"

#include <math.h>

#include <tilth/base/integer.h>

#include "cpu/scratch.h"

/* --- the rules (cpu/ref/update.c says them in full) ------------------------------------------- */

static void sgd_sweep(const block *shared, int64_t begin, int64_t end, float decay)
{
    const block copy = *shared, *b = &copy;
    SWEEP(sgd_step, b, b->attr, decay);
}

static void adam_sweep(const block *shared, int64_t begin, int64_t end, float decay)
{
    const block copy = *shared, *b = &copy;
    const adam a = adam_of(b->attr, b->rate, b->step, decay);
    SWEEP_BESIDE(adam_steps, b, &a);
}

static void rmsprop_sweep(const block *shared, int64_t begin, int64_t end, float decay)
{
    const block copy = *shared, *b = &copy;
    (void)decay;
    SWEEP(rmsprop_step, b, b->attr);
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
    block b = {.sweep = sgd_sweep,
               .decay = (float)a->weight_decay,
               .offsets = a->offsets,
               .decayed = a->decayed};
    return run_block(run, n, &b);
}

static tl_status update_adam_kernel(const tl_run *run, const tl_node *n)
{
    const tl_adam_attr *a = n->attr;
    block b = {.sweep = adam_sweep,
               .decay = (float)a->weight_decay,
               .offsets = a->offsets,
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

/* --- lamb, lars: rates that follow norms ------------------------------------------------------ */

#define EACH(i, n)                                                                                 \
    for (int64_t i = begin, n; i < end && (n = end - i < VF ? end - i : VF, true); i += VF)

/* Sums of squares in double, of which two run beside each other. */
typedef struct squares {
    vd low, high;
} squares;

TLI_INLINE squares add_squares(squares s, vf x)
{
    const vd low = vf_low_to_vd(x), high = vf_high_to_vd(x);
    return (squares){vd_fma(low, low, s.low), vd_fma(high, high, s.high)};
}

static double squares_sum(squares s)
{
    return vd_sum(vd_add(s.low, s.high));
}

/* A tensor of a block goes through two sweeps: one measures it, one moves it. `sums` gets the
 * squares of its weights and of its direction. */
typedef struct part part;
struct part {
    const block *b;
    void (*measure)(const part *p, int64_t begin, int64_t end, double sums[2]);
    void (*move)(const part *p, int64_t begin, int64_t end);
    int64_t begin;
    float decay;
    double rate;  /* its own */
    double *sums; /* of each piece */
};

static tl_status measure_piece(int64_t begin, int64_t end, void *payload)
{
    const part *whole = payload;
    double *sums = whole->sums + begin / GRAIN * 2;
    sums[0] = sums[1] = 0;
    for (int64_t at = whole->begin + begin, last = whole->begin + end, stop; at < last; at = stop) {
        double own_sums[2];
        stop = last;
        part p = *whole;
        const block own = block_from(whole->b, at, &stop);
        p.b = &own;
        p.measure(&p, at, stop, own_sums);
        for (int i = 0; i < 2; i++) sums[i] += own_sums[i];
    }
    return TL_OK;
}

static tl_status move_piece(int64_t begin, int64_t end, void *payload)
{
    const part *whole = payload;
    for (int64_t at = whole->begin + begin, last = whole->begin + end, stop; at < last; at = stop) {
        stop = last;
        part p = *whole;
        const block own = block_from(whole->b, at, &stop);
        p.b = &own;
        p.move(&p, at, stop);
    }
    return TL_OK;
}

/* `trust` multiplies the norm of the weights. */
static tl_status run_part(const tl_run *run, part *p, int64_t count, bool adapted, double trust)
{
    const int64_t pieces = (count + GRAIN - 1) / GRAIN;
    double weights = 0, direction = 0;
    // Each piece has its own.
    TL_ASSERT(count >= 0 && tli_scratch_holds(p->sums, (size_t)(2 * pieces) * sizeof *p->sums));
    TL_TRY(tl_parallel_for(run->threads, count, GRAIN, measure_piece, p));
    for (int64_t i = 0; i < pieces; i++) {
        weights += p->sums[2 * i];
        direction += p->sums[2 * i + 1];
    }
    weights *= trust * trust;
    p->rate = p->b->rate;
    if (adapted && weights > 0 && direction > 0) p->rate *= sqrt(weights) / sqrt(direction);
    return tl_parallel_for(run->threads, count, GRAIN, move_piece, p);
}

static tl_status run_parts(const tl_run *run, const tl_node *n, part *p, block *b, tl_ints adapted,
                           double trust)
{
    if (is_skipped(n)) return TL_OK;
    if (n->in[GRAD]->dtype == TL_F64) return tli_run_reference(run, n);
    const int64_t count = tl_tensor_count(n->in[PARAM]),
                  parts = b->offsets.count ? b->offsets.count : 1;
    void *room;
    TL_TRY(
        tli_scratch(&room, TLI_SCRATCH_KERNEL, (size_t)(2 * (count / GRAIN + 1)) * sizeof(double)));
    fill_block(n, b);
    p->b = b;
    p->sums = room;
    for (int64_t k = 0; k < parts; k++) {
        const int64_t end = k + 1 < parts ? b->offsets.items[k + 1] : count;
        p->begin = b->offsets.count ? b->offsets.items[k] : 0;
        TL_ASSERT(p->begin <= end && end <= count && (!adapted.count || k < adapted.count));
        p->decay = b->decayed.count && !b->decayed.items[k] ? 0 : b->decay;
        TL_TRY(run_part(run, p, end - p->begin, !adapted.count || adapted.items[k], trust));
    }
    return TL_OK;
}

static void lamb_measure(const part *p, int64_t begin, int64_t end, double sums[2])
{
    const block copy = *p->b, *b = &copy;
    const tl_lamb_attr *a = b->attr;
    const lamb_line l = lamb_line_of(p->b->attr, p->b->step, p->decay);
    const vf beta_1 = vf_set1((float)a->beta_1), rest_1 = vf_set1((float)(1 - a->beta_1));
    const vf beta_2 = vf_set1((float)a->beta_2), rest_2 = vf_set1((float)(1 - a->beta_2));
    squares ww = {vd_zero(), vd_zero()}, uu = ww;
    EACH(i, n)
    {
        const vf g = load_grad(b, i, n), w = get(b->w, i, n);
        const vf m = vf_fma(beta_1, get(b->slot[0], i, n), vf_mul(rest_1, g));
        const vf v = vf_fma(beta_2, get(b->slot[1], i, n), vf_mul(vf_mul(rest_2, g), g));
        put(b->slot[0], i, m, n);
        put(b->slot[1], i, v, n);
        ww = add_squares(ww, w);
        // Beyond the end there is 0 by epsilon, and epsilon may be 0.
        uu = add_squares(uu, vf_keep(vm_first(n), lamb_direction(&l, w, m, v)));
    }
    sums[0] = squares_sum(ww);
    sums[1] = squares_sum(uu);
}

static void lamb_move(const part *p, int64_t begin, int64_t end)
{
    const block copy = *p->b, *b = &copy;
    const lamb_line l = lamb_line_of(p->b->attr, p->b->step, p->decay);
    const vf rate = vf_set1((float)p->rate);
    EACH(i, n)
    {
        const vf w = get(b->w, i, n);
        const vf u = lamb_direction(&l, w, get(b->slot[0], i, n), get(b->slot[1], i, n));
        put_weight(b, i, vf_fnma(rate, u, w), n);
    }
}

static tl_status update_lamb_kernel(const tl_run *run, const tl_node *n)
{
    const tl_lamb_attr *a = n->attr;
    block b = {.decay = (float)a->weight_decay, .offsets = a->offsets, .decayed = a->decayed};
    part p = {.measure = lamb_measure, .move = lamb_move};
    return run_parts(run, n, &p, &b, a->adapted, 1);
}

static void lars_classic_measure(const part *p, int64_t begin, int64_t end, double sums[2])
{
    const block copy = *p->b, *b = &copy;
    const vf decay = vf_set1(p->decay);
    squares ww = {vd_zero(), vd_zero()}, gg = ww;
    EACH(i, n)
    {
        const vf w = get(b->w, i, n);
        ww = add_squares(ww, w);
        gg = add_squares(gg, vf_fma(decay, w, load_grad(b, i, n)));
    }
    sums[0] = squares_sum(ww);
    sums[1] = squares_sum(gg);
}

static void lars_classic_move(const part *p, int64_t begin, int64_t end)
{
    const block copy = *p->b, *b = &copy;
    const tl_lars_attr *a = b->attr;
    const vf decay = vf_set1(p->decay), momentum = vf_set1((float)a->momentum);
    const vf rate = vf_set1((float)p->rate);
    EACH(i, n)
    {
        const vf w = get(b->w, i, n), by = vf_mul(rate, vf_fma(decay, w, load_grad(b, i, n)));
        const vf v = vf_fma(momentum, get(b->slot[0], i, n), by);
        put(b->slot[0], i, v, n);
        put_weight(b, i, vf_sub(w, a->nesterov ? vf_fma(momentum, v, by) : v), n);
    }
}

static void lars_popular_measure(const part *p, int64_t begin, int64_t end, double sums[2])
{
    const block copy = *p->b, *b = &copy;
    const tl_lars_attr *a = b->attr;
    const vf decay = vf_set1(p->decay), momentum = vf_set1((float)a->momentum);
    squares ww = {vd_zero(), vd_zero()}, uu = ww;
    EACH(i, n)
    {
        const vf w = get(b->w, i, n), g = vf_fma(decay, w, load_grad(b, i, n));
        const vf v = vf_fma(momentum, get(b->slot[0], i, n), g);
        put(b->slot[0], i, v, n);
        ww = add_squares(ww, w);
        uu = add_squares(uu, a->nesterov ? vf_fma(momentum, v, g) : v);
    }
    sums[0] = squares_sum(ww);
    sums[1] = squares_sum(uu);
}

static void lars_popular_move(const part *p, int64_t begin, int64_t end)
{
    const block copy = *p->b, *b = &copy;
    const tl_lars_attr *a = b->attr;
    const vf decay = vf_set1(p->decay), momentum = vf_set1((float)a->momentum);
    const vf rate = vf_set1((float)p->rate);
    EACH(i, n)
    {
        const vf w = get(b->w, i, n);
        vf u = get(b->slot[0], i, n);
        if (a->nesterov) u = vf_fma(momentum, u, vf_fma(decay, w, load_grad(b, i, n)));
        put_weight(b, i, vf_fnma(rate, u, w), n);
    }
}

static tl_status update_lars_kernel(const tl_run *run, const tl_node *n)
{
    const tl_lars_attr *a = n->attr;
    block b = {.decay = (float)a->weight_decay, .offsets = a->offsets, .decayed = a->decayed};
    part p = a->classic_momentum
                 ? (part){.measure = lars_classic_measure, .move = lars_classic_move}
                 : (part){.measure = lars_popular_measure, .move = lars_popular_move};
    return run_parts(run, n, &p, &b, a->adapted, a->eeta);
}

/* --- averages and norms ----------------------------------------------------------------------- */

typedef struct average {
    float *s;
    const float *v;
    float momentum;
    float scale; /* of what is added */
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
    average e = {.s = tli_data(n->in[0]),
                 .v = tli_data(n->in[1]),
                 .momentum =
                     n->inputs > 2 ? *(const float *)tli_data(n->in[2]) : (float)a->momentum};
    if (e.momentum == 1) return TL_OK;
    TL_ASSERT(tl_tensor_count(n->in[0]) == tl_tensor_count(n->in[1]));
    if (n->in[1]->dtype != TL_F32) return tli_run_reference(run, n);
    return tl_parallel_for(run->threads, tl_tensor_count(n->in[0]), GRAIN, ema_piece, &e);
}

static tl_status add_piece(int64_t begin, int64_t end, void *payload)
{
    const average *e = payload;
#define ADD_STEP(e, i, n) put(e->s, i, vf_add(get(e->s, i, n), get(e->v, i, n)), n)
    SWEEP(ADD_STEP, e);
#undef ADD_STEP
    return TL_OK;
}

/* What is added is rounded before, as the op that multiplies does it. */
static tl_status add_scaled_piece(int64_t begin, int64_t end, void *payload)
{
    const average *e = payload;
    const vf scale = vf_set1(e->scale), zero = vf_set1(0);
#define ADD_SCALED_STEP(e, i, n)                                                                   \
    put(e->s, i, vf_add(get(e->s, i, n), vf_fma(get(e->v, i, n), scale, zero)), n)
    SWEEP(ADD_SCALED_STEP, e);
#undef ADD_SCALED_STEP
    return TL_OK;
}

static tl_status begin_scaled_piece(int64_t begin, int64_t end, void *payload)
{
    const average *e = payload;
    const vf scale = vf_set1(e->scale), zero = vf_set1(0);
#define BEGIN_SCALED_STEP(e, i, n)                                                                 \
    put(e->s, i, vf_add(zero, vf_fma(get(e->v, i, n), scale, zero)), n)
    SWEEP(BEGIN_SCALED_STEP, e);
#undef BEGIN_SCALED_STEP
    return TL_OK;
}

/* Not a copy: -0 becomes 0, as where zeros lie. */
static tl_status begin_piece(int64_t begin, int64_t end, void *payload)
{
    const average *e = payload;
    const vf zero = vf_set1(0);
#define BEGIN_STEP(e, i, n) put(e->s, i, vf_add(zero, get(e->v, i, n)), n)
    SWEEP(BEGIN_STEP, e);
#undef BEGIN_STEP
    return TL_OK;
}

static tl_status assign_kernel(const tl_run *run, const tl_node *n)
{
    const tl_assign_attr *a = n->attr;
    average e = {.s = tli_data(n->in[0]), .v = tli_data(n->in[1]), .scale = (float)a->scale};
    TL_ASSERT(tl_shape_equal(&n->in[0]->shape, &n->in[1]->shape)
              && n->in[0]->dtype == n->in[1]->dtype);
    if (!a->add) return tli_run_reference(run, n);
    const bool fresh = n->inputs > 2 && *(const bool *)tli_data(n->in[2]);
    tl_status (*const piece)(int64_t, int64_t, void *) =
        a->scale ? (fresh ? begin_scaled_piece : add_scaled_piece)
                 : (fresh ? begin_piece : add_piece);
    return tl_parallel_for(run->threads, tl_tensor_count(n->in[0]), GRAIN, piece, &e);
}

/* Sums of metrics and weights. */
static tl_status assign_doubles_kernel(const tl_run *run, const tl_node *n)
{
    const tl_assign_attr *a = n->attr;
    const int64_t count = tl_tensor_count(n->in[0]);
    const bool fresh = n->inputs > 2 && *(const bool *)tli_data(n->in[2]);
    double *to = tli_data(n->in[0]);
    const double *more = tli_data(n->in[1]);
    if (!a->add || a->scale) return tli_run_reference(run, n);
    if (fresh)
        for (int64_t i = 0; i < count; i++) to[i] = 0.0 + more[i];
    else
        for (int64_t i = 0; i < count; i++) to[i] += more[i];
    return TL_OK;
}

typedef struct norm {
    tl_dtype type;
    const void *x;
    double *sums; /* of each piece */
    tl_ints runs; /* or empty */
    int64_t count;
} norm;

/* Float32 is enough for a short stretch, unless it overflowed or lost small numbers. */
TLI_INLINE double sum_squares_of_stretch(tl_dtype t, const void *x, int64_t begin, int64_t end)
{
    vf s[8];
    int64_t i = begin;
    for (int k = 0; k < 8; k++) s[k] = vf_zero();
    for (; i + 8 * VF <= end; i += 8 * VF)
        for (int k = 0; k < 8; k++) {
            const vf v = any_load(t, x, i + k * VF, VF);
            s[k] = vf_fma(v, v, s[k]);
        }
    for (; i < end; i += VF) {
        const vf v = any_load(t, x, i, end - i);
        s[0] = vf_fma(v, v, s[0]);
    }
    for (int k = 4; k > 0; k /= 2)
        for (int j = 0; j < k; j++) s[j] = vf_add(s[j], s[j + k]);
    const float sum = vf_sum(s[0]);
    if (sum > 0x1p-80f && sum < INFINITY) return sum;
    squares exact = {vd_zero(), vd_zero()};
    for (i = begin; i < end; i += VF) exact = add_squares(exact, any_load(t, x, i, end - i));
    return squares_sum(exact);
}

enum { STRETCH = 1024 }; /* elements of such a stretch, as in reduce.c */

TLI_INLINE double sum_squares(tl_dtype t, const void *x, int64_t begin, int64_t end)
{
    double sum = 0;
    for (int64_t i = begin; i < end; i += STRETCH)
        sum += sum_squares_of_stretch(t, x, i, end - i < STRETCH ? end : i + STRETCH);
    return sum;
}

/* Elements that do not lie in one run of the gradient, as float32. */
static void gather_runs(const norm *p, float *to, int64_t begin, int64_t end)
{
    while (begin < end) {
        const tli_gradient_run r = tli_gradient_run_at(p->runs, p->x, p->count, begin);
        const int64_t stop = r.end < end ? r.end : end;
        const void *from = r.data + (begin - r.begin) * (int64_t)tl_dtype_size(r.type);
        any_widen(to, r.type, from, stop - begin);
        to += stop - begin;
        begin = stop;
    }
}

/* The sums of a block whose types differ are those of the same numbers in float32: in the same
 * stretches, added in the same order. */
static double sum_mixed_squares(const norm *p, int64_t begin, int64_t end)
{
    double sum = 0;
    for (int64_t i = begin, next; i < end; i = next) {
        const tli_gradient_run r = tli_gradient_run_at(p->runs, p->x, p->count, i);
        next = tl_min_i64(i + STRETCH, end);
        if (next <= r.end) {
            TLI_FLOAT_SWITCH(r.type, sum += sum_squares_of_stretch(T, run_data(&r), i, next));
        } else {
            float room[STRETCH];
            gather_runs(p, room, i, next);
            sum += sum_squares_of_stretch(TL_F32, room, 0, next - i);
        }
    }
    return sum;
}

static tl_status norm_piece(int64_t begin, int64_t end, void *payload)
{
    const norm *p = payload;
    TL_ASSERT(begin % GRAIN == 0 && end - begin <= GRAIN); // a sum of its own
    if (p->runs.count) {
        p->sums[begin / GRAIN] = sum_mixed_squares(p, begin, end);
        return TL_OK;
    }
    TLI_FLOAT_SWITCH(p->type, p->sums[begin / GRAIN] = sum_squares(T, p->x, begin, end));
    return TL_OK;
}

/* The squares of floats do not overflow a double: the sum is finite when all of them are. */
static tl_status finite_and_norm_kernel(const tl_run *run, const tl_node *n)
{
    const tl_finite_attr *a = n->attr;
    double sum = 0;
    for (int k = 0; k < n->inputs; k++)
        if (n->in[k]->dtype == TL_F64) return tli_run_reference(run, n);
    for (int k = 0; k < n->inputs; k++) {
        const int64_t count = a->runs.count ? a->count : tl_tensor_count(n->in[k]),
                      pieces = (count + GRAIN - 1) / GRAIN;
        void *room;
        TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL, (size_t)(pieces + 1) * sizeof(double)));
        norm p = {n->in[k]->dtype, tli_data(n->in[k]), room, a->runs, count};
        TL_TRY(tl_parallel_for(run->threads, count, GRAIN, norm_piece, &p));
        for (int64_t i = 0; i < pieces; i++) sum += p.sums[i];
    }
    *(float *)tli_data(n->out[0]) = (float)sqrt(sum);
    *(uint8_t *)tli_data(n->out[1]) = isfinite(sum) != 0;
    return TL_OK;
}

/* The pieces of finite_and_norm_kernel. */
static tl_status square_sums_kernel(const tl_run *run, const tl_node *n)
{
    _Static_assert((int)GRAIN == (int)TL_SQUARES, "a task makes one sum");
    if (n->in[0]->dtype == TL_F64) return tli_run_reference(run, n);
    norm p = {.type = n->in[0]->dtype, .x = tli_data(n->in[0]), .sums = tli_data(n->out[0])};
    return tl_parallel_for(run->threads, tl_tensor_count(n->in[0]), GRAIN, norm_piece, &p);
}

static const tl_kernel rows[] = {
    {TL_OP_update_sgd, TL_F32, update_sgd_kernel, TL_KERNEL_JOINED},
    {TL_OP_update_adam, TL_F32, update_adam_kernel, TL_KERNEL_JOINED},
    {TL_OP_update_rmsprop, TL_F32, update_rmsprop_kernel, TL_KERNEL_JOINED},
    {TL_OP_update_adagrad, TL_F32, update_adagrad_kernel, TL_KERNEL_JOINED},
    {TL_OP_update_lamb, TL_F32, update_lamb_kernel, TL_KERNEL_JOINED},
    {TL_OP_update_lars, TL_F32, update_lars_kernel, TL_KERNEL_JOINED},
    {TL_OP_update_ema, TL_F32, update_ema_kernel, 0},
    {TL_OP_assign, TL_F32, assign_kernel, TL_KERNEL_JOINED},
    {TL_OP_assign, TL_F64, assign_doubles_kernel, 0},
    {TL_OP_finite_and_norm, TL_F32, finite_and_norm_kernel, TL_KERNEL_JOINED},
    {TL_OP_finite_and_norm, TL_BF16, finite_and_norm_kernel, 0},
    {TL_OP_finite_and_norm, TL_F16, finite_and_norm_kernel, 0},
    {TL_OP_finite_and_norm, TL_U8, finite_and_norm_kernel, 0},
    {TL_OP_square_sums, TL_F32, square_sums_kernel, 0},
    {TL_OP_square_sums, TL_BF16, square_sums_kernel, 0},
    {TL_OP_square_sums, TL_F16, square_sums_kernel, 0},
};
TLI_SIMD_KERNELS(update, rows);
