#include "base/inner/isa.h"

#include <stdlib.h>
#include <string.h>
#include <tilth/base/str.h>
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

static const char *const names[TLI_ISA_COUNT] = {
#define TLI_ISA_TEXT(name) [TLI_##name] = #name,
    TLI_ISA_LIST(TLI_ISA_TEXT)
#undef TLI_ISA_TEXT
};

const char *tli_isa_text(tli_isa isa)
{
    return names[isa];
}

#if defined(__x86_64__)
static bool has_f16c(void) // of which not every compiler's builtin knows
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

/* Whether the CPU has tiles of bfloat16, and the system lets this process use them: they are large,
 * and Linux keeps room for them only where it was asked to. */
static bool has_amx(void)
{
#if defined(__linux__) && defined(SYS_arch_prctl)
    enum { TILE_BIT = 1 << 24, BF16_BIT = 1 << 22, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    if (!(d & TILE_BIT) || !(d & BF16_BIT)) return false;
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}
#endif

bool tli_isa_supported(tli_isa isa)
{
    switch (isa) {
#if defined(__aarch64__)
    case TLI_neon: return true; // part of every aarch64
    case TLI_neon_bf16: {
        const unsigned long bf16 = HWCAP2_BF16, others = HWCAP_ASIMDHP | HWCAP_ASIMDDP;
        return (getauxval(AT_HWCAP2) & bf16) && (getauxval(AT_HWCAP) & others) == others;
    }
#elif defined(__x86_64__)
    // The compiler's builtins also ask the system whether it saves the wide registers.
    case TLI_avx2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    case TLI_avx512:
        return tli_isa_supported(TLI_avx2) && __builtin_cpu_supports("avx512f")
               && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
               && __builtin_cpu_supports("avx512vl");
    case TLI_amx: return tli_isa_supported(TLI_avx512) && has_amx();
#endif
    default: return isa == TLI_generic;
    }
}

static tl_status refuse(const char *wanted)
{
    tl_str have = TL_STR_INIT;
    for (int i = 0; i < TLI_ISA_COUNT; i++)
        if (tli_isa_supported((tli_isa)i)) tl_str_addf(&have, "%s%s", i ? ", " : "", names[i]);
    tl_status st = TL_FAIL(TL_EINVAL, "TILTH_ISA: this CPU has no '%s'; it has %s", wanted,
                           tl_str_text(&have));
    tl_str_deinit(&have);
    return st;
}

tl_status tli_isa_choose(tli_isa *out)
{
    const char *wanted = getenv("TILTH_ISA");
    if (wanted && !*wanted) wanted = NULL;
    for (int i = TLI_ISA_COUNT - 1; i >= 0; i--) {
        *out = (tli_isa)i;
        if ((!wanted || strcmp(wanted, names[i]) == 0) && tli_isa_supported(*out)) return TL_OK;
    }
    return refuse(wanted);
}
