/* Matrix products against OpenBLAS (float32) and PyTorch (bfloat16, float16), and against the limit
 * of the chip: multiply-adds in registers alone, on as many threads.
 *
 * OpenBLAS is opened when it is there (Debian: libopenblas0-pthread). Both sides use the threads of
 * the pool, TILTH_NUM_THREADS or all CPUs. */
#include "bench.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/pool.h>

#include "core/inner/half.h"
#include "cpu/gemm.h"

typedef void sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);

typedef struct shape {
    const char *name;
    tl_dtype type;
    int64_t batch, m, n, k;
    bool b_transposed;
} shape;

static const shape shapes[] = {
    {"f32 64 cubed", TL_F32, 1, 64, 64, 64, false},
    {"f32 128 cubed", TL_F32, 1, 128, 128, 128, false},
    {"f32 256 cubed", TL_F32, 1, 256, 256, 256, false},
    {"f32 512 cubed", TL_F32, 1, 512, 512, 512, false},
    {"f32 1024 cubed", TL_F32, 1, 1024, 1024, 1024, false},
    {"f32 1024 cubed, b transposed", TL_F32, 1, 1024, 1024, 1024, true},
    {"f32 1 x 768 x 768", TL_F32, 1, 1, 768, 768, false},
    {"f32 8 x 768 x 768", TL_F32, 1, 8, 768, 768, false},
    {"f32 128 x 3072 x 768", TL_F32, 1, 128, 3072, 768, false},
    {"f32 160 x 30522 x 768, b transposed", TL_F32, 1, 160, 30522, 768, true},
    {"f32 160 x 768 x 30522", TL_F32, 1, 160, 768, 30522, false},
    {"f32 96 of 128 x 64 x 128", TL_F32, 96, 128, 64, 128, false},
    {"f32 96 of 128 x 128 x 64, b transposed", TL_F32, 96, 128, 128, 64, true},
    {"bf16 128 cubed", TL_BF16, 1, 128, 128, 128, false},
    {"bf16 512 cubed", TL_BF16, 1, 512, 512, 512, false},
    {"bf16 1024 cubed", TL_BF16, 1, 1024, 1024, 1024, false},
    {"bf16 128 x 3072 x 768", TL_BF16, 1, 128, 3072, 768, false},
    {"bf16 160 x 30522 x 768, b transposed", TL_BF16, 1, 160, 30522, 768, true},
    {"bf16 160 x 768 x 30522", TL_BF16, 1, 160, 768, 30522, false},
    {"f16 1024 cubed", TL_F16, 1, 1024, 1024, 1024, false},
};

typedef struct work {
    tl_pool *pool;
    tli_isa isa;
    sgemm_fn *sgemm;
    const shape *s;
    tli_gemm g;
    const tli_gemm_kernels *k; /* of the limit */
} work;

static void multiply(void *payload)
{
    const work *w = payload;
    if (tli_gemm_run(w->pool, w->isa, &w->g) != TL_OK) abort();
}

static void multiply_openblas(void *payload)
{
    enum { ROW_MAJOR = 101, AS_IS = 111, TURNED = 112 };
    const work *w = payload;
    const shape *s = w->s;
    const int m = (int)s->m, n = (int)s->n, k = (int)s->k;
    for (int64_t i = 0; i < s->batch; i++)
        w->sgemm(ROW_MAJOR, AS_IS, s->b_transposed ? TURNED : AS_IS, m, n, k, 1,
                 (const float *)w->g.a + i * s->m * s->k, k,
                 (const float *)w->g.b + i * s->k * s->n, s->b_transposed ? k : n, 0,
                 (float *)w->g.c + i * s->m * s->n, n);
}

/* --- the limit -------------------------------------------------------------------------------- */

enum { LIMIT_OPERATIONS = 200000000 }; /* of a thread: long beside the time it takes to start it */

static int64_t rounds_of_limit(const work *w)
{
    return LIMIT_OPERATIONS / w->k->peak(1) + 1;
}

static tl_status multiply_in_registers(int64_t begin, int64_t end, void *payload)
{
    const work *w = payload;
    for (int64_t i = begin; i < end; i++) BENCH_KEEP(w->k->peak(rounds_of_limit(w)));
    return TL_OK;
}

/* Operations a nanosecond of all threads of the pool together. The work of a small case is over
 * before a second thread could help, so that it has no limit of its own. */
