/* The base layer against its peers: regions of the thread pool, random numbers, checksums. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#ifdef HAVE_ZLIB
#include <zlib.h>
#endif

#include <tilth/base/alloc.h>
#include <tilth/base/crc32c.h>
#include <tilth/base/pool.h>
#include <tilth/base/rng.h>

/* --- parallel regions ------------------------------------------------------------------------- */

enum { THREADS = 2, REAL_WORK = 4000 };

typedef struct region {
    tl_pool *pool;
    tl_parallel_fn *volatile fn; /* volatile: neither side may see through the call */
    int64_t additions;           /* that a chunk makes */
} region;

static tl_status work_chunk(int64_t begin, int64_t end, void *payload)
{
    const region *r = payload;
    int64_t x = begin;
    for (int64_t i = 0; i < r->additions; i++) {
        x += end;
        BENCH_KEEP(x);
    }
    return TL_OK;
}

static void region_ours(void *payload)
{
    region *r = payload;
    if (tl_parallel_for(r->pool, THREADS, 1, r->fn, r) != TL_OK) abort();
}

#ifdef _OPENMP
static void region_openmp(void *payload)
{
    region *r = payload;
#pragma omp parallel for num_threads(THREADS) schedule(static, 1)
    for (int64_t i = 0; i < THREADS; i++)
        if (r->fn(i, i + 1, r) != TL_OK) abort();
}
#endif

/* One chunk, called directly: what remains when sharing costs nothing. */
static void region_chunk(void *payload)
{
    region *r = payload;
    if (r->fn(0, 1, r) != TL_OK) abort();
}

static tl_status bench_regions(bench *b)
{
    region r = {.fn = work_chunk};
    TL_TRY(tl_pool_new(&r.pool, THREADS));
    // Both kinds of threads watch for work for a while, and would take CPUs from each other.
    bench_case c = {
        .name = "empty parallel region, 2 threads",
        .unit = "ns",
        .ours = region_ours,
        .peer_name = "OpenMP parallel for",
        .payload = &r,
        .rest_s = 0.02,
    };
#ifdef _OPENMP
    c.peer = region_openmp;
#endif
    tl_status status;
    TL_TRY_DONE(status, bench_run(b, &c));
    r.additions = REAL_WORK;
    c.name = "region of 2 chunks, 2 threads";
    c.unit = "us";
    c.limit_fn = region_chunk;
    TL_TRY_DONE(status, bench_run(b, &c));
done:
    tl_pool_free(&r.pool);
    return status;
}

/* --- random numbers --------------------------------------------------------------------------- */

typedef struct buffers {
    size_t bytes;
    char *a, *b;
    tl_rng rng;
} buffers;

static void fill_u32(void *payload)
{
    buffers *m = payload;
    tl_rng_fill_u32(&m->rng, 0, (uint32_t *)(void *)m->a, (int64_t)(m->bytes / 4));
}

static void fill_uniform(void *payload)
{
    buffers *m = payload;
    tl_rng_fill_uniform_f32(&m->rng, 0, (float *)(void *)m->a, (int64_t)(m->bytes / 4));
}

static void fill_normal(void *payload)
{
    buffers *m = payload;
    tl_rng_fill_normal_f32(&m->rng, 0, (float *)(void *)m->a, (int64_t)(m->bytes / 4));
}

static void copy(void *payload)
{
    buffers *m = payload;
    memcpy(m->a, m->b, m->bytes);
    BENCH_KEEP(m->a);
}

static tl_status bench_fills(bench *b, buffers *m)
{
    bench_case c = {.name = "philox words, 16 MiB",
                    .unit = "GB/s",
                    .amount = (double)m->bytes,
                    .ours = fill_u32,
                    .limit_fn = copy,
                    .payload = m,
                    .sample_s = 0.01};
    TL_TRY(bench_run(b, &c));
    c.name = "philox uniform f32, 16 MiB";
    c.ours = fill_uniform;
    TL_TRY(bench_run(b, &c));
    c.name = "philox normal f32, 16 MiB";
    c.ours = fill_normal;
    return bench_run(b, &c);
}

/* --- checksums -------------------------------------------------------------------------------- */

static void crc_ours(void *payload)
{
    const buffers *m = payload;
    uint32_t crc = tl_crc32c(0, m->b, m->bytes);
    BENCH_KEEP(crc);
}

#ifdef HAVE_ZLIB
static void crc_zlib(void *payload)
{
    const buffers *m = payload;
    uLong crc = crc32(0, (const Bytef *)m->b, (uInt)m->bytes);
    BENCH_KEEP(crc);
}
#endif

static tl_status bench_crc(bench *b, const buffers *all)
{
    static const struct {
        const char *name;
        size_t bytes;
    } sizes[] = {{"crc32c, 256 B", 256}, {"crc32c, 64 KiB", 1 << 16}, {"crc32c, 16 MiB", 1 << 24}};
    buffers m = *all;
    bench_case c = {.unit = "GB/s", .ours = crc_ours, .peer_name = "zlib crc32", .payload = &m};
#ifdef HAVE_ZLIB
    c.peer = crc_zlib;
#endif
#if defined(__aarch64__) || defined(__x86_64__)
    c.limit = 8 * bench_cycles_per_ns(); // the instruction takes eight bytes, once a cycle
#endif
    for (int64_t i = 0; i < TL_COUNT(sizes); i++) {
        c.name = sizes[i].name;
        m.bytes = sizes[i].bytes;
        c.amount = (double)m.bytes;
        TL_TRY(bench_run(b, &c));
    }
    return TL_OK;
}

int main(int argc, char **argv)
{
    buffers m = {.bytes = 1 << 24};
    bench b;
    // LLVM's OpenMP threads would watch for work ten times longer than a sample's rest.
    setenv("KMP_BLOCKTIME", "10", 0);
    tl_status status;
    TL_TRY_DONE(status, bench_begin(&b, argc, argv));
    m.a = tl_alloc_aligned(64, m.bytes);
    m.b = tl_alloc_aligned(64, m.bytes);
    if (!m.a || !m.b) {
        status = TL_FAIL_NOMEM(m.bytes);
        goto done;
    }
    tl_rng_init(&m.rng, 1);
    fill_u32(&m);
    memcpy(m.b, m.a, m.bytes);
    TL_TRY_DONE(status, bench_regions(&b));
    TL_TRY_DONE(status, bench_fills(&b, &m));
    TL_TRY_DONE(status, bench_crc(&b, &m));
done:
    tl_free(m.a);
    tl_free(m.b);
    return bench_end(&b, status);
}
