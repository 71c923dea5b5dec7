#include "cuda/api.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tilth/sys/cuda/cuda.h>

#include "base/inner/thread.h"
#include "cuda/seen.h"

/* --- libraries -------------------------------------------------------------------------------- */

enum { PATH_ROOM = 1024, VERSION_ROOM = 32, REASON_ROOM = 512 };

typedef struct library {
    const char *name;     /* as in functions.def */
    const char *what;     /* for people */
    const char *advice;   /* what to do when it lacks */
    const char *files[3]; /* the newest first */
    void *handle;
    char file[PATH_ROOM], version[VERSION_ROOM];
    char damage[REASON_ROOM]; /* what the loader said of a file that is there; "": nothing */
} library;

/* The driver comes with the kernel's module and is the loader's to find; everything else may lie
 * in a toolkit, or beside a Python that has it. */
static library libraries[] = {
    {.name = "driver",
     .what = "NVIDIA's driver",
     .advice = "install the driver of the GPU, or train on the CPU",
     .files = {"libcuda.so.1"}},
    {.name = "nvrtc",
     .what = "NVIDIA's compiler for kernels (NVRTC)",
     .advice = "install it (cuda-nvrtc of the CUDA toolkit, or nvidia-cuda-nvrtc of PyPI) and name "
               "its folder in TILTH_CUDA_PATH",
     .files = {"libnvrtc.so.13", "libnvrtc.so.12"}},
    {.name = "cublaslt",
     .what = "NVIDIA's matrix products (cuBLASLt)",
     .advice = "install it (libcublas of the CUDA toolkit, or nvidia-cublas of PyPI) and name its "
               "folder in TILTH_CUDA_PATH; until then the CPU computes them",
     .files = {"libcublasLt.so.13", "libcublasLt.so.12"}},
    {.name = "cudnn",
     .what = "NVIDIA's convolutions and attention (cuDNN)",
     .advice = "install it (nvidia-cudnn-cu13 or -cu12 of PyPI, or NVIDIA's archive) and name its "
               "folder in TILTH_CUDA_PATH; until then the CPU computes them",
     .files = {"libcudnn.so.9"}},
};
enum { DRIVER, NVRTC, CUBLASLT, CUDNN };

static tli_cuda_api api;

/* --- where they are sought -------------------------------------------------------------------- */

/* Whether it says more than that there is no such file. */
static bool tells_of_damage(const char *told, const char *path)
{
    const size_t length = strlen(path);
    return strncmp(told, path, length) != 0 || !strstr(told + length, strerror(ENOENT));
}

static bool open_at(library *l, const char *path)
{
    l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (l->handle) snprintf(l->file, sizeof l->file, "%s", path);
    const char *told = l->handle ? NULL : dlerror();
    if (told && !l->damage[0] && tells_of_damage(told, path))
        snprintf(l->damage, sizeof l->damage, "%s", told);
    if (told) (void)dlerror(); // lets go of the text, which the thread would keep
    return l->handle != NULL;
}

static bool open_in(library *l, const char *folder, size_t length)
{
    char path[PATH_ROOM];
    for (int i = 0; i < TL_COUNT(l->files) && l->files[i]; i++) {
        const int room = snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, l->files[i]);
        if (room < (int)sizeof path && open_at(l, path)) return true;
    }
    return false;
}

// Packages of PyPI put each library into a folder of its own below that of the Python packages.
static bool open_below(library *l, const char *folder, size_t length)
{
    char pattern[PATH_ROOM];
    glob_t found;
    bool opened = false;
    const int room = snprintf(pattern, sizeof pattern, "%.*s/nvidia/*/lib", (int)length, folder);
    if (room >= (int)sizeof pattern || glob(pattern, 0, NULL, &found) != 0) return false;
    for (size_t i = 0; i < found.gl_pathc && !opened; i++)
        opened = open_in(l, found.gl_pathv[i], strlen(found.gl_pathv[i]));
    globfree(&found);
    return opened;
}

// The folders of a list with colons.
static bool open_among(library *l, const char *list)
{
    while (list && *list) {
        const size_t length = strcspn(list, ":");
        if (length && (open_in(l, list, length) || open_below(l, list, length))) return true;
        list += length + (list[length] == ':');
    }
    return false;
}

