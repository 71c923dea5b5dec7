/* Normalisation of a batch in one kernel, behind channels.cu: where a map fits the registers of
 * groups that all run at once. A group reads its rows of a strip of 32 channels, tells its sums to
 * those that have other rows of the strip, and goes on with what it has read as soon as it knows
 * theirs. So a map is read once, and nobody waits for a kernel.
 *
 * Thread word: free-threaded. */

/* What two gradients together are behind a relu whose result is the mask. */
#if defined(BEHIND) || (defined(MEETING) && MEETING == 1)
VECTORS(G)
FN void sum_behind(const tli_channels_args *a, i64 at, float *to)
{
    float other[VEC], mask[VEC];
    G_read(to, a->g, at);
    G_read(other, a->added, at);
    X_read(mask, a->mask, at);
    UNROLL for (int e = 0; e < VEC; e++) to[e] = relu_grad_f(to[e] + other[e], mask[e]);
}
#endif

#if defined(BEHIND)
KERNEL(256) put_behind(const tli_channels_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    EACH_THREAD(256)
    {
        UNROLL for (int k = 0; k < DEEP; k++) {
            const i64 at = ((group * DEEP + k) * 256 + t) * VEC;
            float to[VEC];
            if (at < a.rows * a.width) {
                sum_behind(&a, at, to);
                G_write(a.behind, at, to);
            }
        }
    }
}
#endif

#if defined(MEETING)
#define WIDE (COLS * VEC) /* 32 */
#define WARPS (THREADS / 32)

/* The rows of a thread: k is a number, `at` its place. */
#define EACH_KEPT                                                                                  \
    UNROLL for (int k = 0; k < ROWS; k++)                                                          \
        for (i64 r = first + t / COLS + k * LANES, at = r * a.width + c; r < last; r = last)

/* Numbers of the strip's channels; of a thread those of its vector. */
#define OF_MINE(what) numbers_at(what, t % COLS * VEC)

/* Sums of a warp's lanes that have the same channels go to a row of `all`, number by number. Each
 * exchange leaves a thread half as many numbers: those of one half of the lanes for it, those of
 * the other half for the thread opposite. */
#ifdef __CUDACC__
#define JOIN_WARPS(all, mine)                                                                      \
    {                                                                                              \
        const int lane = (int)threadIdx.x % 32;                                                    \
        int left = 2 * VEC, begin_ = 0;                                                            \
        UNROLL for (int o = 16; o >= COLS; o >>= 1) {                                              \
            const int upper = lane & o;                                                            \
            left /= 2;                                                                             \
            UNROLL for (int k = 0; k < VEC; k++)                                                   \
                if (k < left) {                                                                    \
                    const float kept = upper ? mine[k + left] : mine[k];                           \
                    const float given = upper ? mine[k] : mine[k + left];                          \
                    mine[k] = kept + __shfl_xor_sync(~0u, given, o);                               \
                }                                                                                  \
            if (upper) begin_ += left;                                                             \
        }                                                                                          \
        UNROLL for (int k = 0; k < 2 * VEC; k++)                                                   \
            if (k < left) all[threadIdx.x / 32][(begin_ + k) * COLS + lane % COLS] = mine[k];      \
    }
#else
#define JOIN_WARPS(all, mine)                                                                      \
    for (int w = 0; w < WARPS; w++)                                                                \
        for (int k = 0; k < 2 * VEC; k++) {                                                        \
            float lanes[32], joined[32];                                                           \
            for (int l = 0; l < 32; l++) lanes[l] = mine[w * 32 + l][k];                           \
            for (int o = 16; o >= COLS; o >>= 1) {                                                 \
                for (int l = 0; l < 32; l++) joined[l] = lanes[l] + lanes[l ^ o];                  \
                for (int l = 0; l < 32; l++) lanes[l] = joined[l];                                 \
            }                                                                                      \
            for (int l = 0; l < COLS; l++) all[w][k * COLS + l] = lanes[l];                        \
        }
#endif

/* Of all warps: number `which` of a channel of the strip. */
FN float warps_of(const float (*all)[2 * WIDE], int which, int channel)
{
    const int at = (which * VEC + channel % VEC) * COLS + channel / VEC;
    float sum = all[0][at];
    UNROLL for (int w = 1; w < WARPS; w++) sum += all[w][at];
    return sum;
}

