/* What people are told where a GPU cannot be used: libraries that lack or are damaged, drivers of
 * all kinds, memory that ends, a GPU that is gone. Each case is a process of its own, as libraries
 * are looked for once. */
#include "test.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilth/sys/cuda/cuda.h>
#include <tilth/tilth.h>

#include "cuda/api.h"
#include "cuda/code.h"
#include "temporary.h"

enum { TOLD = 4096 };

/* --- a process -------------------------------------------------------------------------------- */

/* Gives the message of the failure, "" for none. */
typedef tl_status case_fn(void);

static void in_child(case_fn *fn, int to)
{
    const tl_status st = fn();
    const char *text = st == TL_OK ? "" : tl_error_message();
    if (write(to, text, strlen(text)) < 0) _exit(2);
    _exit(0);
}

static const char *told_by(case_fn *fn)
{
    static char told[TOLD];
    int ends[2], status;
    size_t have = 0;
    ssize_t got;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) in_child(fn, ends[1]);
    close(ends[1]);
    while ((got = read(ends[0], told + have, sizeof told - 1 - have)) > 0) have += (size_t)got;
    told[have] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    return told;
}

static void expect(const char *told, ...)
{
    va_list words;
    va_start(words, told);
    for (const char *word; (word = va_arg(words, const char *));)
        if (!strstr(told, word)) fail_msg("it says: %s\nand not: %s", told, word);
    va_end(words);
}

static tl_status ask_driver(void)
{
    const tli_cuda_api *api;
    return tli_cuda_driver(&api);
}

static tl_status ask_compiler(void)
{
    const tli_cuda_api *api;
    return tli_cuda_compiler(&api);
}

static tl_status ask_products(void)
{
    const tli_cuda_api *api;
    return tli_cuda_products(&api);
}

static tl_status ask_dnn(void)
{
    const tli_cuda_api *api;
    return tli_cuda_dnn(&api);
}

/* --- libraries -------------------------------------------------------------------------------- */

static char folder[TEMPORARY_PATH]; /* of damaged libraries */

