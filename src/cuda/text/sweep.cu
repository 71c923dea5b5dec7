/* Sweeps over blocks of parameters: behind update.cu and the rules.
 *
 * Thread word: free-threaded. */

VECTORS(W)
VECTORS(G)
#ifdef COPIED
VECTORS(C)
#endif

/* The part of a block that has element `at`. */
FN i64 part_at(const tli_update_args *a, i64 at)
{
    i64 low = 0, high = a->parts - 1;
    while (low < high) {
        const i64 middle = (low + high + 1) / 2;
        if (a->offsets[middle] <= at) low = middle;
        else high = middle - 1;
    }
    return low;
}

#if defined(RULE)
#define VECTORS_EACH 2

KERNEL(256) update(const tli_update_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    // What is read is on its way while the numbers are made.
    PER_THREAD(256, W_vector, weights, [VECTORS_EACH]);
    PER_THREAD(256, G_vector, slopes, [VECTORS_EACH]);
    PER_THREAD(256, W_vector, slots, [VECTORS_EACH][SLOTS + 1]);
    const i64 begin = group * (256 * VEC * VECTORS_EACH);
    EACH_THREAD(256)
    {
        UNROLL for (int j = 0; j < VECTORS_EACH; j++) {
            const i64 i = begin + (j * 256 + t) * VEC;
            if (i >= a.count) continue;
            MY(weights)[j] = W_fetch(a.w, i);
            MY(slopes)[j] = G_fetch(a.grad, i);
            UNROLL for (int k = 0; k < SLOTS; k++) MY(slots)[j][k] = W_fetch(a.slot[k], i);
        }
    }
    const double rate = (double)a.hyper[RATE], step = (double)a.hyper[STEP];
    if (a.hyper[APPLY] == 0 || (IDLE_AT_0 && rate == 0)) return;
    SHARED(NUMBERS, own, [2]);
    EACH_THREAD(256)
    {
        if (t == 0 || t == 32) own[t / 32] = NUMBERS_OF(t ? (float)a.weight_decay : 0);
        (void)step;
    }
    BARRIER(256)
#if DECAYED
    const i64 first = part_at(&a, begin);
#endif
    EACH_THREAD(256)
    {
        UNROLL for (int j = 0; j < VECTORS_EACH; j++) {
            const i64 i = begin + (j * 256 + t) * VEC;
            if (i >= a.count) continue;
            float w[VEC], g[VEC], s[3][VEC];
            block b;
            b.w = w;
            b.grad = g;
            b.rate = rate;
            b.scale = a.hyper[SCALE];
            UNROLL for (int k = 0; k < 3; k++) b.slot[k] = s[k];
            UNROLL for (int e = 0; e < VEC; e++) {
                w[e] = W_LOAD(MY(weights)[j].at[e]);
                g[e] = G_LOAD(MY(slopes)[j].at[e]);
                UNROLL for (int k = 0; k < SLOTS; k++) s[k][e] = W_LOAD(MY(slots)[j][k].at[e]);
            }
#if DECAYED
            i64 part = first;
            UNROLL for (int e = 0; e < VEC; e++) {
                while (part + 1 < a.parts && a.offsets[part + 1] <= i + e) part++;
                const NUMBERS *k = &own[a.decayed[part] != 0];
                STEP_OF(&b, k, e);
            }
#else
            const NUMBERS *k = &own[1];
            UNROLL for (int e = 0; e < VEC; e++) STEP_OF(&b, k, e);
#endif
            W_write(a.w, i, w);
            UNROLL for (int k2 = 0; k2 < SLOTS; k2++) W_write(a.slot[k2], i, s[k2]);
#ifdef COPIED
            C_write(a.copy, i, w);
#endif
        }
    }
}
#endif

/* --- rates that follow norms ------------------------------------------------------------------ */

