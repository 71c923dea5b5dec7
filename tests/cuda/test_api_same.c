/* Declarations of NVIDIA's interfaces in our own words are those of its headers, where they are;
 * and its libraries, of which the driver may be the toolkit's stub, export every function that is
 * called. They lose memory of their own: needs: no sanitizer */
#include "test.h"

#include <dlfcn.h>
#include <stdlib.h>

#if __has_include(<cuda.h>) && __has_include(<nvrtc.h>) && __has_include(<cublasLt.h>)             \
    && __has_include(<cudnn_graph.h>)
#include <cublasLt.h>
#include <cuda.h>
#include <cudnn_graph.h>
#include <nvrtc.h>
#define TLI_CUDA_TYPES_GIVEN

#include "cuda/api.h"

/* Each function takes and gives what its row says. */
#define TLI_CUDA_FUNCTION(library, result, name, ...)                                              \
    _Static_assert(                                                                                \
        __builtin_types_compatible_p(__typeof__(&name), __typeof__(result(*) __VA_ARGS__)),        \
        #name);
#include "cuda/functions.def"
#undef TLI_CUDA_FUNCTION

#define TLI_CUDA_VALUE(name, value) _Static_assert((name) == (value), #name);
#include "cuda/values.def"
#undef TLI_CUDA_VALUE

/* What is an enumeration or a number there is an int here, and handles are pointers. */
#define IS_INT(type) _Static_assert(sizeof(type) == sizeof(int), #type)
#define IS_POINTER(type) _Static_assert(sizeof(type) == sizeof(void *), #type)
IS_INT(CUresult);
IS_INT(CUdevice);
IS_INT(CUdevice_attribute);
IS_INT(CUfunction_attribute);
IS_INT(CUstreamCaptureMode);
IS_INT(CUlaunchAttributeID);
_Static_assert(sizeof(CUlaunchAttribute) == 72 && offsetof(CUlaunchAttribute, value) == 8,
               "CUlaunchAttribute");
_Static_assert(sizeof(CUlaunchConfig) == 56 && offsetof(CUlaunchConfig, hStream) == 32
                   && offsetof(CUlaunchConfig, attrs) == 40
                   && offsetof(CUlaunchConfig, numAttrs) == 48,
               "CUlaunchConfig");
IS_INT(nvrtcResult);
IS_POINTER(CUcontext);
IS_POINTER(CUstream);
IS_POINTER(CUevent);
IS_POINTER(CUgraph);
IS_POINTER(CUgraphExec);
IS_POINTER(CUmodule);
IS_POINTER(CUfunction);
IS_POINTER(nvrtcProgram);
IS_INT(cublasStatus_t);
IS_INT(cublasComputeType_t);
IS_INT(cudaDataType_t);
IS_INT(cublasLtMatmulDescAttributes_t);
IS_INT(cublasLtMatrixLayoutAttribute_t);
IS_INT(cublasLtMatmulPreferenceAttributes_t);
IS_POINTER(cublasLtHandle_t);
IS_POINTER(cublasLtMatmulDesc_t);
IS_POINTER(cublasLtMatrixLayout_t);
IS_POINTER(cublasLtMatmulPreference_t);
_Static_assert(sizeof(cublasLtMatmulAlgo_t) == 64, "cublasLtMatmulAlgo_t");
_Static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 96
                   && offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) == 64
                   && offsetof(cublasLtMatmulHeuristicResult_t, state) == 72,
               "cublasLtMatmulHeuristicResult_t");
_Static_assert(sizeof(CUdeviceptr) == sizeof(unsigned long long), "CUdeviceptr");
IS_INT(cudnnStatus_t);
IS_INT(cudnnBackendDescriptorType_t);
IS_INT(cudnnBackendAttributeName_t);
IS_INT(cudnnBackendAttributeType_t);
IS_INT(cudnnDataType_t);
IS_INT(cudnnConvolutionMode_t);
IS_INT(cudnnPointwiseMode_t);
IS_INT(cudnnReduceTensorOp_t);
IS_INT(cudnnBackendHeurMode_t);
IS_INT(cudnnBackendNumericalNote_t);
IS_POINTER(cudnnHandle_t);
IS_POINTER(cudnnBackendDescriptor_t);
static const bool compared = true;
#else
static const bool compared = false;
#endif

static void test_compared(void **state)
{
    (void)state;
    if (!compared) skip(); // the compiler has compared
}

/* --- what libraries export -------------------------------------------------------------------- */

/* As functions.def names it, and its files in the folder of a toolkit; the newest comes first. */
static const struct exporter {
    const char *library, *files[4];
} exporters[] = {
    {"driver", {"stubs/libcuda.so", "libcuda.so.1"}},
    {"nvrtc", {"libnvrtc.so.13", "libnvrtc.so.12"}},
    {"cublaslt", {"libcublasLt.so.13", "libcublasLt.so.12"}},
    {"cudnn", {"libcudnn.so.9"}},
};

static const struct {
    const char *library, *name;
} functions[] = {
#define TLI_CUDA_FUNCTION(library, result, name, ...) {#library, #name},
#include "cuda/functions.def"
#undef TLI_CUDA_FUNCTION
};

/* From the toolkit, or wherever the loader finds it; NULL: it is not here. It stays open: some
 * lose memory when they are closed. */
static void *open_exporter(const struct exporter *e)
{
    const char *home = getenv("CUDA_HOME");
    const char *roots[] = {home ? home : "/usr/local/cuda", "/usr/local/cuda", NULL};
    char path[1024];
    for (int i = 0; i < (int)TL_COUNT(e->files) && e->files[i]; i++)
        for (int r = 0; r < (int)TL_COUNT(roots); r++) {
            if (roots[r]) snprintf(path, sizeof path, "%s/lib64/%s", roots[r], e->files[i]);
            else snprintf(path, sizeof path, "%s", e->files[i]);
            void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
            if (handle) return handle;
        }
    return NULL;
}

static void test_exported(void **state)
{
    int known = 0, opened = 0, lacking = 0;
    (void)state;
    for (int k = 0; k < (int)TL_COUNT(exporters); k++) {
        const struct exporter *e = &exporters[k];
        void *handle = open_exporter(e);
        opened += handle != NULL;
        if (!handle) print_message("%s is not here, and was not looked at\n", e->files[0]);
        if (handle) assert_null(dlsym(handle, "cuNobodyHasThis"));
        for (int i = 0; i < (int)TL_COUNT(functions); i++) {
            if (strcmp(functions[i].library, e->library) != 0) continue;
            known++;
            if (!handle || dlsym(handle, functions[i].name)) continue;
            print_message("%s has no %s\n", e->files[0], functions[i].name);
            lacking++;
        }
    }
    assert_int_equal(known, TL_COUNT(functions)); // each belongs to one of them
    assert_int_equal(lacking, 0);
    if (!opened) skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_compared),
                                       cmocka_unit_test(test_exported)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
