/* What lies on another device, as the host sees it for a while. */
#include <string.h>
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

// What comes next in `q` begins after that work of another queue.
static tl_status follow(tl_queue *q, tl_queue *other, const atomic_uint_least64_t *ticket)
{
    uint64_t t = atomic_load_explicit(ticket, memory_order_acquire);
    const tl_device_class *d = q->device->cls;
    return t && !d->done(other, t) ? d->after(q, other, t) : TL_OK;
}

// Neither memory is anything else's before the copy has run.
static tl_status queue_copy(tli_image *image, bool goes)
{
    tl_storage *there = image->of->storage, *here = image->tensor.storage;
    const tli_memory *m = there->memory;
    const tl_device_class *d = m->device->cls;
    char *theirs = bytes_of(there, image->extent.from);
    size_t bytes = (size_t)(image->extent.to - image->extent.from);
    tl_queue *q = goes ? m->in : m->out;
    if (!bytes) return TL_OK;
    TL_TRY(follow(q, m->queue, goes ? &there->used : &there->ticket));
    TL_TRY(follow(q, goes ? m->out : m->in, goes ? &there->leaving : &there->arriving));
    TL_TRY(
        d->copy(q, goes ? (void *)theirs : here->data, goes ? here->data : (void *)theirs, bytes));
    image->goes = goes;
    image->written = atomic_load_explicit(&there->ticket, memory_order_relaxed);
    image->ticket = tl_queue_ticket(q);
    tli_ticket_raise(goes ? &there->arriving : &there->leaving, image->ticket);
    tli_ticket_raise(goes ? &here->arriving : &here->leaving, image->ticket);
    return TL_OK;
}

tl_status tli_image_begin(tli_image *out, const tl_tensor *of, bool filled)
{
    tl_engine *e = of->storage->memory->engine;
    *out = (tli_image){.tensor = *of, .of = of, .extent = tli_extent_of(of)};
    out->tensor.storage = NULL;
    const int64_t bytes = out->extent.to - out->extent.from;
    TL_ASSERT(bytes >= 0 && out->extent.from >= 0 && out->extent.to <= (int64_t)of->storage->bytes);
    // It shows all of the tensor.
    TL_ASSERT((size_t)bytes >= (of->contiguous ? tl_tensor_bytes(of) : 0));
    TL_TRY(tli_storage_new(&out->tensor.storage, tli_engine_staging(e), (size_t)bytes));
    out->tensor.offset = tli_image_offset(of, out->extent);
    TL_ASSERT(out->tensor.offset >= 0 && out->tensor.storage->memory->on_host);
    tl_status st = filled ? queue_copy(out, false) : TL_OK;
    if (st != TL_OK) tli_image_close(out);
    return st;
}

tl_status tli_image_put(tli_image *image)
{
    return queue_copy(image, true);
}

tl_status tli_image_wait(tli_image *image)
{
    tl_storage *there = image->of->storage;
    if (!image->ticket) return TL_OK;
    TL_TRY(tl_queue_wait(image->goes ? there->memory->in : there->memory->out, image->ticket));
    image->ticket = 0;
    // the copy is there, but what it shows may have failed
    if (!image->goes) return tli_storage_wait(there);
    // it holds what the host wrote
    (void)atomic_compare_exchange_strong(&there->ticket, &image->written, 0);
    return TL_OK;
}

void tli_image_close(tli_image *image)
{
    tli_storage_release(image->tensor.storage);
    image->tensor.storage = NULL;
}

tl_status tli_send(const tl_tensor *to, const tl_tensor *from)
{
    tl_storage *there = to->storage, *here = from->storage;
    const tli_memory *m = there->memory;
    const tl_device_class *d = m->device->cls;
    size_t bytes = tl_tensor_bytes(to);
    if (!bytes) return TL_OK;
    TL_TRY(follow(m->in, m->queue, &there->used));
    TL_TRY(follow(m->in, m->queue, &here->ticket)); // somebody may have copied to it
    TL_TRY(follow(m->in, m->out, &there->leaving));
    TL_TRY(d->copy(m->in, tli_data(to), tli_data(from), bytes));
    const uint64_t ticket = tl_queue_ticket(m->in);
    tli_ticket_raise(&there->arriving, ticket);
    tli_ticket_raise(&here->arriving, ticket);
    TL_TRY(d->after(m->queue, m->in, ticket));
    (void)d->issue(m->queue); // so that it has a ticket among kernels
    tli_storage_written(there);
    return TL_OK;
}

