/* The kernels of the reference backend, which every other one falls back on. */
#include <tilth/sys/cpu/cpu.h>

#include "cpu/ref/ref.h"
#include "cpu/simd/kernels.h"

const tl_kernels *const tli_reference_tables[] = {
#define REFERENCE_TABLE(family) &tli_ref_##family,
    TLI_REF_FAMILIES(REFERENCE_TABLE)
#undef REFERENCE_TABLE
        NULL};

tl_status tli_run_reference(const tl_run *run, const tl_node *call)
{
    TL_ASSERT(call->op->op < TL_OP_COUNT);
    for (const tl_kernels *const *t = tli_reference_tables; *t; t++)
        for (int64_t i = 0; i < (*t)->count; i++)
            if ((*t)->rows[i].op == call->op->op) return (*t)->rows[i].fn(run, call);
    return TL_FAIL(TL_EUNSUPPORTED, "there is no reference kernel");
}
