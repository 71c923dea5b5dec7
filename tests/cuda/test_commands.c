/* Commands on a GPU, by a driver, a compiler and libraries that are none (fake/cuda): what they say
 * and ask of the driver. What kernels compute is not looked at, as they do nothing here. needs: no
 * sanitizer */
#include "tool/shell_lab.h"

#include <stdio.h>

/* Folders that TILTH_CUDA_PATH can name: `gpu` with all libraries, `slow` whose products are
 * damaged, `bare` with the driver alone. */
static int setup(void **state)
{
    if (shell_open(state) != 0) return -1;
    setenv("TILTH_CACHE_DIR", "cache", 1);
    setenv("TILTH_CUDA_PATH", "gpu", 1);
    setenv("FAKE_CUDA", "memory=150000000000", 1);
    unsetenv("TILTH_DEVICE");
    return shell("mkdir -m 700 gpu slow bare cache && "
                 "ln -s " FAKE_CUDA_FOLDER "/* " FAKE_CUDA_MORE "/* gpu/ && "
                 "ln -s " FAKE_CUDA_FOLDER "/* slow/ && "
                 "ln -s " FAKE_CUDA_FOLDER "/libcuda.so.1 bare/ && "
                 "echo 'no library' | tee slow/libcublasLt.so.13 >bare/libnvrtc.so.13");
}

static void has_not(const char *part)
{
    if (strstr(said, part)) fail_msg("this is too much:\n%s\nin:\n%s", part, said);
}

#define TRAIN "tilth train --mode=train --experiment=vision/local --model_dir=run tilth.seed=3 "
#define FEW "trainer.train_steps=4 trainer.checkpoint_interval=4 trainer.recovery_max_trials=-1 "

/* --- runs of a GPU on other machines ---------------------------------------------------------- */

static void a_run_of_a_gpu_is_evaluated_anywhere(void **state)
{
    static const char left[] =
        "the run was trained on a GPU, and none can be used here, so the CPU "
        "computes: ";
    (void)state;
    ends(0, TRAIN FEW "runtime.num_gpus=1", "done: step 4");
    ends(0, "tilth eval --model_dir=run", "run/ckpt-4.safetensors, step 4, in ");
    has_not(left);
    ends(0, "FAKE_CUDA=none tilth eval --model_dir=run", left);
    has("the driver is here but no GPU");
    has("run/ckpt-4.safetensors, step 4, in ");
    ends(0, "FAKE_CUDA=small tilth eval --model_dir=run", left);
    has("Fake GPU has compute capability 7.5, and 8.0 is needed");
    ends(0, "TILTH_CUDA_PATH=bare tilth eval --model_dir=run", left);
    has("(NVRTC) cannot be loaded");
    ends(0, "FAKE_CUDA=old tilth export --model_dir=run --to=model", left);
    ends(0, "FAKE_CUDA=old tilth eval --model_dir=model", "accuracy");
}

/* Who asks for one is not given another, and who asks for the CPU is told nothing. */
static void who_names_a_device_gets_it(void **state)
{
    (void)state;
    ends(0, TRAIN FEW "runtime.num_gpus=1", "done: step 4");
    ends(2, "FAKE_CUDA=none tilth eval --model_dir=run runtime.num_gpus=1",
         "num_gpus: backend 'cuda': the driver is here but no GPU");
    ends(2, "FAKE_CUDA=none tilth eval --model_dir=run tilth.device=cuda",
         "tilth.device: backend 'cuda': the driver is here but no GPU");
    ends(2, "FAKE_CUDA=none TILTH_DEVICE=cuda tilth eval --model_dir=run",
         "TILTH_DEVICE: backend 'cuda': the driver is here but no GPU");
    ends(0, "tilth eval --model_dir=run tilth.device=cpu", "accuracy");
    has_not("so the CPU");
    ends(0, "TILTH_DEVICE=cpu tilth eval --model_dir=run", "accuracy");
    has_not("so the CPU");
}

/* --- what cannot be used ---------------------------------------------------------------------- */

