#include "limits.h"

#include <stdio.h>

tl_status bench_limits_measure(bench_limits *out, tl_pool *pool)
{
    TL_TRY(tl_limits_measure(out, pool));
    printf("limits: %.0f GFLOP/s in registers (bfloat16 %.0f), %.0f GB/s copied, %d threads\n",
           out->flops, out->half_flops, out->bytes, tl_pool_threads(pool));
    return TL_OK;
}
