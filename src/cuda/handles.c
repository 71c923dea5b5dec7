/* Handles of cuBLASLt and cuDNN, which open further libraries when they are made: a thread makes
 * them while weights are. */
#include "cuda/device.h"

/* What lacks or fails is told by whoever needs it, and tries again. */
static void *make(void *self)
{
    tli_cuda *d = self;
    const tli_cuda_api *api;
    if (tli_cuda_enter(d) == TL_OK && tli_cuda_products(&api) == TL_OK) {
        if (api->cublasLtCreate(&d->products) != CUBLAS_STATUS_SUCCESS) d->products = NULL;
        if (tli_cuda_dnn(&api) == TL_OK && api->cudnnCreate(&d->dnn) != CUDNN_STATUS_SUCCESS)
            d->dnn = NULL;
    }
    tl_error_clear();
    return NULL;
}

static void join(void *self)
{
    tli_cuda_handles_join(self);
}

void tli_cuda_handles_begin(tli_cuda *d)
{
    sigset_t mask, before;
    tli_thread_mask(&mask);
    pthread_sigmask(SIG_SETMASK, &mask, &before);
    pthread_mutex_lock(&d->handles.lock);
    if (!d->handles.asked) {
        tli_thread_leave(&d->handles.leaving, join, d);
        d->handles.under_way = pthread_create(&d->handles.thread, NULL, make, d) == 0;
    }
    d->handles.asked = true;
    pthread_mutex_unlock(&d->handles.lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void tli_cuda_handles_join(tli_cuda *d)
{
    pthread_mutex_lock(&d->handles.lock);
    if (d->handles.under_way) pthread_join(d->handles.thread, NULL);
    d->handles.under_way = false;
    d->handles.asked = true; // whoever has come here makes his own
    pthread_mutex_unlock(&d->handles.lock);
}
