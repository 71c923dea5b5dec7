/* Which device a strategy computes on: what tilth.device, num_gpus and TILTH_DEVICE say, and that
 * they must not gainsay each other. */
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

#include <tilth/base/log.h>
#include <tilth/train/strategy.h>

#include "cuda/seen.h"
#include "engine.h"

/* On a machine that shows no GPU: what says that one is not used is said once in a process. */
static int forget_device(void **state)
{
    (void)state;
    tli_gpu_seen_in = "/missing";
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

/* --- a GPU that nobody asks for --------------------------------------------------------------- */

/* A folder with files as those of a machine that has a GPU. */
static char machine[TEMPORARY_PATH];
static int told;

static void hear(const tl_log_record *record, void *payload)
{
    (void)payload;
    if (!strstr(record->text, "has a GPU, which is not used")) return;
    told++;
    assert_non_null(strstr(record->text, "TILTH_DEVICE=cuda or tilth.device=cuda computes on it"));
}

static void put_file(const char *folders, const char *name)
{
    char command[3 * TEMPORARY_PATH];
    snprintf(command, sizeof command, "mkdir -p %s%s && touch %s%s/%s", machine, folders, machine,
             folders, name);
    assert_int_equal(system(command), 0);
}

static void remove_file(const char *path)
{
    char whole[2 * TEMPORARY_PATH];
    snprintf(whole, sizeof whole, "%s%s", machine, path);
    assert_int_equal(remove(whole), 0);
}

static int enter_machine(void **state)
{
    (void)state;
    unsetenv("CUDA_VISIBLE_DEVICES");
    if (forget_device(state) != 0 || !mkdtemp(temporary(machine, "tilth-machine"))) return -1;
    tli_gpu_seen_in = machine;
    return 0;
}

static int leave_machine(void **state)
{
    (void)state;
    unsetenv("CUDA_VISIBLE_DEVICES");
    return remove_tree(machine);
}

static void test_seen(void **state)
{
    static const char *const hiding[] = {"", " ", "-1", "-1,0", ",0", "NoDevFiles"};
    (void)state;
    assert_false(tl_gpu_seen());
    put_file("/dev", "nvidiactl"); // of a driver whose GPU is gone
    assert_false(tl_gpu_seen());
    put_file("/dev", "nvidia0");
    assert_true(tl_gpu_seen());
    for (int i = 0; i < (int)TL_COUNT(hiding); i++) {
        setenv("CUDA_VISIBLE_DEVICES", hiding[i], 1);
        assert_false(tl_gpu_seen());
    }
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    assert_true(tl_gpu_seen());
    setenv("CUDA_VISIBLE_DEVICES", "GPU-8932f937", 1);
    assert_true(tl_gpu_seen());
}

/* Windows has a GPU of somebody's, and then NVIDIA's driver. */
static void test_seen_below_windows(void **state)
{
    (void)state;
    put_file("/dev", "dxg");
    assert_false(tl_gpu_seen());
    put_file(TLI_CUDA_WSL_FOLDER, "libcuda.so.1");
    assert_true(tl_gpu_seen());
    remove_file("/dev/dxg");
    assert_false(tl_gpu_seen());
}

/* Once, and only to whoever has not said what to compute on. */
static void test_unused(void **state)
{
    int64_t sink;
    (void)state;
    put_file("/dev", "nvidia0");
    assert_ok(tl_log_sink_add(&sink, &(tl_log_sink){TL_LEVEL_INFO, hear, NULL, NULL}));
    expect_device("host", "cpu", 0);
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
    expect_device("host", NULL, 0);
    unsetenv("CUDA_VISIBLE_DEVICES");
    setenv("TILTH_DEVICE", "cpu", 1);
    expect_device("host", NULL, 0);
    assert_int_equal(told, 0);
    setenv("TILTH_DEVICE", "", 1);
    expect_device("host", NULL, 0);
    assert_int_equal(told, 1);
    expect_device("host", NULL, 0);
    assert_int_equal(told, 1);
    assert_true(tl_log_sink_remove(sink));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_named, forget_device),
        cmocka_unit_test_setup(test_disagreement, forget_device),
        cmocka_unit_test_setup(test_counts, forget_device),
        cmocka_unit_test_setup(test_gpu, forget_device),
        cmocka_unit_test_setup_teardown(test_seen, enter_machine, leave_machine),
        cmocka_unit_test_setup_teardown(test_seen_below_windows, enter_machine, leave_machine),
        cmocka_unit_test_setup_teardown(test_unused, enter_machine, leave_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
