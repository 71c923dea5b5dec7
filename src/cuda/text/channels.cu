/* Normalisation of channels, which lie next to each other: of a batch, and of groups of them. Rows
 * are places, columns are channels. A group of threads has some rows of a strip of channels: COLS
 * threads side by side with VEC channels each, LANES of them below each other.
 *
 * Thread word: free-threaded. */

VECTORS(X)

/* The gradient behind an activation that was given d * by + shift. */
#if defined(STRIPS) || defined(SLOPE)
FN float behind(const tli_channels_args *a, float g, float d, float by, float shift)
{
#if ACT
    const float z = vf_fma(d, by, shift);
    if (!(z > a->low) || (ACT == 2 && !(z < a->high))) return 0;
#endif
    (void)a, (void)d, (void)by, (void)shift;
    return g;
}
#endif

#if defined(STRIPS)
#define LANES (256 / COLS)

#define STRIP                                                                                      \
    const i64 strips = (a.width + COLS * VEC - 1) / (COLS * VEC), piece = group / strips;          \
    const i64 begin = group % strips * (COLS * VEC), first = piece * a.each;                       \
    const i64 last = LEAST(first + a.each, a.rows);

/* Lanes of both sums are brought together; threads of the first one have them then. */
#define JOIN_BOTH(s, q)                                                                            \
    PER_THREAD(256, float, one, [1]);                                                              \
    UNROLL for (int e = 0; e < VEC; e++) {                                                         \
        EACH_THREAD(256) { MY(one)[0] = MY(s)[e]; }                                                \
        JOIN_LANES(256, float, one, add_f, COLS)                                                   \
        EACH_THREAD(256)                                                                           \
        {                                                                                          \
            if (t < COLS) MY(s)[e] = MY(one)[0];                                                   \
            MY(one)[0] = MY(q)[e];                                                                 \
        }                                                                                          \
        JOIN_LANES(256, float, one, add_f, COLS)                                                   \
        EACH_THREAD(256) { if (t < COLS) MY(q)[e] = MY(one)[0]; }                                  \
    }

/* Sums of a piece's channels, and of the squares of their distances from its means. One sweep takes
 * both about the first row, which keeps what is subtracted at the end small. */
#if STRIPS == 0
KERNEL(256) moments(const tli_channels_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    STRIP
    PER_THREAD(256, float, s, [VEC]);
    PER_THREAD(256, float, q, [VEC]);
    PER_THREAD(256, float, guess, [VEC]);
    EACH_THREAD(256)
    {
        const i64 c = begin + t % COLS * VEC;
        UNROLL for (int e = 0; e < VEC; e++) MY(s)[e] = MY(q)[e] = MY(guess)[e] = 0;
        if (c < a.width) {
            X_read(MY(guess), a.x, first * a.width + c);
            for (i64 r = first + t / COLS; r < last; r += LANES) {
                float v[VEC];
                X_read(v, a.x, r * a.width + c);
                UNROLL for (int e = 0; e < VEC; e++) {
                    const float d = v[e] - MY(guess)[e];
                    MY(s)[e] += d;
                    MY(q)[e] = vf_fma(d, d, MY(q)[e]);
                }
            }
        }
    }
    JOIN_BOTH(s, q)
    const float count = (float)(last - first);
    EACH_THREAD(256)
    {
        const i64 c = begin + t * VEC;
        float *sums = a.sums + piece * 2 * a.width + c;
        if (t < COLS && c < a.width) {
            UNROLL for (int e = 0; e < VEC; e++) {
                sums[e] = vf_fma(count, MY(guess)[e], MY(s)[e]);
                const float rest = vf_fnma(MY(s)[e], MY(s)[e] / count, MY(q)[e]);
                sums[a.width + e] = maximum_f(rest, 0);
            }
        }
    }
}
#endif

