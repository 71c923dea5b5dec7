/* Normalisation of rows: layer and rms, and the sums of columns that their gradients need. A group
 * of threads has a row at a time.
 *
 * Thread word: free-threaded. */

#if defined(NORM)
VECTORS(X)
VECTORS(Y)
VECTORS(P)
#if SHIFTED
VECTORS(B)
#endif

/* x of vector j: from registers, or read again. */
#if KEPT
#define KEEP(name) PER_THREAD(THREADS, float, name, [EACH][VEC]);
#define FIRST(R, name, from) float *name = MY(name##_row)[j]; R##_read(name, from, i);
#define AGAIN(R, name, from) const float *name = MY(name##_row)[j];
#else
#define KEEP(name)
#define FIRST(R, name, from) float name[VEC]; R##_read(name, from, i);
#define AGAIN(R, name, from) float name[VEC]; R##_read(name, from, i);
#endif

KERNEL(THREADS) normalize(const tli_norm_args a GROUP_PARAM)
{
    GROUP_BEGIN(THREADS, a.groups)
    const X_T *x = (const X_T *)a.x + group * WIDTH;
    Y_T *y = (Y_T *)a.y + group * WIDTH;
    PER_THREAD(THREADS, float, part, );
    KEEP(v_row)
#if CENTERED
    EACH_THREAD(THREADS)
    {
        MY(part) = 0;
        ROW_BEGIN
            FIRST(X, v, x)
            OF_VECTOR(e) MY(part) += v[e];
        ROW_END
    }
    REDUCE(THREADS, float, sum, add_f, part)
    const float mean = sum / WIDTH;
    EACH_THREAD(THREADS)
    {
        MY(part) = 0;
        ROW_BEGIN
            AGAIN(X, v, x)
            OF_VECTOR(e) MY(part) = vf_fma(v[e] - mean, v[e] - mean, MY(part));
        ROW_END
    }
#else
    const float mean = 0;
    EACH_THREAD(THREADS)
    {
        MY(part) = 0;
        ROW_BEGIN
            FIRST(X, v, x)
            OF_VECTOR(e) MY(part) = vf_fma(v[e], v[e], MY(part));
        ROW_END
    }
#endif
    REDUCE(THREADS, float, squares, add_f, part)
#if HALF
    const float rstd = 1 / __builtin_sqrtf(squares / WIDTH + (float)a.epsilon);
#else
    const float rstd = (float)(1 / __builtin_sqrt((double)squares / WIDTH + a.epsilon));
#endif
    EACH_THREAD(THREADS)
    {
        ROW_BEGIN
            AGAIN(X, v, x)
            float to[VEC];
            OF_VECTOR(e) to[e] = (v[e] - mean) * rstd;
#if SCALED
            float gamma[VEC];
            P_read(gamma, a.gamma, i);
#endif
#if SHIFTED
            float beta[VEC];
            B_read(beta, a.beta, i);
#endif
#if SCALED && SHIFTED
            OF_VECTOR(e) to[e] = vf_fma(to[e], gamma[e], beta[e]);
#elif SCALED
            OF_VECTOR(e) to[e] *= gamma[e];
#elif SHIFTED
            OF_VECTOR(e) to[e] += beta[e];
#endif
            Y_write(y, i, to);
        ROW_END
    }
    ONE_THREAD(THREADS)
    {
#if CENTERED
        a.mean[group] = mean;
#endif
        a.rstd[group] = rstd;
    }
}

/* gy gamma rstd - (x - mean) slope - shift, of `each` rows one after the other; the sums of gy
 * (x - mean) rstd and of gy, and with SUMMED those of the result, stay with the threads that have
 * the columns. */
#if defined(GRADIENT)
VECTORS(G)
/* The gradient of a vector of a row, and what it adds to the sums of its columns. */
#if SUMS
#define SUMS_OF(j) MY(sums)[j]
#define ADD_TO_SUMS(j, e)                                                                          \
    SUMS_OF(j)[0][e] = vf_fma(u, away, SUMS_OF(j)[0][e]);                                          \
    SUMS_OF(j)[1][e] += d[e];                                                                      \
    if (SUMMED) SUMS_OF(j)[1 + SUMMED][e] += to[e];
#else
#define ADD_TO_SUMS(j, e)
#endif
#if ADDED
#define ADD_OTHER(e) to[e] += other[e];
#else
#define ADD_OTHER(e)
#endif
#if SCALED
#define SCALE_BY(e) *gamma[e]
#define READ_GAMMA(to) P_read(to, a.gamma, i);
#else
#define SCALE_BY(e)
#define READ_GAMMA(to)
#endif
#define SLOPES(j)                                                                                  \
    OF_VECTOR(e)                                                                                   \
    {                                                                                              \
        const float u = d[e] * rstd, away = v[e] - mean;                                           \
        to[e] = vf_fnma(away, slope, u SCALE_BY(e)) - shift;                                       \
        ADD_OTHER(e)                                                                               \
        ADD_TO_SUMS(j, e)                                                                          \
    }
