/* softmax, its logarithm, losses by cross-entropy. A group of threads has a row; sums follow the
 * tree of the group.
 *
 * Thread word: free-threaded. */

VECTORS(X)

/* --- softmax ---------------------------------------------------------------------------------- */

#if defined(SOFTMAX)
VECTORS(Y)

/* The largest of what a thread has seen, and the sum of powers of what lies below it. */
typedef struct most {
    float top, sum;
} most;

FN most join_most(most a, const float *v)
{
    float top = a.top;
    OF_VECTOR(e) top = maximum_f(top, v[e]);
    if (top == -INF_F) return a;
    float sum = a.top == -INF_F ? 0 : a.sum * power_of(a.top - top);
    OF_VECTOR(e) sum += power_of(v[e] - top);
    const most m = {top, sum};
    return m;
}

KERNEL(THREADS) softmax_rows(const tli_rows_args a GROUP_PARAM)
{
    GROUP_BEGIN(THREADS, a.groups)
    const X_T *x = (const X_T *)a.x + group * WIDTH;
    Y_T *y = (Y_T *)a.y + group * WIDTH;
    PER_THREAD(THREADS, float, part, );
#if KEPT
    PER_THREAD(THREADS, float, row, [EACH][VEC]);
    EACH_THREAD(THREADS)
    {
        MY(part) = -INF_F;
        ROW_BEGIN
            X_read(MY(row)[j], x, i);
            OF_VECTOR(e) MY(part) = maximum_f(MY(part), MY(row)[j][e]);
        ROW_END
    }
    REDUCE(THREADS, float, top, maximum_f, part)
    EACH_THREAD(THREADS)
    {
        MY(part) = 0;
        ROW_BEGIN
            OF_VECTOR(e)
            {
                const float p = power_of(MY(row)[j][e] - top);
                if (!LOGARITHM) MY(row)[j][e] = p;
                MY(part) += p;
            }
        ROW_END
    }
    REDUCE(THREADS, float, sum, add_f, part)
#else
    PER_THREAD(THREADS, float, high, );
    EACH_THREAD(THREADS)
    {
        most m = {-INF_F, 0};
        ROW_BEGIN
            float v[VEC];
            X_read(v, x, i);
            m = join_most(m, v);
        ROW_END
        MY(high) = m.top;
        MY(part) = m.sum;
    }
    REDUCE(THREADS, float, top, maximum_f, high)
    EACH_THREAD(THREADS) { MY(part) = MY(high) == -INF_F ? 0 : MY(part) * power_of(MY(high) - top); }
    REDUCE(THREADS, float, sum, add_f, part)
#endif
    const float scale = LOGARITHM ? log_f(sum) : 1 / sum;
    EACH_THREAD(THREADS)
    {
        ROW_BEGIN
            float v[VEC];
#if KEPT
            OF_VECTOR(e) v[e] = MY(row)[j][e];
            OF_VECTOR(e) v[e] = LOGARITHM ? v[e] - top - scale : v[e] * scale;
#else
            X_read(v, x, i);
            OF_VECTOR(e) v[e] = LOGARITHM ? v[e] - top - scale : power_of(v[e] - top) * scale;
#endif
            Y_write(y, i, v);
        ROW_END
    }
}

/* Of the result: y (g - sum of y g), and g - exp(y) sum of g. */
VECTORS(G)
KERNEL(THREADS) softmax_grad_rows(const tli_rows_args a GROUP_PARAM)
{
    GROUP_BEGIN(THREADS, a.groups)
    const X_T *x = (const X_T *)a.x + group * WIDTH;
    const G_T *g = (const G_T *)a.g + group * WIDTH;
    Y_T *y = (Y_T *)a.y + group * WIDTH;
    PER_THREAD(THREADS, float, part, );
#if KEPT
    PER_THREAD(THREADS, float, row, [EACH][VEC]);
    PER_THREAD(THREADS, float, slope, [EACH][VEC]);
#define READ_BOTH                                                                                  \
    float *v = MY(row)[j], *d = MY(slope)[j];
#else
#define READ_BOTH                                                                                  \
    float v[VEC], d[VEC];                                                                          \
    X_read(v, x, i);                                                                               \
    G_read(d, g, i);
#endif
    EACH_THREAD(THREADS)
    {
        MY(part) = 0;
        ROW_BEGIN
            READ_BOTH
#if KEPT
            X_read(v, x, i);
            G_read(d, g, i);
#endif
            OF_VECTOR(e) MY(part) = LOGARITHM ? MY(part) + d[e] : vf_fma(d[e], v[e], MY(part));
        ROW_END
    }
    REDUCE(THREADS, float, sum, add_f, part)
    EACH_THREAD(THREADS)
    {
        ROW_BEGIN
            READ_BOTH
            float to[VEC];
            OF_VECTOR(e) to[e] = LOGARITHM ? vf_fnma(power_of(v[e]), sum, d[e]) : v[e] * (d[e] - sum);
            Y_write(y, i, to);
        ROW_END
    }
}

