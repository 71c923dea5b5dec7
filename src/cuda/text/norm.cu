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
    const float rstd = (float)(1 / __builtin_sqrt((double)squares / WIDTH + a.epsilon));
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
 * (x - mean) rstd and of gy stay with the threads that have the columns. */
#if defined(GRADIENT)
VECTORS(G)
/* What is read soon comes nearer. */
#ifdef __CUDACC__
#define SOON(at) asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#else
#define SOON(at) (void)(at);
#endif
/* What is kept stays as it was in memory, and that of the next row is under way meanwhile. */
#if KEPT
#define AS_IT_IS(R, name)                                                                          \
    PER_THREAD(THREADS, R##_vector, name, [EACH]);                                                 \
    PER_THREAD(THREADS, R##_vector, name##_next, [EACH]);
#define FETCH(R, name, from) MY(name##_next)[j] = *(const R##_vector *)((from) + i);
#define NEXT(R, name, from)                                                                        \
    MY(name##_row)[j] = MY(name##_row_next)[j];                                                    \
    if (row + 1 < last) FETCH(R, name##_row, from + WIDTH)                                         \
    SEEN(R, name, from)
#define SEEN(R, name, from)                                                                        \
    float name[VEC];                                                                               \
    OF_VECTOR(e) name[e] = R##_LOAD(MY(name##_row)[j].at[e]);
#else
#define AS_IT_IS(R, name)
#define NEXT(R, name, from) float name[VEC]; R##_read(name, from, i);
#define SEEN(R, name, from) NEXT(R, name, from)
#endif
KERNEL(THREADS) normalize_grad(const tli_norm_args a GROUP_PARAM)
{
    GROUP_BEGIN(THREADS, a.groups)
    const i64 first = group * a.each, last = LEAST(first + a.each, a.rows);
    PER_THREAD(THREADS, float, part, );
    PER_THREAD(THREADS, float, along, );
    AS_IT_IS(X, v_row)
    AS_IT_IS(G, d_row)
#if KEPT
    EACH_THREAD(THREADS)
    {
        ROW_BEGIN
            FETCH(X, v_row, (const X_T *)a.x + first * WIDTH)
            FETCH(G, d_row, (const G_T *)a.g + first * WIDTH)
        ROW_END
    }
#endif
#if SUMS
    PER_THREAD(THREADS, float, of_gamma, [EACH][VEC]);
    PER_THREAD(THREADS, float, of_beta, [EACH][VEC]);
    EACH_THREAD(THREADS)
    {
        UNROLL for (int j = 0; j < EACH; j++)
            UNROLL for (int e = 0; e < VEC; e++) MY(of_gamma)[j][e] = MY(of_beta)[j][e] = 0;
    }
#endif
    for (i64 row = first; row < last; row++) {
        const X_T *x = (const X_T *)a.x + row * WIDTH;
        const G_T *g = (const G_T *)a.g + row * WIDTH;
        Y_T *y = (Y_T *)a.y + row * WIDTH;
        const float mean = CENTERED ? a.mean[row] : 0, rstd = a.rstd[row];
        EACH_THREAD(THREADS)
        {
            MY(part) = MY(along) = 0;
            ROW_BEGIN
                NEXT(X, v, x)
                NEXT(G, d, g)
#if ADDED
                if (row + 1 < last) SOON((const B_T *)a.added + (row + 1) * WIDTH + i)
#endif
#if SCALED
                float gamma[VEC];
                P_read(gamma, a.gamma, i);
#endif
                OF_VECTOR(e)
                {
#if SCALED
                    const float s = d[e] * gamma[e];
#else
                    const float s = d[e];
#endif
                    MY(part) += s;
                    MY(along) = vf_fma(s, v[e] - mean, MY(along));
                }
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
                SEEN(X, v, x)
                SEEN(G, d, g)
                float to[VEC];
#if ADDED
                float other[VEC];
                B_read(other, (const B_T *)a.added + row * WIDTH, i);
#endif
#if SCALED
                float gamma[VEC];
                P_read(gamma, a.gamma, i);
#endif
                OF_VECTOR(e)
                {
                    const float u = d[e] * rstd, away = v[e] - mean;
#if SCALED
                    const float s = u * gamma[e];
#else
                    const float s = u;
#endif
                    to[e] = vf_fnma(away, slope, s) - shift;
#if ADDED
                    to[e] += other[e];
#endif
#if SUMS
                    MY(of_gamma)[j][e] = vf_fma(u, away, MY(of_gamma)[j][e]);
                    MY(of_beta)[j][e] += d[e];
#endif
                }
                Y_write(y, i, to);
            ROW_END
        }
    }
#if SUMS
    float *sums = a.sums + group * 2 * WIDTH;
    EACH_THREAD(THREADS)
    {
        ROW_BEGIN
            OF_VECTOR(e)
            {
                sums[i + e] = MY(of_gamma)[j][e];
                sums[WIDTH + i + e] = MY(of_beta)[j][e];
            }
        ROW_END
    }
#endif
}

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
            a.sums[piece * 2 * WIDTH + c] = of_gamma;
            a.sums[piece * 2 * WIDTH + WIDTH + c] = of_beta;
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
            } else if (a.second) ((S_T *)a.second)[c - a.split] = S_STORE(MY(sum)[0]);
        }
    }
}
#endif
