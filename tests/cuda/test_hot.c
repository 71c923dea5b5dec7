/* Kernels of the models whose speed matters: a training step of each is put together for a GPU that
 * is not there (fake/cuda), and the real compiler takes all that it would run. None keeps anything
 * in memory that registers have no room for, and none adds floats in an order that nobody knows.
 * needs: no sanitizer */
#include "test.h"

#include <dirent.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/sys/cuda/cuda.h>
#include <tilth/tilth.h>

#include "base/inner/code_cache.h"
#include "cubin.h"
#include "cuda/api.h"
#include "step_work.h"
#include "training.h"

static char cache[TEMPORARY_PATH], folder[TEMPORARY_PATH];

static void check_entry(const char *name, int *kernels, int *bad)
{
    char path[2 * TEMPORARY_PATH];
    char *code;
    size_t bytes;
    cubin_facts facts;
    snprintf(path, sizeof path, "%s/%s/k.cubin", cache, name);
    assert_ok(tl_file_read(&code, &bytes, path, 1 << 26));
    if (cubin_read(&facts, code, bytes)) { // else a note
        *kernels += facts.kernels;
        if (facts.local || facts.float_atomics) {
            print_message("%s (%s): %d functions with memory of their own, %d atomics of floats\n",
                          facts.first, path, facts.local, facts.float_atomics);
            (*bad)++;
        }
    }
    tl_free(code);
}

/* Gives the number of kernels that were made so far. */
static int check_entries(void)
{
    DIR *dir = opendir(cache);
    int kernels = 0, bad = 0;
    assert_non_null(dir);
    for (struct dirent *file; (file = readdir(dir));)
        if (tli_code_is_key(file->d_name)) check_entry(file->d_name, &kernels, &bad);
    closedir(dir);
    assert_int_equal(bad, 0);
    return kernels;
}

/* Without the compiler there is nothing to check. */
static void need_compiler(void)
{
    const tli_cuda_api *api;
    if (tli_cuda_compiler(&api) == TL_OK) return;
    print_message("%s\n", tl_error_message());
    tl_error_clear();
    skip();
}

static void check_model(const char *name)
{
    enum { LEAST = 15 }; // kernels, with those of nests
    const int before = check_entries();
    const step_model *m = NULL;
    step_work w = {.backend = &tl_backend_cuda};
    for (int64_t i = 0; i < gpu_model_count; i++)
        if (strcmp(gpu_models[i].name, name) == 0) m = &gpu_models[i];
    assert_non_null(m);
    need_compiler();
    assert_ok(step_work_make(&w, m, TL_BF16, false));
    step_work_run(&w);
    assert_ok(tl_engine_wait(w.engine));
    step_work_unmake(&w);
    assert_true(check_entries() >= before + LEAST);
}

static void gpt2(void **state)
{
    (void)state;
    check_model("gpt2-124M B64 T1024");
}
static void bert(void **state)
{
    (void)state;
    check_model("bert-base mlm B64 T512 P76");
}

/* --- an experiment ---------------------------------------------------------------------------- */

static void resnet(void **state)
{
    enum { LEAST = 50 }; // its norms are many
    const int before = check_entries();
    training t = {.steps = 1};
    (void)state;
    need_compiler();
    assert_ok(training_make_resnet50(&t));
    training_run(&t);
    training_deinit(&t);
    assert_true(check_entries() >= before + LEAST);
}

static int open_folders(void **state)
{
    char path[2 * TEMPORARY_PATH];
    (void)state;
    if (!mkdtemp(temporary(cache, "tilth-hot")) || !mkdtemp(temporary(folder, "tilth-hot-gpu")))
        return -1;
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    if (symlink(FAKE_CUDA_FOLDER "/libcuda.so.1", path) != 0) return -1;
    snprintf(path, sizeof path, "%s:%s", folder, FAKE_CUDA_MORE);
    setenv("TILTH_CUDA_PATH", path, 1);
    setenv("TILTH_CACHE_DIR", cache, 1);
    setenv("FAKE_CUDA", "memory=150000000000,processors=132", 1);
    setenv("TILTH_DEVICE", "cuda", 1);
    return 0;
}

static int close_folders(void **state)
{
    (void)state;
    return remove_tree(cache) + remove_tree(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gpt2), cmocka_unit_test(bert),
                                       cmocka_unit_test(resnet)};
    return cmocka_run_group_tests(tests, open_folders, close_folders);
}