/* What a group has told of a channel. It is there when both marks are those of this kernel, which
 * a strip counts: two numbers and their marks arrive together, whatever comes before or after. */
FN tli_told *places_of(const tli_channels_args *a, i64 strip)
{
    return a->told + strip * TLI_TOLD_PIECES * WIDE;
}

FN void tell(tli_told *to, float one, float other, u32 mark)
{
#ifdef __CUDACC__
    asm volatile("st.volatile.global.v4.b32 [%0], {%1, %3, %2, %3};" ::"l"(
                     __cvta_generic_to_global(to)),
                 "r"(__float_as_uint(one)), "r"(__float_as_uint(other)), "r"(mark)
                 : "memory");
#else
    *to = (tli_told){one, mark, other, mark};
#endif
}

FN tli_told heard(const tli_told *from)
{
#ifdef __CUDACC__
    u32 one, mark, other, again;
    asm volatile("ld.volatile.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(one), "=r"(mark), "=r"(other), "=r"(again)
                 : "l"(__cvta_generic_to_global(from))
                 : "memory");
    const tli_told it = {__uint_as_float(one), mark, __uint_as_float(other), again};
    return it;
#else
    return *from;
#endif
}

/* Thread t has channel t % 32 and each WARPS-th piece: `it` for each of them. HEARD of them at
 * most; all are asked for before the first is waited for. */
#define IS_TOLD(it) ((it).mark == mark && (it).again == mark)
#define EACH_TOLD(use)                                                                             \
    {                                                                                              \
        const tli_told *from = places_of(&a, strip) + t % 32;                                      \
        const u32 mark = marked[0];                                                                \
        tli_told all_[HEARD];                                                                      \
        FIRST_TOLD                                                                                 \
        UNROLL for (int k = 0; k < HEARD; k++)                                                     \
            if (t / 32 + k * WARPS < a.pieces) all_[k] = heard(from + (t / 32 + k * WARPS) * WIDE);\
        FIRST_HEARD                                                                                \
        UNROLL for (int k = 0; k < HEARD; k++) {                                                   \
            const i64 p = t / 32 + k * WARPS;                                                      \
            if (p < a.pieces) {                                                                    \
                while (!IS_TOLD(all_[k])) all_[k] = heard(from + p * WIDE);                        \
                const tli_told it = all_[k];                                                       \
                use                                                                                \
            }                                                                                      \
        }                                                                                          \
    }

/* The next kernel's marks are others. On the host groups run one after the other. */
#ifdef __CUDACC__
#define END_OF_MEETING                                                                             \
    ONE_THREAD(THREADS) if (piece == 0) a.marks[strip] = marked[0];
#else
#define END_OF_MEETING
#endif

FN double joined_of(const double *all)
{
    double sum = all[0];
    UNROLL for (int w = 1; w < WARPS; w++) sum += all[w * 32];
    return sum;
}

#if MEETING == 0
#define FIRST_TOLD tli_told top_ = heard(from);
#define FIRST_HEARD                                                                                \
    while (!IS_TOLD(top_)) top_ = heard(from);                                                     \
    MY(guess) = (double)top_.one * (a.pieces > 1 ? a.by_each : a.by_end);