static bool open_toolkit(library *l, const char *root)
{
    char folder[PATH_ROOM];
    if (!root || !*root) return false;
    const int room = snprintf(folder, sizeof folder, "%s/lib64", root);
    return room < (int)sizeof folder && open_in(l, folder, strlen(folder));
}

// What a folder that somebody has named holds is taken, or told of: not another one in its place.
static bool open_library(library *l)
{
    if (open_among(l, secure_getenv("TILTH_CUDA_PATH"))) return true;
    if (l->damage[0]) return false;
    for (int i = 0; i < TL_COUNT(l->files) && l->files[i]; i++)
        if (open_at(l, l->files[i])) return true;
    if (l == &libraries[DRIVER])
        return open_in(l, TLI_CUDA_WSL_FOLDER, strlen(TLI_CUDA_WSL_FOLDER));
    return open_toolkit(l, secure_getenv("CUDA_HOME")) || open_toolkit(l, "/usr/local/cuda");
}

/* --- functions -------------------------------------------------------------------------------- */

typedef struct row {
    const char *library, *name;
    size_t offset; /* of its pointer */
} row;
static const row rows[] = {
#define TLI_CUDA_FUNCTION(library, result, name, ...)                                              \
    {#library, #name, offsetof(tli_cuda_api, name)},
#include "cuda/functions.def"
#undef TLI_CUDA_FUNCTION
};

/* The name of a function that the library lacks, or NULL. */
static const char *fill(const library *l)
{
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        if (strcmp(rows[i].library, l->name) != 0) continue;
        void *function = dlsym(l->handle, rows[i].name);
        if (!function) return rows[i].name;
        memcpy((char *)&api + rows[i].offset, &function, sizeof function);
    }
    return NULL;
}

/* "in TILTH_CUDA_PATH (/opt/cuda: no folder), by the loader": where it was sought. */
static void add_places(tl_str *out, const library *l)
{
    const char *list = secure_getenv("TILTH_CUDA_PATH"), *home = secure_getenv("CUDA_HOME");
    struct stat info;
    if (list && *list) tl_str_add(out, "in TILTH_CUDA_PATH (");
    for (const char *at = list; at && *at;) {
        const int length = (int)strcspn(at, ":");
        char folder[PATH_ROOM];
        snprintf(folder, sizeof folder, "%.*s", length, at);
        const bool there = stat(folder, &info) == 0 && S_ISDIR(info.st_mode);
        tl_str_addf(out, "%s%s", folder, there ? "" : ": no folder");
        at += length + (at[length] == ':');
        tl_str_add(out, *at ? ", " : "), ");
    }
    tl_str_add(out, "by the loader");
    if (l == &libraries[DRIVER]) {
        if (stat(TLI_CUDA_WSL_FOLDER, &info) == 0) tl_str_add(out, " or in " TLI_CUDA_WSL_FOLDER);
        return;
    }
    if (home && *home) tl_str_addf(out, ", in CUDA_HOME (%s/lib64)", home);
    tl_str_add(out, " or in /usr/local/cuda/lib64");
}

static tl_status tell_missing(const library *l)
{
    tl_str places = TL_STR_INIT;
    if (l->damage[0])
        return TL_FAIL(TL_EUNSUPPORTED, "%s cannot be loaded: %s; mend or remove that file, or %s",
                       l->what, l->damage, l->advice);
    add_places(&places, l);
    tl_status st = tl_str_status(&places);
    if (st == TL_OK)
        st = TL_FAIL(TL_EUNSUPPORTED, "%s is not here: %s%s%s was not found %s; %s", l->what,
                     l->files[0], l->files[1] ? " or " : "", l->files[1] ? l->files[1] : "",
                     tl_str_text(&places), l->advice);
    tl_str_deinit(&places);
    return st;
}

static tl_status open_and_fill(library *l)
{
    if (!open_library(l)) return tell_missing(l);
    const char *lacks = fill(l);
    if (lacks)
        return TL_FAIL(TL_EUNSUPPORTED, "%s (%s) is too old: it has no %s; %s", l->what, l->file,
                       lacks, l->advice);
    return TL_OK;
}

/* --- the driver ------------------------------------------------------------------------------- */

enum { OLDEST_DRIVER = 12040 };

