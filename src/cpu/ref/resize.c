#include "cpu/ref/ref.h"
#include "cpu/resize.h"

static int64_t offset(const tl_tensor *t, int64_t n, int64_t y, int64_t x, int64_t channel)
{
    return n * t->strides[0] + y * t->strides[1] + x * t->strides[2] + channel * t->strides[3];
}

static tl_status resize_kernel(const tl_run *run, const tl_node *n)
{
    const tl_tensor *x = n->in[0], *y = n->out[0];
    const int64_t *xd = x->shape.dims, *yd = y->shape.dims;
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++) {
        int64_t channel = i % yd[3], image = i / yd[3] / yd[2] / yd[1];
        tli_blend across = tli_blend_of(n->attr, i / yd[3] % yd[2], xd[2], yd[2]);
        tli_blend down = tli_blend_of(n->attr, i / yd[3] / yd[2] % yd[1], xd[1], yd[1]);
        double sum = 0;
        for (int64_t k = 0; k < 4; k++) {
            int64_t row = k & 2 ? down.second : down.first;
            int64_t column = k & 1 ? across.second : across.first;
            double weight =
                (k & 2 ? down.part : 1 - down.part) * (k & 1 ? across.part : 1 - across.part);
            // A pixel without weight has no say, even when it is infinite.
            if (weight != 0) sum += weight * tli_ref_get(x, offset(x, image, row, column, channel));
        }
        tli_ref_set(y, i, sum);
    }
    return TL_OK;
}

// The gradient at pixel (row, column) of one channel of one image.
static double gathered(const tl_resize_attr *a, const tl_tensor *g, const tl_tensor *y,
                       int64_t image, int64_t row, int64_t column, int64_t channel)
{
    const int64_t *gd = g->shape.dims, *yd = y->shape.dims;
    int64_t top, bottom, left, right;
    double sum = 0;
    tli_resize_made_of(&top, &bottom, a, row, yd[1], gd[1]);
    tli_resize_made_of(&left, &right, a, column, yd[2], gd[2]);
    for (int64_t gy = top; gy <= bottom; gy++) {
        tli_blend down = tli_blend_of(a, gy, yd[1], gd[1]);
        double height = tli_blend_share(&down, row);
        for (int64_t gx = left; height != 0 && gx <= right; gx++) {
            tli_blend across = tli_blend_of(a, gx, yd[2], gd[2]);
            double weight = height * tli_blend_share(&across, column);
            if (weight != 0) sum += weight * tli_ref_get(g, offset(g, image, gy, gx, channel));
        }
    }
    return sum;
}

static tl_status resize_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_tensor *y = n->out[0];
    const int64_t *yd = y->shape.dims;
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++) {
        int64_t channel = i % yd[3], image = i / yd[3] / yd[2] / yd[1];
        int64_t column = i / yd[3] % yd[2], row = i / yd[3] / yd[2] % yd[1];
        tli_ref_set(y, i, gathered(n->attr, n->in[0], y, image, row, column, channel));
    }
    return TL_OK;
}

static const tl_kernel rows[] = {
    {TL_OP_resize, TL_DTYPE_COUNT, resize_kernel, TL_KERNEL_STRIDED},
    {TL_OP_resize_grad, TL_DTYPE_COUNT, resize_grad_kernel, TL_KERNEL_STRIDED},
};
const tl_kernels tli_ref_resize = {rows, TL_COUNT(rows)};
