/* Normalisation of channels, which lie next to each other: of a batch, and of groups of them. Rows
 * are places, columns are channels. A group of threads has some rows of a strip of channels: COLS
 * threads side by side with VEC channels each, LANES of them below each other. A thread keeps its
 * channels: what is known of them it reads once.
 *
 * Thread word: free-threaded. */

VECTORS(X)

/* The gradient behind an activation that was given d * by + shift. */
#if (defined(STRIPS) && STRIPS == 1) || defined(SLOPE) || (defined(MEETING) && MEETING == 1)
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

#if defined(STRIPS) || defined(SCALE) || defined(SLOPE) || defined(MEETING)
#define LANES (THREADS / COLS)

/* The rows of a group, and where its strip begins. */
#define STRIP                                                                                      \
    const i64 strips = (a.width + COLS * VEC - 1) / (COLS * VEC), piece = group / strips;          \
    const i64 begin = group % strips * (COLS * VEC), first = piece * a.each;                       \
    const i64 last = LEAST(first + a.each, a.rows);

/* The rows of a thread, `at` being the place of its channels in one of them. DEEP of them are begun
 * before the first is needed: READ gets them one by one with their number, then USE does. */
#define EACH_ROW(READ, USE)                                                                        \
    {                                                                                              \
        const i64 step = LANES * a.width;                                                          \
        i64 r = first + t / COLS, at = r * a.width + c;                                            \
        for (; r + (DEEP - 1) * LANES < last; r += DEEP * LANES) {                                 \
            const i64 from = at;                                                                   \
            UNROLL for (int k = 0; k < DEEP; k++, at += step) READ(k, at)                          \
            at = from;                                                                             \
            UNROLL for (int k = 0; k < DEEP; k++, at += step) USE(k, at)                           \
        }                                                                                          \
        for (; r < last; r += LANES, at += step) {                                                 \
            READ(0, at)                                                                            \
            USE(0, at)                                                                             \
        }                                                                                          \
    }

typedef struct __attribute__((aligned(VEC * 4 < 16 ? VEC * 4 : 16))) numbers {
    float at[VEC];
} numbers;

FN numbers numbers_at(const float *from, i64 c)
{
    return *(const numbers *)(from + c);
}
#endif

#if defined(STRIPS)
/* Lanes of both sums are brought together, the upper ones first, and go to the sums of the piece;
 * what a channel's sums become there PUT says. Rows of `all` begin in different banks. */
#define JOIN_BOTH(s, q)                                                                            \
    SHARED(float, all, [2 * VEC][256 + 8]);                                                        \
    EACH_THREAD(256)                                                                               \
    {                                                                                              \
        UNROLL for (int e = 0; e < VEC; e++) {                                                     \
            all[e][t] = MY(s)[e];                                                                  \
            all[VEC + e][t] = MY(q)[e];                                                            \
        }                                                                                          \
    }                                                                                              \
    BARRIER(256)

