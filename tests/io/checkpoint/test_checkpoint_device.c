/* Checkpoints of tensors on another device than the host. needs: threads. */
#include "io/folder.h"

#include <tilth/io/checkpoint/manager.h>

/* Tensors of another device come one by one: the host has little memory that the device reaches. */
static void tensors_of_a_device_come_one_by_one(void **state)
{
    (void)state;
    enum { TENSORS = 6, COUNT = 1 << 14 };
    int64_t step = 5;
    tl_engine *there;
    tl_state *far, *back;
    tl_tensor *t[TENSORS], *got[TENSORS];
    double *values = malloc(COUNT * sizeof *values), *found = malloc(COUNT * sizeof *found);
    assert_ok(tl_engine_new(&there, &(tl_engine_args){.backend = &fake_backend, .threads = 1}));
    assert_ok(tl_state_new(&far));
    assert_ok(tl_state_new(&back));
    assert_ok(tl_state_bind_int(far, "global_step", &step));
    for (int i = 0; i < TENSORS; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        for (int k = 0; k < COUNT; k++) values[k] = i + k;
        assert_ok(tl_tensor_new(&t[i], there, TL_F32, TL_SHAPE(COUNT)));
        assert_ok(tl_tensor_set_doubles(t[i], values, COUNT));
        assert_ok(tl_tensor_new(&got[i], there, TL_F32, TL_SHAPE(COUNT)));
        assert_ok(tl_state_put(far, name, t[i]));
        assert_ok(tl_state_put(back, name, got[i]));
    }
    tl_checkpoint_manager_args args = {
        .directory = folder,
        .state = far,
        .step = &step,
        .interval = 5,
        .background = true,
    };
    tl_checkpoint_manager *m;
    assert_ok(tl_checkpoint_manager_new(&m, &args));
    tl_engine_trim(there);
    int64_t before = fake_host_peak(true);
    assert_ok(tl_checkpoint_manager_save(m, false, NULL));
    assert_ok(tl_tensor_clear(t[0])); // the snapshot was taken before
    assert_ok(tl_checkpoint_manager_sync(m));
    assert_true(fake_host_peak(false) - before < 2 * COUNT * (int64_t)sizeof(float));
    assert_ok(tl_checkpoint_restore(back, in_folder("ckpt-5.safetensors"),
                                    &(tl_checkpoint_restore_args){.partial = true}, NULL));
    for (int i = 0; i < TENSORS; i++) {
        assert_ok(tl_tensor_get_doubles(got[i], found, COUNT));
        for (int k = 0; k < COUNT; k += 97) assert_near(found[k], i + k, 0);
        tl_tensor_free(&got[i]);
        tl_tensor_free(&t[i]);
    }
    tl_checkpoint_manager_free(&m);
    tl_state_free(&far);
    tl_state_free(&back);
    tl_engine_free(&there);
    free(values);
    free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tensors_of_a_device_come_one_by_one, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
