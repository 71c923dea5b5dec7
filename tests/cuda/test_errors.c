/* What people are told where a GPU cannot be used: libraries that lack or are damaged, drivers of
 * all kinds, memory that ends, a GPU that is gone. Each case is a process of its own, as libraries
 * are looked for once. */
#include "test.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilth/base/log.h>
#include <tilth/ops/index.h>
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

/* --- folders of libraries --------------------------------------------------------------------- */

#define ALL_FAKES FAKE_CUDA_FOLDER ":" FAKE_CUDA_MORE

static char folder[TEMPORARY_PATH]; /* of libraries */

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

static void drop_file(const char *name)
{
    char path[2 * TEMPORARY_PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
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

/* --- libraries that are not there ------------------------------------------------------------- */

/* Part of the name of a library of the machine that the loader does not find; NULL: it finds all */
static const char *missing;
static char told_by_loader[256];

static void *(*real_open)(const char *path, int flags);
static char *(*real_error)(void);

/* Both at once: a look for the second would forget what it is to tell. */
static void find_loader(void)
{
    void *next = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&real_open, &next, sizeof real_open);
    next = dlsym(RTLD_NEXT, "dlerror");
    memcpy(&real_error, &next, sizeof real_error);
}

/* In place of the loader's, for this program: tests say what a machine has. */
void *dlopen(const char *path, int flags)
{
    if (!real_open) find_loader();
    const bool of_machine = path && strncmp(path, FAKE_CUDA_FOLDER, strlen(FAKE_CUDA_FOLDER)) != 0
                            && (!folder[0] || strncmp(path, folder, strlen(folder)) != 0);
    if (!missing || !of_machine || !strstr(path, missing)) return real_open(path, flags);
    snprintf(told_by_loader, sizeof told_by_loader,
             "%s: cannot open shared object file: No such file or directory", path);
    return NULL;
}

char *dlerror(void)
{
    static char told[sizeof told_by_loader];
    if (!real_error) find_loader();
    if (!told_by_loader[0]) return real_error();
    memcpy(told, told_by_loader, sizeof told);
    told_by_loader[0] = '\0';
    return told;
}

static char heard[TOLD];

static void hear(const tl_log_record *record, void *payload)
{
    (void)payload;
    const size_t have = strlen(heard);
    snprintf(heard + have, sizeof heard - have, "%s\n", record->text);
}

/* What an engine warns of, and how it fails. */
static tl_status open_and_hear(void)
{
    tl_engine *e;
    int64_t sink;
    TL_TRY(tl_log_sink_add(&sink, &(tl_log_sink){TL_LEVEL_WARNING, hear, NULL, NULL}));
    const tl_status st = tl_engine_new(&e, &(tl_engine_args){.backend = &tl_backend_cuda});
    if (st == TL_OK) tl_engine_free(&e);
    return TL_FAIL(TL_ESTATE, "%s%s", heard, st == TL_OK ? "it opens" : tl_error_message());
}

static void missing_libraries(void **state)
{
    static const struct {
        const char *name, *what, *files, *advice;
        case_fn *ask;
    } rows[] = {
        {"nvrtc", "NVIDIA's compiler for kernels (NVRTC) is not here: ",
         "libnvrtc.so.13 or libnvrtc.so.12 was not found ",
         "install it (cuda-nvrtc of the CUDA toolkit, or nvidia-cuda-nvrtc of PyPI) and name its "
         "folder in TILTH_CUDA_PATH",
         ask_compiler},
        {"cublasLt", "NVIDIA's matrix products (cuBLASLt) is not here: ",
         "libcublasLt.so.13 or libcublasLt.so.12 was not found ",
         "install it (libcublas of the CUDA toolkit, or nvidia-cublas of PyPI) and name its folder "
         "in TILTH_CUDA_PATH; until then the CPU computes them",
         ask_products},
    };
    (void)state;
    setenv("TILTH_CUDA_PATH", "/nowhere", 1);
    for (int i = 0; i < (int)TL_COUNT(rows); i++) {
        missing = rows[i].name;
        expect(told_by(rows[i].ask), rows[i].what, rows[i].files,
               "in TILTH_CUDA_PATH (/nowhere: no folder), by the loader", "/usr/local/cuda/lib64; ",
               rows[i].advice, NULL);
    }
    setenv("TILTH_CUDA_PATH", ALL_FAKES, 1);
    assert_string_equal(told_by(ask_dnn), "");
    missing = NULL;
}

/* Others are there, as one of the machine's is none of the fakes'. */
static void a_gpu_without_a_library(void **state)
{
    const char *told;
    (void)state;
    setenv("FAKE_CUDA", "", 1);
    setenv("TILTH_CUDA_PATH", FAKE_CUDA_FOLDER, 1);
    missing = "cublasLt";
    expect(told_by(open_and_hear), "on this GPU much is slow: NVIDIA's matrix products (cuBLASLt)",
           "until then the CPU computes them", "it opens", NULL);
    link_file(FAKE_CUDA_FOLDER "/libcuda.so.1", "libcuda.so.1");
    link_file(FAKE_CUDA_FOLDER "/libnvrtc.so.13", "libnvrtc.so.13");
    link_file(FAKE_CUDA_MORE "/libcublasLt.so.13", "libcublasLt.so.13");
    setenv("TILTH_CUDA_PATH", folder, 1);
    missing = "cudnn";
    told = told_by(open_and_hear);
    expect(
        told,
        "on this GPU much is slow: NVIDIA's convolutions and attention (cuDNN) is not here: "
        "libcudnn.so.9 was not found in TILTH_CUDA_PATH (",
        "install it (nvidia-cudnn-cu13 or -cu12 of PyPI, or NVIDIA's archive) and name its folder "
        "in TILTH_CUDA_PATH; until then the CPU computes them",
        "it opens", NULL);
    drop_file("libnvrtc.so.13");
    missing = "nvrtc";
    told = told_by(open_and_hear);
    expect(told, "backend 'cuda': NVIDIA's compiler for kernels (NVRTC) is not here",
           "and name its folder in TILTH_CUDA_PATH", NULL);
    assert_null(strstr(told, "slow")); // it is refused
    assert_null(strstr(told, "it opens"));
    setenv("FAKE_CUDA", "old", 1); // the driver comes first
    expect(told_by(open_and_hear), "backend 'cuda': the driver is for CUDA 12.2", NULL);
    missing = NULL;
}

static void a_cudnn_that_is_old(void **state)
{
    (void)state;
    setenv("FAKE_CUDA", "", 1);
    setenv("FAKE_NETWORKS", "old", 1);
    setenv("TILTH_CUDA_PATH", ALL_FAKES, 1);
    expect(told_by(ask_dnn), "NVIDIA's convolutions and attention (cuDNN) (", "libcudnn.so.9) is ",
           "9.1.0 and must be 9.10.2 or newer; install it (nvidia-cudnn-cu13", NULL);
    expect(told_by(open_and_hear), "on this GPU much is slow: NVIDIA's convolutions",
           "9.1.0 and must be 9.10.2 or newer", "it opens", NULL);
    unsetenv("FAKE_NETWORKS");
    assert_string_equal(told_by(open_and_hear), "it opens");
}

/* --- libraries that are damaged --------------------------------------------------------------- */

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

/* Code that is none stays out of the cache that others find theirs in. */
static char cache[TEMPORARY_PATH];

static int open_cache(void **state)
{
    (void)state;
    return mkdtemp(temporary(cache, "tilth-cuda-cache")) && setenv("TILTH_CACHE_DIR", cache, 1) == 0
               ? 0
               : 1;
}

static int close_cache(void **state)
{
    memcpy(folder, cache, sizeof folder);
    return close_folder(state);
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
        {"hidden", "the driver is here but no GPU", "CUDA_VISIBLE_DEVICES"},
        {"mismatch", "two versions", "restart"},
        {"broken", "the driver does not start (nvidia-smi may say why",
         "cuInit: unknown error (CUDA_ERROR_UNKNOWN)"},
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

/* A sort needs more than what it sorts. */
static tl_status sort_much(void)
{
    enum { COUNT = 4 << 20 };
    tl_engine *e;
    tl_ctx *c;
    TL_TRY(tl_engine_new(&e, &(tl_engine_args){.backend = &tl_backend_cuda}));
    TL_TRY(tl_ctx_new(&c, e));
    tl_tensor *rows = tl_zeros(c, TL_I32, TL_SHAPE(COUNT)),
              *sums = tl_ones(c, TL_F32, TL_SHAPE(COUNT, 1));
    (void)tl_gather_grad(c, sums, rows, 0, 8);
    const tl_status st = tl_ctx_status(c);
    tl_ctx_free(&c);
    tl_engine_free(&e);
    return st;
}

static void room_that_ends(void **state)
{
    (void)state;
    set_fake("memory=60000000");
    expect(told_by(sort_much), "out of memory: a kernel needs ",
           " bytes beside its tensors, and 'cuda:0' has ", " of 60000000 bytes free", NULL);
    set_fake("memory=200000000");
    assert_string_equal(told_by(sort_much), "");
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

/* Waiting after each call tells which one it was; else it is whoever waits that is told. */
static void which_call_has_lost_it(void **state)
{
    int named = 0;
    (void)state;
    setenv("TILTH_DEVICE_SYNC", "1", 1);
    for (int i = 0; i < 12; i++) {
        char words[32];
        snprintf(words, sizeof words, "lost=%d", i);
        set_fake(words);
        const char *told = told_by(compute_little);
        expect(told, "unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED)",
               "this process has lost the GPU", NULL);
        named += strstr(told, "add: ") || strstr(told, "sum: ");
    }
    unsetenv("TILTH_DEVICE_SYNC");
    assert_true(named >= 9);
    set_fake("lost=4");
    assert_null(strstr(told_by(compute_little), "add: "));
}

static void a_kernel_that_does_not_compile(void **state)
{
    (void)state;
    set_fake("");
    setenv("FAKE_NVRTC", "fails", 1);
    setenv("TILTH_CACHE_DIR", folder, 1); // nothing is there yet
    expect(told_by(compute_little), "the compiler for GPUs does not take a kernel",
           "the fake takes nothing", NULL);
    unsetenv("FAKE_NVRTC");
    setenv("TILTH_CACHE_DIR", cache, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_driver),
        cmocka_unit_test(a_path_that_is_wrong),
        cmocka_unit_test_setup_teardown(damaged_libraries, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(libraries_that_lack_functions, open_folder, close_folder),
        cmocka_unit_test(missing_libraries),
        cmocka_unit_test_setup_teardown(a_gpu_without_a_library, open_folder, close_folder),
        cmocka_unit_test(a_cudnn_that_is_old),
        cmocka_unit_test(drivers),
        cmocka_unit_test(memory_that_ends),
        cmocka_unit_test(room_that_ends),
        cmocka_unit_test(a_gpu_that_is_gone),
        cmocka_unit_test(which_call_has_lost_it),
        cmocka_unit_test_setup_teardown(a_kernel_that_does_not_compile, open_folder, close_folder),
    };
    return cmocka_run_group_tests(tests, open_cache, close_cache);
}
