/* Kernels for GPUs on the host: their texts compiled as plain C, called by the same code that puts
 * them into a GPU's queue. What they lack the CPU computes.
 *
 *     TILTH_DEVICE=shim build/test/tests/ops_norm
 *
 * lets the op cases compare them with the reference; with TILTH_SHIM_NVRTC=1 NVRTC has to take each
 * of them as well. cuda_kernels runs a few of them always. Compiled programs have the nests that a
 * GPU would have, which graph_random_graphs tries. */
#ifndef TILTH_TESTS_SHIM_H
#define TILTH_TESTS_SHIM_H

#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/map.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/sys/nest/gpu.h>

#include "base/inner/sha256.h"
#include "cubin.h"
#include "cuda/compile.h"
#include "cuda/kernels.h"
#include "temporary.h"

typedef void shim_fn(const void *args, long long groups);

static struct {
    tl_map functions; /* by name and definitions */
    tl_map handles;   /* of libraries, the same */
    bool for_gpu;     /* NVRTC must take them too, where it is */
    int compiled;
} shim;

/* What the kernel takes: "normalize(const tli_norm_args a". */
static inline bool shim_args(char out[64], const char *text, const char *name)
{
    char head[80];
    snprintf(head, sizeof head, " %s(const ", name);
    const char *at = strstr(text, head);
    return at && sscanf(at + strlen(head), "%63[a-z_]", out) == 1;
}

#define SHIM_COMPILER "gcc -std=gnu17 -O1 -x c -w -ffp-contract=off -fPIC -shared"

/* Where the library of a text is kept, with what is compiled for the CPU: other tests, and these in
 * other builds, have the same kernels. False: nowhere. */
static inline bool shim_kept(char out[PATH_MAX], const char *text)
{
    const char *folder = getenv("TILTH_CACHE_DIR");
    char name[TLI_SHA256_TEXT];
    tl_str all = TL_STR_INIT;
    tl_str_addf(&all, "%s\n%s", SHIM_COMPILER, text);
    tli_sha256_text(name, tl_str_text(&all), strlen(tl_str_text(&all)));
    tl_str_deinit(&all);
    return folder && snprintf(out, PATH_MAX, "%s/shim-%s.so", folder, name) < PATH_MAX;
}

/* The text as a library; NULL: it does not compile. */
static inline void *shim_library_of(const char *text)
{
    char path[TEMPORARY_PATH], kept[PATH_MAX], library[PATH_MAX + 32], command[PATH_MAX + 256];
    const bool keep = shim_kept(kept, text);
    void *handle = keep && access(kept, R_OK) == 0 ? dlopen(kept, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (handle) return handle;
    const int file = mkstemp(temporary(path, "tilth-shim"));
    if (file < 0 || write(file, text, strlen(text)) < 0) abort();
    close(file);
    snprintf(library, sizeof library, "%s.%ld", keep ? kept : path, (long)getpid());
    snprintf(command, sizeof command, SHIM_COMPILER " -o '%s' '%s' -lm", library, path);
    if (system(command) == 0) handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle || !keep || rename(library, kept) != 0) unlink(library);
    unlink(path);
    return handle;
}

#include "shim_nests.h"

/* As test_compile.c says of others. */
static inline void shim_check_code(const tli_cuda_work *w, const char *code, size_t bytes)
{
    cubin_facts facts;
    if (cubin_read(&facts, code, bytes) && facts.kernels && !facts.local && !facts.float_atomics)
        return;
    fprintf(stderr, "%s: %d functions with memory of their own, %d atomics of floats\n%s\n",
            w->name, facts.local, facts.float_atomics, tl_str_text(&w->defines));
    abort();
}