static void put_file(const char *name, const char *text)
{
    char path[2 * TEMPORARY_PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    assert_true(fputs(text, to) >= 0);
    assert_int_equal(fclose(to), 0);
}

static void link_file(const char *from, const char *name)
{
    char path[2 * TEMPORARY_PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
    assert_int_equal(symlink(from, path), 0);
}

static int open_folder(void **state)
{
    (void)state;
    return mkdtemp(temporary(folder, "tilth-cuda")) ? 0 : 1;
}

static int close_folder(void **state)
{
    char command[2 * TEMPORARY_PATH];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static void without_a_driver(void **state)
{
    (void)state;
    unsetenv("TILTH_CUDA_PATH");
    const char *told = told_by(ask_driver);
    if (!strstr(told, "not here")) skip(); // there is one
    expect(told, "libcuda.so.1 was not found by the loader; install the driver", NULL);
    assert_null(strstr(told, "TILTH_CUDA_PATH"));
}

static void a_path_that_is_wrong(void **state)
{
    (void)state;
    setenv("TILTH_CUDA_PATH", "/nowhere:/proc", 1);
    const char *told = told_by(ask_driver);
    if (!strstr(told, "not here")) skip();
    expect(told, "in TILTH_CUDA_PATH (/nowhere: no folder, /proc), by the loader", NULL);
}

static void damaged_libraries(void **state)
{
    static const struct {
        const char *file, *what;
        case_fn *ask;
    } rows[] = {
        {"libcuda.so.1", "NVIDIA's driver", ask_driver},
        {"libnvrtc.so.13", "(NVRTC)", ask_compiler},
        {"libcublasLt.so.13", "(cuBLASLt)", ask_products},
        {"libcudnn.so.9", "(cuDNN)", ask_dnn},
    };
    char path[2 * TEMPORARY_PATH];
    (void)state;
    setenv("TILTH_CUDA_PATH", folder, 1);
    for (int i = 0; i < (int)TL_COUNT(rows); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, rows[i].file);
        put_file(rows[i].file,
                 "this is no library, however long it may be, and no loader takes it");
        const char *told = told_by(rows[i].ask);
        if (rows[i].ask == ask_dnn && strstr(told, "needs another")) continue; // none is here
        expect(told, rows[i].what, "cannot be loaded", path, "invalid ELF header", NULL);
        unlink(path);
    }
}

/* Another library by its name, and one of an older version. */
static void libraries_that_lack_functions(void **state)
{
    (void)state;
    setenv("TILTH_CUDA_PATH", folder, 1);
    link_file(FAKE_CUDA_FOLDER "/libnvrtc.so.13", "libcuda.so.1");
    expect(told_by(ask_driver), "is too old: it has no cuInit", NULL);
    link_file(FAKE_CUDA_FOLDER "/libcuda.so.1", "libnvrtc.so.13");
    expect(told_by(ask_compiler), "is too old: it has no nvrtc", NULL);
}

/* --- drivers ---------------------------------------------------------------------------------- */

static void set_fake(const char *words)
{
    setenv("TILTH_CUDA_PATH", FAKE_CUDA_FOLDER, 1);
    setenv("FAKE_CUDA", words, 1);
}

static tl_status open_engine(void)
{
    tl_engine *e;
    TL_TRY(tl_engine_new(&e, &(tl_engine_args){.backend = &tl_backend_cuda}));
    tl_engine_free(&e);
    return TL_OK;
}

static void drivers(void **state)
{
    static const struct {
        const char *fake, *first, *second;
    } rows[] = {
        {"stub", "is a stub for linking and no driver", "install the driver"},
        {"none", "no GPU", "CUDA_VISIBLE_DEVICES"},
        {"hidden", "no GPU", "driver is here"},
        {"mismatch", "two versions", "restart"},
        {"broken", "the driver does not start", "unknown error (CUDA_ERROR_UNKNOWN)"},
        {"old", "the driver is for CUDA 12.2 and must be for 12.4 or newer", "install"},
        {"small", "Fake GPU has compute capability 7.5, and 8.0 is needed", ""},
    };
    (void)state;
    for (int i = 0; i < (int)TL_COUNT(rows); i++) {
        set_fake(rows[i].fake);
        expect(told_by(open_engine), rows[i].first, rows[i].second, NULL);
    }
    set_fake("");
    assert_string_equal(told_by(open_engine), "");
}

/* --- while it computes ------------------------------------------------------------------------ */

static tl_status compute(int64_t elements)
{
    tl_engine *e;
    tl_ctx *c;
    TL_TRY(tl_engine_new(&e, &(tl_engine_args){.backend = &tl_backend_cuda}));
    TL_TRY(tl_ctx_new(&c, e));
    double sum;
    tl_tensor *x = tl_full(c, TL_F32, TL_SHAPE(elements), 1);
    tl_status st = tl_ctx_status(c);
    for (int i = 0; i < 9 && st == TL_OK; i++) {
        x = tl_add(c, x, x);
        st = tl_ctx_status(c);
    }
    x = tl_sum(c, x, TL_ALL, false);
    if (st == TL_OK) st = tl_ctx_status(c);
    if (st == TL_OK) st = tl_tensor_item(x, &sum);
    // whatever came of it, all can be given back
    tl_ctx_free(&c);
    tl_engine_free(&e);
    return st;
}

static tl_status compute_little(void)
{
    return compute(1000);
}

static tl_status compute_much(void)
{
    return compute(50 << 20);
}

static void memory_that_ends(void **state)
{
    (void)state;
    set_fake("memory=300000000");
    expect(told_by(compute_much), "out of memory", "needs 209715200 bytes",
           "those that are alive hold", "'cuda:0' has", "of 300000000 bytes free", NULL);
}

static void a_gpu_that_is_gone(void **state)
{
    (void)state;
    set_fake("");
    assert_string_equal(told_by(compute_little), "");
    for (int i = 0; i < 12; i++) {
        char words[32];
        snprintf(words, sizeof words, "lost=%d", i);
        set_fake(words);
        expect(told_by(compute_little), "unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED)",
               NULL);
    }
}

static void a_kernel_that_does_not_compile(void **state)
{
    (void)state;
    set_fake("");
    setenv("FAKE_NVRTC", "fails", 1);
    setenv("TILTH_CACHE_DIR", folder, 1); // nothing is there
    expect(told_by(compute_little), "the compiler for GPUs does not take a kernel",
           "the fake takes nothing", NULL);
    unsetenv("FAKE_NVRTC");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_driver),
        cmocka_unit_test(a_path_that_is_wrong),
        cmocka_unit_test_setup_teardown(damaged_libraries, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(libraries_that_lack_functions, open_folder, close_folder),
        cmocka_unit_test(drivers),
        cmocka_unit_test(memory_that_ends),
        cmocka_unit_test(a_gpu_that_is_gone),
        cmocka_unit_test_setup_teardown(a_kernel_that_does_not_compile, open_folder, close_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
