/* Trainings where the GPU fails, and what checkpoints say of choices, by a driver and a device that
 * are none (fake/cuda, fake_device.h). needs: no sanitizer */
#include "tool/shell_lab.h"

#include <stdio.h>

/* A folder `gpu` with the fake driver and compiler, and no products: else the machine's own, which
 * know that the driver is none. */
static int setup(void **state)
{
    if (shell_open(state) != 0) return -1;
    setenv("TILTH_CACHE_DIR", "cache", 1);
    setenv("TILTH_CUDA_PATH", "gpu", 1);
    return shell("mkdir -m 700 gpu cache && ln -s " FAKE_CUDA_FOLDER "/* gpu/ && "
                 "echo 'no library' >gpu/libcublasLt.so.13");
}

#define TRAIN(words) "tilth train --mode=train --model_dir=run tilth.seed=3 " words
#define LOCAL                                                                                      \
    "--experiment=vision/local tilth.device=cuda trainer.recovery_max_trials=-1 "                  \
    "trainer.checkpoint_interval=2 trainer.steps_per_loop=1 trainer.train_steps="

/* Kernels do nothing here, so that losses mean nothing either: they are not looked at. */
static void a_lost_gpu_leaves_the_checkpoint(void **state)
{
    (void)state;
    ends(0, TRAIN(LOCAL "4"), "much is slow: NVIDIA's matrix products (cuBLASLt) cannot be loaded");
    assert_int_equal(access("run/ckpt-4.safetensors", F_OK), 0);
    ends(1, "export FAKE_CUDA=lost=700; " TRAIN(LOCAL "4000"),
         "unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED); this process has lost the GPU");
    has("a training that is started again goes on from its last checkpoint");
    ends(0, TRAIN(LOCAL "12"), "restored model from run/ckpt-");
    assert_int_equal(access("run/ckpt-12.safetensors", F_OK), 0);
}

/* Gradients of its filters run beside what follows them, and its norms meet. */
static void a_residual_network_trains(void **state)
{
    (void)state;
    ends(0,
         TRAIN(LOCAL "2 task.model.backbone.type=resnet task.model.backbone.resnet.model_id=10 "
                     "task.train_data.global_batch_size=8"),
         "saved checkpoint to run/ckpt-2.safetensors");
}

/* Others are compiled beside it; it is told once, by the call that needs it. */
static void a_kernel_in_the_middle_does_not_compile(void **state)
{
    (void)state;
    ends(1, "export FAKE_NVRTC='fails:#define SLOTS'; " TRAIN(LOCAL "4"),
         "the compiler for GPUs does not take a kernel: NVRTC_ERROR_COMPILATION");
    const char *told = strstr(said, "does not take a kernel");
    assert_null(strstr(told + 1, "does not take a kernel"));
    ends(0, TRAIN(LOCAL "4"), "saved checkpoint to run/ckpt-4.safetensors");
}

static void without_room_it_says_what_needs_less(void **state)
{
    (void)state;
    ends(1,
         "export FAKE_CUDA=memory=9000000; " TRAIN(LOCAL "4 task.train_data.global_batch_size=512"),
         "a smaller task.train_data.global_batch_size needs less (with "
         "tilth.gradient_accumulation several batches make one step), and so does "
         "tilth.recompute=full");
    has("train_step: while it was captured: what it computes on the way (most of all 4194304 "
        "bytes, for the float32[512");
    has("in backbone/");
    has("of 9000000 bytes free");
    ends(
        2,
        "export FAKE_CUDA=memory=9000000; " TRAIN(LOCAL "4 task.train_data.global_batch_size=2048"),
        "task.train_data.global_batch_size: a batch of 2048 examples needs at least 0.0 GiB");
}

/* --- choices ---------------------------------------------------------------------------------- */

#define VISION                                                                                     \
    "--experiment=vision/local tilth.jit=false trainer.checkpoint_interval=2 trainer.train_steps="
#define FAKE "--plugin=" FAKE_PLUGIN " tilth.device=fake "

static void choices_go_with_the_checkpoint(void **state)
{
    (void)state;
    ends(0, "export TILTH_FAKE_CHOICES='plan 3 of 7'; " TRAIN(FAKE VISION "2"), "");
    assert_null(strstr(said, "it was chosen"));
    ends(0, "grep -ac 'plan 3 of 7' run/ckpt-2.safetensors", "1");
    // a run that goes on takes them, on a device that can
    ends(0, "cp -r run other; " TRAIN(FAKE VISION "4"), "fake:0: it was chosen: plan 3 of 7");
    ends(1, "grep -ac 'plan 3 of 7' run/ckpt-4.safetensors", "0"); // nothing was chosen there
    ends(0, "rm -r run; mv other run; " TRAIN(VISION "4"), "was computed with");
    assert_null(strstr(said, "it was chosen"));
    ends(1, "grep -ac 'plan 3 of 7' run/ckpt-4.safetensors", "0");
}

#define IN_A_FOLDER(f) cmocka_unit_test_setup_teardown(f, setup, shell_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(a_lost_gpu_leaves_the_checkpoint),
        IN_A_FOLDER(a_residual_network_trains),
        IN_A_FOLDER(a_kernel_in_the_middle_does_not_compile),
        IN_A_FOLDER(without_room_it_says_what_needs_less),
        IN_A_FOLDER(choices_go_with_the_checkpoint),
    };
    unsetenv("TILTH_DEVICE");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
