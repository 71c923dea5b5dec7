/* Instruction sets: the files of simd/ are compiled once for each, and their exported names carry
 * its name behind them.
 *
 *     void TLI_ISA_NAME(tli_scale)(float *x, int64_t n) { ... } // tli_scale_neon, ...
 *
 * The list below names every set that this build has, the plainest first. A CPU runs the last one
 * it supports; TILTH_ISA names another one.
 *
 * Thread word: free-threaded. */
#ifndef TLI_BASE_ISA_H
#define TLI_BASE_ISA_H

#include <tilth/base/status.h>

#if defined(__aarch64__)
#define TLI_ISA_LIST(X) X(generic) X(neon) X(neon_bf16)
#elif defined(__x86_64__)
#define TLI_ISA_LIST(X) X(generic) X(avx2) X(avx512) X(amx)
#else
#define TLI_ISA_LIST(X) X(generic)
#endif

typedef enum tli_isa {
#define TLI_ISA_ENUM(name) TLI_##name,
    TLI_ISA_LIST(TLI_ISA_ENUM)
#undef TLI_ISA_ENUM
        TLI_ISA_COUNT
} tli_isa;

const char *tli_isa_text(tli_isa isa);
/* Whether this CPU, under this system, can run it. */
bool tli_isa_supported(tli_isa isa);
/* The one to use: what TILTH_ISA names, else the best supported one. A name that is unknown or that
 * the CPU lacks is an error that lists what there is. */
TL_NODISCARD tl_status tli_isa_choose(tli_isa *out);

/* AMX is AVX-512 with other products of bfloat16. (Those of AVX512-BF16 take longer, on CPUs that
 * have both, than widening to floats does.) */
#if defined(TLI_ISA_amx)
#define TLI_ISA_avx512 1
#endif

#define TLI_JOIN_(a, b) a##_##b
#define TLI_JOIN(a, b) TLI_JOIN_(a, b)
#define TLI_ISA_NAME(name) TLI_JOIN(name, TLI_ISA)

#endif