static void a_training_says_why_there_is_no_gpu(void **state)
{
    static const struct {
        const char *line, *says;
        int code;
    } rows[] = {
        {"FAKE_CUDA=none",
         "tilth.device: backend 'cuda': the driver is here but no GPU: nvidia-smi lists", 2},
        {"FAKE_CUDA=hidden",
         "no GPU: nvidia-smi lists those that it sees, and CUDA_VISIBLE_DEVICES may", 2},
        {"FAKE_CUDA=old",
         "the driver is for CUDA 12.2 and must be for 12.4 or newer; install the driver", 2},
        {"FAKE_CUDA=stub",
         "gpu/libcuda.so.1 is a stub for linking and no driver; install the driver", 2},
        {"FAKE_CUDA=mismatch", "are of two versions: restart the machine after an update", 2},
        {"FAKE_CUDA=broken", "the driver does not start (nvidia-smi may say why", 1},
        {"TILTH_CUDA_PATH=bare", "(NVRTC) cannot be loaded: bare/libnvrtc.so.13", 2},
    };
    (void)state;
    for (int i = 0; i < (int)TL_COUNT(rows); i++) {
        char line[512];
        snprintf(line, sizeof line, "%s %s", rows[i].line, TRAIN FEW "tilth.device=cuda");
        ends(rows[i].code, line, rows[i].says);
        assert_int_not_equal(access("run/ckpt-4.safetensors", F_OK), 0);
    }
}

static void one_gpu_is_not_two(void **state)
{
    (void)state;
    ends(2, TRAIN FEW "tilth.device=cuda:1",
         "tilth.device: device 'cuda': there is no device '1' (there are: cuda:0)");
    ends(2, "TILTH_DEVICE=cuda:1 " TRAIN FEW,
         "TILTH_DEVICE: device 'cuda': there is no device '1' (there are: cuda:0)");
    ends(2, TRAIN FEW "runtime.num_gpus=1 tilth.device=cpu",
         "num_gpus is 1, but tilth.device is 'cpu': change one of the two");
}

/* Which call it is depends on how far copies beside it have come. */
static void a_lost_gpu_is_told_by_its_call(void **state)
{
    static const char nobody[] = "tilth train: train_step: the GPU's driver: ";
    (void)state;
    ends(1, "FAKE_CUDA=lost=400 " TRAIN "trainer.train_steps=200 tilth.device=cuda", nobody);
    has("and TILTH_DEVICE_SYNC=1 after which call");
    ends(1,
         "TILTH_DEVICE_SYNC=1 FAKE_CUDA=lost=400 " TRAIN
         "trainer.train_steps=200 tilth.device=cuda",
         "unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED); this process has lost the GPU");
    has("tilth train: train_step: ");
    has_not(nobody);
}

static void a_product_without_room_says_what_needs_less(void **state)
{
    (void)state;
    ends(1, "FAKE_CUDA=memory=60000000 FAKE_PRODUCTS=room:60000000 " TRAIN FEW "tilth.device=cuda",
         "out of memory: a kernel needs 60817408 bytes beside its tensors, and 'cuda:0' has ");
    has("train_step: backbone/dense_1: linear: ");
    has(" of 60000000 bytes free; a smaller task.train_data.global_batch_size needs less");
}

/* --- explain ---------------------------------------------------------------------------------- */

#define EXPLAIN "tilth explain --experiment=vision/local tilth.device=cuda --steps=2"

static void it_explains_without_products(void **state)
{
    (void)state;
    ends(0, "TILTH_CUDA_PATH=slow " EXPLAIN,
         "this machine at most: (nobody can say how many GFLOP/s: it has no products of its own) ");
    has("  head (on the host)\n");
    has("backbone/conv_1 (on the host)\n");
    has_not(" inf");
    has_not(" nan");
}

#define IN_A_FOLDER(f) cmocka_unit_test_setup_teardown(f, setup, shell_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(a_run_of_a_gpu_is_evaluated_anywhere),
        IN_A_FOLDER(who_names_a_device_gets_it),
        IN_A_FOLDER(a_training_says_why_there_is_no_gpu),
        IN_A_FOLDER(one_gpu_is_not_two),
        IN_A_FOLDER(a_lost_gpu_is_told_by_its_call),
        IN_A_FOLDER(a_product_without_room_says_what_needs_less),
        IN_A_FOLDER(it_explains_without_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
