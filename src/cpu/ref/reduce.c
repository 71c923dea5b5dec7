#include "cpu/ref/ref.h"

// Splits the input into kept and reduced axes: element `o` of the result is made of the elements at
// offset(kept, o) + offset(reduced, r).
typedef struct split {
    tl_shape kept, reduced;
    tl_tensor over_kept, over_reduced; /* the input's header with the axes of one side only */
} split;

static split split_axes(const tl_node *n)
{
    const tl_reduce_attr *a = n->attr;
    const tl_tensor *x = n->in[0];
    split s = {.over_kept = *x, .over_reduced = *x};
    bool goes[TL_MAX_RANK] = {false};
    for (int64_t i = 0; i < a->axes.count; i++) goes[a->axes.items[i]] = true;
    for (int i = 0; i < x->shape.rank; i++) {
        tl_shape *side = goes[i] ? &s.reduced : &s.kept;
        tl_tensor *over = goes[i] ? &s.over_reduced : &s.over_kept;
        over->strides[side->rank] = x->strides[i];
        side->dims[side->rank++] = x->shape.dims[i];
    }
    s.over_kept.shape = s.kept;
    s.over_reduced.shape = s.reduced;
    return s;
}

static tl_status sum_kernel(const tl_run *run, const tl_node *n)
{
    split s = split_axes(n);
    (void)run;
    for (int64_t o = 0, outer = tl_shape_count(&s.kept); o < outer; o++) {
        int64_t base = tli_ref_offset(&s.over_kept, &s.kept, o);
        double sum = 0;
        for (int64_t r = 0, inner = tl_shape_count(&s.reduced); r < inner; r++)
            sum += tli_ref_get(n->in[0], base + tli_ref_offset(&s.over_reduced, &s.reduced, r));
        tli_ref_set(n->out[0], o, sum);
    }
    return TL_OK;
}

static const tl_kernel rows[] = {{TL_OP_sum, TL_DTYPE_COUNT, sum_kernel, TL_KERNEL_STRIDED}};
const tl_kernels tli_ref_reduce = {rows, TL_COUNT(rows)};