/* Along another axis than the last one: a thread has a column. */
KERNEL(256) softmax_columns(const tli_rows_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    EACH_THREAD(256)
    {
        const i64 c = group * 256 + t;
        if (c < a.count) {
            const i64 at = c / a.columns * a.columns * WIDTH + c % a.columns;
            const X_T *x = (const X_T *)a.x + at;
            Y_T *y = (Y_T *)a.y + at;
            float top = -INF_F, sum = 0;
            for (i64 i = 0; i < WIDTH; i++) top = maximum_f(top, X_LOAD(x[i * a.columns]));
            for (i64 i = 0; i < WIDTH; i++) sum += power_of(X_LOAD(x[i * a.columns]) - top);
            const float scale = LOGARITHM ? log_f(sum) : 1 / sum;
            for (i64 i = 0; i < WIDTH; i++) {
                const float d = X_LOAD(x[i * a.columns]) - top;
                y[i * a.columns] = Y_STORE(LOGARITHM ? d - scale : power_of(d) * scale);
            }
        }
    }
}

KERNEL(256) softmax_grad_columns(const tli_rows_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    EACH_THREAD(256)
    {
        const i64 c = group * 256 + t;
        if (c < a.count) {
            const i64 at = c / a.columns * a.columns * WIDTH + c % a.columns;
            const X_T *x = (const X_T *)a.x + at;
            const G_T *g = (const G_T *)a.g + at;
            Y_T *y = (Y_T *)a.y + at;
            float sum = 0;
            for (i64 i = 0; i < WIDTH; i++) {
                const float d = G_LOAD(g[i * a.columns]);
                sum = LOGARITHM ? sum + d : vf_fma(d, X_LOAD(x[i * a.columns]), sum);
            }
            for (i64 i = 0; i < WIDTH; i++) {
                const float d = G_LOAD(g[i * a.columns]), v = X_LOAD(x[i * a.columns]);
                y[i * a.columns] = Y_STORE(LOGARITHM ? vf_fnma(power_of(v), sum, d) : v * (d - sum));
            }
        }
    }
}
#endif

/* --- losses ----------------------------------------------------------------------------------- */

#if defined(ENTROPY)
/* What a thread has seen of a row of logits. */
typedef struct seen {
    float top, sum, all;
} seen;

FN seen see(seen s, const float *v)
{
    float top = s.top;
    OF_VECTOR(e) top = maximum_f(top, v[e]);
#if SMOOTH
    OF_VECTOR(e) s.all += v[e];
#endif
    if (top == -INF_F) return s;
    float sum = s.top == -INF_F ? 0 : s.sum * power_of(s.top - top);
    OF_VECTOR(e) sum += power_of(v[e] - top);
    s.top = top;
    s.sum = sum;
    return s;
}

/* Columns behind the last class, whose share is 0. */
#if PITCH > WIDTH
#define LEAVE_OUT(v)                                                                               \
    if (i + VEC > WIDTH) OF_VECTOR(e) if (i + e >= WIDTH) v[e] = -INF_F;
#else
#define LEAVE_OUT(v)
#endif
#define READ_ROW(to)                                                                               \
    X_read(to, x, i);                                                                              \
    LEAVE_OUT(to)
