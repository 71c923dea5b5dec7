/* What the files of this folder export: tables of functions, one for each instruction set.
 *
 *     const tli_unary_fns *f = tli_unary_fns_of(isa);
 *     f->gelu(y, x, n);
 *
 * y may be x; otherwise they do not overlap. n may be 0. Results do not depend on how an array is
 * cut.
 *
 * Thread word: free-threaded. */
#ifndef TLI_CPU_SIMD_SIMD_H
#define TLI_CPU_SIMD_SIMD_H

#include <tilth/base/status.h>

#include "base/inner/isa.h"

typedef void tli_unary_fn(float *y, const float *x, int64_t n);
/* With one number for all elements: the scale of elu, the slope of leaky_relu. */
typedef void tli_unary_1_fn(float *y, const float *x, float number, int64_t n);

/* A member for each function of one argument of the rows, and some more;
 * nest/inner/formula.h says how exact they are. */
typedef struct tli_unary_fns {
#define TLI_UNARY_ROW(formula, op, approximate) tli_unary_fn *formula;
#include "cpu/simd/unary_rows.inc"
    tli_unary_1_fn *elu, *leaky_relu;
    void (*pow)(float *y, const float *x, const float *exponents, int64_t n);
    void (*pow_1)(float *y, const float *x, float exponent, int64_t n);
} tli_unary_fns;

#define TLI_SIMD_DECLARE(isa) extern const tli_unary_fns tli_unary_fns_##isa;
TLI_ISA_LIST(TLI_SIMD_DECLARE)
#undef TLI_SIMD_DECLARE

static inline const tli_unary_fns *tli_unary_fns_of(tli_isa isa)
{
    static const tli_unary_fns *const tables[TLI_ISA_COUNT] = {
#define TLI_SIMD_TABLE(name) [TLI_##name] = &tli_unary_fns_##name,
        TLI_ISA_LIST(TLI_SIMD_TABLE)
#undef TLI_SIMD_TABLE
    };
    TL_ASSERT((int)isa >= 0 && isa < TLI_ISA_COUNT);
    return tables[isa];
}

#endif
