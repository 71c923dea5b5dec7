/* A compiler of kernels that is none, as libnvrtc.so.13: what it gives is the text's length.
 * FAKE_NVRTC=fails in the environment lets it refuse every text, fails:WORDS those that have the
 * words in them. */
#include <stdlib.h>
#include <string.h>

#include "cuda/api.h"

#define EXPORT __attribute__((visibility("default")))
#define TLI_CUDA_FUNCTION(library, result, name, ...) EXPORT result name __VA_ARGS__;
#include "cuda/functions.def"
#undef TLI_CUDA_FUNCTION

enum { COMPILATION = 6 };
static const char told[] = "kernels.cu(1): error: the fake takes nothing";

struct _nvrtcProgram {
    size_t bytes;
    char *text;
};

nvrtcResult nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 999; // what it makes is never taken for a real one's
    return NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(nvrtcResult result)
{
    return result == COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_SUCCESS";
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *text, const char *name, int headers,
                               const char *const *header_texts, const char *const *header_names)
{
    (void)name, (void)headers, (void)header_texts, (void)header_names;
    *out = malloc(sizeof **out);
    if (!*out) return 1;
    (*out)->bytes = strlen(text);
    (*out)->text = strdup(text);
    return (*out)->text ? NVRTC_SUCCESS : 1;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    free((*program)->text);
    free(*program);
    *program = NULL;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char *const *options)
{
    const char *asked = getenv("FAKE_NVRTC");
    (void)count, (void)options;
    if (!asked || strncmp(asked, "fails", 5) != 0) return NVRTC_SUCCESS;
    return asked[5] != ':' || strstr(program->text, asked + 6) ? COMPILATION : NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes)
{
    (void)program;
    *bytes = sizeof program->bytes;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *image)
{
    memcpy(image, &program->bytes, sizeof program->bytes);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes)
{
    (void)program;
    *bytes = sizeof told;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log)
{
    (void)program;
    memcpy(log, told, sizeof told);
    return NVRTC_SUCCESS;
}
