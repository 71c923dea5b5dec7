/* The formulas of ops for one element, and the functions of scalar.h, in loops, which the compiler
 * makes vectors of. */
#include "nest/simd/tile.h"

#include "nest/inner/schedule.h"

#include "nest/inner/number.h"

#include "nest/inner/lane.h"

#include "nest/inner/formula.h"

#include "nest/scalar.h"

_Static_assert((int)LANES == (int)TLI_LANES && (int)BLOCK == (int)TLI_BLOCK,
               "plans know the lanes of scalar.h");
_Static_assert(LANES * 4 % WIDTH == 0 && LANES * 8 % WIDTH == 0,
               "lanes of either size are whole vectors");

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
#define NUMBER(name, k)                                                                            \
    static void name##_tile_##k(void *to, const void *const *in, const tli_value *p, int64_t n)    \
    {                                                                                              \
        kind_##k *restrict y = to;                                                                 \
        const kind_##k *x = in[0], a = p[0].k;                                                     \
        LOOP y[i] = name##_##k(x[i], a);                                                           \
    }
#define NUMBERS(name, k)                                                                           \
    static void name##_tile_##k(void *to, const void *const *in, const tli_value *p, int64_t n)    \
    {                                                                                              \
        kind_##k *restrict y = to;                                                                 \
        const kind_##k *x = in[0], a = p[0].k, b = p[1].k;                                         \
        LOOP y[i] = name##_##k(x[i], a, b);                                                        \
    }
#define WHERE(name, k)                                                                             \
    static void name##_tile_##k(void *to, const void *const *in, const tli_value *p, int64_t n)    \
    {                                                                                              \
        kind_##k *restrict y = to;                                                                 \
        const i32 *c = in[0];                                                                      \
        const kind_##k *a = in[1], *b = in[2];                                                     \
        (void)p;                                                                                   \
        LOOP y[i] = name##_##k(c[i], a[i], b[i]);                                                  \
    }
/* Forms of rows (core/elementwise.def), and their kinds. */
#define UNARY(name, k) UNARY_TO(name, k, k)
#define TEST(name, k) UNARY_TO(name, k, i)
#define NOT(name, k) UNARY_TO(name, k, i)
#define BINARY(name, k) BINARY_TO(name, k, k)
#define SLOPE(name, k) BINARY_TO(name, k, k)
#define COMPARE(name, k) BINARY_TO(name, k, i)
#define LOGIC(name, k) BINARY_TO(name, k, i)
#define EITHER(name, k) UNARY(name, k)
#define SLOPE_EITHER(name, k) SLOPE(name, k)

#define F(X, name) X(name, f)
#define FD(X, name) X(name, f) X(name, d)
#define IL(X, name) X(name, i) X(name, l)
#define FIL(X, name) F(X, name) IL(X, name)
#define FDIL(X, name) FD(X, name) IL(X, name)
#define FDILB(X, name) FDIL(X, name)
#define B(X, name) X(name, i)
#define ANY(X, name) // casts: by the types of both sides, below

#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient) kinds(form, op)
#define TL_EITHER(op, form, formula) form(formula, f)
#include <tilth/core/elementwise.def>

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

#define CAST_TO(to_, from, k)                                                                      \
    static void to_##_of_tile_##from(void *to, const void *const *in, const tli_value *p,          \
                                     int64_t n)                                                    \
    {                                                                                              \
        kind_##k *restrict y = to;                                                                 \
        const kind_##from *x = in[0];                                                              \
        (void)p;                                                                                   \
        LOOP y[i] = to_##_of_##from(x[i]);                                                         \
    }
#define CASTS(id, name, k, memory, from_memory, to_memory)                                         \
    CAST_TO(name, f, k) CAST_TO(name, d, k) CAST_TO(name, i, k) CAST_TO(name, l, k)
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
#define ENTRY(name, k) [TL_OP_##name][KIND_##k] = name##_tile_##k,
#define REDUCE_ENTRY(name, k)                                                                      \
    [KIND_##k] = {name##_tile_lanes_##k, name##_tile_all_##k, name##_tile_join_##k},
#define REDUCE_ROW(name) TL_INIT(FDIL(REDUCE_ENTRY, name))

// clang-format off
#define CAST_COLUMN_f(id, name, k, memory, from_memory, to_memory) [TL_##id] = name##_of_tile_f,
#define CAST_COLUMN_d(id, name, k, memory, from_memory, to_memory) [TL_##id] = name##_of_tile_d,
#define CAST_COLUMN_i(id, name, k, memory, from_memory, to_memory) [TL_##id] = name##_of_tile_i,
#define CAST_COLUMN_l(id, name, k, memory, from_memory, to_memory) [TL_##id] = name##_of_tile_l,
#define LOAD_COLUMN(id, name, k, memory, from_memory, to_memory) [TL_##id] = name##_load,
#define STORE_COLUMN(id, name, k, memory, from_memory, to_memory) [TL_##id] = name##_store,
const tli_tile_fns TLI_ISA_NAME(tli_tile_fns) = {
    .op = {
#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient)                \
        kinds(ENTRY, op)
#include <tilth/core/elementwise.def>
    },
    .other = {
#define TL_EITHER(op, form, formula) [TL_OP_##op] = formula##_tile_f,
#include <tilth/core/elementwise.def>
    },
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
