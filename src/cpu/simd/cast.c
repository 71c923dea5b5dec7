/* Casts between all types. Values pass through one of four: float (of the short float types),
 * double, int32 and int64 (of the integers); what they become is rounded once. */
#include <math.h>

#include "cpu/loop.h"
#include "cpu/simd/kernels.h"
#include "cpu/simd/vec.h"

/* --- one value -------------------------------------------------------------------------------- */

// A float that rounds to any shorter type as the double would: where it cannot be the double, it is
// the odd one of the two beside it.
TLI_INLINE float odd_float(double value)
{
    const float f = (float)value;
    if ((double)f == value || value != value || isinf(f)) return f;
    uint32_t bits = tli_float_to_bits(f);
    if (fabs((double)f) > fabs(value)) bits--;
    return tli_bits_to_float(bits | 1u);
}

// The same for an integer beyond 2^53.
TLI_INLINE double odd_double(int64_t value)
{
    const uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;
    if (size < UINT64_C(1) << 53) return (double)value;
    const int shift = 11 - __builtin_clzll(size);
    const uint64_t lost = (size & ((UINT64_C(1) << shift) - 1)) != 0;
    const double cut = (double)(size >> shift | lost) * (double)(UINT64_C(1) << shift);
    return value < 0 ? -cut : cut;
}

#define SATURATE(name, type, low, high)                                                            \
    TLI_INLINE type name##_of_double(double v)                                                     \
    {                                                                                              \
        if (v != v) return 0;                                                                      \
        return v <= (double)(low) ? (low) : v >= (double)(high) ? (high) : (type)v;                \
    }
SATURATE(i8, int8_t, INT8_MIN, INT8_MAX)
SATURATE(u8, uint8_t, 0, UINT8_MAX)
SATURATE(i16, int16_t, INT16_MIN, INT16_MAX)
SATURATE(i32, int32_t, INT32_MIN, INT32_MAX)
SATURATE(i64, int64_t, INT64_MIN, INT64_MAX)

/*  to what, from which of the four */
#define F32_OF_F(v) (v)
#define F32_OF_D(v) (float)(v)
#define F32_OF_I(v) (float)(v)
#define F32_OF_L(v) (float)(v)
#define F64_OF_F(v) (double)(v)
#define F64_OF_D(v) (v)
#define F64_OF_I(v) (double)(v)
#define F64_OF_L(v) (double)(v)
#define BF16_OF_F(v) tli_to_bf16(v)
#define BF16_OF_D(v) tli_to_bf16(odd_float(v))
#define BF16_OF_I(v) tli_to_bf16(odd_float((double)(v)))
#define BF16_OF_L(v) tli_to_bf16(odd_float(odd_double(v)))
#define F16_OF_F(v) tli_to_f16(v)
#define F16_OF_D(v) tli_to_f16(odd_float(v))
#define F16_OF_I(v) tli_to_f16(odd_float((double)(v)))
#define F16_OF_L(v) tli_to_f16(odd_float(odd_double(v)))
#define I8_OF_F(v) i8_of_double((double)(v))
#define I8_OF_D(v) i8_of_double(v)
#define I8_OF_I(v) (int8_t)(v)
#define I8_OF_L(v) (int8_t)(v)
#define U8_OF_F(v) u8_of_double((double)(v))
#define U8_OF_D(v) u8_of_double(v)
#define U8_OF_I(v) (uint8_t)(v)
#define U8_OF_L(v) (uint8_t)(v)
#define I16_OF_F(v) i16_of_double((double)(v))
#define I16_OF_D(v) i16_of_double(v)
#define I16_OF_I(v) (int16_t)(v)
#define I16_OF_L(v) (int16_t)(v)
#define I32_OF_F(v) i32_of_double((double)(v))
#define I32_OF_D(v) i32_of_double(v)
#define I32_OF_I(v) (v)
#define I32_OF_L(v) (int32_t)(v)
#define I64_OF_F(v) i64_of_double((double)(v))
#define I64_OF_D(v) i64_of_double(v)
#define I64_OF_I(v) (int64_t)(v)
#define I64_OF_L(v) (v)
#define BOOL_OF_F(v) ((v) != 0)
#define BOOL_OF_D(v) ((v) != 0)
#define BOOL_OF_I(v) ((v) != 0)
#define BOOL_OF_L(v) ((v) != 0)

