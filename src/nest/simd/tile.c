/* The functions of scalar.h in loops, which the compiler makes vectors of. */
#include "nest/simd/tile.h"

#include "nest/scalar.h"

typedef float kind_f;
typedef double kind_d;
typedef i32 kind_i;
typedef i64 kind_l;

#define LOOP for (int64_t i = 0; i < n; i++)

/* --- ops -------------------------------------------------------------------------------------- */

#define UNARY_TO(name, k, result)                                                                  \
    static void name##_tile_##k(void *to, const void *const *in, const tli_value *p, int64_t n)    \
    {                                                                                              \
        kind_##result *restrict y = to;                                                            \
        const kind_##k *x = in[0];                                                                 \
        (void)p;                                                                                   \
        LOOP y[i] = name##_##k(x[i]);                                                              \
    }
#define BINARY_TO(name, k, result)                                                                 \
    static void name##_tile_##k(void *to, const void *const *in, const tli_value *p, int64_t n)    \
    {                                                                                              \
        kind_##result *restrict y = to;                                                            \
        const kind_##k *a = in[0], *b = in[1];                                                     \
        (void)p;                                                                                   \
        LOOP y[i] = name##_##k(a[i], b[i]);                                                        \
    }
#define NUMBER_1(name, k)                                                                          \
    static void name##_tile_##k(void *to, const void *const *in, const tli_value *p, int64_t n)    \
    {                                                                                              \
        kind_##k *restrict y = to;                                                                 \
        const kind_##k *x = in[0], a = p[0].k;                                                     \
        LOOP y[i] = name##_##k(x[i], a);                                                           \
    }
#define NUMBER_2(name, k)                                                                          \
    static void name##_tile_##k(void *to, const void *const *in, const tli_value *p, int64_t n)    \
    {                                                                                              \
        kind_##k *restrict y = to;                                                                 \
        const kind_##k *x = in[0], a = p[0].k, b = p[1].k;                                         \
        LOOP y[i] = name##_##k(x[i], a, b);                                                        \
    }
#define WHERE(k)                                                                                   \
    static void where_tile_##k(void *to, const void *const *in, const tli_value *p, int64_t n)     \
    {                                                                                              \
        kind_##k *restrict y = to;                                                                 \
        const i32 *c = in[0];                                                                      \
        const kind_##k *a = in[1], *b = in[2];                                                     \
        (void)p;                                                                                   \
        LOOP y[i] = where_##k(c[i], a[i], b[i]);                                                   \
    }
#define UNARY(name, k) UNARY_TO(name, k, k)
#define BINARY(name, k) BINARY_TO(name, k, k)
#define UNARY_TEST(name, k) UNARY_TO(name, k, i)
#define BINARY_TEST(name, k) BINARY_TO(name, k, i)

#define F(X, name) X(name, f)
#define FD(X, name) X(name, f) X(name, d)
#define IL(X, name) X(name, i) X(name, l)
#define FIL(X, name) F(X, name) IL(X, name)
#define FDIL(X, name) FD(X, name) IL(X, name)

/*    what it is (each a macro above), kinds, op */
#define OPS(X)                                                                                     \
    X(BINARY, FDIL, add) X(BINARY, FDIL, sub) X(BINARY, FDIL, mul) X(BINARY, FD, div)              \
    X(BINARY, FIL, pow) X(BINARY, FDIL, minimum) X(BINARY, FDIL, maximum)                          \
    X(BINARY, IL, floor_divide) X(BINARY, IL, mod)                                                 \
    X(NUMBER_2, FDIL, affine) X(NUMBER_2, FDIL, clip)                                              \
    X(BINARY_TEST, FDIL, equal) X(BINARY_TEST, FDIL, not_equal) X(BINARY_TEST, FDIL, less)         \
    X(BINARY_TEST, FDIL, less_equal) X(UNARY_TEST, FD, isfinite) X(UNARY_TEST, FD, isnan)          \
    X(UNARY, FDIL, neg) X(UNARY, FDIL, abs) X(UNARY, FDIL, sign) X(UNARY, FDIL, square)            \
    X(UNARY, FD, sqrt) X(UNARY, FD, rsqrt) X(UNARY, FD, reciprocal) X(UNARY, F, exp)               \
    X(UNARY, F, expm1) X(UNARY, F, log) X(UNARY, F, log1p) X(UNARY, F, erf) X(UNARY, F, sin)       \
    X(UNARY, F, cos) X(UNARY, FD, floor) X(UNARY, FD, ceil) X(UNARY, FD, round) X(UNARY, F, tanh)  \
    X(UNARY, F, sigmoid) X(UNARY, F, softplus) X(UNARY, FD, relu) X(UNARY, FD, relu6)              \
    X(NUMBER_1, FD, leaky_relu) X(NUMBER_1, F, elu) X(UNARY, F, gelu) X(UNARY, F, silu)            \
    X(UNARY, F, mish) X(UNARY, FD, hard_sigmoid) X(UNARY, FD, hard_swish)                          \
    X(BINARY, FD, tanh_grad) X(BINARY, FD, sigmoid_grad) X(BINARY, FD, relu_grad)                  \
    X(BINARY, F, gelu_grad) X(BINARY, F, silu_grad)