#define READ_AGAIN(to) READ_ROW(to)
/* The logarithm of the sum of powers is `lse`; the sum of all logits is `all`. */
#define LSE_OF_ROW                                                                                 \
    PER_THREAD(THREADS, float, high, );                                                            \
    PER_THREAD(THREADS, float, part, );                                                            \
    PER_THREAD(THREADS, float, total, );                                                           \
    EACH_THREAD(THREADS)                                                                           \
    {                                                                                              \
        seen s = {-INF_F, 0, 0};                                                                   \
        ROW_BEGIN                                                                                  \
            float v[VEC];                                                                          \
            READ_ROW(v)                                                                            \
            s = see(s, v);                                                                         \
        ROW_END                                                                                    \
        MY(high) = s.top;                                                                          \
        MY(part) = s.sum;                                                                          \
        MY(total) = s.all;                                                                         \
    }                                                                                              \
    REDUCE(THREADS, float, top, maximum_f, high)                                                   \
    EACH_THREAD(THREADS)                                                                           \
    {                                                                                              \
        MY(part) = MY(high) == -INF_F ? 0 : MY(part) * power_of(MY(high) - top);                   \
    }                                                                                              \
    REDUCE(THREADS, float, sum, add_f, part)                                                       \
    const float lse = isfinite_f(top) ? top + log_f(sum) : top;

/* Without SPARSE there are no labels, but targets, which lie as the logits do. */
#if SPARSE
#if SMOOTH
#define ALL_OF_ROW REDUCE(THREADS, float, all, add_f, total)
#else
#define ALL_OF_ROW const float all = 0;
#endif
/* What depends on the label is on its way while the row is read. */
#define LABEL_BEGIN(row)                                                                           \
    const i64 label = (i64)((const L_T *)a.labels)[row];                                           \
    const int ignored = a.ignores && label == a.ignored, known = label >= 0 && label < WIDTH;      \
    const float at_label = known ? X_LOAD(x[label]) : 0;
#define TELL_LOSS(row)                                                                             \
    ALL_OF_ROW                                                                                     \
    ONE_THREAD(THREADS)                                                                            \
    {                                                                                              \
        float loss = 0;                                                                            \
        if (!ignored && !known) {                                                                  \
            note_fault(a.fault, &a.place, label, row, WIDTH, -1);                                  \
            loss = NAN_F;                                                                          \
        } else if (!ignored) {                                                                     \
            loss = (float)((SMOOTH ? 1 - a.smoothing : 1) * ((double)lse - (double)at_label));     \
            if (SMOOTH) loss += (float)(a.smoothing * ((double)lse - (double)all / WIDTH));        \
        }                                                                                          \
        a.loss[row] = loss;                                                                        \
        a.lse[row] = lse;                                                                          \
    }

KERNEL(THREADS) sparse_rows(const tli_entropy_args a GROUP_PARAM)
{
    GROUP_BEGIN(THREADS, a.groups)
    const X_T *x = (const X_T *)a.logits + group * PITCH;
    LABEL_BEGIN(group)
    LSE_OF_ROW
    TELL_LOSS(group)
}

VECTORS(Y)
/* The gradient of a row, once `lse` is known. It may lie over the logits: each element is read by
 * the thread that writes it, before that; the label's also by LABEL_BEGIN, which therefore stands
 * before the sums of the row, at which all threads meet. */
#define GRAD_BEGIN(row)                                                                            \
    LABEL_BEGIN(row)                                                                               \
    const float g = ignored ? 0 : a.g[row];                                                        \
    const float even = SMOOTH ? (float)(a.smoothing / WIDTH) : 0;                                  \
    const float target = SMOOTH ? (float)(1 - a.smoothing) + even : 1;
#define GRAD_OF(to, v)                                                                             \
    OF_VECTOR(e)                                                                                   \
    {                                                                                              \
        const float p = power_below(v[e], lse);                                                    \
        to[e] = ignored ? 0 : g * (SMOOTH ? p - even : p);                                         \
    }
/* At the label the difference of numbers near 1 is what counts. */
#define GRAD_AT(v) (g * (expm1_f((v) - lse) + (1 - target)))
/* Each element is written once: where several groups of threads make the same row (cuda/whole.h),
 * one may read what another has just written. */
#define GRAD_OF_ROW                                                                                \
    EACH_THREAD(THREADS)                                                                           \
    {                                                                                              \
        ROW_BEGIN                                                                                  \
            float v[VEC], to[VEC];                                                                 \
            READ_AGAIN(v)                                                                          \
            GRAD_OF(to, v)                                                                         \
            OF_VECTOR(e) if (i + e == label && known && !ignored) to[e] = GRAD_AT(v[e]);           \
            Y_write(y, i, to);                                                                     \
        ROW_END                                                                                    \
    }