/* Sums of gy, and of gy * (x - mean). */
#if STRIPS == 1
VECTORS(G)
KERNEL(256) slopes(const tli_channels_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    STRIP
    PER_THREAD(256, float, s, [VEC]);
    PER_THREAD(256, float, q, [VEC]);
    EACH_THREAD(256)
    {
        const i64 c = begin + t % COLS * VEC;
        float mean[VEC], by[VEC], shift[VEC];
        UNROLL for (int e = 0; e < VEC; e++) MY(s)[e] = MY(q)[e] = 0;
        if (c < a.width) {
            UNROLL for (int e = 0; e < VEC; e++) {
                mean[e] = M_LOAD(((const M_T *)a.in_mean)[c + e]);
                by[e] = shift[e] = 0;
#if ACT
                by[e] = M_LOAD(((const M_T *)a.in_rstd)[c + e]);
                if (SCALED) by[e] = (float)((double)by[e] * P_LOAD(((const P_T *)a.gamma)[c + e]));
                if (SHIFTED) shift[e] = B_LOAD(((const B_T *)a.beta)[c + e]);
#endif
            }
            for (i64 r = first + t / COLS; r < last; r += LANES) {
                float v[VEC], g[VEC];
                X_read(v, a.x, r * a.width + c);
                G_read(g, a.g, r * a.width + c);
                UNROLL for (int e = 0; e < VEC; e++) {
                    const float d = v[e] - mean[e], to = behind(&a, g[e], d, by[e], shift[e]);
                    MY(s)[e] += to;
                    MY(q)[e] = vf_fma(to, d, MY(q)[e]);
                }
            }
        }
    }
    JOIN_BOTH(s, q)
    EACH_THREAD(256)
    {
        const i64 c = begin + t * VEC;
        float *sums = a.sums + piece * 2 * a.width + c;
        if (t < COLS && c < a.width) {
            UNROLL for (int e = 0; e < VEC; e++) {
                sums[e] = MY(s)[e];
                sums[a.width + e] = MY(q)[e];
            }
        }
    }
}
#endif
#endif

/* --- numbers of channels: a group has one ----------------------------------------------------- */

#if defined(FINISH)
FN double gamma_of(const tli_channels_args *a, i64 c)
{
    return SCALED ? (double)P_LOAD(((const P_T *)a->gamma)[c]) : 1;
}

FN double beta_of(const tli_channels_args *a, i64 c)
{
    return SHIFTED ? (double)B_LOAD(((const B_T *)a->beta)[c]) : 0;
}

#if FINISH == 0 /* moments: STATS alone, or what comes of them */
KERNEL(32) finish_moments(const tli_channels_args a GROUP_PARAM)
{
    GROUP_BEGIN(32, a.groups)
    PER_THREAD(32, double, part, );
    EACH_THREAD(32)
    {
        MY(part) = 0;
        for (i64 p = t; p < a.pieces; p += 32) MY(part) += (double)a.sums[p * 2 * a.width + group];
    }
    REDUCE(32, double, sum, add_d, part)
    const double mean = sum / (double)a.rows;
    EACH_THREAD(32)
    {
        MY(part) = 0;
        for (i64 p = t; p < a.pieces; p += 32) {
            const float *s = a.sums + p * 2 * a.width + group;
            const double count = (double)LEAST(a.each, a.rows - p * a.each);
            const double apart = (double)s[0] / count - mean;
            MY(part) += (double)s[a.width] + count * apart * apart;
        }
    }
    REDUCE(32, double, squares, add_d, part)
    ONE_THREAD(32)
    {
        const double variance = squares / (double)a.rows;
        ((M_T *)a.out_mean)[group] = M_OF_D(mean);
        ((M_T *)a.out_variance)[group] = M_OF_D(variance);
#if !STATS
        const float rstd = (float)(1 / __builtin_sqrt(variance + a.epsilon));
        ((M_T *)a.out_rstd)[group] = M_STORE(rstd);
        a.mean[group] = (float)mean;
        a.by[group] = (float)((double)rstd * gamma_of(&a, group));
        a.plus[group] = (float)beta_of(&a, group);
#endif
    }
}
#elif FINISH == 1 /* given statistics */
KERNEL(32) take_moments(const tli_channels_args a GROUP_PARAM)
{
    GROUP_BEGIN(32, a.groups)
    ONE_THREAD(32)
    {
        const double variance = (double)M_LOAD(((const M_T *)a.in_variance)[group]);
        const double rstd = 1 / __builtin_sqrt(variance + a.epsilon);
        a.mean[group] = M_LOAD(((const M_T *)a.in_mean)[group]);
        a.by[group] = (float)(rstd * gamma_of(&a, group));
        a.plus[group] = (float)beta_of(&a, group);
    }
}
#else /* slopes; 2: of a batch, 3: of given statistics */
KERNEL(32) finish_slopes(const tli_channels_args a GROUP_PARAM)
{
    GROUP_BEGIN(32, a.groups)
    PER_THREAD(32, double, part, );
    PER_THREAD(32, double, other, );
    EACH_THREAD(32)
    {
        MY(part) = MY(other) = 0;
        for (i64 p = t; p < a.pieces; p += 32) {
            MY(part) += (double)a.sums[p * 2 * a.width + group];
            MY(other) += (double)a.sums[p * 2 * a.width + a.width + group];
        }
    }
    REDUCE(32, double, sum, add_d, part)
    REDUCE(32, double, along, add_d, other)
    ONE_THREAD(32)
    {
        const double share = 1 / (double)a.rows;
#if FINISH == 2
        const double rstd = (double)M_LOAD(((const M_T *)a.in_rstd)[group]);
        const double by = rstd * gamma_of(&a, group);
        a.along[group] = (float)(-by * rstd * rstd * along * share);
        a.plus[group] = (float)(-by * sum * share);
        a.shift[group] = ACT ? (float)beta_of(&a, group) : 0;
#else
        const double inside = (double)M_LOAD(((const M_T *)a.in_variance)[group]) + a.epsilon;
        const double rstd = 1 / __builtin_sqrt(inside), by = rstd * gamma_of(&a, group);
        a.along[group] = a.plus[group] = a.shift[group] = 0;
        ((N_T *)a.out_mean)[group] = N_OF_D(-sum * by);
        ((N_T *)a.out_variance)[group] = N_OF_D(-0.5 * along * by / inside);
        (void)share;
#endif
        a.mean[group] = M_LOAD(((const M_T *)a.in_mean)[group]);
        a.by[group] = (float)by;
        // of no rows the sums are 0, whatever the deviation
        if (SCALED) ((Q_T *)a.out_gamma)[group] = Q_OF_D(a.rows ? along * rstd : 0.0);
        if (a.out_beta) ((R_T *)a.out_beta)[group] = R_OF_D(sum);
    }
}
#endif
#endif

