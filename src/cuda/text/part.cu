/* What the texts of kernels share: vectors of elements, rows that a group of threads has, faults.
 *
 * Thread word: free-threaded. */

#define LEAST(a, b) ((a) < (b) ? (a) : (b))

/* NAME_read and NAME_write: VEC elements at once, from and to float. NAME_fetch: as they are. */
#define VECTORS(X)                                                                                 \
    typedef struct                                                                                 \
        __attribute__((aligned(sizeof(X##_T) * VEC < 16 ? sizeof(X##_T) * VEC : 16))) X##_vector { \
        X##_T at[VEC];                                                                             \
    } X##_vector;                                                                                  \
    FN X##_vector X##_fetch(const void *from, i64 i)                                               \
    {                                                                                              \
        return *(const X##_vector *)((const X##_T *)from + i);                                     \
    }                                                                                              \
    FN void X##_read(float *to, const void *from, i64 i)                                           \
    {                                                                                              \
        const X##_vector v = X##_fetch(from, i);                                                   \
        UNROLL for (int e = 0; e < VEC; e++) to[e] = X##_LOAD(v.at[e]);                            \
    }                                                                                              \
    FN void X##_write(void *to, i64 i, const float *from)                                          \
    {                                                                                              \
        X##_vector v;                                                                              \
        UNROLL for (int e = 0; e < VEC; e++) v.at[e] = X##_STORE(from[e]);                         \
        *(X##_vector *)((X##_T *)to + i) = v;                                                      \
    }

/* A row of WIDTH elements: thread t has vectors t, t + THREADS, ..., EACH of them at most. KEPT:
 * they fit its registers. */
#ifdef EACH
#if KEPT
#define UNROLL_ROW UNROLL
#elif defined(__CUDACC__)
#define UNROLL_ROW _Pragma("unroll 4")
#else
#define UNROLL_ROW
#endif
#define ROW_BEGIN                                                                                  \
    UNROLL_ROW for (int j = 0; j < EACH; j++) {                                                    \
        const int i = (j * THREADS + t) * VEC;                                                     \
        if (i < WIDTH) {
#define ROW_END }}
#define OF_VECTOR(e) UNROLL for (int e = 0; e < VEC; e++)
#endif

FN void note_fault(tli_fault *f, const tli_place *place, i64 value, i64 at, i64 limit, i64 axis)
{
    if (!CLAIM(&f->claimed)) return;
    f->value = value;
    f->at = at;
    f->limit = limit;
    f->axis = axis;
    f->place = *place;
}

/* exp of what is not above 0: rounded to half precision afterwards, the unit's estimate does. */
#if defined(__CUDACC__) && defined(ROUGH)
FN float power_of(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
    return y;
}
/* exp of x - top. */
FN float power_below(float x, float top)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;"
        : "=f"(y)
        : "f"(vf_fma(x, 1.44269504f, -(top * 1.44269504f))));
    return y;
}
#else
FN float power_of(float x)
{
    return exp_f(x);
}
FN float power_below(float x, float top)
{
    return exp_f(x - top);
}
#endif

/* The larger one, or NaN. */
FN float higher(float a, float b)
{
#ifdef __CUDACC__
    float most;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
    return most;
#else
    return maximum_f(a, b);
#endif
}
