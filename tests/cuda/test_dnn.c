/* Graphs of cuDNN, for a GPU that need not be there: it takes our descriptions, and has plans that
 * repeat their bits. It loses memory of its own, which would be told of: needs: no sanitizer */
#include "test.h"

#include <dlfcn.h>
#include <math.h>

#include "cuda/attend.h"
#include "cuda/convs.h"

/* An H200, as cuDNN describes one. */
static const char gpu[] =
    "{\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], "
    "\"regsPerBlock\": 65536, \"multiProcessorCount\": 132, \"warpSize\": 32, "
    "\"maxSharedMemoryPerBlock\": 49152, \"maxSharedMemoryPerBlockOptin\": 232448, "
    "\"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": 65536, \"maxCtasPerSM\": 32, "
    "\"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, \"pciDeviceId\": 0, "
    "\"isTccDriver\": 0, \"supportCoopLaunch\": 1, \"totalGlobalMem\": 150000000000, "
    "\"smClockRateKHz\": 1980000, \"memClockRateKHz\": 3201000, \"l2CacheSize\": 62914560, "
    "\"cudaDeviceId\": 0, \"deviceVer\": 900, \"driverVer\": 13000, "
    "\"deviceName\": \"NVIDIA H200\"}";

static const tli_cuda_api *dnn(void)
{
    const tli_cuda_api *api;
    if (tli_cuda_dnn(&api) != TL_OK) {
        print_message("%s\n", tl_error_message());
        skip();
    }
    return api;
}

/* --- convolutions ----------------------------------------------------------------------------- */

typedef struct row {
    const char *name;
    tli_conv conv;
} row;
#define CONV(name, n, size, in, filter, result, out, groups, ...)                                  \
    {                                                                                              \
        name,                                                                                      \
        {                                                                                          \
            0, TL_F32, n, size, size, in, filter, filter, groups, result, result, out, __VA_ARGS__ \
        }                                                                                          \
    }
#define EVENLY(stride, dilation, pad)                                                              \
    {                                                                                              \
        {stride, stride}, {dilation, dilation}, {pad, pad},                                        \
        {                                                                                          \
            pad, pad                                                                               \
        }                                                                                          \
    }
static const row convs[] = {
    CONV("3x3", 32, 28, 64, 3, 28, 128, 1, EVENLY(1, 1, 1)),
    CONV("1x1 with a stride", 32, 28, 64, 1, 14, 128, 1, EVENLY(2, 1, 0)),
    CONV("of an image", 32, 224, 3, 7, 112, 64, 1, EVENLY(2, 1, 3)),
    CONV("dilated", 32, 28, 64, 3, 28, 128, 1, EVENLY(1, 2, 2)),
    CONV("in groups", 32, 28, 64, 3, 28, 128, 4, EVENLY(1, 1, 1)),
    CONV("by channel", 32, 28, 64, 3, 28, 64, 64, EVENLY(1, 1, 1)),
    CONV("with odd sizes", 2, 9, 5, 3, 9, 7, 1, EVENLY(1, 1, 1)),
    CONV("by channel, with odd sizes", 2, 9, 5, 3, 9, 10, 5, EVENLY(1, 1, 1)),
    CONV("without padding", 32, 30, 64, 3, 14, 128, 1, EVENLY(2, 1, 0)),
};

static void plan_conv(const tli_cuda_api *api, const char *name, const tli_conv *c)
{
    tli_dnn_graph g;
    tli_dnn_target target;
    tli_dnn_plan *plan;
    tli_dnn_begin(&g, api);
    assert_ok(tli_dnn_describe(&g, &target, gpu));
    tli_conv_draw(&g, c);
    const tli_dnn_taste taste = {.refused =
                                     c->dtype == TL_F32 ? TLI_DNN_REFUSED_EXACTLY : TLI_DNN_REFUSED,
                                 .most = INT64_C(1) << 30};
    if (tli_dnn_plan_new(&plan, &g, &target, &taste) != TL_OK)
        fail_msg("%s, %s, way %d: %s", name, tl_dtype_name(c->dtype), (int)c->way,
                 tl_error_message());
    tli_dnn_plan_free(&plan);
}

