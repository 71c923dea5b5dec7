/* Declarations of NVIDIA's interfaces in our own words are those of its headers, where they are. */
#include "test.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_compared)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