#define ITSELF(v) (v)
#define TRUTH(v) ((v) != 0)
/*    type, C type, which of the four, how it is read */
#define TYPES(X)                                                                                   \
    X(F32, float, F, ITSELF)                                                                       \
    X(BF16, uint16_t, F, tli_from_bf16)                                                            \
    X(F16, uint16_t, F, tli_from_f16)                                                              \
    X(F64, double, D, ITSELF)                                                                      \
    X(I8, int8_t, I, ITSELF)                                                                       \
    X(I16, int16_t, I, ITSELF)                                                                     \
    X(I32, int32_t, I, ITSELF)                                                                     \
    X(I64, int64_t, L, ITSELF)                                                                     \
    X(U8, uint8_t, I, ITSELF)                                                                      \
    X(BOOL, uint8_t, I, TRUTH)

typedef float value_F;
typedef double value_D;
typedef int32_t value_I;
typedef int64_t value_L;

/* --- rows, `step` elements apart at the source ------------------------------------------------ */

typedef void cast_fn(void *to, const void *from, int64_t step, int64_t n);

#define CAST(from_id, from_type, kind, read, to_id, to_type)                                       \
    static void from_id##_to_##to_id(void *to, const void *from, int64_t step, int64_t n)          \
    {                                                                                              \
        to_type *restrict y = to;                                                                  \
        const from_type *restrict x = from;                                                        \
        if (step == 1) {                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const value_##kind v = (value_##kind)read(x[i]);                                   \
                y[i] = to_id##_OF_##kind(v);                                                       \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const value_##kind v = (value_##kind)read(x[i * step]);                            \
                y[i] = to_id##_OF_##kind(v);                                                       \
            }                                                                                      \
        }                                                                                          \
    }
// The same list twice cannot be named inside itself: one line for each target.
#define TO_F32(id, type, kind, read) CAST(id, type, kind, read, F32, float)
#define TO_BF16(id, type, kind, read) CAST(id, type, kind, read, BF16, uint16_t)
#define TO_F16(id, type, kind, read) CAST(id, type, kind, read, F16, uint16_t)
#define TO_F64(id, type, kind, read) CAST(id, type, kind, read, F64, double)
#define TO_I8(id, type, kind, read) CAST(id, type, kind, read, I8, int8_t)
#define TO_I16(id, type, kind, read) CAST(id, type, kind, read, I16, int16_t)
#define TO_I32(id, type, kind, read) CAST(id, type, kind, read, I32, int32_t)
#define TO_I64(id, type, kind, read) CAST(id, type, kind, read, I64, int64_t)
#define TO_U8(id, type, kind, read) CAST(id, type, kind, read, U8, uint8_t)
#define TO_BOOL(id, type, kind, read) CAST(id, type, kind, read, BOOL, uint8_t)
TYPES(TO_F32)
TYPES(TO_BF16)
TYPES(TO_F16)
TYPES(TO_F64)
TYPES(TO_I8)
TYPES(TO_I16)
TYPES(TO_I32)
TYPES(TO_I64)
TYPES(TO_U8)
TYPES(TO_BOOL)

/* --- in vectors ------------------------------------------------------------------------------- */

TLI_INLINE vi saturated(vf x)
{
#if defined(TLI_ISA_neon) || defined(TLI_ISA_neon_bf16)
    return vf_to_vi(x); // the instruction does all of that
#else
    const vf low = vf_set1(-0x1p31f), high = vf_set1(0x1p31f);
    const vm above = vf_ge(x, high), usual = vm_andnot(vf_ge(x, low), above);
    const vi inside = vf_to_vi(vf_keep(usual, x)); // NaN is not inside, and becomes 0
    const vi below = vi_select(vf_lt(x, low), vi_set1(INT32_MIN), inside);
    return vi_select(above, vi_set1(INT32_MAX), below);
#endif
}

#define UNROLLED_4(...) _Pragma("GCC unroll 4") for (__VA_ARGS__)
#define VECTOR(from_id, from_type, load, to_id, to_type, store, map)                               \
    static void from_id##_to_##to_id##_vector(void *to, const void *from, int64_t step, int64_t n) \
    {                                                                                              \
        to_type *y = to;                                                                           \
        const from_type *x = from;                                                                 \
        int64_t i = 0;                                                                             \
        if (step == 1) {                                                                           \
            for (; i + 4 * VF <= n; i += 4 * VF)                                                   \
                UNROLLED_4(int k = 0; k < 4; k++)                                                  \
                    store(y + i + k * VF, map(load(x + i + k * VF)));                              \
        }                                                                                          \
        from_id##_to_##to_id(y + i, x + i * step, step, n - i);                                    \
    }
