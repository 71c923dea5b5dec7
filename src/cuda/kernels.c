#include "cuda/kernels.h"

#include <stdio.h>

#include <tilth/base/integer.h>
#include <tilth/sys/nest/gpu.h>

#include "core/inner/storage.h"
#include "nest/inner/words.h"

enum { THREADS = 256, KEY = 64 };

/* As formulas are called. */
static const char *const formulas[TL_ACT_FUSED_COUNT] = {
    [TL_ACT_RELU] = "relu",           [TL_ACT_RELU6] = "relu6", [TL_ACT_GELU] = "gelu",
    [TL_ACT_GELU_TANH] = "gelu_tanh", [TL_ACT_SILU] = "silu",   [TL_ACT_TANH] = "tanh",
    [TL_ACT_SIGMOID] = "sigmoid",
};

tl_status tli_cuda_kernel(const tl_run *run, CUfunction *out, const char *key, const char *body)
{
    tli_cuda *d = tli_cuda_of(run->queue->device);
    tl_str text = TL_STR_INIT;
    tl_status st = TL_OK;
    TL_TRY(tli_cuda_enter(d));
    pthread_mutex_lock(&d->lock);
    *out = tl_map_get(&d->kernels, key);
    const bool ahead = tli_cuda_foresees(run->queue);
    if (!*out && (!ahead || tli_cuda_asks(run->queue, key))) {
        tl_gpu_print_head(&text);
        tl_str_add(&text, body);
        st = tl_str_status(&text);
        if (st == TL_OK && ahead) st = tli_cuda_code_ahead(d->codes, tl_str_text(&text));
        else if (st == TL_OK) st = tli_cuda_load(d, out, tl_str_text(&text), "kernel");
        if (st == TL_OK && *out) st = tl_map_set(&d->kernels, key, *out);
    }
    pthread_mutex_unlock(&d->lock);
    tl_str_deinit(&text);
    return st;
}

tl_status tli_cuda_start(const tl_run *run, CUfunction kernel, int64_t count, void **parameters)
{
    const tli_cuda *d = tli_cuda_of(run->queue->device);
    const int64_t blocks = tl_min_i64(tl_div_up(count, THREADS), INT32_MAX);
    if (tli_cuda_foresees(run->queue)) return TL_OK;
    TLI_CUDA_TRY(d->api, cuLaunchKernel, kernel, (unsigned)blocks, 1, 1, THREADS, 1, 1, 0,
                 tli_cuda_queue_of(run->queue)->stream, parameters, NULL);
    (void)tli_cuda_issue(run->queue);
    return TL_OK;
}

/* Each element of y becomes what the formula, printed behind its key, makes of those of x and y:
 * float x and y. */
static tl_status start_flat(const tl_run *run, const char *key, const char *formula,
                            const tl_tensor *x, tl_tensor *y)
{
    CUfunction kernel;
    tl_str body = TL_STR_INIT;
    int64_t count = tl_tensor_count(y);
    void *from = tli_data(x), *to = tli_data(y), *parameters[] = {&from, &to, &count};
    const char *load, *store, *type = tli_kernel_words(y->dtype, &load, &store);
    tl_str_addf(
        &body,
        "FN %s f(%s a, %s b) { const float x = %s(a), y = %s(b); (void)y; return %s(%s); }\n"
        "extern \"C\" __global__ void __launch_bounds__(%d) kernel(const %s *x, %s *y, "
        "i64 n)\n{\n"
        "    const i64 from = (i64)blockIdx.x * %d + threadIdx.x, step = (i64)gridDim.x * "
        "%d;\n"
        "    const i64 whole = IS_ALIGNED(x) && IS_ALIGNED(y) ? n / 8 : 0;\n"
        "    for (i64 v = from; v < whole; v += step) {\n"
        "        const vector_%s a = ((const vector_%s *)x)[v];\n"
        "        vector_%s b = ((vector_%s *)y)[v];\n"
        "        UNROLL for (int j = 0; j < 8; j++) b.x[j] = f(a.x[j], b.x[j]);\n"
        "        ((vector_%s *)y)[v] = b;\n"
        "    }\n"
        "    for (i64 i = whole * 8 + from; i < n; i += step) y[i] = f(x[i], y[i]);\n}\n",
        type, type, type, load, load, store, formula, THREADS, type, type, THREADS, THREADS, type,
        type, type, type, type);
    tl_status st = tl_str_status(&body);
    if (st == TL_OK) st = tli_cuda_kernel(run, &kernel, key, tl_str_text(&body));
    tl_str_deinit(&body);
    return st == TL_OK ? tli_cuda_start(run, kernel, tl_div_up(count, 8), parameters) : st;
}

tl_status tli_cuda_activate(const tl_run *run, tl_activation activation, const tl_tensor *x,
                            tl_tensor *y)
{
    char key[KEY], formula[KEY];
    if (activation == TL_ACT_NONE)
        return run->queue->device->cls->copy(run->queue, tli_data(y), tli_data(x),
                                             tl_tensor_bytes(y));
    snprintf(key, sizeof key, "activate %d %d", (int)activation, (int)y->dtype);
    snprintf(formula, sizeof formula, "%s_f(x)", formulas[activation]);
    return start_flat(run, key, formula, x, y);
}

tl_status tli_cuda_gelu_grad(const tl_run *run, const tl_tensor *x, tl_tensor *y)
{
    char key[KEY];
    snprintf(key, sizeof key, "gelu_grad %d", (int)y->dtype);
    return start_flat(run, key, "gelu_tanh_grad_f(y, x)", x, y);
}

tl_status tli_cuda_spread(const tl_run *run, tl_tensor *y, const void *row)
{
    const tl_device_class *device = run->queue->device->cls;
    const size_t bytes = tl_tensor_bytes(y);
    if (!row) return device->fill(run->queue, tli_data(y), 0, bytes);
    const int64_t columns = y->shape.dims[y->shape.rank - 1];
    const size_t width = (size_t)columns * tl_dtype_size(y->dtype);
    for (size_t at = 0; at < bytes; at += width)
        TL_TRY(device->copy(run->queue, (char *)tli_data(y) + at, row, width));
    return TL_OK;
}