static inline shim_fn *shim_compile(const tli_cuda_work *w, const char *key)
{
    char args[64];
    tl_str text = TL_STR_INIT;
    shim_fn *fn = NULL;
    tl_alloc_fail_at(0, 0); // what follows is the test's own
    tli_cuda_print(&text, w);
    if (!shim_args(args, tl_str_text(&text), w->name)) abort();
    if (shim.for_gpu) {
        const tli_cuda_api *api;
        tl_str pruned = TL_STR_INIT;
        char *code;
        size_t bytes;
        if (tli_cuda_compiler(&api) == TL_OK) {
            if (tl_gpu_prune(&pruned, tl_str_text(&text)) != TL_OK
                || tli_cuda_compile(&code, &bytes, tl_str_text(&pruned), 9, 0, NULL) != TL_OK) {
                fprintf(stderr, "%s: %s\n%s\n", w->name, tl_error_message(),
                        tl_str_text(&w->defines));
                abort();
            }
            shim_check_code(w, code, bytes);
            tl_free(code);
        } else tl_error_clear();
        tl_str_deinit(&pruned);
    }
    tl_str_addf(&text,
                "__attribute__((visibility(\"default\"))) void shim_call(const void *args, i64 "
                "groups);\nvoid shim_call(const void *args, i64 groups)\n{\n"
                "    for (met_ = 0; met_ < %d; met_++)\n"
                "        for (i64 g = groups - 1; g >= 0; g--) %s(*(const %s *)args, g);\n}\n",
                w->meets ? 2 : 1, w->name, args);
    void *handle = shim_library_of(tl_str_text(&text));
    if (handle) {
        void *symbol = dlsym(handle, "shim_call");
        memcpy(&fn, &symbol, sizeof fn);
        if (tl_map_set(&shim.functions, key, symbol) != TL_OK
            || tl_map_set(&shim.handles, key, handle) != TL_OK)
            abort();
    }
    shim.compiled++;
    tl_str_deinit(&text);
    return fn;
}

static inline tl_status shim_put(const tli_cuda_work *w, const void *args, size_t bytes)
{
    tl_str key = TL_STR_INIT;
    shim_fn *fn = NULL;
    long long groups;
    memcpy(&groups, args, sizeof groups);
    (void)bytes;
    tl_str_addf(&key, "%s %s", w->name, tl_str_text(&w->defines));
    tl_status st = tl_str_status(&key);
    if (st != TL_OK) return st;
    void *known = tl_map_get(&shim.functions, tl_str_text(&key));
    if (known) memcpy(&fn, &known, sizeof fn);
    else fn = shim_compile(w, tl_str_text(&key));
    tl_str_deinit(&key);
    if (!fn) return TL_FAIL(TL_EINTERNAL, "the kernel %s does not compile as C", w->name);
    fn(args, groups);
    return tli_cuda_fault_told(&(tli_cuda_queue){.fault = &tli_cuda_on_host->fault});
}

static tli_cuda_host shim_host = {.put = shim_put};

static inline void shim_free(void)
{
    for (int64_t i = 0; i < tl_map_count(&shim.handles); i++) dlclose(tl_map_at(&shim.handles, i));
    tl_map_deinit(&shim.functions);
    tl_map_deinit(&shim.handles);
    tl_free(shim_host.scratch);
    shim_host.scratch = NULL;
    tl_free(shim_host.meeting);
    shim_host.meeting = NULL;
}

/* The kernels that are texts, above the CPU's. */
static const tl_kernels *const shim_tables[] = {&tli_cuda_row_kernels,    &tli_cuda_norm_kernels,
                                                &tli_cuda_draw_kernels,   &tli_cuda_channel_kernels,
                                                &tli_cuda_index_kernels,  &tli_cuda_make_kernels,
                                                &tli_cuda_update_kernels, &tli_cuda_sort_kernels,
                                                &tli_cuda_box_kernels,    NULL};
static tl_backend_class shim_class = {
    .cls = {.class_size = sizeof(tl_backend_class),
            .name = "shim",
            .help = "kernels for GPUs, as C"},
    .tables = shim_tables,
};

static inline const tl_backend_class *shim_backend(void)
{
    if (tli_cuda_on_host) return &shim_class;
    if (tl_cpu_backend(&shim_class.fallback) != TL_OK) abort();
    tli_cuda_on_host = &shim_host;
    shim_class.nests = shim_nests();
    shim.for_gpu |= getenv("TILTH_SHIM_NVRTC") != NULL;
    atexit(shim_free);
    return &shim_class;
}

static inline bool shim_wanted(void)
{
    const char *device = getenv("TILTH_DEVICE");
    return device && strcmp(device, "shim") == 0;
}

#endif
