/* Commands on a GPU, by a driver, a compiler and libraries that are none (fake/cuda): what they say
 * and ask of the driver. What kernels compute is not looked at, as they do nothing here.
 *
 * needs: no sanitizer */
#include "tool/shell_lab.h"

#include <jansson.h>
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

/* A program of examples/, which are built beside the tests. */
#define EXAMPLE EXAMPLES "/example_"

static void has_not(const char *part)
{
    if (strstr(said, part)) fail_msg("this is too much:\n%s\nin:\n%s", part, said);
}

#define TRAIN "tilth train --mode=train --experiment=vision/local --model_dir=run tilth.seed=3 "
#define FEW "trainer.train_steps=4 trainer.checkpoint_interval=4 trainer.recovery_max_trials=-1 "

/* --- devices ---------------------------------------------------------------------------------- */

static void devices_as_text(void **state)
{
    (void)state;
    ends(0, "tilth devices", "cpu        ");
    has(" threads, instructions: ");
    has("\ncuda:0     Fake GPU, compute capability 9.0, 4 processors, 150 GB\n"
        "\nLibraries for GPUs:\n"
        "  driver    13.0 (gpu/libcuda.so.1)\n"
        "  nvrtc     13.999 (gpu/libnvrtc.so.13)\n"
        "  cublaslt  13.99.99 (gpu/libcublasLt.so.13)\n"
        "  cudnn     9.99.99 (gpu/libcudnn.so.9)\n");
    ends(0, "FAKE_CUDA=small tilth devices",
         "\ncuda:0     Fake GPU, compute capability 7.5 (too old), 4 processors, 1 GB\n");
    ends(0, "FAKE_CUDA=none TILTH_CUDA_PATH=bare tilth devices",
         "\n  driver    the driver is here but no GPU: nvidia-smi lists");
    has("\n  nvrtc     NVIDIA's compiler for kernels (NVRTC) cannot be loaded: "
        "bare/libnvrtc.so.13");
    has("\n  cudnn     cuDNN needs another library: ");
    has_not("cuda:0");
    ends(2, "tilth devices cuda", "no arguments are expected, found 'cuda'");
}

static json_t *read_devices(const char *line)
{
    json_error_t error;
    ends(0, line, "");
    json_t *all = json_loads(said, 0, &error);
    if (!all) fail_msg("%d: %s", error.line, error.text);
    return all;
}

/* A member of an element of a list; "": it is not there. */
static const char *text_of(const json_t *all, const char *list, size_t at, const char *member)
{
    const char *text =
        json_string_value(json_object_get(json_array_get(json_object_get(all, list), at), member));
    return text ? text : "";
}

static void devices_as_json(void **state)
{
    static const char *const names[] = {"driver", "nvrtc", "cublaslt", "cudnn"};
    (void)state;
    json_t *all = read_devices("tilth devices --json");
    const json_t *devices = json_object_get(all, "devices");
    assert_int_equal(json_array_size(devices), 2);
    assert_string_equal(text_of(all, "devices", 0, "name"), "cpu");
    assert_null(json_object_get(json_array_get(devices, 0), "memory"));
    assert_string_equal(text_of(all, "devices", 1, "name"), "cuda:0");
    assert_string_equal(text_of(all, "devices", 1, "model"),
                        "Fake GPU, compute capability 9.0, 4 processors");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(devices, 1), "memory")),
                     150000000000);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(text_of(all, "libraries", i, "name"), names[i]);
        assert_string_not_equal(text_of(all, "libraries", i, "version"), "");
        assert_non_null(strstr(text_of(all, "libraries", i, "file"), "gpu/lib"));
        assert_string_equal(text_of(all, "libraries", i, "why"), "");
    }
    json_decref(all);
    all = read_devices("FAKE_CUDA=old TILTH_CUDA_PATH=bare tilth devices --json");
    assert_int_equal(json_array_size(json_object_get(all, "devices")), 1);
    assert_non_null(strstr(text_of(all, "libraries", 0, "why"), "must be for 12.4 or newer"));
    assert_string_equal(text_of(all, "libraries", 0, "version"), "");
    assert_non_null(strstr(text_of(all, "libraries", 1, "why"), "bare/libnvrtc.so.13"));
    json_decref(all);
}

/* A machine that never had a GPU. */
static void devices_without_a_driver(void **state)
{
    (void)state;
    ends(0,
         "echo 'no library' >slow/libcuda.so.1.new && mv slow/libcuda.so.1.new slow/libcuda.so.1",
         "");
    ends(0, "TILTH_CUDA_PATH=slow tilth devices", "cpu        ");
    has("\n  driver    NVIDIA's driver cannot be loaded: slow/libcuda.so.1");
    has_not("cuda:");
    json_t *all = read_devices("TILTH_CUDA_PATH=slow tilth devices --json");
    assert_int_equal(json_array_size(json_object_get(all, "devices")), 1);
    assert_non_null(strstr(text_of(all, "libraries", 0, "why"), "install the driver of the GPU"));
    json_decref(all);
}

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