#define PARTS(part, along)                                                                         \
    OF_VECTOR(e)                                                                                   \
    {                                                                                              \
        const float s = d[e] SCALE_BY(e);                                                          \
        part += s;                                                                                 \
        along = vf_fma(s, v[e] - mean, along);                                                     \
    }
#define WRITE_SUMS                                                                                 \
    EACH_THREAD(THREADS)                                                                           \
    {                                                                                              \
        float *out = a.sums + group * (2 + SUMMED) * WIDTH;                                        \
        ROW_BEGIN                                                                                  \
            UNROLL for (int k = 0; k < 2 + SUMMED; k++)                                            \
                OF_VECTOR(e) out[k * WIDTH + i + e] = SUMS_OF(j)[k][e];                            \
        ROW_END                                                                                    \
    }

/* TOGETHER: so many rows at a time are in registers, a vector of each with a thread. They come from
 * memory at once, and their sums are made at once. */
#if TOGETHER
#define TAKE(R, name, from)                                                                        \
    float name[VEC];                                                                               \
    R##_open(name, MY(from)[r]);
KERNEL_OF_MANY(THREADS, 512) normalize_grad(const tli_norm_args a GROUP_PARAM)
{
    GROUP_BEGIN(THREADS, a.groups)
    const i64 first = group * a.each, last = LEAST(first + a.each, a.rows);
    PER_THREAD(THREADS, X_vector, xs, [TOGETHER]);
    PER_THREAD(THREADS, G_vector, gs, [TOGETHER]);
#if ADDED
    PER_THREAD(THREADS, B_vector, others, [TOGETHER]);
#endif
#if SCALED
    PER_THREAD(THREADS, float, scales, [VEC]);
#endif
#if SUMS
    PER_THREAD(THREADS, float, sums, [1][2 + SUMMED][VEC]);
#endif
    PER_THREAD(THREADS, float, parts, [2 * TOGETHER]);
    EACH_THREAD(THREADS)
    {
        ROW_BEGIN
            READ_GAMMA(MY(scales))
        ROW_END
#if SUMS
        UNROLL for (int k = 0; k < 2 + SUMMED; k++) OF_VECTOR(e) MY(sums)[0][k][e] = 0;
#endif
    }
    for (i64 row = first; row < last; row += TOGETHER) {
        float means[TOGETHER], rstds[TOGETHER];
        UNROLL for (int r = 0; r < TOGETHER; r++) {
            const i64 at = LEAST(row + r, last - 1); // read again where there are no more
            means[r] = CENTERED ? a.mean[at] : 0;
            rstds[r] = a.rstd[at];
        }
        EACH_THREAD(THREADS)
        {
            ROW_BEGIN
                UNROLL for (int r = 0; r < TOGETHER; r++) {
                    const i64 at = LEAST(row + r, last - 1) * WIDTH + i;
                    MY(xs)[r] = X_fetch(a.x, at);
                    MY(gs)[r] = G_fetch(a.g, at);
#if ADDED
                    MY(others)[r] = B_fetch(a.added, at);
#endif
                }
            ROW_END
        }
        EACH_THREAD(THREADS)
        {
            UNROLL for (int k = 0; k < 2 * TOGETHER; k++) MY(parts)[k] = 0;
            ROW_BEGIN
#if SCALED
                const float *gamma = MY(scales);
#endif
                UNROLL for (int r = 0; r < TOGETHER; r++) {
                    TAKE(X, v, xs)
                    TAKE(G, d, gs)
                    const float mean = means[r];
                    PARTS(MY(parts)[2 * r], MY(parts)[2 * r + 1])
                }
            ROW_END
        }
        REDUCE_EACH(THREADS, float, totals, add_f, parts, 2 * TOGETHER)
        EACH_THREAD(THREADS)
        {
            ROW_BEGIN
#if SCALED
                const float *gamma = MY(scales);
#endif
                UNROLL for (int r = 0; r < TOGETHER; r++) {
                    if (row + r < last) {
                        TAKE(X, v, xs)
                        TAKE(G, d, gs)
#if ADDED
                        TAKE(B, other, others)
#endif
                        const float mean = means[r], rstd = rstds[r];
                        const float shift = CENTERED ? rstd * totals[2 * r] / WIDTH : 0;
                        const float slope = rstd * rstd * rstd * totals[2 * r + 1] / WIDTH;
                        float to[VEC];
                        SLOPES(0)
                        Y_write(a.y, (row + r) * WIDTH + i, to);
                    }
                }
            ROW_END
        }
    }
#if SUMS
    WRITE_SUMS
#endif
}
#else
#define READ(R, name, from)                                                                        \
    float name[VEC];                                                                               \
    R##_read(name, (const R##_T *)(from) + row * WIDTH, i);
