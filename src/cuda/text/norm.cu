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
/* AHEAD: rows that come next are on their way into memory of the group: x, gy and what is added. */
#if AHEAD
enum { PARTS = 2 + ADDED, PART = EACH * THREADS * 16 };
#define PLACE(row, part) (ring + (((row) - first) % STAGES * PARTS + (part)) * PART + (j * THREADS + t) * 16)
#define READ(R, name, from, part)                                                                  \
    float name[VEC];                                                                               \
    OF_VECTOR(e) name[e] = R##_LOAD(((const R##_vector *)PLACE(row, part))->at[e]);
#define FETCH_ROW(number)                                                                          \
    if ((number) < last)                                                                           \
        EACH_THREAD(THREADS)                                                                       \
        {                                                                                          \
            ROW_BEGIN                                                                              \
                COPY_AHEAD(PLACE(number, 0), (const X_T *)a.x + (number) * WIDTH + i)              \
                COPY_AHEAD(PLACE(number, 1), (const G_T *)a.g + (number) * WIDTH + i)              \
                if (ADDED)                                                                         \
                    COPY_AHEAD(PLACE(number, 2), (const B_T *)a.added + (number) * WIDTH + i)      \
            ROW_END                                                                                \
        }                                                                                          \
    COPIES_END
#else
#define READ(R, name, from, part) float name[VEC]; R##_read(name, (const R##_T *)(from) + row * WIDTH, i);
#endif
KERNEL(THREADS) normalize_grad(const tli_norm_args a GROUP_PARAM)
{
    GROUP_BEGIN(THREADS, a.groups)
    const i64 first = group * a.each, last = LEAST(first + a.each, a.rows);
    PER_THREAD(THREADS, float, part, );
    PER_THREAD(THREADS, float, along, );
#if SUMS
    PER_THREAD(THREADS, float, sums, [2 + SUMMED][EACH][VEC]);
    EACH_THREAD(THREADS)
    {
        UNROLL for (int k = 0; k < 2 + SUMMED; k++)
            UNROLL for (int j = 0; j < EACH; j++) OF_VECTOR(e) MY(sums)[k][j][e] = 0;
    }
#endif
#if AHEAD
    ROOM(THREADS, ring, STAGES * PARTS * PART)
    UNROLL for (int k = 0; k < STAGES - 1; k++) FETCH_ROW(first + k)
#endif
    float next_mean = CENTERED ? a.mean[first] : 0, next_rstd = a.rstd[first];
    for (i64 row = first; row < last; row++) {
        Y_T *y = (Y_T *)a.y + row * WIDTH;
        const float mean = next_mean, rstd = next_rstd;
        if (row + 1 < last) {
            next_mean = CENTERED ? a.mean[row + 1] : 0;
            next_rstd = a.rstd[row + 1];
        }
#if AHEAD
        FETCH_ROW(row + STAGES - 1)
        COPIES_WAIT(STAGES - 1)
#endif
        EACH_THREAD(THREADS)
        {
            MY(part) = MY(along) = 0;
            ROW_BEGIN
                READ(X, v, a.x, 0)
                READ(G, d, a.g, 1)
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
                READ(X, v, a.x, 0)
                READ(G, d, a.g, 1)
                float to[VEC];
#if ADDED
                READ(B, other, a.added, 2)
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
                    MY(sums)[0][j][e] = vf_fma(u, away, MY(sums)[0][j][e]);
                    MY(sums)[1][j][e] += d[e];
                    if (SUMMED) MY(sums)[1 + SUMMED][j][e] += to[e];
#endif
                }
                Y_write(y, i, to);
            ROW_END
        }
    }
#if SUMS
    float *out = a.sums + group * (2 + SUMMED) * WIDTH;
    EACH_THREAD(THREADS)
    {
        ROW_BEGIN
            UNROLL for (int k = 0; k < 2 + SUMMED; k++)
                OF_VECTOR(e) out[k * WIDTH + i + e] = MY(sums)[k][j][e];
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
