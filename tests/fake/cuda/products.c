/* Products that compute nothing, as libcublasLt.so.13: every product has three algorithms, of which
 * none is quicker than another. FAKE_PRODUCTS=first:N in the environment lets N be the first one
 * that is proposed, which is the one that is taken; with room:BYTES each needs that workspace. */
#include <stdlib.h>
#include <string.h>

#include "cuda/api.h"

#define EXPORT __attribute__((visibility("default")))
#define TLI_CUDA_FUNCTION(library, result, name, ...) EXPORT result name __VA_ARGS__;
#include "cuda/functions.def"
#undef TLI_CUDA_FUNCTION

enum { ALGORITHMS = 3, INVALID = 7 };

/* Handles that nothing is behind. */
static void *handle(void)
{
    static char somewhere;
    return &somewhere;
}

size_t cublasLtGetVersion(void)
{
    return 139999; // what it chooses is never taken for a real one's
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS"
                                           : "CUBLAS_STATUS_INVALID_VALUE";
}

#define DESTROYS(name, type)                                                                       \
    cublasStatus_t name(type a)                                                                    \
    {                                                                                              \
        (void)a;                                                                                   \
        return CUBLAS_STATUS_SUCCESS;                                                              \
    }
#define SETS(name, type, attribute_type)                                                           \
    cublasStatus_t name(type a, attribute_type attribute, const void *value, size_t bytes)         \
    {                                                                                              \
        (void)a, (void)attribute, (void)value, (void)bytes;                                        \
        return CUBLAS_STATUS_SUCCESS;                                                              \
    }
DESTROYS(cublasLtDestroy, cublasLtHandle_t)
DESTROYS(cublasLtMatmulDescDestroy, cublasLtMatmulDesc_t)
DESTROYS(cublasLtMatrixLayoutDestroy, cublasLtMatrixLayout_t)
DESTROYS(cublasLtMatmulPreferenceDestroy, cublasLtMatmulPreference_t)
SETS(cublasLtMatmulDescSetAttribute, cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t)
SETS(cublasLtMatrixLayoutSetAttribute, cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t)
SETS(cublasLtMatmulPreferenceSetAttribute, cublasLtMatmulPreference_t,
     cublasLtMatmulPreferenceAttributes_t)

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    *out = handle();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    (void)compute, (void)scale;
    *out = handle();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t step)
{
    (void)type, (void)rows, (void)columns, (void)step;
    *out = handle();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    *out = handle();
    return CUBLAS_STATUS_SUCCESS;
}

/* --- algorithms ------------------------------------------------------------------------------- */

/* What FAKE_PRODUCTS says behind a word; 0: nothing. */
static long asked(const char *word)
{
    const char *said = getenv("FAKE_PRODUCTS");
    return said && strncmp(said, word, strlen(word)) == 0 ? atol(said + strlen(word)) : 0;
}

/* Their first word is their number, from 1. */
static cublasLtMatmulHeuristicResult_t algorithm(int number)
{
    return (cublasLtMatmulHeuristicResult_t){.algo.data[0] = (uint64_t)number,
                                             .workspaceSize = (size_t)asked("room:")};
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t with, cublasLtMatmulDesc_t what,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *found)
{
    const int first = asked("first:") ? (int)asked("first:") - 1 : 0;
    (void)with, (void)what, (void)a, (void)b, (void)c, (void)d, (void)preference;
    *found = wanted < ALGORITHMS ? wanted : ALGORITHMS;
    for (int i = 0; i < *found; i++) results[i] = algorithm((first + i) % ALGORITHMS + 1);
    return CUBLAS_STATUS_SUCCESS;
}

static bool is_known(const cublasLtMatmulAlgo_t *algo)
{
    return algo->data[0] >= 1 && algo->data[0] <= ALGORITHMS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t with, cublasLtMatmulDesc_t what,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    (void)with, (void)what, (void)a, (void)b, (void)c, (void)d;
    if (!is_known(algo)) return INVALID;
    *result = algorithm((int)algo->data[0]);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t with, cublasLtMatmulDesc_t what, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    (void)with, (void)what, (void)alpha, (void)a, (void)a_layout, (void)b, (void)b_layout;
    (void)beta, (void)c, (void)c_layout, (void)d, (void)d_layout, (void)workspace;
    (void)workspace_bytes, (void)stream;
    return is_known(algo) ? CUBLAS_STATUS_SUCCESS : INVALID;
}