/* Whether every call of the process will say so from now on. */
static bool is_the_end(CUresult result)
{
    static const CUresult ends[] = {
        CUDA_ERROR_DEINITIALIZED,        CUDA_ERROR_DEVICE_UNAVAILABLE,
        CUDA_ERROR_ECC_UNCORRECTABLE,    CUDA_ERROR_ILLEGAL_ADDRESS,
        CUDA_ERROR_LAUNCH_TIMEOUT,       CUDA_ERROR_CONTEXT_IS_DESTROYED,
        CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_ILLEGAL_INSTRUCTION,
        CUDA_ERROR_MISALIGNED_ADDRESS,   CUDA_ERROR_INVALID_ADDRESS_SPACE,
        CUDA_ERROR_INVALID_PC,           CUDA_ERROR_LAUNCH_FAILED};
    for (int i = 0; i < TL_COUNT(ends); i++)
        if (result == ends[i]) return true;
    return false;
}

tl_status tli_cuda_check(CUresult result, const char *call)
{
    const char *name = NULL, *text = NULL;
    if (result == CUDA_SUCCESS) return TL_OK;
    if (api.cuGetErrorName) api.cuGetErrorName(result, &name);
    if (api.cuGetErrorString) api.cuGetErrorString(result, &text);
    return TL_FAIL(result == CUDA_ERROR_OUT_OF_MEMORY ? TL_ENOMEM : TL_EIO,
                   "the GPU's driver: %s: %s (%s)%s", call, text ? text : "unknown error",
                   name ? name : "no name",
                   is_the_end(result)
                       ? "; this process has lost the GPU: the log of the kernel (dmesg, Xid) may "
                         "say why, and TILTH_DEVICE_SYNC=1 after which call; a training that is "
                         "started again goes on from its last checkpoint"
                       : "");
}

static tl_status tell_no_gpu(void)
{
    return TL_FAIL(TL_EUNSUPPORTED, "the driver is here but no GPU: nvidia-smi lists those that it "
                                    "sees, and CUDA_VISIBLE_DEVICES may hide them");
}

static tl_status start_driver(library *l)
{
    int version = 0, count = 0;
    const CUresult began = api.cuInit(0);
    if (began == CUDA_ERROR_STUB_LIBRARY)
        return TL_FAIL(TL_EUNSUPPORTED, "%s is a stub for linking and no driver; %s", l->file,
                       l->advice);
    if (began == CUDA_ERROR_NO_DEVICE) return tell_no_gpu();
    if (began == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "%s and the kernel's module are of two versions: restart the machine after "
                       "an update of the driver",
                       l->file);
    if (began != CUDA_SUCCESS) {
        tl_status st = tli_cuda_check(began, "cuInit");
        return tl_error_note(st,
                             "the driver does not start (nvidia-smi may say why, and restarting "
                             "the machine help)");
    }
    TLI_CUDA_TRY(&api, cuDriverGetVersion, &version);
    snprintf(l->version, sizeof l->version, "%d.%d", version / 1000, version % 1000 / 10);
    if (version < OLDEST_DRIVER)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "the driver is for CUDA %s and must be for %d.%d or newer; %s", l->version,
                       OLDEST_DRIVER / 1000, OLDEST_DRIVER % 1000 / 10, l->advice);
    TLI_CUDA_TRY(&api, cuDeviceGetCount, &count);
    return count ? TL_OK : tell_no_gpu();
}

static tl_status start_compiler(library *l)
{
    int major, minor;
    if (api.nvrtcVersion(&major, &minor) != NVRTC_SUCCESS)
        return TL_FAIL(TL_EUNSUPPORTED, "%s (%s) does not tell its version", l->what, l->file);
    snprintf(l->version, sizeof l->version, "%d.%d", major, minor);
    return TL_OK;
}

static tl_status start_products(library *l)
{
    const size_t version = api.cublasLtGetVersion();
    snprintf(l->version, sizeof l->version, "%zu.%zu.%zu", version / 10000, version / 100 % 100,
             version % 100);
    return TL_OK;
}

enum { OLDEST_DNN = 91002 };

