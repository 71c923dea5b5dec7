#include <tilth/sys/cpu/cpu.h>
#include <tilth/sys/cpu/limits.h>

#include "base/inner/isa.h"
#include "cpu/nests.h"
#include "cpu/ref/ref.h"
#include "cpu/simd/kernels.h"

const tl_backend_class tl_backend_reference = {
    .cls = {.class_size = sizeof(tl_backend_class),
            .name = "reference",
            .help = "plain loops that say what each op means"},
    .tables = tli_reference_tables,
    .nests = &tli_cpu_nests,
};

static tl_status measure_limits(tl_engine *engine, tl_limits *out)
{
    return tl_limits_measure(out, tl_engine_threads(engine));
}

/* One backend for each instruction set. */
#define SIMD_TABLE(family, isa) &tli_simd_##family##_##isa,
#define SIMD_BACKEND(isa)                                                                          \
    static const tl_kernels *const isa##_tables[] = {TLI_SIMD_FAMILIES(SIMD_TABLE, isa) NULL};     \
    static tl_status isa##_supported(void)                                                         \
    {                                                                                              \
        return tli_isa_supported(TLI_##isa) ? TL_OK                                                \
                                            : TL_FAIL(TL_EUNSUPPORTED, "this CPU has no " #isa);   \
    }                                                                                              \
    static const tl_backend_class isa##_backend = {                                                \
        .cls = {.class_size = sizeof(tl_backend_class),                                            \
                .name = #isa,                                                                      \
                .help = "vector kernels for the instruction set " #isa},                           \
        .fallback = &tl_backend_reference,                                                         \
        .tables = isa##_tables,                                                                    \
        .supported = isa##_supported,                                                              \
        .pack = tli_pack_weight_##isa,                                                             \
        .limits = measure_limits,                                                                  \
        .nests = &tli_cpu_nests,                                                                   \
    };
TLI_ISA_LIST(SIMD_BACKEND)
#undef SIMD_BACKEND
#undef SIMD_TABLE

const tl_backend_class tl_backend_cpu = {
    .cls = {.class_size = sizeof(tl_backend_class),
            .name = "cpu",
            .help = "the processors of this machine: the best of their instruction sets, or what "
                    "TILTH_ISA names"},
    .choose = tl_cpu_backend,
};

static const tl_backend_class *const backends[] = {&tl_backend_reference,
#define BACKEND_ADDRESS(isa) &isa##_backend,
                                                   TLI_ISA_LIST(BACKEND_ADDRESS)
#undef BACKEND_ADDRESS
};
_Static_assert(sizeof backends / sizeof *backends == 1 + TLI_ISA_COUNT,
               "the reference, then one for each instruction set");

const tl_backend_class *const *tl_cpu_backends(int64_t *count)
{
    *count = TL_COUNT(backends);
    return backends;
}

tl_status tl_cpu_backend(const tl_backend_class **out)
{
    tli_isa isa;
    TL_TRY(tli_isa_choose(&isa));
    TL_ASSERT((int)isa >= 0 && isa < TLI_ISA_COUNT);
    *out = backends[1 + isa];
    return TL_OK;
}

static const tl_entry entries[] = {{&tl_kind_backend, &tl_backend_cpu.cls},
                                   {&tl_kind_backend, &tl_backend_reference.cls},
#define BACKEND_ENTRY(isa) {&tl_kind_backend, &isa##_backend.cls},
                                   TLI_ISA_LIST(BACKEND_ENTRY)
#undef BACKEND_ENTRY
};
const tl_module tl_cpu_module = {TL_MODULE_HEAD("cpu"), entries, TL_COUNT(entries)};
