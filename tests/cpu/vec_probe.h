/* vec.h, one operation a function, so that the tests can compare each instruction set with plain C.
 *
 * A probe takes vectors from a, b and c (16 lanes are there to be read) and writes its result to
 * out; masks go out as bytes, 0 or 1. n is the count of a shift or of the _n forms.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_TESTS_CPU_VEC_PROBE_H
#define TILTH_TESTS_CPU_VEC_PROBE_H

#include "base/inner/isa.h"

typedef void tli_probe_fn(void *out, const void *a, const void *b, const void *c, int64_t n);

// clang-format off
/* X(name, what it gives for one lane): the same for floats (vf_name) and doubles (vd_name). F()
 * adds the suffix that C's functions have for floats. */
#define TLI_PROBE_UNARY(X)                                                                         \
    X(neg, -a) X(abs, F(fabs)(a)) X(sqrt, F(sqrt)(a)) X(floor, F(floor)(a)) X(ceil, F(ceil)(a))    \
    X(trunc, F(trunc)(a)) X(round, F(rint)(a))
#define TLI_PROBE_BINARY(X)                                                                        \
    X(add, a + b) X(sub, a - b) X(mul, a * b) X(div, a / b) X(copysign, F(copysign)(a, b))         \
    X(min, a != a ? a : b != b ? b : a < b ? a : b)                                                \
    X(max, a != a ? a : b != b ? b : a > b ? a : b)
#define TLI_PROBE_CONSTANT(X) /* b is no NaN */                                                    \
    X(min_c, a != a ? a : a < b ? a : b) X(max_c, a != a ? a : a > b ? a : b)
#define TLI_PROBE_TERNARY(X) X(fma, F(fma)(a, b, c)) X(fnma, F(fma)(-a, b, c))
#define TLI_PROBE_COMPARE(X)                                                                       \
    X(lt, a < b) X(le, a <= b) X(gt, a > b) X(ge, a >= b) X(eq, a == b) X(ne, a != b)
/* Masks m: a < b, and k: b < c. */
#define TLI_PROBE_MASK(X)                                                                          \
    X(and, m && k) X(or, m || k) X(xor, m != k) X(andnot, m && !k)
/* Whole numbers: int32 for vi_name, int64 for vl_name; u is the unsigned type. */
#define TLI_PROBE_WHOLE(X)                                                                         \
    X(add, (u)a + (u)b) X(sub, (u)a - (u)b) X(and, (u)a & (u)b) X(or, (u)a | (u)b)                 \
    X(xor, (u)a ^ (u)b) X(andnot, (u)a & ~(u)b)
#define TLI_PROBE_SHIFT(X) X(shl, (u)a << n) X(shru, (u)a >> n)
#define TLI_PROBE_INT32(X)                                                                         \
    X(mul, (u)a * (u)b) X(min, (u)(a < b ? a : b)) X(max, (u)(a > b ? a : b))
// clang-format on

typedef struct tli_vec_probe {
    int lanes; /* VF */
#define TLI_PROBE_BOTH(name, right) tli_probe_fn *vf_##name, *vd_##name;
    TLI_PROBE_UNARY(TLI_PROBE_BOTH)
    TLI_PROBE_BINARY(TLI_PROBE_BOTH)
    TLI_PROBE_CONSTANT(TLI_PROBE_BOTH)
    TLI_PROBE_TERNARY(TLI_PROBE_BOTH)
    TLI_PROBE_COMPARE(TLI_PROBE_BOTH)
#undef TLI_PROBE_BOTH
#define TLI_PROBE_BOTH(name, right) tli_probe_fn *vm_##name, *vmd_##name;
    TLI_PROBE_MASK(TLI_PROBE_BOTH)
#undef TLI_PROBE_BOTH
#define TLI_PROBE_BOTH(name, right) tli_probe_fn *vi_##name, *vl_##name;
    TLI_PROBE_WHOLE(TLI_PROBE_BOTH)
    TLI_PROBE_SHIFT(TLI_PROBE_BOTH)
#undef TLI_PROBE_BOTH
#define TLI_PROBE_ONE(name, right) tli_probe_fn *vi_##name;
    TLI_PROBE_INT32(TLI_PROBE_ONE)
#undef TLI_PROBE_ONE
    tli_probe_fn *vi_shr, *vi_eq, *vi_gt;
    /* select, keep and drop where a < b, three vectors after each other; any, all, not, first n */
    tli_probe_fn *vf_choose, *vd_choose, *vi_choose;
    tli_probe_fn *vm_any_all_not_first, *vmd_any_all_not_first;
    /* sum, hmax, hmin */
    tli_probe_fn *vf_across, *vd_across;
    tli_probe_fn *vi_to_vf, *vf_to_vi, *vf_round_to_vi, *vf_to_vd, *vd_to_vf;
    /* Copies of the first n lanes, or of all when n is -1; loads go from the named type to floats
     * and write all lanes. */
    tli_probe_fn *copy_f32, *copy_i32, *copy_f64, *copy_bool;
    tli_probe_fn *load_f32, *load_bf16, *load_f16, *store_f32, *store_bf16, *store_f16;
} tli_vec_probe;

#define TLI_PROBE_EXTERN(isa) extern const tli_vec_probe tli_vec_probe_##isa;
TLI_ISA_LIST(TLI_PROBE_EXTERN)
#undef TLI_PROBE_EXTERN

static inline const tli_vec_probe *tli_vec_probe_of(tli_isa isa)
{
    static const tli_vec_probe *const tables[TLI_ISA_COUNT] = {
#define TLI_PROBE_TABLE(name) [TLI_##name] = &tli_vec_probe_##name,
        TLI_ISA_LIST(TLI_PROBE_TABLE)
#undef TLI_PROBE_TABLE
    };
    return tables[isa];
}

#endif
