#include "cpu/ref/ref.h"

static tl_status full_kernel(const tl_run *run, const tl_node *n)
{
    const tl_full_attr *a = n->attr;
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(n->out[0]); i < count; i++)
        tli_ref_set(n->out[0], i, a->value);
    return TL_OK;
}

static tl_status arange_kernel(const tl_run *run, const tl_node *n)
{
    const tl_arange_attr *a = n->attr;
    const tl_tensor *y = n->out[0];
    bool floats = tl_dtype_is_float(y->dtype);
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++) {
        if (floats) tli_ref_set(y, i, a->start + (double)i * a->step);
        else tli_ref_set_int(y, i, (int64_t)a->start + i * (int64_t)a->step);
    }
    return TL_OK;
}

static tl_status one_hot_kernel(const tl_run *run, const tl_node *n)
{
    const tl_one_hot_attr *a = n->attr;
    const tl_tensor *x = n->in[0], *y = n->out[0];
    TL_ASSERT(tl_tensor_count(x) * a->depth == tl_tensor_count(y));
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(x); i < count; i++) {
        int64_t index = tli_ref_get_int(x, tli_ref_offset(x, &x->shape, i));
        for (int64_t k = 0; k < a->depth; k++) tli_ref_set(y, i * a->depth + k, k == index);
    }
    return TL_OK;
}

#define ROW(name) TL_INIT(TL_OP_##name, TL_DTYPE_COUNT, name##_kernel, TL_KERNEL_STRIDED)
static const tl_kernel rows[] = {ROW(full), ROW(arange), ROW(one_hot)};
const tl_kernels tli_ref_create = {rows, TL_COUNT(rows)};
