#include <tilth/sys/cpu/cpu.h>

#include "cpu/inner/isa.h"
#include "cpu/simd/kernels.h"

/* One backend for each instruction set. */
#define SIMD_TABLE(family, isa) &tli_simd_##family##_##isa,
#define SIMD_BACKEND(isa)                                                                          \
    static const tl_kernels *const isa##_tables[] = {TLI_SIMD_FAMILIES(SIMD_TABLE, isa) NULL};     \
    static tl_status isa##_supported(void)                                                         \
    {                                                                                              \
        return tli_isa_supported(TLI_##isa) ? TL_OK : TL_FAIL(TL_EUNSUPPORTED, "this CPU has no " #isa); \
    }                                                                                              \
    static const tl_backend_class isa##_backend = {                                                \
        .cls = {.class_size = sizeof(tl_backend_class), .name = #isa,                              \
                .help = "vector kernels for the instruction set " #isa},                           \
        .fallback = &tl_backend_reference,                                                         \
        .tables = isa##_tables,                                                                    \
        .supported = isa##_supported,                                                              \
        .pack = tli_pack_weight_##isa,                                                             \
    };
TLI_ISA_LIST(SIMD_BACKEND)
#undef SIMD_BACKEND
#undef SIMD_TABLE

static const tl_backend_class *const backends[] = {
    &tl_backend_reference,
#define BACKEND_ADDRESS(isa) &isa##_backend,
    TLI_ISA_LIST(BACKEND_ADDRESS)
#undef BACKEND_ADDRESS
};

const tl_backend_class *const *tl_cpu_backends(int64_t *count)
{
    *count = TL_COUNT(backends);
    return backends;
}

tl_status tl_cpu_backend(const tl_backend_class **out)
{
    tli_isa isa;
    TL_TRY(tli_isa_choose(&isa));
    *out = backends[1 + isa];
    return TL_OK;
}

tl_status tl_cpu_engine_new(tl_engine **out, int threads)
{
    tl_engine_args args = {.threads = threads};
    TL_TRY(tl_cpu_backend(&args.backend));
    return tl_engine_new(out, &args);
}