/* --- sweeps over elements --------------------------------------------------------------------- */

#if defined(SCALE) || defined(SLOPE)
VECTORS(Y)
typedef struct numbers {
    float at[VEC];
} numbers;

FN numbers numbers_at(const float *from, i64 c)
{
    numbers n;
    UNROLL for (int e = 0; e < VEC; e++) n.at[e] = from[c + e];
    return n;
}
#endif

#if defined(SCALE)
KERNEL(256) scale_channels(const tli_channels_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    EACH_THREAD(256)
    {
        UNROLL for (int j = 0; j < 2; j++) {
            const INDEX i = (INDEX)((group * 2 + j) * 256 + t) * VEC;
            if (i >= (INDEX)(a.rows * a.width)) continue;
            const i64 c = (i64)(i % (INDEX)a.width);
            const numbers mean = numbers_at(a.mean, c), by = numbers_at(a.by, c),
                          plus = numbers_at(a.plus, c);
            float v[VEC];
            X_read(v, a.x, (i64)i);
            UNROLL for (int e = 0; e < VEC; e++) {
                const float z = vf_fma(v[e] - mean.at[e], by.at[e], plus.at[e]);
                v[e] = ACT == 0 ? z : ACT == 1 ? relu_f(z) : relu6_f(z);
            }
            Y_write(a.y, (i64)i, v);
        }
    }
}
#endif

#if defined(SLOPE)
VECTORS(G)
KERNEL(256) slope_channels(const tli_channels_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    EACH_THREAD(256)
    {
        UNROLL for (int j = 0; j < 2; j++) {
            const INDEX i = (INDEX)((group * 2 + j) * 256 + t) * VEC;
            if (i >= (INDEX)(a.rows * a.width)) continue;
            const i64 c = (i64)(i % (INDEX)a.width);
            const numbers mean = numbers_at(a.mean, c), by = numbers_at(a.by, c);
            const numbers along = numbers_at(a.along, c), plus = numbers_at(a.plus, c);
            const numbers shift = numbers_at(a.shift, c);
            float v[VEC], g[VEC];
            X_read(v, a.x, (i64)i);
            G_read(g, a.g, (i64)i);
            UNROLL for (int e = 0; e < VEC; e++) {
                const float d = v[e] - mean.at[e];
                const float to = behind(&a, g[e], d, by.at[e], shift.at[e]);
                v[e] = vf_fma(to, by.at[e], vf_fma(d, along.at[e], plus.at[e]));
            }
            Y_write(a.y, (i64)i, v);
        }
    }
}
#endif

/* --- groups of channels, of each example: a group of threads has one -------------------------- */

#if defined(GROUPS)
#define ITEM(i)                                                                                    \
    const i64 c = part * a.each + (i) % a.each;                                                    \
    const i64 at = (example * a.rows + (i) / a.each) * a.width + c;
