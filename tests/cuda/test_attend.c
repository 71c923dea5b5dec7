/* Which calls of attention are cuDNN's, and how they lie there: by a driver and libraries that are
 * none (fake/cuda). needs: no sanitizer */
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

#include <tilth/ops/attention.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/view.h>
#include <tilth/sys/cuda/cuda.h>
#include <tilth/tilth.h>

#include "core/inner/storage.h"
#include "cuda/attend.h"

static char cache[TEMPORARY_PATH];
static tl_engine *engine;
static tl_ctx *c;

/* Plans that were run, and where the last one found what. */
static int runs;
static int64_t numbers[TLI_DNN_PLACES], count;
static const void *places[TLI_DNN_PLACES];

static cudnnStatus_t note_run(cudnnHandle_t with, cudnnBackendDescriptor_t plan,
                              cudnnBackendDescriptor_t pack)
{
    (void)with, (void)plan, (void)pack;
    runs++;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t note_places(cudnnBackendDescriptor_t what,
                                 cudnnBackendAttributeName_t attribute,
                                 cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
    (void)what, (void)type;
    if (attribute == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) {
        count = n;
        memcpy(numbers, values, (size_t)n * sizeof *numbers);
    }
    if (attribute == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)
        memcpy(places, values, (size_t)n * sizeof *places);
    return CUDNN_STATUS_SUCCESS;
}

static const void *place_of(int64_t number)
{
    for (int64_t i = 0; i < count; i++)
        if (numbers[i] == number) return places[i];
    return NULL;
}

enum { B = 2, T = 16, H = 4, D = 8 };

static tl_tensor *of(tl_dtype dtype, int64_t positions, int64_t heads, int64_t width)
{
    return tl_zeros(c, dtype, TL_SHAPE(B, positions, heads, width));
}

/* How often cuDNN ran for attention, and for its gradient. */
static int runs_of(tl_tensor *q, tl_tensor *k, const tl_attend_args *args)
{
    tl_tensor *by[] = {q, k, args->v}, *grads[3];
    runs = 0;
    for (int i = 0; i < 3; i++) assert_ok(tl_watch(by[i]));
    const bool taping = tl_ctx_set_taping(c, true);
    tl_tensor *y = tl_attend_with(c, q, k, args);
    assert_ok(tl_gradient(c, tl_sum(c, y, TL_ALL, false), by, 3, grads));
    (void)tl_ctx_set_taping(c, taping);
    assert_ok(tl_engine_wait(engine));
    return runs;
}

#define RUNS_OF(q, k, ...) runs_of((q), (k), &(tl_attend_args){__VA_ARGS__})

static void what_it_has_kernels_for_is_its_own(void **state)
{
    static const tl_dtype types[] = {TL_BF16, TL_F16};
    (void)state;
    for (int i = 0; i < (int)TL_COUNT(types); i++) {
        const tl_dtype t = types[i];
        assert_int_equal(RUNS_OF(of(t, T, H, D), of(t, T, H, D), .v = of(t, T, H, D)), 2);
        assert_int_equal(
            RUNS_OF(of(t, T, H, D), of(t, T, H, D), .v = of(t, T, H, D), .causal = true), 2);
        assert_int_equal(RUNS_OF(of(t, 5, H, D), of(t, T, H, D), .v = of(t, T, H, D)), 2);
        assert_int_equal(RUNS_OF(of(t, T, H, D), of(t, T, 2, D), .v = of(t, T, 2, 2 * D)), 2);
    }
}

/* A mask, a bias, dropout; exact sums; a width that it does not read at once; a triangle of which
 * it would take another corner. */
static void everything_else_is_computed_in_parts(void **state)
{
    const tl_dtype t = TL_BF16;
    (void)state;
    assert_int_equal(RUNS_OF(of(t, T, H, D), of(t, T, H, D), .v = of(t, T, H, D),
                             .mask = tl_ones(c, TL_BOOL, TL_SHAPE(B, T))),
                     0);
    assert_int_equal(RUNS_OF(of(t, T, H, D), of(t, T, H, D), .v = of(t, T, H, D),
                             .bias = tl_zeros(c, t, TL_SHAPE(1, H, T, T))),
                     0);
    tl_ctx_set_training(c, true);
    assert_int_equal(RUNS_OF(of(t, T, H, D), of(t, T, H, D), .v = of(t, T, H, D), .dropout = 0.1),
                     0);
    tl_ctx_set_training(c, false);
    assert_int_equal(RUNS_OF(of(t, T, H, D), of(t, T, H, D), .v = of(t, T, H, D), .dropout = 0.1),
                     2); // which drops nothing then
    assert_int_equal(RUNS_OF(of(TL_F32, T, H, D), of(TL_F32, T, H, D), .v = of(TL_F32, T, H, D)),
                     0);
    assert_int_equal(RUNS_OF(of(t, T, H, 12), of(t, T, H, 12), .v = of(t, T, H, 12)), 0);
    assert_int_equal(RUNS_OF(of(t, 5, H, D), of(t, T, H, D), .v = of(t, T, H, D), .causal = true),
                     0);
}

/* Queries, keys and values side by side, as one product gives them, are read where they lie; what
 * begins at an odd element is copied first. */
static void views_are_read_where_they_lie(void **state)
{
    (void)state;
    tl_tensor *all = of(TL_BF16, T, 3 * H, D), *parts[3];
    for (int i = 0; i < 3; i++) parts[i] = tl_slice(c, all, 2, i * H, (i + 1) * H, 1);
    runs = 0;
    assert_non_null(tl_attend(c, parts[0], parts[1], parts[2]));
    assert_int_equal(runs, 1);
    const char *at = tli_data(all);
    assert_ptr_equal(place_of(TLI_ATTEND_Q), at);
    assert_ptr_equal(place_of(TLI_ATTEND_K), at + 2 * H * D);
    assert_ptr_equal(place_of(TLI_ATTEND_V), at + 2 * 2 * H * D);
    tl_tensor *line = tl_zeros(c, TL_BF16, TL_SHAPE(B * T * H * D + 1));
    tl_tensor *odd =
        tl_reshape(c, tl_slice(c, line, 0, 1, B * T * H * D + 1, 1), TL_SHAPE(B, T, H, D));
    assert_non_null(tl_attend(c, odd, parts[1], parts[2]));
    assert_int_equal(runs, 2);
    assert_ptr_not_equal(place_of(TLI_ATTEND_Q), tli_data(odd));
    assert_int_equal((uintptr_t)place_of(TLI_ATTEND_Q) % TLI_DNN_ALIGNMENT, 0);
    assert_ptr_equal(place_of(TLI_ATTEND_K), at + 2 * H * D);
}

static int open_device(void **state)
{
    const tli_cuda_api *api;
    tli_cuda_api *own;
    (void)state;
    setenv("TILTH_CUDA_PATH", FAKE_CUDA_FOLDER ":" FAKE_CUDA_MORE, 1);
    unsetenv("TILTH_DEVICE");
    if (!mkdtemp(temporary(cache, "tilth-attend"))) return -1;
    setenv("TILTH_CACHE_DIR", cache, 1);
    if (tl_engine_new(&engine, &(tl_engine_args){.backend = &tl_backend_cuda}) != TL_OK
        || tl_ctx_new(&c, engine) != TL_OK || tli_cuda_dnn(&api) != TL_OK)
        return -1;
    memcpy(&own, &api, sizeof own);
    own->cudnnBackendExecute = note_run;
    own->cudnnBackendSetAttribute = note_places;
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    tl_ctx_free(&c);
    tl_engine_free(&engine);
    return remove_tree(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_has_kernels_for_is_its_own),
        cmocka_unit_test(everything_else_is_computed_in_parts),
        cmocka_unit_test(views_are_read_where_they_lie),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