VECTOR(F32, float, vf_load, BF16, uint16_t, vf_store_bf16, ITSELF)
VECTOR(F32, float, vf_load, F16, uint16_t, vf_store_f16, ITSELF)
VECTOR(BF16, uint16_t, vf_load_bf16, F32, float, vf_store, ITSELF)
VECTOR(BF16, uint16_t, vf_load_bf16, F16, uint16_t, vf_store_f16, ITSELF)
VECTOR(F16, uint16_t, vf_load_f16, F32, float, vf_store, ITSELF)
VECTOR(F16, uint16_t, vf_load_f16, BF16, uint16_t, vf_store_bf16, ITSELF)
VECTOR(F32, float, vf_load, I32, int32_t, vi_store, saturated)
VECTOR(BF16, uint16_t, vf_load_bf16, I32, int32_t, vi_store, saturated)
VECTOR(F16, uint16_t, vf_load_f16, I32, int32_t, vi_store, saturated)
#define ONE_WHERE(m) vf_keep(m, vf_set1(1))
VECTOR(BOOL, uint8_t, vm_load_bool, F32, float, vf_store, ONE_WHERE)
VECTOR(BOOL, uint8_t, vm_load_bool, BF16, uint16_t, vf_store_bf16, ONE_WHERE)
VECTOR(BOOL, uint8_t, vm_load_bool, F16, uint16_t, vf_store_f16, ONE_WHERE)

/* To short integers by way of int32, a piece at a time; the compiler narrows it. */
enum { PIECE = 512 }; /* 2 KiB of whole numbers on the stack */
_Static_assert(PIECE % VF == 0, "pieces are whole vectors");
#define SHORT(from_id, from_type, load, to_id, to_type, low, high)                                 \
    static void from_id##_to_##to_id##_vector(void *to, const void *from, int64_t step, int64_t n) \
    {                                                                                              \
        int32_t whole[PIECE];                                                                      \
        to_type *y = to;                                                                           \
        const from_type *x = from;                                                                 \
        int64_t i = 0;                                                                             \
        for (; step == 1 && i + PIECE <= n; i += PIECE) {                                          \
            for (int64_t k = 0; k < PIECE; k += VF) {                                              \
                const vf v = load(x + i + k);                                                      \
                const vf inside = vf_min_c(vf_max_c(v, vf_set1(low)), vf_set1(high));              \
                vi_store(whole + k, vf_to_vi(vf_keep(vf_eq(v, v), inside)));                       \
            }                                                                                      \
            for (int64_t k = 0; k < PIECE; k++) y[i + k] = (to_type)whole[k];                      \
        }                                                                                          \
        from_id##_to_##to_id(y + i, x + i * step, step, n - i);                                    \
    }
SHORT(F32, float, vf_load, I8, int8_t, INT8_MIN, INT8_MAX)
SHORT(F32, float, vf_load, U8, uint8_t, 0, UINT8_MAX)
SHORT(F32, float, vf_load, I16, int16_t, INT16_MIN, INT16_MAX)

/* Integers that are floats need no second thought; others would be rounded twice. */
#define EXACT(to_id, to_type, store)                                                               \
    static void I32_to_##to_id##_vector(void *to, const void *from, int64_t step, int64_t n)       \
    {                                                                                              \
        to_type *y = to;                                                                           \
        const int32_t *x = from;                                                                   \
        int64_t i = 0;                                                                             \
        for (; step == 1 && i + 2 * VF <= n; i += 2 * VF) {                                        \
            const vi a = vi_load(x + i), b = vi_load(x + i + VF);                                  \
            const vi high = vi_set1((int32_t)0xff000000), half = vi_set1(0x00800000);              \
            const vi above = vi_or(vi_and(vi_add(a, half), high), vi_and(vi_add(b, half), high));  \
            if (vm_all(vi_eq(above, vi_set1(0)))) {                                                \
                store(y + i, vi_to_vf(a));                                                         \
                store(y + i + VF, vi_to_vf(b));                                                    \
            } else {                                                                               \
                I32_to_##to_id(y + i, x + i, 1, 2 * VF);                                           \
            }                                                                                      \
        }                                                                                          \
        I32_to_##to_id(y + i, x + i * step, step, n - i);                                          \
    }
EXACT(BF16, uint16_t, vf_store_bf16)
EXACT(F16, uint16_t, vf_store_f16)

