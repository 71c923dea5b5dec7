/* The text of kernels is CUDA C: NVRTC takes every case, for a GPU that need not be there. None
 * keeps in memory what registers have no room for, nor adds floats in an order that nobody knows.
 */
#include "nest/nest_cases.h"

#include "cubin.h"

#include "cuda/api.h"
#include "cuda/attend.h"
#include "cuda/compile.h"
#include "cuda/convs.h"
#include "cuda/pools.h"

/* As a GPU gets it. */
static tl_status compile(char **code, size_t *bytes, const tl_str *text, tl_str *log)
{
    tl_str pruned = TL_STR_INIT;
    tl_status st = tl_gpu_prune(&pruned, tl_str_text(text));
    assert_true(pruned.length + (8 << 10) < text->length); // the host's part is never needed
    if (st == TL_OK) st = tli_cuda_compile(code, bytes, tl_str_text(&pruned), 9, 0, log);
    tl_str_deinit(&pruned);
    return st;
}

/* `local`: functions that may have memory of their own. */
static void check_code(const char *code, size_t bytes, int local)
{
    cubin_facts facts;
    assert_true(cubin_read(&facts, code, bytes) && facts.kernels > 0);
    if (facts.local > local || facts.float_atomics)
        fail_msg("%s: %d functions with memory of their own, %d atomics of floats", facts.first,
                 facts.local, facts.float_atomics);
}

/* A kernel that must compile, and be good. */
static void check_kernel(const tl_str *text)
{
    char *code;
    size_t bytes;
    assert_ok(tl_str_status(text));
    assert_ok(compile(&code, &bytes, text, NULL));
    check_code(code, bytes, 0);
    tl_free(code);
}

static void compiled(cases *c)
{
    const tli_cuda_api *api;
    tl_str text = TL_STR_INIT, log = TL_STR_INIT;
    char *code;
    size_t bytes;
    if (tli_cuda_compiler(&api) != TL_OK) {
        cases_deinit(c);
        skip();
    }
    tl_gpu_print_head(&text);
    for (int i = 0; i < c->count; i++) {
        char name[32];
        const tl_status st = tl_gpu_walk_new(&c->all[i]->gpu, c->arena, &c->all[i]->nest);
        if (st == TL_EUNSUPPORTED) continue;
        assert_ok(st);
        snprintf(name, sizeof name, "k%d", i);
        tl_gpu_print(&text, c->all[i]->gpu, name, false);
    }
    assert_ok(compile(&code, &bytes, &text, &log));
    check_code(code, bytes, c->count); // two results of a call, as of large angles, are there
    for (const char *at = tl_str_text(&log); (at = strstr(at, " bytes spill stores")); at++)
        if (at[-1] != '0' || at[-2] != ' ') fail_msg("%s", tl_str_text(&log));
    tl_free(code);
    tl_str_deinit(&text);
    tl_str_deinit(&log);
    cases_deinit(c);
}

/* gelu(x + bias) of bfloat16 with the sums of its columns. */
static void test_columns(void **state)
{
    (void)state;
    cases c;
    cases_init(&c);
    build *b = cases_add(&c, "columns", 2, (const int64_t[]){4096, 768});
    const int x = load(b, TL_BF16, (const int64_t[]){768, 1}, 0);
    const int bias = load(b, TL_BF16, (const int64_t[]){0, 1}, 0);
    const int sum = op(b, TL_OP_add, TL_BF16, NULL, 2, x, bias);
    const int y = op(b, TL_OP_gelu, TL_BF16, attr_for(TL_OP_gelu, 0), 1, sum);
    store_all(b, y);
    store_all(b, reduce(b, TL_OP_sum, y, 1));
    compiled(&c);
}

/* Elements are loaded before others are stored, also where compilers do not know that they lie
 * apart. */
static void test_loads_ahead(void **state)
{
    (void)state;
    cases c;
    tl_str text = TL_STR_INIT;
    cases_init(&c);
    build *b = cases_add(&c, "flat", 2, (const int64_t[]){5, 77});
    const int x = load(b, TL_F32, (const int64_t[]){77, 1}, 0);
    const int row = load(b, TL_F32, (const int64_t[]){0, 1}, 0);
    store_all(b, op(b, TL_OP_add, TL_F32, NULL, 2, x, row));
    assert_ok(tl_gpu_walk_new(&b->gpu, c.arena, &b->nest));
    tl_gpu_print(&text, b->gpu, "flat", false);
    const char *first = strstr(tl_str_text(&text), "r0[j] = b0["),
               *second = strstr(tl_str_text(&text), "r1[j] = b1["),
               *stored = strstr(tl_str_text(&text), " b2[");
    assert_true(first && second && stored && first < stored && second < stored);
    tl_str_deinit(&text);
    compiled(&c);
}

/* A softmax: two reductions along rows. */
static void test_rows(void **state)
{
    static const int64_t lengths[] = {17, 300, 1000, 5000, 30522};
    (void)state;
    cases c;
    cases_init(&c);
    for (int i = 0; i < (int)(sizeof lengths / sizeof *lengths); i++) {
        build *b = cases_add(&c, "softmax", 2, (const int64_t[]){64, lengths[i]});
        const int x = load(b, TL_F32, (const int64_t[]){lengths[i], 1}, 0);
        const int most = reduce(b, TL_OP_max, x, 2);
        const int y = op(b, TL_OP_exp, TL_F32, NULL, 1, op(b, TL_OP_sub, TL_F32, NULL, 2, x, most));
        store_all(b, op(b, TL_OP_div, TL_F32, NULL, 2, y, reduce(b, TL_OP_sum, y, 2)));
    }
    compiled(&c);
}

