/* The kernels of the reference backend, which every other one falls back on. */
#include <pthread.h>
#include <tilth/sys/cpu/cpu.h>

#include "cpu/ref/ref.h"
#include "cpu/simd/kernels.h"

const tl_kernels *const tli_reference_tables[] = {
#define REFERENCE_TABLE(family) &tli_ref_##family,
    TLI_REF_FAMILIES(REFERENCE_TABLE)
#undef REFERENCE_TABLE
        NULL};

/* Fast kernels hand small and rare calls over in every step: the table is searched once. */
static tl_kernel_fn *by_op[TL_OP_COUNT];

static void note_kernels(void)
{
    for (const tl_kernels *const *t = tli_reference_tables; *t; t++)
        for (int64_t i = 0; i < (*t)->count; i++) {
            const tl_kernel *row = &(*t)->rows[i];
            TL_ASSERT(row->op < TL_OP_COUNT);
            if (!by_op[row->op]) by_op[row->op] = row->fn;
        }
}

tl_status tli_run_reference(const tl_run *run, const tl_node *call)
{
    static pthread_once_t noted = PTHREAD_ONCE_INIT;
    pthread_once(&noted, note_kernels);
    TL_ASSERT(call->op->op < TL_OP_COUNT);
    tl_kernel_fn *fn = by_op[call->op->op];
    return fn ? fn(run, call) : TL_FAIL(TL_EUNSUPPORTED, "there is no reference kernel");
}