static tl_status start_dnn(library *l)
{
    const size_t version = api.cudnnGetVersion();
    snprintf(l->version, sizeof l->version, "%zu.%zu.%zu", version / 10000, version / 100 % 100,
             version % 100);
    if (version >= OLDEST_DNN) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED, "%s (%s) is %s and must be %d.%d.%d or newer; %s", l->what,
                   l->file, l->version, OLDEST_DNN / 10000, OLDEST_DNN / 100 % 100,
                   OLDEST_DNN % 100, l->advice);
}

/* --- once ------------------------------------------------------------------------------------- */

/* What became of a library, for all who ask. */
typedef struct outcome {
    pthread_once_t once;
    tl_status status;
    tl_error error;
} outcome;
static outcome driver = {.once = PTHREAD_ONCE_INIT}, compiler = {.once = PTHREAD_ONCE_INIT},
               products = {.once = PTHREAD_ONCE_INIT}, dnn = {.once = PTHREAD_ONCE_INIT};

/* A process that ends closes the library behind threads that may be in it. */
static void keep(outcome *o, tl_status st)
{
    o->status = st;
    if (st == TL_OK) tli_thread_leave_first();
    else tl_error_save(&o->error);
}

static tl_status tell(const outcome *o, const tli_cuda_api **out)
{
    *out = o->status == TL_OK ? &api : NULL;
    if (o->status != TL_OK) tl_error_restore(&o->error);
    return o->status;
}

static void find_driver(void)
{
    tl_status st = open_and_fill(&libraries[DRIVER]);
    keep(&driver, st == TL_OK ? start_driver(&libraries[DRIVER]) : st);
}

static void find_compiler(void)
{
    tl_status st = open_and_fill(&libraries[NVRTC]);
    keep(&compiler, st == TL_OK ? start_compiler(&libraries[NVRTC]) : st);
}

static void find_products(void)
{
    tl_status st = open_and_fill(&libraries[CUBLASLT]);
    keep(&products, st == TL_OK ? start_products(&libraries[CUBLASLT]) : st);
}

// It takes products and the compiler of its own by their names: those that are open already.
static void find_dnn(void)
{
    const tli_cuda_api *unused;
    tl_status st = tli_cuda_products(&unused);
    if (st == TL_OK) st = tli_cuda_compiler(&unused);
    if (st != TL_OK) st = tl_error_note(st, "cuDNN needs another library");
    if (st == TL_OK) st = open_and_fill(&libraries[CUDNN]);
    keep(&dnn, st == TL_OK ? start_dnn(&libraries[CUDNN]) : st);
}

tl_status tli_cuda_driver(const tli_cuda_api **out)
{
    pthread_once(&driver.once, find_driver);
    return tell(&driver, out);
}

tl_status tli_cuda_compiler(const tli_cuda_api **out)
{
    pthread_once(&compiler.once, find_compiler);
    return tell(&compiler, out);
}

tl_status tli_cuda_products(const tli_cuda_api **out)
{
    pthread_once(&products.once, find_products);
    return tell(&products, out);
}

tl_status tli_cuda_dnn(const tli_cuda_api **out)
{
    pthread_once(&dnn.once, find_dnn);
    return tell(&dnn, out);
}

/* --- telling ---------------------------------------------------------------------------------- */

const tl_gpu_library *tl_gpu_libraries(int64_t *count)
{
    static _Thread_local tl_gpu_library told[TL_COUNT(libraries)];
    const tli_cuda_api *unused;
    const outcome *outcomes[] = {
        [DRIVER] = &driver, [NVRTC] = &compiler, [CUBLASLT] = &products, [CUDNN] = &dnn};
    if (tli_cuda_driver(&unused) != TL_OK) tl_error_clear();
    if (tli_cuda_compiler(&unused) != TL_OK) tl_error_clear();
    if (tli_cuda_products(&unused) != TL_OK) tl_error_clear();
    if (tli_cuda_dnn(&unused) != TL_OK) tl_error_clear();
    for (int i = 0; i < TL_COUNT(libraries); i++) {
        const bool fine = outcomes[i]->status == TL_OK;
        told[i] = (tl_gpu_library){.name = libraries[i].name,
                                   .version = fine ? libraries[i].version : NULL,
                                   .file = fine ? libraries[i].file : NULL,
                                   .why = fine ? NULL : outcomes[i]->error.text};
    }
    *count = TL_COUNT(libraries);
    return told;
}