static void test_convolutions(void **state)
{
    static const tl_dtype types[] = {TL_F32, TL_BF16, TL_F16};
    const tli_cuda_api *api = dnn();
    (void)state;
    for (int i = 0; i < TL_COUNT(convs); i++)
        for (int t = 0; t < TL_COUNT(types); t++)
            for (int way = 0; way < 3; way++) {
                tli_conv c = convs[i].conv;
                c.dtype = types[t];
                c.way = (tli_dnn_way)way;
                plan_conv(api, convs[i].name, &c);
                if (!tli_conv_folds(&c)) continue;
                c = tli_conv_fold(&c);
                plan_conv(api, "folded", &c);
            }
}

/* --- attention -------------------------------------------------------------------------------- */

/* Its plans are compiled when they are made, for which cuDNN wants a driver: the toolkit's stub has
 * it recognise the graph and compile, and fail to load what it compiled. */
static bool open_stub(void)
{
    static const char *const paths[] = {"libcuda.so.1", "/usr/local/cuda/lib64/stubs/libcuda.so",
                                        "/usr/local/cuda/lib/stubs/libcuda.so"};
    for (int i = 0; i < TL_COUNT(paths); i++)
        if (dlopen(paths[i], RTLD_NOW | RTLD_GLOBAL)) return true; // stays open
    print_message("there is no driver, nor a stub of one\n");
    return false;
}

static void set_strides(int64_t to[4], int64_t positions, int64_t heads, int64_t width,
                        int64_t packed)
{
    to[0] = positions * heads * width * packed;
    to[1] = heads * width * packed;
    to[2] = width;
    to[3] = 1;
}

static tl_status draw_and_plan(tli_dnn_plan **plan, const tli_cuda_api *api, const tli_attend *a)
{
    tli_dnn_graph g;
    tli_dnn_target target;
    tli_dnn_begin(&g, api);
    assert_ok(tli_dnn_describe(&g, &target, gpu));
    tli_attend_draw(&g, a);
    const tli_dnn_taste taste = {.refused = TLI_DNN_REFUSED, .most = INT64_MAX};
    return tli_dnn_plan_new(plan, &g, &target, &taste);
}

static void plan_attention(const tli_cuda_api *api, const tli_attend *a)
{
    tli_dnn_plan *plan;
    if (draw_and_plan(&plan, api, a) != TL_OK
        && !strstr(tl_error_message(), "CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER"))
        fail_msg("%s, causal %d, gradient %d, %d heads of keys: %s", tl_dtype_name(a->dtype),
                 a->causal, a->gradient, (int)a->key_heads, tl_error_message());
    tli_dnn_plan_free(&plan);
}

static void test_attention(void **state)
{
    const tli_cuda_api *api = dnn();
    (void)state;
    if (!open_stub()) skip();
    // each takes seconds to compile: of a projection to all three, causal; and grouped
    for (int i = 0; i < 2; i++) {
        const bool causal = i == 0;
        const int64_t packed = causal ? 3 : 1;
        tli_attend a = {.dtype = causal ? TL_BF16 : TL_F16,
                        .gradient = causal,
                        .causal = causal,
                        .batch = 64,
                        .queries = 1024,
                        .keys = causal ? 1024 : 512,
                        .heads = 12,
                        .key_heads = causal ? 12 : 3,
                        .width = 64,
                        .value_width = 64};
        set_strides(a.q, a.queries, a.heads, a.width, packed);
        set_strides(a.k, a.keys, a.key_heads, a.width, packed);
        set_strides(a.v, a.keys, a.key_heads, a.width, packed);
        set_strides(a.y, a.queries, a.heads, a.width, 1);
        set_strides(a.gy, a.queries, a.heads, a.width, 1);
        plan_attention(api, &a);
    }
}

