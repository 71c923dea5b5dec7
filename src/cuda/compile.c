#include "cuda/compile.h"

#include <stdio.h>
#include <string.h>

#include <tilth/base/alloc.h>

#include "cuda/api.h"

enum { TOLD = 600 }; /* characters of what the compiler says that a message has room for */

static tl_status check(const tli_cuda_api *api, nvrtcResult result, const char *call)
{
    if (result == NVRTC_SUCCESS) return TL_OK;
    return TL_FAIL(TL_EINTERNAL, "the compiler for GPUs: %s: %s", call,
                   api->nvrtcGetErrorString(result));
}

static tl_status get_log(const tli_cuda_api *api, nvrtcProgram program, tl_str *out)
{
    size_t bytes;
    TL_TRY(check(api, api->nvrtcGetProgramLogSize(program, &bytes), "log"));
    char *log = tl_alloc(bytes + 1);
    if (!log) return TL_FAIL_NOMEM(bytes + 1);
    tl_status st = check(api, api->nvrtcGetProgramLog(program, log), "log");
    log[bytes] = '\0';
    if (st == TL_OK) tl_str_add(out, log);
    tl_free(log);
    return st;
}

// Every operation is rounded as the text says: fused multiply-adds are written out in it.
static const char *const options[] = {"--std=c++17",       "--device-as-default-execution-space",
                                      "--fmad=false",      "--ftz=false",
                                      "--prec-div=true",   "--prec-sqrt=true",
                                      "--disable-warnings"};
/* Of compilers from version 13 on: without parts of the language that no kernel has, and without
 * a cache of the compiler's own, as code.h has one. */
static const char *const newer[] = {"--minimal", "--no-cache"};
enum { ARCHITECTURE = 40, NEWER = 13, MOST = TL_COUNT(options) + TL_COUNT(newer) + 2 };

/* All options but the architecture; gives their number. */
static tl_status list_options(const tli_cuda_api *api, const char **out, int *count)
{
    int version, part;
    TL_TRY(check(api, api->nvrtcVersion(&version, &part), "version"));
    *count = TL_COUNT(options);
    memcpy(out, options, sizeof options);
    if (version < NEWER) return TL_OK;
    memcpy(out + *count, newer, sizeof newer);
    *count += TL_COUNT(newer);
    return TL_OK;
}

static void print_architecture(char out[ARCHITECTURE], int major, int minor)
{
    snprintf(out, ARCHITECTURE, "--gpu-architecture=sm_%d%d", major, minor);
}

static tl_status compile(const tli_cuda_api *api, nvrtcProgram program, int major, int minor,
                         bool verbose)
{
    char architecture[ARCHITECTURE];
    const char *all[MOST] = {architecture, "--ptxas-options=-v"};
    int count;
    print_architecture(architecture, major, minor);
    TL_TRY(list_options(api, all + 1 + verbose, &count));
    const nvrtcResult result = api->nvrtcCompileProgram(program, count + 1 + verbose, all);
    if (result == NVRTC_SUCCESS) return TL_OK;
    tl_str log = TL_STR_INIT;
    tl_status st = get_log(api, program, &log);
    if (st == TL_OK)
        st = TL_FAIL(TL_EINTERNAL, "the compiler for GPUs does not take a kernel: %s: %.*s",
                     api->nvrtcGetErrorString(result), TOLD, tl_str_text(&log));
    tl_str_deinit(&log);
    return st;
}

static tl_status get_code(const tli_cuda_api *api, nvrtcProgram program, char **code, size_t *bytes)
{
    TL_TRY(check(api, api->nvrtcGetCUBINSize(program, bytes), "code"));
    if (!(*code = tl_alloc(*bytes))) return TL_FAIL_NOMEM(*bytes);
    tl_status st = check(api, api->nvrtcGetCUBIN(program, *code), "code");
    if (st != TL_OK) {
        tl_free(*code);
        *code = NULL;
    }
    return st;
}

tl_status tli_cuda_identify(tl_str *out, int major, int minor)
{
    const tli_cuda_api *api;
    char architecture[ARCHITECTURE];
    const char *all[MOST];
    int version, part, count;
    TL_TRY(tli_cuda_compiler(&api));
    TL_TRY(check(api, api->nvrtcVersion(&version, &part), "version"));
    TL_TRY(list_options(api, all, &count));
    print_architecture(architecture, major, minor);
    tl_str_addf(out, "NVRTC %d.%d %s", version, part, architecture);
    for (int i = 0; i < count; i++) tl_str_addf(out, " %s", all[i]);
    tl_str_add(out, "\n");
    return tl_str_status(out);
}

tl_status tli_cuda_compile(char **code, size_t *bytes, const char *text, int major, int minor,
                           tl_str *log)
{
    const tli_cuda_api *api;
    nvrtcProgram program;
    *code = NULL;
    TL_TRY(tli_cuda_compiler(&api));
    TL_TRY(
        check(api, api->nvrtcCreateProgram(&program, text, "kernels.cu", 0, NULL, NULL), "text"));
    tl_status st = compile(api, program, major, minor, log != NULL);
    if (st == TL_OK && log) st = get_log(api, program, log);
    if (st == TL_OK) st = get_code(api, program, code, bytes);
    api->nvrtcDestroyProgram(&program);
    return st;
}