static void it_explains(void **state)
{
    (void)state;
    ends(0, EXPLAIN " --trace=trace.json --graph=graph.dot", " GFLOP/s in float32, ");
    has("  least us limit%  kernel\n");
    has("  convolve2d_filter_grad   float32[3, 3, 8, 16]  backbone/conv_2\n");
    has("  update_adam ");
    has("memory of a process for tensors, in MB");
    has_not("(on the host)");
    ends(0, "grep -c '\"cat\": \"head\"' trace.json && grep -c linear graph.dot", "");
    ends(0, EXPLAIN " runtime.mixed_precision_dtype=bfloat16", "bfloat16[32, 32]");
    ends(2, "FAKE_CUDA=none " EXPLAIN, "the driver is here but no GPU");
}

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

/* --- a step is a graph ------------------------------------------------------------------------ */

/* What was launched, as the driver counts it. */
typedef struct launched {
    long long graphs, kernels, captured;
} launched;

static launched count(const char *command, int steps)
{
    char line[1024];
    launched l;
    snprintf(line, sizeof line, "export FAKE_CUDA_COUNTS=counts.txt STEPS=%d; rm -rf run; %s",
             steps, command);
    ends(0, line, "");
    FILE *from = fopen("counts.txt", "r");
    assert_non_null(from);
    assert_int_equal(
        fscanf(from, "graphs %lld kernels %lld captured %lld", &l.graphs, &l.kernels, &l.captured),
        3);
    fclose(from);
    return l;
}

/* Beside its graph a step has one small kernel where random ops are told their step, and else none.
 * The first steps run call by call, and both trainings have the same boundaries. */
#define BY_STEPS                                                                                   \
    "--model_dir=run tilth.device=cuda trainer.steps_per_loop=$STEPS "                             \
    "trainer.train_steps=$STEPS trainer.checkpoint_interval=$STEPS "                               \
    "trainer.summary_interval=$STEPS "                                                             \
    "trainer.recovery_max_trials=-1 "
static void a_step_is_one_launch(void **state)
{
    static const struct {
        const char *command;
        bool draws;
    } trainings[] = {
        {"tilth train --mode=train --experiment=vision/local " BY_STEPS, false},
        {"tilth train --mode=train --experiment=vision/local " BY_STEPS
         "runtime.mixed_precision_dtype=bfloat16 task.model.backbone.type=resnet "
         "task.model.backbone.resnet.model_id=10 task.train_data.global_batch_size=8",
         false},
        {"tilth train --mode=train --experiment=bert/local " BY_STEPS
         "runtime.mixed_precision_dtype=bfloat16",
         true},
        {EXAMPLE "first_task train --mode=train --experiment=curve " BY_STEPS, false},
    };
    (void)state;
    for (int i = 0; i < (int)TL_COUNT(trainings); i++) {
        const launched few = count(trainings[i].command, 10),
                       more = count(trainings[i].command, 30);
        assert_true(few.graphs > 0 && few.captured > 0);
        assert_int_equal(more.captured, few.captured); // nothing is captured anew
        assert_int_equal(more.graphs - few.graphs, 20);
        assert_int_equal(more.kernels - few.kernels, trainings[i].draws ? 20 : 0);
    }
}

/* Whose products are small, in half precision: two graphs, for inputs at two places, run so often
 * that they are kernels then. */
static void a_step_of_a_small_network_is_one_kernel(void **state)
{
    static const char network[] =
        "tilth train --mode=train --experiment=vision/local " BY_STEPS
        "runtime.mixed_precision_dtype=bfloat16 task.model.backbone.type=mlp";
    (void)state;
    const launched few = count(network, 40), more = count(network, 50);
    assert_true(few.graphs > 0);
    assert_int_equal(more.graphs, few.graphs);
    assert_int_equal(more.captured, few.captured);
    assert_int_equal(more.kernels - few.kernels, 10);
}

/* What the CPU computes cannot be in a graph. */
static void with_a_staged_call_there_is_no_graph(void **state)
{
    (void)state;
    const launched l = count("export TILTH_CUDA_PATH=slow; "
                             "tilth train --mode=train --experiment=vision/local " BY_STEPS,
                             10);
    assert_int_equal(l.graphs, 0);
    assert_true(l.kernels > 100);
}

/* --- LiBai's trainer, and a program of somebody's --------------------------------------------- */