/* The same without compiling: plans that are about to be made are counted. */
static const tli_cuda_api *asked;
static cudnnBackendDescriptor_t last_plan;
static int plans;

static cudnnStatus_t create_and_note(cudnnBackendDescriptorType_t type,
                                     cudnnBackendDescriptor_t *out)
{
    const cudnnStatus_t status = asked->cudnnBackendCreateDescriptor(type, out);
    if (type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) last_plan = *out;
    return status;
}

static cudnnStatus_t finish_no_plan(cudnnBackendDescriptor_t what)
{
    enum { NOT_SUPPORTED = 3000 };
    if (what != last_plan) return asked->cudnnBackendFinalize(what);
    plans++;
    return NOT_SUPPORTED;
}

/* How many plans, of those that repeat their bits, cuDNN proposes for attention of these sizes.
 * Queries, keys and values lie in one tensor where `packed`. */
static int count_plans(const tli_cuda_api *api, tli_attend a, bool packed)
{
    tli_cuda_api quick = *api;
    tli_dnn_plan *plan;
    const int64_t step = packed ? 3 : 1;
    quick.cudnnBackendCreateDescriptor = create_and_note;
    quick.cudnnBackendFinalize = finish_no_plan;
    asked = api;
    last_plan = NULL;
    plans = 0;
    a.joined = packed && a.gradient;
    set_strides(a.q, a.queries, a.heads, a.width, step);
    set_strides(a.k, a.keys, a.key_heads, a.width, step);
    set_strides(a.v, a.keys, a.key_heads, a.value_width, step);
    set_strides(a.y, a.queries, a.heads, a.value_width, 1);
    set_strides(a.gy, a.queries, a.heads, a.value_width, 1);
    assert_int_not_equal(draw_and_plan(&plan, &quick, &a), TL_OK); // as none is made
    return plans;
}

/* All that goes to cuDNN has a plan: both ways, both types, causal and not. */
static void test_attention_forms(void **state)
{
    static const struct form {
        const char *name;
        bool packed, causal_too;
        int64_t queries, keys, heads, key_heads, width, value_width;
    } forms[] = {
        {"gpt2", true, true, 1024, 1024, 12, 12, 64, 64},
        {"bert", true, true, 512, 512, 12, 12, 64, 64},
        {"apart", false, true, 512, 512, 12, 12, 64, 64},
        {"a short line", false, true, 16, 16, 2, 2, 8, 8},
        {"of odd length", true, true, 197, 197, 3, 3, 64, 64},
        {"one query", false, false, 1, 333, 4, 4, 64, 64},
        {"across", false, false, 77, 512, 8, 8, 64, 64},
        {"in groups", false, true, 512, 512, 12, 3, 64, 64},
        {"one for all", false, true, 256, 256, 8, 1, 128, 128},
        {"narrow", false, true, 128, 128, 4, 4, 32, 32},
        {"of two widths", false, true, 256, 256, 4, 4, 64, 32},
        {"wide", false, true, 512, 512, 16, 16, 128, 128},
    };
    const tli_cuda_api *api = dnn();
    (void)state;
    if (!open_stub()) skip();
    for (int i = 0; i < TL_COUNT(forms); i++)
        for (int kind = 0; kind < 8; kind++) {
            const struct form *f = &forms[i];
            const tli_attend a = {.dtype = kind & 1 ? TL_F16 : TL_BF16,
                                  .gradient = kind & 2,
                                  .causal = kind & 4,
                                  .batch = 8,
                                  .queries = f->queries,
                                  .keys = f->keys,
                                  .heads = f->heads,
                                  .key_heads = f->key_heads,
                                  .width = f->width,
                                  .value_width = f->value_width};
            if (a.causal && !f->causal_too) continue;
            if (count_plans(api, a, f->packed) == 0)
                fail_msg("%s, %s, causal %d, gradient %d: %s", f->name, tl_dtype_name(a.dtype),
                         a.causal, a.gradient, tl_error_message());
        }
    // a width of no multiple of 8 is not for it, which such calls know
    const tli_attend narrow = {.dtype = TL_BF16,
                               .batch = 8,
                               .queries = 128,
                               .keys = 128,
                               .heads = 4,
                               .key_heads = 4,
                               .width = 12,
                               .value_width = 12};
    assert_true(count_plans(api, narrow, false) == 0);
}