KERNEL(THREADS) normalize_grad(const tli_norm_args a GROUP_PARAM)
{
    GROUP_BEGIN(THREADS, a.groups)
    const i64 first = group * a.each, last = LEAST(first + a.each, a.rows);
    PER_THREAD(THREADS, float, part, );
    PER_THREAD(THREADS, float, along, );
#if SUMS
    PER_THREAD(THREADS, float, sums, [EACH][2 + SUMMED][VEC]);
    EACH_THREAD(THREADS)
    {
        UNROLL for (int j = 0; j < EACH; j++)
            UNROLL for (int k = 0; k < 2 + SUMMED; k++) OF_VECTOR(e) MY(sums)[j][k][e] = 0;
    }
#endif
    for (i64 row = first; row < last; row++) {
        Y_T *y = (Y_T *)a.y + row * WIDTH;
        const float mean = CENTERED ? a.mean[row] : 0, rstd = a.rstd[row];
        EACH_THREAD(THREADS)
        {
            MY(part) = MY(along) = 0;
            ROW_BEGIN
                READ(X, v, a.x)
                READ(G, d, a.g)
                float gamma[VEC];
                READ_GAMMA(gamma)
                PARTS(MY(part), MY(along))
            ROW_END
        }
#if CENTERED
        REDUCE(THREADS, float, sum, add_f, part)
        const float shift = rstd * sum / WIDTH;
#else
        const float shift = 0;
#endif
        REDUCE(THREADS, float, all, add_f, along)
        const float slope = rstd * rstd * rstd * all / WIDTH;
        EACH_THREAD(THREADS)
        {
            ROW_BEGIN
                READ(X, v, a.x)
                READ(G, d, a.g)
                float to[VEC], gamma[VEC];
                READ_GAMMA(gamma)
#if ADDED
                READ(B, other, a.added)
#endif
                SLOPES(j)
                Y_write(y, i, to);
            ROW_END
        }
    }
#if SUMS
    WRITE_SUMS
#endif
}
#endif

/* Where a thread would have too many columns: those sums apart, a thread a column. */
KERNEL(256) normalize_sums(const tli_norm_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    const i64 strips = (WIDTH + 255) / 256, piece = group / strips;
    const i64 first = piece * a.each, last = LEAST(first + a.each, a.rows);
    EACH_THREAD(256)
    {
        const i64 c = group % strips * 256 + t;
        if (c < WIDTH) {
            float of_gamma = 0, of_beta = 0;
            for (i64 row = first; row < last; row++) {
                const float d = G_LOAD(((const G_T *)a.g)[row * WIDTH + c]);
                const float away = X_LOAD(((const X_T *)a.x)[row * WIDTH + c])
                                   - (CENTERED ? a.mean[row] : 0);
                of_gamma = vf_fma(d * a.rstd[row], away, of_gamma);
                of_beta += d;
            }
            a.sums[piece * (2 + SUMMED) * WIDTH + c] = of_gamma;
            a.sums[(piece * (2 + SUMMED) + 1) * WIDTH + c] = of_beta;
        }
    }
}

/* And those of the result. */
KERNEL(256) result_sums(const tli_norm_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    const i64 strips = (WIDTH + 255) / 256, piece = group / strips;
    const i64 first = piece * a.each, last = LEAST(first + a.each, a.rows);
    EACH_THREAD(256)
    {
        const i64 c = group % strips * 256 + t;
        if (c < WIDTH) {
            float sum = 0;
            for (i64 row = first; row < last; row++) sum += Y_LOAD(((const Y_T *)a.y)[row * WIDTH + c]);
            a.sums[(piece * (2 + SUMMED) + 1 + SUMMED) * WIDTH + c] = sum;
        }
    }
}
#endif
#endif

/* Sums of pieces, 32 columns a group, 32 threads each. */
#if defined(PIECES)
KERNEL(1024) add_pieces(const tli_pieces_args a GROUP_PARAM)
{
    GROUP_BEGIN(1024, a.groups)
    PER_THREAD(1024, float, sum, [1]);
    EACH_THREAD(1024)
    {
        const i64 c = group * 32 + t % 32;
        MY(sum)[0] = 0;
        if (c < a.columns)
            for (i64 p = t / 32; p < a.pieces; p += 32) MY(sum)[0] += a.sums[p * a.columns + c];
    }
    JOIN_LANES(1024, float, sum, add_f, 32)
    EACH_THREAD(1024)
    {
        const i64 c = group * 32 + t;
        if (t < 32 && c < a.columns) {
            if (c < a.split) {
                if (a.first) ((F_T *)a.first)[c] = F_STORE(MY(sum)[0]);
            } else if (c < 2 * a.split) {
                if (a.second) ((S_T *)a.second)[c - a.split] = S_STORE(MY(sum)[0]);
            } else if (a.third) a.third[c - 2 * a.split] = MY(sum)[0];
        }
    }
}
#endif
