/* What lies on another device, as the host sees it for a while. */
#include <tilth/base/alloc.h>

#include "core/inner/engine.h"
#include "core/inner/tensor.h"

tli_extent tli_extent_of(const tl_tensor *t)
{
    int64_t low = t->offset, high = t->offset;
    for (int d = 0; d < t->shape.rank; d++) {
        if (t->shape.dims[d] == 0) return (tli_extent){0, 0};
        int64_t reach = (t->shape.dims[d] - 1) * t->strides[d];
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    int64_t size = (int64_t)tl_dtype_size(t->dtype);
    return (tli_extent){low * size, (high + 1) * size};
}

/* --- images ----------------------------------------------------------------------------------- */

static char *bytes_of(const tl_storage *s, int64_t from)
{
    return (char *)s->data + from;
}

// Puts a copy into the queue and waits for it: the memory of the host is used at once.
static tl_status copy_now(tl_queue *q, void *to, const void *from, int64_t bytes)
{
    TL_TRY(q->device->cls->copy(q, to, from, (size_t)bytes));
    return tl_queue_wait(q, tl_queue_ticket(q));
}

tl_status tli_image_open(tli_image *out, const tl_tensor *of, bool filled)
{
    const tl_storage *there = of->storage;
    tl_engine *e = there->memory->engine;
    *out = (tli_image){.tensor = *of, .of = of, .extent = tli_extent_of(of)};
    int64_t bytes = out->extent.to - out->extent.from;
    out->tensor.storage = NULL;
    TL_TRY(tli_storage_new(&out->tensor.storage, tli_engine_staging(e), (size_t)bytes));
    out->tensor.offset = of->offset - out->extent.from / (int64_t)tl_dtype_size(of->dtype);
    tl_status st = filled && bytes ? copy_now(e->queue, out->tensor.storage->data,
                                              bytes_of(there, out->extent.from), bytes)
                                   : TL_OK;
    if (st != TL_OK) tli_image_close(out);
    return st;
}

tl_status tli_image_put(const tli_image *image)
{
    const tl_storage *there = image->of->storage;
    int64_t bytes = image->extent.to - image->extent.from;
    if (!bytes) return TL_OK;
    return copy_now(there->memory->queue, bytes_of(there, image->extent.from), image->tensor.storage->data, bytes);
}

void tli_image_close(tli_image *image)
{
    tli_storage_release(image->tensor.storage);
    image->tensor.storage = NULL;
}

/* --- kernels of the host for tensors of another device ---------------------------------------- */

// Images of inputs, then of outputs; `*opened` counts those that are there.
static tl_status open_images(tli_image *images, int *opened, const tl_node *call)
{
    for (int i = 0; i < call->inputs + call->outputs; i++) {
        const bool input = i < call->inputs;
        const tl_tensor *t = input ? call->in[i] : call->out[i - call->inputs];
        TL_TRY(tli_image_open(&images[i], t, input));
        (*opened)++;
    }
    return TL_OK;
}

static tl_status put_images(const tli_image *images, const tl_node *call)
{
    for (int i = 0; i < call->inputs; i++)
        if (tli_call_writes(call, i)) TL_TRY(tli_image_put(&images[i]));
    for (int i = 0; i < call->outputs; i++) TL_TRY(tli_image_put(&images[call->inputs + i]));
    return TL_OK;
}

// Two inputs that lie over each other are two images: a kernel that writes one of them must not read the
// other one where they meet.
static tl_status check_apart(const tl_node *call)
{
    for (int i = 0; i < call->inputs; i++) {
        tli_extent a = tli_extent_of(call->in[i]);
        for (int k = 0; k < call->inputs; k++) {
            tli_extent b = tli_extent_of(call->in[k]);
            if (k == i || !tli_call_writes(call, k) || call->in[i]->storage != call->in[k]->storage) continue;
            if (a.from < b.to && b.from < a.to)
                return TL_FAIL(TL_EUNSUPPORTED, "input %d lies over input %d, which is written, and there is no kernel "
                               "for it on this device", i, k);
        }
    }
    return TL_OK;
}

tl_status tli_run_staged(const tl_run *run, const tl_node *call, tl_kernel_fn *kernel)
{
    const int count = call->inputs + call->outputs;
    int opened = 0;
    TL_TRY(check_apart(call));
    tli_image *images = tl_alloc_zero((size_t)count * sizeof *images);
    tl_tensor **headers = tl_alloc_zero((size_t)count * sizeof *headers);
    tl_status st = images && headers ? open_images(images, &opened, call)
                                     : TL_FAIL_NOMEM((size_t)count * sizeof *images);
    if (st == TL_OK) {
        tl_node staged = *call;
        for (int i = 0; i < count; i++) headers[i] = &images[i].tensor;
        staged.in = headers;
        staged.out = headers + call->inputs;
        st = kernel(run, &staged);
    }
    if (st == TL_OK) st = put_images(images, call);
    for (int i = 0; i < opened; i++) tli_image_close(&images[i]);
    tl_free(images);
    tl_free(headers);
    return st;
}
