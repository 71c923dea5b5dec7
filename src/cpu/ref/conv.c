#include "cpu/ref/ref.h"

/* The three products of an image, a filter and their convolution. Each element of a result is one
 * sum over the other two. */
typedef struct products {
    const tl_conv_attr *a;
    const tl_tensor *image, *filter, *result; /* one of them is the output */
    int64_t group_in, group_out;              /* channels of a group */
} products;

static products products_of(const tl_node *n, const tl_tensor *image, const tl_tensor *filter,
                            const tl_tensor *result)
{
    const tl_conv_attr *a = n->attr;
    TL_ASSERT(filter->shape.dims[2] * a->groups == image->shape.dims[3]
              && filter->shape.dims[3] == result->shape.dims[3]);
    TL_ASSERT(image->shape.dims[0] == result->shape.dims[0]
              && filter->shape.dims[3] % a->groups == 0);
    return (products){.a = a,
                      .image = image,
                      .filter = filter,
                      .result = result,
                      .group_in = filter->shape.dims[2],
                      .group_out = filter->shape.dims[3] / a->groups};
}

static double at(const tl_tensor *t, int64_t i, int64_t j, int64_t k, int64_t l)
{
    return tli_ref_get(t, i * t->strides[0] + j * t->strides[1] + k * t->strides[2]
                              + l * t->strides[3]);
}

static bool inside(const tl_tensor *t, int64_t y, int64_t x)
{
    return y >= 0 && x >= 0 && y < t->shape.dims[1] && x < t->shape.dims[2];
}

// The place whose filter element (ky, kx) lies on the pixel (y, x); false when there is none.
static bool place_on(const products *p, int64_t y, int64_t x, int64_t ky, int64_t kx, int64_t *oy,
                     int64_t *ox)
{
    const tl_conv_attr *a = p->a;
    int64_t from_y = y + a->top - ky * a->dilation_y, from_x = x + a->left - kx * a->dilation_x;
    if (from_y < 0 || from_x < 0 || from_y % a->stride_y || from_x % a->stride_x) return false;
    *oy = from_y / a->stride_y;
    *ox = from_x / a->stride_x;
    return inside(p->result, *oy, *ox);
}

static double result_element(const products *p, int64_t image, int64_t oy, int64_t ox, int64_t out)
{
    const tl_conv_attr *a = p->a;
    int64_t first = out / p->group_out * p->group_in;
    double sum = 0;
    for (int64_t ky = 0; ky < p->filter->shape.dims[0]; ky++)
        for (int64_t kx = 0; kx < p->filter->shape.dims[1]; kx++) {
            int64_t y = oy * a->stride_y + ky * a->dilation_y - a->top;
            int64_t x = ox * a->stride_x + kx * a->dilation_x - a->left;
            if (!inside(p->image, y, x)) continue;
            for (int64_t in = 0; in < p->group_in; in++)
                sum += at(p->image, image, y, x, first + in) * at(p->filter, ky, kx, in, out);
        }
    return sum;
}

static double image_element(const products *p, int64_t image, int64_t y, int64_t x, int64_t in)
{
    int64_t first = in / p->group_in * p->group_out, own = in % p->group_in, oy, ox;
    double sum = 0;
    for (int64_t ky = 0; ky < p->filter->shape.dims[0]; ky++)
        for (int64_t kx = 0; kx < p->filter->shape.dims[1]; kx++) {
            if (!place_on(p, y, x, ky, kx, &oy, &ox)) continue;
            for (int64_t out = first; out < first + p->group_out; out++)
                sum += at(p->result, image, oy, ox, out) * at(p->filter, ky, kx, own, out);
        }
    return sum;
}

static double filter_element(const products *p, int64_t ky, int64_t kx, int64_t in, int64_t out)
{
    const tl_conv_attr *a = p->a;
    int64_t channel = out / p->group_out * p->group_in + in;
    double sum = 0;
    for (int64_t image = 0; image < p->image->shape.dims[0]; image++)
        for (int64_t oy = 0; oy < p->result->shape.dims[1]; oy++)
            for (int64_t ox = 0; ox < p->result->shape.dims[2]; ox++) {
                int64_t y = oy * a->stride_y + ky * a->dilation_y - a->top;
                int64_t x = ox * a->stride_x + kx * a->dilation_x - a->left;
                if (inside(p->image, y, x))
                    sum += at(p->image, image, y, x, channel) * at(p->result, image, oy, ox, out);
            }
    return sum;
}

typedef double element_fn(const products *p, int64_t i, int64_t j, int64_t k, int64_t l);

static tl_status each_element(const tl_tensor *t, const products *p, element_fn *fn)
{
    const int64_t *d = t->shape.dims;
    for (int64_t at_ = 0, count = tl_tensor_count(t); at_ < count; at_++) {
        int64_t l = at_ % d[3], k = at_ / d[3] % d[2], j = at_ / d[3] / d[2] % d[1];
        tli_ref_set(t, at_, fn(p, at_ / d[3] / d[2] / d[1], j, k, l));
    }
    return TL_OK;
}

static tl_status convolve2d_kernel(const tl_run *run, const tl_node *n)
{
    products p = products_of(n, n->in[0], n->in[1], n->out[0]);
    (void)run;
    return each_element(n->out[0], &p, result_element);
}

static tl_status convolve2d_input_grad_kernel(const tl_run *run, const tl_node *n)
{
    products p = products_of(n, n->out[0], n->in[1], n->in[0]);
    (void)run;
    return each_element(n->out[0], &p, image_element);
}

static tl_status convolve2d_filter_grad_kernel(const tl_run *run, const tl_node *n)
{
    products p = products_of(n, n->in[0], n->out[0], n->in[1]);
    (void)run;
    return each_element(n->out[0], &p, filter_element);
}

#define ROW(name) TL_INIT(TL_OP_##name, TL_DTYPE_COUNT, name##_kernel, TL_KERNEL_STRIDED)
static const tl_kernel rows[] = {ROW(convolve2d), ROW(convolve2d_input_grad),
                                 ROW(convolve2d_filter_grad)};
const tl_kernels tli_ref_conv = {rows, TL_COUNT(rows)};
