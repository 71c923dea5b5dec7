/* Convolutions and attention that compute nothing, as libcudnn.so.9: a graph has one plan, which
 * needs no workspace. FAKE_NETWORKS=old in the environment lets it be cuDNN 9.1.0. */
#include <stdlib.h>
#include <string.h>

#include "cuda/api.h"

#define EXPORT __attribute__((visibility("default")))
#define TLI_CUDA_FUNCTION(library, result, name, ...) EXPORT result name __VA_ARGS__;
#include "cuda/functions.def"
#undef TLI_CUDA_FUNCTION

/* Handles that nothing is behind. */
static void *handle(void)
{
    static char somewhere;
    return &somewhere;
}

size_t cudnnGetVersion(void)
{
    const char *asked = getenv("FAKE_NETWORKS");
    return asked && strcmp(asked, "old") == 0 ? 90100 : 99999;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_INTERNAL_ERROR";
}

void cudnnGetLastErrorString(char *text, size_t room)
{
    if (room) *text = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *out)
{
    *out = handle();
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t with)
{
    (void)with;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t with, cudaStream_t stream)
{
    (void)with, (void)stream;
    return CUDNN_STATUS_SUCCESS;
}

/* --- descriptors ------------------------------------------------------------------------------ */

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *out)
{
    (void)type;
    *out = handle();
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t what)
{
    (void)what;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t what)
{
    (void)what;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t what,
                                       cudnnBackendAttributeName_t attribute,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values)
{
    (void)what, (void)attribute, (void)type, (void)count, (void)values;
    return CUDNN_STATUS_SUCCESS;
}

/* One candidate, its engine 0 without notes, a plan that needs no workspace. */
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t what,
                                       cudnnBackendAttributeName_t attribute,
                                       cudnnBackendAttributeType_t type, int64_t wanted,
                                       int64_t *count, void *values)
{
    (void)what;
    *count = attribute == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE ? 0 : 1;
    if (wanted && type == CUDNN_TYPE_INT64) *(int64_t *)values = 0;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t with, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    (void)with, (void)plan, (void)pack;
    return CUDNN_STATUS_SUCCESS;
}
