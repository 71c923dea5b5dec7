#include "core/inner/tensor.h"
#include "cpu/ref/ref.h"

#include <string.h>

static tl_status copy_kernel(const tl_run *run, const tl_node *n)
{
    (void)run;
    tli_tensor_gather(n->in[0], tli_data(n->out[0]));
    return TL_OK;
}

/* --- into a part of the result ---------------------------------------------------------------- */

// One row of `count` elements of `size` bytes, each side with a step in elements.
static void move_row(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count,
                     size_t size)
{
    if (to_step == 1 && from_step == 1) {
        memcpy(to, from, (size_t)count * size);
        return;
    }
    to_step *= (int64_t)size;
    from_step *= (int64_t)size;
    for (int64_t i = 0; i < count; i++) memcpy(to + i * to_step, from + i * from_step, size);
}

// All elements of `from` to `to`, which has its type and shape; any strides on both sides.
static void move(const tl_tensor *to, const tl_tensor *from)
{
    int64_t size = (int64_t)tl_dtype_size(from->dtype), index[TL_MAX_RANK] = {0};
    int64_t count = tl_tensor_count(from), there = 0, here = 0;
    int last = from->shape.rank - 1;
    TL_ASSERT(tl_shape_equal(&to->shape, &from->shape) && to->dtype == from->dtype);
    int64_t row = last < 0 ? 1 : from->shape.dims[last];
    for (int64_t i = 0; i < count; i += row) {
        move_row((char *)tli_data(to) + there * size, last < 0 ? 1 : to->strides[last],
                 (const char *)tli_data(from) + here * size, last < 0 ? 1 : from->strides[last],
                 row, (size_t)size);
        for (int d = last - 1; d >= 0; d--) {
            there += to->strides[d];
            here += from->strides[d];
            if (++index[d] < from->shape.dims[d]) break;
            there -= to->strides[d] * index[d];
            here -= from->strides[d] * index[d];
            index[d] = 0;
        }
    }
    TL_ASSERT(there == 0 && here == 0); // behind the last row the walk is where it began
}

static tl_status unslice_kernel(const tl_run *run, const tl_node *n)
{
    const tl_unslice_attr *a = n->attr;
    tl_tensor part = *n->out[0];
    (void)run;
    memset(tli_data(&part), 0, tl_tensor_bytes(&part)); // zero in every type
    part.shape = n->in[0]->shape;
    for (int i = 0; i < part.shape.rank && tl_tensor_count(&part); i++) {
        part.offset += a->starts.items[i] * part.strides[i];
        part.strides[i] *= part.shape.dims[i] > 1 ? a->steps.items[i] : 1;
    }
    move(&part, n->in[0]);
    return TL_OK;
}

static tl_status concat_kernel(const tl_run *run, const tl_node *n)
{
    const tl_axis_attr *a = n->attr;
    tl_tensor part = *n->out[0];
    (void)run;
    for (int i = 0; i < n->inputs; i++) {
        part.shape = n->in[i]->shape;
        if (tl_tensor_count(&part)) move(&part, n->in[i]);
        part.offset += part.shape.dims[a->axis] * part.strides[a->axis];
    }
    return TL_OK;
}

/* --- pad -------------------------------------------------------------------------------------- */

static tl_status pad_constant(const tl_node *n)
{
    const tl_pad_attr *a = n->attr;
    tl_tensor part = *n->out[0];
    for (int64_t i = 0, count = tl_tensor_count(&part); i < count; i++)
        tli_ref_set(&part, i, a->value);
    part.shape = n->in[0]->shape;
    for (int i = 0; i < part.shape.rank && tl_tensor_count(&part); i++)
        part.offset += a->before.items[i] * part.strides[i];
    move(&part, n->in[0]);
    return TL_OK;
}

// The place of an axis that reflected place `i` shows.
static int64_t reflected(int64_t i, int64_t before, int64_t dim)
{
    i -= before;
    if (i < 0) return -i;
    return i < dim ? i : 2 * (dim - 1) - i;
}

static tl_status pad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_pad_attr *a = n->attr;
    const tl_tensor *x = n->in[0], *y = n->out[0];
    (void)run;
    if (a->mode == TL_PAD_CONSTANT) return pad_constant(n);
    size_t size = tl_dtype_size(y->dtype);
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++) {
        int64_t rest = i, at = 0;
        for (int d = y->shape.rank - 1; d >= 0; d--) {
            at += x->strides[d]
                  * reflected(rest % y->shape.dims[d], a->before.items[d], x->shape.dims[d]);
            rest /= y->shape.dims[d];
        }
        memcpy((char *)tli_data(y) + (size_t)i * size,
               (const char *)tli_data(x) + at * (int64_t)size, size);
    }
    return TL_OK;
}

#define ROW(name) TL_INIT(TL_OP_##name, TL_DTYPE_COUNT, name##_kernel, TL_KERNEL_STRIDED)
static const tl_kernel rows[] = {ROW(copy), ROW(unslice), ROW(concat), ROW(pad)};
const tl_kernels tli_ref_view = {rows, TL_COUNT(rows)};