#define EACH_ITEM                                                                                  \
    for (i64 i = t; i < a.rows * a.each; i += 256)

FN float gamma_at(const tli_channels_args *a, i64 c)
{
    return SCALED ? P_LOAD(((const P_T *)a->gamma)[c]) : 1;
}

#if GROUPS == 0
KERNEL(256) group_forward(const tli_channels_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    const i64 parts = a.width / a.each, part = group % parts, example = group / parts;
    const double items = (double)(a.rows * a.each);
    const X_T *x = (const X_T *)a.x;
    PER_THREAD(256, double, sum, );
    EACH_THREAD(256)
    {
        MY(sum) = 0;
        EACH_ITEM
        {
            ITEM(i)
            MY(sum) += (double)X_LOAD(x[at]);
        }
    }
    REDUCE(256, double, all, add_d, sum)
    const double middle = all / items;
    const float mean = (float)middle;
    EACH_THREAD(256)
    {
        MY(sum) = 0;
        EACH_ITEM
        {
            ITEM(i)
            const double d = (double)X_LOAD(x[at]) - middle;
            MY(sum) += d * d;
        }
    }
    REDUCE(256, double, squares, add_d, sum)
    const float rstd = (float)(1 / __builtin_sqrt(squares / items + a.epsilon));
    EACH_THREAD(256)
    {
        EACH_ITEM
        {
            ITEM(i)
            const float plus = SHIFTED ? B_LOAD(((const B_T *)a.beta)[c]) : 0;
            const float z = vf_fma(X_LOAD(x[at]) - mean, rstd * gamma_at(&a, c), plus);
            ((X_T *)a.y)[at] = X_STORE(z);
        }
    }
    ONE_THREAD(256)
    {
        ((M_T *)a.out_mean)[group] = M_STORE(mean);
        ((M_T *)a.out_rstd)[group] = M_STORE(rstd);
    }
}
#else
KERNEL(256) group_backward(const tli_channels_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    const i64 parts = a.width / a.each, part = group % parts, example = group / parts;
    const double share = 1 / (double)(a.rows * a.each);
    const float mean = M_LOAD(((const M_T *)a.in_mean)[group]);
    const double rstd = (double)M_LOAD(((const M_T *)a.in_rstd)[group]);
    const X_T *x = (const X_T *)a.x;
    const G_T *g = (const G_T *)a.g;
    PER_THREAD(256, double, sum, );
    PER_THREAD(256, double, along, );
    EACH_THREAD(256)
    {
        MY(sum) = MY(along) = 0;
        EACH_ITEM
        {
            ITEM(i)
            const float s = G_LOAD(g[at]) * gamma_at(&a, c);
            MY(sum) += (double)s;
            MY(along) += (double)s * (double)(X_LOAD(x[at]) - mean);
        }
    }
    REDUCE(256, double, all, add_d, sum)
    REDUCE(256, double, slope, add_d, along)
    const float by_d = (float)(-rstd * rstd * rstd * slope * share);
    const float plus = (float)(-rstd * all * share);
    EACH_THREAD(256)
    {
        EACH_ITEM
        {
            ITEM(i)
            const float rest = vf_fma(X_LOAD(x[at]) - mean, by_d, plus);
            const float z = vf_fma(G_LOAD(g[at]), (float)rstd * gamma_at(&a, c), rest);
            ((X_T *)a.y)[at] = X_STORE(z);
        }
    }
}

/* Sums of an example for gamma and beta; a thread has a channel. */
KERNEL(256) group_params(const tli_channels_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    const i64 strips = (a.width + 255) / 256, example = group / strips;
    EACH_THREAD(256)
    {
        const i64 c = group % strips * 256 + t;
        if (c < a.width) {
            const i64 k = example * (a.width / a.each) + c / a.each;
            const float mean = M_LOAD(((const M_T *)a.in_mean)[k]);
            const float rstd = M_LOAD(((const M_T *)a.in_rstd)[k]);
            float of_gamma = 0, of_beta = 0;
            for (i64 r = 0; r < a.rows; r++) {
                const i64 at = (example * a.rows + r) * a.width + c;
                const float d = G_LOAD(((const G_T *)a.g)[at]);
                of_gamma = vf_fma(d, X_LOAD(((const X_T *)a.x)[at]) - mean, of_gamma);
                of_beta += d;
            }
            a.sums[example * 2 * a.width + c] = a.rows ? of_gamma * rstd : 0;
            a.sums[example * 2 * a.width + a.width + c] = of_beta;
        }
    }
}
#endif
#endif
