#include "core/inner/sound.h"

#include "core/inner/storage.h"
#include "core/inner/tensor.h"

static bool fits_its_storage(const tl_tensor *t)
{
    if (!t->storage) return true;
    tli_extent e = tli_extent_of(t);
    return atomic_load_explicit(&t->storage->refs, memory_order_relaxed) > 0 && e.from >= 0
           && e.from <= e.to && e.to <= (int64_t)t->storage->bytes;
}

bool tli_tensor_is_sound(const tl_tensor *t)
{
    if ((int)t->dtype < 0 || t->dtype >= TL_DTYPE_COUNT) return false;
    if (t->shape.rank < 0 || t->shape.rank > TL_MAX_RANK) return false;
    for (int i = 0; i < t->shape.rank; i++)
        if (t->shape.dims[i] < 0) return false;
    return (!t->contiguous || tli_tensor_is_row_major(t)) && fits_its_storage(t);
}

bool tli_tensors_are_apart(const tl_tensor *a, const tl_tensor *b)
{
    if (!a->storage || a->storage != b->storage) return true;
    tli_extent x = tli_extent_of(a), y = tli_extent_of(b);
    return x.to <= y.from || y.to <= x.from;
}

static bool lies_over(const tl_node *call, const tl_kernel *kernel, int output, int input)
{
    const tl_tensor *to = call->out[output], *from = call->in[input];
    return kernel->flags & TL_KERNEL_OVER && output == call->outputs - 1
           && to->storage == from->storage && to->offset == from->offset && to->dtype == from->dtype
           && tl_shape_equal(&to->shape, &from->shape);
}

// A pack finds parts where they belong already (graph/plan.c), and some write over what they read
// (graph/reuse.c); all else reads one memory and writes another.
static bool lies_apart(const tl_node *call, const tl_kernel *kernel, int output)
{
    const tl_tensor *t = call->out[output];
    for (int i = 0; i < call->inputs && call->op->op != TL_OP_pack; i++)
        if (!tli_tensors_are_apart(t, call->in[i]) && !lies_over(call, kernel, output, i))
            return false;
    for (int i = 0; i < output; i++)
        if (!tli_tensors_are_apart(t, call->out[i])) return false;
    return true;
}

static bool lies_well(const tl_tensor *t)
{
    return t->storage && tli_tensor_is_sound(t)
           && tli_is_aligned(tli_data(t), tl_dtype_size(t->dtype));
}

bool tli_call_is_sound(const tl_node *call, const tl_kernel *kernel)
{
    for (int i = 0; i < call->inputs; i++)
        if (!lies_well(call->in[i])
            || !(call->in[i]->contiguous || kernel->flags & TL_KERNEL_STRIDED))
            return false;
    for (int i = 0; i < call->outputs; i++)
        if (!lies_well(call->out[i]) || !call->out[i]->contiguous || !lies_apart(call, kernel, i))
            return false;
    return kernel->fn && kernel->op == call->op->op;
}