VECTORS(Y)
KERNEL(THREADS) normalize_at_once(const tli_channels_args a GROUP_PARAM)
{
    GROUP_BEGIN(THREADS, a.groups)
    STRIP
    const i64 strip = group % strips;
    PER_THREAD(THREADS, X_vector, v, [ROWS]);
    PER_THREAD(THREADS, X_vector, more, [ROWS]);
    PER_THREAD(THREADS, float, both, [2 * VEC]);
    PER_THREAD(THREADS, double, guess, ); /* distances are taken from the mean of the first piece */
    SHARED(float, all, [WARPS][2 * WIDE]);
    SHARED(double, sums, [2][THREADS]);
    SHARED(float, top, [WIDE]);
    SHARED(float, mean, [WIDE]);
    SHARED(float, by, [WIDE]);
    SHARED(float, plus, [WIDE]);
    SHARED(u32, marked, [1]);
    EACH_THREAD(THREADS)
    {
        const i64 c = begin + t % COLS * VEC;
        UNROLL for (int e = 0; e < 2 * VEC; e++) MY(both)[e] = 0;
        if (t == THREADS - 1) marked[0] = a.marks[strip] + 1;
        if (c < a.width) {
            float from[VEC];
            const X_vector row = X_fetch(a.x, first * a.width + c);
            EACH_KEPT MY(v)[k] = X_fetch(a.x, at);
            if (ADDED) EACH_KEPT MY(more)[k] = X_fetch(a.added, at);
            X_open(from, row);
            if (t < COLS) UNROLL for (int e = 0; e < VEC; e++) top[t * VEC + e] = from[e];
            EACH_KEPT
            {
                float x[VEC];
                X_open(x, MY(v)[k]);
                UNROLL for (int e = 0; e < VEC; e++) {
                    const float d = x[e] - from[e];
                    MY(both)[e] += d;
                    MY(both)[VEC + e] = vf_fma(d, d, MY(both)[VEC + e]);
                }
            }
        }
    }
    JOIN_WARPS(all, both)
    BARRIER(THREADS)
    EACH_THREAD(THREADS)
    {
        const i64 c = begin + t;
        if (t < WIDE && c < a.width) {
            const float count = (float)(last - first);
            const float sum = warps_of(all, 0, t), squares = warps_of(all, 1, t);
            const float rest = vf_fnma(sum, sum / count, squares);
            tell(places_of(&a, strip) + piece * WIDE + t, vf_fma(count, top[t], sum),
                 maximum_f(rest, 0), marked[0]);
        }
    }
    MEET
    EACH_THREAD(THREADS)
    {
        const i64 c = begin + t % 32;
        double one = 0, other = 0;
        MY(guess) = 0;
        if (c < a.width) {
            const double usual = (double)a.each, end = (double)(a.rows - (a.pieces - 1) * a.each);
            EACH_TOLD({
                const int full = p + 1 < a.pieces;
                const double apart = (double)it.one - (full ? usual : end) * MY(guess);
                one += (double)it.one;
                other += (double)it.other + apart * apart * (full ? a.by_each : a.by_end);
            })
        }
        sums[0][t] = one;
        sums[1][t] = other;
    }
    BARRIER(THREADS)
    EACH_THREAD(THREADS)
    {
        const i64 c = begin + t;
        if (t < WIDE && c < a.width) {
            const double middle = joined_of(sums[0] + t) * a.share, apart = middle - MY(guess);
            const double squares = joined_of(sums[1] + t) * a.share - apart * apart;
            const double variance = squares < 0 ? 0 : squares;
            const float rstd = (float)(1 / __builtin_sqrt(variance + a.epsilon));
            mean[t] = (float)middle;
            by[t] = (float)((double)rstd * gamma_of(&a, c));
            plus[t] = (float)beta_of(&a, c);
            if (piece == 0) {
                ((M_T *)a.out_mean)[c] = M_OF_D(middle);
                ((M_T *)a.out_variance)[c] = M_OF_D(variance);
                ((M_T *)a.out_rstd)[c] = M_STORE(rstd);
            }
        }
    }
    BARRIER(THREADS)
    EACH_THREAD(THREADS)
    {
        const i64 c = begin + t % COLS * VEC;
        if (c < a.width) {
            const numbers m = OF_MINE(mean), b = OF_MINE(by), p = OF_MINE(plus);
            EACH_KEPT
            {
                float y[VEC], add[VEC];
                X_open(y, MY(v)[k]);
                if (ADDED) X_open(add, MY(more)[k]);
                UNROLL for (int e = 0; e < VEC; e++) {
                    float z = vf_fma(y[e] - m.at[e], b.at[e], p.at[e]);
                    if (ADDED) z += add[e];
                    y[e] = ACT == 0 ? z : ACT == 1 ? relu_f(z) : relu6_f(z);
                }
                Y_write(a.y, at, y);
            }
        }
    }
    END_OF_MEETING
}
#else
#define FIRST_TOLD
#define FIRST_HEARD
VECTORS(Y)
KERNEL(THREADS) slope_at_once(const tli_channels_args a GROUP_PARAM)
{
    GROUP_BEGIN(THREADS, a.groups)
    STRIP
    const i64 strip = group % strips;
    PER_THREAD(THREADS, X_vector, v, [ROWS]);
    PER_THREAD(THREADS, G_vector, g, [ROWS]);
    PER_THREAD(THREADS, float, both, [2 * VEC]);
    SHARED(float, all, [WARPS][2 * WIDE]);
    SHARED(double, sums, [2][THREADS]);
    SHARED(float, mean, [WIDE]);
    SHARED(float, by, [WIDE]);
    SHARED(float, shift, [WIDE]);
    SHARED(float, along, [WIDE]);
    SHARED(float, plus, [WIDE]);
    SHARED(u32, marked, [1]);
    EACH_THREAD(THREADS)
    {
        const i64 c = begin + t % COLS * VEC;
        if (t == THREADS - 1) marked[0] = a.marks[strip] + 1;
        if (c < a.width) {
            EACH_KEPT MY(v)[k] = X_fetch(a.x, at);
#if ADDED
            EACH_KEPT
            {
                float to[VEC];
                sum_behind(&a, at, to);
                MY(g)[k] = G_close(to).v;
                G_write(a.behind, at, to);
            }
#else
            EACH_KEPT MY(g)[k] = G_fetch(a.g, at);
#endif
        }
        if (t < WIDE && begin + t < a.width) {
            const double rstd = (double)M_LOAD(((const M_T *)a.in_rstd)[begin + t]);
            mean[t] = M_LOAD(((const M_T *)a.in_mean)[begin + t]);
            by[t] = (float)(rstd * gamma_of(&a, begin + t));
            shift[t] = ACT ? (float)beta_of(&a, begin + t) : 0;
        }
    }
    BARRIER(THREADS)
    EACH_THREAD(THREADS)
    {
        const i64 c = begin + t % COLS * VEC;
        UNROLL for (int e = 0; e < 2 * VEC; e++) MY(both)[e] = 0;
        if (c < a.width) {
            const numbers m = OF_MINE(mean), b = OF_MINE(by), s = OF_MINE(shift);
            EACH_KEPT
            {
                float x[VEC], to[VEC];
                X_open(x, MY(v)[k]);
                G_open(to, MY(g)[k]);
                UNROLL for (int e = 0; e < VEC; e++) {
                    const float d = x[e] - m.at[e];
                    const float back = behind(&a, to[e], d, b.at[e], s.at[e]);
                    MY(both)[e] += back;
                    MY(both)[VEC + e] = vf_fma(back, d, MY(both)[VEC + e]);
                }
            }
        }
    }
    JOIN_WARPS(all, both)
    BARRIER(THREADS)
    EACH_THREAD(THREADS)
    {
        if (t < WIDE && begin + t < a.width)
            tell(places_of(&a, strip) + piece * WIDE + t, warps_of(all, 0, t), warps_of(all, 1, t),
                 marked[0]);
    }
    MEET
    EACH_THREAD(THREADS)
    {
        double one = 0, other = 0;
        if (begin + t % 32 < a.width) EACH_TOLD({
                one += (double)it.one;
                other += (double)it.other;
            })
        sums[0][t] = one;
        sums[1][t] = other;
    }
    BARRIER(THREADS)
    EACH_THREAD(THREADS)
    {
        const i64 c = begin + t;
        if (t < WIDE && c < a.width) {
            const double sum = joined_of(sums[0] + t), slope = joined_of(sums[1] + t);
            const double rstd = (double)M_LOAD(((const M_T *)a.in_rstd)[c]);
            const double scale = rstd * gamma_of(&a, c);
            along[t] = (float)(-scale * rstd * rstd * slope * a.share);
            plus[t] = (float)(-scale * sum * a.share);
            if (piece == 0) {
                if (SCALED) ((Q_T *)a.out_gamma)[c] = Q_OF_D(slope * rstd);
                if (a.out_beta) ((R_T *)a.out_beta)[c] = R_OF_D(sum);
            }
        }
    }
    BARRIER(THREADS)
    EACH_THREAD(THREADS)
    {
        const i64 c = begin + t % COLS * VEC;
        if (c < a.width) {
            const numbers m = OF_MINE(mean), b = OF_MINE(by), s = OF_MINE(shift);
            const numbers l = OF_MINE(along), p = OF_MINE(plus);
            EACH_KEPT
            {
                float x[VEC], to[VEC];
                X_open(x, MY(v)[k]);
                G_open(to, MY(g)[k]);
                UNROLL for (int e = 0; e < VEC; e++) {
                    const float d = x[e] - m.at[e];
                    const float back = behind(&a, to[e], d, b.at[e], s.at[e]);
                    x[e] = vf_fma(back, b.at[e], vf_fma(d, l.at[e], p.at[e]));
                }
                Y_write(a.y, at, x);
            }
        }
    }
    END_OF_MEETING
}
#endif
#endif