KERNEL(THREADS) sparse_grad_rows(const tli_entropy_args a GROUP_PARAM)
{
    GROUP_BEGIN(THREADS, a.groups)
    const X_T *x = (const X_T *)a.logits + group * PITCH;
    Y_T *y = (Y_T *)a.y + group * PITCH;
    const float lse = a.given[group];
    GRAD_BEGIN(group)
    GRAD_OF_ROW
}

/* The loss and its gradient: the row comes from memory once. SHARED_ROW: into memory of the group,
 * row after row. A thread reads what it has fetched itself, in four lots: their sums are made as
 * they come, and as soon as a lot has become gradients that of the next row is on its way. */
#if SHARED_ROW
#define LOT_BEGIN(lot)                                                                             \
    UNROLL for (int j = EACH * (lot) / 4; j < EACH * ((lot) + 1) / 4; j++) {                       \
        const int i = (j * THREADS + t) * VEC;                                                     \
        if (i < WIDTH) {
#define LOT_END }}
#define READ_LOT(to)                                                                               \
    float to[VEC];                                                                                 \
    X_open(to, *(const X_vector *)(room + i * sizeof(X_T)));                                       \
    LEAVE_OUT(to)
#define FETCH_LOT(lot)                                                                             \
    EACH_THREAD(THREADS)                                                                           \
    {                                                                                              \
        LOT_BEGIN(lot)                                                                             \
            COPY_AHEAD(room + i * sizeof(X_T), x + i)                                              \
        LOT_END                                                                                    \
    }                                                                                              \
    COPIES_END
/* What lies below a higher top weighs less. */
#define SUM_LOT(lot)                                                                               \
    COPIES_WAIT(3 - (lot))                                                                         \
    EACH_THREAD(THREADS)                                                                           \
    {                                                                                              \
        float top = MY(high);                                                                      \
        LOT_BEGIN(lot)                                                                             \
            READ_LOT(v)                                                                            \
            OF_VECTOR(e) top = higher(top, v[e]);                                                  \
            if (SMOOTH) OF_VECTOR(e) MY(total) += v[e];                                            \
        LOT_END                                                                                    \
        if (top != -INF_F) {                                                                       \
            float sum = MY(high) == -INF_F ? 0 : MY(part) * power_below(MY(high), top);            \
            LOT_BEGIN(lot)                                                                         \
                READ_LOT(v)                                                                        \
                OF_VECTOR(e) sum += power_below(v[e], top);                                        \
            LOT_END                                                                                \
            MY(part) = sum;                                                                        \
            MY(high) = top;                                                                        \
        }                                                                                          \
    }
#define GRAD_LOT(lot)                                                                              \
    LOT_BEGIN(lot)                                                                                 \
        READ_LOT(v)                                                                                \
        float to[VEC];                                                                             \
        GRAD_OF(to, v)                                                                             \
        Y_write(y, i, to);                                                                         \
        if (row + 1 < last) COPY_AHEAD(room + i * sizeof(X_T), x + PITCH + i)                      \
    LOT_END                                                                                        \
    COPIES_END
KERNEL(THREADS) sparse_both_rows(const tli_entropy_args a GROUP_PARAM)
{
    GROUP_BEGIN(THREADS, a.groups)
    const i64 first = group * a.each, last = LEAST(first + a.each, a.rows);
    const X_T *x = (const X_T *)a.logits + first * PITCH;
    ROOM(THREADS, room, PITCH * sizeof(X_T))
    PER_THREAD(THREADS, float, high, );
    PER_THREAD(THREADS, float, part, );
    PER_THREAD(THREADS, float, total, );
    FETCH_LOT(0) FETCH_LOT(1) FETCH_LOT(2) FETCH_LOT(3)
    for (i64 row = first; row < last; row++, x += PITCH) {
        Y_T *y = (Y_T *)a.y + row * PITCH;
        GRAD_BEGIN(row)
        EACH_THREAD(THREADS)
        {
            MY(high) = -INF_F;
            MY(part) = MY(total) = 0;
        }
        SUM_LOT(0) SUM_LOT(1) SUM_LOT(2) SUM_LOT(3)
        REDUCE(THREADS, float, top, higher, high)
        EACH_THREAD(THREADS)
        {
            MY(part) = MY(high) == -INF_F ? 0 : MY(part) * power_below(MY(high), top);
        }
        REDUCE(THREADS, float, sum, add_f, part)
        const float lse = isfinite_f(top) ? top + log_f(sum) : top;
        TELL_LOSS(row)
        EACH_THREAD(THREADS)
        {
            GRAD_LOT(0) GRAD_LOT(1) GRAD_LOT(2) GRAD_LOT(3)
            // The thread that has the label writes it twice: less to do for all other elements.
            if (!ignored && known && label / VEC % THREADS == t)
                y[label] = Y_STORE(GRAD_AT(at_label));
        }
    }
}
#else
/* KEPT: into registers. */
#if KEPT
#undef READ_ROW
#undef READ_AGAIN
#define READ_ROW(to)                                                                               \
    MY(row)[j] = X_fetch(x, i);                                                                    \
    READ_AGAIN(to)
#define READ_AGAIN(to)                                                                             \
    X_open(to, MY(row)[j]);                                                                        \
    LEAVE_OUT(to)
#endif
KERNEL(THREADS) sparse_both_rows(const tli_entropy_args a GROUP_PARAM)
{
    GROUP_BEGIN(THREADS, a.groups)
    const X_T *x = (const X_T *)a.logits + group * PITCH;
    Y_T *y = (Y_T *)a.y + group * PITCH;
#if KEPT
    PER_THREAD(THREADS, X_vector, row, [EACH]);
#endif
    GRAD_BEGIN(group)
    LSE_OF_ROW
    GRAD_OF_ROW
    TELL_LOSS(group) // whose logit comes last
}
#endif
#else
VECTORS(L)
FN float target_of(float share, double smoothing)
{
    return vf_fma(share, (float)(1 - smoothing), (float)(smoothing / WIDTH));
}

KERNEL(THREADS) dense_rows(const tli_entropy_args a GROUP_PARAM)
{
    GROUP_BEGIN(THREADS, a.groups)
    const X_T *x = (const X_T *)a.logits + group * PITCH;
    const L_T *shares = (const L_T *)a.labels + group * PITCH;
    LSE_OF_ROW
    EACH_THREAD(THREADS)
    {
        MY(total) = 0;
        ROW_BEGIN
            float v[VEC], s[VEC];
            X_read(v, x, i);
            L_read(s, shares, i);
            OF_VECTOR(e)
            {
                const float target = target_of(s[e], a.smoothing);
                if (target != 0) MY(total) += target * (lse - v[e]); // 0 times infinity is 0 here
            }
        ROW_END
    }
    REDUCE(THREADS, float, loss, add_f, total)
    ONE_THREAD(THREADS)
    {
        a.loss[group] = loss;
        a.lse[group] = lse;
    }
}

VECTORS(Y)
KERNEL(THREADS) dense_grad_rows(const tli_entropy_args a GROUP_PARAM)
{
    GROUP_BEGIN(THREADS, a.groups)
    const X_T *x = (const X_T *)a.logits + group * PITCH;
    const L_T *shares = (const L_T *)a.labels + group * PITCH;
    Y_T *y = (Y_T *)a.y + group * PITCH;
    const float g = a.g[group], lse = a.given[group];
    PER_THREAD(THREADS, float, part, );
    EACH_THREAD(THREADS)
    {
        MY(part) = 0;
        ROW_BEGIN
            float s[VEC];
            L_read(s, shares, i);
            OF_VECTOR(e) MY(part) += target_of(s[e], a.smoothing);
        ROW_END
    }
    REDUCE(THREADS, float, whole, add_f, part)
    EACH_THREAD(THREADS)
    {
        ROW_BEGIN
            float v[VEC], s[VEC];
            X_read(v, x, i);
            L_read(s, shares, i);
            OF_VECTOR(e)
            v[e] = g * (power_of(v[e] - lse) * whole - target_of(s[e], a.smoothing));
            Y_write(y, i, v);
        ROW_END
    }
}
#endif
#endif

#if defined(QUESTIONS)
VECTORS(L)
VECTORS(Y)
KERNEL(256) sigmoid_entropy(const tli_flat_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    EACH_THREAD(256)
    {
        const i64 i = (group * 256 + t) * VEC;
        if (i < a.count) {
            float z[VEC], s[VEC];
            X_read(z, a.x, i);
            L_read(s, a.g, i);
            UNROLL for (int e = 0; e < VEC; e++)
                z[e] = vf_fnma(z[e], s[e], vf_max_c(z[e], 0)) + log1p_f(exp_f(-abs_f(z[e])));
            Y_write(a.y, i, z);
        }
    }
}
#endif
