/* What cuBLASLt is told of where operands lie, and which plan a product then takes: by a driver and
 * a library that are none (fake/cuda). needs: no sanitizer */
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

#include <tilth/ops/matmul.h>
#include <tilth/sys/cuda/cuda.h>
#include <tilth/tilth.h>

#include "core/inner/engine.h"
#include "core/inner/storage.h"
#include "cuda/device.h"
#include "cuda/products.h"

static char cache[TEMPORARY_PATH];

/* What the library was told before it was last asked for algorithms: of A, B, C and D. */
static struct {
    uint32_t told[4], asked[4];
    int times;
    size_t room; /* that algorithms want */
} heard;

/* The last product. */
static struct {
    uint64_t algorithm;
    const void *a, *b, *c, *d;
} run;

enum { FIRST = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES };

static cublasStatus_t hear(cublasLtMatmulPreference_t preference,
                           cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                           size_t bytes)
{
    (void)preference;
    if (attribute >= FIRST && attribute < FIRST + TL_COUNT(heard.told)) {
        assert_int_equal(bytes, sizeof *heard.told);
        memcpy(&heard.told[attribute - FIRST], value, bytes);
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* Two algorithms; the number of the first is how often somebody has asked. */
static cublasStatus_t propose(cublasLtHandle_t with, cublasLtMatmulDesc_t what,
                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                              cublasLtMatmulPreference_t preference, int wanted,
                              cublasLtMatmulHeuristicResult_t *results, int *found)
{
    (void)with, (void)what, (void)a, (void)b, (void)c, (void)d, (void)preference;
    assert_true(wanted >= 2);
    memcpy(heard.asked, heard.told, sizeof heard.asked);
    memset(heard.told, 0, sizeof heard.told);
    heard.times++;
    for (int i = 0; i < 2; i++)
        results[i] = (cublasLtMatmulHeuristicResult_t){
            .algo.data[0] = (uint64_t)(heard.times + 1000 * i), .workspaceSize = heard.room};
    *found = 2;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t note(cublasLtHandle_t with, cublasLtMatmulDesc_t what, const void *alpha,
                           const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                           cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                           cublasLtMatrixLayout_t c_layout, void *d,
                           cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm,
                           void *workspace, size_t bytes, cudaStream_t stream)
{
    (void)with, (void)what, (void)alpha, (void)a_layout, (void)b_layout, (void)beta;
    (void)c_layout, (void)d_layout, (void)workspace, (void)bytes, (void)stream;
    run.algorithm = algorithm->data[0];
    run.a = a, run.b = b, run.c = c, run.d = d;
    return CUBLAS_STATUS_SUCCESS;
}

/* The library's functions are those above from now on. */
static void listen(void)
{
    const tli_cuda_api *api;
    tli_cuda_api *own;
    assert_ok(tli_cuda_products(&api));
    memcpy(&own, &api, sizeof own);
    own->cublasLtMatmulPreferenceSetAttribute = hear;
    own->cublasLtMatmulAlgoGetHeuristic = propose;
    own->cublasLtMatmul = note;
}

enum { M = 24, N = 40, K = 56, MOST_SIZE = 4096 };

typedef struct places {
    tl_engine *engine;
    char *a, *b, *c, *added;
} places;

/* c = a b, whose memory begins so many bytes behind where it is aligned. Gives the algorithm. */
static uint64_t multiply(const places *p, int a, int b, int c, int added)
{
    const tl_run with = {.engine = p->engine, .queue = p->engine->queue};
    const tli_cuda_product what = {
        .dtype = TL_F32, .m = M, .n = N, .k = K, .batch = 1, .added = added >= 0};
    const tli_cuda_operands o = {
        .a = p->a + a, .b = p->b + b, .c = p->c + c, .added = added < 0 ? NULL : p->added + added};
    assert_ok(tli_cuda_multiply_into(&with, &what, &o));
    // rows are its columns, so that it is b and then a
    assert_ptr_equal(run.a, o.b);
    assert_ptr_equal(run.b, o.a);
    assert_ptr_equal(run.c, o.added ? o.added : o.c);
    assert_ptr_equal(run.d, o.c);
    return run.algorithm;
}

static void expect_asked(int times, uint32_t a, uint32_t b, uint32_t c)
{
    assert_int_equal(heard.times, times);
    assert_int_equal(heard.asked[0], b);
    assert_int_equal(heard.asked[1], a);
    assert_int_equal(heard.asked[2], c);
    assert_int_equal(heard.asked[3], c);
}

static places open_places(tl_ctx **c)
{
    places p;
    char **const to[] = {&p.a, &p.b, &p.c, &p.added};
    assert_ok(tl_engine_new(&p.engine, &(tl_engine_args){.backend = &tl_backend_cuda}));
    assert_ok(tl_ctx_new(c, p.engine));
    for (int i = 0; i < (int)TL_COUNT(to); i++) {
        tl_tensor *t = tl_zeros(*c, TL_F32, TL_SHAPE(MOST_SIZE));
        assert_ok(tl_ctx_status(*c));
        *to[i] = tli_data(t);
        assert_int_equal((uintptr_t)*to[i] % 256, 0);
    }
    listen();
    memset(&heard, 0, sizeof heard);
    return p;
}

static void close_places(places *p, tl_ctx **c)
{
    tl_ctx_free(c);
    tl_engine_free(&p->engine);
}

static void it_is_told_what_is_so(void **state)
{
    tl_ctx *c;
    places p = open_places(&c);
    (void)state;
    assert_int_equal(multiply(&p, 0, 0, 0, -1), 1);
    expect_asked(1, 256, 256, 256);
    assert_int_equal(multiply(&p, 4, 0, 0, -1), 2);
    expect_asked(2, 4, 256, 256);
    assert_int_equal(multiply(&p, 0, 8, 64, -1), 3);
    expect_asked(3, 256, 8, 64);
    assert_int_equal(multiply(&p, 12, 36, 2, -1), 4); // 12 is no power of two
    expect_asked(4, 4, 4, 2);
    // what is added lies in the place of C, and the result in that of D: what both keep
    assert_int_equal(multiply(&p, 0, 0, 0, 0), 5);
    expect_asked(5, 256, 256, 256);
    assert_int_equal(multiply(&p, 0, 0, 16, 4), 6);
    expect_asked(6, 256, 256, 4);
    assert_int_equal(multiply(&p, 0, 0, 4, 16), 6); // so it is the same
    close_places(&p, &c);
}

/* Nothing can be told of where a bias lies, so an odd one makes the result odd. */
static void a_bias_counts_with_the_result(void **state)
{
    tl_ctx *c;
    places p = open_places(&c);
    (void)state;
    const tl_run with = {.engine = p.engine, .queue = p.engine->queue};
    const tli_cuda_product what = {
        .dtype = TL_F32, .m = M, .n = N, .k = K, .batch = 1, .bias = true};
    const struct {
        int bias;
        uint32_t told;
    } cases[] = {{0, 256}, {8, 8}, {4, 4}, {16, 256}, {48, 256}};
    for (int i = 0; i < (int)TL_COUNT(cases); i++) {
        const tli_cuda_operands o = {.a = p.a, .b = p.b, .c = p.c, .bias = p.added + cases[i].bias};
        assert_ok(tli_cuda_multiply_into(&with, &what, &o));
        if (i < 3) expect_asked(i + 1, 256, 256, cases[i].told);
        else assert_int_equal(run.algorithm, 1); // vectors of 16 bytes can read it
    }
    close_places(&p, &c);
}

static void a_plan_serves_those_that_lie_as_it_was_told(void **state)
{
    tl_ctx *c;
    places p = open_places(&c);
    (void)state;
    const uint64_t even = multiply(&p, 0, 0, 0, -1), odd = multiply(&p, 4, 0, 0, -1);
    assert_true(even != odd);
    assert_int_equal(multiply(&p, 256, 1024, 512, -1), even); // as far as anybody cares
    assert_int_equal(multiply(&p, 20, 256, 0, -1), odd);
    assert_int_equal(multiply(&p, 0, 0, 0, -1), even);
    assert_int_equal(heard.times, 2);
    // one that lies otherwise is another one each time
    uint64_t last = 2;
    for (int at = 4; at <= 128; at *= 2) {
        if (at > 4) assert_int_equal(multiply(&p, at, 0, 0, -1), ++last);
        assert_int_equal(multiply(&p, 0, at, 0, -1), ++last);
        assert_int_equal(multiply(&p, 0, 0, at, -1), ++last);
    }
    assert_int_equal(multiply(&p, 4, 0, 0, -1), odd);
    close_places(&p, &c);
}

/* Operands of calls that are contiguous and begin at an odd element are not copied first. */
static void views_are_told_of(void **state)
{
    tl_ctx *c;
    places p = open_places(&c);
    (void)state;
    tl_tensor *all = tl_zeros(c, TL_F64, TL_SHAPE(M * K + 1)),
              *b = tl_zeros(c, TL_F64, TL_SHAPE(K, N));
    tl_tensor *a = tl_reshape(c, tl_slice(c, all, 0, 1, M * K + 1, 1), TL_SHAPE(M, K));
    assert_ok(tl_ctx_status(c));
    assert_true(a->contiguous);
    assert_non_null(tl_matmul(c, a, b));
    assert_ptr_equal(run.b, (char *)tli_data(all) + sizeof(double));
    expect_asked(1, sizeof(double), 256, 256);
    assert_non_null(
        tl_matmul(c, tl_reshape(c, tl_slice(c, all, 0, 0, M * K, 1), TL_SHAPE(M, K)), b));
    expect_asked(2, 256, 256, 256);
    close_places(&p, &c);
}

/* --- room ------------------------------------------------------------------------------------- */

/* c = a b, so large that its algorithms are measured; nobody reads its elements here. */
static tl_status multiply_large(const places *p, int64_t n)
{
    enum { LARGE = 512 };
    const tl_run with = {.engine = p->engine, .queue = p->engine->queue};
    const tli_cuda_product what = {.dtype = TL_F32, .m = LARGE, .n = n, .k = LARGE, .batch = 1};
    return tli_cuda_multiply_into(&with, &what,
                                  &(tli_cuda_operands){.a = p->a, .b = p->b, .c = p->c});
}

static tl_status multiply_64(void *p)
{
    return multiply_large(p, 64);
}

/* Measuring makes room for those that are not chosen, which is given back but where a list has its
 * address: then it is what everybody uses. */
static void measuring_leaves_lists_their_room(void **state)
{
    tl_ctx *c;
    places p = open_places(&c);
    const tl_queue *queue = p.engine->queue;
    const tli_cuda_queue *q = tli_cuda_queue_of(p.engine->queue);
    tl_device_program *list;
    (void)state;
    heard.room = 5 << 20;
    assert_ok(multiply_64(&p));
    assert_ok(queue->device->cls->program_build(&list, p.engine->queue, multiply_64, &p));
    assert_true(q->workspace.listed);
    const CUdeviceptr at = q->workspace.at;
    assert_ok(multiply_large(&p, 128));
    assert_true(q->workspace.at == at);
    assert_int_equal(q->outgrown.count, 0);
    heard.room = 9 << 20; // of which the list knows nothing
    assert_ok(multiply_large(&p, 256));
    assert_true(q->workspace.at != at && !q->workspace.listed);
    assert_int_equal(q->outgrown.count, 1);
    queue->device->cls->program_free(&list);
    close_places(&p, &c);
}

static int open_libraries(void **state)
{
    (void)state;
    setenv("TILTH_CUDA_PATH", FAKE_CUDA_FOLDER ":" FAKE_CUDA_MORE, 1);
    unsetenv("TILTH_DEVICE");
    return mkdtemp(temporary(cache, "tilth-products")) && setenv("TILTH_CACHE_DIR", cache, 1) == 0
               ? 0
               : -1;
}

static int close_libraries(void **state)
{
    (void)state;
    return remove_tree(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_told_what_is_so),
        cmocka_unit_test(a_bias_counts_with_the_result),
        cmocka_unit_test(a_plan_serves_those_that_lie_as_it_was_told),
        cmocka_unit_test(views_are_told_of),
        cmocka_unit_test(measuring_leaves_lists_their_room),
    };
    return cmocka_run_group_tests(tests, open_libraries, close_libraries);
}
