/* Elements that are moved or made: boxes of them, padding, constants, sums in place, scans, choices
 * along an axis.
 *
 * Thread word: free-threaded. */

#define ELEMENTS                                                                                   \
    GROUP_BEGIN(256, a.groups)                                                                     \
    EACH_THREAD(256)                                                                               \
    {                                                                                              \
        const i64 i = group * 256 + t;                                                             \
        if (i < a.count) {
#define ELEMENTS_END }}

#if defined(BOX)
KERNEL(256) move_box(const tli_box_args a GROUP_PARAM)
{
    ELEMENTS
        i64 left = i, from = 0, to = 0;
        for (i64 k = a.rank - 1; k > 0; k--) {
            const i64 at = left % a.dims[k];
            left /= a.dims[k];
            from += at * a.from[k];
            to += at * a.to[k];
        }
        from += left * a.from[0];
        to += left * a.to[0];
        ((U_T *)a.y)[to] = ((const U_T *)a.x)[from];
    ELEMENTS_END
}
#endif

#if defined(REFLECT)
KERNEL(256) pad_reflect(const tli_make_args a GROUP_PARAM)
{
    ELEMENTS
        i64 left = i, from = 0;
        for (i64 k = a.rank - 1; k >= 0; k--) {
            const i64 size = a.dims[k], whole = size + a.before[k] + a.after[k];
            i64 at = left % whole - a.before[k];
            left /= whole;
            if (at < 0) at = -at;
            if (at >= size) at = 2 * (size - 1) - at;
            from += at * a.from[k];
        }
        ((U_T *)a.y)[i] = ((const U_T *)a.x)[from];
    ELEMENTS_END
}
#endif

#if defined(FILL)
KERNEL(256) fill(const tli_make_args a GROUP_PARAM)
{
    ELEMENTS
        ((U_T *)a.y)[i] = (U_T)a.bits;
    ELEMENTS_END
}
#endif

#if defined(ADD)
KERNEL(256) add_to(const tli_add_args a GROUP_PARAM)
{
    ELEMENTS
        Y_T *const y = (Y_T *)a.y + i;
        const Y_T x = ((const Y_T *)a.x)[i];
        const Y_T there = a.begins && *a.begins ? (Y_T)0 : *y, more = MORE;
        *y = SUM;
    ELEMENTS_END
}
#endif

#if defined(ARANGE)
KERNEL(256) arange(const tli_make_args a GROUP_PARAM)
{
    ELEMENTS
        ((Y_T *)a.y)[i] = (Y_T)Y_OF_D(a.start + (double)i * a.step);
    ELEMENTS_END
}
#endif

#if defined(ONE_HOT)
KERNEL(256) one_hot(const tli_make_args a GROUP_PARAM)
{
    ELEMENTS
        const i64 index = (i64)((const I_T *)a.x)[i / a.depth];
        ((U_T *)a.y)[i] = i % a.depth == index ? (U_T)a.bits : (U_T)0;
    ELEMENTS_END
}
#endif

#if defined(EACH_D) /* functions of doubles, which nests have none of */
KERNEL(256) each_double(const tli_flat_args a GROUP_PARAM)
{
    ELEMENTS
        const double x = ((const double *)a.x)[i], y = a.g ? ((const double *)a.g)[i] : 0;
        (void)y;
        ((double *)a.y)[i] = EACH_D;
    ELEMENTS_END
}
#endif

/* --- along an axis ---------------------------------------------------------------------------- */

#if defined(CHOOSE)
/* The first of the largest, or of the smallest; NaN is beyond both. A group has a line. */
FN int is_better(X_T a, i64 i, X_T b, i64 k)
{
    if (k < 0) return 1;
    const KIND p = X_VALUE(a), q = X_VALUE(b);
    if (q != q) return p != p && i < k;
    if (p != p) return 1;
    if (CHOOSE ? p > q : p < q) return 1;
    return p == q && i < k;
}

KERNEL(128) choose(const tli_axis_args a GROUP_PARAM)
{
    GROUP_BEGIN(128, a.groups)
    const X_T *x = (const X_T *)a.x + group / a.behind * a.axis * a.behind + group % a.behind;
    SHARED(i64, found, [128]);
    EACH_THREAD(128)
    {
        i64 best = -1;
        for (i64 i = t; i < a.axis; i += 128)
            if (is_better(x[i * a.behind], i, best < 0 ? x[0] : x[best * a.behind], best)) best = i;
        found[t] = best;
    }
    BARRIER(128)
    ONE_THREAD(128)
    {
        i64 best = found[0];
        for (int k = 1; k < 128; k++)
            if (found[k] >= 0 && is_better(x[found[k] * a.behind], found[k], x[best * a.behind], best))
                best = found[k];
        ((i64 *)a.y)[group] = best;
    }
}
#endif

#if defined(RANK) /* 1: the largest come first */
/* NaN is above everything; of equal ones the first comes first. An element's place is the number of
 * those that come before it. */
FN int is_above(KIND p, KIND q)
{
    return p != p ? q == q : p > q;
}

KERNEL(256) rank(const tli_axis_args a GROUP_PARAM)
{
    ELEMENTS
        const i64 k = i % a.behind, at = i / a.behind % a.axis, line = i / (a.behind * a.axis);
        const X_T *x = (const X_T *)a.x + line * a.axis * a.behind + k;
        const KIND own = X_VALUE(x[at * a.behind]);
        i64 before = 0;
        for (i64 j = 0; j < a.axis; j++) {
            const KIND other = X_VALUE(x[j * a.behind]);
            const int first = RANK ? is_above(other, own) : is_above(own, other);
            const int later = RANK ? is_above(own, other) : is_above(other, own);
            before += first || (!later && j < at);
        }
        if (before < a.keep) {
            const i64 to = (line * a.keep + before) * a.behind + k;
            ((X_T *)a.y)[to] = x[at * a.behind];
            a.places[to] = at;
        }
    ELEMENTS_END
}
#endif

#if defined(SCAN)
/* Sums up to each element: a group has a line, its threads parts of it one after the other. */
KERNEL(128) scan(const tli_axis_args a GROUP_PARAM)
{
    GROUP_BEGIN(128, a.groups)
    const i64 at = group / a.behind * a.axis * a.behind + group % a.behind;
    const i64 each = (a.axis + 127) / 128;
    SHARED(SUM_T, sums, [128]);
#define PLACE(i) (at + (a.reverse ? a.axis - 1 - (i) : (i)) * a.behind)
    EACH_THREAD(128)
    {
        SUM_T sum = 0;
        for (i64 i = t * each; i < LEAST((t + 1) * each, a.axis); i++)
            sum = SUM_ADD(sum, SUM_OF(((const X_T *)a.x)[PLACE(i)]));
        sums[t] = sum;
    }
    BARRIER(128)
    ONE_THREAD(128)
    {
        SUM_T sum = 0;
        for (int k = 0; k < 128; k++) {
            const SUM_T next = SUM_ADD(sum, sums[k]);
            sums[k] = sum;
            sum = next;
        }
    }
    BARRIER(128)
    EACH_THREAD(128)
    {
        SUM_T sum = sums[t];
        for (i64 i = t * each; i < LEAST((t + 1) * each, a.axis); i++) {
            const SUM_T next = SUM_ADD(sum, SUM_OF(((const X_T *)a.x)[PLACE(i)]));
            ((X_T *)a.y)[PLACE(i)] = OF_SUM(a.exclusive ? sum : next);
            sum = next;
        }
    }
}
#endif

#if defined(SPREAD_OF) /* 0: variance, 1: logsumexp, of rows */
KERNEL(256) spread_rows(const tli_axis_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    const X_T *x = (const X_T *)a.x + group * a.axis;
#if SPREAD_OF == 0
    PER_THREAD(256, double, part, );
    EACH_THREAD(256)
    {
        MY(part) = 0;
        for (i64 i = t; i < a.axis; i += 256) MY(part) += (double)X_LOAD(x[i]);
    }
    REDUCE(256, double, sum, add_d, part)
    const double mean = sum / (double)a.axis;
    EACH_THREAD(256)
    {
        MY(part) = 0;
        for (i64 i = t; i < a.axis; i += 256) {
            const double d = (double)X_LOAD(x[i]) - mean;
            MY(part) += d * d;
        }
    }
    REDUCE(256, double, squares, add_d, part)
    ONE_THREAD(256) { ((Y_T *)a.y)[group] = Y_OF_D(squares / (double)(a.axis - a.correction)); }
#else
    PER_THREAD(256, float, high, );
    PER_THREAD(256, double, part, );
    EACH_THREAD(256)
    {
        MY(high) = -INF_F;
        for (i64 i = t; i < a.axis; i += 256) MY(high) = maximum_f(MY(high), X_LOAD(x[i]));
    }
    REDUCE(256, float, top, maximum_f, high)
    EACH_THREAD(256)
    {
        MY(part) = 0;
        for (i64 i = t; i < a.axis; i += 256) MY(part) += (double)exp_f(X_LOAD(x[i]) - top);
    }
    REDUCE(256, double, sum, add_d, part)
    ONE_THREAD(256)
    {
        const double all = (double)top + __builtin_log(sum);
        ((Y_T *)a.y)[group] = Y_OF_D(isfinite_f(top) ? all : (double)top);
    }
#endif
}
#endif