#if defined(TLI_ISA_neon) || defined(TLI_ISA_neon_bf16)
static void F32_to_I64_vector(void *to, const void *from, int64_t step, int64_t n)
{
    int64_t *y = to, i = 0;
    const float *x = from;
    for (; step == 1 && i + VF <= n; i += VF) {
        const vf v = vf_load(x + i);
        vst1q_s64(y + i, vcvtq_s64_f64(vf_low_to_vd(v)));
        vst1q_s64(y + i + VD, vcvtq_s64_f64(vf_high_to_vd(v)));
    }
    F32_to_I64(y + i, x + i * step, step, n - i);
}
#else
#define F32_to_I64_vector NULL
#endif

/* --- the table -------------------------------------------------------------------------------- */

// clang-format off
#define COLUMN_F32(id, t, k, r) [TL_##id] = id##_to_F32,
#define COLUMN_BF16(id, t, k, r) [TL_##id] = id##_to_BF16,
#define COLUMN_F16(id, t, k, r) [TL_##id] = id##_to_F16,
#define COLUMN_F64(id, t, k, r) [TL_##id] = id##_to_F64,
#define COLUMN_I8(id, t, k, r) [TL_##id] = id##_to_I8,
#define COLUMN_I16(id, t, k, r) [TL_##id] = id##_to_I16,
#define COLUMN_I32(id, t, k, r) [TL_##id] = id##_to_I32,
#define COLUMN_I64(id, t, k, r) [TL_##id] = id##_to_I64,
#define COLUMN_U8(id, t, k, r) [TL_##id] = id##_to_U8,
#define COLUMN_BOOL(id, t, k, r) [TL_##id] = id##_to_BOOL,
// clang-format on
static cast_fn *const casts[TL_DTYPE_COUNT][TL_DTYPE_COUNT] = {
    [TL_F32] = {TYPES(COLUMN_F32)}, [TL_BF16] = {TYPES(COLUMN_BF16)},
    [TL_F16] = {TYPES(COLUMN_F16)}, [TL_F64] = {TYPES(COLUMN_F64)},
    [TL_I8] = {TYPES(COLUMN_I8)},   [TL_I16] = {TYPES(COLUMN_I16)},
    [TL_I32] = {TYPES(COLUMN_I32)}, [TL_I64] = {TYPES(COLUMN_I64)},
    [TL_U8] = {TYPES(COLUMN_U8)},   [TL_BOOL] = {TYPES(COLUMN_BOOL)},
};
static cast_fn *const vector_casts[TL_DTYPE_COUNT][TL_DTYPE_COUNT] = {
    [TL_F32] = {[TL_BF16] = BF16_to_F32_vector,
                [TL_F16] = F16_to_F32_vector,
                [TL_BOOL] = BOOL_to_F32_vector},
    [TL_BF16] = {[TL_F32] = F32_to_BF16_vector,
                 [TL_F16] = F16_to_BF16_vector,
                 [TL_BOOL] = BOOL_to_BF16_vector,
                 [TL_I32] = I32_to_BF16_vector},
    [TL_F16] = {[TL_F32] = F32_to_F16_vector,
                [TL_BF16] = BF16_to_F16_vector,
                [TL_BOOL] = BOOL_to_F16_vector,
                [TL_I32] = I32_to_F16_vector},
    [TL_I32] = {[TL_F32] = F32_to_I32_vector,
                [TL_BF16] = BF16_to_I32_vector,
                [TL_F16] = F16_to_I32_vector},
    [TL_I64] = {[TL_F32] = F32_to_I64_vector},
    [TL_I8] = {[TL_F32] = F32_to_I8_vector},
    [TL_U8] = {[TL_F32] = F32_to_U8_vector},
    [TL_I16] = {[TL_F32] = F32_to_I16_vector},
};

typedef struct job {
    cast_fn *fn;
} job;

static tl_status cast_row(void *payload, char *const *data, const int64_t *step, int64_t n)
{
    TL_ASSERT(step[0] == 1); // the result has no gaps
    const job *j = payload;
    j->fn(data[0], data[1], step[1], n);
    return TL_OK;
}

static tl_status cast_kernel(const tl_run *run, const tl_node *n)
{
    const tl_tensor *x = n->in[0], *y = n->out[0];
    cast_fn *const vector = vector_casts[y->dtype][x->dtype];
    job j = {vector ? vector : casts[y->dtype][x->dtype]};
    TL_ASSERT(j.fn && tl_shape_equal(&x->shape, &y->shape));
    tli_loop l;
    tli_loop_init(&l, &y->shape, 2, (const tl_tensor *[]){y, x});
    return tli_loop_run(run->threads, &l, cast_row, &j);
}

static const tl_kernel rows[] = {{TL_OP_cast, TL_DTYPE_COUNT, cast_kernel, TL_KERNEL_STRIDED}};
TLI_SIMD_KERNELS(cast, rows);