// What a lease of the tensor is shown in; NULL where it is shown itself.
static tl_status hold_room(tl_storage **room, const tl_tensor *t)
{
    tli_extent extent = tli_extent_of(t);
    *room = NULL;
    if (t->storage->memory->on_host) return TL_OK;
    return tli_storage_new(room, tli_engine_staging(t->storage->memory->engine),
                           (size_t)(extent.to - extent.from));
}

tl_status tli_lease_reserve(const tl_tensor *t)
{
    tl_storage *room;
    TL_TRY(hold_room(&room, t));
    tli_storage_release(room);
    return TL_OK;
}

tl_status tli_copy_reserve(const tl_tensor *to, const tl_tensor *from)
{
    tl_storage *here, *there = NULL;
    if (!tli_copy_is_over_host(to, from)) return TL_OK;
    TL_TRY(hold_room(&here, from)); // both are leased at a time
    tl_status st = hold_room(&there, to);
    tli_storage_release(there);
    tli_storage_release(here);
    return st;
}

/* --- kernels of the host for tensors of another device ---------------------------------------- */

// Images of inputs, then of outputs; `*opened` counts those that are there.
static tl_status open_images(tli_image *images, int *opened, const tl_node *call)
{
    for (int i = 0; i < call->inputs + call->outputs; i++) {
        const bool input = i < call->inputs;
        const tl_tensor *t = input ? call->in[i] : call->out[i - call->inputs];
        TL_TRY(tli_image_begin(&images[i], t, input));
        (*opened)++;
    }
    // the last one's wait is the only one
    for (int i = call->inputs - 1; i >= 0; i--) TL_TRY(tli_image_wait(&images[i]));
    return TL_OK;
}

// The same elements, seen in the same way.
static bool is_same(const tl_tensor *a, const tl_tensor *b)
{
    return a->dtype == b->dtype && a->offset == b->offset && tl_shape_equal(&a->shape, &b->shape)
           && memcmp(a->strides, b->strides, (size_t)a->shape.rank * sizeof *a->strides) == 0;
}

// Which image an input has: one that was given twice has one, so that the kernel sees what it
// writes.
static int image_of(const tl_node *call, int i)
{
    for (int k = 0; k < i && k < call->inputs && i < call->inputs; k++)
        if (call->in[k]->storage == call->in[i]->storage && is_same(call->in[k], call->in[i]))
            return k;
    return i;
}

static tl_status put_images(tli_image *images, const tl_node *call)
{
    const int count = call->inputs + call->outputs;
    for (int i = 0; i < count; i++)
        if (i >= call->inputs || tli_call_writes(call, i))
            TL_TRY(tli_image_put(&images[image_of(call, i)]));
    for (int i = count - 1; i >= 0; i--) TL_TRY(tli_image_wait(&images[i]));
    return TL_OK;
}

// Two inputs that lie over each other otherwise are two images: a kernel that writes one of them
// must not read the other one where they meet.
static tl_status check_apart(const tl_node *call)
{
    for (int i = 0; i < call->inputs; i++) {
        tli_extent a = tli_extent_of(call->in[i]);
        for (int k = 0; k < call->inputs; k++) {
            tli_extent b = tli_extent_of(call->in[k]);
            if (!tli_call_writes(call, k) || call->in[i]->storage != call->in[k]->storage) continue;
            if (image_of(call, i) == image_of(call, k)) continue;
            if (a.from < b.to && b.from < a.to)
                return TL_FAIL(TL_EUNSUPPORTED,
                               "input %d lies over input %d, which is written, and there is no "
                               "kernel for it on this device",
                               i, k);
        }
    }
    return TL_OK;
}

// The host's kernel runs in the host's queue: at once.
static tl_status run_on_images(const tl_run *run, const tl_node *call, tl_kernel_fn *kernel,
                               tli_image *images, tl_tensor **headers)
{
    const tl_backend_class *b = run->engine->backend;
    tl_node staged = *call;
    tl_run here = *run;
    TL_TRY(tl_device_host.queue_new(&here.queue, tl_host()));
    for (int i = 0; i < call->inputs + call->outputs; i++)
        headers[i] = &images[image_of(call, i)].tensor;
    staged.in = headers;
    staged.out = headers + call->inputs;
    return b->around ? b->around(&here, &staged, kernel) : kernel(&here, &staged);
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
    TL_ASSERT(st != TL_OK || opened == count);
    if (st == TL_OK) st = run_on_images(run, call, kernel, images, headers);
    if (st == TL_OK) st = put_images(images, call);
    for (int i = 0; i < opened; i++) tli_image_close(&images[i]);
    tl_free(images);
    tl_free(headers);
    return st;
}