#define DEFINE(what, kinds, name) kinds(what, name)
OPS(DEFINE)
UNARY(gelu_tanh, f)
BINARY(gelu_tanh_grad, f)
WHERE(f)
WHERE(d)
WHERE(i)
WHERE(l)
BINARY(logical_and, i)
BINARY(logical_or, i)
BINARY(logical_xor, i)
UNARY(logical_not, i)

/* --- casts ------------------------------------------------------------------------------------ */

/*    type, its kind, its C type in memory, from and to memory */
#define TYPES(X)                                                                                   \
    X(F32, f32, f, float, , )                                                                      \
    X(BF16, bf16, f, u16, from_bf16, to_bf16)                                                      \
    X(F16, f16, f, u16, from_f16, to_f16)                                                          \
    X(F64, f64, d, double, , )                                                                     \
    X(I8, i8, i, i8, , (i8))                                                                       \
    X(I16, i16, i, i16, , (i16))                                                                   \
    X(I32, i32, i, i32, , )                                                                        \
    X(I64, i64, l, i64, , )                                                                        \
    X(U8, u8, i, u8, , (u8))                                                                       \
    X(BOOL, truth, i, u8, 0 !=, (u8))

#define CAST(to_, from, k)                                                                         \
    static void to_##_of_tile_##from(void *to, const void *const *in, const tli_value *p,          \
                                     int64_t n)                                                    \
    {                                                                                              \
        kind_##k *restrict y = to;                                                                 \
        const kind_##from *x = in[0];                                                              \
        (void)p;                                                                                   \
        LOOP y[i] = to_##_of_##from(x[i]);                                                         \
    }
#define CASTS(id, name, k, memory, from_memory, to_memory)                                         \
    CAST(name, f, k) CAST(name, d, k) CAST(name, i, k) CAST(name, l, k)
TYPES(CASTS)

#define ROUND(name, k)                                                                             \
    static void name##_round(void *to, int64_t n)                                                  \
    {                                                                                              \
        kind_##k *restrict y = to;                                                                 \
        LOOP y[i] = as_##name(y[i]);                                                               \
    }
ROUND(bf16, f)
ROUND(f16, f)
ROUND(i8, i)
ROUND(i16, i)
ROUND(u8, i)

/* --- memory ----------------------------------------------------------------------------------- */

#define MEMORY(id, name, k, memory, from_memory, to_memory)                                        \
    static void name##_load(void *to, const void *from, int64_t stride, int64_t n)                 \
    {                                                                                              \
        kind_##k *restrict y = to;                                                                 \
        const memory *x = from;                                                                    \
        if (stride == 1) {                                                                         \
            LOOP y[i] = from_memory(x[i]);                                                         \
        } else {                                                                                   \
            LOOP y[i] = from_memory(x[i * stride]);                                                \
        }                                                                                          \
    }                                                                                              \
    static void name##_store(void *to, int64_t stride, const void *from, int64_t n)                \
    {                                                                                              \
        memory *restrict y = to;                                                                   \
        const kind_##k *x = from;                                                                  \
        if (stride == 1) {                                                                         \
            LOOP y[i] = to_memory(x[i]);                                                           \
        } else {                                                                                   \
            LOOP y[i * stride] = to_memory(x[i]);                                                  \
        }                                                                                          \
    }
TYPES(MEMORY)

#define SPLAT(k)                                                                                   \
    static void splat_##k(void *to, tli_value value, int64_t n)                                    \
    {                                                                                              \
        kind_##k *restrict y = to, v = value.k;                                                    \
        LOOP y[i] = v;                                                                             \
    }
SPLAT(f)
SPLAT(d)
SPLAT(i)
SPLAT(l)