#if defined(FOLLOWS)
/* Sums of squares of the weights and of the direction of each piece of a part. */
FN float decay_of(const tli_update_args *a, i64 part)
{
    return a->decayed && !a->decayed[part] ? 0 : (float)a->weight_decay;
}

#define PIECE                                                                                      \
    GROUP_BEGIN(256, a.groups)                                                                     \
    if (a.hyper[APPLY] == 0) return;                                                               \
    const i64 begin = a.pieces[3 * group], end = a.pieces[3 * group + 1];                          \
    const i64 part = a.pieces[3 * group + 2];                                                      \
    const float decay = decay_of(&a, part), scale = a.hyper[SCALE];                                \
    const G_T *grad = (const G_T *)a.grad;                                                         \
    (void)decay, (void)scale, (void)grad;

#if FOLLOWS == 0 /* lamb */
#define LINE                                                                                       \
    SHARED(lamb_line, l, );                                                                        \
    ONE_THREAD(256) { l = lamb_line_of(&a, (double)a.hyper[STEP], decay); }                        \
    BARRIER(256)
#else
#define LINE
#endif

KERNEL(256) measure(const tli_update_args a GROUP_PARAM)
{
    PIECE
    LINE
    PER_THREAD(256, double, weights, );
    PER_THREAD(256, double, direction, );
    EACH_THREAD(256)
    {
        MY(weights) = MY(direction) = 0;
        for (i64 i = begin + t; i < end; i += 256) {
            const float w = a.w[i], g = G_LOAD(grad[i]) * scale;
#if FOLLOWS == 0
            const float m =
                vf_fma((float)a.beta_1, a.slot[0][i], (float)(1 - a.beta_1) * g);
            const float v =
                vf_fma((float)a.beta_2, a.slot[1][i], (float)(1 - a.beta_2) * g * g);
            a.slot[0][i] = m;
            a.slot[1][i] = v;
            const float u = lamb_direction(&l, w, m, v);
#elif FOLLOWS == 1 /* lars, classic momentum */
            const float u = vf_fma(decay, w, g);
#else
            const float d = vf_fma(decay, w, g), v = vf_fma((float)a.momentum, a.slot[0][i], d);
            a.slot[0][i] = v;
            const float u = a.nesterov ? vf_fma((float)a.momentum, v, d) : v;
#endif
            MY(weights) += (double)w * w;
            MY(direction) += (double)u * u;
        }
    }
    REDUCE(256, double, all_weights, add_d, weights)
    REDUCE(256, double, all_direction, add_d, direction)
    ONE_THREAD(256)
    {
        a.sums[2 * group] = all_weights;
        a.sums[2 * group + 1] = all_direction;
    }
}

/* The rate of each part; a group has a part, and looks for its pieces, which lie side by side. */
KERNEL(32) follow(const tli_update_args a GROUP_PARAM)
{
    GROUP_BEGIN(32, a.parts)
    const i64 first = a.pieces[3 * a.count + group], last = a.pieces[3 * a.count + group + 1];
    PER_THREAD(32, double, weights, );
    PER_THREAD(32, double, direction, );
    EACH_THREAD(32)
    {
        MY(weights) = MY(direction) = 0;
        for (i64 p = first + t; p < last; p += 32) {
            MY(weights) += a.sums[2 * p];
            MY(direction) += a.sums[2 * p + 1];
        }
    }
    REDUCE(32, double, w, add_d, weights)
    REDUCE(32, double, u, add_d, direction)
    ONE_THREAD(32)
    {
        const double norm = w * a.eeta * a.eeta;
        double rate = (double)a.hyper[RATE];
        if ((!a.adapted || a.adapted[group]) && norm > 0 && u > 0)
            rate *= __builtin_sqrt(norm) / __builtin_sqrt(u);
        a.rates[group] = rate;
    }
}

