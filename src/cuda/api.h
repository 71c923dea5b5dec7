/* NVIDIA's libraries, opened when they are first needed: nothing of them is there when Tilth is
 * built, and a machine without a GPU never notices.
 *
 *     const tli_cuda_api *cu;
 *     TL_TRY(tli_cuda_driver(&cu));              // fails with what lacks, and where it was sought
 *     TL_TRY(tli_cuda_check(cu->cuInit(0), "cuInit"));
 *
 * Types, values and functions have NVIDIA's names and are declared here in our own words; where its
 * headers are, a test compares them (tests/cuda/test_api_same.c).
 *
 * Ownership: libraries stay open until the process ends. Thread word: free-threaded. */
#ifndef TILTH_CUDA_API_H
#define TILTH_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#include <tilth/base/str.h>

#ifndef TLI_CUDA_TYPES_GIVEN /* by NVIDIA's headers, in the test that compares */
typedef int CUresult, CUdevice, CUdevice_attribute, CUfunction_attribute, CUstreamCaptureMode;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef int CUlaunchAttributeID;
typedef union CUlaunchAttributeValue {
    char pad[64];
    int cooperative;
    int programmaticStreamSerializationAllowed;
} CUlaunchAttributeValue;
typedef struct CUlaunchAttribute {
    CUlaunchAttributeID id;
    char pad[8 - sizeof(CUlaunchAttributeID)];
    CUlaunchAttributeValue value;
} CUlaunchAttribute;
typedef struct CUlaunchConfig {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;
typedef int nvrtcResult;
typedef struct _nvrtcProgram *nvrtcProgram;
typedef int cublasStatus_t, cublasComputeType_t, cudaDataType_t, cublasLtMatmulDescAttributes_t,
    cublasLtMatrixLayoutAttribute_t, cublasLtMatmulPreferenceAttributes_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatmulDescOpaque_t *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayoutOpaque_t *cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreferenceOpaque_t *cublasLtMatmulPreference_t;
typedef struct cublasLtMatmulAlgo_t {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct cublasLtMatmulHeuristicResult_t {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;
typedef int cudnnStatus_t, cudnnBackendDescriptorType_t, cudnnBackendAttributeName_t,
    cudnnBackendAttributeType_t;
typedef struct cudnnContext *cudnnHandle_t;
typedef void *cudnnBackendDescriptor_t;
#define TLI_CUDA_VALUE(name, value) name = (value),
enum {
#include "cuda/values.def"
};
#undef TLI_CUDA_VALUE
#endif

/* A pointer for each function, NULL where its library is not open. */
typedef struct tli_cuda_api {
#define TLI_CUDA_FUNCTION(library, result, name, ...) result(*name) __VA_ARGS__;
#include "cuda/functions.def"
#undef TLI_CUDA_FUNCTION
} tli_cuda_api;

/* The driver, started. TL_EUNSUPPORTED, with what lacks and where it was sought: no GPU can be used
 * here. Looks once; later calls say the same. */
tl_status tli_cuda_driver(const tli_cuda_api **out);
/* The compiler; needs no GPU and no driver. */
tl_status tli_cuda_compiler(const tli_cuda_api **out);
/* Matrix products. */
tl_status tli_cuda_products(const tli_cuda_api **out);

/* Convolutions and attention. */
tl_status tli_cuda_dnn(const tli_cuda_api **out);

/* TL_EIO with the call, what the driver says and its name for it; TL_ENOMEM where memory lacks. */
tl_status tli_cuda_check(CUresult result, const char *call);
#define TLI_CUDA_TRY(api, call, ...) TL_TRY(tli_cuda_check((api)->call(__VA_ARGS__), #call))

#endif