static void count(int64_t *y, int64_t first, int64_t step, int64_t n)
{
    LOOP y[i] = (int64_t)((uint64_t)first + (uint64_t)step * (uint64_t)i);
}

/* --- reductions ------------------------------------------------------------------------------- */

#define REDUCE(name, one, k)                                                                       \
    static void name##_tile_lanes_##k(void *lanes, const void *x, int64_t n)                       \
    {                                                                                              \
        name##_lanes_##k(lanes, x, n);                                                             \
    }                                                                                              \
    static void name##_tile_all_##k(void *value, void *lanes, tli_value start)                     \
    {                                                                                              \
        kind_##k *v = value;                                                                       \
        *v = one##_##k(*v, name##_all_##k(lanes, start.k));                                        \
    }                                                                                              \
    static void name##_tile_join_##k(void *to, const void *from, int64_t n)                        \
    {                                                                                              \
        kind_##k *restrict y = to;                                                                 \
        const kind_##k *x = from;                                                                  \
        LOOP y[i] = one##_##k(y[i], x[i]);                                                         \
    }
#define REDUCES(name, one)                                                                         \
    REDUCE(name, one, f) REDUCE(name, one, d) REDUCE(name, one, i) REDUCE(name, one, l)
REDUCES(sum, add)
REDUCES(prod, mul)
REDUCES(max, maximum)
REDUCES(min, minimum)
REDUCE(any, logical_or, i)
REDUCE(all, logical_and, i)

/* --- the table -------------------------------------------------------------------------------- */

#define KIND_f TLI_KIND_F
#define KIND_d TLI_KIND_D
#define KIND_i TLI_KIND_I
#define KIND_l TLI_KIND_L
#define OP_ENTRY(name, k) [KIND_##k] = name##_tile_##k,
#define OP_ROW(what, kinds, name) [TL_OP_##name] = {kinds(OP_ENTRY, name)},
#define REDUCE_ENTRY(name, k)                                                                      \
    [KIND_##k] = {name##_tile_lanes_##k, name##_tile_all_##k, name##_tile_join_##k},
#define REDUCE_ROW(name) {FDIL(REDUCE_ENTRY, name)}

// clang-format off
#define CAST_COLUMN_f(id, name, k, memory, from_memory, to_memory) [TL_##id] = name##_of_tile_f,
#define CAST_COLUMN_d(id, name, k, memory, from_memory, to_memory) [TL_##id] = name##_of_tile_d,
#define CAST_COLUMN_i(id, name, k, memory, from_memory, to_memory) [TL_##id] = name##_of_tile_i,
#define CAST_COLUMN_l(id, name, k, memory, from_memory, to_memory) [TL_##id] = name##_of_tile_l,
#define LOAD_COLUMN(id, name, k, memory, from_memory, to_memory) [TL_##id] = name##_load,
#define STORE_COLUMN(id, name, k, memory, from_memory, to_memory) [TL_##id] = name##_store,
const tli_tile_fns TLI_ISA_NAME(tli_tile_fns) = {
    .op = {
        OPS(OP_ROW)
        [TL_OP_where] = {FDIL(OP_ENTRY, where)},
        [TL_OP_logical_and] = {OP_ENTRY(logical_and, i)},
        [TL_OP_logical_or] = {OP_ENTRY(logical_or, i)},
        [TL_OP_logical_xor] = {OP_ENTRY(logical_xor, i)},
        [TL_OP_logical_not] = {OP_ENTRY(logical_not, i)},
    },
    .gelu_tanh = gelu_tanh_tile_f,
    .gelu_tanh_grad = gelu_tanh_grad_tile_f,
    .cast = {
        [KIND_f] = {TYPES(CAST_COLUMN_f)},
        [KIND_d] = {TYPES(CAST_COLUMN_d)},
        [KIND_i] = {TYPES(CAST_COLUMN_i)},
        [KIND_l] = {TYPES(CAST_COLUMN_l)},
    },
    .round = {[TL_BF16] = bf16_round, [TL_F16] = f16_round, [TL_I8] = i8_round,
              [TL_I16] = i16_round, [TL_U8] = u8_round},
    .load = {TYPES(LOAD_COLUMN)},
    .store = {TYPES(STORE_COLUMN)},
    .splat = {splat_f, splat_d, splat_i, splat_l},
    .count = count,
    .reduce = {
        REDUCE_ROW(sum), REDUCE_ROW(prod), REDUCE_ROW(max), REDUCE_ROW(min),
        {REDUCE_ENTRY(any, i)}, {REDUCE_ENTRY(all, i)},
    },
};