KERNEL(256) move(const tli_update_args a GROUP_PARAM)
{
    PIECE
    LINE
    const float rate = (float)a.rates[part], momentum = (float)a.momentum;
    (void)momentum;
    EACH_THREAD(256)
    {
        for (i64 i = begin + t; i < end; i += 256) {
            const float w = a.w[i];
#if FOLLOWS == 0
            const float to = vf_fnma(rate, lamb_direction(&l, w, a.slot[0][i], a.slot[1][i]), w);
#elif FOLLOWS == 1
            const float by = rate * vf_fma(decay, w, G_LOAD(grad[i]) * scale);
            const float v = vf_fma(momentum, a.slot[0][i], by);
            a.slot[0][i] = v;
            const float to = w - (a.nesterov ? vf_fma(momentum, v, by) : v);
#else
            float u = a.slot[0][i];
            if (a.nesterov) u = vf_fma(momentum, u, vf_fma(decay, w, G_LOAD(grad[i]) * scale));
            const float to = vf_fnma(rate, u, w);
#endif
            a.w[i] = to;
#ifdef COPIED
            ((C_T *)a.copy)[i] = C_STORE(to);
#endif
        }
    }
}
#endif

/* --- averages, norms -------------------------------------------------------------------------- */

#if defined(AVERAGE)
KERNEL(256) average(const tli_update_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    const float m = a.hyper ? a.hyper[0] : (float)a.momentum, rest = 1 - m;
    if (m == 1) return;
    EACH_THREAD(256)
    {
        const i64 i = (group * 256 + t) * VEC;
        if (i < a.count) {
            float s[VEC], v[VEC];
            W_read(s, a.w, i);
            G_read(v, a.grad, i);
            UNROLL for (int e = 0; e < VEC; e++) s[e] = vf_fma(m, s[e], rest * v[e]);
            W_write(a.w, i, s);
        }
    }
}
#endif

#if defined(AVERAGES)
/* Many small ones: a group has a row of the table. */
KERNEL(256) averages(const tli_averages_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    const tli_average *row = a.rows + group;
    const float m = row->hyper ? row->hyper[0] : (float)row->momentum, rest = 1 - m;
    float *w = row->w;
    const float *v = row->value;
    const i64 count = row->count;
    if (m == 1) return;
    EACH_THREAD(256)
    {
        for (i64 i = t; i < count; i += 256) w[i] = vf_fma(m, w[i], rest * v[i]);
    }
}
#endif

#if defined(SQUARES)
/* In double: the sum is finite when all numbers are. */
KERNEL(256) add_squares(const tli_squares_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    PER_THREAD(256, double, part, );
    EACH_THREAD(256)
    {
        MY(part) = 0;
        UNROLL for (int j = 0; j < 8; j++) {
            const i64 i = ((group * 8 + j) * 256 + t) * VEC;
            if (i >= a.count) continue;
            float v[VEC];
            G_read(v, a.x, i);
            float sum = 0;
            UNROLL for (int e = 0; e < VEC; e++) sum = vf_fma(v[e], v[e], sum);
            if (!(sum > 0x1p-80f && sum < INF_F)) { // it overflowed, or lost small numbers
                double exact = 0;
                UNROLL for (int e = 0; e < VEC; e++) exact += (double)v[e] * (double)v[e];
                MY(part) += exact;
            } else MY(part) += (double)sum;
        }
    }
    REDUCE(256, double, all, add_d, part)
    ONE_THREAD(256) { a.sums[group] = all; }
}

#ifdef THREADS
KERNEL(THREADS) finish_squares(const tli_squares_args a GROUP_PARAM)
{
    GROUP_BEGIN(THREADS, a.groups)
    PER_THREAD(THREADS, double, part, );
    EACH_THREAD(THREADS)
    {
        MY(part) = 0;
        for (i64 i = t; i < a.count; i += THREADS) MY(part) += a.sums[i];
    }
    REDUCE(THREADS, double, all, add_d, part)
    ONE_THREAD(THREADS)
    {
        *a.norm = (float)__builtin_sqrt(all);
        *a.finite = (u8)isfinite_d(all);
    }
}
#endif
#endif