/* Every op that nests have, in float32. */
static void test_ops(void **state)
{
    (void)state;
    cases c;
    cases_init(&c);
    for (int what = 0; what < TL_OP_COUNT; what++) {
        const tl_op_class *cls = tl_op_class_of((tl_op)what);
        if (!is_elementwise((tl_op)what) || !tl_nest_has_op((tl_op)what, TL_F32, TL_F32)) continue;
        build *b = cases_add(&c, cls->name, 1, (const int64_t[]){1000});
        int in[TL_TERM_INPUTS] = {0};
        for (int i = 0; i < cls->inputs_min; i++)
            in[i] = load(b, i < cls->by ? TL_BOOL : TL_F32, (const int64_t[]){1}, 0);
        store_all(b, op(b, (tl_op)what, TL_F32, attr_for((tl_op)what, 0), cls->inputs_min, in[0],
                        in[1], in[2]));
    }
    assert_true(c.count > 20);
    compiled(&c);
}

/* Kernels that are written by hand: of attention in parts, of convolutions by channels. */
static void test_written(void **state)
{
    static bool (*const texts[])(tl_str * out, int number, tl_dtype dtype) = {tli_attend_text,
                                                                              tli_depthwise_text};
    const tli_cuda_api *api;
    (void)state;
    if (tli_cuda_compiler(&api) != TL_OK) skip();
    for (int t = 0, i = 0; t < TL_COUNT(texts); i++) {
        tl_str text = TL_STR_INIT;
        tl_gpu_print_head(&text);
        if (texts[t](&text, i, TL_BF16)) check_kernel(&text);
        else { // the next ones
            t++;
            i = -1;
        }
        tl_str_deinit(&text);
    }
}

/* Kernels of pooling: many channels for a thread, and one. */
static void test_pools(void **state)
{
    static const tl_dtype types[] = {TL_F64, TL_BF16};
    const tli_cuda_api *api;
    (void)state;
    if (tli_cuda_compiler(&api) != TL_OK) skip();
    for (int t = 0; t < TL_COUNT(types); t++)
        for (int i = 0;; i++) {
            tl_str text = TL_STR_INIT;
            tl_gpu_print_head(&text);
            const bool there = tli_cuda_pool_text(&text, i, types[t], t == 1);
            if (there) check_kernel(&text);
            tl_str_deinit(&text);
            if (!there) break;
        }
}

/* --- what must be found ----------------------------------------------------------------------- */

/* What the code of such a kernel says. */
static cubin_facts facts_of(const char *text)
{
    cubin_facts facts;
    char *code;
    size_t bytes;
    assert_ok(tli_cuda_compile(&code, &bytes, text, 9, 0, NULL));
    assert_true(cubin_read(&facts, code, bytes));
    assert_int_equal(facts.kernels, 1);
    tl_free(code);
    return facts;
}

static void test_atomics_are_found(void **state)
{
    static const char *const types[] = {"float", "double", "unsigned", "unsigned long long"};
    static const char *const places[] = {"atomicAdd(p + threadIdx.x, v);",
                                         "p[64] = atomicAdd(p + threadIdx.x, v);",
                                         "__shared__ T s[8]; s[threadIdx.x & 7] = 0;"
                                         "__syncthreads(); atomicAdd(s + (threadIdx.x & 3), v);"
                                         "__syncthreads(); p[threadIdx.x] = s[threadIdx.x & 7];"};
    const tli_cuda_api *api;
    char text[512];
    (void)state;
    if (tli_cuda_compiler(&api) != TL_OK) skip();
    for (int type = 0; type < TL_COUNT(types); type++)
        for (int place = 0; place < TL_COUNT(places); place++) {
            const bool is_float = type < 2;
            if (type == 3 && place == 2) continue; // by exchanges as well
            snprintf(text, sizeof text,
                     "typedef %s T;\nextern \"C\" __global__ void kernel(T *p, T v)\n{\n%s\n}\n",
                     types[type], places[place]);
            const cubin_facts facts = facts_of(text);
            if ((facts.float_atomics > 0) != is_float) fail_msg("%d:\n%s", is_float, text);
        }
    // those of two halves, and as sweeps of meeting kernels might write them
    assert_true(facts_of("extern \"C\" __global__ void kernel(void *p, unsigned v)\n{\n"
                         "asm volatile(\"red.global.add.noftz.bf16x2 [%0], %1;\" ::\"l\"(p), "
                         "\"r\"(v) : \"memory\");\n}\n")
                    .float_atomics
                > 0);
}

static void test_spills_are_found(void **state)
{
    enum { VALUES = 80 }; // more than registers
    const tli_cuda_api *api;
    (void)state;
    if (tli_cuda_compiler(&api) != TL_OK) skip();
    for (int bound = 0; bound < 2; bound++) {
        tl_str text = TL_STR_INIT;
        tl_str_addf(
            &text,
            "extern \"C\" __global__ void %s kernel(float *p)\n{\n    float x[%d];\n"
            "    for (int i = 0; i < %d; i++) x[i] = p[i * 1024 + threadIdx.x];\n"
            "    __syncthreads();\n"
            "    for (int i = 0; i < %d; i++) p[i * 1024 + threadIdx.x] = x[%d - i] * x[i];\n"
            "}\n",
            bound ? "__launch_bounds__(1024, 2)" : "__launch_bounds__(128)", VALUES, VALUES, VALUES,
            VALUES - 1);
        assert_int_equal(facts_of(tl_str_text(&text)).local, bound);
        tl_str_deinit(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_written),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_ops),
        cmocka_unit_test(test_loads_ahead),
        cmocka_unit_test(test_atomics_are_found),
        cmocka_unit_test(test_spills_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