static double limit_of(const work *w)
{
    enum { TRIES = 15 };
    const int threads = tl_pool_threads(w->pool);
    int64_t best = INT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        const int64_t start = tl_clock_ns();
        if (tl_parallel_for(w->pool, threads, 1, multiply_in_registers, (void *)(uintptr_t)w)
            != TL_OK)
            abort();
        const int64_t taken = tl_clock_ns() - start;
        if (taken < best) best = taken;
    }
    return (double)w->k->peak(rounds_of_limit(w)) * threads / (double)best;
}

/* --- cases ------------------------------------------------------------------------------------ */

static void *random_matrix(tl_dtype type, int64_t count)
{
    void *x = tl_alloc_aligned(64, (size_t)count * tl_dtype_size(type));
    if (!x) return NULL;
    uint32_t state = 1;
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        const float value = (float)(int32_t)state * 0x1p-31f;
        if (type == TL_F32) ((float *)x)[i] = value;
        else ((uint16_t *)x)[i] = type == TL_BF16 ? tli_to_bf16(value) : tli_to_f16(value);
    }
    return x;
}

static tl_status run_case(bench *b, work *w, bench_peer *torch)
{
    const shape *s = w->s;
    if (!bench_wants(b, s->name)) return TL_OK;
    void *x = random_matrix(s->type, s->batch * s->m * s->k);
    void *y = random_matrix(s->type, s->batch * s->k * s->n);
    void *z = random_matrix(s->type, s->batch * s->m * s->n);
    tl_status status;
    if (!x || !y || !z) {
        status = TL_FAIL(TL_ENOMEM, "%s: no memory for the matrices", s->name);
        goto done;
    }
    w->g = (tli_gemm){
        .m = s->m,
        .n = s->n,
        .k = s->k,
        .alpha = 1,
        .a_type = s->type,
        .b_type = s->type,
        .c_type = s->type,
        .a = x,
        .a_row = s->k,
        .a_col = 1,
        .b = y,
        .b_row = s->b_transposed ? 1 : s->n,
        .b_col = s->b_transposed ? s->k : 1,
        .c = z,
        .c_row = s->n,
        .batch_rank = 1,
        .batch = {s->batch},
        .a_batch = {s->m * s->k},
        .b_batch = {s->k * s->n},
        .c_batch = {s->m * s->n},
    };
    const double operations = 2.0 * (double)s->batch * (double)s->m * (double)s->n * (double)s->k;
    w->k = tli_gemm_kernels_of(w->isa, tli_gemm_kind_of(w->isa, s->type, s->type));
    const bool f32 = s->type == TL_F32;
    status = bench_run(b, &(bench_case){
                              .name = s->name,
                              .unit = "GFLOP/s",
                              .amount = operations,
                              .payload = w,
                              .ours = multiply,
                              .peer = f32 && w->sgemm ? multiply_openblas : NULL,
                              .program = f32 ? NULL : torch,
                              .peer_name = f32 ? "OpenBLAS" : "PyTorch",
                              .limit = limit_of(w),
                              .rest_s = 0.01,
                              .sample_s = 0.01,
                              .rounds = 15,
                          });
done:
    tl_free(x);
    tl_free(y);
    tl_free(z);
    return status;
}

/* A function of a library, which C does not let us cast from a data pointer. */
static void find_function(void *out, void *library, const char *name)
{
    void *found = library ? dlsym(library, name) : NULL;
    memcpy(out, &found, sizeof found);
}

int main(int argc, char **argv)
{
    bench b;
    work w = {0};
    bench_peer torch = BENCH_PEER_INIT;
    char threads[16];
    tl_status st;
    TL_TRY_DONE(st, bench_begin(&b, argc, argv));
    TL_TRY_DONE(st, tl_pool_new(&w.pool, 0));
    TL_TRY_DONE(st, tli_isa_choose(&w.isa));
    snprintf(threads, sizeof threads, "%d", tl_pool_threads(w.pool));
    // Before it starts threads of its own. They would watch for work for 2^26 ticks, much longer
    // than a rest, and hold CPUs that others are measured on; 2^16 last from call to call.
    setenv("OPENBLAS_NUM_THREADS", threads, 1);
    setenv("OPENBLAS_THREAD_TIMEOUT", "16", 1);
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library) printf("no OpenBLAS: %s\n", dlerror());
    find_function(&w.sgemm, library, "cblas_sgemm");
    const char *const command[] = {".venv-torch/bin/python", "bench/peers/gemm.py", threads, NULL};
    TL_TRY_DONE(st, bench_peer_start(&torch, command));
    for (int64_t i = 0; i < TL_COUNT(shapes) && st == TL_OK; i++) {
        w.s = &shapes[i];
        st = run_case(&b, &w, &torch);
    }
done:
    bench_peer_stop(&torch);
    tl_pool_free(&w.pool);
    return bench_end(&b, st);
}
