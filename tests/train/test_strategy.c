/* Which device a strategy computes on: what tilth.device, num_gpus and TILTH_DEVICE say, and that
 * they must not gainsay each other. */
#include "test.h"

#include <stdlib.h>

#include <tilth/train/strategy.h>

#include "engine.h"

static int forget_device(void **state)
{
    (void)state;
    return unsetenv("TILTH_DEVICE");
}

static tl_status open_strategy(tl_strategy **out, const char *device, int64_t gpus)
{
    return tl_get_distribution_strategy(
        out, &(tl_strategy_args){
                 .registry = test_registry(), .device = device, .num_gpus = gpus, .threads = 1});
}

static void expect_device(const char *wanted, const char *device, int64_t gpus)
{
    tl_strategy *s;
    assert_ok(open_strategy(&s, device, gpus));
    assert_string_equal(tl_engine_device(tl_strategy_engine(s))->name, wanted);
    tl_strategy_free(&s);
}

static void test_named(void **state)
{
    (void)state;
    expect_device("host", NULL, 0);
    expect_device("host", "", 0);
    expect_device("fake:0", "fake", 0);
    setenv("TILTH_DEVICE", "fake", 1);
    expect_device("fake:0", NULL, 0);
    expect_device("host", "cpu", 0); // what the run itself says comes first
}

static void test_disagreement(void **state)
{
    tl_strategy *s;
    (void)state;
    assert_fails(open_strategy(&s, "cpu", 1), TL_EINVAL, "tilth.device is 'cpu'");
    assert_fails(open_strategy(&s, "cudas", 1), TL_EINVAL, "tilth.device is 'cudas'");
    setenv("TILTH_DEVICE", "fake", 1);
    assert_fails(open_strategy(&s, NULL, 1), TL_EINVAL, "TILTH_DEVICE is 'fake'");
}

static void test_counts(void **state)
{
    tl_strategy *s;
    (void)state;
    assert_fails(open_strategy(&s, NULL, 2), TL_EUNSUPPORTED, "several GPUs");
    assert_fails(open_strategy(&s, NULL, -1), TL_EINVAL, "num_gpus is -1");
    assert_fails(
        tl_get_distribution_strategy(&s, &(tl_strategy_args){.registry = test_registry(),
                                                             .distribution_strategy = "one_device",
                                                             .num_gpus = 2}),
        TL_EINVAL, "takes one device");
}

/* With a GPU it is used; without one the message says who wanted it. */
static void test_gpu(void **state)
{
    tl_strategy *s;
    int64_t count;
    (void)state;
    if (tl_gpu_count(&count) == TL_OK && count > 0) {
        expect_device("cuda:0", NULL, 1);
        expect_device("cuda:0", "cuda:0", 1);
        return;
    }
    assert_true(open_strategy(&s, NULL, 1) != TL_OK);
    assert_non_null(strstr(tl_error_message(), "num_gpus"));
    assert_true(open_strategy(&s, "cuda", 0) != TL_OK);
    assert_non_null(strstr(tl_error_message(), "tilth.device"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_named, forget_device),
        cmocka_unit_test_setup(test_disagreement, forget_device),
        cmocka_unit_test_setup(test_counts, forget_device),
        cmocka_unit_test_setup(test_gpu, forget_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
