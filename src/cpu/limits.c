#include <tilth/sys/cpu/limits.h>

#include <stdio.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>

#include "cpu/gemm.h"

/* Milliseconds of multiply-adds, so that clocks and frequencies settle; more bytes than last-level
 * caches hold. */
enum { ROUNDS = 200000, COPIED = 128 << 20 };

static int64_t kept; // so that what is measured is computed

typedef struct measured {
    tl_pool *pool;
    const tli_gemm_kernels *k;
    char *from, *to;
} measured;

static tl_status multiply_piece(int64_t begin, int64_t end, void *payload)
{
    const measured *m = payload;
    for (int64_t i = begin; i < end; i++)
        __atomic_store_n(&kept, m->k->peak(ROUNDS), __ATOMIC_RELAXED);
    return TL_OK;
}

static tl_status copy_piece(int64_t begin, int64_t end, void *payload)
{
    const measured *m = payload;
    memcpy(m->to + begin, m->from + begin, (size_t)(end - begin));
    return TL_OK;
}

static double best_seconds(measured *m, int64_t n, int64_t grain, tl_parallel_fn *fn)
{
    double best = 1e9;
    for (int i = 0; i < 7; i++) {
        int64_t begin = tl_clock_ns();
        (void)!tl_parallel_for(m->pool, n, grain, fn, m); // the pieces cannot fail
        double s = (double)(tl_clock_ns() - begin) * 1e-9;
        if (s < best) best = s;
    }
    return best;
}

static double measure_flops(measured *m, tli_isa isa, tl_dtype dtype)
{
    int threads = tl_pool_threads(m->pool);
    m->k = tli_gemm_kernels_of(isa, tli_gemm_kind_of(isa, dtype, dtype));
    TL_ASSERT(threads > 0 && m->k->peak);
    return (double)m->k->peak(ROUNDS) * threads / best_seconds(m, threads, 1, multiply_piece)
           * 1e-9;
}

/* "32768K" of the largest one that the system tells of. */
static double largest_cache(void)
{
    double largest = 0;
    for (int i = 0; i < 8; i++) {
        char path[96], unit = '\0';
        double size = 0;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        FILE *f = fopen(path, "re");
        if (!f) break;
        if (fscanf(f, "%lf%c", &size, &unit) < 1) size = 0;
        fclose(f);
        size *= unit == 'K'   ? 1024
                : unit == 'M' ? 1024 * 1024
                : unit == 'G' ? 1024.0 * 1024 * 1024
                              : 1;
        if (size > largest) largest = size;
    }
    return largest;
}

tl_status tl_limits_measure(tl_limits *out, tl_pool *pool)
{
    tli_isa isa;
    TL_TRY(tli_isa_choose(&isa));
    out->cache = largest_cache();
    measured m = {.pool = pool, .from = tl_alloc_zero(COPIED), .to = tl_alloc_zero(COPIED)};
    tl_status st = m.from && m.to ? TL_OK : TL_FAIL_NOMEM((size_t)COPIED);
    if (st == TL_OK) {
        out->flops = measure_flops(&m, isa, TL_F32);
        out->half_flops = measure_flops(&m, isa, TL_BF16);
        out->bytes = 2.0 * COPIED / best_seconds(&m, COPIED, 1 << 20, copy_piece) * 1e-9;
    }
    tl_free(m.from);
    tl_free(m.to);
    return st;
}