/* What cannot be is refused with cuDNN's words, and nothing stays behind. */
static void test_refused(void **state)
{
    const tli_cuda_api *api = dnn();
    tli_conv c = convs[0].conv;
    tli_dnn_graph g;
    tli_dnn_target target;
    tli_dnn_plan *plan;
    (void)state;
    c.result_rows = 5; // no such result
    tli_dnn_begin(&g, api);
    assert_ok(tli_dnn_describe(&g, &target, gpu));
    tli_conv_draw(&g, &c);
    const tli_dnn_taste taste = {.refused = TLI_DNN_REFUSED};
    assert_int_equal(tli_dnn_plan_new(&plan, &g, &target, &taste), TL_EUNSUPPORTED);
    assert_null(plan);
    assert_non_null(strstr(tl_error_message(), "cuDNN"));
    tli_dnn_begin(&g, api);
    assert_int_equal(tli_dnn_describe(&g, &target, "{}"), TL_EUNSUPPORTED);
    tli_dnn_deinit(&g);
}

/* Times that are made up: the third plan is the quickest. */
typedef struct times {
    int asked;
    char third[TLI_DNN_CHOICE];
} times;

static tl_status made_up(void *self, const tli_dnn_plan *plan, double best_ns, double *ns)
{
    times *c = self;
    assert_true(c->asked ? best_ns == (c->asked < 3 ? 2 : 1) : isinf(best_ns));
    *ns = ++c->asked == 3 ? 1 : 2;
    if (c->asked == 3) memcpy(c->third, plan->choice, sizeof c->third);
    return TL_OK;
}

static tl_status plan_as(tli_dnn_plan **plan, const tli_cuda_api *api, const tli_dnn_taste *taste)
{
    tli_dnn_graph g;
    tli_dnn_target target;
    tli_conv c = convs[0].conv;
    c.dtype = TL_BF16;
    tli_dnn_begin(&g, api);
    assert_ok(tli_dnn_describe(&g, &target, gpu));
    tli_conv_draw(&g, &c);
    return tli_dnn_plan_new(plan, &g, &target, taste);
}

static void test_choice(void **state)
{
    const tli_cuda_api *api = dnn();
    times c = {0};
    tli_dnn_plan *plan;
    tli_dnn_taste taste = {TLI_DNN_REFUSED, INT64_C(1) << 30, NULL, made_up, &c};
    (void)state;
    assert_ok(plan_as(&plan, api, &taste));
    assert_int_equal(c.asked, 3 + 6); // then it seems that nothing gets better
    assert_string_equal(plan->choice, c.third);
    tli_dnn_plan_free(&plan);
    // once chosen it is not measured again
    taste.choice = c.third;
    c.asked = 0;
    assert_ok(plan_as(&plan, api, &taste));
    assert_string_equal(plan->choice, c.third);
    assert_int_equal(c.asked, 0);
    tli_dnn_plan_free(&plan);
    taste.choice = "plan 1 engine -1";
    assert_fails(plan_as(&plan, api, &taste), TL_EUNSUPPORTED, "which was chosen");
    assert_null(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolutions), cmocka_unit_test(test_choice),
        cmocka_unit_test(test_attention), cmocka_unit_test(test_attention_forms),
        cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
