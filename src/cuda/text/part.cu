/* What the texts of kernels share: vectors of elements, rows that a group of threads has, faults.
 *
 * Thread word: free-threaded. */

#define LEAST(a, b) ((a) < (b) ? (a) : (b))

/* Two numbers of bfloat16 in a word, the first one below: taken apart and put together as such, they
 * take half of the GPU's instructions. */
FN u32 bf16_pair(float first, float second)
{
#ifdef __CUDACC__
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
#else
    return bf16_bits_of_f(first) | (u32)bf16_bits_of_f(second) << 16;
#endif
}

/* To memory of the device: left to itself, the compiler often writes a vector in pieces. */
#ifdef __CUDACC__
#define WRITE_VECTOR(to, w)                                                                        \
    if (sizeof *(to) == 16)                                                                        \
        asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(                             \
                         __cvta_generic_to_global(to)),                                            \
                     "r"((w).at[0]), "r"((w).at[1]), "r"((w).at[2]), "r"((w).at[3])                \
                     : "memory");                                                                  \
    else *(to) = (w).v;
#else
#define WRITE_VECTOR(to, w) *(to) = (w).v;
#endif

/* VEC elements at once. NAME_open, NAME_close: to float and back. NAME_fetch: as they lie in
 * memory. NAME_read and NAME_write: both. */
#define VECTORS(X)                                                                                 \
    typedef struct                                                                                 \
        __attribute__((aligned(sizeof(X##_T) * VEC < 16 ? sizeof(X##_T) * VEC : 16))) X##_vector { \
        X##_T at[VEC];                                                                             \
    } X##_vector;                                                                                  \
    typedef union X##_words {                                                                      \
        X##_vector v;                                                                              \
        u32 at[(sizeof(X##_T) * VEC + 3) / 4];                                                     \
    } X##_words;                                                                                   \
    FN void X##_open(float *to, X##_vector v)                                                      \
    {                                                                                              \
        X##_words w;                                                                               \
        w.v = v;                                                                                   \
        UNROLL for (int e = 0; e < VEC; e++)                                                       \
            if (X##_IS_BF16 && VEC % 2 == 0)                                                       \
                to[e] = from_bits_f(e % 2 ? w.at[e / 2] & 0xffff0000u : w.at[e / 2] << 16);        \
            else to[e] = X##_LOAD(v.at[e]);                                                        \
    }                                                                                              \
    FN X##_words X##_close(const float *from)                                                      \
    {                                                                                              \
        X##_words w;                                                                               \
        UNROLL for (int e = 0; e < VEC; e++)                                                       \
            if (!X##_IS_BF16 || VEC % 2) w.v.at[e] = X##_STORE(from[e]);                           \
            else if (e % 2) w.at[e / 2] = bf16_pair(from[e - 1], from[e]);                         \
        return w;                                                                                  \
    }                                                                                              \
    FN X##_vector X##_fetch(const void *from, i64 i)                                               \
    {                                                                                              \
        return *(const X##_vector *)((const X##_T *)from + i);                                     \
    }                                                                                              \
    FN void X##_read(float *to, const void *from, i64 i)                                           \
    {                                                                                              \
        X##_open(to, X##_fetch(from, i));                                                          \
    }                                                                                              \
    FN void X##_write(void *to, i64 i, const float *from)                                          \
    {                                                                                              \
        const X##_words w = X##_close(from);                                                       \
        WRITE_VECTOR((X##_vector *)((X##_T *)to + i), w)                                           \
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