FN float lanes_of(const float *all)
{
    float sum = all[0];
    UNROLL for (int l = 1; l < LANES; l++) sum += all[l * COLS];
    return sum;
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
    EACH_THREAD(256)
    {
        const i64 c = begin + t % COLS * VEC;
        float guess[VEC];
        UNROLL for (int e = 0; e < VEC; e++) MY(s)[e] = MY(q)[e] = guess[e] = 0;
        if (c < a.width) {
            X_vector v[DEEP];
            X_read(guess, a.x, first * a.width + c);
#define READ(k, at) v[k] = X_fetch(a.x, at);
#define USE(k, at)                                                                                 \
    UNROLL for (int e = 0; e < VEC; e++) {                                                         \
        const float d = X_LOAD(v[k].at[e]) - guess[e];                                             \
        MY(s)[e] += d;                                                                             \
        MY(q)[e] = vf_fma(d, d, MY(q)[e]);                                                         \
    }
            EACH_ROW(READ, USE)
        }
    }
    JOIN_BOTH(s, q)
    const float count = (float)(last - first);
    EACH_THREAD(256)
    {
        for (int o = t; o < COLS * VEC; o += 256) {
            const i64 c = begin + o;
            if (c < a.width) {
                const float *to = all[o % VEC] + o / VEC;
                const float sum = lanes_of(to), squares = lanes_of(to + VEC * (256 + 8));
                const float guess = X_LOAD(((const X_T *)a.x)[first * a.width + c]);
                const float rest = vf_fnma(sum, sum / count, squares);
                a.sums[piece * 2 * a.width + c] = vf_fma(count, guess, sum);
                a.sums[(piece * 2 + 1) * a.width + c] = maximum_f(rest, 0);
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
            X_vector v[DEEP];
            G_vector g[DEEP];
            UNROLL for (int e = 0; e < VEC; e++) {
                mean[e] = M_LOAD(((const M_T *)a.in_mean)[c + e]);
                by[e] = shift[e] = 0;
#if ACT
                by[e] = M_LOAD(((const M_T *)a.in_rstd)[c + e]);
                if (SCALED) by[e] = (float)((double)by[e] * P_LOAD(((const P_T *)a.gamma)[c + e]));
                if (SHIFTED) shift[e] = B_LOAD(((const B_T *)a.beta)[c + e]);
#endif
            }
#define READ(k, at)                                                                                \
    {                                                                                              \
        v[k] = X_fetch(a.x, at);                                                                   \
        g[k] = G_fetch(a.g, at);                                                                   \
    }
#define USE(k, at)                                                                                 \
    UNROLL for (int e = 0; e < VEC; e++) {                                                         \
        const float d = X_LOAD(v[k].at[e]) - mean[e];                                              \
        const float to = behind(&a, G_LOAD(g[k].at[e]), d, by[e], shift[e]);                       \
        MY(s)[e] += to;                                                                            \
        MY(q)[e] = vf_fma(to, d, MY(q)[e]);                                                        \
    }
            EACH_ROW(READ, USE)
        }
    }
    JOIN_BOTH(s, q)
    EACH_THREAD(256)
    {
        for (int o = t; o < 2 * COLS * VEC; o += 256) {
            const int which = o / (COLS * VEC), k = o % (COLS * VEC);
            const i64 c = begin + k;
            if (c < a.width)
                a.sums[(piece * 2 + which) * a.width + c] =
                    lanes_of(all[which * VEC + k % VEC] + k / VEC);
        }
    }
}
#endif
#endif

/* --- numbers of channels ---------------------------------------------------------------------- */

#if defined(FINISH) || defined(MEETING)
FN double gamma_of(const tli_channels_args *a, i64 c)
{
    return SCALED ? (double)P_LOAD(((const P_T *)a->gamma)[c]) : 1;
}

FN double beta_of(const tli_channels_args *a, i64 c)
{
    return SHIFTED ? (double)B_LOAD(((const B_T *)a->beta)[c]) : 0;
}

#endif
#if defined(FINISH)
/* A group has 8 channels: so many lie in what memory gives at once. Of each of them 32 threads add
 * up the sums of pieces, then the first thread has all. */
#define SIDE 8
FN double joined(const double *all)
{
    double sum = all[0];
    UNROLL for (int l = 1; l < 256 / SIDE; l++) sum += all[l * SIDE];
    return sum;
}
#define EACH_PIECE _Pragma("unroll 8") for (i64 p = t / SIDE; p < a.pieces; p += 256 / SIDE)
#define JOIN_PIECES                                                                                \
    SHARED(double, all, [2][256]);                                                                 \
    EACH_THREAD(256)                                                                               \
    {                                                                                              \
        all[0][t] = MY(one);                                                                       \
        all[1][t] = MY(other);                                                                     \
    }                                                                                              \
    BARRIER(256)

#if FINISH == 0 /* moments: STATS alone, or what comes of them */
KERNEL(256) finish_moments(const tli_channels_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    PER_THREAD(256, double, one, );
    PER_THREAD(256, double, other, );
    PER_THREAD(256, double, guess, ); /* distances are taken from the mean of the first piece */
    EACH_THREAD(256)
    {
        const i64 c = group * SIDE + t % SIDE;
        MY(one) = MY(other) = MY(guess) = 0;
        if (c < a.width && a.pieces) {
            const double usual = (double)a.each, rest = (double)(a.rows - (a.pieces - 1) * a.each);
            const double by_usual = 1 / usual, by_rest = 1 / rest;
            MY(guess) = (double)a.sums[c] * (a.pieces > 1 ? by_usual : by_rest);
            EACH_PIECE
            {
                const int full = p + 1 < a.pieces;
                const float *s = a.sums + p * 2 * a.width + c;
                const double apart = (double)s[0] - (full ? usual : rest) * MY(guess);
                MY(one) += (double)s[0];
                MY(other) += (double)s[a.width] + apart * apart * (full ? by_usual : by_rest);
            }
        }
    }
    JOIN_PIECES
    EACH_THREAD(256)
    {
        const i64 c = group * SIDE + t;
        if (t < SIDE && c < a.width) {
            const double rows = (double)a.rows, mean = joined(all[0] + t) / rows;
            const double apart = mean - MY(guess);
            const double squares = joined(all[1] + t) / rows - apart * apart;
            const double variance = squares < 0 ? 0 : squares;
            ((M_T *)a.out_mean)[c] = M_OF_D(mean);
            ((M_T *)a.out_variance)[c] = M_OF_D(variance);
#if !STATS
            const float rstd = (float)(1 / __builtin_sqrt(variance + a.epsilon));
            ((M_T *)a.out_rstd)[c] = M_STORE(rstd);
            a.mean[c] = (float)mean;
            a.by[c] = (float)((double)rstd * gamma_of(&a, c));
            a.plus[c] = (float)beta_of(&a, c);
#endif
        }
    }
}
#elif FINISH == 1 /* given statistics; a thread has a channel */
KERNEL(256) take_moments(const tli_channels_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    EACH_THREAD(256)
    {
        const i64 c = group * 256 + t;
        if (c < a.width) {
            const double variance = (double)M_LOAD(((const M_T *)a.in_variance)[c]);
            const double rstd = 1 / __builtin_sqrt(variance + a.epsilon);
            a.mean[c] = M_LOAD(((const M_T *)a.in_mean)[c]);
            a.by[c] = (float)(rstd * gamma_of(&a, c));
            a.plus[c] = (float)beta_of(&a, c);
        }
    }
}
#else /* slopes; 2: of a batch, 3: of given statistics */
KERNEL(256) finish_slopes(const tli_channels_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    PER_THREAD(256, double, one, );
    PER_THREAD(256, double, other, );
    EACH_THREAD(256)
    {
        const i64 c = group * SIDE + t % SIDE;
        MY(one) = MY(other) = 0;
        if (c < a.width) {
            EACH_PIECE
            {
                MY(one) += (double)a.sums[p * 2 * a.width + c];
                MY(other) += (double)a.sums[(p * 2 + 1) * a.width + c];
            }
        }
    }
    JOIN_PIECES
    EACH_THREAD(256)
    {
        const i64 c = group * SIDE + t;
        if (t < SIDE && c < a.width) {
            const double sum = joined(all[0] + t), along = joined(all[1] + t);
            const double share = 1 / (double)a.rows;
#if FINISH == 2
            const double rstd = (double)M_LOAD(((const M_T *)a.in_rstd)[c]);
            const double by = rstd * gamma_of(&a, c);
            a.along[c] = (float)(-by * rstd * rstd * along * share);
            a.plus[c] = (float)(-by * sum * share);
            a.shift[c] = ACT ? (float)beta_of(&a, c) : 0;
#else
            const double inside = (double)M_LOAD(((const M_T *)a.in_variance)[c]) + a.epsilon;
            const double rstd = 1 / __builtin_sqrt(inside), by = rstd * gamma_of(&a, c);
            a.along[c] = a.plus[c] = a.shift[c] = 0;
            ((N_T *)a.out_mean)[c] = N_OF_D(-sum * by);
            ((N_T *)a.out_variance)[c] = N_OF_D(-0.5 * along * by / inside);
            (void)share;
#endif
            a.mean[c] = M_LOAD(((const M_T *)a.in_mean)[c]);
            a.by[c] = (float)by;
            // of no rows the sums are 0, whatever the deviation
            if (SCALED) ((Q_T *)a.out_gamma)[c] = Q_OF_D(a.rows ? along * rstd : 0.0);
            if (a.out_beta) ((R_T *)a.out_beta)[c] = R_OF_D(sum);
        }
    }
}
#endif
#endif

/* --- sweeps over elements --------------------------------------------------------------------- */

#if defined(SCALE)
VECTORS(Y)
KERNEL(256) scale_channels(const tli_channels_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    STRIP
    EACH_THREAD(256)
    {
        const i64 c = begin + t % COLS * VEC;
        if (c < a.width) {
            const numbers mean = numbers_at(a.mean, c), by = numbers_at(a.by, c),
                          plus = numbers_at(a.plus, c);
            X_vector v[DEEP], more[DEEP];
#define READ(k, at)                                                                                \
    {                                                                                              \
        v[k] = X_fetch(a.x, at);                                                                   \
        if (ADDED) more[k] = X_fetch(a.added, at);                                                 \
    }
#define USE(k, at)                                                                                 \
    {                                                                                              \
        float y[VEC];                                                                              \
        UNROLL for (int e = 0; e < VEC; e++) {                                                     \
            float z = vf_fma(X_LOAD(v[k].at[e]) - mean.at[e], by.at[e], plus.at[e]);               \
            if (ADDED) z += X_LOAD(more[k].at[e]);                                                 \
            y[e] = ACT == 0 ? z : ACT == 1 ? relu_f(z) : relu6_f(z);                               \
        }                                                                                          \
        Y_write(a.y, at, y);                                                                       \
    }
            EACH_ROW(READ, USE)
        }
    }
}
#endif

#if defined(SLOPE)
VECTORS(Y)
VECTORS(G)
KERNEL(256) slope_channels(const tli_channels_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    STRIP
    EACH_THREAD(256)
    {
        const i64 c = begin + t % COLS * VEC;
        if (c < a.width) {
            const numbers mean = numbers_at(a.mean, c), by = numbers_at(a.by, c);
            const numbers along = numbers_at(a.along, c), plus = numbers_at(a.plus, c);
            const numbers shift = numbers_at(a.shift, c);
            X_vector v[DEEP];
            G_vector g[DEEP];
#define READ(k, at)                                                                                \
    {                                                                                              \
        v[k] = X_fetch(a.x, at);                                                                   \
        g[k] = G_fetch(a.g, at);                                                                   \
    }
#define USE(k, at)                                                                                 \
    {                                                                                              \
        float y[VEC];                                                                              \
        UNROLL for (int e = 0; e < VEC; e++) {                                                     \
            const float d = X_LOAD(v[k].at[e]) - mean.at[e];                                       \
            const float to = behind(&a, G_LOAD(g[k].at[e]), d, by.at[e], shift.at[e]);             \
            y[e] = vf_fma(to, by.at[e], vf_fma(d, along.at[e], plus.at[e]));                       \
        }                                                                                          \
        Y_write(a.y, at, y);                                                                       \
    }
            EACH_ROW(READ, USE)
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