static void train_net_trains_on_it(void **state)
{
    static const char text[] =
        "model: {_target_: image_classification, num_classes: 4, input_size: [16, 16, 1],\n"
        "        backbone: {type: cnn, cnn: {filters: [4], units: [64]}}}\n"
        "dataloader:\n"
        "  train: &data {file_type: synthetic, synthetic_examples: 64, aug_crop: false,\n"
        "                mean: [128], stddev: [64]}\n"
        "  test:\n"
        "  - *data\n"
        "train:\n"
        "  {train_micro_batch_size: 8, test_micro_batch_size: 8, output_dir: run, log_period: 10,\n"
        "   checkpointer: {period: 1000}, evaluation: {eval_period: 1000,\n"
        "   evaluator: {_target_: ClsEvaluator, topk: [1, 2]}}}\n";
    static const char command[] =
        "tilth train_net --config-file=net.yaml tilth.device=cuda train.train_iter=$STEPS "
        "train.log_period=$STEPS";
    (void)state;
    assert_ok(tl_file_write_atomic("net.yaml", text, strlen(text)));
    // the trainer keeps the loss of each step
    const launched few = count(command, 20), more = count(command, 60);
    assert_int_equal(access("run/model_final.safetensors", F_OK), 0);
    assert_int_equal(more.graphs - few.graphs, 40);
    assert_int_equal(more.kernels - few.kernels, 40); // one copies the norm of gradients
    ends(0, "tilth train_net --config-file=net.yaml --resume tilth.device=cuda train.train_iter=80",
         "");
    assert_int_equal(access("run/model_final.safetensors", F_OK), 0);
    ends(0, "tilth train_net --config-file=net.yaml --resume train.train_iter=90", ""); // the CPU
    ends(2,
         "FAKE_CUDA=none tilth train_net --config-file=net.yaml tilth.device=cuda "
         "train.output_dir=other",
         "tilth.device: backend 'cuda': the driver is here but no GPU");
}

/* TILTH_DEVICE reaches programs that know nothing of GPUs. */
static void an_example_trains_and_evaluates(void **state)
{
    (void)state;
    ends(0,
         "TILTH_DEVICE=cuda " EXAMPLE "first_task train --mode=train_and_eval --experiment=curve "
         "--model_dir=run trainer.train_steps=40 trainer.checkpoint_interval=20 "
         "trainer.validation_interval=20 trainer.recovery_max_trials=-1",
         "run/ckpt-40");
    assert_int_equal(access("run/ckpt-40.safetensors", F_OK), 0);
    ends(0,
         "TILTH_DEVICE=cuda " EXAMPLE "custom_steps train --mode=train --model_dir=steps "
         "--experiment=example/custom_steps trainer.train_steps=20 "
         "trainer.checkpoint_interval=20 trainer.recovery_max_trials=-1",
         "steps/ckpt-20");
}

/* --- choices ---------------------------------------------------------------------------------- */

/* Batches are large, so that products are measured, and the fakes choose the first that is
 * proposed. Which these were, by the checkpoint: */
#define CHOSEN(file)                                                                               \
    "grep -ao 'product float32[^\\\\]*\\\\t0 0[0-9]' " file " | grep -o '..$' | sort -u | xargs"
#define LARGE TRAIN FEW "tilth.device=cuda task.train_data.global_batch_size=4096 "

static void choices_come_from_the_checkpoint(void **state)
{
    (void)state;
    ends(0, "FAKE_PRODUCTS=first:2 " LARGE, "");
    ends(0, CHOSEN("run/ckpt-4.safetensors"), "02\n");
    // a machine that has not measured yet
    ends(0,
         "mkdir -m 700 empty; export TILTH_CACHE_DIR=empty FAKE_PRODUCTS=first:3; " LARGE
         "trainer.train_steps=8",
         "restored model from run/ckpt-4");
    ends(0, CHOSEN("run/ckpt-8.safetensors"), "02\n");
    // which a new run there would do
    ends(0, "rm -rf empty/* run; export TILTH_CACHE_DIR=empty FAKE_PRODUCTS=first:3; " LARGE, "");
    ends(0, CHOSEN("run/ckpt-4.safetensors"), "03\n");
    // and on the first one it takes what was found out before
    ends(0, "rm -rf run; FAKE_PRODUCTS=first:1 " LARGE, "");
    ends(0, CHOSEN("run/ckpt-4.safetensors"), "02\n");
}

#define IN_A_FOLDER(f) cmocka_unit_test_setup_teardown(f, setup, shell_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(devices_as_text),
        IN_A_FOLDER(devices_as_json),
        IN_A_FOLDER(devices_without_a_driver),
        IN_A_FOLDER(a_run_of_a_gpu_is_evaluated_anywhere),
        IN_A_FOLDER(who_names_a_device_gets_it),
        IN_A_FOLDER(a_training_says_why_there_is_no_gpu),
        IN_A_FOLDER(one_gpu_is_not_two),
        IN_A_FOLDER(a_lost_gpu_is_told_by_its_call),
        IN_A_FOLDER(a_product_without_room_says_what_needs_less),
        IN_A_FOLDER(it_explains),
        IN_A_FOLDER(it_explains_without_products),
        IN_A_FOLDER(a_step_is_one_launch),
        IN_A_FOLDER(a_step_of_a_small_network_is_one_kernel),
        IN_A_FOLDER(with_a_staged_call_there_is_no_graph),
        IN_A_FOLDER(train_net_trains_on_it),
        IN_A_FOLDER(an_example_trains_and_evaluates),
        IN_A_FOLDER(choices_come_from_the_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
